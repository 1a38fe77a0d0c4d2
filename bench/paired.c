/* SPDX-License-Identifier: Apache-2.0 */
#include "paired.h"

#include <math.h>
#include <stdlib.h>

enum { ROUNDS = 2048 }; /* a pair has at most */
enum { UNTIMED = 3 };   /* calls before those that are timed */

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double nb_median(double *values, size_t count)
{
    if (count == 0)
        return NAN;
    qsort(values, count, sizeof *values, compare_doubles);
    const size_t middle = count / 2;
    return count % 2 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

/* The chance that fewer than `k` of `n` values lie below the median. */
static double binomial_tail(size_t n, size_t k)
{
    double term = pow(0.5, (double)n), sum = 0;
    for (size_t i = 0; i < k; i++) {
        sum += term;
        term *= (double)(n - i) / (double)(i + 1);
    }
    return sum;
}

nb_estimate nb_estimate_median(double *values, size_t count)
{
    if (count == 0)
        return (nb_estimate){NAN, NAN, NAN, 0};
    const double median = nb_median(values, count);
    size_t k = 1; /* the interval runs from the k-th smallest to the k-th largest */
    while (k < count / 2 && 1 - 2 * binomial_tail(count, k + 1) >= 0.95)
        k++;
    const double coverage = fmax(0, 1 - 2 * binomial_tail(count, k));
    return (nb_estimate){median, values[k - 1], values[count - k], coverage};
}

/* Each participant leaves the caches in a state of its own, which the next one pays for
 * until its calls have made them theirs: the first of them are not timed. A batch of
 * one call is of operands that no cache near holds. */
static double time_batch(const nb_paired *plan, size_t participant, size_t calls)
{
    const nb_participant p = plan->participants[participant];
    if (calls > 1)
        p.run(p.context, UNTIMED);
    const double start = plan->now_ns();
    p.run(p.context, calls);
    return plan->now_ns() - start;
}

/* The shortest of a few tries: the first calls are the ones that warm the caches and
 * wake threads, and an interrupt may hit any. A long batch is tried once. */
static double try_batch(const nb_paired *plan, size_t participant, size_t calls)
{
    enum { TRIES = 5, LONG_NS = 1000000 };
    double best = time_batch(plan, participant, calls);
    for (int i = 1; i < TRIES && best >= plan->batch_ns / 2 && best < LONG_NS; i++)
        best = fmin(best, time_batch(plan, participant, calls));
    return best;
}

/* Calls for a batch to last batch_ns: doubles until the time is long enough to be
 * trusted. */
static size_t calibrate(const nb_paired *plan, size_t participant)
{
    if (plan->participants[participant].call_ns >= plan->batch_ns)
        return 1;
    for (size_t calls = 1;; calls *= 2) {
        const double ns = try_batch(plan, participant, calls);
        if (ns < plan->batch_ns / 2)
            continue;
        const double scaled = (double)calls * plan->batch_ns / ns;
        return scaled < 1 ? 1 : (size_t)(scaled + 0.5);
    }
}

/* One palindrome; writes each participant's time of one call. */
static void run_round(const nb_paired *plan, const size_t *batch, double *call_ns)
{
    for (size_t i = 0; i < plan->count; i++)
        call_ns[i] = time_batch(plan, i, batch[i]);
    for (size_t i = plan->count; i-- > 0;)
        call_ns[i] = (call_ns[i] + time_batch(plan, i, batch[i])) / (2.0 * (double)batch[i]);
}

void nb_paired_measure(const nb_paired *plan, nb_paired_result *result)
{
    *result = (nb_paired_result){.count = plan->count};
    for (size_t i = 0; i < plan->count; i++)
        result->batch[i] = calibrate(plan, i);

    static double rounds[NB_PARTICIPANTS][ROUNDS];
    const double start = plan->now_ns();
    for (size_t pair = 0; pair < plan->pairs; pair++) {
        const double end = start + plan->budget_ns * (double)(pair + 1) / (double)plan->pairs;
        if (pair > 0 && plan->now_ns() >= end)
            continue; /* a single round took this pair's time too */
        size_t n = 0;
        do {
            double call_ns[NB_PARTICIPANTS];
            run_round(plan, result->batch, call_ns);
            for (size_t i = 0; i < plan->count; i++)
                rounds[i][n] = call_ns[i];
            n++;
        } while (n < ROUNDS && plan->now_ns() < end);
        for (size_t i = 0; i < plan->count; i++)
            result->time_ns[result->pairs][i] = nb_median(rounds[i], n);
        result->rounds[result->pairs++] = n;
    }
}

double nb_paired_ratio(const nb_paired_result *result, size_t a, size_t b)
{
    double ratios[NB_PAIRS];
    for (size_t i = 0; i < result->pairs; i++)
        ratios[i] = result->time_ns[i][a] / result->time_ns[i][b];
    return nb_median(ratios, result->pairs);
}
