/* SPDX-License-Identifier: MIT
 *
 * How many floating-point operations a core can do: chains of multiply-adds in
 * registers, more of them than the units are deep. The fastest of many short bursts
 * counts, so that what else the machine does falls out. */
#include "base/clock.h"
#include "kernels/core/kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum { CHAINS = 12, TURNS = 2000 };

/* A burst of CHAINS * TURNS multiply-adds of vectors; gives something that depends on
 * all of them. The factor is volatile, so that each burst is really run. */
typedef float burst_fn(const volatile float *factor);

static float
plain_burst(const volatile float *factor)
{
    float f = *factor;
    float sums[CHAINS] = {0};
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < CHAINS; i++) {
            sums[i] = sums[i] * f + f;
        }
    }
    float sum = 0;
    for (int i = 0; i < CHAINS; i++) {
        sum += sums[i];
    }
    return sum;
}

#define BURST(name, target, vector, set1, fma, first) \
    target static float name(const volatile float *factor) \
    { \
        vector f = set1(*factor); \
        vector sums[CHAINS]; \
        for (int i = 0; i < CHAINS; i++) { \
            sums[i] = f; \
        } \
        for (int turn = 0; turn < TURNS; turn++) { \
            for (int i = 0; i < CHAINS; i++) { \
                sums[i] = fma; \
            } \
        } \
        float sum = 0; \
        for (int i = 0; i < CHAINS; i++) { \
            sum += first(sums[i]); \
        } \
        return sum; \
    }

#if defined(__x86_64__)
BURST(avx2_burst, __attribute__((target("avx2,fma"))), __m256, _mm256_set1_ps,
      _mm256_fmadd_ps(sums[i], f, f), _mm256_cvtss_f32)
BURST(avx512_burst, __attribute__((target("avx512f"))), __m512, _mm512_set1_ps,
      _mm512_fmadd_ps(sums[i], f, f), _mm512_cvtss_f32)
#elif defined(__aarch64__)
#define FIRST(v) vgetq_lane_f32(v, 0)
BURST(neon_burst, , float32x4_t, vdupq_n_f32, vfmaq_f32(f, sums[i], f), FIRST)
#undef FIRST
#endif
#undef BURST

static double
best_rate(burst_fn *burst, int lanes, uint64_t time_ns)
{
    const volatile float factor = 0.5F;
    volatile float sink = 0;
    uint64_t best_ns = UINT64_MAX;
    uint64_t start_ns = ipu_now_ns();
    uint64_t now_ns = start_ns;
    while (now_ns - start_ns < time_ns) {
        uint64_t begin_ns = now_ns;
        sink += burst(&factor);
        now_ns = ipu_now_ns();
        best_ns = now_ns - begin_ns < best_ns ? now_ns - begin_ns : best_ns;
    }
    (void)sink;
    return 2.0 * lanes * CHAINS * TURNS / (double)(best_ns > 0 ? best_ns : 1);
}

double
ipu_peak_gflops(ipu_cpu_class cpu, uint64_t time_ns)
{
    double best = best_rate(plain_burst, 1, time_ns);
#if defined(__x86_64__)
    if (cpu >= IPU_CPU_AVX2) {
        double rate = best_rate(avx2_burst, 8, time_ns);
        best = rate > best ? rate : best;
    }
    if (cpu >= IPU_CPU_AVX512) {
        double rate = best_rate(avx512_burst, 16, time_ns);
        best = rate > best ? rate : best;
    }
#elif defined(__aarch64__)
    double rate = best_rate(neon_burst, 4, time_ns);
    best = rate > best ? rate : best;
    (void)cpu;
#else
    (void)cpu;
#endif
    return best;
}
