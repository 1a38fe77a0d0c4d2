/* SPDX-License-Identifier: Apache-2.0 */
/* From the times of a pair to a saving, its interval and a verdict. */
#include "claim.h"
#include "program.h"
#include "table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double low_claim = 0.15, high_claim = 0.20;
/* Shares of the limits, or of the copy's speed, that may differ before LayerNorm is
 * suspected, and the factor that another LayerNorm may be faster by. */
static const double share_margin = 0.15, rival_margin = 0.015;

static double pair_ns(const claim_cell *cell, const nb_paired_result *p, size_t pair, size_t side)
{
    const double ns = p->time_ns[pair][side];
    return cell->training && side != COPY ? ns + p->time_ns[pair][LAYER_BWD + side] : ns;
}

static double process_ratio(const claim_cell *cell, const nb_paired_result *p, size_t a, size_t b)
{
    double ratios[NB_PAIRS];
    for (size_t i = 0; i < p->pairs; i++)
        ratios[i] = pair_ns(cell, p, i, a) / pair_ns(cell, p, i, b);
    return nb_median(ratios, p->pairs);
}

nb_estimate nb_claim_ratio(const claim_cell *cell, size_t a, size_t b)
{
    double *values = nb_allocate(cell->done * sizeof *values);
    for (size_t i = 0; i < cell->done; i++)
        values[i] = process_ratio(cell, &cell->results[i].paired, a, b);
    const nb_estimate estimate = nb_estimate_median(values, cell->done);
    free(values);
    return estimate;
}

double nb_claim_call_ns(const claim_cell *cell, size_t side)
{
    double *values = nb_allocate(cell->done * NB_PAIRS * sizeof *values);
    size_t count = 0;
    for (size_t i = 0; i < cell->done; i++)
        for (size_t pair = 0; pair < cell->results[i].paired.pairs; pair++)
            values[count++] = cell->results[i].paired.time_ns[pair][side];
    const double median = nb_median(values, count);
    free(values);
    return median;
}

double nb_claim_share(const claim_cell *cell, size_t side)
{
    return nb_limit_share(cell->limits[side], nb_claim_call_ns(cell, side));
}

/* How much further LayerNorm is from its limit than RMSNorm from its own. Where they are
 * unknown the speed of the copy stands for both: LayerNorm also lacks of it what it has to
 * compute, and this errs towards "cannot tell". */
static double behind(const claim_cell *cell)
{
    const double points = nb_claim_share(cell, RMS) - nb_claim_share(cell, LAYER);
    return isfinite(points)
               ? points
               : nb_claim_ratio(cell, COPY, RMS).median - nb_claim_ratio(cell, COPY, LAYER).median;
}

nb_estimate nb_claim_saving(const claim_cell *cell)
{
    const nb_estimate r = nb_claim_ratio(cell, RMS, LAYER);
    return (nb_estimate){1 - r.median, 1 - r.high, 1 - r.low, r.coverage};
}

const char *nb_claim_word(double low, double high)
{
    return high < low_claim                         ? "below"
           : low > high_claim                       ? "above"
           : low >= low_claim && high <= high_claim ? "within"
                                                    : "cannot tell";
}

static const char *verdict(const claim_cell *cell)
{
    const nb_estimate saving = nb_claim_saving(cell);
    if (saving.high < low_claim)
        return "below";
    /* A slow LayerNorm makes a saving that is none; one below the claim it can
     * only have made larger. */
    for (size_t rival = RIVALS; rival < cell->count && !cell->training; rival++)
        if (nb_claim_ratio(cell, rival, LAYER).high < 1 - rival_margin)
            return "cannot tell: rival";
    if (behind(cell) > share_margin)
        return "cannot tell: shares";
    return nb_claim_word(saving.low, saving.high);
}

void nb_claim_add_copies(nb_table *table, const claim_cell *cell)
{
    if (cell->done)
        nb_table_add(table, NB_PLAIN, "%.2f, %.2f", nb_claim_ratio(cell, LAYER, COPY).median,
                     nb_claim_ratio(cell, RMS, COPY).median);
    else
        nb_table_add(table, NB_DIM, "-");
}

void nb_claim_add_shares(nb_table *table, const claim_cell *cell)
{
    const double layer = cell->done ? nb_claim_share(cell, LAYER) : NAN;
    const double rms = cell->done ? nb_claim_share(cell, RMS) : NAN;
    if (isfinite(layer + rms))
        nb_table_add(table, NB_PLAIN, "%.2f, %.2f", layer, rms);
    else
        nb_table_add(table, NB_DIM, "-");
}

void nb_claim_add_saving(nb_table *table, const claim_cell *cell)
{
    if (!cell->done) {
        nb_table_add(table, NB_DIM, "-");
        nb_table_add(table, NB_DIM, "-");
        return;
    }
    const nb_estimate saving = nb_claim_saving(cell);
    nb_table_add(table, NB_BOLD, "%.1f %%", 100 * saving.median);
    nb_table_add(table, NB_PLAIN, "%.1f..%.1f", 100 * saving.low, 100 * saving.high);
}

void nb_claim_add_word(nb_table *table, const char *word)
{
    nb_table_add(table,
                 strcmp(word, "within") == 0                                ? NB_GREEN
                 : strcmp(word, "below") == 0 || strcmp(word, "above") == 0 ? NB_YELLOW
                                                                            : NB_DIM,
                 "%s", word);
}

void nb_claim_add_verdict(nb_table *table, const claim_cell *cell)
{
    if (cell->failed)
        nb_table_add(table, NB_RED, "a check failed");
    else
        nb_claim_add_word(table, cell->shape->skipped ? cell->shape->skipped : verdict(cell));
}

static void add_row(nb_table *table, const claim_cell *cell)
{
    const nb_workspace_spec *spec = &cell->shape->spec;
    const char *level = nb_shape_level(cell->shape);
    nb_table_add(table, NB_PLAIN, "%zu", spec->hidden);
    nb_table_add(table, NB_PLAIN, "%s", level ? level : "?");
    nb_table_add(table, NB_PLAIN, "%s", cell->variants[RMS]->kernel->isa);
    if (cell->done)
        nb_table_add(table, NB_PLAIN, "%zu", spec->rows);
    else
        nb_table_add(table, NB_DIM, "-");
    nb_claim_add_copies(table, cell);
    nb_claim_add_shares(table, cell);
    nb_claim_add_saving(table, cell);
    if (cell->done && cell->count > RIVALS && !cell->training)
        nb_table_add(table, NB_PLAIN, "%.1f %%",
                     100 * (1 - nb_claim_ratio(cell, RMS, RIVALS).median));
    else
        nb_table_add(table, NB_DIM, "-");
    nb_claim_add_verdict(table, cell);
}

static bool same_heading(const claim_cell *a, const claim_cell *b)
{
    return a->variants[LAYER]->op == b->variants[LAYER]->op &&
           a->variants[LAYER]->dtype == b->variants[LAYER]->dtype &&
           a->variants[LAYER]->provider == b->variants[LAYER]->provider &&
           a->training == b->training && a->shape->mode == b->shape->mode &&
           a->shape->threads == b->shape->threads;
}

static int by_hidden(const void *left, const void *right)
{
    const claim_cell *a = left, *b = right;
    const nb_variant *v = a->variants[LAYER], *w = b->variants[LAYER];
    const long differences[] = {
        (long)v->op - (long)w->op,
        (long)a->training - (long)b->training,
        (long)v->dtype - (long)w->dtype,
        strcmp(v->provider->label, w->provider->label),
        (long)a->shape->mode - (long)b->shape->mode,
        (long)a->shape->threads - (long)b->shape->threads,
        (a->shape->spec.hidden > b->shape->spec.hidden) -
            (a->shape->spec.hidden < b->shape->spec.hidden),
        a->shape->level - b->shape->level,
        (a->shape->spec.rows > b->shape->spec.rows) - (a->shape->spec.rows < b->shape->spec.rows),
        nk_isa_index(v->kernel->isa) - nk_isa_index(w->kernel->isa),
    };
    for (size_t i = 0; i < sizeof differences / sizeof differences[0]; i++)
        if (differences[i])
            return differences[i] < 0 ? -1 : 1;
    return 0;
}

/* Of the columns that are there. */
void nb_claim_print_legend(const claim *c)
{
    const claim_options *o = &c->options;
    const bool axes = o->axes, sweep = !axes && !o->meanings && o->filters.model.count == 0;
    const size_t processes = o->processes;
    double *any = nb_allocate(processes * sizeof *any);
    for (size_t i = 0; i < processes; i++)
        any[i] = (double)i;
    printf("\nsaves: 1 - RMSNorm's time / LayerNorm's, the median of %zu processes; the interval "
           "holds it\n  with %.1f %%.\n",
           processes, 100 * nb_estimate_median(any, processes).coverage);
    if (sweep)
        puts("/copy: LayerNorm's and RMSNorm's times over that of a copy of the same rows.");
    if (sweep || axes)
        puts("of limit: what share both reach of the least time that the machine allows.");
    printf("cannot tell: shares   LayerNorm is further from its limit than RMSNorm by more than "
           "%.0f points:\n"
           "                      what is saved may be a slow LayerNorm\n"
           "cannot tell: rival    another algorithm of LayerNorm is faster than the one compared\n",
           100 * share_margin);
    free(any);
}

void nb_claim_print_sweep(claim *c)
{
    qsort(c->cells, c->count, sizeof *c->cells, by_hidden);
    for (size_t first = 0, next; first < c->count; first = next) {
        const claim_cell *head = &c->cells[first];
        const char *rival = head->count > RIVALS && !head->training
                                ? head->variants[RIVALS]->kernel->algorithm
                                : "others";
        char *against = nb_format(">%s", rival);
        const char *const titles[] = {">hidden",       "<level",         "<isa",   ">rows",
                                      ">LN, RMS/copy", ">of limit",      ">saves", ">interval, %",
                                      against,         "<15-20 % hold?", NULL};
        printf("%s%s (%s) against %s (%s), %s, %s, %zu thread%s%s\n", first ? "\n" : "",
               head->variants[RMS]->kernel->op, head->variants[RMS]->kernel->algorithm,
               head->variants[LAYER]->kernel->op, head->variants[LAYER]->kernel->algorithm,
               head->variants[LAYER]->kernel->dtype, nb_mode_names[head->shape->mode],
               head->shape->threads, head->shape->threads > 1 ? "s" : "",
               head->training ? ", forward + backward" : "");
        nb_table table;
        nb_table_init(&table, titles);
        for (next = first; next < c->count && same_heading(head, &c->cells[next]); next++)
            add_row(&table, &c->cells[next]);
        nb_table_print(&table, stdout);
        free(against);
    }
    puts("The column after the interval: the same against another algorithm of LayerNorm.");
}
