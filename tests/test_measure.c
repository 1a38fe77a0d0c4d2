/* SPDX-License-Identifier: Apache-2.0 */
/* What measures, apart from the clock: the paired engine on a clock of its
 * own, estimates, the CSV, quotas, binding, options. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "csv.h"
#include "machine.h"
#include "paired.h"
#include "program.h"
#include "sweep.h"
#include "topology.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- The paired engine -------------------------------------------------- */

static double fake_ns;
static char trace[1 << 16];
static size_t traced;

static double fake_now(void)
{
    return fake_ns;
}

typedef struct fake {
    char letter;
    double cost_ns;
} fake;

static void fake_run(void *context, size_t calls)
{
    const fake *f = context;
    for (size_t i = 0; i < calls; i++) {
        if (traced + 1 < sizeof trace)
            trace[traced++] = f->letter;
        fake_ns += f->cost_ns;
    }
}

/* The machine slows down as time goes by. */
static void drifting_run(void *context, size_t calls)
{
    const fake *f = context;
    for (size_t i = 0; i < calls; i++)
        fake_ns += f->cost_ns * (1 + fake_ns * 1e-8);
}

static nb_paired_result measure_fakes(fake *fakes, size_t count, void (*run)(void *, size_t),
                                      double budget_ns, size_t pairs)
{
    nb_participant participants[NB_PARTICIPANTS];
    for (size_t i = 0; i < count; i++)
        participants[i] = (nb_participant){.run = run, .context = &fakes[i]};
    const nb_paired plan = {participants, count, pairs, 20000, budget_ns, fake_now};
    nb_paired_result result;
    fake_ns = 0;
    traced = 0;
    nb_paired_measure(&plan, &result);
    trace[traced] = '\0';
    return result;
}

/* "AAB" as "A2B1": calls in a row. */
static void compress(const char *calls, char *out)
{
    while (*calls) {
        const size_t n = strspn(calls, (char[]){*calls, '\0'});
        out += sprintf(out, "%c%zu", *calls, n);
        calls += n;
    }
}

static void batches_form_palindromes(void **state)
{
    (void)state;
    fake fakes[] = {{'A', 5000}, {'B', 20000}, {'C', 40000}};
    const nb_paired_result r = measure_fakes(fakes, 3, fake_run, 1, 1);
    char batches[256];
    compress(trace, batches);
    /* Calibration (A: 1 call, then five times 2), then the one round; before more than
     * one call three that are not timed. */
    assert_string_equal(batches, "A26B5C5A7B1C2B1A7");
    assert_int_equal(r.pairs, 1);
    assert_int_equal(r.rounds[0], 1);
    assert_int_equal(r.batch[0], 4);
    assert_int_equal(r.batch[1], 1);
    assert_int_equal(r.batch[2], 1);
    assert_true(r.time_ns[0][0] == 5000 && r.time_ns[0][1] == 20000 && r.time_ns[0][2] == 40000);
}

/* An interrupt, or threads that were asleep. */
static void hindered_run(void *context, size_t calls)
{
    const fake *f = context;
    fake_ns += f->cost_ns * (double)calls + (fake_ns == 0 ? 50000 : 0);
}

static void one_slow_call_is_no_calibration(void **state)
{
    (void)state;
    fake fakes[] = {{'A', 1000}};
    assert_int_equal(measure_fakes(fakes, 1, hindered_run, 1, 1).batch[0], 20);
}

static void the_budget_is_divided_into_pairs(void **state)
{
    (void)state;
    fake fakes[] = {{'A', 1000}, {'B', 2000}};
    const nb_paired_result r = measure_fakes(fakes, 2, fake_run, 5 * 784e3, 5);
    assert_int_equal(r.pairs, 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(r.rounds[i], 8); /* of 98 us */
    assert_true(nb_paired_ratio(&r, 1, 0) == 2);
}

static void a_round_longer_than_the_budget_is_one_pair(void **state)
{
    (void)state;
    fake fakes[] = {{'A', 1e7}, {'B', 1e7}};
    const nb_paired_result r = measure_fakes(fakes, 2, fake_run, 1e6, 5);
    assert_int_equal(r.pairs, 1);
    assert_int_equal(r.rounds[0], 1);
}

static void a_steady_drift_cancels(void **state)
{
    (void)state;
    fake fakes[] = {{'A', 1000}, {'B', 1000}};
    const nb_paired_result r = measure_fakes(fakes, 2, drifting_run, 4e6, 5);
    assert_true(fabs(nb_paired_ratio(&r, 0, 1) - 1) < 1e-4);
}

/* ---- Estimates ---------------------------------------------------------- */

static void six_processes_span_their_interval(void **state)
{
    (void)state;
    double values[] = {6, 1, 4, 3, 2, 5};
    const nb_estimate e = nb_estimate_median(values, 6);
    assert_true(e.median == 3.5 && e.low == 1 && e.high == 6);
    assert_true(fabs(e.coverage - (1 - 2.0 / 64)) < 1e-12);
}

static void more_processes_narrow_it(void **state)
{
    (void)state;
    double values[20];
    for (size_t i = 0; i < 20; i++)
        values[i] = (double)(20 - i);
    const nb_estimate e = nb_estimate_median(values, 20);
    assert_true(e.low == 6 && e.high == 15); /* tables of the sign test: 95.9 % */
    assert_true(fabs(e.coverage - 0.9586) < 1e-4);
    assert_true(nb_estimate_median(values, 1).coverage == 0);
    assert_true(isnan(nb_estimate_median(values, 0).median));
}

static void an_order_is_a_permutation_of_its_seed(void **state)
{
    (void)state;
    size_t *a = nb_shuffled(100, 7), *b = nb_shuffled(100, 7), *c = nb_shuffled(100, 8);
    bool seen[100] = {false};
    for (size_t i = 0; i < 100; i++)
        seen[a[i]] = true;
    for (size_t i = 0; i < 100; i++)
        assert_true(seen[i]);
    assert_memory_equal(a, b, 100 * sizeof *a);
    assert_memory_not_equal(a, c, 100 * sizeof *a);
    free(a);
    free(b);
    free(c);
}

/* ---- CSV ---------------------------------------------------------------- */

static char folder[] = "/tmp/normbench-test-XXXXXX";

static char *read_all(const char *path)
{
    static char text[8192];
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return text;
}

static const nb_csv_run a_run = {"id", "2026-01-02T03:04:05Z", "0badcafe", "a \"CPU\", fast", "123",
                                 "gcc"};

static nb_csv_row a_row(void)
{
    return (nb_csv_row){.provider = "p",
                        .kernel = "rmsnorm",
                        .algorithm = "default",
                        .dtype = "f32",
                        .param_dtype = "f32",
                        .isa = "avx2",
                        .rows = 32,
                        .hidden = 4096,
                        .threads = 1,
                        .level = "L2",
                        .mode = "hot",
                        .working_set_bytes = 7,
                        .process = 3,
                        .repetition = 4,
                        .iterations = 5,
                        .time_ns = 1234.567890123,
                        .bytes = 1e10,
                        .flops = NAN,
                        .pair = -1,
                        .slot = 0,
                        .error_ulp = INFINITY,
                        .status = "one\ntwo"};
}

static void a_row_has_the_columns_of_the_design(void **state)
{
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "%s/a.csv", folder);
    nb_csv csv;
    assert_int_equal(nb_csv_open(&csv, path, false, &a_run), NB_OK);
    const nb_csv_row row = a_row();
    assert_int_equal(nb_csv_write(&csv, &row), NB_OK);
    /* On disk already, before the file is closed. */
    assert_string_equal(
        read_all(path),
        "schema,run_id,started_utc,machine,cpu,commit,compiler,provider,kernel,algorithm,dtype,"
        "param_dtype,isa,rows,hidden,threads,level,mode,working_set_bytes,process,repetition,"
        "iterations,time_ns,bytes,flops,pair,slot,error_ulp,status\r\n"
        "1,\"id\",\"2026-01-02T03:04:05Z\",\"0badcafe\",\"a \"\"CPU\"\", fast\",\"123\",\"gcc\","
        "\"p\",\"rmsnorm\",\"default\",\"f32\",\"f32\",\"avx2\",32,4096,1,\"L2\",\"hot\",7,3,4,5,"
        "1234.56789012,10000000000,,,0,inf,\"one\ntwo\"\r\n");
    assert_int_equal(nb_csv_close(&csv), NB_OK);
    assert_int_equal(nb_csv_open(&csv, path, false, &a_run), NB_USAGE);
    assert_int_equal(nb_csv_open(&csv, path, true, &a_run), NB_OK);
    assert_int_equal(nb_csv_close(&csv), NB_OK);
}

static void a_full_disk_is_noticed(void **state)
{
    (void)state;
    nb_csv csv;
    assert_int_equal(nb_csv_open(&csv, "/dev/full", false, &a_run), NB_MACHINE);
    nb_csv_close(&csv);
}

/* ---- Quota and binding -------------------------------------------------- */

static void put_file(const char *path, const char *text)
{
    char full[256];
    snprintf(full, sizeof full, "%s/%s", folder, path);
    for (char *slash = full; (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        mkdir(full, 0777);
        *slash = '/';
    }
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void the_tightest_quota_binds(void **state)
{
    (void)state;
    assert_true(nb_topology_quota("/nowhere") == 0);
    put_file("proc/self/cgroup", "0::/a/b\n");
    put_file("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_true(nb_topology_quota(folder) == 0);
    put_file("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
    assert_true(nb_topology_quota(folder) == 1.5);
    put_file("sys/fs/cgroup/cpu.max", "400000 100000\n");
    assert_true(nb_topology_quota(folder) == 1.5);
    put_file("proc/self/cgroup", "3:cpuset:/\n2:cpu,cpuacct:/x\n");
    put_file("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n");
    put_file("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
    assert_true(nb_topology_quota(folder) == 0);
    put_file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n");
    put_file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    assert_true(nb_topology_quota(folder) == 0.5);
}

static void only_allowed_cpus_can_be_bound_to(void **state)
{
    (void)state;
    nb_topology t;
    nb_topology_load(&t);
    assert_true(t.cpu >= 0);
    assert_non_null(nb_topology_bind(-1));
    assert_non_null(nb_topology_bind(CPU_SETSIZE));
    assert_null(nb_topology_bind(t.cpu));
    for (int cpu = 0; cpu < 64; cpu++) /* all but one are forbidden now */
        if (cpu != t.cpu)
            assert_non_null(nb_topology_bind(cpu));
    nb_topology again;
    nb_topology_load(&again);
    assert_int_equal(again.cpus_allowed, 1);
    assert_int_equal(again.cpu, t.cpu);
    assert_int_equal(sched_setaffinity(0, sizeof t.allowed, &t.allowed), 0);
}

/* ---- Options ------------------------------------------------------------ */

static void options_become_arguments_again(void **state)
{
    (void)state;
    char *kernels[] = {"rmsnorm", "layernorm"};
    size_t hidden[] = {768, 4096}, level[] = {NB_MEMORY};
    const nb_options options = {
        .kernel = {kernels, 2}, .hidden = {hidden, 2}, .level = {level, 1}, .seed = UINT64_MAX};
    size_t count;
    char **arguments = nb_options_arguments(&options, &count);
    const char *const expected[] = {"--kernel=rmsnorm,layernorm", "--hidden=768,4096",
                                    "--level=memory", "--seed=18446744073709551615"};
    assert_int_equal(count, 4);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(arguments[i], expected[i]);
    nb_arguments_free(arguments, count);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char *command = nb_format("rm -rf %s", folder);
    const int status = system(command);
    free(command);
    return status;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_form_palindromes),
        cmocka_unit_test(one_slow_call_is_no_calibration),
        cmocka_unit_test(the_budget_is_divided_into_pairs),
        cmocka_unit_test(a_round_longer_than_the_budget_is_one_pair),
        cmocka_unit_test(a_steady_drift_cancels),
        cmocka_unit_test(six_processes_span_their_interval),
        cmocka_unit_test(more_processes_narrow_it),
        cmocka_unit_test(an_order_is_a_permutation_of_its_seed),
        cmocka_unit_test(a_row_has_the_columns_of_the_design),
        cmocka_unit_test(a_full_disk_is_noticed),
        cmocka_unit_test(the_tightest_quota_binds),
        cmocka_unit_test(only_allowed_cpus_can_be_bound_to),
        cmocka_unit_test(options_become_arguments_again),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
