/* SPDX-License-Identifier: Apache-2.0 */
/* What `claim` measures, and the answers that it makes of it. */
#ifndef NB_CLAIM_H
#define NB_CLAIM_H

#include "copy.h"
#include "counts_csv.h"
#include "limit.h"
#include "machine.h"
#include "models.h"
#include "shapes.h"
#include "table.h"
#include "worker.h"

typedef struct claim_options {
    nb_options filters;
    char *out;
    bool force, quick, axes, exhaustive, meanings;
    size_t processes;
} claim_options;

/* A LayerNorm and the RMSNorm that would take its place; for a training step their
 * gradients too, else NULL. */
typedef struct claim_pair {
    const char *layer, *rms;
    const char *layer_bwd, *rms_bwd;
} claim_pair;
enum { CLAIM_PLAIN, CLAIM_FUSED, CLAIM_TRAINING, CLAIM_PAIRS };
extern const claim_pair nb_claim_pairs[CLAIM_PAIRS];

/* The places of the participants; after them come the rivals, other algorithms of
 * LayerNorm, or in a training step the gradients of both. */
enum { LAYER, RMS, COPY, RIVALS, LAYER_BWD = RIVALS, RMS_BWD };

typedef struct claim_cell {
    const nb_variant *variants[NB_PARTICIPANTS];
    size_t count;
    nb_shape *shape;
    nb_job_result *results; /* [processes], those with status NB_OK first */
    size_t done;
    bool failed;
    nb_limit limits[NB_PARTICIPANTS]; /* unknown in a training step, and without a level */
    bool training;         /* a call of LayerNorm is that and its gradient, and so with RMSNorm */
    const nb_model *model; /* whose answer it is a part of; NULL: none's */
} claim_cell;

/* A line of the table of axes: a value of an axis, and its cell. */
typedef struct claim_line {
    const char *axis;
    char *value;
    size_t cell;
} claim_line;

typedef struct claim {
    claim_options options;
    nb_topology topology;
    nb_providers providers;
    nb_variants variants; /* those that cells may be made of */
    nb_copies copies;
    nb_shapes *shapes; /* [shape_lists] */
    size_t shape_lists;
    claim_cell *cells;
    size_t count;
    claim_line *lines; /* of --axes */
    size_t line_count;
    nb_record record;
    nb_counts_csv counts; /* of --meanings, beside the record */
    char *counts_path;
    nb_process process; /* in which a cell is measured */
    size_t round;       /* of the sweep, each in a process of its own */
    nb_limits limits;
    nb_pace memory; /* of --model: of all threads together; its threads are 0 if unknown */
} claim;

/* ---- Cells: NB_OK, or a status after a message ---------------------------- */

/* The cells that the options ask for: the sweep, the axes, or those of models or of
 * the four meanings. */
int nb_claim_cells(claim *c);
int nb_claim_axes_cells(claim *c);
int nb_claim_model_cells(claim *c);
int nb_claim_meanings_cells(claim *c);

/* Adds a cell for each shape; none where the provider lacks a kernel. */
typedef struct claim_request {
    const claim_pair *pair;
    const nb_variant *rms;
    nb_names algorithms; /* of LayerNorm: the verdict is about the first; empty: the usual */
    const nb_options *shapes;
} claim_request;
int nb_claim_add(claim *c, const claim_request *request);

/* Whether --kernel names both of the pair; without it, the plain one. */
bool nb_claim_pair_is_chosen(const nb_options *filters, size_t pair);
/* The best ISA among the chosen for this kernel of `provider`; NULL: it has none. */
const nb_variant *nb_claim_best(const claim *c, const nb_provider *provider, const char *op,
                                const char *dtype);
/* Rows of a usual cell: 0, as many as its level holds, or a number where the caches are
 * unknown. */
size_t nb_claim_rows(const claim *c);
/* 64 to 16384 by powers of two, and the models': to be freed. */
nb_sizes nb_claim_hidden_sizes(bool quick);

/* ---- Measuring ------------------------------------------------------------ */

/* Measures all cells, process by process, in an order shuffled anew for each, and the
 * limits before and after. A cell that fails is marked; NB_OK, or the status after a
 * message that ended it. */
int nb_claim_measure(claim *c);
/* Whether nothing was faster than its limit: NB_OK, or NB_FAILED after a message. */
int nb_claim_check_limits(const claim *c);

/* ---- Answers -------------------------------------------------------------- */

/* Of side a's time over side b's, in a training step with their gradients. */
nb_estimate nb_claim_ratio(const claim_cell *cell, size_t a, size_t b);
/* Of 1 - RMSNorm's time / LayerNorm's. */
nb_estimate nb_claim_saving(const claim_cell *cell);

/* Of one call: the median of all observations. */
double nb_claim_call_ns(const claim_cell *cell, size_t side);
/* How much of its limit a side reaches; NAN if unknown. */
double nb_claim_share(const claim_cell *cell, size_t side);
/* "below", "within", "above" 15-20 %, or "cannot tell", of a saving between these. */
const char *nb_claim_word(double low, double high);

/* Columns of a table: the saving, its interval; and whether 15-20 % hold. A cell
 * without times has dashes, and the reason. */
void nb_claim_add_saving(nb_table *table, const claim_cell *cell);
void nb_claim_add_verdict(nb_table *table, const claim_cell *cell);
void nb_claim_add_word(nb_table *table, const char *word);
/* A column: LayerNorm's and RMSNorm's times over the copy's, or the shares of their limits
 * that they reach. */
void nb_claim_add_copies(nb_table *table, const claim_cell *cell);
void nb_claim_add_shares(nb_table *table, const claim_cell *cell);
void nb_claim_print_legend(const claim *c);

/* Sorts the cells and prints a table for each pair of kernels, dtype, provider
 * and mode. */
void nb_claim_print_sweep(claim *c);
void nb_claim_print_axes(const claim *c);
void nb_claim_print_models(const claim *c);
/* Counts first what is executed. NB_OK, also where this machine denies that; or a
 * status after a message. */
int nb_claim_print_meanings(claim *c);

#endif
