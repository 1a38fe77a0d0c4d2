/* SPDX-License-Identifier: Apache-2.0 */
/* A provider of a fused kernel and the two plain ones that do the same. FACTOR
 * sets how wrong the plain norm is; PLAIN leaves out its sum where it is 0. */
#include "normkernels.h"

#include <math.h>

#ifndef FACTOR
#define FACTOR 1.0
#endif
#ifndef PLAIN
#define PLAIN 1
#endif

static void norm_row(const nk_args *a, const float *x, float *y, double factor)
{
    const float *gamma = a->gamma;
    double squares = 0;
    for (size_t i = 0; i < a->hidden; i++)
        squares += (double)x[i] * (double)x[i];
    const double scale = factor / sqrt(squares / (double)a->hidden + (double)a->eps);
    for (size_t i = 0; i < a->hidden; i++)
        y[i] = (float)((double)x[i] * scale * (gamma ? (double)gamma[i] : 1.0));
}

static nk_status rmsnorm(const nk_args *a)
{
    for (size_t row = 0; row < a->rows; row++)
        norm_row(a, (const float *)a->x + row * a->hidden, (float *)a->y + row * a->hidden, FACTOR);
    return NK_OK;
}

static nk_status residual_add(const nk_args *a)
{
    const float *x = a->x, *residual = a->residual;
    float *h = a->h;
    for (size_t i = 0; i < a->rows * a->hidden; i++)
        h[i] = x[i] + residual[i];
    return NK_OK;
}

static nk_status add_rmsnorm(const nk_args *a)
{
    const nk_status status = residual_add(a);
    for (size_t row = 0; row < a->rows; row++)
        norm_row(a, (const float *)a->h + row * a->hidden, (float *)a->y + row * a->hidden, 1.0);
    return status;
}

static const nk_kernel kernels[] = {
    {"add_rmsnorm", "default", "f32", "scalar", NULL, add_rmsnorm},
    {"rmsnorm", "default", "f32", "scalar", NULL, rmsnorm},
    {"residual_add", "default", "f32", "scalar", PLAIN ? NULL : "left out", residual_add},
};

static const nk_provider provider = {.abi = 1,
                                     .kernel_size = sizeof(nk_kernel),
                                     .name = "fused",
                                     .version = "1",
                                     .build = "test",
                                     .kernels = kernels,
                                     .count = sizeof kernels / sizeof kernels[0]};

NK_API const nk_provider *nk_provider_v1(void)
{
    return &provider;
}
