# SPDX-License-Identifier: MIT
"""``Model`` and ``Sequential`` of ``ipu.keras`` in SDK 1: loops on one IPU."""

from __future__ import annotations

from typing import Any, NoReturn

from ipu.drop_in.first_keras import replacement
from ipu.drop_in.first_keras.restricted import FirstGeneration, checked_count
from ipu.keras.engine import sequential
from ipu.keras.engine.base_layer import Layer
from ipu.keras.engine.functional import Functional
from ipu.keras.engine.input_layer import InputLayer

__all__ = ["Model", "Sequential", "checked_layers", "symbols"]


def symbols(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a functional model by name.

    Raises:
        TypeError: One is not known, or is given twice.
        ValueError: Inputs or outputs are missing.
    """
    names = ("inputs", "outputs", "name", "trainable")
    if len(args) > len(names):
        raise TypeError(
            f"A model takes {', '.join(names)}. Received: {len(args)} arguments."
        )
    given = dict(zip(names, args, strict=False))
    for key, value in kwargs.items():
        if key not in names or key in given:
            what = "unexpected" if key not in names else "additional"
            raise TypeError(f"A model got an {what} argument {key!r}.")
        given[key] = value
    if given.get("inputs") is None or given.get("outputs") is None:
        raise ValueError(
            "Model was not provided with 'inputs' and 'outputs'. The IPU models of "
            "this generation are functional: Model(inputs, outputs)."
        )
    return given


class Model(FirstGeneration):
    """A functional model that is trained in a loop on one IPU.

    Args:
        *args: ``inputs, outputs``, and ``name``.
        accumulation_count: Mini-batches of a weight update; their gradients are summed.
        accumulation_dtype: Dtype of the sums: None for the variables', a dtype, or a
            function of the variable.
        layer_replacement: Whether layers of Keras become the IPU's of the same name.
        **kwargs: The same by name, ``trainable``; and ``gradient_accumulation_count``
            and ``_dtype``, the names of SDK 2.0.

    Raises:
        ValueError: There are no inputs or outputs, or a count is illegal.

    Source: ``ipu.keras.Model`` of SDK 1.4.

    Example:
        >>> from ipu.ipu_strategy import IPUStrategy
        >>> with IPUStrategy().scope():
        ...     x = keras.Input((4,))
        ...     model = Model(x, keras.layers.Dense(1)(x))
        ...     model.predict([[0.0] * 4], batch_size=1).shape
        (1,)
    """

    def __init__(
        self,
        *args: Any,
        accumulation_count: int = 1,
        accumulation_dtype: Any = None,
        layer_replacement: bool = False,
        **kwargs: Any,
    ) -> None:
        count = kwargs.pop("gradient_accumulation_count", accumulation_count)
        dtype = kwargs.pop("gradient_accumulation_dtype", accumulation_dtype)
        given = symbols(args, kwargs)
        if layer_replacement:
            given.update(replacement.in_graph(given["inputs"], given["outputs"]))
        Functional.__init__(self, **given)
        self._accumulated = checked_count("accumulation_count", count)
        self._accumulation_dtype = dtype


def checked_layers(layers: Any, replaced: bool) -> list[Layer]:
    """Return the layers of a sequential model.

    Raises:
        ValueError: It is not a list of layers.
    """
    if not isinstance(layers, list):
        raise ValueError(
            f"IPU Sequential requires a list of Layers. Received: {layers!r}."
        )
    for layer in layers:
        if not isinstance(layer, Layer):
            raise ValueError(
                "IPU Sequential may only contain Keras Layers. Received: "
                f"{layer!r} ({type(layer).__name__})."
            )
    return [replacement.of(layer) for layer in layers] if replaced else layers


class _Absent:
    """An attribute of the base class that the class does not have."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __get__(self, instance: Any, owner: type) -> NoReturn:
        raise AttributeError(self._reason)


class Sequential(FirstGeneration, sequential.Sequential):
    """A stack of layers that is trained in a loop on one IPU.

    Args:
        layers: A list of layers.
        accumulation_count, accumulation_dtype, layer_replacement: As for
            :class:`Model`.
        **kwargs: The names of SDK 2.0, as for :class:`Model`.

    Raises:
        ValueError: ``layers`` is not a list of layers, or a count is illegal.

    Source: ``ipu.keras.Sequential`` of SDK 1.4.

    Example:
        >>> from ipu.ipu_strategy import IPUStrategy
        >>> with IPUStrategy().scope():
        ...     model = Sequential([keras.layers.Dense(2)])
        ...     model.predict([[0.0] * 4], batch_size=1)[0].shape
        (1, 2)
    """

    def __init__(
        self,
        layers: list[Layer] | None = None,
        accumulation_count: int = 1,
        accumulation_dtype: Any = None,
        layer_replacement: bool = False,
        **kwargs: Any,
    ) -> None:
        count = kwargs.pop("gradient_accumulation_count", accumulation_count)
        dtype = kwargs.pop("gradient_accumulation_dtype", accumulation_dtype)
        if kwargs:
            raise TypeError(
                f"Sequential got an unexpected keyword argument {next(iter(kwargs))!r}."
            )
        self._fill(checked_layers(layers, layer_replacement))
        self._accumulated = checked_count("accumulation_count", count)
        self._accumulation_dtype = dtype

    def _fill(self, layers: list[Layer], name: str | None = None) -> None:
        """Take the layers; they are built for the first data, whatever they declare."""
        sequential.Sequential.__init__(self, name=name)
        names = [layer.name for layer in layers]
        if len(set(names)) < len(names):
            raise ValueError(
                "All layers of a Sequential model should have unique names. Received: "
                f"{names}. Pass `name` to those that are named alike."
            )
        self._stack = [one for one in layers if not isinstance(one, InputLayer)]

    add = _Absent("IPU Sequential models have no `add`: give all layers at once.")
    pop = _Absent("IPU Sequential models have no `pop`: give all layers at once.")

    @property
    def weights(self) -> list[Any]:
        """All variables; none before the model is built."""
        return super().weights if self.built else []

    @property
    def trainable_weights(self) -> list[Any]:
        """The variables that training changes; none before the model is built."""
        return super().trainable_weights if self.built else []

    def _returned(self, arrays: list[Any]) -> Any:
        return tuple(arrays)
