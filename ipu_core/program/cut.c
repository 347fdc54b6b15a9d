/* SPDX-License-Identifier: MIT
 *
 * Cuts the body of a pipeline. In: nodes with stages and phases. Out: for each node the
 * routine that it belongs to, and what crosses from one routine to another. Nothing of
 * the graph is changed.
 *
 * A node that nobody placed belongs where it is used first. One with the number that
 * follows the last stage's is what is done with the results of all stages that share the
 * last position: it runs in the last of them. Where a backward stage is
 * in two parts, its input part is what another stage waits for, with all that this
 * needs. Constants belong nowhere, and variables that are read where they lie do not
 * cross. */
#include <inttypes.h>
#include <stdlib.h>

#include "graph/users.h"
#include "program/pipe_impl.h"

/* --- which routine a node belongs to ---------------------------------------------- */

typedef struct use_visit {
    ipu__pipe *p;
    ipu_node user;
    ipu__use_fn *visit;
} use_visit;

static ipu_status
visit_use(void *state, ipu_value *place, ipu_node inner)
{
    const use_visit *v = state;
    (void)inner;
    return v->visit(v->p, v->user, *place);
}

ipu_status
ipu__pipe_for_each_use(ipu__pipe *p, ipu_node user, ipu__use_fn *visit)
{
    use_visit v = {p, user, visit};
    return ipu_node_each_use(p->l->graph, user, visit_use, &v);
}

static ipu_status
note_consumer(ipu__pipe *p, ipu_node user, ipu_value value)
{
    int32_t by = p->routine_of[user.index];
    ipu__consumers *known = &p->used_by[value.index];
    known->first = known->last == IPU__NOWHERE || by < known->first ? by : known->first;
    known->last = by > known->last ? by : known->last;
    return IPU_OK;
}

static bool
makes_nothing(const ipu_node_data *node)
{
    return node->op == IPU_OP_ID_CONSTANT || node->op == IPU_OP_ID_HELD;
}

/* A node that nobody placed belongs where it is used first; what nobody uses, where
 * what it uses was made. */
static int32_t
routine_of_unplaced(const ipu__pipe *p, const ipu_node_data *node)
{
    int32_t found = IPU__NOWHERE;
    for (uint32_t i = 0; i < node->output_count; i++) {
        const ipu__consumers *by = &p->used_by[node->outputs[i].index];
        if (by->last != IPU__NOWHERE && (found == IPU__NOWHERE || by->first < found)) {
            found = by->first;
        }
    }
    return found;
}

static bool
is_after_all_stages(const ipu__pipe *p, const ipu_node_data *node)
{
    return node->placement.stage == (int32_t)p->stage_count;
}

static uint32_t
stage_of(const ipu__pipe *p, const ipu_node_data *node)
{
    return is_after_all_stages(p, node) ? p->stage_count - 1
                                        : (uint32_t)node->placement.stage;
}

static int32_t
routine_of_placed(const ipu__pipe *p, const ipu_node_data *node)
{
    uint32_t stage = stage_of(p, node);
    return (int32_t)(node->placement.phase == IPU_PHASE_FORWARD
                         ? ipu__forward_routine(stage)
                         : ipu__backward_routine(p, stage, p->is_split));
}

static int32_t
last_maker(const ipu__pipe *p, const ipu_node_data *node)
{
    int32_t found = 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        ipu_node maker = ipu_value_of(p->l->graph, node->inputs[i])->producer;
        if (ipu_is_node(maker) && p->routine_of[maker.index] > found) {
            found = p->routine_of[maker.index];
        }
    }
    return found;
}

/* Of a backward stage in two parts, all lies in the weight part so far. What another
 * stage waits for, and what that needs, moves to the input part. */
static void
split_backward(ipu__pipe *p, ipu_node id)
{
    const ipu_node_data *node = ipu_node_of(p->l->graph, id);
    int32_t own = p->routine_of[id.index];
    if (p->routines[own].what.kind != IPU_ACTION_BACKWARD_WEIGHT) {
        return;
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        const ipu__consumers *by = &p->used_by[node->outputs[i].index];
        if (by->last != IPU__NOWHERE && (by->first != own || by->last != own)) {
            p->routine_of[id.index] = own - 1;
        }
    }
}

/* What is not placed yet because nobody uses it, in program order. */
static void
place_unused(ipu__pipe *p)
{
    const ipu_graph *graph = p->l->graph;
    IPU_EACH_NODE(n, graph, p->body) {
        const ipu_node_data *node = ipu_node_of(graph, n);
        if (p->routine_of[n.index] == IPU__NOWHERE && !makes_nothing(node)) {
            p->routine_of[n.index] = last_maker(p, node);
        }
    }
}

ipu_status
ipu__pipe_place_nodes(ipu__pipe *p)
{
    const ipu_graph *graph = p->l->graph;
    for (ipu_node n = ipu_block_of(graph, p->body)->last; ipu_is_node(n);
         n = ipu_node_of(graph, n)->previous) {
        const ipu_node_data *node = ipu_node_of(graph, n);
        bool is_placed = node->placement.stage >= 0 &&
                         (uint32_t)node->placement.stage <= p->stage_count;
        p->l->ctx->source = node->source;
        IPU_FAIL_IF(p->l->ctx,
                    is_placed && node->placement.phase != IPU_PHASE_FORWARD &&
                        !p->schedule->is_training,
                    INVALID_ARGUMENT,
                    "%s belongs to the backward pass of a pipeline that has none",
                    ipu_op_info_of(node->op)->name);
        p->l->ctx->source = (ipu_source){0};
        int32_t found =
            is_placed ? routine_of_placed(p, node) : routine_of_unplaced(p, node);
        if (makes_nothing(node) || found == IPU__NOWHERE) {
            continue;
        }
        p->routine_of[n.index] = found;
        split_backward(p, n);
        IPU_TRY(ipu__pipe_for_each_use(p, n, note_consumer));
    }
    place_unused(p);
    return IPU_OK;
}

/* --- variables -------------------------------------------------------------------- */

typedef struct owner {
    ipu_node node; /* that uses the variable; IPU_NO_NODE: none so far */
    uint32_t stream;
} owner;

static ipu_status
check_variables_of(ipu__pipe *p, ipu_node user, ipu_node id, owner *owners)
{
    const ipu_graph *graph = p->l->graph;
    const ipu_node_data *node = ipu_node_of(graph, id);
    uint32_t stream = p->routines[p->routine_of[user.index]].stream;
    for (uint32_t i = 0; i < ipu_node_resource_count(node); i++) {
        uint32_t number = ipu_node_resource(node, i);
        const ipu_resource *resource = &graph->resources.items[number];
        owner *known = &owners[number];
        if (!ipu_is_node(known->node)) {
            *known = (owner){user, stream};
        }
        const ipu_node_data *first = ipu_node_of(graph, known->node);
        p->l->ctx->source = node->source;
        IPU_FAIL_IF(
            p->l->ctx, known->stream != stream, UNIMPLEMENTED,
            "%s '%s' is used by stage %d on IPU %" PRIu32 " and by stage %d on IPU "
            "%" PRIu32 ": an input can only be used by pipeline stages on the same "
            "IPU. Map the stages that share it to one IPU with device_mapping",
            resource->kind == IPU_RESOURCE_VARIABLE ? "the variable"
            : resource->kind == IPU_RESOURCE_HOST   ? "the host's function"
                                                    : "the queue",
            resource->name == NULL ? "" : resource->name, (int)stage_of(p, first),
            p->l->program->streams.items[known->stream].ipu, (int)stage_of(p, node),
            p->l->program->streams.items[stream].ipu);
        p->l->ctx->source = (ipu_source){0};
    }
    for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
        IPU_EACH_NODE(n, graph, ipu_node_block(node, k)) {
            IPU_TRY(check_variables_of(p, user, n, owners));
        }
    }
    return IPU_OK;
}

/* A variable, or a queue, belongs to one IPU. */
ipu_status
ipu__pipe_check_variables(ipu__pipe *p)
{
    const ipu_graph *graph = p->l->graph;
    owner *owners;
    IPU_TRY(ipu__lower_array(p->l, graph->resources.count, sizeof(owner), &owners));
    for (size_t i = 0; i < graph->resources.count; i++) {
        owners[i] = (owner){IPU_NO_NODE, 0};
    }
    IPU_EACH_NODE(n, graph, p->body) {
        if (p->routine_of[n.index] != IPU__NOWHERE) {
            IPU_TRY(check_variables_of(p, n, n, owners));
        }
    }
    return IPU_OK;
}

/* --- crossings -------------------------------------------------------------------- */

/* Whether the body writes the resource. */
static bool
is_written(const ipu__pipe *p, uint32_t resource)
{
    const lowering *l = p->l;
    for (uint32_t at = l->last_write[resource]; at != 0;
         at = l->writes.items[at - 1].before) {
        int32_t time = l->writes.items[at - 1].time;
        if (time > l->begin[p->id.index] && time <= l->end[p->id.index]) {
            return true;
        }
    }
    return false;
}

/* Whether every routine of the stream finds a value where it is: a variable that is
 * read in place, and that no later micro-batch changes meanwhile. */
static bool
is_read_in_place(const ipu__pipe *p, uint32_t root)
{
    const ipu_node_data *node = ipu_producer_of(p->l->graph, (ipu_value){root});
    return node->op == IPU_OP_ID_VARIABLE_READ &&
           !is_written(p, ipu_node_resource(node, 0));
}

static bool
is_remote_read(const lowering *l, uint32_t root)
{
    const ipu_node_data *node = ipu_producer_of(l->graph, (ipu_value){root});
    return node->op == IPU_OP_ID_VARIABLE_READ &&
           l->graph->resources.items[ipu_node_resource(node, 0)].is_remote;
}

static ipu_status
fail_backwards(const ipu__pipe *p, uint32_t from, ipu_node user)
{
    p->l->ctx->source = ipu_node_of(p->l->graph, user)->source;
    IPU_FAIL(p->l->ctx, INVALID_ARGUMENT,
             "stage %" PRIu32 " of the pipeline uses a tensor of stage %" PRIu32
             ", which runs later; pass it on from an earlier stage",
             p->routines[p->routine_of[user.index]].what.stage,
             p->routines[from].what.stage);
}

static bool
is_weight_part(const ipu__pipe *p, int32_t r)
{
    return p->routines[r].what.kind == IPU_ACTION_BACKWARD_WEIGHT;
}

/* Weight parts run when there is time for them: not in the order of the stages. */
static ipu_status
fail_shared(const ipu__pipe *p, int32_t from, int32_t to, ipu_node user)
{
    p->l->ctx->source = ipu_node_of(p->l->graph, user)->source;
    IPU_FAIL(p->l->ctx, UNIMPLEMENTED,
             "stages %" PRIu32 " and %" PRIu32 " share a variable, and the schedule "
             "'%s' computes the gradients of their weights in no fixed order; use "
             "another schedule, such as '1F1B'",
             p->routines[to].what.stage, p->routines[from].what.stage,
             p->schedule->name);
}

/* Stages side by side get the same elements, which the first of them takes out of the
 * infeed; of what the others compute they see nothing. */
static ipu_status
check_beside(const ipu__pipe *p, int32_t from, int32_t to, ipu_node user,
             const ipu_node_data *producer)
{
    ipu_routine writer = p->routines[from].what;
    ipu_routine reader = p->routines[to].what;
    const uint32_t *positions = p->schedule->positions;
    bool is_beside = writer.kind == IPU_ACTION_FORWARD && reader.kind == writer.kind &&
                     p->routines[from].stream != p->routines[to].stream &&
                     positions[writer.stage] == positions[reader.stage];
    if (!is_beside || producer->op == IPU_OP_ID_INFEED_DEQUEUE ||
        is_after_all_stages(p, ipu_node_of(p->l->graph, user))) {
        return IPU_OK;
    }
    p->l->ctx->source = ipu_node_of(p->l->graph, user)->source;
    IPU_FAIL(p->l->ctx, INVALID_ARGUMENT,
             "stage %" PRIu32 " uses a tensor of stage %" PRIu32
             ", which does not run before it. A stage may use what the stages before "
             "it make, not what later ones and those beside it do",
             reader.stage, writer.stage);
}

static ipu_status
note_crossing(ipu__pipe *p, ipu_node user, ipu_value value)
{
    lowering *l = p->l;
    uint32_t root = l->values[value.index].root;
    const ipu_value_data *data = ipu_value_of(l->graph, (ipu_value){root});
    int32_t to = p->routine_of[user.index];
    if (data->block.index != p->body.index || !ipu_is_node(data->producer)) {
        return IPU_OK;
    }
    int32_t from = p->routine_of[data->producer.index];
    if (from == IPU__NOWHERE || from == to) {
        return IPU_OK;
    }
    if (from > to) {
        return fail_backwards(p, (uint32_t)from, user);
    }
    if (is_weight_part(p, from) && is_weight_part(p, to)) {
        return fail_shared(p, from, to, user);
    }
    const ipu_node_data *producer = ipu_node_of(l->graph, data->producer);
    IPU_TRY(check_beside(p, from, to, user, producer));
    bool is_at_hand =
        p->routines[from].stream == p->routines[to].stream && is_read_in_place(p, root);
    if (is_at_hand && !is_remote_read(l, root)) {
        return IPU_OK;
    }
    uint64_t key = (uint64_t)root * p->routine_count + (uint64_t)to;
    if (ipu_id_map_has(&p->known, key)) {
        return IPU_OK;
    }
    ipu__crossing found = {.from = (uint32_t)from,
                           .root = root,
                           .to = (uint32_t)to,
                           .buffer = IPU__NO_BUFFER,
                           .message = -1,
                           .is_read_again = is_at_hand,
                           .last_use = l->values[root].last_use};
    IPU_TRY(ipu_id_map_put(l->ctx, &p->known, key, 0));
    return IPU_ARRAY_PUSH(l->ctx, &p->crossings, found);
}

static int
by_root(const void *left, const void *right)
{
    const ipu__crossing *a = left;
    const ipu__crossing *b = right;
    return a->from != b->from   ? ipu_compare(a->from, b->from)
           : a->root != b->root ? ipu_compare(a->root, b->root)
                                : ipu_compare(a->to, b->to);
}

ipu_status
ipu__pipe_find_crossings(ipu__pipe *p)
{
    const ipu_graph *graph = p->l->graph;
    IPU_EACH_NODE(n, graph, p->body) {
        const ipu_node_data *node = ipu_node_of(graph, n);
        if (p->routine_of[n.index] != IPU__NOWHERE &&
            (ipu_node_flags(node) & IPU_OP_VIEW) == 0) {
            IPU_TRY(ipu__pipe_for_each_use(p, n, note_crossing));
        }
    }
    if (p->crossings.count > 0) {
        qsort(p->crossings.items, p->crossings.count, sizeof(ipu__crossing), by_root);
    }
    return IPU_OK;
}
