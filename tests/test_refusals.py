# SPDX-License-Identifier: MIT
"""What the package refuses is in one table, which `check` reads before a run.

The sources are walked for every place that raises one of the errors for what is not
there. Each asks the table, or is listed here with the reason why only a run can tell.
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

import ipu
from ipu import keras
from ipu._text import refusals

_FOLDER = Path(ipu.__file__).parent
_ERRORS = {"NotImplementedError", "UnimplementedError", "NotThereYetError", "refuse"}
_TOGETHER = "arguments that do not go together, most often made by the program"
_SYMBOLIC = "whether a value is symbolic depends on who calls"
_DEVICE = "whether it runs in a program of the device depends on who calls"

# what only a run can tell: file, the function that raises, why
_UNDECIDABLE = {
    ("ops/_pipeline_arguments.py", "check_mapping"): _TOGETHER,
    ("ops/_pipeline_arguments.py", "schedule_of"): _TOGETHER,
    ("ops/pipelining_ops.py", "pipeline"): _TOGETHER,
    ("_config/schedules.py", "call_core"): _TOGETHER,
    ("_text/missing.py", "refuse"): "raises what its callers name",
    ("_layers/recurrent.py", "call"): "masks come with the values of layers before",
    ("ops/custom_ops.py", "cpu_user_operation"): _TOGETHER,
    ("drop_in/_absent.py", "__setattr__"): "names are checked where they are imported",
    ("drop_in/_absent.py", "_use"): "names are checked where they are imported",
    ("drop_in/first_keras/restricted.py", "_refuse_unsupported"): "asks the table",
    ("keras/layers/preprocessing.py", "adapt"): "a class of the program may define it",
    ("drop_in/stand_ins/keras_testing_utils.py", "get_model_from_layers"): "tests give "
    "what their parameters say",
    ("keras/engine/files/saving.py", "load"): "what is in a folder is not known before",
    (
        "keras/engine/training/trainer.py",
        "_own_function",
    ): "of `predict` alone: a class "
    "may override `make_predict_function` and never predict",
    ("keras/engine/base_layer.py", "add_loss"): _SYMBOLIC,
    ("keras/engine/base_layer.py", "add_metric"): _SYMBOLIC,
    ("keras/layers/image_augmentation.py", "_changed"): _DEVICE,
    ("keras/optimizers/wrappers.py", "get_config"): "the `dtype` may be a function",
    ("tf/_graph/eager.py", "_stopped"): _SYMBOLIC,
    ("tf/_graph/operation.py", "__array__"): _SYMBOLIC,
    ("tf/_graph/variables.py", "numpy"): _SYMBOLIC,
    ("tf/_functions/taped.py", "_refuse"): "a gradient of a gradient of a "
    "function under a tape",
    ("tf/_testing/case.py", "run"): "whether a session is one of graphs is not known",
    ("tf/autograph/_feed.py", "__init__"): _DEVICE,
}


def raising():
    """(file, function, line) of each place that refuses."""
    for path in sorted(_FOLDER.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not any(f"{error}(" in text for error in _ERRORS):
            continue
        yield from _raising_in(
            ast.parse(text), path.relative_to(_FOLDER).as_posix(), ""
        )


def _raising_in(node, file, function):
    for child in ast.iter_child_nodes(node):
        inner = function
        if isinstance(child, ast.FunctionDef):
            inner = child.name
        if isinstance(child, ast.Raise) and _refuses(child.exc):
            yield file, inner, child.lineno
        is_call = isinstance(child, ast.Expr) and isinstance(child.value, ast.Call)
        if is_call and _last_name(child.value.func) == "refuse":
            yield file, inner, child.lineno
        yield from _raising_in(child, file, inner)


def _last_name(node):
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _refuses(node):
    """Whether an exception says that something is not there; not: that a class of the
    program must define something."""
    if not isinstance(node, ast.Call) or _last_name(node.func) not in _ERRORS:
        return False
    text = ast.unparse(node)
    abstract = ("must define", "must implement", "Abstract method")
    return not any(words in text for words in abstract)


def test_the_table_is_complete():
    places = list(raising())
    found = {place[:2] for place in places}
    lost = [place for place in places if place[:2] not in _UNDECIDABLE]
    assert lost == [], (
        "add a row to ipu/_text/refusals.py, or the reason why none can be"
    )
    assert set(_UNDECIDABLE) <= found, "listed, and raised nowhere"
    assert all(_UNDECIDABLE.values())


def test_rows_name_what_is_there():
    for row in refusals._ROWS:
        if row.call.startswith("."):
            assert callable(getattr(keras.Model, row.call[1:]))
            continue
        owner = None
        parts = row.call.split(".")
        for n in range(1, len(parts) + 1):
            if owner is None or not hasattr(owner, parts[n - 1]):
                owner = importlib.import_module(".".join(parts[:n]))
            else:
                owner = getattr(owner, parts[n - 1])
        assert callable(owner), row
        assert row.text("3") and isinstance(row.exception(3), Exception)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (
            lambda: ipu.layers.Embedding(3, 4, mask_zero=True),
            NotImplementedError,
            "does not support `mask_zero`. Received: mask_zero=True",
        ),
        (
            lambda: keras.layers.StringLookup(sparse=True),
            NotImplementedError,
            "dense tensors. Received: sparse=True. Leave it out.",
        ),
        (
            lambda: ipu.custom_ops.precompiled_user_op([1.0], "x.so"),
            NotImplementedError,
            "builds a program of the hardware with Poplar",
        ),
        (
            lambda: ipu.tf.data.Dataset.load("x", wait=True),
            NotImplementedError,
            "load reads what is there",
        ),
    ],
)
def test_what_runs_says(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)
