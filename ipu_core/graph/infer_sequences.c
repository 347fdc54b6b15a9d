/* SPDX-License-Identifier: MIT
 *
 * Shape rules of ops on sequences: lstm, gru and their gradients, attention and its
 * gradient. */
#include "graph/infer.h"

#include <inttypes.h>

static ipu_status
expect_count(ipu_infer_call *call, uint32_t count)
{
    REFUSE_IF(call->input_count != count, "expected %u inputs, but got %u",
              (unsigned)count, (unsigned)call->input_count);
    return IPU_OK;
}

/* The bits of `given`, at most those of `most`, say what follows input `next`. */
static ipu_status
expect_set(ipu_infer_call *call, int64_t given, uint32_t next, int64_t most)
{
    REFUSE_IF(given < 0 || (given & ~most) != 0,
              "given is %" PRId64 ", which is not a set of what may follow", given);
    return expect_count(call, next + (uint32_t)__builtin_popcountll((uint64_t)given));
}

/* --- lstm and gru ----------------------------------------------------------------- */

/* x is [steps, batch, gates * units], or with axis=1 [batch, steps, gates * units]:
 * what the gates say about all other shapes. */
typedef struct sequence {
    ipu_dtype dtype;
    int32_t time; /* which axis */
    int64_t gates;
    int64_t units;
    int64_t batch;
    ipu_shape x;
} sequence;

static ipu_status
expect(ipu_infer_call *call, uint32_t i, const char *what, const ipu_shape *shape)
{
    REFUSE_IF(!ipu_shape_equal(&call->inputs[i].shape, shape),
              "%s must have shape %s, but has %s", what, IPU_SHAPE_TEXT(shape),
              IPU_SHAPE_TEXT(&call->inputs[i].shape));
    return IPU_OK;
}

/* Of all steps, `columns` each. */
static ipu_shape
of_steps(const sequence *s, int64_t columns)
{
    ipu_shape shape = s->x;
    shape.dims[2] = columns;
    return shape;
}

static ipu_shape
pair(int64_t first, int64_t second)
{
    return ipu_shape_make(2, (int64_t[]){first, second});
}

/* `gates` of them in input 0, and the kernel of that. */
static ipu_status
read_sequence(ipu_infer_call *call, int64_t gates, sequence *s)
{
    const ipu_type *type = &call->inputs[0];
    *s = (sequence){.dtype = type->dtype, .gates = gates, .x = type->shape};
    REFUSE_IF(type->shape.rank != 3 || type->shape.dims[2] % gates != 0 ||
                  type->shape.dims[2] == 0,
              "the gates' input must be [steps, batch, %" PRId64
              " * units], but has shape %s",
              gates, IPU_SHAPE_TEXT(&type->shape));
    IPU_TRY(ipu__infer_axis(call, 2, &s->time));
    s->units = type->shape.dims[2] / gates;
    s->batch = type->shape.dims[1 - s->time];
    ipu_shape shape = pair(s->units, type->shape.dims[2]);
    return expect(call, 1, "the recurrent kernel", &shape);
}

static ipu_status
expect_state(ipu_infer_call *call, uint32_t i, const char *what, const sequence *s)
{
    ipu_shape shape = pair(s->batch, s->units);
    return expect(call, i, what, &shape);
}

static ipu_status
expect_mask(ipu_infer_call *call, uint32_t i, const sequence *s)
{
    ipu_shape shape = pair(s->x.dims[0], s->x.dims[1]);
    IPU_FAIL_IF(call->ctx, call->inputs[i].dtype != IPU_DTYPE_BOOL, TYPE,
                "the mask must be bool, but is %s",
                ipu_dtype_name(call->inputs[i].dtype));
    return expect(call, i, "the mask", &shape);
}

static void
give(ipu_infer_call *call, uint32_t i, const sequence *s, ipu_shape shape)
{
    call->outputs[i] = (ipu_type){s->dtype, shape};
}

ipu_status
ipu_infer_lstm(ipu_infer_call *call)
{
    sequence s;
    IPU_TRY(read_sequence(call, 4, &s));
    IPU_TRY(expect_state(call, 2, "the initial h", &s));
    IPU_TRY(expect_state(call, 3, "the initial c", &s));
    if (call->input_count > 4) {
        IPU_TRY(expect_mask(call, 4, &s));
    }
    give(call, 0, &s, s.x);
    give(call, 1, &s, of_steps(&s, s.units));
    give(call, 2, &s, pair(s.batch, s.units));
    give(call, 3, &s, pair(s.batch, s.units));
    give(call, 4, &s, of_steps(&s, s.units));
    return IPU_OK;
}

ipu_status
ipu_infer_gru(ipu_infer_call *call)
{
    sequence s;
    uint32_t next = 3;
    IPU_TRY(read_sequence(call, 3, &s));
    IPU_TRY(expect_state(call, 2, "the initial h", &s));
    if (ipu_attrs_int(call->attrs, IPU_ATTR_RESET_AFTER, 0) != 0) {
        ipu_shape bias = ipu_shape_make(1, (int64_t[]){3 * s.units});
        REFUSE_IF(call->input_count < 4,
                  "reset_after needs the bias of the recurrent product");
        IPU_FAIL_IF(call->ctx, call->inputs[next].dtype != s.dtype, TYPE,
                    "the recurrent bias must be %s, but is %s", ipu_dtype_name(s.dtype),
                    ipu_dtype_name(call->inputs[next].dtype));
        IPU_TRY(expect(call, next++, "the recurrent bias", &bias));
    }
    if (call->input_count > next) {
        IPU_TRY(expect_mask(call, next++, &s));
    }
    IPU_TRY(expect_count(call, next));
    give(call, 0, &s, s.x);
    give(call, 1, &s, of_steps(&s, s.units));
    give(call, 2, &s, pair(s.batch, s.units));
    give(call, 3, &s, of_steps(&s, s.units));
    return IPU_OK;
}

/* Checks the inputs from `next` on, which are those that `given` names. */
static ipu_status
expect_given(ipu_infer_call *call, const sequence *s, uint32_t next, int64_t most)
{
    static const char *const names[] = {"the mask", "the gradient of h of all steps",
                                        "the gradient of the last h",
                                        "the gradient of the last c"};
    int64_t given = ipu_attrs_int(call->attrs, IPU_ATTR_GIVEN, 0);
    IPU_TRY(expect_set(call, given, next, most));
    for (uint32_t i = 0; i < 4; i++) {
        if ((given >> i & 1) == 0) {
            continue;
        }
        if (i == 0) {
            IPU_TRY(expect_mask(call, next++, s));
            continue;
        }
        ipu_shape shape = i == 1 ? of_steps(s, s->units) : pair(s->batch, s->units);
        IPU_FAIL_IF(call->ctx, call->inputs[next].dtype != s->dtype, TYPE,
                    "%s must be %s, but is %s", names[i], ipu_dtype_name(s->dtype),
                    ipu_dtype_name(call->inputs[next].dtype));
        IPU_TRY(expect(call, next++, names[i], &shape));
    }
    return IPU_OK;
}

ipu_status
ipu_infer_lstm_grad(ipu_infer_call *call)
{
    sequence s;
    IPU_TRY(read_sequence(call, 4, &s));
    ipu_shape states = of_steps(&s, s.units);
    IPU_TRY(expect(call, 2, "c of all steps", &states));
    IPU_TRY(expect(call, 3, "h of all steps", &states));
    IPU_TRY(expect_state(call, 4, "the initial h", &s));
    IPU_TRY(expect_state(call, 5, "the initial c", &s));
    IPU_TRY(expect_given(call, &s, 6, IPU_GIVEN_ALL));
    give(call, 0, &s, s.x);
    give(call, 1, &s, states);
    give(call, 2, &s, pair(s.batch, s.units));
    give(call, 3, &s, pair(s.batch, s.units));
    return IPU_OK;
}

ipu_status
ipu_infer_gru_grad(ipu_infer_call *call)
{
    sequence s;
    IPU_TRY(read_sequence(call, 3, &s));
    ipu_shape states = of_steps(&s, s.units);
    IPU_TRY(expect(call, 2, "inner", &states));
    IPU_TRY(expect(call, 3, "h of all steps", &states));
    IPU_TRY(expect_state(call, 4, "the initial h", &s));
    IPU_TRY(expect_given(call, &s, 5, IPU_GIVEN_ALL & ~IPU_GIVEN_LAST_C));
    give(call, 0, &s, s.x);
    give(call, 1, &s, s.x);
    give(call, 2, &s, states);
    give(call, 3, &s, pair(s.batch, s.units));
    return IPU_OK;
}

/* --- attention -------------------------------------------------------------------- */

/* The operand has rank 4, and its axes are those of `like` except the ones that `free`
 * names by bits. */
static ipu_status
expect_axes(ipu_infer_call *call, uint32_t i, const char *what, const ipu_shape *like,
            uint32_t free)
{
    const ipu_shape *got = &call->inputs[i].shape;
    REFUSE_IF(got->rank != 4,
              "%s must be [batch, heads, steps, size], but has shape %s", what,
              IPU_SHAPE_TEXT(got));
    for (int32_t d = 0; d < 4; d++) {
        REFUSE_IF(
            (free >> d & 1) == 0 && got->dims[d] != like->dims[d],
            "%s has shape %s, whose axis %d must be %" PRId64 " to go with shape %s",
            what, IPU_SHAPE_TEXT(got), (int)d, like->dims[d], IPU_SHAPE_TEXT(like));
    }
    return IPU_OK;
}

static ipu_status
expect_hiding(ipu_infer_call *call, uint32_t i, const ipu_shape *scores)
{
    const ipu_type *mask = &call->inputs[i];
    IPU_FAIL_IF(call->ctx, mask->dtype != IPU_DTYPE_BOOL, TYPE,
                "the mask must be bool, but is %s", ipu_dtype_name(mask->dtype));
    bool fits = mask->shape.rank == 4 && mask->shape.dims[3] == scores->dims[3];
    for (int32_t d = 0; fits && d < 3; d++) {
        fits = mask->shape.dims[d] == scores->dims[d] || mask->shape.dims[d] == 1;
    }
    REFUSE_IF(!fits,
              "the mask must have the shape of the scores, %s, or 1 in its first three "
              "axes, but has shape %s",
              IPU_SHAPE_TEXT(scores), IPU_SHAPE_TEXT(&mask->shape));
    return IPU_OK;
}

/* q, k, v, and what `given` says follows from input `next` on. */
static ipu_status
check_attention(ipu_infer_call *call, uint32_t next)
{
    const ipu_shape *q = &call->inputs[0].shape;
    const ipu_shape *k = &call->inputs[1].shape;
    const ipu_shape key = ipu_shape_make(1, (int64_t[]){2});
    int64_t given = ipu_attrs_int(call->attrs, IPU_ATTR_GIVEN, 0);
    double rate = ipu_attrs_float(call->attrs, IPU_ATTR_RATE, 0.0);
    IPU_TRY(expect_axes(call, 0, "the query", q, 15));
    IPU_TRY(expect_axes(call, 1, "the key", q, 4));
    IPU_TRY(expect_axes(call, 2, "the value", k, 8));
    REFUSE_IF(q->dims[3] == 0 || call->inputs[2].shape.dims[3] == 0,
              "attention needs features, but their size is 0");
    IPU_TRY(expect_set(call, given, next, IPU_ATTENTION_ALL));
    if ((given & IPU_ATTENTION_MASK) != 0) {
        ipu_shape scores = *q;
        scores.dims[3] = k->dims[2];
        IPU_TRY(expect_hiding(call, next++, &scores));
    }
    REFUSE_IF(!(rate >= 0.0 && rate < 1.0), "the rate must be in [0, 1), but is %g",
              rate);
    if ((given & IPU_ATTENTION_KEY) != 0) {
        const ipu_type *type = &call->inputs[next];
        REFUSE_IF(type->dtype != IPU_DTYPE_INT32 ||
                      !ipu_shape_equal(&type->shape, &key),
                  "the key of what is dropped must be int32[2], but is %s",
                  IPU_TYPE_TEXT(type));
    }
    return IPU_OK;
}

ipu_status
ipu_infer_attention(ipu_infer_call *call)
{
    IPU_TRY(check_attention(call, 3));
    call->outputs[0] = call->inputs[0];
    call->outputs[0].shape.dims[3] = call->inputs[2].shape.dims[3];
    return IPU_OK;
}

ipu_status
ipu_infer_attention_grad(ipu_infer_call *call)
{
    ipu_shape result = call->inputs[0].shape;
    IPU_TRY(check_attention(call, 4));
    result.dims[3] = call->inputs[2].shape.dims[3];
    IPU_TRY(expect_axes(call, 3, "the gradient", &result, 0));
    memcpy(call->outputs, call->inputs, 3 * sizeof(ipu_type));
    return IPU_OK;
}
