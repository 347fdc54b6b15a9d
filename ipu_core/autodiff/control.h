/* SPDX-License-Identifier: MIT
 *
 * The common part of the gradients of loops and branches. Nothing outside autodiff/
 * includes it. */
#ifndef IPU_AUTODIFF_CONTROL_H
#define IPU_AUTODIFF_CONTROL_H

#include "autodiff/rule_terms.h"
#include "autodiff/walk.h"

typedef IPU_ARRAY(ipu_value) ipu__values;

/* A rule that builds nodes in a block like `node`. */
static inline ipu_rule
ipu__control_builder(ipu__walk *w, ipu_block block, ipu_node node)
{
    return (ipu_rule){.ctx = w->ctx, .graph = w->graph, .block = block, .node = node};
}

/* --- deriving: on the walk ------------------------------------------------------- */

/* One node that holds blocks, while its gradient is derived. */
typedef struct ipu__control {
    ipu__walk *w;
    ipu_node node;       /* the forward node */
    ipu_block outside;   /* where the gradient's node goes */
    ipu__values targets; /* values from outside whose gradient is summed up here */
    ipu__values before;  /* their gradients before; IPU_NO_VALUE: none */
} ipu__control;

/* Before the walk: moves reads of variables out of the nodes that it will meet. */
ipu_status ipu__control_prepare(ipu__walk *w);
/* Opens a block that goes back through `forward`; gradient nodes go there now. */
ipu_status ipu__control_open(ipu__control *c, ipu_block forward, ipu_block *out);
/* Finds the targets. */
ipu_status ipu__control_find_targets(ipu__control *c);
/* Notes that `back` goes back through the forward node. */
ipu_status ipu__control_pair(ipu__control *c, ipu_node back);
void ipu__control_free(ipu__control *c);

ipu_status ipu__control_loop(ipu__walk *w, ipu_node node);   /* control_loop.c */
ipu_status ipu__control_switch(ipu__walk *w, ipu_node node); /* control_switch.c */

/* --- connecting: after the walk -------------------------------------------------- */

/* Takes from a block what connecting it has added after node `last`, and all but the
 * first `results` of its results. */
void ipu__control_cut(const ipu__walk *w, ipu_block id, ipu_node last, size_t results);
/* Connects all pairs, the inner ones first: what an inner one keeps is a value that the
 * one around it may have to keep. */
ipu_status ipu__control_connect(ipu__walk *w);
ipu_status ipu__connect_loop(ipu__walk *w, ipu__pair pair);   /* control_loop.c */
ipu_status ipu__connect_switch(ipu__walk *w, ipu__pair pair); /* control_switch.c */

/* What block `back` uses of `forward`, which it goes back through. Making it changes
 * nothing. */
typedef struct ipu__plan {
    ipu__walk *w;
    ipu_node node; /* the forward node */
    ipu_block forward;
    ipu_block back;
    ipu_value turn;     /* of a loop: the parameter of `back` that counts down */
    ipu__values kept;   /* what has to be kept so that all of them can be made */
    ipu_id_map is_kept; /* by value */
} ipu__plan;

ipu_status ipu__plan_uses(ipu__plan *plan);
/* Gives `back` what it uses, in front of its nodes: at_hand[i], a value that it sees,
 * holds kept value i; the rest is made anew. */
ipu_status ipu__plan_supply(ipu__plan *plan, const ipu__values *at_hand);
void ipu__plan_free(ipu__plan *plan);

#endif
