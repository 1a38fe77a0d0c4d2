/* SPDX-License-Identifier: Apache-2.0 */
#include "counts.h"

const char *const nb_class_names[NB_CLASSES] = {
#define NB_CLASS(CONSTANT, name) [NB_CLASS_##CONSTANT] = name,
#include "counts.def"
};

/* The bytes that one execution moves, of `all` that the instruction can move. */
static unsigned moved_bytes(const nb_instruction *instruction, unsigned all, unsigned active)
{
    if (instruction->mask == NB_MASK_NONE)
        return all;
    if (instruction->mask_moves_whole || instruction->mask == NB_MASK_REPEAT)
        return active ? all : 0;
    return all / instruction->mask_lanes * active;
}

void nb_counts_add(nb_counts *counts, const nb_instruction *instruction, unsigned active)
{
    const bool by_lane = instruction->mask == NB_MASK_OPMASK && instruction->mask_lanes > 0;
    const unsigned lanes =
        by_lane ? instruction->lanes * active / instruction->mask_lanes : instruction->lanes;
    const unsigned load_bytes = moved_bytes(instruction, instruction->load_bytes, active);
    const unsigned store_bytes = moved_bytes(instruction, instruction->store_bytes, active);
    counts->instructions++;
    counts->classes[instruction->class]++;
    if (instruction->flops) {
        counts->lanes += lanes;
        counts->flops += (uint64_t)lanes * instruction->flops;
    }
    counts->loads += load_bytes != 0;
    counts->load_bytes += load_bytes;
    counts->stores += store_bytes != 0;
    counts->store_bytes += store_bytes;
    counts->prefetches += instruction->prefetch;
}

void nb_counts_add_iteration(nb_counts *counts, const nb_instruction *instruction)
{
    counts->load_bytes += instruction->load_bytes;
    counts->store_bytes += instruction->store_bytes;
}
