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

/* Copies the caller's struct; a longer one's tail must be zero. By a call of
 * memcpy with a length that the compiler does not know: what it makes of a
 * known one (rep movs) takes longer than all the rest of these checks. */
static nk_status take_struct(const nk_args *args, nk_args *out)
{
    if (!args)
        return NK_ERROR_NO_ARGS;
    if (args->size < sizeof *out)
        return NK_ERROR_SIZE;
    size_t known = sizeof *out;
    __asm__("" : "+r"(known));
    const unsigned char *bytes = (const unsigned char *)args;
    for (size_t i = known; i < args->size; i++)
        if (bytes[i])
            return NK_ERROR_TAIL;
    memcpy(out, args, known);
    out->size = known;
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
static bool fits(size_t rows, size_t ld, size_t hidden)
{
    size_t elements;
    return !__builtin_mul_overflow(rows - 1, ld, &elements) &&
           !__builtin_add_overflow(elements, hidden, &elements) &&
           elements <= SIZE_MAX / 2 / sizeof(float);
}

static int first_of(uint32_t mask)
{
    return __builtin_ctz(mask);
}

/* Masks without loops, for this is paid by every call however small. */
static uint32_t operands_given(const nk_args *a)
{
    uint32_t mask = 0;
#define NK_OPERAND(name, CONSTANT, shape, direction)                                               \
    mask |= (uint32_t)(a->name != NULL) << NK_OPERAND_##CONSTANT;
#include "operand.def"
    return mask;
}

static nk_status refuse_row(const nk_args *a)
{
    for (int i = 0; i < NK_OPERANDS; i++) {
        const size_t ld = nk_operand_ld(a, i);
        if (nk_operands[i].shape != NK_SHAPE_ROW || !nk_operand_get(a, i))
            continue;
        if (ld < a->hidden)
            return NK_STATUS_OF(NK_STATUS_STRIDE, i);
        if (!fits(a->rows, ld, a->hidden))
            return NK_STATUS_OF(NK_STATUS_OVERFLOW, i);
    }
    return NK_OK;
}

/* Fills in the strides that are left out. */
static nk_status take_strides(const nk_args *a, nk_args *out)
{
    size_t least = a->hidden, most = a->hidden;
#define ROW_STRIDE(name)                                                                           \
    const size_t name##_ld = a->name##_ld ? a->name##_ld : a->hidden;                              \
    out->name##_ld = name##_ld;                                                                    \
    least = a->name && name##_ld < least ? name##_ld : least;                                      \
    most = a->name && name##_ld > most ? name##_ld : most;
#define COLUMN_STRIDE(name)
#define STATISTIC_STRIDE(name)
#define SUM_STRIDE(name)
#define NUMBER_STRIDE(name)
#define NK_OPERAND(name, CONSTANT, shape, direction) shape##_STRIDE(name)
#include "operand.def"
    return least == a->hidden && fits(a->rows, most, a->hidden) ? NK_OK : refuse_row(a);
}

static nk_status check_operands(const nk_op_info *op, const nk_args *args)
{
    const uint32_t given = operands_given(args), unknown = given & ~(op->required | op->optional);
    if (op->required & ~given)
        return NK_STATUS_OF(NK_STATUS_MISSING, first_of(op->required & ~given));
    if (unknown)
        return NK_STATUS_OF(NK_STATUS_NOT_TAKEN, first_of(unknown));
    if (op == &nk_ops[NK_OP_copy] && args->h && !args->residual) /* h would stay unwritten */
        return NK_STATUS_OF(NK_STATUS_MISSING, NK_OPERAND_RESIDUAL);
    return NK_OK;
}

/* Non-temporal stores need whole cache lines of their own. */
static bool output_rows_are_aligned(nk_dtype dtype, const nk_args *a)
{
    uintptr_t bits = 0;
    for (int i = 0; i < NK_OPERANDS; i++) {
        const void *p = nk_operand_get(a, i);
        if (p && nk_operands[i].shape == NK_SHAPE_ROW &&
            nk_operands[i].direction == NK_DIRECTION_OUT)
            bits |= (uintptr_t)p | nk_operand_ld(a, i) * nk_dtypes[dtype].bytes;
    }
    return (bits & 63) == 0;
}

/* A fused norm that streams computes h twice. In 16 bits that takes longer than the memory
 * traffic it saves: add_rmsnorm in bf16, 4096x4096, on a Zen 5 3488 ticks a row streamed and
 * 2766 cached on AVX-512, 6321 and 4163 on AVX2. Where the next rows are fetched meanwhile it
 * is hidden: on an Ice Lake, 8192x4096, 4221 and 5776 on AVX-512, 6403 and 6287 on AVX2 (f16
 * 5138 and 6110). Not of two norms in one, which compute h three times: Sandwich on AVX2
 * 10620 and 8803. */
static bool streaming_pays(int op, nk_dtype dtype, const nk_args *a)
{
    const bool fused = a->residual && a->y && nk_ops[op].options & NK_TAKES_EPS;
    const bool two_norms = nk_ops[op].optional >> NK_OPERAND_GAMMA2 & 1;
    const bool hidden_by_reading = nk_machine()->overlaps && !two_norms;
    return dtype == NK_F32 || !fused || a->dy || hidden_by_reading;
}

static void decide_store(int op, nk_dtype dtype, bool isa_streams, nk_args *a)
{
    if (a->store == NK_STORE_AUTO) {
        const nk_machine_info *machine = nk_machine();
        const size_t llc = nk_llc_of_use(a->llc_bytes ? a->llc_bytes : machine->llc_bytes,
                                         machine->l2_bytes, machine->overlaps);
        const bool large = llc != 0 && a->rows * a->hidden > llc / 64 &&
                           nk_call_bytes(op, dtype, a) > llc / 8 * 5 &&
                           streaming_pays(op, dtype, a);
        a->store = large ? NK_STORE_STREAM : NK_STORE_CACHED;
    }
    if (a->store == NK_STORE_STREAM && !(isa_streams && output_rows_are_aligned(dtype, a)))
        a->store = NK_STORE_CACHED;
    if (a->store_used)
        *a->store_used = a->store;
}

nk_status nk_args_check(int op, nk_dtype dtype, bool isa_streams, const nk_args *args, nk_args *out)
{
    nk_status status = take_struct(args, out);
    /* from here on the caller's struct is read: loads from the copy just written would
     * wait for its stores */
    if (status == NK_OK)
        status = nk_machine()->isa_error ? NK_ERROR_ISA : check_options(&nk_ops[op], args);
    if (status != NK_OK || args->rows == 0 || args->hidden == 0)
        return status;
    /* One element varies by 0 either way, or by what is no number: that must
     * not be taken for 0. */
    if (args->hidden == 1)
        out->flags &= ~(uint32_t)NK_UNBIASED;
    status = check_operands(&nk_ops[op], args);
    if (status == NK_OK)
        status = take_strides(args, out);
    if (status == NK_OK)
        decide_store(op, dtype, isa_streams, out);
    return status;
}
