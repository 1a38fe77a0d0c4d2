/* SPDX-License-Identifier: Apache-2.0 */
/* Sandwich, both sides of the addition: h = x + rmsnorm(residual, gamma);
 * y = rmsnorm(h, gamma2) (Gemma 2). */
#define OP_NORM NORM_RMS
#define OP_SOURCE SOURCE_NORM_ADD
#define OP_TARGET TARGET_Y
#include "norm.h"
