/* SPDX-License-Identifier: Apache-2.0 */
/* info --limits: what the machine does at the most, at each level. */
#include "info.h"
#include "level.h"
#include "table.h"

void nb_info_want_limits(nb_limits *limits)
{
    const size_t all = nb_topology_threads(limits->topology);
    for (size_t threads = 1; threads <= all; threads += all > 1 ? all - 1 : 1) {
        for (int isa = 0; isa < NK_ISAS; isa++)
            if (limits->runs[isa])
                nb_limits_want_level(limits, threads, NB_L1, isa);
        for (int level = NB_L2; level < NB_LEVELS; level++)
            nb_limits_want_level(limits, threads, level, -1);
    }
}

/* Bytes a nanosecond, which are gigabytes a second, and of one thread those a cycle
 * of its core. */
static void add_flow(nb_table *table, const nb_pace *p, enum nb_flow flow, double core_hz)
{
    if (p->threads == 1 && core_hz > 0)
        nb_table_add(table, NB_PLAIN, "%.0f (%.1f)", p->flow[flow], p->flow[flow] * 1e9 / core_hz);
    else
        nb_table_add(table, NB_PLAIN, "%.0f", p->flow[flow]);
}

static void add_line_time(nb_table *table, const nb_pace *p, double core_hz)
{
    const double ns = 64 / p->flow[NB_LOAD];
    if (p->isa >= 0)
        nb_table_add(table, NB_DIM, "-");
    else if (p->threads == 1 && core_hz > 0)
        nb_table_add(table, NB_PLAIN, "%.2f (%.1f)", ns, ns * core_hz / 1e9);
    else
        nb_table_add(table, NB_PLAIN, "%.2f", ns);
}

static void add_bytes_row(nb_table *table, const nb_limits *limits, const nb_pace *p)
{
    const nb_topology *t = limits->topology;
    const int level = nb_level_of(t, p->threads, p->bytes);
    nb_table_add(table, NB_PLAIN, "%zu", p->threads);
    nb_table_add(table, NB_PLAIN, "%s", level < 0 ? "?" : nb_level_names[level]);
    nb_table_add(table, NB_PLAIN, "%s", p->isa < 0 ? "best" : nk_isas[p->isa].name);
    const enum nb_flow shown[] = {NB_LOAD, NB_STORE, NB_COPY, NB_ADD, NB_STREAM_COPY};
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++)
        add_flow(table, p, shown[i], t->core_hz);
    add_line_time(table, p, t->core_hz);
}

static void print_bytes(const nb_limits *limits)
{
    static const char *const titles[] = {">threads", "<level", "<ISA",     ">load",    ">store",
                                         ">copy",    ">add",   ">NT copy", ">ns/line", NULL};
    nb_table table;
    nb_table_init(&table, titles);
    for (size_t i = 0; i < limits->count; i++)
        add_bytes_row(&table, limits, &limits->paces[i]);
    nb_table_print(&table, stdout);
}

static void print_arithmetic(const nb_limits *limits)
{
    static const char *const titles[] = {">threads",       "<ISA",         ">FMA", ">add",
                                         ">flops at most", ">latency, ns", NULL};
    nb_table table;
    nb_table_init(&table, titles);
    for (size_t i = 0; i < limits->count; i++) {
        const nb_pace *p = &limits->paces[i];
        if (p->isa < 0)
            continue;
        nb_table_add(&table, NB_PLAIN, "%zu", p->threads);
        nb_table_add(&table, NB_PLAIN, "%s", nk_isas[p->isa].name);
        nb_table_add(&table, NB_PLAIN, "%.1f", p->fma_per_ns);
        nb_table_add(&table, NB_PLAIN, "%.1f", p->add_per_ns);
        nb_table_add(&table, NB_PLAIN, "%.1f", p->flops_per_ns);
        nb_table_add(&table, NB_PLAIN, "%.1f", p->latency_ns);
    }
    nb_table_print(&table, stdout);
}

void nb_info_print_limits(const nb_limits *limits)
{
    printf("\nGB/s at the most, those read and those written (bytes a cycle), of all threads:\n");
    print_bytes(limits);
    printf("copy: reads one, writes one; add: reads two, writes one; NT: stores that pass by the\n"
           "caches. ns/line (cycles): a line of 64 bytes enters L1, of all threads.\n"
           "\n10^9 elements a second, and what a row waits for between its two readings "
           "(reduction, root,\ndivision):\n");
    print_arithmetic(limits);
}
