/* SPDX-License-Identifier: MIT
 *
 * Kernels: plain buffers in, plain buffers out. A spec is prepared once, at compile
 * time; running it allocates nothing, and its result depends on the spec and the
 * inputs alone, never on the number of threads or the time of day.
 *
 * Where fast kernels serve all that an op takes there is no other. The others have a
 * reference kernel, slow and obvious, and may have fast ones, too: ipu_kernel_prepare
 * picks by shape and CPU class. Reference and fast kernels agree to
 * the bit for exact ops and integer ops; for the others to the tolerance that the test
 * harness states. Fused and unfused forms agree to the bit always. */
#ifndef IPU_KERNELS_KERNEL_H
#define IPU_KERNELS_KERNEL_H

#include "base/arena.h"
#include "base/attrs.h"
#include "base/float_behaviour.h"
#include "base/op.h"
#include "base/random.h"
#include "base/thread.h"

/* Slabs, ring slots and variables end with this much readable slack: BLIS 0.9's small
 * kernels may read a little past a matrix (flame/blis#635). */
enum { IPU_SLACK_BYTES = 4096, IPU_BUFFER_ALIGNMENT = 64 };

/* Products of float32 that are as large in all three directions may be another
 * library's, whose bits are its own. */
enum { IPU_LARGE_PRODUCT = 768 };

/* To the next multiple of IPU_BUFFER_ALIGNMENT. */
static inline size_t
ipu_buffer_round_up(size_t bytes)
{
    size_t mask = IPU_BUFFER_ALIGNMENT - 1;
    return (bytes + mask) & ~mask;
}

typedef enum ipu_kernel_variant {
    IPU_KERNEL_FAST,
    IPU_KERNEL_BLIS,     /* the fast ones, but products by BLIS: to be measured */
    IPU_KERNEL_PORTABLE, /* of the fast ones those that round alike on every class */
    IPU_KERNEL_REFERENCE
} ipu_kernel_variant;

typedef struct ipu_kernel_call ipu_kernel_call;
/* Fails for data that break the op's rule (a label outside the classes, an index out of
 * range), with outputs then undefined and variables untouched. */
typedef ipu_status ipu_kernel_fn(const ipu_kernel_call *call);

/* Makes rows [begin, end) of all results, with the bits that they have in a whole run,
 * however rows are shared out. Fails as `run` does. It uses no pool. */
typedef ipu_status ipu_kernel_rows_fn(const ipu_kernel_call *call, int64_t begin,
                                      int64_t end);

/* How parts of the results are made apart: by rows, which are equal shares of each
 * result's bytes, outermost dimension first, or panel after panel. */
typedef struct ipu_kernel_rows {
    ipu_kernel_rows_fn *run; /* NULL: the results are made at once */
    int64_t count;           /* of rows */
    uint64_t inputs; /* bit i: input i has as many rows, and a part reads its own */
    int64_t grain;   /* parts are best of so many rows, or a multiple, ... */
    int64_t least;   /* ... and not of fewer than that */
    size_t workspace_bytes; /* of one part */
} ipu_kernel_rows;

static inline bool
ipu_kernel_reads_rows(const ipu_kernel_rows *rows, uint32_t input)
{
    return input < 64 && (rows->inputs >> input & 1) != 0;
}

/* Where part `part` of `parts` begins: parts are whole grains except the last one. */
static inline int64_t
ipu_row_cut(int64_t rows, int64_t grain, int64_t part, int64_t parts)
{
    int64_t grains = (rows + grain - 1) / grain;
    return part == parts ? rows : grains * part / parts * grain;
}

/* A matrix [rows][n] of float32 in panels lies as [n / columns][rows][columns]; n is a
 * multiple of `columns`. So tiles read a factor (gemm_tiles_body.h). It takes the bytes
 * that it takes by rows, and what goes element by element need not know. */
typedef struct ipu_kernel_panels {
    int64_t columns; /* of a panel */
    bool right;      /* a product's right factor lies in them, */
    bool result;     /* its result, and what it is added to or updates */
} ipu_kernel_panels;

typedef struct ipu_kernel_spec {
    ipu_op op;
    ipu_attrs attrs;
    uint32_t input_count;
    uint32_t output_count; /* resource buffers first, see ops.def */
    const ipu_type *inputs;
    const ipu_type *outputs;
    ipu_kernel_panels panels; /* as ipu_kernel_panel_columns allows */
    /* filled by ipu_kernel_prepare: */
    ipu_kernel_fn *run;
    const char *kernel_name; /* "gemm_6x16", "blis_haswell", "reference", ... */
    size_t workspace_bytes;  /* for one call, shared by its threads; may be 0 */
    ipu_kernel_rows rows;
    const void *prepared; /* the kernel's own: strides, cut, functions, ... */
    bool can_fail;        /* ipu_op_can_fail, or what it makes is looked at */
    /* filled by who knows the program: it fails only where one in front of it has. */
    bool fails_later;
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

/* The most floating-point operations that a core was seen to do, in 10^9 a second, a
 * multiply-add counted as two; measured for a few times time_ns. */
double ipu_peak_gflops(ipu_cpu_class cpu, uint64_t time_ns);

/* Works out all that follows from types, attributes and CPU class, so that a run does
 * not. The spec keeps it in `arena`, which lives as long as the spec is used. Fails
 * with UNIMPLEMENTED where the op has no kernel for these dtypes. */
ipu_status ipu_kernel_prepare(ipu_ctx *ctx, ipu_arena *arena, ipu_kernel_spec *spec,
                              ipu_kernel_variant variant, ipu_cpu_class cpu);

/* Has a prepared spec do what `behaviour` says of results that are not numbers of their
 * dtype (guard.c). A spec that needs none of that is left as it is. */
ipu_status ipu_kernel_guard(ipu_ctx *ctx, ipu_arena *arena, ipu_kernel_spec *spec,
                            const ipu_float_behaviour *behaviour);

/* Columns of the panels that a product's right factor and its result may lie in where
 * they have two axes; 0: in none. fused_matmul's result never does. */
int64_t ipu_kernel_panel_columns(const ipu_kernel_spec *spec,
                                 ipu_kernel_variant variant, ipu_cpu_class cpu);
/* panel_copy.c */
void ipu_panels_pack(float *panels, const float *rows, int64_t row_count,
                     int64_t columns, int64_t panel_columns);
void ipu_panels_unpack(float *rows, const float *panels, int64_t row_count,
                       int64_t columns, int64_t panel_columns);

#endif
