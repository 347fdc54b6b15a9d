# SPDX-License-Identifier: MIT
"""Tracebacks and warnings name lines of the user's program, none of the package."""

from __future__ import annotations

import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy

X = np.ones((8, 4), np.float32)
Y = np.ones((8, 3), np.float32)


@pytest.fixture(autouse=True)
def filtered() -> Iterator[None]:
    before = tf.debugging.is_traceback_filtering_enabled()
    tf.debugging.enable_traceback_filtering()
    yield
    if not before:
        tf.debugging.disable_traceback_filtering()


def own_loss(y_true: Any, y_pred: Any) -> Any:
    return tf.reduce_mean(tf.matmul(y_true, y_pred))


class OwnLayer(keras.layers.Layer):
    def call(self, inputs: Any) -> Any:
        return tf.matmul(inputs, tf.ones((5, 5)))


def made(loss: Any = "mse", layer: Any = None) -> Any:
    layers = [keras.layers.Dense(3, input_shape=(4,))]
    model = keras.Sequential(layers if layer is None else [*layers, layer])
    model.compile("sgd", loss)
    return model


def batches() -> Iterator[Any]:
    yield X, Y
    raise ArithmeticError("of the generator")


def wrong_shape_in_a_loss() -> None:
    made().fit(X, np.ones((8, 2)), verbose=0)


def own_loss_of_wrong_shapes() -> None:
    made(own_loss).fit(X, Y, verbose=0)


def own_layer() -> None:
    made(layer=OwnLayer()).predict(X)


def own_layer_alone() -> None:
    OwnLayer()(X)


def own_callback() -> None:
    def fail(epoch: int, logs: Any) -> None:
        raise ArithmeticError("of the callback")

    callback = keras.callbacks.LambdaCallback(on_epoch_end=fail)
    made().fit(X, Y, verbose=0, callbacks=[callback])


def own_generator() -> None:
    made().fit(batches(), verbose=0)


def an_op() -> None:
    tf.matmul(X, X)


def a_generator() -> None:
    tf.random.Generator.from_seed(1).normal([-2])


def seeds() -> None:
    tf.random.split([1, 2, 3])


def a_seed() -> None:
    tf.random.set_seed("a")


def a_picture() -> None:
    tf.image.decode_png(b"abc")


def a_picture_of_floats() -> None:
    tf.image.encode_png(tf.ones([4, 4, 3]))


def an_index() -> None:
    tf.ones(3)[1, 1]


def an_argument_of_a_layer() -> None:
    keras.layers.Dense(-1)


def a_name() -> None:
    tf.matmull  # noqa: B018


def a_gradient() -> None:
    with tf.GradientTape() as tape:
        y = tf.ones(2)
    tape.gradient(y, "a")


def a_function() -> None:
    def helper(x: Any) -> Any:
        return tf.matmul(x, x)

    tf.function(lambda x: helper(x))(X)


def a_run_of_a_strategy() -> None:
    strategy = IPUStrategy()
    with strategy.scope():

        @tf.function(jit_compile=True)
        def steps(x: Any) -> Any:
            for _ in tf.range(3):
                x = tf.matmul(x, x)
            return x

        strategy.run(steps, (X,))


def a_data_set() -> None:
    data = tf.data.Dataset.from_tensor_slices(X)
    data.map(lambda row: tf.matmul(row, row))


def an_element_of_a_data_set() -> None:
    data = tf.data.Dataset.from_generator(
        lambda: (ArithmeticError(row) for row in X), output_types=tf.float32
    )
    list(data)


CASES: list[tuple[Callable[[], None], list[str]]] = [
    (wrong_shape_in_a_loss, []),
    (own_loss_of_wrong_shapes, ["own_loss"]),
    (own_layer, ["made", "call"]),
    (own_layer_alone, ["call"]),
    (own_callback, ["fail"]),
    (own_generator, ["batches"]),
    (an_op, []),
    (a_generator, []),
    (seeds, []),
    (a_seed, []),
    (a_picture, []),
    (a_picture_of_floats, []),
    (an_index, []),
    (an_argument_of_a_layer, []),
    (a_name, []),
    (a_gradient, []),
    (a_function, ["<lambda>", "helper"]),
    (a_run_of_a_strategy, ["steps"]),
    (a_data_set, ["<lambda>"]),
    (an_element_of_a_data_set, []),
]


def frames(error: BaseException) -> list[traceback.FrameSummary]:
    """The frames that are shown, without that of the test that catches it."""
    return list(traceback.extract_tb(error.__traceback__))[1:]


# Python 3.10 raises again from the frame that called: the package's outermost one stays
KEEPS_ONE = sys.version_info < (3, 11)
KEPT = tuple(
    f'{Path(ipu.__file__).parent / name}", line'
    for name in ("_text/tracebacks.py", "tf/_tensor/dispatch.py")
)


@pytest.mark.parametrize(
    ("case", "inner"), CASES, ids=lambda v: getattr(v, "__name__", "")
)
def test_only_the_user_s_frames_are_shown(
    case: Callable[[], None], inner: list[str]
) -> None:
    with pytest.raises(Exception) as caught:
        case()
    error = caught.value
    shown = frames(error)
    if KEEPS_ONE:
        shown = [f for f in shown if not f'{f.filename}", line'.startswith(KEPT)]
    assert {frame.filename for frame in shown} == {__file__}
    names = [frame.name for frame in shown if not frame.name.startswith("ag__")]
    assert names == [case.__name__, *inner]
    text = "".join(traceback.format_exception(error))
    assert KEEPS_ONE or str(Path(ipu.__file__).parent) + "/" not in text


def test_all_frames_are_shown_where_filtering_is_off() -> None:
    tf.debugging.disable_traceback_filtering()
    assert not tf.debugging.is_traceback_filtering_enabled()
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        wrong_shape_in_a_loss()
    names = [Path(frame.filename).name for frame in frames(caught.value)]
    assert "trainer.py" in names and "_losses.py" not in names


def test_a_reason_of_the_user_s_own_is_kept() -> None:
    try:
        raise KeyError("mine")
    except KeyError:
        with pytest.raises(ValueError, match="must be a positive integer") as caught:
            keras.layers.Dense(-1)
    assert isinstance(caught.value.__context__, KeyError)
    assert not caught.value.__suppress_context__


PROGRAM = """
import numpy as np
from ipu import keras

def loss(y_true, y_pred):
    return y_true @ y_pred

model = keras.Sequential([keras.layers.Dense(3)])
model.compile("sgd", loss)
model.fit(np.ones((8, 4)), np.ones((8, 3)), verbose=0)
"""


@pytest.mark.parametrize(("setting", "count"), [("", 2), ("off", 20)])
def test_a_script_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, count: int
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    monkeypatch.setenv("IPU_TRACEBACK_FILTERING", setting)
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, cwd=tmp_path
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("  File ")]
    if KEEPS_ONE and count == 2:
        lines = [line for line in lines if not any(kept in line for kept in KEPT)]
    assert done.returncode == 1
    assert len(lines) == count if count == 2 else len(lines) > count
    if count == 2:
        assert all(str(program) in line for line in lines)


def epochs_without_data() -> Any:
    model = made()
    return model.fit(iter([(X, Y)]), epochs=2, verbose=0)


def a_monitor_that_is_not_there() -> Any:
    stop = keras.callbacks.EarlyStopping("no_such")
    return made().fit(X, Y, verbose=0, callbacks=[stop])


def more_steps_at_once_than_there_are() -> Any:
    with IPUStrategy().scope():
        model = keras.Sequential([keras.layers.Dense(3, input_shape=(4,))])
        model.compile("sgd", "mse", steps_per_execution=9)
        return model.fit(X, Y, 4, verbose=0)


def an_unknown_mode() -> Any:
    return keras.callbacks.EarlyStopping("loss", mode="mean")


def many_traces() -> Any:
    function = tf.function(lambda x, n: x * n)
    for n in range(20):
        function(X, n)


@pytest.mark.parametrize(
    "case",
    [
        epochs_without_data,
        a_monitor_that_is_not_there,
        more_steps_at_once_than_there_are,
        an_unknown_mode,
        many_traces,
    ],
)
def test_warnings_name_the_user_s_line(case: Callable[[], Any]) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        case()
    assert seen
    first = case.__code__.co_firstlineno
    for warning in seen:
        assert warning.filename == __file__
        assert first < warning.lineno <= first + 6
