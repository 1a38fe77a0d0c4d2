/* SPDX-License-Identifier: Apache-2.0 */
#include "models.h"

#include <string.h>

const char *const nb_placement_names[NB_PLACEMENTS] = {
    [NB_PLACEMENT_PRE] = "pre",           [NB_PLACEMENT_POST] = "post",
    [NB_PLACEMENT_PARALLEL] = "parallel", [NB_PLACEMENT_SANDWICH] = "sandwich",
    [NB_PLACEMENT_DEEPNORM] = "deepnorm", [NB_PLACEMENT_POST_SUBLAYER] = "post-sublayer"};

const nb_model nb_models[] = {
#define NB_MODEL(name, hidden, layers, norms, norm, eps, gamma_offset, placement, parameters,      \
                 source)                                                                           \
    {name,       hidden, layers, norms, norm, eps, gamma_offset, NB_PLACEMENT_##placement,         \
     parameters, source},
#include "models.def"
};
const size_t nb_model_count = sizeof nb_models / sizeof nb_models[0];

const nb_model *nb_model_find(const char *name)
{
    for (size_t i = 0; i < nb_model_count; i++)
        if (strcmp(nb_models[i].name, name) == 0)
            return &nb_models[i];
    return NULL;
}
