/* SPDX-License-Identifier: MIT
 *
 * Shape rules of normalisation. */
#include "graph/infer.h"

#include <inttypes.h>

/* The types of what is per channel and per group. */
static ipu_status
types_of(ipu_infer_call *call, ipu_type *channel, ipu_type *group)
{
    const ipu_type *x = &call->inputs[0];
    int64_t groups = ipu_attrs_int(call->attrs, IPU_ATTR_GROUPS, 1);
    IPU_FAIL_IF(call->ctx, x->shape.rank != 3, INVALID_ARGUMENT,
                "the input must be [outer, rows, channels], but has shape %s",
                IPU_SHAPE_TEXT(&x->shape));
    int64_t channels = x->shape.dims[2];
    IPU_FAIL_IF(call->ctx, groups < 1 || groups > (channels == 0 ? 1 : channels),
                INVALID_ARGUMENT,
                "Invalid groups %" PRId64 " for %" PRId64 " channels.", groups,
                channels);
    IPU_FAIL_IF(call->ctx, channels % groups != 0, INVALID_ARGUMENT,
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
