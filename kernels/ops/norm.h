/* SPDX-License-Identifier: Apache-2.0 */
/* The norms of rows, plain and fused with the residual addition before them:
 *
 *   h = x | x + residual | alpha * x + residual     (rounded to the dtype)
 *   y = (h - mean) * rstd * (gamma + gamma_offset) + beta
 *
 * Each row is read twice: for its statistics, then to apply them. What makes
 * this fast is the order in which rows and columns are walked (plan.h); what
 * makes it right for every finite row is the shift (layer_statistics) and the
 * slow path (slow.h). An op's file names the form and includes this one. */
#include "../slow.h"
#include "plan.h"
#include <math.h>

enum norm { NORM_RMS, NORM_LAYER, NORM_LAYER_TWO_PASS };
enum source { SOURCE_X, SOURCE_ADD, SOURCE_SCALED_ADD };

/* A form of the norm: constants, for which the compiler makes code apiece. */
typedef struct form {
    enum norm norm;
    enum source source;
    nk_dtype dtype, params;
    bool stream; /* write past the caches, and compute h again rather than keep it */
} form;

/* One row of each operand. h is where h is kept between the two readings: the
 * caller's h, or y where h is not wanted. */
typedef struct row {
    const void *x, *residual;
    void *h, *y;
    bool h_wanted;
} row;

/* What the first reading leaves for the second: xhat = (h - shift) * scale +
 * offset. Shift and offset stay apart, because the mean rounded to f32 would
 * cost a row of large mean its digits. */
typedef struct statistics {
    float shift, scale, offset;
    double mean, rstd;
    bool kept; /* h must be read back, though the form streams */
    bool done; /* y is written already: a row for the slow path */
} statistics;

NK_INLINE row row_at(const nk_args *a, size_t r, form f)
{
    const size_t bytes = f.dtype == NK_F32 ? 4 : 2;
    row w = {.x = (const char *)a->x + r * a->x_ld * bytes,
             .y = (char *)a->y + r * a->y_ld * bytes,
             .h_wanted = a->h != NULL};
    if (f.source != SOURCE_X) {
        w.residual = (const char *)a->residual + r * a->residual_ld * bytes;
        w.h = a->h ? (char *)a->h + r * a->h_ld * bytes : w.y;
    }
    return w;
}

/* n elements from i on; a whole vec where n is vec_lanes(). */
NK_INLINE vec load(const void *p, size_t i, size_t n, nk_dtype dtype)
{
    return n == vec_lanes() ? vec_load(p, i, dtype) : vec_load_n(p, i, n, dtype);
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

NK_INLINE vec source_at(const row *w, size_t i, size_t n, vec alpha, form f)
{
    const vec x = load(w->x, i, n, f.dtype);
    if (f.source == SOURCE_X)
        return x;
    const vec residual = load(w->residual, i, n, f.dtype);
    const vec h = f.source == SOURCE_ADD ? vec_add(x, residual) : vec_fma_once(alpha, x, residual);
    return vec_round(h, f.dtype);
}

/* h in the first reading, kept for the second unless that computes it again. */
NK_INLINE vec first_reading(const row *w, size_t i, size_t n, vec alpha, form f)
{
    const vec h = source_at(w, i, n, alpha, f);
    if (f.source != SOURCE_X && !f.stream)
        store(w->h, i, n, h, f.dtype, false);
    return h;
}

/* ---- Statistics ----------------------------------------------------------
 * f32 chains of at most CHAIN additions, added up in float64. */
enum { CHAIN = 32 };

NK_INLINE double square_sum(const row *w, size_t count, float alpha, form f)
{
    const size_t lanes = vec_lanes(), chunk = 4 * lanes * CHAIN;
    const vec va = vec_set1(alpha);
    double total = 0;
    for (size_t start = 0; start < count; start += chunk) {
        const size_t end = count - start < chunk ? count : start + chunk;
        vec q0 = vec_zero(), q1 = vec_zero(), q2 = vec_zero(), q3 = vec_zero();
        size_t i = start;
        for (; i + 4 * lanes <= end; i += 4 * lanes) {
            const vec h0 = first_reading(w, i, lanes, va, f);
            const vec h1 = first_reading(w, i + lanes, lanes, va, f);
            const vec h2 = first_reading(w, i + 2 * lanes, lanes, va, f);
            const vec h3 = first_reading(w, i + 3 * lanes, lanes, va, f);
            q0 = vec_fma(h0, h0, q0);
            q1 = vec_fma(h1, h1, q1);
            q2 = vec_fma(h2, h2, q2);
            q3 = vec_fma(h3, h3, q3);
        }
        for (; i + lanes <= end; i += lanes) {
            const vec h = first_reading(w, i, lanes, va, f);
            q0 = vec_fma(h, h, q0);
        }
        if (i < end) {
            const vec h = first_reading(w, i, end - i, va, f);
            q1 = vec_fma(h, h, q1);
        }
        total += (double)vec_sum(vec_add(vec_add(q0, q1), vec_add(q2, q3)));
    }
    return total;
}

/* Sums of h - shift and of its squares. */
typedef struct moments {
    double sum, squares;
} moments;

NK_INLINE moments moments_of(const row *w, size_t count, float alpha, form f)
{
    const size_t lanes = vec_lanes(), chunk = 2 * lanes * CHAIN;
    const vec va = vec_set1(alpha);
    moments total = {0, 0};
    for (size_t start = 0; start < count; start += chunk) {
        const size_t end = count - start < chunk ? count : start + chunk;
        vec s0 = vec_zero(), s1 = vec_zero(), q0 = vec_zero(), q1 = vec_zero();
        size_t i = start;
        for (; i + 2 * lanes <= end; i += 2 * lanes) {
            const vec h0 = first_reading(w, i, lanes, va, f);
            const vec h1 = first_reading(w, i + lanes, lanes, va, f);
            s0 = vec_add(s0, h0);
            s1 = vec_add(s1, h1);
            q0 = vec_fma(h0, h0, q0);
            q1 = vec_fma(h1, h1, q1);
        }
        if (i + lanes <= end) {
            const vec h = first_reading(w, i, lanes, va, f);
            s0 = vec_add(s0, h);
            q0 = vec_fma(h, h, q0);
            i += lanes;
        }
        if (i < end) {
            const vec h = first_reading(w, i, end - i, va, f);
            s1 = vec_add(s1, h);
            q1 = vec_fma(h, h, q1);
        }
        total.sum += (double)vec_sum(vec_add(s0, s1));
        total.squares += (double)vec_sum(vec_add(q0, q1));
    }
    return total;
}

/* The same about a shift, of a row as it stands in memory. */
NK_INLINE moments moments_about(const void *h, size_t count, float shift, nk_dtype dtype)
{
    const size_t lanes = vec_lanes(), chunk = lanes * CHAIN;
    const vec vs = vec_set1(shift);
    moments total = {0, 0};
    size_t i = 0;
    while (i + lanes <= count) {
        const size_t end = count - i < chunk ? count : i + chunk;
        vec s = vec_zero(), q = vec_zero();
        for (; i + lanes <= end; i += lanes) {
            const vec t = vec_sub(vec_load(h, i, dtype), vs);
            s = vec_add(s, t);
            q = vec_fma(t, t, q);
        }
        total.sum += (double)vec_sum(s);
        total.squares += (double)vec_sum(q);
    }
    for (; i < count; i++) {
        const float t = nk_to_float(h, i, dtype) - shift;
        total.sum += (double)t;
        total.squares += (double)t * (double)t;
    }
    return total;
}

/* From a mean square or variance; false if the f32 sums behind it may have
 * overflowed or lost squares that count, or if they are NaN. */
NK_INLINE bool settle(statistics *s, double square, const nk_args *a)
{
    const double eps = (double)a->eps;
    const double root = a->flags & NK_EPS_OUTSIDE ? sqrt(square) + eps : sqrt(square + eps);
    s->rstd = 1 / root;
    s->scale = (float)s->rstd;
    return root >= 0x1p-50 && root <= 0x1p60;
}

enum verdict { SETTLED, FAR_MEAN, OUT_OF_RANGE };

/* From sums about a shift. If the mean lies further than sqrt(10) standard
 * deviations from it, cancellation would cost more than the promise of 8 u. */
NK_INLINE enum verdict settle_layer(statistics *s, moments m, float shift, const nk_args *a)
{
    const double n = (double)a->hidden, delta = m.sum / n;
    double var = m.squares / n - delta * delta;
    if (delta * delta > 10 * var)
        return FAR_MEAN;
    if (a->flags & NK_UNBIASED)
        var = a->hidden > 1 ? var * n / (n - 1) : 0;
    if (!settle(s, var, a))
        return OUT_OF_RANGE;
    s->shift = shift;
    s->offset = (float)(-delta * s->rstd);
    s->mean = (double)shift + delta;
    return SETTLED;
}

static __attribute__((noinline)) moments moments_about_shift(const void *h, size_t count,
                                                             float shift, nk_dtype dtype)
{
    switch (dtype) {
    case NK_F32:
        return moments_about(h, count, shift, NK_F32);
    case NK_BF16:
        return moments_about(h, count, shift, NK_BF16);
    default:
        return moments_about(h, count, shift, NK_F16);
    }
}

/* A row whose mean is far from 0: about its first element, which makes a
 * constant row exactly 0; if that is an outlier, about the mean. */
static __attribute__((noinline)) bool settle_far_mean(statistics *s, moments m, const void *h,
                                                      const nk_args *a, nk_dtype dtype)
{
    float shift = nk_to_float(h, 0, dtype);
    m = moments_about_shift(h, a->hidden, shift, dtype);
    enum verdict verdict = settle_layer(s, m, shift, a);
    if (verdict == FAR_MEAN) {
        shift = (float)((double)shift + m.sum / (double)a->hidden);
        m = moments_about_shift(h, a->hidden, shift, dtype);
        verdict = settle_layer(s, m, shift, a);
    }
    return verdict == SETTLED;
}

/* Rows that float64 must do, from first to last; h is in memory. */
static __attribute__((noinline)) void slow_row(statistics *s, const row *w, const void *h,
                                               size_t count, const nk_args *a, bool layer,
                                               nk_dtype dtype)
{
    const nk_slow slow =
        layer ? nk_slow_layer(h, count, dtype, a) : nk_slow_rms(h, count, dtype, a);
    nk_slow_apply(w->y, NULL, h, a->gamma, a->beta, slow, dtype, a);
    s->mean = slow.mean;
    s->rstd = slow.rstd;
    s->done = true;
}

/* The naive algorithm of textbooks: the mean, then the squares about it. */
NK_INLINE bool settle_two_pass(statistics *s, const row *w, const void *h, const nk_args *a, form f)
{
    const float mean = (float)(moments_of(w, a->hidden, a->alpha, f).sum / (double)a->hidden);
    const double squares = moments_about(h, a->hidden, mean, f.dtype).squares;
    const size_t degrees = a->flags & NK_UNBIASED && a->hidden > 1 ? a->hidden - 1 : a->hidden;
    s->shift = mean;
    s->mean = (double)mean;
    return settle(s, squares / (double)degrees, a);
}

/* Puts h where the second reading finds it, in the form that streams. */
NK_INLINE void keep_h(const row *w, const nk_args *a, form f)
{
    const size_t lanes = vec_lanes();
    const vec alpha = vec_set1(a->alpha);
    f.stream = false;
    for (size_t i = 0; i < a->hidden; i += lanes)
        first_reading(w, i, a->hidden - i < lanes ? a->hidden - i : lanes, alpha, f);
}

NK_INLINE statistics read_row(const row *w, const nk_args *a, form f)
{
    statistics s = {0};
    const void *h = f.source == SOURCE_X ? w->x : w->h;
    const size_t count = a->fraction > 0 ? nk_partial_count(a->fraction, a->hidden) : a->hidden;
    enum verdict verdict;
    moments m = {0, 0};
    if (f.norm == NORM_RMS) {
        const double mean_square = square_sum(w, count, a->alpha, f) / (double)count;
        verdict = settle(&s, mean_square, a) ? SETTLED : OUT_OF_RANGE;
    } else if (f.norm == NORM_LAYER) {
        m = moments_of(w, a->hidden, a->alpha, f);
        verdict = settle_layer(&s, m, 0, a);
    } else {
        verdict = settle_two_pass(&s, w, h, a, f) ? SETTLED : OUT_OF_RANGE;
    }
    if (__builtin_expect(verdict == SETTLED, 1))
        return s;
    if (f.source != SOURCE_X && f.stream)
        keep_h(w, a, f);
    s.kept = true;
    if (verdict == OUT_OF_RANGE || !settle_far_mean(&s, m, h, a, f.dtype))
        slow_row(&s, w, h, count, a, f.norm != NORM_RMS, f.dtype);
    return s;
}

/* ---- The second reading -------------------------------------------------- */

enum gamma { GAMMA_ABSENT, GAMMA_PLAIN, GAMMA_OFFSET };

NK_INLINE vec load_param(const void *p, size_t i, size_t n, form f)
{
    return n == vec_lanes() ? vec_load_as(p, i, f.params, f.dtype)
                            : vec_load_as_n(p, i, n, f.params, f.dtype);
}

typedef struct constants {
    vec shift, scale, offset, alpha, gamma_offset;
} constants;

NK_INLINE void apply_vec(const row *w, size_t i, size_t n, const constants *c, const nk_args *a,
                         form f, enum gamma gamma, bool beta)
{
    const bool again = f.stream && f.source != SOURCE_X;
    const vec h = again ? source_at(w, i, n, c->alpha, f)
                        : load(f.source == SOURCE_X ? w->x : w->h, i, n, f.dtype);
    if (again && w->h_wanted)
        store(w->h, i, n, h, f.dtype, true);
    const vec xhat = f.norm == NORM_RMS ? vec_mul(h, c->scale)
                                        : vec_fma(vec_sub(h, c->shift), c->scale, c->offset);
    vec weight = c->gamma_offset; /* 1 + gamma_offset where gamma is absent */
    if (gamma != GAMMA_ABSENT)
        weight = load_param(a->gamma, i, n, f);
    if (gamma == GAMMA_OFFSET)
        weight = vec_add(weight, c->gamma_offset);
    vec y = vec_mul(xhat, weight);
    if (f.norm != NORM_RMS)
        y = vec_fma(xhat, weight, beta ? load_param(a->beta, i, n, f) : vec_zero());
    store(w->y, i, n, y, f.dtype, f.stream);
}

NK_INLINE void apply_as(const row *w, size_t from, size_t to, const statistics *s, const nk_args *a,
                        form f, enum gamma gamma, bool beta)
{
    const size_t lanes = vec_lanes();
    const constants c = {vec_set1(s->shift), vec_set1(s->scale), vec_set1(s->offset),
                         vec_set1(a->alpha),
                         vec_set1(a->gamma_offset + (gamma == GAMMA_ABSENT ? 1 : 0))};
    size_t i = from;
    for (; i + lanes <= to; i += lanes)
        apply_vec(w, i, lanes, &c, a, f, gamma, beta);
    if (i < to)
        apply_vec(w, i, to - i, &c, a, f, gamma, beta);
}

NK_INLINE void apply_form(const row *w, size_t from, size_t to, const statistics *s,
                          const nk_args *a, form f)
{
    const bool beta = f.norm != NORM_RMS && a->beta;
    if (!a->gamma && !beta)
        apply_as(w, from, to, s, a, f, GAMMA_ABSENT, false);
    else if (!a->gamma)
        apply_as(w, from, to, s, a, f, GAMMA_ABSENT, true);
    else if (a->gamma_offset == 0 && !beta)
        apply_as(w, from, to, s, a, f, GAMMA_PLAIN, false);
    else if (a->gamma_offset == 0)
        apply_as(w, from, to, s, a, f, GAMMA_PLAIN, true);
    else if (!beta)
        apply_as(w, from, to, s, a, f, GAMMA_OFFSET, false);
    else
        apply_as(w, from, to, s, a, f, GAMMA_OFFSET, true);
}

NK_INLINE void apply(const row *w, size_t from, size_t to, const statistics *s, const nk_args *a,
                     form f)
{
    if (s->done)
        return;
    if (f.stream && f.source != SOURCE_X && s->kept)
        f.stream = false;
    if (f.stream)
        apply_form(w, from, to, s, a, f);
    else
        apply_form(w, from, to, s, a, f);
}

/* ---- All rows ------------------------------------------------------------- */

NK_INLINE void norm_block(const nk_args *a, size_t first, size_t count, size_t tile, bool backwards,
                          form f)
{
    statistics s[PLAN_ROWS];
    for (size_t r = 0; r < count; r++) {
        const row w = row_at(a, first + r, f);
        s[r] = read_row(&w, a, f);
        if (a->mean)
            a->mean[first + r] = (float)s[r].mean;
        if (a->rstd)
            a->rstd[first + r] = (float)s[r].rstd;
    }
    const size_t tiles = (a->hidden + tile - 1) / tile;
    for (size_t t = 0; t < tiles; t++) {
        const size_t from = (backwards ? tiles - 1 - t : t) * tile;
        const size_t to = a->hidden - from < tile ? a->hidden : from + tile;
        for (size_t r = 0; r < count; r++) {
            const row w = row_at(a, first + r, f);
            apply(&w, from, to, &s[r], a, f);
        }
    }
}

NK_INLINE void norm_rows(const nk_args *a, form f)
{
    const plan p = plan_rows(a, f.dtype, f.source == SOURCE_X ? 2 : a->h ? 4 : 3);
    for (size_t first = 0; first < a->rows; first += p.rows) {
        const size_t count = a->rows - first < p.rows ? a->rows - first : p.rows;
        norm_block(a, first, count, p.tile, p.backwards, f);
    }
    if (f.stream)
        vec_fence();
}

/* Picks the code for this call's dtypes and store mode. */
NK_INLINE void norm_typed(const nk_args *a, form f)
{
    f.stream = true;
    if (a->store == NK_STORE_STREAM) {
        norm_rows(a, f);
        return;
    }
    f.stream = false;
    norm_rows(a, f);
}

NK_INLINE void norm(const nk_args *a, nk_dtype dtype, enum norm kind, enum source source)
{
    form f = {kind, source, dtype, dtype, false};
    if (dtype != NK_F32 && a->flags & NK_PARAMS_F32) {
        f.params = NK_F32;
        norm_typed(a, f);
        return;
    }
    norm_typed(a, f);
}
