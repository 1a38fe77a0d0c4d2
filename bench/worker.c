/* SPDX-License-Identifier: Apache-2.0 */
#include "worker.h"
#include "interrupt.h"
#include "probe.h"
#include "program.h"
#include "side.h"
#include "topology.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHANNEL = 3 }; /* the file descriptor that job and result pass through */

void nb_job_init(nb_job *job, const nb_shape *shape, const nb_topology *t)
{
    *job = (nb_job){.spec = shape->spec,
                    .threads = shape->threads,
                    .llc_bytes = nb_topology_llc_share(t, shape->threads)};
    nb_topology_cpus(t, job->threads, job->cpus);
}

void nb_job_add(nb_job *job, const nb_variant *variant)
{
    nb_job_side *side = &job->sides[job->count++];
    const nk_kernel *k = variant->kernel;
    snprintf(side->provider, sizeof side->provider, "%s", variant->provider->path);
    side->foreign = variant->provider->foreign;
    snprintf(side->op, sizeof side->op, "%s", k->op);
    snprintf(side->algorithm, sizeof side->algorithm, "%s", k->algorithm);
    snprintf(side->dtype, sizeof side->dtype, "%s", k->dtype);
    snprintf(side->isa, sizeof side->isa, "%s", k->isa);
}

__attribute__((format(printf, 3, 4))) static bool fail(nb_job_result *result, int status,
                                                       const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(result->error, sizeof result->error, format, list);
    va_end(list);
    result->status = status;
    return false;
}

/* ---- In this process ---------------------------------------------------- */

typedef struct loaded {
    nb_provider providers[NB_PARTICIPANTS];
    nb_variant variants[NB_PARTICIPANTS];
    nb_stage stage;
    nb_side sides[NB_PARTICIPANTS];
    size_t count; /* of sides */
} loaded;

static bool find_variant(const nb_job_side *side, const nb_provider *provider, nb_variant *variant)
{
    for (size_t i = 0; i < provider->table->count; i++) {
        const nk_kernel *k = &provider->table->kernels[i];
        if (strcmp(k->op, side->op) || strcmp(k->algorithm, side->algorithm) ||
            strcmp(k->dtype, side->dtype) || strcmp(k->isa, side->isa) || k->unavailable)
            continue;
        return nb_variant_of(provider, k, variant);
    }
    return false;
}

/* Providers first: each side gets its own handle, the loader counts them. */
static bool load(const nb_job *job, loaded *l, nb_job_result *result)
{
    nb_workspace_spec spec = job->spec;
    spec.unshared = true;
    for (size_t i = 0; i < job->count; i++) {
        const nb_job_side *side = &job->sides[i];
        const int status = nb_provider_open(side->provider, &l->providers[i]);
        if (status != NB_OK)
            return fail(result, status, "%s cannot be loaded again", side->provider);
        if (!find_variant(side, &l->providers[i], &l->variants[i]))
            return fail(result, NB_FAILED, "%s has no %s/%s/%s/%s any more", side->provider,
                        side->op, side->algorithm, side->dtype, side->isa);
        l->providers[i].foreign = side->foreign;
        spec.unshared = spec.unshared && !side->foreign;
    }
    const int status = nb_stage_open(&l->stage, &spec, job->cpus, job->threads, job->llc_bytes);
    if (status != NB_OK)
        return fail(result, status, "threads and operands could not be made");
    for (; l->count < job->count; l->count++)
        nb_side_init(&l->sides[l->count], &l->variants[l->count], &l->stage);
    return true;
}

static bool check(loaded *l, size_t side, nb_job_result *result)
{
    char *wrong = nb_side_check(&l->sides[side]);
    result->error_u[side] = l->sides[side].error_u;
    if (!wrong)
        return true;
    char name[NB_NAME_BYTES];
    result->failed_side = (int)side;
    fail(result, NB_FAILED, "%s: %s", nb_variant_name(&l->variants[side], name), wrong);
    free(wrong);
    return false;
}

static bool check_all(loaded *l, nb_job_result *result)
{
    bool right = true;
    for (size_t i = 0; i < l->count && right; i++)
        right = check(l, i, result);
    return right;
}

static void measure(const nb_job *job, loaded *l, nb_job_result *result)
{
    nb_participant participants[NB_PARTICIPANTS];
    for (size_t i = 0; i < l->count; i++)
        participants[i] = (nb_participant){.run = nb_side_run, .context = &l->sides[i]};
    const nb_paired plan = {.participants = participants,
                            .count = l->count,
                            .pairs = job->pairs,
                            .batch_ns = NB_BATCH_NS,
                            .budget_ns = job->budget_ns,
                            .now_ns = nb_now_ns};
    /* Each side has proved itself; one may hang yet. */
    alarm(nb_patience_s() * (unsigned)l->count + (unsigned)(2e-9 * job->budget_ns));
    nb_paired_measure(&plan, &result->paired);
    alarm(0);
}

/* Whether one round outlasts the budget: then the calls that are checked are that round,
 * since they were timed too, and nothing is called beside them. */
static bool outlasts(const nb_job *job, const loaded *l)
{
    double round_ns = 0;
    for (size_t i = 0; i < l->count; i++) {
        if (l->sides[i].call_ns < NB_BATCH_NS)
            return false;
        round_ns += 2 * l->sides[i].call_ns;
    }
    return round_ns >= job->budget_ns;
}

/* The first half of the palindrome was timed, the second one follows. */
static bool check_back(loaded *l, nb_job_result *result)
{
    nb_paired_result *paired = &result->paired;
    *paired = (nb_paired_result){.count = l->count, .pairs = 1, .rounds = {1}};
    for (size_t i = l->count; i-- > 0;) {
        const double first_ns = l->sides[i].call_ns;
        if (!check(l, i, result))
            return false;
        paired->batch[i] = 1;
        paired->time_ns[0][i] = (first_ns + l->sides[i].call_ns) / 2;
    }
    return true;
}

/* The first call would pay for writing back what the caches still hold of filling the
 * operands. */
static void settle_caches(loaded *l)
{
    if (!l->variants[0].provider->foreign)
        nb_side_run(&l->sides[0], 1);
}

static void describe(const loaded *l, nb_job_result *result)
{
    for (size_t i = 0; i < l->count; i++) {
        result->bytes[i] = nb_side_bytes(&l->sides[i]);
        result->flops[i] = nb_side_flops(&l->sides[i]);
        result->store_used[i] = l->sides[i].lanes[0].store_used;
    }
}

static void time_sides(const nb_job *job, loaded *l, nb_job_result *result)
{
    settle_caches(l);
    if (!check_all(l, result))
        return;
    if (outlasts(job, l)) {
        check_back(l, result);
    } else {
        measure(job, l, result);
        check_all(l, result);
    }
    describe(l, result);
}

void nb_job_run(const nb_job *job, nb_job_result *result)
{
    *result = (nb_job_result){.failed_side = -1};
    static loaded l; /* large */
    nb_provider before[NB_PARTICIPANTS];
    memcpy(before, l.providers, sizeof before);
    memset(&l, 0, sizeof l);
    const bool ready = load(job, &l, result);
    for (size_t i = 0; i < NB_PARTICIPANTS; i++) /* what both jobs need stays where it is */
        nb_provider_unload(&before[i]);
    if (ready)
        time_sides(job, &l, result);
    for (size_t i = 0; i < l.count; i++)
        nb_side_free(&l.sides[i]);
    nb_stage_close(&l.stage);
}

void nb_job_observe(const nb_job_result *result, size_t side, size_t pair, nb_csv_row *row)
{
    const nb_paired_result *p = &result->paired;
    row->pair = (long)pair;
    row->slot = (long)side;
    row->bytes = result->bytes[side];
    row->flops = result->flops[side];
    row->iterations = 2 * p->batch[side] * p->rounds[pair];
    row->time_ns = p->time_ns[pair][side];
}

/* ---- In another --------------------------------------------------------- */

static bool transfer(bool out, int fd, void *data, size_t bytes)
{
    for (char *p = data; bytes > 0;) {
        const ssize_t n = out ? send(fd, p, bytes, MSG_NOSIGNAL) : recv(fd, p, bytes, 0);
        if (n <= 0)
            return false;
        p += n;
        bytes -= (size_t)n;
    }
    return true;
}

int nb_worker(int argc, char **argv)
{
    (void)argc;
    static nb_job job;
    static nb_job_result result;
    if (!transfer(false, CHANNEL, &job, sizeof job))
        return nb_fail(NB_USAGE, "%s is started by other subcommands", argv[0]);
    do {
        nb_job_run(&job, &result);
        if (!transfer(true, CHANNEL, &result, sizeof result))
            return NB_FAILED;
    } while (transfer(false, CHANNEL, &job, sizeof job));
    return NB_OK;
}

/* A new program image has its code and data at new places. Where the system
 * (an emulator) cannot execute us again, the fork itself does the work. */
static _Noreturn void become_worker(int fd)
{
    nb_become_expendable();
    if (fd != CHANNEL)
        dup2(fd, CHANNEL);
    char *argv[] = {"normbench", "worker", NULL};
    execv("/proc/self/exe", argv);
    _exit(nb_worker(2, argv));
}

/* The checks are made in children of their own and name their side: what dies
 * here dies while it is loaded or timed, and may be either. */
static void name_death(const nb_job *job, int wait_status, nb_job_result *result)
{
    char *names = NULL, *death = nb_death_text(wait_status);
    for (size_t i = 0; i < job->count; i++) {
        const nb_job_side *s = &job->sides[i];
        char name[sizeof s->provider + NB_NAME_BYTES];
        snprintf(name, sizeof name, "%s/%s/%s/%s of %s", s->op, s->algorithm, s->dtype, s->isa,
                 s->provider);
        names = nb_join(names, " or ", name);
    }
    fail(result, NB_FAILED, "%s, while it was timed: %s", death, names);
    free(death);
    free(names);
}

static bool start(nb_process *process, nb_job_result *result)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return fail(result, NB_MACHINE, "cannot make a socket pair: %s", strerror(errno));
    const pid_t child = fork();
    if (child == 0)
        become_worker(pair[1]);
    close(pair[1]);
    if (child < 0) {
        close(pair[0]);
        return fail(result, NB_MACHINE, "cannot start a process: %s", strerror(errno));
    }
    *process = (nb_process){child, pair[0]};
    return true;
}

/* How it ended, as waitpid says. */
static int end(nb_process *process)
{
    int status = 0;
    close(process->channel);
    while (waitpid(process->pid, &status, 0) < 0 && errno == EINTR)
        ;
    *process = (nb_process){0};
    return status;
}

void nb_process_end(nb_process *process)
{
    if (process->pid)
        end(process);
}

static bool has_stranger(const nb_job *job)
{
    bool any = false;
    for (size_t i = 0; i < job->count; i++)
        any = any || job->sides[i].foreign;
    return any;
}

void nb_job_run_apart(nb_process *process, const nb_job *job, nb_job_result *result)
{
    *result = (nb_job_result){.failed_side = -1};
    if (!process->pid && !start(process, result))
        return;
    nb_job copy = *job;
    const bool answered = transfer(true, process->channel, &copy, sizeof copy) &&
                          transfer(false, process->channel, result, sizeof *result);
    if (answered && !nb_interrupted && !has_stranger(job))
        return;
    if (!answered && nb_interrupted)
        kill(process->pid, SIGKILL);
    const int status = end(process);
    if (answered && !nb_interrupted)
        return;
    *result = (nb_job_result){.failed_side = -1};
    if (nb_interrupted)
        fail(result, NB_INTERRUPTED, "interrupted");
    else
        name_death(job, status, result);
}
