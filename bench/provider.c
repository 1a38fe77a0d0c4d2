/* SPDX-License-Identifier: Apache-2.0 */
#include "provider.h"
#include "probe.h"
#include "program.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* nb_library_directory: where the library is installed, relative to the prefix
 * or absolute; set by the build. */
#define OUR_NAME "normkernels"
#define OUR_FILE "libnormkernels.so"

bool nb_provider_is_ours(const nb_provider *provider)
{
    return strcmp(provider->table->name, OUR_NAME) == 0;
}

const char *nb_provider_status_text(const nb_provider *provider, nk_status status)
{
    const char *text =
        provider->table->status_text ? provider->table->status_text(status) : "no text for it";
    return text ? text : "no text for it";
}

/* The folder of this program: to be freed. "." where it cannot be found out. */
static char *our_folder(void)
{
    char self[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0)
        return nb_duplicate(".");
    self[length] = '\0';
    *strrchr(self, '/') = '\0';
    return nb_duplicate(self);
}

/* Our library's file: beside the program in a build tree, else where it is
 * installed. To be freed. */
static char *our_path(void)
{
    char *folder = our_folder(), *path = nb_format("%s/../kernels/" OUR_FILE, folder);
    if (access(path, F_OK) != 0) {
        const bool relative = NB_LIBRARY_DIRECTORY[0] != '/';
        free(path);
        path = nb_format("%s%s" NB_LIBRARY_DIRECTORY "/" OUR_FILE, relative ? folder : "",
                         relative ? "/../" : "");
    }
    free(folder);
    return path;
}

static int check_table(const char *path, const nk_provider *table)
{
    if (!table)
        return nb_fail(NB_FAILED, "%s: nk_provider_v1 returned no table", path);
    if (table->abi != 1)
        return nb_fail(NB_FAILED, "%s: has provider abi %u, this program knows 1", path,
                       table->abi);
    if (table->kernel_size != sizeof(nk_kernel))
        return nb_fail(NB_FAILED, "%s: its nk_kernel has %u bytes, this program's %zu", path,
                       table->kernel_size, sizeof(nk_kernel));
    if (!table->name || !table->version || !table->build || !*table->name)
        return nb_fail(NB_FAILED, "%s: has no name, version or build text", path);
    if (table->error)
        return nb_fail(NB_USAGE, "%s: %s", table->name, table->error);
    if (table->count && !table->kernels)
        return nb_fail(NB_FAILED, "%s: counts %zu kernels but has no table", path, table->count);
    for (size_t i = 0; i < table->count; i++) {
        const nk_kernel *k = &table->kernels[i];
        if (!k->op || !k->algorithm || !k->dtype || !k->isa)
            return nb_fail(NB_FAILED, "%s: kernel %zu has no op, algorithm, dtype or isa", path, i);
        if (!k->unavailable && !k->function)
            return nb_fail(NB_FAILED, "%s: %s/%s/%s/%s has neither a function nor a reason why",
                           path, k->op, k->algorithm, k->dtype, k->isa);
    }
    return NB_OK;
}

int nb_provider_open(const char *path, nb_provider *provider)
{
    /* A name without a slash would be searched for in the system's folders. */
    char *absolute = realpath(path, NULL);
    if (!absolute)
        return nb_fail(NB_USAGE, "provider %s: %m", path);
    void *handle = dlopen(absolute, RTLD_NOW | RTLD_LOCAL);
    free(absolute);
    if (!handle)
        return nb_fail(NB_FAILED, "provider %s", dlerror());
    nk_provider_entry entry = NULL;
    *(void **)&entry = dlsym(handle, "nk_provider_v1");
    int status = NB_OK;
    const nk_provider *table = NULL;
    if (!entry) {
        status = nb_fail(NB_FAILED, "%s: is no provider: it does not export nk_provider_v1", path);
    } else {
        table = entry();
        status = check_table(path, table);
    }
    if (status != NB_OK) {
        dlclose(handle);
        return status;
    }
    *provider = (nb_provider){table->name, nb_duplicate(path), handle, table, true};
    return NB_OK;
}

int nb_provider_load(const char *path, nb_provider *provider)
{
    const int status = nb_probe_provider(path);
    return status == NB_OK ? nb_provider_open(path, provider) : status;
}

void nb_provider_unload(nb_provider *provider)
{
    free(provider->path);
    if (provider->handle)
        dlclose(provider->handle);
    *provider = (nb_provider){0};
}

/* Two builds of one library are told apart by their paths. */
static void label_apart(nb_providers *providers)
{
    for (size_t i = 0; i < providers->count; i++)
        for (size_t j = 0; j < providers->count; j++)
            if (i != j &&
                strcmp(providers->items[i].table->name, providers->items[j].table->name) == 0)
                providers->items[i].label = providers->items[i].path;
}

static bool is_loaded(const nb_providers *providers, const nk_provider *table)
{
    for (size_t i = 0; i < providers->count; i++)
        if (providers->items[i].table == table)
            return true;
    return false;
}

static void add(nb_providers *providers, nb_provider provider)
{
    if (is_loaded(providers, provider.table)) { /* the same file by another name */
        nb_provider_unload(&provider);
        return;
    }
    providers->items =
        nb_reallocate(providers->items, (providers->count + 1) * sizeof *providers->items);
    providers->items[providers->count++] = provider;
}

static int load_ours(nb_providers *providers)
{
    nb_provider provider;
    char *path = our_path();
    const int status = nb_provider_open(path, &provider);
    free(path);
    if (status != NB_OK)
        return status;
    provider.foreign = false;
    add(providers, provider);
    return NB_OK;
}

static int load_named(nb_providers *providers, const char *name)
{
    nb_provider provider;
    if (strcmp(name, OUR_NAME) == 0)
        return load_ours(providers);
    if (!strchr(name, '/') && access(name, F_OK) != 0)
        return nb_fail(NB_USAGE,
                       "--provider: there is no '%s'; give the path of a shared object, or "
                       "%s for our own kernels",
                       name, OUR_NAME);
    const int status = nb_provider_load(name, &provider);
    if (status == NB_OK)
        add(providers, provider);
    return status;
}

int nb_providers_load(const nb_names *wanted, nb_providers *providers)
{
    *providers = (nb_providers){0};
    int status = wanted->count ? NB_OK : load_ours(providers);
    for (size_t i = 0; i < wanted->count && status == NB_OK; i++) {
        status = load_named(providers, wanted->items[i]);
        if (status == NB_FAILED) {
            providers->failed = true;
            status = NB_OK; /* the rest goes on */
        }
    }
    if (status == NB_OK && providers->count == 0)
        status = NB_FAILED;
    if (status == NB_OK)
        label_apart(providers);
    else
        nb_providers_unload(providers);
    return status;
}

void nb_providers_add_peers(nb_providers *providers)
{
    char *folder = our_folder(), *pattern = nb_format("%s/peers/peer_*.so", folder);
    glob_t found = {0};
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            providers->failed |= load_named(providers, found.gl_pathv[i]) != NB_OK;
    globfree(&found);
    free(pattern);
    free(folder);
    label_apart(providers);
}

int nb_providers_status(const nb_providers *providers, int status)
{
    return status == NB_OK && providers->failed ? NB_FAILED : status;
}

void nb_providers_unload(nb_providers *providers)
{
    for (size_t i = 0; i < providers->count; i++)
        nb_provider_unload(&providers->items[i]);
    free(providers->items);
    *providers = (nb_providers){0};
}
