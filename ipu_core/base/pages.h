/* SPDX-License-Identifier: MIT
 *
 * Memory as the system gives it: whole pages. */
#ifndef IPU_BASE_PAGES_H
#define IPU_BASE_PAGES_H

#include <stdbool.h>
#include <stddef.h>

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

#endif
