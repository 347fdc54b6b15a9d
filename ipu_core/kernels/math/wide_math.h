/* SPDX-License-Identifier: MIT
 *
 * exp, log, sin, erf and their like of one float64 as straight-line code that a
 * compiler turns into vectors. Like element_math.h, but by multiplications and
 * additions: there is no wider type to do a fused one in where the instruction is
 * missing. It serves where its result is exact, which halves of numbers give, too.
 * Errors are below 1 unit in the last place: where one rounding more would spoil that, a
 * number is carried as a pair, high + low, with low below the last place of high, or
 * little above where that is enough. Polynomials are made from halves, whose chains are
 * short; where nothing else is said, they are least-maximum fits. Conditions are joined
 * by & and |, which do not branch. What is called near is of arguments without special
 * cases. The reference kernels call the same functions. */
#ifndef IPU_KERNELS_WIDE_MATH_H
#define IPU_KERNELS_WIDE_MATH_H

#include "kernels/math/element_math.h"

/* --- pairs ---------------------------------------------------------------------------
 */

typedef struct ipu__pair {
    double high;
    double low;
} ipu__pair;

/* a + b with what its rounding lost (Dekker); |a| >= |b|, or a is a multiple of the
 * sum's last place, such as 0, or as 1 and 2 up to sums of 2^53. */
IPU_INLINE ipu__pair
ipu__sum_ordered(double a, double b)
{
    double sum = a + b;
    return (ipu__pair){sum, (a - sum) + b};
}

/* The same in any order (Knuth). */
IPU_INLINE ipu__pair
ipu__sum(double a, double b)
{
    double sum = a + b;
    double part = sum - a;
    return (ipu__pair){sum, (a - (sum - part)) + (b - part)};
}

/* The upper 26 bits of x, rounded; the rest has 26 with its sign. Products of two such
 * numbers are exact. */
IPU_INLINE double
ipu__upper_half(double x)
{
    uint64_t rounded = ipu__double_bits(x) + UINT64_C(0x4000000);
    return ipu__bits_double(rounded & ~UINT64_C(0x7ffffff));
}

/* a - b * c, of b * c close to a, whose difference is a double: one instruction, or the
 * same from halves (Dekker). */
#if defined(IPU_FMA_BY_DOUBLES)
IPU_INLINE double
ipu__rest_of_product(double a, double b, double c)
{
    double u = ipu__upper_half(b);
    double u_rest = b - u;
    double v = ipu__upper_half(c);
    double v_rest = c - v;
    return (((a - u * v) - u * v_rest) - u_rest * v) - u_rest * v_rest;
}
#else
IPU_INLINE double
ipu__rest_of_product(double a, double b, double c)
{
    return __builtin_fma(-b, c, a);
}
#endif

/* a * b with what its rounding lost. */
IPU_INLINE ipu__pair
ipu__product(double a, double b)
{
    double product = a * b;
    return (ipu__pair){product, -ipu__rest_of_product(product, a, b)};
}

/* a / b: a quotient of the high parts, and what it leaves of a. */
IPU_INLINE ipu__pair
ipu__quotient(ipu__pair a, ipu__pair b)
{
    double inverse = 1.0 / b.high;
    double quotient = a.high * inverse;
    double rest = ipu__rest_of_product(a.high, quotient, b.high);
    return (ipu__pair){quotient, (rest + (a.low - quotient * b.low)) * inverse};
}

IPU_INLINE double
ipu__divide_pairs(ipu__pair a, ipu__pair b)
{
    ipu__pair quotient = ipu__quotient(a, b);
    return quotient.high + quotient.low;
}

/* The root of x >= 0, and what its square leaves of x. */
IPU_INLINE ipu__pair
ipu__root(ipu__pair x)
{
    double root = __builtin_sqrt(x.high);
    double rest = ipu__rest_of_product(x.high, root, root) + x.low;
    return (ipu__pair){root, rest / (root > 0.0 ? 2.0 * root : 1.0)};
}

IPU_INLINE double
ipu__magnitude_f64(double x)
{
    return ipu__bits_double(ipu__double_bits(x) & (UINT64_MAX >> 1));
}

IPU_INLINE double
ipu__with_sign_f64(double magnitude, double x)
{
    uint64_t sign = ipu__double_bits(x) & (UINT64_C(1) << 63);
    return ipu__bits_double(ipu__double_bits(magnitude) | sign);
}

/* a + b z + c z^2 + d z^3 */
IPU_INLINE double
ipu__cubic(double z, double a, double b, double c, double d)
{
    return (a + b * z) + (c + d * z) * (z * z);
}

/* --- whole numbers, as in element_math.h ---------------------------------------------
 */

IPU_INLINE double
ipu__round_f64(double x)
{
    double magnitude = ipu__magnitude_f64(x);
    double nearest = (magnitude + 0x1p52) - 0x1p52;
    return magnitude < 0x1p52 ? ipu__with_sign_f64(nearest, x) : x;
}

IPU_INLINE double
ipu__trunc_f64(double x)
{
    double magnitude = ipu__magnitude_f64(x);
    double nearest = (magnitude + 0x1p52) - 0x1p52;
    double down = nearest - (nearest > magnitude ? 1.0 : 0.0);
    return magnitude < 0x1p52 ? ipu__with_sign_f64(down, x) : x;
}

IPU_INLINE double
ipu__floor_f64(double x)
{
    double whole = ipu__trunc_f64(x);
    double down = whole - (whole > x ? 1.0 : 0.0);
    return ipu__with_sign_f64(ipu__magnitude_f64(down), x);
}

IPU_INLINE double
ipu__ceil_f64(double x)
{
    return -ipu__floor_f64(-x);
}

/* --- exponentials --------------------------------------------------------------------
 */

/* exp(x) = 2^n (1 + high + low), |high| < 0.42: x = n log(2) + r with log(2) in two
 * parts, of which the first times n is exact, and exp(r) = 1 + r + r^2 / 2 + r^3 p(r). */
typedef struct ipu__wide_exponent {
    uint64_t power; /* n in the upper 12 bits: to be added to those of a double */
    ipu__pair part;
} ipu__wide_exponent;

/* `nearest` is x as one number; high is not yet the nearest to the sum. */
IPU_INLINE ipu__wide_exponent
ipu__split_exponent_pair(ipu__pair x, double nearest)
{
    const double magic = 0x1.8p52;
    double shifted = nearest * 0x1.71547652b82fep+0 + magic;
    double n = shifted - magic;
    double high = x.high - n * 0x1.62e42fefa3800p-1;
    double low = n * 0x1.ef35793c76730p-45 - x.low;
    double r = high - low;
    double z = r * r;
    double y = z * z;
    double q = ipu__cubic(r, 0x1.a01a01afd6696p-13, 0x1.a01a01af66915p-16,
                          0x1.71ddf87411f96p-19, 0x1.27e4c7bf8b616p-22);
    q += (0x1.af5e8c71ae92dp-26 + 0x1.1f92c5bf2274dp-29 * r) * y;
    double p = ipu__cubic(r, 0x1.5555555555559p-3, 0x1.5555555555559p-5,
                          0x1.111111110f6dbp-7, 0x1.6c16c16c14a79p-10);
    p += q * y;
    double rest = (high - r) - low; /* of r, by its rounding */
    ipu__pair part = {high, 0.5 * z + (z * r * p + (r * rest - low))};
    return (ipu__wide_exponent){ipu__double_bits(shifted) << 52, part};
}

IPU_INLINE ipu__wide_exponent
ipu__split_exponent_f64(double x)
{
    ipu__wide_exponent e = ipu__split_exponent_pair((ipu__pair){x, 0.0}, x);
    e.part = ipu__sum_ordered(e.part.high, e.part.low);
    return e;
}

/* exp(x) = part * first * second. 2^n is two factors, so that results below the
 * smallest normal number are rounded once and large ones overflow to infinity. */
typedef struct ipu__wide_power {
    ipu__pair part;
    double first;
    double second;
} ipu__wide_power;

IPU_INLINE ipu__wide_power
ipu__power_f64(double x)
{
    double clamped = x > 710.0 ? 710.0 : x;
    clamped = clamped < -746.0 ? -746.0 : clamped;
    ipu__wide_exponent e = ipu__split_exponent_f64(clamped);
    ipu__pair part = ipu__sum_ordered(1.0, e.part.high);
    part.low += e.part.low;
    bool small = clamped < 0.0;
    uint64_t first = e.power + (UINT64_C(1023) << 52);
    first += small ? UINT64_C(128) << 52 : 0 - (UINT64_C(1) << 52);
    return (ipu__wide_power){part, ipu__bits_double(first), small ? 0x1p-128 : 2.0};
}

IPU_INLINE double
ipu__exp_f64(double x)
{
    ipu__wide_power e = ipu__power_f64(x);
    return e.part.high * e.first * e.second;
}

/* The same for |x| < IPU_WIDE_EXP_LIMIT, where it is a normal number. */
#define IPU_WIDE_EXP_LIMIT 708.0

IPU_INLINE double
ipu__near_exp_f64(double x)
{
    ipu__wide_exponent e = ipu__split_exponent_f64(x);
    return ipu__bits_double(ipu__double_bits(1.0 + e.part.high) + e.power);
}

/* Half of expm1(x) for x in [-56, 710], as 2^(n - 1) - 1 / 2 and 2^(n - 1) times the
 * part. */
IPU_INLINE ipu__pair
ipu__half_expm1_f64(double x)
{
    ipu__wide_exponent e = ipu__split_exponent_f64(x);
    double half = ipu__bits_double(e.power + (UINT64_C(1022) << 52));
    double whole = half - 0.5;
    ipu__pair sum = ipu__sum_ordered(whole, half * e.part.high);
    sum.low += half * e.part.low + ((half - whole) - 0.5);
    return sum;
}

/* Next to 0 x is the result, also -0. */
IPU_INLINE double
ipu__expm1_f64(double x)
{
    double clamped = x > 710.0 ? 710.0 : x;
    clamped = clamped < -56.0 ? -56.0 : clamped;
    ipu__pair half = ipu__half_expm1_f64(clamped);
    return ipu__magnitude_f64(x) < 0x1p-54 ? x : 2.0 * (half.high + half.low);
}

/* The same of |x| < IPU_WIDE_EXPM1_LIMIT, where 2^(n - 1) - 1 / 2 is exact. */
#define IPU_WIDE_EXPM1_LIMIT 36.0

IPU_INLINE ipu__pair
ipu__near_half_expm1_f64(double x)
{
    ipu__wide_exponent e = ipu__split_exponent_f64(x);
    double half = ipu__bits_double(e.power + (UINT64_C(1022) << 52));
    ipu__pair sum = ipu__sum_ordered(half - 0.5, half * e.part.high);
    sum.low += half * e.part.low;
    return sum;
}

IPU_INLINE double
ipu__near_expm1_f64(double x)
{
    ipu__pair half = ipu__near_half_expm1_f64(x);
    return ipu__magnitude_f64(x) < 0x1p-54 ? x : 2.0 * (half.high + half.low);
}

/* The functions below are made of two parts, a pair and what is left to do with it,
 * which loops can make one after the other (element/block_loops.h). */

/* Of m = |x|, g with 4 g = expm1(m), which overflows after the result. */
IPU_INLINE ipu__pair
ipu__quarter_expm1_f64(double x)
{
    double m = ipu__magnitude_f64(x);
    ipu__wide_exponent e = ipu__split_exponent_f64(m > 710.6 ? 710.6 : m);
    double quarter = ipu__bits_double(e.power + (UINT64_C(1021) << 52));
    double whole = quarter - 0.25;
    ipu__pair g = ipu__sum_ordered(whole, quarter * e.part.high);
    g.low += quarter * e.part.low + ((quarter - whole) - 0.25);
    return g;
}

/* 2 (g + g / (4 g + 1)). Next to 0 x is the result. */
IPU_INLINE double
ipu__sinh_by_expm1(double x, ipu__pair g)
{
    double m = ipu__magnitude_f64(x);
    ipu__pair below = ipu__sum_ordered(1.0, 4.0 * g.high);
    below.low += 4.0 * g.low;
    ipu__pair rest = ipu__quotient(g, below);
    ipu__pair sum = ipu__sum_ordered(g.high, rest.high);
    double half = sum.high + (sum.low + (g.low + rest.low));
    double result = 2.0 * (m > 40.0 ? g.high + g.low : half);
    return ipu__with_sign_f64(m >= 0x1p-28 ? result : m, x);
}

IPU_INLINE double
ipu__sinh_f64(double x)
{
    return ipu__sinh_by_expm1(x, ipu__quarter_expm1_f64(x));
}

/* 2 (g + 1 / (16 g)) with 4 g = exp(|x|) */
IPU_INLINE double
ipu__cosh_f64(double x)
{
    double m = ipu__magnitude_f64(x);
    ipu__wide_exponent e = ipu__split_exponent_f64(m > 710.6 ? 710.6 : m);
    double quarter = ipu__bits_double(e.power + (UINT64_C(1021) << 52));
    ipu__pair g = ipu__sum_ordered(quarter, quarter * e.part.high);
    g.low += quarter * e.part.low;
    return 2.0 * (g.high + (g.low + 0.0625 / g.high));
}

/* Of 2 |x|, half of expm1, or nearly so where tanh is 1. */
IPU_INLINE ipu__pair
ipu__tanh_expm1_f64(double x)
{
    double magnitude = ipu__magnitude_f64(x);
    return ipu__near_half_expm1_f64(2.0 * (magnitude > 22.0 ? 22.0 : magnitude));
}

/* e / (e + 1) with that e; the sign of x, also of -0. */
IPU_INLINE double
ipu__tanh_by_expm1(double x, ipu__pair e)
{
    ipu__pair below = ipu__sum(e.high, 1.0);
    below.low += e.low;
    return ipu__with_sign_f64(ipu__divide_pairs(e, below), x);
}

IPU_INLINE double
ipu__tanh_f64(double x)
{
    return ipu__tanh_by_expm1(x, ipu__tanh_expm1_f64(x));
}

/* exp(-|x|) 2^128, so that results below the smallest normal number are rounded
 * once. */
IPU_INLINE ipu__pair
ipu__falling_exp_f64(double x)
{
    double m = ipu__magnitude_f64(x);
    ipu__wide_exponent e = ipu__split_exponent_f64(m > 746.0 ? -746.0 : -m);
    ipu__pair part = ipu__sum_ordered(1.0, e.part.high);
    double scale = ipu__bits_double(e.power + (UINT64_C(1151) << 52));
    return (ipu__pair){part.high * scale, (part.low + e.part.low) * scale};
}

/* With that e, 1 / (1 + e) for positive x, e / (1 + e) for negative ones. */
IPU_INLINE double
ipu__sigmoid_by_exp(double x, ipu__pair e)
{
    ipu__pair below = ipu__sum_ordered(1.0, e.high * 0x1p-128);
    below.low += e.low * 0x1p-128;
    bool negative = x < 0.0;
    ipu__pair above = {negative ? e.high : 0x1p128, negative ? e.low : 0.0};
    return ipu__divide_pairs(above, below) * 0x1p-128;
}

IPU_INLINE double
ipu__sigmoid_f64(double x)
{
    return ipu__sigmoid_by_exp(x, ipu__falling_exp_f64(x));
}

/* --- logarithms ----------------------------------------------------------------------
 */

/* z = 2^k m, m in [sqrt(1/2), sqrt(2)). z is positive and normal. */
typedef struct ipu__wide_logarithm {
    double k;
    double f; /* m - 1 */
} ipu__wide_logarithm;

IPU_INLINE ipu__wide_logarithm
ipu__split_logarithm_f64(double z)
{
    uint64_t bits = ipu__double_bits(z) - UINT64_C(0x3fe6a09e667f3bcd);
#if defined(IPU_WIDE_CONVERSIONS)
    double k = (double)((int64_t)bits >> 52);
#else
    /* the sign of k is kept by adding 2^11, which the magic number takes away */
    const double magic = 0x1.8p52;
    uint64_t shifted = (bits + (UINT64_C(1) << 63)) >> 52;
    double k = ipu__bits_double(ipu__double_bits(magic) + shifted) - (magic + 2048.0);
#endif
    uint64_t rest = bits & (UINT64_MAX >> 12);
    double f = ipu__bits_double(rest + UINT64_C(0x3fe6a09e667f3bcd)) - 1.0;
    return (ipu__wide_logarithm){k, f};
}

/* log(1 + f) - f + half, half = f^2 / 2. With s = f / (2 + f), log(1 + f) = 2 s +
 * s^3 p(s^2), and 2 s is f - s f. */
IPU_INLINE double
ipu__logarithm_rest(double f, double half)
{
    double s = f / (2.0 + f);
    double z = s * s;
    double y = z * z;
    double p = ipu__cubic(z, 0x1.999999997fb31p-2, 0x1.2492494217a45p-2,
                          0x1.c71c51e7f56c4p-3, 0x1.7466462ce5e7ap-3);
    p += (0x1.39a0f4fa4075ap-3 + 0x1.2f0d8ee3130bep-3 * z) * (y * y);
    p = 0x1.5555555555593p-1 + p * z;
    return s * (half + z * p);
}

/* What f + k log(2) is more than log(1 + f) + k log(2) + more, where log(2) is rounded
 * to the bits that k leaves exact. */
IPU_INLINE double
ipu__logarithm_excess(double k, double f, double more)
{
    double half = 0.5 * f * f;
    return half - (ipu__logarithm_rest(f, half) + (k * 0x1.ef35793c76730p-45 + more));
}

IPU_INLINE double
ipu__join_logarithm_f64(ipu__wide_logarithm split)
{
    double excess = ipu__logarithm_excess(split.k, split.f, -0.0);
    return split.k * 0x1.62e42fefa3800p-1 - (excess - split.f);
}

/* log(x) of a positive normal x. */
IPU_INLINE double
ipu__near_log_f64(double x)
{
    return ipu__join_logarithm_f64(ipu__split_logarithm_f64(x));
}

/* The same of z > 0 that may be denormal. */
IPU_INLINE ipu__wide_logarithm
ipu__split_any_logarithm_f64(double z)
{
    bool tiny = z < 0x1p-1022;
    ipu__wide_logarithm split = ipu__split_logarithm_f64(tiny ? z * 0x1p54 : z);
    split.k += tiny ? -54.0 : 0.0;
    return split;
}

/* The logarithm, or what it is of infinity, 0, numbers below 0 and NaN. */
IPU_INLINE double
ipu__logarithm_or_limit(double x, double logarithm)
{
    double result = x > 0x1.fffffffffffffp+1023 ? x : logarithm;
    result = x == 0.0 ? -(double)INFINITY : result;
    return x >= 0.0 ? result : (double)NAN;
}

IPU_INLINE double
ipu__log_f64(double x)
{
    ipu__wide_logarithm split = ipu__split_any_logarithm_f64(x);
    return ipu__logarithm_or_limit(x, ipu__join_logarithm_f64(split));
}

/* k + log(1 + f) / log(2), of which the upper half times 27 bits is exact. */
IPU_INLINE double
ipu__join_log2_f64(ipu__wide_logarithm split)
{
    double half = 0.5 * split.f * split.f;
    double high = ipu__upper_half(split.f - half);
    double low = ((split.f - high) - half) + ipu__logarithm_rest(split.f, half);
    ipu__pair sum = ipu__sum_ordered(split.k, high * 0x1.7154764000000p+0);
    low = high * 0x1.2b82fe1777d10p-28 + low * 0x1.71547652b82fep+0;
    return sum.high + (sum.low + low);
}

IPU_INLINE double
ipu__near_log2_f64(double x)
{
    return ipu__join_log2_f64(ipu__split_logarithm_f64(x));
}

IPU_INLINE double
ipu__log2_f64(double x)
{
    double result = ipu__join_log2_f64(ipu__split_any_logarithm_f64(x));
    return ipu__logarithm_or_limit(x, result);
}

/* Of |x| < 1: u = 1 + x rounded, and what the rounding has lost divided by u. */
IPU_INLINE double
ipu__near_log1p_f64(double x)
{
    double u = 1.0 + x;
    double lost = x - (u - 1.0);
    ipu__wide_logarithm split = ipu__split_logarithm_f64(u);
    double excess = ipu__logarithm_excess(split.k, split.f, lost / u);
    double result = split.k * 0x1.62e42fefa3800p-1 - (excess - split.f);
    return ipu__with_sign_f64(result, x); /* of -0 */
}

IPU_INLINE double
ipu__log1p_f64(double x)
{
    double result = x > 0x1.fffffffffffffp+1023 ? x : ipu__near_log1p_f64(x);
    result = x == -1.0 ? -(double)INFINITY : result;
    return x >= -1.0 ? result : (double)NAN;
}

/* log(1 + f) + k log(2) with some 12 bits more than a double has; low is below 2^-9 of
 * high. With s = f / (2 + f), of 1 + f it is 2 s + s z (2/3 + z q(z)), z = s^2; what s
 * has lost comes with the factor 2 / (1 - z). */
IPU_INLINE ipu__pair
ipu__log_pair(ipu__wide_logarithm split)
{
    double f = split.f;
    double below = 2.0 + f;
    double below_low = f - (below - 2.0);
    double inverse = 2.0 / below;
    double twice = f * inverse;
    double s = 0.5 * twice;
    double lost = (ipu__rest_of_product(f, s, below) - s * below_low) * inverse;
    ipu__pair z = ipu__product(s, s);
    double y = z.high * z.high;
    double q = ipu__cubic(z.high, 0x1.9999999999996p-2, 0x1.2492492493036p-2,
                          0x1.c71c71c58048cp-3, 0x1.745d183261cf8p-3);
    q += ipu__cubic(z.high, 0x1.3b1362b21046ap-3, 0x1.1120b63904ae8p-3,
                    0x1.de3358e5ad402p-4, 0x1.eb11e594be56fp-4) *
         (y * y);
    ipu__pair first = ipu__product(z.high, 0x1.5555555555555p-1);
    first.low += z.high * 0x1.5555555555555p-55 + z.low * 0x1.5555555555555p-1;
    ipu__pair p = ipu__sum_ordered(first.high, y * q);
    ipu__pair part = ipu__product(s, p.high);
    part.low += s * (p.low + first.low) + lost * (1.0 + (z.high + y));
    ipu__pair sum = ipu__sum_ordered(split.k * 0x1.62e42fefa3800p-1, twice);
    ipu__pair all = ipu__sum_ordered(sum.high, part.high);
    all.low += sum.low + (part.low + split.k * 0x1.ef35793c76730p-45);
    return all;
}

/* exp(y log), and 1 of a log that is 0, whatever y is. */
IPU_INLINE double
ipu__exp_product_f64(ipu__pair log, double y)
{
    ipu__pair product = ipu__product(y, log.high);
    product.low += y * log.low;
    double nearest = product.high + product.low;
    ipu__wide_exponent e = ipu__split_exponent_pair(product, nearest);
    ipu__pair part = ipu__sum_ordered(1.0, e.part.high);
    bool small = product.high < 0.0;
    uint64_t first = e.power + ((small ? UINT64_C(1151) : UINT64_C(1022)) << 52);
    double result = (part.high + (part.low + e.part.low)) * ipu__bits_double(first);
    result *= small ? 0x1p-128 : 2.0;
    result = product.high > 710.0 ? (double)INFINITY : result;
    result = product.high < -750.0 ? 0.0 : result;
    return log.high == 0.0 ? 1.0 : result;
}

/* That of a magnitude, then the sign, and what C and IEEE 754 say of 0, infinity and
 * NaN. */
IPU_INLINE double
ipu__pow_f64(double x, double y)
{
    double m = ipu__magnitude_f64(x);
    ipu__pair log = ipu__log_pair(ipu__split_any_logarithm_f64(m));
    double result = ipu__exp_product_f64(log, y);
    double above = y < 0.0 ? 0.0 : (double)INFINITY;
    double below = y < 0.0 ? (double)INFINITY : 0.0;
    bool is_finite = m <= 0x1.fffffffffffffp+1023;
    result = m == 0.0 ? below : (is_finite ? result : above);
    bool is_whole = ipu__trunc_f64(y) == y;
    bool is_odd = is_whole & (2.0 * ipu__trunc_f64(0.5 * y) != y);
    result = ipu__with_sign_f64(result, is_odd ? x : 1.0);
    bool is_complex = (x < 0.0) & is_finite & !is_whole;
    bool is_nan = is_complex | (x != x) | (y != y);
    bool is_one = (x == 1.0) | (y == 0.0);
    return is_one ? 1.0 : (is_nan ? (double)NAN : result);
}

/* log(1 + w) of w >= 0; of a large m log(2 m), which it is then. */
IPU_INLINE double
ipu__log_above_1_f64(ipu__pair w, double m)
{
    bool is_large = m > 0x1p28;
    ipu__pair u = ipu__sum_ordered(1.0, w.high);
    double all = is_large ? m : u.high;
    double lost = is_large ? 0.0 : u.low + w.low;
    ipu__wide_logarithm split = ipu__split_logarithm_f64(all);
    double k = split.k + (is_large ? 1.0 : 0.0);
    double excess = ipu__logarithm_excess(k, split.f, lost / all);
    return k * 0x1.62e42fefa3800p-1 - (excess - split.f);
}

/* asinh of m = |x| is log(1 + w), w = m + m^2 / (1 + sqrt(1 + m^2)). */
IPU_INLINE ipu__pair
ipu__asinh_argument(double x)
{
    double m = ipu__magnitude_f64(x);
    ipu__pair square = ipu__product(m, m);
    ipu__pair sum = ipu__sum_ordered(1.0, square.high);
    sum.low += square.low;
    ipu__pair root = ipu__root(sum);
    ipu__pair below = ipu__sum_ordered(root.high, 1.0);
    below.low += root.low;
    ipu__pair quotient = ipu__quotient(square, below);
    ipu__pair w = ipu__sum_ordered(m, quotient.high);
    w.low += quotient.low;
    return w;
}

/* Next to 0 x is the result. */
IPU_INLINE double
ipu__asinh_by_argument(double x, ipu__pair w)
{
    double m = ipu__magnitude_f64(x);
    double result = ipu__log_above_1_f64(w, m);
    bool is_between = m >= 0x1p-28 && m <= 0x1.fffffffffffffp+1023;
    return ipu__with_sign_f64(is_between ? result : m, x);
}

IPU_INLINE double
ipu__asinh_f64(double x)
{
    return ipu__asinh_by_argument(x, ipu__asinh_argument(x));
}

/* w = t + sqrt(t (t + 2)), t = x - 1 */
IPU_INLINE ipu__pair
ipu__acosh_argument(double x)
{
    double t = x - 1.0;
    ipu__pair more = ipu__sum_ordered(2.0, t);
    ipu__pair square = ipu__product(t, more.high);
    square.low += t * more.low;
    ipu__pair root = ipu__root(square);
    ipu__pair w = ipu__sum_ordered(root.high, t);
    w.low += root.low;
    return w;
}

IPU_INLINE double
ipu__acosh_by_argument(double x, ipu__pair w)
{
    double result = ipu__log_above_1_f64(w, x);
    result = x > 0x1.fffffffffffffp+1023 ? x : result;
    return x >= 1.0 ? result : (double)NAN;
}

IPU_INLINE double
ipu__acosh_f64(double x)
{
    return ipu__acosh_by_argument(x, ipu__acosh_argument(x));
}

/* u = (1 + m) / (1 - m), m = |x| */
IPU_INLINE ipu__pair
ipu__atanh_argument(double x)
{
    double m = ipu__magnitude_f64(x);
    return ipu__quotient(ipu__sum_ordered(1.0, m), ipu__sum_ordered(1.0, -m));
}

/* Half of log(u). Next to 0 x is the result. */
IPU_INLINE double
ipu__atanh_by_argument(double x, ipu__pair u)
{
    double m = ipu__magnitude_f64(x);
    ipu__wide_logarithm split = ipu__split_logarithm_f64(u.high);
    double excess = ipu__logarithm_excess(split.k, split.f, u.low / u.high);
    double result = 0.5 * (split.k * 0x1.62e42fefa3800p-1 - (excess - split.f));
    result = m >= 0x1p-28 ? result : m;
    result = m == 1.0 ? (double)INFINITY : result;
    return m <= 1.0 ? ipu__with_sign_f64(result, x) : (double)NAN;
}

IPU_INLINE double
ipu__atanh_f64(double x)
{
    return ipu__atanh_by_argument(x, ipu__atanh_argument(x));
}

/* max(x, 0) + log1p(e) with e = exp(-|x|); x itself where the rest is below its last
 * place, and e - e^2 / 2 where 1 + e has no bits for e. */
IPU_INLINE double
ipu__softplus_by_exp(double x, ipu__pair e)
{
    double high = e.high * 0x1p-128;
    double low = e.low * 0x1p-128;
    double u = 1.0 + high;
    double lost = (high - (u - 1.0)) + low;
    ipu__wide_logarithm split = ipu__split_logarithm_f64(u);
    double excess = ipu__logarithm_excess(split.k, split.f, lost / u);
    ipu__pair sum = ipu__sum(x > 0.0 ? x : 0.0, split.k * 0x1.62e42fefa3800p-1);
    ipu__pair all = ipu__sum(sum.high, split.f);
    double result = all.high + ((sum.low + all.low) - excess);
    result = x < -36.0 ? high + (low - 0.5 * high * high) : result;
    return x > 40.0 || x != x ? x : result;
}

IPU_INLINE double
ipu__softplus_f64(double x)
{
    return ipu__softplus_by_exp(x, ipu__falling_exp_f64(x));
}

/* --- sin, cos, tan and their inverses -------------------------------------------------
 */

/* (sin(r) / r - 1) / z and (cos(r) - 1 + z / 2) / z^2 of |r| <= pi / 4, z = r^2. */
IPU_INLINE double
ipu__sin_series(double z)
{
    double y = z * z;
    double s = (-0x1.a01a019c12512p-13 + 0x1.71de35785cddap-19 * z) +
               (-0x1.ae5e66c1bae65p-26 + 0x1.5d932987232d9p-33 * z) * y;
    return (-0x1.5555555555549p-3 + 0x1.111111110f880p-7 * z) + s * y;
}

IPU_INLINE double
ipu__cos_series(double z)
{
    double y = z * z;
    double c = (0x1.a01a019cb2594p-16 - 0x1.27e4f80a66019p-22 * z) +
               (0x1.1ee9ec3c27f6dp-29 - 0x1.8faec8fe5f79cp-37 * z) * y;
    return (0x1.555555555554cp-5 - 0x1.6c16c16c15184p-10 * z) + c * y;
}

/* sin and cos of the rest of x = n pi / 2 + r + low, |r| <= pi / 4. Below
 * IPU_WIDE_TURN_LIMIT n has at most 20 bits and pi / 2 is taken away in parts of 33
 * bits, whose products are exact, and a last one. Larger numbers go to the C library. */
#define IPU_WIDE_TURN_LIMIT 0x1p20

typedef struct ipu__wide_turn {
    double rest; /* r */
    ipu__pair sin;
    ipu__pair cos;
    uint64_t count; /* of quarters, in the lowest bits */
} ipu__wide_turn;

#define IPU_TURN_MAGIC 0x1.8p52

/* n, after the magic number is taken away. */
IPU_INLINE double
ipu__shifted_turns_f64(double x)
{
    return x * 0x1.45f306dc9c883p-1 + IPU_TURN_MAGIC;
}

IPU_INLINE ipu__pair
ipu__turn_rest_f64(double x)
{
    double n = ipu__shifted_turns_f64(x) - IPU_TURN_MAGIC;
    double away = x - n * 0x1.921fb54400000p+0;
    /* nothing is lost: the first number is a multiple of the second one's last place */
    ipu__pair first = ipu__sum_ordered(away, -(n * 0x1.0b4611a600000p-34));
    ipu__pair second = ipu__sum_ordered(first.high, -(n * 0x1.3198a2e000000p-69));
    double rest = (first.low + second.low) - n * 0x1.b839a252049c1p-104;
    return ipu__sum_ordered(second.high, rest);
}

IPU_INLINE ipu__wide_turn
ipu__turn_f64(double x, ipu__pair angle)
{
    double r = angle.high;
    double z = r * r;
    double half = 0.5 * z;
    double s = ipu__sin_series(z) * z * r + angle.low * (1.0 - half);
    double w = 1.0 - half;
    double more = ipu__cos_series(z) * z * z - r * angle.low;
    return (ipu__wide_turn){r, ipu__sum_ordered(r, s),
                            ipu__sum_ordered(w, ((1.0 - w) - half) + more),
                            ipu__double_bits(ipu__shifted_turns_f64(x))};
}

/* sin, and cos a quarter of a turn further. */
IPU_INLINE double
ipu__turned_f64(double x, uint64_t quarter)
{
    ipu__wide_turn turn = ipu__turn_f64(x, ipu__turn_rest_f64(x));
    uint64_t turns = turn.count + quarter;
    double result = (turns & 1) != 0 ? turn.cos.high : turn.sin.high;
    uint64_t bits = ipu__double_bits(result) ^ ((turns & 2) << 62);
    return x == 0.0 && quarter == 0 ? x : ipu__bits_double(bits);
}

IPU_INLINE double
ipu__near_sin_f64(double x)
{
    return ipu__turned_f64(x, 0);
}

IPU_INLINE double
ipu__near_cos_f64(double x)
{
    return ipu__turned_f64(x, 1);
}

/* The cosine gets back what the square of r has lost. */
IPU_INLINE double
ipu__tan_by_rest(double x, ipu__pair rest)
{
    ipu__wide_turn turn = ipu__turn_f64(x, rest);
    turn.cos.low -= 0.5 * ipu__product(turn.rest, turn.rest).low;
    bool odd = (turn.count & 1) != 0;
    ipu__pair above = {odd ? -turn.cos.high : turn.sin.high,
                       odd ? -turn.cos.low : turn.sin.low};
    ipu__pair below = {odd ? turn.sin.high : turn.cos.high,
                       odd ? turn.sin.low : turn.cos.low};
    return x == 0.0 ? x : ipu__divide_pairs(above, below);
}

IPU_INLINE double
ipu__near_tan_f64(double x)
{
    return ipu__tan_by_rest(x, ipu__turn_rest_f64(x));
}

IPU_INLINE double
ipu__sin_f64(double x)
{
    return ipu__magnitude_f64(x) < IPU_WIDE_TURN_LIMIT ? ipu__near_sin_f64(x) : sin(x);
}

IPU_INLINE double
ipu__cos_f64(double x)
{
    return ipu__magnitude_f64(x) < IPU_WIDE_TURN_LIMIT ? ipu__near_cos_f64(x) : cos(x);
}

IPU_INLINE double
ipu__tan_f64(double x)
{
    return ipu__magnitude_f64(x) < IPU_WIDE_TURN_LIMIT ? ipu__near_tan_f64(x) : tan(x);
}

/* Both of an angle in [0, 2 pi]: a = q pi / 2 + r, with pi / 2 in two parts of which
 * the first times q is exact. About 1 unit in the last place, which is enough for
 * random numbers. */
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
    double s = ipu__sin_series(z) * z * r + r;
    double c = ipu__cos_series(z) * z * z + (1.0 - 0.5 * z);
    uint64_t turns = ipu__double_bits(shifted);
    bool is_odd = (turns & 1) != 0;
    double x = is_odd ? s : c;
    double y = is_odd ? c : s;
    uint64_t x_sign = ((turns + 1) & 2) << 62;
    uint64_t y_sign = (turns & 2) << 62;
    return (ipu__point){ipu__bits_double(ipu__double_bits(x) ^ x_sign),
                        ipu__bits_double(ipu__double_bits(y) ^ y_sign)};
}

/* `quarters` quarters of a turn and `factor`, 1 or -1, times the angle, rounded once.
 */
IPU_INLINE double
ipu__turned_by(double quarters, double factor, ipu__pair angle)
{
    double base = quarters * 0x1.921fb54442d18p+0;
    ipu__pair sum = ipu__sum_ordered(base, factor * angle.high);
    double low = quarters * 0x1.1a62633145c07p-54 + factor * angle.low;
    return sum.high + (sum.low + low);
}

/* atan(a / b) of 0 <= a <= b, b > 0: above tan(pi / 8) half a quarter of a turn is
 * taken away, which leaves (a - b) / (a + b); then t + t^3 p(t^2). */
typedef struct ipu__wide_angle {
    double quarters;
    ipu__pair rest;
} ipu__wide_angle;

IPU_INLINE bool
ipu__is_middle_angle(double a, double b)
{
    return a > 0x1.a827999fcef32p-2 * b;
}

IPU_INLINE ipu__pair
ipu__angle_quotient(double a, double b)
{
    bool middle = ipu__is_middle_angle(a, b);
    ipu__pair above = ipu__sum_ordered(-b, a);
    ipu__pair below = ipu__sum_ordered(b, a);
    above = (ipu__pair){middle ? above.high : a, middle ? above.low : 0.0};
    below = (ipu__pair){middle ? below.high : b, middle ? below.low : 0.0};
    return ipu__quotient(above, below);
}

IPU_INLINE ipu__wide_angle
ipu__angle_by_quotient(double a, double b, ipu__pair t)
{
    double z = t.high * t.high;
    double y = z * z;
    double p = ipu__cubic(z, -0x1.5555555555554p-2, 0x1.999999999965ap-3,
                          -0x1.2492492475d49p-3, 0x1.c71c71b778755p-4);
    double q = ipu__cubic(z, -0x1.745d14bfc58c4p-4, 0x1.3b136eae2cee9p-4,
                          -0x1.110c79d1489c3p-4, 0x1.e17282ca9e353p-5);
    double r = ipu__cubic(z, -0x1.ab80a5eb83b7ep-5, 0x1.70f9945ee0ef2p-5,
                          -0x1.12535f6f95ac1p-5, 0x1.f2555edb03f7ep-7);
    p += (q + r * (y * y)) * (y * y);
    t.low = t.high * z * p + t.low * (1.0 - z);
    return (ipu__wide_angle){ipu__is_middle_angle(a, b) ? 0.5 : 0.0, t};
}

/* Above 1 it is a quarter of a turn less that of the inverse. */
#define IPU_WIDE_ATAN_LIMIT 0x1p60

IPU_INLINE ipu__pair
ipu__atan_quotient(double x)
{
    double m = ipu__magnitude_f64(x);
    bool far = m > 1.0;
    return ipu__angle_quotient(far ? 1.0 : m, far ? m : 1.0);
}

IPU_INLINE double
ipu__atan_by_quotient(double x, ipu__pair t)
{
    double m = ipu__magnitude_f64(x);
    bool far = m > 1.0;
    ipu__wide_angle angle = ipu__angle_by_quotient(far ? 1.0 : m, far ? m : 1.0, t);
    double factor = far ? -1.0 : 1.0;
    double quarters = (far ? 1.0 : 0.0) + factor * angle.quarters;
    return ipu__with_sign_f64(ipu__turned_by(quarters, factor, angle.rest), x);
}

IPU_INLINE double
ipu__near_atan_f64(double x)
{
    return ipu__atan_by_quotient(x, ipu__atan_quotient(x));
}

/* From the limit on it is that of the limit. */
IPU_INLINE double
ipu__atan_f64(double x)
{
    double m = ipu__magnitude_f64(x);
    m = m > IPU_WIDE_ATAN_LIMIT ? IPU_WIDE_ATAN_LIMIT : m;
    return ipu__near_atan_f64(ipu__with_sign_f64(m, x));
}

/* The angle of a = |y| and b = |x|, of which one is not 0. */
IPU_INLINE double
ipu__angle_around_f64(double a, double b, double y, double x)
{
    bool far = a > b;
    double less = far ? b : a;
    double more = far ? a : b;
    ipu__pair t = ipu__angle_quotient(less, more);
    ipu__wide_angle angle = ipu__angle_by_quotient(less, more, t);
    double ahead = ipu__with_sign_f64(1.0, x);
    double factor = far ? -ahead : ahead;
    double quarters = (far ? 1.0 : 1.0 - ahead) + factor * angle.quarters;
    return ipu__with_sign_f64(ipu__turned_by(quarters, factor, angle.rest), y);
}

/* Of magnitudes in [2^-200, 2^200). */
IPU_INLINE double
ipu__near_atan2_f64(double y, double x)
{
    return ipu__angle_around_f64(ipu__magnitude_f64(y), ipu__magnitude_f64(x), y, x);
}

/* Of two infinities the quotient is 1; of a finite number and one it is that of 0 and
 * 1. Tiny angles are the quotient; the others do not change when both sides are scaled
 * so that nothing overflows. */
IPU_INLINE double
ipu__atan2_f64(double y, double x)
{
    double a = ipu__magnitude_f64(y);
    double b = ipu__magnitude_f64(x);
    bool a_is_infinite = a > 0x1.fffffffffffffp+1023;
    bool b_is_infinite = b > 0x1.fffffffffffffp+1023;
    bool one_is = a_is_infinite | b_is_infinite;
    a = one_is ? (a_is_infinite ? 1.0 : a * 0.0) : a;
    b = one_is ? (b_is_infinite ? 1.0 : b * 0.0) : b;
    b = a + b == 0.0 ? 1.0 : b;
    double larger = a > b ? a : b;
    double scale = larger > 0x1p500 ? 0x1p-600 : (larger < 0x1p-400 ? 0x1p600 : 1.0);
    double result = ipu__angle_around_f64(a * scale, b * scale, y, x);
    bool is_small = (ipu__with_sign_f64(1.0, x) > 0.0) & (a < 0x1p-401 * b);
    return is_small ? ipu__with_sign_f64(a / b, y) : result;
}

/* The angle t with sin(t) = m of m <= 1/2, or that with cos(t) = m, of whose half the
 * sine's square is (1 - m) / 2: t = s + s z p(z), z the square of the sine. */
IPU_INLINE ipu__pair
ipu__arc_f64(double m, bool is_half)
{
    double square = 2.0 * (1.0 - m);
    ipu__pair root = ipu__root((ipu__pair){square, -0.0});
    ipu__pair s = {is_half ? root.high : m, is_half ? root.low : 0.0};
    double z = is_half ? 0.25 * square : m * m;
    double y = z * z;
    double p = ipu__cubic(z, 0x1.5555555555578p-3, 0x1.333333332df7ep-4,
                          0x1.6db6db72260c5p-5, 0x1.f1c71a8dc30f2p-6);
    double q = ipu__cubic(z, 0x1.6e8bdfa67454cp-6, 0x1.1c49e2bb11337p-6,
                          0x1.ca20ce15a8244p-7, 0x1.757b79f7e8c36p-7);
    double r = ipu__cubic(z, 0x1.6173f33811e65p-7, 0x1.e2bea5fc70455p-9,
                          0x1.6492a2d310728p-6, -0x1.59546b1c28aa1p-6);
    r += 0x1.0bb05a1eca83ep-5 * (y * y);
    p += (q + r * (y * y)) * (y * y);
    s.low = s.high * z * p + s.low * (1.0 + 0.5 * z);
    return s;
}

IPU_INLINE double
ipu__asin_f64(double x)
{
    double m = ipu__magnitude_f64(x);
    bool is_half = m > 0.5;
    ipu__pair arc = ipu__arc_f64(m, is_half);
    double result = ipu__turned_by(is_half ? 1.0 : 0.0, is_half ? -1.0 : 1.0, arc);
    return ipu__with_sign_f64(result, x);
}

IPU_INLINE double
ipu__acos_f64(double x)
{
    double m = ipu__magnitude_f64(x);
    bool is_half = m > 0.5;
    ipu__pair arc = ipu__arc_f64(m, is_half);
    double side = ipu__with_sign_f64(1.0, x);
    double quarters = is_half ? 1.0 - side : 1.0;
    return ipu__turned_by(quarters, is_half ? side : -side, arc);
}

/* --- digamma --------------------------------------------------------------------------
 */

/* Of x >= 0 that is finite: below 6 that of x + 6 less 1 / x + ... + 1 / (x + 5), a
 * quotient of the product's derivative and the product; then the asymptotic series.
 * Errors are up to 6 units in the last place, and next to the zero at 1.46 some of 1. */
IPU_INLINE double
ipu__near_digamma_f64(double x)
{
    bool is_below = x < 6.0;
    double y = x * x;
    double slope =
        ipu__cubic(x, 120.0, 548.0, 675.0, 340.0) + (75.0 + 6.0 * x) * (y * y);
    double product =
        x * (ipu__cubic(x, 120.0, 274.0, 225.0, 85.0) + (15.0 + x) * (y * y));
    double away = is_below ? slope / product : 0.0;
    double z = is_below ? x + 6.0 : x;
    double u = 1.0 / z;
    double w = u * u;
    double p = ipu__cubic(w, 0x1.5555555555554p-4, -0x1.11111111081d6p-7,
                          0x1.041040cddd08dp-8, -0x1.1110d24c52f30p-8);
    double q = ipu__cubic(w, 0x1.f0581fc9270b5p-8, -0x1.56bc6417c33bep-6,
                          0x1.3441db1e44d99p-4, -0x1.d82ac46131323p-3);
    double more = 0.5 * u + w * (p + q * ((w * w) * (w * w)));
    return (ipu__near_log_f64(z) - away) - more;
}

/* --- the logarithm of gamma -----------------------------------------------------------
 */

/* log(x), of which low may be a tenth. */
IPU_INLINE ipu__pair
ipu__lgamma_logarithm(double x)
{
    ipu__wide_logarithm split = ipu__split_logarithm_f64(x);
    ipu__pair log = ipu__sum_ordered(split.k * 0x1.62e42fefa3800p-1, split.f);
    log.low -= ipu__logarithm_excess(split.k, split.f, -0.0);
    return log;
}

/* Of normal x > 0, with that: up to 2.5 (y - 1) (y - 2) p(y), y = x, or below 1 y = x +
 * 1 less log(x); then Stirling's series. Errors are below 2 units in the last place. */
IPU_INLINE double
ipu__lgamma_by_logarithm(double x, ipu__pair log)
{
    bool is_below = x < 1.0;
    double first = x - (is_below ? 0.0 : 1.0);
    double second = x - (is_below ? 1.0 : 2.0);
    double t = first - 0.75;
    double z = (t * t) * (t * t);
    double a = ipu__cubic(t, -0x1.e965863079468p-4, 0x1.6cb6251711bfep-5,
                          -0x1.382e176f61a8bp-6, 0x1.1f9587f9df075p-7);
    double b = ipu__cubic(t, -0x1.14f7c58ddb9eap-8, 0x1.12aa7317c07f5p-9,
                          -0x1.160562c2e5e14p-10, 0x1.1daecd334e170p-11);
    double c = ipu__cubic(t, -0x1.28f254f58bcf8p-12, 0x1.3777b9b78877dp-13,
                          -0x1.491a2e3ba07abp-14, 0x1.5db605ece3d2ep-15);
    double d = ipu__cubic(t, -0x1.75985b6559ec0p-16, 0x1.934f7b7e44157p-17,
                          -0x1.b36f89fc1d219p-18, 0x1.bc288614a8831p-19);
    double e = ipu__cubic(t, -0x1.da283bf7637d4p-20, 0x1.6466af2260f6fp-20,
                          -0x1.96de2c77f8420p-21, -0x1.4f2eee50cdf17p-26);
    double f = 0x1.2e28aa208d972p-25 + 0x1.26685d9b46579p-22 * t -
               0x1.53912ed75244ep-23 * (t * t);
    double g = ipu__cubic(z, a, b, c, d) + (e + f * z) * ((z * z) * (z * z));
    ipu__pair p = ipu__sum_ordered(0x1.ccf151e09cde8p-2, t * g + 0x1.0e5c972249897p-58);
    ipu__pair sides = ipu__product(first, second);
    ipu__pair product = ipu__product(sides.high, p.high);
    product.low += sides.high * p.low + sides.low * p.high;
    ipu__pair sum = ipu__sum(is_below ? -log.high : 0.0, product.high);
    double near = sum.high + (sum.low + (product.low - (is_below ? log.low : 0.0)));
    double u = 1.0 / x;
    double w = u * u;
    double y = (w * w) * (w * w);
    double q = ipu__cubic(w, 0x1.5555555555555p-4, -0x1.6c16c16c12b00p-9,
                          0x1.a01a0184f0bfep-11, -0x1.38136f2886e69p-11);
    double r = ipu__cubic(w, 0x1.b94b855894f27p-11, -0x1.f5fb444389807p-10,
                          0x1.9dc2180747582p-8, -0x1.ba5bb1fa433c4p-6);
    double s = ipu__cubic(w, 0x1.081742bc2ec59p-3, -0x1.2b2dfbf1b36a1p-1,
                          0x1.176bdb54f3da5p+1, -0x1.7cac2743f4a8ap+2);
    q += (r + (s + (0x1.467b20084edb1p+3 + -0x1.04e1fe60fc02dp+3 * w) * y) * y) * y;
    q = u * q + 0x1.3494bc9001442p-56;
    ipu__pair rest = ipu__sum_ordered(0x1.acfe390c97d69p-2, q);
    double log_less = (log.high - 1.0) + log.low;
    double far = ((x - 0.5) * log_less + rest.high) + rest.low;
    return x < 2.5 ? near : far;
}

/* --- the normal distribution ---------------------------------------------------------
 */

/* erf(x) - x of |x| < IPU_ERF_LIMIT. */
#define IPU_ERF_LIMIT 0.7

IPU_INLINE double
ipu__erf_excess(double x)
{
    double z = x * x;
    double y = z * z;
    double p = ipu__cubic(z, -0x1.812746b0379e6p-2, 0x1.ce2f21a042a2bp-4,
                          -0x1.b82ce31279ed2p-6, 0x1.565bcd0a789c1p-8);
    double q = ipu__cubic(z, -0x1.c02db2ca6d980p-11, 0x1.f9a2ec1c2d3a9p-14,
                          -0x1.f4cb3253d665cp-17, 0x1.b9574d829bcbcp-20);
    q += (-0x1.5871446d64e1ep-23 + 0x1.97d34daffc180p-27 * z) * (y * y);
    return x * (0x1.06eba8214db69p-3 + z * (p + q * (y * y)));
}

/* exp(-square) 2^128 of a square in [0, 800], so that results below the smallest normal
 * number are rounded once. */
IPU_INLINE ipu__pair
ipu__normal_power(ipu__pair square)
{
    ipu__pair x = {-square.high, -square.low};
    ipu__wide_exponent e = ipu__split_exponent_pair(x, x.high);
    ipu__pair part = ipu__sum_ordered(1.0, e.part.high);
    double scale = ipu__bits_double(e.power + (UINT64_C(1151) << 52));
    return (ipu__pair){part.high * scale, (part.low + e.part.low) * scale};
}

/* That of m^2, m = |x|. Above 28 erfc(m) is 0. */
IPU_INLINE ipu__pair
ipu__erf_power(double x)
{
    double m = ipu__magnitude_f64(x);
    m = m > 28.0 ? 28.0 : m;
    return ipu__normal_power(ipu__product(m, m));
}

/* That of x^2 / 2. */
IPU_INLINE ipu__pair
ipu__gelu_power(double x)
{
    double m = ipu__magnitude_f64(x);
    m = m > 39.5 ? 39.5 : m;
    ipu__pair square = ipu__product(m, m);
    return ipu__normal_power((ipu__pair){0.5 * square.high, 0.5 * square.low});
}

/* erfc(m) of larger m: exp(-m^2) p(t) / (1 + 2 m) with t = (m - 3.75) / (m + 3.75)
 * (Shepherd and Laframboise 1981). */
IPU_INLINE double
ipu__erf_tail(double magnitude, ipu__pair power)
{
    double m = magnitude > 28.0 ? 28.0 : magnitude;
    double t = (m - 3.75) / (m + 3.75);
    double y = (t * t) * (t * t);
    double a = ipu__cubic(t, -0x1.1f367683f89a6p-3, 0x1.d5f294815b5a6p-9,
                          0x1.510169d096735p-4, -0x1.bda9309a2beeap-4);
    double b = ipu__cubic(t, 0x1.7a14188a9c062p-4, -0x1.e0d0fa6d4556bp-5,
                          0x1.d0b0037cfeb7dp-6, -0x1.3f603c5d0a782p-7);
    double c = ipu__cubic(t, 0x1.cc3a0ec2f30c2p-10, 0x1.33fb4ecdcc9c6p-12,
                          -0x1.303fb0bf7d863p-12, 0x1.b13d8daa5bbeep-15);
    double d = ipu__cubic(t, 0x1.778ff283d0a7ap-16, -0x1.7fb18f74a52e5p-17,
                          -0x1.0641644a43455p-20, 0x1.d1203d72b6445p-20);
    double g = ipu__cubic(t, -0x1.b13321637a730p-25, -0x1.f8a88da58e58fp-23,
                          0x1.0ef88fd083406p-26, 0x1.7d9d32c540d3dp-26);
    a += (b + (c + (d + g * y) * y) * y) * y;
    ipu__pair p = ipu__sum_ordered(0x1.3ccda0b5d5dc2p+0, t * a);
    p.low += 0x1.c901a5bd9c8a8p-54;
    ipu__pair above = ipu__product(power.high, p.high);
    above.low += power.high * p.low + power.low * p.high;
    return 0x1p-128 * ipu__divide_pairs(above, ipu__sum_ordered(2.0 * m, 1.0));
}

IPU_INLINE double
ipu__erf_by_power(double x, ipu__pair power)
{
    double m = ipu__magnitude_f64(x);
    double outer = ipu__with_sign_f64(1.0 - ipu__erf_tail(m, power), x);
    return m >= IPU_ERF_LIMIT ? outer : x + ipu__erf_excess(x);
}

IPU_INLINE double
ipu__erfc_by_power(double x, ipu__pair power)
{
    double m = ipu__magnitude_f64(x);
    double outer = ipu__erf_tail(m, power);
    ipu__pair rest = ipu__sum_ordered(1.0, -x);
    double inner = rest.high + (rest.low - ipu__erf_excess(x));
    return m >= IPU_ERF_LIMIT ? (x < 0.0 ? 2.0 - outer : outer) : inner;
}

IPU_INLINE double
ipu__erf_f64(double x)
{
    return ipu__erf_by_power(x, ipu__erf_power(x));
}

IPU_INLINE double
ipu__erfc_f64(double x)
{
    return ipu__erfc_by_power(x, ipu__erf_power(x));
}

/* x times the normal distribution at x. */
IPU_INLINE double
ipu__gelu_by_power(double x, ipu__pair power)
{
    return x * (0.5 * ipu__erfc_by_power(x * -0x1.6a09e667f3bcdp-1, power));
}

IPU_INLINE double
ipu__gelu_grad_by_power(double x, double dy, ipu__pair power)
{
    double below = 0.5 * ipu__erfc_by_power(x * -0x1.6a09e667f3bcdp-1, power);
    double density = (power.high + power.low) * 0x1.9884533d43651p-130;
    return dy * (below + x * density);
}

IPU_INLINE double
ipu__gelu_f64(double x)
{
    return ipu__gelu_by_power(x, ipu__gelu_power(x));
}

IPU_INLINE double
ipu__gelu_grad_f64(double x, double dy)
{
    return ipu__gelu_grad_by_power(x, dy, ipu__gelu_power(x));
}

/* The quantile of the normal distribution by quotients of polynomials (Wichura 1988,
 * AS241, PPND16), without its sign in the outer ranges: the central one, for q = p -
 * 0.5 with |q| <= 0.425; the next for r - 1.6 with r = sqrt(-log(min(p, 1 - p))) <= 5,
 * which is all that two standard deviations need; and the last for r - 5. Errors are up
 * to 6 units in the last place. The first two ranges, which differ in numbers alone, are
 * one function, of the logarithm of 1 - p. */
#define NEXT(sum, center, outer) sum = sum * r + (is_center ? (center) : (outer));
IPU_INLINE double
ipu__quantile_inside(double q, double rest_log)
{
    const bool is_center = q <= 0.425;
    double r = is_center ? 0.180625 - q * q : __builtin_sqrt(-rest_log) - 1.6;
    double upper = is_center ? 2.5090809287301226727e+3 : 7.74545014278341407640e-4;
    NEXT(upper, 3.3430575583588128105e+4, 2.27238449892691845833e-2)
    NEXT(upper, 6.7265770927008700853e+4, 2.41780725177450611770e-1)
    NEXT(upper, 4.5921953931549871457e+4, 1.27045825245236838258)
    NEXT(upper, 1.3731693765509461125e+4, 3.64784832476320460504)
    NEXT(upper, 1.9715909503065514427e+3, 5.76949722146069140550)
    NEXT(upper, 1.3314166789178437745e+2, 4.63033784615654529590)
    NEXT(upper, 3.3871328727963666080, 1.42343711074968357734)
    double lower = is_center ? 5.2264952788528545610e+3 : 1.05075007164441684324e-9;
    NEXT(lower, 2.8729085735721942674e+4, 5.47593808499534494600e-4)
    NEXT(lower, 3.9307895800092710610e+4, 1.51986665636164571966e-2)
    NEXT(lower, 2.1213794301586595867e+4, 1.48103976427480074590e-1)
    NEXT(lower, 5.3941960214247511077e+3, 6.89767334985100004550e-1)
    NEXT(lower, 6.8718700749205790830e+2, 1.67638483018380384940)
    NEXT(lower, 4.2313330701600911252e+1, 2.05319162663775882187)
    lower = lower * r + 1.0;
    return (is_center ? q : 1.0) * (upper / lower);
}
#undef NEXT

IPU_INLINE double
ipu__quantile_last(double r)
{
    double upper = 2.01033439929228813265e-7;
    upper = upper * r + 2.71155556874348757815e-5;
    upper = upper * r + 1.24266094738807843860e-3;
    upper = upper * r + 2.65321895265761230930e-2;
    upper = upper * r + 2.96560571828504891230e-1;
    upper = upper * r + 1.78482653991729133580e0;
    upper = upper * r + 5.46378491116411436990e0;
    upper = upper * r + 6.65790464350110377720e0;
    double lower = 2.04426310338993978564e-15;
    lower = lower * r + 1.42151175831644588870e-7;
    lower = lower * r + 1.84631831751005468180e-5;
    lower = lower * r + 7.86869131145613259100e-4;
    lower = lower * r + 1.48753612908506148525e-2;
    lower = lower * r + 1.36929880922735805310e-1;
    lower = lower * r + 5.99832206555887937690e-1;
    lower = lower * r + 1.0;
    return upper / lower;
}

/* Of the larger half: q = p - 0.5 >= 0, and 1 - p. */
IPU_INLINE double
ipu__quantile_above(double q, double rest)
{
    double rest_log = ipu__log_f64(rest);
    double r = __builtin_sqrt(-rest_log);
    double inside = ipu__quantile_inside(q, rest_log);
    double result = r > 5.0 ? ipu__quantile_last(r - 5.0) : inside;
    return rest == 0.0 ? (double)INFINITY : result;
}

/* The same of 1 - p >= 2^-36: no last range. */
#define IPU_QUANTILE_REST 0x1p-36

IPU_INLINE double
ipu__near_quantile_above(double q, double rest)
{
    return ipu__quantile_inside(q, ipu__near_log_f64(rest));
}

IPU_INLINE double
ipu__near_ndtri_f64(double p)
{
    double q = p - 0.5;
    double size = ipu__magnitude_f64(q);
    double above = ipu__near_quantile_above(size, q < 0.0 ? p : 1.0 - p);
    return ipu__with_sign_f64(above, q);
}

IPU_INLINE double
ipu__ndtri_f64(double p)
{
    double q = p - 0.5;
    double above = ipu__quantile_above(ipu__magnitude_f64(q), q < 0.0 ? p : 1.0 - p);
    return ipu__with_sign_f64(above, q);
}

/* By the quantile at (1 + x) / 2. */
IPU_INLINE double
ipu__near_erfinv_f64(double x)
{
    double half = 0.5 * ipu__magnitude_f64(x);
    double result = ipu__near_quantile_above(half, 0.5 - half) * 0x1.6a09e667f3bcdp-1;
    return ipu__with_sign_f64(result, x);
}

IPU_INLINE double
ipu__erfinv_f64(double x)
{
    double half = 0.5 * ipu__magnitude_f64(x);
    double result = ipu__quantile_above(half, 0.5 - half) * 0x1.6a09e667f3bcdp-1;
    return ipu__with_sign_f64(result, x);
}

/* The quantile at a word, as a probability between those of the normal distribution at
 * -2 and at 2: no last range. */
IPU_INLINE double
ipu__truncated_normal_f64(uint32_t word)
{
    const double below = 0.022750131948179207200; /* of the distribution at -2 */
    const double u = ((double)word + 0.5) * 0x1p-32;
    const double q = below + u * (1.0 - 2.0 * below) - 0.5;
    const double size = ipu__magnitude_f64(q);
    return ipu__with_sign_f64(ipu__near_quantile_above(size, 0.5 - size), q);
}

#endif
