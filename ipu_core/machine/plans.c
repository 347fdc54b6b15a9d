/* SPDX-License-Identifier: MIT
 *
 * A table from hashes of questions to plans. Of two questions with one hash the first is
 * kept. When it is full it is emptied: programs ask the same questions again and again,
 * and few of them. */
#include "machine/plans.h"

#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/id_map.h"
#include "base/lock.h"

enum { MOST_PLANS = 8192 };

/* No byte of it is padding. */
typedef struct question {
    ipu_chip chip;
    ipu_product product;
    double memory_share;
} question;

typedef struct planned {
    question asked;
    ipu_product_plan plan;
} planned;

struct ipu_plans {
    ipu_lock lock; /* protects all that follows */
    ipu_ctx ctx;
    ipu_id_map places; /* by hash: in `items` */
    IPU_ARRAY(planned) items;
};

ipu_status
ipu_plans_create(ipu_ctx *ctx, ipu_plans **out)
{
    IPU_TRY(ipu_alloc(ctx, sizeof(**out), out));
    memset(*out, 0, sizeof(**out));
    ipu_ctx_init(&(*out)->ctx, ctx->allocator);
    ipu_lock_init(&(*out)->lock, NULL, NULL);
    return IPU_OK;
}

void
ipu_plans_free(ipu_ctx *ctx, ipu_plans *plans)
{
    if (plans != NULL) {
        ipu_lock_destroy(&plans->lock);
        ipu_id_map_free(&plans->ctx, &plans->places);
        IPU_ARRAY_FREE(&plans->ctx, &plans->items);
        ipu_free(ctx, plans, sizeof(*plans));
    }
}

static const planned *
find(const ipu_plans *plans, const question *asked, uint64_t key)
{
    uint32_t place = ipu_id_map_get(&plans->places, key, UINT32_MAX);
    const planned *found = place == UINT32_MAX ? NULL : &plans->items.items[place];
    return found != NULL && memcmp(&found->asked, asked, sizeof(*asked)) == 0 ? found
                                                                              : NULL;
}

/* Without memory for it a plan is not kept. */
static void
keep(ipu_plans *plans, const planned *one, uint64_t key)
{
    if (plans->items.count == MOST_PLANS) {
        plans->items.count = 0;
        ipu_id_map_clear(&plans->places);
    }
    uint32_t place = (uint32_t)plans->items.count;
    if (!ipu_id_map_has(&plans->places, key) &&
        IPU_ARRAY_PUSH(&plans->ctx, &plans->items, *one) == IPU_OK &&
        ipu_id_map_put(&plans->ctx, &plans->places, key, place) != IPU_OK) {
        plans->items.count--;
    }
    ipu_ctx_clear(&plans->ctx);
}

ipu_product_plan
ipu_plans_ask(ipu_plans *plans, const ipu_chip *chip, const ipu_product *product,
              double memory_share)
{
    planned one = {
        .asked = {.chip = *chip, .product = *product, .memory_share = memory_share}};
    /* the map takes all keys but the last one */
    uint64_t key = ipu_hash_bytes(IPU_HASH_START, &one.asked, sizeof(one.asked)) >> 1;
    ipu_lock_take(&plans->lock);
    const planned *found = find(plans, &one.asked, key);
    if (found != NULL) {
        one.plan = found->plan;
    }
    ipu_lock_drop(&plans->lock);
    if (found == NULL) {
        one.plan = ipu_product_plan_of(chip, product, memory_share);
        ipu_lock_take(&plans->lock);
        keep(plans, &one, key);
        ipu_lock_drop(&plans->lock);
    }
    return one.plan;
}
