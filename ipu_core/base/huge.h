/* SPDX-License-Identifier: MIT
 *
 * The hint for huge pages. */
#ifndef IPU_BASE_HUGE_H
#define IPU_BASE_HUGE_H

#include <stddef.h>

/* Asks for huge pages where the block is large enough to gain from them. */
void ipu_advise_huge(void *memory, size_t bytes);

#endif
