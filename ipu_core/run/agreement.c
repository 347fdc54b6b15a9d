/* SPDX-License-Identifier: MIT
 *
 * What the processes agree on that run a program together.
 *
 * At the beginning each tells the others what it is about to run. Where that is not the
 * same, all of them fail, and those whose programs differ say in which line. Where
 * a process has changed variables since the program's last run, all get those of
 * replica 0 of process 0; and all draw random numbers from its seed and step.
 *
 * A run stops at the same step in all processes. At some steps each tells the others
 * whether it wants to stop; the answers are read at the next such step, so that nobody
 * waits for them. From one of them to the next a few hundredths of a second pass: all
 * take the largest number of steps that one of them proposes.
 *
 * A run that fails fails everywhere: others may wait for what never comes. Only where
 * all have come to the same end, as that of their data, may they go on. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "run/executor_impl.h"

/* From one time that processes ask each other to the next. */
enum { ASK_NS = 20 * 1000 * 1000, MOST_STEPS = 1 << 20 };

typedef enum note_kind { NOTE_BEGINS = 1, NOTE_ENDS } note_kind;

/* What a process tells the others. */
typedef struct note {
    uint64_t kind;
    uint64_t program; /* hashes */
    uint64_t counts;
    uint64_t parts; /* which variables lie in parts */
    uint64_t seed;
    uint64_t step;
    uint32_t replicas;
    uint32_t is_changed;
    uint32_t text_bytes;
    uint32_t status; /* NOTE_ENDS */
} note;

typedef struct step_note {
    uint32_t wants_to_stop;
    uint32_t steps; /* to the next time */
} step_note;

/* A message to each process and one from each; the own note is at its own place. */
typedef struct talk {
    ipu_exchange exchange;
    ipu_message *sends;
    ipu_message *receives;
    char *notes; /* by process */
    size_t note_bytes;
} talk;

struct ipu__agreement {
    uint64_t program;
    char *text; /* of the program */
    size_t text_bytes;
    note *notes;
    talk run;
    step_note *step_notes;
    talk step;
    bool is_asking;   /* the answers of `step` are still to be read */
    bool has_stopped; /* the run, in all processes */
    uint64_t ask_at;  /* the step of the run at which to ask next */
    uint64_t asked_ns;
    uint64_t asked_step;
};

/* --- making ------------------------------------------------------------------------ */

static ipu_status
make_talk(ipu_ctx *ctx, ipu_executor *executor, uint32_t channel, void *notes,
          size_t note_bytes, talk *t)
{
    uint32_t count = ipu_peers_count(executor->peers);
    uint32_t own = executor->process;
    size_t bytes = sizeof(ipu_message);
    t->notes = notes;
    t->note_bytes = note_bytes;
    IPU_TRY(ipu_arena_array(ctx, &executor->arena, count, bytes, &t->sends));
    IPU_TRY(ipu_arena_array(ctx, &executor->arena, count, bytes, &t->receives));
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (i != own) {
            char *mine = t->notes + own * note_bytes;
            t->sends[n] = (ipu_message){i, mine, note_bytes};
            t->receives[n++] = (ipu_message){i, t->notes + i * note_bytes, note_bytes};
        }
    }
    t->exchange = (ipu_exchange){.channel = channel,
                                 .sends = t->sends,
                                 .send_count = n,
                                 .receives = t->receives,
                                 .receive_count = n};
    return IPU_OK;
}

/* The ids of resources are each process's own, and so may be the lines that run it. */
static void
forget_own(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0';) {
        if (strncmp(from, " id=", 4) == 0) {
            from += 4;
            from += strspn(from, "0123456789");
        } else if (strncmp(from, "   # ", 5) == 0) {
            from += strcspn(from, "\n");
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

static ipu_status
describe(ipu_ctx *ctx, ipu_executor *executor, ipu__agreement *agreement)
{
    char *text;
    size_t bytes;
    IPU_TRY(ipu_program_print(ctx, executor->program, &text, &bytes));
    forget_own(text);
    agreement->text_bytes = strlen(text) + 1;
    agreement->program =
        ipu_hash_bytes(IPU_HASH_START, text, agreement->text_bytes);
    ipu_status status = ipu_arena_copy(ctx, &executor->arena, text,
                                       agreement->text_bytes, &agreement->text);
    ipu_free(ctx, text, bytes);
    return status;
}

/* Programs without collectives or data are each process's own: they initialise, read or
 * save. */
static bool
runs_together(const ipu_executor *executor)
{
    const ipu_program *program = executor->program;
    bool has_data = false;
    for (size_t i = 0; i < program->resources.count; i++) {
        has_data |= program->resources.items[i].kind == IPU_RESOURCE_INFEED;
    }
    return executor->peers != NULL && ipu_peers_count(executor->peers) > 1 &&
           (has_data || program->meeting_count > 0);
}

ipu_status
ipu__agreement_create(ipu_ctx *ctx, ipu_executor *executor)
{
    if (!runs_together(executor)) {
        return IPU_OK;
    }
    ipu__agreement *agreement;
    ipu_arena *arena = &executor->arena;
    uint32_t count = ipu_peers_count(executor->peers);
    IPU_TRY(ipu_arena_alloc(ctx, arena, sizeof(*agreement), &agreement));
    IPU_TRY(describe(ctx, executor, agreement));
    IPU_TRY(ipu_arena_array(ctx, arena, count, sizeof(note), &agreement->notes));
    IPU_TRY(
        ipu_arena_array(ctx, arena, count, sizeof(step_note), &agreement->step_notes));
    IPU_TRY(make_talk(ctx, executor, IPU_CHANNEL_RUN, agreement->notes, sizeof(note),
                      &agreement->run));
    IPU_TRY(make_talk(ctx, executor, IPU_CHANNEL_STEP, agreement->step_notes,
                      sizeof(step_note), &agreement->step));
    executor->agreement = agreement;
    return IPU_OK;
}

/* An exchange that is given up fails all others: its memory is the caller's. */
static ipu_status
wait_for(ipu_ctx *ctx, ipu_executor *executor, ipu_exchange *exchange)
{
    ipu_status status = ipu_exchange_wait(ctx, executor->peers, exchange,
                                          executor->cancel, IPU__PEERS_GRACE_NS);
    if (status != IPU_OK) {
        ipu_peers_fail(executor->peers, "%s", ctx->message);
    }
    return status;
}

/* --- the beginning ----------------------------------------------------------------- */

/* Whether an attribute lies in memory, whose address says nothing: it may be empty. */
static bool
is_list(const ipu_attr *attr)
{
    ipu_attr_kind kind = ipu_attr_kind_of(attr->key);
    return kind == IPU_ATTR_KIND_INTS || kind == IPU_ATTR_KIND_BLOCKS ||
           kind == IPU_ATTR_KIND_BYTES || kind == IPU_ATTR_KIND_TEXT;
}

/* Those that name resources are each process's own. */
static uint64_t
hash_attrs(uint64_t hash, ipu_attrs attrs)
{
    for (uint32_t i = 0; i < attrs.count; i++) {
        const ipu_attr *attr = &attrs.items[i];
        size_t bytes = ipu_attr_bytes(attr);
        if (attr->key != IPU_ATTR_RESOURCE && attr->key != IPU_ATTR_SLOTS) {
            hash = ipu_hash_bytes(hash, &attr->key, sizeof(attr->key));
            hash = ipu_hash_bytes(hash, &attr->count, sizeof(attr->count));
            if (bytes > 0) {
                hash = ipu_hash_bytes(hash, attr->as.bytes, bytes);
            } else if (!is_list(attr)) {
                hash = ipu_hash_bytes(hash, &attr->as.i, sizeof(attr->as.i));
            }
        }
    }
    return hash;
}

/* What a program's text does not show: attributes, constants, and inputs that are single
 * integers, such as a number of steps. */
static uint64_t
hash_counts(const ipu_executor *executor)
{
    const ipu_program *program = executor->program;
    uint64_t hash =
        ipu_hash_bytes(IPU_HASH_START, program->constants, program->constant_bytes);
    for (size_t i = 0; i < program->specs.count; i++) {
        hash = hash_attrs(hash, program->specs.items[i].attrs);
    }
    for (uint32_t i = 0; i < program->input_count; i++) {
        const ipu_type *type = &program->inputs[i];
        if (type->shape.rank == 0 && type->dtype == IPU_DTYPE_INT32) {
            hash = ipu_hash_bytes(hash, executor->inputs[i].data, sizeof(int32_t));
        }
    }
    return hash;
}

/* A program's text after the two lines that sum it up. */
static const char *
after_totals(const char *text)
{
    for (int lines = 0; lines < 2; lines++) {
        const char *end = strchr(text, '\n');
        text = end == NULL ? text : end + 1;
    }
    return text;
}

/* The first line in which two programs differ, of each; the totals differ because a
 * line below them does. */
static void
first_difference(const char *a, const char *b, char *line_a, char *line_b, size_t bytes)
{
    a = after_totals(a);
    b = after_totals(b);
    size_t begin = 0;
    size_t at = 0;
    for (; a[at] == b[at] && a[at] != '\0'; at++) {
        begin = a[at] == '\n' ? at + 1 : begin;
    }
    snprintf(line_a, bytes, "%.*s", (int)strcspn(a + begin, "\n"), a + begin);
    snprintf(line_b, bytes, "%.*s", (int)strcspn(b + begin, "\n"), b + begin);
}

/* Process 0 and the first one that differs from it show each other their programs. */
static ipu_status
compare_texts(ipu_ctx *ctx, ipu_executor *executor, uint32_t other)
{
    ipu__agreement *agreement = executor->agreement;
    uint32_t partner = executor->process == 0 ? other : 0;
    size_t bytes = agreement->notes[partner].text_bytes;
    char *text;
    IPU_TRY(ipu_alloc(ctx, bytes, &text));
    ipu_message send = {partner, agreement->text, agreement->text_bytes};
    ipu_message receive = {partner, text, bytes};
    ipu_exchange exchange = {.channel = IPU_CHANNEL_RUN,
                             .sends = &send,
                             .send_count = 1,
                             .receives = &receive,
                             .receive_count = 1};
    ipu_peers_post(executor->peers, &exchange);
    ipu_status status = wait_for(ctx, executor, &exchange);
    if (status == IPU_OK) {
        char mine[200];
        char theirs[200];
        bool is_first = executor->process == 0;
        first_difference(agreement->text, text, mine, theirs, sizeof(mine));
        status = ipu_ctx_fail(
            ctx, IPU_STATUS_FAILED_PRECONDITION,
            "process 0 and process %" PRIu32 " do not run the same program. Process "
            "0: \"%s\", process %" PRIu32 ": \"%s\". Give all processes the same code, "
            "options, batch sizes and steps_per_execution, in the same order",
            other, is_first ? mine : theirs, other, is_first ? theirs : mine);
        ipu_free(ctx, text, bytes);
    }
    return status;
}

static ipu_status
compare(ipu_ctx *ctx, ipu_executor *executor, uint32_t other)
{
    const note *first = &executor->agreement->notes[0];
    const note *one = &executor->agreement->notes[other];
    IPU_FAIL_IF(ctx, one->kind != first->kind, FAILED_PRECONDITION,
                "process %" PRIu32 " has come to the end of its data, or failed, while "
                "process %" PRIu32 " begins a program. Give all processes as many "
                "batches",
                one->kind == NOTE_BEGINS ? 0 : other,
                one->kind == NOTE_BEGINS ? other : 0);
    IPU_FAIL_IF(ctx, one->replicas != first->replicas, FAILED_PRECONDITION,
                "process 0 has %" PRIu32 " replicas of the program and process %" PRIu32
                " has %" PRIu32 ". Give all processes as many IPUs "
                "(auto_select_ipus)",
                first->replicas, other, one->replicas);
    if (one->program != first->program) {
        bool is_pair = executor->process == 0 || executor->process == other;
        IPU_FAIL_IF(ctx, !is_pair, FAILED_PRECONDITION,
                    "process 0 and process %" PRIu32 " do not run the same program",
                    other);
        return compare_texts(ctx, executor, other);
    }
    IPU_FAIL_IF(ctx, one->counts != first->counts, FAILED_PRECONDITION,
                "process 0 and process %" PRIu32 " run the same program with different "
                "numbers in it. Give all processes the same numbers of steps, the same "
                "options, and as much data",
                other);
    IPU_FAIL_IF(ctx, one->parts != first->parts, FAILED_PRECONDITION,
                "process 0 or process %" PRIu32 " has written a variable that they share "
                "out (replicated_optimizer_state_sharding), and the other one has not. "
                "Write such variables in all processes",
                other);
    return IPU_OK;
}

static uint64_t
hash_parts(const ipu_executor *executor)
{
    const ipu_program *program = executor->program;
    uint64_t hash = IPU_HASH_START;
    for (uint32_t i = 0; i < program->resources.count; i++) {
        const ipu_resource *one = &program->resources.items[i];
        if (one->kind == IPU_RESOURCE_VARIABLE) {
            uint32_t parts = ipu__device_parts(executor->device, one->id).count;
            hash = ipu_hash_bytes(hash, &parts, sizeof(parts));
        }
    }
    return hash;
}

ipu_status
ipu__agree_to_begin(ipu_ctx *ctx, ipu_executor *executor, bool *is_changed)
{
    ipu__agreement *agreement = executor->agreement;
    uint32_t count = ipu_peers_count(executor->peers);
    ipu_device_random random = ipu_device_get_random(executor->device);
    agreement->notes[executor->process] =
        (note){.kind = NOTE_BEGINS,
               .program = agreement->program,
               .counts = hash_counts(executor),
               .parts = hash_parts(executor),
               .seed = random.seed,
               .step = random.step,
               .replicas = executor->replica_count,
               .is_changed = *is_changed,
               .text_bytes = (uint32_t)agreement->text_bytes};
    agreement->is_asking = false;
    agreement->has_stopped = false;
    agreement->ask_at = 1;
    agreement->asked_ns = ipu_now_ns();
    agreement->asked_step = 0;
    ipu_peers_post(executor->peers, &agreement->run.exchange);
    IPU_TRY(wait_for(ctx, executor, &agreement->run.exchange));
    for (uint32_t i = 1; i < count; i++) {
        IPU_TRY(compare(ctx, executor, i));
    }
    for (uint32_t i = 0; i < count; i++) {
        *is_changed |= agreement->notes[i].is_changed != 0;
    }
    random.seed = agreement->notes[0].seed;
    random.step = agreement->notes[0].step;
    ipu__device_adopt_random(executor->device, random);
    return IPU_OK;
}

ipu_status
ipu__agree_on_variables(ipu_ctx *ctx, ipu_executor *executor)
{
    const ipu_program *program = executor->program;
    uint32_t count = ipu_peers_count(executor->peers);
    bool is_source = executor->process == 0;
    size_t most = program->resources.count * (is_source ? count - 1 : 1);
    ipu_message *messages;
    IPU_TRY(ipu_alloc(ctx, most * sizeof(*messages), &messages));
    uint32_t n = 0;
    ipu_status status = IPU_OK;
    for (uint32_t p = is_source ? 1 : 0; p < (is_source ? count : 1); p++) {
        for (uint32_t i = 0; i < program->resources.count; i++) {
            const ipu_resource *resource = &program->resources.items[i];
            void *data = NULL;
            ipu_type type;
            if (resource->kind == IPU_RESOURCE_VARIABLE && status == IPU_OK) {
                status = ipu__device_variable(ctx, executor->device, resource->id, 0, 0,
                                              &type, &data);
            }
            size_t bytes = data == NULL ? 0 : ipu_type_bytes(&type);
            if (bytes > 0) { /* it is not in parts: those are as they are to be */
                messages[n++] = (ipu_message){p, data, bytes};
            }
        }
    }
    ipu_exchange exchange = {.channel = IPU_CHANNEL_RUN};
    if (is_source) {
        exchange.sends = messages;
        exchange.send_count = n;
    } else {
        exchange.receives = messages;
        exchange.receive_count = n;
    }
    if (status == IPU_OK) {
        ipu_peers_post(executor->peers, &exchange);
        status = wait_for(ctx, executor, &exchange);
    }
    ipu_free(ctx, messages, most * sizeof(*messages));
    return status;
}

/* The parts of all processes, into `whole`. */
static ipu_status
exchange_parts(ipu_ctx *ctx, ipu_executor *executor, int64_t id, ipu__parts parts,
               char *whole, size_t each)
{
    uint32_t others = parts.count - parts.here;
    ipu_message *sends;
    ipu_message *receives;
    IPU_TRY(ipu_alloc(ctx, others * sizeof(*receives), &receives));
    ipu_status status = ipu_alloc(ctx, others * sizeof(*sends), &sends);
    ipu_exchange exchange = {
        .channel = IPU_CHANNEL_RUN, .sends = sends, .receives = receives};
    for (uint32_t i = 0; i < parts.count && status == IPU_OK; i++) {
        uint32_t process = i / parts.here;
        uint32_t local = i % parts.here;
        void *data;
        ipu_type type;
        status = ipu__device_variable(ctx, executor->device, id, (int32_t)local,
                                      parts.count, &type, &data);
        if (process == executor->process) {
            memcpy(whole + i * each, data, each);
        } else {
            sends[exchange.send_count++] = (ipu_message){process, data, each};
            receives[exchange.receive_count++] =
                (ipu_message){process, whole + i * each, each};
        }
    }
    if (status == IPU_OK) {
        ipu_peers_post(executor->peers, &exchange);
        status = wait_for(ctx, executor, &exchange);
    }
    ipu_free(ctx, sends, others * sizeof(*sends));
    ipu_free(ctx, receives, others * sizeof(*receives));
    return status;
}

ipu_status
ipu__agree_on_parts(ipu_ctx *ctx, ipu_executor *executor, const ipu_resource *variable,
                    ipu__parts parts)
{
    const ipu_type *type = variable->parts > 0 ? variable->whole : variable->types;
    size_t elements = (size_t)ipu_shape_elements(&type->shape);
    size_t each =
        (elements + parts.count - 1) / parts.count * ipu_dtype_bytes(type->dtype);
    char *whole;
    IPU_TRY(ipu_alloc(ctx, parts.count * each, &whole));
    ipu_status status =
        exchange_parts(ctx, executor, variable->id, parts, whole, each);
    if (status == IPU_OK) {
        status = ipu__device_set_parts(ctx, executor->device, variable->id,
                                       (ipu__parts){0}, whole);
    }
    ipu_free(ctx, whole, parts.count * each);
    return status;
}

/* --- steps ------------------------------------------------------------------------- */

/* Whether somebody wants to stop, and when to ask next. */
static bool
read_answers(const ipu_executor *executor, uint32_t *steps)
{
    const ipu__agreement *agreement = executor->agreement;
    bool stops = false;
    *steps = 1;
    for (uint32_t i = 0; i < ipu_peers_count(executor->peers); i++) {
        const step_note *one = &agreement->step_notes[i];
        stops |= one->wants_to_stop != 0;
        *steps = one->steps > *steps ? one->steps : *steps;
    }
    return stops;
}

/* As many steps as fit into the time between two questions. */
static uint32_t
steps_to_propose(ipu__agreement *agreement, uint64_t step)
{
    uint64_t now = ipu_now_ns();
    uint64_t ns = (now - agreement->asked_ns) / (step - agreement->asked_step) + 1;
    uint64_t steps = ASK_NS / ns;
    agreement->asked_ns = now;
    agreement->asked_step = step;
    return steps < 1 ? 1 : steps > MOST_STEPS ? MOST_STEPS : (uint32_t)steps;
}

ipu_status
ipu__agree_to_go_on(ipu_ctx *ctx, ipu_executor *executor, bool *stops)
{
    ipu__agreement *agreement = executor->agreement;
    uint64_t step = executor->stats->steps;
    bool wants_to_stop = *stops;
    uint32_t steps = 1;
    *stops = false;
    if (step < agreement->ask_at) {
        return IPU_OK;
    }
    if (agreement->is_asking) {
        agreement->is_asking = false;
        IPU_TRY(wait_for(ctx, executor, &agreement->step.exchange));
        *stops = read_answers(executor, &steps);
        if (*stops) {
            agreement->has_stopped = true;
            return IPU_OK;
        }
    }
    agreement->step_notes[executor->process] = (step_note){
        .wants_to_stop = wants_to_stop, .steps = steps_to_propose(agreement, step)};
    agreement->is_asking = true;
    agreement->ask_at = step + steps;
    ipu_peers_post(executor->peers, &agreement->step.exchange);
    return IPU_OK;
}

/* --- the end ----------------------------------------------------------------------- */

/* Whether all others end their runs the same way, soon. */
static bool
ends_alike(ipu_executor *executor, ipu_status status, bool was_asking)
{
    ipu__agreement *agreement = executor->agreement;
    ipu_ctx own;
    ipu_ctx_init(&own, ipu_allocator_default());
    agreement->notes[executor->process] =
        (note){.kind = NOTE_ENDS, .status = (uint32_t)status};
    ipu_peers_post(executor->peers, &agreement->run.exchange);
    const int32_t gives_up = 1;
    bool is_alike = ipu_exchange_wait(&own, executor->peers, &agreement->run.exchange,
                                      &gives_up, IPU__PEERS_GRACE_NS) == IPU_OK;
    if (is_alike && was_asking) {
        is_alike = ipu_exchange_wait(&own, executor->peers, &agreement->step.exchange,
                                     &gives_up, IPU__PEERS_GRACE_NS) == IPU_OK;
    }
    for (uint32_t i = 0; is_alike && i < ipu_peers_count(executor->peers); i++) {
        is_alike = agreement->notes[i].kind == NOTE_ENDS &&
                   agreement->notes[i].status == (uint32_t)status;
    }
    return is_alike;
}

ipu_status
ipu__agree_to_end(ipu_ctx *ctx, ipu_executor *executor, ipu_status status)
{
    ipu__agreement *agreement = executor->agreement;
    bool was_asking = agreement->is_asking;
    agreement->is_asking = false;
    if (status == IPU_OK) {
        return was_asking ? wait_for(ctx, executor, &agreement->step.exchange) : IPU_OK;
    }
    char reason[900];
    if (ipu_peers_has_failed(executor->peers, reason, sizeof(reason))) {
        return status;
    }
    bool is_alike = agreement->has_stopped ||
                    (status == IPU_STATUS_OUT_OF_RANGE &&
                     ends_alike(executor, status, was_asking));
    if (!is_alike) {
        ipu_peers_fail(executor->peers, "%s", ctx->message);
    }
    return status;
}
