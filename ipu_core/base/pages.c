/* SPDX-License-Identifier: MIT
 *
 * Pages of the system. Under AddressSanitizer, which sees the heap alone, none are
 * taken. */
#define _GNU_SOURCE
#include "base/pages.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "base/sanitizer.h"

enum {
    HUGE_PAGE_BYTES = 2 << 20,
    LEAST_BYTES = 1 << 20,
    LARGEST_PAGE = 64 * 1024 /* of any processor, but for huge ones */
};

bool
ipu_pages_are_for(size_t bytes)
{
#ifdef IPU_ADDRESS_SANITIZER
    (void)bytes;
    return false;
#else
    return bytes >= LEAST_BYTES;
#endif
}

static void *
map(size_t bytes)
{
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                       -1, 0);
    return block == MAP_FAILED ? NULL : block;
}

void *
ipu_pages_resize(void *block, size_t old_bytes, size_t new_bytes)
{
    if (new_bytes == 0) {
        (void)munmap(block, old_bytes);
        return NULL;
    }
    if (block == NULL) {
        return map(new_bytes);
    }
#ifdef MREMAP_MAYMOVE
    char *moved = mremap(block, old_bytes, new_bytes, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED) {
        return NULL;
    }
    if (new_bytes > old_bytes) { /* the page of its end may hold what was there before */
        size_t rest = LARGEST_PAGE - old_bytes % LARGEST_PAGE;
        memset(moved + old_bytes, 0,
               rest < new_bytes - old_bytes ? rest : new_bytes - old_bytes);
    }
    return moved;
#else
    void *moved = map(new_bytes);
    if (moved != NULL) {
        memcpy(moved, block, old_bytes < new_bytes ? old_bytes : new_bytes);
        (void)munmap(block, old_bytes);
    }
    return moved;
#endif
}

void
ipu_pages_trim(void)
{
#if defined(__GLIBC__)
    (void)malloc_trim(0);
#endif
}

void
ipu_pages_advise_huge(void *memory, size_t bytes)
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
