/* SPDX-License-Identifier: Apache-2.0 */
/* DyT, elementwise, over whatever tanh the op's file names by DYT_TANH. */
#include "form.h"

NK_INLINE void dyt_vec(const char *x, char *y, const nk_args *a, size_t i, size_t n, form f,
                       enum gamma kind, bool beta)
{
    const vec t = DYT_TANH(vec_mul(load(x, i, n, f.dtype), vec_set1(a->alpha)), f.dtype);
    const vec gamma = gamma_at(a->gamma, i, n, vec_set1(1), f, kind);
    const vec sum = vec_fma(t, gamma, beta ? load_param(a->beta, i, n, f) : vec_zero());
    store(y, i, n, sum, f.dtype, f.stream);
}

NK_INLINE void dyt_rows(const nk_args *a, form f, enum gamma kind, bool beta)
{
    const size_t lanes = vec_lanes(), bytes = bytes_of(f.dtype);
    for (size_t r = 0; r < a->rows; r++) {
        const char *x = (const char *)a->x + r * a->x_ld * bytes;
        char *y = (char *)a->y + r * a->y_ld * bytes;
        size_t i = 0;
        for (; i + lanes <= a->hidden; i += lanes)
            dyt_vec(x, y, a, i, lanes, f, kind, beta);
        if (i < a->hidden)
            dyt_vec(x, y, a, i, rest(a->hidden - i), f, kind, beta);
    }
}

NK_INLINE void dyt(const nk_args *a, form f)
{
    if (a->gamma && a->beta)
        dyt_rows(a, f, GAMMA_PLAIN, true);
    else if (a->gamma)
        dyt_rows(a, f, GAMMA_PLAIN, false);
    else
        dyt_rows(a, f, GAMMA_ABSENT, a->beta != NULL);
}

#define NK_FORM(name, dtype, params, stream)                                                       \
    static void dyt_##name(const nk_args *a)                                                       \
    {                                                                                              \
        dyt(a, (form){dtype, params, stream});                                                     \
    }
#include "form.def"

static void run(const nk_args *a, nk_dtype dtype)
{
    static void (*const codes[NK_DTYPES][2][2])(const nk_args *) = {
#define NK_FORM(name, dtype, params, stream) [dtype][params == NK_F32][stream] = dyt_##name,
#include "form.def"
    };
    const bool params_f32 = dtype == NK_F32 || a->flags & NK_PARAMS_F32;
    codes[dtype][params_f32][a->store == NK_STORE_STREAM](a);
    if (a->store == NK_STORE_STREAM)
        vec_fence();
}
