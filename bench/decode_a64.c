/* SPDX-License-Identifier: Apache-2.0 */
/* AArch64 with Advanced SIMD, by the encoding groups of the Arm Architecture
 * Reference Manual, C4.1. No SVE, and no instruction that it does not know. */
#include "counts.h"

static unsigned field(uint32_t word, unsigned high, unsigned low)
{
    return word >> low & ((UINT32_C(2) << (high - low)) - 1);
}

static bool bit(uint32_t word, unsigned place)
{
    return word >> place & 1;
}

static bool is(nb_instruction *instruction, enum nb_class class)
{
    instruction->class = class;
    return true;
}

static bool computes(nb_instruction *instruction, enum nb_class class, unsigned lanes)
{
    instruction->flops = class <= NB_CLASS_SQRT ? (class == NB_CLASS_FMA ? 2 : 1) : 0;
    instruction->lanes = (uint16_t)(instruction->flops ? lanes : 0);
    return is(instruction, class);
}

static bool moves(nb_instruction *instruction, bool load, unsigned bytes)
{
    *(load ? &instruction->load_bytes : &instruction->store_bytes) = (uint16_t)bytes;
    return is(instruction, NB_CLASS_MOVE);
}

/* ---- General registers -------------------------------------------------- */

static bool immediate(uint32_t w, nb_instruction *instruction)
{
    switch (field(w, 25, 23)) {
    case 4:
        return is(instruction, NB_CLASS_LOGIC);
    case 5:
        return is(instruction, NB_CLASS_MOVE);
    default:
        return is(instruction, NB_CLASS_INTEGER);
    }
}

static bool branch(uint32_t w, nb_instruction *instruction)
{
    const bool system = field(w, 31, 24) == 0xd4 || field(w, 31, 24) == 0xd5;
    const bool to_register = field(w, 31, 25) == 0x6b;
    instruction->calls = field(w, 31, 26) == 0x25 || (to_register && field(w, 24, 21) == 1);
    instruction->returns = to_register && field(w, 24, 21) == 2;
    return is(instruction, system ? NB_CLASS_OTHER : NB_CLASS_BRANCH);
}

static bool registers(uint32_t w, nb_instruction *instruction)
{
    switch (field(w, 28, 24)) {
    case 0x0a: /* orr rd, zr, rm is what `mov` stands for */
        return is(instruction, field(w, 30, 29) == 1 && field(w, 9, 5) == 31 && !bit(w, 21)
                                   ? NB_CLASS_MOVE
                                   : NB_CLASS_LOGIC);
    case 0x1a:
        return is(instruction, field(w, 23, 21) == 4 ? NB_CLASS_MOVE : NB_CLASS_INTEGER);
    default:
        return is(instruction, NB_CLASS_INTEGER);
    }
}

/* ---- Loads and stores --------------------------------------------------- */

/* ld1 to ld4 of whole registers. */
static bool structures(uint32_t w, nb_instruction *instruction)
{
    static const uint8_t register_count[16] = {
        [0x0] = 4, [0x2] = 4, [0x4] = 3, [0x6] = 3, [0x7] = 1, [0x8] = 2, [0xa] = 2};
    const unsigned count = register_count[field(w, 15, 12)];
    return count && moves(instruction, bit(w, 22), count * (bit(w, 30) ? 16 : 8));
}

/* ld1 to ld4 of one lane, or of one element for all lanes. */
static bool structure_lane(uint32_t w, nb_instruction *instruction)
{
    const unsigned elements = 2u * bit(w, 13) + bit(w, 21) + 1u, size = field(w, 11, 10);
    const unsigned scale = field(w, 15, 14);
    const unsigned bytes = scale == 3 ? 1u << size : scale == 2 && bit(w, 10) ? 8 : 1u << scale;
    return moves(instruction, bit(w, 22), elements * bytes);
}

static bool pair(uint32_t w, nb_instruction *instruction)
{
    const unsigned opc = field(w, 31, 30);
    return moves(instruction, bit(w, 22), 2 * (bit(w, 26) ? 4u << opc : opc == 2 ? 8u : 4u));
}

static bool prefetches(nb_instruction *instruction)
{
    instruction->prefetch = true;
    return is(instruction, NB_CLASS_OTHER);
}

static bool literal(uint32_t w, nb_instruction *instruction)
{
    const unsigned opc = field(w, 31, 30);
    if (bit(w, 26))
        return opc != 3 && moves(instruction, true, 4u << opc);
    return opc == 3 ? prefetches(instruction) : moves(instruction, true, opc == 1 ? 8 : 4);
}

static bool one_register(uint32_t w, nb_instruction *instruction)
{
    const unsigned size = field(w, 31, 30), opc = field(w, 23, 22);
    const bool plain = bit(w, 24) || !bit(w, 21) || field(w, 11, 10) == 2;
    if (!plain) { /* atomics: swp, ldadd ... */
        if (field(w, 11, 10) != 0 || bit(w, 26))
            return false;
        instruction->store_bytes = (uint16_t)(1u << size);
        return moves(instruction, true, 1u << size);
    }
    if (bit(w, 26))
        return moves(instruction, bit(w, 22), bit(w, 23) ? 16u : 1u << size);
    if (size == 3 && opc == 2)
        return prefetches(instruction);
    return moves(instruction, opc != 0, 1u << size);
}

static bool memory(uint32_t w, nb_instruction *instruction)
{
    if (field(w, 29, 24) == 0x0c && !bit(w, 31))
        return structures(w, instruction);
    if (field(w, 29, 24) == 0x0d && !bit(w, 31))
        return structure_lane(w, instruction);
    if (field(w, 29, 24) == 0x08) /* exclusive, acquire, release; not in pairs */
        return !bit(w, 21) && moves(instruction, bit(w, 22), 1u << field(w, 31, 30));
    if (field(w, 29, 27) == 3 && field(w, 25, 24) == 0)
        return literal(w, instruction);
    if (field(w, 29, 27) == 5 && !bit(w, 25))
        return pair(w, instruction);
    return field(w, 29, 27) == 7 && !bit(w, 25) && one_register(w, instruction);
}

/* ---- Floating point, scalar --------------------------------------------- */

static bool fp_two_sources(unsigned opcode, nb_instruction *instruction)
{
    static const enum nb_class classes[16] = {
        [0] = NB_CLASS_MUL, [1] = NB_CLASS_DIV, [2] = NB_CLASS_ADD,
        [3] = NB_CLASS_ADD, [4] = NB_CLASS_FP,  [5] = NB_CLASS_FP,
        [6] = NB_CLASS_FP,  [7] = NB_CLASS_FP,  [8] = NB_CLASS_MUL};
    return opcode <= 8 && computes(instruction, classes[opcode], 1);
}

static bool fp_one_source(unsigned opcode, nb_instruction *instruction)
{
    static const enum nb_class classes[8] = {NB_CLASS_MOVE,    NB_CLASS_FP,      NB_CLASS_FP,
                                             NB_CLASS_SQRT,    NB_CLASS_CONVERT, NB_CLASS_CONVERT,
                                             NB_CLASS_CONVERT, NB_CLASS_CONVERT};
    return computes(instruction, opcode < 8 ? classes[opcode] : NB_CLASS_FP, 1);
}

static bool fp_scalar(uint32_t w, nb_instruction *instruction)
{
    if (bit(w, 24)) /* fmadd, fmsub, fnmadd, fnmsub */
        return computes(instruction, NB_CLASS_FMA, 1);
    if (!bit(w, 21)) /* to and from fixed point */
        return is(instruction, NB_CLASS_CONVERT);
    switch (field(w, 11, 10)) {
    case 1:
        return is(instruction, NB_CLASS_FP); /* conditional compare */
    case 2:
        return fp_two_sources(field(w, 15, 12), instruction);
    case 3:
        return is(instruction, NB_CLASS_MOVE); /* conditional select */
    default:
        break;
    }
    if (bit(w, 12))
        return is(instruction, NB_CLASS_MOVE); /* an immediate */
    if (bit(w, 13))
        return is(instruction, NB_CLASS_FP); /* compare */
    if (bit(w, 14))
        return fp_one_source(field(w, 20, 15), instruction);
    /* fmov to and from general registers keeps the bits, the rest converts. */
    const bool same_bits = field(w, 18, 17) == 3 && !bit(w, 20);
    return is(instruction, same_bits ? NB_CLASS_MOVE : NB_CLASS_CONVERT);
}

/* ---- Advanced SIMD ------------------------------------------------------ */

/* Lanes of `bits` in what the instruction computes. */
static unsigned lanes_of(uint32_t w, unsigned bits)
{
    return bit(w, 28) ? 1 : (bit(w, 30) ? 128 : 64) / bits;
}

/* Three registers, floating point; `opcode` are the last three bits of the
 * single-precision ones, which the half-precision ones have alone. */
static bool simd_fp_three_same(uint32_t w, unsigned opcode, unsigned bits,
                               nb_instruction *instruction)
{
    const bool u = bit(w, 29), a = bit(w, 23);
    switch (opcode) {
    case 1:
        return !u && computes(instruction, NB_CLASS_FMA, lanes_of(w, bits));
    case 2: /* add, sub, pairwise add, absolute difference */
        return computes(instruction, NB_CLASS_ADD, lanes_of(w, bits));
    case 3:
        return computes(instruction, NB_CLASS_MUL, lanes_of(w, bits));
    case 7:
        if (u)
            return !a && computes(instruction, NB_CLASS_DIV, lanes_of(w, bits));
        return computes(instruction, NB_CLASS_FMA, lanes_of(w, bits)); /* Newton steps */
    default:
        return is(instruction, NB_CLASS_FP);
    }
}

static bool simd_three_same(uint32_t w, nb_instruction *instruction)
{
    const unsigned opcode = field(w, 15, 11), bits = bit(w, 22) ? 64 : 32;
    const bool u = bit(w, 29);
    if (opcode == 3) /* orr of a register with itself is what `mov` stands for */
        return is(instruction, !u && field(w, 23, 22) == 2 && field(w, 20, 16) == field(w, 9, 5)
                                   ? NB_CLASS_MOVE
                                   : NB_CLASS_LOGIC);
    if (opcode < 24)
        return is(instruction, NB_CLASS_INTEGER);
    if ((opcode == 25 && u) || (opcode == 29 && !u)) /* fmlal: half to single */
        return computes(instruction, NB_CLASS_FMA, lanes_of(w, 32));
    return simd_fp_three_same(w, opcode & 7, bits, instruction);
}

/* bfdot adds two products a lane; bfmlal takes every other element, and says in
 * the bit for the width which. */
static bool bf16_pairs(uint32_t w, nb_instruction *instruction)
{
    const bool dot = field(w, 23, 22) == 1;
    computes(instruction, NB_CLASS_FMA, dot ? lanes_of(w, 32) : 4);
    instruction->flops = dot ? 4 : 2;
    return true;
}

/* bf16 and complex numbers; dot products of integers. */
static bool simd_three_extra(uint32_t w, nb_instruction *instruction)
{
    const unsigned opcode = field(w, 14, 11), size = field(w, 23, 22);
    if (opcode < 8)
        return is(instruction, NB_CLASS_INTEGER);
    return bit(w, 29) && opcode == 15 && size & 1 && bf16_pairs(w, instruction);
}

static bool simd_two_registers(uint32_t w, unsigned bits, nb_instruction *instruction)
{
    const unsigned opcode = field(w, 16, 12);
    const bool u = bit(w, 29), a = bit(w, 23);
    switch (opcode) {
    case 0x00:
    case 0x01:
        return is(instruction, NB_CLASS_SHUFFLE); /* reverse */
    case 0x05:
        return is(instruction, u ? NB_CLASS_LOGIC : NB_CLASS_INTEGER);
    case 0x0c:
    case 0x0d:
    case 0x0e:
    case 0x0f:
        return is(instruction, NB_CLASS_FP);
    case 0x12:
    case 0x13:
        return is(instruction, NB_CLASS_SHUFFLE); /* narrow, widen */
    case 0x16:
    case 0x17:
    case 0x1a:
    case 0x1b:
        return is(instruction, NB_CLASS_CONVERT);
    case 0x1c:
    case 0x1d:
        return is(instruction, a ? NB_CLASS_FP : NB_CLASS_CONVERT);
    case 0x1f:
        if (u && a)
            return computes(instruction, NB_CLASS_SQRT, lanes_of(w, bits));
        return is(instruction, NB_CLASS_FP);
    case 0x18:
    case 0x19:
    case 0x1e:
        return is(instruction, NB_CLASS_FP);
    default:
        return is(instruction, NB_CLASS_INTEGER);
    }
}

/* Over the lanes of one register; a scalar pairwise fadd is among them. */
static bool simd_across(uint32_t w, nb_instruction *instruction)
{
    const unsigned opcode = field(w, 16, 12);
    if (bit(w, 28) && opcode == 0x0d)
        return computes(instruction, NB_CLASS_ADD, 1);
    return is(instruction, opcode == 0x0c || opcode == 0x0f ? NB_CLASS_FP : NB_CLASS_INTEGER);
}

static bool simd_element(uint32_t w, nb_instruction *instruction)
{
    const unsigned size = field(w, 23, 22), bits = size == 0 ? 16 : size == 3 ? 64 : 32;
    const bool u = bit(w, 29);
    switch (field(w, 15, 12)) {
    case 0x1:
    case 0x5:
        if (u)
            return false; /* complex */
        return computes(instruction, NB_CLASS_FMA, lanes_of(w, bits));
    case 0x9:
        return computes(instruction, NB_CLASS_MUL, lanes_of(w, bits));
    case 0x0:
    case 0x4:
        if (!u && size == 2) /* fmlal, fmlsl */
            return computes(instruction, NB_CLASS_FMA, lanes_of(w, 32));
        return is(instruction, NB_CLASS_INTEGER);
    case 0xf:
        if (u || (size & 1) == 0)
            return is(instruction, NB_CLASS_INTEGER);
        return bf16_pairs(w, instruction);
    default:
        return is(instruction, NB_CLASS_INTEGER);
    }
}

static bool simd_immediate(uint32_t w, nb_instruction *instruction)
{
    const unsigned cmode = field(w, 15, 12), opcode = field(w, 15, 11);
    if (field(w, 22, 19) == 0)
        return is(instruction, cmode < 12 && cmode & 1 ? NB_CLASS_LOGIC : NB_CLASS_MOVE);
    return is(instruction, opcode == 0x1c || opcode == 0x1f ? NB_CLASS_CONVERT : NB_CLASS_INTEGER);
}

/* Bits 28-24 are 01110 or, scalar, 11110. */
static bool simd_registers(uint32_t w, nb_instruction *instruction)
{
    const unsigned low = field(w, 11, 10);
    if (bit(w, 21)) {
        if (low & 1)
            return simd_three_same(w, instruction);
        if (low == 0)
            return is(instruction, NB_CLASS_INTEGER); /* widening */
        if (field(w, 20, 17) == 0)
            return simd_two_registers(w, bit(w, 22) ? 64 : 32, instruction);
        if (field(w, 20, 17) == 8)
            return simd_across(w, instruction);
        if (field(w, 22, 17) == 0x3c)
            return simd_two_registers(w, 16, instruction);
        return false;
    }
    if (bit(w, 15))
        return low & 1 && simd_three_extra(w, instruction);
    if (low & 1 && field(w, 22, 21) == 2 && field(w, 15, 14) == 0)
        return simd_fp_three_same(w, field(w, 13, 11), 16, instruction);
    return is(instruction, NB_CLASS_SHUFFLE); /* dup, ins, zip, uzp, trn, ext, tbl */
}

static bool simd(uint32_t w, nb_instruction *instruction)
{
    if (field(w, 30, 29) == 0 && bit(w, 28))
        return fp_scalar(w, instruction);
    if (bit(w, 31))
        return bit(w, 28) && bit(w, 30) == 0 && fp_scalar(w, instruction);
    if (!bit(w, 24))
        return simd_registers(w, instruction);
    return bit(w, 10) ? simd_immediate(w, instruction) : simd_element(w, instruction);
}

bool nb_decode_a64(const uint8_t *bytes, size_t count, nb_instruction *instruction)
{
    if (count < 4)
        return false;
    const uint32_t w = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
                       (uint32_t)bytes[3] << 24;
    *instruction = (nb_instruction){.length = 4};
    switch (field(w, 28, 25)) {
    case 0x8:
    case 0x9:
        return immediate(w, instruction);
    case 0xa:
    case 0xb:
        return branch(w, instruction);
    case 0x5:
    case 0xd:
        return registers(w, instruction);
    case 0x7:
    case 0xf:
        return simd(w, instruction);
    case 0x4:
    case 0x6:
    case 0xc:
    case 0xe:
        return memory(w, instruction);
    default:
        return false; /* SVE, SME, unallocated */
    }
}
