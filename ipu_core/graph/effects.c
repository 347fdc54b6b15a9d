/* SPDX-License-Identifier: MIT
 *
 * One walk from the innermost blocks outwards; a block's list is the union of those of
 * the blocks inside and of what its own nodes name. One thread per graph. */
#include "graph/effects.h"

#include <stdlib.h>

uint32_t
ipu_node_resource_count(const ipu_node_data *node)
{
    uint32_t slots;
    ipu_attrs_ints(node->attrs, IPU_ATTR_SLOTS, &slots);
    return ipu_node_reads(node) || ipu_node_writes(node) ? 1 + slots : 0;
}

uint32_t
ipu_node_resource(const ipu_node_data *node, uint32_t i)
{
    uint32_t count;
    const int64_t *slots = ipu_attrs_ints(node->attrs, IPU_ATTR_SLOTS, &count);
    return (uint32_t)(i == 0 ? ipu_attrs_int(node->attrs, IPU_ATTR_RESOURCE, 0)
                             : slots[i - 1]);
}

typedef struct finder {
    ipu_ctx *ctx;
    const ipu_graph *graph;
    ipu_effects *effects;
    IPU_ARRAY(uint32_t) found; /* of the open blocks, the innermost after the others */
    bool *seen;                /* by resource: in the innermost block's part of found */
} finder;

static ipu_status
add(finder *f, uint32_t resource)
{
    if (f->seen[resource]) {
        return IPU_OK;
    }
    f->seen[resource] = true;
    return IPU_ARRAY_PUSH(f->ctx, &f->found, resource);
}

static int
by_number(const void *a, const void *b)
{
    return ipu_compare(*(const uint32_t *)a, *(const uint32_t *)b);
}

/* Moves the innermost block's part of `found`, from `first` on, into the result. */
static ipu_status
close_block(finder *f, ipu_block id, size_t first)
{
    ipu_effects *effects = f->effects;
    size_t count = f->found.count - first;
    if (count > 0) {
        qsort(f->found.items + first, count, sizeof(uint32_t), by_number);
    }
    effects->ends.items[2 * id.index] = (uint32_t)effects->resources.count;
    for (size_t i = first; i < f->found.count; i++) {
        f->seen[f->found.items[i]] = false;
        IPU_TRY(IPU_ARRAY_PUSH(f->ctx, &effects->resources, f->found.items[i]));
    }
    effects->ends.items[2 * id.index + 1] = (uint32_t)effects->resources.count;
    f->found.count = first;
    return IPU_OK;
}

static ipu_status
find_in_block(finder *f, ipu_block id)
{
    /* Writes of blocks inside come first, while nothing of this one is marked. */
    size_t first = f->found.count;
    IPU_EACH_NODE(n, f->graph, id) {
        const ipu_node_data *node = ipu_node_of(f->graph, n);
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            IPU_TRY(find_in_block(f, ipu_node_block(node, k)));
        }
    }
    IPU_EACH_NODE(n, f->graph, id) {
        const ipu_node_data *node = ipu_node_of(f->graph, n);
        for (uint32_t i = 0; ipu_node_writes(node) && i < ipu_node_resource_count(node);
             i++) {
            IPU_TRY(add(f, ipu_node_resource(node, i)));
        }
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            uint32_t count;
            const uint32_t *inner =
                ipu_effects_of(f->effects, ipu_node_block(node, k), &count);
            for (uint32_t i = 0; i < count; i++) {
                IPU_TRY(add(f, inner[i]));
            }
        }
    }
    return close_block(f, id, first);
}

ipu_status
ipu_effects_find(ipu_ctx *ctx, const ipu_graph *graph, ipu_effects *out)
{
    finder f = {.ctx = ctx, .graph = graph, .effects = out};
    *out = (ipu_effects){0};
    ipu_status status = ipu_alloc(ctx, graph->resources.count, &f.seen);
    for (size_t i = 0; status == IPU_OK && i < 2 * graph->blocks.count; i++) {
        status = IPU_ARRAY_PUSH(ctx, &out->ends, 0);
    }
    for (uint32_t b = 0; status == IPU_OK && b < graph->blocks.count; b++) {
        if (!ipu_is_node(ipu_block_of(graph, (ipu_block){b})->owner)) {
            status =
                find_in_block(&f, (ipu_block){b}); /* the main one, and open ones */
        }
    }
    ipu_free(ctx, f.seen, graph->resources.count);
    IPU_ARRAY_FREE(ctx, &f.found);
    if (status != IPU_OK) {
        ipu_effects_free(ctx, out);
    }
    return status;
}

void
ipu_effects_free(ipu_ctx *ctx, ipu_effects *effects)
{
    IPU_ARRAY_FREE(ctx, &effects->resources);
    IPU_ARRAY_FREE(ctx, &effects->ends);
}

const uint32_t *
ipu_effects_of(const ipu_effects *effects, ipu_block block, uint32_t *out_count)
{
    const uint32_t *ends = &effects->ends.items[2 * block.index];
    *out_count = ends[1] - ends[0];
    return effects->resources.items + ends[0];
}

bool
ipu_effects_node_has(const ipu_effects *effects, const ipu_node_data *node)
{
    uint32_t count = ipu_node_writes(node);
    for (uint32_t k = 0; count == 0 && k < ipu_node_block_count(node); k++) {
        ipu_effects_of(effects, ipu_node_block(node, k), &count);
    }
    return count > 0;
}
