/* SPDX-License-Identifier: Apache-2.0 */
/* AVX2, FMA and F16C: sixteen floats a vec, in two ymm registers. */
#include "vec.h"
#include <immintrin.h>
#include <sleef.h>

typedef struct vec {
    __m256 a, b;
} vec;

NK_INLINE size_t vec_lanes(void)
{
    return 16;
}

NK_INLINE vec vec_set1(float value)
{
    return (vec){_mm256_set1_ps(value), _mm256_set1_ps(value)};
}

NK_INLINE vec vec_zero(void)
{
    return (vec){_mm256_setzero_ps(), _mm256_setzero_ps()};
}

NK_INLINE vec vec_add(vec x, vec y)
{
    return (vec){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}

NK_INLINE vec vec_sub(vec x, vec y)
{
    return (vec){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}

NK_INLINE vec vec_mul(vec x, vec y)
{
    return (vec){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}

NK_INLINE vec vec_fma(vec x, vec y, vec z)
{
    return (vec){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}

NK_INLINE vec vec_fma_once(vec x, vec y, vec z)
{
    return vec_fma(x, y, z);
}

NK_INLINE vec vec_div(vec x, vec y)
{
    return (vec){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}

/* The second operand is what max and min return beside a NaN. */
NK_INLINE vec vec_clamp(vec v, float bound)
{
    const __m256 low = _mm256_set1_ps(-bound), high = _mm256_set1_ps(bound);
    return (vec){_mm256_min_ps(high, _mm256_max_ps(low, v.a)),
                 _mm256_min_ps(high, _mm256_max_ps(low, v.b))};
}

/* The addition leaves n + 127 in the low bits, from where it becomes the
 * exponent. */
NK_INLINE vec vec_power_of_two(vec n)
{
    const vec shifted = vec_add(n, vec_set1(0x1.8p23f + 127));
    return (vec){_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(shifted.a), 23)),
                 _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(shifted.b), 23))};
}

NK_INLINE vec vec_finite(vec v)
{
    const vec zero_or_nan = vec_sub(v, v);
    return (vec){_mm256_and_ps(v.a, _mm256_cmp_ps(zero_or_nan.a, zero_or_nan.a, _CMP_ORD_Q)),
                 _mm256_and_ps(v.b, _mm256_cmp_ps(zero_or_nan.b, zero_or_nan.b, _CMP_ORD_Q))};
}

NK_INLINE vec vec_tanh(vec v)
{
    return (vec){Sleef_tanhf8_u35avx2(v.a), Sleef_tanhf8_u35avx2(v.b)};
}

NK_INLINE vec vec_cut_nan(vec v)
{
    if (__builtin_expect(_mm256_movemask_ps(_mm256_cmp_ps(v.a, v.b, _CMP_UNORD_Q)), 0)) {
        const __m256 nan = _mm256_set1_ps(__builtin_nanf(""));
        v.a = _mm256_blendv_ps(v.a, nan, _mm256_cmp_ps(v.a, v.a, _CMP_UNORD_Q));
        v.b = _mm256_blendv_ps(v.b, nan, _mm256_cmp_ps(v.b, v.b, _CMP_UNORD_Q));
    }
    return v;
}

NK_INLINE float vec_sum(vec v)
{
    const __m256 both = _mm256_add_ps(v.a, v.b);
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    s = _mm_add_ss(s, _mm_movehdup_ps(s));
    return _mm_cvtss_f32(s);
}

NK_INLINE __m256i upper_halves(__m256i v)
{
    return _mm256_and_si256(v, _mm256_set1_epi32((int)0xFFFF0000));
}

NK_INLINE vec bf16_split(__m256i elements)
{
    return (vec){_mm256_castsi256_ps(_mm256_slli_epi32(elements, 16)),
                 _mm256_castsi256_ps(upper_halves(elements))};
}

/* Even elements from the upper halves of a, odd ones from those of b. */
NK_INLINE __m256i upper_elements(__m256i a, __m256i b)
{
    return _mm256_blend_epi16(_mm256_srli_epi32(a, 16), b, 0xAA);
}

/* Rounded to elements of even and odd places, ties to even: up by one where the
 * half that is lost, less one before an even bit, is 0x8000 or more. A NaN is cut: its lower
 * half is 0. */
NK_INLINE __m256i bf16_join(vec v)
{
    const __m256i a = _mm256_castps_si256(v.a), b = _mm256_castps_si256(v.b);
    const __m256i upper = upper_elements(a, b);
    const __m256i lower = _mm256_blend_epi16(a, _mm256_slli_epi32(b, 16), 0xAA);
    const __m256i even = _mm256_andnot_si256(upper, _mm256_set1_epi16(1));
    const __m256i less = _mm256_subs_epu16(lower, even);
    return _mm256_sub_epi16(upper, _mm256_srai_epi16(less, 15));
}

/* As a carry into the half that is kept, where no elements have to be joined. */
NK_INLINE __m256 bf16_round_half(__m256i v)
{
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(v, 16), _mm256_set1_epi32(1));
    const __m256i below = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF));
    return _mm256_castsi256_ps(upper_halves(_mm256_add_epi32(v, below)));
}

NK_INLINE vec bf16_round(vec v)
{
    return (vec){bf16_round_half(_mm256_castps_si256(v.a)),
                 bf16_round_half(_mm256_castps_si256(v.b))};
}

NK_INLINE vec f16_widen(__m256i elements)
{
    return (vec){_mm256_cvtph_ps(_mm256_castsi256_si128(elements)),
                 _mm256_cvtph_ps(_mm256_extracti128_si256(elements, 1))};
}

NK_INLINE __m256i f16_narrow(vec v)
{
    return _mm256_set_m128i(_mm256_cvtps_ph(v.b, _MM_FROUND_TO_NEAREST_INT),
                            _mm256_cvtps_ph(v.a, _MM_FROUND_TO_NEAREST_INT));
}

NK_INLINE __m256 f16_round(__m256 v)
{
    return _mm256_cvtph_ps(_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

/* By the form that writes to memory, an operation less, which gcc makes of aligned stores
 * alone. */
NK_INLINE void f16_store(uint16_t *p, __m256 v)
{
    typedef __m128i unaligned __attribute__((aligned(2)));
    __asm__("vcvtps2ph $0, %1, %0" : "=m"(*(unaligned *)p) : "x"(v));
}

NK_INLINE vec widen(__m256i elements, nk_dtype dtype)
{
    return dtype == NK_BF16 ? bf16_split(elements) : f16_widen(elements);
}

NK_INLINE __m256i narrow(vec v, nk_dtype dtype)
{
    return dtype == NK_BF16 ? bf16_join(v) : f16_narrow(v);
}

NK_INLINE vec vec_round(vec v, nk_dtype dtype)
{
    if (dtype == NK_F32)
        return v;
    if (dtype == NK_BF16)
        return bf16_round(v);
    return (vec){f16_round(v.a), f16_round(v.b)};
}

/* All ones in the first n of eight lanes. */
NK_INLINE __m256i first_lanes(size_t n)
{
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), index);
}

NK_INLINE vec vec_load(const void *p, size_t i, nk_dtype dtype)
{
    const uint16_t *halves = (const uint16_t *)p + i;
    if (dtype == NK_BF16)
        return bf16_split(_mm256_loadu_si256((const void *)halves));
    if (dtype == NK_F16) /* conversions that load, and no shuffle between */
        return (vec){_mm256_cvtph_ps(_mm_loadu_si128((const void *)halves)),
                     _mm256_cvtph_ps(_mm_loadu_si128((const void *)(halves + 8)))};
    const float *f = (const float *)p + i;
    return (vec){_mm256_loadu_ps(f), _mm256_loadu_ps(f + 8)};
}

NK_INLINE vec vec_load_n(const void *p, size_t i, size_t n, nk_dtype dtype)
{
    if (dtype != NK_F32) { /* AVX2 has no masked 16-bit moves */
        uint16_t elements[16] __attribute__((aligned(32))) = {0};
        const uint16_t *from = (const uint16_t *)p + i;
        for (size_t j = 0; j < n; j++)
            elements[j] = from[j];
        return widen(_mm256_load_si256((const void *)elements), dtype);
    }
    const float *f = (const float *)p + i;
    const size_t low = n < 8 ? n : 8;
    return (vec){_mm256_maskload_ps(f, first_lanes(low)),
                 n > 8 ? _mm256_maskload_ps(f + 8, first_lanes(n - 8)) : _mm256_setzero_ps()};
}

NK_INLINE vec split_even_odd(vec v)
{
    const __m256 even = _mm256_shuffle_ps(v.a, v.b, 0x88), odd = _mm256_shuffle_ps(v.a, v.b, 0xDD);
    const __m256d e = _mm256_permute4x64_pd(_mm256_castps_pd(even), 0xD8);
    const __m256d o = _mm256_permute4x64_pd(_mm256_castps_pd(odd), 0xD8);
    return (vec){_mm256_castpd_ps(e), _mm256_castpd_ps(o)};
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
    if (dtype == NK_F16) {
        f16_store((uint16_t *)p + i, v.a);
        f16_store((uint16_t *)p + i + 8, v.b);
        return;
    }
    if (dtype == NK_BF16) {
        _mm256_storeu_si256((void *)((uint16_t *)p + i), bf16_join(v));
        return;
    }
    float *f = (float *)p + i;
    _mm256_storeu_ps(f, v.a);
    _mm256_storeu_ps(f + 8, v.b);
}

/* Rounds to the dtype, stores that, and returns it: no second rounding. f16 is read again from
 * there, an operation less than to narrow and widen it in a register. */
NK_INLINE vec vec_store_round(void *p, size_t i, vec v, nk_dtype dtype)
{
    if (dtype == NK_BF16) {
        const __m256i elements = bf16_join(v);
        _mm256_storeu_si256((void *)((uint16_t *)p + i), elements);
        return bf16_split(elements);
    }
    vec_store(p, i, v, dtype);
    return dtype == NK_F32 ? v : vec_load(p, i, dtype);
}

NK_INLINE void vec_store_n(void *p, size_t i, size_t n, vec v, nk_dtype dtype)
{
    if (dtype != NK_F32) {
        uint16_t elements[16] __attribute__((aligned(32)));
        _mm256_store_si256((void *)elements, narrow(v, dtype));
        uint16_t *to = (uint16_t *)p + i;
        for (size_t j = 0; j < n; j++)
            to[j] = elements[j];
        return;
    }
    float *f = (float *)p + i;
    _mm256_maskstore_ps(f, first_lanes(n < 8 ? n : 8), v.a);
    if (n > 8)
        _mm256_maskstore_ps(f + 8, first_lanes(n - 8), v.b);
}

NK_INLINE vec join_even_odd(vec v)
{
    const __m256 low = _mm256_unpacklo_ps(v.a, v.b), high = _mm256_unpackhi_ps(v.a, v.b);
    return (vec){_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31)};
}

NK_INLINE void vec_store_f32(float *p, size_t i, vec v, nk_dtype dtype)
{
    vec_store(p, i, dtype == NK_BF16 ? join_even_odd(v) : v, NK_F32);
}

NK_INLINE void vec_store_f32_n(float *p, size_t i, size_t n, vec v, nk_dtype dtype)
{
    vec_store_n(p, i, n, dtype == NK_BF16 ? join_even_odd(v) : v, NK_F32);
}

NK_INLINE vec vec_keep(vec v)
{
    __asm__("" : "+x"(v.a), "+x"(v.b));
    return v;
}

#define VEC_SUMS_BESIDE 4
#define VEC_EXPECTS 0
#define VEC_PAIRS 1
#define VEC_WIDENS 0
#define VEC_LEAVES_FLOATS 0
#define VEC_TWO_COLUMNS(dtype) ((dtype) != NK_F32)
#define VEC_STREAMS 1

NK_INLINE void vec_stream(void *p, size_t i, vec v, nk_dtype dtype)
{
    if (dtype != NK_F32) {
        _mm256_stream_si256((void *)((uint16_t *)p + i), narrow(v, dtype));
        return;
    }
    float *f = (float *)p + i;
    _mm256_stream_ps(f, v.a);
    _mm256_stream_ps(f + 8, v.b);
}

NK_INLINE void vec_fence(void)
{
    _mm_sfence();
}
