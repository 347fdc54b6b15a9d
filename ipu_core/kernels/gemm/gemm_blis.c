/* SPDX-License-Identifier: MIT
 *
 * Matrix products by BLIS; the only file that includes blis.h. The context and the cut
 * into tiles follow from CPU class and shape alone and are stored in the spec, since
 * contexts and cuts round differently; threads merely take tiles. BLIS itself runs with
 * one thread and gets its context by hand: its own detection goes by the processor's
 * name, and a look-up of a context that it was built without ends the process. So the
 * header that came with the library is asked what the library holds. Every argument is
 * checked before a call, as BLIS returns silently from impossible strides. Buffers must
 * have IPU_SLACK_BYTES behind them: BLIS 0.9 may read past a matrix. alpha is 1 and
 * beta 0. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* blis.h names POSIX barriers */
#endif
#include <stdlib.h>

#include <blis.h>

#include "kernels/gemm/gemm_blis_impl.h"

/* The look-up of a context by id is named differently in BLIS 2; the build says how. */
#ifndef IPU_BLIS_LOOKUP
#define IPU_BLIS_LOOKUP bli_gks_lookup_nat_cntx
#endif

/* blis.h defines BLIS_CONFIG_<NAME> as nothing for what the library was built with: its
 * text is then empty, and otherwise the name itself. */
#define TEXT(...) #__VA_ARGS__
#define EXPANDED_TEXT(...) TEXT(__VA_ARGS__)
#define IS_BUILT(name) (sizeof EXPANDED_TEXT(BLIS_CONFIG_##name) == 1)

enum { FLOPS_PER_TILE = 1 << 20, MOST_TILES = 16, TILE_ROWS = 6, TILE_COLUMNS = 16 };

typedef struct context_row {
    const char *name;
    arch_t id;
    bool built;
} context_row;

static const context_row contexts[IPU_BLIS_CONTEXT_COUNT] = {
    [IPU_BLIS_OWN_CHOICE] = {"blis", BLIS_ARCH_GENERIC, true},
    [IPU_BLIS_GENERIC] = {"blis_generic", BLIS_ARCH_GENERIC, IS_BUILT(GENERIC)},
    [IPU_BLIS_HASWELL] = {"blis_haswell", BLIS_ARCH_HASWELL, IS_BUILT(HASWELL)},
    [IPU_BLIS_ZEN3] = {"blis_zen3", BLIS_ARCH_ZEN3, IS_BUILT(ZEN3)},
    [IPU_BLIS_SKX] = {"blis_skx", BLIS_ARCH_SKX, IS_BUILT(SKX)},
};

const char *
ipu__blis_name(ipu__blis_context context)
{
    return contexts[context].name;
}

/* What BLIS_ARCH_TYPE may name without ending the process. */
static bool
is_built(long id)
{
    static const context_row ids[] = {
#define ROW(name) {#name, BLIS_ARCH_##name, IS_BUILT(name)}
        ROW(SKX),        ROW(KNL),         ROW(HASWELL),    ROW(SANDYBRIDGE),
        ROW(PENRYN),     ROW(ZEN3),        ROW(ZEN2),       ROW(ZEN),
        ROW(EXCAVATOR),  ROW(STEAMROLLER), ROW(PILEDRIVER), ROW(BULLDOZER),
        ROW(ARMSVE),     ROW(A64FX),       ROW(FIRESTORM),  ROW(THUNDERX2),
        ROW(CORTEXA57),  ROW(CORTEXA53),   ROW(GENERIC),
#undef ROW
    };
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        if (ids[i].built && (long)ids[i].id == id) {
            return true;
        }
    }
    return false;
}

/* Thread safe: BLIS guards it by pthread_once. It reads BLIS_ARCH_TYPE as a number, -1
 * for its own choice; BLIS 2 takes names too, which are refused here with the rest. */
ipu_status
ipu__blis_initialise(ipu_ctx *ctx)
{
    const char *type = getenv("BLIS_ARCH_TYPE");
    if (type != NULL) {
        char *end;
        long id = strtol(type, &end, 10);
        bool number = end != type && *end == '\0';
        IPU_FAIL_IF(ctx, !number || !(id == -1 || is_built(id)), FAILED_PRECONDITION,
                    "the environment has BLIS_ARCH_TYPE=%s, over which this BLIS may end "
                    "the process; unset it (IPU_CPU_CLASS chooses kernels here)",
                    type);
    }
    bli_init();
    return IPU_OK;
}

/* NULL, which means BLIS's own choice, for architectures other than x86-64. */
static const cntx_t *
context_of(ipu__blis_context context)
{
    return context == IPU_BLIS_OWN_CHOICE ? NULL : IPU_BLIS_LOOKUP(contexts[context].id);
}

/* Measured: the kernels for AVX-512 serve where they run on units as wide, and matrices
 * are not small, for which BLIS has kernels with AVX2 alone. */
static ipu__blis_context
context_for(const ipu__matmul *plan, ipu_cpu_class cpu)
{
#if defined(__x86_64__)
    bool small = ipu__min(plan->m, plan->n) <= 16
                 || plan->m * plan->n * plan->k < 64000;
    if (cpu == IPU_CPU_AVX512 && ipu__has_wide_avx512() && !small) {
        return IPU_BLIS_SKX;
    }
    return cpu == IPU_CPU_GENERIC ? IPU_BLIS_GENERIC : IPU_BLIS_ZEN3;
#else
    (void)plan;
    (void)cpu;
    return IPU_BLIS_OWN_CHOICE;
#endif
}

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
    *out = (ipu__blis_choice){context_for(plan, cpu), plan->m, plan->n};
    IPU_TRY(ipu__blis_initialise(ctx));
    if (!contexts[out->context].built && out->context == IPU_BLIS_ZEN3) {
        out->context = IPU_BLIS_HASWELL; /* a BLIS built without zen3 */
    }
    IPU_FAIL_IF(ctx, !contexts[out->context].built, FAILED_PRECONDITION,
                "this BLIS was built without the context %s; use a build for the family "
                "x86_64",
                contexts[out->context].name);
    cut(plan, out);
    return IPU_OK;
}

typedef struct blis_job {
    const ipu__blis_call *call;
    const cntx_t *context;
    int64_t row_tiles;
    int64_t column_tiles;
} blis_job;

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
multiply(const ipu__matmul *plan, const cntx_t *context, int64_t m, int64_t n,
         const float *a, const float *b, float *c)
{
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
                 b_column, &zero, c, c_row, c_column, (cntx_t *)(uintptr_t)context,
                 &runtime);
}

static void
tile_task(void *state, int32_t task, int32_t worker)
{
    const blis_job *job = state;
    const ipu__blis_call *call = job->call;
    const ipu__matmul *plan = call->plan;
    int64_t tiles = job->row_tiles * job->column_tiles;
    int64_t batch = task / tiles;
    int64_t row = task % tiles / job->column_tiles * call->choice.tile_rows;
    int64_t column = task % job->column_tiles * call->choice.tile_columns;
    int64_t rows = ipu__min(plan->m - row, call->choice.tile_rows);
    int64_t columns = ipu__min(plan->n - column, call->choice.tile_columns);
    const float *a =
        call->a + ipu__loop_offset(&plan->batch, 0, batch) + row * plan->a_row;
    const float *b =
        call->b + ipu__loop_offset(&plan->batch, 1, batch) + column * plan->b_col;
    float *c = call->c + (batch * plan->m + row) * plan->n + column;
    (void)worker;
    if (plan->k > 0) {
        multiply(plan, job->context, rows, columns, a, b, c);
    } else {
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t j = 0; j < columns; j++) {
                c[i * plan->n + j] = 0.0f;
            }
        }
    }
    ipu__finish_rows(call->finish, c, plan->n, rows, columns, column);
}

ipu_status
ipu__blis_run(const ipu__blis_call *call, ipu_pool *pool, ipu_ctx *ctx)
{
    const ipu__matmul *plan = call->plan;
    const ipu__blis_choice *choice = &call->choice;
    blis_job job = {.call = call, .context = context_of(choice->context)};
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
