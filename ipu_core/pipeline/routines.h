/* SPDX-License-Identifier: MIT
 *
 * A `pipeline` node of a graph: its schedule, and the routine that each node of its body
 * belongs to. A routine is what one stage does in one direction. Routines are numbered
 * in the order in which a micro-batch goes through them: forward stages, then backward
 * ones from the last on, each with its input part before its weight part. A backward
 * stage that is not split is the first of these two where nothing of it is in the other.
 */
#ifndef IPU_PIPELINE_ROUTINES_H
#define IPU_PIPELINE_ROUTINES_H

#include "graph/graph.h"
#include "pipeline/schedule.h"

enum { IPU_NO_ROUTINE = -1 };

static inline uint32_t
ipu_routine_count(uint32_t stage_count)
{
    return 3 * stage_count;
}
static inline uint32_t
ipu_forward_routine(uint32_t stage)
{
    return stage;
}
static inline uint32_t
ipu_backward_routine(uint32_t stage_count, uint32_t stage, bool is_weight_part)
{
    return stage_count + 2 * (stage_count - 1 - stage) + is_weight_part;
}
uint32_t ipu_routine_number(uint32_t stage_count, ipu_routine what);

/* For the attributes of the node, and as many micro-batches as its loop has turns. Fails
 * with FAILED_PRECONDITION where those are not known, and as ipu_schedule_create does.
 * Free with ipu_schedule_free. */
ipu_status ipu_pipeline_schedule(ipu_ctx *ctx, const ipu_graph *graph,
                                 ipu_node pipeline, ipu_schedule **out);

/* For each node of the body its number in routine_of[node.index]; nodes elsewhere, and
 * constants, which belong nowhere, keep what is there. `is_split`: backward stages are
 * in two parts. INVALID_ARGUMENT for a backward phase where nothing is trained. */
ipu_status ipu_routines_find(ipu_ctx *ctx, const ipu_graph *graph, ipu_node pipeline,
                             bool is_split, int32_t *routine_of);

#endif
