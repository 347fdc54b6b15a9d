/* SPDX-License-Identifier: MIT
 *
 * The common part of this room: the type of the `choose` column, loops over
 * broadcast operands, one scalar of any dtype, block functions, vector targets. Nothing
 * outside kernels/ includes it. */
#ifndef IPU_KERNELS_KERNEL_IMPL_H
#define IPU_KERNELS_KERNEL_IMPL_H

#include <string.h>

#include "kernels/core/kernel.h"

typedef struct ipu__preparation {
    ipu_ctx *ctx;
    ipu_arena *arena;
    ipu_kernel_spec *spec;
    ipu_cpu_class cpu;
    ipu_kernel_variant variant;
} ipu__preparation;

/* The `choose` column: sets run, kernel_name, workspace_bytes and prepared where a fast
 * kernel serves the spec, and leaves run NULL where the reference kernel has to. */
typedef ipu_status ipu_choose_fn(const ipu__preparation *p);
/* Of float16, where an op has no fast kernel of its own: that of float32 (widened.c). */
ipu_choose_fn ipu__choose_widened;

/* Zeroed memory that becomes the spec's `prepared`. */
static inline ipu_status
ipu__prepared(const ipu__preparation *p, size_t bytes, void *out_pointer)
{
    IPU_TRY(ipu_arena_alloc(p->ctx, p->arena, bytes, out_pointer));
    memcpy(&p->spec->prepared, out_pointer, sizeof(void *));
    return IPU_OK;
}

#define IPU_OP(name, text, min_in, max_in, outputs, dtypes, shape, cost, flags) \
    ipu_kernel_fn ipu_reference_##text; \
    ipu_choose_fn ipu_choose_##text;
#include "ops.def"
#undef IPU_OP
/* Of all element-wise ops but the fused one (reference_elementwise.c, elementwise.c). */
ipu_kernel_fn ipu__reference_elementwise;
ipu_choose_fn ipu__choose_elementwise;

/* Both forms of a function run the same C statements in the same order and without
 * contraction, so they agree to the bit; only the width of the registers differs. */
#if defined(__x86_64__)
#define IPU_TARGET_AVX2 __attribute__((target("avx2,fma,f16c")))
#if defined(__clang__)
#define IPU_TARGET_AVX512 \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")))
#else /* gcc takes half of a register by itself */
#define IPU_TARGET_AVX512 \
    __attribute__((target( \
        "avx512f,avx512bw,avx512dq,avx512vl,fma,f16c,prefer-vector-width=512")))
#endif
#else
#define IPU_TARGET_AVX2
#define IPU_TARGET_AVX512
#endif
/* Rows that are whole pages apart share places in the caches. */
enum { IPU_PAGE_BYTES = 4096 };

/* Where a thing has a form for each class: name_avx512, name_avx2, or `base` for the base
 * instruction set. */
#if defined(__x86_64__)
#define IPU_FOR_CLASS(cpu, name, base) \
    ((cpu) == IPU_CPU_AVX512 ? &name##_avx512 \
     : (cpu) == IPU_CPU_AVX2 ? &name##_avx2 \
                             : &base)
#else
#define IPU_FOR_CLASS(cpu, name, base) ((void)(cpu), &base)
#endif

#define IPU_INLINE static inline __attribute__((always_inline))

/* In front of a loop whose iterations do not depend on each other, though its pointers
 * may be equal (in place). */
#if defined(__clang__)
#define IPU_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define IPU_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Defines a function whose loop makes element j of n, for all of them. */
#define IPU_LOOP(target, name, parameters, ...) \
    target static void name parameters \
    { \
        IPU_INDEPENDENT \
        for (int64_t j = 0; j < n; j++) { \
            __VA_ARGS__ \
        } \
    }

/* DO(type) with the unsigned integer of so many bytes: of elements that are moved. */
#define IPU_BY_WIDTH(bytes, DO) \
    switch (bytes) { \
    case 1: \
        DO(uint8_t) \
        break; \
    case 2: \
        DO(uint16_t) \
        break; \
    case 4: \
        DO(uint32_t) \
        break; \
    default: \
        DO(uint64_t) \
        break; \
    }

static inline int64_t
ipu__min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t
ipu__max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The larger one of two floats; NaN if one is. */
#define IPU_LARGER(a, b) ((a) > (b) ? (a) : ((a) == (a) ? (b) : (a)))

static inline int64_t
ipu__ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Where part `part` of `parts` even ones begins. */
static inline int64_t
ipu__share_of(int64_t size, int64_t parts, int64_t part)
{
    return size * part / parts;
}

/* An axis attribute counted from the front; -1 is the last of `rank` axes. */
static inline int32_t
ipu__axis(int64_t axis, int32_t rank)
{
    return (int32_t)(axis < 0 ? axis + rank : axis);
}

static inline const char *
ipu__at(const void *base, int64_t bytes)
{
    return (const char *)base + bytes;
}

static inline char *
ipu__at_mutable(void *base, int64_t bytes)
{
    return (char *)base + bytes;
}

/* Floats, rounded up so that what follows is aligned. */
static inline int64_t
ipu__whole_lines(int64_t floats)
{
    return ipu__ceil_div(floats, 16) * 16;
}

/* --- work in parts (share.c) -------------------------------------------------------- */

/* Items [begin, end) of a job. */
typedef void ipu__items_fn(void *job, int64_t begin, int64_t end);
/* All items, `per_task` at a time, by the threads of the pool. */
void ipu__run_items(ipu_pool *pool, int64_t count, int64_t per_task, ipu__items_fn *run,
                    void *job);

/* Parts [begin, end) of a job. */
typedef void ipu__parts_fn(void *job, int64_t begin, int64_t end, void *scratch);
/* All parts, neighbours together, by the threads of the pool. A call has `scratch_bytes`
 * of the workspace for itself. */
void ipu__share_out(ipu_pool *pool, int64_t parts, ipu__parts_fn *run, void *job,
                    void *workspace, size_t scratch_bytes);
/* Bytes of that workspace. */
size_t ipu__share_bytes(int64_t parts, size_t scratch_bytes);
/* As many parts as take no large workspace. */
int64_t ipu__share_most(size_t scratch_bytes);
enum { IPU__MOST_TASKS = 64 }; /* what ipu_slots can number */

/* --- loops (loop.c) ------------------------------------------------------------- */

enum { IPU_LOOP_OPERANDS = IPU_FUSED_MAX_INPUTS };

/* Nested loops over `dims`, outermost first, with the strides of each operand in
 * elements. rank is at least 1; neighbouring loops are joined where all operands allow
 * it. */
typedef struct ipu__loop {
    int32_t rank;
    int32_t operands;
    int64_t elements;
    int64_t dims[IPU_MAX_RANK];
    int64_t strides[IPU_LOOP_OPERANDS][IPU_MAX_RANK];
} ipu__loop;

/* Drops loops of one iteration and joins neighbours. */
void ipu__loop_collapse(ipu__loop *loop);
/* Inputs broadcast to the result's shape. */
void ipu__loop_broadcast(ipu__loop *loop, const ipu_shape *result,
                         const ipu_type *inputs, int32_t operands);
/* Offset of operand `operand` at flat position `position` of the loop. */
int64_t ipu__loop_offset(const ipu__loop *loop, int32_t operand, int64_t position);

/* --- a scalar of any dtype (scalar.c) ------------------------------------------- */

/* Floats are carried as double, integers and bool by their two's complement bits. */
typedef union ipu__scalar {
    double f;
    int64_t i;
    uint64_t u;
} ipu__scalar;

typedef enum ipu__fault {
    IPU_FAULT_NONE,
    IPU_FAULT_DIVISION_BY_ZERO,
    IPU_FAULT_NEGATIVE_EXPONENT
} ipu__fault;

ipu__scalar ipu__scalar_load(ipu_dtype dtype, const void *base, int64_t index);
/* Rounds (floats) or wraps (integers) to the dtype. */
void ipu__scalar_store(ipu_dtype dtype, void *base, int64_t index, ipu__scalar value);
ipu__scalar ipu__scalar_round(ipu_dtype dtype, ipu__scalar value);
/* Floats to integers truncate and saturate, NaN gives 0; integers wrap; bool is
 * != 0. */
ipu__scalar ipu__scalar_cast(ipu_dtype from, ipu_dtype to, ipu__scalar value);
ipu__scalar ipu__scalar_from_double(ipu_dtype dtype, double value);
/* The least value of the dtype, or the greatest; of floats the infinities. */
ipu__scalar ipu__scalar_end(ipu_dtype dtype, bool greatest);
double ipu__scalar_to_double(ipu_dtype dtype, ipu__scalar value);
/* One element of an ELEMENTWISE op other than fused. `in` is the dtype of the operand
 * that decides: input 0, for select input 1. The result is rounded to `out`. */
ipu__fault ipu__scalar_apply(ipu_op op, ipu_dtype in, ipu_dtype out,
                             const ipu__scalar operands[3], ipu__scalar *result);
ipu_status ipu__fault_report(const ipu_kernel_call *call, ipu__fault fault);

/* special.c */
double ipu__lgamma(double x); /* the C library's */
double ipu__lgamma_f64(double x);
double ipu__digamma_f64(double x);
/* special_gamma.c: functions of (a, x), (s, q), (n, x) */
/* The lower incomplete gamma function, the upper one, the derivative of the lower one by
 * a; `far`: of a limit, or of large a and x near it. */
typedef enum ipu__gamma_function {
    IPU_GAMMA_LOWER,
    IPU_GAMMA_UPPER,
    IPU_GAMMA_SLOPE
} ipu__gamma_function;

double ipu__incomplete(double a, double x, ipu__gamma_function function);
double ipu__incomplete_far(double a, double x, ipu__gamma_function function);
double ipu__zeta(double s, double q);
double ipu__polygamma(double n, double x);
double ipu__bessel_i0e(double x);
double ipu__bessel_i1e(double x);

/* Element `index` of an integer tensor as int64 (uint64 above that range saturates). */
int64_t ipu__integer_load(ipu_dtype dtype, const void *base, int64_t index);
/* A scalar operand such as a learning rate. */
double ipu__double_load(ipu_dtype dtype, const void *base);

/* --- blocks of elements (blocks.c) ---------------------------------------------- */

enum { IPU_BLOCK_BYTES = 4096 };

typedef struct ipu__block ipu__block;
/* n elements, contiguous operands; out may be equal to an operand. At most
 * IPU_BLOCK_BYTES / 4 elements where `out` or an operand is float16. */
typedef ipu__fault ipu__block_fn(const ipu__block *block, void *out, const void *a,
                                 const void *b, const void *c, int64_t n);
/* The same of `rows` rows of n elements, where b has one number for each. */
typedef void ipu__column_fn(void *out, const void *a, const void *b, int64_t rows,
                            int64_t n);
struct ipu__block {
    ipu__block_fn *run;
    ipu__column_fn *column; /* NULL: b has to be written out */
    ipu__block_fn *inner; /* of float16: the float32 function */
    ipu_op op;
    ipu_dtype in;
    ipu_dtype out;
    uint8_t operands;
};
/* AVX-512 on units of 512 bits; on narrower ones it is not faster than AVX2 (cpu.c). */
bool ipu__has_wide_avx512(void);

void ipu__block_prepare(ipu__block *block, ipu_op op, ipu_dtype in, ipu_dtype out,
                        ipu_cpu_class cpu);

/* float32 building blocks, chosen once per call. */
typedef void ipu__map_f32_fn(float *out, const float *x, int64_t n);
typedef void ipu__add_f32_fn(float *out, const float *a, const float *b, int64_t n);
typedef struct ipu__vector_f32 {
    ipu__map_f32_fn *exp;
    ipu__map_f32_fn *relu;
    ipu__map_f32_fn *tanh;
    ipu__map_f32_fn *sigmoid;
    ipu__add_f32_fn *add;
} ipu__vector_f32;
const ipu__vector_f32 *ipu__vector_f32_of(ipu_cpu_class cpu);

void ipu__halves_to_floats(float *out, const uint16_t *x, int64_t n, ipu_cpu_class cpu);
void ipu__floats_to_halves(uint16_t *out, const float *x, int64_t n, ipu_cpu_class cpu);
/* The same of many, by the threads of the pool (widened.c). */
void ipu__widen(ipu_pool *pool, float *out, const uint16_t *x, int64_t n,
                ipu_cpu_class cpu);
void ipu__narrow(ipu_pool *pool, uint16_t *out, const float *x, int64_t n,
                 ipu_cpu_class cpu);

/* --- reductions (reduce_fast.c) ------------------------------------------------------
 */

/* As the sum op sums one row up. Of `readable` elements, at least n, those beyond change
 * nothing; here and below. */
float ipu__sum_row(const float *x, int64_t n, int64_t readable, ipu_cpu_class cpu);
/* NaN where a NaN is among them; -infinity for n = 0. */
float ipu__max_row(const float *x, int64_t n, int64_t readable, ipu_cpu_class cpu);

/* softmax of each of `rows` rows of n numbers, `step` floats apart, in place
 * (softmax_fast.c). */
void ipu__softmax_rows(float *x, int64_t step, int64_t rows, int64_t n,
                       ipu_cpu_class cpu);

/* --- sorting (sort_fast.c) --------------------------------------------------------- */

/* Something that has a number: a place in a list, and what that place holds. */
typedef struct ipu__numbered {
    uint32_t key;
    uint32_t place;
} ipu__numbered;

/* Sorts n of them by their keys; equal ones stay as they stood. `other` has as much
 * room; gives the one of the two that holds the result. */
ipu__numbered *ipu__sort_numbered(ipu__numbered *x, ipu__numbered *other, int64_t n);

/* --- random (reference_random.c) -----------------------------------------------------
 */

/* The source of an op's numbers, as far as the op says it. */
typedef struct ipu__random_source {
    int32_t key_input; /* holds seed and step; -1: the call holds them */
    uint32_t op;       /* seed attribute and ordinal, mixed */
    bool same_on_replicas;
} ipu__random_source;
ipu__random_source ipu__random_source_of(const ipu_kernel_spec *spec);
ipu_random_key ipu__random_key(const ipu_kernel_call *call,
                               const ipu__random_source *source);
/* The range of random_integer: [least, least + span), as two's complement bits. Fails
 * where there is nothing in it. */
ipu_status ipu__random_range(const ipu_kernel_call *call, uint64_t *least,
                             uint64_t *span);
/* 24 bits: exact in float32, in [0, 1). */
static inline float
ipu__uniform_f32(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

/* --- labels and indices (reference_loss.c, indices.c) ------------------------------- */

/* Labels [begin, end), unless OUTSIDE_IS_NAN. */
ipu_status ipu__check_labels(const ipu_kernel_call *call, ipu_dtype dtype,
                             const void *labels, int64_t begin, int64_t end,
                             int64_t classes);
ipu_status ipu__check_indices(const ipu_kernel_call *call, ipu_dtype dtype,
                              const void *indices, int64_t count, int64_t size);

/* The same of all indices of a fused_update. */
ipu_status ipu__update_check_rows(const ipu_kernel_call *call);

/* params seen as [batch, outer, size, inner] around the axis, indices as [batch, count].
 */
typedef struct ipu__gather {
    ipu_dtype dtype; /* of the indices */
    int64_t batch;
    int64_t outer;
    int64_t size;
    int64_t count;
    int64_t inner;
} ipu__gather;
void ipu__gather_plan(ipu__gather *plan, ipu_attrs attrs, const ipu_shape *params,
                      const ipu_type *indices);

/* indices [..., k]: `count` points of the first k axes, each the start of a slice. */
typedef struct ipu__points {
    ipu_dtype dtype;
    int64_t count;
    int32_t depth; /* axes that a point names */
    int64_t dims[IPU_MAX_RANK];
    int64_t inner; /* elements of a slice */
} ipu__points;

/* `type`: of the indices. */
void ipu__points_plan(ipu__points *p, const ipu_shape *whole, const ipu_type *type);
ipu_status ipu__points_check(const ipu_kernel_call *call, const ipu__points *p,
                             const void *indices);

/* --- workspace of reference kernels ------------------------------------------------ */

/* linear.c */
size_t ipu__linear_workspace(const ipu_kernel_spec *spec);
/* reference_attention.c */
size_t ipu__attention_reference_bytes(const ipu_kernel_spec *spec);
/* reference_recurrent.c */
size_t ipu__sequence_reference_bytes(const ipu_kernel_spec *spec);

/* --- SGD (reference_update.c, update_fast.c) --------------------------------------- */

typedef struct ipu__sgd {
    float *variable;
    float *velocity; /* NULL without momentum */
    float rate;
    float momentum;
    bool nesterov;
} ipu__sgd;
/* The part of it that the attributes say. */
typedef struct ipu__sgd_rule {
    float momentum;
    bool nesterov;
} ipu__sgd_rule;
ipu__sgd_rule ipu__sgd_rule_of(const ipu_kernel_spec *spec);
/* `rate_input`: which input is the learning rate. */
ipu__sgd ipu__sgd_of(const ipu_kernel_call *call, const ipu__sgd_rule *rule,
                     uint32_t rate_input);
/* All elements, by the threads of the pool. */
void ipu__sgd_run(ipu_pool *pool, const ipu__sgd *sgd, const float *gradient,
                  int64_t elements, ipu_cpu_class cpu);
/* Elements [at, at + n), whose gradients are g[0..n). */
void ipu__sgd_apply(const ipu__sgd *sgd, int64_t at, const float *g, int64_t n,
                    ipu_cpu_class cpu);
/* One element of any dtype. */
void ipu__reference_sgd(const ipu_kernel_call *call, uint32_t rate_input, int64_t at,
                        double gradient);

/* --- matrix products (reference_matmul.c, gemm.c) ------------------------------------
 */

/* One product C[m,n] = A[m,k] B[k,n] per batch index. Strides in elements. */
typedef struct ipu__matmul {
    int64_t m;
    int64_t n;
    int64_t k;
    int64_t a_row;
    int64_t a_col;
    int64_t b_row;
    int64_t b_col;
    int64_t batches;
    ipu__loop batch; /* operand 0: A, operand 1: B, in elements */
    ipu_activation activation;
    bool bias;
} ipu__matmul;
void ipu__matmul_plan(const ipu_kernel_spec *spec, ipu__matmul *plan);
/* The last step of a product or a convolution, as an op of its own. */
static inline ipu_op
ipu__activation_op(ipu_activation activation)
{
    return activation == IPU_ACTIVATION_TANH      ? IPU_OP_ID_TANH
           : activation == IPU_ACTIVATION_SIGMOID ? IPU_OP_ID_SIGMOID
                                                  : IPU_OP_ID_RELU;
}
/* One element. */
void ipu__reference_activate(ipu_activation activation, ipu_dtype dtype,
                             ipu__scalar *value);
/* The input that is A; B is the next one. */
static inline uint32_t
ipu__matmul_left(const ipu_kernel_spec *spec)
{
    return spec->op == IPU_OP_ID_MATMUL_ACCUMULATE ? 1 : 0;
}

#endif
