/* SPDX-License-Identifier: Apache-2.0 */
/* Problems: an op's inputs, and what is right by the oracle. And the numbers
 * that they are made of. Nothing here knows an op by name. */
#ifndef NORMBENCH_TESTS_PROBLEM_H
#define NORMBENCH_TESTS_PROBLEM_H

#include "reference.h"

typedef struct problem {
    int op;
    nk_dtype dtype;
    size_t rows, hidden;
    float eps, alpha, gamma_offset, fraction;
    uint32_t flags;
    uint32_t present;               /* operands given, a mask */
    unsigned char *in[NK_OPERANDS]; /* dense; NULL where it is no input of the op */
    nk_expected expected[NK_OPERANDS];
} problem;

/* N(0,1) rows, gamma about 1, beta about 0, every operand given. */
problem *problem_new(int op, nk_dtype dtype, size_t rows, size_t hidden);
void problem_free(problem *p);
/* Sets what is right from the operands as they now are. */
void problem_expect(problem *p);

bool problem_takes(const problem *p, int operand);
bool problem_gives(const problem *p, int operand); /* an output that is wanted */
float problem_get(const problem *p, int operand, size_t i);
void problem_set(problem *p, int operand, size_t i, float value);
/* After gamma and beta were changed to or from float. */
void problem_set_flags(problem *p, uint32_t flags);
/* The operand that rows of odd kinds go into: x, or residual where the op takes no x. */
int problem_main_input(const problem *p);
/* Backward: statistics as the forward pass would have written them. */
void problem_true_statistics(problem *p);
/* A choice of optional operands, flags and scalars that the op takes. */
void problem_vary(problem *p, uint64_t choice);

/* The arguments of a call, still without its operands. */
void problem_scalars(const problem *p, nk_args *args);
/* The dtype in which an operand is stored. */
nk_dtype problem_dtype(const problem *p, int operand);
/* Whether each row has its own part of this operand. */
bool operand_is_by_row(int operand);

/* ---- Numbers -------------------------------------------------------------- */

uint64_t mix(uint64_t a, uint64_t b); /* a hash */
float normal(uint64_t stream, size_t i);

/* A kind of row that ordinary tests never meet. */
typedef struct row_kind {
    const char *name;
    void (*fill)(float *v, size_t n, float a, float b, uint64_t seed);
    float a, b;
} row_kind;
extern const row_kind row_kinds[];
extern const size_t row_kind_count;

#endif
