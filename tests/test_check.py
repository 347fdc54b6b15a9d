# SPDX-License-Identifier: MIT
"""`python -m ipu check`: the names of a program, found without running it."""

import os
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
        ("import tensorflow as tf\ntf.nn.ctc_loss(x, k, 1, 'a')", "nn.ctc_loss"),
        ("from tensorflow import nn\nnn.ctc_loss()", "nn.ctc_loss"),
        ("from tensorflow.nn import ctc_loss", "nn.ctc_loss"),
        ("from tensorflow.nn import ctc_loss as c", "nn.ctc_loss"),
        (
            "import tensorflow.keras.layers as L\nL.CuDNNLSTM(3)",
            "keras.layers.CuDNNLSTM",
        ),
        ("import tensorflow\ntensorflow.no_such()", "no_such"),
        ("import tensorflow.estimator", "estimator"),
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
        # what a star gives is known; a name that it does not give is no use of it
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
        "import tensorflow as tf\ntf.zeros(3).no_such",
    ],
)
def test_other_things_are_left_alone(source):
    assert missing(source) == []


def test_a_guarded_import_is_told_apart():
    source = """
try:
  from tensorflow import estimator
except ImportError:
  estimator = None
import tensorflow as tf
tf.no_such
"""
    uses = names(source)
    assert uses["tensorflow.estimator"].guarded
    assert not uses["tensorflow.no_such"].guarded
    assert "Estimators" in uses["tensorflow.estimator"].instead


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
    guarded.write_text(
        "try:\n  import tensorflow.estimator\nexcept ImportError: pass\n"
    )
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
        ("tf.gradients(y, x, stop_gradients=[z])", "gradients(stop_gradients=)"),
        ("tf.gradients(y, x, stop_gradients=z)", None),
        ("tf.gradients(y, x, stop_gradients=None)", None),
        ("tf.gradients(y, x, stop_gradients=[1])", "gradients(stop_gradients=)"),
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


def test_the_table_of_refusals_names_what_is_there():
    import importlib

    from ipu import _refusals, keras

    for row in _refusals._ROWS:
        module, _, name = row.call.rpartition(".")
        owner = importlib.import_module(module) if module else keras.Model
        assert callable(getattr(owner, name))
    with pytest.raises(ValueError, match="Found `opt` key"):
        keras.Sequential().set_gradient_accumulation_options(opt=1)


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
