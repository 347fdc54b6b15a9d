/* SPDX-License-Identifier: MIT
 *
 * Fast kernels of running totals, sorting and points, and the `choose` column of linear
 * algebra, which has reference kernels alone.
 *
 * cumsum and cumprod of float32: rows of the axes behind the scanned one are joined
 * side by side; along the last axis a line is walked in order. Both accumulate in
 * double and round each result once, as the reference does. top_k: (key, place) pairs
 * of a row, where keys are unsigned integers in the order of the values, go through a
 * bottom-up merge sort in the workspace. Points: slices are copied or joined one
 * after another. Everything on the calling thread, except that scans cut the lines into
 * tasks. */
#include <string.h>

#include "kernels/kernel_impl.h"

enum { TASK_ELEMENTS = 16384, LANES = 64 };

static ipu_status
choose(ipu_kernel_spec *spec, ipu_kernel_fn *run, const char *name)
{
    spec->run = run;
    spec->kernel_name = name;
    return IPU_OK;
}

/* --- running totals --------------------------------------------------------------- */

typedef struct scan_job {
    const float *x;
    float *out;
    int64_t size;   /* of the axis */
    int64_t inner;  /* elements behind it */
    int64_t strips; /* LANES of those */
    int64_t count;  /* strips of all lines */
    int64_t per_task;
    bool product;
    bool exclusive;
    bool reverse;
} scan_job;

/* Up to LANES neighbouring lines at once. */
static void
scan_strip(const scan_job *job, int64_t base, int64_t n)
{
    double totals[LANES];
    for (int64_t j = 0; j < n; j++) {
        totals[j] = job->product ? 1.0 : 0.0;
    }
    for (int64_t i = 0; i < job->size; i++) {
        int64_t row = job->reverse ? job->size - 1 - i : i;
        const float *x = job->x + base + row * job->inner;
        float *out = job->out + base + row * job->inner;
        for (int64_t j = 0; j < n; j++) {
            double before = totals[j];
            double element = (double)x[j];
            totals[j] = i == 0         ? element
                        : job->product ? before * element
                                       : before + element;
            out[j] = (float)(job->exclusive ? before : totals[j]);
        }
    }
}

static void
scan_task(void *state, int32_t task, int32_t worker)
{
    const scan_job *job = state;
    int64_t begin = task * job->per_task;
    int64_t end = ipu__min(begin + job->per_task, job->count);
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        int64_t column = i % job->strips * LANES;
        int64_t base = i / job->strips * job->size * job->inner + column;
        scan_strip(job, base, ipu__min(LANES, job->inner - column));
    }
}

static ipu_status
run_scan(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    const ipu_shape *shape = &spec->inputs[0].shape;
    int32_t axis = ipu__axis(ipu_attrs_int(spec->attrs, IPU_ATTR_AXIS, 0), shape->rank);
    int64_t elements = ipu_shape_elements(shape);
    scan_job job = {.x = call->inputs[0],
                    .out = call->outputs[0],
                    .size = shape->dims[axis],
                    .inner = 1,
                    .product = spec->op == IPU_OP_ID_CUMPROD,
                    .exclusive = ipu_attrs_int(spec->attrs, IPU_ATTR_EXCLUSIVE, 0) != 0,
                    .reverse = ipu_attrs_int(spec->attrs, IPU_ATTR_REVERSE, 0) != 0};
    if (elements == 0) {
        return IPU_OK;
    }
    for (int32_t d = axis + 1; d < shape->rank; d++) {
        job.inner *= shape->dims[d];
    }
    job.strips = ipu__ceil_div(job.inner, LANES);
    job.count = elements / job.size / job.inner * job.strips;
    job.per_task = 1 + TASK_ELEMENTS / (job.size * ipu__min(job.inner, LANES));
    ipu_pool_run(call->pool, (int32_t)ipu__ceil_div(job.count, job.per_task), scan_task,
                 &job);
    return IPU_OK;
}

static ipu_status
choose_scan(ipu_kernel_spec *spec)
{
    return spec->inputs[0].dtype == IPU_DTYPE_FLOAT32 ? choose(spec, run_scan, "scan")
                                                      : IPU_OK;
}

/* --- order ------------------------------------------------------------------------ */

typedef struct pair {
    uint64_t key;
    int64_t place;
} pair;

/* An unsigned number in the order of the values; all NaN are one, the largest, and the
 * two zeros are one. */
static uint64_t
key_of(ipu_dtype dtype, const void *base, int64_t i)
{
    ipu__scalar value = ipu__scalar_load(dtype, base, i);
    const uint64_t top = UINT64_C(1) << 63;
    switch (ipu_dtype_kind(dtype)) {
    case 'f':
        if (value.f != value.f) {
            return UINT64_MAX;
        }
        value.f = value.f == 0.0 ? 0.0 : value.f;
        return (value.u & top) != 0 ? ~value.u : value.u | top;
    case 'i':
        return value.u ^ top;
    default:
        return value.u;
    }
}

/* Sorts x by key, equal ones as they stood; `other` has as much room. Gives the one of
 * the two that holds the result. */
static pair *
merge_sort(pair *x, pair *other, int64_t n)
{
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t begin = 0; begin < n; begin += 2 * width) {
            int64_t middle = ipu__min(begin + width, n);
            int64_t end = ipu__min(begin + 2 * width, n);
            int64_t a = begin;
            int64_t b = middle;
            for (int64_t i = begin; i < end; i++) {
                bool first = a < middle && (b == end || x[a].key <= x[b].key);
                other[i] = first ? x[a++] : x[b++];
            }
        }
        pair *sorted = other;
        other = x;
        x = sorted;
    }
    return x;
}

static ipu_status
run_top_k(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    const ipu_type *type = &spec->inputs[0];
    bool ascending = ipu_attrs_int(spec->attrs, IPU_ATTR_ASCENDING, 0) != 0;
    size_t bytes = ipu_dtype_bytes(type->dtype);
    int64_t n = type->shape.dims[type->shape.rank - 1];
    int64_t k = spec->outputs[0].shape.dims[type->shape.rank - 1];
    int64_t rows = k == 0 ? 0 : ipu_shape_elements(&spec->outputs[0].shape) / k;
    int32_t *places = call->outputs[1];
    for (int64_t row = 0; row < rows; row++) {
        pair *pairs = call->workspace;
        for (int64_t i = 0; i < n; i++) {
            uint64_t key = key_of(type->dtype, call->inputs[0], row * n + i);
            pairs[i] = (pair){ascending ? key : ~key, i};
        }
        const pair *sorted = merge_sort(pairs, pairs + n, n);
        for (int64_t j = 0; j < k; j++) {
            int64_t from = row * n + sorted[j].place;
            places[row * k + j] = (int32_t)sorted[j].place;
            memcpy(ipu__at_mutable(call->outputs[0], (row * k + j) * (int64_t)bytes),
                   ipu__at(call->inputs[0], from * (int64_t)bytes), bytes);
        }
    }
    return IPU_OK;
}

ipu_status
ipu_choose_top_k(ipu_ctx *ctx, ipu_kernel_spec *spec, ipu_cpu_class cpu)
{
    const ipu_shape *shape = &spec->inputs[0].shape;
    (void)ctx;
    (void)cpu;
    spec->workspace_bytes = (size_t)shape->dims[shape->rank - 1] * 2 * sizeof(pair);
    return choose(spec, run_top_k, "merge_sort");
}

/* --- what the reference kernels serve --------------------------------------------- */

#define CHOOSE(text, body) \
    ipu_status ipu_choose_##text(ipu_ctx *ctx, ipu_kernel_spec *spec, \
                                 ipu_cpu_class cpu) \
    { \
        (void)ctx; \
        (void)spec; \
        (void)cpu; \
        return body; \
    }
CHOOSE(cumsum, choose_scan(spec))
CHOOSE(cumprod, choose_scan(spec))
CHOOSE(cholesky, IPU_OK)
CHOOSE(triangular_solve, IPU_OK)
CHOOSE(solve, IPU_OK)
CHOOSE(det, IPU_OK)
CHOOSE(slogdet, IPU_OK)
#undef CHOOSE
