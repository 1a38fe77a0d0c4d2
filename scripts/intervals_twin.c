/* SPDX-License-Identifier: Apache-2.0 */
/* A provider with the f32 norms of the library at $INTERVALS_LIBRARY, its
 * LayerNorm under two names: whatever `claim` finds between these is noise. */
#include "normkernels.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { LAYER, TWIN, RMS, COUNT };
static nk_kernel kernels[COUNT] = {[LAYER] = {.op = "layernorm", .algorithm = "default"},
                                   [TWIN] = {.op = "layernorm", .algorithm = "twin"},
                                   [RMS] = {.op = "rmsnorm", .algorithm = "default"}};
static nk_provider provider = {.abi = 1,
                               .kernel_size = sizeof(nk_kernel),
                               .name = "twin",
                               .version = "1",
                               .build = "",
                               .kernels = kernels,
                               .count = COUNT};

/* The best ISA of a kernel is the last. */
static void take(const nk_provider *real)
{
    for (size_t i = 0; i < real->count; i++)
        for (int own = 0; own < COUNT; own++) {
            const nk_kernel *k = &real->kernels[i];
            if (k->unavailable || strcmp(k->op, kernels[own].op) != 0 ||
                strcmp(k->algorithm, "default") != 0 || strcmp(k->dtype, "f32") != 0)
                continue;
            kernels[own].dtype = k->dtype;
            kernels[own].isa = k->isa;
            kernels[own].function = k->function;
        }
}

NK_API const nk_provider *nk_provider_v1(void)
{
    const char *path = getenv("INTERVALS_LIBRARY");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    nk_provider_entry entry = NULL;
    if (library)
        *(void **)&entry = dlsym(library, "nk_provider_v1");
    if (entry)
        take(entry());
    else
        provider.error = "INTERVALS_LIBRARY names no provider";
    return &provider;
}
