/* SPDX-License-Identifier: Apache-2.0 */
/* normbench claim: what RMSNorm saves of LayerNorm's time, per hidden size,
 * cache level and ISA, and whether the 15-20 % that it is said to save hold. */
#include "claim.h"
#include "copy.h"
#include "interrupt.h"
#include "machine.h"
#include "program.h"
#include "progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char doc[] =
    "Measures what RMSNorm saves of LayerNorm's time on this machine, and tells whether 15-20 % "
    "hold: within if the whole interval lies inside, below or above if it lies outside, else "
    "cannot tell.\vThe two are interleaved A B B A on the same operands, with a copy of the same "
    "rows and LayerNorm's other algorithms, in several fresh processes. --kernel "
    "add_layernorm,add_rmsnorm compares the fused forms; --algorithm two_pass holds RMSNorm "
    "against that LayerNorm. Without --level or --rows all cache levels are measured.";

enum { PROCESSES = 6, PAIRS = 5 };
/* ---- Options ------------------------------------------------------------ */

typedef struct claim_options {
    nb_options filters;
    char *out;
    bool force, quick;
    size_t processes;
} claim_options;

enum { KEY_OUT = 0x200, KEY_FORCE, KEY_QUICK, KEY_PROCESSES };
static const struct argp_option own_options[] = {
    {"out", KEY_OUT, "FILE", 0, "Write the observations there as CSV, and the machine beside", 0},
    {"force", KEY_FORCE, 0, 0, "Overwrite them", 0},
    {"quick", KEY_QUICK, 0, 0, "A third of the time for each cell", 0},
    {"processes", KEY_PROCESSES, "NUMBER", 0, "Fresh processes for each cell (6)", 0},
    {0}};

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
    case KEY_QUICK:
        o->quick = true;
        return 0;
    case KEY_PROCESSES:
        if (!nb_parse_size(text, &o->processes) || o->processes == 0 || o->processes > 1000)
            argp_error(state, "--processes: '%s' is no number from 1 to 1000", text);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- Cells -------------------------------------------------------------- */

typedef struct claim {
    claim_options options;
    nb_topology topology;
    nb_providers providers;
    nb_variants variants;
    nb_copies copies;
    nb_shapes *shapes; /* [shape_lists] */
    size_t shape_lists;
    claim_cell *cells;
    size_t count;
    nb_record record;
} claim;

static const struct {
    const char *layer, *rms;
} kernel_pairs[] = {{"layernorm", "rmsnorm"}, {"add_layernorm", "add_rmsnorm"}};
enum { KERNEL_PAIRS = sizeof kernel_pairs / sizeof kernel_pairs[0] };

static bool names_hold(const nb_names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->items[i], name) == 0)
            return true;
    return false;
}

static bool pair_is_chosen(const nb_options *filters, size_t pair)
{
    if (filters->kernel.count == 0)
        return pair == 0;
    return names_hold(&filters->kernel, kernel_pairs[pair].layer) &&
           names_hold(&filters->kernel, kernel_pairs[pair].rms);
}

/* LayerNorm's algorithm that the verdict is about, and then its rivals. */
static const char *layer_algorithm(const nb_options *filters, size_t i)
{
    static const char *const usual[] = {"default", "two_pass"};
    if (filters->algorithm.count)
        return i < filters->algorithm.count ? filters->algorithm.items[i] : NULL;
    return i < sizeof usual / sizeof usual[0] ? usual[i] : NULL;
}

static bool find_participants(const claim *c, size_t pair, const nb_variant *rms, claim_cell *cell)
{
    const nb_options *filters = &c->options.filters;
    const nk_kernel *k = rms->kernel;
    const char *algorithm;
    cell->variants[RMS] = rms;
    cell->variants[COPY] = nb_copies_best(&c->copies, rms->dtype);
    cell->count = RIVALS;
    for (size_t i = 0; (algorithm = layer_algorithm(filters, i)); i++) {
        const nb_variant *layer = nb_variant_find(&c->variants, kernel_pairs[pair].layer, algorithm,
                                                  k->dtype, k->isa, rms->provider);
        if (i == 0 && !layer)
            return false;
        if (i == 0)
            cell->variants[LAYER] = layer;
        else if (layer && cell->count < NB_PARTICIPANTS)
            cell->variants[cell->count++] = layer;
    }
    return cell->variants[COPY] != NULL;
}

static int add_cells(claim *c, size_t pair, const nb_variant *rms)
{
    claim_cell cell = {0};
    if (!find_participants(c, pair, rms, &cell))
        return NB_OK;
    c->shapes = nb_reallocate(c->shapes, (c->shape_lists + 1) * sizeof *c->shapes);
    nb_shapes *shapes = &c->shapes[c->shape_lists++];
    *shapes = (nb_shapes){0};
    const int status = nb_shapes_add(shapes, &c->options.filters, &c->topology,
                                     cell.variants[LAYER]->op, rms->dtype);
    if (status != NB_OK)
        return status;
    c->cells = nb_reallocate(c->cells, (c->count + shapes->count) * sizeof *c->cells);
    for (size_t i = 0; i < shapes->count; i++) {
        cell.shape = &shapes->items[i];
        cell.results = nb_allocate(c->options.processes * sizeof *cell.results);
        c->cells[c->count++] = cell;
    }
    return NB_OK;
}

/* The variants that pass the filters other than --kernel and --algorithm, whose
 * meaning here is a pair; f32 unless --dtype says otherwise. */
static int select_variants(claim *c)
{
    char *f32 = "f32";
    nb_options wide = c->options.filters;
    int status = nb_variants_select(&wide, &c->providers, false, &c->variants); /* names exist */
    if (status != NB_OK)
        return status;
    nb_variants_free(&c->variants);
    wide.kernel = wide.algorithm = (nb_names){0};
    if (wide.dtype.count == 0)
        wide.dtype = (nb_names){.items = &f32, .count = 1};
    return nb_variants_select(&wide, &c->providers, false, &c->variants);
}

static int make_cells(claim *c)
{
    int status = select_variants(c);
    for (size_t pair = 0; pair < KERNEL_PAIRS && status == NB_OK; pair++) {
        if (!pair_is_chosen(&c->options.filters, pair))
            continue;
        for (size_t i = 0; i < c->variants.count && status == NB_OK; i++) {
            const nk_kernel *k = c->variants.items[i].kernel;
            if (strcmp(k->op, kernel_pairs[pair].rms) == 0 && strcmp(k->algorithm, "default") == 0)
                status = add_cells(c, pair, &c->variants.items[i]);
        }
    }
    if (status == NB_OK && c->count == 0)
        return nb_fail(NB_USAGE, "the filters leave no pair to compare: layernorm with rmsnorm, or "
                                 "add_layernorm with add_rmsnorm, of one provider");
    return status;
}

/* ---- Measuring ---------------------------------------------------------- */

static void write_side(claim *c, const claim_cell *cell, size_t process, size_t side, size_t pair,
                       const nb_job_result *r, const char *failure, int *status)
{
    const nb_paired_result *p = &r->paired;
    nb_csv_row row = nb_shape_row(cell->variants[side], cell->shape);
    row.process = process;
    row.repetition = pair;
    row.pair = (long)pair;
    row.slot = (long)side;
    row.error_ulp = r->error_u[side];
    if (failure)
        row.status = failure;
    if (!failure) {
        row.bytes = r->bytes[side];
        row.flops = r->flops[side];
        row.iterations = 2 * p->batch[side] * p->rounds[pair];
        row.time_ns = p->time_ns[pair][side];
    }
    if (*status == NB_OK)
        *status = nb_csv_write(&c->record.csv, &row);
}

static nb_job make_job(const claim *c, const claim_cell *cell)
{
    nb_job job = {.spec = cell->shape->spec,
                  .llc_bytes = nb_topology_llc_share(&c->topology, 1),
                  .cpu = c->topology.cpu,
                  .pairs = PAIRS,
                  .batch_ns = NB_BATCH_NS,
                  .budget_ns = c->options.quick ? 0.1e9 : 0.3e9};
    for (size_t i = 0; i < cell->count; i++)
        nb_job_add(&job, cell->variants[i]);
    return job;
}

/* One process of one cell. A failed check or a crash ends this cell, not the
 * others; what else goes wrong ends the run. */
static int measure_cell(claim *c, claim_cell *cell, size_t process)
{
    static nb_job_result r;
    const nb_job job = make_job(c, cell);
    int status = NB_OK;
    nb_job_run_apart(&job, &r);
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

static int measure_all(claim *c)
{
    nb_progress progress;
    nb_progress_start(&progress, c->count * c->options.processes);
    int status = NB_OK;
    for (size_t process = 0; process < c->options.processes && status == NB_OK; process++) {
        size_t *order = nb_shuffled(c->count, c->options.filters.seed + process);
        for (size_t i = 0; i < c->count && status == NB_OK; i++) {
            claim_cell *cell = &c->cells[order[i]];
            char name[NB_NAME_BYTES];
            nb_progress_step(&progress, nb_cell_name(cell->variants[RMS], cell->shape->spec.rows,
                                                     cell->shape->spec.hidden, name));
            if (!cell->failed && !cell->shape->skipped)
                status = measure_cell(c, cell, process);
            if (nb_interrupted)
                status = NB_INTERRUPTED;
        }
        free(order);
    }
    nb_progress_clear(&progress);
    if (status == NB_INTERRUPTED)
        nb_fail(status, "interrupted%s%s", c->options.out ? "; what is finished stays in " : "",
                c->options.out ? c->options.out : "");
    return status;
}

/* ---- The command -------------------------------------------------------- */

static void record_cells(claim *c)
{
    for (size_t i = 0; i < c->count; i++) {
        const claim_cell *cell = &c->cells[i];
        for (size_t side = 0; side < cell->count; side++) {
            char name[NB_NAME_BYTES];
            nb_cell_name(cell->variants[side], cell->shape->spec.rows, cell->shape->spec.hidden,
                         name);
            if (cell->done || cell->shape->skipped)
                nb_record_cell(&c->record, name, nb_shape_level(cell->shape),
                               cell->done ? cell->results[0].store_used[side] : 0,
                               cell->shape->skipped);
        }
    }
}

static int open_record(claim *c)
{
    size_t count;
    char **arguments = nb_options_arguments(&c->options.filters, &count);
    nb_arguments_add(&arguments, &count, nb_format("--processes=%zu", c->options.processes));
    if (c->options.quick)
        nb_arguments_add(&arguments, &count, nb_duplicate("--quick"));
    const int status =
        nb_record_open(&c->record, c->options.out, c->options.force, "claim", &c->options.filters,
                       arguments, count, &c->topology, &c->providers);
    nb_arguments_free(arguments, count);
    return status;
}

static int prepare(claim *c)
{
    int status = nb_check_threads(&c->options.filters);
    if (status == NB_OK)
        status = nb_providers_load(&c->options.filters.provider, &c->providers);
    if (status == NB_OK)
        status = nb_copies_load(&c->copies);
    if (status != NB_OK)
        return status;
    nb_topology_load(&c->topology);
    status = make_cells(c);
    if (status == NB_OK && c->options.out)
        nb_topology_measure_clocks(&c->topology);
    return status == NB_OK ? open_record(c) : status;
}

static int measure_and_answer(claim *c)
{
    nb_catch_interrupts();
    int status = measure_all(c);
    for (size_t i = 0; i < c->count && status == NB_OK; i++)
        if (c->cells[i].failed)
            status = NB_FAILED;
    record_cells(c);
    const bool complete = status == NB_OK || status == NB_FAILED;
    const int closed = nb_record_close(&c->record, complete);
    if (complete)
        nb_claim_print(c->cells, c->count, c->options.processes);
    const int printed = nb_output_close(stdout, "the table");
    return status != NB_OK ? status : closed != NB_OK ? closed : printed;
}

static void release(claim *c)
{
    for (size_t i = 0; i < c->count; i++)
        free(c->cells[i].results);
    free(c->cells);
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
