/* SPDX-License-Identifier: MIT
 *
 * exp, log, tanh and their like of one float32, as straight-line code that a compiler
 * turns into vectors: no branch, no table, no call. The vector body of a loop, its
 * tail and the fused forms all expand these same functions, so their results are
 * equal to the bit. Polynomials are those of Cephes (Moshier); errors are about 2
 * units in the last place. NaN gives NaN. */
#ifndef IPU_KERNELS_ELEMENT_MATH_H
#define IPU_KERNELS_ELEMENT_MATH_H

#include <math.h>
#include <string.h>

#include "kernels/kernel_impl.h"

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

/* condition ? a : b without a branch: gcc does not turn a branch around arithmetic into
 * vectors while floating-point traps are honoured. */
IPU_INLINE float
ipu__pick(bool condition, float a, float b)
{
    uint32_t mask = 0u - (uint32_t)condition;
    return ipu__bits_float((ipu__float_bits(a) & mask) | (ipu__float_bits(b) & ~mask));
}

/* exp(x) = 2^n exp(r), |r| <= log(2) / 2. Adding 1.5 * 2^23 rounds to an integer and
 * leaves n in the low bits. 2^n is applied as two factors, so that results below the
 * smallest normal number are rounded once and large ones overflow to infinity. */
IPU_INLINE float
ipu__exp_f32(float x)
{
    const float magic = 12582912.0f;
    float clamped = ipu__pick(x > 89.0f, 89.0f, x);
    clamped = ipu__pick(clamped < -104.0f, -104.0f, clamped);
    float shifted = clamped * 1.44269504088896341f + magic;
    float n = shifted - magic;
    float r = clamped - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r;
    p = p + 1.0f;
    int32_t power = (int32_t)(ipu__float_bits(shifted) - 0x4b400000u);
    int32_t half = power >> 1;
    uint32_t first = ((uint32_t)half + 127u) << 23;
    uint32_t second = ((uint32_t)power - (uint32_t)half + 127u) << 23;
    return p * ipu__bits_float(first) * ipu__bits_float(second);
}

/* log(x) = log(m) + e log(2), m in [sqrt(1/2), sqrt(2)). Numbers below the smallest
 * normal one are scaled up first. */
IPU_INLINE float
ipu__log_f32(float x)
{
    bool tiny = x < 1.17549435e-38f;
    float scaled = ipu__pick(tiny, x * 8388608.0f, x);
    float shift = ipu__pick(tiny, -23.0f, 0.0f);
    uint32_t bits = ipu__float_bits(scaled);
    float e = (float)((int32_t)((bits >> 23) & 255u) - 126) + shift;
    float m = ipu__bits_float((bits & 0x007fffffu) | 0x3f000000u);
    float low = ipu__pick(m < 0.707106781186547524f, 1.0f, 0.0f);
    e = e - low;
    m = (m + m * low) - 1.0f;
    float z = m * m;
    float y = 7.0376836292e-2f;
    y = y * m - 1.1514610310e-1f;
    y = y * m + 1.1676998740e-1f;
    y = y * m - 1.2420140846e-1f;
    y = y * m + 1.4249322787e-1f;
    y = y * m - 1.6668057665e-1f;
    y = y * m + 2.0000714765e-1f;
    y = y * m - 2.4999993993e-1f;
    y = y * m + 3.3333331174e-1f;
    y = y * m * z;
    y = y + e * -2.12194440e-4f;
    y = y - 0.5f * z;
    float result = (m + y) + e * 0.693359375f;
    result = ipu__pick(x > 3.4028234e38f, x, result);
    result = ipu__pick(x == 0.0f, -INFINITY, result);
    return ipu__pick(x >= 0.0f, result, NAN);
}

/* A polynomial around 0, elsewhere 1 - 2 / (exp(2|x|) + 1); the sign of x, also of -0. */
IPU_INLINE float
ipu__tanh_f32(float x)
{
    float magnitude = ipu__bits_float(ipu__float_bits(x) & 0x7fffffffu);
    float z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    p = p * z * x + x;
    float far = 1.0f - 2.0f / (ipu__exp_f32(magnitude + magnitude) + 1.0f);
    float result = ipu__pick(magnitude < 0.625f, p, far);
    return ipu__bits_float(ipu__float_bits(result)
                           | (ipu__float_bits(x) & 0x80000000u));
}

/* 1 / (1 + exp(-x)). Where exp(-x) is above the largest float, the result is exp(x), a
 * number below the smallest normal one: exp(-x) is taken 64 lower, which is exact and
 * leaves it so large that the 1 is lost, and the quotient multiplied by exp(-64). */
IPU_INLINE float
ipu__sigmoid_f32(float x)
{
    bool far = x < -88.7f;
    float e = ipu__exp_f32(ipu__pick(far, -x - 64.0f, -x));
    return 1.0f / (1.0f + e) * ipu__pick(far, 1.6038109e-28f, 1.0f);
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

IPU_INLINE float
ipu__magnitude_f32(float x)
{
    return ipu__bits_float(ipu__float_bits(x) & 0x7fffffffu);
}

IPU_INLINE float
ipu__with_sign_f32(float magnitude, float x)
{
    return ipu__bits_float(ipu__float_bits(magnitude)
                           | (ipu__float_bits(x) & 0x80000000u));
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

/* log(u) x / (u - 1) with u = 1 + x rounded: what rounding u loses, the quotient gives
 * back (Kahan). */
IPU_INLINE float
ipu__log1p_f32(float x)
{
    float u = 1.0f + x;
    float result = ipu__log_f32(u) * (x / (u - 1.0f));
    result = ipu__pick(u == 1.0f, x, result);
    return ipu__pick(u > 3.4028234e38f, u, result);
}

/* 2^n (expm1(r) + 1) - 1, in the order that keeps small results; above 17 the one is
 * below the last place. */
IPU_INLINE float
ipu__expm1_f32(float x)
{
    const float magic = 12582912.0f;
    float clamped = ipu__pick(x > 18.0f, 18.0f, x);
    clamped = ipu__pick(clamped < -25.0f, -25.0f, clamped);
    float shifted = clamped * 1.44269504088896341f + magic;
    float n = shifted - magic;
    float r = clamped - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r;
    int32_t power = (int32_t)(ipu__float_bits(shifted) - 0x4b400000u);
    float scale = ipu__bits_float(((uint32_t)power + 127u) << 23);
    float result = scale * p + (scale - 1.0f);
    result = ipu__pick(x > 17.0f, ipu__exp_f32(x), result);
    return ipu__pick(x == 0.0f, x, result);
}

IPU_INLINE float
ipu__softplus_f32(float x)
{
    float rest = ipu__log1p_f32(ipu__exp_f32(-ipu__magnitude_f32(x)));
    return ipu__pick(x > 0.0f, x, 0.0f) + ipu__pick(x != x, x, rest);
}

/* x P(x^2) up to 1; then 1 - exp(Q(|x|)), with Q fitted to the logarithm of erfc, which
 * is below half of the last place from 4 on. Both least-maximum fits. */
IPU_INLINE float
ipu__erf_f32(float x)
{
    float magnitude = ipu__magnitude_f32(x);
    float z = x * x;
    float p = 7.889119297e-5f;
    p = p * z - 8.020841051e-4f;
    p = p * z + 5.189535208e-3f;
    p = p * z - 2.685444430e-2f;
    p = p * z + 1.128360033e-1f;
    p = p * z - 3.761262596e-1f;
    p = p * z + 1.128379107f;
    float m = ipu__pick(magnitude > 4.0f, 4.0f, magnitude);
    float q = 1.971820311e-4f;
    q = q * m - 3.055610461e-3f;
    q = q * m + 2.227709815e-2f;
    q = q * m - 1.040373817e-1f;
    q = q * m - 6.370597482e-1f;
    q = q * m - 1.127749562f;
    q = q * m - 1.774914999e-4f;
    float far = ipu__with_sign_f32(1.0f - ipu__exp_f32(q), x);
    return ipu__pick(magnitude < 1.0f, x * p, far);
}

/* sin and cos: x = n pi / 2 + r in double, |r| <= pi / 4, with pi / 2 in three parts of
 * which the first two times n are exact; then Taylor's polynomials, whose error is far
 * below a float's last place. Arguments of IPU_TURN_LIMIT and more go to the C library.
 */
#define IPU_TURN_LIMIT 0x1p26f

IPU_INLINE float
ipu__turned_f32(float x, uint64_t quarter)
{
    const double magic = 0x1.8p52;
    double wide = (double)x;
    double shifted = wide * 0x1.45f306dc9c883p-1 + magic;
    double n = shifted - magic;
    double r = wide - n * 0x1.921fb5p+0;
    r = r - n * 0x1.110b46p-26;
    r = r - n * 0x1.1a62633145c07p-54;
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
    uint64_t turns;
    uint64_t s_bits;
    uint64_t c_bits;
    memcpy(&turns, &shifted, sizeof turns);
    memcpy(&s_bits, &s, sizeof s_bits);
    memcpy(&c_bits, &c, sizeof c_bits);
    turns += quarter;
    uint64_t odd = UINT64_C(0) - (turns & 1);
    uint64_t bits = (c_bits & odd) | (s_bits & ~odd);
    bits ^= (turns & 2) << 62;
    double result;
    memcpy(&result, &bits, sizeof result);
    return (float)result;
}

/* 0 > x, so that NaN and -0 pass as they do in an AVX max(0, x). */
IPU_INLINE float
ipu__relu_f32(float x)
{
    return 0.0f > x ? 0.0f : x;
}

/* 0 where `y` is, whatever the value is there: a function's argument is computed on all
 * elements, so that loops need no branch around a division. */
IPU_INLINE float
ipu__unless_zero_f32(float y, float value)
{
    return y == 0.0f ? 0.0f : value;
}

#endif
