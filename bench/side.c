/* SPDX-License-Identifier: Apache-2.0 */
#include "side.h"
#include "check.h"
#include "probe.h"
#include "program.h"

#include <math.h>
#include <stdlib.h>

/* Some ops have y, some h, as their only row output: `copy` writes to either. */
static void keep_operands(int op, const nk_args *from, nk_args *to)
{
    const uint32_t takes = nb_operands_all(op);
    *to = *from;
    for (int i = 0; i < NK_OPERANDS; i++)
        if (!(takes >> i & 1))
            nk_operand_set(to, i, NULL);
    if ((nk_ops[op].required >> NK_OPERAND_Y & 1) && !to->y) {
        to->y = to->h;
        to->h = NULL;
    }
    if (!(nk_ops[op].required >> NK_OPERAND_RESIDUAL & 1) && !to->h)
        to->residual = NULL;
    if (!(nk_ops[op].options & NK_TAKES_EPS))
        to->eps = 0;
    if (!(nk_ops[op].options & NK_TAKES_OFFSET))
        to->gamma_offset = 0;
    if (!(nk_ops[op].options & NK_TAKES_ALPHA))
        to->alpha = 0;
    if (!(nk_ops[op].options & NK_TAKES_FRACTION))
        to->fraction = 0;
}

void nb_side_init(nb_side *side, const nb_variant *variant, const nb_workspace *workspace,
                  size_t llc_bytes)
{
    const size_t sets = workspace->spec.sets;
    *side = (nb_side){.variant = variant, .sets = sets};
    side->args = nb_allocate(sets * sizeof *side->args);
    for (size_t i = 0; i < sets; i++) {
        keep_operands(variant->op, &workspace->args[i], &side->args[i]);
        side->args[i].llc_bytes = llc_bytes;
        side->args[i].store_used = &side->store_used;
    }
}

void nb_side_free(nb_side *side)
{
    free(side->args);
    *side = (nb_side){0};
}

void nb_side_call(void *context)
{
    nb_side *side = context;
    const nk_status status = side->variant->kernel->function(&side->args[side->next]);
    if (__builtin_expect(status != NK_OK, 0))
        side->status = status;
    side->next = side->next + 1 == side->sets ? 0 : side->next + 1;
}

static void compare_some(const nb_side *side, const nk_args *args, nb_error *worst)
{
    enum { ELEMENTS = 1 << 18, BLOCKS = 8 };
    const nb_variant *v = side->variant;
    size_t block = ELEMENTS / BLOCKS / args->hidden;
    block = block ? block : 1;
    /* Sums over rows need all of them. */
    if (args->rows <= BLOCKS * block || nk_op_is_backward(v->op)) {
        nb_compare(v->op, v->dtype, args, worst);
        return;
    }
    const size_t last = args->rows - block;
    for (size_t i = 0; i < BLOCKS; i++) {
        const size_t first = i + 1 < BLOCKS ? last / (BLOCKS - 1) * i : last;
        nb_compare_rows(v->op, v->dtype, args, first, block, worst);
    }
}

char *nb_side_check(nb_side *side, nb_workspace *workspace)
{
    const nb_variant *v = side->variant;
    nb_workspace_clear_outputs(workspace, 0);
    const nk_status status = side->status ? side->status : nb_call_kernel(v, &side->args[0]);
    if (status != NK_OK)
        return nb_call_failure(v, status);
    return nb_side_compare(side);
}

char *nb_side_compare(nb_side *side)
{
    nb_error worst = {.operand = -1};
    compare_some(side, &side->args[0], &worst);
    side->error_u = worst.u > side->error_u ? worst.u : side->error_u;
    if (worst.operand >= 0 && worst.u <= nb_bound(side->variant, side->args[0].hidden))
        return NULL;
    return worst.operand < 0 ? nb_duplicate("nothing to compare") : nb_error_text(&worst);
}

double nb_side_bytes(const nb_side *side)
{
    return (double)nk_call_bytes(side->variant->op, side->variant->dtype, &side->args[0]);
}

double nb_side_flops(const nb_side *side)
{
    return side->variant->algorithm ? nk_call_flops(side->variant->algorithm, &side->args[0]) : NAN;
}
