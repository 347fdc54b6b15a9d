/* SPDX-License-Identifier: MIT
 *
 * Type rules of what depends on the other replicas. How many there are is known when a
 * program is run, so whether a group size fits is for the engine to say. */
#include "graph/infer.h"

#include <inttypes.h>

ipu_status
ipu_infer_replica_index(ipu_infer_call *call)
{
    call->outputs[0] = (ipu_type){.dtype = IPU_DTYPE_INT32};
    return IPU_OK;
}

ipu_status
ipu_infer_all_reduce(ipu_infer_call *call)
{
    int64_t reduction =
        ipu_attrs_int(call->attrs, IPU_ATTR_REDUCTION, IPU_ALL_REDUCE_SUM);
    int64_t group = ipu_attrs_int(call->attrs, IPU_ATTR_GROUP_SIZE, 0);
    ipu_dtype dtype = call->inputs[0].dtype;
    IPU_FAIL_IF(call->ctx, reduction < 0 || reduction >= IPU_ALL_REDUCE_COUNT, INTERNAL,
                "reduction %" PRId64 " over replicas", reduction);
    IPU_FAIL_IF(call->ctx, group < 0 || group > INT32_MAX, VALUE,
                "replica_group_size must be positive, but got %" PRId64, group);
    IPU_FAIL_IF(call->ctx,
                reduction == IPU_ALL_REDUCE_MEAN && !ipu_dtype_is_float(dtype), TYPE,
                "a mean over replicas needs a floating-point input, but got %s",
                ipu_dtype_name(dtype));
    call->outputs[0] = call->inputs[0];
    return IPU_OK;
}
