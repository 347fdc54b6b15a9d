# SPDX-License-Identifier: MIT
"""What converted code calls: control flow that is Python's where its values are, and
the program's where a tensor decides.

Each control-flow function gets the :class:`Variables` that enter and leave.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from ipu import _core
from ipu._core import Tensor
from ipu._device.thread_state import entered, here
from ipu.tf._functions.blocks import (
    add_results,
    as_tuple,
    block,
    counting,
    loop_attrs,
    loop_body,
)
from ipu.tf._ops import creation, elementwise, shapes
from ipu.tf._tensor import convert
from ipu.tf.autograph import _iterate
from ipu.tf.autograph._calls import call, call_iterated, converted, note_update
from ipu.tf.autograph._iterate import is_tensor
from ipu.tf.autograph._notes import user_line
from ipu.tf.autograph._state import Branches, LoopState
from ipu.tf.autograph._undefined import Undefined, no_value

_Store = tuple[Any, str, Any, str]  # object, attribute, value before, place


def storing(owner: Any, attribute: str) -> None:
    """Called before ``owner.attribute`` is assigned in converted code."""
    if not here.stores:
        return
    key = (id(owner), attribute)
    for frame in here.stores:
        if key not in frame:
            before = getattr(owner, attribute, None)
            frame[key] = (owner, attribute, before, user_line())


def _is_lost(trace: _core.Trace, value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_symbolic and not trace.sees(value)


@contextmanager
def watched_stores(what: str, where: str) -> Iterator[None]:
    """Look at the attributes that are assigned while a block is traced.

    Those that the statement's own function assigns are variables of the loop or branch
    and leave it properly. One that a function called from there assigns is not seen by
    the statement: its new value would be a tensor of the block, lost outside of it, and
    in a loop the next turn would not see it. That is an error where the attribute held
    a value before; else its new value is marked as one that exists in the block alone.

    Args:
        what: "loop" or "if".

    Raises:
        ValueError: One held a value, and its new one would be lost.
    """
    trace = _core.open_trace()
    assert trace is not None
    stores: dict[tuple[int, str], _Store] = {}
    with entered(here.stores, stores):
        yield
    for owner, attribute, before, place in stores.values():
        if not _is_lost(trace, getattr(owner, attribute, None)):
            continue
        name = f"{type(owner).__name__}.{attribute}"
        held = isinstance(before, (Tensor, bool, int, float))
        if held and not _is_lost(trace, before):
            raise ValueError(
                f"'{name}' is changed at {place}, in a function that the {what} at "
                f"{where} calls, and its new value would be lost outside of the "
                f"{what}. Return the new value and assign it in the {what} itself, or "
                "use a tf.Variable."
            )
        text = f"It is assigned at {place}, inside the {what} at {where}, and exists "
        setattr(owner, attribute, Undefined(name, text + "only there."))


__all__ = [
    "Variables",
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
    "storing",
    "value",
    "while_stmt",
]
_MANY_ITERATIONS = 10_000


def _where() -> str:
    frame = sys._getframe(2)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _predicate(value: Any, where: str) -> Tensor:
    tensor = Tensor(value)
    if tensor.ndim != 0 and tensor.shape != (1,) * tensor.ndim:
        raise ValueError(
            f"The condition at {where} is a tensor of shape {tensor.shape}; it must be "
            "one bool. Use tf.reduce_all or tf.reduce_any."
        )
    if tensor.ndim != 0:
        tensor = shapes.reshape(tensor, ())
    return tensor if tensor.dtype.is_bool else convert.cast(tensor, "bool")


def value(read: Callable[[], Any]) -> Any:
    """Return a variable's value, or an Undefined where it has none."""
    try:
        return read()
    except (NameError, AttributeError, KeyError, IndexError):
        return Undefined("a variable")


class Variables(NamedTuple):
    """The variables of a statement: their values now, what sets them, their names."""

    get: Callable[[], tuple[Any, ...]]
    put: Callable[[Sequence[Any]], None]
    names: Sequence[str]

    def values(self) -> list[Any]:
        return [
            Undefined(name) if isinstance(v, Undefined) and v is not no_value else v
            for name, v in zip(self.names, self.get(), strict=True)
        ]


def if_stmt(
    condition: Any,
    body: Callable[[], None],
    orelse: Callable[[], None],
    variables: Variables,
    outputs: int,
) -> None:
    """Run ``if condition: body() else: orelse()``.

    Args:
        outputs: How many of the variables, the first ones, are read afterwards.
    """
    if not decides_on_device(condition):
        if condition:
            body()
        else:
            orelse()
        return
    _staged_if(condition, (body, orelse), variables, outputs, _where())


def _staged_if(
    condition: Any,
    branches: tuple[Callable[[], None], Callable[[], None]],
    variables: Variables,
    outputs: int,
    where: str,
) -> None:
    trace = _core.open_trace()
    assert trace is not None
    with watched_stores("if", where):
        is_false = elementwise.logical_not(_predicate(condition, where))
        index = convert.cast(is_false, "int32")
        initial = variables.values()
        blocks: list[int] = []
        ends: list[list[Any]] = []
        for branch in branches:
            variables.put(initial)
            with block(trace) as inner:
                branch()
            blocks.append(inner)
            ends.append(variables.values()[:outputs])
        variables.put(initial)
        merged = Branches(variables.names[:outputs], ends[0], ends[1], where)
        for inner, tensors in zip(blocks, (merged.first, merged.second), strict=True):
            trace.reopen_block(inner)
            try:
                add_results(trace, inner, tensors())
            finally:
                trace.close_block(inner)
        results = as_tuple(trace.node("switch", [index], {"branches": blocks}, ()))
        variables.put([*merged.joined(results), *initial[outputs:]])


def if_exp(condition: Any, body: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    """Return ``body() if condition else orelse()``."""
    if not decides_on_device(condition):
        return body() if condition else orelse()
    box: list[Any] = [None]

    def put(values: Sequence[Any]) -> None:
        box[0] = values[0]

    def run(branch: Callable[[], Any]) -> Callable[[], None]:
        return lambda: put([branch()])

    result = Variables(lambda: (box[0],), put, ["the conditional expression"])
    _staged_if(condition, (run(body), run(orelse)), result, 1, _where())
    return box[0]


def while_stmt(
    test: Callable[[], Any],
    body: Callable[[], None],
    variables: Variables,
    options: dict[str, Any] | None,
) -> None:
    """Run ``while test(): body()``; on the device from the first test that is a
    tensor."""
    where = _where()
    turns = 0
    while True:
        condition = test()
        if is_tensor(condition) and _core.open_trace() is not None:
            _staged_while(test, body, variables, options, where)
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
    variables: Variables,
    options: dict[str, Any] | None,
    where: str,
) -> None:
    state = LoopState(variables.names, variables.values(), where)

    def condition(tensors: Sequence[Tensor]) -> Tensor:
        variables.put(state.pack(tensors))
        return _predicate(test(), where)

    def turn(inner: int, tensors: Sequence[Tensor]) -> list[Tensor]:
        variables.put(state.open(inner, tensors))
        body()
        return state.next(variables.values())

    bound = (options or {}).get("maximum_iterations")
    with watched_stores("loop", where):
        results = _while(state, [], condition, turn, variables, bound)
        variables.put(state.final(results))


def _while(
    state: LoopState,
    first: Sequence[Tensor],
    condition: Callable[[Sequence[Tensor]], Tensor],
    turn: Callable[[int, Sequence[Tensor]], list[Tensor]],
    variables: Variables,
    bound: Any,
) -> tuple[Tensor, ...]:
    """Return a ``while`` node. Behind ``first`` and the state's tensors it carries what
    its body adds: rows of arrays, and values from zeros."""
    trace = _core.open_trace()
    assert trace is not None
    start = [*first, *state.tensors]
    with loop_body(trace) as inner:
        values = [trace.parameter(_type(t), inner) for t in start]
        ends = turn(inner, values)
        arrays = state.arrays(inner, variables.values())
        late = state.late(variables.values())
        for tensor in late:
            trace.parameter(_type(tensor), inner)
        add_results(trace, inner, [*ends, *arrays, *late])
    start += state.initial_arrays()
    start += [creation.zeros(t.shape, t.dtype) for t in late]
    with block(trace) as test:
        values = [trace.parameter(_type(t), test) for t in start]
        add_results(trace, test, [condition(values)])
    limit = -1 if bound is None else max(0, int(bound))
    attrs = loop_attrs(condition=test, body=inner, maximum_iterations=limit)
    return as_tuple(trace.node("while", start, attrs, ()))


def _type(tensor: Tensor) -> tuple[str, tuple[int, ...]]:
    return (tensor.dtype.name, tuple(tensor.shape))


def for_stmt(
    iterable: Any,
    test: Callable[[], Any] | None,
    body: Callable[[Any], None],
    variables: Variables,
    options: dict[str, Any] | None,
) -> None:
    """Run ``for item in iterable: body(item)``, as long as ``test()`` holds."""
    where = _where()
    items = _iterate.staged(iterable) if _core.open_trace() is not None else None
    if items is None:
        _python_for(iterable, test, body, variables, where)
        return
    if items.length is None and test is None:
        raise ValueError(
            f"The loop at {where} runs over something whose length is not known, and "
            "has no `break`. Loop over tf.range(n) and take elements with next(), or "
            "use Dataset.take(n)."
        )
    if test is None:
        _staged_for(items, body, variables, where)
    else:
        _staged_search(items, test, body, variables, options, where)


def _python_for(
    iterable: Iterable[Any],
    test: Callable[[], Any] | None,
    body: Callable[[Any], None],
    variables: Variables,
    where: str,
) -> None:
    turns = 0
    for item in iterable:
        if test is None:
            body(item)
        else:
            go = test()
            if decides_on_device(go):
                # left early on the device: the rest of the unrolled turns is skipped
                branches = (partial(body, item), lambda: None)
                _staged_if(go, branches, variables, len(variables.names), where)
            elif not go:
                return
            else:
                body(item)
        turns = _count_turn(turns, where)


def _staged_for(
    items: _iterate.Items,
    body: Callable[[Any], None],
    variables: Variables,
    where: str,
) -> None:
    from ipu._loops.training_loop import training_loop

    state = LoopState(variables.names, variables.values(), where)
    trace = _core.open_trace()
    assert trace is not None
    count = Tensor(items.length)
    start = [Tensor(0), *state.tensors]
    with watched_stores("loop", where):
        with training_loop(trace, items.length) as loop, loop_body(trace) as inner:
            index, *values = [trace.parameter(_type(t), inner) for t in start]
            variables.put(state.open(inner, values))
            with counting(index, items.length):
                body(items.item(index))
            after = variables.values()
            ends = [index + 1, *state.next(after)]
            add_results(trace, inner, [*ends, *state.arrays(inner, after)])
            loop.close(inner)
        start += state.initial_arrays()
        variables.put(state.final(loop.add(count, start, inner)[1:]))


def _staged_search(
    items: _iterate.Items,
    test: Callable[[], Any],
    body: Callable[[Any], None],
    variables: Variables,
    options: dict[str, Any] | None,
    where: str,
) -> None:
    """Trace a loop that may be left early."""
    state = LoopState(variables.names, variables.values(), where)

    def condition(tensors: Sequence[Tensor]) -> Tensor:
        variables.put(state.pack(tensors[1:]))
        go = _predicate(test(), where)
        if items.length is None:
            return go
        return elementwise.logical_and(tensors[0] < items.length, go)

    def turn(inner: int, tensors: Sequence[Tensor]) -> list[Tensor]:
        variables.put(state.open(inner, tensors[1:]))
        body(items.item(tensors[0]))
        return [tensors[0] + 1, *state.next(variables.values())]

    bound = (options or {}).get("maximum_iterations")
    if bound is None and isinstance(items.length, int):
        bound = items.length
    with watched_stores("loop", where):
        results = _while(state, [Tensor(0)], condition, turn, variables, bound)
        variables.put(state.final(results[1:]))


def assert_stmt(condition: Any, message: Callable[[], Any]) -> None:
    """Run ``assert condition, message``; a tensor is checked when the program runs."""
    if not decides_on_device(condition):
        if not condition:
            text = message()
            raise AssertionError(*([] if text is None else [text]))
        return
    from ipu.tf import debugging

    text = message()
    debugging.Assert(condition, [text if text is not None else "Assertion failed"])


def returned(value: Any, flag: Any = True) -> Any:
    """Return what a function returns, from the value of the ``return`` that was
    reached."""
    if decides_on_device(flag) and value is not no_value:
        raise ValueError(
            "The function returns a value on some paths and reaches its end on others, "
            "and a tensor decides which. A value must be returned on all paths."
        )
    return None if value is no_value else value


def decides_on_device(value: Any) -> bool:
    """Return whether a condition is only known when the program runs."""
    if not is_tensor(value) or _core.open_trace() is None:
        return False
    return not isinstance(value, Tensor) or value.is_symbolic


def and_(*operands: Callable[[], Any]) -> Any:
    """Return ``a and b``; a tensor makes it logical_and of what follows."""
    return _chained(operands, True, elementwise.logical_and)


def or_(*operands: Callable[[], Any]) -> Any:
    """Return ``a or b``; a tensor makes it logical_or of what follows."""
    return _chained(operands, False, elementwise.logical_or)


def _chained(
    operands: Sequence[Callable[[], Any]], goes_on: bool, join: Callable[..., Any]
) -> Any:
    """Call operands while their results are ``goes_on``, up to the first tensor."""
    result: Any = goes_on
    for i, operand in enumerate(operands):
        result = operand()
        if decides_on_device(result):
            rest = operands[i + 1 :]
            if not rest:
                return result
            return join(_bool(result), _bool(_chained(rest, goes_on, join)))
        if bool(result) != goes_on:
            return result
    return result


def _bool(value: Any) -> Tensor:
    tensor = Tensor(value if is_tensor(value) else bool(value))
    return tensor if tensor.dtype.is_bool else convert.cast(tensor, "bool")


def not_(operand: Any) -> Any:
    """Return ``not operand``."""
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
    """Return ``a < b < c``: each operand is computed once."""
    left = [first]

    def term(relation: str, operand: Callable[[], Any]) -> Callable[[], Any]:
        def compute() -> Any:
            right = operand()
            result = _COMPARE[relation](left[0], right)
            left[0] = right
            return result

        return compute

    return and_(*[term(r, o) for r, o in zip(relations, rest, strict=True)])
