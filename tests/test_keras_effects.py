# SPDX-License-Identifier: MIT
"""What functions do, layers and models do: prints, assertions, variables of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy

X = np.arange(80, dtype=np.float32).reshape(20, 4) / 10
Y = np.ones((20, 3), np.float32)
Call = Callable[[Any, Any], Any]
KINDS = ["sequential", "functional", "subclass", "strategy", "pipeline"]


@pytest.fixture(autouse=True)
def one_ipu_again() -> Iterator[None]:
    yield
    ipu.config.reset_ipu_configuration()


def layer_of(call: Call) -> Any:
    class Own(keras.layers.Layer):
        def call(self, inputs: Any) -> Any:
            return call(self, inputs)

    return Own()


def fitted(kind: str, call: Call) -> tuple[Any, Any]:
    """A model that has seen 20 samples in batches of 5, and who does the call."""
    dense = keras.layers.Dense(3, input_shape=(4,), kernel_initializer="ones")
    if kind in ("strategy", "pipeline"):
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 2 if kind == "pipeline" else 1
        config.configure_ipu_system()
        with IPUStrategy().scope():
            own = layer_of(call)
            model = keras.Sequential([dense, own])
            if kind == "pipeline":
                model.set_pipeline_stage_assignment([0, 1])
                model.set_pipelining_options(4)
            model.compile("sgd", "mse", steps_per_execution=4)
            model.fit(X, Y, 5, shuffle=False, verbose=0)
        return model, own
    if kind == "sequential":
        own = layer_of(call)
        model: Any = keras.Sequential([dense, own])
    elif kind == "functional":
        own = layer_of(call)
        inputs = keras.Input((4,))
        model = keras.Model(inputs, own(dense(inputs)))
    else:

        class Own(keras.Model):
            def __init__(self) -> None:
                super().__init__()
                self.dense = dense

            def call(self, inputs: Any) -> Any:
                return call(self, self.dense(inputs))

        own = model = Own()
    model.compile("sgd", "mse")
    model.fit(X, Y, 5, shuffle=False, verbose=0)
    return model, own


def printing(owner: Any, x: Any) -> Any:
    tf.print("rows", tf.shape(x)[0])
    return x


@pytest.mark.parametrize("kind", KINDS)
def test_prints(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    model, _ = fitted(kind, printing)
    lines = capfd.readouterr().err.splitlines()
    assert [line for line in lines if line.startswith("rows")] == ["rows 5"] * 4
    if kind != "pipeline":
        model.predict(X[:10], 10)
        assert "rows 10\n" in capfd.readouterr().err


def in_a_loop(owner: Any, x: Any) -> Any:
    for i in tf.range(2):
        tf.print("turn", i)
        x = x * 1.0
    return x


def test_prints_in_a_loop(capfd: pytest.CaptureFixture[str]) -> None:
    fitted("sequential", in_a_loop)
    lines = capfd.readouterr().err.splitlines()
    turns = [line for line in lines if line.startswith("turn")]
    assert turns == ["turn 0", "turn 1"] * 4


def asserting(owner: Any, x: Any) -> Any:
    tf.debugging.assert_less(tf.abs(x), 1000.0, message="too large")
    tf.debugging.Assert(tf.reduce_all(x < 2000.0), [x])
    return tf.debugging.check_numerics(x, "not finite")


@pytest.mark.parametrize("kind", KINDS)
def test_assertions(kind: str) -> None:
    model, _ = fitted(kind, asserting)
    if kind == "pipeline":
        return
    with pytest.raises(tf.errors.InvalidArgumentError, match="too large"):
        model.predict(X * 1e5)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"not finite|too large"):
        model.evaluate(X * np.nan, Y, 5, verbose=0)
    model.predict(X)  # the model goes on to be of use


def counting(owner: Any, x: Any) -> Any:
    if not hasattr(owner, "scale"):
        owner.scale = tf.Variable(tf.ones(3) * 2.0, name="scale")
        owner.calls = tf.Variable(0, trainable=False, name="calls")
    owner.calls.assign_add(1)
    return x * owner.scale


@pytest.mark.parametrize("kind", KINDS)
def test_variables_made_in_a_call(kind: str) -> None:
    model, own = fitted(kind, counting)
    assert int(own.calls) == 4
    names = [variable.name for variable in model.trainable_variables]
    assert len(names) == 3 and names[-1] == "scale:0"
    assert not np.array_equal(own.scale.numpy(), [2.0, 2.0, 2.0])


def test_a_new_variable_in_each_call_is_an_error() -> None:
    def making(owner: Any, x: Any) -> Any:
        return x * tf.Variable(tf.ones(3))

    with pytest.raises(ValueError, match="tried to create variables on non-first call"):
        fitted("sequential", making)


def test_a_layer_without_source_says_so() -> None:
    names: dict[str, Any] = {"keras": keras, "tf": tf}
    text = """
class Own(keras.layers.Layer):
    def call(self, inputs):
        if tf.reduce_sum(inputs) > 0:
            return inputs + 1.0
        return inputs
"""
    exec(text, names)
    model = keras.Sequential([names["Own"]()])
    reason = "the source of <string> is not available"
    with (
        pytest.warns(RuntimeWarning, match=reason),
        pytest.raises(TypeError, match=reason),
    ):
        model.predict(X)
    with pytest.raises(TypeError, match=reason):  # the warning came once
        model.predict(X)


def test_a_model_whose_first_build_fails_can_be_built_again() -> None:
    model = keras.Sequential([keras.layers.Conv1D(4, 3), keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="expected"):
        model.predict(X)
    assert model.predict(np.ones((2, 6, 4))).shape == (2, 4, 2)


def test_lengths_that_no_layer_declared_may_change() -> None:
    pool = keras.layers.GlobalAveragePooling1D()
    model = keras.Sequential([keras.layers.Dense(3), pool, keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    for length in (5, 7, 5):
        model.fit(np.ones((4, length, 4)), np.ones((4, 2)), verbose=0)
        assert model.predict(np.ones((3, length, 4))).shape == (3, 2)
    assert len(model.weights) == 4
    assert model.input_shape == (None, None, 4)
    with pytest.raises(ValueError, match="expected"):
        model(np.ones((2, 5, 3)))
    assert model(np.ones((2, 6, 4))).shape == (2, 2)


def test_a_sequential_inside_of_time_distributed() -> None:
    inner = keras.Sequential([keras.layers.Dense(3), keras.layers.Dense(2)])
    model = keras.Sequential(
        [
            keras.layers.TimeDistributed(inner, input_shape=(5, 4)),
            keras.layers.Flatten(),
        ]
    )
    x = np.random.default_rng(3).normal(size=(6, 5, 4)).astype("f")
    expected = inner(x.reshape(30, 4)).numpy().reshape(6, 10)
    np.testing.assert_allclose(model.predict(x), expected, rtol=1e-5)
