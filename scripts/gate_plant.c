/* SPDX-License-Identifier: Apache-2.0 */
/* A provider whose kernels are those of the library at $GATE_LIBRARY, its default
 * f32 kernels of the best ISA. Compiled with PLANT, each call does real work on
 * top: a chain of multiplications that begins at the result, as many as
 * $GATE_STEPS says ("rmsnorm/3/768=14,..." by kernel, rows and hidden). */
#include "normkernels.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPS(OP) OP(layernorm) OP(rmsnorm) OP(add_layernorm) OP(add_rmsnorm)
enum {
#define OP(name) OP_##name,
    OPS(OP)
#undef OP
        COUNT
};

enum { STEPS = 64 };
static nk_function functions[COUNT];
static struct {
    int op;
    size_t rows, hidden;
    long steps;
} steps[STEPS];
static size_t step_count;
volatile float gate_plant_sink;

/* The next call begins when this one is over, with PLANT and without: out of
 * order, the chain would hide behind it. */
static void serialise(void)
{
#if defined(__x86_64__)
    __builtin_ia32_lfence();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

static void work(int op, const nk_args *args)
{
    for (size_t i = 0; i < step_count; i++)
        if (steps[i].op == op && steps[i].rows == args->rows && steps[i].hidden == args->hidden) {
            float v = ((const float *)args->y)[args->hidden - 1];
            for (long n = 0; n < steps[i].steps; n++)
                v = v * 0.999f;
            gate_plant_sink = v;
        }
    serialise();
}

#define OP(name)                                                                                   \
    static nk_status name(const nk_args *args)                                                     \
    {                                                                                              \
        const nk_status status = functions[OP_##name](args);                                       \
        work(OP_##name, args);                                                                     \
        return status;                                                                             \
    }
OPS(OP)
#undef OP

static nk_kernel kernels[COUNT] = {
#define OP(name) {#name, "default", "f32", NULL, NULL, name},
    OPS(OP)
#undef OP
};
static nk_provider provider = {1, sizeof(nk_kernel), "plant", "1", "", NULL, kernels, COUNT, NULL};

static void read_steps(char *list)
{
    for (char *item = strtok(list, ","); item && step_count < STEPS; item = strtok(NULL, ",")) {
        char op[32];
        if (sscanf(item, "%31[^/]/%zu/%zu=%ld", op, &steps[step_count].rows,
                   &steps[step_count].hidden, &steps[step_count].steps) != 4)
            continue;
        for (int i = 0; i < COUNT; i++)
            if (strcmp(kernels[i].op, op) == 0)
                steps[step_count].op = i;
        step_count++;
    }
}

NK_API const nk_provider *nk_provider_v1(void)
{
    const char *path = getenv("GATE_LIBRARY");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    nk_provider_entry entry = NULL;
    if (library)
        *(void **)&entry = dlsym(library, "nk_provider_v1");
    const nk_provider *real = entry ? entry() : NULL;
    if (!real)
        provider.error = "GATE_LIBRARY names no provider";
    for (size_t i = 0; real && i < real->count; i++)
        for (int op = 0; op < COUNT; op++) {
            const nk_kernel *k = &real->kernels[i];
            if (k->unavailable || strcmp(k->op, kernels[op].op) != 0 ||
                strcmp(k->algorithm, "default") != 0 || strcmp(k->dtype, "f32") != 0)
                continue;
            kernels[op].isa = k->isa; /* the best is the last */
            functions[op] = k->function;
        }
    const char *list = getenv("GATE_STEPS");
#ifdef PLANT
    if (list)
        read_steps(strdup(list));
#else
    (void)read_steps;
    (void)list;
#endif
    return &provider;
}
