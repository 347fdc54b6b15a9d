/* SPDX-License-Identifier: MIT
 *
 * Exchanges: runs post them, and MPI (carrier.c), or a hub (hub.c), carries their
 * messages. The lock protects all of it; an exchange's state is also read without it. */
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "peers/peers_impl.h"

/* how often a thread that waits looks for a reason to give up */
enum { POLL_NS = 20 * 1000 * 1000 };
#define WAS_INTERRUPTED "interrupted while waiting for the other processes"

/* MPI, and what it was doing, are the parent's. */
static void
after_fork(void *owner)
{
    ipu_peers *peers = owner;
    ipu_cond_init(&peers->to_server);
    ipu_cond_init(&peers->to_runs);
    peers->posted = NULL;
    peers->taken = NULL;
    atomic_store(&peers->is_watched, false);
    if (!peers->has_failed) {
        peers->has_failed = true;
        snprintf(peers->reason, sizeof(peers->reason),
                 "this process was forked from one that runs together with %u others, "
                 "and cannot meet them. Start processes with the launcher, or train "
                 "in the parent",
                 peers->count - 1);
    }
}

ipu_status
ipu_peers_create(ipu_ctx *ctx, uint32_t process, uint32_t count, ipu_peers **out)
{
    *out = NULL;
    IPU_FAIL_IF(ctx, count == 0 || process >= count, VALUE,
                "process %u of %u: processes are numbered from 0", process, count);
    ipu_peers *peers;
    IPU_TRY(ipu_alloc(ctx, sizeof(*peers), &peers));
    peers->process = process;
    peers->count = count;
    peers->allocator = ctx->allocator;
    ipu_lock_init(&peers->lock, after_fork, peers);
    ipu_cond_init(&peers->to_server);
    ipu_cond_init(&peers->to_runs);
    *out = peers;
    return IPU_OK;
}

void
ipu_peers_free(ipu_ctx *ctx, ipu_peers *peers)
{
    if (peers == NULL) {
        return;
    }
    ipu_lock_destroy(&peers->lock);
    pthread_cond_destroy(&peers->to_server);
    pthread_cond_destroy(&peers->to_runs);
    ipu__errands_free(ctx, peers);
    ipu_free(ctx, peers, sizeof(*peers));
}

uint32_t
ipu_peers_process(const ipu_peers *peers)
{
    return peers->process;
}

uint32_t
ipu_peers_count(const ipu_peers *peers)
{
    return peers->count;
}

/* --- the ends of exchanges --------------------------------------------------------- */

/* Once its owner has been told, the exchange may be gone. */
void
ipu__peers_end_locked(ipu_peers *peers, ipu_exchange *exchange,
                      ipu_exchange_state state)
{
    void (*hear)(void *state) = exchange->hear;
    void *hearer = exchange->hearer;
    atomic_store(&exchange->state, state);
    atomic_fetch_add(&peers->ended, 1);
    pthread_cond_broadcast(&peers->to_runs);
    if (hear != NULL) {
        hear(hearer);
    }
}

void
ipu__peers_append(ipu_exchange **list, ipu_exchange *exchange)
{
    while (*list != NULL) {
        list = &(*list)->next;
    }
    exchange->next = NULL;
    *list = exchange;
}

/* The same one, or NULL: it was not there. */
ipu_exchange *
ipu__peers_remove(ipu_exchange **list, const ipu_exchange *exchange)
{
    while (*list != NULL && *list != exchange) {
        list = &(*list)->next;
    }
    ipu_exchange *found = *list;
    if (found != NULL) {
        *list = found->next;
    }
    return found;
}

static void
fail_all_locked(ipu_peers *peers, ipu_exchange **list)
{
    while (*list != NULL) {
        ipu_exchange *exchange = *list;
        *list = exchange->next;
        ipu__peers_end_locked(peers, exchange, IPU_EXCHANGE_FAILED);
    }
}

static void
fail_locked(ipu_peers *peers)
{
    peers->has_failed = true;
    peers->is_torn |= peers->taken != NULL && peers->hub == NULL;
    fail_all_locked(peers, &peers->posted);
    fail_all_locked(peers, &peers->taken);
    pthread_cond_broadcast(&peers->to_server);
}

void
ipu_peers_fail(ipu_peers *peers, const char *format, ...)
{
    ipu_lock_take(&peers->lock);
    bool is_first = !peers->has_failed;
    if (is_first) {
        va_list args;
        va_start(args, format);
        vsnprintf(peers->reason, sizeof(peers->reason), format, args);
        va_end(args);
        fail_locked(peers);
    }
    ipu_hub *hub = peers->hub;
    ipu_lock_drop(&peers->lock);
    if (is_first && hub != NULL) {
        ipu__hub_spread_failure(hub, peers);
    }
}

bool
ipu_peers_has_failed(ipu_peers *peers, char *text, size_t bytes)
{
    ipu_lock_take(&peers->lock);
    bool has_failed = peers->has_failed;
    snprintf(text, bytes, "%s", peers->reason);
    ipu_lock_drop(&peers->lock);
    return has_failed;
}

bool
ipu_peers_is_torn(ipu_peers *peers)
{
    ipu_lock_take(&peers->lock);
    bool is_torn = peers->is_torn;
    ipu_lock_drop(&peers->lock);
    return is_torn;
}

/* --- runs -------------------------------------------------------------------------- */

/* A hub is held till the messages are sent: only then is the exchange over. */
void
ipu_peers_post(ipu_peers *peers, ipu_exchange *exchange)
{
    bool is_empty = exchange->send_count == 0 && exchange->receive_count == 0;
    ipu__hub_take(peers->hub);
    ipu_lock_take(&peers->lock);
    bool is_posted = !peers->has_failed && !is_empty;
    exchange->received = 0;
    if (is_posted) {
        atomic_store(&exchange->state, IPU_EXCHANGE_POSTED);
        ipu__peers_append(peers->hub == NULL ? &peers->posted : &peers->taken,
                          exchange);
        if (peers->is_resting || !peers->is_threaded) {
            pthread_cond_signal(&peers->to_server);
        }
    } else {
        ipu__peers_end_locked(peers, exchange,
                              is_empty ? IPU_EXCHANGE_OVER : IPU_EXCHANGE_FAILED);
    }
    ipu_lock_drop(&peers->lock);
    if (is_posted && peers->hub != NULL) {
        ipu__hub_deliver_locked(peers->hub, peers, exchange);
    }
    ipu__hub_drop(peers->hub);
    if (is_posted && peers->is_threaded) {
        ipu__peers_carry(peers);
    }
}

ipu_status
ipu_exchange_result(ipu_ctx *ctx, ipu_peers *peers, const ipu_exchange *exchange)
{
    char reason[900];
    if (ipu_exchange_state_of(exchange) != IPU_EXCHANGE_FAILED) {
        return IPU_OK;
    }
    (void)ipu_peers_has_failed(peers, reason, sizeof(reason));
    IPU_FAIL(ctx, ABORTED, "%s", reason);
}

ipu_status
ipu_exchange_wait(ipu_ctx *ctx, ipu_peers *peers, ipu_exchange *exchange,
                  const int32_t *cancel, int64_t patience_ns)
{
    uint64_t since = 0; /* when *cancel was seen */
    while (true) {
        uint64_t ended = ipu_peers_ended(peers);
        if (!ipu_exchange_is_over(exchange) && !ipu_peers_watch(peers, ended)) {
            ipu_lock_take(&peers->lock);
            if (!ipu_exchange_is_over(exchange)) {
                (void)ipu_lock_wait_for(&peers->lock, &peers->to_runs, POLL_NS);
            }
            ipu_lock_drop(&peers->lock);
        }
        if (ipu_exchange_is_over(exchange)) {
            break;
        }
        IPU_FAIL_IF(ctx, ipu_ctx_is_cancelled(ctx), CANCELLED, WAS_INTERRUPTED);
        if (cancel != NULL && __atomic_load_n(cancel, __ATOMIC_RELAXED) != 0) {
            uint64_t now = ipu_now_ns();
            since = since == 0 ? now : since;
            IPU_FAIL_IF(ctx, (int64_t)(now - since) >= patience_ns, INTERRUPTED,
                        WAS_INTERRUPTED);
        }
    }
    return ipu_exchange_result(ctx, peers, exchange);
}
