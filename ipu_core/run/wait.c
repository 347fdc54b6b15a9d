/* SPDX-License-Identifier: MIT
 *
 * The monotonic clock, and the hint for huge pages. */
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
