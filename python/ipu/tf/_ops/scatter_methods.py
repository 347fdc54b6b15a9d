# SPDX-License-Identifier: MIT
"""Variables' methods that write some rows or points alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ipu._core import Tensor
from ipu.tf._ops import selection
from ipu.tf.indexed_slices import IndexedSlices

if TYPE_CHECKING:
    Self = TypeVar("Self", bound="ScatterMethods")


def _rows(delta: Any) -> tuple[Tensor, Tensor]:
    if not isinstance(delta, IndexedSlices):
        raise TypeError(
            f"`sparse_delta` must be a tf.IndexedSlices. Received: {delta!r}. Write "
            "tf.IndexedSlices(values, indices)."
        )
    return delta._points(), delta.values


def _of_points(write: Callable[..., Tensor], text: str) -> Callable[..., Any]:
    def method(self: Any, indices: Any, updates: Any, name: str | None = None) -> Any:
        return self.assign(write(self.value(), indices, updates))

    method.__doc__ = f"{text} at points; arguments as in ``scatter_nd_update``."
    return method


def _of_rows(write: Callable[..., Tensor], text: str) -> Callable[..., Any]:
    def method(
        self: Any,
        sparse_delta: IndexedSlices,
        use_locking: bool = False,
        name: str | None = None,
    ) -> Any:
        return self.assign(write(self.value(), *_rows(sparse_delta)))

    method.__doc__ = f"{text}; arguments as in ``scatter_update``."
    return method


class ScatterMethods:
    """What variables write at some rows (``scatter_*``) or points (``scatter_nd_*``).

    Of several updates for one place, ``update`` keeps the last, the others take all, in
    their order. Each method returns the variable.
    """

    if TYPE_CHECKING:

        def value(self) -> Tensor: ...
        def assign(self: Self, value: Any) -> Self: ...

    def scatter_nd_update(
        self: Self, indices: Any, updates: Any, name: str | None = None
    ) -> Self:
        """Set the elements at points.

        Args:
            indices: Points: integers of shape [..., coordinates].
            updates: What goes there.

        Example:
            >>> v = tf.Variable([1.0, 2.0, 3.0])
            >>> v.scatter_nd_update([[0]], [9.0]).numpy().tolist()
            [9.0, 2.0, 3.0]
        """
        new = selection.tensor_scatter_nd_update(self.value(), indices, updates)
        return self.assign(new)

    scatter_nd_add = _of_points(selection.tensor_scatter_nd_add, "Add to the elements")
    scatter_nd_sub = _of_points(selection.tensor_scatter_nd_sub, "Subtract")

    def scatter_update(
        self: Self,
        sparse_delta: IndexedSlices,
        use_locking: bool = False,
        name: str | None = None,
    ) -> Self:
        """Set rows.

        Args:
            sparse_delta: The rows, as ``tf.IndexedSlices``.
            use_locking: Accepted and not used: an assignment is never seen half done.

        Raises:
            TypeError: ``sparse_delta`` is another thing.

        Example:
            >>> v = tf.Variable([[1.0], [2.0]])
            >>> v.scatter_update(tf.IndexedSlices([[9.0]], [1])).numpy().tolist()
            [[1.0], [9.0]]
        """
        return self.scatter_nd_update(*_rows(sparse_delta))

    scatter_add = _of_rows(selection.tensor_scatter_nd_add, "Add to rows")
    scatter_sub = _of_rows(selection.tensor_scatter_nd_sub, "Subtract from rows")
    scatter_max = _of_rows(
        selection.tensor_scatter_nd_max, "Keep the larger of row and update"
    )
    scatter_min = _of_rows(
        selection.tensor_scatter_nd_min, "Keep the smaller of row and update"
    )
