/* SPDX-License-Identifier: MIT
 *
 * What random_loops.h and reference_distributions.c draw alike: an element has ATTEMPTS
 * blocks of its own, and most need no more than the first one. */
#ifndef IPU_KERNELS_DISTRIBUTIONS_IMPL_H
#define IPU_KERNELS_DISTRIBUTIONS_IMPL_H

#include "kernels/math/wide_math.h"

enum {
    IPU_ATTEMPTS = 64,     /* for an element; each fails less often than one time in 3 */
    IPU_MOST_COUNTS = 1000 /* of an inverse; its mean is below 10 */
};

/* The mean from which on there is a better way than the inverse. */
#define IPU_INVERSE_BELOW 10.0

/* In (0, 1), from one word and from two. */
IPU_INLINE double
ipu__open_uniform(uint32_t word)
{
    return ((double)word + 0.5) * 0x1p-32;
}

IPU_INLINE double
ipu__fine_uniform(uint32_t low, uint32_t high)
{
    uint64_t bits = ((uint64_t)high << 32 | low) >> 12;
    return (ipu__bits_double(bits | UINT64_C(1023) << 52) - 1.0) + 0x1p-53;
}

/* Of a gamma number of alpha < 1, which is one of alpha + 1 times this. */
IPU_INLINE double
ipu__gamma_scale(double alpha, uint32_t word)
{
    return ipu__exp_f64(ipu__near_log_f64(ipu__open_uniform(word)) / alpha);
}

/* The number is shape * v, surely, or if u is small enough. */
typedef struct ipu__gamma_attempt {
    double square; /* of a normal number */
    double v;
    double u;
    bool is_sure; /* mostly, without logarithms */
} ipu__gamma_attempt;

IPU_INLINE ipu__gamma_attempt
ipu__attempt_gamma(double shape, uint32_t first, uint32_t second, uint32_t third)
{
    const double two_pi = 6.283185307179586476925;
    double width = 1.0 / __builtin_sqrt(9.0 * shape);
    double radius = __builtin_sqrt(-2.0 * ipu__near_log_f64(ipu__open_uniform(first)));
    double x = radius * ipu__near_cos_f64(two_pi * ipu__open_uniform(second));
    double root = 1.0 + width * x;
    double v = root * root * root;
    double u = ipu__open_uniform(third);
    double square = x * x;
    bool is_sure = (v > 0.0) & (u < 1.0 - 0.0331 * square * square);
    return (ipu__gamma_attempt){square, v, u, is_sure};
}

#endif
