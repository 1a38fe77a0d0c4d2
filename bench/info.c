/* SPDX-License-Identifier: Apache-2.0 */
/* normbench info: the machine as normbench sees it. */
#include "info.h"
#include "copy.h"
#include "machine.h"
#include "program.h"
#include "table.h"
#include "topology.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char doc[] =
    "Shows CPU, instruction sets, caches, cores allowed, clock, quota, and what "
    "is recommended here by a short measurement.";

typedef struct info_options {
    bool machine, limits, json;
} info_options;

__attribute__((format(printf, 2, 3))) static void line(const char *name, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    printf("%-16s", name);
    vprintf(format, list);
    putchar('\n');
    va_end(list);
}

/* "4.15 GHz measured", or "unknown": a value that is not known is never 0. */
static void known(const char *name, double value, const char *format)
{
    char text[128];
    snprintf(text, sizeof text, "unknown");
    if (value > 0) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(text, sizeof text, format, value);
#pragma GCC diagnostic pop
    }
    line(name, "%s", text);
}

static void print_caches(const nb_topology *t)
{
    static const char *const names[NB_CACHES] = {"L1d", "L2", "L3"};
    char bytes[16];
    for (int i = 0; i < NB_CACHES; i++) {
        const nb_cache *cache = &t->caches[i];
        if (cache->bytes == 0)
            line(names[i], "unknown");
        else
            line(names[i], "%s, for %u of the CPUs allowed",
                 nb_bytes_text((double)cache->bytes, bytes), cache->sharers);
    }
}

static void print_machine(nb_topology *t)
{
    char hash[NB_HASH_BYTES], bytes[16];
    nb_machine_hash(t, hash);
    line("machine", "%s", hash);
    line("cpu", "%s", t->cpu_name[0] ? t->cpu_name : "unknown");
    known("cores", (double)t->cores, "%.0f");
    known("cores allowed", (double)t->cores_allowed, "%.0f");
    known("CPUs allowed", (double)t->cpus_allowed, "%.0f");
    line("measured on", t->cpu < 0 ? "unknown" : "CPU %d", t->cpu);
    if (t->quota_cpus > 0)
        line("CPU quota", "%.2f CPUs: throttling will disturb times", t->quota_cpus);
    else
        line("CPU quota", "none known");
    line("--threads all", "%zu", nb_topology_threads(t));
    print_caches(t);
    line("memory", "%s",
         t->memory_bytes ? nb_bytes_text((double)t->memory_bytes, bytes) : "unknown");
    known("core clock", t->core_hz / 1e9, "%.2f GHz measured");
    known("maximum clock", t->max_hz / 1e9, "%.2f GHz");
    known("TSC", t->tsc_hz / 1e9, "%.3f GHz measured");
}

/* One line an ISA: an ISA can do what any of our kernels for it can do. */
static void print_isas(const nb_providers *providers)
{
    const char *chosen = NULL;
    for (int isa = 0; isa < NK_ISAS; isa++) {
        const nk_provider *table = providers->items[0].table;
        for (size_t i = 0; i < table->count; i++) {
            const nk_kernel *k = &table->kernels[i];
            if (strcmp(k->isa, nk_isas[isa].name) != 0)
                continue;
            line(isa == 0 ? "ISAs" : "", "%-8s%s", k->isa, k->unavailable ? k->unavailable : "yes");
            chosen = k->unavailable ? chosen : k->isa;
            break;
        }
    }
    line("chosen ISA", "%s", chosen ? chosen : "none");
}

enum { KEY_MACHINE = 0x200, KEY_LIMITS, KEY_JSON };
static const struct argp_option own_options[] = {
    {"machine", KEY_MACHINE, 0, 0, "Only the machine's short hash, the name of its results", 0},
    {"limits", KEY_LIMITS, 0, 0,
     "Measure what the machine does at the most: bytes at each level, arithmetic (some seconds)",
     0},
    {"json", KEY_JSON, 0, 0, "Print as the machine file has it", 0},
    {0}};

static error_t parse(int key, char *text, struct argp_state *state)
{
    (void)text;
    info_options *o = state->input;
    switch (key) {
    case KEY_MACHINE:
        o->machine = true;
        return 0;
    case KEY_LIMITS:
        o->limits = true;
        return 0;
    case KEY_JSON:
        o->json = true;
        return 0;
    case ARGP_KEY_END:
        if (o->machine && (o->limits || o->json))
            argp_error(state, "--machine: prints the hash only; leave --limits and --json out");
        return 0;
    default:
        return key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
    }
}

static void print_hash(const nb_topology *t)
{
    char hash[NB_HASH_BYTES];
    nb_machine_hash(t, hash);
    puts(hash);
}

static void print_json(const nb_topology *t, const nb_recommendation *r, const nb_limits *limits)
{
    cJSON *root = cJSON_CreateObject();
    nb_machine_json(root, t);
    cJSON_AddItemToObject(root, "recommended", nb_info_recommendation_json(r));
    if (limits->count)
        cJSON_AddItemToObject(root, "limits", nb_limits_json(limits));
    char *text = cJSON_Print(root);
    puts(text);
    cJSON_free(text);
    cJSON_Delete(root);
}

static void print_text(nb_topology *t, const nb_copies *ours, const nb_recommendation *r,
                       const nb_limits *limits)
{
    print_machine(t);
    print_isas(&ours->providers);
    nb_info_print_recommendation(r);
    if (limits->count)
        nb_info_print_limits(limits);
}

static int print_all(nb_topology *t, const info_options *o)
{
    nb_copies ours;
    nb_limits limits = {0};
    nb_recommendation recommendation;
    int status = nb_copies_load(&ours);
    if (status != NB_OK)
        return status;
    nb_topology_measure_clocks(t);
    status = nb_info_recommend(t, &ours, &recommendation);
    nb_limits_init(&limits, t, &ours);
    if (o->limits)
        nb_info_want_limits(&limits);
    if (status == NB_OK)
        status = nb_limits_measure(&limits);
    if (status == NB_OK && o->json)
        print_json(t, &recommendation, &limits);
    else if (status == NB_OK)
        print_text(t, &ours, &recommendation, &limits);
    nb_limits_free(&limits);
    nb_copies_free(&ours);
    return status;
}

int nb_info(int argc, char **argv)
{
    static const struct argp argp = {own_options, parse, NULL, doc, NULL, NULL, NULL};
    info_options options = {0};
    nb_topology topology;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    nb_topology_load(&topology);
    int status = NB_OK;
    if (options.machine)
        print_hash(&topology);
    else
        status = print_all(&topology, &options);
    const int printed = nb_output_close(stdout, "the output");
    return status != NB_OK ? status : printed;
}
