/* SPDX-License-Identifier: Apache-2.0 */
/* LayerNorm in one pass about the row's first element; where the mean is too
 * far from that, again about the mean. */
#define OP_NORM NORM_LAYER_SHIFTED
#define OP_SOURCE SOURCE_X
#define OP_TARGET TARGET_Y
#include "norm.h"
