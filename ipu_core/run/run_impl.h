/* SPDX-License-Identifier: MIT
 *
 * What the files of run/ share: waiting on the monotonic clock, the cancel flag,
 * and spinning for a moment before sleeping. Any thread. */
#ifndef IPU_RUN_RUN_IMPL_H
#define IPU_RUN_RUN_IMPL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/pages.h"
#include "base/lock.h"
#include "program/program.h"

/* How often a sleeping device looks at its cancel flag. */
enum { IPU__CANCEL_POLL_NS = 20 * 1000 * 1000 };
/* Turns of a spin before a thread sleeps: about ten microseconds. */
enum { IPU__SPIN_TURNS = 500 };

static inline bool
ipu__is_cancelled(const int32_t *cancel)
{
    return cancel != NULL && __atomic_load_n(cancel, __ATOMIC_RELAXED) != 0;
}

#endif
