/* SPDX-License-Identifier: Apache-2.0 */
/* The filters, the same in every subcommand. */
#ifndef NB_OPTIONS_H
#define NB_OPTIONS_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct nb_names {
    char **items;
    size_t count;
} nb_names;

typedef struct nb_sizes {
    size_t *items;
    size_t count;
} nb_sizes;

/* Where the working set lies. */
enum nb_level { NB_L1, NB_L2, NB_L3, NB_MEMORY, NB_LEVELS };
extern const char *const nb_level_names[NB_LEVELS]; /* "L1" ... "memory" */

/* hot: the same buffers again and again; rotate: over as many layers'
 * parameters and activations as a model has. */
enum nb_mode { NB_HOT, NB_ROTATE, NB_MODES };
extern const char *const nb_mode_names[NB_MODES];

enum { NB_ALL_THREADS = 0 };

/* A list is empty where the user said nothing. */
typedef struct nb_options {
    nb_names kernel;
    nb_names algorithm;
    nb_names dtype;
    nb_names isa;
    nb_names provider;
    nb_names model;
    nb_sizes rows;
    nb_sizes hidden;  /* those of the models included */
    nb_sizes threads; /* NB_ALL_THREADS: as many as there are cores for */
    bool oversubscribe;
    nb_sizes level; /* enum nb_level */
    nb_sizes mode;  /* enum nb_mode */
    uint64_t seed;
    bool has_seed;
    unsigned takes; /* NB_TAKES_...: set by the command, before parsing */
    const char *command;
} nb_options;

/* What a command has a use for, beside the kernel filters that all take; the
 * rest is refused by name, never ignored. */
enum {
    NB_TAKES_SHAPES = 1,  /* --rows --hidden --model */
    NB_TAKES_RUNNING = 2, /* --threads --oversubscribe --level --mode */
    NB_TAKES_SEED = 4
};
enum { NB_SEED = 1 }; /* unless --seed says otherwise */

/* The filters as a child of a command's own argp. Its input is an nb_options:
 * in ARGP_KEY_INIT the parent sets state->child_inputs[0] to it, zero but for
 * `takes` and `command`. */
extern const struct argp nb_filters;

/* Whether a list holds this, or is empty: the user said nothing against it. */
bool nb_names_allow(const nb_names *names, const char *name);
bool nb_sizes_allow(const nb_sizes *sizes, size_t size);
/* Appends a size that is not there yet. */
void nb_sizes_add(nb_sizes *sizes, size_t size);

/* Frees what was parsed. */
void nb_options_free(nb_options *options);

/* Strict numbers: decimal digits alone, in range. False otherwise. */
bool nb_parse_size(const char *text, size_t *value);
bool nb_parse_u64(const char *text, uint64_t *value);

#endif
