/* SPDX-License-Identifier: Apache-2.0 */
/* What the gradients must be, whatever the oracle says. */
#include "harness.h"
#include "result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const size_t some_hidden[] = {2, 7, 64, 769, 4096, 0};

static float out(const problem *p, const result *r, int operand, size_t i)
{
    const bool row = nk_operands[operand].shape == NK_SHAPE_ROW;
    return nk_to_float(r->out[operand], i, row ? p->dtype : NK_F32);
}

static bool named(const problem *p, const char *op)
{
    return !strcmp(nk_ops[p->op].name, op);
}

/* With the row's own statistics, and no dh. */
static void without_extras(problem *p)
{
    p->present &= ~(BIT(NK_OPERAND_MEAN) | BIT(NK_OPERAND_RSTD) | BIT(NK_OPERAND_RSTD2) |
                    BIT(NK_OPERAND_DH)) |
                  nk_ops[p->op].required;
}

/* ---- A norm that takes out the mean has no gradient along it ------------------- */

static void check_sum(problem *p)
{
    if (!named(p, "layernorm_bwd"))
        return;
    problem_true_statistics(p);
    without_extras(p);
    for (const nk_kernel *k = kernel_next(p, NULL); k; k = kernel_next(p, k)) {
        result r;
        run(k, p, &(layout){0}, &r);
        for (size_t row = 0; row < p->rows; row++) {
            double sum = 0, size = 0;
            for (size_t i = 0; i < p->hidden; i++) {
                const double dx = (double)out(p, &r, NK_OPERAND_DX, row * p->hidden + i);
                const double w = (double)problem_get(p, NK_OPERAND_GAMMA, i) *
                                 (double)problem_get(p, NK_OPERAND_DY, row * p->hidden + i);
                sum += dx;
                size += fabs(w * (double)problem_get(p, NK_OPERAND_RSTD, row));
            }
            const double unit = ldexp(1, -nk_dtypes[p->dtype].digits) + 8 * 0x1p-23;
            if (!(fabs(sum) <= unit * size))
                report(k, p, "row %zu: dx sums to %g, of %g", row, sum, size);
        }
        result_free(&r);
    }
}

static void dx_sums_to_zero(void **state)
{
    (void)state;
    test_begin("dx_sums_to_zero");
    each_problem(check_sum, (size_t[]){5, 0}, some_hidden);
    test_end();
}

/* ---- Rows without variance ------------------------------------------------------ */

static const float levels[] = {0.0f, -0.0f, 0.1f, 1234.0f, 65504.0f};

/* The norm's own gradient of such a row is 0; RMSNorm's, where the row is 0. */
static void check_flat(problem *p)
{
    const bool layer = named(p, "layernorm_bwd");
    if (!layer && !named(p, "rmsnorm_bwd") && !named(p, "prmsnorm_bwd"))
        return;
    p->rows = layer ? COUNT(levels) : 2;
    for (size_t i = 0; i < p->rows * p->hidden; i++)
        problem_set(p, NK_OPERAND_X, i, levels[i / p->hidden]);
    for (int way = 0; way < 8; way++) {
        p->eps = way & 1 ? 0 : 1e-5f;
        p->flags = way & 4 ? NK_EPS_OUTSIDE : 0;
        p->present = nk_ops[p->op].required | nk_ops[p->op].optional;
        problem_true_statistics(p);
        if (way & 2)
            without_extras(p);
        for (const nk_kernel *k = kernel_next(p, NULL); k; k = kernel_next(p, k)) {
            result r;
            run(k, p, &(layout){0}, &r);
            for (size_t i = 0; i < p->rows * p->hidden; i++)
                if (!(out(p, &r, NK_OPERAND_DX, i) == 0.0f)) {
                    report(k, p, "dx[%zu] is %g", i, (double)out(p, &r, NK_OPERAND_DX, i));
                    break;
                }
            for (size_t i = 0; i < p->hidden; i++)
                if (!(out(p, &r, NK_OPERAND_DGAMMA, i) == 0.0f)) {
                    report(k, p, "dgamma[%zu] is %g", i, (double)out(p, &r, NK_OPERAND_DGAMMA, i));
                    break;
                }
            result_free(&r);
        }
    }
}

static void flat_rows_have_no_gradient(void **state)
{
    (void)state;
    test_begin("flat_rows_have_no_gradient");
    each_problem(check_flat, (size_t[]){COUNT(levels), 0}, some_hidden);
    test_end();
}

/* ---- Sums over many rows ----------------------------------------------------------- */

/* Each row the same, all addends of one sign: roundings that all go one way.
 * The promise itself, over thousands of rows. */
static void check_many_rows(problem *p)
{
    for (int o = 0; o < NK_OPERANDS; o++)
        if (p->in[o] && nk_operands[o].shape == NK_SHAPE_ROW)
            for (size_t i = 0; i < p->rows * p->hidden; i++)
                problem_set(p, o, i, fabsf(problem_get(p, o, i % p->hidden)) + 0.01f);
    without_extras(p);
    problem_expect(p);
    for (const nk_kernel *k = kernel_next(p, NULL); k; k = kernel_next(p, k)) {
        result r;
        run(k, p, &(layout){0}, &r);
        check_result(p, &r);
        for (int o = 0; o < NK_OPERANDS; o++)
            for (size_t i = 0; r.out[o] && nk_operands[o].shape == NK_SHAPE_SUM && i < p->hidden;
                 i++) {
                const double error = nk_error((double)out(p, &r, o, i), p->expected[o].value[i],
                                              p->expected[o].scale[i], NK_F32);
                if (!(error <= 8)) /* a fraction of the promise, however many the rows */
                    report(k, p, "%s[%zu] drifts: error %.3g u", nk_operands[o].name, i, error);
            }
        result_free(&r);
    }
}

static void sums_do_not_drift(void **state)
{
    (void)state;
    test_begin("sums_do_not_drift");
    for (size_t rows = 64; rows <= 4096; rows *= 8)
        if (nk_op_index("rmsnorm_bwd") >= 0)
            each_problem(check_many_rows, (size_t[]){rows, 0}, (size_t[]){48, 0});
    test_end();
}

/* Sums are added to what is there, once a call. */
static void check_added(problem *p)
{
    for (const nk_kernel *k = kernel_next(p, NULL); k && nk_op_is_backward(p->op);
         k = kernel_next(p, k)) {
        result r;
        nk_args args;
        run(k, p, &(layout){0}, &r);
        layout_place(p, &(layout){0}, &args);
        for (int o = 0; o < NK_OPERANDS; o++)
            for (size_t i = 0; r.out[o] && nk_operand_direction(p->op, o) == NK_DIRECTION_ADD &&
                               i < nk_operand_elements(o, p->rows, p->hidden);
                 i++)
                ((float *)nk_operand_get(&args, o))[i] = 1000;
        if (k->function(&args) != NK_OK)
            report(k, p, "refused");
        for (int o = 0; o < NK_OPERANDS; o++)
            for (size_t i = 0; r.out[o] && nk_operand_direction(p->op, o) == NK_DIRECTION_ADD &&
                               i < nk_operand_elements(o, p->rows, p->hidden);
                 i++) {
                const float got = ((const float *)nk_operand_get(&args, o))[i];
                const float sum = out(p, &r, o, i);
                if (!(fabsf(got - (1000 + sum)) <= 0x1p-12f + 0x1p-20f * fabsf(sum)))
                    report(k, p, "1000 and %g makes %s[%zu] %g", (double)sum, nk_operands[o].name,
                           i, (double)got);
            }
        result_free(&r);
    }
}

static void sums_are_added(void **state)
{
    (void)state;
    test_begin("sums_are_added");
    each_problem(check_added, (size_t[]){19, 0}, (size_t[]){1, 33, 769, 0});
    test_end();
}

/* ---- Known numbers ------------------------------------------------------------------ */

/* x = dy = [1, 0, 0, 0] in one buffer with dx, eps 1e-4. */
static void rms_in_place(void **state)
{
    (void)state;
    test_begin("rms_in_place");
    problem *p = problem_new(nk_op_index("rmsnorm_bwd"), NK_F32, 1, 4);
    p->eps = 1e-4f;
    p->present = nk_ops[p->op].required | BIT(NK_OPERAND_DX);
    for (size_t i = 0; i < 4; i++) {
        problem_set(p, NK_OPERAND_X, i, i == 0 ? 1 : 0);
        problem_set(p, NK_OPERAND_DY, i, i == 0 ? 1 : 0);
    }
    for (const nk_kernel *k = kernel_next(p, NULL); k; k = kernel_next(p, k)) {
        result r;
        const layout l = {.alias[NK_OPERAND_DX] = 1 + NK_OPERAND_DY};
        run(k, p, &l, &r);
        for (size_t i = 0; i < 4; i++)
            if (!(fabsf(out(p, &r, NK_OPERAND_DX, i) - (i == 0 ? 0.000799377f : 0)) <=
                  1.2e-7f * 64))
                report(k, p, "dx[%zu] is %g", i, (double)out(p, &r, NK_OPERAND_DX, i));
        result_free(&r);
        float same[4] = {1, 0, 0, 0};
        const nk_args args = {.size = sizeof(args),
                              .rows = 1,
                              .hidden = 4,
                              .x = same,
                              .dy = same,
                              .dx = same,
                              .eps = 1e-4f};
        if (k->function(&args) != NK_OK || !(fabsf(same[0] - 0.000799377f) <= 1.2e-7f * 64))
            report(k, p, "all in one place: dx[0] is %g", (double)same[0]);
    }
    problem_free(p);
    test_end();
}

int main(int argc, char **argv)
{
    harness_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dx_sums_to_zero),   cmocka_unit_test(flat_rows_have_no_gradient),
        cmocka_unit_test(sums_do_not_drift), cmocka_unit_test(sums_are_added),
        cmocka_unit_test(rms_in_place),
    };
    return harness_end(cmocka_run_group_tests(tests, NULL, NULL));
}
