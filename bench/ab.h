/* SPDX-License-Identifier: Apache-2.0 */
/* What `ab` measures of the kernels that two providers have, and the answer that
 * it makes of it. */
#ifndef NB_AB_H
#define NB_AB_H

#include "machine.h"
#include "shapes.h"
#include "worker.h"

enum { AB_BASE, AB_HEAD, AB_SIDES };

typedef struct ab_options {
    nb_options filters;
    const char *paths[AB_SIDES];
    size_t path_count;
    const char *csv, *json;
    bool force, markdown, allow_missing;
    size_t processes;
    double margin, op_margin[NK_OPS]; /* op_margin 0: the common one */
} ab_options;

enum ab_verdict {
    AB_UNCHANGED,
    AB_FASTER,
    AB_SLOWER,
    AB_UNSURE, /* a slow-down of twice the margin is not excluded */
    AB_BROKEN, /* a side was wrong, crashed or hung */
    AB_EMPTY   /* the shape cannot be had at this level */
};

/* A kernel at a shape, on both sides. */
typedef struct ab_cell {
    const nb_variant *variants[AB_SIDES];
    nb_shape *shape;
    double margin;             /* 0.015: 1.5 % */
    double *ratios;            /* [2 * processes] head's time over base's */
    double *time_ns[AB_SIDES]; /* [2 * processes] of one call */
    size_t first, done;        /* the last round's are from `first` to `done` */
    char *broken;              /* NULL, or what went wrong */
    double error_u[AB_SIDES];
    uint32_t store_used[AB_SIDES];
} ab_cell;

/* A kernel that one side has and the other lacks. */
typedef struct ab_lone {
    const nb_variant *variant;
    int side;        /* which has it */
    const char *why; /* why the other cannot run it; NULL: it has none */
} ab_lone;

typedef struct ab_result {
    ab_cell *cells;
    size_t count;
    ab_lone *lone;
    size_t lone_count;
    const char *paths[AB_SIDES];
    bool same_bytes; /* both files hold the same */
    size_t processes;
} ab_result;

typedef struct ab {
    ab_options options;
    nb_topology topology;
    nb_provider loaded[AB_SIDES];
    nb_providers providers; /* the same two */
    nb_variants variants[AB_SIDES];
    nb_shapes *shapes; /* [shape_lists] */
    size_t shape_lists;
    ab_result result;
    nb_record record;
    FILE *json;
} ab;

/* ---- Cells and their times ------------------------------------------------ */

/* The cells that the options ask for, and the kernels that only one side has. NB_OK,
 * or a status after a message. */
int nb_ab_cells(ab *a);

/* Measures all cells, and those in doubt once more. A cell that fails is marked;
 * NB_OK, or the status after a message that ended it. */
int nb_ab_measure(ab *a);

/* ---- The answer ----------------------------------------------------------- */

/* Of the last round, head's time over base's. */
nb_estimate nb_ab_ratio(const ab_cell *cell);
enum ab_verdict nb_ab_verdict(const ab_cell *cell);

/* Tables for a terminal, or Markdown for the comment on a pull request. */
void nb_ab_print(const ab_result *result, bool markdown);
/* The same as JSON, to a file that is open. */
void nb_ab_write_json(const ab_result *result, bool complete, FILE *file);

#endif
