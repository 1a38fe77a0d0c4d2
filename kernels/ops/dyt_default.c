/* SPDX-License-Identifier: Apache-2.0 */
/* DyT: y = gamma * tanh(alpha * x) + beta (Zhu et al. 2025), tanh by SLEEF
 * within 3.5 ulp. */
#define DYT_TANH(v, dtype) tanh_for(v, dtype)
#include "dyt.h"
