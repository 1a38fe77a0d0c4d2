/* SPDX-License-Identifier: Apache-2.0 */
/* normbench run: times a sweep through Google Benchmark, one repetition of one
 * cell at a time, cells in a shuffled order. After each repetition the kernel
 * and a copy of the same rows are interleaved by the paired engine (a long call
 * itself stands between two of the copy), for a ratio that the state of the machine
 * does not touch; with --unfused so is the chain of plain kernels that a fused one
 * takes the place of. */
#include "run.h"
#include "copy.h"
#include "interrupt.h"
#include "program.h"
#include "sweep.h"

#include <stdlib.h>
#include <string.h>

static const char doc[] =
    "Times every kernel that the filters leave and writes one row a repetition, as it goes. Each "
    "is checked before and after it is timed. Without --level or --rows all cache levels are "
    "measured, without --kernel the default algorithms of all but the backward ones.\vThe ratio to "
    "a copy of the same rows "
    "is measured interleaved with it, and so is "
    "with --unfused that to the chain of plain kernels that a fused one takes the place of.";

enum { REPETITIONS = 3 };
static const double long_call_ns = 20e6;

/* ---- Options ------------------------------------------------------------ */

typedef struct run_options {
    nb_options filters;
    char *out, *replay;
    bool force, unfused;
    size_t repetitions; /* 0: not given: REPETITIONS, and one of a cell whose call is long */
} run_options;

enum { KEY_OUT = 0x200, KEY_FORCE, KEY_REPETITIONS, KEY_REPLAY, KEY_UNFUSED };
static const struct argp_option own_options[] = {
    {"out", KEY_OUT, "FILE", 0, "Write the observations there as CSV, and the machine beside", 0},
    {"force", KEY_FORCE, 0, 0, "Overwrite them", 0},
    {"repetitions", KEY_REPETITIONS, "NUMBER", 0,
     "Of each cell (3; 1 of those whose call takes 20 ms or more)", 0},
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

typedef struct run {
    run_options options;
    nb_topology topology;
    nb_providers providers;
    nb_variants variants;
    nb_copies copies;
    nb_limits limits;
    nb_shapes *shapes;     /* one for each variant */
    nb_chain_plan *chains; /* likewise; all empty without --unfused */
    run_cell *cells;
    size_t count;
    nb_record record;
} run;

/* The copy stands beside every kernel, and with the gradients and our algorithms that are
 * there for comparison a sweep would take an hour: only where they are asked for. */
static bool is_left_out(const run *r, const nb_variant *variant)
{
    const nb_options *f = &r->options.filters;
    return f->kernel.count == 0 && (variant->op == NK_OP_copy || nk_op_is_backward(variant->op) ||
                                    (f->algorithm.count == 0 && !variant->provider->foreign &&
                                     strcmp(variant->kernel->algorithm, "default") != 0));
}

static size_t rounds(const run *r)
{
    return r->options.repetitions ? r->options.repetitions : REPETITIONS;
}

static void add_cell(run *r, size_t variant, nb_shape *shape)
{
    const nb_variant *v = &r->variants.items[variant];
    const size_t bytes = rounds(r) * sizeof(double);
    r->cells = nb_reallocate(r->cells, (r->count + 1) * sizeof *r->cells);
    r->cells[r->count++] = (run_cell){.variant = v,
                                      .copy = nb_copies_beside(&r->copies, v),
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
        status =
            nb_shapes_add(&r->shapes[i], &r->options.filters, &r->topology, v->op, 0, v->dtype);
        for (size_t s = 0; s < r->shapes[i].count && status == NB_OK; s++)
            add_cell(r, i, &r->shapes[i].items[s]);
    }
    if (status == NB_OK && r->count == 0)
        return nb_fail(NB_USAGE, "the filters leave what is only timed where --kernel names it");
    return status;
}

/* ---- The sweep ---------------------------------------------------------- */

static char *name_of(void *context, size_t cell, char name[NB_NAME_BYTES])
{
    const run *r = context;
    return nb_shape_name(r->cells[cell].variant, r->cells[cell].shape, name);
}

/* Scalar code from memory would else take as long as all other cells together. */
static bool is_enough(const run *r, const run_cell *cell)
{
    return !r->options.repetitions && cell->done && cell->time_ns[0] >= long_call_ns;
}

static int measure_one(void *context, size_t cell, size_t repetition)
{
    run *r = context;
    run_cell *c = &r->cells[cell];
    return c->shape->skipped || c->failed || is_enough(r, c)
               ? NB_OK
               : nb_run_cell(c, repetition, &r->topology, &r->record.csv);
}

static int measure_all(run *r)
{
    const nb_sweep sweep = {.count = r->count,
                            .rounds = rounds(r),
                            .seed = r->options.filters.seed,
                            .out = r->options.out,
                            .context = r,
                            .name = name_of,
                            .measure = measure_one};
    return nb_sweep_run(&sweep);
}

/* ---- The command -------------------------------------------------------- */

static int open_record(run *r)
{
    size_t count;
    char **arguments = nb_options_arguments(&r->options.filters, &count);
    if (r->options.repetitions)
        nb_arguments_add(&arguments, &count,
                         nb_format("--repetitions=%zu", r->options.repetitions));
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
    int status = nb_providers_load(&r->options.filters.provider, &r->providers);
    if (status == NB_OK)
        status = nb_copies_load(&r->copies);
    if (status != NB_OK)
        return status;
    nb_topology_load(&r->topology);
    nb_limits_init(&r->limits, &r->topology, &r->copies);
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
    nb_shape_name(&variant, cell->shape, name);
    nb_record_cell(&r->record, name, nb_shape_level(cell->shape), cell->chain_store_used,
                   cell->chain->missing);
}

/* The limits are measured before the sweep and after it; the better counts. */
static int measure_with_limits(run *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (!r->cells[i].shape->skipped)
            nb_limits_want(&r->limits, r->cells[i].variant, r->cells[i].shape);
    int status = nb_limits_measure(&r->limits);
    if (status == NB_OK)
        status = measure_all(r);
    if (status == NB_OK)
        status = nb_limits_measure(&r->limits);
    for (size_t i = 0; i < r->count && status == NB_OK; i++) {
        run_cell *cell = &r->cells[i];
        if (!cell->shape->skipped)
            status =
                nb_limits_confirm(&r->limits, cell->variant, cell->shape, nb_run_call_ns(cell));
    }
    for (size_t i = 0; i < r->count; i++)
        if (!r->cells[i].shape->skipped)
            r->cells[i].limit = nb_limits_of(&r->limits, r->cells[i].variant, r->cells[i].shape);
    return status;
}

static void record_cells(run *r)
{
    for (size_t i = 0; i < r->count; i++) {
        const run_cell *cell = &r->cells[i];
        char name[NB_NAME_BYTES];
        nb_shape_name(cell->variant, cell->shape, name);
        if (cell->done || cell->shape->skipped) {
            cJSON *json = nb_record_cell(&r->record, name, nb_shape_level(cell->shape),
                                         cell->store_used, cell->shape->skipped);
            nb_limit_add_json(json, cell->limit);
        }
        if (cell->done && (cell->chain->count || cell->chain->missing))
            record_chain(r, cell);
    }
    if (r->record.root)
        cJSON_AddItemToObject(r->record.root, "limits", nb_limits_json(&r->limits));
}

static int judge(const run *r)
{
    int status = NB_OK;
    for (size_t i = 0; i < r->count; i++) {
        const run_cell *cell = &r->cells[i];
        char name[NB_NAME_BYTES];
        nb_shape_name(cell->variant, cell->shape, name);
        if (cell->failed || cell->chain_failed ||
            nb_limit_check(cell->limit, nb_run_call_ns(cell), name) != NB_OK)
            status = NB_FAILED;
    }
    return status;
}

static int measure_and_report(run *r)
{
    nb_catch_interrupts();
    nb_run_catch_crashes();
    int status = measure_with_limits(r);
    const bool complete = status == NB_OK;
    record_cells(r);
    const int closed = nb_record_close(&r->record, complete);
    if (complete) {
        nb_run_print(r->cells, r->count, rounds(r), r->options.unfused);
        status = judge(r);
    }
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
    nb_limits_free(&r->limits);
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
    if (status == NB_OK)
        status = prepare(&r);
    if (status == NB_OK)
        status = nb_providers_status(&r.providers, measure_and_report(&r));
    release(&r);
    return status;
}
