/* SPDX-License-Identifier: Apache-2.0 */
/* claim --meanings: "RMSNorm saves 15-20 % of the computation" can be said of the
 * formula's arithmetic, of what is executed, of the bytes that must move and of
 * time. All of them, for each LayerNorm. */
#include "claim.h"
#include "program.h"
#include "trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Cells -------------------------------------------------------------- */

static int add_layers(claim *c, const nb_variant *rms)
{
    size_t hidden = 4096, level = NB_L2, rows = nb_claim_rows(c);
    nb_options shapes = c->options.filters;
    if (!shapes.hidden.count)
        shapes.hidden = (nb_sizes){&hidden, 1};
    if (!shapes.rows.count && !shapes.level.count) {
        shapes.level = (nb_sizes){&level, rows == 0};
        shapes.rows = (nb_sizes){&rows, rows != 0};
    }
    int status = NB_OK;
    for (size_t i = 0; i < c->variants.count && status == NB_OK; i++) {
        const nb_variant *v = &c->variants.items[i];
        char *algorithm = (char *)v->kernel->algorithm;
        const claim_request request = {&nb_claim_pairs[CLAIM_PLAIN], rms, {&algorithm, 1}, &shapes};
        const nb_names *asked = &c->options.filters.algorithm;
        if (v->provider == rms->provider && strcmp(v->kernel->op, "layernorm") == 0 &&
            strcmp(v->kernel->dtype, rms->kernel->dtype) == 0 &&
            strcmp(v->kernel->isa, rms->kernel->isa) == 0 && nb_names_allow(asked, algorithm))
            status = nb_claim_add(c, &request);
    }
    return status;
}

int nb_claim_meanings_cells(claim *c)
{
    int status = NB_OK;
    for (size_t i = 0; i < c->variants.count && status == NB_OK; i++) {
        const nb_variant *v = &c->variants.items[i];
        const nk_kernel *k = v->kernel;
        if (strcmp(k->op, "rmsnorm") == 0 && strcmp(k->algorithm, "default") == 0 &&
            (c->options.filters.isa.count || v == nb_claim_best(c, v->provider, k->op, k->dtype)))
            status = add_layers(c, v);
    }
    return status;
}

/* ---- Counts ------------------------------------------------------------- */

typedef struct counted {
    const nb_variant *variant;
    const nb_workspace_spec *spec;
    nb_counts counts;
} counted;

typedef struct tracer {
    counted *items;
    size_t count;
    int status; /* of the first trace that failed */
} tracer;

static const nb_counts *find_counts(const tracer *t, const claim_cell *cell, size_t side)
{
    const nb_workspace_spec *spec = &cell->shape->spec;
    for (size_t i = 0; i < t->count; i++)
        if (t->items[i].variant == cell->variants[side] && t->items[i].spec->rows == spec->rows &&
            t->items[i].spec->hidden == spec->hidden)
            return &t->items[i].counts;
    return NULL;
}

/* Where tracing is denied the message says why, once. */
static void trace(tracer *t, nb_counts_csv *csv, const claim_cell *cell, size_t side)
{
    if (t->status != NB_OK || find_counts(t, cell, side))
        return;
    counted one = {.variant = cell->variants[side], .spec = &cell->shape->spec};
    nb_workspace_spec spec = cell->shape->spec;
    nb_workspace workspace;
    spec.op = one.variant->op;
    spec.sets = 1;
    t->status = nb_workspace_create(&workspace, &spec);
    if (t->status == NB_OK)
        t->status = nb_trace_call(one.variant, &workspace, &one.counts);
    nb_workspace_free(&workspace);
    if (t->status == NB_OK)
        t->status = nb_counts_csv_write(csv, one.variant, spec.rows, spec.hidden, &one.counts);
    if (t->status != NB_OK)
        return;
    t->items = nb_reallocate(t->items, (t->count + 1) * sizeof *t->items);
    t->items[t->count++] = one;
}

static void trace_all(claim *c, tracer *t)
{
    for (size_t i = 0; i < c->count; i++)
        for (size_t side = LAYER; side <= RMS && c->cells[i].done; side++)
            trace(t, &c->counts, &c->cells[i], side);
}

/* ---- The table ---------------------------------------------------------- */

/* A line whose numbers are exact. NAN: unknown. */
static void add_exact(nb_table *table, const char *layer, const char *what, double layers,
                      double rms)
{
    const double saving = 1 - rms / layers;
    nb_table_add(table, NB_BOLD, "%s", layer);
    nb_table_add(table, NB_PLAIN, "%s", what);
    if (!(saving == saving)) {
        for (size_t i = 0; i < 5; i++)
            nb_table_add(table, NB_DIM, "-");
        return;
    }
    nb_table_add(table, NB_PLAIN, "%.2f", layers);
    nb_table_add(table, NB_PLAIN, "%.2f", rms);
    nb_table_add(table, NB_BOLD, "%.1f %%", 100 * saving);
    nb_table_add(table, NB_DIM, "exact");
    nb_claim_add_word(table, nb_claim_word(saving, saving));
}

static double each(const tracer *t, const claim_cell *cell, size_t side, bool flops)
{
    const nb_counts *counts = find_counts(t, cell, side);
    const double elements = (double)cell->shape->spec.rows * (double)cell->shape->spec.hidden;
    return counts ? (double)(flops ? counts->flops : counts->instructions) / elements : NAN;
}

static void add_cell(nb_table *table, const tracer *t, const claim_cell *cell)
{
    if (!cell->done) {
        nb_table_add(table, NB_BOLD, "%s", cell->variants[LAYER]->kernel->algorithm);
        for (size_t i = 0; i < 5; i++)
            nb_table_add(table, NB_DIM, "-");
        nb_claim_add_verdict(table, cell);
        return;
    }
    const nb_job_result *r = &cell->results[0];
    const double rows = (double)cell->shape->spec.rows;
    const double elements = rows * (double)cell->shape->spec.hidden;
    add_exact(table, cell->variants[LAYER]->kernel->algorithm, "operations of the formula",
              r->flops[LAYER] / elements, r->flops[RMS] / elements);
    add_exact(table, "", "operations executed", each(t, cell, LAYER, true),
              each(t, cell, RMS, true));
    add_exact(table, "", "instructions executed", each(t, cell, LAYER, false),
              each(t, cell, RMS, false));
    add_exact(table, "", "bytes that must move", r->bytes[LAYER] / elements,
              r->bytes[RMS] / elements);
    nb_table_add(table, NB_PLAIN, "%s", "");
    nb_table_add(table, NB_PLAIN, "nanoseconds");
    for (size_t side = LAYER; side <= RMS; side++)
        nb_table_add(table, NB_PLAIN, "%.4f", nb_claim_call_ns(cell, side) / elements);
    nb_claim_add_saving(table, cell);
    nb_claim_add_verdict(table, cell);
}

static void print_one(const tracer *t, const claim_cell *cells, size_t count)
{
    static const char *const titles[] = {
        "<LayerNorm", "<an element costs", ">LayerNorm",     ">RMSNorm",
        ">saves",     ">interval, %",      "<15-20 % hold?", NULL};
    const nk_kernel *rms = cells->variants[RMS]->kernel;
    const char *level = nb_shape_level(cells->shape);
    printf("rmsnorm against layernorm of %s, %s, %s, %zu rows of %zu (%s)\n",
           cells->variants[RMS]->provider->label, rms->dtype, rms->isa, cells->shape->spec.rows,
           cells->shape->spec.hidden, level ? level : "level unknown");
    nb_table table;
    nb_table_init(&table, titles);
    for (size_t i = 0; i < count; i++)
        add_cell(&table, t, &cells[i]);
    nb_table_print(&table, stdout);
}

static int by_shape(const void *left, const void *right)
{
    const claim_cell *a = left, *b = right;
    const nb_workspace_spec *s = &a->shape->spec, *t = &b->shape->spec;
    if (a->variants[RMS] != b->variants[RMS])
        return a->variants[RMS] < b->variants[RMS] ? -1 : 1;
    if (s->hidden != t->hidden)
        return s->hidden < t->hidden ? -1 : 1;
    if (s->rows != t->rows)
        return s->rows < t->rows ? -1 : 1;
    return a->variants[LAYER] < b->variants[LAYER] ? -1 : a->variants[LAYER] > b->variants[LAYER];
}

int nb_claim_print_meanings(claim *c)
{
    tracer t = {.status = NB_OK};
    trace_all(c, &t);
    qsort(c->cells, c->count, sizeof *c->cells, by_shape);
    for (size_t first = 0, next; first < c->count; first = next) {
        const claim_cell *head = &c->cells[first];
        for (next = first;
             next < c->count && c->cells[next].shape->spec.rows == head->shape->spec.rows &&
             c->cells[next].shape->spec.hidden == head->shape->spec.hidden &&
             c->cells[next].variants[RMS] == head->variants[RMS];
             next++)
            ;
        if (first)
            putchar('\n');
        print_one(&t, head, next - first);
    }
    if (t.status == NB_MACHINE)
        puts("Nothing was counted as executed: the message on stderr says why.");
    free(t.items);
    /* What this machine denies leaves the others of the meanings. */
    return t.status == NB_MACHINE ? NB_OK : t.status;
}
