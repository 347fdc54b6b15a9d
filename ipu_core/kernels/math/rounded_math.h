/* SPDX-License-Identifier: MIT
 *
 * Functions of one float32, computed in float64 and rounded once: errors before
 * that are below 2^-33, so results are those of float64, rounded, but where they lie
 * halfway between two floats. Straight-line code, as in wide_math.h; polynomials
 * are least-maximum fits. Every float32 but 0 is a normal float64, and no square of one
 * overflows. */
#ifndef IPU_KERNELS_ROUNDED_MATH_H
#define IPU_KERNELS_ROUNDED_MATH_H

#include "kernels/math/wide_math.h"

/* log(1 + f) = 2 s + s^3 p(s^2) with s = f / (2 + f), where 1 + f is in
 * [sqrt(1/2), sqrt(2)). */
IPU_INLINE double
ipu__rough_log1p(double f)
{
    double s = f / (2.0 + f);
    double z = s * s;
    double p = (0x1.55555555651d6p-1 + 0x1.999998c941835p-2 * z) +
               (0x1.2493250ae695bp-2 + 0x1.c67a5cfeec0c4p-3 * z) * (z * z);
    p += 0x1.8c945ef9f70f4p-3 * ((z * z) * (z * z));
    return 2.0 * s + s * z * p;
}

/* --- the normal distribution ----------------------------------------------------------
 */

/* exp(-m^2) times a polynomial of (m - 2.5) / (m + 2.5), m = |x|; below 10.3, where it
 * is 0 as a float. */
IPU_INLINE float
ipu__erfc_f32(float x)
{
    double m = (double)ipu__magnitude_f32(x);
    m = m > 10.3 ? 10.3 : m;
    double t = (m - 2.5) / (m + 2.5);
    double z = t * t;
    double y = z * z;
    double p = (0x1.afbb3f3b6f633p-3 - 0x1.7ca88dea4139ap-2 * t) +
               (0x1.01c11a71a5075p-2 - 0x1.001154f9f8dfbp-3 * t) * z;
    double q = (0x1.470ba484386dfp-5 - 0x1.05b9c3351786cp-8 * t) +
               (-0x1.5a58a5899c6b4p-9 + 0x1.caefa324e9c09p-11 * t) * z;
    double r = (0x1.df3034caf4485p-13 - 0x1.0a442104e7401p-13 * t) +
               (-0x1.1c7c212e2ffc5p-15 + 0x1.01684190fd5a2p-16 * t) * z;
    p += (q + (r + 0x1.9600853d044fdp-18 * y) * y) * y;
    double above = p * ipu__near_exp_f64(-(m * m));
    return (float)(x < 0.0f ? 2.0 - above : above);
}

IPU_INLINE float
ipu__near_ndtri_f32(float p)
{
    return (float)ipu__near_ndtri_f64((double)p);
}

IPU_INLINE float
ipu__ndtri_f32(float p)
{
    return (float)ipu__ndtri_f64((double)p);
}

/* --- the logarithm of gamma, and its derivative ---------------------------------------
 */

IPU_INLINE float
ipu__near_digamma_f32(float x)
{
    return (float)ipu__near_digamma_f64((double)x);
}

IPU_INLINE float
ipu__digamma_f32(float x)
{
    return (float)ipu__digamma_f64((double)x);
}

/* Of x >= 0 that is finite: up to 2.5 (y - 1) (y - 2) p(y), y = x, or below 1 y = x + 1
 * less log(x); then Stirling's series. */
IPU_INLINE float
ipu__near_lgamma_f32(float x)
{
    double m = (double)x;
    ipu__wide_logarithm split = ipu__split_logarithm_f64(m);
    double log = ipu__rough_log1p(split.f) + split.k * 0x1.62e42fefa39efp-1;
    double below = m < 1.0 ? 1.0 : 0.0;
    double y = m + below;
    double t = y - 1.75;
    double z = (t * t) * (t * t);
    double a = ipu__cubic(t, 0x1.ccf151e092d63p-2, -0x1.e965862fb3122p-4,
                          0x1.6cb6255d87aadp-5, -0x1.382e1872ef5ebp-6);
    double b = ipu__cubic(t, 0x1.1f955f80d35a7p-7, -0x1.14f762a824e81p-8,
                          0x1.12b343d60d4d2p-9, -0x1.16163b93c1bd6p-10);
    double c = ipu__cubic(t, 0x1.1cbf36af5cedcp-11, -0x1.276f967c726fbp-12,
                          0x1.4519b432c9222p-13, -0x1.5c8371aad1b40p-14);
    double d = ipu__cubic(t, 0x1.e52728ba32db2p-16, -0x1.d6d9cb0958072p-17,
                          0x1.9627b4886680dp-16, -0x1.cc203a8ea96dep-17);
    /* 0 at 1 and 2 is not -0 */
    double near = 0.0 - below * log - (1.0 - y) * (y - 2.0) * ipu__cubic(z, a, b, c, d);
    double u = 1.0 / m;
    double w = u * u;
    double q = ipu__cubic(w, 0x1.55555554a5439p-4, -0x1.6c16979d3dcdcp-9,
                          0x1.9fe64df56f451p-11, -0x1.321360adc9483p-11);
    q += (0x1.634c0b74c98a8p-11 - 0x1.4bdbba47498ccp-11 * w) * (w * w) * (w * w);
    double far = (m - 0.5) * (log - 1.0) + (0x1.acfe390c97d6ap-2 + u * q);
    float result = (float)(m < 2.5 ? near : far);
    return x == 0.0f ? INFINITY : result;
}

IPU_INLINE float
ipu__lgamma_f32(float x)
{
    bool is_near = x >= 0.0f && x < INFINITY;
    return is_near ? ipu__near_lgamma_f32(x) : (float)ipu__lgamma((double)x);
}

/* --- Bessel functions -----------------------------------------------------------------
 */

/* a + b y + ... + f y^5 */
IPU_INLINE double
ipu__quintic(double y, double a, double b, double c, double d, double e, double f)
{
    double z = y * y;
    return (a + b * y) + ((c + d * y) + (e + f * y) * z) * z;
}

/* I0(m) exp(-m) = sqrt(s) p(t) with m = |x|, s = 7 / (m + 7), t = 1 - 2 s: also far out,
 * where it is like 1 / sqrt(m). */
IPU_INLINE float
ipu__bessel_i0e_f32(float x)
{
    double s = 7.0 / ((double)ipu__magnitude_f32(x) + 7.0);
    double t = 1.0 - 2.0 * s;
    double a = ipu__cubic(t, 0x1.bd45a676848c0p-3, -0x1.e329f3d938d9dp-4,
                          0x1.9038acb6360dap-4, -0x1.7af14bfdc9f26p-4);
    double b = ipu__cubic(t, 0x1.8933cbc903b74p-4, -0x1.b5c13e95b1272p-4,
                          0x1.eafe7d34b3a8ap-4, -0x1.e4fa58d43dd86p-4);
    double c = ipu__cubic(t, 0x1.46f0f0048686ap-4, -0x1.7a9bfea8fbe14p-8,
                          -0x1.a786206a2f259p-5, 0x1.239299bb59b1bp-5);
    double d = ipu__cubic(t, 0x1.89da665814cecp-6, -0x1.16288649549b3p-5,
                          -0x1.8ee5627a18b1ap-7, 0x1.a91fbafae56cap-6);
    double e = ipu__cubic(t, 0x1.c0d15e1ee9aacp-8, -0x1.0cc4d24e9b645p-6,
                          -0x1.bb1c36cc5cef3p-9, 0x1.fc0a5963783e7p-8);
    double f = ipu__cubic(t, 0x1.247e9d22fec4fp-10, -0x1.331031593d66dp-9,
                          -0x1.69e5adb296b41p-13, 0x1.5bfac0e8aab99p-12);
    double p = ipu__quintic((t * t) * (t * t), a, b, c, d, e, f);
    return (float)(__builtin_sqrt(s) * p);
}

/* Likewise m s sqrt(s) p(t), s = 8 / (m + 8). From 2^300 on it is 0 as a float. */
IPU_INLINE float
ipu__bessel_i1e_f32(float x)
{
    double magnitude = (double)ipu__magnitude_f32(x);
    double m = magnitude > 0x1p300 ? 0x1p300 : magnitude;
    double s = 8.0 / (m + 8.0);
    double t = 1.0 - 2.0 * s;
    double a = ipu__cubic(t, 0x1.8484a632f3762p-5, -0x1.0e6914be73cf9p-4,
                          0x1.357c2625b3c09p-4, -0x1.4421a63f79b66p-4);
    double b = ipu__cubic(t, 0x1.3d21ce754898dp-4, -0x1.1eceed5876f9bp-4,
                          0x1.ca664cbcacfd9p-5, -0x1.1f44decf97c16p-5);
    double c = ipu__cubic(t, 0x1.5df0885e5c0c3p-7, 0x1.1986ac425245cp-7,
                          -0x1.ac4cea1393f17p-7, 0x1.803caee7748bep-9);
    double d = ipu__cubic(t, 0x1.e1c07686c4a1bp-8, -0x1.3994c1a21985ap-8,
                          -0x1.f79dc8a3d2284p-9, 0x1.044cfbf0e292bp-8);
    double e = ipu__cubic(t, 0x1.036fb85f30cf2p-9, -0x1.4ea9efb556e64p-9,
                          -0x1.c98facf92e7f3p-11, 0x1.3f916e6f0a777p-10);
    double f = ipu__cubic(t, 0x1.149cb9ac92978p-12, -0x1.87fab15611aacp-12,
                          -0x1.423c0d47a557fp-15, 0x1.c4617cc9e4467p-15);
    double p = ipu__quintic((t * t) * (t * t), a, b, c, d, e, f);
    return ipu__with_sign_f32((float)(m * s * __builtin_sqrt(s) * p), x);
}

#endif
