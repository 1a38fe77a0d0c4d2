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
