/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle: every op in plain float64, as exact as the promise needs it.
 * Slow, simple, without vector code; it shares nothing with the kernels but
 * the argument struct. */
#ifndef NK_REFERENCE_H
#define NK_REFERENCE_H

#include "catalog.h"

/* One result of the oracle: what is right, and the scale that the promise
 * measures errors by (max(|y|, |gamma|, |beta|, 1) and so on; 0 where no error
 * is allowed: a copy, a sum h, and y in a row of zero variance). */
typedef struct nk_expected {
    double *value;
    double *scale;
} nk_expected;

/* Computes the outputs of `op` on the operands of args (whose own outputs are
 * neither read nor written; what is added to a gradient starts at 0). Only
 * those of expected[NK_OPERAND_...] with a value pointer are computed; each is
 * dense, [rows, hidden] or as its shape says. */
void nk_reference(int op, nk_dtype dtype, const nk_args *args, nk_expected expected[NK_OPERANDS]);

/* The error of `got` in units u = 2^-23 of the promise's scale: 0 when right
 * (NaN for NaN and equal infinities are right), infinite when only one is NaN
 * or only `expected` infinite. For 16-bit results the half unit that rounding
 * to the dtype may cost is taken off first, and a bf16 zero stands for whatever
 * is under the smallest normal. An infinite result stands for the numbers that
 * round to it. Not above 8 is the promise. */
double nk_error(double got, double expected, double scale, nk_dtype dtype);

/* The error that an algorithm may have: 8 for `default`, 64 backward. Others may
 * have 64 on ordinary rows; rows of a few elements are no ordinary ones to these, for their
 * mean may be many standard deviations away from 0. */
double nk_error_bound(int op, const char *algorithm, size_t hidden);

#endif
