/* SPDX-License-Identifier: MIT
 *
 * The fast kernels of all element-wise ops and of fused_elementwise. An op by itself
 * is a micro-program of one instruction, so both run the same code: the result is cut
 * into tasks of a fixed number of elements, a task into blocks that fit the
 * first-level cache, and each block goes through the instructions' block functions
 * (blocks.c). All of that is worked out when the kernel is prepared. Operands that lie
 * as the result does are read in place; broadcast ones are expanded into a buffer on
 * the stack, those that are the same in every block once per task. Threads take tasks;
 * the cut depends on the shape alone. A run allocates nothing. */
#include <stdatomic.h>
#include <string.h>

#include "kernels/core/kernel_impl.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    TASK_ELEMENTS = 16384,
    HEAVY_TASK_ELEMENTS = 4096, /* for exp and the like */
    LONG_ROW = 256,             /* blocks then end where a row ends */
    SHORT_ROW_BYTES = 32,       /* a column of shorter ones is written out */
    LARGE_RESULT = 32 << 20     /* bytes: no cache keeps it until it is read */
};

/* REPEATED: a block is whole turns of the operand, which is one number or a short row.
 * COLUMN: it has one number for each row, and is read as it lies. */
typedef enum layout {
    LAYOUT_DENSE,
    LAYOUT_REPEATED,
    LAYOUT_STRIDED,
    LAYOUT_COLUMN
} layout;

/* `rows` rows of n elements each, `strides` elements apart. */
typedef void expand_rows_fn(void *target, const void *source, const int64_t strides[2],
                            int64_t rows, int64_t n, int64_t bytes);

typedef struct element_step {
    ipu__block block;
    int32_t operands[3];
    int32_t slot; /* of the result among the temporaries; -1: the output */
    bool by_column;
} element_step;

typedef struct element_job element_job;

/* Prepared. */
typedef struct element_plan {
    ipu__items_fn *run;
    ipu__loop loop;
    layout layouts[IPU_FUSED_MAX_INPUTS];
    int64_t input_bytes[IPU_FUSED_MAX_INPUTS]; /* of one element */
    int64_t output_bytes;
    int64_t task_elements;
    int64_t block_elements;
    int32_t inputs;
    int32_t steps;
    bool by_rows; /* blocks end where a row ends, so that operands are read in place */
    bool past_caches; /* where the result is stored */
    expand_rows_fn *expand_rows;
    element_step step[];
} element_plan;

struct element_job {
    const element_plan *plan;
    const ipu_kernel_call *call;
    bool past_caches; /* as planned, and the result lies in no operand's place */
    atomic_int fault;
};

/* 64-byte aligned, so that vectors never straddle cache lines. */
typedef struct buffer {
    _Alignas(64) unsigned char bytes[IPU_BLOCK_BYTES];
} buffer;

#define EXPAND(type) \
    { \
        type *to = target; \
        for (int64_t r = 0; r < rows; r++, to += n) { \
            const type *from = (const type *)source + r * strides[0]; \
            if (strides[1] == 0) { \
                const type value = from[0]; \
                for (int64_t i = 0; i < n; i++) { \
                    to[i] = value; \
                } \
            } else { \
                for (int64_t i = 0; i < n; i++) { \
                    to[i] = from[i * strides[1]]; \
                } \
            } \
        } \
    }
#define EXPAND_ROWS(name, attribute) \
    attribute static void name(void *target, const void *source, \
                               const int64_t strides[2], int64_t rows, int64_t n, \
                               int64_t bytes) \
    { \
        for (int64_t r = 0; strides[1] == 1 && r < rows; r++) { \
            memcpy(ipu__at_mutable(target, r * n * bytes), \
                   ipu__at(source, r * strides[0] * bytes), (size_t)(n * bytes)); \
        } \
        if (strides[1] == 1) { \
            return; \
        } \
        IPU_BY_WIDTH(bytes, EXPAND) \
    }
EXPAND_ROWS(expand_rows_generic, )
EXPAND_ROWS(expand_rows_avx2, IPU_TARGET_AVX2)

/* Elements [position, position + n) of an operand as the result sees them. */
static void
expand(const element_plan *plan, int32_t operand, const void *source, int64_t position,
       int64_t n, void *target)
{
    const ipu__loop *loop = &plan->loop;
    const int64_t bytes = plan->input_bytes[operand];
    const int32_t last = loop->rank - 1;
    const int64_t row = loop->dims[last];
    const int64_t above = last > 0 ? loop->dims[last - 1] : 1; /* rows side by side */
    const int64_t strides[2] = {last > 0 ? loop->strides[operand][last - 1] : 0,
                                loop->strides[operand][last]};
    for (int64_t done = 0; done < n;) {
        const int64_t at = position + done;
        const bool is_whole = at % row == 0 && n - done >= row;
        const int64_t rows =
            is_whole ? ipu__min(above - at / row % above, (n - done) / row) : 1;
        const int64_t count = is_whole ? row : ipu__min(row - at % row, n - done);
        plan->expand_rows(ipu__at_mutable(target, done * bytes),
                          ipu__at(source, ipu__loop_offset(loop, operand, at) * bytes),
                          strides, rows, count, bytes);
        done += rows * count;
    }
}

static const void *
operand_block(const element_job *job, int32_t k, int64_t begin, int64_t position,
              int64_t n, buffer *buffers)
{
    const void *source = job->call->inputs[k];
    int64_t bytes = job->plan->input_bytes[k];
    const ipu__loop *loop = &job->plan->loop;
    const int32_t last = loop->rank - 1;
    switch (job->plan->layouts[k]) {
    case LAYOUT_DENSE:
        return ipu__at(source, position * bytes);
    case LAYOUT_REPEATED:
        return buffers[k].bytes;
    case LAYOUT_COLUMN:
        return ipu__at(source, position / loop->dims[last] * bytes);
    case LAYOUT_STRIDED:
        break;
    }
    if (job->plan->by_rows && loop->strides[k][last] == 1) {
        return ipu__at(source, ipu__loop_offset(loop, k, position) * bytes);
    }
    if (!job->plan->by_rows || position % loop->dims[last] == 0 || position == begin) {
        expand(job->plan, k, source, position, n, buffers[k].bytes);
    }
    return buffers[k].bytes;
}

/* Lines of the result are then not read before they are written. On Zen 3 that takes a
 * quarter off a pass over memory; with AVX-512, on Zen 4, it was slower. */
#if defined(__x86_64__)
IPU_TARGET_AVX2 static void
store_past_caches(char *to, const char *from, int64_t bytes)
{
    int64_t i = ipu__min(bytes, (int64_t)(-(uintptr_t)to % sizeof(__m256i)));
    memcpy(to, from, (size_t)i);
    for (; i + (int64_t)sizeof(__m256i) <= bytes; i += (int64_t)sizeof(__m256i)) {
        __m256i part = _mm256_loadu_si256((const __m256i *)(const void *)(from + i));
        _mm256_stream_si256((__m256i *)(void *)(to + i), part);
    }
    memcpy(to + i, from + i, (size_t)(bytes - i));
}
#define STORES_DONE() _mm_sfence()
#else
#define store_past_caches(to, from, bytes) memcpy(to, from, (size_t)(bytes))
#define STORES_DONE() (void)0
#endif

static bool
is_past_caches(const ipu_kernel_call *call)
{
    const element_plan *plan = call->spec->prepared;
    bool in_place = false;
    for (int32_t k = 0; k < plan->inputs; k++) {
        in_place = in_place || call->inputs[k] == call->outputs[0];
    }
    return plan->past_caches && !in_place;
}

/* Elements [begin, end) of the result. */
static void
run_elements(element_job *job, int64_t begin, int64_t end, buffer *buffers,
             buffer *temporaries)
{
    const element_plan *plan = job->plan;
    const void *values[IPU_FUSED_MAX_INPUTS + IPU_FUSED_MAX_INSTRUCTIONS];
    buffer last;
    int64_t row = plan->loop.dims[plan->loop.rank - 1];
    for (int32_t k = 0; k < plan->inputs; k++) {
        if (plan->layouts[k] == LAYOUT_REPEATED) {
            expand(plan, k, job->call->inputs[k], begin,
                   ipu__min(end - begin, plan->block_elements), buffers[k].bytes);
        }
    }
    for (int64_t position = begin; position < end;) {
        int64_t n = ipu__min(end - position, plan->block_elements);
        char *place =
            ipu__at_mutable(job->call->outputs[0], position * plan->output_bytes);
        if (plan->by_rows) {
            n = ipu__min(n, row - position % row);
        }
        for (int32_t k = 0; k < plan->inputs; k++) {
            values[k] = operand_block(job, k, begin, position, n, buffers);
        }
        for (int32_t s = 0; s < plan->steps; s++) {
            const element_step *step = &plan->step[s];
            const void *operands[3];
            void *result = step->slot >= 0    ? (void *)temporaries[step->slot].bytes
                           : job->past_caches ? (void *)last.bytes
                                              : place;
            for (int32_t k = 0; k < 3; k++) {
                operands[k] = values[step->operands[k]];
            }
            ipu__fault fault = IPU_FAULT_NONE;
            if (step->by_column) {
                int64_t rows = ipu__max(n / row, 1); /* whole ones, or a part of one */
                step->block.column(result, operands[0], operands[1], rows, n / rows);
            } else {
                fault = step->block.run(&step->block, result, operands[0], operands[1],
                                        operands[2], n);
            }
            if (fault != IPU_FAULT_NONE) {
                atomic_store_explicit(&job->fault, (int)fault, memory_order_relaxed);
                return;
            }
            values[plan->inputs + s] = result;
        }
        if (job->past_caches) {
            store_past_caches(place, (const char *)last.bytes, n * plan->output_bytes);
        }
        position += n;
    }
    if (job->past_caches) {
        STORES_DONE();
    }
}

static void
run_single_elements(void *job, int64_t begin, int64_t end)
{
    buffer buffers[3];
    run_elements(job, begin, end, buffers, NULL);
}

static void
run_fused_elements(void *job, int64_t begin, int64_t end)
{
    buffer buffers[IPU_FUSED_MAX_INPUTS];
    buffer temporaries[IPU_FUSED_MAX_INSTRUCTIONS];
    run_elements(job, begin, end, buffers, temporaries);
}

static bool
is_heavy(ipu_op op)
{
    return (ipu_op_info_of(op)->flags & IPU_OP_HEAVY) != 0;
}

/* No block is longer than its buffers, nor than the floats of halves. */
static void
limit_block(element_plan *plan, ipu_dtype dtype)
{
    const size_t bytes = dtype == IPU_DTYPE_FLOAT16 ? 4 : ipu_dtype_bytes(dtype);
    plan->block_elements =
        ipu__min(plan->block_elements, IPU_BLOCK_BYTES / (int64_t)bytes);
}

/* Room for `steps` steps in the spec, and all but those. */
static ipu_status
prepare_inputs(const ipu__preparation *p, int32_t steps, element_plan **out)
{
    const ipu_kernel_spec *spec = p->spec;
    element_plan *plan;
    IPU_TRY(
        ipu__prepared(p, sizeof *plan + (size_t)steps * sizeof plan->step[0], &plan));
    plan->inputs = (int32_t)spec->input_count;
    plan->steps = steps;
    plan->output_bytes = (int64_t)ipu_dtype_bytes(spec->outputs[0].dtype);
    plan->task_elements = TASK_ELEMENTS;
    plan->block_elements = IPU_BLOCK_BYTES;
    limit_block(plan, spec->outputs[0].dtype);
    ipu__loop_broadcast(&plan->loop, &spec->outputs[0].shape, spec->inputs,
                        plan->inputs);
    for (int32_t k = 0; k < plan->inputs; k++) {
        bool dense = ipu_shape_elements(&spec->inputs[k].shape) == plan->loop.elements;
        plan->layouts[k] = dense ? LAYOUT_DENSE : LAYOUT_STRIDED;
        plan->input_bytes[k] = (int64_t)ipu_dtype_bytes(spec->inputs[k].dtype);
        limit_block(plan, spec->inputs[k].dtype);
    }
    plan->past_caches = p->cpu == IPU_CPU_AVX2 &&
                        plan->loop.elements * plan->output_bytes >= LARGE_RESULT;
    plan->expand_rows = p->cpu >= IPU_CPU_AVX2 ? expand_rows_avx2 : expand_rows_generic;
    *out = plan;
    return IPU_OK;
}

/* After how many elements an operand begins again. */
static int64_t
period_of(const ipu__loop *loop, int32_t operand)
{
    int64_t period = 1;
    int32_t d = 0;
    while (d < loop->rank && loop->strides[operand][d] == 0) {
        d++;
    }
    for (; d < loop->rank; d++) {
        period *= loop->dims[d];
    }
    return period;
}

/* Whether operand k has one number for each row, and all that use it take that. */
static bool
is_column(const element_plan *plan, int32_t k)
{
    const ipu__loop *loop = &plan->loop;
    bool is = loop->rank == 2 && loop->strides[k][0] == 1 && loop->strides[k][1] == 0 &&
              loop->dims[1] * plan->input_bytes[k] >= SHORT_ROW_BYTES;
    for (int32_t s = 0; s < plan->steps; s++) {
        const int32_t *operands = plan->step[s].operands;
        is = is && operands[0] != k && operands[2] != k &&
             (operands[1] != k || plan->step[s].block.column != NULL);
    }
    return is;
}

/* Which operands are columns, and of which steps. */
static void
plan_columns(element_plan *plan)
{
    for (int32_t k = 0; k < plan->inputs; k++) {
        if (is_column(plan, k)) {
            plan->layouts[k] = LAYOUT_COLUMN;
        }
    }
    for (int32_t s = 0; s < plan->steps; s++) {
        int32_t k = plan->step[s].operands[1];
        plan->step[s].by_column = k < plan->inputs && plan->layouts[k] == LAYOUT_COLUMN;
    }
}

/* Which operands are repeated, once the largest block is known: blocks and tasks are
 * then whole periods, of which each is a multiple of all shorter ones. */
static void
plan_repetition(element_plan *plan)
{
    const ipu__loop *loop = &plan->loop;
    const int32_t last = loop->rank - 1;
    int64_t longest = 1;
    plan_columns(plan);
    for (int32_t k = 0; k < plan->inputs; k++) {
        int64_t period = plan->layouts[k] == LAYOUT_DENSE    ? 1
                         : plan->layouts[k] == LAYOUT_COLUMN ? loop->dims[last]
                                                             : period_of(loop, k);
        if (period <= plan->block_elements) {
            longest = ipu__max(longest, period);
        } else if (loop->dims[last] >=
                   (loop->strides[k][last] == 1 ? LONG_ROW : plan->block_elements)) {
            plan->by_rows = true;
        }
    }
    for (int32_t k = 0; k < plan->inputs; k++) {
        int64_t most = plan->by_rows ? 1 : plan->block_elements;
        if (plan->layouts[k] == LAYOUT_STRIDED && period_of(loop, k) <= most) {
            plan->layouts[k] = LAYOUT_REPEATED;
        }
    }
    if (!plan->by_rows) {
        plan->block_elements -= plan->block_elements % longest;
        plan->task_elements -= plan->task_elements % plan->block_elements;
    }
}

static ipu_status
run(const ipu_kernel_call *call)
{
    element_job job = {.plan = call->spec->prepared,
                       .call = call,
                       .past_caches = is_past_caches(call)};
    atomic_init(&job.fault, (int)IPU_FAULT_NONE);
    ipu__run_items(call->pool, job.plan->loop.elements, job.plan->task_elements,
                   job.plan->run, &job);
    return ipu__fault_report(
        call, (ipu__fault)atomic_load_explicit(&job.fault, memory_order_relaxed));
}

static ipu_status
run_rows(const ipu_kernel_call *call, int64_t begin, int64_t end)
{
    element_job job = {.plan = call->spec->prepared,
                       .call = call,
                       .past_caches = is_past_caches(call)};
    int64_t row = job.plan->loop.elements / call->spec->rows.count;
    atomic_init(&job.fault, (int)IPU_FAULT_NONE);
    job.plan->run(&job, begin * row, end * row);
    return ipu__fault_report(
        call, (ipu__fault)atomic_load_explicit(&job.fault, memory_order_relaxed));
}

static void
offer_rows(ipu_kernel_spec *spec)
{
    const ipu_shape *shape = &spec->outputs[0].shape;
    if (shape->rank == 0 || ipu_shape_elements(shape) == 0) {
        return;
    }
    spec->rows = (ipu_kernel_rows){.run = run_rows, .count = shape->dims[0]};
    for (uint32_t i = 0; i < spec->input_count; i++) {
        const ipu_shape *input = &spec->inputs[i].shape;
        if (input->rank == shape->rank && input->dims[0] == shape->dims[0]) {
            spec->rows.inputs |= 1ULL << i;
        }
    }
}

static const char *
name_of(ipu_cpu_class cpu, const char *avx512, const char *avx2, const char *generic)
{
    return cpu >= IPU_CPU_AVX512 ? avx512 : (cpu >= IPU_CPU_AVX2 ? avx2 : generic);
}

ipu_status
ipu__choose_elementwise(const ipu__preparation *p)
{
    ipu_kernel_spec *spec = p->spec;
    ipu_dtype in = spec->inputs[spec->op == IPU_OP_ID_SELECT ? 1 : 0].dtype;
    element_plan *plan;
    IPU_TRY(prepare_inputs(p, 1, &plan));
    plan->step[0].slot = -1;
    for (int32_t k = 0; k < 3; k++) {
        plan->step[0].operands[k] = k < plan->inputs ? k : 0;
    }
    ipu__block_prepare(&plan->step[0].block, spec->op, in, spec->outputs[0].dtype,
                       p->cpu);
    if (is_heavy(spec->op)) {
        plan->task_elements = HEAVY_TASK_ELEMENTS;
    }
    plan_repetition(plan);
    plan->run = run_single_elements;
    spec->run = run;
    offer_rows(spec);
    spec->kernel_name = name_of(p->cpu, "elementwise_avx512", "elementwise_avx2",
                                "elementwise_generic");
    return IPU_OK;
}

ipu_status
ipu_choose_fused_elementwise(const ipu__preparation *p)
{
    ipu_kernel_spec *spec = p->spec;
    ipu_dtype dtypes[IPU_FUSED_MAX_INPUTS + IPU_FUSED_MAX_INSTRUCTIONS];
    uint32_t words;
    const int64_t *code = ipu_attrs_ints(spec->attrs, IPU_ATTR_CODE, &words);
    element_plan *plan;
    IPU_TRY(prepare_inputs(p, (int32_t)(words / IPU_FUSED_WORDS), &plan));
    for (int32_t k = 0; k < plan->inputs; k++) {
        dtypes[k] = spec->inputs[k].dtype;
    }
    for (int32_t s = 0; s < plan->steps; s++) {
        const int64_t *word = code + s * IPU_FUSED_WORDS;
        element_step *step = &plan->step[s];
        ipu_op op = (ipu_op)word[0];
        for (int32_t k = 0; k < 3; k++) {
            step->operands[k] = (int32_t)(word[2 + k] >= 0 ? word[2 + k] : word[2]);
        }
        ipu_dtype in = dtypes[step->operands[op == IPU_OP_ID_SELECT ? 1 : 0]];
        dtypes[plan->inputs + s] = (ipu_dtype)word[1];
        ipu__block_prepare(&step->block, op, in, (ipu_dtype)word[1], p->cpu);
        step->slot = s == plan->steps - 1 ? -1 : s;
        limit_block(plan, (ipu_dtype)word[1]);
        if (is_heavy(op) || plan->steps >= 4) {
            plan->task_elements = HEAVY_TASK_ELEMENTS;
        }
    }
    plan_repetition(plan);
    plan->run = run_fused_elements;
    spec->run = run;
    offer_rows(spec);
    spec->kernel_name = name_of(p->cpu, "fused_avx512", "fused_avx2", "fused_generic");
    return IPU_OK;
}
