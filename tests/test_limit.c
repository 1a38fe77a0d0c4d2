/* SPDX-License-Identifier: Apache-2.0 */
/* The least time of a call, on a machine whose paces are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "limit.h"

#include <math.h>
#include <stdlib.h>

enum { K = 1 << 10, M = 1 << 20 };

/* One core: 32K, 1M, 32M. */
static nb_topology machine;
static nb_limits limits;

static int make_machine(void **state)
{
    (void)state;
    machine = (nb_topology){.cores_allowed = 2, .place_count = 2};
    machine.caches[NB_CACHE_L1D] = (nb_cache){32 * K, 1};
    machine.caches[NB_CACHE_L2] = (nb_cache){1 * M, 1};
    machine.caches[NB_CACHE_L3] = (nb_cache){32 * M, 2};
    machine.places[0] = (nb_place){.cpu = 1, .cache = {1, 1, 0}};
    machine.places[1] = (nb_place){.cpu = 0, .cache = {0, 0, 0}};
    limits = (nb_limits){.topology = &machine};
    limits.runs[NK_ISA_scalar] = limits.runs[nb_limits_loops(-1)->isa] = true;
    return 0;
}

static int free_limits(void **state)
{
    (void)state;
    nb_limits_free(&limits);
    return 0;
}

static const nb_provider ours, stranger = {.foreign = true};
static const nk_kernel kernels[] = {{"rmsnorm", "default", "f32", "scalar", NULL, NULL},
                                    {"layernorm", "default", "f32", "scalar", NULL, NULL},
                                    {"residual_add", "default", "f32", "scalar", NULL, NULL}};

static nb_variant a_variant(const nb_provider *provider, const nk_kernel *kernel)
{
    nb_variant variant;
    assert_true(nb_variant_of(provider, kernel, &variant));
    return variant;
}

static nb_shape a_shape(const nb_variant *v, size_t rows, size_t hidden)
{
    const nb_workspace_spec spec = {.op = v->op, .rows = rows, .hidden = hidden, .sets = 1};
    return (nb_shape){.spec = spec, .threads = 1, .working_set_bytes = nb_workspace_bytes(&spec)};
}

/* Every pace that was asked for: `slots` bytes a nanosecond in L1, `beyond` there,
 * and `flops`. */
static void set_paces(double slots, double beyond, double flops)
{
    for (size_t i = 0; i < limits.count; i++) {
        nb_pace *p = &limits.paces[i];
        for (size_t f = 0; f < NB_FLOWS; f++)
            p->flow[f] = p->isa < 0 ? beyond : slots;
        p->flops_per_ns = p->isa < 0 ? 0 : flops;
        p->latency_ns = p->isa < 0 ? 0 : 20;
    }
}

static nb_limit limit_at(const nb_variant *v, const nb_shape *shape, double slots, double beyond,
                         double flops)
{
    nb_limits_want(&limits, v, shape);
    set_paces(slots, beyond, flops);
    return nb_limits_of(&limits, v, shape);
}

static void assert_limit(nb_limit got, enum nb_limit_kind kind, double ns)
{
    assert_int_equal(got.kind, kind);
    assert_true(fabs(got.ns - ns) < 1e-9 * ns);
}

static void a_call_contains_a_load_a_store_a_copy_and_a_sum(void **state)
{
    (void)state;
    const nb_pace p = {
        .flow = {
            [NB_LOAD] = 10, [NB_STORE] = 4, [NB_COPY] = 5, [NB_ADD] = 6, [NB_STREAM_COPY] = 8}};
    assert_true(nb_limits_flow_ns(&p, 100, 0) == 10);
    assert_true(nb_limits_flow_ns(&p, 0, 100) == 25);
    assert_true(nb_limits_flow_ns(&p, 100, 100) == 25); /* the copy streams: 200 / 8 */
    assert_true(nb_limits_flow_ns(&p, 200, 100) == 50); /* 300 / 6 */
    assert_true(nb_limits_flow_ns(&p, 900, 100) == 90);
}

static void in_l1_slots_or_flops_bind(void **state)
{
    (void)state;
    const nb_variant v = a_variant(&ours, &kernels[0]);
    const nb_shape shape = a_shape(&v, 2, 512);
    const double read = (2 + 1) * 512 * 4, again = 2 * (512 * 4 - 32 * 4);
    assert_limit(limit_at(&v, &shape, 4, 1, 1e9), NB_LIMIT_SLOTS, (read + again) / 4);
    assert_limit(limit_at(&v, &shape, 4, 1, 1), NB_LIMIT_FLOPS, 2 * 512 * 4); /* gamma's included */
}

static void lines_bind_in_l2_and_bytes_beyond(void **state)
{
    (void)state;
    const nb_variant v = a_variant(&ours, &kernels[2]);
    const nb_shape l2 = a_shape(&v, 64, 512), far = a_shape(&v, 1 << 16, 512);
    assert_limit(limit_at(&v, &l2, 100, 10, 1e9), NB_LIMIT_LINES, 3 * 64 * 512 * 4 / 10.0);
    limit_at(&v, &far, 100, 10, 1e9);
    for (size_t i = 0; i < limits.count; i++) /* memory is slower than L2 */
        if (limits.paces[i].bytes > 32 * M)
            for (size_t f = 0; f < NB_FLOWS; f++)
                limits.paces[i].flow[f] = 2;
    assert_limit(nb_limits_of(&limits, &v, &far), NB_LIMIT_BYTES, 3.0 * (1 << 16) * 512 * 4 / 2);
}

/* What may have stayed in L1 is not counted: a limit has no step at its size. */
static void just_beyond_a_cache_little_must_enter(void **state)
{
    (void)state;
    const nb_variant v = a_variant(&ours, &kernels[2]);
    const nb_shape shape = a_shape(&v, 1, 32 * K / 12 + 32); /* 32K and 392 bytes */
    const double excess = (double)(shape.working_set_bytes - 32 * K);
    assert_limit(limit_at(&v, &shape, 1e9, 0.1, 1e18), NB_LIMIT_LINES, excess / 0.1);
}

static void a_row_that_l1_cannot_hold_enters_twice(void **state)
{
    (void)state;
    const nb_variant v = a_variant(&ours, &kernels[0]);
    const nb_shape shape = a_shape(&v, 2, 32 * K);
    const double row = 32 * K * 4, read = 3 * row + 2 * (row - 32 * K);
    nb_limits_want(&limits, &v, &shape);
    set_paces(1e9, 1e9, 1e18);
    for (size_t i = 0; i < limits.count; i++)
        if (limits.paces[i].isa < 0)
            limits.paces[i].flow[NB_LOAD] = 10;
    assert_limit(nb_limits_of(&limits, &v, &shape), NB_LIMIT_LINES, read / 10);
}

static void a_strangers_isa_is_but_a_name(void **state)
{
    (void)state;
    const nb_variant v = a_variant(&stranger, &kernels[1]);
    const nb_shape shape = a_shape(&v, 2, 512);
    const nb_limit limit = limit_at(&v, &shape, 4, 1, 1e-9);
    assert_int_equal(limit.kind, NB_LIMIT_SLOTS); /* its flops are unknown */
    assert_int_equal(limits.count, 1);
    assert_int_equal(limits.paces[0].isa, nb_limits_loops(-1)->isa);
}

/* Threads that wait for one another's CPU have no pace. */
static void more_threads_than_cpus_have_no_limit(void **state)
{
    (void)state;
    const nb_variant v = a_variant(&ours, &kernels[0]);
    nb_shape shape = a_shape(&v, 6, 512);
    shape.threads = 2;
    assert_int_equal(limit_at(&v, &shape, 4, 1, 1e9).kind, NB_LIMIT_SLOTS);
    shape.threads = 3;
    assert_int_equal(limit_at(&v, &shape, 4, 1, 1e9).kind, NB_LIMIT_UNKNOWN);
}

static void what_is_not_known_is_no_limit(void **state)
{
    (void)state;
    const nb_variant v = a_variant(&ours, &kernels[2]);
    const nb_shape shape = a_shape(&v, 64, 512);
    assert_int_equal(nb_limits_of(&limits, &v, &shape).kind, NB_LIMIT_UNKNOWN);
    assert_true(isnan(nb_limits_of(&limits, &v, &shape).ns));
    machine.caches[NB_CACHE_L1D].bytes = machine.caches[NB_CACHE_L2].bytes =
        machine.caches[NB_CACHE_L3].bytes = 0;
    assert_limit(limit_at(&v, &shape, 4, 1e-9, 1e9), NB_LIMIT_SLOTS, 2 * 64 * 512 * 4 / 4);
}

/* More work is no excuse. */
static void a_limit_is_the_operations(void **state)
{
    (void)state;
    static const nk_kernel welford = {"layernorm", "welford", "f32", "scalar", NULL, NULL};
    const nb_variant fast = a_variant(&ours, &kernels[1]), slow = a_variant(&ours, &welford);
    const nb_shape shape = a_shape(&fast, 2, 768);
    const nb_limit one = limit_at(&fast, &shape, 1e3, 1e3, 1);
    const nb_limit other = limit_at(&slow, &shape, 1e3, 1e3, 1);
    assert_int_equal(one.kind, NB_LIMIT_FLOPS);
    assert_true(one.ns == other.ns);
}

int main(void)
{
#define LIMIT_TEST(name) cmocka_unit_test_setup_teardown(name, make_machine, free_limits)
    const struct CMUnitTest tests[] = {
        LIMIT_TEST(a_call_contains_a_load_a_store_a_copy_and_a_sum),
        LIMIT_TEST(in_l1_slots_or_flops_bind),
        LIMIT_TEST(lines_bind_in_l2_and_bytes_beyond),
        LIMIT_TEST(just_beyond_a_cache_little_must_enter),
        LIMIT_TEST(a_row_that_l1_cannot_hold_enters_twice),
        LIMIT_TEST(a_strangers_isa_is_but_a_name),
        LIMIT_TEST(a_limit_is_the_operations),
        LIMIT_TEST(more_threads_than_cpus_have_no_limit),
        LIMIT_TEST(what_is_not_known_is_no_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
