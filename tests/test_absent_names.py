# SPDX-License-Identifier: MIT
"""Heads of files: what is not there is imported as a stand-in, and fails where used."""

import contextlib
import importlib
import subprocess
import sys
import textwrap
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ipu
from ipu import drop_in
from ipu._missing import MissingModuleError, MissingNameError, NotThereYetError
from ipu.drop_in import _absent, _check


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """A function that writes modules and imports the last of them."""
    monkeypatch.syspath_prepend(tmp_path)
    names = []

    def load(text, name="head_of_file"):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
        names.append(name)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    drop_in.install()
    yield load
    drop_in.uninstall()
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def written(tmp_path, monkeypatch):
    """A function that writes a module which something else imports."""

    def write(text, name):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
        monkeypatch.delitem(sys.modules, name, raising=False)

    return write


HEAD = """
from tensorflow.python import array_ops, cast, dtypes, ones
from tensorflow.python.data.ops import readers
from tensorflow.compiler.plugin.poplar.driver import config_pb2, threestate_pb2
from tensorflow.compiler.plugin.poplar.driver.threestate_pb2 import ThreeState
from keras import saving
from keras.saving import hdf5_format, save
from keras.layers.preprocessing import image_preprocessing, text_vectorization
from keras.layers.preprocessing.normalization import Normalization
from tensorflow.python.keras.layers.preprocessing import string_lookup
from keras import mixed_precision
from keras.mixed_precision import policy, loss_scale_optimizer
from tensorflow.python.ipu.eager import backprop
from tensorflow.python.feature_column import feature_column_lib
from tensorflow.python.framework import func_graph, sparse_tensor
from tensorflow.python.ops import gradient_checker_v2, tensor_array_ops
from tensorflow.python.ops.losses import losses
from tensorflow.compiler.xla import xla_data_pb2
from tensorflow.compiler.plugin.poplar.ops import gen_functional_ops, gen_poputil_ops
from tensorflow.core.framework import attr_value_pb2, graph_pb2
from tensorflow.python.training.tracking import base as trackable
from tensorflow.python.ipu.keras.extensions import functional_extensions
from keras.ipu.extensions.functional_extensions import PipelineStage
from keras.optimizer_v2 import adam as adam_v2
"""


def test_old_heads_import_without_a_word(imported):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        head = imported(HEAD)
    assert head.dtypes.float32 is ipu.tf.float32 and head.ones is ipu.tf.ones
    assert head.cast is ipu.tf.cast and head.array_ops.ones is ipu.tf.ones
    assert head.config_pb2.IpuOptions is type(ipu.utils.create_ipu_config())
    on = head.threestate_pb2.THREESTATE_ON
    assert head.ThreeState.Name(on) == "THREESTATE_ON" and on == 1
    assert head.ThreeState.Value("THREESTATE_UNDEFINED") == 2
    with pytest.raises(ValueError, match="THREESTATE_OFF, THREESTATE_ON"):
        head.ThreeState.Value("ON")
    assert head.save.load_model is ipu.keras.models.load_model
    assert head.Normalization is ipu.keras.layers.Normalization
    assert not hasattr(head.readers, "FixedLengthRecordDataset")
    assert head.PipelineStage is ipu.keras.PipelineStage
    assert head.functional_extensions.FunctionalExtension is ipu.keras.models.Functional


def test_a_missing_name_is_imported_with_one_warning(imported, written):
    written("from keras.layers import ConvLSTM2D", "second_head")
    with pytest.warns(UserWarning) as seen:
        head = imported(
            """
            import second_head
            from keras.layers import Dense, ConvLSTM2D
            from keras.layers import ConvLSTM2D as again
            """
        )
    assert len(seen) == 1 and seen[0].filename.endswith("second_head.py")
    assert seen[0].lineno == 1
    text = str(seen[0].message)
    assert text.startswith("keras.layers.ConvLSTM2D is not in ipu yet (line 1 of ")
    assert "Recurrent layers of convolutions come with a later version." in text
    assert "stand-in" in text and "where it is used" in text
    assert head.Dense is ipu.keras.layers.Dense
    assert head.ConvLSTM2D is head.again is head.second_head.ConvLSTM2D


USES = {
    "call": "ConvLSTM2D(3)",
    "attribute": "ConvLSTM2D.from_config",
    "subclass": "class Mine(ConvLSTM2D): pass",
    "decorator": "@ConvLSTM2D\ndef f(): pass",
    "with": "with ConvLSTM2D: pass",
    "iteration": "for _ in ConvLSTM2D: pass",
    "item": "ConvLSTM2D[0]",
    "sum": "1 + ConvLSTM2D",
    "comparison": "ConvLSTM2D < 3",
    "assignment": "ConvLSTM2D.x = 3",
    "number": "range(ConvLSTM2D)",
}


@pytest.mark.filterwarnings("ignore:keras.layers.ConvLSTM2D is not in ipu")
@pytest.mark.parametrize("use", USES)
def test_using_it_gives_the_clear_error(imported, use):
    body = textwrap.indent(USES[use], "    ")
    head = imported(f"from keras.layers import ConvLSTM2D\ndef use():\n{body}\n")
    with pytest.raises((NotThereYetError, MissingNameError)) as caught:
        head.use()
    text = str(caught.value)
    attribute = ".from_config" if use == "attribute" else ""
    assert text.startswith(f"keras.layers.ConvLSTM2D{attribute} is not in ipu yet")
    assert "Recurrent layers" in text and "head_of_file.py" in text


@pytest.mark.filterwarnings("ignore:keras.layers.ConvLSTM2D is not in ipu")
def test_looking_at_it_is_no_use(imported):
    ConvLSTM2D = imported("from keras.layers import ConvLSTM2D").ConvLSTM2D
    assert (
        ConvLSTM2D
        and ConvLSTM2D is not None
        and ConvLSTM2D == ConvLSTM2D
        and ConvLSTM2D in {ConvLSTM2D}
    )
    assert not isinstance(ipu.keras.layers.Dense(1), ConvLSTM2D)
    assert not issubclass(ipu.keras.layers.Dense, ConvLSTM2D)
    assert getattr(ConvLSTM2D, "cell", None) is None and not hasattr(
        ConvLSTM2D, "__wrapped__"
    )
    assert repr(ConvLSTM2D) == "<keras.layers.ConvLSTM2D, which is not in ipu>"
    with pytest.raises(ValueError, match=r"keras\.layers\.ConvLSTM2D"):
        ipu.tf.constant(ConvLSTM2D)


# --- who asks is told the truth


@pytest.mark.parametrize(
    "source",
    [
        """
        try:
            from keras.layers import ConvLSTM2D
        except ImportError:
            ConvLSTM2D = None
        """,
        """
        try:
            from keras.layers import Dense
            from keras.layers import (
                Flatten,
                ConvLSTM2D,
            )
        except (ValueError, ModuleNotFoundError):
            ConvLSTM2D = None
        """,
        """
        ConvLSTM2D = None
        try:
            if True:
                from keras.layers import ConvLSTM2D
        except:
            pass
        """,
        """
        from contextlib import suppress
        ConvLSTM2D = None
        with suppress(ImportError):
            from keras.layers import ConvLSTM2D
        """,
        """
        def found():
            try:
                from keras.layers import ConvLSTM2D
            except Exception:
                return None
            return ConvLSTM2D
        ConvLSTM2D = found()
        """,
        """
        try:
            import other_head
            ConvLSTM2D = other_head.ConvLSTM2D
        except ImportError:
            ConvLSTM2D = None
        """,
        """
        import importlib
        try:
            ConvLSTM2D = importlib.import_module("other_head").ConvLSTM2D
        except ImportError:
            ConvLSTM2D = None
        """,
        """
        ConvLSTM2D = None
        try:
            exec("from keras.layers import ConvLSTM2D")
        except ImportError:
            pass
        """,
        """
        import keras
        ConvLSTM2D = getattr(keras.layers, "ConvLSTM2D", None)
        """,
        """
        import importlib.util
        ConvLSTM2D = importlib.util.find_spec("keras.layers.ConvLSTM2D")
        """,
        """
        try:
            ConvLSTM2D = __import__("keras.layers", fromlist=["ConvLSTM2D"]).ConvLSTM2D
        except ImportError:
            ConvLSTM2D = None
        """,
    ],
)
@pytest.mark.parametrize(
    "before", ["", "from keras.layers import ConvLSTM2D as wanted\n"]
)
@pytest.mark.filterwarnings("ignore:keras.layers.ConvLSTM2D is not in ipu")
def test_probes_find_nothing(imported, written, source, before):
    written("from keras.layers import Dense, ConvLSTM2D", "other_head")
    assert imported(before + textwrap.dedent(source)).ConvLSTM2D is None


@pytest.mark.parametrize(
    "source, words",
    [
        ("from keras.layers import Desne", "Did you mean 'Dense'"),
        ("from keras.layers import dense", "Did you mean 'Dense'"),
        ("from tensorflow import reduce_summ", "Did you mean 'reduce_sum'"),
        ("from tensorflow.python.framework import dtyps", "Did you mean 'dtypes'"),
        ("import tensorflow.estimator", "tensorflow.estimator is not in ipu yet"),
        ("from tensorflow.pythn.ops import nn", "tensorflow.pythn is not in ipu"),
        ("from keras.nonsense import Dense", "keras.nonsense is not in ipu"),
    ],
)
def test_slips_and_unknown_modules_fail_at_once(imported, source, words):
    with pytest.raises(MissingModuleError, match=words):
        imported(source)


def test_modules_of_the_user_fail_plainly(imported):
    with pytest.raises(ModuleNotFoundError, match="No module named 'my_layers'"):
        imported("from my_layers import ConvLSTM2D")
    with pytest.raises(ImportError, match="cannot import name 'ConvLSTM2D'"):
        imported("from math import ConvLSTM2D", "other_head")


NAMES = ["Dense", "Dropout", "reduce_sum", "relu", "float32"]
word = st.sampled_from(NAMES)


@given(word, st.integers(0, 20), st.sampled_from("abcXYZ"), st.integers(0, 3))
def test_one_wrong_letter_is_a_slip(name, at, letter, kind):
    at %= len(name)
    wrong = [
        name[:at] + letter + name[at:],
        name[:at] + name[at + 1 :],
        name[:at] + letter + name[at + 1 :],
        name[:at] + name[at : at + 2][::-1] + name[at + 2 :],
    ][kind]
    moved = name[at : at + 2] if kind == 3 else name[at]
    if len(wrong) > 3 and (moved.isalpha() or kind == 0):
        assert _absent.is_slip(wrong, NAMES)


@given(word, st.sampled_from("0123456789_"))
def test_digits_tell_names_apart(name, digit):
    assert not _absent.is_slip(name + digit, NAMES)
    assert not _absent.is_slip(name + "_v2", NAMES)


# --- the commands


def test_check_lists_what_is_imported_and_not_used():
    source = """
from keras.layers import Dense, ConvLSTM2D, ConvLSTM1D, Desne
from tensorflow.python.framework import some_module
import tensorflow.estimator
ConvLSTM1D(3)
try:
    from keras.layers import ConvLSTMCell
except ImportError:
    ConvLSTMCell = None
with suppress(ImportError):
    from keras.layers import ConvGRUCell
if ConvGRUCell:
    ConvGRUCell(3)
for ConvLSTM1D in (): pass
"""
    states = {use.name: use.state for use in _check.check_source(source)}
    assert states == {
        "keras.layers.Dense": "ok",
        "keras.layers.ConvLSTM2D": "unused",
        "keras.layers.ConvLSTM1D": "missing",
        "keras.layers.Desne": "missing",
        "keras.layers.ConvLSTMCell": "guarded",
        "keras.layers.ConvGRUCell": "guarded",
        "tensorflow.python.framework.some_module": "unused",
        "tensorflow.estimator": "missing",
    }
    uses = {use.name: use for use in _check.check_source(source)}
    assert uses["keras.layers.ConvLSTM1D"].lines == [2, 5]


def test_run_and_check_agree(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "from tensorflow.keras.layers import Dense, ConvLSTM2D\n"
        "import tensorflow as tf\n"
        "found = hasattr(tf.keras.layers, 'ConvLSTM2D')\n"
        "print(found, Dense(2)(tf.ones([1, 3])).shape)\n"
    )

    def command(word):
        return subprocess.run(
            [sys.executable, "-m", "ipu", word, str(program)],
            capture_output=True,
            text=True,
        )

    done = command("run")
    assert done.returncode == 0 and done.stdout.startswith("False (1, 2)"), done.stderr
    assert (
        done.stderr.count("tensorflow.keras.layers.ConvLSTM2D is not in ipu yet") == 1
    )
    done = command("check")
    assert done.returncode == 0 and "unused" in done.stdout, done.stdout
    program.write_text(program.read_text() + "\nConvLSTM2D(4)\n")
    done = command("run")
    assert done.returncode == 1 and "NotThereYetError" in done.stderr
    done = command("check")
    assert done.returncode == 1 and "missing" in done.stdout


def test_a_stand_in_is_forgotten_when_the_names_are(imported):
    with pytest.warns(UserWarning, match="ConvLSTM2D"):
        first = imported("from keras.layers import ConvLSTM2D").ConvLSTM2D
    drop_in.uninstall()
    assert not [name for name in sys.modules if name.partition(".")[0] == "keras"]
    with contextlib.suppress(KeyError):
        del sys.modules["head_of_file"]
    drop_in.install()
    with pytest.warns(UserWarning, match="ConvLSTM2D"):
        assert imported("from keras.layers import ConvLSTM2D").ConvLSTM2D is not first


COLUMNS = """
from tensorflow import feature_column
from tensorflow.python.feature_column import feature_column_v2

print("imported")
feature_column.numeric_column("x")
"""


def test_feature_columns_can_be_imported(tmp_path):
    file = tmp_path / "columns.py"
    file.write_text(COLUMNS)
    done = subprocess.run(
        [sys.executable, "-m", "ipu", "run", str(file)], capture_output=True, text=True
    )
    assert done.stdout == "imported\n"
    assert "numeric_column is not in ipu yet (line 6" in done.stderr
    assert "Feature columns can be imported, but not used." in done.stderr
