/* SPDX-License-Identifier: MIT
 *
 * A deterministic scheduler of threads, for tests.
 *
 * One thread runs at a time. At each lock, wait, signal, atomic operation, thread start and
 * look at the clock it may be another one's turn, which a seed decides; so a seed replays.
 * The core is not changed for it: the linker sends its calls of the C library here
 * (`--wrap`), and its atomics are instrumented as if for ThreadSanitizer, whose functions
 * are here too. Memory is sequentially consistent; reordering is ThreadSanitizer's field.
 *
 * Time is virtual. It stands still while a thread can run, and jumps to the next deadline
 * where none can: a program that only goes on because a wait has a time limit has lost
 * a wake-up, and interleave_end says how much time went by.
 *
 * A thread that reads on and on without writing spins: it runs again when another thread
 * has written, or when nobody else can.
 *
 * Random seeds go by priorities that change at a few random places (probabilistic
 * concurrency testing, Burckhardt et al., ASPLOS 2010) or by a random choice at each
 * place; some are rough: waits end early or for no reason. Enumeration tries all
 * schedules with at most a number of preemptions (iterative context bounding, Musuvathi
 * and Qadeer, PLDI 2007). */
#ifndef IPU_TESTS_INTERLEAVE_H
#define IPU_TESTS_INTERLEAVE_H

#include <stdbool.h>
#include <stdint.h>

/* From here to interleave_end the calling thread and all that it starts are scheduled.
 * `length`: about how many places the program has. */
void interleave_begin(uint64_t seed, uint64_t length);

/* The same for the first, or next, schedule of an enumeration; false when all were
 * tried. */
bool interleave_enumerate(int preemptions);
void interleave_enumerate_anew(void);

typedef struct interleave_report {
    uint64_t places;
    int64_t elapsed_ns; /* time in which no thread could run */
    int threads;        /* that are still there, but for the caller */
    bool is_rough;
} interleave_report;

interleave_report interleave_end(void);

/* The thread is done for now: others may go on. */
void interleave_give_way(void);

#endif
