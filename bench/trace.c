/* SPDX-License-Identifier: Apache-2.0 */
/* One call, single-stepped under ptrace. */
#include "trace.h"
#include "interrupt.h"
#include "probe.h"
#include "program.h"
#include "stepper.h"
#include "tally.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/* A kernel is given up for hung after so much: ten times what the slowest
 * scalar code, built with sanitizers, takes. */
enum { STEPS_PER_ELEMENT = 2000, STEPS_AT_LEAST = 10000000 };

/* Signals that an instruction causes; all others wait until the end. */
static const int faults[] = {SIGTRAP, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
enum { FAULTS = sizeof faults / sizeof faults[0] };

typedef struct trace {
    const nb_variant *variant;
    nb_workspace *workspace;
    nb_counts *counts;
    nb_tally *tally;
    pid_t child;
    bool ended; /* the child, and has been waited for */
    char name[NB_NAME_BYTES];
} trace;

/* ---- In the child ------------------------------------------------------- */

/* Where the traced call returns to. Nothing is executed there. */
static void landing(void)
{
    abort();
}

/* The arguments of the counted call, in the same place of a page each time. */
static _Alignas(4096) nk_args traced_args;

/* The first call is not counted: a library may set itself up in it. */
static _Noreturn void be_traced(const nb_variant *variant, nb_workspace *workspace)
{
    sigset_t others;
    sigfillset(&others);
    for (size_t i = 0; i < FAULTS; i++)
        sigdelset(&others, faults[i]);
    nb_become_expendable();
    alarm(nb_patience_s());
    variant->kernel->function(&traced_args);
    alarm(0);
    nb_workspace_clear_outputs(workspace, 0);
    sigprocmask(SIG_BLOCK, &others, NULL);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(errno);
    raise(SIGSTOP);
    landing();
    _exit(0);
}

/* ---- In the tracer ------------------------------------------------------ */

static int not_permitted(int error)
{
    return nb_fail(
        NB_MACHINE,
        "cannot trace a process of our own: %s. Counting needs ptrace: in a container start it "
        "with --cap-add=SYS_PTRACE (or --security-opt seccomp=unconfined), on the machine set "
        "`sysctl kernel.yama.ptrace_scope=1`, and do not run under strace or a debugger. Under "
        "qemu use scripts/count_qemu.sh",
        strerror(error));
}

/* Waits until the child stands at an instruction. NB_OK, or a status after a
 * message. */
static int wait_for_stop(trace *t, int expected)
{
    int status;
    while (waitpid(t->child, &status, 0) < 0) {
        if (errno != EINTR)
            return nb_fail(NB_MACHINE, "cannot wait for a process: %s", strerror(errno));
        if (nb_interrupted)
            return NB_INTERRUPTED;
    }
    if (WIFSTOPPED(status) && WSTOPSIG(status) == expected)
        return NB_OK;
    if (WIFSTOPPED(status))
        return nb_fail(NB_FAILED, "%s: crashed: %s", t->name, strsignal(WSTOPSIG(status)));
    t->ended = true;
    if (expected == SIGSTOP && WIFEXITED(status) && WEXITSTATUS(status) != 0)
        return not_permitted(WEXITSTATUS(status));
    char *death = nb_death_text(status);
    nb_fail(NB_FAILED, "%s: %s", t->name, death);
    free(death);
    return NB_FAILED;
}

static size_t read_code(void *context, uint64_t address, uint8_t *bytes)
{
    const trace *t = context;
    size_t count = 0;
    while (count < NB_INSTRUCTION_BYTES) {
        errno = 0;
        const long word = ptrace(PTRACE_PEEKTEXT, t->child, (void *)(address + count), NULL);
        if (errno != 0)
            break; /* the end of a mapping */
        const size_t left = NB_INSTRUCTION_BYTES - count;
        memcpy(bytes + count, &word, left < sizeof word ? left : sizeof word);
        count += left < sizeof word ? left : sizeof word;
    }
    return count;
}

static int count_one(trace *t, uint64_t place, uint64_t previous)
{
    const nb_instruction *instruction = nb_tally_at(t->tally, place);
    int active = 0;
    if (!instruction)
        return nb_fail(NB_MACHINE, "%s: cannot decode the instruction at %#" PRIx64, t->name,
                       place);
    if (instruction->mask != NB_MASK_NONE)
        active = nb_stepper_active(t->child, instruction);
    if (active < 0)
        return nb_fail(NB_MACHINE, "cannot read the mask registers: %s", strerror(errno));
    if (instruction->mask == NB_MASK_REPEAT && place == previous)
        nb_counts_add_iteration(t->counts, instruction);
    else
        nb_counts_add(t->counts, instruction, (unsigned)active);
    return NB_OK;
}

static int step(trace *t)
{
    if (ptrace(PTRACE_SINGLESTEP, t->child, NULL, NULL) != 0)
        return nb_fail(NB_MACHINE, "cannot step: %s", strerror(errno));
    return wait_for_stop(t, SIGTRAP);
}

static int step_to_return(trace *t)
{
    const nb_workspace_spec *spec = &t->workspace->spec;
    const uint64_t end = (uint64_t)(uintptr_t)landing;
    const uint64_t most = STEPS_AT_LEAST + STEPS_PER_ELEMENT * (uint64_t)spec->rows * spec->hidden;
    uint64_t place = nb_stepper_place(t->child), previous = 0;
    for (uint64_t steps = 0; place != end; steps++) {
        if (steps == most)
            return nb_fail(NB_FAILED, "%s: hangs: still running after %" PRIu64 " instructions",
                           t->name, steps);
        int status = nb_interrupted ? NB_INTERRUPTED : count_one(t, place, previous);
        if (status == NB_OK)
            status = step(t);
        if (status != NB_OK)
            return status;
        previous = place;
        place = nb_stepper_place(t->child);
    }
    return NB_OK;
}

char *nb_trace_name(const nb_variant *variant, const nb_workspace *workspace,
                    char name[NB_NAME_BYTES])
{
    nb_cell_name(variant, workspace->spec.rows, workspace->spec.hidden, name);
    const size_t length = strlen(name);
    if (variant->provider->foreign)
        snprintf(name + length, NB_NAME_BYTES - length, " (%s)", variant->provider->path);
    return name;
}

int nb_trace_check(const nb_variant *variant, const nb_workspace *workspace, nk_status result)
{
    char name[NB_NAME_BYTES];
    nb_error worst;
    nb_trace_name(variant, workspace, name);
    if (result != NK_OK)
        return nb_fail(NB_FAILED, "%s: refused: %s", name,
                       nb_provider_status_text(variant->provider, result));
    nb_compare(variant->op, variant->dtype, workspace->args, &worst);
    if (worst.operand >= 0 && worst.u <= nb_bound(variant, workspace->spec.hidden))
        return NB_OK;
    char *text = nb_error_text(&worst);
    nb_fail(NB_FAILED, "%s: %s", name, text);
    free(text);
    return NB_FAILED;
}

static int trace_child(trace *t)
{
    int status = wait_for_stop(t, SIGSTOP);
    if (status != NB_OK)
        return status;
    if (ptrace(PTRACE_SETOPTIONS, t->child, NULL, (void *)PTRACE_O_EXITKILL) != 0 ||
        !nb_stepper_call(t->child, (uint64_t)(uintptr_t)t->variant->kernel->function,
                         (uint64_t)(uintptr_t)&traced_args, (uint64_t)(uintptr_t)landing))
        return not_permitted(errno);
    status = step_to_return(t);
    return status == NB_OK ? nb_trace_check(t->variant, t->workspace, nb_stepper_result(t->child))
                           : status;
}

int nb_trace_call(const nb_variant *variant, nb_workspace *workspace, nb_counts *counts)
{
    trace t = {.variant = variant, .workspace = workspace, .counts = counts};
    *counts = (nb_counts){0};
    nb_trace_name(variant, workspace, t.name);
    traced_args = workspace->args[0];
    fflush(NULL);
    t.child = fork();
    if (t.child < 0)
        return nb_fail(NB_MACHINE, "cannot start a process: %s", strerror(errno));
    if (t.child == 0)
        be_traced(variant, workspace);
    t.tally = nb_tally_new(read_code, &t);
    const int status = trace_child(&t);
    nb_tally_free(t.tally);
    if (!t.ended)
        kill(t.child, SIGKILL);
    while (!t.ended && waitpid(t.child, NULL, 0) < 0 && errno == EINTR)
        ;
    return status;
}
