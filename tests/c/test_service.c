/* SPDX-License-Identifier: MIT
 *
 * Services: threads that are stopped by their owner, by themselves, while they are
 * away, while they stop each other, and in a forked child. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/service.h"
#include "check.h"

static ipu_ctx ctx;

typedef struct job {
    atomic_bool is_away;    /* it may be left behind now */
    atomic_bool may_return; /* from there */
    atomic_bool was_left_behind;
    atomic_bool is_freed;
    bool goes_away;
    bool stops_itself;
    ipu_service *below; /* stopped at the end */
    ipu_service *self;
    atomic_bool has_self;
    ipu_lock lock;
    pthread_cond_t changed;
} job;

static void
wait_for(const atomic_bool *flag)
{
    while (!atomic_load(flag)) {
        usleep(1000);
    }
}

static void
run(void *state)
{
    job *j = state;
    ipu_ctx own;
    ipu_ctx_init(&own, ctx.allocator);
    own.cancel = ipu_service_cancel();
    if (j->stops_itself) {
        wait_for(&j->has_self);
        ipu_service_go_away();
        ipu_service_stop(j->self, NULL);
        ipu_service_come_back();
    } else if (j->goes_away) {
        ipu_service_go_away();
        ipu_service_go_away(); /* they nest */
        ipu_service_come_back();
        atomic_store(&j->is_away, true);
        wait_for(&j->may_return);
        ipu_service_come_back();
    } else {
        ipu_lock_take(&j->lock);
        while (ipu_ctx_wait(&own, &j->lock, &j->changed)) {}
        ipu_lock_drop(&j->lock);
    }
    if (j->below != NULL) {
        ipu_service_stop(j->below, NULL);
    }
    atomic_store(&j->was_left_behind, ipu_service_is_left_behind());
}

static void
wake(void *state)
{
    job *j = state;
    ipu_lock_take(&j->lock);
    pthread_cond_broadcast(&j->changed);
    ipu_lock_drop(&j->lock);
}

static void
free_job(void *state)
{
    atomic_store(&((job *)state)->is_freed, true);
}

static const ipu_service_work work = {run, wake, free_job};

static ipu_service *
start(job *j)
{
    ipu_service *service = NULL;
    ipu_lock_init(&j->lock, NULL, NULL);
    ipu_cond_init(&j->changed);
    CHECK_OK(&ctx, ipu_service_start(&ctx, &work, j, &service));
    CHECK(ipu_service_is_here(service));
    return service;
}

static void
end(job *j)
{
    wait_for(&j->is_freed);
    ipu_lock_destroy(&j->lock);
    pthread_cond_destroy(&j->changed);
}

static void
test_stop(void)
{
    job j = {0};
    ipu_service_stop(start(&j), NULL);
    CHECK(!atomic_load(&j.was_left_behind));
    end(&j);
    ipu_service_stop(NULL, NULL);
    CHECK(ipu_service_cancel() == NULL && !ipu_service_is_left_behind());
}

static void
test_stopped_by_itself(void)
{
    job j = {.stops_itself = true};
    j.self = start(&j);
    atomic_store(&j.has_self, true);
    end(&j);
    CHECK(atomic_load(&j.was_left_behind));
}

static void
test_left_behind(void)
{
    job j = {.goes_away = true};
    ipu_service *service = start(&j);
    wait_for(&j.is_away);
    ipu_service_stop(service, NULL);
    CHECK(!atomic_load(&j.is_freed));
    atomic_store(&j.may_return, true);
    end(&j);
    CHECK(atomic_load(&j.was_left_behind));
}

static job *to_release;
static int32_t polls;

/* The user presses Ctrl-C at the third look. */
static void
poll_thrice(ipu_cancel *cancel)
{
    cancel->flag = ++polls == 3;
}

static void
poll_and_release(ipu_cancel *cancel)
{
    (void)cancel;
    atomic_store(&to_release->may_return, true);
}

static void
test_patience(void)
{
    ipu_cancel cancel = {.poll = poll_thrice};
    job j = {.goes_away = true};
    ipu_service *service = start(&j);
    wait_for(&j.is_away);
    ipu_service_stop(service, &cancel);
    CHECK(polls == 3);
    atomic_store(&j.may_return, true);
    end(&j);
    CHECK(atomic_load(&j.was_left_behind));

    /* who waits without being cancelled sees the thread come back */
    job patient = {.goes_away = true};
    cancel = (ipu_cancel){.poll = poll_and_release};
    to_release = &patient;
    service = start(&patient);
    wait_for(&patient.is_away);
    ipu_service_stop(service, &cancel);
    CHECK(!atomic_load(&patient.was_left_behind));
    end(&patient);
}

/* One thread waits for another, which is away: both are left behind. */
static void
test_chain(void)
{
    job lower = {.goes_away = true};
    job upper = {0};
    upper.below = start(&lower);
    wait_for(&lower.is_away);
    ipu_service_stop(start(&upper), NULL);
    CHECK(!atomic_load(&lower.is_freed));
    end(&upper);
    atomic_store(&lower.may_return, true);
    end(&lower);
    CHECK(atomic_load(&upper.was_left_behind));
    CHECK(atomic_load(&lower.was_left_behind));
}

static void
test_fork(void)
{
    job j = {0};
    job away = {.goes_away = true};
    ipu_service *service = start(&j);
    ipu_service *other = start(&away);
    wait_for(&away.is_away);
    pid_t child = fork();
    if (child == 0) {
        bool fine = !ipu_service_is_here(service) && !ipu_service_is_here(other);
        ipu_service_stop(service, NULL);
        ipu_service_stop(other, NULL);
        _exit(fine ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    atomic_store(&away.may_return, true);
    ipu_service_stop(other, NULL);
    ipu_service_stop(service, NULL);
    end(&j);
    end(&away);
}

int
main(void)
{
    ipu_ctx_init(&ctx, ipu_allocator_default());
    test_stop();
    test_stopped_by_itself();
    test_left_behind();
    test_patience();
    test_chain();
    test_fork();
    CHECK(ctx.status == IPU_OK);
    return CHECK_DONE();
}
