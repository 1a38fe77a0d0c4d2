/* SPDX-License-Identifier: Apache-2.0 */
/* LayerNorm and RMSNorm as one would write them without a thought of SIMD, and as
 * a compiler makes them: what claim holds our kernels' saving against.
 * NAME and FLAGS come from the build. */
#include <normkernels.h>

#include <math.h>
#include <stdbool.h>

static float reciprocal(const nk_args *a, float variance)
{
    const float root =
        a->flags & NK_EPS_OUTSIDE ? sqrtf(variance) + a->eps : sqrtf(variance + a->eps);
    return root > 0 ? 1 / root : 0;
}

/* y may be x: without `restrict` the compiler finds out at run time. */
static void apply(const nk_args *a, const float *x, float *y, float mean, float scale)
{
    const float *gamma = a->gamma, *beta = a->beta, offset = a->gamma_offset;
    const size_t n = a->hidden;
    if (gamma && beta)
        for (size_t i = 0; i < n; i++)
            y[i] = (x[i] - mean) * scale * (gamma[i] + offset) + beta[i];
    else
        for (size_t i = 0; i < n; i++)
            y[i] = (x[i] - mean) * scale * ((gamma ? gamma[i] : 1) + offset) + (beta ? beta[i] : 0);
}

static void apply_rms(const nk_args *a, const float *x, float *y, float scale)
{
    const float *gamma = a->gamma, offset = a->gamma_offset;
    const size_t n = a->hidden;
    if (gamma)
        for (size_t i = 0; i < n; i++)
            y[i] = x[i] * scale * (gamma[i] + offset);
    else
        for (size_t i = 0; i < n; i++)
            y[i] = x[i] * scale * (1 + offset);
}

static float degrees_of_freedom(const nk_args *a)
{
    return (float)(a->flags & NK_UNBIASED && a->hidden > 1 ? a->hidden - 1 : a->hidden);
}

static float two_pass(const nk_args *a, const float *x, float *mean)
{
    const size_t n = a->hidden;
    float sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    const float m = sum / (float)n;
    for (size_t i = 0; i < n; i++)
        squares += (x[i] - m) * (x[i] - m);
    *mean = m;
    return squares / degrees_of_freedom(a);
}

static float one_pass(const nk_args *a, const float *x, float *mean)
{
    const size_t n = a->hidden;
    float sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        sum += x[i];
        squares += x[i] * x[i];
    }
    *mean = sum / (float)n;
    const float variance = (squares - sum * *mean) / degrees_of_freedom(a);
    return variance > 0 ? variance : 0;
}

static const float *row_of_x(const nk_args *a, size_t row)
{
    return (const float *)a->x + row * (a->x_ld ? a->x_ld : a->hidden);
}

static float *row_of_y(const nk_args *a, size_t row)
{
    return (float *)a->y + row * (a->y_ld ? a->y_ld : a->hidden);
}

/* A caller with a longer struct may ask for what was not there when this was
 * written: only zeros may be ignored. */
static bool knows_all(const nk_args *a)
{
    for (size_t i = sizeof *a; i < a->size; i++)
        if (((const char *)a)[i])
            return false;
    return a->size >= sizeof *a;
}

static nk_status layernorm(const nk_args *a,
                           float (*variance)(const nk_args *, const float *, float *))
{
    if (!knows_all(a))
        return 1;
    for (size_t row = 0; row < a->rows && a->hidden; row++) {
        const float *x = row_of_x(a, row);
        float mean;
        const float scale = reciprocal(a, variance(a, x, &mean));
        apply(a, x, row_of_y(a, row), mean, scale);
        if (a->mean)
            a->mean[row] = mean;
        if (a->rstd)
            a->rstd[row] = scale;
    }
    return NK_OK;
}

static nk_status layernorm_two_pass(const nk_args *a)
{
    return layernorm(a, two_pass);
}

static nk_status layernorm_one_pass(const nk_args *a)
{
    return layernorm(a, one_pass);
}

static nk_status rmsnorm(const nk_args *a)
{
    if (!knows_all(a))
        return 1;
    for (size_t row = 0; row < a->rows && a->hidden; row++) {
        const float *x = row_of_x(a, row);
        float squares = 0;
        for (size_t i = 0; i < a->hidden; i++)
            squares += x[i] * x[i];
        const float scale = reciprocal(a, squares / (float)a->hidden);
        apply_rms(a, x, row_of_y(a, row), scale);
        if (a->rstd)
            a->rstd[row] = scale;
    }
    return NK_OK;
}

static const char *status_text(nk_status status)
{
    return status ? "nk_args is of another size, and asks for what this provider does not know"
                  : "success";
}

/* -march=native: this file was compiled for the machine that it runs on. */
static const nk_kernel kernels[] = {
    {"layernorm", "two_pass", "f32", "native", NULL, layernorm_two_pass},
    {"layernorm", "one_pass", "f32", "native", NULL, layernorm_one_pass},
    {"rmsnorm", "default", "f32", "native", NULL, rmsnorm},
};
static const nk_provider plain = {.abi = 1,
                                  .kernel_size = sizeof(nk_kernel),
                                  .name = NAME,
                                  .version = NK_VERSION,
                                  .build = __VERSION__ " " FLAGS,
                                  .kernels = kernels,
                                  .count = sizeof kernels / sizeof kernels[0],
                                  .status_text = status_text};

const nk_provider *nk_provider_v1(void)
{
    return &plain;
}
