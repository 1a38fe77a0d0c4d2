/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle's own foundations: conversions of the 16-bit dtypes, the measure
 * of errors, and each op on a row that was worked out by hand. */
#include "harness.h"

#include <math.h>
#include <string.h>

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static unsigned converted(nk_dtype dtype, float value)
{
    uint16_t bits;
    nk_from_float(&bits, 0, dtype, value);
    return bits;
}

static void conversions_round_once_to_even(void **state)
{
    (void)state;
    static const struct {
        nk_dtype dtype;
        uint32_t from;
        unsigned to;
    } cases[] = {
        {NK_BF16, 0x3F808000, 0x3F80}, {NK_BF16, 0x3F818000, 0x3F82}, {NK_BF16, 0x3F808001, 0x3F81},
        {NK_BF16, 0x7F7FFFFF, 0x7F80}, {NK_BF16, 0x7F7F7FFF, 0x7F7F}, {NK_BF16, 0xFF800000, 0xFF80},
        {NK_BF16, 0x80000000, 0x8000}, {NK_BF16, 0x00018000, 0x0002}, {NK_F16, 0x3F800000, 0x3C00},
        {NK_F16, 0x477FE000, 0x7BFF},  {NK_F16, 0x477FEFFF, 0x7BFF},  {NK_F16, 0x477FF000, 0x7C00},
        {NK_F16, 0x33800000, 0x0001},  {NK_F16, 0x33000000, 0x0000},  {NK_F16, 0x33000001, 0x0001},
        {NK_F16, 0x33C00000, 0x0002},  {NK_F16, 0x3F801000, 0x3C00},  {NK_F16, 0x3F803000, 0x3C02},
        {NK_F16, 0x387FE000, 0x0400},  {NK_F16, 0xFF800000, 0xFC00},  {NK_F16, 0x7F7FFFFF, 0x7C00},
        {NK_F16, 0x00000001, 0x0000},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_int_equal(converted(cases[i].dtype, from_bits(cases[i].from)), cases[i].to);
}

static void conversions_keep_nan(void **state)
{
    (void)state;
    static const uint32_t nans[] = {0x7F800001, 0x7FFFFFFF, 0x7FC00000, 0xFF800001, 0xFFFFFFFF};
    for (size_t i = 0; i < COUNT(nans); i++)
        for (nk_dtype dtype = NK_BF16; dtype <= NK_F16; dtype++) {
            const uint16_t bits = (uint16_t)converted(dtype, from_bits(nans[i]));
            assert_true(isnan(nk_to_float(&bits, 0, dtype)));
        }
}

static void conversions_are_inverse(void **state)
{
    (void)state;
    for (nk_dtype dtype = NK_BF16; dtype <= NK_F16; dtype++)
        for (unsigned bits = 0; bits <= 0xFFFF; bits++) {
            const uint16_t stored = (uint16_t)bits;
            const float value = nk_to_float(&stored, 0, dtype);
            if (isnan(value))
                continue;
            uint16_t again[2];
            nk_from_float(again, 0, dtype, value);
            nk_from_double(again, 1, dtype, (double)value);
            assert_int_equal(again[0], bits);
            assert_int_equal(again[1], bits);
        }
}

/* By way of float, the first of these would become a tie, and even. */
static void doubles_are_not_rounded_twice(void **state)
{
    (void)state;
    uint16_t bits;
    nk_from_double(&bits, 0, NK_BF16, 1.0 + 0x1p-8 + 0x1p-40);
    assert_int_equal(bits, 0x3F81);
    nk_from_double(&bits, 0, NK_F16, 1.0 + 0x1p-11 + 0x1p-40);
    assert_int_equal(bits, 0x3C01);
    nk_from_double(&bits, 0, NK_F16, 0x1p-25 + 0x1p-70);
    assert_int_equal(bits, 0x0001);
    nk_from_double(&bits, 0, NK_F16, 65520.0 - 0x1p-30);
    assert_int_equal(bits, 0x7BFF);
    nk_from_double(&bits, 0, NK_BF16, 1e300);
    assert_int_equal(bits, 0x7F80);
}

static int narrowed(nk_dtype dtype, double value)
{
    uint16_t bits;
    nk_from_double(&bits, 0, dtype, value);
    return bits;
}

/* Between any two neighbours, the last of which is infinity. */
static void halfway_is_even_and_else_the_nearer(void **state)
{
    (void)state;
    static const unsigned infinity[] = {[NK_BF16] = 0x7F80, [NK_F16] = 0x7C00};
    for (nk_dtype dtype = NK_BF16; dtype <= NK_F16; dtype++)
        for (unsigned bits = 0; bits < infinity[dtype]; bits++) {
            const uint16_t here = (uint16_t)bits, next = (uint16_t)(bits + 1);
            const uint16_t last = (uint16_t)(bits - 1);
            const double low = (double)nk_to_float(&here, 0, dtype);
            const double high = next < infinity[dtype]
                                    ? (double)nk_to_float(&next, 0, dtype)
                                    : 2 * low - (double)nk_to_float(&last, 0, dtype);
            const double middle = (low + high) / 2;
            assert_int_equal(narrowed(dtype, middle), bits & 1 ? next : here);
            assert_int_equal(narrowed(dtype, nextafter(middle, low)), here);
            assert_int_equal(narrowed(dtype, nextafter(middle, high)), next);
            assert_int_equal(narrowed(dtype, -middle), (bits & 1 ? next : here) | 0x8000);
        }
}

static void errors_are_measured_in_units_of_the_scale(void **state)
{
    (void)state;
    static const struct {
        double got, expected, scale;
        nk_dtype dtype;
        double error;
    } cases[] = {
        {1, 1, 1, NK_F32, 0},
        {1 + 0x1p-23, 1, 1, NK_F32, 1},
        {1 + 0x1p-23, 1, 2, NK_F32, 0.5},
        {0, 0x1p-20, 1, NK_F32, 8},
        {0x1p-149, 0, 0, NK_F32, INFINITY},
        {0, 0, 0, NK_F32, 0},
        {NAN, NAN, 1, NK_F32, 0},
        {NAN, 1, 1, NK_F32, INFINITY},
        {1, NAN, 1, NK_F32, INFINITY},
        {INFINITY, INFINITY, 1, NK_F32, 0},
        {INFINITY, -INFINITY, 1, NK_F32, INFINITY},
        {3e38, INFINITY, 1, NK_F32, INFINITY},
        {INFINITY, 1e39, 1e39, NK_F32, 0},   /* what a float must make of it */
        {-INFINITY, -1e39, 1e39, NK_F32, 0}, /* and its mirror image */
        {1, 1 + 0x1p-8, 1, NK_BF16, 0},      /* half a unit */
        {1, 1 + 0x1p-8 + 0x1p-20, 1, NK_BF16, 8},
        {1, 1 - 0x1p-9, 1, NK_BF16, 0}, /* half a unit of the binade below */
        {1, 1 - 0x1p-9 - 0x1p-20, 1, NK_BF16, 8},
        {-1, -1 - 0x1p-8 - 0x1p-20, 1, NK_BF16, 8},
        {0, 0x1p-127, 1, NK_BF16, 0}, /* may be flushed */
        {0, 0x1p-127, 0, NK_BF16, 0},
        {1, 1 + 0x1p-11, 1, NK_F16, 0},
        {1, 1 + 0x1p-11 + 0x1p-23, 1, NK_F16, 1},
        {0, 0x1p-25, 0, NK_F16, 0},
        {0, 0x1p-24, 0, NK_F16, INFINITY}, /* a subnormal f16 is no zero */
        {INFINITY, 65520, 1, NK_F16, 0},
        {65504, 65519, 1, NK_F16, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const double error =
            nk_error(cases[i].got, cases[i].expected, cases[i].scale, cases[i].dtype);
        if (error != cases[i].error && !(fabs(error - cases[i].error) < 1e-6))
            fail_msg("case %zu: %g for %g is %g u, not %g", i, cases[i].got, cases[i].expected,
                     error, cases[i].error);
    }
}

/* x, residual, gamma and beta of 4, eps 0: whole numbers where they can be. */
static void ops_by_hand(void **state)
{
    (void)state;
    static const struct {
        const char *op;
        int output;
        double expected[4];
    } cases[] = {
        {"residual_add", NK_OPERAND_H, {2, 2, 6, 6}},
        {"layernorm", NK_OPERAND_Y, {-1.5, 1, -0.5, 0}},     /* mean 3, sd 2 */
        {"add_layernorm", NK_OPERAND_Y, {-1.5, -3, 1.5, 0}}, /* mean 4, sd 2 */
        {"add_layernorm", NK_OPERAND_MEAN, {4}},
        {"add_layernorm", NK_OPERAND_RSTD, {0.5}},
        {"rmsnorm",
         NK_OPERAND_Y,
         {1 / 3.605551275463989, 2 * 5 / 3.605551275463989, 1 / 3.605551275463989,
          -5 / 3.605551275463989}},
        {"add_rmsnorm", NK_OPERAND_RSTD, {0.22360679774997896}},
        {"prmsnorm", NK_OPERAND_RSTD, {1 / 3.605551275463989}}, /* of 1 and 5 */
        {"deepnorm", NK_OPERAND_H, {3, 7, 7, 11}},
        {"deepnorm", NK_OPERAND_MEAN, {7}},
        {"rmsnorm_add", NK_OPERAND_RSTD, {1.0 / 3}}, /* of the residual */
        {"rmsnorm_add",
         NK_OPERAND_H,
         {(double)(1 + (float)(1.0 / 3)), 3, (double)(1 + (float)(5.0 / 3)),
          (double)(5 - (float)(1.0 / 3))}},
        {"dyt",
         NK_OPERAND_Y,
         {0.9640275800758169 - 0.5, 2 * 0.9999999958776927 - 1, 0.9640275800758169 + 0.5,
          1 - 0.9999999958776927}},
    };
    static float x[4] = {1, 5, 1, 5}, residual[4] = {1, -3, 5, 1};
    static float gamma[4] = {1, 2, 1, -1}, beta[4] = {-0.5, -1, 0.5, 1};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const int op = nk_op_index(cases[i].op);
        double value[4];
        nk_expected expected[NK_OPERANDS] = {[NK_OPERAND_X] = {0}};
        expected[cases[i].output].value = value;
        nk_args args = {.size = sizeof(args), .rows = 1, .hidden = 4, .x = x, .gamma = gamma};
        if (nk_ops[op].options & NK_TAKES_ALPHA)
            args.alpha = 2;
        if (nk_ops[op].options & NK_TAKES_FRACTION)
            args.fraction = 0.5f;
        if (nk_ops[op].required & BIT(NK_OPERAND_RESIDUAL))
            args.residual = residual;
        if (nk_ops[op].optional & BIT(NK_OPERAND_BETA))
            args.beta = beta;
        nk_reference(op, NK_F32, &args, expected);
        const size_t n = nk_operand_elements(cases[i].output, 1, 4);
        for (size_t j = 0; j < n; j++)
            if (!(fabs(value[j] - cases[i].expected[j]) < 1e-15))
                fail_msg("%s %s[%zu]: %.17g, not %.17g", cases[i].op,
                         nk_operands[cases[i].output].name, j, value[j], cases[i].expected[j]);
    }
}

/* ---- Backward: the forward pass itself, differentiated -------------------------- */

enum { FEW = 2, WIDTH = 12 };

/* A forward call whose numbers are whole steps, so that sums of them are exact. */
typedef struct forward {
    int op;
    float in[NK_OPERANDS][FEW * WIDTH];
    nk_args args;
} forward;

static const float step = 0x1p-6f;

static forward forward_new(int op, const nk_args *options)
{
    forward f = {.op = op, .args = *options};
    for (int o = 0; o < NK_OPERANDS; o++)
        for (size_t i = 0; i < FEW * WIDTH; i++)
            f.in[o][i] = step * (float)((int)(mix((uint64_t)o, i) % 256) - 100);
    return f;
}

static bool takes(int op, int operand)
{
    return ((nk_ops[op].required | nk_ops[op].optional) & BIT(operand)) != 0;
}

/* The sum of y * dy and h * dh; h, if wanted, also as floats. */
static double loss(forward *f, float *h)
{
    static const int outputs[] = {NK_OPERAND_Y, NK_OPERAND_H};
    double value[2][FEW * WIDTH], total = 0;
    nk_expected expected[NK_OPERANDS] = {{NULL, NULL}};
    for (size_t j = 0; j < 2; j++)
        if (takes(f->op, outputs[j]))
            expected[outputs[j]].value = value[j];
    for (int o = 0; o < NK_OPERANDS; o++)
        if (takes(f->op, o) && nk_operand_direction(f->op, o) == NK_DIRECTION_IN)
            nk_operand_set(&f->args, o, f->in[o]);
    nk_reference(f->op, NK_F32, &f->args, expected);
    for (size_t j = 0; j < 2; j++)
        for (size_t i = 0; i < FEW * WIDTH && takes(f->op, outputs[j]); i++)
            total += value[j][i] *
                     (double)f->in[outputs[j] == NK_OPERAND_Y ? NK_OPERAND_DY : NK_OPERAND_DH][i];
    for (size_t i = 0; h && takes(f->op, NK_OPERAND_H) && i < FEW * WIDTH; i++)
        h[i] = (float)value[1][i];
    return total;
}

static double central(forward *f, float *at, float by)
{
    const float value = *at;
    *at = value + by;
    const double above = loss(f, NULL);
    *at = value - by;
    const double below = loss(f, NULL);
    *at = value;
    return (above - below) / (2 * (double)by);
}

/* Richardson's extrapolation of central differences, twice. */
static double slope(forward *f, float *at)
{
    const double one = central(f, at, step), half = central(f, at, step / 2),
                 quarter = central(f, at, step / 4);
    const double better = (4 * half - one) / 3, best = (4 * quarter - half) / 3;
    return (16 * best - better) / 15;
}

/* Which number of the forward call a gradient is of. */
static float *variable(forward *f, int gradient, size_t i)
{
    switch (gradient) {
    case NK_OPERAND_DX:
        return &f->in[NK_OPERAND_X][i];
    case NK_OPERAND_DRESIDUAL:
        return &f->in[NK_OPERAND_RESIDUAL][i];
    case NK_OPERAND_DGAMMA:
        return &f->in[NK_OPERAND_GAMMA][i];
    case NK_OPERAND_DGAMMA2:
        return &f->in[NK_OPERAND_GAMMA2][i];
    case NK_OPERAND_DBETA:
        return &f->in[NK_OPERAND_BETA][i];
    case NK_OPERAND_DALPHA:
        return &f->args.alpha;
    default:
        return NULL;
    }
}

static void check_gradient(forward *f, int backward, int operand, const double *value)
{
    const size_t n = nk_operand_elements(operand, FEW, WIDTH);
    for (size_t i = 0; i < n; i++) {
        const double expected = slope(f, variable(f, operand, i));
        /* a Sandwich rounds its inner norm to float, which differences see */
        if (!(fabs(value[i] - expected) <= 2e-4 * (1 + fabs(expected))))
            fail_msg("%s eps %g flags %u: %s[%zu] is %.9g, by differences %.9g",
                     nk_ops[backward].name, (double)f->args.eps, f->args.flags,
                     nk_operands[operand].name, i, value[i], expected);
    }
}

static void differentiate(int backward, const nk_args *options)
{
    char name[64];
    snprintf(name, sizeof(name), "%.*s", (int)strlen(nk_ops[backward].name) - 4,
             nk_ops[backward].name);
    forward f = forward_new(nk_op_index(name), options);
    float h[FEW * WIDTH];
    loss(&f, h);
    static double value[NK_OPERANDS][FEW * WIDTH];
    nk_expected expected[NK_OPERANDS] = {{NULL, NULL}};
    nk_args args = *options;
    for (int o = 0; o < NK_OPERANDS; o++) {
        if (!takes(backward, o) || nk_operands[o].shape == NK_SHAPE_STATISTIC)
            continue;
        if (nk_operand_direction(backward, o) == NK_DIRECTION_IN)
            nk_operand_set(&args, o, f.in[o]);
        else
            expected[o].value = value[o];
    }
    if (takes(backward, NK_OPERAND_GAMMA2)) /* which takes h for x */
        args.x = h;
    nk_reference(backward, NK_F32, &args, expected);
    for (int o = 0; o < NK_OPERANDS; o++)
        if (expected[o].value)
            check_gradient(&f, backward, o, value[o]);
}

static void gradients_are_the_forward_passes_slopes(void **state)
{
    (void)state;
    static const uint32_t flags[] = {0, NK_EPS_OUTSIDE, NK_UNBIASED, NK_EPS_OUTSIDE | NK_UNBIASED};
    size_t checked = 0;
    for (int op = 0; op < NK_OPS; op++)
        for (size_t i = 0; i < COUNT(flags) && nk_op_is_backward(op); i++) {
            const uint32_t options = nk_ops[op].options;
            nk_args args = {.size = sizeof(args), .rows = FEW, .hidden = WIDTH};
            args.eps = options & NK_TAKES_EPS ? 0.25f : 0;
            args.gamma_offset = options & NK_TAKES_OFFSET && i % 2 ? 1 : 0;
            args.alpha = options & NK_TAKES_ALPHA ? 0.75f : 0;
            args.fraction = options & NK_TAKES_FRACTION ? 0.25f : 0;
            args.flags = flags[i] & ((options & NK_TAKES_EPS ? NK_EPS_OUTSIDE : 0) |
                                     (options & NK_TAKES_UNBIASED ? NK_UNBIASED : 0));
            differentiate(op, &args);
            checked++;
        }
    assert_int_equal(checked, 9 * COUNT(flags));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversions_round_once_to_even),
        cmocka_unit_test(conversions_keep_nan),
        cmocka_unit_test(conversions_are_inverse),
        cmocka_unit_test(doubles_are_not_rounded_twice),
        cmocka_unit_test(halfway_is_even_and_else_the_nearer),
        cmocka_unit_test(errors_are_measured_in_units_of_the_scale),
        cmocka_unit_test(ops_by_hand),
        cmocka_unit_test(gradients_are_the_forward_passes_slopes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
