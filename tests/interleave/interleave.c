/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "interleave.h"

#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_THREADS = 64,
    MOST_KEYS = 16,
    MOST_CHANGES = 8,
    MOST_CHOICES = 1 << 16,
    SPIN_READS = 12, /* in a row, without a write */
    SPIN_TURN = 64,  /* reads, when all spin */
    ROUGH_ONE_IN = 64,
    LAST_WORDS = 1 << 16, /* places that threads may need to end */
    NS_PER_SECOND = 1000 * 1000 * 1000,
    YIELD_NS = 10 * 1000, /* that pass where all give way, */
    LOOK_NS = 1000,       /* and where a thread looks at the clock */
    GIVE_WAY_NS = 1000 * 1000
};
static const uint64_t most_places = 3 * 1000 * 1000;

typedef enum waiting {
    RUNS,
    FOR_MUTEX,
    FOR_SIGNAL,
    FOR_THREAD,
    FOR_TIME,
    GONE, /* not joined yet */
    FREE  /* the slot is */
} waiting;

static const char *const waiting_names[] = {
    [RUNS] = "can run",          [FOR_MUTEX] = "waits for mutex",
    [FOR_SIGNAL] = "waits on",   [FOR_THREAD] = "joins thread",
    [FOR_TIME] = "sleeps until", [GONE] = "has ended",
};

typedef struct thread {
    sem_t turn;
    pthread_t handle;
    void *(*function)(void *);
    void *argument;
    bool is_detached;
    waiting waiting;
    const void *object; /* that it waits for */
    int64_t until;      /* -1: for ever */
    bool is_late;
    int64_t priority;
    uint32_t reads; /* in a row */
    bool spins;
    int64_t yields_ns; /* while it gives way: how much time passes where all do */
    void *place;
    void *values[MOST_KEYS];
} thread;

/* One choice of an enumeration: which of how many. */
typedef struct choice {
    uint8_t taken;
    uint8_t count;
} choice;

static struct {
    bool is_on;
    thread threads[MOST_THREADS];
    int count; /* slots that were ever used */
    uint64_t seed;
    uint64_t random;
    uint64_t places;
    int64_t now_ns;
    bool is_rough;
    uint32_t walk_one_in; /* 0: by priorities */
    int64_t lowest;       /* priority that the next change gives */
    int changes;
    uint64_t change_at[MOST_CHANGES];
    /* enumeration */
    bool enumerates;
    int preemptions_left;
    size_t depth;
    size_t path_count;
    choice path[MOST_CHOICES];
} s;

static __thread thread *self;
static void (*destructors[MOST_KEYS])(void *);
static int key_count;

/* --- numbers ---------------------------------------------------------------------- */

/* splitmix64 (Steele, Lea, Flood, OOPSLA 2014) */
static uint64_t
draw(uint64_t below)
{
    uint64_t z = (s.random += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return (z ^ (z >> 31)) % below;
}

/* --- failures --------------------------------------------------------------------- */

static void
fail(const char *what)
{
    fprintf(stderr, "%s, seed %llu, place %llu\n", what, (unsigned long long)s.seed,
            (unsigned long long)s.places);
    for (int i = 0; i < s.count; i++) {
        const thread *t = &s.threads[i];
        if (t->waiting != FREE) {
            fprintf(stderr, "  thread %d %s %p, at ", i, waiting_names[t->waiting],
                    t->object);
            fflush(stderr);
            backtrace_symbols_fd(&s.threads[i].place, 1, 2);
        }
    }
    abort();
}

/* --- whose turn ------------------------------------------------------------------- */

static int
candidates(thread **out)
{
    int count = 0;
    for (int pass = 0; pass < 2 && count == 0; pass++) {
        for (int i = 0; i < s.count; i++) {
            thread *t = &s.threads[i];
            if (t->waiting == RUNS && (pass == 1 || !t->spins)) {
                out[count++] = t;
            }
        }
    }
    return count;
}

/* Ends the waits whose time is over; who only looks now and then does not keep others
 * from going on. */
static void
tell_time(void)
{
    for (int i = 0; i < s.count; i++) {
        thread *t = &s.threads[i];
        bool is_timed =
            (t->waiting == FOR_SIGNAL || t->waiting == FOR_TIME) && t->until >= 0;
        if (is_timed && t->until <= s.now_ns) {
            t->is_late = t->waiting == FOR_SIGNAL;
            t->waiting = RUNS;
            t->priority = s.lowest--;
        }
    }
}

/* The earliest deadline, or any of them; -1: there is none. */
static int64_t
deadline(bool any)
{
    int64_t found = -1;
    uint64_t seen = 0;
    for (int i = 0; i < s.count; i++) {
        const thread *t = &s.threads[i];
        if ((t->waiting == FOR_SIGNAL || t->waiting == FOR_TIME) && t->until >= 0) {
            bool is_it = found < 0 || (any ? draw(++seen + 1) == 0 : t->until < found);
            found = is_it ? t->until : found;
        }
    }
    return found;
}

static thread *
enumerated(thread **all, int count)
{
    int own = -1;
    for (int i = 0; i < count; i++) {
        own = all[i] == self ? i : own;
    }
    if (own >= 0 && s.preemptions_left == 0) {
        return self;
    }
    if (count == 1) {
        return all[0];
    }
    if (s.depth == MOST_CHOICES) {
        fail("too many choices to enumerate");
    }
    if (s.depth == s.path_count) {
        s.path[s.path_count++] = (choice){0, (uint8_t)count};
    }
    if (s.path[s.depth].count != count) {
        fail("the same choices led elsewhere");
    }
    int taken = s.path[s.depth++].taken;
    if (own < 0) {
        return all[taken];
    }
    /* the first choice is to go on */
    int index = taken == 0 ? own : taken <= own ? taken - 1 : taken;
    s.preemptions_left -= taken != 0;
    return all[index];
}

static thread *
choose(void)
{
    thread *all[MOST_THREADS];
    int count = candidates(all);
    if (count > 0 && all[0]->spins) {
        s.now_ns += self->yields_ns;
    }
    if (count == 0 || (s.is_rough && draw(ROUGH_ONE_IN) == 0)) {
        int64_t until = deadline(count > 0);
        if (until < 0 && count == 0) {
            fail("deadlock");
        }
        if (until > s.now_ns) {
            s.now_ns = until;
        }
    }
    tell_time();
    count = candidates(all);
    if (all[0]->spins) { /* each gets on, and seldom is another one's turn */
        bool stays = self->waiting == RUNS && draw(SPIN_TURN) != 0;
        return stays ? self : all[draw((uint64_t)count)];
    }
    if (s.enumerates) {
        return enumerated(all, count);
    }
    thread *best = all[0];
    if (s.walk_one_in > 0) {
        bool stays = self->waiting == RUNS && !self->spins && draw(s.walk_one_in) != 0;
        return stays ? self : all[draw((uint64_t)count)];
    }
    for (int i = 1; i < count; i++) {
        best = all[i]->priority > best->priority ? all[i] : best;
    }
    return best;
}

static void
hand_over(thread *next)
{
    if (next != self) {
        sem_post(&next->turn);
        while (sem_wait(&self->turn) != 0) {}
    }
}

static void
place(void *caller)
{
    self->place = caller;
    if (++s.places > most_places) {
        fail("no end");
    }
    for (int i = 0; i < s.changes; i++) {
        if (s.change_at[i] == s.places) {
            self->priority = s.lowest--;
        }
    }
    hand_over(choose());
}

/* Others may see what it has written. */
static void
wrote(void)
{
    self->reads = 0;
    for (int i = 0; i < s.count; i++) {
        s.threads[i].spins = false;
    }
}

static void
wait_for(waiting waiting, const void *object, int64_t until, void *caller)
{
    self->waiting = waiting;
    self->object = object;
    self->until = until;
    self->is_late = false;
    place(caller);
}

static void
wake_one(waiting waiting, const void *object, bool all)
{
    thread *found[MOST_THREADS];
    int count = 0;
    for (int i = 0; i < s.count; i++) {
        thread *t = &s.threads[i];
        if (t->waiting == waiting && t->object == object) {
            found[count++] = t;
        }
    }
    int first = all || count == 0 ? 0 : (int)draw((uint64_t)count);
    for (int i = first; i < (all ? count : first + (count > 0)); i++) {
        found[i]->waiting = RUNS;
    }
}

static void
give_way(int64_t ns, void *caller)
{
    self->spins = true;
    self->priority = s.lowest--;
    self->yields_ns = ns;
    place(caller);
    self->yields_ns = 0;
}

void
interleave_give_way(void)
{
    if (s.is_on) {
        give_way(GIVE_WAY_NS, __builtin_return_address(0));
    }
}

/* --- mutexes and condition variables: their owner stands in their first bytes -------- */

typedef struct mutex {
    uint32_t owner; /* number + 1; 0: nobody */
} mutex;

static uint32_t
own_number(void)
{
    return (uint32_t)(self - s.threads) + 1;
}

static void
take(mutex *m, void *caller)
{
    while (m->owner != 0) {
        if (m->owner == own_number()) {
            fail("a thread takes a mutex that it has");
        }
        wait_for(FOR_MUTEX, m, -1, caller);
    }
    m->owner = own_number();
    wrote();
}

static void
drop(mutex *m)
{
    if (m->owner != own_number()) {
        fail("a thread drops a mutex that it has not");
    }
    m->owner = 0;
    wrote();
    wake_one(FOR_MUTEX, m, true);
}

int __real_pthread_mutex_lock(pthread_mutex_t *m);
int
__wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
    if (!s.is_on) {
        return __real_pthread_mutex_lock(m);
    }
    place(__builtin_return_address(0));
    take((mutex *)m, __builtin_return_address(0));
    return 0;
}

int __real_pthread_mutex_trylock(pthread_mutex_t *m);
int
__wrap_pthread_mutex_trylock(pthread_mutex_t *m)
{
    if (!s.is_on) {
        return __real_pthread_mutex_trylock(m);
    }
    place(__builtin_return_address(0));
    if (((mutex *)m)->owner != 0) {
        return EBUSY;
    }
    take((mutex *)m, __builtin_return_address(0));
    return 0;
}

int __real_pthread_mutex_unlock(pthread_mutex_t *m);
int
__wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
    if (!s.is_on) {
        return __real_pthread_mutex_unlock(m);
    }
    drop((mutex *)m);
    place(__builtin_return_address(0));
    return 0;
}

int __real_pthread_mutex_destroy(pthread_mutex_t *m);
int
__wrap_pthread_mutex_destroy(pthread_mutex_t *m)
{
    if (!s.is_on) {
        return __real_pthread_mutex_destroy(m);
    }
    if (((mutex *)m)->owner != 0) {
        fail("a mutex is destroyed that somebody has");
    }
    memset(m, 0xdb, sizeof(*m));
    return 0;
}

static int
wait_on(pthread_cond_t *c, pthread_mutex_t *m, int64_t until, void *caller)
{
    place(caller);
    drop((mutex *)m);
    if (!s.is_rough || draw(ROUGH_ONE_IN) != 0) { /* else it wakes for no reason */
        wait_for(FOR_SIGNAL, c, until, caller);
    }
    bool is_late = self->is_late;
    self->is_late = false;
    take((mutex *)m, caller);
    return is_late ? ETIMEDOUT : 0;
}

int __real_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int
__wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
    return s.is_on ? wait_on(c, m, -1, __builtin_return_address(0))
                   : __real_pthread_cond_wait(c, m);
}

int __real_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m,
                                  const struct timespec *until);
int
__wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m,
                              const struct timespec *until)
{
    return s.is_on ? wait_on(c, m, until->tv_sec * NS_PER_SECOND + until->tv_nsec,
                             __builtin_return_address(0))
                   : __real_pthread_cond_timedwait(c, m, until);
}

static int
signal_on(pthread_cond_t *c, bool all, void *caller)
{
    wrote();
    wake_one(FOR_SIGNAL, c, all);
    place(caller);
    return 0;
}

int __real_pthread_cond_signal(pthread_cond_t *c);
int
__wrap_pthread_cond_signal(pthread_cond_t *c)
{
    return s.is_on ? signal_on(c, false, __builtin_return_address(0))
                   : __real_pthread_cond_signal(c);
}

int __real_pthread_cond_broadcast(pthread_cond_t *c);
int
__wrap_pthread_cond_broadcast(pthread_cond_t *c)
{
    return s.is_on ? signal_on(c, true, __builtin_return_address(0))
                   : __real_pthread_cond_broadcast(c);
}

int __real_pthread_cond_destroy(pthread_cond_t *c);
int
__wrap_pthread_cond_destroy(pthread_cond_t *c)
{
    for (int i = 0; s.is_on && i < s.count; i++) {
        if (s.threads[i].waiting == FOR_SIGNAL && s.threads[i].object == c) {
            fail("a condition variable is destroyed on which a thread waits");
        }
    }
    return s.is_on ? 0 : __real_pthread_cond_destroy(c);
}

/* --- threads ---------------------------------------------------------------------- */

static void
run_destructors(void)
{
    for (int i = 0; i < key_count; i++) {
        void *value = self->values[i];
        self->values[i] = NULL;
        if (value != NULL && destructors[i] != NULL) {
            destructors[i](value);
        }
    }
}

static void *
run_thread(void *argument)
{
    self = argument;
    while (sem_wait(&self->turn) != 0) {}
    void *result = self->function(self->argument);
    run_destructors();
    wrote();
    self->waiting = self->is_detached ? FREE : GONE;
    wake_one(FOR_THREAD, self, true);
    s.places++;
    sem_post(&choose()->turn);
    return result;
}

static thread *
free_slot(void)
{
    int i = 0;
    while (i < s.count && s.threads[i].waiting != FREE) {
        i++;
    }
    if (i == MOST_THREADS) {
        fail("too many threads");
    }
    s.count += i == s.count;
    return &s.threads[i];
}

int __real_pthread_create(pthread_t *out, const pthread_attr_t *attributes,
                          void *(*function)(void *), void *argument);
int
__wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes,
                      void *(*function)(void *), void *argument)
{
    if (!s.is_on) {
        return __real_pthread_create(out, attributes, function, argument);
    }
    int state = PTHREAD_CREATE_JOINABLE;
    if (attributes != NULL) {
        pthread_attr_getdetachstate(attributes, &state);
    }
    thread *t = free_slot();
    memset(t, 0, sizeof(*t));
    sem_init(&t->turn, 0, 0);
    t->function = function;
    t->argument = argument;
    t->is_detached = state == PTHREAD_CREATE_DETACHED;
    t->priority = 1 + (int64_t)draw(1 << 20);
    int status = __real_pthread_create(&t->handle, attributes, run_thread, t);
    if (status != 0) {
        t->waiting = FREE;
        return status;
    }
    *out = t->handle;
    wrote();
    place(__builtin_return_address(0));
    return 0;
}

int __real_pthread_join(pthread_t handle, void **result);
int
__wrap_pthread_join(pthread_t handle, void **result)
{
    for (int i = 0; s.is_on && i < s.count; i++) {
        thread *t = &s.threads[i];
        if (t->waiting != FREE && !t->is_detached && pthread_equal(t->handle, handle)) {
            while (t->waiting != GONE) {
                wait_for(FOR_THREAD, t, -1, __builtin_return_address(0));
            }
            t->waiting = FREE;
        }
    }
    return __real_pthread_join(handle, result);
}

int
__wrap_pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
    if (key_count == MOST_KEYS) {
        return EAGAIN;
    }
    destructors[key_count] = destructor;
    *key = (pthread_key_t)key_count++;
    return 0;
}

/* Of threads that are not scheduled. */
static __thread void *other_values[MOST_KEYS];

int
__wrap_pthread_setspecific(pthread_key_t key, const void *value)
{
    (s.is_on ? self->values : other_values)[key] = (void *)(uintptr_t)value;
    return 0;
}

void *
__wrap_pthread_getspecific(pthread_key_t key)
{
    return (s.is_on ? self->values : other_values)[key];
}

/* --- time ------------------------------------------------------------------------- */

int __real_sched_yield(void);
int
__wrap_sched_yield(void)
{
    if (!s.is_on) {
        return __real_sched_yield();
    }
    give_way(YIELD_NS, __builtin_return_address(0));
    return 0;
}

int __real_clock_gettime(clockid_t clock, struct timespec *out);
int
__wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    if (!s.is_on) {
        return __real_clock_gettime(clock, out);
    }
    s.now_ns += LOOK_NS;
    *out = (struct timespec){s.now_ns / NS_PER_SECOND, s.now_ns % NS_PER_SECOND};
    return 0;
}

int __real_nanosleep(const struct timespec *time, struct timespec *left);
int
__wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    if (!s.is_on) {
        return __real_nanosleep(time, left);
    }
    int64_t until = s.now_ns + time->tv_sec * NS_PER_SECOND + time->tv_nsec;
    wait_for(FOR_TIME, NULL, until, __builtin_return_address(0));
    return 0;
}

int
__wrap_usleep(useconds_t us)
{
    return nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

/* --- atomics, by the names that compilers call for ThreadSanitizer -------------------- */

static void
before_atomic(void *caller)
{
    if (s.is_on) {
        place(caller);
    }
}

/* Others may see what it has written before it touches anything else. */
static void
after_atomic(bool has_written, void *caller)
{
    if (s.is_on && has_written) {
        wrote();
        place(caller);
    } else if (s.is_on) {
        self->spins = self->spins || ++self->reads >= SPIN_READS;
    }
}

#define EXCHANGE(bits, type, name, operation) \
    type __tsan_atomic##bits##_##name(volatile type *a, type v, int order); \
    type __tsan_atomic##bits##_##name(volatile type *a, type v, int order) \
    { \
        (void)order; \
        before_atomic(__builtin_return_address(0)); \
        type old = operation(a, v, __ATOMIC_SEQ_CST); \
        after_atomic(true, __builtin_return_address(0)); \
        return old; \
    }

#define ATOMICS(bits, type) \
    type __tsan_atomic##bits##_load(const volatile type *a, int order); \
    type __tsan_atomic##bits##_load(const volatile type *a, int order) \
    { \
        (void)order; \
        before_atomic(__builtin_return_address(0)); \
        type value = __atomic_load_n(a, __ATOMIC_SEQ_CST); \
        after_atomic(false, __builtin_return_address(0)); \
        return value; \
    } \
    void __tsan_atomic##bits##_store(volatile type *a, type v, int order); \
    void __tsan_atomic##bits##_store(volatile type *a, type v, int order) \
    { \
        (void)order; \
        before_atomic(__builtin_return_address(0)); \
        __atomic_store_n(a, v, __ATOMIC_SEQ_CST); \
        after_atomic(true, __builtin_return_address(0)); \
    } \
    EXCHANGE(bits, type, exchange, __atomic_exchange_n) \
    EXCHANGE(bits, type, fetch_add, __atomic_fetch_add) \
    EXCHANGE(bits, type, fetch_sub, __atomic_fetch_sub) \
    EXCHANGE(bits, type, fetch_and, __atomic_fetch_and) \
    EXCHANGE(bits, type, fetch_or, __atomic_fetch_or) \
    EXCHANGE(bits, type, fetch_xor, __atomic_fetch_xor) \
    type __tsan_atomic##bits##_compare_exchange_val(volatile type *a, type expected, \
                                                    type v, int order, int failure); \
    type __tsan_atomic##bits##_compare_exchange_val(volatile type *a, type expected, \
                                                    type v, int order, int failure) \
    { \
        (void)order; \
        (void)failure; \
        before_atomic(__builtin_return_address(0)); \
        bool is_done = __atomic_compare_exchange_n( \
            a, &expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
        after_atomic(is_done, __builtin_return_address(0)); \
        return expected; \
    }

ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)

void __tsan_init(void);
void
__tsan_init(void)
{
}

void __tsan_atomic_thread_fence(int order);
void
__tsan_atomic_thread_fence(int order)
{
    (void)order;
    before_atomic(__builtin_return_address(0));
}

/* --- runs ------------------------------------------------------------------------- */

static void
begin(uint64_t seed)
{
    s.seed = seed;
    s.random = seed;
    s.places = 0;
    s.now_ns = NS_PER_SECOND;
    s.count = 1;
    s.lowest = 0;
    s.changes = 0;
    s.walk_one_in = 0;
    s.is_rough = false;
    s.enumerates = false;
    self = &s.threads[0];
    memset(self, 0, sizeof(*self));
    sem_init(&self->turn, 0, 0);
    self->priority = 1 + (int64_t)draw(1 << 20);
    memcpy(self->values, other_values, sizeof(other_values));
    s.is_on = true;
}

void
interleave_begin(uint64_t seed, uint64_t length)
{
    begin(seed);
    if (seed == 0) {
        return; /* nobody is interrupted */
    }
    s.is_rough = draw(4) == 0;
    s.walk_one_in = draw(2) == 0 ? 1U << (1 + draw(6)) : 0;
    s.changes = (int)draw(MOST_CHANGES);
    for (int i = 0; i < s.changes; i++) {
        s.change_at[i] = 1 + draw(length + length / 2 + 1);
    }
}

void
interleave_enumerate_anew(void)
{
    s.path_count = 0;
    s.depth = 1; /* of what went before: nothing to go back to */
}

bool
interleave_enumerate(int preemptions)
{
    bool is_first = s.path_count == 0 && s.depth == 1;
    while (s.path_count > 0 &&
           s.path[s.path_count - 1].taken + 1 == s.path[s.path_count - 1].count) {
        s.path_count--;
    }
    if (s.path_count == 0 && !is_first) {
        return false;
    }
    if (s.path_count > 0) {
        s.path[s.path_count - 1].taken++;
    }
    begin(0);
    s.depth = 0;
    s.enumerates = true;
    s.preemptions_left = preemptions;
    return true;
}

interleave_report
interleave_end(void)
{
    interleave_report report = {.places = s.places,
                                .elapsed_ns = s.now_ns - NS_PER_SECOND,
                                .is_rough = s.is_rough};
    for (int turn = 0; turn < LAST_WORDS; turn++) {
        report.threads = 0;
        for (int i = 1; i < s.count; i++) {
            report.threads += s.threads[i].waiting != FREE;
        }
        if (report.threads == 0) {
            break;
        }
        interleave_give_way();
    }
    s.is_on = false;
    memcpy(other_values, self->values, sizeof(other_values));
    return report;
}

/* A forked child has one thread. */
static void
forget_others(void)
{
    for (int i = 0; s.is_on && i < s.count; i++) {
        if (&s.threads[i] != self) {
            s.threads[i].waiting = FREE;
        }
    }
}

__attribute__((constructor)) static void
prepare(void)
{
    pthread_atfork(NULL, NULL, forget_others); /* before the core's own handlers */
}
