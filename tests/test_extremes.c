/* SPDX-License-Identifier: Apache-2.0 */
/* What is large, small or exact: DyT's tanh in ulp over floats of every magnitude, how
 * results are rounded to 16 bits, a million columns, rows more than 2^31 elements apart, a
 * thread's stack. */
#include "harness.h"
#include "result.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const nk_provider *provider;

static bool runs(const nk_kernel *k, const char *op, const char *dtype)
{
    return !k->unavailable && strcmp(k->op, op) == 0 && strcmp(k->dtype, dtype) == 0;
}

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double ulps(float got, double expected)
{
    const float nearest = fabsf((float)expected);
    if (isnan(expected))
        return isnan(got) ? 0 : INFINITY;
    return fabs((double)got - expected) / (double)(nextafterf(nearest, INFINITY) - nearest);
}

static void tanh_is_within_4_ulp_of_every_magnitude(void **state)
{
    (void)state;
    enum { COUNT_OF_X = 1 << 16 };
    const float named[] = {0, 1e-40f, 1e-8f, 1e-4f, 9, 44, 45, 61, 88, 1e4f, INFINITY, NAN};
    static float x[COUNT_OF_X + 2 * COUNT(named)], y[COUNT(x)];
    for (uint32_t i = 0; i < COUNT_OF_X; i++)
        x[i] = float_of_bits(i << 16 | (i * 40503u & 0xFFFF));
    for (size_t i = 0; i < COUNT(named); i++) {
        x[COUNT_OF_X + 2 * i] = named[i];
        x[COUNT_OF_X + 2 * i + 1] = -named[i];
    }
    for (size_t k = 0; k < provider->count; k++) {
        if (!runs(&provider->kernels[k], "dyt", "f32"))
            continue;
        const nk_args a = {
            .size = sizeof a, .rows = 1, .hidden = COUNT(x), .x = x, .y = y, .alpha = 1};
        assert_int_equal(provider->kernels[k].function(&a), NK_OK);
        for (size_t i = 0; i < COUNT(x); i++)
            if (!(ulps(y[i], tanh((double)x[i])) <= 4))
                fail_msg("dyt/%s on %s: tanh(%.9g) is %.9g, not %.9g, %.1f ulp off",
                         provider->kernels[k].algorithm, provider->kernels[k].isa, (double)x[i],
                         (double)y[i], tanh((double)x[i]), ulps(y[i], tanh((double)x[i])));
    }
}

/* Every upper half of a float, with lower halves at a tie or beside one. */
enum { UPPER_HALVES = 1 << 16 };
static const uint16_t lower_halves[] = {0,      1,      0x0FFF, 0x1000, 0x1001,
                                        0x3000, 0x7FFF, 0x8000, 0x8001, 0xFFFF};

static void check_rounded(const nk_kernel *k, const char *operand, const uint16_t *got,
                          const float *exact, size_t count, nk_dtype dtype)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t expected;
        nk_from_float(&expected, 0, dtype, exact[i]);
        if (isnan(exact[i]) ? !isnan(nk_to_float(got, i, dtype)) : got[i] != expected)
            fail_msg("%s %s on %s: %s of %a is 0x%04X, not 0x%04X", k->op, k->dtype, k->isa,
                     operand, (double)exact[i], got[i], expected);
    }
}

/* RMSNorm of ones without eps gives gamma. */
static void results_are_rounded_to_even(void **state)
{
    (void)state;
    enum { HIDDEN = 1 << 20 }; /* a power of 2: then the mean square is 1 */
    float *gamma = calloc(HIDDEN, sizeof *gamma);
    uint16_t *x = malloc(HIDDEN * sizeof *x), *y = malloc(HIDDEN * sizeof *y);
    assert_true(gamma && x && y && COUNT(lower_halves) * UPPER_HALVES <= HIDDEN);
    for (uint32_t i = 0; i < COUNT(lower_halves) * UPPER_HALVES; i++)
        gamma[i] = float_of_bits(i << 16 | lower_halves[i / UPPER_HALVES]);
    for (nk_dtype dtype = NK_BF16; dtype <= NK_F16; dtype++) {
        for (size_t i = 0; i < HIDDEN; i++)
            nk_from_float(x, i, dtype, 1);
        const nk_args a = {.size = sizeof a,
                           .rows = 1,
                           .hidden = HIDDEN,
                           .x = x,
                           .gamma = gamma,
                           .y = y,
                           .flags = NK_PARAMS_F32};
        for (size_t k = 0; k < provider->count; k++) {
            if (!runs(&provider->kernels[k], "rmsnorm", nk_dtypes[dtype].name))
                continue;
            assert_int_equal(provider->kernels[k].function(&a), NK_OK);
            check_rounded(&provider->kernels[k], "y", y, gamma, HIDDEN, dtype);
        }
    }
    free(gamma);
    free(x);
    free(y);
}

/* Where the residual is about half a unit of x, on both sides. */
static void sums_are_rounded_to_even(void **state)
{
    (void)state;
    static const float halves[] = {0.5f, 0.5f * (1 + 0x1p-7f), 0.5f * (1 - 0x1p-8f), 1.5f};
    enum { HIDDEN = 2 * COUNT(halves) * UPPER_HALVES };
    uint16_t *x = malloc(HIDDEN * sizeof *x), *residual = malloc(HIDDEN * sizeof *residual);
    uint16_t *h = malloc(HIDDEN * sizeof *h), *y = malloc(HIDDEN * sizeof *y);
    float *exact = malloc(HIDDEN * sizeof *exact);
    assert_true(x && residual && h && y && exact);
    for (nk_dtype dtype = NK_BF16; dtype <= NK_F16; dtype++) {
        const int digits = nk_dtypes[dtype].digits;
        for (size_t i = 0; i < HIDDEN; i++) {
            x[i] = (uint16_t)i;
            const float v = nk_to_float(x, i, dtype), share = halves[i / UPPER_HALVES / 2];
            const float unit = isfinite(v) && v != 0 ? ldexpf(1, ilogbf(v) - digits + 1) : 1;
            nk_from_float(residual, i, dtype, i / UPPER_HALVES % 2 ? share * unit : -share * unit);
            exact[i] = v + nk_to_float(residual, i, dtype);
        }
        const nk_args a = {.size = sizeof a,
                           .rows = 1,
                           .hidden = HIDDEN,
                           .x = x,
                           .residual = residual,
                           .h = h,
                           .y = y,
                           .eps = 1e-5f};
        nk_args sum = a;
        sum.y = NULL;
        sum.eps = 0;
        for (size_t k = 0; k < provider->count; k++) {
            const nk_kernel *kernel = &provider->kernels[k];
            const bool alone = runs(kernel, "residual_add", nk_dtypes[dtype].name);
            if (!alone && !runs(kernel, "add_rmsnorm", nk_dtypes[dtype].name))
                continue;
            assert_int_equal(kernel->function(alone ? &sum : &a), NK_OK);
            check_rounded(kernel, "h", h, exact, HIDDEN, dtype);
        }
    }
    free(x);
    free(residual);
    free(h);
    free(y);
    free(exact);
}

/* Maps without taking memory until it is touched; NULL if that is not to be had. */
static float *reserve(size_t elements)
{
    float *p = mmap(NULL, elements * sizeof *p, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static void rows_may_lie_more_than_2_31_elements_apart(void **state)
{
    (void)state;
    enum { HIDDEN = 100 };
    const size_t ld = ((size_t)1 << 31) + 64;
    float *x = reserve(ld + HIDDEN), *y = reserve(ld + HIDDEN), near[HIDDEN];
    if (!x || !y)
        skip();
    for (size_t i = 0; i < HIDDEN; i++)
        x[i] = x[ld + i] = normal(1, i);
    for (size_t k = 0; k < provider->count; k++) {
        if (!runs(&provider->kernels[k], "rmsnorm", "f32") &&
            !runs(&provider->kernels[k], "layernorm", "f32"))
            continue;
        nk_args a = {
            .size = sizeof a, .rows = 1, .hidden = HIDDEN, .x = x, .y = near, .eps = 1e-5f};
        assert_int_equal(provider->kernels[k].function(&a), NK_OK);
        a.rows = 2;
        a.y = y;
        a.x_ld = a.y_ld = ld;
        assert_int_equal(provider->kernels[k].function(&a), NK_OK);
        assert_memory_equal(y, near, sizeof near);
        assert_memory_equal(y + ld, near, sizeof near);
    }
    munmap(x, (ld + HIDDEN) * sizeof *x);
    munmap(y, (ld + HIDDEN) * sizeof *y);
}

static void check_problem(problem *p)
{
    const layout plain = {0};
    problem_expect(p);
    for (const nk_kernel *k = kernel_next(p, NULL); k; k = kernel_next(p, k)) {
        result r;
        run(k, p, &plain, &r);
        check_result(p, &r);
        result_free(&r);
    }
}

static void a_million_columns(void **state)
{
    (void)state;
    test_begin("a_million_columns");
    each_problem(check_problem, (const size_t[]){1, 0}, (const size_t[]){1 << 20, 0});
    test_end();
}

/* The 70 KB that the header promises, and some for the thread itself; or as little as a
 * thread may have (AArch64: 128 KB). What lies below is not there for a frame to step over. */
enum { LITTLE_STACK = 80 << 10, NO_STACK = 1 << 20 };
static char *stack;

static size_t stack_bytes(void)
{
    const long least = sysconf(_SC_THREAD_STACK_MIN);
    return least > LITTLE_STACK ? (size_t)least : LITTLE_STACK;
}

static void *call_kernels(void *problem_of_thread)
{
    problem *p = problem_of_thread;
    const layout plain = {0};
    nk_args args;
    for (const nk_kernel *k = kernel_next(p, NULL); k; k = kernel_next(p, k)) {
        layout_place(p, &plain, &args);
        if (k->function(&args) != NK_OK)
            return p;
    }
    return NULL;
}

static void check_in_little_stack(problem *p)
{
    pthread_attr_t attributes;
    pthread_t thread;
    void *refused;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstack(&attributes, stack + NO_STACK, stack_bytes()), 0);
    assert_int_equal(pthread_create(&thread, &attributes, call_kernels, p), 0);
    assert_int_equal(pthread_join(thread, &refused), 0);
    assert_null(refused);
    pthread_attr_destroy(&attributes);
}

/* Sanitizers widen frames. */
static void a_thread_with_little_stack(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip();
#endif
    const size_t bytes = NO_STACK + stack_bytes();
    stack = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(stack != MAP_FAILED);
    assert_int_equal(mprotect(stack + NO_STACK, stack_bytes(), PROT_READ | PROT_WRITE), 0);
    test_begin("a_thread_with_little_stack");
    each_problem(check_in_little_stack, (const size_t[]){9, 0}, (const size_t[]){100, 0});
    test_end();
    munmap(stack, bytes);
}

int main(int argc, char **argv)
{
    provider = harness_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tanh_is_within_4_ulp_of_every_magnitude),
        cmocka_unit_test(results_are_rounded_to_even),
        cmocka_unit_test(sums_are_rounded_to_even),
        cmocka_unit_test(a_million_columns),
        cmocka_unit_test(rows_may_lie_more_than_2_31_elements_apart),
        cmocka_unit_test(a_thread_with_little_stack),
    };
    return harness_end(cmocka_run_group_tests_name("extremes", tests, NULL, NULL));
}
