/* SPDX-License-Identifier: Apache-2.0 */
#include "copy.h"
#include "program.h"

int nb_copies_load(nb_copies *copies)
{
    char *copy = "copy";
    const nb_options options = {.kernel = {.items = &copy, .count = 1}};
    *copies = (nb_copies){0};
    int status = nb_providers_load(&options.provider, &copies->providers);
    if (status == NB_OK)
        status = nb_variants_select(&options, &copies->providers, false, &copies->variants);
    return status;
}

void nb_copies_free(nb_copies *copies)
{
    nb_variants_free(&copies->variants);
    nb_providers_unload(&copies->providers);
}

const nb_variant *nb_copies_best(const nb_copies *copies, nk_dtype dtype)
{
    const nb_variant *best = NULL;
    for (size_t i = 0; i < copies->variants.count; i++) /* isa.def: the best of a family last */
        if (copies->variants.items[i].dtype == dtype)
            best = &copies->variants.items[i];
    return best;
}
