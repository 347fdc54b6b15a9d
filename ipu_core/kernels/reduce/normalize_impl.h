/* SPDX-License-Identifier: MIT
 *
 * The common part of the normalisation kernels: sizes, and the group of a channel. */
#ifndef IPU_KERNELS_NORMALIZE_IMPL_H
#define IPU_KERNELS_NORMALIZE_IMPL_H

#include "kernels/core/kernel_impl.h"

typedef struct ipu__normalize {
    int64_t outer;
    int64_t rows;
    int64_t channels;
    int64_t groups;
    int64_t each; /* channels of a group */
    bool strided;
    double epsilon;
} ipu__normalize;

static inline void
ipu__normalize_plan(const ipu_kernel_spec *spec, ipu__normalize *n)
{
    const int64_t *dims = spec->inputs[0].shape.dims;
    int64_t groups = ipu_attrs_int(spec->attrs, IPU_ATTR_GROUPS, 1);
    *n = (ipu__normalize){
        .outer = dims[0],
        .rows = dims[1],
        .channels = dims[2],
        .groups = groups,
        .each = dims[2] / groups,
        .strided = ipu_attrs_int(spec->attrs, IPU_ATTR_STRIDED, 0) != 0,
        .epsilon = ipu_attrs_float(spec->attrs, IPU_ATTR_EPSILON, 1e-3),
    };
}

static inline int64_t
ipu__normalize_group(const ipu__normalize *n, int64_t channel)
{
    return n->strided ? channel % n->groups : channel / n->each;
}

/* Channel i of a group. */
static inline int64_t
ipu__normalize_channel(const ipu__normalize *n, int64_t group, int64_t i)
{
    return n->strided ? i * n->groups + group : group * n->each + i;
}

/* normalize_wide.c */
ipu_choose_fn ipu__choose_wide_normalize;

#endif
