/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace.h"
#include "cells.h"
#include "program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *const nb_row_kind_names[NB_ROW_KINDS] = {[NB_ROWS_NORMAL] = "normal",
                                                     [NB_ROWS_MEAN] = "mean",
                                                     [NB_ROWS_CONSTANT] = "constant",
                                                     [NB_ROWS_ALTERNATING] = "alternating",
                                                     [NB_ROWS_OUTLIER] = "outlier",
                                                     [NB_ROWS_TINY] = "tiny",
                                                     [NB_ROWS_SUBNORMAL] = "subnormal",
                                                     [NB_ROWS_HUGE] = "huge",
                                                     [NB_ROWS_ZERO] = "zero",
                                                     [NB_ROWS_INFINITY] = "infinity",
                                                     [NB_ROWS_NAN] = "nan"};

/* Where in a page each operand begins. Multiples of 64; an output lies more
 * than 512 bytes ahead of every input that is still being read when it is
 * written. */
enum { PAGE = 4096 };
static const size_t offsets[NK_OPERANDS] = {
    [NK_OPERAND_X] = 0,         [NK_OPERAND_RESIDUAL] = 256,   [NK_OPERAND_DY] = 512,
    [NK_OPERAND_DH] = 768,      [NK_OPERAND_GAMMA] = 1024,     [NK_OPERAND_BETA] = 1280,
    [NK_OPERAND_GAMMA2] = 1408, [NK_OPERAND_Y] = 2048,         [NK_OPERAND_DX] = 2560,
    [NK_OPERAND_H] = 3072,      [NK_OPERAND_DRESIDUAL] = 3584, [NK_OPERAND_MEAN] = 1664,
    [NK_OPERAND_RSTD] = 1728,   [NK_OPERAND_RSTD2] = 1792,     [NK_OPERAND_DGAMMA] = 2304,
    [NK_OPERAND_DBETA] = 2816,  [NK_OPERAND_DGAMMA2] = 3328,   [NK_OPERAND_DALPHA] = 3840};

/* The scratch rows are the y of the kernel that writes them, and lie like one. */
enum { SCRATCH = NK_OPERAND_Y };

uint32_t nb_operands_all(int op)
{
    return nk_ops[op].required | nk_ops[op].optional;
}

uint32_t nb_operands_usual(int op)
{
    uint32_t mask = nb_operands_all(op);
    for (int i = 0; i < NK_OPERANDS; i++)
        if (nk_operands[i].shape == NK_SHAPE_STATISTIC)
            mask &= ~(UINT32_C(1) << i);
    return mask | nk_ops[op].required;
}

static bool has(const nb_workspace_spec *spec, int operand)
{
    return spec->operands >> operand & 1;
}

static size_t operand_bytes(const nb_workspace_spec *spec, int operand)
{
    return nk_operand_elements(operand, spec->rows, spec->hidden) *
           nk_operand_element_bytes(operand, spec->dtype, spec->flags);
}

/* ---- Numbers ------------------------------------------------------------ */

/* splitmix64 (Steele, Lea, Flood 2014): any seed will do, and each operand and
 * set has a stream of its own. */
static const uint64_t stride = UINT64_C(0x9e3779b97f4a7c15);

uint64_t nb_random(uint64_t *state)
{
    uint64_t z = *state += stride;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* The sum of four uniform numbers: variance 1, never zero. */
static float normal(uint64_t *state)
{
    const uint64_t bits = nb_random(state);
    const int32_t sum =
        (int32_t)((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48)) -
        2 * 0xffff;
    return ((float)sum + 0.5f) * 0x1.bb67aep-16f; /* sqrt(3) / 65536 */
}

/* What is large and small in a dtype: a row of `huge` normals stays finite,
 * also when two of them are added. */
static const struct {
    float huge, tiny, subnormal;
} extremes[NK_DTYPES] = {[NK_F32] = {0x1p124f, 0x1p-100f, 0x1p-130f},
                         [NK_BF16] = {0x1p124f, 0x1p-100f, 0x1p-130f},
                         [NK_F16] = {0x1p12f, 0x1p-12f, 0x1p-18f}};

static float element(const nb_workspace_spec *spec, size_t row, size_t i, float z, float level)
{
    const bool half = spec->dtype == NK_F16;
    switch (spec->kind) {
    case NB_ROWS_MEAN:
        return level + z * (half ? 0.5f : 1e-2f);
    case NB_ROWS_CONSTANT:
        return level;
    case NB_ROWS_ALTERNATING:
        return i % 2 ? -extremes[spec->dtype].huge : extremes[spec->dtype].huge;
    case NB_ROWS_OUTLIER: /* anywhere, the first element of some row included */
        return i == row * (spec->hidden / 3) % spec->hidden ? (half ? 2e4f : 1e6f) : z;
    case NB_ROWS_TINY:
        return z * extremes[spec->dtype].tiny;
    case NB_ROWS_SUBNORMAL:
        return z * extremes[spec->dtype].subnormal;
    case NB_ROWS_HUGE:
        return z * extremes[spec->dtype].huge;
    case NB_ROWS_ZERO:
        return 0.0f;
    case NB_ROWS_INFINITY:
    case NB_ROWS_NAN: { /* the first, the middle and the last element in turn */
        const size_t places[3] = {0, spec->hidden / 2, spec->hidden - 1};
        if (row % 2 == 0 || i != places[row / 2 % 3])
            return z;
        return spec->kind == NB_ROWS_NAN ? NAN : row % 4 == 1 ? INFINITY : -INFINITY;
    }
    default:
        return z;
    }
}

/* One value of a row that has one: no power of two, large and small. */
static float row_level(const nb_workspace_spec *spec, size_t row)
{
    static const float levels[] = {1234.1f, 0.1f, -3e3f, 1e6f};
    static const float half_levels[] = {1234.0f, 0.1f, -3e3f, 2e4f};
    return spec->dtype == NK_F16 ? half_levels[row % 4] : levels[row % 4];
}

/* Each element takes one number: those of the rows before are passed over. Ordinary rows
 * repeat after a while: to make new ones would take longer than to time them. */
static void fill_rows(const nb_workspace_spec *spec, void *p, uint64_t state)
{
    enum { NEW_ELEMENTS = 1 << 20, NEW_ROWS = 17 };
    const size_t fresh = spec->hidden ? NEW_ELEMENTS / spec->hidden : NEW_ELEMENTS;
    const size_t period = spec->kind != NB_ROWS_NORMAL ? SIZE_MAX
                          : fresh < NEW_ROWS           ? NEW_ROWS
                                                       : fresh;
    const size_t row_bytes = spec->hidden * nk_dtypes[spec->dtype].bytes;
    unsigned char *rows = p;
    for (size_t r = 0; r < spec->rows; r++) {
        const size_t row = spec->first_row + r;
        const float level = row_level(spec, row);
        uint64_t own = state + stride * (uint64_t)(row % period * spec->hidden);
        if (r >= period)
            memcpy(rows + r * row_bytes, rows + (r - period) * row_bytes, row_bytes);
        for (size_t i = 0; i < spec->hidden && r < period; i++)
            nk_from_float(p, r * spec->hidden + i, spec->dtype,
                          element(spec, row, i, normal(&own), level));
    }
}

/* x and residual are of the kind; gradients are normal; gamma lies around +-1,
 * so that a wrong sign or a forgotten gamma shows; statistics that are read
 * are those of normal rows. */
static void fill_input(const nb_workspace_spec *spec, int operand, void *p, uint64_t *state)
{
    nb_workspace_spec plain = *spec;
    plain.kind = NB_ROWS_NORMAL;
    const nk_dtype dtype = spec->flags & NK_PARAMS_F32 ? NK_F32 : spec->dtype;
    const bool gradient = operand == NK_OPERAND_DY || operand == NK_OPERAND_DH;
    const size_t count = nk_operand_elements(operand, spec->rows, spec->hidden);
    switch (nk_operands[operand].shape) {
    case NK_SHAPE_ROW:
        fill_rows(gradient ? &plain : spec, p, *state);
        return;
    case NK_SHAPE_COLUMN:
        for (size_t i = 0; i < count; i++) {
            const float z = normal(state);
            const bool gamma = operand != NK_OPERAND_BETA;
            nk_from_float(p, i, dtype, gamma ? (z < 0 ? -1.0f : 1.0f) + 0.1f * z : 0.5f * z);
        }
        return;
    default:
        *state += stride * (uint64_t)spec->first_row;
        for (size_t i = 0; i < count; i++)
            ((float *)p)[i] = operand == NK_OPERAND_MEAN ? 0.1f * normal(state)
                                                         : 1.0f + 0.1f * fabsf(normal(state));
    }
}

static void clear_output(const nb_workspace_spec *spec, int operand, void *p)
{
    const bool sum = nk_operand_direction(spec->op, operand) == NK_DIRECTION_ADD;
    memset(p, sum ? 0 : 0xff, operand_bytes(spec, operand));
}

/* Sums over rows and columns whole, whatever the rows. */
static void clear_rows_of(const nb_workspace_spec *spec, int operand, void *p, size_t first,
                          size_t rows)
{
    const enum nk_shape shape = nk_operands[operand].shape;
    const bool by_row = shape == NK_SHAPE_ROW || shape == NK_SHAPE_STATISTIC;
    const size_t row_bytes = by_row ? operand_bytes(spec, operand) / spec->rows : 0;
    nb_workspace_spec some = *spec;
    some.rows = by_row ? rows : spec->rows;
    clear_output(&some, operand, (unsigned char *)p + first * row_bytes);
}

void nb_workspace_clear_rows(nb_workspace *workspace, size_t set, size_t first, size_t rows)
{
    const nb_workspace_spec *spec = &workspace->spec;
    if (workspace->scratch)
        clear_rows_of(spec, SCRATCH, workspace->scratch, first, rows);
    for (int i = 0; i < NK_OPERANDS; i++)
        if (has(spec, i) && nk_operand_direction(spec->op, i) != NK_DIRECTION_IN)
            clear_rows_of(spec, i, nk_operand_get(&workspace->args[set], i), first, rows);
}

void nb_workspace_clear_outputs(nb_workspace *workspace, size_t set)
{
    nb_workspace_clear_rows(workspace, set, 0, workspace->spec.rows);
}

/* ---- Threads ------------------------------------------------------------ */

nb_workspace_spec nb_workspace_share(const nb_workspace_spec *whole, size_t threads, size_t thread)
{
    const size_t each = whole->rows / threads, rest = whole->rows % threads;
    nb_workspace_spec share = *whole;
    share.rows = each + (thread < rest);
    share.first_row += each * thread + (thread < rest ? thread : rest);
    return share;
}

/* ---- The arena ---------------------------------------------------------- */

size_t nb_workspace_bytes(const nb_workspace_spec *given)
{
    nb_workspace_spec spec = *given;
    if (!spec.operands)
        spec.operands = nb_operands_usual(spec.op);
    size_t total = 0, elements;
    for (int i = 0; i < NK_OPERANDS; i++) {
        if (!has(&spec, i))
            continue;
        if (__builtin_mul_overflow(spec.rows, spec.hidden, &elements) ||
            elements > SIZE_MAX / sizeof(double) ||
            __builtin_add_overflow(total, operand_bytes(&spec, i), &total))
            return 0;
    }
    return total;
}

size_t nb_workspace_scratch_bytes(const nb_workspace_spec *spec)
{
    return operand_bytes(spec, SCRATCH);
}

static size_t whole_pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* Bytes of a set in the arena. Each operand gets the pages that it touches and
 * one more, so that none begins where another ends. */
static size_t set_span(const nb_workspace_spec *spec)
{
    size_t span = 0;
    for (int i = 0; i < NK_OPERANDS; i++)
        if (has(spec, i))
            span += whole_pages(offsets[i] + operand_bytes(spec, i)) + PAGE;
    return span;
}

static size_t scratch_span(const nb_workspace_spec *spec)
{
    return spec->scratch ? whole_pages(offsets[SCRATCH] + nb_workspace_scratch_bytes(spec)) : 0;
}

/* Arenas that this thread freed, whose pages lie where it runs: a sweep maps many of
 * some sizes, and new pages take a fifth of its time. */
enum { SPARES = 4 };
static _Thread_local struct {
    struct spare {
        unsigned char *arena;
        size_t bytes;
        bool unshared;
    } items[SPARES];
    size_t next; /* to be dropped */
} spares;

/* Sizes that differ by little become one, so that an arena serves for all of them. */
static size_t rounded_up(size_t bytes)
{
    const size_t eighth = ((size_t)1 << (63 - __builtin_clzll(bytes))) / 8;
    const size_t grain = eighth > PAGE ? eighth : PAGE;
    return (bytes + grain - 1) / grain * grain;
}

static void drop(struct spare *s)
{
    munmap(s->arena, s->bytes);
    s->arena = NULL;
}

/* One that is large enough, and not by far too large. Others of its order of size make room
 * for the one that comes: two of a GB might be too much. */
static bool take_spare(nb_workspace *workspace, size_t bytes)
{
    for (size_t i = 0; i < SPARES; i++) {
        struct spare *s = &spares.items[i];
        if (!s->arena || s->bytes < bytes / 4 || s->bytes / 4 > bytes)
            continue;
        if (s->unshared != workspace->spec.unshared || s->bytes < bytes || s->bytes / 2 > bytes) {
            drop(s);
            continue;
        }
        workspace->arena = s->arena;
        workspace->arena_bytes = s->bytes;
        s->arena = NULL;
        return true;
    }
    return false;
}

static struct spare *place_for_spare(void)
{
    for (size_t i = 0; i < SPARES; i++)
        if (!spares.items[i].arena)
            return &spares.items[i];
    struct spare *s = &spares.items[spares.next++ % SPARES];
    drop(s);
    return s;
}

static int map_arena(nb_workspace *workspace)
{
    const nb_workspace_spec *spec = &workspace->spec;
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    size_t bytes;
    if (__builtin_mul_overflow(set_span(spec), spec->sets, &bytes) ||
        __builtin_add_overflow(bytes, scratch_span(spec), &bytes) ||
        (pages > 0 && page > 0 && bytes / (size_t)page >= (size_t)pages))
        return nb_fail(NB_MACHINE, "%s, rows %zu, hidden %zu: the operands exceed the memory here",
                       nk_ops[spec->op].name, spec->rows, spec->hidden);
    bytes = rounded_up(bytes);
    workspace->thread = pthread_self();
    if (take_spare(workspace, bytes))
        return NB_OK;
    /* Shared with the child in which a stranger's kernel is called. */
    const int kind = spec->unshared ? MAP_PRIVATE : MAP_SHARED;
    void *arena = mmap(NULL, bytes, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
    if (arena == MAP_FAILED)
        return nb_fail(NB_MACHINE, "cannot map %zu bytes for operands: %m", bytes);
    madvise(arena, bytes, MADV_NOHUGEPAGE); /* some systems give them to private pages alone */
    workspace->arena = arena;
    workspace->arena_bytes = bytes;
    return NB_OK;
}

static void set_options(const nb_workspace_spec *spec, nk_args *args)
{
    const uint32_t options = nk_ops[spec->op].options;
    *args = (nk_args){
        .size = sizeof *args, .rows = spec->rows, .hidden = spec->hidden, .flags = spec->flags};
    if (options & NK_TAKES_EPS)
        args->eps = spec->eps;
    if (options & NK_TAKES_OFFSET)
        args->gamma_offset = spec->gamma_offset;
    if (options & NK_TAKES_ALPHA)
        args->alpha = 1.5f;
    if (options & NK_TAKES_FRACTION)
        args->fraction = 0.0625f;
}

static void place_set(nb_workspace *workspace, size_t set)
{
    const nb_workspace_spec *spec = &workspace->spec;
    nk_args *args = &workspace->args[set];
    unsigned char *next_page = workspace->arena + set * set_span(spec);
    set_options(spec, args);
    for (int i = 0; i < NK_OPERANDS; i++) {
        if (!has(spec, i))
            continue;
        unsigned char *p = next_page + offsets[i];
        next_page += whole_pages(offsets[i] + operand_bytes(spec, i)) + PAGE;
        nk_operand_set(args, i, p);
        uint64_t state = spec->seed * UINT64_C(0xd1342543de82ef95) + (uint64_t)i;
        state = nb_random(&state) + set;
        state = nb_random(&state);
        if (nk_operand_direction(spec->op, i) == NK_DIRECTION_IN)
            fill_input(spec, i, p, &state);
        else
            clear_output(spec, i, p);
    }
}

int nb_workspace_create(nb_workspace *workspace, const nb_workspace_spec *spec)
{
    *workspace = (nb_workspace){.spec = *spec};
    nb_workspace_spec *full = &workspace->spec;
    if (!full->operands)
        full->operands = nb_operands_usual(full->op);
    if (!full->sets)
        full->sets = 1;
    int status = nb_shape_check(full->rows, full->hidden);
    if (status == NB_OK)
        status = map_arena(workspace);
    if (status != NB_OK)
        return status;
    workspace->set_bytes = nb_workspace_bytes(full);
    workspace->args = nb_allocate(full->sets * sizeof *workspace->args);
    for (size_t set = 0; set < full->sets; set++)
        place_set(workspace, set);
    if (full->scratch) {
        workspace->scratch = workspace->arena + full->sets * set_span(full) + offsets[SCRATCH];
        clear_output(full, SCRATCH, workspace->scratch);
    }
    return NB_OK;
}

void nb_workspace_free(nb_workspace *workspace)
{
    if (workspace->arena && pthread_equal(workspace->thread, pthread_self()))
        *place_for_spare() =
            (struct spare){workspace->arena, workspace->arena_bytes, workspace->spec.unshared};
    else if (workspace->arena)
        munmap(workspace->arena, workspace->arena_bytes);
    free(workspace->args);
    *workspace = (nb_workspace){0};
}
