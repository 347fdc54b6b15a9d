/* SPDX-License-Identifier: MIT
 *
 * The engine: its tables, and runs. A program of one stream runs here, in the caller's
 * thread; scheduler.c shares out several.
 *
 * The end of a step is the NEXT of a loop of steps: the step counter moves on, hosts
 * that wait get at the variables, the cancel flag is looked at, and, where something
 * was removed from the device meanwhile, the resources are bound anew (or the run
 * fails). In inner loops the flag is looked at too, so that no loop is endless. While a
 * run waits for a feeder and has written no variable in this step, hosts get at the
 * variables, too: the feeder may be such a host.
 *
 * The executor owns its slabs and tables; program, device and pool outlive it. It
 * belongs to one run at a time. */
#include <inttypes.h>
#include <string.h>

#include "run/executor_impl.h"

/* --- binding --------------------------------------------------------------------- */

static ipu_status
check_types(ipu_ctx *ctx, const ipu_resource *resource, const ipu_type *types,
            uint32_t count)
{
    char a[128];
    char b[128];
    const char *name = resource->name == NULL ? "" : resource->name;
    IPU_FAIL_IF(ctx, count != resource->type_count, FAILED_PRECONDITION,
                "queue '%s' has %" PRIu32 " components, but the program was made for "
                "%" PRIu32,
                name, count, resource->type_count);
    for (uint32_t i = 0; i < count; i++) {
        IPU_FAIL_IF(ctx, !ipu_type_equal(&types[i], &resource->types[i]),
                    FAILED_PRECONDITION,
                    "'%s' is %s on the device, but the program was "
                    "made for %s",
                    name, ipu_type_print(&types[i], a, sizeof(a)),
                    ipu_type_print(&resource->types[i], b, sizeof(b)));
    }
    return IPU_OK;
}

static ipu_status
find_resource(ipu_ctx *ctx, const ipu_executor *executor, uint32_t replica,
              uint32_t index, void **out)
{
    const ipu_resource *resource = &executor->program->resources.items[index];
    ipu_resource whole;
    ipu_type type;
    const ipu_type *types = &type;
    const ipu_host_function *host;
    uint32_t count = 1;
    if (resource->kind == IPU_RESOURCE_VARIABLE) {
        IPU_TRY(ipu__device_variable(ctx, executor->device, resource->id,
                                     (int32_t)replica, resource->parts, &type, out));
        if (resource->parts > 0) {
            IPU_FAIL_IF(
                ctx, resource->parts != executor->replica_total, FAILED_PRECONDITION,
                "'%s' is shared out over %" PRIu32 " replicas, but %" PRIu32 " run",
                resource->name == NULL ? "" : resource->name, resource->parts,
                executor->replica_total);
            whole = *resource;
            whole.types = resource->whole;
            resource = &whole;
        }
    } else {
        IPU_TRY(ipu__device_queue(ctx, executor->device, resource->kind, resource->id,
                                  out));
        if (resource->kind == IPU_RESOURCE_HOST) {
            host = *out;
            types = host->types;
            count = host->type_count;
        } else if (resource->kind == IPU_RESOURCE_INFEED) {
            count = ipu_infeed_types(*out, &types);
        } else {
            count = ipu_outfeed_types(*out, &types);
        }
    }
    return check_types(ctx, resource, types, count);
}

/* All are found before any is bound: where one is gone, a run that fails settles with
 * the queues that it has begun with. */
static ipu_status
bind(ipu_ctx *ctx, ipu_executor *executor)
{
    const ipu_program *program = executor->program;
    size_t count = program->resources.count;
    uint64_t generation =
        executor->device == NULL ? 0 : ipu__device_generation(executor->device);
    for (uint32_t r = 0; r < executor->replica_count; r++) {
        for (uint32_t i = 0; i < count; i++) {
            void **found = &executor->found[r * count + i];
            IPU_TRY(find_resource(ctx, executor, r, i, found));
        }
    }
    for (uint32_t r = 0; r < executor->replica_count; r++) {
        ipu_copy_bytes(executor->replicas[r].resources, &executor->found[r * count],
                       count * sizeof(void *));
    }
    for (size_t i = 0; i < executor->stream_count; i++) {
        ipu__stream_bind(&executor->streams[i]);
    }
    executor->generation = generation;
    return IPU_OK;
}

/* --- life ------------------------------------------------------------------------- */

/* Whether a stream may wait for something else than a queue. */
static bool
is_scheduled(const ipu_executor *executor)
{
    return executor->stream_count > 1 || executor->replica_total > 1;
}

static ipu_status
allocate(ipu_ctx *ctx, ipu_executor *executor)
{
    const ipu_program *program = executor->program;
    ipu_arena *arena = &executor->arena;
    IPU_TRY(ipu_arena_alloc(ctx, arena, program->input_count * sizeof(ipu__buffer),
                            &executor->inputs));
    IPU_TRY(ipu__replicas_create(ctx, executor));
    IPU_TRY(ipu_arena_alloc(
        ctx, arena, executor->replica_count * program->resources.count * sizeof(void *),
        &executor->found));
    if (is_scheduled(executor)) {
        IPU_TRY(ipu_arena_alloc(ctx, arena, executor->stream_count * sizeof(ipu_ctx),
                                &executor->contexts));
        IPU_TRY(ipu_arena_alloc(ctx, arena, executor->stream_count, &executor->states));
    }
    return IPU_OK;
}

static void
free_workspaces(ipu_ctx *ctx, ipu_executor *executor)
{
    for (size_t i = 0; i < executor->workspace_count; i++) {
        ipu_free(ctx, executor->workspaces[i].memory, executor->workspace_bytes);
    }
    ipu_free(ctx, executor->workspaces,
             executor->workspace_count * sizeof(ipu__workspace));
    executor->workspaces = NULL;
    executor->workspace_count = 0;
}

/* What a kernel uses that runs by itself, or the parts of a region. */
static size_t
workspace_bytes(const ipu_executor *executor)
{
    const ipu_program *program = executor->program;
    size_t parts = (size_t)ipu__region_workspaces(ipu_pool_threads(executor->pool)) *
                   ipu__region_part_bytes(program);
    size_t whole = program->workspace_bytes;
    return (whole > parts ? whole : parts) + IPU_SLACK_BYTES;
}

/* A workspace for each thread that can be at a stream: more and larger ones than before
 * where the pool has more threads. */
static ipu_status
make_workspaces(ipu_ctx *ctx, ipu_executor *executor)
{
    size_t threads = (size_t)ipu_pool_threads(executor->pool);
    size_t streams = executor->stream_count;
    size_t wanted = threads < streams ? threads : streams;
    size_t bytes = workspace_bytes(executor);
    if (wanted <= executor->workspace_count && bytes <= executor->workspace_bytes) {
        return IPU_OK;
    }
    free_workspaces(ctx, executor);
    executor->workspace_bytes = bytes;
    IPU_TRY(ipu_alloc(ctx, wanted * sizeof(ipu__workspace), &executor->workspaces));
    executor->workspace_count = wanted;
    for (size_t i = 0; bytes > IPU_SLACK_BYTES && i < wanted; i++) {
        char **memory = &executor->workspaces[i].memory;
        ipu_status status = ipu_alloc(ctx, bytes, memory);
        if (status != IPU_OK) { /* the next call tries again */
            free_workspaces(ctx, executor);
            return status;
        }
        ipu_pages_advise_huge(*memory, bytes);
    }
    return IPU_OK;
}

/* Streams are served by a pool, be it of one thread. */
static ipu_status
use_pool(ipu_ctx *ctx, ipu_executor *executor, ipu_pool *pool)
{
    if (pool == NULL && is_scheduled(executor)) {
        if (executor->own_pool == NULL) {
            IPU_TRY(ipu_pool_create(ctx, 1, &executor->own_pool));
        }
        pool = executor->own_pool;
    }
    executor->pool = pool;
    return make_workspaces(ctx, executor);
}

ipu_status
ipu_executor_create(ipu_ctx *ctx, const ipu_program *program, ipu_device *device,
                    ipu_pool *pool, ipu_executor **out)
{
    *out = NULL;
    IPU_FAIL_IF(ctx, device == NULL && program->resources.count > 0,
                FAILED_PRECONDITION,
                "a program with variables or queues needs a device");
    ipu_executor *executor;
    IPU_TRY(ipu_alloc(ctx, sizeof(*executor), &executor));
    executor->program = program;
    executor->device = device;
    if (device != NULL) {
        executor->runner = ipu__device_new_runner(device);
    }
    ipu_lock_init(&executor->lock, NULL, NULL);
    ipu_status status = allocate(ctx, executor);
    if (status == IPU_OK) {
        status = use_pool(ctx, executor, pool);
    }
    if (status == IPU_OK) {
        status = bind(ctx, executor);
    }
    if (status != IPU_OK) {
        ipu_executor_free(ctx, executor);
        return status;
    }
    *out = executor;
    return IPU_OK;
}

void
ipu__free_copies(ipu_ctx *ctx, const ipu__buffer *buffers, uint32_t count)
{
    for (uint32_t i = 0; buffers != NULL && i < count; i++) {
        ipu_free(ctx, buffers[i].copy, buffers[i].copy_bytes);
    }
}

void
ipu_executor_free(ipu_ctx *ctx, ipu_executor *executor)
{
    if (executor == NULL) {
        return;
    }
    if (executor->peers != NULL && ipu_peers_is_torn(executor->peers)) {
        return; /* a transport may still read its memory, or write to it */
    }
    free_workspaces(ctx, executor);
    ipu__free_copies(ctx, executor->inputs, executor->program->input_count);
    ipu__replicas_free(ctx, executor);
    ipu_arena_free(ctx, &executor->arena);
    ipu_pool_free(ctx, executor->own_pool);
    ipu_lock_destroy(&executor->lock);
    ipu_free(ctx, executor, sizeof(*executor));
}

uint32_t
ipu_executor_replicas(const ipu_executor *executor)
{
    return executor->replica_count;
}

ipu_status
ipu_executor_set_pool(ipu_ctx *ctx, ipu_executor *executor, ipu_pool *pool)
{
    return use_pool(ctx, executor, pool);
}

void
ipu_executor_set_random(ipu_executor *executor, uint64_t seed, uint64_t step)
{
    executor->own_seed = seed;
    executor->own_step = step;
}

void
ipu_executor_set_slack(ipu_executor *executor, const bool *inputs, bool outputs)
{
    const ipu_program *program = executor->program;
    for (uint32_t i = 0; i < program->input_count; i++) {
        executor->inputs[i].has_slack = inputs[i];
    }
    for (uint32_t i = 0; i < program->output_count; i++) {
        executor->replicas[0].outputs[i].has_slack = outputs;
    }
}

void
ipu_executor_set_spans(ipu_executor *executor, ipu_action_span *spans)
{
    size_t first = 0;
    for (size_t i = 0; i < executor->program->streams.count; i++) {
        ipu__stream *stream = &executor->replicas[0].streams[i];
        const ipu_stream *code = stream->code;
        stream->spans = spans != NULL && code->is_child ? spans + first : NULL;
        first += code->is_child ? code->instructions.count - code->entry : 0;
    }
}

/* --- steps ------------------------------------------------------------------------ */

static uint64_t
subject_of(const ipu_executor *executor)
{
    return ipu_program_subject(executor->program, 0, 0);
}

/* A step begins: whether it is recorded. Steps count from the start of a recording. */
static void
begin_events(ipu_executor *executor)
{
    executor->is_recorded = false;
    executor->step_ns = ipu_event_begin(IPU_EVENT_STEP);
    if (executor->step_ns == 0) {
        return;
    }
    uint32_t recording = ipu_recorder_generation();
    if (recording != executor->recording) {
        executor->recording = recording;
        executor->steps_met = 0;
    }
    executor->is_recorded = ipu_recorder_has_step(executor->steps_met);
}

static void
end_events(ipu_executor *executor)
{
    if (executor->is_recorded) {
        ipu_event_note(IPU_EVENT_STEP, subject_of(executor), executor->step_ns,
                       ipu_now_ns(), (uint32_t)executor->stats->steps, 0);
    }
    executor->steps_met++; /* a recording that begins forgets those before it */
}

static void
begin_step(ipu_executor *executor)
{
    ipu_random_key key = {.seed = executor->own_seed, .step = executor->own_step};
    if (executor->device != NULL) {
        key = ipu__device_random(executor->device);
    }
    for (size_t i = 0; i < executor->stream_count; i++) {
        ipu__stream_begin_step(&executor->streams[i], &key);
    }
}

static void
advance_step(ipu_executor *executor)
{
    uint32_t micro_batches = executor->program->micro_batches;
    if (executor->device != NULL) {
        ipu__device_advance(executor->device, micro_batches);
    } else {
        executor->own_step += micro_batches;
    }
}

ipu_status
ipu__executor_rebind(ipu_ctx *ctx, ipu_executor *executor)
{
    bool is_bound = executor->device == NULL ||
                    ipu__device_generation(executor->device) == executor->generation;
    return is_bound ? IPU_OK : bind(ctx, executor);
}

ipu_status
ipu__executor_end_step(ipu_ctx *ctx, ipu_executor *executor)
{
    advance_step(executor);
    end_events(executor);
    begin_events(executor);
    executor->stats->steps++;
    if (executor->device != NULL) {
        ipu__device_boundary(executor->device);
        IPU_TRY(ipu__executor_rebind(ctx, executor));
    }
    begin_step(executor);
    bool stops = ipu__is_cancelled(executor->cancel);
    if (executor->agreement != NULL) {
        IPU_TRY(ipu__agree_to_go_on(ctx, executor, &stops));
    }
    IPU_FAIL_IF(ctx, stops, INTERRUPTED, "interrupted after %" PRIu64 " steps",
                executor->stats->steps);
    return IPU_OK;
}

/* --- waiting for hosts ------------------------------------------------------------ */

/* Whether a stream has written a variable since the step began. */
static bool
has_written(const ipu_executor *executor)
{
    bool found = false;
    for (size_t i = 0; i < executor->stream_count; i++) {
        found |= executor->streams[i].has_written;
    }
    return found;
}

void
ipu__wait_begin(ipu_executor *executor, const ipu__stream *stream)
{
    ipu_instruction_kind kind = stream->code->instructions.items[stream->at].kind;
    if (executor->wait.since_ns == 0) {
        executor->wait.since_ns = ipu_now_ns();
        executor->wait.kind = kind == IPU_INSTRUCTION_DEQUEUE   ? IPU_EVENT_INFEED_WAIT
                              : kind == IPU_INSTRUCTION_ENQUEUE ? IPU_EVENT_OUTFEED_WAIT
                                                                : IPU_EVENT_PEER_WAIT;
    }
}

void
ipu__wait_pause(ipu_executor *executor)
{
    if (!executor->wait.is_paused && executor->wait.kind != IPU_EVENT_PEER_WAIT &&
        !has_written(executor)) {
        executor->wait.is_paused = true;
        ipu__device_pause(executor->device);
    }
}

bool
ipu__wait_is_cancelled(ipu_executor *executor)
{
    return ipu__stops_here(executor, !has_written(executor),
                           &executor->wait.cancelled_ns);
}

ipu_status
ipu__wait_end(ipu_ctx *ctx, ipu_executor *executor)
{
    ipu__wait *wait = &executor->wait;
    if (wait->since_ns != 0) {
        uint64_t *sum =
            wait->kind == IPU_EVENT_INFEED_WAIT    ? &executor->stats->infeed_wait_ns
            : wait->kind == IPU_EVENT_OUTFEED_WAIT ? &executor->stats->outfeed_wait_ns
                                                   : &executor->stats->peer_wait_ns;
        wait->over_since_ns = wait->since_ns;
        wait->over_until_ns = ipu_now_ns();
        wait->since_ns = 0;
        *sum += wait->over_until_ns - wait->over_since_ns;
    }
    if (!wait->is_paused) {
        return IPU_OK;
    }
    wait->is_paused = false;
    ipu__device_resume(executor->device);
    return ipu__executor_rebind(ctx, executor);
}

void
ipu__wait_note(const ipu_executor *executor, ipu__wait wait)
{
    if (executor->is_recorded) {
        ipu_event_note(wait.kind, subject_of(executor), wait.over_since_ns,
                       wait.over_until_ns, 0, 0);
    }
}

/* --- one stream ------------------------------------------------------------------- */

/* A stream that is alone waits for nothing else. */
static ipu_status
wait_for_queue(ipu_executor *executor, ipu__stream *stream)
{
    const ipu_instruction *instruction = &stream->code->instructions.items[stream->at];
    bool is_infeed = instruction->kind == IPU_INSTRUCTION_DEQUEUE;
    void *queue = stream->replica->resources[instruction->resource];
    ipu_status status = IPU_OK;
    ipu__wait_begin(executor, stream);
    bool found = !is_infeed || ipu_infeed_wait(queue, 0);
    if (!is_infeed) {
        status = ipu_outfeed_wait_for_room(stream->ctx, queue);
    }
    while (!found && !ipu__wait_is_cancelled(executor)) {
        ipu__wait_pause(executor);
        found = ipu_infeed_wait(queue, IPU__CANCEL_POLL_NS);
    }
    ipu_status end = ipu__wait_end(stream->ctx, executor);
    ipu__wait_note(executor, executor->wait);
    IPU_TRY(status);
    IPU_TRY(end);
    IPU_FAIL_IF(stream->ctx, !found, INTERRUPTED,
                "interrupted while waiting for the infeed's next element");
    return IPU_OK;
}

static ipu_status
run_alone(ipu_ctx *ctx, ipu_executor *executor)
{
    ipu__stream *stream = &executor->streams[0];
    stream->ctx = ctx;
    stream->call.ctx = ctx;
    stream->call.workspace = executor->workspaces[0].memory;
    ipu__progress progress = IPU__STEP_END;
    ipu_status status = IPU_OK;
    while (status == IPU_OK && progress != IPU__HALTED) {
        progress = ipu__stream_run(stream);
        if (progress == IPU__STEP_END) {
            status = ipu__executor_end_step(ctx, executor);
            stream->has_ended_step = true;
        } else if (progress == IPU__WOULD_BLOCK) {
            status = wait_for_queue(executor, stream);
        } else if (progress == IPU__FAILED) {
            status = ctx->status;
        }
    }
    if (status != IPU_OK && ctx->source.file == NULL) {
        ctx->source = stream->code->instructions.items[stream->at].source;
    }
    return status;
}

/* --- runs ------------------------------------------------------------------------- */

static void
use_queues(ipu_executor *executor, bool is_used)
{
    const ipu_program *program = executor->program;
    for (uint32_t i = 0; i < program->resources.count; i++) {
        if (program->resources.items[i].kind != IPU_RESOURCE_VARIABLE) {
            ipu__device_queue_use(executor->device, program->resources.items[i].id,
                                  is_used);
        }
    }
}

/* Once they are in use: a queue that is open now stays open. */
static ipu_status
begin_queues(ipu_ctx *ctx, const ipu_executor *executor)
{
    const ipu_program *program = executor->program;
    uint32_t replicas = executor->replica_count;
    for (uint32_t i = 0; i < program->resources.count; i++) {
        const ipu_resource *resource = &program->resources.items[i];
        void *queue = executor->replicas[0].resources[i];
        IPU_FAIL_IF(ctx,
                    resource->kind == IPU_RESOURCE_INFEED && !ipu_infeed_is_open(queue),
                    FAILED_PRECONDITION, IPU__NO_INFEED, resource->id);
        if (resource->kind == IPU_RESOURCE_INFEED) {
            IPU_TRY(ipu_infeed_begin(ctx, queue, replicas));
        } else if (resource->kind == IPU_RESOURCE_OUTFEED) {
            IPU_TRY(ipu_outfeed_begin(ctx, queue, replicas));
        }
    }
    return IPU_OK;
}

static void
settle_queues(ipu_executor *executor)
{
    const ipu_program *program = executor->program;
    for (uint32_t i = 0; i < program->resources.count; i++) {
        ipu_resource_kind kind = program->resources.items[i].kind;
        if (kind == IPU_RESOURCE_OUTFEED) {
            ipu_outfeed_flush(executor->replicas[0].resources[i]);
        } else if (kind == IPU_RESOURCE_INFEED) {
            ipu_infeed_finish(executor->replicas[0].resources[i]);
        }
    }
    use_queues(executor, false);
}

/* The caller's memory where kernels may use it, else a copy. */
static ipu_status
place_buffer(ipu_ctx *ctx, ipu__buffer *buffer, void *given, size_t bytes)
{
    bool is_aligned = (uintptr_t)given % IPU_BUFFER_ALIGNMENT == 0;
    buffer->data = given;
    bool has_slack = buffer->has_slack || !buffer->needs_slack;
    if (!buffer->is_used || bytes == 0 || (is_aligned && has_slack)) {
        return IPU_OK;
    }
    if (buffer->copy == NULL) {
        size_t whole = ipu_buffer_round_up(bytes) + IPU_SLACK_BYTES;
        IPU_TRY(ipu_alloc(ctx, whole, &buffer->copy));
        ipu_pages_share(buffer->copy, whole);
        buffer->copy_bytes = whole;
    }
    buffer->data = buffer->copy;
    return IPU_OK;
}

static ipu_status
take_in(ipu_ctx *ctx, ipu_executor *executor, const void *const *inputs,
        void *const *outputs)
{
    const ipu_program *program = executor->program;
    for (uint32_t i = 0; i < program->input_count; i++) {
        ipu__buffer *buffer = &executor->inputs[i];
        size_t bytes = ipu_type_bytes(&program->inputs[i]);
        void *given = (void *)(uintptr_t)inputs[i]; /* nothing writes to an input */
        IPU_TRY(place_buffer(ctx, buffer, given, bytes));
        if (buffer->data != given) {
            memcpy(buffer->data, given, bytes);
        }
    }
    for (uint32_t i = 0; i < program->output_count; i++) {
        IPU_TRY(place_buffer(ctx, &executor->replicas[0].outputs[i], outputs[i],
                             ipu_type_bytes(&program->outputs[i])));
    }
    return IPU_OK;
}

static void
give_out(ipu_executor *executor, void *const *outputs)
{
    const ipu_program *program = executor->program;
    for (uint32_t i = 0; i < program->output_count; i++) {
        const ipu__buffer *buffer = &executor->replicas[0].outputs[i];
        if (buffer->data != outputs[i]) {
            memcpy(outputs[i], buffer->data, ipu_type_bytes(&program->outputs[i]));
        }
    }
}

/* The run has failed. In the middle of a step some replicas may have written what
 * others have not: the next run begins with the copies of replica 0, which may be
 * another process's. */
static void
forget_copies(ipu_executor *executor)
{
    if (has_written(executor)) {
        (void)ipu__device_is_changed(executor->device, IPU__NO_RUNNER);
    }
}

/* With the device: from here on the resources stay where they are. */
static ipu_status
run_owned(ipu_ctx *ctx, ipu_executor *executor)
{
    size_t streams = executor->stream_count;
    IPU_TRY(ipu__executor_rebind(ctx, executor));
    IPU_FAIL_IF(ctx, ipu__is_cancelled(executor->cancel), INTERRUPTED,
                "interrupted before the first step");
    IPU_TRY(ipu__replicas_reset(ctx, executor));
    use_queues(executor, true);
    executor->wait = (ipu__wait){0};
    executor->thread = pthread_self();
    for (size_t i = 0; i < streams; i++) {
        executor->streams[i].call.pool = executor->pool;
        ipu__stream_reset(&executor->streams[i]);
    }
    begin_events(executor);
    begin_step(executor);
    ipu_status status = begin_queues(ctx, executor);
    if (status == IPU_OK) {
        status = is_scheduled(executor) ? ipu__schedule_run(ctx, executor)
                                        : run_alone(ctx, executor);
    }
    if (status == IPU_OK && executor->stats->steps == 0) {
        advance_step(executor); /* no loop of steps, or none that took a turn */
        end_events(executor);
    }
    if (status != IPU_OK) {
        forget_copies(executor);
    }
    settle_queues(executor);
    return executor->agreement == NULL ? status
                                       : ipu__agree_to_end(ctx, executor, status);
}

/* An allocator that counts what goes through it. */
typedef struct counting {
    ipu_allocator inner;
    _Atomic uint64_t count;
} counting;

static void *
count_resize(void *state, void *pointer, size_t old_bytes, size_t new_bytes)
{
    counting *c = state;
    atomic_fetch_add(&c->count, new_bytes != 0);
    return c->inner.resize(c->inner.state, pointer, old_bytes, new_bytes);
}

ipu_status
ipu_executor_run(ipu_ctx *ctx, ipu_executor *executor, const void *const *inputs,
                 void *const *outputs, const int32_t *cancel, ipu_run_stats *stats)
{
    ipu_run_stats own_stats;
    counting allocations = {.inner = ctx->allocator};
    executor->cancel = cancel;
    executor->stats = stats == NULL ? &own_stats : stats;
    *executor->stats = (ipu_run_stats){0};
    IPU_TRY(take_in(ctx, executor, inputs, outputs));
    if (executor->device != NULL) {
        IPU_TRY(ipu__device_begin(ctx, executor->device, cancel));
    }
    uint64_t start = ipu_now_ns();
    ctx->allocator = (ipu_allocator){count_resize, &allocations};
    ipu_status status = run_owned(ctx, executor);
    ctx->allocator = allocations.inner;
    if (executor->device != NULL) {
        ipu__device_end(executor->device);
    }
    if (status == IPU_OK) {
        give_out(executor, outputs);
    }
    executor->stats->allocations = atomic_load(&allocations.count);
    uint64_t end = ipu_now_ns();
    executor->stats->run_ns = end - start;
    ipu_event_note(IPU_EVENT_RUN, subject_of(executor), start, end, 0, 0);
    return status;
}
