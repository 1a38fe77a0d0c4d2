/* SPDX-License-Identifier: Apache-2.0 */
/* claim --axes: a base cell, and from it each axis alone. A filter gives its axis
 * its values, the first of them to the base. */
#include "claim.h"
#include "program.h"

#include <stdlib.h>
#include <string.h>

/* Where on the axes a cell lies. */
typedef struct point {
    const claim_pair *pair;
    const nb_provider *provider;
    const char *algorithm; /* of LayerNorm; NULL: the usual ones */
    const char *dtype, *isa;
    size_t hidden;
    size_t rows; /* 0: as many as the level holds */
    size_t level;
    enum nb_mode mode;
    size_t threads;
} point;

typedef struct builder {
    claim *c;
    point *points; /* [c->count]: of each cell */
    point base;
    int status; /* once it is not NB_OK, nothing is added */
} builder;

/* ---- Points ------------------------------------------------------------- */

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_point(const point *a, const point *b)
{
    return a->pair == b->pair && a->provider == b->provider &&
           same_text(a->algorithm, b->algorithm) && same_text(a->dtype, b->dtype) &&
           same_text(a->isa, b->isa) && a->hidden == b->hidden && a->rows == b->rows &&
           a->level == b->level && a->mode == b->mode && a->threads == b->threads;
}

/* The cells of a point: one, or none where the provider lacks a kernel. */
static int add_cell(claim *c, const point *p)
{
    static char usual_model[] = "llama-2-7b"; /* whose layers a rotation walks over */
    char *algorithm = (char *)p->algorithm, *model = usual_model;
    size_t hidden = p->hidden, rows = p->rows, level = p->level, mode = p->mode,
           threads = p->threads;
    nb_options shapes = c->options.filters;
    shapes.hidden = (nb_sizes){&hidden, 1};
    shapes.rows = (nb_sizes){&rows, rows != 0};
    shapes.level = (nb_sizes){&level, rows == 0};
    shapes.mode = (nb_sizes){&mode, 1};
    shapes.threads = (nb_sizes){&threads, 1};
    if (!shapes.model.count)
        shapes.model = (nb_names){&model, mode == NB_ROTATE};
    const claim_request request = {.pair = p->pair,
                                   .rms = nb_variant_find(&c->variants, p->pair->rms, "default",
                                                          p->dtype, p->isa, p->provider),
                                   .algorithms = {&algorithm, algorithm != NULL},
                                   .shapes = &shapes};
    return request.rms ? nb_claim_add(c, &request) : NB_OK;
}

/* Takes `value`. A point that is there already gets a line, but no second cell. */
static void add_point(builder *b, const char *axis, char *value, point p)
{
    claim *c = b->c;
    size_t cell = 0;
    while (cell < c->count && !same_point(&b->points[cell], &p))
        cell++;
    const size_t before = c->count;
    if (b->status == NB_OK && cell == before)
        b->status = add_cell(c, &p);
    if (cell == c->count) {
        free(value);
        return;
    }
    if (c->count > before) {
        b->points = nb_reallocate(b->points, c->count * sizeof *b->points);
        b->points[cell] = p;
    }
    c->lines = nb_reallocate(c->lines, (c->line_count + 1) * sizeof *c->lines);
    c->lines[c->line_count++] = (claim_line){axis, value, cell};
}

/* ---- Axes --------------------------------------------------------------- */

static void add_hidden(builder *b)
{
    const nb_sizes *asked = &b->c->options.filters.hidden;
    const nb_sizes sizes = asked->count ? *asked : nb_claim_hidden_sizes(b->c->options.quick);
    for (size_t i = 0; i < sizes.count; i++) {
        point p = b->base;
        p.hidden = sizes.items[i];
        add_point(b, "hidden", nb_format("%zu", p.hidden), p);
    }
    if (!asked->count)
        free(sizes.items);
}

static void add_levels(builder *b)
{
    for (size_t level = 0; level < NB_LEVELS; level++) {
        point p = b->base;
        p.level = level;
        p.rows = 0;
        if (nb_sizes_allow(&b->c->options.filters.level, level))
            add_point(b, "level", nb_duplicate(nb_level_names[level]), p);
    }
}

static void add_modes(builder *b)
{
    for (size_t mode = 0; mode < NB_MODES; mode++) {
        point p = b->base;
        p.mode = (enum nb_mode)mode;
        if (nb_sizes_allow(&b->c->options.filters.mode, mode))
            add_point(b, "mode", nb_duplicate(nb_mode_names[mode]), p);
    }
}

static size_t count_threads(const claim *c, size_t asked)
{
    return asked == NB_ALL_THREADS ? nb_topology_threads(&c->topology) : asked;
}

/* One, two and all, where there are so many cores. */
static void add_threads(builder *b)
{
    static size_t usual[] = {1, 2, NB_ALL_THREADS};
    const nb_sizes *asked = &b->c->options.filters.threads;
    const nb_sizes counts = asked->count ? *asked : (nb_sizes){usual, 3};
    const size_t all = count_threads(b->c, NB_ALL_THREADS);
    for (size_t i = 0; i < counts.count; i++) {
        point p = b->base;
        p.threads = count_threads(b->c, counts.items[i]);
        const bool twice = !asked->count && i == 2 && all <= 2;
        if (asked->count || (p.threads <= all && !twice))
            add_point(b, "threads", nb_format("%zu", p.threads), p);
    }
}

static void add_rows(builder *b)
{
    static size_t usual[] = {1, 8, 32};
    const nb_sizes *asked = &b->c->options.filters.rows;
    const nb_sizes rows = asked->count ? *asked : (nb_sizes){usual, 3};
    for (size_t i = 0; i < rows.count; i++) {
        point p = b->base;
        p.rows = rows.items[i];
        add_point(b, "rows", nb_format("%zu", p.rows), p);
    }
}

/* The base's RMSNorm in other dtypes or on other ISAs. */
static void add_variants(builder *b, bool dtypes)
{
    for (size_t i = 0; i < b->c->variants.count; i++) {
        const nb_variant *v = &b->c->variants.items[i];
        const nk_kernel *k = v->kernel;
        point p = b->base;
        if (v->provider != p.provider || !same_text(k->op, p.pair->rms) ||
            !same_text(k->algorithm, "default"))
            continue;
        if (dtypes && same_text(k->isa, p.isa)) {
            p.dtype = k->dtype;
            add_point(b, "dtype", nb_duplicate(k->dtype), p);
        } else if (!dtypes && same_text(k->dtype, p.dtype)) {
            p.isa = k->isa;
            add_point(b, "ISA", nb_duplicate(k->isa), p);
        }
    }
}

static void add_kernels(builder *b)
{
    static const char *const names[CLAIM_PAIRS] = {[CLAIM_PLAIN] = "forward",
                                                   [CLAIM_FUSED] = "fused add",
                                                   [CLAIM_TRAINING] = "forward + backward"};
    const nb_options *f = &b->c->options.filters;
    for (size_t i = 0; i < CLAIM_PAIRS; i++) {
        point p = b->base;
        p.pair = &nb_claim_pairs[i];
        if (!f->kernel.count || nb_claim_pair_is_chosen(f, i))
            add_point(b, "step", nb_duplicate(names[i]), p);
    }
}

/* Each LayerNorm of a provider against its RMSNorm. */
static void add_algorithms(builder *b, const nb_provider *provider)
{
    const nb_names *asked = &b->c->options.filters.algorithm;
    const bool base = provider == b->base.provider;
    for (size_t i = 0; i < b->c->variants.count; i++) {
        const nb_variant *v = &b->c->variants.items[i];
        const nk_kernel *k = v->kernel;
        point p = b->base;
        if (v->provider != provider || !same_text(k->op, p.pair->layer) ||
            !same_text(k->dtype, p.dtype) || (base && !same_text(k->isa, p.isa)) ||
            !nb_names_allow(asked, k->algorithm))
            continue;
        p.provider = provider;
        p.isa = k->isa;
        if (p.algorithm || !same_text(k->algorithm, "default"))
            p.algorithm = k->algorithm;
        add_point(b, base ? "LayerNorm" : provider->label, nb_duplicate(k->algorithm), p);
    }
}

static void add_all(builder *b)
{
    add_hidden(b);
    add_levels(b);
    add_variants(b, false);
    add_variants(b, true);
    add_rows(b);
    add_modes(b);
    add_threads(b);
    add_kernels(b);
    for (size_t i = 0; i < b->c->providers.count; i++) /* the base's is the first */
        add_algorithms(b, &b->c->providers.items[i]);
}

static size_t first_of(const nb_sizes *asked, size_t usual)
{
    return asked->count ? asked->items[0] : usual;
}

int nb_claim_axes_cells(claim *c)
{
    const nb_options *f = &c->options.filters;
    const size_t pair = nb_claim_pair_is_chosen(f, CLAIM_PLAIN) ? CLAIM_PLAIN : CLAIM_FUSED;
    builder b = {.c = c,
                 .base = {.pair = &nb_claim_pairs[pair],
                          .provider = &c->providers.items[0],
                          .algorithm = f->algorithm.count ? f->algorithm.items[0] : NULL,
                          .dtype = f->dtype.count ? f->dtype.items[0] : "f32",
                          .hidden = first_of(&f->hidden, 4096),
                          .rows = nb_claim_rows(c),
                          .level = first_of(&f->level, NB_L2),
                          .mode = (enum nb_mode)first_of(&f->mode, NB_HOT),
                          .threads = count_threads(c, first_of(&f->threads, 1))}};
    const nb_variant *best = nb_claim_best(c, b.base.provider, b.base.pair->rms, b.base.dtype);
    if (best && nb_claim_pair_is_chosen(f, pair)) {
        b.base.isa = best->kernel->isa;
        add_point(&b, "base", nb_duplicate(""), b.base);
    }
    if (c->count) /* else the filters leave nothing, as the caller sees */
        add_all(&b);
    free(b.points);
    return b.status;
}

/* ---- The answer --------------------------------------------------------- */

static void print_heading(const claim_cell *base)
{
    const nk_kernel *layer = base->variants[LAYER]->kernel, *rms = base->variants[RMS]->kernel;
    const char *level = nb_shape_level(base->shape);
    printf("%s (%s) against %s (%s)\nBase: %s, %s, hidden %zu, %zu rows (%s), %s, %zu thread%s, "
           "forward. From it each axis alone:\n",
           rms->op, rms->algorithm, layer->op, layer->algorithm, rms->dtype, rms->isa,
           base->shape->spec.hidden, base->shape->spec.rows, level ? level : "level unknown",
           nb_mode_names[base->shape->mode], base->shape->threads,
           base->shape->threads > 1 ? "s" : "");
}

void nb_claim_print_axes(const claim *c)
{
    static const char *const titles[] = {
        "<", "<level", ">LN, RMS of limit", ">saves", ">interval, %", "<15-20 % hold?", NULL};
    print_heading(&c->cells[c->lines[0].cell]);
    nb_table table;
    nb_table_init(&table, titles);
    for (size_t i = 0; i < c->line_count; i++) {
        const claim_line *line = &c->lines[i];
        const claim_cell *cell = &c->cells[line->cell];
        const char *level = nb_shape_level(cell->shape);
        nb_table_add(&table, NB_PLAIN, "%s%s%s", line->axis, *line->value ? " " : "", line->value);
        nb_table_add(&table, NB_PLAIN, "%s", level ? level : "?");
        nb_claim_add_shares(&table, cell);
        nb_claim_add_saving(&table, cell);
        nb_claim_add_verdict(&table, cell);
    }
    nb_table_print(&table, stdout);
}
