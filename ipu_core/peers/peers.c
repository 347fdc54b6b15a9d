/* SPDX-License-Identifier: MIT
 *
 * A queue of exchanges between runs, which post them, and a transport, which takes
 * them. `lock` protects all of it; an exchange's state is also read without it. */
#include "peers/peers.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/lock.h"

/* How often a thread that waits looks for a reason to give up. */
enum { POLL_NS = 20 * 1000 * 1000 };
#define WAS_INTERRUPTED "interrupted while waiting for the other processes"

struct ipu_peers {
    uint32_t process;
    uint32_t count;
    ipu_allocator allocator;
    ipu_lock lock; /* protects all below */
    pthread_cond_t to_transport;
    pthread_cond_t to_runs;
    ipu_exchange *posted; /* not taken yet, oldest first */
    ipu_exchange *taken;
    ipu_message *errand; /* messages of the exchange that was taken last */
    size_t errand_bytes;
    bool is_woken;
    bool has_failed;
    bool is_torn;
    ipu_hub *hub; /* NULL: the transport is foreign */
    char reason[900];
};

static void deliver_locked(ipu_hub *hub, ipu_peers *from, const ipu_exchange *exchange);
static void hub_take(ipu_hub *hub);
static void hub_drop(ipu_hub *hub);
static void spread_failure(ipu_hub *hub, const ipu_peers *from);

/* MPI, and what it was doing, are the parent's. */
static void
after_fork(void *owner)
{
    ipu_peers *peers = owner;
    ipu_cond_init(&peers->to_transport);
    ipu_cond_init(&peers->to_runs);
    peers->posted = NULL;
    peers->taken = NULL;
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
    ipu_cond_init(&peers->to_transport);
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
    pthread_cond_destroy(&peers->to_transport);
    pthread_cond_destroy(&peers->to_runs);
    ipu_free(ctx, peers->errand, peers->errand_bytes);
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
static void
end_locked(ipu_peers *peers, ipu_exchange *exchange, ipu_exchange_state state)
{
    void (*hear)(void *state) = exchange->hear;
    void *hearer = exchange->hearer;
    atomic_store(&exchange->state, state);
    pthread_cond_broadcast(&peers->to_runs);
    if (hear != NULL) {
        hear(hearer);
    }
}

static void
append(ipu_exchange **list, ipu_exchange *exchange)
{
    while (*list != NULL) {
        list = &(*list)->next;
    }
    exchange->next = NULL;
    *list = exchange;
}

/* The same one, or NULL: it was not there. */
static ipu_exchange *
remove_from(ipu_exchange **list, const ipu_exchange *exchange)
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
        end_locked(peers, exchange, IPU_EXCHANGE_FAILED);
    }
}

static void
fail_locked(ipu_peers *peers)
{
    peers->has_failed = true;
    peers->is_torn |= peers->taken != NULL && peers->hub == NULL;
    fail_all_locked(peers, &peers->posted);
    fail_all_locked(peers, &peers->taken);
    pthread_cond_broadcast(&peers->to_transport);
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
        spread_failure(hub, peers);
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
    hub_take(peers->hub);
    ipu_lock_take(&peers->lock);
    bool is_posted = !peers->has_failed && !is_empty;
    exchange->received = 0;
    if (is_posted) {
        atomic_store(&exchange->state, IPU_EXCHANGE_POSTED);
        append(peers->hub == NULL ? &peers->posted : &peers->taken, exchange);
        pthread_cond_signal(&peers->to_transport);
    } else {
        end_locked(peers, exchange,
                   is_empty ? IPU_EXCHANGE_OVER : IPU_EXCHANGE_FAILED);
    }
    ipu_lock_drop(&peers->lock);
    if (is_posted && peers->hub != NULL) {
        deliver_locked(peers->hub, peers, exchange);
    }
    hub_drop(peers->hub);
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
    while (!ipu_exchange_is_over(exchange)) {
        ipu_lock_take(&peers->lock);
        if (!ipu_exchange_is_over(exchange)) {
            (void)ipu_lock_wait_for(&peers->lock, &peers->to_runs, POLL_NS);
        }
        ipu_lock_drop(&peers->lock);
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

/* --- transports -------------------------------------------------------------------- */

static ipu_status
copy_errand(ipu_ctx *ctx, ipu_peers *peers, const ipu_exchange *exchange,
            ipu_errand *out)
{
    size_t sends = exchange->send_count * sizeof(ipu_message);
    size_t receives = exchange->receive_count * sizeof(ipu_message);
    if (sends + receives > peers->errand_bytes) {
        ipu_free(ctx, peers->errand, peers->errand_bytes);
        peers->errand_bytes = 0;
        IPU_TRY(ipu_alloc(ctx, sends + receives, &peers->errand));
        peers->errand_bytes = sends + receives;
    }
    ipu_copy_bytes(peers->errand, exchange->sends, sends);
    ipu_copy_bytes(peers->errand + exchange->send_count, exchange->receives, receives);
    *out = (ipu_errand){.exchange = exchange,
                        .channel = exchange->channel,
                        .send_count = exchange->send_count,
                        .receive_count = exchange->receive_count,
                        .messages = peers->errand,
                        .source = exchange->source};
    return IPU_OK;
}

bool
ipu_peers_take(ipu_peers *peers, int64_t timeout_ns, ipu_errand *out)
{
    ipu_ctx own;
    ipu_status status = IPU_OK;
    ipu_ctx_init(&own, peers->allocator);
    ipu_lock_take(&peers->lock);
    if (timeout_ns > 0 && peers->posted == NULL && !peers->is_woken) {
        (void)ipu_lock_wait_for(&peers->lock, &peers->to_transport, timeout_ns);
    }
    peers->is_woken = false;
    ipu_exchange *exchange = peers->posted;
    if (exchange != NULL) {
        status = copy_errand(&own, peers, exchange, out);
    }
    if (exchange != NULL && status == IPU_OK) {
        peers->posted = exchange->next;
        append(&peers->taken, exchange);
    }
    ipu_lock_drop(&peers->lock);
    if (status != IPU_OK) {
        ipu_peers_fail(peers, "%s", own.message);
    }
    return exchange != NULL && status == IPU_OK;
}

void
ipu_peers_wake(ipu_peers *peers)
{
    ipu_lock_take(&peers->lock);
    peers->is_woken = true;
    pthread_cond_broadcast(&peers->to_transport);
    ipu_lock_drop(&peers->lock);
}

void
ipu_peers_finish(ipu_peers *peers, const ipu_exchange *exchange)
{
    ipu_lock_take(&peers->lock);
    ipu_exchange *found = remove_from(&peers->taken, exchange);
    if (found != NULL) { /* else it has failed, and may be gone */
        end_locked(peers, found, IPU_EXCHANGE_OVER);
    }
    ipu_lock_drop(&peers->lock);
}

/* --- processes that are threads ---------------------------------------------------- */

/* A message on its way. */
typedef struct letter {
    struct letter *next;
    uint32_t channel;
    uint32_t from;
    uint32_t to;
    size_t bytes;
    char data[];
} letter;

/* Senders do not wait: a message is copied into a letter. */
struct ipu_hub {
    ipu_lock lock; /* taken before that of any peer; protects all */
    ipu_allocator allocator;
    ipu_peers *const *peers;
    uint32_t count;
    letter *letters; /* oldest first */
};

ipu_status
ipu_peers_connect(ipu_ctx *ctx, ipu_peers *const *peers, uint32_t count, ipu_hub **out)
{
    ipu_hub *hub;
    *out = NULL;
    IPU_TRY(ipu_alloc(ctx, sizeof(*hub), &hub));
    ipu_lock_init(&hub->lock, NULL, NULL);
    hub->allocator = ctx->allocator;
    hub->peers = peers;
    hub->count = count;
    for (uint32_t i = 0; i < count; i++) {
        peers[i]->hub = hub;
    }
    *out = hub;
    return IPU_OK;
}

static void
free_letter(ipu_hub *hub, letter *one)
{
    ipu_ctx own;
    ipu_ctx_init(&own, hub->allocator);
    ipu_free(&own, one, sizeof(*one) + one->bytes);
}

void
ipu_hub_free(ipu_ctx *ctx, ipu_hub *hub)
{
    if (hub == NULL) {
        return;
    }
    while (hub->letters != NULL) {
        letter *one = hub->letters;
        hub->letters = one->next;
        free_letter(hub, one);
    }
    ipu_lock_destroy(&hub->lock);
    ipu_free(ctx, hub, sizeof(*hub));
}

static ipu_status
send_all(ipu_ctx *ctx, ipu_hub *hub, uint32_t from, const ipu_exchange *exchange)
{
    letter **end = &hub->letters;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    for (uint32_t i = 0; i < exchange->send_count; i++) {
        const ipu_message *message = &exchange->sends[i];
        IPU_TRY(ipu_alloc(ctx, sizeof(letter) + message->bytes, end));
        (*end)->channel = exchange->channel;
        (*end)->from = from;
        (*end)->to = message->process;
        (*end)->bytes = message->bytes;
        ipu_copy_bytes((*end)->data, message->data, message->bytes);
        end = &(*end)->next;
    }
    return IPU_OK;
}

static letter **
letter_for(ipu_hub *hub, uint32_t channel, uint32_t from, uint32_t to)
{
    letter **at = &hub->letters;
    while (*at != NULL &&
           ((*at)->channel != channel || (*at)->from != from || (*at)->to != to)) {
        at = &(*at)->next;
    }
    return at;
}

/* Whether all is there that the exchange receives. */
static bool
receive_all(ipu_hub *hub, const ipu_peers *peers, ipu_exchange *exchange)
{
    for (; exchange->received < exchange->receive_count; exchange->received++) {
        const ipu_message *message = &exchange->receives[exchange->received];
        letter **at =
            letter_for(hub, exchange->channel, message->process, peers->process);
        letter *one = *at;
        if (one == NULL) {
            return false;
        }
        size_t bytes = one->bytes < message->bytes ? one->bytes : message->bytes;
        ipu_copy_bytes(message->data, one->data, bytes);
        *at = one->next;
        free_letter(hub, one);
    }
    return true;
}

static void
receive_for(ipu_hub *hub, ipu_peers *peers)
{
    ipu_lock_take(&peers->lock);
    ipu_exchange *next;
    for (ipu_exchange *one = peers->taken; one != NULL; one = next) {
        next = one->next;
        if (receive_all(hub, peers, one)) {
            (void)remove_from(&peers->taken, one);
            end_locked(peers, one, IPU_EXCHANGE_OVER);
        }
    }
    ipu_lock_drop(&peers->lock);
}

static void
hub_take(ipu_hub *hub)
{
    if (hub != NULL) {
        ipu_lock_take(&hub->lock);
    }
}

static void
hub_drop(ipu_hub *hub)
{
    if (hub != NULL) {
        ipu_lock_drop(&hub->lock);
    }
}

static void
deliver_locked(ipu_hub *hub, ipu_peers *from, const ipu_exchange *exchange)
{
    ipu_ctx own;
    ipu_ctx_init(&own, hub->allocator);
    if (send_all(&own, hub, from->process, exchange) != IPU_OK) {
        ipu_peers_fail(from, "%s", own.message);
        return;
    }
    for (uint32_t i = 0; i < hub->count; i++) {
        receive_for(hub, hub->peers[i]);
    }
}

static void
spread_failure(ipu_hub *hub, const ipu_peers *from)
{
    for (uint32_t i = 0; i < hub->count; i++) {
        if (hub->peers[i] != from) {
            ipu_peers_fail(hub->peers[i], "process %u failed: %s", from->process,
                           from->reason);
        }
    }
}
