/* SPDX-License-Identifier: Apache-2.0 */
/* One element at a time, as a CPU without vectors would: two floats a vec, to
 * keep two chains. Compiled without auto-vectorisation. */
#include "vec.h"
#include <math.h>
#include <sleef.h>

typedef struct vec {
    float a, b;
} vec;

NK_INLINE size_t vec_lanes(void)
{
    return 2;
}

NK_INLINE vec vec_set1(float value)
{
    return (vec){value, value};
}

NK_INLINE vec vec_zero(void)
{
    return vec_set1(0);
}

NK_INLINE vec vec_add(vec x, vec y)
{
    return (vec){x.a + y.a, x.b + y.b};
}

NK_INLINE vec vec_sub(vec x, vec y)
{
    return (vec){x.a - y.a, x.b - y.b};
}

NK_INLINE vec vec_mul(vec x, vec y)
{
    return (vec){x.a * y.a, x.b * y.b};
}

/* Two roundings: the baseline has no fused instruction, and fmaf would be a
 * call for each element. */
NK_INLINE vec vec_fma(vec x, vec y, vec z)
{
    return (vec){x.a * y.a + z.a, x.b * y.b + z.b};
}

NK_INLINE vec vec_fma_once(vec x, vec y, vec z)
{
    return (vec){fmaf(x.a, y.a, z.a), fmaf(x.b, y.b, z.b)};
}

NK_INLINE vec vec_div(vec x, vec y)
{
    return (vec){x.a / y.a, x.b / y.b};
}

NK_INLINE float clamp_1(float v, float bound)
{
    const float above = v < -bound ? -bound : v;
    return above > bound ? bound : above;
}

NK_INLINE vec vec_clamp(vec v, float bound)
{
    return (vec){clamp_1(v.a, bound), clamp_1(v.b, bound)};
}

/* The addition leaves n + 127 in the low bits, from where it becomes the
 * exponent. */
NK_INLINE float power_of_two_1(float n)
{
    const float shifted = n + (0x1.8p23f + 127);
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits <<= 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

NK_INLINE vec vec_power_of_two(vec n)
{
    return (vec){power_of_two_1(n.a), power_of_two_1(n.b)};
}

NK_INLINE vec vec_finite(vec v)
{
    return (vec){v.a - v.a == 0 ? v.a : 0, v.b - v.b == 0 ? v.b : 0};
}

NK_INLINE vec vec_tanh(vec v)
{
    return (vec){Sleef_tanhf_u35(v.a), Sleef_tanhf_u35(v.b)};
}

NK_INLINE float vec_sum(vec v)
{
    return v.a + v.b;
}

NK_INLINE uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

NK_INLINE float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* By memcpy: a copy of 16-bit rows moves them as floats, wherever they lie. */
NK_INLINE float load_1(const void *p, size_t i, nk_dtype dtype)
{
    if (dtype == NK_F32) {
        float value;
        memcpy(&value, (const char *)p + i * sizeof value, sizeof value);
        return value;
    }
    const uint32_t bits = ((const uint16_t *)p)[i];
    if (dtype == NK_BF16)
        return float_of(bits << 16);
    /* f16: scaling by 2^112 sets the exponent right, subnormals included;
     * infinities and NaNs then lack the top of theirs */
    const float magnitude = float_of((bits & 0x7FFF) << 13) * 0x1p112f;
    const uint32_t special = (bits & 0x7C00) == 0x7C00 ? 0x7F800000 : 0;
    return float_of(float_bits(magnitude) | special | (bits & 0x8000) << 16);
}

NK_INLINE uint16_t bf16_of(float value)
{
    const uint32_t bits = float_bits(value);
    if (value != value)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

NK_INLINE uint16_t f16_of(float value)
{
    const uint32_t bits = float_bits(value), sign = bits >> 16 & 0x8000,
                   magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000)
        return (uint16_t)(sign | 0x7E00 | (magnitude >> 13 & 0x3FF));
    if (magnitude >= 0x477FF000) /* 65520, halfway to 65536, and above */
        return (uint16_t)(sign | 0x7C00);
    if (magnitude < 0x38800000) { /* subnormal: the addition rounds to units of 2^-24 */
        const float units = float_of(magnitude) + 0.5f;
        return (uint16_t)(sign | (float_bits(units) - 0x3F000000));
    }
    const uint32_t even = magnitude >> 13 & 1;
    return (uint16_t)(sign | ((magnitude - 0x38000000 + 0xFFF + even) >> 13));
}

NK_INLINE void store_1(void *p, size_t i, float value, nk_dtype dtype)
{
    if (dtype == NK_F32)
        memcpy((char *)p + i * sizeof value, &value, sizeof value);
    else
        ((uint16_t *)p)[i] = dtype == NK_BF16 ? bf16_of(value) : f16_of(value);
}

NK_INLINE float round_1(float value, nk_dtype dtype)
{
    uint16_t bits;
    if (dtype == NK_F32)
        return value;
    store_1(&bits, 0, value, dtype);
    return load_1(&bits, 0, dtype);
}

NK_INLINE vec vec_round(vec v, nk_dtype dtype)
{
    return (vec){round_1(v.a, dtype), round_1(v.b, dtype)};
}

NK_INLINE vec vec_load(const void *p, size_t i, nk_dtype dtype)
{
    return (vec){load_1(p, i, dtype), load_1(p, i + 1, dtype)};
}

NK_INLINE vec vec_load_n(const void *p, size_t i, size_t n, nk_dtype dtype)
{
    return (vec){n > 0 ? load_1(p, i, dtype) : 0, 0};
}

NK_INLINE vec vec_load_as(const void *p, size_t i, nk_dtype from, nk_dtype dtype)
{
    (void)dtype;
    return vec_load(p, i, from);
}

NK_INLINE vec vec_load_as_n(const void *p, size_t i, size_t n, nk_dtype from, nk_dtype dtype)
{
    (void)dtype;
    return vec_load_n(p, i, n, from);
}

NK_INLINE void vec_store(void *p, size_t i, vec v, nk_dtype dtype)
{
    store_1(p, i, v.a, dtype);
    store_1(p, i + 1, v.b, dtype);
}

/* Rounds to the dtype, stores that, and returns it: no second rounding. */
NK_INLINE vec vec_store_round(void *p, size_t i, vec v, nk_dtype dtype)
{
    vec_store(p, i, v, dtype);
    return dtype == NK_F32 ? v : vec_load(p, i, dtype);
}

NK_INLINE void vec_store_n(void *p, size_t i, size_t n, vec v, nk_dtype dtype)
{
    if (n > 0)
        store_1(p, i, v.a, dtype);
}

NK_INLINE void vec_store_f32(float *p, size_t i, vec v, nk_dtype dtype)
{
    (void)dtype;
    vec_store(p, i, v, NK_F32);
}

NK_INLINE void vec_store_f32_n(float *p, size_t i, size_t n, vec v, nk_dtype dtype)
{
    (void)dtype;
    vec_store_n(p, i, n, v, NK_F32);
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
#define VEC_LEAVES_FLOATS 1
#define VEC_TWO_COLUMNS(dtype) 0
#define VEC_STREAMS 0

/* The baseline's non-temporal stores are vector ones; scalar has none. */
NK_INLINE void vec_stream(void *p, size_t i, vec v, nk_dtype dtype)
{
    vec_store(p, i, v, dtype);
}

NK_INLINE void vec_fence(void)
{
}
