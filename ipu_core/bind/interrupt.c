/* SPDX-License-Identifier: MIT
 *
 * Ctrl-C during a run. Python's handler only notes the signal for when Python code next
 * runs, which is after the program; so while a program runs on the main thread, our
 * handler stands before it, sets the flag that the executor polls, and calls it. The
 * two variables are file-scope because a signal handler has no other way to reach
 * anything. */
#define NO_IMPORT_ARRAY
#include "bind/bind.h"

#include <signal.h>

static int32_t interrupt_flag;
static struct sigaction previous_action;

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
        current.sa_handler == SIG_DFL || current.sa_handler == SIG_IGN ||
        current.sa_handler == on_interrupt || (current.sa_flags & SA_SIGINFO)) {
        return NULL;
    }
    previous_action = current;
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
