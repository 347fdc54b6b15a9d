/* SPDX-License-Identifier: MIT
 *
 * A node that nobody placed belongs where it is used first. One with the number that
 * follows the last stage's is what is done with the results of all stages that share the
 * last position: it runs in the last of them. Where a backward stage is in two parts,
 * its input part is what another stage waits for, with all that this needs. */
#include "pipeline/routines.h"

#include <string.h>

#include "graph/block_op.h"
#include "graph/trips.h"
#include "graph/users.h"

uint32_t
ipu_routine_number(uint32_t stage_count, ipu_routine what)
{
    return what.kind == IPU_ACTION_FORWARD
               ? ipu_forward_routine(what.stage)
               : ipu_backward_routine(stage_count, what.stage,
                                      what.kind == IPU_ACTION_BACKWARD_WEIGHT);
}

ipu_status
ipu_pipeline_schedule(ipu_ctx *ctx, const ipu_graph *graph, ipu_node pipeline,
                      ipu_schedule **out)
{
    ipu_attrs attrs = ipu_node_of(graph, pipeline)->attrs;
    uint32_t stages;
    uint32_t positions;
    const int64_t *devices = ipu_attrs_ints(attrs, IPU_ATTR_DEVICES, &stages);
    const int64_t *given = ipu_attrs_ints(attrs, IPU_ATTR_POSITIONS, &positions);
    const ipu_attr *name = ipu_attrs_find(attrs, IPU_ATTR_SCHEDULE);
    int64_t count = ipu_loop_most_turns(graph, pipeline);
    IPU_FAIL_IF(ctx, count < 1 || count > INT32_MAX, FAILED_PRECONDITION,
                "the number of micro-batches of a pipeline must be known when the "
                "program is compiled, and be 1 or more: pass a Python int");
    ipu_arena arena = {0};
    char *text = NULL;
    uint32_t *numbers = NULL;
    ipu_status status = ipu_arena_array(ctx, &arena, (size_t)name->count + 1, 1, &text);
    if (status == IPU_OK) {
        status = ipu_arena_array(ctx, &arena, stages, 2 * sizeof(*numbers), &numbers);
    }
    if (status == IPU_OK) {
        memcpy(text, name->as.text, name->count);
        text[name->count] = '\0';
        for (uint32_t i = 0; i < stages; i++) {
            numbers[i] = (uint32_t)devices[i];
            numbers[stages + i] = given == NULL ? i : (uint32_t)given[i];
        }
        ipu_schedule_request request = {
            .name = text,
            .stage_count = stages,
            .ipus = numbers,
            .positions = &numbers[stages],
            .micro_batches = (uint32_t)count,
            .overlaps_io = ipu_attrs_int(attrs, IPU_ATTR_OVERLAPS_IO, 0) != 0,
            .is_training = ipu_attrs_int(attrs, IPU_ATTR_TRAINING, 0) != 0};
        status = ipu_schedule_create(ctx, &request, out);
    }
    ipu_arena_free(ctx, &arena);
    return status;
}

/* --- which routine a node belongs to ---------------------------------------------- */

/* The first and the last routine that uses a value; IPU_NO_ROUTINE: none does. */
typedef struct consumers {
    int32_t first;
    int32_t last;
} consumers;

typedef struct finder {
    ipu_ctx *ctx;
    const ipu_graph *graph;
    uint32_t stage_count;
    bool is_training;
    bool is_split;
    int32_t *routine_of;
    consumers *used_by; /* by value */
    int32_t user;       /* the routine of the node whose uses are noted */
} finder;

static ipu_status
note_use(void *state, ipu_value *place, ipu_node inner)
{
    finder *f = state;
    (void)inner;
    consumers *known = &f->used_by[place->index];
    bool is_first = known->last == IPU_NO_ROUTINE || f->user < known->first;
    known->first = is_first ? f->user : known->first;
    known->last = f->user > known->last ? f->user : known->last;
    return IPU_OK;
}

static bool
makes_nothing(const ipu_node_data *node)
{
    return node->op == IPU_OP_ID_CONSTANT || node->op == IPU_OP_ID_HELD;
}

static int32_t
first_user(const finder *f, const ipu_node_data *node)
{
    int32_t found = IPU_NO_ROUTINE;
    for (uint32_t i = 0; i < node->output_count; i++) {
        const consumers *by = &f->used_by[node->outputs[i].index];
        if (by->last != IPU_NO_ROUTINE &&
            (found == IPU_NO_ROUTINE || by->first < found)) {
            found = by->first;
        }
    }
    return found;
}

static int32_t
routine_of_placed(const finder *f, const ipu_node_data *node)
{
    uint32_t stage = (uint32_t)node->placement.stage;
    stage = stage == f->stage_count ? stage - 1 : stage;
    return (int32_t)(node->placement.phase == IPU_PHASE_FORWARD
                         ? ipu_forward_routine(stage)
                         : ipu_backward_routine(f->stage_count, stage, f->is_split));
}

static int32_t
last_maker(const finder *f, const ipu_node_data *node)
{
    int32_t found = 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        ipu_node maker = ipu_value_of(f->graph, node->inputs[i])->producer;
        if (ipu_is_node(maker) && f->routine_of[maker.index] > found) {
            found = f->routine_of[maker.index];
        }
    }
    return found;
}

/* Of a backward stage in two parts, all lies in the weight part so far. The nodes
 * that another stage waits for, and those that they need, move to the input part. */
static int32_t
with_split(const finder *f, const ipu_node_data *node, int32_t own)
{
    bool is_weight_part = f->is_split && own >= (int32_t)f->stage_count &&
                          ((uint32_t)own - f->stage_count) % 2 == 1;
    for (uint32_t i = 0; is_weight_part && i < node->output_count; i++) {
        const consumers *by = &f->used_by[node->outputs[i].index];
        if (by->last != IPU_NO_ROUTINE && (by->first != own || by->last != own)) {
            return own - 1;
        }
    }
    return own;
}

static ipu_status
find(finder *f, ipu_block body)
{
    const ipu_graph *graph = f->graph;
    for (ipu_node n = ipu_block_of(graph, body)->last; ipu_is_node(n);
         n = ipu_node_of(graph, n)->previous) {
        const ipu_node_data *node = ipu_node_of(graph, n);
        bool is_placed = node->placement.stage >= 0 &&
                         (uint32_t)node->placement.stage <= f->stage_count;
        f->ctx->source = node->source;
        IPU_FAIL_IF(f->ctx,
                    is_placed && node->placement.phase != IPU_PHASE_FORWARD &&
                        !f->is_training,
                    INVALID_ARGUMENT,
                    "%s belongs to the backward pass of a pipeline that has none",
                    ipu_op_info_of(node->op)->name);
        f->ctx->source = (ipu_source){0};
        int32_t found = is_placed ? routine_of_placed(f, node) : first_user(f, node);
        if (makes_nothing(node) || found == IPU_NO_ROUTINE) {
            continue;
        }
        f->user = with_split(f, node, found);
        f->routine_of[n.index] = f->user;
        IPU_TRY(ipu_node_each_use(graph, n, note_use, f));
    }
    /* nobody uses them: they belong where what they use was made */
    IPU_EACH_NODE(n, graph, body) {
        const ipu_node_data *node = ipu_node_of(graph, n);
        if (f->routine_of[n.index] == IPU_NO_ROUTINE && !makes_nothing(node)) {
            f->routine_of[n.index] = last_maker(f, node);
        }
    }
    return IPU_OK;
}

ipu_status
ipu_routines_find(ipu_ctx *ctx, const ipu_graph *graph, ipu_node pipeline,
                  bool is_split, int32_t *routine_of)
{
    const ipu_node_data *node = ipu_node_of(graph, pipeline);
    finder f = {.ctx = ctx,
                .graph = graph,
                .is_training = ipu_attrs_int(node->attrs, IPU_ATTR_TRAINING, 0) != 0,
                .is_split = is_split,
                .routine_of = routine_of};
    ipu_attrs_ints(node->attrs, IPU_ATTR_DEVICES, &f.stage_count);
    size_t bytes = graph->values.count * sizeof(*f.used_by);
    IPU_TRY(ipu_alloc(ctx, bytes, &f.used_by));
    memset(f.used_by, 0xff, bytes); /* IPU_NO_ROUTINE */
    IPU_EACH_NODE(n, graph, ipu_node_body(node)) {
        routine_of[n.index] = IPU_NO_ROUTINE;
    }
    ipu_status status = find(&f, ipu_node_body(node));
    ipu_free(ctx, f.used_by, bytes);
    return status;
}
