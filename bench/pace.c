/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring what the machine does at the most. */
#include "limit.h"
#include "interrupt.h"
#include "level.h"
#include "program.h"
#include "team.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

const char *const nb_flow_names[NB_FLOWS] = {[NB_LOAD] = "load",
                                             [NB_STORE] = "store",
                                             [NB_COPY] = "copy",
                                             [NB_ADD] = "add",
                                             [NB_STREAM_STORE] = "stream_store",
                                             [NB_STREAM_COPY] = "stream_copy",
                                             [NB_STREAM_ADD] = "stream_add"};

#define NB_LOOPS(isa) extern const nb_loops nb_unit_loops_##isa;
#include "loops.def"
static const nb_loops *const all_loops[] = {
#define NB_LOOPS(isa) &nb_unit_loops_##isa,
#include "loops.def"
};
enum { UNITS = sizeof all_loops / sizeof all_loops[0] };

/* ---- What is wanted ----------------------------------------------------- */

void nb_limits_init(nb_limits *limits, const nb_topology *t, const nb_copies *copies)
{
    *limits = (nb_limits){.topology = t};
    for (size_t i = 0; i < copies->variants.count; i++) {
        const int isa = nk_isa_index(copies->variants.items[i].kernel->isa);
        for (size_t u = 0; u < UNITS; u++)
            if (all_loops[u]->isa == isa)
                limits->runs[isa] = true;
    }
}

void nb_limits_free(nb_limits *limits)
{
    free(limits->paces);
    *limits = (nb_limits){0};
}

const nb_loops *nb_limits_loops(int isa)
{
    size_t unit = 0;
    while (unit + 1 < UNITS && all_loops[unit]->isa != isa)
        unit++;
    return all_loops[unit];
}

const nb_pace *nb_limits_find(const nb_limits *limits, nb_pace key)
{
    for (size_t i = 0; i < limits->count; i++) {
        const nb_pace *p = &limits->paces[i];
        if (p->threads == key.threads && p->isa == key.isa && p->bytes == key.bytes)
            return p;
    }
    return NULL;
}

nb_pace *nb_limits_add(nb_limits *limits, nb_pace key)
{
    const nb_pace *there = nb_limits_find(limits, key);
    if (there)
        return &limits->paces[there - limits->paces];
    limits->paces = nb_reallocate(limits->paces, (limits->count + 1) * sizeof *limits->paces);
    limits->paces[limits->count] = key;
    return &limits->paces[limits->count++];
}

const nb_pace *nb_limits_want_level(nb_limits *limits, size_t threads, int level, int isa)
{
    const nb_topology *t = limits->topology;
    const size_t row = 4096; /* as fine as the levels are cut */
    char *reason;
    const size_t rows = nb_level_rows(t, (enum nb_level)level, threads, 0, row, &reason);
    free(reason);
    return rows ? nb_limits_add(limits,
                                (nb_pace){.threads = threads, .isa = isa, .bytes = rows * row})
                : NULL;
}

/* ---- Bytes -------------------------------------------------------------- */

/* Loads and stores of a flow that go through memory: buffers. */
static size_t buffers_of(enum nb_flow flow)
{
    return flow == NB_LOAD || flow == NB_STORE || flow == NB_STREAM_STORE ? 1
           : flow == NB_ADD || flow == NB_STREAM_ADD                      ? 3
                                                                          : 2;
}

/* Shares of a working set of so many bytes, in pages of their own; inputs begin in
 * the first half of a page, outputs in the second (see workspace.h). */
enum { PAGE = 4096, OTHER = 256, TO = 2048 };

typedef struct arena {
    unsigned char *start;
    size_t bytes;
} arena;

/* A working set is walked over part by part: one of a GB would take longer to be walked
 * over once than all else to be measured. */
static size_t parts_of(size_t working_set)
{
    enum { PART = 32 << 20 };
    return working_set < PART ? 1 : working_set / PART;
}

static nb_flow_buffers buffers_in(const arena *a, size_t working_set, enum nb_flow flow,
                                  size_t part)
{
    const size_t step = NB_LOOP_STEP * sizeof(float), parts = parts_of(working_set);
    const size_t each = working_set / buffers_of(flow) / parts / step * step;
    const size_t span = (parts * each / PAGE + 2) * PAGE;
    unsigned char *start = a->start + part % parts * each;
    return (nb_flow_buffers){.from = (const float *)(const void *)start,
                             .other = (const float *)(const void *)(start + span + OTHER),
                             .to = (float *)(void *)(start + (buffers_of(flow) - 1) * span + TO),
                             .count = each / sizeof(float)};
}

static bool map(arena *a, size_t working_set)
{
    a->bytes = working_set + 8 * PAGE;
    void *p = mmap(NULL, a->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    a->start = p == MAP_FAILED ? NULL : p;
    return a->start;
}

/* ---- Timing ------------------------------------------------------------- */

/* What a thread does in one measured piece. */
typedef struct task {
    const nb_loops *loops;
    enum nb_flow flow;
    size_t shape;
    void (*steps)(size_t steps); /* instead of the flow */
    size_t repeats;
    size_t part; /* of the working set, that the first repeat is of */
    size_t working_set;
    size_t threads;
    arena *arenas;    /* [threads] */
    double *spent_ns; /* [threads] */
} task;

static void touch(void *context, size_t thread)
{
    const task *t = context;
    arena *a = &t->arenas[thread];
    if (map(a, t->working_set))
        memset(a->start, 0x3c, a->bytes); /* floats of ordinary size */
}

/* The CPU's time that the calling thread was given. */
static double thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void perform(void *context, size_t thread)
{
    const task *t = context;
    const double start = thread_ns();
    if (t->steps)
        t->steps(t->repeats);
    for (size_t i = 0; i < t->repeats && !t->steps; i++) {
        const nb_flow_buffers b =
            buffers_in(&t->arenas[thread], t->working_set, t->flow, t->part + i);
        t->loops->flow[t->flow][t->shape](&b);
    }
    t->spent_ns[thread] = thread_ns() - start;
}

/* Of the slowest thread, while it ran: where threads must take turns with others they
 * are timed as if they need not, and a limit is too low rather than too high. */
static double time_ns(nb_team *team, task *t)
{
    double longest = 0;
    nb_team_run(team, perform, t);
    t->part += t->repeats;
    for (size_t i = 0; i < t->threads; i++)
        longest = fmax(longest, t->spent_ns[i]);
    return longest;
}

/* Of one repeat, in pieces that are long against what it takes to read a clock: the
 * shortest of several tries is the one that nothing disturbed. */
static double best_ns(nb_team *team, task *t)
{
    enum { PIECE_NS = 50000, BUDGET_NS = 2000000, TRIES = 3 };
    const double start = nb_now_ns();
    double best;
    for (t->repeats = 1; (best = time_ns(team, t)) < PIECE_NS;)
        t->repeats *= 2;
    for (size_t i = 1; i < TRIES || nb_now_ns() - start < BUDGET_NS; i++)
        best = fmin(best, time_ns(team, t));
    return best / (double)t->repeats;
}

static void keep_better(double *pace, double measured)
{
    *pace = fmax(*pace, measured);
}

static void measure_flows(nb_team *team, task *t, nb_pace *pace)
{
    for (t->flow = 0; t->flow < NB_FLOWS; t->flow++) {
        const nb_flow_buffers b = buffers_in(&t->arenas[0], t->working_set, t->flow, 0);
        const double bytes = (double)(b.count * sizeof(float) * buffers_of(t->flow));
        for (t->shape = 0; t->shape < NB_SHAPES; t->shape++)
            keep_better(&pace->flow[t->flow], bytes * (double)pace->threads / best_ns(team, t));
    }
}

static double steps_per_ns(nb_team *team, task *t, void (*steps)(size_t))
{
    t->steps = steps;
    const double ns = best_ns(team, t);
    t->steps = NULL;
    return 1 / ns;
}

static void measure_arithmetic(nb_team *team, task *t, nb_pace *pace)
{
    const double lanes = (double)t->loops->lanes * (double)pace->threads;
    const double fused = 6 * lanes * steps_per_ns(team, t, t->loops->fused);
    const double added = 6 * lanes * steps_per_ns(team, t, t->loops->additions);
    const double both = (4 * 2 + 3) * lanes * steps_per_ns(team, t, t->loops->both);
    const double waits = 1 / steps_per_ns(team, t, t->loops->latency);
    keep_better(&pace->fma_per_ns, fused);
    keep_better(&pace->add_per_ns, added);
    keep_better(&pace->flops_per_ns, fmax(fmax(2 * fused, added), both));
    pace->latency_ns = pace->latency_ns > 0 ? fmin(pace->latency_ns, waits) : waits;
}

/* An ISA brings those before it in isa.def; beyond L1 a single element at a time
 * is never the best. */
static bool takes_part(const nb_limits *limits, const nb_pace *pace, const nb_loops *loops)
{
    bool best = true;
    for (int isa = loops->isa + 1; isa < NK_ISAS; isa++)
        best = best && !limits->runs[isa];
    if (!limits->runs[loops->isa])
        return false;
    return pace->isa < 0 ? loops->isa != NK_ISA_scalar || best : loops->isa <= pace->isa;
}

static int measure_pace(const nb_limits *limits, nb_team *team, nb_pace *pace)
{
    task t = {.working_set = pace->bytes, .threads = pace->threads};
    t.arenas = nb_allocate(pace->threads * sizeof *t.arenas);
    t.spent_ns = nb_allocate(pace->threads * sizeof *t.spent_ns);
    nb_team_run(team, touch, &t);
    bool mapped = true;
    for (size_t i = 0; i < pace->threads; i++)
        mapped = mapped && t.arenas[i].start;
    for (size_t u = 0; u < UNITS && mapped; u++) {
        t.loops = all_loops[u];
        if (!takes_part(limits, pace, t.loops))
            continue;
        measure_flows(team, &t, pace);
        if (pace->isa >= 0)
            measure_arithmetic(team, &t, pace);
    }
    for (size_t i = 0; i < pace->threads; i++)
        if (t.arenas[i].start)
            munmap(t.arenas[i].start, t.arenas[i].bytes);
    free(t.arenas);
    free(t.spent_ns);
    return mapped ? NB_OK : nb_fail(NB_MACHINE, "cannot map %zu bytes for the limits", pace->bytes);
}

static int measure_one(const nb_limits *limits, nb_pace *pace)
{
    int *cpus = nb_allocate(pace->threads * sizeof *cpus);
    nb_topology_cpus(limits->topology, pace->threads, cpus);
    nb_team *team = nb_team_start(cpus, pace->threads);
    const int status = team ? measure_pace(limits, team, pace) : NB_MACHINE;
    nb_team_stop(team);
    free(cpus);
    return nb_interrupted ? nb_fail(NB_INTERRUPTED, "interrupted") : status;
}

int nb_limits_measure(nb_limits *limits)
{
    int status = NB_OK;
    for (size_t i = 0; i < limits->count && status == NB_OK; i++)
        status = measure_one(limits, &limits->paces[i]);
    return status;
}

int nb_limits_measure_one(nb_limits *limits, nb_pace key)
{
    return measure_one(limits, nb_limits_add(limits, key));
}

/* ---- For the machine file ----------------------------------------------- */

cJSON *nb_limits_json(const nb_limits *limits)
{
    cJSON *list = cJSON_CreateArray();
    for (size_t i = 0; i < limits->count; i++) {
        const nb_pace *p = &limits->paces[i];
        cJSON *object = cJSON_CreateObject();
        cJSON_AddNumberToObject(object, "threads", (double)p->threads);
        cJSON_AddItemToObject(object, "isa",
                              p->isa < 0 ? cJSON_CreateNull()
                                         : cJSON_CreateString(nk_isas[p->isa].name));
        cJSON_AddNumberToObject(object, "working_set_bytes", (double)p->bytes * (double)p->threads);
        for (enum nb_flow f = 0; f < NB_FLOWS; f++) {
            char name[48];
            snprintf(name, sizeof name, "%s_bytes_per_s", nb_flow_names[f]);
            cJSON_AddNumberToObject(object, name, p->flow[f] * 1e9);
        }
        if (p->isa >= 0) {
            cJSON_AddNumberToObject(object, "fma_per_s", p->fma_per_ns * 1e9);
            cJSON_AddNumberToObject(object, "add_per_s", p->add_per_ns * 1e9);
            cJSON_AddNumberToObject(object, "flops_per_s", p->flops_per_ns * 1e9);
            cJSON_AddNumberToObject(object, "latency_ns", p->latency_ns);
        }
        cJSON_AddItemToArray(list, object);
    }
    return list;
}
