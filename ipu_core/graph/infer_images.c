/* SPDX-License-Identifier: MIT
 *
 * Shape rules of ops on images: convolutions, pooling, normalisation. Messages name the
 * arguments of `tf.nn`: the input and the filters. */
#include "base/convolution.h"
#include "graph/infer.h"

#include <inttypes.h>

/* --- convolutions ----------------------------------------------------------------- */

/* Larger strides, dilations and paddings are of no use, and sums of them overflow. */
#define MOST_STEP (INT64_C(1) << 31)

/* `count` whole numbers of at least `least`, or none at all. */
static ipu_status
check_ints(ipu_infer_call *call, ipu_attr_key key, uint32_t count, int64_t least)
{
    uint32_t given;
    const int64_t *ints = ipu_attrs_ints(call->attrs, key, &given);
    REFUSE_IF(given != 0 && given != count, "%s has %u entries, but there should be %u",
              ipu_attr_name(key), given, count);
    for (uint32_t i = 0; i < given; i++) {
        REFUSE_IF(ints[i] < least || ints[i] >= MOST_STEP,
                  "%s must be at least %" PRId64 ", but entry %u is %" PRId64,
                  ipu_attr_name(key), least, i, ints[i]);
    }
    return IPU_OK;
}

/* Checks x, w and the attributes against each other, and gives them as *c. */
static ipu_status
convolution(ipu_infer_call *call, const ipu_shape *x, const ipu_shape *w,
            ipu_convolution *c)
{
    REFUSE_IF(x->rank < 3 || x->rank > IPU_CONV_MAX_SPATIAL + 2,
              "the input must have 3 to %d dimensions (batch, one to three spatial "
              "ones, channels), but its shape is %s",
              IPU_CONV_MAX_SPATIAL + 2, IPU_SHAPE_TEXT(x));
    REFUSE_IF(w->rank != x->rank,
              "an input of %d dimensions takes filters of as many (the window, "
              "channels, results), but got shapes %s and %s",
              (int)x->rank, IPU_SHAPE_TEXT(x), IPU_SHAPE_TEXT(w));
    uint32_t spatial = (uint32_t)x->rank - 2;
    IPU_TRY(check_ints(call, IPU_ATTR_STRIDES, spatial, 1));
    IPU_TRY(check_ints(call, IPU_ATTR_DILATIONS, spatial, 1));
    IPU_TRY(check_ints(call, IPU_ATTR_PADDING, 2 * spatial, 0));
    ipu_convolution_of(call->attrs, x, w, c);
    REFUSE_IF(c->groups < 1 || c->groups >= MOST_STEP,
              "groups must be at least 1, but is %" PRId64, c->groups);
    int64_t channels = x->dims[ipu_conv_channels_axis(c)];
    REFUSE_IF(channels % c->groups != 0,
              "%" PRId64 " groups do not divide the %" PRId64
              " channels of the input of shape %s",
              c->groups, channels, IPU_SHAPE_TEXT(x));
    REFUSE_IF(c->filters % c->groups != 0,
              "%" PRId64 " groups do not divide the %" PRId64
              " results of the filters of shape %s",
              c->groups, c->filters, IPU_SHAPE_TEXT(w));
    REFUSE_IF(c->depth != channels / c->groups,
              "filters of shape %s are for %" PRId64
              " channels in each group, but the input of shape %s has %" PRId64
              " in each of %" PRId64 " (axis %d)",
              IPU_SHAPE_TEXT(w), c->depth, IPU_SHAPE_TEXT(x), channels / c->groups,
              c->groups, (int)ipu_conv_channels_axis(c));
    for (uint32_t i = 0; i < spatial; i++) {
        const ipu_conv_axis *axis = &c->axes[i];
        int64_t padded = axis->size + axis->low + axis->high;
        REFUSE_IF(axis->window < 1 || axis->window >= MOST_STEP,
                  "the window of the filters of shape %s is empty or too large",
                  IPU_SHAPE_TEXT(w));
        REFUSE_IF(axis->size > 0 && padded < ipu_conv_reach(axis),
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
    REFUSE_IF(!ipu_shape_equal(&result, y),
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
    REFUSE_IF(steps != NULL && count != call->input_count - 2,
              "steps has %u entries, but %u operands follow", count,
              call->input_count - 2);
    REFUSE_IF(call->input_count > 2 &&
                  ipu_attrs_int(call->attrs, IPU_ATTR_CHANNELS_FIRST, 0) != 0,
              "operands that follow need the channels last");
    for (uint32_t i = 0; i < call->input_count - 2; i++) {
        int64_t step = steps == NULL ? (int64_t)IPU_CONV_BIAS : steps[i];
        const ipu_shape *given = &call->inputs[2 + i].shape;
        REFUSE_IF(step < 0 || step >= (int64_t)IPU_CONV_STEP_COUNT,
                  "there is no step %" PRId64, step);
        REFUSE_IF(step == (int64_t)IPU_CONV_ADD ? !ipu_shape_equal(given, y)
                                                : !ipu_shape_is_last_axis(given, y),
                  "operand %u does not fit the result%s", i,
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
    REFUSE_IF(!ipu_shape_equal(&x, &like->shape),
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

/* --- pooling ---------------------------------------------------------------------- */

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
    REFUSE_IF(given != count, "%s has %u integers, but the input's axes need %u",
              ipu_attr_name(key), given, count);
    for (uint32_t i = 0; i < count; i++) {
        REFUSE_IF(ints[i] < least || ints[i] > INT32_MAX,
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
    REFUSE_IF(x->rank < 3 || x->rank > 2 + MOST_AXES,
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
        REFUSE_IF(low >= reach || high >= reach,
                  "padding of %" PRId64 " and %" PRId64 " at axis %u leaves windows "
                  "of %" PRId64 " empty; it must be smaller than the window",
                  low, high, i + 1, reach);
        REFUSE_IF(room < 0,
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

/* --- normalisation ---------------------------------------------------------------- */

/* The types of what is per channel and per group. */
static ipu_status
types_of(ipu_infer_call *call, ipu_type *channel, ipu_type *group)
{
    const ipu_type *x = &call->inputs[0];
    int64_t groups = ipu_attrs_int(call->attrs, IPU_ATTR_GROUPS, 1);
    REFUSE_IF(x->shape.rank != 3,
              "the input must be [outer, rows, channels], but has shape %s",
              IPU_SHAPE_TEXT(&x->shape));
    int64_t channels = x->shape.dims[2];
    REFUSE_IF(groups < 1 || groups > (channels == 0 ? 1 : channels),
              "Invalid groups %" PRId64 " for %" PRId64 " channels.", groups, channels);
    REFUSE_IF(channels % groups != 0,
              "%" PRId64 " channels is not commensurate with %" PRId64 " groups.",
              channels, groups);
    const int64_t dims[2] = {x->shape.dims[0], groups};
    ipu_dtype dtype =
        x->dtype == IPU_DTYPE_FLOAT64 ? IPU_DTYPE_FLOAT64 : IPU_DTYPE_FLOAT32;
    *channel = (ipu_type){dtype, ipu_shape_make(1, &channels)};
    *group = (ipu_type){dtype, ipu_shape_make(2, dims)};
    return IPU_OK;
}

ipu_status
ipu_infer_normalize(ipu_infer_call *call)
{
    ipu_type channel;
    ipu_type group;
    IPU_TRY(types_of(call, &channel, &group));
    IPU_TRY(ipu__infer_like(call, "the factor", 1, channel.dtype, &channel.shape));
    IPU_TRY(ipu__infer_like(call, "the shift", 2, channel.dtype, &channel.shape));
    call->outputs[0] = call->inputs[0];
    call->outputs[1] = group;
    call->outputs[2] = group;
    return IPU_OK;
}

ipu_status
ipu_infer_normalize_grad(ipu_infer_call *call)
{
    ipu_type channel;
    ipu_type group;
    IPU_TRY(types_of(call, &channel, &group));
    IPU_TRY(ipu__infer_like(call, "the gradient", 1, call->inputs[0].dtype,
                            &call->inputs[0].shape));
    IPU_TRY(ipu__infer_like(call, "the factor", 2, channel.dtype, &channel.shape));
    IPU_TRY(ipu__infer_like(call, "the mean", 3, group.dtype, &group.shape));
    IPU_TRY(ipu__infer_like(call, "the variance", 4, group.dtype, &group.shape));
    call->outputs[0] = call->inputs[0];
    call->outputs[1] = channel;
    call->outputs[2] = channel;
    return IPU_OK;
}
