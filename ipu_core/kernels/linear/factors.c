/* SPDX-License-Identifier: MIT
 *
 * The factors of factors_body.h, of both types. */
#include "kernels/linear/factors.h"

#include <math.h>

#include "kernels/core/blis_impl.h"

enum {
    TRIANGLE_END = 16,
    STRIP_BYTES = 64,
    CHOLESKY_END = 16,
    LU_END = 16
};

/* Where a part begins; of a triangle all have the same area. */
static int
begin_of(int count, int32_t parts, int32_t part, bool upper)
{
    if (!upper) {
        return ipu__part_begin(count, parts, part);
    }
    const int units = (int)(sqrt((double)part / parts) * count / IPU__PART_UNIT + 0.5);
    return part == parts ? count : units * IPU__PART_UNIT;
}

/* Of n > TRIANGLE_END, such that most triangles in the end are whole. */
static int
half_of(int n)
{
    return (n / 2 + TRIANGLE_END - 1) / TRIANGLE_END * TRIANGLE_END;
}

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
