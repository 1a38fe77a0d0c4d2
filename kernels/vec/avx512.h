/* SPDX-License-Identifier: Apache-2.0 */
/* AVX-512 F, BW, DQ and VL: thirty-two floats a vec, in two zmm registers. A
 * unit that is compiled for AVX512_BF16 as well rounds to bf16 by that, to the
 * same bits. */
#include "vec.h"
#include <immintrin.h>
#include <sleef.h>

typedef struct vec {
    __m512 a, b;
} vec;

NK_INLINE size_t vec_lanes(void)
{
    return 32;
}

NK_INLINE vec vec_set1(float value)
{
    return (vec){_mm512_set1_ps(value), _mm512_set1_ps(value)};
}

NK_INLINE vec vec_zero(void)
{
    return (vec){_mm512_setzero_ps(), _mm512_setzero_ps()};
}

NK_INLINE vec vec_add(vec x, vec y)
{
    return (vec){_mm512_add_ps(x.a, y.a), _mm512_add_ps(x.b, y.b)};
}

NK_INLINE vec vec_sub(vec x, vec y)
{
    return (vec){_mm512_sub_ps(x.a, y.a), _mm512_sub_ps(x.b, y.b)};
}

NK_INLINE vec vec_mul(vec x, vec y)
{
    return (vec){_mm512_mul_ps(x.a, y.a), _mm512_mul_ps(x.b, y.b)};
}

NK_INLINE vec vec_fma(vec x, vec y, vec z)
{
    return (vec){_mm512_fmadd_ps(x.a, y.a, z.a), _mm512_fmadd_ps(x.b, y.b, z.b)};
}

NK_INLINE vec vec_fma_once(vec x, vec y, vec z)
{
    return vec_fma(x, y, z);
}

NK_INLINE vec vec_div(vec x, vec y)
{
    return (vec){_mm512_div_ps(x.a, y.a), _mm512_div_ps(x.b, y.b)};
}

/* The second operand is what max and min return beside a NaN. */
NK_INLINE vec vec_clamp(vec v, float bound)
{
    const __m512 low = _mm512_set1_ps(-bound), high = _mm512_set1_ps(bound);
    return (vec){_mm512_min_ps(high, _mm512_max_ps(low, v.a)),
                 _mm512_min_ps(high, _mm512_max_ps(low, v.b))};
}

/* The addition leaves n + 127 in the low bits, from where it becomes the
 * exponent. */
NK_INLINE vec vec_power_of_two(vec n)
{
    const vec shifted = vec_add(n, vec_set1(0x1.8p23f + 127));
    return (vec){_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(shifted.a), 23)),
                 _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(shifted.b), 23))};
}

NK_INLINE vec vec_finite(vec v)
{
    const vec d = vec_sub(v, v); /* 0 or NaN */
    return (vec){_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(d.a, d.a, _CMP_ORD_Q), v.a),
                 _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(d.b, d.b, _CMP_ORD_Q), v.b)};
}

NK_INLINE vec vec_tanh(vec v)
{
    return (vec){Sleef_tanhf16_u35avx512f(v.a), Sleef_tanhf16_u35avx512f(v.b)};
}

/* Of the kinds of number, four bits each, the two of NaN become the default one. */
NK_INLINE vec vec_cut_nan(vec v)
{
    const __m512i kinds = _mm512_set1_epi32(0x11111133);
    return (vec){_mm512_fixupimm_ps(v.a, v.a, kinds, 0), _mm512_fixupimm_ps(v.b, v.b, kinds, 0)};
}

NK_INLINE float vec_sum(vec v)
{
    const __m512 both = _mm512_add_ps(v.a, v.b);
    const __m256 half =
        _mm256_add_ps(_mm512_castps512_ps256(both), _mm512_extractf32x8_ps(both, 1));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    s = _mm_add_ss(s, _mm_movehdup_ps(s));
    return _mm_cvtss_f32(s);
}

NK_INLINE __m512i upper_halves(__m512i v)
{
    return _mm512_and_si512(v, _mm512_set1_epi32((int)0xFFFF0000));
}

NK_INLINE vec bf16_split(__m512i elements)
{
    return (vec){_mm512_castsi512_ps(_mm512_slli_epi32(elements, 16)),
                 _mm512_castsi512_ps(upper_halves(elements))};
}

/* bf16 in the upper halves of 32-bit lanes, the lower halves undefined. Ties go
 * to even; a NaN is cut: its lower half is 0. */
NK_INLINE __m512i bf16_round_up_half(__m512 v)
{
    const __m512i bits = _mm512_castps_si512(v);
    const __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
    const __m512i half =
        _mm512_mask_blend_epi32(odd, _mm512_set1_epi32(0x7FFF), _mm512_set1_epi32(0x8000));
    return _mm512_add_epi32(bits, half);
}

NK_INLINE vec bf16_round(vec v)
{
    return (vec){_mm512_castsi512_ps(upper_halves(bf16_round_up_half(v.a))),
                 _mm512_castsi512_ps(upper_halves(bf16_round_up_half(v.b)))};
}

/* Both registers together, in 16-bit lanes: the upper half goes up by one where the lower
 * one is above 0x8000, or is that and the upper one odd. By less -1, which is all ones and
 * needs no constant from memory. */
NK_INLINE __m512i bf16_join_by_code(vec v)
{
    const __m512i a = _mm512_castps_si512(v.a), b = _mm512_castps_si512(v.b);
    const __m512i swap = /* the halves of each 32 bits */
        _mm512_set4_epi32(0x0D0C0F0E, 0x09080B0A, 0x05040706, 0x01000302);
    const __mmask64 low_bytes = 0x3333333333333333;
    const __m512i upper = _mm512_mask_shuffle_epi8(b, low_bytes, a, swap);
    const __m512i lower = _mm512_mask_shuffle_epi8(a, ~low_bytes, b, swap);
    const __m512i least = /* 0x8000 | (~upper & 1) */
        _mm512_ternarylogic_epi32(upper, _mm512_set1_epi16(1), _mm512_set1_epi16(INT16_MIN), 0xAE);
    return _mm512_mask_sub_epi16(upper, _mm512_cmpge_epu16_mask(lower, least), upper,
                                 _mm512_set1_epi16(-1));
}

NK_INLINE __m512i bf16_join(vec v)
{
#ifdef __AVX512BF16__
    /* The CPU's own conversion, but it takes subnormals for 0: zeros are looked at again. */
    const __m512i joined = (__m512i)_mm512_cvtne2ps_pbh(v.b, v.a);
    const __mmask32 zeros = _mm512_testn_epi16_mask(joined, _mm512_set1_epi16(0x7FFF));
    if (__builtin_expect(!_kortestz_mask32_u8(zeros, zeros), 0))
        return bf16_join_by_code(v);
    const __m512i even = _mm512_cvtepu16_epi32(
        _mm256_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(16));
    return _mm512_permutexvar_epi16(_mm512_or_si512(even, _mm512_slli_epi32(odd, 16)), joined);
#else
    return bf16_join_by_code(v);
#endif
}

NK_INLINE vec f16_widen(__m512i elements)
{
    return (vec){_mm512_cvtph_ps(_mm512_castsi512_si256(elements)),
                 _mm512_cvtph_ps(_mm512_extracti64x4_epi64(elements, 1))};
}

NK_INLINE __m512i f16_narrow(vec v)
{
    const __m512i low = _mm512_castsi256_si512(_mm512_cvtps_ph(v.a, _MM_FROUND_TO_NEAREST_INT));
    return _mm512_inserti64x4(low, _mm512_cvtps_ph(v.b, _MM_FROUND_TO_NEAREST_INT), 1);
}

NK_INLINE __m512 f16_round(__m512 v)
{
    return _mm512_cvtph_ps(_mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

/* By the form that writes to memory, an operation less, which gcc makes of aligned stores
 * alone. */
NK_INLINE void f16_store(uint16_t *p, __m512 v)
{
    typedef __m256i unaligned __attribute__((aligned(2)));
    __asm__("vcvtps2ph $0, %1, %0" : "=m"(*(unaligned *)p) : "v"(v));
}

NK_INLINE vec widen(__m512i elements, nk_dtype dtype)
{
    return dtype == NK_BF16 ? bf16_split(elements) : f16_widen(elements);
}

NK_INLINE __m512i narrow(vec v, nk_dtype dtype)
{
    return dtype == NK_BF16 ? bf16_join(v) : f16_narrow(v);
}

NK_INLINE vec vec_round(vec v, nk_dtype dtype)
{
    if (dtype == NK_F32)
        return v;
#ifdef __AVX512BF16__
    if (dtype == NK_BF16)
        return bf16_split(bf16_join(v));
#endif
    if (dtype == NK_BF16)
        return bf16_round(v);
    return (vec){f16_round(v.a), f16_round(v.b)};
}

/* A mask of the first n of 32 lanes. */
NK_INLINE __mmask32 first_lanes(size_t n)
{
    return (__mmask32)(((uint64_t)1 << n) - 1);
}

NK_INLINE vec vec_load(const void *p, size_t i, nk_dtype dtype)
{
    const uint16_t *halves = (const uint16_t *)p + i;
    if (dtype == NK_BF16)
        return bf16_split(_mm512_loadu_si512(halves));
    if (dtype == NK_F16) /* conversions that load, and no shuffle between */
        return (vec){_mm512_cvtph_ps(_mm256_loadu_si256((const void *)halves)),
                     _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(halves + 16)))};
    const float *f = (const float *)p + i;
    return (vec){_mm512_loadu_ps(f), _mm512_loadu_ps(f + 16)};
}

NK_INLINE vec vec_load_n(const void *p, size_t i, size_t n, nk_dtype dtype)
{
    const __mmask32 mask = first_lanes(n);
    if (dtype != NK_F32)
        return widen(_mm512_maskz_loadu_epi16(mask, (const uint16_t *)p + i), dtype);
    const float *f = (const float *)p + i;
    return (vec){_mm512_maskz_loadu_ps((__mmask16)mask, f),
                 _mm512_maskz_loadu_ps((__mmask16)(mask >> 16), f + 16)};
}

NK_INLINE vec split_even_odd(vec v)
{
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    return (vec){_mm512_permutex2var_ps(v.a, even, v.b), _mm512_permutex2var_ps(v.a, odd, v.b)};
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
        f16_store((uint16_t *)p + i + 16, v.b);
        return;
    }
    if (dtype == NK_BF16) {
        _mm512_storeu_si512((uint16_t *)p + i, bf16_join(v));
        return;
    }
    float *f = (float *)p + i;
    _mm512_storeu_ps(f, v.a);
    _mm512_storeu_ps(f + 16, v.b);
}

/* Rounds to the dtype, stores that, and returns it: no second rounding. f16 is read again from
 * there, an operation less than to narrow and widen it in a register. */
NK_INLINE vec vec_store_round(void *p, size_t i, vec v, nk_dtype dtype)
{
    if (dtype == NK_BF16) {
        const __m512i elements = bf16_join(v);
        _mm512_storeu_si512((uint16_t *)p + i, elements);
        return bf16_split(elements);
    }
    vec_store(p, i, v, dtype);
    return dtype == NK_F32 ? v : vec_load(p, i, dtype);
}

NK_INLINE void vec_store_n(void *p, size_t i, size_t n, vec v, nk_dtype dtype)
{
    const __mmask32 mask = first_lanes(n);
    if (dtype != NK_F32) {
        _mm512_mask_storeu_epi16((uint16_t *)p + i, mask, narrow(v, dtype));
        return;
    }
    float *f = (float *)p + i;
    _mm512_mask_storeu_ps(f, (__mmask16)mask, v.a);
    _mm512_mask_storeu_ps(f + 16, (__mmask16)(mask >> 16), v.b);
}

NK_INLINE vec join_even_odd(vec v)
{
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    return (vec){_mm512_permutex2var_ps(v.a, low, v.b), _mm512_permutex2var_ps(v.a, high, v.b)};
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
    __asm__("" : "+v"(v.a), "+v"(v.b));
    return v;
}

#define VEC_SUMS_BESIDE 6
#define VEC_EXPECTS 1
#define VEC_PAIRS 0
#define VEC_WIDENS 1
#define VEC_LEAVES_FLOATS 1
#define VEC_TWO_COLUMNS(dtype) 1
#define VEC_STREAMS 1

NK_INLINE void vec_stream(void *p, size_t i, vec v, nk_dtype dtype)
{
    if (dtype != NK_F32) {
        _mm512_stream_si512((void *)((uint16_t *)p + i), narrow(v, dtype));
        return;
    }
    float *f = (float *)p + i;
    _mm512_stream_ps(f, v.a);
    _mm512_stream_ps(f + 16, v.b);
}

NK_INLINE void vec_fence(void)
{
    _mm_sfence();
}
