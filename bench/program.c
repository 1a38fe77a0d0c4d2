/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int nb_fail(int status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("normbench: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    return status;
}

/* ---- Memory ------------------------------------------------------------- */

void *nb_reallocate(void *old, size_t bytes)
{
    void *p = realloc(old, bytes ? bytes : 1);
    if (!p)
        exit(nb_fail(NB_MACHINE, "no memory for %zu bytes", bytes));
    return p;
}

void *nb_allocate(size_t bytes)
{
    return nb_reallocate(NULL, bytes);
}

static void *allocate_aligned(size_t bytes, size_t unit)
{
    void *p = aligned_alloc(unit, (bytes + unit) / unit * unit);
    if (!p)
        exit(nb_fail(NB_MACHINE, "no memory for %zu bytes", bytes));
    return p;
}

void *nb_allocate_lines(size_t bytes)
{
    return allocate_aligned(bytes, NB_LINE);
}

void *nb_allocate_pages(size_t bytes)
{
    enum { PAGE = 4096 };
    return allocate_aligned(bytes, PAGE);
}

char *nb_duplicate(const char *text)
{
    return nb_format("%s", text);
}

char *nb_format(const char *format, ...)
{
    va_list list;
    char *text;
    va_start(list, format);
    const int length = vasprintf(&text, format, list);
    va_end(list);
    if (length < 0)
        exit(nb_fail(NB_MACHINE, "no memory for a message"));
    return text;
}

char *nb_join(char *list, const char *separator, const char *item)
{
    char *longer = list ? nb_format("%s%s%s", list, separator, item) : nb_duplicate(item);
    free(list);
    return longer;
}

/* ---- Inputs ------------------------------------------------------------- */

char *nb_read_text(const char *path, size_t *length)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t room = 1 << 12;
    if (!file)
        return NULL;
    *length = 0;
    do {
        room *= 2;
        text = nb_reallocate(text, room);
        *length += fread(text + *length, 1, room - 1 - *length, file);
    } while (*length == room - 1);
    const int error = ferror(file) ? errno : 0;
    fclose(file);
    text[*length] = '\0';
    if (error == 0)
        return text;
    free(text);
    errno = error;
    return NULL;
}

/* ---- Outputs ------------------------------------------------------------ */

FILE *nb_output_open(const char *path, bool force)
{
    struct stat status;
    const bool there = stat(path, &status) == 0;
    if (there && S_ISREG(status.st_mode) && !force) {
        nb_fail(NB_USAGE, "%s exists: choose another name, or overwrite it with --force", path);
        return NULL;
    }
    FILE *file = fopen(path, "we");
    if (!file)
        nb_fail(NB_USAGE, "cannot write %s: %s", path, strerror(errno));
    return file;
}

int nb_output_close(FILE *file, const char *path)
{
    const bool lost = fflush(file) != 0 || ferror(file);
    const int error = errno;
    if (fclose(file) != 0 || lost)
        return nb_fail(NB_MACHINE, "writing %s failed: %s", path, strerror(lost ? error : errno));
    return NB_OK;
}

int nb_make_directories(const char *path)
{
    char *copy = nb_duplicate(path);
    int status = NB_OK;
    for (char *end = copy + 1; status == NB_OK; end++) {
        if (*end != '/' && *end != '\0')
            continue;
        const char kept = *end;
        *end = '\0';
        if (mkdir(copy, 0777) != 0 && errno != EEXIST)
            status = nb_fail(NB_USAGE, "cannot make the directory %s: %s", copy, strerror(errno));
        *end = kept;
        if (kept == '\0')
            break;
    }
    free(copy);
    return status;
}

static bool holds_anything(DIR *directory)
{
    struct dirent *entry;
    while ((entry = readdir(directory)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            return true;
    return false;
}

int nb_output_directory(const char *path, bool force)
{
    if (!*path)
        return nb_fail(NB_USAGE, "the name of a directory is empty");
    DIR *directory = opendir(path);
    if (directory) {
        const bool full = holds_anything(directory);
        closedir(directory);
        if (full && !force)
            return nb_fail(NB_USAGE, "%s is not empty: choose another, or overwrite with --force",
                           path);
    } else if (errno != ENOENT) {
        return nb_fail(NB_USAGE, "cannot use the directory %s: %s", path, strerror(errno));
    }
    const int status = nb_make_directories(path);
    if (status == NB_OK && access(path, W_OK | X_OK) != 0)
        return nb_fail(NB_USAGE, "cannot write into %s: %s", path, strerror(errno));
    return status;
}
