/* SPDX-License-Identifier: Apache-2.0 */
/* Pre-Norm: h = x + residual; y = rmsnorm(h) (Xiong et al. 2020; LLaMA). */
#include "norm.h"

NK_INLINE void run(const nk_args *a, nk_dtype dtype)
{
    norm(a, dtype, NORM_RMS, SOURCE_ADD);
}
