/* SPDX-License-Identifier: Apache-2.0 */
#include "side.h"
#include "check.h"
#include "probe.h"
#include "topology.h"

#include <math.h>
#include <stdlib.h>

/* `copy` takes the rows that there are: what is copied to y may be h elsewhere,
 * or in a backward op dx (and dresidual), and x may be the residual. */
static void find_rows_to_copy(const nk_args *from, nk_args *to)
{
    void *const outputs[] = {from->y, from->h, from->dx, from->dresidual};
    void *found[4] = {NULL, NULL};
    for (size_t i = 0, count = 0; i < 4; i++)
        if (outputs[i])
            found[count++] = outputs[i];
    const bool both = from->x && from->residual && found[1];
    to->x = from->x ? from->x : from->residual;
    to->y = found[0];
    to->residual = both ? from->residual : NULL;
    to->h = both ? found[1] : NULL;
}

static void keep_operands(int op, const nk_args *from, nk_args *to)
{
    const uint32_t takes = nb_operands_all(op);
    *to = *from;
    for (int i = 0; i < NK_OPERANDS; i++)
        if (!(takes >> i & 1))
            nk_operand_set(to, i, NULL);
    if (op == NK_OP_copy)
        find_rows_to_copy(from, to);
    if (!(nk_ops[op].options & NK_TAKES_EPS))
        to->eps = 0;
    if (!(nk_ops[op].options & NK_TAKES_OFFSET))
        to->gamma_offset = 0;
    if (!(nk_ops[op].options & NK_TAKES_ALPHA))
        to->alpha = 0;
    if (!(nk_ops[op].options & NK_TAKES_FRACTION))
        to->fraction = 0;
}

/* All sides' own data lie alike within their pages: a store a few lines from the
 * rows modulo 4096 would tell equal kernels apart, by 1.5 % in L1. */
static void init_lane(nb_lane *lane, const nb_variant *variant, const nb_workspace *workspace,
                      size_t llc_bytes)
{
    const size_t sets = workspace->spec.sets;
    *lane = (nb_lane){.function = variant->kernel->function, .sets = sets};
    lane->args = nb_allocate_pages(sets * sizeof *lane->args);
    for (size_t i = 0; i < sets; i++) {
        keep_operands(variant->op, &workspace->args[i], &lane->args[i]);
        lane->args[i].llc_bytes = llc_bytes;
        lane->args[i].store_used = &lane->store_used;
    }
}

void nb_side_init(nb_side *side, const nb_variant *variant, nb_stage *stage)
{
    *side = (nb_side){.variant = variant, .stage = stage};
    side->lanes = nb_allocate_pages(stage->threads * sizeof *side->lanes);
    for (size_t i = 0; i < stage->threads; i++)
        init_lane(&side->lanes[i], variant, &stage->workspaces[i], stage->llc_bytes);
}

void nb_side_free(nb_side *side)
{
    for (size_t i = 0; side->lanes && i < side->stage->threads; i++)
        free(side->lanes[i].args);
    free(side->lanes);
    *side = (nb_side){0};
}

void nb_lane_call(nb_lane *lane, size_t set)
{
    const nk_status status = lane->function(&lane->args[set]);
    if (__builtin_expect(status != NK_OK, 0))
        lane->status = status;
}

typedef struct calls {
    nb_side *side;
    size_t count;
} calls;

/* Sides go on from where the last one stopped: on sets of its own each would find in
 * the caches what another has just left there. */
static void run_lane(void *context, size_t thread)
{
    const calls *c = context;
    nb_lane *lane = &c->side->lanes[thread];
    nb_workspace *workspace = &c->side->stage->workspaces[thread];
    size_t set = workspace->next;
    for (size_t i = 0; i < c->count; i++) {
        nb_lane_call(lane, set);
        set = set + 1 == lane->sets ? 0 : set + 1;
    }
    workspace->next = set;
}

void nb_side_run(void *side, size_t count)
{
    calls c = {side, count};
    nb_team_run(c.side->stage->team, run_lane, &c);
}

/* Blocks of rows that the checks look at, the first and the last rows among them. */
typedef struct sample {
    size_t blocks, rows; /* of a block */
    size_t apart;        /* from one block's first row to the next one's, but the last's */
    size_t last;         /* its first row */
} sample;

static sample sample_of(int op, const nk_args *args)
{
    enum { ELEMENTS = 1 << 17, BLOCKS = 8 };
    size_t rows = ELEMENTS / BLOCKS / args->hidden;
    rows = rows ? rows : 1;
    /* Sums over rows need all of them. */
    if (args->rows <= BLOCKS * rows || nk_op_is_backward(op))
        return (sample){.blocks = 1, .rows = args->rows};
    const size_t last = args->rows - rows;
    return (sample){.blocks = BLOCKS, .rows = rows, .apart = last / (BLOCKS - 1), .last = last};
}

static size_t first_row(const sample *s, size_t block)
{
    return block + 1 < s->blocks ? s->apart * block : s->last;
}

static void compare_some(const nb_side *side, const nk_args *args, nb_error *worst)
{
    const nb_variant *v = side->variant;
    const sample s = sample_of(v->op, args);
    for (size_t i = 0; i < s.blocks; i++)
        nb_compare_rows(v->op, v->dtype, args, first_row(&s, i), s.rows, worst);
}

void nb_side_clear(nb_side *side)
{
    for (size_t thread = 0; thread < side->stage->threads; thread++) {
        const sample s = sample_of(side->variant->op, &side->lanes[thread].args[0]);
        for (size_t i = 0; i < s.blocks; i++)
            nb_workspace_clear_rows(&side->stage->workspaces[thread], 0, first_row(&s, i), s.rows);
    }
}

nk_status nb_side_status(const nb_side *side)
{
    nk_status status = NK_OK;
    for (size_t i = 0; i < side->stage->threads && status == NK_OK; i++)
        status = side->lanes[i].status;
    return status;
}

char *nb_side_prove(nb_side *side)
{
    for (size_t i = 0; i < side->stage->threads; i++) {
        const nk_status status = nb_call_kernel(side->variant, &side->lanes[i].args[0]);
        if (status != NK_OK)
            return nb_call_failure(side->variant, status);
    }
    return NULL;
}

static void call_together(nb_side *side)
{
    nb_side_clear(side);
    nb_stage_rewind(side->stage);
    const double start = nb_now_ns();
    nb_side_run(side, 1);
    side->call_ns = nb_now_ns() - start;
}

char *nb_side_check(nb_side *side)
{
    const bool foreign = side->variant->provider->foreign;
    if (foreign && nb_side_status(side) == NK_OK) {
        nb_side_clear(side);
        char *wrong = nb_side_prove(side);
        if (wrong)
            return wrong;
    }
    if (!foreign || side->stage->threads > 1)
        call_together(side);
    return nb_side_compare(side);
}

char *nb_side_compare(nb_side *side)
{
    if (nb_side_status(side) != NK_OK)
        return nb_call_failure(side->variant, nb_side_status(side));
    nb_error worst = {.operand = -1};
    for (size_t i = 0; i < side->stage->threads; i++) {
        nb_error found = {.operand = -1};
        compare_some(side, &side->lanes[i].args[0], &found);
        found.row += side->stage->workspaces[i].spec.first_row;
        if (worst.operand < 0 || !(found.u <= worst.u))
            worst = found;
    }
    side->error_u = worst.u > side->error_u ? worst.u : side->error_u;
    if (worst.operand >= 0 && worst.u <= nb_bound(side->variant, side->stage->spec.hidden))
        return NULL;
    return worst.operand < 0 ? nb_duplicate("nothing to compare") : nb_error_text(&worst);
}

double nb_side_bytes(const nb_side *side)
{
    double bytes = 0;
    for (size_t i = 0; i < side->stage->threads; i++)
        bytes +=
            (double)nk_call_bytes(side->variant->op, side->variant->dtype, &side->lanes[i].args[0]);
    return bytes;
}

double nb_side_flops(const nb_side *side)
{
    double flops = side->variant->algorithm ? 0 : NAN;
    for (size_t i = 0; i < side->stage->threads && side->variant->algorithm; i++)
        flops += nk_call_flops(side->variant->algorithm, &side->lanes[i].args[0]);
    return flops;
}
