# SPDX-License-Identifier: MIT
"""Heads of files: what is not there is imported as a stand-in, and fails where used."""

import contextlib
import importlib
import re
import subprocess
import sys
import textwrap
import warnings

import pytest
from hypothesis import given, strategies as st

import ipu
from ipu import drop_in
from ipu._text import unimplemented as _later
from ipu._text.missing import MissingModuleError, MissingNameError, NotThereYetError
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
    assert not hasattr(head.readers, "ParallelInterleaveDataset")
    assert head.PipelineStage is ipu.keras.PipelineStage
    assert head.functional_extensions.FunctionalExtension is ipu.keras.models.Functional


def test_a_missing_name_is_imported_with_one_warning(imported, written):
    written("from keras.layers import CuDNNLSTM", "second_head")
    with pytest.warns(UserWarning) as seen:
        head = imported(
            """
            import second_head
            from keras.layers import Dense, CuDNNLSTM
            from keras.layers import CuDNNLSTM as again
            """
        )
    assert len(seen) == 1 and seen[0].filename.endswith("second_head.py")
    assert seen[0].lineno == 1
    text = str(seen[0].message)
    assert text.startswith("keras.layers.CuDNNLSTM is not in ipu yet (line 1 of ")
    assert "Further recurrent layers come with a later version." in text
    assert "stand-in" in text and "where it is used" in text
    assert head.Dense is ipu.keras.layers.Dense
    assert head.CuDNNLSTM is head.again is head.second_head.CuDNNLSTM


USES = {
    "call": "CuDNNLSTM(3)",
    "attribute": "CuDNNLSTM.from_config",
    "subclass": "class Mine(CuDNNLSTM): pass",
    "decorator": "@CuDNNLSTM\ndef f(): pass",
    "with": "with CuDNNLSTM: pass",
    "iteration": "for _ in CuDNNLSTM: pass",
    "item": "CuDNNLSTM[0]",
    "sum": "1 + CuDNNLSTM",
    "comparison": "CuDNNLSTM < 3",
    "assignment": "CuDNNLSTM.x = 3",
    "number": "range(CuDNNLSTM)",
}


@pytest.mark.filterwarnings("ignore:keras.layers.CuDNNLSTM is not in ipu")
@pytest.mark.parametrize("use", USES)
def test_using_it_gives_the_clear_error(imported, use):
    body = textwrap.indent(USES[use], "    ")
    head = imported(f"from keras.layers import CuDNNLSTM\ndef use():\n{body}\n")
    with pytest.raises((NotThereYetError, MissingNameError)) as caught:
        head.use()
    text = str(caught.value)
    attribute = ".from_config" if use == "attribute" else ""
    assert text.startswith(f"keras.layers.CuDNNLSTM{attribute} is not in ipu yet")
    assert "recurrent layers" in text and "head_of_file.py" in text


@pytest.mark.filterwarnings("ignore:keras.layers.CuDNNLSTM is not in ipu")
def test_looking_at_it_is_no_use(imported):
    CuDNNLSTM = imported("from keras.layers import CuDNNLSTM").CuDNNLSTM
    assert (
        CuDNNLSTM
        and CuDNNLSTM is not None
        and CuDNNLSTM == CuDNNLSTM
        and CuDNNLSTM in {CuDNNLSTM}
    )
    assert not isinstance(ipu.keras.layers.Dense(1), CuDNNLSTM)
    assert not issubclass(ipu.keras.layers.Dense, CuDNNLSTM)
    assert getattr(CuDNNLSTM, "cell", None) is None and not hasattr(
        CuDNNLSTM, "__wrapped__"
    )
    assert repr(CuDNNLSTM) == "<keras.layers.CuDNNLSTM, which is not in ipu>"
    with pytest.raises(ValueError, match=r"keras\.layers\.CuDNNLSTM"):
        ipu.tf.constant(CuDNNLSTM)


# --- who asks is told the truth


@pytest.mark.parametrize(
    "source",
    [
        """
        try:
            from keras.layers import CuDNNLSTM
        except ImportError:
            CuDNNLSTM = None
        """,
        """
        try:
            from keras.layers import Dense
            from keras.layers import (
                Flatten,
                CuDNNLSTM,
            )
        except (ValueError, ModuleNotFoundError):
            CuDNNLSTM = None
        """,
        """
        CuDNNLSTM = None
        try:
            if True:
                from keras.layers import CuDNNLSTM
        except:
            pass
        """,
        """
        from contextlib import suppress
        CuDNNLSTM = None
        with suppress(ImportError):
            from keras.layers import CuDNNLSTM
        """,
        """
        def found():
            try:
                from keras.layers import CuDNNLSTM
            except Exception:
                return None
            return CuDNNLSTM
        CuDNNLSTM = found()
        """,
        """
        try:
            import other_head
            CuDNNLSTM = other_head.CuDNNLSTM
        except ImportError:
            CuDNNLSTM = None
        """,
        """
        import importlib
        try:
            CuDNNLSTM = importlib.import_module("other_head").CuDNNLSTM
        except ImportError:
            CuDNNLSTM = None
        """,
        """
        CuDNNLSTM = None
        try:
            exec("from keras.layers import CuDNNLSTM")
        except ImportError:
            pass
        """,
        """
        import keras
        CuDNNLSTM = getattr(keras.layers, "CuDNNLSTM", None)
        """,
        """
        import importlib.util
        CuDNNLSTM = importlib.util.find_spec("keras.layers.CuDNNLSTM")
        """,
        """
        try:
            CuDNNLSTM = __import__("keras.layers", fromlist=["CuDNNLSTM"]).CuDNNLSTM
        except ImportError:
            CuDNNLSTM = None
        """,
    ],
)
@pytest.mark.parametrize(
    "before", ["", "from keras.layers import CuDNNLSTM as wanted\n"]
)
@pytest.mark.filterwarnings("ignore:keras.layers.CuDNNLSTM is not in ipu")
def test_probes_find_nothing(imported, written, source, before):
    written("from keras.layers import Dense, CuDNNLSTM", "other_head")
    assert imported(before + textwrap.dedent(source)).CuDNNLSTM is None


@pytest.mark.parametrize(
    "source, words",
    [
        ("from keras.layers import Desne", "Did you mean 'Dense'"),
        ("from keras.layers import flatten", "Did you mean 'Flatten'"),
        ("from tensorflow import reduce_summ", "Did you mean 'reduce_sum'"),
        ("from tensorflow.python.framework import dtyps", "Did you mean 'dtypes'"),
        ("import tensorflow.lite", "tensorflow.lite is not in ipu"),
        ("from tensorflow.pythn.ops import nn", "tensorflow.pythn is not in ipu"),
        ("from keras.nonsense import Dense", "keras.nonsense is not in ipu"),
    ],
)
def test_slips_and_unknown_modules_fail_at_once(imported, source, words):
    with pytest.raises(MissingModuleError, match=words):
        imported(source)


def test_modules_of_the_user_fail_plainly(imported):
    with pytest.raises(ModuleNotFoundError, match="No module named 'my_layers'"):
        imported("from my_layers import CuDNNLSTM")
    with pytest.raises(ImportError, match="cannot import name 'CuDNNLSTM'"):
        imported("from math import CuDNNLSTM", "other_head")


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
from keras.layers import Dense, CuDNNLSTM, CuDNNGRU, Desne
from tensorflow.python.framework import some_module
import tensorflow.lite
CuDNNGRU(3)
try:
    from keras.layers import ConvLSTMCell
except ImportError:
    ConvLSTMCell = None
with suppress(ImportError):
    from keras.layers import ConvGRUCell
if ConvGRUCell:
    ConvGRUCell(3)
for CuDNNGRU in (): pass
"""
    states = {use.name: use.state for use in _check.check_source(source)}
    assert states == {
        "keras.layers.Dense": "ok",
        "keras.layers.CuDNNLSTM": "unused",
        "keras.layers.CuDNNGRU": "missing",
        "keras.layers.Desne": "missing",
        "keras.layers.ConvLSTMCell": "guarded",
        "keras.layers.ConvGRUCell": "guarded",
        "tensorflow.python.framework.some_module": "unused",
        "tensorflow.lite": "missing",
    }
    uses = {use.name: use for use in _check.check_source(source)}
    assert uses["keras.layers.CuDNNGRU"].lines == [2, 5]


def test_run_and_check_agree(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "from tensorflow.keras.layers import Dense, CuDNNLSTM\n"
        "import tensorflow as tf\n"
        "found = hasattr(tf.keras.layers, 'CuDNNLSTM')\n"
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
    assert done.stderr.count("tensorflow.keras.layers.CuDNNLSTM is not in ipu yet") == 1
    done = command("check")
    assert done.returncode == 0 and "unused" in done.stdout, done.stdout
    program.write_text(program.read_text() + "\nCuDNNLSTM(4)\n")
    done = command("run")
    assert done.returncode == 1 and "NotThereYetError" in done.stderr
    done = command("check")
    assert done.returncode == 1 and "missing" in done.stdout


def test_a_stand_in_is_forgotten_when_the_names_are(imported):
    with pytest.warns(UserWarning, match="CuDNNLSTM"):
        first = imported("from keras.layers import CuDNNLSTM").CuDNNLSTM
    drop_in.uninstall()
    assert not [name for name in sys.modules if name.partition(".")[0] == "keras"]
    with contextlib.suppress(KeyError):
        del sys.modules["head_of_file"]
    drop_in.install()
    with pytest.warns(UserWarning, match="CuDNNLSTM"):
        assert imported("from keras.layers import CuDNNLSTM").CuDNNLSTM is not first


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
    assert "numeric_column is not in ipu (line 6" in done.stderr
    assert "Feature columns can be imported, but not used." in done.stderr


MISSPELT = {
    "keras.layers.Conv2d": "Conv2D",
    "keras.layers.MaxPool2d": "MaxPool2D",
    "keras.layers.LSTMM": "LSTM",
    "keras.layers.Bidirectonal": "Bidirectional",
    "keras.layers.GRUCel": "GRUCell",
    "tensorflow.nn.max_pool2D": "max_pool2d",
    "tensorflow.nn.conv2D": "conv2d",
    "tensorflow.data.Dataste": "Dataset",
    "tensorflow.compat.v1.Sesion": "Session",
    "tensorflow.compat.v1.placeholdr": "placeholder",
    "tensorflow.python.ipu.sharding.sharded_optimzer": None,
    "tensorflow.python.ipu.profiler.prof": None,
    "tensorflow.python.ipu.config.IPUconfig": "IPUConfig",
    "tensorflow.python.ipu.ipu_estimator.IPUEstimater": "IPUEstimator",
}


@pytest.mark.parametrize("name", MISSPELT)
def test_a_misspelling_is_not_said_to_come_later(imported, name):
    module, _, last = name.rpartition(".")
    meant = MISSPELT[name]
    programs = [f"import {module} as module\nmodule.{last}"]
    if meant is not None:
        programs.append(f"from {module} import {last}")
    for i, program in enumerate(programs):
        with pytest.raises((AttributeError, ImportError)) as caught:
            imported(program, f"program_{i}")
        text = str(caught.value)
        assert "later version" not in text and "not in ipu yet" not in text
        if meant is not None:
            assert f"Did you mean {meant!r}?" in text, text


def test_nothing_that_is_there_comes_later():
    """The names of the rules are those of things that are not there."""
    there = {
        *dir(ipu), *dir(ipu.keras), *dir(ipu.keras.layers), *dir(ipu.ops),
        *dir(ipu.tf), *dir(ipu.tf.nn), *dir(ipu.tf.data), *dir(ipu.utils),
    }  # fmt: skip
    for pattern, later in _later._RULES:
        words = re.findall(r"(?<=[:|])\w+(?=[|)])", pattern)
        promised = "later version" in later.topic
        assert not (promised and there & set(words)), there & set(words)
    for text in (later.topic + later.instead for _, later in _later._RULES):
        assert "auto_select_ipus = 1" not in text
