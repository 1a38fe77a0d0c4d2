/* SPDX-License-Identifier: Apache-2.0 */
/* A variant on a workspace, against the oracle. */
#ifndef NB_CHECK_H
#define NB_CHECK_H

#include "cells.h"
#include "workspace.h"

/* Bounds in u = 2^-23 of the promise's scale: for our default algorithm, for
 * everything that is timed, and none for other algorithms on rows of a few
 * elements (nk_error_bound). */
enum { NB_BOUND_DEFAULT = 8, NB_BOUND_TIMED = 64 };
double nb_bound(const nb_variant *variant, size_t hidden);

/* The largest error found, and where. */
typedef struct nb_error {
    double u;    /* INFINITY where a NaN or an infinity is wrong */
    int operand; /* NK_OPERAND_..., -1 where nothing was compared */
    size_t row;
    size_t column;
    double got;
    double expected;
} nb_error;

/* Compares the outputs that are there with the oracle, all rows. The inputs
 * must be those of the call: not for calls in place. */
void nb_compare(int op, nk_dtype dtype, const nk_args *args, nb_error *worst);

/* The same for some rows only; `worst`, whose operand is -1 at first, keeps the
 * worst of several calls. */
void nb_compare_rows(int op, nk_dtype dtype, const nk_args *args, size_t first, size_t rows,
                     nb_error *worst);

/* Clears the outputs of a set, calls, compares. NB_OK when the error was
 * found, however large; NB_FAILED after a message if the kernel refused, crashed
 * or hung. */
int nb_check_variant(const nb_variant *variant, nb_workspace *workspace, size_t set,
                     nb_error *worst);

/* "y[3, 17] is 1.25, should be 1.5: 2.1e+06 u"; to be freed. */
char *nb_error_text(const nb_error *error);

#endif
