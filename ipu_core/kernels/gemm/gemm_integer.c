/* SPDX-License-Identifier: MIT
 *
 * Products of integers, which wrap: any order of a sum gives the same bits. Where B lies
 * by rows, these are added to rows of C, some at a time, a block of B that stays in the
 * second-level cache after the other; where it lies by columns, an element is the sum of
 * the products of a row and a column that are neighbours in memory. */
#include "kernels/gemm/gemm_integer_impl.h"

enum {
    BLOCK_ROWS = 64, /* of B */
    BLOCK_COLUMNS = 512,
    ROWS_AT_A_TIME = 4,
    OPS_PER_TASK = 1 << 17
};

/* Functions of one type of elements, by instruction set. */
typedef struct integer_functions {
    /* c[j] += the sum of a[i] * b[i * b_row + j] over four i */
    void (*add_rows)(void *c, const uint64_t a[ROWS_AT_A_TIME], const void *b,
                     int64_t b_row, int64_t n);
    /* the sum of x[j] * y[j] */
    uint64_t (*dot)(const void *x, const void *y, int64_t n);
} integer_functions;

/* `wide` holds products: those of smaller types would be signed and overflow. */
#define FUNCTIONS(type, wide, suffix, target) \
    target static void add_rows_##type##suffix( \
        void *to, const uint64_t a[4], const void *from, int64_t b_row, int64_t n) \
    { \
        type *c = to; \
        const type *b = from; \
        const wide a0 = (wide)a[0]; \
        const wide a1 = (wide)a[1]; \
        const wide a2 = (wide)a[2]; \
        const wide a3 = (wide)a[3]; \
        IPU_INDEPENDENT \
        for (int64_t j = 0; j < n; j++) { \
            wide sum = c[j] + a0 * b[j] + a1 * b[b_row + j]; \
            c[j] = (type)(sum + a2 * b[2 * b_row + j] + a3 * b[3 * b_row + j]); \
        } \
    } \
    target static uint64_t dot_##type##suffix(const void *x, const void *y, int64_t n) \
    { \
        wide sum = 0; \
        for (int64_t j = 0; j < n; j++) { \
            sum += (wide)((const type *)x)[j] * ((const type *)y)[j]; \
        } \
        return sum; \
    }
#define OF(type, suffix) \
    { \
        add_rows_##type##suffix, dot_##type##suffix \
    }
#define CLASS(suffix, target) \
    FUNCTIONS(uint8_t, uint32_t, suffix, target) \
    FUNCTIONS(uint16_t, uint32_t, suffix, target) \
    FUNCTIONS(uint32_t, uint32_t, suffix, target) \
    FUNCTIONS(uint64_t, uint64_t, suffix, target) \
    static const integer_functions integers##suffix[] = { \
        OF(uint8_t, suffix), OF(uint16_t, suffix), OF(uint32_t, suffix), \
        OF(uint64_t, suffix)};
CLASS(_generic, )
#if defined(__x86_64__)
CLASS(_avx2, IPU_TARGET_AVX2)
CLASS(_avx512, IPU_TARGET_AVX512)
#endif

typedef struct integer_plan {
    ipu__matmul product;
    const integer_functions *by;
    int64_t bytes;  /* of an element */
    int64_t parts;  /* of the rows of a matrix */
    bool exchanged; /* one column, whose A is read by columns: a row of C^T = B^T A^T */
} integer_plan;

static uint64_t
element(const integer_plan *plan, const char *at)
{
#define LOAD(type) \
    { \
        type x; \
        memcpy(&x, at, sizeof x); \
        return x; \
    }
    IPU_BY_WIDTH(plan->bytes, LOAD)
#undef LOAD
    return 0;
}

static void
put(const integer_plan *plan, char *at, uint64_t value)
{
#define STORE(type) \
    { \
        type x = (type)value; \
        memcpy(at, &x, sizeof x); \
    }
    IPU_BY_WIDTH(plan->bytes, STORE)
#undef STORE
}

/* Rows [row, row_end) of C, by rows of B. */
static void
by_rows(const integer_plan *plan, const char *a, const char *b, char *c, int64_t row,
        int64_t row_end)
{
    const ipu__matmul *p = &plan->product;
    const int64_t size = plan->bytes;
    memset(c + row * p->n * size, 0, (size_t)((row_end - row) * p->n * size));
    for (int64_t j = 0; j < p->n; j += BLOCK_COLUMNS) {
        const int64_t columns = ipu__min(p->n - j, BLOCK_COLUMNS);
        for (int64_t k0 = 0; k0 < p->k; k0 += BLOCK_ROWS) {
            const int64_t end = ipu__min(p->k, k0 + BLOCK_ROWS);
            for (int64_t i = row; i < row_end; i++) {
                for (int64_t k = k0; k < end; k += ROWS_AT_A_TIME) {
                    uint64_t x[ROWS_AT_A_TIME];
                    const int64_t count = ipu__min(end - k, ROWS_AT_A_TIME);
                    for (int64_t l = 0; l < count; l++) {
                        int64_t at = i * p->a_row + (k + l) * p->a_col;
                        x[l] = element(plan, a + at * size);
                    }
                    char *to = c + (i * p->n + j) * size;
                    const char *from = b + (k * p->b_row + j) * size;
                    if (count == ROWS_AT_A_TIME) {
                        plan->by->add_rows(to, x, from, p->b_row, columns);
                        continue;
                    }
                    for (int64_t l = 0; l < count; l++) { /* each of them alone */
                        uint64_t one[ROWS_AT_A_TIME] = {x[l]};
                        plan->by->add_rows(to, one, from + l * p->b_row * size, 0,
                                           columns);
                    }
                }
            }
        }
    }
}

/* The same by columns of B; `terms` has room for a row of A. */
static void
by_columns(const integer_plan *plan, const char *a, const char *b, char *c, int64_t row,
           int64_t row_end, char *terms)
{
    const ipu__matmul *p = &plan->product;
    const int64_t size = plan->bytes;
    for (int64_t i = row; i < row_end; i++) {
        const char *x = a + i * p->a_row * size;
        for (int64_t k = 0; p->a_col != 1 && k < p->k; k++) {
            memcpy(terms + k * size, x + k * p->a_col * size, (size_t)size);
        }
        x = p->a_col != 1 ? terms : x;
        for (int64_t j = 0; j < p->n; j++) {
            uint64_t sum = plan->by->dot(x, b + j * p->b_col * size, p->k);
            put(plan, c + (i * p->n + j) * size, sum);
        }
    }
}

static void
make_parts(void *job, int64_t begin, int64_t end, void *scratch)
{
    const ipu_kernel_call *call = job;
    const integer_plan *plan = call->spec->prepared;
    const ipu__matmul *p = &plan->product;
    const int64_t size = plan->bytes;
    for (int64_t i = begin; i < end; i++) {
        int64_t batch = i / plan->parts;
        int64_t part = i % plan->parts;
        const char *a =
            ipu__at(call->inputs[0], ipu__loop_offset(&p->batch, 0, batch) * size);
        const char *b =
            ipu__at(call->inputs[1], ipu__loop_offset(&p->batch, 1, batch) * size);
        if (plan->exchanged) {
            const char *left = a;
            a = b;
            b = left;
        }
        char *c = ipu__at_mutable(call->outputs[0], batch * p->m * p->n * size);
        int64_t row = ipu__share_of(p->m, plan->parts, part);
        int64_t row_end = ipu__share_of(p->m, plan->parts, part + 1);
        if (p->b_col == 1 && (p->n > 1 || p->b_row != 1)) {
            by_rows(plan, a, b, c, row, row_end);
        } else {
            by_columns(plan, a, b, c, row, row_end, scratch);
        }
    }
}

static size_t
scratch_bytes(const integer_plan *plan)
{
    return (size_t)(plan->product.k * plan->bytes);
}

static ipu_status
run(const ipu_kernel_call *call)
{
    const integer_plan *plan = call->spec->prepared;
    ipu_kernel_call copy = *call;
    ipu__share_out(call->pool, plan->product.batches * plan->parts, make_parts, &copy,
                   call->workspace, scratch_bytes(plan));
    return IPU_OK;
}

ipu_status
ipu__choose_integers(const ipu__preparation *p)
{
    ipu_kernel_spec *spec = p->spec;
    integer_plan *plan;
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    ipu__matmul_plan(spec, &plan->product);
    ipu__matmul *product = &plan->product;
    plan->exchanged = product->n == 1 && product->a_col != 1;
    if (plan->exchanged) {
        ipu__matmul before = *product;
        product->m = 1;
        product->n = before.m;
        product->a_row = before.b_col;
        product->a_col = before.b_row;
        product->b_row = before.a_col;
        product->b_col = before.a_row;
    }
    const integer_functions *by = integers_generic;
#if defined(__x86_64__)
    by = p->cpu == IPU_CPU_AVX512 ? integers_avx512
         : p->cpu == IPU_CPU_AVX2 ? integers_avx2
                                  : by;
#endif
    plan->bytes = (int64_t)ipu_dtype_bytes(spec->inputs[0].dtype);
    plan->by = &by[plan->bytes == 8 ? 3 : plan->bytes / 2];
    int64_t parts = product->m * product->n * product->k / OPS_PER_TASK;
    plan->parts = ipu__max(ipu__min(parts, product->m), 1);
    spec->workspace_bytes =
        ipu__share_bytes(product->batches * plan->parts, scratch_bytes(plan));
    spec->run = run;
    spec->kernel_name = "integers";
    return IPU_OK;
}
