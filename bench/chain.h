/* SPDX-License-Identifier: Apache-2.0 */
/* What a fused kernel takes the place of: the chain of plain kernels of the
 * same provider, dtype and ISA, on the same operands. */
#ifndef NB_CHAIN_H
#define NB_CHAIN_H

#include "side.h"

enum { NB_LINKS = 3 };

/* The name of the chain where a kernel has that of its algorithm. */
extern const char nb_unfused[];

typedef struct nb_chain_plan {
    size_t count; /* of links; 0: there is no such chain */
    nb_variant links[NB_LINKS];
    bool scratch;  /* it needs nb_workspace_spec.scratch */
    char *missing; /* why there is none, of a fused kernel; NULL of others */
} nb_chain_plan;

/* The chain of a fused kernel's algorithm `default`. */
void nb_chain_find(const nb_variant *variant, nb_chain_plan *plan);
void nb_chain_plan_free(nb_chain_plan *plan);

typedef struct nb_chain {
    size_t count;
    nb_side fused; /* whose outputs the chain must write */
    nb_side links[NB_LINKS];
} nb_chain;

void nb_chain_init(nb_chain *chain, const nb_variant *fused, const nb_chain_plan *plan,
                   nb_stage *stage);
void nb_chain_free(nb_chain *chain);

/* As nb_side_run, nb_side_check and what follows them. The bound is that of
 * the fused kernel. */
void nb_chain_run(void *chain, size_t calls);
char *nb_chain_check(nb_chain *chain);
double nb_chain_bytes(const nb_chain *chain);
double nb_chain_flops(const nb_chain *chain);

#endif
