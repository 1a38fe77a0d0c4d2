/* SPDX-License-Identifier: Apache-2.0 */
#include "claim.h"
#include "program.h"

#include <stdlib.h>
#include <string.h>

const claim_pair nb_claim_pairs[CLAIM_PAIRS] = {
    [CLAIM_PLAIN] = {"layernorm", "rmsnorm", NULL, NULL},
    [CLAIM_FUSED] = {"add_layernorm", "add_rmsnorm", NULL, NULL},
    [CLAIM_TRAINING] = {"layernorm", "rmsnorm", "layernorm_bwd", "rmsnorm_bwd"}};

bool nb_claim_pair_is_chosen(const nb_options *filters, size_t pair)
{
    const claim_pair *p = &nb_claim_pairs[pair];
    const char *const all[] = {p->layer, p->rms, p->layer_bwd, p->rms_bwd};
    for (size_t i = 0; i < sizeof all / sizeof all[0] && filters->kernel.count; i++)
        if (all[i] && !nb_names_allow(&filters->kernel, all[i]))
            return false;
    return filters->kernel.count || pair == CLAIM_PLAIN;
}

const nb_variant *nb_claim_best(const claim *c, const nb_provider *provider, const char *op,
                                const char *dtype)
{
    const nb_variant *best = NULL;
    for (size_t i = 0; i < c->variants.count; i++) { /* isa.def: the best of a family last */
        const nb_variant *v = &c->variants.items[i];
        if (v->provider == provider && strcmp(v->kernel->op, op) == 0 &&
            strcmp(v->kernel->algorithm, "default") == 0 && strcmp(v->kernel->dtype, dtype) == 0)
            best = v;
    }
    return best;
}

/* ---- One request -------------------------------------------------------- */

/* LayerNorm first, then its rivals: the algorithms asked for, or of the usual ones
 * those that there are. */
static bool find_layers(const claim *c, const claim_request *request, claim_cell *cell)
{
    static char *const usual[] = {"default", "two_pass"};
    const bool asked = request->algorithms.count;
    const nb_names names = asked ? request->algorithms : (nb_names){(char **)usual, 2};
    const nk_kernel *k = request->rms->kernel;
    cell->variants[LAYER] = NULL;
    for (size_t i = 0; i < names.count && cell->count < NB_PARTICIPANTS; i++) {
        const nb_variant *layer =
            nb_variant_find(&c->variants, request->pair->layer, names.items[i], k->dtype, k->isa,
                            request->rms->provider);
        if (layer && !cell->variants[LAYER])
            cell->variants[LAYER] = layer;
        else if (layer)
            cell->variants[cell->count++] = layer;
        else if (asked && i == 0)
            return false;
    }
    return cell->variants[LAYER] != NULL;
}

static bool find_gradients(const claim *c, const claim_request *request, claim_cell *cell)
{
    const nk_kernel *k = request->rms->kernel;
    const char *const ops[] = {request->pair->layer_bwd, request->pair->rms_bwd};
    cell->training = true;
    cell->count = RMS_BWD + 1;
    for (size_t i = 0; i < 2; i++) {
        cell->variants[LAYER_BWD + i] = nb_variant_find(&c->variants, ops[i], "default", k->dtype,
                                                        k->isa, request->rms->provider);
        if (!cell->variants[LAYER_BWD + i])
            return false;
    }
    return true;
}

static bool find_participants(const claim *c, const claim_request *request, claim_cell *cell)
{
    cell->count = RIVALS;
    cell->variants[RMS] = request->rms;
    cell->variants[COPY] = nb_copies_beside(&c->copies, request->rms);
    return cell->variants[COPY] && find_layers(c, request, cell) &&
           (!request->pair->layer_bwd || find_gradients(c, request, cell));
}

/* What all participants take. The forward kernels of a training step keep their
 * statistics for the gradients. */
static int add_shapes(const claim *c, const claim_request *request, const claim_cell *cell,
                      nb_shapes *shapes)
{
    int op = cell->variants[LAYER]->op;
    uint32_t operands = 0;
    if (cell->training) {
        operands = nb_operands_all(op);
        op = cell->variants[LAYER_BWD]->op;
        operands |= nb_operands_all(op);
    }
    return nb_shapes_add(shapes, request->shapes, &c->topology, op, operands, request->rms->dtype);
}

int nb_claim_add(claim *c, const claim_request *request)
{
    claim_cell cell = {0};
    if (!find_participants(c, request, &cell))
        return NB_OK;
    c->shapes = nb_reallocate(c->shapes, (c->shape_lists + 1) * sizeof *c->shapes);
    nb_shapes *shapes = &c->shapes[c->shape_lists++];
    *shapes = (nb_shapes){0};
    const int status = add_shapes(c, request, &cell, shapes);
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

/* ---- What may be compared ----------------------------------------------- */

/* The variants that pass the filters other than --kernel and --algorithm, whose
 * meaning here is a pair; f32 unless --dtype says otherwise or all are wanted. */
static int select_variants(claim *c)
{
    char *f32 = "f32";
    nb_options wide = c->options.filters;
    int status = nb_variants_select(&wide, &c->providers, false, &c->variants); /* names exist */
    if (status != NB_OK)
        return status;
    nb_variants_free(&c->variants);
    wide.kernel = wide.algorithm = (nb_names){0};
    if (wide.dtype.count == 0 && !c->options.axes && !c->options.exhaustive)
        wide.dtype = (nb_names){.items = &f32, .count = 1};
    return nb_variants_select(&wide, &c->providers, false, &c->variants);
}

static int compare_sizes(const void *left, const void *right)
{
    const size_t a = *(const size_t *)left, b = *(const size_t *)right;
    return (a > b) - (a < b);
}

nb_sizes nb_claim_hidden_sizes(bool quick)
{
    nb_sizes sizes = {0};
    for (size_t hidden = 64; hidden <= 16384; hidden *= quick ? 4 : 2)
        nb_sizes_add(&sizes, hidden);
    for (size_t i = 0; i < nb_model_count && !quick; i++)
        nb_sizes_add(&sizes, nb_models[i].hidden);
    qsort(sizes.items, sizes.count, sizeof *sizes.items, compare_sizes);
    return sizes;
}

size_t nb_claim_rows(const claim *c)
{
    enum { ROWS_UNKNOWN = 32 };
    return nb_topology_llc_share(&c->topology, 1) ? 0 : ROWS_UNKNOWN;
}

/* ---- The sweep ---------------------------------------------------------- */

static int add_sweep(claim *c)
{
    nb_options shapes = c->options.filters;
    nb_sizes all = {0};
    if (c->options.exhaustive && shapes.hidden.count == 0)
        shapes.hidden = all = nb_claim_hidden_sizes(false);
    int status = NB_OK;
    for (size_t pair = 0; pair < CLAIM_PAIRS; pair++) {
        const char *rms = nb_claim_pairs[pair].rms;
        if (!nb_claim_pair_is_chosen(&c->options.filters, pair))
            continue;
        for (size_t i = 0; i < c->variants.count && status == NB_OK; i++) {
            const nb_variant *v = &c->variants.items[i];
            const claim_request request = {&nb_claim_pairs[pair], v, c->options.filters.algorithm,
                                           &shapes};
            if (strcmp(v->kernel->op, rms) == 0 && strcmp(v->kernel->algorithm, "default") == 0)
                status = nb_claim_add(c, &request);
        }
    }
    free(all.items);
    return status;
}

int nb_claim_cells(claim *c)
{
    int status = select_variants(c);
    if (status == NB_OK)
        status = c->options.axes                  ? nb_claim_axes_cells(c)
                 : c->options.meanings            ? nb_claim_meanings_cells(c)
                 : c->options.filters.model.count ? nb_claim_model_cells(c)
                                                  : add_sweep(c);
    if (status == NB_OK && c->count == 0)
        return nb_fail(NB_USAGE, "the filters leave no pair to compare: layernorm with rmsnorm, or "
                                 "add_layernorm with add_rmsnorm, of one provider, or the former "
                                 "with their gradients");
    return status;
}
