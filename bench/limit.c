/* SPDX-License-Identifier: Apache-2.0 */
/* The least time of a call, from what it must do and what was measured. */
#include "level.h"
#include "limit.h"
#include "program.h"

#include <limits.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

const char *const nb_limit_names[] = {
    [NB_LIMIT_UNKNOWN] = NULL,  [NB_LIMIT_SLOTS] = "slots", [NB_LIMIT_FLOPS] = "flops",
    [NB_LIMIT_LINES] = "lines", [NB_LIMIT_BYTES] = "bytes", [NB_LIMIT_LATENCY] = "latency",
};
static const double tolerance = 1.02; /* a share above this means that the limit is wrong */

/* Registers of any of the ISAs, and instructions that a core may have under way:
 * at the least as many as there are. */
enum { REGISTERS = 32, WINDOW = 1024 };
enum { UNKNOWN_L1 = 16 << 10 }; /* lies in any L1 */

/* ---- What a call must do ------------------------------------------------ */

typedef struct demand {
    double read, written; /* bytes of all operands */
    double row;           /* bytes of what is read twice in each row; 0: nothing is */
    double flops;         /* NAN: unknown */
} demand;

/* The limit is the operation's: an algorithm of more work must not have an easier one. */
static int fewest_flops(int op)
{
    int fewest = INT_MAX;
    for (size_t i = 0; i < nk_algorithm_count; i++)
        if (nk_algorithms[i].op == op && nk_algorithms[i].flops < fewest)
            fewest = nk_algorithms[i].flops;
    return fewest;
}

static demand demand_of(const nb_variant *v, const nb_shape *shape)
{
    const nb_workspace_spec *spec = &shape->spec;
    const uint32_t takes = spec->operands ? spec->operands : nb_operands_usual(spec->op);
    const uint32_t has = takes & nb_operands_all(v->op);
    demand d = {.flops = NAN};
    int params = 0;
    for (int i = 0; i < NK_OPERANDS; i++) {
        if (!(has >> i & 1))
            continue;
        const size_t each = nk_operands[i].shape == NK_SHAPE_COLUMN ? shape->threads : 1;
        const double bytes = (double)(each * nk_operand_elements(i, spec->rows, spec->hidden) *
                                      nk_operand_element_bytes(i, spec->dtype, spec->flags));
        const enum nk_direction direction = nk_operand_direction(v->op, i);
        d.read += direction == NK_DIRECTION_OUT ? 0 : bytes;
        d.written += direction == NK_DIRECTION_IN ? 0 : bytes;
        params += nk_operands[i].shape == NK_SHAPE_COLUMN;
    }
    /* A norm looks at a row before it changes it; of a part of the row only if it is
     * a partial one. */
    const uint32_t options = nk_ops[v->op].options;
    if ((options & NK_TAKES_EPS) && !(options & NK_TAKES_FRACTION))
        d.row = (double)(spec->hidden * nk_dtypes[spec->dtype].bytes);
    if (v->algorithm)
        d.flops = (double)spec->rows * (double)spec->hidden * (fewest_flops(v->op) + params);
    return d;
}

/* ---- What was measured -------------------------------------------------- */

/* A stranger's ISA is but a name: what it does is held against the best. */
static int isa_of(const nb_limits *limits, const nb_variant *v)
{
    const int isa = nk_isa_index(v->kernel->isa);
    if (!v->provider->foreign && isa >= 0 && limits->runs[isa])
        return isa;
    int best = -1;
    for (int i = 0; i < NK_ISAS; i++)
        best = limits->runs[i] ? i : best;
    return best;
}

typedef struct place {
    size_t bytes;   /* of each thread's working set */
    size_t l1, l2;  /* of the caches, for each thread; 0: unknown */
    size_t beneath; /* of all caches that the working set exceeds */
} place;

static place place_of(const nb_limits *limits, const nb_shape *shape)
{
    const nb_topology *t = limits->topology;
    place p = {.bytes = shape->working_set_bytes / shape->threads,
               .l1 = nb_topology_share(t, NB_CACHE_L1D, shape->threads),
               .l2 = nb_topology_share(t, NB_CACHE_L2, shape->threads)};
    size_t sum = 0;
    for (int i = 0; i < NB_CACHES; i++) {
        const size_t cache = nb_topology_share(t, i, shape->threads);
        if (p.bytes > cache)
            p.beneath = sum += cache; /* what one evicts the next may hold */
    }
    return p;
}

/* Down to a power of two, or one and a half of it, so that few sizes are measured: a
 * smaller working set is not slower. */
static size_t rounded(size_t bytes)
{
    size_t power = 1;
    while (power * 2 <= bytes)
        power *= 2;
    return power + power / 2 <= bytes ? power + power / 2 : power;
}

/* What a cache keeps from call to call must not enter again. Below twice its size
 * the order of the calls decides how much that is: all of it, at the most. There the
 * pace is that of twice its size. */
static double entering(size_t bytes, size_t cache)
{
    return bytes >= 2 * cache ? 1 : bytes > cache ? (double)(bytes - cache) / (double)bytes : 0;
}

static size_t measured_at(size_t bytes, size_t cache)
{
    return rounded(bytes > 2 * cache ? bytes : 2 * cache);
}

static nb_pace slots_key(const nb_limits *limits, const nb_variant *v, const nb_shape *shape)
{
    const size_t l1 = nb_topology_share(limits->topology, NB_CACHE_L1D, shape->threads);
    return (nb_pace){
        .threads = shape->threads, .isa = isa_of(limits, v), .bytes = l1 ? l1 / 2 : UNKNOWN_L1};
}

/* L2's pace, or that of the working set where this is smaller. */
static nb_pace lines_key(const nb_shape *shape, const place *p)
{
    const size_t half = p->l2 / 2 > 2 * p->l1 ? p->l2 / 2 : 2 * p->l1;
    return (nb_pace){.threads = shape->threads,
                     .isa = -1,
                     .bytes = measured_at(p->bytes < half ? p->bytes : half, p->l1)};
}

/* That of half the working set: what is written past the caches takes no room there. */
static nb_pace bytes_key(const nb_shape *shape, const place *p)
{
    return (nb_pace){
        .threads = shape->threads, .isa = -1, .bytes = measured_at(p->bytes / 2, p->beneath)};
}

void nb_limits_want(nb_limits *limits, const nb_variant *v, const nb_shape *shape)
{
    const place p = place_of(limits, shape);
    /* Threads that wait for one another's CPU have no pace. */
    if (isa_of(limits, v) < 0 || shape->threads > limits->topology->place_count)
        return;
    nb_limits_add(limits, slots_key(limits, v, shape));
    if (p.l1 && p.bytes > p.l1)
        nb_limits_add(limits, lines_key(shape, &p));
    if (p.l1 && p.beneath > p.l1)
        nb_limits_add(limits, bytes_key(shape, &p));
}

/* ---- The limit ---------------------------------------------------------- */

static double pace_of(const nb_pace *p, enum nb_flow flow, enum nb_flow streamed)
{
    return fmax(p->flow[flow], p->flow[streamed]);
}

/* A call that reads and writes so much contains so large a load, store, copy and
 * sum of two, and takes no less time than any of them. */
double nb_limits_flow_ns(const nb_pace *p, double read, double written)
{
    const double load = read / p->flow[NB_LOAD];
    const double store = written / pace_of(p, NB_STORE, NB_STREAM_STORE);
    const double copy = 2 * fmin(read, written) / pace_of(p, NB_COPY, NB_STREAM_COPY);
    const double add = 3 * fmin(read / 2, written) / pace_of(p, NB_ADD, NB_STREAM_ADD);
    return fmax(fmax(load, store), fmax(copy, add));
}

static double beyond(double bytes, double room)
{
    return bytes > room ? bytes - room : 0;
}

static void raise_to(nb_limit *limit, enum nb_limit_kind kind, double ns)
{
    if (isfinite(ns) && !(ns <= limit->ns))
        *limit = (nb_limit){ns, kind};
}

static void apply_slots(const nb_limits *limits, const nb_variant *v, const nb_shape *shape,
                        const demand *d, nb_limit *limit)
{
    const nb_pace *slots = nb_limits_find(limits, slots_key(limits, v, shape));
    if (!slots || !(slots->flops_per_ns > 0))
        return;
    const nb_loops *loops = nb_limits_loops(slots->isa);
    const double again =
        (double)shape->spec.rows * beyond(d->row, (double)(REGISTERS * loops->register_bytes));
    /* Of a mix no loop is surely the fastest: either alone is a limit. */
    raise_to(limit, NB_LIMIT_SLOTS, (d->read + again) / slots->flow[NB_LOAD]);
    raise_to(limit, NB_LIMIT_SLOTS, d->written / slots->flow[NB_STORE]);
    if (!v->provider->foreign)
        raise_to(limit, NB_LIMIT_FLOPS, d->flops / slots->flops_per_ns);
    /* The waits of two calls cannot overlap if more instructions lie between. */
    const double loads = 2 * (double)shape->spec.hidden / ((double)loops->lanes / 2);
    if (shape->spec.rows == 1 && d->row > 0 && loads >= WINDOW)
        raise_to(limit, NB_LIMIT_LATENCY, slots->latency_ns);
}

static void apply_lines(const nb_limits *limits, const nb_shape *shape, const demand *d,
                        nb_limit *limit)
{
    const place p = place_of(limits, shape);
    if (!p.l1 || p.bytes <= p.l1)
        return;
    const nb_pace *lines = nb_limits_find(limits, lines_key(shape, &p));
    const double share = entering(p.bytes, p.l1);
    const double again = (double)shape->spec.rows * beyond(d->row, (double)p.l1);
    if (lines && lines->flow[NB_LOAD] > 0)
        raise_to(limit, NB_LIMIT_LINES,
                 nb_limits_flow_ns(lines, d->read * share + again, d->written * share));
    if (p.beneath <= p.l1)
        return;
    const nb_pace *bytes = nb_limits_find(limits, bytes_key(shape, &p));
    const double part = entering(p.bytes, p.beneath);
    if (bytes && bytes->flow[NB_LOAD] > 0)
        raise_to(limit, NB_LIMIT_BYTES,
                 nb_limits_flow_ns(bytes, d->read * part, d->written * part));
}

nb_limit nb_limits_of(const nb_limits *limits, const nb_variant *v, const nb_shape *shape)
{
    nb_limit limit = {NAN, NB_LIMIT_UNKNOWN};
    const demand d = demand_of(v, shape);
    apply_slots(limits, v, shape, &d, &limit);
    apply_lines(limits, shape, &d, &limit);
    return limit;
}

double nb_limit_share(nb_limit limit, double time_ns)
{
    return limit.ns / time_ns;
}

int nb_limit_check(nb_limit limit, double time_ns, const char *name)
{
    const double share = nb_limit_share(limit, time_ns);
    return share > tolerance
               ? nb_fail(NB_FAILED,
                         "%s: %.2f of its limit by %s: the limit is wrong, or the work is not "
                         "done when it is timed",
                         name, share, nb_limit_names[limit.kind])
               : NB_OK;
}

/* Measures once more what the limit of this call needs, by way of a list of its own,
 * which holds no more than that. */
static int measure_again(nb_limits *limits, const nb_variant *v, const nb_shape *shape)
{
    nb_limits own = *limits;
    own.paces = NULL;
    own.count = 0;
    nb_limits_want(&own, v, shape);
    int status = NB_OK;
    for (size_t i = 0; i < own.count && status == NB_OK; i++)
        status = nb_limits_measure_one(limits, own.paces[i]);
    nb_limits_free(&own);
    return status;
}

int nb_limits_confirm(nb_limits *limits, const nb_variant *v, const nb_shape *shape, double time_ns)
{
    enum { TRIES = 8, PAUSE_US = 200000 };
    int status = NB_OK;
    for (size_t i = 0; i < TRIES && status == NB_OK &&
                       nb_limit_share(nb_limits_of(limits, v, shape), time_ns) > tolerance;
         i++) {
        usleep(PAUSE_US);
        status = measure_again(limits, v, shape);
    }
    return status;
}

void nb_limit_add_json(cJSON *cell, nb_limit limit)
{
    if (!cell)
        return;
    const bool known = limit.kind != NB_LIMIT_UNKNOWN;
    cJSON_AddItemToObject(cell, "limit_ns",
                          known ? cJSON_CreateNumber(limit.ns) : cJSON_CreateNull());
    cJSON_AddItemToObject(cell, "limited_by",
                          known ? cJSON_CreateString(nb_limit_names[limit.kind])
                                : cJSON_CreateNull());
}
