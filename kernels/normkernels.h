/* SPDX-License-Identifier: Apache-2.0 */
/* normkernels: the normalisation kernels of Transformers, forward and
 * backward, in f32, bf16 and f16, for the instruction sets of the CPU at hand.
 *
 * Operands
 *   Row operands are [rows, hidden] matrices (a [B, T, D] tensor is B*T rows of
 *   D); rows lie `*_ld` elements apart, 0 meaning `hidden`. Their type is the
 *   kernel's dtype: float, or the 16 bits of a bfloat16 or IEEE half.
 *   Column operands (gamma, beta, gamma2) are [hidden], in the kernel's dtype
 *   or, with NK_PARAMS_F32, in float. Each may be absent (NULL): an absent
 *   gamma is ones, an absent beta zeros, bit for bit.
 *   mean, rstd, rstd2 are [rows]; dgamma, dbeta, dgamma2 are [hidden]; dalpha
 *   is one number. All of these are always float.
 *   Pointers need the alignment of their element only; 64 bytes is fastest.
 *
 * What every kernel promises (u = 2^-23, algorithm `default`, finite rows)
 *   |error| <= 8u * max(|y|, |gamma|, |beta|, 1), for the Sandwich forms with
 *   |x| and |h| in the max; in bf16 and f16 half a unit of the dtype more.
 *   A fused kernel normalises h as rounded to the dtype: it equals the unfused
 *   chain bit for bit on the same ISA.
 *   A row of zero variance (mean square) normalises to 0, also at eps 0; its
 *   rstd is then reported as 0 if eps is 0.
 *   LayerNorm of a row with a NaN or an infinity is NaN throughout. RMSNorm of
 *   a row with a NaN is NaN throughout, with an infinity NaN there and 0
 *   elsewhere. Other rows are untouched.
 *   A row's result depends on that row alone: the same bits whatever the other
 *   rows, their number, the strides, the alignment and the store mode.
 *   No byte outside the given rows is read or written.
 *
 * What is not promised: the same bits on different ISAs; equal results of
 * different algorithms; anything for overlaps other than the aliases named.
 *
 * The library allocates nothing, takes up to 70 KB of stack, prints nothing, has
 * no state but its dispatch table (set once, thread-safe), and may be called from
 * any thread. Split rows over threads as you like; backward kernels add into
 * dgamma, dbeta, dgamma2 and dalpha, so each thread brings its own. */
#ifndef NORMKERNELS_H
#define NORMKERNELS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NK_VERSION "0.1.0"
#define NK_API __attribute__((visibility("default")))

typedef uint16_t nk_bf16; /* the bits of a bfloat16 */
typedef uint16_t nk_f16;  /* the bits of an IEEE 754 binary16 */

/* The type of the row operands. */
typedef enum nk_dtype { NK_F32 = 0, NK_BF16 = 1, NK_F16 = 2 } nk_dtype;

/* nk_args.flags */
enum {
    NK_EPS_OUTSIDE = 1, /* divide by sqrt(var) + eps, not by sqrt(var + eps) */
    NK_UNBIASED = 2,    /* LayerNorm: var over hidden - 1 (0 where hidden is 1) */
    NK_PARAMS_F32 = 4   /* gamma, beta, gamma2 are float, whatever the dtype */
};

/* nk_args.store: how row outputs are written. Results are the same bits.
 * AUTO streams past the caches when the operands of this call exceed 5/8 of
 * `llc_bytes`, of which on Intel's CPUs 32 times L2 count at the most (but not a norm fused with an
 * addition before it in 16 bits where arithmetic binds it: two norms in one, and all of them on
 * CPUs other than Intel's); STREAM asks for it; either falls back to cached stores where output
 * rows are not aligned to 64 bytes, and on ISAs that have no such stores (scalar and NEON). */
enum { NK_STORE_AUTO = 0, NK_STORE_CACHED = 1, NK_STORE_STREAM = 2 };

/* The arguments of every kernel. Set all to zero, set `size`, then what the
 * kernel takes; an operand or option that it does not take must stay zero.
 * The struct only ever grows at its end: a kernel refuses a longer one unless
 * the part that it does not know is zero. */
typedef struct nk_args {
    size_t size;   /* sizeof(nk_args) */
    size_t rows;   /* 0 is success and touches nothing */
    size_t hidden; /* 0 likewise */

    /* row operands */
    const void *x;        /* the residual stream, or the input of a plain norm */
    const void *residual; /* what the sublayer adds to it */
    const void *dy;       /* backward: the gradient of y */
    const void *dh;       /* backward: the gradient on the straight path */
    void *y;
    void *h;
    void *dx;
    void *dresidual;

    /* column operands */
    const void *gamma;
    const void *beta;
    const void *gamma2; /* of the second norm of a Sandwich */

    /* statistics: written by forward kernels if wanted, read by backward
     * kernels if given (as exact), else computed */
    float *mean;
    float *rstd;
    float *rstd2; /* of the second norm of a Sandwich */

    /* backward: sums over rows are ADDED into these */
    float *dgamma;
    float *dbeta;
    float *dgamma2;
    float *dalpha;

    /* elements from one row to the next; 0 is `hidden` */
    size_t x_ld;
    size_t residual_ld;
    size_t dy_ld;
    size_t dh_ld;
    size_t y_ld;
    size_t h_ld;
    size_t dx_ld;
    size_t dresidual_ld;

    float eps;          /* >= 0, finite */
    float alpha;        /* deepnorm: the weight of x; dyt: tanh(alpha * x) */
    float gamma_offset; /* added to gamma and gamma2 (Gemma: 1) */
    float fraction;     /* prmsnorm: mean square over the first ceil(fraction * hidden) */

    uint32_t flags; /* NK_EPS_OUTSIDE | ... */
    uint32_t store; /* NK_STORE_* */

    size_t llc_bytes;     /* this thread's share of the last-level cache;
                             0: what the library itself found */
    uint32_t *store_used; /* if given, receives NK_STORE_CACHED or _STREAM */
} nk_args;

/* 0 is success. Anything else names what is wrong and with which operand;
 * nothing was written then. */
typedef int nk_status;
#define NK_OK 0

/* A sentence for a status, "x: required, but NULL" for instance. Never NULL. */
NK_API const char *nk_status_text(nk_status status);

typedef nk_status (*nk_function)(const nk_args *args);

/* ---- Choosing a kernel ------------------------------------------------- */

/* The best kernel for this CPU, or the one that is named. `op` and `dtype` as
 * listed below; `algorithm` NULL is "default"; `isa` NULL is the best of this
 * CPU and build (and of NORMKERNELS_ISA). NULL if there is none that runs here: then
 * *why, if wanted, is a text that lists what there is. */
NK_API nk_function nk_find(const char *op, const char *algorithm, const char *dtype,
                           const char *isa, const char **why);

/* The environment variable NORMKERNELS_ISA=scalar|avx2|avx512|neon makes that
 * ISA the only one. NORMKERNELS_WITHOUT=avx512_bf16 does without the CPU's own
 * conversion to bf16, which avx512 uses where it is; NORMKERNELS_WITHOUT=overlap without
 * what is done on Intel alone: reading rows while others are written, and bf16 by code
 * whatever the CPU has; either with the same results (one of the two at a time). NULL if
 * both variables are unset or valid, else a text that says what is wrong and lists what
 * there is; every kernel then refuses to run. */
NK_API const char *nk_isa_error(void);

/* ---- Providers ---------------------------------------------------------
 * A provider is a shared object that exports nk_provider_v1. libnormkernels.so
 * is one; anyone's kernels can be another. */

typedef struct nk_kernel {
    const char *op;          /* "rmsnorm" */
    const char *algorithm;   /* "default" */
    const char *dtype;       /* "f32" "bf16" "f16" */
    const char *isa;         /* "avx512" */
    const char *unavailable; /* NULL, or why it cannot run on this machine */
    nk_function function;
} nk_kernel;

typedef struct nk_provider {
    uint32_t abi;         /* 1 */
    uint32_t kernel_size; /* sizeof(nk_kernel) */
    const char *name;     /* "normkernels" */
    const char *version;
    const char *build; /* compiler, flags, commit: free text */
    const char *error; /* NULL, or why nothing can be used as configured */
    const nk_kernel *kernels;
    size_t count;
    const char *(*status_text)(nk_status status); /* may be NULL */
} nk_provider;

NK_API const nk_provider *nk_provider_v1(void);
typedef const nk_provider *(*nk_provider_entry)(void);

/* ---- Typed entry points: the best kernel for this CPU --------------------
 * Dense rows, gamma and beta in the dtype; forward, no statistics. gamma, beta and h
 * may be NULL. A row output may be a row input of the same call, exactly. */

/* h = x + residual. He et al. 2015. */
NK_API nk_status nk_residual_add_f32(const float *x, const float *residual, float *h, size_t rows,
                                     size_t hidden);
NK_API nk_status nk_residual_add_bf16(const nk_bf16 *x, const nk_bf16 *residual, nk_bf16 *h,
                                      size_t rows, size_t hidden);
NK_API nk_status nk_residual_add_f16(const nk_f16 *x, const nk_f16 *residual, nk_f16 *h,
                                     size_t rows, size_t hidden);

/* y = (x - mean) / sqrt(var + eps) * gamma + beta, mean and population variance
 * over hidden. Ba, Kiros & Hinton 2016. */
NK_API nk_status nk_layernorm_f32(const float *x, const float *gamma, const float *beta, float *y,
                                  size_t rows, size_t hidden, float eps);
NK_API nk_status nk_layernorm_bf16(const nk_bf16 *x, const nk_bf16 *gamma, const nk_bf16 *beta,
                                   nk_bf16 *y, size_t rows, size_t hidden, float eps);
NK_API nk_status nk_layernorm_f16(const nk_f16 *x, const nk_f16 *gamma, const nk_f16 *beta,
                                  nk_f16 *y, size_t rows, size_t hidden, float eps);

/* y = x / sqrt(mean(x^2) + eps) * gamma. Zhang & Sennrich 2019. */
NK_API nk_status nk_rmsnorm_f32(const float *x, const float *gamma, float *y, size_t rows,
                                size_t hidden, float eps);
NK_API nk_status nk_rmsnorm_bf16(const nk_bf16 *x, const nk_bf16 *gamma, nk_bf16 *y, size_t rows,
                                 size_t hidden, float eps);
NK_API nk_status nk_rmsnorm_f16(const nk_f16 *x, const nk_f16 *gamma, nk_f16 *y, size_t rows,
                                size_t hidden, float eps);

/* Post-Norm: h = x + residual; y = layernorm(h). Vaswani et al. 2017. */
NK_API nk_status nk_add_layernorm_f32(const float *x, const float *residual, const float *gamma,
                                      const float *beta, float *h, float *y, size_t rows,
                                      size_t hidden, float eps);
NK_API nk_status nk_add_layernorm_bf16(const nk_bf16 *x, const nk_bf16 *residual,
                                       const nk_bf16 *gamma, const nk_bf16 *beta, nk_bf16 *h,
                                       nk_bf16 *y, size_t rows, size_t hidden, float eps);
NK_API nk_status nk_add_layernorm_f16(const nk_f16 *x, const nk_f16 *residual, const nk_f16 *gamma,
                                      const nk_f16 *beta, nk_f16 *h, nk_f16 *y, size_t rows,
                                      size_t hidden, float eps);

/* Pre-Norm: h = x + residual; y = rmsnorm(h). Xiong et al. 2020. */
NK_API nk_status nk_add_rmsnorm_f32(const float *x, const float *residual, const float *gamma,
                                    float *h, float *y, size_t rows, size_t hidden, float eps);
NK_API nk_status nk_add_rmsnorm_bf16(const nk_bf16 *x, const nk_bf16 *residual,
                                     const nk_bf16 *gamma, nk_bf16 *h, nk_bf16 *y, size_t rows,
                                     size_t hidden, float eps);
NK_API nk_status nk_add_rmsnorm_f16(const nk_f16 *x, const nk_f16 *residual, const nk_f16 *gamma,
                                    nk_f16 *h, nk_f16 *y, size_t rows, size_t hidden, float eps);

/* pRMSNorm: as rmsnorm, with the mean square of the first ceil(fraction * hidden)
 * elements, 0 < fraction <= 1. Zhang & Sennrich 2019. */
NK_API nk_status nk_prmsnorm_f32(const float *x, const float *gamma, float *y, size_t rows,
                                 size_t hidden, float eps, float fraction);
NK_API nk_status nk_prmsnorm_bf16(const nk_bf16 *x, const nk_bf16 *gamma, nk_bf16 *y, size_t rows,
                                  size_t hidden, float eps, float fraction);
NK_API nk_status nk_prmsnorm_f16(const nk_f16 *x, const nk_f16 *gamma, nk_f16 *y, size_t rows,
                                 size_t hidden, float eps, float fraction);

/* DeepNorm: h = alpha * x + residual; y = layernorm(h). alpha is (2N)^(1/4) for N
 * layers of an encoder or decoder alone. Wang et al. 2022. */
NK_API nk_status nk_deepnorm_f32(const float *x, const float *residual, const float *gamma,
                                 const float *beta, float *h, float *y, size_t rows, size_t hidden,
                                 float eps, float alpha);
NK_API nk_status nk_deepnorm_bf16(const nk_bf16 *x, const nk_bf16 *residual, const nk_bf16 *gamma,
                                  const nk_bf16 *beta, nk_bf16 *h, nk_bf16 *y, size_t rows,
                                  size_t hidden, float eps, float alpha);
NK_API nk_status nk_deepnorm_f16(const nk_f16 *x, const nk_f16 *residual, const nk_f16 *gamma,
                                 const nk_f16 *beta, nk_f16 *h, nk_f16 *y, size_t rows,
                                 size_t hidden, float eps, float alpha);

/* Sandwich, after the sublayer: h = x + rmsnorm(residual, gamma), the norm rounded
 * to the dtype before it is added. Ding et al. 2021; Gemma 2. */
NK_API nk_status nk_rmsnorm_add_f32(const float *x, const float *residual, const float *gamma,
                                    float *h, size_t rows, size_t hidden, float eps);
NK_API nk_status nk_rmsnorm_add_bf16(const nk_bf16 *x, const nk_bf16 *residual,
                                     const nk_bf16 *gamma, nk_bf16 *h, size_t rows, size_t hidden,
                                     float eps);
NK_API nk_status nk_rmsnorm_add_f16(const nk_f16 *x, const nk_f16 *residual, const nk_f16 *gamma,
                                    nk_f16 *h, size_t rows, size_t hidden, float eps);

/* Sandwich, both norms around the addition: h = x + rmsnorm(residual, gamma);
 * y = rmsnorm(h, gamma2). Gemma 2. */
NK_API nk_status nk_rmsnorm_add_rmsnorm_f32(const float *x, const float *residual,
                                            const float *gamma, const float *gamma2, float *h,
                                            float *y, size_t rows, size_t hidden, float eps);
NK_API nk_status nk_rmsnorm_add_rmsnorm_bf16(const nk_bf16 *x, const nk_bf16 *residual,
                                             const nk_bf16 *gamma, const nk_bf16 *gamma2,
                                             nk_bf16 *h, nk_bf16 *y, size_t rows, size_t hidden,
                                             float eps);
NK_API nk_status nk_rmsnorm_add_rmsnorm_f16(const nk_f16 *x, const nk_f16 *residual,
                                            const nk_f16 *gamma, const nk_f16 *gamma2, nk_f16 *h,
                                            nk_f16 *y, size_t rows, size_t hidden, float eps);

/* DyT: y = gamma * tanh(alpha * x) + beta. Zhu et al. 2025. */
NK_API nk_status nk_dyt_f32(const float *x, const float *gamma, const float *beta, float *y,
                            size_t rows, size_t hidden, float alpha);
NK_API nk_status nk_dyt_bf16(const nk_bf16 *x, const nk_bf16 *gamma, const nk_bf16 *beta,
                             nk_bf16 *y, size_t rows, size_t hidden, float alpha);
NK_API nk_status nk_dyt_f16(const nk_f16 *x, const nk_f16 *gamma, const nk_f16 *beta, nk_f16 *y,
                            size_t rows, size_t hidden, float alpha);

/* ---- Backward ------------------------------------------------------------
 * x, residual and gamma are those of the forward pass; dy is the gradient of y,
 * dh the one of h that arrives on the straight path (NULL: none). The row that
 * was normalised is h as rounded to the dtype, which add_layernorm_bwd,
 * add_rmsnorm_bwd and rmsnorm_add_rmsnorm_bwd take as their operand x, as the
 * forward pass wrote it; where nk_args.residual is given too, the first two make
 * h = x + residual again. deepnorm_bwd makes it again from x and residual;
 * rmsnorm_add_bwd needs residual alone.
 *
 * mean and rstd as the forward pass wrote them spare their computation and are
 * taken as exact; NULL, or one without the other: the row's own.
 * dgamma, dbeta, dgamma2 and dalpha are ADDED to: set them to 0 first. Outputs
 * that are NULL are not wanted. dx or dresidual may be any row input, exactly.
 *
 * Promise, for finite rows whose gradients fit their type (u = 2^-23):
 *   |error| of dx <= 64u * rstd * max|w| * (1 + |xhat|), and 64u * |dh| more;
 *   of dgamma <= 64u * sum |dy| * |xhat|, where LayerNorm computes mean itself
 *   64u * sum |dy| * max(|xhat|, 1); of dbeta <= 64u * sum |dy|; each also of
 *   the smallest normal float. The error of sums does not grow with rows where
 *   hidden is at most 8192; beyond, by u/2 at the worst for every 8 rows.
 *   A row of zero variance (mean square), where every xhat is 0, has the norm's
 *   gradient 0, at any eps. A NaN or an infinity in a row makes NaN of dx and,
 *   where xhat is NaN, of dgamma. dx depends on its row alone; the sums depend
 *   on the order of the rows. */

/* LayerNorm backward. With xhat = (x - mean) * rstd, w = dy * gamma:
 * dx = rstd * (w - mean(w) - xhat * mean(w * xhat)); dgamma += sum of dy * xhat,
 * dbeta += sum of dy, over rows. Ba, Kiros & Hinton 2016. */
NK_API nk_status nk_layernorm_bwd_f32(const float *x, const float *gamma, const float *dy,
                                      const float *mean, const float *rstd, float *dx,
                                      float *dgamma, float *dbeta, size_t rows, size_t hidden,
                                      float eps);
NK_API nk_status nk_layernorm_bwd_bf16(const nk_bf16 *x, const nk_bf16 *gamma, const nk_bf16 *dy,
                                       const float *mean, const float *rstd, nk_bf16 *dx,
                                       float *dgamma, float *dbeta, size_t rows, size_t hidden,
                                       float eps);
NK_API nk_status nk_layernorm_bwd_f16(const nk_f16 *x, const nk_f16 *gamma, const nk_f16 *dy,
                                      const float *mean, const float *rstd, nk_f16 *dx,
                                      float *dgamma, float *dbeta, size_t rows, size_t hidden,
                                      float eps);

/* RMSNorm backward. With xhat = x * rstd, w = dy * gamma:
 * dx = rstd * (w - xhat * mean(w * xhat)); dgamma += sum of dy * xhat. Zhang &
 * Sennrich 2019. */
NK_API nk_status nk_rmsnorm_bwd_f32(const float *x, const float *gamma, const float *dy,
                                    const float *rstd, float *dx, float *dgamma, size_t rows,
                                    size_t hidden, float eps);
NK_API nk_status nk_rmsnorm_bwd_bf16(const nk_bf16 *x, const nk_bf16 *gamma, const nk_bf16 *dy,
                                     const float *rstd, nk_bf16 *dx, float *dgamma, size_t rows,
                                     size_t hidden, float eps);
NK_API nk_status nk_rmsnorm_bwd_f16(const nk_f16 *x, const nk_f16 *gamma, const nk_f16 *dy,
                                    const float *rstd, nk_f16 *dx, float *dgamma, size_t rows,
                                    size_t hidden, float eps);

/* pRMSNorm backward: as rmsnorm_bwd, but that the last term is of the first
 * ceil(fraction * hidden) elements alone, and its mean over these. */
NK_API nk_status nk_prmsnorm_bwd_f32(const float *x, const float *gamma, const float *dy,
                                     const float *rstd, float *dx, float *dgamma, size_t rows,
                                     size_t hidden, float eps, float fraction);
NK_API nk_status nk_prmsnorm_bwd_bf16(const nk_bf16 *x, const nk_bf16 *gamma, const nk_bf16 *dy,
                                      const float *rstd, nk_bf16 *dx, float *dgamma, size_t rows,
                                      size_t hidden, float eps, float fraction);
NK_API nk_status nk_prmsnorm_bwd_f16(const nk_f16 *x, const nk_f16 *gamma, const nk_f16 *dy,
                                     const float *rstd, nk_f16 *dx, float *dgamma, size_t rows,
                                     size_t hidden, float eps, float fraction);

/* Post-Norm backward: dx = dresidual = dh + layernorm_bwd(dy) at h, so that one of
 * the two is enough. */
NK_API nk_status nk_add_layernorm_bwd_f32(const float *h, const float *gamma, const float *dy,
                                          const float *dh, const float *mean, const float *rstd,
                                          float *dx, float *dgamma, float *dbeta, size_t rows,
                                          size_t hidden, float eps);
NK_API nk_status nk_add_layernorm_bwd_bf16(const nk_bf16 *h, const nk_bf16 *gamma,
                                           const nk_bf16 *dy, const nk_bf16 *dh, const float *mean,
                                           const float *rstd, nk_bf16 *dx, float *dgamma,
                                           float *dbeta, size_t rows, size_t hidden, float eps);
NK_API nk_status nk_add_layernorm_bwd_f16(const nk_f16 *h, const nk_f16 *gamma, const nk_f16 *dy,
                                          const nk_f16 *dh, const float *mean, const float *rstd,
                                          nk_f16 *dx, float *dgamma, float *dbeta, size_t rows,
                                          size_t hidden, float eps);

/* Pre-Norm backward: dx = dresidual = dh + rmsnorm_bwd(dy) at h. */
NK_API nk_status nk_add_rmsnorm_bwd_f32(const float *h, const float *gamma, const float *dy,
                                        const float *dh, const float *rstd, float *dx,
                                        float *dgamma, size_t rows, size_t hidden, float eps);
NK_API nk_status nk_add_rmsnorm_bwd_bf16(const nk_bf16 *h, const nk_bf16 *gamma, const nk_bf16 *dy,
                                         const nk_bf16 *dh, const float *rstd, nk_bf16 *dx,
                                         float *dgamma, size_t rows, size_t hidden, float eps);
NK_API nk_status nk_add_rmsnorm_bwd_f16(const nk_f16 *h, const nk_f16 *gamma, const nk_f16 *dy,
                                        const nk_f16 *dh, const float *rstd, nk_f16 *dx,
                                        float *dgamma, size_t rows, size_t hidden, float eps);

/* DeepNorm backward: dresidual = dh + layernorm_bwd(dy) at h = alpha * x + residual;
 * dx = alpha * dresidual; dalpha += sum of x * dresidual. */
NK_API nk_status nk_deepnorm_bwd_f32(const float *x, const float *residual, const float *gamma,
                                     const float *dy, const float *dh, const float *mean,
                                     const float *rstd, float *dx, float *dresidual, float *dgamma,
                                     float *dbeta, float *dalpha, size_t rows, size_t hidden,
                                     float eps, float alpha);
NK_API nk_status nk_deepnorm_bwd_bf16(const nk_bf16 *x, const nk_bf16 *residual,
                                      const nk_bf16 *gamma, const nk_bf16 *dy, const nk_bf16 *dh,
                                      const float *mean, const float *rstd, nk_bf16 *dx,
                                      nk_bf16 *dresidual, float *dgamma, float *dbeta,
                                      float *dalpha, size_t rows, size_t hidden, float eps,
                                      float alpha);
NK_API nk_status nk_deepnorm_bwd_f16(const nk_f16 *x, const nk_f16 *residual, const nk_f16 *gamma,
                                     const nk_f16 *dy, const nk_f16 *dh, const float *mean,
                                     const float *rstd, nk_f16 *dx, nk_f16 *dresidual,
                                     float *dgamma, float *dbeta, float *dalpha, size_t rows,
                                     size_t hidden, float eps, float alpha);

/* Sandwich, after the sublayer, backward: dresidual = rmsnorm_bwd(dh) at residual;
 * dx is dh. */
NK_API nk_status nk_rmsnorm_add_bwd_f32(const float *residual, const float *gamma, const float *dh,
                                        const float *rstd, float *dresidual, float *dgamma,
                                        size_t rows, size_t hidden, float eps);
NK_API nk_status nk_rmsnorm_add_bwd_bf16(const nk_bf16 *residual, const nk_bf16 *gamma,
                                         const nk_bf16 *dh, const float *rstd, nk_bf16 *dresidual,
                                         float *dgamma, size_t rows, size_t hidden, float eps);
NK_API nk_status nk_rmsnorm_add_bwd_f16(const nk_f16 *residual, const nk_f16 *gamma,
                                        const nk_f16 *dh, const float *rstd, nk_f16 *dresidual,
                                        float *dgamma, size_t rows, size_t hidden, float eps);

/* Sandwich, both, backward: dx = dh + rmsnorm_bwd(dy) at h with gamma2 and rstd2;
 * dresidual = rmsnorm_bwd(dx) at residual. */
NK_API nk_status nk_rmsnorm_add_rmsnorm_bwd_f32(const float *h, const float *residual,
                                                const float *gamma, const float *gamma2,
                                                const float *dy, const float *dh, const float *rstd,
                                                const float *rstd2, float *dx, float *dresidual,
                                                float *dgamma, float *dgamma2, size_t rows,
                                                size_t hidden, float eps);
NK_API nk_status nk_rmsnorm_add_rmsnorm_bwd_bf16(const nk_bf16 *h, const nk_bf16 *residual,
                                                 const nk_bf16 *gamma, const nk_bf16 *gamma2,
                                                 const nk_bf16 *dy, const nk_bf16 *dh,
                                                 const float *rstd, const float *rstd2, nk_bf16 *dx,
                                                 nk_bf16 *dresidual, float *dgamma, float *dgamma2,
                                                 size_t rows, size_t hidden, float eps);
NK_API nk_status nk_rmsnorm_add_rmsnorm_bwd_f16(const nk_f16 *h, const nk_f16 *residual,
                                                const nk_f16 *gamma, const nk_f16 *gamma2,
                                                const nk_f16 *dy, const nk_f16 *dh,
                                                const float *rstd, const float *rstd2, nk_f16 *dx,
                                                nk_f16 *dresidual, float *dgamma, float *dgamma2,
                                                size_t rows, size_t hidden, float eps);

/* DyT backward. With t = tanh(alpha * x): dx = dy * gamma * alpha * (1 - t^2);
 * dgamma += sum of dy * t; dbeta += sum of dy; dalpha += sum of
 * dy * gamma * x * (1 - t^2), over rows and columns. */
NK_API nk_status nk_dyt_bwd_f32(const float *x, const float *gamma, const float *dy, float *dx,
                                float *dgamma, float *dbeta, float *dalpha, size_t rows,
                                size_t hidden, float alpha);
NK_API nk_status nk_dyt_bwd_bf16(const nk_bf16 *x, const nk_bf16 *gamma, const nk_bf16 *dy,
                                 nk_bf16 *dx, float *dgamma, float *dbeta, float *dalpha,
                                 size_t rows, size_t hidden, float alpha);
NK_API nk_status nk_dyt_bwd_f16(const nk_f16 *x, const nk_f16 *gamma, const nk_f16 *dy, nk_f16 *dx,
                                float *dgamma, float *dbeta, float *dalpha, size_t rows,
                                size_t hidden, float alpha);

#ifdef __cplusplus
}
#endif
#endif
