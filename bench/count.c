/* SPDX-License-Identifier: Apache-2.0 */
/* normbench count: the exact work of one call, without a hardware counter. */
#include "baseline.h"
#include "counts_csv.h"
#include "interrupt.h"
#include "program.h"
#include "progress.h"
#include "table.h"
#include "topology.h"
#include "trace.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char doc[] =
    "Counts what one call of each kernel executes, to the instruction: the call is single-stepped "
    "under ptrace and every instruction decoded. Without --rows: 8; without --hidden or --model: "
    "768 and 4096. FLOPs: an FMA is two; what is masked off is not counted, in bytes neither. A "
    "kernel whose results are wrong has no count.\v"
    "With --baseline it ends with 1 when a kernel executes more instructions than FILE says, by "
    "more than --margin, or has gone. FILE is what --csv wrote, by the same compiler and on a "
    "machine with the same caches: the order of the work depends on both.";

enum { KEY_CSV = 0x200, KEY_FORCE, KEY_DETAIL, KEY_BASELINE, KEY_MARGIN, KEY_LOG, KEY_FILTER };
static const struct argp_option own_options[] = {
    {"csv", KEY_CSV, "FILE", 0, "Write the counts, a row a kernel and shape", -1},
    {"force", KEY_FORCE, 0, 0, "Overwrite an existing FILE", -1},
    {"detail", KEY_DETAIL, 0, 0, "Print instructions by class", -1},
    {"baseline", KEY_BASELINE, "FILE", 0, "Compare with the counts in FILE", -1},
    {"margin", KEY_MARGIN, "PERCENT", 0, "How much more is let pass (1)", -1},
    {"execution-log", KEY_LOG, "FILE", 0,
     "Under qemu: count from its execution log, see scripts/count_qemu.sh", -1},
    {"log-filter", KEY_FILTER, 0, 0, "Print what qemu's -dfilter needs to be, and stop", -1},
    {0}};

typedef struct count_options {
    nb_options filters;
    const char *csv, *baseline, *log;
    bool force, detail, log_filter, has_margin;
    double margin; /* per cent */
} count_options;

static void parse_margin(count_options *options, const char *text, struct argp_state *state)
{
    char *end;
    options->margin = strtod(text, &end);
    options->has_margin = true;
    if (end == text || *end || !(options->margin >= 0) || isinf(options->margin))
        argp_error(state, "--margin: '%s' is no percentage from 0 on", text);
}

static void check_options(const count_options *options, struct argp_state *state)
{
    if (options->force && !options->csv)
        argp_error(state, "--force: there is no output without --csv");
    if (options->has_margin && !options->baseline)
        argp_error(state, "--margin: there is nothing to compare with without --baseline");
    if (options->log_filter && (options->csv || options->baseline || options->log))
        argp_error(state, "--log-filter counts nothing: leave the other options out");
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    count_options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->filters;
        return 0;
    case KEY_CSV:
        options->csv = text;
        return 0;
    case KEY_FORCE:
        options->force = true;
        return 0;
    case KEY_DETAIL:
        options->detail = true;
        return 0;
    case KEY_BASELINE:
        options->baseline = text;
        return 0;
    case KEY_MARGIN:
        parse_margin(options, text, state);
        return 0;
    case KEY_LOG:
        options->log = text;
        return 0;
    case KEY_FILTER:
        options->log_filter = true;
        return 0;
    case ARGP_KEY_SUCCESS:
        check_options(options, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- Cells -------------------------------------------------------------- */

typedef struct counted {
    const nb_variant *variant;
    size_t rows, hidden;
    bool done;
    nb_counts counts;
    uint64_t before; /* of the baseline; 0 where it has none */
} counted;

typedef struct counting {
    const count_options *options;
    const nb_variants *variants;
    nb_sizes rows, hidden;
    char caches[64];
    counted *cells;
    size_t count;
    nb_baseline baseline;
    nb_counts_csv csv;
} counting;

static nb_baseline_row row_of(const counting *c, const counted *cell)
{
    const nk_kernel *k = cell->variant->kernel;
    const nk_provider *p = cell->variant->provider->table;
    return (nb_baseline_row){.provider = p->name,
                             .build = p->build,
                             .caches = c->caches,
                             .kernel = k->op,
                             .algorithm = k->algorithm,
                             .dtype = k->dtype,
                             .isa = k->isa,
                             .rows = cell->rows,
                             .hidden = cell->hidden,
                             .instructions = cell->counts.instructions};
}

static int make_cells(counting *c)
{
    c->cells = nb_allocate(c->variants->count * c->rows.count * c->hidden.count * sizeof *c->cells);
    for (size_t v = 0; v < c->variants->count; v++)
        for (size_t r = 0; r < c->rows.count; r++)
            for (size_t h = 0; h < c->hidden.count; h++) {
                const size_t rows = c->rows.items[r], hidden = c->hidden.items[h];
                const int status = nb_shape_check(rows, hidden);
                if (status != NB_OK)
                    return status;
                c->cells[c->count++] =
                    (counted){.variant = &c->variants->items[v], .rows = rows, .hidden = hidden};
            }
    return NB_OK;
}

/* ---- The baseline ------------------------------------------------------- */

static int compare_key(const counting *c, const nb_baseline_row *stored, const char *what,
                       const char *before, const char *now)
{
    if (strcmp(before, now) == 0)
        return NB_OK;
    return nb_fail(NB_USAGE,
                   "%s:%zu: counted with %s '%s', here it is '%s': such counts cannot be compared. "
                   "Store new ones by `normbench count --csv FILE`",
                   c->baseline.path, stored->line, what, before, now);
}

/* Finds what is to be compared with what, and refuses before anything is
 * counted. */
static int match_baseline(counting *c)
{
    size_t common = 0;
    int status = NB_OK;
    if (!c->options->baseline)
        return NB_OK;
    status = nb_baseline_read(c->options->baseline, &c->baseline);
    for (size_t i = 0; i < c->count && status == NB_OK; i++) {
        const nb_baseline_row row = row_of(c, &c->cells[i]);
        nb_baseline_row *stored = nb_baseline_find(&c->baseline, &row);
        if (!stored)
            continue;
        status = compare_key(c, stored, "the build", stored->build, row.build);
        if (status == NB_OK)
            status = compare_key(c, stored, "the caches", stored->caches, row.caches);
        c->cells[i].before = stored->instructions;
        stored->used = true;
        common++;
    }
    if (status == NB_OK && !common)
        return nb_fail(NB_USAGE, "%s: has no kernel and shape in common with what is counted here",
                       c->baseline.path);
    return status;
}

/* Whether the filters ask for a stored row. */
static bool is_wanted(const counting *c, const nb_baseline_row *row)
{
    const nb_options *f = &c->options->filters;
    bool loaded = false;
    for (size_t i = 0; i < c->variants->count; i++)
        loaded |= strcmp(c->variants->items[i].provider->table->name, row->provider) == 0;
    return loaded && nb_names_allow(&f->kernel, row->kernel) &&
           nb_names_allow(&f->algorithm, row->algorithm) && nb_names_allow(&f->dtype, row->dtype) &&
           nb_names_allow(&f->isa, row->isa) && nb_sizes_allow(&c->rows, row->rows) &&
           nb_sizes_allow(&c->hidden, row->hidden);
}

/* Why the kernel of a stored row cannot run here; NULL if there is none such. */
static const char *why_unavailable(const counting *c, const nb_baseline_row *row)
{
    for (size_t v = 0; v < c->variants->count; v++) {
        const nk_provider *p = c->variants->items[v].provider->table;
        for (size_t i = 0; i < p->count && strcmp(p->name, row->provider) == 0; i++) {
            const nk_kernel *k = &p->kernels[i];
            if (strcmp(k->op, row->kernel) == 0 && strcmp(k->algorithm, row->algorithm) == 0 &&
                strcmp(k->dtype, row->dtype) == 0 && strcmp(k->isa, row->isa) == 0)
                return k->unavailable;
        }
    }
    return NULL;
}

/* Stored kernels that were not counted; returns how many are gone. */
static size_t print_missing(const counting *c)
{
    size_t gone = 0;
    for (size_t i = 0; i < c->baseline.count; i++) {
        const nb_baseline_row *row = &c->baseline.items[i];
        if (row->used || !is_wanted(c, row))
            continue;
        const char *why = why_unavailable(c, row);
        printf("%s: %s/algorithm:%s/dtype:%s/isa:%s/rows:%ju/hidden:%ju%s%s\n",
               why ? "not counted" : "missing", row->kernel, row->algorithm, row->dtype, row->isa,
               (uintmax_t)row->rows, (uintmax_t)row->hidden, why ? ": " : "", why ? why : "");
        gone += !why;
    }
    return gone;
}

static double change(const counted *cell)
{
    return ((double)cell->counts.instructions / (double)cell->before - 1) * 100;
}

/* NB_FAILED if a kernel executes more, or has gone. */
static int print_comparison(const counting *c)
{
    size_t more = 0, less = 0, new = 0, same = 0;
    for (size_t i = 0; i < c->count; i++) {
        const counted *cell = &c->cells[i];
        char name[NB_NAME_BYTES];
        nb_cell_name(cell->variant, cell->rows, cell->hidden, name);
        if (!cell->done)
            continue;
        if (!cell->before) {
            printf("new: %s: %" PRIu64 " instructions\n", name, cell->counts.instructions);
            new ++;
        } else if (fabs(change(cell)) > c->options->margin) {
            const bool worse = change(cell) > 0;
            printf("%s: %s: %" PRIu64 " instructions, were %" PRIu64 " (%+.2f %%)\n",
                   worse ? "MORE" : "less", name, cell->counts.instructions, cell->before,
                   change(cell));
            worse ? more++ : less++;
        } else {
            same++;
        }
    }
    const size_t gone = print_missing(c);
    printf("against %s: %zu more by over %g %%, %zu within it, %zu less, %zu new, %zu missing\n",
           c->baseline.path, more, c->options->margin, same, less, new, gone);
    return more || gone ? NB_FAILED : NB_OK;
}

/* ---- The report --------------------------------------------------------- */

static void print_summary(const counting *c)
{
    static const char *const titles[] = {"<kernel",   "<dtype",  "<isa",     "<shape",
                                         ">per call", ">row",    ">element", ">FLOPs",
                                         ">loaded",   ">stored", NULL};
    nb_table table;
    nb_table_init(&table, titles);
    for (size_t i = 0; i < c->count; i++) {
        const counted *cell = &c->cells[i];
        const nk_kernel *k = cell->variant->kernel;
        const nb_counts *n = &cell->counts;
        const double elements = (double)cell->rows * (double)cell->hidden;
        const bool plain = strcmp(k->algorithm, "default") == 0;
        if (!cell->done)
            continue;
        nb_table_add(&table, NB_PLAIN, "%s%s%s", k->op, plain ? "" : "/",
                     plain ? "" : k->algorithm);
        nb_table_add(&table, NB_PLAIN, "%s", k->dtype);
        nb_table_add(&table, NB_PLAIN, "%s", k->isa);
        nb_table_add(&table, NB_PLAIN, "%zux%zu", cell->rows, cell->hidden);
        nb_table_add(&table, NB_PLAIN, "%" PRIu64, n->instructions);
        nb_table_add(&table, NB_PLAIN, "%.1f", (double)n->instructions / (double)cell->rows);
        nb_table_add(&table, NB_PLAIN, "%.3f", (double)n->instructions / elements);
        nb_table_add(&table, NB_PLAIN, "%.2f", (double)n->flops / elements);
        nb_table_add(&table, NB_PLAIN, "%.2f", (double)n->load_bytes / elements);
        nb_table_add(&table, NB_PLAIN, "%.2f", (double)n->store_bytes / elements);
    }
    puts("Instructions per call, row and element; FLOPs, bytes loaded and stored per element");
    nb_table_print(&table, stdout);
}

static void add_detail(nb_table *table, const counted *cell, const char *what, uint64_t value)
{
    const double rows = (double)cell->rows;
    if (!value)
        return;
    nb_table_add(table, NB_PLAIN, "%s", what);
    nb_table_add(table, NB_PLAIN, "%" PRIu64, value);
    nb_table_add(table, NB_PLAIN, "%.1f", (double)value / rows);
    nb_table_add(table, NB_PLAIN, "%.4f", (double)value / rows / (double)cell->hidden);
}

static void print_detail(const counted *cell)
{
    static const char *const titles[] = {"<", ">call", ">row", ">element", NULL};
    const nb_counts *n = &cell->counts;
    char name[NB_NAME_BYTES];
    nb_table table;
    nb_table_init(&table, titles);
    add_detail(&table, cell, "instructions", n->instructions);
    for (int i = 0; i < NB_CLASSES; i++)
        add_detail(&table, cell, nb_class_names[i], n->classes[i]);
    add_detail(&table, cell, "lanes of arithmetic", n->lanes);
    add_detail(&table, cell, "FLOPs", n->flops);
    add_detail(&table, cell, "loads", n->loads);
    add_detail(&table, cell, "bytes loaded", n->load_bytes);
    add_detail(&table, cell, "stores", n->stores);
    add_detail(&table, cell, "bytes stored", n->store_bytes);
    add_detail(&table, cell, "prefetches", n->prefetches);
    printf("%s\n", nb_cell_name(cell->variant, cell->rows, cell->hidden, name));
    nb_table_print(&table, stdout);
    putchar('\n');
}

/* ---- The command -------------------------------------------------------- */

static int count_cell(counting *c, counted *cell)
{
    const nb_workspace_spec spec = {.op = cell->variant->op,
                                    .dtype = cell->variant->dtype,
                                    .rows = cell->rows,
                                    .hidden = cell->hidden,
                                    .eps = 1e-5f,
                                    .seed = c->options->filters.seed};
    nb_workspace workspace;
    int status = nb_workspace_create(&workspace, &spec);
    if (status == NB_OK)
        status = c->options->log
                     ? nb_trace_log(cell->variant, &workspace, c->options->log, &cell->counts)
                     : nb_trace_call(cell->variant, &workspace, &cell->counts);
    nb_workspace_free(&workspace);
    cell->done = status == NB_OK;
    return cell->done ? nb_counts_csv_write(&c->csv, cell->variant, cell->rows, cell->hidden,
                                            &cell->counts)
                      : status;
}

/* A kernel that fails does not keep the others from being counted. */
static int count_cells(counting *c)
{
    nb_progress progress;
    char name[NB_NAME_BYTES];
    bool failed = false;
    nb_progress_start(&progress, c->count);
    for (size_t i = 0; i < c->count; i++) {
        counted *cell = &c->cells[i];
        nb_progress_step(&progress, nb_cell_name(cell->variant, cell->rows, cell->hidden, name));
        const int status = count_cell(c, cell);
        nb_progress_clear(&progress);
        if (status > NB_FAILED)
            return status;
        failed |= status == NB_FAILED;
    }
    return failed ? NB_FAILED : NB_OK;
}

static int count_all(counting *c)
{
    int status = make_cells(c);
    if (status == NB_OK)
        status = match_baseline(c);
    if (status == NB_OK && c->options->csv)
        status = nb_counts_csv_open(&c->csv, c->options->csv, c->options->force);
    if (status == NB_OK)
        status = count_cells(c);
    if (status > NB_FAILED)
        return status;
    for (size_t i = 0; i < c->count && c->options->detail; i++)
        if (c->cells[i].done)
            print_detail(&c->cells[i]);
    print_summary(c);
    const int compared = c->options->baseline ? print_comparison(c) : NB_OK;
    return status == NB_OK ? compared : status;
}

static int count(const count_options *options, const nb_variants *variants)
{
    static size_t rows[] = {8}, hidden[] = {768, 4096};
    const nb_options *f = &options->filters;
    counting c = {.options = options,
                  .variants = variants,
                  .rows = f->rows.count ? f->rows : (nb_sizes){rows, 1},
                  .hidden = f->hidden.count ? f->hidden : (nb_sizes){hidden, 2}};
    if (options->log_filter) {
        char *filter = nb_trace_filter(variants);
        puts(filter);
        free(filter);
        return NB_OK;
    }
    nb_counts_caches(c.caches, sizeof c.caches);
    int status = count_all(&c);
    const int closed = nb_counts_csv_close(&c.csv);
    status = status == NB_OK ? closed : status;
    nb_baseline_free(&c.baseline);
    free(c.cells);
    return status;
}

int nb_count(int argc, char **argv)
{
    static const struct argp_child children[] = {{&nb_filters, 0, NULL, 0}, {0}};
    static const struct argp argp = {own_options, parse, NULL, doc, children, NULL, NULL};
    count_options options = {
        .filters = {.command = "count", .takes = NB_TAKES_SHAPES | NB_TAKES_SEED}, .margin = 1};
    nb_providers providers = {0};
    nb_variants variants = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    nb_catch_interrupts();
    int status = nb_providers_load(&options.filters.provider, &providers);
    if (status == NB_OK)
        status = nb_variants_select(&options.filters, &providers, false, &variants);
    if (status == NB_OK)
        status = count(&options, &variants);
    const int written = nb_output_close(stdout, "the report");
    nb_variants_free(&variants);
    nb_providers_unload(&providers);
    nb_options_free(&options.filters);
    return status == NB_OK ? written : status;
}
