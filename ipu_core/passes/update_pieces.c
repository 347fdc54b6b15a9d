/* SPDX-License-Identifier: MIT
 *
 * Updates that wait for sums over replicas, such as those of gradients, become as many
 * nodes as the sums will be buckets (graph/bucket.h), in the order in which these are
 * ready: so a bucket is under way while the variables of those before it are updated.
 * A group falls into pieces between its parts, which have nothing to do with each other.
 * All pieces stand where the group would. */
#include <stdlib.h>
#include <string.h>

#include "graph/bucket.h"
#include "passes/updates_impl.h"

/* An update of the group, and what its part waits for. */
typedef struct turn {
    int64_t ready; /* the position of the last node that a sum waits for; -1: no sums */
    uint32_t part;
    uint32_t number; /* of the update */
    size_t bytes;    /* of the part's sums, at its first update */
} turn;

static void
add_operand(const planner *p, ipu_value value, turn *t)
{
    const ipu_node_data *sum = ipu_producer_of(p->graph, value);
    if (sum == NULL || sum->op != IPU_OP_ID_ALL_REDUCE) {
        return;
    }
    const ipu_value_data *operand = ipu_value_of(p->graph, sum->inputs[0]);
    int64_t ready = ipu_is_node(operand->producer)
                        ? p->nodes.items[operand->producer.index].position
                        : 0;
    t->ready = ready > t->ready ? ready : t->ready;
    t->bytes += ipu_type_bytes(&operand->type);
}

static void
add_operands(const planner *p, ipu_node id, turn *t)
{
    const ipu_node_data *node = ipu_node_of(p->graph, id);
    for (uint32_t k = 0; k < node->input_count; k++) {
        add_operand(p, node->inputs[k], t);
    }
}

static int
compare(const void *a, const void *b)
{
    const turn *one = a;
    const turn *other = b;
    if (one->ready != other->ready) {
        return one->ready < other->ready ? -1 : 1;
    }
    if (one->part != other->part) {
        return one->part < other->part ? -1 : 1;
    }
    return one->number < other->number ? -1 : one->number > other->number;
}

/* The updates of a group, those of a part one after the other; whether any waits. */
static bool
find_turns(planner *p, const group *g, turn *turns)
{
    bool waits = false;
    for (uint32_t i = 0; i < g->count; i++) {
        uint32_t part = ipu__update_part_of(p, g->first + i);
        turn *whole = &turns[part - g->first];
        if (part == g->first + i) {
            *whole = (turn){.ready = -1};
            for (ipu_node n = p->updates.items[part].first_member; ipu_is_node(n);
                 n = p->nodes.items[n.index].next_member) {
                add_operands(p, n, whole);
            }
        }
        turns[i].part = part;
        turns[i].number = g->first + i;
        add_operands(p, p->updates.items[g->first + i].node, whole);
        waits |= whole->ready >= 0;
    }
    for (uint32_t i = 0; i < g->count; i++) {
        turns[i].ready = turns[turns[i].part - g->first].ready;
    }
    return waits;
}

/* Puts the updates in the order of their turns. */
static void
reorder(planner *p, const group *g, const turn *turns, update *updates)
{
    uint32_t part = 0; /* where the first update of it is now */
    for (uint32_t i = 0; i < g->count; i++) {
        if (i == 0 || turns[i].part != turns[i - 1].part) {
            part = g->first + i;
        }
        updates[i] = p->updates.items[turns[i].number];
        updates[i].part = part;
        p->nodes.items[updates[i].node.index].update = g->first + i;
        for (ipu_node n = updates[i].first_member; ipu_is_node(n);
             n = p->nodes.items[n.index].next_member) {
            p->nodes.items[n.index].update = part;
        }
    }
    memcpy(&p->updates.items[g->first], updates, g->count * sizeof(*updates));
}

/* Ends a piece in front of the part that has no room in its bucket. */
static ipu_status
cut(planner *p, uint32_t number, const turn *turns)
{
    uint32_t count = p->groups.items[number].count;
    uint32_t first = p->groups.items[number].first;
    uint32_t own = number;
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool begins = i > 0 && turns[i].part != turns[i - 1].part && bytes > 0 &&
                      !ipu_bucket_has_room(p->graph, bytes, turns[i].bytes);
        if (begins) {
            group piece = p->groups.items[own];
            piece.first = first + i;
            piece.count = first + count - piece.first;
            p->groups.items[own].count -= piece.count;
            p->groups.items[own].next_piece = (uint32_t)p->groups.count;
            own = (uint32_t)p->groups.count;
            bytes = 0;
            IPU_TRY(IPU_ARRAY_PUSH(p->ctx, &p->groups, piece));
        }
        bytes += turns[i].bytes;
        p->updates.items[first + i].group = own;
    }
    return IPU_OK;
}

ipu_status
ipu__update_cut(planner *p, uint32_t number)
{
    const group g = p->groups.items[number];
    size_t turn_bytes = g.count * sizeof(turn);
    size_t update_bytes = g.count * sizeof(update);
    turn *turns;
    update *updates;
    IPU_TRY(ipu_alloc(p->ctx, turn_bytes, &turns));
    ipu_status status = ipu_alloc(p->ctx, update_bytes, &updates);
    if (status == IPU_OK && find_turns(p, &g, turns)) {
        qsort(turns, g.count, sizeof(*turns), compare);
        reorder(p, &g, turns, updates);
        status = cut(p, number, turns);
    }
    ipu_free(p->ctx, updates, update_bytes);
    ipu_free(p->ctx, turns, turn_bytes);
    return status;
}
