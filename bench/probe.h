/* SPDX-License-Identifier: Apache-2.0 */
/* Strangers' code in a child process, until it has proved itself: a provider
 * that crashes, hangs or ends the process takes the child with it, is named,
 * and the rest goes on. */
#ifndef NB_PROBE_H
#define NB_PROBE_H

#include "cells.h"

#include <limits.h>

/* The nk_status of a kernel that did not come back from its call. */
enum { NB_NEVER_RETURNED = INT_MIN };

/* The one place where a provider's kernel is called for its results: those of a
 * provider given by its path in a child, which shares the operands (a workspace
 * is shared memory) and nothing else that is written. */
nk_status nb_call_kernel(const nb_variant *variant, const nk_args *args);

/* "refused: x: required, but NULL", or of a call that did not return "crashed:
 * Illegal instruction (./mine.so)". To be freed. */
char *nb_call_failure(const nb_variant *variant, nk_status status);

/* Loads a provider in a child and checks its table there. NB_OK, or a status
 * after a message. */
int nb_probe_provider(const char *path);

/* How long a load or a call may take: 10 seconds, or $NORMBENCH_PATIENCE. */
unsigned nb_patience_s(void);

/* How a child that gave no answer died: "crashed: Segmentation fault", "hung: no
 * answer within 10 s", "ended the process". To be freed. */
char *nb_death_text(int wait_status);

/* In a child that is about to run strangers' code: signals kill it (Ctrl-C is
 * the parent's affair) and leave no core file. */
void nb_become_expendable(void);

#endif
