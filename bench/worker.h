/* SPDX-License-Identifier: Apache-2.0 */
/* The paired engine in processes of its own: one process can be biased by a per
 * cent for its whole life (where its pages and its code happen to lie), so an
 * answer is made from several. They also keep a provider's crash away
 * from the program. */
#ifndef NB_WORKER_H
#define NB_WORKER_H

#include "cells.h"
#include "paired.h"
#include "shapes.h"

#include <limits.h>
#include <sys/types.h>

/* A kernel by its names. */
typedef struct nb_job_side {
    char provider[PATH_MAX];
    bool foreign; /* as in nb_provider */
    char op[48], algorithm[48], dtype[16], isa[48];
} nb_job_side;

/* All that the process is told. */
typedef struct nb_job {
    size_t count;
    nb_job_side sides[NB_PARTICIPANTS];
    nb_workspace_spec spec; /* of an op whose operands all sides share */
    size_t llc_bytes;       /* for each thread */
    size_t threads;
    int cpus[NB_MOST_THREADS]; /* [threads], to be bound to; -1: none */
    size_t pairs;
    double budget_ns; /* for all of them */
} nb_job;

/* All that comes back. */
typedef struct nb_job_result {
    int status;      /* NB_OK, or what `error` tells */
    int failed_side; /* whose check failed; -1: none */
    char error[512];
    nb_paired_result paired;
    double error_u[NB_PARTICIPANTS];
    double bytes[NB_PARTICIPANTS], flops[NB_PARTICIPANTS];
    uint32_t store_used[NB_PARTICIPANTS];
} nb_job_result;

/* A job without participants: the shape's operands, on as many threads as it has,
 * placed as the machine has them. */
void nb_job_init(nb_job *job, const nb_shape *shape, const nb_topology *t);

/* Adds a participant; its variant must outlive nothing: names are copied. */
void nb_job_add(nb_job *job, const nb_variant *variant);

/* Runs the job in this process: check, time, check again; or, where one round of calls
 * outlasts the budget, time the calls that are checked. */
void nb_job_run(const nb_job *job, nb_job_result *result);

/* A process that runs one job after another; all zero: none yet. */
typedef struct nb_process {
    pid_t pid;
    int channel;
} nb_process;

/* Runs the job there, in a fresh process if there is none, and waits. A crash or a hang
 * becomes NB_FAILED with what happened to whom in `error`, Ctrl-C NB_INTERRUPTED. The
 * process is ended then, and after a stranger's kernel, whatever that may have left. */
void nb_job_run_apart(nb_process *process, const nb_job *job, nb_job_result *result);
void nb_process_end(nb_process *process);

/* What a row of the CSV says of one side in one pair. */
void nb_job_observe(const nb_job_result *result, size_t side, size_t pair, nb_csv_row *row);

/* The hidden subcommand that the fresh process runs. */
int nb_worker(int argc, char **argv);

#endif
