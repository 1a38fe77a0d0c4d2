/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of the vector layer. Each ISA's header in this folder defines
 *
 *   vec                a row of vec_lanes() floats, held in two registers: two
 *                      independent chains for the price of one name
 *   size_t vec_lanes(void)
 *   vec vec_zero(void), vec_set1(float)
 *   vec vec_add(a, b), vec_sub(a, b), vec_mul(a, b)
 *   vec vec_fma(a, b, c)       a * b + c, in one rounding where the ISA can
 *   vec vec_fma_once(a, b, c)  a * b + c, in one rounding on every ISA
 *   vec vec_div(a, b)
 *   vec vec_finite(v)          v, and 0 where it is NaN or infinite
 *   vec vec_clamp(v, bound)    into -bound .. bound; a NaN stays
 *   vec vec_power_of_two(n)    2^n of integers -126 .. 127; a NaN gives anything
 *   vec vec_tanh(v)            SLEEF's, within 3.5 ulp
 *   vec vec_cut_nan(v)         v, its NaNs such as may be rounded to bf16, see below
 *   float vec_sum(v)           all lanes, as a tree in an order of its own
 *   vec vec_round(v, dtype)    each lane rounded to the dtype and back
 *   vec vec_load(p, i, dtype)           elements p[i] .. p[i + lanes)
 *   vec vec_load_n(p, i, n, dtype)      the first n of them, then zeros
 *   vec vec_load_as(p, i, from, dtype)  f32 or dtype elements in dtype's order
 *   vec vec_load_as_n(p, i, n, from, dtype)
 *   void vec_store(p, i, v, dtype), vec_store_n(p, i, n, v, dtype)
 *   vec vec_store_round(p, i, v, dtype)   rounds, stores, returns what it stored
 *   void vec_store_f32(p, i, v, dtype)  lanes in dtype's order, to floats
 *   void vec_store_f32_n(p, i, n, v, dtype)
 *   vec vec_keep(v)            v, from now on in registers: what is used twice must not be
 *                              loaded twice, which gcc does to save an instruction
 *   VEC_SUMS_BESIDE            how many vecs of sums registers hold while another row is
 *                              applied beside the reading; 0: rows of f32 are read and
 *                              applied one after the other, and written lines not
 *                              fetched before
 *   VEC_EXPECTS                1 if rows of f32 that are written while others are read (h in
 *                              the first reading, y beside it) want their lines fetched
 *                              before
 *   VEC_PAIRS                  1 if two rows of f32 that share the loads of gamma and
 *                              beta are faster than one after the other, else 0
 *   VEC_WIDENS                 1 if gamma and beta of 16 bits are better made floats once
 *                              a call than converted for every four rows, else 0
 *   VEC_LEAVES_FLOATS          1 if what f16 is converted to is better stored and loaded
 *                              than converted again, else 0
 *   VEC_TWO_COLUMNS(dtype)     1 if backward is faster by two vecs of a row at a time
 *   VEC_STREAMS                1 if it has non-temporal stores, else 0, and then
 *                              vec_stream is vec_store
 *   void vec_stream(p, i, v, dtype)     non-temporal; 64-byte aligned address
 *   void vec_fence(void)                after the last vec_stream
 *
 * A NaN that is to be rounded to bf16 has a lower half of 0, so that no carry makes it a
 * number: so have all that come from 16 bits, and that arithmetic makes of those or of
 * numbers. vec_cut_nan is for f32 parameters and for SLEEF's, which may be any.
 *
 * Lanes of a 16-bit dtype may lie in another order than elements (bf16 is
 * split into even and odd elements, which costs a shift where widening moves
 * would cost shuffles); the order depends on the dtype alone, so elementwise
 * work may ignore it. The _n forms touch nothing beyond the first n elements,
 * and n is less than vec_lanes(). `dtype` is a constant wherever these are
 * called. Intrinsics live here and nowhere else. */
#ifndef NK_VEC_H
#define NK_VEC_H

#include "../catalog.h"
#include <string.h>

#define NK_INLINE static inline __attribute__((always_inline))

#endif
