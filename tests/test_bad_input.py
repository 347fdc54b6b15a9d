"""What people get wrong, each with the error that tells them.

A message names the rule, the argument, what was received, and the smallest change that
makes it right; an error of an op ends with the user's own line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import keras, tf

Dataset = tf.data.Dataset
layers = keras.layers
X = np.random.default_rng(0).random((64, 8), dtype=np.float32)
Y = np.arange(64, dtype=np.int32) % 4
SPARSE = "sparse_categorical_crossentropy"
HERE = r"\[.*test_bad_input\.py:\d+\]"


def ask_for(ipus: int) -> None:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


@pytest.fixture(autouse=True)
def scope(request: pytest.FixtureRequest) -> Iterator[None]:
    ask_for(getattr(request, "param", 1))
    with ipu.ipu_strategy.IPUStrategy().scope():
        yield
    ipu.config.reset_ipu_configuration()


def model(loss: Any = SPARSE, steps: int = 4, **how: Any) -> keras.Sequential:
    made = keras.Sequential(
        [
            layers.Dense(8, activation="relu", input_shape=(8,), name="hidden"),
            layers.Dense(4, activation="softmax", name="out"),
        ]
    )
    made.compile("sgd", loss, steps_per_execution=steps, **how)
    return made


def fit(x: Any, y: Any = None, loss: Any = SPARSE, steps: int = 4, **how: Any) -> None:
    if y is not None:
        how["batch_size"] = 16
    model(loss, steps).fit(x, y, verbose=0, **how)


def batches(x: Any = X, y: Any = Y) -> tf.data.Dataset:
    return Dataset.from_tensor_slices((x, y)).batch(16, drop_remainder=True)


def generated(elements: Callable[[], Any]) -> tf.data.Dataset:
    signature = (tf.TensorSpec((8,)), tf.TensorSpec((), tf.int32))
    data = Dataset.from_generator(elements, output_signature=signature)
    return data.batch(16, drop_remainder=True).repeat()


def failing() -> Iterator[Any]:
    yield from zip(X[:20], Y, strict=False)
    raise KeyError("the twenty-first")


def narrow() -> Iterator[Any]:
    yield X[0][:5], Y[0]


def named(text: str) -> Any:
    raise ZeroDivisionError(text)


Invalid = tf.errors.InvalidArgumentError
CASES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    # shapes and dtypes that do not fit
    "width of the data": (
        lambda: fit(X[:, :7], Y),
        ValueError,
        r"'hidden_input'.*expected shape=\(None, 8\), found shape=\(16, 7\)",
    ),
    "width for predict": (
        lambda: model().predict(X[:, :5], batch_size=16),
        ValueError,
        r"expected shape=\(None, 8\), found shape=\(16, 5\)",
    ),
    "shapes of a merge": (
        lambda: layers.Add(name="sum")([keras.Input((3,)), keras.Input((4,))]),
        ValueError,
        r'layer "sum" \(type Add\).*\(None, 3\) \(None, 4\)',
    ),
    "shapes of an op in a layer": (
        lambda: layers.Lambda(lambda a: tf.matmul(a, a), name="mm")(keras.Input((3,))),
        Invalid,
        rf'layer "mm".*\(None, 3\) .*3 columns meet None rows {HERE}',
    ),
    "shapes of targets": (
        lambda: fit(X, np.zeros((64, 3), "f4"), "mse"),
        Invalid,
        rf'"mean_squared_error": y_true of shape \(16, 3\), y_pred of .*4\).*{HERE}',
    ),
    "dtypes of an op": (
        lambda: tf.constant([1]) + tf.constant([1.0]),
        TypeError,
        r"tf\.cast",
    ),
    "lengths of x and y": (
        lambda: fit(X, Y[:60]),
        ValueError,
        r"x sizes: 64\s+y sizes: 60",
    ),
    # labels
    "a label too large": (
        lambda: fit(X, Y + 1),
        Invalid,
        rf"label 4 of row \d+ is outside the 4 classes.*{HERE}",
    ),
    "a negative label": (
        lambda: fit(X, Y - 1),
        Invalid,
        r"label -1 of row \d+ is outside the 4 classes",
    ),
    # amounts
    "a partial batch": (
        lambda: fit(X[:60], Y[:60]),
        ValueError,
        r"60 samples and batch_size=16.*batch_size=15.*drop_remainder=True",
    ),
    "a partial batch of a data set": (
        lambda: fit(Dataset.from_tensor_slices((X[:60], Y[:60])).batch(16)),
        ValueError,
        r"\(None, 8\).*`drop_remainder=True`",
    ),
    "a data set that ends early": (
        lambda: fit(batches(), steps_per_epoch=8, epochs=2),
        ValueError,
        r"at least 16 batches\. Received: 4 batches.*repeat\(\)",
    ),
    "no arrays": (
        lambda: fit(X[:0], Y[:0]),
        TypeError,
        r"the arrays are empty\. Received: 0 samples",
    ),
    "an empty data set": (
        lambda: fit(batches(X[:8], Y[:8])),
        ValueError,
        r"it is empty.*drop_remainder=True",
    ),
    "executions that do not divide": (
        lambda: fit(X, Y, steps=3),
        ValueError,
        r"\(3\) must be a divisor of the number of batches \(4\).*execution=2",
    ),
    # the user's own functions
    "a map function": (
        lambda: batches().map(lambda x, y: named("mine")),
        ZeroDivisionError,
        "mine",
    ),
    "a generator": (
        lambda: fit(generated(failing), steps_per_epoch=4),
        KeyError,
        "the twenty-first",
    ),
    "a generator's shapes": (
        lambda: fit(generated(narrow), steps_per_epoch=4),
        TypeError,
        r"yielded an element of shape \(5,\) where .* shape \(8,\)",
    ),
    # float64
    "a float64 layer": (
        lambda: layers.Dense(3, dtype="float64")(keras.Input((3,))),
        TypeError,
        r'layer "dense.*cannot be float64\[3,3\]; devices have float32, float16',
    ),
    # the order of things
    "fit before compile": (
        lambda: keras.Sequential([layers.Dense(1)]).fit(X, Y),
        RuntimeError,
        r"You must compile your model.*`model\.compile\(optimizer, loss\)`",
    ),
    # names
    "a loss": (lambda: model("mean_squared_eror"), ValueError, "mean_squared_error'"),
    "an optimizer": (
        lambda: keras.Sequential([]).compile("sdg", "mse"),
        ValueError,
        "Unknown optimizer: 'sdg'. Did you mean 'sgd'",
    ),
    "a metric": (
        lambda: model(metrics=["acuracy"]),
        ValueError,
        "Did you mean 'accuracy'",
    ),
    "an activation": (
        lambda: layers.Dense(3, activation="rellu"),
        ValueError,
        "Unknown activation function: 'rellu'. Did you mean 'relu'",
    ),
    "an initializer": (
        lambda: layers.Dense(3, kernel_initializer="glorot_unifrom"),
        ValueError,
        "Did you mean 'glorot_uniform'",
    ),
    "a layer class": (lambda: layers.Dens, AttributeError, "Did you mean 'Dense'"),
    "a layer's argument": (
        lambda: layers.Dense(3, activaton="relu"),
        TypeError,
        "'activaton'. Did you mean 'activation'",
    ),
    "an optimizer's argument": (
        lambda: keras.optimizers.SGD(learning_rat=1),
        TypeError,
        "'learning_rat'. Did you mean 'learning_rate'",
    ),
    "a layer of a model": (
        lambda: model().get_layer("hiden"),
        ValueError,
        r"No such layer: hiden\. Existing layers are: .* Did you mean 'hidden'",
    ),
    "an option": (
        lambda: setattr(ipu.config.IPUConfig(), "auto_select_ipu", 1),
        AttributeError,
        "Did you mean 'auto_select_ipus'",
    ),
    # devices
    "more IPUs than there are": (
        lambda: ask_for(10000),
        tf.errors.FailedPreconditionError,
        r"\[10000\], but there are 64.*IPU_NUM_IPUS",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_error(name: str) -> None:
    run, kind, text = CASES[name]
    with pytest.raises(kind, match=rf"(?s){text}"):
        run()


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda b: b[:-9], "is damaged or not a safetensors file; nothing was"),
        (lambda b: b"hello", "is damaged or not a safetensors file; nothing was"),
        (lambda b: None, "There is no weights file"),
    ],
    ids=["truncated", "foreign", "missing"],
)
def test_a_bad_weights_file_leaves_the_variables(
    damage: Callable[[bytes], bytes | None], text: str, tmp_path: Path
) -> None:
    one, file = model(), tmp_path / "w.safetensors"
    one.save_weights(str(file))
    content = damage(file.read_bytes())
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    before = one.get_weights()
    with pytest.raises((ValueError, FileNotFoundError), match=text):
        one.load_weights(str(file))
    for old, new in zip(before, one.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_a_model_is_usable_after_an_error() -> None:
    one = model()
    with pytest.raises(Invalid, match="is outside the 4 classes"):
        one.fit(X, Y + 1, batch_size=16, verbose=0)
    assert np.isfinite(one.fit(X, Y, batch_size=16, verbose=0).history["loss"]).all()


@pytest.mark.parametrize("scope", [2], indirect=True)
def test_fewer_batches_than_replicas() -> None:
    message = "contains 1 items, but all 2 replicas are requested to run"
    with pytest.raises(ValueError, match=message):
        fit(X[:16], Y[:16])


# --- functions -----------------------------------------------------------------------


def run(body: Callable[..., Any], *args: Any) -> Any:
    """A traced function, run on the device."""
    return tf.distribute.get_strategy().run(tf.function(body, jit_compile=True), args)


def test_numpy_in_a_function_names_the_op_to_use() -> None:
    with pytest.raises(TypeError, match=r"tf\.reduce_sum for np\.sum.*while a func"):
        run(lambda x: np.sum(x), tf.ones(3))


def test_a_leaked_tensor_says_so_when_it_is_read() -> None:
    kept: list[Any] = []

    def leaks(x: Any) -> Any:
        kept.append(x * 2)
        return x

    run(leaks, tf.ones(3))
    for read in (lambda t: t.numpy(), np.asarray, float):
        with pytest.raises(TypeError, match=r"outside of the function.*made by mul at"):
            read(kept[0])


def test_tensors_kept_in_a_python_list_of_a_loop() -> None:
    def collects(x: Any) -> Any:
        kept = []
        for _ in tf.range(3):
            kept.append(tf.reduce_sum(x))
        return kept

    with pytest.raises(TypeError, match=r"out of a loop, carry it.*tf\.TensorArray"):
        run(collects, tf.ones(3))


@pytest.mark.parametrize(
    "args", [tf.ones((4, 3)), np.ones(3, np.float32), {"x": 1}, 5, "text"]
)
def test_arguments_of_run_are_a_sequence(args: Any) -> None:
    strategy = tf.distribute.get_strategy()
    with pytest.raises(TypeError, match=r"args must be a list or tuple.*args=\(value,"):
        strategy.run(tf.function(lambda x: x), args)
    assert float(strategy.run(tf.function(lambda x: x), args=iter([2.0]))) == 2.0


def test_a_variable_that_plus_equals_replaced() -> None:
    def counts(x: Any) -> Any:
        nonlocal counter
        counter += x
        return counter

    counter = tf.Variable(1.0)
    with pytest.raises(tf.errors.NotFoundError, match=r"v\.assign_add\(x\) is meant"):
        run(counts, tf.constant(1.0))


def test_tensors_cannot_be_changed() -> None:
    x = tf.ones((4, 3))
    with pytest.raises(TypeError, match=r"item assignment.*tf\.where.*assign\(\)"):
        x[0] = 1.0  # type: ignore[index]
    with pytest.raises(TypeError, match=r"item assignment"):
        del x[0]  # type: ignore[attr-defined]


@pytest.mark.parametrize("index", [1.0, "a", (0, 1.5)])
def test_indices_are_whole_numbers(index: Any) -> None:
    with pytest.raises(TypeError, match=r"Only integers, slices.*Received: (1|'a')"):
        tf.ones((4, 3))[index]


def test_gradients_and_variables_the_wrong_way_round() -> None:
    v = tf.Variable(1.0)
    pairs = zip([v], [tf.constant(1.0)], strict=True)
    with pytest.raises(TypeError, match=r"pairs of a gradient and its variable.*zip\("):
        keras.optimizers.SGD(0.1).apply_gradients(pairs)


def test_formats_of_tensors_in_a_function() -> None:
    with pytest.raises(TypeError, match=r"'\.3f' needs the tensor's value.*tf\.print"):
        run(lambda x: f"{x:.3f}", tf.constant(1.0))


def test_a_tensor_as_the_index_of_a_list() -> None:
    with pytest.raises(TypeError, match="an index of a Python sequence needs the tens"):
        run(lambda i: [1, 2][i], tf.constant(0))


def test_repeat_with_its_arguments_swapped() -> None:
    with pytest.raises(TypeError, match=r"repeat\(n, body, inputs\).*body=2"):
        run(lambda: ipu.loops.repeat(lambda a: a + 1, 2, [0]))


@pytest.mark.parametrize("units", ["ten", None, 2.5, 0, True])
def test_units_are_a_number(units: Any) -> None:
    with pytest.raises(
        ValueError, match=r"`units` of Dense must be a positive integer"
    ):
        layers.Dense(units)


def test_variables_before_the_model_is_built() -> None:
    made = keras.Sequential([layers.Dense(2)])
    for ask in ("trainable_variables", "trainable_weights", "weights"):
        with pytest.raises(ValueError, match="have not yet been created"):
            getattr(made, ask)
    made(X)
    assert len(made.trainable_variables) == 2
