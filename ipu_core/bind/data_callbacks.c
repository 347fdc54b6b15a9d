/* SPDX-License-Identifier: MIT
 *
 * The callback room of data/: generators and map functions are Python callables that
 * the core calls from any thread, with no lock of its own held. A callback takes the
 * GIL, and what Python raises there travels with the error: the consumer, on whatever
 * thread, raises that very object. */
#include "bind/data_callbacks.h"

/* The status of a generator that raised: CANCELLED where that was not an error of its
 * element (Ctrl-C, an exit), although the record has the exception itself. GIL held. */
static ipu_status
generator_failed(ipu_ctx *ctx)
{
    bool is_error = PyErr_ExceptionMatches(PyExc_Exception) != 0;
    ipu_status status = ipu_py_fail(ctx);
    return is_error ? status : IPU_STATUS_CANCELLED;
}

/* An object that C holds until it lets go of it on a thread of its own choosing. */
static void
release_object(void *owner)
{
    if (Py_IsInitialized()) {
        PyGILState_STATE gil = ipu_py_enter();
        Py_DECREF((PyObject *)owner);
        (void)ipu_py_leave(NULL, gil, IPU_OK);
    }
}

/* A callback of `callable`, which it does not hold yet; NULL with an exception. */
ipu_py_callback *
ipu_py_callback_new(PyTypeObject *program_type, Py_ssize_t count)
{
    ipu_py_callback *made = PyMem_RawCalloc(1, sizeof(*made));
    if (made == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    made->count = count;
    made->program_type = program_type;
    made->programs = program_type != NULL ? PyList_New(0) : NULL;
    if (program_type != NULL && made->programs == NULL) {
        PyMem_RawFree(made);
        return NULL;
    }
    return made;
}

/* The core's data set has gone; its object has taken the callable with it before. */
void
ipu_py_callback_release(void *state)
{
    ipu_py_callback *self = state;
    if (self->programs != NULL) {
        release_object(self->programs);
    }
    PyMem_RawFree(self);
}

/* New reference to the callable, or the exception that says where it is. GIL held. */
static PyObject *
callable_of(const ipu_py_callback *self)
{
    if (self->callable == NULL) {
        PyErr_SetString(PyExc_RuntimeError,
                        "the data set is gone, and its function with it");
    }
    return Py_XNewRef(self->callable);
}

void
ipu_py_release_buffer(void *owner)
{
    if (Py_IsInitialized()) {
        PyGILState_STATE gil = ipu_py_enter();
        PyBuffer_Release(owner);
        PyMem_Free(owner);
        (void)ipu_py_leave(NULL, gil, IPU_OK);
    }
}

/* Type and memory of an array; the view holds it. */
int
ipu_py_view_array(PyObject *array, Py_buffer *view, ipu_type *type)
{
    PyObject *dtype = PyObject_GetAttrString(array, "dtype");
    if (dtype == NULL) {
        return -1;
    }
    int failed = ipu_py_parse_dtype(dtype, &type->dtype);
    Py_DECREF(dtype);
    if (failed != 0 || PyObject_GetBuffer(array, view, PyBUF_ND) != 0) {
        return -1;
    }
    if (view->ndim > IPU_MAX_RANK ||
        (size_t)view->itemsize != ipu_dtype_bytes(type->dtype)) {
        PyErr_Format(PyExc_ValueError,
                     "a tensor of a data set has at most %d dimensions, not %d",
                     (int)IPU_MAX_RANK, view->ndim);
        PyBuffer_Release(view);
        return -1;
    }
    type->shape = (ipu_shape){.rank = view->ndim};
    for (int i = 0; i < view->ndim; i++) {
        type->shape.dims[i] = view->shape[i];
    }
    return 0;
}

/* One pass of a generator: a Python iterator over flat tuples of arrays. */
typedef struct generator_pass {
    PyObject *iterator;
    Py_ssize_t count;
    Py_ssize_t held; /* views in use */
    Py_buffer *views;
    ipu_type *types;
    const void **parts;
} generator_pass;

static void
drop_views(generator_pass *pass)
{
    while (pass->held > 0) {
        PyBuffer_Release(&pass->views[--pass->held]);
    }
}

static void
free_pass(generator_pass *pass)
{
    drop_views(pass);
    Py_XDECREF(pass->iterator);
    PyMem_Free(pass->views);
    PyMem_Free(pass->types);
    PyMem_Free(pass->parts);
    PyMem_Free(pass);
}

void
ipu_py_generator_close(void *state)
{
    if (Py_IsInitialized()) {
        PyGILState_STATE gil = ipu_py_enter();
        free_pass(state);
        (void)ipu_py_leave(NULL, gil, IPU_OK);
    }
}

/* state: a callback whose callable starts a pass. */
ipu_status
ipu_py_generator_open(ipu_ctx *ctx, void *state, void **out_pass)
{
    PyGILState_STATE gil = ipu_py_enter();
    ipu_status status = IPU_OK;
    generator_pass *pass = PyMem_Calloc(1, sizeof(*pass));
    if (pass == NULL) {
        PyErr_NoMemory();
        return ipu_py_leave(ctx, gil, ipu_py_fail(ctx));
    }
    pass->count = ((const ipu_py_callback *)state)->count;
    size_t room = (size_t)pass->count + 1;
    pass->views = PyMem_Calloc(room, sizeof(*pass->views));
    pass->types = PyMem_Calloc(room, sizeof(*pass->types));
    pass->parts = PyMem_Calloc(room, sizeof(*pass->parts));
    if (pass->views == NULL || pass->types == NULL || pass->parts == NULL) {
        PyErr_NoMemory();
    } else {
        PyObject *start = callable_of(state);
        PyObject *iterable = start == NULL ? NULL : PyObject_CallNoArgs(start);
        Py_XDECREF(start);
        if (iterable != NULL) {
            pass->iterator = PyObject_GetIter(iterable);
            Py_DECREF(iterable);
        }
    }
    if (pass->iterator == NULL) {
        status = generator_failed(ctx);
        free_pass(pass);
    } else {
        *out_pass = pass;
    }
    return ipu_py_leave(ctx, gil, status);
}

static int
take_element(generator_pass *pass, PyObject *element)
{
    if (!PyTuple_Check(element) || PyTuple_GET_SIZE(element) != pass->count) {
        PyErr_Format(PyExc_TypeError,
                     "a generator pass must yield tuples of %zd arrays, not %R",
                     pass->count, element);
        return -1;
    }
    for (Py_ssize_t i = 0; i < pass->count; i++) {
        if (ipu_py_view_array(PyTuple_GET_ITEM(element, i), &pass->views[i],
                              &pass->types[i]) != 0) {
            return -1;
        }
        pass->held++;
        pass->parts[i] = pass->views[i].buf;
    }
    return 0;
}

ipu_status
ipu_py_generator_next(ipu_ctx *ctx, void *state, const ipu_type **types,
                      const void *const **components, bool *end)
{
    generator_pass *pass = state;
    ipu_status status = IPU_OK;
    PyGILState_STATE gil = ipu_py_enter();
    drop_views(pass);
    PyObject *element = PyIter_Next(pass->iterator);
    if (element == NULL) {
        *end = PyErr_Occurred() == NULL;
        status = *end ? IPU_OK : generator_failed(ctx);
    } else {
        if (take_element(pass, element) != 0) {
            drop_views(pass);
            status = ipu_py_fail(ctx);
        }
        Py_DECREF(element); /* the views hold the arrays */
        *types = pass->types;
        *components = pass->parts;
    }
    return ipu_py_leave(ctx, gil, status);
}

typedef struct visited_passes {
    visitproc visit;
    void *arg;
    int result;
} visited_passes;

static void
visit_pass(void *pass, void *argument)
{
    visited_passes *passes = argument;
    PyObject *iterator = ((const generator_pass *)pass)->iterator;
    if (passes->result == 0 && iterator != NULL) {
        passes->result = passes->visit(iterator, passes->arg);
    }
}

static PyObject *
spec_tuple(const ipu_type *type)
{
    if (type->shape.rank < 0) {
        return Py_BuildValue("(sO)", ipu_dtype_name(type->dtype), Py_None);
    }
    return ipu_py_type_tuple(type);
}

PyObject *
ipu_py_spec_tuples(const ipu_type *types, uint32_t count)
{
    PyObject *result = PyTuple_New((Py_ssize_t)count);
    for (uint32_t i = 0; result != NULL && i < count; i++) {
        PyObject *item = spec_tuple(&types[i]);
        if (item == NULL) {
            Py_CLEAR(result);
            break;
        }
        PyTuple_SET_ITEM(result, (Py_ssize_t)i, item);
    }
    return result;
}

/* state: a callback whose callable compiles; it keeps the programs. */
ipu_status
ipu_py_map_compile(ipu_ctx *ctx, void *state, const ipu_type *inputs, uint32_t count,
                   const ipu_program **out_program)
{
    PyGILState_STATE gil = ipu_py_enter();
    ipu_status status = IPU_OK;
    ipu_py_callback *self = state;
    PyObject *program = NULL;
    PyObject *specs = ipu_py_spec_tuples(inputs, count);
    PyObject *compile = specs != NULL ? callable_of(self) : NULL;
    if (compile != NULL) {
        program = PyObject_CallOneArg(compile, specs);
        Py_DECREF(compile);
    }
    if (program != NULL && !PyObject_TypeCheck(program, self->program_type)) {
        PyErr_Format(PyExc_TypeError, "a map function compiles to a Program, not %R",
                     program);
        Py_CLEAR(program);
    }
    if (program == NULL || PyList_Append(self->programs, program) != 0) {
        status = ipu_py_fail(ctx);
    } else {
        *out_program = ipu_py_program_of(program);
    }
    Py_XDECREF(program);
    Py_XDECREF(specs);
    return ipu_py_leave(ctx, gil, status);
}

int
ipu_py_dataset_visit(ipu_iterator *iterator, visitproc visit, void *arg)
{
    visited_passes passes = {visit, arg, 0};
    ipu_iterator_visit(iterator, visit_pass, &passes);
    return passes.result;
}
