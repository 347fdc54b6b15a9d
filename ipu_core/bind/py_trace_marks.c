/* SPDX-License-Identifier: MIT
 *
 * Methods of ipu._core.Trace that say of nodes where they belong: to a recomputation,
 * to a stage of a pipeline, to the way back, to what is reached; and of a scalar what
 * it is made of. */
#define NO_IMPORT_ARRAY
#include "bind/py_trace.h"

#include "graph/reach.h"
#include "graph/trips.h"

typedef IPU_ARRAY(ipu_reach) ipu_py_rules;

PyObject *
ipu_py_trace_recompute(PyObject *object, PyObject *ordinal)
{
    long long first = PyLong_AsLongLong(ordinal);
    if (first == -1 && PyErr_Occurred()) {
        return NULL;
    }
    ipu_trace_mark mark = ipu_trace_recompute(ipu_py_trace_of(object), first);
    return Py_BuildValue("(LII)", (long long)mark.next_ordinal, mark.recomputation,
                         mark.node_count);
}

PyObject *
ipu_py_trace_resume(PyObject *object, PyObject *args)
{
    long long ordinal;
    unsigned recomputation;
    unsigned again;
    unsigned begin;
    unsigned end;
    if (!PyArg_ParseTuple(args, "LIIII:resume", &ordinal, &recomputation, &again,
                          &begin, &end)) {
        return NULL;
    }
    ipu_trace *trace = ipu_py_trace_of(object);
    if (begin > end || end > again || again > trace->graph->nodes.count) {
        PyErr_SetString(PyExc_ValueError, "there are no such nodes");
        return NULL;
    }
    ipu_trace_resume(trace, (ipu_trace_mark){ordinal, recomputation, again}, begin,
                     end);
    Py_RETURN_NONE;
}

PyObject *
ipu_py_trace_last_node(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    const ipu_trace *trace = ipu_py_trace_of(object);
    return PyLong_FromUnsignedLong(
        ipu_block_of(trace->graph, ipu_trace_block(trace))->last.index);
}

PyObject *
ipu_py_trace_mark_backward(PyObject *object, PyObject *after)
{
    ipu_trace *trace = ipu_py_trace_of(object);
    unsigned long node = PyLong_AsUnsignedLong(after);
    if (node == (unsigned long)-1 && PyErr_Occurred()) {
        return NULL;
    }
    if (node != IPU_NO_INDEX && node >= trace->graph->nodes.count) {
        PyErr_SetString(PyExc_ValueError, "there is no such node");
        return NULL;
    }
    ipu_trace_mark_backward(trace, (ipu_node){(uint32_t)node});
    Py_RETURN_NONE;
}

PyObject *
ipu_py_trace_stage_of(PyObject *object, PyObject *argument)
{
    ipu_py_state *state = ipu_py_state_of_type(Py_TYPE(object));
    const ipu_py_tensor *tensor = (const ipu_py_tensor *)argument;
    if (!ipu_py_is_tensor(state, argument)) {
        PyErr_SetString(PyExc_TypeError, "expected a tensor");
        return NULL;
    }
    const ipu_node_data *node =
        tensor->trace == object
            ? ipu_producer_of(ipu_py_trace_of(object)->graph, tensor->value)
            : NULL;
    return PyLong_FromLong(node == NULL ? -1 : node->placement.stage);
}

PyObject *
ipu_py_trace_node_of(PyObject *object, PyObject *argument)
{
    ipu_py_state *state = ipu_py_state_of_type(Py_TYPE(object));
    const ipu_py_tensor *tensor = (const ipu_py_tensor *)argument;
    if (!ipu_py_is_tensor(state, argument)) {
        PyErr_SetString(PyExc_TypeError, "expected a tensor");
        return NULL;
    }
    long number = -1;
    if (tensor->trace == object) {
        const ipu_graph *graph = ipu_py_trace_of(object)->graph;
        ipu_node node = ipu_value_of(graph, tensor->value)->producer;
        number = ipu_is_node(node) ? (long)node.index : -1;
    }
    return PyLong_FromLong(number);
}

static int
push_rule(ipu_ctx *ctx, PyObject *item, ipu_py_rules *rules)
{
    int from;
    ipu_reach rule;
    if (!PyArg_ParseTuple(item, "iIIII:rule", &from, &rule.first, &rule.end,
                          &rule.target, &rule.target_end)) {
        return -1;
    }
    if (from < 0 || from >= IPU_REACH_FROM_COUNT) {
        PyErr_SetString(PyExc_ValueError, "a rule begins with 0, 1 or 2");
        return -1;
    }
    rule.from = (ipu_reach_from)from;
    return IPU_ARRAY_PUSH(ctx, rules, rule) == IPU_OK ? 0 : -1;
}

PyObject *
ipu_py_trace_drop_unreached(PyObject *object, PyObject *args)
{
    unsigned first;
    PyObject *list;
    if (!PyArg_ParseTuple(args, "IO:drop_unreached", &first, &list)) {
        return NULL;
    }
    ipu_trace *trace = ipu_py_trace_of(object);
    ipu_ctx ctx = ipu_py_ctx();
    ipu_py_rules rules = {0};
    PyObject *items = PySequence_Tuple(list);
    int result = items == NULL ? -1 : 0;
    for (Py_ssize_t i = 0; result == 0 && i < PyTuple_GET_SIZE(items); i++) {
        result = push_rule(&ctx, PyTuple_GET_ITEM(items, i), &rules);
    }
    if (result == 0 &&
        ipu_graph_drop_unreached(&ctx, trace->graph, ipu_trace_block(trace), first,
                                 rules.items, (uint32_t)rules.count) != IPU_OK) {
        result = -1;
    }
    Py_XDECREF(items);
    IPU_ARRAY_FREE(&ctx, &rules);
    if (result < 0) {
        if (!PyErr_Occurred()) {
            ipu_py_raise(ipu_py_state_of_type(Py_TYPE(object)), &ctx);
        }
        return NULL;
    }
    Py_RETURN_NONE;
}

PyObject *
ipu_py_trace_linear(PyObject *object, PyObject *argument)
{
    ipu_py_state *state = ipu_py_state_of_type(Py_TYPE(object));
    const ipu_py_tensor *tensor = (const ipu_py_tensor *)argument;
    if (!ipu_py_is_tensor(state, argument) || tensor->trace != object) {
        PyErr_SetString(PyExc_TypeError, "expected a tensor of this trace");
        return NULL;
    }
    ipu_linear found =
        ipu_value_as_linear(ipu_py_trace_of(object)->graph, tensor->value);
    return Py_BuildValue("(kLL)", (unsigned long)found.root.index,
                         (long long)found.scale, (long long)found.offset);
}

PyObject *
ipu_py_trace_get_stage(PyObject *object, void *Py_UNUSED(closure))
{
    return PyLong_FromLong(ipu_py_trace_of(object)->placement.stage);
}

int
ipu_py_trace_set_stage(PyObject *object, PyObject *value, void *Py_UNUSED(closure))
{
    long stage = value == NULL ? -2 : PyLong_AsLong(value);
    if (stage < -1 || stage > INT16_MAX) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "a stage is a number from -1 to 32767");
        }
        return -1;
    }
    ipu_py_trace_of(object)->placement.stage = (int16_t)stage;
    return 0;
}

PyObject *
ipu_py_trace_get_shard(PyObject *object, void *Py_UNUSED(closure))
{
    return PyLong_FromLong(ipu_py_trace_of(object)->placement.shard);
}

int
ipu_py_trace_set_shard(PyObject *object, PyObject *value, void *Py_UNUSED(closure))
{
    long shard = value == NULL ? -2 : PyLong_AsLong(value);
    if (shard < -1 || shard > INT16_MAX) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "a shard is a number from -1 to 32767");
        }
        return -1;
    }
    ipu_py_trace_of(object)->placement.shard = (int16_t)shard;
    return 0;
}

PyObject *
ipu_py_trace_get_rounding(PyObject *object, void *Py_UNUSED(closure))
{
    return PyLong_FromLong(ipu_py_trace_of(object)->placement.rounding);
}

int
ipu_py_trace_set_rounding(PyObject *object, PyObject *value, void *Py_UNUSED(closure))
{
    long rounding = value == NULL ? -1 : PyLong_AsLong(value);
    if (rounding < IPU_ROUNDING_AS_CONFIGURED ||
        rounding > IPU_ROUNDING_SCOPE_STOCHASTIC) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "rounding is 0, 1 or 2");
        }
        return -1;
    }
    ipu_py_trace_of(object)->placement.rounding = (int16_t)rounding;
    return 0;
}

PyObject *
ipu_py_trace_get_ordinal(PyObject *object, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(ipu_py_trace_of(object)->next_ordinal);
}

PyObject *
ipu_py_trace_move_to_remote(PyObject *object, PyObject *id)
{
    const ipu_graph *graph = ipu_py_trace_of(object)->graph;
    long long wanted = PyLong_AsLongLong(id);
    if (wanted == -1 && PyErr_Occurred()) {
        return NULL;
    }
    for (size_t i = 0; i < graph->resources.count; i++) {
        ipu_resource *resource = &graph->resources.items[i];
        if (resource->kind == IPU_RESOURCE_VARIABLE && resource->id == wanted) {
            resource->is_remote = true;
        }
    }
    Py_RETURN_NONE;
}

/* --- what a block captures -------------------------------------------------------- */

typedef struct captures {
    const ipu_graph *graph;
    ipu_block block;      /* what is inside; or IPU_NO_BLOCK: */
    uint32_t first_node;  /* all nodes from this one on, */
    uint32_t first_block; /* and parameters of blocks from this one on */
    const ipu_value *allowed;
    uint32_t allowed_count;
} captures;

static bool
is_inside(const captures *c, ipu_value value)
{
    const ipu_value_data *data = ipu_value_of(c->graph, value);
    if (c->block.index == IPU_NO_BLOCK.index) {
        return ipu_is_node(data->producer) ? data->producer.index >= c->first_node
                                           : data->block.index >= c->first_block;
    }
    return ipu_graph_is_around(c->graph, c->block, data->block);
}

/* Whether a value comes from outside and is not a constant. */
static bool
is_captured(const captures *c, ipu_value value)
{
    const ipu_node_data *node = ipu_producer_of(c->graph, value);
    if (is_inside(c, value)) {
        return false;
    }
    while (node != NULL && node->op == IPU_OP_ID_BROADCAST) {
        node = ipu_producer_of(c->graph, node->inputs[0]);
    }
    if (node != NULL &&
        (node->op == IPU_OP_ID_CONSTANT || node->op == IPU_OP_ID_HELD)) {
        return false;
    }
    for (uint32_t i = 0; i < c->allowed_count; i++) {
        if (c->allowed[i].index == value.index) {
            return false;
        }
    }
    return true;
}

/* The first such value that a node of `block`, or of a block in it, uses. */
static ipu_value
find_captured(const captures *c, ipu_block block)
{
    for (ipu_node n = ipu_block_first(c->graph, block); ipu_is_node(n);
         n = ipu_node_next(c->graph, n)) {
        const ipu_node_data *node = ipu_node_of(c->graph, n);
        for (uint32_t i = 0; i < node->input_count; i++) {
            if (is_captured(c, node->inputs[i])) {
                return node->inputs[i];
            }
        }
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            ipu_value found = find_captured(c, ipu_node_block(node, k));
            if (found.index != IPU_NO_INDEX) {
                return found;
            }
        }
    }
    return IPU_NO_VALUE;
}

/* The same of all nodes from the first one on. */
static ipu_value
find_captured_since(const captures *c)
{
    for (uint32_t n = c->first_node; n < c->graph->nodes.count; n++) {
        const ipu_node_data *node = ipu_node_of(c->graph, (ipu_node){n});
        for (uint32_t i = 0; i < node->input_count; i++) {
            if (is_captured(c, node->inputs[i])) {
                return node->inputs[i];
            }
        }
    }
    return IPU_NO_VALUE;
}

static PyObject *
describe(const ipu_graph *graph, ipu_value value)
{
    const ipu_node_data *node = ipu_producer_of(graph, value);
    char type[128];
    ipu_type_print(&ipu_value_of(graph, value)->type, type, sizeof(type));
    if (node == NULL) {
        return PyUnicode_FromFormat("(an argument, %s)", type);
    }
    return PyUnicode_FromFormat(
        "(%s, %s, made at %s:%d)", ipu_op_info_of(node->op)->name, type,
        node->source.file == NULL ? "an unknown line" : node->source.file,
        (int)node->source.line);
}

PyObject *
ipu_py_trace_captured(PyObject *object, PyObject *args)
{
    ipu_py_state *state = ipu_py_state_of_type(Py_TYPE(object));
    const ipu_graph *graph = ipu_py_trace_of(object)->graph;
    PyObject *inside;
    PyObject *sequence;
    PyObject *result = NULL;
    captures c = {.graph = graph, .block = IPU_NO_BLOCK};
    if (!PyArg_ParseTuple(args, "OO:captured", &inside, &sequence)) {
        return NULL;
    }
    if (PyTuple_Check(inside)) {
        if (!PyArg_ParseTuple(inside, "II:captured", &c.first_node, &c.first_block)) {
            return NULL;
        }
    } else {
        c.block.index = (uint32_t)PyLong_AsUnsignedLong(inside);
        if (PyErr_Occurred()) {
            return NULL;
        }
        if (c.block.index >= graph->blocks.count) {
            PyErr_SetString(PyExc_ValueError, "there is no such block");
            return NULL;
        }
    }
    ipu_py_tensor **tensors = ipu_py_tensors(state, sequence, &c.allowed_count);
    ipu_value *allowed =
        tensors == NULL ? NULL : PyMem_Malloc((c.allowed_count + 1) * sizeof(*allowed));
    c.allowed = allowed;
    if (tensors == NULL) {
        return NULL;
    }
    if (allowed == NULL) {
        PyErr_NoMemory();
    } else if (ipu_py_trace_values(state, tensors, c.allowed_count, allowed) == 0) {
        ipu_value found = c.block.index == IPU_NO_BLOCK.index
                              ? find_captured_since(&c)
                              : find_captured(&c, c.block);
        result =
            found.index == IPU_NO_INDEX ? Py_NewRef(Py_None) : describe(graph, found);
    }
    PyMem_Free(allowed);
    ipu_py_tensors_release(tensors, c.allowed_count);
    return result;
}
