/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine can do at the most, measured, and from that the least time
 * that a call can take: the limit that stands beside every time.
 *
 * A limit is the largest of
 *   slots    what must be loaded and stored, at the pace at which the ISA loads and
 *            stores in L1; what the registers cannot hold between the two readings
 *            of a row is loaded twice;
 *   flops    additions and multiplications, at the ISA's pace;
 *   lines    what must enter L1, at the pace of L2: the operands, and what of a row
 *            L1 cannot hold between the two readings;
 *   bytes    the operands, at the pace of the level where they lie;
 *   latency  one row: reduction, root and division.
 * Paces are those of a load, a store, a copy and a sum of two (with and without
 * non-temporal stores): a call that contains one of these cannot be faster. */
#ifndef NB_LIMIT_H
#define NB_LIMIT_H

#include "copy.h"
#include "loops.h"
#include "shapes.h"

#include <cjson/cJSON.h>

/* ---- What was measured -------------------------------------------------- */

/* At one size of working set, of all threads together. */
typedef struct nb_pace {
    size_t threads;
    int isa;               /* NK_ISA_... of an L1 pace; -1: the best that runs here */
    size_t bytes;          /* of each thread's working set */
    double flow[NB_FLOWS]; /* bytes per nanosecond, those read and those written */
    /* L1 paces only, else 0: */
    double fma_per_ns, add_per_ns, flops_per_ns;
    double latency_ns;
} nb_pace;

typedef struct nb_limits {
    const nb_topology *topology;
    bool runs[NK_ISAS]; /* there are loops for it, and this CPU can run them */
    nb_pace *paces;
    size_t count;
} nb_limits;

/* The ISAs are those of the copies, our own kernels that run here. */
void nb_limits_init(nb_limits *limits, const nb_topology *t, const nb_copies *copies);
void nb_limits_free(nb_limits *limits);

/* Notes the paces that the limit of a call needs. */
void nb_limits_want(nb_limits *limits, const nb_variant *variant, const nb_shape *shape);
/* Those of the levels, for `info`: with an ISA L1's, without beyond it. Returns NULL
 * where there is no such level. It stays valid until the next is wanted. */
const nb_pace *nb_limits_want_level(nb_limits *limits, size_t threads, int level, int isa);

/* Wants or finds a pace; only threads, isa and bytes of the key count. The loops of
 * an ISA that runs. */
nb_pace *nb_limits_add(nb_limits *limits, nb_pace key);
const nb_pace *nb_limits_find(const nb_limits *limits, nb_pace key);
const nb_loops *nb_limits_loops(int isa);

/* Measures all that is wanted, some 50 ms each. Once more keeps the better: the
 * machine's clock and its neighbours change. The caller is bound afterwards
 * (nb_team_start). NB_OK, or a status after a message. */
int nb_limits_measure(nb_limits *limits);
/* The same of one pace. */
int nb_limits_measure_one(nb_limits *limits, nb_pace key);

/* As an array for the machine file. */
cJSON *nb_limits_json(const nb_limits *limits);

/* ---- The limit of a call ------------------------------------------------ */

enum nb_limit_kind {
    NB_LIMIT_UNKNOWN,
    NB_LIMIT_SLOTS,
    NB_LIMIT_FLOPS,
    NB_LIMIT_LINES,
    NB_LIMIT_BYTES,
    NB_LIMIT_LATENCY
};
extern const char *const nb_limit_names[]; /* NULL for UNKNOWN */

typedef struct nb_limit {
    double ns; /* NAN if unknown */
    enum nb_limit_kind kind;
} nb_limit;

/* From what was measured; unknown if the paces were not. */
nb_limit nb_limits_of(const nb_limits *limits, const nb_variant *variant, const nb_shape *shape);

/* Where a call takes less time than its limit, its paces are measured some times more: a
 * neighbour on the same core may have halved them. NB_OK, or a status after a message. */
int nb_limits_confirm(nb_limits *limits, const nb_variant *variant, const nb_shape *shape,
                      double time_ns);

/* The limit over the time; NAN if either is unknown. */
double nb_limit_share(nb_limit limit, double time_ns);
/* Nothing is faster than its limit: NB_OK, or NB_FAILED after a message about the cell of
 * this name. */
int nb_limit_check(nb_limit limit, double time_ns, const char *name);

/* Adds "limit_ns" and "limited_by", null where unknown, to a cell of the machine file
 * (nb_record_cell); NULL is allowed. */
void nb_limit_add_json(cJSON *cell, nb_limit limit);

/* The time of a call that reads and writes so many bytes, as one of those flows that it
 * contains would take. */
double nb_limits_flow_ns(const nb_pace *pace, double read, double written);

#endif
