/* SPDX-License-Identifier: Apache-2.0 */
/* The typed entry points: each fills the struct and calls the best kernel. */
#include "catalog.h"

#define NK_DTYPE(name, constant, type, bytes, digits)                                              \
    nk_status nk_residual_add_##name(const type *x, const type *residual, type *h, size_t rows,    \
                                     size_t hidden)                                                \
    {                                                                                              \
        const nk_args a = {.size = sizeof a,                                                       \
                           .rows = rows,                                                           \
                           .hidden = hidden,                                                       \
                           .x = x,                                                                 \
                           .residual = residual,                                                   \
                           .h = h};                                                                \
        return nk_call(NK_OP_residual_add, constant, &a);                                          \
    }                                                                                              \
    nk_status nk_layernorm_##name(const type *x, const type *gamma, const type *beta, type *y,     \
                                  size_t rows, size_t hidden, float eps)                           \
    {                                                                                              \
        const nk_args a = {.size = sizeof a,                                                       \
                           .rows = rows,                                                           \
                           .hidden = hidden,                                                       \
                           .x = x,                                                                 \
                           .y = y,                                                                 \
                           .gamma = gamma,                                                         \
                           .beta = beta,                                                           \
                           .eps = eps};                                                            \
        return nk_call(NK_OP_layernorm, constant, &a);                                             \
    }                                                                                              \
    nk_status nk_rmsnorm_##name(const type *x, const type *gamma, type *y, size_t rows,            \
                                size_t hidden, float eps)                                          \
    {                                                                                              \
        const nk_args a = {.size = sizeof a,                                                       \
                           .rows = rows,                                                           \
                           .hidden = hidden,                                                       \
                           .x = x,                                                                 \
                           .y = y,                                                                 \
                           .gamma = gamma,                                                         \
                           .eps = eps};                                                            \
        return nk_call(NK_OP_rmsnorm, constant, &a);                                               \
    }                                                                                              \
    nk_status nk_add_layernorm_##name(const type *x, const type *residual, const type *gamma,      \
                                      const type *beta, type *h, type *y, size_t rows,             \
                                      size_t hidden, float eps)                                    \
    {                                                                                              \
        const nk_args a = {.size = sizeof a,                                                       \
                           .rows = rows,                                                           \
                           .hidden = hidden,                                                       \
                           .x = x,                                                                 \
                           .residual = residual,                                                   \
                           .y = y,                                                                 \
                           .h = h,                                                                 \
                           .gamma = gamma,                                                         \
                           .beta = beta,                                                           \
                           .eps = eps};                                                            \
        return nk_call(NK_OP_add_layernorm, constant, &a);                                         \
    }                                                                                              \
    nk_status nk_add_rmsnorm_##name(const type *x, const type *residual, const type *gamma,        \
                                    type *h, type *y, size_t rows, size_t hidden, float eps)       \
    {                                                                                              \
        const nk_args a = {.size = sizeof a,                                                       \
                           .rows = rows,                                                           \
                           .hidden = hidden,                                                       \
                           .x = x,                                                                 \
                           .residual = residual,                                                   \
                           .y = y,                                                                 \
                           .h = h,                                                                 \
                           .gamma = gamma,                                                         \
                           .eps = eps};                                                            \
        return nk_call(NK_OP_add_rmsnorm, constant, &a);                                           \
    }                                                                                              \
    nk_status nk_prmsnorm_##name(const type *x, const type *gamma, type *y, size_t rows,           \
                                 size_t hidden, float eps, float fraction)                         \
    {                                                                                              \
        const nk_args a = {.size = sizeof a,                                                       \
                           .rows = rows,                                                           \
                           .hidden = hidden,                                                       \
                           .x = x,                                                                 \
                           .y = y,                                                                 \
                           .gamma = gamma,                                                         \
                           .eps = eps,                                                             \
                           .fraction = fraction};                                                  \
        return nk_call(NK_OP_prmsnorm, constant, &a);                                              \
    }                                                                                              \
    nk_status nk_deepnorm_##name(const type *x, const type *residual, const type *gamma,           \
                                 const type *beta, type *h, type *y, size_t rows, size_t hidden,   \
                                 float eps, float alpha)                                           \
    {                                                                                              \
        const nk_args a = {.size = sizeof a,                                                       \
                           .rows = rows,                                                           \
                           .hidden = hidden,                                                       \
                           .x = x,                                                                 \
                           .residual = residual,                                                   \
                           .y = y,                                                                 \
                           .h = h,                                                                 \
                           .gamma = gamma,                                                         \
                           .beta = beta,                                                           \
                           .eps = eps,                                                             \
                           .alpha = alpha};                                                        \
        return nk_call(NK_OP_deepnorm, constant, &a);                                              \
    }                                                                                              \
    nk_status nk_rmsnorm_add_##name(const type *x, const type *residual, const type *gamma,        \
                                    type *h, size_t rows, size_t hidden, float eps)                \
    {                                                                                              \
        const nk_args a = {.size = sizeof a,                                                       \
                           .rows = rows,                                                           \
                           .hidden = hidden,                                                       \
                           .x = x,                                                                 \
                           .residual = residual,                                                   \
                           .h = h,                                                                 \
                           .gamma = gamma,                                                         \
                           .eps = eps};                                                            \
        return nk_call(NK_OP_rmsnorm_add, constant, &a);                                           \
    }                                                                                              \
    nk_status nk_rmsnorm_add_rmsnorm_##name(const type *x, const type *residual,                   \
                                            const type *gamma, const type *gamma2, type *h,        \
                                            type *y, size_t rows, size_t hidden, float eps)        \
    {                                                                                              \
        const nk_args a = {.size = sizeof a,                                                       \
                           .rows = rows,                                                           \
                           .hidden = hidden,                                                       \
                           .x = x,                                                                 \
                           .residual = residual,                                                   \
                           .y = y,                                                                 \
                           .h = h,                                                                 \
                           .gamma = gamma,                                                         \
                           .gamma2 = gamma2,                                                       \
                           .eps = eps};                                                            \
        return nk_call(NK_OP_rmsnorm_add_rmsnorm, constant, &a);                                   \
    }                                                                                              \
    nk_status nk_dyt_##name(const type *x, const type *gamma, const type *beta, type *y,           \
                            size_t rows, size_t hidden, float alpha)                               \
    {                                                                                              \
        const nk_args a = {.size = sizeof a,                                                       \
                           .rows = rows,                                                           \
                           .hidden = hidden,                                                       \
                           .x = x,                                                                 \
                           .y = y,                                                                 \
                           .gamma = gamma,                                                         \
                           .beta = beta,                                                           \
                           .alpha = alpha};                                                        \
        return nk_call(NK_OP_dyt, constant, &a);                                                   \
    }
#include "dtype.def"

/* Statistics are written by forward kernels, so that the struct has them without
 * const; and h is x to the backward ones. */
#define NK_DTYPE(name, constant, type, bytes, digits)                                              \
    nk_status nk_layernorm_bwd_##name(                                                             \
        const type *x, const type *gamma, const type *dy, const float *mean, const float *rstd,    \
        type *dx, float *dgamma, float *dbeta, size_t rows, size_t hidden, float eps)              \
    {                                                                                              \
        const nk_args a = {.size = sizeof a,                                                       \
                           .rows = rows,                                                           \
                           .hidden = hidden,                                                       \
                           .x = x,                                                                 \
                           .gamma = gamma,                                                         \
                           .dy = dy,                                                               \
                           .mean = (float *)(uintptr_t)mean,                                       \
                           .rstd = (float *)(uintptr_t)rstd,                                       \
                           .dx = dx,                                                               \
                           .dgamma = dgamma,                                                       \
                           .dbeta = dbeta,                                                         \
                           .eps = eps};                                                            \
        return nk_call(NK_OP_layernorm_bwd, constant, &a);                                         \
    }                                                                                              \
    nk_status nk_rmsnorm_bwd_##name(const type *x, const type *gamma, const type *dy,              \
                                    const float *rstd, type *dx, float *dgamma, size_t rows,       \
                                    size_t hidden, float eps)                                      \
    {                                                                                              \
        const nk_args a = {.size = sizeof a,                                                       \
                           .rows = rows,                                                           \
                           .hidden = hidden,                                                       \
                           .x = x,                                                                 \
                           .gamma = gamma,                                                         \
                           .dy = dy,                                                               \
                           .rstd = (float *)(uintptr_t)rstd,                                       \
                           .dx = dx,                                                               \
                           .dgamma = dgamma,                                                       \
                           .eps = eps};                                                            \
        return nk_call(NK_OP_rmsnorm_bwd, constant, &a);                                           \
    }                                                                                              \
    nk_status nk_prmsnorm_bwd_##name(const type *x, const type *gamma, const type *dy,             \
                                     const float *rstd, type *dx, float *dgamma, size_t rows,      \
                                     size_t hidden, float eps, float fraction)                     \
    {                                                                                              \
        const nk_args a = {.size = sizeof a,                                                       \
                           .rows = rows,                                                           \
                           .hidden = hidden,                                                       \
                           .x = x,                                                                 \
                           .gamma = gamma,                                                         \
                           .dy = dy,                                                               \
                           .rstd = (float *)(uintptr_t)rstd,                                       \
                           .dx = dx,                                                               \
                           .dgamma = dgamma,                                                       \
                           .eps = eps,                                                             \
                           .fraction = fraction};                                                  \
        return nk_call(NK_OP_prmsnorm_bwd, constant, &a);                                          \
    }                                                                                              \
    nk_status nk_add_layernorm_bwd_##name(const type *h, const type *gamma, const type *dy,        \
                                          const type *dh, const float *mean, const float *rstd,    \
                                          type *dx, float *dgamma, float *dbeta, size_t rows,      \
                                          size_t hidden, float eps)                                \
    {                                                                                              \
        const nk_args a = {.size = sizeof a,                                                       \
                           .rows = rows,                                                           \
                           .hidden = hidden,                                                       \
                           .x = h,                                                                 \
                           .gamma = gamma,                                                         \
                           .dy = dy,                                                               \
                           .dh = dh,                                                               \
                           .mean = (float *)(uintptr_t)mean,                                       \
                           .rstd = (float *)(uintptr_t)rstd,                                       \
                           .dx = dx,                                                               \
                           .dgamma = dgamma,                                                       \
                           .dbeta = dbeta,                                                         \
                           .eps = eps};                                                            \
        return nk_call(NK_OP_add_layernorm_bwd, constant, &a);                                     \
    }                                                                                              \
    nk_status nk_add_rmsnorm_bwd_##name(const type *h, const type *gamma, const type *dy,          \
                                        const type *dh, const float *rstd, type *dx,               \
                                        float *dgamma, size_t rows, size_t hidden, float eps)      \
    {                                                                                              \
        const nk_args a = {.size = sizeof a,                                                       \
                           .rows = rows,                                                           \
                           .hidden = hidden,                                                       \
                           .x = h,                                                                 \
                           .gamma = gamma,                                                         \
                           .dy = dy,                                                               \
                           .dh = dh,                                                               \
                           .rstd = (float *)(uintptr_t)rstd,                                       \
                           .dx = dx,                                                               \
                           .dgamma = dgamma,                                                       \
                           .eps = eps};                                                            \
        return nk_call(NK_OP_add_rmsnorm_bwd, constant, &a);                                       \
    }                                                                                              \
    nk_status nk_deepnorm_bwd_##name(                                                              \
        const type *x, const type *residual, const type *gamma, const type *dy, const type *dh,    \
        const float *mean, const float *rstd, type *dx, type *dresidual, float *dgamma,            \
        float *dbeta, float *dalpha, size_t rows, size_t hidden, float eps, float alpha)           \
    {                                                                                              \
        const nk_args a = {.size = sizeof a,                                                       \
                           .rows = rows,                                                           \
                           .hidden = hidden,                                                       \
                           .x = x,                                                                 \
                           .residual = residual,                                                   \
                           .gamma = gamma,                                                         \
                           .dy = dy,                                                               \
                           .dh = dh,                                                               \
                           .mean = (float *)(uintptr_t)mean,                                       \
                           .rstd = (float *)(uintptr_t)rstd,                                       \
                           .dx = dx,                                                               \
                           .dresidual = dresidual,                                                 \
                           .dgamma = dgamma,                                                       \
                           .dbeta = dbeta,                                                         \
                           .dalpha = dalpha,                                                       \
                           .eps = eps,                                                             \
                           .alpha = alpha};                                                        \
        return nk_call(NK_OP_deepnorm_bwd, constant, &a);                                          \
    }                                                                                              \
    nk_status nk_rmsnorm_add_bwd_##name(const type *residual, const type *gamma, const type *dh,   \
                                        const float *rstd, type *dresidual, float *dgamma,         \
                                        size_t rows, size_t hidden, float eps)                     \
    {                                                                                              \
        const nk_args a = {.size = sizeof a,                                                       \
                           .rows = rows,                                                           \
                           .hidden = hidden,                                                       \
                           .residual = residual,                                                   \
                           .gamma = gamma,                                                         \
                           .dh = dh,                                                               \
                           .rstd = (float *)(uintptr_t)rstd,                                       \
                           .dresidual = dresidual,                                                 \
                           .dgamma = dgamma,                                                       \
                           .eps = eps};                                                            \
        return nk_call(NK_OP_rmsnorm_add_bwd, constant, &a);                                       \
    }                                                                                              \
    nk_status nk_rmsnorm_add_rmsnorm_bwd_##name(                                                   \
        const type *h, const type *residual, const type *gamma, const type *gamma2,                \
        const type *dy, const type *dh, const float *rstd, const float *rstd2, type *dx,           \
        type *dresidual, float *dgamma, float *dgamma2, size_t rows, size_t hidden, float eps)     \
    {                                                                                              \
        const nk_args a = {.size = sizeof a,                                                       \
                           .rows = rows,                                                           \
                           .hidden = hidden,                                                       \
                           .x = h,                                                                 \
                           .residual = residual,                                                   \
                           .gamma = gamma,                                                         \
                           .gamma2 = gamma2,                                                       \
                           .dy = dy,                                                               \
                           .dh = dh,                                                               \
                           .rstd = (float *)(uintptr_t)rstd,                                       \
                           .rstd2 = (float *)(uintptr_t)rstd2,                                     \
                           .dx = dx,                                                               \
                           .dresidual = dresidual,                                                 \
                           .dgamma = dgamma,                                                       \
                           .dgamma2 = dgamma2,                                                     \
                           .eps = eps};                                                            \
        return nk_call(NK_OP_rmsnorm_add_rmsnorm_bwd, constant, &a);                               \
    }                                                                                              \
    nk_status nk_dyt_bwd_##name(const type *x, const type *gamma, const type *dy, type *dx,        \
                                float *dgamma, float *dbeta, float *dalpha, size_t rows,           \
                                size_t hidden, float alpha)                                        \
    {                                                                                              \
        const nk_args a = {.size = sizeof a,                                                       \
                           .rows = rows,                                                           \
                           .hidden = hidden,                                                       \
                           .x = x,                                                                 \
                           .gamma = gamma,                                                         \
                           .dy = dy,                                                               \
                           .dx = dx,                                                               \
                           .dgamma = dgamma,                                                       \
                           .dbeta = dbeta,                                                         \
                           .dalpha = dalpha,                                                       \
                           .alpha = alpha};                                                        \
        return nk_call(NK_OP_dyt_bwd, constant, &a);                                               \
    }
#include "dtype.def"
