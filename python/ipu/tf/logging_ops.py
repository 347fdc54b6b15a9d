# SPDX-License-Identifier: MIT
"""``tf.print``: printing of each run, in place of each trace."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ipu import _core
from ipu._core import Tensor
from ipu.tf import nest
from ipu.tf._functions.prints import tell_host
from ipu.tf._graph import mode
from ipu.tf._tensor.operation import Operation

__all__ = ["print_values", "text_of"]


def _number(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "1" if value else "0"
    if isinstance(value, np.floating):
        # as many digits as bring the number back
        kind = np.float64 if value.dtype == np.float64 else np.float32
        few, many = (15, 17) if kind is np.float64 else (6, 9)
        text = f"{value:.{few}g}"
        return text if kind(text) == kind(value) else f"{value:.{many}g}"
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, bytes):
        return f'"{value.decode(errors="replace")}"'
    return str(value)


def text_of(value: Any, summarize: int) -> str:
    """Return an array as ``tf.print`` writes it.

    Args:
        summarize: How many elements of each end of each axis; -1: all.

    Example:
        >>> text_of([1.0, 2.5], 3)
        '[1 2.5]'
    """
    array = np.asarray(value)
    if array.ndim == 0:
        return _number(array[()])
    rows = list(array)
    if summarize >= 0 and len(rows) > 2 * summarize:
        head = [text_of(row, summarize) for row in rows[:summarize]]
        tail = [text_of(row, summarize) for row in rows[-summarize:]]
        texts = [*head, "...", *tail]
    else:
        texts = [text_of(row, summarize) for row in rows]
    between = " " if array.ndim == 1 else "\n" * (array.ndim - 1) + " "
    return f"[{between.join(texts)}]"


def _text(value: Any, tensors: Any, summarize: int) -> str:
    """Return a value as text; tensors come from an iterator of arrays."""
    if _is_tensor(value):
        return text_of(next(tensors), summarize)
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        items = [f"{k!r}: {_text(v, tensors, summarize)}" for k, v in value.items()]
        return f"{{{', '.join(items)}}}"
    if isinstance(value, (list, tuple)):
        items = [_text(v, tensors, summarize) for v in value]
        return (
            f"[{', '.join(items)}]"
            if isinstance(value, list)
            else (f"({', '.join(items)})")
        )
    return _number(value) if isinstance(value, (int, float)) else str(value)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, (Tensor, np.ndarray, np.generic)) or hasattr(
        value, "__ipu_tensor__"
    )


def _writer(stream: Any) -> Callable[[str], None]:
    if stream is None:
        stream = sys.stderr
    if isinstance(stream, str):
        if not stream.startswith("file://"):
            raise ValueError(
                "output_stream must be sys.stdout, sys.stderr, 'file://' and a path, "
                f"or a logging function. Received: {stream!r}."
            )
        path = stream[len("file://") :]

        def append(text: str) -> None:
            with open(path, "a", encoding="utf-8") as file:
                file.write(text)

        return append
    if callable(stream):
        return lambda text: stream(text.rstrip("\n"))
    names = {id(sys.stdout): "stdout", id(sys.stderr): "stderr"}
    name = names.get(id(stream))

    def write(text: str) -> None:
        # the standard streams of the moment when it is printed
        target = stream if name is None else getattr(sys, name)
        target.write(text)
        target.flush()

    return write


@mode.kept_for_sessions
def print_values(
    *inputs: Any,
    output_stream: Any = None,
    summarize: int | None = 3,
    sep: str = " ",
    end: str = "\n",
    name: str | None = None,
    file: Any = None,
    flush: bool = False,
) -> Operation | None:
    """Print values; in a function each time it runs.

    What a function prints appears when its run has ended, in program order.

    Args:
        *inputs: Tensors, Python values, and nests of them.
        output_stream: ``sys.stderr`` (also None), ``sys.stdout``, ``"file://path"``, or
            a function such as ``logging.info``.
        summarize: How many elements of each end of each axis; -1 or None: all.
        sep: Between the values.
        end: Behind the last one.
        file: As ``output_stream``, from Python's ``print``.
        flush: Accepted: it is always flushed.

    Returns:
        An operation in functions.

    Example:
        >>> import sys
        >>> tf.print("x =", tf.constant([1.0, 2.5]), output_stream=sys.stdout)
        x = [1 2.5]
    """
    write = _writer(output_stream if file is None else file)
    most = -1 if summarize is None else summarize
    tensors = [leaf for leaf in nest.flatten(list(inputs)) if _is_tensor(leaf)]

    def show(arrays: Sequence[Any]) -> None:
        values = iter(arrays)
        write(sep.join(_text(v, values, most) for v in inputs) + end)

    if _core.open_trace() is None:
        show([np.asarray(t) for t in tensors])
        return None
    return tell_host("tf.print", tensors, show)
