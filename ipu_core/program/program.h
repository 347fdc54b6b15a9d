/* SPDX-License-Identifier: MIT
 *
 * A compiled program: flat instructions over numbered places, all sizes known. It is
 * immutable once built and holds no pointer into the graph, so that many executors can
 * share it.
 *
 * It is what one replica does: how many run, the engine decides. Replicas meet at
 * collectives and at the end of a step.
 *
 * A program is streams: the first one, and for each pipeline one for each of its IPUs.
 * A stream has instructions, a slab and loop counters of its own. A pipeline is one
 * instruction of the stream around it, which starts the pipeline's streams and waits
 * for their end; so these two may touch each other's slabs, and no others do. A
 * pipeline's stream is a list of actions, each a micro-batch and the routine that it
 * goes through. Streams that run at the same time meet at two places only:
 *
 *   - a channel, a bounded ring of messages from one stream to another: `send`
 *     waits for room, `receive` for a message. A channel without types carries
 *     tokens: it is a semaphore that counts to `depth`;
 *   - the end of a step, where each stream waits for all others that have not halted.
 *
 * A queue, a variable that is written, and an output belong to one stream. So what a
 * program computes does not depend on how its streams are interleaved. */
#ifndef IPU_PROGRAM_PROGRAM_H
#define IPU_PROGRAM_PROGRAM_H

#include "graph/cost.h"
#include "kernels/core/kernel.h"
#include "memory/memory.h"

/* Where an operand lives. */
typedef enum ipu_space {
    IPU_SPACE_SLAB,     /* offset into the stream's slab */
    IPU_SPACE_FOREIGN,  /* offset into the slab of stream `index` */
    IPU_SPACE_REMOTE,   /* offset into the remote memory of stream `index` */
    IPU_SPACE_RING,     /* the slot of ring `index` that the micro-batch has */
    IPU_SPACE_CONSTANT, /* offset into the program's constants */
    IPU_SPACE_HELD,     /* index of bytes that the program does not own */
    IPU_SPACE_INPUT,    /* index of a run's input buffer */
    IPU_SPACE_OUTPUT,   /* index of a run's output buffer */
    IPU_SPACE_VARIABLE, /* index into the program's resources */
    IPU_SPACE_INFEED    /* component of the element that the stream took last */
} ipu_space;

typedef struct ipu_place {
    ipu_space space;
    uint32_t index; /* FOREIGN, REMOTE, RING, HELD, INPUT, OUTPUT, VARIABLE, INFEED */
    size_t offset;  /* SLAB, FOREIGN, REMOTE, CONSTANT */
} ipu_place;

/* The operands of an instruction, inputs or outputs: how many, and how large. */
typedef enum ipu_operands {
    IPU_OPERANDS_NONE,
    IPU_OPERANDS_SPEC,    /* the kernel's */
    IPU_OPERANDS_SPECS,   /* one of each of several kernels */
    IPU_OPERANDS_BYTES,   /* one, of `bytes` */
    IPU_OPERANDS_QUEUE,   /* the components of `resource` */
    IPU_OPERANDS_HOST,    /* those of the function `resource` */
    IPU_OPERANDS_CHANNEL, /* the tensors of a message of `channel` */
    IPU_OPERANDS_INT32,   /* a scalar */
    IPU_OPERANDS_BOOL
} ipu_operands;

/* X(NAME, text, inputs, outputs, is noted by the recorder, form, what it does). The
 * form is how its operands are printed: $i the inputs, $o the outputs; the others stand
 * in program_print.c. */
#define IPU_INSTRUCTION_LIST(X) \
    X(KERNEL, kernel, SPEC, SPEC, true, "$k($i) -> $o", "runs kernel spec `spec`") \
    X(COPY, copy, BYTES, BYTES, true, "$i -> $o, $b bytes", "copies `bytes`") \
    X(RESERVE, reserve, NONE, BYTES, false, "$o, $b bytes", \
      "nobody reads the output place before writing it; no work") \
    X(DEQUEUE, dequeue, NONE, QUEUE, true, "resource $r -> $o", \
      "waits for the infeed's next element, gives the last one back") \
    X(ENQUEUE, enqueue, QUEUE, NONE, true, "$i -> resource $r", \
      "waits for room in the outfeed, copies the inputs there") \
    X(HOST, host, HOST, HOST, true, "resource $r($i) -> $o", \
      "calls a function of the host's, on the thread that runs the program") \
    X(SEND, send, CHANNEL, NONE, true, "$i -> channel $c", \
      "waits for room in the channel, copies the inputs there") \
    X(RECEIVE, receive, NONE, CHANNEL, true, "channel $c -> $o", \
      "waits for the channel's next message, copies it out") \
    X(PIPELINE, pipeline, NONE, NONE, false, "stream $s", \
      "starts streams and waits until they have halted") \
    X(ACTION, action, NONE, NONE, false, "$a -> $t", \
      "runs the routine at `target` for `micro_batch`") \
    X(RETURN, return, NONE, NONE, false, "", \
      "end of a routine; goes on after the action") \
    X(POST, post, SPECS, SPECS, true, "$p $k($i) -> $o", \
      "leaves its inputs to a collective, which the last replica to come begins") \
    X(WAIT, wait, SPECS, SPECS, true, "$p -> $o", \
      "waits until the collective is over; what it gives is there from then on") \
    X(LOOP, loop, INT32, NONE, false, "$m#$l $i -> $t", \
      "reads the trip count; jumps to `target` when it is <= 0") \
    X(WHILE, while, NONE, NONE, false, "$m#$l -> $t", \
      "begins a loop of at most `turns`; jumps to `target` when none") \
    X(TEST, test, BOOL, NONE, false, "#$l $i -> $t", \
      "leaves the loop for `target` where the input is false") \
    X(NEXT, next, NONE, NONE, false, "#$l -> $t", \
      "end of a body, or of a step (`is_step`); jumps to `target`") \
    X(SWITCH, switch, INT32, NONE, false, "$i -> $n", \
      "jumps to the branch of that number, out of range: to the last") \
    X(JUMP, jump, NONE, NONE, false, "-> $t", "end of a branch; jumps to `target`") \
    X(HALT, halt, NONE, NONE, false, "", "end of the program")

typedef enum ipu_instruction_kind {
#define X(name, text, inputs, outputs, is_noted, form, what) IPU_INSTRUCTION_##name,
    IPU_INSTRUCTION_LIST(X)
#undef X
        IPU_INSTRUCTION_COUNT
} ipu_instruction_kind;

typedef struct ipu_instruction_row {
    const char *name;
    ipu_operands inputs;
    ipu_operands outputs;
    bool is_noted;
    const char *form;
} ipu_instruction_row;

extern const ipu_instruction_row ipu_instruction_rows[IPU_INSTRUCTION_COUNT];

typedef struct ipu_instruction {
    ipu_instruction_kind kind;
    uint32_t input_count;
    uint32_t output_count;
    const ipu_place *inputs;
    const ipu_place *outputs;
    uint32_t spec;           /* KERNEL, POST, WAIT: index into specs, */
    uint32_t spec_count;     /* POST, WAIT: and how many follow, an input for each */
    uint32_t meeting;        /* POST, WAIT: its number among all of the program */
    uint32_t resource;       /* DEQUEUE, ENQUEUE, HOST: index into resources */
    uint32_t channel;        /* SEND, RECEIVE: index into channels */
    uint32_t loop;           /* LOOP, WHILE, TEST, NEXT: which counter */
    int32_t target;          /* the same and JUMP: instruction; SWITCH: after it */
    int64_t turns;           /* LOOP, WHILE: the most turns; -1: any number */
    bool is_step;            /* LOOP, WHILE, TEST, NEXT: each turn is a step */
    bool is_micro_batches;   /* LOOP, NEXT: each turn is a micro-batch of the step */
    uint32_t first_stream;   /* PIPELINE */
    uint32_t stream_count;   /* PIPELINE */
    uint32_t micro_batch;    /* ACTION */
    uint32_t action;         /* ACTION: ipu_action_kind */
    int32_t end;             /* ACTION: after the routine */
    uint32_t branch_count;   /* SWITCH */
    const int32_t *branches; /* SWITCH: the first instruction of each */
    size_t bytes;            /* COPY, RESERVE */
    int64_t bound;           /* LOOP, WHILE: turns as far as is known; -1: it is not */
    uint32_t region;         /* KERNEL: the stream's region that it is in, plus 1 */
    ipu_placement placement; /* of the node that it was made of */
    ipu_cost cost;           /* of one execution */
    ipu_source source;
    const char *name;
} ipu_instruction;

/* A thread's part of a region: rows [begin, end) of one instruction; or, where
 * `end` is 0, instructions one after the other. */
typedef struct ipu_region_task {
    uint32_t first; /* instruction */
    uint32_t count;
    int64_t begin;
    int64_t end;
} ipu_region_task;

/* Kernels that follow each other, among which no thread waits for another:
 *
 *   by rows    each reads and writes `rows` rows of what the others write. A thread
 *              takes some of the rows through all instructions
 *   by tasks   what different tasks do has nothing to do with each other
 *
 * Threads wait for each other after the last one. */
typedef struct ipu_region {
    uint32_t first; /* instruction */
    uint32_t count;
    int64_t rows;  /* 0: by tasks */
    int64_t grain; /* by rows: as in ipu_kernel_rows, of all */
    int64_t least;
    uint32_t task_count; /* by tasks */
    const ipu_region_task *tasks;
} ipu_region;

/* The instructions of one simulated IPU. */
typedef struct ipu_stream {
    IPU_ARRAY(ipu_instruction) instructions;
    IPU_ARRAY(ipu_region) regions;
    uint32_t entry; /* where it begins: after its routines */
    bool is_child;  /* a pipeline instruction starts it */
    uint32_t ipu;   /* of a child: which of the pipeline's */
    uint32_t loop_count;
    ipu_memory_report memory; /* of its slab */
    size_t remote_bytes;      /* beside it; only copies lead there and back */
} ipu_stream;

/* Slots in a stream's slab, or its remote memory, for a value that several routines
 * use: micro-batch m has slot m mod depth. */
typedef struct ipu_ring {
    uint32_t stream;
    uint32_t depth;
    bool is_remote;
    size_t offset; /* of slot 0 */
    size_t stride;
    size_t bytes; /* of a slot's value */
} ipu_ring;

typedef struct ipu_channel {
    uint32_t from; /* streams */
    uint32_t to;
    uint32_t depth; /* messages that are on their way at most */
    uint32_t type_count;
    const ipu_type *types; /* of a message's tensors */
} ipu_channel;

typedef struct ipu_program {
    uint32_t id; /* of this process: what its events are known by */
    ipu_arena arena;
    IPU_ARRAY(ipu_stream) streams;
    IPU_ARRAY(ipu_channel) channels;
    IPU_ARRAY(ipu_ring) rings;
    IPU_ARRAY(ipu_kernel_spec) specs;
    IPU_ARRAY(ipu_resource) resources;
    uint32_t input_count;
    const ipu_type *inputs; /* the main block's parameters */
    uint32_t output_count;
    const ipu_type *outputs; /* the main block's results */
    uint32_t held_count;
    const ipu_held *held; /* graph/graph.h says who keeps them */
    const void *constants;
    size_t constant_bytes;
    size_t workspace_bytes; /* the largest of any kernel; each stream has its own */
    size_t part_bytes; /* the same of a part of a region; each thread has its own */
    uint32_t micro_batches; /* of a step: so far the step counter moves on */
    uint32_t meeting_count; /* POST instructions */
    bool uses_random;
    bool is_host; /* it uses no IPU, though variables of a device */
} ipu_program;

/* Components of all infeeds are numbered one after the other, in the order of the
 * program's resources; this is the number of the first one of infeed `resource`. */
static inline uint32_t
ipu_program_infeed_base(const ipu_program *program, uint32_t resource)
{
    uint32_t base = 0;
    for (uint32_t i = 0; i < resource; i++) {
        if (program->resources.items[i].kind == IPU_RESOURCE_INFEED) {
            base += program->resources.items[i].type_count;
        }
    }
    return base;
}

/* An operand: the inputs of an instruction come first, then its outputs. */
static inline uint32_t
ipu_operand_count(const ipu_instruction *instruction)
{
    return instruction->input_count + instruction->output_count;
}

static inline bool
ipu_operand_is_output(const ipu_instruction *instruction, uint32_t operand)
{
    return operand >= instruction->input_count;
}

static inline const ipu_place *
ipu_operand_place(const ipu_instruction *instruction, uint32_t operand)
{
    return ipu_operand_is_output(instruction, operand)
               ? &instruction->outputs[operand - instruction->input_count]
               : &instruction->inputs[operand];
}

/* How many inputs, or outputs, the instruction should have. Its operands are in
 * range. */
uint32_t ipu_operand_wanted(const ipu_program *program,
                            const ipu_instruction *instruction, bool is_output);
size_t ipu_operand_bytes(const ipu_program *program, const ipu_instruction *instruction,
                         uint32_t operand);
bool ipu_instruction_writes_variable(const ipu_program *program,
                                     const ipu_instruction *instruction);
/* Which input of a product is its right factor, whose panels tiles read; 0: the op is
 * not a product. */
uint32_t ipu_product_right(ipu_op op);
/* Of a message, as it lies in the channel. */
size_t ipu_channel_message_bytes(const ipu_channel *channel);

/* The subject of an instruction's events (base/event.h): 24 bits of the program's
 * id, 16 of the stream's number, which goes on from replica to replica, 24 of the
 * instruction's. */
static inline uint64_t
ipu_program_subject(const ipu_program *program, uint32_t stream, size_t instruction)
{
    return (uint64_t)program->id << 40 | (uint64_t)(stream & 0xffff) << 24 |
           (instruction & 0xffffff);
}

/* How many IPUs the program was written for: what its streams and the shards of its
 * nodes name. */
uint32_t ipu_program_shards(const ipu_program *program);
/* The cost of one run of the first stream, without pipelines: bodies as often as their
 * loops can turn at most, once where nothing is known of that; of branches all. */
ipu_cost ipu_program_cost(const ipu_program *program);

/* The memory that a stream takes of its IPU, beside variables. */
typedef struct ipu_stream_bytes {
    size_t slab;     /* with the rings */
    size_t peak;     /* the most of it that is live at one instruction */
    size_t rings;    /* what is kept from one routine to another */
    size_t messages; /* that wait to be received */
    size_t remote;   /* in remote memory */
} ipu_stream_bytes;

ipu_stream_bytes ipu_program_stream_bytes(const ipu_program *program, uint32_t number);

/* Where regions are made; numbers do not depend on it. */
typedef enum ipu_region_choice {
    IPU_REGIONS_WHERE_FASTER,
    IPU_REGIONS_NOWHERE,
    IPU_REGIONS_EVERYWHERE /* however small the kernels are: for tests */
} ipu_region_choice;

/* Which variables lie in panels (panels.c); numbers do not depend on it. */
typedef enum ipu_panel_choice {
    IPU_PANELS_WHERE_FASTER,
    IPU_PANELS_NOWHERE,
    IPU_PANELS_EVERYWHERE /* without a loop, too: for tests */
} ipu_panel_choice;

typedef struct ipu_compile_options {
    ipu_region_choice regions;
    ipu_panel_choice panels;
    ipu_kernel_variant variant;
    ipu_cpu_class cpu;
    bool verify;
    ipu_float_behaviour behaviour; /* its rounding is the graph's */
} ipu_compile_options;

/* Lowers a graph (after the passes) to a program: chooses kernels, decides what is done
 * in place, plans the slab and checks the plan. The graph is not kept. */
ipu_status ipu_program_create(ipu_ctx *ctx, const ipu_graph *graph,
                              const ipu_compile_options *options, ipu_program **out);
void ipu_program_free(ipu_ctx *ctx, ipu_program *program);
ipu_status ipu_program_print(ipu_ctx *ctx, const ipu_program *program, char **out_text,
                             size_t *out_bytes);
ipu_status ipu_program_verify(ipu_ctx *ctx, const ipu_program *program);

#endif
