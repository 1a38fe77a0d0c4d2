/* SPDX-License-Identifier: Apache-2.0 */
#include "team.h"
#include "program.h"
#include "topology.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* A wait looks this often without leaving the CPU (some tens of microseconds),
 * then lets others run in between: a thread may have to share its CPU with the
 * one that it waits for. After that it sleeps. */
enum { SPINS = 1000, YIELDS = 5000 };

struct nb_team {
    size_t threads;
    const int *cpus;
    nb_team_work work; /* NULL: go home */
    void *context;
    pthread_t *handles;
    const char **unbound; /* [threads], why a thread could not be bound */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    _Alignas(NB_LINE) atomic_uint round; /* counts the works */
    _Alignas(NB_LINE) atomic_uint busy;  /* threads that have not done this one */
};

typedef struct member {
    nb_team *team;
    size_t thread;
} member;

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Waits awake until *value is no longer `old`; false if that took too long. */
static bool await_change(const atomic_uint *value, unsigned old)
{
    for (int i = 0; i < SPINS + YIELDS; i++) {
        if (atomic_load_explicit(value, memory_order_acquire) != old)
            return true;
        if (i < SPINS)
            relax();
        else
            sched_yield();
    }
    return false;
}

static void sleep_until_change(nb_team *team, const atomic_uint *value, unsigned old)
{
    pthread_mutex_lock(&team->mutex);
    while (atomic_load_explicit(value, memory_order_acquire) == old)
        pthread_cond_wait(&team->changed, &team->mutex);
    pthread_mutex_unlock(&team->mutex);
}

/* Who has changed a value wakes those that sleep. The lock is empty, but taken:
 * nobody can be between his last look and his sleep then. */
static void wake(nb_team *team)
{
    pthread_mutex_lock(&team->mutex);
    pthread_mutex_unlock(&team->mutex);
    pthread_cond_broadcast(&team->changed);
}

static void finish(nb_team *team)
{
    if (atomic_fetch_sub_explicit(&team->busy, 1, memory_order_acq_rel) == 1)
        wake(team);
}

static void *serve(void *argument)
{
    member self = *(member *)argument;
    nb_team *team = self.team;
    free(argument);
    if (team->cpus[self.thread] >= 0)
        team->unbound[self.thread] = nb_topology_bind(team->cpus[self.thread]);
    finish(team);
    for (unsigned round = 0;; round++) {
        if (!await_change(&team->round, round))
            sleep_until_change(team, &team->round, round);
        if (!team->work)
            return NULL;
        team->work(team->context, self.thread);
        finish(team);
    }
}

static void await_others(nb_team *team)
{
    unsigned busy;
    while ((busy = atomic_load_explicit(&team->busy, memory_order_acquire)) != 0)
        if (!await_change(&team->busy, busy))
            sleep_until_change(team, &team->busy, busy);
}

static void begin(nb_team *team, nb_team_work work, void *context)
{
    team->work = work;
    team->context = context;
    atomic_store_explicit(&team->busy, (unsigned)team->threads - 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&team->round, 1, memory_order_acq_rel);
    wake(team);
}

void nb_team_run(nb_team *team, nb_team_work work, void *context)
{
    if (team->threads > 1)
        begin(team, work, context);
    work(context, 0);
    await_others(team);
}

/* The signals that the caller handles: its system calls are the ones to end. */
static void block_signals(sigset_t *before)
{
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    sigaddset(&ours, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &ours, before);
}

/* It is born on its CPU, whichever CPUs the caller may use. */
static int start_thread(nb_team *team, size_t thread)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    const int cpu = team->cpus[thread];
    if (cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((size_t)cpu, &set);
        pthread_attr_setaffinity_np(&attributes, sizeof set, &set);
    }
    member *self = nb_allocate(sizeof *self);
    *self = (member){team, thread};
    const int error = pthread_create(&team->handles[thread], &attributes, serve, self);
    if (error)
        free(self);
    pthread_attr_destroy(&attributes);
    return error;
}

/* Starts the others and waits until each has bound itself. */
static int start_threads(nb_team *team, size_t threads)
{
    sigset_t before;
    int error = 0;
    atomic_init(&team->busy, (unsigned)threads - 1);
    block_signals(&before);
    for (; team->threads < threads && !error; team->threads += !error)
        error = start_thread(team, team->threads);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    atomic_fetch_sub(&team->busy, (unsigned)(threads - team->threads));
    await_others(team);
    return error;
}

static bool is_well_started(const nb_team *team, int error)
{
    if (error) {
        nb_fail(NB_MACHINE, "cannot start a thread on CPU %d: %s", team->cpus[team->threads],
                strerror(error));
        return false;
    }
    for (size_t i = 0; i < team->threads; i++)
        if (team->unbound[i]) {
            nb_fail(NB_MACHINE, "CPU %d: %s", team->cpus[i], team->unbound[i]);
            return false;
        }
    return true;
}

nb_team *nb_team_start(const int *cpus, size_t threads)
{
    nb_team *team = nb_allocate_lines(sizeof *team);
    *team = (nb_team){.threads = 1, .cpus = cpus};
    team->handles = nb_allocate(threads * sizeof *team->handles);
    team->unbound = nb_allocate(threads * sizeof *team->unbound);
    for (size_t i = 0; i < threads; i++)
        team->unbound[i] = NULL;
    pthread_mutex_init(&team->mutex, NULL);
    pthread_cond_init(&team->changed, NULL);
    atomic_init(&team->round, 0);
    if (cpus[0] >= 0)
        team->unbound[0] = nb_topology_bind(cpus[0]);
    if (is_well_started(team, start_threads(team, threads)))
        return team;
    nb_team_stop(team);
    return NULL;
}

void nb_team_stop(nb_team *team)
{
    if (!team)
        return;
    if (team->threads > 1)
        begin(team, NULL, NULL);
    for (size_t i = 1; i < team->threads; i++)
        pthread_join(team->handles[i], NULL);
    pthread_cond_destroy(&team->changed);
    pthread_mutex_destroy(&team->mutex);
    free(team->handles);
    free(team->unbound);
    free(team);
}
