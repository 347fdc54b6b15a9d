# SPDX-License-Identifier: MIT
"""Where Keras 3 keeps the variables of a model inside a file.

Each layer has a group, ``layers/dense_1`` for the second ``Dense`` of a model, with its
own variables in ``vars/0``, ``vars/1`` and so on; inside it are the groups of the
layers that its attributes hold, under the attributes' names. Lists are numbered by
class, as the layers of a model are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

from ipu import tf
from ipu.keras import _names

# layers that are one here and several there: by the variables' names, the attributes
_PARTS = {
    "MultiHeadAttention": {
        "query": "query_dense",
        "key": "key_dense",
        "gate": "_gate_dense",
        "value": "value_dense",
        "attention_output": "output_dense",
    },
    "GroupQueryAttention": {
        "query": "_query_dense",
        "key": "_key_dense",
        "gate": "_gate_dense",
        "value": "_value_dense",
        "attention_output": "_output_dense",
    },
}
# its class has another name there than the one that users import
_CLASS_NAMES = {"GroupQueryAttention": "GroupedQueryAttention"}
# slots that Keras 3 has after those of all weights before
_LATER_SLOTS = {"momentum": 1, "vhat": 1, "mg": 2}
_SKIPPED = frozenset(
    {
        "_compile_arguments",
        "_graph_layers",
        "_inbound_nodes",
        "_outbound_nodes",
        "_stack",
        "_states",
        "compiled_loss",
        "compiled_metrics",
        "input_spec",
        "optimizer",
    }
)


class Group(NamedTuple):
    """A place in a file.

    Attributes:
        path: Where it is.
        name: The name of its layer.
        variables: The layer's own variables in order.
        layer: The layer; None where it is a part of one.
    """

    path: str
    name: str
    variables: list[Any]
    layer: Any = None

    @property
    def place(self) -> str:
        """Where its variables are."""
        return _joined(self.path, "vars")

    def has(self, method: str) -> bool:
        """Return whether the user's class of the layer has a method for its files."""
        from ipu.keras.engine.base_layer import Layer

        own = getattr(type(self.layer), method, None)
        return own is not None and own is not getattr(Layer, method, None)


def groups_of(model: Any) -> list[Group]:
    """List the groups of a model."""
    found: list[Group] = []
    _walk(model, "", set(), found)
    return found


def variables_of(model: Any) -> dict[str, Any]:
    """Return the variables of a model by their paths."""
    return {
        f"{group.place}/{n}": variable
        for group in groups_of(model)
        for n, variable in enumerate(group.variables)
        if not group.has("load_own_variables")
    }


def own_variables(layer: Any) -> list[Any]:
    """Return a layer's own variables in the order of Keras 3."""
    seeds = _seed_generators(layer)
    own = left_out(layer._own_variables(), [one.state for one in seeds.values()])
    return [v for v in own if v.trainable] + [v for v in own if not v.trainable]


def optimizer_variables(optimizer: Any, trained: Iterable[Any]) -> list[Any]:
    """Return an optimizer's variables in the order of Keras 3.

    Step and rate come first, then slots, weight by weight, and last what belongs to no
    weight. Where Keras 3 keeps a schedule there is no rate.
    """
    slots = [
        (name, slot)
        for weight in trained
        for name, slot in optimizer._slots.get(id(weight), {}).items()
    ]
    slots.sort(key=lambda item: _LATER_SLOTS.get(item[0], 0))
    of_weights = [slot for _, slot in slots]
    others = left_out(optimizer._slot_order, of_weights)
    variables = [optimizer.iterations, optimizer.learning_rate, *of_weights, *others]
    return [one for one in variables if isinstance(one, tf.Variable)]


def left_out(variables: Iterable[Any], listed: Iterable[Any]) -> list[Any]:
    """Return those variables that are not listed; variables compare their elements."""
    known = {id(one) for one in listed}
    return [one for one in variables if id(one) not in known]


def _walk(layer: Any, path: str, seen: set[int], found: list[Group]) -> None:
    if id(layer) in seen:
        return
    seen.add(id(layer))
    seeds = _seed_generators(layer)
    ordered = own_variables(layer)
    parts = _PARTS.get(type(layer).__name__, {})
    for part, attribute in parts.items():
        inner = [v for v in ordered if str(v.name).split("/")[-2] == part]
        if inner:
            found.append(Group(_joined(path, attribute), part, inner))
    if type(layer).__name__ == "SpectralNormalization" and layer.built:
        ordered = [layer.kernel, *ordered]  # which the layer inside has, too
    found.append(Group(path, layer.name, [] if parts else ordered, layer))
    if hasattr(layer, "_graph_layers"):
        _walk_list(layer.layers, _joined(path, "layers"), seen, found)
    attributes = {k: value for k, value in vars(layer).items() if k not in _SKIPPED}
    # as Keras does: private ones last
    for key in sorted(attributes, key=lambda name: (name.startswith("_"), name)):
        value = attributes[key]
        if key in seeds:
            found.append(Group(_joined(path, key), value.name, [value.state]))
        elif _is_layer(value):
            _walk(value, _joined(path, key), seen, found)
        elif isinstance(value, (list, tuple, dict)):
            items = value.values() if isinstance(value, dict) else value
            _walk_list(items, _joined(path, key), seen, found)


def _walk_list(
    items: Iterable[Any],
    path: str,
    seen: set[int],
    found: list[Group],
) -> None:
    counts: dict[str, int] = {}
    for item in items:
        if not _is_layer(item):
            continue
        kind = type(item).__name__
        name = _names.snake_case(_CLASS_NAMES.get(kind, kind))
        number = counts.get(name, 0)
        counts[name] = number + 1
        _walk(item, _joined(path, f"{name}_{number}" if number else name), seen, found)


def _seed_generators(layer: Any) -> dict[str, Any]:
    """Return the seed generators that a layer holds, by the names of its attributes."""
    module = sys.modules.get("ipu.keras.random")  # else there are none
    if module is None:
        return {}
    kind = module.SeedGenerator
    return {key: one for key, one in vars(layer).items() if isinstance(one, kind)}


def _is_layer(value: Any) -> bool:
    from ipu.keras.engine.base_layer import Layer

    return isinstance(value, Layer)


def _joined(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name
