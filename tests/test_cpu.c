/* SPDX-License-Identifier: Apache-2.0 */
/* Detection, as a table of machines that are hard to come by; and what
 * NORMKERNELS_ISA does to the library, each case in a process of its own,
 * since a process reads it once.
 * usage: test_cpu LIBRARY.so. NORMBENCH_TEST_ISAS="scalar avx2", if set, says
 * which ISAs must run here, no more and no fewer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "catalog.h"
#include "cpu.h"
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* CPUID's bits, written down here once more: a wrong one in cpu.c is seen. */
#define FMA (1u << 12)
#define OSXSAVE (1u << 27)
#define AVX (1u << 28)
#define F16C (1u << 29)
#define AVX2 (1u << 5)
#define AVX512F (1u << 16)
#define AVX512DQ (1u << 17)
#define AVX512BW (1u << 30)
#define AVX512VL (1u << 31)
#define AVX512_BF16 (1u << 5)

#define LEAF1 (FMA | OSXSAVE | AVX | F16C)
#define LEAF7 (AVX2 | AVX512F | AVX512DQ | AVX512BW | AVX512VL)

enum {
    YMM_FEATURES = NK_FEATURE_AVX2 | NK_FEATURE_FMA | NK_FEATURE_F16C,
    ZMM_FEATURES = YMM_FEATURES | NK_FEATURE_AVX512F | NK_FEATURE_AVX512BW | NK_FEATURE_AVX512DQ |
                   NK_FEATURE_AVX512VL,
    ALL_FEATURES = ZMM_FEATURES | NK_FEATURE_AVX512_BF16
};

static const struct {
    const char *name;
    nk_cpuid cpuid; /* max_leaf, leaf 1 ecx, leaf 7 ebx, leaf 7.1 eax, xcr0 */
    uint32_t features;
    bool avx2, avx512;
} x86_cpus[] = {
    {"everything", {13, LEAF1, LEAF7, AVX512_BF16, 0xE7}, ALL_FEATURES, true, true},
    {"more than we know", {32, ~0u, ~0u, ~0u, ~0ull}, ALL_FEATURES, true, true},
    {"nothing", {0, 0, 0, 0, 0}, 0, false, false},
    {"XCR0 0: no state enabled", {13, LEAF1, LEAF7, AVX512_BF16, 0}, 0, false, false},
    {"XCR0 3: SSE only", {13, LEAF1, LEAF7, AVX512_BF16, 3}, 0, false, false},
    {"XCR0 5: YMM without XMM", {13, LEAF1, LEAF7, AVX512_BF16, 5}, 0, false, false},
    {"XCR0 7: no ZMM", {13, LEAF1, LEAF7, AVX512_BF16, 7}, YMM_FEATURES, true, false},
    {"XCR0 0x27: opmask only", {13, LEAF1, LEAF7, 0, 0x27}, YMM_FEATURES, true, false},
    {"XCR0 0x67: no upper ZMM", {13, LEAF1, LEAF7, 0, 0x67}, YMM_FEATURES, true, false},
    {"XCR0 0xC7: no opmask", {13, LEAF1, LEAF7, 0, 0xC7}, YMM_FEATURES, true, false},
    {"XCR0 0xE0: no XMM and YMM", {13, LEAF1, LEAF7, 0, 0xE0}, 0, false, false},
    {"no OSXSAVE", {13, LEAF1 & ~OSXSAVE, LEAF7, AVX512_BF16, 0xE7}, 0, false, false},
    {"AVX2 without AVX", {13, LEAF1 & ~AVX, LEAF7, AVX512_BF16, 0xE7}, 0, false, false},
    {"AVX without AVX2", {13, LEAF1, 0, 0, 7}, NK_FEATURE_FMA | NK_FEATURE_F16C, false, false},
    {"AVX2 without FMA",
     {13, LEAF1 & ~FMA, LEAF7, 0, 0xE7},
     ZMM_FEATURES & ~NK_FEATURE_FMA,
     false,
     false},
    {"AVX2 without F16C",
     {13, LEAF1 & ~F16C, LEAF7, 0, 0xE7},
     ZMM_FEATURES & ~NK_FEATURE_F16C,
     false,
     false},
    {"AVX-512F alone",
     {13, LEAF1, AVX2 | AVX512F, 0, 0xE7},
     YMM_FEATURES | NK_FEATURE_AVX512F,
     true,
     false},
    {"AVX-512 without F",
     {13, LEAF1, LEAF7 & ~AVX512F, AVX512_BF16, 0xE7},
     YMM_FEATURES,
     true,
     false},
    {"AVX-512 without BW",
     {13, LEAF1, LEAF7 & ~AVX512BW, 0, 0xE7},
     ZMM_FEATURES & ~NK_FEATURE_AVX512BW,
     true,
     false},
    {"AVX-512 without DQ",
     {13, LEAF1, LEAF7 & ~AVX512DQ, 0, 0xE7},
     ZMM_FEATURES & ~NK_FEATURE_AVX512DQ,
     true,
     false},
    {"AVX-512 without VL",
     {13, LEAF1, LEAF7 & ~AVX512VL, 0, 0xE7},
     ZMM_FEATURES & ~NK_FEATURE_AVX512VL,
     true,
     false},
    {"AVX-512 without BF16", {13, LEAF1, LEAF7, 0, 0xE7}, ZMM_FEATURES, true, true},
    {"AVX-512 without AVX2",
     {13, LEAF1, LEAF7 & ~AVX2, 0, 0xE7},
     ZMM_FEATURES & ~NK_FEATURE_AVX2,
     false,
     false},
    {"highest leaf 6: leaf 7 is noise",
     {6, LEAF1, LEAF7, AVX512_BF16, 0xE7},
     NK_FEATURE_FMA | NK_FEATURE_F16C,
     false,
     false},
};

static void detection_on_x86(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof x86_cpus / sizeof x86_cpus[0]; i++) {
        const uint32_t features = nk_features_x86(&x86_cpus[i].cpuid);
        if (features != x86_cpus[i].features) {
            print_error("%s: features 0x%x, should be 0x%x\n", x86_cpus[i].name, features,
                        x86_cpus[i].features);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

/* The vendor's name, in the order of CPUID's registers, has no zero at its end. */
static void intel_differs(void **state)
{
    (void)state;
    assert_true(nk_overlaps_x86("GenuineIntel"));
    assert_false(nk_overlaps_x86("AuthenticAMD"));
    assert_false(nk_overlaps_x86("HygonGenuine"));
    assert_false(nk_overlaps_x86((const char[12]){0}));
    assert_int_equal(nk_features_of_use(ALL_FEATURES, false), ALL_FEATURES);
    assert_int_equal(nk_features_of_use(ALL_FEATURES, true), ZMM_FEATURES);
    assert_int_equal(nk_llc_of_use(300, 2, true), 64);
    assert_int_equal(nk_llc_of_use(300, 2, false), 300);
    assert_int_equal(nk_llc_of_use(36, 2, true), 36);
    assert_int_equal(nk_llc_of_use(300, 0, true), 300);
    assert_int_equal(nk_llc_of_use(0, 2, true), 0);
}

static void isas_on_x86(void **state)
{
    (void)state;
#if defined __x86_64__
    int wrong = 0;
    for (size_t i = 0; i < sizeof x86_cpus / sizeof x86_cpus[0]; i++) {
        const uint32_t features = nk_features_x86(&x86_cpus[i].cpuid);
        const bool avx2 = !nk_isa_missing(NK_ISA_avx2, features);
        const bool avx512 = !nk_isa_missing(NK_ISA_avx512, features);
        if (avx2 != x86_cpus[i].avx2 || avx512 != x86_cpus[i].avx512) {
            print_error("%s: avx2 %d, avx512 %d\n", x86_cpus[i].name, avx2, avx512);
            wrong++;
        }
        assert_null(nk_isa_missing(NK_ISA_scalar, features));
        assert_non_null(nk_isa_missing(NK_ISA_neon, features));
    }
    assert_int_equal(wrong, 0);
#else
    skip();
#endif
}

static void detection_on_aarch64(void **state)
{
    (void)state;
    assert_int_equal(nk_features_aarch64(0), 0);
    assert_int_equal(nk_features_aarch64(~2ull), 0); /* everything but ASIMD */
    assert_int_equal(nk_features_aarch64(2), NK_FEATURE_ASIMD);
    assert_int_equal(nk_features_aarch64(~0ull), NK_FEATURE_ASIMD);
#if defined __aarch64__
    assert_null(nk_isa_missing(NK_ISA_neon, NK_FEATURE_ASIMD));
    assert_non_null(nk_isa_missing(NK_ISA_neon, 0));
    assert_non_null(nk_isa_missing(NK_ISA_avx2, NK_FEATURE_ASIMD));
#endif
}

/* ---- NORMKERNELS_ISA ------------------------------------------------------ */

static const char *library_path;

typedef struct library {
    const nk_provider *provider;
    const char *(*isa_error)(void);
    nk_function (*find)(const char *, const char *, const char *, const char *, const char **);
    const char *(*status_text)(nk_status);
    nk_status (*rmsnorm)(const float *, const float *, float *, size_t, size_t, float);
} library;

/* Runs in a child: says what does not hold, and ends it. */
#define CHILD_CHECK(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "NORMKERNELS_ISA=%s: does not hold: %s\n", getenv("NORMKERNELS_ISA"),  \
                    #condition);                                                                   \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static library child_load(void)
{
    void *handle = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        _exit(1);
    }
    library lib = {0};
    nk_provider_entry entry = NULL;
    *(void **)&entry = dlsym(handle, "nk_provider_v1");
    *(void **)&lib.isa_error = dlsym(handle, "nk_isa_error");
    *(void **)&lib.find = dlsym(handle, "nk_find");
    *(void **)&lib.status_text = dlsym(handle, "nk_status_text");
    *(void **)&lib.rmsnorm = dlsym(handle, "nk_rmsnorm_f32");
    CHILD_CHECK(entry && lib.isa_error && lib.find && lib.status_text && lib.rmsnorm);
    lib.provider = entry();
    CHILD_CHECK(lib.provider && lib.provider->count > 0);
    return lib;
}

/* Runs `test` in a child with NORMKERNELS_ISA set to isa, unset if NULL. */
static void in_child(void (*test)(const char *isa), const char *isa)
{
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL); /* cmocka would go on with its tests here */
        signal(SIGILL, SIG_DFL);
        if (isa)
            setenv("NORMKERNELS_ISA", isa, 1);
        else
            unsetenv("NORMKERNELS_ISA");
        test(isa);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* One row of two numbers, 3 and 4, through a kernel. */
static nk_status call_rmsnorm(nk_function function, float y[2])
{
    static const float x[2] = {3.0f, 4.0f};
    const nk_args args = {.size = sizeof args, .rows = 1, .hidden = 2, .x = x, .y = y};
    return function(&args);
}

static bool runs_here(int isa)
{
    return !nk_isa_lacking(isa);
}

static void child_is_refused(const char *isa)
{
    const library lib = child_load();
    const char *error = lib.isa_error();
    CHILD_CHECK(error != NULL);
    CHILD_CHECK(strstr(error, "NORMKERNELS_ISA") && strstr(error, isa));
    for (int i = 0; i < NK_ISAS; i++) /* it lists what there is */
        CHILD_CHECK(!runs_here(i) || strstr(error, nk_isas[i].name));
    CHILD_CHECK(lib.provider->error != NULL);
    const char *why = NULL;
    CHILD_CHECK(!lib.find("rmsnorm", NULL, "f32", NULL, &why) && why);
    CHILD_CHECK(!lib.find("rmsnorm", NULL, "f32", "scalar", NULL));
    for (size_t i = 0; i < lib.provider->count; i++) {
        const nk_kernel *kernel = &lib.provider->kernels[i];
        if (kernel->unavailable || strcmp(kernel->op, "rmsnorm") || strcmp(kernel->dtype, "f32"))
            continue;
        float y[2] = {-1.0f, -1.0f};
        const nk_status status = call_rmsnorm(kernel->function, y);
        CHILD_CHECK(status != NK_OK);
        CHILD_CHECK(*lib.status_text(status));
        CHILD_CHECK(y[0] == -1.0f && y[1] == -1.0f);
    }
    float x[2] = {3.0f, 4.0f};
    CHILD_CHECK(lib.rmsnorm(x, NULL, x, 1, 2, 0.0f) != NK_OK);
    CHILD_CHECK(x[0] == 3.0f && x[1] == 4.0f);
}

static void child_has_only(const char *isa)
{
    const library lib = child_load();
    CHILD_CHECK(lib.isa_error() == NULL);
    CHILD_CHECK(lib.provider->error == NULL);
    const nk_function best = lib.find("rmsnorm", NULL, "f32", NULL, NULL);
    CHILD_CHECK(best && best == lib.find("rmsnorm", "default", "f32", isa, NULL));
    for (size_t i = 0; i < lib.provider->count; i++) {
        const nk_kernel *kernel = &lib.provider->kernels[i];
        const bool same = !strcmp(kernel->isa, isa);
        CHILD_CHECK(same == !kernel->unavailable);
        const char *why = NULL;
        CHILD_CHECK(same ==
                    !!lib.find(kernel->op, kernel->algorithm, kernel->dtype, kernel->isa, &why));
        CHILD_CHECK(same == !why);
    }
    float y[2];
    CHILD_CHECK(call_rmsnorm(best, y) == NK_OK);
    CHILD_CHECK(y[0] > 0.848f && y[0] < 0.849f && y[1] > 1.131f && y[1] < 1.132f);
}

static void child_has_all(const char *unused)
{
    (void)unused;
    const library lib = child_load();
    CHILD_CHECK(lib.isa_error() == NULL);
    bool seen[NK_ISAS] = {false};
    for (size_t i = 0; i < lib.provider->count; i++) {
        const nk_kernel *kernel = &lib.provider->kernels[i];
        const int isa = nk_isa_index(kernel->isa);
        CHILD_CHECK(isa >= 0 && runs_here(isa) == !kernel->unavailable);
        seen[isa] |= !kernel->unavailable;
    }
    for (int i = 0; i < NK_ISAS; i++)
        CHILD_CHECK(seen[i] == runs_here(i));
    float x[2] = {3.0f, 4.0f}; /* by the best that there is, in a build of some ISAs too */
    CHILD_CHECK(lib.rmsnorm(x, NULL, x, 1, 2, 0.0f) == NK_OK);
    CHILD_CHECK(x[0] > 0.848f && x[0] < 0.849f && x[1] > 1.131f && x[1] < 1.132f);
}

static void isa_unknown(void **state)
{
    (void)state;
    in_child(child_is_refused, "avx3");
    in_child(child_is_refused, "AVX2");
    in_child(child_is_refused, "avx2 ");
    in_child(child_is_refused, "scalar,avx2");
}

static void isa_empty(void **state)
{
    (void)state;
    in_child(child_is_refused, "");
}

static void isa_unsupported(void **state)
{
    (void)state;
    int cases = 0;
    for (int i = 0; i < NK_ISAS; i++)
        if (!runs_here(i)) {
            in_child(child_is_refused, nk_isas[i].name);
            cases++;
        }
    assert_true(cases > 0); /* no CPU is of both families */
}

static void isa_valid(void **state)
{
    (void)state;
    for (int i = 0; i < NK_ISAS; i++)
        if (runs_here(i))
            in_child(child_has_only, nk_isas[i].name);
}

static void isa_unset(void **state)
{
    (void)state;
    in_child(child_has_all, NULL);
}

static bool cpu_has(int isa)
{
    return !nk_isa_missing(isa, nk_machine()->features);
}

/* The compiler's own detection is the witness; on an emulated CPU the caller
 * knows besides what there must be. */
static void isas_of_this_cpu(void **state)
{
    (void)state;
#if defined __x86_64__
    assert_int_equal(cpu_has(NK_ISA_avx2),
                     __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
    assert_int_equal(cpu_has(NK_ISA_avx512),
                     __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"));
#elif defined __aarch64__
    assert_true(cpu_has(NK_ISA_neon));
#endif
    char found[128] = "";
    for (int i = 0; i < NK_ISAS; i++)
        if (cpu_has(i)) {
            strcat(found, *found ? " " : "");
            strcat(found, nk_isas[i].name);
        }
    const char *expected = getenv("NORMBENCH_TEST_ISAS");
    assert_string_equal(found, expected ? expected : found);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s LIBRARY.so\n", argv[0]);
        return 2;
    }
    library_path = argv[1];
    unsetenv("NORMKERNELS_ISA");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(detection_on_x86), cmocka_unit_test(intel_differs),
        cmocka_unit_test(isas_on_x86),      cmocka_unit_test(detection_on_aarch64),
        cmocka_unit_test(isa_unknown),      cmocka_unit_test(isa_empty),
        cmocka_unit_test(isa_unsupported),  cmocka_unit_test(isa_valid),
        cmocka_unit_test(isa_unset),        cmocka_unit_test(isas_of_this_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
