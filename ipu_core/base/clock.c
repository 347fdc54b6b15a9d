/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "base/clock.h"

#include <time.h>

enum { NS_PER_SECOND = 1000000000 };

uint64_t
ipu_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}
