/* SPDX-License-Identifier: MIT
 *
 * Pooling of many channels: a block of them stays in registers, while all elements of
 * its window pass. One source in two instruction sets with the same bits. No state, any
 * thread. */
#include "kernels/pool/pool_impl.h"

#include <math.h>
#include <string.h>

#define PLUS(a, b) ((a) + (b))
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

#define FOLD_BLOCK(name, target, lanes, first, step, divisor) \
    target IPU_INLINE void name##_##lanes(float *y, const float *x, \
                                          const ipu__pool_box *box) \
    { \
        float total[lanes]; \
        EACH(lanes, total[l] = (first)) \
        POSITIONS(box, { EACH(lanes, total[l] = step(total[l], x[at + l])) }) \
        EACH(lanes, y[l] = total[l] divisor) \
    }
/* The same sum block by block, which begin within rows of the window. */
#define LONG_MEAN_BLOCK(form, target, lanes) \
    target static void long_mean_##form##_##lanes(float *y, const float *x, \
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
        EACH(lanes, y[l] = chain[l] / box->elements) \
    }
/* Eight lanes as one value: in an array compilers would leave them in memory. */
typedef float floats __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t ints __attribute__((vector_size(32), aligned(4), may_alias));

#define AT(type, pointer, v) (((type *)(pointer))[v])
#define ROUNDS(vectors, statement) \
    _Pragma("GCC unroll 4") for (int32_t v = 0; v < (vectors); v++) \
    { \
        statement; \
    }

#define MARK_BLOCK(suffix, target, lanes, vectors) \
    target IPU_INLINE void mark_##suffix##_##lanes( \
        int32_t *place, const float *x, const float *y, const ipu__pool_box *box) \
    { \
        ints found[vectors]; \
        floats most[vectors]; \
        ROUNDS(vectors, found[v] = (ints){0} - 1) \
        ROUNDS(vectors, most[v] = AT(const floats, y, v)) \
        BACKWARDS(box, { \
            ints number = (ints){0} + k; \
            ROUNDS(vectors, ints other = IS_NOT(AT(const floats, x + at, v), most[v]); \
                   found[v] = (other & found[v]) | (~other & number)) \
        }) \
        ROUNDS(vectors, AT(ints, place, v) = found[v]) \
    }
#define MARK_ONE(suffix, target) \
    target IPU_INLINE void mark_##suffix##_1(int32_t *place, const float *x, \
                                             const float *y, const ipu__pool_box *box) \
    { \
        int32_t found = -1; \
        BACKWARDS(box, { found = IS_NOT(x[at], *y) ? found : k; }) \
        *place = found; \
    }
/* The rest of dy is 0 after the first hit. No sum is -0, so adding 0 changes none.
 * Sizes are copied, since a store might change what a pointer points to. */
#define SCATTER_BLOCK(suffix, target, lanes, vectors) \
    target IPU_INLINE void scatter_##suffix##_##lanes(float *dx, const float *x, \
                                                      const float *y, const float *dy, \
                                                      const ipu__pool_box *given) \
    { \
        const ipu__pool_box box = *given; \
        ints left[vectors]; \
        floats most[vectors]; \
        ROUNDS(vectors, left[v] = AT(const ints, dy, v)) \
        ROUNDS(vectors, most[v] = AT(const floats, y, v)) \
        for (int64_t d = 0; d < box.counts[0]; d++) { \
            for (int64_t h = 0; h < box.counts[1]; h++) { \
                const int64_t row = d * box.steps[0] + h * box.steps[1]; \
                const float *from = x + row; \
                float *to = dx + row; \
                if (!GETS(&box)) { \
                    for (int64_t w = 0; w < box.counts[2]; w++, from += box.steps[2]) { \
                        ROUNDS(vectors, \
                               left[v] &= IS_NOT(AT(const floats, from, v), most[v])) \
                    } \
                    continue; \
                } \
                for (int64_t w = 0; w < box.counts[2]; \
                     w++, from += box.steps[2], to += box.steps[2]) { \
                    ROUNDS(vectors, \
                           ints other = IS_NOT(AT(const floats, from, v), most[v]); \
                           AT(floats, to, v) += (floats)(~other & left[v]); \
                           left[v] &= other) \
                } \
            } \
        } \
    }
#define SCATTER_ONE(suffix, target) \
    target IPU_INLINE void scatter_##suffix##_1(float *dx, const float *x, \
                                                const float *y, const float *dy, \
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
#define PLACE_BLOCK(suffix, target, lanes) \
    target IPU_INLINE void place_##suffix##_##lanes(float *dx, const float *x, \
                                                    const float *y, const float *dy, \
                                                    const ipu__pool_box *box) \
    { \
        float left[lanes]; \
        EACH(lanes, left[l] = 0.0f + dy[l]) \
        POSITIONS(box, { \
            for (int32_t l = 0; l < (lanes); l++) { \
                const bool is_not = IS_NOT(x[at + l], y[l]); \
                const float rest = is_not ? left[l] : 0.0f; \
                dx[at + l] = is_not ? 0.0f : left[l]; \
                left[l] = rest; \
            } \
        }) \
    }
#define BLOCKS(form, target) \
    FOLD_BLOCK(max_##form, target, 32, -INFINITY, IPU_LARGER, ) \
    FOLD_BLOCK(max_##form, target, 8, -INFINITY, IPU_LARGER, ) \
    FOLD_BLOCK(max_##form, target, 1, -INFINITY, IPU_LARGER, ) \
    FOLD_BLOCK(mean_##form, target, 32, 0.0f, PLUS, / box->elements) \
    FOLD_BLOCK(mean_##form, target, 8, 0.0f, PLUS, / box->elements) \
    FOLD_BLOCK(mean_##form, target, 1, 0.0f, PLUS, / box->elements) \
    LONG_MEAN_BLOCK(form, target, 32) \
    LONG_MEAN_BLOCK(form, target, 8) \
    LONG_MEAN_BLOCK(form, target, 1) \
    MARK_BLOCK(form, target, 32, 4) \
    MARK_BLOCK(form, target, 8, 1) \
    MARK_ONE(form, target) \
    SCATTER_BLOCK(form, target, 32, 4) \
    SCATTER_BLOCK(form, target, 8, 1) \
    SCATTER_ONE(form, target) \
    PLACE_BLOCK(form, target, 32) \
    PLACE_BLOCK(form, target, 8) \
    PLACE_BLOCK(form, target, 1)

/* Blocks of n channels, the first of which is j. */
#define CHANNELS(name, ...) \
    int64_t j = 0; \
    for (; j + 32 <= n; j += 32) { \
        name##_32(__VA_ARGS__); \
    } \
    for (; j + 8 <= n; j += 8) { \
        name##_8(__VA_ARGS__); \
    } \
    for (; j < n; j++) { \
        name##_1(__VA_ARGS__); \
    }
#define FOLD(name, target) \
    target static void name(float *y, int64_t y_step, const float *x, int64_t x_step, \
                            const ipu__pool_box *box, int64_t columns, int64_t n) \
    { \
        for (int64_t i = 0; i < columns; i++, y += y_step, x += x_step) { \
            CHANNELS(name, y + j, x + j, box) \
        } \
    }
#define GRADIENT(name, target) \
    target static void name(float *dx, const float *x, int64_t x_step, const float *y, \
                            const float *dy, int64_t y_step, const ipu__pool_box *box, \
                            int64_t columns, int64_t n) \
    { \
        for (int64_t i = 0; i < columns; \
             i++, dx += x_step, x += x_step, y += y_step, dy += y_step) { \
            CHANNELS(name, dx + j, x + j, y + j, dy + j, box) \
        } \
    }
#define FORM(form, target) \
    BLOCKS(form, target) \
    FOLD(max_##form, target) \
    FOLD(mean_##form, target) \
    FOLD(long_mean_##form, target) \
    target static void mark_##form( \
        int32_t *place, const float *x, int64_t x_step, const float *y, \
        int64_t y_step, const ipu__pool_box *box, int64_t columns, int64_t n) \
    { \
        for (int64_t i = 0; i < columns; i++, place += n, x += x_step, y += y_step) { \
            CHANNELS(mark_##form, place + j, x + j, y + j, box) \
        } \
    } \
    GRADIENT(scatter_##form, target) \
    GRADIENT(place_##form, target) \
    static const ipu__pool_boxes boxes_##form = { \
        max_##form,  mean_##form,    long_mean_##form, \
        mark_##form, scatter_##form, place_##form};

FORM(generic, )
FORM(avx2, IPU_TARGET_AVX2)

const ipu__pool_boxes *
ipu__pool_boxes_of(ipu_cpu_class cpu)
{
    return cpu >= IPU_CPU_AVX2 ? &boxes_avx2 : &boxes_generic;
}
