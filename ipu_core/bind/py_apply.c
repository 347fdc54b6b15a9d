/* SPDX-License-Identifier: MIT
 *
 * One op from Python: a node where a function is being traced, else its kernel at once
 * (py_eager.c).
 */
#define NO_IMPORT_ARRAY
#include "bind/bind.h"

#include <frameobject.h> /* that Python.h of 3.10 leaves out */
#include <stdlib.h>
#include <string.h>

enum { MAX_ATTRS = 16, FEW = 16, MAX_FOLDED_BYTES = 4096 };

/* --- arguments ------------------------------------------------------------------- */

int
ipu_py_op_converter(PyObject *name, void *out)
{
    Py_ssize_t length;
    const char *text = PyUnicode_AsUTF8AndSize(name, &length);
    if (text == NULL) {
        return 0;
    }
    if (!ipu_op_parse(text, (size_t)length, out)) {
        PyErr_Format(PyExc_ValueError, "there is no op %R", name);
        return 0;
    }
    return 1;
}

static int
parse_ints(PyObject *object, ipu_ctx *ctx, ipu_arena *arena, ipu_attr *out)
{
    PyObject *items = PySequence_Tuple(object);
    int64_t *ints;
    if (items == NULL) {
        return -1;
    }
    out->count = (uint32_t)PyTuple_GET_SIZE(items);
    int result = 0;
    if (ipu_arena_alloc(ctx, arena, out->count * sizeof(int64_t), &ints) != IPU_OK) {
        PyErr_NoMemory();
        result = -1;
    }
    for (uint32_t i = 0; result == 0 && i < out->count; i++) {
        ints[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(items, i));
        result = ints[i] == -1 && PyErr_Occurred() ? -1 : 0;
    }
    out->as.ints = ints;
    Py_DECREF(items);
    return result;
}

static int
parse_text(PyObject *object, ipu_ctx *ctx, ipu_arena *arena, ipu_attr *out)
{
    Py_ssize_t length;
    const char *given = PyUnicode_AsUTF8AndSize(object, &length);
    if (given == NULL) {
        return -1;
    }
    out->count = (uint32_t)length;
    if (ipu_arena_text(ctx, arena, given, (size_t)length, &out->as.text) != IPU_OK) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static int
parse_attr(PyObject *key, PyObject *value, ipu_ctx *ctx, ipu_arena *arena,
           ipu_attr *out)
{
    Py_ssize_t length;
    const char *text = PyUnicode_AsUTF8AndSize(key, &length);
    ipu_dtype dtype;
    *out = (ipu_attr){0};
    if (text == NULL) {
        return -1;
    }
    if (!ipu_attr_parse_key(text, (size_t)length, &out->key)) {
        PyErr_Format(PyExc_ValueError, "there is no attribute %R", key);
        return -1;
    }
    switch (ipu_attr_kind_of(out->key)) {
    case IPU_ATTR_KIND_INT:
    case IPU_ATTR_KIND_BLOCK:
        out->as.i = PyLong_AsLongLong(value);
        return out->as.i == -1 && PyErr_Occurred() ? -1 : 0;
    case IPU_ATTR_KIND_BOOL:
        out->as.i = PyObject_IsTrue(value);
        return out->as.i < 0 ? -1 : 0;
    case IPU_ATTR_KIND_FLOAT:
        out->as.f = PyFloat_AsDouble(value);
        return out->as.f == -1.0 && PyErr_Occurred() ? -1 : 0;
    case IPU_ATTR_KIND_DTYPE:
        if (!ipu_py_dtype_converter(value, &dtype)) {
            return -1;
        }
        out->as.i = (int64_t)dtype;
        return 0;
    case IPU_ATTR_KIND_INTS:
    case IPU_ATTR_KIND_BLOCKS:
        return parse_ints(value, ctx, arena, out);
    case IPU_ATTR_KIND_TEXT:
        return parse_text(value, ctx, arena, out);
    case IPU_ATTR_KIND_BYTES:
        break;
    }
    PyErr_Format(PyExc_ValueError, "attribute %R cannot be given from Python", key);
    return -1;
}

int
ipu_py_parse_attrs(PyObject *dict, ipu_ctx *ctx, ipu_arena *arena, ipu_attr *out,
                   uint32_t capacity, uint32_t *count)
{
    PyObject *key;
    PyObject *value;
    Py_ssize_t position = 0;
    *count = 0;
    if (dict == Py_None) {
        return 0;
    }
    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "attributes must be a dict");
        return -1;
    }
    while (PyDict_Next(dict, &position, &key, &value)) {
        if (value == Py_None) {
            continue;
        }
        if (*count == capacity) {
            PyErr_SetString(PyExc_ValueError, "too many attributes");
            return -1;
        }
        ipu_attr attr;
        if (parse_attr(key, value, ctx, arena, &attr) < 0) {
            return -1;
        }
        ipu_attrs_insert(out, (*count)++, attr);
    }
    return 0;
}

/* New reference: a tuple of the tensors that a sequence of tensor-likes becomes. What
 * is not a tensor yet takes the dtype of the first input that is one. */
static PyObject *
tensors_of(ipu_py_state *state, PyObject *sequence)
{
    PyObject *items = PySequence_Tuple(sequence);
    PyObject *tensors = items == NULL ? NULL : PyTuple_New(PyTuple_GET_SIZE(items));
    int dtype = -1;
    for (Py_ssize_t i = 0; tensors != NULL && i < PyTuple_GET_SIZE(items); i++) {
        PyObject *item = PyTuple_GET_ITEM(items, i);
        if (ipu_py_is_tensor(state, item) ||
            PyObject_HasAttrString(item, "__ipu_tensor__")) {
            ipu_py_tensor *tensor = ipu_py_as_tensor(state, item, -1);
            dtype = tensor != NULL && dtype < 0 ? (int)tensor->type.dtype : dtype;
            ipu_py_put(&tensors, i, (PyObject *)tensor);
        }
    }
    for (Py_ssize_t i = 0; tensors != NULL && i < PyTuple_GET_SIZE(items); i++) {
        PyObject *item = PyTuple_GET_ITEM(items, i);
        if (PyTuple_GET_ITEM(tensors, i) == NULL) {
            int wanted = ipu_py_is_array(item) ? -1 : dtype;
            ipu_py_put(&tensors, i, (PyObject *)ipu_py_as_tensor(state, item, wanted));
        }
    }
    Py_XDECREF(items);
    return tensors;
}

/* --- the user's line ------------------------------------------------------------- */

/* Whether a file is the user's: neither of the package nor one that Python brings along
 * frozen, such as what runs the program of python -m. */
static bool
is_users(const ipu_py_state *state, PyObject *file)
{
    if (PyUnicode_GET_LENGTH(state->package_dir) > 0 &&
        PyUnicode_Tailmatch(file, state->package_dir, 0, PY_SSIZE_T_MAX, -1) != 0) {
        return false;
    }
    if (PyUnicode_GET_LENGTH(file) == 0 || PyUnicode_READ_CHAR(file, 0) != '<') {
        return true;
    }
    const char *name = PyUnicode_AsUTF8(file);
    return name == NULL || strncmp(name, "<frozen ", 8) != 0;
}

int32_t
ipu_py_user_line(ipu_py_state *state, PyObject **file)
{
    PyFrameObject *frame = PyEval_GetFrame();
    int32_t line = 0;
    *file = NULL;
    Py_XINCREF(frame);
    while (frame != NULL && *file == NULL) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        if (is_users(state, code->co_filename)) {
            *file = Py_NewRef(code->co_filename);
            line = PyFrame_GetLineNumber(frame);
        }
        Py_DECREF(code);
        PyFrameObject *back = *file == NULL ? PyFrame_GetBack(frame) : NULL;
        Py_DECREF(frame);
        frame = back;
    }
    PyErr_Clear();
    return line;
}

/* --- traced ---------------------------------------------------------------------- */

int
ipu_py_trace_value(ipu_py_state *state, ipu_py_tensor *tensor, ipu_value *out)
{
    PyObject *open = ipu_py_open_trace(state);
    ipu_trace *trace = ipu_py_trace_of(open);
    if (tensor->storage == NULL) {
        if (tensor->trace != open || !ipu_trace_visible(trace, tensor->value)) {
            ipu_py_raise_leaked(tensor);
            return -1;
        }
        *out = tensor->value;
        return 0;
    }
    return ipu_py_trace_capture(open, tensor, out);
}

static int
trace_values(ipu_py_state *state, ipu_py_tensor *const *tensors, uint32_t count,
                    ipu_value *out)
{
    for (uint32_t i = 0; i < count; i++) {
        if (ipu_py_trace_value(state, tensors[i], &out[i]) < 0) {
            return -1;
        }
    }
    return 0;
}

static ipu_py_tensor *const *
items_of(PyObject *tensors)
{
    return (ipu_py_tensor *const *)PySequence_Fast_ITEMS(tensors);
}

ipu_value *
ipu_py_trace_inputs(ipu_py_state *state, PyObject *sequence, uint32_t *count)
{
    PyObject *tensors = tensors_of(state, sequence);
    if (tensors == NULL) {
        return NULL;
    }
    *count = (uint32_t)PyTuple_GET_SIZE(tensors);
    ipu_value *values = PyMem_Malloc((*count + 1) * sizeof(*values));
    if (values == NULL) {
        PyErr_NoMemory();
    } else if (trace_values(state, items_of(tensors), *count,
                                   values) < 0) {
        PyMem_Free(values);
        values = NULL;
    }
    Py_DECREF(tensors);
    return values;
}

PyObject *
ipu_py_node_result(ipu_py_state *state, PyObject *trace, ipu_node id)
{
    const ipu_graph *graph = ipu_py_trace_of(trace)->graph;
    const ipu_node_data *node = ipu_node_of(graph, id);
    ipu_py_tensor *few[FEW];
    ipu_py_tensor **outputs =
        ipu_py_scratch(few, sizeof(few), node->output_count * sizeof(*outputs));
    PyObject *result = NULL;
    uint32_t made = 0;
    for (; outputs != NULL && made < node->output_count; made++) {
        outputs[made] =
            ipu_py_tensor_symbolic(state, trace, ipu_node_output(node, made));
        if (outputs[made] == NULL) {
            break;
        }
    }
    if (outputs != NULL && made == node->output_count) {
        result = ipu_py_pack_results(outputs, made);
    } else {
        while (made > 0) {
            Py_DECREF(outputs[--made]);
        }
    }
    ipu_py_scratch_free(outputs, few);
    return result;
}

static PyObject *
apply_traced(ipu_py_state *state, ipu_op op, ipu_py_tensor *const *inputs,
             uint32_t input_count, ipu_attrs attrs)
{
    PyObject *open = ipu_py_open_trace(state);
    ipu_value few[FEW];
    ipu_value *values = ipu_py_scratch(few, sizeof(few), input_count * sizeof(*values));
    ipu_node node;
    PyObject *result = NULL;
    if (values != NULL &&
        trace_values(state, inputs, input_count, values) == 0) {
        ipu_ctx ctx = ipu_py_ctx();
        result = ipu_trace_node(&ctx, ipu_py_trace_of(open), op, values, input_count,
                                attrs.items, attrs.count,
                                ipu_py_trace_source(state, open), NULL, &node) != IPU_OK
                     ? ipu_py_raise(&ctx)
                     : ipu_py_node_result(state, open, node);
    }
    ipu_py_scratch_free(values, few);
    return result;
}

/* Whether an op is computed at once although a function is traced: a small one on known
 * integers. So sizes that are computed from `tf.shape` are known. Floating-point ops
 * are not, since gradients may be asked for. */
static bool
is_folded(ipu_op op, ipu_py_tensor *const *inputs, uint32_t input_count,
          ipu_attrs attrs)
{
    const ipu_op_info *info = ipu_op_info_of(op);
    size_t bytes = 0;
    if (input_count == 0 || (info->flags & (IPU_OP_RANDOM | IPU_OP_OPAQUE)) != 0 ||
        (info->flags & (IPU_OP_KERNEL | IPU_OP_VIEW)) == 0 ||
        ipu_dtype_is_float((ipu_dtype)ipu_attrs_int(attrs, IPU_ATTR_DTYPE,
                                                    (int64_t)IPU_DTYPE_INT32))) {
        return false;
    }
    for (uint32_t i = 0; i < input_count; i++) {
        if (inputs[i]->storage == NULL || ipu_dtype_is_float(inputs[i]->type.dtype)) {
            return false;
        }
        bytes += ipu_type_bytes(&inputs[i]->type);
    }
    return bytes <= MAX_FOLDED_BYTES && op != IPU_OP_ID_BROADCAST &&
           op != IPU_OP_ID_ONE_HOT;
}

PyObject *
ipu_py_apply(ipu_py_state *state, ipu_op op, ipu_py_tensor *const *inputs,
             uint32_t input_count, const ipu_attr *attrs, uint32_t attr_count)
{
    ipu_attrs list = {attrs, attr_count};
    return ipu_py_open_trace(state) == NULL || is_folded(op, inputs, input_count, list)
               ? ipu_py_apply_eager(state, op, inputs, input_count, list)
               : apply_traced(state, op, inputs, input_count, list);
}

static PyObject *
apply(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    ipu_py_state *state = ipu_py_state_of_module(module);
    ipu_op op;
    uint32_t attr_count;
    ipu_attr attrs[MAX_ATTRS];
    if (given < 2 || given > 3) {
        return PyErr_Format(PyExc_TypeError, "apply takes op, inputs and attrs");
    }
    if (!ipu_py_op_converter(args[0], &op)) {
        return NULL;
    }
    PyObject *dict = given > 2 ? args[2] : Py_None;
    ipu_ctx ctx = ipu_py_ctx();
    ipu_arena arena = {0};
    PyObject *result = NULL;
    PyObject *tensors = tensors_of(state, args[1]);
    if (tensors != NULL &&
        ipu_py_parse_attrs(dict, &ctx, &arena, attrs, MAX_ATTRS, &attr_count) == 0) {
        result = ipu_py_apply(state, op, items_of(tensors),
                              (uint32_t)PyTuple_GET_SIZE(tensors), attrs, attr_count);
    }
    Py_XDECREF(tensors);
    ipu_arena_free(&ctx, &arena);
    return result;
}

static PyObject *
in_trace(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    PyObject *open = ipu_py_open_trace(ipu_py_state_of_module(module));
    return Py_NewRef(open == NULL ? Py_None : open);
}

PyMethodDef ipu_py_apply_methods[] = {
    {"apply", IPU_PY_FUNCTION(apply), METH_FASTCALL,
     "One op of the op table: a node of the open trace, or its result at once."},
    {"open_trace", in_trace, METH_NOARGS, "The innermost open trace, or None."},
    {NULL, NULL, 0, NULL},
};
