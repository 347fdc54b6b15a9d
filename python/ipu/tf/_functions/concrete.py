# SPDX-License-Identifier: MIT
"""What ``get_concrete_function`` gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipu._core import Tensor
from ipu._device import devices
from ipu.tf import nest
from ipu.tf._functions.signature import is_tensor_argument
from ipu.tf._functions.tracing import TracedProgram
from ipu.tf.tensor_spec import TensorSpec


class ConcreteFunction:
    """A function traced for one signature.

    Attributes:
        name: The function's name.
        structured_input_signature: (args, kwargs), with a ``TensorSpec`` for each
            tensor.
        structured_outputs: What it returns, with a ``TensorSpec`` for each tensor.
    """

    _is_ipu_function = True

    def __init__(
        self,
        name: str,
        traced: TracedProgram,
        specs: tuple[Any, Any],
        device: devices.Device | None,
        again: Callable[[devices.Device], TracedProgram],
    ) -> None:
        self.name = name
        self.structured_input_signature = specs
        self.structured_outputs = traced.output_structure
        self._traced = traced
        self._device = device
        self._again = again
        self._inputs = [s for s in nest.flatten(specs) if isinstance(s, TensorSpec)]

    @property
    def output_shapes(self) -> Any:
        """The shapes of what it returns."""
        return nest.map_structure(
            lambda s: s.shape if isinstance(s, TensorSpec) else None,
            self.structured_outputs,
        )

    @property
    def output_dtypes(self) -> Any:
        """The dtypes of what it returns."""
        return nest.map_structure(
            lambda s: s.dtype if isinstance(s, TensorSpec) else None,
            self.structured_outputs,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors = [
            leaf
            for leaf in nest.flatten((args, kwargs))
            if is_tensor_argument(leaf) or isinstance(leaf, (int, float, list))
        ]
        if len(tensors) != len(self._inputs):
            raise TypeError(
                f"{self.name} takes {len(self._inputs)} tensors. "
                f"Received: {len(tensors)}."
            )
        inputs = [
            Tensor(t, s.dtype.name) if not isinstance(t, Tensor) else t
            for t, s in zip(tensors, self._inputs, strict=True)
        ]
        if self._device is None:
            return self._traced.pack(self._traced.run(inputs))
        while True:
            traced, device = self._traced, self._device
            with device.running():
                if not device.is_retired:
                    return traced.pack(traced.run(inputs))
            devices.await_configuration()
            device = devices.get_device(device.ordinal)
            self._traced, self._device = self._again(device), device
