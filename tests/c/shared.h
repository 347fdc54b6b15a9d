/* SPDX-License-Identifier: MIT
 *
 * What the C tests of several rooms share. A file that includes it defines _GNU_SOURCE. */
#ifndef IPU_TESTS_SHARED_H
#define IPU_TESTS_SHARED_H

#include <time.h>

#include "base/ctx.h"

static inline ipu_ctx
fresh(void)
{
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    return ctx;
}

static inline void
sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

#endif
