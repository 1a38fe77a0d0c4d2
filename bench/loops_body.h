/* SPDX-License-Identifier: Apache-2.0 */
/* Included once for each ISA, after its header of kernels/vec/, by a unit that
 * defines NB_LOOPS_UNIT and NB_LOOPS_ISA. */
#include "loops.h"
#include <math.h>

/* Takes values as if they were used, and KEEP as if they might have been changed: so
 * that nothing is left out, and chains of equal numbers stay as many as they are. */
#if defined(__x86_64__)
#define REGISTER "x"
#elif defined(__aarch64__)
#define REGISTER "w"
#else
#define REGISTER "f"
#endif
#define USE(v) __asm__ volatile("" : : REGISTER((v).a), REGISTER((v).b))
#define KEEP(v) __asm__ volatile("" : "+" REGISTER((v).a), "+" REGISTER((v).b))

/* ---- Bytes -------------------------------------------------------------- */

/* A step is four vectors, all loads before all stores, or one: which is the faster
 * depends on the level and on the core. */
#define STEP_OF_FOUR(read, write)                                                                  \
    for (size_t i = 0; i < b->count; i += 4 * vec_lanes()) {                                       \
        const size_t j = i + vec_lanes(), k = j + vec_lanes(), l = k + vec_lanes();                \
        const vec v0 = read(b, i), v1 = read(b, j), v2 = read(b, k), v3 = read(b, l);              \
        write(b, i, v0), write(b, j, v1), write(b, k, v2), write(b, l, v3);                        \
    }
#define STEP_OF_ONE(read, write)                                                                   \
    for (size_t i = 0; i < b->count; i += vec_lanes())                                             \
        write(b, i, read(b, i));

NK_INLINE vec one(const nb_flow_buffers *b, size_t i)
{
    (void)b, (void)i;
    return vec_set1(1);
}

NK_INLINE vec from(const nb_flow_buffers *b, size_t i)
{
    return vec_load(b->from, i, NK_F32);
}

NK_INLINE vec sum(const nb_flow_buffers *b, size_t i)
{
    return vec_add(vec_load(b->from, i, NK_F32), vec_load(b->other, i, NK_F32));
}

NK_INLINE void drop(const nb_flow_buffers *b, size_t i, vec v)
{
    (void)b, (void)i;
    USE(v);
}

NK_INLINE void put(const nb_flow_buffers *b, size_t i, vec v)
{
    vec_store(b->to, i, v, NK_F32);
}

NK_INLINE void stream(const nb_flow_buffers *b, size_t i, vec v)
{
    vec_stream(b->to, i, v, NK_F32);
}

/* Both shapes of a flow. */
#define FLOW(name, read, write)                                                                    \
    static void name##_of_four(const nb_flow_buffers *buffers)                                     \
    {                                                                                              \
        const nb_flow_buffers own = *buffers, *b = &own;                                           \
        STEP_OF_FOUR(read, write)                                                                  \
        vec_fence();                                                                               \
    }                                                                                              \
    static void name##_of_one(const nb_flow_buffers *buffers)                                      \
    {                                                                                              \
        const nb_flow_buffers own = *buffers, *b = &own;                                           \
        STEP_OF_ONE(read, write)                                                                   \
        vec_fence();                                                                               \
    }
FLOW(load, from, drop)
FLOW(store, one, put)
FLOW(copy, from, put)
FLOW(add, sum, put)
FLOW(stream_store, one, stream)
FLOW(stream_copy, from, stream)
FLOW(stream_add, sum, stream)

/* ---- Arithmetic --------------------------------------------------------- */

/* One step of a chain, half by half: clang would carry a pair of floats as one
 * vector and take it apart again. */
#define STEP(v, next)                                                                              \
    do {                                                                                           \
        const vec old = {v.a, v.b}, new = next;                                                    \
        v.a = new.a;                                                                               \
        v.b = new.b;                                                                               \
        KEEP(v);                                                                                   \
    } while (0)
#define FUSED(v) STEP(v, vec_fma(old, half, half))
#define ADDED(v) STEP(v, vec_add(old, half))

/* Six chains of two registers: more than latency times pipes anywhere, and few
 * enough for sixteen registers. */
static void fused(size_t steps)
{
    const vec half = vec_set1(0.5f);
    vec v0 = half, v1 = half, v2 = half, v3 = half, v4 = half, v5 = half;
    for (size_t i = 0; i < steps; i++) {
        FUSED(v0);
        FUSED(v1);
        FUSED(v2);
        FUSED(v3);
        FUSED(v4);
        FUSED(v5);
    }
}

static void additions(size_t steps)
{
    const vec half = vec_set1(0.5f);
    vec v0 = half, v1 = half, v2 = half, v3 = half, v4 = half, v5 = half;
    for (size_t i = 0; i < steps; i++) {
        ADDED(v0);
        ADDED(v1);
        ADDED(v2);
        ADDED(v3);
        ADDED(v4);
        ADDED(v5);
    }
}

/* Some CPUs add on pipes beside those that multiply. */
static void both(size_t steps)
{
    const vec half = vec_set1(0.5f);
    vec v0 = half, v1 = half, v2 = half, v3 = half, v4 = half, v5 = half, v6 = half;
    for (size_t i = 0; i < steps; i++) {
        FUSED(v0);
        ADDED(v4);
        FUSED(v1);
        ADDED(v5);
        FUSED(v2);
        ADDED(v6);
        FUSED(v3);
    }
}

/* What a row waits for between its two readings. */
static void latency(size_t steps)
{
    vec v = vec_set1(1);
    for (size_t i = 0; i < steps; i++)
        v = vec_set1(1 / sqrtf(vec_sum(v) + 1));
    USE(v);
}

extern const nb_loops NB_LOOPS_UNIT;
const nb_loops NB_LOOPS_UNIT = {
    .isa = NB_LOOPS_ISA,
    .register_bytes = sizeof(vec) / 2,
#define SHAPES(name)                                                                               \
    {                                                                                              \
        name##_of_four, name##_of_one                                                              \
    }
    .flow = {[NB_LOAD] = SHAPES(load),
             [NB_STORE] = SHAPES(store),
             [NB_COPY] = SHAPES(copy),
             [NB_ADD] = SHAPES(add),
             [NB_STREAM_STORE] = SHAPES(stream_store),
             [NB_STREAM_COPY] = SHAPES(stream_copy),
             [NB_STREAM_ADD] = SHAPES(stream_add)},
    .lanes = sizeof(vec) / sizeof(float),
    .fused = fused,
    .additions = additions,
    .both = both,
    .latency = latency,
};
