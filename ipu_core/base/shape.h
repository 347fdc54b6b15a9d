/* SPDX-License-Identifier: MIT
 *
 * Shapes and tensor descriptions. All shapes are static and row-major dense. */
#ifndef IPU_BASE_SHAPE_H
#define IPU_BASE_SHAPE_H

#include "base/ctx.h"
#include "base/dtype.h"

enum { IPU_MAX_RANK = 8 };

typedef struct ipu_shape {
    int32_t rank;
    int64_t dims[IPU_MAX_RANK]; /* entries past rank are 0 */
} ipu_shape;

/* What a kernel, a value or a buffer looks like. */
typedef struct ipu_type {
    ipu_dtype dtype;
    ipu_shape shape;
} ipu_type;

ipu_shape ipu_shape_make(int32_t rank, const int64_t *dims);
ipu_shape ipu_shape_scalar(void);
bool ipu_shape_equal(const ipu_shape *a, const ipu_shape *b);
/* Whether `part` broadcasts to `whole` along its last axis alone, of the same size. */
bool ipu_shape_is_last_axis(const ipu_shape *part, const ipu_shape *whole);
bool ipu_type_equal(const ipu_type *a, const ipu_type *b);
int64_t ipu_shape_elements(const ipu_shape *shape);
/* The product of axes [begin, end). */
int64_t ipu_shape_span(const ipu_shape *shape, int32_t begin, int32_t end);
size_t ipu_type_bytes(const ipu_type *type);
/* Fails where the byte count would overflow or a dimension is negative. */
ipu_status ipu_type_check(ipu_ctx *ctx, const ipu_type *type);
/* Row-major strides in elements; stride of a dimension of size 1 is 0 when
 * `broadcast` is set. */
void ipu_shape_strides(const ipu_shape *shape, bool broadcast,
                       int64_t strides[IPU_MAX_RANK]);
/* NumPy broadcasting of two shapes; false where they do not fit. */
bool ipu_shape_broadcast(const ipu_shape *a, const ipu_shape *b, ipu_shape *out);
/* "(32, 784)"; "(5,)"; "()". Writes at most `size` bytes, returns `text`. */
const char *ipu_shape_print(const ipu_shape *shape, char *text, size_t size);
/* "float32[32,784]" as the text form of graphs has it; "float32[]" for a scalar. */
const char *ipu_type_print(const ipu_type *type, char *text, size_t size);
/* The same as an operand of a message. */
#define IPU_SHAPE_TEXT(shape) ipu_shape_print((shape), (char[128]){0}, 128)
#define IPU_TYPE_TEXT(type) ipu_type_print((type), (char[128]){0}, 128)

#endif
