/* SPDX-License-Identifier: MIT
 *
 * Special functions of one or two doubles around gamma, and Bessel's: the incomplete
 * gamma function and its derivative by a, the zeta function of Hurwitz, polygamma, I0
 * and I1 times exp(-|x|). They serve the scalar definitions of their ops (scalar.c).
 * Errors are a few units in the last place of a double, of the incomplete gamma
 * function for large arguments in proportion to them. Source of the formulas: NIST
 * Digital Library of Mathematical Functions, 8.9, 8.11, 10.25, 10.40, 25.11. Pure
 * functions, any thread. */
#include <float.h>
#include <math.h>

#include "kernels/kernel_impl.h"

enum { MOST_TERMS = 100000 };

static const double two_pi = 6.283185307179586476925;

/* --- the incomplete gamma function ------------------------------------------------ */

/* x^a exp(-x) / gamma(a + more) */
static double
front(double a, double x, double more)
{
    return exp(a * log(x) - x - ipu__lgamma(a + more));
}

/* The lower one by its series, whose terms are positive; `slope`, where it is not NULL,
 * gets the derivative by a. */
static double
lower_series(double a, double x, double *slope)
{
    double term = 1.0;
    double sum = 1.0;
    double harmonic = 0.0; /* minus the logarithmic derivative of the term */
    double bent = 0.0;
    for (int32_t k = 1; k < MOST_TERMS && term > sum * (0.25 * DBL_EPSILON); k++) {
        double below = a + (double)k;
        term *= x / below;
        harmonic += 1.0 / below;
        sum += term;
        bent += term * harmonic;
    }
    double scale = front(a, x, 1.0);
    if (slope != NULL) {
        *slope = scale * (sum * (log(x) - ipu__digamma(a + 1.0)) - bent);
    }
    return scale * sum;
}

/* The upper one by its continued fraction, after Lentz. */
static double
upper_fraction(double a, double x)
{
    const double tiny = 1e-300;
    double b = x + 1.0 - a;
    double c = 1.0 / tiny;
    double d = 1.0 / (b == 0.0 ? tiny : b);
    double h = d;
    for (int32_t k = 1; k < MOST_TERMS; k++) {
        double factor = (double)k * (a - (double)k);
        b += 2.0;
        d = factor * d + b;
        c = b + factor / c;
        d = 1.0 / (d == 0.0 ? tiny : d);
        c = c == 0.0 ? tiny : c;
        h *= d * c;
        if (fabs(d * c - 1.0) < DBL_EPSILON) {
            break;
        }
    }
    return front(a, x, 0.0) * h;
}

static double
incomplete(double a, double x, bool upper)
{
    if (!(a > 0.0) || !(x >= 0.0) || (isinf(a) && isinf(x))) {
        return (double)NAN;
    }
    if (x == 0.0 || isinf(a)) {
        return upper ? 1.0 : 0.0;
    }
    if (isinf(x)) {
        return upper ? 0.0 : 1.0;
    }
    if (x < a + 1.0) {
        double below = lower_series(a, x, NULL);
        return upper ? 1.0 - below : below;
    }
    double above = upper_fraction(a, x);
    return upper ? above : 1.0 - above;
}

double
ipu__igamma(double a, double x)
{
    return incomplete(a, x, false);
}

double
ipu__igammac(double a, double x)
{
    return incomplete(a, x, true);
}

/* Far to the right, where the series would have to be huge, it is 0. */
double
ipu__igamma_slope(double a, double x)
{
    double slope;
    if (!(a > 0.0) || !(x >= 0.0)) {
        return (double)NAN;
    }
    if (x == 0.0 || isinf(a) || isinf(x)) {
        return 0.0;
    }
    if (x > a + 1.0 && upper_fraction(a, x) < 1e-20) {
        return 0.0;
    }
    (void)lower_series(a, x, &slope);
    return slope;
}

/* --- zeta and polygamma ----------------------------------------------------------- */

/* The sum of (q + k)^-s over k >= 0, by Euler and Maclaurin from the 10th term on, or
 * from where q + k is 10. */
double
ipu__zeta(double s, double q)
{
    /* Bernoulli's number 2 j over (2 j)! */
    static const double terms[12] = {
        1.0 / 12.0,
        -1.0 / 720.0,
        1.0 / 30240.0,
        -1.0 / 1209600.0,
        1.0 / 47900160.0,
        -691.0 / 1307674368000.0,
        1.0 / 74724249600.0,
        -3617.0 / 10670622842880000.0,
        43867.0 / 5109094217170944000.0,
        -174611.0 / 802857662698291200000.0,
        77683.0 / 14101100039391805440000.0,
        -236364091.0 / 1693824136731743669452800000.0,
    };
    if (isnan(s) || isnan(q) || s < 1.0) {
        return (double)NAN;
    }
    if (s == 1.0) {
        return (double)INFINITY;
    }
    if (q <= 0.0) {
        if (q == floor(q)) {
            return (double)INFINITY;
        }
        if (s != floor(s)) {
            return (double)NAN;
        }
    }
    double sum = 0.0;
    double at = q;
    for (int32_t k = 0; (k < 10 || at < 10.0) && k < MOST_TERMS; k++) {
        sum += pow(at, -s);
        at += 1.0;
    }
    double power = pow(at, -s);
    sum += power * at / (s - 1.0) + 0.5 * power;
    double rising = s; /* s (s + 1) ... over powers of `at` */
    power /= at;
    for (int32_t j = 0; j < 12; j++) {
        double term = terms[j] * rising * power;
        sum += term;
        if (fabs(term) < fabs(sum) * (0.25 * DBL_EPSILON)) {
            break;
        }
        rising *= (s + (double)(2 * j + 1)) * (s + (double)(2 * j + 2));
        power /= at * at;
    }
    return sum;
}

/* The n-th derivative of digamma. */
double
ipu__polygamma(double n, double x)
{
    if (!(n >= 0.0) || n != floor(n)) {
        return (double)NAN;
    }
    if (n == 0.0) {
        return ipu__digamma(x);
    }
    double value = tgamma(n + 1.0) * ipu__zeta(n + 1.0, x);
    return fmod(n, 2.0) == 0.0 ? -value : value;
}

/* --- Bessel functions ------------------------------------------------------------- */

/* I_order(x) exp(-x) for x >= 0: the series, or for large x the asymptotic one. */
static double
bessel(double order, double x)
{
    double term;
    double sum;
    if (x <= 30.0) {
        term = order == 0.0 ? 1.0 : 0.5 * x;
        sum = term;
        for (int32_t k = 1; k < MOST_TERMS && term > sum * (0.25 * DBL_EPSILON); k++) {
            term *= 0.25 * x * x / ((double)k * ((double)k + order));
            sum += term;
        }
        return sum * exp(-x);
    }
    if (isinf(x)) {
        return 0.0;
    }
    term = 1.0;
    sum = 1.0;
    for (int32_t k = 1; k < 60 && fabs(term) > 0.25 * DBL_EPSILON; k++) {
        double odd = (double)(2 * k - 1);
        term *= (odd * odd - 4.0 * order) / (8.0 * x * (double)k);
        sum += term;
    }
    return sum / sqrt(two_pi * x);
}

double
ipu__bessel_i0e(double x)
{
    return isnan(x) ? x : bessel(0.0, fabs(x));
}

double
ipu__bessel_i1e(double x)
{
    return isnan(x) ? x : copysign(bessel(1.0, fabs(x)), x);
}
