/* SPDX-License-Identifier: Apache-2.0 */
#include "ab.h"
#include "program.h"

#include <string.h>

/* ---- What each side has ------------------------------------------------- */

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

int nb_ab_cells(ab *a)
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
