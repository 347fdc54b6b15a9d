/* SPDX-License-Identifier: MIT
 *
 * Special functions of one double that the C library does not have, or has with state:
 * lgamma without `signgam`, digamma. They serve the scalar definitions of their ops
 * (scalar.c); errors are a few units in the last place of a double, so that float32
 * results are rounded once. Pure functions, any thread. */
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
