/* SPDX-License-Identifier: MIT
 *
 * Functions of lapack_parts.c, which says what `real`, FORM(name) and LAPACK(name)
 * are. */

#define matrix FORM(ipu__matrix)

/* As they are declared by the libraries. */
void LAPACK(gemm)(const char *transa, const char *transb, const int *m, const int *n,
                  const int *k, const real *alpha, const real *a, const int *lda,
                  const real *b, const int *ldb, const real *beta, real *c,
                  const int *ldc);
void LAPACK(larfb)(const char *side, const char *trans, const char *direct,
                   const char *storev, const int *m, const int *n, const int *k,
                   const real *v, const int *ldv, const real *t, const int *ldt,
                   real *c, const int *ldc, real *work, const int *ldwork);
real LAPACK(nrm2)(const int *n, const real *x, const int *step);

static matrix
FORM(of)(const real *at, const int *lead, bool transposed)
{
    return (matrix){(real *)(uintptr_t)at, transposed ? *lead : 1,
                    transposed ? 1 : *lead};
}

void
LAPACK(gemm)(const char *transa, const char *transb, const int *m, const int *n,
             const int *k, const real *alpha, const real *a, const int *lda,
             const real *b, const int *ldb, const real *beta, real *c, const int *ldc)
{
    const FORM(ipu__product) product = {
        .m = *m,
        .n = *n,
        .k = *k,
        .alpha = *alpha,
        .beta = *beta,
        .a = FORM(of)(a, lda, !is_letter(transa, 'N')),
        .b = FORM(of)(b, ldb, !is_letter(transb, 'N')),
        .c = {c, 1, *ldc},
    };
    if (*m > 0 && *n > 0) {
        FORM(ipu__multiply)(makers(), &product);
    }
}

/* --- blocks of reflections -------------------------------------------------------- */

/* W = T W of [k, width], rows of whole tiles side by side. T is the lower triangle of
 * `t`, or the upper one; `ones`: whatever lies on its diagonal, it has ones there. */
IPU_INLINE void
FORM(multiply_triangle)(int k, matrix t, bool lower, bool ones, int64_t width, real *w)
{
    for (int64_t l = 0; l < width; l += TILE) {
        for (int turn = 0; turn < k; turn++) {
            const int i = lower ? k - 1 - turn : turn;
            const real *of_t = t.at + i * t.down;
            const real own = ones ? 1 : of_t[i * t.across];
            real *row = w + i * width + l;
            real sums[TILE];
            for (int x = 0; x < TILE; x++) {
                sums[x] = own * row[x];
            }
            for (int j = lower ? 0 : i + 1; j < (lower ? i : k); j++) {
                const real factor = of_t[j * t.across];
                const real *other = w + j * width + l;
                for (int x = 0; x < TILE; x++) {
                    sums[x] += factor * other[x];
                }
            }
            memcpy(row, sums, sizeof sums);
        }
    }
}

#define TRIANGLES(target, class) \
    target static void IPU__JOIN(FORM(triangle), class)(int k, matrix t, bool lower, \
                                                   bool ones, int64_t width, real *w) \
    { \
        FORM(multiply_triangle)(k, t, lower, ones, width, w); \
    }
TRIANGLES(, base)
#if defined(__x86_64__)
TRIANGLES(IPU_TARGET_AVX2, avx2)
TRIANGLES(IPU_TARGET_AVX512, avx512)
#endif
#undef TRIANGLES

/* C -= V T V^T C of C [m, n], V [m, k]: V's rows are a triangle of its own with ones on
 * its diagonal, and the rest. */
typedef struct FORM(reflections) {
    ipu_cpu_class cpu;
    int rest; /* m - k */
    int n;
    int k;
    matrix triangle;
    matrix v; /* the rest */
    bool lower;
    matrix t;
    bool t_lower;
    matrix c; /* what stands beside the triangle */
    matrix rest_c;
    int32_t parts;
} FORM(reflections);

static matrix
FORM(turned)(matrix m)
{
    return (matrix){m.at, m.across, m.down};
}

static void
FORM(reflect_columns)(const FORM(reflections) *p, int begin, int width)
{
    _Alignas(64) real w[BLOCK]; /* [k, width], rows of whole tiles */
    const int k = p->k;
    const int row = (int)ipu__ceil_div(width, TILE) * TILE;
    const ipu__makers by = {p->cpu, NULL};
    const matrix c = {p->c.at + begin * p->c.across, p->c.down, p->c.across};
    const matrix rest_c = {p->rest_c.at + begin * p->c.across, c.down, c.across};
    void (*multiply)(int, matrix, bool, bool, int64_t, real *) =
        IPU__FOR_CLASS(p->cpu, FORM(triangle));
    memset(w, 0, row > width ? (size_t)(k * row) * sizeof *w : 0);
    for (int j = 0; j < width; j++) {
        for (int i = 0; i < k; i++) {
            w[i * row + j] = c.at[i * c.down + j * c.across];
        }
    }
    multiply(k, FORM(turned)(p->triangle), !p->lower, true, row, w);
    if (p->rest > 0) {
        const FORM(ipu__product) add = {
            k, width, p->rest, 1, 1, FORM(turned)(p->v), rest_c, {w, row, 1}, false};
        FORM(ipu__multiply)(by, &add);
    }
    multiply(k, p->t, p->t_lower, false, row, w);
    if (p->rest > 0) {
        const FORM(ipu__product) subtract = {
            p->rest, width, k, -1, 1, p->v, {w, row, 1}, rest_c, false};
        FORM(ipu__multiply)(by, &subtract);
    }
    multiply(k, p->triangle, p->lower, true, row, w);
    for (int j = 0; j < width; j++) {
        for (int i = 0; i < k; i++) {
            c.at[i * c.down + j * c.across] -= w[i * row + j];
        }
    }
}

static void
FORM(reflect_part)(void *state, int32_t task, int32_t worker)
{
    const FORM(reflections) *p = state;
    const int end = ipu__part_begin(p->n, p->parts, task + 1);
    const int most = BLOCK / p->k / TILE * TILE;
    (void)worker;
    for (int i = ipu__part_begin(p->n, p->parts, task); i < end; i += most) {
        FORM(reflect_columns)(p, i, end - i < most ? end - i : most);
    }
}

/* C = H C, H^T C, C H or C H^T of H = I - V T V^T. From the right it is C^T that they
 * are applied to, the other way round. */
void
LAPACK(larfb)(const char *side, const char *trans, const char *direct,
              const char *storev, const int *m, const int *n, const int *k,
              const real *v, const int *ldv, const real *t, const int *ldt, real *c,
              const int *ldc, real *work, const int *ldwork)
{
    const bool left = is_letter(side, 'L');
    const bool transposed = is_letter(trans, 'N') != left;
    const bool forward = is_letter(direct, 'F');
    const int rows = left ? *m : *n;
    const matrix all_v = FORM(of)(v, ldv, !is_letter(storev, 'C'));
    const matrix all_c = FORM(of)(c, ldc, !left);
    const int first = forward ? 0 : rows - *k;
    const int rest = forward ? *k : 0;
    FORM(reflections) job = {
        .rest = rows - *k,
        .n = left ? *n : *m,
        .k = *k,
        .triangle = {all_v.at + first * all_v.down, all_v.down, all_v.across},
        .v = {all_v.at + rest * all_v.down, all_v.down, all_v.across},
        .lower = forward,
        .t = FORM(of)(t, ldt, transposed),
        .t_lower = forward == transposed,
        .c = {all_c.at + first * all_c.down, all_c.down, all_c.across},
        .rest_c = {all_c.at + rest * all_c.down, all_c.down, all_c.across},
    };
    (void)work; /* whose columns may be any number of pages apart */
    (void)ldwork;
    if (*m > 0 && *n > 0) {
        const ipu__makers by = makers();
        job.cpu = by.cpu;
        job.parts = ipu__parts_of(job.n, (int64_t)4 * rows * *k);
        ipu_pool_run(by.pool, job.parts, FORM(reflect_part), &job);
    }
}

/* --- norms ------------------------------------------------------------------------ */

IPU_INLINE double
FORM(sum_squares)(int64_t n, const real *x, int64_t step, double up)
{
    double sums[SUMS] = {0};
    int64_t i = 0;
    for (; i + SUMS <= n; i += SUMS) {
        for (int j = 0; j < SUMS; j++) {
            const double number = up * (double)x[(i + j) * step] * up;
            sums[j] += number * number;
        }
    }
    for (int j = 0; i < n; i++, j++) {
        const double number = up * (double)x[i * step] * up;
        sums[j] += number * number;
    }
    for (int half = SUMS / 2; half > 0; half /= 2) {
        for (int j = 0; j < half; j++) {
            sums[j] += sums[j + half];
        }
    }
    return sums[0];
}

/* The sum of the squares of x times `up` twice. */
static double
FORM(squares)(int64_t n, const real *x, int64_t step, double up)
{
    return step == 1 ? FORM(sum_squares)(n, x, 1, up)
                     : FORM(sum_squares)(n, x, step, up);
}

#undef real
#undef FORM
#undef LAPACK
#undef matrix
