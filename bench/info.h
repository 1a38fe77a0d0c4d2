/* SPDX-License-Identifier: Apache-2.0 */
/* What `info` measures beyond the clock. */
#ifndef NB_INFO_H
#define NB_INFO_H

#include "limit.h"

/* Wants the paces of all levels, of one thread and of all. */
void nb_info_want_limits(nb_limits *limits);
/* Tables of them. */
void nb_info_print_limits(const nb_limits *limits);

#endif
