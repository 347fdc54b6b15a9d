/* SPDX-License-Identifier: MIT
 *
 * ipu._core.Recorder.gradients: autodiff adds the nodes of the gradient to the recorded
 * graph, and those that the results need are computed, each with the tensors of its
 * inputs. */
#define NO_IMPORT_ARRAY
#include "bind/py_recorder.h"

#include <string.h>

#include "bind/gradient_request.h"

static PyObject *
constant_tensor(ipu_py_state *state, const ipu_py_recorder *self,
                const ipu_node_data *node)
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
run_node(ipu_py_state *state, const ipu_py_recorder *self, const ipu_node_data *node)
{
    ipu_py_thread *thread = ipu_py_thread_here(state);
    ipu_py_tensor *few[IPU_PY_FEW_INPUTS];
    ipu_py_tensor **inputs =
        ipu_py_scratch(few, sizeof(few), node->input_count * sizeof(*inputs));
    PyObject *result = NULL;
    if (thread != NULL && inputs != NULL) {
        for (uint32_t i = 0; i < node->input_count; i++) {
            inputs[i] = self->tensors.items[node->inputs[i].index];
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
compute_node(ipu_py_state *state, ipu_py_recorder *self, ipu_node id)
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
        watched |= ipu_py_recorder_is_watched(self, node.inputs[i]);
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_status status = IPU_OK;
    for (uint32_t k = 0; k < node.output_count && status == IPU_OK; k++) {
        PyObject *one = node.output_count == 1 ? result : PyTuple_GET_ITEM(result, k);
        status = ipu_py_recorder_set_value(&ctx, self, ipu_node_output(&node, k),
                                           (ipu_py_tensor *)one, watched);
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
compute(ipu_py_state *state, ipu_py_recorder *self, uint32_t first,
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

/* An eager tensor as a value. None is IPU_NO_VALUE; so is a tensor that the recorder
 * does not know, unless `all` are taken up. */
static int
tensor_value(ipu_py_state *state, ipu_py_recorder *self, ipu_py_gradient_request *r,
             PyObject *item, bool all, ipu_value *out)
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
        *out = ipu_py_recorder_value_of(self, (ipu_py_tensor *)item);
        return 0;
    }
    return ipu_py_recorder_take(&r->ctx, self, (ipu_py_tensor *)item, out) == IPU_OK
               ? 0
               : ipu_py_gradient_request_failed(state, r);
}

/* The values of a list's tensors, and of None; what is not known is taken up. */
static int
push_all(ipu_py_state *state, ipu_py_recorder *self, ipu_py_gradient_request *r,
         PyObject *list, ipu_py_values *out)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        ipu_value value;
        if (tensor_value(state, self, r, PyList_GET_ITEM(list, i), true, &value) < 0) {
            return -1;
        }
        if (IPU_ARRAY_PUSH(&r->ctx, out, value) != IPU_OK) {
            return ipu_py_gradient_request_failed(state, r);
        }
    }
    return 0;
}

/* The values of a list's tensors that the recorder knows; where each went, if asked. */
static int
push_known(ipu_py_state *state, ipu_py_recorder *self, ipu_py_gradient_request *r,
           PyObject *list, ipu_py_values *out, ipu_py_indices *kept)
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
            return ipu_py_gradient_request_failed(state, r);
        }
    }
    return 0;
}

static PyObject *
results_list(ipu_py_recorder *self, const ipu_py_gradient_request *r)
{
    PyObject *list = PyList_New((Py_ssize_t)r->places.count);
    for (size_t i = 0; list != NULL && i < r->places.count; i++) {
        uint32_t place = r->places.items[i];
        ipu_value value = place == IPU_NO_INDEX ? IPU_NO_VALUE : r->out.items[place];
        PyObject *item = value.index == IPU_NO_INDEX
                             ? Py_None
                             : (PyObject *)self->tensors.items[value.index];
        PyList_SET_ITEM(list, (Py_ssize_t)i, Py_NewRef(item));
    }
    return list;
}

static PyObject *
gradients(ipu_py_state *state, ipu_py_recorder *self, ipu_py_gradient_request *r)
{
    ipu_gradient_scope scope = {0};
    ipu_block root = {0};
    uint32_t first = (uint32_t)self->graph->nodes.count;
    if (ipu_py_gradient_request_run(state, r, self->graph, root, &scope) < 0 ||
        compute(state, self, first, r->out.items, (uint32_t)r->xs.count) < 0) {
        return NULL;
    }
    return results_list(self, r);
}

PyObject *
ipu_py_recorder_gradients(PyObject *object, PyObject *args)
{
    ipu_py_recorder *self = (ipu_py_recorder *)object;
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
    ipu_py_gradient_request r = {.ctx = ipu_py_ctx()};
    PyObject *result = NULL;
    if (push_all(state, self, &r, ys, &r.ys) == 0 &&
        push_all(state, self, &r, grads, &r.grads) == 0 &&
        push_known(state, self, &r, xs, &r.xs, &r.places) == 0 &&
        push_known(state, self, &r, watched, &r.watched, NULL) == 0 &&
        ipu_py_gradient_request_spans(state, &r, spans) == 0) {
        result = gradients(state, self, &r);
    }
    ipu_py_gradient_request_free(&r);
    return result;
}
