/* SPDX-License-Identifier: MIT
 *
 * Memory as the system gives it: whole pages. */
#ifndef IPU_BASE_PAGES_H
#define IPU_BASE_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether a block of so many bytes comes from ipu_pages_resize. The C library's heap
 * keeps what is freed, so that a copy which lived for a moment would count for ever. */
bool ipu_pages_are_for(size_t bytes);
/* Blocks for which the former holds, with realloc's contract. New bytes are zero, and
 * takes no memory until it is written. */
void *ipu_pages_resize(void *block, size_t old_bytes, size_t new_bytes);
/* Gives back what the C library's heap holds and nobody uses: up to a millisecond. */
void ipu_pages_trim(void);
/* Asks for huge pages where the block is large enough to gain from them. */
void ipu_pages_advise_huge(void *memory, size_t bytes);
/* The same for a block that one thread fills and all use. On a machine of several memory
 * nodes (NUMA) its pages come from all nodes in turn; else each lies on the node of the
 * thread that touches it first, as what threads make for themselves should. */
void ipu_pages_share(void *memory, size_t bytes);

/* Bits of the memory nodes that the process may use. */
enum { IPU_MOST_NODES = 1024, IPU_NODE_WORD_BITS = 8 * sizeof(unsigned long) };
typedef struct ipu_nodes {
    unsigned long words[IPU_MOST_NODES / IPU_NODE_WORD_BITS];
} ipu_nodes;

/* How many there are; 1 where the system does not say. */
int32_t ipu_pages_nodes(ipu_nodes *out);
/* Whether the pages that nobody has touched come from these nodes in turn now. */
bool ipu_pages_interleave(void *memory, size_t bytes, const ipu_nodes *nodes);

#endif
