/* SPDX-License-Identifier: Apache-2.0 */
/* Every cell again and again, each time in another order: what drifts while a sweep
 * lasts falls on no cell more than on another. */
#ifndef NB_SWEEP_H
#define NB_SWEEP_H

#include "cells.h"

typedef struct nb_sweep {
    size_t count;         /* cells */
    size_t first, rounds; /* numbers of the rounds: first .. first + rounds - 1 */
    uint64_t seed;
    const char *out; /* where what is finished stays, for a message; NULL: nowhere */
    void *context;
    char *(*name)(void *context, size_t cell, char name[NB_NAME_BYTES]);
    int (*measure)(void *context, size_t cell, size_t round); /* NB_OK, or what ends the sweep */
} nb_sweep;

/* Shows progress. NB_OK; what a measurement returned; or NB_INTERRUPTED after a
 * message. */
int nb_sweep_run(const nb_sweep *sweep);

/* A random order of 0 .. count - 1, the same for the same seed; to be freed. */
size_t *nb_shuffled(size_t count, unsigned long long seed);

#endif
