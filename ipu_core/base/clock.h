/* SPDX-License-Identifier: MIT
 *
 * The monotonic clock. */
#ifndef IPU_BASE_CLOCK_H
#define IPU_BASE_CLOCK_H

#include <stdint.h>

uint64_t ipu_now_ns(void);

#endif
