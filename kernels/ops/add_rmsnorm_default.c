/* SPDX-License-Identifier: Apache-2.0 */
/* Pre-Norm: h = x + residual; y = rmsnorm(h) (Xiong et al. 2020; LLaMA). */
#define OP_NORM NORM_RMS
#define OP_SOURCE SOURCE_ADD
#define OP_TARGET TARGET_Y
#include "norm.h"
