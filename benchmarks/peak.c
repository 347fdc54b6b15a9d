/* SPDX-License-Identifier: MIT
 *
 * The highest rate of multiply-adds that one core reaches, in GFLOP/s on standard output:
 * independent chains of fused multiply-adds that stay in registers, timed for the number
 * of seconds in argv[1]. Compiled when it is needed, for the machine it runs on, once for
 * each width of vector (-DWIDTH=bytes); run once on each core at the same time for more.
 *
 * Twelve chains cover two units with a latency of four to five; more would not fit into
 * the sixteen registers of AVX2. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifndef WIDTH
#define WIDTH 32
#endif

enum { CHAINS = 12, LANES = WIDTH / 4, TURNS = 1 << 20 };

typedef float lanes __attribute__((vector_size(WIDTH)));

static double
now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int
main(int argc, char **argv)
{
    double limit = argc > 1 ? atof(argv[1]) : 0.2;
    double start, seconds;
    double turns = 0.0;
    lanes sum[CHAINS], factor, addend;
    float total = 0.0f;
    for (int i = 0; i < LANES; i++) {
        factor[i] = 0.5f + 0.001f * (float)argc;
        addend[i] = 1.0f;
    }
    for (int c = 0; c < CHAINS; c++) {
        sum[c] = addend * (float)(c + 1);
    }
    start = now();
    do {
        for (int t = 0; t < TURNS; t++) {
            for (int c = 0; c < CHAINS; c++) {
                sum[c] = sum[c] * factor + addend;
            }
        }
        turns += TURNS;
        seconds = now() - start;
    } while (seconds < limit);
    for (int c = 0; c < CHAINS; c++) {
        for (int i = 0; i < LANES; i++) {
            total += sum[c][i];
        }
    }
    printf("%.3f\n", turns * CHAINS * LANES * 2.0 / seconds * 1e-9);
    return total == 0.5f;
}
