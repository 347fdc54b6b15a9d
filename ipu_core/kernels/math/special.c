/* SPDX-License-Identifier: MIT
 *
 * Special functions of one double that the C library does not have, or has with state:
 * lgamma without `signgam`, digamma. They serve the scalar definitions of their ops
 * (scalar.c); errors are a few units in the last place of a double, so that float32
 * results are rounded once. Pure functions, any thread. */
#define _DEFAULT_SOURCE /* lgamma_r */
#include <math.h>

#include "kernels/math/wide_math.h"

static const double pi = 3.14159265358979323846;

double
ipu__lgamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

/* Below 0, and of denormal numbers, the C library's. */
double
ipu__lgamma_f64(double x)
{
    bool is_near = x >= 0x1p-1022 && x < (double)INFINITY;
    return is_near ? ipu__lgamma_by_logarithm(x, ipu__lgamma_logarithm(x))
                   : ipu__lgamma(x);
}

/* The reflection for x < 0. There are poles at 0 and the negative whole numbers. */
double
ipu__digamma_f64(double x)
{
    if (x < 0.0) {
        double rest = x - rint(x);
        return rest == 0.0 ? (double)NAN
                           : ipu__near_digamma_f64(1.0 - x) - pi / tan(pi * rest);
    }
    return isinf(x) ? x : ipu__near_digamma_f64(x);
}
