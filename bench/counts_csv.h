/* SPDX-License-Identifier: Apache-2.0 */
/* The CSV of counts, one row a kernel and shape: that of `count --csv` and of
 * `claim --meanings`. */
#ifndef NB_COUNTS_CSV_H
#define NB_COUNTS_CSV_H

#include "cells.h"
#include "counts.h"

#include <stdio.h>

typedef struct nb_counts_csv {
    FILE *file; /* NULL: never opened, and nothing is written */
    const char *path;
    char caches[64];
} nb_counts_csv;

/* The caches that decide in which order rows and columns are walked. */
void nb_counts_caches(char *text, size_t room);

/* Opens (nb_output_open), writes the header; a row, flushed; closes. NB_OK, or a
 * status after a message. */
int nb_counts_csv_open(nb_counts_csv *csv, const char *path, bool force);
int nb_counts_csv_write(nb_counts_csv *csv, const nb_variant *variant, size_t rows, size_t hidden,
                        const nb_counts *counts);
int nb_counts_csv_close(nb_counts_csv *csv);

#endif
