/* SPDX-License-Identifier: Apache-2.0 */
/* The rows that f32 arithmetic cannot hold: squares that overflow or vanish,
 * a variance of zero, NaN and infinities. In float64, for every ISA the same. */
#ifndef NK_SLOW_H
#define NK_SLOW_H

#include "catalog.h"

/* A row is normalised as (value - mean) * rstd. */
typedef struct nk_slow {
    double mean, rstd;
} nk_slow;

/* Of the first `count` elements of a row; mean is 0 for RMSNorm. A row whose
 * normalised value must be NaN or 0 throughout gets statistics that yield it. */
nk_slow nk_slow_layer(const void *row, size_t count, nk_dtype dtype, const nk_args *args);
nk_slow nk_slow_rms(const void *row, size_t count, nk_dtype dtype, const nk_args *args);

/* to = normalised row * (gamma + gamma_offset) + beta, rounded once; with
 * `stream` given, to = stream + that, rounded again. */
void nk_slow_apply(void *to, const void *stream, const void *row, const void *gamma,
                   const void *beta, nk_slow statistics, nk_dtype dtype, const nk_args *args);

#endif
