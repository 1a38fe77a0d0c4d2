/* SPDX-License-Identifier: Apache-2.0 */
#include "stepper.h"

#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

/* What the caller's frame may have below its stack pointer; and where in a page
 * the stack begins: memcpy takes other ways for other places. */
enum { RED_ZONE = 128, PAGE = 4096 };

bool nb_stepper_call(pid_t process, uint64_t function, uint64_t argument, uint64_t landing)
{
    struct user_regs_struct r;
    if (ptrace(PTRACE_GETREGS, process, NULL, &r) != 0)
        return false;
    r.rsp = ((r.rsp - RED_ZONE) & ~(uint64_t)(PAGE - 1)) - 8;
    r.rip = function;
    r.rdi = argument;
    r.orig_rax = ~UINT64_C(0); /* no system call to be started again */
    return ptrace(PTRACE_POKEDATA, process, (void *)r.rsp, (void *)landing) == 0 &&
           ptrace(PTRACE_SETREGS, process, NULL, &r) == 0;
}

static uint64_t peek(pid_t process, size_t offset)
{
    return (uint64_t)ptrace(PTRACE_PEEKUSER, process, (void *)offset, NULL);
}

uint64_t nb_stepper_place(pid_t process)
{
    const uint64_t place = peek(process, offsetof(struct user, regs.rip));
    return place == UINT64_MAX ? 0 : place;
}

int nb_stepper_result(pid_t process)
{
    return (int)(uint32_t)peek(process, offsetof(struct user, regs.rax));
}

/* ---- Masks -------------------------------------------------------------- */

/* The XSAVE area, as PTRACE_GETREGSET gives it: the standard format, whose
 * parts lie where CPUID says. A part whose bit in XSTATE_BV is not set is all
 * zeros. (Intel SDM volume 1, 13.4) */
enum { XMM = 160, XSTATE_BV = 512, PART_YMM = 2, PART_OPMASK = 5, XSTATE_BYTES = 16384 };

static size_t part_offset(unsigned part)
{
    unsigned size, offset = 0, c, d;
    return __get_cpuid_count(0xd, part, &size, &offset, &c, &d) ? offset : 0;
}

static const uint8_t *part(const uint8_t *area, unsigned number)
{
    uint64_t present;
    memcpy(&present, area + XSTATE_BV, sizeof present);
    const size_t offset = part_offset(number);
    return present >> number & 1 && offset ? area + offset : NULL;
}

static int active_opmask(const uint8_t *area, const nb_instruction *instruction)
{
    const uint8_t *opmask = part(area, PART_OPMASK);
    uint64_t k = 0;
    if (opmask)
        memcpy(&k, opmask + 8 * instruction->mask_register, sizeof k);
    if (instruction->mask_lanes < 64)
        k &= (UINT64_C(1) << instruction->mask_lanes) - 1;
    return __builtin_popcountll(k);
}

static int active_vector(const uint8_t *area, const nb_instruction *instruction)
{
    const uint8_t *high = part(area, PART_YMM);
    const uint8_t *low = area + XMM;
    int active = 0;
    for (unsigned i = 0; i < instruction->mask_lanes; i++) {
        const unsigned byte = (i + 1) * instruction->mask_element_bytes - 1;
        const uint8_t *half = byte < 16 ? low : high;
        active += half && half[16 * instruction->mask_register + byte % 16] >> 7;
    }
    return active;
}

int nb_stepper_active(pid_t process, const nb_instruction *instruction)
{
    static uint8_t area[XSTATE_BYTES];
    struct iovec vector = {area, sizeof area};
    if (instruction->mask == NB_MASK_REPEAT)
        return peek(process, offsetof(struct user, regs.rcx)) != 0;
    if (ptrace(PTRACE_GETREGSET, process, (void *)NT_X86_XSTATE, &vector) != 0)
        return -1;
    return instruction->mask == NB_MASK_OPMASK ? active_opmask(area, instruction)
                                               : active_vector(area, instruction);
}
