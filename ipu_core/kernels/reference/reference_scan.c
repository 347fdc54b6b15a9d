/* SPDX-License-Identifier: MIT
 *
 * Reference kernels of cumsum, cumprod and recurrence: each line along the axis is
 * walked once, from its first element or (reverse) its last, and the running value is
 * written before (exclusive) or after the element joins it. float16 accumulates in
 * float32, float32 and float64 in double, integers wrap in 64 bits. Calling thread
 * only; allocates nothing. */
#include "kernels/core/kernel_impl.h"

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

/* The lines of a tensor along one axis, each from its first element on, or its last. */
typedef struct lines {
    int64_t count;
    int64_t size; /* of one line */
    int64_t stride;
    bool reverse;
} lines;

static lines
lines_of(const ipu_kernel_spec *spec)
{
    const ipu_shape *shape = &spec->inputs[0].shape;
    int32_t axis = ipu__axis(ipu_attrs_int(spec->attrs, IPU_ATTR_AXIS, 0), shape->rank);
    int64_t strides[IPU_MAX_RANK];
    ipu_shape_strides(shape, false, strides);
    int64_t elements = ipu_shape_elements(shape);
    return (lines){.count = elements == 0 ? 0 : elements / shape->dims[axis],
                   .size = shape->dims[axis],
                   .stride = strides[axis],
                   .reverse = ipu_attrs_int(spec->attrs, IPU_ATTR_REVERSE, 0) != 0};
}

/* Where element i of a line lies. */
static int64_t
place_of(const lines *l, int64_t line, int64_t i)
{
    int64_t base = line / l->stride * l->stride * l->size + line % l->stride;
    return base + (l->reverse ? l->size - 1 - i : i) * l->stride;
}

static ipu_status
scan(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    ipu_dtype dtype = spec->inputs[0].dtype;
    bool exclusive = ipu_attrs_int(spec->attrs, IPU_ATTR_EXCLUSIVE, 0) != 0;
    lines l = lines_of(spec);
    for (int64_t line = 0; line < l.count; line++) {
        ipu__scalar total =
            ipu__scalar_from_double(dtype, spec->op == IPU_OP_ID_CUMSUM ? 0.0 : 1.0);
        for (int64_t i = 0; i < l.size; i++) {
            int64_t at = place_of(&l, line, i);
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

ipu_status
ipu_reference_recurrence(const ipu_kernel_call *call)
{
    ipu_dtype dtype = call->spec->inputs[0].dtype;
    lines l = lines_of(call->spec);
    for (int64_t line = 0; line < l.count; line++) {
        ipu__scalar y = ipu__scalar_from_double(dtype, 0.0);
        for (int64_t i = 0; i < l.size; i++) {
            int64_t at = place_of(&l, line, i);
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
