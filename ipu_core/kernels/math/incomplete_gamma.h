/* SPDX-License-Identifier: MIT
 *
 * The incomplete gamma functions, and the derivative of the lower one by a, of some
 * elements at once: those that a series, a continued fraction or a difference serves
 * are brought together, and all take a turn before any takes the next one. An element
 * that is done does not change by more turns, so its bits do not depend on its
 * neighbours; one alone is the scalar definition. The rest (limits, large a) is
 * scalar: special_gamma.c, where the formulas' source is. */
#ifndef IPU_KERNELS_INCOMPLETE_GAMMA_H
#define IPU_KERNELS_INCOMPLETE_GAMMA_H

#include <float.h>

#include "kernels/math/wide_math.h"

/* At most so many elements, in whole groups. */
enum {
    IPU_GAMMA_ELEMENTS = 64,
    IPU_GAMMA_GROUP = 8,
    IPU_GAMMA_TURNS = 8, /* between two looks at who is done */
    IPU_GAMMA_MOST_TURNS = 100000
};

typedef enum ipu__gamma_way {
    IPU_GAMMA_FAR,
    IPU_GAMMA_DIFFERENCE,
    IPU_GAMMA_FRACTION,
    IPU_GAMMA_SERIES,
    IPU_GAMMA_SLOPE_SERIES,
    IPU_GAMMA_WAYS
} ipu__gamma_way;

/* What goes the same way. */
typedef struct ipu__gamma_some {
    int64_t count;
    int64_t places[IPU_GAMMA_ELEMENTS];
    double a[IPU_GAMMA_ELEMENTS];
    double x[IPU_GAMMA_ELEMENTS];
    double value[IPU_GAMMA_ELEMENTS];
} ipu__gamma_some;

/* Where a is large and x near it. */
IPU_INLINE bool
ipu__is_near_large(double a, double x)
{
    return a >= 500.0 && fabs(x - a) <= 0.3 * a;
}

IPU_INLINE ipu__gamma_way
ipu__gamma_way_of(double a, double x, ipu__gamma_function function)
{
    bool is_small = a < 1.0 && x < 1.5;
    if (!(a > 0.0 && x > 0.0 && a <= DBL_MAX && x <= DBL_MAX) ||
        ipu__is_near_large(a, x)) {
        return IPU_GAMMA_FAR;
    }
    if (function == IPU_GAMMA_SLOPE) {
        return IPU_GAMMA_SLOPE_SERIES;
    }
    if (is_small && function == IPU_GAMMA_UPPER) {
        return IPU_GAMMA_DIFFERENCE;
    }
    return is_small || x < a + 1.0 ? IPU_GAMMA_SERIES : IPU_GAMMA_FRACTION;
}

/* 1 / gamma(1 + a) - 1 for 0 <= a <= 1. */
IPU_INLINE double
ipu__reciprocal_gamma_less_1(double a)
{
    double t = a - 0.5;
    double p = ipu__cubic(t, 0x1.06eba8214db69p-2, -0x1.31154fd358bffp-1,
                          0x1.1b7d4b0cc3ba5p-3, 0x1.2c7a64373f3bcp-4);
    double q = ipu__cubic(t, -0x1.6edf0f60971f4p-5, 0x1.589432724f6d5p-8,
                          0x1.633745cdd7b46p-9, -0x1.34fd55b4a28fbp-10);
    double r = ipu__cubic(t, 0x1.1d17d43232d2ap-13, 0x1.136460bbcd13ap-15,
                          -0x1.f5942d2e7df89p-17, 0x1.1a3ab051a659ep-19);
    double s = ipu__cubic(t, 0x1.cb9bc3631d4c6p-24, -0x1.a4935b32b9822p-24,
                          0x1.2727741504368p-26, -0x1.7aecfcfb70ca3p-31);
    return a * ipu__cubic((t * t) * (t * t), p, q, r, s);
}

/* mu - log(1 + mu) of 1 + mu = x / a, which is mu^2 / 2 for small mu, where a difference
 * would lose it: log(1 + mu) = 2 artanh(r). */
IPU_INLINE double
ipu__beyond_log(double a, double x)
{
    double mu = (x - a) / a;
    double r = mu / (2.0 + mu);
    double z = r * r;
    double y = z * z;
    double p = ipu__cubic(z, 1.0 / 3.0, 1.0 / 5.0, 1.0 / 7.0, 1.0 / 9.0);
    double q = ipu__cubic(z, 1.0 / 11.0, 1.0 / 13.0, 1.0 / 15.0, 1.0 / 17.0);
    double s = (1.0 / 19.0 + 1.0 / 21.0 * z) + 1.0 / 23.0 * y;
    double near = r * (mu - 2.0 * z * (p + (q + s * (y * y)) * (y * y)));
    return fabs(mu) > 0.25 ? mu - ipu__log_f64(x / a) : near;
}

/* Values times x^a exp(-x) / gamma(a + 1): by gamma(y + 1) with y in (0, 1], or for
 * larger a by Stirling's series, whose exponent has no large parts that cancel. */
IPU_INLINE void
ipu__gamma_front(ipu__gamma_some *some)
{
    const int64_t n = some->count;
    double y[IPU_GAMMA_ELEMENTS];
    double product[IPU_GAMMA_ELEMENTS];
    for (int64_t i = 0; i < n; i++) {
        y[i] = some->a[i] < 20.0 ? some->a[i] : 1.0;
        product[i] = 1.0;
    }
    for (uint64_t open = 1; open != 0;) {
        open = 0;
        for (int64_t i = 0; i < n; i++) {
            product[i] *= y[i] > 1.0 ? y[i] : 1.0;
            y[i] -= y[i] > 1.0 ? 1.0 : 0.0;
            open |= y[i] > 1.0 ? 1 : 0;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        double a = some->a[i];
        double x = some->x[i];
        bool is_small = a < 20.0;
        double inverse = 1.0 / (a * a);
        double series = (-1.0 / 1680.0 + inverse / 1188.0) * inverse;
        series = ((1.0 / 1260.0 + series) * inverse - 1.0 / 360.0) * inverse;
        double large = -a * ipu__beyond_log(a, x) - (series + 1.0 / 12.0) / a;
        double small = a * ipu__log_f64(x) - x;
        double power = ipu__exp_f64(is_small ? small : large);
        double above = is_small ? 1.0 + ipu__reciprocal_gamma_less_1(y[i]) : 1.0;
        double root = __builtin_sqrt(6.283185307179586476925 * a);
        some->value[i] *= power * (above / (is_small ? product[i] : root));
    }
}

/* The lower one, whose terms are positive. A term that a sum has no bits for is followed
 * by smaller ones. Two at a time, with one division. */
IPU_INLINE void
ipu__lower_series(ipu__gamma_some *some)
{
    const int64_t n = some->count;
    double term[IPU_GAMMA_ELEMENTS];
    double *sum = some->value;
    uint64_t open = 1;
    for (int64_t i = 0; i < n; i++) {
        term[i] = 1.0;
        sum[i] = 1.0;
    }
    for (int32_t k = 1; k < IPU_GAMMA_MOST_TURNS && open != 0;) {
        for (int32_t end = k + IPU_GAMMA_TURNS; k < end; k += 2) {
            for (int64_t i = 0; i < n; i++) {
                double next = some->a[i] + (double)(k + 1);
                double ratio = some->x[i] / ((some->a[i] + (double)k) * next);
                double other = sum[i] + term[i] * (ratio * next);
                term[i] *= ratio * some->x[i];
                sum[i] = other + term[i];
            }
        }
        open = 0;
        for (int64_t i = 0; i < n; i++) {
            open |= term[i] > sum[i] * (0.25 * DBL_EPSILON) ? 1 : 0;
        }
    }
    ipu__gamma_front(some);
}

/* The slope by the same series, whose terms have the harmonic as minus their logarithmic
 * derivative. Far to the right, where the series would have to be huge, it is 0: the
 * upper one is below front a / (x - a). */
IPU_INLINE void
ipu__slope_series(ipu__gamma_some *some)
{
    const int64_t n = some->count;
    double x[IPU_GAMMA_ELEMENTS];
    double term[IPU_GAMMA_ELEMENTS];
    double sum[IPU_GAMMA_ELEMENTS];
    double harmonic[IPU_GAMMA_ELEMENTS];
    double bent[IPU_GAMMA_ELEMENTS];
    uint64_t open = 1;
    for (int64_t i = 0; i < n; i++) {
        some->value[i] = 1.0;
        term[i] = 1.0;
        sum[i] = 1.0;
        harmonic[i] = 0.0;
        bent[i] = 0.0;
    }
    ipu__gamma_front(some);
    for (int64_t i = 0; i < n; i++) {
        double above = some->x[i] - some->a[i];
        bool is_far = (above > 1.0) & (some->value[i] * some->a[i] < 1e-20 * above);
        x[i] = is_far ? 0.0 : some->x[i];
        some->value[i] = is_far ? 0.0 : some->value[i];
    }
    for (int32_t k = 1; k < IPU_GAMMA_MOST_TURNS && open != 0;) {
        for (int32_t end = k + IPU_GAMMA_TURNS; k < end; k++) {
            for (int64_t i = 0; i < n; i++) {
                double inverse = 1.0 / (some->a[i] + (double)k);
                term[i] *= x[i] * inverse;
                harmonic[i] += inverse;
                sum[i] += term[i];
                bent[i] += term[i] * harmonic[i];
            }
        }
        open = 0;
        for (int64_t i = 0; i < n; i++) {
            open |= term[i] > sum[i] * (0.25 * DBL_EPSILON) ? 1 : 0;
            open |= term[i] * harmonic[i] > bent[i] * (0.25 * DBL_EPSILON) ? 1 : 0;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        double slope = ipu__log_f64(some->x[i]);
        slope -= ipu__near_digamma_f64(some->a[i] + 1.0);
        some->value[i] *= sum[i] * slope - bent[i];
    }
}

/* The upper one by its continued fraction, after Lentz. */
IPU_INLINE void
ipu__upper_fraction(ipu__gamma_some *some)
{
    const int64_t n = some->count;
    const double tiny = 1e-300;
    double b[IPU_GAMMA_ELEMENTS];
    double c[IPU_GAMMA_ELEMENTS];
    double d[IPU_GAMMA_ELEMENTS];
    uint64_t is_open[IPU_GAMMA_ELEMENTS];
    double *h = some->value;
    uint64_t open = 1;
    for (int64_t i = 0; i < n; i++) {
        b[i] = some->x[i] + 1.0 - some->a[i];
        c[i] = 1.0 / tiny;
        d[i] = 1.0 / (b[i] == 0.0 ? tiny : b[i]);
        h[i] = d[i];
        is_open[i] = 1;
    }
    for (int32_t k = 1; k < IPU_GAMMA_MOST_TURNS && open != 0;) {
        for (int32_t end = k + IPU_GAMMA_TURNS; k < end; k++) {
            for (int64_t i = 0; i < n; i++) {
                double factor = (double)k * (some->a[i] - (double)k);
                b[i] += 2.0;
                d[i] = factor * d[i] + b[i];
                c[i] = b[i] + factor / c[i];
                d[i] = 1.0 / (d[i] == 0.0 ? tiny : d[i]);
                c[i] = c[i] == 0.0 ? tiny : c[i];
                double step = d[i] * c[i];
                h[i] *= is_open[i] != 0 ? step : 1.0;
                is_open[i] = fabs(step - 1.0) < DBL_EPSILON ? 0 : is_open[i];
            }
        }
        open = 0;
        for (int64_t i = 0; i < n; i++) {
            open |= is_open[i];
        }
    }
    for (int64_t i = 0; i < n; i++) {
        h[i] *= some->a[i];
    }
    ipu__gamma_front(some);
}

/* The upper one for a < 1 and small x, where 1 less the lower one would leave nothing: a
 * times a part of x^a = 1 + ..., of 1 / gamma(1 + a) = 1 + ... and of the series of
 * DLMF 8.7.1, 1 + a sum of (-x)^k / (k! (a + k)). */
IPU_INLINE void
ipu__upper_difference(ipu__gamma_some *some)
{
    const int64_t n = some->count;
    double power[IPU_GAMMA_ELEMENTS];
    double *sum = some->value;
    for (int64_t i = 0; i < n; i++) {
        power[i] = 1.0;
        sum[i] = 0.0;
    }
    for (int32_t k = 1; k < 25; k += 2) {
        double inverse = 1.0 / (double)k;
        double other = 1.0 / (double)(k + 1);
        for (int64_t i = 0; i < n; i++) {
            double below = some->a[i] + (double)k;
            double next = below + 1.0;
            double first = -some->x[i] * (power[i] * inverse);
            power[i] = -some->x[i] * (first * other);
            sum[i] += (first * next + power[i] * below) / (below * next);
        }
    }
    for (int64_t i = 0; i < n; i++) {
        double a = some->a[i];
        double more = ipu__expm1_f64(a * ipu__log_f64(some->x[i]));
        double share = ipu__reciprocal_gamma_less_1(a);
        sum[i] = -(more + (1.0 + more) * (share + (1.0 + share) * a * sum[i]));
    }
}

/* Of n <= IPU_GAMMA_ELEMENTS elements. */
IPU_INLINE void
ipu__incomplete_gamma(double *out, const double *a, const double *x, int64_t n,
                      ipu__gamma_function function)
{
    ipu__gamma_some some;
    ipu__gamma_way ways[IPU_GAMMA_ELEMENTS];
    uint32_t taken = 0;
    for (int64_t i = 0; i < n; i++) {
        ways[i] = ipu__gamma_way_of(a[i], x[i], function);
        taken |= 1u << ways[i];
    }
    for (int32_t way = 0; way < IPU_GAMMA_WAYS; way++) {
        int64_t count = 0;
        for (int64_t i = 0; (taken >> way & 1) != 0 && i < n; i++) {
            if ((int32_t)ways[i] == way) {
                some.places[count] = i;
                some.a[count] = a[i];
                some.x[count++] = x[i];
            }
        }
        if (count == 0) {
            continue;
        }
        some.count = count;
        while (count > 1 && some.count % IPU_GAMMA_GROUP != 0) {
            some.a[some.count] = some.a[0];
            some.x[some.count++] = some.x[0];
        }
        switch ((ipu__gamma_way)way) {
        case IPU_GAMMA_DIFFERENCE:
            ipu__upper_difference(&some);
            break;
        case IPU_GAMMA_FRACTION:
            ipu__upper_fraction(&some);
            break;
        case IPU_GAMMA_SERIES:
            ipu__lower_series(&some);
            break;
        case IPU_GAMMA_SLOPE_SERIES:
            ipu__slope_series(&some);
            break;
        case IPU_GAMMA_FAR:
        case IPU_GAMMA_WAYS:
            for (int64_t i = 0; i < count; i++) {
                some.value[i] = ipu__incomplete_far(some.a[i], some.x[i], function);
            }
            break;
        }
        bool is_other = (way == IPU_GAMMA_SERIES && function == IPU_GAMMA_UPPER) ||
                        (way == IPU_GAMMA_FRACTION && function == IPU_GAMMA_LOWER);
        for (int64_t i = 0; i < count; i++) {
            out[some.places[i]] = is_other ? 1.0 - some.value[i] : some.value[i];
        }
    }
}

#endif
