/* SPDX-License-Identifier: Apache-2.0 */
/* The file that lies beside a CSV: all that is known of machine, build, options
 * and seed, enough to repeat the run. results/README.md names its fields. */
#ifndef NB_MACHINE_H
#define NB_MACHINE_H

#include "csv.h"
#include "options.h"
#include "provider.h"
#include "topology.h"

#include <cjson/cJSON.h>

enum { NB_HASH_BYTES = 9, NB_RUN_ID_BYTES = 17, NB_UTC_BYTES = 21 };

/* A short hash of CPU, caches and cores: the same machine, or its twin, has
 * the same. No host name goes into it. */
void nb_machine_hash(const nb_topology *t, char hash[NB_HASH_BYTES]);

/* Adds "machine" to an object. */
void nb_machine_json(cJSON *root, const nb_topology *t);

/* An output: the CSV and its machine file. With path NULL, and where path is a
 * device, there is no machine file; with NULL no CSV either, and all functions
 * do nothing. */
typedef struct nb_record {
    nb_csv csv;
    char *json_path;
    cJSON *root;
    char hash[NB_HASH_BYTES], run_id[NB_RUN_ID_BYTES], started_utc[NB_UTC_BYTES];
} nb_record;

/* The name of the machine file beside a CSV; to be freed. */
char *nb_record_json_path(const char *csv);

/* Opens both; an existing one is refused without `force`. The machine file says
 * "complete": false from the start. `arguments` are those that repeat the run
 * (see nb_options_arguments), `count` of them. NB_OK, or a status after a
 * message. */
int nb_record_open(nb_record *record, const char *path, bool force, const char *command,
                   const nb_options *options, char *const *arguments, size_t count,
                   const nb_topology *t, const nb_providers *providers);

/* Notes what a cell used: "store" is NK_STORE_...; `skipped` is NULL or the
 * reason why a cell is empty. Returns what more may be added to; NULL if there is no
 * machine file. */
cJSON *nb_record_cell(nb_record *record, const char *name, const char *level, uint32_t store,
                      const char *skipped);

/* Closes both; the machine file is written anew, by way of a temporary file.
 * NB_OK, or a status after a message. */
int nb_record_close(nb_record *record, bool complete);

/* The options as arguments, lists joined by commas, the seed always there:
 * what --replay parses again. To be freed, each and all. */
char **nb_options_arguments(const nb_options *options, size_t *count);
void nb_arguments_add(char ***arguments, size_t *count, char *argument); /* takes it */
void nb_arguments_free(char **arguments, size_t count);

/* The arguments of a machine file that the same command wrote. NB_OK, or
 * NB_USAGE after a message. */
int nb_record_arguments(const char *json_path, const char *command, char ***arguments,
                        size_t *count);

#endif
