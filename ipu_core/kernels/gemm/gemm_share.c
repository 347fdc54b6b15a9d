/* SPDX-License-Identifier: MIT
 *
 * Products of our own (gemm_tiles_body.h): how each is made, and its parts, which the
 * threads of a pool take. A part is a rectangle of C and needs nothing that another one
 * makes, so there is one fork and join. All follows from shape and class of CPU, by
 * measured rules (`python -m benchmarks.classes`), and the number of parts from that of
 * threads, too. It changes no bit: an element is one tree of chains (sum_tree.h) whoever
 * computes it.
 *
 * With B transposed and few rows, C^T = B^T A^T is made instead. Its panels are the few
 * rows of A, and B is read where it lies; otherwise all of B would be packed for a few
 * uses. One or two rows are exchanged, too: then lanes are columns of C
 * (gemm_narrow_body.h). Exchanging the factors changes no bit.
 *
 * Where C has fewer parts than there are threads, and sums are long, they are cut, too,
 * into nodes of the tree, which the calling thread adds up. */
#include "kernels/gemm/gemm_share_impl.h"

enum {
    FLOPS_PER_TASK = 1 << 18,
    FLOPS_PER_LARGE_TASK = 1 << 25,
    TASKS_PER_THREAD = 4,
    NARROW = 8,              /* columns that fill a vector of AVX2 */
    FEW_ROWS = 32,           /* of A, whose panels cost less than those of B */
    THIN = 2,                /* rows of A that fill too few registers of a tile */
    LEAST_DOT = 32,          /* terms of a sum that are worth turning */
    FAR_BYTES = 1 << 22,     /* from the first k to the last: too many pages at once */
    BLOCK_ROWS = 288,        /* of A, for which B is packed once */
    PACKED_FLOATS = 1 << 18, /* of A */
    STRIP_FLOATS = 1 << 16,  /* the same where strips are for the first-level cache */
    STRIP_USES = 8,          /* panels for which that is worth while */
    NODE_TERMS = IPU_SUM_BLOCK * IPU_SUM_FAN,
    NODE_FLOATS = 1 << 18, /* of all nodes */
    WIDENED_FLOATS = 4096, /* of small matrices of float16, at a time */
    NARROW_ROWS = 256      /* that fill vectors, where lanes are rows */
};

const ipu__tiles *
ipu__tiles_of(ipu_cpu_class cpu)
{
    return IPU_FOR_CLASS(cpu, ipu__tiles, ipu__tiles_base);
}

static ipu__product
exchange(const ipu__product *p)
{
    return (ipu__product){
        .m = p->n,
        .n = p->m,
        .k = p->k,
        .halves = p->halves,
        .a_row = p->b_col,
        .a_col = p->b_row,
        .b_row = p->a_col,
        .b_col = p->a_row,
        .a_segment = p->b_segment,
        /* of one column the transpose lies as the column does */
        .transposed = p->n > 1,
        .c_row = p->n > 1 ? p->n : p->m,
    };
}

/* Whether both factors of a sum are read in the order of memory. */
static bool
is_dots(const ipu__product *p, bool at_once)
{
    return p->n == 1 && p->a_col == 1 && p->b_row == 1 && p->k >= LEAST_DOT &&
           p->a_segment == 0 && !at_once;
}

/* Whether lanes are rows. */
static bool
is_narrow(const ipu__product *p, bool at_once)
{
    return p->n <= IPU_NARROW && p->a_row == 1 && p->b_segment == 0 && !at_once &&
           !is_dots(p, at_once);
}

/* A is read in place, but where it is float16, where its rows are whole pages apart,
 * which share a place in the cache, where each k of a long sum is in a page of its own,
 * and where its columns take so much of the first-level cache that a panel of B does not
 * stay there. */
static void
choose_forms(ipu__own_plan *plan, bool at_once)
{
    ipu__product *p = &plan->product;
    int64_t rows = plan->tiles->rows;
    int64_t first_level_k = plan->tiles->first_level_k;
    bool by_rows = p->a_col == 1 || p->k <= 1;
    bool is_dense = !by_rows && first_level_k > 0 &&
                    (at_once || p->k > first_level_k) &&
                    p->n >= STRIP_USES * plan->tiles->columns;
    /* a panel of so many k stays in the first-level or the second-level cache */
    int64_t most_k = is_dense ? first_level_k : IPU_SUM_BLOCK;
    int64_t chunks = ipu__ceil_div(p->k, most_k);
    int64_t bytes = (by_rows ? p->a_row : p->a_col) * (int64_t)sizeof(float);
    bool pages = bytes > 0 && bytes % IPU_PAGE_BYTES == 0;
    if (is_narrow(p, at_once)) {
        p->a_form = IPU_A_LANES;
        return;
    }
    if (is_dots(p, at_once)) {
        p->a_form = IPU_A_DOTS;
        return;
    }
    if (by_rows) {
        p->a_form = pages || p->halves ? IPU_A_COPIED : IPU_A_ROWS;
    } else {
        bool packs = is_dense || pages || p->halves || p->k * bytes > FAR_BYTES;
        p->a_form = packs ? IPU_A_STRIPS : IPU_A_COLUMNS;
    }
    p->chunk = p->k;
    if ((is_dense || !at_once) && !p->transposed && chunks > 1) {
        int64_t step = p->b_segment > 0 ? 4 * p->b_segment : 16;
        p->chunk = p->k > IPU_SUM_BLOCK
                       ? most_k
                       : ipu__ceil_div(ipu__ceil_div(p->k, chunks), step) * step;
    }
    p->packed_k = at_once ? p->k : p->chunk;
    p->block = ipu__ceil_div(ipu__min(BLOCK_ROWS, p->m), rows);
    if (p->a_form == IPU_A_STRIPS || p->a_form == IPU_A_COPIED) {
        int64_t floats = is_dense ? STRIP_FLOATS : PACKED_FLOATS;
        int64_t most = floats / (rows * ipu__max(p->packed_k, 1));
        p->block = ipu__min(p->block, most < 1 ? 1 : most);
    }
}

/* Whether what each of many matrices takes apart from its sums would be most of it. */
static void
plan_small(const ipu__matmul *matmul, ipu__own_plan *plan)
{
    const ipu__product *p = &plan->product;
    const ipu__loop *batch = &matmul->batch;
    const bool in_place = p->a_form == IPU_A_ROWS || p->a_form == IPU_A_COLUMNS;
    const bool by_rows = p->a_col == 1;
    const int64_t floats = p->m * p->k + p->k * p->n;
    plan->is_small = matmul->batches > 1 && batch->rank == 1 && !p->transposed &&
                     p->b_col == 1 && p->b_segment == 0 && p->c_panel == 0 &&
                     p->k <= IPU_SMALL_K && p->n <= plan->tiles->columns &&
                     (in_place || (p->halves && floats <= WIDENED_FLOATS));
    for (int32_t i = 0; plan->is_small && i < 2; i++) {
        plan->apart[i] = batch->strides[plan->exchanged ? 1 - i : i][0];
    }
    plan->apart[2] = p->m * p->n;
    if (plan->is_small && p->halves) {
        bool is_dense = (by_rows ? p->a_row == p->k : p->a_col == p->m) &&
                        p->b_row == p->n && plan->apart[0] == p->m * p->k &&
                        plan->apart[1] == p->k * p->n;
        plan->is_small = is_dense && (by_rows || p->a_row == 1);
        plan->widened = WIDENED_FLOATS / ipu__max(floats, 1);
    }
}

int64_t
ipu__own_scratch(const ipu__own_plan *plan)
{
    return ipu__max(ipu__tiles_scratch(plan->tiles, &plan->product),
                    plan->is_small && plan->product.halves ? WIDENED_FLOATS : 0);
}

/* Into how many parts one matrix is cut at most: each is worth a task. */
static int64_t
most_parts(const ipu__own_plan *plan)
{
    const ipu__product *p = &plan->product;
    int64_t flops = 2 * p->m * p->n * p->k;
    size_t bytes = (size_t)ipu__own_scratch(plan) * sizeof(float);
    int64_t parts = ipu__min(flops / FLOPS_PER_TASK, ipu__share_most(bytes));
    int64_t large = ipu__min(flops / FLOPS_PER_LARGE_TASK, IPU__MOST_TASKS);
    return ipu__max(ipu__max(parts, large), 1);
}

/* Parts are so many rows, or a multiple. */
static int64_t
rows_unit(const ipu__own_plan *plan)
{
    return plan->product.a_form == IPU_A_LANES ? NARROW_ROWS : plan->tiles->rows;
}

/* Rows and columns are cut where the least is packed and read again by several tasks,
 * the largest of them is small, and all threads have as many. In sixteenths of a cycle
 * for each of k. Packing is shared by those who have a part; the rule was measured with
 * two threads. Who works alone cuts nothing: each part packs its operands anew. */
ipu__own_cut
ipu__own_cut_for(const ipu__own_plan *plan, int64_t threads)
{
    const ipu__product *p = &plan->product;
    const ipu__tiles *t = plan->tiles;
    int64_t tiles = ipu__ceil_div(p->m, rows_unit(plan));
    int64_t panels = ipu__ceil_div(p->n, t->columns);
    int64_t tasks =
        threads == 1 ? 1 : ipu__min(most_parts(plan), TASKS_PER_THREAD * threads);
    tasks -= tasks > threads ? tasks % threads : 0;
    int64_t a_cost = p->a_form == IPU_A_STRIPS ? 12 : p->a_form == IPU_A_COPIED ? 4 : 1;
    int64_t b_cost = plan->has_panels ? 1 : p->b_col == 1 ? 2 : 8;
    int64_t least = INT64_MAX;
    ipu__own_cut best = {1, 1};
    for (int64_t rows = 1; rows <= ipu__min(tasks, tiles); rows++) {
        int64_t columns = ipu__min(tasks / rows, panels);
        int64_t largest = ipu__ceil_div(tiles, rows) * rows_unit(plan) *
                          ipu__ceil_div(panels, columns) * t->columns;
        int64_t packing = rows * p->n * b_cost + columns * p->m * a_cost;
        int64_t parts = rows * columns;
        int64_t hands = ipu__max(ipu__min(threads, parts), 2);
        int64_t turns = ipu__ceil_div(parts, hands);
        int64_t cost = 2 * packing / hands + largest * turns * hands / parts / 2;
        if (cost < least) {
            least = cost;
            best = (ipu__own_cut){rows, columns};
        }
    }
    return best;
}

void
ipu__own_plan_of(const ipu__matmul *matmul, const ipu_kernel_panels *panels,
                 ipu_cpu_class cpu, bool halves, bool at_once, ipu__own_plan *out)
{
    ipu__product product = {
        .m = matmul->m,
        .n = matmul->n,
        .k = matmul->k,
        .halves = halves,
        .a_row = matmul->a_row,
        .a_col = matmul->a_col,
        .b_row = matmul->b_row,
        .b_col = matmul->b_col,
        .c_row = matmul->n,
        .c_panel = panels->result ? panels->columns : 0,
    };
    if (panels->right && matmul->b_col != 1) {
        product.b_segment = product.b_col = panels->columns;
    }
    bool few =
        matmul->b_col != 1 && matmul->m <= FEW_ROWS && matmul->k <= IPU_SUM_BLOCK;
    const ipu__tiles *tiles = ipu__tiles_of(cpu);
    if (product.halves && tiles == &ipu__tiles_plain) {
        tiles = &ipu__tiles_plain_halves;
    }
    *out = (ipu__own_plan){.cpu = cpu,
                           .tiles = tiles,
                           .product = product,
                           .has_panels = panels->right && matmul->b_col == 1};
    ipu__product exchanged = exchange(&product);
    bool stays = out->has_panels || panels->result;
    bool thin = matmul->m <= THIN && is_narrow(&exchanged, at_once);
    if (!stays && !is_narrow(&product, at_once) && !is_dots(&product, at_once) &&
        (thin || matmul->n == 1 || (few && !at_once))) {
        out->exchanged = true;
        out->product = exchanged;
    }
#if defined(__x86_64__)
    if (cpu == IPU_CPU_AVX512 && !ipu__has_wide_avx512() && out->product.n <= NARROW &&
        !is_narrow(&out->product, at_once) && !is_dots(&out->product, at_once)) {
        out->tiles = &ipu__tiles_avx2; /* half a vector would take a turn for nothing */
    }
#endif
    choose_forms(out, at_once);
    const int64_t nodes = ipu__ceil_div(ipu__max(matmul->k, 1), NODE_TERMS);
    bool is_plain = !panels->right && !panels->result;
    bool is_few = nodes * matmul->batches * matmul->m * matmul->n <= NODE_FLOATS;
    out->nodes = is_plain && is_few ? nodes : 1;
    plan_small(matmul, out);
}

static int64_t
node_floats(const ipu__matmul *matmul, const ipu__own_plan *plan)
{
    return plan->nodes * matmul->batches * matmul->m * matmul->n;
}

size_t
ipu__own_workspace(const ipu__matmul *matmul, const ipu__own_plan *plan)
{
    size_t sums = plan->nodes > 1 ? (size_t)node_floats(matmul, plan) : 0;
    return ipu_buffer_round_up(sums * sizeof(float)) +
           ipu__share_bytes(matmul->batches * most_parts(plan) * plan->nodes,
                            (size_t)ipu__own_scratch(plan) * sizeof(float));
}

static const void *
element(const ipu__product *p, const void *matrix, int64_t at)
{
    return p->halves ? (const void *)((const uint16_t *)matrix + at)
                     : (const void *)((const float *)matrix + at);
}

static ipu__product
product_of(const ipu__own_call *call, int64_t batch)
{
    const ipu__matmul *matmul = call->matmul;
    const ipu__own_plan *plan = call->plan;
    ipu__product product = plan->product;
    const void *a =
        element(&product, call->a, ipu__loop_offset(&matmul->batch, 0, batch));
    const void *b =
        element(&product, call->b, ipu__loop_offset(&matmul->batch, 1, batch));
    product.a = plan->exchanged ? b : a;
    product.b = plan->exchanged ? a : b;
    product.panels = plan->has_panels ? b : NULL;
    return product;
}

static void
multiply(const ipu__own_plan *plan, const ipu__product *product,
         const ipu__rectangle *part, float *scratch)
{
    if (plan->exchanged) {
        plan->tiles->multiply(product, part->column, part->column_end, part->row,
                              part->row_end, scratch);
    } else {
        plan->tiles->multiply(product, part->row, part->row_end, part->column,
                              part->column_end, scratch);
    }
}

/* The product of a matrix that is stored, with as much of its finish as tiles do; the
 * rest of that. */
static ipu__finish
finish_of(const ipu__own_call *call, ipu__product *product)
{
    ipu__finish rest = *call->finish;
    if (!call->plan->exchanged && product->a_form < IPU_A_LANES) {
        product->bias = rest.bias;
        product->relu = rest.activation == IPU_ACTIVATION_RELU;
        rest.bias = NULL;
        rest.activation = product->relu ? IPU_ACTIVATION_NONE : rest.activation;
    }
    return rest;
}

/* The next `count` matrices of a product of float16 as one of float32. */
static ipu__product
widen_small(const ipu__own_plan *plan, const ipu__product *p, int64_t count,
            float *scratch)
{
    ipu__product wide = *p;
    float *b = scratch + count * plan->apart[0];
    ipu__halves_to_floats(scratch, p->a, count * plan->apart[0], plan->cpu);
    ipu__halves_to_floats(b, p->b, count * plan->apart[1], plan->cpu);
    wide.halves = false;
    wide.a_form = p->a_col == 1 ? IPU_A_ROWS : IPU_A_COLUMNS;
    wide.a = scratch;
    wide.b = b;
    return wide;
}

/* Small matrices [begin, end). */
static void
make_small(const ipu__own_call *call, int64_t begin, int64_t end, float *scratch)
{
    const ipu__matmul *matmul = call->matmul;
    const ipu__own_plan *plan = call->plan;
    const bool halves = plan->product.halves;
    for (int64_t count; begin < end; begin += count) {
        ipu__product product = product_of(call, begin);
        ipu__finish rest = finish_of(call, &product);
        count = halves ? ipu__min(end - begin, plan->widened) : end - begin;
        product.c = call->c + begin * matmul->m * matmul->n;
        if (halves) {
            product = widen_small(plan, &product, count, scratch);
        }
        plan->tiles->multiply_each(&product, count, plan->apart);
        ipu__finish_rows(&rest, product.c, matmul->n, count * matmul->m, matmul->n, 0);
    }
}

void
ipu__own_rectangle(const ipu__own_call *call, int64_t batch, const ipu__rectangle *part,
                   float *scratch)
{
    const ipu__matmul *matmul = call->matmul;
    const ipu__own_plan *plan = call->plan;
    ipu__product product = product_of(call, batch);
    int64_t matrix = batch * matmul->m * matmul->n;
    product.c = call->c != NULL ? call->c + matrix : NULL;
    product.accumulator = call->accumulator != NULL ? call->accumulator + matrix : NULL;
    product.update = call->update;
    bool is_stored = !ipu__is_at_once(&product);
    ipu__finish rest = is_stored ? finish_of(call, &product) : (ipu__finish){0};
    multiply(plan, &product, part, scratch);
    if (is_stored) {
        ipu__finish_rows(&rest, product.c + part->row * matmul->n + part->column,
                         matmul->n, part->row_end - part->row,
                         part->column_end - part->column, part->column);
    }
}

typedef struct own_job {
    const ipu__own_call *call;
    ipu__own_cut cut;
    float *sums; /* [nodes][batches][m][n], or NULL: sums are not cut */
} own_job;

/* Where a unit of rows begins: row tiles are about equal, what fills vectors is not. */
static int64_t
row_of_unit(const ipu__own_plan *plan, int64_t units, int64_t unit)
{
    const ipu__product *p = &plan->product;
    return p->a_form == IPU_A_LANES ? ipu__min(unit * NARROW_ROWS, p->m)
                                    : ipu__share_of(p->m, units, unit);
}

/* Part `part` of the rows and columns of the product, which may be exchanged. */
static ipu__rectangle
part_of(const ipu__own_plan *plan, ipu__own_cut cut, int64_t part)
{
    const ipu__product *p = &plan->product;
    const ipu__tiles *t = plan->tiles;
    int64_t i = part / cut.columns;
    int64_t j = part % cut.columns;
    int64_t tiles = ipu__ceil_div(p->m, rows_unit(plan));
    int64_t panels = ipu__ceil_div(p->n, t->columns);
    int64_t row = row_of_unit(plan, tiles, ipu__share_of(tiles, cut.rows, i));
    int64_t row_end = row_of_unit(plan, tiles, ipu__share_of(tiles, cut.rows, i + 1));
    int64_t column = ipu__share_of(panels, cut.columns, j) * t->columns;
    int64_t column_end =
        ipu__min(ipu__share_of(panels, cut.columns, j + 1) * t->columns, p->n);
    return plan->exchanged ? (ipu__rectangle){column, column_end, row, row_end}
                           : (ipu__rectangle){row, row_end, column, column_end};
}

static void
make_node(const own_job *job, int64_t node, int64_t batch, const ipu__rectangle *part,
          float *scratch)
{
    const ipu__matmul *matmul = job->call->matmul;
    ipu__product product = product_of(job->call, batch);
    const int64_t k = node * NODE_TERMS;
    product.a = element(&product, product.a, k * product.a_col);
    product.b = element(&product, product.b, k * product.b_row);
    product.k = ipu__min(product.k - k, NODE_TERMS);
    product.c =
        job->sums + (node * matmul->batches + batch) * matmul->m * matmul->n;
    multiply(job->call->plan, &product, part, scratch);
}

static void
make_parts(void *state, int64_t begin, int64_t end, void *scratch)
{
    const own_job *job = state;
    const int64_t batches = job->call->matmul->batches;
    int64_t parts = job->cut.rows * job->cut.columns;
    int64_t last = -1;
    ipu__rectangle part = {0};
    if (job->call->plan->is_small && parts == 1 && job->sums == NULL) {
        make_small(job->call, begin, end, scratch);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        if (i % parts != last) { /* of many small matrices it is the same */
            last = i % parts;
            part = part_of(job->call->plan, job->cut, last);
        }
        if (job->sums != NULL) {
            make_node(job, i / parts / batches, i / parts % batches, &part, scratch);
        } else {
            ipu__own_rectangle(job->call, i / parts, &part, scratch);
        }
    }
}

static void
add_nodes(const own_job *job)
{
    const ipu__own_call *call = job->call;
    const ipu__matmul *matmul = call->matmul;
    const int64_t nodes = call->plan->nodes;
    const int64_t elements = matmul->batches * matmul->m * matmul->n;
    for (int64_t i = 0; i < elements; i++) {
        float totals[IPU_SUM_LEVELS];
        for (int64_t node = 0; node < nodes; node++) {
            ipu__sum_join(job->sums[node * elements + i], node, node == nodes - 1,
                          totals);
        }
        call->c[i] = totals[0];
    }
    for (int64_t batch = 0; batch < matmul->batches; batch++) {
        ipu__finish_rows(call->finish, call->c + batch * matmul->m * matmul->n,
                         matmul->n, matmul->m, matmul->n, 0);
    }
}

void
ipu__own_run(const ipu__own_call *call, ipu_pool *pool, float *workspace)
{
    const int64_t threads = ipu_pool_hands(pool);
    own_job job = {call, ipu__own_cut_for(call->plan, threads), NULL};
    int64_t parts = call->matmul->batches * job.cut.rows * job.cut.columns;
    if (call->plan->nodes > 1 && parts < threads) {
        job.sums = workspace;
        size_t bytes = (size_t)node_floats(call->matmul, call->plan) * sizeof(float);
        workspace += ipu_buffer_round_up(bytes) / sizeof(float);
        parts *= call->plan->nodes;
    }
    ipu__share_out(pool, parts, make_parts, &job, workspace,
                   (size_t)ipu__own_scratch(call->plan) * sizeof(float));
    if (job.sums != NULL) {
        add_nodes(&job);
    }
}
