/* SPDX-License-Identifier: Apache-2.0 */
/* How operands are read and written in each form of a call. */
#ifndef NK_FORM_H
#define NK_FORM_H

/* What the compiler makes code apiece for. */
typedef struct form {
    nk_dtype dtype, params;
    bool stream; /* write past the caches, and compute h again rather than keep it */
} form;

/* form.params where gamma and beta are floats in the dtype's order, up to a whole vec. */
#define PARAMS_WIDE ((nk_dtype)NK_DTYPES)

/* Whether the first reading leaves h as such floats for the second. */
NK_INLINE bool leaves_floats(form f)
{
    return f.dtype == NK_F16 && f.params == PARAMS_WIDE;
}

/* As nk_dtypes has it, but known when compiling. */
NK_INLINE size_t bytes_of(nk_dtype dtype)
{
    return dtype == NK_F32 ? 4 : 2;
}

/* Of a row what whole vecs leave: the compiler is told that this is no whole one. */
NK_INLINE size_t rest(size_t n)
{
    if (n >= vec_lanes())
        __builtin_unreachable();
    return n;
}

/* n elements from i on; a whole vec where n is vec_lanes(). */
NK_INLINE vec load(const void *p, size_t i, size_t n, nk_dtype dtype)
{
    return n == vec_lanes() ? vec_load(p, i, dtype) : vec_load_n(p, i, n, dtype);
}

/* f32 or the dtype, in the dtype's order. */
NK_INLINE vec load_as(const void *p, size_t i, size_t n, form f)
{
    return n == vec_lanes() ? vec_load_as(p, i, f.params, f.dtype)
                            : vec_load_as_n(p, i, n, f.params, f.dtype);
}

NK_INLINE vec load_param(const void *p, size_t i, size_t n, form f)
{
    if (f.params == PARAMS_WIDE)
        return vec_load(p, i, NK_F32);
    const vec v = load_as(p, i, n, f);
    return f.params == NK_F32 && f.dtype == NK_BF16 ? vec_cut_nan(v) : v;
}

NK_INLINE void store(void *p, size_t i, size_t n, vec v, nk_dtype dtype, bool stream)
{
    if (n != vec_lanes())
        vec_store_n(p, i, n, v, dtype);
    else if (stream)
        vec_stream(p, i, v, dtype);
    else
        vec_store(p, i, v, dtype);
}

/* SLEEF's, to be rounded to the dtype. */
NK_INLINE vec tanh_for(vec v, nk_dtype dtype)
{
    const vec t = vec_tanh(v);
    return dtype == NK_BF16 ? vec_cut_nan(t) : t;
}

enum { LINE = 64 };

/* Lines that are to be written soon, a few on: left to the stores each would be waited for. */
NK_INLINE void fetch_to_write(const void *p, size_t i, nk_dtype dtype)
{
    const size_t bytes = bytes_of(dtype);
    const char *from = (const char *)p + i * bytes + 4 * LINE;
    for (size_t at = 0; at < vec_lanes() * bytes; at += LINE)
        __builtin_prefetch(from + at, 1);
}

/* Lines that are read after these rows, into L2; NULL: none, or the hardware does better. */
NK_INLINE void fetch_next(const void *p, size_t i, nk_dtype dtype)
{
    const size_t bytes = bytes_of(dtype);
    for (size_t at = 0; p && at < vec_lanes() * bytes; at += LINE)
        __builtin_prefetch((const char *)p + i * bytes + at, 0, 2);
}

/* How gamma is had: the offset stands for it (1 more) where it is absent. */
enum gamma { GAMMA_ABSENT, GAMMA_PLAIN, GAMMA_OFFSET };

NK_INLINE enum gamma gamma_kind(const void *gamma, const nk_args *a)
{
    return !gamma ? GAMMA_ABSENT : a->gamma_offset == 0 ? GAMMA_PLAIN : GAMMA_OFFSET;
}

NK_INLINE vec gamma_at(const void *gamma, size_t i, size_t n, vec offset, form f, enum gamma kind)
{
    if (kind == GAMMA_ABSENT)
        return offset;
    const vec weight = load_param(gamma, i, n, f);
    return kind == GAMMA_OFFSET ? vec_add(weight, offset) : weight;
}

#endif
