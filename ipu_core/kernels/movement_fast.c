/* SPDX-License-Identifier: MIT
 *
 * Fast kernels of the ops that move elements, for every dtype by its size. Transpose,
 * broadcast, concat, slice and its gradient are one strided copy: loops joined as far
 * as possible, rows by memcpy where both sides are contiguous, square tiles where the
 * input runs along another axis than the output. Work is cut by shape alone. Allocates
 * nothing. */
#include <string.h>

#include "kernels/kernel_impl.h"

enum { TASK_ELEMENTS = 16384, TILE = 16 };

/* One strided copy, prepared. Operand 0 is read, operand 1 is written. */
typedef struct copy_plan {
    ipu__loop loop;
    int64_t from;     /* byte offsets of the first element */
    int64_t to;
    int64_t bytes;    /* of one element */
    int32_t swapped;  /* axis along which the input is contiguous; -1: the last */
    int64_t per_task; /* iterations of the outermost loops */
    int64_t outer;    /* iterations of all loops but those a step handles */
} copy_plan;

typedef struct copy_job {
    const copy_plan *plan;
    const char *from;
    char *to;
} copy_job;

#define COPY_STRIDED(type) \
    do { \
        for (int64_t i = 0; i < n; i++) { \
            ((type *)(void *)to)[i * to_step] = \
                ((const type *)(const void *)from)[i * from_step]; \
        } \
    } while (0)

static void
copy_row(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n,
         int64_t bytes)
{
    if (to_step == 1 && from_step == 1) {
        memcpy(to, from, (size_t)(n * bytes));
        return;
    }
    switch (bytes) {
    case 1:
        COPY_STRIDED(uint8_t);
        break;
    case 2:
        COPY_STRIDED(uint16_t);
        break;
    case 4:
        COPY_STRIDED(uint32_t);
        break;
    default:
        COPY_STRIDED(uint64_t);
        break;
    }
}
#undef COPY_STRIDED

#define COPY_TILE(type) \
    do { \
        for (int64_t i = 0; i < rows; i++) { \
            for (int64_t j = 0; j < columns; j++) { \
                ((type *)(void *)to)[i * to_row + j] = \
                    ((const type *)(const void *)from)[i + j * from_column]; \
            } \
        } \
    } while (0)

/* rows x columns elements of which the input has columns in memory order. */
static void
copy_tile(char *to, int64_t to_row, const char *from, int64_t from_column, int64_t rows,
          int64_t columns, int64_t bytes)
{
    switch (bytes) {
    case 1:
        COPY_TILE(uint8_t);
        break;
    case 2:
        COPY_TILE(uint16_t);
        break;
    case 4:
        COPY_TILE(uint32_t);
        break;
    default:
        COPY_TILE(uint64_t);
        break;
    }
}
#undef COPY_TILE

static void
copy_transposed(const copy_plan *plan, char *to, const char *from, int64_t first,
                int64_t count)
{
    const ipu__loop *loop = &plan->loop;
    int32_t last = loop->rank - 1;
    int64_t columns = loop->dims[last];
    int64_t to_row = loop->strides[1][plan->swapped];
    int64_t from_column = loop->strides[0][last];
    for (int64_t i = first; i < first + count; i += TILE) {
        for (int64_t j = 0; j < columns; j += TILE) {
            copy_tile(to + (i * to_row + j) * plan->bytes, to_row,
                      from + (i + j * from_column) * plan->bytes, from_column,
                      ipu__min(first + count - i, TILE), ipu__min(columns - j, TILE),
                      plan->bytes);
        }
    }
}

static void
copy_task(void *state, int32_t task, int32_t worker)
{
    const copy_job *job = state;
    const copy_plan *plan = job->plan;
    const ipu__loop *loop = &plan->loop;
    int32_t last = loop->rank - 1;
    int64_t begin = task * plan->per_task;
    int64_t end = ipu__min(begin + plan->per_task, plan->outer);
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        int64_t position = i;
        int64_t from = 0;
        int64_t to = 0;
        for (int32_t d = last - 1; d >= 0; d--) {
            if (d != plan->swapped) {
                from += position % loop->dims[d] * loop->strides[0][d];
                to += position % loop->dims[d] * loop->strides[1][d];
                position /= loop->dims[d];
            }
        }
        if (plan->swapped >= 0) {
            /* the rest of `position` counts strips of the swapped axis */
            int64_t first = position * TILE;
            copy_transposed(plan, job->to + to * plan->bytes,
                            job->from + from * plan->bytes, first,
                            ipu__min(loop->dims[plan->swapped] - first, TILE));
        } else {
            copy_row(job->to + to * plan->bytes, loop->strides[1][last],
                     job->from + from * plan->bytes, loop->strides[0][last],
                     loop->dims[last], plan->bytes);
        }
    }
}

/* Cuts one long contiguous run, so that threads can share it. */
static void
split_rows(ipu__loop *loop)
{
    int64_t n = loop->dims[loop->rank - 1];
    int64_t pieces = n / TASK_ELEMENTS;
    if (loop->rank >= IPU_MAX_RANK || pieces < 2) {
        return;
    }
    while (n % pieces != 0) {
        pieces--;
    }
    if (pieces < 2) {
        return;
    }
    loop->dims[loop->rank] = n / pieces;
    loop->dims[loop->rank - 1] = pieces;
    for (int32_t k = 0; k < 2; k++) {
        int64_t stride = loop->strides[k][loop->rank - 1];
        loop->strides[k][loop->rank] = stride;
        loop->strides[k][loop->rank - 1] = stride * (n / pieces);
    }
    loop->rank++;
}

/* Everything but the loop's strides and the offsets is filled here. */
static void
plan_copy(copy_plan *plan, int64_t bytes)
{
    ipu__loop *loop = &plan->loop;
    loop->operands = 2;
    plan->bytes = bytes;
    plan->swapped = -1;
    if (loop->elements == 0) {
        return; /* nothing to do: `outer` is 0 */
    }
    ipu__loop_collapse(loop);
    split_rows(loop);
    int32_t last = loop->rank - 1;
    int64_t per_step = loop->dims[last];
    plan->outer = loop->elements / loop->dims[last];
    if (loop->strides[1][last] == 1 && loop->strides[0][last] > 1) {
        for (int32_t d = 0; d < last; d++) {
            if (loop->strides[0][d] == 1 && loop->dims[d] >= 4
                && loop->dims[last] >= 4) {
                plan->swapped = d;
                plan->outer = plan->outer / loop->dims[d]
                              * ipu__ceil_div(loop->dims[d], TILE);
                per_step *= ipu__min(loop->dims[d], TILE);
            }
        }
    }
    plan->per_task = ipu__ceil_div(TASK_ELEMENTS, per_step);
}

static void
run_copy_plan(const copy_plan *plan, ipu_pool *pool, const void *from, void *to)
{
    if (plan->outer > 0) {
        copy_job job = {plan, ipu__at(from, plan->from), ipu__at_mutable(to, plan->to)};
        ipu_pool_run(pool, (int32_t)ipu__ceil_div(plan->outer, plan->per_task),
                     copy_task, &job);
    }
}

/* One copy of input 0. */
static ipu_status
run_copy(const ipu_kernel_call *call)
{
    run_copy_plan(call->spec->prepared, call->pool, call->inputs[0], call->outputs[0]);
    return IPU_OK;
}

/* Input 0 into zeros. */
static ipu_status
run_slice_grad(const ipu_kernel_call *call)
{
    size_t all = ipu_type_bytes(&call->spec->outputs[0]);
    if (all > 0) {
        memset(call->outputs[0], 0, all);
    }
    return run_copy(call);
}

/* A copy of each input. */
static ipu_status
run_concat(const ipu_kernel_call *call)
{
    const copy_plan *plans = call->spec->prepared;
    for (uint32_t k = 0; k < call->spec->input_count; k++) {
        run_copy_plan(&plans[k], call->pool, call->inputs[k], call->outputs[0]);
    }
    return IPU_OK;
}

static int64_t
output_element_bytes(const ipu_kernel_spec *spec)
{
    return (int64_t)ipu_dtype_bytes(spec->outputs[0].dtype);
}

/* Loops over `shape`, dense on side `dense`. */
static void
loop_over(ipu__loop *loop, const ipu_shape *shape, int32_t dense)
{
    loop->rank = shape->rank;
    loop->elements = ipu_shape_elements(shape);
    for (int32_t d = 0; d < shape->rank; d++) {
        loop->dims[d] = shape->dims[d];
    }
    ipu_shape_strides(shape, false, loop->strides[dense]);
}

/* `count` plans in the spec, which is served by `run`. */
static ipu_status
prepare_copies(const ipu__preparation *p, uint32_t count, ipu_kernel_fn *run,
               copy_plan **out)
{
    p->spec->run = run;
    p->spec->kernel_name = "strided_copy";
    return ipu__prepared(p, count * sizeof **out, out);
}

ipu_status
ipu_choose_transpose(const ipu__preparation *p)
{
    const ipu_kernel_spec *spec = p->spec;
    int64_t strides[IPU_MAX_RANK];
    uint32_t count;
    const int64_t *perm = ipu_attrs_ints(spec->attrs, IPU_ATTR_PERM, &count);
    copy_plan *plan;
    IPU_TRY(prepare_copies(p, 1, run_copy, &plan));
    loop_over(&plan->loop, &spec->outputs[0].shape, 1);
    ipu_shape_strides(&spec->inputs[0].shape, false, strides);
    for (int32_t d = 0; d < plan->loop.rank; d++) {
        plan->loop.strides[0][d] = strides[perm[d]];
    }
    plan_copy(plan, output_element_bytes(spec));
    return IPU_OK;
}

ipu_status
ipu_choose_broadcast(const ipu__preparation *p)
{
    const ipu_kernel_spec *spec = p->spec;
    const ipu_shape *in = &spec->inputs[0].shape;
    int64_t strides[IPU_MAX_RANK];
    copy_plan *plan;
    IPU_TRY(prepare_copies(p, 1, run_copy, &plan));
    loop_over(&plan->loop, &spec->outputs[0].shape, 1);
    ipu_shape_strides(in, true, strides);
    for (int32_t d = 0; d < plan->loop.rank; d++) {
        int32_t from = d - (plan->loop.rank - in->rank);
        plan->loop.strides[0][d] = from < 0 ? 0 : strides[from];
    }
    plan_copy(plan, output_element_bytes(spec));
    return IPU_OK;
}

ipu_status
ipu_choose_concat(const ipu__preparation *p)
{
    const ipu_kernel_spec *spec = p->spec;
    const ipu_shape *result = &spec->outputs[0].shape;
    int64_t bytes = output_element_bytes(spec);
    int32_t axis =
        ipu__axis(ipu_attrs_int(spec->attrs, IPU_ATTR_AXIS, 0), result->rank);
    int64_t strides[IPU_MAX_RANK];
    int64_t begin = 0;
    copy_plan *plans;
    IPU_TRY(prepare_copies(p, spec->input_count, run_concat, &plans));
    ipu_shape_strides(result, false, strides);
    for (uint32_t k = 0; k < spec->input_count; k++) {
        loop_over(&plans[k].loop, &spec->inputs[k].shape, 0);
        memcpy(plans[k].loop.strides[1], strides, sizeof strides);
        plans[k].to = begin * strides[axis] * bytes;
        plan_copy(&plans[k], bytes);
        begin += spec->inputs[k].shape.dims[axis];
    }
    return IPU_OK;
}

/* Strides of the sliced part within the whole; gives the offset of its first element
 * (0 for an empty part, whose begin may lie anywhere). */
static int64_t
slice_strides(const ipu_kernel_spec *spec, const ipu_shape *whole, bool empty,
              int64_t out[IPU_MAX_RANK])
{
    uint32_t count;
    const int64_t *begin = ipu_attrs_ints(spec->attrs, IPU_ATTR_BEGIN, &count);
    const int64_t *steps = ipu_attrs_ints(spec->attrs, IPU_ATTR_STRIDES, &count);
    int64_t offset = 0;
    ipu_shape_strides(whole, false, out);
    for (int32_t d = 0; d < whole->rank; d++) {
        offset += begin[d] * out[d];
        out[d] *= steps == NULL ? 1 : steps[d];
    }
    return empty ? 0 : offset;
}

ipu_status
ipu_choose_slice(const ipu__preparation *p)
{
    const ipu_kernel_spec *spec = p->spec;
    int64_t bytes = output_element_bytes(spec);
    copy_plan *plan;
    IPU_TRY(prepare_copies(p, 1, run_copy, &plan));
    loop_over(&plan->loop, &spec->outputs[0].shape, 1);
    plan->from = bytes
                 * slice_strides(spec, &spec->inputs[0].shape, plan->loop.elements == 0,
                                 plan->loop.strides[0]);
    plan_copy(plan, bytes);
    return IPU_OK;
}

ipu_status
ipu_choose_slice_grad(const ipu__preparation *p)
{
    const ipu_kernel_spec *spec = p->spec;
    int64_t bytes = output_element_bytes(spec);
    copy_plan *plan;
    IPU_TRY(prepare_copies(p, 1, run_slice_grad, &plan));
    loop_over(&plan->loop, &spec->inputs[0].shape, 0);
    plan->to = bytes
               * slice_strides(spec, &spec->outputs[0].shape, plan->loop.elements == 0,
                               plan->loop.strides[1]);
    plan_copy(plan, bytes);
    return IPU_OK;
}
