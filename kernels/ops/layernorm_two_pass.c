/* SPDX-License-Identifier: Apache-2.0 */
/* LayerNorm as textbooks and most libraries have it: the mean, then the
 * variance about it, then the result: three readings of the row. */
#include "norm.h"

NK_INLINE void run(const nk_args *a, nk_dtype dtype)
{
    norm(a, dtype, NORM_LAYER_TWO_PASS, SOURCE_X);
}
