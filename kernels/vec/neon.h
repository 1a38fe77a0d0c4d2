/* SPDX-License-Identifier: Apache-2.0 */
/* AArch64 Advanced SIMD: eight floats a vec, in two q registers. */
#include "vec.h"
#include <arm_neon.h>
#include <sleef.h>

typedef struct vec {
    float32x4_t a, b;
} vec;

NK_INLINE size_t vec_lanes(void)
{
    return 8;
}

NK_INLINE vec vec_set1(float value)
{
    return (vec){vdupq_n_f32(value), vdupq_n_f32(value)};
}

NK_INLINE vec vec_zero(void)
{
    return vec_set1(0);
}

NK_INLINE vec vec_add(vec x, vec y)
{
    return (vec){vaddq_f32(x.a, y.a), vaddq_f32(x.b, y.b)};
}

NK_INLINE vec vec_sub(vec x, vec y)
{
    return (vec){vsubq_f32(x.a, y.a), vsubq_f32(x.b, y.b)};
}

NK_INLINE vec vec_mul(vec x, vec y)
{
    return (vec){vmulq_f32(x.a, y.a), vmulq_f32(x.b, y.b)};
}

NK_INLINE vec vec_fma(vec x, vec y, vec z)
{
    return (vec){vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b)};
}

NK_INLINE vec vec_fma_once(vec x, vec y, vec z)
{
    return vec_fma(x, y, z);
}

NK_INLINE vec vec_div(vec x, vec y)
{
    return (vec){vdivq_f32(x.a, y.a), vdivq_f32(x.b, y.b)};
}

NK_INLINE vec vec_clamp(vec v, float bound)
{
    const float32x4_t low = vdupq_n_f32(-bound), high = vdupq_n_f32(bound);
    return (vec){vminq_f32(high, vmaxq_f32(low, v.a)), vminq_f32(high, vmaxq_f32(low, v.b))};
}

/* The addition leaves n + 127 in the low bits, from where it becomes the
 * exponent. */
NK_INLINE vec vec_power_of_two(vec n)
{
    const vec shifted = vec_add(n, vec_set1(0x1.8p23f + 127));
    return (vec){vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(shifted.a), 23)),
                 vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(shifted.b), 23))};
}

NK_INLINE vec vec_finite(vec v)
{
    const vec d = vec_sub(v, v); /* 0 or NaN */
    return (vec){vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(v.a), vceqq_f32(d.a, d.a))),
                 vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(v.b), vceqq_f32(d.b, d.b)))};
}

NK_INLINE vec vec_tanh(vec v)
{
    return (vec){Sleef_tanhf4_u35advsimd(v.a), Sleef_tanhf4_u35advsimd(v.b)};
}

NK_INLINE float vec_sum(vec v)
{
    return vaddvq_f32(vaddq_f32(v.a, v.b));
}

/* bf16 in the upper halves of 32-bit lanes, the lower halves undefined. */
NK_INLINE uint32x4_t bf16_round_up_half(float32x4_t v)
{
    const uint32x4_t bits = vreinterpretq_u32_f32(v);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7FFF)), odd);
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    return vbslq_u32(vceqq_f32(v, v), rounded, quiet);
}

NK_INLINE uint32x4_t upper_halves(uint32x4_t v)
{
    return vandq_u32(v, vdupq_n_u32(0xFFFF0000));
}

NK_INLINE vec bf16_split(uint16x8_t elements)
{
    const uint32x4_t pairs = vreinterpretq_u32_u16(elements);
    return (vec){vreinterpretq_f32_u32(vshlq_n_u32(pairs, 16)),
                 vreinterpretq_f32_u32(upper_halves(pairs))};
}

NK_INLINE uint16x8_t bf16_join(vec v)
{
    const uint32x4_t even = vshrq_n_u32(bf16_round_up_half(v.a), 16);
    const uint32x4_t odd = upper_halves(bf16_round_up_half(v.b));
    return vreinterpretq_u16_u32(vorrq_u32(even, odd));
}

NK_INLINE vec f16_widen(uint16x8_t elements)
{
    const float16x8_t halves = vreinterpretq_f16_u16(elements);
    return (vec){vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves)};
}

NK_INLINE uint16x8_t f16_narrow(vec v)
{
    return vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(v.a), v.b));
}

NK_INLINE vec widen(uint16x8_t elements, nk_dtype dtype)
{
    return dtype == NK_BF16 ? bf16_split(elements) : f16_widen(elements);
}

NK_INLINE uint16x8_t narrow(vec v, nk_dtype dtype)
{
    return dtype == NK_BF16 ? bf16_join(v) : f16_narrow(v);
}

NK_INLINE vec vec_round(vec v, nk_dtype dtype)
{
    if (dtype == NK_F32)
        return v;
    if (dtype == NK_BF16)
        return (vec){vreinterpretq_f32_u32(upper_halves(bf16_round_up_half(v.a))),
                     vreinterpretq_f32_u32(upper_halves(bf16_round_up_half(v.b)))};
    return f16_widen(f16_narrow(v));
}

NK_INLINE vec vec_load(const void *p, size_t i, nk_dtype dtype)
{
    if (dtype != NK_F32)
        return widen(vld1q_u16((const uint16_t *)p + i), dtype);
    const float *f = (const float *)p + i;
    return (vec){vld1q_f32(f), vld1q_f32(f + 4)};
}

/* NEON has no masked moves: tails go through a vector's worth of stack. */
NK_INLINE vec vec_load_n(const void *p, size_t i, size_t n, nk_dtype dtype)
{
    if (dtype != NK_F32) {
        uint16_t elements[8] = {0};
        for (size_t j = 0; j < n; j++)
            elements[j] = ((const uint16_t *)p)[i + j];
        return vec_load(elements, 0, dtype);
    }
    float elements[8] = {0};
    for (size_t j = 0; j < n; j++)
        elements[j] = ((const float *)p)[i + j];
    return vec_load(elements, 0, dtype);
}

NK_INLINE vec split_even_odd(vec v)
{
    return (vec){vuzp1q_f32(v.a, v.b), vuzp2q_f32(v.a, v.b)};
}

NK_INLINE vec vec_load_as(const void *p, size_t i, nk_dtype from, nk_dtype dtype)
{
    const vec v = vec_load(p, i, from);
    return from == NK_F32 && dtype == NK_BF16 ? split_even_odd(v) : v;
}

NK_INLINE vec vec_load_as_n(const void *p, size_t i, size_t n, nk_dtype from, nk_dtype dtype)
{
    const vec v = vec_load_n(p, i, n, from);
    return from == NK_F32 && dtype == NK_BF16 ? split_even_odd(v) : v;
}

NK_INLINE void vec_store(void *p, size_t i, vec v, nk_dtype dtype)
{
    if (dtype != NK_F32) {
        vst1q_u16((uint16_t *)p + i, narrow(v, dtype));
        return;
    }
    float *f = (float *)p + i;
    vst1q_f32(f, v.a);
    vst1q_f32(f + 4, v.b);
}

/* Rounds to the dtype, stores that, and returns it: no second rounding. */
NK_INLINE vec vec_store_round(void *p, size_t i, vec v, nk_dtype dtype)
{
    if (dtype == NK_F32) {
        vec_store(p, i, v, dtype);
        return v;
    }
    if (dtype == NK_F16) {
        const uint16x8_t halves = f16_narrow(v);
        vst1q_u16((uint16_t *)p + i, halves);
        return f16_widen(halves);
    }
    const vec rounded = vec_round(v, dtype);
    const uint32x4_t even = vshrq_n_u32(vreinterpretq_u32_f32(rounded.a), 16);
    const uint32x4_t both = vorrq_u32(even, vreinterpretq_u32_f32(rounded.b));
    vst1q_u16((uint16_t *)p + i, vreinterpretq_u16_u32(both));
    return rounded;
}

NK_INLINE void vec_store_n(void *p, size_t i, size_t n, vec v, nk_dtype dtype)
{
    if (dtype != NK_F32) {
        uint16_t elements[8];
        vec_store(elements, 0, v, dtype);
        for (size_t j = 0; j < n; j++)
            ((uint16_t *)p)[i + j] = elements[j];
        return;
    }
    float elements[8];
    vec_store(elements, 0, v, dtype);
    for (size_t j = 0; j < n; j++)
        ((float *)p)[i + j] = elements[j];
}

/* STNP is a hint that has no intrinsic: plain stores. */
NK_INLINE vec join_even_odd(vec v)
{
    return (vec){vzip1q_f32(v.a, v.b), vzip2q_f32(v.a, v.b)};
}

NK_INLINE void vec_store_f32(float *p, size_t i, vec v, nk_dtype dtype)
{
    vec_store(p, i, dtype == NK_BF16 ? join_even_odd(v) : v, NK_F32);
}

NK_INLINE void vec_store_f32_n(float *p, size_t i, size_t n, vec v, nk_dtype dtype)
{
    vec_store_n(p, i, n, dtype == NK_BF16 ? join_even_odd(v) : v, NK_F32);
}

NK_INLINE vec vec_cut_nan(vec v)
{
    return v; /* rounding leaves any alone */
}

NK_INLINE vec vec_keep(vec v)
{
    return v;
}

#define VEC_SUMS_BESIDE 0
#define VEC_EXPECTS 0
#define VEC_PAIRS 0
#define VEC_WIDENS 1
#define VEC_LEAVES_FLOATS 0
#define VEC_TWO_COLUMNS(dtype) 0
#define VEC_STREAMS 0

NK_INLINE void vec_stream(void *p, size_t i, vec v, nk_dtype dtype)
{
    vec_store(p, i, v, dtype);
}

NK_INLINE void vec_fence(void)
{
}
