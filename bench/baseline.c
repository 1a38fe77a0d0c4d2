/* SPDX-License-Identifier: Apache-2.0 */
#include "baseline.h"
#include "options.h"
#include "program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MOST = 64 };

/* The columns that matter here; there may be others. */
static const struct column {
    const char *name;
    size_t offset;
    bool number;
} columns[] = {
    {"provider", offsetof(nb_baseline_row, provider), false},
    {"build", offsetof(nb_baseline_row, build), false},
    {"caches", offsetof(nb_baseline_row, caches), false},
    {"kernel", offsetof(nb_baseline_row, kernel), false},
    {"algorithm", offsetof(nb_baseline_row, algorithm), false},
    {"dtype", offsetof(nb_baseline_row, dtype), false},
    {"isa", offsetof(nb_baseline_row, isa), false},
    {"rows", offsetof(nb_baseline_row, rows), true},
    {"hidden", offsetof(nb_baseline_row, hidden), true},
    {"instructions", offsetof(nb_baseline_row, instructions), true},
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

typedef struct reader {
    const char *path;
    char *next;  /* in the text, NUL at its end */
    size_t line; /* of the record that is being read */
    size_t lines;
    char *fields[COLUMNS_MOST];
    size_t count;
    size_t places[COLUMNS]; /* of the columns, in the header */
    size_t header_count;
} reader;

static int broken(const reader *r, const char *what)
{
    return nb_fail(NB_USAGE, "%s:%zu: %s", r->path, r->line, what);
}

/* ---- RFC 4180 ----------------------------------------------------------- */

/* Takes the quotes off in place. Returns what ends the field, or 0 with
 * `field` NULL where a quote is not closed. */
static char quoted(reader *r, char **field)
{
    char *from = r->next + 1, *to = from;
    *field = to;
    for (;; from++) {
        if (*from == '"' && from[1] == '"')
            from++;
        else if (*from == '"')
            break;
        else if (*from == '\0') {
            *field = NULL;
            return '\0';
        }
        r->lines += *from == '\n';
        *to++ = *from;
    }
    const char end = from[1];
    *to = '\0';
    r->next = from + 1;
    return end;
}

static char plain(reader *r, char **field)
{
    *field = r->next;
    r->next += strcspn(r->next, ",\r\n");
    return *r->next;
}

/* Reads a record into `fields`. Every one ends in a line break, so that a file
 * that was cut is noticed. */
static int read_record(reader *r)
{
    r->line = ++r->lines;
    for (r->count = 0; r->count < COLUMNS_MOST;) {
        char end =
            *r->next == '"' ? quoted(r, &r->fields[r->count]) : plain(r, &r->fields[r->count]);
        if (!r->fields[r->count])
            return broken(r, "a quote is not closed: the file was cut off");
        r->count++;
        if (end == '\r' && r->next[1] == '\n')
            *r->next++ = '\0';
        end = end == '\r' ? *r->next : end;
        if (end == '\0')
            return broken(r, "the line has no end: the file was cut off");
        *r->next++ = '\0';
        if (end == '\n')
            return NB_OK;
        if (end != ',')
            return broken(r, "text behind a closed quote");
    }
    return broken(r, "too many fields");
}

/* ---- Rows --------------------------------------------------------------- */

static int read_header(reader *r)
{
    if (*r->next == '\0') {
        r->line = 1;
        return broken(r, "the file is empty");
    }
    const int status = read_record(r);
    if (status != NB_OK)
        return status;
    r->header_count = r->count;
    for (size_t c = 0; c < COLUMNS; c++) {
        size_t i = 0;
        while (i < r->count && strcmp(r->fields[i], columns[c].name) != 0)
            i++;
        if (i == r->count)
            return nb_fail(NB_USAGE,
                           "%s:1: there is no column '%s': `normbench count --csv` writes one",
                           r->path, columns[c].name);
        r->places[c] = i;
    }
    return NB_OK;
}

static int read_row(reader *r, nb_baseline_row *row)
{
    int status = read_record(r);
    if (status != NB_OK)
        return status;
    *row = (nb_baseline_row){.line = r->line};
    if (r->count != r->header_count)
        return nb_fail(NB_USAGE, "%s:%zu: %zu fields, the header has %zu", r->path, r->line,
                       r->count, r->header_count);
    for (size_t c = 0; c < COLUMNS; c++) {
        const char *text = r->fields[r->places[c]];
        char *place = (char *)row + columns[c].offset;
        uint64_t value;
        if (!columns[c].number) {
            memcpy(place, &text, sizeof text);
            continue;
        }
        if (!nb_parse_u64(text, &value) || value == 0)
            return nb_fail(NB_USAGE, "%s:%zu: column %zu (%s): '%s' is no whole number from 1 on",
                           r->path, r->line, r->places[c] + 1, columns[c].name, text);
        memcpy(place, &value, sizeof value);
    }
    return NB_OK;
}

static int read_rows(reader *r, nb_baseline *baseline)
{
    int status = read_header(r);
    while (status == NB_OK && *r->next) {
        nb_baseline_row row;
        status = read_row(r, &row);
        if (status != NB_OK)
            break;
        const nb_baseline_row *twin = nb_baseline_find(baseline, &row);
        if (twin)
            return nb_fail(NB_USAGE, "%s:%zu: the same kernel and shape as in line %zu", r->path,
                           row.line, twin->line);
        baseline->items =
            nb_reallocate(baseline->items, (baseline->count + 1) * sizeof *baseline->items);
        baseline->items[baseline->count++] = row;
    }
    if (status == NB_OK && baseline->count == 0)
        status = broken(r, "a header and no rows");
    return status;
}

int nb_baseline_read(const char *path, nb_baseline *baseline)
{
    *baseline = (nb_baseline){.path = path};
    size_t length;
    baseline->text = nb_read_text(path, &length);
    if (!baseline->text)
        return nb_fail(NB_USAGE, "cannot read %s: %s", path, strerror(errno));
    if (strlen(baseline->text) != length)
        return nb_fail(NB_USAGE, "%s: holds a NUL: it is no text", path);
    reader r = {.path = path, .next = baseline->text};
    return read_rows(&r, baseline);
}

void nb_baseline_free(nb_baseline *baseline)
{
    free(baseline->text);
    free(baseline->items);
    *baseline = (nb_baseline){0};
}

nb_baseline_row *nb_baseline_find(const nb_baseline *baseline, const nb_baseline_row *like)
{
    for (size_t i = 0; i < baseline->count; i++) {
        nb_baseline_row *row = &baseline->items[i];
        if (row->rows == like->rows && row->hidden == like->hidden &&
            strcmp(row->kernel, like->kernel) == 0 &&
            strcmp(row->algorithm, like->algorithm) == 0 && strcmp(row->dtype, like->dtype) == 0 &&
            strcmp(row->isa, like->isa) == 0 && strcmp(row->provider, like->provider) == 0)
            return row;
    }
    return NULL;
}
