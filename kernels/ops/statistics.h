/* SPDX-License-Identifier: Apache-2.0 */
/* The first reading of a row: sums, and from them its statistics. f32 chains
 * of a few dozen additions are added up in float64. */
#include "apply.h"

enum { SQUARE_CHAIN = 32, MOMENT_CHAIN = 16 };

/* The elements that the statistics are taken over. */
static inline size_t statistics_count(const nk_args *a)
{
    return OP_NORM == NORM_PARTIAL_RMS ? nk_partial_count(a->fraction, a->hidden) : a->hidden;
}

/* What each of them counts in a mean. Divided once a call: a row's root would wait for it. */
static inline double share_of(const nk_args *a)
{
    return 1 / (double)statistics_count(a);
}

/* A row is read as h of the source, or as it stands at w->x, less a shift. */
enum reading { READ_H, READ_PLAIN, READ_SHIFTED };

NK_INLINE vec read_vec(const row *w, size_t i, size_t n, const inner *in, vec shift, form f,
                       enum reading reading)
{
    if (reading == READ_H)
        return first_reading(w, i, n, in, f);
    const vec x = load(w->x, i, n, f.dtype);
    return reading == READ_SHIFTED ? vec_sub(x, shift) : x;
}

/* A row to be applied beside may be NULL: then there is none. */
NK_INLINE double square_sum(const row *w, size_t count, const inner *in, form f,
                            enum reading reading, const job *beside)
{
    const size_t lanes = vec_lanes(), chunk = 4 * lanes * SQUARE_CHAIN;
    const vec none = vec_zero();
    double total = 0;
    for (size_t start = 0; start < count; start += chunk) {
        const size_t end = count - start < chunk ? count : start + chunk;
        vec q0 = vec_zero(), q1 = vec_zero(), q2 = vec_zero(), q3 = vec_zero();
        size_t i = start;
        for (; i + 4 * lanes <= end; i += 4 * lanes) {
            apply_beside(beside, true, i, 4 * lanes, f);
            const vec h0 = vec_keep(read_vec(w, i, lanes, in, none, f, reading));
            q0 = vec_fma(h0, h0, q0);
            const vec h1 = vec_keep(read_vec(w, i + lanes, lanes, in, none, f, reading));
            q1 = vec_fma(h1, h1, q1);
            const vec h2 = vec_keep(read_vec(w, i + 2 * lanes, lanes, in, none, f, reading));
            q2 = vec_fma(h2, h2, q2);
            const vec h3 = vec_keep(read_vec(w, i + 3 * lanes, lanes, in, none, f, reading));
            q3 = vec_fma(h3, h3, q3);
            apply_beside(beside, false, i, 4 * lanes, f);
        }
        for (; i + lanes <= end; i += lanes) {
            apply_beside(beside, true, i, lanes, f);
            const vec h = read_vec(w, i, lanes, in, none, f, reading);
            q0 = vec_fma(h, h, q0);
            apply_beside(beside, false, i, lanes, f);
        }
        if (i < end) {
            apply_beside(beside, true, i, rest(end - i), f);
            const vec h = read_vec(w, i, rest(end - i), in, none, f, reading);
            q1 = vec_fma(h, h, q1);
            apply_beside(beside, false, i, rest(end - i), f);
        }
        total += (double)vec_sum(vec_add(vec_add(q0, q1), vec_add(q2, q3)));
    }
    return total;
}

NK_INLINE moments moments_of(const row *w, size_t count, const inner *in, float shift, form f,
                             enum reading reading, const job *beside)
{
    const size_t lanes = vec_lanes(), chunk = 3 * lanes * MOMENT_CHAIN;
    const vec vs = vec_set1(shift);
    moments total = {0, 0};
    for (size_t start = 0; start < count; start += chunk) {
        const size_t end = count - start < chunk ? count : start + chunk;
        vec s0 = vec_zero(), s1 = vec_zero(), s2 = vec_zero();
        vec q0 = vec_zero(), q1 = vec_zero(), q2 = vec_zero();
        size_t i = start;
        for (; i + 3 * lanes <= end; i += 3 * lanes) {
            apply_beside(beside, true, i, 3 * lanes, f);
            const vec h0 = vec_keep(read_vec(w, i, lanes, in, vs, f, reading));
            s0 = vec_add(s0, h0);
            q0 = vec_fma(h0, h0, q0);
            const vec h1 = vec_keep(read_vec(w, i + lanes, lanes, in, vs, f, reading));
            s1 = vec_add(s1, h1);
            q1 = vec_fma(h1, h1, q1);
            const vec h2 = vec_keep(read_vec(w, i + 2 * lanes, lanes, in, vs, f, reading));
            s2 = vec_add(s2, h2);
            q2 = vec_fma(h2, h2, q2);
            apply_beside(beside, false, i, 3 * lanes, f);
        }
        for (; i + lanes <= end; i += lanes) {
            apply_beside(beside, true, i, lanes, f);
            const vec h = vec_keep(read_vec(w, i, lanes, in, vs, f, reading));
            s0 = vec_add(s0, h);
            q0 = vec_fma(h, h, q0);
            apply_beside(beside, false, i, lanes, f);
        }
        if (i < end && reading != READ_SHIFTED) {
            apply_beside(beside, true, i, rest(end - i), f);
            const vec h = read_vec(w, i, rest(end - i), in, vs, f, reading);
            s1 = vec_add(s1, h);
            q1 = vec_fma(h, h, q1);
            apply_beside(beside, false, i, rest(end - i), f);
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

/* The mean of n elements and the sum of squares about it. */
typedef struct spread {
    double n, mean, squares;
} spread;

/* Two groups as one (Chan, Golub & LeVeque 1983). */
NK_INLINE spread joined(spread a, spread b)
{
    const double n = a.n + b.n, delta = b.mean - a.mean;
    return (spread){n, a.mean + delta * b.n / n,
                    a.squares + b.squares + delta * delta * a.n * b.n / n};
}

/* The lanes of two vecs, each over `steps` elements, as one group. */
NK_INLINE spread lanes_joined(vec m0, vec m1, vec q0, vec q1, size_t steps)
{
    enum { MOST_LANES = 128 };
    const size_t lanes = vec_lanes();
    float means[2 * MOST_LANES], squares[2 * MOST_LANES];
    vec_store(means, 0, m0, NK_F32);
    vec_store(means, lanes, m1, NK_F32);
    vec_store(squares, 0, q0, NK_F32);
    vec_store(squares, lanes, q1, NK_F32);
    double mean = 0, sum = 0, between = 0;
    for (size_t l = 0; l < 2 * lanes; l++)
        mean += (double)means[l];
    mean /= (double)(2 * lanes);
    for (size_t l = 0; l < 2 * lanes; l++) {
        const double t = (double)means[l] - mean;
        sum += (double)squares[l];
        between += t * t;
    }
    return (spread){(double)(2 * lanes * steps), mean, sum + between * (double)steps};
}

/* Welford's recurrence in every lane, block by block; a tail in float64. */
NK_INLINE moments welford(const row *w, size_t count, form f)
{
    const size_t lanes = vec_lanes();
    spread all = {0, 0, 0};
    size_t i = 0;
    while (i + 2 * lanes <= count) {
        vec m0 = vec_zero(), m1 = vec_zero(), q0 = vec_zero(), q1 = vec_zero();
        size_t steps = 0;
        for (; steps < SQUARE_CHAIN && i + 2 * lanes <= count; i += 2 * lanes) {
            const vec share = vec_set1(1 / (float)++steps);
            const vec x0 = vec_load(w->x, i, f.dtype), x1 = vec_load(w->x, i + lanes, f.dtype);
            const vec t0 = vec_sub(x0, m0), t1 = vec_sub(x1, m1);
            m0 = vec_fma(t0, share, m0);
            m1 = vec_fma(t1, share, m1);
            q0 = vec_fma(t0, vec_sub(x0, m0), q0);
            q1 = vec_fma(t1, vec_sub(x1, m1), q1);
        }
        all = joined(all, lanes_joined(m0, m1, q0, q1, steps));
    }
    for (; i < count; i++)
        all = joined(all, (spread){1, (double)nk_to_float(w->x, i, f.dtype), 0});
    return (moments){all.mean, all.squares};
}

NK_INLINE double square_sum_of_h(const row *w, const nk_args *a, form f, const job *beside)
{
    const row plain = {.x = w->h};
    const size_t count = statistics_count(a);
    inner in = inner_of(w, a);
    if (OP_SOURCE != SOURCE_NORM_ADD)
        return square_sum(w, count, &in, f, READ_H, beside);
    if (w->kept)
        return square_sum(&plain, count, &in, f, READ_PLAIN, NULL);
    switch (in.kind) { /* constants again, for code apiece */
    case GAMMA_ABSENT:
        in.kind = GAMMA_ABSENT;
        return square_sum(w, count, &in, f, READ_H, NULL);
    case GAMMA_PLAIN:
        in.kind = GAMMA_PLAIN;
        return square_sum(w, count, &in, f, READ_H, NULL);
    default:
        in.kind = GAMMA_OFFSET;
        return square_sum(w, count, &in, f, READ_H, NULL);
    }
}

/* The norms that read a row once and to its end, and so can apply another beside. */
static const bool can_read_beside =
    OP_NORM == NORM_RMS || OP_NORM == NORM_LAYER || OP_NORM == NORM_LAYER_ONE_PASS;

NK_INLINE void read_row(statistics *s, const row *given, const nk_args *a, form f,
                        const job *beside)
{
    const row copy = *given, *w = &copy; /* which stores of h cannot change */
    const inner in = inner_of(w, a);
    s->shift = 0;
    s->done = false;
    switch (OP_NORM) {
    case NORM_RMS:
    case NORM_PARTIAL_RMS:
        s->moments.squares = square_sum_of_h(w, a, f, beside);
        break;
    case NORM_LAYER_SHIFTED:
        s->shift = nk_to_float(w->x, 0, f.dtype);
        s->moments = moments_of(w, a->hidden, &in, s->shift, f, READ_SHIFTED, NULL);
        break;
    case NORM_LAYER_TWO_PASS: /* the textbook's: the squares about the mean */
        s->moments = moments_of(w, a->hidden, &in, 0, f, READ_H, NULL);
        s->shift = (float)(s->moments.sum / (double)a->hidden);
        s->moments = moments_of(w, a->hidden, &in, s->shift, f, READ_SHIFTED, NULL);
        s->moments.sum = 0;
        break;
    case NORM_LAYER_WELFORD:
        s->moments = welford(w, a->hidden, f);
        s->shift = (float)s->moments.sum;
        s->moments.sum = 0;
        break;
    default:
        s->moments = moments_of(w, a->hidden, &in, 0, f, READ_H, beside);
    }
}

/* ---- Statistics from sums ------------------------------------------------- */

enum verdict { SETTLED, FAR_MEAN, OUT_OF_RANGE };

/* The algorithms that are there for comparison come without a second try. */
static const bool naive = OP_NORM == NORM_LAYER_ONE_PASS || OP_NORM == NORM_LAYER_TWO_PASS ||
                          OP_NORM == NORM_LAYER_WELFORD;

/* From a mean square or variance. Outside these bounds the f32 sums behind it
 * may have overflowed or lost squares that count; or they are NaN. */
static inline enum verdict settle_square(statistics *s, double square, const nk_args *a)
{
    const double eps = (double)a->eps;
    const double root = a->flags & NK_EPS_OUTSIDE ? sqrt(square) + eps : sqrt(square + eps);
    s->rstd = 1 / root;
    s->scale = (float)s->rstd;
    return naive || (root >= 0x1p-50 && root <= 0x1p60) ? SETTLED : OUT_OF_RANGE;
}

/* Equal addends are rounded alike: a chain of them is off by some u, which the
 * variance multiplies by 1 + delta^2 / var. So the mean must not lie far from
 * the shift. */
static inline enum verdict settle(statistics *s, double share, const nk_args *a)
{
    const moments m = s->moments;
    if (is_rms)
        return settle_square(s, m.squares * share, a);
    const double delta = m.sum * share;
    double var = m.squares * share - delta * delta;
    s->mean = (double)s->shift + delta;
    if (!naive && 2 * delta * delta > var)
        return FAR_MEAN;
    if (a->flags & NK_UNBIASED) {
        const double n = (double)a->hidden;
        var = a->hidden > 1 ? var * n / (n - 1) : 0;
    }
    const enum verdict verdict = settle_square(s, var, a);
    s->offset = (float)(-delta * s->rstd);
    return verdict;
}

/* A row whose mean is far from 0: about its mean, then about that corrected by
 * what is left: in f32 a constant row has then no variance at all. */
NK_INLINE enum verdict settle_far_mean(statistics *s, const char *h, const nk_args *a, form f)
{
    const row w = {.x = h};
    const inner in = inner_of(&w, a);
    enum verdict verdict = FAR_MEAN;
    for (int attempt = 0; attempt < 2 && verdict == FAR_MEAN; attempt++) {
        s->shift = (float)s->mean;
        s->moments = moments_of(&w, a->hidden, &in, s->shift, f, READ_SHIFTED, NULL);
        verdict = settle(s, share_of(a), a);
    }
    return verdict;
}

/* A row that did not settle: by another shift, or from first to last in float64. */
NK_INLINE void settle_hard_row(statistics *s, enum verdict verdict, row *w, const nk_args *a,
                               form f)
{
    keep_h(w, a, f);
    const char *h = kept_h(w);
    if (verdict == FAR_MEAN)
        verdict = settle_far_mean(s, h, a, f);
    if (verdict == SETTLED)
        return;
    const nk_slow slow = is_rms ? nk_slow_rms(h, statistics_count(a), f.dtype, a)
                                : nk_slow_layer(h, a->hidden, f.dtype, a);
    nk_slow_apply(w->y, OP_TARGET == TARGET_ADD ? w->residual : NULL, h,
                  OP_SOURCE == SOURCE_NORM_ADD ? a->gamma2 : a->gamma, a->beta, slow, f.dtype, a);
    s->mean = slow.mean;
    s->rstd = slow.rstd;
    s->done = true;
}
