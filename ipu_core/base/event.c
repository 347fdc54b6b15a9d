/* SPDX-License-Identifier: MIT
 *
 * Rings of events, one for each thread that has something to write.
 *
 * A ring belongs to its thread: that alone writes it, moves `head`, and makes it anew
 * where a later recording began (`generation`) or wants another size. Others read: they
 * copy, look at `head` again, and drop what may have been overwritten meanwhile. The
 * words of an event are atomic, so that a torn one is dropped and harms nothing.
 *
 * The lock protects the list of rings, their memory, and who records. A ring with
 * events of the last recording outlives its thread until the next one starts; memory
 * comes from the heap, since rings outlive every context, too. In a forked child
 * nothing is recorded, and the rings of the parent's threads are gone.
 *
 * A thread's ring hangs on a key, as a _Thread_local of an extension module can be gone
 * when a detached thread still looks at it (see service.c). */
#define _GNU_SOURCE
#include "base/event.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/lock.h"

enum {
    WORDS = sizeof(ipu_event) / sizeof(uint64_t),
    KIND_BITS = 8,
    CLOCK_TRIALS = 200
};

_Static_assert(sizeof(ipu_event) == 32, "an event is four words");

typedef struct ring {
    struct ring *next;
    ipu_role role;
    int32_t number;
    uint64_t thread;
    uint64_t subject;            /* the thread's own */
    bool has_left;               /* the thread; under the lock */
    _Atomic uint32_t generation; /* of the recording that it is for */
    size_t capacity;             /* changes under the lock */
    _Atomic uint64_t *words;
    _Alignas(64) _Atomic uint64_t head; /* events written so far */
} ring;

atomic_uint ipu__event_mask;

static struct {
    ipu_lock lock; /* protects all below but `id` */
    ring *rings;
    size_t capacity;
    _Atomic uint32_t generation;
    _Atomic uint64_t first_step;
    _Atomic uint64_t end_step;
    _Atomic uint32_t id;
} recorder;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;

static void
free_ring(ring *r)
{
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    ipu_free(&ctx, (void *)r->words, r->capacity * sizeof(ipu_event));
    ipu_free(&ctx, r, sizeof(*r));
}

static bool
is_of_this_recording(const ring *r)
{
    return r->words != NULL &&
           atomic_load(&r->generation) == atomic_load(&recorder.generation);
}

/* Frees the rings of threads that are gone; with `all` also those with events. */
static void
free_left_locked(bool all)
{
    for (ring **link = &recorder.rings; *link != NULL;) {
        ring *r = *link;
        if (r->has_left && (all || !is_of_this_recording(r))) {
            *link = r->next;
            free_ring(r);
        } else {
            link = &r->next;
        }
    }
}

static void
leave(void *value)
{
    ring *r = value;
    ipu_lock_take(&recorder.lock);
    r->has_left = true;
    free_left_locked(false);
    ipu_lock_drop(&recorder.lock);
}

static void
forget_others(void *owner)
{
    const ring *own = pthread_getspecific(key);
    (void)owner;
    atomic_store(&ipu__event_mask, 0);
    for (ring *r = recorder.rings; r != NULL; r = r->next) {
        r->has_left = r != own;
    }
    free_left_locked(true);
}

static void
initialize(void)
{
    (void)pthread_key_create(&key, leave);
    ipu_lock_init(&recorder.lock, forget_others, NULL);
}

/* --- rings ------------------------------------------------------------------------ */

/* The calling thread's; NULL where there is no memory for one. */
static ring *
own_ring(void)
{
    pthread_once(&once, initialize);
    ring *r = pthread_getspecific(key);
    if (r != NULL) {
        return r;
    }
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    if (ipu_alloc(&ctx, sizeof(*r), &r) != IPU_OK) {
        return NULL;
    }
    r->thread = (uint64_t)syscall(SYS_gettid);
    if (pthread_setspecific(key, r) != 0) {
        free_ring(r);
        return NULL;
    }
    ipu_lock_take(&recorder.lock);
    r->next = recorder.rings;
    recorder.rings = r;
    ipu_lock_drop(&recorder.lock);
    return r;
}

/* Empty, and of the size that is wanted now. Not cleared: nobody reads past `head`.
 */
static bool
renew(ring *r)
{
    ipu_allocator heap = ipu_allocator_default();
    ipu_lock_take(&recorder.lock);
    if (r->capacity != recorder.capacity) {
        size_t bytes = recorder.capacity * sizeof(ipu_event);
        heap.resize(heap.state, (void *)r->words, r->capacity * sizeof(ipu_event), 0);
        r->words = heap.resize(heap.state, NULL, 0, bytes);
        r->capacity = r->words == NULL ? 0 : recorder.capacity;
    }
    atomic_store(&r->head, 0);
    atomic_store(&r->generation, atomic_load(&recorder.generation));
    ipu_lock_drop(&recorder.lock);
    return r->capacity > 0;
}

/* --- writing ---------------------------------------------------------------------- */

void
ipu_event_note(ipu_event_kind kind, uint64_t subject, uint64_t begin_ns,
               uint64_t end_ns, uint32_t a, uint32_t b)
{
    if (begin_ns == 0 || !ipu_event_is_on(kind)) {
        return;
    }
    ring *r = own_ring();
    if (r == NULL) {
        return;
    }
    uint32_t generation =
        atomic_load_explicit(&recorder.generation, memory_order_relaxed);
    if ((atomic_load_explicit(&r->generation, memory_order_relaxed) != generation ||
         r->capacity == 0) &&
        !renew(r)) {
        return;
    }
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    _Atomic uint64_t *words = &r->words[head % r->capacity * WORDS];
    uint64_t length = end_ns > begin_ns ? end_ns - begin_ns : 0;
    uint64_t values[WORDS] = {begin_ns, length << KIND_BITS | kind, subject};
    ipu_event last = {.a = a, .b = b};
    memcpy(&values[3], &last.a, sizeof(values[3]));
    /* released: a reader of a word of this event then reads at least this head */
    for (int i = 0; i < WORDS; i++) {
        atomic_store_explicit(&words[i], values[i], memory_order_release);
    }
    atomic_store_explicit(&r->head, head + 1, memory_order_release);
}

void
ipu_event_set_subject(uint64_t subject)
{
    ring *r = own_ring();
    if (r != NULL) {
        r->subject = subject;
    }
}

uint64_t
ipu_event_subject(void)
{
    const ring *r = own_ring();
    return r == NULL ? 0 : r->subject;
}

void
ipu_event_name_thread(ipu_role role, int32_t number)
{
    ring *r = own_ring();
    if (r != NULL) {
        ipu_lock_take(&recorder.lock);
        r->role = role;
        r->number = number;
        ipu_lock_drop(&recorder.lock);
    }
}

uint32_t
ipu_event_new_id(void)
{
    return atomic_fetch_add(&recorder.id, 1) + 1;
}

/* --- recording -------------------------------------------------------------------- */

ipu_status
ipu_recorder_start(ipu_ctx *ctx, size_t events, uint64_t first_step,
                   uint64_t end_step)
{
    pthread_once(&once, initialize);
    IPU_FAIL_IF(ctx, events == 0 || events > SIZE_MAX / sizeof(ipu_event), VALUE,
                "a recorder keeps at least one event of each thread, not %zu", events);
    ipu_lock_take(&recorder.lock);
    bool was_on = atomic_load(&ipu__event_mask) != 0;
    if (!was_on) {
        free_left_locked(true);
        recorder.capacity = events;
        atomic_fetch_add(&recorder.generation, 1);
        atomic_store(&recorder.first_step, first_step);
        atomic_store(&recorder.end_step, end_step);
        atomic_store(&ipu__event_mask, (1U << IPU_EVENT_KIND_COUNT) - 1);
    }
    ipu_lock_drop(&recorder.lock);
    IPU_FAIL_IF(ctx, was_on, FAILED_PRECONDITION,
                "a profile is being recorded already; only one can be at a time");
    return IPU_OK;
}

void
ipu_recorder_stop(void)
{
    atomic_store(&ipu__event_mask, 0);
}

uint32_t
ipu_recorder_generation(void)
{
    return atomic_load(&recorder.generation);
}

bool
ipu_recorder_has_step(uint64_t step)
{
    return step >= atomic_load_explicit(&recorder.first_step, memory_order_relaxed) &&
           step < atomic_load_explicit(&recorder.end_step, memory_order_relaxed);
}

/* --- reading ---------------------------------------------------------------------- */

static ipu_status
copy_ring_locked(ipu_ctx *ctx, const ring *r, ipu_track *track)
{
    uint64_t head = atomic_load_explicit(&r->head, memory_order_acquire);
    uint64_t kept = head < r->capacity ? head : r->capacity;
    uint64_t first = head - kept;
    track->role = r->role;
    track->number = r->number;
    track->thread = r->thread;
    IPU_TRY(ipu_alloc(ctx, (size_t)kept * sizeof(ipu_event), &track->events));
    track->room = (size_t)kept;
    for (uint64_t i = first; i < head; i++) {
        const _Atomic uint64_t *words = &r->words[i % r->capacity * WORDS];
        uint64_t values[WORDS];
        for (int w = 0; w < WORDS; w++) {
            values[w] = atomic_load_explicit(&words[w], memory_order_acquire);
        }
        memcpy(&track->events[i - first], values, sizeof(values));
    }
    /* The thread may be writing event `now`, in place of event now - capacity. */
    uint64_t now = atomic_load_explicit(&r->head, memory_order_relaxed);
    uint64_t whole = now + 1 > r->capacity ? now + 1 - r->capacity : 0;
    bool is_quiet = now == head && atomic_load(&ipu__event_mask) == 0;
    uint64_t torn = is_quiet || whole <= first ? 0 : whole - first;
    torn = torn < kept ? torn : kept;
    track->count = (size_t)(kept - torn);
    track->lost = first + torn;
    if (torn > 0) {
        memmove(track->events, track->events + torn, track->count * sizeof(ipu_event));
    }
    return IPU_OK;
}

static uint64_t
measure_clock_ns(void)
{
    uint64_t start = ipu_now_ns();
    for (int i = 0; i < CLOCK_TRIALS; i++) {
        (void)ipu_now_ns();
    }
    return (ipu_now_ns() - start) / CLOCK_TRIALS;
}

static ipu_status
take_locked(ipu_ctx *ctx, ipu_recording *out)
{
    size_t count = 0;
    for (const ring *r = recorder.rings; r != NULL; r = r->next) {
        count += is_of_this_recording(r);
    }
    IPU_TRY(ipu_alloc(ctx, count * sizeof(ipu_track), &out->tracks));
    out->room = count;
    for (const ring *r = recorder.rings; r != NULL; r = r->next) {
        if (is_of_this_recording(r)) {
            IPU_TRY(copy_ring_locked(ctx, r, &out->tracks[out->count++]));
        }
    }
    return IPU_OK;
}

ipu_status
ipu_recording_take(ipu_ctx *ctx, ipu_recording *out)
{
    pthread_once(&once, initialize);
    *out = (ipu_recording){.clock_ns = measure_clock_ns()};
    ipu_lock_take(&recorder.lock);
    ipu_status status = take_locked(ctx, out);
    ipu_lock_drop(&recorder.lock);
    if (status != IPU_OK) {
        ipu_recording_free(ctx, out);
    }
    return status;
}

void
ipu_recording_free(ipu_ctx *ctx, ipu_recording *recording)
{
    for (size_t i = 0; i < recording->count; i++) {
        const ipu_track *track = &recording->tracks[i];
        ipu_free(ctx, track->events, track->room * sizeof(ipu_event));
    }
    ipu_free(ctx, recording->tracks, recording->room * sizeof(ipu_track));
    *recording = (ipu_recording){0};
}
