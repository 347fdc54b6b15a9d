/* SPDX-License-Identifier: MIT
 *
 * Fast kernels of the ops that move elements, for every dtype by its size. Transpose,
 * broadcast, concat, slice and its gradient are one strided copy: loops joined as far
 * as possible, rows by memcpy where both sides are contiguous, square tiles where the
 * input runs along another axis than the output. Gather copies rows; its gradient
 * adds float32 rows in the order of the indices. Work is cut by shape alone.
 * Allocates nothing. */
#include <string.h>

#include "kernels/kernel_impl.h"

enum { TASK_ELEMENTS = 16384, TILE = 16 };

/* Operand 0 is read, operand 1 is written. */
typedef struct copy_job {
    ipu__loop loop;
    const char *from;
    char *to;
    int64_t bytes;    /* of one element */
    int32_t swapped;  /* axis along which the input is contiguous; -1: the last */
    int64_t per_task; /* iterations of the outermost loops */
    int64_t outer;    /* iterations of all loops but those a step handles */
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
copy_transposed(const copy_job *job, char *to, const char *from, int64_t first,
                int64_t count)
{
    const ipu__loop *loop = &job->loop;
    int32_t last = loop->rank - 1;
    int64_t columns = loop->dims[last];
    int64_t to_row = loop->strides[1][job->swapped];
    int64_t from_column = loop->strides[0][last];
    for (int64_t i = first; i < first + count; i += TILE) {
        for (int64_t j = 0; j < columns; j += TILE) {
            copy_tile(to + (i * to_row + j) * job->bytes, to_row,
                      from + (i + j * from_column) * job->bytes, from_column,
                      ipu__min(first + count - i, TILE), ipu__min(columns - j, TILE),
                      job->bytes);
        }
    }
}

static void
copy_task(void *state, int32_t task, int32_t worker)
{
    const copy_job *job = state;
    const ipu__loop *loop = &job->loop;
    int32_t last = loop->rank - 1;
    int64_t begin = task * job->per_task;
    int64_t end = ipu__min(begin + job->per_task, job->outer);
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        int64_t position = i;
        int64_t from = 0;
        int64_t to = 0;
        for (int32_t d = last - 1; d >= 0; d--) {
            if (d != job->swapped) {
                from += position % loop->dims[d] * loop->strides[0][d];
                to += position % loop->dims[d] * loop->strides[1][d];
                position /= loop->dims[d];
            }
        }
        if (job->swapped >= 0) {
            /* the rest of `position` counts strips of the swapped axis */
            int64_t first = position * TILE;
            copy_transposed(job, job->to + to * job->bytes,
                            job->from + from * job->bytes, first,
                            ipu__min(loop->dims[job->swapped] - first, TILE));
        } else {
            copy_row(job->to + to * job->bytes, loop->strides[1][last],
                     job->from + from * job->bytes, loop->strides[0][last],
                     loop->dims[last], job->bytes);
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

/* Copies loop->elements elements; from and to point at the first of each side. */
static void
strided_copy(ipu_pool *pool, ipu__loop *loop, const void *from, void *to, int64_t bytes)
{
    copy_job job;
    loop->operands = 2;
    if (loop->elements == 0) {
        return;
    }
    ipu__loop_collapse(loop);
    split_rows(loop);
    int32_t last = loop->rank - 1;
    int64_t per_step = loop->dims[last];
    job.from = from;
    job.to = to;
    job.bytes = bytes;
    job.swapped = -1;
    job.outer = loop->elements / loop->dims[last];
    if (loop->strides[1][last] == 1 && loop->strides[0][last] > 1) {
        for (int32_t d = 0; d < last; d++) {
            if (loop->strides[0][d] == 1 && loop->dims[d] >= 4
                && loop->dims[last] >= 4) {
                job.swapped = d;
                job.outer = job.outer / loop->dims[d]
                            * ipu__ceil_div(loop->dims[d], TILE);
                per_step *= ipu__min(loop->dims[d], TILE);
            }
        }
    }
    job.per_task = ipu__ceil_div(TASK_ELEMENTS, per_step);
    job.loop = *loop;
    ipu_pool_run(pool, (int32_t)ipu__ceil_div(job.outer, job.per_task), copy_task,
                 &job);
}

static int64_t
output_element_bytes(const ipu_kernel_call *call)
{
    return (int64_t)ipu_dtype_bytes(call->spec->outputs[0].dtype);
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

static ipu_status
run_transpose(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    int64_t strides[IPU_MAX_RANK];
    ipu__loop loop;
    uint32_t count;
    const int64_t *perm = ipu_attrs_ints(spec->attrs, IPU_ATTR_PERM, &count);
    loop_over(&loop, &spec->outputs[0].shape, 1);
    ipu_shape_strides(&spec->inputs[0].shape, false, strides);
    for (int32_t d = 0; d < loop.rank; d++) {
        loop.strides[0][d] = strides[perm[d]];
    }
    strided_copy(call->pool, &loop, call->inputs[0], call->outputs[0],
                 output_element_bytes(call));
    return IPU_OK;
}

static ipu_status
run_broadcast(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    const ipu_shape *in = &spec->inputs[0].shape;
    int64_t strides[IPU_MAX_RANK];
    ipu__loop loop;
    loop_over(&loop, &spec->outputs[0].shape, 1);
    ipu_shape_strides(in, true, strides);
    for (int32_t d = 0; d < loop.rank; d++) {
        int32_t from = d - (loop.rank - in->rank);
        loop.strides[0][d] = from < 0 ? 0 : strides[from];
    }
    strided_copy(call->pool, &loop, call->inputs[0], call->outputs[0],
                 output_element_bytes(call));
    return IPU_OK;
}

static ipu_status
run_concat(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    const ipu_shape *result = &spec->outputs[0].shape;
    int64_t bytes = output_element_bytes(call);
    int32_t axis =
        ipu__axis(ipu_attrs_int(spec->attrs, IPU_ATTR_AXIS, 0), result->rank);
    int64_t strides[IPU_MAX_RANK];
    int64_t begin = 0;
    ipu_shape_strides(result, false, strides);
    for (uint32_t k = 0; k < spec->input_count; k++) {
        ipu__loop loop;
        loop_over(&loop, &spec->inputs[k].shape, 0);
        memcpy(loop.strides[1], strides, sizeof strides);
        strided_copy(call->pool, &loop, call->inputs[k],
                     ipu__at_mutable(call->outputs[0], begin * strides[axis] * bytes),
                     bytes);
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

static ipu_status
run_slice(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    int64_t bytes = output_element_bytes(call);
    ipu__loop loop;
    loop_over(&loop, &spec->outputs[0].shape, 1);
    int64_t offset =
        slice_strides(spec, &spec->inputs[0].shape, loop.elements == 0,
                      loop.strides[0]);
    strided_copy(call->pool, &loop, ipu__at(call->inputs[0], offset * bytes),
                 call->outputs[0], bytes);
    return IPU_OK;
}

static ipu_status
run_slice_grad(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    int64_t bytes = output_element_bytes(call);
    ipu__loop loop;
    size_t all = ipu_type_bytes(&spec->outputs[0]);
    if (all > 0) {
        memset(call->outputs[0], 0, all);
    }
    loop_over(&loop, &spec->inputs[0].shape, 0);
    int64_t offset =
        slice_strides(spec, &spec->outputs[0].shape, loop.elements == 0,
                      loop.strides[1]);
    strided_copy(call->pool, &loop, call->inputs[0],
                 ipu__at_mutable(call->outputs[0], offset * bytes), bytes);
    return IPU_OK;
}

typedef struct gather_job {
    const ipu_kernel_call *call;
    ipu__gather plan;
    int64_t row; /* bytes */
    int64_t per_task;
} gather_job;

/* The j-th index of row block `outer` (of batch * outer). */
static int64_t
gather_index(const gather_job *job, int32_t input, int64_t outer, int64_t j)
{
    return ipu__integer_load(job->plan.dtype, job->call->inputs[input],
                             outer / job->plan.outer * job->plan.count + j);
}

static void
gather_task(void *state, int32_t task, int32_t worker)
{
    const gather_job *job = state;
    const ipu__gather *plan = &job->plan;
    int64_t begin = task * job->per_task;
    int64_t rows = plan->batch * plan->outer * plan->count;
    int64_t end = ipu__min(begin + job->per_task, rows);
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        int64_t outer = i / plan->count;
        int64_t index = gather_index(job, 1, outer, i % plan->count);
        memcpy(ipu__at_mutable(job->call->outputs[0], i * job->row),
               ipu__at(job->call->inputs[0], (outer * plan->size + index) * job->row),
               (size_t)job->row);
    }
}

static ipu_status
run_gather(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    gather_job job = {.call = call};
    ipu__gather *plan = &job.plan;
    ipu__gather_plan(plan, spec->attrs, &spec->inputs[0].shape, &spec->inputs[1]);
    IPU_TRY(ipu__check_indices(call, plan->dtype, call->inputs[1],
                               plan->batch * plan->count, plan->size));
    job.row = plan->inner * output_element_bytes(call);
    if (job.row > 0) {
        job.per_task = 1 + TASK_ELEMENTS * 4 / job.row;
        int64_t rows = plan->batch * plan->outer * plan->count;
        ipu_pool_run(call->pool, (int32_t)ipu__ceil_div(rows, job.per_task),
                     gather_task, &job);
    }
    return IPU_OK;
}

/* A task owns some columns of the result, for all rows: no two threads add to the same
 * element, and each element is added to in the order of the indices. */
static void
gather_grad_task(void *state, int32_t task, int32_t worker)
{
    const gather_job *job = state;
    const ipu__gather *plan = &job->plan;
    int64_t strips = ipu__ceil_div(plan->inner, job->per_task);
    int64_t outer = task / strips;
    int64_t begin = task % strips * job->per_task;
    int64_t n = ipu__min(plan->inner - begin, job->per_task);
    float *out =
        (float *)job->call->outputs[0] + outer * plan->size * plan->inner + begin;
    const float *dy = (const float *)job->call->inputs[1] +
                      outer * plan->count * plan->inner + begin;
    (void)worker;
    for (int64_t i = 0; i < plan->size; i++) {
        memset(out + i * plan->inner, 0, (size_t)n * sizeof(float));
    }
    for (int64_t j = 0; j < plan->count; j++) {
        float *row = out + gather_index(job, 0, outer, j) * plan->inner;
        const float *add = dy + j * plan->inner;
        for (int64_t i = 0; i < n; i++) {
            row[i] += add[i];
        }
    }
}

static ipu_status
run_gather_grad(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    gather_job job = {.call = call, .per_task = 256};
    ipu__gather *plan = &job.plan;
    ipu__gather_plan(plan, spec->attrs, &spec->outputs[0].shape, &spec->inputs[0]);
    IPU_TRY(ipu__check_indices(call, plan->dtype, call->inputs[0],
                               plan->batch * plan->count, plan->size));
    int64_t strips = ipu__ceil_div(plan->inner, job.per_task);
    ipu_pool_run(call->pool, (int32_t)(plan->batch * plan->outer * strips),
                 gather_grad_task, &job);
    return IPU_OK;
}

static ipu_status
choose(ipu_kernel_spec *spec, ipu_kernel_fn *run, const char *name)
{
    spec->run = run;
    spec->kernel_name = name;
    return IPU_OK;
}

#define CHOOSE(text, name) \
    ipu_status ipu_choose_##text(ipu_ctx *ctx, ipu_kernel_spec *spec, \
                                 ipu_cpu_class cpu) \
    { \
        (void)ctx; \
        (void)cpu; \
        return choose(spec, run_##text, name); \
    }
CHOOSE(transpose, "strided_copy")
CHOOSE(broadcast, "strided_copy")
CHOOSE(concat, "strided_copy")
CHOOSE(slice, "strided_copy")
CHOOSE(slice_grad, "strided_copy")
CHOOSE(gather, "gather_rows")
#undef CHOOSE

ipu_status
ipu_choose_gather_grad(ipu_ctx *ctx, ipu_kernel_spec *spec, ipu_cpu_class cpu)
{
    (void)ctx;
    (void)cpu;
    if (spec->outputs[0].dtype == IPU_DTYPE_FLOAT32) {
        return choose(spec, run_gather_grad, "gather_grad_rows");
    }
    return IPU_OK;
}

static ipu_status
run_one_hot(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    const ipu_shape *result = &spec->outputs[0].shape;
    float on = (float)ipu_attrs_float(spec->attrs, IPU_ATTR_ON_VALUE, 1.0);
    float off = (float)ipu_attrs_float(spec->attrs, IPU_ATTR_OFF_VALUE, 0.0);
    int64_t depth = result->dims[result->rank - 1];
    int64_t rows = ipu_shape_elements(&spec->inputs[0].shape);
    float *out = call->outputs[0];
    for (int64_t row = 0; row < rows; row++) {
        int64_t label = ipu__integer_load(spec->inputs[0].dtype, call->inputs[0], row);
        for (int64_t j = 0; j < depth; j++) {
            out[row * depth + j] = off;
        }
        if (label >= 0 && label < depth) {
            out[row * depth + label] = on;
        }
    }
    return IPU_OK;
}

ipu_status
ipu_choose_one_hot(ipu_ctx *ctx, ipu_kernel_spec *spec, ipu_cpu_class cpu)
{
    int32_t rank = spec->outputs[0].shape.rank;
    (void)ctx;
    (void)cpu;
    if (spec->outputs[0].dtype == IPU_DTYPE_FLOAT32
        && ipu__axis(ipu_attrs_int(spec->attrs, IPU_ATTR_AXIS, -1), rank) == rank - 1) {
        return choose(spec, run_one_hot, "one_hot_rows");
    }
    return IPU_OK;
}
