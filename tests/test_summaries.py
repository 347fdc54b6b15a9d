# SPDX-License-Identifier: MIT
"""``tf.summary`` and ``TensorBoard``, read by TensorBoard's own reader."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import keras, tf
from ipu.keras.callbacks import tensorboard

events = pytest.importorskip(
    "tensorboard.backend.event_processing.event_accumulator",
    reason="needs pip install '.[test]'",
)
from tensorboard.plugins.histogram import summary_v2  # noqa: E402
from tensorboard.util.tensor_util import make_ndarray  # noqa: E402


def read(folder: Any) -> Any:
    return events.EventAccumulator(str(folder), {"tensors": 0}).Reload()


def values(folder: Any, tag: str) -> list[tuple[int, Any]]:
    """(step, value) of each event of a tag."""
    return [
        (event.step, make_ndarray(event.tensor_proto))
        for event in read(folder).Tensors(tag)
    ]


def plugin(folder: Any, tag: str) -> str:
    metadata = read(folder).SummaryMetadata(tag)
    return str(metadata.plugin_data.plugin_name)


def test_scalars_have_their_steps_and_numbers(tmp_path: Path) -> None:
    writer = tf.summary.create_file_writer(tmp_path)
    with writer.as_default():
        for step in range(3):
            assert tf.summary.scalar("loss", tf.constant(0.5) * step, step)
        tf.summary.scalar("half", np.float64(0.25), 7, description="a **half**")
    assert not tf.summary.scalar("loss", 1.0, 4)  # no writer any more
    writer.close()
    found = values(tmp_path, "loss")
    assert [(step, float(value)) for step, value in found] == [(0, 0), (1, 0.5), (2, 1)]
    assert found[0][1].dtype == np.float32 and found[0][1].shape == ()
    assert plugin(tmp_path, "loss") == "scalars"
    about = read(tmp_path).SummaryMetadata("half")
    assert about.summary_description == "a **half**"


@pytest.mark.parametrize("data", [np.arange(100.0) ** 2, [3.0, 3.0], [], [-1.5]])
def test_histograms_are_those_of_tensorboard(tmp_path: Path, data: Any) -> None:
    array = np.asarray(data, np.float32)
    with tf.summary.create_file_writer(tmp_path).as_default():
        tf.summary.histogram("weights", array, step=1)
        tf.summary.histogram("few", array, step=1, buckets=4)
    for tag, count in (("weights", 30), ("few", 4)):
        wanted = summary_v2.histogram_pb(tag, array, buckets=count)
        want = make_ndarray(wanted.value[0].tensor)
        (_, got), *_ = values(tmp_path, tag)
        np.testing.assert_allclose(got, want, rtol=1e-12)
        assert plugin(tmp_path, tag) == "histograms"


def test_images_are_files_of_png(tmp_path: Path) -> None:
    pillow = pytest.importorskip("PIL.Image", reason="needs pip install '.[test]'")
    import io

    pixels = np.random.default_rng(0).integers(0, 256, (4, 5, 7, 3), np.uint8)
    with tf.summary.create_file_writer(tmp_path).as_default():
        tf.summary.image("bytes", pixels, step=2, max_outputs=2)
        tf.summary.image("floats", pixels[..., :1] / np.float32(255), step=2)
    (step, (width, height, *files)), *_ = values(tmp_path, "bytes")
    assert (step, width, height, len(files)) == (2, b"7", b"5", 2)
    shown = np.asarray(pillow.open(io.BytesIO(files[1])))
    np.testing.assert_array_equal(shown, pixels[1])
    (_, (*_, first, _, _)), *_ = values(tmp_path, "floats")
    np.testing.assert_array_equal(
        np.asarray(pillow.open(io.BytesIO(first))), pixels[0, ..., 0]
    )
    assert plugin(tmp_path, "bytes") == "images"


def test_texts_and_other_tensors(tmp_path: Path) -> None:
    with tf.summary.create_file_writer(tmp_path).as_default(step=3):
        tf.summary.text("note", "grün")
        tf.summary.text("rows", ["a", "b"])
        tf.summary.write("parts", tf.constant([[1, 2]]))
    assert values(tmp_path, "note") == [(3, "grün".encode())]
    ((_, rows),) = values(tmp_path, "rows")
    assert rows.tolist() == [b"a", b"b"]
    ((_, parts),) = values(tmp_path, "parts")
    assert parts.tolist() == [[1, 2]] and parts.dtype == np.int32


def test_steps_and_conditions_that_are_set(tmp_path: Path) -> None:
    step = tf.Variable(5)
    writer = tf.summary.create_file_writer(tmp_path)
    with writer.as_default():
        with pytest.raises(ValueError, match="No step set"):
            tf.summary.scalar("loss", 1.0)
        tf.summary.experimental.set_step(step)
        try:
            tf.summary.scalar("loss", 1.0)
            step.assign_add(1)
            with tf.summary.record_if(lambda: tf.equal(step % 2, 1)):
                assert not bool(tf.summary.should_record_summaries())
                assert not tf.summary.scalar("loss", 2.0)
            with tf.summary.record_if(tf.constant(True)):
                assert tf.summary.scalar("loss", 3.0)
        finally:
            tf.summary.experimental.set_step(None)
    assert [(s, float(v)) for s, v in values(tmp_path, "loss")] == [(5, 1.0), (6, 3.0)]
    with pytest.raises(ValueError, match="takes a scalar"), writer.as_default():
        tf.summary.scalar("loss", [1.0, 2.0], 1)
    writer.close()
    with pytest.raises(RuntimeError, match="already closed"), writer.as_default():
        pass


def test_summaries_of_a_function_are_those_of_each_run(tmp_path: Path) -> None:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    strategy = ipu.ipu_strategy.IPUStrategy()
    writer = tf.summary.create_file_writer(tmp_path)

    @tf.function
    def program(count: Any) -> Any:
        total = tf.constant(0.0)
        with writer.as_default():
            for i in tf.range(count):
                total += tf.cast(i, tf.float32)
                tf.summary.scalar("total", total, step=i)
                with tf.summary.record_if(tf.equal(i % 2, 0)):
                    tf.summary.histogram("even", tf.stack([total, 0.0]), step=i)
            tf.summary.text("done", "yes", step=0)
        return total

    with strategy.scope():
        assert float(strategy.run(program, args=(tf.constant(4),))) == 6.0
        strategy.run(program, args=(tf.constant(2),))
    found = [(step, float(value)) for step, value in values(tmp_path, "total")]
    assert found == [(0, 0.0), (1, 1.0), (2, 3.0), (3, 6.0), (0, 0.0), (1, 1.0)]
    assert [step for step, _ in values(tmp_path, "even")] == [0, 2, 0]
    assert len(values(tmp_path, "done")) == 2


# --- the callback


def trained(folder: Path, **options: Any) -> tuple[Any, Any]:
    model = keras.Sequential(
        [keras.layers.Dense(3, input_shape=(2,)), keras.layers.Dense(1)]
    )
    model.compile("sgd", "mse", metrics=["mae"])
    x = np.linspace(0, 1, 32, dtype=np.float32).reshape(16, 2)
    y = x.sum(1, keepdims=True)
    board = keras.callbacks.TensorBoard(folder, **options)
    history = model.fit(
        x,
        y,
        batch_size=4,
        epochs=3,
        validation_data=(x[:4], y[:4]),
        verbose=0,
        callbacks=[board],
    )
    return model, history


def test_epochs_lie_as_keras_lays_them(tmp_path: Path) -> None:
    model, history = trained(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["train", "validation"]
    for part, prefix in (("train", ""), ("validation", "val_")):
        for name in ("loss", "mae"):
            found = values(tmp_path / part, f"epoch_{name}")
            assert [step for step, _ in found] == [0, 1, 2]
            wanted = history.history[prefix + name]
            np.testing.assert_allclose([float(v) for _, v in found], wanted, rtol=1e-6)
    steps = values(tmp_path / "validation", "evaluation_loss_vs_iterations")
    assert [step for step, _ in steps] == [4, 8, 12]
    tags = read(tmp_path / "train").Tags()
    assert "batch_loss" not in tags["tensors"] and tags["graph"]
    graph = read(tmp_path / "train").Graph()
    dense = {node.name: list(node.input) for node in graph.node}
    names = [layer.name for layer in model.layers]
    assert dense[names[1]] == [names[0]]
    (first,) = dense[names[0]]  # the layer of the input
    assert [*dense] == [first, *names]


def test_batches_weights_and_rates_are_written_when_asked_for(tmp_path: Path) -> None:
    options = {"histogram_freq": 2, "write_images": True, "update_freq": 3}
    model, _ = trained(tmp_path, **options, write_steps_per_second=True)
    found = values(tmp_path / "train", "batch_loss")
    assert [step for step, _ in found] == [3, 6, 9, 12]
    kernel = model.layers[0].weights[0].name.replace(":", "_")
    assert [step for step, _ in values(tmp_path / "train", kernel)] == [0, 2]
    (_, (width, height, *_)), *_ = values(tmp_path / "train", f"{kernel}/image")
    assert (width, height) == (b"3", b"2")
    speeds = values(tmp_path / "train", "epoch_steps_per_second")
    assert all(float(speed) > 0 for _, speed in speeds)


def test_schedules_show_their_rate_and_training_is_the_same(tmp_path: Path) -> None:
    def run(callbacks: list[Any]) -> Any:
        keras.utils.set_random_seed(3)
        model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
        rate = keras.optimizers.schedules.ExponentialDecay(0.1, 4, 0.5)
        model.compile(keras.optimizers.SGD(rate), "mse")
        x = np.linspace(0, 1, 32, dtype=np.float32).reshape(16, 2)
        model.fit(x, x[:, :1], 4, 2, verbose=0, shuffle=False, callbacks=callbacks)
        return model.get_weights()

    board = keras.callbacks.TensorBoard(tmp_path, update_freq="batch")
    for one, other in zip(run([]), run([board]), strict=True):
        np.testing.assert_array_equal(one, other)
    steps = [step for step, _ in values(tmp_path / "train", "batch_loss")]
    assert steps == [*range(1, 9)]
    rates = [float(v) for _, v in values(tmp_path / "train", "epoch_learning_rate")]
    np.testing.assert_allclose(rates, [0.05, 0.025], rtol=1e-6)


def test_what_the_callback_does_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="update_freq"):
        keras.callbacks.TensorBoard(update_freq="step")
    with pytest.raises(ValueError, match="update_freq=0"):
        keras.callbacks.TensorBoard(update_freq=0)
    with pytest.raises(NotImplementedError, match="Embeddings"):
        keras.callbacks.TensorBoard(embeddings_freq=1)
    with pytest.raises(TypeError, match=r"Unrecognized arguments: \['freq'\]"):
        keras.callbacks.TensorBoard(freq=1)
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    with pytest.raises(ImportError, match="TensorBoard needs the package google-crc"):
        keras.callbacks.TensorBoard()


def test_the_callback_in_a_loop_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = SimpleNamespace(perf_counter=lambda: 10.0)
    monkeypatch.setattr(tensorboard, "time", now)
    options = {"update_freq": 1, "write_steps_per_second": True}
    board = keras.callbacks.TensorBoard(tmp_path, **options)
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    board.set_model(model)
    board.on_train_batch_end(0, {"loss": 1.0})
    board.on_train_begin()  # the model is not built: it has no graph yet
    board.on_epoch_begin(0)
    board.on_train_batch_end(3, {"loss": 2.0})
    assert not read(tmp_path / "train").Tags()["graph"]
    model.build((None, 2))
    now.perf_counter = lambda: 10.5
    board.on_epoch_end(0, {"loss": 3.0})
    board.on_epoch_begin(1)
    now.perf_counter = lambda: 12.5
    board.on_train_batch_end(9)
    board.on_epoch_end(1)
    board.on_epoch_begin(2)
    board.on_epoch_end(2)  # in no time
    board.on_test_end()
    writer = board._writer("train")
    assert not (tmp_path / "validation").exists()
    found = values(tmp_path / "train", "batch_loss")
    assert [(step, float(one)) for step, one in found] == [(1, 1.0), (5, 2.0)]
    found = values(tmp_path / "train", "epoch_steps_per_second")
    assert [(step, float(one)) for step, one in found] == [(0, 8.0), (1, 5.0), (2, 0)]
    assert read(tmp_path / "train").Tags()["graph"]
    ((step, described),) = values(tmp_path / "train", "keras")
    assert step == 0 and json.loads(described.item())["class_name"] == "Sequential"
    # the same model again, then another one
    board.set_model(model)
    assert board._writer("train") is writer

    class Own(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(1, name="own")

        def call(self, x: Any) -> Any:
            return self.dense(x)

    board.set_model(other := Own())
    with pytest.raises(RuntimeError, match="already closed"):
        writer.flush()
    other(np.zeros((1, 2), np.float32))
    board.on_train_begin()
    board.on_epoch_begin(0)
    board.on_train_batch_end(0, {"loss": 4.0})
    writer = board._writer("train")
    board.on_train_end()
    with pytest.raises(RuntimeError, match="already closed"):
        writer.flush()
    assert not board._writers
    (newest,) = (tmp_path / "train").glob(f"*{os.path.basename(writer._path)}")
    events = read(newest)
    assert [node.name for node in events.Graph().node] == ["own"]
    assert events.Tags()["graph"] and events.Tensors("batch_loss")[0].step == 1
    board = keras.callbacks.TensorBoard(tmp_path / "b", write_graph=False)
    board.set_model(other)
    board.on_train_begin()
    assert not (tmp_path / "b").exists()


def test_weights_that_are_pictures() -> None:
    def picture(*shape: int) -> Any:
        array = np.arange(np.prod(shape)).reshape(shape)
        return array, tensorboard._picture_of(array)

    for shape in ((5,), (1, 5, 1)):
        array, made = picture(*shape)
        np.testing.assert_array_equal(made, array.reshape(1, 1, 5, 1).swapaxes(1, 2))
    for shape in ((2, 3), (3, 3)):
        array, made = picture(*shape)
        np.testing.assert_array_equal(made, array[np.newaxis, ..., np.newaxis])
    array, made = picture(3, 2)
    np.testing.assert_array_equal(made, array.T[np.newaxis, ..., np.newaxis])
    array, made = picture(2, 3, 4)
    np.testing.assert_array_equal(made[..., 0], array.transpose(2, 0, 1))
    for last in (3, 4):
        array, made = picture(2, 3, 2, last)
        np.testing.assert_array_equal(made, array)
    for shape in ((2, 3, 2, 2), (2, 3, 2, 5), (2, 3, 2, 2, 3), (1,)):
        assert picture(*shape)[1] is None
