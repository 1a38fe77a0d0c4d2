/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"
#include "models.h"
#include "program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *const nb_level_names[NB_LEVELS] = {"L1", "L2", "L3", "memory"};
const char *const nb_mode_names[NB_MODES] = {"hot", "rotate"};

enum {
    KEY_KERNEL = 0x100,
    KEY_ALGORITHM,
    KEY_DTYPE,
    KEY_ISA,
    KEY_PROVIDER,
    KEY_ROWS,
    KEY_HIDDEN,
    KEY_MODEL,
    KEY_THREADS,
    KEY_OVERSUBSCRIBE,
    KEY_LEVEL,
    KEY_MODE,
    KEY_SEED
};

/* ---- Numbers ------------------------------------------------------------ */

bool nb_parse_u64(const char *text, uint64_t *value)
{
    uint64_t result = 0;
    if (!*text)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        if (__builtin_mul_overflow(result, 10, &result) ||
            __builtin_add_overflow(result, (uint64_t)(*text - '0'), &result))
            return false;
    }
    *value = result;
    return true;
}

bool nb_parse_size(const char *text, size_t *value)
{
    uint64_t wide;
    if (!nb_parse_u64(text, &wide) || wide > SIZE_MAX)
        return false;
    *value = (size_t)wide;
    return true;
}

/* ---- Lists -------------------------------------------------------------- */

bool nb_names_allow(const nb_names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->items[i], name) == 0)
            return true;
    return names->count == 0;
}

bool nb_sizes_allow(const nb_sizes *sizes, size_t size)
{
    for (size_t i = 0; i < sizes->count; i++)
        if (sizes->items[i] == size)
            return true;
    return sizes->count == 0;
}

static void add_name(nb_names *names, const char *text)
{
    if (names->count && nb_names_allow(names, text))
        return;
    names->items = nb_reallocate(names->items, (names->count + 1) * sizeof *names->items);
    names->items[names->count++] = nb_duplicate(text);
}

void nb_sizes_add(nb_sizes *sizes, size_t size)
{
    if (sizes->count && nb_sizes_allow(sizes, size))
        return;
    sizes->items = nb_reallocate(sizes->items, (sizes->count + 1) * sizeof *sizes->items);
    sizes->items[sizes->count++] = size;
}

/* One element of a list; `option` is its name for messages. */
typedef void (*add_function)(nb_options *options, int key, const char *item,
                             struct argp_state *state);

static void add_list(nb_options *options, int key, const char *list, struct argp_state *state,
                     add_function add)
{
    char *copy = nb_duplicate(list), *rest = copy, *item;
    while ((item = strsep(&rest, ",")))
        add(options, key, item, state);
    free(copy);
}

static void add_filter(nb_options *options, int key, const char *item, struct argp_state *state)
{
    nb_names *const lists[] = {&options->kernel, &options->algorithm, &options->dtype,
                               &options->isa, &options->provider};
    if (!*item)
        argp_error(state, "an empty name in a list of names");
    add_name(lists[key - KEY_KERNEL], item);
}

static void add_number(nb_options *options, int key, const char *item, struct argp_state *state)
{
    const char *name = key == KEY_ROWS ? "rows" : key == KEY_HIDDEN ? "hidden" : "threads";
    nb_sizes *list = key == KEY_ROWS     ? &options->rows
                     : key == KEY_HIDDEN ? &options->hidden
                                         : &options->threads;
    size_t value;
    if (key == KEY_THREADS && strcmp(item, "all") == 0)
        nb_sizes_add(list, NB_ALL_THREADS);
    else if (!nb_parse_size(item, &value))
        argp_error(state, "--%s: '%s' is no whole number up to %zu%s", name, item, SIZE_MAX,
                   key == KEY_THREADS ? ", nor all" : "");
    else if (value == 0)
        argp_error(state, "--%s: 0 leaves nothing to do; give 1 or more", name);
    else
        nb_sizes_add(list, value);
}

static void unknown(struct argp_state *state, const char *option, const char *item,
                    const char *const *names, size_t count)
{
    char *known = NULL;
    for (size_t i = 0; i < count; i++)
        known = nb_join(known, ", ", names[i]);
    argp_error(state, "--%s: there is no '%s'; there are: %s", option, item, known);
    free(known);
}

static void add_choice(nb_options *options, int key, const char *item, struct argp_state *state)
{
    const bool level = key == KEY_LEVEL;
    const char *const *names = level ? nb_level_names : nb_mode_names;
    const size_t count = level ? NB_LEVELS : NB_MODES;
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], item) == 0) {
            nb_sizes_add(level ? &options->level : &options->mode, i);
            return;
        }
    unknown(state, level ? "level" : "mode", item, names, count);
}

static void add_model(nb_options *options, int key, const char *item, struct argp_state *state)
{
    (void)key;
    const nb_model *model = nb_model_find(item);
    if (model) {
        add_name(&options->model, item);
        nb_sizes_add(&options->hidden, model->hidden);
        return;
    }
    argp_error(state, "--model: there is no '%s'; `normbench list --models` shows what there is",
               item);
}

/* ---- argp --------------------------------------------------------------- */

static const struct argp_option filter_options[] = {
    {0, 0, 0, 0, "Filters (lists are separated by commas, names are exact):", 1},
    {"kernel", KEY_KERNEL, "NAMES", 0, "Operations: rmsnorm, layernorm, ...", 0},
    {"algorithm", KEY_ALGORITHM, "NAMES", 0, "default, two_pass, ...", 0},
    {"dtype", KEY_DTYPE, "NAMES", 0, "f32, bf16, f16", 0},
    {"isa", KEY_ISA, "NAMES", 0, "scalar, avx2, avx512, neon; all that run here if not given", 0},
    {"provider", KEY_PROVIDER, "NAMES", 0,
     "Shared objects with kernels, by path; normkernels, our own, if not given", 0},
    {"rows", KEY_ROWS, "NUMBERS", 0, "Rows of a call", 0},
    {"hidden", KEY_HIDDEN, "NUMBERS", 0, "Elements of a row", 0},
    {"model", KEY_MODEL, "NAMES", 0, "Shapes of models: see list --models", 0},
    {"threads", KEY_THREADS, "NUMBERS", 0,
     "Threads that share the rows, each on a core of its own (1); all: one on each core", 0},
    {"oversubscribe", KEY_OVERSUBSCRIBE, 0, 0, "Allow more threads than cores or quota", 0},
    {"level", KEY_LEVEL, "NAMES", 0,
     "L1, L2, L3, memory: as many rows as the level holds, instead of --rows", 0},
    {"mode", KEY_MODE, "NAMES", 0,
     "hot: the same buffers again; rotate: over as many layers as a model has", 0},
    {"seed", KEY_SEED, "NUMBER", 0, "Of all random numbers (1)", 0},
    {0}};

/* Refuses what the command has no use for: an option is never ignored. */
static void check_takes(const nb_options *options, int key, struct argp_state *state)
{
    const bool shape = key == KEY_ROWS || key == KEY_HIDDEN || key == KEY_MODEL;
    const bool running = key >= KEY_THREADS && key <= KEY_MODE;
    const unsigned wants = shape             ? NB_TAKES_SHAPES
                           : running         ? NB_TAKES_RUNNING
                           : key == KEY_SEED ? NB_TAKES_SEED
                                             : 0;
    if (wants & ~options->takes)
        for (const struct argp_option *o = filter_options; o->name || o->doc; o++)
            if (o->key == key)
                argp_error(state, "--%s: %s has no use for it", o->name, options->command);
}

static error_t parse_filter(int key, char *text, struct argp_state *state)
{
    nb_options *options = state->input;
    if (key == ARGP_KEY_INIT) {
        options->seed = NB_SEED;
        return 0;
    }
    if (key == ARGP_KEY_SUCCESS) {
        if (options->rows.count && options->level.count)
            argp_error(state, "--rows and --level contradict each other: the level sets the rows");
        return 0;
    }
    if (key < KEY_KERNEL || key > KEY_SEED)
        return ARGP_ERR_UNKNOWN;
    check_takes(options, key, state);
    if (key == KEY_SEED) {
        if (!nb_parse_u64(text, &options->seed))
            argp_error(state, "--seed: '%s' is no whole number up to %ju", text, UINTMAX_MAX);
        options->has_seed = true;
    } else if (key == KEY_OVERSUBSCRIBE) {
        options->oversubscribe = true;
    } else if (key <= KEY_PROVIDER) {
        add_list(options, key, text, state, add_filter);
    } else if (key == KEY_MODEL) {
        add_list(options, key, text, state, add_model);
    } else if (key == KEY_LEVEL || key == KEY_MODE) {
        add_list(options, key, text, state, add_choice);
    } else {
        add_list(options, key, text, state, add_number);
    }
    return 0;
}

const struct argp nb_filters = {.options = filter_options, .parser = parse_filter};

static void free_names(nb_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i]);
    free(names->items);
}

void nb_options_free(nb_options *options)
{
    nb_names *const names[] = {&options->kernel, &options->algorithm, &options->dtype,
                               &options->isa,    &options->provider,  &options->model};
    nb_sizes *const sizes[] = {&options->rows, &options->hidden, &options->threads, &options->level,
                               &options->mode};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        free_names(names[i]);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        free(sizes[i]->items);
    *options = (nb_options){0};
}
