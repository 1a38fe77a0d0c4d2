/* SPDX-License-Identifier: Apache-2.0 */
/* The table that `run` ends with. */
#include "paired.h"
#include "run.h"
#include "table.h"

#include <string.h>

double nb_run_call_ns(const run_cell *cell)
{
    return nb_median(cell->time_ns, cell->done);
}

static void add_limit(nb_table *table, const run_cell *cell)
{
    if (cell->limit.kind == NB_LIMIT_UNKNOWN)
        nb_table_add(table, NB_DIM, "unknown");
    else
        nb_table_add(table, NB_PLAIN, "%.2f %s", nb_limit_share(cell->limit, nb_run_call_ns(cell)),
                     nb_limit_names[cell->limit.kind]);
}

/* What is not usual. */
static void add_conditions(nb_table *table, const nb_shape *shape)
{
    char threads[32] = "";
    if (shape->threads > 1)
        snprintf(threads, sizeof threads, "%zu threads", shape->threads);
    const bool rotate = shape->mode == NB_ROTATE;
    nb_table_add(table, NB_PLAIN, "%s%s%s", rotate ? "rotate" : "", rotate && *threads ? ", " : "",
                 threads);
}

static void add_row(nb_table *table, const run_cell *cell, bool unfused)
{
    const nk_kernel *k = cell->variant->kernel;
    const nb_workspace_spec *spec = &cell->shape->spec;
    const char *level = nb_shape_level(cell->shape);
    nb_table_add(table, NB_PLAIN, "%s", k->op);
    nb_table_add(table, NB_PLAIN, "%s", k->algorithm);
    nb_table_add(table, NB_PLAIN, "%s", k->dtype);
    nb_table_add(table, NB_PLAIN, "%s", k->isa);
    if (cell->shape->skipped)
        nb_table_add(table, NB_DIM, "-");
    else
        nb_table_add(table, NB_PLAIN, "%zu", spec->rows);
    nb_table_add(table, NB_PLAIN, "%zu", spec->hidden);
    nb_table_add(table, NB_PLAIN, "%s", level ? level : "?");
    if (cell->failed || cell->done == 0) {
        for (size_t i = 0; i < (unfused ? 5 : 4); i++)
            nb_table_add(table, NB_DIM, "-");
        nb_table_add(table, cell->failed ? NB_RED : NB_DIM, "%s",
                     cell->failed ? "a check failed" : cell->shape->skipped);
        return;
    }
    nb_table_add(table, NB_BOLD, "%.1f", nb_run_call_ns(cell) / (double)spec->rows);
    nb_table_add(table, NB_PLAIN, "%.2f", nb_median(cell->ratio, cell->done));
    if (unfused && cell->chain->count && !cell->chain_failed)
        nb_table_add(table, NB_PLAIN, "%.2f", nb_median(cell->fused_ratio, cell->done));
    else if (unfused)
        nb_table_add(table, cell->chain_failed ? NB_RED : NB_DIM, "%s",
                     cell->chain_failed ? "wrong" : "-");
    add_limit(table, cell);
    nb_table_add(table, NB_PLAIN, "%.1f", cell->error_u);
    add_conditions(table, cell->shape);
}

/* Why kernels are not timed unfused, each reason once. */
static void print_missing(const run_cell *cells, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const int op = cells[i].variant->op;
        const char *why = cells[i].chain->missing;
        for (size_t j = 0; j < i && why; j++)
            if (cells[j].variant->op == op && cells[j].chain->missing &&
                strcmp(cells[j].chain->missing, why) == 0)
                why = NULL;
        if (why)
            printf("%s is not timed unfused: %s.\n", nk_ops[op].name, why);
    }
}

void nb_run_print(const run_cell *cells, size_t count, size_t repetitions, bool unfused)
{
    static const char *const plain[] = {"<kernel",   "<algorithm", "<dtype",  "<isa",   ">rows",
                                        ">hidden",   "<level",     ">ns/row", ">/copy", "<limit",
                                        ">error, u", "<",          NULL};
    static const char *const with_unfused[] = {
        "<kernel", "<algorithm", "<dtype",    "<isa",   ">rows",     ">hidden", "<level",
        ">ns/row", ">/copy",     ">/unfused", "<limit", ">error, u", "<",       NULL};
    nb_table table;
    nb_table_init(&table, unfused ? with_unfused : plain);
    for (size_t i = 0; i < count; i++)
        add_row(&table, &cells[i], unfused);
    nb_table_print(&table, stdout);
    printf("\nns/row: wall time of a call through Google Benchmark, over its rows, the median of "
           "%zu at most.\n/copy: time over that of a copy of the same rows, interleaved with it.\n",
           repetitions);
    if (unfused)
        printf("/unfused: time over that of the plain kernels that do the same, likewise.\n");
    printf("limit: the share of the least time that the machine allows, measured in the same run, "
           "and\n  what sets it: slots (loads or stores) or flops of the ISA, lines that enter L1, "
           "bytes of the\n  level, latency of one row.\n");
    print_missing(cells, count);
}
