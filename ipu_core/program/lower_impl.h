/* SPDX-License-Identifier: MIT
 *
 * The state of one lowering, shared by the three files that do it: uses.c reads times
 * and last uses off the graph, lower.c makes the instructions, slab.c plans their
 * buffers. */
#ifndef IPU_PROGRAM_LOWER_IMPL_H
#define IPU_PROGRAM_LOWER_IMPL_H

#include "program/program.h"

enum { IPU__NO_BUFFER = -1 };

typedef struct value_info {
    uint32_t root;
    int32_t defined;  /* time */
    int32_t last_use; /* time; of roots */
    int32_t wanted;   /* the buffer its producer should write, or IPU__NO_BUFFER */
    ipu_place place;  /* of roots, once they are emitted; SLAB: index is the buffer */
} value_info;

typedef struct resource_write {
    uint32_t resource; /* of the graph */
    int32_t time;
} resource_write;

typedef struct constant {
    const void *data; /* in the graph's arena */
    size_t bytes;
    size_t offset;
} constant;

typedef struct loop_span {
    int32_t first; /* LOOP */
    int32_t last;  /* NEXT */
} loop_span;

typedef struct lowering {
    ipu_ctx *ctx;
    const ipu_graph *graph;
    const ipu_compile_options *options;
    ipu_program *program;
    value_info *values;
    int32_t *begin; /* per node: its time */
    int32_t *end;   /* per node: the time of its body's end; else as begin */
    uint32_t *resource_map;
    int32_t clock;
    IPU_ARRAY(resource_write) writes;
    IPU_ARRAY(constant) constants;
    IPU_ARRAY(ipu_buffer) buffers;
    /* Per buffer: the one root that may take the buffer over, or IPU_NO_INDEX: any. */
    IPU_ARRAY(uint32_t) reserved;
    IPU_ARRAY(loop_span) loops; /* inner before outer */
    ipu_source last_source;     /* of the graph */
    const char *last_file;      /* its copy in the program */
} lowering;

static inline ipu_block
body_of(const ipu_node_data *node)
{
    return (ipu_block){(uint32_t)ipu_attrs_int(node->attrs, IPU_ATTR_BODY, 0)};
}

static inline uint32_t
flags_of(const ipu_node_data *node)
{
    return ipu_op_info_of(node->op)->flags;
}

static inline value_info *
root_of(lowering *l, ipu_value value)
{
    return &l->values[l->values[value.index].root];
}

static inline size_t
bytes_of(const lowering *l, ipu_value value)
{
    return ipu_type_bytes(&ipu_value_of(l->graph, value)->type);
}

/* Times, roots and last uses of all nodes and values. */
ipu_status ipu__lower_find_uses(lowering *l);
/* Whether the graph's `resource` is written after `time`, while the root is needed. */
bool ipu__lower_written_before_last_use(const lowering *l, uint32_t resource,
                                        const value_info *root, int32_t time);

/* A slab buffer of its own; *out is its number. */
ipu_status ipu__lower_new_buffer(lowering *l, size_t bytes, int32_t *out);
/* Lifetimes from the finished instructions, offsets into their places. */
ipu_status ipu__lower_plan_slab(lowering *l);

#endif
