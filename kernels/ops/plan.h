/* SPDX-License-Identifier: Apache-2.0 */
/* In which order rows and columns are walked: from the caches as the library
 * finds them. A row's result does not depend on it. */
#ifndef NK_PLAN_H
#define NK_PLAN_H

#include "../cpu.h"

enum { PLAN_ROWS = 16 };
/* Two columns of floats: 64 KB of stack, as much as a thread can be trusted to have. For
 * fewer rows it takes longer to convert them beforehand. */
enum { WIDE_COLUMNS = 8192, WIDE_ROWS = 8 };
enum { SHORTEST_BESIDE = 320 }; /* shorter rows are applied before the next one's scale is there */
enum { LEAST_L1 = 32 << 10, LEAST_L2 = 256 << 10 }; /* where the size is unknown */

/* What the code for a call can do. */
typedef struct ways {
    bool ahead;         /* go row by row, the next one read ahead */
    bool plain;         /* that as the call stands; else only with gamma and beta made wide */
    size_t shared;      /* apply so many rows of a block at once */
    bool widens;        /* VEC_WIDENS */
    bool leaves_floats; /* h, between its two readings, in f16 */
    size_t columns;     /* that are made floats */
    bool fused;         /* more than x is read or more than y written */
} ways;

typedef struct plan {
    bool ahead;  /* row by row, the next one's statistics before this one is applied, or while */
    bool wide;   /* gamma and beta are made floats, with their offset, once a call */
    bool floats; /* ahead and wide: h is left as floats by its first reading */
    size_t rows; /* else: whose statistics are taken before any is applied */
    size_t tile; /* columns applied to all of them before the next */
} plan;

/* Whether rows go ahead with gamma and beta as floats. Plain calls do in 16 bits, while two
 * columns of floats do not take L1's loads from x; others wherever there is room. */
static inline bool goes_ahead_wide(const nk_args *a, nk_dtype dtype, size_t rows_bytes, size_t l1,
                                   ways can)
{
    const size_t floats = can.columns * a->hidden * sizeof(float);
    if (a->hidden > WIDE_COLUMNS || a->rows < WIDE_ROWS)
        return false;
    if (dtype == NK_F32)
        return !can.plain && a->gamma;
    if (can.plain && (!can.widens || (can.columns > 1 && floats > l1 / 6)))
        return false;
    return rows_bytes + floats <= l1;
}

/* Whether h is left as floats: f16 takes as many operations to be converted as to be applied.
 * Plain norms so take L1's room from x and y, fused ones convert more. */
static inline bool goes_by_floats(const nk_args *a, nk_dtype dtype, size_t l1, ways can)
{
    const size_t elements = (can.columns + 1) * a->hidden;
    return dtype == NK_F16 && can.leaves_floats && a->hidden >= SHORTEST_BESIDE &&
           elements <= 2 * WIDE_COLUMNS && (can.fused || elements * sizeof(float) <= l1 / 3);
}

/* Whether four rows of f16 share columns of floats: while L1 has room for the rows beside them,
 * and L2 holds all rows. */
static inline bool shares_floats(const nk_args *a, nk_dtype dtype, size_t row_bytes, size_t l1,
                                 size_t l2, ways can)
{
    const size_t floats = can.columns * a->hidden * sizeof(float);
    return dtype == NK_F16 && can.widens && !(a->flags & NK_PARAMS_F32) && a->rows >= WIDE_ROWS &&
           a->hidden <= WIDE_COLUMNS && floats <= (can.fused ? l1 / 2 : l1 / 3 * 2) &&
           a->rows <= l2 / row_bytes;
}

static inline size_t at_most(size_t rows)
{
    return rows < PLAN_ROWS ? rows : PLAN_ROWS;
}

/* By what the caches hold:
 *   L1 two rows, not all      f32 on Intel, in pairs that share gamma's and beta's loads:
 *                             even blocks;
 *   L1 a row and the next x   ahead: the wait for a row's root and division is the next
 *                             one's reading. Of f32 only while L2 holds all rows: beyond
 *                             it two readings at once are in each other's way. 16 bits are
 *                             bound by operations, and gain wherever L1 just holds it, with
 *                             gamma and beta as floats (goes_ahead_wide); else more by fours
 *                             that share gamma's and beta's conversions;
 *   L1 a row                  two rows, or as many as fit where none can go ahead;
 *   less                      row by row if only gamma has no room; else blocks share
 *                             gamma and beta in tiles of two pages (less breaks the
 *                             hardware's prefetching).
 * Past the caches memory is read and written by turns (on Intel the next rows are fetched
 * while these are written): rows of less than a page one by one, longer ones in blocks that
 * read somewhat more than L1 holds. */
static inline plan plan_rows(const nk_args *a, nk_dtype dtype, size_t streams, ways can)
{
    enum { PAGE = 4096, TILE = 2 * PAGE };
    const nk_machine_info *machine = nk_machine();
    const size_t l1 = machine->l1_bytes ? machine->l1_bytes : LEAST_L1;
    const size_t l2 = machine->l2_bytes ? machine->l2_bytes : LEAST_L2;
    const size_t bytes = dtype == NK_F32 ? 4 : 2, x_bytes = a->hidden * bytes;
    const size_t row_bytes = streams * x_bytes, room = l1 - l1 / 12;
    const size_t params = (size_t)(!!a->gamma + !!a->beta) * x_bytes;
    const size_t with_next = row_bytes + x_bytes + params;
    size_t rows = 1, tile = a->hidden;
    if (dtype == NK_F32 && can.shared > 1 && 2 * row_bytes + params <= room &&
        a->rows > l1 / row_bytes && machine->overlaps)
        return (plan){.rows = at_most((room - params) / row_bytes / 2 * 2), .tile = tile};
    if (can.ahead &&
        (dtype == NK_F32 ? with_next <= room && a->rows <= l2 / row_bytes : with_next <= l1)) {
        const bool wide = goes_ahead_wide(a, dtype, row_bytes + x_bytes, l1, can);
        const bool shared = dtype != NK_F32 && can.shared > 1 && a->rows > 1;
        if (wide || (can.plain && !shared))
            return (plan){
                .ahead = true, .wide = wide, .floats = wide && goes_by_floats(a, dtype, l1, can)};
    }
    if (dtype != NK_F32 && can.shared > 1 && can.ahead)
        return (plan){.rows = can.shared,
                      .tile = tile,
                      .wide = shares_floats(a, dtype, row_bytes, l1, l2, can)};
    if (a->store == NK_STORE_STREAM)
        rows = x_bytes < PAGE ? 1 : (l1 + l1 / 3) / (x_bytes * (a->residual ? 2 : 1));
    else if (row_bytes + params <= room)
        rows = can.ahead ? 2 : (room - params) / row_bytes;
    else if (a->rows >= 8 && (a->beta || row_bytes > l1)) {
        rows = l2 / 2 / row_bytes;
        tile = rows < 2 ? tile : TILE / bytes;
    }
    return (plan){.rows = at_most(rows < 1 ? 1 : rows), .tile = tile};
}

#endif
