/* SPDX-License-Identifier: MIT
 *
 * gather, gather_nd and one_hot, for every dtype by its size. Numbers of slices are
 * worked out and checked a block at a time by the task that needs them; where one is out
 * of range nothing is read, and the indices are walked once more to say which. Tasks are
 * contiguous rows of the result. */
#include <stdatomic.h>
#include <string.h>

#include "kernels/core/slices_impl.h"

enum { TASK_BYTES = 65536 };
enum { PREFETCH_BYTES = 1024 }; /* of a slice: from there on the hardware does it */

/* --- numbers of slices ------------------------------------------------------------- */

#define NUMBERS(NAME, suffix, type, ...) \
    case IPU_DTYPE_##NAME: \
        for (int64_t i = 0; i < n; i++) { \
            int64_t index = (int64_t)((const type *)indices)[i * step + axis]; \
            outside |= (uint64_t)index | ((uint64_t)size - 1 - (uint64_t)index); \
            out[i] = axis == 0 ? index : out[i] * size + index; \
        } \
        break;

/* One axis of n points; `step` indices lie between their starts. Inlined for a step of
 * 1, at which loops are vectors. */
IPU_INLINE bool
add_axis(const ipu__points *p, const void *indices, int64_t step, int32_t axis,
         int64_t n, int64_t *out)
{
    int64_t size = p->dims[axis];
    uint64_t outside = 0;
    switch (p->dtype) {
        IPU_INTEGER_LIST(NUMBERS)
    default: /* no other indexes */
        break;
    }
    return outside >> 63 == 0; /* the sign of an index, or of what it is too large by */
}
#undef NUMBERS

bool
ipu__slice_numbers(const ipu__points *p, const void *indices, int64_t first, int64_t n,
                   int64_t *out)
{
    bool inside = true;
    const void *from = ipu__at(
        indices, first * p->depth * (int64_t)ipu_dtype_bytes(p->dtype));
    if (p->depth == 0) {
        memset(out, 0, (size_t)n * sizeof *out);
    } else if (p->depth == 1) {
        return add_axis(p, from, 1, 0, n, out);
    }
    for (int32_t axis = 0; axis < p->depth && inside; axis++) {
        inside = add_axis(p, from, p->depth, axis, n, out);
    }
    return inside;
}

void
ipu__blocks_of_gather(ipu__blocks *b, ipu_attrs attrs, const ipu_shape *params,
                      const ipu_type *indices)
{
    ipu__gather g;
    ipu__gather_plan(&g, attrs, params, indices);
    *b = (ipu__blocks){.points = {.dtype = g.dtype,
                                  .count = g.count,
                                  .depth = 1,
                                  .dims = {g.size},
                                  .inner = g.inner},
                       .lists = g.batch,
                       .blocks = g.batch * g.outer,
                       .per_list = g.outer,
                       .slices = g.size};
}

void
ipu__blocks_of_points(ipu__blocks *b, const ipu_shape *whole, const ipu_type *indices)
{
    *b = (ipu__blocks){.lists = 1, .blocks = 1, .per_list = 1};
    ipu__points_plan(&b->points, whole, indices);
    b->slices = ipu_shape_span(whole, 0, b->points.depth);
}

ipu_status
ipu__blocks_check(const ipu_kernel_call *call, const ipu__blocks *b,
                  const void *indices)
{
    bool along_an_axis = call->spec->op == IPU_OP_ID_GATHER
                         || call->spec->op == IPU_OP_ID_GATHER_GRAD;
    return along_an_axis ? ipu__check_indices(call, b->points.dtype, indices,
                                              b->lists * b->points.count, b->slices)
                         : ipu__points_check(call, &b->points, indices);
}

/* --- gather ----------------------------------------------------------------------- */

/* Prepared. */
typedef struct gather_plan {
    ipu__blocks of;
    int64_t row; /* bytes of a slice */
    int64_t rows;
    int64_t per_task;
} gather_plan;

typedef struct gather_job {
    const ipu_kernel_call *call;
    const gather_plan *plan;
    atomic_bool outside;
} gather_job;

#define COPY(bytes) \
    case bytes: \
        for (int64_t i = 0; i < n; i++) { \
            memcpy(ipu__at_mutable(to, i * (bytes)), \
                   ipu__at(from, numbers[i] * (bytes)), bytes); \
        } \
        break;

/* Short slices by a few moves. */
static void
copy_slices(void *to, const void *from, const int64_t *numbers, int64_t n, int64_t row)
{
    switch (row) {
        COPY(1)
        COPY(2)
        COPY(3)
        COPY(4)
        COPY(6)
        COPY(8)
        COPY(12)
        COPY(16)
        COPY(24)
        COPY(32)
        COPY(64)
    default: /* a slice is on its way to the cache while the one before is copied */
        for (int64_t i = 0; i < n; i++) {
            const char *next = ipu__at(from, numbers[i + 1 < n ? i + 1 : i] * row);
            for (int64_t at = 0; at < ipu__min(row, PREFETCH_BYTES); at += 64) {
                __builtin_prefetch(next + at);
            }
            memcpy(ipu__at_mutable(to, i * row), ipu__at(from, numbers[i] * row),
                   (size_t)row);
        }
        break;
    }
}
#undef COPY

/* Slices [begin, end) of the result. */
static void
gather_some(void *state, int64_t begin, int64_t end)
{
    gather_job *job = state;
    const gather_plan *plan = job->plan;
    const ipu__points *points = &plan->of.points;
    int64_t numbers[IPU_SLICE_BLOCK];
    int64_t i = begin;
    while (i < end) {
        int64_t block = i / points->count;
        int64_t first = i % points->count;
        int64_t n = ipu__min(ipu__min(points->count - first, end - i), IPU_SLICE_BLOCK);
        int64_t list = block / plan->of.per_list;
        if (!ipu__slice_numbers(points, job->call->inputs[1],
                                list * points->count + first, n, numbers)) {
            atomic_store_explicit(&job->outside, true, memory_order_relaxed);
            return;
        }
        copy_slices(ipu__at_mutable(job->call->outputs[0], i * plan->row),
                    ipu__at(job->call->inputs[0], block * plan->of.slices * plan->row),
                    numbers, n, plan->row);
        i += n;
    }
}

static ipu_status
end_gather(const gather_job *job)
{
    return atomic_load_explicit(&job->outside, memory_order_relaxed)
               ? ipu__blocks_check(job->call, &job->plan->of, job->call->inputs[1])
               : IPU_OK;
}

static ipu_status
run_gather(const ipu_kernel_call *call)
{
    const gather_plan *plan = call->spec->prepared;
    gather_job job = {call, plan, false};
    if (plan->row == 0) {
        return ipu__blocks_check(call, &plan->of, call->inputs[1]);
    }
    ipu__run_items(call->pool, plan->rows, plan->per_task, gather_some, &job);
    return end_gather(&job);
}

static ipu_status
run_gather_rows(const ipu_kernel_call *call, int64_t begin, int64_t end)
{
    const gather_plan *plan = call->spec->prepared;
    gather_job job = {call, plan, false};
    int64_t each = plan->rows / call->spec->rows.count;
    gather_some(&job, begin * each, end * each);
    return end_gather(&job);
}

/* Rows of one table, for as many rows of indices. */
static void
offer_rows(ipu_kernel_spec *spec, const gather_plan *plan)
{
    const ipu_shape *indices = &spec->inputs[1].shape;
    if (plan->of.blocks == 1 && plan->row > 0 && plan->rows > 0 && indices->rank > 0) {
        spec->rows = (ipu_kernel_rows){.run = run_gather_rows,
                                       .count = indices->dims[0],
                                       .inputs = 1 << 1};
    }
}

ipu_status
ipu_choose_gather(const ipu__preparation *p)
{
    ipu_kernel_spec *spec = p->spec;
    const ipu_shape *params = &spec->inputs[0].shape;
    const bool along_an_axis = spec->op == IPU_OP_ID_GATHER;
    gather_plan *plan;
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    if (along_an_axis) {
        ipu__blocks_of_gather(&plan->of, spec->attrs, params, &spec->inputs[1]);
    } else {
        ipu__blocks_of_points(&plan->of, params, &spec->inputs[1]);
    }
    plan->row =
        plan->of.points.inner * (int64_t)ipu_dtype_bytes(spec->outputs[0].dtype);
    plan->rows = plan->of.blocks * plan->of.points.count;
    plan->per_task = 1 + TASK_BYTES / (plan->row + 1);
    if (along_an_axis) {
        offer_rows(spec, plan);
    }
    spec->run = run_gather;
    spec->kernel_name = "gather_slices";
    return IPU_OK;
}

/* --- one_hot ---------------------------------------------------------------------- */

/* Prepared: the result as [outer, depth, inner], labels as [outer, inner]. */
typedef struct one_hot_plan {
    int64_t outer;
    int64_t depth;
    int64_t inner;
    int64_t bytes;
    int64_t per_task;
    bool zeros; /* off is all zero bits */
    uint64_t on;
    uint64_t off;
} one_hot_plan;

#define FILL(type) \
    { \
        type *out = (type *)call->outputs[0] + begin * whole; \
        type on = (type)plan->on; \
        if (!plan->zeros) { \
            for (int64_t i = 0; i < (end - begin) * whole; i++) { \
                out[i] = (type)plan->off; \
            } \
        } \
        for (int64_t o = begin; o < end; o++, out += whole) { \
            for (int64_t i = 0; i < plan->inner; i++) { \
                int64_t label = ipu__integer_load(dtype, labels, o * plan->inner + i); \
                if (label >= 0 && label < plan->depth) { \
                    out[label * plan->inner + i] = on; \
                } \
            } \
        } \
    }

static void
make_one_hot(void *state, int64_t begin, int64_t end)
{
    const ipu_kernel_call *call = state;
    const one_hot_plan *plan = call->spec->prepared;
    ipu_dtype dtype = call->spec->inputs[0].dtype;
    const void *labels = call->inputs[0];
    int64_t whole = plan->depth * plan->inner;
    if (plan->zeros && whole > 0) {
        memset(ipu__at_mutable(call->outputs[0], begin * whole * plan->bytes), 0,
               (size_t)((end - begin) * whole * plan->bytes));
    }
    IPU_BY_WIDTH(plan->bytes, FILL)
}
#undef FILL

static ipu_status
run_one_hot(const ipu_kernel_call *call)
{
    const one_hot_plan *plan = call->spec->prepared;
    ipu_kernel_call copy = *call;
    ipu__run_items(call->pool, plan->outer, plan->per_task, make_one_hot, &copy);
    return IPU_OK;
}

/* The bits of an attribute's value in the dtype of the result. */
static uint64_t
bits_of(const ipu_kernel_spec *spec, ipu_attr_key key, double otherwise)
{
    ipu_dtype dtype = spec->outputs[0].dtype;
    uint64_t bits = 0; /* the low ones: bytes are in little order wherever this runs */
    ipu__scalar_store(
        dtype, &bits, 0,
        ipu__scalar_from_double(dtype, ipu_attrs_float(spec->attrs, key, otherwise)));
    return bits;
}

ipu_status
ipu_choose_one_hot(const ipu__preparation *p)
{
    ipu_kernel_spec *spec = p->spec;
    const ipu_shape *result = &spec->outputs[0].shape;
    int32_t axis =
        ipu__axis(ipu_attrs_int(spec->attrs, IPU_ATTR_AXIS, -1), result->rank);
    one_hot_plan *plan;
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    plan->outer = ipu_shape_span(result, 0, axis);
    plan->inner = ipu_shape_span(result, axis + 1, result->rank);
    plan->depth = result->dims[axis];
    plan->bytes = (int64_t)ipu_dtype_bytes(spec->outputs[0].dtype);
    plan->on = bits_of(spec, IPU_ATTR_ON_VALUE, 1.0);
    plan->off = bits_of(spec, IPU_ATTR_OFF_VALUE, 0.0);
    plan->zeros = plan->off == 0;
    plan->per_task = 1 + TASK_BYTES / (1 + plan->depth * plan->inner * plan->bytes);
    spec->run = run_one_hot;
    spec->kernel_name = "one_hot_rows";
    return IPU_OK;
}
