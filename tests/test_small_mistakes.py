# SPDX-License-Identifier: MIT
"""Small mistakes of programs, and what the answer to each names."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import keras, tf
from ipu.tf.compat import v1

X = np.ones((20, 4), np.float32)
Y = np.ones((20, 3), np.float32)
CLASSES = np.arange(20) % 3


def made(units: int = 3, loss: Any = "mse") -> Any:
    model = keras.Sequential([keras.layers.Dense(units, input_shape=(4,))])
    model.compile("sgd", loss)
    return model


def of_two_inputs() -> Any:
    a, b = keras.Input((4,), name="left"), keras.Input((4,), name="right")
    return keras.Model([a, b], keras.layers.Dense(2)(keras.layers.concatenate([a, b])))


MISTAKES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (
        lambda: made().fit(X, Y, epoch=3),
        TypeError,
        "Sequential.fit() got an unexpected keyword argument 'epoch'. "
        "Did you mean 'epochs'?",
    ),
    (
        lambda: made().save(),  # type: ignore[call-arg]
        TypeError,
        "Sequential.save() missing 1 required positional argument: 'filepath'",
    ),
    (
        lambda: tf.reduce_sum([1], axes=0),  # type: ignore[call-arg]
        TypeError,
        "got an unexpected keyword argument 'axes'. Did you mean 'axis'?",
    ),
    (
        lambda: keras.utils.plot_model(3),
        TypeError,
        "`model` must be a keras.Model. Received: model=3.",
    ),
    (
        lambda: keras.Sequential([keras.layers.Dense]),
        TypeError,
        "Write Dense(...), with its arguments.",
    ),
    (
        lambda: keras.optimizers.Adam("fast"),
        TypeError,
        "must be a number or a LearningRateSchedule. Received: learning_rate='fast'.",
    ),
    (
        lambda: tf.random.Generator(3),
        TypeError,
        "Write tf.random.Generator.from_seed(seed)",
    ),
    (
        lambda: tf.random.Generator(state=[1.5]),
        ValueError,
        "`state` must be two integers of 32 bits. Received: state=[1.5].",
    ),
    (
        lambda: tf.random.Generator(state=[2**40, 0]),
        ValueError,
        "`state` must be two integers of 32 bits. Received: state=[1099511627776, 0].",
    ),
    (
        lambda: tf.eye(float("inf")),
        TypeError,
        "num_rows must be an integer. Received: inf.",
    ),
    (
        lambda: tf.linalg.cross([1.0, 2.0], [3.0, 4.0]),
        ValueError,
        "takes vectors of three elements in the last axis",
    ),
    (
        lambda: tf.eye("a"),
        TypeError,
        "num_rows must be an integer. Received: 'a'.",
    ),
    (
        lambda: tf.eye(2.5),
        TypeError,
        "num_rows must be an integer. Received: 2.5.",
    ),
    (
        lambda: made().evaluate(X, Y, batchsize=3),
        TypeError,
        "Did you mean 'batch_size'?",
    ),
    (
        lambda: made().compile("sgd", "mse", metric=["mae"]),
        TypeError,
        "['metric']. Did you mean 'metrics'?",
    ),
    (
        lambda: made().fit(X, Y, epochs=2.0),
        TypeError,
        "`epochs` must be an integer. Received: 2.0. Write epochs=2.",
    ),
    (lambda: made().fit(X, Y, epochs="3"), TypeError, "Received: '3'."),
    (
        lambda: made().fit(X, Y, initial_epoch=0.5),
        TypeError,
        "`initial_epoch` must be an integer. Received: 0.5.",
    ),
    (
        lambda: made().fit(X, Y, callbacks=[keras.callbacks.EarlyStopping]),
        TypeError,
        "Received: the class EarlyStopping. Write EarlyStopping(), with its arguments.",
    ),
    (
        lambda: made().fit(X, Y, callbacks=["early_stopping"]),
        TypeError,
        "Received: 'early_stopping' (str).",
    ),
    (
        lambda: of_two_inputs().predict({"left": X, "rigth": X}),
        ValueError,
        "There is no input 'rigth'. Did you mean 'right'?",
    ),
    (
        lambda: of_two_inputs().predict({"left": X}),
        ValueError,
        "Missing data for input 'right'",
    ),
    (
        lambda: keras.callbacks.ModelCheckpoint("best.npz"),
        ValueError,
        "Use a path that ends in .safetensors.",
    ),
    (lambda: tf.compat.v3, AttributeError, "tf.compat.v3 is not in ipu"),
    (lambda: keras.layes, AttributeError, "Did you mean 'layers'?"),
    (lambda: keras.layers.Dens, AttributeError, "Did you mean 'Dense'?"),
    (lambda: keras.layers.TextVector, AttributeError, "See ipu.keras.layers.__all__."),
    (
        lambda: tf.linalg.diag(3.0),
        ValueError,
        "diagonals in the last axis",
    ),
    (
        lambda: tf.linalg.diag_part([1.0]),
        ValueError,
        "tf.linalg.diag_part takes matrices in the last two axes. Received shape (1,)",
    ),
    (
        lambda: tf.linalg.trace([1.0]),
        ValueError,
        "tf.linalg.trace takes matrices",
    ),
    (
        lambda: tf.linalg.band_part([1.0], 0, 0),
        ValueError,
        "tf.linalg.band_part takes matrices",
    ),
    (
        lambda: tf.linalg.set_diag([1.0], [1.0]),
        ValueError,
        "tf.linalg.set_diag takes matrices",
    ),
    (
        lambda: tf.linalg.adjoint([1.0]),
        ValueError,
        "tf.linalg.adjoint takes matrices",
    ),
    (
        lambda: tf.linalg.matrix_transpose(1.0),
        ValueError,
        "tf.linalg.matrix_transpose takes matrices",
    ),
    (
        lambda: tf.random.Generator.from_seed("a"),
        TypeError,
        "`seed` is an integer. Received: seed='a'.",
    ),
    (
        lambda: tf.image.decode_png(b"abc"),
        tf.errors.InvalidArgumentError,
        "3 bytes that are not a whole picture in one of the formats PNG, JPEG.",
    ),
    (
        lambda: tf.linalg.tensor_diag_part(tf.ones([2, 3])),
        ValueError,
        "takes a tensor whose shape is one shape twice. Received shape (2, 3)",
    ),
    (
        lambda: tf.linalg.lu_solve(*tf.linalg.lu(tf.eye(2)), tf.ones([3, 1])),
        ValueError,
        "`rhs` has as many rows as the matrix. Received shapes (2, 2) and (3, 1).",
    ),
    (
        lambda: tf.tensordot(tf.ones([2, 3]), tf.ones([3, 2]), 7),
        ValueError,
        "`axes` is the number of axes that meet. Received: axes=7",
    ),
    (
        lambda: tf.tensordot([1.0], [1.0], -1),
        ValueError,
        "`axes` is the number of axes that meet. Received: axes=-1",
    ),
    (
        lambda: tf.image.resize(tf.ones([1, 0, 2, 3]), [4, 4], "bicubic"),
        ValueError,
        "An image needs pixels. Received shape (1, 0, 2, 3).",
    ),
    (
        lambda: tf.random.shuffle(3),
        ValueError,
        "tf.random.shuffle takes rows",
    ),
    (
        lambda: tf.image.random_crop(tf.ones([4, 4, 3]), [2, 2]),
        ValueError,
        "one number for each of the 3 axes of `value`. Received: size=[2, 2]",
    ),
    (
        lambda: tf.image.resize(tf.ones([2, 2, 3]), 4),
        ValueError,
        "`size` is [height, width]. Received: size=4",
    ),
    (
        lambda: tf.image.rgb_to_grayscale(tf.ones([4, 4, 1])),
        ValueError,
        "three channels in the last axis. Received shape (4, 4, 1)",
    ),
    (
        lambda: tf.slice([1, 2], [0], [1, 1]),
        ValueError,
        "number for each of the 1 axes. Received: begin=[0], size=[1, 1]",
    ),
    (
        lambda: keras.optimizers.AdamW(weight_decay="a"),
        ValueError,
        "Expected weight_decay >= 0. Received: weight_decay='a'",
    ),
    (
        lambda: setattr(keras.optimizers.AdamW(), "weight_decay", -1.0),
        ValueError,
        "Expected weight_decay >= 0. Received: weight_decay=-1.0",
    ),
    (lambda: keras.layers.Conv2d, AttributeError, "Did you mean 'Conv2D'?"),
    (
        lambda: keras.layers.Dense(3, Activation="relu"),  # type: ignore[call-arg]
        TypeError,
        "Did you mean 'activation'?",
    ),
    (
        lambda: keras.callbacks.EarlyStopping(Patience=3),  # type: ignore[call-arg]
        TypeError,
        "EarlyStopping.__init__() got an unexpected keyword argument 'Patience'. "
        "Did you mean 'patience'?",
    ),
    (
        lambda: keras.optimizers.Adam(Beta_1=0.5),
        TypeError,
        "'Beta_1'. Did you mean 'beta_1'?",
    ),
    (
        lambda: keras.Model(input=1, output=2),
        TypeError,
        "'input'. Did you mean 'inputs'?",
    ),
    (
        lambda: ipu.ipu_strategy.IPUStrategy().__enter__(),
        TypeError,
        "Write `with strategy.scope():`.",
    ),
]


@pytest.mark.parametrize(("mistake", "error", "text"), MISTAKES)
def test_the_answer_names_the_mistake(
    mistake: Callable[[], Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as caught:
        mistake()
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("line", "near"),
    [
        ("from ipu.keras.layers import Conv2d", "Conv2D"),
        ("from ipu.keras.losses import MeanSquareError", "MeanSquaredError"),
        ("from ipu.keras import optimisers", "optimizers"),
        ("from ipu.keras.layer import Dense", "layers"),
        ("import ipu.keras.layer", "layers"),
        ("from ipu.tf import functon", "function"),
        ("import ipu.Keras", "keras"),
    ],
)
def test_an_import_names_what_was_meant(line: str, near: str) -> None:
    with pytest.raises(ImportError) as caught:
        exec(line)
    assert str(caught.value).endswith(f"Did you mean {near!r}?")


def test_a_program_may_ask_for_a_module_that_is_not_there() -> None:
    assert importlib.util.find_spec("ipu.keras.layer") is None
    assert not hasattr(keras, "layer")


def test_what_was_meant_is_said_once(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("from ipu import keras\nkeras.layers.Conv2d\n")
    run = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, check=False
    )
    assert run.stderr.count("Did you mean") == 1


def test_self_is_no_argument_that_is_offered() -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'sel'$"):
        made().fit(X, Y, sel=3)  # type: ignore[call-arg]


def test_a_type_error_of_the_program_s_own_is_left_alone() -> None:
    def fail(**options: Any) -> None:
        raise TypeError("got an unexpected keyword argument 'epoch'")

    callback = keras.callbacks.LambdaCallback(on_train_begin=lambda logs: fail())
    with pytest.raises(TypeError) as caught:
        made().fit(X, Y, verbose=0, callbacks=[callback])
    assert str(caught.value) == "got an unexpected keyword argument 'epoch'"


def test_a_weight_that_is_too_large_says_how_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(shape: Any, dtype: Any) -> Any:
        raise MemoryError("Unable to allocate 745. GiB")

    layer = keras.layers.Dense(1_000_000, kernel_initializer=fail, name="wide")
    with pytest.raises(MemoryError) as caught:
        layer.build((None, 100_000))
    text = "Weight 'wide/kernel' of shape (100000, 1000000) and dtype float32 takes"
    assert f"{text} 372.5 GiB" in str(caught.value)


def test_class_numbers_beside_many_outputs_warn() -> None:
    with pytest.warns(UserWarning) as seen:
        made(10).fit(X, CLASSES, verbose=0)
    texts = {str(one.message) for one in seen}
    assert len(texts) == 1
    text = texts.pop()
    assert "targets of shape (None, 1) beside outputs of shape (None, 10)" in text
    assert "sparse_categorical_crossentropy" in text
    assert {one.filename for one in seen} == {__file__}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("units", "loss", "targets"),
    [
        (1, "mse", CLASSES),
        (3, "mse", Y),
        (3, keras.losses.SparseCategoricalCrossentropy(from_logits=True), CLASSES),
        (3, lambda t, p: tf.square(tf.cast(t, "float32") - p), CLASSES),
    ],
)
def test_nothing_is_said_of_targets_that_fit(
    units: int, loss: Any, targets: Any
) -> None:
    made(units, loss).fit(X, targets, verbose=0)


def test_whole_models_are_kept_by_checkpoints(tmp_path: Path) -> None:
    model = made()
    path = tmp_path / "best-{epoch}"
    checkpoint = keras.callbacks.ModelCheckpoint(path, monitor="loss")
    model.fit(X, Y, epochs=2, verbose=0, callbacks=[checkpoint])
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["best-1.safetensors", "best-2.safetensors"]
    again = keras.models.load_model(tmp_path / "best-2.safetensors")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


ROWS = np.ones((2, 3), np.float32)
ONE_LETTER: dict[str, Callable[[], Any]] = {
    "Variable": lambda: tf.Variable(1.0, trainabel=False),
    "graph's Variable": lambda: _in_graph(lambda: v1.Variable(1.0, trainabel=False)),
    "assign": lambda: tf.Variable(1.0).assign(2.0, use_lockin=True),
    "assign_add": lambda: tf.Variable(1.0).assign_add(2.0, read_valu=True),
    "assign_sub": lambda: tf.Variable(1.0).assign_sub(2.0, nam="x"),
    "add_weight": lambda: keras.layers.Layer().add_weight("w", initialiser="ones"),
    "add_loss": lambda: keras.layers.Layer().add_loss(1.0, input=ROWS),
    "add_metric": lambda: keras.layers.Layer().add_metric(1.0, "a", agregation="mean"),
    "Metric": lambda: keras.metrics.Metric(dtpe="float32"),
    "Metric.add_weight": lambda: keras.metrics.Mean().add_weight("a", shpe=()),
    "Dense": lambda: keras.layers.Dense(2)(ROWS, trainig=True),
    "symbolic": lambda: keras.layers.Dense(2)(keras.Input((3,)), trainig=True),
    "functional": lambda: _model()(ROWS, trainig=True),
    "LSTM": lambda: keras.layers.LSTM(2)(ROWS[None], initial_stat=None),
    "wrapper": lambda: keras.layers.Bidirectional(keras.layers.LSTM(2))(
        ROWS[None], initial_stae=None
    ),
    "save": lambda: _model().save("nowhere", include_optimiser=True),
    "ReduceLROnPlateau": lambda: keras.callbacks.ReduceLROnPlateau(patienc=3),
    "einsum": lambda: tf.einsum("ij->i", ROWS, optimise=True),
    "decode_jpeg": lambda: tf.io.decode_jpeg("", fancy_upscalin=True),
    "encode_jpeg": lambda: tf.io.encode_jpeg(ROWS, progresive=True),
    "TFRecordOptions": lambda: tf.io.TFRecordOptions(window_bit=3),
    "compute_gradients": lambda: v1.train.GradientDescentOptimizer(
        0.1
    ).compute_gradients(lambda: 1.0, gate_gradient=1),
    "Saver": lambda: v1.train.Saver([tf.Variable(1.0)], max_to_kep=1),
    "Scaffold": lambda: v1.train.Scaffold(ready_opp=None),
}


def _in_graph(call: Callable[[], Any]) -> Any:
    with v1.Graph().as_default():
        return call()


def _model() -> Any:
    return keras.Sequential([keras.layers.Dense(2, input_shape=(3,))])


@pytest.mark.parametrize("call", ONE_LETTER)
def test_a_misspelt_keyword_is_refused_with_a_hint(call: str) -> None:
    words = r"got an unexpected keyword argument .* Did you mean"
    with pytest.raises(TypeError, match=words):
        ONE_LETTER[call]()


def test_a_keyword_that_is_near_to_none() -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'foo'\.$"):
        tf.Variable(1.0).assign(2.0, foo=1)


def test_keywords_of_the_port_that_have_no_effect() -> None:
    v = tf.Variable(1.0, synchronization=0, aggregation=0, caching_device=None)
    v.assign(2.0, use_locking=False, name="a", read_value=True)
    layer = keras.layers.Layer()
    layer.add_weight("w", use_resource=True, experimental_autocast=False)
    layer.add_loss(1.0, inputs=None)
    keras.metrics.Metric(dynamic=False)
    assert keras.layers.Dense(2)(ROWS, training=True, mask=None).shape == (2, 2)


def test_layers_of_ones_own_get_what_they_are_given() -> None:
    class Mine(keras.layers.Layer):
        def call(self, inputs: Any, **kwargs: Any) -> Any:
            return inputs * kwargs["factor"]

    assert Mine()(ROWS, factor=2.0).numpy().tolist() == (2 * ROWS).tolist()


# what is called by others than users; `call` of layers is asked in Layer.__call__
MAY_IGNORE = {
    "__array__", "__call__", "__new__", "_display", "_first_deviation", "_use", "call",
    "enable_eager_execution", "initial", "update_state",
}  # fmt: skip


def test_no_function_ignores_its_keywords() -> None:
    """Whoever takes `**kwargs` hands them on, or asks which they are."""
    found = []
    for path in sorted(Path(ipu.__file__).parent.rglob("*.py")):
        if path.parent.name == "stand_ins":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef) or node.args.kwarg is None:
                continue
            text = ast.unparse(node)
            asked = ("@overload", "refuse_call(", "locals()")
            if any(word in text for word in asked) or text.endswith(" ..."):
                continue
            name = node.args.kwarg.arg
            loads = [
                one
                for one in ast.walk(node)
                if isinstance(one, ast.Name) and one.id == name
                if isinstance(one.ctx, ast.Load)
            ]
            if not loads and node.name not in MAY_IGNORE:
                found.append(f"{path.name}:{node.lineno} {node.name}")
    assert not found
