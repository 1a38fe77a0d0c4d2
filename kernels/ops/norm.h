/* SPDX-License-Identifier: Apache-2.0 */
/* The norms of rows, plain and fused with the residual addition before or
 * after them:
 *
 *   y = (h - mean) * rstd * (gamma + gamma_offset) + beta
 *
 * Each row is read twice: for its statistics (statistics.h), then to apply
 * them (apply.h). What makes this fast is the order in which rows and columns are walked
 * (plan.h); what makes it right for every finite row is the shift and the slow
 * path (slow.h). */
#include "statistics.h"

/* SOURCE_NORM_ADD: the inner norm's scale. A row for which f32 does not do
 * gets its h here, in float64. */
NK_INLINE void read_inner_row(row *w, float *rstd, const nk_args *a, form f)
{
    const row residual = {.x = w->residual};
    const inner in = inner_of(w, a);
    const double squares = square_sum(&residual, a->hidden, &in, f, READ_PLAIN, NULL);
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

/* Rows of a block that are applied at once and share what they load of gamma and beta: two
 * where loads bind the second reading; four in 16 bits, which wait for conversions. */
#define SHARED(dtype, stream)                                                                      \
    ((stream) || OP_TARGET != TARGET_Y ? 1 : (dtype) != NK_F32 ? 4 : VEC_PAIRS && has_beta ? 2 : 1)

/* Where it is what comes from L2 and goes there that takes time: not in 16 bits. Then blocks
 * of rows fetch y before it is written, and on Intel rows are read beside those that are
 * applied (square_sum has 4 vecs of sums, moments_of 6). */
#define BY_LINES(dtype, stream)                                                                    \
    ((is_rms ? 4 : 6) <= VEC_SUMS_BESIDE && (dtype) == NK_F32 && !(stream))

typedef void settle_function(statistics *s, enum verdict verdict, row *w, const nk_args *a);
typedef void apply_function(const row *w, const statistics *s, size_t from, size_t to,
                            const nk_args *a);
typedef void ahead_function(const nk_args *a, const nk_args *given, settle_function *settle_hard);

/* What is settled the hard way is so in copies: the row and its statistics can then be in
 * registers. It reads gamma and beta as they were given. */
NK_INLINE void settle_row(statistics *s, row *w, double share, const nk_args *a,
                          const nk_args *given, size_t r, settle_function *settle_hard)
{
    float *rstd = OP_SOURCE == SOURCE_NORM_ADD ? a->rstd2 : a->rstd;
    const enum verdict verdict = settle(s, share, a);
    if (__builtin_expect(verdict != SETTLED, 0)) {
        statistics hard = *s;
        row copy = *w;
        settle_hard(&hard, verdict, &copy, given);
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

/* While a row waits for its root and division the next is read: whole, or beside the row
 * that is applied. All in one function: a call for each row, however seldom, would cost short
 * ones a tenth; hence for plain calls alone. Floats that are left are one row, whose place those
 * of the next one take. */
NK_INLINE void norm_ahead(const nk_args *a, const nk_args *given, float *floats, form f,
                          settle_function *settle_hard)
{
    const size_t bytes = nk_dtypes[f.dtype].bytes;
    const bool beside =
        leaves_floats(f) || (BY_LINES(f.dtype, f.stream) && can_read_beside &&
                             a->hidden >= SHORTEST_BESIDE && nk_machine()->overlaps);
    const double share = share_of(a);
    row w = {0}, next_w = {0};
    statistics s = {0}, next = {0};
    for (size_t r = 0; r <= a->rows; r++) {
        if (r > 0)
            settle_row(&s, &w, share, a, given, r - 1, settle_hard);
        const bool applies = r > 0 && !s.done;
        const bool reads = r < a->rows;
        if (reads)
            next_w = row_at(a, r, bytes);
        next_w.floats = floats;
        if (beside && reads && applies && is_usual(&s)) {
            variant v = usual;
            v.expect = VEC_EXPECTS && f.dtype == NK_F32;
            const job j = job_of(&w, &s, a, v);
            read_row(&next, &next_w, a, f, &j);
        } else {
            if (applies && leaves_floats(f))
                apply_plain(&w, &s, 0, a->hidden, a, f, false);
            if (reads)
                read_row(&next, &next_w, a, f, NULL);
            if (applies && !leaves_floats(f))
                apply_plain(&w, &s, 0, a->hidden, a, f, false);
        }
        w = next_w;
        s = next;
    }
}

/* Columns of floats in the dtype's order, at most WIDE_COLUMNS, that make a call plain: gamma
 * with its offset, or ones, and beta, or zeros. */
NK_INLINE void widen_columns(float *gamma, float *beta, const nk_args *a, form f)
{
    const size_t lanes = vec_lanes();
    const enum gamma kind = gamma_kind(a->gamma, a);
    const vec offset = vec_set1(a->gamma_offset + (kind == GAMMA_ABSENT ? 1 : 0));
    for (size_t i = 0; i < a->hidden; i += lanes) {
        const size_t n = a->hidden - i < lanes ? rest(a->hidden - i) : lanes;
        vec_store(gamma, i, gamma_at(a->gamma, i, n, offset, f, kind), NK_F32);
        if (has_beta)
            vec_store(beta, i, a->beta ? load_param(a->beta, i, n, f) : vec_zero(), NK_F32);
    }
}

#define NK_FORM(name, dtype, params, stream)                                                       \
    static void read_##name(statistics *s, const row *w, const nk_args *a)                         \
    {                                                                                              \
        read_row(s, w, a, (form){dtype, params, stream}, NULL);                                    \
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
        apply(w, s, from, to, a, (form){dtype, params, stream}, BY_LINES(dtype, stream));          \
    }                                                                                              \
    static void apply_two_##name(const row *w, const statistics *s, size_t from, size_t to,        \
                                 const nk_args *a)                                                 \
    {                                                                                              \
        if (SHARED(dtype, stream) > 1)                                                             \
            apply_shared(w, s, false, from, to, a, (form){dtype, params, stream});                 \
    }                                                                                              \
    static void apply_four_##name(const row *w, const statistics *s, size_t from, size_t to,       \
                                  const nk_args *a)                                                \
    {                                                                                              \
        if (SHARED(dtype, stream) == 4)                                                            \
            apply_shared(w, s, true, from, to, a, (form){dtype, params, stream});                  \
    }                                                                                              \
    static void ahead_##name(const nk_args *a, const nk_args *given, settle_function *settle_hard) \
    {                                                                                              \
        if (goes_ahead(stream))                                                                    \
            norm_ahead(a, given, NULL, (form){dtype, params, stream}, settle_hard);                \
    }                                                                                              \
    static void widen_##name(float *gamma, float *beta, const nk_args *a)                          \
    {                                                                                              \
        if (goes_ahead(stream))                                                                    \
            widen_columns(gamma, beta, a, (form){dtype, params, stream});                          \
    }
#include "form.def"

static void ahead_bf16_wide(const nk_args *a, const nk_args *given, settle_function *settle_hard)
{
    if (goes_ahead(false))
        norm_ahead(a, given, NULL, (form){NK_BF16, PARAMS_WIDE, false}, settle_hard);
}

/* The norms that have read all of a row when they have its statistics. */
static const bool can_leave_floats = VEC_LEAVES_FLOATS && can_read_beside;

static void ahead_f16_wide(const nk_args *a, const nk_args *given, float *floats,
                           settle_function *settle_hard)
{
    if (can_leave_floats && goes_ahead(false))
        norm_ahead(a, given, floats, (form){NK_F16, PARAMS_WIDE, false}, settle_hard);
}

typedef struct code {
    void (*read)(statistics *s, const row *w, const nk_args *a);
    void (*read_inner)(row *w, float *rstd, const nk_args *a);
    settle_function *settle_hard;
    apply_function *apply, *apply_two, *apply_four;
    ahead_function *ahead;
    void (*widen)(float *gamma, float *beta, const nk_args *a);
} code;

static const code codes[NK_DTYPES][2][2] = {
/* by dtype, params in f32, stream */
#define NK_FORM(name, dtype, params, stream)                                                       \
    [dtype][params == NK_F32][stream] = {read_##name,  read_inner_##name, settle_##name,           \
                                         apply_##name, apply_two_##name,  apply_four_##name,       \
                                         ahead_##name, widen_##name},
#include "form.def"
};

/* How many of the next rows are applied at once: 1, 2 or 4, at most `most`. */
static size_t rows_at_once(const statistics *s, size_t count, size_t most)
{
    size_t n = 0;
    while (n < count && n < most && !s[n].done && is_usual(&s[n]))
        n++;
    return n == 4 ? 4 : n >= 2 ? 2 : 1;
}

/* Rows in blocks: the roots and divisions of all together, so that they overlap. */
static void norm_block(const nk_args *a, size_t first, size_t count, plan p, size_t shared,
                       nk_dtype dtype, const code *cached, const code *c)
{
    const size_t bytes = nk_dtypes[dtype].bytes;
    const double share = share_of(a);
    statistics s[PLAN_ROWS];
    row w[PLAN_ROWS];
    for (size_t r = 0; r < count; r++) {
        w[r] = row_at(a, first + r, bytes);
        if (c != cached && first + p.rows + r < a->rows && nk_machine()->overlaps) {
            const row next = row_at(a, first + p.rows + r, bytes);
            w[r].next_x = next.x;
            w[r].next_residual = next.residual;
        }
    }
    for (size_t r = 0; OP_SOURCE == SOURCE_NORM_ADD && r < count; r++)
        c->read_inner(&w[r], a->rstd ? &a->rstd[first + r] : NULL, a);
    for (size_t r = 0; r < count; r++)
        c->read(&s[r], &w[r], a);
    for (size_t r = 0; r < count; r++)
        settle_row(&s[r], &w[r], share, a, a, first + r, c->settle_hard);
    for (size_t from = 0; from < a->hidden; from += p.tile) {
        const size_t to = a->hidden - from < p.tile ? a->hidden : from + p.tile;
        for (size_t r = 0, n; r < count; r += n) {
            n = rows_at_once(&s[r], count - r, shared);
            if (n == 4)
                c->apply_four(&w[r], &s[r], from, to, a);
            else if (n == 2)
                c->apply_two(&w[r], &s[r], from, to, a);
            else if (!s[r].done)
                (w[r].kept && OP_SOURCE != SOURCE_X ? cached : c)->apply(&w[r], &s[r], from, to, a);
        }
    }
}

static void run_blocks(const nk_args *a, nk_dtype dtype, plan p, size_t shared, const code *cached,
                       const code *c)
{
    for (size_t first = 0; first < a->rows; first += p.rows) {
        const size_t count = a->rows - first < p.rows ? a->rows - first : p.rows;
        norm_block(a, first, count, p, shared, dtype, cached, c);
    }
    if (a->store == NK_STORE_STREAM)
        vec_fence();
}

/* gamma and beta made ready once for all rows. Those of f16 are then as a caller may give
 * them, floats in their own order. Half a page lies before the floats that readings leave,
 * whose stores would else be where gamma is loaded modulo 4096. */
static __attribute__((noinline)) void run_wide(const nk_args *a, nk_dtype dtype, plan p,
                                               size_t shared, const code *c)
{
    enum { HALF_PAGE = 512 };
    _Alignas(64) float columns[2 * WIDE_COLUMNS + 2 * HALF_PAGE];
    const size_t lanes = vec_lanes(), column = (a->hidden + lanes - 1) / lanes * lanes;
    float *gamma = columns, *beta = gamma + column;
    nk_args wide = *a;
    c->widen(gamma, beta, a);
    wide.gamma = gamma;
    wide.beta = has_beta ? beta : NULL;
    wide.gamma_offset = 0;
    if (!p.ahead) {
        wide.flags |= NK_PARAMS_F32;
        run_blocks(&wide, dtype, p, shared, &codes[dtype][true][false], &codes[dtype][true][false]);
    } else if (p.floats) {
        ahead_f16_wide(&wide, a, (has_beta ? beta : gamma) + column + HALF_PAGE, c->settle_hard);
    } else if (dtype == NK_BF16) {
        ahead_bf16_wide(&wide, a, c->settle_hard);
    } else {
        codes[dtype][true][false].ahead(&wide, a, c->settle_hard);
    }
}

static void run(const nk_args *a, nk_dtype dtype)
{
    const code *cached = codes[dtype][dtype == NK_F32 || a->flags & NK_PARAMS_F32];
    const bool stream = a->store == NK_STORE_STREAM;
    const code *c = &cached[stream];
    const bool plain = is_plain(a);
    const ways can = {.ahead = goes_ahead(stream),
                      .plain = plain,
                      .shared = plain ? SHARED(dtype, stream) : 1,
                      .widens = VEC_WIDENS,
                      .leaves_floats = can_leave_floats,
                      .columns = has_beta ? 2 : 1,
                      .fused = OP_SOURCE != SOURCE_X || OP_TARGET != TARGET_Y};
    const plan p = plan_rows(a, dtype, (size_t)(1 + !!a->residual + !!a->h + !!a->y), can);
    if (p.wide)
        run_wide(a, dtype, p, can.shared, c);
    else if (p.ahead)
        c->ahead(a, a, c->settle_hard);
    else
        run_blocks(a, dtype, p, can.shared, cached, c);
}
