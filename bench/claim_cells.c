/* SPDX-License-Identifier: Apache-2.0 */
#include "claim.h"
#include "program.h"

#include <stdlib.h>
#include <string.h>

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

int nb_claim_cells(claim *c)
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
