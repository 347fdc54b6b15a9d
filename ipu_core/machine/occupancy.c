/* SPDX-License-Identifier: MIT
 *
 * What is live. Nodes are numbered in program order; what a node holds comes after it. A
 * value is live from the number of its maker to that of its last user; where that lies
 * in a loop or a branch which the value comes from outside of, to the last number
 * inside. Views live in what they show, and element-wise results in an operand that
 * dies there. A carried value has one buffer: the next
 * value, and the node's result, lie where the parameter does.
 *
 * In a pipeline a value that another routine of its IPU uses lies in a ring, a slot for
 * each micro-batch between the two, as long as the pipeline runs; another IPU keeps what
 * it received in the same way. */
#include <stdlib.h>

#include "graph/block_op.h"
#include "graph/effects.h"
#include "machine/account_impl.h"

/* A use at `number`, in `block`. */
static void
use(ipu__accounting *a, ipu_value value, ipu_block block, uint32_t number)
{
    const ipu_graph *graph = a->graph;
    value = ipu__machine_shown(graph, value);
    ipu_block home = ipu_value_of(graph, value)->block;
    while (block.index != home.index && block.index != IPU_NO_INDEX) {
        ipu_node owner = ipu_block_of(graph, block)->owner;
        if (!ipu_is_node(owner)) {
            break;
        }
        number = a->ends[owner.index];
        block = ipu_node_of(graph, owner)->block;
    }
    ipu__lifetime *life = &a->lives[value.index];
    life->last = number > life->last ? number : life->last;
}

static void
use_results(ipu__accounting *a, ipu_block block)
{
    const ipu_block_data *data = ipu_block_of(a->graph, block);
    uint32_t end = ipu_is_node(data->owner) ? a->ends[data->owner.index] : a->count;
    for (size_t i = 0; i < data->results.count; i++) {
        use(a, data->results.items[i], block, end);
    }
}

static void
find_uses(ipu__accounting *a)
{
    for (uint32_t number = 1; number <= a->count; number++) {
        const ipu_node_data *node = ipu_node_of(a->graph, a->nodes[number]);
        for (uint32_t i = 0; i < node->input_count; i++) {
            use(a, node->inputs[i], node->block, number);
        }
        for (uint32_t i = 0; i < ipu_node_block_count(node); i++) {
            use_results(a, ipu_node_block(node, i));
        }
    }
    use_results(a, (ipu_block){0});
}

/* A value that a loop makes for its next turn lies where the parameter does. */
static void
share_carried(ipu__accounting *a, bool *is_shared)
{
    for (uint32_t number = 1; number <= a->count; number++) {
        const ipu_node_data *node = ipu_node_of(a->graph, a->nodes[number]);
        if (!ipu_node_is_loop(node)) {
            continue;
        }
        const ipu_block_data *body = ipu_block_of(a->graph, ipu_node_body(node));
        for (size_t i = 0; i < body->results.count && i < body->params.count; i++) {
            ipu_value next = ipu__machine_shown(a->graph, body->results.items[i]);
            ipu_value param = body->params.items[i];
            if (ipu_value_of(a->graph, next)->block.index ==
                    ipu_node_body(node).index &&
                a->home[next.index] == a->home[param.index]) {
                is_shared[next.index] = next.index != param.index;
                a->lives[param.index].last = a->ends[a->nodes[number].index];
            }
        }
    }
}

/* An element-wise op writes its result over an operand that nobody uses after it. */
static void
overwrite(ipu__accounting *a)
{
    const ipu_graph *graph = a->graph;
    for (uint32_t number = 1; number <= a->count; number++) {
        const ipu_node_data *node = ipu_node_of(graph, a->nodes[number]);
        uint32_t flags = ipu_node_flags(node);
        uint32_t count = !(flags & IPU_OP_IN_PLACE)   ? 0
                         : flags & IPU_OP_ELEMENTWISE ? node->input_count
                                                      : 1;
        for (uint32_t i = 0; i < count; i++) {
            ipu_value value = ipu__machine_shown(graph, node->inputs[i]);
            ipu__lifetime *life = &a->lives[value.index];
            bool is_like = ipu_type_bytes(&ipu_value_of(graph, value)->type) ==
                           ipu_type_bytes(&ipu_value_of(graph, node->outputs[0])->type);
            if (is_like && life->last == number && life->first < number &&
                a->home[value.index] == a->home[node->outputs[0].index]) {
                life->last = number - 1;
                break;
            }
        }
    }
}

/* Variables, and constants that lie with the code, are there always. */
static double
bytes_of(const ipu__accounting *a, ipu_value value)
{
    const ipu_node_data *node = ipu_producer_of(a->graph, value);
    bool is_free =
        node != NULL &&
        ((ipu_node_flags(node) & IPU_OP_VIEW) || node->op == IPU_OP_ID_VARIABLE_READ ||
         node->op == IPU_OP_ID_HELD || node->op == IPU_OP_ID_CONSTANT);
    return is_free ? 0 : (double)ipu_type_bytes(&ipu_value_of(a->graph, value)->type);
}

static ipu_status
add(ipu__accounting *a, ipu_value value, int32_t ipu, uint32_t copies, uint32_t first,
    uint32_t last)
{
    ipu_account_tenant one = {
        .value = value,
        .mapping = a->mappings[value.index],
        .ipu = ipu,
        .copies = copies,
        .first = first,
        .last = last,
        .bytes = copies * (double)ipu_type_bytes(&ipu_value_of(a->graph, value)->type)};
    return IPU_ARRAY_PUSH(a->ctx, &a->out->tenants, one);
}

/* --- passages --------------------------------------------------------------------- */

static int
by_value(const void *left, const void *right)
{
    const ipu__passage *a = left;
    const ipu__passage *b = right;
    return a->value.index != b->value.index
               ? ipu_compare(a->value.index, b->value.index)
           : a->ipu != b->ipu ? ipu_compare(a->ipu, b->ipu)
                              : ipu_compare(a->to, b->to);
}

static const ipu__staged *
pipeline_of(const ipu__accounting *a, const ipu__passage *passage)
{
    ipu_block block = ipu_value_of(a->graph, passage->value)->block;
    for (size_t i = 0; i < a->staged.count; i++) {
        ipu_node node = a->staged.items[i].node;
        if (ipu_node_body(ipu_node_of(a->graph, node)).index == block.index) {
            return &a->staged.items[i];
        }
    }
    return NULL;
}

static ipu_routine
routine_at(const ipu__staged *staged, int32_t number)
{
    uint32_t stages = staged->stage_count;
    uint32_t stage = ipu__stage_of_routine(stages, number);
    bool is_split = ipu_schedule_has(staged->schedule, IPU_ACTION_BACKWARD_WEIGHT);
    ipu_action_kind kind = number < (int32_t)stages ? IPU_ACTION_FORWARD
                           : !is_split              ? IPU_ACTION_BACKWARD
                           : ((uint32_t)number - stages) % 2 == 0
                               ? IPU_ACTION_BACKWARD_INPUT
                               : IPU_ACTION_BACKWARD_WEIGHT;
    return (ipu_routine){kind, stage};
}

/* The passages of one value to one IPU. */
static ipu_status
keep(ipu__accounting *a, const ipu__passage *first, size_t count)
{
    const ipu__passage *last = &first[count - 1];
    const ipu__staged *staged =
        first->from == IPU_NO_ROUTINE ? NULL : pipeline_of(a, first);
    bool is_home = first->ipu == a->home[first->value.index];
    uint32_t end = first->last;
    for (size_t i = 1; i < count; i++) {
        end = first[i].last > end ? first[i].last : end;
    }
    if (staged == NULL) {
        return is_home ? IPU_OK
                       : add(a, first->value, first->ipu, 1, first->number, end);
    }
    int32_t writer = is_home ? first->from : first->to;
    uint32_t slots = 1;
    if (writer != last->to) {
        IPU_TRY(ipu_schedule_slots(a->ctx, staged->schedule, routine_at(staged, writer),
                                   routine_at(staged, last->to), &slots));
    }
    double bytes = bytes_of(a, first->value);
    if ((staged->offload & IPU_OFFLOAD_ACTIVATIONS) && writer != last->to) {
        a->out->memories.items[first->ipu].remote_bytes += slots * bytes;
        slots = 1;
    }
    if (is_home) { /* the ring holds the value itself */
        a->lives[first->value.index].last = 0;
    }
    return add(a, first->value, first->ipu, slots, a->starts[staged->node.index],
               a->ends[staged->node.index]);
}

static ipu_status
keep_passages(ipu__accounting *a)
{
    size_t count = a->passages.count;
    const ipu__passage *items = a->passages.items;
    if (count > 0) {
        qsort(a->passages.items, count, sizeof(*items), by_value);
    }
    for (size_t i = 0; i < count;) {
        size_t end = i + 1;
        while (end < count && items[end].value.index == items[i].value.index &&
               items[end].ipu == items[i].ipu) {
            end++;
        }
        if (bytes_of(a, items[i].value) > 0 ||
            items[i].ipu != a->home[items[i].value.index]) {
            IPU_TRY(keep(a, &items[i], end - i));
        }
        i = end;
    }
    return IPU_OK;
}

/* --- the peak --------------------------------------------------------------------- */

typedef struct change {
    int32_t ipu;
    double bytes;
} change;

/* Puts what comes, or goes, at each number into one list; those of a number end where
 * the next one's begin. */
static ipu_status
sort_changes(ipu__accounting *a, change **changes, uint32_t **ends)
{
    size_t count = a->out->tenants.count;
    const ipu_account_tenant *items = a->out->tenants.items;
    uint32_t *next; /* by number, from 1 on: where its changes begin */
    IPU_TRY(
        ipu_arena_array(a->ctx, &a->arena, 2 * count + 1, sizeof(**changes), changes));
    IPU_TRY(ipu_arena_array(a->ctx, &a->arena, a->count + 4, sizeof(*next), &next));
    for (size_t i = 0; i < count; i++) {
        next[items[i].first + 1]++;
        next[items[i].last + 2]++;
    }
    for (uint32_t number = 1; number < a->count + 4; number++) {
        next[number] += next[number - 1];
    }
    for (size_t i = 0; i < count; i++) {
        (*changes)[next[items[i].first]++] = (change){items[i].ipu, items[i].bytes};
        (*changes)[next[items[i].last + 1]++] = (change){items[i].ipu, -items[i].bytes};
    }
    *ends = next;
    return IPU_OK;
}

static ipu_status
find_peaks(ipu__accounting *a)
{
    double *live; /* by IPU */
    change *changes;
    uint32_t *ends;
    IPU_TRY(ipu_arena_array(a->ctx, &a->arena, a->ipu_count, sizeof(*live), &live));
    IPU_TRY(sort_changes(a, &changes, &ends));
    for (uint32_t number = 0, begin = 0; number < a->count + 2; number++) {
        for (uint32_t i = begin; i < ends[number]; i++) {
            live[changes[i].ipu] += changes[i].bytes;
        }
        for (; begin < ends[number]; begin++) {
            int32_t ipu = changes[begin].ipu;
            ipu_account_memory *memory = &a->out->memories.items[ipu];
            if (live[ipu] > memory->peak_bytes) {
                memory->peak_bytes = live[ipu];
                memory->peak = number;
                memory->peak_node = number == 0 ? IPU_NO_NODE : a->nodes[number];
            }
        }
    }
    return IPU_OK;
}

/* What each tile holds at the peak. */
static ipu_status
fill_tiles(ipu__accounting *a)
{
    const ipu_account *out = a->out;
    uint32_t tiles = (uint32_t)a->chip->tiles;
    for (size_t i = 0; i < out->memories.count; i++) {
        ipu_account_memory *memory = &out->memories.items[i];
        IPU_TRY(IPU_ARRAY_EXTEND(a->ctx, &memory->tiles, tiles, NULL));
        memory->tiles.items[0] = memory->code_bytes;
    }
    for (size_t i = 0; i < out->residents.count; i++) {
        const ipu_account_resident *one = &out->residents.items[i];
        ipu_mapping_add(&one->mapping, ipu_account_resident_type(a->graph, one), 1,
                        out->memories.items[one->ipu].tiles.items, tiles);
    }
    for (size_t i = 0; i < out->tenants.count; i++) {
        const ipu_account_tenant *one = &out->tenants.items[i];
        const ipu_account_memory *memory = &out->memories.items[one->ipu];
        if (one->first <= memory->peak && memory->peak <= one->last) {
            ipu_mapping_add(&one->mapping, &ipu_value_of(a->graph, one->value)->type,
                            one->copies, memory->tiles.items, tiles);
        }
    }
    for (size_t i = 0; i < out->memories.count; i++) {
        ipu_account_memory *memory = &out->memories.items[i];
        double *bytes = memory->tiles.items;
        for (uint32_t tile = 1; tile < tiles; tile++) {
            bytes[tile] += bytes[tile - 1];
            if (bytes[tile] > bytes[memory->fullest_tile]) {
                memory->fullest_tile = tile;
            }
        }
    }
    return IPU_OK;
}

ipu_status
ipu__machine_occupy(ipu__accounting *a)
{
    bool *is_shared;
    size_t values = a->graph->values.count;
    IPU_TRY(ipu_arena_array(a->ctx, &a->arena, values + 1, sizeof(bool), &is_shared));
    find_uses(a);
    share_carried(a, is_shared);
    IPU_TRY(keep_passages(a));
    overwrite(a);
    for (uint32_t i = 0; i < values; i++) {
        ipu_value value = {i};
        const ipu__lifetime *life = &a->lives[i];
        if (life->last >= life->first && life->last > 0 && !is_shared[i] &&
            bytes_of(a, value) > 0) {
            IPU_TRY(add(a, value, a->home[i], 1, life->first, life->last));
        }
    }
    IPU_TRY(find_peaks(a));
    return fill_tiles(a);
}
