/* SPDX-License-Identifier: Apache-2.0 */
/* The end of every unit (one op, algorithm and ISA): an entry for each dtype
 * around the op's run(), and the table of them, the unit's only symbol. */
#define NK_JOIN_(a, b, c, d) a##b##c##d
#define NK_JOIN(a, b, c, d) NK_JOIN_(a, b, c, d)

#define NK_DTYPE(name, constant, type, bytes, digits)                                              \
    static nk_status NK_JOIN(nk_, NK_KERNEL_NAME, _##name##_, NK_ISA_NAME)(const nk_args *args)    \
    {                                                                                              \
        nk_args a;                                                                                 \
        const nk_status status = nk_args_check(NK_OP_INDEX, constant, VEC_STREAMS, args, &a);      \
        if (status == NK_OK && a.rows != 0 && a.hidden != 0)                                       \
            run(&a, constant);                                                                     \
        return status;                                                                             \
    }
#include "../dtype.def"

extern const nk_function NK_JOIN(nk_unit_, NK_KERNEL_NAME, _, NK_ISA_NAME)[NK_DTYPES];
const nk_function NK_JOIN(nk_unit_, NK_KERNEL_NAME, _, NK_ISA_NAME)[NK_DTYPES] = {
#define NK_DTYPE(name, constant, type, bytes, digits)                                              \
    [constant] = NK_JOIN(nk_, NK_KERNEL_NAME, _##name##_, NK_ISA_NAME),
#include "../dtype.def"
};
