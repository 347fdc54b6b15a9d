/* SPDX-License-Identifier: MIT
 *
 * Shape rules of attention and its gradient. */
#include "graph/infer.h"

#include <inttypes.h>

/* The operand has rank 4, and its axes are those of `like` but for the ones that `free`
 * names by bits. */
static ipu_status
expect(ipu_infer_call *call, uint32_t i, const char *what, const ipu_shape *like,
       uint32_t free)
{
    const ipu_shape *got = &call->inputs[i].shape;
    IPU_FAIL_IF(call->ctx, got->rank != 4, INVALID_ARGUMENT,
                "%s must be [batch, heads, steps, size], but has shape %s", what,
                IPU_SHAPE_TEXT(got));
    for (int32_t d = 0; d < 4; d++) {
        IPU_FAIL_IF(
            call->ctx, (free >> d & 1) == 0 && got->dims[d] != like->dims[d],
            INVALID_ARGUMENT,
            "%s has shape %s, whose axis %d must be %" PRId64 " to go with shape %s",
            what, IPU_SHAPE_TEXT(got), (int)d, like->dims[d], IPU_SHAPE_TEXT(like));
    }
    return IPU_OK;
}

static ipu_status
expect_mask(ipu_infer_call *call, uint32_t i, const ipu_shape *scores)
{
    const ipu_type *mask = &call->inputs[i];
    IPU_FAIL_IF(call->ctx, mask->dtype != IPU_DTYPE_BOOL, TYPE,
                "the mask must be bool, but is %s", ipu_dtype_name(mask->dtype));
    bool fits = mask->shape.rank == 4 && mask->shape.dims[3] == scores->dims[3];
    for (int32_t d = 0; fits && d < 3; d++) {
        fits = mask->shape.dims[d] == scores->dims[d] || mask->shape.dims[d] == 1;
    }
    IPU_FAIL_IF(
        call->ctx, !fits, INVALID_ARGUMENT,
        "the mask must have the shape of the scores, %s, or 1 in its first three "
        "axes, but has shape %s",
        IPU_SHAPE_TEXT(scores), IPU_SHAPE_TEXT(&mask->shape));
    return IPU_OK;
}

/* q, k, v, and what `given` says follows from input `next` on. */
static ipu_status
check(ipu_infer_call *call, uint32_t next)
{
    const ipu_shape *q = &call->inputs[0].shape;
    const ipu_shape *k = &call->inputs[1].shape;
    const ipu_shape key = ipu_shape_make(1, (int64_t[]){2});
    int64_t given = ipu_attrs_int(call->attrs, IPU_ATTR_GIVEN, 0);
    double rate = ipu_attrs_float(call->attrs, IPU_ATTR_RATE, 0.0);
    IPU_TRY(expect(call, 0, "the query", q, 15));
    IPU_TRY(expect(call, 1, "the key", q, 4));
    IPU_TRY(expect(call, 2, "the value", k, 8));
    IPU_FAIL_IF(call->ctx, q->dims[3] == 0 || call->inputs[2].shape.dims[3] == 0,
                INVALID_ARGUMENT, "attention needs features, but their size is 0");
    IPU_FAIL_IF(call->ctx, given < 0 || (given & ~IPU_ATTENTION_ALL) != 0,
                INVALID_ARGUMENT,
                "given is %" PRId64 ", which is not a set of what may follow", given);
    uint32_t count = next + (uint32_t)__builtin_popcountll((uint64_t)given);
    IPU_FAIL_IF(call->ctx, call->input_count != count, INVALID_ARGUMENT,
                "expected %u inputs, but got %u", (unsigned)count,
                (unsigned)call->input_count);
    if ((given & IPU_ATTENTION_MASK) != 0) {
        ipu_shape scores = *q;
        scores.dims[3] = k->dims[2];
        IPU_TRY(expect_mask(call, next++, &scores));
    }
    IPU_FAIL_IF(call->ctx, !(rate >= 0.0 && rate < 1.0), INVALID_ARGUMENT,
                "the rate must be in [0, 1), but is %g", rate);
    if ((given & IPU_ATTENTION_KEY) != 0) {
        const ipu_type *type = &call->inputs[next];
        IPU_FAIL_IF(
            call->ctx,
            type->dtype != IPU_DTYPE_INT32 || !ipu_shape_equal(&type->shape, &key),
            INVALID_ARGUMENT, "the key of what is dropped must be int32[2], but is %s",
            IPU_TYPE_TEXT(type));
    }
    return IPU_OK;
}

ipu_status
ipu_infer_attention(ipu_infer_call *call)
{
    IPU_TRY(check(call, 3));
    call->outputs[0] = call->inputs[0];
    call->outputs[0].shape.dims[3] = call->inputs[2].shape.dims[3];
    return IPU_OK;
}

ipu_status
ipu_infer_attention_grad(ipu_infer_call *call)
{
    ipu_shape result = call->inputs[0].shape;
    IPU_TRY(check(call, 4));
    result.dims[3] = call->inputs[2].shape.dims[3];
    IPU_TRY(expect(call, 3, "the gradient", &result, 0));
    for (uint32_t i = 0; i < 3; i++) {
        call->outputs[i] = call->inputs[i];
    }
    return IPU_OK;
}
