/* SPDX-License-Identifier: Apache-2.0 */
/* The gradients of the norms, plain and fused. With w = gamma * dy, for each row
 *
 *   dx = rstd * (w - mean(w) - xhat * mean(w * xhat))     (RMSNorm: no mean(w))
 *   dgamma += dy * xhat;  dbeta += dy
 *
 * Rows are read twice: for their sums (the statistics', where they are not
 * given, in the same reading: statistics_bwd.h), then column by column over a
 * block of rows, so that dgamma and dbeta are summed in registers
 * (apply_bwd.h). A row for which f32 does not do takes the slow path
 * (slow_bwd.h).
 *
 * An op's file says by OP_NORM which norm it is, and
 *   OP_JOIN      what is normalised: x; with residual given x + residual
 *                (JOIN_ADD) or alpha * x + residual (JOIN_SCALED); residual
 *                alone (JOIN_SANDWICH);
 *   OP_GRADIENT  what comes back to the norm: dy, dh (GRADIENT_STRAIGHT), or dh
 *                and what an outer norm over x makes of dy (GRADIENT_OUTER). */
#include "../slow_bwd.h"
#include "apply_bwd.h"

static nk_slow_sum slow_sum(column_sum *from, size_t hidden)
{
    return (nk_slow_sum){from->sum, hidden <= SUM_COLUMNS ? from->carry : NULL};
}

static void back_slowly(const reader *in, back_row *w, size_t r, totals *to)
{
    const nk_args *a = in->args;
    const bool scaled = OP_JOIN == JOIN_SCALED;
    const nk_slow_sum first = slow_sum(&to->first, a->hidden);
    const nk_slow_sum second =
        is_layer || has_outer ? slow_sum(&to->second, a->hidden) : (nk_slow_sum){NULL, NULL};
    const nk_slow_norm outer = {.row = w->outer_v,
                                .count = a->hidden,
                                .gamma = a->gamma2,
                                .rstd = a->rstd2 ? &a->rstd2[r] : NULL,
                                .dgamma = second};
    nk_slow_row slow = {.norm = {.row = w->v,
                                 .residual = w->residual,
                                 .scaled = scaled,
                                 .layer = is_layer,
                                 .count = statistics_count(a),
                                 .gamma = a->gamma,
                                 .mean = a->mean ? &a->mean[r] : NULL,
                                 .rstd = a->rstd ? &a->rstd[r] : NULL,
                                 .dgamma = first},
                        .outer = has_outer ? &outer : NULL,
                        .d = w->d,
                        .dh = w->dh,
                        .to = w->dresidual,
                        .factor = scaled ? (double)a->alpha : 1,
                        .dalpha = scaled && a->dalpha ? &to->dalpha : NULL};
    if (!has_outer)
        slow.norm.dbeta = second;
    *(OP_JOIN == JOIN_SANDWICH ? &slow.straight : &slow.scaled_to) = w->dx;
    nk_slow_backward(&slow, in->dtype, a);
    w->done = true;
}

/* As many as share dgamma in registers and are found in L2 again; fewer where what is read
 * comes from beyond it: from so many places at once it comes more slowly. */
enum { BACK_ROWS = 16, BACK_ROWS_BEYOND = 8 };

static size_t back_rows(const nk_args *a, size_t bytes)
{
    const size_t l2 = nk_machine()->l2_bytes ? nk_machine()->l2_bytes : LEAST_L2;
    const size_t streams = (size_t)(!!a->x + !!a->residual + !!a->dy + !!a->dh);
    const size_t row_bytes = streams * a->hidden * bytes, fit = l2 / 2 / row_bytes;
    const size_t most = a->rows <= l2 / row_bytes ? BACK_ROWS : BACK_ROWS_BEYOND;
    return fit < 1 ? 1 : fit < most ? fit : most;
}

static void run(const nk_args *a, nk_dtype dtype)
{
    const reader in = {a, dtype, share_of(a)};
    const bool stream = a->store == NK_STORE_STREAM;
    const size_t bytes = nk_dtypes[dtype].bytes, most = back_rows(a, bytes);
    const bool params_f32 = dtype == NK_F32 || a->flags & NK_PARAMS_F32;
    back_row rows[BACK_ROWS];
    totals to;
    column_sum_start(&to.first, a->dgamma, a->hidden);
    if (is_layer || has_outer)
        column_sum_start(&to.second, has_outer ? a->dgamma2 : a->dbeta, a->hidden);
    to.dalpha = 0;
    for (size_t first = 0; first < a->rows; first += most) {
        const size_t count = a->rows - first < most ? a->rows - first : most;
        for (size_t r = 0; r < count; r++) {
            rows[r] = back_row_at(a, first + r, bytes);
            if (stream && first + most + r < a->rows && nk_machine()->overlaps)
                expect_next(&rows[r], back_row_at(a, first + most + r, bytes));
            if ((has_outer && !settle_row(&in, &rows[r], OUTER, first + r)) ||
                !settle_row(&in, &rows[r], OWN, first + r))
                back_slowly(&in, &rows[r], first + r, &to);
        }
        back_block_as[dtype][params_f32][stream](rows, count, a, &to);
    }
    if (OP_JOIN == JOIN_SCALED && a->dalpha)
        *a->dalpha += (float)to.dalpha;
    if (stream)
        vec_fence();
}
