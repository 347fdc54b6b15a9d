/* SPDX-License-Identifier: MIT
 *
 * Pooling of many channels: a block of them stays in registers, while all elements of
 * its window pass. One source for each float in two instruction sets with the same bits.
 * No state, any thread. */
#include "kernels/pool/pool_impl.h"

#include <math.h>
#include <string.h>

/* Whether an element is not the maximum y of its window; of vectors, too. */
#define IS_NOT(x, y) (((x) != (y)) & ((x) == (x)))

/* `statement` for each position of the box, innermost axis last. */
#define POSITIONS(box, statement) \
    for (int64_t d = 0; d < (box)->counts[0]; d++) { \
        for (int64_t h = 0; h < (box)->counts[1]; h++) { \
            int64_t at = d * (box)->steps[0] + h * (box)->steps[1]; \
            for (int64_t w = 0; w < (box)->counts[2]; w++, at += (box)->steps[2]) { \
                statement \
            } \
        } \
    }
#define GETS(box) \
    (d >= (box)->begin[0] && d < (box)->end[0] && h >= (box)->begin[1] && \
     h < (box)->end[1])
/* From the last position to the first, with its number k: what the first one
 * writes stays, since it comes last. */
#define BACKWARDS(box, statement) \
    for (int64_t d = (box)->counts[0] - 1; d >= 0; d--) { \
        for (int64_t h = (box)->counts[1] - 1; h >= 0; h--) { \
            int64_t w = (box)->counts[2] - 1; \
            int64_t at = \
                d * (box)->steps[0] + h * (box)->steps[1] + w * (box)->steps[2]; \
            int32_t k = (int32_t)((box)->number + d * (box)->turns[0] + \
                                  h * (box)->turns[1] + w); \
            for (; w >= 0; w--, at -= (box)->steps[2], k--) { \
                statement \
            } \
        } \
    }
#define EACH(lanes, statement) \
    for (int32_t l = 0; l < (lanes); l++) { \
        statement; \
    }

/* The same sum block by block, which begin within rows of the window. */
#define LONG_MEAN_BLOCK(form, target, size, lanes) \
    target static void long_mean_##form##_##size(float *y, const float *x, \
                                                 const ipu__pool_box *box) \
    { \
        float totals[IPU_SUM_LEVELS * (lanes)]; \
        float chain[lanes] = {0.0f}; \
        int64_t leaf = 0; \
        memset(totals, 0, (size_t)(box->levels * (lanes)) * sizeof *totals); \
        for (int64_t d = 0; d < box->counts[0]; d++) { \
            for (int64_t h = 0; h < box->counts[1]; h++) { \
                const float *from = x + d * box->steps[0] + h * box->steps[1]; \
                int64_t k = box->number + d * box->turns[0] + h * box->turns[1]; \
                const int64_t end = k + box->counts[2]; \
                while (k < end) { \
                    float total[lanes]; \
                    const int64_t next = k / IPU_SUM_BLOCK; \
                    const int64_t stop = ipu__min(end, (next + 1) * IPU_SUM_BLOCK); \
                    if (next != leaf) { \
                        ipu__sum_carry(chain, totals, lanes, \
                                       ipu__sum_carries(leaf, next), lanes); \
                        leaf = next; \
                    } \
                    EACH(lanes, total[l] = chain[l]) \
                    for (; k < stop; k++, from += box->steps[2]) { \
                        EACH(lanes, total[l] += from[l]) \
                    } \
                    EACH(lanes, chain[l] = total[l]) \
                } \
            } \
        } \
        ipu__sum_end(chain, totals, lanes, box->levels, lanes); \
        EACH(lanes, y[l] = chain[l] / (float)box->elements) \
    }

/* 32 bytes as one value: in an array compilers would leave them in memory. */
#define VECTORS(R, real, mask, lanes) \
    typedef real real_##R; \
    typedef real reals_##R \
        __attribute__((vector_size(32), aligned(sizeof(real)), may_alias)); \
    typedef mask masks_##R \
        __attribute__((vector_size(32), aligned(sizeof(real)), may_alias)); \
    typedef int32_t places_##R \
        __attribute__((vector_size((lanes)*4), aligned(4), may_alias));
VECTORS(f32, float, int32_t, 8)
VECTORS(f64, double, int64_t, 4)

/* Lanes of four values, and of one. */
enum { MANY_f32 = 32, SOME_f32 = 8, MANY_f64 = 16, SOME_f64 = 4 };

#define AT(type, pointer, v) (((type *)(pointer))[v])
#define ROUNDS(vectors, statement) \
    _Pragma("GCC unroll 4") for (int32_t v = 0; v < (vectors); v++) \
    { \
        statement; \
    }

#define PLUS(a, b) ((a) + (b))
/* IPU_LARGER of vectors. */
#define LARGER(R, a, b) \
    (reals_##R)(((((a) > (b)) | ((a) != (a))) & (masks_##R)(a)) | \
                (~(((a) > (b)) | ((a) != (a))) & (masks_##R)(b)))
#define LARGER_f32(a, b) LARGER(f32, a, b)
#define LARGER_f64(a, b) LARGER(f64, a, b)
#define FOLD_BLOCK(name, target, R, size, vectors, first, STEP, divisor) \
    target IPU_INLINE void name##_##size(real_##R *y, const real_##R *x, \
                                         const ipu__pool_box *box) \
    { \
        reals_##R total[vectors]; \
        ROUNDS(vectors, total[v] = (reals_##R){0} + (first)) \
        POSITIONS(box, {ROUNDS(vectors, total[v] = STEP(total[v], AT(const reals_##R, \
                                                                     x + at, v)))}) \
        ROUNDS(vectors, AT(reals_##R, y, v) = total[v] divisor) \
    }
#define FOLD_ONE(name, target, R, first, STEP, divisor) \
    target IPU_INLINE void name##_one(real_##R *y, const real_##R *x, \
                                      const ipu__pool_box *box) \
    { \
        real_##R total = (first); \
        POSITIONS(box, { total = STEP(total, x[at]); }) \
        *y = total divisor; \
    }
#define MARK_BLOCK(suffix, target, R, size, vectors) \
    target IPU_INLINE void mark_##suffix##_##size(int32_t *place, const real_##R *x, \
                                                  const real_##R *y, \
                                                  const ipu__pool_box *box) \
    { \
        masks_##R found[vectors]; \
        reals_##R most[vectors]; \
        ROUNDS(vectors, found[v] = (masks_##R){0} - 1) \
        ROUNDS(vectors, most[v] = AT(const reals_##R, y, v)) \
        BACKWARDS(box, { \
            masks_##R number = (masks_##R){0} + k; \
            ROUNDS(vectors, \
                   masks_##R other = IS_NOT(AT(const reals_##R, x + at, v), most[v]); \
                   found[v] = (other & found[v]) | (~other & number)) \
        }) \
        ROUNDS(vectors, AT(places_##R, place, v) = \
                            __builtin_convertvector(found[v], places_##R)) \
    }
#define MARK_ONE(suffix, target, R) \
    target IPU_INLINE void mark_##suffix##_one(int32_t *place, const real_##R *x, \
                                               const real_##R *y, \
                                               const ipu__pool_box *box) \
    { \
        int32_t found = -1; \
        BACKWARDS(box, { found = IS_NOT(x[at], *y) ? found : k; }) \
        *place = found; \
    }
/* The rest of dy is 0 after the first hit. No sum is -0, so adding 0 changes none.
 * Sizes are copied, since a store might change what a pointer points to. */
#define SCATTER_BLOCK(suffix, target, R, size, vectors) \
    target IPU_INLINE void scatter_##suffix##_##size( \
        real_##R *dx, const real_##R *x, const real_##R *y, const real_##R *dy, \
        const ipu__pool_box *given) \
    { \
        const ipu__pool_box box = *given; \
        masks_##R left[vectors]; \
        reals_##R most[vectors]; \
        ROUNDS(vectors, left[v] = AT(const masks_##R, dy, v)) \
        ROUNDS(vectors, most[v] = AT(const reals_##R, y, v)) \
        for (int64_t d = 0; d < box.counts[0]; d++) { \
            for (int64_t h = 0; h < box.counts[1]; h++) { \
                const int64_t row = d * box.steps[0] + h * box.steps[1]; \
                const real_##R *from = x + row; \
                real_##R *to = dx + row; \
                if (!GETS(&box)) { \
                    for (int64_t w = 0; w < box.counts[2]; \
                         w++, from += box.steps[2]) { \
                        ROUNDS(vectors, left[v] &= \
                                        IS_NOT(AT(const reals_##R, from, v), most[v])) \
                    } \
                    continue; \
                } \
                for (int64_t w = 0; w < box.counts[2]; \
                     w++, from += box.steps[2], to += box.steps[2]) { \
                    ROUNDS(vectors, masks_##R other = \
                                        IS_NOT(AT(const reals_##R, from, v), most[v]); \
                           AT(reals_##R, to, v) += (reals_##R)(~other & left[v]); \
                           left[v] &= other) \
                } \
            } \
        } \
    }
#define SCATTER_ONE(suffix, target, R) \
    target IPU_INLINE void scatter_##suffix##_one( \
        real_##R *dx, const real_##R *x, const real_##R *y, const real_##R *dy, \
        const ipu__pool_box *box) \
    { \
        POSITIONS(box, { \
            if (!IS_NOT(x[at], *y)) { \
                if (GETS(box)) { \
                    dx[at] += *dy; \
                } \
                return; \
            } \
        }) \
    }
/* The rest of dy is 0 after the first hit; a dy of -0 becomes 0, as in a sum. */
#define PLACE_BLOCK(suffix, target, R, size, vectors) \
    target IPU_INLINE void place_##suffix##_##size( \
        real_##R *dx, const real_##R *x, const real_##R *y, const real_##R *dy, \
        const ipu__pool_box *box) \
    { \
        masks_##R left[vectors]; \
        reals_##R most[vectors]; \
        ROUNDS(vectors, \
               left[v] = (masks_##R)((reals_##R){0} + AT(const reals_##R, dy, v))) \
        ROUNDS(vectors, most[v] = AT(const reals_##R, y, v)) \
        POSITIONS(box, { \
            ROUNDS(vectors, \
                   masks_##R other = IS_NOT(AT(const reals_##R, x + at, v), most[v]); \
                   AT(masks_##R, dx + at, v) = ~other & left[v]; left[v] &= other) \
        }) \
    }
#define PLACE_ONE(suffix, target, R) \
    target IPU_INLINE void place_##suffix##_one(real_##R *dx, const real_##R *x, \
                                                const real_##R *y, const real_##R *dy, \
                                                const ipu__pool_box *box) \
    { \
        real_##R left = 0 + *dy; \
        POSITIONS(box, { \
            const bool is_not = IS_NOT(x[at], *y); \
            dx[at] = is_not ? 0 : left; \
            left = is_not ? left : 0; \
        }) \
    }

/* Blocks of n channels, the first of which is j. */
#define CHANNELS(name, R, ...) \
    int64_t j = 0; \
    for (; j + MANY_##R <= n; j += MANY_##R) { \
        name##_many(__VA_ARGS__); \
    } \
    for (; j + SOME_##R <= n; j += SOME_##R) { \
        name##_some(__VA_ARGS__); \
    } \
    for (; j < n; j++) { \
        name##_one(__VA_ARGS__); \
    }
#define FOLD(name, target, R) \
    target static void name(void *out, int64_t y_step, const void *in, int64_t x_step, \
                            const ipu__pool_box *box, int64_t columns, int64_t n) \
    { \
        real_##R *y = out; \
        const real_##R *x = in; \
        for (int64_t i = 0; i < columns; i++, y += y_step, x += x_step) { \
            CHANNELS(name, R, y + j, x + j, box) \
        } \
    }
#define GRADIENT(name, target, R) \
    target static void name(void *out, const void *in, int64_t x_step, \
                            const void *most, const void *slopes, int64_t y_step, \
                            const ipu__pool_box *box, int64_t columns, int64_t n) \
    { \
        real_##R *dx = out; \
        const real_##R *x = in; \
        const real_##R *y = most; \
        const real_##R *dy = slopes; \
        for (int64_t i = 0; i < columns; \
             i++, dx += x_step, x += x_step, y += y_step, dy += y_step) { \
            CHANNELS(name, R, dx + j, x + j, y + j, dy + j, box) \
        } \
    }
#define FORM(form, target, R) \
    FOLD_BLOCK(max_##form, target, R, many, 4, -(real_##R)INFINITY, LARGER_##R, ) \
    FOLD_BLOCK(max_##form, target, R, some, 1, -(real_##R)INFINITY, LARGER_##R, ) \
    FOLD_ONE(max_##form, target, R, -(real_##R)INFINITY, IPU_LARGER, ) \
    FOLD_BLOCK(mean_##form, target, R, many, 4, 0, PLUS, / (real_##R)box->elements) \
    FOLD_BLOCK(mean_##form, target, R, some, 1, 0, PLUS, / (real_##R)box->elements) \
    FOLD_ONE(mean_##form, target, R, 0, PLUS, / (real_##R)box->elements) \
    PLACE_BLOCK(form, target, R, many, 4) \
    PLACE_BLOCK(form, target, R, some, 1) \
    PLACE_ONE(form, target, R) \
    MARK_BLOCK(form, target, R, many, 4) \
    MARK_BLOCK(form, target, R, some, 1) \
    MARK_ONE(form, target, R) \
    SCATTER_BLOCK(form, target, R, many, 4) \
    SCATTER_BLOCK(form, target, R, some, 1) \
    SCATTER_ONE(form, target, R) \
    FOLD(max_##form, target, R) \
    FOLD(mean_##form, target, R) \
    target static void mark_##form( \
        int32_t *place, const void *in, int64_t x_step, const void *most, \
        int64_t y_step, const ipu__pool_box *box, int64_t columns, int64_t n) \
    { \
        const real_##R *x = in; \
        const real_##R *y = most; \
        for (int64_t i = 0; i < columns; i++, place += n, x += x_step, y += y_step) { \
            CHANNELS(mark_##form, R, place + j, x + j, y + j, box) \
        } \
    } \
    GRADIENT(scatter_##form, target, R) \
    GRADIENT(place_##form, target, R)
#define LONG_MEAN(form, target) \
    LONG_MEAN_BLOCK(form, target, many, MANY_f32) \
    LONG_MEAN_BLOCK(form, target, some, SOME_f32) \
    LONG_MEAN_BLOCK(form, target, one, 1) \
    FOLD(long_mean_##form, target, f32)
#define OF(form, long_mean) \
    { \
        max_##form, mean_##form, long_mean, mark_##form, scatter_##form, place_##form \
    }

FORM(f32_generic, , f32)
FORM(f32_avx2, IPU_TARGET_AVX2, f32)
FORM(f64_generic, , f64)
FORM(f64_avx2, IPU_TARGET_AVX2, f64)
LONG_MEAN(f32_generic, )
LONG_MEAN(f32_avx2, IPU_TARGET_AVX2)

static const ipu__pool_boxes f32[2] = {OF(f32_generic, long_mean_f32_generic),
                                       OF(f32_avx2, long_mean_f32_avx2)};
static const ipu__pool_boxes f64[2] = {OF(f64_generic, NULL), OF(f64_avx2, NULL)};

const ipu__pool_boxes *
ipu__pool_boxes_of(ipu_cpu_class cpu, ipu_dtype dtype)
{
    const ipu__pool_boxes *both = dtype == IPU_DTYPE_FLOAT32   ? f32
                                  : dtype == IPU_DTYPE_FLOAT64 ? f64
                                                               : NULL;
    return both == NULL ? NULL : &both[cpu >= IPU_CPU_AVX2];
}
