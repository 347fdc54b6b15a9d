/* SPDX-License-Identifier: MIT
 *
 * Where values lie on the tiles. Results of products lie as their plan leaves them;
 * element-wise results, softmax and norms as their operand; what a loop carries as what
 * it begins with. All else (arguments, variables, what is moved, gathered, summed up or
 * comes from the host) is laid out for its first user: as a product's plan wants it, or
 * as the operand that it is added to; else in order, over as many tiles as it needs, the
 * next value after it. */
#include "graph/block_op.h"
#include "graph/effects.h"
#include "machine/account_impl.h"

enum {
    MOST_USERS = 64, /* asked where they want a value, or what they make of it */
    MOST_INPUTS = 4
};

static const ipu_type *
type_of(const ipu__accounting *a, ipu_value value)
{
    return &ipu_value_of(a->graph, value)->type;
}

static bool
is_like(const ipu__accounting *a, ipu_value left, ipu_value right)
{
    return ipu_shape_elements(&type_of(a, left)->shape) ==
           ipu_shape_elements(&type_of(a, right)->shape);
}

/* Of a product: as its plan has the value in this role. */
static bool
planned_mapping(ipu__accounting *a, const ipu_node_data *node, ipu_product_role role,
                ipu_value value, ipu_mapping *out)
{
    static const ipu_attr_key flips[] = {IPU_ATTR_TRANSPOSE_A, IPU_ATTR_TRANSPOSE_B};
    ipu_type types[MOST_INPUTS + 1];
    uint32_t count = node->input_count < MOST_INPUTS ? node->input_count : MOST_INPUTS;
    for (uint32_t i = 0; i < count; i++) {
        types[i] = *type_of(a, node->inputs[i]);
    }
    types[count] = *type_of(a, node->outputs[0]);
    ipu_cost_call call = {node->attrs, types, count, types + count, 1};
    ipu_product asked = ipu_product_of_node(node->op, &call);
    ipu_product_asker asker = {a->ctx, a->chip, &a->options, a->plans};
    if (!ipu_product_complete(&asker, node->op, &types[ipu_product_first(node->op)],
                              &asked)) {
        return false;
    }
    bool flipped =
        role != IPU_PRODUCT_RESULT && ipu_attrs_int(node->attrs, flips[role], 0) != 0;
    *out =
        ipu_product_mapping(a->chip, &asked, role, flipped, type_of(a, value));
    return true;
}

static bool
follows_operand(const ipu_node_data *node)
{
    return (ipu_node_flags(node) & IPU_OP_ELEMENTWISE) != 0 ||
           node->op == IPU_OP_ID_SOFTMAX || node->op == IPU_OP_ID_LOG_SOFTMAX ||
           node->op == IPU_OP_ID_NORMALIZE || node->op == IPU_OP_ID_NORMALIZE_GRAD ||
           node->op == IPU_OP_ID_DROPOUT;
}

/* The mapping of an operand with as many elements, if one has any, or is a product and
 * will have one. */
static bool
mapping_of_operand(ipu__accounting *a, const ipu_node_data *node, ipu_value like,
                   ipu_mapping *out)
{
    bool is_found = false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        ipu_value value = ipu__machine_shown(a->graph, node->inputs[i]);
        const ipu_node_data *maker = ipu_producer_of(a->graph, value);
        ipu_mapping one = a->mappings[value.index];
        if (!is_like(a, value, like)) {
            continue;
        }
        if (one.tiles == 0 && maker != NULL && ipu_product_first(maker->op) >= 0) {
            planned_mapping(a, maker, IPU_PRODUCT_RESULT, value, &one);
        }
        if (one.tiles > 0 && (!is_found || (out->layer == 0 && one.layer != 0))) {
            *out = one;
            is_found = true;
        }
    }
    return is_found;
}

static bool find_wanted(ipu__accounting *a, ipu_value value, int *room,
                        ipu_mapping *out);

/* As one of the blocks that it enters has it. */
static bool
find_wanted_inside(ipu__accounting *a, const ipu_node_data *node, ipu_value value,
                   int *room, ipu_mapping *out)
{
    for (uint32_t i = 0; i < ipu_node_entering_count(node); i++) {
        bool enters = node->inputs[ipu_node_entering(node, i)].index == value.index;
        const ipu_block_data *body = ipu_block_of(a->graph, ipu_node_body(node));
        if (enters && i < body->params.count &&
            find_wanted(a, body->params.items[i], room, out)) {
            return true;
        }
    }
    return false;
}

/* As the first user that wants it somewhere has it. */
static bool
find_wanted(ipu__accounting *a, ipu_value value, int *room, ipu_mapping *out)
{
    const ipu_node *users = ipu_uses_of(&a->uses, value);
    for (uint32_t i = 0; i < ipu_uses_count(&a->uses, value) && *room > 0; i++) {
        if (!ipu_is_node(users[i])) {
            continue;
        }
        *room -= 1;
        const ipu_node_data *node = ipu_node_of(a->graph, users[i]);
        int32_t first = ipu_product_first(node->op);
        for (int32_t k = first; first >= 0 && k < first + 2; k++) {
            if (node->inputs[k].index == value.index &&
                planned_mapping(a, node, (ipu_product_role)(k - first), value, out)) {
                return true;
            }
        }
        bool is_update = (ipu_node_flags(node) & IPU_OP_UPDATE) != 0;
        const ipu_mapping *held =
            is_update ? &a->held[ipu_node_resource(node, 0)] : NULL;
        if (held != NULL && held->tiles > 0 && node->inputs[0].index == value.index) {
            *out = *held;
            return true;
        }
        if (ipu_node_holds_blocks(node)) {
            if (find_wanted_inside(a, node, value, room, out)) {
                return true;
            }
            continue;
        }
        bool is_view = (ipu_node_flags(node) & IPU_OP_VIEW) != 0;
        bool is_followed = is_view || (follows_operand(node) &&
                                       is_like(a, value, node->outputs[0]));
        if (is_followed && (mapping_of_operand(a, node, value, out) ||
                            find_wanted(a, node->outputs[0], room, out))) {
            return true;
        }
    }
    return false;
}

static ipu_mapping
in_order(ipu__accounting *a, const ipu_type *type, int32_t ipu)
{
    uint32_t all = (uint32_t)a->chip->tiles;
    uint32_t *next = &a->next_tiles[ipu];
    ipu_mapping made = {.start = *next,
                        .tiles = (uint32_t)ipu_mapping_tiles(type, a->chip->tiles)};
    *next = (*next + made.tiles) % all;
    return made;
}

static ipu_mapping
free_mapping(ipu__accounting *a, ipu_value value)
{
    ipu_mapping found;
    int room = MOST_USERS;
    return find_wanted(a, value, &room, &found)
               ? found
               : in_order(a, type_of(a, value), a->home[value.index]);
}

ipu_mapping
ipu__machine_held(ipu__accounting *a, uint32_t resource, int32_t ipu)
{
    ipu_mapping *held = &a->held[resource];
    if (held->tiles == 0) {
        *held = in_order(a, a->graph->resources.items[resource].types, ipu);
    }
    return *held;
}

void
ipu__machine_lay_out_params(ipu__accounting *a, ipu_block block)
{
    const ipu_block_data *data = ipu_block_of(a->graph, block);
    const ipu_node_data *owner =
        ipu_is_node(data->owner) ? ipu_node_of(a->graph, data->owner) : NULL;
    for (size_t i = 0; i < data->params.count; i++) {
        ipu_value param = data->params.items[i];
        ipu_mapping *one = &a->mappings[param.index];
        if (owner != NULL) {
            ipu_value from = ipu__machine_shown(
                a->graph, owner->inputs[ipu_node_entering(owner, (uint32_t)i)]);
            *one = a->mappings[from.index];
        }
        if (one->tiles == 0) {
            *one = free_mapping(a, param);
        }
    }
}

void
ipu__machine_lay_out(ipu__accounting *a, const ipu_node_data *node)
{
    for (uint32_t i = 0; i < node->output_count; i++) {
        ipu_value value = node->outputs[i];
        ipu_mapping *one = &a->mappings[value.index];
        if (ipu_node_flags(node) & IPU_OP_VIEW) {
            *one = a->mappings[ipu__machine_shown(a->graph, value).index];
        } else if (ipu_node_holds_blocks(node)) {
            ipu_block body = ipu_node_body(node);
            *one = a->mappings[ipu__machine_shown(
                                   a->graph,
                                   ipu_node_is_loop(node)
                                       ? ipu_block_of(a->graph, body)->params.items[i]
                                       : ipu_block_of(a->graph, body)->results.items[i])
                                   .index];
        } else if (node->op == IPU_OP_ID_VARIABLE_READ) {
            ipu_mapping *held = &a->held[ipu_node_resource(node, 0)];
            *held = held->tiles > 0 ? *held : free_mapping(a, value);
            *one = *held;
        } else if (ipu_product_first(node->op) >= 0) {
            planned_mapping(a, node, IPU_PRODUCT_RESULT, value, one);
        } else if (follows_operand(node)) {
            mapping_of_operand(a, node, value, one);
        }
        if (one->tiles == 0) {
            *one = free_mapping(a, value);
        }
    }
}
