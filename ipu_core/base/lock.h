/* SPDX-License-Identifier: MIT
 *
 * The mutex of the core, and what happens to it at fork().
 *
 * A forked child has one thread. Locks that the parent's other threads held stay locked
 * in the child for ever, half changed. One rule for all locks prevents it: before the
 * process forks, the forking thread takes every ipu_lock that exists, so that what they
 * protect is whole; after it, parent and child give them back. In the child each lock's
 * `after_fork` is called next. It makes the owner's condition variables anew (threads
 * that do not exist may seem to wait on them) and forgets the owner's threads.
 *
 * For this to be safe, an ipu_lock is held for short moments only: never while its
 * holder runs a program or Python code, sleeps, or waits for anything but a condition
 * variable that goes with it. A state that lasts longer is a flag that the lock
 * protects and that after_fork clears.
 *
 * ipu_fork_count tells a thread's owner whether the thread is in this process: compare
 * the count with that of the time when the thread was started. */
#ifndef IPU_BASE_LOCK_H
#define IPU_BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Runs in the child, whose only thread it is; no lock is held. */
typedef void ipu_after_fork_fn(void *owner);

typedef struct ipu_lock {
    pthread_mutex_t mutex;
    ipu_after_fork_fn *after_fork; /* may be NULL */
    void *owner;
    struct ipu_lock *previous; /* in the list of all locks */
    struct ipu_lock *next;
} ipu_lock;

/* The lock must not move until ipu_lock_destroy. */
void ipu_lock_init(ipu_lock *lock, ipu_after_fork_fn *after_fork, void *owner);
void ipu_lock_destroy(ipu_lock *lock);

static inline void
ipu_lock_take(ipu_lock *lock)
{
    pthread_mutex_lock(&lock->mutex);
}

static inline void
ipu_lock_drop(ipu_lock *lock)
{
    pthread_mutex_unlock(&lock->mutex);
}

/* Waits for a signal; the lock is held before and after. */
static inline void
ipu_lock_wait(ipu_lock *lock, pthread_cond_t *cond)
{
    pthread_cond_wait(cond, &lock->mutex);
}

/* The same for at most `ns`; false when the time is over. */
bool ipu_lock_wait_for(ipu_lock *lock, pthread_cond_t *cond, int64_t ns);

/* A condition variable on the monotonic clock, as ipu_lock_wait_for needs it. */
void ipu_cond_init(pthread_cond_t *cond);

/* How many forks lie between the process that loaded the library and this one. */
uint32_t ipu_fork_count(void);

#endif
