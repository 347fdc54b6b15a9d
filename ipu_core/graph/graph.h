/* SPDX-License-Identifier: MIT
 *
 * The graph: typed nodes in nested blocks. Nodes, values, blocks and resources are
 * dense ids into arrays of the graph; everything they point to lives in the graph's
 * arena and dies with it. A node may use any value defined before it in its own block
 * or in a block around it. Order in a block is program order: a list through its nodes,
 * so that nodes come, go and move without touching the others. */
#ifndef IPU_GRAPH_GRAPH_H
#define IPU_GRAPH_GRAPH_H

#include "base/arena.h"
#include "base/array.h"
#include "base/attrs.h"
#include "base/float_behaviour.h"
#include "base/id_map.h"
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

/* Which part of a pipeline's stage a node belongs to. */
typedef enum ipu_phase { IPU_PHASE_FORWARD, IPU_PHASE_BACKWARD } ipu_phase;

/* How a scope has float16 results rounded. */
typedef enum ipu_rounding_scope {
    IPU_ROUNDING_AS_CONFIGURED, /* as ipu_graph.rounding says */
    IPU_ROUNDING_SCOPE_NEAREST,
    IPU_ROUNDING_SCOPE_STOCHASTIC
} ipu_rounding_scope;

/* Where a node runs, and how it rounds. device -1 is the host; shard and stage -1 are
 * "not said". */
typedef struct ipu_placement {
    int16_t device;
    int16_t shard;
    int16_t stage;
    int16_t phase;    /* ipu_phase */
    int16_t rounding; /* ipu_rounding_scope */
} ipu_placement;

static inline bool
ipu_placement_equal(ipu_placement a, ipu_placement b)
{
    return a.device == b.device && a.shard == b.shard && a.stage == b.stage &&
           a.phase == b.phase && a.rounding == b.rounding;
}

typedef struct ipu_value_data {
    ipu_type type;
    ipu_node producer; /* IPU_NO_NODE: a block parameter */
    ipu_block block;   /* where it is defined */
    uint32_t position; /* which output, or which parameter */
} ipu_value_data;

typedef struct ipu_node_data {
    ipu_op op;
    ipu_block block;
    ipu_node previous; /* in the block; IPU_NO_NODE: none */
    ipu_node next;
    uint32_t input_count;
    uint32_t output_count;
    ipu_value *inputs; /* in the arena; passes may overwrite entries */
    ipu_value *outputs;
    ipu_attrs attrs;
    ipu_placement placement;
    /* 0; or which recomputation makes this value a second time. Such a node is never
     * merged with the one that made it first, which would keep that value instead. */
    uint32_t recomputation;
    /* Which node of the user's program it is, or came from: what makes a value a second
     * time has the number of what made it first, and so rounds it to the same bits. */
    uint32_t number;
    ipu_source source; /* the user's line; source.file lives in the arena */
    const char *name;  /* scope and name, e.g. "dense_1/MatMul"; NULL: none */
} ipu_node_data;

typedef struct ipu_block_data {
    ipu_node owner; /* the node that holds it; IPU_NO_NODE: the main block */
    ipu_node first; /* in program order; IPU_NO_NODE: the block is empty */
    ipu_node last;
    ipu_node cursor; /* new nodes go in front of it; IPU_NO_NODE: to the end */
    uint32_t node_count;
    uint32_t height;  /* how deep blocks are nested in it; 0: it holds none */
    ipu_block parent; /* the block around it; IPU_NO_BLOCK: it is the main one */
    /* A block that it sees as if it lay in it, too: autodiff derives the gradient of a
     * block so, until it has brought what that uses. IPU_NO_BLOCK: none. */
    ipu_block sees;
    IPU_ARRAY(ipu_value) params;
    IPU_ARRAY(ipu_value) results;
} ipu_block_data;

typedef enum ipu_resource_kind {
    IPU_RESOURCE_VARIABLE,
    IPU_RESOURCE_INFEED,
    IPU_RESOURCE_OUTFEED,
    IPU_RESOURCE_HOST, /* a function of the host's */
    IPU_RESOURCE_COUNT
} ipu_resource_kind;

/* A variable has one type; a queue one type per component; a function of the host's those
 * of its operands, then those of its results. `id` is the stable id on the
 * device (run/device.h), the same for every graph that uses the resource. */
typedef struct ipu_resource {
    ipu_resource_kind kind;
    int64_t id;
    uint32_t type_count;
    const ipu_type *types;
    const char *name;
    bool is_remote;        /* a variable that lies in remote memory, not in the IPU's */
    bool is_shared;        /* replicas are to share it out (passes/parts.c) */
    uint32_t parts;        /* so many do: its type is a part's; 0: each has all of it */
    const ipu_type *whole; /* of what is in parts */
    int64_t panel_columns; /* a program's: of the panels that it keeps the variable in
                              (kernels/core/kernel.h); 0: it lies by rows */
} ipu_resource;

/* Bytes that the graph and its programs read but do not own: whoever added them keeps
 * them, aligned and with slack after them, as long as any of these is used. */
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
    ipu_id_map resource_numbers; /* by kind and id */
    IPU_ARRAY(ipu_held) held;    /* by the attribute `index` of held nodes */
    bool host;                   /* a host graph: the wider dtypes are allowed */
    uint32_t last_number;        /* of its nodes */
    ipu_rounding rounding;       /* of float16 results, where no scope says it */
    size_t bucket_bytes; /* of sums over replicas that are posted together; 0: usual */
    uint32_t ipus;       /* that all replicas have together; 0: not known */
    uint32_t replicas;   /* 0: as many as these are enough for */
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
/* The flags of the node's op. */
static inline uint32_t
ipu_node_flags(const ipu_node_data *node)
{
    return ipu_op_info_of(node->op)->flags;
}
static inline ipu_value
ipu_node_output(const ipu_node_data *node, uint32_t i)
{
    return node->outputs[i];
}
/* Walking over a block: from its first node on while ipu_is_node(node). */
static inline bool
ipu_is_node(ipu_node node)
{
    return node.index != IPU_NO_INDEX;
}
static inline ipu_node
ipu_block_first(const ipu_graph *graph, ipu_block block)
{
    return ipu_block_of(graph, block)->first;
}
static inline ipu_node
ipu_node_next(const ipu_graph *graph, ipu_node node)
{
    return ipu_node_of(graph, node)->next;
}
/* The same as a loop: for each node of the block, by its id. */
#define IPU_EACH_NODE(node, graph, block) \
    for (ipu_node node = ipu_block_first((graph), (block)); ipu_is_node(node); \
         node = ipu_node_next((graph), node))
/* The node that makes a value, NULL for a parameter. */
static inline const ipu_node_data *
ipu_producer_of(const ipu_graph *graph, ipu_value value)
{
    ipu_node node = ipu_value_of(graph, value)->producer;
    return ipu_is_node(node) ? ipu_node_of(graph, node) : NULL;
}

/* The blocks that a node holds, in the order of its attributes: the condition of a loop
 * before its body, branches by their number. */
uint32_t ipu_node_block_count(const ipu_node_data *node);
ipu_block ipu_node_block(const ipu_node_data *node, uint32_t i);

/* A replica has a power of two of IPUs. */
static inline uint32_t
ipu_whole_ipus(uint32_t shards)
{
    uint32_t whole = 1;
    while (whole < shards) {
        whole *= 2;
    }
    return whole;
}

/* --- building -------------------------------------------------------------------- */

/* A block inside of `parent`, which a BLOCK node there, or in a block inside, will own
 * once it is added with an attribute that names it. */
ipu_status ipu_graph_add_block(ipu_ctx *ctx, ipu_graph *graph, ipu_block parent,
                               ipu_block *out);
/* Whether `block` is `home` or lies in it, and so may use what is defined there. */
bool ipu_graph_is_around(const ipu_graph *graph, ipu_block home, ipu_block block);
ipu_status ipu_graph_add_param(ipu_ctx *ctx, ipu_graph *graph, ipu_block block,
                               const ipu_type *type, ipu_value *out);
ipu_status ipu_graph_add_result(ipu_ctx *ctx, ipu_graph *graph, ipu_block block,
                                ipu_value value);
/* Finds the resource of this kind and id or adds it; *out is the index that nodes name.
 */
ipu_status ipu_graph_add_resource(ipu_ctx *ctx, ipu_graph *graph,
                                  const ipu_resource *resource, uint32_t *out);
/* Its number; IPU_NO_INDEX: the graph does not use it. */
uint32_t ipu_graph_find_resource(const ipu_graph *graph, ipu_resource_kind kind,
                                 int64_t id);

/* The parts of a node, except its inputs. Attributes need not be sorted and are
 * copied. */
typedef struct ipu_node_request {
    ipu_op op;
    const ipu_attr *attrs;
    uint32_t attr_count;
    ipu_placement placement;
    uint32_t recomputation;
    uint32_t number; /* 0: a new one */
    ipu_source source;
    const char *name;
} ipu_node_request;

/* Checks the inputs (arity, scope, types by the op's rule), then puts the node into
 * `block`, where its cursor is. On failure the graph is unchanged, and the error names
 * the op, the shapes and the source line. */
ipu_status ipu_graph_add_node(ipu_ctx *ctx, ipu_graph *graph, ipu_block block,
                              const ipu_node_request *request, const ipu_value *inputs,
                              uint32_t input_count, ipu_node *out);

/* Where a node runs that nobody placed: device 0, in host graphs the host. */
static inline ipu_placement
ipu_graph_placement(const ipu_graph *graph)
{
    return (ipu_placement){.device = graph->host ? -1 : 0, .shard = -1, .stage = -1};
}
/* Shorthand for passes and gradients: output 0; source, placement, name and
 * recomputation of `like` (may be IPU_NO_NODE). */
ipu_status ipu_graph_emit(ipu_ctx *ctx, ipu_graph *graph, ipu_block block,
                          ipu_node like, ipu_op op, const ipu_value *inputs,
                          uint32_t input_count, const ipu_attr *attrs,
                          uint32_t attr_count, ipu_value *out);
/* A constant whose elements all equal `value`, converted to the dtype. Scalar shapes
 * make a constant node; larger ones a broadcast of a scalar. */
ipu_status ipu_graph_emit_fill(ipu_ctx *ctx, ipu_graph *graph, ipu_block block,
                               ipu_node like, const ipu_type *type, double value,
                               ipu_value *out);

/* A tensor whose elements nobody reads before they are written. */
ipu_status ipu_graph_emit_empty(ipu_ctx *ctx, ipu_graph *graph, ipu_block block,
                                ipu_node like, const ipu_type *type, ipu_value *out);

/* --- changing what is there (edit.c) --------------------------------------------- */

/* Whether `block` is one that the node holds, or lies inside of one. */
bool ipu_graph_is_inside(const ipu_graph *graph, ipu_block block, ipu_node node);
/* Puts a node that is in no list in front of `before` in its block; IPU_NO_NODE: to the
 * end. */
void ipu__graph_link(ipu_graph *graph, ipu_node node, ipu_node before);
/* Takes a node out of its block. It keeps its ids and can be put back. */
void ipu_graph_unlink(ipu_graph *graph, ipu_node node);
/* Moves a node, with its outputs, in front of node `before` of `block`; IPU_NO_NODE: to
 * the block's end. */
void ipu_graph_move(ipu_graph *graph, ipu_node node, ipu_block block, ipu_node before);
/* Appends inputs and outputs to a BLOCK node, whose blocks have them already. */
ipu_status ipu_graph_extend_node(ipu_ctx *ctx, ipu_graph *graph, ipu_node node,
                                 const ipu_value *inputs, uint32_t input_count,
                                 const ipu_type *outputs, uint32_t output_count);
/* Takes away the outputs of a BLOCK node for which keep[i] is false, with their results
 * in its blocks; where operands enter the blocks, also operand and parameters i, which
 * nothing may use. */
void ipu_graph_shrink_node(ipu_graph *graph, ipu_node node, const bool *keep);

/* --- shape rules (infer.c) ------------------------------------------------------- */

/* The most outputs that a call of an op with any number of them can have; for others
 * the number of their row. */
uint32_t ipu_infer_most_outputs(const ipu_graph *graph, ipu_op op, ipu_attrs attrs,
                                uint32_t input_count);
/* Output types of an op. `graph` is needed for resources and blocks alone and may be
 * NULL for other ops (eager execution). `outputs` has room for `capacity` types. */
ipu_status ipu_infer(ipu_ctx *ctx, const ipu_graph *graph, ipu_op op, ipu_attrs attrs,
                     const ipu_type *inputs, uint32_t input_count, ipu_type *outputs,
                     uint32_t capacity, uint32_t *output_count);
/* --- text form (graph_print.c, parse.c) and verifier (verify.c) ---------------------
 *
 *   resource v0 variable id=3 "dense/kernel" float32[784,256]
 *   resource v1 variable id=4 remote "dense/kernel/m" float32[784,256]
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
