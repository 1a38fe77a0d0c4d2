/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine's caches and cores make of a question: rows by level, sets of
 * operands, shares of threads, the machine's hash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "level.h"
#include "machine.h"
#include "models.h"
#include "program.h"
#include "shapes.h"
#include "topology.h"

#include <stdlib.h>

/* ---- Levels ------------------------------------------------------------- */

static nb_topology a_machine(size_t l1, size_t l2, size_t l3)
{
    nb_topology t = {.cpu_name = "X", .cores = 4, .cpu = 0};
    t.caches[NB_CACHE_L1D] = (nb_cache){l1, 1};
    t.caches[NB_CACHE_L2] = (nb_cache){l2, 1};
    t.caches[NB_CACHE_L3] = (nb_cache){l3, 4};
    t.place_count = t.cores_allowed = 4;
    for (int i = 0; i < 4; i++)
        t.places[i] = (nb_place){.cpu = 3 - i, .cache = {i, i, 0}};
    return t;
}

static void rows_lie_in_their_level(void **state)
{
    (void)state;
    const nb_topology t = a_machine(32 << 10, 1 << 20, 32 << 20);
    for (size_t hidden = 64; hidden <= 16384; hidden *= 2)
        for (enum nb_level level = NB_L1; level < NB_LEVELS; level++) {
            char *reason;
            const size_t fixed = 2 * 4 * hidden, row = 2 * 4 * hidden;
            for (size_t threads = 1; threads <= 3; threads++) {
                const size_t rows = nb_level_rows(&t, level, threads, fixed, row, &reason);
                assert_true((rows == 0) == (reason != NULL));
                if (rows)
                    assert_int_equal(nb_level_of(&t, threads, fixed + rows * row), level);
                free(reason);
            }
        }
}

/* Small pages lie anywhere, and a half-full L2 has sets that overflow. */
static void l2_is_filled_to_a_quarter_but_beyond_l1(void **state)
{
    (void)state;
    char *reason;
    nb_topology t = a_machine(32 << 10, 512 << 10, 32 << 20);
    assert_int_equal(nb_level_rows(&t, NB_L2, 1, 1024, 1024, &reason), 127);
    assert_int_equal(nb_level_rows(&t, NB_L2, 1, 200 << 10, 100 << 10, &reason), 1);
    t = a_machine(64 << 10, 256 << 10, 32 << 20);
    assert_int_equal(nb_level_rows(&t, NB_L2, 1, 1024, 1024, &reason), 127);
}

static void a_huge_l3_is_not_filled(void **state)
{
    (void)state;
    char *reason;
    nb_topology t = a_machine(48 << 10, 2 << 20, 300 << 20);
    assert_int_equal(nb_level_rows(&t, NB_L3, 1, 1024, 1024, &reason), 16 * 1024 - 1);
    t = a_machine(48 << 10, 0, 32 << 20); /* its L2 is unknown */
    assert_int_equal(nb_level_rows(&t, NB_L3, 1, 1024, 1024, &reason), 8 * 1024 - 1);
}

static void a_level_that_cannot_be_had_says_why(void **state)
{
    (void)state;
    char *reason;
    nb_topology t = a_machine(32 << 10, 1 << 20, 2 << 20);
    assert_int_equal(nb_level_rows(&t, NB_L1, 1, 32 << 10, 32 << 10, &reason), 0);
    assert_string_equal(reason, "a row takes 64K");
    free(reason);
    assert_int_equal(nb_level_rows(&t, NB_L3, 1, 1024, 1024, &reason), 0);
    assert_string_equal(reason, "L3 < 4 x L2");
    free(reason);
    t.memory_available_bytes = 4 << 20;
    assert_int_equal(nb_level_rows(&t, NB_MEMORY, 1, 1024, 1024, &reason), 0);
    assert_string_equal(reason, "too little memory");
    free(reason);
    t = a_machine(32 << 10, 1 << 20, 0);
    assert_int_equal(nb_level_rows(&t, NB_L3, 1, 1024, 1024, &reason), 0);
    assert_string_equal(reason, "there is no L3");
    free(reason);
    t = a_machine(0, 0, 0);
    assert_int_equal(nb_level_rows(&t, NB_MEMORY, 1, 1024, 1024, &reason), 0);
    assert_string_equal(reason, "its size is unknown");
    free(reason);
    assert_int_equal(nb_level_of(&t, 1, 1024), -1);
}

static void threads_share_what_caches_they_have_in_common(void **state)
{
    (void)state;
    nb_topology t = a_machine(32 << 10, 1 << 20, 32 << 20), unknown = a_machine(0, 0, 0);
    assert_int_equal(nb_topology_llc_share(&t, 1), 32 << 20);
    assert_int_equal(nb_topology_llc_share(&t, 2), 16 << 20);
    assert_int_equal(nb_topology_llc_share(&unknown, 1), 0);
    assert_int_equal(nb_topology_share(&t, NB_CACHE_L2, 4), 1 << 20);
    assert_int_equal(nb_topology_share(&t, NB_CACHE_L2, 6), 1 << 19); /* two on a core */
    t.places[2].cache[NB_CACHE_L3] = t.places[3].cache[NB_CACHE_L3] = 1;
    assert_int_equal(nb_topology_llc_share(&t, 2), 16 << 20);
    assert_int_equal(nb_topology_llc_share(&t, 4), 16 << 20);
    t.places[1].cache[NB_CACHE_L3] = 1; /* three share the second */
    assert_int_equal(nb_topology_llc_share(&t, 4), (32 << 20) / 3);
}

static void threads_are_no_more_than_cores_and_quota(void **state)
{
    (void)state;
    nb_topology t = a_machine(1, 1, 1);
    assert_int_equal(nb_topology_threads(&t), 4);
    t.cores_allowed = 2; /* two siblings each */
    assert_int_equal(nb_topology_threads(&t), 2);
    t.quota_cpus = 1.9;
    assert_int_equal(nb_topology_threads(&t), 1);
    t.quota_cpus = 0.5;
    assert_int_equal(nb_topology_threads(&t), 1);
    t.quota_cpus = 8;
    assert_int_equal(nb_topology_threads(&t), 2);
    int cpus[6];
    nb_topology_cpus(&t, 6, cpus);
    const int expected[] = {3, 2, 1, 0, 3, 2};
    assert_memory_equal(cpus, expected, sizeof cpus);
}

/* ---- Shapes ------------------------------------------------------------- */

/* The one shape that these options leave. */
static nb_shape only_shape(const nb_topology *t, nb_options options, size_t rows, nb_shapes *shapes)
{
    char *llama[] = {"llama-2-7b"};
    size_t hidden = 4096, mode = NB_ROTATE;
    options.model = (nb_names){llama, 1};
    options.hidden = (nb_sizes){&hidden, 1};
    options.rows = (nb_sizes){&rows, 1};
    options.mode = (nb_sizes){&mode, 1};
    *shapes = (nb_shapes){0};
    assert_int_equal(nb_shapes_add(shapes, &options, t, NK_OP_rmsnorm, 0, NK_F32), NB_OK);
    assert_int_equal(shapes->count, 1);
    return shapes->items[0];
}

static void a_rotation_has_a_set_for_each_norm_of_the_model(void **state)
{
    (void)state;
    const nb_topology t = a_machine(32 << 10, 1 << 20, 32 << 20);
    const nb_model *llama = nb_model_find("llama-2-7b");
    nb_shapes shapes;
    const nb_shape shape = only_shape(&t, (nb_options){0}, 1, &shapes);
    assert_int_equal(shape.spec.sets, llama->layers * llama->norms);
    assert_int_equal(shape.working_set_bytes, shape.spec.sets * 3 * 4096 * sizeof(float));
    assert_int_equal(shape.level, NB_L3);
    nb_shapes_free(&shapes);
}

static void a_model_that_does_not_fit_is_left_out(void **state)
{
    (void)state;
    nb_topology t = a_machine(32 << 10, 1 << 20, 32 << 20);
    t.memory_bytes = (size_t)8 << 30;
    t.memory_available_bytes = 4 << 20;
    nb_shapes shapes;
    assert_string_equal(only_shape(&t, (nb_options){0}, 1, &shapes).skipped, "too little memory");
    nb_shapes_free(&shapes);
}

static void threads_have_operands_each(void **state)
{
    (void)state;
    nb_topology t = a_machine(32 << 10, 1 << 20, 32 << 20);
    size_t four = 4, all = NB_ALL_THREADS;
    nb_shapes shapes;
    nb_shape shape = only_shape(&t, (nb_options){.threads = {&four, 1}}, 6, &shapes);
    assert_int_equal(shape.threads, 4);
    assert_int_equal(shape.working_set_bytes, shape.spec.sets * (2 * 6 + 4) * 4096 * sizeof(float));
    nb_shapes_free(&shapes);
    t.quota_cpus = 2;
    shape = only_shape(&t, (nb_options){.threads = {&all, 1}}, 6, &shapes);
    assert_int_equal(shape.threads, 2);
    nb_shapes_free(&shapes);
    shape = only_shape(&t, (nb_options){.threads = {&four, 1}, .oversubscribe = true}, 3, &shapes);
    assert_string_equal(shape.skipped, "rows < 4 threads");
    nb_shapes_free(&shapes);
}

/* ---- The machine file --------------------------------------------------- */

static void the_hash_is_of_cpu_caches_and_cores(void **state)
{
    (void)state;
    nb_topology t = a_machine(1, 2, 3);
    char hash[NB_HASH_BYTES], other[NB_HASH_BYTES];
    nb_machine_hash(&t, hash);
    t.cpus_allowed = 1; /* an affinity is no other machine */
    t.core_hz = 1e9;
    nb_machine_hash(&t, other);
    assert_string_equal(hash, other);
    t.caches[NB_CACHE_L2].bytes++;
    nb_machine_hash(&t, other);
    assert_string_not_equal(hash, other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_lie_in_their_level),
        cmocka_unit_test(l2_is_filled_to_a_quarter_but_beyond_l1),
        cmocka_unit_test(a_huge_l3_is_not_filled),
        cmocka_unit_test(a_level_that_cannot_be_had_says_why),
        cmocka_unit_test(threads_share_what_caches_they_have_in_common),
        cmocka_unit_test(threads_are_no_more_than_cores_and_quota),
        cmocka_unit_test(a_rotation_has_a_set_for_each_norm_of_the_model),
        cmocka_unit_test(a_model_that_does_not_fit_is_left_out),
        cmocka_unit_test(threads_have_operands_each),
        cmocka_unit_test(the_hash_is_of_cpu_caches_and_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
