/* SPDX-License-Identifier: Apache-2.0 */
/* normbench: checks, times and compares normalisation kernels. */
#include "normkernels.h"
#include "program.h"
#include "worker.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>

const char *argp_program_version = "normbench " NK_VERSION;

static const struct command {
    const char *name;
    const char *summary; /* NULL: not for people */
    nb_command_function function;
} commands[] = {
    {"info", "the machine: CPU, instruction sets, caches, clock", nb_info},
    {"list", "what kernels there are, and why one is unavailable", nb_list},
    {"verify", "errors of the kernels, against the oracle or a folder of cases", nb_verify},
    {"run", "times a sweep; CSV, one row a repetition, as it goes", nb_run},
    {"claim", "the answer: what RMSNorm saves of LayerNorm's time here", nb_claim},
    {"ab", "the gate: is one build slower than another?", nb_ab},
    {"count", "what one call executes: instructions, arithmetic, loads, stores", nb_count},
    {"worker", NULL, nb_worker},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void usage(FILE *to)
{
    fputs("Usage: normbench COMMAND [OPTION...]\n"
          "Checks, times and compares the normalisation kernels of Transformers.\n\n",
          to);
    for (size_t i = 0; i < COMMANDS; i++)
        if (commands[i].summary)
            fprintf(to, "  %-8s %s\n", commands[i].name, commands[i].summary);
    fputs("\n`normbench COMMAND --help` lists the options of a command.\n"
          "Ends with 0 if all is well, 1 if a check failed, 2 for wrong usage or input,\n"
          "3 if this machine cannot do it, 130 if interrupted.\n",
          to);
}

static bool is(const char *argument, const char *one, const char *other)
{
    return strcmp(argument, one) == 0 || strcmp(argument, other) == 0;
}

static int run_command(const struct command *command, int argc, char **argv)
{
    char *name = nb_format("normbench %s", command->name);
    argv[0] = name;
    const int status = command->function(argc, argv);
    free(name);
    return status;
}

int main(int argc, char **argv)
{
    argp_err_exit_status = NB_USAGE;
    if (argc < 2) {
        usage(stderr);
        return NB_USAGE;
    }
    if (is(argv[1], "--help", "-?")) {
        usage(stdout);
        return nb_output_close(stdout, "the help");
    }
    if (is(argv[1], "--version", "-V")) {
        puts(argp_program_version);
        return nb_output_close(stdout, "the version");
    }
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return run_command(&commands[i], argc - 1, argv + 1);
    nb_fail(NB_USAGE, "there is no command '%s'", argv[1]);
    usage(stderr);
    return NB_USAGE;
}
