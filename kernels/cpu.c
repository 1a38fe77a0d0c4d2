/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu.h"
#include "catalog.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined __x86_64__
#include <cpuid.h>
#elif defined __aarch64__
#include <sys/auxv.h>
#endif

/* Bits of CPUID and XCR0 (Intel SDM volume 2, CPUID; volume 1, 13.3). */
enum { LEAF1_FMA = 1 << 12, LEAF1_OSXSAVE = 1 << 27, LEAF1_AVX = 1 << 28, LEAF1_F16C = 1 << 29 };
enum { LEAF7_AVX2 = 1 << 5, LEAF7_AVX512F = 1 << 16, LEAF7_AVX512DQ = 1 << 17 };
enum { LEAF7_AVX512BW = 1 << 30, LEAF7_1_AVX512_BF16 = 1 << 5 };
static const uint32_t LEAF7_AVX512VL = 1u << 31;
enum { XCR0_YMM = 0x06, XCR0_ZMM = 0xE6 };

uint32_t nk_features_x86(const nk_cpuid *c)
{
    const int ymm = (c->leaf1_ecx & LEAF1_OSXSAVE) && (c->leaf1_ecx & LEAF1_AVX) &&
                    (c->xcr0 & XCR0_YMM) == XCR0_YMM;
    if (!ymm)
        return 0;
    uint32_t features = 0;
    features |= c->leaf1_ecx & LEAF1_FMA ? NK_FEATURE_FMA : 0;
    features |= c->leaf1_ecx & LEAF1_F16C ? NK_FEATURE_F16C : 0;
    if (c->max_leaf < 7)
        return features;
    features |= c->leaf7_ebx & LEAF7_AVX2 ? NK_FEATURE_AVX2 : 0;
    if ((c->xcr0 & XCR0_ZMM) != XCR0_ZMM || !(c->leaf7_ebx & LEAF7_AVX512F))
        return features;
    features |= NK_FEATURE_AVX512F;
    features |= c->leaf7_ebx & LEAF7_AVX512BW ? NK_FEATURE_AVX512BW : 0;
    features |= c->leaf7_ebx & LEAF7_AVX512DQ ? NK_FEATURE_AVX512DQ : 0;
    features |= c->leaf7_ebx & LEAF7_AVX512VL ? NK_FEATURE_AVX512VL : 0;
    features |= c->leaf7_1_eax & LEAF7_1_AVX512_BF16 ? NK_FEATURE_AVX512_BF16 : 0;
    return features;
}

uint32_t nk_features_aarch64(uint64_t hwcap)
{
    enum { HWCAP_ASIMD_BIT = 1 << 1 }; /* Linux, arch/arm64 hwcap.h */
    return hwcap & HWCAP_ASIMD_BIT ? NK_FEATURE_ASIMD : 0;
}

bool nk_overlaps_x86(const char vendor[12])
{
    return memcmp(vendor, "GenuineIntel", 12) == 0;
}

uint32_t nk_features_of_use(uint32_t features, bool overlaps)
{
    return overlaps ? features & ~(uint32_t)NK_FEATURE_AVX512_BF16 : features;
}

size_t nk_llc_of_use(size_t llc_bytes, size_t l2_bytes, bool overlaps)
{
    const size_t most = overlaps && l2_bytes ? 32 * l2_bytes : llc_bytes;
    return llc_bytes < most ? llc_bytes : most;
}

#if defined __x86_64__
static uint64_t read_xcr0(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static uint32_t detect(void)
{
    nk_cpuid c = {0};
    uint32_t a, b, ecx, d;
    c.max_leaf = (uint32_t)__get_cpuid_max(0, NULL);
    if (__get_cpuid(1, &a, &b, &ecx, &d))
        c.leaf1_ecx = ecx;
    if (__get_cpuid_count(7, 0, &a, &b, &ecx, &d)) {
        c.leaf7_ebx = b;
        if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &ecx, &d))
            c.leaf7_1_eax = a;
    }
    c.xcr0 = c.leaf1_ecx & LEAF1_OSXSAVE ? read_xcr0() : 0;
    return nk_features_x86(&c);
}

static bool detect_overlaps(void)
{
    uint32_t a, vendor[3];
    return __get_cpuid(0, &a, &vendor[0], &vendor[2], &vendor[1]) &&
           nk_overlaps_x86((const char *)vendor);
}
#elif defined __aarch64__
static uint32_t detect(void)
{
    return nk_features_aarch64(getauxval(AT_HWCAP));
}

static bool detect_overlaps(void)
{
    return false; /* not measured */
}
#else
static uint32_t detect(void)
{
    return 0;
}

static bool detect_overlaps(void)
{
    return false;
}
#endif

const char *nk_isa_missing(int isa, uint32_t features)
{
    static const struct {
        int isa;
        uint32_t feature;
        const char *text;
    } needs[] = {
#if defined __aarch64__
        {NK_ISA_avx2, UINT32_MAX, "AVX2 is not an AArch64 feature"},
        {NK_ISA_avx512, UINT32_MAX, "AVX-512 is not an AArch64 feature"},
#else
        {NK_ISA_neon, UINT32_MAX, "NEON is not an x86-64 feature"},
#endif
        {NK_ISA_avx2, NK_FEATURE_AVX2, "the CPU or the operating system lacks AVX2"},
        {NK_ISA_avx2, NK_FEATURE_FMA, "the CPU or the operating system lacks FMA"},
        {NK_ISA_avx2, NK_FEATURE_F16C, "the CPU or the operating system lacks F16C"},
        {NK_ISA_avx512, NK_FEATURE_AVX2, "the CPU or the operating system lacks AVX2"},
        {NK_ISA_avx512, NK_FEATURE_FMA, "the CPU or the operating system lacks FMA"},
        {NK_ISA_avx512, NK_FEATURE_F16C, "the CPU or the operating system lacks F16C"},
        {NK_ISA_avx512, NK_FEATURE_AVX512F, "the CPU or the operating system lacks AVX512F"},
        {NK_ISA_avx512, NK_FEATURE_AVX512BW, "the CPU or the operating system lacks AVX512BW"},
        {NK_ISA_avx512, NK_FEATURE_AVX512DQ, "the CPU or the operating system lacks AVX512DQ"},
        {NK_ISA_avx512, NK_FEATURE_AVX512VL, "the CPU or the operating system lacks AVX512VL"},
        {NK_ISA_neon, NK_FEATURE_ASIMD, "the CPU lacks ASIMD"},
    };
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++)
        if (needs[i].isa == isa && (features & needs[i].feature) != needs[i].feature)
            return needs[i].text;
    return NULL;
}

/* ---- this machine --------------------------------------------------------- */

static nk_machine_info machine;
static int restricted_to = -1;
static char isa_error_text[256];

/* The ISAs that this build has units of, a bit each. */
static const uint32_t built = 0
#define NK_UNIT(op, algorithm, name, isa, feature) | UINT32_C(1) << NK_ISA_##isa
#include "units.def"
    ;

static const char *lacking(int isa)
{
    const char *missing = nk_isa_missing(isa, machine.features);
    return missing ? missing : built >> isa & 1 ? NULL : "not in this build";
}

static size_t cache_bytes(int name)
{
    const long bytes = sysconf(name);
    return bytes > 0 ? (size_t)bytes : 0;
}

static void find_caches(void)
{
    machine.l1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE);
    machine.l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE);
    machine.llc_bytes = cache_bytes(_SC_LEVEL3_CACHE_SIZE);
#if defined __x86_64__
    /* sysconf multiplies by the cores of the socket in some virtual machines;
     * CPUID names each cache: Intel in leaf 4, AMD in 0x8000001D, alike. */
    uint32_t a, b, c, d;
    const int amd = __get_cpuid(0x80000001, &a, &b, &c, &d) && c >> 22 & 1;
    for (uint32_t i = 0; __get_cpuid_count(amd ? 0x8000001D : 4, i, &a, &b, &c, &d); i++) {
        const uint32_t type = a & 31, level = a >> 5 & 7;
        if (type == 0)
            break;
        const size_t bytes =
            (size_t)((b >> 22) + 1) * ((b >> 12 & 1023) + 1) * ((b & 4095) + 1) * ((size_t)c + 1);
        if (type != 2) /* not an instruction cache */
            *(level == 1   ? &machine.l1_bytes
              : level == 2 ? &machine.l2_bytes
                           : &machine.llc_bytes) = bytes;
    }
#endif
    if (!machine.llc_bytes)
        machine.llc_bytes = machine.l2_bytes;
}

static void refuse_isa(const char *wanted)
{
    int n =
        snprintf(isa_error_text, sizeof isa_error_text,
                 "NORMKERNELS_ISA=%.32s: not an instruction set that runs here; there is", wanted);
    for (int i = 0; i < NK_ISAS; i++)
        if (!lacking(i) && n < (int)sizeof isa_error_text)
            n += snprintf(isa_error_text + n, sizeof isa_error_text - (size_t)n, " %s",
                          nk_isas[i].name);
    machine.isa_error = isa_error_text;
}

/* What is done elsewhere can then be seen on a CPU that does otherwise. */
static void leave_out(const char *wanted)
{
    if (strcmp(wanted, "avx512_bf16") == 0) {
        machine.features &= ~(uint32_t)NK_FEATURE_AVX512_BF16;
    } else if (strcmp(wanted, "overlap") == 0) {
        machine.overlaps = false;
    } else {
        snprintf(isa_error_text, sizeof isa_error_text,
                 "NORMKERNELS_WITHOUT=%.32s: cannot be left out; there is avx512_bf16 and overlap",
                 wanted);
        machine.isa_error = isa_error_text;
    }
}

static void find_machine(void)
{
    machine.features = detect();
    machine.overlaps = detect_overlaps();
    find_caches();
    const char *without = getenv("NORMKERNELS_WITHOUT");
    if (without)
        leave_out(without);
    machine.features = nk_features_of_use(machine.features, machine.overlaps);
    for (int i = 0; i < NK_ISAS; i++)
        if (!lacking(i))
            machine.isa = i;
    const char *wanted = getenv("NORMKERNELS_ISA");
    if (!wanted)
        return;
    const int isa = nk_isa_index(wanted);
    if (isa < 0 || lacking(isa)) {
        refuse_isa(wanted);
    } else {
        machine.isa = isa;
        restricted_to = isa;
    }
}

const nk_machine_info *nk_machine_found;

const nk_machine_info *nk_find_machine(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_machine);
    __atomic_store_n(&nk_machine_found, &machine, __ATOMIC_RELEASE);
    return &machine;
}

const char *nk_isa_lacking(int isa)
{
    nk_machine();
    return lacking(isa);
}

int nk_isa_restricted(int isa)
{
    nk_machine();
    return restricted_to >= 0 && isa != restricted_to;
}
