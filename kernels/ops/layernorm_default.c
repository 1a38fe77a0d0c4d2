/* SPDX-License-Identifier: Apache-2.0 */
/* LayerNorm: y = (x - mean) / sqrt(var + eps) * gamma + beta (Ba, Kiros &
 * Hinton 2016). One pass for both sums, about 0; where the mean is too far
 * from 0 for that, again about the mean. */
#define OP_NORM NORM_LAYER
#define OP_SOURCE SOURCE_X
#define OP_TARGET TARGET_Y
#include "norm.h"
