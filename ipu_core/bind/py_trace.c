/* SPDX-License-Identifier: MIT
 *
 * ipu._core.Trace: the graph of a function while Python builds it. `with trace:` makes
 * it the one that ops go to. */
#define NO_IMPORT_ARRAY
#include "bind/bind.h"
#include "graph/effects.h"
#include "graph/reach.h"
#include "graph/trips.h"
#include "graph/users.h"

enum { HELD_BYTES = 4096, MAX_ATTRS = 24 }; /* larger tensors are not copied */

typedef struct py_trace {
    ipu_py_tape_record base;
    ipu_trace *trace;    /* NULL once it is compiled */
    PyObject *last_file; /* the file name that was interned last, and its copy */
    const char *last_file_text;
    PyObject *name;     /* str: the function, for errors */
    PyObject *captured; /* dict: address of an eager tensor to (tensor, value) */
    int narrow;         /* wider constants: 0 none, 1 integers, 2 floats, too */
} py_trace;

ipu_trace *
ipu_py_trace_of(PyObject *trace)
{
    return ((py_trace *)trace)->trace;
}

/* A constant of a wider dtype as the device has it; NULL with an exception where none
 * is taken, or a number does not fit. */
static ipu_py_tensor *
narrowed(const py_trace *self, ipu_py_tensor *tensor)
{
    bool is_integer = tensor->type.dtype == IPU_DTYPE_INT64;
    bool is_float = tensor->type.dtype == IPU_DTYPE_FLOAT64;
    if (!(is_integer && self->narrow >= 1) && !(is_float && self->narrow >= 2)) {
        PyErr_Format(PyExc_TypeError,
                     "%s does not exist on the device; convert the tensor with tf.cast",
                     ipu_dtype_name(tensor->type.dtype));
        return NULL;
    }
    PyObject *array = PyObject_CallMethod((PyObject *)tensor, "numpy", NULL);
    PyTypeObject *kind = ipu_py_state_of(tensor)->tensor_type;
    PyObject *made = array == NULL ? NULL
                                   : PyObject_CallFunction((PyObject *)kind, "Os", array,
                                                           is_integer ? "int32"
                                                                      : "float32");
    Py_XDECREF(array);
    return (ipu_py_tensor *)made;
}

static bool
is_on_device(const py_trace *self, const ipu_py_tensor *tensor)
{
    return self->trace->graph->host || ipu_dtype_on_device(tensor->type.dtype);
}

static int
capture(py_trace *self, const ipu_py_tensor *given, bool is_large, ipu_value *out)
{
    ipu_ctx ctx = ipu_py_ctx();
    const void *data = ipu_py_tensor_data(given);
    ipu_status status =
        is_large ? ipu_trace_held(&ctx, self->trace, &given->type, data, out)
                 : ipu_trace_constant(&ctx, self->trace, &given->type, data, out);
    return ipu_py_is_ok(&ctx, status) ? 0 : -1;
}

/* An eager tensor as a value: the same one each time, so that a gradient by it can be
 * asked for. A large one is not copied but held, by the programs as well. A small
 * temporary that nobody else holds cannot come again and is not kept. */
int
ipu_py_trace_capture(PyObject *object, ipu_py_tensor *tensor, ipu_value *out)
{
    py_trace *self = (py_trace *)object;
    bool is_same = is_on_device(self, tensor);
    bool is_large = is_same && tensor->storage->bytes >= HELD_BYTES;
    bool is_kept = is_large || Py_REFCNT(tensor) > 1;
    PyObject *key = PyLong_FromVoidPtr(tensor);
    PyObject *known = key == NULL ? NULL : PyDict_GetItemWithError(self->captured, key);
    int result = PyErr_Occurred() ? -1 : 0;
    if (known != NULL) {
        out->index = (uint32_t)PyLong_AsUnsignedLong(PyTuple_GET_ITEM(known, 1));
    } else if (result == 0) {
        ipu_py_tensor *given = is_same ? (ipu_py_tensor *)Py_NewRef((PyObject *)tensor)
                                       : narrowed(self, tensor);
        if (given == NULL || capture(self, given, is_large, out) < 0) {
            result = -1;
        } else if (is_kept) {
            PyObject *entry = Py_BuildValue("(Ok)", tensor, (unsigned long)out->index);
            result = entry == NULL ? -1 : PyDict_SetItem(self->captured, key, entry);
            Py_XDECREF(entry);
        }
        Py_XDECREF((PyObject *)given);
    }
    Py_XDECREF(key);
    return result;
}

void
ipu_py_raise_leaked(const ipu_py_tensor *tensor)
{
    py_trace *self = (py_trace *)tensor->trace;
    const ipu_node_data *node = ipu_producer_of(self->trace->graph, tensor->value);
    const char *name = self->name == NULL ? NULL : PyUnicode_AsUTF8(self->name);
    char made[512] = "an argument of it";
    if (node != NULL) {
        snprintf(made, sizeof(made), "made by %s at %s:%d",
                 ipu_op_info_of(node->op)->name,
                 node->source.file == NULL ? "an unknown line" : node->source.file,
                 (int)node->source.line);
    }
    PyErr_Format(PyExc_TypeError,
                 "a tensor of a traced function (%s) is used outside of the function "
                 "or loop that made it: %s. It has no value there; pass it as an "
                 "argument, or return it; out of a loop, carry it in a variable or a "
                 "tf.TensorArray made before the loop, or enqueue it to an outfeed",
                 name == NULL ? "without a name" : name, made);
}

ipu_source
ipu_py_trace_source(ipu_py_state *state, PyObject *trace)
{
    py_trace *self = (py_trace *)trace;
    PyObject *file;
    ipu_source source = {.line = ipu_py_user_line(state, &file)};
    if (file != NULL && file != self->last_file) {
        ipu_ctx ctx = ipu_py_ctx();
        Py_ssize_t length;
        const char *text = PyUnicode_AsUTF8AndSize(file, &length);
        if (text == NULL ||
            ipu_arena_text(&ctx, &self->trace->graph->arena, text, (size_t)length,
                           &self->last_file_text) != IPU_OK) {
            PyErr_Clear(); /* a node without a source is still a node */
            Py_DECREF(file);
            return (ipu_source){0};
        }
        Py_XSETREF(self->last_file, Py_NewRef(file));
    }
    source.file = file == NULL ? NULL : self->last_file_text;
    Py_XDECREF(file);
    return source;
}

static PyObject *
trace_new(PyTypeObject *cls, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"host", "name", "narrow", NULL};
    int host = 0;
    int narrow = 0;
    PyObject *name = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|pUi:Trace", names, &host, &name,
                                     &narrow)) {
        return NULL;
    }
    py_trace *self = (py_trace *)cls->tp_alloc(cls, 0);
    if (self == NULL) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    self->narrow = narrow;
    self->name = Py_XNewRef(name);
    self->captured = PyDict_New();
    if (self->captured == NULL ||
        !ipu_py_is_ok(&ctx, ipu_trace_create(&ctx, host != 0, &self->trace))) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

/* Tensors lead nowhere: whoever holds a trace in a cycle is cleared, not the trace. */
static int
trace_traverse(PyObject *object, visitproc visit, void *arg)
{
    py_trace *self = (py_trace *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->captured);
    Py_VISIT(self->base.custom_calls);
    return 0;
}

static void
trace_dealloc(PyObject *object)
{
    py_trace *self = (py_trace *)object;
    PyObject_GC_UnTrack(object);
    PyObject_ClearWeakRefs(object);
    ipu_ctx ctx = ipu_py_ctx();
    ipu_trace_free(&ctx, self->trace);
    Py_XDECREF(self->last_file);
    Py_XDECREF(self->name);
    Py_XDECREF(self->captured);
    Py_XDECREF(self->base.custom_calls);
    ipu_py_free(object);
}

/* --- parts of its arguments ------------------------------------------------------ */

static int
check_block(const py_trace *self, unsigned block)
{
    if (block >= self->trace->graph->blocks.count) {
        PyErr_SetString(PyExc_ValueError, "there is no such block");
        return -1;
    }
    return 0;
}

/* The node that makes a tensor in this trace, in *out, or IPU_NO_NODE. */
static int
find_producer(PyObject *object, PyObject *argument, ipu_node *out)
{
    const ipu_py_tensor *tensor;
    if (!PyArg_Parse(argument, "O!;expected a tensor",
                     ipu_py_state_of(object)->tensor_type, &tensor)) {
        return -1;
    }
    *out = tensor->trace == object
               ? ipu_value_of(ipu_py_trace_of(object)->graph, tensor->value)->producer
               : IPU_NO_NODE;
    return 0;
}

/* --- blocks ---------------------------------------------------------------------- */

static PyObject *
trace_enter(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    ipu_py_thread *thread = ipu_py_thread_here(ipu_py_state_of(self));
    return thread == NULL || PyList_Append(thread->traces, self) < 0 ? NULL
                                                                     : Py_NewRef(self);
}

static PyObject *
trace_exit(PyObject *self, PyObject *Py_UNUSED(args))
{
    ipu_py_thread *thread = ipu_py_thread_here(ipu_py_state_of(self));
    if (thread == NULL) {
        return NULL;
    }
    Py_ssize_t last = PyList_GET_SIZE(thread->traces) - 1;
    if (last < 0 || PyList_GET_ITEM(thread->traces, last) != self) {
        PyErr_SetString(PyExc_RuntimeError, "this trace is not the innermost open one");
        return NULL;
    }
    return PyList_SetSlice(thread->traces, last, last + 1, NULL) < 0
               ? NULL
               : Py_NewRef(Py_None);
}

static PyObject *
trace_parameter(PyObject *object, PyObject *args)
{
    py_trace *self = (py_trace *)object;
    unsigned block = 0;
    ipu_type type;
    ipu_value value;
    if (!PyArg_ParseTuple(args, "O&|I:parameter", ipu_py_type_converter, &type,
                          &block) ||
        check_block(self, block) < 0) {
        return NULL;
    }
    ipu_py_state *state = ipu_py_state_of(self);
    ipu_ctx ctx = ipu_py_ctx();
    if (ipu_graph_add_param(&ctx, self->trace->graph, (ipu_block){block}, &type,
                            &value) != IPU_OK) {
        ctx.source = ipu_py_trace_source(state, object);
        return ipu_py_raise(&ctx);
    }
    return (PyObject *)ipu_py_tensor_symbolic(state, object, value);
}

/* A value for the end of `block`, which may be closed by now: its own values, or what
 * can be used where the trace is. */
static int
result_value(py_trace *self, ipu_py_tensor *tensor, unsigned block, ipu_value *out)
{
    if (tensor->storage == NULL && tensor->trace == (PyObject *)self &&
        ipu_value_of(self->trace->graph, tensor->value)->block.index == block) {
        *out = tensor->value;
        return 0;
    }
    return ipu_py_trace_value(ipu_py_state_of(self), tensor, out);
}

static PyObject *
trace_result(PyObject *object, PyObject *args)
{
    py_trace *self = (py_trace *)object;
    unsigned block = 0;
    PyObject *given;
    ipu_value value;
    if (!PyArg_ParseTuple(args, "O|I:result", &given, &block)) {
        return NULL;
    }
    ipu_py_tensor *tensor = ipu_py_as_tensor(ipu_py_state_of(self), given, -1);
    int converted = tensor == NULL ? -1 : result_value(self, tensor, block, &value);
    Py_XDECREF(tensor);
    if (converted < 0 || check_block(self, block) < 0) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    return ipu_py_none(&ctx, ipu_graph_add_result(&ctx, self->trace->graph,
                                                  (ipu_block){block}, value));
}

static PyObject *
trace_zeros(PyObject *object, PyObject *argument)
{
    ipu_graph *graph = ipu_py_trace_of(object)->graph;
    ipu_type type;
    ipu_value value;
    ipu_ctx ctx = ipu_py_ctx();
    if (!ipu_py_type_converter(argument, &type) ||
        !ipu_py_is_ok(&ctx, ipu_type_check(&ctx, &type)) ||
        !ipu_py_is_ok(&ctx, ipu_graph_emit_fill(&ctx, graph, (ipu_block){0},
                                                IPU_NO_NODE, &type, 0.0, &value))) {
        return NULL;
    }
    return (PyObject *)ipu_py_tensor_symbolic(ipu_py_state_of(object), object, value);
}

static PyObject *
trace_open_block(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    ipu_ctx ctx = ipu_py_ctx();
    ipu_block block;
    return ipu_py_is_ok(&ctx, ipu_trace_open_block(&ctx, ipu_py_trace_of(self), &block))
               ? PyLong_FromUnsignedLong(block.index)
               : NULL;
}

static PyObject *
trace_reopen_block(PyObject *self, PyObject *argument)
{
    ipu_block block;
    ipu_ctx ctx = ipu_py_ctx();
    return ipu_py_uint32_converter(argument, &block.index)
               ? ipu_py_none(&ctx,
                             ipu_trace_reopen_block(&ctx, ipu_py_trace_of(self), block))
               : NULL;
}

static PyObject *
trace_sees(PyObject *self, PyObject *argument)
{
    const ipu_py_tensor *tensor;
    if (!PyArg_Parse(argument, "O!;expected a tensor",
                     ipu_py_state_of(self)->tensor_type, &tensor)) {
        return NULL;
    }
    return PyBool_FromLong(tensor->storage != NULL ||
                           (tensor->trace == self &&
                            ipu_trace_visible(ipu_py_trace_of(self), tensor->value)));
}

static PyObject *
trace_close_block(PyObject *self, PyObject *args)
{
    ipu_trace *trace = ipu_py_trace_of(self);
    ipu_block block;
    int drop = 0;
    if (!PyArg_ParseTuple(args, "I|p:close_block", &block.index, &drop)) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_status status = ipu_trace_close_block(&ctx, trace, block);
    if (status == IPU_OK && drop) {
        status = ipu_trace_drop_block(&ctx, trace, block);
    }
    return ipu_py_none(&ctx, status);
}

/* --- nodes that name resources, which ipu_py_apply does not make ----------------- */

/* (kind, id, [types], name) -> index in the graph */
static int
parse_resource(ipu_graph *graph, PyObject *object, int64_t *out)
{
    static const char *const kinds[] = {[IPU_RESOURCE_VARIABLE] = "variable",
                                        [IPU_RESOURCE_INFEED] = "infeed",
                                        [IPU_RESOURCE_OUTFEED] = "outfeed",
                                        [IPU_RESOURCE_HOST] = "host"};
    const char *kind_name;
    const char *name;
    long long id;
    PyObject *list;
    if (!PyArg_ParseTuple(object, "sLOz:resource", &kind_name, &id, &list, &name)) {
        return -1;
    }
    int kind = ipu_py_choice("resource", kind_name, kinds, IPU_RESOURCE_COUNT);
    uint32_t count;
    uint32_t index = 0;
    ipu_type *types =
        kind < 0 ? NULL : ipu_py_types(list, ipu_py_type_converter, &count);
    if (types == NULL) {
        return -1;
    }
    ipu_resource resource = {.kind = (ipu_resource_kind)kind,
                             .id = id,
                             .type_count = count,
                             .types = types,
                             .name = name};
    ipu_ctx ctx = ipu_py_ctx();
    bool is_ok =
        ipu_py_is_ok(&ctx, ipu_graph_add_resource(&ctx, graph, &resource, &index));
    PyMem_Free(types);
    *out = index;
    return is_ok ? 0 : -1;
}

/* Attributes RESOURCE and SLOTS from their descriptions. */
static int
resource_attrs(ipu_graph *graph, PyObject *resources, ipu_ctx *ctx, ipu_arena *arena,
               ipu_attr *attrs, uint32_t *count)
{
    size_t given = (size_t)PyTuple_GET_SIZE(resources);
    int64_t *indices;
    if (!ipu_py_is_ok(
            ctx, ipu_arena_alloc(ctx, arena, given * sizeof(*indices), &indices))) {
        return -1;
    }
    for (size_t i = 0; i < given; i++) {
        if (parse_resource(graph, PyTuple_GET_ITEM(resources, i), &indices[i]) < 0) {
            return -1;
        }
    }
    if (given > 0) {
        attrs[(*count)++] = (ipu_attr){.key = IPU_ATTR_RESOURCE, .as.i = indices[0]};
    }
    if (given > 1) {
        attrs[(*count)++] = (ipu_attr){.key = IPU_ATTR_SLOTS,
                                       .count = (uint32_t)given - 1,
                                       .as.ints = indices + 1};
    }
    return 0;
}

static PyObject *
trace_node(PyObject *self, PyObject *args)
{
    ipu_py_state *state = ipu_py_state_of(self);
    ipu_trace *trace = ipu_py_trace_of(self);
    PyObject *sequence;
    PyObject *dict;
    PyObject *resources;
    ipu_op op;
    ipu_attr attrs[MAX_ATTRS];
    uint32_t attr_count;
    uint32_t input_count;
    ipu_node node;
    if (!PyArg_ParseTuple(args, "O&OOO!:node", ipu_py_op_converter, &op, &sequence,
                          &dict, &PyTuple_Type, &resources)) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_arena arena = {0};
    PyObject *result = NULL;
    ipu_value *values = ipu_py_trace_inputs(state, sequence, &input_count);
    if (values != NULL &&
        ipu_py_parse_attrs(dict, &ctx, &arena, attrs, MAX_ATTRS - 2, &attr_count) ==
            0 &&
        resource_attrs(trace->graph, resources, &ctx, &arena, attrs, &attr_count) ==
            0 &&
        ipu_py_is_ok(&ctx, ipu_trace_node(&ctx, trace, op, values, input_count, attrs,
                                          attr_count, ipu_py_trace_source(state, self),
                                          NULL, &node))) {
        result = ipu_py_node_result(state, self, node);
    }
    PyMem_Free(values);
    ipu_arena_free(&ctx, &arena);
    return result;
}

static PyObject *
trace_uses(PyObject *self, PyObject *args)
{
    long long id;
    ipu_op op;
    if (!PyArg_ParseTuple(args, "O&L:uses", ipu_py_op_converter, &op, &id)) {
        return NULL;
    }
    ipu_resource_kind kind = op == IPU_OP_ID_INFEED_DEQUEUE    ? IPU_RESOURCE_INFEED
                             : op == IPU_OP_ID_OUTFEED_ENQUEUE ? IPU_RESOURCE_OUTFEED
                                                               : IPU_RESOURCE_VARIABLE;
    return PyBool_FromLong(ipu_trace_uses(ipu_py_trace_of(self), op, kind, id));
}

typedef struct use_finder {
    ipu_value value;
    bool found;
} use_finder;

static ipu_status
find_use(void *state, ipu_value *place, ipu_node user)
{
    use_finder *finder = state;
    (void)user;
    finder->found |= place->index == finder->value.index;
    return IPU_OK;
}

/* The result of a function of the host's that nothing has used yet gets another shape.
 * Returns (the resource's id, which of its types), or None where it is something else. */
static PyObject *
trace_set_host_shape(PyObject *self, PyObject *args)
{
    ipu_graph *graph = ipu_py_trace_of(self)->graph;
    ipu_py_state *state = ipu_py_state_of(self);
    PyObject *object;
    ipu_type type;
    if (!PyArg_ParseTuple(args, "O!O&:set_host_shape", state->tensor_type, &object,
                          ipu_py_type_converter, &type)) {
        return NULL;
    }
    ipu_py_tensor *tensor = (ipu_py_tensor *)object;
    ipu_value value = tensor->value;
    const ipu_node_data *node =
        tensor->trace == self ? ipu_producer_of(graph, value) : NULL;
    const ipu_node_data *made = node;
    if (node != NULL && node->op == IPU_OP_ID_CUSTOM_GRADIENT) {
        value = node->inputs[0];
        made = ipu_producer_of(graph, value);
    }
    use_finder finder = {.value = tensor->value};
    ipu_ctx ctx = ipu_py_ctx();
    for (uint32_t b = 0; b < graph->blocks.count; b++) {
        if (!ipu_is_node(ipu_block_of(graph, (ipu_block){b})->owner) &&
            !ipu_py_is_ok(
                &ctx, ipu_block_each_use(graph, (ipu_block){b}, find_use, &finder))) {
            return NULL;
        }
    }
    if (made == NULL || made->op != IPU_OP_ID_HOST_CALL || finder.found ||
        type.dtype != tensor->type.dtype) {
        Py_RETURN_NONE;
    }
    const ipu_resource *host = &graph->resources.items[ipu_node_resource(made, 0)];
    uint32_t number = made->input_count;
    while (ipu_node_output(made, number - made->input_count).index != value.index) {
        number++;
    }
    ((ipu_type *)(uintptr_t)host->types)[number] = type; /* the graph's own */
    ipu_value_of(graph, value)->type = type;
    ipu_value_of(graph, tensor->value)->type = type;
    tensor->type = type;
    return Py_BuildValue("(LI)", (long long)host->id, number);
}

/* The variable of the trace with this id; NULL: it does not use it. */
static ipu_resource *
find_variable(PyObject *self, long long id)
{
    const ipu_graph *graph = ipu_py_trace_of(self)->graph;
    uint32_t number = ipu_graph_find_resource(graph, IPU_RESOURCE_VARIABLE, id);
    return number == IPU_NO_INDEX ? NULL : &graph->resources.items[number];
}

static PyObject *
trace_move_to_remote(PyObject *self, PyObject *argument)
{
    long long id;
    if (!PyArg_Parse(argument, "L:move_to_remote", &id)) {
        return NULL;
    }
    ipu_resource *variable = find_variable(self, id);
    if (variable != NULL) {
        variable->is_remote = true;
    }
    Py_RETURN_NONE;
}

static PyObject *
trace_share_out(PyObject *self, PyObject *argument)
{
    long long id;
    if (!PyArg_Parse(argument, "L:share_out", &id)) {
        return NULL;
    }
    ipu_resource *variable = find_variable(self, id);
    if (variable != NULL) {
        variable->is_shared = true;
    }
    Py_RETURN_NONE;
}

/* --- where nodes belong: a recomputation, a stage, the way back, what is reached -- */

static PyObject *
trace_recompute(PyObject *self, PyObject *argument)
{
    long long ordinal;
    if (!PyArg_Parse(argument, "L:recompute", &ordinal)) {
        return NULL;
    }
    ipu_trace_mark mark = ipu_trace_recompute(ipu_py_trace_of(self), ordinal);
    return Py_BuildValue("(LII)", (long long)mark.next_ordinal, mark.recomputation,
                         mark.node_count);
}

static PyObject *
trace_resume(PyObject *self, PyObject *args)
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
    ipu_trace *trace = ipu_py_trace_of(self);
    if (begin > end || end > again || again > trace->graph->nodes.count) {
        PyErr_SetString(PyExc_ValueError, "there are no such nodes");
        return NULL;
    }
    ipu_trace_resume(trace, (ipu_trace_mark){ordinal, recomputation, again}, begin,
                     end);
    Py_RETURN_NONE;
}

static PyObject *
trace_last_node(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    const ipu_trace *trace = ipu_py_trace_of(self);
    return PyLong_FromUnsignedLong(
        ipu_block_of(trace->graph, ipu_trace_block(trace))->last.index);
}

static PyObject *
trace_mark_backward(PyObject *self, PyObject *argument)
{
    ipu_trace *trace = ipu_py_trace_of(self);
    ipu_node after;
    if (!ipu_py_uint32_converter(argument, &after.index)) {
        return NULL;
    }
    if (ipu_is_node(after) && after.index >= trace->graph->nodes.count) {
        PyErr_SetString(PyExc_ValueError, "there is no such node");
        return NULL;
    }
    ipu_trace_mark_backward(trace, after);
    Py_RETURN_NONE;
}

static PyObject *
trace_stage_of(PyObject *self, PyObject *argument)
{
    ipu_node node;
    if (find_producer(self, argument, &node) < 0) {
        return NULL;
    }
    return PyLong_FromLong(
        ipu_is_node(node)
            ? ipu_node_of(ipu_py_trace_of(self)->graph, node)->placement.stage
            : -1);
}

static PyObject *
trace_node_of(PyObject *self, PyObject *argument)
{
    ipu_node node;
    if (find_producer(self, argument, &node) < 0) {
        return NULL;
    }
    return PyLong_FromLong(ipu_is_node(node) ? (long)node.index : -1);
}

static int
parse_rule(PyObject *item, ipu_reach *rule)
{
    int from;
    if (!PyArg_ParseTuple(item, "iIIII:rule", &from, &rule->first, &rule->end,
                          &rule->target, &rule->target_end)) {
        return -1;
    }
    if (from < 0 || from >= IPU_REACH_FROM_COUNT) {
        PyErr_SetString(PyExc_ValueError, "a rule begins with 0, 1 or 2");
        return -1;
    }
    rule->from = (ipu_reach_from)from;
    return 0;
}

static PyObject *
trace_drop_unreached(PyObject *self, PyObject *args)
{
    unsigned first;
    PyObject *list;
    if (!PyArg_ParseTuple(args, "IO:drop_unreached", &first, &list)) {
        return NULL;
    }
    PyObject *items = PySequence_Tuple(list);
    if (items == NULL) {
        return NULL;
    }
    uint32_t count = (uint32_t)PyTuple_GET_SIZE(items);
    ipu_trace *trace = ipu_py_trace_of(self);
    ipu_reach *rules = PyMem_Calloc((size_t)count + 1, sizeof(*rules));
    int parsed = rules == NULL ? -1 : 0;
    for (uint32_t i = 0; parsed == 0 && i < count; i++) {
        parsed = parse_rule(PyTuple_GET_ITEM(items, i), &rules[i]);
    }
    ipu_ctx ctx = ipu_py_ctx();
    PyObject *result = NULL;
    if (rules == NULL) {
        PyErr_NoMemory();
    } else if (parsed == 0) {
        result = ipu_py_none(&ctx, ipu_graph_drop_unreached(&ctx, trace->graph,
                                                            ipu_trace_block(trace),
                                                            first, rules, count));
    }
    PyMem_Free(rules);
    Py_DECREF(items);
    return result;
}

static PyObject *
trace_linear(PyObject *self, PyObject *argument)
{
    const ipu_py_tensor *tensor = (const ipu_py_tensor *)argument;
    if (!ipu_py_is_tensor(ipu_py_state_of(self), argument) || tensor->trace != self) {
        PyErr_SetString(PyExc_TypeError, "expected a tensor of this trace");
        return NULL;
    }
    ipu_linear found = ipu_value_as_linear(ipu_py_trace_of(self)->graph, tensor->value);
    return Py_BuildValue("(ILL)", found.root.index, (long long)found.scale,
                         (long long)found.offset);
}

/* --- what a block captures ------------------------------------------------------- */

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

static ipu_value
captured_input(const captures *c, const ipu_node_data *node)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (is_captured(c, node->inputs[i])) {
            return node->inputs[i];
        }
    }
    return IPU_NO_VALUE;
}

/* The first one that a node of `block`, or of a block in it, uses. */
static ipu_value
captured_in(const captures *c, ipu_block block)
{
    ipu_value found = IPU_NO_VALUE;
    for (ipu_node n = ipu_block_first(c->graph, block);
         found.index == IPU_NO_INDEX && ipu_is_node(n);
         n = ipu_node_next(c->graph, n)) {
        const ipu_node_data *node = ipu_node_of(c->graph, n);
        found = captured_input(c, node);
        for (uint32_t k = 0;
             found.index == IPU_NO_INDEX && k < ipu_node_block_count(node); k++) {
            found = captured_in(c, ipu_node_block(node, k));
        }
    }
    return found;
}

/* The first one that a node from the first one on uses. */
static ipu_value
captured_since(const captures *c)
{
    ipu_value found = IPU_NO_VALUE;
    for (uint32_t n = c->first_node;
         found.index == IPU_NO_INDEX && n < c->graph->nodes.count; n++) {
        found = captured_input(c, ipu_node_of(c->graph, (ipu_node){n}));
    }
    return found;
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

static PyObject *
trace_captures(PyObject *object, PyObject *args)
{
    py_trace *self = (py_trace *)object;
    PyObject *inside;
    PyObject *sequence;
    captures c = {.graph = self->trace->graph, .block = IPU_NO_BLOCK};
    if (!PyArg_ParseTuple(args, "OO:captures", &inside, &sequence)) {
        return NULL;
    }
    bool is_mark = PyTuple_Check(inside);
    if (is_mark ? !PyArg_ParseTuple(inside, "II:mark", &c.first_node, &c.first_block)
                : !ipu_py_uint32_converter(inside, &c.block.index) ||
                      check_block(self, c.block.index) < 0) {
        return NULL;
    }
    ipu_value *allowed =
        ipu_py_trace_inputs(ipu_py_state_of(self), sequence, &c.allowed_count);
    if (allowed == NULL) {
        return NULL;
    }
    c.allowed = allowed;
    ipu_value found = is_mark ? captured_since(&c) : captured_in(&c, c.block);
    PyMem_Free(allowed);
    return found.index == IPU_NO_INDEX ? Py_NewRef(Py_None) : describe(c.graph, found);
}

/* --- programs -------------------------------------------------------------------- */

static PyObject *
trace_compile(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"device", "fuse", "reference", "verify", "ipu", NULL};
    py_trace *self = (py_trace *)object;
    PyObject *device = Py_None;
    PyObject *ipu = Py_None;
    ipu_py_account_request request;
    int fuse = 1;
    int reference = 0;
    int verify = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OpppO:compile", names, &device,
                                     &fuse, &reference, &verify, &ipu) ||
        (ipu != Py_None && !ipu_py_account_converter(ipu, &request))) {
        return NULL;
    }
    if (self->trace->open.count != 1) {
        PyErr_SetString(PyExc_RuntimeError, "a block is still open");
        return NULL;
    }
    return ipu_py_program_compile(ipu_py_state_of(self), self->trace->graph,
                                  self->captured, device, fuse != 0, reference != 0,
                                  verify != 0, ipu == Py_None ? NULL : &request);
}

static PyObject *
trace_account(PyObject *object, PyObject *request)
{
    return ipu_py_account(ipu_py_state_of(object), ((py_trace *)object)->trace->graph,
                          request);
}

/* A program of what was cut out of the trace, for one value or for a call's way back;
 * the graph is freed. */
static PyObject *
compile_part(py_trace *self, ipu_graph *graph, PyObject *device)
{
    PyObject *program = ipu_py_program_compile(
        ipu_py_state_of(self), graph, self->captured, device, true, false, false, NULL);
    ipu_ctx ctx = ipu_py_ctx();
    ipu_graph_free(&ctx, graph);
    return program;
}

static PyObject *
trace_evaluate(PyObject *object, PyObject *args)
{
    py_trace *self = (py_trace *)object;
    ipu_py_state *state = ipu_py_state_of(self);
    ipu_py_tensor *tensor;
    PyObject *device;
    ipu_value value;
    ipu_graph *graph;
    ipu_ctx ctx = ipu_py_ctx();
    if (!PyArg_ParseTuple(args, "O!O:evaluate", state->tensor_type, &tensor, &device) ||
        ipu_py_trace_value(state, tensor, &value) < 0 ||
        !ipu_py_is_ok(&ctx, ipu_trace_lift(&ctx, self->trace, value, &graph))) {
        return NULL;
    }
    PyObject *program = compile_part(self, graph, device);
    PyObject *outputs =
        program == NULL ? NULL : PyObject_CallMethod(program, "run", "(())");
    PyObject *result = outputs == NULL ? NULL : PySequence_GetItem(outputs, 0);
    Py_XDECREF(outputs);
    Py_XDECREF(program);
    return result;
}

static PyObject *
trace_split(PyObject *object, PyObject *args)
{
    py_trace *self = (py_trace *)object;
    ipu_node mark;
    unsigned inputs;
    PyObject *sequence;
    PyObject *device;
    uint32_t count;
    uint32_t saved;
    ipu_graph *graph;
    if (!PyArg_ParseTuple(args, "IIOO:split", &mark.index, &inputs, &sequence,
                          &device)) {
        return NULL;
    }
    ipu_value *values = ipu_py_trace_inputs(ipu_py_state_of(self), sequence, &count);
    ipu_ctx ctx = ipu_py_ctx();
    PyObject *program = NULL;
    if (values != NULL &&
        ipu_py_is_ok(&ctx, ipu_trace_split(&ctx, self->trace, mark, inputs, values,
                                           count, &graph, &saved))) {
        program = compile_part(self, graph, device);
    }
    PyMem_Free(values);
    return program == NULL ? NULL : Py_BuildValue("(NI)", program, saved);
}

/* --- attributes ------------------------------------------------------------------ */

static PyObject *
captured_tensors(const py_trace *self)
{
    PyObject *entries = PyDict_Values(self->captured);
    for (Py_ssize_t i = 0; entries != NULL && i < PyList_GET_SIZE(entries); i++) {
        PyObject *tensor = PyTuple_GET_ITEM(PyList_GET_ITEM(entries, i), 0);
        PyList_SetItem(entries, i, Py_NewRef(tensor));
    }
    return entries;
}

static PyObject *
text_of(const py_trace *self)
{
    ipu_ctx ctx = ipu_py_ctx();
    char *text;
    size_t bytes;
    ipu_status status = ipu_graph_print(&ctx, self->trace->graph, &text, &bytes);
    return ipu_py_text(&ctx, status, text, bytes);
}

/* A part of the placement that nodes are added with. */
static int
set_scope(PyObject *value, const char *what, int least, int most, int16_t *out)
{
    int overflow = 0;
    long number =
        value == NULL ? least - 1 : PyLong_AsLongAndOverflow(value, &overflow);
    if (!PyErr_Occurred() && (overflow != 0 || number < least || number > most)) {
        PyErr_Format(PyExc_ValueError, "%s is a number from %d to %d", what, least,
                     most);
    }
    if (PyErr_Occurred()) {
        return -1;
    }
    *out = (int16_t)number;
    return 0;
}

#define SCOPE(name, what, least, most) \
    static int set_##name(PyObject *self, PyObject *value, void *Py_UNUSED(closure)) \
    { \
        return set_scope(value, (what), (least), (most), \
                         &ipu_py_trace_of(self)->placement.name); \
    }
SCOPE(stage, "a stage", -1, INT16_MAX)
SCOPE(shard, "a shard", -1, INT16_MAX)
SCOPE(rounding, "rounding", IPU_ROUNDING_AS_CONFIGURED, IPU_ROUNDING_SCOPE_STOCHASTIC)

static int
set_scope_name(PyObject *object, PyObject *value, void *Py_UNUSED(closure))
{
    py_trace *self = (py_trace *)object;
    Py_ssize_t length;
    const char *text = NULL;
    if (value != NULL && value != Py_None) {
        text = PyUnicode_AsUTF8AndSize(value, &length);
        ipu_ctx ctx = ipu_py_ctx();
        if (text == NULL ||
            !ipu_py_is_ok(&ctx, ipu_arena_text(&ctx, &self->trace->graph->arena, text,
                                               (size_t)length, &text))) {
            return -1;
        }
    }
    self->trace->scope = text;
    return 0;
}

#define ATTRIBUTES(X, T) \
    X(T, host, PyBool_FromLong(self->trace->graph->host), NULL, \
      "Whether it is for the host, with wider dtypes.") \
    X(T, text, text_of(self), NULL, "The graph's text form.") \
    X(T, next_ordinal, PyLong_FromLongLong(self->trace->next_ordinal), NULL, \
      "The number of the next random op.") \
    X(T, stage, PyLong_FromLong(self->trace->placement.stage), set_stage, \
      "The stage of a pipeline that nodes are added to; -1: none.") \
    X(T, shard, PyLong_FromLong(self->trace->placement.shard), set_shard, \
      "The IPU of a device that nodes are added to; -1: not said.") \
    X(T, rounding, PyLong_FromLong(self->trace->placement.rounding), set_rounding, \
      "How float16 is rounded: 0 as the device does, 1 to nearest, 2 stochastically.") \
    X(T, scope, Py_BuildValue("z", self->trace->scope), set_scope_name, \
      "The name of nodes that are added without one; None: none.") \
    X(T, node_count, PyLong_FromSize_t(self->trace->graph->nodes.count), NULL, \
      "How many nodes were made.") \
    X(T, mark, \
      Py_BuildValue("nn", self->trace->graph->nodes.count, \
                    self->trace->graph->blocks.count), \
      NULL, "For `captures`: what is made from here on.") \
    X(T, captured, captured_tensors(self), NULL, "The eager tensors that it uses.")
IPU_PY_ATTRIBUTES(py_trace, ATTRIBUTES);

static PyMethodDef trace_methods[] = {
    {"__enter__", trace_enter, METH_NOARGS, "Opens the trace."},
    {"__exit__", trace_exit, METH_VARARGS, "Closes the trace."},
    {"parameter", trace_parameter, METH_VARARGS, "A new parameter of a block."},
    {"result", trace_result, METH_VARARGS, "Appends a result to a block."},
    {"zeros", trace_zeros, METH_O, "Zeros that every block can use."},
    {"open_block", trace_open_block, METH_NOARGS,
     "Opens a block in the innermost one."},
    {"sees", trace_sees, METH_O,
     "Whether a tensor can be used in the innermost open block."},
    {"reopen_block", trace_reopen_block, METH_O,
     "Opens a block again that is closed and that no node holds yet."},
    {"close_block", trace_close_block, METH_VARARGS,
     "Closes the innermost block; with `drop` it was traced in vain."},
    {"node", trace_node, METH_VARARGS,
     "A node that names resources: each (kind, id, types, name), the first one its "
     "own, the others its slots."},
    {"recompute", trace_recompute, METH_O,
     "From here on nodes make values a second time; the first time, `next_ordinal` was "
     "`ordinal`. Give its result to `resume`."},
    {"resume", trace_resume, METH_VARARGS,
     "Ends what `recompute` began: it made nodes [begin, end) a second time."},
    {"last_node", trace_last_node, METH_NOARGS,
     "The last node of the innermost block, for mark_backward."},
    {"mark_backward", trace_mark_backward, METH_O,
     "Says of the nodes of the innermost block after that one that they go backwards."},
    {"set_host_shape", trace_set_host_shape, METH_VARARGS,
     "Gives an unused result of a function of the host's another shape."},
    {"share_out", trace_share_out, METH_O,
     "Lets replicas have a part each of a variable that the trace uses, not a copy."},
    {"move_to_remote", trace_move_to_remote, METH_O,
     "Puts a variable that the trace uses into remote memory: nodes work on copies."},
    {"captures", trace_captures, METH_VARARGS,
     "Describes a tensor from outside that a node inside uses, and that is not a "
     "constant and not `allowed`; None: there is none. Inside is a block, or what was "
     "made since a `mark`."},
    {"node_of", trace_node_of, METH_O,
     "The number of the node that makes a tensor; -1: none."},
    {"drop_unreached", trace_drop_unreached, METH_VARARGS,
     "Takes out the nodes of the innermost block from `first` on that no rule reaches. "
     "A rule (from, first, end, target, target_end) reaches the nodes from `target` to "
     "before `target_end`: always where `from` is 0, with one of the nodes from "
     "`first` to before `end` where it is 1, with the node that holds block `first` "
     "where it is 2."},
    {"stage_of", trace_stage_of, METH_O,
     "The stage of a pipeline that makes a tensor; -1: none."},
    {"linear", trace_linear, METH_O,
     "(root, scale, offset) of an int32 scalar that is scale * root + offset; the root "
     "is the number of a value."},
    {"uses", trace_uses, METH_VARARGS,
     "Whether a node of this op names the resource; blocks that were thrown away do "
     "not count."},
    {"gradients", IPU_PY_FUNCTION(ipu_py_trace_gradients), METH_VARARGS | METH_KEYWORDS,
     "The derivatives of sum(ys * grad_ys); each x a tensor, or the id of a variable: "
     "of all its reads. With `spans`, (begin, end) pairs of node numbers, the other "
     "nodes are constants, and an x that depends on nothing of `watched` has no "
     "gradient. With spans, custom(index, gradients) is called for each call of a "
     "function with a gradient of its own, and tensors and variables of `stops` are "
     "constants unless they are among xs."},
    {"evaluate", trace_evaluate, METH_VARARGS,
     "The value of a tensor of this trace that depends on nothing which is known only "
     "when the program runs."},
    {"split", trace_split, METH_VARARGS,
     "Cuts off what was traced after node number `mark`: (Program, saved). The trace "
     "keeps its first parameters, and its last `saved` results are the program's "
     "inputs after all the parameters."},
    {"compile", IPU_PY_FUNCTION(trace_compile), METH_VARARGS | METH_KEYWORDS,
     "The passes, then a Program."},
    {"account", trace_account, METH_O,
     "What the graph would cost on an IPU, in place of a program, for a request: "
     "(chip, "
     "(share of a tile for matmuls, for convolutions), (whether these sum float16 in "
     "float16), replicas, IPUs of the device where replicas is 0, whether compile "
     "gives "
     "it of programs that fit, too)."},
    {NULL, NULL, 0, NULL},
};

IPU_PY_TYPE(trace, "Trace", py_trace, Py_TPFLAGS_HAVE_GC,
            {Py_tp_doc, "The graph of a function while it is built."},
            {Py_tp_new, trace_new}, {Py_tp_dealloc, trace_dealloc},
            {Py_tp_traverse, trace_traverse}, {Py_tp_members, ipu_py_tape_record_members},
            {Py_tp_methods, trace_methods}, {Py_tp_getset, py_trace_getset});
