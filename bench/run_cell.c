/* SPDX-License-Identifier: Apache-2.0 */
/* One repetition of one cell: through Google Benchmark, then interleaved with a
 * copy of the same rows, and with the unfused chain where there is one. */
#include "copy.h"
#include "gbench.h"
#include "paired.h"
#include "probe.h"
#include "program.h"
#include "run.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HANG_S = 4 }; /* more than a repetition takes, calibration included */
static const double min_seconds = 0.01, paired_budget_ns = 0.02e9;

static char now_running[NB_NAME_BYTES]; /* what a crash is reported with */

static void crashed(int signal)
{
    static const char crash[] = "\nnormbench: crashed in ", hang[] = "\nnormbench: hung in ",
                      after[] = "\n";
    ssize_t n = signal == SIGALRM ? write(STDERR_FILENO, hang, sizeof hang - 1)
                                  : write(STDERR_FILENO, crash, sizeof crash - 1);
    n += write(STDERR_FILENO, now_running, strlen(now_running));
    n += write(STDERR_FILENO, after, sizeof after - 1);
    (void)n;
    _exit(NB_FAILED);
}

void nb_run_catch_crashes(void)
{
    const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM};
    const struct sigaction action = {.sa_handler = crashed};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaction(signals[i], &action, NULL);
}

typedef struct repetition {
    nb_csv *csv;
    size_t index;
    nb_stage stage;
    nb_side sides[RUN_COPY + 1];
    nb_chain chain; /* if it has links */
    nb_gbench alone;
    nb_paired_result paired;
} repetition;

static size_t slots(const repetition *now)
{
    return now->chain.count ? RUN_UNFUSED + 1 : RUN_COPY + 1;
}

/* ---- Rows --------------------------------------------------------------- */

static nb_csv_row cell_row(const run_cell *cell, const repetition *now)
{
    nb_csv_row row = nb_shape_row(cell->variant, cell->shape);
    row.repetition = now->index;
    row.error_ulp = cell->error_u;
    return row;
}

static nb_csv_row chain_row(const run_cell *cell, const repetition *now)
{
    nb_csv_row row = cell_row(cell, now);
    row.algorithm = nb_unfused;
    row.error_ulp = now->chain.fused.error_u;
    if (cell->chain->scratch)
        row.working_set_bytes += nb_workspace_scratch_bytes(&cell->shape->spec);
    row.bytes = nb_chain_bytes(&now->chain);
    row.flops = nb_chain_flops(&now->chain);
    return row;
}

static nb_csv_row side_row(const run_cell *cell, const repetition *now, size_t slot)
{
    nb_csv_row row = cell_row(cell, now);
    if (slot == RUN_COPY) {
        row = nb_shape_row(cell->copy, cell->shape);
        row.repetition = now->index;
    }
    row.bytes = nb_side_bytes(&now->sides[slot]);
    row.flops = nb_side_flops(&now->sides[slot]);
    return row;
}

static nb_csv_row paired_row(const run_cell *cell, const repetition *now, size_t slot)
{
    const nb_paired_result *p = &now->paired;
    nb_csv_row row = slot == RUN_UNFUSED ? chain_row(cell, now) : side_row(cell, now, slot);
    row.iterations = p->batch[slot] ? 2 * p->batch[slot] * p->rounds[0] : now->alone.iterations;
    row.time_ns = p->time_ns[0][slot];
    row.pair = (long)now->index;
    row.slot = (long)slot;
    return row;
}

/* The kernel alone, then what was interleaved. */
static int write_rows(const run_cell *cell, const repetition *now)
{
    nb_csv_row alone = side_row(cell, now, RUN_KERNEL);
    alone.iterations = now->alone.iterations;
    alone.time_ns = now->alone.time_ns;
    int status = nb_csv_write(now->csv, &alone);
    for (size_t slot = 0; slot < slots(now) && status == NB_OK; slot++) {
        const nb_csv_row row = paired_row(cell, now, slot);
        status = nb_csv_write(now->csv, &row);
    }
    return status;
}

/* Says what a check found, in a row without a time; takes `wrong`. */
static int write_wrong(const repetition *now, nb_csv_row row, char *wrong)
{
    row.status = wrong;
    row.bytes = row.flops = NAN;
    nb_fail(NB_FAILED, "%s%s: %s", now_running, row.algorithm == nb_unfused ? ", unfused" : "",
            wrong);
    const int status = nb_csv_write(now->csv, &row);
    free(wrong);
    return status;
}

/* ---- Checks ------------------------------------------------------------- */

/* A chain that is wrong is left out from then on; the kernel is timed. */
static int check_chain(run_cell *cell, repetition *now)
{
    char *wrong = now->chain.count ? nb_chain_check(&now->chain) : NULL;
    if (!wrong)
        return NB_OK;
    const int status = write_wrong(now, chain_row(cell, now), wrong);
    nb_chain_free(&now->chain);
    cell->chain_failed = true;
    return status;
}

/* Of the kernel: NULL, or a text that it takes. */
static int judge(run_cell *cell, repetition *now, char *wrong)
{
    cell->error_u = now->sides[RUN_KERNEL].error_u;
    if (!wrong)
        return NB_OK;
    cell->failed = true;
    return write_wrong(now, cell_row(cell, now), wrong);
}

static int check(run_cell *cell, repetition *now)
{
    const int status = judge(cell, now, nb_side_check(&now->sides[RUN_KERNEL]));
    return status == NB_OK && !cell->failed ? check_chain(cell, now) : status;
}

/* ---- Times -------------------------------------------------------------- */

/* The first time Google Benchmark chooses how many calls are long enough, for the others too. */
static int time_kernel(run_cell *cell, repetition *now)
{
    const bool ok = nb_gbench_run(now_running, nb_side_run, &now->sides[RUN_KERNEL],
                                  cell->iterations, min_seconds, &now->alone);
    cell->iterations = now->alone.iterations;
    return ok ? NB_OK : nb_fail(NB_FAILED, "%s: Google Benchmark reported nothing", now_running);
}

static int measure_often(run_cell *cell, repetition *now)
{
    const int status = time_kernel(cell, now);
    const nb_participant all[] = {
        [RUN_KERNEL] = {.run = nb_side_run,
                        .context = &now->sides[RUN_KERNEL],
                        .call_ns = now->alone.time_ns},
        [RUN_COPY] = {.run = nb_side_run, .context = &now->sides[RUN_COPY]},
        [RUN_UNFUSED] = {.run = nb_chain_run, .context = &now->chain}};
    const nb_paired plan = {.participants = all,
                            .count = slots(now),
                            .pairs = 1,
                            .batch_ns = NB_BATCH_NS,
                            .budget_ns = paired_budget_ns,
                            .now_ns = nb_now_ns};
    if (status == NB_OK)
        nb_paired_measure(&plan, &now->paired);
    return status;
}

/* Whether one round of the pair outlasts its budget, by the call that was checked. */
static bool is_long(const repetition *now)
{
    return 2 * now->sides[RUN_KERNEL].call_ns >= paired_budget_ns && !now->chain.count;
}

static double time_copy(repetition *now)
{
    const double start = nb_now_ns();
    nb_side_run(&now->sides[RUN_COPY], 1);
    return nb_now_ns() - start;
}

/* Then what Google Benchmark times is what is checked as well, and stands between two calls
 * of the copy: the pair has no batch of its own. */
static int measure_once(run_cell *cell, repetition *now)
{
    nb_side *kernel = &now->sides[RUN_KERNEL];
    double copy_ns = time_copy(now);
    nb_side_clear(kernel);
    nb_stage_rewind(&now->stage);
    cell->iterations = 1;
    int status = time_kernel(cell, now);
    if (status == NB_OK)
        status = judge(cell, now, nb_side_compare(kernel));
    copy_ns = (copy_ns + time_copy(now)) / 2;
    now->paired = (nb_paired_result){.count = slots(now),
                                     .pairs = 1,
                                     .batch = {[RUN_COPY] = 1},
                                     .rounds = {1},
                                     .time_ns = {{now->alone.time_ns, copy_ns}}};
    return status;
}

static int measure(run_cell *cell, repetition *now, bool once)
{
    if (cell->variant->provider->foreign)
        alarm(nb_patience_s() + HANG_S);
    int status = once ? measure_once(cell, now) : measure_often(cell, now);
    alarm(0);
    const nk_status refused = nb_side_status(&now->sides[RUN_COPY]);
    if (status == NB_OK && refused)
        status = nb_fail(NB_FAILED, "%s: the copy beside it was refused: %s", now_running,
                         nb_provider_status_text(cell->copy->provider, refused));
    return status;
}

static void note_times(run_cell *cell, const repetition *now)
{
    cell->store_used = now->sides[RUN_KERNEL].lanes[0].store_used;
    cell->time_ns[cell->done] = now->alone.time_ns;
    cell->ratio[cell->done] = nb_paired_ratio(&now->paired, RUN_KERNEL, RUN_COPY);
    if (now->chain.count) {
        cell->fused_ratio[cell->done] = nb_paired_ratio(&now->paired, RUN_KERNEL, RUN_UNFUSED);
        cell->chain_store_used = now->chain.links[now->chain.count - 1].lanes[0].store_used;
    }
    cell->done++;
}

/* ---- A repetition ------------------------------------------------------- */

static int open_stage(const run_cell *cell, repetition *now, const nb_topology *t)
{
    const size_t threads = cell->shape->threads;
    int *cpus = nb_allocate(threads * sizeof *cpus);
    nb_topology_cpus(t, threads, cpus);
    const int status = nb_stage_open(&now->stage, &cell->shape->spec, cpus, threads,
                                     nb_topology_llc_share(t, threads));
    free(cpus);
    if (status != NB_OK)
        return status;
    nb_side_init(&now->sides[RUN_KERNEL], cell->variant, &now->stage);
    nb_side_init(&now->sides[RUN_COPY], cell->copy, &now->stage);
    if (cell->chain->count && !cell->chain_failed)
        nb_chain_init(&now->chain, cell->variant, cell->chain, &now->stage);
    return NB_OK;
}

static void close_stage(repetition *now)
{
    nb_chain_free(&now->chain);
    for (size_t i = 0; i <= RUN_COPY; i++)
        nb_side_free(&now->sides[i]);
    nb_stage_close(&now->stage);
}

int nb_run_cell(run_cell *cell, size_t index, const nb_topology *t, nb_csv *csv)
{
    repetition now = {.csv = csv, .index = index};
    nb_shape_name(cell->variant, cell->shape, now_running);
    int status = open_stage(cell, &now, t);
    if (status == NB_OK)
        status = check(cell, &now);
    const bool once = is_long(&now);
    if (status == NB_OK && !cell->failed)
        status = measure(cell, &now, once);
    if (status == NB_OK && !cell->failed && !once)
        status = check(cell, &now);
    if (status == NB_OK && !cell->failed) {
        note_times(cell, &now);
        status = write_rows(cell, &now);
    }
    close_stage(&now);
    return status;
}
