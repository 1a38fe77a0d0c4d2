/* SPDX-License-Identifier: Apache-2.0 */
/* What this CPU can do. Detection is a pure function of what the hardware
 * says, so that every kind of CPU can be tested on any. */
#ifndef NK_CPU_H
#define NK_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NK_FEATURE_AVX2 = 1, /* each of these only with the operating */
    NK_FEATURE_FMA = 2,  /* system's consent to its registers */
    NK_FEATURE_F16C = 4,
    NK_FEATURE_AVX512F = 8,
    NK_FEATURE_AVX512BW = 16,
    NK_FEATURE_AVX512DQ = 32,
    NK_FEATURE_AVX512VL = 64,
    NK_FEATURE_AVX512_BF16 = 128,
    NK_FEATURE_ASIMD = 256
};

/* The words of CPUID that matter; xcr0 is 0 where OSXSAVE is not set. */
typedef struct nk_cpuid {
    uint32_t max_leaf;
    uint32_t leaf1_ecx;
    uint32_t leaf7_ebx;
    uint32_t leaf7_1_eax; /* leaf 7, subleaf 1 */
    uint64_t xcr0;
} nk_cpuid;

uint32_t nk_features_x86(const nk_cpuid *cpuid);
uint32_t nk_features_aarch64(uint64_t hwcap);

/* Whether reading has to be overlapped with writing by the program, by the vendor's name
 * (leaf 0): rows read beside the one that is applied, and prefetches from memory for those
 * that are read next while these are written. On Intel (Ice Lake) a tenth to a fifth less
 * from L2 and a sixth to a quarter less from memory; on AMD (Zen 5) the hardware does better,
 * and it costs a tenth and a quarter. */
bool nk_overlaps_x86(const char vendor[12]);

/* The features that are of use there: Intel's conversion to bf16 (seen on an Emerald Rapids)
 * takes four operations' time, and the code in its place a sixth to a third less. */
uint32_t nk_features_of_use(uint32_t features, bool overlaps);

/* The bytes of a last-level cache, 0 if unknown, that are of use to a thread that writes: on
 * Intel no more than 32 times L2. A socket's cores share what is larger, and lines come no
 * faster from there than from memory: on an Emerald Rapids with 260 MB of it rmsnorm in f32
 * takes 3632 ticks a row cached and 2669 streamed where a call moves 67 MB, and 5095 and 3019
 * where it moves 134. */
size_t nk_llc_of_use(size_t llc_bytes, size_t l2_bytes, bool overlaps);

/* NULL if an ISA (NK_ISA_...) runs with these features, else what is missing. */
const char *nk_isa_missing(int isa, uint32_t features);

/* This machine, found once. Sizes are 0 where unknown. */
typedef struct nk_machine_info {
    uint32_t features; /* of use */
    size_t l1_bytes, l2_bytes, llc_bytes;
    bool overlaps;         /* see nk_overlaps_x86 */
    int isa;               /* the best of this build, or the one that NORMKERNELS_ISA names */
    const char *isa_error; /* NORMKERNELS_ISA is wrong */
} nk_machine_info;
extern const nk_machine_info *nk_machine_found;
const nk_machine_info *nk_find_machine(void);

static inline const nk_machine_info *nk_machine(void)
{
    const nk_machine_info *found = __atomic_load_n(&nk_machine_found, __ATOMIC_ACQUIRE);
    return found ? found : nk_find_machine();
}

/* NULL if an ISA runs here, else what this CPU or this build lacks for it. */
const char *nk_isa_lacking(int isa);
/* Whether NORMKERNELS_ISA leaves this ISA out. */
int nk_isa_restricted(int isa);

#endif
