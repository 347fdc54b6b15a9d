/* SPDX-License-Identifier: MIT
 *
 * Indices of rows in groups, one for each row that is named, see row_groups.c. */
#ifndef IPU_KERNELS_ROW_GROUPS_IMPL_H
#define IPU_KERNELS_ROW_GROUPS_IMPL_H

#include "kernels/core/kernel_impl.h"

typedef struct ipu__row_groups {
    const ipu__numbered *sorted; /* rows, and the places of their indices */
    const uint32_t *first; /* where in `sorted` each group begins; then the last's end */
    int64_t count;
} ipu__row_groups;

/* Whether rows and indices can be numbered. */
bool ipu__row_groups_fit(const ipu__gather *rows);
size_t ipu__row_groups_bytes(const ipu__gather *rows);
/* Of indices that are in range. They lie in `room`. */
ipu__row_groups ipu__row_groups_make(const ipu__gather *rows, const void *indices,
                                     void *room);
/* The first group whose row is not below `row`. */
int64_t ipu__row_group_from(const ipu__row_groups *groups, int64_t row);

static inline int64_t
ipu__row_of_group(const ipu__row_groups *groups, int64_t group)
{
    return groups->sorted[groups->first[group]].key;
}

/* Adds what the indices of a group lead to in `updates`, [indices][inner] of float32 or,
 * if `half`, of float16, to `n` sums, which are 0; in the order of the indices, by
 * sum_tree.h. `n` is IPU_ROW_STRIP at most. */
enum { IPU_ROW_STRIP = 512 };
void ipu__row_group_add(const ipu__row_groups *groups, int64_t group,
                        const void *updates, bool half, int64_t inner, int64_t column,
                        int64_t n, ipu_cpu_class cpu, float *sums);

#endif
