/* SPDX-License-Identifier: Apache-2.0 */
/* Threads: that they work together, where they were told to, on rows of their
 * own; that a row is the same bits whichever of them computes it; and what calls
 * walk over.
 *   test_team LIBRARY   (libnormkernels.so) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "program.h"
#include "side.h"
#include "topology.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4 };
static const char *library;
static nb_topology topology;

static nb_team *start(size_t threads)
{
    static int cpus[THREADS];
    nb_topology_cpus(&topology, threads, cpus);
    nb_team *team = nb_team_start(cpus, threads);
    assert_non_null(team);
    return team;
}

/* ---- The team ----------------------------------------------------------- */

static size_t done[THREADS];

static void count(void *context, size_t thread)
{
    done[thread] += *(size_t *)context;
}

static void all_have_worked_when_the_work_is_done(void **state)
{
    (void)state;
    nb_team *team = start(THREADS); /* more threads than CPUs on a small machine */
    memset(done, 0, sizeof done);
    for (size_t round = 1; round <= 500; round++) {
        nb_team_run(team, count, &round);
        for (size_t i = 0; i < THREADS; i++)
            assert_int_equal(done[i], round * (round + 1) / 2);
    }
    nb_team_stop(team);
}

static void threads_that_fell_asleep_wake_up(void **state)
{
    (void)state;
    nb_team *team = start(THREADS);
    size_t one = 1;
    memset(done, 0, sizeof done);
    for (size_t round = 1; round <= 3; round++) {
        usleep(50000);
        nb_team_run(team, count, &one);
        for (size_t i = 0; i < THREADS; i++)
            assert_int_equal(done[i], round);
    }
    nb_team_stop(team);
}

static int ran_on[THREADS], bound_to[THREADS];

static void look_around(void *context, size_t thread)
{
    (void)context;
    cpu_set_t set;
    ran_on[thread] = sched_getcpu();
    bound_to[thread] = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : -1;
}

static void each_is_bound_to_its_own_cpu(void **state)
{
    (void)state;
    nb_team *team = start(THREADS);
    nb_team_run(team, look_around, NULL);
    nb_team_stop(team);
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(bound_to[i], 1);
        assert_int_equal(ran_on[i], topology.places[i % topology.place_count].cpu);
    }
}

/* The caller stays bound to one CPU; the next team has all of them again. */
static void a_cpu_that_may_not_be_used_is_refused(void **state)
{
    (void)state;
    const int far = CPU_SETSIZE - 1;
    if (CPU_ISSET((size_t)far, &topology.allowed))
        skip();
    assert_null(nb_team_start((int[]){topology.cpu, far}, 2));
    assert_null(nb_team_start((int[]){far, topology.cpu}, 2));
    nb_team_stop(start(2));
}

/* ---- Rows --------------------------------------------------------------- */

static nb_workspace_spec a_spec(int op, nk_dtype dtype, size_t rows, size_t hidden)
{
    return (nb_workspace_spec){
        .op = op, .dtype = dtype, .rows = rows, .hidden = hidden, .eps = 1e-5f, .seed = 3};
}

static void open_stage(nb_stage *stage, const nb_workspace_spec *spec, size_t threads)
{
    static int cpus[THREADS];
    nb_topology_cpus(&topology, threads, cpus);
    assert_int_equal(nb_stage_open(stage, spec, cpus, threads, 0), NB_OK);
}

static void rows_are_dealt_out_evenly(void **state)
{
    (void)state;
    const nb_workspace_spec whole = a_spec(NK_OP_rmsnorm, NK_F32, 11, 8);
    size_t next = 0;
    for (size_t i = 0; i < THREADS; i++) {
        const nb_workspace_spec share = nb_workspace_share(&whole, THREADS, i);
        assert_int_equal(share.first_row, next);
        assert_int_equal(share.rows, i < 3 ? 3 : 2);
        next += share.rows;
    }
    assert_int_equal(next, 11);
}

/* The bytes of a thread's rows of an operand are those of the whole's. */
static void assert_same_rows(const nb_stage *one, const nb_stage *several, int operand)
{
    const nb_workspace_spec *whole = &one->workspaces[0].spec;
    const char *expected = nk_operand_get(&one->workspaces[0].args[0], operand);
    for (size_t i = 0; i < several->threads; i++) {
        const nb_workspace_spec *share = &several->workspaces[i].spec;
        const char *got = nk_operand_get(&several->workspaces[i].args[0], operand);
        const size_t element = nk_operand_element_bytes(operand, whole->dtype, whole->flags);
        const size_t skipped = nk_operands[operand].shape == NK_SHAPE_COLUMN
                                   ? 0
                                   : nk_operand_elements(operand, share->first_row, share->hidden);
        const size_t elements = nk_operand_elements(operand, share->rows, share->hidden);
        for (size_t j = 0; j < i; j++)
            assert_ptr_not_equal(got, nk_operand_get(&several->workspaces[j].args[0], operand));
        assert_memory_equal(got, expected + skipped * element, elements * element);
    }
}

static bool is_over_rows(int operand)
{
    return nk_operands[operand].shape == NK_SHAPE_SUM ||
           nk_operands[operand].shape == NK_SHAPE_NUMBER;
}

static void compare_threads(const nb_variant *variant, size_t threads)
{
    const nb_workspace_spec spec = a_spec(variant->op, variant->dtype, 11, 333);
    nb_stage one, several;
    nb_side alone, together;
    open_stage(&one, &spec, 1);
    open_stage(&several, &spec, threads);
    nb_side_init(&alone, variant, &one);
    nb_side_init(&together, variant, &several);
    nb_side_run(&alone, 1);
    nb_side_run(&together, 1);
    assert_int_equal(nb_side_status(&together), NK_OK);
    for (int i = 0; i < NK_OPERANDS; i++)
        if (nk_operand_get(&one.workspaces[0].args[0], i) && !is_over_rows(i))
            assert_same_rows(&one, &several, i);
    char *wrong = nb_side_check(&together);
    assert_null(wrong);
    nb_side_free(&alone);
    nb_side_free(&together);
    nb_stage_close(&one);
    nb_stage_close(&several);
}

/* Batch invariance over threads, of every kernel that runs here. */
static void a_row_has_the_same_bits_by_any_thread(void **state)
{
    (void)state;
    nb_provider provider;
    assert_int_equal(nb_provider_open(library, &provider), NB_OK);
    size_t compared = 0;
    for (size_t i = 0; i < provider.table->count; i++) {
        nb_variant variant;
        const nk_kernel *k = &provider.table->kernels[i];
        if (k->unavailable || !nb_variant_of(&provider, k, &variant))
            continue;
        compare_threads(&variant, 2);
        compared++;
    }
    assert_true(compared >= NK_OPS * NK_DTYPES);
    nb_provider_unload(&provider);
}

/* ---- Sets --------------------------------------------------------------- */

enum { SETS = 24 };
static const void *seen[3 * SETS];
static size_t calls;

static nk_status remember(const nk_args *args)
{
    seen[calls++] = args->gamma;
    seen[calls++] = args->x;
    seen[calls++] = args->y;
    return NK_OK;
}

/* Two sides in turn: what one has just left in the caches, the other must not find. */
static void calls_walk_over_every_set_of_operands(void **state)
{
    (void)state;
    static const nk_kernel kernel = {"rmsnorm", "default", "f32", "fake", NULL, remember};
    static const nb_provider nobody;
    nb_variant variant;
    assert_true(nb_variant_of(&nobody, &kernel, &variant));
    nb_workspace_spec spec = a_spec(NK_OP_rmsnorm, NK_F32, 2, 64);
    spec.sets = SETS;
    nb_stage stage;
    nb_side sides[2];
    open_stage(&stage, &spec, 1);
    nb_side_init(&sides[0], &variant, &stage);
    nb_side_init(&sides[1], &variant, &stage);
    calls = 0;
    for (size_t i = 0; calls < 3 * SETS; i++)
        nb_side_run(&sides[i % 2], SETS / 4);
    assert_int_equal(calls, 3 * SETS);
    for (size_t i = 0; i < 3 * SETS; i++)
        for (size_t j = 0; j < i; j++)
            assert_ptr_not_equal(seen[i], seen[j]);
    const void *first = seen[0];
    assert_memory_not_equal(seen[0], seen[3], 64 * sizeof(float)); /* another layer's gamma */
    calls = 0;
    nb_side_run(&sides[0], 1); /* and begins anew */
    assert_ptr_equal(seen[0], first);
    nb_side_free(&sides[0]);
    nb_side_free(&sides[1]);
    nb_stage_close(&stage);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_have_worked_when_the_work_is_done),
        cmocka_unit_test(threads_that_fell_asleep_wake_up),
        cmocka_unit_test(each_is_bound_to_its_own_cpu),
        cmocka_unit_test(a_cpu_that_may_not_be_used_is_refused),
        cmocka_unit_test(rows_are_dealt_out_evenly),
        cmocka_unit_test(a_row_has_the_same_bits_by_any_thread),
        cmocka_unit_test(calls_walk_over_every_set_of_operands),
    };
    if (argc != 2)
        return nb_fail(NB_USAGE, "usage: test_team LIBRARY");
    library = argv[1];
    nb_topology_load(&topology);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
