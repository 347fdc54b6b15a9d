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

static ipu_py_state *
state_of(PyObject *self)
{
    return ipu_py_state_of_type(Py_TYPE(self));
}

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

static int
parse_number(PyObject *object, const char *what, uint32_t *out)
{
    PyObject *index = PyNumber_Index(object);
    if (index == NULL) {
        return -1;
    }
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(index, &overflow);
    Py_DECREF(index);
    if (overflow != 0 || number < 0 || number > UINT32_MAX) {
        PyErr_Format(PyExc_ValueError, "%s must be from 0 to %u, but got %R", what,
                     UINT32_MAX, object);
        return -1;
    }
    *out = (uint32_t)number;
    return 0;
}

/* New memory for a sequence of numbers. */
static int
parse_numbers(PyObject *sequence, const char *what, uint32_t **out, uint32_t *count)
{
    PyObject *items = PySequence_Tuple(sequence);
    if (items == NULL) {
        return -1;
    }
    Py_ssize_t length = PyTuple_GET_SIZE(items);
    *out = PyMem_Calloc((size_t)length + 1, sizeof(uint32_t));
    int result = 0;
    if (*out == NULL || length > IPU_SCHEDULE_MAX_STAGES) {
        PyErr_Format(*out == NULL ? PyExc_MemoryError : PyExc_ValueError,
                     "a pipeline has at most %d stages, but got %zd",
                     IPU_SCHEDULE_MAX_STAGES, length);
        result = -1;
    }
    for (Py_ssize_t i = 0; result == 0 && i < length; i++) {
        result = parse_number(PyTuple_GET_ITEM(items, i), what, &(*out)[i]);
    }
    Py_DECREF(items);
    *count = (uint32_t)length;
    return result;
}

/* Also on failure, the caller frees. */
static int
fill_arguments(arguments *out, const char *name, PyObject *ipus,
               PyObject *micro_batches, int is_training, PyObject *positions)
{
    ipu_schedule_request *request = &out->request;
    request->name = name;
    request->is_training = is_training != 0;
    if (parse_numbers(ipus, "an IPU's number", &out->ipus, &request->stage_count) < 0) {
        return -1;
    }
    request->ipus = out->ipus;
    if (micro_batches != NULL &&
        parse_number(micro_batches, "the number of micro-batches",
                     &request->micro_batches) < 0) {
        return -1;
    }
    if (positions == Py_None) {
        return 0;
    }
    uint32_t count;
    if (parse_numbers(positions, "a position", &out->positions, &count) < 0) {
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
wrap(ipu_py_state *state, ipu_ctx *ctx, ipu_schedule *schedule)
{
    if (schedule == NULL) {
        return ipu_py_raise(state, ctx);
    }
    PyTypeObject *type = state->schedule_type;
    py_schedule *self = (py_schedule *)type->tp_alloc(type, 0);
    if (self == NULL) {
        ipu_schedule_free(ctx, schedule);
        return NULL;
    }
    self->schedule = schedule;
    if (ipu_schedule_measure(ctx, schedule, &self->measures) != IPU_OK) {
        Py_DECREF(self);
        return ipu_py_raise(state, ctx);
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
    PyObject *micro_batches;
    int is_training = 1;
    PyObject *positions = Py_None;
    int overlaps_io = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sOO|pOp:Schedule", names, &name,
                                     &ipus, &micro_batches, &is_training, &positions,
                                     &overlaps_io)) {
        return NULL;
    }
    PyObject *result = NULL;
    arguments arguments = {.request = {.overlaps_io = overlaps_io != 0}};
    if (fill_arguments(&arguments, name, ipus, micro_batches, is_training, positions) ==
        0) {
        ipu_ctx ctx = ipu_py_ctx();
        ipu_schedule *schedule = NULL;
        Py_BEGIN_ALLOW_THREADS
        ipu_schedule_create(&ctx, &arguments.request, &schedule);
        Py_END_ALLOW_THREADS
        result = wrap(ipu_py_state_of_type(cls), &ctx, schedule);
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
    return wrap(ipu_py_state_of_type((PyTypeObject *)cls), &ctx, schedule);
}

static PyObject *
schedule_overlap(PyObject *cls, PyObject *args, PyObject *kwargs)
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
    if (fill_arguments(&arguments, name, ipus, NULL, is_training, positions) == 0) {
        ipu_ctx ctx = ipu_py_ctx();
        uint32_t length;
        result = ipu_schedule_overlap(&ctx, &arguments.request, &length) == IPU_OK
                     ? PyLong_FromUnsignedLong(length)
                     : ipu_py_raise(ipu_py_state_of_type((PyTypeObject *)cls), &ctx);
    }
    free_arguments(&arguments);
    return result;
}

static void
schedule_dealloc(PyObject *object)
{
    py_schedule *self = (py_schedule *)object;
    PyTypeObject *type = Py_TYPE(self);
    ipu_ctx ctx = ipu_py_ctx();
    ipu_schedule_free(&ctx, self->schedule);
    type->tp_free(self);
    Py_DECREF(type);
}

/* --- reading ---------------------------------------------------------------------- */

static PyObject *
schedule_str(PyObject *self)
{
    ipu_ctx ctx = ipu_py_ctx();
    char *text;
    size_t bytes;
    if (ipu_schedule_print(&ctx, schedule_of(self), &text, &bytes) != IPU_OK) {
        return ipu_py_raise(state_of(self), &ctx);
    }
    PyObject *result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)bytes - 1, "replace");
    ipu_free(&ctx, text, bytes);
    return result;
}

static PyObject *
schedule_actions(PyObject *self, PyObject *argument)
{
    const ipu_schedule *schedule = schedule_of(self);
    uint32_t ipu;
    if (parse_number(argument, "an IPU's number", &ipu) < 0) {
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
parse_routine(int letter, PyObject *stage, ipu_routine *out)
{
    if (letter > 127 || !ipu_action_of_letter((char)letter, &out->kind)) {
        PyErr_Format(PyExc_ValueError, "an action is 'F', 'B', 'I' or 'W', not '%c'",
                     letter);
        return -1;
    }
    return parse_number(stage, "a stage", &out->stage);
}

static PyObject *
schedule_slots(PyObject *self, PyObject *args)
{
    int kinds[2];
    PyObject *stages[2];
    ipu_routine routines[2];
    uint32_t count;
    if (!PyArg_ParseTuple(args, "(CO)(CO):slots", &kinds[0], &stages[0], &kinds[1],
                          &stages[1]) ||
        parse_routine(kinds[0], stages[0], &routines[0]) < 0 ||
        parse_routine(kinds[1], stages[1], &routines[1]) < 0) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    if (ipu_schedule_slots(&ctx, schedule_of(self), routines[0], routines[1], &count) !=
        IPU_OK) {
        return ipu_py_raise(state_of(self), &ctx);
    }
    return PyLong_FromUnsignedLong(count);
}

static PyObject *
list_of_numbers(const uint32_t *numbers, uint32_t count)
{
    PyObject *list = PyList_New(count);
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        PyObject *item = PyLong_FromUnsignedLong(numbers[i]);
        if (item == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, item);
    }
    return list;
}

static PyObject *
get_name(PyObject *self, void *Py_UNUSED(closure))
{
    return PyUnicode_FromString(schedule_of(self)->name);
}

static PyObject *
get_is_training(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(schedule_of(self)->is_training);
}

static PyObject *
get_is_one_at_a_time(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(schedule_of(self)->is_one_at_a_time);
}

static PyObject *
get_micro_batches(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromUnsignedLong(schedule_of(self)->micro_batches);
}

static PyObject *
get_time_steps(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromUnsignedLong(schedule_of(self)->time_steps);
}

static PyObject *
get_ipu_count(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromUnsignedLong(schedule_of(self)->ipu_count);
}

static PyObject *
get_ipus(PyObject *self, void *Py_UNUSED(closure))
{
    return list_of_numbers(schedule_of(self)->ipus, schedule_of(self)->stage_count);
}

static PyObject *
get_positions(PyObject *self, void *Py_UNUSED(closure))
{
    return list_of_numbers(schedule_of(self)->positions,
                           schedule_of(self)->stage_count);
}

static PyObject *
get_stash_depths(PyObject *self, void *Py_UNUSED(closure))
{
    return list_of_numbers(schedule_of(self)->stash_depths,
                           schedule_of(self)->stage_count);
}

static PyObject *
get_fifo_depths(PyObject *self, void *Py_UNUSED(closure))
{
    const ipu_schedule *schedule = schedule_of(self);
    uint32_t depths[IPU_SCHEDULE_MAX_STAGES];
    for (uint32_t s = 0; s < schedule->stage_count; s++) {
        depths[s] = ipu_schedule_fifo_depth(schedule, s);
    }
    return list_of_numbers(depths, schedule->stage_count);
}

static PyObject *
get_in_flight(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromUnsignedLong(((py_schedule *)self)->measures.in_flight);
}

static PyObject *
get_idle_share(PyObject *self, void *Py_UNUSED(closure))
{
    const ipu_schedule_measures *measures = &((py_schedule *)self)->measures;
    return PyFloat_FromDouble((double)(measures->slots - measures->busy) /
                              (double)measures->slots);
}

static PyMethodDef schedule_methods[] = {
    {"parse", schedule_parse, METH_O | METH_CLASS,
     "parse(text)\n--\n\nThe schedule of a text, checked."},
    {"overlap", (PyCFunction)(void (*)(void))schedule_overlap,
     METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     "overlap(name, ipus, training=True, positions=None)\n--\n\n"
     "Legal numbers of micro-batches are its multiples, from itself on."},
    {"actions", schedule_actions, METH_O,
     "actions(ipu)\n--\n\nWhat the IPU runs, in order: rows of kind (an index of "
     "'FBIW'), stage, micro-batch and time step."},
    {"slots", schedule_slots, METH_VARARGS,
     "slots(writer, reader)\n--\n\nHow many slots a ring from one routine, as ('F', "
     "0), "
     "to another needs."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef schedule_getset[] = {
    {"name", get_name, NULL, "The schedule's name.", NULL},
    {"is_training", get_is_training, NULL, "Whether micro-batches go back, too.", NULL},
    {"is_one_at_a_time", get_is_one_at_a_time, NULL,
     "Whether an IPU runs one micro-batch in a time step.", NULL},
    {"micro_batches", get_micro_batches, NULL, "How many there are.", NULL},
    {"time_steps", get_time_steps, NULL, "How many the timetable has.", NULL},
    {"ipu_count", get_ipu_count, NULL, "The highest IPU in use, plus 1.", NULL},
    {"ipus", get_ipus, NULL, "Per stage, its IPU.", NULL},
    {"positions", get_positions, NULL, "Per stage, its place in the pipeline.", NULL},
    {"stash_depths", get_stash_depths, NULL,
     "Per stage, how many micro-batches it keeps at most.", NULL},
    {"fifo_depths", get_fifo_depths, NULL,
     "Per stage, how many micro-batches it keeps beside those being processed.", NULL},
    {"in_flight", get_in_flight, NULL, "Begun and not ended micro-batches, at most.",
     NULL},
    {"idle_share", get_idle_share, NULL, "The share of time steps without work.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

__extension__ static PyType_Slot schedule_slots_of_type[] = {
    {Py_tp_doc, "Schedule(name, ipus, micro_batches, training=True, positions=None, "
                "overlaps_io=False)\n--\n\nA pipeline's schedule: what each IPU runs, "
                "in order. Its text is a grid."},
    {Py_tp_new, schedule_new},
    {Py_tp_dealloc, schedule_dealloc},
    {Py_tp_str, schedule_str},
    {Py_tp_methods, schedule_methods},
    {Py_tp_getset, schedule_getset},
    {0, NULL},
};

PyType_Spec ipu_py_schedule_spec = {
    .name = "ipu._core.Schedule",
    .basicsize = sizeof(py_schedule),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = schedule_slots_of_type,
};
