/* SPDX-License-Identifier: MIT
 *
 * The order in which a long sum is added up, the same for every kernel, class of CPU, cut
 * and number of threads. It follows from the number of terms alone:
 *
 *   - The sum over the k of a product is cut into blocks of IPU_SUM_BLOCK, the last of
 *     which may be shorter. A block is one chain of fused multiply-adds from 0. The
 *     positions of a window that is averaged are cut so, too, and the updates of a slice;
 *     their chains are additions.
 *   - Blocks, or the parts that a reduction cuts its elements into, are the leaves of a
 *     tree: IPU_SUM_FAN of them, added one after another, are a node; IPU_SUM_FAN nodes
 *     are a node above; and so on. The last node of each level may have fewer.
 *
 * So rounding errors grow with IPU_SUM_BLOCK and the tree's depth, not with the length of
 * the sum, and a sum of one block is one chain. Nodes do not depend on each other: a sum
 * may be split among threads where nodes begin.
 *
 * Kernels make the leaves in their order and keep a total for each level of the tree:
 * that of the node which is being made. */
#ifndef IPU_KERNELS_SUM_TREE_H
#define IPU_KERNELS_SUM_TREE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    IPU_SUM_BLOCK = 1024, /* products of up to so many terms stay in registers */
    IPU_SUM_FAN = 32,
    IPU_SUM_LEVELS = 6 /* the topmost one takes any number */
};

/* What happens to a leaf: the totals of some levels are added to it, the lowest level
 * first, and it becomes the total of a level, or (the last leaf) the sum. */
typedef struct ipu__sum_step {
    uint32_t adds;  /* bit i: the total of level i */
    int32_t level;  /* whose total it becomes; 0 for the last leaf */
} ipu__sum_step;

static inline ipu__sum_step
ipu__sum_step_of(int64_t leaf, bool is_last)
{
    ipu__sum_step step = {0, 0};
    for (int32_t level = 0;; level++, leaf /= IPU_SUM_FAN) {
        bool is_top = level == IPU_SUM_LEVELS - 1;
        int64_t before = is_top ? leaf : leaf % IPU_SUM_FAN;
        step.adds |= (uint32_t)(before > 0) << level;
        if (is_top || (is_last ? leaf < IPU_SUM_FAN : before < IPU_SUM_FAN - 1)) {
            step.level = is_last ? 0 : level;
            return step;
        }
    }
}

/* Adds totals to leaf `leaf`, which is x, and keeps it as a total; after the last leaf
 * totals[0] is the sum. */
static inline void
ipu__sum_join(float x, int64_t leaf, bool is_last, float totals[IPU_SUM_LEVELS])
{
    const ipu__sum_step step = ipu__sum_step_of(leaf, is_last);
    for (int level = 0; step.adds >> level != 0; level++) {
        x = (step.adds >> level & 1) != 0 ? totals[level] + x : x;
    }
    totals[step.level] = x;
}

/* Blocks of k terms; at least 1. */
static inline int64_t
ipu__sum_blocks(int64_t k)
{
    return k <= IPU_SUM_BLOCK ? 1 : (k - 1) / IPU_SUM_BLOCK + 1;
}

/* Levels of which `leaves` leaves have totals. */
static inline int32_t
ipu__sum_levels(int64_t leaves)
{
    int32_t levels = 0;
    for (int64_t rest = leaves - 1; rest > 0 && levels < IPU_SUM_LEVELS; levels++) {
        rest /= IPU_SUM_FAN;
    }
    return levels;
}

/* Where terms come one by one, chains from 0 and totals that were 0 are kept for sums
 * side by side. They are the same tree: adding 0 changes nothing. */

/* Down to which level totals are complete once leaf `leaf` is and `next` begins; leaves
 * between them are 0. */
static inline int32_t
ipu__sum_carries(int64_t leaf, int64_t next)
{
    int32_t level = 0;
    while (level < IPU_SUM_LEVELS - 1 && leaf / IPU_SUM_FAN != next / IPU_SUM_FAN) {
        leaf /= IPU_SUM_FAN;
        next /= IPU_SUM_FAN;
        level++;
    }
    return level;
}

/* Adds n chains to the lowest totals, those to the totals above, up to level `carries`,
 * and begins again with 0 what was added. Levels are `apart` floats apart. */
static inline void
ipu__sum_carry(float *chains, float *totals, int64_t apart, int32_t carries, int64_t n)
{
    for (int32_t level = 0; level <= carries; level++, totals += apart) {
        for (int64_t j = 0; j < n; j++) {
            totals[j] += chains[j];
            chains[j] = 0.0f;
        }
        chains = totals;
    }
}

/* The same before term `term` of each sum, if a block begins with it. */
static inline void
ipu__sum_before(int64_t term, float *chains, float *totals, int64_t apart, int64_t n)
{
    int64_t leaf = term / IPU_SUM_BLOCK;
    if (term % IPU_SUM_BLOCK == 0 && leaf > 0) {
        ipu__sum_carry(chains, totals, apart, ipu__sum_carries(leaf - 1, leaf), n);
    }
}

/* The sums, in the place of their last chains. */
static inline void
ipu__sum_end(float *chains, const float *totals, int64_t apart, int32_t levels,
             int64_t n)
{
    for (int32_t level = 0; level < levels; level++, totals += apart) {
        for (int64_t j = 0; j < n; j++) {
            chains[j] = totals[j] + chains[j];
        }
    }
}

/* A sum of products, term by term, for reference kernels. float64 is one chain. */
typedef struct ipu__sum {
    bool is_double;
    double wide;
    float chain;
    int64_t terms;
    float totals[IPU_SUM_LEVELS];
} ipu__sum;

static inline float
ipu__sum_joined(const ipu__sum *sum, ipu__sum_step step)
{
    float joined = sum->chain;
    for (int32_t i = 0; step.adds >> i != 0; i++) {
        joined = (step.adds >> i & 1) != 0 ? sum->totals[i] + joined : joined;
    }
    return joined;
}

static inline void
ipu__sum_add(ipu__sum *sum, double x, double y)
{
    if (sum->is_double) {
        sum->wide = fma(x, y, sum->wide);
        return;
    }
    if (sum->terms > 0 && sum->terms % IPU_SUM_BLOCK == 0) {
        ipu__sum_step step = ipu__sum_step_of(sum->terms / IPU_SUM_BLOCK - 1, false);
        sum->totals[step.level] = ipu__sum_joined(sum, step);
        sum->chain = 0.0f;
    }
    sum->chain = fmaf((float)x, (float)y, sum->chain);
    sum->terms++;
}

static inline double
ipu__sum_of(const ipu__sum *sum)
{
    ipu__sum_step last = ipu__sum_step_of(ipu__sum_blocks(sum->terms) - 1, true);
    return sum->is_double ? sum->wide : (double)ipu__sum_joined(sum, last);
}

#endif
