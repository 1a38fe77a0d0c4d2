/* SPDX-License-Identifier: Apache-2.0 */
/* One call, from the log that qemu writes of it. Little else than the kernels'
 * code is logged: a log of all that this program does would have no end. */
#include "program.h"
#include "tally.h"
#include "trace.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- What is to be logged ----------------------------------------------- */

typedef struct ranges {
    const nb_variants *variants;
    char *text;
} ranges;

static bool holds_kernel(const nb_variants *variants, uint64_t start, uint64_t bytes)
{
    for (size_t i = 0; i < variants->count; i++)
        if ((uint64_t)(uintptr_t)variants->items[i].kernel->function - start < bytes)
            return true;
    return false;
}

/* The libraries that kernels call for their mathematics. */
static bool is_mathematics(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    return strncmp(name, "libm.so", 7) == 0 || strncmp(name, "libsleef.so", 11) == 0;
}

static int add_ranges(struct dl_phdr_info *info, size_t size, void *context)
{
    ranges *r = context;
    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const uint64_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        const uint64_t bytes = info->dlpi_phdr[i].p_memsz;
        if (info->dlpi_phdr[i].p_type != PT_LOAD || !(info->dlpi_phdr[i].p_flags & PF_X) ||
            !(holds_kernel(r->variants, start, bytes) || is_mathematics(info->dlpi_name)))
            continue;
        char *range = nb_format("%#" PRIx64 "+%#" PRIx64, start, bytes);
        r->text = nb_join(r->text, ",", range);
        free(range);
    }
    return 0;
}

/* What compilers call by themselves. Their size is not known: 1 KB holds each. */
static void add_copies(ranges *r)
{
    static const char *const names[] = {"memcpy", "memmove", "memset", "memcmp"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *range = nb_format("%#" PRIxPTR "+0x400", (uintptr_t)dlsym(RTLD_DEFAULT, names[i]));
        r->text = nb_join(r->text, ",", range);
        free(range);
    }
}

char *nb_trace_filter(const nb_variants *variants)
{
    ranges r = {variants, NULL};
    dl_iterate_phdr(add_ranges, &r);
    add_copies(&r);
    return r.text;
}

/* ---- The log ------------------------------------------------------------
 * It is read in one piece and parsed by hand: memcpy and its like are logged,
 * whoever calls them. */

static size_t read_code(void *context, uint64_t address, uint8_t *bytes)
{
    (void)context;
    memcpy(bytes, (const void *)(uintptr_t)address, NB_INSTRUCTION_BYTES);
    return NB_INSTRUCTION_BYTES;
}

static int read_log(const char *path, off_t from, char **text)
{
    struct stat status;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &status) != 0 || status.st_size < from) {
        const int error = errno;
        if (file >= 0)
            close(file);
        return nb_fail(NB_USAGE, "cannot read %s: %s", path, strerror(error));
    }
    const size_t bytes = (size_t)(status.st_size - from);
    size_t got = 0;
    *text = nb_allocate(bytes + 1);
    for (ssize_t n; got < bytes; got += (size_t)n)
        if ((n = pread(file, *text + got, bytes - got, from + (off_t)got)) <= 0)
            break;
    (*text)[got] = '\0';
    close(file);
    return NB_OK;
}

static uint64_t hexadecimal(const char *p)
{
    uint64_t value = 0;
    for (;; p++) {
        if (*p >= '0' && *p <= '9')
            value = value << 4 | (uint64_t)(*p - '0');
        else if (*p >= 'a' && *p <= 'f')
            value = value << 4 | (uint64_t)(*p - 'a' + 10);
        else
            return value;
    }
}

/* "Trace 0: 0x7f5c [0000000000000000/0000005501e2a0f0/0000001a/ff000201] name":
 * the second number in brackets is the instruction's address. Goes to the next
 * line; false at the end. Other lines give the address 0. */
static bool next_line(const char **text, uint64_t *address)
{
    const char *p = *text;
    *address = 0;
    if (!*p)
        return false;
    const bool trace = *p == 'T';
    while (*p && *p != '\n' && *p != '[')
        p++;
    while (*p && *p != '\n' && *p != '/')
        p++;
    if (trace && *p == '/')
        *address = hexadecimal(p + 1);
    while (*p && *p != '\n')
        p++;
    *text = p + (*p == '\n');
    return true;
}

typedef struct follower {
    const char *name;
    nb_tally *tally;
    nb_counts *counts;
    uint64_t returns[64]; /* where the open calls return to */
    size_t depth;
    bool returned; /* the instruction before was a return */
    bool done;     /* the kernel has returned */
} follower;

/* A call of what is not logged is missing: it seems to be back at once. */
static bool is_complete(const follower *f, uint64_t address)
{
    return f->returned || !f->depth || f->returns[f->depth - 1] != address;
}

static bool follow(follower *f, const nb_instruction *instruction, uint64_t address)
{
    f->returned = instruction->returns;
    if (instruction->returns) {
        f->done = f->depth == 0;
        f->depth -= f->depth > 0;
    } else if (instruction->calls) {
        if (f->depth == sizeof f->returns / sizeof f->returns[0])
            return false;
        f->returns[f->depth++] = address + instruction->length;
    }
    return true;
}

static int count_line(follower *f, uint64_t address)
{
    const nb_instruction *instruction = nb_tally_at(f->tally, address);
    if (!instruction)
        return nb_fail(NB_MACHINE, "%s: cannot decode the instruction at %#" PRIx64, f->name,
                       address);
    if (instruction->mask != NB_MASK_NONE)
        return nb_fail(NB_MACHINE,
                       "%s: a masked instruction at %#" PRIx64
                       ": the execution log does not tell what its mask was",
                       f->name, address);
    if (!is_complete(f, address) || !follow(f, instruction, address))
        return nb_fail(NB_MACHINE,
                       "%s: calls another library before %#" PRIx64
                       ", which the execution log does not show",
                       f->name, address);
    nb_counts_add(f->counts, instruction, 0);
    return NB_OK;
}

static int count_log(follower *f, const char *text, uint64_t entry)
{
    uint64_t address;
    int status = NB_OK;
    while (status == NB_OK && !f->done && next_line(&text, &address))
        if (address && (address == entry || f->counts->instructions))
            status = count_line(f, address);
    if (status == NB_OK && !f->done)
        status = nb_fail(NB_MACHINE,
                         "%s: is not in the execution log: run this under qemu with -singlestep "
                         "-d exec,nochain -D LOG -dfilter RANGES, as scripts/count_qemu.sh does",
                         f->name);
    return status;
}

int nb_trace_log(const nb_variant *variant, nb_workspace *workspace, const char *path,
                 nb_counts *counts)
{
    char name[NB_NAME_BYTES], *text = NULL;
    struct stat before;
    follower f = {.name = nb_trace_name(variant, workspace, name), .counts = counts};
    *counts = (nb_counts){0};
    variant->kernel->function(workspace->args); /* what is set up once does not count */
    nb_workspace_clear_outputs(workspace, 0);
    if (stat(path, &before) != 0)
        return nb_fail(NB_USAGE, "cannot read %s: %s", path, strerror(errno));
    const nk_status result = variant->kernel->function(workspace->args);
    int status = read_log(path, before.st_size, &text);
    f.tally = nb_tally_new(read_code, NULL);
    if (status == NB_OK)
        status = count_log(&f, text, (uint64_t)(uintptr_t)variant->kernel->function);
    nb_tally_free(f.tally);
    free(text);
    return status == NB_OK ? nb_trace_check(variant, workspace, result) : status;
}
