/* SPDX-License-Identifier: MIT
 *
 * The number of turns of loops, without running them. */
#ifndef IPU_GRAPH_TRIPS_H
#define IPU_GRAPH_TRIPS_H

#include "graph/graph.h"

/* The most turns that a loop can take, as far as it can be seen from constants and
 * attributes; -1: it cannot. */
int64_t ipu_loop_most_turns(const ipu_graph *graph, ipu_node loop);
/* What the body of a loop adds to carried value i in each turn, if that is an int32
 * scalar; 0: nothing that is known. */
int64_t ipu_loop_step(const ipu_graph *graph, ipu_block body, uint32_t i);
/* Whether an int32 scalar is known to be `number`. */
bool ipu_value_is_known_int(const ipu_graph *graph, ipu_value value, int64_t number);
/* An int32 scalar as scale * root + offset, as far as it can be followed through sums
 * and products with known numbers. */
typedef struct ipu_linear {
    ipu_value root;
    int64_t scale;
    int64_t offset;
} ipu_linear;
ipu_linear ipu_value_as_linear(const ipu_graph *graph, ipu_value value);

#endif
