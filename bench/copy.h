/* SPDX-License-Identifier: Apache-2.0 */
/* The floor that stands beside every time: a copy of the same rows, by our own
 * library whichever provider is measured. By the ISA that is measured, since 512-bit
 * code lowers the clock of some CPUs, also for what is interleaved with it; beside
 * scalar kernels by the plainest ISA that has vectors. */
#ifndef NB_COPY_H
#define NB_COPY_H

#include "cells.h"

typedef struct nb_copies {
    nb_providers providers;
    nb_variants variants;
} nb_copies;

/* NB_OK, or a status after a message. */
int nb_copies_load(nb_copies *copies);
void nb_copies_free(nb_copies *copies);
const nb_variant *nb_copies_beside(const nb_copies *copies, const nb_variant *kernel);

#endif
