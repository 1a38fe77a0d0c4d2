/* SPDX-License-Identifier: Apache-2.0 */
/* normbench list: what there is, and why something is unavailable. */
#include "cells.h"
#include "program.h"
#include "table.h"

static const char doc[] =
    "Lists kernel, algorithm, dtype, ISA and provider, and why one is unavailable.";

static error_t parse(int key, char *text, struct argp_state *state)
{
    (void)text;
    if (key == ARGP_KEY_INIT)
        state->child_inputs[0] = state->input;
    return key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
}

static void print_table(const nb_variants *variants)
{
    static const char *const titles[] = {"<kernel",   "<algorithm", "<dtype", "<isa",
                                         "<provider", "<runs here", NULL};
    nb_table table;
    nb_table_init(&table, titles);
    for (size_t i = 0; i < variants->count; i++) {
        const nk_kernel *k = variants->items[i].kernel;
        const enum nb_colour colour = k->unavailable ? NB_DIM : NB_PLAIN;
        const char *const cells[] = {k->op,
                                     k->algorithm,
                                     k->dtype,
                                     k->isa,
                                     variants->items[i].provider->label,
                                     k->unavailable ? k->unavailable : "yes"};
        for (size_t c = 0; c < sizeof cells / sizeof cells[0]; c++)
            nb_table_add(&table, colour, "%s", cells[c]);
    }
    nb_table_print(&table, stdout);
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
    status = nb_providers_status(&providers, status);
    nb_variants_free(&variants);
    nb_providers_unload(&providers);
    nb_options_free(&options);
    return status;
}
