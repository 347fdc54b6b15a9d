# SPDX-License-Identifier: MIT
"""Devices that only compile, and the folder that programs are written to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulated_ipus import attach

from ipu import (
    ipu_compiler,
    keras,
    loops,
    machine,
    pipelining_ops,
    scopes,
    serving,
    tf,
)
from ipu._config import flags
from ipu.config import DeviceConnectionType, IPUConfig
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue
from ipu.ipu_strategy import IPUStrategy
from ipu.tf import errors
from ipu.tf.compat import v1


@pytest.fixture(autouse=True)
def _one_ipu_again() -> Iterator[None]:
    yield
    attach(1)


def only_compile(ipus: int = 1, folder: Path | None = None) -> None:
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.device_connection.type = DeviceConnectionType.PRE_COMPILE
    config.device_connection.version = "ipu2"
    config.serialization_output_folder = "" if folder is None else str(folder)
    config.configure_ipu_system()


@pytest.mark.parametrize("ipus", [1, 2])
def test_results_are_zeros_and_variables_stay(ipus: int) -> None:
    only_compile(ipus)
    elements = np.float32([[1, 2]])
    queue = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(elements))
    out, last = IPUOutfeedQueue(), IPUOutfeedQueue(IPUOutfeedMode.LAST)
    strategy = IPUStrategy()
    with strategy.scope():
        v = tf.Variable([1.0, 2.0])

        def body(c: Any, x: Any) -> Any:
            v.assign_add(x)
            out.enqueue({"a": v + c})
            last.enqueue(c)
            return c + 1.0

        @tf.function(jit_compile=True)
        def run() -> Any:
            return loops.repeat(5, body, [tf.constant(1.0)], queue)

        for _ in range(2):
            assert float(strategy.run(run)) == 0.0
    rows = (2,) if ipus == 1 else (2, ipus)
    np.testing.assert_array_equal(out.dequeue()["a"], np.zeros((*rows, 2)))
    assert out.dequeue()["a"].shape[0] == 0 and not list(out)
    np.testing.assert_array_equal(last.dequeue(), np.zeros(rows[1:]))
    with pytest.raises(errors.FailedPreconditionError):
        last.dequeue()
    strategy.run(run)
    assert [x["a"].shape for x in out] == [(*rows[1:], 2)]
    np.testing.assert_array_equal(v.numpy(), [1.0, 2.0])


def test_models_train_nothing() -> None:
    only_compile()
    with IPUStrategy().scope():
        model = keras.Sequential([keras.layers.Dense(1, input_shape=(4,))])
        model.compile("sgd", "mse", ["mae"], steps_per_execution=4)
        before = model.get_weights()
        x, y = np.ones((32, 4), "f4"), np.ones((32, 1), "f4")
        history = model.fit(x, y, batch_size=4, epochs=2, verbose=0)
        assert history.history == {"loss": [0.0, 0.0], "mae": [0.0, 0.0]}
        assert model.evaluate(x, y, batch_size=4, verbose=0) == [0.0, 0.0]
    np.testing.assert_array_equal(before[0], model.get_weights()[0])


def test_gradients_of_functions_are_zeros() -> None:
    only_compile()
    with IPUStrategy().scope():
        v = tf.Variable([1.0, 2.0])
        square = tf.function(lambda x: x * v * v, jit_compile=True)
        x = tf.constant([3.0, 4.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = square(x)
        for gradient in tape.gradient(y, [x, v]):
            np.testing.assert_array_equal(gradient, [0.0, 0.0])


def test_what_is_written_is_loaded(tmp_path: Path, caplog: Any) -> None:
    only_compile(folder=tmp_path)
    out = IPUOutfeedQueue()
    strategy = IPUStrategy()
    with strategy.scope():
        v = tf.Variable([1.0, 2.0])

        @tf.function(jit_compile=True)
        def scaled(x: Any) -> Any:
            return {"y": x * v, "z": tf.reduce_sum(x)}

        for _ in range(2):
            assert (
                not strategy.run(scaled, [tf.constant([3.0, 4.0])])["y"].numpy().any()
            )
        strategy.run(tf.function(lambda: out.enqueue(v), jit_compile=True))
    (folder,) = tmp_path.iterdir()
    assert "scaled" in folder.name
    assert sum("is written to" in text for text in caplog.messages) == 1
    assert any("it uses an outfeed" in text for text in caplog.messages)
    attach(1)
    found = serving.load(folder)([3.0, 4.0])
    np.testing.assert_array_equal(found["y"], [3.0, 8.0])
    assert float(found["z"]) == 7.0


def test_programs_of_sessions(tmp_path: Path) -> None:
    only_compile(folder=tmp_path)
    with v1.Graph().as_default():
        x = v1.placeholder("float32", [2])
        with scopes.ipu_scope("/device:IPU:0"):
            w = v1.get_variable("w", [2], initializer=v1.constant_initializer(3.0))
            result = ipu_compiler.compile(lambda x: x * w, [x])
        with v1.Session() as session:
            session.run(w.initializer)
            (found,) = session.run(result, {x: [7.0, 8.0]})
            np.testing.assert_array_equal(found, [0.0, 0.0])
            np.testing.assert_array_equal(session.run(w), [3.0, 3.0])
    attach(1)
    (folder,) = tmp_path.iterdir()
    np.testing.assert_array_equal(serving.load(folder)([7.0, 8.0])[0], [21.0, 24.0])


def test_devices_that_run_write_too(tmp_path: Path) -> None:
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.serialization_output_folder = str(tmp_path / "programs")
    config.configure_ipu_system()
    twice = tf.function(lambda x: x + x, jit_compile=True)
    assert float(IPUStrategy().run(twice, [tf.constant(2.0)])) == 4.0
    (folder,) = (tmp_path / "programs").iterdir()
    assert float(serving.load(folder)(4.0)) == 8.0


def test_a_flag_has_programs_written_and_cycles_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    text = f"--executable_cache_path={tmp_path} --log_cycle_count=0"
    monkeypatch.setenv("TF_POPLAR_FLAGS", text)
    flags._forget()
    attach(1)
    try:
        twice = tf.function(lambda x: tf.matmul(x, x), jit_compile=True)
        x = tf.ones([64, 64])
        for _ in range(2):
            IPUStrategy().run(twice, [x])
    finally:
        monkeypatch.undo()
        flags._forget()
    (folder,) = tmp_path.iterdir()
    np.testing.assert_array_equal(serving.load(folder)(x), np.full([64, 64], 64.0))
    cycles = machine.estimate(lambda x: tf.matmul(x, x), x).cycles
    told = [one for one in caplog.messages if one.startswith("Cycle count")]
    assert told == [f"Cycle count: {cycles:.0f}"] * 2


def test_pipelines_compile() -> None:
    only_compile(2)
    data = tf.data.Dataset.from_tensors(np.ones((2, 3), "f4")).repeat()
    infeed, outfeed = IPUInfeedQueue(data), IPUOutfeedQueue()
    with IPUStrategy().scope():
        w = tf.Variable(tf.ones([3, 1]))

        def optimizer(loss: Any) -> Any:
            sgd = keras.optimizers.SGD(0.1)
            return pipelining_ops.OptimizerFunctionOutput(sgd, loss, variables=[w])

        @tf.function(jit_compile=True)
        def train() -> None:
            pipelining_ops.pipeline(
                [lambda x: tf.matmul(x, w), tf.reduce_sum],
                gradient_accumulation_count=4,
                infeed_queue=infeed,
                outfeed_queue=outfeed,
                optimizer_function=optimizer,
                outfeed_loss=True,
            )

        train()
    np.testing.assert_array_equal(outfeed.dequeue(), [0.0])
    np.testing.assert_array_equal(w, np.ones([3, 1]))
    with pytest.raises(errors.FailedPreconditionError, match="must be a multiple of"):
        tf.function(
            lambda: pipelining_ops.pipeline(
                [lambda x: x, lambda x: x],
                gradient_accumulation_count=3,
                infeed_queue=IPUInfeedQueue(data),
                outfeed_queue=IPUOutfeedQueue(),
            ),
            jit_compile=True,
        )()
