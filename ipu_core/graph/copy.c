/* SPDX-License-Identifier: MIT
 *
 * Copies go through the builder, which checks them like every other node. One thread
 * per graph. */
#include "graph/copy.h"

#include "graph/block_op.h"

static ipu_status copy_block(ipu_copy *copy, ipu_block id, ipu_block into,
                             ipu_block *out);

ipu_status
ipu_copy_say(ipu_copy *copy, ipu_value value, ipu_value stands)
{
    return ipu_id_map_put(copy->ctx, &copy->values, value.index, stands.index);
}

ipu_value
ipu_copy_of(const ipu_copy *copy, ipu_value value)
{
    uint32_t missing = copy->from == copy->to ? value.index : IPU_NO_INDEX;
    return (ipu_value){ipu_id_map_get(&copy->values, value.index, missing)};
}

static ipu_status
copy_held(ipu_copy *copy, int64_t *index)
{
    if (copy->from == copy->to) {
        return IPU_OK;
    }
    uint32_t number = ipu_id_map_get(&copy->held, (uint64_t)*index, IPU_NO_INDEX);
    if (number == IPU_NO_INDEX) {
        number = (uint32_t)copy->to->held.count;
        ipu_held held = copy->from->held.items[*index];
        IPU_TRY(IPU_ARRAY_PUSH(copy->ctx, &copy->to->held, held));
        IPU_TRY(ipu_id_map_put(copy->ctx, &copy->held, (uint64_t)*index, number));
    }
    *index = number;
    return IPU_OK;
}

static ipu_status
copy_resource(ipu_copy *copy, int64_t *index)
{
    const ipu_resource resource = copy->from->resources.items[*index];
    uint32_t number;
    IPU_TRY(ipu_graph_add_resource(copy->ctx, copy->to, &resource, &number));
    *index = number;
    return IPU_OK;
}

static bool
lists_ids(const ipu_attr *attr)
{
    return attr->key == IPU_ATTR_SLOTS ||
           ipu_attr_kind_of(attr->key) == IPU_ATTR_KIND_BLOCKS;
}

/* The ids that an attribute names, as ids of the copy. *room is for lists of them. */
static ipu_status
copy_attr(ipu_copy *copy, ipu_op op, ipu_block into, ipu_attr *attr, int64_t **room)
{
    ipu_block block;
    if (attr->key == IPU_ATTR_RESOURCE) {
        return copy_resource(copy, &attr->as.i);
    }
    if (attr->key == IPU_ATTR_INDEX && op == IPU_OP_ID_HELD) {
        return copy_held(copy, &attr->as.i);
    }
    if (ipu_attr_kind_of(attr->key) == IPU_ATTR_KIND_BLOCK) {
        IPU_TRY(copy_block(copy, (ipu_block){(uint32_t)attr->as.i}, into, &block));
        attr->as.i = block.index;
    }
    if (!lists_ids(attr)) {
        return IPU_OK;
    }
    int64_t *ids = *room;
    for (uint32_t i = 0; i < attr->count; i++) {
        ids[i] = attr->as.ints[i];
        if (attr->key == IPU_ATTR_SLOTS) {
            IPU_TRY(copy_resource(copy, &ids[i]));
        } else {
            IPU_TRY(copy_block(copy, (ipu_block){(uint32_t)ids[i]}, into, &block));
            ids[i] = block.index;
        }
    }
    attr->as.ints = ids;
    *room += attr->count;
    return IPU_OK;
}

/* The state of a copy, on the heap. */
typedef struct parts {
    ipu_attr *attrs;
    int64_t *ints;
    ipu_value *inputs;
    size_t attr_bytes;
    size_t int_bytes;
    size_t input_bytes;
} parts;

static ipu_status
copy_with(ipu_copy *copy, ipu_node id, ipu_block into, parts *parts)
{
    const ipu_node_data node = *ipu_node_of(copy->from, id);
    IPU_TRY(ipu_alloc(copy->ctx, parts->attr_bytes, &parts->attrs));
    IPU_TRY(ipu_alloc(copy->ctx, parts->int_bytes, &parts->ints));
    IPU_TRY(ipu_alloc(copy->ctx, parts->input_bytes, &parts->inputs));
    int64_t *room = parts->ints;
    for (uint32_t i = 0; i < node.attrs.count; i++) {
        parts->attrs[i] = node.attrs.items[i];
        IPU_TRY(copy_attr(copy, node.op, into, &parts->attrs[i], &room));
    }
    for (uint32_t i = 0; i < node.input_count; i++) {
        parts->inputs[i] = ipu_copy_of(copy, node.inputs[i]);
        IPU_FAIL_IF(copy->ctx, parts->inputs[i].index == IPU_NO_INDEX, INTERNAL,
                    "nothing stands for input %u of %s", i,
                    ipu_op_info_of(node.op)->name);
    }
    ipu_node_request request = {.op = node.op,
                                .attrs = parts->attrs,
                                .attr_count = node.attrs.count,
                                .placement = node.placement,
                                .recomputation = node.recomputation,
                                .number = node.number,
                                .source = node.source,
                                .name = node.name};
    ipu_node made;
    IPU_TRY(ipu_graph_add_node(copy->ctx, copy->to, into, &request, parts->inputs,
                               node.input_count, &made));
    for (uint32_t i = 0; i < node.output_count; i++) {
        IPU_TRY(ipu_copy_say(copy, node.outputs[i],
                             ipu_node_output(ipu_node_of(copy->to, made), i)));
    }
    return IPU_OK;
}

ipu_status
ipu_copy_node(ipu_copy *copy, ipu_node id, ipu_block into)
{
    const ipu_node_data *node = ipu_node_of(copy->from, id);
    size_t ints = 0;
    for (uint32_t i = 0; i < node->attrs.count; i++) {
        ints += lists_ids(&node->attrs.items[i]) ? node->attrs.items[i].count : 0;
    }
    parts parts = {.attr_bytes = node->attrs.count * sizeof(ipu_attr),
                   .int_bytes = ints * sizeof(int64_t),
                   .input_bytes = node->input_count * sizeof(ipu_value)};
    ipu_status status = copy_with(copy, id, into, &parts);
    ipu_free(copy->ctx, parts.inputs, parts.input_bytes);
    ipu_free(copy->ctx, parts.ints, parts.int_bytes);
    ipu_free(copy->ctx, parts.attrs, parts.attr_bytes);
    return status;
}

static ipu_status
copy_block(ipu_copy *copy, ipu_block id, ipu_block into, ipu_block *out)
{
    IPU_TRY(ipu_graph_add_block(copy->ctx, copy->to, into, out));
    for (size_t i = 0; i < ipu_block_of(copy->from, id)->params.count; i++) {
        ipu_value param = ipu_block_of(copy->from, id)->params.items[i];
        ipu_type type = ipu_value_of(copy->from, param)->type;
        ipu_value made;
        IPU_TRY(ipu_graph_add_param(copy->ctx, copy->to, *out, &type, &made));
        IPU_TRY(ipu_copy_say(copy, param, made));
    }
    IPU_EACH_NODE(n, copy->from, id) {
        IPU_TRY(ipu_copy_node(copy, n, *out));
    }
    for (size_t i = 0; i < ipu_block_of(copy->from, id)->results.count; i++) {
        ipu_value result = ipu_block_of(copy->from, id)->results.items[i];
        IPU_TRY(
            ipu_graph_add_result(copy->ctx, copy->to, *out, ipu_copy_of(copy, result)));
    }
    return IPU_OK;
}

void
ipu_copy_free(ipu_copy *copy)
{
    ipu_id_map_free(copy->ctx, &copy->values);
    ipu_id_map_free(copy->ctx, &copy->held);
}
