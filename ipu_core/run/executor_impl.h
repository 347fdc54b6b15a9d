/* SPDX-License-Identifier: MIT
 *
 * The parts of the engine: executor.c makes and binds it and runs a program of one
 * stream, replica.c has what each replica has, meeting.c what they get where they meet,
 * agreement.c what processes agree on, stream_operands.c makes a stream and
 * finds what its operands point to, stream.c runs its instructions, region.c those
 * among which no thread waits, blocked.c knows what a stream waits for, scheduler.c
 * shares out several streams among the workers. */
#ifndef IPU_RUN_EXECUTOR_IMPL_H
#define IPU_RUN_EXECUTOR_IMPL_H

#include <stdatomic.h>

#include "base/clock.h"
#include "base/event.h"
#include "kernels/core/collective.h"
#include "peers/peers.h"
#include "run/device_impl.h"
#include "run/executor.h"
#include "run/run_impl.h"

/* An operand that lies in an element of an infeed. */
typedef struct ipu__patch {
    uint32_t component; /* of all infeeds */
    size_t operand;
} ipu__patch;

/* An operand that lies in a ring, and moves with the micro-batch. */
typedef struct ipu__ring_use {
    uint32_t ring;
    size_t operand;
} ipu__ring_use;

/* An input or output of the program. */
typedef struct ipu__buffer {
    bool is_used;     /* by some instruction */
    bool needs_slack; /* some kernel may read past its end */
    bool has_slack;   /* in the next run */
    void *data;       /* in this run: the caller's memory, or a copy */
    char *copy;       /* made where it is needed first */
    size_t copy_bytes;
} ipu__buffer;

/* An operand that is one. */
typedef struct ipu__buffer_use {
    const ipu__buffer *buffer;
    size_t operand;
} ipu__buffer_use;

/* Messages between two streams: a ring, of which each side moves one counter. */
typedef struct ipu__channel {
    const ipu_channel *code;
    char *ring;
    size_t message_bytes;
    _Alignas(64) _Atomic uint64_t sent;
    _Alignas(64) _Atomic uint64_t received;
} ipu__channel;

static inline bool
ipu__channel_has_room(ipu__channel *channel)
{
    return atomic_load(&channel->sent) - atomic_load(&channel->received) <
           channel->code->depth;
}

static inline bool
ipu__channel_has_message(ipu__channel *channel)
{
    return atomic_load(&channel->sent) != atomic_load(&channel->received);
}

/* How a stream gets on. */
typedef enum ipu__progress {
    IPU__GOES_ON,
    IPU__HALTED,
    IPU__STEP_END,    /* at a NEXT, once; then has_ended_step lets it pass */
    IPU__FORKED,      /* at a PIPELINE, once; then it would block until that is over */
    IPU__WOULD_BLOCK, /* at an instruction that waits for something */
    IPU__FAILED       /* the stream's context says why */
} ipu__progress;

typedef struct ipu__replica ipu__replica;

typedef struct ipu__stream {
    const ipu_stream *code;
    const ipu_kernel_spec *specs;
    ipu_executor *executor;
    const ipu__replica *replica;
    uint32_t number; /* in the program */
    char *slab;
    char *remote;          /* its remote memory */
    size_t *first_operand; /* per instruction */
    void **operands; /* inputs, then outputs, of one instruction after the other */
    size_t operand_count;
    IPU_ARRAY(ipu__patch) patches;
    IPU_ARRAY(ipu__ring_use) ring_uses;
    size_t *first_ring_use; /* per instruction, and one more */
    IPU_ARRAY(ipu__buffer_use) buffers;
    uint8_t *writes_variable; /* per instruction; of a region: the first */
    int64_t *counters;        /* per loop: turns left */

    /* the position in a run */
    size_t at;
    size_t back;                /* after the action whose routine it is in */
    uint32_t depth;             /* of loops inside of a step */
    struct ipu__stream *parent; /* whose pipeline it belongs to */
    atomic_uint children;       /* of its pipeline, that have not halted */
    bool has_forked;            /* its pipeline has been started */
    bool has_ended_step;
    struct ipu__meeting *led; /* for all replicas here: other processes are asked */
    bool has_written;       /* a variable, since the step began */
    uint64_t cancelled_ns;  /* when it first saw the flag in a step; 0: not yet */
    uint64_t began_ns;      /* the action that it is in; 0: that is not recorded */
    ipu_action_span *spans; /* by action; NULL: nobody wants to know */
    ipu_random_key batch;   /* of micro-batch 0, in a loop of micro-batches */
    ipu_kernel_call call; /* what all kernel calls have in common, and the random key */
    ipu_ctx *ctx;
    atomic_bool is_blocked; /* others tell when they send or receive */
} ipu__stream;

/* One replica's. */
struct ipu__replica {
    uint32_t number; /* among those of this process */
    ipu__stream *streams;
    ipu__channel *channels;
    void **resources; /* a variable's data, or a queue */
    ipu__buffer *outputs;
};

/* No stream can go on before a feeder or a drainer has done something. */
typedef struct ipu__wait {
    ipu_event_kind kind; /* INFEED_WAIT, OUTFEED_WAIT or PEER_WAIT */
    uint64_t since_ns;   /* 0: nobody waits */
    uint64_t
        over_since_ns; /* of one that is over, and not noted yet; 0: there is none */
    uint64_t over_until_ns;
    bool is_paused;        /* hosts are at the variables */
    uint64_t cancelled_ns; /* when the flag was seen first; 0: not yet */
} ipu__wait;

/* A collective (meeting.c). */
typedef struct ipu__meeting ipu__meeting;
/* What the processes agree on in a run (agreement.c). */
typedef struct ipu__agreement ipu__agreement;

typedef struct ipu__workspace {
    char *memory;
    bool is_taken;
} ipu__workspace;

struct ipu_executor {
    const ipu_program *program;
    ipu_device *device;
    ipu_arena arena;    /* of all tables; what is large, or grows, is not in it */
    ipu_pool *pool;     /* may be NULL */
    ipu_pool *own_pool; /* where streams need one and there is none */
    ipu_peers *peers;            /* the device's; NULL: this process is alone */
    ipu__agreement *agreement;   /* NULL: the program runs here alone */
    uint32_t process;
    uint32_t replica_count; /* of this process */
    uint32_t first_replica; /* of this process, among all */
    uint32_t replica_total; /* of all processes */
    ipu__replica *replicas;
    size_t stream_count;  /* of all replicas */
    ipu__stream *streams; /* by replica */
    ipu__meeting *meetings;
    uint64_t runner;   /* what the device knows the program by */
    ipu_ctx *contexts; /* of several streams */
    ipu_lock lock;     /* of scheduler.c, which uses the states */
    uint8_t *states;
    void **found;               /* by replica and resource: what is bound next */
    ipu__workspace *workspaces; /* one for each thread that can be at a stream */
    size_t workspace_count;
    size_t workspace_bytes;
    ipu__buffer *inputs; /* of the program */
    uint64_t generation; /* of the device, when it was bound */
    uint64_t own_seed;   /* without a device */
    uint64_t own_step;
    uint32_t recording; /* the recorder's generation, */
    uint64_t steps_met; /* and the steps since that began */
    /* of the run */
    ipu__wait wait;
    bool is_recorded; /* this step */
    uint64_t step_ns; /* when it began; 0: it is not recorded */
    const int32_t *cancel;
    pthread_t thread; /* that runs the program, and functions of the host's */
    ipu_run_stats *stats;
};

/* How long a cancelled run may take to reach the end of a step; of several processes,
 * which stop together, each waits so long for the others. */
enum { IPU__CANCEL_GRACE_NS = 200 * 1000 * 1000 };
#define IPU__PEERS_GRACE_NS (INT64_C(3) * 1000 * 1000 * 1000)

/* Whether a run that is cancelled stops where it is: at once where the variables are
 * whole, else when it has had time to end the step. *since is when that was first asked
 * of a cancelled run; 0: not yet. */
static inline bool
ipu__stops_here(const ipu_executor *executor, bool is_whole, uint64_t *since)
{
    if (!ipu__is_cancelled(executor->cancel)) {
        return false;
    }
    uint64_t now = ipu_now_ns();
    *since = *since == 0 ? now : *since;
    int64_t grace = executor->agreement != NULL ? IPU__PEERS_GRACE_NS
                    : is_whole                  ? 0
                                                : IPU__CANCEL_GRACE_NS;
    return (int64_t)(now - *since) >= grace;
}

static inline bool
ipu__executor_is_here(const ipu_executor *executor)
{
    return pthread_equal(executor->thread, pthread_self()) != 0;
}

/* --- stream_operands.c, stream.c ------------------------------------------------- */

ipu_status ipu__stream_create(ipu_ctx *ctx, ipu_executor *executor,
                              const ipu__replica *replica, uint32_t number);
void ipu__stream_free(ipu_ctx *ctx, ipu__stream *stream);
/* Resolves all operands but those in elements of infeeds, inputs and outputs. */
void ipu__stream_bind(ipu__stream *stream);
/* To the first instruction, with the inputs and outputs of a run. */
void ipu__stream_reset(ipu__stream *stream);
/* A new step: what random ops draw from until the next one. */
static inline void
ipu__stream_begin_step(ipu__stream *stream, const ipu_random_key *key)
{
    stream->call.random = *key;
    stream->call.random.replica =
        stream->executor->first_replica + stream->replica->number;
    stream->has_written = false;
}
/* The subject of what it does. */
static inline uint64_t
ipu__stream_subject(const ipu__stream *stream, size_t at)
{
    const ipu_executor *executor = stream->executor;
    return ipu_program_subject(executor->program,
                               (uint32_t)(stream - executor->streams), at);
}
/* Runs until it halts, fails, ends a step or would block. */
ipu__progress ipu__stream_run(ipu__stream *stream);

/* --- blocked.c -------------------------------------------------------------------- */

/* Whether it would not block any more. */
bool ipu__stream_can_go_on(ipu__stream *stream);
/* Whether it has come to a function of the host's. */
bool ipu__stream_waits_for_thread(const ipu__stream *stream);
/* Whether it waits for a thread that is none of the engine's: a feeder or a drainer. */
bool ipu__stream_waits_for_host(const ipu__stream *stream);
/* Where it is and what it waits for; returns text. */
const char *ipu__stream_describe(const ipu__stream *stream, char *text, size_t bytes);

/* --- region.c --------------------------------------------------------------------- */

/* Rows that a thread takes through a region at a time, where there are enough. */
enum { IPU__REGION_ROWS = 64 };

/* How many parts of a region can run at a time. */
static inline uint32_t
ipu__region_workspaces(int32_t threads)
{
    return threads < 64 ? (uint32_t)threads : 64;
}

/* The workspace of each. */
static inline size_t
ipu__region_part_bytes(const ipu_program *program)
{
    return ipu_buffer_round_up(program->part_bytes);
}

/* Where it fails *at is the instruction that did. */
ipu_status ipu__region_run(ipu__stream *stream, const ipu_region *region, size_t *at);

/* --- replica.c -------------------------------------------------------------------- */

ipu_status ipu__replicas_create(ipu_ctx *ctx, ipu_executor *executor);
void ipu__replicas_free(ipu_ctx *ctx, ipu_executor *executor);
/* Variables, channels and meetings as a run wants to find them. */
ipu_status ipu__replicas_reset(ipu_ctx *ctx, ipu_executor *executor);

/* --- meeting.c -------------------------------------------------------------------- */

ipu_status ipu__meetings_create(ipu_ctx *ctx, ipu_executor *executor);
void ipu__meetings_free(ipu_ctx *ctx, ipu_executor *executor);
void ipu__meetings_reset(ipu_executor *executor);
/* A collective of several replicas. */
void ipu__meeting_post(ipu__stream *stream, const ipu_instruction *post,
                       void **operands);
/* Whether a stream that waits there can go on. */
bool ipu__meeting_is_over(const ipu__stream *stream, const ipu_instruction *wait);
/* Whether other processes have been asked. */
bool ipu__meeting_waits_for_peers(const ipu__stream *stream,
                                  const ipu_instruction *wait);
/* Whether something has come for a meeting that the stream leads, */
bool ipu__meetings_can_go_on(const ipu__stream *stream);
/* and what follows from that. */
ipu_status ipu__meetings_go_on(ipu__stream *stream);

/* --- agreement.c ------------------------------------------------------------------ */

ipu_status ipu__agreement_create(ipu_ctx *ctx, ipu_executor *executor);
/* All processes begin the same run: what differs is an error in all of them. The random
 * state becomes that of process 0. *is_changed: whether this process's variables are not
 * as the program left them; then whether some process's are not. */
ipu_status ipu__agree_to_begin(ipu_ctx *ctx, ipu_executor *executor, bool *is_changed);
/* A variable that lies in parts of all processes is made whole, in all of them. */
ipu_status ipu__agree_on_parts(ipu_ctx *ctx, ipu_executor *executor,
                               const ipu_resource *variable, ipu__parts parts);
/* All get the variables of process 0, which lie alike. */
ipu_status ipu__agree_on_variables(ipu_ctx *ctx, ipu_executor *executor);
/* The end of a step: whether all stop there, since one of them wants to. */
ipu_status ipu__agree_to_go_on(ipu_ctx *ctx, ipu_executor *executor, bool *stops);
/* The end of the run, with this status: what is under way is over. */
ipu_status ipu__agree_to_end(ipu_ctx *ctx, ipu_executor *executor, ipu_status status);

/* --- executor.c ------------------------------------------------------------------- */

/* The end of a step, for all streams: the step counter moves on, hosts get at the
 * variables, the cancel flag is looked at. */
ipu_status ipu__executor_end_step(ipu_ctx *ctx, ipu_executor *executor);
/* Where a variable was removed from the device, or moved: what the program needs may be
 * gone. */
ipu_status ipu__executor_rebind(ipu_ctx *ctx, ipu_executor *executor);
void ipu__free_copies(ipu_ctx *ctx, const ipu__buffer *buffers, uint32_t count);
/* The stream, and all others, wait for a host. */
void ipu__wait_begin(ipu_executor *executor, const ipu__stream *stream);
/* Lets hosts at the variables, where no stream has written one in this step: the feeder
 * may be one of them. */
void ipu__wait_pause(ipu_executor *executor);
/* Whether the run is to stop instead of waiting on. */
bool ipu__wait_is_cancelled(ipu_executor *executor);
/* Streams go on: hosts leave the variables. A variable that was removed meanwhile is
 * an error here. */
ipu_status ipu__wait_end(ipu_ctx *ctx, ipu_executor *executor);
/* Notes a wait that is over, without a lock. */
void ipu__wait_note(const ipu_executor *executor, ipu__wait wait);

/* --- scheduler.c ------------------------------------------------------------------ */

/* Something has come that a stream of the executor may wait for. Any thread. */
void ipu__executor_hear(void *executor);

/* Runs all streams to their end. */
ipu_status ipu__schedule_run(ipu_ctx *ctx, ipu_executor *executor);

#endif
