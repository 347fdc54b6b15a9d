/* SPDX-License-Identifier: MIT
 *
 * Python's operators on tensors: `a + b`, `-a`, `a < b`. What stands beside a tensor
 * takes its dtype; each is one op, eager or traced. */
#define NO_IMPORT_ARRAY
#include "bind/operators.h"

/* Whether `object` can stand beside a tensor in an expression. */
static bool
is_operand(ipu_py_state *state, PyObject *object)
{
    return ipu_py_is_tensor(state, object) || PyLong_Check(object) ||
           PyFloat_Check(object) || ipu_py_is_array(object) || PyList_Check(object) ||
           PyObject_HasAttrString(object, "__ipu_tensor__") ||
           ipu_py_is_foreign(object);
}

/* One of them is a tensor. */
static ipu_py_state *
state_of_operands(PyObject *left, PyObject *right)
{
    ipu_py_state *state = ipu_py_state_of_type(Py_TYPE(left));
    if (state == NULL) {
        PyErr_Clear();
        state = ipu_py_state_of_type(Py_TYPE(right));
    }
    return state;
}

/* Python's true division: integers divide in floating point, wide ones in float64
 * where that exists. */
static ipu_dtype
quotient_dtype(ipu_py_state *state, ipu_dtype dtype)
{
    PyObject *open = ipu_py_open_trace(state);
    bool on_device = open != NULL && !ipu_py_trace_of(open)->graph->host;
    return ipu_dtype_bytes(dtype) >= 4 && !on_device ? IPU_DTYPE_FLOAT64
                                                     : IPU_DTYPE_FLOAT32;
}

static PyObject *
divide_integers(ipu_py_state *state, ipu_py_tensor *const inputs[2])
{
    ipu_dtype dtype = quotient_dtype(state, inputs[0]->type.dtype);
    ipu_py_tensor *casts[2] = {
        ipu_py_tensor_cast(state, inputs[0], dtype),
        ipu_py_tensor_cast(state, inputs[1], dtype),
    };
    PyObject *result = casts[0] == NULL || casts[1] == NULL
                           ? NULL
                           : ipu_py_apply(state, IPU_OP_ID_DIV, casts, 2, NULL, 0);
    Py_XDECREF(casts[0]);
    Py_XDECREF(casts[1]);
    return result;
}

static PyObject *
binary_op(PyObject *left, PyObject *right, ipu_op op)
{
    ipu_py_state *state = state_of_operands(left, right);
    if (state == NULL) {
        return NULL;
    }
    if (!is_operand(state, left) || !is_operand(state, right)) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    bool left_is_tensor = ipu_py_is_tensor(state, left);
    ipu_py_tensor *a = (ipu_py_tensor *)(left_is_tensor ? left : right);
    PyObject *other = left_is_tensor ? right : left;
    if (PyFloat_Check(other) && !ipu_dtype_is_float(a->type.dtype)) {
        PyErr_Format(
            PyExc_TypeError,
            "a float beside a tensor of dtype %s; convert the tensor with tf.cast",
            ipu_dtype_name(a->type.dtype));
        return NULL;
    }
    int dtype = (int)a->type.dtype; /* which a number takes */
    if (ipu_py_is_array(other)) {
        dtype = ipu_py_dtype_beside(other, a->type.dtype);
    } else if (ipu_py_is_foreign(other)) {
        dtype = -1;
    }
    ipu_py_tensor *b = ipu_py_as_tensor(state, other, dtype);
    if (b == NULL) {
        return NULL;
    }
    ipu_py_tensor *inputs[2] = {left_is_tensor ? a : b, left_is_tensor ? b : a};
    PyObject *result = op == IPU_OP_ID_DIV && !ipu_dtype_is_float(inputs[0]->type.dtype)
                           ? divide_integers(state, inputs)
                           : ipu_py_apply(state, op, inputs, 2, NULL, 0);
    Py_DECREF(b);
    return result;
}

static PyObject *
unary_op(PyObject *self, ipu_op op)
{
    ipu_py_tensor *input = (ipu_py_tensor *)self;
    return ipu_py_apply(ipu_py_state_of_type(Py_TYPE(self)), op, &input, 1, NULL, 0);
}

#define BINARY_SLOT(name, NAME) \
    PyObject *ipu_py_operator_##name(PyObject *left, PyObject *right) \
    { \
        return binary_op(left, right, IPU_OP_ID_##NAME); \
    }
BINARY_SLOT(add, ADD)
BINARY_SLOT(sub, SUB)
BINARY_SLOT(mul, MUL)
BINARY_SLOT(div, DIV)
BINARY_SLOT(floor_div, FLOOR_DIV)
BINARY_SLOT(mod, FLOOR_MOD)
BINARY_SLOT(matmul, MATMUL)
#undef BINARY_SLOT

static bool
is_of_bools(ipu_py_state *state, PyObject *object)
{
    return ipu_py_is_tensor(state, object) &&
           ((ipu_py_tensor *)object)->type.dtype == IPU_DTYPE_BOOL;
}

/* `a & b` and its like: `logical` for bools, `bitwise` for integers. */
static PyObject *
bits_op(PyObject *left, PyObject *right, ipu_op logical, ipu_op bitwise)
{
    ipu_py_state *state = state_of_operands(left, right);
    if (state == NULL) {
        return NULL;
    }
    bool of_bools = is_of_bools(state, left) || is_of_bools(state, right);
    return binary_op(left, right, of_bools ? logical : bitwise);
}

#define BITS_SLOT(name, LOGICAL, BITWISE) \
    PyObject *ipu_py_operator_##name(PyObject *left, PyObject *right) \
    { \
        return bits_op(left, right, IPU_OP_ID_##LOGICAL, IPU_OP_ID_##BITWISE); \
    }
BITS_SLOT(and, LOGICAL_AND, BITWISE_AND)
BITS_SLOT(or, LOGICAL_OR, BITWISE_OR)
BITS_SLOT(xor, NOT_EQUAL, BITWISE_XOR)
#undef BITS_SLOT

PyObject *
ipu_py_operator_pow(PyObject *left, PyObject *right, PyObject *modulus)
{
    if (modulus != Py_None) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    return binary_op(left, right, IPU_OP_ID_POW);
}

PyObject *
ipu_py_operator_neg(PyObject *self)
{
    return unary_op(self, IPU_OP_ID_NEG);
}

PyObject *
ipu_py_operator_abs(PyObject *self)
{
    return unary_op(self, IPU_OP_ID_ABS);
}

PyObject *
ipu_py_operator_invert(PyObject *self)
{
    return unary_op(self, is_of_bools(ipu_py_state_of_type(Py_TYPE(self)), self)
                              ? IPU_OP_ID_LOGICAL_NOT
                              : IPU_OP_ID_BITWISE_NOT);
}

PyObject *
ipu_py_operator_compare(PyObject *left, PyObject *right, int relation)
{
    static const ipu_op ops[] = {
        [Py_LT] = IPU_OP_ID_LESS,    [Py_LE] = IPU_OP_ID_LESS_EQUAL,
        [Py_EQ] = IPU_OP_ID_EQUAL,   [Py_NE] = IPU_OP_ID_NOT_EQUAL,
        [Py_GT] = IPU_OP_ID_GREATER, [Py_GE] = IPU_OP_ID_GREATER_EQUAL,
    };
    if (right == Py_None) {
        if (relation == Py_EQ) {
            Py_RETURN_FALSE;
        }
        if (relation == Py_NE) {
            Py_RETURN_TRUE;
        }
    }
    return binary_op(left, right, ops[relation]);
}
