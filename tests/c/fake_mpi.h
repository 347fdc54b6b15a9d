/* SPDX-License-Identifier: MIT
 *
 * Processes that are threads, joined by a hub or by a fake of MPI: as much of it as the
 * core calls. There a process is known by its communicator, and a message that was found
 * is over at the second look. */
#ifndef IPU_TESTS_FAKE_MPI_H
#define IPU_TESTS_FAKE_MPI_H

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "peers/peers.h"

enum { FAKE_REQUESTS = 4096, FAKE_BYTE = 77, FAKE_PROCESS = 100, FAKE_ERROR = 17 };

typedef struct fake_request {
    bool is_used;
    bool is_send;
    bool is_found;
    int from;
    int to;
    int tag;
    uint64_t order;
    void *data;
    int bytes;
} fake_request;

static struct {
    pthread_mutex_t lock;
    fake_request requests[FAKE_REQUESTS];
    int top; /* before the first that was never used */
    uint64_t count;
    uint64_t fails_at; /* the call of that number; 0: none */
    bool only_counts;  /* nothing is read or written */
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void
fake_reset(void)
{
    memset(fake.requests, 0, sizeof(fake.requests));
    fake.top = 0;
    fake.count = 0;
    fake.fails_at = 0;
    fake.only_counts = false;
}

static int
fake_begin(bool is_send, void *data, int bytes, int own, int other, int tag, int *out)
{
    int i = 0;
    pthread_mutex_lock(&fake.lock);
    bool fails = ++fake.count == fake.fails_at;
    while (fake.requests[i].is_used) {
        i++;
    }
    fake.top = i < fake.top ? fake.top : i + 1;
    if (!fails) {
        fake.requests[i] = (fake_request){.is_used = true,
                                          .is_send = is_send,
                                          .from = is_send ? own : other,
                                          .to = is_send ? other : own,
                                          .tag = tag,
                                          .order = fake.count,
                                          .data = data,
                                          .bytes = bytes};
    }
    pthread_mutex_unlock(&fake.lock);
    *out = i;
    return fails ? FAKE_ERROR : 0;
}

static fake_request *
fake_oldest(const fake_request *like, bool is_send)
{
    fake_request *found = NULL;
    for (int i = 0; i < fake.top; i++) {
        fake_request *one = &fake.requests[i];
        if (one->is_used && !one->is_found && one->is_send == is_send &&
            one->from == like->from && one->to == like->to && one->tag == like->tag &&
            (found == NULL || one->order < found->order)) {
            found = one;
        }
    }
    return found;
}

static int
fake_look(fake_request *one, int *is_over)
{
    pthread_mutex_lock(&fake.lock);
    bool fails = ++fake.count == fake.fails_at;
    *is_over = one->is_found;
    if (one->is_found) {
        one->is_used = false;
    } else {
        fake_request *send = fake_oldest(one, true);
        fake_request *receive = fake_oldest(one, false);
        if (send != NULL && receive != NULL) {
            send->is_found = receive->is_found = true;
            if (!fake.only_counts) {
                memcpy(receive->data, send->data, (size_t)send->bytes);
            }
        }
    }
    pthread_mutex_unlock(&fake.lock);
    return fails ? FAKE_ERROR : 0;
}

/* --- handles are numbers ----------------------------------------------------------- */

static int
fake_isend(void *data, int count, int type, int to, int tag, int comm, int *out)
{
    return type == FAKE_BYTE
               ? fake_begin(true, data, count, comm - FAKE_PROCESS, to, tag, out)
               : FAKE_ERROR;
}

static int
fake_irecv(void *data, int count, int type, int from, int tag, int comm, int *out)
{
    return type == FAKE_BYTE
               ? fake_begin(false, data, count, comm - FAKE_PROCESS, from, tag, out)
               : FAKE_ERROR;
}

static int
fake_test(int *request, int *is_over, void *status)
{
    memset(status, 0, 20);
    return fake_look(&fake.requests[*request], is_over);
}

/* --- handles are pointers ---------------------------------------------------------- */

static int
fake_isend_pointer(void *data, int count, void *type, int to, int tag, void *comm,
                   void **out)
{
    int i;
    int error =
        fake_isend(data, count, (int)(intptr_t)type, to, tag, (int)(intptr_t)comm, &i);
    *out = &fake.requests[i];
    return error;
}

static int
fake_irecv_pointer(void *data, int count, void *type, int from, int tag, void *comm,
                   void **out)
{
    int i;
    int error = fake_irecv(data, count, (int)(intptr_t)type, from, tag,
                           (int)(intptr_t)comm, &i);
    *out = &fake.requests[i];
    return error;
}

static int
fake_test_pointer(void **request, int *is_over, void *status)
{
    memset(status, 0, 24);
    return fake_look(*request, is_over);
}

static int
fake_error_string(int error, char *text, int *length)
{
    *length = snprintf(text, 256, "fault %d of the fake", error);
    return error == FAKE_ERROR ? 0 : 1;
}

static void
fake_join(ipu_peers *peers, bool has_pointers, bool is_threaded)
{
    ipu_mpi mpi = {.has_pointers = has_pointers,
                   .communicator = FAKE_PROCESS + (int)ipu_peers_process(peers),
                   .byte = FAKE_BYTE,
                   .error_string = (ipu_mpi_fn *)fake_error_string};
    if (has_pointers) {
        mpi.isend = (ipu_mpi_fn *)fake_isend_pointer;
        mpi.irecv = (ipu_mpi_fn *)fake_irecv_pointer;
        mpi.test = (ipu_mpi_fn *)fake_test_pointer;
    } else {
        mpi.isend = (ipu_mpi_fn *)fake_isend;
        mpi.irecv = (ipu_mpi_fn *)fake_irecv;
        mpi.test = (ipu_mpi_fn *)fake_test;
    }
    ipu_peers_use_mpi(peers, &mpi, is_threaded);
}

/* --- processes --------------------------------------------------------------------- */

/* Who carries their messages. */
typedef enum carrier { HUB, MPI, MPI_OF_POINTERS, MPI_OF_ONE_THREAD, CARRIERS } carrier;

enum { MOST_PROCESSES = 6 };

typedef struct circle circle;

/* The thread of a process that looks after MPI. */
typedef struct server {
    circle *all;
    ipu_peers *peers;
    pthread_t thread;
} server;

struct circle {
    uint32_t count;
    ipu_peers *peers[MOST_PROCESSES];
    ipu_hub *hub; /* NULL: MPI */
    server servers[MOST_PROCESSES];
    atomic_bool is_over;
};

static void *
serve_process(void *argument)
{
    const server *own = argument;
    while (!atomic_load(&own->all->is_over)) {
        ipu_peers_serve(own->peers, INT64_C(60) * 1000 * 1000 * 1000);
    }
    return NULL;
}

static void
make_circle(ipu_ctx *ctx, uint32_t count, carrier carrier, circle *all)
{
    *all = (circle){.count = count};
    for (uint32_t i = 0; i < count; i++) {
        CHECK_OK(ctx, ipu_peers_create(ctx, i, count, &all->peers[i]));
    }
    if (carrier == HUB) {
        CHECK_OK(ctx, ipu_peers_connect(ctx, all->peers, count, &all->hub));
        return;
    }
    fake_reset();
    for (uint32_t i = 0; i < count; i++) {
        server *one = &all->servers[i];
        *one = (server){.all = all, .peers = all->peers[i]};
        fake_join(one->peers, carrier == MPI_OF_POINTERS, carrier != MPI_OF_ONE_THREAD);
        CHECK(pthread_create(&one->thread, NULL, serve_process, one) == 0);
    }
}

static void
free_circle(ipu_ctx *ctx, circle *all)
{
    atomic_store(&all->is_over, true);
    for (uint32_t i = 0; i < all->count && all->hub == NULL; i++) {
        ipu_peers_wake(all->peers[i]);
        pthread_join(all->servers[i].thread, NULL);
    }
    for (uint32_t i = 0; i < all->count; i++) {
        ipu_peers_free(ctx, all->peers[i]);
    }
    ipu_hub_free(ctx, all->hub);
}

#endif
