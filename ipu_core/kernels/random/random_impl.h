/* SPDX-License-Identifier: MIT
 *
 * Loops over runs of random words, as random_fast.c calls them: one instantiation of
 * random_loops.h for each class of processor. Words are those of ipu_random_block, in
 * the order of blocks. */
#ifndef IPU_KERNELS_RANDOM_IMPL_H
#define IPU_KERNELS_RANDOM_IMPL_H

#include "kernels/core/kernel_impl.h"

/* Numbers from parameters and four words for each, of up to IPU_FIRST_NUMBERS; those
 * that take more than the first attempt are below 0. */
enum { IPU_FIRST_NUMBERS = 128 };
typedef void ipu__first_numbers_fn(double *out, const double *parameters,
                                   const uint32_t *words, int64_t n);

typedef struct ipu__random_form {
    /* The words of `blocks` blocks from block `first` on. */
    void (*words)(uint32_t *out, const ipu_random_key *key, uint64_t first,
                  int64_t blocks);
    /* The same of each `step`-th block. */
    void (*words_apart)(uint32_t *out, const ipu_random_key *key, uint64_t first,
                        uint32_t step, int64_t blocks);
    void (*uniform)(float *out, const uint32_t *words, int64_t n);
    void (*uniform_narrow)(float *out, const uint32_t *words, int64_t n);
    void (*uniform_wide)(double *out, const uint32_t *words, int64_t n);
    /* `n` is even */
    void (*normal)(double *out, const uint32_t *words, int64_t n);
    void (*truncated)(double *out, const uint32_t *words, int64_t n);
    void (*to_floats)(float *out, const double *x, int64_t n);
    void (*to_odd_floats)(float *out, const double *x, int64_t n);
    /* least + floor(word * span / 2^32) */
    void (*integers)(uint32_t *out, const uint32_t *words, uint32_t least,
                     uint64_t span, int64_t n);
    /* The same with two words, / 2^64. */
    void (*integers_wide)(uint64_t *out, const uint32_t *words, uint64_t least,
                          uint64_t span, int64_t n);
    /* mask = the word's upper 24 bits >= threshold, y = mask ? x * scale : 0 */
    void (*dropout)(float *y, uint8_t *mask, const float *x, const uint32_t *words,
                    uint32_t threshold, float scale, int64_t n);
    void (*dropout_wide)(double *y, uint8_t *mask, const double *x,
                         const uint32_t *words, uint32_t threshold, double scale,
                         int64_t n);
    /* To float16, see ipu_reference_round_stochastic. */
    void (*round)(uint16_t *out, const float *x, const uint32_t *words, int64_t n);
    ipu__first_numbers_fn *gammas;
    ipu__first_numbers_fn *poissons;
} ipu__random_form;

extern const ipu__random_form ipu__random_generic;
#if defined(__x86_64__)
extern const ipu__random_form ipu__random_avx2;
extern const ipu__random_form ipu__random_avx512;
#endif

/* random_fast.c */
const ipu__random_form *ipu__random_form_of(ipu_cpu_class cpu);
/* Of a rate: what the upper 24 bits of a word must reach for an element to be kept. */
uint32_t ipu__dropout_threshold(double rate);

#endif
