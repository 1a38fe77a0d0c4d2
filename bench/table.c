/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"
#include "program.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void nb_table_init(nb_table *table, const char *const *titles)
{
    memset(table, 0, sizeof *table);
    for (; titles[table->columns]; table->columns++) {
        table->align[table->columns] = titles[table->columns][0] == '>' ? 'r' : 'l';
        table->titles[table->columns] = titles[table->columns] + 1;
    }
    table->filled = table->columns;
}

void nb_table_add(nb_table *table, enum nb_colour colour, const char *format, ...)
{
    if (table->filled == table->columns) {
        table->rows++;
        table->filled = 0;
        const size_t cells = table->rows * table->columns;
        table->cells = nb_reallocate(table->cells, cells * sizeof *table->cells);
        table->colours = nb_reallocate(table->colours, cells * sizeof *table->colours);
    }
    const size_t i = (table->rows - 1) * table->columns + table->filled++;
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    table->cells[i] = nb_duplicate(text);
    table->colours[i] = colour;
}

static void print_cell(FILE *file, const nb_table *table, size_t column, size_t width,
                       const char *text, const char *colour)
{
    const bool last = column + 1 == table->columns;
    const int pad = (int)(width - strlen(text));
    if (table->align[column] == 'r')
        fprintf(file, "%*s", pad, "");
    fprintf(file, "%s%s%s", colour, text, *colour ? "\033[0m" : "");
    if (table->align[column] == 'l' && !last)
        fprintf(file, "%*s", pad, "");
    fputs(last ? "\n" : "  ", file);
}

void nb_table_print(nb_table *table, FILE *file)
{
    static const char *const codes[] = {"",         "\033[1m",  "\033[2m",
                                        "\033[32m", "\033[33m", "\033[31m"};
    const char *no_color = getenv("NO_COLOR");
    const bool colour = isatty(fileno(file)) && !(no_color && *no_color);
    size_t width[NB_TABLE_COLUMNS];
    for (size_t c = 0; c < table->columns; c++) {
        width[c] = strlen(table->titles[c]);
        for (size_t r = 0; r < table->rows; r++) {
            const size_t n = strlen(table->cells[r * table->columns + c]);
            width[c] = n > width[c] ? n : width[c];
        }
    }
    for (size_t c = 0; c < table->columns; c++)
        print_cell(file, table, c, width[c], table->titles[c], colour ? codes[NB_BOLD] : "");
    for (size_t i = 0; i < table->rows * table->columns; i++) {
        const size_t c = i % table->columns;
        print_cell(file, table, c, width[c], table->cells[i],
                   colour ? codes[table->colours[i]] : "");
        free(table->cells[i]);
    }
    free(table->cells);
    free(table->colours);
    memset(table, 0, sizeof *table);
}

char *nb_bytes_text(double bytes, char *text)
{
    static const char units[] = "BKMGT";
    size_t unit = 0;
    while (bytes >= 1024 && units[unit + 1]) {
        bytes /= 1024;
        unit++;
    }
    const bool whole = bytes >= 10 || bytes == floor(bytes);
    snprintf(text, 16, "%.*f%c", whole ? 0 : 1, bytes, units[unit]);
    return text;
}
