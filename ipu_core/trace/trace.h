/* SPDX-License-Identifier: MIT
 *
 * A function being traced: its open graph, the stack of open blocks (the body of a loop
 * is one), the scopes that place nodes, and the ordinals of random ops. One thread
 * traces one function at a time. */
#ifndef IPU_TRACE_TRACE_H
#define IPU_TRACE_TRACE_H

#include "graph/graph.h"

typedef struct ipu_trace {
    ipu_graph *graph;             /* owned */
    IPU_ARRAY(ipu_block) open;    /* innermost last; open.items[0] is the main block */
    ipu_placement placement;      /* of the scope in force */
    IPU_ARRAY(ipu_block) lent;    /* closed ones that can be seen for a while */
    IPU_ARRAY(ipu_block) dropped; /* that no node will ever hold */
    int64_t next_ordinal;         /* of random ops */
    uint32_t recomputation;       /* that nodes are added for; 0: none */
    uint32_t recomputations;      /* that were begun */
    const char *scope;            /* the name of nodes without one; NULL: none */
} ipu_trace;

/* Where the trace was when a recomputation began, to go on there when it ends. */
typedef struct ipu_trace_mark {
    int64_t next_ordinal;
    uint32_t recomputation;
    uint32_t node_count;
} ipu_trace_mark;

ipu_status ipu_trace_create(ipu_ctx *ctx, bool host, ipu_trace **out);
void ipu_trace_free(ipu_ctx *ctx, ipu_trace *trace);

static inline ipu_block
ipu_trace_block(const ipu_trace *trace)
{
    return trace->open.items[trace->open.count - 1];
}
/* Opens a block inside the innermost one; close it before its BLOCK node is added. */
ipu_status ipu_trace_open_block(ipu_ctx *ctx, ipu_trace *trace, ipu_block *out);
/* Opens one again that is closed and has no node yet, to add to its end. */
ipu_status ipu_trace_reopen_block(ipu_ctx *ctx, ipu_trace *trace, ipu_block block);
/* Fails where it is not the innermost one. */
ipu_status ipu_trace_close_block(ipu_ctx *ctx, ipu_trace *trace, ipu_block block);
/* Opens a block of the graph, whoever made it, for a gradient function of the user's,
 * which may use what `home` and the blocks around it have. `leave` ends what the last
 * `enter` began. */
ipu_status ipu_trace_enter(ipu_ctx *ctx, ipu_trace *trace, ipu_block block,
                           ipu_block home);
void ipu_trace_leave(ipu_trace *trace);
/* Says of a closed block that it was traced in vain. */
ipu_status ipu_trace_drop_block(ipu_ctx *ctx, ipu_trace *trace, ipu_block block);
/* Whether a value can be used in the innermost open block: it was made there or in a
 * block around it that is still open, or lent. */
bool ipu_trace_visible(const ipu_trace *trace, ipu_value value);
/* Whether it can, or lies in a block that a node in one of those blocks holds. */
bool ipu_trace_reaches(const ipu_trace *trace, ipu_value value);

/* Whether a node of this op names the resource, in a block that is open, is held by a
 * node of one, or is waiting for its node, as the first branch of a switch does while
 * the second is traced; what was dropped does not count. */
bool ipu_trace_uses(const ipu_trace *trace, ipu_op op, ipu_resource_kind kind,
                    int64_t id);

/* From here on nodes make values a second time; the first time began at random ordinal
 * `ordinal`, and the same numbers are drawn again. The result goes to
 * `ipu_trace_resume`, which ends that: the first time nodes [begin, end) were made, and
 * what rounds has their numbers. */
ipu_trace_mark ipu_trace_recompute(ipu_trace *trace, int64_t ordinal);
void ipu_trace_resume(ipu_trace *trace, ipu_trace_mark mark, uint32_t begin,
                      uint32_t end);
/* Says of the nodes of the innermost block after node `after`, and of those in blocks
 * that they hold, that they go backwards; IPU_NO_NODE: of all. */
void ipu_trace_mark_backward(ipu_trace *trace, ipu_node after);
/* Adds a node to the innermost block; random ops get their ordinal. */
ipu_status ipu_trace_node(ipu_ctx *ctx, ipu_trace *trace, ipu_op op,
                          const ipu_value *inputs, uint32_t input_count,
                          const ipu_attr *attrs, uint32_t attr_count, ipu_source source,
                          const char *name, ipu_node *out);
/* A constant, in the main block, so that loops do not make it again. */
ipu_status ipu_trace_constant(ipu_ctx *ctx, ipu_trace *trace, const ipu_type *type,
                              const void *data, ipu_value *out);
/* Bytes outside of the graph, see ipu_held, in the main block. */
ipu_status ipu_trace_held(ipu_ctx *ctx, ipu_trace *trace, const ipu_type *type,
                          const void *data, ipu_value *out);
/* A graph of its own that gives one value of the trace (extract.c); free it with
 * ipu_graph_free. INVALID_ARGUMENT where the value depends on what is not known yet. */
ipu_status ipu_trace_lift(ipu_ctx *ctx, const ipu_trace *trace, ipu_value value,
                          ipu_graph **out);
/* Cuts off what is after node `mark` of the main block, as a graph of its own that
 * gives `gradients` (split.c). The trace keeps its first `inputs` parameters and gains
 * *saved results, which are the last parameters of the other graph. Free that with
 * ipu_graph_free, before the trace. */
ipu_status ipu_trace_split(ipu_ctx *ctx, ipu_trace *trace, ipu_node mark,
                           uint32_t inputs, const ipu_value *gradients, uint32_t count,
                           ipu_graph **out, uint32_t *saved);

#endif
