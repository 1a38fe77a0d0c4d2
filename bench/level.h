/* SPDX-License-Identifier: Apache-2.0 */
/* Rows by cache level: as many as make a working set lie in L1, L2, L3 or
 * memory of the machine that hwloc shows. */
#ifndef NB_LEVEL_H
#define NB_LEVEL_H

#include "options.h"
#include "topology.h"

/* Rows of each of `threads` threads, for a working set of fixed_bytes
 * (parameters) and row_bytes a row each, in its share of the caches (by how many of
 * the threads share one):
 * L1:     half of the cache,
 * L2:     a quarter of it, but twice L1 at the least, and half of it at the most;
 *         either of them: one row where that takes no more than nine tenths of it;
 * L3:     a quarter of the last-level cache, of which others use the rest, but eight
 *         times L2 at the most and twice L2 at the least;
 * memory: three times the last-level cache.
 * 0 where a row cannot have that level: then *reason, a text to be freed, says
 * why. */
size_t nb_level_rows(const nb_topology *t, enum nb_level level, size_t threads, size_t fixed_bytes,
                     size_t row_bytes, char **reason);

/* The level that holds so many bytes of each of the threads, with a tenth to
 * spare; -1 if the caches are unknown. */
int nb_level_of(const nb_topology *t, size_t threads, size_t bytes);

#endif
