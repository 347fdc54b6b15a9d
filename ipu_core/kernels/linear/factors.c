/* SPDX-License-Identifier: MIT
 *
 * Both factors are made by halves: of columns [A B], those of A first, then B by a
 * triangular system and a product, then what is left of B (Toledo, "Locality of
 * reference in LU decomposition with partial pivoting", 1997); and so are triangular
 * systems. LAPACK does so down to a single column, which takes longer than the
 * arithmetic where matrices are small: a call of BLAS takes microseconds. Loops here end
 * it earlier. */
#include "kernels/linear/factors.h"

#include <math.h>

#include "kernels/core/blis_impl.h"
#include "kernels/core/kernel_impl.h"

enum {
    TRIANGLE_END = 16,
    STRIP = 8, /* columns; a page's size apart, more of them leave a cache */
    CHOLESKY_END = 24,
    LU_END = 16,
    SUMS = 8 /* side by side in a long one */
};

IPU_INLINE double
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
    for (int j = 0; n >= SUMS && j < SUMS; j++) {
        sum += sums[j];
    }
    return sum;
}

static ipu__matrix
part(ipu__matrix m, int i, int j)
{
    m.at += i * m.down + j * m.across;
    return m;
}

/* C -= A B, [m, k] by [k, n]. */
static void
subtract_product(ipu_cpu_class cpu, int m, int n, int k, ipu__matrix a, ipu__matrix b,
                 ipu__matrix c)
{
    ipu__blis_product product = {
        .m = m,
        .n = n,
        .k = k,
        .a = a.at,
        .a_row = a.down,
        .a_col = a.across,
        .b = b.at,
        .b_row = b.down,
        .b_col = b.across,
        .c = c.at,
        .c_row = c.down,
        .c_col = c.across,
        .wide = true,
        .update = IPU_BLIS_SUBTRACTS,
    };
    ipu__blis_multiply(ipu__blis_context_for(m, n, k, cpu), &product);
}

/* Up to `width` columns of X, which lie side by side meanwhile, row after row. */
IPU_INLINE void
solve_strip(int n, int columns, int width, ipu__matrix a, bool lower, bool ones,
            ipu__matrix b)
{
    double rows[TRIANGLE_END * STRIP];
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < width; j++) {
            rows[i * width + j] = j < columns ? b.at[i * b.down + j * b.across] : 0.0;
        }
    }
    for (int turn = 0; turn < n; turn++) {
        const int i = lower ? turn : n - 1 - turn;
        const double *of_a = a.at + i * a.across;
        double *row = rows + i * width;
        for (int j = 0; j < width && !ones; j++) {
            row[j] /= of_a[i * a.down];
        }
        for (int k = lower ? i + 1 : 0; k < (lower ? n : i); k++) {
            const double factor = of_a[k * a.down];
            for (int j = 0; j < width; j++) {
                rows[k * width + j] -= factor * row[j];
            }
        }
    }
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < columns; j++) {
            b.at[i * b.down + j * b.across] = rows[i * width + j];
        }
    }
}

IPU_INLINE bool
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

IPU_INLINE int
largest(const double *x, int begin, int end)
{
    int found = begin;
    double most = fabs(x[begin]);
    for (int i = begin + 1; i < end; i++) {
        const double size = fabs(x[i]);
        found = size > most ? i : found;
        most = size > most ? size : most;
    }
    return found;
}

IPU_INLINE int
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
        if (pivots[j] != j) {
            ipu__exchange_rows(columns, a, lead, pivots, j, j + 1);
        }
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

/* Of each class the same statements, without contraction: the same bits. */
#define ENDS(class, target) \
    target static void strip_##class(int n, int columns, ipu__matrix a, bool lower, \
                                     bool ones, ipu__matrix b) \
    { \
        if (columns == 1) { /* of which a vector would be mostly empty */ \
            solve_strip(n, 1, 1, a, lower, ones, b); \
        } else { \
            solve_strip(n, columns, STRIP, a, lower, ones, b); \
        } \
    } \
    target static bool cholesky_##class(int n, double *a, ptrdiff_t lead) \
    { \
        return small_cholesky(n, a, lead); \
    } \
    target static int lu_##class(int rows, int columns, double *a, int lead, \
                                 int *pivots) \
    { \
        return small_lu(rows, columns, a, lead, pivots); \
    }
ENDS(base, )
#if defined(__x86_64__)
ENDS(avx2, IPU_TARGET_AVX2)
ENDS(avx512, IPU_TARGET_AVX512)
#endif

void
ipu__solve_triangle(ipu_cpu_class cpu, int n, int columns, ipu__matrix a, bool lower,
                    bool ones, ipu__matrix b)
{
    if (n <= TRIANGLE_END || columns == 0) {
        void (*solve)(int, int, ipu__matrix, bool, bool, ipu__matrix) =
            IPU_FOR_CLASS(cpu, strip, strip_base);
        for (int j = 0; j < columns; j += STRIP) {
            const int width = columns - j < STRIP ? columns - j : STRIP;
            solve(n, width, a, lower, ones, part(b, 0, j));
        }
        return;
    }
    const int half = n / 2;
    const int rest = n - half;
    const ipu__matrix last_a = part(a, half, half);
    const ipu__matrix last_b = part(b, half, 0);
    if (lower) {
        ipu__solve_triangle(cpu, half, columns, a, lower, ones, b);
        subtract_product(cpu, rest, columns, half, part(a, half, 0), b, last_b);
        ipu__solve_triangle(cpu, rest, columns, last_a, lower, ones, last_b);
    } else {
        ipu__solve_triangle(cpu, rest, columns, last_a, lower, ones, last_b);
        subtract_product(cpu, half, columns, rest, part(a, 0, half), last_b, b);
        ipu__solve_triangle(cpu, half, columns, a, lower, ones, b);
    }
}

/* C -= A^T A of A [k, n], in the upper triangle and a little below it. */
static void
subtract_square(ipu_cpu_class cpu, int n, int k, ipu__matrix a, ipu__matrix c)
{
    const ipu__matrix transposed = {a.at, a.across, a.down};
    if (n <= CHOLESKY_END) {
        subtract_product(cpu, n, n, k, transposed, a, c);
        return;
    }
    const int half = n / 2;
    const int rest = n - half;
    const ipu__matrix last = part(a, 0, half);
    subtract_square(cpu, half, k, a, c);
    subtract_product(cpu, half, rest, k, transposed, last, part(c, 0, half));
    subtract_square(cpu, rest, k, last, part(c, half, half));
}

bool
ipu__cholesky(ipu_cpu_class cpu, int n, double *a, int lead)
{
    if (n <= CHOLESKY_END) {
        return IPU_FOR_CLASS(cpu, cholesky, cholesky_base)(n, a, lead);
    }
    const int half = n / 2;
    const int rest = n - half;
    double *above = a + (ptrdiff_t)half * lead;
    double *last = above + half;
    if (!ipu__cholesky(cpu, half, a, lead)) {
        return false;
    }
    const ipu__matrix right = {above, 1, lead};
    ipu__solve_triangle(cpu, half, rest, (ipu__matrix){a, lead, 1}, true, false, right);
    subtract_square(cpu, rest, half, right, (ipu__matrix){last, 1, lead});
    return ipu__cholesky(cpu, rest, last, lead);
}

int
ipu__lu(ipu_cpu_class cpu, int rows, int columns, double *a, int lead, int *pivots)
{
    const int least = rows < columns ? rows : columns;
    if (least <= LU_END) {
        return IPU_FOR_CLASS(cpu, lu, lu_base)(rows, columns, a, lead, pivots);
    }
    const int half = least / 2;
    const int rest = columns - half;
    const int below = rows - half;
    double *right = a + (ptrdiff_t)half * lead;
    const ipu__matrix left = {a, 1, lead};
    const ipu__matrix top = {right, 1, lead};
    const int missing = ipu__lu(cpu, rows, half, a, lead, pivots);
    ipu__exchange_rows(rest, right, lead, pivots, 0, half);
    ipu__solve_triangle(cpu, half, rest, left, true, true, top);
    subtract_product(cpu, below, rest, half, part(left, half, 0), top,
                     part(top, half, 0));
    const int missing_right =
        ipu__lu(cpu, below, rest, right + half, lead, pivots + half);
    for (int i = half; i < least; i++) {
        pivots[i] += half;
    }
    ipu__exchange_rows(half, a, lead, pivots, half, least);
    return missing >= 0 || missing_right < 0 ? missing : missing_right + half;
}
