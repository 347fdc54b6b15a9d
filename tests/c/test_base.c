/* SPDX-License-Identifier: MIT
 *
 * base/: conversions, shapes, arrays, arenas. */
#include "base/arena.h"
#include "base/array.h"
#include "base/dtype.h"
#include "base/random.h"
#include "base/shape.h"
#include "base/text.h"
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ipu_ctx
fresh(void)
{
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    return ctx;
}

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

int
main(void)
{
    test_float16();
    test_shapes();
    test_memory();
    test_random();
    return CHECK_DONE();
}
