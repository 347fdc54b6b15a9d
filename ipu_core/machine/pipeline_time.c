/* SPDX-License-Identifier: MIT
 *
 * The time steps of a pipeline. IPUs synchronise where they exchange, so a time step
 * lasts as long as its longest IPU computes and its longest exchange takes (poplar's
 * sync of a whole group of IPUs; see docs/machine.md). */
#include "machine/account_impl.h"

#include <math.h>

typedef struct time_step {
    double busy; /* of one IPU, while it is summed */
    double longest;
    double sent;
    double longest_sent;
} time_step;

ipu_status
ipu__machine_time_pipeline(ipu__accounting *a, const ipu__staged *staged,
                           ipu_account_pipeline *pipeline)
{
    const ipu_schedule *schedule = staged->schedule;
    uint32_t count = schedule->time_steps;
    time_step *steps;
    IPU_TRY(ipu_arena_array(a->ctx, &a->arena, count, sizeof(*steps), &steps));
    for (uint32_t ipu = 0; ipu < schedule->ipu_count; ipu++) {
        const ipu_action_list *list = &schedule->lists[ipu];
        for (size_t i = 0; i < list->count; i++) {
            const ipu_action *action = &list->items[i];
            uint32_t routine = ipu_routine_number(
                staged->stage_count, (ipu_routine){action->kind, action->stage});
            time_step *step = &steps[action->time];
            step->busy += pipeline->routines.items[routine];
            step->sent += pipeline->sends.items[routine];
            pipeline->busy += pipeline->routines.items[routine];
        }
        for (uint32_t t = 0; t < count; t++) {
            steps[t].longest = fmax(steps[t].longest, steps[t].busy);
            steps[t].longest_sent = fmax(steps[t].longest_sent, steps[t].sent);
            steps[t].busy = steps[t].sent = 0;
        }
        pipeline->ipus += list->count > 0;
    }
    pipeline->micro_batches = schedule->micro_batches;
    for (uint32_t t = 0; t < count; t++) {
        IPU_TRY(IPU_ARRAY_PUSH(a->ctx, &pipeline->steps, pipeline->cycles));
        pipeline->cycles += steps[t].longest + steps[t].longest_sent;
    }
    return IPU_ARRAY_PUSH(a->ctx, &pipeline->steps, pipeline->cycles);
}
