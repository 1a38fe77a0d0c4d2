/* SPDX-License-Identifier: Apache-2.0 */
#include <normkernels.h>
#include <stdio.h>

enum { ROWS = 2, HIDDEN = 4 };

int main(void)
{
    const float x[ROWS][HIDDEN] = {{1, 2, 3, 4}, {0, 0, 3, -4}};
    const float residual[ROWS][HIDDEN] = {{1, 1, 1, 1}, {2, 0, 0, 0}};
    const float gamma[HIDDEN] = {1, 1, 1, 2};
    float h[ROWS][HIDDEN], y[ROWS][HIDDEN], rstd[ROWS];

    /* Pre-Norm in one call: h = x + residual; y = rmsnorm(h) * gamma. */
    nk_status status =
        nk_add_rmsnorm_f32(x[0], residual[0], gamma, h[0], y[0], ROWS, HIDDEN, 1e-6f);
    if (status != NK_OK) {
        fprintf(stderr, "%s\n", nk_status_text(status));
        return 1;
    }
    for (int row = 0; row < ROWS; row++)
        printf("%.4f %.4f %.4f %.4f\n", y[row][0], y[row][1], y[row][2], y[row][3]);

    /* The same by name, for all that the short form leaves out: strides,
     * statistics, options. What is not set stays absent. */
    const char *why;
    nk_function rmsnorm = nk_find("rmsnorm", NULL, "f32", NULL, &why);
    if (!rmsnorm) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    nk_args args = {.size = sizeof args, .rows = ROWS, .hidden = HIDDEN, .eps = 1e-6f};
    args.x = h;
    args.y = h; /* in place */
    args.rstd = rstd;
    status = rmsnorm(&args);
    if (status != NK_OK) {
        fprintf(stderr, "%s\n", nk_status_text(status));
        return 1;
    }
    printf("rstd %.4f %.4f\n", rstd[0], rstd[1]);
    return 0;
}
