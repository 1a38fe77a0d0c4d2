/* SPDX-License-Identifier: Apache-2.0 */
/* Variants that are measured on one and the same workspace: each sees the
 * operands that its op takes. */
#ifndef NB_SIDE_H
#define NB_SIDE_H

#include "cells.h"
#include "workspace.h"

typedef struct nb_side {
    const nb_variant *variant;
    nk_args *args; /* [sets] */
    size_t sets;
    size_t next;         /* the set of the next call */
    nk_status status;    /* of a call that failed while it was timed */
    uint32_t store_used; /* NK_STORE_... of the last call */
    double error_u;      /* the largest that the checks found */
} nb_side;

void nb_side_init(nb_side *side, const nb_variant *variant, const nb_workspace *workspace,
                  size_t llc_bytes);
void nb_side_free(nb_side *side);

/* One timed call, on the next set: a participant of the paired engine, with
 * the side as its context. */
void nb_side_call(void *side);

/* Clears the outputs, calls, and compares with the oracle: all rows, or of
 * large operands some 256 thousand elements spread over them, the first and
 * the last rows included (`verify` compares all). NULL, or a text to be freed
 * that says what is wrong. */
char *nb_side_check(nb_side *side, nb_workspace *workspace);

/* The same of outputs that are there already, whoever wrote them. */
char *nb_side_compare(nb_side *side);

/* What one call must move and compute at the least; flops NAN if unknown. */
double nb_side_bytes(const nb_side *side);
double nb_side_flops(const nb_side *side);

#endif
