/* SPDX-License-Identifier: Apache-2.0 */
/* What instructions are taken for, how masks count, and baselines that are
 * broken. Expected classes and bytes come from the manuals, the encodings from
 * GNU as. */
#include "baseline.h"
#include "counts.h"
#include "program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static const struct a64 {
    uint32_t word;
    const char *text;
    enum nb_class class;
    unsigned lanes, flops, load_bytes, store_bytes;
} a64[] = {
    {0x4e22d420, "fadd v0.4s, v1.4s, v2.4s", NB_CLASS_ADD, 4, 1, 0, 0},
    {0x4ee2d420, "fsub v0.2d, v1.2d, v2.2d", NB_CLASS_ADD, 2, 1, 0, 0},
    {0x6e22d420, "faddp v0.4s, v1.4s, v2.4s", NB_CLASS_ADD, 4, 1, 0, 0},
    {0x7e30d820, "faddp s0, v1.2s", NB_CLASS_ADD, 1, 1, 0, 0},
    {0x6ea2d420, "fabd v0.4s, v1.4s, v2.4s", NB_CLASS_ADD, 4, 1, 0, 0},
    {0x6e22dc20, "fmul v0.4s, v1.4s, v2.4s", NB_CLASS_MUL, 4, 1, 0, 0},
    {0x4fa29020, "fmul v0.4s, v1.4s, v2.s[1]", NB_CLASS_MUL, 4, 1, 0, 0},
    {0x5fa29020, "fmul s0, s1, v2.s[1]", NB_CLASS_MUL, 1, 1, 0, 0},
    {0x4e22dc20, "fmulx v0.4s, v1.4s, v2.4s", NB_CLASS_MUL, 4, 1, 0, 0},
    {0x4e22cc20, "fmla v0.4s, v1.4s, v2.4s", NB_CLASS_FMA, 4, 2, 0, 0},
    {0x0ea2cc20, "fmls v0.2s, v1.2s, v2.2s", NB_CLASS_FMA, 2, 2, 0, 0},
    {0x4fa21820, "fmla v0.4s, v1.4s, v2.s[3]", NB_CLASS_FMA, 4, 2, 0, 0},
    {0x4fc21820, "fmla v0.2d, v1.2d, v2.d[1]", NB_CLASS_FMA, 2, 2, 0, 0},
    {0x1f020c20, "fmadd s0, s1, s2, s3", NB_CLASS_FMA, 1, 2, 0, 0},
    {0x1f628c20, "fnmsub d0, d1, d2, d3", NB_CLASS_FMA, 1, 2, 0, 0},
    {0x6e22fc20, "fdiv v0.4s, v1.4s, v2.4s", NB_CLASS_DIV, 4, 1, 0, 0},
    {0x1e221820, "fdiv s0, s1, s2", NB_CLASS_DIV, 1, 1, 0, 0},
    {0x6ee1f820, "fsqrt v0.2d, v1.2d", NB_CLASS_SQRT, 2, 1, 0, 0},
    {0x1e21c020, "fsqrt s0, s1", NB_CLASS_SQRT, 1, 1, 0, 0},
    {0x1e222820, "fadd s0, s1, s2", NB_CLASS_ADD, 1, 1, 0, 0},
    {0x1e623820, "fsub d0, d1, d2", NB_CLASS_ADD, 1, 1, 0, 0},
    {0x1e228820, "fnmul s0, s1, s2", NB_CLASS_MUL, 1, 1, 0, 0},
    {0x1e224820, "fmax s0, s1, s2", NB_CLASS_FP, 0, 0, 0, 0},
    {0x1e212000, "fcmp s0, s1", NB_CLASS_FP, 0, 0, 0, 0},
    {0x1e210400, "fccmp s0, s1, #0x0, eq", NB_CLASS_FP, 0, 0, 0, 0},
    {0x1e220c20, "fcsel s0, s1, s2, eq", NB_CLASS_MOVE, 0, 0, 0, 0},
    {0x1e204020, "fmov s0, s1", NB_CLASS_MOVE, 0, 0, 0, 0},
    {0x1e270020, "fmov s0, w1", NB_CLASS_MOVE, 0, 0, 0, 0},
    {0x9e660001, "fmov x1, d0", NB_CLASS_MOVE, 0, 0, 0, 0},
    {0x9eaf0020, "fmov v0.d[1], x1", NB_CLASS_MOVE, 0, 0, 0, 0},
    {0x1e2e1000, "fmov s0, #1.0", NB_CLASS_MOVE, 0, 0, 0, 0},
    {0x4f03f600, "fmov v0.4s, #1.0", NB_CLASS_MOVE, 0, 0, 0, 0},
    {0x1e20c020, "fabs s0, s1", NB_CLASS_FP, 0, 0, 0, 0},
    {0x1e244020, "frintn s0, s1", NB_CLASS_FP, 0, 0, 0, 0},
    {0x1e22c020, "fcvt d0, s1", NB_CLASS_CONVERT, 0, 0, 0, 0},
    {0x1e380000, "fcvtzs w0, s0", NB_CLASS_CONVERT, 0, 0, 0, 0},
    {0x1e220000, "scvtf s0, w0", NB_CLASS_CONVERT, 0, 0, 0, 0},
    {0x1e02f000, "scvtf s0, w0, #4", NB_CLASS_CONVERT, 0, 0, 0, 0},
    {0x9e780000, "fcvtzs x0, d0", NB_CLASS_CONVERT, 0, 0, 0, 0},
    {0x6e21d820, "ucvtf v0.4s, v1.4s", NB_CLASS_CONVERT, 0, 0, 0, 0},
    {0x0e217820, "fcvtl v0.4s, v1.4h", NB_CLASS_CONVERT, 0, 0, 0, 0},
    {0x4e617820, "fcvtl2 v0.2d, v1.4s", NB_CLASS_CONVERT, 0, 0, 0, 0},
    {0x0e216820, "fcvtn v0.4h, v1.4s", NB_CLASS_CONVERT, 0, 0, 0, 0},
    {0x0ea16820, "bfcvtn v0.4h, v1.4s", NB_CLASS_CONVERT, 0, 0, 0, 0},
    {0x1e634020, "bfcvt h0, s1", NB_CLASS_CONVERT, 0, 0, 0, 0},
    {0x6e42fc20, "bfdot v0.4s, v1.8h, v2.8h", NB_CLASS_FMA, 4, 4, 0, 0},
    {0x2ec2fc20, "bfmlalb v0.4s, v1.8h, v2.8h", NB_CLASS_FMA, 4, 2, 0, 0},
    {0x4f62f020, "bfdot v0.4s, v1.8h, v2.2h[1]", NB_CLASS_FMA, 4, 4, 0, 0},
    {0x4e22ec20, "fmlal v0.4s, v1.4h, v2.4h", NB_CLASS_FMA, 4, 2, 0, 0},
    {0x4e421420, "fadd v0.8h, v1.8h, v2.8h", NB_CLASS_ADD, 8, 1, 0, 0},
    {0x4e420c20, "fmla v0.8h, v1.8h, v2.8h", NB_CLASS_FMA, 8, 2, 0, 0},
    {0x4f121020, "fmla v0.8h, v1.8h, v2.h[1]", NB_CLASS_FMA, 8, 2, 0, 0},
    {0x6ef9f820, "fsqrt v0.8h, v1.8h", NB_CLASS_SQRT, 8, 1, 0, 0},
    {0x4e22f420, "fmax v0.4s, v1.4s, v2.4s", NB_CLASS_FP, 0, 0, 0, 0},
    {0x6e22e420, "fcmge v0.4s, v1.4s, v2.4s", NB_CLASS_FP, 0, 0, 0, 0},
    {0x4ea0c820, "fcmgt v0.4s, v1.4s, #0.0", NB_CLASS_FP, 0, 0, 0, 0},
    {0x6ea2ec20, "facgt v0.4s, v1.4s, v2.4s", NB_CLASS_FP, 0, 0, 0, 0},
    {0x4ea0f820, "fabs v0.4s, v1.4s", NB_CLASS_FP, 0, 0, 0, 0},
    {0x6ea0f820, "fneg v0.4s, v1.4s", NB_CLASS_FP, 0, 0, 0, 0},
    {0x4ea1d820, "frecpe v0.4s, v1.4s", NB_CLASS_FP, 0, 0, 0, 0},
    {0x6ea1d820, "frsqrte v0.4s, v1.4s", NB_CLASS_FP, 0, 0, 0, 0},
    {0x4ea2fc20, "frsqrts v0.4s, v1.4s, v2.4s", NB_CLASS_FMA, 4, 2, 0, 0},
    {0x4e22fc20, "frecps v0.4s, v1.4s, v2.4s", NB_CLASS_FMA, 4, 2, 0, 0},
    {0x6e30f820, "fmaxv s0, v1.4s", NB_CLASS_FP, 0, 0, 0, 0},
    {0x6e219820, "frintx v0.4s, v1.4s", NB_CLASS_FP, 0, 0, 0, 0},
    {0x4ea28420, "add v0.4s, v1.4s, v2.4s", NB_CLASS_INTEGER, 0, 0, 0, 0},
    {0x4eb1b820, "addv s0, v1.4s", NB_CLASS_INTEGER, 0, 0, 0, 0},
    {0x6ea28c20, "cmeq v0.4s, v1.4s, v2.4s", NB_CLASS_INTEGER, 0, 0, 0, 0},
    {0x4f305420, "shl v0.4s, v1.4s, #16", NB_CLASS_INTEGER, 0, 0, 0, 0},
    {0x2f10a420, "uxtl v0.4s, v1.4h", NB_CLASS_INTEGER, 0, 0, 0, 0},
    {0x0f108420, "shrn v0.4h, v1.4s, #16", NB_CLASS_INTEGER, 0, 0, 0, 0},
    {0x0e614820, "sqxtn v0.4h, v1.4s", NB_CLASS_INTEGER, 0, 0, 0, 0},
    {0x0e612820, "xtn v0.4h, v1.4s", NB_CLASS_SHUFFLE, 0, 0, 0, 0},
    {0x2e613820, "shll v0.4s, v1.4h, #16", NB_CLASS_SHUFFLE, 0, 0, 0, 0},
    {0x4e221c20, "and v0.16b, v1.16b, v2.16b", NB_CLASS_LOGIC, 0, 0, 0, 0},
    {0x6e621c20, "bsl v0.16b, v1.16b, v2.16b", NB_CLASS_LOGIC, 0, 0, 0, 0},
    {0x4ea11c20, "mov v0.16b, v1.16b", NB_CLASS_MOVE, 0, 0, 0, 0},
    {0x6e205820, "mvn v0.16b, v1.16b", NB_CLASS_LOGIC, 0, 0, 0, 0},
    {0x6f001420, "bic v0.4s, #0x1", NB_CLASS_LOGIC, 0, 0, 0, 0},
    {0x4f000400, "movi v0.4s, #0x0", NB_CLASS_MOVE, 0, 0, 0, 0},
    {0x4e040420, "dup v0.4s, v1.s[0]", NB_CLASS_SHUFFLE, 0, 0, 0, 0},
    {0x4e040c20, "dup v0.4s, w1", NB_CLASS_SHUFFLE, 0, 0, 0, 0},
    {0x5e0c0420, "mov s0, v1.s[1]", NB_CLASS_SHUFFLE, 0, 0, 0, 0},
    {0x6e0c0420, "mov v0.s[1], v1.s[0]", NB_CLASS_SHUFFLE, 0, 0, 0, 0},
    {0x0e0c3c20, "mov w0, v1.s[1]", NB_CLASS_SHUFFLE, 0, 0, 0, 0},
    {0x4e823820, "zip1 v0.4s, v1.4s, v2.4s", NB_CLASS_SHUFFLE, 0, 0, 0, 0},
    {0x4e425820, "uzp2 v0.8h, v1.8h, v2.8h", NB_CLASS_SHUFFLE, 0, 0, 0, 0},
    {0x4e822820, "trn1 v0.4s, v1.4s, v2.4s", NB_CLASS_SHUFFLE, 0, 0, 0, 0},
    {0x6e022020, "ext v0.16b, v1.16b, v2.16b, #4", NB_CLASS_SHUFFLE, 0, 0, 0, 0},
    {0x4e020020, "tbl v0.16b, {v1.16b}, v2.16b", NB_CLASS_SHUFFLE, 0, 0, 0, 0},
    {0x4ea00820, "rev64 v0.4s, v1.4s", NB_CLASS_SHUFFLE, 0, 0, 0, 0},
    {0x0e620020, "saddl v0.4s, v1.4h, v2.4h", NB_CLASS_INTEGER, 0, 0, 0, 0},
    {0x0e205820, "cnt v0.8b, v1.8b", NB_CLASS_INTEGER, 0, 0, 0, 0},
    {0x3dc00000, "ldr q0, [x0]", NB_CLASS_MOVE, 0, 0, 16, 0},
    {0xbd400400, "ldr s0, [x0, #4]", NB_CLASS_MOVE, 0, 0, 4, 0},
    {0xfc616800, "ldr d0, [x0, x1]", NB_CLASS_MOVE, 0, 0, 8, 0},
    {0x7c402400, "ldr h0, [x0], #2", NB_CLASS_MOVE, 0, 0, 2, 0},
    {0x3cdf0000, "ldur q0, [x0, #-16]", NB_CLASS_MOVE, 0, 0, 16, 0},
    {0x3c810c00, "str q0, [x0, #16]!", NB_CLASS_MOVE, 0, 0, 0, 16},
    {0x3d000000, "str b0, [x0]", NB_CLASS_MOVE, 0, 0, 0, 1},
    {0xad400400, "ldp q0, q1, [x0]", NB_CLASS_MOVE, 0, 0, 32, 0},
    {0x6cc10400, "ldp d0, d1, [x0], #16", NB_CLASS_MOVE, 0, 0, 16, 0},
    {0xad010400, "stp q0, q1, [x0, #32]", NB_CLASS_MOVE, 0, 0, 0, 32},
    {0xac000400, "stnp q0, q1, [x0]", NB_CLASS_MOVE, 0, 0, 0, 32},
    {0xa9400440, "ldp x0, x1, [x2]", NB_CLASS_MOVE, 0, 0, 16, 0},
    {0x29000440, "stp w0, w1, [x2]", NB_CLASS_MOVE, 0, 0, 0, 8},
    {0x69400440, "ldpsw x0, x1, [x2]", NB_CLASS_MOVE, 0, 0, 8, 0},
    {0xf9400020, "ldr x0, [x1]", NB_CLASS_MOVE, 0, 0, 8, 0},
    {0xb8626820, "ldr w0, [x1, x2]", NB_CLASS_MOVE, 0, 0, 4, 0},
    {0x39400020, "ldrb w0, [x1]", NB_CLASS_MOVE, 0, 0, 1, 0},
    {0x79800020, "ldrsh x0, [x1]", NB_CLASS_MOVE, 0, 0, 2, 0},
    {0xb9800020, "ldrsw x0, [x1]", NB_CLASS_MOVE, 0, 0, 4, 0},
    {0x79000020, "strh w0, [x1]", NB_CLASS_MOVE, 0, 0, 0, 2},
    {0x58000000, "ldr x0,", NB_CLASS_MOVE, 0, 0, 8, 0},
    {0x9c000000, "ldr q0,", NB_CLASS_MOVE, 0, 0, 16, 0},
    {0xf9800000, "prfm pldl1keep, [x0]", NB_CLASS_OTHER, 0, 0, 0, 0},
    {0xf8a16800, "prfm pldl1keep, [x0, x1]", NB_CLASS_OTHER, 0, 0, 0, 0},
    {0x4c407800, "ld1 {v0.4s}, [x0]", NB_CLASS_MOVE, 0, 0, 16, 0},
    {0x4cdf2800, "ld1 {v0.4s-v3.4s}, [x0], #64", NB_CLASS_MOVE, 0, 0, 64, 0},
    {0x0c40a800, "ld1 {v0.2s, v1.2s}, [x0]", NB_CLASS_MOVE, 0, 0, 16, 0},
    {0x4c006800, "st1 {v0.4s-v2.4s}, [x0]", NB_CLASS_MOVE, 0, 0, 0, 48},
    {0x4c408800, "ld2 {v0.4s, v1.4s}, [x0]", NB_CLASS_MOVE, 0, 0, 32, 0},
    {0x4c000400, "st4 {v0.8h-v3.8h}, [x0]", NB_CLASS_MOVE, 0, 0, 0, 64},
    {0x0d409000, "ld1 {v0.s}[1], [x0]", NB_CLASS_MOVE, 0, 0, 4, 0},
    {0x4d408400, "ld1 {v0.d}[1], [x0]", NB_CLASS_MOVE, 0, 0, 8, 0},
    {0x0d404800, "ld1 {v0.h}[1], [x0]", NB_CLASS_MOVE, 0, 0, 2, 0},
    {0x0d000400, "st1 {v0.b}[1], [x0]", NB_CLASS_MOVE, 0, 0, 0, 1},
    {0x4d40c800, "ld1r {v0.4s}, [x0]", NB_CLASS_MOVE, 0, 0, 4, 0},
    {0x4d60cc00, "ld2r {v0.2d, v1.2d}, [x0]", NB_CLASS_MOVE, 0, 0, 16, 0},
    {0xc85f7c20, "ldxr x0, [x1]", NB_CLASS_MOVE, 0, 0, 8, 0},
    {0x88dffc20, "ldar w0, [x1]", NB_CLASS_MOVE, 0, 0, 4, 0},
    {0xc8007c41, "stxr w0, x1, [x2]", NB_CLASS_MOVE, 0, 0, 0, 8},
    {0x8b020020, "add x0, x1, x2", NB_CLASS_INTEGER, 0, 0, 0, 0},
    {0x91000420, "add x0, x1, #0x1", NB_CLASS_INTEGER, 0, 0, 0, 0},
    {0xcb020c20, "sub x0, x1, x2, lsl #3", NB_CLASS_INTEGER, 0, 0, 0, 0},
    {0xeb01001f, "cmp x0, x1", NB_CLASS_INTEGER, 0, 0, 0, 0},
    {0x9b027c20, "mul x0, x1, x2", NB_CLASS_INTEGER, 0, 0, 0, 0},
    {0x9ac20820, "udiv x0, x1, x2", NB_CLASS_INTEGER, 0, 0, 0, 0},
    {0xd37df020, "lsl x0, x1, #3", NB_CLASS_INTEGER, 0, 0, 0, 0},
    {0x92400820, "and x0, x1, #0x7", NB_CLASS_LOGIC, 0, 0, 0, 0},
    {0xaa020020, "orr x0, x1, x2", NB_CLASS_LOGIC, 0, 0, 0, 0},
    {0xaa0103e0, "mov x0, x1", NB_CLASS_MOVE, 0, 0, 0, 0},
    {0xd28000a0, "mov x0, #0x5", NB_CLASS_MOVE, 0, 0, 0, 0},
    {0xf2a000a0, "movk x0, #0x5, lsl #16", NB_CLASS_MOVE, 0, 0, 0, 0},
    {0x90000000, "adrp x0,", NB_CLASS_INTEGER, 0, 0, 0, 0},
    {0x9a820020, "csel x0, x1, x2, eq", NB_CLASS_MOVE, 0, 0, 0, 0},
    {0x9a820420, "csinc x0, x1, x2, eq", NB_CLASS_MOVE, 0, 0, 0, 0},
    {0xfa410000, "ccmp x0, x1, #0x0, eq", NB_CLASS_INTEGER, 0, 0, 0, 0},
    {0x14000000, "b", NB_CLASS_BRANCH, 0, 0, 0, 0},
    {0x54000000, "b.eq", NB_CLASS_BRANCH, 0, 0, 0, 0},
    {0xb4000000, "cbz x0,", NB_CLASS_BRANCH, 0, 0, 0, 0},
    {0x37180000, "tbnz w0, #3,", NB_CLASS_BRANCH, 0, 0, 0, 0},
    {0x94000000, "bl", NB_CLASS_BRANCH, 0, 0, 0, 0},
    {0xd63f0000, "blr x0", NB_CLASS_BRANCH, 0, 0, 0, 0},
    {0xd61f0220, "br x17", NB_CLASS_BRANCH, 0, 0, 0, 0},
    {0xd65f03c0, "ret", NB_CLASS_BRANCH, 0, 0, 0, 0},
    {0xd503201f, "nop", NB_CLASS_OTHER, 0, 0, 0, 0},
    {0xd53b4400, "mrs x0, fpcr", NB_CLASS_OTHER, 0, 0, 0, 0},
    {0xd5033bbf, "dmb ish", NB_CLASS_OTHER, 0, 0, 0, 0},
    {0xd503233f, "paciasp", NB_CLASS_OTHER, 0, 0, 0, 0},
};

static void decodes_a64(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof a64 / sizeof a64[0]; i++) {
        const struct a64 *t = &a64[i];
        const uint8_t bytes[4] = {(uint8_t)t->word, (uint8_t)(t->word >> 8),
                                  (uint8_t)(t->word >> 16), (uint8_t)(t->word >> 24)};
        nb_instruction n = {0};
        const bool known = nb_decode_a64(bytes, 4, &n);
        if (!known || n.class != t->class || n.lanes != t->lanes || n.flops != t->flops ||
            n.load_bytes != t->load_bytes || n.store_bytes != t->store_bytes || n.length != 4)
            fail_msg("%08x %s: known %d, %s, lanes %d x %d, loads %d, stores %d", t->word, t->text,
                     known, nb_class_names[n.class], n.lanes, n.flops, n.load_bytes, n.store_bytes);
    }
}

static void a64_follows_calls(void **state)
{
    (void)state;
    nb_instruction n;
    assert_true(nb_decode_a64((const uint8_t *)"\x00\x00\x00\x94", 4, &n) && n.calls); /* bl */
    assert_true(nb_decode_a64((const uint8_t *)"\x00\x00\x3f\xd6", 4, &n) && n.calls); /* blr */
    assert_true(nb_decode_a64((const uint8_t *)"\x20\x02\x1f\xd6", 4, &n) && !n.calls &&
                !n.returns); /* br */
    assert_true(nb_decode_a64((const uint8_t *)"\xc0\x03\x5f\xd6", 4, &n) && n.returns);
}

static void refuses_what_it_does_not_know(void **state)
{
    (void)state;
    nb_instruction n;
    /* SVE: fadd z0.s, z1.s, z2.s; zeros are no instruction; half of one. */
    assert_false(nb_decode_a64((const uint8_t *)"\x20\x00\x82\x65", 4, &n));
    assert_false(nb_decode_a64((const uint8_t *)"\0\0\0\0", 4, &n));
    assert_false(nb_decode_a64((const uint8_t *)"\x20\xd4", 2, &n));
#if defined(__x86_64__)
    assert_false(nb_decode_x86((const uint8_t *)"\x06", 1, &n));
    assert_false(nb_decode_x86((const uint8_t *)"\x62\xf1\x6c", 3, &n));
#endif
}

#if defined(__x86_64__)
static const struct x86 {
    const char *bytes;
    const char *text;
    enum nb_class class;
    unsigned lanes, flops, load_bytes, store_bytes;
    enum nb_mask mask;
    unsigned mask_register, mask_lanes;
} x86[] = {
    {"\x62\xf1\x6c\xc9\x58\x08", "vaddps zmm1{k1}{z},zmm2,ZMMWORD PTR [rax]", NB_CLASS_ADD, 16, 1,
     64, 0, NB_MASK_OPMASK, 1, 16},
    {"\x62\xf1\x6c\x59\x58\x08", "vaddps zmm1{k1},zmm2,DWORD BCST [rax]", NB_CLASS_ADD, 16, 1, 4, 0,
     NB_MASK_OPMASK, 1, 16},
    {"\x62\xf1\x7c\x49\x11\x08", "vmovups ZMMWORD PTR [rax]{k1},zmm1", NB_CLASS_MOVE, 0, 0, 0, 64,
     NB_MASK_OPMASK, 1, 16},
    {"\x62\xf1\x7c\xca\x10\x08", "vmovups zmm1{k2}{z},ZMMWORD PTR [rax]", NB_CLASS_MOVE, 0, 0, 64,
     0, NB_MASK_OPMASK, 2, 16},
    {"\x62\xf1\x74\x4a\xc2\x08\x01", "vcmpltps k1{k2},zmm1,ZMMWORD PTR [rax]", NB_CLASS_FP, 0, 0,
     64, 0, NB_MASK_OPMASK, 2, 16},
    {"\x62\xf3\x7d\x49\x1d\x08\x00", "vcvtps2ph YMMWORD PTR [rax]{k1},zmm1,0x0", NB_CLASS_CONVERT,
     0, 0, 0, 32, NB_MASK_OPMASK, 1, 16},
    {"\x62\xf2\x7e\x49\x33\x08", "vpmovdw YMMWORD PTR [rax]{k1},zmm1", NB_CLASS_SHUFFLE, 0, 0, 0,
     32, NB_MASK_OPMASK, 1, 16},
    {"\x62\xf2\x7d\xc9\x33\x08", "vpmovzxwd zmm1{k1}{z},YMMWORD PTR [rax]", NB_CLASS_SHUFFLE, 0, 0,
     32, 0, NB_MASK_OPMASK, 1, 16},
    {"\x62\xf1\xff\xa9\x6f\x08", "vmovdqu16 ymm1{k1}{z},YMMWORD PTR [rax]", NB_CLASS_MOVE, 0, 0, 32,
     0, NB_MASK_OPMASK, 1, 16},
    {"\xc5\xfa\x10\x08", "vmovss xmm1,DWORD PTR [rax]", NB_CLASS_MOVE, 0, 0, 4, 0, NB_MASK_NONE, 0,
     0},
    {"\xc4\xe2\x6d\x2c\x08", "vmaskmovps ymm1,ymm2,YMMWORD PTR [rax]", NB_CLASS_MOVE, 0, 0, 32, 0,
     NB_MASK_VECTOR, 2, 8},
    {"\xc4\xe2\x6d\x2e\x08", "vmaskmovps YMMWORD PTR [rax],ymm2,ymm1", NB_CLASS_MOVE, 0, 0, 0, 32,
     NB_MASK_VECTOR, 2, 8},
    {"\xc4\xe2\x6d\x8c\x08", "vpmaskmovd ymm1,ymm2,YMMWORD PTR [rax]", NB_CLASS_MOVE, 0, 0, 32, 0,
     NB_MASK_VECTOR, 2, 8},
    {"\xc4\xe2\x65\x92\x0c\x90", "vgatherdps ymm1,DWORD PTR [rax+ymm2*4],ymm3", NB_CLASS_MOVE, 0, 0,
     32, 0, NB_MASK_VECTOR, 3, 8},
    {"\x62\xf2\x7d\x49\x92\x0c\x90", "vgatherdps zmm1{k1},DWORD PTR [rax+zmm2*4]", NB_CLASS_MOVE, 0,
     0, 64, 0, NB_MASK_OPMASK, 1, 16},
    {"\x0f\x18\x08", "prefetcht0 BYTE PTR [rax]", NB_CLASS_OTHER, 0, 0, 0, 0, NB_MASK_NONE, 0, 0},
    {"\x0f\x0d\x08", "prefetchw BYTE PTR [rax]", NB_CLASS_OTHER, 0, 0, 0, 0, NB_MASK_NONE, 0, 0},
    {"\xf3\xa4", "rep movs BYTE PTR es:[rdi],BYTE PTR ds:[rsi]", NB_CLASS_MOVE, 0, 0, 1, 1,
     NB_MASK_REPEAT, 0, 0},
    {"\xf3\x48\xab", "rep stos QWORD PTR es:[rdi],rax", NB_CLASS_MOVE, 0, 0, 0, 8, NB_MASK_REPEAT,
     0, 0},
    {"\x50", "push rax", NB_CLASS_MOVE, 0, 0, 0, 8, NB_MASK_NONE, 0, 0},
    {"\xc3", "ret", NB_CLASS_BRANCH, 0, 0, 8, 0, NB_MASK_NONE, 0, 0},
    {"\xff\xd0", "call rax", NB_CLASS_BRANCH, 0, 0, 0, 8, NB_MASK_NONE, 0, 0},
    {"\x62\xf2\x6e\x49\x52\x08", "vdpbf16ps zmm1{k1},zmm2,ZMMWORD PTR [rax]", NB_CLASS_FMA, 16, 4,
     64, 0, NB_MASK_OPMASK, 1, 16},
    {"\xc5\xef\x7c\xcb", "vhaddps ymm1,ymm2,ymm3", NB_CLASS_ADD, 8, 1, 0, 0, NB_MASK_NONE, 0, 0},
    {"\x62\xf2\x6d\x59\xb8\x08", "vfmadd231ps zmm1{k1},zmm2,DWORD BCST [rax]", NB_CLASS_FMA, 16, 2,
     4, 0, NB_MASK_OPMASK, 1, 16},
    {"\x62\xf2\x7d\x49\x1a\x08", "vbroadcastf32x4 zmm1{k1},XMMWORD PTR [rax]", NB_CLASS_SHUFFLE, 0,
     0, 16, 0, NB_MASK_OPMASK, 1, 16},
    {"\x62\xf2\x7d\x48\x18\x08", "vbroadcastss zmm1,DWORD PTR [rax]", NB_CLASS_SHUFFLE, 0, 0, 4, 0,
     NB_MASK_NONE, 0, 0},
    {"\x62\xf1\x7c\x48\x2b\x08", "vmovntps ZMMWORD PTR [rax],zmm1", NB_CLASS_MOVE, 0, 0, 0, 64,
     NB_MASK_NONE, 0, 0},
    {"\xc5\xf8\x77", "vzeroupper", NB_CLASS_OTHER, 0, 0, 0, 0, NB_MASK_NONE, 0, 0},
    {"\x48\x8d\x43\x04", "lea rax,[rbx+0x4]", NB_CLASS_INTEGER, 0, 0, 0, 0, NB_MASK_NONE, 0, 0},
    {"\x66\x0f\x1f\x04\x00", "nop WORD PTR [rax+rax*1]", NB_CLASS_OTHER, 0, 0, 0, 0, NB_MASK_NONE,
     0, 0},
    {"\xd8\xc1", "fadd st,st(1)", NB_CLASS_ADD, 1, 1, 0, 0, NB_MASK_NONE, 0, 0},
    {"\xdb\x28", "fld TBYTE PTR [rax]", NB_CLASS_MOVE, 0, 0, 10, 0, NB_MASK_NONE, 0, 0},
    {"\x62\xf1\x75\x48\x72\xe2\x10", "vpsrad zmm1,zmm2,0x10", NB_CLASS_INTEGER, 0, 0, 0, 0,
     NB_MASK_NONE, 0, 0},
    {"\x62\xf2\x75\x48\x27\xca", "vptestmd k1,zmm1,zmm2", NB_CLASS_LOGIC, 0, 0, 0, 0, NB_MASK_NONE,
     0, 0},
    {"\x62\xf3\x6d\x48\x25\xcb\x05", "vpternlogd zmm1,zmm2,zmm3,0x5", NB_CLASS_LOGIC, 0, 0, 0, 0,
     NB_MASK_NONE, 0, 0},
    {"\x62\xf2\x6f\x48\x72\xcb", "vcvtne2ps2bf16 zmm1,zmm2,zmm3", NB_CLASS_CONVERT, 0, 0, 0, 0,
     NB_MASK_NONE, 0, 0},
    {"\x62\xf2\x7d\x49\x8a\x08", "vcompressps ZMMWORD PTR [rax]{k1},zmm1", NB_CLASS_SHUFFLE, 0, 0,
     0, 64, NB_MASK_OPMASK, 1, 16},
    {"\xc5\xfc\x50\xc1", "vmovmskps eax,ymm1", NB_CLASS_MASK, 0, 0, 0, 0, NB_MASK_NONE, 0, 0},
    {"\xc5\xed\x76\xcb", "vpcmpeqd ymm1,ymm2,ymm3", NB_CLASS_INTEGER, 0, 0, 0, 0, NB_MASK_NONE, 0,
     0},
    {"\x62\xf1\x6d\x48\x66\xcb", "vpcmpgtd k1,zmm2,zmm3", NB_CLASS_INTEGER, 0, 0, 0, 0,
     NB_MASK_NONE, 0, 0},
    {"\x48\x0f\x45\xc3", "cmovne rax,rbx", NB_CLASS_MOVE, 0, 0, 0, 0, NB_MASK_NONE, 0, 0},
    {"\xc5\xf8\x92\xc8", "kmovw k1,eax", NB_CLASS_MASK, 0, 0, 0, 0, NB_MASK_NONE, 0, 0},
    {"\xc4\xe3\x6d\x18\x08\x01", "vinsertf128 ymm1,ymm2,XMMWORD PTR [rax],0x1", NB_CLASS_SHUFFLE, 0,
     0, 16, 0, NB_MASK_NONE, 0, 0},
    {"\xc5\xf2\x51\xca", "vsqrtss xmm1,xmm1,xmm2", NB_CLASS_SQRT, 1, 1, 0, 0, NB_MASK_NONE, 0, 0},
    {"\x62\xf2\x7d\x48\x4c\xca", "vrcp14ps zmm1,zmm2", NB_CLASS_FP, 0, 0, 0, 0, NB_MASK_NONE, 0, 0},
    {"\xf0\x0f\xc1\x18", "lock xadd DWORD PTR [rax],ebx", NB_CLASS_INTEGER, 0, 0, 4, 4,
     NB_MASK_NONE, 0, 0},
    {"\x66\x0f\xf7\xca", "maskmovdqu xmm1,xmm2", NB_CLASS_MOVE, 0, 0, 0, 16, NB_MASK_VECTOR, 2, 16},
    {"\x0f\x01\xd0", "xgetbv", NB_CLASS_OTHER, 0, 0, 0, 0, NB_MASK_NONE, 0, 0},
    {"\xc5\xeb\xd0\xcb", "vaddsubps xmm1,xmm2,xmm3", NB_CLASS_ADD, 4, 1, 0, 0, NB_MASK_NONE, 0, 0},
    {"\xc4\xe3\x69\x40\xcb\x01", "vdpps xmm1,xmm2,xmm3,0x1", NB_CLASS_FMA, 4, 2, 0, 0, NB_MASK_NONE,
     0, 0},
    {"\xf3\x0f\x1e\xfa", "endbr64", NB_CLASS_OTHER, 0, 0, 0, 0, NB_MASK_NONE, 0, 0},
    {"\x0f\xbd\xc3", "bsr eax,ebx", NB_CLASS_INTEGER, 0, 0, 0, 0, NB_MASK_NONE, 0, 0},
    {"\x48\x99", "cqo", NB_CLASS_INTEGER, 0, 0, 0, 0, NB_MASK_NONE, 0, 0},
    {"\x62\xf2\x7d\x49\x1e\x08", "vpabsd zmm1{k1},ZMMWORD PTR [rax]", NB_CLASS_INTEGER, 0, 0, 64, 0,
     NB_MASK_OPMASK, 1, 16},
    {"\x62\xf2\x7d\xc9\x18\x08", "vbroadcastss zmm1{k1}{z},DWORD PTR [rax]", NB_CLASS_SHUFFLE, 0, 0,
     4, 0, NB_MASK_OPMASK, 1, 16},
    {"\x62\xf1\x7e\x89\x10\x08", "vmovss xmm1{k1}{z},DWORD PTR [rax]", NB_CLASS_MOVE, 0, 0, 4, 0,
     NB_MASK_OPMASK, 1, 1},
    {"\x62\xf1\x6e\x09\x58\x08", "vaddss xmm1{k1},xmm2,DWORD PTR [rax]", NB_CLASS_ADD, 1, 1, 4, 0,
     NB_MASK_OPMASK, 1, 1},
    {"\x62\xf2\x7d\x49\xa2\x1c\x90", "vscatterdps DWORD PTR [rax+zmm2*4]{k1},zmm3", NB_CLASS_MOVE,
     0, 0, 0, 64, NB_MASK_OPMASK, 1, 16},
    {"\xc9", "leave", NB_CLASS_MOVE, 0, 0, 8, 0, NB_MASK_NONE, 0, 0},
    {"\xd9\xc1", "fld st(1)", NB_CLASS_MOVE, 0, 0, 0, 0, NB_MASK_NONE, 0, 0},
    {"\xdb\x00", "fild DWORD PTR [rax]", NB_CLASS_CONVERT, 0, 0, 4, 0, NB_MASK_NONE, 0, 0},
    {"\x62\xf2\x7e\x4a\x31\x08", "vpmovdb XMMWORD PTR [rax]{k2},zmm1", NB_CLASS_SHUFFLE, 0, 0, 0,
     16, NB_MASK_OPMASK, 2, 16},
    {"\x62\xf1\x6c\x48\x5d\xcb", "vminps zmm1,zmm2,zmm3", NB_CLASS_FP, 0, 0, 0, 0, NB_MASK_NONE, 0,
     0},
    {"\x62\xf2\x6d\x48\x39\xcb", "vpminsd zmm1,zmm2,zmm3", NB_CLASS_INTEGER, 0, 0, 0, 0,
     NB_MASK_NONE, 0, 0},
    {"\xf3\x0f\x58\x08", "addss xmm1,DWORD PTR [rax]", NB_CLASS_ADD, 1, 1, 4, 0, NB_MASK_NONE, 0,
     0},
    {"\x03\x00", "add eax,DWORD PTR [rax]", NB_CLASS_INTEGER, 0, 0, 4, 0, NB_MASK_NONE, 0, 0},
    {"\x01\x00", "add DWORD PTR [rax],eax", NB_CLASS_INTEGER, 0, 0, 4, 4, NB_MASK_NONE, 0, 0},
    {"\xff\x00", "inc DWORD PTR [rax]", NB_CLASS_INTEGER, 0, 0, 4, 4, NB_MASK_NONE, 0, 0},
    {"\x83\x38\x03", "cmp DWORD PTR [rax],0x3", NB_CLASS_INTEGER, 0, 0, 4, 0, NB_MASK_NONE, 0, 0},
    {"\xc4\xe2\xe9\x99\xcb", "vfmadd132sd xmm1,xmm2,xmm3", NB_CLASS_FMA, 1, 2, 0, 0, NB_MASK_NONE,
     0, 0},
    {"\x62\xf5\x6c\x48\x59\xcb", "vmulph zmm1,zmm2,zmm3", NB_CLASS_MUL, 32, 1, 0, 0, NB_MASK_NONE,
     0, 0},
    {"\xc5\xed\x58\xcb", "vaddpd ymm1,ymm2,ymm3", NB_CLASS_ADD, 4, 1, 0, 0, NB_MASK_NONE, 0, 0},
    {"\x0f\xae\xf8", "sfence", NB_CLASS_OTHER, 0, 0, 0, 0, NB_MASK_NONE, 0, 0},
};

static void decodes_x86(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof x86 / sizeof x86[0]; i++) {
        const struct x86 *t = &x86[i];
        uint8_t bytes[NB_INSTRUCTION_BYTES] = {0};
        nb_instruction n = {0};
        /* A displacement of 0 ends the text early: it is padded with zeros. */
        memcpy(bytes, t->bytes, strlen(t->bytes));
        const bool known = nb_decode_x86(bytes, sizeof bytes, &n);
        if (!known || n.class != t->class || n.lanes != t->lanes || n.flops != t->flops ||
            n.load_bytes != t->load_bytes || n.store_bytes != t->store_bytes || n.mask != t->mask ||
            n.mask_register != t->mask_register || n.mask_lanes != t->mask_lanes)
            fail_msg("%s: known %d, %s, lanes %d x %d, loads %d, stores %d, mask %d %d of %d",
                     t->text, known, nb_class_names[n.class], n.lanes, n.flops, n.load_bytes,
                     n.store_bytes, n.mask, n.mask_register, n.mask_lanes);
    }
}
#endif

static void masks_decide_what_counts(void **state)
{
    (void)state;
    nb_counts counts = {0};
    const nb_instruction load = {.class = NB_CLASS_FMA,
                                 .lanes = 16,
                                 .flops = 2,
                                 .load_bytes = 64,
                                 .mask = NB_MASK_OPMASK,
                                 .mask_lanes = 16};
    nb_counts_add(&counts, &load, 3);
    assert_int_equal(counts.lanes, 3);
    assert_int_equal(counts.flops, 6);
    assert_int_equal(counts.loads, 1);
    assert_int_equal(counts.load_bytes, 12);
    nb_counts_add(&counts, &load, 0); /* executed, but reads nothing */
    assert_int_equal(counts.instructions, 2);
    assert_int_equal(counts.classes[NB_CLASS_FMA], 2);
    assert_int_equal(counts.loads, 1);
    nb_instruction broadcast = load;
    broadcast.load_bytes = 4;
    broadcast.mask_moves_whole = true;
    nb_counts_add(&counts, &broadcast, 5);
    assert_int_equal(counts.load_bytes, 16);
    const nb_instruction copy = {
        .class = NB_CLASS_MOVE, .load_bytes = 8, .store_bytes = 8, .mask = NB_MASK_REPEAT};
    nb_counts_add(&counts, &copy, 1);
    nb_counts_add_iteration(&counts, &copy);
    assert_int_equal(counts.instructions, 4);
    assert_int_equal(counts.load_bytes, 32);
    assert_int_equal(counts.store_bytes, 16);
}

/* ---- Baselines ---------------------------------------------------------- */

#define HEADER                                                                                     \
    "provider,build,caches,kernel,algorithm,dtype,isa,rows,hidden,instructions,fp_add\r\n"
#define ROW(instructions)                                                                          \
    "\"p\",\"gcc, 12\",\"L1\",\"k\",\"a\",\"f32\",\"i\",8,768," instructions ",1\r\n"

static int read_text(const char *text, nb_baseline *baseline, char message[512])
{
    char path[] = "/tmp/normbench-baseline-XXXXXX", log[] = "/tmp/normbench-message-XXXXXX";
    const int file = mkstemp(path), errors = mkstemp(log), kept = dup(STDERR_FILENO);
    assert_true(file >= 0 && errors >= 0 && kept >= 0);
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    dup2(errors, STDERR_FILENO);
    const int status = nb_baseline_read(path, baseline);
    dup2(kept, STDERR_FILENO);
    const ssize_t length = pread(errors, message, 511, 0);
    message[length < 0 ? 0 : length] = '\0';
    close(file);
    close(errors);
    close(kept);
    unlink(path);
    unlink(log);
    return status;
}

static void baselines_are_read(void **state)
{
    (void)state;
    nb_baseline b;
    char message[512];
    assert_int_equal(read_text(HEADER ROW("18446744073709551615"), &b, message), NB_OK);
    assert_int_equal(b.count, 1);
    assert_true(b.items[0].instructions == UINT64_MAX);
    assert_string_equal(b.items[0].build, "gcc, 12");
    assert_int_equal(b.items[0].hidden, 768);
    nb_baseline_free(&b);
}

static void broken_baselines_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", ":1: the file is empty"},
        {HEADER, ":1: a header and no rows"},
        {"a,b\n1,2\n", ":1: there is no column 'provider'"},
        {HEADER ROW("0"), ":2: column 10 (instructions): '0'"},
        {HEADER ROW("-5"), ":2: column 10 (instructions): '-5'"},
        {HEADER ROW("NaN"), ":2: column 10 (instructions): 'NaN'"},
        {HEADER ROW(""), ":2: column 10 (instructions): ''"},
        {HEADER ROW("abc"), ":2: column 10 (instructions): 'abc'"},
        {HEADER ROW("1e400"), ":2: column 10 (instructions): '1e400'"},
        {HEADER ROW("1.5"), ":2: column 10 (instructions): '1.5'"},
        {HEADER ROW("18446744073709551616"), ":2: column 10"},
        {HEADER ROW("7") ROW("7"), ":3: the same kernel and shape as in line 2"},
        {HEADER ROW("7") "\"p\",\"gcc", ":3: a quote is not closed"},
        {HEADER ROW("7") "p,g,c,k,a,f32,i,9,768,70", ":3: the line has no end"},
        {HEADER "p,g,c,k\n", ":2: 4 fields, the header has 11"},
        {HEADER "\"p\"x,g\n", ":2: text behind a closed quote"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        nb_baseline b;
        char message[512];
        const int status = read_text(cases[i].text, &b, message);
        nb_baseline_free(&b);
        if (status != NB_USAGE || !strstr(message, cases[i].message))
            fail_msg("%s: status %d, said: %s", cases[i].text, status, message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes_a64),
        cmocka_unit_test(a64_follows_calls),
        cmocka_unit_test(refuses_what_it_does_not_know),
#if defined(__x86_64__)
        cmocka_unit_test(decodes_x86),
#endif
        cmocka_unit_test(masks_decide_what_counts),
        cmocka_unit_test(baselines_are_read),
        cmocka_unit_test(broken_baselines_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
