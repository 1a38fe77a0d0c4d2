/* SPDX-License-Identifier: Apache-2.0 */
/* LayerNorm as textbooks and most libraries have it: the mean, then the
 * variance about it, then the result: three readings of the row. */
#define OP_NORM NORM_LAYER_TWO_PASS
#define OP_SOURCE SOURCE_X
#define OP_TARGET TARGET_Y
#include "norm.h"
