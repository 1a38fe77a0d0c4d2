/* SPDX-License-Identifier: Apache-2.0 */
/* normbench verify --vectors: every variant on every case of a folder. */
#include "interrupt.h"
#include "probe.h"
#include "program.h"
#include "reference.h"
#include "vectors_case.h"
#include "verify.h"
#include "workspace.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct tally {
    size_t cases;
    size_t failed;
    double worst; /* in u of the promise */
} tally;

typedef struct session {
    vector_reader reader;
    const char *dump;
    tally *tallies;  /* [variants->count] */
    size_t filtered; /* cases that the filters leave out */
    size_t bad;      /* cases that cannot be read */
} session;

/* ---- Running ------------------------------------------------------------ */

/* u2 holds the bits of the case's own 16-bit type. */
static double array_element(const nb_npy *array, size_t i, nk_dtype dtype)
{
    switch (array->type) {
    case NB_NPY_F4:
        return (double)((const float *)array->data)[i];
    case NB_NPY_F8:
        return ((const double *)array->data)[i];
    case NB_NPY_F2:
        return (double)nk_to_float(array->data, i, NK_F16);
    default:
        return (double)nk_to_float(array->data, i, dtype == NK_F16 ? NK_F16 : NK_BF16);
    }
}

/* Parameters stored wider than the 16-bit type of the rows stay float. */
static bool has_wide_parameters(const vector_case *c)
{
    for (int i = 0; i < NK_OPERANDS; i++)
        if (nk_operands[i].shape == NK_SHAPE_COLUMN && c->input[i].data &&
            (c->input[i].type == NB_NPY_F4 || c->input[i].type == NB_NPY_F8))
            return true;
    return false;
}

static void copy_input(const vector_case *c, int operand, uint32_t flags, void *p)
{
    const enum nk_shape shape = nk_operands[operand].shape;
    nk_dtype type = NK_F32;
    if (shape == NK_SHAPE_ROW || (shape == NK_SHAPE_COLUMN && !(flags & NK_PARAMS_F32)))
        type = c->dtype;
    for (size_t i = 0; i < c->input[operand].count; i++)
        nk_from_double(p, i, type, array_element(&c->input[operand], i, c->dtype));
}

/* The operands of the op, with the inputs of the case. */
static int prepare(const vector_case *c, int op, nb_workspace *workspace)
{
    nb_workspace_spec spec = {.op = op,
                              .dtype = c->dtype,
                              .rows = c->rows,
                              .hidden = c->hidden,
                              .operands = nk_ops[op].required,
                              .flags = c->scalars.flags};
    if (c->dtype != NK_F32 && has_wide_parameters(c))
        spec.flags |= NK_PARAMS_F32;
    for (int i = 0; i < NK_OPERANDS; i++)
        if (nb_vector_has_input(c, op, i) || nb_vector_has_output(c, op, i))
            spec.operands |= UINT32_C(1) << i;
    const int status = nb_workspace_create(workspace, &spec);
    if (status != NB_OK)
        return status;
    nk_args *args = workspace->args;
    args->eps = c->scalars.eps;
    args->alpha = c->scalars.alpha;
    args->gamma_offset = c->scalars.gamma_offset;
    args->fraction = c->scalars.fraction;
    for (int i = 0; i < NK_OPERANDS; i++)
        if (nb_vector_has_input(c, op, i))
            copy_input(c, i, spec.flags, nk_operand_get(args, i));
    return NB_OK;
}

/* The case says what is right, the oracle only in which units errors count. */
static void measure_scales(vector_case *c, int op, const nk_args *args)
{
    nk_expected expected[NK_OPERANDS] = {0};
    for (int i = 0; i < NK_OPERANDS; i++)
        if (nb_vector_has_output(c, op, i)) {
            expected[i].value = nb_allocate(c->output[i].array.count * sizeof(double));
            expected[i].scale = nb_allocate(c->output[i].array.count * sizeof(double));
        }
    nk_reference(op, c->dtype, args, expected);
    for (int i = 0; i < NK_OPERANDS; i++) {
        free(expected[i].value);
        if (expected[i].scale)
            c->output[i].scale = expected[i].scale;
    }
}

static bool matches(double got, double expected, const vector_expectation *e)
{
    if (isnan(got) || isnan(expected))
        return isnan(got) && isnan(expected);
    if (isinf(got) || isinf(expected))
        return got == expected;
    return fabs(got - expected) <= e->atol + e->rtol * fabs(expected);
}

static bool compare_output(const session *s, const vector_case *c, const nb_variant *variant,
                           int operand, const void *p, tally *t)
{
    const vector_expectation *e = &c->output[operand];
    const bool in_rows = nk_operands[operand].shape == NK_SHAPE_ROW;
    const nk_dtype type = in_rows ? c->dtype : NK_F32;
    const size_t columns = in_rows && c->hidden ? c->hidden : 1;
    bool good = true;
    for (size_t i = 0; i < e->array.count; i++) {
        const double got = (double)nk_to_float(p, i, type);
        const double expected = array_element(&e->array, i, c->dtype);
        t->worst = fmax(t->worst, nk_error(got, expected, e->scale[i], type));
        if (!good || matches(got, expected, e))
            continue;
        char *filters = nb_variant_filters(variant);
        printf("failed: %s: %s[%zu, %zu] is %.9g, should be %.9g within %.3g\n"
               "  repeat: normbench verify --vectors %s %s --rows %zu --hidden %zu\n",
               c->name, nk_operands[operand].name, i / columns, i % columns, got, expected,
               e->atol + e->rtol * fabs(expected), s->reader.folder, filters, c->rows, c->hidden);
        free(filters);
        good = false;
    }
    return good;
}

static int run_variant(session *s, const vector_case *c, size_t index, nb_workspace *workspace)
{
    const nb_variant *variant = &s->reader.variants->items[index];
    tally *t = &s->tallies[index];
    bool good = true;
    nb_workspace_clear_outputs(workspace, 0);
    const nk_status status = nb_call_kernel(variant, workspace->args);
    if (status != NK_OK) {
        char name[NB_NAME_BYTES], *failure = nb_call_failure(variant, status);
        printf("failed: %s: %s %s\n", c->name, nb_variant_name(variant, name), failure);
        free(failure);
        good = false;
    }
    for (int i = 0; i < NK_OPERANDS && status == NK_OK; i++)
        if (nb_vector_has_output(c, variant->op, i) &&
            !compare_output(s, c, variant, i, nk_operand_get(workspace->args, i), t))
            good = false;
    t->cases++;
    t->failed += !good;
    return s->dump && status == NK_OK ? nb_dump_outputs(s->dump, c->name, variant, workspace->args)
                                      : NB_OK;
}

static bool has_expected(const vector_case *c, int op)
{
    for (int i = 0; i < NK_OPERANDS; i++)
        if (nb_vector_has_output(c, op, i))
            return true;
    return false;
}

static int run_op(session *s, vector_case *c, int op)
{
    nb_workspace workspace;
    if (op < 0 || !has_expected(c, op))
        return NB_OK;
    int status = prepare(c, op, &workspace);
    if (status == NB_OK)
        measure_scales(c, op, workspace.args);
    for (size_t i = 0; i < s->reader.variants->count && status == NB_OK; i++)
        if (s->reader.variants->items[i].op == op && s->reader.variants->items[i].dtype == c->dtype)
            status = run_variant(s, c, i, &workspace);
    nb_workspace_free(&workspace);
    return status;
}

static int do_case(session *s, const char *name)
{
    vector_case c;
    const enum vector_outcome outcome = nb_vector_read(&s->reader, name, &c);
    int status = NB_OK;
    s->bad += outcome == VECTOR_BAD;
    s->filtered += outcome == VECTOR_FILTERED;
    if (outcome == VECTOR_READ)
        status = run_op(s, &c, c.op);
    if (outcome == VECTOR_READ && status == NB_OK)
        status = run_op(s, &c, c.backward);
    nb_vector_free(&c);
    return status;
}

/* ---- The folder --------------------------------------------------------- */

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int do_folder(session *s)
{
    struct dirent **entries;
    const int count = scandir(s->reader.folder, &entries, is_visible, alphasort);
    int status = NB_OK;
    if (count < 0)
        return nb_fail(NB_USAGE, "--vectors %s: %s", s->reader.folder, strerror(errno));
    for (int i = 0; i < count; i++) {
        char *path = nb_format("%s/%s", s->reader.folder, entries[i]->d_name);
        struct stat what;
        if (nb_interrupted)
            status = NB_INTERRUPTED;
        if (status == NB_OK && stat(path, &what) == 0 && S_ISDIR(what.st_mode))
            status = do_case(s, entries[i]->d_name);
        free(path);
        free(entries[i]);
    }
    free(entries);
    return status;
}

static void print_variant(const nb_variant *variant, const tally *t)
{
    const nk_kernel *k = variant->kernel;
    const bool plain = strcmp(k->algorithm, "default") == 0;
    printf("%s%s%s %s %s", k->op, plain ? "" : "/", plain ? "" : k->algorithm, k->isa, k->dtype);
    if (!nb_provider_is_ours(variant->provider))
        printf(" of %s", variant->provider->label);
    printf(": %zu cases, %zu failed, worst %.3g u\n", t->cases, t->failed, t->worst);
}

static void print_skips(const session *s)
{
    size_t total = 0;
    for (size_t i = 0; i < s->reader.skip_count; i++)
        total += s->reader.skips[i].count;
    if (total == 0)
        return;
    printf("skipped: %zu (", total);
    for (size_t i = 0; i < s->reader.skip_count; i++)
        printf("%s%s %zu", i ? ", " : "", s->reader.skips[i].reason, s->reader.skips[i].count);
    printf(")\n");
}

static int report(const session *s)
{
    size_t cases = 0, failed = 0;
    for (size_t i = 0; i < s->reader.variants->count; i++) {
        if (s->tallies[i].cases)
            print_variant(&s->reader.variants->items[i], &s->tallies[i]);
        cases += s->tallies[i].cases;
        failed += s->tallies[i].failed;
    }
    print_skips(s);
    if (s->filtered)
        printf("left out by the filters: %zu\n", s->filtered);
    if (s->bad)
        printf("unreadable: %zu\n", s->bad);
    if (s->bad)
        return NB_USAGE;
    if (cases == 0)
        return nb_fail(NB_USAGE, "%s: nothing was checked: no case of a kernel that is here",
                       s->reader.folder);
    return failed ? NB_FAILED : NB_OK;
}

int nb_verify_vectors(const char *folder, const char *dump, const nb_options *options,
                      const nb_variants *variants)
{
    session s = {.reader = {.folder = folder, .options = options, .variants = variants},
                 .dump = dump};
    s.tallies = nb_allocate(variants->count * sizeof *s.tallies);
    memset(s.tallies, 0, variants->count * sizeof *s.tallies);
    int status = do_folder(&s);
    if (status == NB_OK)
        status = report(&s);
    nb_vector_reader_free(&s.reader);
    free(s.tallies);
    return status;
}
