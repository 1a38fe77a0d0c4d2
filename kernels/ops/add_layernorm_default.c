/* SPDX-License-Identifier: Apache-2.0 */
/* Post-Norm: h = x + residual; y = layernorm(h) (Vaswani et al. 2017). */
#include "norm.h"

NK_INLINE void run(const nk_args *a, nk_dtype dtype)
{
    norm(a, dtype, NORM_LAYER, SOURCE_ADD);
}
