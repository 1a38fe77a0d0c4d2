/* SPDX-License-Identifier: Apache-2.0 */
/* What all subcommands share: exit statuses, messages, output files. */
#ifndef NB_PROGRAM_H
#define NB_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* How the program ends. */
enum {
    NB_OK = 0,
    NB_FAILED = 1,       /* a check failed, a provider crashed or was wrong */
    NB_USAGE = 2,        /* wrong usage or input */
    NB_MACHINE = 3,      /* this machine cannot do it */
    NB_INTERRUPTED = 130 /* Ctrl-C */
};

/* A subcommand. Its argv[0] is "normbench NAME"; it returns an exit status. */
typedef int (*nb_command_function)(int argc, char **argv);

int nb_list(int argc, char **argv);
int nb_verify(int argc, char **argv);
int nb_claim(int argc, char **argv);
int nb_ab(int argc, char **argv);
int nb_count(int argc, char **argv);
int nb_info(int argc, char **argv);
int nb_run(int argc, char **argv);

/* Prints "normbench: " and the message, one line, to stderr; returns `status`,
 * so that callers can say `return nb_fail(NB_USAGE, ...)`. */
__attribute__((format(printf, 2, 3))) int nb_fail(int status, const char *format, ...);

/* malloc, realloc and friends that end the program with NB_MACHINE when there
 * is no memory. */
void *nb_allocate(size_t bytes);
void *nb_reallocate(void *old, size_t bytes);
/* Lines that no other allocation shares, two by two as some prefetchers fetch them:
 * for what a thread writes while others work beside it. */
enum { NB_LINE = 128 };
void *nb_allocate_lines(size_t bytes);
/* Whole pages: what lies in them lies alike within its page. */
void *nb_allocate_pages(size_t bytes);
char *nb_duplicate(const char *text);
__attribute__((format(printf, 1, 2))) char *nb_format(const char *format, ...);
/* `list`, which is freed and may be NULL, with one item more; to be freed. */
char *nb_join(char *list, const char *separator, const char *item);

/* The whole file with a NUL behind it, to be freed; NULL and errno. */
char *nb_read_text(const char *path, size_t *length);

/* Opens an output before the work begins, so that an unwritable path is found
 * out early. An existing file is refused without `force`; a device (/dev/null)
 * is not. NULL after a message: the status is NB_USAGE then. */
FILE *nb_output_open(const char *path, bool force);

/* Flushes and closes; a full disk shows only here. NB_OK, or NB_MACHINE after
 * a message. */
int nb_output_close(FILE *file, const char *path);

/* Makes a directory for outputs, with its parents. One that holds anything is
 * refused without `force`. NB_OK, or a status after a message. */
int nb_output_directory(const char *path, bool force);
int nb_make_directories(const char *path);

#endif
