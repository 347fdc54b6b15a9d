/* SPDX-License-Identifier: MIT
 *
 * The folds of a reduction, by dtype (reduce_fold.c). Elements are joined in
 * accumulators, which may be wider than they are; results are made from those. */
#ifndef IPU_KERNELS_REDUCE_FOLD_IMPL_H
#define IPU_KERNELS_REDUCE_FOLD_IMPL_H

#include "kernels/core/kernel_impl.h"

enum {
    IPU_FOLD_ACCUMULATOR_BYTES = 8, /* at most */
    IPU_FOLD_CHUNK = 8192,          /* elements of a row that `row` takes at a time */
    IPU_FOLD_SHORT = 16,            /* elements of a row, and ... */
    IPU_FOLD_SIDE = 64              /* rows, that `short_rows` takes at most */
};

/* The lanes of a fold that rounds nothing: four registers of 32 bytes, and 32 at least,
 * since gcc takes inner loops of 16 turns apart before it makes vectors of them. */
#define IPU_FOLD_LANES(type) ((int32_t)(sizeof(type) > 4 ? 32 : 128 / sizeof(type)))

typedef struct ipu__fold {
    /* accumulator = the n elements, joined by the fixed tree; of `readable` ones, at
     * least n, those beyond change nothing */
    void (*row)(void *accumulator, const void *x, int64_t n, int64_t readable);
    /* accumulators[i] = row i of `rows` rows of n elements, which follow each other: for
     * all of them at once the same tree */
    void (*short_rows)(void *accumulators, const void *x, int64_t rows, int64_t n);
    /* accumulators[c * n + j] joined with element j of each of the `rows` rows of chunk
     * c, in their order; `stride` elements lie between the starts of rows, and chunks
     * follow each other */
    void (*strip)(void *accumulators, const void *x, int64_t n, int64_t rows,
                  int64_t stride, int64_t chunks);
    /* accumulators[j] joined with more[j] */
    void (*join)(void *accumulators, const void *more, int64_t n);
    /* accumulators of nothing */
    void (*start)(void *accumulators, int64_t n);
    /* results of a mean over `count` elements; in place where they have as many bytes.
     * NULL: accumulators are results */
    void (*finish)(void *results, const void *accumulators, int64_t n, int64_t count);
    int64_t accumulator_bytes;
} ipu__fold;

/* For sum, mean, max, min, prod, any and all of the dtypes that they take. */
const ipu__fold *ipu__fold_of(ipu_op op, ipu_dtype dtype, ipu_cpu_class cpu);

/* accumulators[i] = row i of `rows` rows of n elements of `bytes` bytes, which follow
 * each other, `readable` elements from the first one on; a sum's n is a chunk at most. */
void ipu__fold_rows(const ipu__fold *fold, void *accumulators, const void *x,
                    int64_t rows, int64_t n, int64_t readable, int64_t bytes);

#endif
