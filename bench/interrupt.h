/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C ends a measurement between two observations: what is finished stays. */
#ifndef NB_INTERRUPT_H
#define NB_INTERRUPT_H

#include <stdbool.h>

extern volatile bool nb_interrupted;

/* From now on SIGINT and SIGTERM set nb_interrupted and end system calls. */
void nb_catch_interrupts(void);

#endif
