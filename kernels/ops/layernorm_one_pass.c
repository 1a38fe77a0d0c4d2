/* SPDX-License-Identifier: Apache-2.0 */
/* LayerNorm by var = E[x^2] - mean^2, which cancels where the mean is large. */
#define OP_NORM NORM_LAYER_ONE_PASS
#define OP_SOURCE SOURCE_X
#define OP_TARGET TARGET_Y
#include "norm.h"
