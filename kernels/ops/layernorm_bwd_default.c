/* SPDX-License-Identifier: Apache-2.0 */
/* The gradients of LayerNorm. */
#define OP_NORM NORM_LAYER
#define OP_JOIN JOIN_X
#define OP_GRADIENT GRADIENT_DY
#include "norm_bwd.h"
