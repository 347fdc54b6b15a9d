/* SPDX-License-Identifier: MIT
 *
 * Products by one column where the terms of a sum are neighbours in memory, of both
 * factors, by the vectors that gemm_tiles_body.h is made of and in the middle of it.
 * Each lane makes a chain: those of some rows, or, where there are few rows, those of
 * some blocks of a row, which do not depend on each other (sum_tree.h). Terms are turned
 * on their way to the lanes, TURNED at a time. Operands have slack for whole vectors of
 * float16. */

enum {
    BLOCK_CHAINS = 16, /* a page apart, as rows may be: they share a place in a cache */
    ROW_CHAINS = LANES < 8 ? 16 : 2 * LANES, /* two sums, that wait less */
    LINE = 16, /* terms in a cache line, which is read at once */
    LINE_BYTES = 64,
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

/* Terms [k, k + terms) of each chain, and `pad` for those that are not there. */
IPU_INLINE TARGET void
stage(const chain_source *from, int64_t k, int64_t chains, int64_t terms, bool halves,
      float pad, float *out)
{
    int64_t at = from->at + k;
    for (int64_t i = 0; i < chains; i++, at += from->step, out += STAGED_ROW) {
        int64_t there = ipu__max(ipu__min(terms, from->end - at), 0);
        if (halves) {
            widen(there, (const uint16_t *)from->matrix + at, out);
        } else {
            memcpy(out, (const float *)from->matrix + at, (size_t)there * sizeof *out);
        }
        for (; there < terms; there++) {
            out[there] = pad;
        }
    }
}

/* Adds the next `terms`, at most LINE, to a vector of chains. Without a branch where
 * those are all of them: loads then are part of the instructions that turn. */
IPU_INLINE TARGET vector
add_line(bool shared, bool halves, bool x_halves, int64_t terms, const chain_source *a,
         int64_t a_at, const chain_source *x, int64_t x_at, vector sum)
{
    vector line[LINE]; /* of x, read before A: both may share a place in the cache */
    for (int64_t k = 0; !shared && k < terms; k += TURNED) {
        load_turned(halves, x->matrix, x_at + k, x->step, line + k);
    }
    for (int64_t k = 0; k < terms; k += TURNED) {
        vector turned[TURNED];
        load_turned(halves, a->matrix, a_at + k, a->step, turned);
        EACH(term, TURNED, {
            if (k + term < terms) {
                vector y = shared ? spread_at(x->matrix, x_at + k + term, x_halves)
                                  : line[k + term];
                sum = multiply_add(turned[term], y, sum);
            }
        })
    }
    return sum;
}

/* The same for all vectors and `terms` terms. */
IPU_INLINE TARGET void
add_lines(int64_t most, bool shared, bool halves, bool x_halves, int64_t terms,
          const chain_source *a, const chain_source *x, vector *sum)
{
    int64_t j = 0;
    for (; j + LINE <= terms; j += LINE) {
        EACH(i, most / LANES, {
            sum[i] = add_line(shared, halves, x_halves, LINE, a,
                              a->at + i * LANES * a->step + j, x,
                              x->at + i * LANES * x->step + j, sum[i]);
        })
    }
    EACH(i, most / LANES, {
        sum[i] = add_line(shared, halves, x_halves, terms - j, a,
                          a->at + i * LANES * a->step + j, x,
                          x->at + i * LANES * x->step + j, sum[i]);
    })
}

/* A chain from 0 for each of `chains`, `most` at most; what is stored for others is no
 * number of theirs. `shared`: all of them read the same x. Terms of less than all chains
 * and of those that end early are copied before they are turned. A product of 0 and -0
 * changes no sum. */
OF_EACH_TILE TARGET void
make_chains(int64_t most, bool shared, bool halves, const chain_source *a,
            const chain_source *x, int64_t chains, int64_t terms, float *sums)
{
    float copied[2][ROW_CHAINS * STAGED_ROW];
    vector sum[ROW_CHAINS / LANES];
    const int64_t last = a->at + (most - 1) * a->step; /* where the last chain begins */
    EACH(i, most / LANES, sum[i] = zero())
    if (chains < most) { /* others are quick with zeros, and slow with anything */
        memset(copied, 0, sizeof copied);
    }
    for (int64_t k = 0; k < terms; k += STAGED) {
        const int64_t some = ipu__min(STAGED, terms - k);
        chain_source from = {a->matrix, a->at + k, a->step, 0};
        chain_source from_x = {x->matrix, x->at + k, x->step, 0};
        if (chains == most && some == STAGED && last + k + STAGED <= a->end) {
            add_lines(most, shared, halves, halves, some, &from, &from_x, sum);
            continue;
        }
        stage(a, k, chains, some, halves, 0.0f, copied[0]);
        from = (chain_source){copied[0], 0, STAGED_ROW, 0};
        if (!shared) {
            stage(x, k, chains, some, halves, -0.0f, copied[1]);
            from_x = (chain_source){copied[1], 0, STAGED_ROW, 0};
        }
        add_lines(most, shared, false, halves, some, &from, &from_x, sum);
    }
    EACH(i, most / LANES, store(sums + i * LANES, sum[i]))
}

#define CHAINS_OF(name, most, shared, halves) \
    TARGET static void chains_##name(const chain_source *a, const chain_source *x, \
                                     int64_t chains, int64_t terms, float *sums) \
    { \
        make_chains(most, shared, halves, a, x, chains, terms, sums); \
    }
CHAINS_OF(rows, ROW_CHAINS, true, false)
CHAINS_OF(rows_crowded, BLOCK_CHAINS, true, false)
CHAINS_OF(rows_half, BLOCK_CHAINS, true, true)
CHAINS_OF(blocks, BLOCK_CHAINS, false, false)
CHAINS_OF(blocks_half, BLOCK_CHAINS, false, true)

/* Chains are those of `rows` rows. */
static void
dot_rows(const ipu__product *p, int64_t row, int64_t rows)
{
    float totals[ROW_CHAINS][IPU_SUM_LEVELS];
    float sums[ROW_CHAINS];
    const int64_t blocks = ipu__sum_blocks(p->k);
    for (int64_t block = 0; block < blocks; block++) {
        const int64_t k = block * IPU_SUM_BLOCK;
        const int64_t terms = ipu__min(p->k - k, IPU_SUM_BLOCK);
        chain_source a = {p->a, row * p->a_row + k, p->a_row, INT64_MAX};
        chain_source x = {p->b, k, 0, INT64_MAX};
        if (p->halves) {
            chains_rows_half(&a, &x, rows, terms, sums);
        } else if (rows <= BLOCK_CHAINS && ROW_CHAINS > BLOCK_CHAINS) {
            chains_rows_crowded(&a, &x, rows, terms, sums);
        } else {
            chains_rows(&a, &x, rows, terms, sums);
        }
        for (int64_t i = 0; i < rows; i++) {
            ipu__sum_join(sums[i], block, block == blocks - 1, totals[i]);
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
    float sums[BLOCK_CHAINS];
    const int64_t blocks = ipu__sum_blocks(p->k);
    const int64_t begin = row * p->a_row;
    for (int64_t block = 0, chains; block < blocks; block += chains) {
        const int64_t k = block * IPU_SUM_BLOCK;
        const int64_t terms = ipu__min(p->k - k, IPU_SUM_BLOCK);
        chain_source a = {p->a, begin + k, IPU_SUM_BLOCK, begin + p->k};
        chain_source x = {p->b, k, IPU_SUM_BLOCK, p->k};
        chains = ipu__min(blocks - block, BLOCK_CHAINS);
        if (p->halves) {
            chains_blocks_half(&a, &x, chains, terms, sums);
        } else {
            chains_blocks(&a, &x, chains, terms, sums);
        }
        for (int64_t i = 0; i < chains; i++) {
            ipu__sum_join(sums[i], block + i, block + i == blocks - 1, totals);
        }
    }
    p->c[row] = totals[0];
}

static void
multiply_dots(const ipu__product *p, int64_t row, int64_t row_end)
{
    const int64_t beyond = p->a_row * (int64_t)sizeof(float) % IPU_PAGE_BYTES;
    const bool crowded = ipu__min(beyond, IPU_PAGE_BYTES - beyond) < LINE_BYTES;
    const int64_t most = crowded || p->halves ? BLOCK_CHAINS : ROW_CHAINS;
    while (row < row_end) {
        int64_t rows = ipu__min(row_end - row, most);
        if (rows < BLOCK_CHAINS / 2 && p->k > IPU_SUM_BLOCK) {
            rows = 1;
            dot_blocks(p, row);
        } else {
            dot_rows(p, row, rows);
        }
        row += rows;
    }
}
