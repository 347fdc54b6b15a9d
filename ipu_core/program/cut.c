/* SPDX-License-Identifier: MIT
 *
 * Cuts the body of a pipeline. In: for each node the routine that it belongs to
 * (pipeline/routines.h). Out: what crosses from one routine to another. Nothing of the
 * graph is changed. Constants belong nowhere, and variables that are read where they lie
 * do not cross. */
#include <inttypes.h>
#include <stdlib.h>

#include "graph/users.h"
#include "program/pipe_impl.h"

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
        if (p->routine_of[n.index] != IPU_NO_ROUTINE) {
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
    if (from == IPU_NO_ROUTINE || from == to) {
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
        if (p->routine_of[n.index] != IPU_NO_ROUTINE &&
            (ipu_node_flags(node) & IPU_OP_VIEW) == 0) {
            IPU_TRY(ipu__pipe_for_each_use(p, n, note_crossing));
        }
    }
    if (p->crossings.count > 0) {
        qsort(p->crossings.items, p->crossings.count, sizeof(ipu__crossing), by_root);
    }
    return IPU_OK;
}
