/* SPDX-License-Identifier: MIT
 *
 * Which instruction set kernels are chosen for. The class comes from the feature bits
 * alone, never from the processor's name (cloud guests hide it) and never from timing
 * (contexts round differently, so a timed choice would break the equality of runs).
 * IPU_CPU_CLASS overrides it downwards: a class that this processor cannot execute
 * would end the process, so a request above what CPUID reports gives what it reports.
 * Asked for each kernel, and kept: CPUID takes tens of microseconds in a virtual
 * machine. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/core/kernel_impl.h"

enum { CLASS = 0xff, WIDE = 0x100, KNOWN = 0x200 }; /* what is kept */

#if defined(__x86_64__)
#include <cpuid.h>

static uint64_t
enabled_state(void)
{
    uint32_t low;
    uint32_t high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return ((uint64_t)high << 32) | low;
}

static ipu_cpu_class
reported_class(void)
{
    const uint32_t leaf1 = bit_FMA | bit_F16C | bit_OSXSAVE | bit_AVX;
    const uint32_t avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    uint32_t a;
    uint32_t b;
    uint32_t c;
    uint32_t d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & leaf1) != leaf1) {
        return IPU_CPU_GENERIC;
    }
    uint64_t state = enabled_state();
    if ((state & 0x06) != 0x06) { /* the kernel does not save ymm registers */
        return IPU_CPU_GENERIC;
    }
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & bit_AVX2) == 0) {
        return IPU_CPU_GENERIC;
    }
    if ((b & avx512) == avx512 && (state & 0xe6) == 0xe6) {
        return IPU_CPU_AVX512;
    }
    return IPU_CPU_AVX2;
}

/* Processors of AMD say the width of their units: bit 3 of leaf 0x8000001a is "512
 * bits", and bit 2 alone means that each AVX-512 instruction takes two turns. Those of
 * Intel leave the leaf out; of theirs, servers count, whose units are as wide. */
static bool
reports_wide_avx512(void)
{
    uint32_t width;
    uint32_t b;
    uint32_t c;
    uint32_t d;
    if (reported_class() != IPU_CPU_AVX512) {
        return false;
    }
    return !__get_cpuid(0x8000001a, &width, &b, &c, &d) || (width & 4) == 0 ||
           (width & 8) != 0;
}
#else
static ipu_cpu_class
reported_class(void)
{
    return IPU_CPU_GENERIC;
}

static bool
reports_wide_avx512(void)
{
    return false;
}
#endif

static int
kept_report(void)
{
    static atomic_int kept; /* 0: not asked yet */
    int report = atomic_load_explicit(&kept, memory_order_relaxed);
    if (report == 0) {
        report = KNOWN | (int)reported_class() | (reports_wide_avx512() ? WIDE : 0);
        atomic_store_explicit(&kept, report, memory_order_relaxed);
    }
    return report;
}

bool
ipu__has_wide_avx512(void)
{
    return (kept_report() & WIDE) != 0;
}

const char *
ipu_cpu_class_name(ipu_cpu_class cpu)
{
    static const char *const names[] = {[IPU_CPU_GENERIC] = "generic",
                                        [IPU_CPU_AVX2] = "avx2",
                                        [IPU_CPU_AVX512] = "avx512"};
    return names[cpu];
}

ipu_cpu_class
ipu_cpu_class_detect(void)
{
    ipu_cpu_class reported = (ipu_cpu_class)(kept_report() & CLASS);
    const char *wanted = getenv("IPU_CPU_CLASS");
    if (wanted == NULL) {
        return reported;
    }
    for (int32_t i = IPU_CPU_GENERIC; i < (int32_t)reported; i++) {
        if (strcmp(wanted, ipu_cpu_class_name((ipu_cpu_class)i)) == 0) {
            return (ipu_cpu_class)i;
        }
    }
    return reported;
}
