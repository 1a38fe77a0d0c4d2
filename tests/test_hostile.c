/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels on rows that break naive ones, and on the numbers of faults that
 * others shipped. */
#include "harness.h"
#include "result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Every kind of row, between two ordinary ones ------------------------------ */

/* Which of x and residual is hostile; the other one's row is zeros. */
enum carrier { BY_X, BY_RESIDUAL, BY_BOTH, CARRIERS };

static void make_hostile(problem *p, const row_kind *kind, enum carrier carrier)
{
    float *values = malloc(p->hidden * sizeof(float));
    kind->fill(values, p->hidden, kind->a, kind->b, mix(harness_seed(), p->hidden));
    for (size_t i = 0; i < p->hidden; i++) {
        if (p->in[NK_OPERAND_X])
            problem_set(p, NK_OPERAND_X, p->hidden + i, carrier == BY_RESIDUAL ? 0.0f : values[i]);
        if (p->in[NK_OPERAND_RESIDUAL])
            problem_set(p, NK_OPERAND_RESIDUAL, p->hidden + i, carrier == BY_X ? 0.0f : values[i]);
    }
    free(values);
}

/* A row between others is what it is alone. */
static void rows_alone(const problem *p, const result *whole)
{
    for (size_t row = 0; row < p->rows; row++) {
        result alone;
        const layout l = {.first = row, .rows = 1, .at_end = row == 1};
        run(whole->kernel, p, &l, &alone);
        check_same(p, whole, &alone, "a row alone");
        result_free(&alone);
    }
}

static void hostile_kind(problem *p, const row_kind *kind, enum carrier carrier)
{
    make_hostile(p, kind, carrier);
    problem_true_statistics(p);
    problem_expect(p);
    for (const nk_kernel *k = kernel_next(p, NULL); k; k = kernel_next(p, k)) {
        result r;
        row_name = kind->name;
        run(k, p, &(layout){0}, &r);
        if (kernel_is_default(k)) /* the others promise ordinary rows only */
            check_result(p, &r);
        rows_alone(p, &r);
        result_free(&r);
        row_name = NULL;
    }
}

/* Every kind in x, in residual and in both, at both eps, the flags at random; of long rows
 * and in a sample one of these ways a kind, of very long ones some of the kinds. */
static void hostile_rows(problem *p)
{
    static const float epsilons[] = {1e-5f, 0.0f};
    const unsigned carriers = p->in[NK_OPERAND_RESIDUAL] ? CARRIERS : 1;
    const uint32_t all = p->present;
    const uint32_t inputs = BIT(NK_OPERAND_MEAN) | BIT(NK_OPERAND_RSTD) | BIT(NK_OPERAND_RSTD2) |
                            BIT(NK_OPERAND_DH) | BIT(NK_OPERAND_RESIDUAL);
    const unsigned ways = carriers * (p->eps > 0 ? (unsigned)COUNT(epsilons) : 1);
    const bool one_way = p->hidden > 1024 || harness_samples();
    for (unsigned kind = 0; kind < row_kind_count; kind++) {
        if (p->hidden > 8192 && mix(harness_seed(), (uint64_t)p->op * 256 + kind) % 4 != 0)
            continue;
        for (unsigned way = 0; way < ways; way++) {
            if (one_way && way != kind % ways)
                continue;
            const uint64_t random = mix(harness_seed(), p->hidden * 4096 + kind * 16 + way);
            p->present = all;
            if (nk_op_is_backward(p->op)) /* statistics, dh and residual given or not */
                p->present &= ~(inputs & (uint32_t)(random >> 32)) | nk_ops[p->op].required;
            p->flags = 0;
            if (nk_ops[p->op].options & NK_TAKES_EPS) {
                p->eps = epsilons[way / carriers];
                p->flags |= random & 256 ? NK_EPS_OUTSIDE : 0;
            }
            if (nk_ops[p->op].options & NK_TAKES_UNBIASED)
                p->flags |= random & 512 ? NK_UNBIASED : 0;
            hostile_kind(p, &row_kinds[kind], (enum carrier)(way % carriers));
        }
    }
}

static void hostile(void **state)
{
    (void)state;
    static const size_t some_hidden[] = {1, 2, 3, 8, 17, 33, 100, 257, 769, 1600, 4099, 16387, 0};
    test_begin("hostile");
    each_problem(hostile_rows, (size_t[]){3, 0}, some_hidden);
    /* for so many rows gamma and beta may be made ready once */
    each_problem(hostile_rows, (size_t[]){9, 0}, (size_t[]){1600, 0});
    test_end();
}

/* ---- Parameters that are no numbers ---------------------------------------------- */

/* In float beside 16-bit rows these reach the rounding to 16 bits, where a NaN
 * with all bits set would carry into the sign, and one with few round away. */
static void check_odd_parameters(problem *p)
{
    static const uint32_t odd[] = {0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001, 0xFF800001,
                                   0x7FC00000, 0x7F800000, 0xFF800000};
    for (int o = 0; o < NK_OPERANDS; o++) {
        if (nk_operands[o].shape != NK_SHAPE_COLUMN || !p->in[o])
            continue;
        problem_set_flags(p, NK_PARAMS_F32);
        for (size_t i = 0; i < COUNT(odd); i++)
            memcpy(p->in[o] + (1 + i * p->hidden / COUNT(odd)) % p->hidden * sizeof(float), &odd[i],
                   sizeof(float));
        problem_expect(p);
        for (const nk_kernel *k = kernel_next(p, NULL); k; k = kernel_next(p, k)) {
            result r;
            run(k, p, &(layout){0}, &r);
            if (kernel_is_default(k))
                check_result(p, &r);
            result_free(&r);
        }
    }
}

static void odd_parameters(void **state)
{
    (void)state;
    test_begin("odd_parameters");
    each_problem(check_odd_parameters, (size_t[]){2, 0}, (size_t[]){7, 33, 64, 131, 0});
    test_end();
}

/* ---- Numbers with known answers ------------------------------------------------- */

enum { SHORT = 4 };
static const struct known {
    const char *op;
    size_t hidden;
    float x[SHORT]; /* repeated */
    size_t period;
    float eps;
    uint32_t flags;
    double y[SHORT];
    double tolerance; /* of the printed digits; f32 alone where the dtype cannot hold x */
    uint32_t dtypes;
} known[] = {
#define ALL (BIT(NK_F32) | BIT(NK_BF16) | BIT(NK_F16))
#define WIDE (BIT(NK_F32) | BIT(NK_BF16))
#define F32 BIT(NK_F32)
    {"layernorm",
     4,
     {40000, 40001, 40002, 40003},
     4,
     1e-5f,
     0,
     {-1.341635, -0.4472118, 0.4472118, 1.341635},
     1e-6,
     F32},
    {"layernorm", 256, {1234.0f}, 1, 1e-5f, 0, {0}, 0, ALL},
    {"layernorm", 4096, {1234.1f}, 1, 1e-5f, 0, {0}, 0, ALL},
    {"layernorm", 256, {0.0f}, 1, 1e-5f, 0, {0}, 0, ALL},
    {"layernorm", 256, {-0.0f}, 1, 0, 0, {0}, 0, ALL},
    {"layernorm", 256, {1e-38f}, 1, 0, 0, {0}, 0, ALL},
    {"layernorm", 256, {65504.0f}, 1, 1e-5f, 0, {0}, 0, ALL},
    {"rmsnorm", 256, {1e15f}, 1, 1e-5f, 0, {1}, 1e-6, WIDE},
    {"rmsnorm", 256, {1e19f}, 1, 1e-5f, 0, {1}, 1e-6, WIDE},
    {"rmsnorm", 4096, {1e30f}, 1, 1e-5f, 0, {1}, 1e-6, WIDE},
    {"rmsnorm", 4096, {1e38f}, 1, 1e-5f, 0, {1}, 1e-6, WIDE},
    {"rmsnorm", 4096, {8}, 1, 1e-5f, 0, {1}, 1e-6, ALL},
    {"rmsnorm", 64, {300}, 1, 1e-5f, 0, {1}, 1e-6, ALL},
    {"rmsnorm", 64, {65504, -65504}, 2, 1e-5f, 0, {1, -1}, 1e-6, ALL},
    {"layernorm", 64, {65504, -65504}, 2, 1e-5f, 0, {1, -1}, 1e-6, ALL},
    {"rmsnorm", 64, {0}, 1, 1e-12f, 0, {0}, 0, ALL},
    {"rmsnorm", 64, {0}, 1, 0, 0, {0}, 0, ALL},
    {"rmsnorm", 4, {1e-3f}, 1, 1e-6f, 0, {0.7071068}, 1e-7, F32},
    {"rmsnorm", 4, {1e-3f}, 1, 1e-6f, NK_EPS_OUTSIDE, {0.9990010}, 1e-7, F32},
    {"rmsnorm", 2, {3, 4}, 2, 0, 0, {0.8485281, 1.1313708}, 1e-7, F32},
    {"rmsnorm", 8, {1e-40f}, 1, 0, 0, {1}, 1e-5, F32},
    {"layernorm", 2, {1, 3}, 2, 0, NK_UNBIASED, {-0.70710678, 0.70710678}, 1e-7, F32},
    {"layernorm", 1, {7}, 1, 0, NK_UNBIASED, {0}, 0, ALL},
    {"dyt", 64, {0.0f, -0.0f, 1e4f, -1e4f}, 4, 0, 0, {0, 0, 1, -1}, 1e-7, ALL},
    {"dyt", 64, {44, 45, 61, 88}, 4, 0, 0, {1, 1, 1, 1}, 1e-7, ALL},
    {"dyt", 64, {-9, -44, 1e-4f, 1e-8f}, 4, 0, 0, {-0.99999997, -1, 1e-4, 1e-8}, 1e-7, F32},
#undef ALL
#undef WIDE
#undef F32
};

/* Half a unit of a dtype about 1. */
static double half_unit(nk_dtype dtype)
{
    return ldexp(1.0, -nk_dtypes[dtype].digits);
}

static void check_known(const struct known *c, problem *p, const char *who, const double *y,
                        double allowed)
{
    for (size_t i = 0; i < c->hidden; i++) {
        const double expected = c->y[i % c->period];
        if (!(fabs(y[i] - expected) <= c->tolerance * fmax(fabs(expected), 1e-30) + allowed))
            fail_msg("%s: %s %s [%g, %g ...] hidden %zu eps %g: y[%zu] is %.9g, not %.9g", who,
                     c->op, nk_dtypes[p->dtype].name, (double)c->x[0], (double)c->x[1], c->hidden,
                     (double)c->eps, i, y[i], expected);
    }
}

static void known_kernels(const struct known *c, problem *p, double *y)
{
    for (const nk_kernel *k = kernel_next(p, NULL); k; k = kernel_next(p, k)) {
        if (!kernel_is_default(k))
            continue;
        result r;
        run(k, p, &(layout){0}, &r);
        for (size_t i = 0; i < c->hidden; i++)
            y[i] = (double)nk_to_float(r.out[NK_OPERAND_Y], i, p->dtype);
        const double unit = p->dtype == NK_F32 ? 8 * 0x1p-23 : 8 * 0x1p-23 + half_unit(p->dtype);
        check_known(c, p, k->isa, y, c->tolerance > 0 ? 1.5 * unit : 0);
        result_free(&r);
    }
}

static void check_known_case(const struct known *c, nk_dtype dtype)
{
    problem *p = problem_new(nk_op_index(c->op), dtype, 1, c->hidden);
    p->eps = c->eps;
    p->flags = c->flags;
    p->alpha = nk_ops[p->op].options & NK_TAKES_ALPHA ? 1.0f : 0.0f;
    p->present = nk_ops[p->op].required;
    for (size_t i = 0; i < c->hidden; i++)
        problem_set(p, NK_OPERAND_X, i, c->x[i % c->period]);
    problem_expect(p);
    double *y = malloc(c->hidden * sizeof(double));
    check_known(c, p, "oracle", p->expected[NK_OPERAND_Y].value, 0);
    known_kernels(c, p, y);
    free(y);
    problem_free(p);
}

static void known_answers(void **state)
{
    (void)state;
    test_begin("known_answers");
    for (const struct known *c = known; c < known + COUNT(known); c++)
        for (nk_dtype dtype = NK_F32; dtype < (nk_dtype)NK_DTYPES; dtype++)
            if (c->dtypes & BIT(dtype))
                check_known_case(c, dtype);
    test_end();
}

/* randn * 0.01 + 100 over 32768: the variance is 1e-4, not 0. */
static void small_variance_of_a_long_row(void **state)
{
    (void)state;
    test_begin("small_variance_of_a_long_row");
    enum { HIDDEN = 32768 };
    const int op = nk_op_index("layernorm");
    problem *p = problem_new(op, NK_F32, 1, HIDDEN);
    p->eps = 0;
    for (size_t i = 0; i < HIDDEN; i++)
        problem_set(p, NK_OPERAND_X, i, 100.0f + 0.01f * normal(harness_seed(), i));
    problem_expect(p);
    for (const nk_kernel *k = kernel_next(p, NULL); k; k = kernel_next(p, k)) {
        if (!kernel_is_default(k))
            continue;
        result r;
        run(k, p, &(layout){0}, &r);
        check_result(p, &r);
        const float rstd = nk_to_float(r.out[NK_OPERAND_RSTD], 0, NK_F32);
        if (!(rstd > 97 && rstd < 103))
            report(k, p, "rstd is %g, not 100", (double)rstd);
        result_free(&r);
    }
    problem_free(p);
    test_end();
}

int main(int argc, char **argv)
{
    harness_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostile),
        cmocka_unit_test(odd_parameters),
        cmocka_unit_test(known_answers),
        cmocka_unit_test(small_variance_of_a_long_row),
    };
    return harness_end(cmocka_run_group_tests(tests, NULL, NULL));
}
