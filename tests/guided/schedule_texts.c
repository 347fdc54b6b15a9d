/* SPDX-License-Identifier: MIT
 *
 * A schedule's text is refused, or prints alike when it is read again; the checker and
 * what measures it take any. */
#include "guided.h"
#include "pipeline/schedule.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ipu_ctx ctx = fresh();
    ipu_schedule *schedule;
    ipu_schedule *again;
    ipu_schedule_measures measures;
    char *text = text_of(data, size);
    if (text == NULL) {
        return -1;
    }
    ipu_status status = ipu_schedule_parse(&ctx, text, &schedule);
    free(text);
    if (status == IPU_OK) {
        char *first;
        char *second;
        size_t bytes;
        size_t second_bytes;
        HOLDS(ipu_schedule_print(&ctx, schedule, &first, &bytes) == IPU_OK);
        HOLDS(ipu_schedule_parse(&ctx, first, &again) == IPU_OK);
        HOLDS(ipu_schedule_print(&ctx, again, &second, &second_bytes) == IPU_OK);
        HOLDS(strcmp(first, second) == 0);
        ipu_free(&ctx, first, bytes);
        ipu_free(&ctx, second, second_bytes);
        ipu_schedule_free(&ctx, again);
        if (ipu_schedule_check(&ctx, schedule) == IPU_OK) {
            HOLDS(ipu_schedule_measure(&ctx, schedule, &measures) == IPU_OK);
            HOLDS(measures.busy <= measures.slots);
        }
        ipu_schedule_free(&ctx, schedule);
    }
    ipu_ctx_clear(&ctx);
    return 0;
}
