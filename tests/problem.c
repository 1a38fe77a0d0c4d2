/* SPDX-License-Identifier: Apache-2.0 */
#include "problem.h"
#include "harness.h"

#include <math.h>
#include <stdlib.h>

/* ---- Numbers --------------------------------------------------------------- */

uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t z = (a ^ 0x9E3779B97F4A7C15u) * 0xBF58476D1CE4E5B9u + b;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

enum { NORMALS = 1 << 16 };

static const float *normals(void)
{
    static float table[NORMALS];
    if (table[0] == 0.0f)
        for (uint64_t k = 0; k < NORMALS; k++) {
            const double a = (double)(mix(harness_seed(), 2 * k) >> 11) * 0x1p-53 + 0x1p-54;
            const double b = (double)(mix(harness_seed(), 2 * k + 1) >> 11) * 0x1p-53;
            table[k] = (float)(sqrt(-2.0 * log(a)) * cos(6.283185307179586 * b));
        }
    return table;
}

float normal(uint64_t stream, size_t i)
{
    return normals()[(mix(stream, 0) + i) % NORMALS];
}

static void fill_constant(float *v, size_t n, float a, float b, uint64_t seed)
{
    (void)b, (void)seed;
    for (size_t i = 0; i < n; i++)
        v[i] = a;
}

static void fill_alternating(float *v, size_t n, float a, float b, uint64_t seed)
{
    (void)seed;
    for (size_t i = 0; i < n; i++)
        v[i] = i % 2 ? b : a;
}

static void fill_normal(float *v, size_t n, float mean, float sd, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        v[i] = mean + sd * normal(seed, i);
}

static void fill_ramp(float *v, size_t n, float first, float step, uint64_t seed)
{
    (void)seed;
    for (size_t i = 0; i < n; i++)
        v[i] = first + step * (float)i;
}

/* N(0,1) but for element `a`, of quarters of the row; 4 is the last element. */
static void fill_one(float *v, size_t n, float quarter, float value, uint64_t seed)
{
    fill_normal(v, n, 0, 1, seed);
    const size_t at = (size_t)((double)n * (double)quarter / 4);
    v[at < n ? at : n - 1] = value;
}

/* The first of the elements that do not fill a vector of 16. */
static void fill_tail(float *v, size_t n, float value, float b, uint64_t seed)
{
    (void)b;
    fill_normal(v, n, 0, 1, seed);
    v[n % 16 ? n / 16 * 16 : n - 1] = value;
}

static void fill_both_infinities(float *v, size_t n, float a, float b, uint64_t seed)
{
    fill_normal(v, n, 0, 1, seed);
    v[n / 2] = b;
    v[0] = a;
}

#define FIRST_MIDDLE_LAST(name, value)                                                             \
    {name " first", fill_one, 0, value}, {name " in the middle", fill_one, 2, value},              \
        {name " last", fill_one, 4, value},                                                        \
    {                                                                                              \
        name " in the tail", fill_tail, value, 0                                                   \
    }

const row_kind row_kinds[] = {
    FIRST_MIDDLE_LAST("NaN", NAN),
    FIRST_MIDDLE_LAST("+Inf", INFINITY),
    FIRST_MIDDLE_LAST("-Inf", -INFINITY),
    {"both infinities", fill_both_infinities, INFINITY, -INFINITY},
    {"an infinity and a NaN", fill_both_infinities, INFINITY, NAN},
    {"all NaN", fill_constant, NAN, 0},
    {"zeros", fill_constant, 0.0f, 0},
    {"minus zeros", fill_constant, -0.0f, 0},
    {"zeros of both signs", fill_alternating, 0.0f, -0.0f},
    {"constant 0.1", fill_constant, 0.1f, 0},
    {"constant 1234.1", fill_constant, 1234.1f, 0},
    {"constant -1234.1", fill_constant, -1234.1f, 0},
    {"constant 1e-38", fill_constant, 1e-38f, 0},
    {"constant 1e30", fill_constant, 1e30f, 0},
    {"constant 65504", fill_constant, 65504.0f, 0},
    {"constant 3.4e38", fill_constant, 3.4e38f, 0},
    {"constant subnormal", fill_constant, 1e-41f, 0},
    {"constant smallest", fill_constant, 1.4e-45f, 0},
    {"uniform 1e15", fill_alternating, 1e15f, -1e15f},
    {"uniform 1e19", fill_alternating, 1e19f, -1e19f},
    {"uniform 1e38", fill_alternating, 1e38f, -1e38f},
    {"uniform 3e38", fill_alternating, 3e38f, -3e38f},
    {"largest finite", fill_alternating, 3.4028234e38f, -3.4028234e38f},
    {"largest and zero", fill_alternating, 3.4028234e38f, 0.0f},
    {"+-65504", fill_alternating, 65504.0f, -65504.0f},
    {"+-smallest", fill_alternating, 1.4e-45f, -1.4e-45f},
    {"smallest and zero", fill_alternating, 1.4e-45f, 0.0f},
    {"neighbouring floats", fill_alternating, 1234.1f, 1234.1001f},
    {"neighbours at 1e30", fill_alternating, 1e30f, 1.0000001e30f},
    {"scale 1e-19", fill_normal, 0, 1e-19f},
    {"scale 1e-22", fill_normal, 0, 1e-22f},
    {"scale 1e-25", fill_normal, 0, 1e-25f},
    {"scale 1e-38", fill_normal, 0, 1e-38f},
    {"scale 1e-40", fill_normal, 0, 1e-40f},
    {"scale 1e15", fill_normal, 0, 1e15f},
    {"scale 1e18", fill_normal, 0, 1e18f},
    {"scale 1e25", fill_normal, 0, 1e25f},
    {"scale 1e37", fill_normal, 0, 1e37f},
    {"mean 100 sd 1e-2", fill_normal, 100, 1e-2f},
    {"mean 1e3 sd 1e-2", fill_normal, 1e3f, 1e-2f},
    {"mean 1e6 sd 1", fill_normal, 1e6f, 1},
    {"mean -1e6 sd 1", fill_normal, -1e6f, 1},
    {"mean 1e18 sd 1e15", fill_normal, 1e18f, 1e15f},
    {"mean 1e30 sd 1e24", fill_normal, 1e30f, 1e24f},
    {"mean 1e38 sd 1e36", fill_normal, 1e38f, 1e36f},
    FIRST_MIDDLE_LAST("1e3", 1e3f),
    FIRST_MIDDLE_LAST("1e6", 1e6f),
    FIRST_MIDDLE_LAST("1e18", 1e18f),
    FIRST_MIDDLE_LAST("-1e25", -1e25f),
    FIRST_MIDDLE_LAST("3e38", 3e38f),
    {"ramp", fill_ramp, 0, 1},
    {"ramp of 1/8 from -1e4", fill_ramp, -1e4f, 0.125f},
    {"ramp from 40000", fill_ramp, 40000, 1},
};
const size_t row_kind_count = COUNT(row_kinds);

/* ---- Problems -------------------------------------------------------------- */

static bool is_column(int operand)
{
    return nk_operands[operand].shape == NK_SHAPE_COLUMN;
}

bool operand_is_by_row(int operand)
{
    return nk_operands[operand].shape == NK_SHAPE_ROW ||
           nk_operands[operand].shape == NK_SHAPE_STATISTIC;
}

nk_dtype problem_dtype(const problem *p, int operand)
{
    if (nk_operands[operand].shape == NK_SHAPE_ROW)
        return p->dtype;
    return is_column(operand) && !(p->flags & NK_PARAMS_F32) ? p->dtype : NK_F32;
}

bool problem_takes(const problem *p, int operand)
{
    return ((nk_ops[p->op].required | nk_ops[p->op].optional) & BIT(operand)) != 0;
}

bool problem_gives(const problem *p, int operand)
{
    return (p->present & BIT(operand)) && nk_operand_direction(p->op, operand) != NK_DIRECTION_IN;
}

float problem_get(const problem *p, int operand, size_t i)
{
    return nk_to_float(p->in[operand], i, problem_dtype(p, operand));
}

int problem_main_input(const problem *p)
{
    return p->in[NK_OPERAND_X] ? NK_OPERAND_X : NK_OPERAND_RESIDUAL;
}

void problem_set(problem *p, int operand, size_t i, float value)
{
    nk_from_float(p->in[operand], i, problem_dtype(p, operand), value);
}

static void fill_operand(problem *p, int operand)
{
    const float *random = normals();
    const uint64_t first = mix(mix((uint64_t)operand, p->hidden * 64 + p->rows), 0);
    const size_t n = nk_operand_elements(operand, p->rows, p->hidden);
    const nk_dtype dtype = problem_dtype(p, operand);
    const float scale = is_column(operand) ? 0.5f : 1.0f;
    const float offset = operand == NK_OPERAND_GAMMA || operand == NK_OPERAND_GAMMA2 ? 1.0f : 0.0f;
    const bool positive = operand == NK_OPERAND_RSTD || operand == NK_OPERAND_RSTD2;
    for (size_t i = 0; i < n; i++) {
        const float z = random[(first + i) % NORMALS];
        nk_from_float(p->in[operand], i, dtype, positive ? 0.5f + fabsf(z) : offset + scale * z);
    }
}

problem *problem_new(int op, nk_dtype dtype, size_t rows, size_t hidden)
{
    problem *p = calloc(1, sizeof(*p));
    *p = (problem){.op = op, .dtype = dtype, .rows = rows, .hidden = hidden};
    p->present = nk_ops[op].required | nk_ops[op].optional;
    p->eps = nk_ops[op].options & NK_TAKES_EPS ? 1e-5f : 0;
    p->alpha = nk_ops[op].options & NK_TAKES_ALPHA ? 1.5f : 0;
    p->fraction = nk_ops[op].options & NK_TAKES_FRACTION ? 0.25f : 0;
    for (int o = 0; o < NK_OPERANDS; o++) {
        const size_t n = nk_operand_elements(o, rows, hidden);
        if (!problem_takes(p, o))
            continue;
        if (nk_operand_direction(op, o) == NK_DIRECTION_IN) {
            p->in[o] = malloc(n * sizeof(float));
            fill_operand(p, o);
        } else {
            p->expected[o].value = malloc(n * sizeof(double));
            p->expected[o].scale = malloc(n * sizeof(double));
        }
    }
    return p;
}

void problem_free(problem *p)
{
    for (int o = 0; o < NK_OPERANDS; o++) {
        free(p->in[o]);
        free(p->expected[o].value);
        free(p->expected[o].scale);
    }
    free(p);
}

void problem_scalars(const problem *p, nk_args *args)
{
    *args = (nk_args){.size = sizeof(nk_args), .hidden = p->hidden, .rows = p->rows};
    args->eps = p->eps;
    args->alpha = p->alpha;
    args->gamma_offset = p->gamma_offset;
    args->fraction = p->fraction;
    args->flags = p->flags;
}

void problem_expect(problem *p)
{
    nk_args args;
    problem_scalars(p, &args);
    for (int o = 0; o < NK_OPERANDS; o++)
        if (p->present & BIT(o))
            nk_operand_set(&args, o, p->in[o]);
    nk_reference(p->op, p->dtype, &args, p->expected);
}

/* Which operand of the forward op is the row that a statistic is of. */
static int statistics_of(const problem *p, int statistic)
{
    const bool inner = problem_takes(p, NK_OPERAND_RSTD2) && statistic == NK_OPERAND_RSTD;
    return inner || !p->in[NK_OPERAND_X] ? NK_OPERAND_RESIDUAL : NK_OPERAND_X;
}

static void true_statistic(problem *p, int statistic)
{
    const bool added = !problem_takes(p, NK_OPERAND_RSTD2) &&
                       p->present & BIT(NK_OPERAND_RESIDUAL) && p->in[NK_OPERAND_X];
    const bool layer = problem_takes(p, NK_OPERAND_MEAN);
    const char *op = p->alpha != 0.0f  ? "deepnorm"
                     : added           ? layer ? "add_layernorm" : "add_rmsnorm"
                     : p->fraction > 0 ? "prmsnorm"
                     : layer           ? "layernorm"
                                       : "rmsnorm";
    double *value = malloc(p->rows * sizeof(double));
    nk_expected expected[NK_OPERANDS] = {{NULL, NULL}};
    nk_args args;
    problem_scalars(p, &args);
    nk_operand_set(&args, NK_OPERAND_X, p->in[statistics_of(p, statistic)]);
    if (added)
        nk_operand_set(&args, NK_OPERAND_RESIDUAL, p->in[NK_OPERAND_RESIDUAL]);
    expected[statistic == NK_OPERAND_RSTD2 ? NK_OPERAND_RSTD : statistic].value = value;
    nk_reference(nk_op_index(op), p->dtype, &args, expected);
    for (size_t row = 0; row < p->rows; row++)
        problem_set(p, statistic, row, (float)value[row]);
    free(value);
}

void problem_true_statistics(problem *p)
{
    for (int o = 0; o < NK_OPERANDS; o++)
        if (nk_operands[o].shape == NK_SHAPE_STATISTIC && p->in[o])
            true_statistic(p, o);
}

void problem_set_flags(problem *p, uint32_t flags)
{
    p->flags = flags;
    for (int o = 0; o < NK_OPERANDS; o++)
        if (is_column(o) && p->in[o])
            fill_operand(p, o);
}

void problem_vary(problem *p, uint64_t choice)
{
    static const float epsilons[] = {1e-5f, 1e-6f, 1e-12f, 1e-3f, 0.0f};
    static const float offsets[] = {0.0f, 0.0f, 1.0f, -0.5f};
    static const float alphas[] = {1.0f, 2.213f, -0.5f, 8.0f};
    static const float fractions[] = {0.0625f, 0.1f, 0.5f, 1.0f};
    const uint32_t options = nk_ops[p->op].options;
    const uint64_t bits = mix(choice, 1);
    p->present = nk_ops[p->op].required | (nk_ops[p->op].optional & (uint32_t)choice);
    if (!(p->present & BIT(NK_OPERAND_RESIDUAL))) /* a copy has h of a residual only */
        p->present &= ~BIT(NK_OPERAND_H);
    uint32_t flags = 0;
    if (options & NK_TAKES_EPS) {
        p->eps = epsilons[bits % COUNT(epsilons)];
        flags |= bits >> 8 & 1 ? NK_EPS_OUTSIDE : 0;
    }
    if (options & NK_TAKES_UNBIASED)
        flags |= bits >> 9 & 1 ? NK_UNBIASED : 0;
    if (problem_takes(p, NK_OPERAND_GAMMA))
        flags |= bits >> 10 & 1 ? NK_PARAMS_F32 : 0;
    if (options & NK_TAKES_OFFSET)
        p->gamma_offset = offsets[bits >> 16 & 3];
    if (options & NK_TAKES_ALPHA)
        p->alpha = alphas[bits >> 18 & 3];
    if (options & NK_TAKES_FRACTION)
        p->fraction = fractions[bits >> 20 & 3];
    problem_set_flags(p, flags);
}
