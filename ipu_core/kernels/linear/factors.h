/* SPDX-License-Identifier: MIT
 *
 * Factors of matrices of float (_f32) and double (_f64) that lie by columns, as
 * LAPACK's do, in their place, and triangular systems; see factors_body.h. */
#ifndef IPU_KERNELS_FACTORS_H
#define IPU_KERNELS_FACTORS_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/core/kernel.h"

/* Who makes them. Work is cut by its shape alone, so threads change no bit. */
typedef struct ipu__makers {
    ipu_cpu_class cpu;
    ipu_pool *pool; /* NULL: the caller alone */
} ipu__makers;

/* matrix: [rows, columns], element (i, j) at at[i * down + j * across]; one of both is
 * 1.
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
