/* SPDX-License-Identifier: MIT
 *
 * Threads are detached from the start, so none is ever joined: a flag says that one has
 * left. Each service has a lock of its own; no thread holds two of them. */
#define _GNU_SOURCE
#include "base/service.h"

#include <stdatomic.h>

#include "base/clock.h"

enum { POLL_NS = 20 * 1000 * 1000, MOMENT_NS = 100 * 1000 * 1000 };

struct ipu_service {
    ipu_service_work work;
    void *state;
    ipu_allocator allocator;
    ipu_cancel cancel;
    uint64_t root; /* the number of the service that it works for */
    ipu_lock lock; /* protects all below, and transitions of left_behind */
    pthread_cond_t changed;
    int32_t references;
    bool is_here;
    bool has_left;
    int32_t away; /* how many times it went and did not come back */
    atomic_bool left_behind;
};

/* The service of the calling thread. A key, as the C library takes a _Thread_local of
 * an extension module from a heap, and ThreadSanitizer does not see that it waits with
 * that until a detached thread is gone. */
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static _Atomic uint64_t last_number;

static void
make_key(void)
{
    (void)pthread_key_create(&key, NULL);
}

static ipu_service *
current_service(void)
{
    pthread_once(&key_once, make_key);
    return pthread_getspecific(key);
}

bool
ipu_ctx_wait(ipu_ctx *ctx, ipu_lock *lock, pthread_cond_t *cond)
{
    if (ctx->cancel == NULL) {
        ipu_lock_wait(lock, cond);
        return true;
    }
    (void)ipu_lock_wait_for(lock, cond, POLL_NS);
    ipu_lock_drop(lock);
    if (ctx->cancel->poll != NULL) {
        ctx->cancel->has_waited = true;
    }
    bool is_cancelled = ipu_ctx_is_cancelled(ctx);
    ipu_lock_take(lock);
    return !is_cancelled;
}

/* --- the thread ------------------------------------------------------------------ */

/* Only the thread that forked is in the child. */
static void
forget_thread(void *owner)
{
    ipu_service *service = owner;
    service->is_here = service == current_service();
    ipu_cond_init(&service->changed);
}

/* A thread that leaves drops its reference and says so in one step: an owner that
 * waited for it drops the last one. */
static void
drop_reference(ipu_service *service, bool leaves)
{
    ipu_lock_take(&service->lock);
    bool is_held = --service->references > 0;
    service->has_left = service->has_left || leaves;
    pthread_cond_broadcast(&service->changed);
    ipu_lock_drop(&service->lock);
    if (is_held) {
        return;
    }
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, service->allocator);
    if (service->work.free != NULL) {
        service->work.free(service->state);
    }
    ipu_lock_destroy(&service->lock);
    pthread_cond_destroy(&service->changed);
    ipu_free(&ctx, service, sizeof(*service));
}

static void *
serve(void *argument)
{
    ipu_service *service = argument;
    pthread_setspecific(key, service);
    service->work.run(service->state);
    pthread_setspecific(key, NULL);
    drop_reference(service, true);
    return NULL;
}

static bool
start_detached(ipu_service *service)
{
    pthread_t thread;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) {
        return false;
    }
    bool is_started =
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0 &&
        pthread_create(&thread, &attributes, serve, service) == 0;
    pthread_attr_destroy(&attributes);
    return is_started;
}

ipu_status
ipu_service_start(ipu_ctx *ctx, const ipu_service_work *work, void *state,
                  ipu_service **out)
{
    ipu_service *service;
    *out = NULL;
    IPU_TRY(ipu_alloc(ctx, sizeof(*service), &service));
    service->work = *work;
    service->state = state;
    service->allocator = ctx->allocator;
    service->is_here = true;
    service->references = 2;
    const ipu_service *parent =
        current_service(); /* the key is there before the thread */
    service->root =
        parent != NULL ? parent->root : atomic_fetch_add(&last_number, 1) + 1;
    ipu_lock_init(&service->lock, forget_thread, service);
    ipu_cond_init(&service->changed);
    if (!start_detached(service)) {
        service->work.free = NULL; /* the state stays the caller's */
        service->references = 1;
        drop_reference(service, true);
        IPU_FAIL(ctx, RESOURCE_EXHAUSTED, "no thread could be started");
    }
    *out = service;
    return IPU_OK;
}

bool
ipu_service_is_here(const ipu_service *service)
{
    return service->is_here;
}

ipu_cancel *
ipu_service_cancel(void)
{
    ipu_service *current = current_service();
    return current == NULL ? NULL : &current->cancel;
}

void
ipu_service_go_away(void)
{
    ipu_service *current = current_service();
    if (current != NULL) {
        ipu_lock_take(&current->lock);
        current->away++;
        ipu_lock_drop(&current->lock);
    }
}

void
ipu_service_come_back(void)
{
    ipu_service *current = current_service();
    if (current != NULL) {
        ipu_lock_take(&current->lock);
        current->away--;
        ipu_lock_drop(&current->lock);
    }
}

bool
ipu_service_is_left_behind(void)
{
    const ipu_service *current = current_service();
    return current != NULL && atomic_load(&current->left_behind);
}

uint64_t
ipu_service_root(void)
{
    const ipu_service *current = current_service();
    return current == NULL ? 0 : current->root;
}

/* --- the owner ------------------------------------------------------------------- */

/* Whether the waiting thread may leave the other one behind now. */
static bool
gives_up(ipu_cancel *cancel, bool is_at_home, uint64_t since_ns)
{
    if (is_at_home) {
        return ipu_service_is_left_behind();
    }
    return ipu_now_ns() - since_ns >= MOMENT_NS &&
           (cancel == NULL || ipu_cancel_is_set(cancel));
}

static void
wait_until_it_leaves(ipu_service *service, ipu_cancel *cancel)
{
    const ipu_service *current = current_service();
    bool is_at_home = current != NULL && current->away == 0;
    uint64_t since_ns = ipu_now_ns();
    ipu_service_go_away();
    ipu_lock_take(&service->lock);
    while (!service->has_left) {
        (void)ipu_lock_wait_for(&service->lock, &service->changed, POLL_NS);
        ipu_lock_drop(&service->lock); /* `cancel` may call Python */
        bool leaves_it = gives_up(cancel, is_at_home, since_ns);
        ipu_lock_take(&service->lock);
        if (leaves_it && service->away > 0) {
            atomic_store(&service->left_behind, true);
            break;
        }
    }
    ipu_lock_drop(&service->lock);
    ipu_service_come_back();
}

void
ipu_service_stop(ipu_service *service, ipu_cancel *cancel)
{
    if (service == NULL) {
        return;
    }
    __atomic_store_n(&service->cancel.flag, 1, __ATOMIC_RELAXED);
    service->work.wake(service->state);
    if (service == current_service()) {
        atomic_store(&service->left_behind, true);
    } else if (service->is_here) {
        wait_until_it_leaves(service, cancel);
    }
    drop_reference(service, false);
}
