/* SPDX-License-Identifier: MIT
 *
 * tan, inverse and hyperbolic functions of one float32 or two, in float32, like
 * element_math.h: straight-line code, polynomials that are least-maximum fits with a
 * relative error of 2^-24 or less of the result. Errors are below 3 units in the last
 * place. A constant that a result is taken from has a second part, its rounding. */
#ifndef IPU_KERNELS_NARROW_MATH_H
#define IPU_KERNELS_NARROW_MATH_H

#include "kernels/math/wide_math.h"

/* x + x z p(z) of an odd function, z = x^2. */
IPU_INLINE float
ipu__odd_f32(float x, float z, float p)
{
    return ipu__fma_f32(x * z, p, x);
}

/* --- sin, cos and their inverses ------------------------------------------------------
 */

/* Below IPU_NEAR_LIMIT; in odd quarters -1 / tan. */
IPU_INLINE float
ipu__near_tan_f32(float x)
{
    ipu__near_turn turn = ipu__near_turn_f32(x);
    float z = turn.rest * turn.rest;
    float p = 9.391731583e-3f;
    p = ipu__fma_f32(p, z, 3.108798061e-3f);
    p = ipu__fma_f32(p, z, 2.443747409e-2f);
    p = ipu__fma_f32(p, z, 5.340905115e-2f);
    p = ipu__fma_f32(p, z, 1.333882958e-1f);
    p = ipu__fma_f32(p, z, 3.333315551e-1f);
    float t = ipu__odd_f32(turn.rest, z, p);
    float result = ipu__pick((turn.count & 1) != 0, -1.0f / t, t);
    return ipu__pick(x == 0.0f, x, result);
}

/* From there to IPU_TURN_LIMIT in double. */
IPU_INLINE float
ipu__far_tan_f32(float x)
{
    ipu__turn turn = ipu__turn_f32(x);
    double r = turn.rest;
    double z = r * r;
    double s = r + ipu__sin_series(z) * z * r;
    double c = 1.0 + (ipu__cos_series(z) * z * z - 0.5 * z);
    bool odd = (turn.count & 1) != 0;
    return (float)((odd ? -c : s) / (odd ? s : c));
}

IPU_INLINE float
ipu__tan_f32(float x)
{
    float m = ipu__magnitude_f32(x);
    return m < IPU_NEAR_LIMIT   ? ipu__near_tan_f32(x)
           : m < IPU_TURN_LIMIT ? ipu__far_tan_f32(x)
                                : (float)tan((double)x);
}

#define IPU_HALF_PI 1.57079637f
#define IPU_HALF_PI_REST 4.37113883e-8f /* by which it is too large */

/* atan(t) of t in [0, 1] */
IPU_INLINE float
ipu__angle_f32(float t)
{
    float z = t * t;
    float p = 2.919756342e-3f;
    p = ipu__fma_f32(p, z, -1.636423729e-2f);
    p = ipu__fma_f32(p, z, 4.320597276e-2f);
    p = ipu__fma_f32(p, z, -7.551728934e-2f);
    p = ipu__fma_f32(p, z, 1.066578627e-1f);
    p = ipu__fma_f32(p, z, -1.421100348e-1f);
    p = ipu__fma_f32(p, z, 1.999376714e-1f);
    p = ipu__fma_f32(p, z, -3.333315253e-1f);
    return ipu__odd_f32(t, z, p);
}

IPU_INLINE float
ipu__atan_f32(float x)
{
    float m = ipu__magnitude_f32(x);
    bool far = m > 1.0f;
    float angle = ipu__angle_f32(ipu__pick(far, 1.0f / m, m));
    float rest = IPU_HALF_PI - (angle + IPU_HALF_PI_REST);
    return ipu__with_sign_f32(ipu__pick(far, rest, angle), x);
}

/* Of two infinities the quotient is 1, of two zeros 0. */
IPU_INLINE float
ipu__atan2_f32(float y, float x)
{
    float a = ipu__magnitude_f32(y);
    float b = ipu__magnitude_f32(x);
    bool steep = a > b;
    float small = ipu__pick(steep, b, a);
    float large = ipu__pick(steep, a, b);
    float t = small / ipu__pick(large == 0.0f, 1.0f, large);
    bool infinite = (small == INFINITY) & (large == INFINITY);
    float angle = ipu__angle_f32(ipu__pick(infinite, 1.0f, t));
    float rest = IPU_HALF_PI - (angle + IPU_HALF_PI_REST);
    angle = ipu__pick(steep, rest, angle);
    bool behind = ipu__float_bits(x) >> 31 != 0;
    rest = 2.0f * IPU_HALF_PI - (angle + 2.0f * IPU_HALF_PI_REST);
    return ipu__with_sign_f32(ipu__pick(behind, rest, angle), y);
}

/* asin(|x|) up to 1 / 2; above half of pi / 2 - asin(|x|), which is asin of
 * sqrt((1 - |x|) / 2). */
typedef struct ipu__part_angle {
    float angle;
    bool upper;
} ipu__part_angle;

IPU_INLINE ipu__part_angle
ipu__part_of_asin_f32(float x)
{
    float m = ipu__magnitude_f32(x);
    bool upper = m > 0.5f;
    float z = ipu__pick(upper, 0.5f - 0.5f * m, m * m);
    float s = ipu__pick(upper, __builtin_sqrtf(z), m);
    float p = 4.215830564e-2f;
    p = ipu__fma_f32(p, z, 2.418477833e-2f);
    p = ipu__fma_f32(p, z, 4.546914995e-2f);
    p = ipu__fma_f32(p, z, 7.495309412e-2f);
    p = ipu__fma_f32(p, z, 1.666675210e-1f);
    return (ipu__part_angle){ipu__odd_f32(s, z, p), upper};
}

IPU_INLINE float
ipu__asin_f32(float x)
{
    ipu__part_angle part = ipu__part_of_asin_f32(x);
    float rest = (IPU_HALF_PI - 2.0f * part.angle) - IPU_HALF_PI_REST;
    return ipu__with_sign_f32(ipu__pick(part.upper, rest, part.angle), x);
}

IPU_INLINE float
ipu__acos_f32(float x)
{
    ipu__part_angle part = ipu__part_of_asin_f32(x);
    float twice = 2.0f * part.angle;
    float rest = 2.0f * IPU_HALF_PI - (twice + 2.0f * IPU_HALF_PI_REST);
    float above = ipu__pick(x < 0.0f, rest, twice);
    float angle = ipu__with_sign_f32(part.angle, x);
    float below = IPU_HALF_PI - (angle + IPU_HALF_PI_REST);
    return ipu__pick(part.upper, above, below);
}

/* --- exponentials and logarithms ------------------------------------------------------
 */

/* exp(m) / 4 of m >= 0; from 89.5 on four times that overflows. */
IPU_INLINE float
ipu__quarter_exp_f32(float m)
{
    ipu__exponent e = ipu__split_exponent_f32(m > 89.5f ? 89.5f : m);
    float quarter = ipu__bits_float(e.power + (125u << 23));
    return ipu__fma_f32(quarter, ipu__small_expm1_f32(e.r), quarter);
}

/* 2 (g - 1 / (16 g)) with 4 g = exp(|x|), from 1 on. */
IPU_INLINE float
ipu__sinh_f32(float x)
{
    float m = ipu__magnitude_f32(x);
    float z = m * m;
    float p = 2.782213187e-6f;
    p = ipu__fma_f32(p, z, 1.984289556e-4f);
    p = ipu__fma_f32(p, z, 8.333310485e-3f);
    p = ipu__fma_f32(p, z, 1.666666716e-1f);
    float g = ipu__quarter_exp_f32(m);
    float far = 2.0f * (g - 0.0625f / g);
    float near = ipu__odd_f32(m, z, p);
    return ipu__with_sign_f32(ipu__pick(m < 1.0f, near, far), x);
}

IPU_INLINE float
ipu__cosh_f32(float x)
{
    float g = ipu__quarter_exp_f32(ipu__magnitude_f32(x));
    return 2.0f * (g + 0.0625f / g);
}

/* k + log(1 + f) / log(2) */
IPU_INLINE float
ipu__join_log2_f32(float k, float f)
{
    float p = 1.377159357e-1f;
    p = ipu__fma_f32(p, f, -2.117023319e-1f);
    p = ipu__fma_f32(p, f, 2.138476670e-1f);
    p = ipu__fma_f32(p, f, -2.383275926e-1f);
    p = ipu__fma_f32(p, f, 2.880212963e-1f);
    p = ipu__fma_f32(p, f, -3.607271612e-1f);
    p = ipu__fma_f32(p, f, 4.809081256e-1f);
    p = ipu__fma_f32(p, f, -7.213471532e-1f);
    p = ipu__fma_f32(p, f, 1.442695022e+0f);
    return ipu__fma_f32(f, p, k);
}

/* As ipu__near_log_f32. */
IPU_INLINE float
ipu__near_log2_f32(float x)
{
    ipu__logarithm split = ipu__split_logarithm_f32(x);
    return ipu__join_log2_f32(split.k, split.f);
}

IPU_INLINE float
ipu__log2_f32(float x)
{
    ipu__logarithm split = ipu__split_any_logarithm_f32(x);
    return ipu__end_logarithm_f32(x, ipu__join_log2_f32(split.k, split.f));
}

/* log(1 + w), or, of x from 2^26 on, log(2 x). */
IPU_INLINE float
ipu__log_of_sum_f32(float w, float x)
{
    bool far = x >= 0x1p26f;
    float log = ipu__log1p_any_f32(ipu__pick(far, x, w));
    return log + ipu__pick(far, 0.693147181f, 0.0f);
}

/* log(m + sqrt(m^2 + 1)) of m = |x|: that of m < 1 / 2, and w with log(1 + w) from
 * there on. */
IPU_INLINE ipu__narrow_pair
ipu__parts_of_asinh_f32(float x)
{
    float m = ipu__magnitude_f32(x);
    float z = m * m;
    float y = z * z;
    float p = -1.322839968e-2f;
    p = ipu__two_steps_f32(p, y, -4.438331723e-2f, 2.816349640e-2f, z);
    p = ipu__two_steps_f32(p, y, -1.666664332e-1f, 7.498642057e-2f, z);
    float w = m + z / (1.0f + __builtin_sqrtf(1.0f + z));
    return (ipu__narrow_pair){ipu__odd_f32(m, z, p), w};
}

IPU_INLINE float
ipu__join_asinh_f32(float x, ipu__narrow_pair parts)
{
    float m = ipu__magnitude_f32(x);
    float far = ipu__log_of_sum_f32(parts.low, m);
    float result = ipu__pick(m < 0.5f, parts.high, far);
    return m <= 3.4028234e38f ? ipu__with_sign_f32(result, x) : x;
}

/* log(x + sqrt(x^2 - 1)) */
IPU_INLINE float
ipu__acosh_f32(float x)
{
    float above = x - 1.0f;
    float w = above + __builtin_sqrtf(ipu__fma_f32(above, above, 2.0f * above));
    float result = ipu__log_of_sum_f32(w, x);
    result = x > 3.4028234e38f ? x : result;
    return x >= 1.0f ? result : NAN;
}

/* log((1 + m) / (1 - m)) / 2 of m = |x|, likewise. */
IPU_INLINE ipu__narrow_pair
ipu__parts_of_atanh_f32(float x)
{
    float m = ipu__magnitude_f32(x);
    float z = m * m;
    float y = z * z;
    float p = ipu__fma_f32(1.763785034e-1f, z, 5.160436034e-2f);
    p = ipu__two_steps_f32(p, y, 1.422378570e-1f, 1.181638613e-1f, z);
    p = ipu__two_steps_f32(p, y, 3.333330154e-1f, 2.000245303e-1f, z);
    return (ipu__narrow_pair){ipu__odd_f32(m, z, p), 2.0f * m / (1.0f - m)};
}

IPU_INLINE float
ipu__join_atanh_f32(float x, ipu__narrow_pair parts)
{
    float m = ipu__magnitude_f32(x);
    float far = 0.5f * ipu__log1p_any_f32(parts.low);
    float result = ipu__pick(m < 0.5f, parts.high, far);
    result = m == 1.0f ? INFINITY : result;
    return m <= 1.0f ? ipu__with_sign_f32(result, x) : NAN;
}

/* x times a polynomial of w = -log(1 - x^2), or of its root (Giles, "Approximating the
 * erfinv function", 2010). */
IPU_INLINE float
ipu__erfinv_f32(float x)
{
    float m = ipu__magnitude_f32(x);
    ipu__logarithm split = ipu__split_logarithm_f32((1.0f - m) * (1.0f + m));
    float w = -ipu__join_logarithm_f32(split.k, split.f);
    float u = w - 2.5f;
    float y = u * u;
    float p = ipu__fma_f32(-8.264390949e-9f, u, 2.797954046e-8f);
    p = ipu__two_steps_f32(p, y, -3.521437293e-6f, 4.602503338e-7f, u);
    p = ipu__two_steps_f32(p, y, 2.185707272e-4f, -4.944398825e-6f, u);
    p = ipu__two_steps_f32(p, y, -4.177664407e-3f, -1.252755057e-3f, u);
    p = ipu__two_steps_f32(p, y, 1.501409411e+0f, 2.466402799e-1f, u);
    float v = __builtin_sqrtf(w < 5.0f ? 5.0f : w) - 3.0f;
    float t = v * v;
    float q = -2.095002274e-4f;
    q = ipu__two_steps_f32(q, t, 1.365422970e-3f, 1.027830658e-4f, v);
    q = ipu__two_steps_f32(q, t, 5.730199628e-3f, -3.674833803e-3f, v);
    q = ipu__two_steps_f32(q, t, 9.440816008e-3f, -7.622440346e-3f, v);
    q = ipu__two_steps_f32(q, t, 2.832976818e+0f, 1.001674175e+0f, v);
    float result = x * ipu__pick(w < 5.0f, p, q);
    result = m == 1.0f ? ipu__with_sign_f32(INFINITY, x) : result;
    return m <= 1.0f ? result : NAN;
}

#endif
