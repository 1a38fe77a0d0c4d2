/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"
#include "program.h"
#include "topology.h"
#include "workspace.h"

#include <stdint.h>
#include <unistd.h>

void nb_progress_start(nb_progress *progress, size_t total)
{
    *progress =
        (nb_progress){.total = total, .start_ns = nb_now_ns(), .shown = isatty(STDERR_FILENO)};
}

void nb_progress_step(nb_progress *progress, const char *what)
{
    const size_t done = progress->done++;
    if (!progress->shown)
        return;
    const double spent_s = (nb_now_ns() - progress->start_ns) / 1e9;
    const double left_s = done ? spent_s / (double)done * (double)(progress->total - done) : 0;
    fprintf(stderr, "\r\033[K%zu/%zu", done + 1, progress->total);
    if (done)
        fprintf(stderr, ", %d:%02d left", (int)left_s / 60, (int)left_s % 60);
    fprintf(stderr, "  %.60s", what);
    fflush(stderr);
}

void nb_progress_clear(const nb_progress *progress)
{
    if (progress->shown)
        fputs("\r\033[K", stderr);
}
