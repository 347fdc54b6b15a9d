# SPDX-License-Identifier: MIT
"""`python -m ipu check`: the names of a program, found without running it."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from ipu.drop_in import _check


def names(source):
    return {use.name: use for use in _check.check_source(source)}


def missing(source):
    return [use.name for use in _check.check_source(source) if not use.there]


def test_names_have_lines():
    uses = names(
        "import tensorflow as tf\nx = tf.zeros(3)\ny = tf.zeros(4) + tf.ones(3)"
    )
    assert uses["tensorflow.zeros"].lines == [2, 3]
    assert uses["tensorflow.ones"].lines == [3]
    assert all(use.there for use in uses.values())


@pytest.mark.parametrize(
    "source, name",
    [
        (
            "import tensorflow as tf\ntf.nn.weighted_hinge(x, k, 1, 'a')",
            "nn.weighted_hinge",
        ),
        (
            "from tensorflow import nn\nnn.weighted_hinge()",
            "nn.weighted_hinge",
        ),
        ("from tensorflow.nn import weighted_hinge", "nn.weighted_hinge"),
        (
            "from tensorflow.nn import weighted_hinge as c",
            "nn.weighted_hinge",
        ),
        (
            "import tensorflow.keras.layers as L\nL.CuDNNLSTM(3)",
            "keras.layers.CuDNNLSTM",
        ),
        ("import tensorflow\ntensorflow.no_such()", "no_such"),
        ("import tensorflow.lite", "lite"),
        (
            "import tensorflow as tf\nl = tf.keras.layers\nl.CuDNNLSTM",
            "keras.layers.CuDNNLSTM",
        ),
        ("from tensorflow.keras.layers import *\nGRU(2)", "keras.layers.GRU"),
        ("import tensorflow as tf\n@tf.no_such\ndef f(): pass", "no_such"),
        ("import tensorflow as tf\ndef f(x=tf.no_such): pass", "no_such"),
        ("import tensorflow as tf\nclass A(tf.no_such.B): pass", "no_such"),
        ("import tensorflow as tf\nf = lambda x: tf.no_such(x)", "no_such"),
        ("import tensorflow as tf\ntf.data.Dataset.no_such()", "data.Dataset.no_such"),
        ("from tensorflow.python import ipu\nipu.no_such", "python.ipu.no_such"),
    ],
)
def test_missing_names_are_found(source, name):
    if "import *" in source:
        # what a star gives is known; a name that it does not give is not a use of it
        assert missing(source) == []
        return
    assert missing(source) == [f"tensorflow.{name}"]


@pytest.mark.parametrize(
    "source",
    [
        "def f(tf):\n  return tf.no_such",
        "import tensorflow as tf\ndef f(tf):\n  return tf.no_such",
        "import tensorflow as tf\nf = lambda tf: tf.no_such",
        "import numpy as tf\ntf.no_such",
        "import tensorflow as tf\ntf = 3\ntf.no_such",
        "from . import tensorflow as tf\ntf.no_such",
        "import tensorflow_probability as tfp\ntfp.no_such",
    ],
)
def test_other_things_are_left_alone(source):
    assert missing(source) == []


def test_a_guarded_import_is_told_apart():
    source = """
try:
  from tensorflow import lite
except ImportError:
  lite = None
import tensorflow as tf
tf.no_such
"""
    uses = names(source)
    assert uses["tensorflow.lite"].guarded
    assert not uses["tensorflow.no_such"].guarded


def test_checking_leaves_no_modules_behind():
    _check.check_source("import tensorflow as tf\ntf.zeros")
    assert "tensorflow" not in sys.modules


def command(*words, cwd):
    return subprocess.run(
        [sys.executable, "-m", "ipu", "check", *words],
        capture_output=True,
        text=True,
        cwd=cwd,
    )


def test_the_command(tmp_path):
    good = tmp_path / "good.py"
    good.write_text("import tensorflow as tf\ntf.zeros(3)\nraise SystemExit('ran')\n")
    bad = tmp_path / "sub" / "bad.py"
    bad.parent.mkdir()
    bad.write_text("import keras\nkeras.layers.CuDNNLSTM(3)\n")
    done = command("good.py", cwd=tmp_path)
    assert done.returncode == 0 and "2 names, 0 missing" in done.stdout
    done = command(".", "--missing", cwd=tmp_path)
    assert done.returncode == 1
    assert "keras.layers.CuDNNLSTM" in done.stdout and "line 2" in done.stdout
    assert "recurrent layers" in done.stdout and "tensorflow.zeros" not in done.stdout
    guarded = tmp_path / "guarded.py"
    guarded.write_text("try:\n  import tensorflow.lite\nexcept ImportError: pass\n")
    assert command("guarded.py", cwd=tmp_path).returncode == 0


def test_bad_files(tmp_path):
    (tmp_path / "bad.py").write_text("def f(:\n")
    done = command("bad.py", cwd=tmp_path)
    assert done.returncode == 1 and "bad.py:1" in done.stderr
    done = command("none.py", cwd=tmp_path)
    assert done.returncode == 1 and "none.py" in done.stderr


def test_a_closed_pipe_ends_a_command_quietly(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import tensorflow as tf\ntf.zeros(3)\n")
    words = [sys.executable, "-m", "ipu", "check", str(program)]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True)
    finally:
        os.close(writer)
    assert done.returncode == 141
    assert "Error" not in done.stderr and "Exception" not in done.stderr


HEAD = "import tensorflow as tf\nfrom tensorflow.python import ipu\n"


@pytest.mark.parametrize(
    "line, name",
    [
        ("tf.reduce_sum(x, axes=1)", "reduce_sum(axes=)"),
        ("tf.reduce_sum(x, axis=1)", None),
        ("m.set_gradient_accumulation_options(opt=o)", "opt=)"),
        ("m.set_gradient_accumulation_options(4)", None),
        ("m.set_pipelining_options(8, repeat_count=2)", "repeat_count=)"),
        (
            "ipu.pipelining_ops.pipeline(s, 8, continuous_weight_updates=True)",
            "(continuous_weight_updates=)",
        ),
        ("ipu.pipelining_ops.pipeline(s, 8, continuous_weight_updates=False)", None),
        (
            "tf.keras.layers.BatchNormalization(virtual_batch_size=8)",
            "BatchNormalization(virtual_batch_size=)",
        ),
        ("tf.keras.callbacks.TensorBoard('logs', embeddings_freq=1)", "_freq=)"),
    ],
)
def test_calls_that_cannot_work_are_found(line, name):
    found = [use for use in _check.check_source(HEAD + line) if use.refused]
    assert [use.state for use in found] == ([] if name is None else ["refused"])
    if name is not None:
        assert found[0].name.endswith(name) and found[0].lines == [3]
        assert found[0].instead


# --- what objects are


OBJECTS = """
import tensorflow as tf
from tensorflow import keras
from tensorflow.python import ipu

{}
"""


def complaints(source):
    """(name, line) of what cannot work, lines counted from the program's first."""
    uses = _check.check_source(OBJECTS.format(source))
    bad = [use for use in uses if use.state in ("missing", "refused")]
    return [(use.name, [line - 5 for line in use.lines]) for use in bad]


@pytest.mark.parametrize(
    "source, name, line",
    [
        ("opt = keras.optimizers.SGD(0.1)\nopt.set_rate(0.2)", "SGD.set_rate", 2),
        ("a = b = keras.optimizers.SGD(0.1)\nb.set_rate", "SGD.set_rate", 2),
        ("cfg = ipu.config.IPUConfig()\ncfg.ipu = 1", "IPUConfig.ipu", 2),
        (
            "cfg = ipu.config.IPUConfig()\ncfg.ipu_model.versoin = 'ipu2'",
            "ipu_model.versoin",
            2,
        ),
        (
            "cfg = ipu.config.IPUConfig()\ncfg.auto_select_ipus = '4'",
            "IPUConfig.auto_select_ipus",
            2,
        ),
        (
            "s = ipu.ipu_strategy.IPUStrategy()\nwith s.scope():\n"
            "  m = keras.Sequential()\n  m.set_pipelining_options(inputs=3)",
            "Sequential.set_pipelining_options(inputs=)",
            4,
        ),
        (
            "with ipu.ipu_strategy.IPUStrategy().scope() as s:\n  s.runn(f)",
            "IPUStrategyV1.runn",
            2,
        ),
        (
            "def make():\n  model = keras.Sequential()\n  return model\n"
            "def main():\n  m = make()\n  m.compil()",
            "Sequential.compil",
            6,
        ),
        (
            "class Net(keras.Model):\n  def __init__(self):\n    super().__init__()\n"
            "    self.dense = keras.layers.Dense(3)\n"
            "  def call(self, x):\n    return self.dense.wieghts",
            "Dense.wieghts",
            6,
        ),
        (
            "class Net(keras.Model):\n  def call(self, x):\n    return self.dens(x)\n"
            "  def build(self, s):\n    self.dense = keras.layers.Dense(3)",
            "Net.dens",
            3,
        ),
        (
            "class Net(keras.Model):\n  pass\nnet = Net()\nnet.summry()",
            "Net.summry",
            4,
        ),
        (
            "ds = tf.data.Dataset.range(4)\nds = ds.map(f).batch(2)\nds.shufle(3)",
            "Dataset.shufle",
            3,
        ),
        (
            "ds = tf.data.Dataset.range(4).batch(drop_remander=True, batch_size=2)",
            "Dataset.batch(drop_remander=)",
            1,
        ),
        ("tf.data.Dataset.range(4).batch()", "Dataset.batch(batch_size=)", 1),
        ("keras.layers.Dense()", "keras.layers.Dense(units=)", 1),
        ("keras.layers.Dense(3, activaton=1)", "keras.layers.Dense(activaton=)", 1),
        ("keras.optimizers.SGD(learningrate=1)", "SGD(learningrate=)", 1),
        ("tf.reduce_sum(x, 1, False, 'a', 3)", "tf.reduce_sum()", 1),
        (
            "m = keras.Sequential()\nh = m.fit(x, y)\nh.histori['loss']",
            "History.histori",
            3,
        ),
        (
            "q = ipu.ipu_infeed_queue.IPUInfeedQueue(d)\nq.initialiser",
            "IPUInfeedQueue.initialiser",
            2,
        ),
        ("tf.constant(3).nunpy()", "Tensor.nunpy", 1),
        ("m = keras.Sequential()\nm.save('a', save_format='tf')", "(save_format=)", 2),
        (
            "e = ipu.embedding_ops.create_host_embedding('a', [2, 3], tf.float32)\n"
            "e(3)",
            "HostEmbedding.()",
            2,
        ),
        ("ipu.layers.LSTM(3, unroll=True)", "ipu.layers.LSTM(unroll=)", 1),
        ("ipu.layers.GRU(3, activation='relu')", "ipu.layers.GRU(activation=)", 1),
    ],
)
def test_objects_are_followed(source, name, line):
    found = complaints(source)
    assert len(found) == 1
    assert found[0][0].endswith(name) and found[0][1] == [line]


@pytest.mark.parametrize(
    "source",
    [
        # two things that a name may be, one of which has it
        "opt = keras.optimizers.SGD(0.1)\nif x:\n  opt = other()\nopt.set_rate(0.2)",
        "opt = keras.optimizers.SGD(0.1)\nfor opt in y:\n  opt.set_rate(0.2)",
        "opt = keras.optimizers.SGD(0.1)\ndef f(opt):\n  opt.set_rate(0.2)",
        "def f():\n  global m\n  m = other()\nm = keras.Sequential()\nm.go",
        # what a program gives an object itself
        "m = keras.Sequential()\nm.best = 3\nprint(m.best)",
        "m = keras.Sequential()\nsetattr(m, 'best', 3)\nprint(m.best)",
        "m = keras.Sequential()\nif hasattr(m, 'best'):\n  m.best()",
        "cfg = ipu.config.IPUConfig()\nif hasattr(cfg, 'ipu'):\n  cfg.ipu = 1",
        "cfg = ipu.config.IPUConfig()\ntry:\n  cfg.ipu = 1\nexcept ValueError: pass",
        # subclasses, mixins, classes that answer for themselves
        "class A(keras.Model):\n  def go(self): return self.step()\n"
        "class B(A):\n  def step(self): return 1\nB().go()",
        "class A(Mixin, keras.Model):\n  pass\nA().go()",
        "class A(keras.Model):\n  def __getattr__(self, n): return 1\nA().go()",
        "@wrap\nclass A(keras.Model):\n  pass\nA().go()",
        "@wrap\ndef make():\n  return keras.Sequential()\nmake().go()",
        "class A(keras.Model):\n  def fit(self, epoch): return 1\nA().fit(epoch=2)",
        # a subclass that the annotation does not name
        "m = keras.Model(inputs=i, outputs=o)\nm.input_names",
        "v = tf.Variable(3.)\nv.initializer",
        "l = keras.layers.LSTM(3)\nl.units",
        # arguments nobody knows
        "keras.layers.Dense(**words)",
        "keras.layers.Dense(*words)",
        "keras.layers.Dense(3, input_shape=(3,), name='a', dtype=tf.float16)",
        "keras.optimizers.SGD(lr=0.1, decay=0.1)",
        "x = x.y\nx.z",
        "def f(): return f()\nf().a",
    ],
)
def test_what_may_work_is_left_alone(source):
    assert complaints(source) == []


def test_what_check_says_is_what_the_run_says():
    program = OBJECTS.format(
        "cfg = ipu.config.IPUConfig()\ncfg.auto_select_ipu = 1\n"
        "keras.layers.Dense(3, activaton=1)"
    )
    said = {use.instead for use in _check.check_source(program) if use.instead}
    from ipu import config, keras

    run = set()
    for call in (
        lambda: setattr(config.IPUConfig(), "auto_select_ipu", 1),
        lambda: keras.layers.Dense(3, activaton=1),
    ):
        with pytest.raises((AttributeError, TypeError)) as caught:
            call()
        run.add(str(caught.value))
    assert said == run


def test_programs_that_run_are_left_alone():
    root = pathlib.Path(__file__).parents[1]
    programs = [
        *(root / "tests" / "programs").glob("*.py"),
        *(root / "docs" / "examples").glob("*"),
        *(root / "benchmarks").rglob("*.py"),
    ]
    assert len(programs) > 40
    for path in programs:
        uses = _check.check_file(str(path)).uses
        bad = [use for use in uses if use.state in ("missing", "refused")]
        assert bad == [], path
    for page in [root / "README.md", *(root / "docs").glob("*.md")]:
        blocks = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
        uses = _check.check_source("\n".join(blocks))
        assert [use for use in uses if use.state in ("missing", "refused")] == [], page


def test_programs_of_tensorflow_1_are_told_by_their_names(tmp_path):
    assert missing("import tensorflow as tf\ntf.Session()\ntf.log(1.0)") == []
    second = "import tensorflow.compat.v1 as tf\ntf.Session()\n"
    assert missing(second) == []
    # a name of TensorFlow 1 alone does not make it so
    assert missing("import tensorflow as tf\ntf.log(1.0)") == ["tensorflow.log"]
    asks = "import tensorflow as tf\ntry:\n  tf.Session()\nexcept AttributeError: pass"
    assert "tensorflow.log" in missing(asks + "\ntf.log(1.0)")
    # what it imports counts, too
    helper = "import tensorflow as tf\ndef net():\n  return tf.placeholder('float')\n"
    (tmp_path / "helper.py").write_text(helper)
    main = tmp_path / "main.py"
    main.write_text("import tensorflow as tf\nfrom helper import net\ntf.log(1.0)\n")
    assert all(use.there for use in _check.check_file(str(main)).uses)
    (tmp_path / "helper.py").write_text("def net( :")
    assert not all(use.there for use in _check.check_file(str(main)).uses)
