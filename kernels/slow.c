/* SPDX-License-Identifier: Apache-2.0 */
#include "slow.h"
#include <math.h>

static double reciprocal(double square, const nk_args *args)
{
    const double root = args->flags & NK_EPS_OUTSIDE ? sqrt(square) + (double)args->eps
                                                     : sqrt(square + (double)args->eps);
    return root > 0 ? 1 / root : root * 0; /* 0 for 0, NaN for NaN */
}

/* About the first element, so that a constant row has no variance at all. */
nk_slow nk_slow_layer(const void *row, size_t count, nk_dtype dtype, const nk_args *args)
{
    const double shift = (double)nk_to_float(row, 0, dtype);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)nk_to_float(row, i, dtype) - shift;
    const double mean = sum / (double)count;
    for (size_t i = 0; i < count; i++) {
        const double t = (double)nk_to_float(row, i, dtype) - shift - mean;
        squares += t * t;
    }
    if (!isfinite(sum))
        return (nk_slow){NAN, NAN};
    const size_t degrees = args->flags & NK_UNBIASED && count > 1 ? count - 1 : count;
    return (nk_slow){shift + mean, reciprocal(squares / (double)degrees, args)};
}

nk_slow nk_slow_rms(const void *row, size_t count, nk_dtype dtype, const nk_args *args)
{
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        const double value = (double)nk_to_float(row, i, dtype);
        squares += value * value;
    }
    /* an infinity: 1/inf = 0 makes NaN of itself and 0 of the rest */
    return (nk_slow){0, isinf(squares) ? 0 : reciprocal(squares / (double)count, args)};
}

void nk_slow_apply(void *to, const void *stream, const void *row, const void *gamma,
                   const void *beta, nk_slow s, nk_dtype dtype, const nk_args *args)
{
    const nk_dtype params = args->flags & NK_PARAMS_F32 ? NK_F32 : dtype;
    for (size_t i = 0; i < args->hidden; i++) {
        const float weight = (gamma ? nk_to_float(gamma, i, params) : 1) + args->gamma_offset;
        const double shift = beta ? (double)nk_to_float(beta, i, params) : 0;
        const double normal = ((double)nk_to_float(row, i, dtype) - s.mean) * s.rstd;
        const float before = stream ? nk_to_float(stream, i, dtype) : 0;
        nk_from_double(to, i, dtype, normal * (double)weight + shift);
        if (stream)
            nk_from_float(to, i, dtype, before + nk_to_float(to, i, dtype));
    }
}
