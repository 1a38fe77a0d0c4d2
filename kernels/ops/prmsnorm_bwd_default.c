/* SPDX-License-Identifier: Apache-2.0 */
/* The gradients of pRMSNorm. */
#define OP_NORM NORM_PARTIAL_RMS
#define OP_JOIN JOIN_X
#define OP_GRADIENT GRADIENT_DY
#include "norm_bwd.h"
