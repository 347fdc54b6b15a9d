/* SPDX-License-Identifier: MIT
 *
 * A matrix product by BLIS (core/blis.c), cut into tiles of the result, which threads
 * take. The cut follows from the shape alone and is stored in the spec with the context,
 * since cuts round differently, too. */
#include <string.h>

#include "kernels/gemm/gemm_blis_impl.h"

enum { FLOPS_PER_TILE = 1 << 20, MOST_TILES = 16, TILE_ROWS = 6, TILE_COLUMNS = 16 };

/* Splits `size` into `parts` of equal size, a multiple of `grain`. */
static int64_t
part_size(int64_t size, int64_t parts, int64_t grain)
{
    int64_t part = ipu__ceil_div(size, parts);
    return ipu__min(size, ipu__ceil_div(part, grain) * grain);
}

/* In both directions, so that the least is packed more than once: each row of tiles
 * packs B, each column of tiles packs A. */
static void
cut(const ipu__matmul *plan, ipu__blis_choice *choice)
{
    int64_t flops = 2 * plan->m * plan->n * plan->k;
    int64_t tiles = ipu__min(flops / FLOPS_PER_TILE, MOST_TILES);
    int64_t least = INT64_MAX;
    for (int64_t rows = 1; rows <= tiles; rows *= 2) {
        int64_t columns = tiles / rows;
        int64_t packed = rows * plan->n + columns * plan->m;
        if (packed < least) {
            least = packed;
            choice->tile_rows = part_size(plan->m, rows, TILE_ROWS);
            choice->tile_columns = part_size(plan->n, columns, TILE_COLUMNS);
        }
    }
}

ipu_status
ipu__blis_choose(ipu_ctx *ctx, const ipu__matmul *plan, ipu_cpu_class cpu,
                 ipu__blis_choice *out)
{
    *out = (ipu__blis_choice){IPU_BLIS_OWN_CHOICE, plan->m, plan->n};
    IPU_TRY(ipu__blis_check(ctx, cpu));
    out->context = ipu__blis_context_for(plan->m, plan->n, plan->k, cpu);
    cut(plan, out);
    return IPU_OK;
}

typedef struct blis_job {
    const ipu__blis_call *call;
    int64_t row_tiles;
    int64_t column_tiles;
} blis_job;

static void
tile_task(void *state, int32_t task, int32_t worker)
{
    const blis_job *job = state;
    const ipu__blis_call *call = job->call;
    const ipu__matmul *plan = call->plan;
    int64_t bytes = call->wide ? sizeof(double) : sizeof(float);
    int64_t tiles = job->row_tiles * job->column_tiles;
    int64_t batch = task / tiles;
    int64_t row = task % tiles / job->column_tiles * call->choice.tile_rows;
    int64_t column = task % job->column_tiles * call->choice.tile_columns;
    int64_t a_at = ipu__loop_offset(&plan->batch, 0, batch) + row * plan->a_row;
    int64_t b_at = ipu__loop_offset(&plan->batch, 1, batch) + column * plan->b_col;
    int64_t c_at = (batch * plan->m + row) * plan->n + column;
    ipu__blis_product product = {
        .m = ipu__min(plan->m - row, call->choice.tile_rows),
        .n = ipu__min(plan->n - column, call->choice.tile_columns),
        .k = plan->k,
        .a = ipu__at(call->a, a_at * bytes),
        .a_row = plan->a_row,
        .a_col = plan->a_col,
        .b = ipu__at(call->b, b_at * bytes),
        .b_row = plan->b_row,
        .b_col = plan->b_col,
        .c = ipu__at_mutable(call->c, c_at * bytes),
        .c_row = plan->n,
        .c_col = 1,
        .wide = call->wide,
        .alpha = 1.0,
    };
    (void)worker;
    if (plan->k > 0) {
        ipu__blis_multiply(call->choice.context, &product);
    } else {
        for (int64_t i = 0; i < product.m; i++) {
            memset(ipu__at_mutable(product.c, i * plan->n * bytes), 0,
                   (size_t)(product.n * bytes));
        }
    }
    ipu__finish_rows(call->finish, product.c, plan->n, product.m, product.n, column);
}

ipu_status
ipu__blis_run(const ipu__blis_call *call, ipu_pool *pool, ipu_ctx *ctx)
{
    const ipu__matmul *plan = call->plan;
    const ipu__blis_choice *choice = &call->choice;
    blis_job job = {.call = call};
    IPU_FAIL_IF(ctx,
                choice->tile_rows < 1 || choice->tile_columns < 1 || call->c == NULL
                    || (plan->k > 0 && (call->a == NULL || call->b == NULL)),
                INTERNAL, "matmul: not prepared, or without buffers");
    job.row_tiles = ipu__ceil_div(plan->m, choice->tile_rows);
    job.column_tiles = ipu__ceil_div(plan->n, choice->tile_columns);
    int64_t tasks = plan->batches * job.row_tiles * job.column_tiles;
    IPU_FAIL_IF(ctx, tasks > INT32_MAX, UNIMPLEMENTED, "matmul over %lld matrices",
                (long long)plan->batches);
    ipu_pool_run(pool, (int32_t)tasks, tile_task, &job);
    return IPU_OK;
}
