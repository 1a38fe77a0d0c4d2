/* SPDX-License-Identifier: Apache-2.0 */
/* Tables for a terminal of 100 columns: texts to the left, numbers to the
 * right, columns as wide as they need. What would be wider has the texts of its
 * first columns as headings above the rows. */
#ifndef NB_TABLE_H
#define NB_TABLE_H

#include <stddef.h>
#include <stdio.h>

enum { NB_TABLE_COLUMNS = 16, NB_TABLE_WIDTH = 100 };
enum nb_colour { NB_PLAIN, NB_BOLD, NB_DIM, NB_GREEN, NB_YELLOW, NB_RED };

typedef struct nb_table {
    size_t columns;
    const char *titles[NB_TABLE_COLUMNS];
    char align[NB_TABLE_COLUMNS]; /* 'l' or 'r' */
    char **cells;                 /* [rows * columns], owned */
    enum nb_colour *colours;
    size_t rows;
    size_t filled; /* cells of the last row */
} nb_table;

/* `titles`: "<text to the left", ">number to the right", up to NULL. */
void nb_table_init(nb_table *table, const char *const *titles);
/* Adds the next cell, row after row. */
__attribute__((format(printf, 3, 4))) void nb_table_add(nb_table *table, enum nb_colour colour,
                                                        const char *format, ...);
/* Prints and frees. Colour only on a terminal and without NO_COLOR. */
void nb_table_print(nb_table *table, FILE *file);

/* Bytes for people: "48K", "1M", "2.2M"; `text` holds at least 16. */
char *nb_bytes_text(double bytes, char *text);

#endif
