/* SPDX-License-Identifier: MIT
 *
 * The folds of reductions, a set of functions for each op and dtype, in both instruction
 * sets. A row is folded by a fixed tree: lanes side by side, which take turns, then
 * halves of the lanes. Floats have 32 lanes, so their bits are those of one tree
 * everywhere; what is exact has as many as fill registers. Integers wrap in their own
 * width, where that gives the bits of a wider sum; float16 is held in float32, products
 * of both in double. No state, any thread. */
#include <math.h>
#include <string.h>

#include "kernels/reduce/reduce_fold_impl.h"
#include "kernels/core/sum_tree.h"
#include "kernels/math/element_math.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    LANES = 32,
    ROWS = 4,    /* that strips join at a time */
    WIDE = 1024, /* halves of a strip that are widened at a time */
    SIDE = 4     /* chunks of few columns that do not wait for each other */
};

#define PLUS(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))
/* small unsigned integers would be multiplied as int, which may overflow */
#define TIMES_UNSIGNED(a, b) (1u * (a) * (b))
/* of equal ones the second; NaN if one is */
#define SMALLER(a, b) ((a) < (b) ? (a) : ((a) == (a) ? (b) : (a)))
#define LARGER(a, b) IPU_LARGER(a, b)
#define GREATEST(a, b) ((a) > (b) ? (a) : (b))
#define LEAST(a, b) ((a) < (b) ? (a) : (b))
#define EITHER(a, b) ((a) | (b))
#define BOTH(a, b) ((a) & ((b) != 0))

/* The common part of all folds. */
#define ACCUMULATORS(name, target, acc, first, step) \
    target static void join_##name(void *accumulators, const void *more, int64_t n) \
    { \
        acc *total = accumulators; \
        const acc *y = more; \
        IPU_INDEPENDENT \
        for (int64_t j = 0; j < n; j++) { \
            total[j] = (acc)step(total[j], y[j]); \
        } \
    } \
    target static void start_##name(void *accumulators, int64_t n) \
    { \
        acc *total = accumulators; \
        for (int64_t j = 0; j < n; j++) { \
            total[j] = (acc)(first); \
        } \
    }

/* The lanes fold in halves. Widths are constants, so that lanes stay in registers. */
#define HALVE(acc, lane, lanes, width, step) \
    for (int32_t j = 0; (width) < (lanes) && j < (width); j++) { \
        lane[j] = (acc)step(lane[j], lane[j + (width)]); \
    }
#define HALVES(acc, lane, lanes, step) \
    HALVE(acc, lane, lanes, 64, step) \
    HALVE(acc, lane, lanes, 32, step) \
    HALVE(acc, lane, lanes, 16, step) \
    HALVE(acc, lane, lanes, 8, step) \
    HALVE(acc, lane, lanes, 4, step) \
    HALVE(acc, lane, lanes, 2, step) \
    HALVE(acc, lane, lanes, 1, step)

/* n is never negative. Where compilers know a constant they fill lanes by memset, which
 * takes longer than a short row. */
#define NOT_CONSTANT(value, type, n) ((type)(value) + (type)((n) < 0))

/* LANES halves as floats. */
IPU_INLINE void
widen(float wide[LANES], const uint16_t *x)
{
    for (int32_t j = 0; j < LANES; j++) {
        wide[j] = ipu_float16_to_float(x[j]);
    }
}

/* How a block of elements is read: as `block`, of the same type, or widened. */
#define AS_IT_IS(element, block, x) const element *block = (x)
#define WIDENED(element, block, x) \
    float block[LANES]; \
    widen(block, x)

/* filler: an element that changes nothing. What is left of a row is read with what comes
 * after it, where that may be read: what is copied byte by byte is late for vectors. */
#define ROW(name, target, acc, element, lanes, first, filler, step, OPEN) \
    target static void row_##name(void *accumulator, const void *elements, int64_t n, \
                                  int64_t readable) \
    { \
        const element *x = elements; \
        acc lane[lanes]; \
        int64_t i = 0; \
        acc nothing = (acc)NOT_CONSTANT(first, acc, n); \
        for (int32_t j = 0; j < (lanes); j++) { \
            lane[j] = nothing; \
        } \
        for (; i + (lanes) <= n; i += (lanes)) { \
            OPEN(element, block, x + i); \
            for (int32_t j = 0; j < (lanes); j++) { \
                lane[j] = (acc)step(lane[j], (acc)block[j]); \
            } \
        } \
        if (i < n && i + (lanes) <= readable) { \
            const int32_t left = (int32_t)(n - i); \
            OPEN(element, block, x + i); \
            for (int32_t j = 0; j < (lanes); j++) { \
                acc more = (acc)step(lane[j], (acc)block[j]); \
                lane[j] = j < left ? more : lane[j]; \
            } \
        } else if (i < n) { /* among fillers */ \
            element rest[lanes]; \
            for (int32_t j = 0; j < (lanes); j++) { \
                rest[j] = (element)NOT_CONSTANT(filler, element, n); \
            } \
            memcpy(rest, x + i, (size_t)(n - i) * sizeof(element)); \
            OPEN(element, block, rest); \
            for (int32_t j = 0; j < (lanes); j++) { \
                lane[j] = (acc)step(lane[j], (acc)block[j]); \
            } \
        } \
        HALVES(acc, lane, lanes, step) \
        *(acc *)accumulator = lane[0]; \
    }

/* Lanes are rows. What `row` joins with fillers stays as it is. */
#define SHORT_ROWS(name, target, acc, element, first, step) \
    target static void short_##name(void *accumulators, const void *elements, \
                                    int64_t rows, int64_t n) \
    { \
        const element *x = elements; \
        acc *total = accumulators; \
        acc column[IPU_FOLD_SHORT][IPU_FOLD_SIDE]; \
        const acc nothing = (acc)NOT_CONSTANT(first, acc, n); \
        for (int64_t j = 0; j < n; j++) { \
            for (int64_t i = 0; i < rows; i++) { \
                column[j][i] = (acc)step(nothing, (acc)x[i * n + j]); \
            } \
        } \
        for (int64_t width = IPU_FOLD_SHORT / 2; width > 0; width /= 2) { \
            for (int64_t j = 0; j < width && j + width < n; j++) { \
                const acc *more = column[j + width]; \
                for (int64_t i = 0; i < rows; i++) { \
                    column[j][i] = (acc)step(column[j][i], more[i]); \
                } \
            } \
        } \
        memcpy(total, column[0], (size_t)rows * sizeof *total); \
    }

/* Rows and strips for AVX2, lane by lane as above: gcc keeps arrays of numbers in
 * memory from loop to loop, those of vectors in registers. */
#if defined(__x86_64__)
#define VECTOR_EITHER_8(a, b) ((a) | (b))
#define VECTOR_BOTH_8(a, b) ((a) & (__typeof__(a))((b) != 0))
#define VECTOR_PLUS_8(a, b) ((a) + (b))
#define VECTOR_PLUS_16(a, b) ((a) + (b))
#define VECTOR_PLUS_32(a, b) ((a) + (b))
#define VECTOR_PLUS_64(a, b) ((a) + (b))
#define VECTOR_TIMES_64(a, b) ((a) * (b))
/* min and max give the second of equal ones, and where one is NaN */
#define EXTREME(which, kind, a, b) \
    _mm256_blendv_##kind(_mm256_##which##_##kind(a, b), a, \
                         _mm256_cmp_##kind(a, a, _CMP_UNORD_Q))
#define VECTOR_LARGER_32(a, b) EXTREME(max, ps, a, b)
#define VECTOR_LARGER_64(a, b) EXTREME(max, pd, a, b)
#define VECTOR_SMALLER_32(a, b) EXTREME(min, ps, a, b)
#define VECTOR_SMALLER_64(a, b) EXTREME(min, pd, a, b)
#define IS_SIGNED(a) ((__typeof__((a)[0]))-1 < (__typeof__((a)[0]))1)
#define WHOLE_EXTREME(which, bits, a, b) \
    (__typeof__(a))(IS_SIGNED(a) \
                        ? _mm256_##which##_epi##bits((__m256i)(a), (__m256i)(b)) \
                        : _mm256_##which##_epu##bits((__m256i)(a), (__m256i)(b)))
#define VECTOR_GREATEST_8(a, b) WHOLE_EXTREME(max, 8, a, b)
#define VECTOR_LEAST_8(a, b) WHOLE_EXTREME(min, 8, a, b)
#define VECTOR_GREATEST_16(a, b) WHOLE_EXTREME(max, 16, a, b)
#define VECTOR_LEAST_16(a, b) WHOLE_EXTREME(min, 16, a, b)
#define VECTOR_GREATEST_32(a, b) WHOLE_EXTREME(max, 32, a, b)
#define VECTOR_LEAST_32(a, b) WHOLE_EXTREME(min, 32, a, b)
#define VECTOR_GREATEST_64(a, b) PICK((a) > (b), a, b)
#define VECTOR_LEAST_64(a, b) PICK((a) < (b), a, b)
/* with AVX-512 */
#define WIDE_GREATEST(a, b) WHOLE_EXTREME(max, 64, a, b)
#define WIDE_LEAST(a, b) WHOLE_EXTREME(min, 64, a, b)
#define PICK(mask, a, b) \
    (__typeof__(b))_mm256_blendv_epi8((__m256i)(b), (__m256i)(a), (__m256i)(mask))
#define SWAPPED_4(v) _mm256_permute2x128_si256((__m256i)(v), (__m256i)(v), 1)
#define SWAPPED_2(v) _mm256_shuffle_epi32((__m256i)(v), 0x4e)
#define SWAPPED_1(v) _mm256_shuffle_epi32((__m256i)(v), 0xb1)
#define ABOVE(v, bits) _mm256_srli_epi32((__m256i)(v), bits) /* within 4 bytes */
#define LANE_32 _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)
#define LANE_64 _mm256_setr_epi64x(0, 1, 2, 3)
#define LANE_16 \
    _mm256_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define LANE_8 \
    _mm256_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, \
                     19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31)
#define ALL_8(n) _mm256_set1_epi8((char)ipu__min(n, 32))
#define ALL_16(n) _mm256_set1_epi16((int16_t)(n))
#define ALL_32(n) _mm256_set1_epi32((int32_t)(n))
#define ALL_64(n) _mm256_set1_epi64x(n)

/* A vector of accumulators is made of elements as wide as they are, of floats, or of
 * halves. `some`: of the first n, and anything. */
#define OPENED(form, value) \
    IPU_TARGET_AVX2 IPU_INLINE __m256i opened_##form(const void *x) \
    { \
        return value; \
    }
#define SOME(form, value) \
    IPU_TARGET_AVX2 IPU_INLINE __m256i some_##form(const void *x, int64_t n) \
    { \
        return value; \
    }
OPENED(8, _mm256_loadu_si256(x))
OPENED(16, _mm256_loadu_si256(x))
OPENED(32, _mm256_loadu_si256(x))
OPENED(64, _mm256_loadu_si256(x))
OPENED(float_64, _mm256_castpd_si256(_mm256_cvtps_pd(_mm_loadu_ps(x))))
OPENED(half_32, _mm256_castps_si256(_mm256_cvtph_ps(_mm_loadu_si128(x))))
OPENED(half_64, _mm256_castpd_si256(_mm256_cvtps_pd(_mm_cvtph_ps(_mm_loadl_epi64(x)))))
SOME(8, ((void)n, _mm256_loadu_si256(x)))
SOME(16, ((void)n, _mm256_loadu_si256(x)))
SOME(32, _mm256_maskload_epi32(x, _mm256_cmpgt_epi32(ALL_32(n), LANE_32)))
SOME(64, _mm256_maskload_epi64(x, _mm256_cmpgt_epi64(ALL_64(n), LANE_64)))
SOME(float_64,
     _mm256_castpd_si256(_mm256_cvtps_pd(_mm_maskload_ps(
         x, _mm_cmpgt_epi32(_mm_set1_epi32((int32_t)n), _mm_setr_epi32(0, 1, 2, 3))))))

/* LANES elements at x, of which n count and `readable` may be read, as a block of what
 * `opened` takes. */
#define BLOCK_AS_IT_IS(element, block, x, n, readable) const element *block = (x)
#define BLOCK_READABLE(element, block, x, n, readable) \
    element rest_##block[IPU_FOLD_LANES(element)] = {0}; \
    if ((readable) < IPU_FOLD_LANES(element)) { /* copied byte by byte it is late */ \
        memcpy(rest_##block, x, (size_t)(n) * sizeof(element)); \
    } \
    const element *block = (readable) < IPU_FOLD_LANES(element) ? rest_##block : (x)
#define BLOCK_WIDENED(element, block, x, n, readable) \
    float block[LANES]; \
    element rest_##block[LANES] = {0}; \
    if ((readable) < LANES) { /* copied byte by byte it is late */ \
        memcpy(rest_##block, x, (size_t)(n) * sizeof(element)); \
    } \
    widen_avx2(block, (readable) < LANES ? rest_##block : (x))
IPU_TARGET_AVX2 IPU_INLINE void
widen_avx2(float wide[LANES], const uint16_t *x)
{
    for (int32_t j = 0; j < LANES; j += 8) {
        __m128i halves = _mm_loadu_si128((const __m128i *)(const void *)(x + j));
        _mm256_storeu_ps(wide + j, _mm256_cvtph_ps(halves));
    }
}

#define HALVE_VECTORS(count, width, step) \
    for (int32_t k = 0; 2 * (width) <= (count) && k < (width); k++) { \
        lane[k] = step(lane[k], lane[k + (width)]); \
    }
#define ROW_OF_VECTORS(name, target, acc, element, lanes, bits, form, first, step, \
                       BLOCK) \
    typedef acc vector_##name __attribute__((vector_size(32))); \
    enum { EACH_##name = 32 / sizeof(acc) }; \
    /* the first n lanes from x, among `nothing` */ \
    target IPU_INLINE vector_##name among_##name(const void *x, int64_t n, \
                                                 vector_##name nothing) \
    { \
        const __m256i mask = _mm256_cmpgt_epi##bits(ALL_##bits(n), LANE_##bits); \
        return PICK(mask, some_##form(x, n), nothing); \
    } \
    target IPU_INLINE acc joined_##name(vector_##name *lane, int32_t count) \
    { \
        HALVE_VECTORS(count, 4, step) \
        HALVE_VECTORS(count, 2, step) \
        HALVE_VECTORS(count, 1, step) \
        lane[0] = step(lane[0], (vector_##name)SWAPPED_4(lane[0])); \
        lane[0] = step(lane[0], (vector_##name)SWAPPED_2(lane[0])); \
        if (sizeof(acc) <= 4) { \
            lane[0] = step(lane[0], (vector_##name)SWAPPED_1(lane[0])); \
        } \
        if (sizeof(acc) <= 2) { \
            lane[0] = step(lane[0], (vector_##name)ABOVE(lane[0], 16)); \
        } \
        if (sizeof(acc) == 1) { \
            lane[0] = step(lane[0], (vector_##name)ABOVE(lane[0], 8)); \
        } \
        return lane[0][0]; \
    } \
    target static void row_##name(void *accumulator, const void *elements, int64_t n, \
                                  int64_t readable) \
    { \
        enum { EACH = EACH_##name, COUNT = (lanes) / EACH }; \
        const element *x = elements; \
        const vector_##name nothing = \
            (vector_##name){0} + (acc)NOT_CONSTANT(first, acc, n); \
        vector_##name lane[COUNT]; \
        for (int32_t k = 0; k < COUNT; k++) { \
            lane[k] = nothing; \
        } \
        for (; n >= (lanes); n -= (lanes), readable -= (lanes), x += (lanes)) { \
            BLOCK(element, block, x, lanes, lanes); \
            for (int32_t k = 0; k < COUNT; k++) { \
                const __m256i more = opened_##form(block + k * EACH); \
                lane[k] = step(lane[k], (vector_##name)more); \
            } \
        } \
        if (n > 0) { \
            BLOCK(element, block, x, n, readable); \
            for (int32_t k = 0; k < COUNT && k * EACH < n; k++) { \
                lane[k] = step(lane[k], among_##name(block + k * EACH, n - k * EACH, \
                                                     nothing)); \
            } \
        } \
        (void)readable; \
        *(acc *)accumulator = joined_##name(lane, COUNT); \
    }
#define SHORT_ROWS_OF_VECTORS(name, target, acc, element, first, step) \
    target IPU_INLINE void side_##name(acc *total, const element *x, int64_t rows, \
                                       int64_t n, int32_t count) \
    { \
        enum { EACH = EACH_##name }; \
        const vector_##name nothing = (vector_##name){0} + (acc)(first); \
        for (int64_t i = 0; i < rows; i++, x += n) { \
            vector_##name lane[IPU_FOLD_SHORT / EACH]; \
            for (int32_t k = 0; k < count; k++) { \
                lane[k] = among_##name(x + k * EACH, n - k * EACH, nothing); \
            } \
            lane[0] = step(nothing, lane[0]); /* no -0 */ \
            total[i] = joined_##name(lane, count); \
        } \
    } \
    target static void short_##name(void *accumulators, const void *elements, \
                                    int64_t rows, int64_t n) \
    { \
        enum { EACH = EACH_##name }; \
        if (n <= EACH) { \
            side_##name(accumulators, elements, rows, n, 1); \
        } else { \
            side_##name(accumulators, elements, rows, n, IPU_FOLD_SHORT / EACH); \
        } \
    }
/* Accumulators are read and written once for `rows` rows, a constant. The last of n, at
 * least a vector, are made first, since some of them may be among those before. */
#define ROWS_AT_ONCE(name, target, acc, element, form, step) \
    target IPU_INLINE vector_##name down_##name(const acc *total, const element *x, \
                                                int64_t stride, int32_t rows) \
    { \
        vector_##name a; \
        memcpy(&a, total, sizeof a); \
        for (int32_t i = 0; i < rows; i++) { \
            a = step(a, (vector_##name)opened_##form(x + i * stride)); \
        } \
        return a; \
    } \
    target IPU_INLINE void at_once_##name(acc *total, const element *x, int64_t n, \
                                          int64_t stride, int32_t rows) \
    { \
        const int64_t end = n - EACH_##name; \
        const vector_##name last = down_##name(total + end, x + end, stride, rows); \
        for (int64_t j = 0; j < end; j += EACH_##name) { \
            const vector_##name a = down_##name(total + j, x + j, stride, rows); \
            memcpy(total + j, &a, sizeof a); \
        } \
        memcpy(total + end, &last, sizeof last); \
    } \
    target static void wide_##name(acc *total, const element *x, int64_t n, \
                                   int64_t rows, int64_t stride) \
    { \
        for (; rows >= ROWS; rows -= ROWS, x += ROWS * stride) { \
            at_once_##name(total, x, n, stride, ROWS); \
        } \
        if (rows == 3) { \
            at_once_##name(total, x, n, stride, 3); \
        } else if (rows == 2) { \
            at_once_##name(total, x, n, stride, 2); \
        } else if (rows == 1) { \
            at_once_##name(total, x, n, stride, 1); \
        } \
    }
#endif

/* A strip of so few columns stays in registers, of `side` chunks at a time. */
#define NARROW_CHUNKS(acc, step, columns, side) \
    for (; chunks >= (side); chunks -= (side), total += (side) * (columns)) { \
        acc few[side][columns]; \
        memcpy(few, total, sizeof few); \
        for (int64_t i = 0; i < rows; i++, x += stride) { \
            for (int32_t c = 0; c < (side); c++) { \
                const __typeof__(*x) *row = x + c * rows * stride; \
                for (int32_t j = 0; j < (columns); j++) { \
                    few[c][j] = (acc)step(few[c][j], (acc)row[j]); \
                } \
            } \
        } \
        memcpy(total, few, sizeof few); \
        x += ((side) - 1) * rows * stride; \
    }
#define NARROW(acc, step, columns) \
    case columns: \
        NARROW_CHUNKS(acc, step, columns, SIDE) \
        NARROW_CHUNKS(acc, step, columns, 1) \
        return;

#define ROWS(name, target, acc, element, lanes, first, step) \
    SHORT_ROWS(name, target, acc, element, first, step) \
    ROW(name, target, acc, element, lanes, first, first, step, AS_IT_IS)
/* `columns`: joins the rows of a chunk, of `least` columns or more. */
#define STRIPS(name, target, acc, element, first, step, least, columns) \
    ACCUMULATORS(name, target, acc, first, step) \
    target static void chunk_##name(acc *total, const element *x, int64_t n, \
                                    int64_t rows, int64_t stride) \
    { \
        for (int64_t i = 0; i < rows; i++, x += stride) { \
            IPU_INDEPENDENT \
            for (int64_t j = 0; j < n; j++) { \
                total[j] = (acc)step(total[j], (acc)x[j]); \
            } \
        } \
    } \
    target static void strip_##name(void *accumulators, const void *elements, \
                                    int64_t n, int64_t rows, int64_t stride, \
                                    int64_t chunks) \
    { \
        const element *x = elements; \
        acc *total = accumulators; \
        switch (n) { \
            NARROW(acc, step, 1) \
            NARROW(acc, step, 2) \
            NARROW(acc, step, 3) \
            NARROW(acc, step, 4) \
        default: \
            break; \
        } \
        for (int64_t c = 0; c < chunks; c++, total += n, x += rows * stride) { \
            (n >= (least) ? columns : chunk_##name)(total, x, n, rows, stride); \
        } \
    }
#define PLAIN(name, target, acc, element, lanes, first, step) \
    ROWS(name, target, acc, element, lanes, first, step) \
    STRIPS(name, target, acc, element, first, step, 0, chunk_##name)
#if defined(__x86_64__)
#define VECTORS(name, target, acc, element, bits, form, first, plain, step) \
    ROW_OF_VECTORS(name, target, acc, element, LANES, bits, form, first, step, \
                   BLOCK_AS_IT_IS) \
    SHORT_ROWS_OF_VECTORS(name, target, acc, element, first, step) \
    ROWS_AT_ONCE(name, target, acc, element, form, step) \
    STRIPS(name, target, acc, element, first, plain, EACH_##name, wide_##name)
/* of 1 or 2 bytes, whose lanes are no matter */
#define SMALL_VECTORS(name, target, type, bits, first, plain, step) \
    ROW_OF_VECTORS(name, target, type, type, IPU_FOLD_LANES(type), bits, bits, first, \
                   step, BLOCK_READABLE) \
    SHORT_ROWS(name, target, type, type, first, plain) \
    ROWS_AT_ONCE(name, target, type, type, bits, step) \
    STRIPS(name, target, type, type, first, plain, EACH_##name, wide_##name)
#else
#define VECTORS(name, target, acc, element, bits, form, first, plain, step) \
    PLAIN(name, target, acc, element, LANES, first, plain)
#define SMALL_VECTORS(name, target, type, bits, first, plain, step) \
    PLAIN(name, target, type, type, IPU_FOLD_LANES(type), first, plain)
#endif

/* Of halves. In strips those of narrow rows are widened some at a time: rows that
 * follow each other, or some chunks of them. */
#define HALVES_PLAIN(op, set, target, acc, first, filler, step) \
    ROW(op##_f16_##set, target, acc, uint16_t, LANES, first, filler, step, WIDENED) \
    target static void wide_##op##_f16_##set(acc *total, const uint16_t *x, int64_t n, \
                                             int64_t rows, int64_t stride) \
    { \
        float wide[WIDE]; \
        for (int64_t i = 0; i < rows; i++, x += stride) { \
            for (int64_t some, j = 0; j < n; j += some) { \
                some = ipu__min(n - j, WIDE); \
                ipu__halves_to_floats(wide, x + j, some, IPU_CPU_GENERIC); \
                chunk_##op##_f32_##set(total + j, wide, some, 1, some); \
            } \
        } \
    }
#if defined(__x86_64__)
#define HALVES_OF_VECTORS(op, set, target, acc, form, bits, first, filler, step) \
    ROW_OF_VECTORS(op##_f16_##set, target, acc, uint16_t, LANES, bits, form, first, \
                   VECTOR_##step##_##bits, BLOCK_WIDENED) \
    ROWS_AT_ONCE(op##_f16_##set, target, acc, uint16_t, half_##bits, \
                 VECTOR_##step##_##bits)
#else
#define HALVES_OF_VECTORS(op, set, target, acc, form, bits, first, filler, step) \
    HALVES_PLAIN(op, set, target, acc, first, filler, step)
#endif
#define HALVES_WIDENED(op, target, set, cpu, acc, first, step) \
    ACCUMULATORS(op##_f16_##set, target, acc, first, step) \
    target static void short_##op##_f16_##set(void *accumulators, \
                                              const void *elements, int64_t rows, \
                                              int64_t n) \
    { \
        float wide[IPU_FOLD_SHORT * IPU_FOLD_SIDE]; \
        ipu__halves_to_floats(wide, elements, rows * n, cpu); \
        short_##op##_f32_##set(accumulators, wide, rows, n); \
    } \
    target static void strip_##op##_f16_##set(void *accumulators, \
                                              const void *elements, int64_t n, \
                                              int64_t rows, int64_t stride, \
                                              int64_t chunks) \
    { \
        const uint16_t *x = elements; \
        acc *total = accumulators; \
        const int64_t most = stride == n ? WIDE / n : 1; \
        float wide[WIDE]; \
        for (int64_t some; chunks > 0; chunks -= some) { \
            some = ipu__max(1, ipu__min(chunks, most / rows)); \
            for (int64_t k, i = 0; n < LANES && i < rows; i += k) { \
                k = ipu__min(rows - i, most); \
                ipu__halves_to_floats(wide, x + i * stride, some * k * n, cpu); \
                strip_##op##_f32_##set(total, wide, n, k, n, some); \
            } \
            for (int64_t c = 0; n >= LANES && c < some; c++) { \
                wide_##op##_f16_##set(total + c * n, x + c * rows * stride, n, rows, \
                                      stride); \
            } \
            x += some * rows * stride; \
            total += some * n; \
        } \
    }

#define BOTH_SETS(name, acc, element, lanes, first, step) \
    PLAIN(name##_generic, , acc, element, lanes, first, step) \
    PLAIN(name##_avx2, IPU_TARGET_AVX2, acc, element, lanes, first, step)
#define BOTH_SETS_OF_VECTORS(name, acc, element, bits, form, first, step) \
    PLAIN(name##_generic, , acc, element, LANES, first, step) \
    VECTORS(name##_avx2, IPU_TARGET_AVX2, acc, element, bits, form, first, step, \
            VECTOR_##step##_##bits)
/* of elements of 4 and 8 bytes */
#define BOTH_SETS_32(name, type, first, step) \
    BOTH_SETS_OF_VECTORS(name, type, type, 32, 32, first, step)
#define BOTH_SETS_64(name, type, first, step) \
    BOTH_SETS_OF_VECTORS(name, type, type, 64, 64, first, step)
#define BOTH_SETS_OF_SMALL(name, type, bits, first, step) \
    PLAIN(name##_generic, , type, type, IPU_FOLD_LANES(type), first, step) \
    SMALL_VECTORS(name##_avx2, IPU_TARGET_AVX2, type, bits, first, step, \
                  VECTOR_##step##_##bits)
#define BOTH_SETS_8(name, type, first, step) \
    BOTH_SETS_OF_SMALL(name, type, 8, first, step)
#define BOTH_SETS_16(name, type, first, step) \
    BOTH_SETS_OF_SMALL(name, type, 16, first, step)
#define BOTH_SETS_HALF(op, acc, form, bits, first, filler, step) \
    HALVES_PLAIN(op, generic, , acc, first, filler, step) \
    HALVES_WIDENED(op, , generic, IPU_CPU_GENERIC, acc, first, step) \
    HALVES_OF_VECTORS(op, avx2, IPU_TARGET_AVX2, acc, form, bits, first, filler, step) \
    HALVES_WIDENED(op, IPU_TARGET_AVX2, avx2, IPU_CPU_AVX2, acc, first, step)

/* AVX-512 has extremes of 64 bits */
#define WIDE_SETS_8(name, type, first, step)
#define WIDE_SETS_16(name, type, first, step)
#define WIDE_SETS_32(name, type, first, step)
#define WIDE_SETS_64(name, type, first, step) \
    VECTORS(name##_avx512, IPU_TARGET_AVX512, type, type, 64, 64, first, step, \
            WIDE_##step)

BOTH_SETS_32(sum_f32, float, 0.0f, PLUS)
BOTH_SETS_64(sum_f64, double, 0.0, PLUS)
BOTH_SETS_HALF(sum, float, 32, 32, 0.0f, 0, PLUS)
BOTH_SETS_OF_VECTORS(prod_f32, double, float, 64, float_64, 1.0, TIMES)
BOTH_SETS_64(prod_f64, double, 1.0, TIMES)
BOTH_SETS_HALF(prod, double, float_64, 64, 1.0, 0x3c00, TIMES)
BOTH_SETS_32(max_f32, float, -INFINITY, LARGER)
BOTH_SETS_64(max_f64, double, -INFINITY, LARGER)
BOTH_SETS_HALF(max, float, 32, 32, -INFINITY, 0xfc00, LARGER)
BOTH_SETS_32(min_f32, float, INFINITY, SMALLER)
BOTH_SETS_64(min_f64, double, INFINITY, SMALLER)
BOTH_SETS_HALF(min, float, 32, 32, INFINITY, 0x7c00, SMALLER)
#define WRAPPING(NAME, suffix, type, bits, ...) \
    BOTH_SETS_##bits(sum_##bits, type, 0, PLUS) \
    BOTH_SETS(prod_##bits, type, type, IPU_FOLD_LANES(type), 1, TIMES_UNSIGNED)
IPU_UNSIGNED_LIST(WRAPPING)
/* `total`: of means, whose sums must not wrap */
#define INTEGER(NAME, suffix, type, bits, least, greatest) \
    BOTH_SETS(total_##suffix, uint64_t, type, IPU_FOLD_LANES(uint64_t), 0, PLUS) \
    BOTH_SETS_##bits(max_##suffix, type, least, GREATEST) \
    BOTH_SETS_##bits(min_##suffix, type, greatest, LEAST) \
    WIDE_SETS_##bits(max_##suffix, type, least, GREATEST) \
    WIDE_SETS_##bits(min_##suffix, type, greatest, LEAST)
IPU_INTEGER_LIST(INTEGER)
BOTH_SETS_8(any_u8, uint8_t, 0, EITHER)
BOTH_SETS_8(all_u8, uint8_t, 1, BOTH)

/* --- from accumulators to results ------------------------------------------------- */

/* `value`: of accumulator a, and of `count`. */
#define FINISH(name, target, out, acc, value) \
    target static void finish_##name(void *results, const void *accumulators, \
                                     int64_t n, int64_t count) \
    { \
        out *result = results; \
        const acc *total = accumulators; \
        (void)count; \
        IPU_INDEPENDENT \
        for (int64_t j = 0; j < n; j++) { \
            acc a = total[j]; \
            result[j] = (out)(value); \
        } \
    }
FINISH(truth, , uint8_t, uint8_t, a != 0)
FINISH(narrow_generic, , float, double, a)
FINISH(narrow_avx2, IPU_TARGET_AVX2, float, double, a)
FINISH(mean_f32, , float, float, a / (float)count)
FINISH(mean_f64, , double, double, a / (double)count)
/* of nothing: 0 */
#define WHOLE(type) ((type)a / (type)(count == 0 ? 1 : count))
#define SIGNED(NAME, suffix, type, ...) \
    FINISH(mean_##suffix, , type, uint64_t, WHOLE(int64_t))
#define UNSIGNED(NAME, suffix, type, bits, ...) \
    FINISH(mean_##suffix, , type, uint64_t, WHOLE(uint64_t))
IPU_SIGNED_LIST(SIGNED)
IPU_UNSIGNED_LIST(UNSIGNED)

/* `value`: a float, which is rounded. */
#define FINISH_HALVES(name, target, cpu, acc, value) \
    target static void finish_##name(void *results, const void *accumulators, \
                                     int64_t n, int64_t count) \
    { \
        float wide[WIDE]; \
        (void)count; \
        for (int64_t some, i = 0; i < n; i += some) { \
            const acc *total = (const acc *)accumulators + i; \
            some = ipu__min(n - i, WIDE); \
            for (int64_t j = 0; j < some; j++) { \
                acc a = total[j]; \
                wide[j] = value; \
            } \
            ipu__floats_to_halves((uint16_t *)results + i, wide, some, cpu); \
        } \
    }
#define BOTH_FINISH(name, acc, value) \
    FINISH_HALVES(name##_generic, , IPU_CPU_GENERIC, acc, value) \
    FINISH_HALVES(name##_avx2, IPU_TARGET_AVX2, IPU_CPU_AVX2, acc, value)
BOTH_FINISH(half, float, a)
BOTH_FINISH(mean_half, float, a / (float)count)
BOTH_FINISH(odd_half, double, ipu__float_to_odd(a))

/* --- the table -------------------------------------------------------------------- */

#define finish_same NULL
#define FORM(name, finish, acc) \
    {row_##name,   short_##name,     strip_##name, join_##name, \
     start_##name, finish_##finish, sizeof(acc)}
/* by class */
#define FORMS(name, finish, acc) \
    {FORM(name##_generic, finish, acc), FORM(name##_avx2, finish, acc), \
     FORM(name##_avx2, finish, acc)}
#define WIDE_FORMS_8 FORMS
#define WIDE_FORMS_16 FORMS
#define WIDE_FORMS_32 FORMS
#define WIDE_FORMS_64(name, finish, acc) \
    {FORM(name##_generic, finish, acc), FORM(name##_avx2, finish, acc), \
     FORM(name##_avx512, finish, acc)}
#define OF(dtype, name, finish, acc) [IPU_DTYPE_##dtype] = FORMS(name, finish, acc),
#define OF_NARROWED(dtype, name, finish, acc) \
    [IPU_DTYPE_##dtype] = {FORM(name##_generic, finish##_generic, acc), \
                           FORM(name##_avx2, finish##_avx2, acc), \
                           FORM(name##_avx2, finish##_avx2, acc)},
#define SUM_OF(NAME, suffix, type, bits, ...) OF(NAME, sum_##bits, same, type)
#define MEAN_OF(NAME, suffix, ...) OF(NAME, total_##suffix, mean_##suffix, uint64_t)
#define PRODUCT_OF(NAME, suffix, type, bits, ...) OF(NAME, prod_##bits, same, type)
#define MAXIMUM_OF(NAME, suffix, type, bits, ...) \
    [IPU_DTYPE_##NAME] = WIDE_FORMS_##bits(max_##suffix, same, type),
#define MINIMUM_OF(NAME, suffix, type, bits, ...) \
    [IPU_DTYPE_##NAME] = WIDE_FORMS_##bits(min_##suffix, same, type),

enum { CLASSES = IPU_CPU_AVX512 + 1 };
typedef const ipu__fold fold_table[IPU_DTYPE_COUNT][CLASSES];

static fold_table sums = {OF(FLOAT32, sum_f32, same, float)
                          OF_NARROWED(FLOAT16, sum_f16, half, float)
                          OF(FLOAT64, sum_f64, same, double)
                          IPU_INTEGER_LIST(SUM_OF)};
static fold_table means = {OF(FLOAT32, sum_f32, mean_f32, float)
                           OF_NARROWED(FLOAT16, sum_f16, mean_half, float)
                           OF(FLOAT64, sum_f64, mean_f64, double)
                           IPU_INTEGER_LIST(MEAN_OF)};
static fold_table products = {OF_NARROWED(FLOAT32, prod_f32, narrow, double)
                              OF_NARROWED(FLOAT16, prod_f16, odd_half, double)
                              OF(FLOAT64, prod_f64, same, double)
                              IPU_INTEGER_LIST(PRODUCT_OF)};
static fold_table maxima = {OF(FLOAT32, max_f32, same, float)
                            OF_NARROWED(FLOAT16, max_f16, half, float)
                            OF(FLOAT64, max_f64, same, double)
                            IPU_INTEGER_LIST(MAXIMUM_OF)};
static fold_table minima = {OF(FLOAT32, min_f32, same, float)
                            OF_NARROWED(FLOAT16, min_f16, half, float)
                            OF(FLOAT64, min_f64, same, double)
                            IPU_INTEGER_LIST(MINIMUM_OF)};
static const ipu__fold any_of[CLASSES] = FORMS(any_u8, truth, uint8_t);
static const ipu__fold all_of[CLASSES] = FORMS(all_u8, truth, uint8_t);

const ipu__fold *
ipu__fold_of(ipu_op op, ipu_dtype dtype, ipu_cpu_class cpu)
{
    switch (op) {
    case IPU_OP_ID_ANY:
        return &any_of[cpu];
    case IPU_OP_ID_ALL:
        return &all_of[cpu];
    case IPU_OP_ID_MEAN:
        return &means[dtype][cpu];
    case IPU_OP_ID_PROD:
        return &products[dtype][cpu];
    case IPU_OP_ID_MAX:
        return &maxima[dtype][cpu];
    case IPU_OP_ID_MIN:
        return &minima[dtype][cpu];
    default:
        return &sums[dtype][cpu];
    }
}

void
ipu__fold_rows(const ipu__fold *fold, void *accumulators, const void *x, int64_t rows,
               int64_t n, int64_t readable, int64_t bytes)
{
    const bool is_short = n > 0 && n <= IPU_FOLD_SHORT;
    for (int64_t some, i = 0; i < rows; i += some) {
        void *total = ipu__at_mutable(accumulators, i * fold->accumulator_bytes);
        const void *from = ipu__at(x, i * n * bytes);
        some = is_short ? ipu__min(rows - i, IPU_FOLD_SIDE) : 1;
        if (is_short) {
            fold->short_rows(total, from, some, n);
        } else {
            fold->row(total, from, n, readable - i * n);
        }
    }
}

float
ipu__sum_row(const float *x, int64_t n, int64_t readable, ipu_cpu_class cpu)
{
    float totals[IPU_SUM_LEVELS];
    int64_t chunks = n <= IPU_FOLD_CHUNK ? 1 : ipu__ceil_div(n, IPU_FOLD_CHUNK);
    for (int64_t i = 0; i < chunks; i++) {
        const int64_t at = i * IPU_FOLD_CHUNK;
        float sum;
        (cpu >= IPU_CPU_AVX2 ? row_sum_f32_avx2 : row_sum_f32_generic)(
            &sum, x + at, ipu__min(n - at, IPU_FOLD_CHUNK), readable - at);
        ipu__sum_join(sum, i, i == chunks - 1, totals);
    }
    return totals[0];
}

float
ipu__max_row(const float *x, int64_t n, int64_t readable, ipu_cpu_class cpu)
{
    float most;
    (cpu >= IPU_CPU_AVX2 ? row_max_f32_avx2 : row_max_f32_generic)(&most, x, n,
                                                                   readable);
    return most;
}
