/* SPDX-License-Identifier: MIT
 *
 * Which variables lie in panels (core/kernel.h), where products read weights faster
 * than by rows, and write what they update.
 *
 * Values and variables of which one has the other's elements, at the same places, lie
 * alike: a variable and what is read of it, a gradient, what it updates and the slots
 * beside it, all that element-wise ops make of them, what loops carry. These are sets,
 * joined in a walk over all nodes. A set lies in panels where
 *
 *   - a variable is in it, of a shape that fills panels;
 *   - a product reads it as its right factor, often enough to pay for the change;
 *   - nothing else but products and element-wise ops use it: an op that knows rows, an
 *     output or a queue keeps the set by rows.
 *
 * No bit depends on it. The device changes a variable's layout when a program begins
 * that wants another one, and hosts see rows at any time (run/device.c). */
#include <string.h>

#include "base/update_code.h"
#include "graph/trips.h"
#include "program/lower_impl.h"

enum {
    LEAST_TURNS = 4, /* of loops: fewer may not save what a change of layout costs */
    MOST_TURNS = 1 << 20
};

/* Values come first, then resources. */
typedef struct finder {
    lowering *l;
    size_t count;
    uint32_t *parent; /* of a set: itself */
    bool *is_barred;  /* of a set: by rows */
    bool *is_read;    /* by a product, as the right factor */
    bool *is_variable;
} finder;

static uint32_t
of_value(ipu_value value)
{
    return value.index;
}

static uint32_t
of_resource(const finder *f, uint32_t resource)
{
    return (uint32_t)f->l->graph->values.count + resource;
}

static uint32_t
set_of(const finder *f, uint32_t item)
{
    while (f->parent[item] != item) {
        f->parent[item] = f->parent[f->parent[item]];
        item = f->parent[item];
    }
    return item;
}

static void
join(const finder *f, uint32_t one, uint32_t other)
{
    uint32_t a = set_of(f, one);
    uint32_t b = set_of(f, other);
    if (a != b) {
        f->parent[b] = a;
        f->is_barred[a] |= f->is_barred[b];
        f->is_read[a] |= f->is_read[b];
        f->is_variable[a] |= f->is_variable[b];
    }
}

static void
bar(const finder *f, uint32_t item)
{
    f->is_barred[set_of(f, item)] = true;
}

static void
bar_all(const finder *f, const ipu_node_data *node)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        bar(f, of_value(node->inputs[i]));
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        bar(f, of_value(ipu_node_output(node, i)));
    }
    for (uint32_t i = 0; i < ipu_node_resource_count(node); i++) {
        bar(f, of_resource(f, ipu_node_resource(node, i)));
    }
}

static const ipu_type *
type_of(const finder *f, ipu_value value)
{
    return &ipu_value_of(f->l->graph, value)->type;
}

/* An operand of ops that go element by element: it lies as the others do, or is one
 * element. */
static void
join_operand(const finder *f, const ipu_shape *shape, uint32_t set, ipu_value value)
{
    const ipu_shape *own = &type_of(f, value)->shape;
    if (ipu_shape_equal(own, shape)) {
        join(f, set, of_value(value));
    } else if (ipu_shape_elements(own) != 1) {
        bar(f, set);
        bar(f, of_value(value));
    }
}

static void
visit_elementwise(const finder *f, const ipu_node_data *node)
{
    ipu_value output = ipu_node_output(node, 0);
    for (uint32_t i = 0; i < node->input_count; i++) {
        join_operand(f, &type_of(f, output)->shape, of_value(output), node->inputs[i]);
    }
}

/* --- updates ---------------------------------------------------------------------- */

/* The variables that a node writes in step with each other; returns one of them. */
static uint32_t
join_resources(const finder *f, const ipu_node_data *node)
{
    uint32_t first = of_resource(f, ipu_node_resource(node, 0));
    for (uint32_t i = 1; i < ipu_node_resource_count(node); i++) {
        join(f, first, of_resource(f, ipu_node_resource(node, i)));
    }
    return first;
}

static const ipu_shape *
shape_of_resource(const finder *f, const ipu_node_data *node, uint32_t i)
{
    const ipu_graph *graph = f->l->graph;
    return &graph->resources.items[ipu_node_resource(node, i)].types[0].shape;
}

static void
visit_update(const finder *f, const ipu_node_data *node)
{
    uint32_t set = join_resources(f, node);
    for (uint32_t i = 0; i < node->input_count; i++) {
        join_operand(f, shape_of_resource(f, node, 0), set, node->inputs[i]);
    }
}

static void
visit_fused_update(const finder *f, const ipu_node_data *node)
{
    uint32_t words;
    const int64_t *code = ipu_attrs_ints(node->attrs, IPU_ATTR_CODE, &words);
    ipu_update_part part = {0};
    while (ipu_update_next(code, words, &part)) {
        const ipu_shape *shape = shape_of_resource(f, node, part.first_variable);
        uint32_t set = of_resource(f, ipu_node_resource(node, part.first_variable));
        for (uint32_t i = 1; i < part.variables; i++) {
            join(f, set,
                 of_resource(f, ipu_node_resource(node, part.first_variable + i)));
        }
        for (uint32_t i = 0; i < part.inputs; i++) {
            uint32_t input = ipu_update_elements(&part, i);
            if (ipu_update_is_rows(&part, i)) {
                bar(f, set);
                bar(f, of_value(node->inputs[input - 1]));
                bar(f, of_value(node->inputs[input]));
            } else {
                join_operand(f, shape, set, node->inputs[input]);
            }
        }
    }
}

/* --- products --------------------------------------------------------------------- */

static bool
can_have_panels(const finder *f, const ipu_node_data *node)
{
    const lowering *l = f->l;
    ipu_type inputs[3];
    const ipu_type *output =
        node->op == IPU_OP_ID_MATMUL_SGD_UPDATE
            ? &l->graph->resources.items[ipu_node_resource(node, 0)].types[0]
            : type_of(f, ipu_node_output(node, 0));
    for (uint32_t i = 0; i < node->input_count; i++) {
        inputs[i] = *type_of(f, node->inputs[i]);
    }
    ipu_kernel_spec spec = {.op = node->op,
                            .attrs = node->attrs,
                            .input_count = node->input_count,
                            .output_count = 1,
                            .inputs = inputs,
                            .outputs = output};
    return ipu_kernel_panel_columns(&spec, l->options->variant, l->options->cpu) ==
           l->panel_columns;
}

static void
visit_product(const finder *f, const ipu_node_data *node, int64_t turns)
{
    uint32_t right = ipu_product_right(node->op);
    if (!can_have_panels(f, node)) {
        bar_all(f, node);
        return;
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        bool is_accumulator = node->op == IPU_OP_ID_MATMUL_ACCUMULATE && i == 0;
        if (is_accumulator) {
            join(f, of_value(node->inputs[0]), of_value(ipu_node_output(node, 0)));
        } else if (i != right) {
            bar(f, of_value(node->inputs[i]));
        }
    }
    if (node->op == IPU_OP_ID_FUSED_MATMUL) {
        bar(f, of_value(ipu_node_output(node, 0)));
    } else if (node->op == IPU_OP_ID_MATMUL_SGD_UPDATE) {
        (void)join_resources(f, node);
    }
    bool is_asked = f->l->options->panels == IPU_PANELS_EVERYWHERE;
    if (turns >= LEAST_TURNS || is_asked) {
        f->is_read[set_of(f, of_value(node->inputs[right]))] = true;
    }
}

/* --- the walk --------------------------------------------------------------------- */

static void visit_block(const finder *f, ipu_block id, int64_t turns);

/* What enters a block lies as its parameter does, what leaves it as the node's output,
 * and what a loop carries as in the next turn. */
static void
visit_holder(const finder *f, ipu_node id, const ipu_node_data *node, int64_t turns)
{
    const ipu_graph *graph = f->l->graph;
    uint32_t first = ipu_node_entering(node, 0);
    bool is_loop = ipu_node_is_loop(node);
    if (is_loop) {
        int64_t most = ipu_loop_most_turns(graph, id);
        bool is_many = most < 0 || most > MOST_TURNS || turns * most > MOST_TURNS;
        turns = is_many ? MOST_TURNS : turns * most;
    }
    for (uint32_t i = 0; i < first; i++) {
        bar(f, of_value(node->inputs[i]));
    }
    for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
        const ipu_block_data *block = ipu_block_of(graph, ipu_node_block(node, k));
        for (uint32_t i = 0; i < block->params.count; i++) {
            join(f, of_value(node->inputs[first + i]),
                 of_value(block->params.items[i]));
        }
        for (uint32_t i = 0; i < block->results.count; i++) {
            uint32_t result = of_value(block->results.items[i]);
            if (!ipu_node_block_gives_outputs(node, k)) {
                bar(f, result);
                continue;
            }
            join(f, result, of_value(ipu_node_output(node, i)));
            if (is_loop) {
                join(f, result, of_value(block->params.items[i]));
            }
        }
        visit_block(f, ipu_node_block(node, k), turns);
    }
}

static void
visit_view(const finder *f, const ipu_node_data *node)
{
    ipu_value output = ipu_node_output(node, 0);
    uint32_t input = of_value(node->inputs[0]);
    join(f, input, of_value(output));
    if (!ipu_type_equal(type_of(f, node->inputs[0]), type_of(f, output))) {
        bar(f, input);
    }
}

/* Of one value in all its elements: it lies as anybody wants. */
static bool
is_uniform(const finder *f, const ipu_node_data *node)
{
    return node->op == IPU_OP_ID_EMPTY ||
           (node->op == IPU_OP_ID_BROADCAST &&
            ipu_shape_elements(&type_of(f, node->inputs[0])->shape) == 1);
}

static void
visit_node(const finder *f, ipu_node id, int64_t turns)
{
    const ipu_node_data *node = ipu_node_of(f->l->graph, id);
    uint32_t flags = ipu_node_flags(node);
    if (ipu_product_right(node->op) != 0) {
        visit_product(f, node, turns);
    } else if (ipu_node_holds_blocks(node)) {
        visit_holder(f, id, node, turns);
    } else if ((flags & IPU_OP_VIEW) != 0) {
        visit_view(f, node);
    } else if ((flags & IPU_OP_ELEMENTWISE) != 0 || node->op == IPU_OP_ID_ALL_REDUCE) {
        visit_elementwise(f, node);
    } else if (node->op == IPU_OP_ID_VARIABLE_READ) {
        join(f, of_resource(f, ipu_node_resource(node, 0)),
             of_value(ipu_node_output(node, 0)));
    } else if (node->op == IPU_OP_ID_FUSED_UPDATE) {
        visit_fused_update(f, node);
    } else if (node->op == IPU_OP_ID_SGD_UPDATE || node->op == IPU_OP_ID_ADAM_UPDATE ||
               node->op == IPU_OP_ID_VARIABLE_ASSIGN ||
               node->op == IPU_OP_ID_VARIABLE_ADD) {
        visit_update(f, node);
    } else if (!is_uniform(f, node)) {
        bar_all(f, node);
    }
}

static void
visit_block(const finder *f, ipu_block id, int64_t turns)
{
    IPU_EACH_NODE(node, f->l->graph, id) {
        visit_node(f, node, turns);
    }
}

/* --- the choice ------------------------------------------------------------------- */

static void
begin_sets(const finder *f)
{
    const ipu_graph *graph = f->l->graph;
    for (uint32_t i = 0; i < f->count; i++) {
        f->parent[i] = i;
    }
    for (uint32_t i = 0; i < graph->resources.count; i++) {
        const ipu_resource *resource = &graph->resources.items[i];
        const ipu_type *type = &resource->types[0];
        int64_t width = f->l->panel_columns;
        bool fits = resource->kind == IPU_RESOURCE_VARIABLE && !resource->is_remote &&
                    type->dtype == IPU_DTYPE_FLOAT32 && type->shape.rank == 2 &&
                    type->shape.dims[0] > 0 && type->shape.dims[1] > width &&
                    type->shape.dims[1] % width == 0;
        f->is_variable[of_resource(f, i)] = true;
        f->is_barred[of_resource(f, i)] = !fits;
    }
    const ipu_block_data *main_block = ipu_block_of(graph, (ipu_block){0});
    for (size_t i = 0; i < main_block->params.count; i++) {
        bar(f, of_value(main_block->params.items[i]));
    }
    for (size_t i = 0; i < main_block->results.count; i++) {
        bar(f, of_value(main_block->results.items[i]));
    }
}

/* The width of the panels that products of the class have. */
static int64_t
find_columns(const lowering *l)
{
    ipu_type square = {.dtype = IPU_DTYPE_FLOAT32,
                       .shape = {.rank = 2, .dims = {1, 1}}};
    ipu_type factors[2] = {square, square};
    ipu_kernel_spec spec = {.op = IPU_OP_ID_MATMUL,
                            .input_count = 2,
                            .output_count = 1,
                            .inputs = factors,
                            .outputs = &square};
    return ipu_kernel_panel_columns(&spec, l->options->variant, l->options->cpu);
}

ipu_status
ipu__lower_find_panels(lowering *l)
{
    finder f = {.l = l, .count = l->graph->values.count + l->graph->resources.count};
    l->panel_columns =
        l->options->panels == IPU_PANELS_NOWHERE ? 0 : find_columns(l);
    if (l->panel_columns == 0 || l->graph->resources.count == 0) {
        return IPU_OK;
    }
    IPU_TRY(ipu__lower_array(l, f.count, sizeof(*f.parent), &f.parent));
    IPU_TRY(ipu__lower_array(l, f.count, sizeof(bool), &f.is_barred));
    IPU_TRY(ipu__lower_array(l, f.count, sizeof(bool), &f.is_read));
    IPU_TRY(ipu__lower_array(l, f.count, sizeof(bool), &f.is_variable));
    begin_sets(&f);
    visit_block(&f, (ipu_block){0}, 1);
    for (uint32_t i = 0; i < f.count; i++) {
        uint32_t set = set_of(&f, i);
        l->in_panels[i] = f.is_variable[set] && f.is_read[set] && !f.is_barred[set];
    }
    return IPU_OK;
}

ipu_kernel_panels
ipu__lower_panels_of(const lowering *l, const ipu_node_data *node)
{
    ipu_kernel_panels panels = {0};
    if (ipu_product_right(node->op) != 0) {
        uint32_t result = node->op == IPU_OP_ID_MATMUL_SGD_UPDATE
                              ? (uint32_t)l->graph->values.count +
                                    ipu_node_resource(node, 0)
                              : ipu_node_output(node, 0).index;
        panels.right = l->in_panels[node->inputs[ipu_product_right(node->op)].index];
        panels.result = l->in_panels[result];
    }
    panels.columns = panels.right || panels.result ? l->panel_columns : 0;
    return panels;
}
