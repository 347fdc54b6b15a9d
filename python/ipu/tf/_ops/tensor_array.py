# SPDX-License-Identifier: MIT
"""``tf.TensorArray``: a list of tensors of one shape that a loop can write and read.

In a function that is being traced it is one tensor ``[size, *element_shape]`` whose
rows are written in place; outside of one it is a Python list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ipu import _core
from ipu._core import Tensor
from ipu.tf._functions.blocks import last_value
from ipu.tf._graph import mode
from ipu.tf._ops import creation, selection, shapes
from ipu.tf._tensor import convert, open_sizes
from ipu.tf.dtypes import DType, as_dtype

_Shape = tuple[int, ...]


def _static_shape(shape: Any) -> _Shape | None:
    """Return a shape as a tuple, or None where a part of it is not known."""
    if shape is None or getattr(shape, "rank", 0) is None:
        return None
    sizes = tuple(shape)
    if any(size is None for size in sizes):
        return None
    return tuple(int(size) for size in sizes)


class TensorArray:
    """A list of tensors of one dtype and shape.

    Args:
        dtype: Of the elements.
        size: How many elements there are: an int.
        dynamic_size: Whether writing after the end makes it longer. In a traced
            function only an index that is known when it is traced can do so, or that
            of a loop over a range of known length.
        clear_after_read: Accepted and not used: elements may be read again.
        tensor_array_name, handle, flow: Accepted and not used.
        infer_shape: Accepted and not used: elements always have one shape.
        element_shape: Their shape; None: that of the first one written.
        colocate_with_first_write_call: Accepted and not used.

    Raises:
        ValueError: The size is negative, or not known when the function is traced.

    Use the object that :meth:`write`, :meth:`unstack` and so on return, as in
    TensorFlow.

    Example:
        >>> squares = tf.TensorArray(tf.int32, size=3)
        >>> for i in range(3):
        ...     squares = squares.write(i, i * i)
        >>> squares.stack().numpy().tolist()
        [0, 1, 4]
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> TensorArray:
        if cls is TensorArray and mode.building() is not None:
            from ipu.tf._graph.arrays import GraphTensorArray

            cls = GraphTensorArray
        return object.__new__(cls)

    def __init__(
        self,
        dtype: Any,
        size: Any = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: Any = None,
        flow: Any = None,
        infer_shape: bool = True,
        element_shape: Any = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ) -> None:
        del infer_shape, colocate_with_first_write_call, name
        self._dtype = as_dtype(dtype)
        self._dynamic = bool(dynamic_size)
        self._shape = _static_shape(element_shape)
        if isinstance(size, Tensor) and size.is_symbolic:
            size = open_sizes.take()
            if size is None:
                error = ValueError(
                    "The size of a TensorArray must be known when the function is "
                    "traced, since memory is planned then. Received a tensor of the "
                    "trace: use an int, for instance tensor.shape[0]."
                )
                raise open_sizes.about_values(error)
        self._size = 0 if size is None else int(size)
        if self._size < 0:
            raise ValueError(f"size must not be negative. Received: {self._size}.")
        self._elements: list[Tensor | None] = [None] * self._size
        self._trace = _core.open_trace()
        self._rows: Tensor | None = None
        self._supply: Callable[[_Shape], Tensor] | None = None
        self._origin: TensorArray | None = None  # of one in a loop: that before it

    # --- what control flow asks ------------------------------------------------------

    @property
    def _ipu_pending(self) -> bool:
        """Whether it stands for no tensor yet: nothing was written to it."""
        self._enter_trace()
        return self._trace is not None and self._rows is None

    def _ipu_flatten(self) -> list[Tensor]:
        self._enter_trace()
        return [] if self._rows is None else [self._rows]

    def _ipu_unflatten(self, tensors: Sequence[Tensor]) -> TensorArray:
        if self._trace is None:
            return self
        array = self._copy()
        if tensors:
            array._rows = tensors[0]
            array._shape = tuple(tensors[0].shape[1:])
            array._size = tensors[0].shape[0]
        return array

    def _ipu_supply(self, supply: Callable[[_Shape], Tensor]) -> TensorArray:
        """Return a pending copy that asks ``supply(element_shape)`` for its rows."""
        array = self._copy()
        array._supply = supply
        array._origin = self
        return array

    def _ipu_settle(self, shape: _Shape) -> Tensor:
        """Return the rows; ``shape`` is that of an element where it is not known
        yet."""
        if self._rows is None:
            self._shape = shape if self._shape is None else self._shape
            assert self._trace is not None
            if self._supply is not None:
                self._rows = self._supply(self._shape)
            else:
                type = (self._dtype.name, (self._size, *self._shape))
                self._rows = self._trace.zeros(type)
        return self._rows

    def _copy(self, rows: Tensor | None = None) -> TensorArray:
        array = TensorArray(self._dtype, self._size, self._dynamic)
        array._shape = self._shape
        array._elements = self._elements
        array._trace = self._trace
        array._rows = self._rows if rows is None else rows
        array._supply = self._supply
        array._origin = self._origin
        return array

    # --- what it is ------------------------------------------------------------------

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return self._dtype

    @property
    def dynamic_size(self) -> bool:
        """Whether it may become longer."""
        return self._dynamic

    @property
    def element_shape(self) -> _Shape | None:
        """The shape of an element; None before it is known."""
        return self._shape

    @property
    def flow(self) -> Tensor:
        """All elements: the value that a loop carries."""
        return self.stack()

    def size(self, name: str | None = None) -> Tensor:
        """Return how many elements there are, an int32 scalar."""
        if self._dynamic and self._supply is not None and self._rows is None:
            if open_sizes.take() is not None:
                return open_sizes.stand_in("int32", ())
            error = ValueError(
                "The number of elements of a TensorArray that grows in a loop is not "
                "known in that loop. Write to the number of the turn, which is `i` in "
                "`for i in tf.range(n)`, or give it its size before."
            )
            raise open_sizes.about_values(error)
        return Tensor(len(self._elements) if self._trace is None else self._size)

    def identity(self) -> TensorArray:
        """Return the same array."""
        return self

    def close(self, name: str | None = None) -> None:
        """Do nothing: memory is freed with the object."""

    def __len__(self) -> int:
        return len(self._elements) if self._trace is None else self._size

    # --- elements --------------------------------------------------------------------

    def _element(self, value: Any) -> Tensor:
        tensor = Tensor(value)
        if tensor.dtype != self._dtype:
            if isinstance(value, Tensor) or hasattr(value, "dtype"):
                raise TypeError(
                    f"A TensorArray of {self._dtype.name} was given an element of "
                    f"{tensor.dtype.name}. Convert it with tf.cast."
                )
            tensor = convert.cast(tensor, self._dtype)
        if self._shape is None:
            self._shape = tuple(tensor.shape)
        elif tuple(tensor.shape) != self._shape:
            raise ValueError(
                "All elements of a TensorArray have one shape. Expected "
                f"{self._shape}, received {tuple(tensor.shape)}."
            )
        return tensor

    def _check_index(self, index: Any) -> int | None:
        """Return an index that is known, in range; None for a tensor of the trace."""
        if isinstance(index, Tensor) and index.is_symbolic:
            return None
        known = int(index)
        if not 0 <= known < len(self):
            hint = "" if self._dynamic else " Give a larger size, or dynamic_size=True."
            raise IndexError(
                f"Index {known} is out of range for a TensorArray of {len(self)} "
                f"elements.{hint}"
            )
        return known

    def _grow(self, index: Any) -> None:
        if not self._dynamic or (isinstance(index, Tensor) and index.is_symbolic):
            return
        missing = int(index) + 1 - len(self)
        if missing <= 0:
            return
        if self._trace is None:
            self._elements = self._elements + [None] * missing
            return
        self._size += missing
        if self._rows is not None:
            more = (missing, *self._rows.shape[1:])
            zeros = self._trace.zeros((self._dtype.name, more))
            self._rows = shapes.concat([self._rows, zeros], 0)

    def _make_room(self, index: Any) -> None:
        """Make room before a loop, which cannot grow an array."""
        is_moving = isinstance(index, Tensor) and index.is_symbolic
        if not self._dynamic or not (is_moving or self._origin is not None):
            return
        last = last_value(index) if is_moving else int(index)
        if last is not None and self._rows is not None and last >= self._size:
            error = ValueError(
                f"A TensorArray that has {self._size} elements before a loop cannot "
                f"grow in it, but element {last} is written there. Give it its size: "
                f"tf.TensorArray(dtype, size={last + 1})."
            )
            raise open_sizes.about_values(error)
        if last is None and self._size == 0:
            guess = open_sizes.take()
            if guess is None:
                error = ValueError(
                    "A TensorArray of size 0 cannot grow where neither the index nor "
                    "the number of turns is known when the function is traced: memory "
                    "is planned then. Give it a size: tf.TensorArray(dtype, size=n)."
                )
                raise open_sizes.about_values(error)
            last = guess - 1
        array: TensorArray | None = self
        while array is not None and last is not None:
            array._size = max(array._size, last + 1)
            array = array._origin

    def _enter_trace(self) -> None:
        """Make an array that was filled before the function one of its constants."""
        trace = _core.open_trace()
        if self._trace is None and trace is not None:
            rows = self.stack() if self._elements and self._shape is not None else None
            self._size = len(self._elements)
            self._trace = trace
            self._rows = rows

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """Set element ``index``.

        Args:
            index: An int32 scalar from 0 to size - 1. In a traced function an index
                that is out of range writes to the nearest element.
            value: A tensor of the elements' dtype and shape.

        Returns:
            The array with the element; use it in place of this one.

        Raises:
            IndexError: A known index is out of range.
            ValueError: ``value`` has another shape than the elements before.
            TypeError: It has another dtype.
        """
        self._enter_trace()
        if self._trace is None:
            self._grow(index)
            self._check_index(index)
            self._elements[int(index)] = self._element(value)
            return self
        self._make_room(index)
        target = self._copy()
        target._grow(index)
        target._check_index(index)
        tensor = target._element(value)
        owner = self if target._size == self._size else target
        rows = owner._ipu_settle(tuple(tensor.shape))
        if rows.shape[0] == 0:  # in a loop that takes no turn
            target._rows = rows
            return target
        row = shapes.reshape(tensor, (1, *tensor.shape))
        start = Tensor(index)
        if start.dtype.name != "int32":
            start = convert.cast(start, "int32")
        target._rows = _core.apply("dynamic_update_slice", (rows, row, start))
        return target

    def read(self, index: Any, name: str | None = None) -> Tensor:
        """Return element ``index``.

        Args:
            index: An int32 scalar. In a traced function an index that is out of range
                reads the nearest element.

        Raises:
            IndexError: A known index is out of range.
            ValueError: The element was never written; in a traced function: nothing
                was, and ``element_shape`` was not given.
        """
        self._enter_trace()
        known = self._check_index(index)
        if self._trace is None:
            element = self._elements[int(index)]
            if element is None:
                raise ValueError(
                    f"Tried to read element {known} of a TensorArray, which has not "
                    "been written."
                )
            return element
        rows = self._ipu_settle(self._known_shape("read"))
        shape = rows.shape[1:]
        if rows.shape[0] == 0:  # in a loop that takes no turn
            return creation.zeros(shape, rows.dtype)
        start = Tensor(index)
        if start.dtype.name != "int32":
            start = convert.cast(start, "int32")
        row = _core.apply("dynamic_slice", (rows, start), {"size": (1, *shape)})
        return shapes.reshape(row, shape)

    def _known_shape(self, what: str) -> _Shape:
        if self._shape is None:
            raise ValueError(
                f"A TensorArray whose element shape is unknown cannot {what}: write an "
                "element first, or give element_shape."
            )
        return self._shape

    # --- all elements ----------------------------------------------------------------

    def stack(self, name: str | None = None) -> Tensor:
        """Return all elements as one tensor ``[size, *element_shape]``; what was not
        written is zeros."""
        if self._trace is not None:
            return self._ipu_settle(self._known_shape("be stacked"))
        shape = self._known_shape("be stacked")
        if not self._elements:
            return creation.zeros((0, *shape), self._dtype)
        blank = creation.zeros(shape, self._dtype)
        return shapes.stack([blank if e is None else e for e in self._elements])

    def concat(self, name: str | None = None) -> Tensor:
        """Return the elements one after the other along their first axis."""
        rows = self.stack()
        if rows.ndim < 2:
            raise ValueError("Scalars cannot be concatenated; use stack().")
        return shapes.reshape(rows, (rows.shape[0] * rows.shape[1], *rows.shape[2:]))

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """Return the elements of these indices, ``[len(indices), *element_shape]``."""
        return selection.gather(self.stack(), indices)

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """Fill the array with the rows of ``value``, ``[n, *element_shape]``.

        Raises:
            ValueError: There are more rows than elements and the array cannot grow.
        """
        tensor = Tensor(value)
        if tensor.dtype != self._dtype:
            tensor = convert.convert_to_tensor(value, self._dtype)
        count = tensor.shape[0] if tensor.shape else 0
        if not tensor.shape or (count > len(self) and not self._dynamic):
            raise ValueError(
                f"A TensorArray of {len(self)} elements cannot hold the rows of a "
                f"tensor of shape {tuple(tensor.shape)}."
            )
        self._enter_trace()
        target = self._copy()
        if target._shape is not None and target._shape != tuple(tensor.shape[1:]):
            raise ValueError(
                f"The elements have the shape {target._shape}, but the rows have "
                f"{tuple(tensor.shape[1:])}."
            )
        target._shape = tuple(tensor.shape[1:])
        if target._trace is None:
            rows: list[Tensor | None] = [tensor[i] for i in range(count)]
            target._elements = rows + target._elements[count:]
            return target
        if count < target._size:
            whole = target._ipu_settle(target._shape)
            start = Tensor(0)
            tensor = _core.apply("dynamic_update_slice", (whole, tensor, start))
        target._size = max(count, target._size)
        target._rows = tensor
        return target

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorArray:
        """Write the rows of ``value`` to these indices."""
        places = Tensor(indices)
        rows = Tensor(value)
        target = self
        for i in range(places.shape[0]):
            target = target.write(places[i], rows[i])
        return target

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """Cut ``value`` along its first axis into elements of ``lengths`` rows.

        Raises:
            ValueError: The lengths differ from each other: elements have one shape.
        """
        counts = [int(length) for length in shapes.unstack(Tensor(lengths))]
        if len(set(counts)) > 1:
            raise ValueError(
                f"All elements of a TensorArray have one shape. Received: {counts}."
            )
        rows = Tensor(value)
        size = counts[0] if counts else 0
        return self.unstack(shapes.reshape(rows, (len(counts), size, *rows.shape[1:])))
