/* SPDX-License-Identifier: MIT
 *
 * The factors of factors_body.h, of both types. */
#include "kernels/linear/factors.h"

#include <math.h>

#include "kernels/core/blis_impl.h"
#include "kernels/core/kernel_impl.h"

enum {
    TRIANGLE_END = 16,
    STRIP = 8, /* columns; a page's size apart, more of them leave a cache */
    CHOLESKY_END = 24,
    LU_END = 16,
    SUMS = 8, /* side by side in a long one */
    UNIT = 8, /* rows or columns that parts consist of, but for the last one */
    LEAST_PART = 32,
    TASK_FLOPS = 1 << 20
};

/* Into how many parts so many rows or columns are cut, of `flops` each. */
static int32_t
parts_of(int count, int64_t flops)
{
    const int64_t part = ipu__max(LEAST_PART, TASK_FLOPS / ipu__max(flops, 1));
    return (int32_t)ipu__max(count / part, 1);
}

static int
part_begin(int count, int32_t parts, int32_t part)
{
    const int64_t units = ipu__ceil_div(count, UNIT);
    return (int)ipu__min(ipu__share_of(units, parts, part) * UNIT, count);
}

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define FOR_CLASS(cpu, name) IPU_FOR_CLASS(cpu, name, JOIN(name, base))

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
