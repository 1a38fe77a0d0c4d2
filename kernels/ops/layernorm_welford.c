/* SPDX-License-Identifier: Apache-2.0 */
/* LayerNorm by Welford's recurrence (1962), lane by lane. */
#define OP_NORM NORM_LAYER_WELFORD
#define OP_SOURCE SOURCE_X
#define OP_TARGET TARGET_Y
#include "norm.h"
