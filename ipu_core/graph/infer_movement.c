/* SPDX-License-Identifier: MIT
 *
 * Shape rules of movement ops and of random numbers. */
#include "graph/infer.h"

#include <inttypes.h>

static ipu_status
dtype_attr(ipu_infer_call *call, ipu_dtype *out)
{
    int64_t dtype = ipu_attrs_int(call->attrs, IPU_ATTR_DTYPE, IPU_DTYPE_FLOAT32);
    REFUSE_IF(dtype < 0 || dtype >= IPU_DTYPE_COUNT, "unknown dtype %" PRId64, dtype);
    *out = (ipu_dtype)dtype;
    return IPU_OK;
}

ipu_status
ipu_infer_constant(ipu_infer_call *call)
{
    IPU_TRY(dtype_attr(call, &call->outputs[0].dtype));
    IPU_TRY(ipu__infer_shape(call, &call->outputs[0].shape));
    IPU_TRY(ipu_type_check(call->ctx, &call->outputs[0]));
    const ipu_attr *value = ipu_attrs_find(call->attrs, IPU_ATTR_VALUE);
    size_t bytes = value == NULL ? 0 : value->count;
    REFUSE_IF(bytes != ipu_type_bytes(&call->outputs[0]),
              "a constant of %zu bytes carries %zu", ipu_type_bytes(&call->outputs[0]),
              bytes);
    return IPU_OK;
}

ipu_status
ipu_infer_held(ipu_infer_call *call)
{
    IPU_TRY(dtype_attr(call, &call->outputs[0].dtype));
    IPU_TRY(ipu__infer_shape(call, &call->outputs[0].shape));
    return ipu_type_check(call->ctx, &call->outputs[0]);
}

ipu_status
ipu_infer_identity(ipu_infer_call *call)
{
    call->outputs[0] = call->inputs[0];
    return IPU_OK;
}

ipu_status
ipu_infer_reshape(ipu_infer_call *call)
{
    call->outputs[0].dtype = call->inputs[0].dtype;
    IPU_TRY(ipu__infer_shape(call, &call->outputs[0].shape));
    IPU_TRY(ipu_type_check(call->ctx, &call->outputs[0]));
    REFUSE_IF(ipu_shape_elements(&call->outputs[0].shape) !=
                  ipu_shape_elements(&call->inputs[0].shape),
              "shape %s has not as many elements as %s",
              IPU_SHAPE_TEXT(&call->inputs[0].shape),
              IPU_SHAPE_TEXT(&call->outputs[0].shape));
    return IPU_OK;
}

/* A wider element takes the last axis with it, which then has to fit; a narrower one
 * adds an axis. */
ipu_status
ipu_infer_bitcast(ipu_infer_call *call)
{
    ipu_type type = call->inputs[0];
    ipu_dtype dtype = type.dtype;
    IPU_TRY(dtype_attr(call, &dtype));
    int64_t from = (int64_t)ipu_dtype_bytes(type.dtype);
    int64_t to = (int64_t)ipu_dtype_bytes(dtype);
    ipu_shape *shape = &type.shape;
    IPU_FAIL_IF(call->ctx, type.dtype == IPU_DTYPE_BOOL || dtype == IPU_DTYPE_BOOL,
                TYPE, "bool has no bits to cast");
    if (from > to) {
        REFUSE_IF(shape->rank == IPU_MAX_RANK,
                  "the result would have more than %d dimensions", IPU_MAX_RANK);
        shape->dims[shape->rank++] = from / to;
    } else if (from < to) {
        REFUSE_IF(shape->rank == 0 || shape->dims[shape->rank - 1] != to / from,
                  "the last axis of shape %s must have %" PRId64 " elements of %s",
                  IPU_SHAPE_TEXT(shape), to / from, ipu_dtype_name(type.dtype));
        shape->dims[--shape->rank] = 0;
    }
    type.dtype = dtype;
    call->outputs[0] = type;
    return IPU_OK;
}

ipu_status
ipu_infer_transpose(ipu_infer_call *call)
{
    uint32_t count;
    const int64_t *perm = ipu_attrs_ints(call->attrs, IPU_ATTR_PERM, &count);
    const ipu_shape *shape = &call->inputs[0].shape;
    bool seen[IPU_MAX_RANK] = {false};
    REFUSE_IF((int64_t)count != shape->rank,
              "perm has %u entries for %" PRId32 " dimensions", count, shape->rank);
    ipu_type type = {.dtype = call->inputs[0].dtype};
    type.shape.rank = shape->rank;
    for (uint32_t i = 0; i < count; i++) {
        REFUSE_IF(perm[i] < 0 || perm[i] >= shape->rank || seen[perm[i]],
                  "perm must name each of %" PRId32 " axes once", shape->rank);
        seen[perm[i]] = true;
        type.shape.dims[i] = shape->dims[perm[i]];
    }
    call->outputs[0] = type;
    return IPU_OK;
}

ipu_status
ipu_infer_broadcast(ipu_infer_call *call)
{
    ipu_type type = {.dtype = call->inputs[0].dtype};
    ipu_shape both;
    IPU_TRY(ipu__infer_shape(call, &type.shape));
    REFUSE_IF(!ipu_shape_broadcast(&call->inputs[0].shape, &type.shape, &both) ||
                  !ipu_shape_equal(&both, &type.shape),
              "shape %s does not broadcast to %s",
              IPU_SHAPE_TEXT(&call->inputs[0].shape), IPU_SHAPE_TEXT(&type.shape));
    call->outputs[0] = type;
    return IPU_OK;
}

ipu_status
ipu_infer_concat(ipu_infer_call *call)
{
    ipu_type type = call->inputs[0];
    int32_t axis = 0;
    IPU_TRY(ipu__infer_axis(call, type.shape.rank, &axis));
    for (uint32_t i = 1; i < call->input_count; i++) {
        const ipu_type *next = &call->inputs[i];
        ipu_shape expected = call->inputs[0].shape;
        if (next->shape.rank == expected.rank) {
            expected.dims[axis] = next->shape.dims[axis];
        }
        REFUSE_IF(!ipu_shape_equal(&expected, &next->shape),
                  "shapes %s and %s cannot be joined along axis %" PRId32,
                  IPU_SHAPE_TEXT(&call->inputs[0].shape), IPU_SHAPE_TEXT(&next->shape),
                  axis);
        type.shape.dims[axis] += next->shape.dims[axis];
    }
    call->outputs[0] = type;
    return IPU_OK;
}

/* Whether `size` elements from `begin` on, `stride` apart, lie among `count`: by a
 * division, since (size - 1) * stride may not fit. */
static bool
stays_inside(int64_t begin, int64_t size, int64_t stride, int64_t count)
{
    if (stride == 0 || size < 0) {
        return false;
    }
    if (size == 0) {
        return true;
    }
    if (begin < 0 || begin >= count) {
        return false;
    }
    uint64_t room = (uint64_t)(stride > 0 ? count - 1 - begin : begin);
    uint64_t step = stride > 0 ? (uint64_t)stride : 0 - (uint64_t)stride;
    return (uint64_t)(size - 1) <= room / step;
}

/* begin, size and strides within `whole`; *part is the shape that they cut out. */
static ipu_status
slice_bounds(ipu_infer_call *call, const ipu_shape *whole, ipu_shape *part)
{
    uint32_t n_begin;
    uint32_t n_size;
    uint32_t n_strides;
    const int64_t *begin = ipu_attrs_ints(call->attrs, IPU_ATTR_BEGIN, &n_begin);
    const int64_t *size = ipu_attrs_ints(call->attrs, IPU_ATTR_SIZE, &n_size);
    const int64_t *strides = ipu_attrs_ints(call->attrs, IPU_ATTR_STRIDES, &n_strides);
    uint32_t rank = (uint32_t)whole->rank;
    REFUSE_IF(n_begin != rank || n_size != rank ||
                  (n_strides != rank && n_strides != 0),
              "begin, size and strides need one entry for each of %u dimensions", rank);
    *part = ipu_shape_make(whole->rank, size);
    for (uint32_t i = 0; i < rank; i++) {
        int64_t stride = n_strides == 0 ? 1 : strides[i];
        REFUSE_IF(!stays_inside(begin[i], size[i], stride, whole->dims[i]),
                  "slice of axis %u (begin %" PRId64 ", size %" PRId64
                  ", stride %" PRId64 ") leaves its %" PRId64 " elements",
                  i, begin[i], size[i], stride, whole->dims[i]);
    }
    return IPU_OK;
}

ipu_status
ipu_infer_slice(ipu_infer_call *call)
{
    call->outputs[0].dtype = call->inputs[0].dtype;
    return slice_bounds(call, &call->inputs[0].shape, &call->outputs[0].shape);
}

/* Input 0 is the whole, `part` the window; the starts begin at input `first`. */
static ipu_status
check_window(ipu_infer_call *call, const ipu_shape *part, uint32_t first)
{
    const ipu_shape *whole = &call->inputs[0].shape;
    uint32_t starts = call->input_count - first;
    REFUSE_IF(part->rank != whole->rank,
              "a window of %" PRId32 " dimensions into a tensor of %" PRId32,
              part->rank, whole->rank);
    REFUSE_IF(starts > (uint32_t)whole->rank,
              "%u starts for a tensor of %" PRId32 " dimensions", starts, whole->rank);
    for (int32_t i = 0; i < whole->rank; i++) {
        REFUSE_IF(part->dims[i] < 0 || part->dims[i] > whole->dims[i],
                  "the window is %" PRId64 " wide on axis %" PRId32
                  ", where the tensor has %" PRId64,
                  part->dims[i], i, whole->dims[i]);
    }
    for (uint32_t i = first; i < call->input_count; i++) {
        const ipu_type *start = &call->inputs[i];
        IPU_FAIL_IF(call->ctx,
                    start->shape.rank != 0 || (start->dtype != IPU_DTYPE_INT32 &&
                                               start->dtype != IPU_DTYPE_INT64),
                    TYPE, "a start must be an int32 scalar, but got %s",
                    IPU_TYPE_TEXT(start));
    }
    return IPU_OK;
}

ipu_status
ipu_infer_dynamic_slice(ipu_infer_call *call)
{
    ipu_type *out = &call->outputs[0];
    uint32_t count;
    const int64_t *size = ipu_attrs_ints(call->attrs, IPU_ATTR_SIZE, &count);
    REFUSE_IF(count != (uint32_t)call->inputs[0].shape.rank,
              "%u sizes for a tensor of %" PRId32 " dimensions", count,
              call->inputs[0].shape.rank);
    *out = call->inputs[0];
    ipu_copy_bytes(out->shape.dims, size, count * sizeof(*size));
    return check_window(call, &out->shape, 1);
}

ipu_status
ipu_infer_dynamic_update_slice(ipu_infer_call *call)
{
    IPU_FAIL_IF(call->ctx, call->inputs[0].dtype != call->inputs[1].dtype, TYPE,
                "the tensor is %s, but what is written into it is %s; convert it with "
                "tf.cast",
                ipu_dtype_name(call->inputs[0].dtype),
                ipu_dtype_name(call->inputs[1].dtype));
    call->outputs[0] = call->inputs[0];
    return check_window(call, &call->inputs[1].shape, 2);
}

ipu_status
ipu_infer_slice_grad(ipu_infer_call *call)
{
    ipu_type type = {.dtype = call->inputs[0].dtype};
    ipu_shape part;
    IPU_TRY(ipu__infer_shape(call, &type.shape));
    IPU_TRY(slice_bounds(call, &type.shape, &part));
    REFUSE_IF(!ipu_shape_equal(&part, &call->inputs[0].shape),
              "the gradient has not the shape of the slice");
    call->outputs[0] = type;
    return IPU_OK;
}

static ipu_status
check_indices(ipu_infer_call *call, const ipu_type *indices)
{
    char kind = ipu_dtype_kind(indices->dtype);
    IPU_FAIL_IF(call->ctx, kind != 'i' && kind != 'u', TYPE,
                "indices must be integers, but got %s", ipu_dtype_name(indices->dtype));
    return IPU_OK;
}

/* How many leading axes `params` and `indices` share; they must agree in them. */
static ipu_status
batch_axes(ipu_infer_call *call, const ipu_shape *params, const ipu_shape *indices,
           int32_t *out)
{
    int64_t count = ipu_attrs_int(call->attrs, IPU_ATTR_BATCH_DIMS, 0);
    bool fits = count >= 0 && count <= indices->rank && count <= params->rank;
    for (int32_t i = 0; fits && i < count; i++) {
        fits = params->dims[i] == indices->dims[i];
    }
    REFUSE_IF(!fits,
              "params of shape %s and indices of shape %s do not agree in the first "
              "%" PRId64 " axes",
              IPU_SHAPE_TEXT(params), IPU_SHAPE_TEXT(indices), count);
    *out = (int32_t)count;
    return IPU_OK;
}

/* shape[:axis] + indices[batch:] + shape[axis + 1:] */
static ipu_status
gathered_shape(ipu_infer_call *call, const ipu_shape *params, const ipu_shape *indices,
               ipu_shape *out)
{
    int32_t axis = 0;
    int32_t batch = 0;
    IPU_TRY(ipu__infer_axis(call, params->rank, &axis));
    IPU_TRY(batch_axes(call, params, indices, &batch));
    REFUSE_IF(batch > axis,
              "batch_dims (%" PRId32 ") must not be more than the axis (%" PRId32 ")",
              batch, axis);
    REFUSE_IF(params->rank - 1 + indices->rank - batch > IPU_MAX_RANK,
              "the result would have more than %d dimensions", IPU_MAX_RANK);
    *out = (ipu_shape){0};
    for (int32_t i = 0; i < axis; i++) {
        out->dims[out->rank++] = params->dims[i];
    }
    for (int32_t i = batch; i < indices->rank; i++) {
        out->dims[out->rank++] = indices->dims[i];
    }
    for (int32_t i = axis + 1; i < params->rank; i++) {
        out->dims[out->rank++] = params->dims[i];
    }
    return IPU_OK;
}

ipu_status
ipu_infer_gather(ipu_infer_call *call)
{
    const ipu_type *params = &call->inputs[0];
    IPU_TRY(check_indices(call, &call->inputs[1]));
    call->outputs[0].dtype = params->dtype;
    return gathered_shape(call, &params->shape, &call->inputs[1].shape,
                          &call->outputs[0].shape);
}

ipu_status
ipu_infer_gather_grad(ipu_infer_call *call)
{
    ipu_type type = {.dtype = call->inputs[1].dtype};
    ipu_shape expected;
    IPU_TRY(check_indices(call, &call->inputs[0]));
    IPU_TRY(ipu__infer_shape(call, &type.shape));
    IPU_TRY(gathered_shape(call, &type.shape, &call->inputs[0].shape, &expected));
    REFUSE_IF(!ipu_shape_equal(&expected, &call->inputs[1].shape),
              "rows of shape %s were expected for these indices, but got %s",
              IPU_SHAPE_TEXT(&expected), IPU_SHAPE_TEXT(&call->inputs[1].shape));
    call->outputs[0] = type;
    return IPU_OK;
}

/* indices[:-1] + whole[indices[-1]:] */
static ipu_status
picked_shape(ipu_infer_call *call, const ipu_shape *whole, const ipu_type *indices,
             ipu_shape *out)
{
    const ipu_shape *shape = &indices->shape;
    IPU_TRY(check_indices(call, indices));
    int64_t depth = shape->rank == 0 ? -1 : shape->dims[shape->rank - 1];
    REFUSE_IF(depth < 0 || depth > whole->rank,
              "the last axis of the indices (shape %s) must name at most the %" PRId32
              " axes of shape %s",
              IPU_SHAPE_TEXT(shape), whole->rank, IPU_SHAPE_TEXT(whole));
    REFUSE_IF(shape->rank - 1 + whole->rank - depth > IPU_MAX_RANK,
              "the result would have more than %d dimensions", IPU_MAX_RANK);
    *out = (ipu_shape){0};
    for (int32_t i = 0; i + 1 < shape->rank; i++) {
        out->dims[out->rank++] = shape->dims[i];
    }
    for (int32_t i = (int32_t)depth; i < whole->rank; i++) {
        out->dims[out->rank++] = whole->dims[i];
    }
    return IPU_OK;
}

ipu_status
ipu_infer_gather_nd(ipu_infer_call *call)
{
    call->outputs[0].dtype = call->inputs[0].dtype;
    return picked_shape(call, &call->inputs[0].shape, &call->inputs[1],
                        &call->outputs[0].shape);
}

static ipu_status
check_updates(ipu_infer_call *call, const ipu_shape *whole, const ipu_type *indices,
              const ipu_type *updates)
{
    ipu_shape expected;
    IPU_TRY(picked_shape(call, whole, indices, &expected));
    REFUSE_IF(!ipu_shape_equal(&expected, &updates->shape),
              "updates of shape %s were expected for these indices, but got %s",
              IPU_SHAPE_TEXT(&expected), IPU_SHAPE_TEXT(&updates->shape));
    return IPU_OK;
}

ipu_status
ipu_infer_scatter_nd(ipu_infer_call *call)
{
    ipu_type type = {.dtype = call->inputs[1].dtype};
    IPU_TRY(ipu__infer_shape(call, &type.shape));
    IPU_TRY(check_updates(call, &type.shape, &call->inputs[0], &call->inputs[1]));
    call->outputs[0] = type;
    return IPU_OK;
}

ipu_status
ipu_infer_tensor_scatter(ipu_infer_call *call)
{
    const ipu_type *type = &call->inputs[0];
    int64_t reduction = ipu_attrs_int(call->attrs, IPU_ATTR_REDUCTION, 0);
    REFUSE_IF(reduction < 0 || reduction >= IPU_SCATTER_COUNT,
              "there is no reduction %" PRId64, reduction);
    IPU_FAIL_IF(call->ctx,
                type->dtype != call->inputs[2].dtype ||
                    (type->dtype == IPU_DTYPE_BOOL && reduction != IPU_SCATTER_UPDATE),
                TYPE, "cannot put updates of dtype %s into a tensor of dtype %s",
                ipu_dtype_name(call->inputs[2].dtype), ipu_dtype_name(type->dtype));
    IPU_TRY(check_updates(call, &type->shape, &call->inputs[1], &call->inputs[2]));
    call->outputs[0] = *type;
    return IPU_OK;
}

ipu_status
ipu_infer_one_hot(ipu_infer_call *call)
{
    const ipu_shape *shape = &call->inputs[0].shape;
    int64_t depth = ipu_attrs_int(call->attrs, IPU_ATTR_DEPTH, -1);
    ipu_type type = {.dtype = IPU_DTYPE_FLOAT32};
    int32_t axis = 0;
    IPU_TRY(check_indices(call, &call->inputs[0]));
    IPU_TRY(dtype_attr(call, &type.dtype));
    REFUSE_IF(depth < 0, "one_hot needs a depth of at least 0, but got %" PRId64,
              depth);
    REFUSE_IF(shape->rank + 1 > IPU_MAX_RANK,
              "the result would have more than %d dimensions", IPU_MAX_RANK);
    IPU_TRY(ipu__infer_axis(call, shape->rank + 1, &axis));
    type.shape.rank = shape->rank + 1;
    for (int32_t i = 0; i < type.shape.rank; i++) {
        type.shape.dims[i] = i == axis ? depth : shape->dims[i < axis ? i : i - 1];
    }
    call->outputs[0] = type;
    return IPU_OK;
}

/* --- random numbers -------------------------------------------------------------- */

/* The key, where there is one: what the numbers are a function of. */
static ipu_status
check_key(ipu_infer_call *call, uint32_t before)
{
    if (call->input_count > before) {
        const ipu_type *key = &call->inputs[before];
        REFUSE_IF(key->dtype != IPU_DTYPE_INT32 || key->shape.rank != 1 ||
                      key->shape.dims[0] != 2,
                  "seed must have shape [2] and dtype int32");
    }
    return IPU_OK;
}

ipu_status
ipu_infer_random_integer(ipu_infer_call *call)
{
    const ipu_type *low = &call->inputs[0];
    IPU_TRY(check_indices(call, low));
    IPU_FAIL_IF(call->ctx,
                !ipu_type_equal(low, &call->inputs[1]) || low->shape.rank != 0, TYPE,
                "minval and maxval must be integer scalars of one dtype");
    IPU_TRY(check_key(call, 2));
    call->outputs[0].dtype = low->dtype;
    return ipu__infer_shape(call, &call->outputs[0].shape);
}

/* A number for each element of the parameters, one or two. */
ipu_status
ipu_infer_random_like(ipu_infer_call *call)
{
    const ipu_type *first = &call->inputs[0];
    uint32_t count = (uint32_t)ipu_op_key_place(call->op);
    REFUSE_IF(count == 2 && !ipu_type_equal(first, &call->inputs[1]),
              "parameters %s and %s must be of one type", IPU_TYPE_TEXT(first),
              IPU_TYPE_TEXT(&call->inputs[1]));
    IPU_TRY(check_key(call, count));
    call->outputs[0] = *first;
    return IPU_OK;
}

ipu_status
ipu_infer_random(ipu_infer_call *call)
{
    IPU_TRY(dtype_attr(call, &call->outputs[0].dtype));
    IPU_FAIL_IF(call->ctx, !ipu_dtype_is_float(call->outputs[0].dtype), TYPE,
                "random numbers are floating-point, not %s",
                ipu_dtype_name(call->outputs[0].dtype));
    IPU_TRY(check_key(call, 0));
    return ipu__infer_shape(call, &call->outputs[0].shape);
}

ipu_status
ipu_infer_round_stochastic(ipu_infer_call *call)
{
    IPU_FAIL_IF(call->ctx, call->inputs[0].dtype != IPU_DTYPE_FLOAT32, TYPE,
                "round_stochastic needs a float32 input, but got %s",
                ipu_dtype_name(call->inputs[0].dtype));
    call->outputs[0] = call->inputs[0];
    call->outputs[0].dtype = IPU_DTYPE_FLOAT16;
    return IPU_OK;
}

ipu_status
ipu_infer_dropout(ipu_infer_call *call)
{
    double rate = ipu_attrs_float(call->attrs, IPU_ATTR_RATE, 0.0);
    IPU_FAIL_IF(call->ctx, !(rate >= 0.0 && rate < 1.0), VALUE,
                "the dropout rate must be in [0, 1), but got %g", rate);
    call->outputs[0] = call->inputs[0];
    call->outputs[1] = call->inputs[0];
    call->outputs[1].dtype = IPU_DTYPE_BOOL;
    return IPU_OK;
}
