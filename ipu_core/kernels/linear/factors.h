/* SPDX-License-Identifier: MIT
 *
 * Factors of matrices of double that lie by columns, as LAPACK's do, in their place; see
 * factors.c. */
#ifndef IPU_KERNELS_FACTORS_H
#define IPU_KERNELS_FACTORS_H

#include <stdbool.h>

/* U of A = U^T U, in the upper triangle of n columns that are `lead` apart; the lower
 * one is not touched. False: A is not positive definite. */
bool ipu__cholesky(int n, double *a, int lead);

/* P A = L U of [rows, columns]; L's diagonal of ones is left out. Row i was exchanged
 * with row pivots[i], for one i after the other. Returns the first column without a
 * pivot, -1 where each has one. */
int ipu__lu(int rows, int columns, double *a, int lead, int *pivots);

/* Exchanges rows of `columns` columns as ipu__lu did for pivots [begin, end). */
void ipu__exchange_rows(int columns, double *a, int lead, const int *pivots, int begin,
                        int end);

#endif
