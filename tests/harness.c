/* SPDX-License-Identifier: Apache-2.0 */
#include "harness.h"
#include "layout.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- The provider and the command line ----------------------------------- */

static const nk_provider *provider;
static bool *exercised;
static struct {
    const char *program, *path, *test, *kernel, *algorithm, *dtype, *isa;
    size_t rows, hidden; /* 0: any */
    uint64_t seed;
} selected = {.seed = 1};

static size_t tests_begun, kernels_given;
enum { SKIPPED = 77 }; /* meson's */

static void usage(const char *what)
{
    fprintf(stderr,
            "%s\nusage: %s PROVIDER.so [--test=NAME] [--kernel=OP] [--algorithm=NAME] "
            "[--dtype=NAME] [--isa=NAME] [--rows=N] [--hidden=N] [--seed=N] "
            "[--needs=avx512_bf16]\n",
            what, selected.program);
    exit(2);
}

static size_t number(const char *text)
{
    char *end;
    const unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *end)
        usage(text);
    return (size_t)value;
}

/* To leave a feature out that is not there anyway would test the same again. */
static void need_avx512_bf16(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512bf16"))
        return;
#endif
    puts("skipped: this CPU has no avx512_bf16 that could be left out");
    exit(SKIPPED);
}

static void select_by(const char *argument)
{
    const struct {
        const char *name;
        const char **text;
    } texts[] = {{"--test=", &selected.test},
                 {"--kernel=", &selected.kernel},
                 {"--algorithm=", &selected.algorithm},
                 {"--dtype=", &selected.dtype},
                 {"--isa=", &selected.isa}};
    for (size_t i = 0; i < COUNT(texts); i++)
        if (!strncmp(argument, texts[i].name, strlen(texts[i].name))) {
            *texts[i].text = argument + strlen(texts[i].name);
            return;
        }
    if (!strncmp(argument, "--rows=", 7))
        selected.rows = number(argument + 7);
    else if (!strncmp(argument, "--hidden=", 9))
        selected.hidden = number(argument + 9);
    else if (!strncmp(argument, "--seed=", 7))
        selected.seed = number(argument + 7);
    else if (!strcmp(argument, "--needs=avx512_bf16"))
        need_avx512_bf16();
    else
        usage(argument);
}

const nk_provider *harness_start(int argc, char **argv)
{
    selected.program = argv[0];
    if (argc < 2)
        usage("which provider?");
    selected.path = argv[1];
    for (int i = 2; i < argc; i++)
        select_by(argv[i]);
    if (selected.test)
        cmocka_set_test_filter(selected.test);
    void *object = dlopen(selected.path, RTLD_LOCAL | RTLD_NOW);
    if (!object)
        usage(dlerror());
    void *symbol = dlsym(object, "nk_provider_v1");
    if (!symbol)
        usage(dlerror());
    nk_provider_entry entry;
    memcpy(&entry, &symbol, sizeof(entry));
    provider = entry();
    if (provider->error)
        usage(provider->error);
    exercised = calloc(provider->count, sizeof(*exercised));
    printf("%s %s, seed %llu\n", provider->name, provider->version,
           (unsigned long long)selected.seed);
    return provider;
}

/* Why nothing of the ISA that is selected runs here, or NULL. */
static const char *isa_unavailable(void)
{
    for (const nk_kernel *k = provider->kernels; k < provider->kernels + provider->count; k++)
        if (selected.isa && !strcmp(k->isa, selected.isa))
            return k->unavailable;
    return NULL;
}

int harness_end(int failed)
{
    const bool by_kernel = selected.kernel || selected.algorithm || selected.dtype || selected.isa;
    if (isa_unavailable() && !kernels_given) {
        printf("skipped: %s: %s\n", selected.isa, isa_unavailable());
        return SKIPPED;
    }
    if (tests_begun && (kernels_given || !by_kernel))
        return failed != 0;
    fprintf(stderr, "nothing that is selected was run\n");
    return 1;
}

bool harness_filtered(void)
{
    return selected.test || selected.kernel || selected.algorithm || selected.dtype ||
           selected.isa || selected.rows || selected.hidden;
}

uint64_t harness_seed(void)
{
    return selected.seed;
}

static bool named(const char *wanted, const char *name)
{
    return !wanted || !strcmp(wanted, name);
}

const nk_kernel *kernel_next(const problem *p, const nk_kernel *previous)
{
    const nk_kernel *k = previous ? previous + 1 : provider->kernels;
    for (; k < provider->kernels + provider->count; k++)
        if (!k->unavailable && !strcmp(k->op, nk_ops[p->op].name) &&
            !strcmp(k->dtype, nk_dtypes[p->dtype].name) && named(selected.kernel, k->op) &&
            named(selected.algorithm, k->algorithm) && named(selected.dtype, k->dtype) &&
            named(selected.isa, k->isa)) {
            kernels_given++;
            return k;
        }
    return NULL;
}

const nk_kernel *kernel_like(const nk_kernel *kernel, const char *op)
{
    for (const nk_kernel *k = provider->kernels; k < provider->kernels + provider->count; k++)
        if (!strcmp(k->op, op) && !strcmp(k->dtype, kernel->dtype) &&
            !strcmp(k->isa, kernel->isa) && kernel_is_default(k))
            return k;
    return NULL;
}

bool kernel_is_default(const nk_kernel *kernel)
{
    return !strcmp(kernel->algorithm, "default");
}

const char *status_text(nk_status status)
{
    return provider->status_text ? provider->status_text(status) : "";
}

static const char *scale(void)
{
    const char *name = getenv("NORMBENCH_TEST_SCALE");
    return name ? name : "";
}

bool harness_samples(void)
{
    return !strcmp(scale(), "sample");
}

static size_t most_elements(void)
{
    return !*scale() ? SIZE_MAX : !strcmp(scale(), "small") ? 6 << 10 : 1 << 10;
}

static bool in_sample(const problem *shape)
{
    const uint64_t place = (uint64_t)shape->op * 3 + (uint64_t)shape->dtype;
    return mix(selected.seed, (place << 16 | shape->rows) << 16 | shape->hidden) % 4 == 0;
}

static bool is_selected(const problem *shape)
{
    return shape->rows * shape->hidden <= most_elements() &&
           (!harness_samples() || in_sample(shape)) &&
           (!selected.rows || shape->rows == selected.rows) &&
           (!selected.hidden || shape->hidden == selected.hidden) && kernel_next(shape, NULL);
}

void each_problem(void (*check)(problem *p), const size_t *some_rows, const size_t *some_hidden)
{
    problem s = {0};
    for (s.op = 0; s.op < NK_OPS; s.op++)
        for (s.dtype = NK_F32; s.dtype < (nk_dtype)NK_DTYPES; s.dtype++)
            for (const size_t *rows = some_rows; *rows; rows++)
                for (const size_t *hidden = some_hidden; *hidden; hidden++) {
                    s.rows = *rows;
                    s.hidden = *hidden;
                    if (!is_selected(&s))
                        continue;
                    problem *p = problem_new(s.op, s.dtype, s.rows, s.hidden);
                    check(p);
                    problem_free(p);
                }
}

/* ---- Reports -------------------------------------------------------------- */

const char *row_name;
static const char *test_name = "";
static int reported;

static void print_command(const nk_kernel *k, const problem *p)
{
    fprintf(stderr, "  repeat: %s %s --test=%s --kernel=%s --algorithm=%s --dtype=%s --isa=%s",
            selected.program, selected.path, test_name, k->op, k->algorithm, k->dtype, k->isa);
    fprintf(stderr, " --rows=%zu --hidden=%zu --seed=%llu\n", p->rows, p->hidden,
            (unsigned long long)selected.seed);
}

static void print_case(const nk_kernel *k, const problem *p)
{
    fprintf(stderr, "%s: %s/%s/%s/%s rows %zu hidden %zu eps %g flags %u", test_name, k->op,
            k->algorithm, k->dtype, k->isa, p->rows, p->hidden, (double)p->eps, p->flags);
    if (p->alpha != 0 || p->gamma_offset != 0 || p->fraction != 0)
        fprintf(stderr, " alpha %g offset %g fraction %g", (double)p->alpha,
                (double)p->gamma_offset, (double)p->fraction);
    if (row_name)
        fprintf(stderr, " (%s)", row_name);
    fprintf(stderr, ":");
    for (int o = 0; o < NK_OPERANDS; o++)
        if (p->present & BIT(o))
            fprintf(stderr, " %s", nk_operands[o].name);
    fprintf(stderr, "\n");
}

void report(const nk_kernel *kernel, const problem *p, const char *format, ...)
{
    enum { SHOWN = 8 };
    if (reported++ >= SHOWN)
        return;
    print_case(kernel, p);
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "  ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    print_command(kernel, p);
}

/* ---- Tests ---------------------------------------------------------------- */

static struct { /* for the signal handler */
    const nk_kernel *kernel;
    const problem *problem;
} running;

nk_status kernel_call(const nk_kernel *kernel, const problem *p, const nk_args *args)
{
    running.kernel = kernel;
    running.problem = p;
    const nk_status status = kernel->function(args);
    running.kernel = NULL;
    exercised[kernel - provider->kernels] = true;
    return status;
}

bool kernel_exercised(const nk_kernel *kernel)
{
    return exercised[kernel - provider->kernels];
}

static void on_fault(int number_of_signal, siginfo_t *info, void *context)
{
    (void)context;
    if (running.kernel) {
        print_case(running.kernel, running.problem);
        fprintf(stderr, "  signal %d at %p", number_of_signal, info->si_addr);
        arena_explain(info->si_addr, stderr);
        fprintf(stderr, "\n");
        print_command(running.kernel, running.problem);
    }
    _exit(1);
}

void test_begin(const char *name)
{
    tests_begun++;
    test_name = name;
    reported = 0;
    arena_map();
    const struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGILL, &action, NULL);
}

void test_end(void)
{
    if (reported)
        fail_msg("%d failures in %s", reported, test_name);
}
