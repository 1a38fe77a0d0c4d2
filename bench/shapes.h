/* SPDX-License-Identifier: Apache-2.0 */
/* The shapes that the options ask for: hidden sizes x modes x threads x rows or
 * levels. */
#ifndef NB_SHAPES_H
#define NB_SHAPES_H

#include "cells.h"
#include "csv.h"
#include "options.h"
#include "topology.h"
#include "workspace.h"

typedef struct nb_shape {
    nb_workspace_spec spec; /* of all threads' rows, ready for nb_stage_open unless skipped */
    size_t threads;
    size_t working_set_bytes; /* of all threads */
    int level;                /* enum nb_level, -1: unknown */
    enum nb_mode mode;
    char *skipped; /* NULL, or why this shape cannot be had */
} nb_shape;

typedef struct nb_shapes {
    nb_shape *items;
    size_t count;
} nb_shapes;

/* Appends those for one op and dtype, with these operands (0: nb_operands_usual).
 * Without --hidden or --model: the hidden sizes of six well-known models; without --rows or
 * --level: every level, or 32 rows where the caches are unknown; without --mode: hot; without
 * --threads: one. NB_OK, or a status after a message: NB_MACHINE for more threads than there are
 * cores or quota for, unless oversubscribed. */
int nb_shapes_add(nb_shapes *shapes, const nb_options *options, const nb_topology *t, int op,
                  uint32_t operands, nk_dtype dtype);
void nb_shapes_free(nb_shapes *shapes);

/* "L2", "memory"; NULL where it is unknown. */
const char *nb_shape_level(const nb_shape *shape);

/* nb_cell_name, with "/threads:2" where there are more than one. */
char *nb_shape_name(const nb_variant *variant, const nb_shape *shape, char name[NB_NAME_BYTES]);

/* A row of the CSV with what variant and shape say: without an observation,
 * pair or slot, its status "ok". */
nb_csv_row nb_shape_row(const nb_variant *variant, const nb_shape *shape);

#endif
