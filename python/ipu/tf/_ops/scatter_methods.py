# SPDX-License-Identifier: MIT
"""Variables' methods that write some rows or points alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ipu._core import Tensor
from ipu.tf._ops import selection
from ipu.tf.indexed_slices import IndexedSlices

if TYPE_CHECKING:
    Self = TypeVar("Self", bound="ScatterMethods")


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

    def scatter_nd_add(
        self: Self, indices: Any, updates: Any, name: str | None = None
    ) -> Self:
        """Add to the elements at points; arguments as in ``scatter_nd_update``."""
        new = selection.tensor_scatter_nd_add(self.value(), indices, updates)
        return self.assign(new)

    def scatter_nd_sub(
        self: Self, indices: Any, updates: Any, name: str | None = None
    ) -> Self:
        """Subtract at points; arguments as in ``scatter_nd_update``."""
        new = selection.tensor_scatter_nd_sub(self.value(), indices, updates)
        return self.assign(new)

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

    def scatter_add(
        self: Self,
        sparse_delta: IndexedSlices,
        use_locking: bool = False,
        name: str | None = None,
    ) -> Self:
        """Add to rows; arguments as in ``scatter_update``."""
        return self.scatter_nd_add(*_rows(sparse_delta))

    def scatter_sub(
        self: Self,
        sparse_delta: IndexedSlices,
        use_locking: bool = False,
        name: str | None = None,
    ) -> Self:
        """Subtract from rows; arguments as in ``scatter_update``."""
        return self.scatter_nd_sub(*_rows(sparse_delta))

    def scatter_max(
        self: Self,
        sparse_delta: IndexedSlices,
        use_locking: bool = False,
        name: str | None = None,
    ) -> Self:
        """Keep the larger of row and update; arguments as in ``scatter_update``."""
        points, values = _rows(sparse_delta)
        new = selection.tensor_scatter_nd_max(self.value(), points, values)
        return self.assign(new)

    def scatter_min(
        self: Self,
        sparse_delta: IndexedSlices,
        use_locking: bool = False,
        name: str | None = None,
    ) -> Self:
        """Keep the smaller of row and update; arguments as in ``scatter_update``."""
        points, values = _rows(sparse_delta)
        new = selection.tensor_scatter_nd_min(self.value(), points, values)
        return self.assign(new)


def _rows(delta: Any) -> tuple[Tensor, Tensor]:
    if not isinstance(delta, IndexedSlices):
        raise TypeError(
            f"`sparse_delta` must be a tf.IndexedSlices. Received: {delta!r}. Write "
            "tf.IndexedSlices(values, indices)."
        )
    return delta._points(), delta.values
