/* SPDX-License-Identifier: Apache-2.0 */
/* The paired engine: two or more functions measured against each other on the
 * same buffers, interleaved so finely that whatever disturbs the machine
 * disturbs them alike.
 *
 * A round is a palindrome of batches, A B C C B A, each batch about 20 us of
 * calls: a drift of the clock cancels. A pair is a stretch of rounds, and its
 * observation for each participant is the median over them of the round's time
 * a call. Ratios are taken within a pair. */
#ifndef NB_PAIRED_H
#define NB_PAIRED_H

#include <stddef.h>

typedef struct nb_participant {
    void (*run)(void *context, size_t calls); /* returns when all are done */
    void *context;
    double call_ns; /* if known: the batch of a long call is not tried out */
} nb_participant;

enum { NB_PARTICIPANTS = 6, NB_PAIRS = 8, NB_BATCH_NS = 20000 };

typedef struct nb_paired {
    const nb_participant *participants;
    size_t count; /* at most NB_PARTICIPANTS */
    size_t pairs; /* at most NB_PAIRS; fewer are made where one round outlasts them */
    double batch_ns;
    double budget_ns; /* for all pairs; one round is made in any case */
    double (*now_ns)(void);
} nb_paired;

typedef struct nb_paired_result {
    size_t count;
    size_t pairs; /* made */
    size_t rounds[NB_PAIRS];
    size_t batch[NB_PARTICIPANTS];             /* calls */
    double time_ns[NB_PAIRS][NB_PARTICIPANTS]; /* of one call */
} nb_paired_result;

void nb_paired_measure(const nb_paired *plan, nb_paired_result *result);

/* The median of time_ns[a] / time_ns[b] over the pairs. */
double nb_paired_ratio(const nb_paired_result *result, size_t a, size_t b);

double nb_median(double *values, size_t count); /* sorts them; NAN of none */

/* The median of what several processes found, with an interval from its order
 * statistics: it needs no assumption about how the noise is distributed. */
typedef struct nb_estimate {
    double median, low, high;
    double coverage; /* the chance that [low, high] holds the true median */
} nb_estimate;

/* The narrowest symmetric interval of at least 95 %, or smallest to largest
 * where that needs more values (six of them: 96.9 %). Sorts the values. */
nb_estimate nb_estimate_median(double *values, size_t count);

#endif
