/* SPDX-License-Identifier: MIT
 *
 * Collectives become two instructions. The POST stands where the collective does; sums
 * that follow each other are posted at once, as a bucket (graph/bucket.h). The WAIT
 * stands in front of the first user of a result, or at the end of the block. Until then
 * the operands and the results are used by nothing else (uses.c, slab.c). */
#include "graph/bucket.h"
#include "program/lower_impl.h"

#include <string.h>

/* Posts the collectives of the bucket. */
static ipu_status
post(lowering *l)
{
    uint32_t count = (uint32_t)l->bucket.count;
    ipu_type *types;
    ipu_place *places;
    IPU_TRY(ipu_arena_array(l->ctx, &l->program->arena, 2 * (size_t)count,
                            sizeof(ipu_type), &types));
    IPU_TRY(ipu__lower_new_places(l, 2 * (size_t)count, &places));
    posted added = {l->stream->instructions.count, l->bucket_needed};
    ipu_instruction instruction = {.kind = IPU_INSTRUCTION_POST,
                                   .input_count = count,
                                   .output_count = count,
                                   .inputs = places,
                                   .outputs = places + count,
                                   .spec = (uint32_t)l->program->specs.count,
                                   .spec_count = count,
                                   .meeting = l->program->meeting_count++};
    for (uint32_t i = 0; i < count; i++) {
        const ipu_node_data *node = ipu_node_of(l->graph, l->bucket.items[i]);
        ipu_value output = ipu_node_output(node, 0);
        ipu_type *own = &types[2 * i];
        places[i] = root_of(l, node->inputs[0])->place;
        places[count + i] = l->values[output.index].place;
        own[0] = ipu_value_of(l->graph, node->inputs[0])->type;
        own[1] = ipu_value_of(l->graph, output)->type;
        IPU_TRY(ipu__lower_add_spec(l, l->bucket.items[i],
                                    (ipu_kernel_spec){.input_count = 1,
                                                      .output_count = 1,
                                                      .inputs = &own[0],
                                                      .outputs = &own[1]},
                                    &instruction.cost));
    }
    ipu_node first = l->bucket.items[0];
    l->bucket.count = 0;
    IPU_TRY(ipu__lower_emit(l, ipu_node_of(l->graph, first), &instruction));
    return IPU_ARRAY_PUSH(l->ctx, &l->posted, added);
}

static bool
joins_bucket(const lowering *l, ipu_node id, const ipu_node_data *node)
{
    const ipu_node_data *first = ipu_node_of(l->graph, l->bucket.items[0]);
    return ipu_bucket_joins(first, node) && l->begin[id.index] < l->bucket_needed &&
           ipu_bucket_has_room(l->graph, l->bucket_bytes, bytes_of(l, node->inputs[0]));
}

/* Joins the bucket, which has room for it or is empty. */
static ipu_status
join(lowering *l, ipu_node id, const ipu_node_data *node)
{
    const value_info *result = &l->values[ipu_node_output(node, 0).index];
    IPU_TRY(ipu__lower_place_first(l, id, node));
    if (l->bucket.count == 0) {
        l->bucket_bytes = 0;
        l->bucket_needed = INT32_MAX;
    }
    l->bucket_bytes += bytes_of(l, node->inputs[0]);
    if (result->first_use < l->bucket_needed) {
        l->bucket_needed = result->first_use;
    }
    return IPU_ARRAY_PUSH(l->ctx, &l->bucket, id);
}

static ipu_status
wait_for(lowering *l, const posted *one)
{
    ipu_instruction wait = l->stream->instructions.items[one->instruction];
    size_t count = wait.input_count;
    ipu_place *places; /* of its own: slab.c gives each an offset */
    IPU_TRY(ipu__lower_new_places(l, 2 * count, &places));
    memcpy(places, wait.inputs, count * sizeof(*places));
    memcpy(places + count, wait.outputs, count * sizeof(*places));
    wait.kind = IPU_INSTRUCTION_WAIT;
    wait.inputs = places;
    wait.outputs = places + count;
    wait.cost = (ipu_cost){0};
    return IPU_ARRAY_PUSH(l->ctx, &l->stream->instructions, wait);
}

/* Waits for those of `posted` from `but` on that are needed at `time`. */
static ipu_status
wait_at(lowering *l, size_t but, int32_t time)
{
    size_t kept = but;
    for (size_t i = but; i < l->posted.count; i++) {
        posted one = l->posted.items[i];
        if (one.needed <= time) {
            IPU_TRY(wait_for(l, &one));
        } else {
            l->posted.items[kept++] = one;
        }
    }
    l->posted.count = kept;
    return IPU_OK;
}

ipu_status
ipu__lower_wait(lowering *l, size_t but)
{
    if (l->bucket.count > 0) {
        IPU_TRY(post(l));
    }
    return wait_at(l, but, INT32_MAX);
}

ipu_status
ipu__lower_collective(lowering *l, ipu_node id, const ipu_node_data *node,
                      bool *is_collective)
{
    *is_collective = (ipu_node_flags(node) & IPU_OP_COLLECTIVE) != 0;
    if (l->bucket.count > 0 && !joins_bucket(l, id, node)) {
        IPU_TRY(post(l));
    }
    IPU_TRY(wait_at(l, 0, l->begin[id.index]));
    return *is_collective ? join(l, id, node) : IPU_OK;
}
