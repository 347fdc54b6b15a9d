/* SPDX-License-Identifier: MIT
 *
 * Products by one column where the terms of a sum are neighbours in memory, of both
 * factors, by the vectors that gemm_tiles_body.h is made of and in the middle of it.
 * Each lane makes a chain: those of some rows, or, where there are few rows, those of
 * some blocks of a row, which do not depend on each other (sum_tree.h). Terms are turned
 * on their way to the lanes, four at a time. Operands have slack for whole vectors of
 * float16. */

enum {
    CHAINS = 16,
    CHAIN_VECTORS = CHAINS / LANES,
    STAGED = 64,    /* terms of each chain that are copied at a time */
    STAGED_ROW = 80 /* an odd number of cache lines */
};

/* What the chains read: each begins `step` elements after the one before it, and none
 * reads element `end`. */
typedef struct chain_source {
    const void *matrix;
    int64_t at;
    int64_t step;
    int64_t end;
} chain_source;

/* Terms [k, k + terms) of each chain, and `pad` for those that are not there. Asks for
 * the next ones; of chains that follow each other in memory for what comes after all of
 * them, in the order of memory, as the processor would by itself for one chain. */
IPU_INLINE TARGET void
stage(const chain_source *from, int64_t k, int64_t chains, int64_t terms, bool halves,
      float pad, float *out)
{
    const int64_t bytes = halves ? 2 : 4;
    const bool in_order = from->step == IPU_SUM_BLOCK;
    int64_t at = from->at + k;
    int64_t next = in_order ? from->at + CHAINS * (IPU_SUM_BLOCK + k) : at + STAGED;
    for (int64_t i = 0; i < chains; i++, at += from->step, out += STAGED_ROW) {
        int64_t there = ipu__max(ipu__min(terms, from->end - at), 0);
        EACH(line, STAGED / 16, {
            __builtin_prefetch(ipu__at(from->matrix, (next + line * 16) * bytes), 0, 2);
        })
        next += in_order ? STAGED : from->step;
        if (halves) {
            widen(there, (const uint16_t *)from->matrix + at, out);
        } else if (there == STAGED) {
            EACH(part, STAGED / LANES, {
                const float *x = (const float *)from->matrix + at + part * LANES;
                store(out + part * LANES, load(x));
            })
        } else {
            memcpy(out, (const float *)from->matrix + at, (size_t)there * sizeof *out);
        }
        for (; there < terms; there++) {
            out[there] = pad;
        }
    }
}

/* Adds the next `terms`, at most TURNED, to all chains. Without a branch where those are
 * all of them: loads then are part of the instructions that turn. */
IPU_INLINE TARGET void
add_terms(bool shared, bool halves, int64_t terms, const float *a, int64_t a_step,
          const void *x, int64_t x_at, int64_t x_step, vector sum[CHAIN_VECTORS])
{
    vector turned[CHAIN_VECTORS][TURNED];
    vector turned_x[CHAIN_VECTORS][TURNED];
    EACH(i, CHAIN_VECTORS, {
        const int64_t first = i * LANES;
        load_turned(a + first * a_step, a_step, turned[i]);
        if (!shared) {
            load_turned((const float *)x + x_at + first * x_step, x_step, turned_x[i]);
        }
    })
    EACH(term, TURNED, {
        if (term < terms) {
            vector y = shared ? spread_at(x, x_at + term, halves) : zero();
            EACH(i, CHAIN_VECTORS, {
                y = shared ? y : turned_x[i][term];
                sum[i] = multiply_add(turned[i][term], y, sum[i]);
            })
        }
    })
}

/* A chain from 0 for each of `chains`; what is stored for others is no number of theirs.
 * `shared`: all of them read the same x. `staged`: terms are copied before they are
 * turned, as of float16, of less than all chains, and where chains are whole or half
 * pages apart, which share a place in the cache. A product of 0 and -0 changes no sum. */
OF_EACH_TILE TARGET void
make_chains(bool shared, bool staged, bool halves, const chain_source *a,
            const chain_source *x, int64_t chains, int64_t terms, float *sums)
{
    float copied[2][CHAINS * STAGED_ROW];
    vector sum[CHAIN_VECTORS];
    EACH(i, CHAIN_VECTORS, sum[i] = zero())
    if (chains < CHAINS) { /* others are quick with zeros, and slow with anything */
        memset(copied, 0, sizeof copied);
    }
    for (int64_t k = 0; k < terms; k += STAGED) {
        const int64_t some = ipu__min(STAGED, terms - k);
        const bool copies = staged || some < STAGED;
        const float *from = (const float *)a->matrix + a->at + k;
        const void *from_x = x->matrix;
        int64_t x_at = x->at + k;
        if (copies) {
            stage(a, k, chains, some, halves, 0.0f, copied[0]);
            from = copied[0];
        }
        if (copies && !shared) {
            stage(x, k, chains, some, halves, -0.0f, copied[1]);
            from_x = copied[1];
            x_at = 0;
        }
        const int64_t step = copies ? STAGED_ROW : a->step;
        int64_t j = 0;
        for (; j + TURNED <= some; j += TURNED) {
            add_terms(shared, halves, TURNED, from + j, step, from_x, x_at + j,
                      STAGED_ROW, sum);
        }
        if (j < some) {
            add_terms(shared, halves, some - j, from + j, step, from_x, x_at + j,
                      STAGED_ROW, sum);
        }
    }
    EACH(i, CHAIN_VECTORS, store(sums + i * LANES, sum[i]))
}

#define CHAINS_OF(name, shared, staged, halves) \
    TARGET static void chains_##name(const chain_source *a, const chain_source *x, \
                                     int64_t chains, int64_t terms, float *sums) \
    { \
        make_chains(shared, staged, halves, a, x, chains, terms, sums); \
    }
CHAINS_OF(rows, true, false, false)
CHAINS_OF(rows_staged, true, true, false)
CHAINS_OF(rows_half, true, true, true)
CHAINS_OF(blocks, false, true, false)
CHAINS_OF(blocks_half, false, true, true)

/* Adds totals of the tree to leaf `leaf` of a sum and keeps it as a total. */
static void
join_leaf(float x, int64_t leaf, bool is_last, float totals[IPU_SUM_LEVELS])
{
    const ipu__sum_step step = ipu__sum_step_of(leaf, is_last);
    for (int level = 0; step.adds >> level != 0; level++) {
        x = (step.adds >> level & 1) != 0 ? totals[level] + x : x;
    }
    totals[step.level] = x;
}

/* Chains are those of `rows` rows. */
static void
dot_rows(const ipu__product *p, int64_t row, int64_t rows)
{
    float totals[CHAINS][IPU_SUM_LEVELS];
    float sums[CHAINS];
    const int64_t blocks = ipu__sum_blocks(p->k);
    const bool staged =
        rows < CHAINS || p->a_row * (int64_t)sizeof(float) % (IPU_PAGE_BYTES / 2) == 0;
    for (int64_t block = 0; block < blocks; block++) {
        const int64_t k = block * IPU_SUM_BLOCK;
        const int64_t terms = ipu__min(p->k - k, IPU_SUM_BLOCK);
        chain_source a = {p->a, row * p->a_row + k, p->a_row, INT64_MAX};
        chain_source x = {p->b, k, 0, INT64_MAX};
        if (p->halves) {
            chains_rows_half(&a, &x, rows, terms, sums);
        } else if (staged) {
            chains_rows_staged(&a, &x, rows, terms, sums);
        } else {
            chains_rows(&a, &x, rows, terms, sums);
        }
        for (int64_t i = 0; i < rows; i++) {
            join_leaf(sums[i], block, block == blocks - 1, totals[i]);
        }
    }
    for (int64_t i = 0; i < rows; i++) {
        p->c[row + i] = totals[i][0];
    }
}

/* Chains are blocks of one row. */
static void
dot_blocks(const ipu__product *p, int64_t row)
{
    float totals[IPU_SUM_LEVELS];
    float sums[CHAINS];
    const int64_t blocks = ipu__sum_blocks(p->k);
    const int64_t begin = row * p->a_row;
    for (int64_t block = 0, chains; block < blocks; block += chains) {
        const int64_t k = block * IPU_SUM_BLOCK;
        const int64_t terms = ipu__min(p->k - k, IPU_SUM_BLOCK);
        chain_source a = {p->a, begin + k, IPU_SUM_BLOCK, begin + p->k};
        chain_source x = {p->b, k, IPU_SUM_BLOCK, p->k};
        chains = ipu__min(blocks - block, CHAINS);
        if (p->halves) {
            chains_blocks_half(&a, &x, chains, terms, sums);
        } else {
            chains_blocks(&a, &x, chains, terms, sums);
        }
        for (int64_t i = 0; i < chains; i++) {
            join_leaf(sums[i], block + i, block + i == blocks - 1, totals);
        }
    }
    p->c[row] = totals[0];
}

static void
multiply_dots(const ipu__product *p, int64_t row, int64_t row_end)
{
    while (row < row_end) {
        int64_t rows = ipu__min(row_end - row, CHAINS);
        if (rows < CHAINS / 2 && p->k > IPU_SUM_BLOCK) {
            rows = 1;
            dot_blocks(p, row);
        } else {
            dot_rows(p, row, rows);
        }
        row += rows;
    }
}
