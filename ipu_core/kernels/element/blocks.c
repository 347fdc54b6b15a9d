/* SPDX-License-Identifier: MIT
 *
 * Block functions: one element-wise op over n contiguous elements. The element-wise
 * driver, fused chains and the write-back of matrix products all call these, which is
 * why fused and unfused forms agree to the bit. block_loops.h has the loops, of which
 * there is a form for each class of processor; here one is chosen. float16 without a
 * loop of its own widens to float32, runs the float32 function and rounds once. What has
 * no loop at all goes through the scalar definitions. No state, any thread. */
#include "kernels/element/blocks_impl.h"

static const ipu__block_form *
form_of(ipu_cpu_class cpu)
{
    return IPU_FOR_CLASS(cpu, ipu__blocks, ipu__blocks_generic);
}

void
ipu__halves_to_floats(float *out, const uint16_t *x, int64_t n, ipu_cpu_class cpu)
{
    form_of(cpu)->halves_to_floats(out, x, n);
}

void
ipu__floats_to_halves(uint16_t *out, const float *x, int64_t n, ipu_cpu_class cpu)
{
    form_of(cpu)->floats_to_halves(out, x, n);
}

const ipu__vector_f32 *
ipu__vector_f32_of(ipu_cpu_class cpu)
{
    return &form_of(cpu)->vector;
}

/* The scalar definition, for what is rare. */
static ipu__fault
by_scalars(const ipu__block *block, void *out, const void *a, const void *b,
           const void *c, int64_t n)
{
    ipu_dtype first = block->op == IPU_OP_ID_SELECT ? IPU_DTYPE_BOOL : block->in;
    for (int64_t i = 0; i < n; i++) {
        ipu__scalar operands[3] = {{.i = 0}};
        ipu__scalar result;
        operands[0] = ipu__scalar_load(first, a, i);
        if (block->operands > 1) {
            operands[1] = ipu__scalar_load(block->in, b, i);
        }
        if (block->operands > 2) {
            operands[2] = ipu__scalar_load(block->in, c, i);
        }
        ipu__fault fault =
            ipu__scalar_apply(block->op, block->in, block->out, operands, &result);
        if (fault != IPU_FAULT_NONE) {
            return fault;
        }
        ipu__scalar_store(block->out, out, i, result);
    }
    return IPU_FAULT_NONE;
}

/* The same of float16, whose operands are widened, to floats that round as the doubles
 * do. */
static ipu__fault
by_scalars_to_odd(const ipu__block *block, void *out, const void *a, const void *b,
                  const void *c, int64_t n)
{
    const float *wide[3] = {a, b, c};
    float *results = out;
    for (int64_t i = 0; i < n; i++) {
        ipu__scalar operands[3] = {{.i = 0}};
        ipu__scalar result;
        for (int32_t k = 0; k < (int32_t)block->operands; k++) {
            operands[k].f = (double)wide[k][i];
        }
        ipu__fault fault = ipu__scalar_apply(block->op, IPU_DTYPE_FLOAT64,
                                             IPU_DTYPE_FLOAT64, operands, &result);
        if (fault != IPU_FAULT_NONE) {
            return fault;
        }
        results[i] = ipu__float_to_odd(result.f);
    }
    return IPU_FAULT_NONE;
}

static ipu__block_fn *
find(const ipu__block_form *form, ipu_op op, ipu_dtype in, ipu_dtype out)
{
    if (op == IPU_OP_ID_SELECT) {
        return form->select[__builtin_ctzll(ipu_dtype_bytes(out))];
    }
    for (size_t i = 0; i < form->count; i++) {
        const ipu__block_row *row = &form->rows[i];
        if (row->op == op && row->in == in && row->out == out) {
            return row->run;
        }
    }
    return NULL;
}

static ipu__column_fn *
find_column(const ipu__block_form *form, ipu_op op, ipu_dtype dtype)
{
    for (size_t i = 0; i < form->column_count; i++) {
        const ipu__column_row *row = &form->column_rows[i];
        if (row->op == op && row->dtype == dtype) {
            return row->run;
        }
    }
    return NULL;
}

/* By a float32 function between, which becomes `block->inner`; NULL: there is none. */
static ipu__block_fn *
find_by_f32(const ipu__block_form *form, ipu__block *block)
{
    ipu_dtype middle = block->out;
    if (block->op == IPU_OP_ID_CAST && block->out == IPU_DTYPE_FLOAT16) {
        block->inner = block->in == IPU_DTYPE_FLOAT64
                           ? form->to_odd
                           : find(form, block->op, block->in, IPU_DTYPE_FLOAT32);
        return block->inner == NULL ? NULL : form->cast_by_f32;
    }
    if (block->in != IPU_DTYPE_FLOAT16) {
        return NULL;
    }
    middle = middle == IPU_DTYPE_FLOAT16 ? IPU_DTYPE_FLOAT32 : middle;
    block->inner = find(form, block->op, IPU_DTYPE_FLOAT32, middle);
    return block->inner == NULL ? NULL : form->through_f32;
}

void
ipu__block_prepare(ipu__block *block, ipu_op op, ipu_dtype in, ipu_dtype out,
                   ipu_cpu_class cpu)
{
    const ipu__block_form *form = form_of(cpu);
    block->op = op;
    block->in = in;
    block->out = out;
    block->operands = (uint8_t)ipu_op_info_of(op)->min_inputs;
    block->inner = NULL;
    block->run = find(form, op, in, out);
    block->column = find_column(form, op, in);
    if (block->run == NULL) {
        block->run = find_by_f32(form, block);
    }
    if (block->run == NULL && in == IPU_DTYPE_FLOAT16 && out == in) {
        block->run = form->through_f32;
        block->inner = by_scalars_to_odd;
    }
    if (block->run == NULL) {
        block->run = by_scalars;
    }
}
