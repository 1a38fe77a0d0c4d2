/* SPDX-License-Identifier: Apache-2.0 */
/* pRMSNorm: RMSNorm with the mean square of the first ceil(fraction * hidden)
 * elements (Zhang & Sennrich 2019, section 4). */
#define OP_NORM NORM_PARTIAL_RMS
#define OP_SOURCE SOURCE_X
#define OP_TARGET TARGET_Y
#include "norm.h"
