/* SPDX-License-Identifier: MIT
 *
 * What the gradients of loops and branches share. Nothing outside autodiff/ includes
 * it. */
#ifndef IPU_AUTODIFF_CONTROL_H
#define IPU_AUTODIFF_CONTROL_H

#include "autodiff/walk.h"

typedef IPU_ARRAY(ipu_value) ipu__values;

/* One node that holds blocks, on the way back. */
typedef struct ipu__control {
    ipu__walk *w;
    ipu_node node;       /* the forward node */
    ipu_block outside;   /* where the gradient's node goes */
    ipu__values targets; /* values from outside whose gradient is summed up here */
    ipu__values before;  /* their gradients before; IPU_NO_VALUE: none */
    ipu_value turn;      /* of a loop: parameter of the gradient's body, counts down */
    ipu__values anew;    /* what the gradient has made again, and from what */
    ipu__values sources;
} ipu__control;

/* Moves reads of variables out, then finds the targets. */
ipu_status ipu__control_prepare(ipu__control *c);
void ipu__control_free(ipu__control *c);
/* The values of forward block `home` that gradient block `id` uses, and what must be
 * kept for them. */
ipu_status ipu__control_find_uses(ipu__control *c, ipu_block id, ipu_block home,
                                  ipu__values *used, ipu__values *kept);
/* Gives w->block all that it uses of `home`, in front of its nodes: from the kept
 * values, which are at hand as `at_hand`. The nodes from number `first_new` on, which
 * made them so, move to the front too. */
ipu_status ipu__control_supply(ipu__control *c, ipu_block home, size_t first_new,
                               const ipu__values *used, const ipu__values *kept,
                               const ipu__values *at_hand);

ipu_status ipu__control_loop(ipu__walk *w, ipu_node node);   /* control_loop.c */
ipu_status ipu__control_switch(ipu__walk *w, ipu_node node); /* control_switch.c */

#endif
