/* SPDX-License-Identifier: MIT
 *
 * A stream: one loop over instructions that looks nothing up and allocates nothing. All
 * operands are pointers by then (stream_operands.c).
 *
 * Where a stream would have to wait it returns. Its whole position lies in the struct:
 * the instruction and the counters of the loops around it. So any thread can take it up
 * again; it belongs to one thread at a time.
 *
 * Random ops draw anew at each step, and in inner loops at each turn: the key's `turn`
 * counts the turns that ended since the stream entered the outermost of the inner loops
 * around, however these are nested; outside of inner loops it is 0. Which micro-batch
 * of the step it is, the action says. So numbers depend on what is computed, and not on
 * when. */
#include <inttypes.h>
#include <string.h>

#include "run/executor_impl.h"

/* --- instructions ----------------------------------------------------------------- */

static ipu_status
run_spec(ipu__stream *stream, const ipu_kernel_spec *spec, void **inputs,
         void **outputs)
{
    stream->call.spec = spec;
    stream->call.inputs = (const void *const *)inputs;
    stream->call.outputs = outputs;
    ipu_status status = spec->run(&stream->call);
    IPU_FAIL_IF(stream->ctx, status != IPU_OK && stream->ctx->status == IPU_OK,
                INTERNAL, "%s failed without a message",
                ipu_op_info_of(spec->op)->name);
    return status;
}

static ipu_status
run_kernel(ipu__stream *stream, const ipu_instruction *instruction, void **operands)
{
    return run_spec(stream, &stream->specs[instruction->spec], operands,
                    operands + instruction->input_count);
}

/* Collectives, without another replica. */
static ipu_status
run_collectives(ipu__stream *stream, const ipu_instruction *post, void **operands)
{
    for (uint32_t k = 0; k < post->spec_count; k++) {
        IPU_TRY(run_spec(stream, &stream->specs[post->spec + k], operands + k,
                         operands + post->input_count + k));
    }
    return IPU_OK;
}

static ipu_status
run_dequeue(ipu__stream *stream, const ipu_instruction *instruction, bool *done)
{
    ipu_infeed *queue = stream->replica->resources[instruction->resource];
    uint32_t replica = stream->replica->number;
    const void *const *tensors;
    IPU_TRY(ipu_infeed_take(stream->ctx, queue, replica, &tensors));
    if (tensors == NULL && ipu_infeed_make(queue, stream->call.pool)) {
        IPU_TRY(ipu_infeed_take(stream->ctx, queue, replica, &tensors));
    }
    *done = tensors != NULL;
    if (!*done) {
        return IPU_OK;
    }
    uint32_t first = instruction->outputs[0].index;
    for (size_t i = 0; i < stream->patches.count; i++) {
        ipu__patch p = stream->patches.items[i];
        if (p.component - first < instruction->output_count) {
            /* operands are void * for all; the verifier lets nothing write here */
            stream->operands[p.operand] =
                (void *)(uintptr_t)tensors[p.component - first];
        }
    }
    return IPU_OK;
}

/* Elsewhere than on the thread that runs the program the stream waits for it. */
static ipu_status
run_host(ipu__stream *stream, const ipu_instruction *instruction, void **operands,
         bool *done)
{
    const ipu_host_function *host = stream->replica->resources[instruction->resource];
    *done = ipu__executor_is_here(stream->executor);
    return *done ? host->call(stream->ctx, host->state, (const void *const *)operands,
                              operands + instruction->input_count)
                 : IPU_OK;
}

/* A blocked stream has is_blocked set before its worker asks again whether it can go
 * on; the stream at the other end of the channel moves its counter, then reads
 * is_blocked. So either the worker sees the counter, or the other stream announces the
 * change. */
static void
tell(const ipu__stream *stream, uint32_t other)
{
    if (atomic_load(&stream->replica->streams[other].is_blocked)) {
        ipu_pool_announce(stream->executor->pool);
    }
}

static char *
message_at(const ipu__channel *channel, uint64_t number)
{
    return channel->message_bytes == 0
               ? NULL
               : channel->ring +
                     (size_t)(number % channel->code->depth) * channel->message_bytes;
}

static bool
run_send(ipu__stream *stream, const ipu_instruction *instruction, void **operands)
{
    ipu__channel *channel = &stream->replica->channels[instruction->channel];
    if (!ipu__channel_has_room(channel)) {
        return false;
    }
    uint64_t sent = atomic_load_explicit(&channel->sent, memory_order_relaxed);
    char *to = message_at(channel, sent);
    for (uint32_t i = 0; i < channel->code->type_count; i++) {
        size_t bytes = ipu_type_bytes(&channel->code->types[i]);
        ipu_copy_bytes(to, operands[i], bytes);
        to += ipu_buffer_round_up(bytes);
    }
    atomic_store(&channel->sent, sent + 1);
    tell(stream, channel->code->to);
    return true;
}

static bool
run_receive(ipu__stream *stream, const ipu_instruction *instruction, void **operands)
{
    ipu__channel *channel = &stream->replica->channels[instruction->channel];
    if (!ipu__channel_has_message(channel)) {
        return false;
    }
    uint64_t received = atomic_load_explicit(&channel->received, memory_order_relaxed);
    const char *from = message_at(channel, received);
    for (uint32_t i = 0; i < channel->code->type_count; i++) {
        size_t bytes = ipu_type_bytes(&channel->code->types[i]);
        ipu_copy_bytes(operands[i], from, bytes);
        from += ipu_buffer_round_up(bytes);
    }
    atomic_store(&channel->received, received + 1);
    tell(stream, channel->code->from);
    return true;
}

/* Starts a pipeline's streams, the first time; whether they have all halted. */
static bool
run_pipeline(ipu__stream *stream, const ipu_instruction *instruction)
{
    if (stream->has_forked) {
        bool are_over = atomic_load(&stream->children) == 0;
        stream->has_forked = !are_over;
        return are_over;
    }
    for (uint32_t i = 0; i < instruction->stream_count; i++) {
        ipu__stream *child = &stream->replica->streams[instruction->first_stream + i];
        child->parent = stream;
        child->back = 0;
        child->at = child->code->entry;
        child->depth = stream->depth;
        child->batch = stream->call.random;
    }
    return false;
}

/* Goes to an action's routine, with the operands of its micro-batch. */
static size_t
begin_action(ipu__stream *stream, size_t at, const ipu_instruction *action)
{
    const ipu_ring *rings = stream->executor->program->rings.items;
    stream->back = at + 1;
    stream->call.random = stream->batch;
    stream->call.random.step += action->micro_batch;
    size_t end = stream->first_ring_use[action->end];
    for (size_t i = stream->first_ring_use[action->target]; i < end; i++) {
        const ipu__ring_use *use = &stream->ring_uses.items[i];
        const ipu_ring *ring = &rings[use->ring];
        stream->operands[use->operand] =
            (ring->is_remote ? stream->remote : stream->slab) + ring->offset +
            (size_t)(action->micro_batch % ring->depth) * ring->stride;
    }
    return (size_t)action->target;
}

/* --- loops and branches ----------------------------------------------------------- */

static int64_t
turns_of(const ipu_instruction *instruction, void **operands)
{
    int64_t most = instruction->turns < 0 ? INT64_MAX : instruction->turns;
    if (instruction->kind == IPU_INSTRUCTION_WHILE) {
        return most;
    }
    int32_t trips;
    memcpy(&trips, operands[0], sizeof(trips));
    return trips < most ? trips : most;
}

static bool
is_inner_loop(const ipu_instruction *instruction)
{
    return !instruction->is_step && !instruction->is_micro_batches;
}

static void
enter_loop(ipu__stream *stream, const ipu_instruction *instruction)
{
    stream->depth += is_inner_loop(instruction);
    if (instruction->is_micro_batches) {
        stream->batch = stream->call.random;
    }
}

static void
leave_loop(ipu__stream *stream, const ipu_instruction *instruction)
{
    stream->depth -= is_inner_loop(instruction);
    if (instruction->is_micro_batches) {
        stream->call.random = stream->batch;
    }
    if (stream->depth == 0) {
        stream->call.random.turn = 0;
    }
}

/* The next micro-batch of the step, with random numbers of its own. */
static void
end_micro_batch(ipu__stream *stream)
{
    uint64_t step = stream->call.random.step + 1;
    stream->call.random = stream->batch;
    stream->call.random.step = step;
}

/* A turn of an inner loop. A run that is cancelled goes on to the end of the step,
 * where the variables are whole; but a loop that does not get there ends in its middle.
 */
static ipu_status
end_inner_turn(ipu__stream *stream)
{
    stream->call.random.turn++;
    IPU_FAIL_IF(stream->ctx,
                ipu__stops_here(stream->executor, false, &stream->cancelled_ns),
                INTERRUPTED, "interrupted in an inner loop after %" PRIu64 " steps",
                stream->executor->stats->steps);
    return IPU_OK;
}

static bool
read_bool(const void *data)
{
    uint8_t flag;
    memcpy(&flag, data, sizeof(flag));
    return flag != 0;
}

static int32_t
branch_of(const ipu_instruction *instruction, const void *data)
{
    int32_t which;
    memcpy(&which, data, sizeof(which));
    uint32_t last = instruction->branch_count - 1;
    return instruction
        ->branches[which < 0 || (uint32_t)which > last ? last : (uint32_t)which];
}

/* --- events ----------------------------------------------------------------------- */

/* The time, where somebody wants to know when actions run; else 0. */
static uint64_t
begin_span(const ipu__stream *stream)
{
    return stream->spans != NULL ? ipu_now_ns() : ipu_event_begin(IPU_EVENT_ACTION);
}

static void
end_span(const ipu__stream *stream)
{
    const ipu_action_span span = {stream->began_ns,
                                  stream->began_ns == 0 ? 0 : ipu_now_ns()};
    ipu_event_note(IPU_EVENT_ACTION, ipu__stream_subject(stream, stream->back - 1),
                   span.begin_ns, span.end_ns, stream->replica->number, 0);
    if (stream->spans != NULL) {
        stream->spans[stream->back - 1 - stream->code->entry] = span;
    }
}

/* What the thread does from here on belongs to this instruction; 0 where nothing of it
 * is noted. */
static uint64_t
note_begin(const ipu__stream *stream, size_t at, uint64_t *around)
{
    if (!ipu_instruction_rows[stream->code->instructions.items[at].kind].is_noted) {
        return 0;
    }
    *around = ipu_event_subject(); /* an element that a program makes is in a dequeue */
    ipu_event_set_subject(ipu__stream_subject(stream, at));
    return ipu_now_ns();
}

static void
note_end(const ipu__stream *stream, size_t at, uint64_t around, uint64_t begin_ns,
         bool is_done)
{
    ipu_event_set_subject(around);
    const ipu_instruction *instruction = &stream->code->instructions.items[at];
    uint32_t ready = 0;
    if (instruction->kind == IPU_INSTRUCTION_DEQUEUE) {
        ready = ipu_infeed_ready(stream->replica->resources[instruction->resource]);
    }
    if (is_done) {
        ipu_event_end(IPU_EVENT_INSTRUCTION, ipu__stream_subject(stream, at), begin_ns,
                      ready, 0);
    }
}

/* --- running ---------------------------------------------------------------------- */

ipu__progress
ipu__stream_run(ipu__stream *stream)
{
    const ipu_instruction *instructions = stream->code->instructions.items;
    const ipu_region *regions = stream->code->regions.items;
    const size_t *first_operand = stream->first_operand;
    const uint8_t *writes = stream->writes_variable;
    const bool is_recorded = stream->executor->is_recorded;
    uint64_t begin_ns = 0; /* of an instruction that is noted */
    uint64_t around = 0;   /* what the thread was at before */
    size_t at = stream->at;
    for (;;) {
        const ipu_instruction *instruction = &instructions[at];
        void **operands = &stream->operands[first_operand[at]];
        ipu__progress progress = IPU__GOES_ON;
        ipu_status status = IPU_OK;
        size_t next = at + 1;
        size_t failed = at; /* of a region: the instruction that did */
        bool done = true;
        if (stream->led != NULL) {
            status = ipu__meetings_go_on(stream);
            if (status != IPU_OK) {
                stream->at = at;
                return IPU__FAILED;
            }
        }
        if (is_recorded) {
            begin_ns = note_begin(stream, at, &around);
        }
        switch (instruction->kind) {
        case IPU_INSTRUCTION_KERNEL:
            if (writes[at]) {
                stream->has_written = true;
            }
            if (instruction->region > 0) {
                const ipu_region *region = &regions[instruction->region - 1];
                status = ipu__region_run(stream, region, &failed);
                next = region->first + region->count;
            } else {
                status = run_kernel(stream, instruction, operands);
            }
            break;
        case IPU_INSTRUCTION_COPY:
            if (writes[at]) {
                stream->has_written = true;
            }
            memcpy(operands[1], operands[0], instruction->bytes);
            break;
        case IPU_INSTRUCTION_RESERVE:
            break;
        case IPU_INSTRUCTION_DEQUEUE:
            status = run_dequeue(stream, instruction, &done);
            break;
        case IPU_INSTRUCTION_ENQUEUE:
            status = ipu_outfeed_enqueue(
                stream->ctx, stream->replica->resources[instruction->resource],
                stream->replica->number, (const void *const *)operands, &done);
            break;
        case IPU_INSTRUCTION_HOST:
            status = run_host(stream, instruction, operands, &done);
            break;
        case IPU_INSTRUCTION_SEND:
            done = run_send(stream, instruction, operands);
            break;
        case IPU_INSTRUCTION_RECEIVE:
            done = run_receive(stream, instruction, operands);
            if (done && writes[at]) {
                stream->has_written = true;
            }
            if (done) {
                stream->began_ns = begin_span(stream);
            }
            break;
        case IPU_INSTRUCTION_PIPELINE:
            done = run_pipeline(stream, instruction);
            if (!done && !stream->has_forked) {
                progress = IPU__FORKED;
            }
            break;
        case IPU_INSTRUCTION_ACTION:
            next = begin_action(stream, at, instruction);
            stream->began_ns = begin_span(stream);
            break;
        case IPU_INSTRUCTION_RETURN:
            end_span(stream);
            next = stream->back;
            break;
        case IPU_INSTRUCTION_POST:
            if (stream->executor->replica_total == 1) {
                status = run_collectives(stream, instruction, operands);
            } else {
                ipu__meeting_post(stream, instruction, operands);
            }
            break;
        case IPU_INSTRUCTION_WAIT:
            done = stream->executor->replica_total == 1 ||
                   ipu__meeting_is_over(stream, instruction);
            break;
        case IPU_INSTRUCTION_LOOP:
        case IPU_INSTRUCTION_WHILE: {
            int64_t turns = turns_of(instruction, operands);
            stream->counters[instruction->loop] = turns;
            if (turns > 0) {
                enter_loop(stream, instruction);
            } else {
                next = (size_t)instruction->target;
            }
            break;
        }
        case IPU_INSTRUCTION_TEST:
            if (!read_bool(operands[0])) {
                leave_loop(stream, instruction);
                next = (size_t)instruction->target;
            }
            break;
        case IPU_INSTRUCTION_NEXT:
            if (instruction->is_micro_batches) {
                end_micro_batch(stream);
            } else if (!instruction->is_step) {
                status = end_inner_turn(stream);
            } else if (!stream->has_ended_step) {
                progress = IPU__STEP_END;
                break;
            }
            stream->has_ended_step = false;
            if (--stream->counters[instruction->loop] > 0) {
                next = (size_t)instruction->target;
            } else {
                leave_loop(stream, instruction);
            }
            break;
        case IPU_INSTRUCTION_SWITCH:
            next = (size_t)branch_of(instruction, operands[0]);
            break;
        case IPU_INSTRUCTION_JUMP:
            next = (size_t)instruction->target;
            break;
        case IPU_INSTRUCTION_HALT:
            progress = IPU__HALTED;
            break;
        case IPU_INSTRUCTION_COUNT:
            status = ipu_ctx_fail(stream->ctx, IPU_STATUS_INTERNAL,
                                  "an instruction without a kind");
            break;
        }
        if (status != IPU_OK) {
            progress = IPU__FAILED;
        } else if (!done && progress == IPU__GOES_ON) {
            progress = IPU__WOULD_BLOCK;
        }
        if (begin_ns != 0) {
            note_end(stream, at, around, begin_ns, progress == IPU__GOES_ON);
        }
        if (progress != IPU__GOES_ON) {
            stream->at = failed;
            return progress;
        }
        at = next;
    }
}
