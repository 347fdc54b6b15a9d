/* SPDX-License-Identifier: MIT
 *
 * All locks are in one list. A thread that forks takes the list's own mutex and then
 * tries each lock in turn. A thread that holds one lock may want another one, or the
 * list: so where one cannot be had, the forking thread gives everything back and begins
 * anew a moment later. It never waits with a lock in its hands. */
#define _GNU_SOURCE
#include "base/lock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

enum { RETRY_NS = 20 * 1000, NS_PER_SECOND = 1000 * 1000 * 1000 };

static pthread_once_t handlers_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER; /* protects: first */
static ipu_lock *first;
static _Atomic uint32_t fork_count;

static void
unlock_until(const ipu_lock *end)
{
    for (ipu_lock *lock = first; lock != end; lock = lock->next) {
        pthread_mutex_unlock(&lock->mutex);
    }
}

static bool
try_all(void)
{
    for (ipu_lock *lock = first; lock != NULL; lock = lock->next) {
        if (pthread_mutex_trylock(&lock->mutex) != 0) {
            unlock_until(lock);
            return false;
        }
    }
    return true;
}

static void
before_fork(void)
{
    pthread_mutex_lock(&list_mutex);
    while (!try_all()) {
        pthread_mutex_unlock(&list_mutex);
        nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
        pthread_mutex_lock(&list_mutex);
    }
}

static void
after_fork_in_parent(void)
{
    unlock_until(NULL);
    pthread_mutex_unlock(&list_mutex);
}

static void
after_fork_in_child(void)
{
    atomic_fetch_add(&fork_count, 1);
    unlock_until(NULL);
    pthread_mutex_unlock(&list_mutex);
    for (ipu_lock *lock = first; lock != NULL; lock = lock->next) {
        if (lock->after_fork != NULL) {
            lock->after_fork(lock->owner);
        }
    }
}

/* Can fail for want of memory alone, when the library is loaded. */
static void
install_handlers(void)
{
    (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void
ipu_lock_init(ipu_lock *lock, ipu_after_fork_fn *after_fork, void *owner)
{
    pthread_once(&handlers_once, install_handlers);
    pthread_mutex_init(&lock->mutex, NULL);
    lock->after_fork = after_fork;
    lock->owner = owner;
    lock->previous = NULL;
    pthread_mutex_lock(&list_mutex);
    lock->next = first;
    if (first != NULL) {
        first->previous = lock;
    }
    first = lock;
    pthread_mutex_unlock(&list_mutex);
}

void
ipu_lock_destroy(ipu_lock *lock)
{
    pthread_mutex_lock(&list_mutex);
    if (lock->previous == NULL) {
        first = lock->next;
    } else {
        lock->previous->next = lock->next;
    }
    if (lock->next != NULL) {
        lock->next->previous = lock->previous;
    }
    pthread_mutex_unlock(&list_mutex);
    pthread_mutex_destroy(&lock->mutex);
}

void
ipu_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

bool
ipu_lock_wait_for(ipu_lock *lock, pthread_cond_t *cond, int64_t ns)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(ns / NS_PER_SECOND);
    until.tv_nsec += (long)(ns % NS_PER_SECOND);
    if (until.tv_nsec >= NS_PER_SECOND) {
        until.tv_nsec -= NS_PER_SECOND;
        until.tv_sec++;
    }
    return pthread_cond_timedwait(cond, &lock->mutex, &until) == 0;
}

uint32_t
ipu_fork_count(void)
{
    return atomic_load_explicit(&fork_count, memory_order_relaxed);
}
