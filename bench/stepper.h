/* SPDX-License-Identifier: Apache-2.0 */
/* The registers of a stopped process, by architecture. */
#ifndef NB_STEPPER_H
#define NB_STEPPER_H

#include "counts.h"

#include <sys/types.h>

/* Makes the process call function(argument) with `landing` as the address that
 * it returns to. False with errno set. */
bool nb_stepper_call(pid_t process, uint64_t function, uint64_t argument, uint64_t landing);

/* Where it stands; 0 with errno set if that cannot be read. */
uint64_t nb_stepper_place(pid_t process);

/* What the function returned. */
int nb_stepper_result(pid_t process);

/* How many lanes of its mask are set for an instruction that is about to be
 * executed (see nb_instruction.mask); -1 with errno set. */
int nb_stepper_active(pid_t process, const nb_instruction *instruction);

#endif
