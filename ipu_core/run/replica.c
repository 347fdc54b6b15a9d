/* SPDX-License-Identifier: MIT
 *
 * Replicas: how many of a program run on a device, what each has of its own, and where
 * they meet.
 *
 * A program is made for one replica. Each replica has its own instances of the
 * program's streams, with their slabs, and of its channels, its own copies of the
 * variables, and buffers for outputs, of which those of replica 0 are the run's. Queues
 * are shared: they know replicas by their numbers.
 *
 * At a collective a replica leaves its operands at the meeting and waits. The last one
 * to come computes for all, with what threads of the pool are free, and ends the round.
 * The next round of the same meeting cannot begin to compute before all have left this
 * one, since all have to come again. */
#include <inttypes.h>
#include <string.h>

#include "kernels/core/collective.h"
#include "run/executor_impl.h"

ipu_status
ipu_replication_factor(ipu_ctx *ctx, int32_t ipus, uint32_t shards, uint32_t *out)
{
    uint32_t whole = 1; /* shards, rounded up to a power of two */
    *out = 1;
    while (whole < shards) {
        whole *= 2;
    }
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
    for (size_t i = 0; i < program->specs.count; i++) {
        const ipu_kernel_spec *spec = &program->specs.items[i];
        if ((ipu_op_info_of(spec->op)->flags & IPU_OP_COLLECTIVE) != 0) {
            IPU_TRY(ipu_collective_check(ctx, spec, executor->replica_count));
        }
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
    size_t operands = (size_t)program->meeting_count * count * sizeof(void *);
    IPU_TRY(
        ipu_arena_alloc(ctx, arena, streams * sizeof(ipu__stream), &executor->streams));
    executor->stream_count = streams;
    IPU_TRY(
        ipu_arena_alloc(ctx, arena, count * sizeof(ipu__replica), &executor->replicas));
    IPU_TRY(ipu_arena_alloc(ctx, arena, program->meeting_count * sizeof(ipu__meeting),
                            &executor->meetings));
    IPU_TRY(ipu_arena_alloc(ctx, arena, operands, &executor->meeting_inputs));
    IPU_TRY(ipu_arena_alloc(ctx, arena, operands, &executor->meeting_outputs));
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
        size_t bytes = resource->kind == IPU_RESOURCE_VARIABLE
                           ? ipu_type_bytes(&resource->types[0])
                           : 0;
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

ipu_status
ipu__replicas_reset(ipu_ctx *ctx, ipu_executor *executor)
{
    const ipu_program *program = executor->program;
    if (executor->device != NULL &&
        ipu__device_is_changed(executor->device, executor->runner)) {
        ipu_status status = arrange_variables(ctx, executor);
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
    for (uint32_t i = 0; i < program->meeting_count; i++) {
        atomic_store(&executor->meetings[i].arrived, 0);
    }
    return IPU_OK;
}

/* --- meetings --------------------------------------------------------------------- */

static void
compute(const ipu__stream *stream, const ipu_instruction *instruction)
{
    const ipu_executor *executor = stream->executor;
    size_t first = (size_t)instruction->meeting * executor->replica_count;
    ipu_collective_run(&(ipu_collective_call){
        .spec = &stream->specs[instruction->spec],
        .replicas = executor->replica_count,
        .inputs = &executor->meeting_inputs[first],
        .outputs = &executor->meeting_outputs[first],
        .pool = executor->pool,
    });
}

/* See stream.c for how a stream that waits and one that unblocks it find each other. */
static void
tell_others(const ipu__stream *stream)
{
    const ipu_executor *executor = stream->executor;
    bool is_blocked = false;
    for (uint32_t r = 0; r < executor->replica_count; r++) {
        is_blocked |=
            atomic_load(&executor->replicas[r].streams[stream->number].is_blocked);
    }
    if (is_blocked) {
        ipu_pool_announce(executor->pool);
    }
}

bool
ipu__meeting_is_over(const ipu__stream *stream, const ipu_instruction *instruction)
{
    const ipu__meeting *meeting = &stream->executor->meetings[instruction->meeting];
    return !stream->is_meeting || atomic_load(&meeting->round) != stream->round;
}

bool
ipu__meet(ipu__stream *stream, const ipu_instruction *instruction, void **operands)
{
    const ipu_executor *executor = stream->executor;
    ipu__meeting *meeting = &executor->meetings[instruction->meeting];
    if (stream->is_meeting) {
        stream->is_meeting = !ipu__meeting_is_over(stream, instruction);
        return !stream->is_meeting;
    }
    size_t own = (size_t)instruction->meeting * executor->replica_count +
                 stream->replica->number;
    executor->meeting_inputs[own] = operands[0];
    executor->meeting_outputs[own] = operands[instruction->input_count];
    stream->round = atomic_load(&meeting->round);
    if (atomic_fetch_add(&meeting->arrived, 1) + 1 < executor->replica_count) {
        stream->is_meeting = true;
        return false;
    }
    compute(stream, instruction);
    atomic_store(&meeting->arrived, 0);
    atomic_store(&meeting->round, stream->round + 1);
    tell_others(stream);
    return true;
}
