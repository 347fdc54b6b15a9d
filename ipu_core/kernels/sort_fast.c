/* SPDX-License-Identifier: MIT
 *
 * top_k: (key, place) pairs of a row, where keys are unsigned integers in the order of
 * the values, go through a bottom-up merge sort in the workspace. Calling thread
 * only. */
#include "kernels/kernel_impl.h"

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
    bool ascending = *(const bool *)spec->prepared;
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
ipu_choose_top_k(const ipu__preparation *p)
{
    const ipu_shape *shape = &p->spec->inputs[0].shape;
    size_t row = (size_t)shape->dims[shape->rank - 1];
    bool *ascending;
    IPU_TRY(ipu__prepared(p, sizeof *ascending, &ascending));
    *ascending = ipu_attrs_int(p->spec->attrs, IPU_ATTR_ASCENDING, 0) != 0;
    p->spec->workspace_bytes = row * 2 * sizeof(pair);
    p->spec->run = run_top_k;
    p->spec->kernel_name = "merge_sort";
    return IPU_OK;
}
