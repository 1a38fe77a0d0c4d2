/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"
#include "probe.h"
#include "program.h"
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double nb_bound(const nb_variant *variant, size_t hidden)
{
    const double bound = nk_error_bound(variant->op, variant->kernel->algorithm, hidden);
    return bound < NB_BOUND_TIMED && !nb_provider_is_ours(variant->provider) ? NB_BOUND_TIMED
                                                                             : bound;
}

/* ---- Comparison --------------------------------------------------------- */

/* Elements that the oracle computes at a time: rows do not depend on each
 * other, and float64 results of a whole workspace would exceed its memory. */
enum { BLOCK_ELEMENTS = 1 << 16 };

static bool is_output(int op, const nk_args *args, int operand)
{
    return nk_operand_get(args, operand) && nk_operand_direction(op, operand) != NK_DIRECTION_IN;
}

static bool adds(int op, const nk_args *args)
{
    for (int i = 0; i < NK_OPERANDS; i++)
        if (is_output(op, args, i) && nk_operand_direction(op, i) == NK_DIRECTION_ADD)
            return true;
    return false;
}

/* The same call on `rows` rows from `first` on. */
static nk_args slice(const nk_args *args, nk_dtype dtype, size_t first, size_t rows)
{
    nk_args part = *args;
    part.rows = rows;
    for (int i = 0; i < NK_OPERANDS; i++) {
        char *p = nk_operand_get(args, i);
        const size_t bytes = nk_operand_element_bytes(i, dtype, args->flags);
        if (!p)
            continue;
        if (nk_operands[i].shape == NK_SHAPE_ROW) {
            const size_t ld = nk_operand_ld(args, i);
            nk_operand_set(&part, i, p + first * (ld ? ld : args->hidden) * bytes);
        } else if (nk_operands[i].shape == NK_SHAPE_STATISTIC) {
            nk_operand_set(&part, i, p + first * bytes);
        }
    }
    return part;
}

static void compare_operand(const nk_args *part, nk_dtype dtype, int operand,
                            const nk_expected *expected, size_t first, nb_error *worst)
{
    const bool in_rows = nk_operands[operand].shape == NK_SHAPE_ROW;
    const size_t columns = in_rows ? part->hidden : 1;
    const size_t count = nk_operand_elements(operand, part->rows, part->hidden);
    const size_t ld =
        in_rows && nk_operand_ld(part, operand) ? nk_operand_ld(part, operand) : columns;
    const nk_dtype type = in_rows ? dtype : NK_F32;
    const void *p = nk_operand_get(part, operand);
    for (size_t i = 0; i < count; i++) {
        const size_t row = i / columns, column = i % columns;
        const double got = (double)nk_to_float(p, row * ld + column, type);
        const double u = nk_error(got, expected->value[i], expected->scale[i], type);
        if (worst->operand < 0 || !(u <= worst->u))
            *worst = (nb_error){.u = u,
                                .operand = operand,
                                .row = first + row,
                                .column = column,
                                .got = got,
                                .expected = expected->value[i]};
    }
}

static void compare_part(int op, nk_dtype dtype, const nk_args *part, size_t first, nb_error *worst)
{
    nk_expected expected[NK_OPERANDS] = {0};
    for (int i = 0; i < NK_OPERANDS; i++) {
        if (!is_output(op, part, i))
            continue;
        const size_t count = nk_operand_elements(i, part->rows, part->hidden);
        expected[i].value = nb_allocate(count * sizeof(double));
        expected[i].scale = nb_allocate(count * sizeof(double));
    }
    nk_reference(op, dtype, part, expected);
    for (int i = 0; i < NK_OPERANDS; i++) {
        if (expected[i].value)
            compare_operand(part, dtype, i, &expected[i], first, worst);
        free(expected[i].value);
        free(expected[i].scale);
    }
}

void nb_compare_rows(int op, nk_dtype dtype, const nk_args *args, size_t first, size_t rows,
                     nb_error *worst)
{
    size_t block = rows;
    if (!adds(op, args) && args->hidden && block > BLOCK_ELEMENTS / args->hidden)
        block = BLOCK_ELEMENTS / args->hidden;
    if (block == 0)
        block = 1;
    for (size_t done = 0; done < rows; done += block) {
        const size_t left = rows - done;
        const nk_args part = slice(args, dtype, first + done, left < block ? left : block);
        compare_part(op, dtype, &part, first + done, worst);
    }
}

void nb_compare(int op, nk_dtype dtype, const nk_args *args, nb_error *worst)
{
    *worst = (nb_error){.operand = -1};
    nb_compare_rows(op, dtype, args, 0, args->rows, worst);
}

int nb_check_variant(const nb_variant *variant, nb_workspace *workspace, size_t set,
                     nb_error *worst)
{
    const nk_args *args = &workspace->args[set];
    char name[NB_NAME_BYTES];
    nb_workspace_clear_outputs(workspace, set);
    const nk_status status = nb_call_kernel(variant, args);
    if (status != NK_OK) {
        char *failure = nb_call_failure(variant, status);
        nb_fail(NB_FAILED, "%s: %s", nb_cell_name(variant, args->rows, args->hidden, name),
                failure);
        free(failure);
        return NB_FAILED;
    }
    nb_compare(variant->op, variant->dtype, args, worst);
    return NB_OK;
}

char *nb_error_text(const nb_error *error)
{
    if (error->operand < 0)
        return nb_format("nothing was compared");
    /* The sign of a NaN would be printed, and says nothing. */
    const double got = isnan(error->got) ? (double)NAN : error->got;
    return nb_format("%s[%zu, %zu] is %.9g, should be %.9g: %.3g u",
                     nk_operands[error->operand].name, error->row, error->column, got,
                     error->expected, error->u);
}
