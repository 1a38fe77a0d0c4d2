/* SPDX-License-Identifier: Apache-2.0 */
/* x86-64 by Zydis, which knows lengths, operands and what they do. Which class
 * an instruction is of, it knows only in part: the names decide. */
#include "counts.h"

#include <Zydis/Zydis.h>
#include <string.h>

/* The first prefix that fits a mnemonic, its leading v taken off. */
static const struct rule {
    const char *prefix;
    enum nb_class class;
} rules[] = {
    {"fmadd", NB_CLASS_FMA},         {"fmsub", NB_CLASS_FMA},        {"fnmadd", NB_CLASS_FMA},
    {"fnmsub", NB_CLASS_FMA},        {"dpbf16", NB_CLASS_FMA},       {"dpp", NB_CLASS_FMA},
    {"addsubp", NB_CLASS_ADD},       {"addp", NB_CLASS_ADD},         {"adds", NB_CLASS_ADD},
    {"subp", NB_CLASS_ADD},          {"subs", NB_CLASS_ADD},         {"haddp", NB_CLASS_ADD},
    {"hsubp", NB_CLASS_ADD},         {"mulp", NB_CLASS_MUL},         {"muls", NB_CLASS_MUL},
    {"divp", NB_CLASS_DIV},          {"divs", NB_CLASS_DIV},         {"sqrt", NB_CLASS_SQRT},
    {"cvt", NB_CLASS_CONVERT},       {"cmpp", NB_CLASS_FP},          {"cmps", NB_CLASS_FP},
    {"comis", NB_CLASS_FP},          {"ucomis", NB_CLASS_FP},        {"minp", NB_CLASS_FP},
    {"mins", NB_CLASS_FP},           {"maxp", NB_CLASS_FP},          {"maxs", NB_CLASS_FP},
    {"range", NB_CLASS_FP},          {"reduce", NB_CLASS_FP},        {"round", NB_CLASS_FP},
    {"rndscale", NB_CLASS_FP},       {"rcp", NB_CLASS_FP},           {"rsqrt", NB_CLASS_FP},
    {"getexp", NB_CLASS_FP},         {"getmant", NB_CLASS_FP},       {"scalef", NB_CLASS_FP},
    {"fixupimm", NB_CLASS_FP},       {"fpclass", NB_CLASS_FP},       {"pmovm2", NB_CLASS_MASK},
    {"pmovmsk", NB_CLASS_MASK},      {"movmsk", NB_CLASS_MASK},      {"pmovb2m", NB_CLASS_MASK},
    {"pmovw2m", NB_CLASS_MASK},      {"pmovd2m", NB_CLASS_MASK},     {"pmovq2m", NB_CLASS_MASK},
    {"ptest", NB_CLASS_LOGIC},       {"testp", NB_CLASS_LOGIC},      {"shuf", NB_CLASS_SHUFFLE},
    {"pshuf", NB_CLASS_SHUFFLE},     {"perm", NB_CLASS_SHUFFLE},     {"unpck", NB_CLASS_SHUFFLE},
    {"punpck", NB_CLASS_SHUFFLE},    {"blend", NB_CLASS_SHUFFLE},    {"pblend", NB_CLASS_SHUFFLE},
    {"broadcast", NB_CLASS_SHUFFLE}, {"pbroad", NB_CLASS_SHUFFLE},   {"insert", NB_CLASS_SHUFFLE},
    {"pinsr", NB_CLASS_SHUFFLE},     {"extract", NB_CLASS_SHUFFLE},  {"pextr", NB_CLASS_SHUFFLE},
    {"align", NB_CLASS_SHUFFLE},     {"palign", NB_CLASS_SHUFFLE},   {"pack", NB_CLASS_SHUFFLE},
    {"movhlps", NB_CLASS_SHUFFLE},   {"movlhps", NB_CLASS_SHUFFLE},  {"movddup", NB_CLASS_SHUFFLE},
    {"movshdup", NB_CLASS_SHUFFLE},  {"movsldup", NB_CLASS_SHUFFLE}, {"pmov", NB_CLASS_SHUFFLE},
    {"pslldq", NB_CLASS_SHUFFLE},    {"psrldq", NB_CLASS_SHUFFLE},   {"compress", NB_CLASS_SHUFFLE},
    {"pcompress", NB_CLASS_SHUFFLE}, {"expand", NB_CLASS_SHUFFLE},   {"pexpand", NB_CLASS_SHUFFLE},
    {"maskmov", NB_CLASS_MOVE},      {"pmaskmov", NB_CLASS_MOVE},    {"xchg", NB_CLASS_MOVE},
    {"lddqu", NB_CLASS_MOVE},        {"leave", NB_CLASS_MOVE},       {"lea", NB_CLASS_INTEGER},
    {"zero", NB_CLASS_OTHER},
};

/* x87: old, but a provider's `long double` is made of it. */
static const struct rule x87_rules[] = {
    {"fadd", NB_CLASS_ADD},     {"fiadd", NB_CLASS_ADD},    {"fsub", NB_CLASS_ADD},
    {"fisub", NB_CLASS_ADD},    {"fmul", NB_CLASS_MUL},     {"fimul", NB_CLASS_MUL},
    {"fdiv", NB_CLASS_DIV},     {"fidiv", NB_CLASS_DIV},    {"fsqrt", NB_CLASS_SQRT},
    {"fild", NB_CLASS_CONVERT}, {"fist", NB_CLASS_CONVERT}, {"fld", NB_CLASS_MOVE},
    {"fst", NB_CLASS_MOVE},     {"fxch", NB_CLASS_MOVE},    {"f", NB_CLASS_FP},
};

/* What Zydis' own categories decide, before and after the names. */
static bool class_of_category(ZydisInstructionCategory category, enum nb_class *class)
{
    switch (category) {
    case ZYDIS_CATEGORY_COND_BR:
    case ZYDIS_CATEGORY_UNCOND_BR:
    case ZYDIS_CATEGORY_CALL:
    case ZYDIS_CATEGORY_RET:
        *class = NB_CLASS_BRANCH;
        return true;
    case ZYDIS_CATEGORY_KMASK:
        *class = NB_CLASS_MASK;
        return true;
    case ZYDIS_CATEGORY_NOP:
    case ZYDIS_CATEGORY_WIDENOP:
    case ZYDIS_CATEGORY_PREFETCH:
    case ZYDIS_CATEGORY_CET:
        *class = NB_CLASS_OTHER;
        return true;
    case ZYDIS_CATEGORY_GATHER:
    case ZYDIS_CATEGORY_AVX2GATHER:
    case ZYDIS_CATEGORY_SCATTER:
    case ZYDIS_CATEGORY_STRINGOP:
        *class = NB_CLASS_MOVE;
        return true;
    default:
        return false;
    }
}

static enum nb_class class_of_rest(ZydisInstructionCategory category)
{
    switch (category) {
    case ZYDIS_CATEGORY_DATAXFER:
    case ZYDIS_CATEGORY_CMOV:
    case ZYDIS_CATEGORY_PUSH:
    case ZYDIS_CATEGORY_POP:
        return NB_CLASS_MOVE;
    case ZYDIS_CATEGORY_LOGICAL:
    case ZYDIS_CATEGORY_LOGICAL_FP:
        return NB_CLASS_LOGIC;
    case ZYDIS_CATEGORY_BINARY:
    case ZYDIS_CATEGORY_SHIFT:
    case ZYDIS_CATEGORY_ROTATE:
    case ZYDIS_CATEGORY_BITBYTE:
    case ZYDIS_CATEGORY_BMI1:
    case ZYDIS_CATEGORY_BMI2:
    case ZYDIS_CATEGORY_LZCNT:
    case ZYDIS_CATEGORY_ADOX_ADCX:
    case ZYDIS_CATEGORY_SETCC:
    case ZYDIS_CATEGORY_CONVERT:
    case ZYDIS_CATEGORY_SEMAPHORE:
    case ZYDIS_CATEGORY_IFMA:
    case ZYDIS_CATEGORY_MMX:
    case ZYDIS_CATEGORY_SSE:
    case ZYDIS_CATEGORY_AVX:
    case ZYDIS_CATEGORY_AVX2:
    case ZYDIS_CATEGORY_AVX512:
        return NB_CLASS_INTEGER;
    default:
        return NB_CLASS_OTHER;
    }
}

static enum nb_class class_of_name(const struct rule *table, size_t count, const char *name,
                                   enum nb_class otherwise)
{
    for (size_t i = 0; i < count; i++)
        if (strncmp(name, table[i].prefix, strlen(table[i].prefix)) == 0)
            return table[i].class;
    return otherwise;
}

static enum nb_class class_of(const ZydisDecodedInstruction *decoded)
{
    const ZydisInstructionCategory category = decoded->meta.category;
    const char *name = ZydisMnemonicGetString(decoded->mnemonic);
    enum nb_class class;
    if (class_of_category(category, &class))
        return class;
    if (category == ZYDIS_CATEGORY_X87_ALU)
        return class_of_name(x87_rules, sizeof x87_rules / sizeof x87_rules[0], name,
                             NB_CLASS_OTHER);
    return class_of_name(rules, sizeof rules / sizeof rules[0], name + (name[0] == 'v'),
                         class_of_rest(category));
}

/* ---- Arithmetic --------------------------------------------------------- */

static unsigned flops_of(const ZydisDecodedInstruction *decoded, enum nb_class class)
{
    switch (class) {
    case NB_CLASS_ADD:
    case NB_CLASS_MUL:
    case NB_CLASS_DIV:
    case NB_CLASS_SQRT:
        return 1;
    case NB_CLASS_FMA:
        return decoded->mnemonic == ZYDIS_MNEMONIC_VDPBF16PS ? 4 : 2;
    default:
        return 0;
    }
}

/* Names of scalar operations end in ss, sd or sh; their registers do not tell.
 * (So do vpabsd and vbroadcastss, which are none.) */
static bool is_scalar(const ZydisDecodedInstruction *decoded, enum nb_class class)
{
    const char *name = ZydisMnemonicGetString(decoded->mnemonic);
    const size_t length = strlen(name);
    return (class <= NB_CLASS_FP || class == NB_CLASS_MOVE) && name[length - 2] == 's' &&
           strchr("sdh", name[length - 1]);
}

static uint16_t lanes_of(const ZydisDecodedInstruction *decoded,
                         const ZydisDecodedOperand *operands, enum nb_class class)
{
    const bool one = decoded->meta.category == ZYDIS_CATEGORY_X87_ALU || is_scalar(decoded, class);
    return one ? 1 : operands[0].element_count;
}

/* ---- Memory and masks --------------------------------------------------- */

static const ZydisDecodedOperand *add_memory(const ZydisDecodedInstruction *decoded,
                                             const ZydisDecodedOperand *operands,
                                             nb_instruction *instruction)
{
    const ZydisDecodedOperand *memory = NULL;
    for (size_t i = 0; i < decoded->operand_count; i++) {
        const ZydisDecodedOperand *o = &operands[i];
        if (o->type != ZYDIS_OPERAND_TYPE_MEMORY ||
            (o->mem.type != ZYDIS_MEMOP_TYPE_MEM && o->mem.type != ZYDIS_MEMOP_TYPE_VSIB))
            continue;
        const uint16_t bytes = (uint16_t)(o->size / 8);
        if (o->actions & ZYDIS_OPERAND_ACTION_MASK_READ)
            instruction->load_bytes = (uint16_t)(instruction->load_bytes + bytes);
        if (o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
            instruction->store_bytes = (uint16_t)(instruction->store_bytes + bytes);
        memory = o;
    }
    return memory;
}

/* The operand whose elements the opmask's bits stand for: the result, or, where
 * that is a mask itself, what is compared. */
static const ZydisDecodedOperand *masked_operand(const ZydisDecodedOperand *operands)
{
    const bool to_mask = operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
                         ZydisRegisterGetClass(operands[0].reg.value) == ZYDIS_REGCLASS_MASK;
    return &operands[to_mask ? 2 : 0];
}

static bool has_opmask(const ZydisDecodedInstruction *decoded)
{
    return decoded->avx.mask.mode > ZYDIS_MASK_MODE_DISABLED &&
           decoded->avx.mask.reg != ZYDIS_REGISTER_K0;
}

static void set_opmask(const ZydisDecodedInstruction *decoded, const ZydisDecodedOperand *operands,
                       const ZydisDecodedOperand *memory, nb_instruction *instruction)
{
    const bool scalar = is_scalar(decoded, instruction->class);
    const unsigned lanes = scalar ? 1 : masked_operand(operands)->element_count;
    instruction->mask = NB_MASK_OPMASK;
    instruction->mask_register = (uint8_t)ZydisRegisterGetId(decoded->avx.mask.reg);
    instruction->mask_lanes = (uint8_t)lanes;
    instruction->mask_moves_whole =
        memory && memory->mem.type == ZYDIS_MEMOP_TYPE_MEM && memory->element_count % lanes != 0;
}

static void set_vector_mask(const ZydisDecodedOperand *mask, unsigned element_bits, unsigned lanes,
                            nb_instruction *instruction)
{
    instruction->mask = NB_MASK_VECTOR;
    instruction->mask_register = (uint8_t)ZydisRegisterGetId(mask->reg.value);
    instruction->mask_lanes = (uint8_t)lanes;
    instruction->mask_element_bytes = (uint8_t)(element_bits / 8);
}

static void set_mask(const ZydisDecodedInstruction *decoded, const ZydisDecodedOperand *operands,
                     const ZydisDecodedOperand *memory, nb_instruction *instruction)
{
    if (has_opmask(decoded))
        set_opmask(decoded, operands, memory, instruction);
    switch (decoded->mnemonic) {
    case ZYDIS_MNEMONIC_VMASKMOVPS:
    case ZYDIS_MNEMONIC_VMASKMOVPD:
    case ZYDIS_MNEMONIC_VPMASKMOVD:
    case ZYDIS_MNEMONIC_VPMASKMOVQ:
        set_vector_mask(&operands[1], memory->element_size, memory->element_count, instruction);
        break;
    case ZYDIS_MNEMONIC_MASKMOVDQU:
    case ZYDIS_MNEMONIC_VMASKMOVDQU:
        set_vector_mask(&operands[1], 8, 16, instruction);
        break;
    default:
        if (decoded->meta.category == ZYDIS_CATEGORY_AVX2GATHER)
            set_vector_mask(&operands[2], operands[0].element_size, operands[0].element_count,
                            instruction);
        else if (decoded->attributes &
                 (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE))
            instruction->mask = NB_MASK_REPEAT;
    }
}

/* Zydis tells the size of one element of what is gathered or scattered. */
static void spread_over_lanes(const ZydisDecodedOperand *operands, nb_instruction *instruction)
{
    const bool gather = operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER;
    const unsigned lanes = gather ? operands[0].element_count : operands[2].element_count;
    instruction->mask_lanes = (uint8_t)lanes;
    instruction->load_bytes = (uint16_t)(instruction->load_bytes * lanes);
    instruction->store_bytes = (uint16_t)(instruction->store_bytes * lanes);
}

bool nb_decode_x86(const uint8_t *bytes, size_t count, nb_instruction *instruction)
{
    ZydisDecoder decoder;
    ZydisDecodedInstruction decoded;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, count, &decoded, operands)))
        return false;
    *instruction = (nb_instruction){.class = class_of(&decoded), .length = decoded.length};
    instruction->calls = decoded.meta.category == ZYDIS_CATEGORY_CALL;
    instruction->returns = decoded.meta.category == ZYDIS_CATEGORY_RET;
    if (decoded.meta.category == ZYDIS_CATEGORY_PREFETCH) {
        instruction->prefetch = true;
        return true;
    }
    if (decoded.meta.category == ZYDIS_CATEGORY_NOP ||
        decoded.meta.category == ZYDIS_CATEGORY_WIDENOP)
        return true; /* its operands only make it longer */
    instruction->flops = (uint8_t)flops_of(&decoded, instruction->class);
    if (instruction->flops)
        instruction->lanes = lanes_of(&decoded, operands, instruction->class);
    const ZydisDecodedOperand *memory = add_memory(&decoded, operands, instruction);
    set_mask(&decoded, operands, memory, instruction);
    if (memory && memory->mem.type == ZYDIS_MEMOP_TYPE_VSIB)
        spread_over_lanes(operands, instruction);
    return true;
}
