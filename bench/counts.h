/* SPDX-License-Identifier: Apache-2.0 */
/* Executed work: what `count` finds in one call, and the instructions that it
 * is made of. */
#ifndef NB_COUNTS_H
#define NB_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NB_CLASS(CONSTANT, name): each instruction is of one class, whatever else it
 * does: an addition that reads memory is an `fp_add` and a load. */
enum nb_class {
#define NB_CLASS(CONSTANT, name) NB_CLASS_##CONSTANT,
#include "counts.def"
    NB_CLASSES
};
extern const char *const nb_class_names[NB_CLASSES];

typedef struct nb_counts {
    uint64_t instructions;
    uint64_t classes[NB_CLASSES]; /* their sum is `instructions` */
    uint64_t flops;               /* lanes of add, mul, div, sqrt; an FMA's count twice */
    uint64_t lanes;               /* of those instructions: what is masked off does not count */
    uint64_t loads, load_bytes;   /* instructions that did read memory; bytes by the mask */
    uint64_t stores, store_bytes;
    uint64_t prefetches; /* move no bytes into registers */
} nb_counts;

/* What decides, at each execution, how much of an instruction takes place. */
enum nb_mask {
    NB_MASK_NONE,
    NB_MASK_OPMASK, /* AVX-512: a bit a lane */
    NB_MASK_VECTOR, /* AVX2: the sign of each element of a vector register */
    NB_MASK_REPEAT  /* x86 rep: one iteration a step; none if the count is 0 */
};

enum { NB_INSTRUCTION_BYTES = 15 }; /* the longest */

/* An instruction, decoded. Bytes are those of all lanes. */
typedef struct nb_instruction {
    enum nb_class class;
    uint8_t length;
    uint8_t flops;       /* a lane */
    uint16_t lanes;      /* of arithmetic */
    uint16_t load_bytes; /* 0: no load */
    uint16_t store_bytes;
    bool prefetch;
    bool calls, returns; /* from functions */
    enum nb_mask mask;
    uint8_t mask_register;
    uint8_t mask_lanes;         /* how many lanes the mask has */
    uint8_t mask_element_bytes; /* NB_MASK_VECTOR */
    /* Masked memory that is not spread over the lanes (a broadcast) is moved
     * whole if any lane is active. */
    bool mask_moves_whole;
} nb_instruction;

/* Decodes the instruction in `bytes`, which hold `count`. False if it is
 * unknown: a count that leaves something out would be no count. */
bool nb_decode_x86(const uint8_t *bytes, size_t count, nb_instruction *instruction);
bool nb_decode_a64(const uint8_t *bytes, size_t count, nb_instruction *instruction);

/* Adds one execution, with `active` of the mask's lanes; without a mask,
 * `active` is not looked at. */
void nb_counts_add(nb_counts *counts, const nb_instruction *instruction, unsigned active);
/* One iteration more of a repeated instruction that is counted already. */
void nb_counts_add_iteration(nb_counts *counts, const nb_instruction *instruction);

#endif
