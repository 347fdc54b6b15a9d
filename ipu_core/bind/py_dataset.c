/* SPDX-License-Identifier: MIT
 *
 * `ipu._core.Dataset`: counted handles of the core's data sets over flat tuples of
 * components. Nesting, defaults and TensorFlow's names are the business of
 * ipu.tf.data.
 *
 * Who holds what. A Dataset object holds the objects of its inputs and the callable of
 * its own, where the garbage collector sees them; the core's data set holds an
 * ipu_py_callback that is empty once the object is gone. Iterators and feeders hold the
 * object that they read. A thread of theirs that was left behind finds the callback
 * empty and fails, and no thread reads its error.
 *
 * NumPy arrays are held through the buffer protocol and never copied. Everything
 * that may wait, run a callback or free an iterator releases the GIL first. */
#include "bind/py_dataset.h"

#include "bind/data_callbacks.h"

typedef struct py_dataset {
    PyObject_HEAD
    ipu_dataset *dataset;
    PyObject *inputs;          /* a Dataset, a tuple of them, or NULL */
    ipu_py_callback *callback; /* the core's; NULL for a data set without one */
} py_dataset;

ipu_dataset *
ipu_py_dataset_of(PyObject *object)
{
    return ((py_dataset *)object)->dataset;
}

/* The result of a constructor: an object around the data set, or the exception of the
 * status. `inputs` is borrowed. */
static PyObject *
finish(PyTypeObject *type, ipu_status status, ipu_ctx *ctx, ipu_dataset *dataset,
       PyObject *inputs)
{
    if (status != IPU_OK) {
        return ipu_py_raise(ipu_py_state_of_type(type), ctx);
    }
    py_dataset *self = (py_dataset *)type->tp_alloc(type, 0);
    if (self == NULL) {
        Py_BEGIN_ALLOW_THREADS
        ipu_dataset_unref(dataset);
        Py_END_ALLOW_THREADS
        return NULL;
    }
    self->dataset = dataset;
    self->inputs = Py_XNewRef(inputs);
    return (PyObject *)self;
}

/* As finish, for a data set that calls `callable` back. */
static PyObject *
finish_callback(PyTypeObject *type, ipu_status status, ipu_ctx *ctx,
                ipu_dataset *dataset, PyObject *inputs, ipu_py_callback *own,
                PyObject *callable)
{
    if (status != IPU_OK) {
        ipu_py_callback_release(own);
    }
    PyObject *self = finish(type, status, ctx, dataset, inputs);
    if (self != NULL) {
        own->callable = Py_NewRef(callable);
        ((py_dataset *)self)->callback = own;
    }
    return self;
}

/* --- argument conversion --------------------------------------------------------- */

static int
parse_spec(PyObject *object, ipu_type *out)
{
    if (PyTuple_Check(object) && PyTuple_GET_SIZE(object) == 2 &&
        PyTuple_GET_ITEM(object, 1) == Py_None) {
        out->shape = (ipu_shape){.rank = -1};
        return ipu_py_parse_dtype(PyTuple_GET_ITEM(object, 0), &out->dtype);
    }
    return ipu_py_parse_type_tuple(object, true, out);
}

/* Types of a tuple of specs; free with PyMem_Free. */
static ipu_type *
parse_specs(PyObject *tuple, uint32_t *count)
{
    if (!PyTuple_Check(tuple)) {
        PyErr_Format(PyExc_TypeError, "specs must be a tuple, not %R", tuple);
        return NULL;
    }
    Py_ssize_t size = PyTuple_GET_SIZE(tuple);
    ipu_type *types = PyMem_Calloc((size_t)size + 1, sizeof(*types));
    if (types == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        if (parse_spec(PyTuple_GET_ITEM(tuple, i), &types[i]) != 0) {
            PyMem_Free(types);
            return NULL;
        }
    }
    *count = (uint32_t)size;
    return types;
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
        if (ipu_py_view_array(PyTuple_GET_ITEM(arrays, held), view, &types[held]) !=
            0) {
            PyMem_Free(view);
            goto done;
        }
        buffers[held] = (ipu_foreign_buffer){view->buf, ipu_py_release_buffer, view};
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_dataset *dataset = NULL;
    ipu_status status = construct(&ctx, types, buffers, (uint32_t)count, &dataset);
    if (status == IPU_OK) {
        held = 0; /* the data set's now */
    }
    result = finish(type, status, &ctx, dataset, NULL);
done:
    for (Py_ssize_t i = 0; i < held; i++) {
        ipu_py_release_buffer(buffers[i].owner);
    }
    PyMem_Free(buffers);
    PyMem_Free(types);
    return result;
}

PyDoc_STRVAR(slices_doc,
             "slices(arrays, /)\n--\n\nElements are the slices of a tuple of "
             "C-contiguous arrays along their first axis; the arrays are held.");
static PyObject *
dataset_slices(PyTypeObject *type, PyObject *arrays)
{
    return from_arrays(type, arrays, ipu_dataset_slices);
}

PyDoc_STRVAR(tensors_doc, "tensors(arrays, /)\n--\n\nOne element, a tuple of "
                          "C-contiguous arrays, which are held.");
static PyObject *
dataset_tensors(PyTypeObject *type, PyObject *arrays)
{
    return from_arrays(type, arrays, ipu_dataset_tensors);
}

PyDoc_STRVAR(range_doc, "range(start, stop, step, /)\n--\n\nInt64 scalars.");
static PyObject *
dataset_range(PyTypeObject *type, PyObject *arguments)
{
    long long start;
    long long stop;
    long long step;
    if (!PyArg_ParseTuple(arguments, "LLL:range", &start, &stop, &step)) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_dataset *dataset = NULL;
    ipu_status status = ipu_dataset_range(&ctx, start, stop, step, &dataset);
    return finish(type, status, &ctx, dataset, NULL);
}

PyDoc_STRVAR(generator_doc,
             "generator(specs, start, cardinality=-2, /)\n--\n\nElements of the iterator "
             "that start() returns for each pass: tuples of C-contiguous arrays that "
             "fit the specs, (dtype, shape or None) each. Where an iterator goes on "
             "after an error, the data set does.");
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
    ipu_type *types = parse_specs(specs, &count);
    if (types == NULL) {
        return NULL;
    }
    ipu_py_callback *state = ipu_py_callback_new(NULL, (Py_ssize_t)count);
    if (state == NULL) {
        PyMem_Free(types);
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_dataset *dataset = NULL;
    const ipu_generator generator = {ipu_py_generator_open, ipu_py_generator_next,
                                     ipu_py_generator_close, ipu_py_callback_release,
                                     state};
    ipu_status status = ipu_dataset_generator(&ctx, types, count, &generator,
                                              cardinality, &dataset);
    PyMem_Free(types);
    return finish_callback(type, status, &ctx, dataset, NULL, state, start);
}

PyDoc_STRVAR(zip_doc,
             "zip(datasets, /)\n--\n\nThe components of one element of each of a tuple "
             "of data sets; as long as the shortest.");
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
    ipu_ctx ctx = ipu_py_ctx();
    ipu_dataset *dataset = NULL;
    ipu_status status = ipu_dataset_zip(&ctx, inputs, (uint32_t)count, &dataset);
    PyMem_Free(inputs);
    return finish(type, status, &ctx, dataset, tuple);
}

/* --- transformations ------------------------------------------------------------- */

PyDoc_STRVAR(shuffle_doc, "shuffle(buffer_size, seed, reshuffle, /)\n--\n\n"
                          "Uniform over a window of buffer_size elements.");
static PyObject *
dataset_shuffle(PyObject *self, PyObject *arguments)
{
    long long size;
    unsigned long long seed;
    int reshuffle;
    if (!PyArg_ParseTuple(arguments, "LKp:shuffle", &size, &seed, &reshuffle)) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_dataset *dataset = NULL;
    ipu_status status = ipu_dataset_shuffle(&ctx, ipu_py_dataset_of(self), size, seed,
                                            reshuffle != 0, &dataset);
    return finish(Py_TYPE(self), status, &ctx, dataset, self);
}

PyDoc_STRVAR(batch_doc, "batch(size, drop_remainder, /)\n--\n\nStacks consecutive "
                        "elements along a new first axis.");
static PyObject *
dataset_batch(PyObject *self, PyObject *arguments)
{
    long long size;
    int drop;
    if (!PyArg_ParseTuple(arguments, "Lp:batch", &size, &drop)) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_dataset *dataset = NULL;
    ipu_status status =
        ipu_dataset_batch(&ctx, ipu_py_dataset_of(self), size, drop != 0, &dataset);
    return finish(Py_TYPE(self), status, &ctx, dataset, self);
}

PyDoc_STRVAR(
    map_doc,
    "map(specs, compile, seed, /)\n--\n\nRuns the Program of compile(specs) on "
    "each element, with the specs of its inputs; specs are those of its "
    "results, and seed is that of its random ops.");
static PyObject *
dataset_map(PyObject *self, PyObject *arguments)
{
    PyObject *specs;
    PyObject *compile;
    unsigned long long seed;
    uint32_t count;
    if (!PyArg_ParseTuple(arguments, "OOK:map", &specs, &compile, &seed)) {
        return NULL;
    }
    ipu_type *types = parse_specs(specs, &count);
    if (types == NULL) {
        return NULL;
    }
    ipu_py_callback *state =
        ipu_py_callback_new(ipu_py_state_of_type(Py_TYPE(self))->program_type, 0);
    if (state == NULL) {
        PyMem_Free(types);
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_dataset *dataset = NULL;
    const ipu_map_function function = {ipu_py_map_compile, ipu_py_callback_release,
                                       state, seed};
    ipu_status status = ipu_dataset_map(&ctx, ipu_py_dataset_of(self), &function, types,
                                        count, &dataset);
    PyMem_Free(types);
    return finish_callback(Py_TYPE(self), status, &ctx, dataset, self, state, compile);
}

PyDoc_STRVAR(
    filter_doc,
    "filter(compile, seed, ends, /)\n--\n\nThe elements for which the Program "
    "of compile(specs) gives true; with `ends` those before the first for which "
    "it gives false.");
static PyObject *
dataset_filter(PyObject *self, PyObject *arguments)
{
    PyObject *compile;
    unsigned long long seed;
    int ends;
    if (!PyArg_ParseTuple(arguments, "OKp:filter", &compile, &seed, &ends)) {
        return NULL;
    }
    ipu_py_callback *state =
        ipu_py_callback_new(ipu_py_state_of_type(Py_TYPE(self))->program_type, 0);
    if (state == NULL) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_dataset *dataset = NULL;
    const ipu_map_function predicate = {ipu_py_map_compile, ipu_py_callback_release,
                                        state, seed};
    ipu_status status = ipu_dataset_filter(&ctx, ipu_py_dataset_of(self), &predicate,
                                           ends != 0, &dataset);
    return finish_callback(Py_TYPE(self), status, &ctx, dataset, self, state, compile);
}

PyDoc_STRVAR(concatenate_doc, "concatenate(other, /)\n--\n\nThe elements of this one, "
                              "then of the other.");
static PyObject *
dataset_concatenate(PyObject *self, PyObject *other)
{
    if (!PyObject_TypeCheck(other, Py_TYPE(self))) {
        return PyErr_Format(PyExc_TypeError, "concatenate takes a data set, not %R",
                            other);
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_dataset *dataset = NULL;
    ipu_status status = ipu_dataset_concatenate(&ctx, ipu_py_dataset_of(self),
                                                ipu_py_dataset_of(other), &dataset);
    PyObject *inputs = PyTuple_Pack(2, self, other);
    if (inputs == NULL) {
        ipu_dataset_unref(dataset);
        return NULL;
    }
    PyObject *result = finish(Py_TYPE(self), status, &ctx, dataset, inputs);
    Py_DECREF(inputs);
    return result;
}

PyDoc_STRVAR(shard_doc, "shard(count, index, /)\n--\n\nElements index, index + count, "
                        "and so on.");
static PyObject *
dataset_shard(PyObject *self, PyObject *arguments)
{
    long long count;
    long long index;
    if (!PyArg_ParseTuple(arguments, "LL:shard", &count, &index)) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_dataset *dataset = NULL;
    ipu_status status =
        ipu_dataset_shard(&ctx, ipu_py_dataset_of(self), count, index, &dataset);
    return finish(Py_TYPE(self), status, &ctx, dataset, self);
}

typedef ipu_status plain_constructor(ipu_ctx *ctx, ipu_dataset *input,
                                     ipu_dataset **out);

static PyObject *
without_arguments(PyObject *self, plain_constructor *construct)
{
    ipu_ctx ctx = ipu_py_ctx();
    ipu_dataset *dataset = NULL;
    ipu_status status = construct(&ctx, ipu_py_dataset_of(self), &dataset);
    return finish(Py_TYPE(self), status, &ctx, dataset, self);
}

PyDoc_STRVAR(unbatch_doc,
             "unbatch()\n--\n\nThe slices of each element along the first axis.");
static PyObject *
dataset_unbatch(PyObject *self, PyObject *none)
{
    (void)none;
    return without_arguments(self, ipu_dataset_unbatch);
}

PyDoc_STRVAR(cache_doc, "cache()\n--\n\nReads the input once and keeps its elements.");
static PyObject *
dataset_cache(PyObject *self, PyObject *none)
{
    (void)none;
    return without_arguments(self, ipu_dataset_cache);
}

typedef ipu_status count_constructor(ipu_ctx *ctx, ipu_dataset *input, int64_t count,
                                     ipu_dataset **out);

static PyObject *
with_count(PyObject *self, PyObject *argument, count_constructor *construct)
{
    long long count = PyLong_AsLongLong(argument);
    if (count == -1 && PyErr_Occurred() != NULL) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_dataset *dataset = NULL;
    ipu_status status = construct(&ctx, ipu_py_dataset_of(self), count, &dataset);
    if (status == IPU_OK && dataset == ipu_py_dataset_of(self)) {
        ipu_dataset_unref(dataset); /* nothing was put on top of it */
        return Py_NewRef(self);
    }
    return finish(Py_TYPE(self), status, &ctx, dataset, self);
}

PyDoc_STRVAR(repeat_doc, "repeat(count, /)\n--\n\n-1: for ever.");
static PyObject *
dataset_repeat(PyObject *self, PyObject *count)
{
    return with_count(self, count, ipu_dataset_repeat);
}

PyDoc_STRVAR(repeat_from_doc,
             "repeat_from(count, first, /)\n--\n\nAs repeat(count), but the passes "
             "are number first, first + 1, ... of the data set's life.");
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
    ipu_ctx ctx = ipu_py_ctx();
    ipu_dataset *dataset = NULL;
    ipu_status status = ipu_dataset_repeat_from(&ctx, ipu_py_dataset_of(self), count,
                                                (uint64_t)first, &dataset);
    return finish(Py_TYPE(self), status, &ctx, dataset, self);
}

PyDoc_STRVAR(take_doc, "take(count, /)\n--\n\n-1: all.");
static PyObject *
dataset_take(PyObject *self, PyObject *count)
{
    return with_count(self, count, ipu_dataset_take);
}

PyDoc_STRVAR(skip_doc, "skip(count, /)\n--\n\n-1: all.");
static PyObject *
dataset_skip(PyObject *self, PyObject *count)
{
    return with_count(self, count, ipu_dataset_skip);
}

PyDoc_STRVAR(assert_cardinality_doc,
             "assert_cardinality(count, /)\n--\n\n-1: endless; "
             "reading to the end raises where there is another number.");
static PyObject *
dataset_assert_cardinality(PyObject *self, PyObject *count)
{
    return with_count(self, count, ipu_dataset_assert_cardinality);
}

PyDoc_STRVAR(prefetch_doc,
             "prefetch(depth, /)\n--\n\nA thread per iterator reads up to depth "
             "elements ahead; -1: a depth of the core's choice.");
static PyObject *
dataset_prefetch(PyObject *self, PyObject *depth)
{
    return with_count(self, depth, ipu_dataset_prefetch);
}

/* --- the rest -------------------------------------------------------------------- */

PyDoc_STRVAR(iterator_doc, "iterator()\n--\n\nA new DatasetIterator.");
static PyObject *
dataset_iterator(PyObject *self, PyObject *none)
{
    (void)none;
    ipu_py_state *state = ipu_py_state_of_type(Py_TYPE(self));
    return PyObject_CallOneArg((PyObject *)state->dataset_iterator_type, self);
}

static PyObject *
dataset_types(PyObject *self, void *closure)
{
    const ipu_type *types;
    uint32_t count = ipu_dataset_types(ipu_py_dataset_of(self), &types);
    (void)closure;
    return ipu_py_spec_tuples(types, count);
}

static PyObject *
dataset_cardinality(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromLongLong(ipu_dataset_cardinality(ipu_py_dataset_of(self)));
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
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    Py_TRASHCAN_BEGIN(object, dataset_dealloc) /* chains are long */
        ipu_dataset *dataset = ipu_py_dataset_of(object);
    dataset_clear(object);
    Py_BEGIN_ALLOW_THREADS
    ipu_dataset_unref(dataset);
    Py_END_ALLOW_THREADS
    type->tp_free(object);
    Py_DECREF(type);
    Py_TRASHCAN_END
}

static PyMethodDef methods[] = {
    {"slices", (PyCFunction)(void (*)(void))dataset_slices, METH_O | METH_CLASS,
     slices_doc},
    {"tensors", (PyCFunction)(void (*)(void))dataset_tensors, METH_O | METH_CLASS,
     tensors_doc},
    {"range", (PyCFunction)(void (*)(void))dataset_range, METH_VARARGS | METH_CLASS,
     range_doc},
    {"generator", (PyCFunction)(void (*)(void))dataset_generator,
     METH_VARARGS | METH_CLASS, generator_doc},
    {"zip", (PyCFunction)(void (*)(void))dataset_zip, METH_O | METH_CLASS, zip_doc},
    {"shuffle", dataset_shuffle, METH_VARARGS, shuffle_doc},
    {"batch", dataset_batch, METH_VARARGS, batch_doc},
    {"map", dataset_map, METH_VARARGS, map_doc},
    {"filter", dataset_filter, METH_VARARGS, filter_doc},
    {"concatenate", dataset_concatenate, METH_O, concatenate_doc},
    {"shard", dataset_shard, METH_VARARGS, shard_doc},
    {"unbatch", dataset_unbatch, METH_NOARGS, unbatch_doc},
    {"cache", dataset_cache, METH_NOARGS, cache_doc},
    {"assert_cardinality", dataset_assert_cardinality, METH_O, assert_cardinality_doc},
    {"repeat", dataset_repeat, METH_O, repeat_doc},
    {"repeat_from", dataset_repeat_from, METH_VARARGS, repeat_from_doc},
    {"take", dataset_take, METH_O, take_doc},
    {"skip", dataset_skip, METH_O, skip_doc},
    {"prefetch", dataset_prefetch, METH_O, prefetch_doc},
    {"iterator", dataset_iterator, METH_NOARGS, iterator_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"types", dataset_types, NULL,
     "Specs of an element's components: (dtype, shape or None), None in a shape where "
     "the size is not known.",
     NULL},
    {"cardinality", dataset_cardinality, NULL,
     "Number of elements; -1: endless, -2: unknown.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

__extension__ static PyType_Slot slots[] = {
    {Py_tp_doc, "A data set of the core; see ipu.tf.data.Dataset."},
    {Py_tp_dealloc, dataset_dealloc},
    {Py_tp_traverse, dataset_traverse},
    {Py_tp_clear, dataset_clear},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {0, NULL},
};

PyType_Spec ipu_py_dataset_spec = {
    .name = "ipu._core.Dataset",
    .basicsize = sizeof(py_dataset),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};
