/* SPDX-License-Identifier: Apache-2.0 */
/* Post-Norm: h = x + residual; y = layernorm(h) (Vaswani et al. 2017). */
#define OP_NORM NORM_LAYER
#define OP_SOURCE SOURCE_ADD
#define OP_TARGET TARGET_Y
#include "norm.h"
