/* SPDX-License-Identifier: Apache-2.0 */
/* Variants that are measured on one and the same stage: each sees the operands
 * that its op takes. */
#ifndef NB_SIDE_H
#define NB_SIDE_H

#include "cells.h"
#include "program.h"
#include "stage.h"

/* What one thread calls; what it writes lies on lines of its own. */
typedef struct nb_lane {
    _Alignas(NB_LINE) nk_function function;
    nk_args *args; /* [sets] */
    size_t sets;
    nk_status status;    /* of a call that failed while it was timed */
    uint32_t store_used; /* NK_STORE_... of the last call */
} nb_lane;

typedef struct nb_side {
    const nb_variant *variant;
    nb_stage *stage;
    nb_lane *lanes; /* [stage->threads] */
    double error_u; /* the largest that the checks found */
    double call_ns; /* of the call that was checked last; 0: none in this process */
} nb_side;

void nb_side_init(nb_side *side, const nb_variant *variant, nb_stage *stage);
void nb_side_free(nb_side *side);

/* One call of one thread, on this set. */
void nb_lane_call(nb_lane *lane, size_t set);

/* So many timed calls on every thread, which do not wait for one another in
 * between: a participant of the paired engine, with the side as its context. */
void nb_side_run(void *side, size_t calls);

/* Clears the outputs, calls, and compares with the oracle: all rows, or of
 * large operands some 128 thousand elements of each thread spread over them, the
 * first and the last rows included (`verify` compares all). Several threads call
 * together. NULL, or a text to be freed that says what is wrong. The call is timed,
 * but for a stranger's. */
char *nb_side_check(nb_side *side);

/* Clears what the check looks at (nb_workspace_clear_rows). */
void nb_side_clear(nb_side *side);

/* The same of outputs that are there already, whoever wrote them, if no call failed. */
char *nb_side_compare(nb_side *side);

/* One call in a child if the provider is a stranger (nb_call_kernel), on each
 * thread's operands in turn. NULL, or a text to be freed. */
char *nb_side_prove(nb_side *side);

/* The status of a call that failed while it was timed; NK_OK if none did. */
nk_status nb_side_status(const nb_side *side);

/* What one call of all threads must move and compute at the least; flops NAN if
 * unknown. */
double nb_side_bytes(const nb_side *side);
double nb_side_flops(const nb_side *side);

#endif
