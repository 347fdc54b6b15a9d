/* SPDX-License-Identifier: MIT
 *
 * Loops over runs of random words, once for each class of processor: a file defines
 * RANDOM_FORM (the name of the form that it defines), RANDOM_TARGET (the attribute of
 * its functions) and RANDOM_BLOCKS (of words that fill a vector) and includes this one.
 * Nothing is contracted, so that all classes give the same bits. */
#include "kernels/math/element_math.h"
#include "kernels/random/distributions_impl.h"
#include "kernels/random/random_impl.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if RANDOM_BLOCKS == 8
#define MULTIPLY(x, y) (lanes) _mm512_mul_epu32((__m512i)(x), (__m512i)(y))
#define FIRST_HALVES(x, y) (lanes) _mm512_unpacklo_epi64((__m512i)(x), (__m512i)(y))
#define SECOND_HALVES(x, y) (lanes) _mm512_unpackhi_epi64((__m512i)(x), (__m512i)(y))
#define BLOCK_OF_LANE 0, 4, 1, 5, 2, 6, 3, 7
#elif RANDOM_BLOCKS == 4
#define MULTIPLY(x, y) (lanes) _mm256_mul_epu32((__m256i)(x), (__m256i)(y))
#define FIRST_HALVES(x, y) (lanes) _mm256_unpacklo_epi64((__m256i)(x), (__m256i)(y))
#define SECOND_HALVES(x, y) (lanes) _mm256_unpackhi_epi64((__m256i)(x), (__m256i)(y))
#define BLOCK_OF_LANE 0, 2, 1, 3
#else
#define MULTIPLY(x, y) (lanes) _mm_mul_epu32((__m128i)(x), (__m128i)(y))
#define FIRST_HALVES(x, y) (lanes) _mm_unpacklo_epi64((__m128i)(x), (__m128i)(y))
#define SECOND_HALVES(x, y) (lanes) _mm_unpackhi_epi64((__m128i)(x), (__m128i)(y))
#define BLOCK_OF_LANE 0, 1
#endif
typedef uint64_t lanes __attribute__((vector_size(RANDOM_BLOCKS * 8)));

/* Blocks in lanes of 64 bits, of which a product reads the low half; whatever is in the
 * high one stays there. Returns how many blocks are made. */
RANDOM_TARGET IPU_INLINE int64_t
words_of_lanes(uint32_t *out, const ipu_random_start *start, uint32_t first,
               uint32_t step, int64_t blocks)
{
    const lanes none = {0};
    lanes block = first + (lanes){BLOCK_OF_LANE} * step;
    int64_t i = 0;
    for (; i + RANDOM_BLOCKS <= blocks; i += RANDOM_BLOCKS) {
        lanes c[4] = {block, none + start->counter[0], none + start->counter[1],
                      none + start->counter[2]};
        uint32_t key[2] = {start->key[0], start->key[1]};
        _Pragma("GCC unroll 10") for (int round = 0; round < IPU_RANDOM_ROUNDS; round++)
        {
            const lanes p0 = MULTIPLY(c[0], none + IPU_RANDOM_FACTOR_0);
            const lanes p1 = MULTIPLY(c[2], none + IPU_RANDOM_FACTOR_1);
            c[0] = (p1 >> 32) ^ c[1] ^ key[0];
            c[1] = p1;
            c[2] = (p0 >> 32) ^ c[3] ^ key[1];
            c[3] = p0;
            key[0] += IPU_RANDOM_STEP_0;
            key[1] += IPU_RANDOM_STEP_1;
        }
        const lanes low = (c[0] & UINT32_MAX) | c[1] << 32;
        const lanes high = (c[2] & UINT32_MAX) | c[3] << 32;
        const lanes both[2] = {FIRST_HALVES(low, high), SECOND_HALVES(low, high)};
        memcpy(out + 4 * i, both, sizeof both);
        block += (uint64_t)RANDOM_BLOCKS * step;
    }
    return i;
}
#else
#define words_of_lanes(...) 0
#endif

/* The upper word of a block's number is that of `first`: no run crosses a multiple of
 * 2^32, since runs are of one power of two and begin at multiples of it. */
RANDOM_TARGET IPU_INLINE void
words_of(uint32_t *out, const ipu_random_key *key, uint64_t first, uint32_t step,
         int64_t blocks)
{
    ipu_random_start start = ipu_random_start_of(key);
    start.counter[0] ^= (uint32_t)(first >> 32);
    int64_t i = words_of_lanes(out, &start, (uint32_t)first, step, blocks);
    IPU_INDEPENDENT
    for (; i < blocks; i++) {
        uint32_t block = (uint32_t)first + (uint32_t)i * step;
        ipu_random_words drawn = ipu_random_block_of(&start, block);
        out[4 * i] = drawn.at[0];
        out[4 * i + 1] = drawn.at[1];
        out[4 * i + 2] = drawn.at[2];
        out[4 * i + 3] = drawn.at[3];
    }
}

RANDOM_TARGET static void
words(uint32_t *out, const ipu_random_key *key, uint64_t first, int64_t blocks)
{
    words_of(out, key, first, 1, blocks);
}

RANDOM_TARGET static void
words_apart(uint32_t *out, const ipu_random_key *key, uint64_t first, uint32_t step,
            int64_t blocks)
{
    words_of(out, key, first, step, blocks);
}

RANDOM_TARGET static void
uniform(float *out, const uint32_t *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        out[i] = (float)(int32_t)(from[i] >> 8) * 0x1p-24f;
    }
}

RANDOM_TARGET static void
uniform_narrow(float *out, const uint32_t *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        out[i] = (float)(int32_t)(from[i] >> 21) * 0x1p-11f;
    }
}

RANDOM_TARGET static void
uniform_wide(double *out, const uint32_t *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        /* 53 bits, in two parts since AVX2 converts no integers of 64; all is exact */
        double high = (double)(int32_t)(from[2 * i + 1] ^ 0x80000000u) + 0x1p31;
        out[i] = high * 0x1p-32 + (double)(int32_t)(from[2 * i] >> 11) * 0x1p-53;
    }
}

RANDOM_TARGET static void
normal(double *out, const uint32_t *from, int64_t n)
{
    const double two_pi = 6.283185307179586476925;
    for (int64_t i = 0; i < n / 2; i++) {
        double u = ((double)from[2 * i] + 1.0) * 0x1p-32;
        double radius = __builtin_sqrt(-2.0 * ipu__near_log_f64(u));
        double turn = (double)from[2 * i + 1] * 0x1p-32;
        ipu__point point = ipu__circle_f64(two_pi * turn);
        out[2 * i] = radius * point.cos;
        out[2 * i + 1] = radius * point.sin;
    }
}

RANDOM_TARGET static void
truncated(double *out, const uint32_t *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        out[i] = ipu__truncated_normal_f64(from[i]);
    }
}

RANDOM_TARGET static void
to_floats(float *out, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        out[i] = (float)x[i];
    }
}

RANDOM_TARGET static void
to_odd_floats(float *out, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        out[i] = ipu__float_to_odd(x[i]);
    }
}

RANDOM_TARGET static void
integers(uint32_t *out, const uint32_t *from, uint32_t least, uint64_t span, int64_t n)
{
    uint32_t factor = (uint32_t)span;
    for (int64_t i = 0; i < n; i++) {
        out[i] = least + (uint32_t)((uint64_t)from[i] * factor >> 32);
    }
}

/* The upper half of a product of 128 bits, out of four of 64 whose factors are seen to
 * have 32. */
RANDOM_TARGET static void
integers_wide(uint64_t *out, const uint32_t *from, uint64_t least, uint64_t span,
              int64_t n)
{
    const uint32_t span_low = (uint32_t)span;
    const uint32_t span_high = (uint32_t)(span >> 32);
    for (int64_t i = 0; i < n; i++) {
        const uint64_t low = from[2 * i];
        const uint64_t high = from[2 * i + 1];
        const uint64_t middle = low * span_high + (low * span_low >> 32);
        const uint64_t cross = high * span_low + (middle & UINT32_MAX);
        out[i] = least + high * span_high + (middle >> 32) + (cross >> 32);
    }
}

#define DROPOUT(name, type) \
    RANDOM_TARGET static void name(type *y, uint8_t *mask, const type *x, \
                                   const uint32_t *from, uint32_t threshold, \
                                   type scale, int64_t n) \
    { \
        IPU_INDEPENDENT \
        for (int64_t i = 0; i < n; i++) { \
            type scaled = x[i] * scale; \
            y[i] = from[i] >> 8 >= threshold ? scaled : 0; \
        } \
        for (int64_t i = 0; i < n; i++) { \
            mask[i] = from[i] >> 8 >= threshold; \
        } \
    }
DROPOUT(dropout, float)
DROPOUT(dropout_wide, double)
#undef DROPOUT

/* A normal result: 13 bits are dropped, to which as many random ones are added before. A
 * subnormal one is a whole number of 2^-24. Both for every element, and one of them. */
RANDOM_TARGET static void
round_stochastic(uint16_t *out, const float *x, const uint32_t *from, int64_t n)
{
    const uint32_t least_normal = 0x38800000; /* 2^-14 */
    const uint32_t too_large = 0x47800000;    /* 2^16 */
    const uint32_t infinite = 0x7f800000;
    IPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = ipu__float_bits(x[i]);
        uint32_t size = bits & 0x7fffffff;
        uint32_t normal = ((size + (from[i] >> 19)) >> 13) - (112U << 10);
        uint32_t bounded = size < least_normal ? size : least_normal;
        float scaled = ipu__bits_float(bounded) * 0x1p24f;
        int32_t below = (int32_t)scaled;
        float rest = 1.0f - (float)(int32_t)(from[i] >> 8) * 0x1p-24f;
        uint32_t small = (uint32_t)below + (scaled - (float)below >= rest);
        uint32_t half = size < least_normal ? small : normal;
        half = size >= too_large ? 0x7c00 : half;
        half = size > infinite ? 0x7e00 : half;
        out[i] = (uint16_t)(half | (bits >> 16 & 0x8000));
    }
}

RANDOM_TARGET static void
gammas(double *out, const double *alphas, const uint32_t *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const double alpha = alphas[i];
        const bool below = alpha < 1.0;
        double scale = ipu__gamma_scale(alpha, from[4 * i + 3]);
        double shape = (below ? alpha + 1.0 : alpha) - 1.0 / 3.0;
        ipu__gamma_attempt made = ipu__attempt_gamma(
            shape, from[4 * i], from[4 * i + 1], from[4 * i + 2]);
        double number = (below ? scale : 1.0) * shape * made.v;
        bool is_sure = made.is_sure & (alpha > 0.0) & (alpha <= 0x1p1000);
        out[i] = is_sure ? number : -1.0;
    }
}

/* All take a turn of the inverse before any takes the next one. */
RANDOM_TARGET static void
poissons(double *out, const double *rates, const uint32_t *from, int64_t n)
{
    double rest[IPU_FIRST_NUMBERS];
    double share[IPU_FIRST_NUMBERS];
    for (int64_t i = 0; i < n; i++) {
        const double rate = rates[i];
        const bool is_few = (rate > 0.0) & (rate < IPU_INVERSE_BELOW);
        double part = ipu__exp_f64(-rate);
        double drawn = ipu__fine_uniform(from[4 * i], from[4 * i + 1]);
        rest[i] = is_few ? drawn : -1.0;
        share[i] = is_few ? part : 1.0;
        out[i] = is_few ? 0.0 : -1.0;
    }
    uint64_t ended = 0; /* by its sign */
    for (int64_t k = 1; k <= IPU_MOST_COUNTS && ended >> 63 == 0; k++) {
        ended = UINT64_MAX;
        for (int64_t i = 0; i < n; i++) {
            const bool goes_on = rest[i] >= share[i];
            double next = share[i] * (rates[i] / (double)k);
            rest[i] -= goes_on ? share[i] : 0.0;
            out[i] += goes_on ? 1.0 : 0.0;
            share[i] = goes_on ? next : share[i];
            ended &= ipu__double_bits(rest[i] - share[i]);
        }
    }
}

const ipu__random_form RANDOM_FORM = {
    words,        words_apart, uniform,       uniform_narrow,   uniform_wide,
    normal,       truncated,   to_floats,     to_odd_floats,    integers,
    integers_wide, dropout,    dropout_wide,  round_stochastic, gammas,
    poissons,
};
