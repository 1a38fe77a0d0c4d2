/* SPDX-License-Identifier: Apache-2.0 */
/* What `claim` measures, and the answer that it makes of it. */
#ifndef NB_CLAIM_H
#define NB_CLAIM_H

#include "copy.h"
#include "machine.h"
#include "shapes.h"
#include "worker.h"

typedef struct claim_options {
    nb_options filters;
    char *out;
    bool force, quick;
    size_t processes;
} claim_options;

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

typedef struct claim {
    claim_options options;
    nb_topology topology;
    nb_providers providers;
    nb_variants variants;
    nb_copies copies;
    nb_shapes *shapes; /* [shape_lists] */
    size_t shape_lists;
    claim_cell *cells;
    size_t count;
    nb_record record;
} claim;

/* The cells that the options ask for. NB_OK, or a status after a message. */
int nb_claim_cells(claim *c);

/* Measures all cells, process by process, in an order shuffled anew for each. A
 * cell that fails is marked; NB_OK, or the status after a message that ended it. */
int nb_claim_measure(claim *c);

/* Sorts the cells and prints a table for each pair of kernels, dtype, provider
 * and mode. */
void nb_claim_print(claim_cell *cells, size_t count, size_t processes);

#endif
