/* SPDX-License-Identifier: Apache-2.0 */
#include "reference.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every op is a way to form the row that is normalised (h), and a norm over it;
 * a backward op is the gradient of that. */
enum join {
    JOIN_NONE,    /* h is x */
    JOIN_ADD,     /* x + residual */
    JOIN_SCALED,  /* alpha * x + residual */
    JOIN_SANDWICH /* x + rmsnorm(residual) */
};
enum norm { NORM_NONE, NORM_COPY, NORM_LAYER, NORM_RMS, NORM_PARTIAL_RMS, NORM_TANH };

typedef struct form {
    const char *op;
    enum join join;
    enum norm norm;
} form;

static const form forms[] = {
    {"copy", JOIN_NONE, NORM_COPY},
    {"residual_add", JOIN_ADD, NORM_NONE},
    {"layernorm", JOIN_NONE, NORM_LAYER},
    {"rmsnorm", JOIN_NONE, NORM_RMS},
    {"prmsnorm", JOIN_NONE, NORM_PARTIAL_RMS},
    {"add_layernorm", JOIN_ADD, NORM_LAYER},
    {"add_rmsnorm", JOIN_ADD, NORM_RMS},
    {"deepnorm", JOIN_SCALED, NORM_LAYER},
    {"rmsnorm_add", JOIN_SANDWICH, NORM_NONE},
    {"rmsnorm_add_rmsnorm", JOIN_SANDWICH, NORM_RMS},
    {"dyt", JOIN_NONE, NORM_TANH},
    {"layernorm_bwd", JOIN_NONE, NORM_LAYER},
    {"rmsnorm_bwd", JOIN_NONE, NORM_RMS},
    {"prmsnorm_bwd", JOIN_NONE, NORM_PARTIAL_RMS},
    {"add_layernorm_bwd", JOIN_ADD, NORM_LAYER},
    {"add_rmsnorm_bwd", JOIN_ADD, NORM_RMS},
    {"deepnorm_bwd", JOIN_SCALED, NORM_LAYER},
    {"rmsnorm_add_bwd", JOIN_SANDWICH, NORM_NONE},
    {"rmsnorm_add_rmsnorm_bwd", JOIN_SANDWICH, NORM_RMS},
    {"dyt_bwd", JOIN_NONE, NORM_TANH},
};

typedef struct call {
    const nk_args *args;
    nk_dtype dtype;
    form form;
    nk_expected *expected;
} call;

/* What a norm takes from a row: normalised v is ((v - shift) - delta) * rstd.
 * The shift, an element of the row, is kept apart from the rest of the mean so
 * that a constant row has differences of exactly 0. */
typedef struct statistics {
    double shift, delta, sd, rstd;
} statistics;

static double largest(double a, double b)
{
    return fabs(a) > fabs(b) ? fabs(a) : fabs(b);
}

/* ---- Operands ----------------------------------------------------------- */

static double row_element(const call *c, int operand, size_t row, size_t i)
{
    const size_t ld = nk_operand_ld(c->args, operand);
    return (double)nk_to_float(nk_operand_get(c->args, operand),
                               row * (ld ? ld : c->args->hidden) + i, c->dtype);
}

static double column_element(const call *c, int operand, size_t i, double absent)
{
    const void *column = nk_operand_get(c->args, operand);
    const nk_dtype dtype = c->args->flags & NK_PARAMS_F32 ? NK_F32 : c->dtype;
    return column ? (double)nk_to_float(column, i, dtype) : absent;
}

static double gamma_element(const call *c, int operand, size_t i)
{
    return column_element(c, operand, i, 1.0) + (double)c->args->gamma_offset;
}

static double rounded(nk_dtype dtype, double value)
{
    uint32_t element;
    nk_from_double(&element, 0, dtype, value);
    return (double)nk_to_float(&element, 0, dtype);
}

/* A sum or fma that was made in float, then rounded once to the dtype. */
static double rounded_float(nk_dtype dtype, float value)
{
    uint32_t element;
    nk_from_float(&element, 0, dtype, value);
    return (double)nk_to_float(&element, 0, dtype);
}

static void put(const call *c, int operand, size_t i, double value, double scale)
{
    const nk_expected *e = &c->expected[operand];
    if (!e->value)
        return;
    e->value[i] = value;
    if (e->scale)
        e->scale[i] = scale;
}

/* ---- Statistics --------------------------------------------------------- */

/* Neumaier's compensated sum. */
typedef struct sum {
    double total, lost;
} sum;

static void sum_add(sum *s, double v)
{
    const double total = s->total + v;
    s->lost += fabs(s->total) >= fabs(v) ? (s->total - total) + v : (v - total) + s->total;
    s->total = total;
}

static double sum_get(const sum *s)
{
    return isfinite(s->total) ? s->total + s->lost : s->total;
}

/* 1 / sqrt(variance + eps) or 1 / (sqrt(variance) + eps), and 0 where that
 * would divide by zero: such a row normalises to 0. */
static double reciprocal_root(const call *c, double variance)
{
    const double eps = (double)c->args->eps;
    const double root =
        c->args->flags & NK_EPS_OUTSIDE ? sqrt(variance) + eps : sqrt(variance + eps);
    return root == 0.0 ? 0.0 : 1.0 / root;
}

static statistics rms_statistics(const call *c, const double *v, size_t n)
{
    sum squares = {0};
    for (size_t i = 0; i < n; i++)
        sum_add(&squares, v[i] * v[i]);
    const double mean_square = sum_get(&squares) / (double)n;
    return (statistics){.sd = sqrt(mean_square), .rstd = reciprocal_root(c, mean_square)};
}

static double degrees_of_freedom(const call *c, size_t n)
{
    return c->args->flags & NK_UNBIASED && n > 1 ? (double)(n - 1) : (double)n;
}

static statistics layer_statistics(const call *c, const double *v, size_t n)
{
    sum differences = {0}, squares = {0};
    for (size_t i = 0; i < n; i++)
        sum_add(&differences, v[i] - v[0]);
    const double delta = sum_get(&differences) / (double)n;
    for (size_t i = 0; i < n; i++) {
        const double d = (v[i] - v[0]) - delta;
        sum_add(&squares, d * d);
    }
    const double variance = sum_get(&squares) / degrees_of_freedom(c, n);
    if (!isfinite(variance)) /* a NaN or an infinity in the row */
        return (statistics){.shift = NAN, .delta = NAN, .sd = NAN, .rstd = NAN};
    return (statistics){v[0], delta, sqrt(variance), reciprocal_root(c, variance)};
}

/* Elements of the mean square of prmsnorm. The product is a float one, so that
 * a tenth of ten elements is one and not two. */
static size_t partial_hidden(const nk_args *args)
{
    const float n = ceilf(args->fraction * (float)args->hidden);
    if (!(n >= 1.0f))
        return 1;
    return n < (float)args->hidden ? (size_t)n : args->hidden;
}

static double normalised(const statistics *s, double v)
{
    return ((v - s->shift) - s->delta) * s->rstd;
}

/* ---- Forward ------------------------------------------------------------ */

static void put_statistics(const call *c, size_t row, const statistics *s, double off, int rstd)
{
    const double mean = s->shift + s->delta;
    put(c, NK_OPERAND_MEAN, row, mean, largest(largest(mean, s->sd), FLT_MIN));
    put(c, rstd, row, s->rstd, largest(s->rstd, FLT_MIN) * off);
}

/* One unit in the last place of a value in the dtype, in the scale's terms: a
 * rounding that may fall on either side of a tie is no error. */
static double tie_scale(nk_dtype dtype, double value)
{
    int exponent;
    if (dtype == NK_F32 || value == 0 || !isfinite(value))
        return fabs(value);
    frexp(value, &exponent);
    return ldexp(1, exponent - nk_dtypes[dtype].digits + 23) / 8;
}

/* h[i] = x[i] + rmsnorm(residual)[i], the norm rounded as if it were stored.
 * slack[i] is what the roundings of the norm and of h may cost h. */
static void join_sandwich(const call *c, size_t row, double *h, double *slack)
{
    const size_t hidden = c->args->hidden;
    for (size_t i = 0; i < hidden; i++)
        h[i] = row_element(c, NK_OPERAND_RESIDUAL, row, i);
    const statistics s = rms_statistics(c, h, hidden);
    put(c, NK_OPERAND_RSTD, row, s.rstd, largest(s.rstd, FLT_MIN));
    for (size_t i = 0; i < hidden; i++) {
        const double x = row_element(c, NK_OPERAND_X, row, i);
        const double gamma = gamma_element(c, NK_OPERAND_GAMMA, i);
        const double n = rounded(c->dtype, normalised(&s, h[i]) * gamma);
        h[i] = rounded_float(c->dtype, (float)x + (float)n);
        slack[i] = tie_scale(c->dtype, n) + tie_scale(c->dtype, h[i]);
        put(c, NK_OPERAND_H, row * hidden + i, h[i],
            largest(largest(x, h[i]), largest(gamma, 1.0)) + slack[i]);
    }
}

static void join_row(const call *c, size_t row, double *h, double *slack)
{
    if (c->form.join == JOIN_SANDWICH) {
        join_sandwich(c, row, h, slack);
        return;
    }
    const size_t hidden = c->args->hidden;
    for (size_t i = 0; i < hidden; i++) {
        h[i] = row_element(c, NK_OPERAND_X, row, i);
        if (c->form.join == JOIN_NONE || !c->args->residual)
            continue; /* backward, x is h where there is no residual */
        const float x = (float)h[i];
        const float residual = (float)row_element(c, NK_OPERAND_RESIDUAL, row, i);
        h[i] =
            rounded_float(c->dtype, c->form.join == JOIN_SCALED ? fmaf(c->args->alpha, x, residual)
                                                                : x + residual);
        put(c, NK_OPERAND_H, row * hidden + i, h[i], 0.0); /* exact */
    }
}

static statistics row_statistics(const call *c, const double *h)
{
    switch (c->form.norm) {
    case NORM_LAYER:
        return layer_statistics(c, h, c->args->hidden);
    case NORM_RMS:
        return rms_statistics(c, h, c->args->hidden);
    case NORM_PARTIAL_RMS:
        return rms_statistics(c, h, partial_hidden(c->args));
    default:
        return (statistics){0};
    }
}

static void copy_row(const call *c, size_t row, const double *x)
{
    for (size_t i = 0; i < c->args->hidden; i++) {
        put(c, NK_OPERAND_Y, row * c->args->hidden + i, x[i], 0.0);
        if (c->args->residual)
            put(c, NK_OPERAND_H, row * c->args->hidden + i,
                row_element(c, NK_OPERAND_RESIDUAL, row, i), 0.0);
    }
}

static void forward_row(const call *c, size_t row, double *h, double *slack)
{
    const bool sandwich = c->form.join == JOIN_SANDWICH;
    const int gamma_operand = sandwich ? NK_OPERAND_GAMMA2 : NK_OPERAND_GAMMA;
    join_row(c, row, h, slack);
    if (c->form.norm == NORM_COPY)
        copy_row(c, row, h);
    if (c->form.norm == NORM_NONE || c->form.norm == NORM_COPY)
        return;
    const statistics s = row_statistics(c, h);
    double squares = 0; /* of what h may be off by; the statistics then are, too */
    for (size_t i = 0; sandwich && i < c->args->hidden; i++)
        squares += slack[i] * slack[i];
    const double off = 1 + sqrt(squares / (double)c->args->hidden) * s.rstd;
    if (c->form.norm != NORM_TANH)
        put_statistics(c, row, &s, off, sandwich ? NK_OPERAND_RSTD2 : NK_OPERAND_RSTD);
    for (size_t i = 0; i < c->args->hidden; i++) {
        const double gamma = gamma_element(c, gamma_operand, i);
        const double beta = column_element(c, NK_OPERAND_BETA, i, 0.0);
        const double n =
            c->form.norm == NORM_TANH ? tanh((double)c->args->alpha * h[i]) : normalised(&s, h[i]);
        const double y = n * gamma + beta;
        double scale = largest(largest(y, gamma), largest(beta, 1.0));
        if (sandwich)
            scale = largest(scale, largest(row_element(c, NK_OPERAND_X, row, i), h[i])) +
                    slack[i] * s.rstd * fabs(gamma) + fabs(y) * (off - 1);
        if (c->form.norm != NORM_TANH && s.sd == 0.0 && n == 0.0) /* beta, exactly */
            scale = 0.0;
        put(c, NK_OPERAND_Y, row * c->args->hidden + i, y, scale);
    }
}

/* ---- Backward ------------------------------------------------------------ */

/* The gradient on its way back through a row: what it is, and what its errors
 * are measured by. */
typedef struct gradient {
    double *value, *size;
} gradient;

/* The operands of one norm; -1 where it has none. */
typedef struct norm_operands {
    enum norm norm;
    int gamma, mean, rstd, dgamma, dbeta;
} norm_operands;

static void add_to(const call *c, int operand, size_t i, double value, double scale)
{
    const nk_expected *e = operand < 0 ? NULL : &c->expected[operand];
    if (!e || !e->value)
        return;
    e->value[i] += value;
    if (e->scale)
        e->scale[i] += scale;
}

static bool statistics_given(const call *c, const norm_operands *o)
{
    return nk_operand_get(c->args, o->rstd) && (o->mean < 0 || c->args->mean);
}

/* Given, then exact; else the row's own. */
static statistics backward_statistics(const call *c, const norm_operands *o, size_t row,
                                      const double *v)
{
    const size_t hidden = c->args->hidden;
    const size_t count = o->norm == NORM_PARTIAL_RMS ? partial_hidden(c->args) : hidden;
    if (!statistics_given(c, o))
        return o->norm == NORM_LAYER ? layer_statistics(c, v, hidden) : rms_statistics(c, v, count);
    statistics s = {.rstd = (double)((const float *)nk_operand_get(c->args, o->rstd))[row]};
    double divisor = (double)count, squares = 0;
    if (o->norm == NORM_LAYER) {
        s.shift = (double)c->args->mean[row];
        divisor = degrees_of_freedom(c, hidden);
    }
    for (size_t i = 0; i < count; i++)
        squares += (v[i] - s.shift) * (v[i] - s.shift);
    s.sd = sqrt(squares / divisor);
    return s;
}

/* What a row's gradient takes from the whole row; w is gamma * dy. */
typedef struct row_sums {
    double w, wx, wx_size, largest_w;
    bool flat; /* no variance (mean square): then there is no gradient */
} row_sums;

static row_sums sums_of_row(const call *c, const norm_operands *o, const statistics *s,
                            const double *v, const gradient *d)
{
    row_sums sums = {.largest_w = FLT_MIN, .flat = true};
    for (size_t i = 0; i < c->args->hidden; i++) {
        const double xhat = normalised(s, v[i]), gamma = gamma_element(c, o->gamma, i);
        const double w = d->value[i] * gamma;
        sums.w += w;
        sums.wx += w * xhat;
        sums.wx_size += fabs(w * xhat);
        sums.largest_w = fmax(sums.largest_w, d->size[i] * fabs(gamma));
        sums.flat = sums.flat && xhat == 0;
    }
    return sums;
}

/* Turns the gradient of a norm's result into that of the row v it normalised:
 *   rstd * (w - mean(w) - xhat * mean(w * xhat)), RMSNorm's without mean(w).
 * With eps outside the root, the derivative of rstd is another: its share of
 * the last term is divided by sd * rstd. */
static void norm_backward(const call *c, const norm_operands *o, size_t row, const double *v,
                          gradient *d)
{
    const size_t hidden = c->args->hidden;
    const bool layer = o->norm == NORM_LAYER;
    const size_t count = o->norm == NORM_PARTIAL_RMS ? partial_hidden(c->args) : hidden;
    const statistics s = backward_statistics(c, o, row, v);
    const row_sums sums = sums_of_row(c, o, &s, v, d);
    double share = 1 / (layer ? degrees_of_freedom(c, hidden) : (double)count);
    if (c->args->flags & NK_EPS_OUTSIDE)
        share = s.sd * s.rstd == 0.0 ? 0.0 : share / (s.sd * s.rstd);
    /* near the mean xhat is a difference, as in the forward pass */
    const double least = layer && !statistics_given(c, o) && !sums.flat ? 1.0 : 0.0;
    for (size_t i = 0; i < hidden; i++) {
        const double xhat = normalised(&s, v[i]), w = d->value[i] * gamma_element(c, o->gamma, i);
        const double part = i < count ? xhat * sums.wx * share : 0.0;
        const double part_size = i < count ? fabs(xhat * share) * sums.wx_size : 0.0;
        const double own_size = sums.largest_w * (1 + (i < count ? fabs(xhat) : 0.0));
        const double floor = xhat == 0.0 && least == 0.0 ? 0.0 : (double)FLT_MIN;
        add_to(c, o->dgamma, i, d->value[i] * xhat, d->size[i] * fmax(fabs(xhat), least) + floor);
        add_to(c, o->dbeta, i, d->value[i], d->size[i]);
        d->value[i] = s.rstd * (w - (layer ? sums.w / (double)hidden : 0) - part);
        d->size[i] = fabs(s.rstd) * fmax(own_size, part_size);
        d->size[i] = fmax(d->size[i], (double)FLT_MIN);
        if (sums.flat) {
            d->value[i] = 0 * w;
            d->size[i] = 0;
        }
    }
}

static void load_gradient(const call *c, int operand, size_t row, gradient *d)
{
    for (size_t i = 0; i < c->args->hidden; i++) {
        d->value[i] = row_element(c, operand, row, i);
        d->size[i] = fabs(d->value[i]);
    }
}

/* The straight path joins. */
static void add_straight(const call *c, size_t row, gradient *d)
{
    for (size_t i = 0; c->args->dh && i < c->args->hidden; i++) {
        const double dh = row_element(c, NK_OPERAND_DH, row, i);
        d->value[i] += dh;
        d->size[i] += d->size[i] == 0.0 ? 0.0 : fabs(dh); /* dh + 0 is exact */
    }
}

static void put_gradient(const call *c, int operand, size_t row, const gradient *d, double factor)
{
    const size_t hidden = c->args->hidden;
    for (size_t i = 0; i < hidden; i++) {
        const double value = factor * d->value[i];
        const double rounding = factor == 1.0 ? 0.0 : fabs(value);
        put(c, operand, row * hidden + i, value, fabs(factor) * d->size[i] + rounding);
    }
}

static void tanh_backward(const call *c, size_t row, gradient *d)
{
    const double alpha = (double)c->args->alpha;
    for (size_t i = 0; i < c->args->hidden; i++) {
        const double x = row_element(c, NK_OPERAND_X, row, i);
        const double t = tanh(alpha * x), slope = 1 - t * t,
                     gamma = gamma_element(c, NK_OPERAND_GAMMA, i);
        const double w = d->value[i] * gamma;
        add_to(c, NK_OPERAND_DGAMMA, i, d->value[i] * t, d->size[i] * fabs(t) + (double)FLT_MIN);
        add_to(c, NK_OPERAND_DBETA, i, d->value[i], d->size[i]);
        add_to(c, NK_OPERAND_DALPHA, 0, w * (x * slope), fabs(w * x) + (double)FLT_MIN);
        d->value[i] = w * alpha * slope;
        d->size[i] = fmax(fabs(w * alpha), (double)FLT_MIN);
    }
    put_gradient(c, NK_OPERAND_DX, row, d, 1.0);
}

/* x is h as the forward pass wrote it; the inner norm is that of residual. */
static void sandwich_backward(const call *c, size_t row, double *v, gradient *d)
{
    static const norm_operands inner = {NORM_RMS,        NK_OPERAND_GAMMA,  -1,
                                        NK_OPERAND_RSTD, NK_OPERAND_DGAMMA, -1};
    static const norm_operands outer = {NORM_RMS,         NK_OPERAND_GAMMA2,  -1,
                                        NK_OPERAND_RSTD2, NK_OPERAND_DGAMMA2, -1};
    if (c->form.norm == NORM_NONE) {
        load_gradient(c, NK_OPERAND_DH, row, d);
        for (size_t i = 0; i < c->args->hidden; i++)
            put(c, NK_OPERAND_DX, row * c->args->hidden + i, d->value[i], 0.0); /* a copy */
    } else {
        for (size_t i = 0; i < c->args->hidden; i++)
            v[i] = row_element(c, NK_OPERAND_X, row, i);
        load_gradient(c, NK_OPERAND_DY, row, d);
        norm_backward(c, &outer, row, v, d);
        add_straight(c, row, d);
        put_gradient(c, NK_OPERAND_DX, row, d, 1.0);
        for (size_t i = 0; i < c->args->hidden; i++)
            d->size[i] += fabs(d->value[i]);
    }
    for (size_t i = 0; i < c->args->hidden; i++)
        v[i] = row_element(c, NK_OPERAND_RESIDUAL, row, i);
    norm_backward(c, &inner, row, v, d);
    put_gradient(c, NK_OPERAND_DRESIDUAL, row, d, 1.0);
}

static void backward_row(const call *c, size_t row, double *v, gradient *d)
{
    if (c->form.join == JOIN_SANDWICH) {
        sandwich_backward(c, row, v, d);
        return;
    }
    load_gradient(c, NK_OPERAND_DY, row, d);
    if (c->form.norm == NORM_TANH) {
        tanh_backward(c, row, d);
        return;
    }
    const bool layer = c->form.norm == NORM_LAYER;
    const norm_operands o = {c->form.norm,    NK_OPERAND_GAMMA,  layer ? NK_OPERAND_MEAN : -1,
                             NK_OPERAND_RSTD, NK_OPERAND_DGAMMA, layer ? NK_OPERAND_DBETA : -1};
    const bool scaled = c->form.join == JOIN_SCALED;
    join_row(c, row, v, NULL);
    norm_backward(c, &o, row, v, d);
    add_straight(c, row, d);
    put_gradient(c, NK_OPERAND_DX, row, d, scaled ? (double)c->args->alpha : 1.0);
    put_gradient(c, NK_OPERAND_DRESIDUAL, row, d, 1.0);
    for (size_t i = 0; scaled && i < c->args->hidden; i++) {
        const double x = row_element(c, NK_OPERAND_X, row, i);
        add_to(c, NK_OPERAND_DALPHA, 0, x * d->value[i],
               fabs(x) * (d->size[i] + fabs(d->value[i])));
    }
}

static void clear_sums(const call *c)
{
    for (int o = 0; o < NK_OPERANDS; o++) {
        const size_t bytes = nk_operand_elements(o, 1, c->args->hidden) * sizeof(double);
        const nk_expected *e = &c->expected[o];
        if (nk_operands[o].direction != NK_DIRECTION_ADD || !e->value)
            continue;
        memset(e->value, 0, bytes);
        if (e->scale)
            memset(e->scale, 0, bytes);
    }
}

/* A sum whose addends do not fit a float together may come out as any infinity. */
static void allow_overflow(const call *c)
{
    for (int o = 0; o < NK_OPERANDS; o++) {
        const nk_expected *e = &c->expected[o];
        const size_t n = nk_operand_elements(o, 1, c->args->hidden);
        if (nk_operands[o].direction != NK_DIRECTION_ADD || !e->value || !e->scale)
            continue;
        for (size_t i = 0; i < n; i++)
            if (e->scale[i] > (double)FLT_MAX)
                e->scale[i] = INFINITY;
    }
}

void nk_reference(int op, nk_dtype dtype, const nk_args *args, nk_expected expected[NK_OPERANDS])
{
    if (args->rows == 0 || args->hidden == 0)
        return;
    const form *f = forms, *end = forms + sizeof(forms) / sizeof(forms[0]);
    while (f < end && strcmp(f->op, nk_ops[op].name) != 0)
        f++;
    double *h = malloc(args->hidden * 3 * sizeof(double));
    if (f == end || !h) {
        fprintf(stderr, "reference: %s: %s\n", nk_ops[op].name, h ? "no oracle" : "out of memory");
        abort();
    }
    const call c = {args, dtype, *f, expected};
    gradient d = {h + args->hidden, h + 2 * args->hidden};
    const bool backward = nk_op_is_backward(op);
    if (backward)
        clear_sums(&c);
    for (size_t row = 0; row < args->rows; row++) {
        if (backward)
            backward_row(&c, row, h, &d);
        else
            forward_row(&c, row, h, h + args->hidden);
    }
    if (backward)
        allow_overflow(&c);
    free(h);
}

/* ---- Errors ------------------------------------------------------------- */

/* The real numbers that a result stands for: itself, or those that round to it. */
typedef struct interval {
    double low, high;
} interval;

static double power_of_two_below(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    bits &= 0x7FF0000000000000u;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

static interval meaning(double got, nk_dtype dtype)
{
    static const struct {
        double infinity, smallest_normal, half_unit; /* the last of 1 */
    } formats[NK_DTYPES] = {[NK_F32] = {0x1p128, 0x1p-126, 0x1p-24},
                            [NK_BF16] = {0x1p128, 0x1p-126, 0x1p-8},
                            [NK_F16] = {0x1p16, 0x1p-14, 0x1p-11}};
    const double infinity = formats[dtype].infinity, half_unit = formats[dtype].half_unit;
    const double smallest_normal = formats[dtype].smallest_normal;
    if (isinf(got)) {
        const double low = infinity * (1 - half_unit / 2);
        return got > 0 ? (interval){low, INFINITY} : (interval){-INFINITY, -low};
    }
    if (dtype == NK_F32)
        return (interval){got, got};
    if (dtype == NK_BF16 && got == 0.0) /* which flushes what is subnormal */
        return (interval){-smallest_normal, smallest_normal};
    const double size = fabs(got);
    const double power = size > smallest_normal ? power_of_two_below(size) : smallest_normal;
    const double above = power * half_unit;
    const double below = size == power && size > smallest_normal ? above / 2 : above;
    return got < 0 ? (interval){got - above, got + below} : (interval){got - below, got + above};
}

double nk_error(double got, double expected, double scale, nk_dtype dtype)
{
    if (isnan(got) || isnan(expected))
        return isnan(got) && isnan(expected) ? 0.0 : INFINITY;
    if (isinf(expected))
        return got == expected ? 0.0 : INFINITY;
    if (got == expected)
        return 0.0;
    const interval range = meaning(got, dtype);
    double distance = 0.0;
    if (expected < range.low)
        distance = range.low - expected;
    else if (expected > range.high)
        distance = expected - range.high;
    if (distance == 0.0)
        return 0.0;
    return distance / (scale * 0x1p-23);
}

double nk_error_bound(int op, const char *algorithm, size_t hidden)
{
    enum { FEWEST = 64 };
    if (nk_op_is_backward(op))
        return 64;
    if (strcmp(algorithm, "default") == 0)
        return 8;
    return hidden < FEWEST ? INFINITY : 64;
}
