/* SPDX-License-Identifier: MIT
 *
 * Products of our own (gemm_tiles.c), shared out to threads. Two ways:
 *
 *   few rows     tasks are columns; each packs its panels of B as its first tile of
 *                rows reads them, while they are on their way through the cache
 *   many rows    all of B is packed first, then tasks are runs of row tiles, and of
 *                columns where there are not enough of those
 *
 * Which and how many follows from the shape alone. It changes no bit: an element is one
 * chain of multiply-adds whoever computes it. */
#include "kernels/gemm_share_impl.h"

enum {
    FLOPS_PER_TASK = 1 << 18,
    MOST_TASKS = 16, /* of products of the usual size */
    MOST_POOL_TASKS = 64,
    FEW_TILES = 32,       /* few rows: what stays in the second-level cache */
    BLOCK_TILES = 9,      /* many rows: as many strips as stay in it beside B */
    SERIAL_PACK = 1 << 14 /* floats that one thread packs faster than several */
};

#if defined(__x86_64__)

bool
ipu__own_serves(const ipu__matmul *plan, ipu_cpu_class cpu)
{
    int64_t tiles = ipu__ceil_div(plan->m, IPU_TILE_ROWS);
    bool packs = ipu__packs_a(plan->k, plan->a_col);
    if (cpu < IPU_CPU_AVX2 || plan->k == 0) {
        return false;
    }
    if (plan->batches > 1 && packs && tiles > FEW_TILES) {
        return false;
    }
    /* measured: one column, and what is large in every direction, is BLIS's */
    return plan->n >= 4 && !(plan->m >= 768 && plan->n >= 768 && plan->k >= 768);
}

ipu__own_cut
ipu__own_cut_of(const ipu__matmul *plan, bool at_once)
{
    int64_t tiles = ipu__ceil_div(plan->m, IPU_TILE_ROWS);
    int64_t panels = ipu__ceil_div(plan->n, IPU_PANEL);
    int64_t tasks = 2 * plan->m * plan->n * plan->k / FLOPS_PER_TASK;
    bool packs = ipu__packs_a(plan->k, plan->a_col);
    ipu__own_cut cut = {.rows = 1, .columns = 1, .shared = false};
    tasks = tasks < 1 ? 1 : ipu__min(tasks, MOST_TASKS);
    cut.shared = plan->batches == 1
                 && (at_once || tiles > (packs ? BLOCK_TILES : FEW_TILES));
    if (!cut.shared) {
        cut.columns = (int32_t)ipu__min(tasks, panels);
        return cut;
    }
    int64_t blocks = ipu__ceil_div(tiles, BLOCK_TILES);
    int64_t rows = blocks > tasks ? ipu__ceil_div(blocks, 4) * 4 : tasks;
    rows = tasks == 1 ? 1 : ipu__min(ipu__min(rows, tiles), MOST_POOL_TASKS);
    cut.rows = (int32_t)rows;
    cut.columns = (int32_t)ipu__min(panels, ipu__ceil_div(tasks, rows));
    return cut;
}

/* Row tiles that a task packs at a time. */
static int64_t
tiles_at_a_time(const ipu__matmul *plan, const ipu__own_cut *cut)
{
    int64_t tiles = ipu__ceil_div(plan->m, IPU_TILE_ROWS);
    int64_t most = ipu__ceil_div(tiles, cut->rows);
    return cut->shared ? ipu__min(most, BLOCK_TILES) : most;
}

static int64_t
task_scratch(const ipu__matmul *plan, const ipu__own_cut *cut, bool at_once)
{
    bool packs = ipu__packs_a(plan->k, plan->a_col);
    int64_t chunk = ipu__chunk_of(plan->k, at_once);
    int64_t strips =
        packs ? tiles_at_a_time(plan, cut) * IPU_TILE_ROWS * chunk + IPU_PANEL : 0;
    return ipu__ceil_div(strips, IPU_PANEL) * IPU_PANEL + IPU_PANEL * chunk
           + IPU_TILE_ROWS * IPU_PANEL;
}

static int64_t
panel_floats(const ipu__matmul *plan, const ipu__own_cut *cut)
{
    return cut->shared ? ipu__ceil_div(plan->n, IPU_PANEL) * IPU_PANEL * plan->k : 0;
}

static int64_t
pool_tasks(const ipu__matmul *plan, const ipu__own_cut *cut)
{
    return ipu__min(plan->batches * cut->rows * cut->columns, MOST_POOL_TASKS);
}

size_t
ipu__own_workspace(const ipu__matmul *plan, const ipu__own_cut *cut, bool at_once)
{
    int64_t scratch = pool_tasks(plan, cut) * task_scratch(plan, cut, at_once);
    return (size_t)(panel_floats(plan, cut) + scratch) * sizeof(float);
}

typedef struct own_job {
    const ipu__own_call *call;
    ipu__product product; /* of the first matrices of a batch */
    float *panels;
    float *scratch;
    int64_t scratch_floats;
    int64_t tasks;
    int64_t pool_tasks;
} own_job;

static void
pack_task(void *state, int32_t task, int32_t worker)
{
    const own_job *job = state;
    int64_t panels = ipu__ceil_div(job->product.n, IPU_PANEL);
    (void)worker;
    ipu__pack_panels(&job->product, job->panels,
                     ipu__share_of(panels, MOST_TASKS, task),
                     ipu__share_of(panels, MOST_TASKS, task + 1));
}

/* The part `part` of all row tiles by all panels, of all batches. */
static void
multiply_part(const own_job *job, int64_t part, float *scratch)
{
    const ipu__own_call *call = job->call;
    const ipu__own_cut *cut = &call->cut;
    const ipu__matmul *plan = call->plan;
    int64_t cuts = (int64_t)cut->rows * cut->columns;
    int64_t batch = part / cuts;
    int64_t row_part = part % cuts / cut->columns;
    int64_t column_part = part % cut->columns;
    int64_t tiles = ipu__ceil_div(plan->m, IPU_TILE_ROWS);
    int64_t panels = ipu__ceil_div(plan->n, IPU_PANEL);
    int64_t tile_end = ipu__share_of(tiles, cut->rows, row_part + 1);
    int64_t panel = ipu__share_of(panels, cut->columns, column_part);
    int64_t panel_end = ipu__share_of(panels, cut->columns, column_part + 1);
    int64_t step = tiles_at_a_time(plan, cut);
    ipu__product product = job->product;
    product.a += ipu__loop_offset(&plan->batch, 0, batch);
    product.b += ipu__loop_offset(&plan->batch, 1, batch);
    if (product.c != NULL) {
        product.c += batch * plan->m * plan->n;
    }
    if (product.accumulator != NULL) {
        product.accumulator += batch * plan->m * plan->n;
    }
    for (int64_t i = ipu__share_of(tiles, cut->rows, row_part); i < tile_end;
         i += step) {
        int64_t end = ipu__min(i + step, tile_end);
        ipu__multiply_tiles(&product, i, end, panel, panel_end, scratch);
        if (!ipu__is_at_once(&product)) {
            int64_t row = ipu__share_of(plan->m, tiles, i);
            int64_t rows = ipu__share_of(plan->m, tiles, end) - row;
            int64_t column = panel * IPU_PANEL;
            int64_t columns = ipu__min(panel_end * IPU_PANEL, plan->n) - column;
            ipu__finish_rows(call->finish, product.c + row * plan->n + column, plan->n,
                             rows, columns, column);
        }
    }
}

static void
multiply_task(void *state, int32_t task, int32_t worker)
{
    const own_job *job = state;
    float *scratch = job->scratch + task * job->scratch_floats;
    int64_t end = ipu__share_of(job->tasks, job->pool_tasks, task + 1);
    (void)worker;
    for (int64_t i = ipu__share_of(job->tasks, job->pool_tasks, task); i < end; i++) {
        multiply_part(job, i, scratch);
    }
}

void
ipu__own_run(const ipu__own_call *call, ipu_pool *pool, float *workspace)
{
    const ipu__matmul *plan = call->plan;
    const ipu__own_cut *cut = &call->cut;
    bool at_once = call->accumulator != NULL || call->update != NULL;
    own_job job = {
        .call = call,
        .product = {.m = plan->m,
                    .n = plan->n,
                    .k = plan->k,
                    .a = call->a,
                    .a_row = plan->a_row,
                    .a_col = plan->a_col,
                    .b = call->b,
                    .b_row = plan->b_row,
                    .b_col = plan->b_col,
                    .c = call->c,
                    .accumulator = call->accumulator,
                    .update = call->update},
        .panels = workspace,
        .scratch = workspace + panel_floats(plan, cut),
        .scratch_floats = task_scratch(plan, cut, at_once),
        .tasks = plan->batches * cut->rows * cut->columns,
        .pool_tasks = pool_tasks(plan, cut),
    };
    if (cut->shared) {
        bool alone = plan->k * plan->n <= SERIAL_PACK;
        if (alone) {
            ipu__pack_panels(&job.product, job.panels, 0,
                             ipu__ceil_div(plan->n, IPU_PANEL));
        } else {
            ipu_pool_run(pool, MOST_TASKS, pack_task, &job);
        }
        job.product.panels = job.panels;
    }
    ipu_pool_run(pool, (int32_t)job.pool_tasks, multiply_task, &job);
}

#else

bool
ipu__own_serves(const ipu__matmul *plan, ipu_cpu_class cpu)
{
    (void)plan;
    (void)cpu;
    return false;
}

ipu__own_cut
ipu__own_cut_of(const ipu__matmul *plan, bool at_once)
{
    (void)plan;
    (void)at_once;
    return (ipu__own_cut){0};
}

size_t
ipu__own_workspace(const ipu__matmul *plan, const ipu__own_cut *cut, bool at_once)
{
    (void)plan;
    (void)cut;
    (void)at_once;
    return 0;
}

void
ipu__own_run(const ipu__own_call *call, ipu_pool *pool, float *workspace)
{
    (void)call;
    (void)pool;
    (void)workspace;
}
#endif
