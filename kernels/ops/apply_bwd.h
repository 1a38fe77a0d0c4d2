/* SPDX-License-Identifier: Apache-2.0 */
/* The second reading: gradients of a block of rows, column by column, and the sums over rows. */
#include "statistics_bwd.h"
#include "sums.h"

typedef struct totals {
    column_sum first, second; /* dgamma; dbeta or dgamma2 */
    double dalpha;
} totals;

/* Ones for the elements that are in the mean square, zeros behind. */
NK_INLINE vec partial_ones(size_t i, size_t count, nk_dtype dtype)
{
    enum { MOST_LANES = 128 };
    static const float one[1] = {1};
    float ones[MOST_LANES];
    const vec all = vec_set1(*one);
    vec_store(ones, 0, all, NK_F32);
    if (i + vec_lanes() <= count)
        return all;
    return i < count ? vec_load_as_n(ones, 0, count - i, NK_F32, dtype) : vec_zero();
}

NK_INLINE void put_row(char *to, size_t i, size_t n, vec v, form f)
{
    if (to)
        store(to, i, n, v, f.dtype, f.stream);
}

/* The same for dx and dresidual: where both are wanted the compiler sees that it is rounded
 * once, which it does not across two conditions. */
NK_INLINE void put_both(const back_row *w, size_t i, size_t n, vec v, form f)
{
    if (!w->dx || !w->dresidual) {
        put_row(w->dx, i, n, v, f);
        put_row(w->dresidual, i, n, v, f);
        return;
    }
    store(w->dx, i, n, v, f.dtype, f.stream);
    store(w->dresidual, i, n, v, f.dtype, f.stream);
}

NK_INLINE vec own_result(const back_row *w, vec weighted, vec xhat, vec ones)
{
    if (OP_NORM == NORM_PARTIAL_RMS)
        xhat = vec_mul(xhat, ones);
    return through(&w->norm, weighted, xhat);
}

/* Columns i .. i + n of all rows: what they share, and their sums. */
typedef struct column {
    vec gamma, outer_gamma;
    vec ones; /* NORM_PARTIAL_RMS: which of them are in the mean square */
    vec first, second, dalpha;
} column;

NK_INLINE column column_at(size_t i, size_t n, const columns *k, const nk_args *a, form f)
{
    column c = {.first = vec_zero(), .second = vec_zero(), .dalpha = vec_zero()};
    c.gamma = gamma_at(k->gamma, i, n, k->offset, f, k->kind);
    if (has_outer)
        c.outer_gamma = gamma_at(k->outer_gamma, i, n, k->outer_offset, f, k->outer_kind);
    else
        c.outer_gamma = c.gamma;
    if (OP_NORM == NORM_PARTIAL_RMS)
        c.ones = partial_ones(i, nk_partial_count(a->fraction, a->hidden), f.dtype);
    else
        c.ones = c.gamma;
    return c;
}

/* One row's part of it. Its inputs are read before its outputs are written: they may be
 * the same. */
NK_INLINE void back_visit(column *c, const back_row *w, size_t i, size_t n, const columns *k,
                          const nk_args *a, form f)
{
    for (size_t o = 0; f.stream && n == vec_lanes() && o < BACK_INPUTS; o++)
        fetch_next(w->next[o], i, f.dtype);
    const vec v = summed(w, i, n, k, f), xhat = normalised(&w->norm, v);
    const back b = back_at(w, i, n, c->outer_gamma, f);
    vec result = own_result(w, vec_mul(b.d, c->gamma), xhat, c->ones);
    c->first = vec_fma(b.d, xhat, c->first);
    if (has_outer)
        c->second = vec_fma(b.dy, b.outer_xhat, c->second);
    else if (is_layer)
        c->second = vec_add(c->second, b.d);
    if (OP_GRADIENT == GRADIENT_DY && OP_JOIN != JOIN_X && w->dh)
        result = vec_add(result, load(w->dh, i, n, f.dtype));
    if (OP_JOIN == JOIN_SCALED && a->dalpha)
        c->dalpha = vec_fma(load(w->v, i, n, f.dtype), result, c->dalpha);
    if (OP_JOIN == JOIN_ADD) {
        put_both(w, i, n, result, f);
        return;
    }
    if (OP_JOIN == JOIN_SANDWICH)
        put_row(w->dx, i, n, b.d, f);
    else
        put_row(w->dx, i, n, OP_JOIN == JOIN_SCALED ? vec_mul(k->alpha, result) : result, f);
    if (OP_JOIN != JOIN_X)
        put_row(w->dresidual, i, n, result, f);
}

NK_INLINE void add_column(totals *to, size_t i, size_t n, const column *c, const nk_args *a, form f)
{
    column_sum_add(&to->first, i, n, c->first, f.dtype);
    if (is_layer || has_outer)
        column_sum_add(&to->second, i, n, c->second, f.dtype);
    if (OP_JOIN == JOIN_SCALED && a->dalpha)
        to->dalpha += (double)vec_sum(c->dalpha);
}

NK_INLINE void back_columns(const back_row *rows, size_t count, size_t i, size_t n,
                            const columns *k, const nk_args *a, totals *to, form f)
{
    column c = column_at(i, n, k, a, f);
    for (const back_row *w = rows; w < rows + count; w++)
        if (!w->done)
            back_visit(&c, w, i, n, k, a, f);
    add_column(to, i, n, &c, a, f);
}

/* Twice as many, which share the loads of a row's coefficients and addresses. */
NK_INLINE void back_two_columns(const back_row *rows, size_t count, size_t i, const columns *k,
                                const nk_args *a, totals *to, form f)
{
    const size_t n = vec_lanes();
    column c0 = column_at(i, n, k, a, f), c1 = column_at(i + n, n, k, a, f);
    for (const back_row *given = rows; given < rows + count; given++) {
        const back_row w = *given; /* which stores cannot change */
        if (w.done)
            continue;
        back_visit(&c0, &w, i, n, k, a, f);
        back_visit(&c1, &w, i + n, n, k, a, f);
    }
    add_column(to, i, n, &c0, a, f);
    add_column(to, i + n, n, &c1, a, f);
}

NK_INLINE void back_block(const back_row *rows, size_t count, const nk_args *a, totals *to, form f)
{
    const size_t lanes = vec_lanes();
    const columns k = columns_of(a);
    /* a streamed line is written at once, or it goes to memory in pieces */
    const bool two = VEC_TWO_COLUMNS(f.dtype) && (!f.stream || lanes * bytes_of(f.dtype) < LINE);
    size_t i = 0;
    for (; two && i + 2 * lanes <= a->hidden; i += 2 * lanes)
        back_two_columns(rows, count, i, &k, a, to, f);
    for (; i + lanes <= a->hidden; i += lanes)
        back_columns(rows, count, i, lanes, &k, a, to, f);
    if (i < a->hidden)
        back_columns(rows, count, i, rest(a->hidden - i), &k, a, to, f);
}

#define NK_FORM(name, dtype, params, stream)                                                       \
    static void back_##name(const back_row *rows, size_t count, const nk_args *a, totals *to)      \
    {                                                                                              \
        back_block(rows, count, a, to, (form){dtype, params, stream});                             \
    }
#include "form.def"

static void (*const back_block_as[NK_DTYPES][2][2])(const back_row *rows, size_t count,
                                                    const nk_args *a, totals *to) = {
#define NK_FORM(name, dtype, params, stream) [dtype][params == NK_F32][stream] = back_##name,
#include "form.def"
};
