# SPDX-License-Identifier: MIT
"""What each call of a layer costs in training, by the core's count of its ops."""

from __future__ import annotations

from typing import Any, NamedTuple

from ipu import tf
from ipu._device.placement import current_device
from ipu.keras._types import Tensor
from ipu.keras.engine.layer.call_context import call_scope
from ipu.keras.engine.pipelines.calls import FlatModel, StageCall
from ipu.keras.engine.symbols.keras_tensor import KerasTensor
from ipu.tf._functions import function


class CallCost(NamedTuple):
    """What a call costs, forward and backward.

    Attributes:
        name: The name of the layer.
        flops: Operations; a multiply-add counts as two.
        bytes: What ops read and write.
    """

    name: str
    flops: float
    bytes: float


def costs_of(flat: FlatModel, batch_size: int) -> list[CallCost]:
    """Find what the calls of a model cost.

    Each is traced alone: its results, the gradients of its weights, and those of what
    it takes from other layers.

    Args:
        flat: The model.
        batch_size: Samples in a batch, where the model leaves that open.

    Returns:
        The cost of each call, in order.
    """
    return [_cost(flat, call, batch_size) for call in flat.calls]


def _spec(symbol: KerasTensor, batch_size: int) -> tf.TensorSpec:
    sizes = tuple(batch_size if size is None else size for size in symbol.shape)
    return tf.TensorSpec(sizes, symbol.dtype)


def _cost(flat: FlatModel, call: StageCall, batch_size: int) -> CallCost:
    node = call.node
    layer = node.layer
    symbols = list({id(s): s for s in node.keras_inputs}.values())
    data = set(flat.inputs)
    wanted = [
        i
        for i, symbol in enumerate(symbols)
        if symbol.dtype.is_floating and flat.origin(call.key(symbol)) not in data
    ]
    made = [s for s in tf.nest.flatten(node.outputs) if s.dtype.is_floating]
    specs = [_spec(symbol, batch_size) for symbol in [*symbols, *made]]

    def body(*tensors: Tensor) -> Any:
        given, seeds = tensors[: len(symbols)], tensors[len(symbols) :]
        values = {id(s): tensor for s, tensor in zip(symbols, given, strict=True)}
        args, kwargs = node.fill(values)
        with call_scope(True):
            results = tf.nest.flatten(layer(*args, **kwargs))
        for inner in layer._flatten_layers():
            inner._losses.clear()
        floats = [one for one in results if tf.as_dtype(one.dtype).is_floating]
        needed: list[Any] = [*layer.trainable_variables, *(given[i] for i in wanted)]
        if not needed or not floats:
            return results
        gradients = tf.gradients(floats, needed, list(seeds))
        return [*results, *(g for g in gradients if g is not None)]

    program = function.trace_program(body, specs, device=current_device()).program
    # a view, such as Flatten, is copied here alone, since it is a result
    is_view = " kernel " not in program.text
    return CallCost(str(layer.name), program.flops, 0.0 if is_view else program.bytes)
