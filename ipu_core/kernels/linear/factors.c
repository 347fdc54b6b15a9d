/* SPDX-License-Identifier: MIT
 *
 * The factors of factors_body.h, of both types. */
#include "kernels/linear/factors.h"

#include <math.h>

#include "kernels/core/blis_impl.h"

enum {
    TRIANGLE_END = 16,
    STRIP_BYTES = 64,
    CHOLESKY_END = 24,
    LU_END = 16,
    SUMS = 8 /* side by side in a long one */
};

#define real float
#define FORM(name) name##_f32
#define ROOT sqrtf
#define SIZE fabsf
#include "kernels/linear/factors_body.h"

#define real double
#define FORM(name) name##_f64
#define ROOT sqrt
#define SIZE fabs
#include "kernels/linear/factors_body.h"
