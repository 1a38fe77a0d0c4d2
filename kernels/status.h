/* SPDX-License-Identifier: Apache-2.0 */
/* How a status names its fault: a plain one from status.def, or a kind of
 * fault and the operand that has it. */
#ifndef NK_STATUS_H
#define NK_STATUS_H

enum {
#define NK_PLAIN_STATUS(constant, text) constant,
#include "status.def"
    NK_PLAIN_STATUSES
};

enum {
    NK_STATUS_MISSING,
    NK_STATUS_NOT_TAKEN,
    NK_STATUS_STRIDE,
    NK_STATUS_OVERFLOW,
    NK_STATUS_KINDS
};
enum { NK_STATUS_KIND = 64 };
#define NK_STATUS_OF(kind, operand) (((kind) + 1) * NK_STATUS_KIND + (operand))

#endif
