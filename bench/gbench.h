/* SPDX-License-Identifier: Apache-2.0 */
/* Google Benchmark for C: one repetition of one benchmark at a time. Its own
 * repetitions report only at the end, so the loop over cells is ours. */
#ifndef NB_GBENCH_H
#define NB_GBENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nb_gbench {
    uint64_t iterations;
    double time_ns; /* wall time of one call */
} nb_gbench;

/* Times `iterations` calls, made by one `run`; with 0 it first finds out how many
 * take `min_seconds` (calibration). One call is made before, untimed, but not before a
 * single one, which is long. False if Google Benchmark reported nothing. */
bool nb_gbench_run(const char *name, void (*run)(void *context, size_t calls), void *context,
                   uint64_t iterations, double min_seconds, nb_gbench *result);

#ifdef __cplusplus
}
#endif
#endif
