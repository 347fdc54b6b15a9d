/* SPDX-License-Identifier: MIT
 *
 * ipu._core.Recorder: what the eager tapes of a thread record. In: eager ops with at
 * least one input that is watched. Out: a graph of them, with the tensor of every value
 * at hand, so that the gradient nodes which autodiff adds to it are computed at once.
 *
 * Tapes that are active together share one recorder: what one of them computes for a
 * gradient is recorded for the others, which gives higher derivatives. A tape tells its
 * part of the graph by node numbers.
 *
 * A tensor is known by its object: the recorder keeps it alive, so an address stays its
 * own. Values are numbered densely; `tensors[value]` is the tensor, `watched[value]`
 * whether a gradient may flow to it. One thread; GIL held. */
#define NO_IMPORT_ARRAY
#include "bind/bind.h"

#include <stddef.h>
#include <string.h>
#include <structmember.h>

#include "autodiff/autodiff.h"

enum { FEW_INPUTS = 16 };

typedef struct slot {
    const void *tensor; /* NULL: free */
    uint32_t value;
} slot;

typedef struct py_recorder {
    PyObject_HEAD
    PyObject *weak_references;
    ipu_graph *graph;
    IPU_ARRAY(ipu_py_tensor *) tensors; /* by value; owned */
    IPU_ARRAY(bool) watched;            /* by value */
    slot *slots;                        /* open addressing; capacity a power of two */
    uint32_t slot_count;
    uint32_t slots_used;
} py_recorder;

/* --- values ---------------------------------------------------------------------- */

static uint32_t
place_of(const slot *slots, uint32_t count, const void *tensor)
{
    uint64_t hash = ((uint64_t)(uintptr_t)tensor >> 4) * 0x9e3779b97f4a7c15u;
    uint32_t i = (uint32_t)(hash >> 32) & (count - 1);
    while (slots[i].tensor != NULL && slots[i].tensor != tensor) {
        i = (i + 1) & (count - 1);
    }
    return i;
}

static ipu_value
value_of(const py_recorder *self, const ipu_py_tensor *tensor)
{
    if (self->slot_count == 0) {
        return IPU_NO_VALUE;
    }
    const slot *found = &self->slots[place_of(self->slots, self->slot_count, tensor)];
    return found->tensor == NULL ? IPU_NO_VALUE : (ipu_value){found->value};
}

static ipu_status
grow_slots(ipu_ctx *ctx, py_recorder *self)
{
    uint32_t count = self->slot_count == 0 ? 256 : self->slot_count * 2;
    slot *slots;
    IPU_TRY(ipu_alloc(ctx, count * sizeof(slot), &slots));
    for (uint32_t i = 0; i < self->slot_count; i++) {
        if (self->slots[i].tensor != NULL) {
            slots[place_of(slots, count, self->slots[i].tensor)] = self->slots[i];
        }
    }
    ipu_free(ctx, self->slots, self->slot_count * sizeof(slot));
    self->slots = slots;
    self->slot_count = count;
    return IPU_OK;
}

/* The tensor of a value that the graph has just got. */
static ipu_status
set_value(ipu_ctx *ctx, py_recorder *self, ipu_value value, ipu_py_tensor *tensor,
          bool watched)
{
    if (2 * (self->slots_used + 1) > self->slot_count) {
        IPU_TRY(grow_slots(ctx, self));
    }
    while (self->tensors.count <= value.index) {
        IPU_TRY(IPU_ARRAY_PUSH(ctx, &self->tensors, NULL));
        IPU_TRY(IPU_ARRAY_RESERVE(ctx, &self->watched, 1));
        self->watched.items[self->watched.count++] = false;
    }
    self->tensors.items[value.index] = (ipu_py_tensor *)Py_NewRef((PyObject *)tensor);
    self->watched.items[value.index] = watched;
    slot *at = &self->slots[place_of(self->slots, self->slot_count, tensor)];
    self->slots_used += at->tensor == NULL;
    *at = (slot){tensor, value.index};
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
    return value.index < self->watched.count && self->watched.items[value.index];
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
    if (status != IPU_OK) {
        ipu_py_raise(state, &ctx);
        return -1;
    }
    return 0;
}

/* --- gradients ------------------------------------------------------------------- */

static int
compute_node(ipu_py_state *state, py_recorder *self, ipu_node id)
{
    const ipu_node_data node = *ipu_node_of(self->graph, id);
    ipu_py_tensor *few[FEW_INPUTS];
    ipu_py_tensor **inputs =
        ipu_py_scratch(few, sizeof(few), node.input_count * sizeof(*inputs));
    ipu_ctx ctx = ipu_py_ctx();
    PyObject *result = NULL;
    if (inputs == NULL) {
        return -1;
    }
    for (uint32_t i = 0; i < node.input_count; i++) {
        inputs[i] = self->tensors.items[node.inputs[i].index];
    }
    if (node.op == IPU_OP_ID_CONSTANT) {
        ipu_value value = ipu_node_output(&node, 0);
        ipu_type type = ipu_value_of(self->graph, value)->type;
        const ipu_attr *bytes = ipu_attrs_find(node.attrs, IPU_ATTR_VALUE);
        ipu_py_tensor *tensor = ipu_py_tensor_new(state, &type);
        if (tensor != NULL && bytes != NULL && bytes->count > 0) {
            memcpy(ipu_py_tensor_data(tensor), bytes->as.bytes, bytes->count);
        }
        result = (PyObject *)tensor;
    } else {
        ipu_py_thread *thread = ipu_py_thread_here(state);
        if (thread != NULL) {
            PyObject *active = thread->recorder;
            thread->recorder = NULL; /* it is in the graph already */
            result = ipu_py_apply_eager(state, node.op, inputs, node.input_count,
                                        node.attrs);
            thread->recorder = active;
        }
    }
    ipu_py_scratch_free(inputs, few);
    if (result == NULL) {
        return -1;
    }
    ipu_status status = IPU_OK;
    for (uint32_t k = 0; k < node.output_count && status == IPU_OK; k++) {
        bool watched = false;
        for (uint32_t i = 0; i < node.input_count; i++) {
            watched |= is_watched(self, node.inputs[i]);
        }
        PyObject *one = node.output_count == 1 ? result : PyTuple_GET_ITEM(result, k);
        status = set_value(&ctx, self, ipu_node_output(&node, k), (ipu_py_tensor *)one,
                           watched);
    }
    Py_DECREF(result);
    if (status != IPU_OK) {
        ipu_py_raise(state, &ctx);
        return -1;
    }
    return 0;
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
        uint32_t producer = results[i].index == IPU_NO_INDEX
                                ? IPU_NO_INDEX
                                : ipu_value_of(self->graph, results[i])->producer.index;
        if (producer != IPU_NO_INDEX && producer >= first) {
            needed[producer - first] = true;
        }
    }
    for (uint32_t i = added; i-- > 0;) {
        const ipu_node_data *node = ipu_node_of(self->graph, (ipu_node){first + i});
        for (uint32_t k = 0; needed[i] && k < node->input_count; k++) {
            uint32_t producer =
                ipu_value_of(self->graph, node->inputs[k])->producer.index;
            if (producer != IPU_NO_INDEX && producer >= first) {
                needed[producer - first] = true;
            }
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

typedef IPU_ARRAY(ipu_value) value_array;
typedef IPU_ARRAY(uint32_t) index_array;

typedef struct request {
    ipu_ctx ctx;
    value_array ys;
    value_array grads;
    value_array xs;
    value_array watched;
    value_array out;
    index_array kept; /* of each x its place among those that are known, or none */
    index_array spans;
} request;

static void
release(request *r)
{
    IPU_ARRAY_FREE(&r->ctx, &r->ys);
    IPU_ARRAY_FREE(&r->ctx, &r->grads);
    IPU_ARRAY_FREE(&r->ctx, &r->xs);
    IPU_ARRAY_FREE(&r->ctx, &r->watched);
    IPU_ARRAY_FREE(&r->ctx, &r->out);
    IPU_ARRAY_FREE(&r->ctx, &r->kept);
    IPU_ARRAY_FREE(&r->ctx, &r->spans);
}

static int
failed(ipu_py_state *state, const request *r)
{
    ipu_py_raise(state, &r->ctx);
    return -1;
}

/* An eager tensor as a value. None is IPU_NO_VALUE; so is a tensor that the recorder
 * does not know, unless `all` are taken up. */
static int
tensor_value(ipu_py_state *state, py_recorder *self, request *r, PyObject *item,
             bool all, ipu_value *out)
{
    *out = IPU_NO_VALUE;
    if (item == Py_None) {
        return 0;
    }
    if (!ipu_py_is_tensor(state, item) || ((ipu_py_tensor *)item)->storage == NULL) {
        PyErr_SetString(PyExc_TypeError, "expected eager tensors");
        return -1;
    }
    if (!all) {
        *out = value_of(self, (ipu_py_tensor *)item);
        return 0;
    }
    return take(&r->ctx, self, (ipu_py_tensor *)item, out) == IPU_OK ? 0
                                                                     : failed(state, r);
}

/* The values of a list's tensors, and of None; what is not known is taken up. */
static int
push_all(ipu_py_state *state, py_recorder *self, request *r, PyObject *list,
         value_array *out)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        ipu_value value;
        if (tensor_value(state, self, r, PyList_GET_ITEM(list, i), true, &value) < 0) {
            return -1;
        }
        if (IPU_ARRAY_PUSH(&r->ctx, out, value) != IPU_OK) {
            return failed(state, r);
        }
    }
    return 0;
}

/* The values of a list's tensors that the recorder knows; where each went, if asked. */
static int
push_known(ipu_py_state *state, py_recorder *self, request *r, PyObject *list,
           value_array *out, index_array *kept)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        ipu_value value;
        if (tensor_value(state, self, r, PyList_GET_ITEM(list, i), false, &value) < 0) {
            return -1;
        }
        bool known = value.index != IPU_NO_INDEX;
        uint32_t place = known ? (uint32_t)out->count : IPU_NO_INDEX;
        if ((kept != NULL && IPU_ARRAY_PUSH(&r->ctx, kept, place) != IPU_OK) ||
            (known && IPU_ARRAY_PUSH(&r->ctx, out, value) != IPU_OK)) {
            return failed(state, r);
        }
    }
    return 0;
}

static int
push_spans(ipu_py_state *state, request *r, PyObject *list)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        unsigned begin;
        unsigned end;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "II", &begin, &end)) {
            return -1;
        }
        if (IPU_ARRAY_PUSH(&r->ctx, &r->spans, begin) != IPU_OK ||
            IPU_ARRAY_PUSH(&r->ctx, &r->spans, end) != IPU_OK) {
            return failed(state, r);
        }
    }
    return 0;
}

static PyObject *
results_list(py_recorder *self, const request *r)
{
    PyObject *list = PyList_New((Py_ssize_t)r->kept.count);
    for (size_t i = 0; list != NULL && i < r->kept.count; i++) {
        uint32_t place = r->kept.items[i];
        ipu_value value = place == IPU_NO_INDEX ? IPU_NO_VALUE : r->out.items[place];
        PyObject *item = value.index == IPU_NO_INDEX
                             ? Py_None
                             : (PyObject *)self->tensors.items[value.index];
        PyList_SET_ITEM(list, (Py_ssize_t)i, Py_NewRef(item));
    }
    return list;
}

static PyObject *
gradients(ipu_py_state *state, py_recorder *self, request *r)
{
    if (r->grads.count != 0 && r->grads.count != r->ys.count) {
        PyErr_SetString(PyExc_ValueError, "one gradient for each of ys is needed");
        return NULL;
    }
    ipu_gradient_scope scope = {.spans = r->spans.items,
                                .span_count = (uint32_t)(r->spans.count / 2),
                                .watched = r->watched.items,
                                .watched_count = (uint32_t)r->watched.count};
    uint32_t x_count = (uint32_t)r->xs.count;
    uint32_t first = (uint32_t)self->graph->nodes.count;
    if (IPU_ARRAY_RESERVE(&r->ctx, &r->out, x_count + 1) != IPU_OK ||
        ipu_gradients_within(&r->ctx, self->graph, (ipu_block){0}, r->ys.items,
                             r->grads.count == 0 ? NULL : r->grads.items,
                             (uint32_t)r->ys.count, r->xs.items, x_count, &scope,
                             r->out.items) != IPU_OK) {
        return ipu_py_raise(state, &r->ctx);
    }
    return compute(state, self, first, r->out.items, x_count) < 0
               ? NULL
               : results_list(self, r);
}

static PyObject *
recorder_gradients(PyObject *object, PyObject *args)
{
    py_recorder *self = (py_recorder *)object;
    ipu_py_state *state = ipu_py_state_of_type(Py_TYPE(self));
    PyObject *ys;
    PyObject *grads;
    PyObject *xs;
    PyObject *watched;
    PyObject *spans;
    if (!PyArg_ParseTuple(args, "O!O!O!O!O!:gradients", &PyList_Type, &ys, &PyList_Type,
                          &grads, &PyList_Type, &xs, &PyList_Type, &watched,
                          &PyList_Type, &spans)) {
        return NULL;
    }
    request r = {.ctx = ipu_py_ctx()};
    PyObject *result = NULL;
    if (push_all(state, self, &r, ys, &r.ys) == 0 &&
        push_all(state, self, &r, grads, &r.grads) == 0 &&
        push_known(state, self, &r, xs, &r.xs, &r.kept) == 0 &&
        push_known(state, self, &r, watched, &r.watched, NULL) == 0 &&
        push_spans(state, &r, spans) == 0) {
        result = gradients(state, self, &r);
    }
    release(&r);
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
    if (self != NULL && ipu_graph_create(&ctx, true, &self->graph) != IPU_OK) {
        Py_DECREF(self);
        return ipu_py_raise(ipu_py_state_of_type(cls), &ctx);
    }
    return (PyObject *)self;
}

static int
recorder_traverse(PyObject *object, visitproc visit, void *arg)
{
    py_recorder *self = (py_recorder *)object;
    Py_VISIT(Py_TYPE(object));
    for (size_t i = 0; i < self->tensors.count; i++) {
        Py_VISIT(self->tensors.items[i]);
    }
    return 0;
}

static void
recorder_dealloc(PyObject *object)
{
    py_recorder *self = (py_recorder *)object;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(object);
    ipu_ctx ctx = ipu_py_ctx();
    PyObject_ClearWeakRefs(object);
    for (size_t i = 0; i < self->tensors.count; i++) {
        Py_XDECREF(self->tensors.items[i]);
    }
    IPU_ARRAY_FREE(&ctx, &self->tensors);
    IPU_ARRAY_FREE(&ctx, &self->watched);
    ipu_free(&ctx, self->slots, self->slot_count * sizeof(slot));
    ipu_graph_free(&ctx, self->graph);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *
recorder_start(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    ipu_py_thread *thread = ipu_py_thread_here(ipu_py_state_of_type(Py_TYPE(self)));
    if (thread == NULL) {
        return NULL;
    }
    Py_XSETREF(thread->recorder, Py_NewRef(self));
    Py_RETURN_NONE;
}

static PyObject *
recorder_stop(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    ipu_py_thread *thread = ipu_py_thread_here(ipu_py_state_of_type(Py_TYPE(self)));
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
    ipu_py_state *state = ipu_py_state_of_type(Py_TYPE(self));
    ipu_value value;
    if (!ipu_py_is_tensor(state, tensor) ||
        ((ipu_py_tensor *)tensor)->storage == NULL) {
        PyErr_SetString(PyExc_TypeError, "expected an eager tensor");
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    if (take(&ctx, self, (ipu_py_tensor *)tensor, &value) != IPU_OK) {
        return ipu_py_raise(state, &ctx);
    }
    self->watched.items[value.index] = true;
    Py_RETURN_NONE;
}

static PyObject *
recorder_watches(PyObject *object, PyObject *tensor)
{
    py_recorder *self = (py_recorder *)object;
    ipu_py_state *state = ipu_py_state_of_type(Py_TYPE(self));
    return PyBool_FromLong(ipu_py_is_tensor(state, tensor) &&
                           is_watched(self, value_of(self, (ipu_py_tensor *)tensor)));
}

static PyObject *
recorder_get_nodes(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromSize_t(((py_recorder *)self)->graph->nodes.count);
}

static PyMethodDef recorder_methods[] = {
    {"start", recorder_start, METH_NOARGS,
     "start()\n--\n\nRecords what this thread computes eagerly from now on."},
    {"stop", recorder_stop, METH_NOARGS, "stop()\n--\n\nStops recording."},
    {"watch", recorder_watch, METH_O,
     "watch(tensor)\n--\n\nRecords ops that use this tensor."},
    {"watches", recorder_watches, METH_O,
     "watches(tensor)\n--\n\nWhether ops that use this tensor are recorded."},
    {"gradients", recorder_gradients, METH_VARARGS,
     "gradients(ys, grad_ys, xs, watched, spans)\n--\n\nThe derivatives of sum(ys * "
     "grad_ys) by each of xs, through the nodes of `spans` ((begin, end) pairs) and "
     "from the tensors of `watched`; None where there is no way."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef recorder_getset[] = {
    {"node_count", recorder_get_nodes, NULL, "How many nodes were recorded.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef recorder_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(py_recorder, weak_references), READONLY,
     NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot recorder_slots[] = {
    {Py_tp_doc, "Recorder()\n--\n\nA record of eager ops, for their gradients."},
    {Py_tp_new, recorder_new},
    {Py_tp_dealloc, recorder_dealloc},
    {Py_tp_traverse, recorder_traverse},
    {Py_tp_members, recorder_members},
    {Py_tp_methods, recorder_methods},
    {Py_tp_getset, recorder_getset},
    {0, NULL},
};

PyType_Spec ipu_py_recorder_spec = {
    .name = "ipu._core.Recorder",
    .basicsize = sizeof(py_recorder),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = recorder_slots,
};
