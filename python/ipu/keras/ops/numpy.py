# SPDX-License-Identifier: MIT
"""``ipu.keras.ops.numpy``: functions of NumPy."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import tf
from ipu._text.exports import export, offered
from ipu.keras.ops import _bodies as b, _table as t
from ipu.keras.ops._table import (
    arithmetic as _arithmetic,
    binary as _binary,
    floating as _floating,
    op as _op,
    reduction as _reduction,
    unary as _unary,
)
from ipu.tf._tensor.convert import apply as _apply

_t, _f, _d = t.tensor, t.floats, t.dtype_of
_LN2, _LN10 = math.log(2.0), math.log(10.0)


def _bits(function: t.Function, text: str, example: str) -> t.Function:
    return _op(lambda x, y: t.on_pair(function, x, y), f"{text} of integers", example)


# fmt: off
# --- of one tensor
abs = _unary(tf.abs, "Give the absolute value", "abs([1, -2]) -> [1, 2]")
absolute = abs
arccos = _floating(tf.acos, "Give the inverse cosine", "arccos([1]) -> [0.0]")
arccosh = _floating(tf.acosh, "Give the inverse hyperbolic cosine",
    "arccosh([1]) -> [0.0]")
arcsin = _floating(tf.asin, "Give the inverse sine", "arcsin([0, 1]) -> [0.0, 1.571]")
arcsinh = _floating(tf.asinh, "Give the inverse hyperbolic sine",
    "arcsinh([0]) -> [0.0]")
arctan = _floating(tf.atan, "Give the inverse tangent", "arctan([0]) -> [0.0]")
arctanh = _floating(tf.atanh, "Give the inverse hyperbolic tangent",
    "arctanh([0]) -> [0.0]")
cbrt = _floating(lambda x: tf.sign(x) * tf.pow(tf.abs(x), 1 / 3), "Give the cube root",
    "cbrt([-8.0]) -> [-2.0]")
ceil = _floating(tf.math.ceil, "Give the least integer that is not below",
    "ceil([1.2]) -> [2.0]")
copy = _unary(tf.identity, "Give a copy", "copy([1.0]) -> [1.0]")
cos = _floating(tf.cos, "Give the cosine", "cos([0.0]) -> [1.0]")
cosh = _floating(tf.cosh, "Give the hyperbolic cosine", "cosh([0.0]) -> [1.0]")
deg2rad = _floating(lambda x: x * (math.pi / 180), "Turn degrees into radians",
    "deg2rad([180.0]) -> [3.142]")
exp = _floating(tf.exp, "Give the exponential", "exp([0, 1]) -> [1.0, 2.718]")
exp2 = _floating(lambda x: tf.exp(x * _LN2), "Give 2 to the power",
    "exp2([0, 3]) -> [1.0, 8.0]")
expm1 = _floating(tf.math.expm1, "Give exp(x) - 1, exact near 0,",
    "expm1([0.0]) -> [0.0]")
floor = _floating(tf.floor, "Give the largest integer that is not above",
    "floor([1.7, -1.2]) -> [1.0, -2.0]")
isfinite = _floating(tf.math.is_finite, "Tell finiteness", "isfinite([1.0, "
    "float('inf')]) -> [True, False]")
isinf = _floating(tf.math.is_inf, "Tell infiniteness", "isinf([1.0, float('inf')]) -> "
    "[False, True]")
isnan = _floating(tf.math.is_nan, "Tell where elements are NaN", "isnan([1.0, "
    "float('nan')]) -> [False, True]")
isneginf = _floating(lambda x: tf.equal(x, -math.inf), "Tell minus infinity",
    "isneginf([1.0, -float('inf')]) -> [False, True]")
isposinf = _floating(lambda x: tf.equal(x, math.inf), "Tell infinity",
    "isposinf([1.0, float('inf')]) -> [False, True]")
log = _floating(tf.math.log, "Give the natural logarithm", "log([1]) -> [0.0]")
log10 = _floating(lambda x: tf.math.log(x) / _LN10, "Give the logarithm to base 10",
    "log10([100]) -> [2.0]")
log1p = _floating(tf.math.log1p, "Give log(1 + x), exact near 0,",
    "log1p([0.0]) -> [0.0]")
log2 = _floating(lambda x: _apply("log2", (x,)), "Give the logarithm to base 2",
    "log2([8]) -> [3.0]")
logical_not = _unary(tf.logical_not, "Give the negation", "logical_not([True, False]) "
    "-> [False, True]", t.truth)
negative = _unary(tf.negative, "Give the negative", "negative([1, -2]) -> [-1, 2]")
ones_like = _op(lambda x, dtype=None: tf.ones_like(_t(x), dtype),
    "Give ones of the shape of a tensor", "ones_like([2.0, 3.0]) -> [1.0, 1.0]")
rad2deg = _floating(lambda x: x * (180 / math.pi), "Turn radians into degrees",
    "rad2deg([0.0]) -> [0.0]")
reciprocal = _floating(tf.math.reciprocal, "Give one over the value",
    "reciprocal([4.0]) -> [0.25]")
round = _op(lambda x, decimals=0: tf.round(_t(x)) if decimals == 0 else tf.round(_f(x) *
    10.0**decimals) / 10.0**decimals, "Round each element to so many decimals, halves "
    "to the even digit", "round([0.5, 1.5, 2.6]) -> [0.0, 2.0, 3.0]")
sign = _unary(tf.sign, "Give the sign", "sign([3.0, 0.0]) -> [1.0, 0.0]")
signbit = _unary(lambda x: x < 0, "Tell whether it is below 0,",
    "signbit([-1.0, 2.0]) -> [True, False]")
sin = _floating(tf.sin, "Give the sine", "sin([0.0]) -> [0.0]")
sinc = _floating(lambda x: tf.where(tf.equal(x, 0.0), 1.0, tf.sin(math.pi * x) /
    tf.where(tf.equal(x, 0.0), 1.0, math.pi * x)), "Give sin(pi x) / (pi x)",
    "sinc([0.0, 1.0]) -> [1.0, 0.0]")
sinh = _floating(tf.sinh, "Give the hyperbolic sine", "sinh([0.0]) -> [0.0]")
sqrt = _floating(tf.sqrt, "Give the square root", "sqrt([4]) -> [2.0]")
square = _unary(tf.square, "Give the square", "square([3, -2]) -> [9, 4]", t.tensor)
tan = _floating(tf.tan, "Give the tangent", "tan([0.0]) -> [0.0]")
tanh = _floating(tf.tanh, "Give the hyperbolic tangent", "tanh([0.0]) -> [0.0]")
trunc = _unary(lambda x: tf.sign(x) * tf.floor(tf.abs(x)) if x.dtype.is_floating else x,
    "Cut the fraction", "trunc([-1.7, 1.7]) -> [-1.0, 1.0]")
zeros_like = _op(lambda x, dtype=None: tf.zeros_like(_t(x), dtype),
    "Give zeros of the shape of a tensor", "zeros_like([2.0, 3.0]) -> [0.0, 0.0]")
empty_like = zeros_like

# --- of two tensors
add = _arithmetic(tf.add, "Add two tensors", "add([1, 2], 0.5) -> [1.5, 2.5]")
arctan2 = _binary(tf.atan2, "Give the angle of points (x2, x1)",
    "arctan2([0.0], [1.0]) -> [0.0]", t.float_pair)
bitwise_and = _bits(tf.bitwise.bitwise_and, "Keep bits of both",
    "bitwise_and([6], [3]) -> [2]")
bitwise_invert = _unary(tf.bitwise.invert, "Turn the bits",
    "bitwise_invert([0]) -> [-1]")
bitwise_left_shift = _bits(tf.bitwise.left_shift, "Shift bits to the left",
    "bitwise_left_shift([1], [3]) -> [8]")
bitwise_not = bitwise_invert
bitwise_or = _bits(tf.bitwise.bitwise_or, "Keep bits of either",
    "bitwise_or([6], [3]) -> [7]")
bitwise_right_shift = _bits(tf.bitwise.right_shift, "Shift bits to the right",
    "bitwise_right_shift([8], [3]) -> [1]")
bitwise_xor = _bits(tf.bitwise.bitwise_xor, "Keep bits of one alone",
    "bitwise_xor([6], [3]) -> [5]")
left_shift = bitwise_left_shift
right_shift = bitwise_right_shift
divide = _binary(tf.divide, "Divide two tensors", "divide([1, 2], 2) -> [0.5, 1.0]",
    t.float_pair)
divide_no_nan = _binary(tf.math.divide_no_nan, "Divide two tensors; what is divided by "
    "0 is 0", "divide_no_nan([1.0], [0.0]) -> [0.0]", t.float_pair)
equal = _binary(tf.equal, "Tell whether x1 == x2", "equal([1, 2], [1, 3]) -> [True, "
    "False]")
floor_divide = _arithmetic(tf.math.floordiv, "Divide, and round down",
    "floor_divide([7, -7], 2) -> [3, -4]")
greater = _arithmetic(tf.greater, "Tell whether x1 > x2", "greater([1, 2], 1) -> "
    "[False, True]")
greater_equal = _arithmetic(tf.greater_equal, "Tell whether x1 >= x2",
    "greater_equal([1, 2], 2) -> [False, True]")
heaviside = _binary(lambda a, b: tf.where(tf.equal(a, 0.0), b, tf.cast(a > 0.0,
    a.dtype)), "Give 0 below 0, 1 above, x2 at 0", "heaviside([-1.0, 0.0], 0.5) -> "
    "[0.0, 0.5]", t.float_pair)
hypot = _binary(lambda a, b: tf.sqrt(a * a + b * b), "Give the length of (x1, x2)",
    "hypot([3.0], [4.0]) -> [5.0]", t.float_pair)
less = _arithmetic(tf.less, "Tell whether x1 < x2", "less([1, 2], 2) -> [True, False]")
less_equal = _arithmetic(tf.less_equal, "Tell whether x1 <= x2",
    "less_equal([1, 2], 1) -> [True, False]")
logaddexp = _binary(lambda a, b: tf.maximum(a, b) + tf.math.softplus(-tf.abs(a - b)),
    "Give log(exp(x1) + exp(x2))", "logaddexp([0.0], [0.0]) -> [0.693]", t.float_pair)
logaddexp2 = _binary(lambda a, b: tf.maximum(a, b) + tf.math.softplus(-tf.abs(a - b) *
    _LN2) / _LN2, "Give log2(2**x1 + 2**x2)", "logaddexp2([0.0], [0.0]) -> [1.0]",
    t.float_pair)
logical_and = _binary(tf.logical_and, "Tell whether both hold",
    "logical_and([True], [False]) -> [False]", t.truths)
logical_or = _binary(tf.logical_or, "Tell whether either holds",
    "logical_or([True], [False]) -> [True]", t.truths)
logical_xor = _binary(tf.math.logical_xor, "Tell whether one alone holds",
    "logical_xor([True], [True]) -> [False]", t.truths)
maximum = _arithmetic(tf.maximum, "Give the larger one", "maximum([1, 5], 3) -> [3, 5]")
minimum = _arithmetic(tf.minimum, "Give the smaller one", "minimum([1, 5], 3) -> [1, "
    "3]")
mod = _arithmetic(tf.math.floormod, "Give the rest of a division, with the sign of x2",
    "mod([7, -7], 4) -> [3, 1]")
multiply = _arithmetic(tf.multiply, "Multiply two tensors", "multiply([1, 2], 3) -> "
    "[3, 6]")
not_equal = _binary(tf.not_equal, "Tell whether x1 != x2", "not_equal([1, 2], [1, 3]) "
    "-> [False, True]")
nextafter = _binary(tf.math.nextafter, "Give the next number on the way to x2",
    "nextafter([1.0], [2.0]) -> [1.0]", t.float_pair)
power = _arithmetic(tf.pow, "Raise x1 to the power x2", "power([2, 3], 2) -> [4, 9]")
subtract = _binary(tf.subtract, "Subtract x2", "subtract([1, 2], 0.5) -> [0.5, 1.5]")
true_divide = divide
isclose = _op(b.isclose, "Tell, for each pair, whether two numbers are near",
    "isclose([1.0, 2.0], [1.0, 2.1]) -> [True, False]")

# --- along axes
all = _reduction(tf.reduce_all, "Tell whether all elements are true",
    "all([[True, False]], axis=1) -> [False]", t.truth)
any = _reduction(tf.reduce_any, "Tell whether an element is true",
    "any([[True, False]], axis=1) -> [True]", t.truth)
argmax = _op(b.place_of(tf.argmax), "Give the place of the largest element",
    "argmax([[1, 3, 2]], axis=1) -> [1]")
argmin = _op(b.place_of(tf.argmin), "Give the place of the least element",
    "argmin([[1, 3, 2]], axis=1) -> [0]")
average = _op(b.average, "Give the mean along axes, of elements of different weights",
    "average([1, 3], weights=[3, 1]) -> 1.5")
count_nonzero = _op(lambda x, axis=None: tf.reduce_sum(tf.cast(t.truth(x), "int32"),
    axis), "Count what is not 0 along axes", "count_nonzero([0, 1, 2]) -> 2")
cumprod = _op(b.running(tf.math.cumprod), "Give products of the elements so far; "
    "without an axis of all", "cumprod([1, 2, 3]) -> [1, 2, 6]")
cumsum = _op(b.running(tf.cumsum), "Give sums of the elements so far; without an axis "
    "of all", "cumsum([1, 2, 3]) -> [1, 3, 6]")
max = _op(b.extreme(tf.reduce_max), "Give the largest element along axes",
    "max([[1, 2]], axis=1) -> [2]")
amax = max
mean = _reduction(tf.reduce_mean, "Give the mean", "mean([[1, 2]], axis=1) -> [1.5]",
    _f)
median = _op(lambda x, axis=None, keepdims=False: b.quantile(x, 0.5, axis,
    keepdims=keepdims), "Give the middle of the sorted elements along axes",
    "median([1, 4, 2]) -> 2.0")
min = _op(b.extreme(tf.reduce_min), "Give the least element along axes",
    "min([[1, 2]], axis=1) -> [1]")
amin = min
prod = _op(lambda x, axis=None, keepdims=False, dtype=None: tf.reduce_prod(t.sums(x) if
    dtype is None else _t(x, dtype), axis, keepdims), "Multiply the elements along "
    "axes", "prod([[2, 3]], axis=1) -> [6]")
quantile = _op(b.quantile, "Give what a part ``q`` of the elements is below, along "
    "axes", "quantile([1, 2, 3], 0.25) -> 1.5")
std = _reduction(tf.math.reduce_std, "Give the standard deviation",
    "std([[1, 3]], axis=1) -> [1.0]", _f)
sum = _reduction(tf.reduce_sum, "Add the elements", "sum([[1, 2]], axis=1) -> [3]",
    t.sums)
trapezoid = _op(lambda y, x=None, dx=1.0, axis=-1: tf.reduce_sum((b.moveaxis(_f(y),
    axis, -1)[..., 1:] + b.moveaxis(_f(y), axis, -1)[..., :-1]) / 2 * (dx if x is None
    else b.diff(_f(x))), -1), "Give the area below a line through points",
    "trapezoid([1.0, 2.0, 3.0]) -> 4.0")
var = _reduction(tf.math.reduce_variance, "Give the variance",
    "var([[1, 3]], axis=1) -> [1.0]", _f)

# --- products
cross = _op(lambda x1, x2, axisa=-1, axisb=-1, axisc=-1, axis=None:
    b.moveaxis(tf.linalg.cross(*t.pair(b.moveaxis(x1, axisa if axis is None else axis,
    -1), b.moveaxis(x2, axisb if axis is None else axis, -1))), -1, axisc if axis is
    None else axis), "Give the cross product of vectors of three elements",
    "cross([1, 0, 0], [0, 1, 0]) -> [0, 0, 1]")
dot = _op(b.dot, "Multiply along the last axis of x1 and the last but one of x2",
    "dot([1, 2], [3, 4]) -> 11")
einsum = _op(lambda subscripts, *operands: tf.einsum(subscripts, *t.pair(*operands)),
    "Sum products by a rule of letters", "einsum('ij,j->i', [[1.0, 2.0]], [1.0, 1.0]) "
    "-> [3.0]")
inner = _op(lambda x1, x2: t.on_pair(tf.tensordot, x1, x2, [[-1], [-1]]) if np.ndim(x1)
    and np.ndim(x2) else t.on_pair(tf.multiply, x1, x2), "Multiply along the last axes",
    "inner([1, 2], [3, 4]) -> 11")
kron = _op(lambda x1, x2: functools.reduce(lambda a, c: tf.reshape(a[:, None, :, None] *
    c[None, :, None, :], [a.shape[0] * c.shape[0], -1]), t.pair(x1, x2)),
    "Give the Kronecker product of matrices", "kron([[1, 2]], [[1], [1]]) -> [[1, 2], "
    "[1, 2]]")
matmul = _op(b.matmul, "Multiply matrices", "matmul([[1, 2]], [[3], [4]]) -> [[11]]")
outer = _op(lambda x1, x2: b.dot(tf.reshape(_t(x1), [-1, 1]), tf.reshape(_t(x2), [1,
    -1])), "Multiply each element with each", "outer([1, 2], [3, 4]) -> [[3, 4], [6, "
    "8]]")
tensordot = _op(lambda x1, x2, axes=2: t.on_pair(tf.tensordot, x1, x2, axes),
    "Multiply along axes", "tensordot([1, 2], [3, 4], 1) -> 11")
vdot = _op(lambda x1, x2: b.dot(tf.reshape(_t(x1), [-1]), tf.reshape(_t(x2), [-1])),
    "Multiply two tensors as if they were vectors", "vdot([[1, 2]], [[3, 4]]) -> 11")
trace = _op(b.trace, "Add the elements of a diagonal", "trace([[1, 2], [3, 4]]) -> 5")

# --- made of numbers
arange = _op(b.arange, "Give numbers from start, 0 where it is left out, to before "
    "stop", "arange(3) -> [0, 1, 2]")
array = _op(lambda x, dtype=None: _t(x, dtype), "Make a tensor",
    "array([1, 2]) -> [1, 2]")
bartlett = _op(lambda x: _f(np.bartlett(x)), "Give Bartlett's window of so many "
    "numbers", "bartlett(3) -> [0.0, 1.0, 0.0]")
blackman = _op(lambda x: _f(np.blackman(x)), "Give Blackman's window of so many "
    "numbers", "blackman(1) -> [1.0]")
eye = _op(lambda N, M=None, k=0, dtype=None: _t(np.eye(N, M, k), _d(dtype)),
    "Give ones on a diagonal", "eye(2) -> [[1.0, 0.0], [0.0, 1.0]]")
full = _op(lambda shape, fill_value, dtype=None: tf.broadcast_to(_t(fill_value,
    _d(dtype)), shape), "Give a tensor of one number", "full([2], 3) -> [3.0, 3.0]")
full_like = _op(lambda x, fill_value, dtype=None: tf.broadcast_to(_t(fill_value, dtype
    or _t(x).dtype), _t(x).shape), "Give one number in the shape of a tensor",
    "full_like([1, 2], 3) -> [3, 3]")
hamming = _op(lambda x: _f(np.hamming(x)), "Give Hamming's window of so many numbers",
    "hamming(1) -> [1.0]")
hanning = _op(lambda x: _f(np.hanning(x)), "Give Hann's window of so many numbers",
    "hanning(3) -> [0.0, 1.0, 0.0]")
identity = _op(lambda n, dtype=None: _t(np.eye(n), _d(dtype)),
    "Give ones on the diagonal", "identity(1) -> [[1.0]]")
kaiser = _op(lambda x, beta: _f(np.kaiser(x, beta)), "Give Kaiser's window of so many "
    "numbers", "kaiser(1, 2.0) -> [1.0]")
linspace = _op(b.linspace, "Give numbers at equal distances", "linspace(0, 1, 3) -> "
    "[0.0, 0.5, 1.0]")
logspace = _op(lambda start, stop, num=50, endpoint=True, base=10, dtype=None, axis=0:
    tf.cast(tf.pow(float(base), b.linspace(start, stop, num, endpoint, axis=axis)),
    _d(dtype)), "Give numbers at equal ratios", "logspace(0, 2, 3) -> [1.0, 10.0, "
    "100.0]")
meshgrid = _op(lambda *x, indexing="xy": tf.meshgrid(*(_t(one) for one in x),
    indexing=indexing), "Give the coordinates of a grid", "meshgrid([1, 2], [3])[0] -> "
    "[[1, 2]]")
ones = _op(lambda shape, dtype=None: tf.ones(shape, _d(dtype)), "Give ones",
    "ones([2]) -> [1.0, 1.0]")
tri = _op(lambda N, M=None, k=0, dtype=None: _t(np.tri(N, M, k), _d(dtype)),
    "Give ones on and below a diagonal", "tri(2) -> [[1.0, 0.0], [1.0, 1.0]]")
vander = _op(lambda x, N=None, increasing=False: tf.stack([_t(x) ** k for k in (range(N
    or _t(x).shape[0]) if increasing else reversed(range(N or _t(x).shape[0])))], -1),
    "Give powers of each element", "vander([2, 3], 2) -> [[2, 1], [3, 1]]")
zeros = _op(lambda shape, dtype=None: tf.zeros(shape, _d(dtype)), "Give zeros",
    "zeros([2]) -> [0.0, 0.0]")
empty = zeros

# --- moved, put together, cut
append = _op(lambda x1, x2, axis=None: tf.concat([b.whole_axis(x, axis)[0] for x in
    t.pair(x1, x2)], axis or 0), "Put x2 after x1", "append([1], [2, 3]) -> [1, 2, 3]")
array_split = _op(lambda x, indices_or_sections, axis=0: tf.split(_t(x), [len(one) for
    one in np.array_split(range(_t(x).shape[axis]), indices_or_sections)], axis),
    "Cut into so many parts of nearly one size", "array_split([1, 2, 3], 2)[0] -> [1, "
    "2]")
broadcast_to = _op(lambda x, shape: tf.broadcast_to(_t(x), shape),
    "Repeat along axes of size 1, to a shape", "broadcast_to([1, 2], [2, 2]) -> [[1, "
    "2], [1, 2]]")
concatenate = _op(lambda xs, axis=0: tf.concat(t.pair(*xs), axis),
    "Put tensors together along an axis", "concatenate([[1], [2]]) -> [1, 2]")
diag = _op(b.diag, "Give the diagonal of a matrix, or the matrix of a diagonal",
    "diag([[1, 2], [3, 4]]) -> [1, 4]")
diagonal = _op(b.diagonal, "Give a diagonal of matrices", "diagonal([[1, 2], [3, 4]]) "
    "-> [1, 4]")
diff = _op(b.diff, "Give the differences of neighbours, n times",
    "diff([1, 4, 9]) -> [3, 5]")
expand_dims = _op(lambda x, axis: functools.reduce(tf.expand_dims,
    sorted(np.atleast_1d(axis).tolist()), _t(x)), "Add axes of size 1",
    "expand_dims([1, 2], 0) -> [[1, 2]]")
flip = _op(b.flip, "Turn the order along axes; None is all of them",
    "flip([1, 2, 3]) -> [3, 2, 1]")
fliplr = _op(lambda x: b.flip(x, 1), "Turn the order of columns",
    "fliplr([[1, 2]]) -> [[2, 1]]")
flipud = _op(lambda x: b.flip(x, 0), "Turn the order of rows",
    "flipud([1, 2]) -> [2, 1]")
get_item = _op(lambda x, key: _t(x)[key], "Give what ``x[key]`` shows",
    "get_item([1, 2], 0) -> 1")
hstack = _op(lambda xs: tf.concat(t.pair(*xs), 0 if np.ndim(xs[0]) < 2 else 1),
    "Put tensors beside each other", "hstack([[1], [2]]) -> [1, 2]")
moveaxis = _op(b.moveaxis, "Move axes to other places", "moveaxis([[1, 2]], 0, 1) -> "
    "[[1], [2]]")
pad = _op(b.pad, "Put numbers around a tensor", "pad([1], 1) -> [0, 1, 0]")
ravel = _op(lambda x: tf.reshape(_t(x), [-1]), "Lay a tensor flat",
    "ravel([[1, 2]]) -> [1, 2]")
repeat = _op(lambda x, repeats, axis=None: tf.repeat(_t(x), repeats, axis),
    "Repeat each element", "repeat([1, 2], 2) -> [1, 1, 2, 2]")
reshape = _op(lambda x, newshape: tf.reshape(_t(x), newshape),
    "Give the elements in another shape", "reshape([1, 2], [2, 1]) -> [[1], [2]]")
roll = _op(lambda x, shift, axis=None: tf.roll(_t(x), shift, axis) if axis is not None
    else tf.reshape(tf.roll(tf.reshape(_t(x), [-1]), shift, 0), _t(x).shape),
    "Move elements on; what falls off comes back in front", "roll([1, 2, 3], 1) -> [3, "
    "1, 2]")
rot90 = _op(lambda array, k=1, axes=(0, 1): [lambda x: x, lambda x: b.flip(_swapped(x,
    *axes), axes[0]), lambda x: b.flip(x, axes), lambda x: _swapped(b.flip(x, axes[0]),
    *axes)][k % 4](_t(array)), "Turn by quarters in a plane", "rot90([[1, 2]]) -> "
    "[[2], [1]]")
split = _op(b.split, "Cut into parts of one size, or at places",
    "split([1, 2, 3], [1])[1] -> [2, 3]")
squeeze = _op(lambda x, axis=None: tf.squeeze(_t(x), axis), "Take axes of size 1 away",
    "squeeze([[1, 2]]) -> [1, 2]")
stack = _op(lambda x, axis=0: tf.stack(t.pair(*x), axis), "Put tensors together along "
    "a new axis", "stack([[1], [2]]) -> [[1], [2]]")
swapaxes = _op(lambda x, axis1, axis2: _swapped(_t(x), axis1, axis2),
    "Exchange two axes", "swapaxes([[1, 2]], 0, 1) -> [[1], [2]]")
tile = _op(lambda x, repeats: (lambda x, r: tf.tile(tf.reshape(x, [1] * (len(r) -
    x.ndim) + list(x.shape)), [1] * (x.ndim - len(r)) + r))(_t(x),
    np.atleast_1d(repeats).tolist()), "Repeat a tensor along axes",
    "tile([1, 2], 2) -> [1, 2, 1, 2]")
transpose = _op(lambda x, axes=None: tf.transpose(_t(x), axes),
    "Put the axes into another order", "transpose([[1, 2]]) -> [[1], [2]]")
tril = _op(lambda x, k=0: b.triangle(x, k, False), "Keep what is on and below a "
    "diagonal", "tril([[1, 2], [3, 4]]) -> [[1, 0], [3, 4]]")
triu = _op(lambda x, k=0: b.triangle(x, k, True), "Keep what is on and above a "
    "diagonal", "triu([[1, 2], [3, 4]]) -> [[1, 2], [0, 4]]")
vstack = _op(lambda xs: tf.concat([x if x.ndim > 1 else tf.reshape(x, [1, -1]) for x in
    t.pair(*xs)], 0), "Put tensors below each other", "vstack([[1], [2]]) -> [[1], "
    "[2]]")

# --- chosen, sorted, counted
argsort = _op(lambda x, axis=-1: tf.argsort(*b.whole_axis(x, axis), stable=True),
    "Give the places of the sorted elements", "argsort([3, 1, 2]) -> [1, 2, 0]")
bincount = _op(lambda x, weights=None, minlength=0: tf.math.bincount(_t(x), None if
    weights is None else _t(weights), minlength), "Count each number",
    "bincount([1, 1, 2]) -> [0, 2, 1]")
clip = _op(lambda x, x_min, x_max: tf.minimum(*t.pair(tf.maximum(*t.pair(x, x_min)),
    x_max)), "Put each element into [x_min, x_max]", "clip([-2.0, 5.0], 0, 1) -> [0.0, "
    "1.0]")
digitize = _op(lambda x, bins: tf.reshape(tf.searchsorted(_f(bins), tf.reshape(_f(x),
    [-1]), "right"), _t(x).shape), "Give the number of the bin of each element",
    "digitize([0.5, 1.5], [1.0]) -> [0, 1]")
isin = _op(lambda x1, x2, assume_unique=False, invert=False:
    tf.not_equal(tf.reduce_any(tf.equal(*t.pair(_t(x1)[..., None], tf.reshape(_t(x2),
    [-1]))), -1), invert), "Tell whether each element is among x2",
    "isin([1, 2], [2]) -> [False, True]")
nan_to_num = _op(b.nan_to_num, "Replace NaN and infinities",
    "nan_to_num([float('nan'), 1.0]) -> [0.0, 1.0]")
nonzero = _op(lambda x: [tf.cast(one, "int32") for one in
    tf.unstack(tf.where(t.truth(x)), axis=1)], "Give the places of what is not 0, a "
    "tensor for each axis; not in functions, where sizes are known",
    "nonzero([0, 3])[0] -> [1]")
searchsorted = _op(lambda sorted_sequence, values, side="left":
    tf.reshape(tf.searchsorted(t.pair(sorted_sequence, values)[0],
    tf.reshape(t.pair(sorted_sequence, values)[1], [-1]), side), _t(values).shape),
    "Give the places where values belong in a sorted vector", "searchsorted([1, 3], "
    "[2]) -> [1]")
select = _op(lambda condlist, choicelist, default=0: functools.reduce(lambda rest, one:
    tf.where(t.truth(one[0]), *t.pair(one[1], rest)), reversed(list(zip(condlist,
    choicelist, strict=True))), default), "Give elements of the first tensor whose "
    "condition holds", "select([[True, False]], [[1, 2]], 7) -> [1, 7]")
sort = _op(lambda x, axis=-1: tf.sort(*b.whole_axis(x, axis)), "Sort the elements",
    "sort([3, 1, 2]) -> [1, 2, 3]")
take = _op(b.take, "Give elements by their places, which count from the end where they "
    "are negative", "take([1, 2, 3], [-1, 0]) -> [3, 1]")
take_along_axis = _op(b.take_along_axis, "Give elements by their places in each row",
    "take_along_axis([[1, 2]], [[1]], 1) -> [[2]]")
unravel_index = _op(lambda indices, shape: [_t(indices) // math.prod(shape[k + 1:]) % n
    for k, n in enumerate(shape)], "Give the coordinates of places in a flat tensor",
    "unravel_index([5], [2, 3])[0] -> [1]")
where = _op(lambda condition, x1=None, x2=None: nonzero(condition) if x1 is None else
    tf.where(t.truth(condition), *t.pair(x1, x2)), "Choose by a condition",
    "where([True, False], [1, 2], 0) -> [1, 0]")
# fmt: on


def _swapped(x: Any, axis1: int, axis2: int) -> Any:
    order = list(range(x.ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return tf.transpose(x, order)


def ndim(x: Any) -> int:
    """Return the number of axes.

    Example:
        >>> keras.ops.ndim([[1, 2]])
        2
    """
    return len(x.shape) if hasattr(x, "shape") else t.tensor(x).ndim


def size(x: Any) -> Any:
    """Return the number of elements, an int where it is known.

    Example:
        >>> keras.ops.size([[1, 2]])
        2
    """
    shape = x.shape if hasattr(x, "shape") else t.tensor(x).shape
    return tf.size(x) if None in tuple(shape) else math.prod(shape)


if not TYPE_CHECKING:
    export(__name__, offered(__name__))
