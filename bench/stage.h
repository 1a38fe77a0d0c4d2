/* SPDX-License-Identifier: Apache-2.0 */
/* Where a cell is measured: a team of threads, each with its own rows in
 * memory that it was the first to touch. */
#ifndef NB_STAGE_H
#define NB_STAGE_H

#include "team.h"
#include "workspace.h"

typedef struct nb_stage {
    nb_workspace_spec spec; /* of all rows */
    size_t threads;
    nb_team *team;
    nb_workspace *workspaces; /* [threads] */
    size_t llc_bytes;         /* of the last-level cache, for each thread; 0: unknown */
} nb_stage;

/* Starts the team on these CPUs (nb_team_start) and makes the operands: each
 * thread its own, parameters and sums included. There must be a row for each.
 * NB_OK, or NB_MACHINE after a message; nb_stage_close is needed either way. */
int nb_stage_open(nb_stage *stage, const nb_workspace_spec *spec, const int *cpus, size_t threads,
                  size_t llc_bytes);
void nb_stage_close(nb_stage *stage);

/* The next call of every thread is on its first set, which the checks look at. */
void nb_stage_rewind(nb_stage *stage);

/* What all threads' operands take, all sets. */
size_t nb_stage_bytes(const nb_workspace_spec *spec, size_t threads);

#endif
