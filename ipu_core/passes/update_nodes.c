/* SPDX-License-Identifier: MIT
 *
 * An update of variables as nodes of its own: reads, arithmetic and assignments, of
 * which those who take it apart say what they are. One thread per graph. */
#include "passes/update_nodes.h"

#include "passes/update_steps.h"

ipu_value
ipu__emit_as(ipu__rewriter *r, ipu_value value, ipu_dtype dtype)
{
    ipu_attr wanted = ipu_attr_int(IPU_ATTR_DTYPE, (int64_t)dtype);
    bool is_as_wanted =
        r->status != IPU_OK || ipu_value_of(r->graph, value)->type.dtype == dtype;
    return is_as_wanted ? value : ipu__emit(r, IPU_OP_ID_CAST, &value, 1, &wanted, 1);
}

/* Steps are values by their indices; after a failure none is valid. */
static int64_t
make_step(void *state, ipu_op op, int64_t a, int64_t b)
{
    const ipu__update_nodes *u = state;
    const ipu_value operands[2] = {{(uint32_t)a}, {(uint32_t)b}};
    return ipu__emit(u->rewriter, op, operands, b < 0 ? 1 : 2, NULL, 0).index;
}

static int64_t
make_number(void *state, double number)
{
    const ipu__update_nodes *u = state;
    return ipu__emit_number(u->rewriter, u->dtype, number).index;
}

static void
make_assignment(void *state, uint32_t i, int64_t x)
{
    const ipu__update_nodes *u = state;
    u->assign(u, i, (ipu_value){(uint32_t)x});
}

/* The factor of Adam's step, of the learning rate and the number of the step. */
static ipu_value
emit_alpha(const ipu__update_nodes *u)
{
    ipu_attrs given = u->node->attrs;
    const ipu_value inputs[2] = {u->node->inputs[1], u->node->inputs[2]};
    const ipu_attr attrs[3] = {
        ipu_attr_int(IPU_ATTR_DTYPE, (int64_t)u->dtype),
        ipu_attr_float(IPU_ATTR_BETA_1, ipu_attrs_float(given, IPU_ATTR_BETA_1, 0.9)),
        ipu_attr_float(IPU_ATTR_BETA_2,
                       ipu_attrs_float(given, IPU_ATTR_BETA_2, 0.999))};
    return ipu__emit(u->rewriter, IPU_OP_ID_ADAM_RATE, inputs, 2, attrs, 3);
}

ipu_status
ipu__update_emit(ipu__update_nodes *u, ipu_value gradient)
{
    const ipu__steps steps = {u, make_step, make_number, make_assignment};
    const ipu_node_data *node = u->node;
    int64_t old[3];
    for (uint32_t i = 0; i < ipu_node_resource_count(node); i++) {
        old[i] = u->read(u, i).index;
    }
    if (node->op == IPU_OP_ID_VARIABLE_ADD) {
        make_assignment(u, 0, make_step(u, IPU_OP_ID_ADD, old[0], gradient.index));
    } else if (node->op == IPU_OP_ID_SGD_UPDATE) {
        ipu_value rate = ipu__emit_as(u->rewriter, node->inputs[1], u->dtype);
        ipu__sgd_steps(&steps, node, old, gradient.index, rate.index);
    } else {
        ipu__adam_steps(&steps, node, old, gradient.index, emit_alpha(u).index);
    }
    return u->rewriter->status;
}
