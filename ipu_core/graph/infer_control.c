/* SPDX-License-Identifier: MIT
 *
 * Shape rules of the ops that hold blocks. A loop's carried values keep their types
 * from the initial value through the parameter to what the body gives; the branches of
 * a switch agree with each other. */
#include "graph/infer.h"

#include <inttypes.h>

static ipu_status
block_at(ipu_infer_call *call, int64_t index, const char *what,
         const ipu_block_data **out)
{
    IPU_FAIL_IF(call->ctx,
                call->graph == NULL || index < 0 ||
                    (uint64_t)index >= call->graph->blocks.count,
                INTERNAL, "%s has no %s", ipu_op_info_of(call->op)->name, what);
    *out = &call->graph->blocks.items[index];
    return IPU_OK;
}

static const ipu_type *
type_in(const ipu_infer_call *call, ipu_value value)
{
    return &ipu_value_of(call->graph, value)->type;
}

static ipu_status
check_room(ipu_infer_call *call, size_t count, const char *what)
{
    REFUSE_IF(count > call->capacity, "%zu values %s; at most %u are supported", count,
              what, call->capacity);
    call->output_count = (uint32_t)count;
    return IPU_OK;
}

/* The body of a loop; `first` is the input that holds the first carried value. */
static ipu_status
infer_body(ipu_infer_call *call, uint32_t first)
{
    const ipu_block_data *body = NULL;
    uint32_t carried = call->input_count - first;
    IPU_TRY(
        block_at(call, ipu_attrs_int(call->attrs, IPU_ATTR_BODY, -1), "body", &body));
    IPU_TRY(check_room(call, carried, "carried around a loop"));
    REFUSE_IF(body->params.count != carried || body->results.count != carried,
              "a loop that carries %u values, whose body takes %zu and gives %zu",
              carried, body->params.count, body->results.count);
    for (uint32_t i = 0; i < carried; i++) {
        const ipu_type *initial = &call->inputs[first + i];
        const ipu_type *param = type_in(call, body->params.items[i]);
        const ipu_type *result = type_in(call, body->results.items[i]);
        REFUSE_IF(!ipu_type_equal(param, initial) || !ipu_type_equal(param, result),
                  "value %u carried around a loop must keep its type: it enters as %s "
                  "and leaves as %s",
                  i, IPU_TYPE_TEXT(initial), IPU_TYPE_TEXT(result));
        call->outputs[i] = *param;
    }
    return IPU_OK;
}

static ipu_status
check_maximum(ipu_infer_call *call)
{
    int64_t maximum = ipu_attrs_int(call->attrs, IPU_ATTR_MAXIMUM_ITERATIONS, -1);
    REFUSE_IF(maximum < -1 || maximum > INT32_MAX,
              "maximum_iterations is %" PRId64
              "; it must lie between 0 and 2^31 - 1, or be -1 for no bound",
              maximum);
    return IPU_OK;
}

static ipu_status
check_int32_scalar(ipu_infer_call *call, const char *what)
{
    IPU_FAIL_IF(call->ctx,
                call->inputs[0].dtype != IPU_DTYPE_INT32 || call->inputs[0].shape.rank,
                TYPE, "the %s must be an int32 scalar, but got %s", what,
                IPU_TYPE_TEXT(&call->inputs[0]));
    return IPU_OK;
}

ipu_status
ipu_infer_repeat(ipu_infer_call *call)
{
    IPU_TRY(check_int32_scalar(call, "trip count"));
    IPU_TRY(check_maximum(call));
    return infer_body(call, 1);
}

/* Checks the lists of a pipeline that have an entry for each stage. */
static ipu_status
check_stages(ipu_infer_call *call)
{
    uint32_t count;
    uint32_t position_count;
    uint32_t mode_count;
    const int64_t *devices = ipu_attrs_ints(call->attrs, IPU_ATTR_DEVICES, &count);
    const int64_t *positions =
        ipu_attrs_ints(call->attrs, IPU_ATTR_POSITIONS, &position_count);
    const int64_t *modes = ipu_attrs_ints(call->attrs, IPU_ATTR_RECOMPUTE, &mode_count);
    for (uint32_t i = 0; i < count; i++) {
        REFUSE_IF(devices[i] < 0 || devices[i] > INT16_MAX,
                  "stage %u is mapped to IPU %" PRId64, i, devices[i]);
    }
    IPU_FAIL_IF(call->ctx,
                count > 0 && ipu_attrs_find(call->attrs, IPU_ATTR_SCHEDULE) == NULL,
                INTERNAL, "a pipeline of %u stages has no schedule", count);
    IPU_FAIL_IF(call->ctx, position_count != 0 && position_count != count, INTERNAL,
                "a pipeline of %u stages has %u positions", count, position_count);
    for (uint32_t i = 0; i < position_count; i++) {
        REFUSE_IF(positions[i] < 0 || positions[i] >= count,
                  "stage %u stands at position %" PRId64 " of a pipeline of %u stages",
                  i, positions[i], count);
    }
    IPU_FAIL_IF(call->ctx, count > 0 && mode_count != 0 && mode_count != count,
                INTERNAL, "a pipeline of %u stages says of %u what they recompute",
                count, mode_count);
    for (uint32_t i = 0; i < mode_count; i++) {
        REFUSE_IF(modes[i] < 0 || modes[i] > 2,
                  "stage %u recomputes in the unknown mode %" PRId64, i, modes[i]);
    }
    return IPU_OK;
}

ipu_status
ipu_infer_pipeline(ipu_infer_call *call)
{
    IPU_TRY(check_int32_scalar(call, "number of micro-batches"));
    IPU_TRY(check_stages(call));
    return infer_body(call, 1);
}

ipu_status
ipu_infer_while(ipu_infer_call *call)
{
    const ipu_block_data *condition = NULL;
    IPU_TRY(check_maximum(call));
    IPU_TRY(infer_body(call, 0));
    IPU_TRY(block_at(call, ipu_attrs_int(call->attrs, IPU_ATTR_CONDITION, -1),
                     "condition", &condition));
    REFUSE_IF(condition->params.count != call->input_count,
              "a loop that carries %u values, whose condition takes %zu",
              call->input_count, condition->params.count);
    for (uint32_t i = 0; i < call->input_count; i++) {
        const ipu_type *param = type_in(call, condition->params.items[i]);
        REFUSE_IF(!ipu_type_equal(param, &call->inputs[i]),
                  "carried value %u is %s, but the condition takes %s", i,
                  IPU_TYPE_TEXT(&call->inputs[i]), IPU_TYPE_TEXT(param));
    }
    REFUSE_IF(condition->results.count != 1,
              "the condition gives %zu values instead of one bool",
              condition->results.count);
    const ipu_type *result = type_in(call, condition->results.items[0]);
    IPU_FAIL_IF(call->ctx, result->dtype != IPU_DTYPE_BOOL || result->shape.rank != 0,
                TYPE, "the condition must give a bool scalar, but gives %s",
                IPU_TYPE_TEXT(result));
    return IPU_OK;
}

ipu_status
ipu_infer_switch(ipu_infer_call *call)
{
    uint32_t count;
    const int64_t *branches = NULL;
    const ipu_attr *attr = ipu_attrs_find(call->attrs, IPU_ATTR_BRANCHES);
    IPU_TRY(check_int32_scalar(call, "branch index"));
    count = attr == NULL ? 0 : attr->count;
    branches = attr == NULL ? NULL : attr->as.ints;
    REFUSE_IF(count == 0, "there is no branch");
    for (uint32_t i = 0; i < count; i++) {
        const ipu_block_data *branch = NULL;
        IPU_TRY(block_at(call, branches[i], "such branch", &branch));
        REFUSE_IF(branch->params.count != 0, "branch %u has parameters", i);
        if (i == 0) {
            IPU_TRY(check_room(call, branch->results.count, "from a branch"));
        }
        REFUSE_IF(branch->results.count != call->output_count,
                  "branch %u gives %zu values, but branch 0 gives %u", i,
                  branch->results.count, call->output_count);
        for (uint32_t k = 0; k < call->output_count; k++) {
            const ipu_type *type = type_in(call, branch->results.items[k]);
            if (i == 0) {
                call->outputs[k] = *type;
            }
            REFUSE_IF(!ipu_type_equal(type, &call->outputs[k]),
                      "result %u is %s in branch %u, but %s in branch 0", k,
                      IPU_TYPE_TEXT(type), i, IPU_TYPE_TEXT(&call->outputs[k]));
        }
    }
    return IPU_OK;
}
