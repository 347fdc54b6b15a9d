/* SPDX-License-Identifier: MIT
 *
 * Part of the pass `fuse` (fuse.c): a tree of element-wise nodes of one shape becomes a
 * micro-program (base/op.h). Trees are planned from the last node to the first, so that
 * a value's users are all decided when its turn comes, and made in program order. */
#include "passes/fuse_impl.h"

static bool
is_elementwise(const ipu_node_data *node)
{
    return node != NULL && (ipu_node_flags(node) & IPU_OP_ELEMENTWISE) != 0 &&
           node->op != IPU_OP_ID_FUSED_ELEMENTWISE;
}

/* A tree while it grows: `members` in the order of joining, `open` the operands of
 * members that have not been looked at; the others are inputs. */
typedef struct tree {
    ipu_node members[IPU_FUSED_MAX_INSTRUCTIONS];
    uint32_t member_count;
    ipu_value open[3 * IPU_FUSED_MAX_INSTRUCTIONS];
    uint32_t open_count;
    ipu_value inputs[IPU_FUSED_MAX_INPUTS];
    uint32_t input_count;
} tree;

static void
add_open(tree *t, ipu_value value)
{
    for (uint32_t i = 0; i < t->open_count; i++) {
        if (t->open[i].index == value.index) {
            return;
        }
    }
    t->open[t->open_count++] = value;
}

static void
add_member(ipu__fuser *f, tree *t, ipu_node id)
{
    const ipu_node_data *node = ipu_node_of(f->graph, id);
    t->members[t->member_count++] = id;
    for (uint32_t i = 0; i < node->input_count; i++) {
        f->tree_uses.items[node->inputs[i].index]++;
        add_open(t, node->inputs[i]);
    }
}

/* Whether all users of `value` are in the tree, and its node may be computed there. */
static bool
can_join(const ipu__fuser *f, ipu_node root, ipu_value value)
{
    const ipu_node_data *node = ipu_producer_of(f->graph, value);
    ipu_node id = ipu_value_of(f->graph, value)->producer;
    if (!is_elementwise(node) || f->notes.items[id.index].root.index != IPU_NO_INDEX ||
        !ipu__fuse_may_join(f, id, root) ||
        f->tree_uses.items[value.index] != ipu_uses_count(&f->uses, value)) {
        return false;
    }
    ipu_value out = ipu_node_output(ipu_node_of(f->graph, root), 0);
    return ipu_shape_equal(&ipu_value_of(f->graph, out)->type.shape,
                           &ipu_value_of(f->graph, value)->type.shape);
}

/* How many inputs the tree would have if `node` joined in place of its result: what is
 * open or an input already, and the operands of the node that are new. */
static bool
inputs_fit(const tree *t, const ipu_node_data *node)
{
    uint32_t count = t->open_count + t->input_count - 1;
    for (uint32_t i = 0; i < node->input_count; i++) {
        bool known = false;
        for (uint32_t k = 0; k < t->open_count; k++) {
            known |= t->open[k].index == node->inputs[i].index;
        }
        for (uint32_t k = 0; k < t->input_count; k++) {
            known |= t->inputs[k].index == node->inputs[i].index;
        }
        count += known ? 0 : 1;
    }
    return count <= IPU_FUSED_MAX_INPUTS;
}

/* The open value that is made last: all of its users in the block have been seen. */
static uint32_t
latest_open(const ipu__fuser *f, const tree *t)
{
    uint32_t best = 0;
    int64_t best_position = -1;
    for (uint32_t i = 0; i < t->open_count; i++) {
        ipu_node node = ipu_value_of(f->graph, t->open[i])->producer;
        int64_t position = node.index == IPU_NO_INDEX
                               ? -1
                               : (int64_t)f->notes.items[node.index].position;
        if (position > best_position) {
            best = i;
            best_position = position;
        }
    }
    return best;
}

static void
plan_tree(ipu__fuser *f, ipu_node root)
{
    tree t = {.member_count = 0};
    add_member(f, &t, root);
    /* A value can only have been made before its users, so taking the latest first
     * means that a value's users are all decided when its turn comes. */
    while (t.open_count > 0) {
        uint32_t at = latest_open(f, &t);
        ipu_value value = t.open[at];
        ipu_node id = ipu_value_of(f->graph, value)->producer;
        bool joins = t.member_count < IPU_FUSED_MAX_INSTRUCTIONS &&
                     can_join(f, root, value) &&
                     inputs_fit(&t, ipu_node_of(f->graph, id));
        t.open[at] = t.open[--t.open_count];
        if (joins) {
            add_member(f, &t, id);
        } else {
            t.inputs[t.input_count++] = value;
        }
    }
    for (uint32_t i = 0; i < t.member_count; i++) {
        const ipu_node_data *node = ipu_node_of(f->graph, t.members[i]);
        for (uint32_t k = 0; k < node->input_count; k++) {
            f->tree_uses.items[node->inputs[k].index] = 0;
        }
        if (t.member_count > 1) {
            ipu__node_note *note = &f->notes.items[t.members[i].index];
            note->root = root;
            note->next = i + 1 < t.member_count ? t.members[i + 1] : IPU_NO_NODE;
        }
    }
}

static void
plan_block(ipu__fuser *f, ipu_block id)
{
    for (ipu_node node_id = ipu_block_of(f->graph, id)->last; ipu_is_node(node_id);
         node_id = ipu_node_of(f->graph, node_id)->previous) {
        const ipu_node_data *node = ipu_node_of(f->graph, node_id);
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            plan_block(f, ipu_node_block(node, k));
        }
        if (is_elementwise(node) &&
            f->notes.items[node_id.index].root.index == IPU_NO_INDEX) {
            plan_tree(f, node_id);
        }
    }
}

void
ipu__fuse_plan_trees(ipu__fuser *f)
{
    plan_block(f, (ipu_block){0});
}

/* The input's place in `inputs`, which grows. */
static int64_t
operand_of(ipu_value value, ipu_value *inputs, uint32_t *count)
{
    for (uint32_t i = 0; i < *count; i++) {
        if (inputs[i].index == value.index) {
            return i;
        }
    }
    inputs[*count] = value;
    return (*count)++;
}

/* The tree as code. Members joined from the last to the first. */
static ipu_status
emit_tree(ipu__rewriter *r, ipu_node root, ipu_value *out)
{
    const ipu__fuser *f = r->state;
    ipu_node members[IPU_FUSED_MAX_INSTRUCTIONS];
    ipu_value results[IPU_FUSED_MAX_INSTRUCTIONS];
    ipu_value inputs[3 * IPU_FUSED_MAX_INSTRUCTIONS];
    int64_t code[IPU_FUSED_MAX_INSTRUCTIONS * IPU_FUSED_WORDS];
    uint32_t count = 0;
    uint32_t input_count = 0;
    for (ipu_node at = root; at.index != IPU_NO_INDEX;
         at = f->notes.items[at.index].next) {
        members[count++] = at;
    }
    for (uint32_t i = 0; i < count / 2; i++) {
        ipu_node swapped = members[i];
        members[i] = members[count - 1 - i];
        members[count - 1 - i] = swapped;
    }
    for (uint32_t pass = 0; pass < 2; pass++) { /* first the inputs, then the code */
        for (uint32_t i = 0; i < count; i++) {
            const ipu_node_data *node = ipu_node_of(r->graph, members[i]);
            int64_t *words = &code[i * IPU_FUSED_WORDS];
            results[i] = ipu_node_output(node, 0);
            words[0] = (int64_t)node->op;
            words[1] = (int64_t)ipu_value_of(r->graph, results[i])->type.dtype;
            for (uint32_t k = 0; k < 3; k++) {
                words[2 + k] = -1;
                for (uint32_t m = 0; m < i && k < node->input_count; m++) {
                    if (results[m].index == node->inputs[k].index) {
                        words[2 + k] = (int64_t)(input_count + m);
                    }
                }
                if (k < node->input_count && words[2 + k] < 0) {
                    words[2 + k] = operand_of(node->inputs[k], inputs, &input_count);
                }
            }
        }
    }
    ipu_attr attr = ipu_attr_ints(IPU_ATTR_CODE, code, count * IPU_FUSED_WORDS);
    return ipu_graph_emit(r->ctx, r->graph, ipu_node_of(r->graph, root)->block, root,
                          IPU_OP_ID_FUSED_ELEMENTWISE, inputs, input_count, &attr, 1,
                          out);
}

ipu_status
ipu__fuse_visit_tree(ipu__rewriter *r, ipu_node id, bool *keep)
{
    const ipu__fuser *f = r->state;
    ipu_node root =
        id.index < f->notes.count ? f->notes.items[id.index].root : IPU_NO_NODE;
    if (root.index == IPU_NO_INDEX) {
        return IPU_OK;
    }
    *keep = false;
    if (root.index != id.index) {
        return IPU_OK;
    }
    ipu_value fused;
    IPU_TRY(emit_tree(r, root, &fused));
    return ipu__replace(r, ipu_node_output(ipu_node_of(r->graph, root), 0), fused);
}
