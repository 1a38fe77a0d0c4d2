/* SPDX-License-Identifier: Apache-2.0 */
/* normbench list: what there is, and why something is unavailable. */
#include "cells.h"
#include "program.h"

#include <string.h>

static const char doc[] =
    "Lists kernel, algorithm, dtype, ISA and provider, and why one is unavailable.";

static error_t parse(int key, char *text, struct argp_state *state)
{
    (void)text;
    if (key == ARGP_KEY_INIT)
        state->child_inputs[0] = state->input;
    return key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
}

enum { COLUMNS = 6 };

static void columns_of(const nb_variant *v, const char *cell[COLUMNS])
{
    const nk_kernel *k = v->kernel;
    const char *all[COLUMNS] = {
        k->op,  k->algorithm,       k->dtype,
        k->isa, v->provider->label, k->unavailable ? k->unavailable : "yes"};
    memcpy(cell, all, sizeof all);
}

static void print_table(const nb_variants *variants)
{
    static const char *const titles[COLUMNS] = {"kernel", "algorithm", "dtype",
                                                "isa",    "provider",  "runs here"};
    size_t width[COLUMNS];
    const char *cell[COLUMNS];
    for (size_t c = 0; c < COLUMNS; c++)
        width[c] = strlen(titles[c]);
    for (size_t i = 0; i < variants->count; i++) {
        columns_of(&variants->items[i], cell);
        for (size_t c = 0; c < COLUMNS; c++)
            if (strlen(cell[c]) > width[c])
                width[c] = strlen(cell[c]);
    }
    for (size_t i = 0; i <= variants->count; i++) {
        if (i == 0)
            memcpy(cell, titles, sizeof titles);
        else
            columns_of(&variants->items[i - 1], cell);
        for (size_t c = 0; c < COLUMNS - 1; c++)
            printf("%-*s  ", (int)width[c], cell[c]);
        printf("%s\n", cell[COLUMNS - 1]);
    }
}

/* Kernels of other providers that no command can use. */
static void print_strangers(const nb_providers *providers)
{
    for (size_t p = 0; p < providers->count; p++) {
        const nk_provider *table = providers->items[p].table;
        for (size_t i = 0; i < table->count; i++) {
            const nk_kernel *k = &table->kernels[i];
            if (nk_op_index(k->op) < 0 || nk_dtype_index(k->dtype) < 0)
                fprintf(stderr, "normbench: %s: left out: this program has no %s in %s\n",
                        providers->items[p].label, k->op, k->dtype);
        }
    }
}

int nb_list(int argc, char **argv)
{
    static const struct argp_child children[] = {{&nb_filters, 0, NULL, 0}, {0}};
    static const struct argp argp = {NULL, parse, NULL, doc, children, NULL, NULL};
    nb_options options = {.command = "list"};
    nb_providers providers = {0};
    nb_variants variants = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    int status = nb_providers_load(&options.provider, &providers);
    if (status == NB_OK) {
        print_strangers(&providers);
        status = nb_variants_select(&options, &providers, true, &variants);
    }
    if (status == NB_OK) {
        print_table(&variants);
        status = nb_output_close(stdout, "the table");
    }
    nb_variants_free(&variants);
    nb_providers_unload(&providers);
    nb_options_free(&options);
    return status;
}
