/* SPDX-License-Identifier: Apache-2.0 */
#include "ab.h"
#include "program.h"
#include "sweep.h"

#include <math.h>
#include <stdlib.h>

enum { PAIRS = 5 };
static const double budget_ns = 0.25e9;

/* Whatever the place in the palindrome does, each side has it as often. */
static size_t side_at(size_t slot, size_t process)
{
    return slot ^ (process & 1);
}

static void write_row(ab *a, const ab_cell *cell, size_t process, size_t slot, size_t pair,
                      const nb_job_result *r, int *status)
{
    nb_csv_row row = nb_shape_row(cell->variants[side_at(slot, process)], cell->shape);
    row.process = process;
    row.repetition = pair;
    row.error_ulp = r->error_u[slot];
    if (r->status == NB_OK)
        nb_job_observe(r, slot, pair, &row);
    else
        row.status = r->error;
    if (*status == NB_OK)
        *status = nb_csv_write(&a->record.csv, &row);
}

/* A wrong result, a crash or a hang ends this cell, not the others. */
static int note_broken(ab *a, ab_cell *cell, size_t process, const nb_job_result *r)
{
    int status = NB_OK;
    const size_t slot = r->failed_side < 0 ? 0 : (size_t)r->failed_side;
    const char *who =
        r->failed_side < 0 ? "either" : cell->variants[side_at(slot, process)]->provider->label;
    cell->broken = nb_format("%s: %s", who, r->error);
    nb_fail(NB_FAILED, "%s", cell->broken);
    write_row(a, cell, process, slot, 0, r, &status);
    return status;
}

static void note_times(ab_cell *cell, size_t process, const nb_job_result *r)
{
    const size_t base = side_at(AB_BASE, process), head = side_at(AB_HEAD, process);
    for (size_t slot = 0; slot < AB_SIDES; slot++) {
        const size_t side = side_at(slot, process);
        double values[NB_PAIRS];
        for (size_t pair = 0; pair < r->paired.pairs; pair++)
            values[pair] = r->paired.time_ns[pair][slot];
        cell->time_ns[side][cell->done] = nb_median(values, r->paired.pairs);
        cell->error_u[side] = fmax(cell->error_u[side], r->error_u[slot]);
        cell->store_used[side] = r->store_used[slot];
    }
    cell->ratios[cell->done++] = nb_paired_ratio(&r->paired, head, base);
}

static int measure_cell(ab *a, ab_cell *cell, size_t process)
{
    static nb_job_result r;
    nb_job job;
    nb_job_init(&job, cell->shape, &a->topology);
    job.pairs = PAIRS;
    job.budget_ns = budget_ns;
    int status = NB_OK;
    for (size_t slot = 0; slot < AB_SIDES; slot++)
        nb_job_add(&job, cell->variants[side_at(slot, process)]);
    nb_process own = {0};
    nb_job_run_apart(&own, &job, &r);
    nb_process_end(&own);
    if (r.status == NB_FAILED)
        return note_broken(a, cell, process, &r);
    if (r.status != NB_OK)
        return r.status == NB_INTERRUPTED ? r.status : nb_fail(r.status, "%s", r.error);
    for (size_t pair = 0; pair < r.paired.pairs; pair++)
        for (size_t slot = 0; slot < AB_SIDES; slot++)
            write_row(a, cell, process, slot, pair, &r, &status);
    note_times(cell, process, &r);
    return status;
}

/* Cells that are measured together. */
typedef struct chosen {
    ab *a;
    ab_cell **cells;
    size_t count;
} chosen;

static char *name_of(void *context, size_t cell, char name[NB_NAME_BYTES])
{
    const ab_cell *c = ((const chosen *)context)->cells[cell];
    return nb_shape_name(c->variants[AB_HEAD], c->shape, name);
}

static int measure_one(void *context, size_t cell, size_t process)
{
    const chosen *c = context;
    return c->cells[cell]->broken ? NB_OK : measure_cell(c->a, c->cells[cell], process);
}

/* One round: each in so many processes. */
static int measure_round(chosen *c, size_t round)
{
    const ab_options *o = &c->a->options;
    const nb_sweep sweep = {.count = c->count,
                            .first = round * o->processes,
                            .rounds = o->processes,
                            .seed = o->filters.seed,
                            .out = o->csv,
                            .context = c,
                            .name = name_of,
                            .measure = measure_one};
    return nb_sweep_run(&sweep);
}

/* Whether a cell must be measured once more. What seems slower must be so again,
 * by itself; what cannot be told is told from both rounds together. */
static bool is_in_doubt(ab_cell *cell)
{
    const enum ab_verdict verdict = nb_ab_verdict(cell);
    if (verdict == AB_SLOWER)
        cell->first = cell->done;
    return verdict == AB_SLOWER || verdict == AB_UNSURE;
}

int nb_ab_measure(ab *a)
{
    const ab_result *r = &a->result;
    chosen c = {.a = a, .cells = nb_allocate(r->count * sizeof *c.cells)};
    for (size_t i = 0; i < r->count; i++)
        if (!r->cells[i].shape->skipped)
            c.cells[c.count++] = &r->cells[i];
    int status = measure_round(&c, 0);
    const size_t count = c.count;
    c.count = 0;
    for (size_t i = 0; i < count && status == NB_OK; i++)
        if (is_in_doubt(c.cells[i]))
            c.cells[c.count++] = c.cells[i];
    if (status == NB_OK && c.count)
        status = measure_round(&c, 1);
    free(c.cells);
    return status;
}
