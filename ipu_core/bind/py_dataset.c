/* SPDX-License-Identifier: MIT
 *
 * `ipu._core.Dataset`: counted handles of the core's data sets over flat tuples of
 * components. Nesting, defaults and TensorFlow's names are the business of
 * ipu.tf.data.
 *
 * Who holds what. A Dataset object holds the objects of its inputs and the callable of
 * its own, where the garbage collector sees them; the core's data set holds a
 * callback that is empty once the object is gone. Iterators and feeders hold the
 * object that they read. A thread of theirs that was left behind finds the callback
 * empty and fails, and no thread reads its error.
 *
 * NumPy arrays are held through the buffer protocol and never copied. Everything
 * that may wait, run a callback or free an iterator releases the GIL first. */
#include "bind/bind.h"

/* --- callbacks ------------------------------------------------------------------- */

/* The core calls them from any thread, with no lock of its own held. One takes the GIL,
 * and what Python raises there travels with the error: the consumer, on whatever
 * thread, raises that very object. */
typedef struct callback {
    PyObject *callable;         /* the Dataset object's; NULL: it is gone */
    PyTypeObject *program_type; /* of what a map's function gives (borrowed), or NULL */
    PyObject *programs;         /* list: of a map's function; NULL for a generator */
    Py_ssize_t count;           /* components of a generator's element */
} callback;

/* Specs (dtype, shape or None) of types. */
static PyObject *
spec_tuples(const ipu_type *types, uint32_t count)
{
    PyObject *list = ipu_py_type_list(types, count);
    PyObject *tuple = list == NULL ? NULL : PyList_AsTuple(list);
    Py_XDECREF(list);
    return tuple;
}

/* The status of a generator that raised: CANCELLED where that was not an error of its
 * element (Ctrl-C, an exit), although the record has the exception itself. GIL held. */
static ipu_status
generator_failed(ipu_ctx *ctx)
{
    bool is_error = PyErr_ExceptionMatches(PyExc_Exception) != 0;
    ipu_status status = ipu_py_fail(ctx);
    return is_error ? status : IPU_STATUS_CANCELLED;
}

/* Frees what C held on a thread of its own choosing. */
static void
release(void (*free)(void *), void *owner)
{
    if (Py_IsInitialized()) {
        ipu_py_entry entry = ipu_py_enter();
        free(owner);
        (void)ipu_py_leave(NULL, entry, IPU_OK);
    }
}

static void
free_object(void *object)
{
    Py_XDECREF((PyObject *)object);
}

/* A callback of `callable`, which it does not hold yet; NULL with an exception. */
static callback *
callback_new(PyTypeObject *program_type, Py_ssize_t count)
{
    callback *made = PyMem_RawCalloc(1, sizeof(*made));
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
static void
callback_release(void *state)
{
    callback *self = state;
    if (self->programs != NULL) {
        release(free_object, self->programs);
    }
    PyMem_RawFree(self);
}

/* New reference to the callable, or the exception that says where it is. GIL held. */
static PyObject *
callable_of(const callback *self)
{
    if (self->callable == NULL) {
        PyErr_SetString(PyExc_RuntimeError,
                        "the data set is gone, and its function with it");
    }
    return Py_XNewRef(self->callable);
}

static void
free_buffer(void *view)
{
    PyBuffer_Release(view);
    PyMem_Free(view);
}

static void
release_buffer(void *view)
{
    release(free_buffer, view);
}

/* Type and memory of an array; the view holds it. */
static int
view_array(PyObject *array, Py_buffer *view, ipu_type *type)
{
    PyObject *dtype = PyObject_GetAttrString(array, "dtype");
    if (dtype == NULL) {
        return -1;
    }
    int converted = ipu_py_dtype_converter(dtype, &type->dtype);
    Py_DECREF(dtype);
    if (!converted || PyObject_GetBuffer(array, view, PyBUF_ND) != 0) {
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
    Py_ssize_t held; /* views in use; the arrays lie after the struct */
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
free_pass(void *state)
{
    generator_pass *pass = state;
    drop_views(pass);
    Py_DECREF(pass->iterator);
    PyMem_Free(pass);
}

static void
generator_close(void *state)
{
    release(free_pass, state);
}

/* state: a callback whose callable starts a pass. */
static ipu_status
generator_open(ipu_ctx *ctx, void *state, void **out_pass)
{
    ipu_py_entry entry = ipu_py_enter();
    Py_ssize_t count = ((const callback *)state)->count;
    size_t bytes = sizeof(Py_buffer) + sizeof(ipu_type) + sizeof(void *);
    generator_pass *pass =
        PyMem_Calloc(1, sizeof(generator_pass) + (size_t)count * bytes);
    PyObject *start = pass == NULL ? PyErr_NoMemory() : callable_of(state);
    PyObject *iterable = start == NULL ? NULL : PyObject_CallNoArgs(start);
    PyObject *iterator = iterable == NULL ? NULL : PyObject_GetIter(iterable);
    Py_XDECREF(start);
    Py_XDECREF(iterable);
    if (iterator == NULL) {
        PyMem_Free(pass);
        return ipu_py_leave(ctx, entry, generator_failed(ctx));
    }
    Py_buffer *views = (Py_buffer *)(pass + 1);
    ipu_type *types = (ipu_type *)(views + count);
    *pass = (generator_pass){iterator, count, 0,
                             views,    types, (const void **)(types + count)};
    *out_pass = pass;
    return ipu_py_leave(ctx, entry, IPU_OK);
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
        if (view_array(PyTuple_GET_ITEM(element, i), &pass->views[i],
                       &pass->types[i]) != 0) {
            return -1;
        }
        pass->held++;
        pass->parts[i] = pass->views[i].buf;
    }
    return 0;
}

static ipu_status
generator_next(ipu_ctx *ctx, void *state, const ipu_type **types,
               const void *const **components, bool *end)
{
    generator_pass *pass = state;
    ipu_status status = IPU_OK;
    ipu_py_entry entry = ipu_py_enter();
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
    return ipu_py_leave(ctx, entry, status);
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

/* state: a callback whose callable compiles; it keeps the programs. */
static ipu_status
map_compile(ipu_ctx *ctx, void *state, const ipu_type *inputs, uint32_t count,
            const ipu_program **out_program)
{
    ipu_py_entry entry = ipu_py_enter();
    ipu_status status = IPU_OK;
    callback *self = state;
    PyObject *program = NULL;
    PyObject *specs = spec_tuples(inputs, count);
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
    return ipu_py_leave(ctx, entry, status);
}

int
ipu_py_dataset_visit(ipu_iterator *iterator, visitproc visit, void *arg)
{
    visited_passes passes = {visit, arg, 0};
    ipu_iterator_visit(iterator, visit_pass, &passes);
    return passes.result;
}

/* --- objects --------------------------------------------------------------------- */

typedef struct py_dataset {
    PyObject_HEAD
    ipu_dataset *dataset;
    PyObject *inputs;   /* a Dataset, a tuple of them, or NULL */
    callback *callback; /* the core's; NULL for a data set without one */
} py_dataset;

ipu_dataset *
ipu_py_dataset_of(PyObject *object)
{
    return ((py_dataset *)object)->dataset;
}

/* One that is being made. */
typedef struct making {
    ipu_ctx ctx;
    ipu_dataset *dataset;
} making;

/* The result of a constructor: an object around the data set, or the exception of the
 * status. `inputs` is borrowed. */
static PyObject *
finish(PyTypeObject *type, making *m, ipu_status status, PyObject *inputs)
{
    if (!ipu_py_is_ok(&m->ctx, status)) {
        return NULL;
    }
    py_dataset *self = (py_dataset *)type->tp_alloc(type, 0);
    if (self == NULL) {
        Py_BEGIN_ALLOW_THREADS
        ipu_dataset_unref(m->dataset);
        Py_END_ALLOW_THREADS
        return NULL;
    }
    self->dataset = m->dataset;
    self->inputs = Py_XNewRef(inputs);
    return (PyObject *)self;
}

/* As finish, for a data set that calls `callable` back. */
static PyObject *
finish_callback(PyTypeObject *type, making *m, ipu_status status, PyObject *inputs,
                callback *own, PyObject *callable)
{
    if (status != IPU_OK) {
        callback_release(own);
    }
    PyObject *self = finish(type, m, status, inputs);
    if (self != NULL) {
        own->callable = Py_NewRef(callable);
        ((py_dataset *)self)->callback = own;
    }
    return self;
}

/* --- constructors ---------------------------------------------------------------- */

typedef ipu_status held_constructor(ipu_ctx *ctx, const ipu_type *types,
                                    const ipu_foreign_buffer *buffers, uint32_t count,
                                    ipu_dataset **out);

static PyObject *
from_arrays(PyTypeObject *type, PyObject *arrays, held_constructor *construct)
{
    if (!PyTuple_Check(arrays)) {
        return PyErr_Format(PyExc_TypeError, "arrays must be a tuple, not %R", arrays);
    }
    Py_ssize_t count = PyTuple_GET_SIZE(arrays);
    Py_ssize_t held = 0;
    PyObject *result = NULL;
    ipu_type *types = PyMem_Calloc((size_t)count + 1, sizeof(*types));
    ipu_foreign_buffer *buffers = PyMem_Calloc((size_t)count + 1, sizeof(*buffers));
    if (types == NULL || buffers == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    for (; held < count; held++) {
        Py_buffer *view = PyMem_Calloc(1, sizeof(*view));
        if (view == NULL) {
            PyErr_NoMemory();
            goto done;
        }
        if (view_array(PyTuple_GET_ITEM(arrays, held), view, &types[held]) < 0) {
            PyMem_Free(view);
            goto done;
        }
        buffers[held] = (ipu_foreign_buffer){view->buf, release_buffer, view};
    }
    making m = {.ctx = ipu_py_ctx()};
    ipu_status status = construct(&m.ctx, types, buffers, (uint32_t)count, &m.dataset);
    if (status == IPU_OK) {
        held = 0; /* the data set's now */
    }
    result = finish(type, &m, status, NULL);
done:
    for (Py_ssize_t i = 0; i < held; i++) {
        release_buffer(buffers[i].owner);
    }
    PyMem_Free(buffers);
    PyMem_Free(types);
    return result;
}

static PyObject *
dataset_slices(PyTypeObject *type, PyObject *arrays)
{
    return from_arrays(type, arrays, ipu_dataset_slices);
}

static PyObject *
dataset_tensors(PyTypeObject *type, PyObject *arrays)
{
    return from_arrays(type, arrays, ipu_dataset_tensors);
}

static PyObject *
dataset_range(PyTypeObject *type, PyObject *arguments)
{
    long long start;
    long long stop;
    long long step;
    if (!PyArg_ParseTuple(arguments, "LLL:range", &start, &stop, &step)) {
        return NULL;
    }
    making m = {.ctx = ipu_py_ctx()};
    ipu_status status = ipu_dataset_range(&m.ctx, start, stop, step, &m.dataset);
    return finish(type, &m, status, NULL);
}

static PyObject *
dataset_generator(PyTypeObject *type, PyObject *arguments)
{
    PyObject *specs;
    PyObject *start;
    uint32_t count;
    long long cardinality = IPU_CARDINALITY_UNKNOWN;
    if (!PyArg_ParseTuple(arguments, "OO|L:generator", &specs, &start, &cardinality)) {
        return NULL;
    }
    ipu_type *types = ipu_py_types(specs, ipu_py_spec_converter, &count);
    callback *own = types == NULL ? NULL : callback_new(NULL, (Py_ssize_t)count);
    if (own == NULL) {
        PyMem_Free(types);
        return NULL;
    }
    making m = {.ctx = ipu_py_ctx()};
    const ipu_generator generator = {generator_open, generator_next, generator_close,
                                     callback_release, own};
    ipu_status status = ipu_dataset_generator(&m.ctx, types, count, &generator,
                                              cardinality, &m.dataset);
    PyMem_Free(types);
    return finish_callback(type, &m, status, NULL, own, start);
}

static PyObject *
dataset_zip(PyTypeObject *type, PyObject *tuple)
{
    if (!PyTuple_Check(tuple)) {
        return PyErr_Format(PyExc_TypeError, "datasets must be a tuple, not %R", tuple);
    }
    Py_ssize_t count = PyTuple_GET_SIZE(tuple);
    ipu_dataset **inputs = PyMem_Calloc((size_t)count + 1, sizeof(*inputs));
    if (inputs == NULL) {
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyTuple_GET_ITEM(tuple, i);
        if (!PyObject_TypeCheck(item, type)) {
            PyMem_Free(inputs);
            return PyErr_Format(PyExc_TypeError, "zip takes data sets, not %R", item);
        }
        inputs[i] = ipu_py_dataset_of(item);
    }
    making m = {.ctx = ipu_py_ctx()};
    ipu_status status = ipu_dataset_zip(&m.ctx, inputs, (uint32_t)count, &m.dataset);
    PyMem_Free(inputs);
    return finish(type, &m, status, tuple);
}

/* --- transformations ------------------------------------------------------------- */

static PyObject *
dataset_shuffle(PyObject *self, PyObject *arguments)
{
    long long size;
    unsigned long long seed;
    int reshuffle;
    if (!PyArg_ParseTuple(arguments, "LKp:shuffle", &size, &seed, &reshuffle)) {
        return NULL;
    }
    making m = {.ctx = ipu_py_ctx()};
    ipu_status status = ipu_dataset_shuffle(&m.ctx, ipu_py_dataset_of(self), size, seed,
                                            reshuffle != 0, &m.dataset);
    return finish(Py_TYPE(self), &m, status, self);
}

static PyObject *
dataset_batch(PyObject *self, PyObject *arguments)
{
    long long size;
    int drop;
    if (!PyArg_ParseTuple(arguments, "Lp:batch", &size, &drop)) {
        return NULL;
    }
    making m = {.ctx = ipu_py_ctx()};
    ipu_status status =
        ipu_dataset_batch(&m.ctx, ipu_py_dataset_of(self), size, drop != 0, &m.dataset);
    return finish(Py_TYPE(self), &m, status, self);
}

/* map where specs are given, else filter. */
static PyObject *
with_function(PyObject *self, PyObject *compile, uint64_t seed, PyObject *specs,
              bool ends)
{
    uint32_t count = 0;
    ipu_type *types =
        specs == NULL ? NULL : ipu_py_types(specs, ipu_py_spec_converter, &count);
    callback *own = specs != NULL && types == NULL
                        ? NULL
                        : callback_new(ipu_py_state_of(self)->program_type, 0);
    if (own == NULL) {
        PyMem_Free(types);
        return NULL;
    }
    making m = {.ctx = ipu_py_ctx()};
    ipu_dataset *input = ipu_py_dataset_of(self);
    const ipu_map_function function = {map_compile, callback_release, own, seed};
    ipu_status status =
        specs == NULL
            ? ipu_dataset_filter(&m.ctx, input, &function, ends, &m.dataset)
            : ipu_dataset_map(&m.ctx, input, &function, types, count, &m.dataset);
    PyMem_Free(types);
    return finish_callback(Py_TYPE(self), &m, status, self, own, compile);
}

static PyObject *
dataset_map(PyObject *self, PyObject *arguments)
{
    PyObject *specs;
    PyObject *compile;
    unsigned long long seed;
    return PyArg_ParseTuple(arguments, "OOK:map", &specs, &compile, &seed)
               ? with_function(self, compile, seed, specs, false)
               : NULL;
}

static PyObject *
dataset_filter(PyObject *self, PyObject *arguments)
{
    PyObject *compile;
    unsigned long long seed;
    int ends;
    return PyArg_ParseTuple(arguments, "OKp:filter", &compile, &seed, &ends)
               ? with_function(self, compile, seed, NULL, ends != 0)
               : NULL;
}

static PyObject *
dataset_concatenate(PyObject *self, PyObject *other)
{
    if (!PyObject_TypeCheck(other, Py_TYPE(self))) {
        return PyErr_Format(PyExc_TypeError, "concatenate takes a data set, not %R",
                            other);
    }
    PyObject *inputs = PyTuple_Pack(2, self, other);
    if (inputs == NULL) {
        return NULL;
    }
    making m = {.ctx = ipu_py_ctx()};
    ipu_status status = ipu_dataset_concatenate(&m.ctx, ipu_py_dataset_of(self),
                                                ipu_py_dataset_of(other), &m.dataset);
    PyObject *result = finish(Py_TYPE(self), &m, status, inputs);
    Py_DECREF(inputs);
    return result;
}

static PyObject *
dataset_shard(PyObject *self, PyObject *arguments)
{
    long long count;
    long long index;
    long long block = 1;
    if (!PyArg_ParseTuple(arguments, "LL|L:shard", &count, &index, &block)) {
        return NULL;
    }
    making m = {.ctx = ipu_py_ctx()};
    ipu_status status =
        ipu_dataset_shard(&m.ctx, ipu_py_dataset_of(self), count, index, block,
                          &m.dataset);
    return finish(Py_TYPE(self), &m, status, self);
}

static PyObject *
dataset_repeat_from(PyObject *self, PyObject *args)
{
    long long count;
    long long first;
    if (!PyArg_ParseTuple(args, "LL:repeat_from", &count, &first)) {
        return NULL;
    }
    if (first < 0) {
        return PyErr_Format(PyExc_ValueError, "there is no pass number %lld", first);
    }
    making m = {.ctx = ipu_py_ctx()};
    ipu_status status = ipu_dataset_repeat_from(&m.ctx, ipu_py_dataset_of(self), count,
                                                (uint64_t)first, &m.dataset);
    return finish(Py_TYPE(self), &m, status, self);
}

#define WITHOUT_ARGUMENTS(name) \
    static PyObject *dataset_##name(PyObject *self, PyObject *Py_UNUSED(ignored)) \
    { \
        making m = {.ctx = ipu_py_ctx()}; \
        ipu_status status = \
            ipu_dataset_##name(&m.ctx, ipu_py_dataset_of(self), &m.dataset); \
        return finish(Py_TYPE(self), &m, status, self); \
    }
WITHOUT_ARGUMENTS(unbatch)
WITHOUT_ARGUMENTS(cache)

typedef ipu_status count_constructor(ipu_ctx *ctx, ipu_dataset *input, int64_t count,
                                     ipu_dataset **out);

static PyObject *
with_count(PyObject *self, PyObject *argument, count_constructor *construct)
{
    long long count;
    if (!PyArg_Parse(argument, "L", &count)) {
        return NULL;
    }
    making m = {.ctx = ipu_py_ctx()};
    ipu_status status = construct(&m.ctx, ipu_py_dataset_of(self), count, &m.dataset);
    if (status == IPU_OK && m.dataset == ipu_py_dataset_of(self)) {
        ipu_dataset_unref(m.dataset); /* nothing was put on top of it */
        return Py_NewRef(self);
    }
    return finish(Py_TYPE(self), &m, status, self);
}

#define WITH_COUNT(name) \
    static PyObject *dataset_##name(PyObject *self, PyObject *count) \
    { \
        return with_count(self, count, ipu_dataset_##name); \
    }
WITH_COUNT(repeat)
WITH_COUNT(take)
WITH_COUNT(skip)
WITH_COUNT(assert_cardinality)
WITH_COUNT(prefetch)

/* --- the type -------------------------------------------------------------------- */

static PyObject *
dataset_iterator(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    PyTypeObject *type = ipu_py_state_of(self)->dataset_iterator_type;
    return PyObject_CallOneArg((PyObject *)type, self);
}

static int
dataset_traverse(PyObject *object, visitproc visit, void *arg)
{
    py_dataset *self = (py_dataset *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->inputs);
    if (self->callback != NULL) {
        Py_VISIT(self->callback->callable);
    }
    return 0;
}

static int
dataset_clear(PyObject *object)
{
    py_dataset *self = (py_dataset *)object;
    Py_CLEAR(self->inputs);
    if (self->callback != NULL) {
        Py_CLEAR(self->callback->callable);
    }
    return 0;
}

static void
dataset_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    ipu_dataset *dataset = ipu_py_dataset_of(object);
    Py_TRASHCAN_BEGIN(object, dataset_dealloc) /* chains are long */
    dataset_clear(object);
    Py_BEGIN_ALLOW_THREADS
    ipu_dataset_unref(dataset);
    Py_END_ALLOW_THREADS
    ipu_py_free(object);
    Py_TRASHCAN_END
}

static PyObject *
types_of(ipu_dataset *dataset)
{
    const ipu_type *types;
    uint32_t count = ipu_dataset_types(dataset, &types);
    return spec_tuples(types, count);
}

#define ATTRIBUTES(X, T) \
    X(T, types, types_of(self->dataset), NULL, \
      "Specs of an element's components: (dtype, shape or None), None in a shape " \
      "where " \
      "the size is not known.") \
    X(T, shards, PyLong_FromLongLong(ipu_dataset_shards(self->dataset)), NULL, \
      "Into how many shards it was cut; 0: none.") \
    X(T, cardinality, PyLong_FromLongLong(ipu_dataset_cardinality(self->dataset)), \
      NULL, "Number of elements; -1: endless, -2: unknown.")
IPU_PY_ATTRIBUTES(py_dataset, ATTRIBUTES);

static PyMethodDef methods[] = {
    {"slices", IPU_PY_FUNCTION(dataset_slices), METH_O | METH_CLASS,
     "Elements are the slices of a tuple of C-contiguous arrays along their first "
     "axis; the arrays are held."},
    {"tensors", IPU_PY_FUNCTION(dataset_tensors), METH_O | METH_CLASS,
     "One element, a tuple of C-contiguous arrays, which are held."},
    {"range", IPU_PY_FUNCTION(dataset_range), METH_VARARGS | METH_CLASS,
     "Int64 scalars."},
    {"generator", IPU_PY_FUNCTION(dataset_generator), METH_VARARGS | METH_CLASS,
     "Elements of the iterator that start() returns for each pass: tuples of "
     "C-contiguous arrays that fit the specs, (dtype, shape or None) each. Where an "
     "iterator goes on after an error, the data set does."},
    {"zip", IPU_PY_FUNCTION(dataset_zip), METH_O | METH_CLASS,
     "The components of one element of each of a tuple of data sets; as long as the "
     "shortest."},
    {"shuffle", dataset_shuffle, METH_VARARGS,
     "Uniform over a window of buffer_size elements."},
    {"batch", dataset_batch, METH_VARARGS,
     "Stacks consecutive elements along a new first axis."},
    {"map", dataset_map, METH_VARARGS,
     "Runs the Program of compile(specs) on each element, with the specs of its "
     "inputs; specs are those of its results, and seed is that of its random ops."},
    {"filter", dataset_filter, METH_VARARGS,
     "The elements for which the Program of compile(specs) gives true; with `ends` "
     "those before the first for which it gives false."},
    {"concatenate", dataset_concatenate, METH_O,
     "The elements of this one, then of the other."},
    {"shard", dataset_shard, METH_VARARGS,
     "Blocks (of 1 element) index, index + count, and so on."},
    {"unbatch", dataset_unbatch, METH_NOARGS,
     "The slices of each element along the first axis."},
    {"cache", dataset_cache, METH_NOARGS,
     "Reads the input once and keeps its elements."},
    {"assert_cardinality", dataset_assert_cardinality, METH_O,
     "-1: endless; reading to the end raises where there is another number."},
    {"repeat", dataset_repeat, METH_O, "-1: for ever."},
    {"repeat_from", dataset_repeat_from, METH_VARARGS,
     "As repeat(count), but the passes are number first, first + 1, ... of the data "
     "set's life."},
    {"take", dataset_take, METH_O, "-1: all."},
    {"skip", dataset_skip, METH_O, "-1: all."},
    {"prefetch", dataset_prefetch, METH_O,
     "A thread per iterator reads up to depth elements ahead; -1: a depth of the "
     "core's choice."},
    {"iterator", dataset_iterator, METH_NOARGS, "A new DatasetIterator."},
    {NULL, NULL, 0, NULL},
};

IPU_PY_TYPE(dataset, "Dataset", py_dataset,
            Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_GC,
            {Py_tp_doc, "A data set of the core; see ipu.tf.data.Dataset."},
            {Py_tp_dealloc, dataset_dealloc}, {Py_tp_traverse, dataset_traverse},
            {Py_tp_clear, dataset_clear}, {Py_tp_methods, methods},
            {Py_tp_getset, py_dataset_getset});
