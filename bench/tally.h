/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions by address, so that each is decoded once. */
#ifndef NB_TALLY_H
#define NB_TALLY_H

#include "counts.h"

typedef struct nb_tally nb_tally;

/* Reads up to NB_INSTRUCTION_BYTES at an address of the program that is counted; returns how
 * many there are. */
typedef size_t (*nb_read_code)(void *context, uint64_t address, uint8_t *bytes);

nb_tally *nb_tally_new(nb_read_code read, void *context);
void nb_tally_free(nb_tally *tally);

/* The instruction there, NULL if it cannot be read or decoded. It stays until
 * the tally is freed. */
const nb_instruction *nb_tally_at(nb_tally *tally, uint64_t address);

#endif
