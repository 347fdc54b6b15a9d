/* SPDX-License-Identifier: MIT
 *
 * Entry of type inference, and the rules of element-wise ops, products, reductions and
 * the softmax family. Rules of movement, random numbers, resources and control flow are
 * in infer_movement.c and infer_effects.c. */
#include "graph/infer.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

static ipu_infer_fn *const rules[] = {
#define IPU_OP(NAME, text, min_in, max_in, outputs, dtypes, shape, cost, flags) \
    ipu_infer_##shape,
#include "ops.def"
#undef IPU_OP
};

uint32_t
ipu_infer_most_outputs(const ipu_graph *graph, ipu_op op, ipu_attrs attrs,
                       uint32_t input_count)
{
    const ipu_op_info *info = ipu_op_info_of(op);
    const ipu_node_data node = {.op = op, .attrs = attrs};
    uint64_t resource = (uint64_t)ipu_attrs_int(attrs, IPU_ATTR_RESOURCE, -1);
    uint32_t most = input_count;
    if (info->outputs >= 0) {
        return (uint32_t)info->outputs;
    }
    if (resource < graph->resources.count) {
        return graph->resources.items[resource].type_count;
    }
    for (uint32_t k = 0; k < ipu_node_block_count(&node); k++) {
        ipu_block held = ipu_node_block(&node, k);
        if (held.index < graph->blocks.count &&
            ipu_block_of(graph, held)->results.count > most) {
            most = (uint32_t)ipu_block_of(graph, held)->results.count;
        }
    }
    return most;
}

static ipu_status
same_dtype(ipu_infer_call *call, const ipu_type *a, const ipu_type *b)
{
    IPU_FAIL_IF(call->ctx, a->dtype != b->dtype, TYPE,
                "the inputs must have one dtype, but got %s and %s; convert one with "
                "tf.cast",
                ipu_dtype_name(a->dtype), ipu_dtype_name(b->dtype));
    return IPU_OK;
}

/* Operands against the row's dtype rule; rules that say more in the user's terms have
 * looked before. */
static ipu_status
check_dtypes(ipu_infer_call *call)
{
    const ipu_type *own = NULL;
    for (uint32_t i = 0; i < call->input_count; i++) {
        const ipu_type *type = &call->inputs[i];
        char letter = ipu_op_dtype_letter(call->op, i);
        if (isupper(letter) && own != NULL) {
            IPU_TRY(same_dtype(call, own, type));
        }
        own = isupper(letter) ? type : own;
        IPU_FAIL_IF(call->ctx, !ipu_dtype_letter_allows(letter, type->dtype), TYPE,
                    "expected %s, but got %s", ipu_dtype_letter_name(letter),
                    ipu_dtype_name(type->dtype));
    }
    return IPU_OK;
}

ipu_status
ipu_infer(ipu_ctx *ctx, const ipu_graph *graph, ipu_op op, ipu_attrs attrs,
          const ipu_type *inputs, uint32_t input_count, ipu_type *outputs,
          uint32_t capacity, uint32_t *output_count)
{
    const ipu_op_info *info = ipu_op_info_of(op);
    IPU_FAIL_IF(ctx, (int64_t)input_count < info->min_inputs, INVALID_ARGUMENT,
                "the number of inputs is %u, and has to be at least %d", input_count,
                (int)info->min_inputs);
    IPU_FAIL_IF(ctx, info->max_inputs >= 0 && (int64_t)input_count > info->max_inputs,
                INVALID_ARGUMENT, "the number of inputs is %u, and can be at most %d",
                input_count, (int)info->max_inputs);
    ipu_infer_call call = {.ctx = ctx,
                           .graph = graph,
                           .op = op,
                           .attrs = attrs,
                           .inputs = inputs,
                           .input_count = input_count,
                           .outputs = outputs,
                           .capacity = capacity,
                           .output_count =
                               info->outputs < 0 ? 0 : (uint32_t)info->outputs};
    int64_t activation =
        ipu_attrs_int(attrs, IPU_ATTR_ACTIVATION, (int64_t)IPU_ACTIVATION_NONE);
    IPU_FAIL_IF(ctx, activation < 0 || activation > (int64_t)IPU_ACTIVATION_SIGMOID,
                INVALID_ARGUMENT, "there is no activation %" PRId64, activation);
    IPU_TRY(rules[op](&call));
    IPU_TRY(check_dtypes(&call));
    for (uint32_t i = 0; i < call.output_count; i++) {
        IPU_TRY(ipu_type_check(ctx, &outputs[i]));
    }
    *output_count = call.output_count;
    return IPU_OK;
}

ipu_status
ipu__infer_axis(ipu_infer_call *call, int32_t rank, int32_t *out)
{
    int64_t otherwise = call->op == IPU_OP_ID_ONE_HOT ? -1 : 0;
    int64_t axis = ipu_attrs_int(call->attrs, IPU_ATTR_AXIS, otherwise);
    REFUSE_IF(axis < -rank || axis >= rank,
              "axis %" PRId64 " is out of bounds for %" PRId32 " dimensions", axis,
              rank);
    *out = (int32_t)(axis < 0 ? axis + rank : axis);
    return IPU_OK;
}

ipu_status
ipu__infer_shape(ipu_infer_call *call, ipu_shape *out)
{
    uint32_t count;
    const int64_t *dims = ipu_attrs_ints(call->attrs, IPU_ATTR_SHAPE, &count);
    REFUSE_IF(count > IPU_MAX_RANK,
              "a shape of %u dimensions; at most %d are supported", count,
              IPU_MAX_RANK);
    *out = ipu_shape_make((int32_t)count, dims);
    for (uint32_t i = 0; i < count; i++) {
        REFUSE_IF(dims[i] < 0, "dimension %" PRId64 " of a shape is negative", dims[i]);
    }
    return IPU_OK;
}

ipu_status
ipu__infer_like(ipu_infer_call *call, const char *what, uint32_t i, ipu_dtype dtype,
                const ipu_shape *shape)
{
    const ipu_type type = {dtype, *shape};
    REFUSE_IF(!ipu_type_equal(&call->inputs[i], &type), "%s must be %s, but is %s",
              what, IPU_TYPE_TEXT(&type), IPU_TYPE_TEXT(&call->inputs[i]));
    return IPU_OK;
}

/* --- element-wise ---------------------------------------------------------------- */

static ipu_status
broadcast_into(ipu_infer_call *call, const ipu_type *type, ipu_shape *shape)
{
    ipu_shape before = *shape;
    REFUSE_IF(!ipu_shape_broadcast(&before, &type->shape, shape),
              "shapes %s and %s do not broadcast", IPU_SHAPE_TEXT(&before),
              IPU_SHAPE_TEXT(&type->shape));
    return IPU_OK;
}

/* The shape is that of all operands broadcast, the dtype what the row's rule says: the
 * op's own, bool, or of a cast that of its attribute. */
ipu_status
ipu_infer_elementwise(ipu_infer_call *call)
{
    ipu_type *result = call->outputs;
    *result = call->inputs[0];
    for (uint32_t i = 0; i < call->input_count; i++) {
        if (isupper(ipu_op_dtype_letter(call->op, i))) {
            result->dtype = call->inputs[i].dtype;
        }
        IPU_TRY(broadcast_into(call, &call->inputs[i], &result->shape));
    }
    const char *letter = strchr(ipu_op_info_of(call->op)->dtypes, ':') + 1;
    int64_t dtype = ipu_attrs_int(call->attrs, IPU_ATTR_DTYPE, -1);
    if (*letter == 'a') {
        REFUSE_IF(dtype < 0 || dtype >= IPU_DTYPE_COUNT,
                  "the attribute dtype is missing");
        result->dtype = (ipu_dtype)dtype;
    } else if (*letter == 'b') {
        result->dtype = IPU_DTYPE_BOOL;
    }
    return IPU_OK;
}

ipu_status
ipu_infer_fused_elementwise(ipu_infer_call *call)
{
    uint32_t count;
    const int64_t *code = ipu_attrs_ints(call->attrs, IPU_ATTR_CODE, &count);
    REFUSE_IF(count == 0 || count % IPU_FUSED_WORDS != 0 ||
                  count / IPU_FUSED_WORDS > IPU_FUSED_MAX_INSTRUCTIONS ||
                  call->input_count > IPU_FUSED_MAX_INPUTS,
              "fused_elementwise has %u words of code, %u inputs", count,
              call->input_count);
    ipu_type type = {.shape = ipu_shape_scalar()};
    for (uint32_t i = 0; i < call->input_count; i++) {
        IPU_TRY(broadcast_into(call, &call->inputs[i], &type.shape));
    }
    for (uint32_t i = 0; i < count; i += IPU_FUSED_WORDS) {
        int64_t limit = (int64_t)(call->input_count + i / IPU_FUSED_WORDS);
        bool bad = code[i] < 0 || code[i] >= IPU_OP_ID_COUNT || code[i + 1] < 0 ||
                   code[i + 1] >= IPU_DTYPE_COUNT;
        for (uint32_t operand = 2; operand < IPU_FUSED_WORDS; operand++) {
            bad = bad || code[i + operand] < -1 || code[i + operand] >= limit;
        }
        REFUSE_IF(bad || !(ipu_op_info_of((ipu_op)code[i])->flags & IPU_OP_ELEMENTWISE),
                  "instruction %u of the fused chain is malformed",
                  i / IPU_FUSED_WORDS);
        type.dtype = (ipu_dtype)code[i + 1];
    }
    call->outputs[0] = type;
    return IPU_OK;
}

/* --- products -------------------------------------------------------------------- */

ipu_status
ipu_infer_matmul(ipu_infer_call *call)
{
    const ipu_type *a = &call->inputs[0];
    const ipu_type *b = &call->inputs[1];
    REFUSE_IF(a->shape.rank < 2 || b->shape.rank < 2,
              "both inputs need at least two dimensions, but got shapes %s and %s",
              IPU_SHAPE_TEXT(&a->shape), IPU_SHAPE_TEXT(&b->shape));
    bool transpose_a = ipu_attrs_int(call->attrs, IPU_ATTR_TRANSPOSE_A, 0) != 0;
    bool transpose_b = ipu_attrs_int(call->attrs, IPU_ATTR_TRANSPOSE_B, 0) != 0;
    const int64_t *da = &a->shape.dims[a->shape.rank - 2];
    const int64_t *db = &b->shape.dims[b->shape.rank - 2];
    int64_t inner_a = transpose_a ? da[0] : da[1];
    int64_t inner_b = transpose_b ? db[1] : db[0];
    REFUSE_IF(inner_a != inner_b,
              "matrix shapes %s%s and %s%s do not fit: %" PRId64
              " columns meet %" PRId64 " rows",
              IPU_SHAPE_TEXT(&a->shape), transpose_a ? " (transposed)" : "",
              IPU_SHAPE_TEXT(&b->shape), transpose_b ? " (transposed)" : "", inner_a,
              inner_b);
    ipu_shape batch_a = ipu_shape_make(a->shape.rank - 2, a->shape.dims);
    ipu_shape batch_b = ipu_shape_make(b->shape.rank - 2, b->shape.dims);
    ipu_type type = {.dtype = a->dtype};
    REFUSE_IF(!ipu_shape_broadcast(&batch_a, &batch_b, &type.shape),
              "the leading dimensions of %s and %s do not broadcast",
              IPU_SHAPE_TEXT(&a->shape), IPU_SHAPE_TEXT(&b->shape));
    type.shape.dims[type.shape.rank] = transpose_a ? da[1] : da[0];
    type.shape.dims[type.shape.rank + 1] = transpose_b ? db[0] : db[1];
    type.shape.rank += 2;
    call->outputs[0] = type;
    return IPU_OK;
}

ipu_status
ipu_infer_fused_matmul(ipu_infer_call *call)
{
    IPU_TRY(ipu_infer_matmul(call));
    int64_t activation = ipu_attrs_int(call->attrs, IPU_ATTR_ACTIVATION, 0);
    REFUSE_IF(activation > IPU_ACTIVATION_RELU &&
                  !ipu_dtype_is_float(call->outputs[0].dtype),
              "its activation is one of floats, but the product is %s",
              IPU_TYPE_TEXT(&call->outputs[0]));
    if (call->input_count == 3) {
        const ipu_type *bias = &call->inputs[2];
        const ipu_shape *shape = &call->outputs[0].shape;
        REFUSE_IF(bias->shape.rank != 1 ||
                      bias->shape.dims[0] != shape->dims[shape->rank - 1],
                  "the bias does not fit the product's last axis");
    }
    return IPU_OK;
}

ipu_status
ipu_infer_matmul_accumulate(ipu_infer_call *call)
{
    const ipu_type *accumulator = &call->inputs[0];
    ipu_infer_call product = *call;
    product.inputs = &call->inputs[1];
    IPU_TRY(ipu_infer_matmul(&product));
    REFUSE_IF(!ipu_type_equal(accumulator, &call->outputs[0]),
              "the accumulator is %s, but the product is %s",
              IPU_TYPE_TEXT(accumulator), IPU_TYPE_TEXT(&call->outputs[0]));
    return IPU_OK;
}

/* --- reductions ------------------------------------------------------------------ */

ipu_status
ipu_infer_reduce(ipu_infer_call *call)
{
    uint32_t count;
    const int64_t *axes = ipu_attrs_ints(call->attrs, IPU_ATTR_AXES, &count);
    bool keep = ipu_attrs_int(call->attrs, IPU_ATTR_KEEP_DIMS, 0) != 0;
    const ipu_shape *shape = &call->inputs[0].shape;
    bool reduced[IPU_MAX_RANK] = {false};
    for (uint32_t i = 0; i < count; i++) {
        REFUSE_IF(axes[i] < 0 || axes[i] >= shape->rank,
                  "axis %" PRId64 " is out of bounds for %" PRId32 " dimensions",
                  axes[i], shape->rank);
        REFUSE_IF(i > 0 && axes[i] <= axes[i - 1],
                  "the axes must be sorted and each named once");
        reduced[axes[i]] = true;
    }
    ipu_type type = {.dtype = call->inputs[0].dtype};
    for (int32_t i = 0; i < shape->rank; i++) {
        if (!reduced[i] || keep) {
            type.shape.dims[type.shape.rank++] = reduced[i] ? 1 : shape->dims[i];
        }
    }
    call->outputs[0] = type;
    return IPU_OK;
}

ipu_status
ipu_infer_reduce_extreme(ipu_infer_call *call)
{
    IPU_TRY(ipu_infer_reduce(call));
    REFUSE_IF(ipu_shape_elements(&call->inputs[0].shape) == 0 &&
                  ipu_shape_elements(&call->outputs[0].shape) != 0,
              "the largest or least of no elements (shape %s)",
              IPU_SHAPE_TEXT(&call->inputs[0].shape));
    return IPU_OK;
}

ipu_status
ipu_infer_place(ipu_infer_call *call)
{
    const ipu_shape *shape = &call->inputs[0].shape;
    int32_t axis = 0;
    IPU_TRY(ipu__infer_axis(call, shape->rank, &axis));
    REFUSE_IF(shape->dims[axis] == 0,
              "the place of the largest or least over an axis without elements");
    ipu_type type = {.dtype = (ipu_dtype)ipu_attrs_int(call->attrs, IPU_ATTR_DTYPE,
                                                       IPU_DTYPE_INT32)};
    IPU_FAIL_IF(call->ctx,
                type.dtype != IPU_DTYPE_INT32 && type.dtype != IPU_DTYPE_INT64, TYPE,
                "the place is int32 or int64, not %s", ipu_dtype_name(type.dtype));
    for (int32_t i = 0; i < shape->rank; i++) {
        if (i != axis) {
            type.shape.dims[type.shape.rank++] = shape->dims[i];
        }
    }
    call->outputs[0] = type;
    return IPU_OK;
}

/* --- softmax family -------------------------------------------------------------- */

ipu_status
ipu_infer_softmax(ipu_infer_call *call)
{
    REFUSE_IF(call->inputs[0].shape.rank < 1, "softmax needs at least one dimension");
    call->outputs[0] = call->inputs[0];
    return IPU_OK;
}

static void
loss_outputs(ipu_infer_call *call)
{
    const ipu_type *logits = &call->inputs[0];
    call->outputs[0] = (ipu_type){
        logits->dtype, ipu_shape_make(logits->shape.rank - 1, logits->shape.dims)};
    call->outputs[1] = *logits;
}

ipu_status
ipu_infer_sparse_cross_entropy(ipu_infer_call *call)
{
    IPU_TRY(ipu_infer_softmax(call));
    const ipu_type *labels = &call->inputs[1];
    IPU_FAIL_IF(call->ctx, !ipu_dtype_letter_allows('i', labels->dtype), TYPE,
                "expected integer labels, but got %s", ipu_dtype_name(labels->dtype));
    loss_outputs(call);
    REFUSE_IF(!ipu_shape_equal(&labels->shape, &call->outputs[0].shape),
              "logits of shape %s need labels of that shape without its last axis, but "
              "got labels of shape %s",
              IPU_SHAPE_TEXT(&call->inputs[0].shape), IPU_SHAPE_TEXT(&labels->shape));
    return IPU_OK;
}

ipu_status
ipu_infer_cross_entropy(ipu_infer_call *call)
{
    IPU_TRY(ipu_infer_softmax(call));
    REFUSE_IF(!ipu_type_equal(&call->inputs[0], &call->inputs[1]),
              "logits %s and labels %s must be of one type",
              IPU_TYPE_TEXT(&call->inputs[0]), IPU_TYPE_TEXT(&call->inputs[1]));
    loss_outputs(call);
    return IPU_OK;
}
