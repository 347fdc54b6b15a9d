/* SPDX-License-Identifier: MIT
 *
 * Exchanges: runs post them, and MPI, or a hub, carries their messages. `lock` protects
 * all of it; an exchange's state is also read without it.
 *
 * A thread that waits for an exchange looks after MPI itself, which costs no change of
 * threads; so does a stream between its instructions. While all are busy the thread that
 * serves does it. One of them is at MPI at a time, without the lock: a call may copy
 * megabytes. */
#include "peers/peers.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"

enum {
    /* how often a thread that waits looks for a reason to give up */
    POLL_NS = 20 * 1000 * 1000,
    /* between the looks of a stream that has something else to do */
    GLANCE_NS = 20 * 1000,
    /* how long a thread looks before it sleeps, */
    WATCH_NS = 2 * 1000 * 1000,
    /* and how often before it lets others have the core; the one at MPI at once */
    WATCH_LOOKS = 64,
    /* a look that takes so long has moved bytes, and more may follow at once */
    MOVING_NS = 10 * 1000,
    /* between those of the thread that serves: more each time, while nothing happens, */
    FIRST_NAP_NS = 20 * 1000,
    USUAL_NAP_NS = 200 * 1000,
    /* and after so long without anything */
    PATIENCE_NS = 100 * 1000 * 1000,
    MOST_NAP_NS = 1000 * 1000,
    /* how long it goes on so after something was under way */
    LINGER_NS = 20 * 1000 * 1000
};
#define WAS_INTERRUPTED "interrupted while waiting for the other processes"

/* An exchange that MPI is at. It is a copy, since a run may give the exchange up at any
 * time, and its lists of messages with it: only their bytes stay. */
typedef struct errand {
    struct errand *next;
    const ipu_exchange *exchange; /* its name; it may be gone */
    uint64_t number;
    uint32_t channel;
    ipu_message *messages; /* to send, then to receive */
    uint32_t *processes;   /* of the requests */
    ipu_mpi_request *requests;
    uint32_t send_count;
    uint32_t count;    /* of messages, then of requests */
    uint32_t capacity; /* of all three */
    uint32_t done;     /* requests, from the first on */
    uint64_t since_ns;
    ipu_source source;
} errand;

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
    errand *errands; /* of those taken, oldest first */
    errand *idle_errands;
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

static void carry(ipu_peers *peers);
static void deliver_locked(ipu_hub *hub, ipu_peers *from, const ipu_exchange *exchange);
static void hub_take(ipu_hub *hub);
static void hub_drop(ipu_hub *hub);
static void spread_failure(ipu_hub *hub, const ipu_peers *from);

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

static void
free_errand(ipu_ctx *ctx, errand *one)
{
    ipu_free(ctx, one->messages, one->capacity * sizeof(*one->messages));
    ipu_free(ctx, one->processes, one->capacity * sizeof(*one->processes));
    ipu_free(ctx, one->requests, one->capacity * sizeof(*one->requests));
    ipu_free(ctx, one, sizeof(*one));
}

static void
free_errands(ipu_ctx *ctx, errand **list)
{
    while (*list != NULL) {
        errand *one = *list;
        *list = one->next;
        free_errand(ctx, one);
    }
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
    free_errands(ctx, &peers->errands);
    free_errands(ctx, &peers->idle_errands);
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
    atomic_fetch_add(&peers->ended, 1);
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
        if (peers->is_resting || !peers->is_threaded) {
            pthread_cond_signal(&peers->to_server);
        }
    } else {
        end_locked(peers, exchange, is_empty ? IPU_EXCHANGE_OVER : IPU_EXCHANGE_FAILED);
    }
    ipu_lock_drop(&peers->lock);
    if (is_posted && peers->hub != NULL) {
        deliver_locked(peers->hub, peers, exchange);
    }
    hub_drop(peers->hub);
    if (is_posted && peers->is_threaded) {
        carry(peers);
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

/* --- MPI --------------------------------------------------------------------------- */

static uint32_t
pieces_of(const ipu_message *message)
{
    size_t last = message->bytes == 0 ? 0 : message->bytes - 1;
    return (uint32_t)(last / IPU_MPI_MOST_BYTES + 1);
}

static uint32_t
count_pieces(const ipu_exchange *exchange)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < exchange->send_count; i++) {
        count += pieces_of(&exchange->sends[i]);
    }
    for (uint32_t i = 0; i < exchange->receive_count; i++) {
        count += pieces_of(&exchange->receives[i]);
    }
    return count;
}

/* One that has room for so many messages. */
static ipu_status
take_errand_locked(ipu_ctx *ctx, ipu_peers *peers, uint32_t count, errand **out)
{
    errand *one = peers->idle_errands;
    if (one != NULL) {
        peers->idle_errands = one->next;
    }
    if (one != NULL && one->capacity >= count) {
        *out = one;
        return IPU_OK;
    }
    if (one != NULL) {
        free_errand(ctx, one);
    }
    IPU_TRY(ipu_alloc(ctx, sizeof(*one), &one));
    one->capacity = count;
    ipu_status status = ipu_alloc(ctx, count * sizeof(*one->messages), &one->messages);
    if (status == IPU_OK) {
        status = ipu_alloc(ctx, count * sizeof(*one->processes), &one->processes);
    }
    if (status == IPU_OK) {
        status = ipu_alloc(ctx, count * sizeof(*one->requests), &one->requests);
    }
    if (status != IPU_OK) {
        free_errand(ctx, one);
        return status;
    }
    *out = one;
    return IPU_OK;
}

/* The exchange that was posted first, as an errand; NULL: there is none. */
static ipu_status
take_posted(ipu_ctx *ctx, ipu_peers *peers, errand **out)
{
    errand *one = NULL;
    ipu_status status = IPU_OK;
    ipu_lock_take(&peers->lock);
    ipu_exchange *exchange = peers->posted;
    if (exchange != NULL) {
        status = take_errand_locked(ctx, peers, count_pieces(exchange), &one);
    }
    if (one != NULL) {
        ipu_copy_bytes(one->messages, exchange->sends,
                       exchange->send_count * sizeof(ipu_message));
        ipu_copy_bytes(one->messages + exchange->send_count, exchange->receives,
                       exchange->receive_count * sizeof(ipu_message));
        one->exchange = exchange;
        one->number = ++peers->last_number;
        one->channel = exchange->channel;
        one->send_count = exchange->send_count;
        one->count = exchange->send_count + exchange->receive_count;
        one->done = 0;
        one->since_ns = ipu_now_ns();
        one->source = exchange->source;
        peers->posted = exchange->next;
        append(&peers->taken, exchange);
    }
    ipu_lock_drop(&peers->lock);
    *out = one;
    return status;
}

static int
begin_message(const ipu_peers *peers, errand *one, uint32_t *request, bool is_send,
              const ipu_message *message)
{
    char *data = message->data;
    size_t left = message->bytes;
    int error = 0;
    do {
        size_t bytes = left < IPU_MPI_MOST_BYTES ? left : IPU_MPI_MOST_BYTES;
        one->processes[*request] = message->process;
        error = ipu_mpi_begin(&peers->mpi, is_send, data, bytes, message->process,
                              one->channel, &one->requests[(*request)++]);
        data += bytes;
        left -= bytes;
    } while (error == 0 && left > 0);
    return error;
}

/* First what is received: so nothing that is sent has to be kept elsewhere. */
static int
begin_errand(ipu_peers *peers, errand *one)
{
    int error = 0;
    uint32_t requests = 0;
    uint32_t sends = one->send_count;
    for (uint32_t i = sends; error == 0 && i < one->count; i++) {
        error = begin_message(peers, one, &requests, false, &one->messages[i]);
    }
    for (uint32_t i = 0; error == 0 && i < sends; i++) {
        error = begin_message(peers, one, &requests, true, &one->messages[i]);
    }
    one->count = requests;
    one->next = NULL;
    ipu_lock_take(&peers->lock);
    errand **end = &peers->errands;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = one;
    ipu_lock_drop(&peers->lock);
    return error;
}

static int
test_errand(ipu_peers *peers, errand *one, bool *is_over)
{
    int error = 0;
    bool is_done = true;
    while (error == 0 && is_done && one->done < one->count) {
        error = ipu_mpi_test(&peers->mpi, &one->requests[one->done], &is_done);
        one->done += error == 0 && is_done;
    }
    *is_over = error == 0 && one->done == one->count;
    return error;
}

/* *at becomes the next one. */
static void
end_errand(ipu_peers *peers, errand **at)
{
    errand *one = *at;
    ipu_lock_take(&peers->lock);
    *at = one->next;
    one->next = peers->idle_errands;
    peers->idle_errands = one;
    ipu_exchange *found = remove_from(&peers->taken, one->exchange);
    if (found != NULL) { /* else it has failed, and may be gone */
        end_locked(peers, found, IPU_EXCHANGE_OVER);
    }
    ipu_lock_drop(&peers->lock);
}

/* Who is at MPI alone changes the list of errands. */
static int
begin_and_end(ipu_peers *peers)
{
    ipu_ctx own;
    errand *one = NULL;
    int error = 0;
    ipu_ctx_init(&own, peers->allocator);
    do {
        if (take_posted(&own, peers, &one) != IPU_OK) {
            ipu_peers_fail(peers, "%s", own.message);
        } else if (one != NULL) {
            error = begin_errand(peers, one);
        }
    } while (error == 0 && one != NULL);
    errand **at = &peers->errands;
    while (error == 0 && *at != NULL) {
        bool is_over = false;
        error = test_errand(peers, *at, &is_over);
        if (is_over) {
            end_errand(peers, at);
        } else {
            at = &(*at)->next;
        }
    }
    return error;
}

/* Whether MPI is there, nothing has failed, and something is posted, or any at all. */
static bool
has_work(ipu_peers *peers, bool is_any)
{
    ipu_lock_take(&peers->lock);
    bool has = peers->has_mpi && !peers->has_failed &&
               (peers->posted != NULL || (is_any && peers->errands != NULL));
    ipu_lock_drop(&peers->lock);
    return has;
}

/* One that is posted while somebody else is at MPI is begun by him. */
static void
carry(ipu_peers *peers)
{
    bool has = has_work(peers, true);
    while (has && !atomic_load(&peers->is_carried) &&
           !atomic_exchange(&peers->is_carried, true)) {
        int error = has_work(peers, true) ? begin_and_end(peers) : 0;
        if (error != 0) {
            char text[600];
            ipu_peers_fail(peers, "MPI failed: %s",
                           ipu_mpi_describe(&peers->mpi, error, text, sizeof(text)));
        }
        atomic_store(&peers->carried_ns, ipu_now_ns());
        atomic_store(&peers->is_carried, false);
        has = has_work(peers, false);
    }
}

void
ipu_peers_glance(ipu_peers *peers)
{
    if (peers->is_threaded &&
        ipu_now_ns() - atomic_load(&peers->carried_ns) > GLANCE_NS) {
        carry(peers);
    }
}

uint64_t
ipu_peers_ended(const ipu_peers *peers)
{
    return atomic_load(&peers->ended);
}

bool
ipu_peers_watch(ipu_peers *peers, uint64_t ended)
{
    if (!peers->is_threaded || atomic_exchange(&peers->is_watched, true)) {
        return false;
    }
    uint64_t since = ipu_now_ns();
    bool is_over = false;
    for (int look = 1; !is_over && ipu_now_ns() - since < WATCH_NS; look++) {
        carry(peers);
        is_over = atomic_load(&peers->ended) != ended;
        if (!is_over && (look % WATCH_LOOKS == 0 || atomic_load(&peers->is_carried))) {
            sched_yield();
        }
    }
    atomic_store(&peers->is_watched, false);
    return is_over;
}

void
ipu_peers_use_mpi(ipu_peers *peers, const ipu_mpi *mpi, bool is_threaded)
{
    peers->mpi = *mpi;
    peers->is_threaded = is_threaded;
    peers->has_mpi = true;
}

void
ipu_peers_serve(ipu_peers *peers, int64_t ns)
{
    uint64_t until = ipu_now_ns() + (uint64_t)ns;
    uint64_t busy_ns = 0; /* when something was under way last */
    int64_t nap = FIRST_NAP_NS;
    bool goes_on = true;
    while (goes_on) {
        uint64_t before = atomic_load(&peers->ended);
        uint64_t begin = ipu_now_ns();
        carry(peers);
        uint64_t now = ipu_now_ns();
        bool is_watched = atomic_load(&peers->is_watched);
        bool has_moved = now - begin > MOVING_NS;
        bool happened = has_moved || atomic_load(&peers->ended) != before;
        peers->ended_ns = happened ? now : peers->ended_ns;
        int64_t most = now - peers->ended_ns < PATIENCE_NS ? USUAL_NAP_NS : MOST_NAP_NS;
        nap = happened ? FIRST_NAP_NS : 2 * nap < most ? 2 * nap : most;
        ipu_lock_take(&peers->lock);
        busy_ns = happened || peers->taken != NULL ? now : busy_ns;
        peers->is_resting = now - busy_ns > LINGER_NS;
        int64_t left = now < until ? (int64_t)(until - now) : 0;
        int64_t rest = peers->is_resting ? left : is_watched ? MOST_NAP_NS : nap;
        bool is_mine = peers->posted != NULL && !peers->is_threaded;
        if (left > 0 && !peers->is_woken && !is_mine && !has_moved) {
            (void)ipu_lock_wait_for(&peers->lock, &peers->to_server,
                                    rest < left ? rest : left);
        }
        goes_on = left > 0 && !peers->is_woken;
        peers->is_woken = false;
        ipu_lock_drop(&peers->lock);
    }
}

void
ipu_peers_wake(ipu_peers *peers)
{
    ipu_lock_take(&peers->lock);
    peers->is_woken = true;
    pthread_cond_broadcast(&peers->to_server);
    ipu_lock_drop(&peers->lock);
}

static bool
is_with(const errand *one, uint32_t process)
{
    bool is = process == IPU_ANY_PROCESS;
    for (uint32_t i = one->done; i < one->count; i++) {
        is |= one->processes[i] == process;
    }
    return is;
}

static void
list_processes(const ipu_peers *peers, const errand *one, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t p = 0; p < peers->count && used < bytes; p++) {
        if (is_with(one, p)) {
            used += (size_t)snprintf(text + used, bytes - used, "%s%u",
                                     used == 0 ? "" : ", ", p);
        }
    }
}

bool
ipu_peers_find(ipu_peers *peers, uint32_t process, uint64_t after, int64_t ns,
               ipu_errand *out)
{
    uint64_t now = ipu_now_ns();
    ipu_lock_take(&peers->lock);
    const errand *one = peers->errands;
    while (one != NULL &&
           (one->number <= after || (int64_t)(now - one->since_ns) < ns ||
            !is_with(one, process))) {
        one = one->next;
    }
    if (one != NULL) {
        *out = (ipu_errand){.number = one->number,
                            .under_way_ns = (int64_t)(now - one->since_ns),
                            .source = one->source};
        list_processes(peers, one, out->processes, sizeof(out->processes));
    }
    ipu_lock_drop(&peers->lock);
    return one != NULL;
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
