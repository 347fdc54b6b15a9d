/* SPDX-License-Identifier: MIT
 *
 * Lists of users lie one after the other: one walk counts, a second one fills them.
 * One thread per graph. */
#include "graph/users.h"

ipu_status
ipu_node_each_use(const ipu_graph *graph, ipu_node id, ipu_use_fn *fn, void *state)
{
    for (uint32_t i = 0; i < ipu_node_of(graph, id)->input_count; i++) {
        IPU_TRY(fn(state, &ipu_node_of(graph, id)->inputs[i], id));
    }
    for (uint32_t k = 0; k < ipu_node_block_count(ipu_node_of(graph, id)); k++) {
        IPU_TRY(ipu_block_each_use(graph, ipu_node_block(ipu_node_of(graph, id), k), fn,
                                   state));
    }
    return IPU_OK;
}

ipu_status
ipu_block_each_use(const ipu_graph *graph, ipu_block id, ipu_use_fn *fn, void *state)
{
    IPU_EACH_NODE(n, graph, id) {
        IPU_TRY(ipu_node_each_use(graph, n, fn, state));
    }
    for (size_t i = 0; i < ipu_block_of(graph, id)->results.count; i++) {
        IPU_TRY(fn(state, &ipu_block_of(graph, id)->results.items[i], IPU_NO_NODE));
    }
    return IPU_OK;
}

static ipu_status
count_use(void *state, ipu_value *place, ipu_node user)
{
    ipu_uses *uses = state;
    (void)user;
    uses->counts.items[place->index]++;
    return IPU_OK;
}

static ipu_status
note_use(void *state, ipu_value *place, ipu_node user)
{
    ipu_uses *uses = state;
    uint32_t at = uses->firsts.items[place->index];
    uses->users.items[at + uses->counts.items[place->index]++] = user;
    return IPU_OK;
}

static ipu_status
find(ipu_ctx *ctx, const ipu_graph *graph, ipu_uses *uses)
{
    const ipu_block main_block = {0};
    size_t values = graph->values.count;
    size_t total = 0;
    IPU_TRY(IPU_ARRAY_EXTEND(ctx, &uses->counts, values, NULL));
    IPU_TRY(IPU_ARRAY_RESERVE(ctx, &uses->firsts, values));
    IPU_TRY(ipu_block_each_use(graph, main_block, count_use, uses));
    for (size_t i = 0; i < values; i++) {
        uses->firsts.items[uses->firsts.count++] = (uint32_t)total;
        total += uses->counts.items[i];
        uses->counts.items[i] = 0;
    }
    IPU_FAIL_IF(ctx, total >= UINT32_MAX, OUT_OF_MEMORY,
                "out of memory: a graph of more than 2^32 uses");
    IPU_TRY(IPU_ARRAY_RESERVE(ctx, &uses->users, total));
    uses->users.count = total;
    return ipu_block_each_use(graph, main_block, note_use, uses);
}

ipu_status
ipu_uses_find(ipu_ctx *ctx, const ipu_graph *graph, ipu_uses *out)
{
    ipu_uses_free(ctx, out);
    ipu_status status = find(ctx, graph, out);
    if (status != IPU_OK) {
        ipu_uses_free(ctx, out);
    }
    return status;
}

void
ipu_uses_free(ipu_ctx *ctx, ipu_uses *uses)
{
    IPU_ARRAY_FREE(ctx, &uses->firsts);
    IPU_ARRAY_FREE(ctx, &uses->counts);
    IPU_ARRAY_FREE(ctx, &uses->users);
}

ipu_status
ipu_uses_hand_on(ipu_ctx *ctx, ipu_uses *uses, ipu_value from, ipu_value to)
{
    IPU_TRY(IPU_ARRAY_EXTEND(ctx, &uses->firsts, (size_t)to.index + 1, NULL));
    IPU_TRY(IPU_ARRAY_EXTEND(ctx, &uses->counts, (size_t)to.index + 1, NULL));
    uses->firsts.items[to.index] = uses->firsts.items[from.index];
    uses->counts.items[to.index] = uses->counts.items[from.index];
    return IPU_OK;
}
