/* SPDX-License-Identifier: MIT
 *
 * Regions, as one job of the pool: parts of the rows of all instructions, or tasks. A
 * part's kernels write their workspace in turn, so each thread that takes part has one;
 * threads take a free one.
 *
 * All parts run to their end or to their first error, so which error is reported does
 * not depend on threads: that of the first instruction, and there of the first rows. */
#include <string.h>

#include "base/slots.h"
#include "run/executor_impl.h"

typedef struct region_job {
    ipu__stream *stream;
    const ipu_region *region;
    int32_t parts; /* by rows */
    size_t part_bytes; /* of the workspace, for each thread */
    ipu_slots workspaces;
    int workspace_count;
    /* the error to report */
    atomic_flag is_failing; /* a thread is at what follows */
    bool has_failed;
    uint64_t failed_at; /* instruction, part */
} region_job;

/* There are as many as threads that may be at the job, but for callers who wait for
 * jobs of their own: one of these may have to wait for a moment. */
static int
take_workspace(region_job *job)
{
    int workspace;
    do {
        workspace = ipu_slots_take(&job->workspaces, job->workspace_count);
    } while (workspace < 0);
    return workspace;
}

static void
report(region_job *job, const ipu_ctx *own, size_t instruction, int32_t part)
{
    uint64_t at = (uint64_t)instruction << 32 | (uint32_t)part;
    ipu_ctx *ctx = job->stream->ctx;
    while (atomic_flag_test_and_set(&job->is_failing)) {}
    if (!job->has_failed || at < job->failed_at) {
        job->has_failed = true;
        job->failed_at = at;
        ctx->status = own->status;
        memcpy(ctx->message, own->message, sizeof(own->message));
    }
    atomic_flag_clear(&job->is_failing);
}

/* `at` is the instruction. */
static void
note_part(const region_job *job, size_t at, int64_t begin, uint64_t begin_ns)
{
    uint32_t first = job->region->first;
    ipu_event_end(IPU_EVENT_PART, ipu__stream_subject(job->stream, at), begin_ns,
                  begin == 0 && at != first, first);
}

/* Instruction `index`, or its rows [begin, end) where `end` is not 0. */
static ipu_status
run_instruction(const region_job *job, ipu_kernel_call *call, size_t index,
                int64_t begin, int64_t end)
{
    const ipu__stream *stream = job->stream;
    uint64_t begin_ns = ipu_event_begin(IPU_EVENT_PART);
    const ipu_instruction *instruction = &stream->code->instructions.items[index];
    void **operands = &stream->operands[stream->first_operand[index]];
    const ipu_kernel_spec *spec = &stream->specs[instruction->spec];
    call->spec = spec;
    call->inputs = (const void *const *)operands;
    call->outputs = operands + instruction->input_count;
    ipu_status status = end > 0 ? spec->rows.run(call, begin, end) : spec->run(call);
    note_part(job, index, begin, begin_ns);
    return status;
}

static void
run_range(region_job *job, ipu_region_task range, int32_t part)
{
    ipu_ctx own;
    ipu_kernel_call call = job->stream->call;
    int workspace = take_workspace(job);
    ipu_ctx_init(&own, job->stream->ctx->allocator);
    call.ctx = &own;
    call.pool = NULL;
    call.workspace = (char *)job->stream->call.workspace +
                     (size_t)workspace * job->part_bytes;
    for (uint32_t i = 0; i < range.count; i++) {
        size_t index = range.first + i;
        if (run_instruction(job, &call, index, range.begin, range.end) != IPU_OK) {
            report(job, &own, index, part);
            break;
        }
    }
    ipu_slots_give_back(&job->workspaces, workspace);
}

static void
run_rows(void *state, int32_t part, int32_t worker)
{
    region_job *job = state;
    const ipu_region *region = job->region;
    int64_t begin = ipu_row_cut(region->rows, region->grain, part, job->parts);
    int64_t end = ipu_row_cut(region->rows, region->grain, part + 1, job->parts);
    (void)worker;
    if (end > begin) {
        run_range(job, (ipu_region_task){region->first, region->count, begin, end},
                  part);
    }
}

static void
run_task(void *state, int32_t task, int32_t worker)
{
    region_job *job = state;
    (void)worker;
    run_range(job, job->region->tasks[task], task);
}

/* Parts that fit the second-level cache while they go through the region, and as many
 * for each thread. */
static int32_t
parts_for(const ipu_region *region, int32_t threads)
{
    int64_t most = region->rows / region->least;
    int64_t parts = region->rows / IPU__REGION_ROWS;
    parts = parts < threads ? threads : (parts + threads - 1) / threads * threads;
    parts = parts < most ? parts : most;
    return (int32_t)(parts < 1 ? 1 : parts);
}

/* The kernels run as they would by themselves, one after another. */
static ipu_status
run_alone(region_job *job, size_t *at)
{
    ipu__stream *stream = job->stream;
    for (uint32_t i = 0; i < job->region->count; i++) {
        size_t index = job->region->first + i;
        if (run_instruction(job, &stream->call, index, 0, 0) != IPU_OK) {
            *at = index;
            return stream->ctx->status;
        }
    }
    return IPU_OK;
}

ipu_status
ipu__region_run(ipu__stream *stream, const ipu_region *region, size_t *at)
{
    int32_t threads = ipu_pool_threads(stream->call.pool);
    region_job job = {.stream = stream,
                      .region = region,
                      .part_bytes = ipu__region_part_bytes(stream->executor->program),
                      .workspace_count = ipu__region_workspaces(threads),
                      .is_failing = ATOMIC_FLAG_INIT};
    job.parts = region->rows > 0 ? parts_for(region, threads)
                                 : (int32_t)region->task_count;
    /* kernels cut their work into more parts, of columns too, where many threads wait */
    if (threads == 1 || threads >= 2 * job.parts) {
        return run_alone(&job, at);
    }
    ipu_pool_run(stream->call.pool, job.parts, region->rows > 0 ? run_rows : run_task,
                 &job);
    if (job.has_failed) {
        *at = (size_t)(job.failed_at >> 32);
        return stream->ctx->status;
    }
    return IPU_OK;
}
