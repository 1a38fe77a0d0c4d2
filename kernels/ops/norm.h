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

/* What the compiler makes code apiece for. The op's file says which norm and
 * source by the constants OP_NORM and OP_SOURCE. */
typedef struct form {
    nk_dtype dtype, params;
    bool stream; /* write past the caches, and compute h again rather than keep it */
} form;

/* One row of each operand. h is where h is kept between the two readings: the
 * caller's h, or y where h is not wanted; for a plain norm it is x. */
typedef struct row {
    const char *x, *residual;
    char *h, *y;
} row;

/* Sums of h - shift and of its squares. */
typedef struct moments {
    double sum, squares;
} moments;

/* What the first reading leaves for the second: xhat = (h - shift) * scale +
 * offset. Shift and offset stay apart, because the mean rounded to f32 would
 * cost a row of large mean its digits. */
typedef struct statistics {
    moments moments;
    double mean, rstd;
    float shift, scale, offset;
    bool kept; /* h must be read back, though the form streams */
    bool done; /* y is written already: a row for the slow path */
} statistics;

static inline row row_at(const nk_args *a, size_t r, size_t bytes)
{
    row w = {.x = (const char *)a->x + r * a->x_ld * bytes,
             .y = (char *)a->y + r * a->y_ld * bytes};
    if (OP_SOURCE == SOURCE_X)
        return w;
    w.residual = (const char *)a->residual + r * a->residual_ld * bytes;
    w.h = a->h ? (char *)a->h + r * a->h_ld * bytes : w.y;
    return w;
}

/* The elements that the statistics are taken over. */
static inline size_t statistics_count(const nk_args *a)
{
    return a->fraction > 0 ? nk_partial_count(a->fraction, a->hidden) : a->hidden;
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

/* h as the op defines it, rounded to the dtype. */
NK_INLINE vec source_at(const row *w, size_t i, size_t n, vec alpha, form f)
{
    const vec x = load(w->x, i, n, f.dtype);
    if (OP_SOURCE == SOURCE_X)
        return x;
    const vec residual = load(w->residual, i, n, f.dtype);
    const vec h = OP_SOURCE == SOURCE_ADD ? vec_add(x, residual) : vec_fma_once(alpha, x, residual);
    return vec_round(h, f.dtype);
}

/* h in the first reading, kept for the second unless that computes it again. */
NK_INLINE vec first_reading(const row *w, size_t i, size_t n, vec alpha, form f)
{
    const vec h = source_at(w, i, n, alpha, f);
    if (OP_SOURCE != SOURCE_X && !f.stream)
        store(w->h, i, n, h, f.dtype, false);
    return h;
}

/* ---- The first reading: sums ---------------------------------------------
 * f32 chains of at most CHAIN additions, added up in float64. */
enum { CHAIN = 16 };

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

/* How a row is read for its moments: as the op's h, or as it stands at w->x
 * less a shift. */
enum reading { READ_H, READ_SHIFTED };

NK_INLINE vec read_vec(const row *w, size_t i, size_t n, vec alpha, vec shift, form f,
                       enum reading reading)
{
    return reading == READ_H ? first_reading(w, i, n, alpha, f)
                             : vec_sub(load(w->x, i, n, f.dtype), shift);
}

NK_INLINE moments moments_of(const row *w, size_t count, float alpha, float shift, form f,
                             enum reading reading)
{
    const size_t lanes = vec_lanes(), chunk = 3 * lanes * CHAIN;
    const vec va = vec_set1(alpha), vs = vec_set1(shift);
    moments total = {0, 0};
    for (size_t start = 0; start < count; start += chunk) {
        const size_t end = count - start < chunk ? count : start + chunk;
        vec s0 = vec_zero(), s1 = vec_zero(), s2 = vec_zero();
        vec q0 = vec_zero(), q1 = vec_zero(), q2 = vec_zero();
        size_t i = start;
        for (; i + 3 * lanes <= end; i += 3 * lanes) {
            const vec h0 = read_vec(w, i, lanes, va, vs, f, reading);
            const vec h1 = read_vec(w, i + lanes, lanes, va, vs, f, reading);
            const vec h2 = read_vec(w, i + 2 * lanes, lanes, va, vs, f, reading);
            s0 = vec_add(s0, h0);
            s1 = vec_add(s1, h1);
            s2 = vec_add(s2, h2);
            q0 = vec_fma(h0, h0, q0);
            q1 = vec_fma(h1, h1, q1);
            q2 = vec_fma(h2, h2, q2);
        }
        for (; i + lanes <= end; i += lanes) {
            const vec h = read_vec(w, i, lanes, va, vs, f, reading);
            s0 = vec_add(s0, h);
            q0 = vec_fma(h, h, q0);
        }
        if (i < end && reading == READ_H) {
            const vec h = read_vec(w, i, end - i, va, vs, f, reading);
            s1 = vec_add(s1, h);
            q1 = vec_fma(h, h, q1);
            i = end;
        }
        for (; i < end; i++) { /* a masked tail is 0, but 0 less the shift is not */
            const float t = nk_to_float(w->x, i, f.dtype) - shift;
            total.sum += (double)t;
            total.squares += (double)t * (double)t;
        }
        total.sum += (double)vec_sum(vec_add(vec_add(s0, s1), s2));
        total.squares += (double)vec_sum(vec_add(vec_add(q0, q1), q2));
    }
    return total;
}

NK_INLINE void read_row(statistics *s, const row *w, const nk_args *a, form f)
{
    s->shift = 0;
    s->kept = s->done = false;
    if (OP_NORM == NORM_RMS) {
        s->moments.squares = square_sum(w, statistics_count(a), a->alpha, f);
        return;
    }
    s->moments = moments_of(w, a->hidden, a->alpha, 0, f, READ_H);
    if (OP_NORM == NORM_LAYER_TWO_PASS) { /* the textbook's: the squares about the mean */
        const row h = {.x = OP_SOURCE == SOURCE_X ? w->x : w->h};
        s->shift = (float)(s->moments.sum / (double)a->hidden);
        s->moments = moments_of(&h, a->hidden, 0, s->shift, f, READ_SHIFTED);
        s->moments.sum = 0;
    }
}

/* ---- Statistics from sums ------------------------------------------------- */

enum verdict { SETTLED, FAR_MEAN, OUT_OF_RANGE };

/* From a mean square or variance. Outside these bounds the f32 sums behind it
 * may have overflowed or lost squares that count; or they are NaN. */
static inline enum verdict settle_square(statistics *s, double square, const nk_args *a)
{
    const double eps = (double)a->eps;
    const double root = a->flags & NK_EPS_OUTSIDE ? sqrt(square) + eps : sqrt(square + eps);
    s->rstd = 1 / root;
    s->scale = (float)s->rstd;
    return root >= 0x1p-50 && root <= 0x1p60 ? SETTLED : OUT_OF_RANGE;
}

/* Equal addends are rounded alike: a chain of them is off by some u, which the
 * variance multiplies by 1 + delta^2 / var. So the mean must not lie far from
 * the shift. */
static inline enum verdict settle(statistics *s, const nk_args *a)
{
    const moments m = s->moments;
    const double n = (double)statistics_count(a), share = 1 / n;
    if (OP_NORM == NORM_RMS)
        return settle_square(s, m.squares * share, a);
    const double delta = m.sum * share;
    double var = m.squares * share - delta * delta;
    s->mean = (double)s->shift + delta;
    if (2 * delta * delta > var)
        return FAR_MEAN;
    if (a->flags & NK_UNBIASED)
        var = a->hidden > 1 ? var * n / (n - 1) : 0;
    const enum verdict verdict = settle_square(s, var, a);
    s->offset = (float)(-delta * s->rstd);
    return verdict;
}

/* A row whose mean is far from 0: about its mean, then about that corrected by
 * what is left: in f32 a constant row has then no variance at all. */
NK_INLINE enum verdict settle_far_mean(statistics *s, const char *h, const nk_args *a, form f)
{
    const row w = {.x = h};
    enum verdict verdict = FAR_MEAN;
    for (int attempt = 0; attempt < 2 && verdict == FAR_MEAN; attempt++) {
        s->shift = (float)s->mean;
        s->moments = moments_of(&w, a->hidden, 0, s->shift, f, READ_SHIFTED);
        verdict = settle(s, a);
    }
    return verdict;
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

/* A row that did not settle: by another shift, or from first to last in float64. */
NK_INLINE void settle_hard_row(statistics *s, enum verdict verdict, const row *w, const nk_args *a,
                               form f)
{
    const char *h = OP_SOURCE == SOURCE_X ? w->x : w->h;
    if (OP_SOURCE != SOURCE_X && f.stream)
        keep_h(w, a, f);
    s->kept = true;
    if (verdict == FAR_MEAN)
        verdict = settle_far_mean(s, h, a, f);
    if (verdict == SETTLED)
        return;
    const nk_slow slow = OP_NORM == NORM_RMS ? nk_slow_rms(h, statistics_count(a), f.dtype, a)
                                             : nk_slow_layer(h, a->hidden, f.dtype, a);
    nk_slow_apply(w->y, NULL, h, a->gamma, a->beta, slow, f.dtype, a);
    s->mean = slow.mean;
    s->rstd = slow.rstd;
    s->done = true;
}

/* ---- The second reading -------------------------------------------------- */

enum gamma { GAMMA_ABSENT, GAMMA_PLAIN, GAMMA_OFFSET };

NK_INLINE vec load_param(const void *p, size_t i, size_t n, form f)
{
    return n == vec_lanes() ? vec_load_as(p, i, f.params, f.dtype)
                            : vec_load_as_n(p, i, n, f.params, f.dtype);
}

/* What is added to gamma, or stands for it where it is absent. */
NK_INLINE vec weight_at(const nk_args *a, size_t i, size_t n, vec offset, form f, enum gamma gamma)
{
    if (gamma == GAMMA_ABSENT)
        return offset;
    const vec weight = load_param(a->gamma, i, n, f);
    return gamma == GAMMA_OFFSET ? vec_add(weight, offset) : weight;
}

/* xhat * weight + beta of one row. */
NK_INLINE void apply_vec(const row *w, const statistics *s, size_t i, size_t n, vec alpha,
                         vec weight, vec beta, form f)
{
    const bool again = f.stream && OP_SOURCE != SOURCE_X;
    const vec h = again ? source_at(w, i, n, alpha, f)
                        : load(OP_SOURCE == SOURCE_X ? w->x : w->h, i, n, f.dtype);
    if (again && w->h != w->y)
        store(w->h, i, n, h, f.dtype, true);
    vec y = vec_mul(vec_mul(h, vec_set1(s->scale)), weight);
    if (OP_NORM != NORM_RMS) {
        const vec t = vec_sub(h, vec_set1(s->shift));
        y = vec_fma(vec_fma(t, vec_set1(s->scale), vec_set1(s->offset)), weight, beta);
    }
    store(w->y, i, n, y, f.dtype, f.stream);
}

/* Stores cannot change the copies, which therefore stay in registers. */
NK_INLINE void apply_as(const row *given, const statistics *given_s, size_t from, size_t to,
                        const nk_args *args, form f, enum gamma gamma, bool beta)
{
    const size_t lanes = vec_lanes();
    const row w = *given;
    const statistics s = *given_s;
    const nk_args a = {.gamma = args->gamma, .beta = args->beta};
    const vec alpha = vec_set1(args->alpha);
    const vec offset = vec_set1(args->gamma_offset + (gamma == GAMMA_ABSENT ? 1 : 0));
    size_t i = from;
    for (; i + lanes <= to; i += lanes) {
        const vec weight = weight_at(&a, i, lanes, offset, f, gamma);
        const vec shift = beta ? load_param(a.beta, i, lanes, f) : vec_zero();
        apply_vec(&w, &s, i, lanes, alpha, weight, shift, f);
    }
    if (i < to) {
        const vec weight = weight_at(&a, i, to - i, offset, f, gamma);
        const vec shift = beta ? load_param(a.beta, i, to - i, f) : vec_zero();
        apply_vec(&w, &s, i, to - i, alpha, weight, shift, f);
    }
}

NK_INLINE void apply(const row *w, const statistics *s, size_t from, size_t to, const nk_args *a,
                     form f)
{
    const bool beta = OP_NORM != NORM_RMS && a->beta;
    if (!a->gamma && !beta)
        apply_as(w, s, from, to, a, f, GAMMA_ABSENT, false);
    else if (!a->gamma)
        apply_as(w, s, from, to, a, f, GAMMA_ABSENT, true);
    else if (a->gamma_offset == 0 && !beta)
        apply_as(w, s, from, to, a, f, GAMMA_PLAIN, false);
    else if (a->gamma_offset == 0)
        apply_as(w, s, from, to, a, f, GAMMA_PLAIN, true);
    else if (!beta)
        apply_as(w, s, from, to, a, f, GAMMA_OFFSET, false);
    else
        apply_as(w, s, from, to, a, f, GAMMA_OFFSET, true);
}

/* ---- Code for each form, and the walk over rows ---------------------------- */

#define NK_FORM(name, dtype, params, stream)                                                       \
    static void read_##name(statistics *s, const row *w, const nk_args *a)                         \
    {                                                                                              \
        read_row(s, w, a, (form){dtype, params, stream});                                          \
    }                                                                                              \
    static void settle_##name(statistics *s, enum verdict verdict, const row *w, const nk_args *a) \
    {                                                                                              \
        settle_hard_row(s, verdict, w, a, (form){dtype, params, stream});                          \
    }                                                                                              \
    static void apply_##name(const row *w, const statistics *s, size_t from, size_t to,            \
                             const nk_args *a)                                                     \
    {                                                                                              \
        apply(w, s, from, to, a, (form){dtype, params, stream});                                   \
    }
#include "form.def"

typedef struct code {
    void (*read)(statistics *s, const row *w, const nk_args *a);
    void (*settle_hard_row)(statistics *s, enum verdict verdict, const row *w, const nk_args *a);
    void (*apply)(const row *w, const statistics *s, size_t from, size_t to, const nk_args *a);
} code;

static const code codes[NK_DTYPES][2][2] = {
/* by dtype, params in f32, stream */
#define NK_FORM(name, dtype, params, stream)                                                       \
    [dtype][params == NK_F32][stream] = {read_##name, settle_##name, apply_##name},
#include "form.def"
};

static void read_block(const nk_args *a, const row *w, statistics *s, size_t first, size_t count,
                       const code *c)
{
    for (size_t r = 0; r < count; r++)
        c->read(&s[r], &w[r], a);
    /* the roots and divisions of all rows together, so that they overlap */
    for (size_t r = 0; r < count; r++) {
        const enum verdict verdict = settle(&s[r], a);
        if (__builtin_expect(verdict != SETTLED, 0))
            c->settle_hard_row(&s[r], verdict, &w[r], a);
    }
    for (size_t r = 0; a->mean && r < count; r++)
        a->mean[first + r] = (float)s[r].mean;
    for (size_t r = 0; a->rstd && r < count; r++)
        a->rstd[first + r] = (float)s[r].rstd;
}

static void norm_block(const nk_args *a, size_t first, size_t count, plan p, size_t bytes,
                       const code *cached, const code *streamed)
{
    statistics s[PLAN_ROWS];
    row w[PLAN_ROWS];
    for (size_t r = 0; r < count; r++)
        w[r] = row_at(a, first + r, bytes);
    read_block(a, w, s, first, count, streamed);
    for (size_t from = 0; from < a->hidden; from += p.tile) {
        const size_t to = a->hidden - from < p.tile ? a->hidden : from + p.tile;
        for (size_t r = 0; r < count; r++)
            if (!s[r].done)
                (s[r].kept ? cached : streamed)->apply(&w[r], &s[r], from, to, a);
    }
}

static void run(const nk_args *a, nk_dtype dtype)
{
    const code *c = codes[dtype][dtype == NK_F32 || a->flags & NK_PARAMS_F32];
    const plan p = plan_rows(a, dtype, OP_SOURCE == SOURCE_X ? 2 : a->h ? 4 : 3);
    for (size_t first = 0; first < a->rows; first += p.rows) {
        const size_t count = a->rows - first < p.rows ? a->rows - first : p.rows;
        norm_block(a, first, count, p, nk_dtypes[dtype].bytes, &c[0],
                   &c[a->store == NK_STORE_STREAM]);
    }
    if (a->store == NK_STORE_STREAM)
        vec_fence();
}
