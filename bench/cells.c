/* SPDX-License-Identifier: Apache-2.0 */
#include "cells.h"
#include "program.h"

#include <stdlib.h>
#include <string.h>

/* ---- Names -------------------------------------------------------------- */

char *nb_variant_name(const nb_variant *variant, char name[NB_NAME_BYTES])
{
    const nk_kernel *k = variant->kernel;
    snprintf(name, NB_NAME_BYTES, "%s/algorithm:%s/dtype:%s/isa:%s", k->op, k->algorithm, k->dtype,
             k->isa);
    return name;
}

char *nb_cell_name(const nb_variant *variant, size_t rows, size_t hidden, char name[NB_NAME_BYTES])
{
    nb_variant_name(variant, name);
    const size_t length = strlen(name);
    snprintf(name + length, NB_NAME_BYTES - length, "/rows:%zu/hidden:%zu", rows, hidden);
    return name;
}

char *nb_variant_filters(const nb_variant *variant)
{
    const nk_kernel *k = variant->kernel;
    const bool foreign = !nb_provider_is_ours(variant->provider) ||
                         variant->provider->label == variant->provider->path;
    return nb_format("--kernel %s --algorithm %s --dtype %s --isa %s%s%s", k->op, k->algorithm,
                     k->dtype, k->isa, foreign ? " --provider " : "",
                     foreign ? variant->provider->path : "");
}

/* ---- What there is ------------------------------------------------------ */

enum dimension { KERNEL, ALGORITHM, DTYPE, ISA, DIMENSIONS };
static const char *const dimension_names[DIMENSIONS] = {"kernel", "algorithm", "dtype", "isa"};

static const nb_names *wanted(const nb_options *options, enum dimension d)
{
    const nb_names *const lists[DIMENSIONS] = {&options->kernel, &options->algorithm,
                                               &options->dtype, &options->isa};
    return lists[d];
}

static const char *row_name(const nk_kernel *kernel, enum dimension d)
{
    const char *const names[DIMENSIONS] = {kernel->op, kernel->algorithm, kernel->dtype,
                                           kernel->isa};
    return names[d];
}

/* The i-th name of the catalogue, NULL after the last. */
static const char *catalogue_name(enum dimension d, size_t i)
{
    switch (d) {
    case KERNEL:
        return i < NK_OPS ? nk_ops[i].name : NULL;
    case ALGORITHM:
        return i < nk_algorithm_count ? nk_algorithms[i].name : NULL;
    case DTYPE:
        return i < NK_DTYPES ? nk_dtypes[i].name : NULL;
    default:
        return i < NK_ISAS ? nk_isas[i].name : NULL;
    }
}

static bool holds(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* All names of a dimension: the catalogue's, then those that only a provider
 * knows. */
static const char **known_names(const nb_providers *providers, enum dimension d, size_t *count)
{
    size_t room = 0, n = 0;
    while (catalogue_name(d, room))
        room++;
    for (size_t p = 0; p < providers->count; p++)
        room += providers->items[p].table->count;
    const char **names = nb_allocate(room * sizeof *names);
    const char *name;
    for (size_t i = 0; (name = catalogue_name(d, i)); i++)
        if (!holds(names, n, name))
            names[n++] = name;
    for (size_t p = 0; p < providers->count; p++)
        for (size_t i = 0; i < providers->items[p].table->count; i++) {
            name = row_name(&providers->items[p].table->kernels[i], d);
            if (!holds(names, n, name))
                names[n++] = name;
        }
    *count = n;
    return names;
}

static int check_names(const nb_options *options, const nb_providers *providers, enum dimension d)
{
    const nb_names *list = wanted(options, d);
    size_t count;
    const char **names = known_names(providers, d, &count);
    int status = NB_OK;
    for (size_t i = 0; i < list->count && status == NB_OK; i++) {
        if (holds(names, count, list->items[i]))
            continue;
        char *known = NULL;
        for (size_t n = 0; n < count; n++)
            known = nb_join(known, ", ", names[n]);
        status = nb_fail(NB_USAGE, "--%s: there is no '%s'; there are: %s", dimension_names[d],
                         list->items[i], known);
        free(known);
    }
    free(names);
    return status;
}

/* ---- Selection ---------------------------------------------------------- */

static bool passes(const nb_options *options, const nk_kernel *kernel)
{
    for (enum dimension d = 0; d < DIMENSIONS; d++) {
        const nb_names *list = wanted(options, d);
        if (list->count &&
            !holds((const char *const *)list->items, list->count, row_name(kernel, d)))
            return false;
    }
    return true;
}

static const nk_algorithm_info *find_algorithm(int op, const char *name)
{
    for (size_t i = 0; i < nk_algorithm_count; i++)
        if (nk_algorithms[i].op == op && strcmp(nk_algorithms[i].name, name) == 0)
            return &nk_algorithms[i];
    return NULL;
}

bool nb_variant_of(const nb_provider *provider, const nk_kernel *kernel, nb_variant *variant)
{
    const int op = nk_op_index(kernel->op), dtype = nk_dtype_index(kernel->dtype);
    if (op < 0 || dtype < 0)
        return false;
    *variant =
        (nb_variant){provider, kernel, op, (nk_dtype)dtype, find_algorithm(op, kernel->algorithm)};
    return true;
}

static int by_index(size_t a, size_t b)
{
    return (a > b) - (a < b);
}

/* What the catalogue does not know comes after what it does. */
static size_t isa_rank(const char *name)
{
    const int index = nk_isa_index(name);
    return index < 0 ? NK_ISAS : (size_t)index;
}

static size_t algorithm_rank(const nb_variant *v)
{
    return v->algorithm ? (size_t)(v->algorithm - nk_algorithms) : nk_algorithm_count;
}

static int compare_variants(const void *left, const void *right)
{
    const nb_variant *a = left, *b = right;
    int order = by_index((size_t)a->op, (size_t)b->op);
    if (!order)
        order = by_index(algorithm_rank(a), algorithm_rank(b));
    if (!order)
        order = strcmp(a->kernel->algorithm, b->kernel->algorithm);
    if (!order)
        order = by_index((size_t)a->dtype, (size_t)b->dtype);
    if (!order)
        order = by_index(isa_rank(a->kernel->isa), isa_rank(b->kernel->isa));
    if (!order)
        order = strcmp(a->kernel->isa, b->kernel->isa);
    if (!order)
        order = by_index((size_t)(uintptr_t)a->provider, (size_t)(uintptr_t)b->provider);
    return order ? order : by_index((size_t)(uintptr_t)a->kernel, (size_t)(uintptr_t)b->kernel);
}

static void collect(const nb_options *options, const nb_providers *providers, bool unavailable,
                    nb_variants *variants)
{
    size_t room = 0;
    for (size_t p = 0; p < providers->count; p++)
        room += providers->items[p].table->count;
    *variants = (nb_variants){nb_allocate(room * sizeof(nb_variant)), 0};
    for (size_t p = 0; p < providers->count; p++) {
        const nb_provider *provider = &providers->items[p];
        for (size_t i = 0; i < provider->table->count; i++) {
            const nk_kernel *kernel = &provider->table->kernels[i];
            const int op = nk_op_index(kernel->op), dtype = nk_dtype_index(kernel->dtype);
            /* Without an oracle, operands and their types it cannot be called. */
            if (op < 0 || dtype < 0 || !passes(options, kernel))
                continue;
            if (kernel->unavailable && !unavailable)
                continue;
            variants->items[variants->count++] = (nb_variant){
                provider, kernel, op, (nk_dtype)dtype, find_algorithm(op, kernel->algorithm)};
        }
    }
    qsort(variants->items, variants->count, sizeof *variants->items, compare_variants);
}

/* Why nothing of this ISA runs here; NULL if something does. */
static const char *isa_missing(const nb_providers *providers, const char *isa)
{
    const char *why = "no provider loaded has kernels for it";
    for (size_t p = 0; p < providers->count; p++)
        for (size_t i = 0; i < providers->items[p].table->count; i++) {
            const nk_kernel *kernel = &providers->items[p].table->kernels[i];
            if (strcmp(kernel->isa, isa) != 0)
                continue;
            if (!kernel->unavailable)
                return NULL;
            why = kernel->unavailable;
        }
    return why;
}

/* An ISA asked for by name is never left out quietly. */
static int check_isas(const nb_options *options, const nb_providers *providers)
{
    for (size_t i = 0; i < options->isa.count; i++) {
        const char *why = isa_missing(providers, options->isa.items[i]);
        if (why)
            return nb_fail(NB_MACHINE, "--isa: %s cannot run here: %s", options->isa.items[i], why);
    }
    return NB_OK;
}

static int nothing_selected(const nb_options *options, const nb_providers *providers)
{
    nb_variants there;
    collect(options, providers, true, &there);
    const char *why = there.count ? there.items[0].kernel->unavailable : NULL;
    nb_variants_free(&there);
    if (why)
        return nb_fail(NB_MACHINE, "nothing of what was chosen can run here: %s", why);
    return nb_fail(NB_USAGE, "the filters leave no kernel; `normbench list` shows what there is");
}

int nb_variants_select(const nb_options *options, const nb_providers *providers, bool unavailable,
                       nb_variants *variants)
{
    *variants = (nb_variants){0};
    for (enum dimension d = 0; d < DIMENSIONS; d++) {
        const int status = check_names(options, providers, d);
        if (status != NB_OK)
            return status;
    }
    if (!unavailable) {
        const int status = check_isas(options, providers);
        if (status != NB_OK)
            return status;
    }
    collect(options, providers, unavailable, variants);
    if (variants->count)
        return NB_OK;
    nb_variants_free(variants);
    return nothing_selected(options, providers);
}

void nb_variants_free(nb_variants *variants)
{
    free(variants->items);
    *variants = (nb_variants){0};
}

const nb_variant *nb_variant_find(const nb_variants *variants, const char *op,
                                  const char *algorithm, const char *dtype, const char *isa,
                                  const nb_provider *provider)
{
    for (size_t i = 0; i < variants->count; i++) {
        const nk_kernel *k = variants->items[i].kernel;
        if (strcmp(k->op, op) == 0 && strcmp(k->algorithm, algorithm) == 0 &&
            strcmp(k->dtype, dtype) == 0 && strcmp(k->isa, isa) == 0 &&
            (!provider || variants->items[i].provider == provider))
            return &variants->items[i];
    }
    return NULL;
}

int nb_shape_check(size_t rows, size_t hidden)
{
    /* Every operand, in float64 for the oracle, twice over: far beyond any
     * memory, and no product of sizes can overflow below it. */
    size_t bytes;
    if (__builtin_mul_overflow(rows, hidden, &bytes) ||
        __builtin_mul_overflow(bytes, (size_t)(2 * NK_OPERANDS) * sizeof(double), &bytes) ||
        bytes > SIZE_MAX / 2)
        return nb_fail(NB_USAGE,
                       "rows %zu of hidden %zu: too large to be counted in bytes; give less", rows,
                       hidden);
    return NB_OK;
}
