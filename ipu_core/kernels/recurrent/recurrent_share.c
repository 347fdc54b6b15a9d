/* SPDX-License-Identifier: MIT
 *
 * The common part of the fast kernels of lstm, gru and their gradients. The rows of a
 * batch do not depend on each other, so a thread takes a block of rows through all
 * steps, and there is no barrier between steps. The kernel is packed into panels once
 * for a call, by the threads; a part of a region packs it for itself. Products are made
 * by our own tiles (gemm_tiles_body.h), a block by the panels at a time; gates, states
 * and their gradients stay in float32 buffers of the block, in the cache. float16 is
 * widened and rounded row by row on its way. No cut changes a bit. */
#include "kernels/recurrent/recurrent_impl.h"

enum {
    BLOCK_ROWS = 48, /* at most, at a time */
    LEAST_ROWS = 4,  /* that are worth a thread */
    KERNEL = 1, /* which input it is */
};

ipu_status
ipu__recurrent_begin(const ipu__preparation *p, ipu__recurrent_plan **out)
{
    ipu__recurrent_plan *plan;
    *out = NULL;
    ipu_dtype dtype = p->spec->outputs[0].dtype;
    if (dtype != IPU_DTYPE_FLOAT32 && dtype != IPU_DTYPE_FLOAT16) {
        return IPU_OK;
    }
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    plan->sequence = ipu__sequence_of(p->spec);
    plan->cpu = p->cpu;
    plan->form = IPU_FOR_CLASS(p->cpu, ipu__recurrent, ipu__recurrent_generic);
    int64_t rows = plan->sequence.rows;
    plan->block_rows = rows == 0 ? 1 : ipu__min(rows, BLOCK_ROWS);
    *out = plan;
    return IPU_OK;
}

void
ipu__recurrent_multiplies(ipu__recurrent_plan *plan, bool transposed, int64_t column,
                          int64_t n)
{
    const ipu__sequence *s = &plan->sequence;
    ipu__step_product *step = &plan->product[plan->products++];
    ipu__product *p = &step->product;
    step->tiles = ipu__tiles_of(plan->cpu);
    step->offset = column;
    step->panels = plan->panel_floats;
    p->m = plan->block_rows;
    p->n = transposed ? s->units : n;
    p->k = transposed ? n : s->units;
    p->b_row = transposed ? 1 : s->gates;
    p->b_col = transposed ? s->gates : 1;
    ipu__product_by_rows(p, step->tiles);
    int64_t columns = ipu__ceil_div(p->n, step->tiles->columns) * step->tiles->columns;
    plan->panel_floats += ipu__whole_lines(columns * p->k);
    int64_t scratch = ipu__whole_lines(ipu__tiles_scratch(step->tiles, p));
    plan->scratch_floats =
        scratch > plan->scratch_floats ? scratch : plan->scratch_floats;
}

void
ipu__recurrent_buffer(ipu__recurrent_plan *plan, int64_t floats)
{
    plan->stride[plan->buffers++] = ipu__copied_row(floats);
}

/* --- a block ---------------------------------------------------------------------- */

void
ipu__recurrent_multiply(const ipu__rows_block *block, int32_t product, int32_t from,
                        int64_t from_column, int32_t to, int64_t to_column)
{
    const ipu__recurrent_plan *plan = block->plan;
    const ipu__step_product *step = &plan->product[product];
    ipu__product p = step->product;
    p.m = block->rows;
    p.a = block->buffers[from] + from_column;
    p.a_row = plan->stride[from];
    p.c = block->buffers[to] + to_column;
    p.c_row = plan->stride[to];
    p.panels = block->panels + step->panels;
    step->tiles->multiply(&p, 0, p.m, 0, p.n, block->scratch);
}

const float *
ipu__recurrent_read(const ipu__rows_block *block, int32_t input, int64_t at, int64_t n,
                    float *room)
{
    const void *tensor = block->call->inputs[input];
    if (block->plan->sequence.dtype == IPU_DTYPE_FLOAT32) {
        return (const float *)tensor + at;
    }
    ipu__halves_to_floats(room, (const uint16_t *)tensor + at, n, block->plan->cpu);
    return room;
}

void
ipu__recurrent_copy(const ipu__rows_block *block, int32_t input, int64_t at, int64_t n,
                    float *to)
{
    const float *from = ipu__recurrent_read(block, input, at, n, to);
    if (from != to) {
        memcpy(to, from, (size_t)n * sizeof(float));
    }
}

void
ipu__recurrent_store(const ipu__rows_block *block, int32_t output, int64_t at,
                     int64_t n, float *x)
{
    void *tensor = block->call->outputs[output];
    if (block->plan->sequence.dtype == IPU_DTYPE_FLOAT32) {
        memcpy((float *)tensor + at, x, (size_t)n * sizeof(float));
        return;
    }
    uint16_t *halves = (uint16_t *)tensor + at;
    ipu__floats_to_halves(halves, x, n, block->plan->cpu);
    ipu__halves_to_floats(x, halves, n, block->plan->cpu);
}

void
ipu__load_state(const ipu__rows_block *b, int32_t input, int32_t buffer)
{
    int64_t n = b->plan->sequence.units;
    for (int64_t i = 0; i < b->rows; i++) {
        ipu__recurrent_copy(b, input, (b->row + i) * n, n,
                            ipu__buffer_row(b, buffer, i));
    }
}

void
ipu__store_state(const ipu__rows_block *b, int32_t output, int32_t buffer)
{
    int64_t n = b->plan->sequence.units;
    for (int64_t i = 0; i < b->rows; i++) {
        ipu__recurrent_store(b, output, (b->row + i) * n, n,
                             ipu__buffer_row(b, buffer, i));
    }
}

void
ipu__load_gradient(const ipu__rows_block *b, int32_t input, int32_t buffer)
{
    int64_t n = b->plan->sequence.units;
    if (input >= 0) {
        ipu__load_state(b, input, buffer);
        return;
    }
    for (int64_t i = 0; i < b->rows; i++) {
        memset(ipu__buffer_row(b, buffer, i), 0, (size_t)n * sizeof(float));
    }
}

/* Rows [begin, end), in blocks of even size. */
static void
run_rows(const ipu_kernel_call *call, const float *panels, float *memory, int64_t begin,
         int64_t end)
{
    const ipu__recurrent_plan *plan = call->spec->prepared;
    int64_t rows = end - begin;
    int64_t blocks = ipu__ceil_div(rows, plan->block_rows);
    for (int64_t i = 0; i < blocks; i++) {
        ipu__rows_block block = {.call = call, .plan = plan, .panels = panels};
        float *at = memory + plan->scratch_floats;
        block.scratch = memory;
        block.room = at;
        at += plan->room_floats;
        block.row = begin + ipu__share_of(rows, blocks, i);
        block.rows = begin + ipu__share_of(rows, blocks, i + 1) - block.row;
        for (int32_t j = 0; j < plan->buffers; j++) {
            block.buffers[j] = at;
            at += plan->block_rows * plan->stride[j];
        }
        plan->run_block(&block);
    }
}

/* --- a call ----------------------------------------------------------------------- */

/* The kernel as floats. */
static const float *
widen(const ipu_kernel_call *call, float *room)
{
    const ipu__recurrent_plan *plan = call->spec->prepared;
    const ipu__sequence *s = &plan->sequence;
    const void *kernel = call->inputs[KERNEL];
    if (s->dtype == IPU_DTYPE_FLOAT32) {
        return kernel;
    }
    ipu__halves_to_floats(room, kernel, s->units * s->gates, plan->cpu);
    return room;
}

/* Share `part` of the panels of each product. */
static void
pack(const ipu__recurrent_plan *plan, const float *kernel, float *panels, int64_t part,
     int64_t parts)
{
    for (int32_t i = 0; i < plan->products; i++) {
        const ipu__step_product *step = &plan->product[i];
        ipu__product p = step->product;
        int64_t count = ipu__ceil_div(p.n, step->tiles->columns);
        p.b = kernel + step->offset;
        step->tiles->pack(&p, panels + step->panels, ipu__share_of(count, parts, part),
                          ipu__share_of(count, parts, part + 1));
    }
}

typedef struct recurrent_job {
    const ipu_kernel_call *call;
    const float *kernel;
    float *panels;
    int64_t parts;
} recurrent_job;

static void
pack_parts(void *state, int64_t begin, int64_t end, void *room)
{
    const recurrent_job *job = state;
    (void)room;
    for (int64_t part = begin; part < end; part++) {
        pack(job->call->spec->prepared, job->kernel, job->panels, part, job->parts);
    }
}

static void
run_parts(void *state, int64_t begin, int64_t end, void *memory)
{
    const recurrent_job *job = state;
    const ipu__recurrent_plan *plan = job->call->spec->prepared;
    int64_t rows = plan->sequence.rows;
    run_rows(job->call, job->panels, memory, ipu__share_of(rows, job->parts, begin),
             ipu__share_of(rows, job->parts, end));
}

/* Parts that are worth a thread. */
static int64_t
most_parts(const ipu__recurrent_plan *plan)
{
    return ipu__max(plan->sequence.rows / LEAST_ROWS, 1);
}

/* As many parts as threads: each is a long chain of steps. */
static ipu_status
run(const ipu_kernel_call *call)
{
    const ipu__recurrent_plan *plan = call->spec->prepared;
    float *panels = call->workspace;
    int64_t threads = call->pool == NULL ? 1 : ipu_pool_threads(call->pool);
    recurrent_job job = {
        .call = call,
        .kernel = widen(call, panels + plan->panel_floats),
        .panels = panels,
        .parts = ipu__min(threads, most_parts(plan)),
    };
    ipu__share_out(call->pool, job.parts, pack_parts, &job, NULL, 0);
    ipu__share_out(call->pool, job.parts, run_parts, &job,
                   panels + plan->panel_floats + plan->wide_floats,
                   (size_t)plan->block_floats * sizeof(float));
    return IPU_OK;
}

static ipu_status
run_part(const ipu_kernel_call *call, int64_t begin, int64_t end)
{
    const ipu__recurrent_plan *plan = call->spec->prepared;
    float *panels = call->workspace;
    const float *kernel = widen(call, panels + plan->panel_floats);
    pack(plan, kernel, panels, 0, 1);
    run_rows(call, panels, panels + plan->panel_floats + plan->wide_floats, begin, end);
    return IPU_OK;
}

/* Which inputs have the rows of the batch first. */
static uint64_t
inputs_by_rows(const ipu_kernel_spec *spec, const ipu__sequence *s)
{
    uint64_t inputs = 0;
    for (uint32_t i = 0; i < spec->input_count; i++) {
        if (i != KERNEL && (int32_t)i != s->bias) {
            inputs |= (uint64_t)1 << i;
        }
    }
    return inputs;
}

void
ipu__recurrent_finish(const ipu__preparation *p, ipu__recurrent_plan *plan,
                      int64_t room_floats,
                      void (*run_block)(const ipu__rows_block *block))
{
    ipu_kernel_spec *spec = p->spec;
    const ipu__sequence *s = &plan->sequence;
    plan->run_block = run_block;
    plan->wide_floats =
        s->dtype == IPU_DTYPE_FLOAT32 ? 0 : ipu__whole_lines(s->units * s->gates);
    plan->room_floats = ipu__whole_lines(room_floats);
    plan->block_floats = plan->scratch_floats + plan->room_floats;
    for (int32_t i = 0; i < plan->buffers; i++) {
        plan->block_floats += plan->block_rows * plan->stride[i];
    }
    int64_t shared = plan->panel_floats + plan->wide_floats;
    spec->run = run;
    spec->kernel_name = plan->product[0].tiles->name;
    spec->workspace_bytes =
        (size_t)shared * sizeof(float) +
        ipu__share_bytes(most_parts(plan), (size_t)plan->block_floats * sizeof(float));
    if (s->row_cells >= s->step_cells && s->rows > 0 && s->steps > 0) {
        spec->rows = (ipu_kernel_rows){
            .run = run_part,
            .count = s->rows,
            .inputs = inputs_by_rows(spec, s),
            .grain = 1,
            .least = LEAST_ROWS,
            .workspace_bytes = (size_t)(shared + plan->block_floats) * sizeof(float)};
    }
}
