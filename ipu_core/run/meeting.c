/* SPDX-License-Identifier: MIT
 *
 * Collectives: where the replicas of a program meet.
 *
 * At a POST a replica leaves its operands at the meeting and goes on; at the WAIT it
 * needs what the meeting gives. The last one of this process to come computes for all,
 * with what threads of the pool are free, and ends the round. The next round of the same
 * meeting cannot begin to compute before all have left this one, since all have to come
 * again.
 *
 * Where a group has replicas in other processes, too, that stream leads: it posts an
 * exchange, looks after it between its instructions, and ends the round at last. An
 * all-reduce is two exchanges. The elements are cut into a chunk for each process. In
 * the first one each process sends the terms that it can make of its own replicas, the
 * largest nodes of the sum's tree that it has whole, to the chunks' processes; these add
 * them up, and send the sums to all in the second one. So a process sends no more bytes
 * than around a ring, and a sum has the bits that it would have in one process. A small
 * all-reduce, or one of two processes that do something else meanwhile, is one exchange:
 * each makes all chunks. So is a reduce-scatter: its chunks are what the replicas of a
 * process keep. Where nothing is added, replicas send each other their parts as they
 * are. Sums that are posted at once, a bucket, share their exchanges.
 *
 *     group of 6 replicas, 3 in a process     0 1 2 | 3 4 5
 *     its tree: ((0+1)+(2+3))+(4+5)           terms: 0+1, 2 | 3, 4+5
 */
#include <string.h>

#include "run/executor_impl.h"

/* One exchange, of everything with everyone, is better than two where it sends no more
 * than so many bytes in addition: after it a sum needs nothing of the others, which may
 * be in the middle of a long kernel. Of more bytes than SMALL two are quicker, where all
 * do nothing but wait. */
enum { SMALL_BYTES = 1 << 20, MORE_BYTES = 1 << 15, CHUNK_ELEMENTS = 16 };

/* A group of replicas, as far as it is in this process. */
typedef struct party {
    uint32_t first;         /* its first replica, of all processes */
    uint32_t size;          /* replicas */
    uint32_t local;         /* the first one here, */
    uint32_t local_count;   /* and how many follow */
    uint32_t place;         /* in the group, of its first one here */
    uint32_t first_process; /* of those that have one of its replicas */
    uint32_t processes;
    ipu_sum_term *terms; /* of the whole group, in order */
    uint32_t *owners;    /* the process that makes each */
    uint32_t term_count;
    char *staged; /* terms that are not an operand: made here, or received */
} party;

/* One of a meeting's, with an operand of each replica. */
typedef struct collective {
    const ipu_kernel_spec *spec;
    uint32_t group;
    uint32_t replicas;   /* of a process */
    int64_t elements;    /* of an operand */
    int64_t part;        /* of these: what replicas deal out to each other */
    bool is_awaited;     /* at once */
    ipu_sum_term *terms; /* by local replica: its operand */
    void **outputs;
    party *parties;
    uint32_t party_count;
} collective;

struct ipu__meeting {
    collective *collectives;
    uint32_t count;
    uint64_t *rounds; /* by local replica: the one that it came to */
    _Atomic uint32_t arrived;
    _Atomic uint64_t round;
    /* of the stream that leads */
    ipu__meeting *next; /* of those that it leads */
    atomic_bool is_led;
    bool has_sums; /* the second exchange is under way */
    ipu_exchange exchange;
    ipu_message *sends;
    ipu_message *receives;
    char *memory; /* of what is staged */
    size_t memory_bytes;
};

/* --- making ------------------------------------------------------------------------ */

static uint32_t
process_of(const ipu_executor *executor, uint32_t replica)
{
    return replica / executor->replica_count;
}

/* The largest nodes of the tree from `first` to before `last` that lie in `from` to
 * before `to`; without `terms` they are only counted. */
static void
cut_terms(uint32_t first, uint32_t last, uint32_t from, uint32_t to,
          ipu_sum_term *terms, uint32_t *count)
{
    if (last <= from || to <= first) {
        return;
    }
    if (from <= first && last <= to) {
        if (terms != NULL) {
            terms[*count] = (ipu_sum_term){
                .first = first, .last = last, .is_wide = last - first > 1};
        }
        ++*count;
        return;
    }
    uint32_t cut = ipu_sum_cut(first, last);
    cut_terms(first, cut, from, to, terms, count);
    cut_terms(cut, last, from, to, terms, count);
}

/* The terms of all processes, or their number. */
static uint32_t
cut_all_terms(const ipu_executor *executor, const party *p, ipu_sum_term *terms,
              uint32_t *owners)
{
    uint32_t count = 0;
    uint32_t each = executor->replica_count;
    for (uint32_t i = 0; i < p->processes; i++) {
        uint32_t process = p->first_process + i;
        uint32_t from = process * each > p->first ? process * each - p->first : 0;
        uint32_t to = (process + 1) * each - p->first;
        uint32_t before = count;
        cut_terms(0, p->size, from, to < p->size ? to : p->size, terms, &count);
        for (uint32_t k = before; owners != NULL && k < count; k++) {
            owners[k] = process;
        }
    }
    return count;
}

static void
find_party(const ipu_executor *executor, const collective *c, uint32_t number, party *p)
{
    uint32_t begin = executor->first_replica;
    uint32_t end = begin + executor->replica_count;
    p->size = c->group;
    p->first = (begin / p->size + number) * p->size;
    uint32_t from = p->first > begin ? p->first : begin;
    uint32_t to = p->first + p->size < end ? p->first + p->size : end;
    p->local = from - begin;
    p->place = from - p->first;
    p->local_count = to - from;
    p->first_process = process_of(executor, p->first);
    p->processes = process_of(executor, p->first + p->size - 1) - p->first_process + 1;
}

static size_t
term_bytes(const collective *c, const ipu_sum_term *term)
{
    ipu_dtype dtype =
        term->is_wide ? ipu_sum_dtype(c->spec) : c->spec->outputs[0].dtype;
    return ipu_dtype_bytes(dtype);
}

static bool
is_across(const party *p)
{
    return p->local_count < p->size;
}

static bool
is_of(const collective *c, ipu_op op)
{
    return c->spec->op == op;
}

static bool
is_sum(const collective *c)
{
    return is_of(c, IPU_OP_ID_ALL_REDUCE) || is_of(c, IPU_OP_ID_REDUCE_SCATTER);
}

static size_t
part_bytes(const collective *c)
{
    return (size_t)c->part * ipu_dtype_bytes(c->spec->outputs[0].dtype);
}

/* Whether each process makes all sums. */
static bool
is_small(const collective *c, const party *p)
{
    size_t bytes = part_bytes(c);
    size_t others = p->processes - 1;
    return is_of(c, IPU_OP_ID_ALL_REDUCE) && (bytes <= SMALL_BYTES || !c->is_awaited) &&
           others * (bytes - 2 * bytes / p->processes) <= MORE_BYTES;
}

/* The first element of the chunk of a party's process, by its place in the party. */
static int64_t
chunk_begin(const collective *c, const party *p, uint32_t place)
{
    if (is_small(c, p)) {
        return 0;
    }
    if (is_of(c, IPU_OP_ID_REDUCE_SCATTER)) {
        uint32_t replica = (p->first_process + place) * c->replicas;
        uint32_t before = replica < p->first ? 0 : replica - p->first;
        return (before < p->size ? before : p->size) * c->part;
    }
    return place == p->processes
               ? c->elements
               : c->elements / p->processes * place / CHUNK_ELEMENTS * CHUNK_ELEMENTS;
}

static int64_t
chunk_end(const collective *c, const party *p, uint32_t place)
{
    return is_small(c, p) ? c->elements : chunk_begin(c, p, place + 1);
}

/* Whether a term needs memory of its own: of `term` only the process's chunk, if it is
 * another process's. */
static int64_t
staged_elements(const ipu_executor *executor, const collective *c, const party *p,
                uint32_t term)
{
    uint32_t own = executor->process;
    if (p->owners[term] == own) {
        return p->terms[term].is_wide ? c->elements : 0;
    }
    return chunk_end(c, p, own - p->first_process) -
           chunk_begin(c, p, own - p->first_process);
}

static ipu_status
make_party(ipu_ctx *ctx, ipu_executor *executor, collective *c, party *p, size_t *bytes)
{
    ipu_arena *arena = &executor->arena;
    p->term_count = cut_all_terms(executor, p, NULL, NULL);
    IPU_TRY(ipu_arena_array(ctx, arena, p->term_count, sizeof(*p->terms), &p->terms));
    IPU_TRY(ipu_arena_array(ctx, arena, p->term_count, sizeof(*p->owners), &p->owners));
    (void)cut_all_terms(executor, p, p->terms, p->owners);
    for (uint32_t i = 0; i < p->term_count; i++) {
        ipu_sum_term *term = &p->terms[i];
        size_t whole;
        int64_t elements = staged_elements(executor, c, p, i);
        IPU_TRY(ipu_mul_size(ctx, (size_t)elements, term_bytes(c, term), &whole));
        if (p->owners[i] != executor->process) {
            term->begin = chunk_begin(c, p, executor->process - p->first_process);
        }
        term->data = (void *)(uintptr_t)*bytes; /* an offset, until there is memory */
        *bytes += ipu_buffer_round_up(whole);
    }
    return IPU_OK;
}

/* Its parties' terms, whose memory comes after *bytes, and the most messages that it
 * takes, each way. */
static ipu_status
make_parties(ipu_ctx *ctx, ipu_executor *executor, collective *c, size_t *bytes,
             size_t *messages)
{
    for (uint32_t i = 0; i < c->party_count; i++) {
        party *p = &c->parties[i];
        find_party(executor, c, i, p);
        if (is_across(p) && is_sum(c)) {
            IPU_TRY(make_party(ctx, executor, c, p, bytes));
            *messages += (size_t)p->processes * p->term_count;
        } else if (is_across(p)) {
            *messages += (size_t)p->local_count * (p->size - p->local_count);
        }
    }
    return IPU_OK;
}

static ipu_status
make_collective(ipu_ctx *ctx, ipu_executor *executor, collective *c,
                const ipu_kernel_spec *spec)
{
    ipu_arena *arena = &executor->arena;
    uint32_t count = executor->replica_count;
    uint32_t first = executor->first_replica;
    IPU_TRY(ipu_collective_check(ctx, spec, executor->replica_total));
    c->spec = spec;
    c->group = ipu_collective_group(spec, executor->replica_total);
    c->replicas = count;
    c->elements = ipu_shape_elements(&spec->inputs[0].shape);
    c->part = c->elements;
    if (is_of(c, IPU_OP_ID_REDUCE_SCATTER) || is_of(c, IPU_OP_ID_ALL_TO_ALL)) {
        c->part /= c->group;
    }
    IPU_TRY(ipu_arena_array(ctx, arena, count, sizeof(ipu_sum_term), &c->terms));
    IPU_TRY(ipu_arena_array(ctx, arena, count, sizeof(void *), &c->outputs));
    for (uint32_t r = 0; r < count; r++) {
        uint32_t place = (first + r) % c->group;
        c->terms[r] = (ipu_sum_term){.first = place, .last = place + 1};
    }
    c->party_count = (first + count - 1) / c->group - first / c->group + 1;
    return ipu_arena_array(ctx, arena, c->party_count, sizeof(party), &c->parties);
}

static ipu_status
make_meeting(ipu_ctx *ctx, ipu_executor *executor, const ipu_instruction *post)
{
    const ipu_instruction *next = post + 1; /* a HALT is after all */
    ipu_arena *arena = &executor->arena;
    ipu__meeting *meeting = &executor->meetings[post->meeting];
    size_t bytes = 0;
    size_t messages = 0;
    meeting->count = post->spec_count;
    IPU_TRY(ipu_arena_array(ctx, arena, meeting->count, sizeof(collective),
                            &meeting->collectives));
    IPU_TRY(ipu_arena_array(ctx, arena, executor->replica_count, sizeof(uint64_t),
                            &meeting->rounds));
    for (uint32_t k = 0; k < meeting->count; k++) {
        collective *c = &meeting->collectives[k];
        c->is_awaited =
            next->kind == IPU_INSTRUCTION_WAIT && next->meeting == post->meeting;
        IPU_TRY(make_collective(ctx, executor, c,
                                &executor->program->specs.items[post->spec + k]));
        IPU_TRY(make_parties(ctx, executor, c, &bytes, &messages));
    }
    IPU_TRY(
        ipu_arena_array(ctx, arena, messages, sizeof(ipu_message), &meeting->sends));
    IPU_TRY(
        ipu_arena_array(ctx, arena, messages, sizeof(ipu_message), &meeting->receives));
    IPU_TRY(ipu_alloc(ctx, bytes, &meeting->memory));
    meeting->memory_bytes = bytes;
    for (uint32_t k = 0; k < meeting->count; k++) {
        const collective *c = &meeting->collectives[k];
        for (uint32_t i = 0; i < c->party_count; i++) {
            const party *p = &c->parties[i];
            for (uint32_t t = 0; t < p->term_count; t++) {
                p->terms[t].data = meeting->memory + (uintptr_t)p->terms[t].data;
            }
        }
    }
    meeting->exchange = (ipu_exchange){
        .channel = IPU_CHANNEL_MEETINGS + post->meeting,
        .sends = meeting->sends,
        .receives = meeting->receives,
        .hear = ipu__executor_hear,
        .hearer = executor,
    };
    return IPU_OK;
}

ipu_status
ipu__meetings_create(ipu_ctx *ctx, ipu_executor *executor)
{
    const ipu_program *program = executor->program;
    IPU_TRY(ipu_arena_array(ctx, &executor->arena, program->meeting_count,
                            sizeof(ipu__meeting), &executor->meetings));
    for (size_t s = 0; s < program->streams.count; s++) {
        const ipu_stream *stream = &program->streams.items[s];
        for (size_t i = 0; i < stream->instructions.count; i++) {
            const ipu_instruction *one = &stream->instructions.items[i];
            if (one->kind == IPU_INSTRUCTION_POST) {
                IPU_TRY(make_meeting(ctx, executor, one));
            }
        }
    }
    return IPU_OK;
}

void
ipu__meetings_free(ipu_ctx *ctx, ipu_executor *executor)
{
    for (uint32_t i = 0;
         executor->meetings != NULL && i < executor->program->meeting_count; i++) {
        ipu__meeting *meeting = &executor->meetings[i];
        ipu_free(ctx, meeting->memory, meeting->memory_bytes);
    }
}

void
ipu__meetings_reset(ipu_executor *executor)
{
    for (uint32_t i = 0; i < executor->program->meeting_count; i++) {
        ipu__meeting *meeting = &executor->meetings[i];
        atomic_store(&meeting->arrived, 0);
        atomic_store(&meeting->is_led, false);
        meeting->has_sums = false;
    }
}

/* --- across processes -------------------------------------------------------------- */

static void
push(ipu_message *messages, uint32_t *count, uint32_t process, const void *data,
     size_t bytes)
{
    if (bytes > 0) { /* both sides leave out what is empty */
        messages[(*count)++] = (ipu_message){process, (void *)(uintptr_t)data, bytes};
    }
}

/* Makes the terms of this process's replicas. */
static void
make_terms(const ipu_executor *executor, const collective *c, const party *p)
{
    for (uint32_t i = 0; i < p->term_count; i++) {
        ipu_sum_term *term = &p->terms[i];
        if (p->owners[i] != executor->process) {
            continue;
        }
        uint32_t own = p->first + term->first - executor->first_replica;
        if (!term->is_wide) {
            term->data = c->terms[own].data;
            continue;
        }
        void *output = (void *)(uintptr_t)term->data;
        ipu_sum_run(&(ipu_sum){.spec = c->spec,
                               .group = p->size,
                               .first = term->first,
                               .last = term->last,
                               .terms = &c->terms[own],
                               .end = c->elements,
                               .outputs = &output,
                               .output_count = 1,
                               .is_partial = true},
                    executor->pool);
    }
}

static void
exchange_terms(const ipu_executor *executor, ipu__meeting *meeting, const collective *c,
               const party *p)
{
    ipu_exchange *exchange = &meeting->exchange;
    uint32_t own = executor->process - p->first_process;
    for (uint32_t i = 0; i < p->term_count; i++) {
        const ipu_sum_term *term = &p->terms[i];
        size_t each = term_bytes(c, term);
        if (p->owners[i] != executor->process) {
            int64_t n = chunk_end(c, p, own) - chunk_begin(c, p, own);
            push(meeting->receives, &exchange->receive_count, p->owners[i], term->data,
                 (size_t)n * each);
            continue;
        }
        for (uint32_t place = 0; place < p->processes; place++) {
            int64_t begin = chunk_begin(c, p, place);
            int64_t n = chunk_end(c, p, place) - begin;
            if (place != own) {
                push(meeting->sends, &exchange->send_count, p->first_process + place,
                     (const char *)term->data + (size_t)begin * each, (size_t)n * each);
            }
        }
    }
}

static void
exchange_sums(const ipu_executor *executor, ipu__meeting *meeting, const collective *c,
              const party *p)
{
    ipu_exchange *exchange = &meeting->exchange;
    uint32_t own = executor->process - p->first_process;
    size_t each = ipu_dtype_bytes(c->spec->outputs[0].dtype);
    char *output = c->outputs[p->local];
    int64_t own_begin = chunk_begin(c, p, own);
    int64_t own_end = chunk_end(c, p, own);
    for (uint32_t place = 0; place < p->processes; place++) {
        uint32_t process = p->first_process + place;
        int64_t begin = chunk_begin(c, p, place);
        int64_t end = chunk_end(c, p, place);
        if (place != own) {
            push(meeting->receives, &exchange->receive_count, process,
                 output + (size_t)begin * each, (size_t)(end - begin) * each);
            push(meeting->sends, &exchange->send_count, process,
                 output + (size_t)own_begin * each,
                 (size_t)(own_end - own_begin) * each);
        }
    }
}

/* The sums that this process makes: of its chunk, or for its replicas. */
static void
sum_terms(const ipu_executor *executor, const collective *c, const party *p)
{
    uint32_t own = executor->process - p->first_process;
    ipu_sum sum = {.spec = c->spec,
                   .group = p->size,
                   .last = p->size,
                   .terms = is_across(p) ? p->terms : &c->terms[p->local],
                   .begin = chunk_begin(c, p, own),
                   .end = chunk_end(c, p, own),
                   .outputs = &c->outputs[p->local],
                   .output_count = is_across(p) ? 1 : p->local_count};
    if (is_of(c, IPU_OP_ID_ALL_REDUCE)) {
        ipu_sum_run(&sum, executor->pool);
        return;
    }
    sum.output_count = 1;
    for (uint32_t r = 0; r < p->local_count; r++) {
        sum.begin = sum.output_begin = (p->place + r) * c->part;
        sum.end = sum.begin + c->part;
        sum.outputs = &c->outputs[p->local + r];
        ipu_sum_run(&sum, executor->pool);
    }
}

/* --- parts that are only moved ----------------------------------------------------- */

/* How many replicas here get parts of their own; all get the same of an all-gather. */
static uint32_t
takers(const collective *c, const party *p)
{
    return is_of(c, IPU_OP_ID_ALL_GATHER) ? 1 : p->local_count;
}

/* What a replica here has for the one at a place of its party. */
static const char *
part_for(const collective *c, uint32_t local, uint32_t place)
{
    size_t offset = is_of(c, IPU_OP_ID_ALL_GATHER) ? 0 : place * part_bytes(c);
    return (const char *)c->terms[local].data + offset;
}

static void
move_parts(const collective *c, const party *p)
{
    size_t bytes = part_bytes(c);
    for (uint32_t to = 0; to < takers(c, p); to++) {
        char *output = c->outputs[p->local + to];
        for (uint32_t from = 0; from < p->local_count; from++) {
            ipu_copy_bytes(output + (p->place + from) * bytes,
                           part_for(c, p->local + from, p->place + to), bytes);
        }
    }
}

/* Messages of two processes go by sender, then by receiver. */
static void
exchange_parts(ipu__meeting *meeting, const collective *c, const party *p)
{
    ipu_exchange *exchange = &meeting->exchange;
    size_t bytes = part_bytes(c);
    bool is_same = is_of(c, IPU_OP_ID_ALL_GATHER);
    for (uint32_t r = 0; r < p->local_count; r++) {
        for (uint32_t place = 0; place < p->size; place++) {
            uint32_t process = (p->first + place) / c->replicas;
            bool is_first = place == 0 || (p->first + place) % c->replicas == 0;
            if (place - p->place >= p->local_count && (is_first || !is_same)) {
                push(meeting->sends, &exchange->send_count, process,
                     part_for(c, p->local + r, place), bytes);
            }
        }
    }
    for (uint32_t place = 0; place < p->size; place++) {
        uint32_t process = (p->first + place) / c->replicas;
        for (uint32_t r = 0; place - p->place >= p->local_count && r < takers(c, p);
             r++) {
            push(meeting->receives, &exchange->receive_count, process,
                 (char *)c->outputs[p->local + r] + place * bytes, bytes);
        }
    }
}

/* --- rounds ------------------------------------------------------------------------ */

/* What the first replica here got, all get. */
static void
spread(const collective *c, const party *p)
{
    size_t bytes = ipu_type_bytes(&c->spec->outputs[0]);
    for (uint32_t r = 1; r < p->local_count; r++) {
        ipu_copy_bytes(c->outputs[p->local + r], c->outputs[p->local], bytes);
    }
}

/* All that needs nothing of other processes; whether something else is left: then that
 * is among the exchange's messages. */
static bool
begin_collective(const ipu_executor *executor, ipu__meeting *meeting,
                 const collective *c)
{
    bool is_left = false;
    for (uint32_t i = 0; i < c->party_count; i++) {
        const party *p = &c->parties[i];
        is_left |= is_across(p);
        if (!is_sum(c)) {
            move_parts(c, p);
            exchange_parts(meeting, c, p);
        } else if (is_across(p)) {
            make_terms(executor, c, p);
            exchange_terms(executor, meeting, c, p);
        } else {
            sum_terms(executor, c, p);
        }
        if (!is_across(p) && is_of(c, IPU_OP_ID_ALL_GATHER)) {
            spread(c, p);
        }
    }
    return is_left;
}

/* After the first exchange; whether another one is needed. */
static bool
add_up(const ipu_executor *executor, ipu__meeting *meeting, const collective *c)
{
    bool is_left = false;
    for (uint32_t i = 0; is_sum(c) && i < c->party_count; i++) {
        const party *p = &c->parties[i];
        if (is_across(p)) {
            sum_terms(executor, c, p);
        }
        if (is_across(p) && is_of(c, IPU_OP_ID_ALL_REDUCE) && !is_small(c, p)) {
            exchange_sums(executor, meeting, c, p);
            is_left = true;
        }
    }
    return is_left;
}

/* After the last one. */
static void
end_collective(const collective *c)
{
    bool is_same = is_of(c, IPU_OP_ID_ALL_REDUCE) || is_of(c, IPU_OP_ID_ALL_GATHER);
    for (uint32_t i = 0; is_same && i < c->party_count; i++) {
        if (is_across(&c->parties[i])) {
            spread(c, &c->parties[i]);
        }
    }
}

/* Whether an exchange is under way. */
static bool
begin_round(const ipu_executor *executor, ipu__meeting *meeting, ipu_source source)
{
    bool is_left = false;
    meeting->exchange.send_count = 0;
    meeting->exchange.receive_count = 0;
    meeting->exchange.source = source;
    meeting->has_sums = false;
    for (uint32_t k = 0; k < meeting->count; k++) {
        is_left |= begin_collective(executor, meeting, &meeting->collectives[k]);
    }
    if (is_left) {
        ipu_peers_post(executor->peers, &meeting->exchange);
    }
    return is_left;
}

/* After an exchange; whether another one is under way. */
static bool
go_on_with_round(const ipu_executor *executor, ipu__meeting *meeting)
{
    bool is_first = !meeting->has_sums;
    bool is_left = false;
    meeting->exchange.send_count = 0;
    meeting->exchange.receive_count = 0;
    meeting->has_sums = true;
    for (uint32_t k = 0; is_first && k < meeting->count; k++) {
        is_left |= add_up(executor, meeting, &meeting->collectives[k]);
    }
    if (is_left) {
        ipu_peers_post(executor->peers, &meeting->exchange);
        return true;
    }
    for (uint32_t k = 0; k < meeting->count; k++) {
        end_collective(&meeting->collectives[k]);
    }
    return false;
}

/* --- streams ----------------------------------------------------------------------- */

/* See stream.c for how a stream that waits and one that unblocks it find each other. */
static void
tell_others(const ipu__stream *stream)
{
    const ipu_executor *executor = stream->executor;
    bool is_blocked = false;
    for (uint32_t r = 0; r < executor->replica_count; r++) {
        is_blocked |=
            atomic_load(&executor->replicas[r].streams[stream->number].is_blocked);
    }
    if (is_blocked) {
        ipu_pool_announce(executor->pool);
    }
}

static void
end_round(const ipu__stream *stream, ipu__meeting *meeting)
{
    atomic_store(&meeting->is_led, false);
    atomic_store(&meeting->arrived, 0);
    atomic_fetch_add(&meeting->round, 1);
    tell_others(stream);
}

static ipu__meeting *
meeting_of(const ipu__stream *stream, const ipu_instruction *instruction)
{
    return &stream->executor->meetings[instruction->meeting];
}

bool
ipu__meeting_is_over(const ipu__stream *stream, const ipu_instruction *wait)
{
    const ipu__meeting *meeting = meeting_of(stream, wait);
    return atomic_load(&meeting->round) != meeting->rounds[stream->replica->number];
}

bool
ipu__meeting_waits_for_peers(const ipu__stream *stream, const ipu_instruction *wait)
{
    return atomic_load(&meeting_of(stream, wait)->is_led);
}

void
ipu__meeting_post(ipu__stream *stream, const ipu_instruction *post, void **operands)
{
    ipu_executor *executor = stream->executor;
    ipu__meeting *meeting = meeting_of(stream, post);
    uint32_t own = stream->replica->number;
    for (uint32_t k = 0; k < meeting->count; k++) {
        const collective *c = &meeting->collectives[k];
        c->terms[own].data = operands[k];
        c->outputs[own] = operands[post->input_count + k];
    }
    meeting->rounds[own] = atomic_load(&meeting->round);
    if (atomic_fetch_add(&meeting->arrived, 1) + 1 < executor->replica_count) {
        return;
    }
    if (!begin_round(executor, meeting, post->source)) {
        end_round(stream, meeting);
        return;
    }
    atomic_store(&meeting->is_led, true);
    ipu__meeting **last = &stream->led;
    while (*last != NULL) {
        last = &(*last)->next;
    }
    meeting->next = NULL;
    *last = meeting;
}

bool
ipu__meetings_can_go_on(const ipu__stream *stream)
{
    bool can = false;
    for (const ipu__meeting *one = stream->led; one != NULL; one = one->next) {
        can |= ipu_exchange_is_over(&one->exchange);
    }
    return can;
}

ipu_status
ipu__meetings_go_on(ipu__stream *stream)
{
    ipu_executor *executor = stream->executor;
    ipu__meeting **at = &stream->led;
    ipu_peers_glance(executor->peers);
    while (*at != NULL) {
        ipu__meeting *meeting = *at;
        bool is_left = true;
        if (ipu_exchange_is_over(&meeting->exchange)) {
            IPU_TRY(
                ipu_exchange_result(stream->ctx, executor->peers, &meeting->exchange));
            is_left = go_on_with_round(executor, meeting);
        }
        if (is_left) {
            at = &meeting->next;
            continue;
        }
        *at = meeting->next;
        end_round(stream, meeting);
    }
    return IPU_OK;
}
