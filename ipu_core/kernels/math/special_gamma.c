/* SPDX-License-Identifier: MIT
 *
 * Special functions of one or two doubles around gamma, and Bessel's: the incomplete
 * gamma function and its derivative by a, the zeta function of Hurwitz, polygamma, I0
 * and I1 times exp(-|x|). They serve the scalar definitions of their ops (scalar.c).
 * Errors are some units in the last place of a double. Source of the formulas: NIST
 * Digital Library of Mathematical Functions, 5.11, 8.7, 8.9, 8.11, 8.12, 10.25, 10.40,
 * 25.11. Pure
 * functions, any thread. */
#include <float.h>
#include <math.h>

#include "kernels/math/incomplete_gamma.h"

enum { MOST_TERMS = 100000 };

static const double two_pi = 6.283185307179586476925;

/* --- the incomplete gamma function ------------------------------------------------ */

/* Where a is large and x near it, series and fraction need about sqrt(a) terms, and their
 * scale loses as many digits. DLMF 8.12.3 and 8.12.4, Temme's expansion: half of an erfc
 * for the normal distribution, and a rest of powers of 1/a whose factors are power series
 * of eta, with eta^2 / 2 = mu - log(1 + mu) and 1 + mu = x / a. */
enum { ETA_TERMS = 13, A_TERMS = 5 };

/* The lower one or the upper one, and the derivative of the lower one by a. */
static double
temme(double a, double x, bool upper, double *slope)
{
    /* by the recursion of DLMF 8.12.11, in fractions */
    static const double terms[A_TERMS][ETA_TERMS] = {
        {-0.3333333333333333, 0.08333333333333333, -0.014814814814814815,
         0.0011574074074074073, 0.0003527336860670194, -0.0001787551440329218,
         3.919263178522438e-05, -2.185448510679992e-06, -1.85406221071516e-06,
         8.296711340953087e-07, -1.7665952736826078e-07, 6.707853543401498e-09,
         1.0261809784240309e-08},
        {-0.001851851851851852, -0.003472222222222222, 0.0026455026455026454,
         -0.0009902263374485596, 0.00020576131687242798, -4.018775720164609e-07,
         -1.8098550334489977e-05, 7.64916091608111e-06, -1.6120900894563446e-06,
         4.647127802807434e-09, 1.378633446915721e-07, -5.752545603517705e-08,
         1.1951628599778148e-08},
        {0.004133597883597883, -0.0026813271604938273, 0.0007716049382716049,
         2.0093878600823047e-06, -0.0001073665322636516, 5.2923448829120125e-05,
         -1.2760635188618728e-05, 3.423578734096138e-08, 1.3721957309062934e-06,
         -6.298992138380055e-07, 1.4280614206064242e-07, -2.0477098421990866e-10,
         -1.409252991086752e-08},
        {0.0006494341563786008, 0.00022947209362139917, -0.0004691894943952557,
         0.00026772063206283885, -7.561801671883977e-05, -2.396505113867297e-07,
         1.1082654115347302e-05, -5.6749528269915965e-06, 1.4230900732435883e-06,
         -2.7861080291528143e-11, -1.6958404091930278e-07, 8.099464905388083e-08,
         -1.9111168485973655e-08},
        {-0.0008618882909167117, 0.0007840392217200666, -0.0002990724803031902,
         -1.4638452578843418e-06, 6.641498215465122e-05, -3.968365047179435e-05,
         1.1375726970678419e-05, 2.507497226237533e-10, -1.6954149536558305e-06,
         8.907507532205309e-07, -2.292934834000805e-07, 2.956794137544049e-11,
         2.8865829742708783e-08},
    };
    double mu = (x - a) / a;
    double half_square = ipu__beyond_log(a, x);
    double eta = copysign(sqrt(2.0 * half_square), mu);
    double turn = -(eta == 0.0 ? 1.0 : mu / eta) / a; /* eta's derivative by a */
    double series = 0.0;
    double series_turn = 0.0;
    for (int32_t k = A_TERMS - 1; k >= 0; k--) {
        double factor = 0.0;
        double factor_turn = 0.0;
        for (int32_t n = ETA_TERMS - 1; n >= 0; n--) {
            factor_turn = factor_turn * eta + factor;
            factor = factor * eta + terms[k][n];
        }
        series_turn = series_turn / a - series / (a * a) + factor_turn * turn;
        series = series / a + factor;
    }
    double root = sqrt(a);
    double bell = exp(-a * half_square) / sqrt(two_pi);
    double rest = bell / root * series;
    double below = 0.5 * erfc(-eta * root * sqrt(0.5)) - rest;
    if (slope != NULL) {
        *slope = bell * (0.5 * eta / root + root * turn)
                 - rest * (log1p(mu) - 0.5 / a) - bell / root * series_turn;
    }
    return upper ? 0.5 * erfc(eta * root * sqrt(0.5)) + rest : below;
}

double
ipu__incomplete_far(double a, double x, ipu__gamma_function function)
{
    const bool is_slope = function == IPU_GAMMA_SLOPE;
    const bool upper = function == IPU_GAMMA_UPPER;
    double slope;
    if (!(a > 0.0) || !(x >= 0.0) || (isinf(a) && isinf(x) && !is_slope)) {
        return (double)NAN;
    }
    if (x == 0.0 || isinf(a) || isinf(x)) {
        return is_slope ? 0.0 : (double)(upper != isinf(x));
    }
    double value = temme(a, x, upper, is_slope ? &slope : NULL);
    return is_slope ? slope : value;
}

double
ipu__incomplete(double a, double x, ipu__gamma_function function)
{
    double value;
    ipu__incomplete_gamma(&value, &a, &x, 1, function);
    return value;
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
        return ipu__digamma_f64(x);
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
