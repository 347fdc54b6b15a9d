/* SPDX-License-Identifier: MIT
 *
 * Collectives, and the kernels of their ops for a replica that is alone. A task takes a
 * run of elements of all terms of a sum, adds them up in buffers that stay in the
 * first-level cache, and writes the sum to all outputs. */
#include "kernels/core/collective.h"

#include <inttypes.h>

#include "kernels/core/kernel_impl.h"

enum { PIECE = IPU_BLOCK_BYTES / 4, TASK_PIECES = 16 };

/* Terms of a piece on their way: float, or one of the other dtypes. */
typedef union numbers {
    float f32[PIECE];
    ipu__scalar scalars[PIECE];
} numbers;

ipu_status
ipu_reference_replica_index(const ipu_kernel_call *call)
{
    int32_t index = (int32_t)call->random.replica;
    memcpy(call->outputs[0], &index, sizeof(index));
    return IPU_OK;
}

/* The sum, and the mean, of one. */
ipu_status
ipu_reference_all_reduce(const ipu_kernel_call *call)
{
    size_t bytes = ipu_type_bytes(&call->spec->outputs[0]);
    if (call->outputs[0] != call->inputs[0] && bytes > 0) {
        memcpy(call->outputs[0], call->inputs[0], bytes);
    }
    return IPU_OK;
}

/* The parts of one, who meets nobody else. */
ipu_status
ipu_reference_all_gather(const ipu_kernel_call *call)
{
    IPU_TRY(ipu_collective_check(call->ctx, call->spec, 1));
    return ipu_reference_all_reduce(call);
}

ipu_status
ipu_choose_all_reduce(const ipu__preparation *p)
{
    ipu_cpu_class *cpu;
    IPU_TRY(ipu__prepared(p, sizeof *cpu, &cpu));
    *cpu = p->cpu;
    return IPU_OK;
}

uint32_t
ipu_collective_group(const ipu_kernel_spec *spec, uint32_t replicas)
{
    int64_t size = ipu_attrs_int(spec->attrs, IPU_ATTR_GROUP_SIZE, 0);
    return size == 0 ? replicas : (uint32_t)size;
}

ipu_status
ipu_collective_check(ipu_ctx *ctx, const ipu_kernel_spec *spec, uint32_t replicas)
{
    uint32_t group = ipu_collective_group(spec, replicas);
    IPU_FAIL_IF(ctx, group > replicas || replicas % group != 0, INVALID_ARGUMENT,
                "%s %" PRIu32 " does not divide the %" PRIu32
                " replicas of the program",
                spec->op == IPU_OP_ID_ALL_REDUCE ? "replica_group_size"
                                                 : "replication_factor",
                group, replicas);
    return IPU_OK;
}

ipu_dtype
ipu_sum_dtype(const ipu_kernel_spec *spec)
{
    ipu_dtype dtype = spec->outputs[0].dtype;
    return dtype == IPU_DTYPE_FLOAT16 ? IPU_DTYPE_FLOAT32 : dtype;
}

uint32_t
ipu_sum_cut(uint32_t first, uint32_t last)
{
    uint32_t size = 1;
    while (2 * size < last - first) {
        size *= 2;
    }
    return first + size;
}

/* --- one piece -------------------------------------------------------------------- */

typedef struct summing {
    const ipu_sum *sum;
    ipu_dtype dtype; /* of the op */
    ipu_cpu_class cpu;
    bool is_f32; /* added so; else as scalars, which wrap or are float64 */
    bool is_mean;
} summing;

static void
load(const summing *s, const ipu_sum_term *term, int64_t at, int64_t n, numbers *out)
{
    int64_t from = at - term->begin;
    if (!s->is_f32) {
        for (int64_t i = 0; i < n; i++) {
            out->scalars[i] = ipu__scalar_load(s->dtype, term->data, from + i);
        }
    } else if (s->dtype == IPU_DTYPE_FLOAT16 && !term->is_wide) {
        const uint16_t *halves = (const uint16_t *)term->data + from;
        ipu__halves_to_floats(out->f32, halves, n, s->cpu);
    } else {
        memcpy(out->f32, (const float *)term->data + from, (size_t)n * sizeof(float));
    }
}

static void
add(const summing *s, numbers *sums, const numbers *more, int64_t n)
{
    if (s->is_f32) {
        ipu__vector_f32_of(s->cpu)->add(sums->f32, sums->f32, more->f32, n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        ipu__scalar terms[3] = {sums->scalars[i], more->scalars[i], {.i = 0}};
        (void)ipu__scalar_apply(IPU_OP_ID_ADD, s->dtype, s->dtype, terms,
                                &sums->scalars[i]);
    }
}

static void
store(const summing *s, numbers *sums, int64_t at, int64_t n, void *output)
{
    at -= s->sum->output_begin;
    if (!s->is_f32) {
        for (int64_t i = 0; i < n; i++) {
            ipu__scalar_store(s->dtype, output, at + i, sums->scalars[i]);
        }
    } else if (s->dtype == IPU_DTYPE_FLOAT16 && !s->sum->is_partial) {
        ipu__floats_to_halves((uint16_t *)output + at, sums->f32, n, s->cpu);
    } else {
        memcpy((float *)output + at, sums->f32, (size_t)n * sizeof(float));
    }
}

/* The node of the tree, from the next terms on; returns the term after them. */
static const ipu_sum_term *
sum_node(const summing *s, const ipu_sum_term *term, uint32_t first, uint32_t last,
         int64_t at, int64_t n, numbers *out)
{
    if (term->last == last) { /* terms are nodes: it begins with `first`, too */
        load(s, term, at, n, out);
        return term + 1;
    }
    numbers right;
    uint32_t cut = ipu_sum_cut(first, last);
    term = sum_node(s, term, first, cut, at, n, out);
    term = sum_node(s, term, cut, last, at, n, &right);
    add(s, out, &right, n);
    return term;
}

static void
sum_piece(const summing *s, int64_t at, int64_t n)
{
    const ipu_sum *sum = s->sum;
    numbers sums;
    sum_node(s, sum->terms, sum->first, sum->last, at, n, &sums);
    for (int64_t i = 0; s->is_mean && i < n; i++) {
        if (s->is_f32) {
            sums.f32[i] /= (float)sum->group;
        } else {
            sums.scalars[i].f /= (double)sum->group;
        }
    }
    for (uint32_t i = 0; i < sum->output_count; i++) {
        store(s, &sums, at, n, sum->outputs[i]);
    }
}

static void
sum_task(void *state, int32_t task, int32_t worker)
{
    const summing *s = state;
    int64_t begin = s->sum->begin + (int64_t)task * TASK_PIECES * PIECE;
    int64_t end = ipu__min(begin + TASK_PIECES * PIECE, s->sum->end);
    (void)worker;
    for (int64_t at = begin; at < end; at += PIECE) {
        sum_piece(s, at, ipu__min(end - at, PIECE));
    }
}

void
ipu_sum_run(const ipu_sum *sum, ipu_pool *pool)
{
    const ipu_cpu_class *cpu = sum->spec->prepared;
    int64_t reduction = ipu_attrs_int(sum->spec->attrs, IPU_ATTR_REDUCTION, 0);
    ipu_dtype dtype = sum->spec->outputs[0].dtype;
    summing s = {.sum = sum,
                 .dtype = dtype,
                 .cpu = cpu == NULL ? IPU_CPU_GENERIC : *cpu,
                 .is_f32 = ipu_sum_dtype(sum->spec) == IPU_DTYPE_FLOAT32,
                 .is_mean = !sum->is_partial && reduction == IPU_ALL_REDUCE_MEAN};
    int64_t tasks = ipu__ceil_div(sum->end - sum->begin, TASK_PIECES * PIECE);
    ipu_pool_run(pool, (int32_t)tasks, sum_task, &s);
}
