# SPDX-License-Identifier: MIT
"""Layers that work on the host: of words, and of tables.

Devices have no strings. Such a layer works on eager tensors, in the function of a
``Dataset.map``, and as one of the first layers of a model, also in the ``call`` of a
subclass: ``fit``, ``evaluate`` and ``predict`` then run it on the data before they
reach the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu.keras._types import Shape
from ipu.keras.engine.symbols.keras_tensor import KerasTensor
from ipu.keras.layers.preprocessing import PreprocessingLayer
from ipu.tf._string_ops.host_only import on_host
from ipu.tf._string_ops.tensors import StringTensor, is_text, plain
from ipu.tf.ragged import RaggedTensor

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import PlainLayerOptions

__all__ = ["HostLayer", "batches_of", "host_tensor"]


def host_tensor(value: Any) -> Any:
    """Return strings, numbers or ragged rows as an eager tensor."""
    value = plain(value)
    if isinstance(value, (RaggedTensor, StringTensor)):
        return value
    return StringTensor(value) if is_text(value) else tf.convert_to_tensor(value)


def batches_of(data: Any, steps: int | None) -> Iterator[Any]:
    """Yield the batches of data that a layer learns from, as eager tensors."""
    if not hasattr(data, "element_spec"):
        yield host_tensor(data)
        return
    for number, batch in enumerate(data):
        if number == steps:
            return
        yield batch


class HostLayer(PreprocessingLayer):
    """Base class of layers that work on the host.

    A subclass defines ``compute``, from eager tensors to an eager tensor, and
    ``output_of``, from the shape and dtype of its input to those of its result.
    """

    _runs_on_host = True
    _dtype_is_of_result = True  # in files of Keras 3

    def __init__(self, **kwargs: Unpack[PlainLayerOptions]) -> None:
        kwargs["autocast"] = False
        super().__init__(**kwargs)

    def _concrete_call(self, *args: Any, **kwargs: Any) -> Any:
        inputs = self._as_inputs(args[0] if args else kwargs.pop("inputs"))
        on_host(f"keras.layers.{type(self).__name__}", *tf.nest.flatten(inputs))
        return super()._concrete_call(inputs, *args[1:], **kwargs)

    def _as_inputs(self, inputs: Any) -> Any:
        return host_tensor(inputs)

    def _infer(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        inputs = args[0] if args else next(iter(kwargs.values()))
        shape, dtype = self.output_of(inputs)
        return KerasTensor(shape, dtype, self.name)

    def output_of(self, inputs: Any) -> tuple[Shape, Any]:
        """Return shape and dtype of the result for symbolic inputs."""
        raise NotImplementedError

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Find the shape of the result."""
        return self.output_of(KerasTensor(tuple(input_shape), self._input_dtype))[0]

    @property
    def _input_dtype(self) -> Any:
        """The dtype of the input, where the layer is the first of a Sequential."""
        return tf.string
