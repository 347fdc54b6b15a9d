/* SPDX-License-Identifier: MIT
 *
 * Pages of the system. Under AddressSanitizer, which sees the heap alone, none are
 * taken. */
#define _GNU_SOURCE
#include "base/pages.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
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

/* --- memory nodes ----------------------------------------------------------------- */

/* Of mbind(2) and get_mempolicy(2): no header of a library is needed. */
enum { INTERLEAVE = 3, NODES_ALLOWED = 1 << 2 };

int32_t
ipu_pages_nodes(ipu_nodes *out)
{
    *out = (ipu_nodes){0};
    int32_t count = 0;
#ifdef SYS_get_mempolicy
    if (syscall(SYS_get_mempolicy, NULL, out->words, (unsigned long)IPU_MOST_NODES,
                NULL, (unsigned long)NODES_ALLOWED) == 0) {
        for (size_t i = 0; i < sizeof(out->words) / sizeof(out->words[0]); i++) {
            count += __builtin_popcountl(out->words[i]);
        }
    }
#endif
    return count < 1 ? 1 : count;
}

bool
ipu_pages_interleave(void *memory, size_t bytes, const ipu_nodes *nodes)
{
#ifdef SYS_mbind
    const uintptr_t mask = LARGEST_PAGE - 1;
    uintptr_t begin = ((uintptr_t)memory + mask) & ~mask;
    uintptr_t end = ((uintptr_t)memory + bytes) & ~mask;
    return end > begin &&
           syscall(SYS_mbind, begin, (unsigned long)(end - begin), INTERLEAVE,
                   nodes->words, (unsigned long)IPU_MOST_NODES, 0U) == 0;
#else
    (void)memory;
    (void)bytes;
    (void)nodes;
    return false;
#endif
}

void
ipu_pages_share(void *memory, size_t bytes)
{
    ipu_nodes nodes;
    ipu_pages_advise_huge(memory, bytes);
    if (ipu_pages_are_for(bytes) && ipu_pages_nodes(&nodes) > 1) {
        (void)ipu_pages_interleave(memory, bytes, &nodes);
    }
}
