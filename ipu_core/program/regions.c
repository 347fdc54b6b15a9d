/* SPDX-License-Identifier: MIT
 *
 * Regions: which kernels run without a barrier between them, see program.h. Each run of
 * kernels that nothing jumps into is put into a new order that keeps to what waits for
 * what, region after region. The first kernel that is ready decides the next one:
 *
 *   by rows    where another kernel can follow it by rows: all that follow by the same
 *              rows, however far down they stand, but those of which a part is long:
 *              they are rather cut otherwise, too
 *   by tasks   else: what is ready and small, or can be cut by rows. Small ones that
 *              wait for each other are a chain, which one thread runs
 *   alone      what is large and shares out its own work
 *
 * What stands between two kernels of a region comes after it, so values live longer:
 * a region takes kernels from a window, and no more than so many bytes.
 *
 * Lifetimes are those of whole regions (slab.c), so that no kernel writes where another
 * one of its region still reads. */
#include <stdlib.h>
#include <string.h>

#include "program/regions_impl.h"

enum {
    WINDOW = 256, /* instructions that a region looks at */
    CACHE_BYTES = 1 << 20,
    MOST_BYTES = 8 << 20, /* of a region's results, without variables */
    MOST_PARTS = 16,      /* of one instruction */
    BINS = 8              /* tasks are dealt to threads by equal numbers */
};

/* In nanoseconds of a core, roughly. */
typedef struct worth {
    double region; /* less is not worth a fork and join */
    double small;  /* what one thread does */
    double alone;  /* the same of kernels that cannot be cut by rows */
    double task;   /* how long one should take */
    double part;   /* by rows, if it takes longer the kernel shares out its own work */
} worth;

static const worth where_faster = {3000.0, 3000.0, 12000.0, 12000.0, 60000.0};
static const worth everywhere = {0.0, 10.0, 1e9, 10.0, 1e18};

enum { NO_CHAIN = 0 };
static const uint32_t BARRED = UINT32_MAX;

/* The open region's notes on an instruction. */
typedef struct mark {
    uint32_t region; /* that it waits for; numbers from 1 */
    uint32_t chain;  /* of that region, that it alone waits for; or BARRED */
} mark;

typedef struct builder {
    lowering *l;
    worth worth;
    ipu__dependence d;
    mark *marks;
    uint32_t *order; /* the new one: numbers of the run's instructions */
    uint32_t placed;
    uint32_t *ready; /* a heap: the lowest number first */
    uint32_t ready_count;
    uint32_t *aside; /* ready, but not for the open region */
    uint32_t aside_count;
    uint32_t *chains; /* per instruction: its chain in the open region */
    uint32_t region;  /* number of the open one */
    size_t bytes;     /* of its results */
} builder;

/* --- what is ready ---------------------------------------------------------------- */

static void
push_ready(builder *b, uint32_t item)
{
    uint32_t at = b->ready_count++;
    while (at > 0 && b->ready[(at - 1) / 2] > item) {
        b->ready[at] = b->ready[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    b->ready[at] = item;
}

static uint32_t
pop_ready(builder *b)
{
    uint32_t lowest = b->ready[0];
    uint32_t item = b->ready[--b->ready_count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child + 1 < b->ready_count && b->ready[child + 1] < b->ready[child]) {
            child++;
        }
        if (child >= b->ready_count || b->ready[child] >= item) {
            break;
        }
        b->ready[at] = b->ready[child];
        at = child;
    }
    b->ready[at] = item;
    return lowest;
}

/* --- kernels ---------------------------------------------------------------------- */

/* The second-level cache gives 64 bytes a nanosecond. */
static double
work_of(const builder *b, uint32_t item)
{
    ipu_cost cost = b->d.instructions[item].cost;
    double speed = cost.bytes < CACHE_BYTES ? 64.0 : 16.0;
    return cost.flops / 64.0 + cost.bytes / speed;
}

static bool
writes_variable(const builder *b, uint32_t item)
{
    const ipu_kernel_spec *spec = ipu__spec_of(&b->d, item);
    return (ipu_op_info_of(spec->op)->flags & IPU_OP_WRITES) != 0;
}

static size_t
result_bytes(const builder *b, uint32_t item)
{
    const ipu_kernel_spec *spec = ipu__spec_of(&b->d, item);
    size_t bytes = 0;
    for (uint32_t i = 0; i < spec->output_count && !writes_variable(b, item); i++) {
        bytes += ipu_type_bytes(&spec->outputs[i]);
    }
    return bytes;
}

/* Into how many parts it can be cut by rows. */
static int64_t
parts_of(const ipu_kernel_rows *rows)
{
    int64_t least = rows->least > 0 ? rows->least : 1;
    return rows->run == NULL ? 1 : rows->count / least;
}

static const ipu_kernel_rows *
rows_of(const builder *b, uint32_t item)
{
    return &ipu__spec_of(&b->d, item)->rows;
}

static bool
is_by_rows(const builder *b, uint32_t item)
{
    int64_t parts = parts_of(rows_of(b, item));
    return parts >= 2 && work_of(b, item) / (double)parts < b->worth.part;
}

/* --- one region ------------------------------------------------------------------- */

static void
open_region(builder *b)
{
    b->region++;
    b->bytes = 0;
    b->aside_count = 0;
}

static void
close_region(builder *b)
{
    for (uint32_t i = 0; i < b->aside_count; i++) {
        push_ready(b, b->aside[i]);
    }
    b->aside_count = 0;
}

/* Notes for those that wait for `item` that the open region has it. */
static void
place_item(builder *b, uint32_t item, uint32_t chain, bool by_rows)
{
    b->order[b->placed++] = item;
    b->chains[item] = chain;
    b->bytes += result_bytes(b, item);
    for (uint32_t at = b->d.waiters[item].links; at != 0;) {
        ipu__link link = b->d.links.items[at - 1];
        mark *m = &b->marks[link.to];
        uint32_t follows = by_rows ? (link.by_rows ? NO_CHAIN : BARRED) : chain;
        if (m->region != b->region) {
            *m = (mark){b->region, follows};
        } else if (m->chain != follows) {
            m->chain = BARRED;
        }
        if (--b->d.waiters[link.to].waits_for == 0) {
            push_ready(b, link.to);
        }
        at = link.next;
    }
}

/* The next instruction that the open region may look at; false: none. */
static bool
next_item(builder *b, uint32_t first, uint32_t *out)
{
    if (b->ready_count == 0 || b->aside_count >= WINDOW || b->bytes > MOST_BYTES ||
        b->ready[0] > first + WINDOW) {
        return false;
    }
    *out = pop_ready(b);
    return true;
}

static uint32_t
mark_of(const builder *b, uint32_t item)
{
    return b->marks[item].region == b->region ? b->marks[item].chain : NO_CHAIN;
}

static ipu_region *
add_region(builder *b, uint32_t first_placed)
{
    ipu_stream *stream = b->l->stream;
    uint32_t base = (uint32_t)(b->d.instructions - stream->instructions.items);
    ipu_region region = {.first = base + first_placed,
                         .count = b->placed - first_placed};
    if (IPU_ARRAY_PUSH(b->l->ctx, &stream->regions, region) != IPU_OK) {
        return NULL;
    }
    return &stream->regions.items[stream->regions.count - 1];
}

/* --- by rows ---------------------------------------------------------------------- */

static bool
has_follower(const builder *b, uint32_t item)
{
    bool found = false;
    for (uint32_t at = b->d.waiters[item].links; at != 0 && !found;) {
        ipu__link link = b->d.links.items[at - 1];
        found = link.by_rows && is_by_rows(b, link.to);
        at = link.next;
    }
    return found;
}

static bool
can_lead_rows(const builder *b, uint32_t item)
{
    return is_by_rows(b, item) && has_follower(b, item);
}

static void
need_workspace(const builder *b, size_t bytes)
{
    ipu_program *program = b->l->program;
    program->part_bytes = bytes > program->part_bytes ? bytes : program->part_bytes;
}

static void
use_rows(const builder *b, ipu_region *region, const ipu_kernel_rows *rows)
{
    region->grain = rows->grain > region->grain ? rows->grain : region->grain;
    region->least = rows->least > region->least ? rows->least : region->least;
    need_workspace(b, rows->workspace_bytes);
}

static ipu_status
build_by_rows(builder *b, uint32_t first)
{
    uint32_t first_placed = b->placed;
    int64_t rows = rows_of(b, first)->count;
    double work = work_of(b, first);
    uint32_t item;
    open_region(b);
    place_item(b, first, NO_CHAIN, true);
    while (next_item(b, first, &item)) {
        if (is_by_rows(b, item) && rows_of(b, item)->count == rows &&
            mark_of(b, item) == NO_CHAIN) {
            work += work_of(b, item);
            place_item(b, item, NO_CHAIN, true);
        } else {
            b->aside[b->aside_count++] = item;
        }
    }
    close_region(b);
    if (b->placed - first_placed < 2 || work < b->worth.region) {
        return IPU_OK;
    }
    ipu_region *region = add_region(b, first_placed);
    if (region == NULL) {
        return b->l->ctx->status;
    }
    region->rows = rows;
    region->grain = region->least = 1;
    for (uint32_t i = first_placed; i < b->placed; i++) {
        use_rows(b, region, rows_of(b, b->order[i]));
    }
    return IPU_OK;
}

/* --- by tasks --------------------------------------------------------------------- */

/* A task, with what it is sorted by. Parts of one instruction have bins of their own,
 * one after another: threads that share out another instruction in its order have the
 * same rows of it in their caches. */
typedef struct sized_task {
    ipu_region_task task;
    double work;
    uint32_t number;
    int32_t bin; /* -1: any */
} sized_task;

static bool
is_small(const builder *b, uint32_t item)
{
    double limit = is_by_rows(b, item) ? b->worth.small : b->worth.alone;
    return work_of(b, item) < limit;
}

static bool
can_be_task(const builder *b, uint32_t item)
{
    return !ipu__spec_of(&b->d, item)->can_fail &&
           (is_small(b, item) || is_by_rows(b, item)) && !can_lead_rows(b, item);
}

static int64_t
cut_of(const builder *b, uint32_t item)
{
    int64_t parts = (int64_t)(work_of(b, item) / b->worth.task) + 1;
    int64_t most = parts_of(rows_of(b, item));
    parts = parts < most ? parts : most;
    return parts < MOST_PARTS ? parts : MOST_PARTS;
}

/* Large work first; equal work in the order of the instructions. */
static int
compare_tasks(const void *left, const void *right)
{
    const sized_task *a = left;
    const sized_task *b = right;
    return a->work > b->work   ? -1
           : a->work < b->work ? 1
                               : ipu_compare(a->number, b->number);
}

typedef struct task_bin {
    uint32_t count;
    double work;
} task_bin;

static int32_t
emptiest(const task_bin bins[BINS])
{
    int32_t best = 0;
    for (int32_t i = 1; i < BINS; i++) {
        bool same = bins[i].count == bins[best].count;
        if (bins[i].count < bins[best].count ||
            (same && bins[i].work < bins[best].work)) {
            best = i;
        }
    }
    return best;
}

/* A pool gives each thread an equal number of tasks, in their order. So that these are
 * about equal work, each of the sorted tasks goes into a bin of few tasks and little
 * work, and bin comes after bin. */
static void
deal(sized_task *sorted, uint32_t count, ipu_region_task *out)
{
    task_bin bins[BINS] = {0};
    uint32_t next = 0;
    for (uint32_t i = 0; i < count; i++) {
        sized_task *task = &sorted[i];
        task->bin = task->bin >= 0 ? task->bin : emptiest(bins);
        bins[task->bin].count++;
        bins[task->bin].work += task->work;
    }
    for (int32_t bin = 0; bin < BINS; bin++) {
        for (uint32_t i = 0; i < count; i++) {
            if (sorted[i].bin == bin) {
                out[next++] = sorted[i].task;
            }
        }
    }
}

/* Puts what is cut by rows first, then chain after chain. */
static int
compare_chains(const void *left, const void *right)
{
    const uint32_t *a = left;
    const uint32_t *b = right;
    return a[0] != b[0] ? ipu_compare(a[0], b[0]) : ipu_compare(a[1], b[1]);
}

static ipu_status
sort_by_chain(builder *b, uint32_t first_placed)
{
    uint32_t count = b->placed - first_placed;
    uint32_t *pairs; /* chain, position in the chain, instruction */
    IPU_TRY(ipu__lower_array(b->l, count, 3 * sizeof(uint32_t), &pairs));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t item = b->order[first_placed + i];
        pairs[3 * i] = b->chains[item] == BARRED ? 0 : b->chains[item];
        pairs[3 * i + 1] = i;
        pairs[3 * i + 2] = item;
    }
    qsort(pairs, count, 3 * sizeof(uint32_t), compare_chains);
    for (uint32_t i = 0; i < count; i++) {
        b->order[first_placed + i] = pairs[3 * i + 2];
    }
    return IPU_OK;
}

static void
add_parts(const builder *b, uint32_t at, uint32_t instruction, sized_task *tasks,
          uint32_t *count)
{
    uint32_t item = b->order[at];
    const ipu_kernel_rows *rows = rows_of(b, item);
    int64_t grain = rows->grain > 0 ? rows->grain : 1;
    int64_t parts = cut_of(b, item);
    int64_t begin = 0;
    for (int64_t part = 0; part < parts; part++) {
        int64_t end = ipu_row_cut(rows->count, grain, part + 1, parts);
        if (end > begin) {
            int32_t bin = parts < BINS ? -1 : (int32_t)(part * BINS / parts);
            tasks[*count] = (sized_task){{instruction, 1, begin, end},
                                         work_of(b, item) / (double)parts,
                                         *count,
                                         bin};
            (*count)++;
        }
        begin = end;
    }
}

/* The tasks of the region whose instructions are order[first_placed, placed). Chains
 * that take no time are one task. */
static uint32_t
list_tasks(const builder *b, uint32_t first_placed, uint32_t base, sized_task *tasks)
{
    uint32_t count = 0;
    bool is_open = false; /* the last task takes more chains */
    uint32_t chain = 0;
    for (uint32_t at = first_placed; at < b->placed; at++) {
        uint32_t item = b->order[at];
        uint32_t instruction = base + at - first_placed;
        if (b->chains[item] == BARRED) {
            add_parts(b, at, instruction, tasks, &count);
            continue;
        }
        bool same = is_open && (b->chains[item] == chain ||
                                tasks[count - 1].work < b->worth.small / 2);
        if (!same) {
            tasks[count] = (sized_task){{instruction, 0, 0, 0}, 0.0, count, -1};
            count++;
        }
        tasks[count - 1].task.count++;
        tasks[count - 1].work += work_of(b, item);
        chain = b->chains[item];
        is_open = true;
    }
    return count;
}

static ipu_status
fill_tasks(builder *b, uint32_t first_placed)
{
    size_t most = (size_t)(b->placed - first_placed) * MOST_PARTS;
    sized_task *tasks;
    IPU_TRY(ipu_alloc(b->l->ctx, most * sizeof(*tasks), &tasks));
    uint32_t base =
        (uint32_t)(b->d.instructions - b->l->stream->instructions.items) + first_placed;
    uint32_t count = list_tasks(b, first_placed, base, tasks);
    ipu_region_task *dealt = NULL;
    ipu_region *region = NULL;
    if (count >= 2) {
        qsort(tasks, count, sizeof(*tasks), compare_tasks);
        region = add_region(b, first_placed);
    }
    if (region != NULL && ipu_arena_alloc(b->l->ctx, &b->l->program->arena,
                                          count * sizeof(*dealt), &dealt) == IPU_OK) {
        deal(tasks, count, dealt);
        region->task_count = count;
        region->tasks = dealt;
    }
    ipu_free(b->l->ctx, tasks, most * sizeof(*tasks));
    return count < 2 || dealt != NULL ? IPU_OK : b->l->ctx->status;
}

static ipu_status
build_by_tasks(builder *b, uint32_t first)
{
    uint32_t first_placed = b->placed;
    uint32_t next_chain = 1;
    double work = 0.0;
    uint32_t item;
    open_region(b);
    push_ready(b, first);
    while (next_item(b, first, &item)) {
        uint32_t follows = mark_of(b, item);
        bool is_free = follows == NO_CHAIN;
        bool fits =
            can_be_task(b, item) && follows != BARRED && (is_free || is_small(b, item));
        if (!fits) {
            b->aside[b->aside_count++] = item;
            continue;
        }
        uint32_t chain = !is_small(b, item) ? BARRED : is_free ? next_chain++ : follows;
        work += work_of(b, item);
        need_workspace(b, chain == BARRED ? rows_of(b, item)->workspace_bytes
                                          : ipu__spec_of(&b->d, item)->workspace_bytes);
        place_item(b, item, chain, false);
    }
    close_region(b);
    if (b->placed - first_placed < 2 || work < b->worth.region) {
        return IPU_OK;
    }
    IPU_TRY(sort_by_chain(b, first_placed));
    return fill_tasks(b, first_placed);
}

/* --- a run of kernels ------------------------------------------------------------- */

static ipu_status
group(builder *b)
{
    for (uint32_t i = 0; i < b->d.count; i++) {
        if (b->d.waiters[i].waits_for == 0) {
            push_ready(b, i);
        }
    }
    while (b->ready_count > 0) {
        uint32_t first = pop_ready(b);
        if (can_lead_rows(b, first)) {
            IPU_TRY(build_by_rows(b, first));
        } else if (can_be_task(b, first)) {
            IPU_TRY(build_by_tasks(b, first));
        } else {
            open_region(b);
            place_item(b, first, BARRED, false);
        }
    }
    return IPU_OK;
}

/* The run's instructions in the new order. */
static ipu_status
reorder(builder *b)
{
    ipu_instruction *own = (ipu_instruction *)b->d.instructions;
    size_t bytes = b->d.count * sizeof(ipu_instruction);
    ipu_instruction *old;
    IPU_TRY(ipu_alloc(b->l->ctx, bytes, &old));
    memcpy(old, own, bytes);
    for (uint32_t i = 0; i < b->d.count; i++) {
        own[i] = old[b->order[i]];
    }
    ipu_free(b->l->ctx, old, bytes);
    return IPU_OK;
}

static ipu_status
build_run(lowering *l, uint32_t first, uint32_t count)
{
    bool is_asked = l->options->regions == IPU_REGIONS_EVERYWHERE;
    builder b = {.l = l,
                 .worth = is_asked ? everywhere : where_faster,
                 .d = {.lowering = l,
                       .instructions = &l->stream->instructions.items[first],
                       .count = count}};
    IPU_TRY(ipu__lower_array(l, count, sizeof(ipu__waiter), &b.d.waiters));
    IPU_TRY(ipu__lower_array(l, count, sizeof(mark), &b.marks));
    IPU_TRY(ipu__lower_array(l, count, sizeof(uint32_t), &b.order));
    IPU_TRY(ipu__lower_array(l, count, sizeof(uint32_t), &b.ready));
    IPU_TRY(ipu__lower_array(l, count, sizeof(uint32_t), &b.aside));
    IPU_TRY(ipu__lower_array(l, count, sizeof(uint32_t), &b.chains));
    ipu_status status = ipu__find_dependence(l->ctx, &b.d);
    if (status == IPU_OK) {
        status = group(&b);
    }
    if (status == IPU_OK) {
        status = reorder(&b);
    }
    IPU_ARRAY_FREE(l->ctx, &b.d.links);
    return status;
}

/* --- a stream --------------------------------------------------------------------- */

/* Marks the instructions that something jumps to. */
static void
find_targets(const ipu_stream *stream, uint8_t *is_target)
{
    for (size_t i = 0; i < stream->instructions.count; i++) {
        const ipu_instruction *instruction = &stream->instructions.items[i];
        if (instruction->kind == IPU_INSTRUCTION_KERNEL) {
            continue;
        }
        is_target[instruction->target] = 1;
        for (uint32_t k = 0; k < instruction->branch_count; k++) {
            is_target[instruction->branches[k]] = 1;
        }
    }
}

static ipu_status
build_stream(lowering *l, const uint8_t *is_target)
{
    const ipu_stream *stream = l->stream;
    size_t count = stream->instructions.count;
    for (size_t first = 0; first < count;) {
        size_t end = first;
        while (end < count &&
               stream->instructions.items[end].kind == IPU_INSTRUCTION_KERNEL &&
               (end == first || !is_target[end])) {
            end++;
        }
        if (end - first >= 2) {
            IPU_TRY(build_run(l, (uint32_t)first, (uint32_t)(end - first)));
        }
        first = end > first ? end : first + 1;
    }
    for (uint32_t i = 0; i < stream->regions.count; i++) {
        ipu_region region = stream->regions.items[i];
        for (uint32_t k = 0; k < region.count; k++) {
            stream->instructions.items[region.first + k].region = i + 1;
        }
    }
    return IPU_OK;
}

/* Values of a region live as long as it does: who recomputes values wants them to live
 * shortly. */
static bool
recomputes(const ipu_graph *graph)
{
    bool found = false;
    for (size_t i = 0; i < graph->nodes.count && !found; i++) {
        found = graph->nodes.items[i].recomputation != 0;
    }
    return found;
}

ipu_status
ipu__lower_find_regions(lowering *l)
{
    ipu_region_choice choice = l->options->regions;
    if (choice == IPU_REGIONS_NOWHERE ||
        (choice == IPU_REGIONS_WHERE_FASTER && recomputes(l->graph))) {
        return IPU_OK;
    }
    for (uint32_t s = 0; s < l->program->streams.count; s++) {
        ipu__lower_enter_stream(l, s);
        uint8_t *is_target;
        IPU_TRY(ipu__lower_array(l, l->stream->instructions.count + 1, 1, &is_target));
        find_targets(l->stream, is_target);
        IPU_TRY(build_stream(l, is_target));
    }
    return IPU_OK;
}
