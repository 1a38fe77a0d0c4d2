/* SPDX-License-Identifier: Apache-2.0 */
/* The operands of a call, in one mapped arena.
 *
 * Each begins at an offset within a page of its own, fixed by its role: where
 * y lies a few lines ahead of x modulo 4096, each load of x looks like one of
 * the stores just made and waits (up to 1.5 times slower). Inputs therefore lie
 * in the first half of a page, outputs in the second. */
#ifndef NB_WORKSPACE_H
#define NB_WORKSPACE_H

#include "catalog.h"
#include <pthread.h>
#include <stdbool.h>

/* What the rows of x (and residual, dy, dh) are like. */
enum nb_row_kind {
    NB_ROWS_NORMAL,      /* N(0, 1), as near as speed allows */
    NB_ROWS_MEAN,        /* a mean far above the deviation */
    NB_ROWS_CONSTANT,    /* one value throughout */
    NB_ROWS_ALTERNATING, /* +a -a +a -a */
    NB_ROWS_OUTLIER,     /* one element far above the rest */
    NB_ROWS_TINY,        /* squares vanish in f32 */
    NB_ROWS_SUBNORMAL,
    NB_ROWS_HUGE, /* squares overflow in f32 */
    NB_ROWS_ZERO,
    NB_ROWS_INFINITY, /* every other row holds an infinity, */
    NB_ROWS_NAN,      /* or a NaN */
    NB_ROW_KINDS
};
extern const char *const nb_row_kind_names[NB_ROW_KINDS];

typedef struct nb_workspace_spec {
    int op;
    nk_dtype dtype;
    size_t rows;
    size_t first_row; /* of a larger workspace whose rows these are, of one thread among several */
    size_t hidden;
    uint32_t operands; /* mask of 1 << NK_OPERAND_...; 0: nb_operands_usual */
    uint32_t flags;    /* nk_args.flags */
    float eps;
    float gamma_offset;
    enum nb_row_kind kind;
    uint64_t seed;
    size_t sets;   /* of operands, for mode rotate; 0 is 1 */
    bool scratch;  /* rows between two kernels of a chain, beside the operands */
    bool unshared; /* no stranger's kernel writes them, in a child: such pages cost a third less */
} nb_workspace_spec;

typedef struct nb_workspace {
    nb_workspace_spec spec; /* operands and sets filled in */
    nk_args *args;          /* [sets], ready for a kernel */
    size_t next;            /* the set of the next call, by whichever side */
    size_t set_bytes;       /* of one set's operands: the working set */
    void *scratch;          /* one for all sets, as a chain would use it; NULL: none */
    unsigned char *arena;
    size_t arena_bytes;
    pthread_t thread; /* that mapped it */
} nb_workspace;

/* The next of a stream of random numbers; any state begins one. */
uint64_t nb_random(uint64_t *state);

/* The operands that a call usually has: the required ones, parameters and h;
 * no statistics. */
uint32_t nb_operands_usual(int op);
/* All that the op can take. */
uint32_t nb_operands_all(int op);

/* The rows of one of several threads, as even as can be: they hold the numbers
 * that those rows of the whole would. */
nb_workspace_spec nb_workspace_share(const nb_workspace_spec *whole, size_t threads, size_t thread);

/* Bytes of one set's operands, without mapping anything; 0 if that overflows. */
size_t nb_workspace_bytes(const nb_workspace_spec *spec);
/* Bytes of the scratch rows. */
size_t nb_workspace_scratch_bytes(const nb_workspace_spec *spec);

/* Maps and fills. The same seed gives the same numbers, whatever the variant;
 * inputs are never zero (but for NB_ROWS_ZERO); outputs are touched. NB_OK, or
 * NB_MACHINE after a message. */
int nb_workspace_create(nb_workspace *workspace, const nb_workspace_spec *spec);
void nb_workspace_free(nb_workspace *workspace);

/* Fills every output and the scratch rows with a NaN that no kernel writes by
 * itself, and sums with zeros: what a kernel leaves out is then seen. */
void nb_workspace_clear_outputs(nb_workspace *workspace, size_t set);
/* The same of some rows only; sums over rows whole. */
void nb_workspace_clear_rows(nb_workspace *workspace, size_t set, size_t first, size_t rows);

#endif
