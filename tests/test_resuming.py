# SPDX-License-Identifier: MIT
"""Training that goes on from a file is to the bit training that was never stopped."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from resumable import DATA, X, Y, data_set, model_of, state_of, train
from simulated_ipus import attach

import ipu
from ipu import _core, keras, tf
from ipu._device import processes, seed as _seed
from ipu._device.placement import current_device
from ipu.keras._random_state import Order, captured, parsed
from ipu.keras.callbacks.backup import resumed
from ipu.keras.callbacks.state import optimizers_of

PROGRAM = """
import sys
import numpy as np
from resumable import DATA, state_of, train
from ipu import keras, tf

folder, *kinds = sys.argv[1:]
for kind in kinds:
    tf.random.set_seed(3)
    data = DATA[kind]()
    model = keras.models.load_model(f"{folder}/{kind}.safetensors")
    train(model, data, 2)
    np.savez(f"{folder}/{kind}.npz", *state_of(model))
"""
KINDS = ["arrays", "data_set", "sequence", "of_unknown_size"]


def assert_same(one: list[Any], other: list[Any]) -> None:
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def whole(kind: str, **kwargs: Any) -> tuple[list[Any], Any]:
    tf.random.set_seed(3)
    data = DATA[kind]()
    model = model_of()
    history = train(model, data, 4, **kwargs)
    return state_of(model), history


def half(kind: str) -> tuple[Any, Any]:
    tf.random.set_seed(3)
    data = DATA[kind]()
    model = model_of()
    train(model, data, 2)
    return model, data


def disturb() -> None:
    """Draw from everything that random numbers come from."""
    tf.random.normal((3,))
    keras.layers.Dense(3)(X)
    other = model_of()
    other.fit(X, Y, verbose=0)


@pytest.mark.parametrize("kind", KINDS)
def test_copies_go_on(kind: str, tmp_path: Path) -> None:
    expected, _ = whole(kind)
    model, data = half(kind)
    copies = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    for suffix in (".safetensors", ".keras", ".h5"):
        model.save(tmp_path / f"m{suffix}")
        copies.append(keras.models.load_model(tmp_path / f"m{suffix}"))
    copies.append(copy.deepcopy(copies[-1]))  # of one that has not been trained since
    train(model, data, 2)
    assert_same(expected, state_of(model))
    for one in copies:
        disturb()
        train(one, data, 2)
        assert_same(expected, state_of(one))


def test_a_new_process_goes_on(tmp_path: Path) -> None:
    kinds = ["arrays", "data_set"]
    for kind in kinds:
        half(kind)[0].save(tmp_path / f"{kind}.safetensors")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    words = [sys.executable, str(program), str(tmp_path), *kinds]
    here = str(Path(__file__).parent)
    paths = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        words, check=True, timeout=120, env={**os.environ, "PYTHONPATH": paths}
    )
    for kind in kinds:
        with np.load(tmp_path / f"{kind}.npz") as file:
            assert_same(whole(kind)[0], [file[name] for name in file.files])


class Stop(keras.callbacks.Callback):
    def __init__(self, epoch: int) -> None:
        super().__init__()
        self.epoch = epoch

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if epoch == self.epoch:
            raise RuntimeError("the power is gone")


@pytest.mark.parametrize("scope", [False, True])
@pytest.mark.parametrize("kind", KINDS[:3])
def test_a_backup_changes_nothing_and_goes_on(
    kind: str, scope: bool, tmp_path: Path
) -> None:
    if scope and kind != "data_set":
        pytest.skip("the device takes whole batches only")
    with ipu.ipu_strategy.IPUStrategy().scope() if scope else nullcontext():
        expected, history = whole(kind)
        backup = keras.callbacks.BackupAndRestore(tmp_path / "b")
        assert_same(expected, whole(kind, callbacks=[backup])[0])
        for stop in (1, 3):
            with pytest.raises(RuntimeError, match="power"):
                whole(kind, callbacks=[backup, Stop(stop)])
            disturb()
        tf.random.set_seed(3)
        data = DATA[kind]()
        model = model_of()
        rest = train(model, data, 4, callbacks=[backup])
    assert rest.epoch == [3]
    assert rest.history["loss"] == history.history["loss"][3:]
    assert_same(expected, state_of(model))


@pytest.mark.parametrize("repeats", [False, True])
def test_a_backup_of_epochs_that_are_no_passes(repeats: bool, tmp_path: Path) -> None:
    """Of one data set object, which was read before."""
    tf.random.set_seed(3)
    data: Any = {"x": data_set().repeat()} if repeats else {"x": X, "y": Y}
    data |= {"steps_per_epoch": 3, "epochs": 4, "verbose": 0}

    def run(*callbacks: Any) -> list[Any]:
        tf.random.set_seed(3)
        model = model_of()
        model.fit(**data, callbacks=list(callbacks))
        return state_of(model)

    backup = keras.callbacks.BackupAndRestore(tmp_path / "b")
    expected = run()
    with pytest.raises(RuntimeError, match="power"):
        run(backup, Stop(2))
    assert_same(expected, run(backup))


def test_eager_steps_and_single_batches_go_on() -> None:
    def steps(model: Any, count: int) -> Any:
        for _ in range(count):
            model.train_on_batch(X, Y)
        return model

    for eagerly in (False, True):
        results = []
        for stops in (False, True):
            tf.random.set_seed(3)
            model = model_of()
            model.run_eagerly = eagerly
            steps(model, 2)
            if stops:
                model = copy.deepcopy(model)
                model.run_eagerly = eagerly
                disturb()
            results.append(state_of(steps(model, 2)))
        assert_same(*results)


def test_a_seed_that_is_set_after_loading_counts() -> None:
    results = []
    for _ in range(2):
        tf.random.set_seed(3)
        model, data = half("arrays")
        model = copy.deepcopy(model)
        disturb()
        tf.random.set_seed(4)
        train(model, data, 2)
        results.append(state_of(model))
    assert_same(*results)
    assert any(
        (a != b).any() for a, b in zip(whole("arrays")[0], results[0], strict=True)
    )


# --- the parts ------------------------------------------------------------------------


def test_a_device_goes_on_from_a_step() -> None:
    device = current_device().core
    draw = tf.function(lambda: tf.random.normal((3,)), jit_compile=True)
    strategy = ipu.ipu_strategy.IPUStrategy()
    device.set_random(7, 40)
    assert device.random == (7, 40) and device.step == 40
    first = strategy.run(draw).numpy()
    assert device.step == 41
    second = strategy.run(draw).numpy()
    device.set_random(7, 41)
    np.testing.assert_array_equal(second, strategy.run(draw).numpy())
    assert (first != second).any()
    for bad in ((-1, 0), (0, -1), (0, 2**64)):
        with pytest.raises(ValueError, match=r"from 0 to 2\*\*64"):
            device.set_random(*bad)
    with pytest.raises(TypeError):
        device.set_random(1.5, 0)
    assert device.random == (7, 42)


def test_eager_ops_go_on() -> None:
    tf.random.set_seed(9)
    tf.random.normal((3,))
    state = _core.eager_random()
    assert state == (9, 1, 0)
    first = tf.random.normal((3,)).numpy()
    tf.random.normal((3,))
    _core.set_eager_random(*state)
    np.testing.assert_array_equal(first, tf.random.normal((3,)).numpy())


def test_passes_of_a_data_set_have_numbers() -> None:
    def passes(data: Any, count: int) -> list[list[int]]:
        values = [int(value) for value in data.take(9 * count)]
        return [values[n : n + 9] for n in range(0, 9 * count, 9)]

    data = tf.data.Dataset.range(9).shuffle(9, seed=1)
    expected = passes(data.repeat(), 4)
    assert len({tuple(order) for order in expected}) == 4
    for first in (2, 0):
        assert passes(data._repeat_from(-1, first), 4 - first) == expected[first:]
    assert passes(data.repeat(2)._repeat_from(1, 1), 2) == expected[2:]
    assert [int(v) for v in data.prefetch(2)._repeat_from(1, 3)] == expected[3]
    with pytest.raises(ValueError, match="pass number -1"):
        data._repeat_from(-1, -1)


def test_counts_of_draws() -> None:
    tf.random.set_seed(1)
    assert set(_seed.drawn().values()) == {0}
    data = tf.data.Dataset.range(9).shuffle(9)
    counts = _seed.drawn()
    assert counts["shuffles"] == 1
    one, other = (tf.data.Dataset.range(9).shuffle(9) for _ in range(2))
    _seed.set_drawn(counts)
    again = list(tf.data.Dataset.range(9).shuffle(9))
    assert again == list(one)
    assert again != list(other) and again != list(data)


def test_a_damaged_state() -> None:
    text = captured(Order()).to_json()
    assert parsed(text, "f").to_json() == text
    told = json.loads(text)
    damages = [
        {"device": [1]},
        {"device": [1, -1]},
        {"device": [1, 2**64]},
        {"eager": [0, 0, 2**32]},
        {"order": None},
        {"order": [0.5, 1]},
        {"drawn": 3},
        {"seed": "x"},
    ]
    for damage in damages:
        with pytest.raises(ValueError, match=r"'f' is damaged.*random state"):
            parsed(json.dumps({**told, **damage}), "f")
    with pytest.raises(ValueError, match="damaged"):
        parsed("{", "f")


class Two(keras.Model):
    """Two parts, each with an optimizer of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = [keras.layers.Dense(4, "tanh"), keras.layers.Dense(2)]
        self.loss_tracker = keras.metrics.Mean(name="loss")

    def compile(self, first: Any, second: Any) -> None:
        super().compile()
        self.updates = [first, second]
        self.second = second

    def call(self, inputs: Any) -> Any:
        return self.parts[1](self.parts[0](inputs))

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape(persistent=True) as tape:
            x = x + tf.random.normal(tf.shape(x), stddev=0.1)
            loss = tf.reduce_mean(tf.square(self(x, training=True) - y))
        for part, optimizer in zip(self.parts, self.updates, strict=True):
            weights = part.trainable_variables
            pairs = zip(tape.gradient(loss, weights), weights, strict=True)
            optimizer.apply_gradients(pairs)
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}


def test_a_backup_has_all_optimizers(tmp_path: Path) -> None:
    def run(*callbacks: Any) -> list[Any]:
        tf.random.set_seed(3)
        model = Two()
        model.compile(keras.optimizers.Adam(0.01), keras.optimizers.SGD(0.1, 0.9))
        model.fit(X, Y, 4, epochs=3, verbose=0, callbacks=list(callbacks))
        states = [one.get_weights() for one in model.updates]
        return [*model.get_weights(), *states[0], *states[1]]

    backup = keras.callbacks.BackupAndRestore(tmp_path / "b")
    expected = run()
    assert_same(expected, run(backup))
    with pytest.raises(RuntimeError, match="power"):
        run(backup, Stop(2))
    assert_same(expected, run(backup))


def test_what_a_backup_keeps(tmp_path: Path) -> None:
    """The rate that somebody set, and the file after the end if it is asked to."""

    class Slower(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.model.optimizer.learning_rate = 0.25 / (epoch + 1)

    def rate_after(*callbacks: Any, epochs: int = 2) -> float:
        model = model_of()
        model.compile(keras.optimizers.SGD(0.5), "mse")
        train(model, DATA["arrays"](), epochs, callbacks=list(callbacks))
        return float(model.optimizer.learning_rate)

    folder, made = tmp_path / "b", keras.callbacks.BackupAndRestore
    with pytest.raises(RuntimeError, match="power"):
        rate_after(Slower(), made(folder), Stop(1))
    assert rate_after(made(folder, delete_checkpoint=False)) == 0.25
    assert os.listdir(folder) == ["backup.safetensors"]
    assert rate_after(made(folder)) == 0.25 and not os.listdir(folder)
    rate_after(made(folder), epochs=0)
    with pytest.raises(ValueError, match="`save_freq` must be 'epoch'"):
        made(folder, save_freq=5)
    weights = model_of()
    weights.save_weights(folder / "backup.safetensors")
    with pytest.raises(ValueError, match="is not a backup of training"):
        rate_after(made(folder))


class Process:
    """One of two processes: the second one hears what the first one has said."""

    def __init__(self, index: int, said: list[bytes]) -> None:
        self.index = index
        self.said = said
        self.meetings: list[str] = []

    def meet(self, what: str) -> None:
        self.meetings.append(what)

    def allgather_bytes(self, own: bytes) -> list[bytes]:
        if self.index == 0:
            self.said.append(own)
            return [own, b""]
        assert own == b""
        return [self.said.pop(0), own]


def test_what_processes_do_of_a_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = [keras.callbacks.BackupAndRestore(tmp_path / name) for name in "ab"]
    save = keras.callbacks.ModelCheckpoint(tmp_path / "c" / "m.keras")
    elsewhere = [one._elsewhere() for one in (save, *kept)]
    gathered: list[Any] = []
    monkeypatch.setattr("ipu.keras.callbacks.state.gather", gathered.append)
    model, _ = half("arrays")
    variables = [*model.weights, *model.optimizer.weights]
    model.others = {"one": model.optimizer, "two": [3]}
    assert optimizers_of(model) == [model.optimizer]
    for one in (*elsewhere, *kept):
        one.set_model(model)
        one.on_train_begin()
        one.on_epoch_end(0, {})
    assert [*tmp_path.glob("c/*")] == [] and not save._is_elsewhere
    save.set_model(model)
    save.on_train_begin()
    save.on_epoch_end(0, {})
    assert len(gathered) == 6
    assert all([*map(id, one)] == [*map(id, variables)] for one in gathered)
    kept[1].on_epoch_end(4)
    said: list[bytes] = []
    for index, callbacks in ((0, kept), (1, [keras.callbacks.BackupAndRestore("no")])):
        process, other = Process(index, said), model_of()
        before = other.get_weights()
        with monkeypatch.context() as patch:
            patch.setattr(processes, "shared", lambda process=process: process)
            epochs, given = resumed(other, callbacks)
        assert epochs == 5 and process.meetings == ["fit"]
        assert given[: len(callbacks)] == callbacks
        for one in given[len(callbacks) :]:
            assert one.model is None
            one.set_model(other)
            one.on_train_begin()
            assert_same(state_of(model), state_of(other))
            other.set_weights(before)
        other.second = keras.optimizers.SGD(0.1)
        with pytest.raises(ValueError, match=r"longer|shorter"):
            kept[0].set_model(other)
            kept[0].on_train_begin()
        assert len(given) == 2 + index
    assert not os.path.exists("no")


# --- every optimizer, every format ----------------------------------------------------

optimizers = keras.optimizers
schedules = optimizers.schedules


def falling() -> Any:
    return schedules.ExponentialDecay(0.05, 2, 0.5)


def adamw() -> Any:
    made = optimizers.AdamW(falling(), 0.1)
    made.exclude_from_weight_decay(var_names=["bias"])
    return made


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: optimizers.SGD(0.05),
    "sgd_exponential": lambda: optimizers.SGD(falling()),
    "sgd_piecewise": lambda: optimizers.SGD(
        schedules.PiecewiseConstantDecay([2, 4], [0.1, 0.05, 0.01])
    ),
    "sgd_polynomial": lambda: optimizers.SGD(schedules.PolynomialDecay(0.1, 7)),
    "sgd_inverse": lambda: optimizers.SGD(schedules.InverseTimeDecay(0.1, 2, 0.5)),
    "sgd_cosine": lambda: optimizers.SGD(schedules.CosineDecay(0.1, 8)),
    "sgd_decay": lambda: optimizers.SGD(0.05, decay=0.1),
    "sgd_momentum": lambda: optimizers.SGD(0.05, 0.9, clipvalue=0.01),
    "sgd_nesterov": lambda: optimizers.SGD(falling(), 0.9, True, clipnorm=0.1),
    "sgd_clipped": lambda: optimizers.SGD(0.05, global_clipnorm=0.1, decay=0.1),
    "sgd_decays_weights": lambda: optimizers.SGD(falling(), weight_decay=0.1),
    "sgd_averages": lambda: optimizers.SGD(
        0.05, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=3
    ),
    "adam_averages": lambda: optimizers.Adam(0.05, use_ema=True, weight_decay=0.1),
    "sgd_accumulates": lambda: optimizers.SGD(
        falling(), 0.9, gradient_accumulation_steps=3
    ),
    "adam_loss_scale": lambda: optimizers.Adam(0.05, loss_scale_factor=8.0),
    "adam": lambda: optimizers.Adam(0.05, 0.8, 0.9, 0.1),
    "adam_decay": lambda: optimizers.Adam(0.05, decay=0.1),
    "adam_amsgrad": lambda: optimizers.Adam(falling(), amsgrad=True),
    "adamw": adamw,
    "adagrad": lambda: optimizers.Adagrad(0.05, decay=0.1),
    "adadelta": lambda: optimizers.Adadelta(falling()),
    "adamax": lambda: optimizers.Adamax(falling(), clipnorm=0.1),
    "nadam": lambda: optimizers.Nadam(0.05),
    "nadam_decay": lambda: optimizers.Nadam(0.05, decay=0.1, schedule_decay=0.1),
    "ftrl": lambda: optimizers.Ftrl(
        falling(), l1_regularization_strength=0.01, beta=0.1
    ),
    "rmsprop": lambda: optimizers.RMSprop(0.05),
    "rmsprop_momentum": lambda: optimizers.RMSprop(falling(), momentum=0.9),
    "rmsprop_centered": lambda: optimizers.RMSprop(
        0.05, momentum=0.5, centered=True, decay=0.1
    ),
    "scaled_adam": lambda: optimizers.LossScaleOptimizer(
        optimizers.Adam(falling()), initial_scale=64.0, dynamic_growth_steps=3
    ),
    "scaled_sgd": lambda: optimizers.LossScaleOptimizer(
        optimizers.SGD(falling()), initial_scale=64.0, dynamic_growth_steps=3
    ),
    "scaled_nadam": lambda: optimizers.LossScaleOptimizer(
        optimizers.Nadam(0.05, decay=0.1), initial_scale=64.0
    ),
    "scaled_once": lambda: optimizers.LossScaleOptimizer(
        optimizers.SGD(falling()), dynamic=False, initial_scale=64.0
    ),
    "als": lambda: optimizers.ALSOptimizer(
        optimizers.SGD(falling()), update_frequency=4, initial_loss_scaling_factor=4
    ),
    "als_adam": lambda: optimizers.ALSOptimizer(optimizers.Adam(0.05)),
    "sgd_ipu": lambda: optimizers.SGDIpuOptimizer(falling()),
    "sgd_ipu_momentum": lambda: optimizers.SGDIpuOptimizer(
        0.05, 0.9, True, momentum_accum_dtype="float16"
    ),
    "adam_ipu": lambda: optimizers.AdamIpuOptimizer(falling(), m_dtype="float16"),
    "adam_ipu_amsgrad": lambda: optimizers.AdamIpuOptimizer(
        0.05, amsgrad=True, debiasing=False, decay=0.1
    ),
    "lamb": lambda: optimizers.LAMBIpuOptimizer(
        falling(), weight_decay_rate=0.01, exclude_from_weight_decay=["bias"]
    ),
    "mean_sgd": lambda: optimizers.CrossReplicaOptimizer(optimizers.SGD(falling())),
    "mean_nadam": lambda: optimizers.CrossReplicaOptimizer(optimizers.Nadam(0.05)),
}
FORMATS = [".safetensors", ".keras", ".h5"]


def small_model(optimizer: Any) -> Any:
    tf.random.set_seed(3)
    hidden = keras.layers.Dense(3, "tanh", input_shape=(6,))
    model = keras.Sequential([hidden, keras.layers.Dense(2)])
    model.compile(optimizer, "mse")
    return model


def epochs(model: Any, count: int) -> Any:
    model.fit(X[:16], Y[:16], 4, epochs=count, verbose=0, shuffle=False)
    return model


def goes_on(model: Any, folder: Path) -> None:
    """Each copy of a model, trained on, is the model trained on."""
    copies: list[Any] = [pickle.loads(pickle.dumps(model))]
    for suffix in FORMATS:
        model.save(folder / f"m{suffix}")
        copies.append(keras.models.load_model(folder / f"m{suffix}"))
    expected = state_of(epochs(model, 2))
    for one in copies:
        assert_same(expected, state_of(epochs(one, 2)))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("steps", [0, 1])
def test_every_optimizer_goes_on(name: str, steps: int, tmp_path: Path) -> None:
    model = small_model(OPTIMIZERS[name]())
    goes_on(epochs(model, steps), tmp_path)
    copy = optimizers.deserialize(optimizers.serialize(model.optimizer))
    other = keras.models.clone_model(model)
    other.set_weights(model.get_weights())
    other.compile(copy, "mse")
    copy._create_all_weights(other.trainable_variables)
    copy.set_weights(model.optimizer.get_weights())
    assert_same(state_of(epochs(model, 1)), state_of(epochs(other, 1)))


@pytest.mark.parametrize("name", ["sgd_exponential", "nadam", "scaled_sgd", "als_adam"])
@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.usefixtures("one_ipu")
def test_accumulated_updates_go_on(name: str, staged: bool, tmp_path: Path) -> None:
    attach(2 if staged else 1)
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = small_model(OPTIMIZERS[name]())
        if staged:
            model.set_pipeline_stage_assignment([0, 1])
            model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
        else:
            model.set_gradient_accumulation_options(
                gradient_accumulation_steps_per_replica=2
            )
        model.compile(model.optimizer, "mse", steps_per_execution=4)
        goes_on(epochs(model, 2), tmp_path)


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    mapped = optimizers.MapGradientOptimizer(optimizers.SGD(0.1), lambda g, v: g)
    with_functions = optimizers.SGD(0.1, gradient_transformers=[lambda pairs: pairs])
    for optimizer in (mapped, with_functions):
        model = epochs(small_model(optimizer), 1)
        for suffix in FORMATS:
            with pytest.warns(UserWarning, match="saved without what `compile`"):
                model.save(tmp_path / f"m{suffix}")
            other = keras.models.load_model(tmp_path / f"m{suffix}")
            assert_same(model.get_weights(), other.get_weights())
            assert getattr(other, "optimizer", None) is None
