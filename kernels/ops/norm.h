/* SPDX-License-Identifier: Apache-2.0 */
/* The norms of rows, plain and fused with the residual addition before or
 * after them:
 *
 *   y = (h - mean) * rstd * (gamma + gamma_offset) + beta
 *
 * Each row is read twice: for its statistics (statistics.h), then to apply
 * them. What makes this fast is the order in which rows and columns are walked
 * (plan.h); what makes it right for every finite row is the shift and the slow
 * path (slow.h). */
#include "statistics.h"

static const bool has_beta = !is_rms;

static inline const void *outer_gamma(const nk_args *a)
{
    return OP_SOURCE == SOURCE_NORM_ADD ? a->gamma2 : a->gamma;
}

NK_INLINE void apply_vec(const row *w, const statistics *s, size_t i, size_t n, const inner *in,
                         vec gamma, vec beta, form f)
{
    const bool again = f.stream && OP_SOURCE != SOURCE_X;
    const vec h =
        again ? vec_round(source_at(w, i, n, in, f), f.dtype) : load(kept_h(w), i, n, f.dtype);
    if (again && w->h != w->y)
        store(w->h, i, n, h, f.dtype, true);
    vec y = vec_mul(vec_mul(h, vec_set1(s->scale)), gamma);
    if (OP_NORM == NORM_PARTIAL_RMS) /* h may be far above the part's root mean square */
        y = vec_mul(h, vec_mul(vec_set1(s->scale), gamma));
    if (has_beta) {
        const vec t = vec_sub(h, vec_set1(s->shift));
        y = vec_fma(vec_fma(t, vec_set1(s->scale), vec_set1(s->offset)), gamma, beta);
    }
    if (OP_TARGET == TARGET_ADD)
        y = vec_add(load(w->residual, i, n, f.dtype), vec_round(y, f.dtype));
    store(w->y, i, n, y, f.dtype, f.stream);
}

/* Stores cannot change the copies, which therefore stay in registers. */
NK_INLINE void apply_as(const row *given_w, const statistics *given_s, size_t from, size_t to,
                        const nk_args *a, form f, enum gamma kind, bool with_beta)
{
    const size_t lanes = vec_lanes();
    const row w = *given_w;
    const statistics s = *given_s;
    const inner in = inner_of(&w, a);
    const void *gamma = outer_gamma(a), *beta = a->beta;
    const vec offset = vec_set1(a->gamma_offset + (kind == GAMMA_ABSENT ? 1 : 0));
    size_t i = from;
    for (; i + lanes <= to; i += lanes)
        apply_vec(&w, &s, i, lanes, &in, gamma_at(gamma, i, lanes, offset, f, kind),
                  with_beta ? load_param(beta, i, lanes, f) : vec_zero(), f);
    if (i < to)
        apply_vec(&w, &s, i, rest(to - i), &in, gamma_at(gamma, i, rest(to - i), offset, f, kind),
                  with_beta ? load_param(beta, i, rest(to - i), f) : vec_zero(), f);
}

/* Two rows, which share the loads of gamma and beta. */
NK_INLINE void apply_two(const row *given_w, const statistics *given_s, size_t from, size_t to,
                         const nk_args *a, form f)
{
    const size_t lanes = vec_lanes();
    const row w0 = given_w[0], w1 = given_w[1];
    const statistics s0 = given_s[0], s1 = given_s[1];
    const inner in0 = inner_of(&w0, a), in1 = inner_of(&w1, a);
    const void *gamma = outer_gamma(a), *beta = a->beta;
    for (size_t i = from; i + lanes <= to; i += lanes) {
        const vec g = load_param(gamma, i, lanes, f), b = load_param(beta, i, lanes, f);
        apply_vec(&w0, &s0, i, lanes, &in0, g, b, f);
        apply_vec(&w1, &s1, i, lanes, &in1, g, b, f);
    }
    const size_t left = (to - from) % lanes;
    for (size_t r = 0; r < 2 && left; r++)
        apply_as(&given_w[r], &given_s[r], to - left, to, a, f, GAMMA_PLAIN, true);
}

NK_INLINE void apply(const row *w, const statistics *s, size_t from, size_t to, const nk_args *a,
                     form f)
{
    const enum gamma kind = gamma_kind(outer_gamma(a), a);
    const bool beta = has_beta && a->beta;
    if (kind == GAMMA_PLAIN && beta)
        apply_as(w, s, from, to, a, f, GAMMA_PLAIN, true);
    else if (kind == GAMMA_PLAIN)
        apply_as(w, s, from, to, a, f, GAMMA_PLAIN, false);
    else if (kind == GAMMA_OFFSET && beta)
        apply_as(w, s, from, to, a, f, GAMMA_OFFSET, true);
    else if (kind == GAMMA_OFFSET)
        apply_as(w, s, from, to, a, f, GAMMA_OFFSET, false);
    else if (beta)
        apply_as(w, s, from, to, a, f, GAMMA_ABSENT, true);
    else
        apply_as(w, s, from, to, a, f, GAMMA_ABSENT, false);
}

/* SOURCE_NORM_ADD: the inner norm's scale. A row for which f32 does not do
 * gets its h here, in float64. */
NK_INLINE void read_inner_row(row *w, float *rstd, const nk_args *a, form f)
{
    const row residual = {.x = w->residual};
    const inner in = inner_of(w, a);
    const double squares = square_sum(&residual, a->hidden, &in, f, READ_PLAIN);
    statistics s = {0};
    if (settle_square(&s, squares * (1 / (double)a->hidden), a) != SETTLED) {
        const nk_slow slow = nk_slow_rms(w->residual, a->hidden, f.dtype, a);
        nk_slow_apply(w->h, w->x, w->residual, a->gamma, NULL, slow, f.dtype, a);
        s.rstd = slow.rstd;
        w->kept = true;
    }
    w->inner_scale = s.scale;
    if (rstd)
        *rstd = (float)s.rstd;
}

/* ---- Code for each form, and the walk over rows ---------------------------- */

/* Where loads are what binds the second reading: not in 16 bits, which wait for their
 * conversions. */
#define PAIRS(dtype, stream) (VEC_PAIRS && has_beta && (dtype) == NK_F32 && !(stream))

typedef void settle_function(statistics *s, enum verdict verdict, row *w, const nk_args *a);

/* What is settled the hard way is so in copies: the row and its statistics can then be in
 * registers. */
NK_INLINE void settle_row(statistics *s, row *w, const nk_args *a, size_t r,
                          settle_function *settle_hard)
{
    float *rstd = OP_SOURCE == SOURCE_NORM_ADD ? a->rstd2 : a->rstd;
    const enum verdict verdict = settle(s, a);
    if (__builtin_expect(verdict != SETTLED, 0)) {
        statistics hard = *s;
        row copy = *w;
        settle_hard(&hard, verdict, &copy, a);
        *s = hard;
        *w = copy;
    }
    if (a->mean)
        a->mean[r] = (float)s->mean;
    if (rstd)
        rstd[r] = (float)s->rstd;
}

/* A row of SOURCE_NORM_ADD would have to be read twice ahead; stores past the caches want
 * one row's after the other's. */
NK_INLINE bool goes_ahead(bool stream)
{
    return OP_SOURCE != SOURCE_NORM_ADD && !stream;
}

/* While a row waits for its root and division the next is read. All in one function: a
 * call for each row would cost short ones a tenth. */
NK_INLINE void norm_ahead(const nk_args *a, form f, settle_function *settle_hard)
{
    const size_t bytes = nk_dtypes[f.dtype].bytes;
    row w = {0}, next_w = {0};
    statistics s = {0}, next = {0};
    for (size_t r = 0; r <= a->rows; r++) {
        if (r > 0)
            settle_row(&s, &w, a, r - 1, settle_hard);
        if (r < a->rows) {
            next_w = row_at(a, r, bytes);
            read_row(&next, &next_w, a, f);
        }
        if (r > 0 && !s.done)
            apply(&w, &s, 0, a->hidden, a, f);
        w = next_w;
        s = next;
    }
}

#define NK_FORM(name, dtype, params, stream)                                                       \
    static void read_##name(statistics *s, const row *w, const nk_args *a)                         \
    {                                                                                              \
        read_row(s, w, a, (form){dtype, params, stream});                                          \
    }                                                                                              \
    static void read_inner_##name(row *w, float *rstd, const nk_args *a)                           \
    {                                                                                              \
        read_inner_row(w, rstd, a, (form){dtype, params, stream});                                 \
    }                                                                                              \
    static __attribute__((noinline)) void settle_##name(statistics *s, enum verdict verdict,       \
                                                        row *w, const nk_args *a)                  \
    {                                                                                              \
        settle_hard_row(s, verdict, w, a, (form){dtype, params, stream});                          \
    }                                                                                              \
    static void apply_##name(const row *w, const statistics *s, size_t from, size_t to,            \
                             const nk_args *a)                                                     \
    {                                                                                              \
        apply(w, s, from, to, a, (form){dtype, params, stream});                                   \
    }                                                                                              \
    static void apply_two_##name(const row *w, const statistics *s, size_t from, size_t to,        \
                                 const nk_args *a)                                                 \
    {                                                                                              \
        if (PAIRS(dtype, stream))                                                                  \
            apply_two(w, s, from, to, a, (form){dtype, params, stream});                           \
    }                                                                                              \
    static void ahead_##name(const nk_args *a)                                                     \
    {                                                                                              \
        if (goes_ahead(stream))                                                                    \
            norm_ahead(a, (form){dtype, params, stream}, settle_##name);                           \
    }
#include "form.def"

typedef struct code {
    void (*read)(statistics *s, const row *w, const nk_args *a);
    void (*read_inner)(row *w, float *rstd, const nk_args *a);
    settle_function *settle_hard;
    void (*apply)(const row *w, const statistics *s, size_t from, size_t to, const nk_args *a);
    void (*apply_two)(const row *w, const statistics *s, size_t from, size_t to, const nk_args *a);
    void (*ahead)(const nk_args *a);
} code;

static const code codes[NK_DTYPES][2][2] = {
/* by dtype, params in f32, stream */
#define NK_FORM(name, dtype, params, stream)                                                       \
    [dtype][params == NK_F32][stream] = {read_##name,  read_inner_##name, settle_##name,           \
                                         apply_##name, apply_two_##name,  ahead_##name},
#include "form.def"
};

/* Rows in blocks: the roots and divisions of all together, so that they overlap. */
static void norm_block(const nk_args *a, size_t first, size_t count, plan p, nk_dtype dtype,
                       const code *cached, const code *c)
{
    const size_t bytes = nk_dtypes[dtype].bytes;
    const bool pairs =
        PAIRS(dtype, c != cached) && a->beta && gamma_kind(outer_gamma(a), a) == GAMMA_PLAIN;
    statistics s[PLAN_ROWS];
    row w[PLAN_ROWS];
    for (size_t r = 0; r < count; r++)
        w[r] = row_at(a, first + r, bytes);
    for (size_t r = 0; OP_SOURCE == SOURCE_NORM_ADD && r < count; r++)
        c->read_inner(&w[r], a->rstd ? &a->rstd[first + r] : NULL, a);
    for (size_t r = 0; r < count; r++)
        c->read(&s[r], &w[r], a);
    for (size_t r = 0; r < count; r++)
        settle_row(&s[r], &w[r], a, first + r, c->settle_hard);
    for (size_t from = 0; from < a->hidden; from += p.tile) {
        const size_t to = a->hidden - from < p.tile ? a->hidden : from + p.tile;
        for (size_t r = 0; r < count; r++)
            if (pairs && r + 1 < count && !s[r].done && !s[r + 1].done) {
                c->apply_two(&w[r], &s[r], from, to, a);
                r++;
            } else if (!s[r].done)
                (w[r].kept && OP_SOURCE != SOURCE_X ? cached : c)->apply(&w[r], &s[r], from, to, a);
    }
}

static void run(const nk_args *a, nk_dtype dtype)
{
    const code *cached = codes[dtype][dtype == NK_F32 || a->flags & NK_PARAMS_F32];
    const bool stream = a->store == NK_STORE_STREAM;
    const code *c = &cached[stream];
    const plan p =
        plan_rows(a, dtype, (size_t)(1 + !!a->residual + !!a->h + !!a->y), goes_ahead(stream));
    if (p.ahead) {
        c->ahead(a);
        return;
    }
    for (size_t first = 0; first < a->rows; first += p.rows) {
        const size_t count = a->rows - first < p.rows ? a->rows - first : p.rows;
        norm_block(a, first, count, p, dtype, cached, c);
    }
    if (stream)
        vec_fence();
}
