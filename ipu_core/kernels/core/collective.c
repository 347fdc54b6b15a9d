/* SPDX-License-Identifier: MIT
 *
 * Collectives, and the kernels of their ops for a replica that is alone. A task takes a
 * run of elements of all replicas of a group, adds them up in a buffer that stays in
 * the first-level cache, and writes the sum to all of them. */
#include "kernels/core/collective.h"

#include <inttypes.h>

#include "kernels/core/kernel_impl.h"

enum { PIECE = IPU_BLOCK_BYTES / 4, TASK_PIECES = 16 };

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

ipu_status
ipu_choose_all_reduce(const ipu__preparation *p)
{
    ipu_cpu_class *cpu;
    IPU_TRY(ipu__prepared(p, sizeof *cpu, &cpu));
    *cpu = p->cpu;
    return IPU_OK;
}

static uint32_t
group_size(const ipu_kernel_spec *spec, uint32_t replicas)
{
    int64_t size = ipu_attrs_int(spec->attrs, IPU_ATTR_GROUP_SIZE, 0);
    return size == 0 ? replicas : (uint32_t)size;
}

ipu_status
ipu_collective_check(ipu_ctx *ctx, const ipu_kernel_spec *spec, uint32_t replicas)
{
    uint32_t group = group_size(spec, replicas);
    IPU_FAIL_IF(ctx, group > replicas || replicas % group != 0, INVALID_ARGUMENT,
                "replica_group_size %" PRIu32 " does not divide the %" PRIu32
                " replicas of the program",
                group, replicas);
    return IPU_OK;
}

typedef struct all_reduce {
    const ipu_collective_call *call;
    ipu_dtype dtype;
    ipu_cpu_class cpu;
    int64_t elements;
    int64_t group_tasks;
    uint32_t group;
    bool is_mean;
} all_reduce;

static void
load_f32(const all_reduce *a, uint32_t replica, int64_t at, int64_t n, float *out)
{
    const void *from = a->call->inputs[replica];
    if (a->dtype == IPU_DTYPE_FLOAT16) {
        ipu__halves_to_floats(out, (const uint16_t *)from + at, n, a->cpu);
    } else {
        memcpy(out, (const float *)from + at, (size_t)n * sizeof(float));
    }
}

static void
store_f32(const all_reduce *a, uint32_t replica, int64_t at, int64_t n,
          const float *sums)
{
    void *to = a->call->outputs[replica];
    if (a->dtype == IPU_DTYPE_FLOAT16) {
        ipu__floats_to_halves((uint16_t *)to + at, sums, n, a->cpu);
    } else {
        memcpy((float *)to + at, sums, (size_t)n * sizeof(float));
    }
}

static void
reduce_f32(const all_reduce *a, uint32_t first, int64_t at, int64_t n)
{
    float sums[PIECE];
    float more[PIECE];
    float size = (float)a->group;
    load_f32(a, first, at, n, sums);
    for (uint32_t r = 1; r < a->group; r++) {
        load_f32(a, first + r, at, n, more);
        ipu__vector_f32_of(a->cpu)->add(sums, sums, more, n);
    }
    for (int64_t i = 0; a->is_mean && i < n; i++) {
        sums[i] = sums[i] / size;
    }
    for (uint32_t r = 0; r < a->group; r++) {
        store_f32(a, first + r, at, n, sums);
    }
}

/* Of the other dtypes, which wrap or are float64. */
static void
reduce_scalars(const all_reduce *a, uint32_t first, int64_t at, int64_t n)
{
    for (int64_t i = at; i < at + n; i++) {
        ipu__scalar sum = ipu__scalar_load(a->dtype, a->call->inputs[first], i);
        for (uint32_t r = 1; r < a->group; r++) {
            ipu__scalar terms[3] = {sum, {.i = 0}, {.i = 0}};
            terms[1] = ipu__scalar_load(a->dtype, a->call->inputs[first + r], i);
            (void)ipu__scalar_apply(IPU_OP_ID_ADD, a->dtype, a->dtype, terms, &sum);
        }
        if (a->is_mean) {
            sum.f /= (double)a->group;
        }
        for (uint32_t r = 0; r < a->group; r++) {
            ipu__scalar_store(a->dtype, a->call->outputs[first + r], i, sum);
        }
    }
}

static void
reduce_task(void *state, int32_t task, int32_t worker)
{
    const all_reduce *a = state;
    uint32_t first = (uint32_t)(task / a->group_tasks) * a->group;
    int64_t begin = task % a->group_tasks * TASK_PIECES * PIECE;
    int64_t end = ipu__min(begin + TASK_PIECES * PIECE, a->elements);
    bool is_narrow = a->dtype == IPU_DTYPE_FLOAT32 || a->dtype == IPU_DTYPE_FLOAT16;
    (void)worker;
    for (int64_t at = begin; at < end; at += PIECE) {
        int64_t n = ipu__min(end - at, PIECE);
        (is_narrow ? reduce_f32 : reduce_scalars)(a, first, at, n);
    }
}

void
ipu_collective_run(const ipu_collective_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    const ipu_cpu_class *cpu = spec->prepared;
    int64_t reduction = ipu_attrs_int(spec->attrs, IPU_ATTR_REDUCTION, 0);
    all_reduce a = {.call = call,
                    .dtype = spec->outputs[0].dtype,
                    .cpu = cpu == NULL ? IPU_CPU_GENERIC : *cpu,
                    .elements = ipu_shape_elements(&spec->outputs[0].shape),
                    .group = group_size(spec, call->replicas),
                    .is_mean = reduction == IPU_ALL_REDUCE_MEAN};
    a.group_tasks = ipu__ceil_div(a.elements, TASK_PIECES * PIECE);
    int64_t tasks = a.group_tasks * (call->replicas / a.group);
    ipu_pool_run(call->pool, (int32_t)tasks, reduce_task, &a);
}
