/* SPDX-License-Identifier: MIT
 *
 * Reference kernels of the ops that move elements: transpose, broadcast, concat, slice
 * and its gradient, gather and its gradient, one_hot. Each element's place is computed
 * from its index. Out-of-range indices of gather are errors that name the index;
 * one_hot writes off_value alone for them, as TensorFlow does. Calling thread only. */
#include <string.h>

#include "kernels/core/kernel_impl.h"
#include "kernels/core/sum_tree.h"

static void
move_element(void *out, int64_t to, const void *in, int64_t from, size_t bytes)
{
    memcpy(ipu__at_mutable(out, to * (int64_t)bytes),
           ipu__at(in, from * (int64_t)bytes), bytes);
}

/* Splits a flat index into the coordinates of a shape. */
static void
coordinates(const ipu_shape *shape, int64_t flat, int64_t out[IPU_MAX_RANK])
{
    for (int32_t axis = shape->rank - 1; axis >= 0; axis--) {
        out[axis] = flat % shape->dims[axis];
        flat /= shape->dims[axis];
    }
}

ipu_status
ipu_reference_transpose(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    const ipu_shape *result = &spec->outputs[0].shape;
    size_t bytes = ipu_dtype_bytes(spec->outputs[0].dtype);
    int64_t strides[IPU_MAX_RANK];
    int64_t at[IPU_MAX_RANK];
    uint32_t count;
    const int64_t *perm = ipu_attrs_ints(spec->attrs, IPU_ATTR_PERM, &count);
    ipu_shape_strides(&spec->inputs[0].shape, false, strides);
    int64_t elements = ipu_shape_elements(result);
    for (int64_t i = 0; i < elements; i++) {
        int64_t from = 0;
        coordinates(result, i, at);
        for (int32_t axis = 0; axis < result->rank; axis++) {
            from += at[axis] * strides[perm[axis]];
        }
        move_element(call->outputs[0], i, call->inputs[0], from, bytes);
    }
    return IPU_OK;
}

ipu_status
ipu_reference_broadcast(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    size_t bytes = ipu_dtype_bytes(spec->outputs[0].dtype);
    ipu__loop loop;
    ipu__loop_broadcast(&loop, &spec->outputs[0].shape, spec->inputs, 1);
    for (int64_t i = 0; i < loop.elements; i++) {
        move_element(call->outputs[0], i, call->inputs[0],
                     ipu__loop_offset(&loop, 0, i), bytes);
    }
    return IPU_OK;
}

ipu_status
ipu_reference_concat(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    const ipu_shape *result = &spec->outputs[0].shape;
    size_t bytes = ipu_dtype_bytes(spec->outputs[0].dtype);
    int32_t axis =
        ipu__axis(ipu_attrs_int(spec->attrs, IPU_ATTR_AXIS, 0), result->rank);
    int64_t strides[IPU_MAX_RANK];
    int64_t at[IPU_MAX_RANK];
    int64_t begin = 0;
    ipu_shape_strides(result, false, strides);
    for (uint32_t k = 0; k < spec->input_count; k++) {
        const ipu_shape *shape = &spec->inputs[k].shape;
        int64_t elements = ipu_shape_elements(shape);
        for (int64_t i = 0; i < elements; i++) {
            int64_t to = begin * strides[axis];
            coordinates(shape, i, at);
            for (int32_t d = 0; d < shape->rank; d++) {
                to += at[d] * strides[d];
            }
            move_element(call->outputs[0], to, call->inputs[k], i, bytes);
        }
        begin += shape->dims[axis];
    }
    return IPU_OK;
}

/* Where element `at` of the sliced tensor lies in the whole one. */
static int64_t
slice_offset(const ipu_kernel_spec *spec, const ipu_shape *whole, const int64_t *at)
{
    uint32_t count;
    const int64_t *begin = ipu_attrs_ints(spec->attrs, IPU_ATTR_BEGIN, &count);
    const int64_t *steps = ipu_attrs_ints(spec->attrs, IPU_ATTR_STRIDES, &count);
    int64_t strides[IPU_MAX_RANK];
    int64_t offset = 0;
    ipu_shape_strides(whole, false, strides);
    for (int32_t d = 0; d < whole->rank; d++) {
        int64_t step = steps == NULL ? 1 : steps[d];
        offset += (begin[d] + at[d] * step) * strides[d];
    }
    return offset;
}

ipu_status
ipu_reference_slice(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    const ipu_shape *result = &spec->outputs[0].shape;
    size_t bytes = ipu_dtype_bytes(spec->outputs[0].dtype);
    int64_t at[IPU_MAX_RANK];
    int64_t elements = ipu_shape_elements(result);
    for (int64_t i = 0; i < elements; i++) {
        coordinates(result, i, at);
        move_element(call->outputs[0], i, call->inputs[0],
                     slice_offset(spec, &spec->inputs[0].shape, at), bytes);
    }
    return IPU_OK;
}

ipu_status
ipu_reference_slice_grad(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    const ipu_shape *part = &spec->inputs[0].shape;
    size_t bytes = ipu_dtype_bytes(spec->outputs[0].dtype);
    int64_t at[IPU_MAX_RANK];
    int64_t elements = ipu_shape_elements(part);
    memset(call->outputs[0], 0, ipu_type_bytes(&spec->outputs[0]));
    for (int64_t i = 0; i < elements; i++) {
        coordinates(part, i, at);
        move_element(call->outputs[0],
                     slice_offset(spec, &spec->outputs[0].shape, at), call->inputs[0],
                     i, bytes);
    }
    return IPU_OK;
}

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
    *plan = (ipu__gather){.dtype = indices->dtype,
                          .batch = 1,
                          .outer = 1,
                          .size = params->dims[axis],
                          .count = 1,
                          .inner = 1};
    for (int32_t d = 0; d < params->rank; d++) {
        if (d < batch) {
            plan->batch *= params->dims[d];
        } else if (d < axis) {
            plan->outer *= params->dims[d];
        } else if (d > axis) {
            plan->inner *= params->dims[d];
        }
    }
    for (int32_t d = batch; d < indices->shape.rank; d++) {
        plan->count *= indices->shape.dims[d];
    }
}

ipu_status
ipu_reference_gather(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    size_t bytes = ipu_dtype_bytes(spec->outputs[0].dtype);
    ipu__gather plan;
    ipu__gather_plan(&plan, spec->attrs, &spec->inputs[0].shape, &spec->inputs[1]);
    IPU_TRY(ipu__check_indices(call, plan.dtype, call->inputs[1],
                               plan.batch * plan.count, plan.size));
    int64_t elements = ipu_shape_elements(&spec->outputs[0].shape);
    for (int64_t i = 0; i < elements; i++) {
        int64_t column = i % plan.inner;
        int64_t place = i / plan.inner % plan.count;
        int64_t outer = i / plan.inner / plan.count;
        int64_t index = ipu__integer_load(plan.dtype, call->inputs[1],
                                          outer / plan.outer * plan.count + place);
        int64_t from = (outer * plan.size + index) * plan.inner + column;
        move_element(call->outputs[0], i, call->inputs[0], from, bytes);
    }
    return IPU_OK;
}

ipu__scalar
ipu__reference_gathered(const ipu__gather *plan, const void *indices, ipu_dtype dtype,
                        const void *rows, int64_t i)
{
    int64_t column = i % plan->inner;
    int64_t place = i / plan->inner % plan->size;
    int64_t outer = i / plan->inner / plan->size;
    ipu__sum floats = {.is_double = dtype == IPU_DTYPE_FLOAT64};
    ipu__scalar sum = {.i = 0};
    for (int64_t j = 0; j < plan->count; j++) {
        int64_t index = ipu__integer_load(plan->dtype, indices,
                                          outer / plan->outer * plan->count + j);
        if (index != place) {
            continue;
        }
        ipu__scalar operands[3] = {sum, {.i = 0}, {.i = 0}};
        operands[1] = ipu__scalar_load(
            dtype, rows, (outer * plan->count + j) * plan->inner + column);
        if (ipu_dtype_is_float(dtype)) {
            ipu__sum_add(&floats, operands[1].f, 1.0);
        } else {
            (void)ipu__scalar_apply(IPU_OP_ID_ADD, dtype, dtype, operands, &sum);
        }
    }
    if (ipu_dtype_is_float(dtype)) {
        sum.f = ipu__sum_of(&floats);
    }
    return ipu__scalar_round(dtype, sum);
}

ipu_status
ipu_reference_gather_grad(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    const ipu_shape *result = &spec->outputs[0].shape;
    ipu_dtype dtype = spec->outputs[0].dtype;
    ipu__gather plan;
    ipu__gather_plan(&plan, spec->attrs, result, &spec->inputs[0]);
    IPU_TRY(ipu__check_indices(call, plan.dtype, call->inputs[0],
                               plan.batch * plan.count, plan.size));
    int64_t elements = ipu_shape_elements(result);
    for (int64_t i = 0; i < elements; i++) {
        ipu__scalar_store(dtype, call->outputs[0], i,
                          ipu__reference_gathered(&plan, call->inputs[0], dtype,
                                                  call->inputs[1], i));
    }
    return IPU_OK;
}

ipu_status
ipu_reference_one_hot(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    const ipu_shape *result = &spec->outputs[0].shape;
    ipu_dtype dtype = spec->outputs[0].dtype;
    int32_t axis =
        ipu__axis(ipu_attrs_int(spec->attrs, IPU_ATTR_AXIS, -1), result->rank);
    ipu__scalar on = ipu__scalar_from_double(
        dtype, ipu_attrs_float(spec->attrs, IPU_ATTR_ON_VALUE, 1.0));
    ipu__scalar off = ipu__scalar_from_double(
        dtype, ipu_attrs_float(spec->attrs, IPU_ATTR_OFF_VALUE, 0.0));
    int64_t depth = result->dims[axis];
    int64_t inner = 1;
    for (int32_t d = axis + 1; d < result->rank; d++) {
        inner *= result->dims[d];
    }
    int64_t elements = ipu_shape_elements(result);
    for (int64_t i = 0; i < elements; i++) {
        int64_t label = ipu__integer_load(spec->inputs[0].dtype, call->inputs[0],
                                          i / inner / depth * inner + i % inner);
        bool hit = label == i / inner % depth;
        ipu__scalar_store(dtype, call->outputs[0], i, hit ? on : off);
    }
    return IPU_OK;
}
