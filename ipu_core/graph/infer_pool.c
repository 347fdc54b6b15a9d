/* SPDX-License-Identifier: MIT
 *
 * Shape rules of pooling. */
#include "graph/infer.h"

#include <inttypes.h>

enum { MOST_AXES = 3 };

/* The attribute as `count` integers of at least `least`; where it may be left out, all
 * are `otherwise`. */
static ipu_status
ints_attr(ipu_infer_call *call, ipu_attr_key key, uint32_t count, int64_t least,
          bool required, int64_t otherwise, int64_t *out)
{
    uint32_t given;
    const int64_t *ints = ipu_attrs_ints(call->attrs, key, &given);
    if (given == 0 && !required) {
        for (uint32_t i = 0; i < count; i++) {
            out[i] = otherwise;
        }
        return IPU_OK;
    }
    IPU_FAIL_IF(call->ctx, given != count, INVALID_ARGUMENT,
                "%s has %u integers, but the input's axes need %u", ipu_attr_name(key),
                given, count);
    for (uint32_t i = 0; i < count; i++) {
        IPU_FAIL_IF(call->ctx, ints[i] < least || ints[i] > INT32_MAX, INVALID_ARGUMENT,
                    "%s holds %" PRId64 ", but must be at least %" PRId64,
                    ipu_attr_name(key), ints[i], least);
        out[i] = ints[i];
    }
    return IPU_OK;
}

/* The shape of the windows of an input `x` of [images, 1 to 3 axes, channels]. */
static ipu_status
windows_of(ipu_infer_call *call, const ipu_shape *x, ipu_shape *out)
{
    int64_t window[MOST_AXES];
    int64_t strides[MOST_AXES];
    int64_t dilations[MOST_AXES];
    int64_t padding[2 * MOST_AXES];
    IPU_FAIL_IF(call->ctx, x->rank < 3 || x->rank > 2 + MOST_AXES, INVALID_ARGUMENT,
                "the input must be [images, 1 to 3 axes, channels], but has shape %s",
                IPU_SHAPE_TEXT(x));
    uint32_t axes = (uint32_t)x->rank - 2;
    IPU_TRY(ints_attr(call, IPU_ATTR_WINDOW, axes, 1, true, 0, window));
    IPU_TRY(ints_attr(call, IPU_ATTR_STRIDES, axes, 1, true, 0, strides));
    IPU_TRY(ints_attr(call, IPU_ATTR_DILATIONS, axes, 1, false, 1, dilations));
    IPU_TRY(ints_attr(call, IPU_ATTR_PADDING, 2 * axes, 0, false, 0, padding));
    *out = *x;
    for (uint32_t i = 0; i < axes; i++) {
        int64_t reach = (window[i] - 1) * dilations[i] + 1;
        int64_t low = padding[2 * i];
        int64_t high = padding[2 * i + 1];
        int64_t room = x->dims[i + 1] + low + high - reach;
        IPU_FAIL_IF(call->ctx, low >= reach || high >= reach, INVALID_ARGUMENT,
                    "padding of %" PRId64 " and %" PRId64 " at axis %u leaves windows "
                    "of %" PRId64 " empty; it must be smaller than the window",
                    low, high, i + 1, reach);
        IPU_FAIL_IF(call->ctx, room < 0, INVALID_ARGUMENT,
                    "Negative dimension size: a window of %" PRId64
                    " does not fit into the %" PRId64
                    " elements of axis %u of shape %s; use a smaller window or padding "
                    "'SAME'",
                    reach, x->dims[i + 1], i + 1, IPU_SHAPE_TEXT(x));
        out->dims[i + 1] = room / strides[i] + 1;
    }
    return IPU_OK;
}

ipu_status
ipu_infer_pool(ipu_infer_call *call)
{
    call->outputs[0].dtype = call->inputs[0].dtype;
    return windows_of(call, &call->inputs[0].shape, &call->outputs[0].shape);
}

ipu_status
ipu_infer_max_pool_grad(ipu_infer_call *call)
{
    const ipu_type *x = &call->inputs[0];
    ipu_shape windows;
    IPU_TRY(windows_of(call, &x->shape, &windows));
    IPU_TRY(ipu__infer_like(call, "the maxima", 1, x->dtype, &windows));
    IPU_TRY(ipu__infer_like(call, "their gradient", 2, x->dtype, &windows));
    call->outputs[0] = *x;
    return IPU_OK;
}

ipu_status
ipu_infer_max_pool_pick(ipu_infer_call *call)
{
    const ipu_type *x = &call->inputs[0];
    ipu_shape windows;
    IPU_TRY(windows_of(call, &x->shape, &windows));
    IPU_TRY(ipu__infer_like(call, "the maxima", 1, x->dtype, &windows));
    IPU_TRY(ipu__infer_like(call, "what is picked of", 2, call->inputs[2].dtype,
                            &x->shape));
    call->outputs[0] = (ipu_type){call->inputs[2].dtype, windows};
    return IPU_OK;
}

ipu_status
ipu_infer_average_pool_grad(ipu_infer_call *call)
{
    ipu_shape windows;
    ipu_type type = {.dtype = call->inputs[0].dtype};
    IPU_TRY(ipu__infer_shape(call, &type.shape));
    IPU_TRY(windows_of(call, &type.shape, &windows));
    IPU_TRY(ipu__infer_like(call, "the gradient", 0, type.dtype, &windows));
    call->outputs[0] = type;
    return IPU_OK;
}
