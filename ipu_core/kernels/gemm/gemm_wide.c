/* SPDX-License-Identifier: MIT
 *
 * Products of float64 by our own tiles: each element is one chain of fused multiply-adds
 * in the order of k, as in the reference kernel, so no cut and no class changes a bit. B
 * is read by rows, in place or from a panel; A is read in place where its rows are, and
 * otherwise from strips. Where few rows meet a large B, a few rows of B at a time are
 * walked along, and the sums wait in C. One column is made as one row of C^T = B^T A^T,
 * if B^T is no copy then.
 *
 * BLIS serves the other products (gemm_blis.c): those of few rows or columns whose terms
 * are neighbours in both factors, and all of a processor without these instructions. */
#include "kernels/gemm/gemm_wide_impl.h"

enum {
    MOST_ROWS = 8,
    VECTORS = 3,
    PANEL_DOUBLES = 3072,  /* three quarters of a first-level cache */
    PANELS = 8,            /* that are packed at once, from longer parts of rows */
    BLOCK_DOUBLES = 24576, /* of packed A, in the second-level cache */
    FEW_ROWS = 8,
    SHORT_WALK = 8, /* rows of B at a time where few rows of A meet them */
    LONG_ROW = 256, /* of B: a panel of them would be in many pages */
    MANY_ROWS = 32, /* that are worth a packed panel */
    PAGE_BYTES = 4096,
    FLOPS_PER_TASK = 1 << 18,
    COLUMNS_FAVOUR = 16,
    TASKS_PER_THREAD = 4
};

typedef struct tile_operands {
    const double *a;
    int64_t a_row;
    int64_t a_col;
    const double *b;
    int64_t b_row;
    int64_t k;
    double *c;
    int64_t c_row;
    bool continued;
} tile_operands;

typedef void tile_fn(const tile_operands *t);

typedef struct wide_form {
    const char *name;
    int64_t rows;
    int64_t lanes;
    tile_fn *tiles[MOST_ROWS][VECTORS];
} wide_form;

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET IPU_TARGET_AVX2
#define LANES 4
#define ROWS 4
#define NAME "gemm_wide_4x12"
#define FORM(name) name##_avx2
#define vector __m256d
#define load _mm256_loadu_pd
#define store _mm256_storeu_pd
#define spread _mm256_set1_pd
#define zero _mm256_setzero_pd
#define multiply_add _mm256_fmadd_pd
#include "kernels/gemm/gemm_wide_body.h"

#define TARGET IPU_TARGET_AVX512
#define LANES 8
#define ROWS 8
#define NAME "gemm_wide_8x24"
#define FORM(name) name##_avx512
#define vector __m512d
#define load _mm512_loadu_pd
#define store _mm512_storeu_pd
#define spread _mm512_set1_pd
#define zero _mm512_setzero_pd
#define multiply_add _mm512_fmadd_pd
#include "kernels/gemm/gemm_wide_body.h"

/* Vectors of AVX-512 would be filled by half with so few columns. */
static const wide_form *
form_of(ipu_cpu_class cpu, int64_t columns)
{
    return cpu == IPU_CPU_GENERIC                               ? NULL
           : cpu == IPU_CPU_AVX512 && columns > form_avx2.lanes ? &form_avx512
                                                                : &form_avx2;
}
#else
static const wide_form *
form_of(ipu_cpu_class cpu, int64_t columns)
{
    (void)cpu;
    (void)columns;
    return NULL;
}
#endif

static int64_t
panel_columns(const ipu__wide_plan *plan)
{
    return VECTORS * plan->form->lanes;
}

void
ipu__wide_plan_of(const ipu__matmul *matmul, ipu_cpu_class cpu, ipu__wide_plan *out)
{
    bool by_terms = matmul->a_col == 1 && matmul->b_row == 1;
    *out = (ipu__wide_plan){
        .form = form_of(cpu, matmul->n == 1 ? matmul->m : matmul->n),
        .m = matmul->m,
        .n = matmul->n,
        .a_row = matmul->a_row,
        .a_col = matmul->a_col,
        .b_row = matmul->b_row,
        .b_col = matmul->b_col,
    };
    if (out->form == NULL || (by_terms && ipu__min(out->m, out->n) <= FEW_ROWS)) {
        out->form = NULL;
        return;
    }
    if (matmul->n == 1) {
        out->exchanged = true;
        out->m = 1;
        out->n = matmul->m;
        out->a_row = matmul->b_col;
        out->a_col = matmul->b_row;
        out->b_row = matmul->a_col;
        out->b_col = matmul->a_row;
    }
    bool is_walk = out->m <= FEW_ROWS && out->n > LONG_ROW && out->b_col == 1;
    /* rows that are whole pages apart share a place in the cache */
    bool pages = out->b_row * (int64_t)sizeof(double) % PAGE_BYTES == 0;
    int64_t most = is_walk ? SHORT_WALK : PANEL_DOUBLES / panel_columns(out);
    bool is_small = matmul->k * out->n <= PANEL_DOUBLES;
    out->packs_b = out->b_col != 1 || (out->m >= MANY_ROWS && !is_small) ||
                   (pages && out->m > FEW_ROWS);
    out->packs_a = out->a_col != 1 && out->m > 1 && !is_walk;
    out->chunk = ipu__max(ipu__min(matmul->k, most), 1);
    int64_t tiles = BLOCK_DOUBLES / (out->chunk * out->form->rows);
    out->block = out->packs_a ? ipu__max(tiles, 1) * out->form->rows : out->m;
}

const char *
ipu__wide_name(const ipu__wide_plan *plan)
{
    return plan->form->name;
}

/* Scratch has a tile, panels (of those in place the last one may be packed), strips.
 * Where these begin, in doubles. */
static int64_t
strips_at(const ipu__wide_plan *plan)
{
    int64_t panels = plan->packs_b ? PANELS : 1;
    return (plan->form->rows + panels * plan->chunk) * panel_columns(plan);
}

static int64_t
scratch_doubles(const ipu__wide_plan *plan)
{
    return strips_at(plan) + (plan->packs_a ? plan->block * plan->chunk : 0);
}

/* k rows of `columns` columns of B as [panel][k][columns of a panel], with zeros up to
 * a whole panel. */
static void
pack_panels(const ipu__wide_plan *plan, const double *b, int64_t columns, int64_t k,
            double *out)
{
    const int64_t width = panel_columns(plan);
    if (columns % width != 0) {
        memset(out + columns / width * width * k, 0, (size_t)(k * width) * sizeof *out);
    }
    if (plan->b_col == 1) {
        for (int64_t i = 0; i < k; i++) {
            for (int64_t j = 0; j < columns; j += width) {
                const double *from = b + i * plan->b_row + j;
                double *to = out + j * k + i * width;
                for (int64_t l = 0; l < ipu__min(columns - j, width); l++) {
                    to[l] = from[l];
                }
            }
        }
        return;
    }
    for (int64_t j = 0; j < columns; j++) {
        double *to = out + j / width * width * k + j % width;
        for (int64_t i = 0; i < k; i++) {
            to[i * width] = b[i * plan->b_row + j * plan->b_col];
        }
    }
}

/* `rows` rows of A as [row tile][k][rows of a tile]. */
static void
pack_strips(const ipu__wide_plan *plan, const double *a, int64_t rows, int64_t k,
            double *out)
{
    const int64_t tile = plan->form->rows;
    for (int64_t i = 0; i < rows; i += tile, out += tile * k) {
        const int64_t count = ipu__min(rows - i, tile);
        const double *from = a + i * plan->a_row;
        for (int64_t j = 0; j < k; j++, from += plan->a_col) {
            for (int64_t l = 0; l < count; l++) {
                out[j * tile + l] = from[l * plan->a_row];
            }
        }
    }
}

/* What a part works on: rows and columns of C, of one matrix. */
typedef struct wide_part {
    const ipu__wide_plan *plan;
    const double *a;
    const double *b;
    double *c;
    int64_t k;
    int64_t row;
    int64_t row_end;
    int64_t column;
    int64_t column_end;
} wide_part;

/* Rows [row, row + rows) by one panel of `columns` columns, packed or not, over k terms
 * from k0. */
static void
multiply_panel(const wide_part *p, int64_t row, int64_t rows, int64_t column,
               int64_t columns, int64_t k0, int64_t k, const double *panel,
               double *scratch)
{
    const ipu__wide_plan *plan = p->plan;
    const int64_t width = panel_columns(plan);
    const int64_t lanes = plan->form->lanes;
    const bool is_whole = columns % lanes == 0;
    const int64_t vectors = ipu__ceil_div(columns, lanes);
    double *edge = scratch;
    const double *strips = scratch + strips_at(plan);
    tile_operands t = {.b = panel, .b_row = width, .k = k, .continued = k0 > 0};
    if (panel == NULL) {
        t.b = p->b + k0 * plan->b_row + column;
        t.b_row = plan->b_row;
    }
    for (int64_t i = 0; i < rows; i += plan->form->rows) {
        const int64_t count = ipu__min(rows - i, plan->form->rows);
        double *c = p->c + (row + i) * plan->n + column;
        t.a = plan->packs_a ? strips + i * k
                            : p->a + (row + i) * plan->a_row + k0 * plan->a_col;
        t.a_row = plan->packs_a ? 1 : plan->a_row;
        t.a_col = plan->packs_a ? plan->form->rows : plan->a_col;
        t.c = is_whole ? c : edge;
        t.c_row = is_whole ? plan->n : width;
        for (int64_t l = 0; l < count && !is_whole && t.continued; l++) {
            memcpy(edge + l * width, c + l * plan->n, (size_t)columns * sizeof *c);
        }
        plan->form->tiles[count - 1][vectors - 1](&t);
        for (int64_t l = 0; l < count && !is_whole; l++) {
            memcpy(c + l * plan->n, edge + l * width, (size_t)columns * sizeof *c);
        }
    }
}

/* Rows [row, row + rows) by columns [column, column + columns), which are packed at
 * once. */
static void
multiply_panels(const wide_part *p, int64_t row, int64_t rows, int64_t column,
                int64_t columns, int64_t k0, int64_t k, double *scratch)
{
    const ipu__wide_plan *plan = p->plan;
    const int64_t width = panel_columns(plan);
    const int64_t whole = plan->packs_b ? 0 : columns / width * width;
    double *panels = scratch + plan->form->rows * width;
    pack_panels(plan, p->b + k0 * plan->b_row + (column + whole) * plan->b_col,
                columns - whole, k, panels);
    for (int64_t j = 0; j < columns; j += width) {
        multiply_panel(p, row, rows, column + j, ipu__min(columns - j, width), k0, k,
                       j < whole ? NULL : panels + (j - whole) * k, scratch);
    }
}

static void
multiply_part(const wide_part *p, double *scratch)
{
    const ipu__wide_plan *plan = p->plan;
    const int64_t most = PANELS * panel_columns(plan);
    double *strips = scratch + strips_at(plan);
    for (int64_t row = p->row, rows; row < p->row_end; row += rows) {
        rows = ipu__min(p->row_end - row, plan->block);
        int64_t k0 = 0;
        do {
            const int64_t k = ipu__min(p->k - k0, plan->chunk);
            if (plan->packs_a) {
                pack_strips(plan, p->a + row * plan->a_row + k0 * plan->a_col, rows, k,
                            strips);
            }
            for (int64_t j = p->column; j < p->column_end; j += most) {
                multiply_panels(p, row, rows, j, ipu__min(p->column_end - j, most), k0,
                                k, scratch);
            }
            k0 += k;
        } while (k0 < p->k);
    }
}

/* Along columns where those are more than rows: each part packs what it reads, so that
 * parts by rows would all pack B. */
static bool
is_cut_by_columns(const ipu__wide_plan *plan)
{
    int64_t favour = plan->packs_b && !plan->packs_a ? COLUMNS_FAVOUR : 1;
    return favour * plan->n * plan->form->rows > plan->m * panel_columns(plan);
}

/* Into how many parts one matrix is cut at most. */
static int64_t
most_parts(const ipu__wide_plan *plan, int64_t k)
{
    int64_t tiles = is_cut_by_columns(plan)
                        ? ipu__ceil_div(plan->n, panel_columns(plan))
                        : ipu__ceil_div(plan->m, plan->form->rows);
    return ipu__max(ipu__min(2 * plan->m * plan->n * k / FLOPS_PER_TASK, tiles), 1);
}

typedef struct wide_job {
    const ipu__wide_call *call;
    int64_t parts; /* of a matrix */
} wide_job;

static void
make_parts(void *state, int64_t begin, int64_t end, void *scratch)
{
    const wide_job *job = state;
    const ipu__wide_call *call = job->call;
    const ipu__wide_plan *plan = call->plan;
    const ipu__matmul *matmul = call->matmul;
    const int64_t tiles = ipu__ceil_div(plan->m, plan->form->rows);
    const int64_t width = panel_columns(plan);
    const int64_t panels = ipu__ceil_div(plan->n, width);
    const int64_t parts = job->parts;
    for (int64_t i = begin; i < end; i++) {
        int64_t batch = i / parts;
        const double *a = call->a + ipu__loop_offset(&matmul->batch, 0, batch);
        const double *b = call->b + ipu__loop_offset(&matmul->batch, 1, batch);
        wide_part p = {
            .plan = plan,
            .a = plan->exchanged ? b : a,
            .b = plan->exchanged ? a : b,
            .c = call->c + batch * plan->m * plan->n,
            .k = matmul->k,
            .row_end = plan->m,
            .column_end = plan->n,
        };
        if (is_cut_by_columns(plan)) {
            p.column = ipu__share_of(panels, parts, i % parts) * width;
            p.column_end =
                ipu__min(ipu__share_of(panels, parts, i % parts + 1) * width, plan->n);
        } else {
            p.row = ipu__share_of(tiles, parts, i % parts) * plan->form->rows;
            p.row_end = ipu__min(
                ipu__share_of(tiles, parts, i % parts + 1) * plan->form->rows, plan->m);
        }
        multiply_part(&p, scratch);
        double *c = p.c + p.row * plan->n + p.column;
        if (plan->exchanged) { /* columns of it are rows */
            ipu__finish_rows(call->finish, c, 1, p.column_end - p.column, 1, 0);
        } else {
            ipu__finish_rows(call->finish, c, plan->n, p.row_end - p.row,
                             p.column_end - p.column, p.column);
        }
    }
}

size_t
ipu__wide_workspace(const ipu__matmul *matmul, const ipu__wide_plan *plan)
{
    return ipu__share_bytes(matmul->batches * most_parts(plan, matmul->k),
                            (size_t)scratch_doubles(plan) * sizeof(double));
}

void
ipu__wide_run(const ipu__wide_call *call, ipu_pool *pool, void *workspace)
{
    const ipu__matmul *matmul = call->matmul;
    int64_t threads = ipu_pool_hands(pool);
    int64_t most = threads == 1 ? 1 : TASKS_PER_THREAD * threads;
    wide_job job = {call, ipu__min(most_parts(call->plan, matmul->k), most)};
    ipu__share_out(pool, matmul->batches * job.parts, make_parts, &job, workspace,
                   (size_t)scratch_doubles(call->plan) * sizeof(double));
}
