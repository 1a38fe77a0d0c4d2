/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep.h"
#include "interrupt.h"
#include "program.h"
#include "progress.h"
#include "workspace.h"

#include <stdlib.h>

size_t *nb_shuffled(size_t count, unsigned long long seed)
{
    size_t *order = nb_allocate(count * sizeof *order);
    uint64_t state = seed;
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    for (size_t i = count; i > 1; i--) {
        const size_t j = (size_t)(nb_random(&state) % i);
        const size_t kept = order[i - 1];
        order[i - 1] = order[j];
        order[j] = kept;
    }
    return order;
}

static int run_round(const nb_sweep *s, size_t round, nb_progress *progress)
{
    size_t *order = nb_shuffled(s->count, s->seed + round);
    int status = NB_OK;
    for (size_t i = 0; i < s->count && status == NB_OK; i++) {
        char name[NB_NAME_BYTES];
        nb_progress_step(progress, s->name(s->context, order[i], name));
        status = s->measure(s->context, order[i], round);
        if (nb_interrupted)
            status = NB_INTERRUPTED;
    }
    free(order);
    return status;
}

int nb_sweep_run(const nb_sweep *s)
{
    nb_progress progress;
    nb_progress_start(&progress, s->count * s->rounds);
    int status = NB_OK;
    for (size_t round = s->first; round < s->first + s->rounds && status == NB_OK; round++)
        status = run_round(s, round, &progress);
    nb_progress_clear(&progress);
    if (status == NB_INTERRUPTED)
        nb_fail(status, "interrupted%s%s", s->out ? "; what is finished stays in " : "",
                s->out ? s->out : "");
    return status;
}
