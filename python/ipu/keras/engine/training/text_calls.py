# SPDX-License-Identifier: MIT
"""Subclasses of ``Model`` whose ``call`` takes texts.

Devices have no strings. ``call`` is run on symbolic values once for each mode; the
layers of words that it calls, and what leads to them, then work on the host, as those
of a functional model do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipu import tf
from ipu.keras._types import Nest
from ipu.keras.engine.pipelines.trace import call_on_symbols, inputs_for
from ipu.keras.engine.trace_key import key_of_layers
from ipu.keras.engine.training.data_adapter import is_batched
from ipu.keras.engine.training.host_part import host_values
from ipu.tf._functions.signature import key_of
from ipu.tf._string_ops.tensors import is_text, plain


def text_specs(data: Any) -> Nest | None:
    """Return specs of inputs for any number of samples; None where there are no
    texts."""
    if is_batched(data):
        specs = getattr(data, "element_spec", None)
        specs = specs[0] if isinstance(specs, tuple) else specs
        has_text = any(
            getattr(spec, "dtype", None) == tf.string for spec in tf.nest.flatten(specs)
        )
        return tf.nest.map_structure(_open, specs) if has_text else None
    return tf.nest.map_structure(_open, host_values(data)) if _has_text(data) else None


def _has_text(data: Any) -> bool:
    if isinstance(data, Mapping):
        return any(_has_text(value) for value in data.values())
    data = plain(data)
    if is_text(data):
        return True
    is_nest = isinstance(data, (list, tuple)) and not isinstance(
        data[0] if data else 0, (int, float)
    )
    return is_nest and any(_has_text(value) for value in data)


def _open(value: Any) -> tf.TensorSpec:
    """Return what a leaf is with open sizes; samples of one value are rows, as in
    Keras."""
    shape = tuple(value.shape)
    rest = shape[1:] if len(shape) > 1 else (1,)
    return tf.TensorSpec((None, *rest), value.dtype)


class TextCalls:
    """Functional models of the calls in a model's ``call``, one for each mode.

    Attributes:
        host: The one that says what the host computes.
    """

    def __init__(self, model: Any, specs: Nest) -> None:
        self._symbols = inputs_for(specs)
        self._models = {
            training: self._made(model, training) for training in (False, True)
        }
        self.host = self._models[False]
        self._state = self._state_of(model, specs)

    def _made(self, model: Any, training: bool) -> Any:
        from ipu.keras.engine.functional import Functional

        try:
            outputs = call_on_symbols(model, self._symbols, training)
            return Functional(self._symbols, outputs)
        except Exception as error:
            raise TypeError(
                f"Model {model.name!r} gets texts, which no device has, and its `call` "
                "cannot be cut into a part for the host and one for the device: it "
                "must give results of layers and ops on its inputs. Look the words up "
                "in the data: dataset.map(lambda x, y: (lookup(x), y)). "
                f"({type(error).__name__}: {error})"
            ) from error

    @staticmethod
    def _state_of(model: Any, specs: Nest) -> Any:
        return key_of(specs), key_of_layers(model)

    def fits(self, model: Any, specs: Nest) -> bool:
        """Return whether ``call`` would run on such inputs as it did."""
        return bool(self._state == self._state_of(model, specs))

    def has_run(self, inputs: Nest) -> bool:
        """Return whether these are results of the host, and not inputs of the model."""
        return bool(self.host._host_part.has_run(inputs))

    def __call__(self, inputs: Nest, training: bool = False) -> Nest:
        """Compute the outputs, in a trace, from results of the host."""
        made, first = self._models[bool(training)], self.host._host_part
        # the same values have other names where `call` was run again
        names = zip(first.symbols, made._host_part.symbols, strict=True)
        return made({name: inputs[one] for one, name in names}, training=training)
