/* SPDX-License-Identifier: Apache-2.0 */
/* normbench verify --vectors: cases from a folder. */
#include "check.h"
#include "interrupt.h"
#include "npy.h"
#include "probe.h"
#include "program.h"
#include "reference.h"
#include "verify.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* What was left undone, by its reason. */
typedef struct skip {
    char *reason;
    size_t count;
} skip;

typedef struct tally {
    size_t cases;
    size_t failed;
    double worst; /* in u of the promise */
} tally;

typedef struct session {
    const char *folder;
    const char *dump;
    const nb_options *options;
    const nb_variants *variants;
    tally *tallies; /* [variants->count] */
    skip *skips;
    size_t skip_count;
    size_t filtered; /* cases that the filters leave out */
    size_t bad;      /* cases that cannot be read */
} session;

typedef struct expectation {
    nb_npy array;
    double atol;
    double rtol;
    double *scale; /* of the promise, by the oracle: what u is measured in */
} expectation;

/* One case.json, its arrays read as far as an op here takes them. */
typedef struct vector_case {
    const char *name;
    char *path; /* of the folder */
    cJSON *json;
    const cJSON *inputs;
    const cJSON *expected;
    const char *op_name;
    int op;
    int backward; /* the op that dy asks for; -1 if there is none */
    nk_dtype dtype;
    size_t rows;
    size_t hidden;
    nk_args scalars; /* eps, alpha, ... and flags */
    nb_npy input[NK_OPERANDS];
    expectation output[NK_OPERANDS];
} vector_case;

/* How reading a case ended. */
enum outcome { READ, SKIPPED, FILTERED, BAD };

static enum outcome bad(const vector_case *c, const char *what)
{
    nb_fail(NB_USAGE, "%s/case.json: %s", c->path, what);
    return BAD;
}

/* Takes the reason over. */
static void count_skip(session *s, char *reason)
{
    for (size_t i = 0; i < s->skip_count; i++)
        if (strcmp(s->skips[i].reason, reason) == 0) {
            s->skips[i].count++;
            free(reason);
            return;
        }
    s->skips = nb_reallocate(s->skips, (s->skip_count + 1) * sizeof *s->skips);
    s->skips[s->skip_count++] = (skip){reason, 1};
}

static enum outcome skipped(session *s, char *reason)
{
    count_skip(s, reason);
    return SKIPPED;
}

/* ---- case.json ---------------------------------------------------------- */

static enum outcome parse_json(vector_case *c)
{
    char *path = nb_format("%s/case.json", c->path);
    size_t length = 0;
    const char *end = NULL;
    char *text = nb_read_text(path, &length);
    free(path);
    if (!text)
        return bad(c, strerror(errno));
    c->json = cJSON_ParseWithLengthOpts(text, length + 1, &end, true);
    if (!c->json) {
        size_t line = 1;
        for (const char *p = text; end && p < end; p++)
            line += *p == '\n';
        free(text);
        nb_fail(NB_USAGE, "%s/case.json:%zu: this is no JSON", c->path, line);
        return BAD;
    }
    free(text);
    return cJSON_IsObject(c->json) ? READ : bad(c, "is no JSON object");
}

static const char *text_of(const vector_case *c, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(c->json, key));
}

static bool read_size(const vector_case *c, const char *key, size_t *size)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(c->json, key);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= 0x1p53) ||
        item->valuedouble != floor(item->valuedouble))
        return false;
    *size = (size_t)item->valuedouble;
    return true;
}

/* ---- Options of a call -------------------------------------------------- */

static const struct number_option {
    const char *key;
    size_t offset;
    uint32_t takes;
} number_options[] = {
    {"eps", offsetof(nk_args, eps), NK_TAKES_EPS},
    {"alpha", offsetof(nk_args, alpha), NK_TAKES_ALPHA},
    {"gamma_offset", offsetof(nk_args, gamma_offset), NK_TAKES_OFFSET},
    {"fraction", offsetof(nk_args, fraction), NK_TAKES_FRACTION},
    {"p", offsetof(nk_args, fraction), NK_TAKES_FRACTION},
};

static const struct flag_option {
    const char *key;
    uint32_t flag;
    uint32_t takes;
} flag_options[] = {
    {"eps_outside", NK_EPS_OUTSIDE, NK_TAKES_EPS},
    {"unbiased", NK_UNBIASED, NK_TAKES_UNBIASED},
};

/* What a case may say beside options. */
static const char *const known_keys[] = {"op",     "dtype",    "rows",  "hidden",
                                         "inputs", "expected", "flags", "seed"};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static bool is_known_key(const char *key)
{
    for (size_t i = 0; i < COUNT(known_keys); i++)
        if (strcmp(known_keys[i], key) == 0)
            return true;
    return false;
}

/* An option that the op does not take leaves the case undone, unless it asks
 * for nothing; an eps is given to every case, also to ops without a root. */
static enum outcome read_number_option(session *s, vector_case *c, const struct number_option *o,
                                       const cJSON *item)
{
    if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble))
        return bad(c, "an option is no finite number");
    if (!(nk_ops[c->op].options & o->takes)) {
        if (item->valuedouble == 0.0 || o->takes == NK_TAKES_EPS)
            return READ;
        return skipped(s, nb_format("%s with %s", c->op_name, o->key));
    }
    *(float *)((char *)&c->scalars + o->offset) = (float)item->valuedouble;
    return READ;
}

static enum outcome set_flag(session *s, vector_case *c, const char *key)
{
    for (size_t i = 0; i < COUNT(flag_options); i++)
        if (strcmp(flag_options[i].key, key) == 0 &&
            (nk_ops[c->op].options & flag_options[i].takes)) {
            c->scalars.flags |= flag_options[i].flag;
            return READ;
        }
    return skipped(s, nb_format("%s with %s", c->op_name, key));
}

/* "flags": ["eps_outside"] or {"eps_outside": true}. */
static enum outcome read_flags(session *s, vector_case *c)
{
    const cJSON *item;
    enum outcome outcome = READ;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(c->json, "flags"))
    {
        const char *key = item->string ? item->string : cJSON_GetStringValue(item);
        if (!key)
            return bad(c, "a flag has no name");
        if (outcome == READ && !cJSON_IsFalse(item))
            outcome = set_flag(s, c, key);
    }
    return outcome;
}

static enum outcome read_option(session *s, vector_case *c, const cJSON *item)
{
    for (size_t i = 0; i < COUNT(number_options); i++)
        if (strcmp(number_options[i].key, item->string) == 0)
            return read_number_option(s, c, &number_options[i], item);
    /* Texts are remarks; of the rest, nothing that asks for something unknown
     * may pass as if it had been done. */
    if (is_known_key(item->string) || cJSON_IsString(item) || cJSON_IsFalse(item) ||
        cJSON_IsNull(item))
        return READ;
    return set_flag(s, c, item->string);
}

static enum outcome read_options(session *s, vector_case *c)
{
    const cJSON *item;
    enum outcome outcome = READ;
    cJSON_ArrayForEach(item, c->json)
    {
        if (outcome == READ)
            outcome = read_option(s, c, item);
    }
    return outcome == READ ? read_flags(s, c) : outcome;
}

/* ---- Operands ----------------------------------------------------------- */

static bool takes(int op, int operand)
{
    return op >= 0 && operand >= 0 &&
           ((nk_ops[op].required | nk_ops[op].optional) >> operand & 1) != 0;
}

static bool is_input(int op, int operand)
{
    return takes(op, operand) && nk_operand_direction(op, operand) == NK_DIRECTION_IN;
}

static bool is_output(int op, int operand)
{
    return takes(op, operand) && nk_operand_direction(op, operand) != NK_DIRECTION_IN;
}

static enum outcome read_array(const vector_case *c, const char *file, int operand, nb_npy *array)
{
    if (!file || strchr(file, '/'))
        return bad(c, "names of arrays must be those of files in the folder of the case");
    char *path = nb_format("%s/%s", c->path, file);
    enum outcome outcome = nb_npy_read(path, array) == NB_OK ? READ : BAD;
    const size_t count = nk_operand_elements(operand, c->rows, c->hidden);
    if (outcome == READ && array->count != count) {
        nb_fail(NB_USAGE, "%s: has %zu elements, %s of rows %zu and hidden %zu has %zu", path,
                array->count, nk_operands[operand].name, c->rows, c->hidden, count);
        outcome = BAD;
    }
    free(path);
    return outcome;
}

static enum outcome read_inputs(session *s, vector_case *c)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, c->inputs)
    {
        const int operand = nk_operand_index(item->string);
        const bool for_backward =
            c->backward < 0 && (operand == NK_OPERAND_DY || operand == NK_OPERAND_DH);
        if (for_backward)
            continue; /* counted by read_expected */
        if (!is_input(c->op, operand) && !is_input(c->backward, operand))
            return skipped(s, nb_format("%s with input %s", c->op_name, item->string));
        const enum outcome outcome =
            read_array(c, cJSON_GetStringValue(item), operand, &c->input[operand]);
        if (outcome != READ)
            return outcome;
    }
    for (int i = 0; i < NK_OPERANDS; i++)
        if (nk_ops[c->op].required >> i & 1 && is_input(c->op, i) && !c->input[i].data) {
            nb_fail(NB_USAGE, "%s/case.json: %s needs the input %s", c->path, c->op_name,
                    nk_operands[i].name);
            return BAD;
        }
    return READ;
}

static enum outcome read_expectation(vector_case *c, const cJSON *item, int operand)
{
    const cJSON *atol = cJSON_GetObjectItemCaseSensitive(item, "atol");
    const cJSON *rtol = cJSON_GetObjectItemCaseSensitive(item, "rtol");
    if (!cJSON_IsNumber(atol) || !cJSON_IsNumber(rtol) || !(atol->valuedouble >= 0) ||
        !(rtol->valuedouble >= 0)) {
        nb_fail(NB_USAGE, "%s/case.json: expected %s needs atol and rtol, 0 or more", c->path,
                item->string);
        return BAD;
    }
    expectation *e = &c->output[operand];
    e->atol = atol->valuedouble;
    e->rtol = rtol->valuedouble;
    return read_array(c, cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "file")),
                      operand, &e->array);
}

static enum outcome read_expected(session *s, vector_case *c)
{
    const bool wants_backward = cJSON_GetObjectItemCaseSensitive(c->inputs, "dy") != NULL;
    const cJSON *item;
    if (wants_backward && c->backward < 0 && !is_input(c->op, NK_OPERAND_DY))
        count_skip(s, nb_format("%s_bwd", c->op_name));
    cJSON_ArrayForEach(item, c->expected)
    {
        const int operand = nk_operand_index(item->string);
        if (is_output(c->op, operand) || is_output(c->backward, operand)) {
            const enum outcome outcome = read_expectation(c, item, operand);
            if (outcome != READ)
                return outcome;
        } else if (!wants_backward || item->string[0] != 'd') {
            count_skip(s, nb_format("%s of %s", item->string, c->op_name));
        }
    }
    return READ;
}

/* ---- A case ------------------------------------------------------------- */

static bool has_variant(const session *s, int op, nk_dtype dtype)
{
    for (size_t i = 0; i < s->variants->count; i++)
        if (s->variants->items[i].op == op && s->variants->items[i].dtype == dtype)
            return true;
    return false;
}

/* Which op and type, and whether there is such a kernel. */
static enum outcome read_head(session *s, vector_case *c)
{
    const char *dtype = text_of(c, "dtype");
    c->op_name = text_of(c, "op");
    if (!c->op_name || !dtype)
        return bad(c, "op and dtype must be texts");
    c->inputs = cJSON_GetObjectItemCaseSensitive(c->json, "inputs");
    c->expected = cJSON_GetObjectItemCaseSensitive(c->json, "expected");
    if (!cJSON_IsObject(c->inputs) || !cJSON_IsObject(c->expected))
        return bad(c, "inputs and expected must be objects");
    if (!nb_names_allow(&s->options->kernel, c->op_name) ||
        !nb_names_allow(&s->options->dtype, dtype))
        return FILTERED;
    c->op = nk_op_index(c->op_name);
    if (c->op < 0)
        return skipped(s, nb_duplicate(c->op_name));
    const int type = nk_dtype_index(dtype);
    if (type < 0 || !has_variant(s, c->op, (nk_dtype)type))
        return skipped(s, nb_format("%s in %s", c->op_name, dtype));
    c->dtype = (nk_dtype)type;
    char *backward = nb_format("%s_bwd", c->op_name);
    c->backward = cJSON_GetObjectItemCaseSensitive(c->inputs, "dy") ? nk_op_index(backward) : -1;
    free(backward);
    return READ;
}

static enum outcome read_shape(session *s, vector_case *c)
{
    if (!read_size(c, "rows", &c->rows) || !read_size(c, "hidden", &c->hidden))
        return bad(c, "rows and hidden must be whole numbers, 0 or more");
    if (nb_shape_check(c->rows, c->hidden) != NB_OK)
        return bad(c, "its shape is too large");
    if (!nb_sizes_allow(&s->options->rows, c->rows) ||
        !nb_sizes_allow(&s->options->hidden, c->hidden))
        return FILTERED;
    return READ;
}

static enum outcome read_case(session *s, vector_case *c)
{
    enum outcome outcome = parse_json(c);
    enum outcome (*const steps[])(session *, vector_case *) = {read_head, read_shape, read_options,
                                                               read_inputs, read_expected};
    for (size_t i = 0; i < COUNT(steps) && outcome == READ; i++)
        outcome = steps[i](s, c);
    return outcome;
}

static void free_case(vector_case *c)
{
    for (int i = 0; i < NK_OPERANDS; i++) {
        nb_npy_free(&c->input[i]);
        nb_npy_free(&c->output[i].array);
        free(c->output[i].scale);
    }
    cJSON_Delete(c->json);
    free(c->path);
}

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
        if ((is_input(op, i) && c->input[i].data) || (is_output(op, i) && c->output[i].array.data))
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
        if (is_input(op, i) && c->input[i].data)
            copy_input(c, i, spec.flags, nk_operand_get(args, i));
    return NB_OK;
}

/* The case says what is right, the oracle only in which units errors count. */
static void measure_scales(vector_case *c, int op, const nk_args *args)
{
    nk_expected expected[NK_OPERANDS] = {0};
    for (int i = 0; i < NK_OPERANDS; i++)
        if (is_output(op, i) && c->output[i].array.data) {
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

static bool matches(double got, double expected, const expectation *e)
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
    const expectation *e = &c->output[operand];
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
               e->atol + e->rtol * fabs(expected), s->folder, filters, c->rows, c->hidden);
        free(filters);
        good = false;
    }
    return good;
}

static int run_variant(session *s, const vector_case *c, size_t index, nb_workspace *workspace)
{
    const nb_variant *variant = &s->variants->items[index];
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
        if (is_output(variant->op, i) && c->output[i].array.data &&
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
        if (is_output(op, i) && c->output[i].array.data)
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
    for (size_t i = 0; i < s->variants->count && status == NB_OK; i++)
        if (s->variants->items[i].op == op && s->variants->items[i].dtype == c->dtype)
            status = run_variant(s, c, i, &workspace);
    nb_workspace_free(&workspace);
    return status;
}

static int do_case(session *s, const char *name)
{
    vector_case c = {.name = name, .path = nb_format("%s/%s", s->folder, name)};
    const enum outcome outcome = read_case(s, &c);
    int status = NB_OK;
    s->bad += outcome == BAD;
    s->filtered += outcome == FILTERED;
    if (outcome == READ)
        status = run_op(s, &c, c.op);
    if (outcome == READ && status == NB_OK)
        status = run_op(s, &c, c.backward);
    free_case(&c);
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
    const int count = scandir(s->folder, &entries, is_visible, alphasort);
    int status = NB_OK;
    if (count < 0)
        return nb_fail(NB_USAGE, "--vectors %s: %s", s->folder, strerror(errno));
    for (int i = 0; i < count; i++) {
        char *path = nb_format("%s/%s", s->folder, entries[i]->d_name);
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
    for (size_t i = 0; i < s->skip_count; i++)
        total += s->skips[i].count;
    if (total == 0)
        return;
    printf("skipped: %zu (", total);
    for (size_t i = 0; i < s->skip_count; i++)
        printf("%s%s %zu", i ? ", " : "", s->skips[i].reason, s->skips[i].count);
    printf(")\n");
}

static int report(const session *s)
{
    size_t cases = 0, failed = 0;
    for (size_t i = 0; i < s->variants->count; i++) {
        if (s->tallies[i].cases)
            print_variant(&s->variants->items[i], &s->tallies[i]);
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
                       s->folder);
    return failed ? NB_FAILED : NB_OK;
}

int nb_verify_vectors(const char *folder, const char *dump, const nb_options *options,
                      const nb_variants *variants)
{
    session s = {.folder = folder, .dump = dump, .options = options, .variants = variants};
    s.tallies = nb_allocate(variants->count * sizeof *s.tallies);
    memset(s.tallies, 0, variants->count * sizeof *s.tallies);
    int status = do_folder(&s);
    if (status == NB_OK)
        status = report(&s);
    for (size_t i = 0; i < s.skip_count; i++)
        free(s.skips[i].reason);
    free(s.skips);
    free(s.tallies);
    return status;
}
