# SPDX-License-Identifier: MIT
"""Element-wise functions: each is one row of the core's op table, or a few that fuse.

Binary ones broadcast as NumPy does. A number takes the dtype of the tensor beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ipu.tf._tensor.convert import Tensor, apply, cast, like, pair
from ipu.tf._tensor.dispatch import Binary, Unary, op
from ipu.tf._tensor.notes import note_logits
from ipu.tf.dtypes import as_dtype


def _document(function: Callable[..., Any], text: str, example: str, y: str) -> None:
    code, result = example.split(" -> ")
    function.__doc__ = (
        f"Return {text}.\n\n    Args:\n"
        f"        x: Anything that converts to a tensor.\n{y}\n    Example:\n"
        f"        >>> tf.{code}.numpy().tolist()\n        {result}\n    "
    )


def _unary(row: str, name: str, text: str, example: str) -> Unary:
    def function(x: Any, name: str | None = None) -> Tensor:
        return apply(row, (x,))

    function.__name__ = function.__qualname__ = name
    whole = text if text.startswith("whether") else f"{text} of each element"
    _document(function, whole, example, "")
    return op(function)


def _binary(row: str, name: str, text: str, example: str) -> Binary:
    def function(x: Any, y: Any, name: str | None = None) -> Tensor:
        both = type(x) is Tensor and type(y) is Tensor
        return apply(row, (x, y) if both else pair(x, y))

    function.__name__ = function.__qualname__ = name
    second = "        y: The same, of the dtype of ``x``; shapes broadcast.\n"
    _document(function, f"{text}, element by element", example, second)
    return op(function)


# fmt: off
negative = _unary("neg", "negative", "the negative", "negative([1, -2]) -> [-1, 2]")
abs = _unary("abs", "abs", "the absolute value", "abs([1, -2]) -> [1, 2]")
sign = _unary("sign", "sign", "the sign (-1, 0, 1)", "sign([3.0, 0.0]) -> [1.0, 0.0]")
floor = _unary("floor", "floor", "the largest integer that is not above",
               "floor([1.7, -1.2]) -> [1.0, -2.0]")
ceil = _unary("ceil", "ceil", "the smallest integer that is not below",
              "math.ceil([1.2, -1.7]) -> [2.0, -1.0]")
round = _unary("round", "round", "the nearest integer, the even one of two that are as "
               "near,", "round([0.5, 1.5, 2.4]) -> [0.0, 2.0, 2.0]")
rint = _unary("round", "rint", "the nearest integer, the even one of two that are as "
              "near,", "math.rint([2.5, -0.7]) -> [2.0, -1.0]")
exp = _unary("exp", "exp", "the exponential", "exp([0.0, 1.0]) -> [1.0, 2.718]")
expm1 = _unary("expm1", "expm1", "exp(x) - 1, exact near 0,",
               "math.expm1([0.0]) -> [0.0]")
log = _unary("log", "log", "the natural logarithm", "math.log([1.0]) -> [0.0]")
log1p = _unary("log1p", "log1p", "log(1 + x), exact near 0,",
               "math.log1p([0.0]) -> [0.0]")
sqrt = _unary("sqrt", "sqrt", "the square root", "sqrt([4.0]) -> [2.0]")
rsqrt = _unary("rsqrt", "rsqrt", "one over the square root",
               "math.rsqrt([4.0]) -> [0.5]")
square = _unary("square", "square", "the square", "square([3, -2]) -> [9, 4]")
reciprocal = _unary("reciprocal", "reciprocal", "one over the value",
                    "math.reciprocal([4.0]) -> [0.25]")
sin = _unary("sin", "sin", "the sine", "sin([0.0, 1.0]) -> [0.0, 0.841]")
cos = _unary("cos", "cos", "the cosine", "cos([0.0]) -> [1.0]")
tan = _unary("tan", "tan", "the tangent", "tan([0.0]) -> [0.0]")
asin = _unary("asin", "asin", "the inverse sine", "asin([0.0, 1.0]) -> [0.0, 1.571]")
acos = _unary("acos", "acos", "the inverse cosine", "acos([1.0]) -> [0.0]")
atan = _unary("atan", "atan", "the inverse tangent", "atan([0.0]) -> [0.0]")
sinh = _unary("sinh", "sinh", "the hyperbolic sine", "sinh([0.0]) -> [0.0]")
cosh = _unary("cosh", "cosh", "the hyperbolic cosine", "cosh([0.0]) -> [1.0]")
tanh = _unary("tanh", "tanh", "the hyperbolic tangent", "tanh([0.0]) -> [0.0]")
asinh = _unary("asinh", "asinh", "the inverse hyperbolic sine", "asinh([0.0]) -> [0.0]")
acosh = _unary("acosh", "acosh", "the inverse hyperbolic cosine",
               "acosh([1.0]) -> [0.0]")
atanh = _unary("atanh", "atanh", "the inverse hyperbolic tangent",
               "atanh([0.0]) -> [0.0]")
softplus = _unary("softplus", "softplus", "log(1 + exp(x)), without leaving the range,",
                  "math.softplus([0.0, 100.0]) -> [0.693, 100.0]")
erf = _unary("erf", "erf", "the error function", "math.erf([0.0, 1.0]) -> [0.0, 0.843]")
erfc = _unary("erfc", "erfc", "1 - erf(x), exact far out,", "math.erfc([0.0]) -> [1.0]")
erfinv = _unary("erfinv", "erfinv", "the inverse of erf", "math.erfinv([0.0]) -> [0.0]")
lgamma = _unary("lgamma", "lgamma", "the logarithm of the gamma function's size",
                "math.lgamma([1.0, 5.0]) -> [0.0, 3.178]")
digamma = _unary("digamma", "digamma", "the derivative of lgamma",
                 "math.digamma([1.0]) -> [-0.577]")
ndtri = _unary("ndtri", "ndtri", "the inverse of the normal distribution",
               "math.ndtri([0.5, 0.975]) -> [0.0, 1.96]")
bessel_i0e = _unary("bessel_i0e", "bessel_i0e", "Bessel's I0 times ``exp(-|x|)``,",
                    "math.bessel_i0e([0.0, 1.0]) -> [1.0, 0.466]")
bessel_i1e = _unary("bessel_i1e", "bessel_i1e", "Bessel's I1 times ``exp(-|x|)``,",
                    "math.bessel_i1e([0.0, 1.0]) -> [0.0, 0.208]")
relu = _unary("relu", "relu", "the larger of 0 and the value",
              "nn.relu([-1.0, 2.0]) -> [0.0, 2.0]")
logical_not = _unary("logical_not", "logical_not", "the negation",
                     "logical_not([True, False]) -> [False, True]")
is_nan = _unary("is_nan", "is_nan", "whether each element is not a number",
                "math.is_nan([1.0, float('nan')]) -> [False, True]")
is_inf = _unary("is_inf", "is_inf", "whether each element is infinite",
                "math.is_inf([1.0, float('inf')]) -> [False, True]")
is_finite = _unary("is_finite", "is_finite", "whether each element is finite",
                   "math.is_finite([1.0, float('inf')]) -> [True, False]")
identity = _unary("identity", "identity", "a copy", "identity([1, 2]) -> [1, 2]")
stop_gradient = _unary("stop_gradient", "stop_gradient", "the value, with no gradient "
                       "through it,", "stop_gradient([1, 2]) -> [1, 2]")
invert = _unary("bitwise_not", "invert", "all bits turned over",
                "bitwise.invert([0, 5]) -> [-1, -6]")
add = _binary("add", "add", "x + y", "add([1, 2], 3) -> [4, 5]")
subtract = _binary("sub", "subtract", "x - y", "subtract([1, 2], 3) -> [-2, -1]")
multiply = _binary("mul", "multiply", "x * y", "multiply([1, 2], 3) -> [3, 6]")
floordiv = _binary("floor_div", "floordiv", "x // y, rounded down",
                   "math.floordiv([7, -7], 2) -> [3, -4]")
floormod = _binary("floor_mod", "floormod", "x % y, with the sign of y",
                   "math.floormod([7, -7], 2) -> [1, 1]")
pow = _binary("pow", "pow", "x to the power of y", "pow([2, 3], 2) -> [4, 9]")
maximum = _binary("maximum", "maximum", "the larger of x and y, NaN where one is",
                  "maximum([1, 5], 3) -> [3, 5]")
minimum = _binary("minimum", "minimum", "the smaller of x and y, NaN where one is",
                  "minimum([1, 5], 3) -> [1, 3]")
equal = _binary("equal", "equal", "x == y", "equal([1, 2], 2) -> [False, True]")
not_equal = _binary("not_equal", "not_equal", "x != y",
                    "not_equal([1, 2], 2) -> [True, False]")
less = _binary("less", "less", "x < y", "less([1, 2], 2) -> [True, False]")
less_equal = _binary("less_equal", "less_equal", "x <= y",
                     "less_equal([2, 3], 2) -> [True, False]")
greater = _binary("greater", "greater", "x > y", "greater([2, 3], 2) -> [False, True]")
greater_equal = _binary("greater_equal", "greater_equal", "x >= y",
                        "greater_equal([1, 2], 2) -> [False, True]")
logical_and = _binary("logical_and", "logical_and", "x and y",
                      "logical_and([True, False], True) -> [True, False]")
logical_or = _binary("logical_or", "logical_or", "x or y",
                     "logical_or([True, False], False) -> [True, False]")
logical_xor = _binary("not_equal", "logical_xor", "x or y, but not both",
                      "math.logical_xor([True, False], True) -> [False, True]")
bitwise_and = _binary("bitwise_and", "bitwise_and", "x & y",
                      "bitwise.bitwise_and([6, 5], 3) -> [2, 1]")
bitwise_or = _binary("bitwise_or", "bitwise_or", "x | y",
                     "bitwise.bitwise_or([6, 5], 3) -> [7, 7]")
bitwise_xor = _binary("bitwise_xor", "bitwise_xor", "x ^ y",
                      "bitwise.bitwise_xor([6, 5], 3) -> [5, 6]")
left_shift = _binary("left_shift", "left_shift", "x << y",
                     "bitwise.left_shift([1, 3], 2) -> [4, 12]")
right_shift = _binary("right_shift", "right_shift", "x >> y, keeping the sign",
                      "bitwise.right_shift([-8, 8], 2) -> [-2, 2]")
# fmt: on


@op
def atan2(y: Any, x: Any, name: str | None = None) -> Tensor:
    """Return the angle of the point (``x``, ``y``), in (-pi, pi].

    Args:
        y: How far up the point is.
        x: How far to the right; of the dtype of ``y``.

    Example:
        >>> tf.atan2([1.0], [1.0]).numpy().tolist()
        [0.785]
    """
    return apply("atan2", pair(y, x))


@op
def igamma(a: Any, x: Any, name: str | None = None) -> Tensor:
    """Return the lower incomplete gamma function, regularised: from 0 to 1 along ``x``.

    Args:
        a: Positive.
        x: Not negative.

    Example:
        >>> tf.math.igamma([1.0], [1.0]).numpy().tolist()
        [0.632]
    """
    return apply("igamma", pair(a, x))


@op
def igammac(a: Any, x: Any, name: str | None = None) -> Tensor:
    """Return 1 - :func:`igamma`, exact far out.

    Example:
        >>> tf.math.igammac([1.0], [1.0]).numpy().tolist()
        [0.368]
    """
    return apply("igammac", pair(a, x))


@op
def zeta(x: Any, q: Any, name: str | None = None) -> Tensor:
    """Return the zeta function of Hurwitz: the sum of (q + k)^-x over k = 0, 1, 2, ...

    Args:
        x: More than 1; has no gradient.
        q: Where the sum begins.

    Example:
        >>> tf.math.zeta([2.0], [1.0]).numpy().tolist()
        [1.645]
    """
    return apply("zeta", pair(x, q))


@op
def polygamma(a: Any, x: Any, name: str | None = None) -> Tensor:
    """Return the a-th derivative of digamma.

    Args:
        a: Whole numbers, not negative; has no gradient.
        x: Where it is taken.

    Example:
        >>> tf.math.polygamma([1.0], [1.0]).numpy().tolist()
        [1.645]
    """
    return apply("polygamma", pair(a, x))


@op
def divide(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Return ``x / y`` element by element; integers divide in float32 (wide ones in
    float64).

    Example:
        >>> tf.divide([1, 2], 4).numpy().tolist()
        [0.25, 0.5]
    """
    a, b = pair(x, y)
    result: Tensor = a / b
    return result


@op
def truediv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Return the same as :func:`divide`.

    Example:
        >>> tf.truediv([3], 2).numpy().tolist()
        [1.5]
    """
    return divide(x, y)


@op
def truncatediv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Return ``x / y`` rounded towards 0, of integers.

    Example:
        >>> tf.truncatediv([7, -7], 2).numpy().tolist()
        [3, -3]
    """
    a, b = pair(x, y)
    down = apply("floor_div", (a, b))
    exact = apply("equal", (apply("mul", (down, b)), a))
    negative_result = apply("less", (down, like(0, down)))
    up = apply("add", (down, like(1, down)))
    keep = apply("logical_or", (exact, apply("logical_not", (negative_result,))))
    return apply("select", (keep, down, up))


@op
def truncatemod(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Return what :func:`truncatediv` leaves over; it has the sign of ``x``.

    Example:
        >>> tf.truncatemod([7, -7], 2).numpy().tolist()
        [1, -1]
    """
    a, b = pair(x, y)
    return a - b * truncatediv(a, b)


@op
def squared_difference(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Return ``(x - y) ** 2`` element by element.

    Example:
        >>> tf.math.squared_difference([1.0, 5.0], 2.0).numpy().tolist()
        [1.0, 9.0]
    """
    return apply("square", (apply("sub", pair(x, y)),))


@op
def divide_no_nan(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Return ``x / y``, and 0 where ``y`` is 0; also the gradient is 0 there.

    Example:
        >>> tf.math.divide_no_nan([1.0, 2.0], [0.0, 4.0]).numpy().tolist()
        [0.0, 0.5]
    """
    a, b = pair(x, y)
    empty = apply("equal", (b, like(0, b)))
    safe = apply("select", (empty, like(1, b), b))
    return apply("select", (empty, like(0, b), apply("div", (a, safe))))


@op
def reciprocal_no_nan(x: Any, name: str | None = None) -> Tensor:
    """Return ``1 / x``, and 0 where ``x`` is 0.

    Example:
        >>> tf.math.reciprocal_no_nan([0.0, 4.0]).numpy().tolist()
        [0.0, 0.25]
    """
    value = Tensor(x)
    return divide_no_nan(like(1, value), value)


def _unless_zero(x: Any, value: Callable[[Tensor], Tensor]) -> Tensor:
    """Return ``x * value``, and 0 where ``x`` is 0 whatever the value is there."""
    first = Tensor(x)
    empty = apply("equal", (first, like(0, first)))
    return apply("select", (empty, like(0, first), first * value(empty)))


@op
def multiply_no_nan(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Return ``x * y``, and 0 where ``y`` is 0 even if ``x`` is infinite or no number.

    Example:
        >>> tf.math.multiply_no_nan([float("inf"), 2.0], [0.0, 4.0]).numpy().tolist()
        [0.0, 8.0]
    """
    a, b = pair(x, y)
    return _unless_zero(b, lambda empty: apply("select", (empty, like(1, a), a)))


@op
def xlogy(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Return ``x * log(y)``, and 0 where ``x`` is 0.

    Example:
        >>> tf.math.xlogy([0.0, 2.0], [0.0, 1.0]).numpy().tolist()
        [0.0, 0.0]
    """
    a, b = pair(x, y)
    return _unless_zero(
        a, lambda empty: apply("log", (apply("select", (empty, like(1, b), b)),))
    )


@op
def xlog1py(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Return ``x * log(1 + y)``, and 0 where ``x`` is 0.

    Example:
        >>> tf.math.xlog1py([0.0, 2.0], [-1.0, 0.0]).numpy().tolist()
        [0.0, 0.0]
    """
    a, b = pair(x, y)
    return _unless_zero(
        a, lambda empty: apply("log1p", (apply("select", (empty, like(1, b), b)),))
    )


@op
def xdivy(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Return ``x / y``, and 0 where ``x`` is 0.

    Example:
        >>> tf.math.xdivy([0.0, 2.0], [0.0, 4.0]).numpy().tolist()
        [0.0, 0.5]
    """
    a, b = pair(x, y)
    empty = apply("equal", (a, like(0, a)))
    safe = apply("select", (empty, like(1, b), b))
    return apply("select", (empty, like(0, a), apply("div", (a, safe))))


@op
def sigmoid(x: Any, name: str | None = None) -> Tensor:
    """Return the logistic function of each element.

    Args:
        x: A floating-point tensor.

    Example:
        >>> tf.sigmoid([0.0]).numpy().tolist()
        [0.5]
    """
    logits = Tensor(x)
    return note_logits(apply("sigmoid", (logits,)), logits, "sigmoid")


@op
def log_sigmoid(x: Any, name: str | None = None) -> Tensor:
    """Return ``log(sigmoid(x))``, without leaving the range of floats.

    Example:
        >>> tf.math.log_sigmoid([-100.0, 100.0]).numpy().tolist()
        [-100.0, -0.0]
    """
    return -softplus(-Tensor(x))


@op
def scalar_mul(scalar: Any, x: Any, name: str | None = None) -> Tensor:
    """Return a scalar times a tensor.

    Example:
        >>> tf.scalar_mul(2.0, [1.0, 3.0]).numpy().tolist()
        [2.0, 6.0]
    """
    a, b = pair(scalar, x)
    if a.shape != ():
        raise ValueError(f"Only scalar multiply works, got shape {a.shape}")
    return a * b


@op
def polyval(coeffs: Any, x: Any, name: str | None = None) -> Tensor:
    """Return a polynomial with the given coefficients, highest power first.

    Args:
        coeffs: A list of tensors or numbers.
        x: Where it is evaluated.

    Example:
        >>> tf.math.polyval([1.0, 0.0, -1.0], [3.0]).numpy().tolist()
        [8.0]
    """
    if not isinstance(coeffs, list):
        raise ValueError(
            f"Argument coeffs must be list type. Received type {type(coeffs)}."
        )
    point = Tensor(x)
    if not coeffs:
        return like(0, point) * point
    total = like(coeffs[0], point)
    for coefficient in coeffs[1:]:
        total = total * point + like(coefficient, point)
    return total


@op
def add_n(inputs: Any, name: str | None = None) -> Tensor:
    """Return the sum of a list of tensors of one shape and dtype, in the order of the
    list.

    Raises:
        ValueError: The list is empty, or the shapes differ.

    Example:
        >>> tf.add_n([[1.0], [2.0], [3.0]]).numpy().tolist()
        [6.0]
    """
    tensors = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    if not tensors:
        raise ValueError("inputs must be an iterable of at least one Tensor")
    total = Tensor(tensors[0])
    for tensor in tensors[1:]:
        term = like(tensor, total)
        if term.shape != total.shape:
            raise ValueError(
                f"add_n adds tensors of one shape, but got {total.shape} and "
                f"{term.shape}."
            )
        total = apply("add", (total, term))
    return total


@op
def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Tensor:
    """Convert to ``dtype``; what does not fit becomes its least or largest value.

    Example:
        >>> tf.saturate_cast([300, -5], tf.uint8).numpy().tolist()
        [255, 0]
    """
    tensor = Tensor(value)
    own, wanted = tensor.dtype, as_dtype(dtype)
    if not wanted.is_bool and not own.is_bool:
        if float(own.min) < float(wanted.min):
            tensor = maximum(tensor, np.array(wanted.min).astype(own.as_numpy_dtype))
        if float(own.max) > float(wanted.max):
            tensor = minimum(tensor, np.array(wanted.max).astype(own.as_numpy_dtype))
    return cast(tensor, wanted)
