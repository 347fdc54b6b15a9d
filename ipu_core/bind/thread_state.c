/* SPDX-License-Identifier: MIT
 *
 * Eager execution belongs to a thread: the traces it has open, the tapes it records
 * with, its stream of random numbers. One struct holds them all. It lives in the
 * thread's own dict (PyThreadState_GetDict), so it dies with its thread; the module
 * remembers the struct that was asked for last, and two calls find it again. GIL held
 * everywhere. */
#include "bind/bind.h"

static const char capsule_name[] = "ipu._core.thread";

static void
thread_free(ipu_py_thread *thread)
{
    Py_XDECREF(thread->traces);
    Py_XDECREF(thread->tapes);
    Py_XDECREF(thread->recorder);
    PyMem_Free(thread);
}

static void
destroy_capsule(PyObject *capsule)
{
    ipu_py_thread *thread = PyCapsule_GetPointer(capsule, capsule_name);
    if (thread->state != NULL) { /* the module is still there */
        *thread->link = thread->next;
        if (thread->next != NULL) {
            thread->next->link = thread->link;
        }
        if (thread->state->last_thread == thread) {
            thread->state->last_thread = NULL;
        }
    }
    thread_free(thread);
}

static ipu_py_thread *
thread_new(ipu_py_state *state, uint64_t id, PyObject *dict, PyObject *key)
{
    ipu_py_thread *thread = PyMem_Calloc(1, sizeof(*thread));
    if (thread == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    thread->id = id;
    thread->traces = PyList_New(0);
    thread->tapes = PyList_New(0);
    PyObject *capsule = thread->traces == NULL || thread->tapes == NULL
                            ? NULL
                            : PyCapsule_New(thread, capsule_name, destroy_capsule);
    if (capsule == NULL) {
        thread_free(thread);
        return NULL;
    }
    int failed = PyDict_SetItem(dict, key, capsule);
    if (failed == 0) {
        thread->state = state;
        thread->next = state->first_thread;
        thread->link = &state->first_thread;
        if (thread->next != NULL) {
            thread->next->link = &thread->next;
        }
        state->first_thread = thread;
    }
    Py_DECREF(capsule); /* the dict keeps it, or nobody does */
    return failed == 0 ? thread : NULL;
}

static ipu_py_thread *
find_or_make(ipu_py_state *state, uint64_t id)
{
    PyObject *dict = PyThreadState_GetDict(); /* borrowed: the thread's */
    PyObject *key = dict == NULL ? NULL : PyUnicode_InternFromString(capsule_name);
    if (key == NULL) {
        if (dict == NULL) {
            PyErr_NoMemory();
        }
        return NULL;
    }
    ipu_py_thread *thread = NULL;
    PyObject *capsule = PyDict_GetItemWithError(dict, key);
    if (capsule != NULL) {
        thread = PyCapsule_GetPointer(capsule, capsule_name);
    } else if (!PyErr_Occurred()) {
        thread = thread_new(state, id, dict, key);
    }
    Py_DECREF(key);
    if (thread != NULL) {
        state->last_thread = thread;
    }
    return thread;
}

ipu_py_thread *
ipu_py_thread_here(ipu_py_state *state)
{
    /* ids are never used again, unlike addresses */
    uint64_t id = PyThreadState_GetID(PyThreadState_Get());
    ipu_py_thread *last = state->last_thread;
    return last != NULL && last->id == id ? last : find_or_make(state, id);
}

PyObject *
ipu_py_open_trace(ipu_py_state *state)
{
    ipu_py_thread *thread = ipu_py_thread_here(state);
    if (thread == NULL) {
        PyErr_Clear(); /* a thread without a struct has opened nothing */
        return NULL;
    }
    Py_ssize_t count = PyList_GET_SIZE(thread->traces);
    return count == 0 ? NULL : PyList_GET_ITEM(thread->traces, count - 1);
}

void
ipu_py_threads_detach(ipu_py_state *state)
{
    for (ipu_py_thread *thread = state->first_thread; thread != NULL;
         thread = thread->next) {
        thread->state = NULL;
    }
    state->first_thread = NULL;
    state->last_thread = NULL;
}

/* --- random streams -------------------------------------------------------------- */

static bool
is_main_thread(const ipu_py_state *state)
{
    return PyThread_get_thread_ident() == state->main_thread;
}

ipu_py_stream *
ipu_py_stream_of(ipu_py_state *state, ipu_py_thread *thread)
{
    ipu_py_stream *stream = &thread->stream;
    if (!stream->is_own && stream->seeding != state->seeding) {
        *stream = (ipu_py_stream){
            .seed = state->seed,
            .seeding = state->seeding,
            .number = is_main_thread(state) ? 0 : ++state->streams,
        };
    }
    return stream;
}

ipu_random_key
ipu_py_random_key(ipu_py_state *state, ipu_py_thread *thread)
{
    ipu_py_stream *stream = ipu_py_stream_of(state, thread);
    return (ipu_random_key){
        .seed = stream->seed, .step = stream->drawn++, .turn = stream->number};
}

int
ipu_py_set_seed(ipu_py_state *state, uint64_t seed)
{
    ipu_py_thread *thread = ipu_py_thread_here(state);
    if (thread == NULL) {
        return -1;
    }
    state->seed = seed;
    state->seeding++;
    state->streams = 0;
    thread->stream = (ipu_py_stream){.is_own = true, .seed = seed};
    return 0;
}
