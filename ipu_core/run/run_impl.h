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

/* How long a cancelled run may take to reach the end of a step. */
enum { IPU__CANCEL_GRACE_NS = 200 * 1000 * 1000 };

/* Whether a run that is cancelled stops where it is: at once where the variables are
 * whole, else when it has had time to end the step. *since is when that was first asked
 * of a cancelled run; 0: not yet. */
static inline bool
ipu__stops_here(const int32_t *cancel, bool is_whole, uint64_t *since)
{
    if (!ipu__is_cancelled(cancel)) {
        return false;
    }
    uint64_t now = ipu_now_ns();
    *since = *since == 0 ? now : *since;
    return is_whole || now - *since > IPU__CANCEL_GRACE_NS;
}

#endif
