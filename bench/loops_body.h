/* SPDX-License-Identifier: Apache-2.0 */
/* Included once for each ISA, after its header of kernels/vec/, by a unit that
 * defines NB_LOOPS_UNIT and NB_LOOPS_ISA. */
#include "loops.h"
#include <math.h>

/* Keeps a value that was loaded, without an instruction for it. */
#if defined(__x86_64__)
#define IN_REGISTERS(v) __asm__ volatile("" : : "x"((v).a), "x"((v).b))
#elif defined(__aarch64__)
#define IN_REGISTERS(v) __asm__ volatile("" : : "w"((v).a), "w"((v).b))
#else
#define IN_REGISTERS(v) __asm__ volatile("" : : "f"((v).a), "f"((v).b))
#endif

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
    IN_REGISTERS(v);
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
    static void name##_of_four(const nb_flow_buffers *b)                                           \
    {                                                                                              \
        STEP_OF_FOUR(read, write)                                                                  \
        vec_fence();                                                                               \
    }                                                                                              \
    static void name##_of_one(const nb_flow_buffers *b)                                            \
    {                                                                                              \
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

/* Six chains of two registers: more than latency times pipes anywhere, and few
 * enough for sixteen registers. They begin with different numbers, or a compiler
 * would make one of them. */
static void fused(size_t steps)
{
    const vec half = vec_set1(0.5f);
    vec v0 = vec_set1(0), v1 = vec_set1(1), v2 = vec_set1(2), v3 = vec_set1(3);
    vec v4 = vec_set1(4), v5 = vec_set1(5);
    for (size_t i = 0; i < steps; i++) {
        v0 = vec_fma(v0, half, half);
        v1 = vec_fma(v1, half, half);
        v2 = vec_fma(v2, half, half);
        v3 = vec_fma(v3, half, half);
        v4 = vec_fma(v4, half, half);
        v5 = vec_fma(v5, half, half);
    }
    IN_REGISTERS(v0);
    IN_REGISTERS(v1);
    IN_REGISTERS(v2);
    IN_REGISTERS(v3);
    IN_REGISTERS(v4);
    IN_REGISTERS(v5);
}

static void additions(size_t steps)
{
    const vec half = vec_set1(0.5f);
    vec v0 = vec_set1(0), v1 = vec_set1(1), v2 = vec_set1(2), v3 = vec_set1(3);
    vec v4 = vec_set1(4), v5 = vec_set1(5);
    for (size_t i = 0; i < steps; i++) {
        v0 = vec_add(v0, half);
        v1 = vec_add(v1, half);
        v2 = vec_add(v2, half);
        v3 = vec_add(v3, half);
        v4 = vec_add(v4, half);
        v5 = vec_add(v5, half);
    }
    IN_REGISTERS(v0);
    IN_REGISTERS(v1);
    IN_REGISTERS(v2);
    IN_REGISTERS(v3);
    IN_REGISTERS(v4);
    IN_REGISTERS(v5);
}

/* Some CPUs add on pipes beside those that multiply. */
static void both(size_t steps)
{
    const vec half = vec_set1(0.5f);
    vec v0 = vec_set1(0), v1 = vec_set1(1), v2 = vec_set1(2), v3 = vec_set1(3);
    vec v4 = vec_set1(4), v5 = vec_set1(5), v6 = vec_set1(6);
    for (size_t i = 0; i < steps; i++) {
        v0 = vec_fma(v0, half, half);
        v1 = vec_fma(v1, half, half);
        v2 = vec_fma(v2, half, half);
        v3 = vec_fma(v3, half, half);
        v4 = vec_add(v4, half);
        v5 = vec_add(v5, half);
        v6 = vec_add(v6, half);
    }
    IN_REGISTERS(v0);
    IN_REGISTERS(v1);
    IN_REGISTERS(v2);
    IN_REGISTERS(v3);
    IN_REGISTERS(v4);
    IN_REGISTERS(v5);
    IN_REGISTERS(v6);
}

/* What a row waits for between its two readings. */
static void latency(size_t steps)
{
    vec v = vec_set1(1);
    for (size_t i = 0; i < steps; i++)
        v = vec_set1(1 / sqrtf(vec_sum(v) + 1));
    IN_REGISTERS(v);
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
