/* SPDX-License-Identifier: MIT
 *
 * Products by BLIS; the only file that includes blis.h. The context follows from CPU
 * class and shape alone, since contexts round differently. BLIS itself runs with one
 * thread and gets its context by hand: its own detection goes by the processor's name,
 * and a look-up of a context that it was built without ends the process. So the header
 * that came with the library is asked what the library holds. Buffers must have
 * IPU_SLACK_BYTES after them: BLIS 0.9 may read past a matrix. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* blis.h names POSIX barriers */
#endif
#include <string.h>

#include <blis.h>

#include "kernels/core/blis_impl.h"
#include "kernels/core/kernel_impl.h"

/* The look-up of a context by id is named differently in BLIS 2; the build says how. */
#ifndef IPU_BLIS_LOOKUP
#define IPU_BLIS_LOOKUP bli_gks_lookup_nat_cntx
#endif

/* blis.h defines BLIS_CONFIG_<NAME> as nothing for what the library was built with: its
 * text is then empty, and otherwise the name itself. */
#define TEXT(...) #__VA_ARGS__
#define EXPANDED_TEXT(...) TEXT(__VA_ARGS__)
#define IS_BUILT(name) (sizeof EXPANDED_TEXT(BLIS_CONFIG_##name) == 1)

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

/* Measured: the kernels for AVX-512 serve where they run on units as wide. Architectures
 * other than x86-64 take what BLIS chooses. */
static ipu__blis_context
context_of_class(ipu_cpu_class cpu)
{
#if defined(__x86_64__)
    return cpu == IPU_CPU_AVX512 && ipu__has_wide_avx512() ? IPU_BLIS_SKX
           : cpu == IPU_CPU_GENERIC                        ? IPU_BLIS_GENERIC
           : contexts[IPU_BLIS_ZEN3].built                 ? IPU_BLIS_ZEN3
                                                           : IPU_BLIS_HASWELL;
#else
    (void)cpu;
    return IPU_BLIS_OWN_CHOICE;
#endif
}

/* BLIS reads its settings by these two; BLIS 2 has both. Here they stand in the place of
 * its own: the environment cannot name an architecture over which BLIS ends the process,
 * and what LAPACK calls, which names no context, gets that of the class. BLIS would go
 * by the processor's name, and take one that is younger than itself for any other. */
gint_t bli_env_get_var(const char *name, gint_t fallback);
gint_t bli_env_get_var_arch_type(const char *name, gint_t fallback);

gint_t
bli_env_get_var_arch_type(const char *name, gint_t fallback)
{
    (void)name;
    ipu__blis_context context = context_of_class(ipu_cpu_class_detect());
    bool named = context != IPU_BLIS_OWN_CHOICE && contexts[context].built;
    return named ? (gint_t)contexts[context].id : fallback;
}

gint_t
bli_env_get_var(const char *name, gint_t fallback)
{
    bool architecture = strcmp(name, "BLIS_ARCH_TYPE") == 0;
    return architecture ? bli_env_get_var_arch_type(name, fallback) : fallback;
}

/* NULL, which means BLIS's own choice, for architectures other than x86-64. */
static const cntx_t *
context_of(ipu__blis_context context)
{
    return context == IPU_BLIS_OWN_CHOICE ? NULL : IPU_BLIS_LOOKUP(contexts[context].id);
}

ipu_status
ipu__blis_check(ipu_ctx *ctx, ipu_cpu_class cpu)
{
    ipu__blis_context context = context_of_class(cpu);
    IPU_FAIL_IF(ctx, !contexts[context].built, FAILED_PRECONDITION,
                "this BLIS was built without the context %s; use a build for the family "
                "x86_64",
                contexts[context].name);
    bli_init(); /* thread safe; the first call counts */
    return IPU_OK;
}

/* For small matrices BLIS has kernels with AVX2 alone. */
ipu__blis_context
ipu__blis_context_for(int64_t m, int64_t n, int64_t k, ipu_cpu_class cpu)
{
    bool small = ipu__min(m, n) <= 16 || m * n * k < 64000;
    ipu__blis_context of_avx2 = context_of_class(IPU_CPU_AVX2);
    ipu__blis_context context = context_of_class(cpu);
    return small && context == IPU_BLIS_SKX && contexts[of_avx2].built ? of_avx2
                                                                       : context;
}

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

void
ipu__blis_multiply(ipu__blis_context context, const ipu__blis_product *product)
{
    const ipu__blis_product *p = product;
    cntx_t *cntx = (cntx_t *)(uintptr_t)context_of(context);
    void *a = (void *)(uintptr_t)p->a;
    void *b = (void *)(uintptr_t)p->b;
    inc_t a_row = p->a_row;
    inc_t a_column = p->a_col;
    inc_t b_row = p->b_row;
    inc_t b_column = p->b_col;
    inc_t c_row = p->c_row;
    inc_t c_column = p->c_col;
    rntm_t runtime = BLIS_RNTM_INITIALIZER;
    settle_strides(p->m, p->k, &a_row, &a_column);
    settle_strides(p->k, p->n, &b_row, &b_column);
    settle_strides(p->m, p->n, &c_row, &c_column);
    bli_rntm_set_num_threads(1, &runtime);
    if (p->wide) {
        double alpha = p->alpha;
        double beta = p->beta;
        bli_dgemm_ex(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, p->m, p->n, p->k, &alpha, a,
                     a_row, a_column, b, b_row, b_column, &beta, p->c, c_row, c_column,
                     cntx, &runtime);
    } else {
        float alpha = (float)p->alpha;
        float beta = (float)p->beta;
        bli_sgemm_ex(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, p->m, p->n, p->k, &alpha, a,
                     a_row, a_column, b, b_row, b_column, &beta, p->c, c_row, c_column,
                     cntx, &runtime);
    }
}
