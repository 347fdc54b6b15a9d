/* SPDX-License-Identifier: MIT
 *
 * The op table as data: name, arity, dtype rule and flags of each row of ops.def, by id
 * and by text. The preprocessor makes the rows, so that the table cannot drift from the
 * enum. Parsing is a linear search: it serves the text form and the door of Python's
 * `apply`, which caches what it found. Constant data, any thread. */
#include "base/update_code.h"

#include <string.h>

static const ipu_op_info infos[IPU_OP_ID_COUNT] = {
#define IPU_OP(id, text, fewest, most, outs, rule, shape, cost, bits) \
    [IPU_OP_ID_##id] = {.name = #text, \
                        .min_inputs = (fewest), \
                        .max_inputs = (most), \
                        .outputs = (outs), \
                        .dtypes = (rule), \
                        .flags = (uint32_t)(bits)},
#include "ops.def"
#undef IPU_OP
};

const ipu_op_info *
ipu_op_info_of(ipu_op op)
{
    return &infos[op];
}

bool
ipu_op_divides_integers(ipu_op op, ipu_dtype dtype)
{
    return (infos[op].flags & IPU_OP_FAILS) != 0 && !ipu_dtype_is_float(dtype);
}

static bool
has_failing_step(ipu_attrs attrs)
{
    uint32_t words;
    const int64_t *code = ipu_attrs_ints(attrs, IPU_ATTR_CODE, &words);
    for (uint32_t at = 0; at < words; at += IPU_FUSED_WORDS) {
        if (ipu_op_divides_integers((ipu_op)code[at], (ipu_dtype)code[at + 1])) {
            return true;
        }
    }
    return false;
}

static bool
has_rows(ipu_attrs attrs)
{
    uint32_t words;
    const int64_t *code = ipu_attrs_ints(attrs, IPU_ATTR_CODE, &words);
    ipu_update_part part = {0};
    while (ipu_update_next(code, words, &part)) {
        for (uint32_t k = 0; k < part.inputs; k++) {
            if (ipu_update_is_rows(&part, k)) {
                return true;
            }
        }
    }
    return false;
}

bool
ipu_op_can_fail(ipu_op op, ipu_attrs attrs, const ipu_type *operand,
                const ipu_type *result)
{
    uint32_t flags = infos[op].flags;
    if ((flags & IPU_OP_FAILS) == 0) {
        return false;
    }
    if ((flags & IPU_OP_ELEMENTWISE) != 0) {
        return ipu_shape_elements(&result->shape) > 0 &&
               (op == IPU_OP_ID_FUSED_ELEMENTWISE
                    ? has_failing_step(attrs)
                    : ipu_op_divides_integers(op, result->dtype));
    }
    switch (op) {
    case IPU_OP_ID_ARGMIN:
    case IPU_OP_ID_ARGMAX:
        return ipu_shape_elements(&operand->shape) == 0;
    case IPU_OP_ID_ALL_REDUCE:
        return ipu_attrs_int(attrs, IPU_ATTR_GROUP_SIZE, 0) > 0;
    case IPU_OP_ID_SPARSE_CROSS_ENTROPY:
        return ipu_attrs_int(attrs, IPU_ATTR_OUTSIDE_IS_NAN, 0) == 0;
    case IPU_OP_ID_FUSED_UPDATE:
        return has_rows(attrs);
    default:
        return true;
    }
}

int32_t
ipu_op_key_place(ipu_op op)
{
    int32_t place = 0;
    if ((infos[op].flags & IPU_OP_RANDOM) == 0) {
        return -1;
    }
    for (const char *rule = infos[op].dtypes; rule[0] != ':'; rule++, place++) {
        if (rule[0] == 's' && rule[1] == '?') {
            return place;
        }
    }
    return -1;
}

bool
ipu_op_parse(const char *text, size_t length, ipu_op *out)
{
    for (int32_t i = 0; i < IPU_OP_ID_COUNT; i++) {
        if (strlen(infos[i].name) == length &&
            memcmp(infos[i].name, text, length) == 0) {
            *out = (ipu_op)i;
            return true;
        }
    }
    return false;
}

/* --- dtype rules ------------------------------------------------------------------ */

static bool
is_own(char letter) /* one of the letters that stand for the op's own dtype */
{
    return letter >= 'A' && letter <= 'Z';
}

bool
ipu_dtype_letter_allows(char letter, ipu_dtype dtype)
{
    char kind = ipu_dtype_kind(dtype);
    switch (letter) {
    case 'N':
    case 'n':
        return kind != 'b';
    case 'F':
    case 'f':
        return kind == 'f';
    case 'W':
        return kind == 'f' && dtype != IPU_DTYPE_FLOAT16;
    case 'I':
    case 'i':
        return kind == 'i' || kind == 'u';
    case 'b':
        return kind == 'b';
    case 'j':
        return dtype == IPU_DTYPE_INT32 || dtype == IPU_DTYPE_INT64;
    case 's':
        return dtype == IPU_DTYPE_INT32;
    default: /* A, a */
        return true;
    }
}

const char *
ipu_dtype_letter_name(char letter)
{
    switch (letter) {
    case 'N':
    case 'n':
        return "a numeric dtype";
    case 'F':
    case 'f':
        return "a floating-point dtype";
    case 'W':
        return "float32 or float64";
    case 'I':
    case 'i':
        return "an integer dtype";
    case 'b':
        return "dtype bool";
    case 'j':
        return "int32 or int64";
    case 's':
        return "int32";
    default:
        return "any dtype";
    }
}

static bool
is_end(char c)
{
    return c == ':' || c == '\0';
}

char
ipu_op_dtype_letter(ipu_op op, uint32_t index)
{
    const char *rule = infos[op].dtypes;
    while (index > 0 && !is_end(rule[0]) && rule[1] != '*') {
        rule += rule[1] == '?' ? 2 : 1;
        index--;
    }
    return rule[0];
}

/* `own`: the op's own dtype, IPU_DTYPE_COUNT before the first operand that has it. */
static bool
allows_each(const char *rule, const ipu_type *types, uint32_t count, ipu_dtype *own)
{
    for (uint32_t i = 0; i < count; i++) {
        if (is_end(rule[0]) || !ipu_dtype_letter_allows(rule[0], types[i].dtype)) {
            return false;
        }
        if (is_own(rule[0])) {
            if (*own != IPU_DTYPE_COUNT && *own != types[i].dtype) {
                return false;
            }
            *own = types[i].dtype;
        }
        if (rule[1] != '*') {
            rule += rule[1] == '?' ? 2 : 1;
        }
    }
    return is_end(rule[0]) || rule[1] == '*' || rule[1] == '?';
}

bool
ipu_op_allows(ipu_op op, const ipu_type *inputs, uint32_t input_count,
              const ipu_type *outputs, uint32_t output_count)
{
    const char *rule = infos[op].dtypes;
    ipu_dtype own = IPU_DTYPE_COUNT;
    return allows_each(rule, inputs, input_count, &own) &&
           allows_each(strchr(rule, ':') + 1, outputs, output_count, &own);
}
