/* SPDX-License-Identifier: MIT
 *
 * For tests of what happens without memory. */
#ifndef IPU_TESTS_COUNTER_H
#define IPU_TESTS_COUNTER_H

#include <stdatomic.h>

#include "base/ctx.h"

/* An allocator that counts, and fails from its `fail_at`-th allocation on (or once). */
typedef struct counter {
    ipu_allocator heap;
    atomic_long live_bytes;
    atomic_long live_blocks;
    atomic_long allocations;
    long fail_at; /* 0: never */
} counter;

static void *
counted_resize(void *state, void *pointer, size_t old_bytes, size_t new_bytes)
{
    counter *c = state;
    if (new_bytes != 0) {
        long number = atomic_fetch_add(&c->allocations, 1) + 1;
        if (number == c->fail_at) {
            return NULL;
        }
    }
    void *result = c->heap.resize(c->heap.state, pointer, old_bytes, new_bytes);
    if (result != NULL || new_bytes == 0) {
        atomic_fetch_add(&c->live_bytes, (long)new_bytes - (long)old_bytes);
        atomic_fetch_add(&c->live_blocks, (new_bytes != 0) - (pointer != NULL));
    }
    return result;
}

static ipu_allocator
counting(counter *c)
{
    *c = (counter){.heap = ipu_allocator_default()};
    return (ipu_allocator){counted_resize, c};
}

#endif
