/* SPDX-License-Identifier: Apache-2.0 */
/* Loops that do one thing as fast as an ISA can, to measure what the machine does
 * at the most. loops_body.h has them, once for each ISA. */
#ifndef NB_LOOPS_H
#define NB_LOOPS_H

#include <stddef.h>

/* What goes through memory. */
enum nb_flow {
    NB_LOAD,
    NB_STORE,
    NB_COPY,
    NB_ADD, /* reads two, writes one */
    NB_STREAM_STORE,
    NB_STREAM_COPY,
    NB_STREAM_ADD,
    NB_FLOWS
};

typedef struct nb_flow_buffers {
    const float *from, *other;
    float *to;
    size_t count; /* floats in each; a multiple of NB_LOOP_STEP */
} nb_flow_buffers;

enum { NB_LOOP_STEP = 128 }; /* floats that every ISA's step divides */
enum { NB_SHAPES = 2 };      /* of each loop: the faster counts */

typedef struct nb_loops {
    int isa; /* NK_ISA_... */
    size_t register_bytes, lanes;
    void (*flow[NB_FLOWS][NB_SHAPES])(const nb_flow_buffers *buffers);
    /* Steps of six multiplications with addition, of six additions, of four and
     * three, of `lanes` each; and of one wait for reduction, root and division. */
    void (*fused)(size_t steps), (*additions)(size_t steps), (*both)(size_t steps);
    void (*latency)(size_t steps);
} nb_loops;

#endif
