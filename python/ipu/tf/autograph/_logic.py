# SPDX-License-Identifier: MIT
"""``and``, ``or``, ``not`` and chained comparisons: Python's, or ops of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ipu import _core
from ipu._core import Tensor
from ipu.tf._ops import elementwise
from ipu.tf._tensor import convert
from ipu.tf.autograph._iterate import is_tensor


def decides_on_device(value: Any) -> bool:
    """Whether a condition is only known when the program runs."""
    if not is_tensor(value) or _core.open_trace() is None:
        return False
    return not isinstance(value, Tensor) or value.is_symbolic


def and_(*operands: Callable[[], Any]) -> Any:
    """``a and b``; a tensor makes it logical_and of what follows."""
    result: Any = True
    for i, operand in enumerate(operands):
        result = operand()
        if decides_on_device(result):
            rest = operands[i + 1 :]
            return (
                elementwise.logical_and(_bool(result), _bool(and_(*rest)))
                if rest
                else result
            )
        if not result:
            return result
    return result


def or_(*operands: Callable[[], Any]) -> Any:
    """``a or b``; a tensor makes it logical_or of what follows."""
    result: Any = False
    for i, operand in enumerate(operands):
        result = operand()
        if decides_on_device(result):
            rest = operands[i + 1 :]
            return (
                elementwise.logical_or(_bool(result), _bool(or_(*rest)))
                if rest
                else result
            )
        if result:
            return result
    return result


def _bool(value: Any) -> Tensor:
    tensor = Tensor(value if is_tensor(value) else bool(value))
    return tensor if tensor.dtype.is_bool else convert.cast(tensor, "bool")


def not_(operand: Any) -> Any:
    """``not operand``."""
    if decides_on_device(operand):
        return elementwise.logical_not(_bool(operand))
    return not operand


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "is": lambda a, b: a is b,
    "is not": lambda a, b: a is not b,
    "in": lambda a, b: a in b,
    "not in": lambda a, b: a not in b,
}


def compare(first: Any, relations: Sequence[str], *rest: Callable[[], Any]) -> Any:
    """``a < b < c``: each operand is computed once."""
    left = [first]

    def term(relation: str, operand: Callable[[], Any]) -> Callable[[], Any]:
        def compute() -> Any:
            right = operand()
            result = _COMPARE[relation](left[0], right)
            left[0] = right
            return result

        return compute

    return and_(*[term(r, o) for r, o in zip(relations, rest, strict=True)])
