/* SPDX-License-Identifier: MIT
 *
 * ipu._core.Schedule: a pipeline's schedule, built from a request or from its text, and
 * checked. */
#define NO_IMPORT_ARRAY
#include "bind/bind.h"

#include <numpy/arrayobject.h>

#include "pipeline/schedule.h"

typedef struct py_schedule {
    PyObject_HEAD
    ipu_schedule *schedule;
    ipu_schedule_measures measures;
} py_schedule;

_Static_assert(sizeof(ipu_action) == 4 * sizeof(uint32_t), "a row of four numbers");

static const ipu_schedule *
schedule_of(PyObject *self)
{
    return ((py_schedule *)self)->schedule;
}

/* --- arguments -------------------------------------------------------------------- */

/* A request and the numbers it points to. */
typedef struct arguments {
    ipu_schedule_request request;
    uint32_t *ipus;
    uint32_t *positions;
} arguments;

static void
free_arguments(arguments *arguments)
{
    PyMem_Free(arguments->ipus);
    PyMem_Free(arguments->positions);
}

/* New memory for a sequence of numbers. */
static int
parse_numbers(PyObject *sequence, uint32_t **out, uint32_t *count)
{
    PyObject *items = PySequence_Tuple(sequence);
    if (items == NULL) {
        return -1;
    }
    Py_ssize_t length = PyTuple_GET_SIZE(items);
    *out = PyMem_Calloc((size_t)length + 1, sizeof(uint32_t));
    bool is_ok = *out != NULL && length <= IPU_SCHEDULE_MAX_STAGES;
    if (!is_ok) {
        PyErr_Format(*out == NULL ? PyExc_MemoryError : PyExc_ValueError,
                     "a pipeline has at most %d stages, but got %zd",
                     IPU_SCHEDULE_MAX_STAGES, length);
    }
    for (Py_ssize_t i = 0; is_ok && i < length; i++) {
        is_ok = ipu_py_uint32_converter(PyTuple_GET_ITEM(items, i), &(*out)[i]);
    }
    Py_DECREF(items);
    *count = (uint32_t)length;
    return is_ok ? 0 : -1;
}

/* Also on failure, the caller frees. */
static int
fill_arguments(arguments *out, const char *name, PyObject *ipus, int is_training,
               PyObject *positions)
{
    ipu_schedule_request *request = &out->request;
    uint32_t count;
    request->name = name;
    request->is_training = is_training != 0;
    if (parse_numbers(ipus, &out->ipus, &request->stage_count) < 0) {
        return -1;
    }
    request->ipus = out->ipus;
    if (positions == Py_None) {
        return 0;
    }
    if (parse_numbers(positions, &out->positions, &count) < 0) {
        return -1;
    }
    request->positions = out->positions;
    if (count != request->stage_count) {
        PyErr_Format(PyExc_ValueError, "%u stages have %u positions",
                     request->stage_count, count);
        return -1;
    }
    return 0;
}

/* --- making ----------------------------------------------------------------------- */

/* Takes the schedule, which has been checked; NULL stands for the error of ctx. */
static PyObject *
wrap(PyObject *cls, ipu_ctx *ctx, ipu_schedule *schedule)
{
    if (schedule == NULL) {
        return ipu_py_raise(ctx);
    }
    PyTypeObject *type = (PyTypeObject *)cls;
    py_schedule *self = (py_schedule *)type->tp_alloc(type, 0);
    if (self == NULL) {
        ipu_schedule_free(ctx, schedule);
        return NULL;
    }
    self->schedule = schedule;
    if (!ipu_py_is_ok(ctx, ipu_schedule_measure(ctx, schedule, &self->measures))) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static PyObject *
schedule_new(PyTypeObject *cls, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {
        "name", "ipus", "micro_batches", "training", "positions", "overlaps_io", NULL};
    const char *name;
    PyObject *ipus;
    int is_training = 1;
    PyObject *positions = Py_None;
    int overlaps_io = 0;
    arguments arguments = {0};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sOO&|pOp:Schedule", names, &name,
                                     &ipus, ipu_py_uint32_converter,
                                     &arguments.request.micro_batches, &is_training,
                                     &positions, &overlaps_io)) {
        return NULL;
    }
    PyObject *result = NULL;
    arguments.request.overlaps_io = overlaps_io != 0;
    if (fill_arguments(&arguments, name, ipus, is_training, positions) == 0) {
        ipu_ctx ctx = ipu_py_ctx();
        ipu_schedule *schedule = NULL;
        Py_BEGIN_ALLOW_THREADS
        ipu_schedule_create(&ctx, &arguments.request, &schedule);
        Py_END_ALLOW_THREADS
        result = wrap((PyObject *)cls, &ctx, schedule);
    }
    free_arguments(&arguments);
    return result;
}

static PyObject *
schedule_parse(PyObject *cls, PyObject *argument)
{
    const char *text = PyUnicode_AsUTF8(argument);
    if (text == NULL) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_schedule *schedule = NULL;
    Py_BEGIN_ALLOW_THREADS
    if (ipu_schedule_parse(&ctx, text, &schedule) == IPU_OK &&
        ipu_schedule_check(&ctx, schedule) != IPU_OK) {
        ipu_schedule_free(&ctx, schedule);
        schedule = NULL;
    }
    Py_END_ALLOW_THREADS
    return wrap(cls, &ctx, schedule);
}

static PyObject *
schedule_overlap(PyObject *Py_UNUSED(cls), PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"name", "ipus", "training", "positions", NULL};
    const char *name;
    PyObject *ipus;
    int is_training = 1;
    PyObject *positions = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sO|pO:overlap", names, &name, &ipus,
                                     &is_training, &positions)) {
        return NULL;
    }
    PyObject *result = NULL;
    arguments arguments = {0};
    if (fill_arguments(&arguments, name, ipus, is_training, positions) == 0) {
        ipu_ctx ctx = ipu_py_ctx();
        uint32_t length;
        result = ipu_schedule_overlap(&ctx, &arguments.request, &length) == IPU_OK
                     ? PyLong_FromUnsignedLong(length)
                     : ipu_py_raise(&ctx);
    }
    free_arguments(&arguments);
    return result;
}

static void
schedule_dealloc(PyObject *object)
{
    ipu_ctx ctx = ipu_py_ctx();
    ipu_schedule_free(&ctx, ((py_schedule *)object)->schedule);
    ipu_py_free(object);
}

/* --- reading ---------------------------------------------------------------------- */

static PyObject *
schedule_str(PyObject *self)
{
    ipu_ctx ctx = ipu_py_ctx();
    char *text;
    size_t bytes;
    ipu_status status = ipu_schedule_print(&ctx, schedule_of(self), &text, &bytes);
    return ipu_py_text(&ctx, status, text, bytes);
}

static PyObject *
schedule_actions(PyObject *self, PyObject *argument)
{
    const ipu_schedule *schedule = schedule_of(self);
    uint32_t ipu;
    if (!ipu_py_uint32_converter(argument, &ipu)) {
        return NULL;
    }
    if (ipu >= schedule->ipu_count) {
        return PyErr_Format(PyExc_IndexError, "IPU %u of %u", ipu, schedule->ipu_count);
    }
    const ipu_action_list *list = &schedule->lists[ipu];
    npy_intp shape[2] = {(npy_intp)list->count, 4};
    PyObject *array = PyArray_SimpleNew(2, shape, NPY_UINT32);
    if (array != NULL && list->count > 0) {
        memcpy(PyArray_DATA((PyArrayObject *)array), list->items,
               list->count * sizeof(ipu_action));
    }
    return array;
}

static int
parse_kind(int letter, ipu_action_kind *out)
{
    if (letter > 127 || !ipu_action_of_letter((char)letter, out)) {
        PyErr_Format(PyExc_ValueError, "an action is 'F', 'B', 'I' or 'W', not '%c'",
                     letter);
        return -1;
    }
    return 0;
}

static PyObject *
schedule_slots(PyObject *self, PyObject *args)
{
    int kinds[2];
    ipu_routine routines[2];
    uint32_t count;
    ipu_ctx ctx = ipu_py_ctx();
    return PyArg_ParseTuple(args, "(CO&)(CO&):slots", &kinds[0],
                            ipu_py_uint32_converter, &routines[0].stage, &kinds[1],
                            ipu_py_uint32_converter, &routines[1].stage) &&
                   parse_kind(kinds[0], &routines[0].kind) == 0 &&
                   parse_kind(kinds[1], &routines[1].kind) == 0 &&
                   ipu_py_is_ok(&ctx,
                                ipu_schedule_slots(&ctx, schedule_of(self), routines[0],
                                                   routines[1], &count))
               ? PyLong_FromUnsignedLong(count)
               : NULL;
}

/* Of each stage. */
static PyObject *
list_of(const ipu_schedule *schedule, const uint32_t *numbers)
{
    PyObject *list = PyList_New(schedule->stage_count);
    for (uint32_t i = 0; list != NULL && i < schedule->stage_count; i++) {
        ipu_py_put(&list, i, PyLong_FromUnsignedLong(numbers[i]));
    }
    return list;
}

static PyObject *
fifo_depths(const ipu_schedule *schedule)
{
    uint32_t depths[IPU_SCHEDULE_MAX_STAGES];
    for (uint32_t s = 0; s < schedule->stage_count; s++) {
        depths[s] = ipu_schedule_fifo_depth(schedule, s);
    }
    return list_of(schedule, depths);
}

static double
idle_share(const ipu_schedule_measures *measures)
{
    return (double)(measures->slots - measures->busy) / (double)measures->slots;
}

#define ATTRIBUTES(X, T) \
    X(T, name, PyUnicode_FromString(self->schedule->name), NULL, \
      "The schedule's name.") \
    X(T, is_training, PyBool_FromLong(self->schedule->is_training), NULL, \
      "Whether micro-batches go back, too.") \
    X(T, is_one_at_a_time, PyBool_FromLong(self->schedule->is_one_at_a_time), NULL, \
      "Whether an IPU runs one micro-batch in a time step.") \
    X(T, micro_batches, PyLong_FromUnsignedLong(self->schedule->micro_batches), NULL, \
      "How many there are.") \
    X(T, time_steps, PyLong_FromUnsignedLong(self->schedule->time_steps), NULL, \
      "How many the timetable has.") \
    X(T, ipu_count, PyLong_FromUnsignedLong(self->schedule->ipu_count), NULL, \
      "The highest IPU in use, plus 1.") \
    X(T, ipus, list_of(self->schedule, self->schedule->ipus), NULL, \
      "Per stage, its IPU.") \
    X(T, positions, list_of(self->schedule, self->schedule->positions), NULL, \
      "Per stage, its place in the pipeline.") \
    X(T, stash_depths, list_of(self->schedule, self->schedule->stash_depths), NULL, \
      "Per stage, how many micro-batches it keeps at most.") \
    X(T, fifo_depths, fifo_depths(self->schedule), NULL, \
      "Per stage, how many micro-batches it keeps beside those being processed.") \
    X(T, in_flight, PyLong_FromUnsignedLong(self->measures.in_flight), NULL, \
      "Begun and not ended micro-batches, at most.") \
    X(T, idle_share, PyFloat_FromDouble(idle_share(&self->measures)), NULL, \
      "The share of time steps without work.")
IPU_PY_ATTRIBUTES(py_schedule, ATTRIBUTES);

static PyMethodDef schedule_methods[] = {
    {"parse", schedule_parse, METH_O | METH_CLASS, "The schedule of a text, checked."},
    {"overlap", IPU_PY_FUNCTION(schedule_overlap),
     METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     "Legal numbers of micro-batches are its multiples, from itself on."},
    {"actions", schedule_actions, METH_O,
     "What the IPU runs, in order: rows of kind (an index of 'FBIW'), stage, "
     "micro-batch and time step."},
    {"slots", schedule_slots, METH_VARARGS,
     "How many slots a ring from one routine, as ('F', 0), to another needs."},
    {NULL, NULL, 0, NULL},
};

IPU_PY_TYPE(schedule, "Schedule", py_schedule, 0,
            {Py_tp_doc, "A pipeline's schedule: what each IPU runs, in order. Its text "
                        "is a grid."},
            {Py_tp_new, schedule_new}, {Py_tp_dealloc, schedule_dealloc},
            {Py_tp_str, schedule_str}, {Py_tp_methods, schedule_methods},
            {Py_tp_getset, py_schedule_getset});
