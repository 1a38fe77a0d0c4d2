/* SPDX-License-Identifier: Apache-2.0 */
/* Providers of kernels: shared objects that export nk_provider_v1. All are
 * loaded by dlopen into a scope of their own, ours too: linked, two builds
 * with equal symbol names would end up running the same code. */
#ifndef NB_PROVIDER_H
#define NB_PROVIDER_H

#include "normkernels.h"
#include "options.h"

typedef struct nb_provider {
    const char *label; /* its name, or its path where two have one name */
    char *path;
    void *handle;
    const nk_provider *table;
    bool foreign; /* given by its path: its calls are made in a child (probe.h) */
} nb_provider;

typedef struct nb_providers {
    nb_provider *items;
    size_t count;
    bool failed; /* one was left out after a message: the command ends with 1 */
} nb_providers;

/* Loads what --provider names (paths of shared objects, and "normkernels" for
 * ours); ours alone if nothing is named. Returns NB_OK, or a status after a
 * message: NB_USAGE for a file that is not there or a configuration that the
 * provider refuses, NB_FAILED where none of them is a provider that can be
 * loaded. Where only some are, they are loaded and `failed` is set. */
int nb_providers_load(const nb_names *wanted, nb_providers *providers);
/* Adds the peers that lie beside this program in its build (bench/peers), if any. */
void nb_providers_add_peers(nb_providers *providers);
void nb_providers_unload(nb_providers *providers);
/* `status`, but NB_FAILED in place of NB_OK where a provider was left out. */
int nb_providers_status(const nb_providers *providers, int status);

/* One provider from a file, which is loaded in a child first. */
int nb_provider_load(const char *path, nb_provider *provider);
void nb_provider_unload(nb_provider *provider);

/* The same in this process at once, for one that was loaded in a child before.
 * `table` is checked: its abi, its kernel_size, and that no name in it is
 * NULL. */
int nb_provider_open(const char *path, nb_provider *provider);

/* Whether these are our own kernels, to which the library's promise applies. */
bool nb_provider_is_ours(const nb_provider *provider);

/* A sentence for a status of this provider's kernels. Never NULL. */
const char *nb_provider_status_text(const nb_provider *provider, nk_status status);

#endif
