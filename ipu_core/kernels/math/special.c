/* SPDX-License-Identifier: MIT
 *
 * Special functions of one double that the C library does not have, or has with state:
 * lgamma without `signgam`, digamma, the inverse of erf, gelu. They serve the scalar
 * definitions of their ops (scalar.c); errors are a few units in the last place of a
 * double, so that float32 results are rounded once. Pure functions, any thread. */
#define _DEFAULT_SOURCE /* lgamma_r */
#include <math.h>

#include "kernels/core/kernel_impl.h"

static const double pi = 3.14159265358979323846;

double
ipu__lgamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

/* The reflection for x < 0, the recurrence up to 10, then the asymptotic series with
 * the Bernoulli numbers. There are poles at 0 and the negative whole numbers. */
double
ipu__digamma(double x)
{
    static const double terms[7] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                                    1.0 / 132, -691.0 / 32760, 1.0 / 12};
    if (x == 0.0) {
        return copysign((double)INFINITY, -x);
    }
    if (x < 0.0) {
        double rest = x - rint(x);
        return rest == 0.0 ? (double)NAN : ipu__digamma(1.0 - x) - pi / tan(pi * rest);
    }
    double shift = 0.0;
    while (x < 10.0) {
        shift -= 1.0 / x;
        x += 1.0;
    }
    double square = 1.0 / (x * x);
    double series = 0.0;
    for (int32_t i = 6; i >= 0; i--) {
        series = (series + terms[i]) * square;
    }
    return shift + log(x) - 0.5 / x - series;
}

/* A closed approximation (Winitzki 2008), good to 2 digits, then Newton's steps as
 * Halley has them, each of which triples the digits. In the tails erfc keeps what
 * 1 - erf loses. */
double
ipu__erfinv(double y)
{
    double size = fabs(y);
    if (size == 1.0) {
        return copysign((double)INFINITY, y);
    }
    if (size == 0.0 || !(size < 1.0)) {
        return size == 0.0 ? y : (double)NAN;
    }
    const double a = 0.147;
    double log_term = log1p(-size) + log1p(size);
    double b = 2.0 / (pi * a) + 0.5 * log_term;
    double x = sqrt(sqrt(b * b - log_term / a) - b);
    for (int32_t i = 0; i < 3; i++) {
        double error = size < 0.5 ? erf(x) - size : (1.0 - size) - erfc(x);
        double step = error / (2.0 / sqrt(pi) * exp(-x * x));
        x -= step / (1.0 + x * step);
    }
    return copysign(x, y);
}

/* x times the normal distribution at x. */
double
ipu__gelu(double x)
{
    return x * 0.5 * (erf(x * 0.70710678118654752440) + 1.0);
}

double
ipu__gelu_grad(double x, double dy)
{
    double below = 0.5 * (erf(x * 0.70710678118654752440) + 1.0);
    return dy * (below + x * (0.39894228040143267794 * exp(-0.5 * x * x)));
}
