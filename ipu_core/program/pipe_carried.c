/* SPDX-License-Identifier: MIT
 *
 * Values that a pipeline carries from micro-batch to micro-batch. One lies in the slab
 * of the IPU that changes it, or in that one's remote memory; the stream around puts
 * the first one there and finds the last one. No other stage may use it. */
#include <inttypes.h>

#include "program/pipe_impl.h"

/* The routine that makes the next value of carried value i; IPU_NO_ROUTINE: none does. */
static int32_t
changes_carried(const ipu__pipe *p, uint32_t i)
{
    const lowering *l = p->l;
    ipu_value result = ipu_block_of(l->graph, p->body)->results.items[i];
    const ipu_value_data *root =
        ipu_value_of(l->graph, (ipu_value){l->values[result.index].root});
    return root->block.index == p->body.index && ipu_is_node(root->producer)
               ? p->routine_of[root->producer.index]
               : IPU_NO_ROUTINE;
}

/* Whether the bytes of a value are those of a carried one, as a micro-batch finds it;
 * *out is its number. */
static bool
is_carried(const ipu__pipe *p, ipu_value value, uint32_t *out)
{
    const lowering *l = p->l;
    const ipu_value_data *root =
        ipu_value_of(l->graph, (ipu_value){l->values[value.index].root});
    *out = root->position;
    return root->block.index == p->body.index && !ipu_is_node(root->producer);
}

static ipu_status
check_carried_use(ipu__pipe *p, ipu_node user, ipu_value value)
{
    uint32_t i;
    IPU_FAIL_IF(p->l->ctx,
                is_carried(p, value, &i) &&
                    changes_carried(p, i) != p->routine_of[user.index],
                UNIMPLEMENTED,
                "value %" PRIu32 " is carried from micro-batch to micro-batch, but a "
                "stage other than the one that changes it uses it",
                i);
    return IPU_OK;
}

/* A value that no stage changes is left in its place until the pipeline is over. */
static ipu_status
check_handed_on(const ipu__pipe *p, uint32_t i)
{
    const ipu_block_data *body = ipu_block_of(p->l->graph, p->body);
    uint32_t before;
    IPU_FAIL_IF(p->l->ctx,
                is_carried(p, body->results.items[i], &before) && before != i,
                UNIMPLEMENTED,
                "value %" PRIu32 " becomes value %" PRIu32 " of the next micro-batch: "
                "what a pipeline carries keeps its place",
                before, i);
    return IPU_OK;
}

ipu_status
ipu__pipe_check_carried(ipu__pipe *p)
{
    const ipu_graph *graph = p->l->graph;
    for (uint32_t i = 0; i < p->node->output_count; i++) {
        IPU_TRY(check_handed_on(p, i));
    }
    IPU_EACH_NODE(n, graph, p->body) {
        if (p->routine_of[n.index] != IPU_NO_ROUTINE) {
            IPU_TRY(ipu__pipe_for_each_use(p, n, check_carried_use));
        }
    }
    return IPU_OK;
}

static int32_t
carried_buffer(const ipu__pipe *p, uint32_t i)
{
    ipu_value output = ipu_node_output(p->node, i);
    return (int32_t)p->l->values[output.index].place.index;
}

/* Each has a place of its own, where the stream around puts the first one. */
static ipu_status
place_carried_value(ipu__pipe *p, uint32_t i)
{
    lowering *l = p->l;
    ipu_value output = ipu_node_output(p->node, i);
    ipu_value initial = p->node->inputs[ipu_node_entering(p->node, i)];
    int32_t by = changes_carried(p, i);
    int32_t buffer;
    ipu__lower_enter_stream(l, by == IPU_NO_ROUTINE ? p->around : p->routines[by].stream);
    ipu_status status = ipu__lower_new_ring(l, bytes_of(l, output), 1, &buffer);
    ipu__lower_enter_stream(l, p->around);
    IPU_TRY(status);
    l->buffers.items[buffer].is_remote =
        by != IPU_NO_ROUTINE && (p->offload & IPU_OFFLOAD_ACCUMULATORS) != 0;
    l->values[output.index].place = slab_place(buffer);
    ipu__lower_place_params(l, p->node, i);
    return ipu__lower_initial(l, p->node, initial, buffer);
}

ipu_status
ipu__pipe_place_carried(ipu__pipe *p)
{
    for (uint32_t i = 0; i < p->node->output_count; i++) {
        IPU_TRY(place_carried_value(p, i));
        p->which[i] = !ipu__pipe_is_remote(p, carried_buffer(p, i));
    }
    return ipu__lower_want_next_values(p->l, p->body, p->which);
}

static void
choose_carried(ipu__pipe *p, uint32_t only)
{
    for (uint32_t i = 0; i < p->node->output_count; i++) {
        p->which[i] = i == only;
    }
}

/* Brings a carried value that lies in remote memory into a buffer, for its first
 * user. */
ipu_status
ipu__pipe_bring_carried(ipu__pipe *p, ipu_node user, ipu_value value)
{
    lowering *l = p->l;
    ipu_value root = {l->values[value.index].root};
    uint32_t number;
    int32_t buffer;
    (void)user;
    if (!is_carried(p, value, &number)) {
        return IPU_OK;
    }
    ipu_place remote = slab_place(carried_buffer(p, number));
    if (l->values[root.index].place.index != remote.index ||
        !ipu__pipe_is_remote(p, (int32_t)remote.index)) {
        return IPU_OK;
    }
    IPU_TRY(ipu__lower_new_buffer(l, bytes_of(l, root), &buffer));
    l->values[root.index].place = slab_place(buffer);
    IPU_TRY(ipu__lower_copy(l, NULL, remote, slab_place(buffer), bytes_of(l, root)));
    choose_carried(p, number);
    return ipu__lower_want_next_values(l, p->body, p->which);
}

/* Takes the next values that a node has made back to remote memory. */
ipu_status
ipu__pipe_store_carried(ipu__pipe *p, ipu_node maker)
{
    lowering *l = p->l;
    const ipu_block_data *body = ipu_block_of(l->graph, p->body);
    if ((p->offload & IPU_OFFLOAD_ACCUMULATORS) == 0) {
        return IPU_OK;
    }
    for (uint32_t i = 0; i < p->node->output_count; i++) {
        ipu_value root = {l->values[body->results.items[i].index].root};
        bool is_its = ipu_value_of(l->graph, root)->producer.index == maker.index;
        if (is_its && ipu__pipe_is_remote(p, carried_buffer(p, i))) {
            IPU_TRY(ipu__lower_wait(l, 0)); /* where the node is a collective */
            choose_carried(p, i);
            IPU_TRY(ipu__lower_move_results(l, p->node, p->body, p->which));
        }
    }
    return IPU_OK;
}

/* The next values of what is carried, where they were not made in place. */
ipu_status
ipu__pipe_move_carried(ipu__pipe *p, int32_t r)
{
    for (uint32_t i = 0; i < p->node->output_count; i++) {
        p->which[i] =
            changes_carried(p, i) == r && !ipu__pipe_is_remote(p, carried_buffer(p, i));
    }
    return ipu__lower_move_results(p->l, p->node, p->body, p->which);
}

/* Brings the last values out of remote memory, for what follows. */
ipu_status
ipu__pipe_bring_last_values(ipu__pipe *p)
{
    lowering *l = p->l;
    for (uint32_t i = 0; i < p->node->output_count; i++) {
        ipu_value output = ipu_node_output(p->node, i);
        int32_t remote = carried_buffer(p, i);
        int32_t buffer;
        if (ipu__pipe_is_remote(p, remote)) {
            IPU_TRY(ipu__lower_new_buffer(l, bytes_of(l, output), &buffer));
            IPU_TRY(ipu__lower_copy(l, p->node, slab_place(remote), slab_place(buffer),
                                    bytes_of(l, output)));
            l->values[output.index].place = slab_place(buffer);
        }
    }
    return IPU_OK;
}
