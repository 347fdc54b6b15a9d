/* SPDX-License-Identifier: MIT
 *
 * exp, log, tanh and their like of one float32, as straight-line code that a compiler
 * turns into vectors: no branch, no table, no call. The vector body of a loop, its
 * tail, the fused forms and all classes of processors expand these same functions, so
 * their results are equal to the bit. Polynomials are least-maximum fits; errors are
 * below 2 units in the last place where a function does not say otherwise. NaN gives
 * NaN. */
#ifndef IPU_KERNELS_ELEMENT_MATH_H
#define IPU_KERNELS_ELEMENT_MATH_H

#include <math.h>
#include <string.h>

#include "kernels/core/kernel_impl.h"

IPU_INLINE uint32_t
ipu__float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

IPU_INLINE float
ipu__bits_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

IPU_INLINE uint64_t
ipu__double_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

IPU_INLINE double
ipu__bits_double(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

IPU_INLINE float
ipu__pick(bool condition, float a, float b)
{
    return condition ? a : b;
}

IPU_INLINE float
ipu__magnitude_f32(float x)
{
    return ipu__bits_float(ipu__float_bits(x) & 0x7fffffffu);
}

IPU_INLINE float
ipu__with_sign_f32(float magnitude, float x)
{
    return ipu__bits_float(ipu__float_bits(magnitude) |
                           (ipu__float_bits(x) & 0x80000000u));
}

/* To float with the last bit set where bits are lost ("round to odd"): a rounding to a
 * half is then as good as one. Below the normal floats, where halves are 0, to the
 * nearest. */
IPU_INLINE float
ipu__float_to_odd(double x)
{
    const uint64_t lost = 0x1fffffff;
    uint64_t bits = ipu__double_bits(x);
    bits |= (bits & lost) + lost; /* sets the last bit that stays */
    return (float)ipu__bits_double(bits & ~lost);
}

/* a * b + c, rounded once. Where the target has no instruction for it a loop cannot
 * call the C library and stay a vector: there it is done in double, in which the
 * product is exact, and the sum is rounded to odd by what it lost (Knuth's two-sum). */
#if defined(IPU_FMA_BY_DOUBLES)
IPU_INLINE float
ipu__fma_f32(float a, float b, float c)
{
    double product = (double)a * (double)b;
    double wide = (double)c;
    double sum = product + wide;
    double part = sum - product;
    double lost = (product - (sum - part)) + (wide - part);
    uint64_t bits = ipu__double_bits(sum);
    uint64_t toward = (lost > 0.0) == (sum > 0.0) ? 0 : 1;
    bool inexact = (lost > 0.0) | (lost < 0.0);
    uint64_t odd = (bits - toward) | 1u;
    return (float)ipu__bits_double(inexact ? odd : bits);
}
#else
IPU_INLINE float
ipu__fma_f32(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}
#endif

/* p z + (a + b x) with z = x^2: two steps of a polynomial at once, whose chain is half
 * as long as that of one step after the other. */
IPU_INLINE float
ipu__two_steps_f32(float p, float z, float a, float b, float x)
{
    return ipu__fma_f32(p, z, ipu__fma_f32(b, x, a));
}

/* x = n log(2) + r with |r| <= log(2) / 2 and a whole number n, rounded by adding
 * 1.5 * 2^23, which leaves it in the low bits. */
typedef struct ipu__exponent {
    uint32_t power; /* n in the upper 9 bits: to be added to those of a float */
    float r;
} ipu__exponent;

IPU_INLINE ipu__exponent
ipu__split_exponent_f32(float x)
{
    const float magic = 12582912.0f;
    float shifted = ipu__fma_f32(x, 1.44269504088896341f, magic);
    float n = shifted - magic;
    float r = ipu__fma_f32(n, -0.693145752f, x); /* with 15 bits less: exact */
    r = ipu__fma_f32(n, -1.42860677e-6f, r);
    return (ipu__exponent){ipu__float_bits(shifted) << 23, r};
}

/* exp(r) - 1, |r| <= log(2) / 2; relative error 2^-26. */
IPU_INLINE float
ipu__small_expm1_f32(float r)
{
    float p = 1.388251665e-3f;
    p = ipu__fma_f32(p, r, 8.366547525e-3f);
    p = ipu__fma_f32(p, r, 4.166720062e-2f);
    p = ipu__fma_f32(p, r, 1.666654348e-1f);
    p = ipu__fma_f32(p, r, 4.999999702e-1f);
    return ipu__fma_f32(p, r * r, r);
}

/* 2^n exp(r). 2^n is applied as two factors, so that results below the smallest normal
 * number are rounded once and large ones overflow to infinity. */
IPU_INLINE float
ipu__exp_f32(float x)
{
    float clamped = x > 89.0f ? 89.0f : x;
    clamped = clamped < -104.0f ? -104.0f : clamped;
    ipu__exponent e = ipu__split_exponent_f32(clamped);
    float p = ipu__small_expm1_f32(e.r) + 1.0f;
    bool small = clamped < 0.0f;
    uint32_t first = e.power + (small ? (127u + 64u) << 23 : (127u - 1u) << 23);
    return p * ipu__bits_float(first) * (small ? 0x1p-64f : 2.0f);
}

/* The same for x <= 0, with less to do. */
IPU_INLINE float
ipu__exp_negative_f32(float x)
{
    ipu__exponent e = ipu__split_exponent_f32(x < -104.0f ? -104.0f : x);
    float p = ipu__small_expm1_f32(e.r) + 1.0f;
    return p * ipu__bits_float(e.power + ((127u + 64u) << 23)) * 0x1p-64f;
}

/* The same of x > -87, where it is a normal number. */
IPU_INLINE float
ipu__near_exp_negative_f32(float x)
{
    ipu__exponent e = ipu__split_exponent_f32(x);
    float p = ipu__small_expm1_f32(e.r) + 1.0f;
    return ipu__bits_float(ipu__float_bits(p) + e.power);
}

/* z = 2^k m, m in [0.699, 1.398): k, and m - 1. z is positive and normal. */
typedef struct ipu__logarithm {
    float k;
    float f;
    uint32_t power; /* k in the upper 9 bits */
} ipu__logarithm;

IPU_INLINE ipu__logarithm
ipu__split_logarithm_f32(float z)
{
    uint32_t bits = ipu__float_bits(z);
    uint32_t power = (bits - 0x3f330000u) & 0xff800000u;
    float k = (float)((int32_t)power >> 23);
    return (ipu__logarithm){k, ipu__bits_float(bits - power) - 1.0f, power};
}

/* k log(2) + log(1 + f) */
IPU_INLINE float
ipu__join_logarithm_f32(float k, float f)
{
    float z = f * f;
    float p = -8.461417258e-2f;
    p = ipu__two_steps_f32(p, z, -1.304568052e-1f, 1.313702166e-1f, f);
    p = ipu__two_steps_f32(p, z, -1.662805527e-1f, 1.414489150e-1f, f);
    p = ipu__two_steps_f32(p, z, -2.500076294e-1f, 2.000372261e-1f, f);
    p = ipu__two_steps_f32(p, z, -0.5f, 3.333330452e-1f, f);
    p = ipu__fma_f32(k, 1.42860677e-6f, p * z);
    return ipu__fma_f32(k, 0.693145752f, f + p);
}

/* Of normal numbers above 0 that are not infinite. */
IPU_INLINE float
ipu__near_log_f32(float x)
{
    ipu__logarithm split = ipu__split_logarithm_f32(x);
    return ipu__join_logarithm_f32(split.k, split.f);
}

/* Numbers below the smallest normal one are scaled up first. */
IPU_INLINE ipu__logarithm
ipu__split_any_logarithm_f32(float x)
{
    bool tiny = x < 1.17549435e-38f;
    ipu__logarithm split = ipu__split_logarithm_f32(tiny ? x * 8388608.0f : x);
    split.k += tiny ? -23.0f : 0.0f;
    return split;
}

/* `log`, which is x's logarithm where that is a number. */
IPU_INLINE float
ipu__end_logarithm_f32(float x, float log)
{
    log = x > 3.4028234e38f ? x : log;
    log = x == 0.0f ? -INFINITY : log;
    return x >= 0.0f ? log : NAN;
}

IPU_INLINE float
ipu__log_f32(float x)
{
    ipu__logarithm split = ipu__split_any_logarithm_f32(x);
    return ipu__end_logarithm_f32(x, ipu__join_logarithm_f32(split.k, split.f));
}

/* e / (e + 2) with e = expm1(2 |x|); the sign of x, also of -0. */
IPU_INLINE float
ipu__tanh_f32(float x)
{
    float magnitude = ipu__magnitude_f32(x);
    ipu__exponent split =
        ipu__split_exponent_f32(2.0f * (magnitude > 10.0f ? 10.0f : magnitude));
    float scale = ipu__bits_float(split.power + (127u << 23));
    float e = ipu__fma_f32(scale, ipu__small_expm1_f32(split.r), scale - 1.0f);
    return ipu__with_sign_f32(e / (e + 2.0f), x);
}

/* e = exp(-|x|): 1 / (1 + e) for positive x, e / (1 + e) for negative ones. */
IPU_INLINE float
ipu__sigmoid_f32(float x)
{
    float e = ipu__exp_negative_f32(-ipu__magnitude_f32(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/* Floats of 2^23 and more are integers already. Adding 2^23 with the sign of x rounds;
 * what was rounded up goes down by one. The sign of zero is kept. */
IPU_INLINE float
ipu__floor_f32(float x)
{
    uint32_t sign = ipu__float_bits(x) & 0x80000000u;
    float magnitude = ipu__bits_float(ipu__float_bits(x) & 0x7fffffffu);
    float nearest = (magnitude + 8388608.0f) - 8388608.0f;
    nearest = ipu__bits_float(ipu__float_bits(nearest) | sign);
    float down = nearest - ipu__pick(nearest > x, 1.0f, 0.0f);
    down = ipu__bits_float(ipu__float_bits(down) | (sign & (0u - (down == 0.0f))));
    return ipu__pick(magnitude < 8388608.0f, down, x);
}

/* To the nearest whole number, the even one of two; floats of 2^23 are whole. */
IPU_INLINE float
ipu__round_f32(float x)
{
    float magnitude = ipu__magnitude_f32(x);
    float nearest = (magnitude + 8388608.0f) - 8388608.0f;
    return ipu__pick(magnitude < 8388608.0f, ipu__with_sign_f32(nearest, x), x);
}

IPU_INLINE float
ipu__trunc_f32(float x)
{
    float magnitude = ipu__magnitude_f32(x);
    float nearest = (magnitude + 8388608.0f) - 8388608.0f;
    float down = nearest - ipu__pick(nearest > magnitude, 1.0f, 0.0f);
    return ipu__pick(magnitude < 8388608.0f, ipu__with_sign_f32(down, x), x);
}

IPU_INLINE float
ipu__ceil_f32(float x)
{
    float negative = ipu__floor_f32(-x);
    return -negative;
}

/* u = 1 + x rounded is 2^k m; what the rounding has lost is added to m - 1. Its factor
 * is doubled, so that there is one for k = 128, too. */
IPU_INLINE float
ipu__log1p_any_f32(float x)
{
    float u = 1.0f + x;
    float lost = x - (u - 1.0f);
    ipu__logarithm split = ipu__split_logarithm_f32(u);
    float scale = ipu__bits_float((128u << 23) - split.power);
    return ipu__join_logarithm_f32(split.k, ipu__fma_f32(lost * scale, 0.5f, split.f));
}

IPU_INLINE float
ipu__log1p_f32(float x)
{
    float result = ipu__log1p_any_f32(x);
    result = x == 0.0f || x > 3.4028234e38f ? x : result;
    result = x == -1.0f ? -INFINITY : result;
    return x >= -1.0f ? result : NAN;
}

/* 2^n (expm1(r) + 1) - 1 as twice 2^(n - 1) expm1(r) + (2^(n - 1) - 1 / 2), which
 * overflows where the result does. Next to 0 x is the result, also -0. */
IPU_INLINE float
ipu__expm1_f32(float x)
{
    float clamped = x > 89.0f ? 89.0f : x;
    clamped = clamped < -25.0f ? -25.0f : clamped;
    ipu__exponent e = ipu__split_exponent_f32(clamped);
    float half = ipu__bits_float(e.power + (126u << 23));
    float result = 2.0f * ipu__fma_f32(half, ipu__small_expm1_f32(e.r), half - 0.5f);
    return ipu__magnitude_f32(x) < 0x1p-25f ? x : result;
}

IPU_INLINE float
ipu__softplus_f32(float x)
{
    float rest = ipu__log1p_any_f32(ipu__exp_negative_f32(-ipu__magnitude_f32(x)));
    return (x > 0.0f ? x : 0.0f) + rest;
}

/* x P(x^2) up to 1; then 1 - exp(Q(|x|)), with Q fitted to the logarithm of erfc, which
 * is below half of the last place from 4 on. Both least-maximum fits. */
IPU_INLINE float
ipu__erf_f32(float x)
{
    float magnitude = ipu__magnitude_f32(x);
    float z = x * x;
    float y = z * z;
    float p = ipu__fma_f32(7.889119297e-5f, z, -8.020841051e-4f);
    p = ipu__two_steps_f32(p, y, -2.685444430e-2f, 5.189535208e-3f, z);
    p = ipu__two_steps_f32(p, y, -3.761262596e-1f, 1.128360033e-1f, z);
    p = ipu__fma_f32(p, z, 1.128379107f);
    float m = magnitude > 4.0f ? 4.0f : magnitude;
    float u = m * m;
    float q = 1.971820311e-4f;
    q = ipu__two_steps_f32(q, u, 2.227709815e-2f, -3.055610461e-3f, m);
    q = ipu__two_steps_f32(q, u, -6.370597482e-1f, -1.040373817e-1f, m);
    q = ipu__two_steps_f32(q, u, -1.774914999e-4f, -1.127749562f, m);
    float far = ipu__with_sign_f32(1.0f - ipu__near_exp_negative_f32(q), x);
    return ipu__pick(magnitude >= 1.0f, far, x * p);
}

/* The normal distribution at -m, m = |x|, as exp(-m^2 / 2) times a quotient of
 * polynomials, which serves both sides of 0: what is small there is relatively exact.
 * Beyond 14.5 it is 0 as a float. */
typedef struct ipu__normal_side {
    float m; /* at most 14.5 */
    float tail;
    float power; /* exp(-m^2 / 2) 2^64, so that it is a normal number */
} ipu__normal_side;

/* The square and r are twice the exponent, with what the square's rounding has lost;
 * the magic number has the 64 of the power in its low bits. Both sides of the quotient
 * begin with a number, so that the roundings of the other terms are small next to 0. */
IPU_INLINE ipu__normal_side
ipu__normal_side_f32(float x)
{
    const float magic = 12582976.0f;
    uint32_t bits = ipu__float_bits(x) & 0x7fffffffu;
    float m = ipu__bits_float(bits < 0x41680000u ? bits : 0x41680000u);
    float square = m * m;
    float lost = ipu__fma_f32(m, m, -square);
    float shifted = ipu__fma_f32(square, -0.721347520f, magic);
    float n = shifted - magic;
    float r = ipu__fma_f32(n, -2.0f * 0.693145752f, -square);
    r += ipu__fma_f32(n, -2.0f * 1.42860677e-6f, -lost);
    float p = ipu__small_expm1_f32(0.5f * r);
    uint32_t exponent = ipu__float_bits(shifted) << 23;
    float above = ipu__fma_f32(3.064195160e-3f, m, 3.033132665e-2f);
    above = ipu__two_steps_f32(above, square, 3.281961381e-1f, 1.370174140e-1f, m);
    above = ipu__fma_f32(above, m, 0.375f);
    above = ipu__fma_f32(p, above, above);
    above = ipu__bits_float(ipu__float_bits(above) + exponent);
    float below = 7.680706680e-3f * 0x1p64f;
    below = ipu__two_steps_f32(below, square, 3.510183096e-1f * 0x1p64f,
                               7.603428513e-2f * 0x1p64f, m);
    below = ipu__two_steps_f32(below, square, 1.254805923f * 0x1p64f,
                               9.002221227e-1f * 0x1p64f, m);
    below = ipu__fma_f32(below, m, 0.75f * 0x1p64f);
    float power = ipu__bits_float(ipu__float_bits(1.0f + p) + exponent);
    return (ipu__normal_side){m, above / below, power};
}

/* x times the normal distribution at x. */
IPU_INLINE float
ipu__gelu_f32(float x)
{
    ipu__normal_side side = ipu__normal_side_f32(x);
    return x < 0.0f ? x * side.tail : ipu__fma_f32(-side.m, side.tail, x);
}

IPU_INLINE float
ipu__gelu_grad_f32(float x, float dy)
{
    ipu__normal_side side = ipu__normal_side_f32(x);
    float below = x < 0.0f ? side.tail : 1.0f - side.tail;
    float density = side.power * (0.398942280f * 0x1p-64f);
    return dy * ipu__fma_f32(x, density, below);
}

/* sin, and cos a quarter of a turn further: x = n pi / 2 + r, |r| <= pi / 4. */

/* Below IPU_NEAR_LIMIT pi / 2 is taken away in three parts: the first difference is
 * exact, since both sides are multiples of 2^-24 that agree except a remainder
 * below 1. */
#define IPU_NEAR_LIMIT 8192.0f

typedef struct ipu__near_turn {
    float rest;     /* r */
    uint32_t count; /* n, in the lowest bits */
} ipu__near_turn;

IPU_INLINE ipu__near_turn
ipu__near_turn_f32(float x)
{
    const float magic = 12582912.0f;
    float shifted = ipu__fma_f32(x, 0.636619772f, magic);
    float n = shifted - magic;
    float r = ipu__fma_f32(n, -0x1.921fb6p+0f, x);
    r = ipu__fma_f32(n, 0x1.777a5cp-25f, r);
    r = ipu__fma_f32(n, 0x1.ee59dap-50f, r);
    return (ipu__near_turn){r, ipu__float_bits(shifted)};
}

IPU_INLINE float
ipu__near_turned_f32(float x, uint32_t quarter)
{
    ipu__near_turn turn = ipu__near_turn_f32(x);
    float r = turn.rest;
    float z = r * r;
    float s = ipu__fma_f32(-1.951601153e-4f, z, 8.332168683e-3f);
    s = ipu__fma_f32(s, z, -1.666665524e-1f);
    s = ipu__fma_f32(s, z * r, r);
    float c = ipu__fma_f32(2.443166704e-5f, z, -1.388730365e-3f);
    c = ipu__fma_f32(c, z, 4.166664556e-2f);
    c = ipu__fma_f32(c, z * z, ipu__fma_f32(z, -0.5f, 1.0f));
    uint32_t turns = turn.count + quarter;
    float result = (turns & 1) != 0 ? c : s;
    result = ipu__bits_float(ipu__float_bits(result) ^ ((turns & 2) << 30));
    return x == 0.0f && quarter == 0 ? x : result;
}

/* Further out in double, with pi / 2 in three parts of which the first two times n are
 * exact. Arguments of IPU_TURN_LIMIT and more go to the C library. */
#define IPU_TURN_LIMIT 0x1p26f

typedef struct ipu__turn {
    double rest;    /* of x, at most an eighth of a turn */
    uint64_t count; /* of quarters, in the lowest bits */
} ipu__turn;

IPU_INLINE ipu__turn
ipu__turn_f32(float x)
{
    const double magic = 0x1.8p52;
    double wide = (double)x;
    double shifted = wide * 0x1.45f306dc9c883p-1 + magic;
    double n = shifted - magic;
    double r = wide - n * 0x1.921fb5p+0;
    r = r - n * 0x1.110b46p-26;
    r = r - n * 0x1.1a62633145c07p-54;
    return (ipu__turn){r, ipu__double_bits(shifted)};
}

/* Taylor's polynomials, whose error is far below a float's last place. */
IPU_INLINE float
ipu__turned_f32(float x, uint64_t quarter)
{
    ipu__turn turn = ipu__turn_f32(x);
    double r = turn.rest;
    double z = r * r;
    double s = -1.0 / 39916800.0;
    s = s * z + 1.0 / 362880.0;
    s = s * z - 1.0 / 5040.0;
    s = s * z + 1.0 / 120.0;
    s = s * z - 1.0 / 6.0;
    s = (s * z + 1.0) * r;
    double c = -1.0 / 3628800.0;
    c = c * z + 1.0 / 40320.0;
    c = c * z - 1.0 / 720.0;
    c = c * z + 1.0 / 24.0;
    c = c * z - 0.5;
    c = c * z + 1.0;
    uint64_t turns = turn.count + quarter;
    uint64_t odd = UINT64_C(0) - (turns & 1);
    uint64_t bits = (ipu__double_bits(c) & odd) | (ipu__double_bits(s) & ~odd);
    return (float)ipu__bits_double(bits ^ ((turns & 2) << 62));
}

/* A sum of two that has more digits than one. */
typedef struct ipu__narrow_pair {
    float high;
    float low;
} ipu__narrow_pair;

/* log2(x) of a normal x > 0 that is not infinite: s = (m - 1) / (m + 1) with x = 2^k m,
 * log2(x) = k + 2 / log(2) atanh(s). */
IPU_INLINE ipu__narrow_pair
ipu__log2_pair_f32(float x)
{
    ipu__logarithm split = ipu__split_logarithm_f32(x);
    float below = 2.0f + split.f;
    float below_low = split.f - (below - 2.0f);
    float inverse = 1.0f / below;
    float s = split.f * inverse;
    float rest = ipu__fma_f32(-s, below, split.f);
    float s_low = ipu__fma_f32(-s, below_low, rest) * inverse;
    float z = s * s;
    float p = ipu__fma_f32(1.184103563e-1f, z, 1.426609308e-1f);
    p = ipu__fma_f32(p, z, 2.000020593e-1f);
    p = ipu__fma_f32(p, z, 3.333333135e-1f) * z;
    float high = s * 0x1.715476p+1f;
    float low = ipu__fma_f32(s, 0x1.715476p+1f, -high);
    low = ipu__fma_f32(s_low, 0x1.715476p+1f, low);
    low = ipu__fma_f32(s, 0x1.4ae0c0p-25f, low);
    float sum = split.k + high;
    low = ipu__fma_f32(high, p, low) + ((split.k - sum) + high);
    float log2 = sum + low;
    return (ipu__narrow_pair){log2, low - (log2 - sum)};
}

/* 2^(y log2), and 1 of a log2 that is 0, whatever y is. */
IPU_INLINE float
ipu__exp2_product_f32(ipu__narrow_pair log2, float y)
{
    const float magic = 12582912.0f;
    float e = y * log2.high;
    float e_low = ipu__fma_f32(y, log2.low, ipu__fma_f32(y, log2.high, -e));
    float shifted = e + magic;
    float r = (e - (shifted - magic)) + e_low;
    float t = ipu__small_expm1_f32(r * 0.693147181f) + 1.0f;
    bool small = e < 0.0f;
    uint32_t exponent = ipu__float_bits(shifted) << 23;
    uint32_t first = exponent + (small ? (127u + 64u) << 23 : (127u - 2u) << 23);
    float result = t * ipu__bits_float(first) * (small ? 0x1p-64f : 4.0f);
    result = e > 129.0f ? INFINITY : result;
    result = e < -151.0f ? 0.0f : result;
    return log2.high == 0.0f ? 1.0f : result;
}

/* x^y of such an x. */
IPU_INLINE float
ipu__pow_normal_f32(float x, float y)
{
    return ipu__exp2_product_f32(ipu__log2_pair_f32(x), y);
}

#endif
