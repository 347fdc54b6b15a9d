# SPDX-License-Identifier: MIT
"""``tf.TensorArray`` in a graph: its rows are a tensor between operations.

An operation that takes an array is called with one that has the rows, and one that
gives an array gives its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ipu._core import Tensor
from ipu.tf._graph import mode
from ipu.tf._ops import shapes
from ipu.tf._ops.tensor_array import TensorArray
from ipu.tf.tensor_shape import TensorShape

if TYPE_CHECKING:
    from ipu.tf._graph.operation import GraphTensor


class GraphTensorArray(TensorArray):
    """An array of which nothing is known before a session runs.

    Args:
        dtype, size, dynamic_size, clear_after_read, tensor_array_name, handle, flow,
            infer_shape, element_shape, colocate_with_first_write_call: As of a
            ``TensorArray``; the size may be a tensor of the graph.
    """

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
        is_known = size is None or isinstance(size, int)
        super().__init__(
            dtype, size if is_known else 0, dynamic_size, element_shape=element_shape
        )
        self._open_size = None if is_known else size
        self._of_graph: GraphTensor | None = None  # its rows
        self._first_shape = self._shape

    @classmethod
    def _with_rows(cls, like: TensorArray, rows: GraphTensor) -> GraphTensorArray:
        made = cls(like.dtype, 0, like.dynamic_size)
        made._of_graph = rows
        return made

    @property
    def _graph_parts(self) -> list[Any]:
        """The tensors of the graph that it is made of."""
        return [one for one in (self._open_size, self._of_graph) if one is not None]

    def _real(self, value_of: Callable[[Any], Any] = Tensor) -> TensorArray:
        """Return the array in a function that is called with values."""
        if self._of_graph is not None:
            rows = value_of(self._of_graph)
            shape = rows.shape
            made = TensorArray(
                self._dtype, shape[0], self._dynamic, element_shape=shape[1:]
            )
            return made.unstack(rows)
        size = self._size if self._open_size is None else value_of(self._open_size)
        return TensorArray(
            self._dtype, size, self._dynamic, element_shape=self._first_shape
        )

    # --- what control flow asks of one that a function has from around it -------------

    @property
    def _ipu_pending(self) -> bool:
        return self._real()._ipu_pending

    def _ipu_flatten(self) -> list[Tensor]:
        return self._real()._ipu_flatten()

    def _ipu_unflatten(self, tensors: Any) -> TensorArray:
        return self._real()._ipu_unflatten(tensors)

    # --- what it is -------------------------------------------------------------------

    @property
    def element_shape(self) -> Any:
        """The shape of an element, as far as it is known."""
        rows = self._of_graph
        return TensorShape(self._first_shape if rows is None else rows._shape[1:])

    def __len__(self) -> int:
        rows = self._of_graph
        size = self._size if rows is None else rows._shape[0]
        if size is None or self._open_size is not None:
            raise TypeError("The number of elements of this TensorArray is not known.")
        return int(size)

    # --- elements: each call is an operation ------------------------------------------

    def _call(self, method: str, *args: Any) -> Any:
        graph = mode.building()
        if graph is None:
            return _called(self._real(), method, args)
        type = f"TensorArray{method.capitalize()}"
        return graph.record(_called, (self, method, args), {}, type)

    def size(self, name: str | None = None) -> Any:
        """Return how many elements there are."""
        if self._of_graph is None:
            return self._call("size")
        return shapes.shape(self._of_graph)[0]

    def write(self, index: Any, value: Any, name: str | None = None) -> Any:
        """Set an element; use the array that this returns."""
        return self._call("write", index, value)

    def read(self, index: Any, name: str | None = None) -> Any:
        """Return an element."""
        return self._call("read", index)

    def stack(self, name: str | None = None) -> Any:
        """Return all elements as one tensor."""
        return self._call("stack")

    def concat(self, name: str | None = None) -> Any:
        """Return the elements one after the other along their first axis."""
        return self._call("concat")

    def gather(self, indices: Any, name: str | None = None) -> Any:
        """Return the elements of these indices."""
        return self._call("gather", indices)

    def unstack(self, value: Any, name: str | None = None) -> Any:
        """Fill the array with the rows of a tensor."""
        return self._call("unstack", value)

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> Any:
        """Write the rows of a tensor to these indices."""
        return self._call("scatter", indices, value)

    def split(self, value: Any, lengths: Any, name: str | None = None) -> Any:
        """Cut a tensor along its first axis into elements."""
        return self._call("split", value, lengths)


def _called(array: TensorArray, method: str, args: tuple[Any, ...]) -> Any:
    return getattr(array, method)(*args)


def rows_of(array: Any, shape: Any = None) -> Any:
    """Return what an array gives of itself to a graph: its rows.

    Args:
        shape: Its rows' shape as the graph knows it, for one that was never written to.
    """
    if not isinstance(array, TensorArray):
        return array
    if array.element_shape is None and shape is not None and None not in shape[1:]:
        array = TensorArray(array.dtype, len(array), element_shape=shape[1:])
    return array.stack()
