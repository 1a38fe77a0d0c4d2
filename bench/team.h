/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that do the same work at the same time, each bound to a CPU of its
 * own. The caller is one of them. */
#ifndef NB_TEAM_H
#define NB_TEAM_H

#include <stddef.h>

typedef struct nb_team nb_team;

/* What each thread does; `thread` counts from 0, which is the caller. */
typedef void (*nb_team_work)(void *context, size_t thread);

/* Binds the caller to cpus[0] and starts a thread on each of the others; every
 * one has read its binding back. A CPU of -1 binds to none. NULL after a
 * message: this machine cannot do it. */
nb_team *nb_team_start(const int *cpus, size_t threads);

/* All do the work; returns when the last has done it. What was written before is
 * seen by all, and what they wrote by the caller. The threads wait for the next
 * work awake for some milliseconds, then asleep. */
void nb_team_run(nb_team *team, nb_team_work work, void *context);

/* Ends all but the caller, which stays bound. NULL is allowed. */
void nb_team_stop(nb_team *team);

#endif
