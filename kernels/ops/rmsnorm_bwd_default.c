/* SPDX-License-Identifier: Apache-2.0 */
/* The gradients of RMSNorm. */
#define OP_NORM NORM_RMS
#define OP_JOIN JOIN_X
#define OP_GRADIENT GRADIENT_DY
#include "norm_bwd.h"
