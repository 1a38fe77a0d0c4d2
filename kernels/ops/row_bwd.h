/* SPDX-License-Identifier: Apache-2.0 */
/* What the gradients of a norm read: rows of operands, what was normalised, and what comes
 * back to it. */
#define OP_SOURCE SOURCE_X
#define OP_TARGET TARGET_Y
#include "statistics.h"

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
