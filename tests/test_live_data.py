# SPDX-License-Identifier: MIT
"""Hooks that log, data in groups, variables and inputs in files, synthetic data;
tests/programs/graph_hook.py has them in a program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu import data, tf, utils
from ipu.ipu_session_run_hooks import IPULoggingTensorHook
from ipu.tf.compat import v1


def test_hooks_say_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="Cannot provide both"):
        IPULoggingTensorHook(every_n_iter=5, every_n_secs=5)
    with pytest.raises(ValueError, match="Either every_n_iter"):
        IPULoggingTensorHook()
    with pytest.raises(TypeError, match="feedname"):
        IPULoggingTensorHook(at_end=True, feedname="x")
    hook = IPULoggingTensorHook(at_end=True)
    for wrong in ("foo", [1.0]):
        with pytest.raises(TypeError, match=r"Expected `tf\.Tensor`"):
            hook.log(wrong)
    with pytest.raises(RuntimeError, match="forget to call the log function"):
        hook.begin()

    @tf.function
    def twice(x: Any) -> Any:
        hook.log(x)
        with pytest.raises(RuntimeError, match="twice"):
            hook.log(x)
        return x

    twice(tf.constant(1.0))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8])
def test_whole_groups_alone(size: int) -> None:
    numbers = tf.data.Dataset.range(7).map(lambda x: {"a": x, "b": (x, -x)})
    found = [int(e["b"][1]) for e in data.ops.dataset_ops.BufferDataset(numbers, size)]
    assert found == [-n for n in range(7 // size * size)]
    lists = tf.data.Dataset.from_generator(
        lambda: ([0] * n for n in range(7)), output_signature=tf.TensorSpec([None])
    )
    rows = data.ops.dataset_ops.BufferDataset(lists, size)
    assert [len(row) for row in rows] == list(range(7 // size * size))


def test_groups_say_what_is_wrong() -> None:
    buffered = data.ops.dataset_ops.BufferDataset
    with pytest.raises(TypeError, match=r"must be a tf\.data\.Dataset"):
        buffered([1, 2], 2)
    with pytest.raises(ValueError, match="at least 1"):
        buffered(tf.data.Dataset.range(3), 0)


def test_files_of_sessions_say_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="must be a session"):
        utils.export_variables_from_live_session(3, str(tmp_path / "w"))
    with v1.Graph().as_default(), v1.Session() as session:
        weight = v1.get_variable("w", [2], initializer=v1.ones_initializer())
        session.run(v1.global_variables_initializer())
        np.savez(tmp_path / "other.npz", **{"w:0": np.zeros(3)})
        with pytest.raises(ValueError, match="shape"):
            utils.import_data_in_live_session(session, str(tmp_path / "other.npz"))
        x = v1.placeholder(tf.float32, [2], name="x")
        with pytest.raises(ValueError, match="no value for 'x:0'"):
            utils.export_inputs_to_file([x], str(tmp_path / "in"), {})
        assert session.run(weight).tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="tensors of a graph"):
        utils.export_inputs_to_file([tf.ones(1)], str(tmp_path / "in"), {})


SYNTHETIC = """
import numpy as np
import ipu
from ipu import keras, tf

def nothing():
    raise RuntimeError("the data are not read")
    yield

data = tf.data.Dataset.from_generator(
    nothing,
    output_signature=(tf.TensorSpec([4], tf.float32), tf.TensorSpec([], tf.int32)),
)
infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(data)
outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
seen = tf.Variable(tf.zeros(4))

def body(x, y):
    seen.assign(x + tf.cast(y, tf.float32))
    outfeed.enqueue(x)

infeed.initializer
tf.function(lambda: ipu.loops.repeat(3, body, [], infeed))()
print(seen.numpy().tolist(), tuple(outfeed.dequeue().shape), len(list(outfeed)))
"""


@pytest.mark.parametrize(
    ("flags", "values", "rows"),
    [
        ("--use_synthetic_data", [0.0] * 4, 0),
        ("--use_synthetic_data --synthetic_data_initializer=2", [4.0] * 4, 0),
        ("--synthetic_data_categories=infeed", [0.0] * 4, 3),
        ("--null_data_feed", [0.0] * 4, 3),
        ("--use_synthetic_data --synthetic_data_initializer=normal", None, 0),
        ("--use_synthetic_data --synthetic_data_initializer=uniform", None, 0),
    ],
)
def test_synthetic_data(tmp_path: Path, flags: str, values: Any, rows: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SYNTHETIC],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env={**os.environ, "TF_POPLAR_FLAGS": flags},
    )
    assert done.returncode == 0, done.stderr
    assert "no effect" not in done.stderr
    found = done.stdout.strip()
    assert found.endswith(f"({rows}, 4) 0")
    if values is not None:
        assert found.startswith(str(values))
    else:
        assert "0.0, 0.0" not in found
