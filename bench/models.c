/* SPDX-License-Identifier: Apache-2.0 */
#include "models.h"

const nb_model nb_models[] = {
#define NB_MODEL(name, hidden, layers, norms, norm, eps, gamma_offset, source)                     \
    {name, hidden, layers, norms, norm, eps, gamma_offset, source},
#include "models.def"
};
const size_t nb_model_count = sizeof nb_models / sizeof nb_models[0];
