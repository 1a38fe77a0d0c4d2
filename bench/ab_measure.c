/* SPDX-License-Identifier: Apache-2.0 */
#include "ab.h"
#include "interrupt.h"
#include "program.h"
#include "progress.h"

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
    nb_job_run_apart(&job, &r);
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

/* One round: every chosen cell in so many processes, in a shuffled order. */
static int measure_round(ab *a, ab_cell **cells, size_t count, size_t round)
{
    const size_t processes = a->options.processes;
    nb_progress progress;
    nb_progress_start(&progress, count * processes);
    int status = NB_OK;
    for (size_t p = round * processes; p < (round + 1) * processes && status == NB_OK; p++) {
        size_t *order = nb_shuffled(count, a->options.filters.seed + p);
        for (size_t i = 0; i < count && status == NB_OK; i++) {
            ab_cell *cell = cells[order[i]];
            char name[NB_NAME_BYTES];
            nb_progress_step(&progress, nb_shape_name(cell->variants[AB_HEAD], cell->shape, name));
            if (!cell->broken)
                status = measure_cell(a, cell, p);
            if (nb_interrupted)
                status = NB_INTERRUPTED;
        }
        free(order);
    }
    nb_progress_clear(&progress);
    return status;
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
    ab_cell **cells = nb_allocate(r->count * sizeof *cells);
    size_t count = 0, doubtful = 0;
    for (size_t i = 0; i < r->count; i++)
        if (!r->cells[i].shape->skipped)
            cells[count++] = &r->cells[i];
    int status = measure_round(a, cells, count, 0);
    for (size_t i = 0; i < count && status == NB_OK; i++)
        if (is_in_doubt(cells[i]))
            cells[doubtful++] = cells[i];
    if (status == NB_OK && doubtful)
        status = measure_round(a, cells, doubtful, 1);
    free(cells);
    if (status == NB_INTERRUPTED)
        nb_fail(status, "interrupted%s%s", a->options.csv ? "; what is finished stays in " : "",
                a->options.csv ? a->options.csv : "");
    return status;
}
