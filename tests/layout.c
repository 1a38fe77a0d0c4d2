/* SPDX-License-Identifier: Apache-2.0 */
#include "layout.h"
#include "harness.h"

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

static void arena_refused(const char *call)
{
    perror(call);
    exit(2);
}

void arena_map(void)
{
    if (arena[0])
        return;
    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    for (int o = 0; o < NK_OPERANDS; o++) {
        void *pages = mmap(NULL, CAPACITY + 2 * page_bytes, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (pages == MAP_FAILED)
            arena_refused("mmap");
        arena[o] = (unsigned char *)pages + page_bytes;
        if (mprotect(arena[o], CAPACITY, PROT_READ | PROT_WRITE))
            arena_refused("mprotect");
    }
    if (masked_loads_read_too_much()) {
        printf("this emulator's masked loads read too much: guard pages are a vector away\n");
        slack_bytes = 64;
    }
}

void arena_explain(const void *fault, FILE *to)
{
    const unsigned char *address = fault;
    for (int o = 0; o < NK_OPERANDS; o++)
        if (address >= arena[o] - page_bytes && address < arena[o] + CAPACITY + page_bytes)
            fprintf(to, ": %s the buffer of %s", address < arena[o] ? "before" : "beyond",
                    nk_operands[o].name);
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
    const size_t bytes = nk_operand_element_bytes(operand, p->dtype, p->flags);
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
    const size_t first = operand_is_by_row(operand) ? l->first : 0;
    const size_t hidden = nk_operands[operand].shape == NK_SHAPE_ROW ? p->hidden : 1;
    return p->in[operand] +
           (first + row) * hidden * nk_operand_element_bytes(operand, p->dtype, p->flags);
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
    problem_scalars(p, args);
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
            if (p->in[o])
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
    if (p->in[operand])
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

unsigned char *layout_collect(const problem *p, const layout *l, int operand)
{
    const place where = place_of(p, l, operand);
    unsigned char *dense = malloc(where.rows * where.row_bytes + 1);
    for (size_t row = 0; row < where.rows; row++)
        memcpy(dense + row * where.row_bytes, where.start + row * where.ld_bytes, where.row_bytes);
    return dense;
}
