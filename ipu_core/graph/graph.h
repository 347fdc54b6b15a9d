/* SPDX-License-Identifier: MIT
 *
 * The graph: typed nodes in nested blocks. Nodes, values, blocks and resources are
 * dense ids into arrays of the graph; everything they point to lives in the graph's
 * arena and dies with it. A node may use any value defined before it in its own block
 * or in a block around it. Order in a block is program order. */
#ifndef IPU_GRAPH_GRAPH_H
#define IPU_GRAPH_GRAPH_H

#include "base/arena.h"
#include "base/array.h"
#include "base/attrs.h"
#include "base/op.h"

typedef struct ipu_value {
    uint32_t index;
} ipu_value;
typedef struct ipu_node {
    uint32_t index;
} ipu_node;
typedef struct ipu_block {
    uint32_t index;
} ipu_block;

#define IPU_NO_INDEX UINT32_MAX
static const ipu_value IPU_NO_VALUE = {IPU_NO_INDEX};
static const ipu_node IPU_NO_NODE = {IPU_NO_INDEX};
static const ipu_block IPU_NO_BLOCK = {IPU_NO_INDEX};

/* Where a node runs. device -1 is the host; shard and stage -1 are "not said". */
typedef struct ipu_placement {
    int16_t device;
    int16_t shard;
    int16_t stage;
} ipu_placement;

typedef struct ipu_value_data {
    ipu_type type;
    ipu_node producer; /* IPU_NO_NODE: a block parameter */
    ipu_block block;   /* where it is defined */
    uint32_t position; /* which output, or which parameter */
} ipu_value_data;

typedef struct ipu_node_data {
    ipu_op op;
    ipu_block block;
    uint32_t input_count;
    ipu_value *inputs; /* in the arena; passes may overwrite entries */
    uint32_t output_count;
    uint32_t first_output; /* outputs are consecutive value ids */
    ipu_attrs attrs;
    ipu_placement placement;
    ipu_source source; /* the user's line; source.file lives in the arena */
    const char *name;  /* scope and name, e.g. "dense_1/MatMul"; NULL: none */
} ipu_node_data;

typedef struct ipu_block_data {
    ipu_node owner;            /* the node that holds it; IPU_NO_NODE: the main block */
    IPU_ARRAY(ipu_node) nodes; /* in program order */
    IPU_ARRAY(ipu_value) params;
    IPU_ARRAY(ipu_value) results;
} ipu_block_data;

typedef enum ipu_resource_kind {
    IPU_RESOURCE_VARIABLE,
    IPU_RESOURCE_INFEED,
    IPU_RESOURCE_OUTFEED
} ipu_resource_kind;

/* A variable has one type; a queue one type per component. `id` is the stable id on the
 * device (run/device.h), the same for every graph that uses the resource. */
typedef struct ipu_resource {
    ipu_resource_kind kind;
    int64_t id;
    uint32_t type_count;
    const ipu_type *types;
    const char *name;
} ipu_resource;

/* Bytes that the graph and its programs read but do not own: whoever added them keeps
 * them, aligned and with slack behind them, as long as any of these is used. */
typedef struct ipu_held {
    const void *data;
    size_t bytes;
} ipu_held;

typedef struct ipu_graph {
    ipu_arena arena;
    IPU_ARRAY(ipu_value_data) values;
    IPU_ARRAY(ipu_node_data) nodes;
    IPU_ARRAY(ipu_block_data) blocks; /* blocks.items[0] is the main block */
    IPU_ARRAY(ipu_resource) resources;
    IPU_ARRAY(ipu_held) held; /* by the attribute `index` of held nodes */
    bool host; /* a host graph: the wider dtypes are allowed */
} ipu_graph;

/* An empty graph with its main block. Free with ipu_graph_free (accepts NULL). */
ipu_status ipu_graph_create(ipu_ctx *ctx, bool host, ipu_graph **out);
void ipu_graph_free(ipu_ctx *ctx, ipu_graph *graph);

static inline ipu_value_data *
ipu_value_of(const ipu_graph *graph, ipu_value value)
{
    return &graph->values.items[value.index];
}
static inline ipu_node_data *
ipu_node_of(const ipu_graph *graph, ipu_node node)
{
    return &graph->nodes.items[node.index];
}
static inline ipu_block_data *
ipu_block_of(const ipu_graph *graph, ipu_block block)
{
    return &graph->blocks.items[block.index];
}
static inline ipu_value
ipu_node_output(const ipu_node_data *node, uint32_t i)
{
    return (ipu_value){node->first_output + i};
}

/* The blocks that a node holds, in the order of its attributes: the condition of a loop
 * before its body, branches by their number. */
uint32_t ipu_node_block_count(const ipu_node_data *node);
ipu_block ipu_node_block(const ipu_node_data *node, uint32_t i);

/* --- building -------------------------------------------------------------------- */

/* A block that a BLOCK node will own once it is added with an attribute that names it.
 */
ipu_status ipu_graph_add_block(ipu_ctx *ctx, ipu_graph *graph, ipu_block *out);
ipu_status ipu_graph_add_param(ipu_ctx *ctx, ipu_graph *graph, ipu_block block,
                               const ipu_type *type, ipu_value *out);
ipu_status ipu_graph_add_result(ipu_ctx *ctx, ipu_graph *graph, ipu_block block,
                                ipu_value value);
/* Finds the resource of this kind and id or adds it; *out is the index that nodes name.
 */
ipu_status ipu_graph_add_resource(ipu_ctx *ctx, ipu_graph *graph,
                                  const ipu_resource *resource, uint32_t *out);

/* What a node is made of, but for its inputs. Attributes need not be sorted and are
 * copied. */
typedef struct ipu_node_request {
    ipu_op op;
    const ipu_attr *attrs;
    uint32_t attr_count;
    ipu_placement placement;
    ipu_source source;
    const char *name;
} ipu_node_request;

/* Checks the inputs (arity, scope, types by the op's rule), then appends the node to
 * `block`. On failure the graph is unchanged, and the error names the op, the shapes
 * and the source line. */
ipu_status ipu_graph_add_node(ipu_ctx *ctx, ipu_graph *graph, ipu_block block,
                              const ipu_node_request *request, const ipu_value *inputs,
                              uint32_t input_count, ipu_node *out);

/* Shorthand for passes and gradients: one output, source and placement of `like` (may
 * be IPU_NO_NODE). */
ipu_status ipu_graph_emit(ipu_ctx *ctx, ipu_graph *graph, ipu_block block,
                          ipu_node like, ipu_op op, const ipu_value *inputs,
                          uint32_t input_count, const ipu_attr *attrs,
                          uint32_t attr_count, ipu_value *out);
/* A constant whose elements all equal `value`, converted to the dtype. Scalar shapes
 * make a constant node; larger ones a broadcast of a scalar. */
ipu_status ipu_graph_emit_fill(ipu_ctx *ctx, ipu_graph *graph, ipu_block block,
                               ipu_node like, const ipu_type *type, double value,
                               ipu_value *out);

/* --- changing what is there (edit.c) --------------------------------------------- */

/* Whether `block` is one that the node holds, or lies inside of one. */
bool ipu_graph_is_inside(const ipu_graph *graph, ipu_block block, ipu_node node);
/* Where a node stands in its block. */
size_t ipu_graph_position(const ipu_graph *graph, ipu_node node);
/* Moves the nodes of a block from number `tail` on in front of number `to`. */
void ipu_graph_move_tail(ipu_graph *graph, ipu_block block, size_t tail, size_t to);
/* Moves a node out of the blocks around it, in front of `before`. */
ipu_status ipu_graph_hoist(ipu_ctx *ctx, ipu_graph *graph, ipu_node node,
                           ipu_node before);
/* Appends inputs and outputs to a BLOCK node, whose blocks have them already. The
 * outputs are new values behind each other; the old ones stay, as identities of theirs.
 */
ipu_status ipu_graph_extend_node(ipu_ctx *ctx, ipu_graph *graph, ipu_node node,
                                 const ipu_value *inputs, uint32_t input_count,
                                 const ipu_type *outputs, uint32_t output_count);

/* Takes away the outputs of a BLOCK node for which keep[i] is false, with their results
 * in its blocks; of loops the carried inputs and parameters too, which nothing may use.
 * What is kept are new values behind each other, in the old order. */
ipu_status ipu_graph_shrink_node(ipu_ctx *ctx, ipu_graph *graph, ipu_node node,
                                 const bool *keep);

/* --- shape rules (infer.c) ------------------------------------------------------- */

/* Output types of an op. `graph` is needed for resources and blocks alone and may be
 * NULL for other ops (eager execution). `outputs` has room for `capacity` types. */
ipu_status ipu_infer(ipu_ctx *ctx, const ipu_graph *graph, ipu_op op, ipu_attrs attrs,
                     const ipu_type *inputs, uint32_t input_count, ipu_type *outputs,
                     uint32_t capacity, uint32_t *output_count);
/* Floating-point operations and bytes moved of one execution of a node. */
typedef struct ipu_cost {
    double flops;
    double bytes;
} ipu_cost;
ipu_cost ipu_node_cost(const ipu_graph *graph, ipu_node node);

/* --- text form (print.c, parse.c) and verifier (verify.c) ---------------------------
 *
 *   resource v0 variable id=3 "dense/kernel" float32[784,256]
 *   block b0(%0: float32[32,784]) {
 *     %1 = variable_read() {resource=0} : float32[784,256]
 *     %2 = matmul(%0, %1) {transpose_a=false} : float32[32,256]   # train.py:12
 *   } -> (%2)
 */
ipu_status ipu_graph_print(ipu_ctx *ctx, const ipu_graph *graph, char **out_text,
                           size_t *out_bytes); /* free with ipu_free(text, bytes) */
ipu_status ipu_graph_parse(ipu_ctx *ctx, const char *text, ipu_graph **out);
/* Checks every invariant of this file; the error names the node. */
ipu_status ipu_graph_verify(ipu_ctx *ctx, const ipu_graph *graph);

#endif
