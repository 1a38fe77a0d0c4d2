/* SPDX-License-Identifier: Apache-2.0 */
#include "stage.h"
#include "program.h"

#include <stdlib.h>

typedef struct creation {
    nb_stage *stage;
    int *status; /* [threads] */
} creation;

static void create_share(void *context, size_t thread)
{
    const creation *c = context;
    const nb_workspace_spec share = nb_workspace_share(&c->stage->spec, c->stage->threads, thread);
    c->status[thread] = nb_workspace_create(&c->stage->workspaces[thread], &share);
}

int nb_stage_open(nb_stage *stage, const nb_workspace_spec *spec, const int *cpus, size_t threads,
                  size_t llc_bytes)
{
    *stage = (nb_stage){.spec = *spec, .threads = threads, .llc_bytes = llc_bytes};
    stage->team = nb_team_start(cpus, threads);
    if (!stage->team)
        return NB_MACHINE;
    creation c = {stage, nb_allocate(threads * sizeof *c.status)};
    stage->workspaces = nb_allocate(threads * sizeof *stage->workspaces);
    nb_team_run(stage->team, create_share, &c);
    int status = NB_OK;
    for (size_t i = 0; i < threads; i++)
        status = status == NB_OK ? c.status[i] : status;
    free(c.status);
    return status;
}

void nb_stage_close(nb_stage *stage)
{
    for (size_t i = 0; stage->workspaces && i < stage->threads; i++)
        nb_workspace_free(&stage->workspaces[i]);
    free(stage->workspaces);
    nb_team_stop(stage->team);
    *stage = (nb_stage){0};
}

void nb_stage_rewind(nb_stage *stage)
{
    for (size_t i = 0; i < stage->threads; i++)
        stage->workspaces[i].next = 0;
}

size_t nb_stage_bytes(const nb_workspace_spec *spec, size_t threads)
{
    size_t bytes = 0;
    for (size_t i = 0; i < threads; i++) {
        const nb_workspace_spec share = nb_workspace_share(spec, threads, i);
        bytes += nb_workspace_bytes(&share) * (spec->sets ? spec->sets : 1);
    }
    return bytes;
}
