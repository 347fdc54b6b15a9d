/* SPDX-License-Identifier: MIT
 *
 * Replicas: how many of a program run on a device, what each has of its own, and where
 * they meet.
 *
 * A program is made for one replica. Each replica has its own instances of the
 * program's streams, with their slabs, and of its channels, its own copies of the
 * variables, and buffers for outputs, of which those of replica 0 are the run's. Queues
 * are shared: they know replicas by their numbers. Where they meet: meeting.c.
 *
 * Where several processes run the program each has as many replicas, and numbers of all
 * count by process first: of two processes with three each, process 1 has 3, 4 and 5. */
#include <inttypes.h>
#include <string.h>

#include "run/executor_impl.h"

ipu_status
ipu_replication_factor(ipu_ctx *ctx, int32_t ipus, uint32_t shards, uint32_t *out)
{
    uint32_t whole = ipu_whole_ipus(shards);
    *out = 1;
    IPU_FAIL_IF(ctx, (uint32_t)ipus % whole != 0, INTERNAL,
                "The number of shards needs to divide the number of IPUs: the program "
                "uses %" PRIu32 " IPUs, rounded up to %" PRIu32
                ", a power of two, but the device has %" PRId32
                ". Set auto_select_ipus = %" PRIu32 ", or a multiple of it",
                shards, whole, ipus, whole);
    *out = (uint32_t)ipus / whole;
    return IPU_OK;
}

ipu_status
ipu_program_replicas(ipu_ctx *ctx, const ipu_program *program, const ipu_device *device,
                     uint32_t *out)
{
    *out = 1;
    return device == NULL || program->is_host
               ? IPU_OK
               : ipu_replication_factor(ctx, ipu_device_ipus(device),
                                        ipu_program_shards(program), out);
}

/* Replicas of a program that has no resources and never meets differ in nothing. */
static bool
can_differ(const ipu_program *program)
{
    return program->resources.count > 0 || program->meeting_count > 0;
}

static ipu_status
choose_count(ipu_ctx *ctx, ipu_executor *executor)
{
    const ipu_program *program = executor->program;
    uint32_t count;
    IPU_TRY(ipu_program_replicas(ctx, program, executor->device, &count));
    executor->replica_count = can_differ(program) ? count : 1;
    executor->replica_total = executor->replica_count;
    if (executor->device != NULL && can_differ(program)) {
        executor->peers = ipu__device_peers(executor->device);
    }
    if (executor->peers != NULL) {
        executor->process = ipu_peers_process(executor->peers);
        executor->first_replica = executor->process * executor->replica_count;
        executor->replica_total *= ipu_peers_count(executor->peers);
    }
    return IPU_OK;
}

/* --- life ------------------------------------------------------------------------- */

static ipu_status
create_channel(ipu_ctx *ctx, ipu_executor *executor, const ipu_channel *code,
               ipu__channel *channel)
{
    size_t bytes;
    channel->code = code;
    channel->message_bytes = ipu_channel_message_bytes(code);
    IPU_TRY(ipu_mul_size(ctx, channel->message_bytes, code->depth, &bytes));
    return ipu_arena_alloc(ctx, &executor->arena, bytes, &channel->ring);
}

/* Scratch for the outputs of replicas other than 0, whose results nobody reads. */
static ipu_status
create_outputs(ipu_ctx *ctx, const ipu_program *program, ipu__replica *replica)
{
    for (uint32_t i = 0; replica->number > 0 && i < program->output_count; i++) {
        ipu__buffer *buffer = &replica->outputs[i];
        size_t bytes = ipu_type_bytes(&program->outputs[i]);
        if (buffer->is_used) {
            buffer->copy_bytes = ipu_buffer_round_up(bytes) + IPU_SLACK_BYTES;
            IPU_TRY(ipu_alloc(ctx, buffer->copy_bytes, &buffer->copy));
            buffer->data = buffer->copy;
        }
    }
    return IPU_OK;
}

static ipu_status
create_replica(ipu_ctx *ctx, ipu_executor *executor, uint32_t number)
{
    const ipu_program *program = executor->program;
    ipu__replica *replica = &executor->replicas[number];
    size_t streams = program->streams.count;
    replica->number = number;
    replica->streams = &executor->streams[number * streams];
    IPU_TRY(ipu_arena_alloc(ctx, &executor->arena,
                            program->resources.count * sizeof(void *),
                            &replica->resources));
    IPU_TRY(ipu_arena_alloc(ctx, &executor->arena,
                            program->output_count * sizeof(ipu__buffer),
                            &replica->outputs));
    for (uint32_t i = 0; i < streams; i++) {
        IPU_TRY(ipu__stream_create(ctx, executor, replica, i));
    }
    IPU_TRY(ipu_alloc(ctx, program->channels.count * sizeof(ipu__channel),
                      &replica->channels));
    for (size_t i = 0; i < program->channels.count; i++) {
        IPU_TRY(create_channel(ctx, executor, &program->channels.items[i],
                               &replica->channels[i]));
    }
    return create_outputs(ctx, program, replica);
}

ipu_status
ipu__replicas_create(ipu_ctx *ctx, ipu_executor *executor)
{
    const ipu_program *program = executor->program;
    ipu_arena *arena = &executor->arena;
    IPU_TRY(choose_count(ctx, executor));
    uint32_t count = executor->replica_count;
    size_t streams = count * program->streams.count;
    IPU_TRY(
        ipu_arena_alloc(ctx, arena, streams * sizeof(ipu__stream), &executor->streams));
    executor->stream_count = streams;
    IPU_TRY(
        ipu_arena_alloc(ctx, arena, count * sizeof(ipu__replica), &executor->replicas));
    IPU_TRY(ipu__meetings_create(ctx, executor));
    IPU_TRY(ipu__agreement_create(ctx, executor));
    for (uint32_t i = 0; i < count; i++) {
        IPU_TRY(create_replica(ctx, executor, i));
    }
    return IPU_OK;
}

static void
free_replica(ipu_ctx *ctx, const ipu_program *program, const ipu__replica *replica)
{
    for (size_t i = 0; i < program->streams.count && replica->streams != NULL; i++) {
        ipu__stream_free(ctx, &replica->streams[i]);
    }
    ipu_free(ctx, replica->channels, program->channels.count * sizeof(ipu__channel));
    ipu__free_copies(ctx, replica->outputs, program->output_count);
}

void
ipu__replicas_free(ipu_ctx *ctx, ipu_executor *executor)
{
    ipu__meetings_free(ctx, executor);
    for (uint32_t i = 0; executor->replicas != NULL && i < executor->replica_count;
         i++) {
        free_replica(ctx, executor->program, &executor->replicas[i]);
    }
}

/* --- runs ------------------------------------------------------------------------- */

/* The run begins, with the device. Another program may have written the variables. */
static void
spread_variables(ipu_executor *executor)
{
    const ipu_program *program = executor->program;
    for (uint32_t i = 0; i < program->resources.count; i++) {
        const ipu_resource *resource = &program->resources.items[i];
        bool is_copied =
            resource->kind == IPU_RESOURCE_VARIABLE && resource->parts == 0;
        size_t bytes = is_copied ? ipu_type_bytes(&resource->types[0]) : 0;
        for (uint32_t r = 1; bytes > 0 && r < executor->replica_count; r++) {
            memcpy(executor->replicas[r].resources[i],
                   executor->replicas[0].resources[i], bytes);
        }
    }
}

/* Another program may have wanted them otherwise. */
static ipu_status
arrange_variables(ipu_ctx *ctx, const ipu_executor *executor)
{
    const ipu_program *program = executor->program;
    ipu_status status = IPU_OK;
    for (uint32_t i = 0; status == IPU_OK && i < program->resources.count; i++) {
        const ipu_resource *resource = &program->resources.items[i];
        if (resource->kind == IPU_RESOURCE_VARIABLE) {
            status = ipu__device_set_layout(ctx, executor->device, resource->id,
                                            resource->panel_columns);
        }
    }
    return status;
}

/* Each replica gets its part of what they share out. */
static ipu_status
share_variables(ipu_ctx *ctx, const ipu_executor *executor)
{
    const ipu_program *program = executor->program;
    for (uint32_t i = 0; i < program->resources.count; i++) {
        const ipu_resource *resource = &program->resources.items[i];
        const ipu__parts wanted = {resource->parts, executor->first_replica,
                                   executor->replica_count};
        if (resource->parts > 0 &&
            ipu__device_parts(executor->device, resource->id).count == 0) {
            IPU_TRY(ipu__device_set_parts(ctx, executor->device, resource->id, wanted,
                                          NULL));
        }
    }
    return IPU_OK;
}

/* What another program's replicas had in parts, and this one's do not, is made whole. */
static ipu_status
gather_variables(ipu_ctx *ctx, ipu_executor *executor)
{
    const ipu_program *program = executor->program;
    for (uint32_t i = 0; i < program->resources.count; i++) {
        const ipu_resource *resource = &program->resources.items[i];
        if (resource->kind != IPU_RESOURCE_VARIABLE) {
            continue;
        }
        ipu__parts parts = ipu__device_parts(executor->device, resource->id);
        if (parts.count == resource->parts || parts.count == 0) {
            continue;
        }
        if (parts.here == parts.count) {
            IPU_TRY(ipu__device_set_parts(ctx, executor->device, resource->id,
                                          (ipu__parts){0}, NULL));
            continue;
        }
        IPU_FAIL_IF(ctx, executor->agreement == NULL, FAILED_PRECONDITION,
                    "'%s' lies in %" PRIu32
                    " parts, which several processes share out, "
                    "but each process runs this program by itself. Read its value by "
                    "numpy(), in all of them, and hand that to the program",
                    resource->name == NULL ? "" : resource->name, parts.count);
        IPU_TRY(ipu__agree_on_parts(ctx, executor, resource, parts));
    }
    return IPU_OK;
}

ipu_status
ipu__replicas_reset(ipu_ctx *ctx, ipu_executor *executor)
{
    const ipu_program *program = executor->program;
    bool is_changed = executor->device != NULL &&
                      ipu__device_is_changed(executor->device, executor->runner);
    ipu_status status = IPU_OK;
    if (executor->agreement != NULL) {
        status = ipu__agree_to_begin(ctx, executor, &is_changed);
    }
    if (is_changed || status != IPU_OK) {
        status = status == IPU_OK ? gather_variables(ctx, executor) : status;
        status = status == IPU_OK ? arrange_variables(ctx, executor) : status;
        if (status == IPU_OK && executor->agreement != NULL) {
            status = ipu__agree_on_variables(ctx, executor);
        }
        status = status == IPU_OK ? share_variables(ctx, executor) : status;
        status = status == IPU_OK ? ipu__executor_rebind(ctx, executor) : status;
        if (status != IPU_OK) { /* the next run has to try again */
            (void)ipu__device_is_changed(executor->device, IPU__NO_RUNNER);
            return status;
        }
        spread_variables(executor);
    }
    for (uint32_t r = 0; r < executor->replica_count; r++) {
        ipu__channel *channels = executor->replicas[r].channels;
        for (size_t i = 0; i < program->channels.count; i++) {
            atomic_store(&channels[i].sent, 0);
            atomic_store(&channels[i].received, 0);
        }
    }
    ipu__meetings_reset(executor);
    return IPU_OK;
}
