/* SPDX-License-Identifier: Apache-2.0 */
/* Stored counts, as `count --csv` writes them, to hold new ones against. */
#ifndef NB_BASELINE_H
#define NB_BASELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct nb_baseline_row {
    const char *provider, *build, *caches, *kernel, *algorithm, *dtype, *isa;
    uint64_t rows, hidden, instructions;
    size_t line;
    bool used; /* a new count was held against it */
} nb_baseline_row;

typedef struct nb_baseline {
    const char *path;
    char *text; /* the file; the rows point into it */
    nb_baseline_row *items;
    size_t count;
} nb_baseline;

/* NB_OK, or NB_USAGE after a message that names file, line and column. */
int nb_baseline_read(const char *path, nb_baseline *baseline);
void nb_baseline_free(nb_baseline *baseline);

/* The row of the same provider, kernel and shape, whatever its build; NULL if
 * there is none. */
nb_baseline_row *nb_baseline_find(const nb_baseline *baseline, const nb_baseline_row *like);

#endif
