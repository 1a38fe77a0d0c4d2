/* SPDX-License-Identifier: Apache-2.0 */
/* Bad arguments come back as a status whose text names them, before anything
 * is written. */
#include "harness.h"
#include "layout.h"

#include <limits.h>
#include <math.h>
#include <string.h>

enum { ROWS = 3, HIDDEN = 37 };
static const layout spread = {.pad = {[NK_OPERAND_X] = 5, [NK_OPERAND_Y] = 3}};

/* Whether the text starts with this name: "x: ..." or "x_ld ..." for x. */
static bool names(const char *text, const char *name)
{
    const size_t length = strlen(name);
    if (strncmp(text, name, length) != 0)
        return false;
    text += length;
    if (!strncmp(text, "_ld", 3))
        text += 3;
    return *text == ':' || *text == ' ';
}

static void check_refused(const nk_kernel *k, const problem *p, const nk_args *args,
                          const char *name, const char *what)
{
    const nk_status status = k->function(args);
    int operand;
    if (status == NK_OK)
        report(k, p, "%s %s: not refused", name, what);
    else if (!names(status_text(status), name))
        report(k, p, "%s %s: refused by \"%s\"", name, what, status_text(status));
    if (!layout_intact(p, &spread, false, &operand))
        report(k, p, "%s %s: refused, but %s was written", name, what, nk_operands[operand].name);
}

/* A sound call that the checks below spoil. */
static nk_args sound(const problem *p)
{
    nk_args args;
    layout_place(p, &spread, &args);
    return args;
}

static void operands(const nk_kernel *k, const problem *p)
{
    static float other[ROWS * HIDDEN];
    for (int o = 0; o < NK_OPERANDS; o++) {
        const char *name = nk_operands[o].name;
        const bool is_row = nk_operands[o].shape == NK_SHAPE_ROW;
        nk_args args = sound(p);
        if (!problem_takes(p, o)) {
            nk_operand_set(&args, o, other);
            check_refused(k, p, &args, name, "not taken");
            continue;
        }
        if (nk_ops[p->op].required & BIT(o)) {
            nk_operand_set(&args, o, NULL);
            check_refused(k, p, &args, name, "NULL");
        }
        if (!is_row)
            continue;
        const size_t beyond = SIZE_MAX / nk_dtypes[p->dtype].bytes / ROWS; /* half of memory */
        const size_t bad_ld[] = {1, HIDDEN - 1, beyond, SIZE_MAX / 2, SIZE_MAX};
        for (size_t i = 0; i < COUNT(bad_ld); i++) {
            args = sound(p);
            nk_operand_set_ld(&args, o, bad_ld[i]);
            check_refused(k, p, &args, name, "with a bad stride");
        }
    }
}

/* `copy` has h of a residual. */
static void h_of_nothing(const nk_kernel *k, const problem *p)
{
    nk_args args = sound(p);
    args.residual = NULL;
    if (p->op == NK_OP_copy)
        check_refused(k, p, &args, "residual", "missing");
}

/* The first row operand is the first that is out of the address space. */
static void sizes(const nk_kernel *k, const problem *p)
{
    const char *first = nk_operands[problem_main_input(p)].name;
    const size_t bad[] = {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / HIDDEN};
    for (size_t i = 0; i < COUNT(bad); i++) {
        nk_args args = sound(p);
        args.rows = bad[i];
        check_refused(k, p, &args, first, "with too many rows");
        args = sound(p);
        args.rows = 1;
        args.hidden = bad[i];
        for (int o = 0; o < NK_OPERANDS; o++)
            if (nk_operands[o].shape == NK_SHAPE_ROW)
                nk_operand_set_ld(&args, o, 0);
        args.rows = HIDDEN + 1;
        check_refused(k, p, &args, first, "with too wide rows");
    }
}

static void scalars(const nk_kernel *k, const problem *p)
{
    const struct {
        const char *name;
        size_t offset;
        uint32_t option;
        float bad_if_taken[3]; /* 0 ends */
    } table[] = {
        {"eps", offsetof(nk_args, eps), NK_TAKES_EPS, {-1e-5f, NAN, INFINITY}},
        {"alpha", offsetof(nk_args, alpha), NK_TAKES_ALPHA, {0}},
        {"gamma_offset", offsetof(nk_args, gamma_offset), NK_TAKES_OFFSET, {0}},
        {"fraction", offsetof(nk_args, fraction), NK_TAKES_FRACTION, {-0.5f, NAN, 1.5f}},
    };
    for (size_t i = 0; i < COUNT(table); i++) {
        const bool taken = (nk_ops[p->op].options & table[i].option) != 0;
        const float not_taken[3] = {1.0f};
        const float *bad = taken ? table[i].bad_if_taken : not_taken;
        for (size_t j = 0; j < 3 && !(bad[j] == 0.0f); j++) {
            nk_args args = sound(p);
            memcpy((char *)&args + table[i].offset, &bad[j], sizeof(float));
            check_refused(k, p, &args, table[i].name, taken ? "bad" : "not taken");
        }
    }
}

static void flags(const nk_kernel *k, const problem *p)
{
    const uint32_t options = nk_ops[p->op].options;
    uint32_t known = NK_PARAMS_F32;
    known |= options & NK_TAKES_EPS ? NK_EPS_OUTSIDE : 0;
    known |= options & NK_TAKES_UNBIASED ? NK_UNBIASED : 0;
    for (int bit = 0; bit < 32; bit++) {
        if (known & BIT(bit))
            continue;
        nk_args args = sound(p);
        args.flags |= BIT(bit);
        check_refused(k, p, &args, "flags", "unknown or not taken");
    }
    const uint32_t stores[] = {3, UINT32_MAX};
    for (size_t i = 0; i < COUNT(stores); i++) {
        nk_args args = sound(p);
        args.store = stores[i];
        check_refused(k, p, &args, "store", "unknown");
    }
}

static void struct_size(const nk_kernel *k, const problem *p)
{
    struct {
        nk_args args;
        unsigned char tail[24];
    } longer = {.tail = {0}};
    const size_t bad[] = {0, 1, sizeof(nk_args) - 1, offsetof(nk_args, eps)};
    for (size_t i = 0; i < COUNT(bad); i++) {
        nk_args args = sound(p);
        args.size = bad[i];
        check_refused(k, p, &args, "size", "too small");
    }
    longer.args = sound(p);
    longer.args.size = sizeof(longer);
    for (size_t i = 0; i < sizeof(longer.tail); i++) {
        longer.tail[i] = 1;
        check_refused(k, p, &longer.args, "size", "of a struct with an unknown field set");
        longer.tail[i] = 0;
    }
    const nk_status status = k->function(&longer.args);
    if (status != NK_OK)
        report(k, p, "a longer struct with a zero tail is refused: %s", status_text(status));
}

static void nothing_to_do(const nk_kernel *k, const problem *p)
{
    const size_t shapes[][2] = {{0, HIDDEN}, {ROWS, 0}, {0, 0}};
    for (size_t i = 0; i < COUNT(shapes); i++)
        for (int with_pointers = 0; with_pointers < 2; with_pointers++) {
            nk_args args = sound(p);
            if (!with_pointers) {
                args = (nk_args){.size = sizeof(args), .eps = p->eps};
                args.alpha = p->alpha;
                args.fraction = p->fraction;
            }
            args.rows = shapes[i][0];
            args.hidden = shapes[i][1];
            const nk_status status = k->function(&args);
            int operand;
            if (status != NK_OK)
                report(k, p, "%zu x %zu is refused: %s", args.rows, args.hidden,
                       status_text(status));
            if (!layout_intact(p, &spread, false, &operand))
                report(k, p, "%zu x %zu writes %s", args.rows, args.hidden,
                       nk_operands[operand].name);
        }
}

static void all(problem *p)
{
    for (const nk_kernel *k = kernel_next(p, NULL); k; k = kernel_next(p, k)) {
        operands(k, p);
        h_of_nothing(k, p);
        sizes(k, p);
        scalars(k, p);
        flags(k, p);
        struct_size(k, p);
        nothing_to_do(k, p);
    }
}

static void arguments(void **state)
{
    (void)state;
    test_begin("arguments");
    each_problem(all, (size_t[]){ROWS, 0}, (size_t[]){HIDDEN, 0});
    test_end();
}

static void every_status_has_a_text(void **state)
{
    (void)state;
    test_begin("every_status_has_a_text");
    const nk_status statuses[] = {NK_OK, 1, -1, 12345678, INT_MAX, INT_MIN};
    for (size_t i = 0; i < COUNT(statuses); i++) {
        const char *text = status_text(statuses[i]);
        assert_non_null(text);
        assert_true(*text != '\0');
    }
}

int main(int argc, char **argv)
{
    harness_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments),
        cmocka_unit_test(every_status_has_a_text),
    };
    return harness_end(cmocka_run_group_tests(tests, NULL, NULL));
}
