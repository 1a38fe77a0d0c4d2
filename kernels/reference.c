/* SPDX-License-Identifier: Apache-2.0 */
#include "reference.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every forward op is a way to form the row that is normalised (h), and a norm
 * over it. */
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
    double divisor = (double)n;
    if (c->args->flags & NK_UNBIASED)
        divisor = n > 1 ? (double)(n - 1) : 1.0;
    const double variance = sum_get(&squares) / divisor;
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
        if (c->form.join == JOIN_NONE)
            continue;
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

void nk_reference(int op, nk_dtype dtype, const nk_args *args, nk_expected expected[NK_OPERANDS])
{
    if (args->rows == 0 || args->hidden == 0)
        return;
    const form *f = forms, *end = forms + sizeof(forms) / sizeof(forms[0]);
    while (f < end && strcmp(f->op, nk_ops[op].name) != 0)
        f++;
    double *h = malloc(args->hidden * 2 * sizeof(double));
    if (f == end || !h) {
        fprintf(stderr, "reference: %s: %s\n", nk_ops[op].name, h ? "no oracle" : "out of memory");
        abort();
    }
    const call c = {args, dtype, *f, expected};
    for (size_t row = 0; row < args->rows; row++)
        forward_row(&c, row, h, h + args->hidden);
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

double nk_error_bound(const char *algorithm, size_t hidden)
{
    enum { FEWEST = 64 };
    if (strcmp(algorithm, "default") == 0)
        return 8;
    return hidden < FEWEST ? INFINITY : 64;
}
