/* SPDX-License-Identifier: Apache-2.0 */
/* The gradients of Post-Norm. */
#define OP_NORM NORM_LAYER
#define OP_JOIN JOIN_ADD
#define OP_GRADIENT GRADIENT_DY
#include "norm_bwd.h"
