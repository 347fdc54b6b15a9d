# SPDX-License-Identifier: MIT
"""Every public function and class, called with arguments that are wrong in many ways.

An error in the user's terms is raised by this package, or by Python where the call does
not fit the signature. What is none of these leaks how a function works: it is listed in
`wrong_arguments_allowed.txt`, which may only shrink.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import warnings
from pathlib import Path

import numpy as np
import pytest

import ipu
from ipu import keras, tf
from ipu.tf._graph import mode

ALLOWED = Path(__file__).with_name("wrong_arguments_allowed.txt")
_LEAKS = (AttributeError, KeyError, IndexError, RecursionError, AssertionError)
_PHRASES = ("object is not", "object has no", "unsupported operand", "object cannot be")
_PACKAGE = str(Path(ipu.__file__).parent)

WRONG = (
    3,
    -1,
    2.5,
    float("nan"),
    "a",
    None,
    [1, "a"],
    {"a": 1},
    np.zeros((2, 3)),
    object,
    len,
)
MODULES = (
    "tf",
    "tf.math",
    "tf.linalg",
    "tf.nn",
    "tf.image",
    "tf.random",
    "tf.strings",
    "tf.ragged",
    "tf.sparse",
    "keras.layers",
    "keras.optimizers",
    "keras.losses",
    "keras.metrics",
    "keras.initializers",
    "keras.regularizers",
    "keras.constraints",
    "keras.callbacks",
    "keras.activations",
    "keras.backend",
    "keras.config",
    "keras.ops",
    "keras.ops.image",
    "keras.random",
    "keras.saving",
    "keras.tree",
    "config",
)
# what waits, ends the process, writes files, or changes what other tests rely on
_LEFT_OUT = (
    "clear_session disable_v2_behavior enable_v2_behavior disable_eager_execution "
    "set_learning_phase set_floatx set_epsilon set_image_data_format BackupAndRestore "
    "ModelCheckpoint TensorBoard CSVLogger RemoteMonitor print print_tensor Session "
    "InteractiveSession manual_variable_initialization disable_v2_tensorshape "
    "reset_uids get_uid set_seed set_global_generator enable_unsafe_deserialization "
    "disable_interactive_logging"
).split()


def functions(path):
    """The public functions and classes of a module, by name."""
    module = ipu
    for part in path.split("."):
        module = getattr(module, part)
    for name in sorted(dir(module)):
        value = getattr(module, name)
        is_ours = str(getattr(value, "__module__", "")).startswith("ipu")
        is_public = not name.startswith("_") and name not in _LEFT_OUT
        if is_public and is_ours and callable(value):
            yield name, value


def needed(function):
    """How many arguments a call must have; None where nobody can tell."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return sum(
        one.default is one.empty and one.kind in (one.POSITIONAL_OR_KEYWORD, 0)
        for one in found
    )


def leaks(error):
    """Whether an error says how a function works, not what is wrong with the call."""
    if not isinstance(error, (*_LEAKS, TypeError)) or type(error).__module__ != (
        "builtins"
    ):
        return False
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if isinstance(error, TypeError):
        return any(words in str(error) for words in _PHRASES)
    raised = inspect.getframeinfo(last).code_context or [""]
    return not raised[0].strip().startswith("raise")


def found_in(path):
    """The name of each function of a module that leaks, and one of its errors."""
    for name, function in functions(path):
        count = needed(function)
        if count is None:
            continue
        for wrong in WRONG:
            error = raised_by(function, [wrong] * max(count, 1))
            if error is not None and leaks(error):
                yield f"{path}.{name}", error
                break


def raised_by(function, given):
    """What a call raises, or None; what it prints and warns of is left out."""
    out = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(out):
        warnings.simplefilter("ignore")
        try:
            function(*given)
        except Exception as error:
            return error
    return None


@pytest.fixture
def whole_tracebacks():
    """Frames of the package stay; names of layers are counted from where they were."""
    counted = dict(mode.name_counts())
    tf.debugging.disable_traceback_filtering()
    yield
    tf.debugging.enable_traceback_filtering()
    mode.name_counts().clear()
    mode.name_counts().update(counted)


@pytest.mark.parametrize("path", MODULES)
def test_wrong_arguments_are_answered_in_the_users_terms(path, whole_tracebacks):
    allowed = set(ALLOWED.read_text(encoding="utf-8").split("\n"))
    found = {place: repr(error)[:200] for place, error in found_in(path)}
    new = {place: error for place, error in found.items() if place not in allowed}
    assert new == {}
    listed = {line for line in allowed if line.rpartition(".")[0] == path}
    assert listed <= set(found), "mended: take them off the list"


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: tf.einsum(3, [1.0]), "`equation` must be a string. Received: 3."),
        (lambda: tf.concat(3, 0), "`values` must be a list or a tuple. Received: 3."),
        (lambda: tf.fill(2.5, 0), "`shape` must be a list or a tuple. Received: 2.5."),
        (lambda: tf.py_function(3, [], []), "`func` must be a function. Received: 3."),
        (lambda: tf.Module(3), "`name` must be a string. Received: 3."),
        (
            lambda: keras.layers.ZeroPadding2D(None),
            "`padding` must be a list or a tuple. Received: None.",
        ),
        (
            lambda: tf.linalg.global_norm("a"),
            "`t_list` must be a list or a tuple. Received: 'a'.",
        ),
    ],
)
def test_arguments_are_named(call, words):
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value) == words
