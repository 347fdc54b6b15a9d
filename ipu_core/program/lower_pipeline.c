/* SPDX-License-Identifier: MIT
 *
 * A pipeline as streams. In: a `pipeline` node, whose body says what one micro-batch
 * does, in stages and phases. Out: one instruction of the stream around, and a stream
 * for each IPU:
 *
 *     routines   once each: the nodes of one stage and phase
 *     actions    the schedule's list: a micro-batch and the routine it goes through
 *     halt
 *
 * The body is cut, not changed. A value of one routine that another one uses crosses:
 *
 *   - on the same IPU in a ring of the slab, a slot for each micro-batch between the
 *     two;
 *   - to another IPU in a message: all that routine A makes and routine B is the first
 *     there to use. If others there use it as well, B receives it into a ring.
 *
 * Constants, and variables that are read where they lie, do not cross. A value that is
 * carried from micro-batch to micro-batch lies in the slab of the IPU that changes it,
 * where the stream around puts the first one and finds the last one.
 *
 * Values in remote memory are copied into a buffer by each routine that uses them, and
 * back by those that change them.
 *
 * A routine uses only what routines of smaller numbers make. */
#include <stdio.h>
#include <string.h>

#include "graph/trips.h"
#include "program/pipe_impl.h"

/* --- routines --------------------------------------------------------------------- */

/* A stream for each IPU that has a stage. */
static ipu_status
make_streams(ipu__pipe *p)
{
    lowering *l = p->l;
    uint32_t first = (uint32_t)l->program->streams.count;
    for (uint32_t ipu = 0; ipu < p->schedule->ipu_count; ipu++) {
        ipu_stream stream = {.is_child = true, .ipu = ipu};
        IPU_TRY(IPU_ARRAY_PUSH(l->ctx, &l->program->streams, stream));
    }
    ipu__lower_enter_stream(l, p->around); /* the array may have moved */
    p->is_split = ipu_schedule_has(p->schedule, IPU_ACTION_BACKWARD_WEIGHT);
    for (uint32_t stage = 0; stage < p->stage_count; stage++) {
        uint32_t stream = first + (uint32_t)p->devices[stage];
        ipu__pipe_routine *forward = &p->routines[ipu_forward_routine(stage)];
        ipu__pipe_routine *back =
            &p->routines[ipu_backward_routine(p->stage_count, stage, false)];
        *forward = (ipu__pipe_routine){{IPU_ACTION_FORWARD, stage}, stream, 0, 0};
        back[0] = (ipu__pipe_routine){
            {p->is_split ? IPU_ACTION_BACKWARD_INPUT : IPU_ACTION_BACKWARD, stage},
            stream,
            0,
            0};
        back[1] =
            (ipu__pipe_routine){{IPU_ACTION_BACKWARD_WEIGHT, stage}, stream, 0, 0};
    }
    return IPU_OK;
}

/* How many micro-batches of what one routine makes wait at most for the other one. */
static ipu_status
slots_between(const ipu__pipe *p, uint32_t from, uint32_t to, uint32_t *out)
{
    return ipu_schedule_slots(p->l->ctx, p->schedule, p->routines[from].what,
                              p->routines[to].what, out);
}

/* A ring for a value that routine `from` writes and those of `count` crossings read
 * which are on stream `stream`. */
static ipu_status
new_ring(ipu__pipe *p, uint32_t from, uint32_t stream, const ipu__crossing *first,
         size_t count, int32_t *out)
{
    lowering *l = p->l;
    uint32_t root = first->root;
    uint32_t depth = 1;
    for (size_t i = 0; i < count; i++) { /* any of them may be the last to read */
        uint32_t slots = 0;
        if (p->routines[first[i].to].stream == stream && first[i].to != from) {
            IPU_TRY(slots_between(p, from, first[i].to, &slots));
        }
        depth = slots > depth ? slots : depth;
    }
    ipu__lower_enter_stream(l, stream);
    ipu_status status =
        ipu__lower_new_ring(l, bytes_of(l, (ipu_value){root}), depth, out);
    ipu__lower_enter_stream(l, p->around);
    IPU_TRY(status);
    slab_buffer *ring = &l->buffers.items[*out];
    ring->is_remote = (p->offload & IPU_OFFLOAD_ACTIVATIONS) != 0;
    ring->reserved = root; /* nothing may be written over it in its place */
    return IPU_OK;
}

static ipu_status
message_between(ipu__pipe *p, uint32_t from, uint32_t to, int64_t *out)
{
    for (size_t i = 0; i < p->messages.count; i++) {
        if (p->messages.items[i].from == from && p->messages.items[i].to == to) {
            *out = (int64_t)i;
            return IPU_OK;
        }
    }
    *out = (int64_t)p->messages.count;
    ipu__message added = {.from = from, .to = to};
    return IPU_ARRAY_PUSH(p->l->ctx, &p->messages, added);
}

/* The crossings of one value, of which first[0] is the first and there are `count`. */
static ipu_status
plan_value(ipu__pipe *p, ipu__crossing *first, size_t count)
{
    uint32_t home = p->routines[first->from].stream;
    for (size_t i = 0; i < count; i++) {
        uint32_t stream = p->routines[first[i].to].stream;
        size_t earlier = 0;
        size_t last = i;
        if (first[i].is_read_again) {
            continue;
        }
        while (p->routines[first[earlier].to].stream != stream) {
            earlier++;
        }
        for (size_t k = i; k < count; k++) {
            last = p->routines[first[k].to].stream == stream ? k : last;
        }
        if (earlier < i) { /* an earlier one has seen to it */
            first[i].buffer = first[earlier].buffer;
            continue;
        }
        uint32_t writer = first->from;
        if (stream != home) {
            IPU_TRY(message_between(p, first->from, first[i].to, &first[i].message));
            p->messages.items[first[i].message].count++;
            writer = first[i].to;
        }
        if (stream == home || last > i) {
            IPU_TRY(new_ring(p, writer, stream, first, count, &first[i].buffer));
        }
    }
    return IPU_OK;
}

static ipu_status
plan_crossings(ipu__pipe *p)
{
    size_t count;
    for (size_t i = 0; i < p->crossings.count; i += count) {
        ipu__crossing *first = &p->crossings.items[i];
        count = 1;
        while (i + count < p->crossings.count && first[count].root == first->root) {
            count++;
        }
        IPU_TRY(plan_value(p, first, count));
    }
    return IPU_OK;
}

static ipu_status
make_channels(ipu__pipe *p)
{
    lowering *l = p->l;
    for (size_t i = 0; i < p->messages.count; i++) {
        ipu__message *m = &p->messages.items[i];
        ipu_channel channel = {.from = p->routines[m->from].stream,
                               .to = p->routines[m->to].stream,
                               .type_count = m->count};
        ipu_type *types;
        uint32_t next = 0;
        IPU_TRY(slots_between(p, m->from, m->to, &channel.depth));
        IPU_TRY(ipu_arena_alloc(l->ctx, &l->program->arena, m->count * sizeof(ipu_type),
                                &types));
        for (size_t k = 0; k < p->crossings.count; k++) {
            if (p->crossings.items[k].message == (int64_t)i) {
                ipu_value root = {p->crossings.items[k].root};
                types[next++] = ipu_value_of(l->graph, root)->type;
            }
        }
        channel.types = types;
        m->channel = (uint32_t)l->program->channels.count;
        IPU_TRY(IPU_ARRAY_PUSH(l->ctx, &l->program->channels, channel));
    }
    return IPU_OK;
}

/* --- making routines -------------------------------------------------------------- */

/* The places of a message's values. */
static ipu_status
message_places(ipu__pipe *p, int64_t number, ipu_place **out)
{
    lowering *l = p->l;
    uint32_t next = 0;
    IPU_TRY(ipu__lower_new_places(l, p->messages.items[number].count, out));
    for (size_t k = 0; k < p->crossings.count; k++) {
        const ipu__crossing *c = &p->crossings.items[k];
        if (c->message == number) {
            (*out)[next++] = l->values[c->root].place;
        }
    }
    return IPU_OK;
}

/* Between remote memory and the buffer that a routine works on. */
static ipu_status
copy_arrival(ipu__pipe *p, const ipu__crossing *c)
{
    lowering *l = p->l;
    ipu_value root = {c->root};
    ipu_place here = l->values[c->root].place;
    ipu_place there = slab_place(c->buffer);
    size_t bytes = bytes_of(l, root);
    if (c->is_read_again) {
        const ipu_node_data *read = ipu_producer_of(l->graph, root);
        there = (ipu_place){.space = IPU_SPACE_VARIABLE,
                            .index = l->resource_map[ipu_node_resource(read, 0)]};
    }
    return c->message >= 0 ? ipu__lower_copy(l, NULL, here, there, bytes)
                           : ipu__lower_copy(l, NULL, there, here, bytes);
}

/* Where this routine finds what other ones have made. */
static ipu_status
place_arrivals(ipu__pipe *p, uint32_t r)
{
    lowering *l = p->l;
    for (size_t k = 0; k < p->crossings.count; k++) {
        const ipu__crossing *c = &p->crossings.items[k];
        int32_t buffer = c->buffer;
        if (c->to != r) {
            continue;
        }
        if (buffer == IPU__NO_BUFFER || ipu__pipe_is_remote(p, buffer)) {
            IPU_TRY(
                ipu__lower_new_buffer(l, bytes_of(l, (ipu_value){c->root}), &buffer));
        }
        l->values[c->root].place = slab_place(buffer);
    }
    for (size_t i = 0; i < p->messages.count; i++) {
        const ipu__message *m = &p->messages.items[i];
        if (m->to == r) {
            ipu_place *places;
            IPU_TRY(message_places(p, (int64_t)i, &places));
            ipu_instruction receive = {.kind = IPU_INSTRUCTION_RECEIVE,
                                       .channel = m->channel,
                                       .output_count = m->count,
                                       .outputs = places};
            IPU_TRY(ipu__lower_emit(l, NULL, &receive));
        }
    }
    for (size_t k = 0; k < p->crossings.count; k++) {
        const ipu__crossing *c = &p->crossings.items[k];
        if (c->to == r && (c->is_read_again || ipu__pipe_is_remote(p, c->buffer))) {
            IPU_TRY(copy_arrival(p, c));
        }
    }
    return IPU_OK;
}

/* The ring of its own IPU that a value goes to; IPU__NO_BUFFER: none. */
static int32_t
home_ring(const ipu__pipe *p, const ipu__crossing *c)
{
    bool is_home = p->routines[c->from].stream == p->routines[c->to].stream;
    return is_home ? c->buffer : IPU__NO_BUFFER;
}

/* What others use leaves at the routine's end: it is needed until then, even where its
 * last user in the body's order is a node of this routine, or of one after it. */
static void
keep_departures(ipu__pipe *p, uint32_t r, bool is_over)
{
    for (size_t k = 0; k < p->crossings.count; k++) {
        const ipu__crossing *c = &p->crossings.items[k];
        if (c->from == r) {
            p->l->values[c->root].last_use =
                is_over ? c->last_use : p->l->end[p->id.index];
        }
    }
}

/* Has the nodes that make values which others on this IPU use write them straight into
 * their rings. */
static void
want_departures(ipu__pipe *p, uint32_t r)
{
    for (size_t k = 0; k < p->crossings.count; k++) {
        const ipu__crossing *c = &p->crossings.items[k];
        value_info *info = &p->l->values[c->root];
        int32_t ring = home_ring(p, c);
        if (c->from == r && ring != IPU__NO_BUFFER && !ipu__pipe_is_remote(p, ring) &&
            info->wanted == IPU__NO_BUFFER) {
            ipu__lower_want(p->l, info, ring);
        }
    }
}

/* A value that was not made there is copied. */
static ipu_status
fill_rings(ipu__pipe *p, uint32_t r)
{
    lowering *l = p->l;
    int32_t filled = IPU__NO_BUFFER;
    for (size_t k = 0; k < p->crossings.count; k++) {
        const ipu__crossing *c = &p->crossings.items[k];
        int32_t ring = home_ring(p, c);
        ipu_place place = l->values[c->root].place;
        bool is_there = place.space == IPU_SPACE_SLAB && (int32_t)place.index == ring;
        if (c->from == r && ring != IPU__NO_BUFFER && !is_there && ring != filled) {
            IPU_TRY(ipu__lower_copy(l, NULL, place, slab_place(ring),
                                    bytes_of(l, (ipu_value){c->root})));
            filled = ring;
        }
    }
    return IPU_OK;
}

static ipu_status
send_messages(ipu__pipe *p, uint32_t r)
{
    lowering *l = p->l;
    for (size_t i = 0; i < p->messages.count; i++) {
        const ipu__message *m = &p->messages.items[i];
        if (m->from == r) {
            ipu_place *places;
            IPU_TRY(message_places(p, (int64_t)i, &places));
            ipu_instruction send = {.kind = IPU_INSTRUCTION_SEND,
                                    .channel = m->channel,
                                    .input_count = m->count,
                                    .inputs = places};
            IPU_TRY(ipu__lower_emit(l, NULL, &send));
        }
    }
    return IPU_OK;
}

static ipu_status
lower_routine(ipu__pipe *p, uint32_t r)
{
    lowering *l = p->l;
    ipu__pipe_routine *own = &p->routines[r];
    ipu_instruction end = {.kind = IPU_INSTRUCTION_RETURN};
    ipu__lower_enter_stream(l, own->stream);
    own->begin = (int32_t)l->stream->instructions.count;
    IPU_TRY(place_arrivals(p, r));
    keep_departures(p, r, false);
    want_departures(p, r);
    size_t around = l->posted.count;
    IPU_EACH_NODE(n, l->graph, p->body) {
        if (p->routine_of[n.index] == (int32_t)r) {
            IPU_TRY(ipu__pipe_for_each_use(p, n, ipu__pipe_bring_carried));
            IPU_TRY(ipu__lower_node(l, n));
            IPU_TRY(ipu__pipe_store_carried(p, n));
        }
    }
    IPU_TRY(ipu__lower_wait(l, around));
    IPU_TRY(fill_rings(p, r));
    IPU_TRY(send_messages(p, r));
    keep_departures(p, r, true);
    IPU_TRY(ipu__pipe_move_carried(p, (int32_t)r));
    IPU_TRY(ipu__lower_emit(l, NULL, &end));
    own->end = (int32_t)l->stream->instructions.count;
    return IPU_OK;
}

static ipu_status
lower_routines(ipu__pipe *p)
{
    lowering *l = p->l;
    IPU_EACH_NODE(n, l->graph, p->body) {
        if (p->routine_of[n.index] == IPU_NO_ROUTINE) {
            IPU_TRY(ipu__lower_node(l, n));
        }
    }
    for (uint32_t r = 0; r < p->routine_count; r++) {
        bool is_run =
            p->is_split || p->routines[r].what.kind != IPU_ACTION_BACKWARD_WEIGHT;
        if (is_run) {
            IPU_TRY(lower_routine(p, r));
        }
    }
    return IPU_OK;
}

static ipu_status
lower_actions(ipu__pipe *p)
{
    lowering *l = p->l;
    ipu_instruction halt = {.kind = IPU_INSTRUCTION_HALT};
    uint32_t first = p->routines[0].stream - (uint32_t)p->devices[0];
    for (uint32_t ipu = 0; ipu < p->schedule->ipu_count; ipu++) {
        const ipu_action_list *list = &p->schedule->lists[ipu];
        ipu__lower_enter_stream(l, first + ipu);
        l->stream->entry = (uint32_t)l->stream->instructions.count;
        for (size_t i = 0; i < list->count; i++) {
            const ipu_action *action = &list->items[i];
            ipu_routine what = {action->kind, action->stage};
            const ipu__pipe_routine *run =
                &p->routines[ipu_routine_number(p->stage_count, what)];
            bool is_forward = action->kind == IPU_ACTION_FORWARD;
            ipu_instruction instruction = {
                .kind = IPU_INSTRUCTION_ACTION,
                .target = run->begin,
                .end = run->end,
                .micro_batch = action->micro_batch,
                .action = (uint32_t)action->kind,
                .placement = {.stage = (int16_t)action->stage,
                              .shard = -1,
                              .phase =
                                  is_forward ? IPU_PHASE_FORWARD : IPU_PHASE_BACKWARD}};
            IPU_TRY(ipu__lower_emit(l, NULL, &instruction));
        }
        IPU_TRY(ipu__lower_emit(l, NULL, &halt));
    }
    ipu__lower_enter_stream(l, p->around);
    ipu_instruction start = {.kind = IPU_INSTRUCTION_PIPELINE,
                             .first_stream = first,
                             .stream_count = p->schedule->ipu_count};
    return ipu__lower_emit(l, p->node, &start);
}

/* --- the whole -------------------------------------------------------------------- */

static ipu_status
lower_into_streams(ipu__pipe *p)
{
    lowering *l = p->l;
    size_t nodes = l->graph->nodes.count;
    IPU_FAIL_IF(l->ctx, l->stream->is_child, UNIMPLEMENTED,
                "a pipeline in a stage of a pipeline");
    IPU_TRY(ipu__lower_array(l, p->routine_count, sizeof(*p->routines), &p->routines));
    IPU_TRY(ipu__lower_array(l, nodes, sizeof(*p->routine_of), &p->routine_of));
    IPU_TRY(ipu__lower_array(l, p->node->output_count, sizeof(*p->which), &p->which));
    memset(p->routine_of, 0xff, nodes * sizeof(*p->routine_of)); /* IPU_NO_ROUTINE */
    IPU_TRY(ipu_pipeline_schedule(l->ctx, l->graph, p->id, &p->schedule));
    if (p->schedule->micro_batches > l->program->micro_batches) {
        l->program->micro_batches = p->schedule->micro_batches;
    }
    IPU_TRY(make_streams(p));
    IPU_TRY(ipu_routines_find(l->ctx, l->graph, p->id, p->is_split, p->routine_of));
    IPU_TRY(ipu__pipe_check_variables(p));
    IPU_TRY(ipu__pipe_check_carried(p));
    IPU_TRY(ipu__pipe_find_crossings(p));
    IPU_TRY(plan_crossings(p));
    IPU_TRY(make_channels(p));
    IPU_TRY(ipu__pipe_place_carried(p));
    l->loop_depth++; /* what is inside is not a loop of steps */
    ipu_status status = lower_routines(p);
    ipu__lower_enter_stream(l, p->around);
    l->loop_depth--;
    IPU_TRY(status);
    IPU_TRY(lower_actions(p));
    IPU_TRY(ipu__pipe_move_carried(p, IPU_NO_ROUTINE));
    IPU_TRY(ipu__pipe_bring_last_values(p));
    ipu__lower_release_outputs(l, p->node);
    return IPU_OK;
}

ipu_status
ipu__lower_pipeline(lowering *l, ipu_node id, const ipu_node_data *node)
{
    ipu_ctx *ctx = l->ctx;
    ipu__pipe p = {.l = l,
                   .id = id,
                   .node = node,
                   .body = ipu_node_body(node),
                   .around = l->number};
    p.offload = ipu_attrs_int(node->attrs, IPU_ATTR_OFFLOAD, 0);
    p.devices = ipu_attrs_ints(node->attrs, IPU_ATTR_DEVICES, &p.stage_count);
    p.routine_count = ipu_routine_count(p.stage_count);
    ipu_status status = lower_into_streams(&p);
    IPU_ARRAY_FREE(ctx, &p.crossings);
    IPU_ARRAY_FREE(ctx, &p.messages);
    ipu_id_map_free(ctx, &p.known);
    ipu_schedule_free(ctx, p.schedule);
    return status;
}
