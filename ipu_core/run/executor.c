/* SPDX-License-Identifier: MIT
 *
 * The engine. All operands are resolved to pointers when the executor is made: into its
 * slab, the program's constants and the device's variables; those that lie in an
 * infeed's slot are patched at each dequeue. A run is then one loop over the
 * instructions that looks nothing up and allocates nothing.
 *
 * A step boundary is the NEXT of an outermost loop: the step counter moves on, hosts
 * that wait get at the variables, the cancel flag is looked at, and, where something
 * was removed from the device meanwhile, the resources are bound anew (or the run
 * fails). In inner loops the flag is looked at too, so that no loop is endless.
 *
 * Random ops draw anew at each step, and in inner loops at each turn: the key's `turn`
 * counts the turns that ended since the run entered the outermost of the inner loops
 * around, however these are nested; outside of inner loops it is 0.
 *
 * The executor owns its slab and tables; program, device and pool outlive it. It
 * belongs to one thread at a time. */
#include "run/executor.h"

#include <inttypes.h>
#include <string.h>

#include "run/device_impl.h"
#include "run/run_impl.h"

/* How long a cancelled run may take to reach a step boundary. */
enum { CANCEL_GRACE_NS = 200 * 1000 * 1000 };

typedef struct patch {
    uint32_t component; /* of the infeeds */
    size_t operand;
} patch;

struct ipu_executor {
    const ipu_program *program;
    ipu_device *device;
    ipu_pool *pool;
    char *slab;
    void **resources;      /* a variable's data, or a queue */
    size_t *first_operand; /* per instruction */
    void **operands; /* inputs, then outputs, of one instruction after the other */
    size_t operand_count;
    patch *patches; /* by component */
    size_t patch_count;
    size_t *first_patch; /* per resource, and one more */
    int64_t *counters;   /* per loop: turns left */
    bool is_bound;
    uint64_t generation; /* of the device, when it was bound */
    uint64_t own_seed;   /* without a device */
    uint64_t own_step;
};

/* --- binding --------------------------------------------------------------------- */

static ipu_status
check_types(ipu_ctx *ctx, const ipu_resource *resource, const ipu_type *types,
            uint32_t count)
{
    char a[128];
    char b[128];
    const char *name = resource->name == NULL ? "" : resource->name;
    IPU_FAIL_IF(ctx, count != resource->type_count, FAILED_PRECONDITION,
                "queue '%s' has %" PRIu32 " components, but the program was made for "
                "%" PRIu32,
                name, count, resource->type_count);
    for (uint32_t i = 0; i < count; i++) {
        IPU_FAIL_IF(ctx, !ipu_type_equal(&types[i], &resource->types[i]),
                    FAILED_PRECONDITION,
                    "'%s' is %s on the device, but the program was "
                    "made for %s",
                    name, ipu_type_print(&types[i], a, sizeof(a)),
                    ipu_type_print(&resource->types[i], b, sizeof(b)));
    }
    return IPU_OK;
}

static ipu_status
bind_resource(ipu_ctx *ctx, ipu_executor *executor, uint32_t index)
{
    const ipu_resource *resource = &executor->program->resources.items[index];
    void **out = &executor->resources[index];
    ipu_type type;
    const ipu_type *types = &type;
    uint32_t count = 1;
    if (resource->kind == IPU_RESOURCE_VARIABLE) {
        IPU_TRY(
            ipu__device_variable(ctx, executor->device, resource->id, 0, &type, out));
    } else {
        IPU_TRY(ipu__device_queue(ctx, executor->device, resource->kind, resource->id,
                                  out));
        count = resource->kind == IPU_RESOURCE_INFEED ? ipu_infeed_types(*out, &types)
                                                      : ipu_outfeed_types(*out, &types);
    }
    return check_types(ctx, resource, types, count);
}

static void *
resolve(const ipu_executor *executor, ipu_place place)
{
    switch (place.space) {
    case IPU_SPACE_SLAB:
        return executor->slab + place.offset;
    case IPU_SPACE_CONSTANT: /* read only: the verifier lets nothing write here */
        return (char *)executor->program->constants + place.offset;
    case IPU_SPACE_HELD: /* read only, too */
        return (void *)(uintptr_t)executor->program->held[place.index].data;
    case IPU_SPACE_VARIABLE:
        return executor->resources[place.index];
    case IPU_SPACE_INPUT:
    case IPU_SPACE_OUTPUT:
    case IPU_SPACE_INFEED:
        break;
    }
    return NULL; /* known later */
}

static ipu_status
bind(ipu_ctx *ctx, ipu_executor *executor)
{
    const ipu_program *program = executor->program;
    uint64_t generation = 0;
    executor->is_bound = false;
    if (executor->device != NULL) {
        generation = ipu__device_generation(executor->device);
    }
    for (uint32_t i = 0; i < program->resources.count; i++) {
        IPU_TRY(bind_resource(ctx, executor, i));
    }
    for (size_t i = 0; i < program->instructions.count; i++) {
        const ipu_instruction *instruction = &program->instructions.items[i];
        void **operands = &executor->operands[executor->first_operand[i]];
        for (uint32_t k = 0; k < instruction->input_count; k++) {
            if (instruction->inputs[k].space != IPU_SPACE_INFEED) {
                operands[k] = resolve(executor, instruction->inputs[k]);
            }
        }
        operands += instruction->input_count;
        for (uint32_t k = 0; k < instruction->output_count; k++) {
            operands[k] = resolve(executor, instruction->outputs[k]);
        }
    }
    executor->generation = generation;
    executor->is_bound = true;
    return IPU_OK;
}

static size_t
count_operands(const ipu_program *program, size_t *patch_count)
{
    size_t count = 0;
    *patch_count = 0;
    for (size_t i = 0; i < program->instructions.count; i++) {
        const ipu_instruction *instruction = &program->instructions.items[i];
        count += instruction->input_count + instruction->output_count;
        for (uint32_t k = 0; k < instruction->input_count; k++) {
            *patch_count += instruction->inputs[k].space == IPU_SPACE_INFEED;
        }
    }
    return count;
}

/* Which operands lie in which infeed's slot, in the order of the components. */
static void
find_patches(ipu_executor *executor)
{
    const ipu_program *program = executor->program;
    size_t found = 0;
    for (uint32_t r = 0; r < program->resources.count; r++) {
        executor->first_patch[r] = found;
        uint32_t base = ipu_program_infeed_base(program, r);
        uint32_t end = ipu_program_infeed_base(program, r + 1);
        for (size_t i = 0; base < end && i < program->instructions.count; i++) {
            const ipu_instruction *instruction = &program->instructions.items[i];
            for (uint32_t k = 0; k < instruction->input_count; k++) {
                ipu_place place = instruction->inputs[k];
                if (place.space == IPU_SPACE_INFEED && place.index >= base &&
                    place.index < end) {
                    executor->patches[found++] =
                        (patch){place.index - base, executor->first_operand[i] + k};
                }
            }
        }
    }
    executor->first_patch[program->resources.count] = found;
}

static ipu_status
allocate(ipu_ctx *ctx, ipu_executor *executor)
{
    const ipu_program *program = executor->program;
    executor->operand_count = count_operands(program, &executor->patch_count);
    IPU_TRY(ipu_alloc(ctx, program->memory.slab_bytes, &executor->slab));
    ipu__advise_huge(executor->slab, program->memory.slab_bytes);
    IPU_TRY(ipu_alloc(ctx, program->resources.count * sizeof(void *),
                      &executor->resources));
    IPU_TRY(ipu_alloc(ctx, program->instructions.count * sizeof(size_t),
                      &executor->first_operand));
    IPU_TRY(
        ipu_alloc(ctx, executor->operand_count * sizeof(void *), &executor->operands));
    IPU_TRY(ipu_alloc(ctx, executor->patch_count * sizeof(patch), &executor->patches));
    IPU_TRY(ipu_alloc(ctx, (program->resources.count + 1) * sizeof(size_t),
                      &executor->first_patch));
    IPU_TRY(ipu_alloc(ctx, program->loop_count * sizeof(int64_t), &executor->counters));
    size_t next = 0;
    for (size_t i = 0; i < program->instructions.count; i++) {
        executor->first_operand[i] = next;
        next += program->instructions.items[i].input_count +
                program->instructions.items[i].output_count;
    }
    find_patches(executor);
    return IPU_OK;
}

ipu_status
ipu_executor_create(ipu_ctx *ctx, const ipu_program *program, ipu_device *device,
                    ipu_pool *pool, ipu_executor **out)
{
    *out = NULL;
    IPU_FAIL_IF(ctx, device == NULL && program->resources.count > 0,
                FAILED_PRECONDITION,
                "a program with variables or queues needs a device");
    IPU_FAIL_IF(ctx, device != NULL && ipu_device_replicas(device) != 1, UNIMPLEMENTED,
                "the device has %" PRId32 " replicas, but programs run on one replica "
                "only so far; attach a device with one replica",
                ipu_device_replicas(device));
    ipu_executor *executor;
    IPU_TRY(ipu_alloc(ctx, sizeof(*executor), &executor));
    executor->program = program;
    executor->device = device;
    executor->pool = pool;
    ipu_status status = allocate(ctx, executor);
    if (status == IPU_OK) {
        status = bind(ctx, executor);
    }
    if (status != IPU_OK) {
        ipu_executor_free(ctx, executor);
        return status;
    }
    *out = executor;
    return IPU_OK;
}

void
ipu_executor_free(ipu_ctx *ctx, ipu_executor *executor)
{
    if (executor == NULL) {
        return;
    }
    const ipu_program *program = executor->program;
    ipu_free(ctx, executor->slab, program->memory.slab_bytes);
    ipu_free(ctx, executor->resources, program->resources.count * sizeof(void *));
    ipu_free(ctx, executor->first_operand,
             program->instructions.count * sizeof(size_t));
    ipu_free(ctx, executor->operands, executor->operand_count * sizeof(void *));
    ipu_free(ctx, executor->patches, executor->patch_count * sizeof(patch));
    ipu_free(ctx, executor->first_patch,
             (program->resources.count + 1) * sizeof(size_t));
    ipu_free(ctx, executor->counters, program->loop_count * sizeof(int64_t));
    ipu_free(ctx, executor, sizeof(*executor));
}

void
ipu_executor_set_pool(ipu_executor *executor, ipu_pool *pool)
{
    executor->pool = pool;
}

void
ipu_executor_set_random(ipu_executor *executor, uint64_t seed, uint64_t step)
{
    executor->own_seed = seed;
    executor->own_step = step;
}

/* --- running --------------------------------------------------------------------- */

typedef struct run {
    ipu_ctx *ctx;
    ipu_executor *executor;
    const void *const *inputs;
    void *const *outputs;
    const int32_t *cancel;
    ipu_run_stats *stats;
    ipu_kernel_call call;  /* what all kernel calls have in common */
    int32_t depth;         /* of loops around the current instruction */
    uint64_t cancelled_ns; /* when an inner loop first saw the flag; 0: not yet */
} run;

static void
set_random(run *r)
{
    const ipu_executor *executor = r->executor;
    r->call.random =
        (ipu_random_key){.seed = executor->own_seed, .step = executor->own_step};
    if (executor->device != NULL) {
        r->call.random = ipu__device_random(executor->device);
    }
}

static void
advance_step(run *r)
{
    if (r->executor->device != NULL) {
        ipu__device_advance(r->executor->device, 1);
    } else {
        r->executor->own_step++;
    }
}

/* Something was removed from the device: what this program needs may be gone. */
static ipu_status
rebind_if_changed(run *r)
{
    ipu_executor *executor = r->executor;
    if (executor->device == NULL ||
        (executor->is_bound &&
         ipu__device_generation(executor->device) == executor->generation)) {
        return IPU_OK;
    }
    return bind(r->ctx, executor);
}

static ipu_status
pass_boundary(run *r)
{
    advance_step(r);
    r->stats->steps++;
    if (r->executor->device != NULL) {
        ipu__device_boundary(r->executor->device);
        IPU_TRY(rebind_if_changed(r));
    }
    set_random(r);
    IPU_FAIL_IF(r->ctx, ipu__is_cancelled(r->cancel), INTERRUPTED,
                "interrupted after %" PRIu64 " steps", r->stats->steps);
    return IPU_OK;
}

static void
leave_loop(run *r)
{
    r->depth--;
    if (r->depth <= 1) {
        r->call.random.turn = 0;
    }
}

/* A turn of an inner loop. A run that is cancelled goes on to the next step boundary,
 * where the variables are whole; but a loop that does not get there ends in its middle.
 */
static ipu_status
pass_inner_boundary(run *r)
{
    r->call.random.turn++;
    if (!ipu__is_cancelled(r->cancel)) {
        return IPU_OK;
    }
    uint64_t now = ipu__now_ns();
    if (r->cancelled_ns == 0) {
        r->cancelled_ns = now;
    }
    IPU_FAIL_IF(r->ctx, now - r->cancelled_ns > CANCEL_GRACE_NS, INTERRUPTED,
                "interrupted in an inner loop after %" PRIu64 " steps",
                r->stats->steps);
    return IPU_OK;
}

static ipu_status
run_kernel(run *r, const ipu_instruction *instruction, void **operands)
{
    const ipu_kernel_spec *spec = &r->executor->program->specs.items[instruction->spec];
    r->call.spec = spec;
    r->call.inputs = (const void *const *)operands;
    r->call.outputs = operands + instruction->input_count;
    ipu_status status = spec->run(&r->call);
    IPU_FAIL_IF(r->ctx, status != IPU_OK && r->ctx->status == IPU_OK, INTERNAL,
                "%s failed without a message", ipu_op_info_of(spec->op)->name);
    return status;
}

static void
run_copy(run *r, const ipu_instruction *instruction, void **operands)
{
    ipu_place from = instruction->inputs[0];
    ipu_place to = instruction->outputs[0];
    const void *source =
        from.space == IPU_SPACE_INPUT ? r->inputs[from.index] : operands[0];
    void *target = to.space == IPU_SPACE_OUTPUT ? r->outputs[to.index] : operands[1];
    memcpy(target, source, instruction->bytes);
}

static ipu_status
run_dequeue(run *r, const ipu_instruction *instruction)
{
    ipu_executor *executor = r->executor;
    const void *const *slot;
    uint64_t start = ipu__now_ns();
    ipu_status status = ipu_infeed_dequeue(
        r->ctx, executor->resources[instruction->resource], r->cancel, &slot);
    r->stats->infeed_wait_ns += ipu__now_ns() - start;
    IPU_TRY(status);
    size_t end = executor->first_patch[instruction->resource + 1];
    for (size_t i = executor->first_patch[instruction->resource]; i < end; i++) {
        const patch *p = &executor->patches[i];
        /* operands are void * for all; the verifier lets nothing write to an infeed */
        executor->operands[p->operand] = (void *)slot[p->component];
    }
    return IPU_OK;
}

static ipu_status
run_enqueue(run *r, const ipu_instruction *instruction, void **operands)
{
    uint64_t start = ipu__now_ns();
    ipu_status status =
        ipu_outfeed_enqueue(r->ctx, r->executor->resources[instruction->resource],
                            (const void *const *)operands);
    r->stats->outfeed_wait_ns += ipu__now_ns() - start;
    return status;
}

static int64_t
turns_of(const ipu_instruction *instruction, void **operands)
{
    int64_t most = instruction->turns < 0 ? INT64_MAX : instruction->turns;
    if (instruction->kind == IPU_INSTRUCTION_WHILE) {
        return most;
    }
    int32_t trips;
    memcpy(&trips, operands[0], sizeof(trips));
    return trips < most ? trips : most;
}

static bool
read_bool(const void *data)
{
    uint8_t flag;
    memcpy(&flag, data, sizeof(flag));
    return flag != 0;
}

static int32_t
branch_of(const ipu_instruction *instruction, const void *data)
{
    int32_t which;
    memcpy(&which, data, sizeof(which));
    uint32_t last = instruction->branch_count - 1;
    return instruction
        ->branches[which < 0 || (uint32_t)which > last ? last : (uint32_t)which];
}

static ipu_status
run_instructions(run *r, size_t *at)
{
    ipu_executor *executor = r->executor;
    const ipu_instruction *instructions = executor->program->instructions.items;
    for (;;) {
        const ipu_instruction *instruction = &instructions[*at];
        void **operands = &executor->operands[executor->first_operand[*at]];
        size_t next = *at + 1;
        switch (instruction->kind) {
        case IPU_INSTRUCTION_KERNEL:
            IPU_TRY(run_kernel(r, instruction, operands));
            break;
        case IPU_INSTRUCTION_COPY:
            run_copy(r, instruction, operands);
            break;
        case IPU_INSTRUCTION_RESERVE:
            break;
        case IPU_INSTRUCTION_DEQUEUE:
            IPU_TRY(run_dequeue(r, instruction));
            break;
        case IPU_INSTRUCTION_ENQUEUE:
            IPU_TRY(run_enqueue(r, instruction, operands));
            break;
        case IPU_INSTRUCTION_LOOP:
        case IPU_INSTRUCTION_WHILE: {
            int64_t turns = turns_of(instruction, operands);
            executor->counters[instruction->loop] = turns;
            if (turns > 0) {
                r->depth++;
            } else {
                next = (size_t)instruction->target;
            }
            break;
        }
        case IPU_INSTRUCTION_TEST:
            if (!read_bool(operands[0])) {
                leave_loop(r);
                next = (size_t)instruction->target;
            }
            break;
        case IPU_INSTRUCTION_NEXT:
            IPU_TRY(r->depth == 1 ? pass_boundary(r) : pass_inner_boundary(r));
            if (--executor->counters[instruction->loop] > 0) {
                next = (size_t)instruction->target;
            } else {
                leave_loop(r);
            }
            break;
        case IPU_INSTRUCTION_SWITCH:
            next = (size_t)branch_of(instruction, operands[0]);
            break;
        case IPU_INSTRUCTION_JUMP:
            next = (size_t)instruction->target;
            break;
        case IPU_INSTRUCTION_HALT:
            if (r->stats->steps == 0) { /* no loop, or none that took a turn */
                advance_step(r);
            }
            return IPU_OK;
        case IPU_INSTRUCTION_COUNT:
            IPU_FAIL(r->ctx, INTERNAL, "an instruction without a kind");
        }
        *at = next;
    }
}

static void
hold_queues(ipu_executor *executor, bool hold)
{
    const ipu_program *program = executor->program;
    for (uint32_t i = 0; i < program->resources.count; i++) {
        if (program->resources.items[i].kind != IPU_RESOURCE_VARIABLE) {
            ipu__device_queue_hold(executor->device, program->resources.items[i].id,
                                   hold);
        }
    }
}

/* Once they are held: a queue that is open now stays open. */
static ipu_status
check_infeeds(ipu_ctx *ctx, const ipu_executor *executor)
{
    const ipu_program *program = executor->program;
    for (uint32_t i = 0; i < program->resources.count; i++) {
        const ipu_resource *resource = &program->resources.items[i];
        IPU_FAIL_IF(ctx,
                    resource->kind == IPU_RESOURCE_INFEED &&
                        !ipu_infeed_is_open(executor->resources[i]),
                    FAILED_PRECONDITION, IPU__NO_INFEED, resource->id);
    }
    return IPU_OK;
}

static void
settle_queues(ipu_executor *executor)
{
    const ipu_program *program = executor->program;
    for (uint32_t i = 0; i < program->resources.count; i++) {
        if (program->resources.items[i].kind == IPU_RESOURCE_OUTFEED) {
            ipu_outfeed_flush(executor->resources[i]);
        }
    }
}

/* With the device: from here on the resources stay where they are. */
static ipu_status
run_owned(run *r)
{
    size_t at = 0;
    IPU_TRY(rebind_if_changed(r));
    IPU_FAIL_IF(r->ctx, ipu__is_cancelled(r->cancel), INTERRUPTED,
                "interrupted before the first step");
    hold_queues(r->executor, true);
    set_random(r);
    ipu_status status = check_infeeds(r->ctx, r->executor);
    if (status == IPU_OK) {
        status = run_instructions(r, &at);
    }
    settle_queues(r->executor);
    hold_queues(r->executor, false);
    if (status != IPU_OK && r->ctx->source.file == NULL) {
        r->ctx->source = r->executor->program->instructions.items[at].source;
    }
    return status;
}

/* An allocator that counts what goes through it. */
typedef struct counting {
    ipu_allocator inner;
    uint64_t count;
} counting;

static void *
count_resize(void *state, void *pointer, size_t old_bytes, size_t new_bytes)
{
    counting *c = state;
    c->count += new_bytes != 0;
    return c->inner.resize(c->inner.state, pointer, old_bytes, new_bytes);
}

ipu_status
ipu_executor_run(ipu_ctx *ctx, ipu_executor *executor, const void *const *inputs,
                 void *const *outputs, const int32_t *cancel, ipu_run_stats *stats)
{
    ipu_run_stats own_stats;
    counting allocations = {.inner = ctx->allocator};
    run r = {.ctx = ctx,
             .executor = executor,
             .inputs = inputs,
             .outputs = outputs,
             .cancel = cancel,
             .stats = stats == NULL ? &own_stats : stats};
    *r.stats = (ipu_run_stats){0};
    if (executor->device != NULL) {
        IPU_TRY(ipu__device_begin(ctx, executor->device, cancel));
    }
    r.call.ctx = ctx;
    r.call.pool = executor->pool;
    r.call.workspace = executor->slab + executor->program->workspace_offset;
    uint64_t start = ipu__now_ns();
    ctx->allocator = (ipu_allocator){count_resize, &allocations};
    ipu_status status = run_owned(&r);
    ctx->allocator = allocations.inner;
    if (executor->device != NULL) {
        ipu__device_end(executor->device);
    }
    r.stats->allocations = allocations.count;
    r.stats->run_ns = ipu__now_ns() - start;
    return status;
}
