/* SPDX-License-Identifier: Apache-2.0 */
#include "harness.h"

#include <dlfcn.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- The provider and the command line ----------------------------------- */

static const nk_provider *provider;
static bool *exercised;
static struct {
    const char *program, *path, *test, *kernel, *algorithm, *dtype, *isa;
    size_t rows, hidden; /* 0: any */
    uint64_t seed;
} selected = {.seed = 1};

const char *row_name;
static const char *test_name = "";
static int reported;
static size_t tests_begun, kernels_given;
static struct { /* for the signal handler */
    const nk_kernel *kernel;
    const problem *problem;
} running;

static void usage(const char *what)
{
    fprintf(stderr,
            "%s\nusage: %s PROVIDER.so [--test=NAME] [--kernel=OP] [--algorithm=NAME] "
            "[--dtype=NAME] [--isa=NAME] [--rows=N] [--hidden=N] [--seed=N]\n",
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
    enum { SKIPPED = 77 }; /* meson's */
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

bool kernel_exercised(const nk_kernel *kernel)
{
    return exercised[kernel - provider->kernels];
}

bool kernel_is_default(const nk_kernel *kernel)
{
    return !strcmp(kernel->algorithm, "default");
}

const char *status_text(nk_status status)
{
    return provider->status_text ? provider->status_text(status) : "";
}

/* ---- Reports -------------------------------------------------------------- */

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

/* ---- The arena: for each operand a mapping between two guard pages --------- */

enum { CAPACITY = 16 << 20, SURROUNDINGS = 512 };
_Static_assert(sizeof(wchar_t) == 4, "poison is filled in by wmemset");
static const unsigned char poison[4] = {0xF1, 0xFF, 0xF1, 0xFF}; /* NaN in every dtype */
static unsigned char *arena[NK_OPERANDS];
static size_t page_bytes;

/* Bytes left free before the upper guard page. */
static size_t slack_bytes;

#if defined(__x86_64__)
static void leave(int signal_number)
{
    _exit(signal_number);
}

/* Of a masked load only the wanted lanes may be read. */
__attribute__((target("avx2"))) static void load_one_float_before_the_guard(void)
{
    float *last = (float *)(void *)(arena[0] + CAPACITY) - 1;
    const __m256 one = _mm256_maskload_ps(last, _mm256_setr_epi32(-1, 0, 0, 0, 0, 0, 0, 0));
    *(volatile float *)last = _mm256_cvtss_f32(one);
}

/* qemu 7.2 reads all lanes. Tried out in a process of its own. */
static bool masked_loads_read_too_much(void)
{
    if (!__builtin_cpu_supports("avx2"))
        return false;
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, leave);
        load_one_float_before_the_guard();
        _exit(0);
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && status != 0;
}
#else
static bool masked_loads_read_too_much(void)
{
    return false;
}
#endif

static void arena_map(void)
{
    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    for (int o = 0; o < NK_OPERANDS; o++) {
        void *pages = mmap(NULL, CAPACITY + 2 * page_bytes, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (pages == MAP_FAILED)
            usage("mmap failed");
        arena[o] = (unsigned char *)pages + page_bytes;
        if (mprotect(arena[o], CAPACITY, PROT_READ | PROT_WRITE))
            usage("mprotect failed");
    }
    if (masked_loads_read_too_much()) {
        printf("this emulator's masked loads read too much: guard pages are a vector away\n");
        slack_bytes = 64;
    }
}

static void on_fault(int number_of_signal, siginfo_t *info, void *context)
{
    (void)context;
    const unsigned char *address = info->si_addr;
    if (running.kernel) {
        print_case(running.kernel, running.problem);
        fprintf(stderr, "  signal %d at %p", number_of_signal, (const void *)address);
        for (int o = 0; o < NK_OPERANDS; o++)
            if (address >= arena[o] - page_bytes && address < arena[o] + CAPACITY + page_bytes)
                fprintf(stderr, ": %s the buffer of %s", address < arena[o] ? "before" : "beyond",
                        nk_operands[o].name);
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
    if (!arena[0])
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

/* ---- Numbers --------------------------------------------------------------- */

uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t z = (a ^ 0x9E3779B97F4A7C15u) * 0xBF58476D1CE4E5B9u + b;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

float normal(uint64_t stream, size_t i)
{
    enum { TABLE = 1 << 16 };
    static float table[TABLE];
    if (table[0] == 0.0f)
        for (uint64_t k = 0; k < TABLE; k++) {
            const double a = (double)(mix(selected.seed, 2 * k) >> 11) * 0x1p-53 + 0x1p-54;
            const double b = (double)(mix(selected.seed, 2 * k + 1) >> 11) * 0x1p-53;
            table[k] = (float)(sqrt(-2.0 * log(a)) * cos(6.283185307179586 * b));
        }
    return table[(mix(stream, 0) + i) % TABLE];
}

static void fill_constant(float *v, size_t n, float a, float b, uint64_t seed)
{
    (void)b, (void)seed;
    for (size_t i = 0; i < n; i++)
        v[i] = a;
}

static void fill_alternating(float *v, size_t n, float a, float b, uint64_t seed)
{
    (void)seed;
    for (size_t i = 0; i < n; i++)
        v[i] = i % 2 ? b : a;
}

static void fill_normal(float *v, size_t n, float mean, float sd, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        v[i] = mean + sd * normal(seed, i);
}

static void fill_ramp(float *v, size_t n, float first, float step, uint64_t seed)
{
    (void)seed;
    for (size_t i = 0; i < n; i++)
        v[i] = first + step * (float)i;
}

/* N(0,1) but for element `a`, of quarters of the row; 4 is the last element. */
static void fill_one(float *v, size_t n, float quarter, float value, uint64_t seed)
{
    fill_normal(v, n, 0, 1, seed);
    const size_t at = (size_t)((double)n * (double)quarter / 4);
    v[at < n ? at : n - 1] = value;
}

/* The first of the elements that do not fill a vector of 16. */
static void fill_tail(float *v, size_t n, float value, float b, uint64_t seed)
{
    (void)b;
    fill_normal(v, n, 0, 1, seed);
    v[n % 16 ? n / 16 * 16 : n - 1] = value;
}

static void fill_both_infinities(float *v, size_t n, float a, float b, uint64_t seed)
{
    fill_normal(v, n, 0, 1, seed);
    v[n / 2] = b;
    v[0] = a;
}

#define FIRST_MIDDLE_LAST(name, value)                                                             \
    {name " first", fill_one, 0, value}, {name " in the middle", fill_one, 2, value},              \
        {name " last", fill_one, 4, value},                                                        \
    {                                                                                              \
        name " in the tail", fill_tail, value, 0                                                   \
    }

const row_kind row_kinds[] = {
    FIRST_MIDDLE_LAST("NaN", NAN),
    FIRST_MIDDLE_LAST("+Inf", INFINITY),
    FIRST_MIDDLE_LAST("-Inf", -INFINITY),
    {"both infinities", fill_both_infinities, INFINITY, -INFINITY},
    {"an infinity and a NaN", fill_both_infinities, INFINITY, NAN},
    {"all NaN", fill_constant, NAN, 0},
    {"zeros", fill_constant, 0.0f, 0},
    {"minus zeros", fill_constant, -0.0f, 0},
    {"zeros of both signs", fill_alternating, 0.0f, -0.0f},
    {"constant 0.1", fill_constant, 0.1f, 0},
    {"constant 1234.1", fill_constant, 1234.1f, 0},
    {"constant -1234.1", fill_constant, -1234.1f, 0},
    {"constant 1e-38", fill_constant, 1e-38f, 0},
    {"constant 1e30", fill_constant, 1e30f, 0},
    {"constant 65504", fill_constant, 65504.0f, 0},
    {"constant 3.4e38", fill_constant, 3.4e38f, 0},
    {"constant subnormal", fill_constant, 1e-41f, 0},
    {"constant smallest", fill_constant, 1.4e-45f, 0},
    {"uniform 1e15", fill_alternating, 1e15f, -1e15f},
    {"uniform 1e19", fill_alternating, 1e19f, -1e19f},
    {"uniform 1e38", fill_alternating, 1e38f, -1e38f},
    {"uniform 3e38", fill_alternating, 3e38f, -3e38f},
    {"largest finite", fill_alternating, 3.4028234e38f, -3.4028234e38f},
    {"largest and zero", fill_alternating, 3.4028234e38f, 0.0f},
    {"+-65504", fill_alternating, 65504.0f, -65504.0f},
    {"+-smallest", fill_alternating, 1.4e-45f, -1.4e-45f},
    {"smallest and zero", fill_alternating, 1.4e-45f, 0.0f},
    {"neighbouring floats", fill_alternating, 1234.1f, 1234.1001f},
    {"neighbours at 1e30", fill_alternating, 1e30f, 1.0000001e30f},
    {"scale 1e-19", fill_normal, 0, 1e-19f},
    {"scale 1e-22", fill_normal, 0, 1e-22f},
    {"scale 1e-25", fill_normal, 0, 1e-25f},
    {"scale 1e-38", fill_normal, 0, 1e-38f},
    {"scale 1e-40", fill_normal, 0, 1e-40f},
    {"scale 1e15", fill_normal, 0, 1e15f},
    {"scale 1e18", fill_normal, 0, 1e18f},
    {"scale 1e25", fill_normal, 0, 1e25f},
    {"scale 1e37", fill_normal, 0, 1e37f},
    {"mean 100 sd 1e-2", fill_normal, 100, 1e-2f},
    {"mean 1e3 sd 1e-2", fill_normal, 1e3f, 1e-2f},
    {"mean 1e6 sd 1", fill_normal, 1e6f, 1},
    {"mean -1e6 sd 1", fill_normal, -1e6f, 1},
    {"mean 1e18 sd 1e15", fill_normal, 1e18f, 1e15f},
    {"mean 1e30 sd 1e24", fill_normal, 1e30f, 1e24f},
    {"mean 1e38 sd 1e36", fill_normal, 1e38f, 1e36f},
    FIRST_MIDDLE_LAST("1e3", 1e3f),
    FIRST_MIDDLE_LAST("1e6", 1e6f),
    FIRST_MIDDLE_LAST("1e18", 1e18f),
    FIRST_MIDDLE_LAST("-1e25", -1e25f),
    FIRST_MIDDLE_LAST("3e38", 3e38f),
    {"ramp", fill_ramp, 0, 1},
    {"ramp of 1/8 from -1e4", fill_ramp, -1e4f, 0.125f},
    {"ramp from 40000", fill_ramp, 40000, 1},
};
const size_t row_kind_count = COUNT(row_kinds);

/* ---- Problems -------------------------------------------------------------- */

static bool is_column(int operand)
{
    return nk_operands[operand].shape == NK_SHAPE_COLUMN;
}

static bool by_row(int operand)
{
    return nk_operands[operand].shape == NK_SHAPE_ROW ||
           nk_operands[operand].shape == NK_SHAPE_STATISTIC;
}

/* The dtype in which an operand is stored. */
static nk_dtype stored_as(const problem *p, int operand)
{
    if (nk_operands[operand].shape == NK_SHAPE_ROW)
        return p->dtype;
    return is_column(operand) && !(p->flags & NK_PARAMS_F32) ? p->dtype : NK_F32;
}

static size_t element_bytes(const problem *p, int operand)
{
    return nk_dtypes[stored_as(p, operand)].bytes;
}

bool problem_takes(const problem *p, int operand)
{
    return ((nk_ops[p->op].required | nk_ops[p->op].optional) & BIT(operand)) != 0;
}

bool problem_gives(const problem *p, int operand)
{
    return (p->present & BIT(operand)) && nk_operand_direction(p->op, operand) != NK_DIRECTION_IN;
}

static bool is_input(const problem *p, int operand)
{
    return problem_takes(p, operand) && nk_operand_direction(p->op, operand) == NK_DIRECTION_IN;
}

float problem_get(const problem *p, int operand, size_t i)
{
    return nk_to_float(p->in[operand], i, stored_as(p, operand));
}

int problem_main_input(const problem *p)
{
    return p->in[NK_OPERAND_X] ? NK_OPERAND_X : NK_OPERAND_RESIDUAL;
}

void problem_set(problem *p, int operand, size_t i, float value)
{
    nk_from_float(p->in[operand], i, stored_as(p, operand), value);
}

static void fill_operand(problem *p, int operand)
{
    const uint64_t stream = mix((uint64_t)operand, p->hidden * 64 + p->rows);
    const size_t n = nk_operand_elements(operand, p->rows, p->hidden);
    const float scale = is_column(operand) ? 0.5f : 1.0f;
    const float offset = operand == NK_OPERAND_GAMMA || operand == NK_OPERAND_GAMMA2 ? 1.0f : 0.0f;
    const bool positive = operand == NK_OPERAND_RSTD || operand == NK_OPERAND_RSTD2;
    for (size_t i = 0; i < n; i++) {
        const float z = normal(stream, i);
        problem_set(p, operand, i, positive ? 0.5f + fabsf(z) : offset + scale * z);
    }
}

problem *problem_new(int op, nk_dtype dtype, size_t rows, size_t hidden)
{
    problem *p = calloc(1, sizeof(*p));
    *p = (problem){.op = op, .dtype = dtype, .rows = rows, .hidden = hidden};
    p->present = nk_ops[op].required | nk_ops[op].optional;
    p->eps = nk_ops[op].options & NK_TAKES_EPS ? 1e-5f : 0;
    p->alpha = nk_ops[op].options & NK_TAKES_ALPHA ? 1.5f : 0;
    p->fraction = nk_ops[op].options & NK_TAKES_FRACTION ? 0.25f : 0;
    for (int o = 0; o < NK_OPERANDS; o++) {
        const size_t n = nk_operand_elements(o, rows, hidden);
        if (is_input(p, o)) {
            p->in[o] = malloc(n * sizeof(float));
            fill_operand(p, o);
        } else if (problem_takes(p, o)) {
            p->expected[o].value = malloc(n * sizeof(double));
            p->expected[o].scale = malloc(n * sizeof(double));
        }
    }
    return p;
}

void problem_free(problem *p)
{
    for (int o = 0; o < NK_OPERANDS; o++) {
        free(p->in[o]);
        free(p->expected[o].value);
        free(p->expected[o].scale);
    }
    free(p);
}

/* NORMBENCH_TEST_SCALE=small|tiny leaves out the larger shapes, where a test is slow. */
static size_t most_elements(void)
{
    const char *scale = getenv("NORMBENCH_TEST_SCALE");
    if (!scale || !*scale)
        return SIZE_MAX;
    return !strcmp(scale, "tiny") ? 1 << 10 : 6 << 10;
}

static bool is_selected(const problem *shape)
{
    return shape->rows * shape->hidden <= most_elements() &&
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

static void set_scalars(const problem *p, nk_args *args)
{
    *args = (nk_args){.size = sizeof(nk_args), .hidden = p->hidden, .rows = p->rows};
    args->eps = p->eps;
    args->alpha = p->alpha;
    args->gamma_offset = p->gamma_offset;
    args->fraction = p->fraction;
    args->flags = p->flags;
}

void problem_expect(problem *p)
{
    nk_args args;
    set_scalars(p, &args);
    for (int o = 0; o < NK_OPERANDS; o++)
        if (p->present & BIT(o))
            nk_operand_set(&args, o, p->in[o]);
    nk_reference(p->op, p->dtype, &args, p->expected);
}

/* Which operand of the forward op is the row that a statistic is of. */
static int statistics_of(const problem *p, int statistic)
{
    const bool inner = problem_takes(p, NK_OPERAND_RSTD2) && statistic == NK_OPERAND_RSTD;
    return inner || !p->in[NK_OPERAND_X] ? NK_OPERAND_RESIDUAL : NK_OPERAND_X;
}

static void true_statistic(problem *p, int statistic)
{
    const bool added = !problem_takes(p, NK_OPERAND_RSTD2) &&
                       p->present & BIT(NK_OPERAND_RESIDUAL) && p->in[NK_OPERAND_X];
    const bool layer = problem_takes(p, NK_OPERAND_MEAN);
    const char *op = p->alpha != 0.0f  ? "deepnorm"
                     : added           ? layer ? "add_layernorm" : "add_rmsnorm"
                     : p->fraction > 0 ? "prmsnorm"
                     : layer           ? "layernorm"
                                       : "rmsnorm";
    double *value = malloc(p->rows * sizeof(double));
    nk_expected expected[NK_OPERANDS] = {{NULL, NULL}};
    nk_args args;
    set_scalars(p, &args);
    nk_operand_set(&args, NK_OPERAND_X, p->in[statistics_of(p, statistic)]);
    if (added)
        nk_operand_set(&args, NK_OPERAND_RESIDUAL, p->in[NK_OPERAND_RESIDUAL]);
    expected[statistic == NK_OPERAND_RSTD2 ? NK_OPERAND_RSTD : statistic].value = value;
    nk_reference(nk_op_index(op), p->dtype, &args, expected);
    for (size_t row = 0; row < p->rows; row++)
        problem_set(p, statistic, row, (float)value[row]);
    free(value);
}

void problem_true_statistics(problem *p)
{
    for (int o = 0; o < NK_OPERANDS; o++)
        if (nk_operands[o].shape == NK_SHAPE_STATISTIC && p->in[o])
            true_statistic(p, o);
}

void problem_set_flags(problem *p, uint32_t flags)
{
    p->flags = flags;
    for (int o = 0; o < NK_OPERANDS; o++)
        if (is_column(o) && p->in[o])
            fill_operand(p, o);
}

void problem_vary(problem *p, uint64_t choice)
{
    static const float epsilons[] = {1e-5f, 1e-6f, 1e-12f, 1e-3f, 0.0f};
    static const float offsets[] = {0.0f, 0.0f, 1.0f, -0.5f};
    static const float alphas[] = {1.0f, 2.213f, -0.5f, 8.0f};
    static const float fractions[] = {0.0625f, 0.1f, 0.5f, 1.0f};
    const uint32_t options = nk_ops[p->op].options;
    const uint64_t bits = mix(choice, 1);
    p->present = nk_ops[p->op].required | (nk_ops[p->op].optional & (uint32_t)choice);
    if (!(p->present & BIT(NK_OPERAND_RESIDUAL))) /* a copy has h of a residual only */
        p->present &= ~BIT(NK_OPERAND_H);
    uint32_t flags = 0;
    if (options & NK_TAKES_EPS) {
        p->eps = epsilons[bits % COUNT(epsilons)];
        flags |= bits >> 8 & 1 ? NK_EPS_OUTSIDE : 0;
    }
    if (options & NK_TAKES_UNBIASED)
        flags |= bits >> 9 & 1 ? NK_UNBIASED : 0;
    if (problem_takes(p, NK_OPERAND_GAMMA))
        flags |= bits >> 10 & 1 ? NK_PARAMS_F32 : 0;
    if (options & NK_TAKES_OFFSET)
        p->gamma_offset = offsets[bits >> 16 & 3];
    if (options & NK_TAKES_ALPHA)
        p->alpha = alphas[bits >> 18 & 3];
    if (options & NK_TAKES_FRACTION)
        p->fraction = fractions[bits >> 20 & 3];
    problem_set_flags(p, flags);
}

/* ---- Placing ----------------------------------------------------------------- */

typedef struct place {
    unsigned char *start, *end; /* from the first element to behind the last */
    size_t row_bytes, ld_bytes, rows;
} place;

static place place_of(const problem *p, const layout *l, int operand)
{
    if (l->alias[operand])
        operand = l->alias[operand] - 1;
    const size_t rows = l->rows ? l->rows : p->rows;
    const size_t bytes = element_bytes(p, operand);
    place where = {.rows = 1};
    where.row_bytes = nk_operand_elements(operand, rows, p->hidden) * bytes;
    where.ld_bytes = where.row_bytes;
    if (nk_operands[operand].shape == NK_SHAPE_ROW) {
        where.rows = rows;
        where.row_bytes = p->hidden * bytes;
        where.ld_bytes = (p->hidden + l->pad[operand]) * bytes;
    }
    const size_t span = (where.rows - 1) * where.ld_bytes + where.row_bytes;
    const size_t away = l->shift[operand] * bytes;
    if (span + away + slack_bytes > CAPACITY)
        fail_msg("the arena is too small for %zu x %zu", rows, p->hidden);
    where.start =
        l->at_end ? arena[operand] + CAPACITY - slack_bytes - away - span : arena[operand] + away;
    where.end = where.start + span;
    return where;
}

static const unsigned char *input_row(const problem *p, const layout *l, int operand, size_t row)
{
    const size_t first = by_row(operand) ? l->first : 0;
    const size_t hidden = nk_operands[operand].shape == NK_SHAPE_ROW ? p->hidden : 1;
    return p->in[operand] + (first + row) * hidden * element_bytes(p, operand);
}

static unsigned char *surroundings_start(const place *where, int operand)
{
    unsigned char *start = where->start - SURROUNDINGS;
    return start < arena[operand] ? arena[operand] : start;
}

static unsigned char *surroundings_end(const place *where, int operand)
{
    unsigned char *end = where->end + SURROUNDINGS;
    return end > arena[operand] + CAPACITY ? arena[operand] + CAPACITY : end;
}

/* Poison depends on the address alone: it needs no start to be checked from. */
static void poison_fill(unsigned char *from, unsigned char *to)
{
    for (; from < to && (uintptr_t)from % 4; from++)
        *from = poison[(uintptr_t)from % 4];
    const size_t words = from < to ? (size_t)(to - from) / 4 : 0;
    wchar_t word; /* of four bytes, for the fastest fill there is */
    memcpy(&word, poison, sizeof(word));
    wmemset((wchar_t *)(void *)from, word, words);
    from += words * 4;
    for (; from < to; from++)
        *from = poison[(uintptr_t)from % 4];
}

static bool poison_intact(const unsigned char *from, const unsigned char *to)
{
    for (size_t i = 0; i < 4 && from + i < to; i++)
        if (from[i] != poison[((uintptr_t)from + i) % 4])
            return false;
    return to - from <= 4 || !memcmp(from, from + 4, (size_t)(to - from) - 4);
}

void layout_place(const problem *p, const layout *l, nk_args *args)
{
    set_scalars(p, args);
    args->rows = l->rows ? l->rows : p->rows;
    args->store = l->store;
    args->llc_bytes = l->llc_bytes;
    for (int o = 0; o < NK_OPERANDS; o++) {
        if (!(p->present & BIT(o)))
            continue;
        const place where = place_of(p, l, o);
        nk_operand_set(args, o, where.start);
        const int lies_on = l->alias[o] ? l->alias[o] - 1 : o;
        if (nk_operands[o].shape == NK_SHAPE_ROW)
            nk_operand_set_ld(args, o, l->pad[lies_on] ? p->hidden + l->pad[lies_on] : 0);
        if (l->alias[o])
            continue;
        poison_fill(surroundings_start(&where, o), surroundings_end(&where, o));
        for (size_t row = 0; row < where.rows; row++) {
            if (is_input(p, o))
                memcpy(where.start + row * where.ld_bytes, input_row(p, l, o, row),
                       where.row_bytes);
            else if (nk_operand_direction(p->op, o) == NK_DIRECTION_ADD)
                memset(where.start + row * where.ld_bytes, 0, where.row_bytes);
        }
    }
}

static bool is_overwritten(const problem *p, const layout *l, int operand, bool outputs_written)
{
    if (!outputs_written)
        return false;
    for (int o = 0; o < NK_OPERANDS; o++)
        if (problem_gives(p, o) && (o == operand || l->alias[o] == operand + 1))
            return true;
    return false;
}

static bool all_zero(const unsigned char *from, const unsigned char *to)
{
    while (from < to && *from == 0)
        from++;
    return from == to;
}

/* A row of an operand as it was placed. */
static bool row_intact(const problem *p, const layout *l, int operand, size_t row,
                       const unsigned char *from, const unsigned char *to)
{
    if (is_input(p, operand))
        return !memcmp(from, input_row(p, l, operand, row), (size_t)(to - from));
    return nk_operand_direction(p->op, operand) == NK_DIRECTION_ADD ? all_zero(from, to)
                                                                    : poison_intact(from, to);
}

static bool operand_intact(const problem *p, const layout *l, int operand, bool outputs_written)
{
    const place where = place_of(p, l, operand);
    const bool overwritten = is_overwritten(p, l, operand, outputs_written);
    const unsigned char *from = surroundings_start(&where, operand);
    for (size_t row = 0; row < where.rows; row++) {
        const unsigned char *start = where.start + row * where.ld_bytes;
        if (!poison_intact(from, start))
            return false;
        from = start + where.row_bytes;
        if (!overwritten && !row_intact(p, l, operand, row, start, from))
            return false;
    }
    return poison_intact(from, surroundings_end(&where, operand));
}

bool layout_intact(const problem *p, const layout *l, bool outputs_written, int *operand)
{
    for (*operand = 0; *operand < NK_OPERANDS; ++*operand)
        if ((p->present & BIT(*operand)) && !l->alias[*operand] &&
            !operand_intact(p, l, *operand, outputs_written))
            return false;
    return true;
}

/* ---- Runs ---------------------------------------------------------------------- */

static void collect(const problem *p, const layout *l, result *r)
{
    for (int o = 0; o < NK_OPERANDS; o++) {
        if (!problem_gives(p, o))
            continue;
        const place where = place_of(p, l, o);
        r->out[o] = malloc(where.rows * where.row_bytes + 1);
        for (size_t row = 0; row < where.rows; row++)
            memcpy(r->out[o] + row * where.row_bytes, where.start + row * where.ld_bytes,
                   where.row_bytes);
    }
}

void run(const nk_kernel *kernel, const problem *p, const layout *l, result *r)
{
    *r = (result){.kernel = kernel, .first = l->first, .rows = l->rows ? l->rows : p->rows};
    nk_args args;
    layout_place(p, l, &args);
    r->store_used = UINT32_MAX;
    args.store_used = &r->store_used;
    running.kernel = kernel;
    running.problem = p;
    const nk_status status = kernel->function(&args);
    running.kernel = NULL;
    exercised[kernel - provider->kernels] = true;
    if (status != NK_OK)
        report(kernel, p, "refused: %s", status_text(status));
    int operand;
    if (!layout_intact(p, l, true, &operand))
        report(kernel, p, "written: %s", nk_operands[operand].name);
    if (r->store_used != NK_STORE_CACHED && r->store_used != NK_STORE_STREAM)
        report(kernel, p, "store_used is %u", r->store_used);
    collect(p, l, r);
}

void result_free(result *r)
{
    for (int o = 0; o < NK_OPERANDS; o++)
        free(r->out[o]);
}

/* ---- Checks -------------------------------------------------------------------- */

static size_t elements_a_row(const problem *p, int operand)
{
    return nk_operands[operand].shape == NK_SHAPE_STATISTIC ? 1 : p->hidden;
}

static void check_operand(const problem *p, const result *r, int operand)
{
    const double limit = nk_error_bound(p->op, r->kernel->algorithm, p->hidden);
    const nk_dtype dtype = stored_as(p, operand);
    const size_t n = nk_operand_elements(operand, r->rows, p->hidden);
    const size_t first = by_row(operand) ? r->first * elements_a_row(p, operand) : 0;
    for (size_t i = 0; i < n; i++) {
        const double got = (double)nk_to_float(r->out[operand], i, dtype);
        const double expected = p->expected[operand].value[first + i];
        const double error = nk_error(got, expected, p->expected[operand].scale[first + i], dtype);
        if (error <= limit)
            continue;
        report(r->kernel, p, "%s[%zu][%zu]: got %.9g, expected %.9g, error %.3g u",
               nk_operands[operand].name, i / elements_a_row(p, operand),
               i % elements_a_row(p, operand), got, expected, error);
        return;
    }
}

void check_result(const problem *p, const result *r)
{
    for (int o = 0; o < NK_OPERANDS; o++)
        if (r->out[o] && p->expected[o].value)
            check_operand(p, r, o);
}

/* NaN is NaN, whatever its other bits. */
static size_t first_difference(const unsigned char *a, const unsigned char *b, size_t n,
                               nk_dtype dtype)
{
    const size_t bytes = nk_dtypes[dtype].bytes;
    if (!memcmp(a, b, n * bytes))
        return n;
    for (size_t i = 0; i < n; i++)
        if (memcmp(a + i * bytes, b + i * bytes, bytes) != 0 &&
            !(isnan(nk_to_float(a, i, dtype)) && isnan(nk_to_float(b, i, dtype))))
            return i;
    return n;
}

/* Sums of the same rows; of others they differ. */
static void check_same_sums(const problem *p, const result *a, const result *b, int operand,
                            const char *what)
{
    const size_t n = nk_operand_elements(operand, p->rows, p->hidden);
    if (a->first != b->first || a->rows != b->rows)
        return;
    const size_t i = first_difference(a->out[operand], b->out[operand], n, NK_F32);
    if (i < n)
        report(b->kernel, p, "%s: %s[%zu] is %.9g, not %.9g", what, nk_operands[operand].name, i,
               (double)nk_to_float(b->out[operand], i, NK_F32),
               (double)nk_to_float(a->out[operand], i, NK_F32));
}

void check_same(const problem *p, const result *a, const result *b, const char *what)
{
    for (int o = 0; o < NK_OPERANDS; o++) {
        if (!a->out[o] || !b->out[o])
            continue;
        if (!by_row(o)) {
            check_same_sums(p, a, b, o, what);
            continue;
        }
        const size_t width = elements_a_row(p, o), bytes = element_bytes(p, o);
        const size_t first = a->first > b->first ? a->first : b->first;
        for (size_t row = first; row < a->first + a->rows && row < b->first + b->rows; row++) {
            const unsigned char *left = a->out[o] + (row - a->first) * width * bytes;
            const unsigned char *right = b->out[o] + (row - b->first) * width * bytes;
            const nk_dtype dtype = stored_as(p, o);
            const size_t i = first_difference(left, right, width, dtype);
            if (i == width)
                continue;
            report(b->kernel, p, "%s: %s[%zu][%zu] is %.9g, not %.9g", what, nk_operands[o].name,
                   row, i, (double)nk_to_float(right, i, dtype),
                   (double)nk_to_float(left, i, dtype));
            return;
        }
    }
}
