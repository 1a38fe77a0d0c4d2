/* SPDX-License-Identifier: Apache-2.0 */
/* One call, from the log that qemu writes of it. Only kernels' code is in the
 * log, so whatever this program does between two calls does not disturb. */
#include "program.h"
#include "tally.h"
#include "trace.h"

#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

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

static int add_ranges(struct dl_phdr_info *info, size_t size, void *context)
{
    ranges *r = context;
    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const uint64_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        const uint64_t bytes = info->dlpi_phdr[i].p_memsz;
        if (info->dlpi_phdr[i].p_type != PT_LOAD || !(info->dlpi_phdr[i].p_flags & PF_X) ||
            !holds_kernel(r->variants, start, bytes))
            continue;
        char *range = nb_format("%#" PRIx64 "+%#" PRIx64, start, bytes);
        r->text = nb_join(r->text, ",", range);
        free(range);
    }
    return 0;
}

char *nb_trace_filter(const nb_variants *variants)
{
    ranges r = {variants, NULL};
    dl_iterate_phdr(add_ranges, &r);
    return r.text ? r.text : nb_duplicate("");
}

/* ---- The log ------------------------------------------------------------ */

static size_t read_code(void *context, uint64_t address, uint8_t *bytes)
{
    (void)context;
    memcpy(bytes, (const void *)(uintptr_t)address, NB_INSTRUCTION_BYTES);
    return NB_INSTRUCTION_BYTES;
}

/* "Trace 0: 0x7f5c [0000000000000000/0000005501e2a0f0/0000001a/ff000201] name":
 * the second number in brackets is the instruction's address. */
static bool parse_line(const char *line, uint64_t *address)
{
    const char *bracket = strncmp(line, "Trace ", 6) == 0 ? strchr(line, '[') : NULL;
    const char *slash = bracket ? strchr(bracket, '/') : NULL;
    if (!slash)
        return false;
    *address = strtoull(slash + 1, NULL, 16);
    return true;
}

/* A call that leaves the library (of memcpy, say) is missing from the log: it
 * seems to be back at once. */
typedef struct follower {
    uint64_t returns[64]; /* where the open calls return to */
    size_t depth;
    bool returned; /* the instruction before was a return */
} follower;

static bool follows(follower *f, const nb_instruction *instruction, uint64_t address)
{
    if (f->returned)
        f->depth -= f->depth > 0;
    else if (f->depth && f->returns[f->depth - 1] == address)
        return false;
    f->returned = instruction->returns;
    if (!instruction->calls)
        return true;
    if (f->depth == sizeof f->returns / sizeof f->returns[0])
        return false;
    f->returns[f->depth++] = address + instruction->length;
    return true;
}

static int count_line(nb_tally *tally, follower *f, uint64_t address, nb_counts *counts,
                      const char *name)
{
    const nb_instruction *instruction = nb_tally_at(tally, address);
    if (!instruction)
        return nb_fail(NB_MACHINE, "%s: cannot decode the instruction at %#" PRIx64, name, address);
    if (instruction->mask != NB_MASK_NONE)
        return nb_fail(NB_MACHINE,
                       "%s: a masked instruction at %#" PRIx64
                       ": the execution log does not tell what its mask was",
                       name, address);
    if (!follows(f, instruction, address))
        return nb_fail(NB_MACHINE,
                       "%s: calls another library before %#" PRIx64
                       ", which the execution log does not show",
                       name, address);
    nb_counts_add(counts, instruction, 0);
    return NB_OK;
}

static int count_log(FILE *log, uint64_t entry, nb_counts *counts, const char *name)
{
    char *line = NULL;
    size_t room = 0;
    uint64_t address;
    follower f = {0};
    int status = NB_OK;
    nb_tally *tally = nb_tally_new(read_code, NULL);
    while (status == NB_OK && getline(&line, &room, log) >= 0) {
        if (!parse_line(line, &address))
            continue;
        if (counts->instructions == 0 && address != entry)
            status = nb_fail(NB_MACHINE,
                             "%s: its execution log begins at %#" PRIx64 ", not at %#" PRIx64, name,
                             address, entry);
        else
            status = count_line(tally, &f, address, counts, name);
    }
    if (status == NB_OK && counts->instructions == 0)
        status = nb_fail(NB_MACHINE,
                         "%s: is not in the execution log: run this under qemu with -singlestep "
                         "-d exec,nochain -D LOG -dfilter RANGES, as scripts/count_qemu.sh does",
                         name);
    nb_tally_free(tally);
    free(line);
    return status;
}

int nb_trace_log(const nb_variant *variant, nb_workspace *workspace, const char *path,
                 nb_counts *counts)
{
    char name[NB_NAME_BYTES];
    *counts = (nb_counts){0};
    nb_trace_name(variant, workspace, name);
    variant->kernel->function(workspace->args); /* what is set up once does not count */
    nb_workspace_clear_outputs(workspace, 0);
    FILE *log = fopen(path, "re");
    if (!log)
        return nb_fail(NB_USAGE, "cannot read %s: %s", path, strerror(errno));
    fseeko(log, 0, SEEK_END);
    const nk_status result = variant->kernel->function(workspace->args);
    int status = count_log(log, (uint64_t)(uintptr_t)variant->kernel->function, counts, name);
    fclose(log);
    return status == NB_OK ? nb_trace_check(variant, workspace, result) : status;
}
