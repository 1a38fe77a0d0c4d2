/* SPDX-License-Identifier: Apache-2.0 */
/* A provider of one kernel, built several times with the same symbol names:
 * TWIN_FACTOR sets how wrong its results are, TWIN_ABI and others what is wrong
 * with its table, TWIN_REPEAT how often it does its work,
 * TWIN_POISON how wrong the second of three kernels is, and TWIN_AT_LOAD,
 * TWIN_AT_CALL and TWIN_LATER what it does instead: CRASH (SIGSEGV), ILLEGAL,
 * HANG, LEAVE (ends the process as if all were well). TWIN_IN_THREAD is what it
 * does in another thread than the first; WRONG is all that it does there. With
 * TWIN_LAZY it does nothing where y seems to be there already. */
#include "normkernels.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef TWIN_NAME
#define TWIN_NAME "twin"
#endif
#ifndef TWIN_FACTOR
#define TWIN_FACTOR 1.0
#endif
#ifndef TWIN_ABI
#define TWIN_ABI 1
#endif
#ifndef TWIN_KERNEL_BYTES
#define TWIN_KERNEL_BYTES sizeof(nk_kernel)
#endif
#ifndef TWIN_OP
#define TWIN_OP "rmsnorm"
#endif
#ifndef TWIN_ERROR
#define TWIN_ERROR NULL
#endif
#ifndef TWIN_ENTRY
#define TWIN_ENTRY nk_provider_v1
#endif
#ifndef TWIN_REPEAT
#define TWIN_REPEAT 1
#endif
#ifndef TWIN_AT_LOAD
#define TWIN_AT_LOAD BEHAVE
#endif
#ifndef TWIN_AT_CALL
#define TWIN_AT_CALL BEHAVE
#endif
#ifndef TWIN_LATER /* after some thousand calls: when it is timed */
#define TWIN_LATER BEHAVE
#endif
#ifndef TWIN_LAZY
#define TWIN_LAZY 0
#endif
#ifndef TWIN_IN_THREAD
#define TWIN_IN_THREAD BEHAVE
#endif

enum fault { BEHAVE, CRASH, ILLEGAL, HANG, LEAVE, WRONG };

static void misbehave(enum fault fault)
{
    switch (fault) {
    case CRASH:
        raise(SIGSEGV);
        break;
    case ILLEGAL:
        raise(SIGILL);
        break;
    case HANG:
        for (;;)
            pause();
    case LEAVE:
        exit(0);
    default:
        break;
    }
}

__attribute__((constructor)) static void at_load(void)
{
    misbehave(TWIN_AT_LOAD);
}

/* Called by name, so that a loader which mixes the twins up is found out. */
NK_API double twin_factor(void);
NK_API nk_status nk_rmsnorm_f32_twin(const nk_args *args);
NK_API const nk_provider *TWIN_ENTRY(void);

double twin_factor(void)
{
    return TWIN_FACTOR;
}

static double reciprocal_root(const nk_args *args, const float *x)
{
    double squares = 0.0;
    for (size_t i = 0; i < args->hidden; i++)
        squares += (double)x[i] * (double)x[i];
    const double mean = squares / (double)args->hidden, eps = (double)args->eps;
    const double root = args->flags & NK_EPS_OUTSIDE ? sqrt(mean) + eps : sqrt(mean + eps);
    return root > 0.0 ? 1.0 / root : 0.0;
}

static void rmsnorm(const nk_args *args)
{
    const float *gamma = args->gamma;
    for (size_t row = 0; row < args->rows; row++) {
        const float *x = (const float *)args->x + row * (args->x_ld ? args->x_ld : args->hidden);
        float *y = (float *)args->y + row * (args->y_ld ? args->y_ld : args->hidden);
        const double rstd = reciprocal_root(args, x);
        for (size_t i = 0; i < args->hidden; i++) {
            const double weight = (gamma ? (double)gamma[i] : 1.0) + (double)args->gamma_offset;
            y[i] = (float)((double)x[i] * rstd * weight * twin_factor());
        }
        if (args->rstd)
            args->rstd[row] = (float)rstd;
    }
}

nk_status nk_rmsnorm_f32_twin(const nk_args *args)
{
    static int calls;
    void (*volatile work)(const nk_args *) = rmsnorm; /* each call of it counts */
    if (args->residual || args->h || args->beta)
        return 1;
    misbehave(TWIN_AT_CALL);
    if (TWIN_LAZY && !isnan(((const float *)args->y)[0])) /* the check fills it with NaN */
        return NK_OK;
    if (++calls > 2000)
        misbehave(TWIN_LATER);
    for (int i = 0; i < TWIN_REPEAT; i++)
        work(args);
    if (TWIN_IN_THREAD != BEHAVE && syscall(SYS_gettid) != getpid()) {
        misbehave(TWIN_IN_THREAD);
        ((float *)args->y)[0] *= 2.0f;
    }
    return NK_OK;
}

#if TWIN_LAZY
static nk_status lazy_layernorm(const nk_args *args)
{
    const float *gamma = args->gamma, *beta = args->beta;
    const size_t n = args->hidden;
    if (!isnan(((const float *)args->y)[0]))
        return NK_OK;
    for (size_t row = 0; row < args->rows; row++) {
        const float *x = (const float *)args->x + row * n;
        float *y = (float *)args->y + row * n;
        double mean = 0.0, var = 0.0;
        for (size_t i = 0; i < n; i++)
            mean += (double)x[i] / (double)n;
        for (size_t i = 0; i < n; i++)
            var += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)n;
        for (size_t i = 0; i < n; i++)
            y[i] =
                (float)(((double)x[i] - mean) / sqrt(var + (double)args->eps) * (double)gamma[i] +
                        (double)beta[i]);
    }
    return NK_OK;
}
#endif

#ifdef TWIN_POISON
static nk_status poisoned(const nk_args *args)
{
    const nk_status status = nk_rmsnorm_f32_twin(args);
    for (size_t i = 0; status == NK_OK && i < args->hidden; i++)
        ((float *)args->y)[i] *= (float)TWIN_POISON;
    return status;
}
#endif

static const nk_kernel kernels[] = {
    {TWIN_OP, "default", "f32", "scalar", NULL, nk_rmsnorm_f32_twin},
#if TWIN_LAZY
    {"layernorm", "default", "f32", "scalar", NULL, lazy_layernorm},
#endif
#ifdef TWIN_POISON
    {TWIN_OP, "second", "f32", "scalar", NULL, poisoned},
    {TWIN_OP, "third", "f32", "scalar", NULL, nk_rmsnorm_f32_twin},
#endif
};

static const nk_provider provider = {.abi = TWIN_ABI,
                                     .kernel_size = TWIN_KERNEL_BYTES,
                                     .name = TWIN_NAME,
                                     .version = "1",
                                     .build = "test",
                                     .error = TWIN_ERROR,
                                     .kernels = kernels,
                                     .count = sizeof kernels / sizeof kernels[0]};

const nk_provider *TWIN_ENTRY(void)
{
    return &provider;
}
