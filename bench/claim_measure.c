/* SPDX-License-Identifier: Apache-2.0 */
#include "claim.h"
#include "program.h"
#include "sweep.h"

#include <math.h>
#include <stdlib.h>

enum { PAIRS = 5 };

static void write_side(claim *c, const claim_cell *cell, size_t process, size_t side, size_t pair,
                       const nb_job_result *r, const char *failure, int *status)
{
    nb_csv_row row = nb_shape_row(cell->variants[side], cell->shape);
    row.process = process;
    row.repetition = pair;
    row.pair = (long)pair;
    row.slot = (long)side;
    row.error_ulp = r->error_u[side];
    if (failure)
        row.status = failure;
    else
        nb_job_observe(r, side, pair, &row);
    if (*status == NB_OK)
        *status = nb_csv_write(&c->record.csv, &row);
}

/* The participants in this order. */
static nb_job make_job(const claim *c, const claim_cell *cell, const size_t *order)
{
    nb_job job;
    nb_job_init(&job, cell->shape, &c->topology);
    job.pairs = PAIRS;
    job.budget_ns = c->options.quick ? 0.1e9 : 0.3e9;
    for (size_t i = 0; i < cell->count; i++)
        nb_job_add(&job, cell->variants[order[i]]);
    return job;
}

/* What came back, each participant at its own place again. */
static void sort_out(const nb_job_result *from, const size_t *order, size_t count,
                     nb_job_result *to)
{
    *to = *from;
    if (from->failed_side >= 0)
        to->failed_side = (int)order[from->failed_side];
    for (size_t i = 0; i < count; i++) {
        const size_t side = order[i];
        to->paired.batch[side] = from->paired.batch[i];
        for (size_t pair = 0; pair < from->paired.pairs; pair++)
            to->paired.time_ns[pair][side] = from->paired.time_ns[pair][i];
        to->error_u[side] = from->error_u[i];
        to->bytes[side] = from->bytes[i];
        to->flops[side] = from->flops[i];
        to->store_used[side] = from->store_used[i];
    }
}

/* In each process another order: what a participant finds depends on who was there
 * before, and such a bias must show in the interval. */
static void run_job(claim *c, const claim_cell *cell, size_t process, nb_job_result *result)
{
    static nb_job_result shuffled;
    const uint64_t seed = c->options.filters.seed * 1000 + process;
    size_t *order = nb_shuffled(cell->count, seed + cell->shape->working_set_bytes);
    const nb_job job = make_job(c, cell, order);
    nb_job_run_apart(&c->process, &job, &shuffled);
    sort_out(&shuffled, order, cell->count, result);
    free(order);
}

/* One process of one cell. A failed check or a crash ends this cell, not the
 * others; what else goes wrong ends the run. */
static int measure_cell(claim *c, claim_cell *cell, size_t process)
{
    static nb_job_result r;
    int status = NB_OK;
    run_job(c, cell, process, &r);
    if (r.status == NB_FAILED) {
        const size_t side = r.failed_side < 0 ? LAYER : (size_t)r.failed_side;
        nb_fail(NB_FAILED, "%s", r.error);
        cell->failed = true;
        write_side(c, cell, process, side, 0, &r, r.error, &status);
        return status;
    }
    if (r.status != NB_OK)
        return r.status == NB_INTERRUPTED ? r.status : nb_fail(r.status, "%s", r.error);
    for (size_t pair = 0; pair < r.paired.pairs; pair++)
        for (size_t side = 0; side < cell->count; side++)
            write_side(c, cell, process, side, pair, &r, NULL, &status);
    cell->results[cell->done++] = r;
    return status;
}

/* ---- Limits --------------------------------------------------------------- */

/* A call of a training step finds in the caches what others of it left: it has no limit of
 * its own. Where the level is unknown so is what must come from where. */
static bool has_limits(const claim_cell *cell)
{
    return !cell->training && !cell->shape->skipped && nb_shape_level(cell->shape);
}

static void want_limits(claim *c)
{
    if (c->options.filters.model.count && !c->options.axes) {
        const size_t threads = nb_topology_threads(&c->topology);
        const nb_pace *memory = nb_limits_want_level(&c->limits, threads, NB_MEMORY, -1);
        if (memory)
            c->memory = *memory;
    }
    for (size_t i = 0; i < c->count; i++)
        for (size_t side = 0; side < c->cells[i].count && has_limits(&c->cells[i]); side++)
            nb_limits_want(&c->limits, c->cells[i].variants[side], c->cells[i].shape);
}

/* What is measured once more for one serves all, in the end. The copy is what limits are
 * made of: it would be at its own by chance. */
static int find_limits(claim *c)
{
    int status = NB_OK;
    for (size_t i = 0; i < c->count; i++) {
        claim_cell *cell = &c->cells[i];
        for (size_t side = 0; side < cell->count && cell->done && has_limits(cell); side++)
            if (side != COPY && status == NB_OK)
                status = nb_limits_confirm(&c->limits, cell->variants[side], cell->shape,
                                           nb_claim_call_ns(cell, side));
    }
    for (size_t i = 0; i < c->count; i++)
        for (size_t side = 0; side < c->cells[i].count; side++)
            c->cells[i].limits[side] =
                has_limits(&c->cells[i])
                    ? nb_limits_of(&c->limits, c->cells[i].variants[side], c->cells[i].shape)
                    : (nb_limit){NAN, NB_LIMIT_UNKNOWN};
    return status;
}

int nb_claim_check_limits(const claim *c)
{
    int status = NB_OK;
    for (size_t i = 0; i < c->count; i++) {
        const claim_cell *cell = &c->cells[i];
        for (size_t side = 0; side < cell->count && cell->done; side++) {
            char name[NB_NAME_BYTES];
            nb_shape_name(cell->variants[side], cell->shape, name);
            if (side != COPY &&
                nb_limit_check(cell->limits[side], nb_claim_call_ns(cell, side), name) != NB_OK)
                status = NB_FAILED;
        }
    }
    return status;
}

/* ---- Cells ---------------------------------------------------------------- */

static char *name_of(void *context, size_t cell, char name[NB_NAME_BYTES])
{
    const claim_cell *c = &((const claim *)context)->cells[cell];
    return nb_shape_name(c->variants[RMS], c->shape, name);
}

static int measure_one(void *context, size_t cell, size_t process)
{
    claim *c = context;
    claim_cell *one = &c->cells[cell];
    if (process != c->round)
        nb_process_end(&c->process);
    c->round = process;
    return one->failed || one->shape->skipped ? NB_OK : measure_cell(c, one, process);
}

static int measure_cells(claim *c)
{
    const nb_sweep sweep = {.count = c->count,
                            .rounds = c->options.processes,
                            .seed = c->options.filters.seed,
                            .out = c->options.out,
                            .context = c,
                            .name = name_of,
                            .measure = measure_one};
    const int status = nb_sweep_run(&sweep);
    nb_process_end(&c->process);
    return status;
}

int nb_claim_measure(claim *c)
{
    want_limits(c);
    int status = nb_limits_measure(&c->limits);
    if (status == NB_OK)
        status = measure_cells(c);
    if (status == NB_OK)
        status = nb_limits_measure(&c->limits);
    return status == NB_OK ? find_limits(c) : status;
}
