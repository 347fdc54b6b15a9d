/* SPDX-License-Identifier: MIT
 *
 * What the tiles of this processor compute, as text: a line for each product and a
 * number for its bits, the same for all tiles on all processors. Each kind of tiles has
 * to give the same lines, or the program ends with 1. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/gemm/gemm_tiles_impl.h"

static uint64_t random_state;

static float
next_float(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(random_state >> 32) * 0x1p-31f;
}

static float *
floats(int64_t count)
{
    float *p = malloc((size_t)(count + 64) * sizeof *p);
    for (int64_t i = 0; i < count; i++) {
        p[i] = next_float();
    }
    return p;
}

/* The same numbers as float16. */
static uint16_t *
halves_of(const float *x, int64_t count)
{
    uint16_t *p = malloc((size_t)(count + 64) * sizeof *p);
    for (int64_t i = 0; i < count; i++) {
        p[i] = ipu_float16_from_float(x[i]);
    }
    return p;
}

/* Forms of a product: what is done with the sums; the last stores those of float16. */
enum { STORED, TRANSPOSED, ADDED, UPDATED, HALVES, FORMS };

static uint64_t
bits_of(const ipu__tiles *tiles, const int64_t size[3], uint32_t flags, int form)
{
    int64_t m = size[0];
    int64_t n = size[1];
    int64_t k = size[2];
    bool columns = (flags & 1) != 0;
    bool turned = (flags & 2) != 0;
    bool packs = (flags & 4) != 0 || form == HALVES;
    random_state = 1;
    float *a = floats(m * k);
    float *b = floats(k * n);
    uint16_t *half_a = halves_of(a, m * k);
    uint16_t *half_b = halves_of(b, k * n);
    float *c = floats(m * n);
    float *v = floats(m * n);
    ipu__sgd sgd = {c, v, 0.1f, 0.9f, flags % 3 == 0};
    ipu__product p = {.m = m,
                      .n = n,
                      .k = k,
                      .halves = form == HALVES,
                      .a = form == HALVES ? (void *)half_a : a,
                      .a_row = columns ? 1 : k,
                      .a_col = columns ? m : 1,
                      .b = form == HALVES ? (void *)half_b : b,
                      .b_row = turned ? 1 : n,
                      .b_col = turned ? k : 1,
                      .c = form == UPDATED ? NULL : c,
                      .c_row = form == TRANSPOSED ? m : n,
                      .transposed = form == TRANSPOSED,
                      .accumulator = form == ADDED ? c : NULL,
                      .update = form == UPDATED ? &sgd : NULL,
                      .a_form = columns ? packs ? IPU_A_STRIPS : IPU_A_COLUMNS
                                : packs ? IPU_A_COPIED
                                        : IPU_A_ROWS,
                      .chunk = form != TRANSPOSED && k > 40 ? 32 : k,
                      .block = 2};
    p.packed_k = form == STORED || form == HALVES ? p.chunk : k;
    float *scratch = malloc((size_t)ipu__tiles_scratch(tiles, &p) * sizeof *scratch);
    tiles->multiply(&p, 0, m, 0, n, scratch);
    uint64_t hash = 14695981039346656037u;
    for (int64_t i = 0; i < m * n; i++) {
        uint32_t word[2];
        memcpy(&word[0], &c[form == TRANSPOSED ? i % n * m + i / n : i], 4);
        memcpy(&word[1], &v[i], 4);
        hash = ((hash ^ word[0]) * 1099511628211u ^ word[1]) * 1099511628211u;
    }
    free(scratch);
    free(a);
    free(b);
    free(half_a);
    free(half_b);
    free(c);
    free(v);
    return hash;
}

int
main(void)
{
    static const int64_t sizes[][3] = {{1, 1, 1},    {4, 8, 3},    {6, 16, 9},
                                       {8, 12, 40},  {12, 32, 17}, {13, 33, 65},
                                       {29, 70, 100}, {40, 10, 33}, {3, 100, 5},
                                       {13, 33, 2100}};
    const ipu__tiles *tiles[4] = {&ipu__tiles_plain};
    int count = 1;
    int wrong = 0;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        tiles[count++] = &ipu__tiles_avx2;
    }
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) {
        tiles[count++] = &ipu__tiles_avx512;
    }
#elif defined(__aarch64__)
    tiles[count++] = &ipu__tiles_neon;
#endif
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (uint32_t flags = 0; flags < 8; flags++) {
            for (int form = 0; form < FORMS; form++) {
                if (sizes[s][2] > IPU_SUM_BLOCK && form != STORED && form != HALVES) {
                    continue; /* they take sums of one block */
                }
                uint64_t bits = bits_of(tiles[0], sizes[s], flags, form);
                printf("%dx%dx%d %u %d %016llx\n", (int)sizes[s][0], (int)sizes[s][1],
                       (int)sizes[s][2], (unsigned)flags, form,
                       (unsigned long long)bits);
                for (int i = 1; i < count; i++) {
                    if (bits_of(tiles[i], sizes[s], flags, form) != bits) {
                        printf("%s differs\n", tiles[i]->name);
                        wrong = 1;
                    }
                }
            }
        }
    }
    return wrong;
}
