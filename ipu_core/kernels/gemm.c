/* SPDX-License-Identifier: MIT
 *
 * Matrix products: which kernel serves, and those of BLIS; the only file that includes
 * blis.h. The kernel, one of our own (gemm_own.c) or BLIS with one of its contexts, is
 * looked up at prepare time by CPU class and shape alone and stored in the spec. BLIS's
 * contexts and cuts round differently, so the cut is part of that choice too, and
 * threads merely take tiles. BLIS itself runs with one thread and gets its context by
 * hand, since its own detection goes by the processor's name. Every argument is checked
 * before a call, as BLIS returns silently from impossible strides. Buffers must have
 * IPU_SLACK_BYTES behind them: BLIS 0.9 may read past a matrix, as may our own. alpha
 * is 1 and beta 0. A bias and an activation are applied to a tile while it is in the
 * cache, by the functions that the separate ops use. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* blis.h names POSIX barriers */
#endif
#include <stdlib.h>

#include <blis.h>

#include "kernels/gemm_impl.h"

/* The look-up of a context by id is named differently in BLIS 2; the build says how. */
#ifndef IPU_BLIS_LOOKUP
#define IPU_BLIS_LOOKUP bli_gks_lookup_nat_cntx
#endif

enum { FLOPS_PER_TILE = 1 << 20, MOST_TILES = 16 };

typedef enum engine_id {
    ENGINE_BLIS, /* what BLIS finds by itself: architectures other than x86-64 */
    ENGINE_HASWELL,
    ENGINE_SKX,
    ENGINE_ZEN3,
    ENGINE_6X16 /* ours */
} engine_id;

static const char *const engine_names[] = {
    [ENGINE_BLIS] = "blis",
    [ENGINE_HASWELL] = "blis_haswell",
    [ENGINE_SKX] = "blis_skx",
    [ENGINE_ZEN3] = "blis_zen3",
    [ENGINE_6X16] = "gemm_6x16",
};

static const cntx_t *
context_of(engine_id engine)
{
#if defined(__x86_64__)
    switch (engine) {
    case ENGINE_BLIS:
    case ENGINE_6X16:
        break;
    case ENGINE_HASWELL:
        return IPU_BLIS_LOOKUP(BLIS_ARCH_HASWELL);
    case ENGINE_SKX:
        return IPU_BLIS_LOOKUP(BLIS_ARCH_SKX);
    case ENGINE_ZEN3:
        return IPU_BLIS_LOOKUP(BLIS_ARCH_ZEN3);
    }
    return IPU_BLIS_LOOKUP(BLIS_ARCH_GENERIC);
#else
    (void)engine;
    return NULL;
#endif
}

/* Thread safe: BLIS guards it by pthread_once. BLIS 0.9 ends the process over a
 * BLIS_ARCH_TYPE that it does not know, so only a small number is let through. */
static ipu_status
initialise(ipu_ctx *ctx)
{
    const char *type = getenv("BLIS_ARCH_TYPE");
    if (type != NULL) {
        bool number = type[0] >= '0' && type[0] <= '9'
                      && (type[1] == '\0'
                          || (type[1] >= '0' && type[1] <= '9' && type[2] == '\0'));
        IPU_FAIL_IF(ctx, !number, FAILED_PRECONDITION,
                    "the environment has BLIS_ARCH_TYPE=%s, with which BLIS ends the "
                    "process; unset it (IPU_CPU_CLASS chooses kernels here)",
                    type);
    }
    bli_init();
    return IPU_OK;
}

static engine_id
engine_of(const ipu__matmul *plan, ipu_cpu_class cpu)
{
#if defined(__x86_64__)
    switch (cpu) {
    case IPU_CPU_GENERIC:
        break;
    case IPU_CPU_AVX2:
        return ENGINE_ZEN3;
    case IPU_CPU_AVX512:
        /* skx has no kernels for small matrices: measured 3 to 9 times slower */
        return ipu__min(plan->m, plan->n) <= 16 || plan->m * plan->n * plan->k < 64000
                   ? ENGINE_HASWELL
                   : ENGINE_SKX;
    }
#else
    (void)plan;
    (void)cpu;
#endif
    return ENGINE_BLIS;
}

/* Splits `size` into `parts` of equal size, a multiple of `grain`. */
static int64_t
part_size(int64_t size, int64_t parts, int64_t grain)
{
    int64_t part = ipu__ceil_div(size, parts);
    return ipu__min(size, ipu__ceil_div(part, grain) * grain);
}

static void
cut(const ipu__matmul *plan, int64_t *rows, int64_t *columns)
{
    int64_t tiles = 2 * plan->m * plan->n * plan->k / FLOPS_PER_TILE;
    tiles = tiles > MOST_TILES ? MOST_TILES : tiles;
    *rows = plan->m;
    *columns = plan->n;
    if (tiles < 2) {
        return;
    }
    if (plan->m >= plan->n) {
        *rows = part_size(plan->m, tiles, IPU_TILE_ROWS);
    } else {
        *columns = part_size(plan->n, tiles, IPU_PANEL);
    }
}

typedef struct gemm_job {
    ipu__matmul plan;
    const cntx_t *context;
    ipu__finish finish;
    const float *a;
    const float *b;
    float *c;
    float *workspace; /* of our own kernel */
    int64_t tile_rows;
    int64_t tile_columns;
    int64_t row_tiles;
    int64_t column_tiles;
} gemm_job;

/* A matrix of one row or column has one stride that BLIS ignores but checks. */
static void
settle_strides(int64_t rows, int64_t columns, inc_t *row, inc_t *column)
{
    if (*row == 1 && *column == 1) {
        if (columns == 1) {
            *column = rows;
        } else {
            *row = columns;
        }
    }
}

static void
multiply(const gemm_job *job, int64_t m, int64_t n, const float *a, const float *b,
         float *c)
{
    const ipu__matmul *plan = &job->plan;
    float one = 1.0f;
    float zero = 0.0f;
    inc_t a_row = plan->a_row;
    inc_t a_column = plan->a_col;
    inc_t b_row = plan->b_row;
    inc_t b_column = plan->b_col;
    inc_t c_row = plan->n;
    inc_t c_column = 1;
    rntm_t runtime = BLIS_RNTM_INITIALIZER;
    settle_strides(m, plan->k, &a_row, &a_column);
    settle_strides(plan->k, n, &b_row, &b_column);
    settle_strides(m, n, &c_row, &c_column);
    bli_rntm_set_num_threads(1, &runtime);
    bli_sgemm_ex(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, m, n, plan->k, &one,
                 (float *)(uintptr_t)a, a_row, a_column, (float *)(uintptr_t)b, b_row,
                 b_column, &zero, c, c_row, c_column,
                 (cntx_t *)(uintptr_t)job->context, &runtime);
}

void
ipu__finish_rows(const ipu__finish *finish, const ipu__matmul *plan, float *c,
                 int64_t rows, int64_t columns, int64_t column)
{
    const ipu__vector_f32 *vector = finish->vector;
    if (finish->bias == NULL && finish->activation == IPU_ACTIVATION_NONE) {
        return;
    }
    for (int64_t i = 0; i < rows; i++, c += plan->n) {
        if (finish->bias != NULL) {
            vector->add(c, c, finish->bias + column, columns);
        }
        switch (finish->activation) {
        case IPU_ACTIVATION_NONE:
            break;
        case IPU_ACTIVATION_RELU:
            vector->relu(c, c, columns);
            break;
        case IPU_ACTIVATION_TANH:
            vector->tanh(c, c, columns);
            break;
        case IPU_ACTIVATION_SIGMOID:
            vector->sigmoid(c, c, columns);
            break;
        }
    }
}

static void
tile_task(void *state, int32_t task, int32_t worker)
{
    const gemm_job *job = state;
    const ipu__matmul *plan = &job->plan;
    int64_t tiles = job->row_tiles * job->column_tiles;
    int64_t batch = task / tiles;
    int64_t row = task % tiles / job->column_tiles * job->tile_rows;
    int64_t column = task % job->column_tiles * job->tile_columns;
    int64_t rows = ipu__min(plan->m - row, job->tile_rows);
    int64_t columns = ipu__min(plan->n - column, job->tile_columns);
    const float *a =
        job->a + ipu__loop_offset(&plan->batch, 0, batch) + row * plan->a_row;
    const float *b =
        job->b + ipu__loop_offset(&plan->batch, 1, batch) + column * plan->b_col;
    float *c = job->c + (batch * plan->m + row) * plan->n + column;
    (void)worker;
    if (plan->k > 0) {
        multiply(job, rows, columns, a, b, c);
    } else {
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t j = 0; j < columns; j++) {
                c[i * plan->n + j] = 0.0f;
            }
        }
    }
    ipu__finish_rows(&job->finish, plan, c, rows, columns, column);
}

static ipu_status
run_blis(const ipu_kernel_call *call, gemm_job *job)
{
    const ipu_kernel_spec *spec = call->spec;
    const ipu__matmul *plan = &job->plan;
    int64_t tasks;
    job->context = context_of((engine_id)spec->choice[0]);
    job->tile_rows = spec->choice[1];
    job->tile_columns = spec->choice[2];
    IPU_FAIL_IF(call->ctx,
                job->tile_rows < 1 || job->tile_columns < 1 || job->c == NULL
                    || (plan->k > 0 && (job->a == NULL || job->b == NULL)),
                INTERNAL, "matmul: not prepared, or without buffers");
    job->row_tiles = ipu__ceil_div(plan->m, job->tile_rows);
    job->column_tiles = ipu__ceil_div(plan->n, job->tile_columns);
    tasks = plan->batches * job->row_tiles * job->column_tiles;
    IPU_FAIL_IF(call->ctx, tasks > INT32_MAX, UNIMPLEMENTED,
                "matmul over %lld matrices", (long long)plan->batches);
    ipu_pool_run(call->pool, (int32_t)tasks, tile_task, job);
    return IPU_OK;
}

/* `update`: the product is a gradient; only our own kernel takes one. */
static ipu_status
run_product(const ipu_kernel_call *call, gemm_job *job, const ipu__sgd *update)
{
    const ipu_kernel_spec *spec = call->spec;
    const ipu__matmul *plan = &job->plan;
    job->finish.vector = ipu__vector_f32_of((ipu_cpu_class)spec->choice[3]);
    job->finish.activation = plan->activation;
    if (plan->m == 0 || plan->n == 0 || plan->batches == 0) {
        return IPU_OK;
    }
    if ((engine_id)spec->choice[0] != ENGINE_6X16) {
        return run_blis(call, job);
    }
    ipu__own_call own = {
        .plan = plan,
        .cut = ipu__own_cut_of(plan, update != NULL),
        .a = job->a,
        .b = job->b,
        .c = job->c,
        .update = update,
        .finish = &job->finish,
    };
    ipu__own_run(&own, call->pool, job->workspace);
    return IPU_OK;
}

static ipu_status
run_f32(const ipu_kernel_call *call)
{
    gemm_job job = {.c = NULL};
    ipu__matmul_plan(call->spec, &job.plan);
    job.a = call->inputs[0];
    job.b = call->inputs[1];
    job.finish.bias = job.plan.bias ? call->inputs[2] : NULL;
    job.c = call->outputs[0];
    job.workspace = call->workspace;
    return run_product(call, &job, NULL);
}

/* Of a gradient in the workspace, with the slack that BLIS needs. */
static int64_t
gradient_floats(const ipu__matmul *plan)
{
    int64_t slack = IPU_SLACK_BYTES / (int64_t)sizeof(float);
    return (plan->m * plan->n + 15) / 16 * 16 + slack;
}

/* Whether the gradient goes from the registers into the update; otherwise it is stored
 * in the workspace. It has the same bits either way: the kernel that serves it is that
 * of the plain product. */
static bool
updates_at_once(const ipu_kernel_spec *spec, const ipu__matmul *plan)
{
    return (engine_id)spec->choice[0] == ENGINE_6X16 && plan->k <= IPU_UPDATE_CHUNK;
}

static ipu_status
run_update(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    gemm_job job = {.c = NULL};
    ipu__sgd sgd = ipu__sgd_of(call, 2);
    ipu__matmul_plan(spec, &job.plan);
    job.a = call->inputs[0];
    job.b = call->inputs[1];
    job.workspace = call->workspace;
    if (updates_at_once(spec, &job.plan)) {
        return run_product(call, &job, &sgd);
    }
    job.c = call->workspace;
    job.workspace = job.c + gradient_floats(&job.plan);
    IPU_TRY(run_product(call, &job, NULL));
    ipu__sgd_run(call->pool, &sgd, job.c, job.plan.m * job.plan.n,
                 (ipu_cpu_class)spec->choice[3]);
    return IPU_OK;
}

/* float16: both operands widened into the workspace, the product accumulated in float32
 * and rounded once; then bias and activation, which round once each. */
typedef struct half_sizes {
    size_t a;
    size_t b;
    size_t c; /* floats, each followed by slack */
} half_sizes;

static half_sizes
half_sizes_of(const ipu_kernel_spec *spec)
{
    size_t slack = IPU_SLACK_BYTES / sizeof(float);
    half_sizes sizes = {
        (size_t)ipu_shape_elements(&spec->inputs[0].shape) + slack,
        (size_t)ipu_shape_elements(&spec->inputs[1].shape) + slack,
        (size_t)ipu_shape_elements(&spec->outputs[0].shape) + slack,
    };
    sizes.a = (sizes.a + 15) / 16 * 16;
    sizes.b = (sizes.b + 15) / 16 * 16;
    sizes.c = (sizes.c + 15) / 16 * 16;
    return sizes;
}

typedef struct half_finish {
    const gemm_job *job;
    ipu__block add;
    ipu__block activation;
    const uint16_t *bias;
    uint16_t *out;
} half_finish;

static void
half_row_task(void *state, int32_t task, int32_t worker)
{
    enum { PIECE = IPU_BLOCK_BYTES / 4 };
    const half_finish *finish = state;
    int64_t n = finish->job->plan.n;
    (void)worker;
    for (int64_t j = 0; j < n; j += PIECE) {
        int64_t count = ipu__min(n - j, PIECE);
        uint16_t *out = finish->out + task * n + j;
        ipu__floats_to_halves(out, finish->job->c + task * n + j, count,
                              IPU_CPU_GENERIC);
        if (finish->bias != NULL) {
            (void)finish->add.run(&finish->add, out, out, finish->bias + j, NULL,
                                  count);
        }
        if (finish->job->plan.activation != IPU_ACTIVATION_NONE) {
            (void)finish->activation.run(&finish->activation, out, out, NULL, NULL,
                                         count);
        }
    }
}

static ipu_status
run_f16(const ipu_kernel_call *call)
{
    static const ipu_op ops[] = {
        [IPU_ACTIVATION_NONE] = IPU_OP_ID_RELU,
        [IPU_ACTIVATION_RELU] = IPU_OP_ID_RELU,
        [IPU_ACTIVATION_TANH] = IPU_OP_ID_TANH,
        [IPU_ACTIVATION_SIGMOID] = IPU_OP_ID_SIGMOID,
    };
    const ipu_kernel_spec *spec = call->spec;
    ipu_cpu_class cpu = (ipu_cpu_class)spec->choice[3];
    half_sizes sizes = half_sizes_of(spec);
    half_finish finish;
    gemm_job job = {.c = NULL};
    float *a = call->workspace;
    float *b = a + sizes.a;
    ipu__matmul_plan(spec, &job.plan);
    ipu_activation activation = job.plan.activation;
    ipu__halves_to_floats(a, call->inputs[0],
                          ipu_shape_elements(&spec->inputs[0].shape), cpu);
    ipu__halves_to_floats(b, call->inputs[1],
                          ipu_shape_elements(&spec->inputs[1].shape), cpu);
    job.a = a;
    job.b = b;
    job.c = b + sizes.b;
    job.finish.bias = NULL;
    job.workspace = job.c + sizes.c;
    job.plan.activation = IPU_ACTIVATION_NONE;
    IPU_TRY(run_product(call, &job, NULL));
    job.plan.activation = activation;
    finish.job = &job;
    finish.bias = job.plan.bias ? call->inputs[2] : NULL;
    finish.out = call->outputs[0];
    ipu__block_prepare(&finish.add, IPU_OP_ID_ADD, IPU_DTYPE_FLOAT16, IPU_DTYPE_FLOAT16,
                       cpu);
    ipu__block_prepare(&finish.activation, ops[activation], IPU_DTYPE_FLOAT16,
                       IPU_DTYPE_FLOAT16, cpu);
    ipu_pool_run(call->pool, (int32_t)(job.plan.batches * job.plan.m), half_row_task,
                 &finish);
    return IPU_OK;
}

static ipu_status
choose(ipu_ctx *ctx, ipu_kernel_spec *spec, const ipu__matmul *plan, ipu_cpu_class cpu)
{
    engine_id engine = engine_of(plan, cpu);
    /* where BLIS has kernels for AVX-512 they are wider than ours */
    bool narrow = cpu == IPU_CPU_AVX2 || engine == ENGINE_HASWELL;
    if (narrow && ipu__own_serves(plan, cpu)) {
        engine = ENGINE_6X16;
    } else {
        IPU_TRY(initialise(ctx));
#if defined(__x86_64__)
        if (context_of(engine) == NULL && engine == ENGINE_ZEN3) {
            engine = ENGINE_HASWELL; /* a BLIS built without zen3 */
        }
        IPU_FAIL_IF(ctx, context_of(engine) == NULL, FAILED_PRECONDITION,
                    "this BLIS was built without the context %s; use a build for the "
                    "family x86_64",
                    engine_names[engine]);
#endif
        cut(plan, &spec->choice[1], &spec->choice[2]);
    }
    spec->kernel_name = engine_names[engine];
    spec->choice[0] = (int64_t)engine;
    spec->choice[3] = (int64_t)cpu;
    return IPU_OK;
}

ipu_status
ipu_choose_fused_matmul(ipu_ctx *ctx, ipu_kernel_spec *spec, ipu_cpu_class cpu)
{
    ipu__matmul plan;
    ipu_dtype dtype = spec->inputs[0].dtype;
    if (dtype != IPU_DTYPE_FLOAT32 && dtype != IPU_DTYPE_FLOAT16) {
        return IPU_OK;
    }
    ipu__matmul_plan(spec, &plan);
    IPU_TRY(choose(ctx, spec, &plan, cpu));
    spec->run = run_f32;
    if ((engine_id)spec->choice[0] == ENGINE_6X16) {
        ipu__own_cut own = ipu__own_cut_of(&plan, false);
        spec->workspace_bytes = ipu__own_workspace(&plan, &own, false);
    }
    if (dtype == IPU_DTYPE_FLOAT16) {
        half_sizes sizes = half_sizes_of(spec);
        spec->run = run_f16;
        spec->workspace_bytes += (sizes.a + sizes.b + sizes.c) * sizeof(float);
    }
    return IPU_OK;
}

ipu_status
ipu_choose_matmul(ipu_ctx *ctx, ipu_kernel_spec *spec, ipu_cpu_class cpu)
{
    return ipu_choose_fused_matmul(ctx, spec, cpu);
}

ipu_status
ipu_choose_matmul_sgd_update(ipu_ctx *ctx, ipu_kernel_spec *spec, ipu_cpu_class cpu)
{
    ipu__matmul plan;
    if (spec->outputs[0].dtype != IPU_DTYPE_FLOAT32) {
        return IPU_OK;
    }
    ipu__matmul_plan(spec, &plan);
    IPU_TRY(choose(ctx, spec, &plan, cpu));
    spec->run = run_update;
    bool at_once = updates_at_once(spec, &plan);
    if ((engine_id)spec->choice[0] == ENGINE_6X16) {
        ipu__own_cut own = ipu__own_cut_of(&plan, at_once);
        spec->workspace_bytes = ipu__own_workspace(&plan, &own, at_once);
    }
    if (!at_once) {
        spec->workspace_bytes += (size_t)gradient_floats(&plan) * sizeof(float);
    }
    return IPU_OK;
}
