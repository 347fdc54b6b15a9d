# SPDX-License-Identifier: MIT
"""The tables of docs/differences.md about Keras and the IPU port: each row is true."""

from __future__ import annotations

import operator
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulated_ipus import attach

import ipu
from ipu import keras, tf
from ipu._device import seed as _seed
from ipu._device.placement import current_device
from ipu.distributed.popdist_strategy import PopDistStrategy
from ipu.tf.compat import v1

PAGE = Path(__file__).parent.parent / "docs" / "differences.md"
X = np.random.default_rng(0).normal(size=(16, 3)).astype("float32")
Y = X.sum(axis=1, keepdims=True)
CHECKS: dict[str, Callable[[Path], None]] = {}
# what other files test at length
ELSEWHERE = {
    "a number that `call` reads from its layer, set between two fits": (
        "test_kept_programs.py"
    ),
    "two fits of two epochs": "test_resuming.py",
    "training from a file": "test_resuming.py",
    "a generator with `BackupAndRestore`": "test_resuming.py",
    "a `lambda` of a `Lambda` layer in a file": "test_saved_calls.py",
    "`binary_crossentropy` of fewer targets than outputs": "test_keras_losses.py",
    "the loss of steps of which a mask leaves some out": "test_keras_more_layers.py",
    "the same program, run again": "test_same_bits.py",
    "metrics of a pipeline with `accumulate_outfeed`": "test_keras_pipelines.py",
    "accumulated gradients and a pipeline": "test_keras_pipelines.py",
    "programs replicated over several IPUs": "test_keras_replicas.py",
    "profiling": "test_profile.py",
    "`replicated_optimizer_state_sharding`": "test_shared_state.py",
    "memory": "test_pipelining.py",
    "`DeviceConnectionType.PRE_COMPILE`": "test_precompile.py",
    "of TensorFlow 1: a variable of another shape by `assign(validate_shape=False)`": (
        "test_session_older.py"
    ),
}


def row(title: str) -> Callable[[Callable[[Path], None]], Callable[[Path], None]]:
    def note(check: Callable[[Path], None]) -> Callable[[Path], None]:
        CHECKS[title] = check
        return check

    return note


@row("the activation `hard_sigmoid`")
def _(folder: Path) -> None:
    assert float(keras.activations.hard_sigmoid(1.0)) == pytest.approx(0.7)
    model = keras.Sequential([keras.layers.Dense(2, "hard_sigmoid", input_shape=(3,))])
    with pytest.raises(ValueError, match="Keras 3 has a different 'hard_sigmoid'"):
        model.save(folder / "model.keras")
    chosen = {"hard_sigmoid": keras.ops.hard_sigmoid}
    with keras.utils.custom_object_scope(chosen):
        model = keras.Sequential(
            [keras.layers.Dense(2, "hard_sigmoid", input_shape=(3,))]
        )
        model.save(folder / "model.keras")
    with pytest.raises(ValueError, match="Load it with custom_objects="):
        keras.models.load_model(folder / "model.keras")
    again = keras.models.load_model(folder / "model.keras", custom_objects=chosen)
    values = X @ model.get_weights()[0]
    expected = np.clip(values / 6 + 0.5, 0, 1)
    np.testing.assert_allclose(again.predict(X, verbose=0), expected, rtol=1e-5)


@row("softmax outputs under `binary_crossentropy`")
def _(folder: Path) -> None:
    logits = np.array([[1.0, 2.0], [5.0, -5.0]], "float32")
    targets = np.array([[1.0, 0.0], [0.0, 1.0]], "float32")
    model = keras.Sequential([keras.layers.Softmax(input_shape=(2,))])
    model.compile("sgd", "binary_crossentropy")
    p = tf.nn.softmax(logits).numpy()
    expected = -np.mean(targets * np.log(p) + (1 - targets) * np.log(1 - p))
    found = model.evaluate(logits, targets, verbose=0)
    assert found == pytest.approx(expected, rel=1e-3)


def made(**kwargs: Any) -> Any:
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(3,))])
    model.compile("sgd", "mse", **kwargs)
    return model


def titles() -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    tables = text[text.index("## From Keras") :]
    rows = re.findall(r"^\| (.+?) \| ", tables, re.M)
    return [title for title in rows if title != "what"]


def test_each_row_has_a_check() -> None:
    assert sorted(titles()) == sorted([*CHECKS, *ELSEWHERE, *STAYS_OUT])
    for name in ELSEWHERE.values():
        assert (Path(__file__).parent / name).exists()


@row("first weights without a seed")
def _(tmp_path: Path) -> None:
    assert _seed._State().seed == 0
    weights = []
    for _ in range(2):
        tf.random.set_seed(0)
        weights.append(made().get_weights()[0])
    np.testing.assert_array_equal(*weights)


@row("results of steps")
def _(tmp_path: Path) -> None:
    history = made().fit(X, Y, batch_size=4, epochs=2, verbose=0)
    assert len(history.steps["loss"]) == 8 and len(history.history["loss"]) == 2


@row("default of `steps_per_execution`")
def _(tmp_path: Path) -> None:
    assert made()._is_paced and not made(steps_per_execution=1)._is_paced


@row("`model.save` to a path without a suffix")
def _(tmp_path: Path) -> None:
    made().save(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]


@row("SavedModel")
def _(tmp_path: Path) -> None:
    with pytest.raises(NotImplementedError, match=r"Use Model\.save"):
        made().save(tmp_path / "model", save_format="tf")


@row("`model.export(path)`")
def _(tmp_path: Path) -> None:
    made().export(tmp_path / "model", verbose=False)
    assert ipu.serving.load(tmp_path / "model")(X).shape == (16, 1)
    with pytest.raises(ValueError, match=r"the format of ipu\.serving alone"):
        made().export(tmp_path / "model", format="tf_saved_model")


@row("int64 data")
def _(tmp_path: Path) -> None:
    embedding = keras.Sequential([keras.layers.Embedding(4, 2, input_length=1)])
    assert embedding.predict(np.array([[3], [1]], np.int64)).shape == (2, 1, 2)
    with pytest.raises(ValueError, match="do not fit into the device's int32"):
        embedding.predict(np.array([[2**40]]))


@row("float64 data")
def _(tmp_path: Path) -> None:
    assert made().predict(X.astype(np.float64)).dtype == np.float32


@row("the argument `use_multiprocessing=True`")
def _(tmp_path: Path) -> None:
    assert "workers are threads" in (keras.Model.fit.__doc__ or "")
    made().fit(X, Y, use_multiprocessing=True, workers=2, verbose=0)


@row("`fit` of a generator in a strategy")
def _(tmp_path: Path) -> None:
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = made()
        with pytest.raises(ValueError, match="know the data shape ahead of time"):
            model.fit(iter([(X, Y)]), steps_per_epoch=1)
    made().fit(iter([(X, Y)]), steps_per_epoch=1, verbose=0)


@row("the argument `jit_compile` of `compile`")
def _(tmp_path: Path) -> None:
    made(jit_compile=True).fit(X, Y, verbose=0)
    with pytest.raises(TypeError, match="jit"):
        made(jit=True)


@row("the state of a `SeedGenerator` that a layer holds")
def _(tmp_path: Path) -> None:
    layer = keras.Layer()
    layer.seeds = keras.random.SeedGenerator(1)
    assert len(layer.weights) == 1 and not layer.trainable_weights


@row("`keras.ops.sum` and `prod` of uint8 and uint16")
def _(tmp_path: Path) -> None:
    assert keras.ops.sum(np.uint8([200, 200])).numpy() == np.int32(400)


@row("arrays of float64 and int64 in `keras.ops`")
def _(tmp_path: Path) -> None:
    assert keras.ops.exp(np.ones(2)).dtype == tf.float32
    assert keras.ops.add(np.int64([1]), 1).dtype == tf.int32


@row("an input that a loss broadcasts by mistake")
def _(tmp_path: Path) -> None:
    model = keras.Sequential([keras.layers.Dense(10, input_shape=(3,))])
    model.compile("sgd", "mse")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.fit(X, np.arange(16), verbose=0)
    assert any("(None, 10)" in str(one.message) for one in seen)


@row("the device")
def _(tmp_path: Path) -> None:
    attach(4)
    with ipu.ipu_strategy.IPUStrategy().scope():
        assert current_device().num_ipus == 4
    attach(1)


@row("random numbers")
def _(tmp_path: Path) -> None:
    draw = tf.function(lambda: tf.random.normal((4,)), jit_compile=True)
    strategy = ipu.ipu_strategy.IPUStrategy()
    drawn = []
    for _ in range(2):
        ipu.utils.reset_ipu_seed(5)
        drawn.append(strategy.run(draw).numpy())
    np.testing.assert_array_equal(*drawn)


@row("going on with random numbers")
def _(tmp_path: Path) -> None:
    from ipu.keras.engine.files import weights_file

    made().save(tmp_path / "m.safetensors")
    about, _ = weights_file.read_about(str(tmp_path / "m.safetensors"))
    assert '"device": [' in about["random_state"]


@row("schedules of a pipeline")
def _(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (line,) = re.findall(r"^\| schedules of a pipeline .*$", text, re.M)
    for name in re.findall(r"Grouped|Interleaved1F1B|[A-Z]\w+|1F1B", line):
        assert ipu.Timetable(name, 2)


@row("options that speak of tiles and exchange")
def _(tmp_path: Path) -> None:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.io_tiles.num_io_tiles = 32
    config.io_tiles.place_ops_on_io_tiles = True
    config.matmuls.poplar_options = {"availableMemoryProportion": "0.1"}
    config.configure_ipu_system()
    assert config.io_tiles.num_io_tiles == 32
    made().fit(X, Y, verbose=0)
    attach(1)


@row("`IPUStrategy` and `IPUStrategyV1`")
def _(tmp_path: Path) -> None:
    assert ipu.ipu_strategy.IPUStrategyV1 is ipu.ipu_strategy.IPUStrategy


@row("automatic sharding")
def _(tmp_path: Path) -> None:
    with v1.Graph().as_default():
        x = v1.placeholder("float32", [4])
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            first = v1.tanh(x)
            second = v1.exp(first)
        ipu.autoshard.automatic_sharding(2, x, second)
    assert [ipu.sharding.get_sharding(one) for one in (first, second)] == [[0], [1]]


@row("`IPUMultiWorkerStrategy`")
def _(tmp_path: Path) -> None:
    workers = ipu.ipu_multi_worker_strategy
    assert workers.IPUMultiWorkerStrategy is workers.IPUMultiWorkerStrategyV1
    assert issubclass(workers.IPUMultiWorkerStrategy, PopDistStrategy)


@row("data of several processes")
def _(tmp_path: Path) -> None:
    data = tf.data.Dataset.range(8)
    assert not data.batch(2)._is_sharded(2)
    assert data.shard(2, 1).map(lambda x: x).batch(2).repeat()._is_sharded(2)
    assert not data.shard(3, 1)._is_sharded(2)


STAYS_OUT = {
    "float8 and simulated formats: `f8_ops`, `GenericFloat`": (
        (ipu, "f8_ops.convert_to_f8", "formats of 8 bits"),
        (ipu.ops, "experimental.popfloat_cast_to_gfloat.GenericFloat", "simulated"),
    ),
    "programs that were compiled for the hardware: `embedded_runtime`, "
    "`application_compile_op`, `precompiled_user_op`": (
        (ipu, "embedded_runtime.embedded_runtime_start", r"ipu\.serving"),
        (
            ipu.ops,
            "application_compile_op.experimental_application_compile_op",
            r"ipu\.serving",
        ),
    ),
    "`dataset_extractor`": (
        (ipu, "dataset_extractor.export", "export_dataset_to_file"),
    ),
    "of TensorFlow 1: `sparse_placeholder`, `string_split` and readers of files by "
    "queues": (
        (v1, "sparse_placeholder", "scatter_nd"),
        (v1, "string_split", "data set"),
        (v1, "TFRecordReader", "TFRecordDataset"),
        (v1, "train.string_input_producer", "list_files"),
    ),
    "of TensorFlow 1: `Supervisor`, `GraphDef` and `import_graph_def`, samplers of "
    "candidates": (
        (v1, "train.Supervisor", "MonitoredTrainingSession"),
        (v1, "GraphDef", "Saver"),
        (v1, "import_graph_def", "Saver"),
        (v1, "nn.log_uniform_candidate_sampler", r"nn_ops\.sampled_softmax_loss"),
    ),
}


@pytest.mark.parametrize("title", STAYS_OUT)
def test_what_stays_out(title: str) -> None:
    for module, name, words in STAYS_OUT[title]:
        with pytest.raises(AttributeError, match=words) as caught:
            operator.attrgetter(name)(module)
        assert "is not in ipu (" in str(caught.value)


@row("the parts of `within_replica_ops.reduce_scatter`")
def _(tmp_path: Path) -> None:
    parts = ipu.within_replica_ops.reduce_scatter(
        [[0, 1, 2], [3, 4, 5], [0, 0, 0], [1, 1, 1]],
        "COLLECTIVE_OP_ADD",
    )
    assert [part.numpy().tolist() for part in parts] == [[4], [6], [8], [0]]


@row("estimators of TensorFlow 1")
def _(tmp_path: Path) -> None:
    with pytest.raises(AttributeError, match="The estimators here are"):
        _ = ipu.tf.estimator.Estimator


@pytest.mark.parametrize("title", CHECKS)
def test_a_row(title: str, tmp_path: Path) -> None:
    CHECKS[title](tmp_path)
