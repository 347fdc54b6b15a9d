/* SPDX-License-Identifier: MIT
 *
 * The other processes that run the same program, as a run sees them: it posts exchanges
 * and asks whether they are over. It does not know who carries the bytes: MPI does
 * (ipu_peers_use_mpi), or, in tests, processes are really threads (ipu_peers_connect).
 *
 * An exchange is any number of messages to other processes, and from them. Those of one
 * channel and pair of processes match in the order in which they were posted, and lie
 * in the caller's memory until the exchange is over. An exchange is over when what is
 * sent may be changed and what is received is there.
 *
 * Failure is final: once a process has failed, or the transport has, all exchanges of
 * this process are over and failed, those that are posted later too. MPI may still be at
 * the memory of those that were under way, so that has to stay.
 *
 * Any thread. */
#ifndef IPU_PEERS_PEERS_H
#define IPU_PEERS_PEERS_H

#include <stdatomic.h>

#include "base/ctx.h"
#include "peers/mpi.h"

typedef struct ipu_peers ipu_peers;

typedef struct ipu_message {
    uint32_t process; /* the other one */
    void *data;       /* that which is sent is only read */
    size_t bytes;
} ipu_message;

typedef enum ipu_exchange_state {
    IPU_EXCHANGE_IDLE,
    IPU_EXCHANGE_POSTED,
    IPU_EXCHANGE_OVER,
    IPU_EXCHANGE_FAILED
} ipu_exchange_state;

typedef struct ipu_exchange {
    uint32_t channel;
    const ipu_message *sends;
    uint32_t send_count;
    const ipu_message *receives;
    uint32_t receive_count;
    /* called once it is over, by any thread; it must not call the peers. NULL: nobody */
    void (*hear)(void *state);
    void *hearer;
    ipu_source source; /* the user's line that it is for, if one is known */
    /* the peers' */
    _Atomic int state;
    uint32_t received;         /* messages, by a hub */
    struct ipu_exchange *next; /* of those that are under way */
} ipu_exchange;

/* Channels that are not those of a program's meetings, which follow. */
enum {
    IPU_CHANNEL_HOST, /* of calls outside of programs */
    IPU_CHANNEL_RUN,  /* the beginning of a run */
    IPU_CHANNEL_STEP, /* whether to go on after a step */
    IPU_CHANNEL_MEETINGS
};

/* Process `process` of `count`. */
ipu_status ipu_peers_create(ipu_ctx *ctx, uint32_t process, uint32_t count,
                            ipu_peers **out);
void ipu_peers_free(ipu_ctx *ctx, ipu_peers *peers);
uint32_t ipu_peers_process(const ipu_peers *peers);
uint32_t ipu_peers_count(const ipu_peers *peers);

/* --- a run ------------------------------------------------------------------------ */

/* An exchange without messages is over at once. It must not be under way. */
void ipu_peers_post(ipu_peers *peers, ipu_exchange *exchange);

static inline ipu_exchange_state
ipu_exchange_state_of(const ipu_exchange *exchange)
{
    return (ipu_exchange_state)atomic_load(&exchange->state);
}

static inline bool
ipu_exchange_is_over(const ipu_exchange *exchange)
{
    return ipu_exchange_state_of(exchange) >= IPU_EXCHANGE_OVER;
}

/* OK, or ABORTED with what went wrong; of an exchange that is over. */
ipu_status ipu_exchange_result(ipu_ctx *ctx, ipu_peers *peers,
                               const ipu_exchange *exchange);
/* Sleeps until it is over. Gives up with the exchange still under way: CANCELLED where
 * ctx->cancel is set; INTERRUPTED once *cancel (may be NULL) was seen set for so long. */
ipu_status ipu_exchange_wait(ipu_ctx *ctx, ipu_peers *peers, ipu_exchange *exchange,
                             const int32_t *cancel, int64_t patience_ns);
/* Begins what was posted and ends what is over, where that is due: for a thread that has
 * something else to do. */
void ipu_peers_glance(ipu_peers *peers);
/* How many exchanges were over so far. */
uint64_t ipu_peers_ended(const ipu_peers *peers);
/* For a thread that waits: the same, for a moment at most, till more are over than the
 * `ended` that it read before it looked at its own; whether they are. Of several threads
 * one stays. */
bool ipu_peers_watch(ipu_peers *peers, uint64_t ended);
/* Whether an exchange failed while MPI was at it. */
bool ipu_peers_is_torn(ipu_peers *peers);

/* --- MPI --------------------------------------------------------------------------- */

/* Messages go by MPI; before anything is posted. is_threaded: any thread may call it,
 * else only the one that serves. */
void ipu_peers_use_mpi(ipu_peers *peers, const ipu_mpi *mpi, bool is_threaded);
/* Looks after what is under way for `ns`, or till it is woken. One thread. */
void ipu_peers_serve(ipu_peers *peers, int64_t ns);
void ipu_peers_wake(ipu_peers *peers);

/* An exchange that MPI is at. */
typedef struct ipu_errand {
    uint64_t number; /* counted from 1 */
    int64_t under_way_ns;
    ipu_source source;
    char processes[120]; /* with which: a list for people */
} ipu_errand;

/* The oldest with `process` (IPU_ANY_PROCESS: with any), a number above `after`, and
 * under way for so long. */
#define IPU_ANY_PROCESS UINT32_MAX
bool ipu_peers_find(ipu_peers *peers, uint32_t process, uint64_t after, int64_t ns,
                    ipu_errand *out);

/* --- failures ---------------------------------------------------------------------- */

/* Says why; the first reason counts. All exchanges that are under way fail. */
void ipu_peers_fail(ipu_peers *peers, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Whether they have; `text` gets the reason. */
bool ipu_peers_has_failed(ipu_peers *peers, char *text, size_t bytes);

/* --- processes that are threads ---------------------------------------------------- */

typedef struct ipu_hub ipu_hub;
/* Joins peers 0 to count - 1, which have no other transport; the hub outlives all that
 * they do. When one fails the others are told. */
ipu_status ipu_peers_connect(ipu_ctx *ctx, ipu_peers *const *peers, uint32_t count,
                             ipu_hub **out);
void ipu_hub_free(ipu_ctx *ctx, ipu_hub *hub);

#endif
