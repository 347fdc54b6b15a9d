/* SPDX-License-Identifier: MIT
 *
 * One walk in program order. An index that a node has looked at cannot fail a second
 * time, where the later node allows as many rows or more. The pass forgets at the end
 * of a block what was looked at in it, since the block may run never. One thread per
 * graph. */
#include "graph/failures.h"

#include "base/update_code.h"
#include "graph/effects.h"

/* Indices were looked at: each is in [0, rows). */
typedef struct look {
    ipu_value indices;
    int64_t rows;
    int64_t before; /* what was known in front of it */
} look;

typedef struct finder {
    ipu_ctx *ctx;
    const ipu_graph *graph;
    ipu_failures *failures;
    IPU_ARRAY(int64_t) rows; /* by value; 0: not looked at */
    IPU_ARRAY(look) looks;   /* in the open blocks */
} finder;

/* The operand that takes rows, and how many there are; -1: the op does nothing but. */
static int32_t
indices_of(const ipu_graph *graph, const ipu_node_data *node, int64_t *rows)
{
    int64_t axis = ipu_attrs_int(node->attrs, IPU_ATTR_AXIS, 0);
    switch (node->op) {
    case IPU_OP_ID_GATHER:
        *rows = ipu_value_of(graph, node->inputs[0])->type.shape.dims[axis];
        return 1;
    case IPU_OP_ID_GATHER_GRAD:
        *rows = ipu_value_of(graph, ipu_node_output(node, 0))->type.shape.dims[axis];
        return 0;
    case IPU_OP_ID_GATHER_SGD_UPDATE:
        *rows =
            graph->resources.items[ipu_node_resource(node, 0)].types[0].shape.dims[0];
        return 0;
    case IPU_OP_ID_SPARSE_CROSS_ENTROPY: {
        const ipu_shape *shape = &ipu_value_of(graph, node->inputs[0])->type.shape;
        *rows = shape->dims[shape->rank - 1];
        return 1;
    }
    default:
        return -1;
    }
}

/* The value that has these elements, whatever their shape. */
static ipu_value
root_of(const ipu_graph *graph, ipu_value value)
{
    const ipu_node_data *node = ipu_producer_of(graph, value);
    while (node != NULL && (ipu_node_flags(node) & IPU_OP_VIEW) != 0 &&
           node->op != IPU_OP_ID_BITCAST) {
        value = node->inputs[0];
        node = ipu_producer_of(graph, value);
    }
    return value;
}

static bool
is_known(const finder *f, ipu_value indices, int64_t rows)
{
    int64_t known = f->rows.items[root_of(f->graph, indices).index];
    return known > 0 && known <= rows;
}

static ipu_status
note_look(finder *f, ipu_value indices, int64_t rows)
{
    ipu_value root = root_of(f->graph, indices);
    look added = {root, rows, f->rows.items[root.index]};
    f->rows.items[root.index] = rows;
    return IPU_ARRAY_PUSH(f->ctx, &f->looks, added);
}

/* Whether all rows that a fused update takes were looked at. */
static bool
knows_rows(const finder *f, const ipu_node_data *node)
{
    uint32_t words;
    const int64_t *code = ipu_attrs_ints(node->attrs, IPU_ATTR_CODE, &words);
    ipu_update_part part = {0};
    while (ipu_update_next(code, words, &part)) {
        uint32_t variable = ipu_node_resource(node, part.first_variable);
        int64_t rows = f->graph->resources.items[variable].types[0].shape.dims[0];
        for (uint32_t k = 0; k < part.inputs; k++) {
            uint32_t elements = ipu_update_elements(&part, k);
            if (ipu_update_is_rows(&part, k) &&
                !is_known(f, node->inputs[elements - 1], rows)) {
                return false;
            }
        }
    }
    return true;
}

static ipu_status
look_at(finder *f, const ipu_node_data *node, ipu_failure *out)
{
    const ipu_graph *graph = f->graph;
    const ipu_type *operand =
        node->input_count == 0 ? NULL : &ipu_value_of(graph, node->inputs[0])->type;
    const ipu_type *result = node->output_count == 0
                                 ? NULL
                                 : &ipu_value_of(graph, ipu_node_output(node, 0))->type;
    *out = IPU_FAILS_NEVER;
    if (!ipu_op_can_fail(node->op, node->attrs, operand, result)) {
        return IPU_OK;
    }
    *out = IPU_FAILS_FIRST;
    if (node->op == IPU_OP_ID_FUSED_UPDATE) {
        *out = knows_rows(f, node) ? IPU_FAILS_AFTER : IPU_FAILS_FIRST;
        return IPU_OK;
    }
    int64_t rows;
    int32_t place = indices_of(graph, node, &rows);
    if (place < 0) {
        return IPU_OK;
    }
    ipu_value indices = node->inputs[place];
    if (is_known(f, indices, rows)) {
        *out = IPU_FAILS_AFTER;
        return IPU_OK;
    }
    return note_look(f, indices, rows);
}

static ipu_status
walk(finder *f, ipu_block block, ipu_failure *worst)
{
    size_t before = f->looks.count;
    *worst = IPU_FAILS_NEVER;
    IPU_EACH_NODE(n, f->graph, block) {
        const ipu_node_data *node = ipu_node_of(f->graph, n);
        ipu_failure own;
        IPU_TRY(look_at(f, node, &own));
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            ipu_failure inside;
            IPU_TRY(walk(f, ipu_node_block(node, k), &inside));
            own = inside > own ? inside : own;
        }
        f->failures->items.items[n.index] = (unsigned char)own;
        *worst = own > *worst ? own : *worst;
    }
    while (f->looks.count > before) {
        look last = f->looks.items[--f->looks.count];
        f->rows.items[last.indices.index] = last.before;
    }
    return IPU_OK;
}

ipu_status
ipu_failures_find(ipu_ctx *ctx, const ipu_graph *graph, ipu_failures *out)
{
    finder f = {.ctx = ctx, .graph = graph, .failures = out};
    ipu_failure worst;
    ipu_status status = IPU_ARRAY_RESERVE(ctx, &out->items, graph->nodes.count);
    if (status == IPU_OK) {
        status = IPU_ARRAY_RESERVE(ctx, &f.rows, graph->values.count);
    }
    if (status == IPU_OK) {
        out->items.count = graph->nodes.count;
        f.rows.count = graph->values.count;
        for (size_t i = 0; i < out->items.count; i++) {
            out->items.items[i] = IPU_FAILS_NEVER;
        }
        for (size_t i = 0; i < f.rows.count; i++) {
            f.rows.items[i] = 0;
        }
        status = walk(&f, (ipu_block){0}, &worst);
    }
    IPU_ARRAY_FREE(ctx, &f.rows);
    IPU_ARRAY_FREE(ctx, &f.looks);
    return status;
}

void
ipu_failures_free(ipu_ctx *ctx, ipu_failures *failures)
{
    IPU_ARRAY_FREE(ctx, &failures->items);
}
