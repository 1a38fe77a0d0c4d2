/* SPDX-License-Identifier: Apache-2.0 */
/* The CSV of observations: one row a repetition, on disk as soon as it is
 * known. results/README.md is its dictionary. */
#ifndef NB_CSV_H
#define NB_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { NB_CSV_SCHEMA = 1 };

/* What every row of a run repeats. */
typedef struct nb_csv_run {
    const char *run_id;
    const char *started_utc;
    const char *machine;
    const char *cpu;
    const char *commit;
    const char *compiler;
} nb_csv_run;

/* One row. Texts may be NULL: an empty field. */
typedef struct nb_csv_row {
    const char *provider, *kernel, *algorithm, *dtype, *param_dtype, *isa;
    size_t rows, hidden, threads;
    const char *level, *mode;
    size_t working_set_bytes;
    size_t process, repetition;
    uint64_t iterations; /* 0: empty */
    double time_ns;      /* NAN: empty, as below */
    double bytes, flops;
    long pair, slot;  /* -1: empty */
    double error_ulp; /* infinity is written as inf */
    const char *status;
} nb_csv_row;

typedef struct nb_csv {
    FILE *file;
    const char *path;
    nb_csv_run run;
} nb_csv;

/* Opens (see nb_output_open) and writes the header line. NB_OK, or a status
 * after a message. */
int nb_csv_open(nb_csv *csv, const char *path, bool force, const nb_csv_run *run);
/* Writes and flushes a row. NB_OK, or NB_MACHINE after a message: no more rows
 * can be kept then. Both do nothing where the CSV was never opened. */
int nb_csv_write(nb_csv *csv, const nb_csv_row *row);
int nb_csv_close(nb_csv *csv);

/* A field: text is always quoted, so that no reader takes a commit of digits
 * for a number; absent text is an empty field. */
void nb_csv_text(FILE *file, const char *text);

#endif
