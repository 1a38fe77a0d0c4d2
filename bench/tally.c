/* SPDX-License-Identifier: Apache-2.0 */
#include "tally.h"
#include "program.h"

#include <stdlib.h>

#if defined(__x86_64__)
#define decode nb_decode_x86
#else
#define decode nb_decode_a64
#endif

/* An open hash table: the address 0 is free. */
typedef struct entry {
    uint64_t address;
    nb_instruction *instruction;
} entry;

struct nb_tally {
    nb_read_code read;
    void *context;
    entry *entries;
    size_t room, count; /* room is a power of two */
};

nb_tally *nb_tally_new(nb_read_code read, void *context)
{
    nb_tally *tally = nb_allocate(sizeof *tally);
    *tally = (nb_tally){.read = read, .context = context, .room = 1024};
    tally->entries = nb_allocate(tally->room * sizeof *tally->entries);
    for (size_t i = 0; i < tally->room; i++)
        tally->entries[i] = (entry){0};
    return tally;
}

void nb_tally_free(nb_tally *tally)
{
    for (size_t i = 0; i < tally->room; i++)
        free(tally->entries[i].instruction);
    free(tally->entries);
    free(tally);
}

static entry *find(const nb_tally *tally, uint64_t address)
{
    size_t i = (size_t)(address * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (tally->room - 1);
    while (tally->entries[i].address != 0 && tally->entries[i].address != address)
        i = (i + 1) & (tally->room - 1);
    return &tally->entries[i];
}

static void grow(nb_tally *tally)
{
    const nb_tally old = *tally;
    tally->room *= 2;
    tally->entries = nb_allocate(tally->room * sizeof *tally->entries);
    for (size_t i = 0; i < tally->room; i++)
        tally->entries[i] = (entry){0};
    for (size_t i = 0; i < old.room; i++)
        if (old.entries[i].address != 0)
            *find(tally, old.entries[i].address) = old.entries[i];
    free(old.entries);
}

const nb_instruction *nb_tally_at(nb_tally *tally, uint64_t address)
{
    uint8_t bytes[NB_INSTRUCTION_BYTES];
    nb_instruction decoded;
    entry *place = find(tally, address);
    if (place->address == address)
        return place->instruction;
    const size_t count = tally->read(tally->context, address, bytes);
    if (!decode(bytes, count, &decoded))
        return NULL;
    place->address = address;
    place->instruction = nb_allocate(sizeof decoded);
    *place->instruction = decoded;
    const nb_instruction *found = place->instruction;
    if (++tally->count > tally->room / 2)
        grow(tally);
    return found;
}
