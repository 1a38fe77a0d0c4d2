/* SPDX-License-Identifier: Apache-2.0 */
/* normbench claim: what RMSNorm saves of LayerNorm's time, and whether the 15-20 %
 * that it is said to save hold. */
#include "claim.h"
#include "interrupt.h"
#include "program.h"

#include <stdlib.h>
#include <string.h>

static const char doc[] =
    "Measures what RMSNorm saves of LayerNorm's time on this machine, and tells whether 15-20 % "
    "hold: within if the whole interval lies inside, below or above if it lies outside, else "
    "cannot tell. Per hidden size, cache level and ISA; or along each axis with --axes; or of a "
    "model with --model. A saving that may be a slow LayerNorm cannot be told either: where that "
    "is "
    "further from what the machine allows than RMSNorm (shares), or another LayerNorm is faster "
    "(rival). Ends with 1 where a kernel is wrong, or faster than the machine allows.\vThe two are "
    "interleaved A B B A on the same operands, with a copy of the "
    "same rows and LayerNorm's other algorithms, in several fresh processes. --kernel "
    "add_layernorm,add_rmsnorm compares the fused forms; --algorithm two_pass holds RMSNorm "
    "against that LayerNorm. Without --level or --rows all cache levels are measured.\n"
    "With --axes a filter gives its axis its values, the first of them to the base cell; without "
    "--provider the peers of the build (bench/peers) are held against too.\n"
    "With --model: one token (1 row) and a prompt (512), or --rows.";

enum { PROCESSES = 6 };

/* ---- Options ------------------------------------------------------------ */

enum {
    KEY_OUT = 0x200,
    KEY_FORCE,
    KEY_AXES,
    KEY_MEANINGS,
    KEY_EXHAUSTIVE,
    KEY_QUICK,
    KEY_PROCESSES
};
static const struct argp_option own_options[] = {
    {"out", KEY_OUT, "FILE", 0, "Write the observations there as CSV, and the machine beside", 0},
    {"force", KEY_FORCE, 0, 0, "Overwrite them", 0},
    {"axes", KEY_AXES, 0, 0,
     "From one base cell each axis alone: hidden, level, ISA, dtype, rows, mode, threads, fused, "
     "forward + backward, LayerNorm's algorithm, plain C",
     0},
    {"meanings", KEY_MEANINGS, 0, 0,
     "Operations of the formula, operations and instructions executed, bytes and time, for each "
     "LayerNorm",
     0},
    {"exhaustive", KEY_EXHAUSTIVE, 0, 0,
     "64 to 16384 and every model's hidden size, in every dtype, at every level: an hour", 0},
    {"quick", KEY_QUICK, 0, 0, "A third of the time for each cell, and fewer of them with --axes",
     0},
    {"processes", KEY_PROCESSES, "NUMBER", 0,
     "Fresh processes, each of which measures every cell (6)", 0},
    {0}};

/* What contradicts what. */
static void check(const claim_options *o, struct argp_state *state)
{
    const nb_options *f = &o->filters;
    if (o->axes + o->meanings + o->exhaustive > 1 ||
        (f->model.count && (o->meanings || o->exhaustive)))
        argp_error(state, "--axes, --meanings, --exhaustive and --model are different questions: "
                          "choose one");
    for (size_t i = 0; i < f->hidden.count && f->model.count && !o->axes; i++) {
        bool known = false;
        for (size_t m = 0; m < f->model.count; m++)
            known |= nb_model_find(f->model.items[m])->hidden == f->hidden.items[i];
        if (!known || f->kernel.count || f->level.count || f->mode.count)
            argp_error(state,
                       "--model sets --hidden, --kernel, --level and --mode; leave them out");
    }
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    claim_options *o = state->input;
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
    case KEY_AXES:
        o->axes = true;
        return 0;
    case KEY_MEANINGS:
        o->meanings = true;
        return 0;
    case KEY_EXHAUSTIVE:
        o->exhaustive = true;
        return 0;
    case KEY_QUICK:
        o->quick = true;
        return 0;
    case KEY_PROCESSES:
        if (!nb_parse_size(text, &o->processes) || o->processes == 0 || o->processes > 1000)
            argp_error(state, "--processes: '%s' is no number from 1 to 1000", text);
        return 0;
    case ARGP_KEY_SUCCESS:
        check(o, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- The command -------------------------------------------------------- */

static void record_cells(claim *c)
{
    for (size_t i = 0; i < c->count; i++) {
        const claim_cell *cell = &c->cells[i];
        for (size_t side = 0; side < cell->count; side++) {
            char name[NB_NAME_BYTES];
            nb_shape_name(cell->variants[side], cell->shape, name);
            if (cell->done || cell->shape->skipped) {
                cJSON *json = nb_record_cell(&c->record, name, nb_shape_level(cell->shape),
                                             cell->done ? cell->results[0].store_used[side] : 0,
                                             cell->shape->skipped);
                nb_limit_add_json(json, cell->limits[side]);
            }
        }
    }
}

static void record_limits(const claim *c)
{
    const nb_pace *memory = nb_limits_find(&c->limits, c->memory);
    if (!c->record.root)
        return;
    cJSON_AddItemToObject(c->record.root, "limits", nb_limits_json(&c->limits));
    if (memory)
        cJSON_AddNumberToObject(c->record.root, "memory_load_bytes_per_s",
                                memory->flow[NB_LOAD] * 1e9);
}

/* What --meanings counts, in FILE-counts.csv beside FILE.csv. */
static int open_counts(claim *c)
{
    const size_t length = strlen(c->record.json_path) - strlen(".json");
    c->counts_path = nb_format("%.*s-counts.csv", (int)length, c->record.json_path);
    return nb_counts_csv_open(&c->counts, c->counts_path, c->options.force);
}

static int open_record(claim *c)
{
    size_t count;
    char **arguments = nb_options_arguments(&c->options.filters, &count);
    nb_arguments_add(&arguments, &count, nb_format("--processes=%zu", c->options.processes));
    if (c->options.axes)
        nb_arguments_add(&arguments, &count, nb_duplicate("--axes"));
    if (c->options.meanings)
        nb_arguments_add(&arguments, &count, nb_duplicate("--meanings"));
    if (c->options.exhaustive)
        nb_arguments_add(&arguments, &count, nb_duplicate("--exhaustive"));
    if (c->options.quick)
        nb_arguments_add(&arguments, &count, nb_duplicate("--quick"));
    int status = nb_record_open(&c->record, c->options.out, c->options.force, "claim",
                                &c->options.filters, arguments, count, &c->topology, &c->providers);
    nb_arguments_free(arguments, count);
    if (status == NB_OK && c->options.meanings && c->record.json_path)
        status = open_counts(c);
    return status;
}

static int prepare(claim *c)
{
    int status = nb_providers_load(&c->options.filters.provider, &c->providers);
    if (status == NB_OK && c->options.axes && !c->options.filters.provider.count)
        nb_providers_add_peers(&c->providers);
    if (status == NB_OK)
        status = nb_copies_load(&c->copies);
    if (status != NB_OK)
        return status;
    nb_topology_load(&c->topology);
    nb_limits_init(&c->limits, &c->topology, &c->copies);
    status = nb_claim_cells(c);
    if (status == NB_OK && c->options.out)
        nb_topology_measure_clocks(&c->topology);
    return status == NB_OK ? open_record(c) : status;
}

static int print_answer(claim *c)
{
    int status = NB_OK;
    if (c->options.axes)
        nb_claim_print_axes(c);
    else if (c->options.meanings)
        status = nb_claim_print_meanings(c);
    else if (c->options.filters.model.count)
        nb_claim_print_models(c);
    else
        nb_claim_print_sweep(c);
    nb_claim_print_legend(c);
    return status;
}

static int measure_and_answer(claim *c)
{
    nb_catch_interrupts();
    int status = nb_claim_measure(c);
    const bool complete = status == NB_OK;
    if (complete)
        status = nb_claim_check_limits(c);
    for (size_t i = 0; i < c->count && complete; i++)
        if (c->cells[i].failed)
            status = NB_FAILED;
    record_cells(c);
    record_limits(c);
    const int closed = nb_record_close(&c->record, complete);
    const int answered = complete ? print_answer(c) : NB_OK;
    const int counted = nb_counts_csv_close(&c->counts);
    const int printed = nb_output_close(stdout, "the table");
    const int all[] = {status, closed, answered, counted, printed};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] != NB_OK)
            return all[i];
    return NB_OK;
}

static void release(claim *c)
{
    for (size_t i = 0; i < c->count; i++)
        free(c->cells[i].results);
    free(c->cells);
    for (size_t i = 0; i < c->line_count; i++)
        free(c->lines[i].value);
    free(c->lines);
    free(c->counts_path);
    nb_limits_free(&c->limits);
    for (size_t i = 0; i < c->shape_lists; i++)
        nb_shapes_free(&c->shapes[i]);
    free(c->shapes);
    nb_copies_free(&c->copies);
    nb_variants_free(&c->variants);
    nb_providers_unload(&c->providers);
    nb_options_free(&c->options.filters);
}

int nb_claim(int argc, char **argv)
{
    static const struct argp_child children[] = {{&nb_filters, 0, NULL, 0}, {0}};
    static const struct argp argp = {own_options, parse, NULL, doc, children, NULL, NULL};
    claim c = {
        .options = {.processes = PROCESSES,
                    .filters = {.command = "claim",
                                .takes = NB_TAKES_SHAPES | NB_TAKES_RUNNING | NB_TAKES_SEED}}};
    argp_parse(&argp, argc, argv, 0, NULL, &c.options);
    int status = prepare(&c);
    if (status == NB_OK)
        status = nb_providers_status(&c.providers, measure_and_answer(&c));
    release(&c);
    return status;
}
