/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel on ordinary rows: all shapes, options and places of operands. */
#include "harness.h"
#include "result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const nk_provider *provider;

/* Another place of the same rows: the same bits, nothing else touched. */
static void run_again(const problem *p, const result *first, const layout *l, const char *what)
{
    result r;
    run(first->kernel, p, l, &r);
    check_same(p, first, &r, what);
    result_free(&r);
}

static layout layout_of(bool at_end, size_t pad, size_t shift)
{
    layout l = {.at_end = at_end};
    for (int o = 0; o < NK_OPERANDS; o++) {
        l.pad[o] = pad ? pad + (size_t)o : 0;
        l.shift[o] = shift ? (shift + 5 * (size_t)o) % 16 : 0;
    }
    return l;
}

/* ---- Shapes ----------------------------------------------------------------- */

static void check_shape(problem *p)
{
    if (p->hidden > 1) /* else all that is given, no option */
        problem_vary(p, mix(harness_seed(), p->hidden * 64 + p->rows));
    problem_expect(p);
    for (const nk_kernel *k = kernel_next(p, NULL); k; k = kernel_next(p, k)) {
        result r;
        run(k, p, &(layout){0}, &r);
        check_result(p, &r);
        const layout at_end = layout_of(true, p->hidden % 2 ? 0 : 3, 0);
        run_again(p, &r, &at_end, "before a guard page");
        result_free(&r);
    }
}

static void shapes(void **state)
{
    (void)state;
    static const size_t wide[] = {131, 767, 768, 769, 1023, 1600, 4096, 4099, 16384, 0};
    static const size_t some_rows[] = {1, 2, 3, 7, 17, 33, 0};
    size_t narrow[131] = {0};
    for (size_t i = 0; i < 130; i++)
        narrow[i] = i + 1;
    test_begin("shapes");
    each_problem(check_shape, some_rows, narrow);
    each_problem(check_shape, some_rows, wide);
    test_end();
}

/* ---- Rows that round one way --------------------------------------------------- */

static float structured_value(uint64_t random, size_t i, double mean, double sd)
{
    const double z = (double)normal(random, i);
    switch (random % 4) {
    case 0:
        return (float)(mean + sd * z);
    case 1:
        return (float)(i % 2 ? mean + sd : mean - sd);
    case 2: /* one in seven, of unit variance about 0 */
        return (float)(mean + sd * (i % 7 ? -0.408 : 2.449));
    default: /* a lone element far off */
        return (float)(0.01 * z + (i == random % 61 ? 100 * mean : 0));
    }
}

/* Equal addends round the same way, each time: few values in a row, and a mean
 * of the size of the standard deviation, is the worst that sums can meet. */
static void check_structured(problem *p)
{
    const int input = problem_main_input(p);
    for (size_t i = 0; i < p->rows * p->hidden && p->in[NK_OPERAND_RESIDUAL]; i++)
        problem_set(p, NK_OPERAND_RESIDUAL, i, 0.0f);
    for (size_t row = 0; row < p->rows; row++) {
        const uint64_t random = mix(harness_seed(), row * 65536 + p->hidden);
        const double mean = exp2((double)(random >> 8 & 1023) / 256 - 2);
        const double sd = mean / exp2((double)(random >> 18 & 1023) / 256 - 1.5);
        for (size_t i = 0; i < p->hidden; i++)
            problem_set(p, input, row * p->hidden + i, structured_value(random, i, mean, sd));
    }
    problem_true_statistics(p);
    problem_expect(p);
    for (const nk_kernel *k = kernel_next(p, NULL); k; k = kernel_next(p, k)) {
        result r;
        run(k, p, &(layout){0}, &r);
        if (kernel_is_default(k))
            check_result(p, &r);
        result_free(&r);
    }
}

static void structured(void **state)
{
    (void)state;
    static const size_t some_hidden[] = {64, 100, 256, 768, 1024, 1600, 0};
    test_begin("structured");
    each_problem(check_structured, (size_t[]){300, 0}, some_hidden);
    each_problem(check_structured, (size_t[]){16, 0}, (size_t[]){4099, 16384, 0});
    test_end();
}

/* ---- Options ------------------------------------------------------------------ */

/* An absent column is the column of its neutral numbers, bit for bit. */
static void absent_is_neutral(problem *p, const result *r, const nk_kernel *k)
{
    problem *full = problem_new(p->op, p->dtype, p->rows, p->hidden);
    full->eps = p->eps;
    full->alpha = p->alpha;
    full->gamma_offset = p->gamma_offset;
    full->fraction = p->fraction;
    problem_set_flags(full, p->flags);
    for (int o = 0; o < NK_OPERANDS; o++) /* inputs of other shapes are no neutral numbers */
        if (full->in[o] && nk_operands[o].shape != NK_SHAPE_COLUMN && !(p->present & BIT(o)))
            full->present &= ~BIT(o);
        else if (nk_operands[o].shape == NK_SHAPE_COLUMN && full->in[o] && !(p->present & BIT(o)))
            for (size_t i = 0; i < p->hidden; i++)
                problem_set(full, o, i, o == NK_OPERAND_BETA ? 0.0f : 1.0f);
    if (!(p->present & BIT(NK_OPERAND_RESIDUAL))) /* a copy has h of a residual only */
        full->present &= ~BIT(NK_OPERAND_H);
    result f;
    run(k, full, &(layout){0}, &f);
    check_same(full, &f, r, "with absent columns and fewer results");
    result_free(&f);
    problem_free(full);
}

/* Every subset of what is optional; of the thousands that some ops have, a hundred, and of
 * large rows, where they take long, a few dozen. */
static void check_options(problem *p)
{
    const uint64_t most = p->rows * p->hidden > 2048 ? 32 : 128;
    const uint32_t all = nk_ops[p->op].optional;
    const uint64_t subsets = UINT64_C(1) << __builtin_popcount(all);
    for (uint32_t choice = 0; choice <= all; choice++) {
        if (choice & ~all)
            continue;
        if (subsets > most && mix(harness_seed() + p->hidden, choice) % (subsets / most) != 0)
            continue;
        problem_vary(p, mix(choice, p->hidden) << 32 | choice);
        problem_expect(p);
        for (const nk_kernel *k = kernel_next(p, NULL); k; k = kernel_next(p, k)) {
            result r;
            run(k, p, &(layout){0}, &r);
            check_result(p, &r);
            absent_is_neutral(p, &r, k);
            result_free(&r);
        }
    }
}

static void options(void **state)
{
    (void)state;
    static const size_t some_hidden[] = {2, 5, 16, 67, 256, 769, 4099, 0};
    test_begin("options");
    each_problem(check_options, (size_t[]){1, 2, 9, 0}, some_hidden);
    test_end();
}

/* ---- Places --------------------------------------------------------------------- */

static void check_places(problem *p)
{
    problem_expect(p);
    for (const nk_kernel *k = kernel_next(p, NULL); k; k = kernel_next(p, k)) {
        result r;
        run(k, p, &(layout){0}, &r);
        check_result(p, &r);
        for (size_t shift = 1; shift < 16; shift++) {
            layout l = layout_of(false, 0, shift);
            run_again(p, &r, &l, "shifted pointers");
            l = layout_of(true, shift * 3 % 17, shift);
            run_again(p, &r, &l, "shifted pointers and strides");
        }
        for (int o = 0; o < NK_OPERANDS; o++)
            for (int at_end = 0; at_end < 2 && (p->present & BIT(o)); at_end++) {
                layout one = {.at_end = at_end};
                for (int other = 0; other < NK_OPERANDS; other++)
                    one.shift[other] = other == o ? 0 : 16;
                run_again(p, &r, &one, "one operand at a guard page");
            }
        result_free(&r);
    }
}

static void places(void **state)
{
    (void)state;
    static const size_t some_hidden[] = {1, 3, 8, 16, 31, 64, 100, 768, 1023, 4096, 4099, 0};
    test_begin("places");
    each_problem(check_places, (size_t[]){1, 3, 18, 0}, some_hidden);
    test_end();
}

/* Among ordinary rows, some of the kinds that take a slower path. */
static void mix_in_odd_rows(problem *p)
{
    float *values = malloc(p->hidden * sizeof(float));
    for (size_t row = 1; row < p->rows; row += 4) {
        const uint64_t random = mix(harness_seed(), row * 65536 + p->hidden);
        const row_kind *kind = &row_kinds[random % row_kind_count];
        kind->fill(values, p->hidden, kind->a, kind->b, random);
        for (size_t i = 0; i < p->hidden; i++)
            problem_set(p, problem_main_input(p), row * p->hidden + i, values[i]);
    }
    free(values);
    if (normal(harness_seed(), p->hidden) < 0) /* else of other rows */
        problem_true_statistics(p);
}

/* ---- In place --------------------------------------------------------------------- */

static bool is_row_output(const problem *p, int operand)
{
    return problem_gives(p, operand) && nk_operands[operand].shape == NK_SHAPE_ROW;
}

/* Lays the outputs from `operand` on over inputs in every allowed way. */
static void aliases_from(const problem *p, const result *r, layout *l, int operand, uint32_t used)
{
    if (operand == NK_OPERANDS) {
        if (used)
            run_again(p, r, l, "in place");
        return;
    }
    l->alias[operand] = 0;
    aliases_from(p, r, l, operand + 1, used);
    if (!is_row_output(p, operand))
        return;
    for (int input = 0; input < NK_OPERANDS; input++) {
        if (!(nk_ops[p->op].aliases & p->present & ~used & BIT(input)))
            continue;
        l->alias[operand] = 1 + input;
        aliases_from(p, r, l, operand + 1, used | BIT(input));
    }
    l->alias[operand] = 0;
}

static void check_aliases(problem *p)
{
    for (const nk_kernel *k = kernel_next(p, NULL); k; k = kernel_next(p, k)) {
        result r;
        run(k, p, &(layout){0}, &r);
        for (size_t i = 0; i < 4; i++) {
            layout l = layout_of(i & 1, i & 2 ? 7 : 0, i & 1);
            l.store = i == 0 ? NK_STORE_STREAM : NK_STORE_AUTO;
            aliases_from(p, &r, &l, 0, 0);
        }
        result_free(&r);
    }
}

/* With all results wanted, then without h. */
static void check_in_place(problem *p)
{
    mix_in_odd_rows(p);
    check_aliases(p);
    p->present &= nk_ops[p->op].required | ~BIT(NK_OPERAND_H);
    check_aliases(p);
}

static void in_place(void **state)
{
    (void)state;
    static const size_t some_hidden[] = {1, 5, 16, 64, 100, 769, 4099, 0};
    test_begin("in_place");
    each_problem(check_in_place, (size_t[]){1, 2, 7, 20, 0}, some_hidden);
    test_end();
}

/* ---- Batch invariance ---------------------------------------------------------------- */

/* Of long rows every other way. */
static size_t every(const problem *p)
{
    return p->hidden > 2048 ? 2 : 1;
}

static void slices(const problem *p, const result *whole)
{
    static const size_t some_rows[] = {1, 2, 3, 7, 8, 9, 16, 17, 31};
    for (size_t i = 0; i < COUNT(some_rows) && some_rows[i] < p->rows; i += every(p)) {
        const size_t rows = some_rows[i];
        for (size_t first = 0; first + rows <= p->rows; first += rows) {
            layout l = layout_of(i % 2, i % 3, (first + i) % 16);
            l.first = first;
            l.rows = rows;
            run_again(p, whole, &l, "fewer rows");
        }
    }
}

/* Streamed or not, by request or by size: the same bits; and the kernel says
 * which. */
static void stores(const problem *p, const result *whole)
{
    const char *isa = whole->kernel->isa;
    const bool never = !strcmp(isa, "scalar") || !strcmp(isa, "neon");
    static const struct {
        uint32_t store;
        size_t llc_bytes;
        bool cached;
    } modes[] = {{NK_STORE_CACHED, 0, true},          {NK_STORE_STREAM, 0, false},
                 {NK_STORE_AUTO, 0, false},           {NK_STORE_AUTO, 1, false},
                 {NK_STORE_CACHED, 1, true},          {NK_STORE_STREAM, SIZE_MAX, false},
                 {NK_STORE_AUTO, SIZE_MAX / 2, true}, {NK_STORE_AUTO, 4096, false}};
    for (size_t i = 0; i < COUNT(modes); i++)
        for (size_t pad = every(p) == 1 ? 0 : i % 2; pad < 2; pad += every(p)) {
            layout l = {.store = modes[i].store, .llc_bytes = modes[i].llc_bytes};
            for (int o = 0; o < NK_OPERANDS; o++)
                l.pad[o] = pad ? (i % 2 ? 64 : 1) : 0;
            result r;
            run(whole->kernel, p, &l, &r);
            check_same(p, whole, &r, "another store");
            if ((modes[i].cached || never) && r.store_used != NK_STORE_CACHED)
                report(whole->kernel, p, "streamed, store %u, llc_bytes %zu", l.store, l.llc_bytes);
            result_free(&r);
        }
}

static void check_batch(problem *p)
{
    mix_in_odd_rows(p);
    for (const nk_kernel *k = kernel_next(p, NULL); k; k = kernel_next(p, k)) {
        result whole;
        run(k, p, &(layout){0}, &whole);
        slices(p, &whole);
        stores(p, &whole);
        result_free(&whole);
    }
}

static void batch(void **state)
{
    (void)state;
    static const size_t some_hidden[] = {1, 5, 16, 100, 256, 1600, 4099, 0};
    test_begin("batch");
    each_problem(check_batch, (size_t[]){40, 0}, some_hidden);
    each_problem(check_batch, (size_t[]){18, 0}, (size_t[]){16384, 0});
    test_end();
}

/* ---- Fused and unfused ------------------------------------------------------------------ */

/* An unfused op, and which operands of the fused one are its x, gamma, rstd. */
typedef struct step {
    const char *op;
    int x, gamma, rstd;
} step;

/* fused = second, whose operand `to` is the result `from` of first */
static const struct chain {
    const char *fused;
    step first;
    int from, to;
    step second;
} chains[] = {
#define PLAIN(op)                                                                                  \
    {                                                                                              \
        op, NK_OPERAND_X, NK_OPERAND_GAMMA, NK_OPERAND_RSTD                                        \
    }
#define OF_RESIDUAL(op)                                                                            \
    {                                                                                              \
        op, NK_OPERAND_RESIDUAL, NK_OPERAND_GAMMA, NK_OPERAND_RSTD                                 \
    }
#define OF_GAMMA2(op)                                                                              \
    {                                                                                              \
        op, NK_OPERAND_X, NK_OPERAND_GAMMA2, NK_OPERAND_RSTD2                                      \
    }
    {"add_layernorm", PLAIN("residual_add"), NK_OPERAND_H, NK_OPERAND_X, PLAIN("layernorm")},
    {"add_rmsnorm", PLAIN("residual_add"), NK_OPERAND_H, NK_OPERAND_X, PLAIN("rmsnorm")},
    {"rmsnorm_add", OF_RESIDUAL("rmsnorm"), NK_OPERAND_Y, NK_OPERAND_RESIDUAL,
     PLAIN("residual_add")},
    {"rmsnorm_add_rmsnorm", PLAIN("rmsnorm_add"), NK_OPERAND_H, NK_OPERAND_X, OF_GAMMA2("rmsnorm")},
#undef PLAIN
#undef OF_RESIDUAL
#undef OF_GAMMA2
};

static int operand_of(const step *s, int operand)
{
    switch (operand) {
    case NK_OPERAND_X:
        return s->x;
    case NK_OPERAND_GAMMA:
        return s->gamma;
    case NK_OPERAND_RSTD:
        return s->rstd;
    default:
        return operand;
    }
}

/* The fused op's problem as far as it is this step's. */
static problem *problem_for(const problem *p, const step *s)
{
    const int op = nk_op_index(s->op);
    const uint32_t options = nk_ops[op].options;
    problem *q = problem_new(op, p->dtype, p->rows, p->hidden);
    q->eps = options & NK_TAKES_EPS ? p->eps : 0;
    q->gamma_offset = options & NK_TAKES_OFFSET ? p->gamma_offset : 0;
    problem_set_flags(q, options & NK_TAKES_EPS ? p->flags : 0);
    for (int o = 0; o < NK_OPERANDS; o++) {
        const int source = operand_of(s, o);
        if (nk_ops[op].optional & BIT(o) && !(p->present & BIT(source)))
            q->present &= ~BIT(o);
        for (size_t i = 0;
             q->in[o] && p->in[source] && i < nk_operand_elements(o, p->rows, p->hidden); i++)
            problem_set(q, o, i, problem_get(p, source, i));
    }
    return q;
}

static void give(unsigned char **to, unsigned char **from)
{
    free(*to);
    *to = *from;
    *from = NULL;
}

/* The results of both steps, as the fused op's. */
static void unfused(const problem *p, const struct chain *c, const nk_kernel *k, result *r)
{
    problem *one = problem_for(p, &c->first), *two = problem_for(p, &c->second);
    result half;
    run(kernel_like(k, c->first.op), one, &(layout){0}, r);
    memcpy(two->in[c->to], r->out[c->from], p->rows * p->hidden * nk_dtypes[p->dtype].bytes);
    run(kernel_like(k, c->second.op), two, &(layout){0}, &half);
    for (int o = 0; o < NK_OPERANDS; o++)
        if (half.out[o])
            give(&r->out[operand_of(&c->second, o)], &half.out[o]);
    result_free(&half);
    problem_free(one);
    problem_free(two);
}

static void check_chain(problem *p, const struct chain *c)
{
    for (const nk_kernel *k = kernel_next(p, NULL); k; k = kernel_next(p, k)) {
        if (!kernel_is_default(k))
            continue;
        result fused, chained;
        run(k, p, &(layout){0}, &fused);
        unfused(p, c, k, &chained);
        check_same(p, &chained, &fused, "fused, against one after the other");
        result_free(&chained);
        result_free(&fused);
    }
}

static void check_fused(problem *p)
{
    for (const struct chain *c = chains; c < chains + COUNT(chains); c++)
        for (uint64_t choice = 0; choice < 4 && !strcmp(c->fused, nk_ops[p->op].name); choice++) {
            problem_vary(p, mix(harness_seed(), choice + 4 * p->hidden));
            mix_in_odd_rows(p);
            check_chain(p, c);
        }
}

static void fused(void **state)
{
    (void)state;
    static const size_t some_hidden[] = {1,   7,    16,   33,   100,   256, 768,
                                         769, 1600, 4096, 4099, 16384, 0};
    test_begin("fused");
    each_problem(check_fused, (size_t[]){1, 17, 0}, some_hidden);
    test_end();
}

/* ---- Nothing left out --------------------------------------------------------------------- */

static bool dtype_is_provided(const char *dtype)
{
    for (size_t i = 0; i < provider->count; i++)
        if (!strcmp(provider->kernels[i].dtype, dtype))
            return true;
    return false;
}

/* What the compiler's own detection says of this CPU. */
static bool cpu_has(const char *isa)
{
#if defined(__x86_64__)
    if (!strcmp(isa, "avx2"))
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (!strcmp(isa, "avx512"))
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#elif defined(__aarch64__)
    if (!strcmp(isa, "neon"))
        return true;
#endif
    return !strcmp(isa, "scalar");
}

/* By the build's own option. */
static bool is_built(const char *isa)
{
    const char *const all = "," TEST_ISAS ",";
    char item[16];
    snprintf(item, sizeof item, ",%s,", isa);
    return !*TEST_ISAS || strstr(all, item);
}

static void check_cell(const nk_algorithm_info *algorithm, const char *dtype, const char *isa)
{
    const char *op = nk_ops[algorithm->op].name;
    const nk_kernel *kernel = NULL;
    for (const nk_kernel *k = provider->kernels; k < provider->kernels + provider->count; k++)
        if (!strcmp(k->op, op) && !strcmp(k->algorithm, algorithm->name) &&
            !strcmp(k->dtype, dtype) && !strcmp(k->isa, isa)) {
            if (kernel)
                fail_msg("%s/%s/%s/%s is there twice", op, algorithm->name, dtype, isa);
            kernel = k;
        }
    if (!kernel)
        fail_msg("%s/%s/%s/%s is not in the provider's table", op, algorithm->name, dtype, isa);
    const char *restricted = getenv("NORMKERNELS_ISA");
    const bool wanted = cpu_has(isa) && is_built(isa) && (!restricted || !strcmp(restricted, isa));
    if (kernel->unavailable && (wanted || !*kernel->unavailable))
        fail_msg("%s/%s is unavailable, though this CPU and build have it: %s", op, isa,
                 kernel->unavailable);
    if (!kernel->unavailable && !wanted)
        fail_msg("%s/%s would run, though this CPU or build does not have it", op, isa);
    if (!kernel->unavailable && !kernel_exercised(kernel))
        fail_msg("%s/%s/%s/%s was not exercised", op, algorithm->name, dtype, isa);
}

static void every_cell(void **state)
{
    (void)state;
    test_begin("every_cell");
    if (harness_filtered())
        skip();
    for (size_t i = 0; i < nk_algorithm_count; i++)
        for (int dtype = 0; dtype < NK_DTYPES; dtype++)
            for (int isa = 0; isa < NK_ISAS; isa++)
                if (dtype_is_provided(nk_dtypes[dtype].name))
                    check_cell(&nk_algorithms[i], nk_dtypes[dtype].name, nk_isas[isa].name);
}

int main(int argc, char **argv)
{
    provider = harness_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes), cmocka_unit_test(structured), cmocka_unit_test(options),
        cmocka_unit_test(places), cmocka_unit_test(in_place),   cmocka_unit_test(batch),
        cmocka_unit_test(fused),  cmocka_unit_test(every_cell),
    };
    return harness_end(cmocka_run_group_tests(tests, NULL, NULL));
}
