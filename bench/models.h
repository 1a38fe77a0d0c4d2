/* SPDX-License-Identifier: Apache-2.0 */
/* Models whose shapes --model stands for. */
#ifndef NB_MODELS_H
#define NB_MODELS_H

#include <stddef.h>

/* How a norm meets the residual stream and a sublayer; see models.def. */
enum nb_placement {
    NB_PLACEMENT_PRE,
    NB_PLACEMENT_POST,
    NB_PLACEMENT_PARALLEL,
    NB_PLACEMENT_SANDWICH,
    NB_PLACEMENT_POST_SUBLAYER,
    NB_PLACEMENT_DEEPNORM,
    NB_PLACEMENTS
};
extern const char *const nb_placement_names[NB_PLACEMENTS];

typedef struct nb_model {
    const char *name;
    size_t hidden;
    size_t layers;
    size_t norms; /* a layer */
    const char *norm;
    double eps;
    double gamma_offset;
    enum nb_placement placement;
    double parameters; /* that one token reads */
    const char *source;
} nb_model;

extern const nb_model nb_models[];
extern const size_t nb_model_count;

/* NULL if there is none of that name. */
const nb_model *nb_model_find(const char *name);

#endif
