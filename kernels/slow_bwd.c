/* SPDX-License-Identifier: Apache-2.0 */
#include "slow_bwd.h"
#include <math.h>

/* A norm and what its gradient takes from the whole row. */
typedef struct side {
    const nk_slow_norm *norm;
    nk_dtype dtype;
    const nk_args *args;
    double mean, rstd, sd, share; /* share: of each element in the mean of w * xhat */
    double mean_w, mean_wx;
    bool flat;
} side;

typedef struct pair {
    side norm, outer;
} pair;

static double row_at(const side *s, size_t i)
{
    const nk_slow_norm *n = s->norm;
    const float x = nk_to_float(n->row, i, s->dtype);
    float h = x;
    if (n->residual) {
        const float residual = nk_to_float(n->residual, i, s->dtype);
        uint32_t element;
        nk_from_float(&element, 0, s->dtype,
                      n->scaled ? fmaf(s->args->alpha, x, residual) : x + residual);
        h = nk_to_float(&element, 0, s->dtype);
    }
    return (double)h;
}

static double gamma_at(const side *s, size_t i)
{
    const nk_dtype params = s->args->flags & NK_PARAMS_F32 ? NK_F32 : s->dtype;
    const float gamma = s->norm->gamma ? nk_to_float(s->norm->gamma, i, params) : 1;
    return (double)gamma + (double)s->args->gamma_offset;
}

static double normal_at(const side *s, size_t i)
{
    return (row_at(s, i) - s->mean) * s->rstd;
}

static double sum_of_squares(const side *s, double mean, double left)
{
    double squares = 0;
    for (size_t i = 0; i < s->norm->count; i++) {
        const double t = row_at(s, i) - mean - left;
        squares += t * t;
    }
    return squares;
}

/* About the first element, so that a constant row has no variance at all. */
static void find_statistics(side *s)
{
    const nk_slow_norm *n = s->norm;
    const size_t hidden = s->args->hidden;
    const bool given = n->rstd && (!n->layer || n->mean), outside = s->args->flags & NK_EPS_OUTSIDE;
    const size_t lost = n->layer && s->args->flags & NK_UNBIASED && hidden > 1;
    const double shift = !n->layer ? 0 : given ? (double)*n->mean : row_at(s, 0);
    double left = 0;
    for (size_t i = 0; n->layer && !given && i < hidden; i++)
        left += (row_at(s, i) - shift) / (double)hidden;
    s->share = 1 / (double)(n->count - lost);
    const double square = sum_of_squares(s, shift, left) * s->share;
    const double eps = (double)s->args->eps;
    const double root = outside ? sqrt(square) + eps : sqrt(square + eps);
    s->mean = shift + left;
    s->sd = sqrt(square);
    s->rstd = given ? (double)*n->rstd : root > 0 ? 1 / root : root * 0;
    if (n->layer && !given && !isfinite(square))
        s->mean = s->sd = s->rstd = NAN;
    if (outside)
        s->share = s->sd * s->rstd == 0.0 ? 0.0 : s->share / (s->sd * s->rstd);
}

static double gradient_at(const nk_slow_row *row, const pair *p, size_t i);

static double outer_gradient_at(const nk_slow_row *row, const pair *p, size_t i)
{
    (void)p;
    return (double)nk_to_float(row->d, i, p->norm.dtype);
}

static void find_sums(side *s, const nk_slow_row *row, const pair *p,
                      double (*gradient)(const nk_slow_row *, const pair *, size_t))
{
    const size_t hidden = s->args->hidden;
    double sum_w = 0, sum_wx = 0;
    s->flat = true;
    for (size_t i = 0; i < hidden; i++) {
        const double w = gradient(row, p, i) * gamma_at(s, i), xhat = normal_at(s, i);
        sum_w += w;
        sum_wx += w * xhat;
        s->flat = s->flat && xhat == 0;
    }
    s->mean_w = s->norm->layer ? sum_w / (double)hidden : 0;
    s->mean_wx = sum_wx * s->share;
}

static double through(const side *s, double d, size_t i)
{
    const double w = d * gamma_at(s, i);
    if (s->flat)
        return 0 * w;
    const double part = i < s->norm->count ? normal_at(s, i) * s->mean_wx : 0;
    return s->rstd * (w - s->mean_w - part);
}

static double straight_at(const nk_slow_row *row, const pair *p, size_t i)
{
    return row->dh ? (double)nk_to_float(row->dh, i, p->norm.dtype) : 0;
}

/* The gradient of what `norm` gives. */
static double gradient_at(const nk_slow_row *row, const pair *p, size_t i)
{
    const double d = outer_gradient_at(row, p, i);
    return row->outer ? through(&p->outer, d, i) + straight_at(row, p, i) : d;
}

static void add(nk_slow_sum to, size_t i, double value)
{
    if (!to.sum)
        return;
    const double sum = (double)to.sum[i] + ((to.carry ? (double)to.carry[i] : 0) + value);
    to.sum[i] = (float)sum;
    if (to.carry)
        to.carry[i] = isfinite(to.sum[i]) ? (float)(sum - (double)to.sum[i]) : 0;
}

static void put(void *to, size_t i, nk_dtype dtype, double value)
{
    if (to)
        nk_from_double(to, i, dtype, value);
}

/* Element i of every operand is read before it is written to any: they may be
 * the same. */
static void backward_element(const nk_slow_row *row, const pair *p, size_t i)
{
    const nk_dtype dtype = p->norm.dtype;
    const double d = outer_gradient_at(row, p, i), at_norm = gradient_at(row, p, i);
    const double result = through(&p->norm, at_norm, i);
    const double x = (double)nk_to_float(row->norm.row, i, dtype);
    const double total = row->outer ? result : result + straight_at(row, p, i);
    add(row->norm.dgamma, i, at_norm * normal_at(&p->norm, i));
    add(row->norm.dbeta, i, at_norm);
    if (row->outer)
        add(row->outer->dgamma, i, d * normal_at(&p->outer, i));
    if (row->dalpha)
        *row->dalpha += x * total;
    put(row->to, i, dtype, total);
    put(row->straight, i, dtype, at_norm);
    put(row->scaled_to, i, dtype, row->factor * total);
}

void nk_slow_backward(const nk_slow_row *row, nk_dtype dtype, const nk_args *args)
{
    pair p = {.norm = {.norm = &row->norm, .dtype = dtype, .args = args},
              .outer = {.norm = row->outer, .dtype = dtype, .args = args}};
    if (row->outer) {
        find_statistics(&p.outer);
        find_sums(&p.outer, row, &p, outer_gradient_at);
    }
    find_statistics(&p.norm);
    find_sums(&p.norm, row, &p, gradient_at);
    for (size_t i = 0; i < args->hidden; i++)
        backward_element(row, &p, i);
}
