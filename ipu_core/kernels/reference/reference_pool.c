/* SPDX-License-Identifier: MIT
 *
 * Reference kernels of pooling, and the geometry that fast ones share. Floats narrower
 * than float64 are summed in float32, in the order that ops.def names, so fast kernels
 * have the same bits. Runs on the calling thread; allocates nothing. */
#include "kernels/pool/pool_impl.h"

/* --- geometry --------------------------------------------------------------------- */

void
ipu__pool_plan(const ipu_kernel_spec *spec, ipu__pool *pool)
{
    bool spreads = spec->op == IPU_OP_ID_AVERAGE_POOL_GRAD;
    const ipu_shape *x = spreads ? &spec->outputs[0].shape : &spec->inputs[0].shape;
    const ipu_shape *y = spreads ? &spec->inputs[0].shape
                         : spec->op == IPU_OP_ID_MAX_POOL_GRAD
                             ? &spec->inputs[1].shape
                             : &spec->outputs[0].shape;
    uint32_t count;
    const int64_t *window = ipu_attrs_ints(spec->attrs, IPU_ATTR_WINDOW, &count);
    const int64_t *strides = ipu_attrs_ints(spec->attrs, IPU_ATTR_STRIDES, &count);
    const int64_t *dilations = ipu_attrs_ints(spec->attrs, IPU_ATTR_DILATIONS, &count);
    const int64_t *padding = ipu_attrs_ints(spec->attrs, IPU_ATTR_PADDING, &count);
    int32_t given = x->rank - 2;
    pool->images = x->dims[0];
    pool->channels = x->dims[x->rank - 1];
    for (int32_t a = 0; a < IPU_POOL_AXES; a++) {
        int32_t i = a - (IPU_POOL_AXES - given);
        pool->axes[a] = (ipu__pool_axis){1, 1, 1, 1, 1, 0};
        if (i >= 0) {
            pool->axes[a] = (ipu__pool_axis){x->dims[i + 1],
                                             y->dims[i + 1],
                                             window[i],
                                             strides[i],
                                             dilations == NULL ? 1 : dilations[i],
                                             padding == NULL ? 0 : padding[2 * i]};
        }
    }
}

void
ipu__pool_inside(const ipu__pool_axis *axis, int64_t o, int64_t *begin, int64_t *end)
{
    int64_t start = o * axis->stride - axis->low;
    int64_t rest = axis->size - start;
    *begin = start < 0 ? ipu__ceil_div(-start, axis->dilation) : 0;
    *end = rest <= 0 ? 0 : ipu__min(axis->window, ipu__ceil_div(rest, axis->dilation));
    *begin = ipu__min(*begin, *end);
}

void
ipu__pool_windows(const ipu__pool_axis *axis, int64_t i, int64_t *first, int64_t *end)
{
    int64_t last = i + axis->low;
    int64_t before = last - (axis->window - 1) * axis->dilation;
    *first = before <= 0 ? 0 : ipu__ceil_div(before, axis->stride);
    *end = ipu__min(axis->windows, last / axis->stride + 1);
}

int64_t
ipu__pool_number(const ipu__pool_axis *axis, int64_t i, int64_t o)
{
    int64_t distance = i + axis->low - o * axis->stride;
    return distance % axis->dilation == 0 ? distance / axis->dilation : -1;
}

int32_t
ipu__pool_levels(const ipu__pool *pool, ipu_op op, ipu_dtype dtype)
{
    const ipu__pool_axis *axes = pool->axes;
    const bool spreads = op == IPU_OP_ID_AVERAGE_POOL_GRAD;
    int64_t terms = op == IPU_OP_ID_AVERAGE_POOL || spreads ? 1 : 0;
    for (int32_t a = 0; a < IPU_POOL_AXES; a++) {
        int64_t reach = (axes[a].window - 1) * axes[a].dilation + 1;
        int64_t met = ipu__min(axes[a].window, ipu__ceil_div(reach, axes[a].stride));
        terms *= spreads ? ipu__min(axes[a].windows, met)
                         : ipu__min(axes[a].window, axes[a].size);
    }
    int64_t last = ipu__pool_position(pool, axes[0].window - 1, axes[1].window - 1,
                                      axes[2].window - 1);
    return terms <= IPU_SUM_BLOCK || dtype == IPU_DTYPE_FLOAT64
               ? 0
               : ipu__sum_levels(ipu__sum_blocks(last + 1));
}

/* --- the elements of a window ------------------------------------------------------
 */

/* A window of a channel, and its element that comes next. */
typedef struct walk {
    const ipu__pool *pool;
    int64_t base; /* of image and channel, in elements of x */
    int64_t window[IPU_POOL_AXES];
    int64_t begin[IPU_POOL_AXES];
    int64_t end[IPU_POOL_AXES];
    int64_t at[IPU_POOL_AXES];
    int64_t position; /* of the element that came last */
    int64_t count;
} walk;

/* Element `y` of the result, flat. */
static void
walk_start(walk *w, const ipu__pool *pool, int64_t y)
{
    int64_t image = y / pool->channels;
    w->pool = pool;
    w->count = 1;
    for (int32_t a = IPU_POOL_AXES - 1; a >= 0; a--) {
        const ipu__pool_axis *axis = &pool->axes[a];
        w->window[a] = image % axis->windows;
        image /= axis->windows;
        ipu__pool_inside(axis, w->window[a], &w->begin[a], &w->end[a]);
        w->at[a] = w->begin[a];
        w->count *= w->end[a] - w->begin[a];
    }
    w->base = image;
    for (int32_t a = 0; a < IPU_POOL_AXES; a++) {
        w->base *= pool->axes[a].size;
    }
    w->base = w->base * pool->channels + y % pool->channels;
}

/* Where in x the next element lies; called `count` times. */
static int64_t
walk_next(walk *w)
{
    int64_t offset = 0;
    w->position = ipu__pool_position(w->pool, w->at[0], w->at[1], w->at[2]);
    for (int32_t a = 0; a < IPU_POOL_AXES; a++) {
        const ipu__pool_axis *axis = &w->pool->axes[a];
        offset = offset * axis->size + w->window[a] * axis->stride +
                 w->at[a] * axis->dilation - axis->low;
    }
    for (int32_t a = IPU_POOL_AXES - 1; a >= 0; a--) {
        if (++w->at[a] < w->end[a]) {
            break;
        }
        w->at[a] = w->begin[a];
    }
    return w->base + offset * w->pool->channels;
}

/* The first element of the window that is its maximum, or NaN, or -1 in an empty
 * window. */
static int64_t
place_of_maximum(const ipu__pool *pool, int64_t y, ipu_dtype dtype, const void *x,
                 const void *maxima)
{
    walk w;
    ipu__scalar most = ipu__scalar_load(dtype, maxima, y);
    walk_start(&w, pool, y);
    for (int64_t k = 0; k < w.count; k++) {
        int64_t at = walk_next(&w);
        const ipu__scalar element = ipu__scalar_load(dtype, x, at);
        const ipu__scalar beside_most[3] = {element, most, {.i = 0}};
        const ipu__scalar beside_itself[3] = {element, element, {.i = 0}};
        ipu__scalar is_most;
        ipu__scalar is_nan;
        (void)ipu__scalar_apply(IPU_OP_ID_EQUAL, dtype, IPU_DTYPE_BOOL, beside_most,
                                &is_most);
        (void)ipu__scalar_apply(IPU_OP_ID_NOT_EQUAL, dtype, IPU_DTYPE_BOOL,
                                beside_itself, &is_nan);
        if (is_most.u != 0 || is_nan.u != 0) {
            return at;
        }
    }
    return -1;
}

static ipu__scalar
rounded_sum(ipu_dtype dtype, ipu__scalar a, double b)
{
    a.f = dtype == IPU_DTYPE_FLOAT64 ? a.f + b : (double)((float)a.f + (float)b);
    return a;
}

/* A sum by positions, which do not go back (sum_tree.h); a chain where there are no
 * levels. */
typedef struct sum {
    ipu__scalar chain;
    int32_t levels;
    int64_t leaf;
    float totals[IPU_SUM_LEVELS];
} sum;

static void
sum_add(sum *s, ipu_dtype dtype, int64_t position, double x)
{
    const int64_t next = position / IPU_SUM_BLOCK;
    if (s->levels > 0 && next != s->leaf) {
        float chain = (float)s->chain.f;
        ipu__sum_carry(&chain, s->totals, 1, ipu__sum_carries(s->leaf, next), 1);
        s->chain.f = (double)chain;
        s->leaf = next;
    }
    s->chain = rounded_sum(dtype, s->chain, x);
}

static ipu__scalar
sum_end(const sum *s)
{
    ipu__scalar total = s->chain;
    float chain = (float)total.f;
    if (s->leaf > 0) {
        ipu__sum_end(&chain, s->totals, 1, s->levels, 1);
        total.f = (double)chain;
    }
    return total;
}

static double
share_of(ipu_dtype dtype, double total, int64_t count)
{
    return dtype == IPU_DTYPE_FLOAT64 ? total / (double)count
                                      : (double)((float)total / (float)count);
}

/* --- kernels -----------------------------------------------------------------------
 */

ipu_status
ipu_reference_max_pool(const ipu_kernel_call *call)
{
    ipu_dtype dtype = call->spec->inputs[0].dtype;
    int64_t results = ipu_shape_elements(&call->spec->outputs[0].shape);
    ipu__pool pool;
    ipu__pool_plan(call->spec, &pool);
    for (int64_t y = 0; y < results; y++) {
        walk w;
        walk_start(&w, &pool, y);
        ipu__scalar most = ipu__scalar_end(dtype, false);
        for (int64_t k = 0; k < w.count; k++) {
            ipu__scalar operands[3] = {most, {.i = 0}, {.i = 0}};
            operands[1] = ipu__scalar_load(dtype, call->inputs[0], walk_next(&w));
            (void)ipu__scalar_apply(IPU_OP_ID_MAXIMUM, dtype, dtype, operands, &most);
        }
        ipu__scalar_store(dtype, call->outputs[0], y, most);
    }
    return IPU_OK;
}

ipu_status
ipu_reference_average_pool(const ipu_kernel_call *call)
{
    ipu_dtype dtype = call->spec->inputs[0].dtype;
    int64_t results = ipu_shape_elements(&call->spec->outputs[0].shape);
    ipu__pool pool;
    ipu__pool_plan(call->spec, &pool);
    const int32_t levels = ipu__pool_levels(&pool, call->spec->op, dtype);
    for (int64_t y = 0; y < results; y++) {
        sum s = {.chain = {.f = 0.0}, .levels = levels};
        walk w;
        walk_start(&w, &pool, y);
        for (int64_t k = 0; k < w.count; k++) {
            ipu__scalar x = ipu__scalar_load(dtype, call->inputs[0], walk_next(&w));
            sum_add(&s, dtype, w.position, x.f);
        }
        ipu__scalar mean = sum_end(&s);
        mean.f = w.count == 0 ? 0.0 : share_of(dtype, mean.f, w.count);
        ipu__scalar_store(dtype, call->outputs[0], y, mean);
    }
    return IPU_OK;
}

ipu_status
ipu_reference_max_pool_pick(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    ipu_dtype dtype = spec->outputs[0].dtype;
    int64_t results = ipu_shape_elements(&spec->outputs[0].shape);
    ipu__pool pool;
    ipu__pool_plan(spec, &pool);
    for (int64_t y = 0; y < results; y++) {
        int64_t place = place_of_maximum(&pool, y, spec->inputs[0].dtype,
                                         call->inputs[0], call->inputs[1]);
        ipu__scalar value = ipu__scalar_from_double(dtype, 0.0);
        if (place >= 0) {
            value = ipu__scalar_load(dtype, call->inputs[2], place);
        }
        ipu__scalar_store(dtype, call->outputs[0], y, value);
    }
    return IPU_OK;
}

/* Element i of dx: what each window gives that it is in, in the order of the windows.
 */
static ipu__scalar
gathered(const ipu_kernel_call *call, const ipu__pool *pool, int64_t i)
{
    const ipu_kernel_spec *spec = call->spec;
    ipu_dtype dtype = spec->outputs[0].dtype;
    bool whole = spec->op == IPU_OP_ID_MAX_POOL_GRAD;
    int64_t at[IPU_POOL_AXES];
    int64_t first[IPU_POOL_AXES];
    int64_t end[IPU_POOL_AXES];
    int64_t image = i / pool->channels;
    sum s = {.chain = {.f = 0.0}, .levels = ipu__pool_levels(pool, spec->op, dtype)};
    for (int32_t a = IPU_POOL_AXES - 1; a >= 0; a--) {
        at[a] = image % pool->axes[a].size;
        image /= pool->axes[a].size;
        ipu__pool_windows(&pool->axes[a], at[a], &first[a], &end[a]);
    }
    for (int64_t d = first[0]; d < end[0]; d++) {
        for (int64_t h = first[1]; h < end[1]; h++) {
            for (int64_t v = first[2]; v < end[2]; v++) {
                const ipu__pool_axis *axes = pool->axes;
                int64_t row = (image * axes[0].windows + d) * axes[1].windows + h;
                int64_t y =
                    (row * axes[2].windows + v) * pool->channels + i % pool->channels;
                int64_t kd = ipu__pool_number(&axes[0], at[0], d);
                int64_t kh = ipu__pool_number(&axes[1], at[1], h);
                int64_t kw = ipu__pool_number(&axes[2], at[2], v);
                if (kd < 0 || kh < 0 || kw < 0) {
                    continue;
                }
                double dy = ipu__scalar_load(dtype, call->inputs[whole ? 2 : 0], y).f;
                if (!whole) {
                    walk w;
                    int64_t position = ipu__pool_position(pool, axes[0].window - 1 - kd,
                                                          axes[1].window - 1 - kh,
                                                          axes[2].window - 1 - kw);
                    walk_start(&w, pool, y);
                    sum_add(&s, dtype, position, share_of(dtype, dy, w.count));
                } else if (place_of_maximum(pool, y, dtype, call->inputs[0],
                                            call->inputs[1]) == i) {
                    s.chain = rounded_sum(dtype, s.chain, dy);
                }
            }
        }
    }
    return sum_end(&s);
}

ipu_status
ipu_reference_max_pool_grad(const ipu_kernel_call *call)
{
    int64_t elements = ipu_shape_elements(&call->spec->outputs[0].shape);
    ipu__pool pool;
    ipu__pool_plan(call->spec, &pool);
    for (int64_t i = 0; i < elements; i++) {
        ipu__scalar_store(call->spec->outputs[0].dtype, call->outputs[0], i,
                          gathered(call, &pool, i));
    }
    return IPU_OK;
}
