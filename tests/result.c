/* SPDX-License-Identifier: Apache-2.0 */
#include "result.h"
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Runs ---------------------------------------------------------------------- */

void run(const nk_kernel *kernel, const problem *p, const layout *l, result *r)
{
    *r = (result){.kernel = kernel, .first = l->first, .rows = l->rows ? l->rows : p->rows};
    nk_args args;
    layout_place(p, l, &args);
    r->store_used = UINT32_MAX;
    args.store_used = &r->store_used;
    const nk_status status = kernel_call(kernel, p, &args);
    if (status != NK_OK)
        report(kernel, p, "refused: %s", status_text(status));
    int operand;
    if (!layout_intact(p, l, true, &operand))
        report(kernel, p, "written: %s", nk_operands[operand].name);
    if (r->store_used != NK_STORE_CACHED && r->store_used != NK_STORE_STREAM)
        report(kernel, p, "store_used is %u", r->store_used);
    for (int o = 0; o < NK_OPERANDS; o++)
        if (problem_gives(p, o))
            r->out[o] = layout_collect(p, l, o);
}

void result_free(result *r)
{
    for (int o = 0; o < NK_OPERANDS; o++)
        free(r->out[o]);
}

/* ---- Checks -------------------------------------------------------------------- */

static size_t elements_a_row(const problem *p, int operand)
{
    return nk_operands[operand].shape == NK_SHAPE_STATISTIC ? 1 : p->hidden;
}

static void check_operand(const problem *p, const result *r, int operand)
{
    const double limit = nk_error_bound(p->op, r->kernel->algorithm, p->hidden);
    const nk_dtype dtype = problem_dtype(p, operand);
    const size_t n = nk_operand_elements(operand, r->rows, p->hidden);
    const size_t first = operand_is_by_row(operand) ? r->first * elements_a_row(p, operand) : 0;
    for (size_t i = 0; i < n; i++) {
        const double got = (double)nk_to_float(r->out[operand], i, dtype);
        const double expected = p->expected[operand].value[first + i];
        const double error = nk_error(got, expected, p->expected[operand].scale[first + i], dtype);
        if (error <= limit)
            continue;
        report(r->kernel, p, "%s[%zu][%zu]: got %.9g, expected %.9g, error %.3g u",
               nk_operands[operand].name, i / elements_a_row(p, operand),
               i % elements_a_row(p, operand), got, expected, error);
        return;
    }
}

void check_result(const problem *p, const result *r)
{
    for (int o = 0; o < NK_OPERANDS; o++)
        if (r->out[o] && p->expected[o].value)
            check_operand(p, r, o);
}

/* NaN is NaN, whatever its other bits. */
static size_t first_difference(const unsigned char *a, const unsigned char *b, size_t n,
                               nk_dtype dtype)
{
    const size_t bytes = nk_dtypes[dtype].bytes;
    if (!memcmp(a, b, n * bytes))
        return n;
    for (size_t i = 0; i < n; i++)
        if (memcmp(a + i * bytes, b + i * bytes, bytes) != 0 &&
            !(isnan(nk_to_float(a, i, dtype)) && isnan(nk_to_float(b, i, dtype))))
            return i;
    return n;
}

/* Sums of the same rows; of others they differ. */
static void check_same_sums(const problem *p, const result *a, const result *b, int operand,
                            const char *what)
{
    const size_t n = nk_operand_elements(operand, p->rows, p->hidden);
    if (a->first != b->first || a->rows != b->rows)
        return;
    const size_t i = first_difference(a->out[operand], b->out[operand], n, NK_F32);
    if (i < n)
        report(b->kernel, p, "%s: %s[%zu] is %.9g, not %.9g", what, nk_operands[operand].name, i,
               (double)nk_to_float(b->out[operand], i, NK_F32),
               (double)nk_to_float(a->out[operand], i, NK_F32));
}

void check_same(const problem *p, const result *a, const result *b, const char *what)
{
    for (int o = 0; o < NK_OPERANDS; o++) {
        if (!a->out[o] || !b->out[o])
            continue;
        if (!operand_is_by_row(o)) {
            check_same_sums(p, a, b, o, what);
            continue;
        }
        const size_t width = elements_a_row(p, o),
                     bytes = nk_operand_element_bytes(o, p->dtype, p->flags);
        const size_t first = a->first > b->first ? a->first : b->first;
        for (size_t row = first; row < a->first + a->rows && row < b->first + b->rows; row++) {
            const unsigned char *left = a->out[o] + (row - a->first) * width * bytes;
            const unsigned char *right = b->out[o] + (row - b->first) * width * bytes;
            const nk_dtype dtype = problem_dtype(p, o);
            const size_t i = first_difference(left, right, width, dtype);
            if (i == width)
                continue;
            report(b->kernel, p, "%s: %s[%zu][%zu] is %.9g, not %.9g", what, nk_operands[o].name,
                   row, i, (double)nk_to_float(right, i, dtype),
                   (double)nk_to_float(left, i, dtype));
            return;
        }
    }
}
