# SPDX-License-Identifier: MIT
"""How tensors show themselves, and the methods of theirs that need no core.

Called by the core's ``Tensor`` by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ipu import _core
from ipu._text.suggestions import refuse_unknown
from ipu.tf import nest
from ipu.tf._tensor import varying_sizes
from ipu.tf._tensor.notes import noted
from ipu.tf._tensor.operation import Operation, Reference

_MOST_VALUES = 200  # of a tensor that is shown whole


def _values(text: str) -> str:
    """Start values of several lines on one of their own, so that they line up."""
    return "\n" + text if "\n" in text else text


def tensor_repr(tensor: _core.Tensor) -> str:
    """Return what the Python prompt shows.

    Args:
        tensor: Of any shape and dtype.

    Returns:
        Shape, dtype and, for an eager tensor, the values.
    """
    start = f"<tf.Tensor: shape={tensor.shape}, dtype={tensor.dtype_name}"
    if tensor.is_symbolic:
        return f"{start}, symbolic>"
    array = np.asarray(tensor)
    text = repr(array) if array.ndim else str(array)
    return f"{start}, numpy={_values(text)}>"


def tensor_str(tensor: _core.Tensor) -> str:
    """Return what ``print`` shows.

    Args:
        tensor: Of any shape and dtype.

    Returns:
        The values, where they are known, shape and dtype.

    Example:
        >>> print(tf.constant([1, 2]))
        tf.Tensor([1 2], shape=(2,), dtype=int32)
    """
    end = f"shape={tensor.shape}, dtype={tensor.dtype_name})"
    if tensor.is_symbolic:
        return f"tf.Tensor({end}"
    return f"tf.Tensor({_values(str(np.asarray(tensor)))}, {end}"


def tensor_format(tensor: _core.Tensor, spec: str) -> str:
    """Return what f-strings and ``str.format`` show: the values.

    Args:
        tensor: Of any shape and dtype; a scalar for a ``spec`` that is not empty.
        spec: A format specification such as ``.3f``.

    Returns:
        The values as NumPy formats them.

    Raises:
        TypeError: ``spec`` is for a number, and the tensor is not a scalar or has no
            value yet.

    Example:
        >>> f"{tf.constant(0.5):.2f} {tf.constant([1, 2])}"
        '0.50 [1 2]'
    """
    if tensor.is_symbolic:
        if spec:
            raise TypeError(
                f"The format {spec!r} needs the tensor's value, which is not known "
                "while a function is traced. Use tf.print, or return the tensor."
            )
        return tensor_str(tensor)
    return format(tensor.numpy(), spec)


def tensor_assign_method(tensor: _core.Tensor, name: str) -> Callable[..., Any]:
    """Return ``assign``, ``assign_add`` or ``assign_sub`` of a part of a variable.

    Returns:
        A function of a value that writes it into that part of the variable, and gives
        the variable.
    """
    variable, key = noted(tensor, "part_of")

    def method(value: Any, *_: Any, **options: Any) -> Any:
        refuse_unknown(name, options, ("name", "read_value", "use_locking"))
        return variable._assign_part(key, name, value)

    return method


def tensor_device(tensor: _core.Tensor) -> str:
    """Return the name of the device that holds the values.

    Args:
        tensor: Of any shape and dtype.

    Returns:
        A full device name, an IPU's for what was made in its ``tf.device`` scope; empty
        for a value of a function that is being traced.
    """
    if tensor.is_symbolic:
        return ""
    ordinal = tensor._device_ordinal
    kind = "CPU:0" if ordinal < 0 else f"IPU:{ordinal}"
    return f"/job:localhost/replica:0/task:0/device:{kind}"


def tensor_op(tensor: _core.Tensor) -> Operation:
    """Return the operation that makes a value of a function that is being traced.

    Args:
        tensor: Of any shape and dtype.

    Raises:
        AttributeError: It is not such a value.
    """
    trace = _core.open_trace()
    if trace is None or not tensor.is_symbolic:
        raise AttributeError(
            "Tensor.op is undefined when eager execution is enabled: a tensor that has "
            "its value is made by no operation."
        )
    node = trace.node_of(tensor)
    made = Operation("Tensor", f"op_{node}")
    made.spans = [] if node < 0 else [(node, node + 1)]
    return made


def tensor_ref(tensor: _core.Tensor) -> Reference:
    """Return what stands for the tensor in sets and dicts."""
    return Reference(tensor)


shape_setters: list[Callable[[_core.Tensor, Any], bool]] = []
"""Set the shape of a tensor of theirs that nothing has used; whether it is one."""


def tensor_set_shape(tensor: _core.Tensor, shape: Any) -> None:
    """Check that a tensor has a shape; all shapes are known here, so none is set but
    that of a result of Python's which nothing has used yet.

    Args:
        tensor: Of any shape and dtype.
        shape: Sizes, None for any; or None.

    Raises:
        ValueError: The tensor has another shape.
    """
    from ipu.tf.tensor_shape import TensorShape

    if not TensorShape(shape).is_compatible_with(tensor.shape):
        sizes = TensorShape(shape).as_list()
        if any(set_shape(tensor, sizes) for set_shape in shape_setters):
            return
        varying_sizes.say(sizes)
        raise ValueError(
            f"Tensor's shape {tensor.shape} is not compatible with supplied shape "
            f"{shape}."
        )


def tensor_html(tensor: _core.Tensor) -> str:
    """Return a tensor as HTML: its type, and its values where there are any.

    Args:
        tensor: Of any shape and dtype; of a large one the corners are shown.

    Example:
        >>> print(tensor_html(tf.constant([1, 2])))
        <pre><b>tf.Tensor</b> (2,), int32
        [1 2]</pre>
    """
    about = f"{tensor.shape}, {tensor.dtype_name}"
    if tensor.is_symbolic:
        return values_html("tf.Tensor", f"{about}, symbolic", None)
    return values_html("tf.Tensor", about, np.asarray(tensor))


def _fixed(kind: str, about: str, text: str = "") -> str:
    import html  # slow to import

    lines = f"\n{html.escape(text)}" if text else ""
    return f"<pre><b>{kind}</b> {html.escape(about)}{lines}</pre>"


def values_html(kind: str, about: str, values: np.ndarray | None) -> str:
    """Return a tensor or a variable as HTML.

    Args:
        about: Its name, shape and dtype.
        values: Of a large one the corners are shown; None where there are none.
    """
    if values is None:
        return _fixed(kind, about)
    return _fixed(kind, about, np.array2string(values, threshold=_MOST_VALUES))


class _Leaf:
    """A part of an element: its dtype and its shape, without quotes."""

    def __init__(self, spec: Any) -> None:
        dtype = getattr(spec, "dtype", None)
        shape = getattr(spec, "shape", None)
        self._text = repr(spec) if dtype is None else f"{dtype.name} {shape}"

    def __repr__(self) -> str:
        return self._text


def dataset_html(count: int, spec: Any) -> str:
    """Return a data set as HTML: how many elements it has, and what one is.

    Args:
        count: The cardinality: -1 for an endless one, -2 for one that is not known.
    """
    import pprint  # slow to import

    known = {-1: "endless", -2: "of unknown length"}
    about = known.get(count) or f"of {count} element{'s' if count != 1 else ''}"
    return _fixed("Dataset", about, pprint.pformat(nest.map_structure(_Leaf, spec)))
