/* SPDX-License-Identifier: MIT
 *
 * ipu._core.Recorder: what the eager tapes of a thread record. In: eager ops with at
 * least one input that is watched. Out: a graph of them, with the tensor of every value
 * at hand. For `gradients` autodiff adds nodes to that graph, and those that the
 * results need are computed at once, each with the tensors of its inputs.
 *
 * Tapes that are active together share one recorder: what one of them computes for a
 * gradient is recorded for the others, which gives higher derivatives. A tape tells its
 * part of the graph by node numbers.
 *
 * A tensor is known by its object: the recorder keeps it alive, so an address stays its
 * own. Values are numbered densely; `known[value]` is the tensor, and whether a
 * gradient may flow to it. One thread; GIL held. */
#define NO_IMPORT_ARRAY
#include "bind/gradient_request.h"

#include <string.h>

enum { FEW_INPUTS = 16 }; /* that need no memory of the heap */

typedef struct recorded {
    PyObject *tensor; /* owned */
    bool is_watched;
} recorded;

typedef struct py_recorder {
    ipu_py_tape_record base;
    ipu_graph *graph;
    IPU_ARRAY(recorded) known; /* by value */
    ipu_id_map values;         /* by the address of their tensors */
} py_recorder;

/* --- values ---------------------------------------------------------------------- */

/* IPU_NO_VALUE where no recorded op uses or makes the tensor. */
static ipu_value
value_of(const py_recorder *self, const void *tensor)
{
    uint32_t none = IPU_NO_INDEX;
    return (ipu_value){ipu_id_map_get(&self->values, (uintptr_t)tensor, none)};
}

/* The tensor of a value that the graph has just got. */
static ipu_status
set_value(ipu_ctx *ctx, py_recorder *self, ipu_value value, ipu_py_tensor *tensor,
          bool watched)
{
    IPU_TRY(IPU_ARRAY_EXTEND(ctx, &self->known, (size_t)value.index + 1, NULL));
    IPU_TRY(ipu_id_map_put(ctx, &self->values, (uintptr_t)tensor, value.index));
    self->known.items[value.index] = (recorded){Py_NewRef((PyObject *)tensor), watched};
    return IPU_OK;
}

/* The value of a tensor; one that no recorded op made becomes a parameter. */
static ipu_status
take(ipu_ctx *ctx, py_recorder *self, ipu_py_tensor *tensor, ipu_value *out)
{
    *out = value_of(self, tensor);
    if (out->index != IPU_NO_INDEX) {
        return IPU_OK;
    }
    IPU_TRY(ipu_graph_add_param(ctx, self->graph, (ipu_block){0}, &tensor->type, out));
    return set_value(ctx, self, *out, tensor, false);
}

static bool
is_watched(const py_recorder *self, ipu_value value)
{
    return value.index < self->known.count && self->known.items[value.index].is_watched;
}

/* --- recording ------------------------------------------------------------------- */

static ipu_status
record(ipu_ctx *ctx, ipu_py_state *state, py_recorder *self, ipu_op op,
       ipu_py_tensor *const *inputs, ipu_value *values, uint32_t input_count,
       ipu_attrs attrs, ipu_py_tensor *const *outputs, uint32_t output_count)
{
    ipu_node node;
    PyObject *file;
    for (uint32_t i = 0; i < input_count; i++) {
        IPU_TRY(take(ctx, self, inputs[i], &values[i]));
    }
    ipu_node_request request = {
        .op = op, .attrs = attrs.items, .attr_count = attrs.count};
    request.source.line = ipu_py_user_line(state, &file);
    if (file != NULL) {
        Py_DECREF(file); /* the line's file outlives the op, not the recorder */
    }
    IPU_TRY(ipu_graph_add_node(ctx, self->graph, (ipu_block){0}, &request, values,
                               input_count, &node));
    for (uint32_t i = 0; i < output_count; i++) {
        ipu_value output = ipu_node_output(ipu_node_of(self->graph, node), i);
        bool carries = ipu_dtype_is_float(outputs[i]->type.dtype);
        IPU_TRY(set_value(ctx, self, output, outputs[i], carries));
    }
    return IPU_OK;
}

int
ipu_py_record(ipu_py_state *state, PyObject *recorder, ipu_op op,
              ipu_py_tensor *const *inputs, uint32_t input_count, ipu_attrs attrs,
              ipu_py_tensor *const *outputs, uint32_t output_count)
{
    py_recorder *self = (py_recorder *)recorder;
    bool wanted = false;
    for (uint32_t i = 0; i < input_count && !wanted; i++) {
        wanted = is_watched(self, value_of(self, inputs[i]));
    }
    if (!wanted) {
        return 0;
    }
    ipu_value few[FEW_INPUTS];
    ipu_value *values = ipu_py_scratch(few, sizeof(few), input_count * sizeof(*values));
    if (values == NULL) {
        return -1;
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_status status = record(&ctx, state, self, op, inputs, values, input_count,
                               attrs, outputs, output_count);
    ipu_py_scratch_free(values, few);
    return ipu_py_is_ok(&ctx, status) ? 0 : -1;
}

/* --- gradients ------------------------------------------------------------------- */

static PyObject *
constant_tensor(ipu_py_state *state, const py_recorder *self, const ipu_node_data *node)
{
    ipu_type type = ipu_value_of(self->graph, ipu_node_output(node, 0))->type;
    const ipu_attr *bytes = ipu_attrs_find(node->attrs, IPU_ATTR_VALUE);
    ipu_py_tensor *tensor = ipu_py_tensor_new(state, &type);
    if (tensor != NULL && bytes != NULL && bytes->count > 0) {
        memcpy(ipu_py_tensor_data(tensor), bytes->as.bytes, bytes->count);
    }
    return (PyObject *)tensor;
}

/* Runs the op of a node, which is not recorded: it is in the graph already. */
static PyObject *
run_node(ipu_py_state *state, const py_recorder *self, const ipu_node_data *node)
{
    ipu_py_thread *thread = ipu_py_thread_here(state);
    ipu_py_tensor *few[FEW_INPUTS];
    ipu_py_tensor **inputs =
        ipu_py_scratch(few, sizeof(few), node->input_count * sizeof(*inputs));
    PyObject *result = NULL;
    if (thread != NULL && inputs != NULL) {
        for (uint32_t i = 0; i < node->input_count; i++) {
            uint32_t value = node->inputs[i].index;
            inputs[i] = (ipu_py_tensor *)self->known.items[value].tensor;
        }
        PyObject *active = thread->recorder;
        thread->recorder = NULL;
        result =
            ipu_py_apply_eager(state, node->op, inputs, node->input_count, node->attrs);
        thread->recorder = active;
    }
    if (inputs != NULL) {
        ipu_py_scratch_free(inputs, few);
    }
    return result;
}

static int
compute_node(ipu_py_state *state, py_recorder *self, ipu_node id)
{
    const ipu_node_data node = *ipu_node_of(self->graph, id);
    PyObject *result = node.op == IPU_OP_ID_CONSTANT
                           ? constant_tensor(state, self, &node)
                           : run_node(state, self, &node);
    if (result == NULL) {
        return -1;
    }
    bool watched = false;
    for (uint32_t i = 0; i < node.input_count; i++) {
        watched |= is_watched(self, node.inputs[i]);
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_status status = IPU_OK;
    for (uint32_t k = 0; k < node.output_count && status == IPU_OK; k++) {
        PyObject *one = node.output_count == 1 ? result : PyTuple_GET_ITEM(result, k);
        status = set_value(&ctx, self, ipu_node_output(&node, k), (ipu_py_tensor *)one,
                           watched);
    }
    Py_DECREF(result);
    return ipu_py_is_ok(&ctx, status) ? 0 : -1;
}

/* Notes that the node of a value is needed, if it is one from `first` on. */
static void
need(const py_recorder *self, uint32_t first, ipu_value value, bool *needed)
{
    uint32_t producer = value.index == IPU_NO_INDEX
                            ? IPU_NO_INDEX
                            : ipu_value_of(self->graph, value)->producer.index;
    if (producer != IPU_NO_INDEX && producer >= first) {
        needed[producer - first] = true;
    }
}

/* Computes the nodes from `first` on that the results need. */
static int
compute(ipu_py_state *state, py_recorder *self, uint32_t first,
        const ipu_value *results, uint32_t count)
{
    uint32_t added = (uint32_t)self->graph->nodes.count - first;
    bool *needed = PyMem_Calloc(added + 1, sizeof(bool));
    if (needed == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (uint32_t i = 0; i < count; i++) {
        need(self, first, results[i], needed);
    }
    for (uint32_t i = added; i-- > 0;) {
        const ipu_node_data *node = ipu_node_of(self->graph, (ipu_node){first + i});
        for (uint32_t k = 0; needed[i] && k < node->input_count; k++) {
            need(self, first, node->inputs[k], needed);
        }
    }
    int result = 0;
    for (uint32_t i = 0; i < added && result == 0; i++) {
        if (needed[i]) {
            result = compute_node(state, self, (ipu_node){first + i});
        }
    }
    PyMem_Free(needed);
    return result;
}

/* The values of a list's tensors. None is IPU_NO_VALUE; so is a tensor that the
 * recorder does not know, unless such are taken up. */
static int
push_values(py_recorder *self, ipu_py_gradient_request *r, PyObject *list,
            bool takes_up, ipu_py_values *out)
{
    ipu_py_state *state = ipu_py_state_of(self);
    ipu_status status = IPU_OK;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list) && status == IPU_OK; i++) {
        PyObject *item = PyList_GET_ITEM(list, i);
        ipu_value value = IPU_NO_VALUE;
        if (item != Py_None && (!ipu_py_is_tensor(state, item) ||
                                ((ipu_py_tensor *)item)->storage == NULL)) {
            PyErr_SetString(PyExc_TypeError, "expected eager tensors");
            return -1;
        }
        if (item != Py_None && takes_up) {
            status = take(&r->ctx, self, (ipu_py_tensor *)item, &value);
        } else if (item != Py_None) {
            value = value_of(self, item);
        }
        if (status == IPU_OK) {
            status = IPU_ARRAY_PUSH(&r->ctx, out, value);
        }
    }
    return ipu_py_is_ok(&r->ctx, status) ? 0 : -1;
}

/* Takes out those that the recorder does not know; where each went, if asked. */
static int
keep_known(ipu_py_gradient_request *r, ipu_py_values *values, ipu_py_indices *places)
{
    ipu_status status = IPU_OK;
    size_t kept = 0;
    for (size_t i = 0; i < values->count && status == IPU_OK; i++) {
        bool is_known = values->items[i].index != IPU_NO_INDEX;
        if (places != NULL) {
            status = IPU_ARRAY_PUSH(&r->ctx, places,
                                    is_known ? (uint32_t)kept : IPU_NO_INDEX);
        }
        if (is_known) {
            values->items[kept++] = values->items[i];
        }
    }
    values->count = kept;
    return ipu_py_is_ok(&r->ctx, status) ? 0 : -1;
}

static PyObject *
gradients(py_recorder *self, ipu_py_gradient_request *r)
{
    ipu_py_state *state = ipu_py_state_of(self);
    ipu_gradient_scope scope = {0};
    uint32_t first = (uint32_t)self->graph->nodes.count;
    if (ipu_py_gradient_request_run(r, self->graph, (ipu_block){0}, &scope) < 0 ||
        compute(state, self, first, r->out.items, (uint32_t)r->xs.count) < 0) {
        return NULL;
    }
    PyObject *list = PyList_New((Py_ssize_t)r->places.count);
    for (size_t i = 0; list != NULL && i < r->places.count; i++) {
        uint32_t place = r->places.items[i];
        ipu_value value = place == IPU_NO_INDEX ? IPU_NO_VALUE : r->out.items[place];
        PyObject *item = value.index == IPU_NO_INDEX
                             ? Py_None
                             : self->known.items[value.index].tensor;
        ipu_py_put(&list, (Py_ssize_t)i, Py_NewRef(item));
    }
    return list;
}

static PyObject *
recorder_gradients(PyObject *object, PyObject *args)
{
    py_recorder *self = (py_recorder *)object;
    PyTypeObject *list = &PyList_Type;
    PyObject *ys;
    PyObject *grads;
    PyObject *xs;
    PyObject *watched;
    PyObject *spans;
    if (!PyArg_ParseTuple(args, "O!O!O!O!O!:gradients", list, &ys, list, &grads, list,
                          &xs, list, &watched, list, &spans)) {
        return NULL;
    }
    ipu_py_gradient_request r = {.ctx = ipu_py_ctx()};
    PyObject *result = NULL;
    if (push_values(self, &r, ys, true, &r.ys) == 0 &&
        push_values(self, &r, grads, true, &r.grads) == 0 &&
        push_values(self, &r, xs, false, &r.xs) == 0 &&
        push_values(self, &r, watched, false, &r.watched) == 0 &&
        keep_known(&r, &r.xs, &r.places) == 0 &&
        keep_known(&r, &r.watched, NULL) == 0 &&
        ipu_py_gradient_request_spans(&r, spans) == 0) {
        result = gradients(self, &r);
    }
    ipu_py_gradient_request_free(&r);
    return result;
}

/* --- the Python type ------------------------------------------------------------- */

static PyObject *
recorder_new(PyTypeObject *cls, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, ":Recorder", names)) {
        return NULL;
    }
    py_recorder *self = (py_recorder *)cls->tp_alloc(cls, 0);
    ipu_ctx ctx = ipu_py_ctx();
    if (self != NULL &&
        !ipu_py_is_ok(&ctx, ipu_graph_create(&ctx, true, &self->graph))) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static int
recorder_traverse(PyObject *object, visitproc visit, void *arg)
{
    py_recorder *self = (py_recorder *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->base.custom_calls);
    for (size_t i = 0; i < self->known.count; i++) {
        Py_VISIT(self->known.items[i].tensor);
    }
    return 0;
}

static void
recorder_dealloc(PyObject *object)
{
    py_recorder *self = (py_recorder *)object;
    PyObject_GC_UnTrack(object);
    PyObject_ClearWeakRefs(object);
    ipu_ctx ctx = ipu_py_ctx();
    Py_XDECREF(self->base.custom_calls);
    for (size_t i = 0; i < self->known.count; i++) {
        Py_XDECREF(self->known.items[i].tensor);
    }
    IPU_ARRAY_FREE(&ctx, &self->known);
    ipu_id_map_free(&ctx, &self->values);
    ipu_graph_free(&ctx, self->graph);
    ipu_py_free(object);
}

static PyObject *
recorder_start(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    ipu_py_thread *thread = ipu_py_thread_here(ipu_py_state_of(self));
    if (thread == NULL) {
        return NULL;
    }
    Py_XSETREF(thread->recorder, Py_NewRef(self));
    Py_RETURN_NONE;
}

static PyObject *
recorder_stop(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    ipu_py_thread *thread = ipu_py_thread_here(ipu_py_state_of(self));
    if (thread == NULL) {
        return NULL;
    }
    if (thread->recorder == self) {
        Py_CLEAR(thread->recorder);
    }
    Py_RETURN_NONE;
}

static PyObject *
recorder_watch(PyObject *object, PyObject *tensor)
{
    py_recorder *self = (py_recorder *)object;
    ipu_value value;
    if (!ipu_py_is_tensor(ipu_py_state_of(self), tensor) ||
        ((ipu_py_tensor *)tensor)->storage == NULL) {
        PyErr_SetString(PyExc_TypeError, "expected an eager tensor");
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    if (!ipu_py_is_ok(&ctx, take(&ctx, self, (ipu_py_tensor *)tensor, &value))) {
        return NULL;
    }
    self->known.items[value.index].is_watched = true;
    Py_RETURN_NONE;
}

static PyObject *
recorder_watches(PyObject *object, PyObject *tensor)
{
    py_recorder *self = (py_recorder *)object;
    return PyBool_FromLong(is_watched(self, value_of(self, tensor)));
}

static PyMethodDef recorder_methods[] = {
    {"start", recorder_start, METH_NOARGS,
     "Records what this thread computes eagerly from now on."},
    {"stop", recorder_stop, METH_NOARGS, "Stops recording."},
    {"watch", recorder_watch, METH_O, "Records ops that use this tensor."},
    {"watches", recorder_watches, METH_O,
     "Whether ops that use this tensor are recorded."},
    {"gradients", recorder_gradients, METH_VARARGS,
     "The derivatives of sum(ys * grad_ys) by each of xs, through the nodes of `spans` "
     "((begin, end) pairs) and from the tensors of `watched`; None where there is no "
     "way."},
    {NULL, NULL, 0, NULL},
};

#define ATTRIBUTES(X, T) \
    X(T, node_count, PyLong_FromSize_t(self->graph->nodes.count), NULL, \
      "How many nodes were recorded.")
IPU_PY_ATTRIBUTES(py_recorder, ATTRIBUTES);

IPU_PY_TYPE(recorder, "Recorder", py_recorder, Py_TPFLAGS_HAVE_GC,
            {Py_tp_doc, "A record of eager ops, for their gradients."},
            {Py_tp_new, recorder_new}, {Py_tp_dealloc, recorder_dealloc},
            {Py_tp_traverse, recorder_traverse},
            {Py_tp_members, ipu_py_tape_record_members},
            {Py_tp_methods, recorder_methods}, {Py_tp_getset, py_recorder_getset});
