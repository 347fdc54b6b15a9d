/* SPDX-License-Identifier: MIT
 *
 * Factors of matrices of double that lie by columns, as LAPACK's do, in their place, and
 * triangular systems; see factors.c. */
#ifndef IPU_KERNELS_FACTORS_H
#define IPU_KERNELS_FACTORS_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/core/kernel.h"

/* [rows, columns], element (i, j) at at[i * down + j * across]; one of both is 1. */
typedef struct ipu__matrix {
    double *at;
    ptrdiff_t down;
    ptrdiff_t across;
} ipu__matrix;

/* X of A X = B in the place of B, [n, columns]. A is the lower triangle of `a`, or the
 * upper one; `ones`: whatever lies on its diagonal, it has ones there. */
void ipu__solve_triangle(ipu_cpu_class cpu, int n, int columns, ipu__matrix a,
                         bool lower, bool ones, ipu__matrix b);

/* U of A = U^T U, in the upper triangle of n columns that are `lead` apart; what
 * lies below it is of no use. False: A is not positive definite. */
bool ipu__cholesky(ipu_cpu_class cpu, int n, double *a, int lead);

/* P A = L U of [rows, columns]; L's diagonal of ones is left out. Row i was exchanged
 * with row pivots[i], for one i after the other. Returns the first column without a
 * pivot, -1 where each has one. */
int ipu__lu(ipu_cpu_class cpu, int rows, int columns, double *a, int lead, int *pivots);

/* Exchanges rows of `columns` columns as ipu__lu did for pivots [begin, end). */
void ipu__exchange_rows(int columns, double *a, int lead, const int *pivots, int begin,
                        int end);

#endif
