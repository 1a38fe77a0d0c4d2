/* SPDX-License-Identifier: Apache-2.0 */
/* RMSNorm: y = x / sqrt(mean(x^2) + eps) * gamma (Zhang & Sennrich 2019). */
#define OP_NORM NORM_RMS
#define OP_SOURCE SOURCE_X
#define OP_TARGET TARGET_Y
#include "norm.h"
