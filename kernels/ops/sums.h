/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over rows that are added to a caller's floats, dgamma and its like. No
 * workspace is there to hold them: what an addition rounds off is kept on the
 * stack until the next one (Kahan 1965), so that the error does not grow with
 * the rows. */
#ifndef NK_SUMS_H
#define NK_SUMS_H

#include "form.h"

/* Of columns beyond, the rounding is lost: at the worst half an ulp for each
 * block of rows. 64 KB of stack for two sums is as much as a thread can be
 * trusted to have. */
enum { SUM_COLUMNS = 8192 };

typedef struct column_sum {
    _Alignas(64) float carry[SUM_COLUMNS]; /* of whole cache lines */
    float *sum;                            /* the caller's; NULL: not wanted */
} column_sum;

NK_INLINE void column_sum_start(column_sum *to, float *sum, size_t hidden)
{
    to->sum = sum;
    if (sum)
        memset(to->carry, 0, (hidden < SUM_COLUMNS ? hidden : SUM_COLUMNS) * sizeof(float));
}

/* Adds n columns from i on, lanes in the order of the dtype. */
NK_INLINE void column_sum_add(column_sum *to, size_t i, size_t n, vec v, nk_dtype dtype)
{
    const form f32 = {dtype, NK_F32, false};
    const bool kept = i + n <= SUM_COLUMNS;
    if (!to->sum)
        return;
    if (kept)
        v = vec_add(v, load_as(to->carry, i, n, f32));
    const vec before = load_as(to->sum, i, n, f32), after = vec_add(before, v);
    const vec lost = vec_finite(vec_sub(v, vec_sub(after, before))); /* a sum may overflow */
    if (n != vec_lanes()) {
        vec_store_f32_n(to->sum, i, n, after, dtype);
        if (kept)
            vec_store_f32_n(to->carry, i, n, lost, dtype);
        return;
    }
    vec_store_f32(to->sum, i, after, dtype);
    if (kept)
        vec_store_f32(to->carry, i, lost, dtype);
}

#endif
