/* SPDX-License-Identifier: MIT
 *
 * Processes that are threads, for tests. */
#include "peers/peers_impl.h"

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
            (void)ipu__peers_remove(&peers->taken, one);
            ipu__peers_end_locked(peers, one, IPU_EXCHANGE_OVER);
        }
    }
    ipu_lock_drop(&peers->lock);
}

void
ipu__hub_take(ipu_hub *hub)
{
    if (hub != NULL) {
        ipu_lock_take(&hub->lock);
    }
}

void
ipu__hub_drop(ipu_hub *hub)
{
    if (hub != NULL) {
        ipu_lock_drop(&hub->lock);
    }
}

void
ipu__hub_deliver_locked(ipu_hub *hub, ipu_peers *from, const ipu_exchange *exchange)
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

void
ipu__hub_spread_failure(ipu_hub *hub, const ipu_peers *from)
{
    for (uint32_t i = 0; i < hub->count; i++) {
        if (hub->peers[i] != from) {
            ipu_peers_fail(hub->peers[i], "process %u failed: %s", from->process,
                           from->reason);
        }
    }
}
