# SPDX-License-Identifier: MIT
"""The graph of a subclass of ``Model``: its ``call`` run on symbolic values."""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu.keras._types import Nest
from ipu.keras.engine.layer.call_context import call_scope
from ipu.keras.engine.pipelines.calls import ModelGraph
from ipu.keras.engine.symbols.keras_tensor import KerasTensor, recorded_nodes
from ipu.tf.autograph import convert_call


def open_batch(value: Any) -> tf.TensorSpec:
    """Return what an input of a model was, for any number of samples."""
    shape = tuple(value.shape)
    return tf.TensorSpec((None, *shape[1:]) if shape else (), value.dtype)


def inputs_for(specs: Nest) -> Nest:
    """Return symbolic inputs of these shapes and dtypes."""
    from ipu.keras.engine.input_layer import Input

    return tf.nest.map_structure(
        lambda spec: Input(batch_shape=tuple(spec.shape), dtype=spec.dtype), specs
    )


def call_on_symbols(model: Any, symbols: Nest, training: bool | None) -> Nest:
    """Return what the ``call`` of a model gives for symbolic inputs."""
    _, args, kwargs = model._with_training((symbols,), {"training": training})
    with call_scope(training):
        return convert_call(model.call)(*args, **kwargs)


def traced_graph(model: Any, specs: Nest, training: bool | None) -> ModelGraph:
    """Run the ``call`` of a model on symbolic values.

    Returns:
        The calls of layers in it, in the order of its code.
    """
    symbols = inputs_for(specs)
    with recorded_nodes() as nodes:
        outputs = call_on_symbols(model, symbols, training)
    for value in tf.nest.flatten(outputs):
        if not isinstance(value, KerasTensor):
            raise RuntimeError(
                f"Model {model.name!r} cannot be pipelined: its `call` must give "
                f"results of layers that it calls on its inputs. Received: {value!r}."
            )
    other = next(iter(model._stage_graphs.values()), None)
    if other is not None and [n.layer for n in other.nodes] != [n.layer for n in nodes]:
        # operators and functions are layers made anew
        kinds = [type(n.layer) for n in nodes]
        if kinds != [type(n.layer) for n in other.nodes]:
            raise RuntimeError(
                f"Model {model.name!r} cannot be pipelined: its `call` calls other "
                "layers in training than otherwise. Let it call the same ones, in the "
                "same order."
            )

    return ModelGraph(
        nodes,
        tf.nest.flatten(symbols),
        outputs,
        tf.nest.flatten,
        lambda _, tensor: model._cast(tensor) if model._autocast else tensor,
    )
