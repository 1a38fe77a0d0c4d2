/* SPDX-License-Identifier: Apache-2.0 */
/* In which order rows and columns are walked: from the caches as the library
 * finds them. A row's result does not depend on it. */
#ifndef NK_PLAN_H
#define NK_PLAN_H

#include "../cpu.h"

enum { PLAN_ROWS = 16 };
enum { LEAST_L1 = 32 << 10, LEAST_L2 = 256 << 10 }; /* where the size is unknown */

typedef struct plan {
    size_t rows; /* whose statistics are taken before any is applied */
    size_t tile; /* columns applied to all of them before the next */
} plan;

/* Rows that fit L1 go by as many as fit .9 of it, and by two at the least: the
 * wait for one row's root and division is then the other's work. Else blocks of rows
 * share gamma and beta in tiles of two pages (a tile less breaks the hardware's
 * prefetching); with gamma alone, and x found in L1 again, that is no gain. */
static inline plan plan_rows(const nk_args *a, nk_dtype dtype, size_t streams)
{
    const nk_machine_info *machine = nk_machine();
    const size_t l1 = machine->l1_bytes ? machine->l1_bytes : LEAST_L1;
    const size_t l2 = machine->l2_bytes ? machine->l2_bytes : LEAST_L2;
    const size_t bytes = dtype == NK_F32 ? 4 : 2, room = l1 - l1 / 10;
    const size_t row_bytes = streams * a->hidden * bytes;
    const size_t param_bytes = (size_t)(!!a->gamma + !!a->beta) * a->hidden * bytes;
    if (row_bytes + param_bytes <= l1) {
        const size_t fit = room > param_bytes ? (room - param_bytes) / row_bytes : 1;
        return (plan){fit < 2 ? 2 : fit < PLAN_ROWS ? fit : PLAN_ROWS, a->hidden};
    }
    const bool few_streams = streams == 2 && !a->beta && a->store != NK_STORE_STREAM;
    const size_t block = l2 / 2 / row_bytes;
    if (a->rows < 8 || block < 2 || few_streams)
        return (plan){1, a->hidden};
    return (plan){block < PLAN_ROWS ? block : PLAN_ROWS, 8192 / bytes};
}

#endif
