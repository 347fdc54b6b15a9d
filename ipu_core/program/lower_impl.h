/* SPDX-License-Identifier: MIT
 *
 * The state of one lowering, shared by the files that do it: uses.c reads times and
 * last uses off the graph, lower.c makes the instructions, lower_collective.c those of
 * collectives, lower_control.c those of loops and branches, lower_pipeline.c those of
 * pipelines, panels.c says which variables lie in panels, regions.c says which kernels
 * need no barrier between them, slab.c plans the buffers. */
#ifndef IPU_PROGRAM_LOWER_IMPL_H
#define IPU_PROGRAM_LOWER_IMPL_H

#include "graph/block_op.h"
#include "graph/effects.h"
#include "graph/failures.h"
#include "program/program.h"

enum { IPU__NO_BUFFER = -1 };

typedef struct value_info {
    uint32_t root;
    int32_t defined;     /* time */
    int32_t first_use;   /* time; of roots */
    int32_t last_use;    /* time; of roots */
    int32_t wanted;      /* the buffer its producer should write, or IPU__NO_BUFFER */
    bool is_filled_late; /* a fill that only begins what loops carry: they make it */
    ipu_place place; /* of roots, once they are emitted; SLAB: index is the buffer */
} value_info;

typedef struct resource_write {
    int32_t time;
    uint32_t before; /* an earlier one of the same resource, plus 1; 0: none */
} resource_write;

typedef struct constant {
    const void *data; /* in the graph's arena */
    size_t bytes;
    size_t offset;
} constant;

typedef struct loop_span {
    uint32_t stream;
    int32_t first; /* LOOP, WHILE */
    int32_t last;  /* NEXT */
} loop_span;

/* A collective that is posted, and not waited for yet. */
typedef struct posted {
    size_t instruction; /* the POST */
    int32_t needed;     /* the time at which one of its results is used first */
} posted;

typedef struct slab_buffer {
    ipu_buffer life;
    uint32_t stream; /* whose slab it lies in */
    uint32_t depth;  /* of a ring: the number of its slots; else 0 */
    bool stays;      /* it is nothing else's, from the stream's beginning to its end */
    bool is_remote;  /* it lies in remote memory: only copies lead there and back */
    uint32_t reserved; /* for the one root that may take it over; IPU_NO_INDEX: any */
    uint32_t output;   /* of the program, in which its bytes lie, not in the slab; or
                        * IPU_NO_INDEX */
} slab_buffer;

typedef struct lowering {
    ipu_ctx *ctx;
    ipu_arena arena; /* of what is not needed once the program is made */
    const ipu_graph *graph;
    const ipu_compile_options *options;
    ipu_program *program;
    ipu_stream *stream; /* the one that instructions go to */
    uint32_t number;    /* its number */
    value_info *values;
    int32_t *begin;     /* per node: its time */
    int32_t *end;       /* per node: the time of its last block's end; else as begin */
    int32_t *block_end; /* per block: the time at which its results are used */
    uint32_t *resource_map;
    ipu_failures failures;
    int32_t clock;
    IPU_ARRAY(resource_write) writes;
    uint32_t *last_write; /* per resource: in writes, plus 1; 0: none */
    IPU_ARRAY(constant) constants;
    ipu_id_map constants_by_hash; /* the last one of each hash */
    IPU_ARRAY(slab_buffer) buffers;
    IPU_ARRAY(loop_span) loops; /* inner before outer */
    IPU_ARRAY(ipu_node) bucket; /* collectives that are posted at once, next */
    size_t bucket_bytes;
    int32_t bucket_needed;    /* as in `posted` */
    IPU_ARRAY(posted) posted; /* in the blocks that are open */
    int64_t panel_columns; /* of a panel, where there are any */
    bool *in_panels;       /* per value, then per resource of the graph */
    uint32_t loop_depth;
    ipu_node counted; /* whose inputs are counted, by their root */
    ipu_id_map input_counts;
    ipu_source last_source; /* of the graph */
    const char *last_file;  /* its copy in the program */
} lowering;

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

static inline ipu_status
ipu__lower_array(lowering *l, size_t count, size_t item_bytes, void *out)
{
    return ipu_arena_array(l->ctx, &l->arena, count, item_bytes, out);
}

/* Times, roots and last uses of all nodes and values. */
ipu_status ipu__lower_find_uses(lowering *l);
/* Whether the graph's `resource` is written after `time`, while the root is needed. */
bool ipu__lower_written_before_last_use(const lowering *l, uint32_t resource,
                                        const value_info *root, int32_t time);

/* --- lower.c --------------------------------------------------------------------- */

static inline ipu_place
slab_place(int32_t buffer)
{
    return (ipu_place){.space = IPU_SPACE_SLAB, .index = (uint32_t)buffer};
}
/* A slab buffer for a root: the wanted one, or a new one. */
ipu_status ipu__lower_place(lowering *l, ipu_value value);
/* Whether `root`, used for the last time at `time`, leaves its buffer to `heir`. */
bool ipu__lower_can_inherit(const lowering *l, const value_info *root, int32_t time,
                            uint32_t heir);
/* Whether the kernel's first output may overwrite the first input's bytes. */
bool ipu__lower_fits_in_place(lowering *l, const ipu_node_data *node, uint32_t input);
ipu_status ipu__lower_new_places(lowering *l, size_t count, ipu_place **out);
/* Appends the instruction, with the node's source and name (node may be NULL). */
ipu_status ipu__lower_emit(lowering *l, const ipu_node_data *node,
                           ipu_instruction *instruction);
/* A COPY, where there is something to copy. */
ipu_status ipu__lower_copy(lowering *l, const ipu_node_data *node, ipu_place from,
                           ipu_place to, size_t bytes);
ipu_status ipu__lower_block(lowering *l, ipu_block id);

/* From here on instructions go to stream `number`. */
static inline void
ipu__lower_enter_stream(lowering *l, uint32_t number)
{
    l->number = number;
    l->stream = &l->program->streams.items[number];
}
ipu_status ipu__lower_node(lowering *l, ipu_node id);
/* Makes a fill, which is filled late, where it is wanted. */
ipu_status ipu__lower_fill(lowering *l, ipu_node id);

/* The node's first output: in the buffer of an input that it may overwrite, or a new
 * one. */
ipu_status ipu__lower_place_first(lowering *l, ipu_node id, const ipu_node_data *node);
/* A kernel with these operands: the program has it, and *cost grows by its cost. */
ipu_status ipu__lower_add_spec(lowering *l, ipu_node id, ipu_kernel_spec spec,
                               ipu_cost *cost);

/* --- lower_collective.c ---------------------------------------------------------- */

/* Posts and waits for what has to be by then; then the node, if it is a collective. */
ipu_status ipu__lower_collective(lowering *l, ipu_node id, const ipu_node_data *node,
                                 bool *is_collective);
/* Waits for what was posted, but for the first `but` of it. */
ipu_status ipu__lower_wait(lowering *l, size_t but);

/* --- lower_control.c ------------------------------------------------------------- */

/* The initial value of what a loop carries, into the carried buffer. */
ipu_status ipu__lower_initial(lowering *l, const ipu_node_data *loop, ipu_value initial,
                              int32_t buffer);
/* Where value i that a loop carries lies, for the loop's parameters. */
void ipu__lower_place_params(lowering *l, const ipu_node_data *node, uint32_t i);
/* Has the nodes that make the next values write them straight into the carried buffers:
 * those for which which[i] is set; NULL: all. */
ipu_status ipu__lower_want_next_values(lowering *l, ipu_block body, const bool *which);
/* Has the node that makes `result` write into `buffer`. */
void ipu__lower_want(lowering *l, value_info *result, int32_t buffer);
/* The results of a block to where the node's outputs lie: those for which which[i] is
 * set; NULL: all. */
ipu_status ipu__lower_move_results(lowering *l, const ipu_node_data *node, ipu_block id,
                                   const bool *which);
/* Behind the node the buffers of its outputs are free for any heir, unless a loop
 * around it wants an output to stay in one. */
void ipu__lower_release_outputs(lowering *l, const ipu_node_data *node);

ipu_status ipu__lower_loop(lowering *l, ipu_node id, const ipu_node_data *node);
ipu_status ipu__lower_switch(lowering *l, ipu_node id, const ipu_node_data *node);

/* --- lower_pipeline.c ------------------------------------------------------------ */

ipu_status ipu__lower_pipeline(lowering *l, ipu_node id, const ipu_node_data *node);

/* --- panels.c --------------------------------------------------------------------- */

/* Which variables and values lie in panels. */
ipu_status ipu__lower_find_panels(lowering *l);
/* Which operands of a product do. */
ipu_kernel_panels ipu__lower_panels_of(const lowering *l, const ipu_node_data *node);

/* --- regions.c -------------------------------------------------------------------- */

/* Groups kernels into regions, and puts them in the order of these. */
ipu_status ipu__lower_find_regions(lowering *l);

/* --- slab.c ---------------------------------------------------------------------- */

/* A slab buffer of its own; *out is its number. */
ipu_status ipu__lower_new_buffer(lowering *l, size_t bytes, int32_t *out);
/* A buffer that nothing else shares its bytes with, of `depth` slots. */
ipu_status ipu__lower_new_ring(lowering *l, size_t bytes, uint32_t depth, int32_t *out);
/* Lifetimes from the finished instructions, offsets into their places. */
ipu_status ipu__lower_plan_slabs(lowering *l);

#endif
