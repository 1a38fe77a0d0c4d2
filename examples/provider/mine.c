/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel of your own that stands beside ours. From the top of the tree:
 *   cc -shared -fPIC -O3 -Ikernels examples/provider/mine.c -lm -o build/mine.so
 *   build/bench/normbench verify --provider build/mine.so */
#include <normkernels.h>

#include <math.h>

static nk_status rmsnorm(const nk_args *a)
{
    const float *gamma = a->gamma; /* NULL: ones */
    for (size_t row = 0; row < a->rows; row++) {
        const float *x = (const float *)a->x + row * (a->x_ld ? a->x_ld : a->hidden);
        float *y = (float *)a->y + row * (a->y_ld ? a->y_ld : a->hidden);
        double squares = 0;
        for (size_t i = 0; i < a->hidden; i++)
            squares += (double)x[i] * x[i];
        const double mean = squares / (double)a->hidden, eps = a->eps;
        const double rms = a->flags & NK_EPS_OUTSIDE ? sqrt(mean) + eps : sqrt(mean + eps);
        const float scale = rms > 0 ? (float)(1 / rms) : 0;
        for (size_t i = 0; i < a->hidden; i++)
            y[i] = x[i] * scale * ((gamma ? gamma[i] : 1) + a->gamma_offset);
        if (a->rstd)
            a->rstd[row] = scale;
    }
    return NK_OK;
}

/* op, algorithm, dtype, isa, why it cannot run here, function */
static const nk_kernel kernels[] = {{"rmsnorm", "default", "f32", "c", NULL, rmsnorm}};
static const nk_provider mine = {1, sizeof(nk_kernel), "mine", "1", "-O3", NULL, kernels, 1, NULL};

const nk_provider *nk_provider_v1(void)
{
    return &mine;
}
