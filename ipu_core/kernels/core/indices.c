/* SPDX-License-Identifier: MIT
 *
 * What indices lead to: slices along one axis, or points of several. Those outside of the
 * tensor are errors that name the index. */
#include "kernels/core/kernel_impl.h"

ipu_status
ipu__check_indices(const ipu_kernel_call *call, ipu_dtype dtype, const void *indices,
                   int64_t count, int64_t size)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t index = ipu__integer_load(dtype, indices, i);
        IPU_FAIL_IF(call->ctx, index < 0 || index >= size, INVALID_ARGUMENT,
                    "%s: indices[%lld] = %lld is not in [0, %lld)",
                    ipu_op_info_of(call->spec->op)->name, (long long)i,
                    (long long)index, (long long)size);
    }
    return IPU_OK;
}

void
ipu__gather_plan(ipu__gather *plan, ipu_attrs attrs, const ipu_shape *params,
                 const ipu_type *indices)
{
    int32_t axis = ipu__axis(ipu_attrs_int(attrs, IPU_ATTR_AXIS, 0), params->rank);
    int32_t batch = (int32_t)ipu_attrs_int(attrs, IPU_ATTR_BATCH_DIMS, 0);
    *plan = (ipu__gather){
        .dtype = indices->dtype,
        .batch = ipu_shape_span(params, 0, batch),
        .outer = ipu_shape_span(params, batch, axis),
        .size = params->dims[axis],
        .count = ipu_shape_span(&indices->shape, batch, indices->shape.rank),
        .inner = ipu_shape_span(params, axis + 1, params->rank),
    };
}

void
ipu__points_plan(ipu__points *p, const ipu_shape *whole, const ipu_type *type)
{
    const ipu_shape *shape = &type->shape;
    int32_t depth = (int32_t)shape->dims[shape->rank - 1];
    *p = (ipu__points){
        .dtype = type->dtype,
        .count = ipu_shape_span(shape, 0, shape->rank - 1),
        .depth = depth,
        .inner = ipu_shape_span(whole, depth, whole->rank),
    };
    memcpy(p->dims, whole->dims, (size_t)depth * sizeof p->dims[0]);
}

ipu_status
ipu__points_check(const ipu_kernel_call *call, const ipu__points *p,
                  const void *indices)
{
    for (int64_t i = 0; i < p->count * p->depth; i++) {
        int64_t index = ipu__integer_load(p->dtype, indices, i);
        int64_t axis = i % p->depth;
        IPU_FAIL_IF(call->ctx, index < 0 || index >= p->dims[axis], INVALID_ARGUMENT,
                    "%s: indices[%lld] = %lld for axis %lld is not in [0, %lld)",
                    ipu_op_info_of(call->spec->op)->name, (long long)(i / p->depth),
                    (long long)index, (long long)axis, (long long)p->dims[axis]);
    }
    return IPU_OK;
}
