/* SPDX-License-Identifier: Apache-2.0 */
#include "topology.h"

#include <hwloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

static bool read_text(const char *path, char *text, size_t size)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    const size_t n = fread(text, 1, size - 1, f);
    fclose(f);
    text[n] = '\0';
    return n > 0;
}

/* The text after "key" and its colon in a file like /proc/cpuinfo. */
static bool read_field(const char *path, const char *key, char *value, size_t size)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    char line[512];
    bool found = false;
    while (!found && fgets(line, sizeof line, f)) {
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        const char *colon = strchr(line, ':');
        if (!colon)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(value, size, "%.*s", (int)strcspn(colon, "\n"), colon);
        found = value[0] != '\0';
    }
    fclose(f);
    return found;
}

static size_t meminfo_bytes(const char *key)
{
    char value[64];
    if (!read_field("/proc/meminfo", key, value, sizeof value))
        return 0;
    return (size_t)strtoull(value, NULL, 10) * 1024;
}

/* ---- CPU quota --------------------------------------------------------- */

static void tighten(double *quota, double cpus)
{
    if (cpus > 0 && (*quota == 0 || cpus < *quota))
        *quota = cpus;
}

static double quota_of_group(const char *dir, bool v2)
{
    char path[1024], text[64];
    double quota, period;
    if (v2) {
        snprintf(path, sizeof path, "%s/cpu.max", dir);
        if (!read_text(path, text, sizeof text) || sscanf(text, "%lf %lf", &quota, &period) != 2)
            return 0; /* "max 100000": no limit */
    } else {
        snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", dir);
        if (!read_text(path, text, sizeof text) || sscanf(text, "%lf", &quota) != 1)
            return 0;
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", dir);
        if (!read_text(path, text, sizeof text) || sscanf(text, "%lf", &period) != 1)
            return 0;
    }
    return quota > 0 && period > 0 ? quota / period : 0;
}

/* From our group up to the root of the mount: the tightest limit binds. */
static void quota_of_branch(double *quota, const char *mount, const char *group, bool v2)
{
    char dir[900];
    snprintf(dir, sizeof dir, "%s%s", mount, group);
    for (;;) {
        tighten(quota, quota_of_group(dir, v2));
        char *slash = strrchr(dir, '/');
        if (!slash || (size_t)(slash - dir) < strlen(mount))
            return;
        *slash = '\0';
    }
}

static bool has_word(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',')
        if (strcspn(p, ",") == n && strncmp(p, word, n) == 0)
            return true;
    return false;
}

double nb_topology_quota(const char *root)
{
    char path[512];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    double quota = 0;
    char line[512];
    while (fgets(line, sizeof line, f)) { /* "hierarchy:controllers:group" */
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        controllers++;
        const bool v2 = controllers[0] == '\0';
        if (!v2 && !has_word(controllers, "cpu"))
            continue;
        snprintf(path, sizeof path, "%s/sys/fs/cgroup%s%s", root, v2 ? "" : "/", controllers);
        quota_of_branch(&quota, path, group, v2);
    }
    fclose(f);
    return quota;
}

/* ---- Caches and cores -------------------------------------------------- */

/* What a CPU is ordered by. */
typedef struct candidate {
    nb_place place;
    int sibling; /* how many of its core come before it */
    int kind;    /* ascending in performance */
    int core;
} candidate;

static int by_preference(const void *left, const void *right)
{
    const candidate *a = left, *b = right;
    if (a->sibling != b->sibling)
        return a->sibling < b->sibling ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind > b->kind ? -1 : 1;
    return a->place.cpu > b->place.cpu ? -1 : 1;
}

static const hwloc_obj_type_t cache_types[NB_CACHES] = {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE,
                                                        HWLOC_OBJ_L3CACHE};

static candidate describe_cpu(hwloc_topology_t hwloc, int cpu)
{
    candidate c = {.place = {.cpu = cpu, .cache = {-1, -1, -1}}, .kind = -1, .core = -1};
    const hwloc_obj_t pu = hwloc ? hwloc_get_pu_obj_by_os_index(hwloc, (unsigned)cpu) : NULL;
    if (!pu)
        return c;
    c.kind = hwloc_cpukinds_get_by_cpuset(hwloc, pu->cpuset, 0);
    const hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(hwloc, HWLOC_OBJ_CORE, pu);
    c.core = core ? (int)core->logical_index : -1;
    for (int i = 0; i < NB_CACHES; i++) {
        const hwloc_obj_t cache = hwloc_get_ancestor_obj_by_type(hwloc, cache_types[i], pu);
        c.place.cache[i] = cache ? (int)cache->logical_index : -1;
    }
    return c;
}

static void find_places(nb_topology *t, hwloc_topology_t hwloc)
{
    static candidate all[CPU_SETSIZE];
    size_t n = 0;
    for (int cpu = CPU_SETSIZE; cpu-- > 0;) {
        if (!CPU_ISSET((size_t)cpu, &t->allowed))
            continue;
        all[n] = describe_cpu(hwloc, cpu);
        for (size_t i = 0; i < n; i++)
            all[n].sibling += all[n].core >= 0 && all[i].core == all[n].core;
        n++;
    }
    qsort(all, n, sizeof *all, by_preference);
    for (size_t i = 0; i < n; i++)
        t->places[i] = all[i].place;
    t->place_count = n;
    t->cpu = n ? t->places[0].cpu : -1;
}

static unsigned count_allowed(hwloc_const_cpuset_t set, const cpu_set_t *allowed)
{
    unsigned n = 0;
    for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu))
        n += cpu < CPU_SETSIZE && CPU_ISSET((size_t)cpu, allowed);
    return n;
}

static void find_caches(nb_topology *t, hwloc_topology_t hwloc)
{
    const hwloc_obj_t pu = hwloc_get_pu_obj_by_os_index(hwloc, (unsigned)t->cpu);
    if (!pu)
        return;
    for (int i = 0; i < NB_CACHES; i++) {
        const hwloc_obj_t cache = hwloc_get_ancestor_obj_by_type(hwloc, cache_types[i], pu);
        if (!cache)
            continue;
        t->caches[i].bytes = (size_t)cache->attr->cache.size;
        t->caches[i].sharers = count_allowed(cache->cpuset, &t->allowed);
    }
}

static void find_cores(nb_topology *t, hwloc_topology_t hwloc)
{
    const int cores = hwloc_get_nbobjs_by_type(hwloc, HWLOC_OBJ_CORE);
    t->cores = cores > 0 ? (size_t)cores : 0;
    for (int i = 0; i < cores; i++) {
        const hwloc_obj_t core = hwloc_get_obj_by_type(hwloc, HWLOC_OBJ_CORE, (unsigned)i);
        t->cores_allowed += core && count_allowed(core->cpuset, &t->allowed) > 0;
    }
}

static void find_cpu_name(nb_topology *t, hwloc_topology_t hwloc)
{
    const hwloc_obj_t package = hwloc ? hwloc_get_obj_by_type(hwloc, HWLOC_OBJ_PACKAGE, 0) : NULL;
    const char *name = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
    if (name)
        snprintf(t->cpu_name, sizeof t->cpu_name, "%s", name);
    else if (!read_field("/proc/cpuinfo", "model name", t->cpu_name, sizeof t->cpu_name))
        t->cpu_name[0] = '\0';
}

void nb_topology_load(nb_topology *t)
{
    memset(t, 0, sizeof *t);
    if (sched_getaffinity(0, sizeof t->allowed, &t->allowed) != 0)
        CPU_ZERO(&t->allowed);
    t->cpus_allowed = (size_t)CPU_COUNT(&t->allowed);

    hwloc_topology_t hwloc = NULL;
    if (hwloc_topology_init(&hwloc) != 0)
        hwloc = NULL;
    else if (hwloc_topology_load(hwloc) != 0) {
        hwloc_topology_destroy(hwloc);
        hwloc = NULL;
    }
    find_places(t, hwloc);
    find_cpu_name(t, hwloc);
    if (hwloc) {
        find_caches(t, hwloc);
        find_cores(t, hwloc);
        hwloc_topology_destroy(hwloc);
    }
    t->memory_bytes = meminfo_bytes("MemTotal");
    t->memory_available_bytes = meminfo_bytes("MemAvailable");
    t->quota_cpus = nb_topology_quota("");
}

size_t nb_topology_threads(const nb_topology *t)
{
    size_t threads = t->cores_allowed ? t->cores_allowed : t->place_count;
    if (t->quota_cpus > 0 && t->quota_cpus < (double)threads)
        threads = (size_t)t->quota_cpus;
    return threads ? threads : 1;
}

void nb_topology_cpus(const nb_topology *t, size_t threads, int *cpus)
{
    for (size_t i = 0; i < threads; i++)
        cpus[i] = t->place_count ? t->places[i % t->place_count].cpu : -1;
}

size_t nb_topology_share(const nb_topology *t, int cache, size_t threads)
{
    size_t most = 1;
    const size_t places = threads < t->place_count ? threads : t->place_count;
    for (size_t i = 0; i < places; i++) {
        size_t sharers = 0;
        for (size_t thread = 0; thread < threads; thread++)
            sharers += t->places[thread % t->place_count].cache[cache] == t->places[i].cache[cache];
        most = sharers > most ? sharers : most;
    }
    return t->caches[cache].bytes / most;
}

size_t nb_topology_llc_share(const nb_topology *t, size_t threads)
{
    for (int i = NB_CACHES; i-- > 0;)
        if (t->caches[i].bytes)
            return nb_topology_share(t, i, threads);
    return 0;
}

/* ---- Binding ----------------------------------------------------------- */

const char *nb_topology_bind(int cpu)
{
    cpu_set_t want, got;
    if (sched_getaffinity(0, sizeof got, &got) != 0 || cpu < 0 || cpu >= CPU_SETSIZE ||
        !CPU_ISSET((size_t)cpu, &got))
        return "the CPU is not among those that this process may use";
    CPU_ZERO(&want);
    CPU_SET((size_t)cpu, &want);
    if (sched_setaffinity(0, sizeof want, &want) != 0)
        return "the system refused to bind the thread";
    if (sched_getaffinity(0, sizeof got, &got) != 0 || !CPU_EQUAL(&want, &got) ||
        sched_getcpu() != cpu)
        return "the thread does not run where it was bound";
    return NULL;
}

/* ---- Clocks ------------------------------------------------------------ */

double nb_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* A chain of dependent additions of two registers takes one cycle each on
 * every core of today (additions of a constant may be folded on the way). The
 * shortest of several chains is the one that nothing interrupted. */
static double measure_core_hz(void)
{
    enum { CHAINS = 40, BLOCKS = 20000, UNROLL = 16 };
    double best_ns = 0;
    uintptr_t x = 1, step = (uintptr_t)&best_ns;
    for (int chain = 0; chain < CHAINS; chain++) {
        const double start = nb_now_ns();
        for (int i = 0; i < BLOCKS; i++) {
#pragma GCC unroll 16
            for (int k = 0; k < UNROLL; k++) {
                x += step;
                __asm__ volatile("" : "+r"(x));
            }
        }
        const double ns = nb_now_ns() - start;
        if (best_ns == 0 || ns < best_ns)
            best_ns = ns;
    }
    return (double)BLOCKS * UNROLL / best_ns * 1e9;
}

static double measure_tsc_hz(void)
{
#if defined(__x86_64__)
    const double start_ns = nb_now_ns();
    const uint64_t start = __rdtsc();
    while (nb_now_ns() - start_ns < 1e7)
        ;
    const uint64_t end = __rdtsc();
    return (double)(end - start) / (nb_now_ns() - start_ns) * 1e9;
#else
    return 0;
#endif
}

static double cpufreq_max_hz(int cpu)
{
    char path[128], text[64];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/cpuinfo_max_freq", cpu);
    return read_text(path, text, sizeof text) ? strtod(text, NULL) * 1e3 : 0;
}

void nb_topology_measure_clocks(nb_topology *t)
{
    t->core_hz = measure_core_hz();
    t->tsc_hz = measure_tsc_hz();
    /* Some systems state a maximum that the core never reaches. */
    const double max_hz = cpufreq_max_hz(t->cpu);
    const bool credible = max_hz > 0.95 * t->core_hz && max_hz < 1.1 * t->core_hz;
    t->max_hz = credible ? max_hz : 0;
}
