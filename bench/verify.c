/* SPDX-License-Identifier: Apache-2.0 */
/* normbench verify: do the kernels keep their promise? */
#include "verify.h"
#include "check.h"
#include "interrupt.h"
#include "npy.h"
#include "program.h"
#include "progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char doc[] =
    "Compares every kernel that can run here with a float64 oracle, on rows that are normal and "
    "on rows that are not, and prints the largest error of each kind in u = 2^-23 of "
    "max(|y|, |gamma|, |beta|, 1). The algorithm `default` is bound to 8 u on every kind (64 u "
    "backward), "
    "everything else to 64 u on normal rows. Ends with 1 if one is exceeded.\v"
    "A folder of --vectors holds a folder for each case, with case.json and .npy arrays. There the "
    "bounds are those of the case, and the algorithm is `default` unless --algorithm says "
    "otherwise; --rows, --hidden and --kernel choose among the cases.";

enum { KEY_VECTORS = 0x200, KEY_DUMP, KEY_FORCE };
static const struct argp_option own_options[] = {
    {"vectors", KEY_VECTORS, "DIR", 0, "Check the cases in this folder", -1},
    {"dump", KEY_DUMP, "DIR", 0, "Write every output as .npy into this folder", -1},
    {"force", KEY_FORCE, 0, 0, "Write into a folder that is not empty", -1},
    {0}};

typedef struct verify_options {
    nb_options filters;
    const char *vectors;
    const char *dump;
    bool force;
} verify_options;

static error_t parse(int key, char *text, struct argp_state *state)
{
    verify_options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->filters;
        return 0;
    case KEY_VECTORS:
        options->vectors = text;
        return 0;
    case KEY_DUMP:
        options->dump = text;
        return 0;
    case KEY_FORCE:
        options->force = true;
        return 0;
    case ARGP_KEY_SUCCESS:
        if (options->vectors && options->filters.has_seed)
            argp_error(state, "--seed: the cases of --vectors are not random");
        if (options->force && !options->dump)
            argp_error(state, "--force: there is no output without --dump");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- Outputs as files --------------------------------------------------- */

static int dump_operand(const char *folder, int operand, nk_dtype dtype, const nk_args *args)
{
    static const enum nb_npy_type types[NK_DTYPES] = {
        [NK_F32] = NB_NPY_F4, [NK_BF16] = NB_NPY_U2, [NK_F16] = NB_NPY_F2};
    const enum nk_shape shape = nk_operands[operand].shape;
    nb_npy array = {.type = types[shape == NK_SHAPE_ROW ? dtype : NK_F32],
                    .count = nk_operand_elements(operand, args->rows, args->hidden),
                    .data = nk_operand_get(args, operand)};
    if (shape == NK_SHAPE_ROW || shape == NK_SHAPE_STATISTIC)
        array.shape[array.dimensions++] = args->rows;
    if (shape == NK_SHAPE_ROW || shape == NK_SHAPE_SUM)
        array.shape[array.dimensions++] = args->hidden;
    char *path = nb_format("%s/%s.npy", folder, nk_operands[operand].name);
    const int status = nb_npy_write(path, &array);
    free(path);
    return status;
}

/* "avx512"; what is not our default is named before it. */
static char *variant_folder(const nb_variant *variant)
{
    const nk_kernel *k = variant->kernel;
    const bool plain = strcmp(k->algorithm, "default") == 0;
    const bool ours = nb_provider_is_ours(variant->provider);
    char *name = nb_format("%s%s%s%s%s", ours ? "" : variant->provider->label, ours ? "" : "-",
                           plain ? "" : k->algorithm, plain ? "" : "-", k->isa);
    for (char *p = name; (p = strchr(p, '/'));)
        *p = '_';
    return name;
}

int nb_dump_outputs(const char *dump, const char *name, const nb_variant *variant,
                    const nk_args *args)
{
    char *folder = variant_folder(variant);
    char *path = nb_format("%s/%s/%s", dump, name, folder);
    int status = nb_make_directories(path);
    for (int i = 0; i < NK_OPERANDS && status == NB_OK; i++)
        if (nk_operand_get(args, i) && nk_operand_direction(variant->op, i) != NK_DIRECTION_IN)
            status = dump_operand(path, i, variant->dtype, args);
    free(path);
    free(folder);
    return status;
}

/* ---- Against the oracle ------------------------------------------------- */

/* The ways in which each size is called. */
static const struct setting {
    const char *name;
    float eps;
    float gamma_offset;
    uint32_t flags;
} settings[] = {
    {"eps1e-5", 1e-5f, 0.0f, 0},
    {"eps0", 0.0f, 0.0f, 0},
    {"outside", 1e-6f, 1.0f, NK_EPS_OUTSIDE | NK_UNBIASED},
};
enum { SETTINGS = sizeof settings / sizeof settings[0] };

typedef struct verification {
    const verify_options *options;
    nb_sizes rows;
    nb_sizes hidden;
    nb_progress *progress;
} verification;

static uint32_t flags_taken(int op, uint32_t flags)
{
    if (!(nk_ops[op].options & NK_TAKES_EPS))
        flags &= ~(uint32_t)NK_EPS_OUTSIDE;
    if (!(nk_ops[op].options & NK_TAKES_UNBIASED))
        flags &= ~(uint32_t)NK_UNBIASED;
    return flags;
}

/* The worst cell of one kind of rows. */
typedef struct finding {
    nb_error error;
    nb_workspace_spec spec;
    const struct setting *setting;
} finding;

static void print_broken(const verification *v, const nb_variant *variant, const finding *worst)
{
    const nb_workspace_spec *spec = &worst->spec;
    char name[NB_NAME_BYTES];
    char *text = nb_error_text(&worst->error), *filters = nb_variant_filters(variant);
    printf("  broken: %s, %s rows, %s: %s, allowed %g u\n"
           "  repeat: normbench verify %s --rows %zu --hidden %zu --seed %ju\n",
           nb_cell_name(variant, spec->rows, spec->hidden, name), nb_row_kind_names[spec->kind],
           worst->setting->name, text, nb_bound(variant, spec->hidden), filters, spec->rows,
           spec->hidden, (uintmax_t)v->options->filters.seed);
    free(filters);
    free(text);
}

static int dump(const verification *v, const nb_variant *variant, const nb_workspace *workspace,
                const struct setting *setting)
{
    const nb_workspace_spec *spec = &workspace->spec;
    const nk_kernel *k = variant->kernel;
    if (!v->options->dump)
        return NB_OK;
    char *name = nb_format("%s-%s-rows%zu-hidden%zu-%s-%s", k->op, k->dtype, spec->rows,
                           spec->hidden, nb_row_kind_names[spec->kind], setting->name);
    const int status = nb_dump_outputs(v->options->dump, name, variant, workspace->args);
    free(name);
    return status;
}

/* How far an error goes beyond its bound; 0 where there is none. */
static double excess(const nb_variant *variant, const nb_workspace_spec *spec,
                     const nb_error *error)
{
    const double bound = nb_bound(variant, spec->hidden);
    return isfinite(bound) ? error->u / bound : 0;
}

static int check_cell(const verification *v, const nb_variant *variant,
                      const nb_workspace_spec *spec, const struct setting *setting, finding *worst)
{
    nb_workspace workspace;
    nb_error error;
    if (nb_interrupted)
        return NB_INTERRUPTED;
    int status = nb_workspace_create(&workspace, spec);
    if (status == NB_OK)
        status = nb_check_variant(variant, &workspace, 0, &error);
    if (status == NB_OK && (!worst->setting || excess(variant, spec, &error) >
                                                   excess(variant, &worst->spec, &worst->error)))
        *worst = (finding){error, *spec, setting};
    if (status == NB_OK)
        status = dump(v, variant, &workspace, setting);
    nb_workspace_free(&workspace);
    return status;
}

/* Statistics that are read are those of normal rows; of others the op finds its own. */
static uint32_t operands_for(int op, enum nb_row_kind kind)
{
    return nk_op_is_backward(op) && kind != NB_ROWS_NORMAL ? nb_operands_usual(op)
                                                           : nb_operands_all(op);
}

static int check_kind(const verification *v, const nb_variant *variant, enum nb_row_kind kind,
                      finding *worst)
{
    int status = NB_OK;
    for (size_t r = 0; r < v->rows.count; r++)
        for (size_t h = 0; h < v->hidden.count; h++)
            for (size_t s = 0; s < SETTINGS && status == NB_OK; s++) {
                const nb_workspace_spec spec = {.op = variant->op,
                                                .dtype = variant->dtype,
                                                .rows = v->rows.items[r],
                                                .hidden = v->hidden.items[h],
                                                .operands = operands_for(variant->op, kind),
                                                .flags =
                                                    flags_taken(variant->op, settings[s].flags),
                                                .eps = settings[s].eps,
                                                .gamma_offset = settings[s].gamma_offset,
                                                .kind = kind,
                                                .seed = v->options->filters.seed};
                status = check_cell(v, variant, &spec, &settings[s], worst);
            }
    return status;
}

/* What is not normal binds our default algorithm alone. */
static bool is_broken(const nb_variant *variant, enum nb_row_kind kind, const finding *worst)
{
    const double bound = nb_bound(variant, worst->spec.hidden);
    const bool promised = nb_provider_is_ours(variant->provider) &&
                          strcmp(variant->kernel->algorithm, "default") == 0;
    return (kind == NB_ROWS_NORMAL || promised) && !(worst->error.u <= bound);
}

/* Prints a line for the variant; NB_FAILED if it breaks a promise. */
static int check_variant(const verification *v, const nb_variant *variant)
{
    const nk_kernel *k = variant->kernel;
    finding worst[NB_ROW_KINDS] = {0};
    int status = NB_OK;
    for (int kind = 0; kind < NB_ROW_KINDS && status == NB_OK; kind++)
        status = check_kind(v, variant, (enum nb_row_kind)kind, &worst[kind]);
    nb_progress_clear(v->progress);
    if (status != NB_OK)
        return status;
    printf("%-20s %-9s %-5s %-7s", k->op, k->algorithm, k->dtype, k->isa);
    for (int kind = 0; kind < NB_ROW_KINDS; kind++)
        printf(" %11.3g", worst[kind].error.u);
    printf("  %s\n", variant->provider->label);
    for (int kind = 0; kind < NB_ROW_KINDS; kind++)
        if (is_broken(variant, (enum nb_row_kind)kind, &worst[kind])) {
            print_broken(v, variant, &worst[kind]);
            status = NB_FAILED;
        }
    fflush(stdout);
    return status;
}

static void print_head(void)
{
    printf("largest error in u = 2^-23\n%-20s %-9s %-5s %-7s", "kernel", "algorithm", "dtype",
           "isa");
    for (int kind = 0; kind < NB_ROW_KINDS; kind++)
        printf(" %11s", nb_row_kind_names[kind]);
    printf("  provider\n");
}

static int check_shapes(const verification *v)
{
    int status = NB_OK;
    for (size_t r = 0; r < v->rows.count && status == NB_OK; r++)
        for (size_t h = 0; h < v->hidden.count && status == NB_OK; h++)
            status = nb_shape_check(v->rows.items[r], v->hidden.items[h]);
    return status;
}

static int verify_all(const verify_options *options, const nb_variants *variants)
{
    /* Three rows of seven hold an infinity or a NaN, each in another place. */
    static size_t rows[] = {7};
    static size_t hidden[] = {1, 5, 64, 767, 768, 1023, 1600, 4096};
    const nb_options *filters = &options->filters;
    nb_progress progress;
    const verification v = {options, filters->rows.count ? filters->rows : (nb_sizes){rows, 1},
                            filters->hidden.count
                                ? filters->hidden
                                : (nb_sizes){hidden, sizeof hidden / sizeof hidden[0]},
                            &progress};
    size_t broken = 0;
    int status = check_shapes(&v);
    if (status != NB_OK)
        return status;
    char name[NB_NAME_BYTES];
    nb_progress_start(&progress, variants->count);
    print_head();
    for (size_t i = 0; i < variants->count; i++) {
        nb_progress_step(&progress, nb_variant_name(&variants->items[i], name));
        status = check_variant(&v, &variants->items[i]);
        if (status > NB_FAILED)
            return status;
        broken += status == NB_FAILED;
    }
    printf("%zu kernels, %zu broken\n", variants->count, broken);
    return broken ? NB_FAILED : NB_OK;
}

/* ---- The command -------------------------------------------------------- */

static int verify(verify_options *options, const nb_providers *providers)
{
    static char *default_algorithm[] = {"default"};
    nb_variants variants = {0};
    nb_options filters = options->filters;
    if (options->vectors && !filters.algorithm.count)
        filters.algorithm = (nb_names){default_algorithm, 1};
    int status = nb_variants_select(&filters, providers, false, &variants);
    if (status == NB_OK && options->dump)
        status = nb_output_directory(options->dump, options->force);
    if (status == NB_OK)
        status = options->vectors
                     ? nb_verify_vectors(options->vectors, options->dump, &filters, &variants)
                     : verify_all(options, &variants);
    nb_variants_free(&variants);
    return status;
}

int nb_verify(int argc, char **argv)
{
    static const struct argp_child children[] = {{&nb_filters, 0, NULL, 0}, {0}};
    static const struct argp argp = {own_options, parse, NULL, doc, children, NULL, NULL};
    verify_options options = {
        .filters = {.command = "verify", .takes = NB_TAKES_SHAPES | NB_TAKES_SEED}};
    nb_providers providers = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    nb_catch_interrupts();
    int status = nb_providers_load(&options.filters.provider, &providers);
    if (status == NB_OK)
        status = nb_providers_status(&providers, verify(&options, &providers));
    const int written = nb_output_close(stdout, "the report");
    nb_providers_unload(&providers);
    nb_options_free(&options.filters);
    return status == NB_OK ? written : status;
}
