/* SPDX-License-Identifier: MIT
 *
 * Windows into a tensor whose place is known at run time alone: dynamic_slice reads
 * one, dynamic_update_slice writes one, dynamic_add_slice adds to one. In: the whole
 * tensor, for the last two the window's elements, then the start on each of the leading
 * axes as int32 scalars; the other axes start at 0. A start is moved into range, so
 * that the window never leaves the tensor. Out: the window, or the whole.
 *
 * The window is cut into runs of neighbours, and where the result has the whole tensor's
 * bytes already (in place) the window alone is touched. Calling thread only:
 * a window is the row that one iteration of a loop works on. */
#include <string.h>

#include "kernels/core/kernel_impl.h"

/* Prepared: how the window lies in the whole tensor, and how its runs do: neighbours
 * which are neighbours there, too. */
typedef struct window_plan {
    ipu_shape part;
    int64_t strides[IPU_MAX_RANK]; /* of the whole, in elements */
    int64_t last[IPU_MAX_RANK];    /* the last start on each axis */
    int32_t axes; /* the leading axes, over which runs are counted */
    int64_t run;  /* elements */
    int64_t elements;
    int64_t bytes; /* of an element */
    ipu__block add;
} window_plan;

/* Where the window starts, in elements; `first` is the input that holds the first
 * start. */
static int64_t
window_begin(const ipu_kernel_call *call, const window_plan *plan, uint32_t first)
{
    const ipu_kernel_spec *spec = call->spec;
    int64_t begin = 0;
    for (uint32_t i = first; i < spec->input_count; i++) {
        uint32_t axis = i - first;
        int64_t start = ipu__integer_load(spec->inputs[i].dtype, call->inputs[i], 0);
        start = start < 0 ? 0 : ipu__min(start, plan->last[axis]);
        begin += start * plan->strides[axis];
    }
    return begin;
}

/* Where run number `run` lies in the whole, from the window's first element on. */
static int64_t
offset_in(const window_plan *plan, int64_t run)
{
    int64_t offset = 0;
    for (int32_t axis = plan->axes - 1; axis >= 0; axis--) {
        offset += run % plan->part.dims[axis] * plan->strides[axis];
        run /= plan->part.dims[axis];
    }
    return offset;
}

static void
add_run(const window_plan *plan, char *to, const char *more)
{
    const int64_t most = IPU_BLOCK_BYTES / 4;
    for (int64_t i = 0; i < plan->run; i += most) {
        char *at = to + i * plan->bytes;
        (void)plan->add.run(&plan->add, at, at, more + i * plan->bytes, NULL,
                            ipu__min(plan->run - i, most));
    }
}

static ipu_status
run_window(const ipu_kernel_call *call)
{
    const window_plan *plan = call->spec->prepared;
    const ipu_op op = call->spec->op;
    const bool reads = op == IPU_OP_ID_DYNAMIC_SLICE;
    const int64_t begin = window_begin(call, plan, reads ? 1 : 2);
    const size_t whole = ipu_type_bytes(&call->spec->outputs[0]);
    if (!reads && whole > 0 && call->outputs[0] != call->inputs[0]) {
        memcpy(call->outputs[0], call->inputs[0], whole); /* it is not in place */
    }
    for (int64_t i = 0; i < plan->elements; i += plan->run) {
        int64_t at = begin + offset_in(plan, i / plan->run);
        char *to = ipu__at_mutable(call->outputs[0], (reads ? i : at) * plan->bytes);
        const char *from =
            ipu__at(call->inputs[reads ? 0 : 1], (reads ? at : i) * plan->bytes);
        if (op == IPU_OP_ID_DYNAMIC_ADD_SLICE) {
            add_run(plan, to, from);
        } else {
            memcpy(to, from, (size_t)(plan->run * plan->bytes));
        }
    }
    return IPU_OK;
}

ipu_status
ipu_choose_dynamic_slice(const ipu__preparation *p)
{
    ipu_kernel_spec *spec = p->spec;
    const ipu_shape *whole = &spec->inputs[0].shape;
    const ipu_dtype dtype = spec->outputs[0].dtype;
    const bool reads = spec->op == IPU_OP_ID_DYNAMIC_SLICE;
    const ipu_shape *part = reads ? &spec->outputs[0].shape : &spec->inputs[1].shape;
    window_plan *plan;
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    plan->part = *part;
    plan->elements = ipu_shape_elements(part);
    plan->bytes = (int64_t)ipu_dtype_bytes(dtype);
    ipu_shape_strides(whole, false, plan->strides);
    for (int32_t axis = 0; axis < whole->rank; axis++) {
        plan->last[axis] = whole->dims[axis] - part->dims[axis];
    }
    plan->axes = part->rank;
    plan->run = 1;
    while (plan->axes > 0) {
        plan->axes--;
        plan->run *= part->dims[plan->axes];
        if (plan->last[plan->axes] > 0) {
            break;
        }
    }
    if (spec->op == IPU_OP_ID_DYNAMIC_ADD_SLICE) {
        ipu__block_prepare(&plan->add, IPU_OP_ID_ADD, dtype, dtype, p->cpu);
    }
    spec->run = run_window;
    spec->kernel_name = "runs";
    return IPU_OK;
}
