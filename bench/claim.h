/* SPDX-License-Identifier: Apache-2.0 */
/* What `claim` measures of a cell, and the answer that it makes of it. */
#ifndef NB_CLAIM_H
#define NB_CLAIM_H

#include "shapes.h"
#include "worker.h"

/* The places of the participants; the rivals, other algorithms of LayerNorm,
 * come after them. */
enum { LAYER, RMS, COPY, RIVALS };

typedef struct claim_cell {
    const nb_variant *variants[NB_PARTICIPANTS];
    size_t count;
    nb_shape *shape;
    nb_job_result *results; /* [processes], those with status NB_OK first */
    size_t done;
    bool failed;
} claim_cell;

/* Sorts the cells and prints a table for each pair of kernels, dtype, provider
 * and mode. */
void nb_claim_print(claim_cell *cells, size_t count, size_t processes);

#endif
