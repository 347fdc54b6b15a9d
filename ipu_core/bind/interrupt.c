/* SPDX-License-Identifier: MIT
 *
 * Ctrl-C while C works, and threads of C that call Python.
 *
 * A program polls a flag. Python's handler only notes the signal for when Python code
 * next runs, which is after the program; so while a program runs on the main thread,
 * our handler stands before it, sets the flag that the executor polls, and calls it.
 * The two variables are file-scope because a signal handler has no other way to reach
 * anything.
 *
 * A data set gives its elements one by one, too often to install a handler each time.
 * A thread that waits for one, or takes long to make one, asks Python now and then. */
#define NO_IMPORT_ARRAY
#include "bind/bind.h"

#include <signal.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/service.h"

enum {
    LOOK_EVERY_NS = 10 * 1000 * 1000,
    FIRST_CALLS_A_LOOK = 4, /* more than it takes to hand on one element */
    MOST_CALLS_A_LOOK = 1024
};

static int32_t interrupt_flag;
static struct sigaction previous_action;
static uint32_t installed_in; /* by ipu_fork_count */

static void
on_interrupt(int signal_number)
{
    __atomic_store_n(&interrupt_flag, 1, __ATOMIC_RELAXED);
    if (previous_action.sa_handler != SIG_DFL &&
        previous_action.sa_handler != SIG_IGN) {
        previous_action.sa_handler(signal_number);
    }
}

const int32_t *
ipu_py_interrupt_begin(ipu_py_interrupt *interrupt)
{
    struct sigaction current;
    interrupt->installed = false;
    /* Python delivers signals on the main thread; others need no flag */
    PyThreadState *main_state =
        PyInterpreterState_ThreadHead(PyInterpreterState_Main());
    while (main_state != NULL && PyThreadState_Next(main_state) != NULL) {
        main_state = PyThreadState_Next(main_state);
    }
    if (main_state != PyThreadState_Get() || sigaction(SIGINT, NULL, &current) != 0 ||
        (current.sa_flags & SA_SIGINFO)) {
        return NULL;
    }
    if (current.sa_handler == on_interrupt) {
        if (installed_in == ipu_fork_count()) { /* a run inside of a run */
            return &interrupt_flag;
        }
        current = previous_action; /* the run is the parent's */
    }
    if (current.sa_handler == SIG_DFL || current.sa_handler == SIG_IGN) {
        return NULL;
    }
    previous_action = current;
    installed_in = ipu_fork_count();
    __atomic_store_n(&interrupt_flag, 0, __ATOMIC_RELAXED);
    current.sa_handler = on_interrupt;
    interrupt->installed = sigaction(SIGINT, &current, NULL) == 0;
    return interrupt->installed ? &interrupt_flag : NULL;
}

void
ipu_py_interrupt_end(ipu_py_interrupt *interrupt)
{
    if (interrupt->installed) {
        sigaction(SIGINT, &previous_action, NULL);
    }
}

/* --- signals while a data set is read -------------------------------------------- */

/* The clock is read at every call where calls take long, and seldom where they do not.
 */
static bool
is_time_to_look(ipu_py_patience *patience)
{
    if (++patience->calls < patience->calls_a_look) {
        return false;
    }
    uint64_t now_ns = ipu_now_ns();
    bool is_first = patience->looked_ns == 0;
    bool is_time = !is_first && now_ns - patience->looked_ns >= LOOK_EVERY_NS;
    patience->calls = 0;
    if (is_time) {
        patience->calls_a_look = 1;
    } else if (!is_first && patience->calls_a_look < MOST_CALLS_A_LOOK) {
        patience->calls_a_look *= 2;
    }
    if (is_time || is_first) {
        patience->looked_ns = now_ns;
    }
    return is_time;
}

static void
look_for_signals(ipu_cancel *cancel)
{
    ipu_py_patience *patience = (ipu_py_patience *)cancel;
    if (cancel->flag != 0 || (!cancel->has_waited && !is_time_to_look(patience))) {
        return;
    }
    cancel->has_waited = false;
    PyGILState_STATE gil = PyGILState_Ensure();
    if (PyErr_CheckSignals() != 0) {
        PyErr_Fetch(&patience->type, &patience->value, &patience->traceback);
        cancel->flag = 1;
    }
    PyGILState_Release(gil);
}

void
ipu_py_patience_begin(ipu_py_patience *patience, ipu_ctx *ctx)
{
    *patience = (ipu_py_patience){.cancel = {.poll = look_for_signals},
                                  .calls_a_look = FIRST_CALLS_A_LOOK};
    ipu_cancel *of_service = ipu_service_cancel();
    ctx->cancel = of_service != NULL ? of_service : &patience->cancel;
}

int
ipu_py_patience_end(ipu_py_patience *patience)
{
    if (patience->type == NULL) {
        return 0;
    }
    PyErr_Restore(patience->type, patience->value, patience->traceback);
    return -1;
}

bool
ipu_py_patience_is_ok(ipu_py_patience *patience, ipu_ctx *ctx, ipu_status status)
{
    int ended = ipu_py_patience_end(patience); /* its exception stays */
    return ipu_py_is_ok(ctx, status) && ended == 0;
}

bool
ipu_py_is_unwinding(void)
{
    PyObject *type;
    PyObject *value;
    PyObject *traceback;
    PyErr_GetExcInfo(&type, &value, &traceback);
    bool result = value != NULL && value != Py_None &&
                  !PyObject_TypeCheck(value, (PyTypeObject *)PyExc_Exception);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return result;
}

/* --- callbacks ------------------------------------------------------------------- */

/* Python makes a thread's state under a mutex of its own and without the GIL. Up to
 * 3.12, a child that is forked at that moment waits for the mutex for ever: fork()
 * takes this lock first (base/lock.h), and the child finds the mutex free. From 3.13 on
 * os.fork() holds that mutex when it comes here (CPython's gh-116522): a thread that
 * waited for it with this lock would never give the lock back. */
enum { FORK_HAS_MUTEX = PY_VERSION_HEX >= 0x030D0000 };
static ipu_lock making_state;
static pthread_once_t making_state_once = PTHREAD_ONCE_INIT;

static void
init_making_state(void)
{
    ipu_lock_init(&making_state, NULL, NULL);
}

static PyThreadState *
make_state(void)
{
    if (!FORK_HAS_MUTEX) {
        pthread_once(&making_state_once, init_making_state);
        ipu_lock_take(&making_state);
    }
    PyThreadState *state = PyThreadState_New(PyInterpreterState_Main());
    if (!FORK_HAS_MUTEX) {
        ipu_lock_drop(&making_state);
    }
    if (state == NULL) {
        Py_FatalError("no memory for a thread that calls Python");
    }
    return state;
}

ipu_py_entry
ipu_py_enter(void)
{
    ipu_service_go_away();
    ipu_py_entry entry = {.made = NULL};
    if (PyGILState_GetThisThreadState() == NULL) {
        entry.made = make_state();
        PyEval_RestoreThread(entry.made);
    } else {
        entry.gil = PyGILState_Ensure();
    }
    return entry;
}

ipu_status
ipu_py_leave(ipu_ctx *ctx, ipu_py_entry entry, ipu_status status)
{
    if (entry.made != NULL) {
        PyThreadState_Clear(entry.made);
        PyThreadState_DeleteCurrent();
    } else {
        PyGILState_Release(entry.gil);
    }
    ipu_service_come_back();
    if (status == IPU_OK && ctx != NULL && ipu_service_is_left_behind()) {
        IPU_FAIL(ctx, CANCELLED, "the thread was left behind in Python");
    }
    return status;
}
