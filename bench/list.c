/* SPDX-License-Identifier: Apache-2.0 */
/* normbench list: what there is, and why something is unavailable. */
#include "cells.h"
#include "models.h"
#include "program.h"
#include "table.h"

static const char doc[] =
    "Lists kernel, algorithm, dtype, ISA and provider, and why one is unavailable.";

typedef struct list_options {
    nb_options filters;
    bool models;
} list_options;

enum { KEY_MODELS = 0x200 };
static const struct argp_option own_options[] = {
    {"models", KEY_MODELS, 0, 0, "The models that --model knows, instead", -1}, {0}};

static error_t parse(int key, char *text, struct argp_state *state)
{
    list_options *o = state->input;
    const nb_options *f = &o->filters;
    (void)text;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->filters;
        return 0;
    case KEY_MODELS:
        o->models = true;
        return 0;
    case ARGP_KEY_SUCCESS:
        if (o->models && f->kernel.count + f->algorithm.count + f->dtype.count + f->isa.count +
                             f->provider.count)
            argp_error(state, "--models: the filters are those of kernels; leave them out");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int list_models(void)
{
    static const char *const titles[] = {"<model",      ">hidden", ">layers", ">norms a layer",
                                         "<norm",       ">eps",    "<gamma",  "<placement",
                                         ">parameters", NULL};
    nb_table table;
    nb_table_init(&table, titles);
    for (size_t i = 0; i < nb_model_count; i++) {
        const nb_model *m = &nb_models[i];
        nb_table_add(&table, NB_PLAIN, "%s", m->name);
        nb_table_add(&table, NB_PLAIN, "%zu", m->hidden);
        nb_table_add(&table, NB_PLAIN, "%zu", m->layers);
        nb_table_add(&table, NB_PLAIN, "%zu", m->norms);
        nb_table_add(&table, NB_PLAIN, "%s", m->norm);
        nb_table_add(&table, NB_PLAIN, "%g", m->eps);
        nb_table_add(&table, NB_PLAIN, "%s", m->gamma_offset > 0 ? "1 + gamma" : "gamma");
        nb_table_add(&table, NB_PLAIN, "%s", nb_placement_names[m->placement]);
        nb_table_add(&table, NB_PLAIN, "%.0f M", m->parameters / 1e6);
    }
    nb_table_print(&table, stdout);
    return nb_output_close(stdout, "the table");
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

static int list_kernels(const nb_options *filters)
{
    nb_providers providers = {0};
    nb_variants variants = {0};
    int status = nb_providers_load(&filters->provider, &providers);
    if (status == NB_OK) {
        print_strangers(&providers);
        status = nb_variants_select(filters, &providers, true, &variants);
    }
    if (status == NB_OK) {
        print_table(&variants);
        status = nb_output_close(stdout, "the table");
    }
    status = nb_providers_status(&providers, status);
    nb_variants_free(&variants);
    nb_providers_unload(&providers);
    return status;
}

int nb_list(int argc, char **argv)
{
    static const struct argp_child children[] = {{&nb_filters, 0, NULL, 0}, {0}};
    static const struct argp argp = {own_options, parse, NULL, doc, children, NULL, NULL};
    list_options options = {.filters = {.command = "list"}};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    const int status = options.models ? list_models() : list_kernels(&options.filters);
    nb_options_free(&options.filters);
    return status;
}
