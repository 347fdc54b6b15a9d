"""Keras models in several replicas: as one model on the batches of all of them."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from simulated_ipus import attach
from staged_models import Dense, X, Z

from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy


@pytest.fixture(autouse=True)
def one_ipu() -> Iterator[None]:
    yield
    attach(1)


def train(
    replicas: int, pipelined: bool = False, steps: int = 8, **options: Any
) -> SimpleNamespace:
    """Train with updates of 8 batches, however many replicas share them out.

    Args:
        replicas: How many there are.
        pipelined: Whether each of them is a pipeline on two IPUs.
        steps: Batches of an execution, of all replicas.
        **options: ``method`` and ``asynchronous``.
    """
    attach(replicas * (2 if pipelined else 1))
    keras.utils.set_random_seed(3)
    with IPUStrategy().scope():
        model = keras.Sequential([Dense(5, "tanh", input_shape=(6,)), Dense(2)])
        model.compile(
            keras.optimizers.Adam(0.01),
            keras.losses.MeanSquaredError(reduction="sum"),
            metrics=["mae"],
            steps_per_execution=steps // replicas,
        )
        model.set_replication_options(options.get("method", "NONE"))
        model.set_asynchronous_callbacks(options.get("asynchronous", False))
        if pipelined:
            model.set_pipeline_stage_assignment([0, 1])
            model.set_pipelining_options(8 // replicas)
        else:
            model.set_gradient_accumulation_options(8 // replicas)
        seen: list[tuple[int, float]] = []
        callback = keras.callbacks.LambdaCallback(
            on_batch_end=lambda batch, logs: seen.append((batch, logs["loss"]))
        )
        history = model.fit(
            X, Z, batch_size=4, epochs=2, verbose=0, shuffle=False, callbacks=[callback]
        )
        return SimpleNamespace(
            model=model,
            history=history.history,
            steps=history.steps,
            seen=seen,
            results=model.evaluate(X, Z, batch_size=4, verbose=0),
            outputs=model.predict(X, batch_size=4),
            weights=model.get_weights(),
            updates=int(model.optimizer.iterations.numpy()),
        )


@pytest.mark.parametrize("pipelined", [False, True])
@pytest.mark.parametrize("replicas", [2, 4])
def test_gradients_are_added_up_over_replicas(replicas: int, pipelined: bool) -> None:
    if pipelined and replicas == 4:
        pytest.skip("2 batches are too few for the schedule")
    one = train(1)
    some = train(replicas, pipelined)
    assert one.updates == some.updates == 4
    for a, b in zip(one.weights, some.weights, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-6)
    np.testing.assert_allclose(one.outputs, some.outputs, rtol=2e-4, atol=1e-5)
    core = some.model.weights[0]._device
    for variable in [*some.model.weights, *some.model.optimizer.weights]:
        kind = (variable.dtype.name, tuple(variable.shape))
        first, *others = [
            core.variable_read(variable._id, kind, replica).numpy()
            for replica in range(replicas)
        ]
        for other in others:
            np.testing.assert_array_equal(first, other)


def test_a_replicated_pipeline_has_the_bits_of_replicated_accumulation() -> None:
    one, other = train(2), train(2, pipelined=True)
    assert one.history == other.history and one.steps == other.steps
    assert one.results == other.results
    np.testing.assert_array_equal(one.outputs, other.outputs)
    for a, b in zip(one.weights, other.weights, strict=True):
        np.testing.assert_array_equal(a, b)


def test_steps_and_results_of_replicas() -> None:
    found = {
        method: train(2, method=method) for method in ("NONE", "LIST", "SUM", "MEAN")
    }
    # 16 batches are 8 steps of each replica, 4 of them an execution
    assert [batch for batch, _ in found["NONE"].seen] == [3, 7, 3, 7]
    assert len(found["NONE"].steps["loss"]) == 16
    both = np.array(found["LIST"].history["loss"])
    assert both.shape == (2, 2)
    for method, expected in [
        ("NONE", both[:, 1]),
        ("SUM", both[:, 0] + both[:, 1]),
        ("MEAN", (both[:, 0] + both[:, 1]) / 2),
    ]:
        np.testing.assert_allclose(found[method].history["loss"], expected, rtol=1e-6)
        np.testing.assert_array_equal(found[method].outputs, found["LIST"].outputs)
    assert np.shape(found["LIST"].results) == (2, 2)


def test_steps_of_a_validation_are_those_of_all_replicas() -> None:
    attach(2)
    with IPUStrategy().scope():
        model = keras.Sequential([keras.layers.Dense(1, input_shape=(3,))])
        model.compile(keras.optimizers.SGD(0.0), "mse")
        model.set_replication_options("LIST")
        data = tf.data.Dataset.range(8).map(
            lambda i: (tf.fill([2, 3], tf.cast(i, tf.float32)), tf.zeros([2, 1]))
        )
        history = model.fit(data, validation_data=data, validation_steps=4, verbose=0)
        wanted = model.evaluate(data, steps=4, verbose=0)
    np.testing.assert_array_equal(history.history["val_loss"][0], wanted)


def test_predictions_are_in_the_order_of_the_data() -> None:
    some = train(2)
    np.testing.assert_allclose(some.outputs, some.model(X).numpy(), rtol=1e-5)


def test_asynchronous_callbacks_of_replicas() -> None:
    """For every step and every replica, with what that replica has found."""
    found = {m: train(2, asynchronous=True, method=m) for m in ("NONE", "MEAN", "LIST")}
    for method, some in found.items():
        steps = [step for step in range(8) for _ in range(2)]
        assert [batch for batch, _ in some.seen] == 2 * steps
        assert some.seen == found["NONE"].seen
        last = np.array([loss for _, loss in some.seen[-2:]], np.float32)
        want = {"NONE": last[-1], "MEAN": last.mean(), "LIST": last}[method]
        np.testing.assert_allclose(some.history["loss"][-1], want, rtol=1e-6)


def test_the_worked_numbers_of_two_replicas() -> None:
    """512 steps of 4 IPUs and two stages: 256 for each replica, 64 updates."""
    attach(4)
    data = tf.data.Dataset.from_tensor_slices((X, Z))
    data = data.batch(4, drop_remainder=True).repeat()
    calls: list[int] = []
    callback = keras.callbacks.LambdaCallback(
        on_batch_begin=lambda batch, logs: calls.append(batch),
        on_batch_end=lambda batch, logs: calls.append(batch),
    )
    with IPUStrategy().scope():
        model = keras.Sequential([Dense(4, input_shape=(6,)), Dense(2)])
        model.compile(keras.optimizers.SGD(1e-3), "mse", steps_per_execution=500)
        model.set_pipeline_stage_assignment([0, 1])
        model.set_pipelining_options(4)
        with pytest.warns(UserWarning, match="larger than the number"):
            history = model.fit(
                data, steps_per_epoch=512, callbacks=[callback], verbose=0
            )
    assert calls == [0, 255]
    assert int(model.optimizer.iterations.numpy()) == 64
    assert len(history.steps["loss"]) == 256


def test_lookups_of_all_replicas_are_updated() -> None:
    """A row that only one replica looked up changes in both."""
    ids = np.array([[0], [1], [2], [3]], np.int32)

    def fit(replicas: int) -> Any:
        attach(replicas)
        keras.utils.set_random_seed(3)
        with IPUStrategy().scope():
            table = keras.layers.Embedding(6, 2, input_length=1)
            model = keras.Sequential([table, keras.layers.Flatten()])
            model.compile(
                keras.optimizers.Adam(0.1),
                keras.losses.MeanSquaredError(reduction="sum"),
                steps_per_execution=4 // replicas,
            )
            if replicas == 1:
                model.set_gradient_accumulation_options(2)
            targets = np.ones((4, 2), np.float32)
            model.fit(ids, targets, batch_size=1, shuffle=False, verbose=0)
            return model.get_weights()[0]

    np.testing.assert_allclose(fit(2), fit(1), rtol=1e-5, atol=1e-6)
