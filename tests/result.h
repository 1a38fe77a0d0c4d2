/* SPDX-License-Identifier: Apache-2.0 */
/* Results: what a kernel makes of a problem on a layout, held against the
 * oracle or against another result. What is wrong is reported (harness.h). */
#ifndef NORMBENCH_TESTS_RESULT_H
#define NORMBENCH_TESTS_RESULT_H

#include "layout.h"

typedef struct result {
    const nk_kernel *kernel;
    size_t first, rows;
    uint32_t store_used;
    unsigned char *out[NK_OPERANDS]; /* dense; NULL where not wanted */
} result;

/* Places, runs, reports what should not have been touched, collects outputs. */
void run(const nk_kernel *kernel, const problem *p, const layout *l, result *r);
void result_free(result *r);

/* Report what is wrong by the oracle, or where the rows that both results have
 * (in the problem's numbering) are not the same bits. */
void check_result(const problem *p, const result *r);
void check_same(const problem *p, const result *a, const result *b, const char *what);

#endif
