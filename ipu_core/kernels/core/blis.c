/* SPDX-License-Identifier: MIT
 *
 * Products by BLIS; the only file that includes blis.h. The context follows from CPU
 * class and shape alone, since contexts round differently. BLIS itself runs with one
 * thread and gets its context by hand: its own detection goes by the processor's name,
 * and a look-up of a context that it was built without ends the process. So the header
 * that came with the library is asked what the library holds. Buffers must have
 * IPU_SLACK_BYTES after them: BLIS 0.9 may read past a matrix. alpha is 1. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* blis.h names POSIX barriers */
#endif
#include <stdlib.h>

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

/* Whether BLIS_ARCH_TYPE may name it without ending the process. */
static bool
is_built(long id)
{
    static const context_row ids[] = {
#define ROW(name) {#name, BLIS_ARCH_##name, IS_BUILT(name)}
        ROW(SKX),        ROW(KNL),         ROW(HASWELL),    ROW(SANDYBRIDGE),
        ROW(PENRYN),     ROW(ZEN3),        ROW(ZEN2),       ROW(ZEN),
        ROW(EXCAVATOR),  ROW(STEAMROLLER), ROW(PILEDRIVER), ROW(BULLDOZER),
        ROW(ARMSVE),     ROW(A64FX),       ROW(FIRESTORM),  ROW(THUNDERX2),
        ROW(CORTEXA57),  ROW(CORTEXA53),   ROW(GENERIC),
#undef ROW
    };
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        if (ids[i].built && (long)ids[i].id == id) {
            return true;
        }
    }
    return false;
}

/* Thread safe: BLIS guards it by pthread_once. It reads BLIS_ARCH_TYPE as a number, -1
 * for its own choice; BLIS 2 takes names too, which are refused here with the rest. */
ipu_status
ipu__blis_initialise(ipu_ctx *ctx)
{
    const char *type = getenv("BLIS_ARCH_TYPE");
    if (type != NULL) {
        char *end;
        long id = strtol(type, &end, 10);
        bool number = end != type && *end == '\0';
        IPU_FAIL_IF(ctx, !number || !(id == -1 || is_built(id)), FAILED_PRECONDITION,
                    "the environment has BLIS_ARCH_TYPE=%s, over which this BLIS may end "
                    "the process; unset it (IPU_CPU_CLASS chooses kernels here)",
                    type);
    }
    bli_init();
    return IPU_OK;
}

/* NULL, which means BLIS's own choice, for architectures other than x86-64. */
static const cntx_t *
context_of(ipu__blis_context context)
{
    return context == IPU_BLIS_OWN_CHOICE ? NULL : IPU_BLIS_LOOKUP(contexts[context].id);
}

/* Measured: the kernels for AVX-512 serve where they run on units as wide, and matrices
 * are not small, for which BLIS has kernels with AVX2 alone. */
ipu_status
ipu__blis_context_for(ipu_ctx *ctx, int64_t m, int64_t n, int64_t k, ipu_cpu_class cpu,
                      ipu__blis_context *out)
{
    *out = IPU_BLIS_OWN_CHOICE;
#if defined(__x86_64__)
    bool small = ipu__min(m, n) <= 16 || m * n * k < 64000;
    bool wide = cpu == IPU_CPU_AVX512 && ipu__has_wide_avx512() && !small;
    *out = wide                     ? IPU_BLIS_SKX
           : cpu == IPU_CPU_GENERIC ? IPU_BLIS_GENERIC
                                    : IPU_BLIS_ZEN3;
#else
    (void)m;
    (void)n;
    (void)k;
    (void)cpu;
#endif
    IPU_TRY(ipu__blis_initialise(ctx));
    if (!contexts[*out].built && *out == IPU_BLIS_ZEN3) {
        *out = IPU_BLIS_HASWELL; /* a BLIS built without zen3 */
    }
    IPU_FAIL_IF(ctx, !contexts[*out].built, FAILED_PRECONDITION,
                "this BLIS was built without the context %s; use a build for the family "
                "x86_64",
                contexts[*out].name);
    return IPU_OK;
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
        double one = 1.0;
        double beta = p->adds ? 1.0 : 0.0;
        bli_dgemm_ex(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, p->m, p->n, p->k, &one, a,
                     a_row, a_column, b, b_row, b_column, &beta, p->c, c_row, c_column,
                     cntx, &runtime);
    } else {
        float one = 1.0f;
        float beta = p->adds ? 1.0f : 0.0f;
        bli_sgemm_ex(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, p->m, p->n, p->k, &one, a,
                     a_row, a_column, b, b_row, b_column, &beta, p->c, c_row, c_column,
                     cntx, &runtime);
    }
}
