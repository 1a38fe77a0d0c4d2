/* SPDX-License-Identifier: Apache-2.0 */
/* normbench ab: is HEAD slower than BASE? Two providers against each other on
 * the same operands: the gate that a change passes before it lands. */
#include "ab.h"
#include "interrupt.h"
#include "machine.h"
#include "program.h"
#include "progress.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char doc[] =
    "Measures the kernels of HEAD against those of BASE, two shared objects, and ends with 1 if "
    "one is slower by more than the margin, is wrong, or is gone.\vBoth are interleaved A B B A "
    "on the same operands in several fresh processes, and the median counts. What seems slower "
    "is measured once more and fails only if it is slower again. Unless the filters say "
    "otherwise it compares the default algorithms in f32 on the best ISA that both have, at "
    "hidden 768 and 4096, with a working set in L1 and in L2; copy only if it is named.";

enum { PROCESSES = 6, PAIRS = 5 };
static const double usual_margin = 0.015, budget_ns = 0.25e9;

/* ---- Options ------------------------------------------------------------ */

typedef struct ab_options {
    nb_options filters;
    const char *paths[AB_SIDES];
    size_t path_count;
    const char *csv, *json;
    bool force, markdown, allow_missing;
    size_t processes;
    double margin, op_margin[NK_OPS]; /* op_margin 0: the common one */
} ab_options;

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

/* ---- Both sides --------------------------------------------------------- */

typedef struct ab {
    ab_options options;
    nb_topology topology;
    nb_provider loaded[AB_SIDES];
    nb_providers providers; /* both, or one where the other's file is the same */
    nb_variants variants[AB_SIDES];
    nb_shapes *shapes; /* [shape_lists] */
    size_t shape_lists;
    ab_result result;
    nb_record record;
    FILE *json;
} ab;

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

/* The filters with what is usual where the user said nothing. The lists that
 * are put in are static: the result is not to be freed. */
static nb_options usual_filters(const ab *a)
{
    static char *default_algorithm[] = {"default"}, *f32[] = {"f32"};
    static size_t hidden[] = {768, 4096}, levels[] = {NB_L1, NB_L2};
    nb_options filters = a->options.filters;
    if (filters.algorithm.count == 0)
        filters.algorithm = (nb_names){default_algorithm, 1};
    if (filters.dtype.count == 0)
        filters.dtype = (nb_names){f32, 1};
    if (filters.hidden.count == 0)
        filters.hidden = (nb_sizes){hidden, sizeof hidden / sizeof hidden[0]};
    const bool caches_known = nb_topology_llc_share(&a->topology, 1) > 0;
    if (filters.level.count == 0 && filters.rows.count == 0 && caches_known)
        filters.level = (nb_sizes){levels, sizeof levels / sizeof levels[0]};
    return filters;
}

/* What each side has of what was chosen, whether it runs here or not. */
static int select_variants(ab *a, const nb_options *filters)
{
    nb_variants both;
    int status = nb_variants_select(filters, &a->providers, false, &both);
    nb_variants_free(&both);
    if (status == NB_OK)
        status = nb_variants_select(filters, &a->providers, true, &both);
    if (status != NB_OK)
        return status;
    for (size_t side = 0; side < AB_SIDES; side++)
        a->variants[side].items = nb_allocate(both.count * sizeof *both.items);
    for (size_t i = 0; i < both.count; i++) {
        const nb_variant *v = &both.items[i];
        nb_variants *own = &a->variants[v->provider == &a->loaded[AB_HEAD]];
        if (v->op != NK_OP_copy || filters->kernel.count)
            own->items[own->count++] = *v;
    }
    nb_variants_free(&both);
    return NB_OK;
}

static const nb_variant *counterpart(const ab *a, size_t other, const nb_variant *v)
{
    const nk_kernel *k = v->kernel;
    return nb_variant_find(&a->variants[other], k->op, k->algorithm, k->dtype, k->isa, NULL);
}

static bool runs(const nb_variant *v)
{
    return v && !v->kernel->unavailable;
}

static void note_lone(ab *a, int side)
{
    ab_result *r = &a->result;
    for (size_t i = 0; i < a->variants[side].count; i++) {
        const nb_variant *v = &a->variants[side].items[i];
        const nb_variant *other = counterpart(a, !side, v);
        if (!runs(v) || runs(other))
            continue;
        r->lone = nb_reallocate(r->lone, (r->lone_count + 1) * sizeof *r->lone);
        r->lone[r->lone_count++] = (ab_lone){v, side, other ? other->kernel->unavailable : NULL};
    }
}

/* ---- Cells -------------------------------------------------------------- */

/* Without --isa the best that both have: isa.def has the best of a family
 * last, and so have the variants. */
static bool is_best(const ab *a, size_t index)
{
    const nb_variants *base = &a->variants[AB_BASE];
    const nk_kernel *k = base->items[index].kernel;
    for (size_t i = index + 1; i < base->count; i++) {
        const nk_kernel *later = base->items[i].kernel;
        if (strcmp(k->op, later->op) == 0 && strcmp(k->algorithm, later->algorithm) == 0 &&
            strcmp(k->dtype, later->dtype) == 0 && runs(&base->items[i]) &&
            runs(counterpart(a, AB_HEAD, &base->items[i])))
            return false;
    }
    return true;
}

static int add_cells(ab *a, const nb_options *filters, const nb_variant *base,
                     const nb_variant *head)
{
    ab_result *r = &a->result;
    const size_t room = 2 * a->options.processes;
    const double own = a->options.op_margin[base->op];
    a->shapes = nb_reallocate(a->shapes, (a->shape_lists + 1) * sizeof *a->shapes);
    nb_shapes *shapes = &a->shapes[a->shape_lists++];
    *shapes = (nb_shapes){0};
    const int status = nb_shapes_add(shapes, filters, &a->topology, base->op, 0, base->dtype);
    if (status != NB_OK)
        return status;
    r->cells = nb_reallocate(r->cells, (r->count + shapes->count) * sizeof *r->cells);
    for (size_t i = 0; i < shapes->count; i++)
        r->cells[r->count++] = (ab_cell){
            .variants = {base, head},
            .shape = &shapes->items[i],
            .margin = own > 0 ? own : a->options.margin,
            .ratios = nb_allocate(room * sizeof(double)),
            .time_ns = {nb_allocate(room * sizeof(double)), nb_allocate(room * sizeof(double))}};
    return NB_OK;
}

static int make_cells(ab *a)
{
    const nb_options filters = usual_filters(a);
    int status = select_variants(a, &filters);
    if (status != NB_OK)
        return status;
    const nb_variants *base = &a->variants[AB_BASE];
    for (size_t i = 0; i < base->count && status == NB_OK; i++) {
        const nb_variant *head = counterpart(a, AB_HEAD, &base->items[i]);
        if (!runs(&base->items[i]) || !runs(head) || (filters.isa.count == 0 && !is_best(a, i)))
            continue;
        status = add_cells(a, &filters, &base->items[i], head);
    }
    note_lone(a, AB_BASE);
    note_lone(a, AB_HEAD);
    size_t measurable = 0;
    for (size_t i = 0; i < a->result.count; i++)
        measurable += !a->result.cells[i].shape->skipped;
    if (status == NB_OK && a->result.count == 0)
        return nb_fail(NB_USAGE, "%s and %s have nothing in common of what was chosen",
                       a->options.paths[AB_BASE], a->options.paths[AB_HEAD]);
    if (status == NB_OK && measurable == 0)
        return nb_fail(NB_USAGE, "no shape that was chosen can be had: %s",
                       a->result.cells[0].shape->skipped);
    return status;
}

/* ---- Measuring ---------------------------------------------------------- */

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

static int measure_all(ab *a)
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
    status = make_cells(a);
    if (status == NB_OK && o->csv)
        nb_topology_measure_clocks(&a->topology);
    return status == NB_OK ? open_outputs(a) : status;
}

static int measure_and_answer(ab *a)
{
    nb_catch_interrupts();
    int status = measure_all(a);
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
