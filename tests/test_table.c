/* SPDX-License-Identifier: Apache-2.0 */
/* Tables keep to 100 columns, whatever is in them, and lose nothing. */
#include "table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* What the table prints, and the length of its longest line. */
static size_t print(nb_table *table, char *text, size_t size)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    nb_table_print(table, file);
    rewind(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
    size_t longest = 0;
    for (const char *line = text; *line;) {
        const size_t n = strcspn(line, "\n");
        longest = n > longest ? n : longest;
        line += n + (line[n] == '\n');
    }
    return longest;
}

static void test_narrow_tables_stay_as_they_are(void **state)
{
    (void)state;
    static const char *const titles[] = {"<kernel", ">ns", "<note", NULL};
    nb_table table;
    char text[1000];
    nb_table_init(&table, titles);
    nb_table_add(&table, NB_RED, "rmsnorm");
    nb_table_add(&table, NB_BOLD, "%d", 7);
    nb_table_add(&table, NB_DIM, "slow");
    nb_table_add(&table, NB_PLAIN, "dyt");
    nb_table_add(&table, NB_PLAIN, "1234");
    nb_table_add(&table, NB_PLAIN, "%s", "");
    print(&table, text, sizeof text);
    assert_string_equal(text, "kernel     ns  note\n"
                              "rmsnorm     7  slow\n"
                              "dyt      1234  \n");
}

static void test_an_empty_table_is_its_titles(void **state)
{
    (void)state;
    static const char *const titles[] = {"<a", ">b", NULL};
    nb_table table;
    char text[100];
    nb_table_init(&table, titles);
    print(&table, text, sizeof text);
    assert_string_equal(text, "a  b\n");
}

static void test_first_texts_become_headings(void **state)
{
    (void)state;
    static const char *const titles[] = {"<kernel", "<algorithm", ">rows", ">ns", "<note", NULL};
    static const char *const kernels[] = {"first kernel with a name of forty letters", "second"};
    nb_table table;
    char text[1000];
    nb_table_init(&table, titles);
    for (size_t i = 0; i < 3; i++) {
        nb_table_add(&table, NB_PLAIN, "%s", kernels[i / 2]);
        nb_table_add(&table, NB_PLAIN, "an algorithm of forty letters, more or less");
        nb_table_add(&table, NB_PLAIN, "%zu", i);
        nb_table_add(&table, NB_PLAIN, "1234567.8");
        nb_table_add(&table, NB_PLAIN, "note");
    }
    assert_true(print(&table, text, sizeof text) <= NB_TABLE_WIDTH);
    assert_string_equal(text,
                        "algorithm                                    rows         ns  note\n"
                        "first kernel with a name of forty letters\n"
                        "an algorithm of forty letters, more or less     0  1234567.8  note\n"
                        "an algorithm of forty letters, more or less     1  1234567.8  note\n"
                        "second\n"
                        "an algorithm of forty letters, more or less     2  1234567.8  note\n");
}

/* As wide as `run` with gradients, threads and chains could make it, and wider. */
static void test_any_table_fits(void **state)
{
    (void)state;
    static const char *const titles[] = {"<kernel", "<algorithm", "<dtype",    "<isa",   ">rows",
                                         ">hidden", "<level",     ">ns/row",   ">/copy", ">limit",
                                         ">share",  ">/unfused",  ">error, u", "<",      NULL};
    static const char *const cells[] = {"rmsnorm_add_rmsnorm_bwd",
                                        "two_pass",
                                        "bf16",
                                        "avx512",
                                        "1048576",
                                        "16384",
                                        "memory",
                                        "12345678.9",
                                        "123.45",
                                        "12345678.9",
                                        "1.02",
                                        "12.34",
                                        "12345.6",
                                        "rotate, 128 threads"};
    enum { CELLS = sizeof cells / sizeof cells[0] };
    nb_table table;
    char text[4000];
    nb_table_init(&table, titles);
    for (size_t i = 0; i < CELLS; i++)
        nb_table_add(&table, NB_BOLD, "%s", cells[i]);
    for (size_t i = 0; i + 1 < CELLS; i++)
        nb_table_add(&table, NB_BOLD, "-");
    nb_table_add(&table, NB_PLAIN,
                 "a reason that is by itself much longer than what is left of a "
                 "line, as they sometimes are");
    assert_true(print(&table, text, sizeof text) <= NB_TABLE_WIDTH);
    for (size_t i = 0; i < CELLS; i++)
        assert_non_null(strstr(text, cells[i]));
    assert_non_null(strstr(text, "\n    a reason that is by itself"));
    assert_null(strchr(text, '\033')); /* no terminal, no colour */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_narrow_tables_stay_as_they_are),
        cmocka_unit_test(test_an_empty_table_is_its_titles),
        cmocka_unit_test(test_first_texts_become_headings),
        cmocka_unit_test(test_any_table_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
