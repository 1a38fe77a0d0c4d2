/* SPDX-License-Identifier: Apache-2.0 */
/* What a norm reads: rows of operands, and h as the op defines it. */
#include "../slow.h"
#include "form.h"
#include "plan.h"
#include <math.h>

/* An op's file says by OP_NORM, OP_SOURCE and OP_TARGET which norm of what it
 * is, and includes norm.h:
 *   SOURCE_X           h = x
 *   SOURCE_ADD         h = x + residual
 *   SOURCE_SCALED_ADD  h = alpha * x + residual
 *   SOURCE_NORM_ADD    h = x + rmsnorm(residual, gamma); then gamma2 is h's
 *   TARGET_Y           y = norm(h)
 *   TARGET_ADD         h = x + norm(residual): what is normalised is residual */
enum norm {
    NORM_RMS,
    NORM_PARTIAL_RMS,
    NORM_LAYER,
    NORM_LAYER_SHIFTED,
    NORM_LAYER_ONE_PASS,
    NORM_LAYER_TWO_PASS,
    NORM_LAYER_WELFORD
};
enum source { SOURCE_X, SOURCE_ADD, SOURCE_SCALED_ADD, SOURCE_NORM_ADD };
enum target { TARGET_Y, TARGET_ADD };

/* One row of each operand. */
typedef struct row {
    const char *x;             /* read by the source */
    const char *residual;      /* the source's other operand; of TARGET_ADD the stream */
    char *h;                   /* h between the two readings: the caller's, or y */
    char *y;                   /* the result */
    const char *next_x;        /* of the form that streams: what is read after these rows, */
    const char *next_residual; /* or NULL */
    float *floats;             /* of the form that leaves them: h between the two readings */
    float inner_scale;         /* SOURCE_NORM_ADD: what residual is multiplied by */
    bool kept;                 /* h stands in memory, whatever the form */
} row;

static inline row row_at(const nk_args *a, size_t r, size_t bytes)
{
    row w = {.x = (const char *)a->x + r * a->x_ld * bytes};
    if (OP_SOURCE != SOURCE_X || OP_TARGET == TARGET_ADD)
        w.residual = (const char *)a->residual + r * a->residual_ld * bytes;
    if (a->h)
        w.h = (char *)a->h + r * a->h_ld * bytes;
    if (OP_TARGET == TARGET_ADD)
        return (row){.x = w.residual, .residual = w.x, .y = w.h};
    w.y = (char *)a->y + r * a->y_ld * bytes;
    w.h = a->h ? w.h : w.y;
    return w;
}

/* What the source needs beside the rows. */
typedef struct inner {
    vec alpha, scale, offset;
    const void *gamma;
    enum gamma kind;
} inner;

NK_INLINE inner inner_of(const row *w, const nk_args *a)
{
    return (inner){.alpha = vec_set1(a->alpha),
                   .scale = vec_set1(w->inner_scale),
                   .offset = vec_set1(a->gamma_offset + (a->gamma ? 0 : 1)),
                   .gamma = a->gamma,
                   .kind = gamma_kind(a->gamma, a)};
}

/* h as the op defines it, not yet rounded to the dtype. */
NK_INLINE vec source_at(const row *w, size_t i, size_t n, const inner *in, form f)
{
    const vec x = load(w->x, i, n, f.dtype);
    if (OP_SOURCE == SOURCE_X)
        return x;
    vec residual = load(w->residual, i, n, f.dtype);
    if (OP_SOURCE == SOURCE_SCALED_ADD)
        return vec_fma_once(in->alpha, x, residual);
    if (OP_SOURCE == SOURCE_NORM_ADD) {
        const vec gamma = gamma_at(in->gamma, i, n, in->offset, f, in->kind);
        residual = vec_round(vec_mul(vec_mul(residual, in->scale), gamma), f.dtype);
    }
    return vec_add(x, residual);
}

/* h, kept in its place unless the second reading computes it again. */
NK_INLINE vec kept_at(const row *w, size_t i, size_t n, const inner *in, form f)
{
    const vec h = source_at(w, i, n, in, f);
    if (OP_SOURCE == SOURCE_X)
        return h;
    if (!f.stream && n == vec_lanes()) {
        if (VEC_EXPECTS && f.dtype == NK_F32)
            fetch_to_write(w->h, i, f.dtype);
        return vec_store_round(w->h, i, h, f.dtype);
    }
    if (!f.stream)
        vec_store_n(w->h, i, n, h, f.dtype);
    return vec_round(h, f.dtype);
}

/* h in the first reading, for the second. */
NK_INLINE vec first_reading(const row *w, size_t i, size_t n, const inner *in, form f)
{
    const vec h = kept_at(w, i, n, in, f);
    if (leaves_floats(f))
        vec_store(w->floats, i, h, NK_F32);
    return h;
}

/* Puts h where the second reading finds it, in the form that streams. */
NK_INLINE void keep_h(row *w, const nk_args *a, form f)
{
    const size_t lanes = vec_lanes();
    const inner in = inner_of(w, a);
    const bool stands = OP_SOURCE == SOURCE_X || w->kept || !f.stream;
    w->kept = true;
    if (stands)
        return;
    f.stream = false;
    for (size_t i = 0; i < a->hidden; i += lanes)
        kept_at(w, i, a->hidden - i < lanes ? a->hidden - i : lanes, &in, f);
}

/* Where h is after that. */
static inline const char *kept_h(const row *w)
{
    return OP_SOURCE == SOURCE_X ? w->x : w->h;
}
