/* SPDX-License-Identifier: MIT
 *
 * Reference kernels of the ops whose indices name several axes: gather_nd, scatter_nd,
 * tensor_scatter. indices [..., k] is a list of points; point p names the slice of the
 * remaining axes (`inner` elements) that starts at its offset. Updates that meet at one
 * place join in the order of the points; float16 sums are held in float32, and sums go
 * by sum_tree.h, whose first chain begins with what stands there. A point outside of the
 * tensor is an error that names it. Calling thread only. */
#include <string.h>

#include "kernels/core/kernel_impl.h"
#include "kernels/core/sum_tree.h"

void
ipu__points_plan(ipu__points *p, const ipu_shape *whole, const ipu_type *type)
{
    const ipu_shape *shape = &type->shape;
    *p = (ipu__points){.dtype = type->dtype, .count = 1, .inner = 1};
    p->depth = (int32_t)shape->dims[shape->rank - 1];
    for (int32_t i = 0; i + 1 < shape->rank; i++) {
        p->count *= shape->dims[i];
    }
    for (int32_t i = 0; i < whole->rank; i++) {
        if (i < p->depth) {
            p->dims[i] = whole->dims[i];
        } else {
            p->inner *= whole->dims[i];
        }
    }
}

int64_t
ipu__point_offset(const ipu__points *p, const void *indices, int64_t i)
{
    int64_t offset = 0;
    for (int32_t axis = 0; axis < p->depth; axis++) {
        offset = offset * p->dims[axis] +
                 ipu__integer_load(p->dtype, indices, i * p->depth + axis);
    }
    return offset * p->inner;
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

ipu_status
ipu_reference_gather_nd(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    size_t bytes = ipu_dtype_bytes(spec->outputs[0].dtype);
    ipu__points p;
    ipu__points_plan(&p, &spec->inputs[0].shape, &spec->inputs[1]);
    IPU_TRY(ipu__points_check(call, &p, call->inputs[1]));
    size_t slice = (size_t)p.inner * bytes;
    for (int64_t i = 0; i < p.count && slice > 0; i++) {
        int64_t from = ipu__point_offset(&p, call->inputs[1], i) * (int64_t)bytes;
        memcpy(ipu__at_mutable(call->outputs[0], i * (int64_t)slice),
               ipu__at(call->inputs[0], from), slice);
    }
    return IPU_OK;
}

/* Element `at` of the result from all updates of it. Quadratic, and plain. */
static ipu__scalar
joined_updates(const ipu__points *p, const void *indices, ipu_op step, ipu_dtype dtype,
               const void *updates, int64_t at, ipu__scalar start)
{
    ipu__scalar result = start;
    bool adds = step == IPU_OP_ID_ADD && ipu_dtype_is_float(dtype);
    ipu__sum sum = {.is_double = dtype == IPU_DTYPE_FLOAT64};
    if (adds) {
        sum.wide = start.f;
        sum.chain = (float)start.f;
    }
    for (int64_t i = 0; i < p->count; i++) {
        int64_t offset = at - ipu__point_offset(p, indices, i);
        if (offset < 0 || offset >= p->inner) {
            continue;
        }
        ipu__scalar operands[3] = {result, {.i = 0}, {.i = 0}};
        operands[1] = ipu__scalar_load(dtype, updates, i * p->inner + offset);
        if (step == IPU_OP_ID_IDENTITY) {
            result = operands[1];
        } else if (adds) {
            ipu__sum_add(&sum, operands[1].f, 1.0);
        } else {
            ipu_dtype wide = dtype == IPU_DTYPE_FLOAT16 ? IPU_DTYPE_FLOAT32 : dtype;
            (void)ipu__scalar_apply(step, wide, wide, operands, &result);
        }
    }
    if (adds) {
        result.f = ipu__sum_of(&sum);
    }
    return result;
}

ipu_status
ipu_reference_scatter_nd(const ipu_kernel_call *call)
{
    const ipu_type *type = &call->spec->outputs[0];
    ipu__points p;
    ipu__points_plan(&p, &type->shape, &call->spec->inputs[0]);
    IPU_TRY(ipu__points_check(call, &p, call->inputs[0]));
    int64_t elements = ipu_shape_elements(&type->shape);
    for (int64_t at = 0; at < elements; at++) {
        ipu__scalar zero = {.i = 0};
        ipu__scalar_store(
            type->dtype, call->outputs[0], at,
            joined_updates(&p, call->inputs[0], IPU_OP_ID_ADD, type->dtype,
                           call->inputs[1], at, zero));
    }
    return IPU_OK;
}

ipu_op
ipu__scatter_step(const ipu_kernel_spec *spec)
{
    static const ipu_op steps[IPU_SCATTER_COUNT] = {IPU_OP_ID_IDENTITY, IPU_OP_ID_ADD,
                                                    IPU_OP_ID_MUL, IPU_OP_ID_MINIMUM,
                                                    IPU_OP_ID_MAXIMUM};
    return steps[ipu_attrs_int(spec->attrs, IPU_ATTR_REDUCTION, 0)];
}

ipu_status
ipu_reference_tensor_scatter(const ipu_kernel_call *call)
{
    const ipu_type *type = &call->spec->outputs[0];
    ipu_op step = ipu__scatter_step(call->spec);
    ipu__points p;
    ipu__points_plan(&p, &type->shape, &call->spec->inputs[1]);
    IPU_TRY(ipu__points_check(call, &p, call->inputs[1]));
    int64_t elements = ipu_shape_elements(&type->shape);
    for (int64_t at = 0; at < elements; at++) {
        ipu__scalar start = ipu__scalar_load(type->dtype, call->inputs[0], at);
        ipu__scalar_store(
            type->dtype, call->outputs[0], at,
            joined_updates(&p, call->inputs[1], step, type->dtype, call->inputs[2], at,
                           start));
    }
    return IPU_OK;
}
