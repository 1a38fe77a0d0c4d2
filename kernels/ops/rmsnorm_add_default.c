/* SPDX-License-Identifier: Apache-2.0 */
/* Sandwich, after the sublayer: h = x + rmsnorm(residual) (Ding et al. 2021;
 * Gemma 2). */
#define OP_NORM NORM_RMS
#define OP_SOURCE SOURCE_X
#define OP_TARGET TARGET_ADD
#include "norm.h"
