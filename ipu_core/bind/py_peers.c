/* SPDX-License-Identifier: MIT
 *
 * ipu._core.Peers: the other processes that run the same program. A thread of Python's
 * looks after them (python/ipu/_device/mpi.py). */
#define NO_IMPORT_ARRAY
#include "bind/bind.h"

/* Peers of one process, that go together. */
typedef struct hub {
    ipu_hub *hub;
    uint32_t count;
    ipu_peers *peers[];
} hub;

typedef struct py_peers {
    PyObject_HEAD
    ipu_peers *peers;
    PyObject *hub; /* a capsule, which owns the peers; NULL: they are this object's */
} py_peers;

static const char hub_name[] = "ipu._core.hub";

ipu_peers *
ipu_py_peers_of(PyObject *peers)
{
    return ((py_peers *)peers)->peers;
}

static PyObject *
peers_new(PyTypeObject *cls, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"process", "count", NULL};
    unsigned int process;
    unsigned int count;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "II:Peers", names, &process,
                                     &count)) {
        return NULL;
    }
    py_peers *self = (py_peers *)cls->tp_alloc(cls, 0);
    ipu_ctx ctx = ipu_py_ctx();
    if (self != NULL &&
        !ipu_py_is_ok(&ctx, ipu_peers_create(&ctx, process, count, &self->peers))) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static void
peers_dealloc(PyObject *object)
{
    py_peers *self = (py_peers *)object;
    if (self->hub != NULL) {
        Py_DECREF(self->hub);
    } else {
        ipu_ctx ctx = ipu_py_ctx();
        ipu_peers_free(&ctx, self->peers);
    }
    ipu_py_free(object);
}

/* --- peers of one process ---------------------------------------------------------- */

static void
free_hub(hub *h)
{
    ipu_ctx ctx = ipu_py_ctx();
    ipu_hub_free(&ctx, h->hub);
    for (uint32_t i = 0; i < h->count; i++) {
        ipu_peers_free(&ctx, h->peers[i]);
    }
    PyMem_Free(h);
}

static void
hub_destroy(PyObject *capsule)
{
    free_hub(PyCapsule_GetPointer(capsule, hub_name));
}

static hub *
make_hub(uint32_t count)
{
    hub *h = PyMem_Calloc(1, sizeof(*h) + count * sizeof(ipu_peers *));
    ipu_ctx ctx = ipu_py_ctx();
    ipu_status status = IPU_OK;
    if (h == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (h->count = 0; status == IPU_OK && h->count < count; h->count++) {
        status = ipu_peers_create(&ctx, h->count, count, &h->peers[h->count]);
    }
    if (status == IPU_OK) {
        status = ipu_peers_connect(&ctx, h->peers, count, &h->hub);
    }
    if (!ipu_py_is_ok(&ctx, status)) {
        free_hub(h);
        return NULL;
    }
    return h;
}

static PyObject *
peers_connected(PyObject *cls, PyObject *argument)
{
    enum { MOST = 4096 };
    unsigned int count;
    if (!PyArg_Parse(argument, "I:connected", &count)) {
        return NULL;
    }
    if (count < 1 || count > MOST) {
        return PyErr_Format(PyExc_ValueError, "count must be from 1 to %d, but got %u",
                            (int)MOST, count);
    }
    hub *h = make_hub(count);
    if (h == NULL) {
        return NULL;
    }
    PyObject *capsule = PyCapsule_New(h, hub_name, hub_destroy);
    if (capsule == NULL) {
        free_hub(h);
        return NULL;
    }
    PyTypeObject *type = (PyTypeObject *)cls;
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        py_peers *one = (py_peers *)type->tp_alloc(type, 0);
        if (one != NULL) {
            one->peers = h->peers[i];
            one->hub = Py_NewRef(capsule);
        }
        ipu_py_append(&list, (PyObject *)one);
    }
    Py_DECREF(capsule);
    return list;
}

static PyObject *
no_process(unsigned long process, uint32_t count)
{
    return PyErr_Format(PyExc_ValueError, "there is no process %lu of %u", process,
                        count);
}

/* --- MPI --------------------------------------------------------------------------- */

static PyObject *
peers_use_mpi(PyObject *self, PyObject *args)
{
    unsigned long long functions[4];
    unsigned long long communicator;
    unsigned long long byte;
    int has_pointers;
    int is_threaded;
    if (!PyArg_ParseTuple(args, "(KKKK)KKpp:use_mpi", &functions[0],
                          &functions[1], &functions[2], &functions[3], &communicator,
                          &byte, &has_pointers, &is_threaded)) {
        return NULL;
    }
    ipu_mpi mpi = {.isend = (ipu_mpi_fn *)(uintptr_t)functions[0],
                   .irecv = (ipu_mpi_fn *)(uintptr_t)functions[1],
                   .test = (ipu_mpi_fn *)(uintptr_t)functions[2],
                   .error_string = (ipu_mpi_fn *)(uintptr_t)functions[3],
                   .has_pointers = has_pointers != 0,
                   .communicator = (intptr_t)communicator,
                   .byte = (intptr_t)byte};
    ipu_peers_use_mpi(ipu_py_peers_of(self), &mpi, is_threaded != 0);
    Py_RETURN_NONE;
}

/* "O&": seconds, as nanoseconds. */
static int
to_ns(PyObject *argument, void *out)
{
    double seconds = PyFloat_AsDouble(argument);
    if (seconds == -1.0 && PyErr_Occurred() != NULL) {
        return 0;
    }
    if (!(seconds >= 0 && seconds <= 1e6)) {
        PyErr_Format(PyExc_ValueError, "seconds must be from 0 to 1e6, but got %R",
                     argument);
        return 0;
    }
    *(int64_t *)out = (int64_t)(seconds * 1e9);
    return 1;
}

static PyObject *
peers_serve(PyObject *self, PyObject *argument)
{
    int64_t ns;
    if (!to_ns(argument, &ns)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    ipu_peers_serve(ipu_py_peers_of(self), ns);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *
peers_wake(PyObject *self, PyObject *Py_UNUSED(none))
{
    ipu_peers_wake(ipu_py_peers_of(self));
    Py_RETURN_NONE;
}

static PyObject *
peers_find(PyObject *self, PyObject *args)
{
    PyObject *process;
    unsigned long long after;
    int64_t ns;
    ipu_errand errand;
    ipu_peers *peers = ipu_py_peers_of(self);
    if (!PyArg_ParseTuple(args, "OKO&:find", &process, &after, to_ns, &ns)) {
        return NULL;
    }
    unsigned long number =
        process == Py_None ? IPU_ANY_PROCESS : PyLong_AsUnsignedLong(process);
    if (PyErr_Occurred() != NULL) {
        return NULL;
    }
    if (process != Py_None && number >= ipu_peers_count(peers)) {
        return no_process(number, ipu_peers_count(peers));
    }
    if (!ipu_peers_find(peers, (uint32_t)number, after, ns, &errand)) {
        Py_RETURN_NONE;
    }
    PyObject *source =
        errand.source.file == NULL
            ? Py_NewRef(Py_None)
            : Py_BuildValue("si", errand.source.file, (int)errand.source.line);
    return source == NULL ? NULL
                          : Py_BuildValue("KdsN", (unsigned long long)errand.number,
                                          (double)errand.under_way_ns * 1e-9,
                                          errand.processes, source);
}

static PyObject *
peers_fail(PyObject *self, PyObject *argument)
{
    const char *reason;
    if (!PyArg_Parse(argument, "s:fail", &reason)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    ipu_peers_fail(ipu_py_peers_of(self), "%s", reason);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* --- calls outside of programs ----------------------------------------------------- */

/* Messages of Python's buffers. */
typedef struct letters {
    Py_ssize_t count;
    ipu_message *messages;
    Py_buffer *views;
} letters;

static void
letters_free(letters *all)
{
    for (Py_ssize_t i = 0; i < all->count; i++) {
        PyBuffer_Release(&all->views[i]);
    }
    PyMem_Free(all->messages);
    PyMem_Free(all->views);
}

/* 0, or -1 with an exception. */
static int
letters_read(PyObject *sequence, int flags, uint32_t processes, letters *all)
{
    PyObject *items = PySequence_Fast(sequence, "messages must be a sequence");
    if (items == NULL) {
        return -1;
    }
    Py_ssize_t count = PySequence_Fast_GET_SIZE(items);
    all->messages = PyMem_Calloc((size_t)count + 1, sizeof(ipu_message));
    all->views = PyMem_Calloc((size_t)count + 1, sizeof(Py_buffer));
    int result = 0;
    if (all->messages == NULL || all->views == NULL) {
        PyErr_NoMemory();
        result = -1;
    }
    for (Py_ssize_t i = 0; result == 0 && i < count; i++) {
        PyObject *buffer;
        unsigned int process;
        result = PyArg_ParseTuple(PySequence_Fast_GET_ITEM(items, i), "IO:message",
                                  &process, &buffer) &&
                         PyObject_GetBuffer(buffer, &all->views[i], flags) == 0
                     ? 0
                     : -1;
        if (result == 0) {
            all->count++;
            all->messages[i] = (ipu_message){process, all->views[i].buf,
                                             (size_t)all->views[i].len};
        }
        if (result == 0 && process >= processes) {
            (void)no_process(process, processes);
            result = -1;
        }
    }
    Py_DECREF(items);
    return result;
}

typedef struct host_exchange {
    ipu_exchange exchange;
    letters sends;
    letters receives;
} host_exchange;

static void
host_exchange_free(host_exchange *own)
{
    letters_free(&own->sends);
    letters_free(&own->receives);
    PyMem_Free(own);
}

static PyObject *
peers_exchange(PyObject *self, PyObject *args)
{
    PyObject *sends;
    PyObject *receives;
    ipu_peers *peers = ipu_py_peers_of(self);
    uint32_t count = ipu_peers_count(peers);
    if (!PyArg_ParseTuple(args, "OO:exchange", &sends, &receives)) {
        return NULL;
    }
    host_exchange *own = PyMem_Calloc(1, sizeof(*own));
    if (own == NULL) {
        return PyErr_NoMemory();
    }
    if (letters_read(sends, PyBUF_SIMPLE, count, &own->sends) < 0 ||
        letters_read(receives, PyBUF_WRITABLE, count, &own->receives) < 0) {
        host_exchange_free(own);
        return NULL;
    }
    own->exchange = (ipu_exchange){.channel = IPU_CHANNEL_HOST,
                                   .sends = own->sends.messages,
                                   .send_count = (uint32_t)own->sends.count,
                                   .receives = own->receives.messages,
                                   .receive_count = (uint32_t)own->receives.count};
    ipu_ctx ctx = ipu_py_ctx();
    ipu_status status;
    ipu_py_patience patience;
    ipu_py_patience_begin(&patience, &ctx);
    Py_BEGIN_ALLOW_THREADS
    ipu_peers_post(peers, &own->exchange);
    status = ipu_exchange_wait(&ctx, peers, &own->exchange, NULL, 0);
    if (status != IPU_OK) {
        ipu_peers_fail(peers, "%s", ctx.message);
    }
    Py_END_ALLOW_THREADS
    if (status == IPU_OK) { /* else a transport may still be at its memory */
        host_exchange_free(own);
    }
    return ipu_py_patience_is_ok(&patience, &ctx, status) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *
failure_of(ipu_peers *peers)
{
    char reason[900];
    if (!ipu_peers_has_failed(peers, reason, sizeof(reason))) {
        Py_RETURN_NONE;
    }
    return PyUnicode_DecodeUTF8(reason, (Py_ssize_t)strlen(reason), "replace");
}

#define ATTRIBUTES(X, T) \
    X(T, process, PyLong_FromUnsignedLong(ipu_peers_process(self->peers)), NULL, \
      "The number of this process.") \
    X(T, count, PyLong_FromUnsignedLong(ipu_peers_count(self->peers)), NULL, \
      "How many processes there are.") \
    X(T, failure, failure_of(self->peers), NULL, "Why they have failed, or None.")
IPU_PY_ATTRIBUTES(py_peers, ATTRIBUTES);

static PyMethodDef peers_methods[] = {
    {"connected", peers_connected, METH_O | METH_CLASS,
     "Peers that are all in this process, for tests."},
    {"use_mpi", peers_use_mpi, METH_VARARGS,
     "Has MPI carry messages: addresses of MPI_Isend, MPI_Irecv, MPI_Test and "
     "MPI_Error_string; a communicator and MPI_BYTE; whether such handles are pointers; "
     "whether any thread may call MPI."},
    {"serve", peers_serve, METH_O,
     "Looks after messages for so many seconds, or until `wake`."},
    {"wake", peers_wake, METH_NOARGS, "Has `serve` return."},
    {"find", peers_find, METH_VARARGS,
     "The oldest exchange with a process, or with any if that is None, of a number above "
     "the second argument, and under way for so many seconds: number, seconds, "
     "processes, and the user's file and line, or None."},
    {"fail", peers_fail, METH_O, "Fails all exchanges, with the reason."},
    {"exchange", peers_exchange, METH_VARARGS,
     "Sends and receives messages, pairs of process and buffer, and waits for them."},
    {NULL, NULL, 0, NULL},
};

IPU_PY_TYPE(peers, "Peers", py_peers, 0,
            {Py_tp_doc, "What this process, one of several, knows of the others."},
            {Py_tp_new, peers_new}, {Py_tp_dealloc, peers_dealloc},
            {Py_tp_methods, peers_methods}, {Py_tp_getset, py_peers_getset});
