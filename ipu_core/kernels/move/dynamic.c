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

/* How a window lies in a tensor. */
typedef struct window {
    ipu_shape part;
    int64_t strides[IPU_MAX_RANK]; /* of the whole, in elements */
    int64_t last[IPU_MAX_RANK];    /* the last start on each axis */
} window;

static void
measure_window(window *w, const ipu_shape *whole, const ipu_shape *part)
{
    w->part = *part;
    ipu_shape_strides(whole, false, w->strides);
    for (int32_t axis = 0; axis < whole->rank; axis++) {
        w->last[axis] = whole->dims[axis] - part->dims[axis];
    }
}

/* Where the window starts, in elements; `first` is the input that holds the first
 * start. */
static int64_t
window_begin(const ipu_kernel_call *call, const window *w, uint32_t first)
{
    const ipu_kernel_spec *spec = call->spec;
    int64_t begin = 0;
    for (uint32_t i = first; i < spec->input_count; i++) {
        uint32_t axis = i - first;
        int64_t start = ipu__integer_load(spec->inputs[i].dtype, call->inputs[i], 0);
        start = start < 0 ? 0 : ipu__min(start, w->last[axis]);
        begin += start * w->strides[axis];
    }
    return begin;
}

/* Where element (or run) number `flat` over the leading `axes` axes of the window lies
 * in the whole, from the window's first element on. */
static int64_t
offset_in(const window *w, int32_t axes, int64_t flat)
{
    int64_t offset = 0;
    for (int32_t axis = axes - 1; axis >= 0; axis--) {
        offset += flat % w->part.dims[axis] * w->strides[axis];
        flat /= w->part.dims[axis];
    }
    return offset;
}

/* The result has input 0's bytes: copied, unless it is in place. */
static void
take_whole(const ipu_kernel_call *call)
{
    size_t bytes = ipu_type_bytes(&call->spec->outputs[0]);
    if (bytes > 0 && call->outputs[0] != call->inputs[0]) {
        memcpy(call->outputs[0], call->inputs[0], bytes);
    }
}

/* Prepared: how the window's runs lie, that is neighbours which are neighbours in the
 * whole. */
typedef struct window_plan {
    window window; /* begin is a matter of the run */
    int32_t axes;  /* the leading axes, over which runs are counted */
    int64_t run;   /* elements */
    int64_t elements;
    int64_t bytes; /* of an element */
    ipu__block add;
} window_plan;

static ipu_status
prepare_window(const ipu__preparation *p, const ipu_shape *part, window_plan **out)
{
    const ipu_kernel_spec *spec = p->spec;
    window_plan *plan;
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    measure_window(&plan->window, &spec->inputs[0].shape, part);
    plan->elements = ipu_shape_elements(part);
    plan->bytes = (int64_t)ipu_dtype_bytes(spec->outputs[0].dtype);
    plan->axes = part->rank;
    plan->run = 1;
    while (plan->axes > 0) {
        plan->axes--;
        plan->run *= part->dims[plan->axes];
        if (part->dims[plan->axes] != spec->inputs[0].shape.dims[plan->axes]) {
            break;
        }
    }
    p->spec->kernel_name = "runs";
    *out = plan;
    return IPU_OK;
}

static ipu_status
run_slice(const ipu_kernel_call *call)
{
    const window_plan *plan = call->spec->prepared;
    int64_t begin = window_begin(call, &plan->window, 1);
    for (int64_t i = 0; i < plan->elements; i += plan->run) {
        int64_t at = begin + offset_in(&plan->window, plan->axes, i / plan->run);
        memcpy(ipu__at_mutable(call->outputs[0], i * plan->bytes),
               ipu__at(call->inputs[0], at * plan->bytes),
               (size_t)(plan->run * plan->bytes));
    }
    return IPU_OK;
}

static ipu_status
run_update(const ipu_kernel_call *call)
{
    const window_plan *plan = call->spec->prepared;
    int64_t begin = window_begin(call, &plan->window, 2);
    take_whole(call);
    for (int64_t i = 0; i < plan->elements; i += plan->run) {
        int64_t at = begin + offset_in(&plan->window, plan->axes, i / plan->run);
        memcpy(ipu__at_mutable(call->outputs[0], at * plan->bytes),
               ipu__at(call->inputs[1], i * plan->bytes),
               (size_t)(plan->run * plan->bytes));
    }
    return IPU_OK;
}

static ipu_status
run_add(const ipu_kernel_call *call)
{
    const window_plan *plan = call->spec->prepared;
    int64_t begin = window_begin(call, &plan->window, 2);
    int64_t most = IPU_BLOCK_BYTES / 4;
    take_whole(call);
    for (int64_t i = 0; i < plan->elements; i += plan->run) {
        int64_t at = begin + offset_in(&plan->window, plan->axes, i / plan->run);
        for (int64_t done = 0; done < plan->run; done += most) {
            void *to = ipu__at_mutable(call->outputs[0], (at + done) * plan->bytes);
            const void *more = ipu__at(call->inputs[1], (i + done) * plan->bytes);
            (void)plan->add.run(&plan->add, to, to, more, NULL,
                                ipu__min(plan->run - done, most));
        }
    }
    return IPU_OK;
}

ipu_status
ipu_choose_dynamic_slice(const ipu__preparation *p)
{
    window_plan *plan;
    p->spec->run = run_slice;
    return prepare_window(p, &p->spec->outputs[0].shape, &plan);
}

ipu_status
ipu_choose_dynamic_update_slice(const ipu__preparation *p)
{
    window_plan *plan;
    p->spec->run = run_update;
    return prepare_window(p, &p->spec->inputs[1].shape, &plan);
}

ipu_status
ipu_choose_dynamic_add_slice(const ipu__preparation *p)
{
    ipu_dtype dtype = p->spec->outputs[0].dtype;
    window_plan *plan;
    IPU_TRY(prepare_window(p, &p->spec->inputs[1].shape, &plan));
    ipu__block_prepare(&plan->add, IPU_OP_ID_ADD, dtype, dtype, p->cpu);
    p->spec->run = run_add;
    return IPU_OK;
}
