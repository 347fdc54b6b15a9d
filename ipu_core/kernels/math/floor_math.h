/* SPDX-License-Identifier: MIT
 *
 * Python's and NumPy's floor division of floats: the remainder has the divisor's sign,
 * the quotient is whole. Both follow from C's remainder, fmod(a, b), which is exact.
 * The same of integers, where y is not 0; INT64_MIN / -1 wraps. */
#ifndef IPU_KERNELS_FLOOR_MATH_H
#define IPU_KERNELS_FLOOR_MATH_H

#include "kernels/math/wide_math.h"

/* With rest = fmod(a, b), or any zero in place of a zero. */
IPU_INLINE double
ipu__floor_mod_of(double rest, double b)
{
    double same_sign = (b < 0.0) != (rest < 0.0) ? rest + b : rest;
    return rest != 0.0 ? same_sign : ipu__with_sign_f64(0.0, b);
}

IPU_INLINE double
ipu__floor_div_of(double a, double b, double rest)
{
    bool down = (rest != 0.0) & ((b < 0.0) != (rest < 0.0));
    double quotient = (a - rest) / b - (down ? 1.0 : 0.0);
    double floored = ipu__floor_f64(quotient);
    double nearest = quotient - floored > 0.5 ? floored + 1.0 : floored;
    return quotient == 0.0 ? ipu__with_sign_f64(0.0, a / b) : nearest;
}

IPU_INLINE double
ipu__floor_mod_f64(double a, double b)
{
    return ipu__floor_mod_of(fmod(a, b), b);
}

IPU_INLINE double
ipu__floor_div_f64(double a, double b)
{
    return b == 0.0 ? a / b : ipu__floor_div_of(a, b, fmod(a, b));
}

/* Of two floats, whether a / b in double has the whole part of the quotient, and b times
 * that is exact: numbers of 24 bits and of 29. */
IPU_INLINE bool
ipu__is_near_quotient_f32(float a, float b)
{
    double size = ipu__magnitude_f64((double)b);
    return (ipu__magnitude_f64((double)a) < 0x1p28 * size) & (size < 0x1p128);
}

/* Of two doubles, whether the whole part of a / b is a number, but for one. */
IPU_INLINE bool
ipu__is_near_quotient_f64(double a, double b)
{
    double size = ipu__magnitude_f64(b);
    return (ipu__magnitude_f64(a) < 0x1p52 * size) & (size < (double)INFINITY);
}

/* fmod(a, b) of such, with the whole part of the rounded a / b: that may be one too
 * large, and a - b * whole is a number in both cases. */
IPU_INLINE double
ipu__rest_f64(double a, double b, double whole)
{
    double rest = __builtin_fma(-whole, b, a);
    double back = ipu__with_sign_f64(ipu__magnitude_f64(b), a);
    return rest + (rest * ipu__with_sign_f64(1.0, a) < 0.0 ? back : 0.0);
}

IPU_INLINE int64_t
ipu__floor_mod_i64(int64_t x, int64_t y)
{
    int64_t rest = y == -1 ? 0 : x % y;
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

IPU_INLINE uint64_t
ipu__floor_div_i64(int64_t x, int64_t y)
{
    uint64_t down = y != -1 && x % y != 0 && (x < 0) != (y < 0);
    return (y == -1 ? 0 - (uint64_t)x : (uint64_t)(x / y)) - down;
}

#endif
