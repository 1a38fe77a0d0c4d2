/* SPDX-License-Identifier: Apache-2.0 */
/* The residual addition by itself: h = x + residual (He et al. 2015). */

NK_INLINE void add_vec(const char *x, const char *residual, char *h, size_t i, size_t n,
                       nk_dtype dtype, bool stream)
{
    if (n < vec_lanes()) {
        const vec sum = vec_add(vec_load_n(x, i, n, dtype), vec_load_n(residual, i, n, dtype));
        vec_store_n(h, i, n, sum, dtype);
        return;
    }
    const vec sum = vec_add(vec_load(x, i, dtype), vec_load(residual, i, dtype));
    if (stream)
        vec_stream(h, i, sum, dtype);
    else
        vec_store(h, i, sum, dtype);
}

NK_INLINE void add_rows(const nk_args *a, nk_dtype dtype, bool stream)
{
    const size_t lanes = vec_lanes(), bytes = dtype == NK_F32 ? 4 : 2;
    for (size_t r = 0; r < a->rows; r++) {
        const char *x = (const char *)a->x + r * a->x_ld * bytes;
        const char *residual = (const char *)a->residual + r * a->residual_ld * bytes;
        char *h = (char *)a->h + r * a->h_ld * bytes;
        size_t i = 0;
        for (; i + lanes <= a->hidden; i += lanes)
            add_vec(x, residual, h, i, lanes, dtype, stream);
        if (i < a->hidden)
            add_vec(x, residual, h, i, a->hidden - i, dtype, stream);
    }
    if (stream)
        vec_fence();
}

NK_INLINE void run(const nk_args *a, nk_dtype dtype)
{
    if (a->store == NK_STORE_STREAM)
        add_rows(a, dtype, true);
    else
        add_rows(a, dtype, false);
}
