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

/* ---- Layout ------------------------------------------------------------- */

/* How a table is made to fit NB_TABLE_WIDTH. */
typedef struct layout {
    FILE *file;
    bool colour;
    size_t width[NB_TABLE_COLUMNS];
    size_t lead; /* columns that became headings */
    size_t gap;
} layout;

static const char *cell_at(const nb_table *table, size_t row, size_t column)
{
    return table->cells[row * table->columns + column];
}

/* Of a row up to its last cell, which is as long as `last`. */
static size_t row_width(const nb_table *table, const layout *l, size_t last)
{
    size_t width = last;
    for (size_t c = l->lead; c + 1 < table->columns; c++)
        width += l->width[c] + l->gap;
    return width;
}

/* Are there rows whose last cell does not fit? A cell that would not fit anywhere
 * shall not rearrange the rest. */
static bool is_too_wide(const nb_table *table, const layout *l)
{
    size_t last = strlen(table->titles[table->columns - 1]);
    for (size_t r = 0; r < table->rows; r++) {
        const size_t n = strlen(cell_at(table, r, table->columns - 1));
        last = n > last && n <= NB_TABLE_WIDTH / 4 ? n : last;
    }
    return row_width(table, l, last) > NB_TABLE_WIDTH;
}

/* The gaps shrink; if that is not enough, texts on the left become headings, one
 * after the other; last cells that still do not fit get lines of their own. */
static void fit(const nb_table *table, layout *l)
{
    for (size_t c = 0; c < table->columns; c++) {
        l->width[c] = strlen(table->titles[c]);
        for (size_t r = 0; r < table->rows; r++) {
            const size_t n = strlen(cell_at(table, r, c));
            l->width[c] = n > l->width[c] ? n : l->width[c];
        }
    }
    l->gap = 1;
    while (is_too_wide(table, l) && table->align[l->lead] == 'l' && l->lead + 2 < table->columns)
        l->lead++;
    l->gap = 2;
    if (is_too_wide(table, l))
        l->gap = 1;
}

static void print_coloured(const layout *l, enum nb_colour colour, const char *text)
{
    static const char *const codes[] = {"",         "\033[1m",  "\033[2m",
                                        "\033[32m", "\033[33m", "\033[31m"};
    const char *code = l->colour ? codes[colour] : "";
    fprintf(l->file, "%s%s%s", code, text, *code ? "\033[0m" : "");
}

static void print_cell(const nb_table *table, const layout *l, size_t column, enum nb_colour colour,
                       const char *text)
{
    enum { INDENT = 4 };
    const bool last = column + 1 == table->columns;
    const int pad = (int)(l->width[column] - strlen(text));
    if (last && row_width(table, l, strlen(text)) > NB_TABLE_WIDTH)
        fprintf(l->file, "\n%*s", INDENT, "");
    else if (table->align[column] == 'r')
        fprintf(l->file, "%*s", pad, "");
    print_coloured(l, colour, text);
    if (table->align[column] == 'l' && !last)
        fprintf(l->file, "%*s", pad, "");
    fprintf(l->file, "%*s", last ? 0 : (int)l->gap, "");
    if (last)
        fputc('\n', l->file);
}

/* The cells that became headings, where they are not those of the row before. */
static void print_heading(const nb_table *table, const layout *l, size_t row)
{
    bool same = row > 0;
    for (size_t c = 0; c < l->lead && same; c++)
        same = strcmp(cell_at(table, row, c), cell_at(table, row - 1, c)) == 0;
    for (size_t c = 0; c < l->lead && !same; c++) {
        print_coloured(l, NB_BOLD, cell_at(table, row, c));
        fputc(c + 1 < l->lead ? ' ' : '\n', l->file);
    }
}

void nb_table_print(nb_table *table, FILE *file)
{
    const char *no_color = getenv("NO_COLOR");
    layout l = {.file = file, .colour = isatty(fileno(file)) && !(no_color && *no_color)};
    fit(table, &l);
    for (size_t c = l.lead; c < table->columns; c++)
        print_cell(table, &l, c, NB_BOLD, table->titles[c]);
    for (size_t r = 0; r < table->rows; r++) {
        print_heading(table, &l, r);
        for (size_t c = l.lead; c < table->columns; c++)
            print_cell(table, &l, c, table->colours[r * table->columns + c], cell_at(table, r, c));
    }
    for (size_t i = 0; i < table->rows * table->columns; i++)
        free(table->cells[i]);
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
