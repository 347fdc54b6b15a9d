/* SPDX-License-Identifier: MIT
 *
 * The state of peers, shared by the files of this room: peers.c has exchanges and their
 * ends, carrier.c carries messages by MPI, hub.c between threads. */
#ifndef IPU_PEERS_PEERS_IMPL_H
#define IPU_PEERS_PEERS_IMPL_H

#include <pthread.h>

#include "base/lock.h"
#include "peers/peers.h"

typedef struct ipu__errand ipu__errand; /* carrier.c */

struct ipu_peers {
    uint32_t process;
    uint32_t count;
    ipu_allocator allocator;
    ipu_lock lock; /* protects all below */
    pthread_cond_t to_server;
    pthread_cond_t to_runs;
    ipu_exchange *posted; /* not begun yet, oldest first */
    ipu_exchange *taken;
    bool is_resting;   /* the thread that serves, till it is told */
    uint64_t ended_ns; /* when it saw an end */
    bool is_woken;
    bool has_failed;
    bool is_torn;
    ipu_hub *hub; /* NULL: MPI */
    char reason[900];
    ipu__errand *errands; /* of those taken, oldest first */
    ipu__errand *idle_errands;
    uint64_t last_number;
    /* without the lock: since before anything was posted, */
    ipu_mpi mpi;
    bool has_mpi;
    bool is_threaded;
    /* and at any time */
    atomic_bool is_carried; /* somebody is at MPI */
    atomic_bool is_watched;
    _Atomic uint64_t ended; /* exchanges, so far */
    _Atomic uint64_t carried_ns;
};

/* --- peers.c ---------------------------------------------------------------------- */

/* The exchange, which is in no list, ends. */
void ipu__peers_end_locked(ipu_peers *peers, ipu_exchange *exchange,
                           ipu_exchange_state state);
void ipu__peers_append(ipu_exchange **list, ipu_exchange *exchange);
/* The same one, or NULL: it was not there. */
ipu_exchange *ipu__peers_remove(ipu_exchange **list, const ipu_exchange *exchange);

/* --- carrier.c -------------------------------------------------------------------- */

/* Begins what was posted and ends what is over, unless somebody else is at it. */
void ipu__peers_carry(ipu_peers *peers);
void ipu__errands_free(ipu_ctx *ctx, ipu_peers *peers);

/* --- hub.c: the hub may be NULL, then nothing happens ------------------------------ */

void ipu__hub_take(ipu_hub *hub);
void ipu__hub_drop(ipu_hub *hub);
/* Sends all messages, and ends what has all of its own. */
void ipu__hub_deliver_locked(ipu_hub *hub, ipu_peers *from,
                             const ipu_exchange *exchange);
/* The others fail, too. */
void ipu__hub_spread_failure(ipu_hub *hub, const ipu_peers *from);

#endif
