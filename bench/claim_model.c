/* SPDX-License-Identifier: Apache-2.0 */
/* claim --model: what the norm costs a model, and what RMSNorm saves of it. */
#include "claim.h"
#include "program.h"

#include <stdlib.h>
#include <string.h>

/* The norms of all layers, and one at the end (after the embedding in a Post-Norm
 * model). */
static double norm_calls(const nb_model *model)
{
    return (double)(model->layers * model->norms + 1);
}

/* Where a norm follows the addition of a residual, both are one call. */
static const claim_pair *pair_of(const nb_model *model)
{
    const bool fused = model->placement == NB_PLACEMENT_PRE ||
                       model->placement == NB_PLACEMENT_POST ||
                       model->placement == NB_PLACEMENT_PARALLEL;
    return &nb_claim_pairs[fused ? CLAIM_FUSED : CLAIM_PLAIN];
}

/* ---- Cells -------------------------------------------------------------- */

static int add_variant(claim *c, const nb_model *model, const nb_variant *rms)
{
    static size_t usual[] = {1, 512}; /* decode, and a prompt */
    size_t hidden = model->hidden, rotate = NB_ROTATE;
    nb_options shapes = c->options.filters;
    shapes.hidden = (nb_sizes){&hidden, 1};
    shapes.mode = (nb_sizes){&rotate, 1};
    if (!shapes.rows.count)
        shapes.rows = (nb_sizes){usual, 2};
    /* Between two norms a model reads so many weights that no cache remembers the
     * first: without its name, the rotation reaches beyond the caches. */
    shapes.model = (nb_names){0};
    const claim_request request = {pair_of(model), rms, c->options.filters.algorithm, &shapes};
    const size_t before = c->count;
    const int status = nb_claim_add(c, &request);
    for (size_t i = before; i < c->count; i++) {
        c->cells[i].model = model;
        c->cells[i].shape->spec.eps = (float)model->eps;
        c->cells[i].shape->spec.gamma_offset = (float)model->gamma_offset;
    }
    return status;
}

int nb_claim_model_cells(claim *c)
{
    const nb_options *f = &c->options.filters;
    int status = NB_OK;
    for (size_t m = 0; m < f->model.count; m++) {
        const nb_model *model = nb_model_find(f->model.items[m]);
        for (size_t i = 0; i < c->variants.count && status == NB_OK; i++) {
            const nb_variant *v = &c->variants.items[i];
            const nk_kernel *k = v->kernel;
            if (strcmp(k->op, pair_of(model)->rms) == 0 && strcmp(k->algorithm, "default") == 0 &&
                (f->isa.count || v == nb_claim_best(c, v->provider, k->op, k->dtype)))
                status = add_variant(c, model, v);
        }
    }
    return status;
}

/* ---- The answer --------------------------------------------------------- */

/* Nanoseconds that one call saves. */
static nb_estimate saved_ns(const claim_cell *cell)
{
    double *values = nb_allocate(cell->done * sizeof *values);
    for (size_t i = 0; i < cell->done; i++) {
        const nb_paired_result *p = &cell->results[i].paired;
        double saved[NB_PAIRS];
        for (size_t pair = 0; pair < p->pairs; pair++)
            saved[pair] = p->time_ns[pair][LAYER] - p->time_ns[pair][RMS];
        values[i] = nb_median(saved, p->pairs);
    }
    const nb_estimate estimate = nb_estimate_median(values, cell->done);
    free(values);
    return estimate;
}

static void add_row(nb_table *table, const claim_cell *cell)
{
    const size_t rows = cell->shape->spec.rows;
    const double tokens_us = norm_calls(cell->model) / (double)rows / 1e3;
    nb_table_add(table, NB_PLAIN, "%zu", rows);
    nb_table_add(table, NB_PLAIN, "%s", cell->variants[RMS]->kernel->dtype);
    nb_table_add(table, NB_PLAIN, "%s", cell->variants[RMS]->kernel->isa);
    for (size_t side = LAYER; side <= RMS; side++)
        if (cell->done)
            nb_table_add(table, NB_PLAIN, "%.2f", nb_claim_call_ns(cell, side) / 1e3);
        else
            nb_table_add(table, NB_DIM, "-");
    nb_claim_add_saving(table, cell);
    if (cell->done) {
        const nb_estimate saved = saved_ns(cell);
        nb_table_add(table, NB_BOLD, "%.3g us", saved.median * tokens_us);
        nb_table_add(table, NB_PLAIN, "%.3g..%.3g", saved.low * tokens_us, saved.high * tokens_us);
    } else {
        nb_table_add(table, NB_DIM, "-");
        nb_table_add(table, NB_DIM, "-");
    }
    nb_claim_add_verdict(table, cell);
}

static void print_heading(const claim_cell *cell)
{
    const nb_model *m = cell->model;
    printf("%s has %s: hidden %zu, %zu layers of %zu norm%s (%s) and one norm more, %g calls a "
           "pass\n%s against %s, operands beyond the caches\n",
           m->name, m->norm, m->hidden, m->layers, m->norms, m->norms > 1 ? "s" : "",
           nb_placement_names[m->placement], norm_calls(m), cell->variants[RMS]->kernel->op,
           cell->variants[LAYER]->kernel->op);
}

/* A pass takes at least as long as its parameters take to come from memory. */
static void print_share(const claim *c, const claim_cell *cell)
{
    const nb_model *m = cell->model;
    const nk_dtype_info *dtype = &nk_dtypes[cell->variants[RMS]->dtype];
    if (cell->done == 0 || cell->shape->spec.rows != 1)
        return;
    if (c->memory.threads == 0) {
        puts("What share of a pass that is cannot be told: the caches are unknown here.");
        return;
    }
    const nb_pace *memory = nb_limits_find(&c->limits, c->memory);
    const double bytes = m->parameters * (double)dtype->bytes;
    const double pass_ns = bytes / memory->flow[NB_LOAD];
    const nb_estimate saved = saved_ns(cell);
    printf("A token reads %.3g GB of parameters (%s): %.3g ms, as %zu thread%s load%s %.3g GB/s "
           "here.\nOf that RMSNorm %s at most %.2g %% [%.2g, %.2g].\n",
           bytes / 1e9, dtype->name, pass_ns / 1e6, memory->threads, memory->threads > 1 ? "s" : "",
           memory->threads > 1 ? "" : "s", memory->flow[NB_LOAD],
           strcmp(m->norm, "rmsnorm") == 0 ? "already saves" : "would save",
           100 * saved.median * norm_calls(m) / pass_ns, 100 * saved.low * norm_calls(m) / pass_ns,
           100 * saved.high * norm_calls(m) / pass_ns);
}

void nb_claim_print_models(const claim *c)
{
    static const char *const titles[] = {
        ">rows",        "<dtype",   "<isa",          ">LN, us",        ">RMS, us", ">saves",
        ">interval, %", ">a token", ">interval, us", "<15-20 % hold?", NULL};
    for (size_t first = 0, next; first < c->count; first = next) {
        const claim_cell *head = &c->cells[first];
        nb_table table;
        nb_table_init(&table, titles);
        if (first)
            putchar('\n');
        print_heading(head);
        for (next = first; next < c->count && c->cells[next].model == head->model; next++)
            add_row(&table, &c->cells[next]);
        nb_table_print(&table, stdout);
        for (size_t i = first; i < next; i++)
            print_share(c, &c->cells[i]);
    }
}
