/* SPDX-License-Identifier: MIT
 *
 * Reference kernels of sum, mean, prod, max, min, any, all over any axes and of
 * argmax and argmin. Each element of
 * the result walks over the elements it is made of, in row-major order. float16
 * accumulates in float32, float32 and float64 in double, integers wrap in 64 bits. Runs
 * on the calling thread; allocates nothing. */
#include <math.h>
#include <string.h>

#include "kernels/core/kernel_impl.h"

/* Loops over the kept axes and over the reduced ones, strides of the input. */
typedef struct reduction {
    ipu__loop kept;
    ipu__loop reduced;
} reduction;

static void
plan(const ipu_kernel_spec *spec, reduction *out)
{
    const ipu_shape *shape = &spec->inputs[0].shape;
    int64_t strides[IPU_MAX_RANK];
    uint32_t count;
    const int64_t *axes = ipu_attrs_ints(spec->attrs, IPU_ATTR_AXES, &count);
    *out = (reduction){{0}, {0}};
    ipu_shape_strides(shape, false, strides);
    for (int32_t axis = 0; axis < shape->rank; axis++) {
        bool reduces = false;
        for (uint32_t i = 0; i < count; i++) {
            reduces = reduces || axes[i] == axis;
        }
        ipu__loop *loop = reduces ? &out->reduced : &out->kept;
        loop->dims[loop->rank] = shape->dims[axis];
        loop->strides[0][loop->rank++] = strides[axis];
    }
    out->kept.operands = 1;
    out->reduced.operands = 1;
    out->kept.elements = 1;
    out->reduced.elements = 1;
    for (int32_t i = 0; i < out->kept.rank; i++) {
        out->kept.elements *= out->kept.dims[i];
    }
    for (int32_t i = 0; i < out->reduced.rank; i++) {
        out->reduced.elements *= out->reduced.dims[i];
    }
    ipu__loop_collapse(&out->kept);
    ipu__loop_collapse(&out->reduced);
}

/* The product as `total` is the sum. */
static ipu__scalar
product(ipu_dtype dtype, const void *x, const reduction *loops, int64_t base)
{
    ipu__scalar product = ipu__scalar_from_double(dtype, 1.0);
    float narrow = 1.0f;
    for (int64_t i = 0; i < loops->reduced.elements; i++) {
        ipu__scalar element = ipu__scalar_load(
            dtype, x, base + ipu__loop_offset(&loops->reduced, 0, i));
        if (dtype == IPU_DTYPE_FLOAT16) {
            narrow *= (float)element.f;
        } else if (ipu_dtype_is_float(dtype)) {
            product.f *= element.f;
        } else {
            product.u *= element.u;
        }
    }
    if (dtype == IPU_DTYPE_FLOAT16) {
        product.f = (double)narrow;
    }
    return product;
}

static ipu__scalar
total(ipu_dtype dtype, const void *x, const reduction *loops, int64_t base)
{
    ipu__scalar sum = {.i = 0};
    float narrow = 0.0f;
    for (int64_t i = 0; i < loops->reduced.elements; i++) {
        ipu__scalar element = ipu__scalar_load(
            dtype, x, base + ipu__loop_offset(&loops->reduced, 0, i));
        if (dtype == IPU_DTYPE_FLOAT16) {
            narrow += (float)element.f;
        } else if (ipu_dtype_is_float(dtype)) {
            sum.f += element.f;
        } else {
            sum.u += element.u;
        }
    }
    if (dtype == IPU_DTYPE_FLOAT16) {
        sum.f = (double)narrow;
    }
    return sum;
}

static ipu__scalar
mean_of(ipu_dtype dtype, ipu__scalar sum, int64_t count)
{
    if (dtype == IPU_DTYPE_FLOAT16) {
        sum.f = (double)((float)sum.f / (float)count);
    } else if (ipu_dtype_is_float(dtype)) {
        sum.f /= (double)count;
    } else if (count == 0) {
        sum.i = 0;
    } else if (ipu_dtype_kind(dtype) == 'u') {
        sum.u /= (uint64_t)count;
    } else {
        sum.i /= count;
    }
    return sum;
}

static ipu_op
fold_step(ipu_op op)
{
    switch (op) {
    case IPU_OP_ID_MAX:
        return IPU_OP_ID_MAXIMUM;
    case IPU_OP_ID_MIN:
        return IPU_OP_ID_MINIMUM;
    case IPU_OP_ID_ANY:
        return IPU_OP_ID_LOGICAL_OR;
    default:
        return IPU_OP_ID_LOGICAL_AND;
    }
}

static ipu_status
reduce(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    ipu_dtype dtype = spec->inputs[0].dtype;
    ipu_op op = spec->op;
    bool arithmetic = op == IPU_OP_ID_SUM || op == IPU_OP_ID_MEAN;
    ipu_op step = fold_step(op);
    reduction loops;
    uint32_t axis_count;
    ipu_attrs_ints(spec->attrs, IPU_ATTR_AXES, &axis_count);
    if (axis_count == 0) { /* the value itself: 0 + -0 would lose a sign */
        size_t bytes = ipu_type_bytes(&spec->outputs[0]);
        if (bytes > 0) {
            memmove(call->outputs[0], call->inputs[0], bytes);
        }
        return IPU_OK;
    }
    plan(spec, &loops);
    for (int64_t i = 0; i < loops.kept.elements; i++) {
        int64_t base = ipu__loop_offset(&loops.kept, 0, i);
        ipu__scalar result;
        if (arithmetic) {
            result = total(dtype, call->inputs[0], &loops, base);
            if (op == IPU_OP_ID_MEAN) {
                result = mean_of(dtype, result, loops.reduced.elements);
            }
        } else if (op == IPU_OP_ID_PROD) {
            result = product(dtype, call->inputs[0], &loops, base);
        } else {
            result = ipu__scalar_end(dtype, op == IPU_OP_ID_MIN || op == IPU_OP_ID_ALL);
            for (int64_t j = 0; j < loops.reduced.elements; j++) {
                ipu__scalar operands[3] = {result, {.i = 0}, {.i = 0}};
                operands[1] = ipu__scalar_load(
                    dtype, call->inputs[0],
                    base + ipu__loop_offset(&loops.reduced, 0, j));
                (void)ipu__scalar_apply(step, dtype, dtype, operands, &result);
            }
        }
        ipu__scalar_store(dtype, call->outputs[0], i, result);
    }
    return IPU_OK;
}

ipu_status
ipu_reference_sum(const ipu_kernel_call *call)
{
    return reduce(call);
}

ipu_status
ipu_reference_mean(const ipu_kernel_call *call)
{
    return reduce(call);
}

ipu_status
ipu_reference_max(const ipu_kernel_call *call)
{
    return reduce(call);
}

ipu_status
ipu_reference_min(const ipu_kernel_call *call)
{
    return reduce(call);
}

ipu_status
ipu_reference_prod(const ipu_kernel_call *call)
{
    return reduce(call);
}

ipu_status
ipu_reference_any(const ipu_kernel_call *call)
{
    return reduce(call);
}

ipu_status
ipu_reference_all(const ipu_kernel_call *call)
{
    return reduce(call);
}

/* The first of equal ones. NaN is passed over, as in TensorFlow: of nothing else, 0. */
static ipu_status
place_of_extreme(const ipu_kernel_call *call, bool least)
{
    const ipu_kernel_spec *spec = call->spec;
    const ipu_shape *shape = &spec->inputs[0].shape;
    ipu_dtype dtype = spec->inputs[0].dtype;
    char kind = ipu_dtype_kind(dtype);
    int64_t strides[IPU_MAX_RANK];
    int32_t axis =
        ipu__axis(ipu_attrs_int(spec->attrs, IPU_ATTR_AXIS, 0), shape->rank);
    ipu_shape_strides(shape, false, strides);
    int64_t size = shape->rank == 0 ? 1 : shape->dims[axis];
    int64_t stride = shape->rank == 0 ? 1 : strides[axis];
    int64_t results = ipu_shape_elements(&spec->outputs[0].shape);
    IPU_FAIL_IF(call->ctx, size == 0 && results > 0, INVALID_ARGUMENT,
                "%s over axis %d, which has no elements",
                ipu_op_info_of(spec->op)->name, (int)axis);
    for (int64_t i = 0; i < results; i++) {
        int64_t base = i / stride * stride * size + i % stride;
        ipu__scalar best = ipu__scalar_load(dtype, call->inputs[0], base);
        int64_t where = 0;
        for (int64_t j = 1; j < size; j++) {
            ipu__scalar element =
                ipu__scalar_load(dtype, call->inputs[0], base + j * stride);
            ipu__scalar low = least ? element : best;
            ipu__scalar high = least ? best : element;
            bool better = kind == 'f'   ? low.f < high.f ||
                                            (isnan(best.f) && !isnan(element.f))
                          : kind == 'i' ? low.i < high.i
                                        : low.u < high.u;
            if (better) {
                best = element;
                where = j;
            }
        }
        ipu__scalar_store(spec->outputs[0].dtype, call->outputs[0], i,
                          (ipu__scalar){.i = where});
    }
    return IPU_OK;
}

ipu_status
ipu_reference_argmax(const ipu_kernel_call *call)
{
    return place_of_extreme(call, false);
}

ipu_status
ipu_reference_argmin(const ipu_kernel_call *call)
{
    return place_of_extreme(call, true);
}
