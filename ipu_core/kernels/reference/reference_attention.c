/* SPDX-License-Identifier: MIT
 *
 * attention and its gradient as ops.def says them, a query at a time, in double. With
 * weights w = softmax(scores), dropped out to u, and y = u v:
 *
 *     dv = u^T dy     dw = drop(dy v^T)     ds = w (dw - sum(dw w)) scale
 *     dq = ds k       dk = ds^T q
 *
 * Calling thread only. */
#include <math.h>

#include "kernels/attention/attention_impl.h"

ipu__attention
ipu__attention_of(const ipu_kernel_spec *spec)
{
    const int64_t *q = spec->inputs[0].shape.dims;
    const int64_t *v = spec->inputs[2].shape.dims;
    int64_t given = ipu_attrs_int(spec->attrs, IPU_ATTR_GIVEN, 0);
    int32_t next = spec->op == IPU_OP_ID_ATTENTION ? 3 : 4;
    ipu__attention a = {
        .dtype = spec->inputs[0].dtype,
        .batch = q[0],
        .heads = q[1],
        .queries = q[2],
        .keys = v[2],
        .size = q[3],
        .value_size = v[3],
        .scale = ipu_attrs_float(spec->attrs, IPU_ATTR_SCALE, 1.0),
        .divides = ipu_attrs_int(spec->attrs, IPU_ATTR_DIVIDES, 0) != 0,
        .hidden = ipu_attrs_float(spec->attrs, IPU_ATTR_HIDDEN, -1e9), /* as Keras */
        .replaces = ipu_attrs_int(spec->attrs, IPU_ATTR_REPLACES, 0) != 0,
        .causal = ipu_attrs_int(spec->attrs, IPU_ATTR_CAUSAL, 0) != 0,
        .rate = ipu_attrs_float(spec->attrs, IPU_ATTR_RATE, 0.0),
        .mask = -1,
        .key = -1,
    };
    a.kept = (double)(float)(1.0 / (1.0 - a.rate));
    if ((given & IPU_ATTENTION_MASK) != 0) {
        const int64_t *dims = spec->inputs[next].shape.dims;
        a.mask = next++;
        a.mask_steps[2] = dims[2] == 1 ? 0 : dims[3];
        a.mask_steps[1] = dims[1] == 1 ? 0 : dims[2] * dims[3];
        a.mask_steps[0] = dims[0] == 1 ? 0 : dims[1] * dims[2] * dims[3];
    }
    if ((given & IPU_ATTENTION_KEY) != 0) {
        a.key = next;
    }
    return a;
}

typedef struct attention_call {
    const ipu_kernel_call *call;
    ipu__attention a;
    double *weights; /* of a query */
    double *slopes;  /* gradients of weights, then of scores */
    double *dk;      /* of a matrix */
    double *dv;
} attention_call;

size_t
ipu__attention_reference_bytes(const ipu_kernel_spec *spec)
{
    ipu__attention a = ipu__attention_of(spec);
    return (size_t)(a.keys * (2 + a.size + a.value_size)) * sizeof(double);
}

static attention_call
begin(const ipu_kernel_call *call)
{
    attention_call c = {.call = call, .a = ipu__attention_of(call->spec)};
    c.weights = call->workspace;
    c.slopes = c.weights + c.a.keys;
    c.dk = c.slopes + c.a.keys;
    c.dv = c.dk + c.a.keys * c.a.size;
    return c;
}

static double
input(const attention_call *c, uint32_t i, int64_t at)
{
    return ipu__scalar_load(c->a.dtype, c->call->inputs[i], at).f;
}

static void
output(const attention_call *c, uint32_t i, int64_t at, double x)
{
    ipu__scalar_store(c->a.dtype, c->call->outputs[i], at, (ipu__scalar){.f = x});
}

/* Row `row` of input i by row `other` of input j. */
static double
dot(const attention_call *c, uint32_t i, int64_t row, uint32_t j, int64_t other,
    int64_t n)
{
    double sum = 0.0;
    for (int64_t e = 0; e < n; e++) {
        sum += input(c, i, row * n + e) * input(c, j, other * n + e);
    }
    return sum;
}

/* 0 for the weight of this key that is dropped, else what it is multiplied by. */
static double
factor(const attention_call *c, int64_t query, int64_t key)
{
    uint64_t place = (uint64_t)(query * c->a.keys + key);
    uint32_t words[4];
    if (c->a.key < 0) {
        return 1.0;
    }
    ipu_random_key random = ipu__attention_key(&c->a, c->call);
    ipu_random_block(&random, place / 4, words);
    return (double)ipu__uniform_f32(words[place % 4]) >= c->a.rate ? c->a.kept : 0.0;
}

static double
scaled(const ipu__attention *a, double x)
{
    return a->divides ? x / a->scale : x * a->scale;
}

static double
hide(const ipu__attention *a, double x)
{
    return a->replaces ? a->hidden : x + a->hidden;
}

/* The weights of a query, before any is dropped. */
static void
make_weights(const attention_call *c, int64_t matrix, int64_t query)
{
    const ipu__attention *a = &c->a;
    const uint8_t *mask = ipu__attention_mask(a, c->call, matrix, query);
    int64_t row = matrix * a->queries + query;
    double max = -INFINITY;
    double sum = 0.0;
    for (int64_t j = 0; j < a->keys; j++) {
        double x = scaled(a, dot(c, 0, row, 1, matrix * a->keys + j, a->size));
        x = mask == NULL || mask[j] != 0 ? x : hide(a, x);
        x = !a->causal || j <= query ? x : hide(a, x);
        c->weights[j] = x;
        max = x > max || isnan(x) ? x : max;
    }
    for (int64_t j = 0; j < a->keys; j++) {
        c->weights[j] = exp(c->weights[j] - max);
        sum += c->weights[j];
    }
    for (int64_t j = 0; j < a->keys; j++) {
        c->weights[j] /= sum;
    }
}

ipu_status
ipu_reference_attention(const ipu_kernel_call *call)
{
    attention_call c = begin(call);
    const ipu__attention *a = &c.a;
    for (int64_t i = 0; i < a->batch * a->heads * a->queries; i++) {
        int64_t matrix = i / a->queries;
        make_weights(&c, matrix, i % a->queries);
        for (int64_t e = 0; e < a->value_size; e++) {
            double sum = 0.0;
            for (int64_t j = 0; j < a->keys; j++) {
                sum += c.weights[j] * factor(&c, i, j) *
                       input(&c, 2, (matrix * a->keys + j) * a->value_size + e);
            }
            output(&c, 0, i * a->value_size + e, sum);
        }
    }
    return IPU_OK;
}

/* The share of query i, of all. */
static void
add_query(const attention_call *c, int64_t matrix, int64_t i)
{
    const ipu__attention *a = &c->a;
    const uint8_t *mask = ipu__attention_mask(a, c->call, matrix, i % a->queries);
    double sum = 0.0;
    make_weights(c, matrix, i % a->queries);
    for (int64_t j = 0; j < a->keys; j++) {
        double kept = factor(c, i, j);
        c->slopes[j] = kept * dot(c, 3, i, 2, matrix * a->keys + j, a->value_size);
        sum += c->slopes[j] * c->weights[j];
        for (int64_t e = 0; e < a->value_size; e++) {
            c->dv[j * a->value_size + e] +=
                c->weights[j] * kept * input(c, 3, i * a->value_size + e);
        }
    }
    for (int64_t j = 0; j < a->keys; j++) {
        bool is_seen = (mask == NULL || mask[j] != 0) &&
                       (!a->causal || j <= i % a->queries);
        c->slopes[j] = scaled(a, c->weights[j] * (c->slopes[j] - sum));
        c->slopes[j] = a->replaces && !is_seen ? 0.0 : c->slopes[j];
        for (int64_t e = 0; e < a->size; e++) {
            c->dk[j * a->size + e] += c->slopes[j] * input(c, 0, i * a->size + e);
        }
    }
    for (int64_t e = 0; e < a->size; e++) {
        double dq = 0.0;
        for (int64_t j = 0; j < a->keys; j++) {
            dq += c->slopes[j] * input(c, 1, (matrix * a->keys + j) * a->size + e);
        }
        output(c, 0, i * a->size + e, dq);
    }
}

ipu_status
ipu_reference_attention_grad(const ipu_kernel_call *call)
{
    attention_call c = begin(call);
    const ipu__attention *a = &c.a;
    for (int64_t matrix = 0; matrix < a->batch * a->heads; matrix++) {
        int64_t rows = matrix * a->keys;
        memset(c.dk, 0, (size_t)(a->keys * a->size) * sizeof(double));
        memset(c.dv, 0, (size_t)(a->keys * a->value_size) * sizeof(double));
        for (int64_t i = 0; i < a->queries; i++) {
            add_query(&c, matrix, matrix * a->queries + i);
        }
        for (int64_t e = 0; e < a->keys * a->size; e++) {
            output(&c, 1, rows * a->size + e, c.dk[e]);
        }
        for (int64_t e = 0; e < a->keys * a->value_size; e++) {
            output(&c, 2, rows * a->value_size + e, c.dv[e]);
        }
    }
    return IPU_OK;
}
