/* SPDX-License-Identifier: MIT
 *
 * Exchanges by MPI. A thread that waits for one looks after MPI itself, which costs no
 * change of threads; so does a stream between its instructions. While all are busy the
 * thread that serves does it. One of them is at MPI at a time, without the lock: a call
 * may copy megabytes. */
#include <sched.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/thread.h"
#include "peers/peers_impl.h"

enum {
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

/* An exchange that MPI is at. It is a copy, since a run may give the exchange up at any
 * time, and its lists of messages with it: only their bytes stay. */
struct ipu__errand {
    ipu__errand *next;
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
};

static void
free_errand(ipu_ctx *ctx, ipu__errand *one)
{
    ipu_free(ctx, one->messages, one->capacity * sizeof(*one->messages));
    ipu_free(ctx, one->processes, one->capacity * sizeof(*one->processes));
    ipu_free(ctx, one->requests, one->capacity * sizeof(*one->requests));
    ipu_free(ctx, one, sizeof(*one));
}

static void
free_errands(ipu_ctx *ctx, ipu__errand **list)
{
    while (*list != NULL) {
        ipu__errand *one = *list;
        *list = one->next;
        free_errand(ctx, one);
    }
}

void
ipu__errands_free(ipu_ctx *ctx, ipu_peers *peers)
{
    free_errands(ctx, &peers->errands);
    free_errands(ctx, &peers->idle_errands);
}

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
take_errand_locked(ipu_ctx *ctx, ipu_peers *peers, uint32_t count, ipu__errand **out)
{
    ipu__errand *one = peers->idle_errands;
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
take_posted(ipu_ctx *ctx, ipu_peers *peers, ipu__errand **out)
{
    ipu__errand *one = NULL;
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
        ipu__peers_append(&peers->taken, exchange);
    }
    ipu_lock_drop(&peers->lock);
    *out = one;
    return status;
}

static int
begin_message(const ipu_peers *peers, ipu__errand *one, uint32_t *request, bool is_send,
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
begin_errand(ipu_peers *peers, ipu__errand *one)
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
    ipu__errand **end = &peers->errands;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = one;
    ipu_lock_drop(&peers->lock);
    return error;
}

static int
test_errand(ipu_peers *peers, ipu__errand *one, bool *is_over)
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
end_errand(ipu_peers *peers, ipu__errand **at)
{
    ipu__errand *one = *at;
    ipu_lock_take(&peers->lock);
    *at = one->next;
    one->next = peers->idle_errands;
    peers->idle_errands = one;
    ipu_exchange *found = ipu__peers_remove(&peers->taken, one->exchange);
    if (found != NULL) { /* else it has failed, and may be gone */
        ipu__peers_end_locked(peers, found, IPU_EXCHANGE_OVER);
    }
    ipu_lock_drop(&peers->lock);
}

/* Who is at MPI alone changes the list of errands. */
static int
begin_and_end(ipu_peers *peers)
{
    ipu_ctx own;
    ipu__errand *one = NULL;
    int error = 0;
    ipu_ctx_init(&own, peers->allocator);
    do {
        if (take_posted(&own, peers, &one) != IPU_OK) {
            ipu_peers_fail(peers, "%s", own.message);
        } else if (one != NULL) {
            error = begin_errand(peers, one);
        }
    } while (error == 0 && one != NULL);
    ipu__errand **at = &peers->errands;
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
void
ipu__peers_carry(ipu_peers *peers)
{
    bool goes_on = true;
    while (goes_on && !atomic_load(&peers->is_carried) &&
           !atomic_exchange(&peers->is_carried, true)) {
        int error = has_work(peers, true) ? begin_and_end(peers) : 0;
        if (error != 0) {
            char text[600];
            ipu_peers_fail(peers, "MPI failed: %s",
                           ipu_mpi_describe(&peers->mpi, error, text, sizeof(text)));
        }
        atomic_store(&peers->carried_ns, ipu_now_ns());
        atomic_store(&peers->is_carried, false);
        goes_on = has_work(peers, false);
    }
}

void
ipu_peers_glance(ipu_peers *peers)
{
    if (peers->is_threaded &&
        ipu_now_ns() - atomic_load(&peers->carried_ns) > GLANCE_NS) {
        ipu__peers_carry(peers);
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
        ipu__peers_carry(peers);
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
        ipu__peers_carry(peers);
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
is_with(const ipu__errand *one, uint32_t process)
{
    bool is = process == IPU_ANY_PROCESS;
    for (uint32_t i = one->done; i < one->count; i++) {
        is |= one->processes[i] == process;
    }
    return is;
}

static void
list_processes(const ipu_peers *peers, const ipu__errand *one, char *text, size_t bytes)
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
    const ipu__errand *one = peers->errands;
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
