/* SPDX-License-Identifier: Apache-2.0 */
#include "vectors_case.h"
#include "program.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static enum vector_outcome bad(const vector_case *c, const char *what)
{
    nb_fail(NB_USAGE, "%s/case.json: %s", c->path, what);
    return VECTOR_BAD;
}

/* Takes the reason over. */
static void count_skip(vector_reader *r, char *reason)
{
    for (size_t i = 0; i < r->skip_count; i++)
        if (strcmp(r->skips[i].reason, reason) == 0) {
            r->skips[i].count++;
            free(reason);
            return;
        }
    r->skips = nb_reallocate(r->skips, (r->skip_count + 1) * sizeof *r->skips);
    r->skips[r->skip_count++] = (vector_skip){reason, 1};
}

static enum vector_outcome skipped(vector_reader *r, char *reason)
{
    count_skip(r, reason);
    return VECTOR_SKIPPED;
}

/* ---- case.json ---------------------------------------------------------- */

static enum vector_outcome parse_json(vector_case *c)
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
        return VECTOR_BAD;
    }
    free(text);
    return cJSON_IsObject(c->json) ? VECTOR_READ : bad(c, "is no JSON object");
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

static bool is_known_key(const char *key)
{
    for (size_t i = 0; i < COUNT(known_keys); i++)
        if (strcmp(known_keys[i], key) == 0)
            return true;
    return false;
}

/* An option that the op does not take leaves the case undone, unless it asks
 * for nothing; an eps is given to every case, also to ops without a root. */
static enum vector_outcome read_number_option(vector_reader *r, vector_case *c,
                                              const struct number_option *o, const cJSON *item)
{
    if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble))
        return bad(c, "an option is no finite number");
    if (!(nk_ops[c->op].options & o->takes)) {
        if (item->valuedouble == 0.0 || o->takes == NK_TAKES_EPS)
            return VECTOR_READ;
        return skipped(r, nb_format("%s with %s", c->op_name, o->key));
    }
    *(float *)((char *)&c->scalars + o->offset) = (float)item->valuedouble;
    return VECTOR_READ;
}

static enum vector_outcome set_flag(vector_reader *r, vector_case *c, const char *key)
{
    for (size_t i = 0; i < COUNT(flag_options); i++)
        if (strcmp(flag_options[i].key, key) == 0 &&
            (nk_ops[c->op].options & flag_options[i].takes)) {
            c->scalars.flags |= flag_options[i].flag;
            return VECTOR_READ;
        }
    return skipped(r, nb_format("%s with %s", c->op_name, key));
}

/* "flags": ["eps_outside"] or {"eps_outside": true}. */
static enum vector_outcome read_flags(vector_reader *r, vector_case *c)
{
    const cJSON *item;
    enum vector_outcome outcome = VECTOR_READ;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(c->json, "flags"))
    {
        const char *key = item->string ? item->string : cJSON_GetStringValue(item);
        if (!key)
            return bad(c, "a flag has no name");
        if (outcome == VECTOR_READ && !cJSON_IsFalse(item))
            outcome = set_flag(r, c, key);
    }
    return outcome;
}

static enum vector_outcome read_option(vector_reader *r, vector_case *c, const cJSON *item)
{
    for (size_t i = 0; i < COUNT(number_options); i++)
        if (strcmp(number_options[i].key, item->string) == 0)
            return read_number_option(r, c, &number_options[i], item);
    /* Texts are remarks; of the rest, nothing that asks for something unknown
     * may pass as if it had been done. */
    if (is_known_key(item->string) || cJSON_IsString(item) || cJSON_IsFalse(item) ||
        cJSON_IsNull(item))
        return VECTOR_READ;
    return set_flag(r, c, item->string);
}

static enum vector_outcome read_options(vector_reader *r, vector_case *c)
{
    const cJSON *item;
    enum vector_outcome outcome = VECTOR_READ;
    cJSON_ArrayForEach(item, c->json)
    {
        if (outcome == VECTOR_READ)
            outcome = read_option(r, c, item);
    }
    return outcome == VECTOR_READ ? read_flags(r, c) : outcome;
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

bool nb_vector_has_input(const vector_case *c, int op, int operand)
{
    return is_input(op, operand) && c->input[operand].data;
}

bool nb_vector_has_output(const vector_case *c, int op, int operand)
{
    return is_output(op, operand) && c->output[operand].array.data;
}

static enum vector_outcome read_array(const vector_case *c, const char *file, int operand,
                                      nb_npy *array)
{
    if (!file || strchr(file, '/'))
        return bad(c, "names of arrays must be those of files in the folder of the case");
    char *path = nb_format("%s/%s", c->path, file);
    enum vector_outcome outcome = nb_npy_read(path, array) == NB_OK ? VECTOR_READ : VECTOR_BAD;
    const size_t count = nk_operand_elements(operand, c->rows, c->hidden);
    if (outcome == VECTOR_READ && array->count != count) {
        nb_fail(NB_USAGE, "%s: has %zu elements, %s of rows %zu and hidden %zu has %zu", path,
                array->count, nk_operands[operand].name, c->rows, c->hidden, count);
        outcome = VECTOR_BAD;
    }
    free(path);
    return outcome;
}

static enum vector_outcome read_inputs(vector_reader *r, vector_case *c)
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
            return skipped(r, nb_format("%s with input %s", c->op_name, item->string));
        const enum vector_outcome outcome =
            read_array(c, cJSON_GetStringValue(item), operand, &c->input[operand]);
        if (outcome != VECTOR_READ)
            return outcome;
    }
    for (int i = 0; i < NK_OPERANDS; i++)
        if (nk_ops[c->op].required >> i & 1 && is_input(c->op, i) && !c->input[i].data) {
            nb_fail(NB_USAGE, "%s/case.json: %s needs the input %s", c->path, c->op_name,
                    nk_operands[i].name);
            return VECTOR_BAD;
        }
    return VECTOR_READ;
}

static enum vector_outcome read_expectation(vector_case *c, const cJSON *item, int operand)
{
    const cJSON *atol = cJSON_GetObjectItemCaseSensitive(item, "atol");
    const cJSON *rtol = cJSON_GetObjectItemCaseSensitive(item, "rtol");
    if (!cJSON_IsNumber(atol) || !cJSON_IsNumber(rtol) || !(atol->valuedouble >= 0) ||
        !(rtol->valuedouble >= 0)) {
        nb_fail(NB_USAGE, "%s/case.json: expected %s needs atol and rtol, 0 or more", c->path,
                item->string);
        return VECTOR_BAD;
    }
    vector_expectation *e = &c->output[operand];
    e->atol = atol->valuedouble;
    e->rtol = rtol->valuedouble;
    return read_array(c, cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "file")),
                      operand, &e->array);
}

static enum vector_outcome read_expected(vector_reader *r, vector_case *c)
{
    const bool wants_backward = cJSON_GetObjectItemCaseSensitive(c->inputs, "dy") != NULL;
    const cJSON *item;
    if (wants_backward && c->backward < 0 && !is_input(c->op, NK_OPERAND_DY))
        count_skip(r, nb_format("%s_bwd", c->op_name));
    cJSON_ArrayForEach(item, c->expected)
    {
        const int operand = nk_operand_index(item->string);
        if (is_output(c->op, operand) || is_output(c->backward, operand)) {
            const enum vector_outcome outcome = read_expectation(c, item, operand);
            if (outcome != VECTOR_READ)
                return outcome;
        } else if (!wants_backward || item->string[0] != 'd') {
            count_skip(r, nb_format("%s of %s", item->string, c->op_name));
        }
    }
    return VECTOR_READ;
}

/* ---- A case ------------------------------------------------------------- */

static bool has_variant(const vector_reader *r, int op, nk_dtype dtype)
{
    for (size_t i = 0; i < r->variants->count; i++)
        if (r->variants->items[i].op == op && r->variants->items[i].dtype == dtype)
            return true;
    return false;
}

/* Which op and type, and whether there is such a kernel. */
static enum vector_outcome read_head(vector_reader *r, vector_case *c)
{
    const char *dtype = text_of(c, "dtype");
    c->op_name = text_of(c, "op");
    if (!c->op_name || !dtype)
        return bad(c, "op and dtype must be texts");
    c->inputs = cJSON_GetObjectItemCaseSensitive(c->json, "inputs");
    c->expected = cJSON_GetObjectItemCaseSensitive(c->json, "expected");
    if (!cJSON_IsObject(c->inputs) || !cJSON_IsObject(c->expected))
        return bad(c, "inputs and expected must be objects");
    if (!nb_names_allow(&r->options->kernel, c->op_name) ||
        !nb_names_allow(&r->options->dtype, dtype))
        return VECTOR_FILTERED;
    c->op = nk_op_index(c->op_name);
    if (c->op < 0)
        return skipped(r, nb_duplicate(c->op_name));
    const int type = nk_dtype_index(dtype);
    if (type < 0 || !has_variant(r, c->op, (nk_dtype)type))
        return skipped(r, nb_format("%s in %s", c->op_name, dtype));
    c->dtype = (nk_dtype)type;
    char *backward = nb_format("%s_bwd", c->op_name);
    c->backward = cJSON_GetObjectItemCaseSensitive(c->inputs, "dy") ? nk_op_index(backward) : -1;
    free(backward);
    return VECTOR_READ;
}

static enum vector_outcome read_shape(vector_reader *r, vector_case *c)
{
    if (!read_size(c, "rows", &c->rows) || !read_size(c, "hidden", &c->hidden))
        return bad(c, "rows and hidden must be whole numbers, 0 or more");
    if (nb_shape_check(c->rows, c->hidden) != NB_OK)
        return bad(c, "its shape is too large");
    if (!nb_sizes_allow(&r->options->rows, c->rows) ||
        !nb_sizes_allow(&r->options->hidden, c->hidden))
        return VECTOR_FILTERED;
    return VECTOR_READ;
}

enum vector_outcome nb_vector_read(vector_reader *r, const char *name, vector_case *c)
{
    *c = (vector_case){.name = name, .path = nb_format("%s/%s", r->folder, name)};
    enum vector_outcome outcome = parse_json(c);
    enum vector_outcome (*const steps[])(vector_reader *, vector_case *) = {
        read_head, read_shape, read_options, read_inputs, read_expected};
    for (size_t i = 0; i < COUNT(steps) && outcome == VECTOR_READ; i++)
        outcome = steps[i](r, c);
    return outcome;
}

void nb_vector_free(vector_case *c)
{
    for (int i = 0; i < NK_OPERANDS; i++) {
        nb_npy_free(&c->input[i]);
        nb_npy_free(&c->output[i].array);
        free(c->output[i].scale);
    }
    cJSON_Delete(c->json);
    free(c->path);
}

void nb_vector_reader_free(vector_reader *r)
{
    for (size_t i = 0; i < r->skip_count; i++)
        free(r->skips[i].reason);
    free(r->skips);
}
