/* SPDX-License-Identifier: MIT
 *
 * ipu._core.Trace: programs of the whole trace (compile), of what one value needs
 * (evaluate), of a call's way back (split). */
#define NO_IMPORT_ARRAY
#include "bind/py_program.h"
#include "bind/py_trace.h"

PyObject *
ipu_py_trace_compile(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"device", "fuse", "reference", "verify", NULL};
    ipu_py_trace *self = (ipu_py_trace *)object;
    PyObject *device = Py_None;
    int fuse = 1;
    int reference = 0;
    int verify = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|Oppp:compile", names, &device,
                                     &fuse, &reference, &verify)) {
        return NULL;
    }
    if (self->trace->open.count != 1) {
        PyErr_SetString(PyExc_RuntimeError, "a block is still open");
        return NULL;
    }
    return ipu_py_program_compile(ipu_py_state_of_type(Py_TYPE(self)),
                                  self->trace->graph, self->captured, device, fuse != 0,
                                  reference != 0, verify != 0);
}

PyObject *
ipu_py_trace_evaluate(PyObject *object, PyObject *args)
{
    ipu_py_trace *self = (ipu_py_trace *)object;
    ipu_py_state *state = ipu_py_state_of_type(Py_TYPE(self));
    PyObject *tensor;
    PyObject *device;
    ipu_value value;
    ipu_graph *graph;
    if (!PyArg_ParseTuple(args, "O!O:evaluate", state->tensor_type, &tensor, &device) ||
        ipu_py_trace_value(state, (ipu_py_tensor *)tensor, &value) < 0) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    if (ipu_trace_lift(&ctx, self->trace, value, &graph) != IPU_OK) {
        return ipu_py_trace_fail(self, &ctx);
    }
    PyObject *program = ipu_py_program_compile(state, graph, self->captured, device,
                                               true, false, false);
    ipu_graph_free(&ctx, graph);
    PyObject *outputs =
        program == NULL ? NULL : PyObject_CallMethod(program, "run", "(())");
    PyObject *result = outputs == NULL ? NULL : PySequence_GetItem(outputs, 0);
    Py_XDECREF(outputs);
    Py_XDECREF(program);
    return result;
}

PyObject *
ipu_py_trace_split(PyObject *object, PyObject *args)
{
    ipu_py_trace *self = (ipu_py_trace *)object;
    ipu_py_state *state = ipu_py_state_of_type(Py_TYPE(self));
    unsigned mark;
    unsigned inputs;
    PyObject *sequence;
    PyObject *device;
    PyObject *result = NULL;
    ipu_value *values = NULL;
    uint32_t count;
    uint32_t saved;
    ipu_graph *graph;
    if (!PyArg_ParseTuple(args, "IIOO:split", &mark, &inputs, &sequence, &device)) {
        return NULL;
    }
    ipu_py_tensor **tensors = ipu_py_tensors(state, sequence, &count);
    if (tensors == NULL) {
        return NULL;
    }
    values = PyMem_Malloc((count + 1) * sizeof(*values));
    if (values == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    if (ipu_py_trace_values(state, tensors, count, values) < 0) {
        goto done;
    }
    ipu_ctx ctx = ipu_py_ctx();
    if (ipu_trace_split(&ctx, self->trace, (ipu_node){mark}, inputs, values, count,
                        &graph, &saved) != IPU_OK) {
        ipu_py_trace_fail(self, &ctx);
        goto done;
    }
    PyObject *program = ipu_py_program_compile(state, graph, self->captured, device,
                                               true, false, false);
    ipu_graph_free(&ctx, graph);
    result = program == NULL ? NULL : Py_BuildValue("(NI)", program, saved);
done:
    PyMem_Free(values);
    ipu_py_tensors_release(tensors, count);
    return result;
}
