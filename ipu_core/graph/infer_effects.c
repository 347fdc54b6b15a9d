/* SPDX-License-Identifier: MIT
 *
 * Shape rules of ops on variables, queues and other replicas. */
#include "base/update_code.h"
#include "graph/infer.h"

#include <inttypes.h>

static ipu_status
resource_of(ipu_infer_call *call, int64_t index, ipu_resource_kind kind,
            const ipu_resource **out)
{
    IPU_FAIL_IF(call->ctx,
                call->graph == NULL || index < 0 ||
                    (uint64_t)index >= call->graph->resources.count ||
                    call->graph->resources.items[index].kind != kind,
                INTERNAL, "%s names resource %" PRId64 ", which is none of its kind",
                ipu_op_info_of(call->op)->name, index);
    *out = &call->graph->resources.items[index];
    return IPU_OK;
}

static ipu_status
variable_of(ipu_infer_call *call, const ipu_resource **out)
{
    return resource_of(call, ipu_attrs_int(call->attrs, IPU_ATTR_RESOURCE, -1),
                       IPU_RESOURCE_VARIABLE, out);
}

static ipu_status
fits_variable(ipu_infer_call *call, const ipu_resource *variable, const ipu_type *type,
              const char *what)
{
    REFUSE_IF(!ipu_type_equal(&variable->types[0], type),
              "variable '%s' is %s, but the %s is %s",
              variable->name == NULL ? "" : variable->name,
              IPU_TYPE_TEXT(&variable->types[0]), what, IPU_TYPE_TEXT(type));
    return IPU_OK;
}

ipu_status
ipu_infer_variable_read(ipu_infer_call *call)
{
    const ipu_resource *variable = NULL;
    IPU_TRY(variable_of(call, &variable));
    call->outputs[0] = variable->types[0];
    return IPU_OK;
}

ipu_status
ipu_infer_variable_assign(ipu_infer_call *call)
{
    const ipu_resource *variable = NULL;
    IPU_TRY(variable_of(call, &variable));
    return fits_variable(call, variable, &call->inputs[0], "value");
}

static ipu_status
is_rate(ipu_infer_call *call, const ipu_type *rate)
{
    IPU_FAIL_IF(call->ctx, rate->dtype != IPU_DTYPE_FLOAT32 || rate->shape.rank, TYPE,
                "the learning rate must be a float32 scalar");
    return IPU_OK;
}

/* `gradient` is what updates the variable, `rate` the learning rate. */
static ipu_status
update(ipu_infer_call *call, const ipu_type *gradient, const ipu_type *rate,
       uint32_t fewest_slots, uint32_t most_slots)
{
    const ipu_resource *variable = NULL;
    uint32_t slot_count;
    const int64_t *slots = ipu_attrs_ints(call->attrs, IPU_ATTR_SLOTS, &slot_count);
    IPU_TRY(variable_of(call, &variable));
    IPU_FAIL_IF(call->ctx, !ipu_dtype_is_float(variable->types[0].dtype), TYPE,
                "variable '%s' is %s, which no optimizer updates",
                variable->name == NULL ? "" : variable->name,
                ipu_dtype_name(variable->types[0].dtype));
    IPU_TRY(fits_variable(call, variable, gradient, "gradient"));
    IPU_TRY(is_rate(call, rate));
    IPU_FAIL_IF(call->ctx, slot_count < fewest_slots || slot_count > most_slots,
                INTERNAL, "an update with %u slots", slot_count);
    for (uint32_t i = 0; i < slot_count; i++) {
        const ipu_resource *slot = NULL;
        IPU_TRY(resource_of(call, slots[i], IPU_RESOURCE_VARIABLE, &slot));
        REFUSE_IF(!ipu_type_equal(&slot->types[0], &variable->types[0]),
                  "a slot of '%s' differs from it in type",
                  variable->name == NULL ? "" : variable->name);
    }
    return IPU_OK;
}

ipu_status
ipu_infer_sgd_update(ipu_infer_call *call)
{
    return update(call, &call->inputs[0], &call->inputs[1], 0, 1);
}

/* By a gradient that the first two inputs give. */
static ipu_status
update_by(ipu_infer_call *call, ipu_infer_fn *infer_gradient)
{
    ipu_type gradient;
    ipu_infer_call inner = *call;
    inner.outputs = &gradient;
    inner.capacity = 1;
    IPU_TRY(infer_gradient(&inner));
    return update(call, &gradient, &call->inputs[2], 0, 1);
}

ipu_status
ipu_infer_matmul_sgd_update(ipu_infer_call *call)
{
    return update_by(call, ipu_infer_matmul);
}

ipu_status
ipu_infer_gather_sgd_update(ipu_infer_call *call)
{
    return update_by(call, ipu_infer_gather_grad);
}

static ipu_status
is_step(ipu_infer_call *call, const ipu_type *step)
{
    IPU_FAIL_IF(call->ctx, step->dtype != IPU_DTYPE_INT32 || step->shape.rank, TYPE,
                "the step must be an int32 scalar");
    return IPU_OK;
}

ipu_status
ipu_infer_adam_rate(ipu_infer_call *call)
{
    const ipu_type *rate = &call->inputs[0];
    int64_t dtype = ipu_attrs_int(call->attrs, IPU_ATTR_DTYPE, IPU_DTYPE_FLOAT32);
    IPU_TRY(is_rate(call, rate));
    IPU_TRY(is_step(call, &call->inputs[1]));
    IPU_FAIL_IF(call->ctx,
                dtype < 0 || dtype >= IPU_DTYPE_COUNT ||
                    !ipu_dtype_is_float((ipu_dtype)dtype),
                TYPE, "adam_rate needs a float dtype");
    call->outputs[0] =
        (ipu_type){.dtype = (ipu_dtype)dtype, .shape = ipu_shape_scalar()};
    return IPU_OK;
}

ipu_status
ipu_infer_adam_update(ipu_infer_call *call)
{
    IPU_TRY(is_step(call, &call->inputs[2]));
    return update(call, &call->inputs[0], &call->inputs[1], 2, 2);
}

ipu_status
ipu_infer_fused_update(ipu_infer_call *call)
{
    uint32_t slot_count;
    uint32_t words;
    const int64_t *slots = ipu_attrs_ints(call->attrs, IPU_ATTR_SLOTS, &slot_count);
    const int64_t *code = ipu_attrs_ints(call->attrs, IPU_ATTR_CODE, &words);
    size_t bytes = (slot_count + (size_t)1) * sizeof(ipu_type);
    ipu_type *types;
    const ipu_resource *variable = NULL;
    IPU_TRY(ipu_alloc(call->ctx, bytes, &types));
    ipu_status status = variable_of(call, &variable);
    for (uint32_t i = 0; status == IPU_OK && i <= slot_count; i++) {
        types[i] = variable->types[0];
        if (i < slot_count) {
            status = resource_of(call, slots[i], IPU_RESOURCE_VARIABLE, &variable);
        }
    }
    if (status == IPU_OK) {
        status = ipu_update_check(call->ctx, code, words, call->inputs,
                                  call->input_count, types, slot_count + 1);
    }
    ipu_free(call->ctx, types, bytes);
    return status;
}

ipu_status
ipu_infer_infeed_dequeue(ipu_infer_call *call)
{
    const ipu_resource *queue = NULL;
    IPU_TRY(resource_of(call, ipu_attrs_int(call->attrs, IPU_ATTR_RESOURCE, -1),
                        IPU_RESOURCE_INFEED, &queue));
    REFUSE_IF(queue->type_count > call->capacity,
              "an element of %u components; at most %u are supported",
              queue->type_count, call->capacity);
    call->output_count = queue->type_count;
    ipu_copy_bytes(call->outputs, queue->types, queue->type_count * sizeof(ipu_type));
    return IPU_OK;
}

ipu_status
ipu_infer_outfeed_enqueue(ipu_infer_call *call)
{
    const ipu_resource *queue = NULL;
    IPU_TRY(resource_of(call, ipu_attrs_int(call->attrs, IPU_ATTR_RESOURCE, -1),
                        IPU_RESOURCE_OUTFEED, &queue));
    REFUSE_IF(queue->type_count != call->input_count,
              "the outfeed takes %u tensors, but got %u", queue->type_count,
              call->input_count);
    for (uint32_t i = 0; i < queue->type_count; i++) {
        REFUSE_IF(!ipu_type_equal(&queue->types[i], &call->inputs[i]),
                  "tensor %u of the outfeed is %s, but got %s", i,
                  IPU_TYPE_TEXT(&queue->types[i]), IPU_TYPE_TEXT(&call->inputs[i]));
    }
    return IPU_OK;
}

ipu_status
ipu_infer_host_call(ipu_infer_call *call)
{
    const ipu_resource *host = NULL;
    IPU_TRY(resource_of(call, ipu_attrs_int(call->attrs, IPU_ATTR_RESOURCE, -1),
                        IPU_RESOURCE_HOST, &host));
    uint32_t count = call->input_count;
    IPU_FAIL_IF(call->ctx,
                count > host->type_count || host->type_count - count > call->capacity,
                INVALID_ARGUMENT,
                "%u operands of a function of %u types; at most %u "
                "results are supported",
                count, host->type_count, call->capacity);
    for (uint32_t i = 0; i < count; i++) {
        IPU_FAIL_IF(call->ctx, !ipu_type_equal(&host->types[i], &call->inputs[i]),
                    INVALID_ARGUMENT, "operand %u of the function is %s, but got %s", i,
                    IPU_TYPE_TEXT(&host->types[i]), IPU_TYPE_TEXT(&call->inputs[i]));
    }
    call->output_count = host->type_count - count;
    for (uint32_t i = 0; i < call->output_count; i++) {
        call->outputs[i] = host->types[count + i];
    }
    return IPU_OK;
}

/* --- replicas --------------------------------------------------------------------- */

ipu_status
ipu_infer_replica_index(ipu_infer_call *call)
{
    call->outputs[0] = (ipu_type){.dtype = IPU_DTYPE_INT32};
    return IPU_OK;
}

/* How many replicas there are is known when a program is run, so whether a group size
 * fits is for the engine to say. */
static ipu_status
check_reduction(const ipu_infer_call *call)
{
    int64_t reduction =
        ipu_attrs_int(call->attrs, IPU_ATTR_REDUCTION, IPU_ALL_REDUCE_SUM);
    ipu_dtype dtype = call->inputs[0].dtype;
    IPU_FAIL_IF(call->ctx, reduction < 0 || reduction >= IPU_ALL_REDUCE_COUNT, INTERNAL,
                "reduction %" PRId64 " over replicas", reduction);
    IPU_FAIL_IF(call->ctx,
                reduction == IPU_ALL_REDUCE_MEAN && !ipu_dtype_is_float(dtype), TYPE,
                "a mean over replicas needs a floating-point input, but got %s",
                ipu_dtype_name(dtype));
    return IPU_OK;
}

ipu_status
ipu_infer_all_reduce(ipu_infer_call *call)
{
    int64_t group = ipu_attrs_int(call->attrs, IPU_ATTR_GROUP_SIZE, 0);
    IPU_TRY(check_reduction(call));
    IPU_FAIL_IF(call->ctx, group < 0 || group > INT32_MAX, VALUE,
                "replica_group_size must be positive, but got %" PRId64, group);
    call->outputs[0] = call->inputs[0];
    return IPU_OK;
}

/* How many replicas have a part in what they exchange. */
static ipu_status
find_parts(const ipu_infer_call *call, int64_t *group)
{
    *group = ipu_attrs_int(call->attrs, IPU_ATTR_GROUP_SIZE, 0);
    IPU_FAIL_IF(call->ctx, *group < 1 || *group > INT32_MAX, VALUE,
                "replication_factor must be positive, but got %" PRId64, *group);
    return IPU_OK;
}

ipu_status
ipu_infer_all_gather(ipu_infer_call *call)
{
    ipu_type *result = &call->outputs[0];
    const ipu_shape *own = &call->inputs[0].shape;
    int64_t group;
    IPU_TRY(find_parts(call, &group));
    REFUSE_IF(own->rank >= IPU_MAX_RANK,
              "the input has %d axes, and at most %d can be gathered", own->rank,
              IPU_MAX_RANK - 1);
    *result = (ipu_type){.dtype = call->inputs[0].dtype};
    result->shape.rank = own->rank + 1;
    result->shape.dims[0] = group;
    for (int32_t i = 0; i < own->rank; i++) {
        result->shape.dims[i + 1] = own->dims[i];
    }
    return IPU_OK;
}

ipu_status
ipu_infer_all_to_all(ipu_infer_call *call)
{
    const ipu_type *own = &call->inputs[0];
    int64_t group;
    IPU_TRY(find_parts(call, &group));
    REFUSE_IF(own->shape.rank == 0 || own->shape.dims[0] != group,
              "axis 0 of the input must have a part for each of %" PRId64
              " replicas, but it is %s",
              group, IPU_TYPE_TEXT(own));
    call->outputs[0] = *own;
    return IPU_OK;
}

ipu_status
ipu_infer_reduce_scatter(ipu_infer_call *call)
{
    ipu_type *result = &call->outputs[0];
    IPU_TRY(check_reduction(call));
    IPU_TRY(ipu_infer_all_to_all(call));
    result->shape.rank--;
    for (int32_t i = 0; i < result->shape.rank; i++) {
        result->shape.dims[i] = call->inputs[0].shape.dims[i + 1];
    }
    return IPU_OK;
}
