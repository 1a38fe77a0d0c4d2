/* SPDX-License-Identifier: Apache-2.0 */
/* y = x, and h = residual where both are given: the same rows, moved and
 * nothing more. The floor that the other kernels' times are held against. */

/* A row of any dtype moves as floats, whose bits no load or store touches. */
NK_INLINE void copy_row(const char *from, char *to, size_t bytes, bool stream)
{
    const size_t lanes = vec_lanes(), count = bytes / sizeof(float);
    size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        const vec v = vec_load(from, i, NK_F32);
        if (stream)
            vec_stream(to, i, v, NK_F32);
        else
            vec_store(to, i, v, NK_F32);
    }
    if (i < count)
        vec_store_n(to, i, count - i, vec_load_n(from, i, count - i, NK_F32), NK_F32);
    if (bytes % sizeof(float))
        memcpy(to + bytes - 2, from + bytes - 2, 2);
}

NK_INLINE void copy_rows(const nk_args *a, nk_dtype dtype, bool stream)
{
    const size_t element = dtype == NK_F32 ? 4 : 2, bytes = a->hidden * element;
    for (size_t r = 0; r < a->rows; r++) {
        copy_row((const char *)a->x + r * a->x_ld * element, (char *)a->y + r * a->y_ld * element,
                 bytes, stream);
        if (a->residual && a->h)
            copy_row((const char *)a->residual + r * a->residual_ld * element,
                     (char *)a->h + r * a->h_ld * element, bytes, stream);
    }
    if (stream)
        vec_fence();
}

NK_INLINE void run(const nk_args *a, nk_dtype dtype)
{
    if (a->store == NK_STORE_STREAM)
        copy_rows(a, dtype, true);
    else
        copy_rows(a, dtype, false);
}
