/* SPDX-License-Identifier: MIT
 *
 * The size of a program itself on each tile. No such sizes are published: steps and
 * their messages are counted, the bytes of each are nominal. Equal steps share their
 * code, as poplar's outlining has it. */
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "machine/account_impl.h"
#include "machine/links.h"

enum {
    STACK = 512,         /* of each worker, and of the supervisor */
    CONTROL = 32,        /* a step's call, its arguments and its sync */
    VERTEX_STATE = 32,   /* of each worker of a compute set */
    CODELET = 1024,      /* the code of one kind of vertex */
    MESSAGE = 256,       /* bytes that an instruction sends at the most */
    MESSAGE_CODE = 2 * 4 /* an instruction for sending, one for taking */
};

/* Whether an IPU has code of this kind for the first time. */
static ipu_status
is_new(ipu__accounting *a, const ipu_account_step *step, double cycles, bool *out)
{
    ipu_op op = ipu_node_of(a->graph, step->node)->op;
    uint64_t key = ipu_hash_bytes(IPU_HASH_START, step->part, strlen(step->part));
    key = ipu_hash_bytes(key, &op, sizeof(op));
    key = ipu_hash_bytes(key, &step->kind, sizeof(step->kind));
    key = ipu_hash_bytes(key, &step->ipu, sizeof(step->ipu));
    /* the map takes all keys but the last one */
    key = ipu_hash_bytes(key, &cycles, sizeof(cycles)) >> 1;
    *out = !ipu_id_map_has(&a->coded, key);
    return *out ? ipu_id_map_put(a->ctx, &a->coded, key, 0) : IPU_OK;
}

/* Of what a step moves between the host, or remote memory, and a tile. */
static double
host_bytes(const ipu__accounting *a, const ipu_account_step *step)
{
    const ipu_chip *chip = a->chip;
    bool is_stream = step->kind == IPU_STEP_STREAM;
    double seconds = step->cycles / chip->clock - (is_stream ? chip->host_seconds : 0);
    double rate = is_stream ? ipu_link_host_rate(chip, a->options.replicas,
                                                 a->options.replica_ipus)
                            : chip->remote_bytes;
    return ceil(fmax(0, seconds) * rate / chip->tiles);
}

ipu_status
ipu__machine_size_code(ipu__accounting *a)
{
    const ipu_chip *chip = a->chip;
    for (; a->sized < a->out->steps.count; a->sized++) {
        const ipu_account_step *step = &a->out->steps.items[a->sized];
        double *bytes = a->out->memories.items[step->ipu].code;
        bool is_first;
        if (step->kind == IPU_STEP_SYNC) {
            continue; /* its exchange's call */
        }
        bytes[IPU_CODE_CONTROL] += CONTROL;
        if (step->kind == IPU_STEP_STREAM || step->kind == IPU_STEP_REMOTE) {
            /* one for all: they come after each other */
            bytes[IPU_CODE_HOST] = fmax(bytes[IPU_CODE_HOST], host_bytes(a, step));
        }
        IPU_TRY(is_new(a, step, step->cycles, &is_first));
        if (!is_first) {
            continue;
        }
        if (step->kind == IPU_STEP_EXCHANGE) {
            bytes[IPU_CODE_EXCHANGE] +=
                MESSAGE_CODE * ceil(step->cycles * chip->exchange_bytes / MESSAGE);
        } else if (step->kind == IPU_STEP_COMPUTE || step->kind == IPU_STEP_COPY) {
            bytes[IPU_CODE_VERTICES] += chip->workers * VERTEX_STATE;
            IPU_TRY(is_new(a, step, 0, &is_first));
            bytes[IPU_CODE_VERTICES] += is_first ? CODELET : 0;
        }
    }
    if (a->options.is_memory_alone) {
        a->sized = a->out->steps.count = 0;
    }
    return IPU_OK;
}

void
ipu__machine_sum_code(ipu__accounting *a)
{
    for (uint32_t i = 0; i < a->ipu_count; i++) {
        ipu_account_memory *memory = &a->out->memories.items[i];
        memory->code[IPU_CODE_STACKS] = (a->chip->workers + 1) * STACK;
        for (int kind = 0; kind < IPU_CODE_KIND_COUNT; kind++) {
            memory->code_bytes += memory->code[kind];
        }
    }
}
