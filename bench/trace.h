/* SPDX-License-Identifier: Apache-2.0 */
/* One call of a kernel, instruction by instruction. */
#ifndef NB_TRACE_H
#define NB_TRACE_H

#include "check.h"
#include "counts.h"

/* Calls the kernel on the workspace's first set in a process of its own, under
 * ptrace, and counts from its first instruction to its return. What it wrote
 * into the workspace, which is shared memory, is then compared with the oracle:
 * a wrong kernel has no count.
 *
 * NB_OK; NB_FAILED after a message if the kernel crashed, refused, hung or was
 * wrong; NB_MACHINE after a message if tracing is not permitted here, or an
 * instruction is unknown; NB_INTERRUPTED. */
int nb_trace_call(const nb_variant *variant, nb_workspace *workspace, nb_counts *counts);

/* The same without ptrace, for a program that runs under qemu: `log` is what
 * qemu -singlestep -d exec,nochain writes of this very process, of the
 * addresses that nb_trace_filter names. */
int nb_trace_log(const nb_variant *variant, nb_workspace *workspace, const char *log,
                 nb_counts *counts);

/* The argument of qemu's -dfilter: the code of the libraries that hold these
 * kernels, and of what they call. To be freed. */
char *nb_trace_filter(const nb_variants *variants);

/* The cell for messages, with the provider's path where it is not ours. */
char *nb_trace_name(const nb_variant *variant, const nb_workspace *workspace,
                    char name[NB_NAME_BYTES]);

/* Whether the call succeeded and the workspace holds what it should: NB_OK, or
 * NB_FAILED after a message. */
int nb_trace_check(const nb_variant *variant, const nb_workspace *workspace, nk_status result);

#endif
