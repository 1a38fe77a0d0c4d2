/* SPDX-License-Identifier: Apache-2.0 */
#include "chain.h"
#include "probe.h"
#include "program.h"

#include <stdlib.h>
#include <string.h>

const char nb_unfused[] = "unfused";

/* ---- What chains there are ---------------------------------------------- */

/* A link finds the fused call's operands under their own names, but for these:
 * its operand `to` is the fused call's `from`, or the scratch rows. One that is
 * zero moves nothing. */
enum { SCRATCH = NK_OPERANDS, MOVES = 2 };
typedef struct move {
    int to, from;
} move;

/* A chain is the links of a fused op, in order. */
static const struct link {
    int fused, plain;
    move moves[MOVES];
} links[] = {
#define MOVE(to, from)                                                                             \
    {                                                                                              \
        NK_OPERAND_##to, from                                                                      \
    }
    {NK_OP_add_layernorm, NK_OP_residual_add, {{0}}},
    {NK_OP_add_layernorm, NK_OP_layernorm, {MOVE(X, NK_OPERAND_H)}},
    {NK_OP_add_rmsnorm, NK_OP_residual_add, {{0}}},
    {NK_OP_add_rmsnorm, NK_OP_rmsnorm, {MOVE(X, NK_OPERAND_H)}},
    {NK_OP_rmsnorm_add, NK_OP_rmsnorm, {MOVE(X, NK_OPERAND_RESIDUAL), MOVE(Y, SCRATCH)}},
    {NK_OP_rmsnorm_add, NK_OP_residual_add, {MOVE(RESIDUAL, SCRATCH)}},
    {NK_OP_rmsnorm_add_rmsnorm, NK_OP_rmsnorm, {MOVE(X, NK_OPERAND_RESIDUAL), MOVE(Y, SCRATCH)}},
    {NK_OP_rmsnorm_add_rmsnorm, NK_OP_residual_add, {MOVE(RESIDUAL, SCRATCH)}},
    {NK_OP_rmsnorm_add_rmsnorm,
     NK_OP_rmsnorm,
     {MOVE(X, NK_OPERAND_H), MOVE(GAMMA, NK_OPERAND_GAMMA2)}},
#undef MOVE
};
enum { ALL_LINKS = sizeof links / sizeof links[0] };

/* Fused ops that no chain of ours makes up. */
static const char *const chainless[NK_OPS] = {
    [NK_OP_deepnorm] = "there is no plain kernel that multiplies x by alpha"};

static bool find_plain(const nb_variant *fused, int op, nb_variant *plain)
{
    const nk_provider *table = fused->provider->table;
    for (size_t i = 0; i < table->count; i++) {
        const nk_kernel *k = &table->kernels[i];
        if (strcmp(k->op, nk_ops[op].name) == 0 && strcmp(k->algorithm, "default") == 0 &&
            strcmp(k->dtype, fused->kernel->dtype) == 0 &&
            strcmp(k->isa, fused->kernel->isa) == 0 && !k->unavailable)
            return nb_variant_of(fused->provider, k, plain);
    }
    return false;
}

void nb_chain_find(const nb_variant *fused, nb_chain_plan *plan)
{
    *plan = (nb_chain_plan){0};
    if (strcmp(fused->kernel->algorithm, "default") != 0)
        return;
    if (chainless[fused->op])
        plan->missing = nb_duplicate(chainless[fused->op]);
    for (size_t i = 0; i < ALL_LINKS && !plan->missing; i++) {
        if (links[i].fused != fused->op)
            continue;
        if (!find_plain(fused, links[i].plain, &plan->links[plan->count++]))
            plan->missing =
                nb_format("%s has no %s", fused->provider->label, nk_ops[links[i].plain].name);
        for (size_t m = 0; m < MOVES; m++)
            plan->scratch |= links[i].moves[m].from == SCRATCH;
    }
    if (plan->missing)
        plan->count = 0;
}

void nb_chain_plan_free(nb_chain_plan *plan)
{
    free(plan->missing);
    *plan = (nb_chain_plan){0};
}

/* ---- A chain on a workspace --------------------------------------------- */

static void move_operands(const struct link *link, const nb_workspace *workspace, nb_lane *lane)
{
    for (size_t set = 0; set < lane->sets; set++)
        for (size_t m = 0; m < MOVES; m++) {
            const move *moved = &link->moves[m];
            if (moved->to == moved->from)
                continue;
            nk_operand_set(&lane->args[set], moved->to,
                           moved->from == SCRATCH
                               ? workspace->scratch
                               : nk_operand_get(&workspace->args[set], moved->from));
        }
}

void nb_chain_init(nb_chain *chain, const nb_variant *fused, const nb_chain_plan *plan,
                   nb_stage *stage)
{
    *chain = (nb_chain){0};
    nb_side_init(&chain->fused, fused, stage);
    for (size_t i = 0; i < ALL_LINKS; i++) {
        if (links[i].fused != fused->op)
            continue;
        nb_side *side = &chain->links[chain->count];
        nb_side_init(side, &plan->links[chain->count++], stage);
        for (size_t thread = 0; thread < stage->threads; thread++)
            move_operands(&links[i], &stage->workspaces[thread], &side->lanes[thread]);
    }
}

void nb_chain_free(nb_chain *chain)
{
    for (size_t i = 0; i < chain->count; i++)
        nb_side_free(&chain->links[i]);
    nb_side_free(&chain->fused);
    *chain = (nb_chain){0};
}

typedef struct calls {
    nb_chain *chain;
    size_t count;
} calls;

static void run_lanes(void *context, size_t thread)
{
    const calls *c = context;
    nb_workspace *workspace = &c->chain->fused.stage->workspaces[thread];
    for (size_t call = 0; call < c->count; call++) {
        const size_t set = workspace->next;
        for (size_t i = 0; i < c->chain->count; i++)
            nb_lane_call(&c->chain->links[i].lanes[thread], set);
        workspace->next = set + 1 == workspace->spec.sets ? 0 : set + 1;
    }
}

void nb_chain_run(void *chain, size_t count)
{
    calls c = {chain, count};
    nb_team_run(c.chain->fused.stage->team, run_lanes, &c);
}

static char *prove(nb_chain *chain)
{
    for (size_t i = 0; i < chain->count; i++) {
        nb_side *link = &chain->links[i];
        const nk_status status = nb_side_status(link);
        char *failure = status ? nb_call_failure(link->variant, status) : nb_side_prove(link);
        if (failure) {
            char *text = nb_format("%s %s", link->variant->kernel->op, failure);
            free(failure);
            return text;
        }
    }
    return NULL;
}

/* All threads at once, each on its first set. */
static void call_together(nb_chain *chain)
{
    nb_stage_rewind(chain->fused.stage);
    nb_chain_run(chain, 1);
}

char *nb_chain_check(nb_chain *chain)
{
    nb_stage *stage = chain->fused.stage;
    nb_side_clear(&chain->fused);
    char *wrong = prove(chain);
    if (!wrong && stage->threads > 1) {
        nb_side_clear(&chain->fused);
        call_together(chain);
    }
    return wrong ? wrong : nb_side_compare(&chain->fused);
}

double nb_chain_bytes(const nb_chain *chain)
{
    double sum = 0;
    for (size_t i = 0; i < chain->count; i++)
        sum += nb_side_bytes(&chain->links[i]);
    return sum;
}

double nb_chain_flops(const nb_chain *chain)
{
    double sum = 0;
    for (size_t i = 0; i < chain->count; i++)
        sum += nb_side_flops(&chain->links[i]);
    return sum;
}
