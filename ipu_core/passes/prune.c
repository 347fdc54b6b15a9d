/* SPDX-License-Identifier: MIT
 *
 * Takes out the nodes that no effect and no result needs, and what loops carry and
 * branches give in vain. In: any graph. Out: what is left, in the same order.
 *
 * First a walk from the last node to the first finds what is needed: a node is, if it
 * writes a resource, holds a block that does, or makes a value that is needed; then its
 * inputs are needed, and all that its blocks need. A carried value is needed where the
 * loop's output is, or where the body or the condition needs the parameter for
 * something else than its own next value; as that may need other carried values, a loop
 * is walked until nothing is new. Then the rest is taken out. One thread per graph. */
#include "passes/passes.h"
#include "passes/rewrite.h"

typedef struct pruner {
    ipu_ctx *ctx;
    ipu_graph *graph;
    bool *needed; /* by value, of those that were there at the beginning */
    size_t value_count;
    ipu_value *renamed; /* the same; IPU_NO_VALUE: keeps its id */
} pruner;

static bool
has_effect(const ipu_graph *graph, const ipu_node_data *node)
{
    if ((ipu__flags(node) & IPU_OP_WRITES) != 0) {
        return true;
    }
    for (uint32_t b = 0; b < ipu_node_block_count(node); b++) {
        const ipu_block_data *held = ipu_block_of(graph, ipu_node_block(node, b));
        for (size_t i = 0; i < held->nodes.count; i++) {
            if (has_effect(graph, ipu_node_of(graph, held->nodes.items[i]))) {
                return true;
            }
        }
    }
    return false;
}

static bool
is_needed(const pruner *p, const ipu_node_data *node)
{
    bool needed = has_effect(p->graph, node);
    for (uint32_t i = 0; i < node->output_count; i++) {
        needed |= p->needed[node->first_output + i];
    }
    return needed;
}

/* --- finding --------------------------------------------------------------------- */

static void find_in_block(pruner *p, ipu_block id);

/* Whether the loop has to carry value i, as far as is known. */
static bool
is_carried(const pruner *p, const ipu_node_data *node, uint32_t i)
{
    bool carried = p->needed[node->first_output + i];
    for (uint32_t b = 0; b < ipu_node_block_count(node); b++) {
        const ipu_block_data *held = ipu_block_of(p->graph, ipu_node_block(node, b));
        carried |= p->needed[held->params.items[i].index];
    }
    return carried;
}

static void
find_in_loop(pruner *p, const ipu_node_data *node)
{
    uint32_t blocks = ipu_node_block_count(node);
    const ipu_block_data *body =
        ipu_block_of(p->graph, ipu_node_block(node, blocks - 1));
    uint32_t first = node->input_count - node->output_count;
    uint32_t known = IPU_NO_INDEX;
    if (blocks == 2) {
        const ipu_block_data *condition =
            ipu_block_of(p->graph, ipu_node_block(node, 0));
        p->needed[condition->results.items[0].index] = true;
    }
    for (;;) {
        uint32_t carried = 0;
        for (uint32_t i = 0; i < node->output_count; i++) {
            if (is_carried(p, node, i)) {
                carried++;
                p->needed[body->results.items[i].index] = true;
                p->needed[node->inputs[first + i].index] = true;
            }
        }
        if (carried == known) {
            break;
        }
        known = carried;
        for (uint32_t b = 0; b < blocks; b++) {
            find_in_block(p, ipu_node_block(node, b));
        }
    }
    if (node->op == IPU_OP_ID_REPEAT) {
        p->needed[node->inputs[0].index] = true;
    }
}

static void
find_in_switch(pruner *p, const ipu_node_data *node)
{
    p->needed[node->inputs[0].index] = true;
    for (uint32_t b = 0; b < ipu_node_block_count(node); b++) {
        const ipu_block_data *branch = ipu_block_of(p->graph, ipu_node_block(node, b));
        for (uint32_t i = 0; i < node->output_count; i++) {
            p->needed[branch->results.items[i].index] |=
                p->needed[node->first_output + i];
        }
        find_in_block(p, ipu_node_block(node, b));
    }
}

static void
find_in_block(pruner *p, ipu_block id)
{
    const ipu_block_data *block = ipu_block_of(p->graph, id);
    for (size_t i = block->nodes.count; i-- > 0;) {
        const ipu_node_data *node = ipu_node_of(p->graph, block->nodes.items[i]);
        if (!is_needed(p, node)) {
            continue;
        }
        if (node->op == IPU_OP_ID_SWITCH) {
            find_in_switch(p, node);
        } else if ((ipu__flags(node) & IPU_OP_BLOCK) != 0) {
            find_in_loop(p, node);
        } else {
            for (uint32_t k = 0; k < node->input_count; k++) {
                p->needed[node->inputs[k].index] = true;
            }
        }
    }
}

/* --- taking out ------------------------------------------------------------------ */

/* Drops the outputs of a BLOCK node that are not needed, and notes the new ids of the
 * others. */
static ipu_status
shrink(pruner *p, ipu_node id)
{
    const ipu_node_data before = *ipu_node_of(p->graph, id);
    bool *keep;
    uint32_t kept = 0;
    IPU_TRY(ipu_alloc(p->ctx, before.output_count, &keep));
    for (uint32_t i = 0; i < before.output_count; i++) {
        keep[i] = before.op == IPU_OP_ID_SWITCH ? p->needed[before.first_output + i]
                                                : is_carried(p, &before, i);
        kept += keep[i];
    }
    ipu_status status = IPU_OK;
    if (kept < before.output_count) {
        status = ipu_graph_shrink_node(p->ctx, p->graph, id, keep);
    }
    if (status == IPU_OK && kept < before.output_count) {
        uint32_t next = ipu_node_of(p->graph, id)->first_output;
        for (uint32_t i = 0; i < before.output_count; i++) {
            if (keep[i]) {
                p->renamed[before.first_output + i] = (ipu_value){next++};
            }
        }
    }
    ipu_free(p->ctx, keep, before.output_count);
    return status;
}

/* Of a block whose uses are known. */
static ipu_status
sweep_block(pruner *p, ipu_block id)
{
    size_t kept = 0;
    for (size_t i = 0; i < ipu_block_of(p->graph, id)->nodes.count; i++) {
        ipu_node node_id = ipu_block_of(p->graph, id)->nodes.items[i];
        const ipu_node_data *node = ipu_node_of(p->graph, node_id);
        if (!is_needed(p, node)) {
            continue;
        }
        ipu_block_of(p->graph, id)->nodes.items[kept++] = node_id;
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            IPU_TRY(sweep_block(p, ipu_node_block(node, k)));
            node = ipu_node_of(p->graph, node_id);
        }
        if ((ipu__flags(node) & IPU_OP_BLOCK) != 0) {
            IPU_TRY(shrink(p, node_id));
        }
    }
    ipu_block_of(p->graph, id)->nodes.count = kept;
    return IPU_OK;
}

static void
rename_value(const pruner *p, ipu_value *value)
{
    if (value->index < p->value_count &&
        p->renamed[value->index].index != IPU_NO_INDEX) {
        *value = p->renamed[value->index];
    }
}

static void
rename_in_block(const pruner *p, ipu_block id)
{
    ipu_block_data *block = ipu_block_of(p->graph, id);
    for (size_t i = 0; i < block->nodes.count; i++) {
        const ipu_node_data *node = ipu_node_of(p->graph, block->nodes.items[i]);
        for (uint32_t k = 0; k < node->input_count; k++) {
            rename_value(p, &node->inputs[k]);
        }
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            rename_in_block(p, ipu_node_block(node, k));
        }
    }
    for (size_t i = 0; i < block->results.count; i++) {
        rename_value(p, &block->results.items[i]);
    }
}

static ipu_status
prune(pruner *p)
{
    const ipu_block_data *main_block = ipu_block_of(p->graph, (ipu_block){0});
    for (size_t i = 0; i < main_block->results.count; i++) {
        p->needed[main_block->results.items[i].index] = true;
    }
    for (size_t i = 0; i < p->value_count; i++) {
        p->renamed[i] = IPU_NO_VALUE;
    }
    find_in_block(p, (ipu_block){0});
    IPU_TRY(sweep_block(p, (ipu_block){0}));
    if (p->graph->values.count > p->value_count) {
        rename_in_block(p, (ipu_block){0});
    }
    return IPU_OK;
}

ipu_status
ipu_pass_prune(ipu_ctx *ctx, ipu_graph *graph)
{
    pruner p = {.ctx = ctx, .graph = graph, .value_count = graph->values.count};
    size_t value_bytes = p.value_count * sizeof(ipu_value);
    IPU_TRY(ipu_alloc(ctx, p.value_count * sizeof(bool), &p.needed));
    ipu_status status = ipu_alloc(ctx, value_bytes, &p.renamed);
    if (status == IPU_OK) {
        status = prune(&p);
        ipu_free(ctx, p.renamed, value_bytes);
    }
    ipu_free(ctx, p.needed, p.value_count * sizeof(bool));
    return status;
}
