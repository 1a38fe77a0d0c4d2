/* SPDX-License-Identifier: Apache-2.0 */
/* DeepNorm: h = alpha * x + residual; y = layernorm(h) (Wang et al. 2022). */
#define OP_NORM NORM_LAYER
#define OP_SOURCE SOURCE_SCALED_ADD
#define OP_TARGET TARGET_Y
#include "norm.h"
