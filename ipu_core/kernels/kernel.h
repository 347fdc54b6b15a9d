/* SPDX-License-Identifier: MIT
 *
 * Kernels: plain buffers in, plain buffers out. A spec is prepared once, at compile
 * time; running it allocates nothing, and its result depends on the spec and the
 * inputs alone, never on the number of threads or the time of day.
 *
 * Each op has a reference kernel (slow, obvious, the oracle) and may have fast ones;
 * ipu_kernel_prepare picks by shape and CPU class. Reference and fast kernels agree to
 * the bit for exact ops and integer ops; for the others to the tolerance that the test
 * harness states. Fused and unfused forms agree to the bit always. */
#ifndef IPU_KERNELS_KERNEL_H
#define IPU_KERNELS_KERNEL_H

#include "base/attrs.h"
#include "base/random.h"
#include "base/thread.h"

typedef enum ipu_op {
#define IPU_OP(name, text, min_in, max_in, outputs, flags) IPU_OP_ID_##name,
#include "ops.def"
#undef IPU_OP
    IPU_OP_ID_COUNT
} ipu_op;

enum ipu_op_flag {
    IPU_OP_KERNEL = 1 << 0,
    IPU_OP_GRADIENT = 1 << 1,
    IPU_OP_ELEMENTWISE = 1 << 2,
    IPU_OP_COMMUTES = 1 << 3,
    IPU_OP_RANDOM = 1 << 4,
    IPU_OP_READS = 1 << 5,
    IPU_OP_WRITES = 1 << 6,
    IPU_OP_BLOCK = 1 << 7,
    IPU_OP_VIEW = 1 << 8,
    IPU_OP_IN_PLACE = 1 << 9,
    IPU_OP_OPAQUE = 1 << 10
};

typedef struct ipu_op_info {
    const char *name;
    int32_t min_inputs;
    int32_t max_inputs; /* -1: any number */
    int32_t outputs;    /* -1: given by the resource or the block */
    uint32_t flags;
} ipu_op_info;

const ipu_op_info *ipu_op_info_of(ipu_op op);
bool ipu_op_parse(const char *text, size_t length, ipu_op *out);

/* Activation in the write-back of fused_matmul. Values are part of the text form. */
typedef enum ipu_activation {
    IPU_ACTIVATION_NONE = 0,
    IPU_ACTIVATION_RELU = 1,
    IPU_ACTIVATION_TANH = 2,
    IPU_ACTIVATION_SIGMOID = 3
} ipu_activation;

/* How tensor_scatter joins. Values are part of the text form. */
typedef enum ipu_scatter {
    IPU_SCATTER_UPDATE = 0,
    IPU_SCATTER_ADD = 1,
    IPU_SCATTER_MUL = 2,
    IPU_SCATTER_MIN = 3,
    IPU_SCATTER_MAX = 4,
    IPU_SCATTER_COUNT
} ipu_scatter;

/* Slabs, ring slots and variables end with this much readable slack: BLIS 0.9's small
 * kernels may read a little past a matrix (flame/blis#635). */
enum { IPU_SLACK_BYTES = 4096, IPU_BUFFER_ALIGNMENT = 64 };

/* To the next multiple of IPU_BUFFER_ALIGNMENT. */
static inline size_t
ipu_buffer_round_up(size_t bytes)
{
    size_t mask = IPU_BUFFER_ALIGNMENT - 1;
    return (bytes + mask) & ~mask;
}

typedef enum ipu_kernel_variant {
    IPU_KERNEL_FAST,
    IPU_KERNEL_REFERENCE
} ipu_kernel_variant;

typedef struct ipu_kernel_call ipu_kernel_call;
/* Fails for data that break the op's rule (a label outside the classes, an index out of
 * range), with outputs then undefined and variables untouched. */
typedef ipu_status ipu_kernel_fn(const ipu_kernel_call *call);

typedef struct ipu_kernel_spec {
    ipu_op op;
    ipu_attrs attrs;
    uint32_t input_count;
    uint32_t output_count; /* resource buffers first, see ops.def */
    const ipu_type *inputs;
    const ipu_type *outputs;
    /* filled by ipu_kernel_prepare: */
    ipu_kernel_fn *run;
    const char *kernel_name; /* "gemm_6x16", "blis_haswell", "reference", ... */
    size_t workspace_bytes;  /* for one call, shared by its threads; may be 0 */
    int64_t choice[4];       /* the kernel's own: cut, block sizes, table row */
} ipu_kernel_spec;

struct ipu_kernel_call {
    const ipu_kernel_spec *spec;
    const void *const *inputs;
    void *const *outputs;
    void *workspace;       /* IPU_BUFFER_ALIGNMENT-aligned */
    ipu_pool *pool;        /* NULL: the calling thread alone */
    ipu_random_key random; /* seed, step, replica; the kernel adds the op's own */
    ipu_ctx *ctx;          /* for the error record; no allocation */
};

/* Instruction sets as kernels are chosen by; a higher class implies the lower ones.
 * IPU_CPU_CLASS in the environment overrides what the CPU reports. */
typedef enum ipu_cpu_class {
    IPU_CPU_GENERIC,
    IPU_CPU_AVX2,  /* AVX2 and FMA and F16C */
    IPU_CPU_AVX512 /* F, BW, DQ, VL */
} ipu_cpu_class;

ipu_cpu_class ipu_cpu_class_detect(void);
const char *ipu_cpu_class_name(ipu_cpu_class cpu);

/* Fails with UNIMPLEMENTED where the op has no kernel for these dtypes. */
ipu_status ipu_kernel_prepare(ipu_ctx *ctx, ipu_kernel_spec *spec,
                              ipu_kernel_variant variant, ipu_cpu_class cpu);

/* --- the micro-program of fused_elementwise (attribute `code`) -------------------
 * Instructions of IPU_FUSED_WORDS integers each: { op, dtype, a, b, c }: `op` is an
 * ELEMENTWISE ipu_op, dtype that of its result, a/b/c operands or -1. An operand below
 * input_count is that input, broadcast to the result's shape; operand input_count + i
 * is the result of instruction i. The last instruction's result is the output. */
enum {
    IPU_FUSED_WORDS = 5,
    IPU_FUSED_MAX_INSTRUCTIONS = 32,
    IPU_FUSED_MAX_INPUTS = 16
};

#endif
