/* SPDX-License-Identifier: MIT
 *
 * The common part of kernels that move slices by index. A tensor is seen as slices of
 * its last axes, counted over the axes that indices name; an index, or a point of
 * several, is the number of a slice. Gather has such a tensor for each entry of its
 * outer axes. */
#ifndef IPU_KERNELS_SLICES_IMPL_H
#define IPU_KERNELS_SLICES_IMPL_H

#include "kernels/core/kernel_impl.h"

enum { IPU_SLICE_BLOCK = 256 }; /* numbers that are worked out at once */

/* The numbers of the slices that points [first, first + n) name, in `out`; false where
 * one is outside of the tensor. */
bool ipu__slice_numbers(const ipu__points *p, const void *indices, int64_t first,
                        int64_t n, int64_t *out);
/* gather and gather_grad as points of one axis; `outer` blocks of slices for each of
 * `batch` lists of indices. */
typedef struct ipu__blocks {
    ipu__points points; /* count: of one list */
    int64_t lists;
    int64_t blocks; /* of all lists */
    int64_t per_list;
    int64_t slices; /* of a block */
} ipu__blocks;
void ipu__blocks_of_gather(ipu__blocks *b, ipu_attrs attrs, const ipu_shape *params,
                           const ipu_type *indices);
void ipu__blocks_of_points(ipu__blocks *b, const ipu_shape *whole,
                           const ipu_type *indices);
/* Says which index is outside. */
ipu_status ipu__blocks_check(const ipu_kernel_call *call, const ipu__blocks *b,
                             const void *indices);

#endif
