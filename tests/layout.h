/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts: where the operands of a call lie. Each has a mapping of its own
 * between two guard pages, and everything around it is poisoned and can be
 * checked afterwards. */
#ifndef NORMBENCH_TESTS_LAYOUT_H
#define NORMBENCH_TESTS_LAYOUT_H

#include "problem.h"

#include <stdio.h>

typedef struct layout {
    size_t first, rows;        /* only these rows; 0 rows is all of them */
    size_t pad[NK_OPERANDS];   /* elements between rows */
    size_t shift[NK_OPERANDS]; /* elements away from the guard page */
    bool at_end;               /* before the upper guard page, not after the lower one */
    int alias[NK_OPERANDS];    /* 1 + the input that this output lies on; 0: none */
    uint32_t store;
    size_t llc_bytes;
} layout;

/* Places the operands, inputs filled, everything else poisoned. */
void layout_place(const problem *p, const layout *l, nk_args *args);
/* Whether everything but the outputs is as it was placed, else the operand that is not. */
bool layout_intact(const problem *p, const layout *l, bool outputs_written, int *operand);
/* A copy of an operand, dense; to be freed. */
unsigned char *layout_collect(const problem *p, const layout *l, int operand);

/* Maps the buffers and their guard pages, once; exits where that is refused. */
void arena_map(void);
/* Prints whose buffer a fault is before or beyond, if anyone's. */
void arena_explain(const void *fault, FILE *to);

#endif
