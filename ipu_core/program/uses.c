/* SPDX-License-Identifier: MIT
 *
 * The first two walks of lowering. The first gives every node a time in program order
 * and every value its root: the value whose bytes it has (views are free). The second
 * finds each root's last use; a use inside a loop of a value from outside it counts
 * until the loop's end, since the next turn uses it again. Branches of a switch have
 * times one after the other, though one of them runs: a value that the last branch
 * needs is kept through those before it.
 *
 * A fill, such as the zeros of an accumulator, that does nothing but begin what loops
 * carry is not made where it stands: each loop fills its own buffer. */
#include "graph/bucket.h"
#include "program/lower_impl.h"

static ipu_status
note_writes(lowering *l, const ipu_node_data *node)
{
    for (uint32_t i = 0; i < ipu_node_resource_count(node); i++) {
        uint32_t resource = ipu_node_resource(node, i);
        resource_write write = {l->clock, l->last_write[resource]};
        IPU_TRY(IPU_ARRAY_PUSH(l->ctx, &l->writes, write));
        l->last_write[resource] = (uint32_t)l->writes.count;
    }
    return IPU_OK;
}

static void
define(lowering *l, ipu_value value)
{
    value_info *info = &l->values[value.index];
    info->root = value.index;
    info->defined = l->clock;
    info->first_use = INT32_MAX;
    info->last_use = l->clock;
    info->wanted = IPU__NO_BUFFER;
    info->place = slab_place(IPU__NO_BUFFER); /* nowhere yet */
}

/* Whether a node gives each element the value of a constant. */
static bool
is_fill(const lowering *l, const ipu_node_data *node)
{
    const ipu_node_data *maker = node->op == IPU_OP_ID_BROADCAST
                                     ? ipu_producer_of(l->graph, node->inputs[0])
                                     : NULL;
    return maker != NULL && maker->op == IPU_OP_ID_CONSTANT;
}

static ipu_status
number_block(lowering *l, ipu_block id)
{
    const ipu_block_data *block = ipu_block_of(l->graph, id);
    for (size_t i = 0; i < block->params.count; i++) {
        define(l, block->params.items[i]);
    }
    IPU_EACH_NODE(node_id, l->graph, id) {
        const ipu_node_data *node = ipu_node_of(l->graph, node_id);
        IPU_FAIL_IF(l->ctx, l->clock >= INT32_MAX - 2, OUT_OF_MEMORY,
                    "out of memory: a graph of more than 2^31 nodes");
        l->clock++;
        l->begin[node_id.index] = l->clock;
        for (uint32_t k = 0; k < node->output_count; k++) {
            define(l, ipu_node_output(node, k));
            l->values[ipu_node_output(node, k).index].is_filled_late = is_fill(l, node);
        }
        if (ipu_node_flags(node) & IPU_OP_VIEW) {
            l->values[ipu_node_output(node, 0).index].root =
                l->values[node->inputs[0].index].root;
        }
        if (ipu_node_flags(node) & IPU_OP_WRITES) {
            IPU_TRY(note_writes(l, node));
        }
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            ipu_block held = ipu_node_block(node, k);
            IPU_TRY(number_block(l, held));
            l->block_end[held.index] = ++l->clock;
        }
        l->end[node_id.index] = l->clock;
    }
    return IPU_OK;
}

static void
note_use(lowering *l, ipu_value value, ipu_block block, int32_t time)
{
    value_info *root = root_of(l, value);
    int32_t first = time;
    ipu_block home =
        ipu_value_of(l->graph, (ipu_value){(uint32_t)(root - l->values)})->block;
    while (block.index != home.index) {
        ipu_node owner = ipu_block_of(l->graph, block)->owner;
        if (ipu_node_is_loop(ipu_node_of(l->graph, owner))) {
            time = l->end[owner.index];
        }
        first = l->begin[owner.index];
        block = ipu_node_of(l->graph, owner)->block;
    }
    root->first_use = first < root->first_use ? first : root->first_use;
    root->last_use = time > root->last_use ? time : root->last_use;
}

static void
find_uses(lowering *l, ipu_block id)
{
    const ipu_block_data *block = ipu_block_of(l->graph, id);
    IPU_EACH_NODE(node_id, l->graph, id) {
        const ipu_node_data *node = ipu_node_of(l->graph, node_id);
        if (ipu_node_flags(node) & IPU_OP_VIEW) {
            continue;
        }
        for (uint32_t k = 0; k < node->input_count; k++) {
            bool begins = ipu_node_is_loop(node) && k >= ipu_node_entering(node, 0);
            root_of(l, node->inputs[k])->is_filled_late &= begins;
            note_use(l, node->inputs[k], id, l->begin[node_id.index]);
        }
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            find_uses(l, ipu_node_block(node, k));
        }
    }
    for (size_t i = 0; i < block->results.count; i++) {
        root_of(l, block->results.items[i])->is_filled_late = false;
        note_use(l, block->results.items[i], id, l->block_end[id.index]);
    }
}

/* A collective reads its operand until somebody needs what it gives. An operand without
 * a later use has a buffer that nobody else gets before that. One that may lie in a
 * variable or a queue is waited for at once: hosts may get at these. */
static void
extend_over_collectives(lowering *l)
{
    for (uint32_t i = 0; i < l->graph->nodes.count; i++) {
        const ipu_node_data *node = ipu_node_of(l->graph, (ipu_node){i});
        if (l->begin[i] == 0 || (ipu_node_flags(node) & IPU_OP_COLLECTIVE) == 0) {
            continue;
        }
        value_info *operand = root_of(l, node->inputs[0]);
        value_info *result = root_of(l, ipu_node_output(node, 0));
        const ipu_node_data *maker =
            ipu_producer_of(l->graph, (ipu_value){(uint32_t)(operand - l->values)});
        if (maker == NULL || !ipu_bucket_takes(maker) ||
            result->first_use == INT32_MAX) {
            result->first_use = l->begin[i];
        } else if (operand->last_use > l->begin[i] &&
                   operand->last_use < result->first_use) {
            operand->last_use = result->first_use;
        }
    }
}

bool
ipu__lower_written_before_last_use(const lowering *l, uint32_t resource,
                                   const value_info *root, int32_t time)
{
    for (uint32_t at = l->last_write[resource]; at != 0;
         at = l->writes.items[at - 1].before) {
        const resource_write *write = &l->writes.items[at - 1];
        if (write->time <= time) { /* so are those before */
            return false;
        }
        if (write->time <= root->last_use) {
            return true;
        }
    }
    return false;
}

ipu_status
ipu__lower_find_uses(lowering *l)
{
    IPU_TRY(number_block(l, (ipu_block){0}));
    l->block_end[0] = l->clock + 1;
    find_uses(l, (ipu_block){0});
    extend_over_collectives(l);
    return IPU_OK;
}
