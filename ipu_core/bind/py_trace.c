/* SPDX-License-Identifier: MIT
 *
 * ipu._core.Trace: the graph of a function while Python builds it. `with trace:` makes
 * it the one that ops go to. */
#define NO_IMPORT_ARRAY
#include "bind/bind.h"

#include <stddef.h>
#include <structmember.h>

#include "bind/py_trace.h"

enum { HELD_BYTES = 4096 }; /* from here on tensors are not copied */

ipu_trace *
ipu_py_trace_of(PyObject *trace)
{
    return ((ipu_py_trace *)trace)->trace;
}

/* An eager tensor as a value: the same one each time, so that a gradient by it can be
 * asked for. A large one is not copied but held, by the programs as well. A small
 * temporary that nobody else holds cannot come again and is not kept. */
int
ipu_py_trace_capture(PyObject *trace, ipu_py_tensor *tensor, ipu_value *out)
{
    ipu_py_trace *self = (ipu_py_trace *)trace;
    bool is_large = tensor->storage->bytes >= HELD_BYTES;
    PyObject *key = PyLong_FromVoidPtr(tensor);
    PyObject *known = key == NULL ? NULL : PyDict_GetItemWithError(self->captured, key);
    int result = PyErr_Occurred() ? -1 : 0;
    if (known != NULL) {
        out->index = (uint32_t)PyLong_AsUnsignedLong(PyTuple_GET_ITEM(known, 1));
    } else if (result == 0) {
        ipu_ctx ctx = ipu_py_ctx();
        const void *data = ipu_py_tensor_data(tensor);
        ipu_status status =
            is_large ? ipu_trace_held(&ctx, self->trace, &tensor->type, data, out)
                     : ipu_trace_constant(&ctx, self->trace, &tensor->type, data, out);
        if (status != IPU_OK) {
            ipu_py_raise(ipu_py_state_of_type(Py_TYPE(self)), &ctx);
            result = -1;
        } else if (is_large || Py_REFCNT(tensor) > 1) {
            PyObject *entry = Py_BuildValue("(Ok)", tensor, (unsigned long)out->index);
            result = entry == NULL ? -1 : PyDict_SetItem(self->captured, key, entry);
            Py_XDECREF(entry);
        }
    }
    Py_XDECREF(key);
    return result;
}

void
ipu_py_raise_leaked(const ipu_py_tensor *tensor)
{
    ipu_py_trace *self = (ipu_py_trace *)tensor->trace;
    const ipu_graph *graph = self->trace->graph;
    const ipu_value_data *value = ipu_value_of(graph, tensor->value);
    const char *name = self->name == NULL ? NULL : PyUnicode_AsUTF8(self->name);
    char made[512] = "an argument of it";
    if (value->producer.index != IPU_NO_INDEX) {
        const ipu_node_data *node = ipu_node_of(graph, value->producer);
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

static ipu_py_state *
state_of(ipu_py_trace *self)
{
    return ipu_py_state_of_type(Py_TYPE(self));
}

ipu_source
ipu_py_trace_source(ipu_py_state *state, PyObject *trace)
{
    ipu_py_trace *self = (ipu_py_trace *)trace;
    PyObject *file;
    ipu_source source = {.line = ipu_py_user_line(state, &file)};
    if (file == NULL) {
        return source;
    }
    if (file != self->last_file) {
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
    Py_DECREF(file);
    source.file = self->last_file_text;
    return source;
}

static PyObject *
trace_new(PyTypeObject *cls, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"host", "name", NULL};
    int host = 0;
    PyObject *name = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|pU:Trace", names, &host, &name)) {
        return NULL;
    }
    ipu_py_trace *self = (ipu_py_trace *)cls->tp_alloc(cls, 0);
    if (self == NULL) {
        return NULL;
    }
    self->name = Py_XNewRef(name);
    self->captured = PyDict_New();
    if (self->captured == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    if (ipu_trace_create(&ctx, host != 0, &self->trace) != IPU_OK) {
        Py_DECREF(self);
        return ipu_py_raise(ipu_py_state_of_type(cls), &ctx);
    }
    return (PyObject *)self;
}

/* Tensors lead nowhere: whoever holds a trace in a cycle is cleared, not the trace. */
static int
trace_traverse(PyObject *object, visitproc visit, void *arg)
{
    ipu_py_trace *self = (ipu_py_trace *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->captured);
    return 0;
}

static void
trace_dealloc(PyObject *object)
{
    ipu_py_trace *self = (ipu_py_trace *)object;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(object);
    ipu_ctx ctx = ipu_py_ctx();
    PyObject_ClearWeakRefs(object);
    ipu_trace_free(&ctx, self->trace);
    Py_XDECREF(self->last_file);
    Py_XDECREF(self->name);
    Py_XDECREF(self->captured);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *
trace_enter(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    ipu_py_thread *thread = ipu_py_thread_here(state_of((ipu_py_trace *)self));
    return thread == NULL || PyList_Append(thread->traces, self) < 0 ? NULL
                                                                     : Py_NewRef(self);
}

static PyObject *
trace_exit(PyObject *self, PyObject *Py_UNUSED(args))
{
    ipu_py_thread *thread = ipu_py_thread_here(state_of((ipu_py_trace *)self));
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

PyObject *
ipu_py_trace_fail(ipu_py_trace *self, ipu_ctx *ctx)
{
    return ipu_py_raise(state_of(self), ctx);
}

static PyObject *
trace_parameter(PyObject *object, PyObject *args)
{
    ipu_py_trace *self = (ipu_py_trace *)object;
    unsigned block = 0;
    PyObject *type_object;
    ipu_type type;
    ipu_value value;
    if (!PyArg_ParseTuple(args, "O|I:parameter", &type_object, &block) ||
        ipu_py_parse_type_tuple(type_object, false, &type) < 0) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    if (block >= self->trace->graph->blocks.count) {
        PyErr_SetString(PyExc_ValueError, "there is no such block");
        return NULL;
    }
    if (ipu_graph_add_param(&ctx, self->trace->graph, (ipu_block){block}, &type,
                            &value) != IPU_OK) {
        ctx.source = ipu_py_trace_source(state_of(self), object);
        return ipu_py_trace_fail(self, &ctx);
    }
    return (PyObject *)ipu_py_tensor_symbolic(state_of(self), object, &type, value);
}

/* A value for the end of `block`, which may be closed by now: its own values, or what
 * can be used where the trace is. */
static int
result_value(ipu_py_trace *self, ipu_py_tensor *tensor, unsigned block, ipu_value *out)
{
    if (tensor->storage == NULL && tensor->trace == (PyObject *)self &&
        ipu_value_of(self->trace->graph, tensor->value)->block.index == block) {
        *out = tensor->value;
        return 0;
    }
    return ipu_py_trace_value(state_of(self), tensor, out);
}

static PyObject *
trace_result(PyObject *object, PyObject *args)
{
    ipu_py_trace *self = (ipu_py_trace *)object;
    ipu_py_state *state = state_of(self);
    unsigned block = 0;
    PyObject *tensor_object;
    ipu_value value;
    if (!PyArg_ParseTuple(args, "O|I:result", &tensor_object, &block)) {
        return NULL;
    }
    ipu_py_tensor *tensor = ipu_py_as_tensor(state, tensor_object, -1);
    if (tensor == NULL) {
        return NULL;
    }
    int converted = result_value(self, tensor, block, &value);
    Py_DECREF(tensor);
    if (converted < 0) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    if (block >= self->trace->graph->blocks.count) {
        PyErr_SetString(PyExc_ValueError, "there is no such block");
        return NULL;
    }
    if (ipu_graph_add_result(&ctx, self->trace->graph, (ipu_block){block}, value) !=
        IPU_OK) {
        return ipu_py_trace_fail(self, &ctx);
    }
    Py_RETURN_NONE;
}

static PyObject *
trace_zeros(PyObject *object, PyObject *type_object)
{
    ipu_py_trace *self = (ipu_py_trace *)object;
    ipu_type type;
    ipu_value value;
    if (ipu_py_parse_type_tuple(type_object, false, &type) < 0) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    if (ipu_type_check(&ctx, &type) != IPU_OK ||
        ipu_graph_emit_fill(&ctx, self->trace->graph, (ipu_block){0}, IPU_NO_NODE,
                            &type, 0.0, &value) != IPU_OK) {
        return ipu_py_trace_fail(self, &ctx);
    }
    return (PyObject *)ipu_py_tensor_symbolic(state_of(self), object, &type, value);
}

static PyObject *
trace_open_block(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    ipu_py_trace *self = (ipu_py_trace *)object;
    ipu_ctx ctx = ipu_py_ctx();
    ipu_block block;
    if (ipu_trace_open_block(&ctx, self->trace, &block) != IPU_OK) {
        return ipu_py_trace_fail(self, &ctx);
    }
    return PyLong_FromUnsignedLong(block.index);
}

static PyObject *
trace_reopen_block(PyObject *object, PyObject *argument)
{
    ipu_py_trace *self = (ipu_py_trace *)object;
    unsigned long block = PyLong_AsUnsignedLong(argument);
    if (block == (unsigned long)-1 && PyErr_Occurred()) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    if (ipu_trace_reopen_block(&ctx, self->trace, (ipu_block){(uint32_t)block}) !=
        IPU_OK) {
        return ipu_py_trace_fail(self, &ctx);
    }
    Py_RETURN_NONE;
}

static PyObject *
trace_sees(PyObject *object, PyObject *argument)
{
    ipu_py_trace *self = (ipu_py_trace *)object;
    ipu_py_tensor *tensor = (ipu_py_tensor *)argument;
    if (!ipu_py_is_tensor(state_of(self), argument)) {
        PyErr_SetString(PyExc_TypeError, "expected a tensor");
        return NULL;
    }
    return PyBool_FromLong(
        tensor->storage != NULL ||
        (tensor->trace == object && ipu_trace_visible(self->trace, tensor->value)));
}

static PyObject *
trace_close_block(PyObject *object, PyObject *args)
{
    ipu_py_trace *self = (ipu_py_trace *)object;
    unsigned block;
    int drop = 0;
    if (!PyArg_ParseTuple(args, "I|p:close_block", &block, &drop)) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    if (ipu_trace_close_block(&ctx, self->trace, (ipu_block){block}) != IPU_OK ||
        (drop &&
         ipu_trace_drop_block(&ctx, self->trace, (ipu_block){block}) != IPU_OK)) {
        return ipu_py_trace_fail(self, &ctx);
    }
    Py_RETURN_NONE;
}

static PyObject *
trace_get_captured(PyObject *object, void *Py_UNUSED(closure))
{
    PyObject *entries = PyDict_Values(((ipu_py_trace *)object)->captured);
    for (Py_ssize_t i = 0; entries != NULL && i < PyList_GET_SIZE(entries); i++) {
        PyObject *tensor = PyTuple_GET_ITEM(PyList_GET_ITEM(entries, i), 0);
        PyList_SetItem(entries, i, Py_NewRef(tensor));
    }
    return entries;
}

static PyObject *
trace_get_text(PyObject *object, void *Py_UNUSED(closure))
{
    ipu_py_trace *self = (ipu_py_trace *)object;
    ipu_ctx ctx = ipu_py_ctx();
    char *text;
    size_t bytes;
    if (ipu_graph_print(&ctx, self->trace->graph, &text, &bytes) != IPU_OK) {
        return ipu_py_trace_fail(self, &ctx);
    }
    PyObject *result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)bytes - 1, "replace");
    ipu_free(&ctx, text, bytes);
    return result;
}

static PyObject *
trace_get_nodes(PyObject *object, void *Py_UNUSED(closure))
{
    return PyLong_FromSize_t(((ipu_py_trace *)object)->trace->graph->nodes.count);
}

static PyObject *
trace_get_mark(PyObject *object, void *Py_UNUSED(closure))
{
    const ipu_graph *graph = ipu_py_trace_of(object)->graph;
    return Py_BuildValue("nn", (Py_ssize_t)graph->nodes.count,
                         (Py_ssize_t)graph->blocks.count);
}

static PyObject *
trace_uses(PyObject *object, PyObject *args)
{
    PyObject *name;
    long long id;
    ipu_op op;
    if (!PyArg_ParseTuple(args, "OL:uses", &name, &id) ||
        ipu_py_parse_op(name, &op) < 0) {
        return NULL;
    }
    ipu_resource_kind kind = op == IPU_OP_ID_INFEED_DEQUEUE    ? IPU_RESOURCE_INFEED
                             : op == IPU_OP_ID_OUTFEED_ENQUEUE ? IPU_RESOURCE_OUTFEED
                                                               : IPU_RESOURCE_VARIABLE;
    return PyBool_FromLong(
        ipu_trace_uses(((ipu_py_trace *)object)->trace, op, kind, id));
}

static PyMethodDef trace_methods[] = {
    {"__enter__", trace_enter, METH_NOARGS, "__enter__()\n--\n\nOpens the trace."},
    {"__exit__", trace_exit, METH_VARARGS, "__exit__(*args)\n--\n\nCloses the trace."},
    {"parameter", trace_parameter, METH_VARARGS,
     "parameter(type, block=0)\n--\n\nA new parameter of a block."},
    {"result", trace_result, METH_VARARGS,
     "result(tensor, block=0)\n--\n\nAppends a result to a block."},
    {"zeros", trace_zeros, METH_O,
     "zeros(type)\n--\n\nZeros that every block can use."},
    {"open_block", trace_open_block, METH_NOARGS,
     "open_block()\n--\n\nOpens a block inside the innermost one."},
    {"sees", trace_sees, METH_O,
     "sees(tensor)\n--\n\nWhether a tensor can be used in the innermost open block."},
    {"reopen_block", trace_reopen_block, METH_O,
     "reopen_block(block)\n--\n\nOpens a block again that is closed and that no node "
     "holds yet."},
    {"close_block", trace_close_block, METH_VARARGS,
     "close_block(block, drop=False)\n--\n\nCloses the innermost block; drop: it was "
     "traced in vain."},
    {"node", ipu_py_trace_node, METH_VARARGS,
     "node(op, inputs, attrs, resources)\n--\n\nA node that names resources: each "
     "(kind, id, types, name), the first one its own, the others its slots."},
    {"recompute", ipu_py_trace_recompute, METH_O,
     "recompute(ordinal)\n--\n\nFrom here on nodes make values a second time; the "
     "first time, `next_ordinal` was `ordinal`. What it returns goes to `resume`."},
    {"resume", ipu_py_trace_resume, METH_VARARGS,
     "resume(ordinal, recomputation, again, begin, end)\n--\n\nEnds what `recompute` "
     "began: it made the nodes [begin, end) a second time."},
    {"last_node", ipu_py_trace_last_node, METH_NOARGS,
     "last_node()\n--\n\nThe last node of the innermost block, for mark_backward."},
    {"mark_backward", ipu_py_trace_mark_backward, METH_O,
     "mark_backward(after)\n--\n\nSays of the nodes of the innermost block behind node "
     "`after` that they go backwards."},
    {"move_to_remote", ipu_py_trace_move_to_remote, METH_O,
     "move_to_remote(id)\n--\n\nPuts a variable that the trace uses into remote "
     "memory: "
     "nodes work on copies."},
    {"captures", ipu_py_trace_captured, METH_VARARGS,
     "captures(inside, allowed)\n--\n\nDescribes a tensor from outside that a node "
     "inside uses, and that is not a constant and not `allowed`; None: there is none. "
     "Inside is a block, or what was made since a `mark`."},
    {"node_of", ipu_py_trace_node_of, METH_O,
     "node_of(tensor)\n--\n\nThe number of the node that makes a tensor; -1: none."},
    {"drop_unreached", ipu_py_trace_drop_unreached, METH_VARARGS,
     "drop_unreached(first, rules)\n--\n\nTakes out the nodes of the innermost block "
     "from `first` on that no rule reaches. A rule (from, first, end, target, "
     "target_end) reaches the nodes from `target` to before `target_end`: always where "
     "`from` is 0, with one of the nodes from `first` to before `end` where it is 1, "
     "with the node that holds block `first` where it is 2."},
    {"stage_of", ipu_py_trace_stage_of, METH_O,
     "stage_of(tensor)\n--\n\nThe stage of a pipeline that makes a tensor; -1: none."},
    {"linear", ipu_py_trace_linear, METH_O,
     "linear(tensor)\n--\n\n(root, scale, offset) of an int32 scalar that is scale * "
     "root + offset; the root is the number of a value."},
    {"uses", trace_uses, METH_VARARGS,
     "uses(op, id)\n--\n\nWhether a node of this op names the resource; blocks that "
     "were thrown away do not count."},
    {"gradients", (PyCFunction)(void (*)(void))ipu_py_trace_gradients,
     METH_VARARGS | METH_KEYWORDS,
     "gradients(ys, grad_ys, xs, spans=None, watched=None, custom=None, "
     "stops=None)\n--\n\nThe derivatives of "
     "sum(ys * grad_ys); each x a tensor, or the id of a variable: of all its reads. "
     "With `spans`, (begin, end) pairs of node numbers, the other nodes are constants, "
     "and an x that depends on nothing of `watched` has no gradient. With spans, "
     "custom(index, gradients) is called for each call of a function with a gradient "
     "of its own, and tensors and variables of `stops` are constants unless they are "
     "among xs."},
    {"evaluate", ipu_py_trace_evaluate, METH_VARARGS,
     "evaluate(tensor, device)\n--\n\nThe value of a tensor of this trace that "
     "depends on nothing which is known only when the program runs."},
    {"split", ipu_py_trace_split, METH_VARARGS,
     "split(mark, inputs, gradients, device)\n--\n\nCuts off what was traced behind "
     "node number `mark`: (Program, saved). The trace keeps its first parameters, and "
     "its last `saved` results are the program's inputs behind all the parameters."},
    {"compile", (PyCFunction)(void (*)(void))ipu_py_trace_compile,
     METH_VARARGS | METH_KEYWORDS,
     "compile(device=None, fuse=True, reference=False, verify=False)\n--\n\nThe "
     "passes, "
     "then a Program."},
    {NULL, NULL, 0, NULL},
};

static PyObject *
trace_get_host(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(ipu_py_trace_of(self)->graph->host);
}

static PyGetSetDef trace_getset[] = {
    {"host", trace_get_host, NULL, "Whether it is for the host, with wider dtypes.",
     NULL},
    {"text", trace_get_text, NULL, "The graph's text form.", NULL},
    {"next_ordinal", ipu_py_trace_get_ordinal, NULL,
     "The number of the next random op.", NULL},
    {"stage", ipu_py_trace_get_stage, ipu_py_trace_set_stage,
     "The stage of a pipeline that nodes are added to; -1: none.", NULL},
    {"shard", ipu_py_trace_get_shard, ipu_py_trace_set_shard,
     "The IPU of a device that nodes are added to; -1: not said.", NULL},
    {"rounding", ipu_py_trace_get_rounding, ipu_py_trace_set_rounding,
     "How float16 is rounded: 0 as the device does, 1 to nearest, 2 stochastically.",
     NULL},
    {"node_count", trace_get_nodes, NULL, "How many nodes were made.", NULL},
    {"mark", trace_get_mark, NULL, "For `captures`: what is made from here on.", NULL},
    {"captured", trace_get_captured, NULL, "The eager tensors that it uses.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef trace_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(ipu_py_trace, weak_references),
     READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

__extension__ static PyType_Slot trace_slots[] = {
    {Py_tp_doc, "Trace(host=False, name='')\n--\n\nThe graph of a function while it is "
                "built."},
    {Py_tp_new, trace_new},
    {Py_tp_dealloc, trace_dealloc},
    {Py_tp_traverse, trace_traverse},
    {Py_tp_members, trace_members},
    {Py_tp_methods, trace_methods},
    {Py_tp_getset, trace_getset},
    {0, NULL},
};

PyType_Spec ipu_py_trace_spec = {
    .name = "ipu._core.Trace",
    .basicsize = sizeof(ipu_py_trace),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = trace_slots,
};
