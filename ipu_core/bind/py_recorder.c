/* SPDX-License-Identifier: MIT
 *
 * ipu._core.Recorder: what the eager tapes of a thread record. In: eager ops with at
 * least one input that is watched. Out: a graph of them, with the tensor of every value
 * at hand, so that gradient nodes can be computed at once (py_recorder_gradients.c).
 *
 * Tapes that are active together share one recorder: what one of them computes for a
 * gradient is recorded for the others, which gives higher derivatives. A tape tells its
 * part of the graph by node numbers.
 *
 * A tensor is known by its object: the recorder keeps it alive, so an address stays its
 * own. Values are numbered densely; `tensors[value]` is the tensor, `watched[value]`
 * whether a gradient may flow to it. One thread; GIL held. */
#define NO_IMPORT_ARRAY
#include "bind/py_recorder.h"

#include <stddef.h>
#include <structmember.h>

/* --- values ---------------------------------------------------------------------- */

static uint32_t
place_of(const ipu_py_recorder_slot *slots, uint32_t count, const void *tensor)
{
    uint64_t hash = ((uint64_t)(uintptr_t)tensor >> 4) * 0x9e3779b97f4a7c15u;
    uint32_t i = (uint32_t)(hash >> 32) & (count - 1);
    while (slots[i].tensor != NULL && slots[i].tensor != tensor) {
        i = (i + 1) & (count - 1);
    }
    return i;
}

ipu_value
ipu_py_recorder_value_of(const ipu_py_recorder *self, const ipu_py_tensor *tensor)
{
    if (self->slot_count == 0) {
        return IPU_NO_VALUE;
    }
    const ipu_py_recorder_slot *found =
        &self->slots[place_of(self->slots, self->slot_count, tensor)];
    return found->tensor == NULL ? IPU_NO_VALUE : (ipu_value){found->value};
}

static ipu_status
grow_slots(ipu_ctx *ctx, ipu_py_recorder *self)
{
    uint32_t count = self->slot_count == 0 ? 256 : self->slot_count * 2;
    ipu_py_recorder_slot *slots;
    IPU_TRY(ipu_alloc(ctx, count * sizeof(ipu_py_recorder_slot), &slots));
    for (uint32_t i = 0; i < self->slot_count; i++) {
        if (self->slots[i].tensor != NULL) {
            slots[place_of(slots, count, self->slots[i].tensor)] = self->slots[i];
        }
    }
    ipu_free(ctx, self->slots, self->slot_count * sizeof(ipu_py_recorder_slot));
    self->slots = slots;
    self->slot_count = count;
    return IPU_OK;
}

/* The tensor of a value that the graph has just got. */
ipu_status
ipu_py_recorder_set_value(ipu_ctx *ctx, ipu_py_recorder *self, ipu_value value,
                          ipu_py_tensor *tensor, bool watched)
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
    ipu_py_recorder_slot *at =
        &self->slots[place_of(self->slots, self->slot_count, tensor)];
    self->slots_used += at->tensor == NULL;
    *at = (ipu_py_recorder_slot){tensor, value.index};
    return IPU_OK;
}

/* The value of a tensor; one that no recorded op made becomes a parameter. */
ipu_status
ipu_py_recorder_take(ipu_ctx *ctx, ipu_py_recorder *self, ipu_py_tensor *tensor,
                     ipu_value *out)
{
    *out = ipu_py_recorder_value_of(self, tensor);
    if (out->index != IPU_NO_INDEX) {
        return IPU_OK;
    }
    IPU_TRY(ipu_graph_add_param(ctx, self->graph, (ipu_block){0}, &tensor->type, out));
    return ipu_py_recorder_set_value(ctx, self, *out, tensor, false);
}

bool
ipu_py_recorder_is_watched(const ipu_py_recorder *self, ipu_value value)
{
    return value.index < self->watched.count && self->watched.items[value.index];
}

/* --- recording ------------------------------------------------------------------- */

static ipu_status
record(ipu_ctx *ctx, ipu_py_state *state, ipu_py_recorder *self, ipu_op op,
       ipu_py_tensor *const *inputs, ipu_value *values, uint32_t input_count,
       ipu_attrs attrs, ipu_py_tensor *const *outputs, uint32_t output_count)
{
    ipu_node node;
    PyObject *file;
    for (uint32_t i = 0; i < input_count; i++) {
        IPU_TRY(ipu_py_recorder_take(ctx, self, inputs[i], &values[i]));
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
        IPU_TRY(ipu_py_recorder_set_value(ctx, self, output, outputs[i], carries));
    }
    return IPU_OK;
}

int
ipu_py_record(ipu_py_state *state, PyObject *recorder, ipu_op op,
              ipu_py_tensor *const *inputs, uint32_t input_count, ipu_attrs attrs,
              ipu_py_tensor *const *outputs, uint32_t output_count)
{
    ipu_py_recorder *self = (ipu_py_recorder *)recorder;
    bool wanted = false;
    for (uint32_t i = 0; i < input_count && !wanted; i++) {
        wanted =
            ipu_py_recorder_is_watched(self, ipu_py_recorder_value_of(self, inputs[i]));
    }
    if (!wanted) {
        return 0;
    }
    ipu_value few[IPU_PY_FEW_INPUTS];
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

/* --- the Python type ------------------------------------------------------------- */

static PyObject *
recorder_new(PyTypeObject *cls, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, ":Recorder", names)) {
        return NULL;
    }
    ipu_py_recorder *self = (ipu_py_recorder *)cls->tp_alloc(cls, 0);
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
    ipu_py_recorder *self = (ipu_py_recorder *)object;
    Py_VISIT(Py_TYPE(object));
    for (size_t i = 0; i < self->tensors.count; i++) {
        Py_VISIT(self->tensors.items[i]);
    }
    return 0;
}

static void
recorder_dealloc(PyObject *object)
{
    ipu_py_recorder *self = (ipu_py_recorder *)object;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(object);
    ipu_ctx ctx = ipu_py_ctx();
    PyObject_ClearWeakRefs(object);
    for (size_t i = 0; i < self->tensors.count; i++) {
        Py_XDECREF(self->tensors.items[i]);
    }
    IPU_ARRAY_FREE(&ctx, &self->tensors);
    IPU_ARRAY_FREE(&ctx, &self->watched);
    ipu_free(&ctx, self->slots, self->slot_count * sizeof(ipu_py_recorder_slot));
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
    ipu_py_recorder *self = (ipu_py_recorder *)object;
    ipu_py_state *state = ipu_py_state_of_type(Py_TYPE(self));
    ipu_value value;
    if (!ipu_py_is_tensor(state, tensor) ||
        ((ipu_py_tensor *)tensor)->storage == NULL) {
        PyErr_SetString(PyExc_TypeError, "expected an eager tensor");
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    if (ipu_py_recorder_take(&ctx, self, (ipu_py_tensor *)tensor, &value) != IPU_OK) {
        return ipu_py_raise(state, &ctx);
    }
    self->watched.items[value.index] = true;
    Py_RETURN_NONE;
}

static PyObject *
recorder_watches(PyObject *object, PyObject *tensor)
{
    ipu_py_recorder *self = (ipu_py_recorder *)object;
    ipu_py_state *state = ipu_py_state_of_type(Py_TYPE(self));
    return PyBool_FromLong(
        ipu_py_is_tensor(state, tensor) &&
        ipu_py_recorder_is_watched(
            self, ipu_py_recorder_value_of(self, (ipu_py_tensor *)tensor)));
}

static PyObject *
recorder_get_nodes(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromSize_t(((ipu_py_recorder *)self)->graph->nodes.count);
}

static PyMethodDef recorder_methods[] = {
    {"start", recorder_start, METH_NOARGS,
     "start()\n--\n\nRecords what this thread computes eagerly from now on."},
    {"stop", recorder_stop, METH_NOARGS, "stop()\n--\n\nStops recording."},
    {"watch", recorder_watch, METH_O,
     "watch(tensor)\n--\n\nRecords ops that use this tensor."},
    {"watches", recorder_watches, METH_O,
     "watches(tensor)\n--\n\nWhether ops that use this tensor are recorded."},
    {"gradients", ipu_py_recorder_gradients, METH_VARARGS,
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
    {"__weaklistoffset__", T_PYSSIZET, offsetof(ipu_py_recorder, weak_references),
     READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

__extension__ static PyType_Slot recorder_slots[] = {
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
    .basicsize = sizeof(ipu_py_recorder),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = recorder_slots,
};
