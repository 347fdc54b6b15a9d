/* SPDX-License-Identifier: MIT
 *
 * Shape rules of convolutions. Messages name the arguments of `tf.nn`: the input and
 * the filters. */
#include "base/convolution.h"
#include "graph/infer.h"

#include <inttypes.h>

/* Larger strides, dilations and paddings would be no use, and sums of them overflow. */
#define MOST_STEP (INT64_C(1) << 31)

/* `count` whole numbers of at least `least`, or none at all. */
static ipu_status
check_ints(ipu_infer_call *call, ipu_attr_key key, uint32_t count, int64_t least)
{
    uint32_t given;
    const int64_t *ints = ipu_attrs_ints(call->attrs, key, &given);
    IPU_FAIL_IF(call->ctx, given != 0 && given != count, INVALID_ARGUMENT,
                "%s has %u entries, but there should be %u", ipu_attr_name(key), given,
                count);
    for (uint32_t i = 0; i < given; i++) {
        IPU_FAIL_IF(call->ctx, ints[i] < least || ints[i] >= MOST_STEP,
                    INVALID_ARGUMENT,
                    "%s must be at least %" PRId64 ", but entry %u is %" PRId64,
                    ipu_attr_name(key), least, i, ints[i]);
    }
    return IPU_OK;
}

/* What x and w have to be for each other; gives y's shape. */
static ipu_status
convolution(ipu_infer_call *call, const ipu_shape *x, const ipu_shape *w,
            ipu_convolution *c)
{
    IPU_FAIL_IF(call->ctx, x->rank < 3 || x->rank > IPU_CONV_MAX_SPATIAL + 2,
                INVALID_ARGUMENT,
                "the input must have 3 to %d dimensions (batch, one to three spatial "
                "ones, channels), but its shape is %s",
                IPU_CONV_MAX_SPATIAL + 2, IPU_SHAPE_TEXT(x));
    IPU_FAIL_IF(call->ctx, w->rank != x->rank, INVALID_ARGUMENT,
                "an input of %d dimensions takes filters of as many (the window, "
                "channels, results), but got shapes %s and %s",
                (int)x->rank, IPU_SHAPE_TEXT(x), IPU_SHAPE_TEXT(w));
    uint32_t spatial = (uint32_t)x->rank - 2;
    IPU_TRY(check_ints(call, IPU_ATTR_STRIDES, spatial, 1));
    IPU_TRY(check_ints(call, IPU_ATTR_DILATIONS, spatial, 1));
    IPU_TRY(check_ints(call, IPU_ATTR_PADDING, 2 * spatial, 0));
    ipu_convolution_of(call->attrs, x, w, c);
    IPU_FAIL_IF(call->ctx, c->groups < 1 || c->groups >= MOST_STEP, INVALID_ARGUMENT,
                "groups must be at least 1, but is %" PRId64, c->groups);
    int64_t channels = x->dims[ipu_conv_channels_axis(c)];
    IPU_FAIL_IF(call->ctx, channels % c->groups != 0, INVALID_ARGUMENT,
                "%" PRId64 " groups do not divide the %" PRId64
                " channels of the input of shape %s",
                c->groups, channels, IPU_SHAPE_TEXT(x));
    IPU_FAIL_IF(call->ctx, c->filters % c->groups != 0, INVALID_ARGUMENT,
                "%" PRId64 " groups do not divide the %" PRId64
                " results of the filters of shape %s",
                c->groups, c->filters, IPU_SHAPE_TEXT(w));
    IPU_FAIL_IF(call->ctx, c->depth != channels / c->groups, INVALID_ARGUMENT,
                "filters of shape %s are for %" PRId64
                " channels in each group, but the input of shape %s has %" PRId64
                " in each of %" PRId64 " (axis %d)",
                IPU_SHAPE_TEXT(w), c->depth, IPU_SHAPE_TEXT(x), channels / c->groups,
                c->groups, (int)ipu_conv_channels_axis(c));
    for (uint32_t i = 0; i < spatial; i++) {
        const ipu_conv_axis *axis = &c->axes[i];
        int64_t padded = axis->size + axis->low + axis->high;
        IPU_FAIL_IF(call->ctx, axis->window < 1 || axis->window >= MOST_STEP,
                    INVALID_ARGUMENT,
                    "the window of the filters of shape %s is empty or too large",
                    IPU_SHAPE_TEXT(w));
        IPU_FAIL_IF(call->ctx, axis->size > 0 && padded < ipu_conv_reach(axis),
                    INVALID_ARGUMENT,
                    "the output size would be negative: in spatial dimension %u the "
                    "window reaches over %" PRId64 " elements, but the input of shape "
                    "%s has %" PRId64 " with its padding. Use padding 'SAME', or a "
                    "larger input",
                    i, ipu_conv_reach(axis), IPU_SHAPE_TEXT(x), padded);
    }
    return IPU_OK;
}

static ipu_status
gradient(ipu_infer_call *call, const ipu_shape *x, const ipu_shape *w,
         const ipu_shape *y)
{
    ipu_convolution c;
    IPU_TRY(convolution(call, x, w, &c));
    ipu_shape result = ipu_conv_result(&c);
    IPU_FAIL_IF(call->ctx, !ipu_shape_equal(&result, y), INVALID_ARGUMENT,
                "these strides and this padding make %s of the larger side, but the "
                "smaller one is %s",
                IPU_SHAPE_TEXT(&result), IPU_SHAPE_TEXT(y));
    return IPU_OK;
}

ipu_status
ipu_infer_conv(ipu_infer_call *call)
{
    ipu_convolution c;
    IPU_TRY(convolution(call, &call->inputs[0].shape, &call->inputs[1].shape, &c));
    call->outputs[0] = (ipu_type){call->inputs[0].dtype, ipu_conv_result(&c)};
    return IPU_OK;
}

ipu_status
ipu_infer_fused_conv(ipu_infer_call *call)
{
    IPU_TRY(ipu_infer_conv(call));
    const ipu_shape *y = &call->outputs[0].shape;
    uint32_t count;
    const int64_t *steps = ipu_attrs_ints(call->attrs, IPU_ATTR_STEPS, &count);
    IPU_FAIL_IF(call->ctx, steps != NULL && count != call->input_count - 2,
                INVALID_ARGUMENT, "steps has %u entries, but %u operands follow", count,
                call->input_count - 2);
    IPU_FAIL_IF(call->ctx,
                call->input_count > 2 &&
                    ipu_attrs_int(call->attrs, IPU_ATTR_CHANNELS_FIRST, 0) != 0,
                INVALID_ARGUMENT, "operands that follow need the channels last");
    for (uint32_t i = 0; i < call->input_count - 2; i++) {
        int64_t step = steps == NULL ? (int64_t)IPU_CONV_BIAS : steps[i];
        const ipu_shape *given = &call->inputs[2 + i].shape;
        IPU_FAIL_IF(call->ctx, step < 0 || step >= (int64_t)IPU_CONV_STEP_COUNT,
                    INVALID_ARGUMENT, "there is no step %" PRId64, step);
        IPU_FAIL_IF(call->ctx,
                    step == (int64_t)IPU_CONV_ADD ? !ipu_shape_equal(given, y)
                                                  : !ipu_shape_is_last_axis(given, y),
                    INVALID_ARGUMENT, "operand %u does not fit the result%s", i,
                    step == (int64_t)IPU_CONV_ADD ? "" : "'s last axis");
    }
    return IPU_OK;
}

ipu_status
ipu_infer_conv_grad_input(ipu_infer_call *call)
{
    ipu_shape x;
    IPU_TRY(ipu__infer_shape(call, &x));
    IPU_TRY(gradient(call, &x, &call->inputs[1].shape, &call->inputs[0].shape));
    call->outputs[0] = (ipu_type){call->inputs[0].dtype, x};
    return IPU_OK;
}

ipu_status
ipu_infer_fused_conv_grad_input(ipu_infer_call *call)
{
    const ipu_type *like = &call->inputs[0];
    ipu_shape x;
    IPU_TRY(ipu__infer_shape(call, &x));
    IPU_FAIL_IF(call->ctx, !ipu_shape_equal(&x, &like->shape), INVALID_ARGUMENT,
                "operand 0 has another shape than the result");
    IPU_TRY(gradient(call, &x, &call->inputs[2].shape, &call->inputs[1].shape));
    call->outputs[0] = *like;
    return IPU_OK;
}

ipu_status
ipu_infer_conv_grad_filter(ipu_infer_call *call)
{
    ipu_shape w;
    IPU_TRY(ipu__infer_shape(call, &w));
    IPU_TRY(gradient(call, &call->inputs[0].shape, &w, &call->inputs[1].shape));
    call->outputs[0] = (ipu_type){call->inputs[0].dtype, w};
    return IPU_OK;
}
