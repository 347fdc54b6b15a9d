# SPDX-License-Identifier: MIT
"""The part of a model that works on the host: layers of words, and what leads to them.

Devices have no strings. So the data of ``fit``, ``evaluate`` and ``predict`` go through
this part first, and the device gets what comes out of it: numbers, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ipu import tf
from ipu.keras._sequence import Sequence, number_of_batches
from ipu.keras._types import Nest
from ipu.keras.engine.symbols.functional_graph import Graph
from ipu.keras.engine.symbols.keras_tensor import KerasTensor, Node
from ipu.keras.engine.training.data_adapter import is_batched
from ipu.tf._string_ops.tensors import StringTensor, is_text, plain


class HostPart:
    """The part of a model that is computed on the host.

    Attributes:
        nodes: The calls.
        symbols: The inputs of the device, by name.
    """

    def __init__(self, nodes: list[Node], handed_over: list[KerasTensor]) -> None:
        self.nodes = nodes
        self.symbols: dict[str, KerasTensor] = {}
        for symbol in handed_over:
            layer, call, place = symbol._keras_history
            self.symbols[f"{layer.name}/{call}/{place}"] = symbol

    def has_run(self, inputs: Nest) -> bool:
        """Return whether these are results of this part, and not inputs of the
        model."""
        return isinstance(inputs, Mapping) and set(inputs) == set(self.symbols)

    def arranged(self, inputs: Nest) -> list[Any]:
        """Return the results of this part in the order of ``symbols``."""
        return [inputs[name] for name in self.symbols]

    def run(self, values: dict[int, Any]) -> None:
        """Run the calls.

        Args:
            values: The tensors of the model's inputs by the ``id`` of their symbols;
                all results are added.
        """
        for node in self.nodes:
            if node.is_input:
                continue
            for symbol, result in node.run(values):
                values[id(symbol)] = _as_declared(symbol, result)

    def results(self, values: dict[int, Any]) -> dict[str, Any]:
        """Return what the device takes, by name."""
        self.run(values)
        made = {name: values[id(symbol)] for name, symbol in self.symbols.items()}
        for name, value in made.items():
            if isinstance(value, StringTensor):
                raise TypeError(
                    f"{name.split('/')[0]!r} gives strings, which no device takes. "
                    "Call the model itself on a batch: model(x)."
                )
        return made


def _as_declared(symbol: KerasTensor, result: Any) -> Any:
    return tf.cast(result, symbol.dtype) if isinstance(result, tf.Tensor) else result


def runs_on_host(node: Node) -> bool:
    """Return whether a call has strings, or a layer that works on the host."""
    tensors = [*node.keras_inputs, *tf.nest.flatten(node.outputs)]
    has_text = any(tensor.dtype == tf.string for tensor in tensors)
    return has_text or node.layer._runs_on_host


def find_host_part(graph: Graph, outputs: list[KerasTensor]) -> HostPart | None:
    """Return the part of a graph that works on the host, None where all is for the
    device."""
    needed: set[Node] = set()
    for node in reversed(graph.nodes):
        if node in needed or runs_on_host(node):
            needed.add(node)
            needed.update(node.parent_nodes)
    if not needed:
        return None
    rest = [node for node in graph.nodes if node not in needed]
    taken = [tensor for node in rest for tensor in node.keras_inputs]
    taken += [node.outputs for node in rest if node.is_input]
    handed_over = {
        id(tensor): tensor
        for tensor in [*taken, *outputs]
        if tensor.node in needed or tensor.node.is_input
    }
    nodes = [node for node in graph.nodes if node in needed]
    return HostPart(nodes, list(handed_over.values()))


# --- data -----------------------------------------------------------------------------


def host_values(data: Any) -> Nest:
    """Return what a user gave, as eager tensors in lists and dicts."""
    if isinstance(data, Mapping):
        return {key: host_values(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)) and not _is_one(data):
        return [host_values(value) for value in data]
    data = plain(data)
    return StringTensor(data) if is_text(data) else tf.convert_to_tensor(data)


def _is_one(data: Any) -> bool:
    """Return whether a list, to its first leaf, is one of words or numbers: a single
    input."""
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return isinstance(data, (str, bytes, int, float))


def first_input(data: Any) -> Any:
    """Return the only input of data, or its spec; None where there are several."""
    if is_batched(data):
        spec = getattr(data, "element_spec", None)
        data = spec[0] if isinstance(spec, tuple) else spec
    elif not isinstance(data, Mapping):
        data = host_values(data)
    return data if hasattr(data, "dtype") else None


def fed(data: Any, convert: Callable[[Nest], Nest]) -> Any:
    """Return data whose inputs have gone through a function, where they come so by
    batches.

    Args:
        data: Inputs, or batches of inputs, targets and weights.
        convert: Makes of inputs what the device takes.
    """
    if not is_batched(data):
        return convert(data)

    def element(batch: Any) -> Any:
        if isinstance(batch, (tuple, list)):
            return (convert(batch[0]), *batch[1:])
        return convert(batch)

    if hasattr(data, "element_spec"):
        if isinstance(data.element_spec, tuple):
            return data.map(lambda *parts: element(parts))
        return data.map(element)
    if isinstance(data, Iterator):
        return map(element, data)
    return _Fed(data, element)


class _Fed(Sequence):
    """A sequence whose batches have gone through a function."""

    def __init__(self, batches: Any, element: Callable[[Any], Any]) -> None:
        super().__init__(
            workers=getattr(batches, "workers", None),
            max_queue_size=getattr(batches, "max_queue_size", None),
        )
        self._batches, self._element = batches, element

    def __getitem__(self, index: int) -> Any:
        return self._element(self._batches[index])

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def num_batches(self) -> int | None:
        """The number of batches, or None."""
        return number_of_batches(self._batches)

    def on_epoch_begin(self) -> None:
        """Do what the sequence does before an epoch."""
        getattr(self._batches, "on_epoch_begin", bool)()

    def on_epoch_end(self) -> None:
        """Do what the sequence does after an epoch."""
        self._batches.on_epoch_end()
