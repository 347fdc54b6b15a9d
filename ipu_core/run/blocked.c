/* SPDX-License-Identifier: MIT
 *
 * A stream that has stopped at an instruction: what it waits for, from whom, and
 * whether that has come. */
#include <inttypes.h>
#include <stdio.h>

#include "run/executor_impl.h"

bool
ipu__stream_can_go_on(ipu__stream *stream)
{
    const ipu_instruction *instruction = &stream->code->instructions.items[stream->at];
    ipu_ctx own;
    bool found = false;
    if (ipu__meetings_can_go_on(stream)) {
        return true;
    }
    switch (instruction->kind) {
    case IPU_INSTRUCTION_DEQUEUE:
        return ipu_infeed_has_element(stream->replica->resources[instruction->resource],
                                      stream->replica->number);
    case IPU_INSTRUCTION_ENQUEUE: /* an error comes out where it goes on */
        ipu_ctx_init(&own, stream->ctx->allocator);
        return ipu_outfeed_has_room(&own,
                                    stream->replica->resources[instruction->resource],
                                    stream->replica->number, &found) != IPU_OK ||
               found;
    case IPU_INSTRUCTION_HOST:
        return ipu__executor_is_here(stream->executor);
    case IPU_INSTRUCTION_SEND:
        return ipu__channel_has_room(&stream->replica->channels[instruction->channel]);
    case IPU_INSTRUCTION_RECEIVE:
        return ipu__channel_has_message(
            &stream->replica->channels[instruction->channel]);
    case IPU_INSTRUCTION_PIPELINE:
        return !stream->has_forked || atomic_load(&stream->children) == 0;
    case IPU_INSTRUCTION_WAIT:
        return ipu__meeting_is_over(stream, instruction);
    default:
        return true;
    }
}

bool
ipu__stream_waits_for_thread(const ipu__stream *stream)
{
    return stream->code->instructions.items[stream->at].kind == IPU_INSTRUCTION_HOST;
}

bool
ipu__stream_waits_for_host(const ipu__stream *stream)
{
    const ipu_instruction *instruction = &stream->code->instructions.items[stream->at];
    void *const *resources = stream->replica->resources;
    if (stream->led != NULL) {
        return true;
    }
    switch (instruction->kind) {
    case IPU_INSTRUCTION_DEQUEUE: /* if it is full, of elements for other replicas */
        return !ipu_infeed_is_full(resources[instruction->resource]);
    case IPU_INSTRUCTION_ENQUEUE: /* if it is drained, of parts without the others' */
        return !ipu_outfeed_is_drained(resources[instruction->resource]);
    case IPU_INSTRUCTION_WAIT:
        return ipu__meeting_waits_for_peers(stream, instruction);
    default:
        return false;
    }
}

const char *
ipu__stream_describe(const ipu__stream *stream, char *text, size_t bytes)
{
    const ipu_instruction *instruction = &stream->code->instructions.items[stream->at];
    char replica[32] = "";
    if (stream->executor->replica_count > 1) {
        snprintf(replica, sizeof(replica), "replica %" PRIu32 ", ",
                 stream->replica->number);
    }
    char action[80] = "";
    if (stream->code->is_child && stream->back > stream->code->entry) {
        const ipu_instruction *own =
            &stream->code->instructions.items[stream->back - 1];
        snprintf(action, sizeof(action),
                 " (IPU %" PRIu32 ", stage %d %s, micro-batch %" PRIu32 ")",
                 stream->code->ipu, (int)own->placement.stage,
                 own->placement.phase == IPU_PHASE_FORWARD ? "forward" : "backward",
                 own->micro_batch);
    }
    char what[80] = "";
    const ipu_channel *channels = stream->executor->program->channels.items;
    switch (instruction->kind) {
    case IPU_INSTRUCTION_SEND:
        snprintf(what, sizeof(what),
                 ", for room in channel %" PRIu32 " to stream %" PRIu32,
                 instruction->channel, channels[instruction->channel].to);
        break;
    case IPU_INSTRUCTION_RECEIVE:
        snprintf(what, sizeof(what),
                 ", for a message of channel %" PRIu32 " from stream %" PRIu32,
                 instruction->channel, channels[instruction->channel].from);
        break;
    case IPU_INSTRUCTION_WAIT:
    case IPU_INSTRUCTION_DEQUEUE:
    case IPU_INSTRUCTION_ENQUEUE:
        snprintf(what, sizeof(what), ", for the other replicas");
        break;
    case IPU_INSTRUCTION_NEXT:
        snprintf(what, sizeof(what), ", for the others to end the step");
        break;
    default:
        break;
    }
    snprintf(text, bytes, "%sstream %" PRIu32 "%s at instruction %zu%s", replica,
             stream->number, action, stream->at, what);
    return text;
}
