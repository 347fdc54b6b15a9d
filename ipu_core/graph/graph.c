/* SPDX-License-Identifier: MIT
 *
 * Building graphs. A node is checked in full before anything of the graph changes, so a
 * failed call leaves it as it was. */
#include "graph/constant.h"

#include <stdio.h>
#include <inttypes.h>
#include <string.h>

enum {
    FEW_TYPES = 16,   /* inputs and outputs of a node whose types fit on the stack */
    MOST_HEIGHT = 256 /* of nested blocks: walks over them recurse */
};

ipu_status
ipu_graph_create(ipu_ctx *ctx, bool host, ipu_graph **out)
{
    ipu_graph *graph;
    ipu_block main_block;
    *out = NULL;
    IPU_TRY(ipu_alloc(ctx, sizeof(*graph), &graph));
    graph->host = host;
    ipu_status status = ipu_graph_add_block(ctx, graph, IPU_NO_BLOCK, &main_block);
    if (status != IPU_OK) {
        ipu_graph_free(ctx, graph);
        return status;
    }
    *out = graph;
    return IPU_OK;
}

void
ipu_graph_free(ipu_ctx *ctx, ipu_graph *graph)
{
    if (graph == NULL) {
        return;
    }
    for (size_t i = 0; i < graph->blocks.count; i++) {
        ipu_block_data *block = &graph->blocks.items[i];
        IPU_ARRAY_FREE(ctx, &block->params);
        IPU_ARRAY_FREE(ctx, &block->results);
    }
    IPU_ARRAY_FREE(ctx, &graph->values);
    IPU_ARRAY_FREE(ctx, &graph->nodes);
    IPU_ARRAY_FREE(ctx, &graph->blocks);
    IPU_ARRAY_FREE(ctx, &graph->resources);
    ipu_id_map_free(ctx, &graph->resource_numbers);
    IPU_ARRAY_FREE(ctx, &graph->held);
    ipu_arena_free(ctx, &graph->arena);
    ipu_free(ctx, graph, sizeof(*graph));
}

ipu_status
ipu_graph_add_block(ipu_ctx *ctx, ipu_graph *graph, ipu_block parent, ipu_block *out)
{
    ipu_block_data block = {.owner = IPU_NO_NODE,
                            .first = IPU_NO_NODE,
                            .last = IPU_NO_NODE,
                            .cursor = IPU_NO_NODE,
                            .parent = parent,
                            .sees = IPU_NO_BLOCK};
    IPU_TRY(IPU_ARRAY_PUSH(ctx, &graph->blocks, block));
    *out = (ipu_block){(uint32_t)graph->blocks.count - 1};
    return IPU_OK;
}

ipu_status
ipu_graph_add_param(ipu_ctx *ctx, ipu_graph *graph, ipu_block block,
                    const ipu_type *type, ipu_value *out)
{
    ipu_block_data *data = ipu_block_of(graph, block);
    IPU_TRY(ipu_type_check(ctx, type));
    IPU_FAIL_IF(ctx, !graph->host && !ipu_dtype_on_device(type->dtype), TYPE,
                "%s does not exist on the device; convert it on the host first",
                IPU_TYPE_TEXT(type));
    ipu_value_data value = {.type = *type,
                            .producer = IPU_NO_NODE,
                            .block = block,
                            .position = (uint32_t)data->params.count};
    IPU_TRY(IPU_ARRAY_RESERVE(ctx, &data->params, 1));
    IPU_TRY(IPU_ARRAY_PUSH(ctx, &graph->values, value));
    *out = (ipu_value){(uint32_t)graph->values.count - 1};
    data->params.items[data->params.count++] = *out;
    return IPU_OK;
}

bool
ipu_graph_is_around(const ipu_graph *graph, ipu_block home, ipu_block block)
{
    while (block.index != IPU_NO_INDEX && block.index != home.index) {
        const ipu_block_data *data = ipu_block_of(graph, block);
        if (data->sees.index != IPU_NO_INDEX &&
            ipu_graph_is_around(graph, home, data->sees)) {
            return true;
        }
        block = data->parent;
    }
    return block.index == home.index;
}

static bool
in_scope(const ipu_graph *graph, ipu_block block, ipu_value value)
{
    return value.index < graph->values.count &&
           ipu_graph_is_around(graph, ipu_value_of(graph, value)->block, block);
}

ipu_status
ipu_graph_add_result(ipu_ctx *ctx, ipu_graph *graph, ipu_block block, ipu_value value)
{
    IPU_FAIL_IF(ctx, !in_scope(graph, block, value), INVALID_ARGUMENT,
                "a result of a block is not defined in it");
    ipu_block_data *data = ipu_block_of(graph, block);
    return IPU_ARRAY_PUSH(ctx, &data->results, value);
}

static uint64_t
key_of_resource(ipu_resource_kind kind, int64_t id)
{
    return (uint64_t)id * IPU_RESOURCE_COUNT + (uint64_t)kind;
}

uint32_t
ipu_graph_find_resource(const ipu_graph *graph, ipu_resource_kind kind, int64_t id)
{
    return ipu_id_map_get(&graph->resource_numbers, key_of_resource(kind, id),
                          IPU_NO_INDEX);
}

ipu_status
ipu_graph_add_resource(ipu_ctx *ctx, ipu_graph *graph, const ipu_resource *resource,
                       uint32_t *out)
{
    uint64_t key = key_of_resource(resource->kind, resource->id);
    *out = ipu_graph_find_resource(graph, resource->kind, resource->id);
    if (*out != IPU_NO_INDEX) {
        return IPU_OK;
    }
    ipu_resource copy = *resource;
    for (uint32_t i = 0; i < resource->type_count; i++) {
        IPU_TRY(ipu_type_check(ctx, &resource->types[i]));
    }
    if (resource->parts > 0) {
        IPU_TRY(ipu_type_check(ctx, resource->whole));
    }
    IPU_TRY(ipu_arena_copy(ctx, &graph->arena, resource->types,
                           resource->type_count * sizeof(ipu_type), &copy.types));
    if (resource->parts > 0) {
        IPU_TRY(ipu_arena_copy(ctx, &graph->arena, resource->whole, sizeof(ipu_type),
                               &copy.whole));
    }
    if (resource->name != NULL) {
        IPU_TRY(ipu_arena_text(ctx, &graph->arena, resource->name,
                               strlen(resource->name), &copy.name));
    }
    IPU_TRY(IPU_ARRAY_RESERVE(ctx, &graph->resources, 1));
    *out = (uint32_t)graph->resources.count;
    IPU_TRY(ipu_id_map_put(ctx, &graph->resource_numbers, key, *out));
    graph->resources.items[graph->resources.count++] = copy;
    return IPU_OK;
}

/* Puts the op's name before a message of its rule, and the source beside it. */
static ipu_status
explain(ipu_ctx *ctx, const ipu_node_request *request, ipu_status status)
{
    char message[sizeof(ctx->message)];
    memcpy(message, ctx->message, sizeof(message));
    snprintf(ctx->message, sizeof(ctx->message), "%s%s%s: %.900s",
             ipu_op_info_of(request->op)->name, request->name == NULL ? "" : " ",
             request->name == NULL ? "" : request->name, message);
    if (ctx->source.file == NULL) {
        ctx->source = request->source;
    }
    return status;
}

/* The types of a node's inputs and outputs, one array after the other. */
typedef struct node_types {
    ipu_type few[FEW_TYPES];
    ipu_type *inputs;
    ipu_type *outputs;
    uint32_t capacity; /* of outputs */
    uint32_t output_count;
    size_t heap_bytes;
} node_types;

static ipu_status
make_room(ipu_ctx *ctx, const ipu_graph *graph, const ipu_node_request *request,
          uint32_t input_count, node_types *types)
{
    ipu_attrs attrs = {request->attrs, request->attr_count};
    types->capacity = ipu_infer_most_outputs(graph, request->op, attrs, input_count);
    types->heap_bytes = 0;
    types->inputs = types->few;
    if ((uint64_t)types->capacity + input_count > FEW_TYPES) {
        size_t count = (size_t)types->capacity + input_count;
        IPU_TRY(ipu_mul_size(ctx, count, sizeof(ipu_type), &types->heap_bytes));
        IPU_TRY(ipu_alloc(ctx, types->heap_bytes, &types->inputs));
    }
    types->outputs = types->inputs + input_count;
    return IPU_OK;
}

/* The blocks that a node would hold: opened where it is, or around it, and no other
 * node's. */
static ipu_status
check_blocks(ipu_ctx *ctx, const ipu_graph *graph, const ipu_node_data *node)
{
    for (uint32_t i = 0; i < ipu_node_block_count(node); i++) {
        ipu_block held = ipu_node_block(node, i);
        bool is_free = held.index > 0 && held.index < graph->blocks.count &&
                       !ipu_is_node(ipu_block_of(graph, held)->owner) &&
                       ipu_graph_is_around(graph, ipu_block_of(graph, held)->parent,
                                           node->block) &&
                       !ipu_graph_is_around(graph, held, node->block);
        for (uint32_t k = 0; is_free && k < i; k++) {
            is_free = ipu_node_block(node, k).index != held.index;
        }
        IPU_FAIL_IF(ctx, !is_free, INVALID_ARGUMENT,
                    "block %" PRIu32 " lies around the node, or belongs to another one",
                    held.index);
        IPU_FAIL_IF(ctx, ipu_block_of(graph, held)->height + 1 > MOST_HEIGHT,
                    INVALID_ARGUMENT, "loops and branches nested more than %d deep",
                    (int)MOST_HEIGHT);
    }
    return IPU_OK;
}

static ipu_status
check_node(ipu_ctx *ctx, const ipu_graph *graph, ipu_block block,
           const ipu_node_request *request, const ipu_value *inputs,
           uint32_t input_count, node_types *types)
{
    for (uint32_t i = 0; i < input_count; i++) {
        IPU_FAIL_IF(ctx, !in_scope(graph, block, inputs[i]), INVALID_ARGUMENT,
                    "input %u is not defined where it is used", i);
        types->inputs[i] = ipu_value_of(graph, inputs[i])->type;
    }
    ipu_attrs attrs = {request->attrs, request->attr_count};
    IPU_TRY(check_blocks(
        ctx, graph,
        &(ipu_node_data){.op = request->op, .block = block, .attrs = attrs}));
    IPU_TRY(ipu_infer(ctx, graph, request->op, attrs, types->inputs, input_count,
                      types->outputs, types->capacity, &types->output_count));
    for (uint32_t i = 0; i < types->output_count; i++) {
        ipu_dtype dtype = types->outputs[i].dtype;
        IPU_FAIL_IF(ctx, !graph->host && !ipu_dtype_on_device(dtype), TYPE,
                    "Unsupported data type for output: %s does not exist on the "
                    "device; use %s",
                    ipu_dtype_name(dtype),
                    ipu_dtype_is_float(dtype) ? "float32" : "int32");
    }
    return IPU_OK;
}

/* A node that was checked. */
static ipu_status
append_node(ipu_ctx *ctx, ipu_graph *graph, ipu_block block,
            const ipu_node_request *request, const ipu_value *inputs,
            uint32_t input_count, const node_types *types, ipu_node *out)
{
    uint32_t number = request->number > 0 ? request->number : graph->last_number + 1;
    ipu_node_data node = {.op = request->op,
                          .block = block,
                          .input_count = input_count,
                          .output_count = types->output_count,
                          .placement = request->placement,
                          .recomputation = request->recomputation,
                          .number = number,
                          .source = request->source};
    size_t value_count = (size_t)input_count + types->output_count;
    IPU_TRY(ipu_arena_alloc(ctx, &graph->arena, value_count * sizeof(ipu_value),
                            &node.inputs));
    node.outputs = node.inputs + input_count;
    ipu_copy_bytes(node.inputs, inputs, input_count * sizeof(ipu_value));
    ipu_attrs attrs = {request->attrs, request->attr_count};
    IPU_TRY(ipu_attrs_copy(ctx, &graph->arena, attrs, &node.attrs));
    if (request->name != NULL) {
        IPU_TRY(ipu_arena_text(ctx, &graph->arena, request->name, strlen(request->name),
                               &node.name));
    }
    IPU_TRY(IPU_ARRAY_RESERVE(ctx, &graph->values, types->output_count));
    IPU_TRY(IPU_ARRAY_PUSH(ctx, &graph->nodes, node));
    graph->last_number = number > graph->last_number ? number : graph->last_number;
    *out = (ipu_node){(uint32_t)graph->nodes.count - 1};
    ipu__graph_link(graph, *out, ipu_block_of(graph, block)->cursor);
    for (uint32_t i = 0; i < types->output_count; i++) {
        node.outputs[i] = (ipu_value){(uint32_t)graph->values.count};
        graph->values.items[graph->values.count++] = (ipu_value_data){
            .type = types->outputs[i], .producer = *out, .block = block, .position = i};
    }
    ipu_block_data *home = ipu_block_of(graph, block);
    for (uint32_t i = 0; i < ipu_node_block_count(&node); i++) {
        ipu_block_data *held = ipu_block_of(graph, ipu_node_block(&node, i));
        held->owner = *out;
        held->parent = block;
        home->height =
            held->height + 1 > home->height ? held->height + 1 : home->height;
    }
    return IPU_OK;
}

ipu_status
ipu_graph_add_node(ipu_ctx *ctx, ipu_graph *graph, ipu_block block,
                   const ipu_node_request *request, const ipu_value *inputs,
                   uint32_t input_count, ipu_node *out)
{
    node_types types;
    ipu_status status = make_room(ctx, graph, request, input_count, &types);
    if (status != IPU_OK) {
        return status;
    }
    status = check_node(ctx, graph, block, request, inputs, input_count, &types);
    if (status != IPU_OK) {
        explain(ctx, request, status);
    } else {
        status =
            append_node(ctx, graph, block, request, inputs, input_count, &types, out);
    }
    ipu_free(ctx, types.heap_bytes > 0 ? types.inputs : NULL, types.heap_bytes);
    return status;
}

/* The blocks that one attribute names. */
static const int64_t *
attr_blocks(const ipu_attr *attr, uint32_t *count)
{
    ipu_attr_kind kind = ipu_attr_kind_of(attr->key);
    if (kind == IPU_ATTR_KIND_BLOCK) {
        *count = 1;
        return &attr->as.i;
    }
    *count = kind == IPU_ATTR_KIND_BLOCKS ? attr->count : 0;
    return attr->as.ints;
}

uint32_t
ipu_node_block_count(const ipu_node_data *node)
{
    uint32_t total = 0;
    uint32_t count;
    if ((ipu_node_flags(node) & IPU_OP_BLOCK) == 0) {
        return 0;
    }
    for (uint32_t a = 0; a < node->attrs.count; a++) {
        attr_blocks(&node->attrs.items[a], &count);
        total += count;
    }
    return total;
}

ipu_block
ipu_node_block(const ipu_node_data *node, uint32_t i)
{
    for (uint32_t a = 0; a < node->attrs.count; a++) {
        uint32_t count;
        const int64_t *blocks = attr_blocks(&node->attrs.items[a], &count);
        if (i < count) {
            return (ipu_block){(uint32_t)blocks[i]};
        }
        i -= count;
    }
    return IPU_NO_BLOCK;
}

ipu_status
ipu_graph_emit(ipu_ctx *ctx, ipu_graph *graph, ipu_block block, ipu_node like,
               ipu_op op, const ipu_value *inputs, uint32_t input_count,
               const ipu_attr *attrs, uint32_t attr_count, ipu_value *out)
{
    ipu_node_request request = {.op = op,
                                .attrs = attrs,
                                .attr_count = attr_count,
                                .placement = ipu_graph_placement(graph)};
    if (like.index != IPU_NO_INDEX) {
        request.placement = ipu_node_of(graph, like)->placement;
        request.recomputation = ipu_node_of(graph, like)->recomputation;
        request.number = ipu_node_of(graph, like)->number;
        request.source = ipu_node_of(graph, like)->source;
        request.name = ipu_node_of(graph, like)->name;
    }
    ipu_node node;
    IPU_TRY(
        ipu_graph_add_node(ctx, graph, block, &request, inputs, input_count, &node));
    const ipu_node_data *made = ipu_node_of(graph, node);
    *out = made->output_count == 0 ? IPU_NO_VALUE : ipu_node_output(made, 0);
    return IPU_OK;
}

/* One element of `dtype` that holds `value`. */
static void
store_number(ipu_dtype dtype, double value, void *out)
{
    switch (dtype) {
    case IPU_DTYPE_FLOAT16: {
        uint16_t half = ipu_float16_from_float((float)value);
        memcpy(out, &half, sizeof(half));
        break;
    }
    case IPU_DTYPE_BOOL: {
        uint8_t flag = value != 0.0;
        memcpy(out, &flag, sizeof(flag));
        break;
    }
#define STORE(NAME, suffix, type, ...) \
    case IPU_DTYPE_##NAME: { \
        type number = (type)value; \
        memcpy(out, &number, sizeof(number)); \
        break; \
    }
        STORE(FLOAT32, f32, float, )
        STORE(FLOAT64, f64, double, )
        IPU_INTEGER_LIST(STORE)
#undef STORE
    case IPU_DTYPE_COUNT:
        break;
    }
}

ipu_status
ipu_graph_emit_fill(ipu_ctx *ctx, ipu_graph *graph, ipu_block block, ipu_node like,
                    const ipu_type *type, double value, ipu_value *out)
{
    const ipu_type copy = *type; /* the original may be in an array that moves */
    unsigned char bytes[8];
    const ipu_type one = {.dtype = copy.dtype, .shape = ipu_shape_scalar()};
    ipu_value scalar;
    store_number(copy.dtype, value, bytes);
    IPU_TRY(ipu_constant_emit(ctx, graph, block, like, &one, bytes, &scalar));
    if (copy.shape.rank == 0) {
        *out = scalar;
        return IPU_OK;
    }
    ipu_attr shape = ipu_attr_shape(&copy.shape);
    return ipu_graph_emit(ctx, graph, block, like, IPU_OP_ID_BROADCAST, &scalar, 1,
                          &shape, 1, out);
}

ipu_status
ipu_graph_emit_empty(ipu_ctx *ctx, ipu_graph *graph, ipu_block block, ipu_node like,
                     const ipu_type *type, ipu_value *out)
{
    const ipu_type copy = *type; /* the original may be in an array that moves */
    ipu_attr attrs[] = {
        ipu_attr_int(IPU_ATTR_DTYPE, (int64_t)copy.dtype),
        ipu_attr_shape(&copy.shape),
    };
    return ipu_graph_emit(ctx, graph, block, like, IPU_OP_ID_EMPTY, NULL, 0, attrs, 2,
                          out);
}
