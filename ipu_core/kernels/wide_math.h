/* SPDX-License-Identifier: MIT
 *
 * log, sin, cos and a quantile of one float64 as straight-line code that a compiler
 * turns into vectors. Like element_math.h, but by multiplications and additions alone:
 * there is no wider type to do a fused one in where the instruction is missing. Errors
 * are about 1 unit in the last place. */
#ifndef IPU_KERNELS_WIDE_MATH_H
#define IPU_KERNELS_WIDE_MATH_H

#include "kernels/element_math.h"

/* log(x) of a positive normal x: x = 2^k m, m in [sqrt(1/2), sqrt(2)), and with
 * s = (m - 1) / (m + 1) log(m) = 2 s + s^3 p(s^2), a least-maximum fit. 2 s is taken
 * apart into f - s f, f = m - 1 being exact. */
IPU_INLINE double
ipu__log_normal_f64(double x)
{
    const double magic = 0x1.8p52;
    uint64_t bits = ipu__double_bits(x) - UINT64_C(0x3fe6a09e667f3bcd);
    /* the sign of k is kept by adding 2^11, which the magic number takes away */
    uint64_t shifted = (bits + (UINT64_C(1) << 63)) >> 52;
    double k = ipu__bits_double(ipu__double_bits(magic) + shifted) - (magic + 2048.0);
    uint64_t rest = bits & (UINT64_MAX >> 12);
    double f = ipu__bits_double(rest + UINT64_C(0x3fe6a09e667f3bcd)) - 1.0;
    double s = f / (2.0 + f);
    double z = s * s;
    double p = 0x1.2f0d8ee3130bep-3;
    p = p * z + 0x1.39a0f4fa4075ap-3;
    p = p * z + 0x1.7466462ce5e7ap-3;
    p = p * z + 0x1.c71c51e7f56c4p-3;
    p = p * z + 0x1.2492494217a45p-2;
    p = p * z + 0x1.999999997fb31p-2;
    p = p * z + 0x1.5555555555593p-1;
    double half = 0.5 * f * f;
    double low = s * (half + z * p) + k * 0x1.ef35793c76730p-45;
    return k * 0x1.62e42fefa3800p-1 - ((half - low) - f);
}

/* sin and cos of an angle in [0, 2 pi]: a = q pi / 2 + r, |r| <= pi / 4, with pi / 2 in
 * two parts of which the first times q is exact; then Taylor's polynomials. */
typedef struct ipu__point {
    double cos;
    double sin;
} ipu__point;

IPU_INLINE ipu__point
ipu__circle_f64(double a)
{
    const double magic = 0x1.8p52;
    double shifted = a * 0x1.45f306dc9c883p-1 + magic;
    double q = shifted - magic;
    double r = (a - q * 0x1.921fb54442d00p+0) - q * 0x1.8469898cc5170p-48;
    double z = r * r;
    double s = -0x1.ae7f3e733b81fp-41;
    s = s * z + 0x1.6124613a86d09p-33;
    s = s * z - 0x1.ae64567f544e4p-26;
    s = s * z + 0x1.71de3a556c734p-19;
    s = s * z - 0x1.a01a01a01a01ap-13;
    s = s * z + 0x1.1111111111111p-7;
    s = s * z - 0x1.5555555555555p-3;
    s = s * z * r + r;
    double c = 0x1.ae7f3e733b81fp-45;
    c = c * z - 0x1.93974a8c07c9dp-37;
    c = c * z + 0x1.1eed8eff8d898p-29;
    c = c * z - 0x1.27e4fb7789f5cp-22;
    c = c * z + 0x1.a01a01a01a01ap-16;
    c = c * z - 0x1.6c16c16c16c17p-10;
    c = c * z + 0x1.5555555555555p-5;
    c = c * z * z + (1.0 - 0.5 * z);
    uint64_t turns = ipu__double_bits(shifted);
    bool is_odd = (turns & 1) != 0;
    double x = is_odd ? s : c;
    double y = is_odd ? c : s;
    uint64_t x_sign = ((turns + 1) & 2) << 62;
    uint64_t y_sign = (turns & 2) << 62;
    return (ipu__point){ipu__bits_double(ipu__double_bits(x) ^ x_sign),
                        ipu__bits_double(ipu__double_bits(y) ^ y_sign)};
}

/* The quantile of the normal distribution by quotients of polynomials (Wichura 1988,
 * AS241, PPND16), |p - 0.5| <= 0.48, which is all that two standard deviations need:
 * the central range, for q = p - 0.5 with |q| <= 0.425; and the first outer one for r =
 * sqrt(-log(min(p, 1 - p))) - 1.6, without its sign. */
IPU_INLINE double
ipu__quantile_center(double q)
{
    double r = 0.180625 - q * q;
    double upper = 2.5090809287301226727e+3;
    upper = upper * r + 3.3430575583588128105e+4;
    upper = upper * r + 6.7265770927008700853e+4;
    upper = upper * r + 4.5921953931549871457e+4;
    upper = upper * r + 1.3731693765509461125e+4;
    upper = upper * r + 1.9715909503065514427e+3;
    upper = upper * r + 1.3314166789178437745e+2;
    upper = upper * r + 3.3871328727963666080e0;
    double lower = 5.2264952788528545610e+3;
    lower = lower * r + 2.8729085735721942674e+4;
    lower = lower * r + 3.9307895800092710610e+4;
    lower = lower * r + 2.1213794301586595867e+4;
    lower = lower * r + 5.3941960214247511077e+3;
    lower = lower * r + 6.8718700749205790830e+2;
    lower = lower * r + 4.2313330701600911252e+1;
    lower = lower * r + 1.0;
    return q * (upper / lower);
}

IPU_INLINE double
ipu__quantile_outer(double r)
{
    double upper = 7.74545014278341407640e-4;
    upper = upper * r + 2.27238449892691845833e-2;
    upper = upper * r + 2.41780725177450611770e-1;
    upper = upper * r + 1.27045825245236838258e0;
    upper = upper * r + 3.64784832476320460504e0;
    upper = upper * r + 5.76949722146069140550e0;
    upper = upper * r + 4.63033784615654529590e0;
    upper = upper * r + 1.42343711074968357734e0;
    double lower = 1.05075007164441684324e-9;
    lower = lower * r + 5.47593808499534494600e-4;
    lower = lower * r + 1.51986665636164571966e-2;
    lower = lower * r + 1.48103976427480074590e-1;
    lower = lower * r + 6.89767334985100004550e-1;
    lower = lower * r + 1.67638483018380384940e0;
    lower = lower * r + 2.05319162663775882187e0;
    lower = lower * r + 1.0;
    return upper / lower;
}

/* A word as a probability between those of the normal distribution at -2 and at 2. */
IPU_INLINE double
ipu__within_two_sigma(uint32_t word)
{
    const double below = 0.022750131948179207200; /* of the distribution at -2 */
    double u = ((double)word + 0.5) * 0x1p-32;
    return below + u * (1.0 - 2.0 * below);
}

#endif
