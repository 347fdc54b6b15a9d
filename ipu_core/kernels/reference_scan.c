/* SPDX-License-Identifier: MIT
 *
 * Reference kernels of cumsum and cumprod: each line along the axis is walked once,
 * from its first element or (reverse) its last, and the running value is written
 * before (exclusive) or after the element joins it. float16 accumulates in float32,
 * float32 and float64 in double, integers wrap in 64 bits. Calling thread only;
 * allocates nothing. */
#include "kernels/kernel_impl.h"

static ipu__scalar
joined(ipu_op op, ipu_dtype dtype, ipu__scalar total, ipu__scalar element)
{
    bool sum = op == IPU_OP_ID_CUMSUM;
    if (!ipu_dtype_is_float(dtype)) {
        total.u = sum ? total.u + element.u : total.u * element.u;
        return total;
    }
    total.f = sum ? total.f + element.f : total.f * element.f;
    if (dtype == IPU_DTYPE_FLOAT16) {
        total.f = (double)(float)total.f;
    }
    return total;
}

static ipu_status
scan(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    const ipu_shape *shape = &spec->inputs[0].shape;
    ipu_dtype dtype = spec->inputs[0].dtype;
    bool exclusive = ipu_attrs_int(spec->attrs, IPU_ATTR_EXCLUSIVE, 0) != 0;
    bool reverse = ipu_attrs_int(spec->attrs, IPU_ATTR_REVERSE, 0) != 0;
    int32_t axis = ipu__axis(ipu_attrs_int(spec->attrs, IPU_ATTR_AXIS, 0), shape->rank);
    int64_t strides[IPU_MAX_RANK];
    ipu_shape_strides(shape, false, strides);
    int64_t size = shape->dims[axis];
    int64_t stride = strides[axis];
    int64_t elements = ipu_shape_elements(shape);
    int64_t lines = elements == 0 ? 0 : elements / size;
    for (int64_t line = 0; line < lines; line++) {
        int64_t base = line / stride * stride * size + line % stride;
        ipu__scalar total =
            ipu__scalar_from_double(dtype, spec->op == IPU_OP_ID_CUMSUM ? 0.0 : 1.0);
        for (int64_t i = 0; i < size; i++) {
            int64_t at = base + (reverse ? size - 1 - i : i) * stride;
            ipu__scalar element = ipu__scalar_load(dtype, call->inputs[0], at);
            ipu__scalar before = total;
            total = i == 0 ? element : joined(spec->op, dtype, total, element);
            ipu__scalar_store(dtype, call->outputs[0], at, exclusive ? before : total);
        }
    }
    return IPU_OK;
}

ipu_status
ipu_reference_cumsum(const ipu_kernel_call *call)
{
    return scan(call);
}

ipu_status
ipu_reference_cumprod(const ipu_kernel_call *call)
{
    return scan(call);
}
