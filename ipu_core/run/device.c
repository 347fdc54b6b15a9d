/* SPDX-License-Identifier: MIT
 *
 * The device: tables of variables and queues, and who may touch them when.
 *
 * One mutex guards the tables and three facts: a program has the device (`running`), it
 * is inside a step (`in_step`), and hosts wait for a boundary (`arrived` and `served`
 * count them). A host thread does its copy under the mutex, as soon as no step is on
 * its way. A program that finds hosts waiting at a boundary leaves the step, lets those
 * through that had arrived by then, and goes on. Hosts that come later wait for the
 * next boundary, so that hosts which poll cannot stop a program.
 *
 * A variable has a block for each replica that was ever bound to it, 64-byte aligned
 * and with the slack that kernels may read after a matrix; of a variable that replicas
 * share out, for each of its parts. Blocks move only where a run that begins, or a host
 * between runs, makes parts of a whole or a whole of parts.
 * Variables begin at different places of a page, since those whose elements share a
 * place disturb each other in the cache when one update goes through both. Removing a
 * variable never waits: while a step is on its way the memory is kept on a list until
 * the next boundary.
 *
 * A variable lies by rows, or in panels (core/kernel.h) where the last program that
 * used it wanted it so, and stays in them when that ends, stops or fails. Hosts know
 * rows alone: what they read and write is changed on its way.
 *
 * Memory of variables and tables comes from the allocator of the context that created
 * the device. After fork() the child finds the device idle (base/lock.h). */
#define _GNU_SOURCE
#include "run/device_impl.h"

#include <inttypes.h>
#include <string.h>

#include "base/service.h"
#include "run/run_impl.h"

enum {
    PAGE_BYTES = 4096,
    PLACE_STEP = 39 * IPU_BUFFER_ALIGNMENT, /* odd cache lines: all places of a page */
    LOOKS = 5 /* as often one sees a program wait for the same element */
};

#define RUNS_ANOTHER "runs another one"

typedef struct copy {
    char *block;
    char *data;            /* in it */
    int64_t panel_columns; /* of the panels that it lies in; 0: by rows */
} copy;

typedef struct variable {
    int64_t id;
    ipu_type type;
    size_t bytes;
    ipu__parts parts;   /* that copies are */
    size_t copy_bytes;  /* of a copy */
    size_t block_bytes; /* with slack, and room for its place in a page */
    size_t place;       /* where in a page it begins; smaller ones: anywhere */
    uint32_t copy_count;
    copy *copies; /* by replica */
} variable;

typedef struct queue_entry {
    int64_t id;
    ipu_resource_kind kind;
    void *queue;
    bool is_in_use;
} queue_entry;

struct ipu_device {
    int32_t ipus;
    ipu_lock lock; /* protects all below but the atomics */
    pthread_cond_t changed;
    bool running;
    pthread_t runs_on; /* while it runs: the thread */
    bool in_step;
    uint64_t arrived;
    uint64_t served;
    atomic_int waiting; /* hosts; read without the lock at every boundary */
    _Atomic uint64_t generation;
    atomic_bool has_new_random; /* seed and step change at the next boundary */
    ipu_device_random new_random;
    ipu_peers *peers;      /* NULL: it is this process's alone */
    uint64_t seed;         /* the run's while one has the device */
    _Atomic uint64_t step; /* the same */
    int64_t next_id;
    uint64_t last_runner;
    _Atomic uint64_t runners;
    ipu_allocator allocator;
    IPU_ARRAY(variable) variables; /* by id */
    IPU_ARRAY(variable) removed;   /* memory that a step may still use */
    IPU_ARRAY(queue_entry) queues;
    _Atomic size_t variable_bytes;
    _Atomic size_t placed; /* variables, so far */
    bool has_panels;       /* some variable was in panels once */
};

/* A forked child has none of the threads that ran a program or waited. Memory that a
 * step had begun to write stays as it was then. */
static void
forget_threads(void *owner)
{
    ipu_device *device = owner;
    ipu_cond_init(&device->changed);
    device->running = false;
    device->in_step = false;
    device->arrived = 0;
    device->served = 0;
    atomic_store(&device->waiting, 0);
    device->last_runner = IPU__NO_RUNNER; /* copies may differ */
    for (size_t i = 0; i < device->queues.count; i++) {
        device->queues.items[i].is_in_use = false;
    }
}

ipu_status
ipu_device_create(ipu_ctx *ctx, int32_t ipus, ipu_device **out)
{
    *out = NULL;
    IPU_FAIL_IF(ctx, ipus < 1 || ipus > 4096, VALUE,
                "the number of IPUs must be from 1 to 4096, but got %" PRId32, ipus);
    ipu_device *device;
    IPU_TRY(ipu_alloc(ctx, sizeof(*device), &device));
    device->ipus = ipus;
    device->allocator = ctx->allocator;
    ipu_lock_init(&device->lock, forget_threads, device);
    ipu_cond_init(&device->changed);
    *out = device;
    return IPU_OK;
}

/* Tables and blocks have the allocator of the device, which may be another one than
 * that of the caller's context. */
static void
free_memory(ipu_device *device, const variable *v)
{
    ipu_ctx own;
    ipu_ctx_init(&own, device->allocator);
    for (uint32_t i = 0; i < v->copy_count; i++) {
        ipu_free(&own, v->copies[i].block, v->block_bytes);
    }
    ipu_free(&own, v->copies, v->copy_count * sizeof(copy));
}

static char *
place_in(char *block, const variable *v)
{
    if (v->copy_bytes < PAGE_BYTES) {
        return block;
    }
    size_t begin = (uintptr_t)block % PAGE_BYTES;
    return block + (v->place + PAGE_BYTES - begin) % PAGE_BYTES;
}

/* Makes blocks for `count` replicas. After a failure those that are there stay. */
static ipu_status
make_copies(ipu_ctx *ctx, ipu_device *device, variable *v, uint32_t count)
{
    ipu_ctx own;
    ipu_ctx_init(&own, device->allocator);
    while (v->copy_count < count) {
        char *block = NULL;
        ipu_status status = ipu_alloc(&own, v->block_bytes, &block);
        if (status == IPU_OK) {
            status = ipu_resize(&own, &v->copies, v->copy_count * sizeof(copy),
                                (v->copy_count + 1) * sizeof(copy));
        }
        if (status != IPU_OK) {
            ipu_free(&own, block, v->block_bytes);
            IPU_FAIL(ctx, OUT_OF_MEMORY, "%s", own.message);
        }
        ipu_pages_share(block, v->block_bytes);
        v->copies[v->copy_count++] = (copy){block, place_in(block, v), 0};
        atomic_fetch_add(&device->variable_bytes, v->block_bytes);
    }
    return IPU_OK;
}

static void
free_removed_locked(ipu_device *device)
{
    for (size_t i = 0; i < device->removed.count; i++) {
        free_memory(device, &device->removed.items[i]);
    }
    device->removed.count = 0;
}

void
ipu_device_free(ipu_ctx *ctx, ipu_device *device)
{
    if (device == NULL) {
        return;
    }
    free_removed_locked(device);
    for (size_t i = 0; i < device->variables.count; i++) {
        free_memory(device, &device->variables.items[i]);
    }
    ipu_ctx own;
    ipu_ctx_init(&own, device->allocator);
    IPU_ARRAY_FREE(&own, &device->variables);
    IPU_ARRAY_FREE(&own, &device->removed);
    IPU_ARRAY_FREE(&own, &device->queues);
    ipu_lock_destroy(&device->lock);
    pthread_cond_destroy(&device->changed);
    ipu_free(ctx, device, sizeof(*device));
}

void
ipu_device_set_peers(ipu_device *device, ipu_peers *peers)
{
    device->peers = peers;
}

ipu_peers *
ipu__device_peers(const ipu_device *device)
{
    return device->peers;
}

uint32_t
ipu_device_all_ipus(const ipu_device *device)
{
    uint32_t processes = device->peers == NULL ? 1 : ipu_peers_count(device->peers);
    return processes * (uint32_t)device->ipus;
}

int32_t
ipu_device_ipus(const ipu_device *device)
{
    return device->ipus;
}

/* --- who may touch the variables ------------------------------------------------- */

/* Whether the program that has the device waits for an element that the calling thread
 * has yet to make. */
static bool
awaits_caller_locked(const ipu_device *device, ipu_device_wait *wait)
{
    uint64_t root = ipu_service_root();
    bool found = false;
    for (size_t i = 0; root != 0 && i < device->queues.count && !found; i++) {
        const queue_entry *entry = &device->queues.items[i];
        uint64_t made;
        if (entry->is_in_use && entry->kind == IPU_RESOURCE_INFEED &&
            ipu_infeed_awaits(entry->queue, root, &made)) {
            found = true;
            wait->looks = made == wait->made ? wait->looks + 1 : 0;
            wait->made = made;
        }
    }
    wait->looks = found ? wait->looks : 0;
    return wait->looks >= LOOKS;
}

static ipu_status
check_wait_locked(ipu_ctx *ctx, const ipu_device *device, ipu_device_wait *wait,
                  const char *what)
{
    IPU_FAIL_IF(
        ctx, device->running && pthread_equal(device->runs_on, pthread_self()),
        FAILED_PRECONDITION,
        "A function of the host's that a program calls %s of the same device, "
        "which is at work until the function returns. Hand the function what it "
        "needs as an argument, and take out what it makes as its result",
        what);
    IPU_FAIL_IF(ctx, awaits_caller_locked(device, wait), FAILED_PRECONDITION,
                "A generator or a function of a data set that feeds a program %s while "
                "that program waits for its element: neither would ever go on. Do that "
                "between the runs of the program, or without the device",
                what);
    return IPU_OK;
}

ipu_status
ipu_device_check_wait(ipu_ctx *ctx, ipu_device *device, ipu_device_wait *wait)
{
    ipu_lock_take(&device->lock);
    ipu_status status = check_wait_locked(ctx, device, wait, RUNS_ANOTHER);
    ipu_lock_drop(&device->lock);
    return status;
}

static void
leave_host(ipu_device *device)
{
    atomic_fetch_sub(&device->waiting, 1);
    device->served++;
    pthread_cond_broadcast(&device->changed);
    ipu_lock_drop(&device->lock);
}

/* Takes the lock at a time when no step is on its way; it is not held on failure. */
static ipu_status
enter_host(ipu_ctx *ctx, ipu_device *device)
{
    ipu_device_wait wait = {0};
    ipu_status status = IPU_OK;
    ipu_lock_take(&device->lock);
    device->arrived++;
    atomic_fetch_add(&device->waiting, 1);
    while (device->in_step && status == IPU_OK) {
        if (!ipu_ctx_wait(ctx, &device->lock, &device->changed)) {
            status = ipu_ctx_fail(ctx, IPU_STATUS_CANCELLED,
                                  "interrupted while waiting for the end of a step");
        } else if (device->in_step) {
            status =
                check_wait_locked(ctx, device, &wait, "reads or writes a variable");
        }
    }
    if (status != IPU_OK) {
        leave_host(device);
    }
    return status;
}

static void
take_new_random_locked(ipu_device *device)
{
    if (atomic_load(&device->has_new_random)) {
        device->seed = device->new_random.seed;
        atomic_store(&device->step, device->new_random.step);
        atomic_store(&device->has_new_random, false);
    }
}

ipu_status
ipu__device_begin(ipu_ctx *ctx, ipu_device *device, const int32_t *cancel)
{
    ipu_device_wait wait = {0};
    ipu_status status = IPU_OK;
    ipu_lock_take(&device->lock);
    while (device->running && status == IPU_OK) {
        status = check_wait_locked(ctx, device, &wait, RUNS_ANOTHER);
        if (ipu__is_cancelled(cancel)) {
            status = ipu_ctx_fail(ctx, IPU_STATUS_INTERRUPTED,
                                  "interrupted while another program was running");
        }
        if (status == IPU_OK) {
            ipu_lock_wait_for(&device->lock, &device->changed, IPU__CANCEL_POLL_NS);
        }
    }
    if (status == IPU_OK) {
        device->running = true;
        device->runs_on = pthread_self();
        device->in_step = true;
        take_new_random_locked(device);
    }
    ipu_lock_drop(&device->lock);
    return status;
}

void
ipu__device_end(ipu_device *device)
{
    ipu_lock_take(&device->lock);
    device->running = false;
    device->in_step = false;
    take_new_random_locked(device);
    free_removed_locked(device);
    pthread_cond_broadcast(&device->changed);
    ipu_lock_drop(&device->lock);
}

void
ipu__device_boundary(ipu_device *device)
{
    if (atomic_load(&device->waiting) == 0) {
        return;
    }
    ipu_lock_take(&device->lock);
    uint64_t arrived = device->arrived;
    device->in_step = false;
    free_removed_locked(device);
    pthread_cond_broadcast(&device->changed);
    while (device->served < arrived) {
        ipu_lock_wait(&device->lock, &device->changed);
    }
    device->in_step = true;
    ipu_lock_drop(&device->lock);
}

void
ipu__device_pause(ipu_device *device)
{
    ipu_lock_take(&device->lock);
    device->in_step = false;
    free_removed_locked(device);
    pthread_cond_broadcast(&device->changed);
    ipu_lock_drop(&device->lock);
}

void
ipu__device_resume(ipu_device *device)
{
    ipu_lock_take(&device->lock);
    device->in_step = true;
    ipu_lock_drop(&device->lock);
}

uint64_t
ipu__device_new_runner(ipu_device *device)
{
    return atomic_fetch_add(&device->runners, 1) + 1;
}

bool
ipu__device_is_changed(ipu_device *device, uint64_t runner)
{
    ipu_lock_take(&device->lock);
    bool is_changed = device->last_runner != runner;
    device->last_runner = runner;
    ipu_lock_drop(&device->lock);
    return is_changed;
}

uint64_t
ipu__device_generation(const ipu_device *device)
{
    return atomic_load(&device->generation);
}

/* --- variables ------------------------------------------------------------------- */

static size_t
part_elements(const variable *v, uint32_t parts)
{
    return ((size_t)ipu_shape_elements(&v->type.shape) + parts - 1) / parts;
}

static variable *
find_variable_locked(ipu_device *device, int64_t id)
{
    size_t low = 0;
    size_t high = device->variables.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (device->variables.items[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool is_there =
        low < device->variables.count && device->variables.items[low].id == id;
    return is_there ? &device->variables.items[low] : NULL;
}

static void
size_copies(variable *v, ipu__parts parts)
{
    v->parts = parts;
    v->copy_bytes = parts.count == 0 ? v->bytes
                                     : part_elements(v, parts.count) *
                                           ipu_dtype_bytes(v->type.dtype);
    v->block_bytes = ipu_buffer_round_up(v->copy_bytes) + IPU_SLACK_BYTES +
                     (v->copy_bytes >= PAGE_BYTES ? PAGE_BYTES : 0);
}

ipu_status
ipu_device_variable_add(ipu_ctx *ctx, ipu_device *device, const ipu_type *type,
                        int64_t *out_id)
{
    char text[128];
    *out_id = -1;
    IPU_TRY(ipu_type_check(ctx, type));
    IPU_FAIL_IF(ctx, !ipu_dtype_on_device(type->dtype), TYPE,
                "a variable of the device cannot be %s; devices have float32, "
                "float16, int32, int8, uint8 and bool: use one of these",
                ipu_type_print(type, text, sizeof(text)));
    variable v = {.type = *type, .bytes = ipu_type_bytes(type)};
    v.place = atomic_fetch_add(&device->placed, v.bytes >= PAGE_BYTES) * PLACE_STEP %
              PAGE_BYTES;
    size_copies(&v, (ipu__parts){0});
    IPU_TRY(make_copies(ctx, device, &v, 1));
    ipu_ctx own;
    ipu_ctx_init(&own, device->allocator);
    ipu_lock_take(&device->lock);
    ipu_status status = IPU_ARRAY_RESERVE(&own, &device->variables, 1);
    if (status == IPU_OK) { /* so that removing cannot fail */
        status = IPU_ARRAY_RESERVE(&own, &device->removed, device->variables.count + 1);
    }
    if (status == IPU_OK) {
        v.id = device->next_id++;
        device->variables.items[device->variables.count++] = v;
    }
    ipu_lock_drop(&device->lock);
    if (status != IPU_OK) {
        atomic_fetch_sub(&device->variable_bytes, v.block_bytes);
        free_memory(device, &v);
        IPU_FAIL(ctx, OUT_OF_MEMORY, "%s", own.message);
    }
    *out_id = v.id;
    return IPU_OK;
}

static void
remove_locked(ipu_device *device, variable *v)
{
    atomic_fetch_add(&device->generation, 1);
    atomic_fetch_sub(&device->variable_bytes, v->block_bytes * v->copy_count);
    device->removed.items[device->removed.count++] = *v;
    size_t at = (size_t)(v - device->variables.items);
    device->variables.count--;
    memmove(v, v + 1, (device->variables.count - at) * sizeof(*v));
    if (!device->in_step) {
        free_removed_locked(device);
    }
}

void
ipu_device_variable_remove(ipu_device *device, int64_t id)
{
    ipu_lock_take(&device->lock);
    variable *v = find_variable_locked(device, id);
    if (v != NULL) {
        remove_locked(device, v);
    }
    ipu_lock_drop(&device->lock);
}

/* What hosts see of a copy. */
static void
read_rows(const variable *v, const copy *from, void *out)
{
    const int64_t *dims = v->type.shape.dims;
    if (from->panel_columns > 0) {
        ipu_panels_unpack(out, (const float *)from->data, dims[0], dims[1],
                          from->panel_columns);
    } else {
        memcpy(out, from->data, v->bytes);
    }
}

static void
write_rows(const variable *v, const copy *to, const void *data)
{
    const int64_t *dims = v->type.shape.dims;
    if (to->panel_columns > 0) {
        ipu_panels_pack((float *)to->data, data, dims[0], dims[1], to->panel_columns);
    } else {
        memcpy(to->data, data, v->bytes);
    }
}

/* --- parts ------------------------------------------------------------------------ */

/* The bytes of the variable that lie in copy number `i`, and where they begin in it. */
static size_t
own_bytes(const variable *v, uint32_t i, size_t *begin)
{
    *begin = v->parts.count == 0 ? 0 : (v->parts.first + i) * v->copy_bytes;
    *begin = *begin < v->bytes ? *begin : v->bytes;
    size_t rest = v->bytes - *begin;
    return rest < v->copy_bytes ? rest : v->copy_bytes;
}

static bool
is_apart(const variable *v)
{
    return v->parts.here < v->parts.count;
}

/* All of a variable, of which no part is in another process. */
static void
read_whole(const variable *v, void *out)
{
    for (uint32_t i = 0; i < v->copy_count && v->parts.count > 0; i++) {
        size_t begin;
        size_t bytes = own_bytes(v, i, &begin);
        ipu_copy_bytes((char *)out + begin, v->copies[i].data, bytes);
    }
    if (v->parts.count == 0) {
        read_rows(v, &v->copies[0], out);
    }
}

/* What is past the end repeats the last element. */
static void
write_whole(const variable *v, const void *data)
{
    size_t each = ipu_dtype_bytes(v->type.dtype);
    for (uint32_t i = 0; i < v->copy_count; i++) {
        size_t begin;
        size_t bytes = own_bytes(v, i, &begin);
        if (v->parts.count == 0) {
            write_rows(v, &v->copies[i], data);
            continue;
        }
        ipu_copy_bytes(v->copies[i].data, (const char *)data + begin, bytes);
        for (; bytes < v->copy_bytes; bytes += each) {
            memcpy(v->copies[i].data + bytes, (const char *)data + v->bytes - each,
                   each);
        }
    }
}

/* Gives the variable, whose value is `whole`, new blocks. */
static ipu_status
move_locked(ipu_ctx *ctx, ipu_device *device, variable *v, ipu__parts parts,
            const void *whole)
{
    variable moved = *v;
    moved.copies = NULL;
    moved.copy_count = 0;
    size_copies(&moved, parts);
    ipu_status status =
        make_copies(ctx, device, &moved, parts.count == 0 ? 1 : parts.here);
    const variable *gone = status == IPU_OK ? v : &moved;
    atomic_fetch_sub(&device->variable_bytes, gone->block_bytes * gone->copy_count);
    free_memory(device, gone);
    if (status == IPU_OK) {
        *v = moved;
        write_whole(v, whole);
        atomic_fetch_add(&device->generation, 1);
    }
    return status;
}

ipu__parts
ipu__device_parts(ipu_device *device, int64_t id)
{
    ipu_lock_take(&device->lock);
    const variable *v = find_variable_locked(device, id);
    ipu__parts parts = v == NULL ? (ipu__parts){0} : v->parts;
    ipu_lock_drop(&device->lock);
    return parts;
}

ipu_status
ipu__device_set_parts(ipu_ctx *ctx, ipu_device *device, int64_t id, ipu__parts parts,
                      const void *whole)
{
    ipu_ctx own;
    char *value = NULL;
    ipu_status status = IPU_OK;
    ipu_ctx_init(&own, device->allocator);
    ipu_lock_take(&device->lock);
    variable *v = find_variable_locked(device, id);
    size_t bytes = v == NULL ? 0 : v->bytes;
    if (v != NULL && whole == NULL) {
        status = ipu_alloc(&own, bytes, &value);
        if (status == IPU_OK) {
            read_whole(v, value);
        }
    }
    if (v != NULL && status == IPU_OK) {
        status = move_locked(&own, device, v, parts, whole == NULL ? value : whole);
    }
    ipu_lock_drop(&device->lock);
    ipu_free(&own, value, bytes);
    IPU_FAIL_IF(ctx, status != IPU_OK, OUT_OF_MEMORY, "%s", own.message);
    return IPU_OK;
}

bool
ipu_device_variable_is_apart(ipu_device *device, int64_t id)
{
    ipu__parts parts = ipu__device_parts(device, id);
    return parts.here < parts.count;
}

static ipu_status
set_layout(ipu_ctx *ctx, ipu_device *device, const variable *v, copy *c,
           int64_t panel_columns)
{
    ipu_ctx own;
    char *rows;
    if (c->panel_columns == panel_columns) {
        return IPU_OK;
    }
    ipu_ctx_init(&own, device->allocator);
    IPU_FAIL_IF(ctx, ipu_alloc(&own, v->bytes, &rows) != IPU_OK, OUT_OF_MEMORY, "%s",
                own.message);
    read_rows(v, c, rows);
    c->panel_columns = panel_columns;
    write_rows(v, c, rows);
    ipu_free(&own, rows, v->bytes);
    return IPU_OK;
}

ipu_status
ipu__device_set_layout(ipu_ctx *ctx, ipu_device *device, int64_t id,
                       int64_t panel_columns)
{
    ipu_status status = IPU_OK;
    if (panel_columns == 0 && !device->has_panels) { /* programs alone change it */
        return IPU_OK;
    }
    ipu_lock_take(&device->lock);
    device->has_panels = true;
    const variable *v = find_variable_locked(device, id);
    for (uint32_t i = 0; v != NULL && status == IPU_OK && i < v->copy_count; i++) {
        status = set_layout(ctx, device, v, &v->copies[i], panel_columns);
    }
    ipu_lock_drop(&device->lock);
    return status;
}

static ipu_status
no_variable(ipu_ctx *ctx, int64_t id)
{
    IPU_FAIL(ctx, NOT_FOUND,
             "the device has no variable %" PRId64
             " (any more): what held it is gone. Keep the Variable; in a function "
             "`v += x` puts a tensor in its place, where v.assign_add(x) is meant",
             id);
}

static ipu_status
check_whole(ipu_ctx *ctx, const variable *v)
{
    IPU_FAIL_IF(ctx, is_apart(v), FAILED_PRECONDITION,
                "variable %" PRId64 " lies in %" PRIu32
                " parts, which several processes "
                "share out: read it in all of them, while no program runs",
                v->id, v->parts.count);
    return IPU_OK;
}

/* The copy of a replica, checked; NULL with an error otherwise. */
static ipu_status
find_copy_locked(ipu_ctx *ctx, ipu_device *device, int64_t id, int32_t replica,
                 size_t bytes, variable **out)
{
    *out = find_variable_locked(device, id);
    if (*out == NULL) {
        return no_variable(ctx, id);
    }
    IPU_FAIL_IF(ctx, replica < 0 || replica >= device->ipus, VALUE,
                "replica must be from 0 to %" PRId32 ", but got %" PRId32,
                device->ipus - 1, replica);
    IPU_FAIL_IF(ctx, bytes != (*out)->bytes, INVALID_ARGUMENT,
                "variable %" PRId64 " has %zu bytes, but got %zu", id, (*out)->bytes,
                bytes);
    return IPU_OK;
}

ipu_status
ipu_device_variable_read(ipu_ctx *ctx, ipu_device *device, int64_t id, int32_t replica,
                         void *out, size_t bytes)
{
    variable *v;
    IPU_TRY(enter_host(ctx, device));
    ipu_status status = find_copy_locked(ctx, device, id, replica, bytes, &v);
    if (status == IPU_OK) {
        status = check_whole(ctx, v);
    }
    if (status == IPU_OK && bytes > 0 && v->parts.count > 0) {
        read_whole(v, out);
    } else if (status == IPU_OK && bytes > 0) {
        read_rows(v, &v->copies[(uint32_t)replica < v->copy_count ? replica : 0], out);
    }
    leave_host(device);
    return status;
}

ipu_status
ipu_device_variable_write(ipu_ctx *ctx, ipu_device *device, int64_t id,
                          const void *data, size_t bytes)
{
    variable *v;
    IPU_TRY(enter_host(ctx, device));
    ipu_status status = find_copy_locked(ctx, device, id, 0, bytes, &v);
    if (status == IPU_OK && is_apart(v) && !device->running) {
        /* the other processes get it where the next program begins */
        status = move_locked(ctx, device, v, (ipu__parts){0}, data);
        device->last_runner = IPU__NO_RUNNER;
    } else if (status == IPU_OK && bytes > 0) {
        write_whole(v, data);
    }
    leave_host(device);
    return status;
}

ipu_status
ipu_device_variable_take(ipu_ctx *ctx, ipu_device *device, int64_t id, void *out,
                         size_t bytes)
{
    variable *v;
    IPU_TRY(enter_host(ctx, device));
    ipu_status status = find_copy_locked(ctx, device, id, 0, bytes, &v);
    if (status == IPU_OK) {
        status = check_whole(ctx, v);
    }
    if (status == IPU_OK) {
        if (bytes > 0) {
            read_whole(v, out);
        }
        remove_locked(device, v);
    }
    leave_host(device);
    return status;
}

size_t
ipu_device_variable_bytes(const ipu_device *device)
{
    return atomic_load(&device->variable_bytes);
}

ipu_status
ipu__device_variable(ipu_ctx *ctx, ipu_device *device, int64_t id, int32_t replica,
                     uint32_t parts, ipu_type *type, void **data)
{
    ipu_status status = IPU_OK;
    *data = NULL;
    ipu_lock_take(&device->lock);
    variable *v = find_variable_locked(device, id);
    bool is_so = v != NULL && v->parts.count == parts;
    if (is_so && parts == 0) {
        status = make_copies(ctx, device, v, (uint32_t)replica + 1);
    }
    if (v != NULL) {
        *type = v->type;
    }
    if (is_so && status == IPU_OK) {
        *data = v->copies[replica].data;
    }
    ipu_lock_drop(&device->lock);
    return v == NULL ? no_variable(ctx, id) : status;
}

/* --- queues ---------------------------------------------------------------------- */

static const char *
kind_name(ipu_resource_kind kind)
{
    return kind == IPU_RESOURCE_INFEED ? "infeed"
           : kind == IPU_RESOURCE_HOST ? "the host's function"
                                       : "outfeed";
}

static queue_entry *
find_queue_locked(ipu_device *device, int64_t id)
{
    for (size_t i = 0; i < device->queues.count; i++) {
        if (device->queues.items[i].id == id) {
            return &device->queues.items[i];
        }
    }
    return NULL;
}

static ipu_status
add_queue(ipu_ctx *ctx, ipu_device *device, ipu_resource_kind kind, void *queue,
          int64_t *out_id)
{
    ipu_ctx own;
    *out_id = -1;
    ipu_ctx_init(&own, device->allocator);
    ipu_lock_take(&device->lock);
    queue_entry entry = {.id = device->next_id, .kind = kind, .queue = queue};
    ipu_status status = IPU_ARRAY_PUSH(&own, &device->queues, entry);
    if (status == IPU_OK) {
        *out_id = device->next_id++;
    }
    ipu_lock_drop(&device->lock);
    IPU_FAIL_IF(ctx, status != IPU_OK, OUT_OF_MEMORY, "%s", own.message);
    return IPU_OK;
}

ipu_status
ipu_device_infeed_add(ipu_ctx *ctx, ipu_device *device, ipu_infeed *queue,
                      int64_t *out_id)
{
    return add_queue(ctx, device, IPU_RESOURCE_INFEED, queue, out_id);
}

ipu_status
ipu_device_outfeed_add(ipu_ctx *ctx, ipu_device *device, ipu_outfeed *queue,
                       int64_t *out_id)
{
    return add_queue(ctx, device, IPU_RESOURCE_OUTFEED, queue, out_id);
}

ipu_status
ipu_device_host_add(ipu_ctx *ctx, ipu_device *device, const ipu_host_function *function,
                    int64_t *out_id)
{
    return add_queue(ctx, device, IPU_RESOURCE_HOST, (void *)(uintptr_t)function,
                     out_id);
}

/* The queue, unless it is gone or in use. */
static ipu_status
find_idle_locked(ipu_ctx *ctx, ipu_device *device, int64_t id, queue_entry **out)
{
    *out = find_queue_locked(device, id);
    IPU_FAIL_IF(ctx, *out == NULL, NOT_FOUND,
                "the device has no queue %" PRId64 " (any more)", id);
    IPU_FAIL_IF(ctx, (*out)->is_in_use && device->running, FAILED_PRECONDITION,
                "Cannot delete %s with id='%" PRId64 "' while in use by a running "
                "program; delete it when the run has ended",
                kind_name((*out)->kind), id);
    return IPU_OK;
}

ipu_status
ipu_device_queue_remove(ipu_ctx *ctx, ipu_device *device, int64_t id)
{
    queue_entry *entry;
    ipu_lock_take(&device->lock);
    ipu_status status = find_idle_locked(ctx, device, id, &entry);
    if (status == IPU_OK) {
        *entry = device->queues.items[--device->queues.count];
        atomic_fetch_add(&device->generation, 1);
    }
    ipu_lock_drop(&device->lock);
    return status;
}

ipu_status
ipu_device_queue_delete(ipu_ctx *ctx, ipu_device *device, int64_t id)
{
    queue_entry *entry;
    ipu_lock_take(&device->lock);
    ipu_status status = find_idle_locked(ctx, device, id, &entry);
    if (status == IPU_OK) {
        /* under the lock: no run can take hold of it meanwhile */
        if (entry->kind == IPU_RESOURCE_INFEED) {
            ipu_infeed_close(entry->queue);
        } else if (entry->kind == IPU_RESOURCE_OUTFEED) {
            ipu_outfeed_reset(entry->queue);
        }
    }
    ipu_lock_drop(&device->lock);
    return status;
}

ipu_status
ipu__device_queue(ipu_ctx *ctx, ipu_device *device, ipu_resource_kind kind, int64_t id,
                  void **out)
{
    *out = NULL;
    ipu_lock_take(&device->lock);
    const queue_entry *entry = find_queue_locked(device, id);
    if (entry != NULL && entry->kind == kind) {
        *out = entry->queue;
    }
    ipu_lock_drop(&device->lock);
    IPU_FAIL_IF(ctx, *out == NULL && kind == IPU_RESOURCE_INFEED, FAILED_PRECONDITION,
                IPU__NO_INFEED, id);
    IPU_FAIL_IF(ctx, *out == NULL && kind == IPU_RESOURCE_HOST, NOT_FOUND,
                "the host's function with id='%" PRId64 "' does not exist (any more)",
                id);
    IPU_FAIL_IF(ctx, *out == NULL, NOT_FOUND,
                "Outfeed with id='%" PRId64 "' does not exist (any more)", id);
    return IPU_OK;
}

void
ipu__device_queue_use(ipu_device *device, int64_t id, bool is_used)
{
    ipu_lock_take(&device->lock);
    queue_entry *entry = find_queue_locked(device, id);
    if (entry != NULL) {
        entry->is_in_use = is_used;
    }
    ipu_lock_drop(&device->lock);
}

/* --- random state ---------------------------------------------------------------- */

void
ipu_device_set_random(ipu_device *device, ipu_device_random state)
{
    ipu_lock_take(&device->lock);
    device->new_random = state;
    atomic_store(&device->has_new_random, true);
    if (!device->running) {
        take_new_random_locked(device);
    }
    ipu_lock_drop(&device->lock);
}

ipu_device_random
ipu_device_get_random(ipu_device *device)
{
    ipu_lock_take(&device->lock);
    ipu_device_random state = {device->seed, atomic_load(&device->step)};
    if (atomic_load(&device->has_new_random)) {
        state = device->new_random;
    }
    ipu_lock_drop(&device->lock);
    return state;
}

void
ipu__device_advance(ipu_device *device, uint64_t micro_batches)
{
    atomic_store_explicit(&device->step,
                          atomic_load_explicit(&device->step, memory_order_relaxed) +
                              micro_batches,
                          memory_order_relaxed);
    if (atomic_load(&device->has_new_random)) {
        ipu_lock_take(&device->lock);
        take_new_random_locked(device);
        ipu_lock_drop(&device->lock);
    }
}

void
ipu__device_adopt_random(ipu_device *device, ipu_device_random state)
{
    ipu_lock_take(&device->lock);
    device->new_random = state;
    atomic_store(&device->has_new_random, true);
    take_new_random_locked(device);
    ipu_lock_drop(&device->lock);
}

ipu_random_key
ipu__device_random(const ipu_device *device)
{
    return (ipu_random_key){
        .seed = device->seed,
        .step = atomic_load_explicit(&device->step, memory_order_relaxed)};
}
