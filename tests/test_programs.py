# SPDX-License-Identifier: MIT
"""Whole programs, in the way each generation of the API writes them, run both ways.

The programs are written for TensorFlow or Keras 3. The drop-in way runs them as they
are, the native way with the imports of `ipu`.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PROGRAMS = Path(__file__).resolve().parent / "programs"
_NATIVE = {
    "import tensorflow as tf": "from ipu import tf",
    "import tensorflow.compat.v2 as tf": "from ipu import tf",
    "import tensorflow.compat.v1 as tf": "from ipu.tf.compat import v1 as tf",
    "from tensorflow import keras": "from ipu import keras",
    "import keras": "from ipu import keras",
    "from tensorflow.python import ipu": "import ipu",
    "from tensorflow.python.keras.engine.sequential import Sequential": (
        "from ipu.keras import Sequential"
    ),
}


def native(text):
    """A program's text with `ipu`'s own imports."""
    lines = []
    for line in text.splitlines():
        line = _NATIVE.get(line, line)
        line = line.replace("from tensorflow.python.ipu", "from ipu")
        if line.startswith("from keras import"):
            line = line.replace("from keras", "from ipu.keras")
        lines.append(line.replace("from tensorflow.keras", "from ipu.keras"))
    assert not any("tensorflow" in line for line in lines if "import " in line)
    text = "\n".join(lines)
    return text.replace("keras.optimizer_v2.gradient_descent.", "keras.optimizers.")


def check_counter(got):
    assert got["count"] == 10 and got["count_type"] == "int32 []"
    assert got["shapes"] == {"d1": [10, 800], "d2": [10, 800]}
    assert got["values"] == {"d1": [2.0], "d2": [0.0]}
    assert got.get("drained", {"d1": [0, 800], "d2": [0, 800]}) == {
        "d1": [0, 800],
        "d2": [0, 800],
    }


def check_first_polling(got):
    assert got["total"] == 25
    # x is 0 to 19 and y is 20 to 39; flattening gives x a second axis of size 1
    assert got["flat"] == [20, 1] and got["values"] == [400.0]
    assert got["rank"] and got["empty"] == 0


def check_second_polling(got):
    assert got == {"before": 200, "total": 400, "in_order": True, "empty": [0]}


def check_matmul(got):
    assert got == {"product": [[22.0, 28.0], [49.0, 64.0]]}


def check_second_loop(got):
    assert got["counts"] == [20] * 4 and got["left"] == 0.0
    means = got["means"]
    assert means == sorted(means, reverse=True) and means[-1] < 0.8 * means[0]


def check_third_loop(got):
    assert got["losses"] == pytest.approx(got["expected"], rel=1e-4)
    assert got["kernel"] == pytest.approx(got["expected_kernel"], rel=1e-4)


def check_training(got):
    assert len(got["losses"]) == 30 and got["variables"] == 4 and got["steps"] == 30
    assert got["losses"][-1] < got["losses"][0]


def check_first_recurrent(got):
    losses = got["losses"]
    assert len(losses) == 6 and losses == sorted(losses, reverse=True)
    # a step is an update for the drop-in class, and a batch for the native one
    assert got["updates"] in (6 * 48, 6 * 48 // 16)
    assert losses[-1] < (0.2 if got["updates"] > 18 else 0.8) * losses[0]
    assert got["weights"] == [[200, 16], [16, 64], [16, 64], [64], [16, 1], [1]]


def check_first_sequential(got):
    losses = got["losses"]
    assert len(losses) == 4 and losses == sorted(losses, reverse=True)
    assert got["updates"] == 4 * 2000 and got["keys"] == ["loss"]


def check_first_pictures(got):
    history = got["history"]
    assert sorted(history) == ["accuracy", "loss"]
    assert all(len(values) == 2 for values in history.values())
    assert got["updates"] == 2 * 128
    loss, accuracy = got["result"]
    assert loss < history["loss"][1] < history["loss"][0] and accuracy > 0.9
    # 3 x 3 x 3 x 8 + 8, 3 x 3 x 8 x 8 + 8, 7 x 7 x 8 x 16 + 16, 16 x 3 + 3
    assert got["summary"] == [
        "Total params: 7,147",
        "Trainable params: 7,147",
        "Non-trainable params: 0",
    ]


def check_pipelined(got, stages):
    losses = got["losses"]
    assert len(losses) == 3 and losses[0] > losses[1] > losses[2]
    assert got["stages"] == stages
    # the first generation counts weight updates, every other model mini-batches
    if got["made_by"] == "ipu.drop_in.first_keras.pipelines":
        assert got["updates"] == 3 * 48
    else:
        assert got["made_by"].startswith("ipu.keras.")
        assert got["updates"] == 3 * 48 // 16


def check_first_pipeline(got):
    check_pipelined(got, [0, 0, 1, 2, 3, 3])


def check_first_pipelined_stack(got):
    check_pipelined(got, [0, 1, 1, 1])


def check_epochs(report, epochs, elements):
    assert list(report) == ["epochs"] and len(report["epochs"]) == epochs
    for one in report["epochs"]:
        assert list(one) == [
            "elements_processed",
            "total_bytes_processed",
            "time_elapsed",
            "elements_per_second",
            "bandwidth",
        ]
        assert all(isinstance(value, float) for value in one.values())
        size = 4 * 8 * 4 + 4 * 4
        assert one["elements_processed"] == elements
        assert one["total_bytes_processed"] == elements * size
        rate = elements / one["time_elapsed"]
        assert one["elements_per_second"] == pytest.approx(rate, rel=1e-3)
        bandwidth = elements * size / 1e9 / one["time_elapsed"]
        assert one["bandwidth"] == pytest.approx(bandwidth, rel=1e-3, abs=1e-5)


def check_benchmark(got):
    check_epochs(got["report"], 10, 512)
    if "fed" in got:
        check_epochs(got["fed"], 2, 64)
        assert got["shape"] == [1]


def check_second_optimizer(got):
    assert got["called"]
    assert got["losses"] == got["plain_losses"]
    assert got["kernel"] == got["plain_kernel"]
    assert got["losses"][-1] < got["losses"][0]


def check_third_optimizer(got):
    # each step halves the weight: w - 0.25 * 2w
    assert got["losses"] == [5.0, 1.25, 0.3125]
    assert got["weight"] == [0.25, -0.125]


def check_second_pipeline(got):
    staged = {"two", "two_stack", "dropped", "interleaved"}
    for name, one in got.items():
        assert len(one["losses"]) == 3 and one["losses"][-1] < one["losses"][0]
        # 40 batches of an execution; without stages nothing is accumulated
        assert one["updates"] == 3 * (10 if name in staged else 40)
        assert one["batches"] == [0, 39] * 3
    assert got["one"]["stages"] == got["stack"]["stages"] == [None] * 4
    assert all(got[name]["stages"] == [0, 0, 1, 1] for name in staged)
    # softmax or not, the loss is that of the logits; and a schedule changes nothing
    assert got["one"]["losses"] == got["stack"]["losses"]
    losses = got["two"]["losses"]
    assert all(got[name]["losses"] == losses for name in staged)
    assert losses != got["one"]["losses"]


def check_graph_basic(got):
    assert got == {
        "basic": "[3. 8.]",
        "type": "ndarray float32",
        "compiled": "[array([3., 8.], dtype=float32)]",
    }


def check_graph_sharded(got):
    assert got == {"result": "[array([ 4., 14.], dtype=float32)]"}


def check_graph_feeds(got):
    assert got == {
        "returned": None,
        "type": "dict",
        "shapes": {"d1": [10, 800], "d2": [10, 800]},
        "values": {"d1": [2.0], "d2": [0.0]},
        "empty": {"d1": [0, 800], "d2": [0, 800]},
    }


def check_graph_polling(got):
    assert got == {
        "returned": [100.0, 100.0],
        "total": 200,
        "in_order": True,
        "ranks": [1],
        "empty": 0,
    }


def check_graph_pipeline(got):
    assert got["returned"] is None
    assert got["names"] == ["stage1/w:0", "stage2/w:0"]
    assert got["losses"] == pytest.approx(got["expected"], rel=1e-4)
    for found, expected in zip(got["weights"], got["expected_weights"], strict=True):
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)


def check_graph_training(got):
    assert got["losses"] == pytest.approx(got["expected"], rel=1e-4)
    assert got["kernel"] == pytest.approx(got["expected_kernel"], rel=1e-4)
    assert got["step"] == 10


def check_line(got):
    assert got["costs"] == sorted(got["costs"], reverse=True)
    assert got["found"] == pytest.approx(got["wanted"], rel=1e-4)
    assert got["guess"] == pytest.approx(10 * got["found"][0] + got["found"][1], 1e-5)


def check_softmax(got):
    assert got["before"] == pytest.approx(2.302585, rel=1e-5)
    assert got["after"] < 1.0 and got["share"] > 0.9


def check_layers(got):
    assert got["last"] < 0.5 * got["first"] and got["same"] and got["share"] > 0.8
    assert got["path"] == "model-12" and got["steps"] == 12


def check_estimator(got):
    assert got["step"] == 80 and got["weights"] == [1.0, -2.0, 0.5]
    assert got["error"] < 0.01 and got["off"] < 0.01 and got["worst"]


def check_older(got):
    assert got["last"] < 0.5 * got["first"] and got["area"] > 0.9 and got["nodes"]


def check_queues(got):
    # 60 times 40 rows, of which each batch takes 8
    assert got["steps"] == 300 and got["total"] == 45.0
    assert got["weights"] == [0.5, -1.0, 2.0]


def check_steps(got):
    assert all(b < 0.5 * a for a, b in zip(got["first"], got["last"], strict=True))
    assert min(got["share"]) > 0.8
    assert got["names"] == ["deep", "dynamic", "rnn", "static"]


def check_summaries(got):
    assert got["last"] < 0.2 * got["first"] and got["shape"] == [5, 2]
    # in three summaries and in the graph; the first event says the version
    assert min(got["found"][:3]) >= 3 and got["found"][3] == 1
    assert got["rate"] == pytest.approx(0.02 * 0.9**3)


def check_third_concurrent(got):
    x = 2.0 * np.arange(1.0, 9.0)
    a, b = 2.0 * x + 3.0, 110.0 * x
    assert got["middle"] == [a.tolist(), b.tolist(), (a - b).tolist()]
    assert got["last"] == [list(one) for one in (x + 1, x + 2, 10 * x, 100 * x)]


def check_graph_counter(got):
    assert got == {
        "returned": None,
        "type": "dict",
        "kinds": ["ndarray"],
        "shapes": {"d1": [10, 800], "d2": [10, 800]},
        "values": {"d1": [2.0], "d2": [0.0]},
    }


def check_graph_replicated(got):
    for name, (value, shape) in got["values"].items():
        assert value == pytest.approx(got["expected"][name], rel=1e-6), name
        assert shape == [6, 4]  # of each iteration a loss of each replica


def check_graph_schedules(got):
    assert got["lengths"] == [24, 9, 3, 3] and len(got["runs"]) == 8
    for name, found in got["runs"].items():
        assert found == got["runs"]["grouped"], name


def check_third_cast(got):
    # 4,096 quarters: float16 cannot tell 512 from 512.25
    assert got == {
        "float32": [0.0, 256.0],
        "callable": [0.0, 256.0],
        "none": [512.0, 256.0],
    }


def check_graph_variables(got):
    a = np.array([1.0, 2.0])
    var, local, losses = np.full(2, 0.5), np.full(2, 0.5), []
    for _ in range(3):
        found = var * a + local
        losses.append(np.sum(found**2))
        var, local = var - 0.2 * found * a, local - 0.2 * found + a
    np.testing.assert_allclose(got["losses"], losses, rtol=1e-5)
    np.testing.assert_allclose(got["var"], var, rtol=1e-5)
    np.testing.assert_allclose(got["local"], local, rtol=1e-5)
    assert got["step"] == 3 and "CPU" in got["step_device"]
    for words in ("Cannot assign a device for operation", "VariableV2: CPU"):
        assert words in got["message"]


def check_graph_outside(got):
    b = np.array([1.0, 4.0, 9.0])
    smooth = np.convolve(b + 2.0, [0.25, 0.5, 0.25], mode="same")
    assert got["found"] == pytest.approx(b + smooth)
    turned = np.array([1.0, 2.0, 3.0])
    for _ in range(3):
        turned = turned[::-1] * [1.0, 2.0, 3.0]
    assert got["turned"] == turned.tolist() and got["calls"] == [3]


def check_third_serving(got):
    assert got["names"] == ["program.txt", "signature.json", "weights.safetensors"]
    assert got["found"] == got["expected"] and got["shape"] == [4, 2]
    assert got["again"] == got["found"] and got["stages"] == got["staged"]


def check_first_reports(got):
    # two shapes are compiled, each once; a program is loaded where another one ran
    assert got["types"].count(0) == got["types"].count(1) == 2
    assert [kind for kind in got["types"] if kind in (4, 5)] == [4, 5, 5, 4, 5, 5, 4, 5]
    assert len(got["names"]) == 2 and all("step" in name for name in got["names"])
    assert got["tiles"] == [1216, 1216]  # of the first generation
    assert len(got["cycles"]) == 2 and 0 < got["cycles"][0] <= got["cycles"][1]
    assert set(got["entries"]) == {8} and got["text"] and got["left"] == 0


def check_graph_hook(got):
    rows = np.arange(12) % 8
    totals = np.cumsum(rows)
    # after the first run and after the third one, the last value; at the end all
    assert got["told"] == [
        {"total": totals[3]},
        {"total": totals[11]},
        {"0": rows.tolist()},
    ]
    assert got["inputs"] == [1.0, 2.0] and got["loaded"] == 7.0
    assert got["files"] == ["weights.npz"]


def check_graph_custom(got):
    x, y = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.5, -1.0, 2.0, 0.0])
    expected = [x * x + np.abs(y * x - 2.0)]
    if shutil.which("g++") or shutil.which("clang++"):
        z = 2.5 * x * y
        expected += [z, 5.0 * z * y, 5.0 * z * x]
    np.testing.assert_allclose(got["found"], expected, rtol=1e-6)


def check_second_outside(got):
    assert got["weight"] == pytest.approx(got["expected"], rel=1e-5)
    assert got["seen"] == pytest.approx(got["largest"], rel=1e-5)


def check_graph_ipu_model(got):
    assert got == {
        "values": [[4.0, 14.0]] * 2,
        "tiles": [64.0],
        "ipus": [0, 1, 2, 3],
        "fits": [True] * 4,
        "kinds": ["compute", "exchange"],
    }


NEEDS = "does not fit into an IPU (Machine('gc200', tiles={})): the fullest tile needs"


def check_second_memory(got):
    warned, refused, smaller = got["warned"], got["refused"], got["smaller"]
    assert len(warned["told"]) == 1 and NEEDS.format(10) in warned["told"][0]
    assert not warned["fits"] and not warned["error"] and warned["trained"]
    assert NEEDS.format(10) in refused["error"] and not refused["told"]
    assert not refused["trained"] and not refused["losses"]
    # the first fix that was told is what the last configuration does
    change, size = warned["fixes"][0]
    assert '{"availableMemoryProportion": "0.1"}' in change
    assert size == smaller["max_tile"] and smaller["fits"] and not smaller["fixes"]
    assert not smaller["told"] and smaller["cycles"] > warned["cycles"]
    assert smaller["losses"] == warned["losses"]


def check_graph_memory(got):
    assert NEEDS.format(4) in got["message"] and len(got["told"]) == 1
    assert NEEDS.format(4) in got["told"][0]
    assert got["values"] == pytest.approx([512 * 256 * 10.24] * 2, rel=1e-3)


def check_first_memory(got):
    wide, narrow, second = got
    names = [f"Machine('{name}', tiles=64)" for name in ("gc2", "gc2", "gc200")]
    assert [one["machine"] for one in got] == names
    assert narrow["temporary"] < wide["temporary"]
    assert narrow["cycles"] > wide["cycles"] > second["cycles"]
    # parts that run after each other are copied
    kinds = ["compute", "copy", "exchange", "sync"]
    assert all(one["kinds"] == kinds for one in got)
    assert {one["value"] for one in got} == {1024.0}


def check_falling(losses):
    assert np.isfinite(losses).all() and losses[-1] < 0.9 * losses[0]


def check_keras3_tabular(got):
    names = ["accuracy", "auc", "loss"]
    assert got["keys"] == sorted([*names, "lr", *(f"val_{name}" for name in names)])
    assert got["auc"] > 0.9 and got["one"] > 0.5


def check_keras3_text(got):
    check_falling(got["loss"])
    assert got["accuracy"] > 0.9 and got["ordered"] and got["words"] == 23


def check_keras3_unet(got):
    check_falling(got["loss"])
    names = ["iou", "loss", "sparse_categorical_accuracy"]
    assert got["keys"] == sorted([*names, *(f"val_{name}" for name in names)])
    assert got["shape"] == [24, 32, 32, 2] and got["agreement"] > 0.8


def check_keras3_own_loop(got):
    check_falling(got["loss"])
    assert got["accuracy"] > 0.8 and got["steps"] == 42
    assert got["rate"] == pytest.approx(0.01)


def check_keras3_train_step(got):
    check_falling(got["history"]["loss"])
    assert sorted(got["history"]) == sorted(got["result"]) == ["loss", "mae"]


def check_keras3_pydataset(got):
    check_falling(got["loss"])
    names = ["loss", "mae", "r2_score"]
    assert got["keys"] == [*names, *(f"val_{name}" for name in names)]
    assert got["epochs"] == 6 and got["predicted"] == [110, 1]
    assert got["evaluated"] == names


def check_keras3_transfer(got):
    assert got == {"same": True, "still": True, "trainable": 4, "weights": 10}


def check_keras3_files(got):
    assert all(got.values()), got


def check_keras3_class_weights(got):
    assert got["recall"] > 0.8 and got["counts"] == 400
    assert len(got["keys"]) == 20 and "val_f1" in got["keys"]


def check_keras3_schedules(got):
    step = np.arange(1, 16)
    falling = 0.05 * (1 + np.cos(np.pi * (step - 5) / 10))
    rates = np.where(step < 5, 0.02 * step, falling)
    np.testing.assert_allclose(got["rates"], rates, atol=1e-7)
    own = np.where(step < 4, 0.01 * (step + 1) / 4, 0.01 / np.sqrt(abs(step - 4) + 2))
    np.testing.assert_allclose(got["own_rates"], own, rtol=1e-6)
    expected = [0.01, 0.005, 0.0025]
    np.testing.assert_allclose(got["callback_rates"], np.repeat(expected, 5), rtol=1e-6)
    assert got["logged"] == pytest.approx(expected)
    assert np.isfinite(got["losses"]).all()


def check_keras3_mixed(got):
    check_falling(got["loss"])
    policy = {"policy": "mixed_float16", "compute": "float16", "variable": "float32"}
    assert policy.items() <= got.items() and got["after"] == "float32"
    assert got["hidden"].endswith("float16") and got["outputs"].endswith("float32")


def check_keras3_vae(got):
    check_falling(got["loss"])
    assert got["keys"] == ["loss", "reconstruction_loss", "kl_loss"]
    assert got["shapes"] == [[64, 2], [1, 28, 28, 1]] and got["differ"]


CHECKS = {
    "keras3_class_weights": check_keras3_class_weights,
    "keras3_files": check_keras3_files,
    "keras3_mixed": check_keras3_mixed,
    "keras3_own_loop": check_keras3_own_loop,
    "keras3_pydataset": check_keras3_pydataset,
    "keras3_schedules": check_keras3_schedules,
    "keras3_tabular": check_keras3_tabular,
    "keras3_text": check_keras3_text,
    "keras3_train_step": check_keras3_train_step,
    "keras3_transfer": check_keras3_transfer,
    "keras3_unet": check_keras3_unet,
    "keras3_vae": check_keras3_vae,
    "third_serving": check_third_serving,
    "graph_hook": check_graph_hook,
    "graph_ipu_model": check_graph_ipu_model,
    "graph_memory": check_graph_memory,
    "second_memory": check_second_memory,
    "first_memory": check_first_memory,
    "graph_custom": check_graph_custom,
    "graph_outside": check_graph_outside,
    "second_outside": check_second_outside,
    "third_concurrent": check_third_concurrent,
    "third_cast": check_third_cast,
    "graph_variables": check_graph_variables,
    "graph_basic": check_graph_basic,
    "graph_counter": check_graph_counter,
    "graph_replicated": check_graph_replicated,
    "graph_schedules": check_graph_schedules,
    "graph_sharded": check_graph_sharded,
    "graph_feeds": check_graph_feeds,
    "graph_polling": check_graph_polling,
    "graph_benchmark": check_benchmark,
    "graph_pipeline": check_graph_pipeline,
    "graph_estimator": check_estimator,
    "graph_training": check_graph_training,
    "tf1_layers": check_layers,
    "tf1_line": check_line,
    "tf1_older": check_older,
    "tf1_queues": check_queues,
    "tf1_softmax": check_softmax,
    "tf1_steps": check_steps,
    "tf1_summaries": check_summaries,
    "first_counter": check_counter,
    "second_counter": check_counter,
    "third_counter": check_counter,
    "first_polling": check_first_polling,
    "second_polling": check_second_polling,
    "first_matmul": check_matmul,
    "second_matmul": check_matmul,
    "second_eager": check_matmul,
    "second_loop": check_second_loop,
    "third_loop": check_third_loop,
    "first_training": check_training,
    "first_sequential": check_first_sequential,
    "first_recurrent": check_first_recurrent,
    "first_pictures": check_first_pictures,
    "first_pipeline": check_first_pipeline,
    "first_pipelined_stack": check_first_pipelined_stack,
    "first_benchmark": check_benchmark,
    "first_reports": check_first_reports,
    "second_benchmark": check_benchmark,
    "second_pipeline": check_second_pipeline,
    "second_optimizer": check_second_optimizer,
    "third_optimizer": check_third_optimizer,
}


NEEDED = {
    "keras3_files": ["h5py"],
    "keras3_tabular": ["pandas"],
    "keras3_transfer": ["h5py"],
}
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py"))


@pytest.mark.parametrize("way", ["native", "drop-in"])
@pytest.mark.parametrize("name", NAMES)
def test_program(name, way, tmp_path, programs):
    for needed in NEEDED.get(name, ()):
        pytest.importorskip(needed)
    path = PROGRAMS / f"{name}.py"
    if way == "drop-in":
        words = ["-m", "ipu", "run", str(path)]
    else:
        copy = tmp_path / path.name
        copy.write_text(native(path.read_text()))
        words = [str(copy)]
    done = programs.run(words, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    CHECKS[name](json.loads(done.stdout.splitlines()[-1]))


GENERATIONS = sorted({name.partition("_")[0] for name in NAMES})


@pytest.mark.parametrize("generation", GENERATIONS)
def test_check_finds_all_names(generation, tmp_path):
    paths = sorted(map(str, PROGRAMS.glob(f"{generation}_*.py")))
    done = subprocess.run(
        [sys.executable, "-m", "ipu", "check", *paths],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout
