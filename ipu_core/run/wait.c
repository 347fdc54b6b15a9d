/* SPDX-License-Identifier: MIT
 *
 * Waiting on the monotonic clock, and the hint for huge pages. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <time.h>

#include "run/run_impl.h"

enum { NS_PER_SECOND = 1000000000 };
enum { HUGE_PAGE_BYTES = 2 << 20 };

uint64_t
ipu__now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

void
ipu__cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

bool
ipu__cond_wait_for(pthread_cond_t *cond, ipu_lock *lock, int64_t ns)
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

void
ipu__advise_huge(void *memory, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    uintptr_t begin =
        ((uintptr_t)memory + HUGE_PAGE_BYTES - 1) & ~(uintptr_t)(HUGE_PAGE_BYTES - 1);
    uintptr_t end = ((uintptr_t)memory + bytes) & ~(uintptr_t)(HUGE_PAGE_BYTES - 1);
    if (end > begin) { /* a hint: its failure changes nothing */
        (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
    }
#else
    (void)memory;
    (void)bytes;
#endif
}
