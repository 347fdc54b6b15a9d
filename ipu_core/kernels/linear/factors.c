/* SPDX-License-Identifier: MIT
 *
 * Both factors are made by halves: of columns [A B], those of A first, then B by a
 * triangular system and a product of BLAS, then what is left of B (Toledo, "Locality of
 * reference in LU decomposition with partial pivoting", 1997). LAPACK does so down to a
 * single column, which takes longer than the arithmetic where matrices are small: a call
 * of BLAS takes microseconds. Loops here end it earlier. */
#include "kernels/linear/factors.h"

#include <math.h>
#include <stddef.h>

#include "kernels/linear/lapack.h"

enum {
    CHOLESKY_END = 48,
    LU_END = 16,
    SUMS = 8 /* side by side in a long one */
};

static const double one = 1.0;
static const double minus_one = -1.0;

static double
dot(const double *x, const double *y, int n)
{
    double sums[SUMS] = {0.0};
    double sum = 0.0;
    int i = 0;
    for (; i + SUMS <= n; i += SUMS) {
        for (int j = 0; j < SUMS; j++) {
            sums[j] += x[i + j] * y[i + j];
        }
    }
    for (; i < n; i++) {
        sum += x[i] * y[i];
    }
    for (int j = 0; j < SUMS; j++) {
        sum += sums[j];
    }
    return sum;
}

static bool
small_cholesky(int n, double *a, ptrdiff_t lead)
{
    for (int j = 0; j < n; j++) {
        double *column = a + j * lead;
        for (int i = 0; i < j; i++) {
            const double *before = a + i * lead;
            column[i] = (column[i] - dot(before, column, i)) / before[i];
        }
        double square = column[j] - dot(column, column, j);
        if (!(square > 0.0)) {
            return false;
        }
        column[j] = sqrt(square);
    }
    return true;
}

bool
ipu__cholesky(int n, double *a, int lead)
{
    if (n <= CHOLESKY_END) {
        return small_cholesky(n, a, lead);
    }
    const int half = n / 2;
    const int rest = n - half;
    double *above = a + (ptrdiff_t)half * lead;
    double *last = above + half;
    if (!ipu__cholesky(half, a, lead)) {
        return false;
    }
    dtrsm_("L", "U", "T", "N", &half, &rest, &one, a, &lead, above, &lead, 1, 1, 1, 1);
    dsyrk_("U", "T", &rest, &half, &minus_one, above, &lead, &one, last, &lead, 1, 1);
    return ipu__cholesky(rest, last, lead);
}

void
ipu__exchange_rows(int columns, double *a, int lead, const int *pivots, int begin,
                   int end)
{
    for (int j = 0; j < columns; j++) {
        double *column = a + (ptrdiff_t)j * lead;
        for (int i = begin; i < end; i++) {
            double x = column[i];
            column[i] = column[pivots[i]];
            column[pivots[i]] = x;
        }
    }
}

static int
largest(const double *x, int begin, int end)
{
    int found = begin;
    for (int i = begin + 1; i < end; i++) {
        found = fabs(x[i]) > fabs(x[found]) ? i : found;
    }
    return found;
}

static int
small_lu(int rows, int columns, double *a, int lead, int *pivots)
{
    int missing = -1;
    for (int j = 0; j < columns && j < rows; j++) {
        double *restrict column = a + (ptrdiff_t)j * lead;
        pivots[j] = largest(column, j, rows);
        if (column[pivots[j]] == 0.0) {
            missing = missing < 0 ? j : missing;
            continue;
        }
        ipu__exchange_rows(columns, a, lead, pivots, j, j + 1);
        const double pivot = column[j];
        for (int i = j + 1; i < rows; i++) {
            column[i] /= pivot;
        }
        for (int l = j + 1; l < columns; l++) {
            double *restrict right = a + (ptrdiff_t)l * lead;
            const double factor = right[j];
            for (int i = j + 1; i < rows; i++) {
                right[i] -= factor * column[i];
            }
        }
    }
    return missing;
}

int
ipu__lu(int rows, int columns, double *a, int lead, int *pivots)
{
    const int least = rows < columns ? rows : columns;
    if (least <= LU_END) {
        return small_lu(rows, columns, a, lead, pivots);
    }
    const int half = least / 2;
    const int rest = columns - half;
    const int below = rows - half;
    double *right = a + (ptrdiff_t)half * lead;
    const int missing = ipu__lu(rows, half, a, lead, pivots);
    ipu__exchange_rows(rest, right, lead, pivots, 0, half);
    dtrsm_("L", "L", "N", "U", &half, &rest, &one, a, &lead, right, &lead, 1, 1, 1, 1);
    dgemm_("N", "N", &below, &rest, &half, &minus_one, a + half, &lead, right, &lead,
           &one, right + half, &lead, 1, 1);
    const int missing_right = ipu__lu(below, rest, right + half, lead, pivots + half);
    for (int i = half; i < least; i++) {
        pivots[i] += half;
    }
    ipu__exchange_rows(half, a, lead, pivots, half, least);
    return missing >= 0 || missing_right < 0 ? missing : missing_right + half;
}
