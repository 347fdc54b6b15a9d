/* SPDX-License-Identifier: MIT
 *
 * data/feeder and run/infeed: who makes the elements of an infeed, the feeder's thread
 * or the device, the device gets the same ones in the same order; the end of the data,
 * errors, and stopping at any time. */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>

#include "check.h"
#include "data/dataset.h"
#include "run/queue.h"
#include "shared.h"

/* A batch is large enough for several tasks of the pool. */
enum { ROWS = 64, ROW = 512, BATCH = 16, PASSES = 3, DEPTH = 3, A_RUN = 5 };
enum { ELEMENTS = ROWS / BATCH * PASSES };

static int64_t rows[ROWS][ROW];
static int64_t expected[ELEMENTS][BATCH][ROW];

static ipu_type
batch_type(void)
{
    const int64_t dims[2] = {BATCH, ROW};
    return (ipu_type){IPU_DTYPE_INT64, ipu_shape_make(2, dims)};
}

/* Shuffled batches, several passes of them; endless where passes is negative. */
static ipu_dataset *
batches(ipu_ctx *ctx, int64_t passes)
{
    const int64_t dims[2] = {ROWS, ROW};
    const ipu_type type = {IPU_DTYPE_INT64, ipu_shape_make(2, dims)};
    const ipu_foreign_buffer held = {rows, NULL, NULL};
    ipu_dataset *sets[4];
    CHECK_OK(ctx, ipu_dataset_slices(ctx, &type, &held, 1, &sets[0]));
    CHECK_OK(ctx, ipu_dataset_shuffle(ctx, sets[0], 20, 7, false, &sets[1]));
    CHECK_OK(ctx, ipu_dataset_batch(ctx, sets[1], BATCH, true, &sets[2]));
    CHECK_OK(ctx, ipu_dataset_repeat(ctx, sets[2], passes, &sets[3]));
    for (int i = 0; i < 3; i++) {
        ipu_dataset_unref(sets[i]);
    }
    return sets[3];
}

static void
read_expected(void)
{
    ipu_ctx ctx = fresh();
    ipu_dataset *dataset = batches(&ctx, PASSES);
    ipu_iterator *iterator;
    const ipu_type *types;
    const void *const *parts;
    for (int r = 0; r < ROWS; r++) {
        for (int c = 0; c < ROW; c++) {
            rows[r][c] = r * ROW + c;
        }
    }
    CHECK_OK(&ctx, ipu_iterator_create(&ctx, dataset, &iterator));
    for (int i = 0; i < ELEMENTS; i++) {
        CHECK_OK(&ctx, ipu_iterator_next(&ctx, iterator, &types, &parts));
        memcpy(expected[i], parts[0], sizeof(expected[i]));
    }
    ipu_iterator_free(iterator);
    ipu_dataset_unref(dataset);
}

/* As a stream dequeues; *made counts the elements that the device made. */
static ipu_status
take(ipu_ctx *ctx, ipu_infeed *queue, ipu_pool *pool, const void *const **element,
     int *made)
{
    for (;;) {
        IPU_TRY(ipu_infeed_take(ctx, queue, 0, element));
        if (*element != NULL) {
            return IPU_OK;
        }
        if (ipu_infeed_make(queue, pool)) {
            ++*made;
        } else {
            (void)ipu_infeed_wait(queue, 1000000);
        }
    }
}

/* Takes all elements in runs, with pauses in which the thread reads ahead. */
static void
check_order(int32_t threads, bool shares_cores)
{
    ipu_ctx ctx = fresh();
    ipu_dataset *dataset = batches(&ctx, PASSES);
    const ipu_type type = batch_type();
    ipu_infeed *queue;
    ipu_feeder *feeder;
    ipu_pool *pool;
    CHECK_OK(&ctx, ipu_pool_create(&ctx, threads, &pool));
    CHECK_OK(&ctx, ipu_infeed_create(&ctx, &type, 1, DEPTH, 1, &queue));
    for (int round = 0; round < 2; round++) { /* the queue serves pass after pass */
        int made = 0;
        int taken = 0;
        int wrong = 0;
        ipu_status status = IPU_OK;
        CHECK_OK(&ctx, ipu_feeder_start(&ctx, dataset, queue, shares_cores, &feeder));
        while (status == IPU_OK) {
            const void *const *element;
            CHECK_OK(&ctx, ipu_infeed_begin(&ctx, queue, 1));
            for (int i = 0; i < A_RUN && status == IPU_OK; i++) {
                status = take(&ctx, queue, pool, &element, &made);
                if (status == IPU_OK) {
                    wrong += taken >= ELEMENTS ||
                             memcmp(element[0], expected[taken % ELEMENTS],
                                    sizeof(expected[0])) != 0;
                    taken++;
                }
            }
            ipu_infeed_finish(queue);
            while (shares_cores && taken == A_RUN && !ipu_infeed_is_full(queue)) {
                sleep_ms(1); /* between runs the thread reads ahead */
            }
        }
        CHECK(status == IPU_STATUS_OUT_OF_RANGE && wrong == 0 && taken == ELEMENTS);
        CHECK(shares_cores || made == 0);
        ipu_ctx_clear(&ctx);
        ipu_feeder_stop(feeder, NULL);
    }
    ipu_infeed_free(&ctx, queue);
    ipu_pool_free(&ctx, pool);
    ipu_dataset_unref(dataset);
}

/* While a run is under way the thread of a queue that is lent sleeps. */
static void
test_the_device_makes(void)
{
    ipu_ctx ctx = fresh();
    ipu_dataset *dataset = batches(&ctx, -1);
    const ipu_type type = batch_type();
    const void *const *element;
    ipu_infeed *queue;
    ipu_feeder *feeder;
    int made = 0;
    CHECK_OK(&ctx, ipu_infeed_create(&ctx, &type, 1, DEPTH, 1, &queue));
    CHECK_OK(&ctx, ipu_feeder_start(&ctx, dataset, queue, true, &feeder));
    while (!ipu_infeed_is_full(queue)) {
        sleep_ms(1);
    }
    CHECK_OK(&ctx, ipu_infeed_begin(&ctx, queue, 1));
    for (int i = 0; i < DEPTH; i++) {
        CHECK_OK(&ctx, take(&ctx, queue, NULL, &element, &made));
    }
    CHECK(made == 0);
    sleep_ms(5);
    CHECK(ipu_infeed_ready(queue) == 0);
    CHECK(ipu_infeed_has_element(queue, 0)); /* it does not block */
    for (int i = 0; i < 10; i++) {
        CHECK_OK(&ctx, take(&ctx, queue, NULL, &element, &made));
    }
    CHECK(made == 10);
    ipu_infeed_finish(queue);
    ipu_feeder_stop(feeder, NULL);
    ipu_infeed_free(&ctx, queue);
    ipu_dataset_unref(dataset);
}

/* Of several replicas each takes its own elements: nothing is lent. */
static void
test_nothing_is_lent_to_replicas(void)
{
    ipu_ctx ctx = fresh();
    ipu_dataset *dataset = batches(&ctx, -1);
    const ipu_type type = batch_type();
    ipu_infeed *queue;
    ipu_feeder *feeder;
    CHECK_OK(&ctx, ipu_infeed_create(&ctx, &type, 1, DEPTH, 2, &queue));
    CHECK_OK(&ctx, ipu_feeder_start(&ctx, dataset, queue, true, &feeder));
    CHECK_OK(&ctx, ipu_infeed_begin(&ctx, queue, 2));
    while (!ipu_infeed_is_full(queue)) {
        sleep_ms(1);
    }
    CHECK(!ipu_infeed_make(queue, NULL));
    ipu_infeed_finish(queue);
    ipu_feeder_stop(feeder, NULL);
    ipu_infeed_free(&ctx, queue);
    ipu_dataset_unref(dataset);
}

/* An error that the device meets when it makes an element is that of the run. */
static void
test_an_error_in_the_making(void)
{
    ipu_ctx ctx = fresh();
    ipu_dataset *inner = batches(&ctx, PASSES);
    ipu_dataset *dataset;
    const ipu_type type = batch_type();
    const void *const *element;
    ipu_infeed *queue;
    ipu_feeder *feeder;
    int made = 0;
    CHECK_OK(&ctx, ipu_dataset_assert_cardinality(&ctx, inner, ELEMENTS + 1, &dataset));
    CHECK_OK(&ctx, ipu_infeed_create(&ctx, &type, 1, 1, 1, &queue));
    CHECK_OK(&ctx, ipu_feeder_start(&ctx, dataset, queue, true, &feeder));
    CHECK_OK(&ctx, ipu_infeed_begin(&ctx, queue, 1));
    for (int i = 0; i < ELEMENTS; i++) {
        CHECK_OK(&ctx, take(&ctx, queue, NULL, &element, &made));
    }
    CHECK(made > 0);
    CHECK(take(&ctx, queue, NULL, &element, &made) == IPU_STATUS_FAILED_PRECONDITION);
    CHECK(strstr(ctx.message, "was expected to contain") != NULL);
    ipu_infeed_finish(queue);
    ipu_feeder_stop(feeder, NULL);
    ipu_infeed_free(&ctx, queue);
    ipu_dataset_unref(dataset);
    ipu_dataset_unref(inner);
}

typedef struct device {
    ipu_infeed *queue;
    ipu_status status;
} device;

static void *
take_for_ever(void *state)
{
    device *self = state;
    ipu_ctx ctx = fresh();
    const void *const *element;
    int made = 0;
    self->status = ipu_infeed_begin(&ctx, self->queue, 1);
    while (self->status == IPU_OK) {
        self->status = take(&ctx, self->queue, NULL, &element, &made);
    }
    ipu_infeed_finish(self->queue);
    return NULL;
}

/* Whatever the device is at. */
static void
test_stopping_in_the_middle_of_a_run(void)
{
    ipu_ctx ctx = fresh();
    ipu_dataset *dataset = batches(&ctx, -1);
    const ipu_type type = batch_type();
    ipu_infeed *queue;
    CHECK_OK(&ctx, ipu_infeed_create(&ctx, &type, 1, DEPTH, 1, &queue));
    for (int round = 0; round < 20; round++) {
        device self = {queue, IPU_OK};
        ipu_feeder *feeder;
        pthread_t thread;
        CHECK_OK(&ctx, ipu_feeder_start(&ctx, dataset, queue, true, &feeder));
        CHECK(pthread_create(&thread, NULL, take_for_ever, &self) == 0);
        sleep_ms(round % 4);
        ipu_feeder_stop(feeder, NULL);
        pthread_join(thread, NULL);
        CHECK(self.status == IPU_STATUS_CANCELLED);
    }
    ipu_infeed_free(&ctx, queue);
    ipu_dataset_unref(dataset);
}

int
main(void)
{
    read_expected();
    for (int32_t threads = 1; threads <= 3; threads++) {
        check_order(threads, false);
        check_order(threads, true);
    }
    test_the_device_makes();
    test_nothing_is_lent_to_replicas();
    test_an_error_in_the_making();
    test_stopping_in_the_middle_of_a_run();
    return CHECK_DONE();
}
