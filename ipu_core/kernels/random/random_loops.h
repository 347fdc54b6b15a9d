/* SPDX-License-Identifier: MIT
 *
 * Loops over runs of random words, once for each class of processor: a file defines
 * RANDOM_FORM (the name of the form that it defines) and RANDOM_TARGET (the attribute
 * of its functions) and includes this one. All are plain loops without contraction, so
 * that all classes give the same bits. */
#include "kernels/math/element_math.h"
#include "kernels/random/distributions_impl.h"
#include "kernels/random/random_impl.h"

/* The upper word of a block's number is that of `first`: no run crosses a multiple of
 * 2^32, since runs are of one power of two and begin at multiples of it. */
RANDOM_TARGET IPU_INLINE void
words_of(uint32_t *out, const ipu_random_key *key, uint64_t first, uint32_t step,
         int64_t blocks)
{
    ipu_random_start start = ipu_random_start_of(key);
    start.counter[0] ^= (uint32_t)(first >> 32);
    IPU_INDEPENDENT
    for (int64_t i = 0; i < blocks; i++) {
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
        uint64_t both = (uint64_t)from[2 * i + 1] << 32 | from[2 * i];
        out[i] = (double)(int64_t)(both >> 11) * 0x1p-53;
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

/* The upper half of a product of 128 bits, out of four of 64. */
RANDOM_TARGET static void
integers_wide(uint64_t *out, const uint32_t *from, uint64_t least, uint64_t span,
              int64_t n)
{
    const uint64_t span_low = span & UINT32_MAX;
    const uint64_t span_high = span >> 32;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t low = from[2 * i];
        const uint64_t high = from[2 * i + 1];
        const uint64_t middle = span_high * low + (span_low * low >> 32);
        const uint64_t cross = span_low * high + (middle & UINT32_MAX);
        out[i] = least + span_high * high + (middle >> 32) + (cross >> 32);
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
