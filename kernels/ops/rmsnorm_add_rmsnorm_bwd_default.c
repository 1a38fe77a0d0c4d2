/* SPDX-License-Identifier: Apache-2.0 */
/* The gradients of Sandwich, both: first through the norm of h, then that of residual. */
#define OP_NORM NORM_RMS
#define OP_JOIN JOIN_SANDWICH
#define OP_GRADIENT GRADIENT_OUTER
#include "norm_bwd.h"
