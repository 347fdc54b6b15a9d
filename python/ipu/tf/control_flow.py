# SPDX-License-Identifier: MIT
"""Control flow with TensorFlow 2's names: ``while_loop``, ``cond``, ``switch_case``.

In a function that is being traced each of them is one op of the device program that
holds its bodies; outside of one they are Python loops and conditionals, as in
TensorFlow. Values are nests (``tf.nest``) of tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ipu import _core
from ipu._core import Tensor
from ipu.tf import nest
from ipu.tf._functions.blocks import (
    Flat,
    add_results,
    as_tuple,
    block,
    describe,
    flatten,
    is_known,
    is_pending,
)
from ipu.tf._functions.while_loop import (
    as_predicate,
    body_values,
    check_structure,
    traced_while,
    with_open_sizes,
)
from ipu.tf._graph.reached import active, operation
from ipu.tf._ops import elementwise
from ipu.tf._string_ops.tensors import is_text
from ipu.tf._tensor import convert, open_sizes
from ipu.tf._tensor.dispatch import op
from ipu.tf._tensor.operation import Operation

__all__ = ["case", "cond", "switch_case", "while_loop"]


# --- while -------------------------------------------------------------------------


def _python_while(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    limit: int | None,
    names: Sequence[str] | None,
) -> Any:
    iterations = 0
    while cond(*loop_vars):
        if limit is not None and iterations >= limit:
            break
        after = body_values(body(*loop_vars), len(loop_vars))
        check_structure(loop_vars, after, names)
        flat = flatten(list(after), "the result of body")
        loop_vars = nest.pack_sequence_as(
            loop_vars, nest.flatten(flat.pack(flat.tensors))
        )
        iterations += 1
    return loop_vars


@op
def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: Any = None,
    name: str | None = None,
    *,
    _names: Sequence[str] | None = None,
) -> Any:
    """Repeat ``body`` while ``cond`` is true.

    Args:
        cond: ``cond(*loop_vars)`` gives a scalar bool.
        body: ``body(*loop_vars)`` gives the next ``loop_vars``: the same structure,
            shapes and dtypes.
        loop_vars: A list or tuple of nests of tensors, numbers and TensorArrays.
        shape_invariants: For each of ``loop_vars`` a ``TensorShape``, with None for
            sizes that change from turn to turn. They can change on the host alone; on
            the device every loop variable keeps its shape.
        parallel_iterations: Accepted and not used.
        back_prop: False stops gradients at the loop's results.
        swap_memory: Accepted and not used.
        maximum_iterations: The most iterations, an int or an int32 scalar, or None.
            Gradients through a loop that keep values of each iteration need an int,
            where the number of iterations cannot be seen from the condition.

    Returns:
        The final values, in the structure of ``loop_vars``.

    Raises:
        TypeError: A variable changes its dtype or kind of container, ``cond`` does not
            give a bool, or an argument is not callable.
        ValueError: There are no loop variables, or one changes its shape.

    Example:
        >>> i, total = tf.while_loop(
        ...     lambda i, total: i < 4, lambda i, total: (i + 1, total + i), (0, 0)
        ... )
        >>> int(total)
        6
    """
    if not callable(cond) or not callable(body):
        wrong, value = ("cond", cond) if not callable(cond) else ("body", body)
        raise TypeError(f"'{wrong}' must be callable. Received: {value!r}.")
    if not isinstance(loop_vars, (list, tuple)):
        raise TypeError(
            "'loop_vars' must be a list or a tuple, of one entry for each argument of "
            f"body. Received: {loop_vars!r}. Write [{loop_vars!r}]."
        )
    if not loop_vars:
        raise ValueError("No loop variables provided.")
    trace = _core.open_trace()
    limit = -1
    if maximum_iterations is not None and is_known(maximum_iterations):
        limit = max(int(maximum_iterations), 0)
    if trace is None:
        bound = None if maximum_iterations is None else limit
        start = flatten(list(loop_vars), "loop_vars")
        values = nest.pack_sequence_as(
            loop_vars, nest.flatten(start.pack(start.tensors))
        )
        return _python_while(cond, body, values, bound, _names)
    start = flatten(list(loop_vars), "loop_vars")
    if shape_invariants is not None:
        start = with_open_sizes(start, shape_invariants)
    if limit >= 0 or maximum_iterations is None:
        final = traced_while(trace, cond, body, start, limit, _names)
    else:
        final = _bounded_while(trace, cond, body, start, maximum_iterations, _names)
    if not back_prop:
        flat = flatten(final, "the result of body")
        final = flat.pack(
            [elementwise.stop_gradient(tensor) for tensor in flat.tensors]
        )
    return nest.pack_sequence_as(loop_vars, nest.flatten(final))


def _bounded_while(
    trace: _core.Trace,
    cond: Callable[..., Any],
    body: Callable[..., Any],
    start: Flat,
    maximum: Any,
    names: Sequence[str] | None,
) -> Any:
    """Return a loop whose bound is a tensor: it counts its iterations."""
    counted = flatten([0, *start.structure], "loop_vars")
    called = None if names is None else ["the iteration count", *names]
    return traced_while(
        trace,
        lambda i, *values: elementwise.logical_and(
            i < maximum, as_predicate(cond(*values), "The result of cond")
        ),
        lambda i, *values: (i + 1, *body_values(body(*values), len(values))),
        counted,
        -1,
        called,
    )[1:]


# --- conditionals ------------------------------------------------------------------


def _check_branches(names: Sequence[str], results: Sequence[Flat]) -> None:
    """Check that all branches give one structure of equal types."""
    first = results[0]
    for name, other in zip(names[1:], results[1:], strict=True):
        text = (
            f"{names[0]} and {name} must have the same number, type, and overall "
            f"structure of return values. {names[0]} returned "
            f"{describe(first.structure)}, {name} returned {describe(other.structure)}."
        )
        try:
            nest.assert_same_structure([first.structure], [other.structure])
        except (TypeError, ValueError) as error:
            raise TypeError(f"{text} {error}") from None
        if first.counts != other.counts:
            raise TypeError(f"{text} One returns None where the other does not.")
        for a, b in zip(first.tensors, other.tensors, strict=True):
            if a.dtype != b.dtype:
                raise TypeError(f"{text} Convert one with tf.cast.")
            if a.shape != b.shape and open_sizes.take() is None:
                refusal = ValueError(
                    f"{text} Shapes are fixed when a function is compiled for the "
                    "device: return equal shapes from all branches."
                )
                raise open_sizes.about_values(refusal)


def _settle_arrays(results: Sequence[Any]) -> None:
    """Give an array that one branch alone wrote to the same rows in the others."""
    columns = [nest.flatten(result) for result in results]
    if len({len(column) for column in columns}) > 1:
        return
    for leaves in zip(*columns, strict=True):
        arrays = [leaf for leaf in leaves if hasattr(leaf, "_ipu_settle")]
        written = [array for array in arrays if not is_pending(array)]
        if len(arrays) == len(leaves) and written:
            for array in arrays:
                array._ipu_settle(written[0].element_shape)


def _any_of(tensors: Sequence[Tensor]) -> Tensor:
    """Return what stands for tensors of different shapes, where sizes are guessed."""
    if len({len(one.shape) for one in tensors}) > 1:
        raise ValueError("The branches give tensors of different numbers of axes.")
    shape = [
        sizes[0] if len(set(sizes)) == 1 else None
        for sizes in zip(*(one.shape for one in tensors), strict=True)
    ]
    made: Tensor = open_sizes.guessed((tensors[0].dtype, shape))
    return made


def _traced_switch(
    trace: _core.Trace,
    index: Tensor,
    branches: Sequence[Callable[[], Any]],
    names: Sequence[str],
) -> Any:
    returned: list[Any] = []
    blocks: list[int] = []
    gives_operation = False
    for branch, name in zip(branches, names, strict=True):
        with block(trace) as inner:
            # within the block, so that constants and reads of variables are its own
            given = branch()
            reached = active()
            if reached is not None:
                reached.lead_from_block(inner, reached.spans_of(given))
            if isinstance(given, Operation):
                given, gives_operation = None, True
            one = flatten(given, f"the result of {name}")
            returned.append(one.pack(one.tensors))
        blocks.append(inner)
    _settle_arrays(returned)
    flat = [
        flatten(value, f"the result of {name}")
        for value, name in zip(returned, names, strict=True)
    ]
    _check_branches(names, flat)
    columns = list(zip(*(one.tensors for one in flat), strict=True))
    if any(len({tensor.shape for tensor in column}) > 1 for column in columns):
        return flat[0].pack([_any_of(column) for column in columns])
    for one, inner in zip(flat, blocks, strict=True):
        add_results(trace, inner, one.tensors)
    outputs = as_tuple(trace.node("switch", [index], {"branches": blocks}, ()))
    if gives_operation:
        return operation("Switch", trace.last_node(), "cond")
    return flat[0].pack(outputs)


@op
def cond(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any:
    """Call one of two functions. Only the ops of the one that is taken are executed.

    Args:
        pred: A bool: a scalar, or of one element.
        true_fn: Called without arguments; gives a nest of tensors, or None.
        false_fn: The same, of the same structure, dtypes and shapes.

    Returns:
        The result of the function.

    Raises:
        TypeError: The functions give different structures or dtypes, one of them is
            not callable, or ``pred`` is not a bool.
        ValueError: They give different shapes.

    Example:
        >>> x = tf.constant(3.0)
        >>> float(tf.cond(x > 2.0, lambda: x * 2.0, lambda: x - 1.0))
        6.0
    """
    for argument, function in (("true_fn", true_fn), ("false_fn", false_fn)):
        if not callable(function):
            raise TypeError(f"'{argument}' must be callable. Received: {function!r}.")
    assert true_fn is not None and false_fn is not None
    trace = _core.open_trace()
    if trace is None:
        return true_fn() if pred else false_fn()
    if is_known(pred):
        taken = true_fn() if as_predicate(pred, "'pred'") else false_fn()
        if any(is_text(leaf) for leaf in nest.flatten(taken)):
            return taken
        flat = flatten(taken, "the result of the function that is called")
        return flat.pack(flat.tensors)
    predicate = as_predicate(pred, "'pred'")
    index = convert.cast(predicate, "int32")
    return _traced_switch(trace, index, (false_fn, true_fn), ("false_fn", "true_fn"))


def _branch_list(branch_fns: Any) -> list[Callable[[], Any]]:
    if isinstance(branch_fns, Mapping):
        branch_fns = sorted(branch_fns.items())
    if not isinstance(branch_fns, (list, tuple)) or not branch_fns:
        raise TypeError(
            "'branch_fns' must be a dict, list or tuple of callables, not empty. "
            f"Received: {branch_fns!r}."
        )
    if all(isinstance(item, (list, tuple)) for item in branch_fns):
        keys = [item[0] for item in branch_fns]
        if sorted(keys) != list(range(len(keys))):
            raise ValueError(
                "The keys of 'branch_fns' must be the ints 0 to n - 1, each once. "
                f"Received: {keys!r}."
            )
        branch_fns = [item[1] for item in sorted(branch_fns, key=lambda item: item[0])]
    for function in branch_fns:
        if not callable(function):
            raise TypeError(
                f"Each entry of 'branch_fns' must be callable. Received: {function!r}."
            )
    return list(branch_fns)


@op
def switch_case(
    branch_index: Any,
    branch_fns: Any,
    default: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any:
    """Call one of several functions, chosen by number.

    Args:
        branch_index: An int32 scalar.
        branch_fns: A list of functions without arguments, or a dict or list of pairs
            from 0 to n - 1 to functions.
        default: Called where there is no such branch; None: the last one is.

    Returns:
        The result of the function. All give one structure of equal dtypes and shapes.

    Raises:
        TypeError: ``branch_fns`` is another collection, the index is not an int32, or
            the branches give different structures or dtypes.
        ValueError: The keys are not 0 to n - 1, or the branches give different shapes.

    Example:
        >>> int(tf.switch_case(tf.constant(1), [lambda: 10, lambda: 20]))
        20
    """
    branches = _branch_list(branch_fns)
    if default is not None:
        branches.append(default)
    trace = _core.open_trace()
    if trace is None or is_known(branch_index):
        index = int(branch_index)
        last = len(branches) - 1
        return branches[index if 0 <= index <= last else last]()
    tensor = Tensor(branch_index)
    if tensor.dtype.name != "int32" or tensor.shape != ():
        raise TypeError(
            "'branch_index' must be an int32 scalar. Received: "
            f"{tensor.dtype.name} of shape {tensor.shape}."
        )
    names = [f"branch_fns[{i}]" for i in range(len(branches))]
    if default is not None:
        names[-1] = "default"
    return _traced_switch(trace, tensor, branches, names)


@op
def case(
    pred_fn_pairs: Any,
    default: Callable[[], Any] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str | None = None,
) -> Any:
    """Call the function of the first predicate that is true.

    Args:
        pred_fn_pairs: Pairs (scalar bool, function without arguments).
        default: Called where none is true; None: the last function is.
        exclusive: Require that at most one is true; looked at outside of traced
            functions alone.
        strict: Accepted and not used.

    Returns:
        The result of the function.

    Raises:
        TypeError: ``pred_fn_pairs`` is not a list of pairs, or as for :func:`cond`.
        ValueError: It is empty, or the functions give different shapes.
        InvalidArgumentError: ``exclusive``, and more than one predicate is true.

    Example:
        >>> x = tf.constant(5)
        >>> int(tf.case([(x < 3, lambda: 1), (x < 9, lambda: 2)], default=lambda: 3))
        2
    """
    from ipu.tf.errors import InvalidArgumentError

    del strict, name
    if not isinstance(pred_fn_pairs, (list, tuple)):
        raise TypeError(
            f"'pred_fn_pairs' must be a list or tuple. Received: {pred_fn_pairs!r}."
        )
    pairs = list(pred_fn_pairs)
    for pair in pairs:
        is_pair = isinstance(pair, (list, tuple)) and len(pair) == 2
        if not is_pair or not callable(pair[1]):
            raise TypeError(
                "Each entry of 'pred_fn_pairs' must be a pair (predicate, callable). "
                f"Received: {pair!r}."
            )
    if not pairs:
        raise ValueError("'pred_fn_pairs' must not be empty.")
    known = all(is_known(predicate) for predicate, _ in pairs)
    if exclusive and known and sum(bool(predicate) for predicate, _ in pairs) > 1:
        raise InvalidArgumentError(
            "More than one condition evaluated as True but exclusive=True."
        )
    otherwise = default
    if otherwise is None:
        otherwise = pairs.pop()[1]
    for predicate, function in reversed(pairs):
        otherwise = _either(predicate, function, otherwise)
    return otherwise()


def _either(
    predicate: Any, function: Callable[[], Any], otherwise: Callable[[], Any]
) -> Callable[[], Any]:
    return lambda: cond(predicate, function, otherwise)
