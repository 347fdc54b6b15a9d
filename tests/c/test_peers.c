/* SPDX-License-Identifier: MIT
 *
 * Exchanges between processes, which here are threads: their ends, failures, faults of
 * MPI, messages of any size, waiting and giving up. */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "counter.h"
#include "fake_mpi.h"

#define LONG_NS (INT64_C(60) * 1000000000)
enum { CIRCLE = 3, TURNS = 200 };

typedef struct speaker {
    ipu_peers *peers;
    uint32_t wrong;
    ipu_status status;
} speaker;

/* Each tells the next one a number, which comes back after a round. */
static void *
go_around(void *argument)
{
    speaker *s = argument;
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    uint32_t own = ipu_peers_process(s->peers);
    for (uint32_t turn = 0; turn < TURNS && s->status == IPU_OK; turn++) {
        uint32_t out[2] = {turn, own};
        uint32_t in[2] = {0, 0};
        uint32_t before = (own + CIRCLE - 1) % CIRCLE;
        ipu_message sends[2] = {{(own + 1) % CIRCLE, &out[0], 4},
                                {(own + 1) % CIRCLE, &out[1], 4}};
        ipu_message receives[2] = {{before, &in[0], 4}, {before, &in[1], 4}};
        ipu_exchange exchange = {.channel = turn % 2,
                                 .sends = sends,
                                 .send_count = 2,
                                 .receives = receives,
                                 .receive_count = 2};
        ipu_peers_post(s->peers, &exchange);
        s->status = ipu_exchange_wait(&ctx, s->peers, &exchange, NULL, 0);
        s->wrong += in[0] != turn || in[1] != before;
    }
    return NULL;
}

static void
test_exchanges(ipu_ctx *ctx, carrier carrier)
{
    circle all;
    pthread_t threads[CIRCLE];
    speaker speakers[CIRCLE];
    make_circle(ctx, CIRCLE, carrier, &all);
    for (int i = 0; i < CIRCLE; i++) {
        speakers[i] = (speaker){.peers = all.peers[i]};
        pthread_create(&threads[i], NULL, go_around, &speakers[i]);
    }
    for (int i = 0; i < CIRCLE; i++) {
        pthread_join(threads[i], NULL);
        CHECK(speakers[i].status == IPU_OK && speakers[i].wrong == 0);
    }
    free_circle(ctx, &all);
}

/* Who waits for one that fails is told, and so is who comes later. */
static void
test_failures(ipu_ctx *ctx)
{
    circle all;
    char reason[900];
    int32_t number = 0;
    const int32_t cancel = 1;
    ipu_message receive = {1, &number, sizeof(number)};
    ipu_exchange exchange = {.receives = &receive, .receive_count = 1};
    make_circle(ctx, 2, HUB, &all);
    ipu_peers **peers = all.peers;
    CHECK(!ipu_peers_has_failed(peers[0], reason, sizeof(reason)));
    ipu_peers_post(peers[0], &exchange);
    CHECK(!ipu_exchange_is_over(&exchange));
    CHECK(ipu_exchange_wait(ctx, peers[0], &exchange, &cancel, 0) ==
          IPU_STATUS_INTERRUPTED);
    ipu_ctx_clear(ctx);
    ipu_peers_fail(peers[1], "out of %s", "cheese");
    ipu_peers_fail(peers[1], "later");
    CHECK(ipu_exchange_wait(ctx, peers[0], &exchange, NULL, 0) == IPU_STATUS_ABORTED);
    CHECK(strcmp(ctx->message, "process 1 failed: out of cheese") == 0);
    ipu_ctx_clear(ctx);
    ipu_peers_post(peers[1], &exchange);
    CHECK(ipu_exchange_result(ctx, peers[1], &exchange) == IPU_STATUS_ABORTED);
    ipu_ctx_clear(ctx);
    free_circle(ctx, &all);
    CHECK(ipu_peers_create(ctx, 2, 2, &peers[0]) == IPU_STATUS_VALUE);
    ipu_ctx_clear(ctx);
}

/* Whether the process is told when MPI fails at its n-th call; of those that two need for
 * an exchange each. */
static void
test_faults(ipu_ctx *ctx)
{
    enum { CALLS = 6 };
    for (uint64_t n = 1; n <= CALLS; n++) {
        ipu_peers *peers;
        int32_t number = 0;
        ipu_message message = {0, &number, sizeof(number)}; /* to itself */
        ipu_exchange exchange = {.sends = &message,
                                 .send_count = 1,
                                 .receives = &message,
                                 .receive_count = 1};
        fake_reset();
        fake.fails_at = n;
        fake.only_counts = true;
        CHECK_OK(ctx, ipu_peers_create(ctx, 0, 1, &peers));
        fake_join(peers, n % 2 == 0, true);
        ipu_peers_post(peers, &exchange);
        ipu_status status = ipu_exchange_wait(ctx, peers, &exchange, NULL, 0);
        CHECK((status == IPU_STATUS_ABORTED) == (fake.count >= n));
        if (status != IPU_OK) {
            CHECK(strcmp(ctx->message, "MPI failed: fault 17 of the fake") == 0);
            CHECK(ipu_peers_is_torn(peers)); /* MPI may still be at its memory */
        }
        ipu_ctx_clear(ctx);
        ipu_peers_free(ctx, peers);
    }
}

/* More bytes than an int counts go in pieces, in order; nobody looks at them here. */
static void
test_large_messages(ipu_ctx *ctx)
{
    static const size_t sizes[] = {0, IPU_MPI_MOST_BYTES, IPU_MPI_MOST_BYTES + 1,
                                   5 * IPU_MPI_MOST_BYTES};
    static const uint32_t pieces[] = {1, 1, 2, 5};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        ipu_peers *peers;
        ipu_errand errand;
        int32_t number = 0;
        ipu_message message = {1, &number, sizes[i]};
        ipu_exchange exchange = {.sends = &message, .send_count = 1};
        fake_reset();
        CHECK_OK(ctx, ipu_peers_create(ctx, 0, 2, &peers));
        fake_join(peers, false, true);
        ipu_peers_post(peers, &exchange);
        uint32_t count = 0;
        for (; fake.requests[count].is_used; count++) {
            size_t before = count * IPU_MPI_MOST_BYTES;
            CHECK(fake.requests[count].data == (void *)((char *)&number + before));
            CHECK((size_t)fake.requests[count].bytes ==
                  (count + 1 < pieces[i] ? IPU_MPI_MOST_BYTES : sizes[i] - before));
        }
        CHECK(count == pieces[i]);
        CHECK(!ipu_peers_find(peers, 0, 0, 0, &errand));
        CHECK(!ipu_peers_find(peers, 1, 0, LONG_NS, &errand));
        CHECK(!ipu_peers_find(peers, 1, 1, 0, &errand));
        CHECK(ipu_peers_find(peers, IPU_ANY_PROCESS, 0, 0, &errand));
        CHECK(errand.number == 1 && strcmp(errand.processes, "1") == 0);
        ipu_peers_fail(peers, "the end");
        CHECK(ipu_exchange_state_of(&exchange) == IPU_EXCHANGE_FAILED);
        ipu_peers_free(ctx, peers);
    }
}

static void *
serve_once(void *peers)
{
    ipu_peers_serve(peers, LONG_NS);
    return NULL;
}

/* A run that gives an exchange up may overwrite all but the bytes that are on their way,
 * whatever MPI is at. */
static void
test_giving_up(ipu_ctx *ctx)
{
    enum { MESSAGES = 64 };
    ipu_peers *peers;
    pthread_t runner;
    int32_t number = 0;
    const int32_t cancel = 1;
    ipu_message messages[MESSAGES];
    for (int i = 0; i < MESSAGES; i++) {
        messages[i] = (ipu_message){1, &number, sizeof(number)};
    }
    ipu_exchange exchange = {.sends = messages,
                             .send_count = MESSAGES,
                             .receives = messages,
                             .receive_count = MESSAGES};
    fake_reset();
    CHECK_OK(ctx, ipu_peers_create(ctx, 0, 2, &peers));
    fake_join(peers, false, false);
    pthread_create(&runner, NULL, serve_once, peers);
    ipu_peers_post(peers, &exchange);
    CHECK(ipu_exchange_wait(ctx, peers, &exchange, &cancel, 0) ==
          IPU_STATUS_INTERRUPTED);
    ipu_ctx_clear(ctx);
    ipu_peers_fail(peers, "given up");
    for (int i = 0; i < MESSAGES; i++) { /* the sanitizer does not see a memset */
        messages[i].process = 7;
    }
    exchange.send_count = 0;
    ipu_peers_wake(peers);
    pthread_join(runner, NULL);
    for (int i = 0; fake.requests[i].is_used; i++) {
        CHECK(fake.requests[i].from + fake.requests[i].to == 1);
    }
    ipu_peers_free(ctx, peers);
}

static void
note_heard(void *state)
{
    ++*(int *)state;
}

/* How long one waits for an exchange that does not end; one without messages has. */
static void
test_waiting(ipu_ctx *ctx)
{
    circle all;
    int32_t number = 0;
    int heard = 0;
    const int32_t cancel = 1;
    ipu_cancel cancelled = {0};
    ipu_message receive = {1, &number, sizeof(number)};
    ipu_exchange nothing = {.hear = note_heard, .hearer = &heard};
    ipu_exchange exchange = {
        .receives = &receive, .receive_count = 1, .hear = note_heard, .hearer = &heard};
    make_circle(ctx, 2, HUB, &all);
    ipu_peers *own = all.peers[0];
    CHECK(ipu_peers_process(own) == 0 && ipu_peers_count(own) == 2);
    ipu_peers_post(own, &nothing);
    CHECK(ipu_exchange_state_of(&nothing) == IPU_EXCHANGE_OVER && heard == 1);
    CHECK(ipu_peers_ended(own) == 1);
    CHECK_OK(ctx, ipu_exchange_wait(ctx, own, &nothing, &cancel, 0));
    ipu_peers_post(own, &exchange);
    uint64_t begin = ipu_now_ns();
    CHECK(ipu_exchange_wait(ctx, own, &exchange, &cancel, 30 * 1000000) ==
          IPU_STATUS_INTERRUPTED);
    CHECK(ipu_now_ns() - begin >= 30 * 1000000);
    ipu_ctx_clear(ctx);
    ctx->cancel = &cancelled;
    CHECK(ipu_exchange_wait(ctx, own, &exchange, &cancel, 0) == IPU_STATUS_INTERRUPTED);
    ipu_ctx_clear(ctx);
    cancelled.flag = 1;
    CHECK(ipu_exchange_wait(ctx, own, &exchange, &cancel, 0) == IPU_STATUS_CANCELLED);
    ctx->cancel = NULL;
    ipu_ctx_clear(ctx);
    CHECK(heard == 1);
    ipu_peers_fail(all.peers[1], "over");
    CHECK(heard == 2 && ipu_peers_ended(own) == 2);
    ipu_peers_post(own, &nothing);
    CHECK(ipu_exchange_state_of(&nothing) == IPU_EXCHANGE_OVER);
    CHECK(!ipu_peers_is_torn(own) && !ipu_peers_is_torn(all.peers[1]));
    free_circle(ctx, &all);
    CHECK(ipu_peers_create(ctx, 0, 0, &own) == IPU_STATUS_VALUE && own == NULL);
    ipu_ctx_clear(ctx);
}

/* Messages between threads wait for who receives them, by channel and process, and are
 * as long as the shorter of what is sent and what is wanted. */
static void
test_letters(ipu_ctx *ctx)
{
    static const char sent[4][5] = {"abcd", "efgh", "ijkl", "mnop"};
    char found[3][8];
    counter c;
    circle all;
    ipu_ctx own;
    ipu_ctx_init(&own, counting(&c));
    make_circle(&own, 3, HUB, &all);
    for (uint32_t i = 0; i < 4; i++) { /* 0 to 2, on two channels; 1 to 2 */
        ipu_message message = {2, (void *)sent[i], 4};
        ipu_exchange send = {.channel = i % 2, .sends = &message, .send_count = 1};
        ipu_peers_post(all.peers[i == 3 ? 1 : 0], &send);
        CHECK(ipu_exchange_state_of(&send) == IPU_EXCHANGE_OVER);
    }
    memset(found, '-', sizeof(found));
    ipu_message receives[3] = {{0, found[0], 2}, {1, found[1], 8}, {0, found[2], 4}};
    ipu_exchange last = {.channel = 1, .receives = &receives[1], .receive_count = 2};
    ipu_exchange first = {.channel = 0, .receives = receives, .receive_count = 1};
    ipu_peers_post(all.peers[2], &last);
    ipu_peers_post(all.peers[2], &first);
    CHECK(ipu_exchange_state_of(&last) == IPU_EXCHANGE_OVER);
    CHECK(ipu_exchange_state_of(&first) == IPU_EXCHANGE_OVER);
    CHECK(memcmp(found, "ab------mnop----efgh----", sizeof(found)) == 0);
    /* one letter is left; there is no memory for another one */
    char reason[900];
    ipu_message message = {2, (void *)sent[0], 4};
    ipu_exchange send = {.sends = &message, .send_count = 1};
    c.fail_at = atomic_load(&c.allocations) + 1;
    ipu_peers_post(all.peers[0], &send);
    CHECK(ipu_exchange_state_of(&send) == IPU_EXCHANGE_FAILED);
    for (int i = 0; i < 3; i++) {
        CHECK(ipu_peers_has_failed(all.peers[i], reason, sizeof(reason)));
        CHECK(strstr(reason, "out of memory") != NULL);
        CHECK((strstr(reason, "process 0 failed") != NULL) == (i > 0));
    }
    free_circle(&own, &all);
    CHECK(atomic_load(&c.live_bytes) == 0);
    ipu_ctx_clear(&own);
    ipu_peers_free(ctx, NULL);
    ipu_hub_free(ctx, NULL);
}

#ifndef __SANITIZE_THREAD__
/* A child cannot meet the others, and says so at once. */
static void
test_fork(ipu_ctx *ctx)
{
    ipu_peers *peers;
    int32_t number = 0;
    ipu_message message = {1, &number, sizeof(number)};
    ipu_exchange exchange = {.receives = &message, .receive_count = 1};
    ipu_exchange later = exchange;
    fake_reset();
    CHECK_OK(ctx, ipu_peers_create(ctx, 0, 3, &peers));
    fake_join(peers, false, true);
    ipu_peers_post(peers, &exchange);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        ipu_peers_post(peers, &later);
        bool fits =
            ipu_exchange_wait(ctx, peers, &later, NULL, 0) == IPU_STATUS_ABORTED &&
            strstr(ctx->message, "was forked from one that runs together with 2") !=
                NULL;
        _exit(fits && fake.count < 3 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(ipu_exchange_state_of(&exchange) == IPU_EXCHANGE_POSTED);
    ipu_peers_fail(peers, "the end");
    CHECK(ipu_peers_is_torn(peers));
    ipu_peers_free(ctx, peers);
}
#endif

int
main(void)
{
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    for (int i = 0; i < CARRIERS; i++) {
        test_exchanges(&ctx, (carrier)i);
    }
    test_failures(&ctx);
    test_faults(&ctx);
    test_large_messages(&ctx);
    test_giving_up(&ctx);
    test_waiting(&ctx);
    test_letters(&ctx);
#ifndef __SANITIZE_THREAD__
    test_fork(&ctx);
#endif
    return CHECK_DONE();
}
