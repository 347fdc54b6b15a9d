"""Models in stages, and what trains two equal ones to compare them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import plain_pipeline as oracle
import pytest
from simulated_ipus import attach

import ipu
from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy
from ipu.keras.engine.training import device_steps, execution

Dense = keras.layers.Dense
Schedule = ipu.pipelining_ops.PipelineSchedule


def floats(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


X = floats(64, 6)
Y = np.random.default_rng(1).integers(0, 3, 64).astype(np.int32)
Z = floats(64, 2, seed=2)


# --- models ---------------------------------------------------------------------------


def branches() -> tuple[Any, list[int]]:
    """A skip over a stage, batch normalisation, penalties of weights and results."""
    inputs = keras.Input((6,))
    a = Dense(8, "relu", kernel_regularizer="l2", activity_regularizer="l1")(inputs)
    b = Dense(8, "tanh")(a)
    c = keras.layers.Concatenate()([a, b, inputs])
    c = keras.layers.BatchNormalization()(c)
    out = Dense(3, "softmax", kernel_regularizer="l1")(c)
    return keras.Model(inputs, out), [0, 1, 1, 1, 2]


def chain() -> tuple[Any, list[int]]:
    layers = [Dense(8, "relu"), Dense(7, "relu"), Dense(3, "softmax")]
    return keras.Sequential(layers), [0, 1, 1]


def shared() -> tuple[Any, list[int]]:
    """A layer and a model that are called in two stages each."""
    twice = Dense(6, "tanh")
    inner = keras.Sequential([Dense(6, "relu", input_shape=(6,)), twice])
    x = inputs = keras.Input((6,))
    x = twice(x)
    x = inner(x)
    x = keras.layers.Add()([inner(x), x])
    return keras.Model(inputs, Dense(3, "softmax")(x)), [0, 0, 0, 1, 1, 1, 1]


def masks() -> tuple[Any, list[int]]:
    inputs = keras.Input((6,))
    x = keras.layers.Reshape((3, 2))(inputs)
    x = x + np.array([[[9.0, 9.0], [0.0, 0.0], [0.0, 0.0]]], np.float32)
    x = keras.layers.Masking()(tf.nn.relu(x))  # the first step always counts
    x = Dense(4, "relu")(x)
    x = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, Dense(3, "softmax")(x)), [0, 0, 0, 0, 1, 1, 2]


class Subclass(keras.Model):
    def __init__(self) -> None:
        super().__init__(self)
        self.a, self.b, self.c = Dense(8, "relu"), Dense(4, "relu"), Dense(3, "softmax")
        self.normal = keras.layers.BatchNormalization()

    def call(self, inputs: Any, training: bool = False) -> Any:
        x = self.normal(self.a(inputs), training=training)
        return self.c(tf.concat([self.b(x), x], -1))


class InCodeOrder(keras.Model):
    """Branches in another order than that of their depths, and a call for its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = Dense(8, "relu"), Dense(3, "softmax")
        self.drops = [keras.layers.Dropout(0.4) for _ in range(3)]
        self.penalty = Dense(1, activity_regularizer="l2")

    def call(self, inputs: Any) -> Any:
        x = self.first(inputs)
        short = self.drops[0](x)
        long = self.drops[1](x)
        self.penalty(x)
        long = self.drops[2](long)
        return self.last(tf.concat([long, short, x], -1))


def in_code_order() -> tuple[Any, list[int]]:
    model = InCodeOrder()
    model.build((4, 6))
    return model, [0, 0, 0, 0, 1, 1, 1]


def subclass() -> tuple[Any, list[int]]:
    model = Subclass()
    model.build((4, 6))
    return model, [0, 0, 1, 1, 1]


class Noting(keras.layers.Layer):
    """Keeps a metric of what passes, and adds to the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = keras.metrics.Mean("passed")

    def call(self, inputs: Any) -> Any:
        self.mean.update_state(inputs)
        self.add_loss(0.1 * tf.reduce_mean(tf.square(inputs)))
        return inputs


def noting() -> tuple[Any, list[int]]:
    layers = [Dense(8, "relu"), Noting(), Dense(3, "softmax")]
    return keras.Sequential(layers), [0, 0, 1]


MODELS = [noting, branches, chain, shared, masks, subclass]


def assign(model: Any, stages: list[int]) -> None:
    supply = iter(stages)

    def fill(entries: list[Any]) -> None:
        for entry in entries:
            if entry.is_nested_model:
                fill(entry.pipeline_stage_assignments)
            else:
                entry.pipeline_stage = next(supply)

    entries = model.get_pipeline_stage_assignment()
    fill(entries)
    model.set_pipeline_stage_assignment(entries)


def dropout() -> tuple[Any, list[int]]:
    layers: list[Any] = [Dense(8, "relu"), keras.layers.Dropout(0.5), Dense(8, "relu")]
    layers += [keras.layers.Dropout(0.5), Dense(3, "softmax")]
    return keras.Sequential(layers), [0, 0, 1, 1, 1]


def ipus_of(make: Any) -> int:
    attach(1)
    stages = max(make()[1]) + 1
    return 1 << (stages - 1).bit_length()


# --- the oracle -----------------------------------------------------------------------


def run_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pipelines run as plain loops on one IPU."""

    def output(opt: Any, loss: Any, **more: Any) -> Any:
        return SimpleNamespace(opt=opt, loss=loss, **more)

    module = SimpleNamespace(
        pipeline=oracle.plain_pipeline, OptimizerFunctionOutput=output
    )
    monkeypatch.setattr(device_steps, "pipelining_ops", module)
    monkeypatch.setattr(execution, "_replicas", lambda shards: 1)


def train(
    make: Callable[[], tuple[Any, list[int]]],
    prepare: Callable[[Any, list[int]], None],
    k: int = 8,
    **kwargs: Any,
) -> SimpleNamespace:
    """Train a model from the same start; what came of it."""
    keras.utils.set_random_seed(5)
    with IPUStrategy().scope():
        model, stages = make()
        model.compile(
            keras.optimizers.SGD(0.02, momentum=0.9),
            "sparse_categorical_crossentropy",
            metrics=["accuracy"],
            steps_per_execution=k,
        )
        if not model.built:
            model.build((None, 6))
        prepare(model, stages)
        oracle.plain_pipeline.variables = model.trainable_variables  # type: ignore[attr-defined]
        arguments = {"batch_size": 4, "epochs": 2, "shuffle": False, **kwargs}
        samples = 4 * k * (64 // (4 * k))
        x, y = X[:samples], Y[:samples]
        history = model.fit(x, y, verbose=0, **arguments)
        return SimpleNamespace(
            history=history.history,
            steps=history.steps,
            results=model.evaluate(x, y, batch_size=4, verbose=0),
            outputs=model.predict(x, batch_size=4),
            weights=model.get_weights(),
        )


def assert_same(one: SimpleNamespace, other: SimpleNamespace) -> None:
    assert one.history == other.history
    assert one.steps == other.steps
    assert one.results == other.results
    np.testing.assert_array_equal(one.outputs, other.outputs)
    for a, b in zip(one.weights, other.weights, strict=True):
        np.testing.assert_array_equal(a, b)


def accumulated(method: str = "sum", steps: int = 4) -> Callable[..., None]:
    def prepare(model: Any, _: list[int]) -> None:
        model.set_gradient_accumulation_options(
            steps, gradient_accumulation_reduction_method=method
        )

    return prepare


def staged(method: str = "sum", steps: int = 4, **options: Any) -> Callable[..., None]:
    def prepare(model: Any, stages: list[int]) -> None:
        assign(model, stages)
        model.set_pipelining_options(
            steps, gradient_accumulation_reduction_method=method, **options
        )

    return prepare


# --- a small model --------------------------------------------------------------------


def small(stages: bool = True, k: int = 4, steps: int | None = 4) -> Any:
    model = keras.Sequential([Dense(4, input_shape=(6,)), Dense(2)])
    model.compile("sgd", "mse", steps_per_execution=k)
    if stages:
        model.set_pipeline_stage_assignment([0, 1])
        model.set_pipelining_options(steps)
    return model


def fit_small(model: Any, **kwargs: Any) -> Any:
    return model.fit(X, Z, batch_size=4, verbose=0, **kwargs)


class Batches(keras.callbacks.Callback):
    """Notes the hooks of batches."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, int]] = []
        self.losses: list[float] = []
        self.threads: set[int] = set()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.calls.append(("begin", batch))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.calls.append(("end", batch))
        self.losses.append(logs["loss"])
        self.threads.add(threading.get_ident())

    on_test_batch_begin = on_train_batch_begin
    on_test_batch_end = on_train_batch_end

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        self.calls.append(("predict", batch))
        assert logs["outputs"].shape == (4, 2)
        self.threads.add(threading.get_ident())
