/* SPDX-License-Identifier: MIT
 *
 * What the files that make updates one pass share: fuse_updates.c says which nodes go
 * together, update_pieces.c which of these wait together, update_parts.c makes the code
 * of it. */
#ifndef IPU_PASSES_UPDATES_IMPL_H
#define IPU_PASSES_UPDATES_IMPL_H

#include "base/update_code.h"
#include "graph/effects.h"
#include "graph/failures.h"
#include "graph/users.h"

typedef struct update {
    ipu_node node;
    uint32_t group;
    uint32_t part;         /* an update of its part: itself, or one that leads there */
    ipu_node first_member; /* of the part that it stands for, in program order */
} update;

typedef struct group {
    uint32_t first; /* of its updates */
    uint32_t count;
    ipu_node before; /* members may stand after this node */
    ipu_node last;   /* of its updates, in program order */
    ipu_placement placement;
    bool has_large;
    bool is_closed;
    bool is_fused;
    uint32_t first_piece; /* of what was one group: often itself */
    uint32_t next_piece;  /* IPU_NO_INDEX: there is none */
    size_t first_source; /* of what its code reads */
    size_t source_count;
    size_t first_word; /* of its code */
    size_t word_count;
} group;

typedef struct node_note {
    uint32_t update; /* which it is, or in whose part it is; IPU_NO_INDEX: none */
    bool is_member;
    uint32_t version; /* of the variable that it names, in front of it */
    int64_t position;
    ipu_node next_member;
    int64_t result; /* of a member: in the code that is being made */
} node_note;

typedef struct value_note {
    uint32_t update_uses; /* by updates and their members, element by element */
    uint32_t update;      /* one of these */
    bool is_shared;       /* by updates of several groups */
    bool is_broadcast;    /* to the shape of one */
} value_note;

typedef struct variable_note {
    uint32_t version; /* changes with each write */
    uint32_t group;   /* the last one that writes it, plus 1 */
} variable_note;

/* An input of the fused node. */
typedef enum source_kind {
    SOURCE_VALUE,
    SOURCE_NUMBER, /* a constant */
    SOURCE_RATE    /* adam_rate */
} source_kind;

typedef struct source {
    source_kind kind;
    ipu_value value; /* RATE: the learning rate */
    ipu_value step;
    double number; /* RATE: beta_1 */
    double beta_2;
    ipu_dtype dtype;
} source;

typedef struct planner {
    ipu_ctx *ctx;
    ipu_graph *graph;
    IPU_ARRAY(update) updates;
    IPU_ARRAY(group) groups;
    IPU_ARRAY(node_note) nodes;
    IPU_ARRAY(value_note) values;
    IPU_ARRAY(variable_note) variables;
    ipu_uses uses;
    ipu_failures failures;
    IPU_ARRAY(source) sources;
    IPU_ARRAY(int64_t) words;
    ipu_node before; /* where the last group of the block that is walked ends */
    int64_t position;
    uint32_t version;
    uint32_t blocks_version; /* of all variables: blocks inside may write them */
} planner;

/* The update that stands for all of its part. */
uint32_t ipu__update_part_of(planner *p, uint32_t number);
/* The member that makes `value`, or IPU_NO_NODE. */
ipu_node ipu__update_member(const planner *p, ipu_value value);
/* The type of the i-th variable of an update. */
const ipu_type *ipu__update_type(const planner *p, const ipu_node_data *node,
                                 uint32_t i);
/* The gather_grad that makes `value`, where only updates of a group use it, and element
 * by element; or NULL. */
const ipu_node_data *ipu__update_rows(const planner *p, const group *g, ipu_value value);
/* Cuts a group whose parts are known into pieces. */
ipu_status ipu__update_cut(planner *p, uint32_t number);
/* The code of all parts of a group; a part that is too long loses its members. */
ipu_status ipu__update_write_code(planner *p, group *g);
/* The fused node, where the walk is. */
ipu_status ipu__update_make_node(planner *p, const group *g);

#endif
