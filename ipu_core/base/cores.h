/* SPDX-License-Identifier: MIT
 *
 * How many cores this process may use. */
#ifndef IPU_BASE_CORES_H
#define IPU_BASE_CORES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* The least of the cores in the process's affinity mask and the CPU quota of its
 * control groups (versions 1 and 2; a quota of 2.5 cores is 2); at least 1. `root` is
 * put before /proc and /sys: "" but in tests. */
int32_t ipu_cores_available(const char *root);

/* Lets the calling thread run on one of the cores of the process's affinity mask alone:
 * on that of this number, counted in turns; below 0, on all of them. Best effort. */
void ipu_cores_bind(int32_t number);

/* The cores that a thread may use. */
typedef struct ipu_cores {
    uint64_t words[16];
} ipu_cores;

/* Where the calling thread runs; -1: the system does not say. */
int32_t ipu_cores_current(void);
/* Takes one core from those of a thread where these are at least two, and as many as
 * `threads`: whether it did. `before` is for the other function, which the thread calls
 * itself. */
bool ipu_cores_leave(pthread_t thread, int32_t core, int32_t threads,
                     ipu_cores *before);
void ipu_cores_return(const ipu_cores *before);

/* The quota alone: INT32_MAX where there is none. */
int32_t ipu_cores_quota(const char *root);

#endif
