# SPDX-License-Identifier: MIT
"""Models in files: every format, paths, resumed training, pickles.

``reference`` holds what Keras 3 reads and writes, where ``IPU_TEST_TENSORFLOW`` names a
Python that has it.
"""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forked import Programs

from ipu import keras, tf
from ipu.keras._files import bounded, tree
from ipu.keras.engine.files import saving

layers = keras.layers
FORMATS = [".safetensors", ".keras", ".h5"]
WEIGHTS = [".safetensors", ".weights.h5", ".h5"]

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 6)).astype(np.float32)
Y = RNG.normal(size=(8, 2)).astype(np.float32)


def compiled(units: int = 4, rate: float = 0.5) -> Any:
    inputs = keras.Input((6,))
    x = layers.Dense(units, activation="relu", name="first")(inputs)
    x = layers.Dropout(rate)(x)
    y = layers.Dense(units, kernel_regularizer="l2")(x)
    model = keras.Model(inputs, layers.Dense(2)(layers.Add()([x, y])))
    model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    return model


def trained(**kwargs: Any) -> Any:
    model = compiled(**kwargs)
    model.fit(X, Y, batch_size=4, epochs=2, verbose=0)
    return model


def assert_equal(one: Any, other: Any) -> None:
    for a, b in zip(one.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_model_goes_on_as_if_it_had_not_been_saved(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / "a" / "new folder" / f"model{suffix}"
    model = trained(rate=0.0)
    model.save(path)
    other = keras.models.load_model(path)
    assert_equal(model, other)
    assert sorted(map(np.shape, other.optimizer.get_weights())) == sorted(
        map(np.shape, model.optimizer.get_weights())
    )
    for one in (model, other):
        one.fit(X, Y, batch_size=4, epochs=2, verbose=0, shuffle=False)
    assert_equal(model, other)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_model_that_was_never_trained_loads(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"model{suffix}"
    model = compiled()
    model.save(path)
    other = keras.models.load_model(path)
    assert_equal(model, other)
    other.fit(X, Y, batch_size=4, verbose=0)


@pytest.mark.parametrize("suffix", WEIGHTS)
def test_weights_and_what_differs(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "folder" / f"w{suffix}"
    model, other = trained(), compiled()
    model.save_weights(path)
    other.load_weights(path)
    assert_equal(model, other)
    wide = compiled(units=5)
    before = wide.get_weights()
    with pytest.raises(ValueError, match=r"nothing was loaded:\n.*\(6, 5\).*\(6, 4\)"):
        wide.load_weights(path)
    deeper = keras.Sequential([layers.Dense(1, input_shape=(6,))])
    with pytest.raises(ValueError, match="not in the model"):
        deeper.load_weights(path)
    for a, b in zip(before, wide.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_layers_inside_layers(tmp_path: Path) -> None:
    inputs = keras.Input((5, 4))
    x = layers.Bidirectional(layers.LSTM(3, return_sequences=True))(inputs)
    x = layers.TimeDistributed(layers.Dense(4))(x)
    x = layers.MultiHeadAttention(2, 3)(x, x)
    x = layers.RNN(layers.StackedRNNCells([layers.LSTMCell(3), layers.GRUCell(2)]))(x)
    inner = keras.Sequential([layers.Dense(3), layers.BatchNormalization()])
    model = keras.Model(inputs, inner(x))
    paths = set(tree.variables_of(model))
    assert "layers/bidirectional/forward_layer/cell/vars/0" in paths
    assert "layers/multi_head_attention/query_dense/vars/1" in paths
    assert "layers/rnn/cell/cells/gru_cell/vars/2" in paths
    assert "layers/sequential/layers/batch_normalization/vars/3" in paths
    assert len(paths) == len(model.weights)
    data = RNG.normal(size=(2, 5, 4)).astype(np.float32)
    for suffix in FORMATS:
        model.save(tmp_path / f"m{suffix}")
        other = keras.models.load_model(tmp_path / f"m{suffix}")
        np.testing.assert_array_equal(model.predict(data), other.predict(data))


def test_paths_are_checked(tmp_path: Path) -> None:
    model = compiled()
    with pytest.raises(ValueError, match="holds weights alone"):
        model.save(tmp_path / "w.weights.h5")
    with pytest.raises(ValueError, match="holds a whole model"):
        model.save_weights(tmp_path / "m.keras")
    with pytest.raises(ValueError, match="save_format"):
        model.save(tmp_path / "m", save_format="onnx")
    with pytest.raises(TypeError, match="under a path"):
        model.save(3)
    (tmp_path / "d.keras").mkdir()
    with pytest.raises(IsADirectoryError, match="a folder"):
        model.save(tmp_path / "d.keras")
    (tmp_path / "text.keras").write_text("no archive")
    with pytest.raises(ValueError, match=r"damaged or not a \.keras"):
        keras.models.load_model(tmp_path / "text.keras")
    (tmp_path / "cut.h5").write_bytes(b"\x89HDF\r\n\x1a\nand no more")
    with pytest.raises(ValueError, match="damaged"):
        keras.models.load_model(tmp_path / "cut.h5")


def test_without_h5py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    model = compiled()
    with pytest.raises(ImportError, match=r"pip install 'ipu\[h5\]'"):
        model.save(tmp_path / "m.h5")
    checkpoint = keras.callbacks.ModelCheckpoint(tmp_path / "m.keras")
    before = model.get_weights()
    with pytest.raises(ImportError, match=r"pip install 'ipu\[h5\]'"):
        model.fit(X, Y, batch_size=4, callbacks=[checkpoint], verbose=0)
    np.testing.assert_array_equal(before[0], model.get_weights()[0])


class Odd(layers.Layer):
    """A layer that Keras does not know."""

    def call(self, inputs: Any) -> Any:
        return inputs * 2.0


def test_a_failed_save_leaves_nothing(tmp_path: Path) -> None:
    first = layers.Dense(2, "hard_sigmoid", input_shape=(3,))
    model = keras.Sequential([first, Odd()])
    with pytest.raises(ValueError, match="Keras 3 has a different 'hard_sigmoid'"):
        model.save(tmp_path / "m.keras")
    assert list(tmp_path.iterdir()) == []
    model.save(tmp_path / "m")
    other = keras.models.load_model(tmp_path / "m", {"Odd": Odd})
    assert_equal(model, other)


def test_checkpoints_of_whole_models(tmp_path: Path) -> None:
    model = compiled()
    callback = keras.callbacks.ModelCheckpoint(
        tmp_path / "run" / "best.keras", monitor="loss", save_best_only=True
    )
    model.fit(X, Y, batch_size=4, epochs=2, callbacks=[callback], verbose=0)
    other = keras.models.load_model(tmp_path / "run" / "best.keras")
    assert other.optimizer.iterations.numpy() in (2, 4)


class Stop(keras.callbacks.Callback):
    def __init__(self, epoch: int) -> None:
        super().__init__()
        self.epoch = epoch

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if epoch == self.epoch:
            raise KeyboardInterrupt


@pytest.mark.parametrize("samples", [8, 7])
def test_resuming_gives_the_same_bits(tmp_path: Path, samples: int) -> None:
    x, y = X[:samples], Y[:samples]

    def run(folder: str, stop: int | None) -> tuple[Any, Any]:
        tf.random.set_seed(5)
        model = compiled()
        callbacks: list[Any] = [keras.callbacks.BackupAndRestore(tmp_path / folder)]
        if stop is not None:
            callbacks.append(Stop(stop))
            with pytest.raises(KeyboardInterrupt):
                model.fit(x, y, 2, epochs=5, callbacks=callbacks, verbose=0)
            return model, None
        return model, model.fit(x, y, 2, epochs=5, callbacks=callbacks, verbose=0)

    whole, history = run("whole", None)
    run("parts", 2)
    run("parts", 4)
    last, rest = run("parts", None)
    assert_equal(whole, last)
    for a, b in zip(
        whole.optimizer.get_weights(), last.optimizer.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    assert rest.epoch == [4]
    assert rest.history["loss"] == history.history["loss"][4:]
    assert list((tmp_path / "parts").iterdir()) == []


@pytest.mark.parametrize("what", ["config.json", "model.weights.h5", "values", "h5"])
def test_a_file_that_unpacks_to_far_more_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    import h5py

    monkeypatch.setattr(bounded, "LARGE", 1 << 16)
    path = str(tmp_path / ("model.h5" if what == "h5" else "model.keras"))
    trained().save(path)
    keras.models.load_model(path)  # as it is, it is taken
    zeros = {"shape": (1 << 20,), "dtype": "f4", "chunks": (1 << 10,)}
    if what == "h5":
        with h5py.File(path, "a") as file:
            group = file["model_weights/first"]
            del group[(name := group.attrs["weight_names"][0])]
            group.create_dataset(name, **zeros)
    else:
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        if what == "values":
            weights = tmp_path / "weights"
            weights.write_bytes(members["model.weights.h5"])
            with h5py.File(weights, "a") as file:
                file.create_dataset("layers/more/vars/0", **zeros)
            members["model.weights.h5"] = weights.read_bytes()
        else:
            members[what] += b" " * (1 << 20)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
    with pytest.raises(ValueError, match=r"damaged.* unpacks to [\d,]+ bytes, of"):
        keras.models.load_model(path)


def test_the_interpreter_ends_while_a_thread_is_at_files(
    programs: Programs, tmp_path: Path
) -> None:
    """Of HDF5, whose library keeps a lock, and closes at the end what is open."""
    text = """
import contextlib, sys, threading, time
from ipu import keras, tf
class Slow(keras.layers.Dense):
    def save_own_variables(self, store):
        store["0"] = self.kernel.numpy()
        began.set()
        time.sleep(1000)
stack = [keras.layers.Dense(2) for _ in range(40)]
path = sys.argv[1]
began = threading.Event()
if path == "m.keras":
    stack[3] = Slow(2)
model = keras.Sequential([keras.Input((2,)), *stack])
if path == "m.weights.h5":
    model.save_weights(path)
def work():
    if path == "m.keras":
        model.save(path)
    while True:
        with contextlib.suppress(tf.errors.NotFoundError):  # devices end earlier
            model.load_weights(path)
        began.set()
threading.Thread(target=work, daemon=True).start()
began.wait()
time.sleep(0.003)
"""
    for path in ("m.weights.h5", "m.weights.h5", "m.keras"):
        done = programs.run(["-c", text, path], tmp_path, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")


def test_models_are_pickled_and_copied() -> None:
    model = trained(rate=0.0)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert_equal(model, other)
        assert other.weights[0] is not model.weights[0]
        assert other.optimizer.iterations.numpy() == model.optimizer.iterations.numpy()
    own = keras.Sequential([layers.Dense(2, input_shape=(3,)), Odd()])
    assert_equal(own, pickle.loads(pickle.dumps(own)))
    unbuilt = copy.deepcopy(keras.Sequential([layers.Dense(2)]))
    assert unbuilt(X).shape == (8, 2)


# --- Keras 3 itself -------------------------------------------------------------------

_PROGRAM = r"""
import json, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import keras
from keras import layers

folder, x, y = sys.argv[1], np.load(sys.argv[2]), np.load(sys.argv[3])
results = {}
for name in ("m.keras", "m.h5"):
    model = keras.models.load_model(os.path.join(folder, "ours_" + name))
    results[name] = model.predict(x, verbose=0).tolist()
model = keras.models.load_model(os.path.join(folder, "ours_m.keras"))
results["iterations"] = int(model.optimizer.iterations)
model.fit(x, y, batch_size=4, shuffle=False, verbose=0)
results["after"] = model.predict(x, verbose=0).tolist()
model.load_weights(os.path.join(folder, "ours_m.weights.h5"))
results["m.weights.h5"] = model.predict(x, verbose=0).tolist()
for name in ("m.keras", "m.h5"):
    model.save(os.path.join(folder, "theirs_" + name))
model.save_weights(os.path.join(folder, "theirs_m.weights.h5"))
print(json.dumps(results))
"""


def test_what_keras_3_names_otherwise_comes_back(tmp_path: Path) -> None:
    """``alpha`` is ``negative_slope`` there; 0.3 is what both have by default."""
    model = keras.Sequential([keras.Input((6,)), layers.LeakyReLU(alpha=0.125)])
    path = tmp_path / "m.keras"
    model.save(path)
    with zipfile.ZipFile(path) as archive:
        config = json.loads(archive.read("config.json"))
    leaky = config["config"]["layers"][1]["config"]
    assert leaky["negative_slope"] == 0.125 and "alpha" not in leaky
    again = keras.models.load_model(path)
    np.testing.assert_array_equal(again.predict(X), np.where(X > 0, X, X / 8))


@pytest.mark.slow
def test_keras_3_reads_and_writes_the_same(tmp_path: Path) -> None:
    python = os.environ.get("IPU_TEST_TENSORFLOW")
    if not python:
        pytest.skip("IPU_TEST_TENSORFLOW names no Python with Keras 3")
    model = keras.Sequential(
        [
            keras.Input((5, 6)),
            layers.Conv1D(4, 2, padding="same", activation="relu"),
            layers.BatchNormalization(),
            layers.LeakyReLU(),
            layers.Bidirectional(layers.LSTM(3)),
            layers.Dense(2),
        ]
    )
    model.compile(keras.optimizers.Adam(0.01), "mse")
    x = RNG.normal(size=(8, 5, 6)).astype(np.float32)
    model.fit(x, Y, batch_size=4, verbose=0)
    before = model.predict(x)
    for name in ("m.keras", "m.h5"):
        model.save(tmp_path / f"ours_{name}")
    model.save_weights(tmp_path / "ours_m.weights.h5")
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", Y)
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    words = [python, str(program), *map(str, (tmp_path, tmp_path / "x.npy"))]
    done = subprocess.run(
        [*words, str(tmp_path / "y.npy")], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    for name in ("m.keras", "m.h5", "m.weights.h5"):
        np.testing.assert_allclose(results[name], before, atol=1e-5)
    assert results["iterations"] == 2
    model.fit(x, Y, batch_size=4, shuffle=False, verbose=0)
    np.testing.assert_allclose(results["after"], model.predict(x), atol=1e-3)
    for name in ("m.keras", "m.h5"):
        other = keras.models.load_model(tmp_path / f"theirs_{name}")
        np.testing.assert_allclose(other.predict(x), before, atol=1e-5)
        assert other.optimizer.iterations.numpy() == 4
    model.load_weights(tmp_path / "theirs_m.weights.h5")
    np.testing.assert_allclose(model.predict(x), before, atol=1e-5)


def test_a_file_that_is_removed_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is the system's: nothing is damaged."""
    path = str(tmp_path / "m.keras")
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.save(path)
    sniff = saving.sniff

    def sniff_and_remove(*args: Any) -> Any:
        found = sniff(*args)
        os.remove(path)
        return found

    monkeypatch.setattr(saving, "sniff", sniff_and_remove)
    with pytest.raises(FileNotFoundError):
        keras.models.load_model(path)
