/* SPDX-License-Identifier: MIT
 *
 * Work in parts that do not depend on each other, shared out to the threads of a pool. */
#include "base/slots.h"
#include "kernels/core/kernel_impl.h"

typedef struct items {
    ipu__items_fn *run;
    void *job;
    int64_t count;
    int64_t per_task;
} items;

static void
items_task(void *state, int32_t task, int32_t worker)
{
    const items *s = state;
    int64_t begin = task * s->per_task;
    (void)worker;
    s->run(s->job, begin, ipu__min(begin + s->per_task, s->count));
}

void
ipu__run_items(ipu_pool *pool, int64_t count, int64_t per_task, ipu__items_fn *run,
               void *job)
{
    items s = {run, job, count, per_task};
    if (count > 0) {
        ipu_pool_run(pool, (int32_t)ipu__ceil_div(count, per_task), items_task, &s);
    }
}

enum {
    USUAL_TASKS = 16, /* even where their scratch is more than ... */
    USUAL_BYTES = 1 << 24
};

typedef struct shared {
    ipu__parts_fn *run;
    void *job;
    int64_t parts;
    int32_t tasks;
    char *scratch;
    size_t bytes;
    ipu_slots pieces; /* of the scratch: as many as tasks */
} shared;

static int32_t
tasks_of(int64_t parts)
{
    return (int32_t)ipu__min(parts, IPU__MOST_TASKS);
}

static void
share_task(void *state, int32_t task, int32_t worker)
{
    shared *s = state;
    int piece = ipu_slots_take(&s->pieces, s->tasks);
    (void)worker;
    s->run(s->job, ipu__share_of(s->parts, s->tasks, task),
           ipu__share_of(s->parts, s->tasks, task + 1),
           s->scratch + (size_t)piece * s->bytes);
    ipu_slots_give_back(&s->pieces, piece);
}

void
ipu__share_out(ipu_pool *pool, int64_t parts, ipu__parts_fn *run, void *job,
               void *workspace, size_t scratch_bytes)
{
    shared s = {.run = run,
                .job = job,
                .parts = parts,
                .tasks = tasks_of(parts),
                .scratch = workspace,
                .bytes = ipu_buffer_round_up(scratch_bytes)};
    if (parts > 0) {
        ipu_pool_run(pool, s.tasks, share_task, &s);
    }
}

int64_t
ipu__share_most(size_t scratch_bytes)
{
    int64_t most = USUAL_BYTES / ipu__max((int64_t)scratch_bytes, 1);
    return ipu__max(ipu__min(most, IPU__MOST_TASKS), USUAL_TASKS);
}

size_t
ipu__share_bytes(int64_t parts, size_t scratch_bytes)
{
    return (size_t)tasks_of(parts) * ipu_buffer_round_up(scratch_bytes);
}
