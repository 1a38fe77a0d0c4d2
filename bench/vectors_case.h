/* SPDX-License-Identifier: Apache-2.0 */
/* One case of `verify --vectors`: a folder with case.json, which names an op, a
 * shape, inputs and what is expected, and with the arrays as .npy. */
#ifndef NB_VECTORS_CASE_H
#define NB_VECTORS_CASE_H

#include "cells.h"
#include "npy.h"

#include <cjson/cJSON.h>

/* What was left undone, by its reason. */
typedef struct vector_skip {
    char *reason;
    size_t count;
} vector_skip;

/* What cases are read for; it counts what it has to skip. */
typedef struct vector_reader {
    const char *folder; /* of all cases */
    const nb_options *options;
    const nb_variants *variants; /* an op and dtype that none of them has is skipped */
    vector_skip *skips;
    size_t skip_count;
} vector_reader;

typedef struct vector_expectation {
    nb_npy array;
    double atol;
    double rtol;
    double *scale; /* of the promise, by the oracle: what u is measured in */
} vector_expectation;

/* One case.json, its arrays read as far as an op here takes them. */
typedef struct vector_case {
    const char *name;
    int op;
    int backward; /* the op that dy asks for; -1 if there is none */
    nk_dtype dtype;
    size_t rows;
    size_t hidden;
    nk_args scalars; /* eps, alpha, ... and flags */
    nb_npy input[NK_OPERANDS];
    vector_expectation output[NK_OPERANDS];
    /* For reading it. */
    char *path; /* of the folder */
    cJSON *json;
    const cJSON *inputs;
    const cJSON *expected;
    const char *op_name;
} vector_case;

/* How reading a case ended: BAD is after a message. */
enum vector_outcome { VECTOR_READ, VECTOR_SKIPPED, VECTOR_FILTERED, VECTOR_BAD };

/* Reads a case of the folder; to be freed whatever the outcome. */
enum vector_outcome nb_vector_read(vector_reader *r, const char *name, vector_case *c);
void nb_vector_free(vector_case *c);
void nb_vector_reader_free(vector_reader *r);

/* Whether the case gives this operand to this op, or says what it should be. */
bool nb_vector_has_input(const vector_case *c, int op, int operand);
bool nb_vector_has_output(const vector_case *c, int op, int operand);

#endif
