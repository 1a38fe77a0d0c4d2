/* SPDX-License-Identifier: Apache-2.0 */
/* How far a sweep is and how long it takes yet, on stderr, if that is a
 * terminal. */
#ifndef NB_PROGRESS_H
#define NB_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct nb_progress {
    size_t total, done;
    double start_ns;
    bool shown;
} nb_progress;

void nb_progress_start(nb_progress *progress, size_t total);
/* One step more is about to begin; `what` names it. */
void nb_progress_step(nb_progress *progress, const char *what);
/* Clears the line. Call it before anything else is printed. */
void nb_progress_clear(const nb_progress *progress);

#endif
