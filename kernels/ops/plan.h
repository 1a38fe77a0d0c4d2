/* SPDX-License-Identifier: Apache-2.0 */
/* In which order rows and columns are walked: from the caches as the library
 * finds them. A row's result does not depend on it. */
#ifndef NK_PLAN_H
#define NK_PLAN_H

#include "../cpu.h"

enum { PLAN_ROWS = 16 };
enum { LEAST_L1 = 32 << 10, LEAST_L2 = 256 << 10 }; /* where the size is unknown */

typedef struct plan {
    size_t rows;    /* whose statistics are taken before any is applied */
    size_t tile;    /* columns applied to all of them before the next */
    bool backwards; /* the last tile first: it is what the caches still hold */
} plan;

static inline plan plan_rows(const nk_args *a, nk_dtype dtype, size_t streams)
{
    const size_t l1 = nk_machine()->l1_bytes ? nk_machine()->l1_bytes : LEAST_L1;
    const size_t l2 = nk_machine()->l2_bytes ? nk_machine()->l2_bytes : LEAST_L2;
    const size_t bytes = dtype == NK_F32 ? 4 : 2;
    const size_t row_bytes = streams * a->hidden * bytes;
    const size_t param_bytes = (size_t)(!!a->gamma + !!a->beta) * a->hidden * bytes;
    if (2 * row_bytes + param_bytes <= l1 - l1 / 10)
        return (plan){2, a->hidden, false};
    if (row_bytes + param_bytes <= l1)
        return (plan){1, a->hidden, false};
    if (a->rows >= 8) {
        const size_t rows = l2 / 2 / row_bytes;
        if (rows >= 2)
            return (plan){rows < PLAN_ROWS ? rows : PLAN_ROWS, 2048 / bytes, false};
    }
    return (plan){1, 4096 / bytes, true};
}

#endif
