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

#include "kernels/core/kernel_impl.h"

enum { MOST_TERMS = 100000 };

static const double two_pi = 6.283185307179586476925;

/* --- the incomplete gamma function ------------------------------------------------ */

/* mu - log(1 + mu) of 1 + mu = x / a, which is mu^2 / 2 for small mu, where a difference
 * would lose it: log(1 + mu) = 2 artanh(r). */
static double
beyond_log(double a, double x)
{
    double mu = (x - a) / a;
    if (fabs(mu) > 0.25) {
        return mu - log(x / a);
    }
    double r = mu / (2.0 + mu);
    double square = r * r;
    double power = square;
    double sum = 0.0;
    for (int32_t odd = 3; odd < 25; odd += 2) {
        sum += power / (double)odd;
        power *= square;
    }
    return r * (mu - 2.0 * sum);
}

/* x^a exp(-x) / gamma(a + 1), for larger a from Stirling's series, whose exponent has no
 * large parts that cancel. */
static double
front(double a, double x)
{
    if (a < 20.0) {
        return exp(a * log(x) - x - ipu__lgamma(a + 1.0));
    }
    double inverse = 1.0 / (a * a);
    double series = (-1.0 / 1680.0 + inverse / 1188.0) * inverse;
    series = ((1.0 / 1260.0 + series) * inverse - 1.0 / 360.0) * inverse + 1.0 / 12.0;
    return exp(-a * beyond_log(a, x) - series / a) / sqrt(two_pi * a);
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
    double scale = front(a, x);
    if (slope != NULL) {
        *slope = scale * (sum * (log(x) - ipu__digamma_f64(a + 1.0)) - bent);
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
    return front(a, x) * a * h;
}

/* 1 / gamma(1 + a) - 1 for 0 < a <= 1: near 0 by the coefficients of DLMF 5.7.1. */
static double
reciprocal_gamma_less_1(double a)
{
    static const double terms[12] = {
        0.5772156649015329,   -0.6558780715202539,   -0.04200263503409524,
        0.16653861138229148,  -0.04219773455554433,  -0.009621971527876973,
        0.0072189432466631,   -0.0011651675918590652, -0.00021524167411495098,
        0.0001280502823881162, -2.013485478078824e-05, -1.2504934821426706e-06};
    double sum = 0.0;
    if (a > 0.1) {
        return 1.0 / tgamma(1.0 + a) - 1.0;
    }
    for (int32_t k = 11; k >= 0; k--) {
        sum = (sum + terms[k]) * a;
    }
    return sum;
}

/* The upper one for a < 1 and small x, where 1 less the lower one would leave nothing: a
 * times a part of x^a = 1 + ..., of 1 / gamma(1 + a) = 1 + ... and of the series of
 * DLMF 8.7.1, 1 + a sum of (-x)^k / (k! (a + k)). */
static double
upper_difference(double a, double x)
{
    double power = 1.0;
    double sum = 0.0;
    for (int32_t k = 1; k < 60; k++) {
        power *= -x / (double)k;
        sum += power / (a + (double)k);
    }
    double more = expm1(a * log(x));
    double share = reciprocal_gamma_less_1(a);
    return -(more + (1.0 + more) * (share + (1.0 + share) * a * sum));
}

/* Where a is large and x near it, series and fraction need about sqrt(a) terms, and their
 * scale loses as many digits. DLMF 8.12.3 and 8.12.4, Temme's expansion: half of an erfc
 * for the normal distribution, and a rest of powers of 1/a whose factors are power series
 * of eta, with eta^2 / 2 = mu - log(1 + mu) and 1 + mu = x / a. */
enum { LARGE = 500, ETA_TERMS = 13, A_TERMS = 5 };

static bool
is_near_large(double a, double x)
{
    return a >= (double)LARGE && fabs(x - a) <= 0.3 * a;
}

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
    double half_square = beyond_log(a, x);
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
    if (is_near_large(a, x)) {
        return temme(a, x, upper, NULL);
    }
    if (a < 1.0 && x < 1.5) {
        return upper ? upper_difference(a, x) : lower_series(a, x, NULL);
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
    if (is_near_large(a, x)) {
        (void)temme(a, x, false, &slope);
        return slope;
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
