/* SPDX-License-Identifier: Apache-2.0 */
/* The machine in front of us: caches and cores (hwloc), what we may use of it
 * (affinity, cgroup quota, memory), clocks, and binding. A fact that cannot be
 * found out is 0 here and "unknown" wherever it is shown, never a 0. */
#ifndef NB_TOPOLOGY_H
#define NB_TOPOLOGY_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct nb_cache {
    size_t bytes;     /* of one instance */
    unsigned sharers; /* logical CPUs that share it and that we may use */
} nb_cache;

enum { NB_CACHE_L1D, NB_CACHE_L2, NB_CACHE_L3, NB_CACHES };

/* A logical CPU that we may use, and which instance of each cache it has. */
typedef struct nb_place {
    int cpu;
    int cache[NB_CACHES]; /* equal numbers share it; -1: unknown */
} nb_place;

enum { NB_MOST_THREADS = CPU_SETSIZE };

typedef struct nb_topology {
    char cpu_name[128];  /* "" if unknown */
    cpu_set_t allowed;   /* what affinity and cpuset leave us */
    size_t cpus_allowed; /* logical */
    size_t cores_allowed;
    size_t cores;               /* of the machine, as far as it is shown to us */
    int cpu;                    /* the one to measure on: that of places[0]; -1: unknown */
    nb_cache caches[NB_CACHES]; /* as seen from `cpu` */
    /* Where threads go, in order. One of each core first, then their siblings;
     * within those the fastest kind of core first, and the first CPU, where
     * interrupts tend to go, last. Neighbours tend to share the last-level cache. */
    nb_place places[CPU_SETSIZE];
    size_t place_count; /* = cpus_allowed */
    size_t memory_bytes;
    size_t memory_available_bytes;
    double quota_cpus; /* CPUs' worth of time that the cgroup grants; 0: no limit known */
    double max_hz;     /* cpufreq's maximum, only if the measured clock bears it out */
    double core_hz;    /* measured; 0 until nb_topology_measure_clocks */
    double tsc_hz;     /* measured; 0 where there is no TSC */
} nb_topology;

/* Never fails: an empty or broken hwloc topology leaves its fields unknown. */
void nb_topology_load(nb_topology *t);

/* The clock that all times are taken with. */
double nb_now_ns(void);

/* Measures core_hz and tsc_hz (about 30 ms) and judges max_hz. */
void nb_topology_measure_clocks(nb_topology *t);

/* Binds the calling thread to one CPU of those that it may use, and reads the
 * binding back. NULL, or a text that says what went wrong. */
const char *nb_topology_bind(int cpu);

/* Threads that have a core each and all the time they want: as many as cores are
 * allowed and the quota grants, one at the least. */
size_t nb_topology_threads(const nb_topology *t);

/* The CPUs of a team of so many threads, places[] in order; more threads than CPUs
 * begin anew. -1 if no CPU is known. */
void nb_topology_cpus(const nb_topology *t, size_t threads, int *cpus);

/* A cache's bytes for each of `threads` threads, by how many of them share one
 * instance at the most; 0 if unknown. */
size_t nb_topology_share(const nb_topology *t, int cache, size_t threads);

/* The same of the last-level cache. */
size_t nb_topology_llc_share(const nb_topology *t, size_t threads);

/* The cgroup's CPU quota in CPUs (v2 cpu.max, v1 cfs_quota_us), the tightest
 * from our group up to the root; 0 if there is none. `root` is "" or the place
 * of another file system tree, for tests. */
double nb_topology_quota(const char *root);

#endif
