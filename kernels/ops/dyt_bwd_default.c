/* SPDX-License-Identifier: Apache-2.0 */
/* The gradients of DyT, with t = tanh(alpha * x) and slope = 1 - t^2:
 *   dx = dy * gamma * alpha * slope;  dalpha += dy * gamma * x * slope;
 *   dgamma += dy * t;  dbeta += dy */
#include "sums.h"

enum { BACK_ROWS = 8 };

typedef struct totals {
    column_sum dgamma, dbeta;
    double dalpha;
} totals;

/* Columns i .. i + n of all rows of a block, so that sums stay in registers. */
NK_INLINE void back_columns(const nk_args *a, size_t row, size_t rows, size_t i, size_t n,
                            totals *to, form f)
{
    const size_t bytes = bytes_of(f.dtype);
    const vec one = vec_set1(1), alpha = vec_set1(a->alpha);
    const vec gamma = a->gamma ? load_param(a->gamma, i, n, f) : one;
    vec dgamma = vec_zero(), dbeta = vec_zero(), dalpha = vec_zero();
    for (size_t r = row; r < row + rows; r++) {
        const vec x = load((const char *)a->x + r * a->x_ld * bytes, i, n, f.dtype);
        const vec dy = load((const char *)a->dy + r * a->dy_ld * bytes, i, n, f.dtype);
        const vec t = tanh_for(vec_mul(x, alpha), f.dtype), w = vec_mul(dy, gamma);
        const vec slope = vec_sub(one, vec_mul(t, t));
        dgamma = vec_fma(dy, t, dgamma);
        dbeta = vec_add(dbeta, dy);
        dalpha = vec_fma(w, vec_mul(x, slope), dalpha);
        if (a->dx)
            store((char *)a->dx + r * a->dx_ld * bytes, i, n, vec_mul(w, vec_mul(alpha, slope)),
                  f.dtype, f.stream);
    }
    column_sum_add(&to->dgamma, i, n, dgamma, f.dtype);
    column_sum_add(&to->dbeta, i, n, dbeta, f.dtype);
    to->dalpha += (double)vec_sum(dalpha);
}

NK_INLINE void back(const nk_args *a, form f)
{
    const size_t lanes = vec_lanes();
    totals to;
    to.dalpha = 0;
    column_sum_start(&to.dgamma, a->dgamma, a->hidden);
    column_sum_start(&to.dbeta, a->dbeta, a->hidden);
    for (size_t row = 0; row < a->rows; row += BACK_ROWS) {
        const size_t rows = a->rows - row < BACK_ROWS ? a->rows - row : BACK_ROWS;
        size_t i = 0;
        for (; i + lanes <= a->hidden; i += lanes)
            back_columns(a, row, rows, i, lanes, &to, f);
        if (i < a->hidden)
            back_columns(a, row, rows, i, rest(a->hidden - i), &to, f);
    }
    if (a->dalpha)
        *a->dalpha += (float)to.dalpha;
}

#define NK_FORM(name, dtype, params, stream)                                                       \
    static void back_##name(const nk_args *a)                                                      \
    {                                                                                              \
        back(a, (form){dtype, params, stream});                                                    \
    }
#include "form.def"

static void run(const nk_args *a, nk_dtype dtype)
{
    static void (*const codes[NK_DTYPES][2][2])(const nk_args *) = {
#define NK_FORM(name, dtype, params, stream) [dtype][params == NK_F32][stream] = back_##name,
#include "form.def"
    };
    const bool params_f32 = dtype == NK_F32 || a->flags & NK_PARAMS_F32;
    codes[dtype][params_f32][a->store == NK_STORE_STREAM](a);
    if (a->store == NK_STORE_STREAM)
        vec_fence();
}
