/* SPDX-License-Identifier: Apache-2.0 */
/* The first reading of a row of a gradient: its sums, and from them the coefficients of the
 * second. */
#include "row_bwd.h"

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
