/* SPDX-License-Identifier: Apache-2.0 */
#include "probe.h"
#include "interrupt.h"
#include "program.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_S = 10 };

unsigned nb_patience_s(void)
{
    const char *text = getenv("NORMBENCH_PATIENCE");
    size_t seconds = PATIENCE_S;
    if (text && (!nb_parse_size(text, &seconds) || seconds == 0 || seconds > 86400))
        exit(nb_fail(NB_USAGE, "NORMBENCH_PATIENCE: '%s' is no number of seconds from 1 to 86400",
                     text));
    return (unsigned)seconds;
}

char *nb_death_text(int wait_status)
{
    if (nb_interrupted)
        return nb_duplicate("interrupted");
    if (!WIFSIGNALED(wait_status))
        return nb_duplicate("ended the process");
    if (WTERMSIG(wait_status) == SIGALRM)
        return nb_format("hung: no answer within %u s", nb_patience_s());
    return nb_format("crashed: %s", strsignal(WTERMSIG(wait_status)));
}

void nb_become_expendable(void)
{
    static const int fatal[] = {SIGSEGV, SIGBUS,  SIGILL,  SIGFPE,
                                SIGABRT, SIGTRAP, SIGALRM, SIGTERM};
    const struct rlimit none = {0, 0};
    for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++)
        signal(fatal[i], SIG_DFL);
    signal(SIGINT, SIG_IGN);
    setrlimit(RLIMIT_CORE, &none);
}

/* ---- Work in a child ---------------------------------------------------- */

typedef int (*work_function)(const void *context);

/* Shared with the child. An exit status would not do: the stranger's code may
 * call exit(0). */
typedef struct answer {
    bool given;
    int value;
} answer;

static volatile answer *shared_answer(void)
{
    static volatile answer *page;
    if (!page) {
        void *p =
            mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            exit(nb_fail(NB_MACHINE, "cannot map a page: %m"));
        page = p;
    }
    page->given = false;
    return page;
}

static _Noreturn void be_child(work_function work, const void *context, unsigned patience_s,
                               volatile answer *a)
{
    nb_become_expendable();
    alarm(patience_s);
    a->value = work(context);
    a->given = true;
    _exit(0);
}

static int wait_for(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        if (nb_interrupted)
            kill(child, SIGKILL);
    return status;
}

/* True if `work` came to its end: then *value is what it returned. Else *death,
 * to be freed, says how it ended. */
static bool work_in_child(work_function work, const void *context, int *value, char **death)
{
    volatile answer *a = shared_answer();
    const unsigned patience_s = nb_patience_s();
    fflush(NULL); /* the stranger may flush its copy of our buffers */
    const pid_t child = fork();
    if (child < 0)
        exit(nb_fail(NB_MACHINE, "cannot start a process: %m"));
    if (child == 0)
        be_child(work, context, patience_s, a);
    const int status = wait_for(child);
    if (a->given)
        *value = a->value;
    else
        *death = nb_death_text(status);
    return a->given;
}

/* ---- Loading ------------------------------------------------------------ */

static int load(const void *path)
{
    nb_provider provider;
    const int status = nb_provider_open(path, &provider);
    if (status == NB_OK)
        nb_provider_status_text(&provider, 1);
    return status;
}

int nb_probe_provider(const char *path)
{
    int status;
    char *death;
    if (work_in_child(load, path, &status, &death))
        return status;
    nb_fail(NB_FAILED, "provider %s: while it was loaded it %s", path, death);
    free(death);
    return NB_FAILED;
}

/* ---- Calls -------------------------------------------------------------- */

typedef struct call {
    nk_function function;
    const nk_args *args;
} call;

static int make_call(const void *context)
{
    const call *c = context;
    return c->function(c->args);
}

static char *last_death; /* of the call that returned NB_NEVER_RETURNED */

nk_status nb_call_kernel(const nb_variant *variant, const nk_args *args)
{
    const call c = {variant->kernel->function, args};
    if (!variant->provider->foreign)
        return make_call(&c);
    int status;
    char *death;
    if (work_in_child(make_call, &c, &status, &death))
        return status == NB_NEVER_RETURNED ? status + 1 : status;
    free(last_death);
    last_death = death;
    return NB_NEVER_RETURNED;
}

char *nb_call_failure(const nb_variant *variant, nk_status status)
{
    const nb_provider *p = variant->provider;
    if (status == NB_NEVER_RETURNED)
        return nb_format("%s (%s)", last_death ? last_death : "never returned", p->path);
    return nb_format("refused: %s", nb_provider_status_text(p, status));
}
