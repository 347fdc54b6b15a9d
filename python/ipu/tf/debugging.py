# SPDX-License-Identifier: MIT
"""``tf.debugging``: assertions on tensors.

Where the values are known an assertion fails at once. In a function that is traced it
is checked on the device, in each run; the error comes when the run has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ipu._core import Tensor
from ipu._text import tracebacks
from ipu._text.errors import InvalidArgumentError
from ipu._text.exports import export
from ipu.tf._functions.prints import tell_host
from ipu.tf._graph import mode
from ipu.tf._graph.reached import always
from ipu.tf._ops import creation, elementwise, reductions
from ipu.tf._tensor.dispatch import op
from ipu.tf.dtypes import as_dtype


def _show(data: Sequence[Any], arrays: Sequence[Any], summarize: int) -> str:
    values = iter(arrays)
    parts = []
    for one in data:
        if _is_tensor(one):
            flat = np.asarray(next(values)).ravel()
            shown = " ".join(str(v) for v in flat[:summarize])
            parts.append(f"[{shown}{' ...' if flat.size > summarize else ''}]")
        else:
            parts.append(str(one))
    return " ".join(parts)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) or hasattr(value, "__ipu_tensor__")


@mode.kept_for_sessions
def Assert(
    condition: Any,
    data: Sequence[Any],
    summarize: int | None = 3,
    name: str | None = None,
) -> None:
    """Check that all of ``condition`` is true.

    Args:
        condition: bool, of any shape.
        data: Tensors and Python values to show where it is not.
        summarize: How many elements of each tensor; None is 3.

    Raises:
        InvalidArgumentError: It is false. In a function: when its run has ended.

    Example:
        >>> tf.debugging.Assert(tf.constant(1) > 0, ["must be positive"])
    """
    most = 3 if summarize is None else summarize
    tensor = Tensor(condition)
    if tensor.ndim > 0:
        tensor = reductions.reduce_all(tensor)
    if not tensor.is_symbolic:
        if not bool(tensor):
            arrays = [Tensor(d) for d in data if _is_tensor(d)]
            if not any(a.is_symbolic for a in arrays):
                text = _show(data, [a.numpy() for a in arrays], most)
            else:
                text = " ".join(str(d) for d in data if not _is_tensor(d))
            raise InvalidArgumentError(f"assertion failed: {text}")
        return
    _assert_on_device(tensor, data, most)


def _assert_on_device(condition: Tensor, data: Sequence[Any], summarize: int) -> None:
    from ipu.tf import control_flow

    def fail(arrays: Sequence[Any]) -> None:
        text = _show(data, arrays, summarize)
        raise InvalidArgumentError(f"assertion failed: {text}")

    def report() -> None:
        tensors = [d for d in data if _is_tensor(d)]
        tell_host("An assertion", tensors, fail)

    with always():
        control_flow.cond(condition, lambda: None, report)


def _message(message: Any, default: str) -> str:
    return default if message is None else f"{message} {default}".strip()


def _checked(
    name: str, text: str, shown: str, holds: Callable[[Any, Any], Tensor]
) -> Callable[..., None]:
    def check(
        x: Any,
        y: Any,
        message: Any = None,
        summarize: int | None = None,
        name: str | None = None,
    ) -> None:
        a = Tensor(x)
        b = y if _is_tensor(y) else Tensor(y, a.dtype.name)
        told = _message(message, f"Condition x {text} y did not hold element-wise:")
        Assert(holds(a, b), [told, "x =", a, "y =", b], summarize)

    check.__name__ = check.__qualname__ = name
    check.__doc__ = f"""Check ``x {text} y`` element by element, as :func:`Assert`.

    Example:
        >>> tf.debugging.{check.__name__}(tf.constant([3, 2]), {shown})
    """
    return mode.kept_for_sessions(check)


assert_equal = _checked("assert_equal", "==", "[3, 2]", lambda a, b: a == b)
assert_none_equal = _checked("assert_none_equal", "!=", "[2, 3]", lambda a, b: a != b)
assert_less = _checked("assert_less", "<", "[4, 3]", lambda a, b: a < b)
assert_less_equal = _checked("assert_less_equal", "<=", "[3, 3]", lambda a, b: a <= b)
assert_greater = _checked("assert_greater", ">", "[2, 1]", lambda a, b: a > b)
assert_greater_equal = _checked(
    "assert_greater_equal", ">=", "[3, 1]", lambda a, b: a >= b
)


def _sign(
    name: str, text: str, shown: str, holds: Callable[[Any], Tensor]
) -> Callable[..., None]:
    def check(
        x: Any,
        message: Any = None,
        summarize: int | None = None,
        name: str | None = None,
    ) -> None:
        tensor = Tensor(x)
        told = _message(message, f"Condition x {text} did not hold element-wise:")
        Assert(holds(tensor), [told, "x =", tensor], summarize)

    check.__name__ = check.__qualname__ = name
    check.__doc__ = f"""Check ``x {text}`` element by element, as :func:`Assert`.

    Example:
        >>> tf.debugging.{check.__name__}(tf.constant({shown}))
    """
    return mode.kept_for_sessions(check)


assert_positive = _sign("assert_positive", "> 0", "[0.5, 2.0]", lambda x: x > 0)
assert_negative = _sign("assert_negative", "< 0", "[-0.5, -2.0]", lambda x: x < 0)
assert_non_negative = _sign(
    "assert_non_negative", ">= 0", "[0.0, 2.0]", lambda x: x >= 0
)
assert_non_positive = _sign(
    "assert_non_positive", "<= 0", "[0.0, -2.0]", lambda x: x <= 0
)


@mode.kept_for_sessions
def assert_near(
    x: Any,
    y: Any,
    rtol: Any = None,
    atol: Any = None,
    message: Any = None,
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Check ``|x - y| <= atol + rtol * |y|``, as :func:`Assert`.

    Args:
        x: A float tensor.
        y: Another.
        rtol: Ten times the dtype's resolution where None.
        atol: The same.
        message: Before the values in the error.
        summarize: How many elements are shown.

    Example:
        >>> tf.debugging.assert_near(tf.constant([1.0]), [1.0000001])
    """
    a, b = Tensor(x), Tensor(y)
    small = 10.0 * float(np.finfo(a.dtype.as_numpy_dtype).eps)
    bound = (small if atol is None else atol) + (
        small if rtol is None else rtol
    ) * elementwise.abs(b)
    told = _message(message, "x and y not equal to tolerance")
    Assert(elementwise.abs(a - b) <= bound, [told, "x =", a, "y =", b], summarize)


@op
def check_numerics(tensor: Any, message: str, name: str | None = None) -> Tensor:
    """Return a tensor whose elements are all finite.

    Raises:
        InvalidArgumentError: One is NaN or infinite. In a function: when its run has
            ended.

    Example:
        >>> float(tf.debugging.check_numerics(tf.constant(2.0), "weights"))
        2.0
    """
    value = Tensor(tensor)
    finite = (value - value) == creation.zeros_like(value)
    Assert(finite, [f"{message} : Tensor had NaN or Inf values", value])
    return value


@op
def assert_all_finite(x: Any, message: str, name: str | None = None) -> Tensor:
    """Work like :func:`check_numerics`.

    Example:
        >>> tf.debugging.assert_all_finite([1.0, 2.0], "weights").numpy().tolist()
        [1.0, 2.0]
    """
    return check_numerics(x, message)


# --- what is known when a function is traced -----------------------------------------


def _rank_error(x: Any, wanted: str, message: Any) -> ValueError:
    value = Tensor(x)
    text = f"Tensor must have rank {wanted}. Received rank {value.ndim}, shape "
    return ValueError(_message(message, f"{text}{tuple(value.shape)}."))


@mode.kept_for_sessions
def assert_rank(x: Any, rank: Any, message: Any = None, name: str = "") -> None:
    """Check the number of dimensions.

    Raises:
        ValueError: It is another.

    Example:
        >>> tf.debugging.assert_rank(tf.ones((2, 3)), 2)
    """
    if Tensor(x).ndim != int(rank):
        raise _rank_error(x, str(int(rank)), message)


@mode.kept_for_sessions
def assert_rank_at_least(
    x: Any, rank: Any, message: Any = None, name: str = ""
) -> None:
    """Check that there are at least ``rank`` dimensions.

    Example:
        >>> tf.debugging.assert_rank_at_least(tf.ones((2, 3, 4)), 2)
    """
    if Tensor(x).ndim < int(rank):
        raise _rank_error(x, f"at least {int(rank)}", message)


@mode.kept_for_sessions
def assert_rank_in(
    x: Any, ranks: Sequence[Any], message: Any = None, name: str = ""
) -> None:
    """Check that the number of dimensions is one of ``ranks``.

    Example:
        >>> tf.debugging.assert_rank_in(tf.ones((2, 3)), (2, 4))
    """
    if Tensor(x).ndim not in [int(r) for r in ranks]:
        raise _rank_error(x, f"in {[int(r) for r in ranks]}", message)


@op
def assert_scalar(tensor: Any, message: Any = None, name: str | None = None) -> Tensor:
    """Check that a tensor has no dimensions.

    Example:
        >>> float(tf.debugging.assert_scalar(tf.constant(1.0)))
        1.0
    """
    value = Tensor(tensor)
    if value.ndim != 0:
        told = f"Expected scalar shape, saw shape: {tuple(value.shape)}."
        raise ValueError(_message(message, told))
    return value


def assert_type(
    tensor: Any, tf_type: Any, message: Any = None, name: str | None = None
) -> None:
    """Check the dtype.

    Raises:
        TypeError: It is another.

    Example:
        >>> tf.debugging.assert_type(tf.constant(1.0), tf.float32)
    """
    value = Tensor(tensor)
    if value.dtype != as_dtype(tf_type):
        told = f"tensor must be of type {as_dtype(tf_type)!r}; got {value.dtype!r}"
        raise TypeError(_message(message, told))


def assert_integer(x: Any, message: Any = None, name: str | None = None) -> None:
    """Check that the dtype is an integer one.

    Example:
        >>> tf.debugging.assert_integer(tf.constant([1, 2]))
    """
    value = Tensor(x)
    if not value.dtype.is_integer:
        told = f"Expected 'x' to be integer type. Found: {value.dtype!r}"
        raise TypeError(_message(message, told))


def assert_same_float_dtype(
    tensors: Sequence[Any] | None = None, dtype: Any = None
) -> Any:
    """Check that all dtypes are one floating-point dtype, and give it.

    Example:
        >>> a, b = tf.constant(1.0), tf.constant(2.0)
        >>> tf.debugging.assert_same_float_dtype([a, b]).name
        'float32'
    """
    found = [Tensor(t).dtype for t in tensors or []]
    wanted = as_dtype(dtype) if dtype is not None else None
    for one in found:
        if wanted is not None and one != wanted:
            raise ValueError(f"Tensor type {one!r} does not match {wanted!r}.")
        wanted = one
    wanted = as_dtype("float32") if wanted is None else wanted
    if not wanted.is_floating:
        raise ValueError(f"Expected floating point type, got {wanted!r}.")
    return wanted


def is_numeric_tensor(tensor: Any) -> bool:
    """Return whether it is a tensor of numbers.

    Example:
        >>> tf.debugging.is_numeric_tensor(tf.constant([1.0]))
        True
        >>> tf.debugging.is_numeric_tensor(1.0)
        False
    """
    return _is_tensor(tensor) and not tensor.dtype.is_bool


def assert_shapes(
    shapes: Any,
    data: Any = None,
    summarize: int | None = None,
    message: Any = None,
    name: str | None = None,
) -> None:
    """Check shapes against each other.

    Args:
        shapes: Pairs of a tensor and a sequence of sizes: an int, a name that stands
            for one size wherever it is used, or None for any.
        data, summarize: Accepted and not used.
        message: Before the error.

    Raises:
        ValueError: A shape does not fit.

    Example:
        >>> x, y = tf.ones((8, 3)), tf.ones((8,))
        >>> tf.debugging.assert_shapes([(x, ("batch", 3)), (y, ("batch",))])
    """
    pairs = shapes.items() if hasattr(shapes, "items") else shapes
    sizes: dict[str, int] = {}
    for tensor, wanted in pairs:
        shape = tuple(Tensor(tensor).shape)
        fits = len(shape) == len(wanted)
        for size, symbol in zip(shape, wanted, strict=False):
            if isinstance(symbol, str) and not symbol.isdigit():
                fits = fits and sizes.setdefault(symbol, size) == size
            elif symbol is not None:
                fits = fits and int(symbol) == size
        if not fits:
            told = f"Tensor of shape {shape} must have shape {tuple(wanted)}"
            told += f" where {sizes}." if sizes else "."
            raise ValueError(_message(message, told))


def enable_traceback_filtering() -> None:
    """Let tracebacks show frames of the user's program alone, as they do by default.

    Example:
        >>> tf.debugging.enable_traceback_filtering()
        >>> tf.debugging.is_traceback_filtering_enabled()
        True
    """
    tracebacks.set_enabled(True)


def disable_traceback_filtering() -> None:
    """Let tracebacks show the frames of this package too.

    The environment variable ``IPU_TRACEBACK_FILTERING=off`` does it from the start.

    Example:
        >>> tf.debugging.disable_traceback_filtering()
        >>> tf.debugging.is_traceback_filtering_enabled()
        False
        >>> tf.debugging.enable_traceback_filtering()
    """
    tracebacks.set_enabled(False)


def is_traceback_filtering_enabled() -> bool:
    """Return whether the frames of this package are taken out of tracebacks.

    Example:
        >>> tf.debugging.is_traceback_filtering_enabled()
        True
    """
    return tracebacks.is_enabled()


export(__name__)
