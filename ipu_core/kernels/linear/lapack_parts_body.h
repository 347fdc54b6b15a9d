/* SPDX-License-Identifier: MIT
 *
 * Functions of lapack_parts.c, which says what `real`, FORM(name) and LAPACK(name)
 * are, and has macros for functions and limits of `real`. */

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
void LAPACK(steqr)(const char *compz, const int *n, real *d, real *e, real *z,
                   const int *ldz, real *work, int *info);

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

/* --- eigenvalues of tridiagonal matrices ------------------------------------------ */

/* Columns `count` to 0 of Z, `lead` apart (it may be negative), of which neighbours are
 * turned by one angle after the other, from the last pair on; for `rows` rows. */
IPU_INLINE void
FORM(turn_columns)(int rows, int count, const real *cosines, const real *sines, real *z,
                   ptrdiff_t lead)
{
    typedef real vector __attribute__((vector_size(LANES * sizeof(real))));
    int i = 0;
    for (; i + LANES <= rows; i += LANES) {
        vector last;
        memcpy(&last, z + count * lead + i, sizeof last);
        for (int k = count - 1; k >= 0; k--) {
            vector here;
            memcpy(&here, z + k * lead + i, sizeof here);
            const vector turned = cosines[k] * last + sines[k] * here;
            memcpy(z + (k + 1) * lead + i, &turned, sizeof turned);
            last = cosines[k] * here - sines[k] * last;
        }
        memcpy(z + i, &last, sizeof last);
    }
    for (; i < rows; i++) {
        real last = z[count * lead + i];
        for (int k = count - 1; k >= 0; k--) {
            const real here = z[k * lead + i];
            z[(k + 1) * lead + i] = cosines[k] * last + sines[k] * here;
            last = cosines[k] * here - sines[k] * last;
        }
        z[i] = last;
    }
}

#define TURNS(target, class) \
    target static void IPU__JOIN(FORM(turns), class)( \
        int rows, int count, const real *cosines, const real *sines, real *z, \
        ptrdiff_t lead) \
    { \
        FORM(turn_columns)(rows, count, cosines, sines, z, lead); \
    }
TURNS(, base)
#if defined(__x86_64__)
TURNS(IPU_TARGET_AVX2, avx2)
TURNS(IPU_TARGET_AVX512, avx512)
#endif
#undef TURNS

/* A block that no zero divides, from its one end, element 0, to the other, `last`; it
 * may lie backwards. */
typedef struct FORM(block) {
    real *d;
    real *e;
    real *z;
    ptrdiff_t step; /* of d and e, 1 or -1 */
    ptrdiff_t lead; /* of z */
    int rows;
    void (*turn)(int, int, const real *, const real *, real *, ptrdiff_t);
    real *cosines; /* room */
    real *sines;
} FORM(block);

/* The eigenvalues of [a b; b c], a rotation to them, and which of them is where. */
static void
FORM(solve_pair)(const FORM(block) *s, int l)
{
    real *a = s->d + l * s->step;
    real *c = a + s->step;
    real *b = s->e + l * s->step;
    const real sum = *a + *c;
    const real gap = *c - *a;
    const real root = FORM(length)(gap, 2 * *b);
    const real large = (sum < 0 ? sum - root : sum + root) / 2;
    const bool by_a = SIZE(*a) > SIZE(*c);
    const real more = by_a ? *a : *c;
    const real less = by_a ? *c : *a;
    const real small = sum == 0 ? -large : more / large * less - *b / large * *b;
    /* |tangent| <= 1 */
    const real tangent = 2 * *b / (gap < 0 ? gap - root : gap + root);
    const real cosine = 1 / ROOT(1 + tangent * tangent);
    const real sine = tangent * cosine;
    const real at_a = *a - tangent * *b;
    const bool is_large = SIZE(at_a - large) <= SIZE(at_a - small);
    s->turn(s->rows, 1, &cosine, &sine, s->z + l * s->lead, s->lead);
    *a = is_large ? large : small;
    *c = is_large ? small : large;
    *b = 0;
}

/* A step of the implicit QL method on elements l to m, with Wilkinson's shift. */
static void
FORM(step)(const FORM(block) *s, int l, int m)
{
    real *const d = s->d;
    real *const e = s->e;
    const ptrdiff_t step = s->step;
    const real half = (d[(l + 1) * step] - d[l * step]) / (2 * e[l * step]);
    const real far = FORM(length)(half, 1);
    real g = d[m * step] - d[l * step] +
             e[l * step] / (half + (half < 0 ? -far : far));
    real sine = 1;
    real cosine = 1;
    real p = 0;
    for (int i = m - 1; i >= l; i--) {
        const real f = sine * e[i * step];
        const real b = cosine * e[i * step];
        const real size = FORM(length)(g, f);
        cosine = size == 0 ? 1 : g / size;
        sine = size == 0 ? 0 : f / size;
        if (i < m - 1) {
            e[(i + 1) * step] = size;
        }
        g = d[(i + 1) * step] - p;
        const real r = (d[i * step] - g) * sine + 2 * cosine * b;
        p = sine * r;
        d[(i + 1) * step] = g + p;
        g = cosine * r - b;
        s->cosines[i - l] = cosine;
        s->sines[i - l] = sine;
    }
    s->turn(s->rows, m - l, s->cosines, s->sines, s->z + l * s->lead, s->lead);
    d[l * step] -= p;
    e[l * step] = g;
}

/* All eigenvalues of elements 0 to `last`; returns how many more steps there may be. */
static int
FORM(solve_block)(const FORM(block) *s, int last, int steps)
{
    const real tiny = EPSILON / 2 * (EPSILON / 2);
    for (int l = 0; l <= last;) {
        int m = l;
        for (; m < last; m++) {
            const real between = s->e[m * s->step];
            if (between * between <=
                tiny * SIZE(s->d[m * s->step]) * SIZE(s->d[(m + 1) * s->step]) +
                    LEAST) {
                s->e[m * s->step] = 0;
                break;
            }
        }
        if (m == l) {
            l++;
        } else if (m == l + 1) {
            FORM(solve_pair)(s, l);
            l += 2;
        } else if (steps-- > 0) {
            FORM(step)(s, l, m);
        } else {
            return 0;
        }
    }
    return steps;
}

/* As LAPACK's: blocks are scaled where squares would overflow or vanish, and are walked
 * from their smaller end. */
void
LAPACK(steqr)(const char *compz, const int *n, real *d, real *e, real *z,
              const int *ldz, real *work, int *info)
{
    const bool vectors = !is_letter(compz, 'N');
    int steps = 30 * *n;
    for (int64_t j = 0; is_letter(compz, 'I') && j < *n; j++) {
        memset(z + j * *ldz, 0, (size_t)*n * sizeof *z);
        z[j * *ldz + j] = 1;
    }
    for (int begin = 0, end; begin < *n; begin = end) {
        real largest = SIZE(d[begin]);
        for (end = begin + 1; end < *n; end++) {
            const real between = SIZE(e[end - 1]);
            const real near = ROOT(SIZE(d[end - 1])) * ROOT(SIZE(d[end]));
            if (between <= near * (EPSILON / 2)) {
                e[end - 1] = 0;
                break;
            }
            largest = between > largest ? between : largest;
            largest = SIZE(d[end]) > largest ? SIZE(d[end]) : largest;
        }
        const int last = end - 1 - begin;
        const bool back = SIZE(d[end - 1]) < SIZE(d[begin]);
        const int first = back ? end - 1 : begin;
        const FORM(block) block = {
            .d = d + first,
            .e = e + (back ? first - 1 : first),
            .z = z + (ptrdiff_t)first * *ldz,
            .step = back ? -1 : 1,
            .lead = back ? -(ptrdiff_t)*ldz : *ldz,
            .rows = vectors ? *n : 0,
            .turn = IPU__FOR_CLASS(makers().cpu, FORM(turns)),
            .cosines = work,
            .sines = work + *n - 1,
        };
        int exponent = 0;
        if (largest > 0 && (largest < SMALL || largest > 1 / SMALL)) {
            (void)frexp((double)largest, &exponent);
        }
        for (int i = begin; exponent != 0 && i < end; i++) {
            d[i] = (real)ldexp((double)d[i], -exponent);
            e[i] = i + 1 < end ? (real)ldexp((double)e[i], -exponent) : e[i];
        }
        steps = last > 0 ? FORM(solve_block)(&block, last, steps) : steps;
        for (int i = begin; exponent != 0 && i < end; i++) {
            d[i] = (real)ldexp((double)d[i], exponent);
            e[i] = i + 1 < end ? (real)ldexp((double)e[i], exponent) : e[i];
        }
    }
    *info = 0;
    for (int i = 0; i + 1 < *n; i++) {
        *info += e[i] != 0;
    }
    for (int i = 0; *info == 0 && i + 1 < *n; i++) {
        int least = i;
        for (int j = i + 1; j < *n; j++) {
            least = d[j] < d[least] ? j : least;
        }
        const real value = d[least];
        d[least] = d[i];
        d[i] = value;
        for (int64_t j = 0; vectors && least != i && j < *n; j++) {
            const real element = z[(int64_t)least * *ldz + j];
            z[(int64_t)least * *ldz + j] = z[(int64_t)i * *ldz + j];
            z[(int64_t)i * *ldz + j] = element;
        }
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
#undef SIZE
#undef ROOT
#undef EPSILON
#undef LEAST
#undef SMALL
#undef matrix
