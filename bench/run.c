/* SPDX-License-Identifier: Apache-2.0 */
/* normbench run: times a sweep through Google Benchmark, one repetition of one
 * cell at a time, cells in a shuffled order. After each repetition the kernel
 * and a copy of the same rows are interleaved by the paired engine, for a ratio
 * that the state of the machine does not touch; with --unfused so is the chain
 * of plain kernels that a fused one takes the place of. */
#include "cells.h"
#include "chain.h"
#include "copy.h"
#include "gbench.h"
#include "interrupt.h"
#include "machine.h"
#include "paired.h"
#include "probe.h"
#include "program.h"
#include "progress.h"
#include "shapes.h"
#include "side.h"
#include "table.h"
#include "worker.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char doc[] =
    "Times every kernel that the filters leave and writes one row a repetition, as it goes. Each "
    "is checked before and after it is timed. Without --level or --rows all cache levels are "
    "measured, without --kernel all but the backward ones.\vThe ratio to a copy of the same rows "
    "is measured interleaved with it, and so is "
    "with --unfused that to the chain of plain kernels that a fused one takes the place of.";

enum { REPETITIONS = 3 };
enum { HANG_S = 4 }; /* more than a repetition takes, calibration included */
static const double min_seconds = 0.03, paired_budget_ns = 0.02e9;

/* ---- Options ------------------------------------------------------------ */

typedef struct run_options {
    nb_options filters;
    char *out, *replay;
    bool force, unfused;
    size_t repetitions; /* 0: not given */
} run_options;

enum { KEY_OUT = 0x200, KEY_FORCE, KEY_REPETITIONS, KEY_REPLAY, KEY_UNFUSED };
static const struct argp_option own_options[] = {
    {"out", KEY_OUT, "FILE", 0, "Write the observations there as CSV, and the machine beside", 0},
    {"force", KEY_FORCE, 0, 0, "Overwrite them", 0},
    {"repetitions", KEY_REPETITIONS, "NUMBER", 0, "Of each cell (3)", 0},
    {"unfused", KEY_UNFUSED, 0, 0,
     "Beside each fused kernel time the plain ones that do the same, interleaved with it", 0},
    {"replay", KEY_REPLAY, "FILE", 0, "Repeat the run of this machine file: its options, its seed",
     0},
    {0}};

static error_t parse(int key, char *text, struct argp_state *state)
{
    run_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->filters;
        return 0;
    case KEY_OUT:
        o->out = text;
        return 0;
    case KEY_FORCE:
        o->force = true;
        return 0;
    case KEY_REPETITIONS:
        if (!nb_parse_size(text, &o->repetitions) || o->repetitions == 0 || o->repetitions > 1000)
            argp_error(state, "--repetitions: '%s' is no number from 1 to 1000", text);
        return 0;
    case KEY_UNFUSED:
        o->unfused = true;
        return 0;
    case KEY_REPLAY:
        o->replay = text;
        return 0;
    case ARGP_KEY_END:
        if (!o->out)
            argp_error(state, "--out FILE is needed: where the observations go");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&nb_filters, 0, NULL, 0}, {0}};
static const struct argp argp = {own_options, parse, NULL, doc, children, NULL, NULL};
static const nb_options no_filters = {.command = "run",
                                      .takes = NB_TAKES_SHAPES | NB_TAKES_RUNNING | NB_TAKES_SEED};

/* The options of the file in place of those given, which must be none. */
static int replay(run_options *o, char *program)
{
    size_t given, count = 0;
    char **there = nb_options_arguments(&o->filters, &given);
    nb_arguments_free(there, given);
    if (given > 1 || o->filters.has_seed || o->repetitions || o->unfused)
        return nb_fail(NB_USAGE, "--replay takes all options from %s; leave the others out",
                       o->replay);
    char **arguments = NULL;
    nb_arguments_add(&arguments, &count, nb_duplicate(program));
    int status = nb_record_arguments(o->replay, "run", &arguments, &count);
    if (status == NB_OK) {
        run_options again = {.filters = no_filters};
        nb_arguments_add(&arguments, &count, nb_format("--out=%s", o->out));
        nb_arguments_add(&arguments, &count, NULL);
        argp_parse(&argp, (int)count - 1, arguments, 0, NULL, &again);
        nb_options_free(&o->filters);
        o->filters = again.filters;
        o->repetitions = again.repetitions;
        o->unfused = again.unfused;
    }
    nb_arguments_free(arguments, count);
    return status;
}

/* ---- Cells -------------------------------------------------------------- */

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
    double error_u;
    uint32_t store_used, chain_store_used;
    bool failed, chain_failed;
} run_cell;

typedef struct run {
    run_options options;
    nb_topology topology;
    nb_providers providers;
    nb_variants variants;
    nb_copies copies;
    nb_shapes *shapes;     /* one for each variant */
    nb_chain_plan *chains; /* likewise; all empty without --unfused */
    run_cell *cells;
    size_t count;
    nb_record record;
} run;

/* The copy stands beside every kernel, and with the gradients a sweep would take
 * half an hour: by themselves only where they are asked for. */
static bool is_left_out(const run *r, const nb_variant *variant)
{
    return (variant->op == NK_OP_copy || nk_op_is_backward(variant->op)) &&
           r->options.filters.kernel.count == 0;
}

static void add_cell(run *r, size_t variant, nb_shape *shape)
{
    const nb_variant *v = &r->variants.items[variant];
    const size_t bytes = r->options.repetitions * sizeof(double);
    r->cells = nb_reallocate(r->cells, (r->count + 1) * sizeof *r->cells);
    r->cells[r->count++] = (run_cell){.variant = v,
                                      .copy = nb_copies_best(&r->copies, v->dtype),
                                      .chain = &r->chains[variant],
                                      .shape = shape,
                                      .time_ns = nb_allocate(bytes),
                                      .ratio = nb_allocate(bytes),
                                      .fused_ratio = nb_allocate(bytes)};
    shape->spec.scratch = r->chains[variant].scratch;
}

/* An option that finds nothing to do is an error, as a filter is. */
static int find_chains(run *r)
{
    size_t found = 0;
    const char *why = "none of the kernels chosen is a fused one";
    for (size_t i = 0; i < r->variants.count && r->options.unfused; i++) {
        nb_chain_find(&r->variants.items[i], &r->chains[i]);
        found += r->chains[i].count > 0;
        if (r->chains[i].missing)
            why = r->chains[i].missing;
    }
    return found || !r->options.unfused ? NB_OK : nb_fail(NB_USAGE, "--unfused: %s", why);
}

static int make_cells(run *r)
{
    int status = nb_variants_select(&r->options.filters, &r->providers, false, &r->variants);
    if (status != NB_OK)
        return status;
    r->shapes = nb_allocate(r->variants.count * sizeof *r->shapes);
    r->chains = nb_allocate(r->variants.count * sizeof *r->chains);
    for (size_t i = 0; i < r->variants.count; i++) {
        r->shapes[i] = (nb_shapes){0};
        r->chains[i] = (nb_chain_plan){0};
    }
    status = find_chains(r);
    for (size_t i = 0; i < r->variants.count && status == NB_OK; i++) {
        const nb_variant *v = &r->variants.items[i];
        if (is_left_out(r, v))
            continue;
        status = nb_shapes_add(&r->shapes[i], &r->options.filters, &r->topology, v->op, v->dtype);
        for (size_t s = 0; s < r->shapes[i].count && status == NB_OK; s++)
            add_cell(r, i, &r->shapes[i].items[s]);
    }
    return status;
}

/* ---- A repetition ------------------------------------------------------- */

/* What a crash while it is timed is reported with (the checks are made in a
 * child, see probe.h); a provider's fault must not look like ours. */
static char now_running[NB_NAME_BYTES];

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

static void catch_crashes(void)
{
    const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM};
    const struct sigaction action = {.sa_handler = crashed};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaction(signals[i], &action, NULL);
}

/* The participants of a pair: the slots of the CSV. */
enum { KERNEL, COPY, UNFUSED };

typedef struct repetition {
    nb_workspace workspace;
    nb_side sides[COPY + 1];
    nb_chain chain; /* if it has links */
    nb_gbench alone;
    nb_paired_result paired;
} repetition;

static nb_csv_row cell_row(const run_cell *cell, size_t index)
{
    nb_csv_row row = nb_shape_row(cell->variant, cell->shape);
    row.repetition = index;
    row.error_ulp = cell->error_u;
    return row;
}

static nb_csv_row chain_row(const run_cell *cell, const nb_chain *chain, size_t index)
{
    nb_csv_row row = cell_row(cell, index);
    row.algorithm = nb_unfused;
    row.error_ulp = chain->fused.error_u;
    if (cell->chain->scratch)
        row.working_set_bytes += nb_workspace_scratch_bytes(&cell->shape->spec);
    return row;
}

/* Says what a check found, in a row without a time; takes `wrong`. */
static int write_wrong(run *r, nb_csv_row row, char *wrong)
{
    row.status = wrong;
    nb_fail(NB_FAILED, "%s%s: %s", now_running, row.algorithm == nb_unfused ? ", unfused" : "",
            wrong);
    const int status = nb_csv_write(&r->record.csv, &row);
    free(wrong);
    return status;
}

/* A chain that is wrong is left out from then on; the kernel is timed. */
static int check_chain(run *r, run_cell *cell, repetition *now, size_t index)
{
    char *wrong = now->chain.count ? nb_chain_check(&now->chain, &now->workspace) : NULL;
    if (!wrong)
        return NB_OK;
    const int status = write_wrong(r, chain_row(cell, &now->chain, index), wrong);
    nb_chain_free(&now->chain);
    cell->chain_failed = true;
    return status;
}

static int check(run *r, run_cell *cell, repetition *now, size_t index)
{
    char *wrong = nb_side_check(&now->sides[0], &now->workspace);
    cell->error_u = now->sides[0].error_u;
    if (!wrong)
        return check_chain(r, cell, now, index);
    cell->failed = true;
    return write_wrong(r, cell_row(cell, index), wrong);
}

static int time_kernel(run_cell *cell, repetition *now)
{
    nb_gbench calibration = {.iterations = cell->iterations};
    bool ok = true;
    if (cell->iterations == 0)
        ok = nb_gbench_run(now_running, nb_side_call, &now->sides[0], 0, min_seconds, &calibration);
    cell->iterations = calibration.iterations;
    ok = ok &&
         nb_gbench_run(now_running, nb_side_call, &now->sides[0], cell->iterations, 0, &now->alone);
    return ok ? NB_OK : nb_fail(NB_FAILED, "%s: Google Benchmark reported nothing", now_running);
}

static size_t participants(const repetition *now)
{
    return now->chain.count ? UNFUSED + 1 : COPY + 1;
}

static void measure_paired(repetition *now)
{
    const nb_participant all[] = {[KERNEL] = {nb_side_call, &now->sides[KERNEL]},
                                  [COPY] = {nb_side_call, &now->sides[COPY]},
                                  [UNFUSED] = {nb_chain_call, &now->chain}};
    const nb_paired plan = {.participants = all,
                            .count = participants(now),
                            .pairs = 1,
                            .batch_ns = NB_BATCH_NS,
                            .budget_ns = paired_budget_ns,
                            .now_ns = nb_now_ns};
    nb_paired_measure(&plan, &now->paired);
}

static nb_csv_row side_row(const run_cell *cell, const repetition *now, size_t slot, size_t index)
{
    nb_csv_row row = cell_row(cell, index);
    if (slot == COPY) {
        row = nb_shape_row(cell->copy, cell->shape);
        row.repetition = index;
    }
    row.bytes = nb_side_bytes(&now->sides[slot]);
    row.flops = nb_side_flops(&now->sides[slot]);
    return row;
}

static nb_csv_row paired_row(const run_cell *cell, const repetition *now, size_t slot, size_t index)
{
    const nb_paired_result *p = &now->paired;
    nb_csv_row row;
    if (slot == UNFUSED) {
        row = chain_row(cell, &now->chain, index);
        row.bytes = nb_chain_bytes(&now->chain);
        row.flops = nb_chain_flops(&now->chain);
    } else {
        row = side_row(cell, now, slot, index);
    }
    row.iterations = 2 * p->batch[slot] * p->rounds[0];
    row.time_ns = p->time_ns[0][slot];
    row.pair = (long)index;
    row.slot = (long)slot;
    return row;
}

/* The kernel alone, then what was interleaved. */
static int write_rows(run *r, const run_cell *cell, const repetition *now, size_t index)
{
    nb_csv_row alone = side_row(cell, now, KERNEL, index);
    alone.iterations = now->alone.iterations;
    alone.time_ns = now->alone.time_ns;
    int status = nb_csv_write(&r->record.csv, &alone);
    for (size_t slot = 0; slot < participants(now) && status == NB_OK; slot++) {
        const nb_csv_row row = paired_row(cell, now, slot, index);
        status = nb_csv_write(&r->record.csv, &row);
    }
    return status;
}

static int measure(run *r, run_cell *cell, repetition *now, size_t index)
{
    int status = check(r, cell, now, index);
    if (status != NB_OK || cell->failed)
        return status;
    if (cell->variant->provider->foreign)
        alarm(nb_patience_s() + HANG_S);
    status = time_kernel(cell, now);
    if (status == NB_OK)
        measure_paired(now);
    alarm(0);
    if (status == NB_OK && now->sides[COPY].status)
        status = nb_fail(NB_FAILED, "%s: the copy beside it was refused: %s", now_running,
                         nb_provider_status_text(cell->copy->provider, now->sides[COPY].status));
    if (status != NB_OK)
        return status;
    cell->store_used = now->sides[0].store_used;
    status = check(r, cell, now, index);
    if (status != NB_OK || cell->failed)
        return status;
    cell->time_ns[cell->done] = now->alone.time_ns;
    cell->ratio[cell->done] = nb_paired_ratio(&now->paired, KERNEL, COPY);
    if (now->chain.count) {
        cell->fused_ratio[cell->done] = nb_paired_ratio(&now->paired, KERNEL, UNFUSED);
        cell->chain_store_used = now->chain.links[now->chain.count - 1].store_used;
    }
    cell->done++;
    return write_rows(r, cell, now, index);
}

static int repeat_cell(run *r, run_cell *cell, size_t index)
{
    repetition now = {0};
    const size_t llc = nb_topology_llc_share(&r->topology, 1);
    int status = nb_workspace_create(&now.workspace, &cell->shape->spec);
    if (status == NB_OK) {
        nb_side_init(&now.sides[0], cell->variant, &now.workspace, llc);
        nb_side_init(&now.sides[1], cell->copy, &now.workspace, llc);
        if (cell->chain->count && !cell->chain_failed)
            nb_chain_init(&now.chain, cell->variant, cell->chain, &now.workspace, llc);
        status = measure(r, cell, &now, index);
    }
    nb_side_free(&now.sides[0]);
    nb_side_free(&now.sides[1]);
    nb_chain_free(&now.chain);
    nb_workspace_free(&now.workspace);
    return status;
}

static int measure_all(run *r)
{
    nb_progress progress;
    nb_progress_start(&progress, r->count * r->options.repetitions);
    int status = NB_OK;
    for (size_t i = 0; i < r->options.repetitions && status == NB_OK; i++) {
        size_t *order = nb_shuffled(r->count, r->options.filters.seed + i);
        for (size_t j = 0; j < r->count && status == NB_OK; j++) {
            run_cell *cell = &r->cells[order[j]];
            nb_cell_name(cell->variant, cell->shape->spec.rows, cell->shape->spec.hidden,
                         now_running);
            nb_progress_step(&progress, now_running);
            if (!cell->shape->skipped && !cell->failed)
                status = repeat_cell(r, cell, i);
            if (nb_interrupted)
                status = NB_INTERRUPTED;
        }
        free(order);
    }
    nb_progress_clear(&progress);
    if (status == NB_INTERRUPTED)
        nb_fail(status, "interrupted; what is finished stays in %s", r->options.out);
    return status;
}

/* ---- The table ---------------------------------------------------------- */

static void add_row(nb_table *table, const run_cell *cell, bool unfused)
{
    const nk_kernel *k = cell->variant->kernel;
    const nb_workspace_spec *spec = &cell->shape->spec;
    const char *level = nb_shape_level(cell->shape);
    nb_table_add(table, NB_PLAIN, "%s", k->op);
    nb_table_add(table, NB_PLAIN, "%s", k->algorithm);
    nb_table_add(table, NB_PLAIN, "%s", k->dtype);
    nb_table_add(table, NB_PLAIN, "%s", k->isa);
    if (cell->shape->skipped)
        nb_table_add(table, NB_DIM, "-");
    else
        nb_table_add(table, NB_PLAIN, "%zu", spec->rows);
    nb_table_add(table, NB_PLAIN, "%zu", spec->hidden);
    nb_table_add(table, NB_PLAIN, "%s", level ? level : "?");
    if (cell->failed || cell->done == 0) {
        for (size_t i = 0; i < (unfused ? 4 : 3); i++)
            nb_table_add(table, NB_DIM, "-");
        nb_table_add(table, cell->failed ? NB_RED : NB_DIM, "%s",
                     cell->failed ? "a check failed" : cell->shape->skipped);
        return;
    }
    nb_table_add(table, NB_BOLD, "%.1f", nb_median(cell->time_ns, cell->done) / (double)spec->rows);
    nb_table_add(table, NB_PLAIN, "%.2f", nb_median(cell->ratio, cell->done));
    if (unfused && cell->chain->count && !cell->chain_failed)
        nb_table_add(table, NB_PLAIN, "%.2f", nb_median(cell->fused_ratio, cell->done));
    else if (unfused)
        nb_table_add(table, cell->chain_failed ? NB_RED : NB_DIM, "%s",
                     cell->chain_failed ? "wrong" : "-");
    nb_table_add(table, NB_PLAIN, "%.1f", cell->error_u);
    nb_table_add(table, NB_PLAIN, "%s", cell->shape->mode == NB_ROTATE ? "rotate" : "");
}

/* Why kernels are not timed unfused, each reason once. */
static void print_missing(const run *r)
{
    for (size_t i = 0; i < r->variants.count; i++) {
        const int op = r->variants.items[i].op;
        const char *why = r->chains[i].missing;
        for (size_t j = 0; j < i && why; j++)
            if (r->variants.items[j].op == op && r->chains[j].missing &&
                strcmp(r->chains[j].missing, why) == 0)
                why = NULL;
        if (why)
            printf("%s is not timed unfused: %s.\n", nk_ops[op].name, why);
    }
}

static void print_table(run *r)
{
    const bool unfused = r->options.unfused;
    static const char *const plain[] = {"<kernel", "<algorithm", "<dtype", "<isa",
                                        ">rows",   ">hidden",    "<level", ">ns/row",
                                        ">/copy",  ">error, u",  "<",      NULL};
    static const char *const with_unfused[] = {
        "<kernel", "<algorithm", "<dtype",    "<isa",      ">rows", ">hidden", "<level",
        ">ns/row", ">/copy",     ">/unfused", ">error, u", "<",     NULL};
    nb_table table;
    nb_table_init(&table, unfused ? with_unfused : plain);
    for (size_t i = 0; i < r->count; i++)
        add_row(&table, &r->cells[i], unfused);
    nb_table_print(&table, stdout);
    printf("\nns/row: wall time of a call through Google Benchmark, over its rows, the median of "
           "%zu.\n/copy: time over that of a copy of the same rows, interleaved with it.\n",
           r->options.repetitions);
    if (unfused)
        printf("/unfused: time over that of the plain kernels that do the same, likewise.\n");
    print_missing(r);
}

/* ---- The command -------------------------------------------------------- */

static int open_record(run *r)
{
    size_t count;
    char **arguments = nb_options_arguments(&r->options.filters, &count);
    nb_arguments_add(&arguments, &count, nb_format("--repetitions=%zu", r->options.repetitions));
    if (r->options.unfused)
        nb_arguments_add(&arguments, &count, nb_duplicate("--unfused"));
    const int status =
        nb_record_open(&r->record, r->options.out, r->options.force, "run", &r->options.filters,
                       arguments, count, &r->topology, &r->providers);
    nb_arguments_free(arguments, count);
    return status;
}

static int prepare(run *r)
{
    int status = nb_check_threads(&r->options.filters);
    if (status == NB_OK)
        status = nb_providers_load(&r->options.filters.provider, &r->providers);
    if (status == NB_OK)
        status = nb_copies_load(&r->copies);
    if (status != NB_OK)
        return status;
    nb_topology_load(&r->topology);
    status = make_cells(r);
    if (status != NB_OK)
        return status;
    const char *unbound = nb_topology_bind(r->topology.cpu);
    if (unbound)
        return nb_fail(NB_MACHINE, "CPU %d: %s", r->topology.cpu, unbound);
    nb_topology_measure_clocks(&r->topology);
    return open_record(r);
}

static void record_chain(run *r, const run_cell *cell)
{
    nk_kernel kernel = *cell->variant->kernel;
    kernel.algorithm = nb_unfused;
    nb_variant variant = *cell->variant;
    variant.kernel = &kernel;
    char name[NB_NAME_BYTES];
    nb_cell_name(&variant, cell->shape->spec.rows, cell->shape->spec.hidden, name);
    nb_record_cell(&r->record, name, nb_shape_level(cell->shape), cell->chain_store_used,
                   cell->chain->missing);
}

static int measure_and_report(run *r)
{
    nb_catch_interrupts();
    catch_crashes();
    int status = measure_all(r);
    for (size_t i = 0; i < r->count; i++) {
        const run_cell *cell = &r->cells[i];
        if ((cell->failed || cell->chain_failed) && status == NB_OK)
            status = NB_FAILED;
        nb_cell_name(cell->variant, cell->shape->spec.rows, cell->shape->spec.hidden, now_running);
        if (cell->done || cell->shape->skipped)
            nb_record_cell(&r->record, now_running, nb_shape_level(cell->shape), cell->store_used,
                           cell->shape->skipped);
        if (cell->done && (cell->chain->count || cell->chain->missing))
            record_chain(r, cell);
    }
    const bool complete = status == NB_OK || status == NB_FAILED;
    const int closed = nb_record_close(&r->record, complete);
    if (complete)
        print_table(r);
    const int printed = nb_output_close(stdout, "the table");
    return status != NB_OK ? status : closed != NB_OK ? closed : printed;
}

static void release(run *r)
{
    for (size_t i = 0; i < r->count; i++) {
        free(r->cells[i].time_ns);
        free(r->cells[i].ratio);
        free(r->cells[i].fused_ratio);
    }
    free(r->cells);
    for (size_t i = 0; r->shapes && i < r->variants.count; i++)
        nb_shapes_free(&r->shapes[i]);
    free(r->shapes);
    for (size_t i = 0; r->chains && i < r->variants.count; i++)
        nb_chain_plan_free(&r->chains[i]);
    free(r->chains);
    nb_copies_free(&r->copies);
    nb_variants_free(&r->variants);
    nb_providers_unload(&r->providers);
    nb_options_free(&r->options.filters);
}

int nb_run(int argc, char **argv)
{
    run r = {.options = {.filters = no_filters}};
    argp_parse(&argp, argc, argv, 0, NULL, &r.options);
    int status = r.options.replay ? replay(&r.options, argv[0]) : NB_OK;
    if (!r.options.repetitions)
        r.options.repetitions = REPETITIONS;
    if (status == NB_OK)
        status = prepare(&r);
    if (status == NB_OK)
        status = nb_providers_status(&r.providers, measure_and_report(&r));
    release(&r);
    return status;
}
