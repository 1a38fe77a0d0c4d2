/* SPDX-License-Identifier: Apache-2.0 */
/* From the times of both sides to a change, its interval and a verdict. */
#include "ab.h"
#include "program.h"
#include "table.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *word;
    enum nb_colour colour;
} verdicts[] = {
    [AB_UNCHANGED] = {"~", NB_DIM},   [AB_FASTER] = {"faster", NB_GREEN},
    [AB_SLOWER] = {"SLOWER", NB_RED}, [AB_UNSURE] = {"cannot tell", NB_YELLOW},
    [AB_BROKEN] = {"BROKEN", NB_RED}, [AB_EMPTY] = {"-", NB_DIM},
};

static nb_estimate estimate(const double *values, size_t count)
{
    double *copy = nb_allocate(count * sizeof *copy);
    for (size_t i = 0; i < count; i++)
        copy[i] = values[i];
    const nb_estimate e = nb_estimate_median(copy, count);
    free(copy);
    return e;
}

nb_estimate nb_ab_ratio(const ab_cell *cell)
{
    return estimate(cell->ratios + cell->first, cell->done - cell->first);
}

static double time_of(const ab_cell *cell, size_t side)
{
    return estimate(cell->time_ns[side] + cell->first, cell->done - cell->first).median;
}

enum ab_verdict nb_ab_verdict(const ab_cell *cell)
{
    if (cell->shape->skipped)
        return AB_EMPTY;
    if (cell->broken || cell->done == cell->first)
        return AB_BROKEN;
    const nb_estimate ratio = nb_ab_ratio(cell);
    if (ratio.median > 1 + cell->margin)
        return AB_SLOWER;
    if (ratio.high > 1 + 2 * cell->margin)
        return AB_UNSURE;
    return ratio.median < 1 - cell->margin ? AB_FASTER : AB_UNCHANGED;
}

/* ---- Lines of a table, for a terminal or as Markdown -------------------- */

typedef struct sink {
    nb_table table;
    bool markdown;
    size_t column;
} sink;

static const char *const titles[] = {"<kernel", ">rows",   ">hidden",      "<level", ">base",
                                     ">head",   ">change", ">interval, %", "<",      NULL};
enum { COLUMNS = sizeof titles / sizeof titles[0] - 1 };

static void begin(sink *s, bool markdown)
{
    *s = (sink){.markdown = markdown};
    if (!markdown) {
        nb_table_init(&s->table, titles);
        return;
    }
    for (size_t i = 0; i < COLUMNS; i++)
        printf("| %s ", titles[i] + 1);
    printf("|\n");
    for (size_t i = 0; i < COLUMNS; i++)
        printf("|%s", titles[i][0] == '>' ? "--:" : "---");
    printf("|\n");
}

__attribute__((format(printf, 3, 4))) static void add(sink *s, enum nb_colour colour,
                                                      const char *format, ...)
{
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (!s->markdown) {
        nb_table_add(&s->table, colour, "%s", text);
        return;
    }
    /* A bar would begin another cell. */
    for (char *bar = text; (bar = strchr(bar, '|'));)
        *bar = '/';
    printf("| %s%s", text, ++s->column % COLUMNS == 0 ? " |\n" : " ");
}

static void end(sink *s)
{
    if (!s->markdown)
        nb_table_print(&s->table, stdout);
}

/* Four digits with their unit. */
static const char *time_text(double ns, char text[16])
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    size_t unit = 0;
    for (; ns >= 1000 && unit < 3; unit++)
        ns /= 1000;
    snprintf(text, 16, "%.*f %s", ns < 10 ? 3 : ns < 100 ? 2 : 1, ns, units[unit]);
    return text;
}

static void add_times(sink *s, double base_ns, double head_ns, nb_estimate ratio)
{
    char text[16];
    add(s, NB_PLAIN, "%s", time_text(base_ns, text));
    add(s, NB_PLAIN, "%s", time_text(head_ns, text));
    add(s, NB_BOLD, "%+.2f %%", 100 * (ratio.median - 1));
    if (isnan(ratio.low))
        add(s, NB_PLAIN, "%s", "");
    else
        add(s, NB_PLAIN, "%+.2f..%+.2f", 100 * (ratio.low - 1), 100 * (ratio.high - 1));
}

static void add_cell(sink *s, const ab_cell *cell)
{
    const enum ab_verdict verdict = nb_ab_verdict(cell);
    const char *level = nb_shape_level(cell->shape);
    add(s, NB_PLAIN, "%s", cell->variants[AB_BASE]->kernel->op);
    if (verdict == AB_EMPTY)
        add(s, NB_DIM, "-");
    else
        add(s, NB_PLAIN, "%zu", cell->shape->spec.rows);
    add(s, NB_PLAIN, "%zu", cell->shape->spec.hidden);
    add(s, NB_PLAIN, "%s", level ? level : "?");
    if (verdict == AB_EMPTY || verdict == AB_BROKEN)
        for (size_t i = 0; i < 4; i++)
            add(s, NB_DIM, "-");
    else
        add_times(s, time_of(cell, AB_BASE), time_of(cell, AB_HEAD), nb_ab_ratio(cell));
    add(s, verdicts[verdict].colour, "%s%s",
        verdict == AB_EMPTY ? cell->shape->skipped : verdicts[verdict].word,
        cell->first && verdict != AB_SLOWER && verdict != AB_BROKEN ? ", not confirmed" : "");
}

/* ---- What all cells say together ---------------------------------------- */

typedef struct totals {
    size_t of[AB_EMPTY + 1];
    size_t measured, gone, new;
    double base_ns, head_ns; /* geometric means */
} totals;

static totals sum_up(const ab_result *r)
{
    totals t = {0};
    for (size_t i = 0; i < r->count; i++) {
        const ab_cell *cell = &r->cells[i];
        const enum ab_verdict verdict = nb_ab_verdict(cell);
        t.of[verdict]++;
        if (verdict == AB_BROKEN || verdict == AB_EMPTY)
            continue;
        t.measured++;
        /* The ratio as measured, not of two medians, makes the mean of head. */
        t.base_ns += log(time_of(cell, AB_BASE));
        t.head_ns += log(time_of(cell, AB_BASE) * nb_ab_ratio(cell).median);
    }
    t.base_ns = exp(t.base_ns / (double)t.measured);
    t.head_ns = exp(t.head_ns / (double)t.measured);
    for (size_t i = 0; i < r->lone_count; i++)
        *(r->lone[i].side == AB_BASE ? &t.gone : &t.new) += 1;
    return t;
}

static void add_mean(sink *s, const totals *t)
{
    add(s, NB_BOLD, "geometric mean");
    for (size_t i = 0; i < 3; i++)
        add(s, NB_PLAIN, "%s", "");
    const nb_estimate ratio = {t->head_ns / t->base_ns, NAN, NAN, 0};
    add_times(s, t->base_ns, t->head_ns, ratio);
    add(s, NB_PLAIN, "%s", "");
}

static bool same_heading(const ab_cell *a, const ab_cell *b)
{
    const nk_kernel *k = a->variants[AB_BASE]->kernel, *l = b->variants[AB_BASE]->kernel;
    return strcmp(k->algorithm, l->algorithm) == 0 && strcmp(k->dtype, l->dtype) == 0 &&
           strcmp(k->isa, l->isa) == 0 && a->shape->mode == b->shape->mode &&
           a->shape->threads == b->shape->threads;
}

static bool printed_before(const ab_result *r, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (same_heading(&r->cells[i], &r->cells[index]))
            return true;
    return false;
}

static void print_tables(const ab_result *r, bool markdown, const totals *t)
{
    size_t shown = 0;
    for (size_t i = 0; i < r->count; i++) {
        const nk_kernel *k = r->cells[i].variants[AB_BASE]->kernel;
        if (printed_before(r, i))
            continue;
        char threads[32] = "";
        if (r->cells[i].shape->threads > 1)
            snprintf(threads, sizeof threads, " threads:%zu", r->cells[i].shape->threads);
        printf("%salgorithm:%s dtype:%s isa:%s mode:%s%s%s\n",
               markdown ? "\n**"
               : shown  ? "\n"
                        : "",
               k->algorithm, k->dtype, k->isa, nb_mode_names[r->cells[i].shape->mode], threads,
               markdown ? "**\n" : "");
        sink s;
        begin(&s, markdown);
        for (size_t j = i; j < r->count; j++)
            if (same_heading(&r->cells[i], &r->cells[j])) {
                add_cell(&s, &r->cells[j]);
                shown++;
            }
        if (shown == r->count && t->measured)
            add_mean(&s, t);
        end(&s);
    }
}

static void print_list(const ab_result *r, bool markdown)
{
    const char *bullet = markdown ? "- " : "";
    char name[NB_NAME_BYTES];
    for (size_t i = 0; i < r->count; i++)
        if (r->cells[i].broken)
            printf("%sBROKEN %s\n", bullet, r->cells[i].broken);
    for (size_t i = 0; i < r->lone_count; i++) {
        const ab_lone *l = &r->lone[i];
        printf("%s%s %s%s%s\n", bullet, l->side == AB_BASE ? "only in base:" : "only in head:",
               nb_variant_name(l->variant, name), l->why ? "; on the other side: " : "",
               l->why ? l->why : "");
    }
    if (r->same_bytes)
        printf("%sBoth files hold the same bytes: a change shown is noise.\n", bullet);
}

static void print_conclusion(const totals *t)
{
    const struct {
        size_t count;
        const char *word;
    } parts[] = {{t->of[AB_SLOWER], "slower"},      {t->of[AB_BROKEN], "broken"},
                 {t->gone, "only in base"},         {t->of[AB_FASTER], "faster"},
                 {t->of[AB_UNSURE], "cannot tell"}, {t->of[AB_UNCHANGED], "unchanged"},
                 {t->new, "only in head"}};
    const char *separator = "";
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (parts[i].count) {
            printf("%s%zu %s", separator, parts[i].count, parts[i].word);
            separator = ", ";
        }
    printf("\n");
}

static void print_legend(const ab_result *r, bool markdown)
{
    double *any = nb_allocate(r->processes * sizeof *any);
    for (size_t i = 0; i < r->processes; i++)
        any[i] = (double)i;
    const char *wrap = markdown ? " " : "\n  ";
    printf("\nchange: head's time of a call over base's - 1, the median of %zu processes; the "
           "interval%sholds it with %.1f %%. ~: within the margin. SLOWER: measured twice. cannot "
           "tell:%smeasured on, and a slow-down of twice the margin is still not excluded.\n",
           r->processes, wrap, 100 * nb_estimate_median(any, r->processes).coverage, wrap);
    free(any);
}

void nb_ab_print(const ab_result *r, bool markdown)
{
    const totals t = sum_up(r);
    if (markdown) {
        printf("### normbench: ");
        print_conclusion(&t);
    } else {
        printf("base: %s\nhead: %s\n\n", r->paths[AB_BASE], r->paths[AB_HEAD]);
    }
    print_tables(r, markdown, &t);
    if (t.of[AB_BROKEN] || r->lone_count || r->same_bytes)
        printf("\n");
    print_list(r, markdown);
    print_legend(r, markdown);
    if (!markdown)
        print_conclusion(&t);
}

/* ---- JSON --------------------------------------------------------------- */

static void add_variant(cJSON *object, const nb_variant *v)
{
    cJSON_AddStringToObject(object, "kernel", v->kernel->op);
    cJSON_AddStringToObject(object, "algorithm", v->kernel->algorithm);
    cJSON_AddStringToObject(object, "dtype", v->kernel->dtype);
    cJSON_AddStringToObject(object, "isa", v->kernel->isa);
}

static void add_text(cJSON *object, const char *name, const char *text)
{
    cJSON_AddItemToObject(object, name, text ? cJSON_CreateString(text) : cJSON_CreateNull());
}

static cJSON *cell_json(const ab_cell *cell)
{
    static const char *const words[] = {
        [AB_UNCHANGED] = "unchanged", [AB_FASTER] = "faster", [AB_SLOWER] = "slower",
        [AB_UNSURE] = "cannot tell",  [AB_BROKEN] = "broken", [AB_EMPTY] = "empty"};
    const enum ab_verdict verdict = nb_ab_verdict(cell);
    cJSON *object = cJSON_CreateObject();
    add_variant(object, cell->variants[AB_BASE]);
    cJSON_AddNumberToObject(object, "rows", (double)cell->shape->spec.rows);
    cJSON_AddNumberToObject(object, "hidden", (double)cell->shape->spec.hidden);
    add_text(object, "level", nb_shape_level(cell->shape));
    cJSON_AddStringToObject(object, "mode", nb_mode_names[cell->shape->mode]);
    cJSON_AddNumberToObject(object, "threads", (double)cell->shape->threads);
    cJSON_AddNumberToObject(object, "margin", cell->margin);
    cJSON_AddStringToObject(object, "verdict", words[verdict]);
    add_text(object, "why", cell->broken ? cell->broken : cell->shape->skipped);
    if (cell->done == cell->first)
        return object;
    const nb_estimate ratio = nb_ab_ratio(cell);
    cJSON_AddNumberToObject(object, "base_ns", time_of(cell, AB_BASE));
    cJSON_AddNumberToObject(object, "head_ns", time_of(cell, AB_HEAD));
    cJSON_AddNumberToObject(object, "ratio", ratio.median);
    cJSON_AddNumberToObject(object, "ratio_low", ratio.low);
    cJSON_AddNumberToObject(object, "ratio_high", ratio.high);
    cJSON_AddNumberToObject(object, "coverage", ratio.coverage);
    cJSON_AddItemToObject(object, "ratios", /* by process, a second round's after the first's */
                          cJSON_CreateDoubleArray(cell->ratios, (int)cell->done));
    cJSON_AddNumberToObject(object, "processes", (double)(cell->done - cell->first));
    cJSON_AddNumberToObject(object, "base_error_u", cell->error_u[AB_BASE]);
    cJSON_AddNumberToObject(object, "head_error_u", cell->error_u[AB_HEAD]);
    return object;
}

void nb_ab_write_json(const ab_result *r, bool complete, FILE *file)
{
    const totals t = sum_up(r);
    cJSON *root = cJSON_CreateObject();
    cJSON_AddBoolToObject(root, "complete", complete);
    cJSON_AddStringToObject(root, "base", r->paths[AB_BASE]);
    cJSON_AddStringToObject(root, "head", r->paths[AB_HEAD]);
    cJSON_AddBoolToObject(root, "same_bytes", r->same_bytes);
    cJSON_AddNumberToObject(root, "geometric_mean_ratio", t.head_ns / t.base_ns);
    cJSON *cells = cJSON_AddArrayToObject(root, "cells");
    for (size_t i = 0; i < r->count; i++)
        cJSON_AddItemToArray(cells, cell_json(&r->cells[i]));
    cJSON *lone = cJSON_AddArrayToObject(root, "on_one_side_only");
    for (size_t i = 0; i < r->lone_count; i++) {
        cJSON *object = cJSON_CreateObject();
        add_variant(object, r->lone[i].variant);
        cJSON_AddStringToObject(object, "side", r->lone[i].side == AB_BASE ? "base" : "head");
        add_text(object, "why", r->lone[i].why);
        cJSON_AddItemToArray(lone, object);
    }
    char *text = cJSON_Print(root);
    if (text)
        fprintf(file, "%s\n", text);
    cJSON_free(text);
    cJSON_Delete(root);
}
