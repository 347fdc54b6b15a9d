/* SPDX-License-Identifier: MIT
 *
 * The hint for huge pages. */
#define _GNU_SOURCE
#include "base/huge.h"

#include <stdint.h>
#include <sys/mman.h>

enum { HUGE_PAGE_BYTES = 2 << 20 };

void
ipu_advise_huge(void *memory, size_t bytes)
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
