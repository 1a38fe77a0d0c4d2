/* SPDX-License-Identifier: Apache-2.0 */
/* normbench ab: is HEAD slower than BASE? Two providers against each other on
 * the same operands: the gate that a change passes before it lands. */
#include "ab.h"
#include "interrupt.h"
#include "program.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char doc[] =
    "Measures the kernels of HEAD against those of BASE, two shared objects, and ends with 1 if "
    "one is slower by more than the margin, is wrong, or is gone.\vBoth are interleaved A B B A "
    "on the same operands in several fresh processes, and the median counts. What seems slower "
    "is measured once more and fails only if it is slower again. Unless the filters say "
    "otherwise it compares the default algorithms in f32 on the best ISA that both have, at "
    "hidden 768 and 4096, with a working set in L1 and in L2; copy only if it is named.";

enum { PROCESSES = 6 };
static const double usual_margin = 0.015;

/* ---- Options ------------------------------------------------------------ */

enum {
    KEY_MARGIN = 0x200,
    KEY_PROCESSES,
    KEY_CSV,
    KEY_JSON,
    KEY_MARKDOWN,
    KEY_FORCE,
    KEY_ALLOW_MISSING
};
static const struct argp_option own_options[] = {
    {"margin", KEY_MARGIN, "PERCENT", 0,
     "How much slower HEAD may be (1.5); rmsnorm=2 for one kernel; a list is allowed. A true "
     "slow-down of twice the margin is found",
     -1},
    {"processes", KEY_PROCESSES, "NUMBER", 0, "Fresh processes for each cell (6)", -1},
    {"allow-missing", KEY_ALLOW_MISSING, 0, 0, "A kernel may be gone from HEAD", -1},
    {"markdown", KEY_MARKDOWN, 0, 0, "Print for the comment on a pull request", -1},
    {"csv", KEY_CSV, "FILE", 0, "Write the observations there, and the machine beside", -1},
    {"json", KEY_JSON, "FILE", 0, "Write the answer there", -1},
    {"force", KEY_FORCE, 0, 0, "Overwrite them", -1},
    {0}};

/* "1.5" as 0.015: decimal digits and a point, above 0 and up to 1000. */
static bool parse_percent(const char *text, double *fraction)
{
    char *end;
    if (strspn(text, "0123456789.") != strlen(text))
        return false;
    const double percent = strtod(text, &end);
    *fraction = percent / 100;
    return end != text && *end == '\0' && percent > 0 && percent <= 1000;
}

static void parse_margins(ab_options *o, const char *list, struct argp_state *state)
{
    char *copy = nb_duplicate(list), *rest = copy, *item;
    while ((item = strsep(&rest, ","))) {
        char *number = strchr(item, '=');
        if (number)
            *number++ = '\0';
        const int op = number ? nk_op_index(item) : -1;
        if (number && op < 0)
            argp_error(state, "--margin: there is no kernel '%s'", item);
        else if (!parse_percent(number ? number : item, op < 0 ? &o->margin : &o->op_margin[op]))
            argp_error(state, "--margin: '%s' is no per cent above 0 and up to 1000",
                       number ? number : item);
    }
    free(copy);
}

static void check_usage(const ab_options *o, struct argp_state *state)
{
    if (o->path_count < AB_SIDES)
        argp_error(state, "two shared objects are needed: BASE.so HEAD.so");
    if (o->filters.provider.count)
        argp_error(state, "--provider: ab compares the two that are its arguments");
    if (o->force && !o->csv && !o->json)
        argp_error(state, "--force: there is no output without --csv or --json");
    char *machine = o->csv ? nb_record_json_path(o->csv) : NULL;
    if (machine && o->json && strcmp(machine, o->json) == 0)
        argp_error(state, "--json: %s is the machine file of --csv", machine);
    free(machine);
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    ab_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->filters;
        return 0;
    case KEY_MARGIN:
        parse_margins(o, text, state);
        return 0;
    case KEY_PROCESSES:
        if (!nb_parse_size(text, &o->processes) || o->processes == 0 || o->processes > 1000)
            argp_error(state, "--processes: '%s' is no number from 1 to 1000", text);
        return 0;
    case KEY_CSV:
        o->csv = text;
        return 0;
    case KEY_JSON:
        o->json = text;
        return 0;
    case KEY_MARKDOWN:
        o->markdown = true;
        return 0;
    case KEY_FORCE:
        o->force = true;
        return 0;
    case KEY_ALLOW_MISSING:
        o->allow_missing = true;
        return 0;
    case ARGP_KEY_ARG:
        if (o->path_count == AB_SIDES)
            argp_error(state, "Too many arguments: '%s'", text);
        else
            o->paths[o->path_count++] = text;
        return 0;
    case ARGP_KEY_END:
        check_usage(o, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- Both files --------------------------------------------------------- */

/* Whether two files hold the same bytes, whatever their names. */
static bool same_bytes(const char *a, const char *b)
{
    FILE *files[] = {fopen(a, "re"), fopen(b, "re")};
    bool same = files[0] && files[1];
    while (same) {
        char blocks[2][1 << 14];
        const size_t n = fread(blocks[0], 1, sizeof blocks[0], files[0]);
        same = fread(blocks[1], 1, sizeof blocks[1], files[1]) == n &&
               memcmp(blocks[0], blocks[1], n) == 0 && !ferror(files[0]) && !ferror(files[1]);
        if (n == 0)
            break;
    }
    for (size_t i = 0; i < 2; i++)
        if (files[i])
            fclose(files[i]);
    return same;
}

static int load_sides(ab *a)
{
    static const char *const labels[AB_SIDES] = {"base", "head"};
    int worst = NB_OK;
    for (size_t i = 0; i < AB_SIDES; i++) {
        const int status = nb_provider_load(a->options.paths[i], &a->loaded[i]);
        if (status == NB_OK)
            a->loaded[i].label = labels[i];
        worst = status > worst ? status : worst;
    }
    a->providers = (nb_providers){.items = a->loaded, .count = AB_SIDES};
    return worst;
}

/* ---- The command -------------------------------------------------------- */

static int judge(const ab *a)
{
    for (size_t i = 0; i < a->result.count; i++) {
        const enum ab_verdict verdict = nb_ab_verdict(&a->result.cells[i]);
        if (verdict == AB_SLOWER || verdict == AB_BROKEN)
            return NB_FAILED;
    }
    size_t gone = 0;
    for (size_t i = 0; i < a->result.lone_count; i++)
        gone += a->result.lone[i].side == AB_BASE;
    return gone && !a->options.allow_missing
               ? nb_fail(NB_FAILED,
                         "%zu of base's kernels are gone from head; --allow-missing "
                         "lets that pass",
                         gone)
               : NB_OK;
}

static void record_cells(ab *a)
{
    for (size_t i = 0; i < a->result.count; i++) {
        const ab_cell *cell = &a->result.cells[i];
        char name[NB_NAME_BYTES];
        nb_shape_name(cell->variants[AB_HEAD], cell->shape, name);
        nb_record_cell(&a->record, name, nb_shape_level(cell->shape), cell->store_used[AB_HEAD],
                       cell->shape->skipped);
    }
}

/* Opened before anything is measured, the answer's file first: where it is
 * refused nothing else is left behind. */
static int open_outputs(ab *a)
{
    const ab_options *o = &a->options;
    if (o->json && !(a->json = nb_output_open(o->json, o->force)))
        return NB_USAGE;
    size_t count;
    char **arguments = nb_options_arguments(&o->filters, &count);
    const int status = nb_record_open(&a->record, o->csv, o->force, "ab", &o->filters, arguments,
                                      count, &a->topology, &a->providers);
    nb_arguments_free(arguments, count);
    if (status != NB_OK && a->json) {
        fclose(a->json);
        unlink(o->json);
        a->json = NULL;
    }
    return status;
}

static int prepare(ab *a)
{
    const ab_options *o = &a->options;
    int status = load_sides(a);
    if (status != NB_OK)
        return status;
    nb_topology_load(&a->topology);
    a->result.processes = o->processes;
    a->result.same_bytes = same_bytes(o->paths[AB_BASE], o->paths[AB_HEAD]);
    for (size_t i = 0; i < AB_SIDES; i++)
        a->result.paths[i] = o->paths[i];
    status = nb_ab_cells(a);
    if (status == NB_OK && o->csv)
        nb_topology_measure_clocks(&a->topology);
    return status == NB_OK ? open_outputs(a) : status;
}

static int measure_and_answer(ab *a)
{
    nb_catch_interrupts();
    int status = nb_ab_measure(a);
    const bool complete = status == NB_OK;
    if (complete)
        status = judge(a);
    record_cells(a);
    int written = nb_record_close(&a->record, complete);
    if (a->json) {
        nb_ab_write_json(&a->result, complete, a->json);
        const int closed = nb_output_close(a->json, a->options.json);
        written = written == NB_OK ? closed : written;
    }
    if (complete)
        nb_ab_print(&a->result, a->options.markdown);
    const int printed = nb_output_close(stdout, "the table");
    written = written == NB_OK ? printed : written;
    return status != NB_OK ? status : written;
}

static void release(ab *a)
{
    for (size_t i = 0; i < a->result.count; i++) {
        free(a->result.cells[i].ratios);
        free(a->result.cells[i].broken);
        for (size_t side = 0; side < AB_SIDES; side++)
            free(a->result.cells[i].time_ns[side]);
    }
    free(a->result.cells);
    free(a->result.lone);
    for (size_t i = 0; i < a->shape_lists; i++)
        nb_shapes_free(&a->shapes[i]);
    free(a->shapes);
    for (size_t side = 0; side < AB_SIDES; side++) {
        nb_variants_free(&a->variants[side]);
        nb_provider_unload(&a->loaded[side]);
    }
    nb_options_free(&a->options.filters);
}

int nb_ab(int argc, char **argv)
{
    static const struct argp_child children[] = {{&nb_filters, 0, NULL, 0}, {0}};
    static const struct argp argp = {own_options, parse, "BASE.so HEAD.so", doc, children,
                                     NULL,        NULL};
    static ab a = {.options = {.processes = PROCESSES}};
    a.options.margin = usual_margin;
    a.options.filters =
        (nb_options){.command = "ab", .takes = NB_TAKES_SHAPES | NB_TAKES_RUNNING | NB_TAKES_SEED};
    argp_parse(&argp, argc, argv, 0, NULL, &a.options);
    int status = prepare(&a);
    if (status == NB_OK)
        status = measure_and_answer(&a);
    release(&a);
    return status;
}
