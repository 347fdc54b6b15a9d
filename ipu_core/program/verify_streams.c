/* SPDX-License-Identifier: MIT
 *
 * The checks of what a program's streams share: channels lead from one stream to
 * another; a queue, and an output, is used by one stream; a variable that a stream
 * writes is used by no other. So streams cannot disturb each other, however they are
 * interleaved.
 *
 * Whether each message that is waited for is sent depends on trip counts and branches:
 * the engine finds out (run/scheduler.c). */
#include <inttypes.h>

#include "program/verify_impl.h"

/* Which stream uses something: a number, or one of these. */
static const uint32_t NOBODY = UINT32_MAX;
static const uint32_t SEVERAL = UINT32_MAX - 1;

typedef struct owners {
    ipu_ctx *ctx;
    const ipu_program *program;
    uint32_t *users;   /* per resource */
    uint32_t *writers; /* per resource */
    uint32_t *outputs; /* per output of the program */
    size_t total;      /* of the three together */
} owners;

static void
note_user(uint32_t *user, uint32_t stream)
{
    *user = *user == NOBODY || *user == stream ? stream : SEVERAL;
}

static void
note_instruction(owners *o, const ipu_instruction *instruction, uint32_t stream)
{
    if (instruction->kind == IPU_INSTRUCTION_DEQUEUE ||
        instruction->kind == IPU_INSTRUCTION_ENQUEUE ||
        instruction->kind == IPU_INSTRUCTION_HOST) {
        note_user(&o->users[instruction->resource], stream);
    }
    for (uint32_t k = 0; k < ipu_operand_count(instruction); k++) {
        ipu_place place = *ipu_operand_place(instruction, k);
        if (place.space == IPU_SPACE_OUTPUT) {
            note_user(&o->outputs[place.index], stream);
        } else if (place.space == IPU_SPACE_VARIABLE) {
            note_user(&o->users[place.index], stream);
            if (ipu_operand_is_output(instruction, k) &&
                ipu_instruction_writes_variable(o->program, instruction)) {
                note_user(&o->writers[place.index], stream);
            }
        }
    }
}

static ipu_status
check_owners(const owners *o)
{
    const ipu_program *program = o->program;
    for (uint32_t i = 0; i < program->resources.count; i++) {
        bool is_variable = program->resources.items[i].kind == IPU_RESOURCE_VARIABLE;
        IPU_FAIL_IF(o->ctx, !is_variable && o->users[i] == SEVERAL, INTERNAL,
                    "several streams use queue %" PRIu32 " of the program", i);
        IPU_FAIL_IF(o->ctx, o->writers[i] != NOBODY && o->users[i] == SEVERAL, INTERNAL,
                    "a stream writes variable %" PRIu32
                    " of the program, which another one uses",
                    i);
    }
    for (uint32_t i = 0; i < program->output_count; i++) {
        IPU_FAIL_IF(o->ctx, o->outputs[i] == SEVERAL, INTERNAL,
                    "several streams write output %" PRIu32 " of the program", i);
    }
    return IPU_OK;
}

/* The streams of pipelines, or all others: these run at the same time. */
static ipu_status
check_together(owners *o, bool are_children)
{
    const ipu_program *program = o->program;
    for (size_t i = 0; i < o->total; i++) {
        o->users[i] = NOBODY;
    }
    for (uint32_t s = 0; s < program->streams.count; s++) {
        const ipu_stream *stream = &program->streams.items[s];
        for (size_t i = 0;
             stream->is_child == are_children && i < stream->instructions.count; i++) {
            note_instruction(o, &stream->instructions.items[i], s);
        }
    }
    return check_owners(o);
}

static ipu_status
check_channels(ipu_ctx *ctx, const ipu_program *program)
{
    for (uint32_t i = 0; i < program->channels.count; i++) {
        const ipu_channel *channel = &program->channels.items[i];
        IPU_FAIL_IF(ctx,
                    channel->from >= program->streams.count ||
                        channel->to >= program->streams.count ||
                        channel->from == channel->to || channel->depth == 0,
                    INTERNAL, "channel %" PRIu32 " leads nowhere", i);
    }
    return IPU_OK;
}

ipu_status
ipu__verify_streams(ipu_ctx *ctx, const ipu_program *program)
{
    size_t count = program->resources.count;
    size_t total = 2 * count + program->output_count;
    uint32_t *users;
    IPU_TRY(check_channels(ctx, program));
    if (total == 0) {
        return IPU_OK;
    }
    IPU_TRY(ipu_alloc(ctx, total * sizeof(*users), &users));
    owners o = {ctx, program, users, users + count, users + 2 * count, total};
    ipu_status status = check_together(&o, false);
    if (status == IPU_OK) {
        status = check_together(&o, true);
    }
    ipu_free(ctx, users, total * sizeof(*users));
    return status;
}
