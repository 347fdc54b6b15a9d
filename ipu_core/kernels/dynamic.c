/* SPDX-License-Identifier: MIT
 *
 * Windows into a tensor whose place is known at run time alone: dynamic_slice reads
 * one, dynamic_update_slice writes one, dynamic_add_slice adds to one. In: the whole
 * tensor, for the last two the window's elements, then the start on each of the leading
 * axes as int32 scalars; the other axes start at 0. A start is moved into range, so
 * that the window never leaves the tensor. Out: the window, or the whole.
 *
 * The reference kernels go from element to element. The fast ones cut the window into
 * runs of neighbours, and where the result has the whole tensor's bytes already (in
 * place) they touch the window alone. The arithmetic is the same. Calling thread only:
 * a window is the row that one iteration of a loop works on. */
#include <string.h>

#include "kernels/kernel_impl.h"

/* How a window lies in a tensor. */
typedef struct window {
    const ipu_shape *whole;
    const ipu_shape *part;
    int64_t strides[IPU_MAX_RANK]; /* of the whole, in elements */
    int64_t begin;                 /* of the window, in elements */
} window;

/* `first` is the input that holds the first start. */
static void
find_window(const ipu_kernel_call *call, const ipu_shape *part, uint32_t first,
            window *out)
{
    const ipu_kernel_spec *spec = call->spec;
    out->whole = &spec->inputs[0].shape;
    out->part = part;
    out->begin = 0;
    ipu_shape_strides(out->whole, false, out->strides);
    for (uint32_t i = first; i < spec->input_count; i++) {
        uint32_t axis = i - first;
        int64_t last = out->whole->dims[axis] - part->dims[axis];
        int64_t start = ipu__integer_load(spec->inputs[i].dtype, call->inputs[i], 0);
        start = start < 0 ? 0 : ipu__min(start, last);
        out->begin += start * out->strides[axis];
    }
}

/* Where element (or run) number `flat` over the leading `axes` axes of the window lies
 * in the whole. */
static int64_t
offset_in(const window *w, int32_t axes, int64_t flat)
{
    int64_t offset = w->begin;
    for (int32_t axis = axes - 1; axis >= 0; axis--) {
        offset += flat % w->part->dims[axis] * w->strides[axis];
        flat /= w->part->dims[axis];
    }
    return offset;
}

/* --- reference ------------------------------------------------------------------- */

ipu_status
ipu_reference_dynamic_slice(const ipu_kernel_call *call)
{
    const ipu_shape *part = &call->spec->outputs[0].shape;
    int64_t bytes = (int64_t)ipu_dtype_bytes(call->spec->outputs[0].dtype);
    int64_t elements = ipu_shape_elements(part);
    window w;
    find_window(call, part, 1, &w);
    for (int64_t i = 0; i < elements; i++) {
        memcpy(ipu__at_mutable(call->outputs[0], i * bytes),
               ipu__at(call->inputs[0], offset_in(&w, part->rank, i) * bytes),
               (size_t)bytes);
    }
    return IPU_OK;
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

ipu_status
ipu_reference_dynamic_update_slice(const ipu_kernel_call *call)
{
    const ipu_shape *part = &call->spec->inputs[1].shape;
    int64_t bytes = (int64_t)ipu_dtype_bytes(call->spec->outputs[0].dtype);
    int64_t elements = ipu_shape_elements(part);
    window w;
    take_whole(call);
    find_window(call, part, 2, &w);
    for (int64_t i = 0; i < elements; i++) {
        memcpy(ipu__at_mutable(call->outputs[0], offset_in(&w, part->rank, i) * bytes),
               ipu__at(call->inputs[1], i * bytes), (size_t)bytes);
    }
    return IPU_OK;
}

ipu_status
ipu_reference_dynamic_add_slice(const ipu_kernel_call *call)
{
    const ipu_shape *part = &call->spec->inputs[1].shape;
    ipu_dtype dtype = call->spec->outputs[0].dtype;
    int64_t elements = ipu_shape_elements(part);
    window w;
    take_whole(call);
    find_window(call, part, 2, &w);
    for (int64_t i = 0; i < elements; i++) {
        int64_t at = offset_in(&w, part->rank, i);
        ipu__scalar operands[3] = {ipu__scalar_load(dtype, call->outputs[0], at),
                                   ipu__scalar_load(dtype, call->inputs[1], i)};
        ipu__scalar sum;
        (void)ipu__scalar_apply(IPU_OP_ID_ADD, dtype, dtype, operands, &sum);
        ipu__scalar_store(dtype, call->outputs[0], at, sum);
    }
    return IPU_OK;
}

/* --- fast ------------------------------------------------------------------------ */

/* Neighbours in the window that are neighbours in the whole: *run of them lie behind
 * each other, over all but the leading `return` axes. */
static int32_t
find_runs(const window *w, int64_t *run)
{
    int32_t axis = w->part->rank;
    *run = 1;
    while (axis > 0) {
        axis--;
        *run *= w->part->dims[axis];
        if (w->part->dims[axis] != w->whole->dims[axis]) {
            break;
        }
    }
    return axis;
}

static ipu_status
run_slice(const ipu_kernel_call *call)
{
    const ipu_shape *part = &call->spec->outputs[0].shape;
    int64_t bytes = (int64_t)ipu_dtype_bytes(call->spec->outputs[0].dtype);
    int64_t elements = ipu_shape_elements(part);
    int64_t run;
    window w;
    find_window(call, part, 1, &w);
    int32_t axes = find_runs(&w, &run);
    for (int64_t i = 0; i < elements; i += run) {
        memcpy(ipu__at_mutable(call->outputs[0], i * bytes),
               ipu__at(call->inputs[0], offset_in(&w, axes, i / run) * bytes),
               (size_t)(run * bytes));
    }
    return IPU_OK;
}

static ipu_status
run_update(const ipu_kernel_call *call)
{
    const ipu_shape *part = &call->spec->inputs[1].shape;
    int64_t bytes = (int64_t)ipu_dtype_bytes(call->spec->outputs[0].dtype);
    int64_t elements = ipu_shape_elements(part);
    int64_t run;
    window w;
    take_whole(call);
    find_window(call, part, 2, &w);
    int32_t axes = find_runs(&w, &run);
    for (int64_t i = 0; i < elements; i += run) {
        memcpy(ipu__at_mutable(call->outputs[0], offset_in(&w, axes, i / run) * bytes),
               ipu__at(call->inputs[1], i * bytes), (size_t)(run * bytes));
    }
    return IPU_OK;
}

static ipu_status
run_add(const ipu_kernel_call *call)
{
    const ipu_shape *part = &call->spec->inputs[1].shape;
    ipu_dtype dtype = call->spec->outputs[0].dtype;
    int64_t bytes = (int64_t)ipu_dtype_bytes(dtype);
    int64_t elements = ipu_shape_elements(part);
    int64_t most = IPU_BLOCK_BYTES / 4;
    int64_t run;
    ipu__block block;
    window w;
    take_whole(call);
    find_window(call, part, 2, &w);
    ipu__block_prepare(&block, IPU_OP_ID_ADD, dtype, dtype,
                       (ipu_cpu_class)call->spec->choice[0]);
    int32_t axes = find_runs(&w, &run);
    for (int64_t i = 0; i < elements; i += run) {
        int64_t at = offset_in(&w, axes, i / run);
        for (int64_t done = 0; done < run; done += most) {
            void *to = ipu__at_mutable(call->outputs[0], (at + done) * bytes);
            (void)block.run(&block, to, to,
                            ipu__at(call->inputs[1], (i + done) * bytes), NULL,
                            ipu__min(run - done, most));
        }
    }
    return IPU_OK;
}

ipu_status
ipu_choose_dynamic_slice(ipu_ctx *ctx, ipu_kernel_spec *spec, ipu_cpu_class cpu)
{
    (void)ctx;
    (void)cpu;
    spec->run = run_slice;
    spec->kernel_name = "runs";
    return IPU_OK;
}

ipu_status
ipu_choose_dynamic_update_slice(ipu_ctx *ctx, ipu_kernel_spec *spec, ipu_cpu_class cpu)
{
    (void)ctx;
    (void)cpu;
    spec->run = run_update;
    spec->kernel_name = "runs";
    return IPU_OK;
}

ipu_status
ipu_choose_dynamic_add_slice(ipu_ctx *ctx, ipu_kernel_spec *spec, ipu_cpu_class cpu)
{
    (void)ctx;
    spec->run = run_add;
    spec->kernel_name = "runs";
    spec->choice[0] = (int64_t)cpu;
    return IPU_OK;
}
