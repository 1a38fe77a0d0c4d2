/* SPDX-License-Identifier: Apache-2.0 */
/* What is checked and measured: variants (kernels that can run here), and
 * cells (a variant at a shape). */
#ifndef NB_CELLS_H
#define NB_CELLS_H

#include "catalog.h"
#include "options.h"
#include "provider.h"

/* A kernel of a provider, its names resolved. */
typedef struct nb_variant {
    const nb_provider *provider;
    const nk_kernel *kernel;
    int op; /* NK_OP_... */
    nk_dtype dtype;
    const nk_algorithm_info *algorithm; /* NULL where only the provider knows it */
} nb_variant;

/* False where this program does not know the op or the dtype: without an
 * oracle, operands and their types it cannot be called. */
bool nb_variant_of(const nb_provider *provider, const nk_kernel *kernel, nb_variant *variant);

typedef struct nb_variants {
    nb_variant *items;
    size_t count;
} nb_variants;

/* The variants that the filters leave and that can run here, in the order of
 * kernels.def, algorithm, dtype, isa.def, provider. Returns NB_OK, or a status
 * after a message: NB_USAGE for an unknown name or an empty selection,
 * NB_MACHINE where an ISA that was asked for by name cannot run here. With
 * `unavailable` those that cannot run here are kept (list shows them). */
int nb_variants_select(const nb_options *options, const nb_providers *providers, bool unavailable,
                       nb_variants *variants);
void nb_variants_free(nb_variants *variants);

/* "LayerNorm against RMSNorm on the same ISA": the variant of these names
 * among them, or NULL. provider NULL is any. */
const nb_variant *nb_variant_find(const nb_variants *variants, const char *op,
                                  const char *algorithm, const char *dtype, const char *isa,
                                  const nb_provider *provider);

/* Whether operands of this shape can be counted in bytes at all, whatever the
 * op. NB_OK, or NB_USAGE after a message. */
int nb_shape_check(size_t rows, size_t hidden);

/* Longer than any name of a cell with names of usual length; others are cut. */
enum { NB_NAME_BYTES = 256 };

/* "rmsnorm/algorithm:default/dtype:f32/isa:avx512", and with the shape
 * "/rows:32/hidden:4096". Both return `name`. */
char *nb_variant_name(const nb_variant *variant, char name[NB_NAME_BYTES]);
char *nb_cell_name(const nb_variant *variant, size_t rows, size_t hidden, char name[NB_NAME_BYTES]);

/* The filters that choose just this variant: "--kernel rmsnorm --algorithm
 * default --dtype f32 --isa avx512", with --provider unless it is ours. To be
 * freed. */
char *nb_variant_filters(const nb_variant *variant);

#endif
