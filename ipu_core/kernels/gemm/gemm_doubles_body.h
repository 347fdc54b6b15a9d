/* SPDX-License-Identifier: MIT
 *
 * Chains of a tile on processors of x86-64 that have no fused multiply-add, in the middle
 * of gemm_tiles_body.h. Each step rounds x * y + s once to float:
 *
 *   - Sums are doubles, 2^-896 times a float: their exponent fields are those of the
 *     float, and what it has not are their low 29 bits, where it is subnormal, too. x is
 *     scaled so.
 *   - t = x * y + s in double. The product of two floats is exact there, or, below
 *     2^-1022, wrong by half of the last bit that t can have. Points halfway between
 *     floats are doubles, and rounding is monotonic: t lies on the same side of each of
 *     them as the exact sum, or on it.
 *   - Half of a float's last bit is added to the bits of t, and the low 29 are cut off.
 *     That is the nearest float, but where t is halfway: there double rounding may be
 *     wrong (Figueroa, "When is double rounding innocuous?", 1995). Such steps, one of
 *     2^29 where factors have all their bits, are made again by rounding to odd.
 *   - Doubles go on where floats become infinite. So factors of 2^58 or more become
 *     infinite where they are widened, and sums of 2^127 or more that a chain goes on
 *     from; IPU_SUM_BLOCK products of others do not reach 2^128. And a product that
 *     vanishes leaves no sign to a sum of 0. A tile that ends with an infinity, or NaN,
 *     or with 0 after an underflow, is made again, float by float. */
#include <emmintrin.h>

enum { WIDE_K = 64 }; /* terms that are widened at a time */

#define UP 0x1p896
#define DOWN 0x1p-896

typedef __m128d pair;

typedef struct wide_tile {
    _Alignas(16) double sums[ROWS][PANEL];
    double a[ROWS * WIDE_K]; /* [row][k], or [k][row] where rows are neighbours */
    _Alignas(16) double b[WIDE_K * PANEL];
} wide_tile;

/* For loops whose arrays are to be registers. */
#define UNROLLED(i, count, ...) \
    _Pragma("GCC unroll 8") for (int i = 0; i < (count); i++) \
    { \
        __VA_ARGS__; \
    }

static __attribute__((noinline, cold)) void
add_exactly(int pairs, wide x, const wide *y, wide *sum)
{
    const half_vector x_half = __builtin_convertvector(x * UP, half_vector);
    for (int i = 0; i < pairs; i++) {
        half_vector y_half = __builtin_convertvector(y[i], half_vector);
        half_vector z = __builtin_convertvector(sum[i] * UP, half_vector);
        z = rounded_once(x_half, y_half, z);
        sum[i] = __builtin_convertvector(z, wide) * DOWN;
    }
}

/* One step of a row. */
IPU_INLINE void
add_products(int vectors, const double *x_at, const double *y, pair sum[2 * VECTORS])
{
    static const wide_bits of_float = {~0x1fffffffLL, ~0x1fffffffLL};
    const __m128i half = _mm_set1_epi64x(0x10000000);
    const pair x = _mm_load1_pd(x_at);
    __m128i bits[2 * VECTORS];
    __m128i low[VECTORS]; /* the low 29 bits; 0 for those that were halfway */
    UNROLLED(i, 2 * vectors, {
        pair t = _mm_add_pd(_mm_mul_pd(x, _mm_load_pd(y + 2 * i)), sum[i]);
        bits[i] = _mm_add_epi64(_mm_castpd_si128(t), half);
    })
    UNROLLED(i, vectors, {
        __m128 words = _mm_shuffle_ps(_mm_castsi128_ps(bits[2 * i]),
                                      _mm_castsi128_ps(bits[2 * i + 1]), 0x88);
        low[i] = _mm_slli_epi32(_mm_castps_si128(words), 3);
    })
    /* numbers that are not 0 stay so when they are cut down to 16 bits */
    __m128i packed = _mm_packs_epi32(low[0], low[vectors - 1]);
    __m128i ties = _mm_cmpeq_epi16(packed, _mm_setzero_si128());
    if (__builtin_expect(_mm_movemask_epi8(ties) != 0, 0)) {
        wide again[2 * VECTORS]; /* so that `sum` has no address */
        UNROLLED(i, 2 * vectors, again[i] = (wide)sum[i])
        add_exactly(2 * vectors, (wide)x, (const wide *)y, again);
        UNROLLED(i, 2 * vectors, sum[i] = (pair)again[i])
        return;
    }
    UNROLLED(i, 2 * vectors, sum[i] = _mm_castsi128_pd(bits[i] & (__m128i)of_float))
}

IPU_INLINE void
add_rows(int rows, int vectors, int64_t k, const double *a, int64_t a_row,
         int64_t a_step, const double *b, double sums[][PANEL])
{
    pair sum[2][2 * VECTORS];
    UNROLLED(i, rows,
             UNROLLED(j, 2 * vectors, sum[i][j] = _mm_loadu_pd(sums[i] + 2 * j)))
    for (int64_t j = 0; j < k; j++, a += a_step, b += PANEL) {
        UNROLLED(i, rows, add_products(vectors, a + i * a_row, b, sum[i]))
    }
    UNROLLED(i, rows,
             UNROLLED(j, 2 * vectors, _mm_storeu_pd(sums[i] + 2 * j, sum[i][j])))
}

IPU_INLINE void
widen_floats(__m128 x, double scale, double *to)
{
    _mm_storeu_pd(to, _mm_mul_pd(_mm_cvtps_pd(x), _mm_set1_pd(scale)));
    x = _mm_movehl_ps(x, x);
    _mm_storeu_pd(to + 2, _mm_mul_pd(_mm_cvtps_pd(x), _mm_set1_pd(scale)));
}

/* Floats of A, infinite from 2^58 on. */
IPU_INLINE void
widen_a(__m128 x, double *to)
{
    widen_floats(_mm_mul_ps(x, _mm_set1_ps(0x1p70f)), 0x1p-70 * DOWN, to);
}

/* The next k terms of each sum. a: the rows' first terms; `column` floats from term to
 * term where rows are neighbours, otherwise 0, and terms are. */
static __attribute__((noinline)) void
wide_run(wide_tile *w, int rows, int vectors, int64_t k, const float *const *a,
         int64_t column, const float *b, int64_t b_row)
{
    const int64_t a_row = column > 0 ? 1 : WIDE_K;
    const int64_t a_step = column > 0 ? ROWS : 1;
    for (int64_t first = 0, some; first < k; first += some) {
        some = ipu__min(k - first, WIDE_K);
        for (int64_t j = 0; column > 0 && j < some; j++) {
            for (int i = 0; i < rows; i += LANES) {
                widen_a(_mm_loadu_ps(a[0] + (first + j) * column + i),
                        w->a + j * ROWS + i);
            }
        }
        for (int i = 0; column == 0 && i < rows; i++) {
            const float *from = a[i] + first;
            double *to = w->a + i * WIDE_K;
            int64_t j = 0;
            for (; j + LANES <= some; j += LANES) {
                widen_a(_mm_loadu_ps(from + j), to + j);
            }
            if (j < some) {
                vector rest = load_edge(from + j, edge_of(some - j));
                widen_a((__m128)rest, to + j);
            }
        }
        for (int64_t j = 0; j < some; j++, b += b_row) {
            for (int part = 0; part < vectors; part++) {
                __m128 y = _mm_loadu_ps(b + part * LANES);
                y = _mm_mul_ps(y, _mm_set1_ps(0x1p70f));
                widen_floats(_mm_mul_ps(y, _mm_set1_ps(0x1p-70f)), 1.0,
                             w->b + j * PANEL + part * LANES);
            }
        }
        for (int i = 0; i < rows; i += 2) {
            const double *from = w->a + i * a_row;
            const bool both = i + 1 < rows;
            if (both && vectors == 2) {
                add_rows(2, 2, some, from, a_row, a_step, w->b, w->sums + i);
            } else if (both) {
                add_rows(2, 1, some, from, a_row, a_step, w->b, w->sums + i);
            } else if (vectors == 2) {
                add_rows(1, 2, some, from, a_row, a_step, w->b, w->sums + i);
            } else {
                add_rows(1, 1, some, from, a_row, a_step, w->b, w->sums + i);
            }
        }
    }
}

static void
wide_begin(wide_tile *w, int rows, int vectors, vector sum[ROWS][VECTORS])
{
    _mm_setcsr(_mm_getcsr() & ~(uint32_t)_MM_EXCEPT_UNDERFLOW);
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < vectors; j++) {
            widen_floats((__m128)(sum[i][j] * 2.0f), 0.5 * DOWN,
                         w->sums[i] + j * LANES);
        }
    }
}

/* False, and sums that are as they were, where some may be wrong. */
static bool
wide_end(const wide_tile *w, int rows, int vectors, vector sum[ROWS][VECTORS])
{
    const bool underflow = (_mm_getcsr() & _MM_EXCEPT_UNDERFLOW) != 0;
    const pair doubtful_zero = _mm_set1_pd(underflow ? 0.0 : INFINITY);
    pair wrong = _mm_setzero_pd();
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < vectors * LANES; j += 2) {
            pair x = _mm_load_pd(w->sums[i] + j);
            wrong = _mm_or_pd(wrong, _mm_cmpunord_pd(x, _mm_sub_pd(x, x)));
            wrong = _mm_or_pd(wrong, _mm_cmpeq_pd(x, doubtful_zero));
        }
    }
    if (_mm_movemask_pd(wrong) != 0) {
        return false;
    }
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < vectors; j++) {
            const double *x = w->sums[i] + j * LANES;
            __m128 low = _mm_cvtpd_ps(_mm_mul_pd(_mm_load_pd(x), _mm_set1_pd(UP)));
            __m128 high = _mm_cvtpd_ps(_mm_mul_pd(_mm_load_pd(x + 2), _mm_set1_pd(UP)));
            sum[i][j] = (vector)_mm_movelh_ps(low, high);
        }
    }
    return true;
}

/* The sums of a tile from where they are on; B is packed on the way. */
static bool
tile_by_doubles(int rows, int vectors, int reads, bool packs, int64_t k,
                const tile_source *from, vector sum[ROWS][VECTORS])
{
    wide_tile w;
    const float *a[ROWS];
    const float *b = from->b;
    const bool columns = reads == COLUMNS;
    for (int i = 0; i < rows; i++) {
        a[i] = from->a + i * (columns ? 1 : from->a_step);
    }
    wide_begin(&w, rows, vectors, sum);
    for (int64_t done = 0, some; done < k; done += some, b += some * from->b_row) {
        some = reads == SEGMENTS ? ipu__min(from->segment, k - done) : k;
        wide_run(&w, rows, vectors, some, a, columns ? from->a_step : 0, b,
                 from->b_row);
        for (int i = 0; i < rows; i++) {
            a[i] += some + from->a_jump;
        }
    }
    for (int64_t j = 0; packs && j < k; j++) {
        memcpy(from->panel + j * PANEL, from->b + j * from->b_row, PANEL * sizeof *b);
    }
    return wide_end(&w, rows, vectors, sum);
}
