/* SPDX-License-Identifier: MIT
 *
 * Products of float64 and of integers by our own tiles. An element of float64 is one
 * chain of fused multiply-adds in the order of k, as in the reference kernel, so no cut
 * and no class changes a bit; integers wrap, so that any order gives the same bits. B
 * is read by rows, in place or from a panel; A is read in place where its rows are, and
 * otherwise from strips. Where few rows meet a large B, a few rows of B at a time are
 * walked along, and the sums wait in C. One column is made as one row of C^T = B^T A^T,
 * if B^T is no copy then.
 *
 * Where few rows or columns have terms that are neighbours in both factors, elements are
 * dot products; of float64 their chains are DOT_CHAINS. Sums of more than NODE_TERMS are
 * made in nodes of so many, added up in their order, whether threads share them or not.
 * BLIS (gemm_blis.c) serves
 * float64 on processors without fused multiply-adds. */
#include <math.h>

#if defined(__x86_64__)
#include "kernels/core/turn.h"
#endif
#include "kernels/gemm/gemm_chain_impl.h"

enum {
    MOST_ROWS = 8, /* of a tile of AVX-512 */
    LESS_ROWS = 4, /* of others */
    VECTORS = 3,
    PANEL_BYTES = 24576,  /* three quarters of a first-level cache */
    PANELS = 8,           /* that are packed at once, from longer parts of rows */
    MORE_PANELS = 32,     /* the same where A is packed anew for each group of them */
    BLOCK_BYTES = 196608, /* of packed A, in the second-level cache */
    FEW_ROWS = 8,
    FEW_TERMS = 16,
    LEAST_DOT = 32,  /* terms */
    DOT_CHAINS = 32, /* of float64: term by term, added up in pairs */
    NODE_TERMS = 1 << 15,
    NODE_SUMS = 1 << 15, /* that threads share at most */
    WALK = 8,           /* rows of B at a time where few rows of A meet them, */
    SHORT_WALK = 4,     /* if those are THIN, of elements of 4 bytes or more */
    THIN = 2,           /* rows */
    PIECE_BYTES = 1024, /* of a row of B that is walked along, at least */
    LONG_ROW = 2048, /* bytes, of B: a panel of them would be in many pages */
    MANY_ROWS = 32,  /* that are worth a packed panel */
    FLOPS_PER_TASK = 1 << 18,
    COLUMNS_FAVOUR = 16,
    TASKS_PER_THREAD = 4,
    BLOCK = 4 /* rows and columns that are turned at a time */
};

typedef struct tile_operands {
    const void *a;
    int64_t a_row;
    int64_t a_col;
    const void *b;
    int64_t b_row;
    int64_t k;
    void *c;
    int64_t c_row;
    bool continued;
} tile_operands;

typedef void tile_fn(const tile_operands *t);
typedef void walk_fn(const tile_operands *t, int64_t panels);

typedef struct chain_form {
    const char *name;
    int64_t rows;
    int64_t lanes;
    void (*dot)(const void *x, const void *y, int64_t n, void *out); /* of n products */
    tile_fn *tiles[MOST_ROWS][VECTORS];
    walk_fn *walks[MOST_ROWS]; /* along whole panels of B that lie side by side */
} chain_form;

#define JOINED(name, type, class) name##_##type##_##class
#define FORM_OF(name, type, class) JOINED(name, type, class)
#if defined(__x86_64__)
#include <immintrin.h>

#define element double
#define TARGET IPU_TARGET_AVX2
#define LANES 4
#define ROWS 4
#define NAME "gemm_wide_4x12"
#define FORM(name) name##_f64_avx2
#define vector __m256d
#define load _mm256_loadu_pd
#define store _mm256_storeu_pd
#define spread _mm256_set1_pd
#define multiply_add _mm256_fmadd_pd
#include "kernels/gemm/gemm_chain_dot_body.h"
#include "kernels/gemm/gemm_chain_body.h"
#undef TARGET

#define element double
#define TARGET IPU_TARGET_AVX512
#define LANES 8
#define ROWS 8
#define NAME "gemm_wide_8x24"
#define FORM(name) name##_f64_avx512
#define vector __m512d
#define load _mm512_loadu_pd
#define store _mm512_storeu_pd
#define spread _mm512_set1_pd
#define multiply_add _mm512_fmadd_pd
#include "kernels/gemm/gemm_chain_dot_body.h"
#include "kernels/gemm/gemm_chain_body.h"
#undef TARGET

#define CLASS avx2
#define CLASS_TARGET IPU_TARGET_AVX2
#define VECTOR_BYTES 32
#include "kernels/gemm/gemm_chain_integers.h"

#define CLASS avx512
#define CLASS_TARGET IPU_TARGET_AVX512
#define VECTOR_BYTES 64
#include "kernels/gemm/gemm_chain_integers.h"
#endif

#define CLASS generic
#define CLASS_TARGET
#define VECTOR_BYTES 16
#include "kernels/gemm/gemm_chain_integers.h"

/* For columns that would fill half of the smallest vector of bytes. */
#define TARGET
#define CLASS few
#define VECTOR_BYTES 8
#include "kernels/gemm/gemm_chain_bytes_body.h"
#undef TARGET
#undef CLASS
#undef VECTOR_BYTES
#undef JOINED
#undef FORM_OF

/* By class, after a form for few columns, where there is one. */
#if defined(__x86_64__)
static const chain_form *const forms_f64[] = {NULL, NULL, &form_f64_avx2,
                                              &form_f64_avx512};
#define FORMS(type, few) \
    static const chain_form *const forms_##type[] = { \
        few, &form_##type##_generic, &form_##type##_avx2, &form_##type##_avx512};
#else
static const chain_form *const forms_f64[] = {NULL, NULL};
#define FORMS(type, few) \
    static const chain_form *const forms_##type[] = {few, &form_##type##_generic};
#endif
FORMS(uint8_t, &form_uint8_t_few)
FORMS(uint16_t, NULL)
FORMS(uint32_t, NULL)
FORMS(uint64_t, NULL)
#undef FORMS

/* Vectors that so few elements would fill by half are left to a lower class. */
static const chain_form *
form_of(ipu_dtype dtype, ipu_cpu_class cpu, int64_t elements)
{
    const chain_form *const *forms = forms_f64;
#define FIND(type) forms = forms_##type;
    if (dtype != IPU_DTYPE_FLOAT64) {
        IPU_BY_WIDTH(ipu_dtype_bytes(dtype), FIND)
    }
#undef FIND
    int i = 1 + (int)cpu;
    while (i > 0 && forms[i - 1] != NULL && elements <= forms[i - 1]->lanes) {
        i--;
    }
    return forms[i];
}

static int64_t
panel_columns(const ipu__chain_plan *plan)
{
    return VECTORS * plan->form->lanes;
}

/* Measured: columns that fill half a vector are worth a panel of B. */
static bool
is_by_dots(const ipu__matmul *p, ipu_dtype dtype)
{
    bool fills = p->m > p->n && p->n > FEW_ROWS / 2 && ipu_dtype_bytes(dtype) >= 4;
    return p->a_col == 1 && p->b_row == 1 && p->k >= LEAST_DOT && !fills &&
           ipu__min(p->m, p->n) <= FEW_ROWS;
}

void
ipu__chain_plan_of(const ipu__matmul *matmul, ipu_dtype dtype, ipu_cpu_class cpu,
                   ipu__chain_plan *out)
{
    const bool by_dots = is_by_dots(matmul, dtype);
    const int64_t filled = by_dots ? matmul->k : matmul->n == 1 ? matmul->m : matmul->n;
    *out = (ipu__chain_plan){
        .form = form_of(dtype, cpu, filled),
        .bytes = (int64_t)ipu_dtype_bytes(dtype),
        .is_float = dtype == IPU_DTYPE_FLOAT64,
        .by_dots = by_dots,
        .m = matmul->m,
        .n = matmul->n,
        .a_row = matmul->a_row,
        .a_col = matmul->a_col,
        .b_row = matmul->b_row,
        .b_col = matmul->b_col,
    };
    if (out->form == NULL || out->by_dots) {
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
    out->is_walk =
        out->m <= FEW_ROWS && out->n * out->bytes > LONG_ROW && out->b_col == 1;
    /* rows that are whole pages apart share a place in the cache */
    bool pages = out->b_row * out->bytes % IPU_PAGE_BYTES == 0;
    int64_t panel = PANEL_BYTES / out->bytes;
    bool is_short = out->m <= THIN && out->bytes >= 4;
    int64_t walk = is_short ? SHORT_WALK : WALK;
    int64_t most = out->is_walk ? walk : panel / panel_columns(out);
    bool is_small = matmul->k * out->n <= panel;
    out->packs_b = out->b_col != 1 || (out->m >= MANY_ROWS && !is_small) ||
                   (pages && out->m > FEW_ROWS);
    /* one panel meets each element of A once */
    bool stays = out->is_walk || (out->a_row == 1 && out->n <= panel_columns(out) &&
                                  matmul->k <= FEW_TERMS);
    out->packs_a = out->a_col != 1 && out->m > 1 && !stays;
    out->chunk = ipu__max(ipu__min(matmul->k, most), 1);
    int64_t tiles = BLOCK_BYTES / (out->bytes * out->chunk * out->form->rows);
    out->block = out->packs_a ? ipu__max(tiles, 1) * out->form->rows : out->m;
}

const char *
ipu__chain_name(const ipu__chain_plan *plan)
{
    return plan->form->name;
}

/* Of B, that are packed at once. */
static int64_t
panels_of(const ipu__chain_plan *plan)
{
    const int64_t all = ipu__ceil_div(plan->n, panel_columns(plan));
    return ipu__min(all, plan->packs_a ? MORE_PANELS : PANELS);
}

/* Scratch has a tile, panels (of those in place the last one may be packed), strips.
 * Where these begin, in elements. */
static int64_t
strips_at(const ipu__chain_plan *plan)
{
    int64_t panels = plan->packs_b ? panels_of(plan) : 1;
    return (plan->form->rows + panels * plan->chunk) * panel_columns(plan);
}

static size_t
scratch_bytes(const ipu__chain_plan *plan)
{
    int64_t strips = plan->packs_a ? plan->block * plan->chunk : 0;
    return plan->by_dots ? 0 : (size_t)((strips_at(plan) + strips) * plan->bytes);
}

/* k rows of `columns` columns of B as [panel][k][columns of a panel], with zeros up to
 * a whole panel; `rows` rows of A as [row tile][k][rows of a tile]. */
#define PACK(type) \
    static void pack_panels_##type(const ipu__chain_plan *plan, const type *b, \
                                   int64_t columns, int64_t k, type *out) \
    { \
        const int64_t width = panel_columns(plan); \
        if (columns % width != 0) { \
            memset(out + columns / width * width * k, 0, \
                   (size_t)(k * width) * sizeof *out); \
        } \
        if (plan->b_col == 1) { \
            for (int64_t i = 0; i < k; i++) { \
                for (int64_t j = 0; j < columns; j += width) { \
                    const type *from = b + i * plan->b_row + j; \
                    type *to = out + j * k + i * width; \
                    for (int64_t l = 0; l < ipu__min(columns - j, width); l++) { \
                        to[l] = from[l]; \
                    } \
                } \
            } \
            return; \
        } \
        for (int64_t j = 0; j < columns; j++) { \
            type *to = out + j / width * width * k + j % width; \
            for (int64_t i = 0; i < k; i++) { \
                to[i * width] = b[i * plan->b_row + j * plan->b_col]; \
            } \
        } \
    } \
    static void pack_strips_##type(const ipu__chain_plan *plan, const type *a, \
                                   int64_t rows, int64_t k, type *out) \
    { \
        const int64_t tile = plan->form->rows; \
        for (int64_t i = 0; i < rows; i += tile, out += tile * k) { \
            const int64_t count = ipu__min(rows - i, tile); \
            const type *from = a + i * plan->a_row; \
            const bool whole = plan->a_row == 1 && count == tile; \
            for (int64_t j = 0; whole && tile == MOST_ROWS && j < k; j++) { \
                memcpy(out + j * MOST_ROWS, from + j * plan->a_col, \
                       MOST_ROWS * sizeof *out); \
            } \
            for (int64_t j = 0; whole && tile == LESS_ROWS && j < k; j++) { \
                memcpy(out + j * LESS_ROWS, from + j * plan->a_col, \
                       LESS_ROWS * sizeof *out); \
            } \
            for (int64_t j = 0; !whole && j < k; j++, from += plan->a_col) { \
                for (int64_t l = 0; l < count; l++) { \
                    out[j * tile + l] = from[l * plan->a_row]; \
                } \
            } \
        } \
    }
PACK(uint8_t)
PACK(uint16_t)
PACK(uint32_t)
PACK(uint64_t)
#undef PACK

#if defined(__x86_64__)
/* Panels of columns of neighbours, by turned blocks. */
IPU_TARGET_AVX2 static void
turn_panels(const ipu__chain_plan *plan, const double *b, int64_t columns, int64_t k,
            double *out)
{
    const int64_t width = panel_columns(plan);
    const int64_t whole = columns / width * width * k;
    memset(out + whole, 0, columns % width == 0 ? 0 : (size_t)(k * width) * sizeof *out);
    for (int64_t j = 0; j < columns; j += BLOCK) {
        double *to = out + j / width * width * k + j % width;
        const int64_t count = ipu__min(columns - j, BLOCK);
        int64_t i = 0;
        for (; count == BLOCK && i + BLOCK <= k; i += BLOCK) {
            ipu__turn_4x4_wide(b + j * plan->b_col + i, plan->b_col, to + i * width,
                               width);
        }
        for (; i < k; i++) {
            for (int64_t l = 0; l < count; l++) {
                to[i * width + l] = b[(j + l) * plan->b_col + i];
            }
        }
    }
}
#endif

static void
pack_panels(const ipu__chain_plan *plan, const void *b, int64_t columns, int64_t k,
            void *out)
{
#if defined(__x86_64__)
    if (plan->b_row == 1 && plan->b_col != 1 && plan->bytes == sizeof(double) &&
        plan->form->lanes >= BLOCK) {
        turn_panels(plan, b, columns, k, out);
        return;
    }
#endif
#define PANELS_OF(type) pack_panels_##type(plan, b, columns, k, out);
    IPU_BY_WIDTH(plan->bytes, PANELS_OF)
#undef PANELS_OF
}

static void
pack_strips(const ipu__chain_plan *plan, const void *a, int64_t rows, int64_t k,
            void *out)
{
#define STRIPS_OF(type) pack_strips_##type(plan, a, rows, k, out);
    IPU_BY_WIDTH(plan->bytes, STRIPS_OF)
#undef STRIPS_OF
}

/* What a part works on: rows and columns of C, of one matrix. */
typedef struct chain_part {
    const ipu__chain_plan *plan;
    const char *a;
    const char *b;
    char *c;
    int64_t k;
    int64_t row;
    int64_t row_end;
    int64_t column;
    int64_t column_end;
} chain_part;

static const char *
of_a(const chain_part *p, int64_t row, int64_t k)
{
    return p->a + (row * p->plan->a_row + k * p->plan->a_col) * p->plan->bytes;
}

static const char *
of_b(const chain_part *p, int64_t k, int64_t column)
{
    return p->b + (k * p->plan->b_row + column * p->plan->b_col) * p->plan->bytes;
}

static char *
of_c(const chain_part *p, int64_t row, int64_t column)
{
    return p->c + (row * p->plan->n + column) * p->plan->bytes;
}

/* Adds an element to a sum. */
static void
add_element(const ipu__chain_plan *plan, void *sum, const void *x)
{
#define ADD(type) *(type *)sum = (type)(*(type *)sum + *(const type *)x);
    if (plan->is_float) {
        ADD(double)
    } else {
        IPU_BY_WIDTH(plan->bytes, ADD)
    }
#undef ADD
}

static int64_t
nodes_of(const ipu__chain_plan *plan, int64_t k)
{
    return plan->by_dots ? ipu__ceil_div(k, NODE_TERMS) : 1;
}

/* Node `node` of the sum of element (i, j). */
static void
make_node(const chain_part *p, int64_t i, int64_t j, int64_t node, void *out)
{
    const int64_t k = node * NODE_TERMS;
    p->plan->form->dot(of_a(p, i, k), of_b(p, k, j), ipu__min(p->k - k, NODE_TERMS),
                       out);
}

static void
make_dot(const chain_part *p, int64_t i, int64_t j)
{
    const int64_t nodes = nodes_of(p->plan, p->k);
    uint64_t sum; /* of any type */
    make_node(p, i, j, 0, of_c(p, i, j));
    for (int64_t node = 1; node < nodes; node++) {
        make_node(p, i, j, node, &sum);
        add_element(p->plan, of_c(p, i, j), &sum);
    }
}

/* A row, or column, of which there are many meets all of the few while it is in the
 * cache. */
static void
multiply_dots(const chain_part *p)
{
    const int64_t rows = p->row_end - p->row;
    const int64_t columns = p->column_end - p->column;
    const bool by_rows = rows > columns;
    const int64_t few = by_rows ? columns : rows;
    const int64_t dots = rows * columns;
    for (int64_t done = 0, many = 0; done < dots; done += few, many++) {
        for (int64_t l = 0; l < few; l++) {
            int64_t i = p->row + (by_rows ? many : l);
            int64_t j = p->column + (by_rows ? l : many);
            make_dot(p, i, j);
        }
    }
}

/* Rows [row, row + rows) by one panel of `columns` columns, packed or not, over k terms
 * from k0. */
static void
multiply_panel(const chain_part *p, int64_t row, int64_t rows, int64_t column,
               int64_t columns, int64_t k0, int64_t k, const char *panel, char *scratch)
{
    const ipu__chain_plan *plan = p->plan;
    const int64_t bytes = plan->bytes;
    const int64_t width = panel_columns(plan);
    const int64_t lanes = plan->form->lanes;
    const bool is_whole = columns % lanes == 0;
    const int64_t vectors = ipu__ceil_div(columns, lanes);
    char *edge = scratch;
    const char *strips = scratch + strips_at(plan) * bytes;
    tile_operands t = {.b = panel, .b_row = width, .k = k, .continued = k0 > 0};
    if (panel == NULL) {
        t.b = of_b(p, k0, column);
        t.b_row = plan->b_row;
    }
    for (int64_t i = 0; i < rows; i += plan->form->rows) {
        const int64_t count = ipu__min(rows - i, plan->form->rows);
        t.a = plan->packs_a ? strips + i * k * bytes : of_a(p, row + i, k0);
        t.a_row = plan->packs_a ? 1 : plan->a_row;
        t.a_col = plan->packs_a ? plan->form->rows : plan->a_col;
        t.c = is_whole ? of_c(p, row + i, column) : edge;
        t.c_row = is_whole ? plan->n : width;
        for (int64_t l = 0; l < count && !is_whole && t.continued; l++) {
            memcpy(edge + l * width * bytes, of_c(p, row + i + l, column),
                   (size_t)(columns * bytes));
        }
        plan->form->tiles[count - 1][vectors - 1](&t);
        for (int64_t l = 0; l < count && !is_whole; l++) {
            memcpy(of_c(p, row + i + l, column), edge + l * width * bytes,
                   (size_t)(columns * bytes));
        }
    }
}

/* Rows [row, row + rows), of one tile, by whole panels in place. */
static void
walk_panels(const chain_part *p, int64_t row, int64_t rows, int64_t column,
            int64_t panels, int64_t k0, int64_t k)
{
    const ipu__chain_plan *plan = p->plan;
    const tile_operands t = {
        .a = of_a(p, row, k0),
        .a_row = plan->a_row,
        .a_col = plan->a_col,
        .b = of_b(p, k0, column),
        .b_row = plan->b_row,
        .k = k,
        .c = of_c(p, row, column),
        .c_row = plan->n,
        .continued = k0 > 0,
    };
    plan->form->walks[rows - 1](&t, panels);
}

/* Columns [column, column + columns) over k terms from k0. What does not fill vectors
 * is packed, or all is, once for all rows. */
static void
multiply_columns(const chain_part *p, int64_t column, int64_t columns, int64_t k0,
                 int64_t k, char *scratch)
{
    const ipu__chain_plan *plan = p->plan;
    const int64_t width = panel_columns(plan);
    const bool fills = columns % plan->form->lanes == 0;
    const int64_t whole = plan->packs_b ? 0 : fills ? columns : columns / width * width;
    char *panels = scratch + plan->form->rows * width * plan->bytes;
    char *strips = scratch + strips_at(plan) * plan->bytes;
    if (whole < columns) {
        pack_panels(plan, of_b(p, k0, column + whole), columns - whole, k, panels);
    }
    for (int64_t row = p->row, rows; row < p->row_end; row += rows) {
        rows = ipu__min(p->row_end - row, plan->block);
        int64_t j = 0;
        if (plan->packs_a) {
            pack_strips(plan, of_a(p, row, k0), rows, k, strips);
        }
        if (plan->is_walk && rows <= plan->form->rows) {
            j = columns / width * width;
            walk_panels(p, row, rows, column, columns / width, k0, k);
        }
        for (; j < columns; j += width) {
            multiply_panel(p, row, rows, column + j, ipu__min(columns - j, width), k0,
                           k, j < whole ? NULL : panels + (j - whole) * k * plan->bytes,
                           scratch);
        }
    }
}

static void
multiply_part(const chain_part *p, char *scratch)
{
    const ipu__chain_plan *plan = p->plan;
    const int64_t panels = panels_of(plan) * panel_columns(plan);
    const int64_t most = plan->is_walk ? plan->n : panels;
    for (int64_t j = p->column; j < p->column_end; j += most) {
        const int64_t columns = ipu__min(p->column_end - j, most);
        int64_t k0 = 0;
        do {
            const int64_t k = ipu__min(p->k - k0, plan->chunk);
            multiply_columns(p, j, columns, k0, k, scratch);
            k0 += k;
        } while (k0 < p->k);
    }
}

/* Parts are as many whole tiles. */
static int64_t
tile_rows(const ipu__chain_plan *plan)
{
    return plan->by_dots ? 1 : plan->form->rows;
}

static int64_t
tile_columns(const ipu__chain_plan *plan)
{
    return plan->by_dots ? 1 : panel_columns(plan);
}

/* Along columns where those are more than rows: each part packs what it reads, so that
 * parts by rows would all pack B. */
static bool
is_cut_by_columns(const ipu__chain_plan *plan)
{
    int64_t favour = plan->packs_b && !plan->packs_a ? COLUMNS_FAVOUR : 1;
    return favour * plan->n * tile_rows(plan) > plan->m * tile_columns(plan);
}

/* Into how many parts one matrix is cut at most. Shorter pieces of rows are not fetched
 * ahead. */
static int64_t
most_parts(const ipu__chain_plan *plan, int64_t k)
{
    int64_t tiles = plan->is_walk ? plan->n * plan->bytes / PIECE_BYTES
                    : is_cut_by_columns(plan)
                        ? ipu__ceil_div(plan->n, tile_columns(plan))
                        : ipu__ceil_div(plan->m, tile_rows(plan));
    return ipu__max(ipu__min(2 * plan->m * plan->n * k / FLOPS_PER_TASK, tiles), 1);
}

typedef struct chain_job {
    const ipu__chain_call *call;
    int64_t parts; /* of a matrix */
    char *sums;    /* [nodes][batches][m][n], where threads share those */
} chain_job;

/* Rows and columns of part `part` of a matrix. */
static void
set_part(const chain_job *job, int64_t part, chain_part *p)
{
    const ipu__chain_plan *plan = p->plan;
    const int64_t parts = job->parts;
    p->row_end = plan->m;
    p->column_end = plan->n;
    if (is_cut_by_columns(plan)) {
        const int64_t width = tile_columns(plan);
        const int64_t panels = ipu__ceil_div(plan->n, width);
        p->column = ipu__share_of(panels, parts, part) * width;
        p->column_end =
            ipu__min(ipu__share_of(panels, parts, part + 1) * width, plan->n);
    } else {
        const int64_t height = tile_rows(plan);
        const int64_t tiles = ipu__ceil_div(plan->m, height);
        p->row = ipu__share_of(tiles, parts, part) * height;
        p->row_end = ipu__min(ipu__share_of(tiles, parts, part + 1) * height, plan->m);
    }
}

static void
set_matrices(const ipu__chain_call *call, int64_t batch, chain_part *p)
{
    const ipu__chain_plan *plan = call->plan;
    const ipu__loop *loop = &call->matmul->batch;
    const char *a = ipu__at(call->a, ipu__loop_offset(loop, 0, batch) * plan->bytes);
    const char *b = ipu__at(call->b, ipu__loop_offset(loop, 1, batch) * plan->bytes);
    p->a = plan->exchanged ? b : a;
    p->b = plan->exchanged ? a : b;
    p->c = ipu__at_mutable(call->c, batch * plan->m * plan->n * plan->bytes);
}

static void
make_parts(void *state, int64_t begin, int64_t end, void *scratch)
{
    const chain_job *job = state;
    const ipu__chain_call *call = job->call;
    const ipu__chain_plan *plan = call->plan;
    const ipu__matmul *matmul = call->matmul;
    chain_part p = {.plan = plan, .k = matmul->k};
    int64_t last = -1;
    for (int64_t i = begin; i < end; i++) {
        int64_t batch = i / job->parts;
        int64_t part = i % job->parts;
        set_matrices(call, batch, &p);
        if (part != last) { /* of many small matrices it is the same */
            last = part;
            set_part(job, part, &p);
        }
        if (plan->by_dots) {
            multiply_dots(&p);
        } else {
            multiply_part(&p, scratch);
        }
        char *c = of_c(&p, p.row, p.column);
        if (plan->exchanged) { /* columns of it are rows */
            ipu__finish_rows(call->finish, c, 1, p.column_end - p.column, 1, 0);
        } else {
            ipu__finish_rows(call->finish, c, plan->n, p.row_end - p.row,
                             p.column_end - p.column, p.column);
        }
    }
}

static int64_t
elements_of(const ipu__matmul *matmul)
{
    return matmul->batches * matmul->m * matmul->n;
}

/* Nodes [begin, end) of all elements. */
static void
make_nodes(void *state, int64_t begin, int64_t end, void *scratch)
{
    const chain_job *job = state;
    const ipu__matmul *matmul = job->call->matmul;
    const ipu__chain_plan *plan = job->call->plan;
    const int64_t elements = elements_of(matmul);
    chain_part p = {.plan = plan, .k = matmul->k};
    (void)scratch;
    for (int64_t i = begin; i < end; i++) {
        const int64_t row = i % elements / matmul->n;
        set_matrices(job->call, row / matmul->m, &p);
        make_node(&p, row % matmul->m, i % matmul->n, i / elements,
                  job->sums + i * plan->bytes);
    }
}

static void
add_nodes(const chain_job *job)
{
    const ipu__matmul *matmul = job->call->matmul;
    const ipu__chain_plan *plan = job->call->plan;
    const int64_t elements = elements_of(matmul);
    const int64_t nodes = nodes_of(plan, matmul->k);
    char *c = job->call->c;
    memcpy(c, job->sums, (size_t)(elements * plan->bytes));
    for (int64_t i = elements; i < nodes * elements; i++) {
        add_element(plan, c + i % elements * plan->bytes, job->sums + i * plan->bytes);
    }
    ipu__finish_rows(job->call->finish, c, matmul->n, matmul->batches * matmul->m,
                     matmul->n, 0);
}

/* Bytes of the sums that threads may share. */
static size_t
sums_bytes(const ipu__matmul *matmul, const ipu__chain_plan *plan)
{
    const int64_t nodes = nodes_of(plan, matmul->k);
    const int64_t sums = nodes * elements_of(matmul);
    const bool shared = nodes > 1 && sums <= NODE_SUMS;
    return shared ? ipu_buffer_round_up((size_t)(sums * plan->bytes)) : 0;
}

size_t
ipu__chain_workspace(const ipu__matmul *matmul, const ipu__chain_plan *plan)
{
    return ipu__share_bytes(matmul->batches * most_parts(plan, matmul->k),
                            scratch_bytes(plan)) +
           sums_bytes(matmul, plan);
}

void
ipu__chain_run(const ipu__chain_call *call, ipu_pool *pool, void *workspace)
{
    const ipu__matmul *matmul = call->matmul;
    const int64_t threads = ipu_pool_hands(pool);
    const int64_t most = threads == 1 ? 1 : TASKS_PER_THREAD * threads;
    chain_job job = {call, ipu__min(most_parts(call->plan, matmul->k), most), workspace};
    const int64_t parts = matmul->batches * job.parts;
    if (parts < most && sums_bytes(matmul, call->plan) > 0) {
        const int64_t nodes = nodes_of(call->plan, matmul->k);
        ipu__share_out(pool, nodes * elements_of(matmul), make_nodes, &job,
                       workspace, 0);
        add_nodes(&job);
        return;
    }
    ipu__share_out(pool, parts, make_parts, &job, workspace, scratch_bytes(call->plan));
}
