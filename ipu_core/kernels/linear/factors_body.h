/* SPDX-License-Identifier: MIT
 *
 * Factors of matrices of `real`, of factors.c, which says what FORM(name), ROOT and
 * SIZE are. Both factors are made by halves: of columns [A B], those of A first, then B
 * by a triangular system and a product, then what is left of B (Toledo, "Locality of
 * reference in LU decomposition with partial pivoting", 1997); and so are triangular
 * systems. LAPACK does so down to a single column, which takes longer than the
 * arithmetic where matrices are small: a call of BLAS takes microseconds. Loops here
 * end it earlier. Products, and columns that do not depend on each other, are cut into
 * tasks. */

#define matrix FORM(ipu__matrix)

static matrix
FORM(part)(matrix m, int i, int j)
{
    m.at += i * m.down + j * m.across;
    return m;
}

typedef struct FORM(parts) {
    const FORM(ipu__product) *product;
    ipu_cpu_class cpu;
    int32_t parts;
} FORM(parts);

static void
FORM(multiply_part)(void *state, int32_t task, int32_t worker)
{
    const FORM(parts) *job = state;
    const FORM(ipu__product) *p = job->product;
    const bool by_rows = p->m > p->n;
    const int along = by_rows ? p->m : p->n;
    const int begin = begin_of(along, job->parts, task, p->upper);
    const int end = begin_of(along, job->parts, task + 1, p->upper);
    const int m = by_rows ? end - begin : p->upper ? end : p->m;
    const int n = by_rows ? p->n : end - begin;
    const matrix a = by_rows ? FORM(part)(p->a, begin, 0) : p->a;
    const matrix b = by_rows ? p->b : FORM(part)(p->b, 0, begin);
    const matrix c = FORM(part)(p->c, by_rows ? begin : 0, by_rows ? 0 : begin);
    const ipu__blis_product product = {
        .m = m,
        .n = n,
        .k = p->k,
        .a = a.at,
        .a_row = a.down,
        .a_col = a.across,
        .b = b.at,
        .b_row = b.down,
        .b_col = b.across,
        .c = c.at,
        .c_row = c.down,
        .c_col = c.across,
        .wide = sizeof(real) == sizeof(double),
        .alpha = (double)p->alpha,
        .beta = (double)p->beta,
    };
    (void)worker;
    ipu__blis_multiply(ipu__blis_context_for(m, n, p->k, job->cpu), &product);
}

void
FORM(ipu__multiply)(ipu__makers by, const FORM(ipu__product) *p)
{
    FORM(parts) job = {p, by.cpu, 1};
    job.parts = p->m > p->n
                    ? ipu__parts_of(p->m, (int64_t)2 * p->n * p->k)
                    : ipu__parts_of(p->n, (int64_t)(p->upper ? 1 : 2) * p->m * p->k);
    ipu_pool_run(by.pool, job.parts, FORM(multiply_part), &job);
}

/* C -= A B */
static void
FORM(subtract_product)(ipu__makers by, int m, int n, int k, matrix a, matrix b,
                       matrix c)
{
    FORM(ipu__multiply)(by, &(FORM(ipu__product)){m, n, k, -1, 1, a, b, c, false});
}

/* A column of X. */
IPU_INLINE void
FORM(solve_column)(int n, matrix a, bool lower, bool ones, matrix b)
{
    real x[TRIANGLE_END];
    for (int i = 0; i < n; i++) {
        x[i] = b.at[i * b.down];
    }
    for (int turn = 0; turn < n; turn++) {
        const int i = lower ? turn : n - 1 - turn;
        const real *of_a = a.at + i * a.across;
        x[i] = ones ? x[i] : x[i] / of_a[i * a.down];
        for (int k = lower ? i + 1 : 0; k < (lower ? n : i); k++) {
            x[k] -= of_a[k * a.down] * x[i];
        }
    }
    for (int i = 0; i < n; i++) {
        b.at[i * b.down] = x[i];
    }
}

typedef real FORM(row) __attribute__((vector_size(STRIP_BYTES)));
typedef union FORM(numbers) {
    FORM(row) row;
    real numbers[STRIP_BYTES / sizeof(real)];
} FORM(numbers);

IPU_INLINE void
FORM(eliminate)(int n, matrix a, bool lower, bool ones, FORM(numbers) *x)
{
    for (int turn = 0; turn < n; turn++) {
        const int i = lower ? turn : n - 1 - turn;
        const real *of_a = a.at + i * a.across;
        if (!ones) {
            x[i].row /= of_a[i * a.down];
        }
        for (int k = lower ? i + 1 : 0; k < (lower ? n : i); k++) {
            x[k].row -= of_a[k * a.down] * x[i].row;
        }
    }
}

/* The same of a whole lower triangle, the most frequent: rows stay in registers. */
IPU_INLINE void
FORM(eliminate_whole)(matrix a, bool ones, FORM(numbers) *x)
{
#pragma GCC unroll 16
    for (int i = 0; i < TRIANGLE_END; i++) {
        const real *of_a = a.at + i * a.across;
        FORM(row) row = x[i].row;
#pragma GCC unroll 16
        for (int k = 0; k < i; k++) {
            row -= a.at[k * a.across + i * a.down] * x[k].row;
        }
        x[i].row = ones ? row : row / of_a[i * a.down];
    }
}

/* As many as a vector has lanes, or less. */
IPU_INLINE void
FORM(solve_strip)(int n, int columns, matrix a, bool lower, bool ones, matrix b)
{
    FORM(numbers) rows[TRIANGLE_END];
    memset(rows, 0, (size_t)n * sizeof *rows);
    for (int j = 0; j < columns; j++) {
        for (int i = 0; i < n; i++) {
            rows[i].numbers[j] = b.at[i * b.down + j * b.across];
        }
    }
    if (n == TRIANGLE_END && lower) {
        FORM(eliminate_whole)(a, ones, rows);
    } else {
        FORM(eliminate)(n, a, lower, ones, rows);
    }
    for (int j = 0; j < columns; j++) {
        for (int i = 0; i < n; i++) {
            b.at[i * b.down + j * b.across] = rows[i].numbers[j];
        }
    }
}

/* Row by row, each of which is taken from those below: they do not wait for each other,
 * as dots of columns would. `width` is n or more, and a constant. */
IPU_INLINE bool
FORM(cholesky_of)(int n, int width, real *a, ptrdiff_t lead)
{
    real rows[CHOLESKY_END][CHOLESKY_END];
    memset(rows, 0, (size_t)n * sizeof *rows);
    for (int j = 0; j < n; j++) {
        for (int i = 0; i <= j; i++) {
            rows[i][j] = a[i + j * lead];
        }
    }
    for (int i = 0; i < n; i++) {
        if (!(rows[i][i] > 0)) {
            return false;
        }
        const real root = ROOT(rows[i][i]);
        for (int j = 0; j < width; j++) {
            rows[i][j] /= root;
        }
        rows[i][i] = root;
        for (int k = i + 1; k < n; k++) {
            const real factor = rows[i][k];
            for (int j = 0; j < width; j++) {
                rows[k][j] -= factor * rows[i][j];
            }
        }
    }
    for (int j = 0; j < n; j++) {
        for (int i = 0; i <= j; i++) {
            a[i + j * lead] = rows[i][j];
        }
    }
    return true;
}

IPU_INLINE bool
FORM(small_cholesky)(int n, real *a, ptrdiff_t lead)
{
    return n <= CHOLESKY_END / 2
               ? FORM(cholesky_of)(n, CHOLESKY_END / 2, a, lead)
               : FORM(cholesky_of)(n, CHOLESKY_END, a, lead);
}

void
FORM(ipu__exchange_rows)(int columns, real *a, int lead, const int *pivots, int begin,
                         int end)
{
    for (int j = 0; j < columns; j++) {
        real *column = a + (ptrdiff_t)j * lead;
        for (int i = begin; i < end; i++) {
            real x = column[i];
            column[i] = column[pivots[i]];
            column[pivots[i]] = x;
        }
    }
}

IPU_INLINE int
FORM(largest)(const real *x, int begin, int end)
{
    int found = begin;
    real most = SIZE(x[begin]);
    for (int i = begin + 1; i < end; i++) {
        const real size = SIZE(x[i]);
        found = size > most ? i : found;
        most = size > most ? size : most;
    }
    return found;
}

IPU_INLINE int
FORM(small_lu)(int rows, int columns, real *a, int lead, int *pivots)
{
    int missing = -1;
    for (int j = 0; j < columns && j < rows; j++) {
        real *restrict column = a + (ptrdiff_t)j * lead;
        pivots[j] = FORM(largest)(column, j, rows);
        if (column[pivots[j]] == 0) {
            missing = missing < 0 ? j : missing;
            continue;
        }
        if (pivots[j] != j) {
            FORM(ipu__exchange_rows)(columns, a, lead, pivots, j, j + 1);
        }
        const real pivot = column[j];
        for (int i = j + 1; i < rows; i++) {
            column[i] /= pivot;
        }
        for (int l = j + 1; l < columns; l++) {
            real *restrict right = a + (ptrdiff_t)l * lead;
            const real factor = right[j];
            for (int i = j + 1; i < rows; i++) {
                right[i] -= factor * column[i];
            }
        }
    }
    return missing;
}

/* Of each class the same statements, without contraction: the same bits. */
#define ENDS(target, class) \
    target static void IPU__JOIN(FORM(strip), class)(int n, int columns, matrix a, \
                                                     bool lower, bool ones, matrix b) \
    { \
        if (columns == 1) { /* of which a vector would be mostly empty */ \
            FORM(solve_column)(n, a, lower, ones, b); \
        } else { \
            FORM(solve_strip)(n, columns, a, lower, ones, b); \
        } \
    } \
    target static bool IPU__JOIN(FORM(cholesky), class)(int n, real *a, \
                                                        ptrdiff_t lead) \
    { \
        return FORM(small_cholesky)(n, a, lead); \
    } \
    target static int IPU__JOIN(FORM(lu), class)(int rows, int columns, real *a, \
                                                 int lead, int *pivots) \
    { \
        return FORM(small_lu)(rows, columns, a, lead, pivots); \
    }
ENDS(, base)
#if defined(__x86_64__)
ENDS(IPU_TARGET_AVX2, avx2)
ENDS(IPU_TARGET_AVX512, avx512)
#endif
#undef ENDS

/* By halves of the triangle. */
static void
FORM(solve_halves)(ipu__makers by, int n, int columns, matrix a, bool lower, bool ones,
                   matrix b)
{
    if (n <= TRIANGLE_END || columns == 0) {
        void (*solve)(int, int, matrix, bool, bool, matrix) =
            IPU__FOR_CLASS(by.cpu, FORM(strip));
        const int strip = STRIP_BYTES / sizeof(real);
        for (int j = 0; j < columns; j += strip) {
            const int width = columns - j < strip ? columns - j : strip;
            solve(n, width, a, lower, ones, FORM(part)(b, 0, j));
        }
        return;
    }
    const int half = half_of(n);
    const int rest = n - half;
    const matrix last_a = FORM(part)(a, half, half);
    const matrix last_b = FORM(part)(b, half, 0);
    if (lower) {
        FORM(solve_halves)(by, half, columns, a, lower, ones, b);
        FORM(subtract_product)(by, rest, columns, half, FORM(part)(a, half, 0), b,
                               last_b);
        FORM(solve_halves)(by, rest, columns, last_a, lower, ones, last_b);
    } else {
        FORM(solve_halves)(by, rest, columns, last_a, lower, ones, last_b);
        FORM(subtract_product)(by, half, columns, rest, FORM(part)(a, 0, half), last_b,
                               b);
        FORM(solve_halves)(by, half, columns, a, lower, ones, b);
    }
}

/* Columns [begin, end) of a job. */
typedef struct FORM(columns) {
    ipu_cpu_class cpu;
    int n;
    int columns;
    matrix a;
    matrix b;
    bool lower;
    bool ones;
    const int *pivots;
    int rows;
    int32_t parts;
} FORM(columns);

/* Where there are pivots, what elimination does on the right of A [rows, n]. */
static void
FORM(solve_part)(void *state, int32_t task, int32_t worker)
{
    const FORM(columns) *p = state;
    const ipu__makers by = {p->cpu, NULL};
    const int begin = ipu__part_begin(p->columns, p->parts, task);
    const int columns = ipu__part_begin(p->columns, p->parts, task + 1) - begin;
    const matrix b = FORM(part)(p->b, 0, begin);
    (void)worker;
    if (p->pivots != NULL) {
        FORM(ipu__exchange_rows)(columns, b.at, (int)b.across, p->pivots, 0, p->n);
    }
    FORM(solve_halves)(by, p->n, columns, p->a, p->lower, p->ones, b);
    if (p->rows > p->n) {
        FORM(subtract_product)(by, p->rows - p->n, columns, p->n,
                               FORM(part)(p->a, p->n, 0), b, FORM(part)(b, p->n, 0));
    }
}

void
FORM(ipu__solve_triangle)(ipu__makers by, int n, int columns, matrix a, bool lower,
                          bool ones, matrix b)
{
    FORM(columns) p = {by.cpu, n, columns, a, b, lower, ones, NULL, 0, 1};
    p.parts = ipu__parts_of(columns, (int64_t)n * n);
    if (p.parts > 1) {
        ipu_pool_run(by.pool, p.parts, FORM(solve_part), &p);
    } else {
        FORM(solve_halves)(by, n, columns, a, lower, ones, b);
    }
}

bool
FORM(ipu__cholesky)(ipu__makers by, int n, real *a, int lead)
{
    if (n <= CHOLESKY_END) {
        return IPU__FOR_CLASS(by.cpu, FORM(cholesky))(n, a, lead);
    }
    const int half = half_of(n);
    const int rest = n - half;
    real *above = a + (ptrdiff_t)half * lead;
    real *last = above + half;
    if (!FORM(ipu__cholesky)(by, half, a, lead)) {
        return false;
    }
    const matrix right = {above, 1, lead};
    const matrix turned = {above, lead, 1};
    FORM(ipu__solve_triangle)(by, half, rest, (matrix){a, lead, 1}, true, false, right);
    FORM(ipu__multiply)(by, &(FORM(ipu__product)){rest, rest, half, -1, 1, turned,
                                                  right, {last, 1, lead}, true});
    return FORM(ipu__cholesky)(by, rest, last, lead);
}

int
FORM(ipu__lu)(ipu__makers by, int rows, int columns, real *a, int lead, int *pivots)
{
    const int least = rows < columns ? rows : columns;
    if (least <= LU_END) {
        return IPU__FOR_CLASS(by.cpu, FORM(lu))(rows, columns, a, lead,
                                                              pivots);
    }
    const int half = least / 2;
    const int rest = columns - half;
    real *right = a + (ptrdiff_t)half * lead;
    const int missing = FORM(ipu__lu)(by, rows, half, a, lead, pivots);
    FORM(columns) p = {by.cpu, half,   rest, {a, 1, lead}, {right, 1, lead}, true, true,
                       pivots, rows, 1};
    p.parts = ipu__parts_of(rest, (int64_t)2 * rows * half);
    ipu_pool_run(by.pool, p.parts, FORM(solve_part), &p);
    const int missing_right =
        FORM(ipu__lu)(by, rows - half, rest, right + half, lead, pivots + half);
    for (int i = half; i < least; i++) {
        pivots[i] += half;
    }
    FORM(ipu__exchange_rows)(half, a, lead, pivots, half, least);
    return missing >= 0 || missing_right < 0 ? missing : missing_right + half;
}

#undef real
#undef FORM
#undef ROOT
#undef SIZE
#undef matrix
