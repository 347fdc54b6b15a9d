/* SPDX-License-Identifier: MIT
 *
 * The common part of the kernels of attention and its gradient: sizes, and hiding. A
 * matrix is what lies at one place of the first two axes, batch and heads. */
#ifndef IPU_KERNELS_ATTENTION_IMPL_H
#define IPU_KERNELS_ATTENTION_IMPL_H

#include "kernels/core/kernel_impl.h"

typedef struct ipu__attention {
    ipu_dtype dtype;
    int64_t batch;
    int64_t heads;
    int64_t queries;
    int64_t keys;
    int64_t size;
    int64_t value_size;
    double scale;
    bool divides;  /* by the scale */
    double hidden; /* added to a score that does not count, */
    bool replaces; /* or put in its place */
    bool causal;
    double rate;
    double kept;    /* what is not dropped is multiplied by that, a float32 number */
    int32_t mask;   /* which input it is; -1 where there is none */
    int32_t key;    /* of what is dropped */
    int64_t mask_steps[3]; /* elements from one to the next; 0 where all share it */
} ipu__attention;

/* Of either op. */
ipu__attention ipu__attention_of(const ipu_kernel_spec *spec);

/* The mask's row for a query; NULL where there is none. */
static inline const uint8_t *
ipu__attention_mask(const ipu__attention *a, const ipu_kernel_call *call,
                    int64_t matrix, int64_t query)
{
    if (a->mask < 0) {
        return NULL;
    }
    return (const uint8_t *)call->inputs[a->mask] +
           matrix / a->heads * a->mask_steps[0] +
           matrix % a->heads * a->mask_steps[1] + query * a->mask_steps[2];
}

static inline ipu_random_key
ipu__attention_key(const ipu__attention *a, const ipu_kernel_call *call)
{
    return ipu__random_key(call, &(ipu__random_source){.key_input = a->key});
}

#endif
