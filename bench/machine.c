/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"
#include "build.h"
#include "program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static const char *const cache_names[NB_CACHES] = {"L1d", "L2", "L3"};

void nb_machine_hash(const nb_topology *t, char hash[NB_HASH_BYTES])
{
    char *text = nb_format("%s|%zu|%zu|%zu|%zu", t->cpu_name, t->cores, t->caches[0].bytes,
                           t->caches[1].bytes, t->caches[2].bytes);
    uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (const char *p = text; *p; p++)
        h = (h ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
    snprintf(hash, NB_HASH_BYTES, "%08x", (unsigned)(h ^ h >> 32));
    free(text);
}

/* ---- Arguments ---------------------------------------------------------- */

void nb_arguments_add(char ***arguments, size_t *count, char *argument)
{
    *arguments = nb_reallocate(*arguments, (*count + 1) * sizeof **arguments);
    (*arguments)[(*count)++] = argument;
}

void nb_arguments_free(char **arguments, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(arguments[i]);
    free(arguments);
}

static void add_names(char ***arguments, size_t *count, const char *option, const nb_names *names)
{
    char *list = NULL;
    for (size_t i = 0; i < names->count; i++)
        list = nb_join(list, ",", names->items[i]);
    if (list)
        nb_arguments_add(arguments, count, nb_format("--%s=%s", option, list));
    free(list);
}

static void add_sizes(char ***arguments, size_t *count, const char *option, const nb_sizes *sizes,
                      const char *const *names)
{
    char *list = NULL;
    for (size_t i = 0; i < sizes->count; i++) {
        char *number = sizes->items[i] == NB_ALL_THREADS ? nb_duplicate("all") /* no size is 0 */
                                                         : nb_format("%zu", sizes->items[i]);
        list = nb_join(list, ",", names ? names[sizes->items[i]] : number);
        free(number);
    }
    if (list)
        nb_arguments_add(arguments, count, nb_format("--%s=%s", option, list));
    free(list);
}

char **nb_options_arguments(const nb_options *options, size_t *count)
{
    char **arguments = NULL;
    *count = 0;
    add_names(&arguments, count, "kernel", &options->kernel);
    add_names(&arguments, count, "algorithm", &options->algorithm);
    add_names(&arguments, count, "dtype", &options->dtype);
    add_names(&arguments, count, "isa", &options->isa);
    add_names(&arguments, count, "provider", &options->provider);
    add_names(&arguments, count, "model", &options->model);
    add_sizes(&arguments, count, "rows", &options->rows, NULL);
    add_sizes(&arguments, count, "hidden", &options->hidden, NULL);
    add_sizes(&arguments, count, "threads", &options->threads, NULL);
    if (options->oversubscribe)
        nb_arguments_add(&arguments, count, nb_duplicate("--oversubscribe"));
    add_sizes(&arguments, count, "level", &options->level, nb_level_names);
    add_sizes(&arguments, count, "mode", &options->mode, nb_mode_names);
    nb_arguments_add(&arguments, count, nb_format("--seed=%ju", (uintmax_t)options->seed));
    return arguments;
}

int nb_record_arguments(const char *json_path, const char *command, char ***arguments,
                        size_t *count)
{
    size_t length;
    char *text = nb_read_text(json_path, &length);
    if (!text)
        return nb_fail(NB_USAGE, "cannot read %s: %s", json_path, strerror(errno));
    cJSON *root = cJSON_Parse(text);
    free(text);
    const char *wrote = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "command"));
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "arguments"), *item;
    int status = NB_OK;
    if (!wrote || !cJSON_IsArray(list))
        status = nb_fail(NB_USAGE, "%s: is no machine file of normbench", json_path);
    else if (strcmp(wrote, command) != 0)
        status = nb_fail(NB_USAGE, "%s: was written by normbench %s, not by %s", json_path, wrote,
                         command);
    if (status == NB_OK)
        cJSON_ArrayForEach(item, list) if (cJSON_IsString(item))
            nb_arguments_add(arguments, count, nb_duplicate(item->valuestring));
    cJSON_Delete(root);
    return status;
}

/* ---- The machine file --------------------------------------------------- */

/* Unknown is null, never 0. */
static void add_number(cJSON *object, const char *name, double value)
{
    if (value > 0)
        cJSON_AddNumberToObject(object, name, value);
    else
        cJSON_AddNullToObject(object, name);
}

static void add_text(cJSON *object, const char *name, const char *text)
{
    if (text && *text)
        cJSON_AddStringToObject(object, name, text);
    else
        cJSON_AddNullToObject(object, name);
}

void nb_machine_json(cJSON *root, const nb_topology *t)
{
    struct utsname system;
    char hash[NB_HASH_BYTES];
    nb_machine_hash(t, hash);
    cJSON *machine = cJSON_AddObjectToObject(root, "machine");
    add_text(machine, "hash", hash);
    add_text(machine, "cpu", t->cpu_name);
    if (uname(&system) == 0) {
        add_text(machine, "architecture", system.machine);
        add_text(machine, "kernel", system.release);
    }
    add_number(machine, "cores", (double)t->cores);
    add_number(machine, "cores_allowed", (double)t->cores_allowed);
    add_number(machine, "cpus_allowed", (double)t->cpus_allowed);
    cJSON_AddNumberToObject(machine, "bound_cpu", t->cpu);
    add_number(machine, "quota_cpus", t->quota_cpus);
    add_number(machine, "memory_bytes", (double)t->memory_bytes);
    add_number(machine, "core_hz", t->core_hz);
    add_number(machine, "max_hz", t->max_hz);
    add_number(machine, "tsc_hz", t->tsc_hz);
    cJSON *caches = cJSON_AddArrayToObject(machine, "caches");
    for (int i = 0; i < NB_CACHES; i++) {
        cJSON *cache = cJSON_CreateObject();
        add_text(cache, "name", cache_names[i]);
        add_number(cache, "bytes", (double)t->caches[i].bytes);
        add_number(cache, "sharers_allowed", (double)t->caches[i].sharers);
        cJSON_AddItemToArray(caches, cache);
    }
}

static void add_build(cJSON *root, const nb_providers *providers)
{
    cJSON *build = cJSON_AddObjectToObject(root, "build");
    add_text(build, "version", NK_VERSION);
    add_text(build, "commit", NB_COMMIT);
    add_text(build, "compiler", NB_COMPILER);
    add_text(build, "options", NB_BUILD_OPTIONS);
    cJSON *list = cJSON_AddArrayToObject(root, "providers");
    for (size_t i = 0; i < providers->count; i++) {
        const nk_provider *table = providers->items[i].table;
        cJSON *provider = cJSON_CreateObject();
        add_text(provider, "name", table->name);
        add_text(provider, "version", table->version);
        add_text(provider, "build", table->build);
        cJSON_AddItemToArray(list, provider);
    }
}

static void name_run(nb_record *record)
{
    uint64_t bits = 0;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (getrandom(&bits, sizeof bits, 0) != sizeof bits)
        bits = (uint64_t)now.tv_sec << 32 ^ (uint64_t)now.tv_nsec ^ (uint64_t)getpid();
    snprintf(record->run_id, sizeof record->run_id, "%016jx", (uintmax_t)bits);
    struct tm utc;
    gmtime_r(&now.tv_sec, &utc);
    strftime(record->started_utc, sizeof record->started_utc, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

/* By way of a temporary file: a reader sees the old one or the new one. */
static int write_json(const nb_record *record)
{
    char *temporary = nb_format("%s.part", record->json_path);
    char *text = cJSON_Print(record->root);
    FILE *file = nb_output_open(temporary, true);
    int status = file && text ? NB_OK : NB_USAGE;
    if (status == NB_OK) {
        fprintf(file, "%s\n", text);
        status = nb_output_close(file, temporary);
    }
    if (status == NB_OK && rename(temporary, record->json_path) != 0)
        status = nb_fail(NB_MACHINE, "cannot write %s: %s", record->json_path, strerror(errno));
    cJSON_free(text);
    free(temporary);
    return status;
}

char *nb_record_json_path(const char *csv)
{
    const size_t length = strlen(csv);
    const bool suffix = length > 4 && strcmp(csv + length - 4, ".csv") == 0;
    return nb_format("%.*s.json", (int)(suffix ? length - 4 : length), csv);
}

static int open_json(nb_record *record, const char *command, const nb_options *options,
                     char *const *arguments, size_t count, const nb_topology *t,
                     const nb_providers *providers)
{
    cJSON *root = record->root = cJSON_CreateObject();
    cJSON_AddNumberToObject(root, "schema", NB_CSV_SCHEMA);
    cJSON_AddFalseToObject(root, "complete");
    add_text(root, "run_id", record->run_id);
    add_text(root, "started_utc", record->started_utc);
    add_text(root, "command", command);
    cJSON_AddItemToObject(root, "arguments",
                          cJSON_CreateStringArray((const char *const *)arguments, (int)count));
    char seed[24]; /* a string: JSON's numbers end at 2^53 */
    snprintf(seed, sizeof seed, "%ju", (uintmax_t)options->seed);
    add_text(root, "seed", seed);
    nb_machine_json(root, t);
    add_build(root, providers);
    cJSON_AddArrayToObject(root, "cells");
    return write_json(record);
}

static bool is_device(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

int nb_record_open(nb_record *record, const char *path, bool force, const char *command,
                   const nb_options *options, char *const *arguments, size_t count,
                   const nb_topology *t, const nb_providers *providers)
{
    *record = (nb_record){0};
    nb_machine_hash(t, record->hash);
    name_run(record);
    if (!path)
        return NB_OK;
    const bool device = is_device(path);
    record->json_path = device ? NULL : nb_record_json_path(path);
    if (record->json_path && !force && access(record->json_path, F_OK) == 0) {
        nb_fail(NB_USAGE, "%s exists: choose another name, or overwrite it with --force",
                record->json_path);
        nb_record_close(record, false);
        return NB_USAGE;
    }
    const nb_csv_run run = {.run_id = record->run_id,
                            .started_utc = record->started_utc,
                            .machine = record->hash,
                            .cpu = t->cpu_name[0] ? t->cpu_name : NULL,
                            .commit = NB_COMMIT,
                            .compiler = NB_COMPILER};
    int status = nb_csv_open(&record->csv, path, force, &run);
    const bool written = record->csv.file && !device;
    if (status == NB_OK && !device)
        status = open_json(record, command, options, arguments, count, t, providers);
    if (status != NB_OK)
        nb_record_close(record, false);
    if (status != NB_OK && written) /* nothing half written */
        unlink(path);
    return status;
}

cJSON *nb_record_cell(nb_record *record, const char *name, const char *level, uint32_t store,
                      const char *skipped)
{
    if (!record->root)
        return NULL;
    cJSON *cell = cJSON_CreateObject();
    add_text(cell, "name", name);
    add_text(cell, "level", level);
    if (skipped)
        add_text(cell, "skipped", skipped);
    else
        add_text(cell, "store",
                 store == NK_STORE_STREAM   ? "stream"
                 : store == NK_STORE_CACHED ? "cached"
                                            : NULL);
    cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(record->root, "cells"), cell);
    return cell;
}

int nb_record_close(nb_record *record, bool complete)
{
    int status = nb_csv_close(&record->csv);
    if (record->root) {
        cJSON_ReplaceItemInObjectCaseSensitive(record->root, "complete",
                                               cJSON_CreateBool(complete && status == NB_OK));
        const int written = write_json(record);
        status = status == NB_OK ? written : status;
        cJSON_Delete(record->root);
    }
    free(record->json_path);
    *record = (nb_record){0};
    return status;
}
