/* SPDX-License-Identifier: MIT
 *
 * Kernels whose results are looked at (base/float_behaviour.h): one that is not a number
 * while its operands are ends the run, or becomes what float16 overflow is to give.
 * A NaN without a NaN among the operands is invalid; an infinity of finite operands is a
 * division by zero where the op has a pole, and else overflow. Operands are those at the
 * result's own place for element-wise ops, all of them for others. An error that ends
 * a run is found before anything is overwritten: results are made in the workspace, so
 * variables and operands are as they were. Guarded kernels are made at once and look on
 * the calling thread. Collectives are not looked at. */
#include <math.h>
#include <stdio.h>

#include "kernels/core/kernel_impl.h"

/* Prepared. */
typedef struct guard {
    ipu_kernel_spec inner;
    ipu_float_behaviour behaviour;
    size_t own_bytes; /* of the workspace, in front of the kernel's */
    bool writes;      /* what was in the outputs is operands, too */
    ipu__loop loop;   /* of element-wise ops */
} guard;

typedef struct operand {
    const ipu_type *type;
    const void *data;
} operand;

typedef struct inspection {
    const ipu_kernel_call *call;
    const guard *own;
    bool is_known; /* the two below, of all operands */
    bool has_nan;
    bool has_infinity;
} inspection;

enum {
    MOST_OUTPUTS = 8, /* of an op that rounds */
    SCAN = 64,
    FLOAT16_INFINITY = 0x7c00,
    FLOAT16_NAN = 0x7e00
};

static bool
is_small_float(ipu_dtype dtype)
{
    return dtype == IPU_DTYPE_FLOAT16 || dtype == IPU_DTYPE_FLOAT32;
}

/* The first of elements [at, count) that is NaN or infinite, or `count`. */
static int64_t
find_special(ipu_dtype dtype, const void *data, int64_t at, int64_t count)
{
    const uint16_t *halves = data;
    const uint32_t *floats = data;
    bool is_half = dtype == IPU_DTYPE_FLOAT16;
    while (at < count) {
        int64_t end = ipu__min(at + SCAN, count);
        uint32_t most = 0;
        for (int64_t i = at; i < end && is_half; i++) {
            uint32_t size = halves[i] & 0x7fffU;
            most = size > most ? size : most;
        }
        for (int64_t i = at; i < end && !is_half; i++) {
            uint32_t size = floats[i] & 0x7fffffffU;
            most = size > most ? size : most;
        }
        if (most < (is_half ? (uint32_t)FLOAT16_INFINITY : 0x7f800000U)) {
            at = end;
            continue;
        }
        for (; at < end; at++) {
            if (is_half ? (halves[at] & 0x7fff) >= FLOAT16_INFINITY
                        : (floats[at] & 0x7fffffffU) >= 0x7f800000U) {
                return at;
            }
        }
    }
    return count;
}

static void
look_at(inspection *in, const operand *o)
{
    int64_t count = ipu_shape_elements(&o->type->shape);
    for (int64_t i = find_special(o->type->dtype, o->data, 0, count); i < count;
         i = find_special(o->type->dtype, o->data, i + 1, count)) {
        bool is_nan = isnan(ipu__scalar_load(o->type->dtype, o->data, i).f);
        in->has_nan |= is_nan;
        in->has_infinity |= !is_nan;
    }
}

static void
look_at_operands(inspection *in)
{
    const ipu_kernel_spec *spec = &in->own->inner;
    for (uint32_t i = 0; i < spec->input_count && !in->is_known; i++) {
        if (is_small_float(spec->inputs[i].dtype)) {
            look_at(in, &(operand){&spec->inputs[i], in->call->inputs[i]});
        }
    }
    for (uint32_t i = 0; i < spec->output_count && in->own->writes && !in->is_known;
         i++) {
        if (is_small_float(spec->outputs[i].dtype)) {
            look_at(in, &(operand){&spec->outputs[i], in->call->outputs[i]});
        }
    }
    in->is_known = true;
}

/* Whether result element i depends on element i of the operands alone. */
static bool
is_elementwise(ipu_op op)
{
    return (ipu_op_info_of(op)->flags & IPU_OP_ELEMENTWISE) != 0 ||
           op == IPU_OP_ID_ROUND_STOCHASTIC || op == IPU_OP_ID_DROPOUT;
}

/* Operand `k` of element `at`. */
static double
operand_at(const inspection *in, uint32_t k, int64_t at)
{
    ipu_dtype dtype = in->own->inner.inputs[k].dtype;
    int64_t index = ipu__loop_offset(&in->own->loop, (int32_t)k, at);
    return ipu__scalar_to_double(dtype,
                                 ipu__scalar_load(dtype, in->call->inputs[k], index));
}

/* Whether an element-wise op is infinite here by itself. */
static bool
is_pole(const inspection *in, int64_t at)
{
    ipu_op op = in->own->inner.op;
    double x = operand_at(in, 0, at);
    switch (op) {
    case IPU_OP_ID_DIV:
    case IPU_OP_ID_FLOOR_DIV:
        return operand_at(in, 1, at) == 0.0;
    case IPU_OP_ID_RECIPROCAL:
    case IPU_OP_ID_RSQRT:
    case IPU_OP_ID_LOG:
    case IPU_OP_ID_LOG2:
    case IPU_OP_ID_POW:
        return x == 0.0;
    case IPU_OP_ID_LOG1P:
        return x == -1.0;
    case IPU_OP_ID_ATANH:
    case IPU_OP_ID_ERFINV:
        return fabs(x) == 1.0;
    case IPU_OP_ID_NDTRI:
        return x == 0.0 || x == 1.0;
    case IPU_OP_ID_ZETA:
        return x == 1.0 || (operand_at(in, 1, at) <= 0.0);
    case IPU_OP_ID_POLYGAMMA:
        return operand_at(in, 1, at) <= 0.0;
    case IPU_OP_ID_LGAMMA:
    case IPU_OP_ID_DIGAMMA:
        return x <= 0.0 && floor(x) == x;
    default:
        return false;
    }
}

typedef enum fault { NO_FAULT, INVALID, DIVISION, OVERFLOW } fault;

static fault
fault_at(inspection *in, double result, int64_t at)
{
    const ipu_kernel_spec *spec = &in->own->inner;
    bool has_nan = false;
    bool has_infinity = false;
    if (is_elementwise(spec->op)) {
        for (uint32_t k = 0; k < spec->input_count; k++) {
            double x = operand_at(in, k, at);
            has_nan |= isnan(x);
            has_infinity |= isinf(x);
        }
    } else {
        look_at_operands(in);
        has_nan = in->has_nan;
        has_infinity = in->has_infinity;
    }
    if (isnan(result)) {
        return has_nan ? NO_FAULT : INVALID;
    }
    if (has_nan || has_infinity) {
        return NO_FAULT;
    }
    return is_elementwise(spec->op) && is_pole(in, at) ? DIVISION : OVERFLOW;
}

/* Where element `at` of a result is, such as "[1, 2]". */
static void
print_place(char *text, size_t room, const ipu_shape *shape, int64_t at)
{
    int64_t behind = ipu_shape_elements(shape);
    size_t used = 1;
    text[0] = '[';
    for (int32_t axis = 0; axis < shape->rank; axis++) {
        behind /= shape->dims[axis];
        used += (size_t)snprintf(text + used, room - used, "%s%lld",
                                 axis > 0 ? ", " : "",
                                 (long long)(at / behind % shape->dims[axis]));
    }
    text[used] = ']';
    text[used + 1] = '\0';
}

static ipu_status
report(const inspection *in, fault found, const ipu_type *type, double result,
       int64_t at)
{
    static const char *const what[] = {[INVALID] = "is an invalid operation",
                                       [DIVISION] = "divides by zero",
                                       [OVERFLOW] = "overflows"};
    static const char *const option[] = {
        [INVALID] = "inv", [DIVISION] = "div0", [OVERFLOW] = "oflo"};
    const ipu_kernel_spec *spec = &in->own->inner;
    ipu_ctx *ctx = in->call->ctx;
    char place[IPU_MAX_RANK * 22 + 3]; /* an int64_t has 20 characters */
    char operands[3 * 32] = "";
    size_t used = 0;
    print_place(place, sizeof(place), &type->shape, at);
    for (uint32_t k = 0; is_elementwise(spec->op) && k < spec->input_count; k++) {
        used += (size_t)snprintf(operands + used, sizeof(operands) - used, "%s%.9g",
                                 k == 0 ? " out of " : ", ", operand_at(in, k, at));
    }
    IPU_FAIL(ctx, INVALID_ARGUMENT,
             "%s %s in %s: element %s is %g%s. It ends the program because "
             "floating_point_behaviour.%s is set",
             ipu_op_info_of(spec->op)->name, what[found], ipu_dtype_name(type->dtype),
             place, result, operands, option[found]);
}

static bool
ends_the_run(const ipu_float_behaviour *behaviour, fault found)
{
    return (found == INVALID && behaviour->traps_invalid) ||
           (found == DIVISION && behaviour->traps_division) ||
           (found == OVERFLOW && behaviour->traps_overflow);
}

/* All of one result. */
static ipu_status
inspect(inspection *in, const ipu_type *type, void *data)
{
    const ipu_float_behaviour *behaviour = &in->own->behaviour;
    int64_t count = ipu_shape_elements(&type->shape);
    bool is_half = type->dtype == IPU_DTYPE_FLOAT16;
    uint16_t *halves = data;
    for (int64_t at = find_special(type->dtype, data, 0, count); at < count;
         at = find_special(type->dtype, data, at + 1, count)) {
        double result = ipu__scalar_load(type->dtype, data, at).f;
        fault found = fault_at(in, result, at);
        if (ends_the_run(behaviour, found)) {
            return report(in, found, type, result, at);
        }
        if (found == OVERFLOW && is_half && behaviour->overflow == IPU_OVERFLOW_NAN) {
            halves[at] = FLOAT16_NAN;
        } else if (found == OVERFLOW && is_half &&
                   behaviour->overflow == IPU_OVERFLOW_CLIP) {
            halves[at] = (uint16_t)((halves[at] & 0x8000) | (FLOAT16_INFINITY - 1));
        }
    }
    return IPU_OK;
}

static ipu_status
run_guarded(const ipu_kernel_call *call)
{
    const guard *own = call->spec->prepared;
    const ipu_kernel_spec *spec = &own->inner;
    void *results[MOST_OUTPUTS];
    ipu_kernel_call inner = *call;
    inspection in = {.call = call, .own = own};
    size_t offset = 0;
    for (uint32_t i = 0; i < spec->output_count; i++) {
        size_t bytes = ipu_type_bytes(&spec->outputs[i]);
        results[i] = ipu__at_mutable(call->workspace, (int64_t)offset);
        offset += ipu_buffer_round_up(bytes);
        if (own->writes && bytes > 0) {
            memcpy(results[i], call->outputs[i], bytes);
        }
    }
    inner.spec = spec;
    inner.outputs = results;
    inner.workspace = ipu__at_mutable(call->workspace, (int64_t)own->own_bytes);
    IPU_TRY(spec->run(&inner));
    for (uint32_t i = 0; i < spec->output_count; i++) {
        if (is_small_float(spec->outputs[i].dtype)) {
            IPU_TRY(inspect(&in, &spec->outputs[i], results[i]));
        }
    }
    for (uint32_t i = 0; i < spec->output_count; i++) {
        ipu_copy_bytes(call->outputs[i], results[i], ipu_type_bytes(&spec->outputs[i]));
    }
    return IPU_OK;
}

/* Whether a result can be what the behaviour is about. */
static bool
needs_guard(const ipu_kernel_spec *spec, const ipu_float_behaviour *behaviour)
{
    bool found = false;
    bool traps = behaviour->traps_invalid || behaviour->traps_division ||
                 behaviour->traps_overflow;
    for (uint32_t i = 0; i < spec->output_count; i++) {
        found |= spec->outputs[i].dtype == IPU_DTYPE_FLOAT16 ||
                 (traps && spec->outputs[i].dtype == IPU_DTYPE_FLOAT32);
    }
    return found && ipu_float_behaviour_guards(behaviour) &&
           (ipu_op_info_of(spec->op)->flags & (IPU_OP_EXACT | IPU_OP_COLLECTIVE)) == 0;
}

ipu_status
ipu_kernel_guard(ipu_ctx *ctx, ipu_arena *arena, ipu_kernel_spec *spec,
                 const ipu_float_behaviour *behaviour)
{
    guard *own;
    size_t bytes = 0;
    if (!needs_guard(spec, behaviour)) {
        return IPU_OK;
    }
    IPU_FAIL_IF(ctx, spec->output_count > MOST_OUTPUTS, INTERNAL,
                "%s has %u results to look at", ipu_op_info_of(spec->op)->name,
                (unsigned)spec->output_count);
    for (uint32_t i = 0; i < spec->output_count; i++) {
        bytes += ipu_buffer_round_up(ipu_type_bytes(&spec->outputs[i]));
    }
    IPU_TRY(ipu_arena_alloc(ctx, arena, sizeof(*own), &own));
    *own = (guard){.inner = *spec,
                   .behaviour = *behaviour,
                   .own_bytes = ipu_buffer_round_up(bytes + IPU_SLACK_BYTES),
                   .writes = (ipu_op_info_of(spec->op)->flags & IPU_OP_WRITES) != 0};
    if (is_elementwise(spec->op)) {
        ipu__loop_broadcast(&own->loop, &spec->outputs[0].shape, spec->inputs,
                            (int32_t)spec->input_count);
    }
    spec->run = run_guarded;
    spec->prepared = own;
    spec->workspace_bytes += own->own_bytes;
    spec->rows = (ipu_kernel_rows){0};
    spec->can_fail |= behaviour->traps_invalid || behaviour->traps_division ||
                      behaviour->traps_overflow;
    return IPU_OK;
}
