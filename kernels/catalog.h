/* SPDX-License-Identifier: Apache-2.0 */
/* The .def files as tables: what operands, dtypes, ISAs and kernels there are.
 * Shared by the library, the program and the tests. */
#ifndef NK_CATALOG_H
#define NK_CATALOG_H

#include "normkernels.h"
#include <stdbool.h>
#include <string.h>

enum nk_shape { NK_SHAPE_ROW, NK_SHAPE_COLUMN, NK_SHAPE_STATISTIC, NK_SHAPE_SUM, NK_SHAPE_NUMBER };
enum nk_direction { NK_DIRECTION_IN, NK_DIRECTION_OUT, NK_DIRECTION_ADD };

/* NK_OPERAND_X ... index nk_operands; NK_OPERANDS is their number. */
enum {
#define NK_OPERAND(name, CONSTANT, shape, direction) NK_OPERAND_##CONSTANT,
#include "operand.def"
    NK_OPERANDS
};

typedef struct nk_operand_info {
    const char *name;
    enum nk_shape shape;
    enum nk_direction direction;
    size_t offset;    /* of the pointer in nk_args */
    size_t ld_offset; /* of the stride in nk_args; 0 for other shapes than ROW */
} nk_operand_info;
extern const nk_operand_info nk_operands[NK_OPERANDS];

/* Options of an op, beside its operands. */
enum {
    NK_TAKES_EPS = 1,
    NK_TAKES_ALPHA = 2,
    NK_TAKES_OFFSET = 4,
    NK_TAKES_FRACTION = 8,
    NK_TAKES_UNBIASED = 16
};

enum {
#define NK_OP(op, required, optional, aliases, options, flops) NK_OP_##op,
#define NK_ALGORITHM(op, algorithm, flops)
#include "kernels.def"
    NK_OPS
};

typedef struct nk_op_info {
    const char *name;
    uint32_t required; /* masks of 1 << NK_OPERAND_... */
    uint32_t optional;
    uint32_t aliases;
    uint32_t options; /* NK_TAKES_... */
} nk_op_info;
extern const nk_op_info nk_ops[NK_OPS];

typedef struct nk_algorithm_info {
    int op; /* NK_OP_... */
    const char *name;
    int flops; /* an element, without gamma and beta */
} nk_algorithm_info;
extern const nk_algorithm_info nk_algorithms[];
extern const size_t nk_algorithm_count;

typedef struct nk_dtype_info {
    const char *name;
    size_t bytes;
    int digits; /* bits of the significand, the hidden one included */
} nk_dtype_info;
enum { NK_DTYPES = 3 };
extern const nk_dtype_info nk_dtypes[NK_DTYPES];

enum {
#define NK_ISA(name, takes) NK_ISA_##name,
#include "isa.def"
    NK_ISAS
};
typedef struct nk_isa_info {
    const char *name;
    const char *takes;
} nk_isa_info;
extern const nk_isa_info nk_isas[NK_ISAS];

/* Index of the entry of that name, -1 if there is none. */
int nk_op_index(const char *name);
int nk_dtype_index(const char *name);
int nk_isa_index(const char *name);
int nk_operand_index(const char *name);

/* Whether the op is a backward one (it requires dy or dh). */
bool nk_op_is_backward(int op);
/* What this operand is to this op: statistics are inputs of a backward op. */
enum nk_direction nk_operand_direction(int op, int operand);
/* Elements and bytes of one operand ([rows, hidden], without stride). */
size_t nk_operand_elements(int operand, size_t rows, size_t hidden);
size_t nk_operand_element_bytes(int operand, nk_dtype dtype, uint32_t flags);
/* The pointer and stride of an operand in the struct. */
static inline void *nk_operand_get(const nk_args *args, int operand)
{
    void *pointer;
    memcpy(&pointer, (const char *)args + nk_operands[operand].offset, sizeof pointer);
    return pointer;
}

static inline void nk_operand_set(nk_args *args, int operand, void *pointer)
{
    memcpy((char *)args + nk_operands[operand].offset, &pointer, sizeof pointer);
}

static inline size_t nk_operand_ld(const nk_args *args, int operand)
{
    size_t ld = 0;
    if (nk_operands[operand].ld_offset)
        memcpy(&ld, (const char *)args + nk_operands[operand].ld_offset, sizeof ld);
    return ld ? ld : args->hidden;
}

static inline void nk_operand_set_ld(nk_args *args, int operand, size_t ld)
{
    if (nk_operands[operand].ld_offset)
        memcpy((char *)args + nk_operands[operand].ld_offset, &ld, sizeof ld);
}

/* What a call must move and compute at the least, from its operands. */
size_t nk_call_bytes(int op, nk_dtype dtype, const nk_args *args);
double nk_call_flops(const nk_algorithm_info *algorithm, const nk_args *args);

/* Checks a caller's arguments for an op before anything is written, and fills
 * `out` with all of them: strides resolved, the store mode decided (cached where the ISA
 * has no stores that stream). */
nk_status nk_args_check(int op, nk_dtype dtype, bool isa_streams, const nk_args *args,
                        nk_args *out);

/* The default kernel for this CPU. */
nk_status nk_call(int op, nk_dtype dtype, const nk_args *args);

/* prmsnorm: ceil(fraction * hidden), the product as float gives it (0.1f of 10
 * is 1), at least 1. */
static inline size_t nk_partial_count(float fraction, size_t hidden)
{
    const float product = fraction * (float)hidden;
    size_t count = (size_t)product;
    count += (float)count < product;
    return count < 1 ? 1 : count > hidden ? hidden : count;
}

/* Numbers of 16-bit dtypes, exact, one rounding (to nearest, ties to even). */
float nk_to_float(const void *p, size_t i, nk_dtype dtype);
void nk_from_float(void *p, size_t i, nk_dtype dtype, float value);
void nk_from_double(void *p, size_t i, nk_dtype dtype, double value);

#endif
