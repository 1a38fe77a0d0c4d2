/* SPDX-License-Identifier: Apache-2.0 */
/* RMSNorm: y = x / sqrt(mean(x^2) + eps) * gamma (Zhang & Sennrich 2019). */
#include "norm.h"

NK_INLINE void run(const nk_args *a, nk_dtype dtype)
{
    norm(a, dtype, NORM_RMS, SOURCE_X);
}
