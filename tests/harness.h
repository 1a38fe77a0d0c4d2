/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel tests share: the provider under test, problems (an op's
 * inputs and what is right), layouts (where the operands lie), and results.
 * Every kernel runs between guard pages, and everything around its operands is
 * checked afterwards. Nothing here knows an op by name. */
#ifndef NORMBENCH_TESTS_HARNESS_H
#define NORMBENCH_TESTS_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "reference.h"
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define BIT(operand) (1u << (operand))

/* ---- The provider, and which of its kernels are tested ------------------- */

/* Reads `PROVIDER.so [--test=NAME] [--kernel=] [--algorithm=] [--dtype=]
 * [--isa=] [--rows=] [--hidden=] [--seed=]`, loads the provider; exits on wrong
 * usage. Returns the provider. */
const nk_provider *harness_start(int argc, char **argv);

/* The exit status: failures of cmocka, or nothing that was selected was there. */
int harness_end(int failed);

bool harness_filtered(void);
uint64_t harness_seed(void);

/* The algorithm `default` of an op that runs on the same ISA and dtype. */
const nk_kernel *kernel_like(const nk_kernel *kernel, const char *op);
bool kernel_exercised(const nk_kernel *kernel);
bool kernel_is_default(const nk_kernel *kernel);
const char *status_text(nk_status status);

/* Each test starts with the one and ends with the other, which fails it if
 * anything was reported in between. */
void test_begin(const char *name);
void test_end(void);

/* ---- Problems ------------------------------------------------------------ */

typedef struct problem {
    int op;
    nk_dtype dtype;
    size_t rows, hidden;
    float eps, alpha, gamma_offset, fraction;
    uint32_t flags;
    uint32_t present;               /* operands given, a mask */
    unsigned char *in[NK_OPERANDS]; /* dense */
    nk_expected expected[NK_OPERANDS];
} problem;

/* N(0,1) rows, gamma about 1, beta about 0, every operand given. */
problem *problem_new(int op, nk_dtype dtype, size_t rows, size_t hidden);
void problem_free(problem *p);
/* One test of every op and dtype of the catalogue, in all of these rows and
 * hidden sizes (0 ends each list), as far as they are selected.
 * NORMBENCH_TEST_SCALE=small leaves out the larger ones, for emulated CPUs. */
void each_problem(void (*check)(problem *p), const size_t *some_rows, const size_t *some_hidden);
/* The kernels of the problem's op and dtype that run here and are selected, one
 * after another; NULL ends. */
const nk_kernel *kernel_next(const problem *p, const nk_kernel *previous);
/* Sets what is right from the operands as they now are. */
void problem_expect(problem *p);

bool problem_takes(const problem *p, int operand);
bool problem_gives(const problem *p, int operand); /* an output that is wanted */
float problem_get(const problem *p, int operand, size_t i);
void problem_set(problem *p, int operand, size_t i, float value);
/* After gamma and beta were changed to or from float. */
void problem_set_flags(problem *p, uint32_t flags);
/* The operand that rows of odd kinds go into: x, or residual where the op takes no x. */
int problem_main_input(const problem *p);
/* Backward: statistics as the forward pass would have written them. */
void problem_true_statistics(problem *p);
/* A choice of optional operands, flags and scalars that the op takes. */
void problem_vary(problem *p, uint64_t choice);

/* ---- Layouts and runs ----------------------------------------------------- */

typedef struct layout {
    size_t first, rows;        /* only these rows; 0 rows is all of them */
    size_t pad[NK_OPERANDS];   /* elements between rows */
    size_t shift[NK_OPERANDS]; /* elements away from the guard page */
    bool at_end;               /* before the upper guard page, not after the lower one */
    int alias[NK_OPERANDS];    /* 1 + the input that this output lies on; 0: none */
    uint32_t store;
    size_t llc_bytes;
} layout;

typedef struct result {
    const nk_kernel *kernel;
    size_t first, rows;
    uint32_t store_used;
    unsigned char *out[NK_OPERANDS]; /* dense; NULL where not wanted */
} result;

/* Places the operands, inputs filled, everything else poisoned. */
void layout_place(const problem *p, const layout *l, nk_args *args);
/* Whether everything but the outputs is as it was placed, else the operand that is not. */
bool layout_intact(const problem *p, const layout *l, bool outputs_written, int *operand);

/* Places, runs, reports what should not have been touched, collects outputs. */
void run(const nk_kernel *kernel, const problem *p, const layout *l, result *r);
void result_free(result *r);

/* Report what is wrong by the oracle, or where the rows that both results have
 * (in the problem's numbering) are not the same bits. */
void check_result(const problem *p, const result *r);
void check_same(const problem *p, const result *a, const result *b, const char *what);

/* Named by reports, if set: what is odd about the rows. */
extern const char *row_name;

/* Reports one failure of a kernel, with the command that repeats it. */
__attribute__((format(printf, 3, 4))) void report(const nk_kernel *kernel, const problem *p,
                                                  const char *format, ...);

/* ---- Numbers -------------------------------------------------------------- */

uint64_t mix(uint64_t a, uint64_t b); /* a hash */
float normal(uint64_t stream, size_t i);

/* A kind of row that ordinary tests never meet. */
typedef struct row_kind {
    const char *name;
    void (*fill)(float *v, size_t n, float a, float b, uint64_t seed);
    float a, b;
} row_kind;
extern const row_kind row_kinds[];
extern const size_t row_kind_count;

#endif
