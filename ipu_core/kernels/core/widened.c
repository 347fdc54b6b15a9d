/* SPDX-License-Identifier: MIT
 *
 * float16 by the float32 kernel of an op: operands are widened, and each result is
 * rounded once. Where the kernel makes rows apart, a block of them at a time, whose
 * floats stay in the cache; else all at once. */
#include <stdatomic.h>

#include "kernels/core/kernel_impl.h"

enum {
    MOST_OPERANDS = 16,
    BLOCK_FLOATS = 16384, /* of the operands and results of a block of rows */
    FEW_BLOCKS = 8,       /* some threads may have none */
    TASK_ELEMENTS = 16384
};

/* Prepared. */
typedef struct widened {
    ipu_kernel_spec inner; /* of float32 */
    ipu_cpu_class cpu;
    int64_t block; /* rows; 0: all is widened at once */
    int64_t blocks;
    size_t floats; /* bytes of a block's, before the inner kernel's workspace */
} widened;

static bool
is_half(const ipu_type *type)
{
    return type->dtype == IPU_DTYPE_FLOAT16;
}

/* --- all at once ------------------------------------------------------------------- */

typedef struct conversion {
    void *out;
    const void *x;
    ipu_cpu_class cpu;
} conversion;

static void
widen_some(void *state, int64_t begin, int64_t end)
{
    const conversion *c = state;
    ipu__halves_to_floats((float *)c->out + begin, (const uint16_t *)c->x + begin,
                          end - begin, c->cpu);
}

void
ipu__widen(ipu_pool *pool, float *out, const uint16_t *x, int64_t n, ipu_cpu_class cpu)
{
    conversion c = {out, x, cpu};
    ipu__run_items(pool, n, TASK_ELEMENTS, widen_some, &c);
}

static void
narrow_some(void *state, int64_t begin, int64_t end)
{
    const conversion *c = state;
    ipu__floats_to_halves((uint16_t *)c->out + begin, (const float *)c->x + begin,
                          end - begin, c->cpu);
}

void
ipu__narrow(ipu_pool *pool, uint16_t *out, const float *x, int64_t n, ipu_cpu_class cpu)
{
    conversion c = {out, x, cpu};
    ipu__run_items(pool, n, TASK_ELEMENTS, narrow_some, &c);
}

static ipu_status
run_whole(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    const widened *w = spec->prepared;
    const void *inputs[MOST_OPERANDS];
    void *outputs[MOST_OPERANDS];
    float *next = call->workspace;
    for (uint32_t i = 0; i < spec->input_count; i++) {
        inputs[i] = call->inputs[i];
        if (is_half(&spec->inputs[i])) {
            int64_t n = ipu_shape_elements(&spec->inputs[i].shape);
            ipu__widen(call->pool, next, call->inputs[i], n, w->cpu);
            inputs[i] = next;
            next += ipu__whole_lines(n);
        }
    }
    for (uint32_t i = 0; i < spec->output_count; i++) {
        outputs[i] = call->outputs[i];
        if (is_half(&spec->outputs[i])) {
            outputs[i] = next;
            next += ipu__whole_lines(ipu_shape_elements(&spec->outputs[i].shape));
        }
    }
    ipu_kernel_call wide = *call;
    wide.spec = &w->inner;
    wide.inputs = inputs;
    wide.outputs = outputs;
    wide.workspace = next;
    IPU_TRY(w->inner.run(&wide));
    for (uint32_t i = 0; i < spec->output_count; i++) {
        if (is_half(&spec->outputs[i])) {
            ipu__narrow(call->pool, call->outputs[i], outputs[i],
                        ipu_shape_elements(&spec->outputs[i].shape), w->cpu);
        }
    }
    return IPU_OK;
}

/* --- by rows ----------------------------------------------------------------------- */

static int64_t
row_elements(const ipu_kernel_spec *spec, const ipu_type *type)
{
    return ipu_shape_elements(&type->shape) / spec->rows.count;
}

/* Where row 0 would be: the rows from `begin` on lie at `block`. */
static void *
as_whole(float *block, int64_t begin, int64_t row)
{
    return (void *)((uintptr_t)block - (uintptr_t)(begin * row) * sizeof(float));
}

/* Rows of one block. */
static ipu_status
make_block(const ipu_kernel_call *call, int64_t begin, int64_t end, void *scratch)
{
    const ipu_kernel_spec *spec = call->spec;
    const widened *w = spec->prepared;
    const void *inputs[MOST_OPERANDS];
    void *outputs[MOST_OPERANDS];
    float *results[MOST_OPERANDS];
    float *next = scratch;
    for (uint32_t i = 0; i < spec->input_count; i++) {
        inputs[i] = call->inputs[i];
        if (is_half(&spec->inputs[i])) {
            int64_t row = row_elements(&w->inner, &spec->inputs[i]);
            const uint16_t *halves = (const uint16_t *)call->inputs[i] + begin * row;
            ipu__halves_to_floats(next, halves, (end - begin) * row, w->cpu);
            inputs[i] = as_whole(next, begin, row);
            next += ipu__whole_lines(w->block * row);
        }
    }
    for (uint32_t i = 0; i < spec->output_count; i++) {
        outputs[i] = call->outputs[i];
        if (is_half(&spec->outputs[i])) {
            int64_t row = row_elements(&w->inner, &spec->outputs[i]);
            results[i] = next;
            outputs[i] = as_whole(next, begin, row);
            next += ipu__whole_lines(w->block * row);
        }
    }
    ipu_kernel_call wide = *call;
    wide.spec = &w->inner;
    wide.inputs = inputs;
    wide.outputs = outputs;
    wide.workspace = (char *)scratch + w->floats;
    wide.pool = NULL;
    IPU_TRY(w->inner.rows.run(&wide, begin, end));
    for (uint32_t i = 0; i < spec->output_count; i++) {
        if (is_half(&spec->outputs[i])) {
            int64_t row = row_elements(&w->inner, &spec->outputs[i]);
            uint16_t *halves = (uint16_t *)call->outputs[i] + begin * row;
            ipu__floats_to_halves(halves, results[i], (end - begin) * row, w->cpu);
        }
    }
    return IPU_OK;
}

static ipu_status
run_rows(const ipu_kernel_call *call, int64_t begin, int64_t end)
{
    const widened *w = call->spec->prepared;
    while (begin < end) {
        int64_t next = ipu__min(end, begin + w->block);
        IPU_TRY(make_block(call, begin, next, call->workspace));
        begin = next;
    }
    return IPU_OK;
}

typedef struct rows_job {
    const ipu_kernel_call *call;
    _Atomic int64_t failed; /* the first block that did */
} rows_job;

static ipu_status
make_numbered(const ipu_kernel_call *call, int64_t number, void *scratch)
{
    const widened *w = call->spec->prepared;
    int64_t begin = number * w->block;
    int64_t end = ipu__min(begin + w->block, w->inner.rows.count);
    return make_block(call, begin, end, scratch);
}

/* Each task has an error record of its own. */
static void
make_blocks(void *state, int64_t begin, int64_t end, void *scratch)
{
    rows_job *job = state;
    ipu_ctx ctx;
    ipu_kernel_call call = *job->call;
    ipu_ctx_init(&ctx, job->call->ctx->allocator);
    call.ctx = &ctx;
    for (int64_t i = begin; i < end; i++) {
        if (make_numbered(&call, i, scratch) != IPU_OK) {
            int64_t first = atomic_load(&job->failed);
            while (i < first &&
                   !atomic_compare_exchange_weak(&job->failed, &first, i)) {}
            ipu_ctx_clear(&ctx);
            return;
        }
    }
}

static ipu_status
run_by_rows(const ipu_kernel_call *call)
{
    const widened *w = call->spec->prepared;
    rows_job job = {call, w->blocks};
    ipu__share_out(call->pool, w->blocks, make_blocks, &job, call->workspace,
                   w->floats + w->inner.rows.workspace_bytes);
    int64_t failed = atomic_load(&job.failed);
    return failed == w->blocks ? IPU_OK : make_numbered(call, failed, call->workspace);
}

/* Blocks that leave the cache are for threads that have no less to do. */
static ipu_status
run_few_rows(const ipu_kernel_call *call)
{
    const widened *w = call->spec->prepared;
    return (w->blocks < ipu_pool_hands(call->pool) ? run_whole : run_by_rows)(call);
}

/* --- choose ------------------------------------------------------------------------ */

static ipu_status
wide_types(const ipu__preparation *p, const ipu_type *types, uint32_t count,
           const ipu_type **out)
{
    ipu_type *wide;
    IPU_TRY(ipu_arena_array(p->ctx, p->arena, count + 1, sizeof(*wide), &wide));
    for (uint32_t i = 0; i < count; i++) {
        wide[i] = types[i];
        wide[i].dtype = is_half(&types[i]) ? IPU_DTYPE_FLOAT32 : types[i].dtype;
    }
    *out = wide;
    return IPU_OK;
}

/* Floats of a row of all halves; -1: one of them has no rows. */
static int64_t
floats_of_row(const ipu_kernel_spec *spec, const ipu_kernel_spec *inner)
{
    int64_t floats = 0;
    for (uint32_t i = 0; i < spec->input_count; i++) {
        if (is_half(&spec->inputs[i])) {
            if (!ipu_kernel_reads_rows(&inner->rows, i)) {
                return -1;
            }
            floats += row_elements(inner, &spec->inputs[i]);
        }
    }
    for (uint32_t i = 0; i < spec->output_count; i++) {
        floats +=
            is_half(&spec->outputs[i]) ? row_elements(inner, &spec->outputs[i]) : 0;
    }
    return floats;
}

/* Bytes of `rows` rows of all halves of a spec, each of them in whole lines. */
static size_t
bytes_of_rows(const ipu_kernel_spec *spec, int64_t count, int64_t rows)
{
    int64_t floats = 0;
    for (uint32_t i = 0; i < spec->input_count + spec->output_count; i++) {
        const ipu_type *type = i < spec->input_count
                                   ? &spec->inputs[i]
                                   : &spec->outputs[i - spec->input_count];
        int64_t elements = ipu_shape_elements(&type->shape);
        floats += is_half(type) ? ipu__whole_lines(elements / count * rows) : 0;
    }
    return (size_t)floats * sizeof(float);
}

ipu_status
ipu__choose_widened(const ipu__preparation *p)
{
    ipu_kernel_spec *spec = p->spec;
    widened *w;
    if (spec->input_count > MOST_OPERANDS || spec->output_count > MOST_OPERANDS) {
        return IPU_OK;
    }
    IPU_TRY(ipu_arena_alloc(p->ctx, p->arena, sizeof(*w), &w));
    w->cpu = p->cpu;
    w->inner = *spec;
    ipu_kernel_spec *inner = &w->inner;
    IPU_TRY(wide_types(p, spec->inputs, spec->input_count, &inner->inputs));
    IPU_TRY(wide_types(p, spec->outputs, spec->output_count, &inner->outputs));
    IPU_TRY(ipu_kernel_prepare(p->ctx, p->arena, inner, p->variant, p->cpu));
    int64_t row = inner->rows.run == NULL || inner->rows.count == 0
                      ? -1
                      : floats_of_row(spec, inner);
    spec->workspace_bytes = 0;
    if (row >= 0) {
        int64_t grain = ipu__max(1, inner->rows.grain);
        int64_t rows = ipu__max(1, BLOCK_FLOATS / ipu__max(1, row));
        w->block = ipu__min(ipu__ceil_div(rows, grain) * grain, inner->rows.count);
        w->blocks = ipu__ceil_div(inner->rows.count, w->block);
        w->floats = bytes_of_rows(spec, inner->rows.count, w->block);
        size_t part = w->floats + inner->rows.workspace_bytes;
        spec->rows = inner->rows;
        spec->rows.run = run_rows;
        spec->rows.workspace_bytes = part;
        spec->workspace_bytes = ipu__share_bytes(w->blocks, part);
    }
    bool is_few = row > BLOCK_FLOATS && w->blocks < FEW_BLOCKS;
    spec->run = row < 0 ? run_whole : is_few ? run_few_rows : run_by_rows;
    if (row < 0 || is_few) {
        size_t whole = bytes_of_rows(spec, 1, 1) + inner->workspace_bytes;
        spec->workspace_bytes =
            whole > spec->workspace_bytes ? whole : spec->workspace_bytes;
    }
    spec->prepared = w;
    spec->kernel_name = inner->kernel_name;
    return IPU_OK;
}
