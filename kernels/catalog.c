/* SPDX-License-Identifier: Apache-2.0 */
#include "catalog.h"
#include <math.h>
#include <string.h>

#define ROW_LD(name) offsetof(nk_args, name##_ld)
#define COLUMN_LD(name) 0
#define STATISTIC_LD(name) 0
#define SUM_LD(name) 0
#define NUMBER_LD(name) 0
const nk_operand_info nk_operands[NK_OPERANDS] = {
#define NK_OPERAND(name, CONSTANT, shape, direction)                                               \
    {#name, NK_SHAPE_##shape, NK_DIRECTION_##direction, offsetof(nk_args, name), shape##_LD(name)},
#include "operand.def"
};

/* The words of kernels.def. */
enum {
    NONE = 0,
#define NK_OPERAND(name, CONSTANT, shape, direction) CONSTANT = 1 << NK_OPERAND_##CONSTANT,
#include "operand.def"
};
enum {
    EPS = NK_TAKES_EPS,
    ALPHA = NK_TAKES_ALPHA,
    OFFSET = NK_TAKES_OFFSET,
    FRACTION = NK_TAKES_FRACTION,
    UNBIASED = NK_TAKES_UNBIASED
};

const nk_op_info nk_ops[NK_OPS] = {
#define NK_OP(op, required, optional, aliases, options, flops)                                     \
    {#op, required, optional, aliases, options},
#define NK_ALGORITHM(op, algorithm, flops)
#include "kernels.def"
};

const nk_algorithm_info nk_algorithms[] = {
#define NK_OP(op, required, optional, aliases, options, flops) {NK_OP_##op, "default", flops},
#define NK_ALGORITHM(op, algorithm, flops) {NK_OP_##op, #algorithm, flops},
#include "kernels.def"
};
const size_t nk_algorithm_count = sizeof nk_algorithms / sizeof nk_algorithms[0];

const nk_dtype_info nk_dtypes[NK_DTYPES] = {
#define NK_DTYPE(name, constant, type, bytes, digits) [constant] = {#name, bytes, digits},
#include "dtype.def"
};

const nk_isa_info nk_isas[NK_ISAS] = {
#define NK_ISA(name, takes) {#name, takes},
#include "isa.def"
};

#define INDEX_OF(table, count, wanted)                                                             \
    for (int i = 0; i < (int)(count); i++)                                                         \
        if (strcmp((table)[i].name, wanted) == 0)                                                  \
            return i;                                                                              \
    return -1

int nk_op_index(const char *name)
{
    INDEX_OF(nk_ops, NK_OPS, name);
}

int nk_dtype_index(const char *name)
{
    INDEX_OF(nk_dtypes, NK_DTYPES, name);
}

int nk_isa_index(const char *name)
{
    INDEX_OF(nk_isas, NK_ISAS, name);
}

int nk_operand_index(const char *name)
{
    INDEX_OF(nk_operands, NK_OPERANDS, name);
}

bool nk_op_is_backward(int op)
{
    return nk_ops[op].required & (DY | DH);
}

enum nk_direction nk_operand_direction(int op, int operand)
{
    if (nk_operands[operand].shape == NK_SHAPE_STATISTIC && nk_op_is_backward(op))
        return NK_DIRECTION_IN;
    return nk_operands[operand].direction;
}

size_t nk_operand_elements(int operand, size_t rows, size_t hidden)
{
    switch (nk_operands[operand].shape) {
    case NK_SHAPE_ROW:
        return rows * hidden;
    case NK_SHAPE_STATISTIC:
        return rows;
    case NK_SHAPE_NUMBER:
        return 1;
    default:
        return hidden;
    }
}

size_t nk_operand_element_bytes(int operand, nk_dtype dtype, uint32_t flags)
{
    const enum nk_shape shape = nk_operands[operand].shape;
    if (shape == NK_SHAPE_ROW || (shape == NK_SHAPE_COLUMN && !(flags & NK_PARAMS_F32)))
        return nk_dtypes[dtype].bytes;
    return sizeof(float);
}

size_t nk_call_bytes(int op, nk_dtype dtype, const nk_args *args)
{
    size_t bytes = 0;
    for (int i = 0; i < NK_OPERANDS; i++) {
        if (!nk_operand_get(args, i))
            continue;
        const size_t times = nk_operand_direction(op, i) == NK_DIRECTION_ADD ? 2 : 1;
        bytes += times * nk_operand_elements(i, args->rows, args->hidden) *
                 nk_operand_element_bytes(i, dtype, args->flags);
    }
    return bytes;
}

double nk_call_flops(const nk_algorithm_info *algorithm, const nk_args *args)
{
    const int params = !!args->gamma + !!args->beta + !!args->gamma2;
    return (double)args->rows * (double)args->hidden * (algorithm->flops + params);
}

/* ---- 16-bit numbers ------------------------------------------------------ */

static float bf16_to_float(nk_bf16 bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static float f16_to_float(nk_f16 bits)
{
    const uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
    const uint32_t normal = (exponent + 127 - 15) << 23 | fraction << 13;
    float magnitude;
    memcpy(&magnitude, &normal, sizeof magnitude);
    if (exponent == 31)
        magnitude = fraction ? NAN : INFINITY;
    else if (exponent == 0)
        magnitude = (float)fraction * 0x1p-24f;
    return bits & 0x8000 ? -magnitude : magnitude;
}

/* The 16-bit number nearest to `value`, ties to even: `digits` bits of
 * significand, exponents down to `lowest` (of the last place), sign on top. */
static uint16_t narrow(double value, int digits, int lowest, uint16_t infinity)
{
    uint64_t all;
    memcpy(&all, &value, sizeof all);
    const uint16_t sign = (uint16_t)(all >> 48 & 0x8000);
    const int exponent = (int)(all >> 52 & 0x7FF) - 1023; /* of the first digit */
    if (isnan(value))
        return (uint16_t)(sign | infinity | 1u << (digits - 2));
    if (exponent > 127)
        return sign | infinity;
    const int place = exponent + 1 - digits > lowest ? exponent + 1 - digits : lowest;
    const int lost = place - exponent + 52; /* digits of the significand */
    if (lost > 54)                          /* less than half of the least number */
        return sign;
    const uint64_t significand = (all & ((1ull << 52) - 1)) | 1ull << 52;
    const uint64_t rest = significand & ((1ull << lost) - 1), half = 1ull << (lost - 1);
    uint64_t units = significand >> lost;
    units += rest > half || (rest == half && units & 1);
    units += (uint64_t)(place - lowest) << (digits - 1); /* a carry runs into the exponent */
    return (uint16_t)(sign | (units < infinity ? units : infinity));
}

float nk_to_float(const void *p, size_t i, nk_dtype dtype)
{
    if (dtype == NK_F32)
        return ((const float *)p)[i];
    const uint16_t bits = ((const uint16_t *)p)[i];
    return dtype == NK_BF16 ? bf16_to_float(bits) : f16_to_float(bits);
}

void nk_from_double(void *p, size_t i, nk_dtype dtype, double value)
{
    if (dtype == NK_F32)
        ((float *)p)[i] = (float)value;
    else if (dtype == NK_BF16)
        ((uint16_t *)p)[i] = narrow(value, 8, -133, 0x7F80);
    else
        ((uint16_t *)p)[i] = narrow(value, 11, -24, 0x7C00);
}

void nk_from_float(void *p, size_t i, nk_dtype dtype, float value)
{
    nk_from_double(p, i, dtype, value);
}
