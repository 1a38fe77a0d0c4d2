/* SPDX-License-Identifier: Apache-2.0 */
/* Backward, the rows that f32 arithmetic cannot hold (slow.h), and rows without
 * variance. In float64, for every ISA the same. */
#ifndef NK_SLOW_BWD_H
#define NK_SLOW_BWD_H

#include "catalog.h"

/* A sum over rows, and what float could not hold of it so far (or NULL). */
typedef struct nk_slow_sum {
    float *sum, *carry;
} nk_slow_sum;

/* One norm of a row. */
typedef struct nk_slow_norm {
    const void *row, *residual; /* what is normalised: row, or its sum with residual */
    bool scaled;                /* ... alpha * row + residual */
    bool layer;
    size_t count; /* elements of the mean square */
    const void *gamma;
    const float *mean, *rstd; /* given, or NULL */
    nk_slow_sum dgamma, dbeta;
} nk_slow_norm;

/* A row: the gradient `d` goes back through `outer`, if there is one, where dh
 * joins it, then through `norm`; without outer, dh joins behind. */
typedef struct nk_slow_row {
    nk_slow_norm norm;
    const nk_slow_norm *outer;
    const void *d, *dh;
    void *to;        /* what comes out; here as below, NULL where not wanted */
    void *scaled_to; /* factor times that */
    double factor;
    void *straight; /* what comes to `norm` */
    double *dalpha; /* the sum of row times what comes out is added */
} nk_slow_row;

void nk_slow_backward(const nk_slow_row *row, nk_dtype dtype, const nk_args *args);

#endif
