/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel tests share: the provider under test, which of its kernels
 * and problems are tested, and reports. Problems are made in problem.h, laid
 * out in layout.h, run and checked in result.h. */
#ifndef NORMBENCH_TESTS_HARNESS_H
#define NORMBENCH_TESTS_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "problem.h"
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define BIT(operand) (1u << (operand))

/* ---- The provider, and which of its kernels are tested ------------------- */

/* Reads `PROVIDER.so [--test=NAME] [--kernel=] [--algorithm=] [--dtype=]
 * [--isa=] [--rows=] [--hidden=] [--seed=] [--needs=]`, loads the provider; exits on
 * wrong usage. Returns the provider. */
const nk_provider *harness_start(int argc, char **argv);

/* The exit status: failures of cmocka, or nothing that was selected was there. */
int harness_end(int failed);

bool harness_filtered(void);
uint64_t harness_seed(void);
/* NORMBENCH_TEST_SCALE=sample: what runs elsewhere at length, once more on an emulated CPU. */
bool harness_samples(void);

/* One test of every op and dtype of the catalogue, in all of these rows and
 * hidden sizes (0 ends each list), as far as they are selected.
 * NORMBENCH_TEST_SCALE=small or tiny leaves out the larger ones, where a test
 * is slow; sample takes a quarter of the tiny ones. */
void each_problem(void (*check)(problem *p), const size_t *some_rows, const size_t *some_hidden);
/* The kernels of the problem's op and dtype that run here and are selected, one
 * after another; NULL ends. */
const nk_kernel *kernel_next(const problem *p, const nk_kernel *previous);
/* The algorithm `default` of an op that runs on the same ISA and dtype. */
const nk_kernel *kernel_like(const nk_kernel *kernel, const char *op);
bool kernel_is_default(const nk_kernel *kernel);
const char *status_text(nk_status status);

/* ---- Tests and their reports ---------------------------------------------- */

/* Each test starts with the one and ends with the other, which fails it if
 * anything was reported in between. */
void test_begin(const char *name);
void test_end(void);

/* Calls a kernel, which then counts as exercised; a fault in it is reported. */
nk_status kernel_call(const nk_kernel *kernel, const problem *p, const nk_args *args);
bool kernel_exercised(const nk_kernel *kernel);

/* Named by reports, if set: what is odd about the rows. */
extern const char *row_name;

/* Reports one failure of a kernel, with the command that repeats it. */
__attribute__((format(printf, 3, 4))) void report(const nk_kernel *kernel, const problem *p,
                                                  const char *format, ...);

#endif
