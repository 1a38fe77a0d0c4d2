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

const nb_variant *nb_copies_beside(const nb_copies *copies, const nb_variant *kernel)
{
    const int wanted = nk_isa_index(kernel->kernel->isa); /* -1: a provider's own */
    const nb_variant *beside = NULL;
    int isa = -1;
    for (size_t i = 0; i < copies->variants.count; i++) { /* isa.def: from the plainest on */
        const nb_variant *copy = &copies->variants.items[i];
        if (copy->dtype != kernel->dtype || (isa >= wanted && isa > NK_ISA_scalar))
            continue;
        beside = copy;
        isa = nk_isa_index(copy->kernel->isa);
    }
    return beside;
}
