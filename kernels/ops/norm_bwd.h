/* SPDX-License-Identifier: Apache-2.0 */
/* The gradients of the norms, plain and fused. With w = gamma * dy, for each row
 *
 *   dx = rstd * (w - mean(w) - xhat * mean(w * xhat))     (RMSNorm: no mean(w))
 *   dgamma += dy * xhat;  dbeta += dy
 *
 * Rows are read twice: for their sums (the statistics', where they are not
 * given, in the same reading), then column by column over a block of rows, so
 * that dgamma and dbeta are summed in registers. A row for which f32 does not do
 * takes the slow path (slow_bwd.h).
 *
 * An op's file says by OP_NORM which norm it is, and
 *   OP_JOIN      what is normalised: x; with residual given x + residual
 *                (JOIN_ADD) or alpha * x + residual (JOIN_SCALED); residual
 *                alone (JOIN_SANDWICH);
 *   OP_GRADIENT  what comes back to the norm: dy, dh (GRADIENT_STRAIGHT), or dh
 *                and what an outer norm over x makes of dy (GRADIENT_OUTER). */
#define OP_SOURCE SOURCE_X
#define OP_TARGET TARGET_Y
#include "../slow_bwd.h"
#include "statistics.h"
#include "sums.h"

enum join { JOIN_X, JOIN_ADD, JOIN_SCALED, JOIN_SANDWICH };
enum gradient { GRADIENT_DY, GRADIENT_STRAIGHT, GRADIENT_OUTER };

static const bool is_layer = OP_NORM == NORM_LAYER;
static const bool has_outer = OP_GRADIENT == GRADIENT_OUTER;

/* xhat = (v - shift) * scale + offset, and the result scale * w + from_w +
 * from_wx * xhat. */
typedef struct coefficients {
    float shift, scale, offset, from_w, from_wx;
} coefficients;

enum { BACK_INPUTS = 4 }; /* that a row may have */

typedef struct back_row {
    const char *v;        /* what is normalised, */
    const char *residual; /* or its other summand, else NULL */
    const char *d;        /* the gradient that comes back */
    const char *dh;       /* the one on the straight path, or NULL */
    const char *outer_v;  /* what the outer norm normalised */
    char *dx, *dresidual; /* NULL where not wanted */
    /* of the form that streams: what is read after these rows */
    const char *next[BACK_INPUTS];
    coefficients norm, outer;
    bool done; /* by the slow path */
} back_row;

/* What is the same for every row. */
typedef struct columns {
    vec alpha, offset, outer_offset;
    const void *gamma, *outer_gamma;
    enum gamma kind, outer_kind;
} columns;

NK_INLINE columns columns_of(const nk_args *a)
{
    return (columns){.alpha = vec_set1(a->alpha),
                     .offset = vec_set1(a->gamma_offset + (a->gamma ? 0 : 1)),
                     .outer_offset = vec_set1(a->gamma_offset + (a->gamma2 ? 0 : 1)),
                     .gamma = a->gamma,
                     .outer_gamma = a->gamma2,
                     .kind = gamma_kind(a->gamma, a),
                     .outer_kind = gamma_kind(a->gamma2, a)};
}

static inline back_row back_row_at(const nk_args *a, size_t r, size_t bytes)
{
    const char *x = a->x, *residual = a->residual, *dy = a->dy, *dh = a->dh;
    char *dx = a->dx, *dresidual = a->dresidual;
    const back_row w = {.v = x ? x + r * a->x_ld * bytes : NULL,
                        .residual = residual ? residual + r * a->residual_ld * bytes : NULL,
                        .d = dy ? dy + r * a->dy_ld * bytes : NULL,
                        .dh = dh ? dh + r * a->dh_ld * bytes : NULL,
                        .dx = dx ? dx + r * a->dx_ld * bytes : NULL,
                        .dresidual = dresidual ? dresidual + r * a->dresidual_ld * bytes : NULL};
    back_row sandwich = w;
    sandwich.v = w.residual;
    sandwich.residual = NULL;
    sandwich.outer_v = w.v;
    if (OP_GRADIENT == GRADIENT_STRAIGHT) {
        sandwich.d = w.dh;
        sandwich.dh = NULL;
    }
    return OP_JOIN == JOIN_SANDWICH ? sandwich : w;
}

static inline void expect_next(back_row *w, back_row next)
{
    w->next[0] = next.v;
    w->next[1] = OP_JOIN == JOIN_SANDWICH ? next.outer_v : next.residual;
    w->next[2] = next.d;
    w->next[3] = next.dh;
}

/* ---- Elements ------------------------------------------------------------- */

NK_INLINE vec summed(const back_row *w, size_t i, size_t n, const columns *k, form f)
{
    const vec x = vec_keep(load(w->v, i, n, f.dtype));
    if (OP_JOIN == JOIN_X || OP_JOIN == JOIN_SANDWICH || !w->residual)
        return x;
    const vec residual = load(w->residual, i, n, f.dtype);
    return vec_round(OP_JOIN == JOIN_SCALED ? vec_fma_once(k->alpha, x, residual)
                                            : vec_add(x, residual),
                     f.dtype);
}

NK_INLINE vec normalised(const coefficients *c, vec v)
{
    const vec scale = vec_set1(c->scale);
    return is_layer ? vec_fma(vec_sub(v, vec_set1(c->shift)), scale, vec_set1(c->offset))
                    : vec_mul(v, scale);
}

/* w has its share in the statistics, or not (NORM_PARTIAL_RMS). */
NK_INLINE vec through(const coefficients *c, vec w, vec xhat)
{
    const vec scale = vec_set1(c->scale), from_wx = vec_set1(c->from_wx);
    const vec own = is_layer ? vec_fma(w, scale, vec_set1(c->from_w)) : vec_mul(w, scale);
    return vec_fma(xhat, from_wx, own);
}

/* What comes back to the norm; dy and the outer xhat are for dgamma2. */
typedef struct back {
    vec d, dy, outer_xhat;
} back;

NK_INLINE back back_at(const back_row *w, size_t i, size_t n, vec outer_gamma, form f)
{
    back b = {.d = vec_keep(load(w->d, i, n, f.dtype))};
    if (!has_outer)
        return b;
    b.dy = b.d;
    b.outer_xhat = normalised(&w->outer, load(w->outer_v, i, n, f.dtype));
    b.d = through(&w->outer, vec_mul(b.dy, outer_gamma), b.outer_xhat);
    if (w->dh)
        b.d = vec_add(b.d, load(w->dh, i, n, f.dtype));
    return b;
}

/* ---- Sums of a row --------------------------------------------------------- */

/* Of t = v - shift, of its squares, of w, and of w * t. */
typedef struct row_sums {
    double t, tt, w, wt;
} row_sums;

/* PLAIN has no shift. SHIFTED has one: a tail's lanes that are masked to 0 must
 * not count. GIVEN leaves out t and tt. */
enum sums { SUMS_PLAIN, SUMS_SHIFTED, SUMS_GIVEN };

/* Which norm of the row. */
enum which { OWN, OUTER };

typedef struct lane_sums {
    vec t, tt, w, wt;
} lane_sums;

NK_INLINE void sum_vec(lane_sums *s, const back_row *w, size_t i, size_t n, const columns *k,
                       vec shift, form f, enum which which, enum sums mode)
{
    const bool outer = which == OUTER;
    const vec outer_gamma =
        has_outer ? gamma_at(k->outer_gamma, i, n, k->outer_offset, f, k->outer_kind) : shift;
    const vec v = outer ? load(w->outer_v, i, n, f.dtype) : summed(w, i, n, k, f);
    const vec d = outer ? load(w->d, i, n, f.dtype) : back_at(w, i, n, outer_gamma, f).d;
    const vec gamma = outer ? outer_gamma : gamma_at(k->gamma, i, n, k->offset, f, k->kind);
    const vec t = is_layer && mode != SUMS_PLAIN ? vec_sub(v, shift) : v;
    const vec weighted = vec_mul(d, gamma);
    if (mode == SUMS_PLAIN || (mode == SUMS_SHIFTED && n == vec_lanes())) {
        if (is_layer)
            s->t = vec_add(s->t, t);
        s->tt = vec_fma(t, t, s->tt);
    }
    if (is_layer)
        s->w = vec_add(s->w, weighted);
    s->wt = vec_fma(weighted, t, s->wt);
}

NK_INLINE void fold(row_sums *total, const lane_sums *a, const lane_sums *b, enum sums mode)
{
    if (mode != SUMS_GIVEN) {
        total->t += is_layer ? (double)vec_sum(vec_add(a->t, b->t)) : 0;
        total->tt += (double)vec_sum(vec_add(a->tt, b->tt));
    }
    total->w += is_layer ? (double)vec_sum(vec_add(a->w, b->w)) : 0;
    total->wt += (double)vec_sum(vec_add(a->wt, b->wt));
}

/* h at one element, as summed() makes it. */
static inline float summed_element(const back_row *w, size_t i, const nk_args *a, nk_dtype dtype)
{
    const float x = nk_to_float(w->v, i, dtype);
    if (OP_JOIN == JOIN_X || OP_JOIN == JOIN_SANDWICH || !w->residual)
        return x;
    const float residual = nk_to_float(w->residual, i, dtype);
    uint32_t element;
    nk_from_float(&element, 0, dtype,
                  OP_JOIN == JOIN_SCALED ? fmaf(a->alpha, x, residual) : x + residual);
    return nk_to_float(&element, 0, dtype);
}

NK_INLINE row_sums sums_as(const back_row *w, const nk_args *a, const columns *k, float shift,
                           form f, enum which which, enum sums mode)
{
    /* LayerNorm's four sums are chains enough, and all that registers hold */
    const size_t lanes = vec_lanes(), steps = is_layer ? 1 : 2;
    const size_t chunk = steps * lanes * SQUARE_CHAIN, hidden = a->hidden;
    const vec vs = vec_set1(shift);
    row_sums total = {0};
    for (size_t start = 0; start < hidden; start += chunk) {
        const size_t end = hidden - start < chunk ? hidden : start + chunk;
        lane_sums s0 = {vec_zero(), vec_zero(), vec_zero(), vec_zero()}, s1 = s0;
        size_t i = start;
        for (; !is_layer && i + 2 * lanes <= end; i += 2 * lanes) {
            sum_vec(&s0, w, i, lanes, k, vs, f, which, mode);
            sum_vec(&s1, w, i + lanes, lanes, k, vs, f, which, mode);
        }
        for (; i + lanes <= end; i += lanes)
            sum_vec(&s0, w, i, lanes, k, vs, f, which, mode);
        if (i < end)
            sum_vec(&s1, w, i, rest(end - i), k, vs, f, which, mode);
        fold(&total, &s0, &s1, mode);
    }
    for (size_t i = hidden / lanes * lanes; mode == SUMS_SHIFTED && i < hidden; i++) {
        const double v = which == OUTER ? (double)nk_to_float(w->outer_v, i, f.dtype)
                                        : (double)summed_element(w, i, a, f.dtype);
        const double t = v - (double)shift;
        total.t += t;
        total.tt += t * t;
    }
    if (OP_NORM == NORM_PARTIAL_RMS && mode != SUMS_GIVEN)
        total.tt = square_sum(&(row){.x = w->v}, statistics_count(a), NULL, f, READ_PLAIN, NULL);
    return total;
}

/* Constants again, for code apiece. */
NK_INLINE row_sums sums_by_gamma(const back_row *w, const nk_args *a, form f, enum which which,
                                 enum sums mode, float shift)
{
    columns k = columns_of(a);
    if (has_outer) /* long enough as it is */
        return sums_as(w, a, &k, shift, f, which, mode);
    switch (k.kind) {
    case GAMMA_ABSENT:
        k.kind = GAMMA_ABSENT;
        return sums_as(w, a, &k, shift, f, which, mode);
    case GAMMA_PLAIN:
        k.kind = GAMMA_PLAIN;
        return sums_as(w, a, &k, shift, f, which, mode);
    default:
        k.kind = GAMMA_OFFSET;
        return sums_as(w, a, &k, shift, f, which, mode);
    }
}

NK_INLINE row_sums sums_in(const back_row *w, const nk_args *a, form f, enum which which,
                           enum sums mode, float shift)
{
    if (mode == SUMS_GIVEN)
        return sums_by_gamma(w, a, f, which, SUMS_GIVEN, shift);
    if (mode == SUMS_PLAIN)
        return sums_by_gamma(w, a, f, which, SUMS_PLAIN, shift);
    const columns k = columns_of(a); /* seldom wanted: one code for every gamma */
    return sums_as(w, a, &k, shift, f, which, SUMS_SHIFTED);
}

#define SUMS(name, dtype, params)                                                                  \
    static __attribute__((noinline)) row_sums sums_##name(                                         \
        const back_row *w, const nk_args *a, enum which which, enum sums mode, float shift)        \
    {                                                                                              \
        const form f = {dtype, params, false};                                                     \
        return has_outer && which == OUTER ? sums_in(w, a, f, OUTER, mode, shift)                  \
                                           : sums_in(w, a, f, OWN, mode, shift);                   \
    }
SUMS(f32, NK_F32, NK_F32)
SUMS(bf16, NK_BF16, NK_BF16)
SUMS(bf16_params_f32, NK_BF16, NK_F32)
SUMS(f16, NK_F16, NK_F16)
SUMS(f16_params_f32, NK_F16, NK_F32)
#undef SUMS

static row_sums (*const row_sums_of[NK_DTYPES][2])(const back_row *w, const nk_args *a,
                                                   enum which which, enum sums mode,
                                                   float shift) = {
    [NK_F32] = {sums_f32, sums_f32},
    [NK_BF16] = {sums_bf16, sums_bf16_params_f32},
    [NK_F16] = {sums_f16, sums_f16_params_f32}};

/* ---- Coefficients ------------------------------------------------------------ */

typedef struct reader {
    const nk_args *args;
    nk_dtype dtype;
    double share; /* share_of(args) */
} reader;

static row_sums read_sums(const reader *in, const back_row *w, enum which which, enum sums mode,
                          float shift)
{
    const bool params_f32 = in->dtype == NK_F32 || in->args->flags & NK_PARAMS_F32;
    return row_sums_of[in->dtype][params_f32](w, in->args, which, mode, shift);
}

/* The row's own statistics and sums, about a shift that is not far from the mean. */
static bool read_own(const reader *in, const back_row *w, enum which which, statistics *s,
                     row_sums *sums)
{
    *s = (statistics){.shift = 0};
    *sums = read_sums(in, w, which, SUMS_PLAIN, 0);
    s->moments = (moments){sums->t, sums->tt};
    enum verdict verdict = settle(s, in->share, in->args);
    for (int attempt = 0; attempt < 2 && verdict == FAR_MEAN; attempt++) {
        s->shift = (float)s->mean;
        *sums = read_sums(in, w, which, SUMS_SHIFTED, s->shift);
        s->moments = (moments){sums->t, sums->tt};
        verdict = settle(s, in->share, in->args);
    }
    return verdict == SETTLED;
}

static bool read_given(const reader *in, const back_row *w, enum which which, float mean,
                       float rstd, statistics *s, row_sums *sums)
{
    const bool outside = in->args->flags & NK_EPS_OUTSIDE;
    *s = (statistics){.shift = mean, .mean = (double)mean, .rstd = (double)rstd};
    *sums = read_sums(in, w, which, outside ? SUMS_SHIFTED : SUMS_GIVEN, mean);
    return rstd >= 0x1p-60f && rstd <= 0x1p50f;
}

/* Of one or two elements only what eps leaves of a difference is the gradient. */
enum { FEWEST = 2 };

/* From sums to coefficients; false if the slow path must do the row: numbers
 * out of range, or a row that may have no variance at all. */
static bool settle_row(const reader *in, back_row *w, enum which which, size_t r)
{
    const nk_args *a = in->args;
    const float *rstd = which == OUTER ? a->rstd2 : a->rstd;
    const bool given = rstd && (!is_layer || a->mean), outside = a->flags & NK_EPS_OUTSIDE;
    const double n = (double)a->hidden, count = (double)statistics_count(a);
    const double divisor = is_layer && a->flags & NK_UNBIASED ? count - 1 : count;
    statistics s;
    row_sums sums;
    if (a->hidden <= FEWEST)
        return false;
    if (!(given ? read_given(in, w, which, is_layer ? a->mean[r] : 0, rstd[r], &s, &sums)
                : read_own(in, w, which, &s, &sums)))
        return false;
    const double left = s.mean - (double)s.shift, wx = s.rstd * (sums.wt - left * sums.w);
    double share = 1 / divisor;
    double squares = sums.tt - (given ? 0 : left * left * count);
    if (wx == 0.0 && given && !outside)
        squares = read_sums(in, w, which, SUMS_SHIFTED, s.shift).tt;
    if (wx == 0.0 && !(squares > 0))
        return false;
    if (outside && !(squares <= 0x1p127)) /* a sum that overflowed */
        return false;
    if (outside)
        share /= sqrt(squares * share) * s.rstd;
    const float mean = (float)s.mean;
    coefficients *c = which == OUTER ? &w->outer : &w->norm;
    *c = (coefficients){.shift = mean,
                        .scale = (float)s.rstd,
                        .offset = (float)(((double)mean - s.mean) * s.rstd),
                        .from_w = is_layer ? (float)(-s.rstd * sums.w / n) : 0,
                        .from_wx = (float)(-s.rstd * wx * share)};
    return fabsf(c->from_w) <= 0x1p100f && fabsf(c->from_wx) <= 0x1p100f;
}

/* ---- The second reading ------------------------------------------------------ */

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
    if (!has_outer && w->dh)
        result = vec_add(result, load(w->dh, i, n, f.dtype));
    if (OP_JOIN == JOIN_SCALED && a->dalpha)
        c->dalpha = vec_fma(load(w->v, i, n, f.dtype), result, c->dalpha);
    if (OP_JOIN == JOIN_SANDWICH)
        put_row(w->dx, i, n, b.d, f);
    else
        put_row(w->dx, i, n, OP_JOIN == JOIN_SCALED ? vec_mul(k->alpha, result) : result, f);
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

/* ---- The walk over rows -------------------------------------------------------- */

static nk_slow_sum slow_sum(column_sum *from, size_t hidden)
{
    return (nk_slow_sum){from->sum, hidden <= SUM_COLUMNS ? from->carry : NULL};
}

static void back_slowly(const reader *in, back_row *w, size_t r, totals *to)
{
    const nk_args *a = in->args;
    const bool scaled = OP_JOIN == JOIN_SCALED;
    const nk_slow_sum first = slow_sum(&to->first, a->hidden);
    const nk_slow_sum second =
        is_layer || has_outer ? slow_sum(&to->second, a->hidden) : (nk_slow_sum){NULL, NULL};
    const nk_slow_norm outer = {.row = w->outer_v,
                                .count = a->hidden,
                                .gamma = a->gamma2,
                                .rstd = a->rstd2 ? &a->rstd2[r] : NULL,
                                .dgamma = second};
    nk_slow_row slow = {.norm = {.row = w->v,
                                 .residual = w->residual,
                                 .scaled = scaled,
                                 .layer = is_layer,
                                 .count = statistics_count(a),
                                 .gamma = a->gamma,
                                 .mean = a->mean ? &a->mean[r] : NULL,
                                 .rstd = a->rstd ? &a->rstd[r] : NULL,
                                 .dgamma = first},
                        .outer = has_outer ? &outer : NULL,
                        .d = w->d,
                        .dh = w->dh,
                        .to = w->dresidual,
                        .factor = scaled ? (double)a->alpha : 1,
                        .dalpha = scaled && a->dalpha ? &to->dalpha : NULL};
    if (!has_outer)
        slow.norm.dbeta = second;
    *(OP_JOIN == JOIN_SANDWICH ? &slow.straight : &slow.scaled_to) = w->dx;
    nk_slow_backward(&slow, in->dtype, a);
    w->done = true;
}

/* As many as share dgamma in registers and are found in L2 again; fewer where what is read
 * comes from beyond it: from so many places at once it comes more slowly. */
enum { BACK_ROWS = 16, BACK_ROWS_BEYOND = 8 };

static size_t back_rows(const nk_args *a, size_t bytes)
{
    const size_t l2 = nk_machine()->l2_bytes ? nk_machine()->l2_bytes : LEAST_L2;
    const size_t streams = (size_t)(!!a->x + !!a->residual + !!a->dy + !!a->dh);
    const size_t row_bytes = streams * a->hidden * bytes, fit = l2 / 2 / row_bytes;
    const size_t most = a->rows <= l2 / row_bytes ? BACK_ROWS : BACK_ROWS_BEYOND;
    return fit < 1 ? 1 : fit < most ? fit : most;
}

static void run(const nk_args *a, nk_dtype dtype)
{
    const reader in = {a, dtype, share_of(a)};
    const bool stream = a->store == NK_STORE_STREAM;
    const size_t bytes = nk_dtypes[dtype].bytes, most = back_rows(a, bytes);
    const bool params_f32 = dtype == NK_F32 || a->flags & NK_PARAMS_F32;
    back_row rows[BACK_ROWS];
    totals to;
    column_sum_start(&to.first, a->dgamma, a->hidden);
    if (is_layer || has_outer)
        column_sum_start(&to.second, has_outer ? a->dgamma2 : a->dbeta, a->hidden);
    to.dalpha = 0;
    for (size_t first = 0; first < a->rows; first += most) {
        const size_t count = a->rows - first < most ? a->rows - first : most;
        for (size_t r = 0; r < count; r++) {
            rows[r] = back_row_at(a, first + r, bytes);
            if (stream && first + most + r < a->rows && nk_machine()->overlaps)
                expect_next(&rows[r], back_row_at(a, first + most + r, bytes));
            if ((has_outer && !settle_row(&in, &rows[r], OUTER, first + r)) ||
                !settle_row(&in, &rows[r], OWN, first + r))
                back_slowly(&in, &rows[r], first + r, &to);
        }
        back_block_as[dtype][params_f32][stream](rows, count, a, &to);
    }
    if (OP_JOIN == JOIN_SCALED && a->dalpha)
        *a->dalpha += (float)to.dalpha;
    if (stream)
        vec_fence();
}
