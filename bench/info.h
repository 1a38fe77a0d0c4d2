/* SPDX-License-Identifier: Apache-2.0 */
/* What `info` measures beyond the clock. */
#ifndef NB_INFO_H
#define NB_INFO_H

#include "limit.h"
#include "paired.h"

/* Wants the paces of all levels, of one thread and of all. */
void nb_info_want_limits(nb_limits *limits);
/* Tables of them. */
void nb_info_print_limits(const nb_limits *limits);

/* Who was held against whom: the first is the usual one. */
typedef struct nb_contest {
    size_t count;
    char names[NB_PARTICIPANTS][16];
    double ratio[NB_PARTICIPANTS]; /* its time over the first's */
} nb_contest;

typedef struct nb_recommendation {
    nb_contest isas, algorithms, fusion;
} nb_recommendation;

/* The fastest, but the usual one unless it is clearly slower. */
const char *nb_contest_winner(const nb_contest *contest);

/* Checks and measures, half a second. NB_OK, or a status after a message. */
int nb_info_recommend(const nb_topology *t, const nb_copies *ours, nb_recommendation *r);
void nb_info_print_recommendation(const nb_recommendation *r);
cJSON *nb_info_recommendation_json(const nb_recommendation *r);

#endif
