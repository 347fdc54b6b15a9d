/* SPDX-License-Identifier: MIT
 *
 * base/: conversions, shapes, arrays, arenas. */
#define _GNU_SOURCE
#include "base/arena.h"
#include "base/array.h"
#include "base/dtype.h"
#include "base/op.h"
#include "base/random.h"
#include "base/shape.h"
#include "base/text.h"
#include "check.h"
#include "shared.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void
test_float16(void)
{
    /* there and back is the identity for every number; NaN stays NaN */
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float value = ipu_float16_to_float((uint16_t)bits);
        uint16_t back = ipu_float16_from_float(value);
        CHECK(isnan(value) ? (back & 0x7C00U) == 0x7C00U && (back & 0x3FFU) != 0
                           : back == bits);
    }
    CHECK(ipu_float16_from_float(65504.0F) == 0x7BFF);
    CHECK(ipu_float16_from_float(65519.0F) == 0x7BFF);
    CHECK(ipu_float16_from_float(65520.0F) == 0x7C00); /* ties go to even: infinity */
    CHECK(ipu_float16_from_float(5.9604645e-8F) == 1);
    CHECK(ipu_float16_from_float(2.9802322e-8F) == 0); /* a tie, to even */
    CHECK(ipu_float16_from_float(1.0F + 0x1p-11F) == 0x3C00);
    CHECK(ipu_float16_from_float(1.0F + 0x1.8p-10F) == 0x3C02);
}

static void
test_shapes(void)
{
    int64_t a_dims[] = {5, 1, 3};
    int64_t b_dims[] = {4, 3};
    ipu_shape a = ipu_shape_make(3, a_dims);
    ipu_shape b = ipu_shape_make(2, b_dims);
    ipu_shape out;
    char text[64];
    CHECK(ipu_shape_broadcast(&a, &b, &out));
    CHECK(strcmp(ipu_shape_print(&out, text, sizeof(text)), "(5, 4, 3)") == 0);
    b.dims[1] = 2;
    CHECK(!ipu_shape_broadcast(&a, &b, &out));
    ipu_shape scalar = ipu_shape_scalar();
    CHECK(ipu_shape_elements(&scalar) == 1);
    CHECK(strcmp(ipu_shape_print(&scalar, text, sizeof(text)), "()") == 0);
    ipu_ctx ctx = fresh();
    int64_t huge[] = {1LL << 40, 1LL << 40};
    ipu_type type = {IPU_DTYPE_FLOAT32, ipu_shape_make(2, huge)};
    CHECK(ipu_type_check(&ctx, &type) == IPU_STATUS_OUT_OF_MEMORY);
    CHECK(strlen(ipu_type_print(&type, text, 8)) < 8);
}

static void
test_memory(void)
{
    ipu_ctx ctx = fresh();
    IPU_ARRAY(int) numbers = {0};
    for (int i = 0; i < 1000; i++) {
        CHECK_OK(&ctx, IPU_ARRAY_PUSH(&ctx, &numbers, i));
    }
    CHECK(numbers.count == 1000 && numbers.items[999] == 999);
    IPU_ARRAY_FREE(&ctx, &numbers);
    ipu_arena arena = {0};
    for (size_t bytes = 0; bytes < 40000; bytes = bytes * 3 + 1) {
        unsigned char *memory;
        CHECK_OK(&ctx, ipu_arena_alloc(&ctx, &arena, bytes, &memory));
        for (size_t i = 0; i < bytes; i++) {
            CHECK(memory[i] == 0);
            memory[i] = 1;
        }
    }
    ipu_arena_free(&ctx, &arena);
    size_t product;
    CHECK(ipu_mul_size(&ctx, SIZE_MAX / 2, 3, &product) == IPU_STATUS_OUT_OF_MEMORY);
    ipu_text text;
    char *chars;
    size_t bytes;
    ipu_ctx_clear(&ctx);
    ipu_text_init(&text, &ctx);
    ipu_text_print(&text, "%d %s", 42, "words");
    ipu_text_quote(&text, "a\"b\n", 4);
    CHECK_OK(&ctx, ipu_text_finish(&text, &chars, &bytes));
    CHECK(strcmp(chars, "42 words\"a\\\"b\\x0a\"") == 0);
    ipu_free(&ctx, chars, bytes);
}

static int freed_causes;

static void
count_freed(ipu_cause *cause)
{
    (void)cause;
    freed_causes++;
}

static void
test_causes(void)
{
    ipu_cause first = {1, count_freed};
    ipu_cause second = {1, count_freed};
    ipu_ctx from = fresh();
    ipu_ctx ctx = fresh();
    ipu_ctx other = fresh();
    (void)ipu_ctx_fail(&from, IPU_STATUS_VALUE, "text");
    from.cause = &first;
    from.source = (ipu_source){"file", 3};
    CHECK(ipu_ctx_forward(&ctx, &from) == IPU_STATUS_VALUE);
    CHECK(ctx.cause == &first && first.holders == 2 && ctx.source.line == 3);
    CHECK(strcmp(ctx.message, "text") == 0);
    (void)ipu_ctx_fail(&other, IPU_STATUS_TYPE, "the first error wins");
    other.cause = &second;
    CHECK(ipu_ctx_forward(&other, &from) == IPU_STATUS_VALUE);
    CHECK(other.status == IPU_STATUS_TYPE && other.cause == &second);
    ipu_ctx_clear(&from);
    CHECK(freed_causes == 0 && first.holders == 1);
    ipu_ctx_clear(&ctx);
    CHECK(freed_causes == 1 && ctx.cause == NULL && ctx.status == IPU_OK);
    ipu_ctx_clear(&ctx);
    ipu_ctx_clear(&other);
    CHECK(freed_causes == 2);
    ipu_cause_drop(NULL);
}

static void
test_random(void)
{
    /* Known answers of the paper's implementation for key 0, counter 0 and all ones */
    ipu_random_key key = {0};
    uint32_t out[4];
    ipu_random_block(&key, 0, out);
    CHECK(out[0] == 0x6627e8d5U && out[1] == 0xe169c58dU);
    CHECK(out[2] == 0xbc57ac4cU && out[3] == 0x9b00dbd8U);
}

static ipu_type
scalar_of(ipu_dtype dtype)
{
    return (ipu_type){dtype, ipu_shape_scalar()};
}

static void
test_dtype_rules(void)
{
    ipu_type f = scalar_of(IPU_DTYPE_FLOAT32);
    ipu_type h = scalar_of(IPU_DTYPE_FLOAT16);
    ipu_type i = scalar_of(IPU_DTYPE_INT32);
    ipu_type b = scalar_of(IPU_DTYPE_BOOL);
    ipu_type mixed[3] = {f, h, f};
    ipu_type floats[4] = {f, f, f, f};
    ipu_type choice[3] = {b, i, i};
    ipu_type window[4] = {f, i, i, i};
    ipu_type adam[3] = {h, f, i};
    ipu_type halves[3] = {h, h, h};
    CHECK(ipu_op_allows(IPU_OP_ID_ADD, floats, 2, &f, 1));
    CHECK(!ipu_op_allows(IPU_OP_ID_ADD, mixed, 2, &f, 1));
    CHECK(!ipu_op_allows(IPU_OP_ID_ADD, floats, 2, &h, 1));
    CHECK(!ipu_op_allows(IPU_OP_ID_ADD, floats, 3, &f, 1));
    CHECK(!ipu_op_allows(IPU_OP_ID_ADD, floats, 1, &f, 1));
    CHECK(!ipu_op_allows(IPU_OP_ID_SQRT, &i, 1, &i, 1));
    CHECK(ipu_op_allows(IPU_OP_ID_LESS, floats, 2, &b, 1));
    CHECK(ipu_op_allows(IPU_OP_ID_SELECT, choice, 3, &i, 1));
    CHECK(!ipu_op_allows(IPU_OP_ID_SELECT, choice, 3, &f, 1));
    CHECK(ipu_op_allows(IPU_OP_ID_CONCAT, floats, 4, &f, 1));
    CHECK(!ipu_op_allows(IPU_OP_ID_CONCAT, mixed, 3, &f, 1));
    CHECK(ipu_op_allows(IPU_OP_ID_DYNAMIC_SLICE, window, 4, &f, 1));
    CHECK(!ipu_op_allows(IPU_OP_ID_DYNAMIC_SLICE, floats, 2, &f, 1));
    CHECK(ipu_op_allows(IPU_OP_ID_FUSED_MATMUL, floats, 2, &f, 1));
    CHECK(ipu_op_allows(IPU_OP_ID_FUSED_MATMUL, floats, 3, &f, 1));
    CHECK(!ipu_op_allows(IPU_OP_ID_CHOLESKY, &h, 1, &h, 1));
    CHECK(ipu_op_allows(IPU_OP_ID_ADAM_UPDATE, adam, 3, halves, 3));
    CHECK(!ipu_op_allows(IPU_OP_ID_ADAM_UPDATE, adam, 3, halves, 2));
    CHECK(!ipu_op_allows(IPU_OP_ID_ADAM_UPDATE, adam, 3, floats, 3));
    CHECK(ipu_op_allows(IPU_OP_ID_SGD_UPDATE, floats, 2, &f, 1));
    CHECK(ipu_op_dtype_letter(IPU_OP_ID_SELECT, 0) == 'b');
    CHECK(ipu_op_dtype_letter(IPU_OP_ID_SELECT, 2) == 'A');
    CHECK(ipu_op_dtype_letter(IPU_OP_ID_DYNAMIC_SLICE, 5) == 'j');
}

/* Each row: letters that mean something, one colon, room for as many inputs as the row
 * says (`*` takes as many as are left), results as many as it says. */
static void
test_every_dtype_rule_is_well_formed(void)
{
    for (int id = 0; id < IPU_OP_ID_COUNT; id++) {
        const ipu_op_info *info = ipu_op_info_of((ipu_op)id);
        const char *colon = strchr(info->dtypes, ':');
        CHECK(colon != NULL && strchr(colon + 1, ':') == NULL);
        int inputs = 0;
        int results = 0;
        bool any_inputs = false;
        for (const char *c = info->dtypes; *c != '\0'; c++) {
            CHECK(strchr("AaNnFfWIibjs:?*", *c) != NULL);
            bool letter = strchr(":?*", *c) == NULL;
            inputs += letter && c < colon;
            results += letter && c > colon;
            any_inputs = any_inputs || (*c == '*' && c < colon);
        }
        CHECK(any_inputs ? info->max_inputs == -1 || info->max_inputs >= inputs
                         : info->max_inputs == inputs);
        CHECK(info->outputs <= 0 || results == info->outputs);
    }
}

/* A block that comes from the heap, goes to pages of its own and back keeps what it
 * held, and what is new in it is zero: also where a page held something before. */
static void
test_large_blocks(void)
{
    static const size_t sizes[] = {100,           3 << 20,       (3 << 20) + 9,
                                   (1 << 20) + 3, (1 << 20) + 9, 9 << 20,
                                   500,           2 << 20,       1000};
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    unsigned char *block = NULL;
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        const size_t kept = bytes < sizes[i] ? bytes : sizes[i];
        CHECK(ipu_resize(&ctx, &block, bytes, sizes[i]) == IPU_OK);
        CHECK((uintptr_t)block % 64 == 0);
        for (size_t at = 0; at < kept; at++) {
            CHECK(block[at] == (unsigned char)(at * 7 + i));
        }
        for (size_t at = kept; at < sizes[i]; at++) {
            CHECK(block[at] == 0);
        }
        for (size_t at = 0; at < sizes[i]; at++) {
            block[at] = (unsigned char)(at * 7 + i + 1);
        }
        bytes = sizes[i];
    }
    ipu_free(&ctx, block, bytes);
    void *none = NULL;
    CHECK(ipu_alloc(&ctx, SIZE_MAX - 10, &none) == IPU_STATUS_OUT_OF_MEMORY);
    CHECK(none == NULL);
}

int
main(void)
{
    test_large_blocks();
    test_float16();
    test_shapes();
    test_memory();
    test_causes();
    test_random();
    test_dtype_rules();
    test_every_dtype_rule_is_well_formed();
    return CHECK_DONE();
}
