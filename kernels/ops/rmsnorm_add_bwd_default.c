/* SPDX-License-Identifier: Apache-2.0 */
/* The gradients of Sandwich, after: only those of residual pass the norm. */
#define OP_NORM NORM_RMS
#define OP_JOIN JOIN_SANDWICH
#define OP_GRADIENT GRADIENT_STRAIGHT
#include "norm_bwd.h"
