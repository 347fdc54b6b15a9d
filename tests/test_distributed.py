# SPDX-License-Identifier: MIT
"""Programs in several processes: the same bits as in one, and what happens when one of
them fails. MPI's launcher starts them; core/peers is tested without MPI in C."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs import ENVIRONMENT, RESUMED, results, run, start

import ipu
from ipu import distributed, horovod, keras, tf
from ipu.__main__ import main
from ipu._core import Device, Peers
from ipu._device import launcher, processes
from ipu.distributed.popdist_strategy import PopDistStrategy
from ipu.drop_in import popdist
from ipu.tf import errors
from ipu.tf.compat import v1

PROGRAM = Path(__file__).parent / "several_processes.py"
needs_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed"
)


# --- the same bits --------------------------------------------------------------------


@needs_mpi
def test_bits_do_not_depend_on_how_replicas_are_spread(tmp_path: Path) -> None:
    subprocess.run([sys.executable, PROGRAM, "4"], cwd=tmp_path, check=True)
    ((_, wanted),) = results(tmp_path, 1)
    for count in (2, 4):
        status, _, err = run(tmp_path, count, str(PROGRAM), str(4 // count))
        assert status == 0, err
        assert results(tmp_path, count) == [[count, wanted]] * count


@needs_mpi
def test_optimizers_whose_state_is_shared_out(tmp_path: Path) -> None:
    program = str(Path(__file__).parent / "shared_state.py")
    command = [sys.executable, program, "4", "0", "whole", "2"]
    subprocess.run(command, cwd=tmp_path, check=True)
    ((wanted),) = results(tmp_path, 1)
    # the last training goes on from the epoch of another number of processes
    for count, epochs in ((4, 1), (2, 2)):
        words = (program, str(4 // count), "1", "parts", str(epochs))
        status, _, err = run(tmp_path, count, *words)
        assert status == 0, err
        for found in results(tmp_path, count):
            if epochs == 1:
                found |= {name: wanted[name] for name in ("kept", "loaded")}
            assert found == wanted


ALONE = """
import ipu
from ipu import distributed, keras
from ipu.distributed.popdist_strategy import PopDistStrategy
import numpy as np

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
strategy = PopDistStrategy()
strategy.update_ipu_config(config)
config.configure_ipu_system()
with strategy.scope():
    model = keras.Sequential([keras.layers.Dense(3)])
    model.compile(keras.optimizers.Adam(), "mse", steps_per_execution=2)
    model.set_gradient_accumulation_options(
        2, replicated_optimizer_state_sharding=True
    )
    x = np.ones((16, 4), "f4")
    model.fit(x, x[:, :3], batch_size=4, verbose=0)
    first = distributed.process_index() == 0
    READS
    model.fit(x, x[:, :3], batch_size=4, verbose=0)
"""


@needs_mpi
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("if first: model.optimizer.get_weights()", "in process 0 reading of Adam"),
        (
            "if first: model.optimizer.variables[1].assign(np.ones((4, 3)))",
            "has written a variable that they share out",
        ),
    ],
)
def test_state_that_is_shared_out_is_everybodys(
    tmp_path: Path, change: str, told: str
) -> None:
    path = tmp_path / "alone.py"
    path.write_text(ALONE.replace("READS", change))
    status, _, err = run(tmp_path, 2, str(path))
    assert status != 0 and told in err, err


POPDIST = """
import numpy as np
import popdist
import popdist.tensorflow
import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python.ipu import horovod as hvd
from tensorflow.python.ipu.distributed import popdist_strategy

popdist.init()
config = ipu.config.IPUConfig()
popdist.tensorflow.set_ipu_config(config, ipus_per_replica=1)
config.configure_ipu_system()
popdist.checkNumIpusPerReplica(1)
strategy = popdist_strategy.PopDistStrategy()
data = tf.data.Dataset.range(32).map(lambda i: tf.cast(i, tf.float32))
data = data.shard(popdist.getNumInstances(), popdist.getInstanceIndex()).repeat()
queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
with strategy.scope():
    weight = tf.Variable(1.0 + popdist.getInstanceIndex())
    iterator = iter(data)

    @tf.function(jit_compile=True)
    def train(iterator, queue):
        for _ in tf.range(2):
            x = next(iterator)
            queue.enqueue(x)
            weight.assign_add(strategy.reduce(tf.distribute.ReduceOp.SUM, x, axis=None))

    strategy.run(train, args=(iterator, queue))
seen = np.asarray(queue.dequeue()).tolist()
rows = hvd.allgather(np.full([popdist.getInstanceIndex() + 1], hvd.rank()))
mean = float(hvd.allreduce(float(hvd.rank())))
with open(f"{popdist.getInstanceIndex()}.json", "w") as file:
    print([
        popdist.getNumTotalReplicas(), popdist.getReplicaIndexOffset(),
        strategy.num_replicas_in_sync, hvd.local_size(), float(weight.numpy()), seen,
        rows.numpy().tolist(), mean,
    ], file=file)
"""


@needs_mpi
def test_a_program_for_popdist_and_horovod(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(POPDIST)
    words = ["-m", "ipu", "run", "-n", "2", "--replicas", "4", str(program)]
    ended = subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    # 4 replicas take 0, 2 and 1, 3 first; the weight is that of process 0
    total = 1.0 + sum(range(8))
    wanted = [
        [4, 0, 4, 2, total, [[0.0, 2.0], [4.0, 6.0]], [0, 1, 1], 0.5],
        [4, 2, 4, 2, total, [[1.0, 3.0], [5.0, 7.0]], [0, 1, 1], 0.5],
    ]
    assert results(tmp_path, 2) == wanted


WORKERS = """
import sys
import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.ipu_multi_worker_strategy import IPUMultiWorkerStrategy

cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = IPUMultiWorkerStrategy(cluster)
config = ipu.config.IPUConfig()
config.auto_select_ipus = int(sys.argv[1])
strategy.update_ipu_config(config).configure_ipu_system()
rank = ipu.distributed.process_index()
aggregation = tf.VariableAggregation
with strategy.scope():
    first = tf.Variable(10.0 + rank)
    begun = float(first.numpy())
    mean = tf.Variable(0.0, aggregation=aggregation.MEAN)
    only = tf.Variable(0.0, aggregation=aggregation.ONLY_FIRST_REPLICA)
    total = tf.Variable(
        0.0,
        trainable=False,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=aggregation.SUM,
    )

    @tf.function(jit_compile=True)
    def step():
        me = tf.cast(ipu.replication_ops.replication_index(), tf.float32)
        mean.assign_add(me)
        only.assign(me + 5.0)
        total.assign_add(me + 1.0)

    @tf.function(jit_compile=True)
    def another():
        total.assign_add(1.0)

    for _ in range(2):
        strategy.run(step)
    strategy.run(another)
    found = [mean.numpy(), only.numpy(), total.numpy()]
    total.assign(3.0)
    found.append(total.numpy())
    strategy.run(another)
    found.append(total.numpy())
with open(f"{rank}.json", "w") as file:
    print([strategy.num_replicas_in_sync, begun, *map(float, found)], file=file)
"""

SESSIONS = """
import json, os
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.distribute.cluster_resolver import TFConfigClusterResolver
from tensorflow.python.ipu.ipu_multi_worker_strategy import IPUMultiWorkerStrategyV1

tf.disable_v2_behavior()
rank = ipu.distributed.process_index()
tasks = {"worker": ["one:1", "two:1"]}, {"type": "worker", "index": rank}
os.environ["TF_CONFIG"] = json.dumps(dict(zip(("cluster", "task"), tasks)))
strategy = IPUMultiWorkerStrategyV1(TFConfigClusterResolver(), variables_on_host=True)
options = ipu.utils.auto_select_ipus(ipu.utils.create_ipu_config(), 1)
ipu.utils.configure_ipu_system(strategy.update_ipu_config(options))
with tf.Graph().as_default(), strategy.scope():
    x = tf.placeholder(tf.float32, [2])
    w = tf.get_variable("w", initializer=tf.constant([1.0 + rank, 2.0]))

    def forward(x, w):
        loss = tf.reduce_sum(w * x)
        return loss, tf.gradients(loss, [w])[0]

    def step(x):
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            loss, gradient = ipu.ipu_compiler.compile(forward, [x, w])
        optimizer = tf.train.GradientDescentOptimizer(0.125)
        with tf.control_dependencies([optimizer.apply_gradients([(gradient, w)])]):
            return tf.identity(loss)

    loss = strategy.experimental_run_v2(step, args=[x])
    total = strategy.reduce(tf.distribute.ReduceOp.SUM, loss, axis=None)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found = session.run(total, {x: [1.0 + rank, 3.0]}), session.run(w)
with open(f"{rank}.json", "w") as file:
    print([float(found[0]), found[1].tolist()], file=file)
"""


ESTIMATORS = """
import json, sys
import numpy as np
import ipu
from ipu import distributed
from ipu.ipu_estimator import IPUEstimator
from ipu.ipu_multi_worker_strategy import IPUMultiWorkerStrategyV1
from ipu.ipu_run_config import IPURunConfig, RunConfig
from ipu.tf.compat import v1 as tf
from ipu.tf.distribute.cluster_resolver import MPIClusterResolver
from ipu.tf.estimator import EstimatorSpec, ModeKeys

replicas, rank = int(sys.argv[1]), distributed.process_index()
strategy = IPUMultiWorkerStrategyV1(MPIClusterResolver())
options = ipu.config.IPUConfig()
options.auto_select_ipus = replicas
strategy.update_ipu_config(options)
x = np.random.default_rng(0).normal(size=(32, 3)).astype("f4")

def model(features, labels, mode):
    w = tf.get_variable("w", [3], initializer=tf.random_normal_initializer())
    made = tf.reduce_sum(features * w, axis=1)
    if mode == ModeKeys.PREDICT:
        return EstimatorSpec(mode, predictions=made)
    loss = tf.reduce_mean(tf.square(made - labels))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return EstimatorSpec(mode, loss=loss, train_op=train)

def batches(mode):
    data = tf.data.Dataset.from_tensor_slices((x, x.sum(1))).batch(4, True)
    return data if mode == ModeKeys.PREDICT else data.repeat()

def sharded(mode, input_context):
    count, index = input_context.num_input_pipelines, input_context.input_pipeline_id
    return batches(mode).shard(count, index)

class Stops(tf.train.SessionRunHook):
    rounds = 0

    def after_run(self, context, values):
        self.rounds += 1
        if self.rounds == 2 and rank == 0:
            context.request_stop()

config = RunConfig(
    IPURunConfig(2, options, num_replicas=replicas),
    model_dir=None if rank else sys.argv[2],
    tf_random_seed=rank + 1,
    train_distribute=strategy,
)
made = IPUEstimator(model, config=config)
made.train(batches, steps=4).train(sharded, steps=4)
found = {"measured": {k: float(v) for k, v in made.evaluate(batches, steps=8).items()}}
found["predicted"] = [float(p) for p in made.predict(batches)][:32]
made.train(batches, hooks=[Stops()], max_steps=100)
found["step"] = int(made.get_variable_value("global_step"))
found["w"] = made.get_variable_value("w").tolist()
with open(f"{rank}.json", "w") as file:
    json.dump(found, file)
"""


def run_commanded(folder: Path, text: str, count: int, *words: str) -> list[Any]:
    """What the processes wrote that `python -m ipu run` has started."""
    program = folder / "train.py"
    program.write_text(text)
    ended = subprocess.run(
        [sys.executable, "-m", "ipu", "run", f"-n{count}", str(program), *words],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    return results(folder, count)


@needs_mpi
def test_programs_for_workers(tmp_path: Path) -> None:
    # 4 replicas: their numbers come to 6, and 1 more each to 10
    wanted = [4, 10.0, 2 * 6 / 4, 5.0, 2 * 10.0 + 4, 3.0, 3.0 + 4]
    for count in (1, 2):
        found = run_commanded(tmp_path, WORKERS, count, str(4 // count))
        assert found == [wanted] * count
    assert run_commanded(tmp_path, SESSIONS, 2) == [[15.0, [0.625, 1.25]]] * 2


@needs_mpi
def test_estimators(tmp_path: Path) -> None:
    (one,) = run_commanded(tmp_path, ESTIMATORS, 1, "2", str(tmp_path / "one"))
    assert one["step"] == 12 and one["measured"]["global_step"] == 8
    two = run_commanded(tmp_path, ESTIMATORS, 2, "1", str(tmp_path / "two"))
    for found in two:  # a process evaluates as many batches as one of two replicas
        assert found["measured"]["loss"] == pytest.approx(one["measured"]["loss"])
        assert found | {"measured": one["measured"]} == one


CHECKPOINTS = """
import json
import numpy as np
import ipu
from ipu import distributed, keras, tf
from ipu.distributed.popdist_strategy import PopDistStrategy

strategy = PopDistStrategy()
config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
strategy.update_ipu_config(config)
config.configure_ipu_system()
x = np.random.default_rng(0).normal(size=(16, 4)).astype("f4")
found = []
for parts in (False, True):
    with strategy.scope():
        model = keras.Sequential([keras.layers.Dense(3)])
        model.compile(keras.optimizers.Adam(0.1), "mse", steps_per_execution=2)
        model.set_gradient_accumulation_options(
            2, replicated_optimizer_state_sharding=parts
        )
        saved = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
        manager = tf.train.CheckpointManager(saved, f"kept {parts}", max_to_keep=2)
        for _ in range(4):
            model.fit(x, x[:, :3], batch_size=4, shuffle=False, verbose=0)
            manager.save()
        ends = []
        for _ in range(2):
            saved.restore(manager.latest_checkpoint)
            model.fit(x, x[:, :3], batch_size=4, shuffle=False, verbose=0)
            ends.append([w.tolist() for w in model.get_weights()])
        assert ends[0] == ends[1]
        found.append([len(manager.checkpoints), manager.latest_checkpoint, ends[0]])
with open(f"{distributed.process_index()}.json", "w") as file:
    json.dump(found, file)
"""


@needs_mpi
def test_checkpoints_of_all_processes(tmp_path: Path) -> None:
    """All save into the same folder, and go on from there."""
    one, other = run_commanded(tmp_path, CHECKPOINTS, 2)
    assert one == other
    assert [kept[:2] for kept in one] == [
        [2, f"kept {p}/ckpt-4"] for p in (0 > 1, 1 > 0)
    ]
    assert len(list(tmp_path.glob("kept */ckpt-*"))) == 4


SHARDS = """
import json
import numpy as np
from ipu import distributed, keras, tf
from ipu.distributed.popdist_strategy import PopDistStrategy

strategy = PopDistStrategy()
rank, count = distributed.process_index(), distributed.process_count()
x = np.arange(32, dtype="f4").reshape(32, 1)
whole = tf.data.Dataset.from_tensor_slices((x, 2 * x)).batch(4, drop_remainder=True)
part = whole.shard(count, rank)
options = tf.data.Options()
options.distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
own = [row for row in range(32) if row // 4 % count == rank]
mine = tf.data.Dataset.from_tensor_slices((x[own], 2 * x[own])).batch(4, True)
mine = mine.with_options(options).prefetch(1)
found = []
with strategy.scope():
    for data in whole, part, mine:
        layer = keras.layers.Dense(1, input_shape=(1,), kernel_initializer="ones")
        model = keras.Sequential([layer])
        model.compile(keras.optimizers.SGD(1e-4), "mse")
        told = {"validation_data": data, "validation_steps": 4, "verbose": 0}
        history = model.fit(data, epochs=2, **told)
        weights = model.get_weights()[0].tolist()
        found.append([history.params["steps"], history.history, weights])
with open(f"{rank}.json", "w") as file:
    json.dump(found, file)
"""


@needs_mpi
def test_data_sets_that_are_shards(tmp_path: Path) -> None:
    first, second = run_commanded(tmp_path, SHARDS, 2)
    assert first == second and first[0] == first[1] == first[2] and first[0][0] == 4


# --- what goes wrong ------------------------------------------------------------------

TRAINING = """
import os, signal, sys
import numpy as np
import ipu
from ipu import distributed, keras, tf
from ipu.distributed.popdist_strategy import PopDistStrategy

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
strategy = PopDistStrategy()
strategy.update_ipu_config(config)
config.configure_ipu_system()
me = distributed.process_index()
x, y = np.ones((400, 4), "f4"), np.ones((400, 8), "f4")
with strategy.scope():
    model = keras.Sequential([keras.layers.Dense(8)])
    model.compile("sgd", "mse", steps_per_execution=50)
    model.fit(x, y, batch_size=4, verbose=0)
    %s
    model.fit(x, y, batch_size=4, verbose=0)
    print("done", me, flush=True)
"""


@needs_mpi
@pytest.mark.parametrize(
    "change, told",
    [
        ("if me: raise ValueError('mine')", ["ValueError: mine", "process 1 failed"]),
        ("if me: sys.exit()", ["process 1 has ended its program"]),
        ("if me: os.kill(os.getpid(), signal.SIGKILL)", ["Killed|SIGKILL|signal 9"]),
        (
            "model.compile('sgd', 'mse', steps_per_execution=25 * (me + 1))",
            ["process 0 and process 1 run the same program with different numbers"],
        ),
        (
            "if me: model.compile('adam', 'mse', steps_per_execution=50)",
            ["process 0 and process 1 do not run the same program"],
        ),
        (
            "model.fit(x, y, batch_size=4 * (me + 1), verbose=0)",
            [
                "process 0 and process 1 do not run the same program",
                "infeed float32[4,4]",
            ],
        ),
        (
            "if me: x, y = x[:200], y[:200]",
            ["the same program with different numbers", "as much data"],
        ),
        ("if me: x, y = x[:0], y[:0]", ["process 1 failed: TypeError", "are empty"]),
        (
            "if me: config.auto_select_ipus = 2; config.configure_ipu_system()",
            ["process 0 has 1 replicas of the program and process 1 has 2"],
        ),
        (
            "distributed.allreduce(x[me:], 'SUM')",
            ["process 0 allreduce by SUM of float32 [400, 4], at ", "[399, 4], at "],
        ),
        (
            "if me: distributed.broadcast(1.0)",
            ["process 0 fit, at ", "process 1 broadcast from process 0 of float32 []"],
        ),
    ],
)
def test_one_that_fails_ends_all(tmp_path: Path, change: str, told: list[str]) -> None:
    program = tmp_path / "train.py"
    program.write_text(TRAINING % change)
    status, out, err = run(tmp_path, 2, str(program))
    text = out + err
    assert status != 0 and "done" not in text
    for pattern in told:
        assert any(one in text for one in pattern.split("|")), text
    assert text.count("Traceback") <= 1


@needs_mpi
def test_an_error_of_all_is_shown_once_and_a_child_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    child = (
        "if os.fork() == 0:\n"
        "        try:\n"
        "            model.fit(x, y, batch_size=4, verbose=0)\n"
        "        except tf.errors.AbortedError as error:\n"
        "            print('child', error, flush=True)\n"
        "        os._exit(0)\n"
        "    os.wait()\n"
        "    raise ValueError('of all')"
    )
    program.write_text(TRAINING % child)
    status, out, err = run(tmp_path, 2, str(program))
    assert status != 0 and err.count("Traceback") == 1 and "ValueError: of all" in err
    assert out.count("child") == 2 and "this process was forked" in out


@pytest.fixture
def resumed(tmp_path: Path) -> Path:
    """A folder with the program, in which 4 replicas have trained without a stop."""
    words = [sys.executable, RESUMED, "4", "none", "0"]
    subprocess.run(words, cwd=tmp_path, check=True)
    (tmp_path / "0.json").rename(tmp_path / "wanted.json")
    return tmp_path


def ends_well(folder: Path, count: int) -> bool:
    """Whether the program, in so many processes, ends with the bits of one that was
    never stopped."""
    words = [RESUMED, str(4 // count), "none", "0"]
    status, _, err = run(folder, count, *words)
    assert status == 0, err
    assert os.listdir(folder / "backup") == []
    return (folder / "0.json").read_text() == (folder / "wanted.json").read_text()


@needs_mpi
def test_jobs_that_are_killed_go_on_from_the_last_backup(resumed: Path) -> None:
    assert sorted(os.listdir(resumed / "models"))[-1] == "4.safetensors"
    for number in range(1, 5):  # they are written once, by the first process
        (resumed / "models" / f"{number}.safetensors").unlink()
    backup = resumed / "backup" / "backup.safetensors"
    status, _, _ = run(resumed, 2, RESUMED, "2", "in_write", "1")
    left = [name for name in os.listdir(resumed / "backup") if name.endswith(".tmp")]
    assert status != 0 and len(left) == 1
    of_first = backup.read_bytes()
    status, _, _ = run(resumed, 4, RESUMED, "1", "written", "2")
    assert status != 0 and backup.read_bytes() != of_first
    status, _, _ = run(resumed, 2, RESUMED, "2", "in_epoch", "3")
    assert status != 0
    assert ends_well(resumed, 1)
    assert sorted(os.listdir(resumed / "models")) == [
        f"{n}.safetensors" for n in range(1, 5)
    ]


@needs_mpi
def test_a_full_disk_ends_all_and_the_last_backup_stays(resumed: Path) -> None:
    status, out, err = run(resumed, 2, RESUMED, "2", "full", "2")
    assert status != 0 and (out + err).count("Traceback") == 1
    assert "File too large; what was there before is there still: '" in err
    assert "process 1 ends: process 0 failed: OSError" in err
    assert os.listdir(resumed / "backup") == ["backup.safetensors"]
    backup = resumed / "backup" / "backup.safetensors"
    content = backup.read_bytes()
    backup.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    status, _, err = run(resumed, 2, RESUMED, "2", "none", "0")
    assert status != 0 and "its digest is not that of its contents" in err
    backup.write_bytes(content)
    assert ends_well(resumed, 2)


@needs_mpi
def test_a_folder_that_cannot_be_reached_ends_all(resumed: Path) -> None:
    (resumed / "backup").rmdir()
    (resumed / "backup").write_text("")  # a file
    status, _, err = run(resumed, 2, RESUMED, "2", "none", "0")
    assert status != 0 and "process 1 ends: process 0 failed: FileExistsError" in err


SLOW = """
import logging, time
from ipu import distributed, keras, tf
from ipu._device import mpi
from ipu.distributed.popdist_strategy import PopDistStrategy

mpi._NOTICE = 0.1
strategy = PopDistStrategy()
function = tf.function(lambda: strategy.reduce("SUM", tf.random.normal([])))
with strategy.scope():
    strategy.run(function)
    time.sleep(1.0 * distributed.process_index())
    distributed.allgather(1.0)
    time.sleep(1.0 * distributed.process_index())
    strategy.run(function)
"""


@needs_mpi
def test_it_is_said_who_waits_for_whom_and_where(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SLOW)
    status, _, err = run(tmp_path, 2, "train.py")
    assert status == 0, err
    for line in (13, 15):
        place = rf"for process 1, at \S*train.py:{line}\. It goes on waiting"
        assert re.search(rf"Process 0 has waited for \d s {place}", err), err
        assert not re.search(rf"Process 1 has waited .*train.py:{line}\.", err), err


ENDLESS = """
import numpy as np
import ipu
from ipu import distributed, keras, tf
from ipu.distributed.popdist_strategy import PopDistStrategy

strategy = PopDistStrategy()
with strategy.scope():
    model = keras.Sequential([keras.layers.Dense(8)])
    model.compile("sgd", "mse", steps_per_execution=1 << 20)
    data = tf.data.Dataset.from_tensors((np.ones((4, 4), "f4"), np.ones((4, 8), "f4")))
    open(f"begin{distributed.process_index()}", "w").close()
    try:
        model.fit(data.repeat(), steps_per_epoch=1 << 24, verbose=0)
    except KeyboardInterrupt:
        weights = model.weights[0].numpy().tolist()
        with open(f"{distributed.process_index()}.json", "w") as file:
            print([int(model.optimizer.iterations.numpy()), weights], file=file)
"""


@needs_mpi
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_all_stop_at_the_same_step(tmp_path: Path, number: signal.Signals) -> None:
    program = tmp_path / "train.py"
    program.write_text(ENDLESS)
    started = start(tmp_path, 2, str(program))
    try:
        while not all((tmp_path / f"begin{i}").exists() for i in range(2)):
            assert started.poll() is None
            time.sleep(0.05)
        time.sleep(1.0)
        found = subprocess.run(
            ["pgrep", "-f", str(program)], capture_output=True, text=True, check=True
        )
        own = [int(line) for line in found.stdout.split()]
        # without the launcher
        own = [p for p in own if Path(f"/proc/{p}/comm").read_text().startswith("py")]
        # all at once, as a terminal does; of the other signal one is enough
        for pid in own[: 1 if number is signal.SIGTERM else None]:
            os.kill(pid, number)
        out, err = started.communicate(timeout=60)
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
    assert started.returncode == 0, out + err
    first, second = results(tmp_path, 2)
    assert first == second and first[0] > 0


@needs_mpi
@pytest.mark.slow
def test_a_process_that_is_killed_at_any_moment_ends_all(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    beginning = (
        "import os\n"
        "number = os.environ.get('PMI_RANK') or os.environ['OMPI_COMM_WORLD_RANK']\n"
        "with open(f'{number}.tmp', 'w') as file:\n    file.write(str(os.getpid()))\n"
        "os.rename(f'{number}.tmp', f'{number}.pid')\n"
    )
    program.write_text(beginning + ENDLESS)
    rng = np.random.default_rng(0)
    for _ in range(20):
        count = int(rng.choice([2, 4]))
        started = start(tmp_path, count, str(program))
        files = [tmp_path / f"{number}.pid" for number in range(count)]
        try:
            while not all(file.exists() for file in files):
                assert started.poll() is None
                time.sleep(0.01)
            own = [int(file.read_text()) for file in files]
            time.sleep(float(rng.uniform(0.0, 3.0)))
            os.kill(own[rng.integers(count)], signal.SIGKILL)
            out, err = started.communicate(timeout=30)  # it would wait for ever
        finally:
            if started.poll() is None:
                os.killpg(started.pid, signal.SIGKILL)
        assert started.returncode != 0, out + err
        ends = time.monotonic() + 30
        while any(Path(f"/proc/{pid}").exists() for pid in own):
            assert time.monotonic() < ends
            time.sleep(0.01)
        for file in files:
            file.unlink()


# --- one process ----------------------------------------------------------------------


def test_a_process_that_is_alone() -> None:
    assert distributed.process_count() == 1 and distributed.process_index() == 0
    strategy = PopDistStrategy()
    assert strategy.num_replicas_in_sync == 1
    nested = distributed.allreduce({"a": tf.constant([1.0, 2.0])}, "MEAN")
    assert nested["a"].numpy().tolist() == [1.0, 2.0]
    assert horovod.allgather([[1, 2]]).numpy().tolist() == [[1, 2]]
    assert not processes.was_launched({}) and processes.was_launched({"PMI_RANK": "1"})
    assert "mpi4py" not in sys.modules or processes.was_launched()


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="reduce_op must be ReduceOp"):
        distributed.allreduce(1.0, "MAX")
    with pytest.raises(
        ValueError, match="root_rank must be the number of one of the 1"
    ):
        distributed.broadcast(1.0, 1)
    with pytest.raises(ValueError, match="op must be horovod"):
        horovod.allreduce(1.0, "Max")
    with pytest.raises(ValueError, match="not a scalar"):
        horovod.allgather(1.0)
    config = ipu.config.IPUConfig()
    distribution = config.experimental.multi_replica_distribution
    distribution.process_count, distribution.process_index = 2, 1
    with pytest.raises(ValueError, match=r"this is process 0 of 1.*run -n 2"):
        config.configure_ipu_system()


def test_numbers_that_do_not_go_together(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "-n", "2", "--replicas", "3", "train.py"]) != 0
    assert "--replicas 3 cannot be shared out among 2" in capsys.readouterr().err
    pair = types.SimpleNamespace(count=2, index=1)
    monkeypatch.setattr(processes, "join", lambda: pair)
    monkeypatch.setattr(processes, "shared", lambda: pair)
    monkeypatch.setenv("POPDIST_NUM_TOTAL_REPLICAS", "3")
    with pytest.raises(ValueError, match="3 replicas cannot be shared out among 2"):
        popdist.getNumLocalReplicas()
    context = ipu.ipu_strategy.InputContext(2, 1, num_replicas_in_sync=4)
    with pytest.raises(ValueError, match="size 6 is not divisible by"):
        context.get_per_replica_batch_size(6)
    other = ipu.ipu_strategy.IPUStrategy().scope()
    with pytest.raises(RuntimeError, match="belong to several processes"), other:
        pass


def test_mpi_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        errors.FailedPreconditionError, match=r"pip install 'ipu\[mpi\]'"
    ):
        launcher.launch(2, ["-c", "pass"])
    monkeypatch.setattr(processes, "was_launched", lambda: True)
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(
        errors.FailedPreconditionError, match="mpi4py cannot be imported"
    ):
        processes.Processes()


def test_clusters_and_their_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    resolvers = tf.distribute.cluster_resolver
    strategy_of = ipu.ipu_multi_worker_strategy.IPUMultiWorkerStrategyV1
    monkeypatch.delenv("TF_CONFIG", raising=False)
    alone = strategy_of(resolvers.TFConfigClusterResolver())
    assert alone.num_replicas_in_sync == 1
    assert alone.cluster_resolver.cluster_spec() == tf.train.ClusterSpec({})
    monkeypatch.setenv("TF_CONFIG", "{")
    with pytest.raises(ValueError, match="TF_CONFIG must be a JSON object"):
        resolvers.TFConfigClusterResolver()
    cluster = {"chief": ["a:1"], "worker": {0: "b:1", 3: "c:1"}}
    told = {"cluster": cluster, "task": {"type": "worker", "index": 3}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(told))
    resolver = resolvers.TFConfigClusterResolver(rpc_layer="grpc")
    assert resolver.master("worker", 3) == "grpc://c:1" and resolver.master() == ""
    with pytest.raises(
        errors.FailedPreconditionError, match=r"cluster has 3 workers.*run -n 3"
    ):
        strategy_of(resolver)
    monkeypatch.setattr(processes, "was_launched", lambda: True)
    with pytest.raises(ValueError, match=r"worker 2 of 3, but this is process 0 of 1"):
        strategy_of(resolver)
    for spec, words in (
        ({"worker": ["a:1"], "ps": ["b:1"]}, "a chief or a worker.*Leave out ps"),
        ({"worker": ["a:1", "b:1"]}, "which task of the cluster this process is"),
    ):
        with pytest.raises(ValueError, match=words):
            strategy_of(resolvers.SimpleClusterResolver(spec))
    with pytest.raises(TypeError, match="cluster_resolver must be one of"):
        strategy_of("worker")
    with pytest.raises(ValueError, match="No such job in cluster: 'ps'"):
        tf.train.ClusterSpec(cluster).num_tasks("ps")
    with pytest.raises(TypeError, match="tasks of the job 'worker' must be a list"):
        tf.train.ClusterSpec({"worker": "a:1"})


def test_tasks_of_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    resolver = tf.distribute.cluster_resolver.SlurmClusterResolver
    for name in ("PROCID", "STEP_NODELIST", "STEP_TASKS_PER_NODE"):
        monkeypatch.delenv(f"SLURM_{name}", raising=False)
    with pytest.raises(RuntimeError, match="Slurm has not started this process"):
        resolver()
    monkeypatch.setenv("SLURM_PROCID", "4")
    monkeypatch.setenv("SLURM_STEP_NODELIST", "n[1-2,07]x,m")
    monkeypatch.setenv("SLURM_STEP_TASKS_PER_NODE", "2(x2),1,1")
    found = resolver({"chief": 1, "worker": 5}, port_base=10)
    assert found.cluster_spec().as_dict() == {
        "chief": ["n1x:10"],
        "worker": ["n1x:11", "n2x:10", "n2x:11", "n07x:10", "m:10"],
    }
    assert found.get_task_info() == ("worker", 3)
    with pytest.raises(ValueError, match="as many tasks as the step of Slurm, 6"):
        resolver({"worker": 5})


def test_variables_of_replicas() -> None:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 3
    config.configure_ipu_system()
    strategy = PopDistStrategy()
    with strategy.scope():
        with pytest.raises(ValueError, match="ON_READ cannot be trained"):
            tf.Variable(1.0, trainable=True, synchronization="on_read")
        with pytest.raises(ValueError, match=r"one of tf\.VariableAggregation: NONE"):
            tf.Variable(1.0, aggregation="MAX")
        silent = tf.Variable([1.0, 2.0], synchronization="ON_READ")
        with pytest.raises(ValueError, match="no aggregation that says which"):
            silent.numpy()
        halves = tf.Variable(
            tf.zeros([2], tf.float16), synchronization="ON_READ", aggregation="MEAN"
        )
        trained = tf.Variable(1.0, aggregation="SUM")
        optimizer = keras.optimizers.SGD(1.0)

        @tf.function(jit_compile=True)
        def step() -> Any:
            silent.assign([3.0, 4.0])
            halves.assign_add(tf.cast(silent, tf.float16))
            # an update is that of all replicas already
            optimizer.apply_gradients([(tf.constant(1.0), trained)])
            return silent[1]

        assert float(strategy.run(step)) == 4.0
        assert halves.shape == [2] and halves.numpy().tolist() == [3.0, 4.0]
        assert halves.dtype == tf.float16 and float(trained.numpy()) == 1.0 - 3.0
        halves.assign([0.5, 0.25])
        assert halves.numpy().tolist() == [0.5, 0.25]
    plain = tf.Variable(1.0, aggregation="SUM", synchronization="ON_READ")
    assert plain.aggregation is tf.VariableAggregation.SUM and float(plain) == 1.0
    told = {"synchronization": tf.VariableSynchronization.ON_READ}
    on_read = pytest.raises(ValueError, match="graph are not synchronised on read")
    with v1.Graph().as_default(), strategy.scope(), on_read:
        v1.get_variable("v", [2], **told)


def test_policies_of_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text(f"{number}\n{number + 10}\n")
    pattern = str(tmp_path / "*.txt")

    def values(dataset: Any, policy: str) -> list[int]:
        options = tf.data.Options()
        group = options.experimental_distribute
        group.auto_shard_policy = tf.data.experimental.AutoShardPolicy[policy]
        # of what comes after it, too
        dataset = dataset.with_options(options).map(tf.strings.to_number)
        part = PopDistStrategy().experimental_distribute_dataset(dataset)
        return [int(x) for x in part]

    lines = tf.data.TextLineDataset(tf.data.Dataset.list_files(pattern, shuffle=False))
    assert values(lines, "FILE") == [0, 10, 1, 11, 2, 12]  # one process
    pair = types.SimpleNamespace(count=2, index=1)
    monkeypatch.setattr(processes, "shared", lambda: pair)
    monkeypatch.setattr(PopDistStrategy, "num_replicas_in_sync", 2)
    names = sorted(map(str, tmp_path.iterdir()))
    files = tf.data.Dataset.list_files(pattern, seed=1)
    for dataset in (
        lines,
        tf.data.TextLineDataset(names),
        files.interleave(tf.data.TextLineDataset, deterministic=True),
        tf.data.Dataset.zip((lines, lines)).map(lambda a, b: a),
    ):
        assert values(dataset, "FILE") == [1, 11]
    assert values(lines, "OFF") == [0, 10, 1, 11, 2, 12]
    assert values(lines, "DATA") == values(lines, "AUTO") == [10, 11, 12]
    assert values(lines.filter(lambda x: True), "FILE") == [1, 11]
    assert values(lines.shard(2, 0), "FILE") == [0, 1, 2]  # the program's own shard
    hint = tf.data.experimental.SHARD_HINT
    assert values(lines.shard(hint, hint).skip(1), "HINT") == [11, 12]
    with pytest.raises(ValueError, match=r"needs a data set with shard\(SHARD_HINT"):
        values(lines, "HINT")
    with pytest.raises(ValueError, match=r"file for each process.*: 1 files"):
        values(tf.data.TextLineDataset(names[:1]), "FILE")
    with pytest.raises(ValueError, match="is not made of files"):
        values(tf.data.Dataset.range(4).map(tf.strings.as_string), "FILE")


# --- the core's door ------------------------------------------------------------------


def test_peers_of_one_process() -> None:
    peers = Peers.connected(3)
    assert [(one.process, one.count) for one in peers] == [(0, 3), (1, 3), (2, 3)]
    results: list[Any] = [None] * 3

    def talk(own: Peers) -> None:
        others = [p for p in range(3) if p != own.process]
        found = {p: np.zeros(2, np.uint8) for p in others}
        mine = bytes([own.process, 7])
        own.exchange([(p, mine) for p in others], [(p, found[p]) for p in others])
        results[own.process] = {p: value.tolist() for p, value in found.items()}

    threads = [threading.Thread(target=talk, args=(one,)) for one in peers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, found in enumerate(results):
        assert found == {p: [p, 7] for p in range(3) if p != number}
    peers[1].fail("enough")
    assert (
        peers[1].failure == "enough" and peers[0].failure == "process 1 failed: enough"
    )
    with pytest.raises(errors.AbortedError, match="process 1 failed: enough"):
        peers[2].exchange([(0, b"x")], [])


@pytest.mark.parametrize("has_pointers", [False, True])
def test_an_mpi_of_ones_own(has_pointers: bool) -> None:
    """Whatever an integer or a pointer is that stands for a communicator."""
    handle: Any = ctypes.c_void_p if has_pointers else ctypes.c_int
    request = ctypes.POINTER(handle)
    calls: list[tuple[Any, ...]] = []

    def begin(data: int, count: int, *others: Any) -> int:
        calls.append((ctypes.string_at(data, count), *others[:-1]))
        if len(calls) == 1:  # it receives
            ctypes.memmove(data, b"xyz", count)
        return 0

    def test(_: Any, flag: Any, status: Any) -> int:
        calls.append(("test",))
        flag[0] = len(calls) > 6
        return 0

    start = ctypes.CFUNCTYPE(
        *(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, handle),
        *(ctypes.c_int, ctypes.c_int, handle, request),
    )(begin)
    look = ctypes.CFUNCTYPE(
        ctypes.c_int, request, ctypes.POINTER(ctypes.c_int), ctypes.c_void_p
    )(test)
    begin_at, look_at = (
        ctypes.cast(f, ctypes.c_void_p).value or 0 for f in (start, look)
    )
    peers = Peers(0, 2)
    functions = begin_at, begin_at, look_at, 0
    communicator = 5 if has_pointers else -5
    peers.use_mpi(functions, communicator % 2**64, 7, has_pointers, True)
    assert peers.find(None, 0, 0.0) is None
    target = bytearray(3)
    peers.exchange([(1, b"abc")], [(1, target)])
    assert bytes(target) == b"xyz"
    own = (7, 1, 0, communicator)
    assert calls[:2] == [(b"\0\0\0", *own), (b"abc", *own)]
    peers.serve(0.0)
    assert peers.find(1, 0, 0.0) is None


def test_wrong_arguments_of_peers() -> None:
    with pytest.raises(ValueError, match="process 2 of 2"):
        Peers(2, 2)
    for count in (0, 5000):
        with pytest.raises(ValueError, match="count must be from 1"):
            Peers.connected(count)
    peers = Peers(0, 2)
    with pytest.raises(ValueError, match="seconds must be"):
        peers.serve(float("nan"))
    with pytest.raises(ValueError, match="seconds must be"):
        peers.find(None, 0, float("inf"))
    with pytest.raises(ValueError, match="there is no process 4294967296 of 2"):
        peers.find(1 << 32, 0, 0.0)
    with pytest.raises(ValueError, match="there is no process 2"):
        peers.exchange([(2, b"")], [])
    with pytest.raises(BufferError):
        peers.exchange([], [(1, b"read only")])
    device = Device()
    device.join(peers)
    with pytest.raises(RuntimeError, match="joined others already"):
        device.join(peers)
    with pytest.raises(TypeError, match="expected Peers"):
        Device().join(None)  # type: ignore[arg-type]
