/* SPDX-License-Identifier: MIT
 *
 * `ipu._core.Feeder`: the thread that fills an infeed from a data set. It holds the
 * infeed and, through the core's iterator, the data set; it ends with stop() or with
 * the object. Its thread may wait for the GIL (a generator), so stopping it releases
 * the GIL.
 *
 * stop() waits for an element that a generator is making, as the next pass may use what
 * the generator uses. It does not where the user has pressed Ctrl-C, before or
 * meanwhile; nor does the end of the object. */
#include "base/cores.h"
#include "bind/bind.h"

typedef struct py_feeder {
    ipu_py_weak base;
    ipu_feeder *feeder; /* NULL: stopped */
    PyObject *infeed;
    PyObject *dataset;
} py_feeder;

static PyObject *
feeder_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"dataset", "infeed", NULL};
    ipu_py_state *state = ipu_py_state_of_type(type);
    PyObject *dataset;
    PyObject *infeed;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!O!:Feeder", names,
                                     state->dataset_type, &dataset, state->infeed_type,
                                     &infeed)) {
        return NULL;
    }
    py_feeder *self = (py_feeder *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->infeed = Py_NewRef(infeed);
    self->dataset = Py_NewRef(dataset);
    ipu_ctx ctx = ipu_py_ctx();
    ipu_infeed *queue = ipu_py_infeed_of(infeed);
    ipu_dataset *source = ipu_py_dataset_of(dataset);
    bool shares_cores = state->threads >= ipu_cores_available("");
    ipu_status status;
    Py_BEGIN_ALLOW_THREADS
    status = ipu_feeder_start(&ctx, source, queue, shares_cores, &self->feeder);
    Py_END_ALLOW_THREADS
    if (!ipu_py_is_ok(&ctx, status)) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static void
stop(py_feeder *self, ipu_cancel *cancel)
{
    ipu_feeder *feeder = self->feeder;
    self->feeder = NULL;
    Py_BEGIN_ALLOW_THREADS
    ipu_feeder_stop(feeder, cancel);
    Py_END_ALLOW_THREADS
}

static PyObject *
feeder_stop(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"wait", NULL};
    ipu_ctx ctx = ipu_py_ctx();
    ipu_py_patience patience;
    int wait = 1;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|p:stop", names, &wait)) {
        return NULL;
    }
    ipu_py_patience_begin(&patience, &ctx);
    stop((py_feeder *)self, wait && !ipu_py_is_unwinding() ? ctx.cancel : NULL);
    return ipu_py_patience_end(&patience) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *
feeder_move(PyObject *object, PyObject *infeed)
{
    py_feeder *self = (py_feeder *)object;
    ipu_ctx ctx = ipu_py_ctx();
    ipu_py_patience patience;
    ipu_feeder *feeder = self->feeder;
    if (!PyObject_TypeCheck(infeed, ipu_py_state_of(self)->infeed_type)) {
        return PyErr_Format(PyExc_TypeError, "expected an Infeed, but got %R", infeed);
    }
    if (feeder == NULL) {
        Py_RETURN_NONE;
    }
    ipu_infeed *queue = ipu_py_infeed_of(infeed);
    ipu_status status;
    ipu_py_patience_begin(&patience, &ctx);
    self->feeder = NULL; /* nobody stops it meanwhile */
    Py_BEGIN_ALLOW_THREADS
    status = ipu_feeder_move(&ctx, feeder, queue);
    Py_END_ALLOW_THREADS
    self->feeder = feeder;
    if (!ipu_py_patience_is_ok(&patience, &ctx, status)) {
        return NULL;
    }
    Py_SETREF(self->infeed, Py_NewRef(infeed));
    Py_RETURN_NONE;
}

static int
feeder_traverse(PyObject *object, visitproc visit, void *arg)
{
    py_feeder *self = (py_feeder *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->infeed);
    Py_VISIT(self->dataset);
    return 0;
}

static int
feeder_clear(PyObject *object)
{
    py_feeder *self = (py_feeder *)object;
    stop(self, NULL);
    Py_CLEAR(self->infeed);
    Py_CLEAR(self->dataset);
    return 0;
}

static void
feeder_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    PyObject_ClearWeakRefs(object);
    feeder_clear(object);
    ipu_py_free(object);
}

static PyMethodDef methods[] = {
    {"stop", IPU_PY_FUNCTION(feeder_stop), METH_VARARGS | METH_KEYWORDS,
     "Closes the infeed and ends the thread; nothing where that has happened. Without "
     "`wait` a thread that is in a generator may end later."},
    {"move", feeder_move, METH_O,
     "Goes on with another infeed, of the same types and depth, that has all that the "
     "first one holds."},
    {NULL, NULL, 0, NULL},
};

IPU_PY_TYPE(feeder, "Feeder", py_feeder, Py_TPFLAGS_HAVE_GC,
            {Py_tp_doc,
             "Fills an infeed from a new iterator of a data set, in a thread of its "
             "own."},
            {Py_tp_new, feeder_new}, {Py_tp_dealloc, feeder_dealloc},
            {Py_tp_traverse, feeder_traverse}, {Py_tp_clear, feeder_clear},
            {Py_tp_methods, methods}, {Py_tp_members, ipu_py_weak_members});
