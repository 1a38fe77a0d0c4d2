/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NB_VERIFY_H
#define NB_VERIFY_H

#include "cells.h"

/* normbench verify --vectors DIR: every variant on every case of a folder.
 * `dump` is NULL or a folder for outputs. Returns an exit status. */
int nb_verify_vectors(const char *folder, const char *dump, const nb_options *options,
                      const nb_variants *variants);

/* Writes each output of a call as dump/name/ISA/OPERAND.npy; 16-bit results by
 * their bits, f16 as <f2, bf16 as <u2. NB_OK, or a status after a message. */
int nb_dump_outputs(const char *dump, const char *name, const nb_variant *variant,
                    const nk_args *args);

#endif
