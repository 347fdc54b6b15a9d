# SPDX-License-Identifier: MIT
"""How ``tf.test.TestCase`` compares values: nests of tensors, arrays and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ipu._core import Tensor
from ipu.tf.variable import Variable

# unittest leaves frames of such modules out of tracebacks
__unittest = True

_TENSORS = (Tensor, Variable)


def _is_tuple_with_fields(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_asdict")


def evaluated(value: Any) -> Any:
    """Return a nest with arrays and NumPy numbers in place of tensors; also sets keep
    theirs.

    Args:
        value: Anything; what is neither a container nor a tensor stays.

    Example:
        >>> evaluated({"a": tf.constant([1, 2])})
        {'a': array([1, 2], dtype=int32)}
    """
    if isinstance(value, _TENSORS):
        return value.numpy()
    if isinstance(value, Mapping):
        return {key: evaluated(one) for key, one in value.items()}
    if _is_tuple_with_fields(value):
        return type(value)(*(evaluated(one) for one in value))
    if isinstance(value, (list, tuple)):
        return type(value)(evaluated(one) for one in value)
    return value


def as_array(value: Any) -> Any:
    """Return a tensor, number, or list of them as an array.

    Raises:
        ValueError: It is a list of different shapes.
    """
    return np.asarray(evaluated(value))


def _is_ragged(value: Any) -> bool:
    try:
        return bool(as_array(value).dtype == object)
    except ValueError:
        return True


def compare(check: Any, a: Any, b: Any, path: str, message: str) -> None:
    """Call ``check(array, array, where)`` for each pair of leaves of two nests.

    Args:
        a: A nest: mappings, named tuples, lists, tuples, tensors, arrays, numbers.
        path: What to call this part in messages.
        message: The test's own words, or "".

    Raises:
        AssertionError: The nests have different forms, or a check raises it.
    """
    a = a._asdict() if _is_tuple_with_fields(a) else a
    b = b._asdict() if _is_tuple_with_fields(b) else b
    if isinstance(a, Mapping) or isinstance(b, Mapping):
        if not (isinstance(a, Mapping) and isinstance(b, Mapping)):
            raise AssertionError(
                mismatch(f"{path or 'value'}: one is a mapping, one is not", message)
            )
        if set(a) != set(b):
            raise AssertionError(
                mismatch(
                    f"{path or 'value'}: mismatched keys: {sorted(map(repr, a))} and "
                    f"{sorted(map(repr, b))}",
                    message,
                )
            )
        for key in a:
            compare(check, a[key], b[key], f"{path}[{key!r}]", message)
        return
    both_lists = isinstance(a, (list, tuple)) and isinstance(b, (list, tuple))
    if both_lists and (_is_ragged(a) or _is_ragged(b)):
        if len(a) != len(b):
            raise AssertionError(
                mismatch(
                    f"{path or 'value'}: mismatched length: {len(a)} and {len(b)}",
                    message,
                )
            )
        for number, (one, other) in enumerate(zip(a, b, strict=True)):
            compare(check, one, other, f"{path}[{number}]", message)
        return
    left, right = as_array(a), as_array(b)
    where = f" of {path}" if path else ""
    if left.shape != right.shape:
        raise AssertionError(
            mismatch(
                f"Shape mismatch{where}: expected {left.shape}, got {right.shape}",
                message,
            )
        )
    check(left, right, where)


def mismatch(text: str, message: str | None) -> str:
    """Return what is wrong, followed by the test's own words."""
    return f"{text}. {message}" if message else f"{text}."
