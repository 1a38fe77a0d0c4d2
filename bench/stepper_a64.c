/* SPDX-License-Identifier: Apache-2.0 */
#include "stepper.h"

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

static bool registers(int request, pid_t process, struct user_regs_struct *r)
{
    struct iovec vector = {r, sizeof *r};
    return ptrace(request, process, (void *)NT_PRSTATUS, &vector) == 0;
}

bool nb_stepper_call(pid_t process, uint64_t function, uint64_t argument, uint64_t landing)
{
    struct user_regs_struct r;
    if (!registers(PTRACE_GETREGSET, process, &r))
        return false;
    r.sp &= ~UINT64_C(4095); /* memcpy takes other ways for other places */
    r.pc = function;
    r.regs[0] = argument;
    r.regs[30] = landing;
    return registers(PTRACE_SETREGSET, process, &r);
}

uint64_t nb_stepper_place(pid_t process)
{
    struct user_regs_struct r;
    return registers(PTRACE_GETREGSET, process, &r) ? r.pc : 0;
}

int nb_stepper_result(pid_t process)
{
    struct user_regs_struct r;
    return registers(PTRACE_GETREGSET, process, &r) ? (int)(uint32_t)r.regs[0] : -1;
}

/* Advanced SIMD has no masks. */
int nb_stepper_active(pid_t process, const nb_instruction *instruction)
{
    (void)process;
    (void)instruction;
    return 0;
}
