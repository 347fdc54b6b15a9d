/* SPDX-License-Identifier: MIT
 *
 * Shape rules of running totals, sorting, and linear algebra. */
#include "graph/infer.h"

#include <inttypes.h>

/* --- running totals and order ---------------------------------------------------- */

ipu_status
ipu_infer_scan(ipu_infer_call *call)
{
    int32_t axis;
    IPU_TRY(ipu__infer_axis(call, call->inputs[0].shape.rank, &axis));
    call->outputs[0] = call->inputs[0];
    return IPU_OK;
}

ipu_status
ipu_infer_recurrence(ipu_infer_call *call)
{
    REFUSE_IF(!ipu_type_equal(&call->inputs[0], &call->inputs[1]),
              "factors %s and terms %s must be of one type",
              IPU_TYPE_TEXT(&call->inputs[0]), IPU_TYPE_TEXT(&call->inputs[1]));
    return ipu_infer_scan(call);
}

ipu_status
ipu_infer_top_k(ipu_infer_call *call)
{
    ipu_type type = call->inputs[0];
    int64_t k = ipu_attrs_int(call->attrs, IPU_ATTR_DEPTH, 1);
    REFUSE_IF(type.shape.rank < 1, "input must have at least one dimension");
    int64_t *last = &type.shape.dims[type.shape.rank - 1];
    REFUSE_IF(k < 0 || k > *last || *last > INT32_MAX,
              "input must have at least k columns: k is %" PRId64
              ", the last axis has %" PRId64 " elements",
              k, *last);
    *last = k;
    call->outputs[0] = type;
    call->outputs[1] = type;
    call->outputs[1].dtype = IPU_DTYPE_INT32;
    return IPU_OK;
}

/* --- linear algebra -------------------------------------------------------------- */

/* [..., n, n] */
static ipu_status
check_square(ipu_infer_call *call)
{
    const ipu_type *a = &call->inputs[0];
    REFUSE_IF(a->shape.rank < 2 ||
                  a->shape.dims[a->shape.rank - 1] != a->shape.dims[a->shape.rank - 2],
              "Input matrix must be square, but got shape %s",
              IPU_SHAPE_TEXT(&a->shape));
    return IPU_OK;
}

ipu_status
ipu_infer_cholesky(ipu_infer_call *call)
{
    IPU_TRY(check_square(call));
    call->outputs[0] = call->inputs[0];
    return IPU_OK;
}

/* matrix [..., n, n], right side [..., n, k] with the same leading axes */
ipu_status
ipu_infer_solve(ipu_infer_call *call)
{
    const ipu_type *a = &call->inputs[0];
    const ipu_type *b = &call->inputs[1];
    IPU_TRY(check_square(call));
    bool fits = a->dtype == b->dtype && a->shape.rank == b->shape.rank;
    for (int32_t i = 0; fits && i + 1 < a->shape.rank; i++) {
        fits = a->shape.dims[i] == b->shape.dims[i];
    }
    REFUSE_IF(!fits,
              "matrix %s and right side %s do not fit: they need one dtype, the same "
              "leading axes and as many rows",
              IPU_TYPE_TEXT(a), IPU_TYPE_TEXT(b));
    call->outputs[0] = *b;
    return IPU_OK;
}

ipu_status
ipu_infer_det(ipu_infer_call *call)
{
    IPU_TRY(check_square(call));
    const ipu_shape *shape = &call->inputs[0].shape;
    call->outputs[0] =
        (ipu_type){call->inputs[0].dtype, ipu_shape_make(shape->rank - 2, shape->dims)};
    return IPU_OK;
}

/* [..., first, second] in place of the last two axes of the input */
static ipu_type
matrices_like(const ipu_type *input, int64_t first, int64_t second)
{
    ipu_type type = *input;
    type.shape.dims[type.shape.rank - 2] = first;
    type.shape.dims[type.shape.rank - 1] = second;
    return type;
}

/* The same without the last axis. */
static ipu_type
vectors_like(const ipu_type *input, int64_t size)
{
    ipu_type type = *input;
    type.shape.rank--;
    type.shape.dims[type.shape.rank - 1] = size;
    type.shape.dims[type.shape.rank] = 0;
    return type;
}

static ipu_status
check_matrix(ipu_infer_call *call, int64_t *rows, int64_t *columns)
{
    const ipu_type *a = &call->inputs[0];
    REFUSE_IF(a->shape.rank < 2, "Input must have rank >= 2, but got shape %s",
              IPU_SHAPE_TEXT(&a->shape));
    *rows = a->shape.dims[a->shape.rank - 2];
    *columns = a->shape.dims[a->shape.rank - 1];
    return IPU_OK;
}

ipu_status
ipu_infer_qr(ipu_infer_call *call)
{
    int64_t m = 0;
    int64_t n = 0;
    IPU_TRY(check_matrix(call, &m, &n));
    int64_t k = m < n ? m : n;
    call->outputs[0] = matrices_like(&call->inputs[0], m, k);
    call->outputs[1] = matrices_like(&call->inputs[0], k, n);
    return IPU_OK;
}

ipu_status
ipu_infer_svd(ipu_infer_call *call)
{
    int64_t m = 0;
    int64_t n = 0;
    IPU_TRY(check_matrix(call, &m, &n));
    int64_t k = m < n ? m : n;
    call->outputs[0] = vectors_like(&call->inputs[0], k);
    call->outputs[1] = matrices_like(&call->inputs[0], m, k);
    call->outputs[2] = matrices_like(&call->inputs[0], n, k);
    return IPU_OK;
}

ipu_status
ipu_infer_eigh(ipu_infer_call *call)
{
    const ipu_type *a = &call->inputs[0];
    IPU_TRY(check_square(call));
    call->outputs[0] = vectors_like(a, a->shape.dims[a->shape.rank - 1]);
    call->outputs[1] = *a;
    return IPU_OK;
}

ipu_status
ipu_infer_lu(ipu_infer_call *call)
{
    const ipu_type *a = &call->inputs[0];
    IPU_TRY(check_square(call));
    call->outputs[0] = *a;
    call->outputs[1] = vectors_like(a, a->shape.dims[a->shape.rank - 1]);
    call->outputs[1].dtype = IPU_DTYPE_INT32;
    return IPU_OK;
}

ipu_status
ipu_infer_slogdet(ipu_infer_call *call)
{
    IPU_TRY(ipu_infer_det(call));
    call->outputs[1] = call->outputs[0];
    return IPU_OK;
}
