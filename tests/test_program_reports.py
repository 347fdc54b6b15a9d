"""Reports of programs where somebody asks: events of the first generation, folders of
``autoReport``; and that nobody pays for them who does not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import keras, tf, utils
from ipu._config import flags
from ipu._config.report_requests import request_of
from ipu._device.observers import observers
from ipu._reports.event_trace import IpuTraceEvent
from ipu.ops import summary_ops


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    summary_ops.get_ipu_reports()
    yield
    ipu.config.reset_ipu_configuration()
    summary_ops.get_ipu_reports()


def configure(**options: Any) -> None:
    opts = utils.create_ipu_config(**options)
    utils.configure_ipu_system(utils.auto_select_ipus(opts, 1))


def run_twice(rows: int = 2) -> Any:
    with ipu.ipu_strategy.IPUStrategy().scope():
        weights = tf.Variable(np.ones((8, 4), np.float32))

        @tf.function
        def product(x: Any) -> Any:
            return tf.matmul(x, weights)

        product(tf.ones([rows, 8]))
        product(tf.ones([rows, 8]))
    return product


def test_nothing_is_made_where_nobody_asks() -> None:
    configure()
    run_twice()
    assert len(summary_ops.get_ipu_reports()) == 0
    assert request_of({}, {}, {}) is None and len(observers) == 1


def test_events_come_in_their_order() -> None:
    configure(enable_ipu_events=True)
    run_twice()
    events = summary_ops.get_ipu_reports()
    assert isinstance(events, np.ndarray) and isinstance(events[0], bytes)
    kinds = utils.extract_all_types_from_event_trace(events)
    assert kinds == [
        IpuTraceEvent.COMPILE_BEGIN,
        IpuTraceEvent.COMPILE_END,
        IpuTraceEvent.LOAD_ENGINE,
        IpuTraceEvent.HOST_TO_DEVICE_TRANSFER,
        IpuTraceEvent.EXECUTE,
        IpuTraceEvent.EXECUTE,
    ]
    found = utils.extract_all_events(events)
    times = [event.timestamp for event in found]
    assert times == sorted(times)
    assert b"product" in found[0].compile_begin.module_name
    assert found[1].compile_end.duration > 0
    moved = json.loads(found[3].data_transfer.data_transfer)
    assert [one["shape"] for one in moved["tensors"]] == [[2, 8]]
    assert utils.extract_compile_reports(events) == []
    assert utils.extract_execute_reports(events) == []
    assert utils.extract_poplar_serialized_graphs(events) == []
    assert len(summary_ops.get_ipu_reports()) == 0  # they were taken
    assert found[2].execute.module_name == b""


def test_another_program_is_loaded_in_between() -> None:
    configure(enable_ipu_events=True)
    one = run_twice()
    two = run_twice(3)
    summary_ops.get_ipu_reports()
    with ipu.ipu_strategy.IPUStrategy().scope():
        for function, rows in ((one, 2), (one, 2), (two, 3)):
            function(tf.ones([rows, 8]))
    kinds = utils.extract_all_types_from_event_trace(summary_ops.get_ipu_reports())
    assert kinds == [4, 5, 5, 4, 5]  # and nothing is compiled again


def test_reports_are_those_of_the_account() -> None:
    configure(
        profiling=True, profile_execution=True, enable_poplar_serialized_graph=True
    )
    run_twice()
    events = summary_ops.get_ipu_reports()
    [(name, report)] = utils.extract_compile_reports(events)
    assert name.startswith("test_program_reports") or "product" in name
    wanted = ipu.machine.estimate(
        lambda x: tf.matmul(x, tf.ones([8, 4])), tf.TensorSpec([2, 8]), machine="gc2"
    )
    products = [s for s in json.loads(report)["steps"] if "matmul" in s["name"]]
    assert sum(s["cycles"] for s in products) == wanted.by_op()["matmul"]
    [(_, execution)] = utils.extract_execute_reports(events)  # of the first alone
    assert json.loads(execution)["cycles"] == json.loads(report)["cycles"]
    [(_, graph)] = utils.extract_poplar_serialized_graphs(events)
    assert "matmul(" in graph
    text = utils.extract_all_strings_from_event_trace(events)
    assert "Compilation begins" in text and "Execution" in text
    end = utils.extract_all_events(events)[1].compile_end
    [entries] = json.loads(end.tensor_map)["mappings"].values()
    for entry in entries:
        assert len(entry) == 8
        assert sum(count for _, count in entry[7]) == entry[6]
        assert len({tile for tile, _ in entry[7]}) == len(entry[7])
    kinds = json.loads(end.instruction_info)["ml_types"]
    assert list(kinds.values()) == [1] and next(iter(kinds)).startswith("matmul.")


def test_gradients_of_convolutions_are_told_apart() -> None:
    configure(profiling=True)
    layers = keras.layers
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = keras.Sequential(
            [
                keras.Input((8, 8, 2)),
                layers.Conv2D(4, 3, name="one"),
                layers.Conv2D(4, 3, name="two"),
                layers.Flatten(),
            ]
        )
        model.compile("sgd", "mse", steps_per_execution=2)
        x, y = np.ones((8, 8, 8, 2), np.float32), np.ones((8, 64), np.float32)
        model.fit(x, y, batch_size=4, verbose=0)
    ends = [
        event.compile_end
        for event in utils.extract_all_events(summary_ops.get_ipu_reports())
        if event.type == IpuTraceEvent.COMPILE_END
    ]
    found: dict[str, list[int]] = {}
    for end in ends:
        for name, kind in json.loads(end.instruction_info)["ml_types"].items():
            layer = name.rpartition("/")[0].rpartition("/")[2]
            found.setdefault(layer, []).append(kind)
    assert sorted(found["one"]) == [2, 4]  # nobody needs its input's gradient
    assert sorted(found["two"]) == [2, 3, 4]


def test_reports_as_text_and_every_second_one() -> None:
    configure(
        profiling=True,
        profile_execution=True,
        use_poplar_text_report=True,
        report_every_nth_execution=2,
    )
    product = run_twice()
    with ipu.ipu_strategy.IPUStrategy().scope():
        product(tf.ones([2, 8]))
    events = summary_ops.get_ipu_reports()
    [(_, text)] = utils.extract_compile_reports(events)
    places = [text.index(f"{head}:\n") for head in ("Target", "Graph", "Memory Usage")]
    assert places == sorted(places)
    assert "Number of IPUs" in text and "1,216" in text  # the first generation's tiles
    reports = utils.extract_execute_reports(events)
    assert len(reports) == 2 and "Cycles" in reports[0][1]


def test_reports_in_files_and_too_large_ones(tmp_path: Path, caplog: Any) -> None:
    configure(profiling=True, report_directory=str(tmp_path / "reports"))
    run_twice()
    [(_, file)] = utils.extract_compile_reports(summary_ops.get_ipu_reports())
    assert Path(file).parent.parent == tmp_path / "reports"
    assert json.loads(Path(file).read_text())["cycles"] > 0
    ipu.config.reset_ipu_configuration()
    configure(profiling=True, max_report_size=10)
    run_twice()
    assert utils.extract_compile_reports(summary_ops.get_ipu_reports()) == []
    assert "more than max_report_size" in caplog.text


def test_auto_reports_are_folders(tmp_path: Path) -> None:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.compilation_poplar_options = {
        "autoReport.all": "true",
        "autoReport.directory": str(tmp_path),
    }
    config.configure_ipu_system()
    run_twice()
    run_twice(3)
    folders = sorted(tmp_path.glob("tf_report__*__*"))
    assert len(folders) == 2
    for folder in folders:
        found = json.loads((folder / "profile.json").read_text())
        assert found["machine"]["tiles"] == 1472 and found["cycles"] > 0
        assert "<script" in (folder / "profile.html").read_text("utf-8")
        frameworks = json.loads((folder / "frameworks.json").read_text())
        assert frameworks["tensor_map"]["mappings"].keys() == {frameworks["name"]}
    (tmp_path / "file").write_text("")
    ipu.config.reset_ipu_configuration()
    config.compilation_poplar_options["autoReport.directory"] = str(tmp_path / "file")
    config.configure_ipu_system()
    with pytest.raises(OSError, match=r"autoReport\.directory: the report of"):
        run_twice()


def test_the_environment_asks_for_reports(tmp_path: Path, monkeypatch: Any) -> None:
    engine = {"autoReport.outputGraphProfile": "true"}
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps(engine))
    monkeypatch.chdir(tmp_path)
    configure()
    run_twice()
    assert len(list(tmp_path.glob("tf_report__*/profile.html"))) == 1
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", "autoReport.all=true")
    with pytest.raises(ValueError, match="must be a JSON object"):
        run_twice()


def test_flags_ask_for_maps_and_text(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    folder = tmp_path / "maps"
    words = f"--tensor_map_file_path={folder} --dump_text_reports_to_stdio"
    monkeypatch.setenv("TF_POPLAR_FLAGS", words)
    flags._forget()
    try:
        configure()
        run_twice()
        [path] = folder.glob("*.tensor_map.json")
        [entries] = json.loads(path.read_text())["mappings"].values()
        assert {entry[0] for entry in entries} >= {"argument.0"}
        text = capsys.readouterr().out
        assert text.index("Target:") < text.index("Execution:")
        (tmp_path / "file").write_text("")
        words = f"--tensor_map_file_path={tmp_path / 'file' / 'maps'}"
        monkeypatch.setenv("TF_POPLAR_FLAGS", words)
        flags._forget()
        with pytest.raises(OSError, match="--tensor_map_file_path: the map of"):
            run_twice()
    finally:
        monkeypatch.delenv("TF_POPLAR_FLAGS")
        flags._forget()


def test_what_is_no_event() -> None:
    with pytest.raises(ValueError, match="This is not an event"):
        utils.extract_all_events([b"{}"])
    with pytest.raises(ValueError, match="This is not an event"):
        utils.extract_all_types_from_event_trace(["x"])
    with pytest.raises(ValueError, match="outside of graphs and functions"):
        tf.function(lambda: summary_ops.get_ipu_reports())()
    with pytest.raises(ValueError, match="belongs to a graph"):
        summary_ops.ipu_compile_summary("events", [])


OLD = """
import numpy as np
from tensorflow.compiler.plugin.poplar.driver.trace_pb2 import IpuTraceEvent
from tensorflow.compiler.plugin.poplar.ops import gen_ipu_ops
from tensorflow.python import ipu
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
with tf.device("cpu"):
    x = tf.placeholder(np.float32, [2, 4])
    report = gen_ipu_ops.ipu_event_trace()
with ipu.scopes.ipu_scope("/device:IPU:0"):
    y = tf.matmul(x, tf.ones([4, 3]))
summary = ipu.summary_ops.ipu_compile_summary("events", [y])
opts = ipu.utils.create_ipu_config(profiling=True, profile_execution=True)
opts = ipu.utils.set_ipu_model_options(opts, compile_ipu_code=False)
opts = ipu.utils.auto_select_ipus(opts, 1)
ipu.utils.configure_ipu_system(opts)
with tf.Session() as sess:
    sess.run(report)
    for _ in range(2):
        sess.run(y, {x: np.ones((2, 4))})
    events = sess.run(report)
    types = ipu.utils.extract_all_types_from_event_trace(events)
    print(types.count(IpuTraceEvent.COMPILE_END), types.count(IpuTraceEvent.EXECUTE))
    print(len(ipu.utils.extract_compile_reports(events)))
    print(len(ipu.utils.extract_execute_reports(events)))
    made = sess.run(summary, {x: np.ones((2, 4))})
    print(b"events" in made, len(made) > 100)
"""


def test_an_old_program_counts_compilations(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text(OLD)
    done = subprocess.run(
        [sys.executable, "-m", "ipu", "run", str(tmp_path / "old.py")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "2", "1", "1", "True", "True"]
