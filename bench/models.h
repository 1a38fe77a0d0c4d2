/* SPDX-License-Identifier: Apache-2.0 */
/* Models whose shapes --model stands for. */
#ifndef NB_MODELS_H
#define NB_MODELS_H

#include <stddef.h>

typedef struct nb_model {
    const char *name;
    size_t hidden;
    size_t layers;
    size_t norms; /* a layer */
    const char *norm;
    double eps;
    double gamma_offset;
    const char *source;
} nb_model;

extern const nb_model nb_models[];
extern const size_t nb_model_count;

#endif
