# SPDX-License-Identifier: MIT
"""``tf.train.Checkpoint`` and ``CheckpointManager``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy
from ipu.tf._functions import restores
from ipu.tf.compat import v1

X = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)


def made(build: bool = True, optimizer: Any = "adam") -> Any:
    shape = {"input_shape": (4,)} if build else {}
    layers = [keras.layers.Dense(3, "tanh", **shape), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.compile(optimizer, "mse")
    return model


def trained(epochs: int = 2, **how: Any) -> Any:
    model = made(**how)
    model.fit(X, Y, 8, epochs, 0, shuffle=False)
    return model


def loss_of_next(model: Any) -> Any:
    return model.fit(X, Y, 8, 1, 0, shuffle=False).history["loss"]


# --- what is kept ---------------------------------------------------------------------


def test_variables_lists_dicts_and_modules(tmp_path: Path) -> None:
    class Net(tf.Module):
        def __init__(self, value: float) -> None:
            super().__init__()
            self.w = tf.Variable([value, value])
            self.parts = [tf.Variable(value), {"deep": tf.Variable(value + 1)}]

    def objects(value: float) -> dict[str, Any]:
        return {"net": Net(value), "step": tf.Variable(int(value))}

    path = tf.train.Checkpoint(**objects(3.0)).write(tmp_path / "kept")
    names = [name for name, _ in tf.train.list_variables(path)]
    assert names == ["net/parts/0", "net/parts/1/deep", "net/w", "step"]
    assert set(load_file(path + ".safetensors")) == set(names)
    reader = v1.train.load_checkpoint(path)  # the library gives them in any order
    assert [*reader.get_variable_to_shape_map()] == names
    assert [*reader.get_variable_to_dtype_map()] == names
    fresh = objects(0.0)
    tf.train.Checkpoint(**fresh).read(path).assert_consumed()
    assert fresh["net"].w.numpy().tolist() == [3.0, 3.0]
    assert float(fresh["net"].parts[1]["deep"]) == 4.0 and int(fresh["step"]) == 3
    assert tf.train.load_variable(path, "net/w").tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.optimizers.Adam(0.01),
        lambda: keras.optimizers.SGD(0.01, momentum=0.9),
        lambda: keras.optimizers.Nadam(0.01),
        lambda: keras.optimizers.Adam(
            keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
        ),
        lambda: keras.mixed_precision.LossScaleOptimizer(keras.optimizers.Adam(0.01)),
        lambda: keras.optimizers.Adam(0.01, use_ema=True),
        lambda: keras.optimizers.Adam(0.01, gradient_accumulation_steps=2),
    ],
)
def test_training_goes_on_to_the_same_bits(tmp_path: Path, make: Any) -> None:
    model = trained(optimizer=make())
    path = tf.train.Checkpoint(model=model).save(tmp_path / "run")
    expected = loss_of_next(model)
    again = made(optimizer=make())
    status = tf.train.Checkpoint(model=again).restore(path)
    assert loss_of_next(again) == expected
    status.assert_consumed()


def test_variables_that_come_later_are_restored_when_they_are_made(
    tmp_path: Path,
) -> None:
    model = trained()
    path = tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(
        tmp_path / "run"
    )
    expected = loss_of_next(model)
    later = made(build=False)
    status = tf.train.Checkpoint(model=later, optimizer=later.optimizer).restore(path)
    with pytest.raises(AssertionError, match="make variables when they are first used"):
        status.assert_consumed()
    assert loss_of_next(later) == expected
    status.assert_consumed()
    assert not restores._WAITING


def test_a_loop_of_one_s_own(tmp_path: Path) -> None:
    class Net(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first = keras.layers.Dense(3, "tanh")
            self.last = keras.layers.Dense(1)

        def call(self, x: Any) -> Any:
            return self.last(self.first(x))

    def run(path: str | None, steps: int) -> tuple[list[float], str]:
        keras.utils.set_random_seed(1)
        net, optimizer = Net(), keras.optimizers.Adam(0.05)
        step = tf.Variable(0)
        checkpoint = tf.train.Checkpoint(net=net, optimizer=optimizer, step=step)
        checkpoint.restore(path)

        @tf.function
        def train(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(net(x) - y))
            gradients = tape.gradient(loss, net.trainable_variables)
            optimizer.apply_gradients(
                zip(gradients, net.trainable_variables, strict=True)
            )
            return loss

        losses = []
        while int(step) < steps:
            losses.append(float(train(X, Y)))
            step.assign_add(1)
        return losses, checkpoint.save(tmp_path / "loop")

    whole, _ = run(None, 6)
    begin, path = run(None, 3)
    end, _ = run(path, 6)
    assert begin + end == whole


def test_on_the_device_of_a_strategy(tmp_path: Path) -> None:
    with IPUStrategy().scope():
        model = trained()
        path = tf.train.Checkpoint(model=model).save(tmp_path / "run")
        expected = loss_of_next(model)
        again = made()
        tf.train.Checkpoint(model=again).restore(path)
        assert loss_of_next(again) == expected


def test_generators_metrics_and_layers(tmp_path: Path) -> None:
    def objects() -> Any:
        layer = keras.layers.Dense(2)
        layer.build((None, 3))
        return {
            "numbers": tf.random.Generator.from_seed(3),
            "mean": keras.metrics.Mean(),
            "layer": layer,
        }

    first = objects()
    first["mean"].update_state([1.0, 3.0])
    first["numbers"].normal((2,))
    path = tf.train.Checkpoint(**first).write(tmp_path / "some")
    expected = first["numbers"].normal((2,)).numpy()
    second = objects()
    second["numbers"] = tf.random.Generator.from_seed(9)
    tf.train.Checkpoint(**second).read(path).assert_consumed()
    assert float(second["mean"].result()) == 2.0
    assert np.array_equal(second["numbers"].normal((2,)), expected)
    assert np.array_equal(second["layer"].kernel, first["layer"].kernel)


def test_an_object_with_several_names(tmp_path: Path) -> None:
    v = tf.Variable(2.0)
    module = tf.Module()
    module.v = v
    path = tf.train.Checkpoint(a=module, b=module).write(tmp_path / "two")
    assert tf.train.list_variables(path) == [("a/v", [])]
    other = tf.Module()
    other.v = tf.Variable(0.0)
    tf.train.Checkpoint(b=other).read(path).assert_consumed()
    assert float(other.v) == 2.0


def test_the_attributes_of_a_root(tmp_path: Path) -> None:
    model = trained()
    path = tf.train.Checkpoint(model).write(tmp_path / "root")
    again = made()
    tf.train.Checkpoint(again).read(path)
    assert np.array_equal(again.predict(X), model.predict(X))


# --- what was restored ----------------------------------------------------------------


def test_what_is_consumed(tmp_path: Path) -> None:
    path = tf.train.Checkpoint(a=tf.Variable(1), b=tf.Variable(2)).write(
        tmp_path / "ab"
    )
    less = tf.train.Checkpoint(a=tf.Variable(0)).read(path)
    less.assert_existing_objects_matched().expect_partial().assert_nontrivial_match()
    with pytest.raises(AssertionError, match="no variable of the program takes: b"):
        less.assert_consumed()
    more = tf.train.Checkpoint(a=tf.Variable(0), c=tf.Variable(0)).read(path)
    with pytest.raises(AssertionError, match=r"no values of these variables.*: c"):
        more.assert_existing_objects_matched()
    other = tf.train.Checkpoint(d=tf.Variable(0)).read(path)
    with pytest.raises(AssertionError, match="Nothing in the program"):
        other.assert_nontrivial_match()
    late = tf.train.Checkpoint()
    late.read(path)
    late.b = tf.Variable(0)
    assert int(late.b) == 2


def test_nothing_to_restore() -> None:
    status = tf.train.Checkpoint(a=tf.Variable(1)).restore(None).expect_partial()
    with pytest.raises(AssertionError, match="No checkpoint specified"):
        status.assert_consumed()


def test_what_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    path = tf.train.Checkpoint(a=tf.Variable(1.0), b=tf.Variable([1.0, 2.0])).write(
        tmp_path / "ab"
    )
    a, b = tf.Variable(0.0), tf.Variable([0.0])
    with pytest.raises(ValueError, match=r"'b' has shape \(1,\).*shape \(2,\)"):
        tf.train.Checkpoint(a=a, b=b).read(path)
    assert float(a) == 0.0
    with pytest.raises(ValueError, match="dtype int32"):
        tf.train.Checkpoint(a=tf.Variable(0)).read(path)


def test_files_that_are_not_there_or_damaged(tmp_path: Path) -> None:
    checkpoint = tf.train.Checkpoint(a=tf.Variable(1))
    with pytest.raises(tf.errors.NotFoundError, match="There is no checkpoint"):
        checkpoint.restore(tmp_path / "none")
    with pytest.raises(tf.errors.NotFoundError, match="It is a folder"):
        checkpoint.restore(tmp_path)
    (tmp_path / "old.index").touch()
    with pytest.raises(tf.errors.NotFoundError, match="Files of TensorFlow itself"):
        checkpoint.restore(tmp_path / "old")
    (tmp_path / "cut.safetensors").write_bytes(b"123")
    with pytest.raises(tf.errors.DataLossError, match="damaged"):
        checkpoint.restore(tmp_path / "cut")
    with pytest.raises(ValueError, match="no variables to write yet"):
        tf.train.Checkpoint(model=made(build=False).layers[0]).write(tmp_path / "x")


def test_what_has_no_variables() -> None:
    with pytest.raises(ValueError, match="was expecting step to be an object"):
        tf.train.Checkpoint(step=1)
    with pytest.raises(ValueError, match=r"begin again with dataset.skip\(number\)"):
        tf.train.Checkpoint(place=iter(tf.data.Dataset.range(3)))


# --- managers -------------------------------------------------------------------------


def test_a_manager_keeps_the_last_files(tmp_path: Path) -> None:
    step = tf.Variable(0)
    checkpoint = tf.train.Checkpoint(step=step)
    manager = tf.train.CheckpointManager(checkpoint, tmp_path / "kept", 2)
    assert manager.latest_checkpoint is None and manager.checkpoints == []
    for number in range(1, 5):
        step.assign(number)
        assert manager.save() == str(tmp_path / "kept" / f"ckpt-{number}")
    files = sorted(file.name for file in (tmp_path / "kept").iterdir())
    assert files == ["checkpoint", "ckpt-3.safetensors", "ckpt-4.safetensors"]
    assert tf.train.latest_checkpoint(tmp_path / "kept") == manager.latest_checkpoint
    # another run goes on with them
    step = tf.Variable(0)
    checkpoint = tf.train.Checkpoint(step=step)
    manager = tf.train.CheckpointManager(checkpoint, str(tmp_path / "kept"), 2)
    assert manager.restore_or_initialize() == str(tmp_path / "kept" / "ckpt-4")
    assert int(step) == 4 and int(checkpoint.save_counter) == 4
    manager.save()
    assert [Path(one).name for one in manager.checkpoints] == ["ckpt-4", "ckpt-5"]
    assert Path(str(manager.save(checkpoint_number=40))).name == "ckpt-40"


def test_an_interval_of_steps(tmp_path: Path) -> None:
    step = tf.Variable(0)
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(step=step),
        tmp_path,
        None,
        step_counter=step,
        checkpoint_interval=3,
    )
    saved = []
    for number in range(8):
        step.assign(number)
        saved.append(manager.save() is not None)
    assert saved == [True, False, False, True, False, False, True, False]
    assert manager.save(check_interval=False) is not None
    assert manager.checkpoint_interval == 3 and len(manager.checkpoints) == 4


def test_files_that_are_kept_for_ever(tmp_path: Path) -> None:
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(v=tf.Variable(0)), tmp_path, 1, 1.0
    )
    for hours in (0.0, 0.5, 1.5, 3.0):
        path = manager.save()
        os.utime(f"{path}.safetensors", (hours * 3600, hours * 3600))
    names = sorted(file.name for file in tmp_path.glob("*.safetensors"))
    assert names == [f"ckpt-{number}.safetensors" for number in (1, 3, 4)]


def test_what_a_manager_refuses(tmp_path: Path) -> None:
    checkpoint = tf.train.Checkpoint(v=tf.Variable(0))
    with pytest.raises(ValueError, match="positive integer or `None`"):
        tf.train.CheckpointManager(checkpoint, tmp_path, 0)
    with pytest.raises(ValueError, match="`step_counter` should be passed"):
        tf.train.CheckpointManager(checkpoint, tmp_path, 1, checkpoint_interval=2)
    with pytest.raises(TypeError, match=r"must be a tf\.train\.Checkpoint"):
        tf.train.CheckpointManager(made(), tmp_path, 1)
    called = []
    manager = tf.train.CheckpointManager(
        checkpoint, tmp_path / "new", 1, init_fn=lambda: called.append(1)
    )
    assert manager.restore_or_initialize() is None and called == [1]
