/* SPDX-License-Identifier: MIT
 *
 * Factors of matrices of float (_f32) and double (_f64) that lie by columns, as
 * LAPACK's do, in their place, and triangular systems; see factors_body.h. */
#ifndef IPU_KERNELS_FACTORS_H
#define IPU_KERNELS_FACTORS_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/core/kernel_impl.h"

/* Who makes them. Work is cut by its shape alone, so threads change no bit. */
typedef struct ipu__makers {
    ipu_cpu_class cpu;
    ipu_pool *pool; /* NULL: the caller alone */
} ipu__makers;

/* The form of a function, whose name may be a macro, for a class: name_<class>. */
#define IPU__JOIN_NAMES(a, b) a##_##b
#define IPU__JOIN(a, b) IPU__JOIN_NAMES(a, b)
#define IPU__FOR_CLASS(cpu, name) IPU_FOR_CLASS(cpu, name, IPU__JOIN(name, base))

enum {
    IPU__PART_UNIT = 8, /* rows or columns; parts are so many, but for the last one */
    IPU__LEAST_PART = 64, /* smaller ones are slow where BLIS packs all operands */
    IPU__PART_FLOPS = 1 << 20
};

/* Into how many parts so many rows or columns are cut, of `flops` each. */
static inline int32_t
ipu__parts_of(int count, int64_t flops)
{
    const int64_t part =
        ipu__max(IPU__LEAST_PART, IPU__PART_FLOPS / ipu__max(flops, 1));
    return (int32_t)ipu__max(count / part, 1);
}

/* Where one begins. */
static inline int
ipu__part_begin(int count, int32_t parts, int32_t part)
{
    const int64_t units = ipu__ceil_div(count, IPU__PART_UNIT);
    const int64_t begin = ipu__share_of(units, parts, part) * IPU__PART_UNIT;
    return (int)ipu__min(begin, count);
}

/* matrix: [rows, columns], element (i, j) at at[i * down + j * across]; one of both is
 * 1.
 *
 * multiply: C = beta C + alpha A B, [m, k] by [k, n]; `upper`: of a square C the upper
 * triangle, and a little below it. k is at least 1.
 *
 * solve_triangle: X of A X = B in the place of B, [n, columns]. A is the lower triangle
 * of `a`, or the upper one; `ones`: whatever lies on its diagonal, it has ones there.
 *
 * cholesky: U of A = U^T U, in the upper triangle of n columns that are `lead` apart;
 * what lies below it is of no use. False: A is not positive definite.
 *
 * lu: P A = L U of [rows, columns]; L's diagonal of ones is left out. Row i was
 * exchanged with row pivots[i], for one i after the other. Returns the first column
 * without a pivot, -1 where each has one.
 *
 * exchange_rows: exchanges rows of `columns` columns as lu did for pivots [begin, end).
 */
#define IPU_FACTORS(real, type) \
    typedef struct ipu__matrix_##type { \
        real *at; \
        ptrdiff_t down; \
        ptrdiff_t across; \
    } ipu__matrix_##type; \
    typedef struct ipu__product_##type { \
        int m; \
        int n; \
        int k; \
        real alpha; \
        real beta; \
        ipu__matrix_##type a; \
        ipu__matrix_##type b; \
        ipu__matrix_##type c; \
        bool upper; \
    } ipu__product_##type; \
    void ipu__multiply_##type(ipu__makers by, const ipu__product_##type *product); \
    void ipu__solve_triangle_##type(ipu__makers by, int n, int columns, \
                                    ipu__matrix_##type a, bool lower, bool ones, \
                                    ipu__matrix_##type b); \
    bool ipu__cholesky_##type(ipu__makers by, int n, real *a, int lead); \
    int ipu__lu_##type(ipu__makers by, int rows, int columns, real *a, int lead, \
                       int *pivots); \
    void ipu__exchange_rows_##type(int columns, real *a, int lead, const int *pivots, \
                                   int begin, int end);
IPU_FACTORS(float, f32)
IPU_FACTORS(double, f64)
#undef IPU_FACTORS

#endif
