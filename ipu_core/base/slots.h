/* SPDX-License-Identifier: MIT
 *
 * Up to 64 numbered slots that threads take and give back: bit i says that slot i is
 * taken; all are free at 0. */
#ifndef IPU_BASE_SLOTS_H
#define IPU_BASE_SLOTS_H

#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic uint64_t ipu_slots;

/* Takes the lowest free one of `count` slots; -1 where all are taken. A thread often
 * gets its last slot again, whose memory is in its cache. */
static inline int
ipu_slots_take(ipu_slots *slots, int count)
{
    uint64_t taken = atomic_load_explicit(slots, memory_order_relaxed);
    for (;;) {
        int lowest = taken == UINT64_MAX ? 64 : __builtin_ctzll(~taken);
        if (lowest >= count) {
            return -1;
        }
        if (atomic_compare_exchange_weak_explicit(
                slots, &taken, taken | (uint64_t)1 << lowest, memory_order_acquire,
                memory_order_relaxed)) {
            return lowest;
        }
    }
}

static inline void
ipu_slots_give_back(ipu_slots *slots, int slot)
{
    atomic_fetch_and_explicit(slots, ~((uint64_t)1 << slot), memory_order_release);
}

#endif
