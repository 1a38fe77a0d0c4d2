/* SPDX-License-Identifier: Apache-2.0 */
/* What a caller hands in, checked before anything is written. */
#include "catalog.h"
#include "cpu.h"
#include "status.h"
#include <math.h>
#include <string.h>

static const char *const plain_texts[] = {
#define NK_PLAIN_STATUS(constant, text) text,
#include "status.def"
};

static const char *const operand_texts[][NK_OPERANDS] = {
#define NK_OPERAND(name, CONSTANT, shape, direction) #name ": required, but NULL",
    {
#include "operand.def"
    },
#define NK_OPERAND(name, CONSTANT, shape, direction)                                               \
#name ": this kernel does not take it; leave it NULL",
    {
#include "operand.def"
    },
#define NK_OPERAND(name, CONSTANT, shape, direction) #name "_ld: less than hidden",
    {
#include "operand.def"
    },
#define NK_OPERAND(name, CONSTANT, shape, direction)                                               \
#name ": rows x stride is more than memory can hold",
    {
#include "operand.def"
    },
};

const char *nk_status_text(nk_status status)
{
    if (status >= 0 && status < NK_PLAIN_STATUSES)
        return plain_texts[status];
    const int kind = status / NK_STATUS_KIND - 1, operand = status % NK_STATUS_KIND;
    if (kind >= 0 && kind < NK_STATUS_KINDS && operand < NK_OPERANDS)
        return operand_texts[kind][operand];
    return "unknown status";
}

/* Copies the caller's struct, of whatever length, over a zeroed one. */
static nk_status take_struct(const nk_args *args, nk_args *out)
{
    if (!args)
        return NK_ERROR_NO_ARGS;
    if (args->size < sizeof *out)
        return NK_ERROR_SIZE;
    const unsigned char *tail = (const unsigned char *)args + sizeof *out;
    for (size_t i = 0; i < args->size - sizeof *out; i++)
        if (tail[i])
            return NK_ERROR_TAIL;
    *out = *args;
    out->size = sizeof *out;
    return NK_OK;
}

static nk_status check_options(const nk_op_info *op, const nk_args *a)
{
    const uint32_t flags = NK_PARAMS_F32 | (op->options & NK_TAKES_EPS ? NK_EPS_OUTSIDE : 0) |
                           (op->options & NK_TAKES_UNBIASED ? NK_UNBIASED : 0);
    if (a->flags & ~flags)
        return NK_ERROR_FLAGS;
    if (a->store > NK_STORE_STREAM)
        return NK_ERROR_STORE;
    if (op->options & NK_TAKES_EPS ? !(a->eps >= 0 && isfinite(a->eps)) : a->eps != 0)
        return NK_ERROR_EPS;
    if (op->options & NK_TAKES_ALPHA ? !isfinite(a->alpha) : a->alpha != 0)
        return NK_ERROR_ALPHA;
    if (op->options & NK_TAKES_OFFSET ? !isfinite(a->gamma_offset) : a->gamma_offset != 0)
        return NK_ERROR_OFFSET;
    if (op->options & NK_TAKES_FRACTION ? !(a->fraction > 0 && a->fraction <= 1) : a->fraction != 0)
        return NK_ERROR_FRACTION;
    return NK_OK;
}

/* The rows of one operand must fit into half of the address space. */
static bool fits(size_t rows, size_t ld, size_t hidden, size_t element_bytes)
{
    size_t elements, bytes;
    return !__builtin_mul_overflow(rows - 1, ld, &elements) &&
           !__builtin_add_overflow(elements, hidden, &elements) &&
           !__builtin_mul_overflow(elements, element_bytes, &bytes) && bytes <= SIZE_MAX / 2;
}

static nk_status check_operand(const nk_op_info *op, nk_dtype dtype, int i, nk_args *a)
{
    const uint32_t bit = 1u << i;
    if (!nk_operand_get(a, i))
        return op->required & bit ? NK_STATUS_OF(NK_STATUS_MISSING, i) : NK_OK;
    if (!((op->required | op->optional) & bit))
        return NK_STATUS_OF(NK_STATUS_NOT_TAKEN, i);
    const bool rows = nk_operands[i].shape == NK_SHAPE_ROW;
    const size_t ld = nk_operand_ld(a, i);
    if (rows && ld < a->hidden)
        return NK_STATUS_OF(NK_STATUS_STRIDE, i);
    if (!fits(rows ? a->rows : 1, ld, a->hidden, nk_operand_element_bytes(i, dtype, a->flags)))
        return NK_STATUS_OF(NK_STATUS_OVERFLOW, i);
    nk_operand_set_ld(a, i, ld);
    return NK_OK;
}

/* Non-temporal stores need whole cache lines of their own. */
static bool output_rows_are_aligned(nk_dtype dtype, const nk_args *a)
{
    const uintptr_t y = a->y ? (uintptr_t)a->y | (a->y_ld * nk_dtypes[dtype].bytes) : 0;
    const uintptr_t h = a->h ? (uintptr_t)a->h | (a->h_ld * nk_dtypes[dtype].bytes) : 0;
    const uintptr_t dx = a->dx ? (uintptr_t)a->dx | (a->dx_ld * nk_dtypes[dtype].bytes) : 0;
    const uintptr_t dresidual =
        a->dresidual ? (uintptr_t)a->dresidual | (a->dresidual_ld * nk_dtypes[dtype].bytes) : 0;
    return ((y | h | dx | dresidual) & 63) == 0;
}

static void decide_store(int op, nk_dtype dtype, nk_args *a)
{
    if (a->store == NK_STORE_AUTO) {
        const size_t llc = a->llc_bytes ? a->llc_bytes : nk_machine()->llc_bytes;
        const bool large = llc != 0 && nk_call_bytes(op, dtype, a) > llc / 2;
        a->store = large ? NK_STORE_STREAM : NK_STORE_CACHED;
    }
    if (a->store == NK_STORE_STREAM && !output_rows_are_aligned(dtype, a))
        a->store = NK_STORE_CACHED;
    if (a->store_used)
        *a->store_used = a->store;
}

nk_status nk_args_check(int op, nk_dtype dtype, const nk_args *args, nk_args *out)
{
    nk_status status = take_struct(args, out);
    if (status == NK_OK)
        status = nk_machine()->isa_error ? NK_ERROR_ISA : check_options(&nk_ops[op], out);
    if (status != NK_OK || out->rows == 0 || out->hidden == 0)
        return status;
    for (int i = 0; i < NK_OPERANDS && status == NK_OK; i++)
        status = check_operand(&nk_ops[op], dtype, i, out);
    if (status == NK_OK)
        decide_store(op, dtype, out);
    return status;
}
