/* SPDX-License-Identifier: Apache-2.0 */
/* DyT with a tanh of our own, within 4 ulp: e / (e + 2), e = exp(2x) - 1, which
 * loses nothing near 0 and needs no case for the sign. */
#include "form.h"

/* exp(s) - 1 = 2^k * q(r) + (2^k - 1), s = k ln 2 + r. q is r + r^2 * c(r), c by
 * least squares to 1.5e-8 relative over |r| <= ln(2) / 2; ln 2 is in two parts
 * (Cody & Waite 1980), the first exact times any k. */
NK_INLINE vec tanh_by_expm1(vec x)
{
    const vec s = vec_clamp(vec_add(x, x), 20); /* tanh(10) rounds to 1 */
    const vec magic = vec_set1(0x1.8p23f);      /* leaves the nearest integer */
    const vec k = vec_sub(vec_fma(s, vec_set1(1.44269504f), magic), magic);
    vec r = vec_fma(k, vec_set1(-0.693359375f), s);
    r = vec_fma(k, vec_set1(2.12194440e-4f), r);
    vec c = vec_set1(0x1.6bea50p-10f);
    c = vec_fma(c, r, vec_set1(0x1.1232a6p-7f));
    c = vec_fma(c, r, vec_set1(0x1.55568cp-5f));
    c = vec_fma(c, r, vec_set1(0x1.5554a2p-3f));
    c = vec_fma(c, r, vec_set1(0x1.fffffep-2f));
    const vec q = vec_fma(vec_mul(r, r), c, r), power = vec_power_of_two(k);
    const vec e = vec_fma(power, q, vec_sub(power, vec_set1(1)));
    return vec_div(e, vec_add(e, vec_set1(2)));
}

#define DYT_TANH(v, dtype) tanh_by_expm1(v)
#include "dyt.h"
