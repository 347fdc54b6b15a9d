/* SPDX-License-Identifier: MIT
 *
 * What was recorded, for Python: a profile's events as bytes, which the package reads
 * as arrays, together with the programs that they are about. */
#define NO_IMPORT_ARRAY
#include "base/event.h"
#include "bind/bind.h"

static PyObject *
profile_start(PyObject *module, PyObject *args)
{
    ipu_py_state *state = ipu_py_state_of_module(module);
    Py_ssize_t events;
    unsigned long long first_step;
    unsigned long long end_step;
    if (!PyArg_ParseTuple(args, "nKK:profile_start", &events, &first_step,
                          &end_step)) {
        return NULL;
    }
    PyObject *programs = PyDict_New();
    if (programs == NULL) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    if (!ipu_py_is_ok(&ctx, ipu_recorder_start(&ctx, events < 0 ? 0 : (size_t)events,
                                               first_step, end_step))) {
        Py_DECREF(programs);
        return NULL;
    }
    Py_XSETREF(state->profiled, programs);
    Py_RETURN_NONE;
}

#define X(name, text) [IPU_ROLE_##name] = #text,
static const char *const roles[] = {IPU_ROLE_LIST(X)};
#undef X

static PyObject *
tracks_of(const ipu_recording *recording)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < recording->count; i++) {
        const ipu_track *track = &recording->tracks[i];
        /* a thread may have been about to write its first event */
        const char *events = track->count > 0 ? (const char *)track->events : "";
        ipu_py_append(&list,
                      Py_BuildValue("(siKKy#)", roles[track->role], (int)track->number,
                                    (unsigned long long)track->thread,
                                    (unsigned long long)track->lost, events,
                                    (Py_ssize_t)(track->count * sizeof(ipu_event))));
    }
    return list;
}

static PyObject *
profile_stop(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    ipu_py_state *state = ipu_py_state_of_module(module);
    ipu_ctx ctx = ipu_py_ctx();
    ipu_recording recording;
    if (state->profiled == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "no profile is being recorded");
        return NULL;
    }
    PyObject *programs = state->profiled;
    state->profiled = NULL;
    ipu_status status;
    Py_BEGIN_ALLOW_THREADS
    ipu_recorder_stop();
    status = ipu_recording_take(&ctx, &recording);
    Py_END_ALLOW_THREADS
    if (!ipu_py_is_ok(&ctx, status)) {
        Py_DECREF(programs);
        return NULL;
    }
    unsigned long long clock_ns = recording.clock_ns;
    PyObject *tracks = tracks_of(&recording);
    ipu_recording_free(&ctx, &recording);
    return Py_BuildValue("(NNK)", tracks, programs, clock_ns); /* NULL if one is */
}

static PyObject *
profile_kinds(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
#define X(name, text, what, a, b) #text,
    static const char *const kinds[] = {IPU_EVENT_LIST(X)};
#undef X
    PyObject *list = PyList_New(IPU_EVENT_KIND_COUNT);
    for (int i = 0; list != NULL && i < IPU_EVENT_KIND_COUNT; i++) {
        ipu_py_put(&list, i, PyUnicode_FromString(kinds[i]));
    }
    return list;
}

enum { PEAK_NS = 30 * 1000 * 1000 };

static PyObject *
peak_gflops(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    double peak;
    Py_BEGIN_ALLOW_THREADS
    peak = ipu_peak_gflops(ipu_cpu_class_detect(), PEAK_NS);
    Py_END_ALLOW_THREADS
    return PyFloat_FromDouble(peak);
}

PyMethodDef ipu_py_profile_methods[] = {
    {"peak_gflops", peak_gflops, METH_NOARGS,
     "The most multiply-adds that a core is seen to do, twice their number, in 10^9 a "
     "second. Takes a tenth of a second."},
    {"profile_start", profile_start, METH_VARARGS,
     "Records what threads do, the newest `events` spans of each, in steps from "
     "first_step on, before end_step."},
    {"profile_stop", profile_stop, METH_NOARGS,
     "Ends it. Returns (tracks, programs, clock_ns): for each thread (role, number, "
     "thread, lost, events), 32 bytes an event; the programs that ran by id; what "
     "reading the clock takes."},
    {"profile_kinds", profile_kinds, METH_NOARGS,
     "The names of the kinds of events, by number."},
    {NULL, NULL, 0, NULL},
};
