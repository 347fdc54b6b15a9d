/* SPDX-License-Identifier: MIT
 *
 * The disassembly of a program: a head with its types, resources, channels and sizes,
 * then for each stream one line per instruction with its number. The form is pinned by
 * golden files.
 *
 *    3  loop    #0 constant+0 -> 9
 *    5  kernel  matmul.reference(infeed[0], variable[1]) -> slab+128   # dense/MatMul
 *
 * The text belongs to the caller. */
#include <inttypes.h>

#include "base/text.h"
#include "pipeline/schedule.h"
#include "program/program.h"

/* What stands before the place's index, or its offset where there is no index, and
 * after it; a sum takes the offset. */
static const char *const place_forms[][2] = {
    [IPU_SPACE_SLAB] = {"slab+", NULL},
    [IPU_SPACE_FOREIGN] = {"stream ", ".slab+"},
    [IPU_SPACE_REMOTE] = {"stream ", ".remote+"},
    [IPU_SPACE_RING] = {"ring[", "]"},
    [IPU_SPACE_CONSTANT] = {"constant+", NULL},
    [IPU_SPACE_HELD] = {"held[", "]"},
    [IPU_SPACE_INPUT] = {"input[", "]"},
    [IPU_SPACE_OUTPUT] = {"output[", "]"},
    [IPU_SPACE_VARIABLE] = {"variable[", "]"},
    [IPU_SPACE_INFEED] = {"infeed[", "]"},
};

static void
print_place(ipu_text *out, ipu_place place)
{
    const char *const *form = place_forms[place.space];
    ipu_text_print(out, "%s", form[0]);
    if (form[1] != NULL) {
        ipu_text_print(out, "%" PRIu32 "%s", place.index, form[1]);
    }
    if (form[1] == NULL || form[1][0] == '.') {
        ipu_text_print(out, "%zu", place.offset);
    }
}

static void
print_places(ipu_text *out, const ipu_place *places, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        ipu_text_print(out, "%s", i == 0 ? "" : ", ");
        print_place(out, places[i]);
    }
}

static void
print_types(ipu_text *out, const char *what, const ipu_type *types, uint32_t count)
{
    char text[128];
    for (uint32_t i = 0; i < count; i++) {
        ipu_text_print(out, "%s %" PRIu32 " %s\n", what, i,
                       ipu_type_print(&types[i], text, sizeof(text)));
    }
}

static void
print_resource(ipu_text *out, const ipu_resource *resource, uint32_t index)
{
    static const char *const kinds[] = {
        [IPU_RESOURCE_VARIABLE] = "variable",
        [IPU_RESOURCE_INFEED] = "infeed",
        [IPU_RESOURCE_OUTFEED] = "outfeed",
        [IPU_RESOURCE_HOST] = "host",
    };
    char text[128];
    ipu_text_print(out, "resource %" PRIu32 " %s id=%" PRId64, index,
                   kinds[resource->kind], resource->id);
    if (resource->name != NULL) {
        ipu_text_print(out, " \"%s\"", resource->name);
    }
    for (uint32_t i = 0; i < resource->type_count; i++) {
        ipu_text_print(out, " %s",
                       ipu_type_print(&resource->types[i], text, sizeof(text)));
    }
    if (resource->parts > 0) {
        ipu_text_print(out, ", of %" PRIu32 " parts of %s", resource->parts,
                       ipu_type_print(resource->whole, text, sizeof(text)));
    }
    if (resource->panel_columns > 0) {
        ipu_text_print(out, " in panels of %" PRId64, resource->panel_columns);
    }
    ipu_text_print(out, "\n");
}

static void
print_channel(ipu_text *out, const ipu_channel *channel, uint32_t index)
{
    char text[128];
    ipu_text_print(out,
                   "channel %" PRIu32 " stream %" PRIu32 " -> stream %" PRIu32
                   ", depth %" PRIu32,
                   index, channel->from, channel->to, channel->depth);
    for (uint32_t i = 0; i < channel->type_count; i++) {
        ipu_text_print(out, " %s",
                       ipu_type_print(&channel->types[i], text, sizeof(text)));
    }
    ipu_text_print(out, "\n");
}

static void
print_head(ipu_text *out, const ipu_program *program)
{
    size_t instructions = 0;
    for (size_t i = 0; i < program->streams.count; i++) {
        instructions += program->streams.items[i].instructions.count;
    }
    ipu_text_print(out, "program of %zu instructions", instructions);
    if (program->streams.count != 1) {
        ipu_text_print(out, " in %zu streams", program->streams.count);
    }
    if (program->micro_batches != 1) {
        ipu_text_print(out, ", %" PRIu32 " micro-batches a step",
                       program->micro_batches);
    }
    ipu_text_print(out, "\nconstants %zu bytes, workspace %zu bytes\n",
                   program->constant_bytes, program->workspace_bytes);
    print_types(out, "input", program->inputs, program->input_count);
    print_types(out, "output", program->outputs, program->output_count);
    for (uint32_t i = 0; i < program->resources.count; i++) {
        print_resource(out, &program->resources.items[i], i);
    }
    for (uint32_t i = 0; i < program->channels.count; i++) {
        print_channel(out, &program->channels.items[i], i);
    }
    for (uint32_t i = 0; i < program->rings.count; i++) {
        const ipu_ring *ring = &program->rings.items[i];
        ipu_text_print(out,
                       "ring %" PRIu32 " stream %" PRIu32 ", %" PRIu32
                       " slots of %zu bytes from %s+%zu, each +%zu\n",
                       i, ring->stream, ring->depth, ring->bytes,
                       ring->is_remote ? "remote" : "slab", ring->offset, ring->stride);
    }
}

static bool
opens_level(ipu_instruction_kind kind)
{
    return kind == IPU_INSTRUCTION_LOOP || kind == IPU_INSTRUCTION_WHILE;
}

static const char *const action_names[IPU_ACTION_KIND_COUNT] = {
    [IPU_ACTION_FORWARD] = " forward",
    [IPU_ACTION_BACKWARD] = " backward",
    [IPU_ACTION_BACKWARD_INPUT] = " backward input",
    [IPU_ACTION_BACKWARD_WEIGHT] = " backward weight"};

/* One letter of an instruction's form. */
static void
print_part(ipu_text *out, const ipu_program *program,
           const ipu_instruction *instruction, char part)
{
    const ipu_kernel_spec *spec;
    switch (part) {
    case 'i':
        print_places(out, instruction->inputs, instruction->input_count);
        break;
    case 'o':
        print_places(out, instruction->outputs, instruction->output_count);
        break;
    case 'k': /* kernel */
        spec = &program->specs.items[instruction->spec];
        ipu_text_print(out, "%s.%s", ipu_op_info_of(spec->op)->name, spec->kernel_name);
        if (instruction->spec_count > 1) {
            ipu_text_print(out, " x %" PRIu32, instruction->spec_count);
        }
        break;
    case 'b':
        ipu_text_print(out, "%zu", instruction->bytes);
        break;
    case 'r':
        ipu_text_print(out, "%" PRIu32, instruction->resource);
        break;
    case 'c':
        ipu_text_print(out, "%" PRIu32, instruction->channel);
        break;
    case 's': /* streams */
        ipu_text_print(out, "%" PRIu32 " to %" PRIu32, instruction->first_stream,
                       instruction->first_stream + instruction->stream_count - 1);
        break;
    case 'a': /* action */
        ipu_text_print(out, "stage %d%s(%" PRIu32 ")",
                       (int)instruction->placement.stage,
                       action_names[instruction->action], instruction->micro_batch);
        break;
    case 'p':
        ipu_text_print(out, "meeting %" PRIu32, instruction->meeting);
        break;
    case 'm': /* most turns */
        if (instruction->turns >= 0) {
            ipu_text_print(out, "at most %" PRId64 " ", instruction->turns);
        }
        break;
    case 'l':
        ipu_text_print(out, "%" PRIu32, instruction->loop);
        break;
    case 't':
        ipu_text_print(out, "%" PRId32, instruction->target);
        break;
    case 'n': /* branches */
        for (uint32_t i = 0; i < instruction->branch_count; i++) {
            ipu_text_print(out, "%s%" PRId32, i == 0 ? "" : ", ",
                           instruction->branches[i]);
        }
        break;
    }
}

static void
print_instruction(ipu_text *out, const ipu_program *program, const ipu_stream *stream,
                  size_t index, int indent)
{
    const ipu_instruction *instruction = &stream->instructions.items[index];
    const ipu_instruction_row *row = &ipu_instruction_rows[instruction->kind];
    ipu_text_print(out, "%5zu  %*s%-7s ", index, indent, "", row->name);
    for (const char *form = row->form; *form != '\0'; form++) {
        if (*form == '$') {
            print_part(out, program, instruction, *++form);
        } else {
            ipu_text_print(out, "%c", *form);
        }
    }
    if (instruction->name != NULL || instruction->source.file != NULL) {
        ipu_text_print(out, "   #");
    }
    if (instruction->name != NULL) {
        ipu_text_print(out, " %s", instruction->name);
    }
    if (instruction->source.file != NULL) {
        ipu_text_print(out, " %s:%" PRId32, instruction->source.file,
                       instruction->source.line);
    }
    ipu_text_print(out, "\n");
}

static void
print_region(ipu_text *out, const ipu_region *region)
{
    uint32_t last = region->first + region->count - 1;
    if (region->rows > 0) {
        ipu_text_print(out, "       region of %" PRId64 " rows, to %" PRIu32 ":\n",
                       region->rows, last);
    } else {
        ipu_text_print(out, "       region of %" PRIu32 " tasks, to %" PRIu32 ":\n",
                       region->task_count, last);
    }
}

static void
print_stream(ipu_text *out, const ipu_program *program, size_t number)
{
    const ipu_stream *stream = &program->streams.items[number];
    int indent = 0;
    if (stream->is_child) {
        ipu_text_print(out, "stream %zu (IPU %" PRIu32 "): ", number, stream->ipu);
    } else if (program->streams.count != 1) {
        ipu_text_print(out, "stream %zu: ", number);
    }
    ipu_text_print(out, "slab %zu bytes, peak live %zu bytes at %" PRId32 "\n",
                   stream->memory.slab_bytes, stream->memory.peak_live_bytes,
                   stream->memory.peak_at);
    for (size_t i = 0; i < stream->instructions.count; i++) {
        ipu_instruction_kind kind = stream->instructions.items[i].kind;
        uint32_t region = stream->instructions.items[i].region;
        if (region > 0 && stream->regions.items[region - 1].first == i) {
            print_region(out, &stream->regions.items[region - 1]);
        }
        indent -= kind == IPU_INSTRUCTION_NEXT ? 2 : 0;
        print_instruction(out, program, stream, i, indent > 0 ? indent : 0);
        indent += opens_level(kind) ? 2 : 0;
    }
}

ipu_status
ipu_program_print(ipu_ctx *ctx, const ipu_program *program, char **out_text,
                  size_t *out_bytes)
{
    ipu_text out;
    ipu_text_init(&out, ctx);
    print_head(&out, program);
    for (size_t i = 0; i < program->streams.count; i++) {
        print_stream(&out, program, i);
    }
    return ipu_text_finish(&out, out_text, out_bytes);
}
