/* SPDX-License-Identifier: Apache-2.0 */
/* What `run` measures of a kernel at a shape, and what it shows of that. */
#ifndef NB_RUN_H
#define NB_RUN_H

#include "chain.h"
#include "limit.h"
#include "machine.h"
#include "shapes.h"

/* The participants of a pair: the slots of the CSV. */
enum { RUN_KERNEL, RUN_COPY, RUN_UNFUSED, RUN_SLOTS };

typedef struct run_cell {
    const nb_variant *variant;
    const nb_variant *copy;
    const nb_chain_plan *chain; /* the unfused one */
    nb_shape *shape;
    uint64_t iterations; /* of a repetition; 0: not calibrated yet */
    double *time_ns;     /* [repetitions] */
    double *ratio;       /* [repetitions] to the copy */
    double *fused_ratio; /* [repetitions] to the chain */
    size_t done;
    nb_limit limit; /* of the kernel, when all is measured */
    double error_u;
    uint32_t store_used, chain_store_used;
    bool failed, chain_failed;
} run_cell;

/* From now on a crash or a hang is reported with the cell's name, and ends the
 * program: a provider's fault must not look like ours. (The checks are made in a
 * child, see probe.h.) */
void nb_run_catch_crashes(void);

/* One repetition: check, time alone and interleaved, check again, write the rows.
 * A failed check fails the cell, not the run. NB_OK, or a status after a
 * message. */
int nb_run_cell(run_cell *cell, size_t repetition, const nb_topology *t, nb_csv *csv);

/* Of one call: the median of all repetitions. */
double nb_run_call_ns(const run_cell *cell);

/* The table. */
void nb_run_print(const run_cell *cells, size_t count, size_t repetitions, bool unfused);

#endif
