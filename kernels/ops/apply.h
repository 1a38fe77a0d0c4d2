/* SPDX-License-Identifier: Apache-2.0 */
/* The second reading of a row, or of some of its columns: its statistics applied. */
#include "row.h"

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
    bool done; /* y is written already: a row for the slow path */
} statistics;

static const bool is_rms = OP_NORM == NORM_RMS || OP_NORM == NORM_PARTIAL_RMS;
static const bool has_beta = !is_rms;

static inline const void *outer_gamma(const nk_args *a)
{
    return OP_SOURCE == SOURCE_NORM_ADD ? a->gamma2 : a->gamma;
}

/* These shift every row, the others only those that need it. */
static const bool shifts = OP_NORM == NORM_LAYER_SHIFTED || OP_NORM == NORM_LAYER_TWO_PASS ||
                           OP_NORM == NORM_LAYER_WELFORD;

/* What of a call and its row the compiler makes code apiece for. */
typedef struct variant {
    enum gamma gamma;
    bool beta;
    bool shift;  /* it may be other than 0 */
    bool expect; /* y is fetched before it is written */
} variant;

/* What nearly all rows of plain calls are. */
static const variant usual = {GAMMA_PLAIN, has_beta, shifts, false};

/* gamma without an offset, and beta where the norm has one: what nearly all calls are. */
NK_INLINE bool is_plain(const nk_args *a)
{
    return gamma_kind(outer_gamma(a), a) == GAMMA_PLAIN && has_beta == !!a->beta;
}

NK_INLINE bool is_usual(const statistics *s)
{
    return is_rms || shifts || s->shift == 0;
}

/* A row to be applied. In copies, which stores cannot change: they stay in registers. */
typedef struct job {
    row w;
    statistics s;
    inner in;
    const void *gamma, *beta;
    vec offset;
    variant v;
} job;

NK_INLINE job job_of(const row *w, const statistics *s, const nk_args *a, variant v)
{
    return (job){.w = *w,
                 .s = *s,
                 .in = inner_of(w, a),
                 .gamma = outer_gamma(a),
                 .beta = a->beta,
                 .offset = vec_set1(a->gamma_offset + (v.gamma == GAMMA_ABSENT ? 1 : 0)),
                 .v = v};
}

NK_INLINE vec result_of(const job *j, size_t i, size_t n, vec gamma, vec beta, form f)
{
    const row *w = &j->w;
    const bool again = f.stream && OP_SOURCE != SOURCE_X;
    const vec h = again              ? vec_round(source_at(w, i, n, &j->in, f), f.dtype)
                  : leaves_floats(f) ? vec_load(w->floats, i, NK_F32)
                                     : load(kept_h(w), i, n, f.dtype);
    const vec scale = vec_set1(j->s.scale);
    if (f.stream && n == vec_lanes()) {
        fetch_next(w->next_x, i, f.dtype);
        fetch_next(w->next_residual, i, f.dtype);
    }
    if (again && w->h != w->y)
        store(w->h, i, n, h, f.dtype, true);
    vec y = vec_mul(vec_mul(h, scale), gamma);
    if (OP_NORM == NORM_PARTIAL_RMS) /* h may be far above the part's root mean square */
        y = vec_mul(h, vec_mul(scale, gamma));
    if (has_beta) {
        const vec t = j->v.shift ? vec_sub(h, vec_set1(j->s.shift)) : h;
        y = vec_fma(vec_fma(t, scale, vec_set1(j->s.offset)), gamma, beta);
    }
    if (OP_TARGET == TARGET_ADD)
        y = vec_add(load(w->residual, i, n, f.dtype), vec_round(y, f.dtype));
    return y;
}

NK_INLINE void put(const job *j, size_t i, size_t n, vec y, form f)
{
    if (j->v.expect && n == vec_lanes())
        fetch_to_write(j->w.y, i, f.dtype);
    store(j->w.y, i, n, y, f.dtype, f.stream);
}

NK_INLINE void apply_vec(const job *j, size_t i, size_t n, vec gamma, vec beta, form f)
{
    put(j, i, n, result_of(j, i, n, gamma, beta, f), f);
}

NK_INLINE void apply_one(const job *j, size_t i, size_t n, form f)
{
    apply_vec(j, i, n, gamma_at(j->gamma, i, n, j->offset, f, j->v.gamma),
              j->v.beta ? load_param(j->beta, i, n, f) : vec_zero(), f);
}

/* Less than a vec, or some whole ones, of the row beside which another is read: before the
 * floats of that one take their place, else after (reads of both are then together). Nothing
 * of a row that is NULL. */
NK_INLINE void apply_beside(const job *j, bool before, size_t from, size_t n, form f)
{
    const size_t lanes = vec_lanes();
    if (before != leaves_floats(f))
        return;
    if (j && n < lanes)
        apply_one(j, from, n, f);
    else if (j)
        for (size_t i = 0; i < n; i += lanes)
            apply_one(j, from + i, lanes, f);
}

NK_INLINE void apply_as(const row *w, const statistics *s, size_t from, size_t to, const nk_args *a,
                        form f, variant v)
{
    const size_t lanes = vec_lanes();
    const job j = job_of(w, s, a, v);
    size_t i = from;
    for (; i + lanes <= to; i += lanes)
        apply_one(&j, i, lanes, f);
    if (i < to)
        apply_one(&j, i, rest(to - i), f);
}

/* Two or four usual rows, which share the loads of gamma and beta. Four are read before any is
 * written: the x of one may lie where the y of another does, modulo 4096. Named one by one: of
 * an array gcc would read every address anew. */
NK_INLINE void apply_shared(const row *w, const statistics *s, bool four, size_t from, size_t to,
                            const nk_args *a, form f)
{
    const size_t lanes = vec_lanes(), left = (to - from) % lanes;
    const job j0 = job_of(&w[0], &s[0], a, usual), j1 = job_of(&w[1], &s[1], a, usual);
    const job j2 = four ? job_of(&w[2], &s[2], a, usual) : j0;
    const job j3 = four ? job_of(&w[3], &s[3], a, usual) : j0;
    for (size_t i = from; i + lanes <= to; i += lanes) {
        const vec gamma = load_param(j0.gamma, i, lanes, f);
        const vec beta = has_beta ? load_param(j0.beta, i, lanes, f) : vec_zero();
        if (!four) {
            apply_vec(&j0, i, lanes, gamma, beta, f);
            apply_vec(&j1, i, lanes, gamma, beta, f);
            continue;
        }
        const vec y0 = result_of(&j0, i, lanes, gamma, beta, f);
        const vec y1 = result_of(&j1, i, lanes, gamma, beta, f);
        const vec y2 = result_of(&j2, i, lanes, gamma, beta, f);
        const vec y3 = result_of(&j3, i, lanes, gamma, beta, f);
        put(&j0, i, lanes, y0, f);
        put(&j1, i, lanes, y1, f);
        put(&j2, i, lanes, y2, f);
        put(&j3, i, lanes, y3, f);
    }
    for (size_t r = 0; r < (four ? 4 : 2) && left; r++)
        apply_as(&w[r], &s[r], to - left, to, a, f, usual);
}

NK_INLINE void apply_plain(const row *w, const statistics *s, size_t from, size_t to,
                           const nk_args *a, form f, bool expect)
{
    if (is_usual(s))
        apply_as(w, s, from, to, a, f, (variant){GAMMA_PLAIN, has_beta, shifts, expect});
    else
        apply_as(w, s, from, to, a, f, (variant){GAMMA_PLAIN, has_beta, true, expect});
}

NK_INLINE void apply(const row *w, const statistics *s, size_t from, size_t to, const nk_args *a,
                     form f, bool expect)
{
    const enum gamma gamma = gamma_kind(outer_gamma(a), a);
    const bool beta = has_beta && a->beta;
    if (is_plain(a))
        apply_plain(w, s, from, to, a, f, expect);
    else if (gamma == GAMMA_PLAIN)
        apply_as(w, s, from, to, a, f, (variant){GAMMA_PLAIN, false, true, expect});
    else if (gamma == GAMMA_OFFSET && beta)
        apply_as(w, s, from, to, a, f, (variant){GAMMA_OFFSET, true, true, expect});
    else if (gamma == GAMMA_OFFSET)
        apply_as(w, s, from, to, a, f, (variant){GAMMA_OFFSET, false, true, expect});
    else if (beta)
        apply_as(w, s, from, to, a, f, (variant){GAMMA_ABSENT, true, true, expect});
    else
        apply_as(w, s, from, to, a, f, (variant){GAMMA_ABSENT, false, true, expect});
}
