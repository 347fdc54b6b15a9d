# SPDX-License-Identifier: MIT
"""Element-wise expressions: trees that print, and are evaluated for tensors."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping
from typing import Any


def _abs(value: Any) -> Any:
    return abs(value)


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
_UNARY: dict[str, Callable[[Any], Any]] = {"abs": _abs}


def _expression(value: Any) -> VertexExpression:
    return value if isinstance(value, VertexExpression) else constant(value)


class VertexExpression:
    """An expression; combine it with others, or with numbers, by ``+ - *`` and ``abs``.

    Args:
        type: The dtype of its elements, or None.

    Example:
        >>> x = PlaceholderVertexExpr("x", "float32")
        >>> str(abs(x - 3.0) * 2)
        '(abs((x - 3.0)) * 2)'
        >>> (abs(x - 3.0) * 2).evaluate({"x": 1.0})
        4.0
    """

    def __init__(self, type: Any = None) -> None:
        self._type = type

    def __add__(self, other: Any) -> VertexExpression:
        return BinaryExpr("+", self, other)

    def __radd__(self, other: Any) -> VertexExpression:
        return BinaryExpr("+", other, self)

    def __sub__(self, other: Any) -> VertexExpression:
        return BinaryExpr("-", self, other)

    def __rsub__(self, other: Any) -> VertexExpression:
        return BinaryExpr("-", other, self)

    def __mul__(self, other: Any) -> VertexExpression:
        return BinaryExpr("*", self, other)

    def __rmul__(self, other: Any) -> VertexExpression:
        return BinaryExpr("*", other, self)

    def __neg__(self) -> VertexExpression:
        return BinaryExpr("-", 0, self)

    def __invert__(self) -> VertexExpression:
        return -self

    def __pos__(self) -> VertexExpression:
        return self

    def __abs__(self) -> VertexExpression:
        return UnaryFunctionExpr("abs", self)

    def __bool__(self) -> bool:
        raise TypeError(
            "An expression has no truth value while it is put together: it stands for "
            "all elements. Choose with vertex_edsl.condition."
        )

    def getType(self) -> Any:
        """Return the dtype of its elements, or None."""
        return self._type

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """Compute it.

        Args:
            values: A value for each placeholder, by name.
        """
        raise TypeError(f"{type(self).__name__} is not a whole expression.")


class ConstantVertexExpr(VertexExpression):
    """A number.

    Args:
        val: An int or a float.

    Raises:
        TypeError: It is something else.

    Example:
        >>> ConstantVertexExpr(2).getType()
        'int32'
    """

    def __init__(self, val: Any) -> None:
        if isinstance(val, bool) or not isinstance(val, (int, float)):
            raise TypeError(
                f"An expression is made of placeholders and numbers. Received: {val!r}."
            )
        super().__init__("int32" if isinstance(val, int) else "float32")
        self._value = val

    def __str__(self) -> str:
        return str(self._value)

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """Return the number."""
        return self._value


def constant(value: Any) -> ConstantVertexExpr:
    """Make an expression of a number.

    Example:
        >>> str(constant(2) * PlaceholderVertexExpr("x"))
        '(2 * x)'
    """
    return ConstantVertexExpr(value)


class PlaceholderVertexExpr(VertexExpression):
    """What a tensor takes the place of.

    Args:
        name: Its name.
        type: The dtype, or None.

    Example:
        >>> PlaceholderVertexExpr("x").evaluate({"x": 3})
        3
    """

    def __init__(self, name: str, type: Any = None) -> None:
        super().__init__(type)
        self.name = name

    def __str__(self) -> str:
        return self.name

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """Return the value of that name."""
        return values[self.name]


class BinaryExpr(VertexExpression):
    """Two expressions with an operator between them.

    Args:
        op: ``"+"``, ``"-"`` or ``"*"``.
        lhs, rhs: Expressions or numbers.

    Example:
        >>> BinaryExpr("-", PlaceholderVertexExpr("x"), 1).evaluate({"x": 3})
        2
    """

    def __init__(self, op: str, lhs: Any, rhs: Any) -> None:
        self._op, self._sides = op, (_expression(lhs), _expression(rhs))
        super().__init__(self._sides[isinstance(lhs, (int, float))].getType())

    def __str__(self) -> str:
        return f"({self._sides[0]} {self._op} {self._sides[1]})"

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """Compute both sides, then it."""
        left, right = (side.evaluate(values) for side in self._sides)
        return _BINARY[self._op](left, right)


class UnaryFunctionExpr(VertexExpression):
    """A function of an expression.

    Args:
        op: ``"abs"``.
        lhs: The expression.

    Example:
        >>> UnaryFunctionExpr("abs", PlaceholderVertexExpr("x")).evaluate({"x": -3})
        3
    """

    def __init__(self, op: str, lhs: Any) -> None:
        self._op, self._of = op, _expression(lhs)
        super().__init__(self._of.getType())

    def __str__(self) -> str:
        return f"{self._op}({self._of})"

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """Compute the argument, then it."""
        return _UNARY[self._op](self._of.evaluate(values))


class LetVertexExpr(VertexExpression):
    """An expression that is used several times in another one.

    Args:
        expr: The one that is used.
        f: Gives the other one, for what stands for ``expr``.

    Example:
        >>> LetVertexExpr(PlaceholderVertexExpr("x"), abs).evaluate({"x": -3})
        3
    """

    _numbers = itertools.count()

    def __init__(self, expr: Any, f: Callable[[VertexExpression], Any]) -> None:
        self._of = _expression(expr)
        self._name = f"let{next(self._numbers)}"
        place = PlaceholderVertexExpr(self._name, self._of.getType())
        self._body = _expression(f(place))
        super().__init__(self._body.getType())

    def __str__(self) -> str:
        return f"(let {self._name} = {self._of} in {self._body})"

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """Compute what is used once, then the whole."""
        return self._body.evaluate({**values, self._name: self._of.evaluate(values)})


def let(expr: Any, f: Callable[[VertexExpression], Any]) -> LetVertexExpr:
    """Use an expression several times.

    Args:
        expr: The expression.
        f: Gives the whole one.

    Example:
        >>> x = PlaceholderVertexExpr("x")
        >>> let(x + 1, lambda y: y * y).evaluate({"x": 2})
        9
    """
    return LetVertexExpr(expr, f)


class Conditional(VertexExpression):
    """One of two expressions, for each element.

    Args:
        pred: Where it is not zero, ``a`` is taken.
        a, b: Expressions or numbers.

    Example:
        >>> str(Conditional(PlaceholderVertexExpr("x"), 1, 2))
        '(x ? 1 : 2)'
    """

    def __init__(self, pred: Any, a: Any, b: Any) -> None:
        self._parts = (_expression(pred), _expression(a), _expression(b))
        super().__init__(self._parts[1].getType())

    def __str__(self) -> str:
        return f"({self._parts[0]} ? {self._parts[1]} : {self._parts[2]})"

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """Compute all three, and choose."""
        from ipu import tf

        pred, a, b = (part.evaluate(values) for part in self._parts)
        return tf.where(tf.not_equal(pred, 0), a, b)


def condition(pred: Any, a: Any, b: Any) -> Conditional:
    """Take ``a`` where ``pred`` is not zero, else ``b``.

    Args:
        pred, a, b: Expressions or numbers.

    Example:
        >>> x = PlaceholderVertexExpr("x")
        >>> condition(x, x * 2, 7).evaluate({"x": tf.constant([0, 3])}).numpy().tolist()
        [7, 6]
    """
    return Conditional(pred, a, b)
