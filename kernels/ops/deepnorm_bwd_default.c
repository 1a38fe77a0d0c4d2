/* SPDX-License-Identifier: Apache-2.0 */
/* The gradients of DeepNorm. */
#define OP_NORM NORM_LAYER
#define OP_JOIN JOIN_SCALED
#define OP_GRADIENT GRADIENT_DY
#include "norm_bwd.h"
