# SPDX-License-Identifier: MIT
"""What converted code calls: control flow that is Python's where its values are, and
the program's where a tensor decides.

Each control-flow function gets the variables that enter and leave as ``get`` (their
values now) and ``put`` (sets them), with their names for errors.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ipu import _core
from ipu.tf import nest, ops
from ipu.tf.autograph import _iterate
from ipu.tf.autograph._calls import call, call_iterated, converted, note_update
from ipu.tf.autograph._iterate import is_tensor
from ipu.tf.autograph._jumps import VALUE
from ipu.tf.autograph._state import LoopState, is_value, shown
from ipu.tf.autograph._undefined import Undefined, no_value
from ipu.tf.ops import Tensor

__all__ = [
    "and_",
    "assert_stmt",
    "call",
    "call_iterated",
    "compare",
    "converted",
    "for_stmt",
    "if_exp",
    "if_stmt",
    "no_value",
    "not_",
    "note_update",
    "or_",
    "returned",
    "value",
    "while_stmt",
]

_Get = Callable[[], tuple[Any, ...]]
_Put = Callable[[Sequence[Any]], None]
_MANY_ITERATIONS = 10_000


def _where() -> str:
    frame = sys._getframe(2)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _decides_on_device(value: Any) -> bool:
    """Whether a condition is only known when the program runs."""
    if not is_tensor(value) or _core.open_trace() is None:
        return False
    return not isinstance(value, Tensor) or value.is_symbolic


def _predicate(value: Any, where: str) -> Tensor:
    tensor = Tensor(value)
    if tensor.ndim != 0 and tensor.shape != (1,) * tensor.ndim:
        raise ValueError(
            f"The condition at {where} is a tensor of shape {tensor.shape}; it must be "
            "one bool. Use tf.reduce_all or tf.reduce_any."
        )
    if tensor.ndim != 0:
        tensor = ops.reshape(tensor, ())
    return tensor if tensor.dtype.is_bool else ops.cast(tensor, "bool")


def value(read: Callable[[], Any]) -> Any:
    """A variable's value, or an Undefined where it has none."""
    try:
        return read()
    except (NameError, AttributeError, KeyError, IndexError):
        return Undefined("a variable")


def _values(get: _Get, names: Sequence[str]) -> list[Any]:
    return [
        Undefined(name) if isinstance(v, Undefined) and v is not no_value else v
        for name, v in zip(names, get(), strict=True)
    ]


# --- if ----------------------------------------------------------------------------


def if_stmt(
    condition: Any,
    body: Callable[[], None],
    orelse: Callable[[], None],
    get: _Get,
    put: _Put,
    names: Sequence[str],
    outputs: int,
    swap: bool,
) -> None:
    """``if condition: body() else: orelse()``.

    Args:
        condition: A Python value or a tensor.
        body: Run where it holds.
        orelse: Run where it does not.
        get: Gives the variables' values.
        put: Sets them.
        names: Their names; the first ``outputs`` are read afterwards.
        outputs: How many.
        swap: Trace ``orelse`` first.
    """
    if not _decides_on_device(condition):
        if condition:
            body()
        else:
            orelse()
        return
    _staged_if(condition, (body, orelse), get, put, names, outputs, swap, _where())


class _Branch:
    """What a branch leaves in the variables."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.values: list[Any] = []


def _staged_if(
    condition: Any,
    branches: tuple[Callable[[], None], Callable[[], None]],
    get: _Get,
    put: _Put,
    names: Sequence[str],
    outputs: int,
    swap: bool,
    where: str,
) -> None:
    from ipu.tf import control_flow

    predicate = _predicate(condition, where)
    initial = _values(get, names)
    first, second = _Branch("main"), _Branch("else")
    if swap:
        predicate = ops.logical_not(predicate)
        first, second = second, first
        branches = (branches[1], branches[0])

    def run(index: int, mine: _Branch, other: _Branch) -> list[Tensor]:
        put(initial)
        branches[index]()
        mine.values = _values(get, names)[:outputs]
        return _branch_tensors(mine, other, names, where)

    try:
        results = control_flow.cond(
            predicate,
            lambda: run(0, first, _Branch("")),
            lambda: run(1, second, first),
        )
    finally:
        put(initial)
    tensors = iter(results if isinstance(results, (list, tuple)) else [results])
    final = list(initial)
    for i, value in enumerate(second.values):
        final[i] = _joined(first.values[i], value, names[i], tensors, where)
    put(final)


def _joined(
    first: Any, second: Any, name: str, tensors: Any, where: str
) -> Any:
    if isinstance(second, Undefined):
        if second is no_value:
            return second
        return Undefined(
            name, f"It is assigned only inside a branch at {where}."
        )
    leaves = [next(tensors) if is_value(x) else x for x in nest.flatten(second)]
    return nest.pack_sequence_as(second, leaves)


def _branch_tensors(
    mine: _Branch, other: _Branch, names: Sequence[str], where: str
) -> list[Tensor]:
    """The tensors that a branch gives; checked against the branch before it."""
    tensors: list[Tensor] = []
    for i, value in enumerate(mine.values):
        name = names[i]
        if other.values:
            value = _agreeing(mine, other, i, name, where)
            mine.values[i] = value
        if isinstance(value, Undefined):
            continue
        before = (
            nest.flatten(other.values[i])
            if other.values
            else [None] * len(nest.flatten(value))
        )
        for leaf, like in zip(nest.flatten(value), before, strict=True):
            if is_value(leaf):
                tensors.append(_typed(leaf, like))
    return tensors


def _typed(leaf: Any, like: Any) -> Tensor:
    """A number takes the dtype that the other branch gives."""
    if (
        isinstance(leaf, (int, float))
        and is_tensor(like)
        and (like.dtype.is_floating or not isinstance(leaf, float))
    ):
        return Tensor(leaf, like.dtype.name)
    return Tensor(leaf)


def _agreeing(
    mine: _Branch, other: _Branch, index: int, name: str, where: str
) -> Any:
    value, known = mine.values[index], other.values[index]
    if isinstance(value, Undefined) and isinstance(known, Undefined):
        return value
    if isinstance(value, Undefined) and name == VALUE:
        return nest.map_structure(
            lambda x: ops.zeros_like(x) if is_value(x) else x, known
        )
    for one, branch in ((value, mine), (known, other)):
        if isinstance(one, Undefined):
            missing = "else" if branch.label == "else" else "main"
            if name == VALUE:
                raise ValueError(
                    f"A value must also be returned from the {missing} branch of the "
                    f"`if` at {where}: its condition is a tensor, so all branches must "
                    "return, or none."
                )
            raise ValueError(
                f"{shown(name)} must also be initialized in the {missing} branch of "
                f"the `if` at {where}: its condition is a tensor, so both branches "
                "must assign it, or it must have a value before."
            )
    try:
        nest.assert_same_structure(known, value)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{shown(name)} does not have the same nested structure in the two "
            f"branches of the `if` at {where}: {error}"
        ) from None
    for a, b in zip(nest.flatten(known), nest.flatten(value), strict=True):
        _check_leaves(a, b, name, other, mine, where)
    return value


def _check_leaves(
    a: Any, b: Any, name: str, first: _Branch, second: _Branch, where: str
) -> None:
    if is_value(a) and is_value(b):
        x, y = Tensor(a), _typed(b, Tensor(a))
        for what, old, new in (
            ("dtype", x.dtype.name, y.dtype.name),
            ("shape", x.shape, y.shape),
        ):
            if old != new:
                raise TypeError(
                    f"{shown(name)} has {what} {old} in the {first.label} branch, but "
                    f"{what} {new} in the {second.label} branch of the `if` at {where}."
                )
    elif a is not b and (is_value(a) or is_value(b) or a != b):
        raise TypeError(
            f"{shown(name)} is {a!r} in the {first.label} branch and {b!r} in the "
            f"{second.label} branch of the `if` at {where}. A condition that is a "
            "tensor can choose between tensors and numbers alone."
        )


def if_exp(
    condition: Any, body: Callable[[], Any], orelse: Callable[[], Any]
) -> Any:
    """``body() if condition else orelse()``."""
    if not _decides_on_device(condition):
        return body() if condition else orelse()
    box: list[Any] = [None]

    def put(values: Sequence[Any]) -> None:
        box[0] = values[0]

    def run(branch: Callable[[], Any]) -> Callable[[], None]:
        return lambda: put([branch()])

    _staged_if(
        condition,
        (run(body), run(orelse)),
        lambda: (box[0],),
        put,
        ["the conditional expression"],
        1,
        False,
        _where(),
    )
    return box[0]


# --- loops -------------------------------------------------------------------------


def while_stmt(
    test: Callable[[], Any],
    body: Callable[[], None],
    get: _Get,
    put: _Put,
    names: Sequence[str],
    options: dict[str, Any] | None,
) -> None:
    """``while test(): body()``; on the device from the first test that is a tensor."""
    where = _where()
    turns = 0
    while True:
        condition = test()
        if is_tensor(condition) and _core.open_trace() is not None:
            _staged_while(test, body, get, put, names, options, where)
            return
        if not condition:
            return
        body()
        turns = _count_turn(turns, where)


def _count_turn(turns: int, where: str) -> int:
    if turns == _MANY_ITERATIONS and _core.open_trace() is not None:
        from ipu.tf.autograph._notes import explain_once

        explain_once(
            where,
            f"The loop at {where} has been unrolled {turns} times while its function "
            "is traced, since nothing in its condition is a tensor. Use tf.range or a "
            "tensor in the condition for a loop on the device.",
        )
    return turns + 1


def _staged_while(
    test: Callable[[], Any],
    body: Callable[[], None],
    get: _Get,
    put: _Put,
    names: Sequence[str],
    options: dict[str, Any] | None,
    where: str,
) -> None:
    from ipu.tf import control_flow

    initial = _values(get, names)
    state = LoopState(names, initial, where)

    def condition(*tensors: Tensor) -> Tensor:
        put(state.pack(tensors[1:]))
        return _predicate(test(), where)

    def turn(*tensors: Tensor) -> list[Tensor]:
        put(state.pack(tensors[1:]))
        body()
        return [tensors[0], *state.next(_values(get, names))]

    results = control_flow.while_loop(
        condition,
        turn,
        [Tensor(0), *state.tensors],
        maximum_iterations=(options or {}).get("maximum_iterations"),
    )
    put(state.final(results[1:]))


def for_stmt(
    iterable: Any,
    test: Callable[[], Any] | None,
    body: Callable[[Any], None],
    get: _Get,
    put: _Put,
    names: Sequence[str],
    options: dict[str, Any] | None,
) -> None:
    """``for item in iterable: body(item)``, as long as ``test()`` holds."""
    where = _where()
    items = _iterate.staged(iterable) if _core.open_trace() is not None else None
    if items is None:
        _python_for(iterable, test, body, get, put, names, where)
        return
    if items.length is None and test is None:
        raise ValueError(
            f"The loop at {where} runs over something whose length is not known, and "
            "has no `break`. Loop over tf.range(n) and take elements with next(), or "
            "use Dataset.take(n)."
        )
    if test is None:
        _staged_for(items, body, get, put, names, where)
    else:
        _staged_search(items, test, body, get, put, names, options, where)


def _python_for(
    iterable: Iterable[Any],
    test: Callable[[], Any] | None,
    body: Callable[[Any], None],
    get: _Get,
    put: _Put,
    names: Sequence[str],
    where: str,
) -> None:
    turns = 0
    for item in iterable:
        if test is None:
            body(item)
        else:
            go = test()
            if _decides_on_device(go):
                # left early on the device: the rest of the unrolled turns is skipped
                _staged_if(
                    go,
                    (lambda item=item: body(item), lambda: None),  # type: ignore[misc]
                    get,
                    put,
                    names,
                    len(names),
                    False,
                    where,
                )
            elif not go:
                return
            else:
                body(item)
        turns = _count_turn(turns, where)


def _staged_for(
    items: _iterate.Items,
    body: Callable[[Any], None],
    get: _Get,
    put: _Put,
    names: Sequence[str],
    where: str,
) -> None:
    from ipu import loops

    state = LoopState(names, _values(get, names), where)

    def turn(index: Tensor, *tensors: Tensor) -> list[Tensor]:
        put(state.pack(tensors))
        body(items.item(index))
        return [index + 1, *state.next(_values(get, names))]

    results = loops.repeat(items.length, turn, [Tensor(0), *state.tensors])
    results = results if isinstance(results, list) else [results]
    put(state.final(results[1:]))


def _staged_search(
    items: _iterate.Items,
    test: Callable[[], Any],
    body: Callable[[Any], None],
    get: _Get,
    put: _Put,
    names: Sequence[str],
    options: dict[str, Any] | None,
    where: str,
) -> None:
    """A loop that may be left early."""
    from ipu.tf import control_flow

    state = LoopState(names, _values(get, names), where)

    def condition(index: Tensor, *tensors: Tensor) -> Tensor:
        put(state.pack(tensors))
        go = _predicate(test(), where)
        if items.length is None:
            return go
        return ops.logical_and(index < items.length, go)

    def turn(index: Tensor, *tensors: Tensor) -> list[Tensor]:
        put(state.pack(tensors))
        body(items.item(index))
        return [index + 1, *state.next(_values(get, names))]

    bound = (options or {}).get("maximum_iterations")
    if bound is None and isinstance(items.length, int):
        bound = items.length
    results = control_flow.while_loop(
        condition, turn, [Tensor(0), *state.tensors], maximum_iterations=bound
    )
    put(state.final(results[1:]))


# --- expressions -------------------------------------------------------------------


def and_(*operands: Callable[[], Any]) -> Any:
    """``a and b``; a tensor makes it logical_and of what follows."""
    result: Any = True
    for i, operand in enumerate(operands):
        result = operand()
        if _decides_on_device(result):
            rest = operands[i + 1 :]
            return ops.logical_and(_bool(result), _bool(and_(*rest))) if rest else result
        if not result:
            return result
    return result


def or_(*operands: Callable[[], Any]) -> Any:
    """``a or b``; a tensor makes it logical_or of what follows."""
    result: Any = False
    for i, operand in enumerate(operands):
        result = operand()
        if _decides_on_device(result):
            rest = operands[i + 1 :]
            return ops.logical_or(_bool(result), _bool(or_(*rest))) if rest else result
        if result:
            return result
    return result


def _bool(value: Any) -> Tensor:
    tensor = Tensor(value if is_tensor(value) else bool(value))
    return tensor if tensor.dtype.is_bool else ops.cast(tensor, "bool")


def not_(operand: Any) -> Any:
    """``not operand``."""
    if _decides_on_device(operand):
        return ops.logical_not(_bool(operand))
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


# --- statements --------------------------------------------------------------------


def assert_stmt(condition: Any, message: Callable[[], Any]) -> None:
    """``assert condition, message``; of a tensor, checked when the program runs."""
    if not _decides_on_device(condition):
        if not condition:
            text = message()
            raise AssertionError(*([] if text is None else [text]))
        return
    from ipu.tf import debugging

    text = message()
    debugging.Assert(condition, [text if text is not None else "Assertion failed"])


def returned(value: Any, flag: Any = True) -> Any:
    """What a function returns, from the value of the ``return`` that was reached."""
    if _decides_on_device(flag) and value is not no_value:
        raise ValueError(
            "The function returns a value on some paths and reaches its end on others, "
            "and a tensor decides which. A value must be returned on all paths."
        )
    return None if value is no_value else value
