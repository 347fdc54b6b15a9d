/* SPDX-License-Identifier: MIT
 *
 * recurrence of float16, which has no fast kernel: each line along the axis is walked
 * once, from its first element or (reverse) its last, and accumulates in float32.
 * Calling thread only; allocates nothing. */
#include "kernels/core/kernel_impl.h"

ipu_status
ipu_reference_recurrence(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    const ipu_shape *shape = &spec->inputs[0].shape;
    const ipu_dtype dtype = spec->inputs[0].dtype;
    const bool reverse = ipu_attrs_int(spec->attrs, IPU_ATTR_REVERSE, 0) != 0;
    int32_t axis = ipu__axis(ipu_attrs_int(spec->attrs, IPU_ATTR_AXIS, 0), shape->rank);
    int64_t strides[IPU_MAX_RANK];
    ipu_shape_strides(shape, false, strides);
    const int64_t size = shape->dims[axis];
    const int64_t stride = strides[axis];
    const int64_t elements = ipu_shape_elements(shape);
    for (int64_t line = 0; elements > 0 && line < elements / size; line++) {
        const int64_t base = line / stride * stride * size + line % stride;
        ipu__scalar y = {.f = 0.0};
        for (int64_t i = 0; i < size; i++) {
            int64_t at = base + (reverse ? size - 1 - i : i) * stride;
            double a = ipu__scalar_load(dtype, call->inputs[0], at).f;
            double b = ipu__scalar_load(dtype, call->inputs[1], at).f;
            y.f = i == 0 ? b : a * y.f + b;
            if (dtype == IPU_DTYPE_FLOAT16) {
                y.f = (double)(float)y.f;
            }
            ipu__scalar_store(dtype, call->outputs[0], at, y);
        }
    }
    return IPU_OK;
}
