/* SPDX-License-Identifier: MIT
 *
 * The block functions of one class of processor, as blocks.c looks them up. */
#ifndef IPU_KERNELS_BLOCKS_IMPL_H
#define IPU_KERNELS_BLOCKS_IMPL_H

#include "kernels/core/kernel_impl.h"
#include "kernels/math/formulas.h"

typedef struct ipu__block_row {
    ipu_op op;
    ipu_dtype in;
    ipu_dtype out;
    ipu__block_fn *run;
} ipu__block_row;

typedef struct ipu__column_row {
    ipu_op op;
    ipu_dtype dtype;
    ipu__column_fn *run;
} ipu__column_row;

/* One instantiation of block_loops.h. */
typedef struct ipu__block_form {
    const ipu__block_row *rows;
    size_t count;
    const ipu__column_row *column_rows;
    size_t column_count;
    ipu__block_fn *select[4];   /* of elements of 1, 2, 4 and 8 bytes */
    ipu__block_fn *through_f32; /* float16, by the float32 function block->inner */
    ipu__block_fn *cast_by_f32; /* to float16, by block->inner, a cast to float32 */
    ipu__block_fn *to_odd;      /* float64 to float32 for cast_by_f32 */
    void (*halves_to_floats)(float *out, const uint16_t *x, int64_t n);
    void (*floats_to_halves)(uint16_t *out, const float *x, int64_t n);
    ipu__vector_f32 vector;
} ipu__block_form;

extern const ipu__block_form ipu__blocks_generic;
#if defined(__x86_64__)
extern const ipu__block_form ipu__blocks_avx2;
extern const ipu__block_form ipu__blocks_avx512;
#endif

#define SIGNATURE(name) \
    BLOCK_TARGET static ipu__fault name(const ipu__block *block, void *out, \
                                        const void *a, const void *b, const void *c, \
                                        int64_t n)
#define UNUSED() \
    (void)block; \
    (void)b; \
    (void)c

/* `expression` uses x, y, z, one element of each operand; `fetch` declares y and z
 * where the op has them. */
#define LOOP(name, out_type, a_type, fetch, expression) \
    SIGNATURE(name) \
    { \
        out_type *result = out; \
        const a_type *xs = a; \
        UNUSED(); \
        IPU_INDEPENDENT \
        for (int64_t i = 0; i < n; i++) { \
            a_type x = xs[i]; \
            fetch result[i] = (out_type)(expression); \
        } \
        return IPU_FAULT_NONE; \
    }
#define FETCH_Y(type) type y = ((const type *)b)[i];
#define FETCH_YZ(type) FETCH_Y(type) type z = ((const type *)c)[i];
#define UNARY(name, out_type, in_type, expression) \
    LOOP(name, out_type, in_type, , expression)
#define BINARY(name, out_type, in_type, expression) \
    LOOP(name, out_type, in_type, FETCH_Y(in_type), expression)

/* The same over rows, of which each has one y. */
#define COLUMN_LOOP(name, type, expression) \
    BLOCK_TARGET static void name(void *out, const void *a, const void *column, \
                                  int64_t rows, int64_t n) \
    { \
        type *result = out; \
        const type *xs = a; \
        for (int64_t r = 0; r < rows; r++, xs += n, result += n) { \
            const type y = ((const type *)column)[r]; \
            IPU_INDEPENDENT \
            for (int64_t i = 0; i < n; i++) { \
                type x = xs[i]; \
                result[i] = (type)(expression); \
            } \
        } \
    }
#define COLUMN_LOOP_OF(op, operands, result, suffix, expression) \
    COLUMN_LOOP(column_##op##_##suffix, TYPE_##suffix, expression)
#define COLUMN_ROW_OF(op, operands, result, suffix, expression) \
    {IPU_OP_ID_##op, DTYPE_##suffix, column_##op##_##suffix},
#define SIGNED_COLUMN_ROW_OF(op, operands, result, suffix, expression) \
    {IPU_OP_ID_##op, SIGNED_DTYPE_##suffix, column_##op##_##suffix},

/* A loop, and its row of a table, from a line of formulas.h. */
#define FETCH_ONE(type)
#define FETCH_TWO FETCH_Y
#define LOOP_OF(op, operands, result, suffix, expression) \
    LOOP(op##_##suffix, RESULT_##result(TYPE_##suffix), TYPE_##suffix, \
         FETCH_##operands(TYPE_##suffix), expression)
#define ROW_AS(op, result, dtype, name) \
    {IPU_OP_ID_##op, dtype, DTYPE_##result(dtype), name},
#define ROW_OF(op, operands, result, suffix, expression) \
    ROW_AS(op, result, DTYPE_##suffix, op##_##suffix)
#define RESULT_SAME(type) type
#define RESULT_TEST(type) uint8_t
#define DTYPE_SAME(dtype) dtype
#define DTYPE_TEST(dtype) IPU_DTYPE_BOOL
#define DTYPE_f16 IPU_DTYPE_FLOAT16
#define DTYPE_f32 IPU_DTYPE_FLOAT32
#define DTYPE_f64 IPU_DTYPE_FLOAT64
#define DTYPE_i8 IPU_DTYPE_INT8
#define DTYPE_i16 IPU_DTYPE_INT16
#define DTYPE_i32 IPU_DTYPE_INT32
#define DTYPE_i64 IPU_DTYPE_INT64
#define DTYPE_u8 IPU_DTYPE_UINT8
#define DTYPE_u16 IPU_DTYPE_UINT16
#define DTYPE_u32 IPU_DTYPE_UINT32
#define DTYPE_u64 IPU_DTYPE_UINT64
#define SIGNED_DTYPE_u8 IPU_DTYPE_INT8
#define SIGNED_DTYPE_u16 IPU_DTYPE_INT16
#define SIGNED_DTYPE_u32 IPU_DTYPE_INT32
#define SIGNED_DTYPE_u64 IPU_DTYPE_INT64

#endif
