# SPDX-License-Identifier: MIT
"""What programs for Keras 3 rely on without a word: attributes, names, own classes."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu import keras, tf
from ipu.keras import layers, ops

X = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)


class Scale(layers.Layer):
    """Has a weight of its own, a layer inside, and is not registered."""

    def __init__(self, factor: float = 2.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.factor = factor
        self.inner = layers.Dense(3)

    def build(self, input_shape: Any) -> None:
        self.gain = self.add_weight(
            shape=(input_shape[-1],), initializer="ones", name="gain"
        )
        self.inner.build(input_shape)

    def call(self, inputs: Any) -> Any:
        return self.inner(inputs) * ops.sum(self.gain.value) * self.factor

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "factor": self.factor}


class Apart(keras.losses.Loss):
    def call(self, y_true: Any, y_pred: Any) -> Any:
        return ops.mean(ops.abs(y_true - y_pred), axis=-1)


class Count(keras.metrics.Metric):
    def __init__(self, name: str = "count", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.total = self.add_variable(shape=(), initializer="zeros", name="total")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.total.assign(self.total.value + ops.cast(ops.size(y_pred), "float32"))

    def result(self) -> Any:
        return self.total.value


def smooth(y_true: Any, y_pred: Any) -> Any:
    return ops.mean(ops.log(ops.cosh(y_pred - y_true)), axis=-1)


def trained(loss: Any, metrics: Any = None) -> Any:
    model = keras.Sequential([keras.Input((4,)), Scale(3.0), layers.Dense(2)])
    model.compile("adam", loss, metrics=metrics)
    model.fit(X, X[:, :2], verbose=0)
    return model


def check_same(loaded: Any, model: Any) -> None:
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    y = X[:, :2]
    assert loaded.evaluate(X, y, verbose=0) == model.evaluate(X, y, verbose=0)
    assert int(loaded.optimizer.iterations) == 1


class Shifted(layers.Layer):
    """Says nothing about itself: what it was made with is its configuration."""

    def __init__(self, by: float, scale: float = 1.0) -> None:
        super().__init__()
        self.shift, self.scale = by, scale

    def call(self, inputs: Any) -> Any:
        return inputs * self.scale + self.shift


class Wider(layers.Dense):
    def __init__(self, units: int, times: int = 2, **kwargs: Any) -> None:
        super().__init__(units * times, **kwargs)


class Stack(keras.Model):
    def __init__(self, units: int, activation: str = "relu", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.first = layers.Dense(units, activation=activation)
        self.shifted, self.last = Shifted(0.5, scale=3.0), layers.Dense(1)

    def call(self, inputs: Any) -> Any:
        return self.last(self.shifted(self.first(inputs)))


class Bare(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.only = layers.Embedding(5, 2)

    def call(self, inputs: Any) -> Any:
        return self.only(inputs["word"]) * tf.reshape(inputs["weight"], (-1, 1))


class Around(keras.Model):
    """Describes itself as Keras 3's guides do."""

    def __init__(self, inner: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.inner = inner

    def call(self, inputs: Any) -> Any:
        return self.inner(inputs)

    def get_config(self) -> dict[str, Any]:
        inner = keras.saving.serialize_keras_object(self.inner)
        return {**super().get_config(), "inner": inner}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        inner = keras.saving.deserialize_keras_object(config.pop("inner"))
        return cls(inner, **config)


class Trained(keras.Model):
    """Is made of inputs and outputs, and trains in its own way."""

    def train_step(self, data: Any) -> dict[str, Any]:
        return {"mine": tf.reduce_mean(self(data[0]))}


class Network(keras.Model):
    """Connects layers in its constructor."""

    def __init__(self, units: int) -> None:
        inputs = keras.Input((4,))
        super().__init__(inputs, layers.Dense(units)(inputs))


def of_inputs() -> Any:
    inputs = keras.Input((4,))
    return Trained(inputs, layers.Dense(2)(inputs) * 2.0)


WORDS = {"word": np.arange(4) % 3, "weight": X[:4, 0]}
UNDESCRIBED: dict[str, tuple[Any, Any]] = {
    "a layer": (
        lambda: keras.Sequential([keras.Input((4,)), Shifted(2.0, scale=3.0)]),
        X,
    ),
    "a layer that is a Dense": (
        lambda: keras.Sequential([keras.Input((4,)), Wider(2, 3, activation="tanh")]),
        X,
    ),
    "a model": (lambda: Stack(3, activation="tanh", name="mine"), X),
    "a model without arguments": (Bare, WORDS),
    "a functional model": (of_inputs, X),
    "a model that connects layers": (lambda: Network(3), X),
    "a model around a layer": (lambda: Around(layers.Dense(3)), X),
}


@pytest.mark.parametrize("suffix", ["keras", "h5", "safetensors"])
@pytest.mark.parametrize("case", UNDESCRIBED)
def test_classes_are_known_by_the_arguments_they_were_made_with(
    case: str, suffix: str, tmp_path: Path
) -> None:
    make, x = UNDESCRIBED[case]
    model = make()
    expected = np.asarray(model(x))
    model.compile("adam", "mse")
    model.set_gradient_accumulation_options(2)
    path = tmp_path / f"model.{suffix}"
    model.save(path)
    kinds: Any = (Shifted, Wider, Stack, Bare, Around, Trained, Network)
    own = {one.__name__: one for one in kinds}
    again = keras.models.load_model(path, custom_objects=own)
    assert isinstance(again, next((k for k in kinds if isinstance(model, k)), object))
    np.testing.assert_array_equal(again(x), expected)
    assert again.name == model.name
    assert [v.shape for v in again.weights] == [v.shape for v in model.weights]
    assert again._options_config() == model._options_config()
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy(x), expected)


def test_copies_of_layers_keep_what_they_were_made_with() -> None:
    model = keras.Sequential([keras.Input((4,)), Shifted(2.0, scale=3.0)])
    again = keras.models.clone_model(model)
    np.testing.assert_array_equal(again(X), model(X))
    assert again.layers[0].name == model.layers[0].name


def test_what_no_arguments_describe_says_so() -> None:
    model = Shifted(np.ones(4))
    with pytest.raises(NotImplementedError, match=r"`by`.*must define get_config"):
        model.get_config()


def test_weights_that_a_file_has_are_not_left_there(tmp_path: Path) -> None:
    model = Stack(3)
    model(X)
    path = tmp_path / "model.keras"
    model.save(path)
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(files["config.json"])
    assert config["build_config"]["input_shape"] == [None, 4]
    del config["build_config"]  # as files of other programs
    files["config.json"] = json.dumps(config).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    with pytest.warns(UserWarning, match="weights of .* are not loaded"):
        again = keras.models.load_model(path, custom_objects={"Stack": Stack})
    again(X)
    again.load_weights(path)
    np.testing.assert_array_equal(again(X), model(X))


def test_files_have_classes_that_nobody_registered(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    model = trained(Apart(), [Count()])
    model.save(tmp_path / "model.keras")
    check_same(keras.models.load_model(tmp_path / "model.keras"), model)
    own = {"Scale": Scale, "Apart": Apart, "Count": Count}
    check_same(keras.models.load_model(tmp_path / "model.keras", own), model)
    assert not keras.saving.get_custom_objects()


@pytest.mark.parametrize("name", ["model.keras", "model.safetensors"])
def test_functions_of_metrics_count_after_loading(name: str, tmp_path: Path) -> None:
    if name.endswith("keras"):
        pytest.importorskip("h5py")
    model = trained(smooth, [smooth])
    model.save(tmp_path / name)
    told = (
        r"Unknown .* function: 'smooth', in the file .*custom_objects={'smooth': \.\."
    )
    with pytest.raises(ValueError, match=told):
        keras.models.load_model(tmp_path / name, {"Scale": Scale})
    loaded = keras.models.load_model(tmp_path / name, {"Scale": Scale}, compile=False)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    own = {"Scale": Scale, "smooth": smooth}
    check_same(keras.models.load_model(tmp_path / name, own), model)


def test_the_value_of_a_variable_is_called_or_not() -> None:
    v = tf.Variable([1.0, 2.0], name="a/b")
    assert v.path == "a/b" and v.value.shape == (2,) and v.value.dtype == tf.float32
    assert v.ndim == 1 and tf.Variable(np.ones((2, 3))).ndim == 2
    for found in (
        v.value + 1.0,
        1.0 + v.value,
        v.value() + 1.0,
        -(-v.value - 1.0),
        ops.add(v.value, 1.0),
        v.value + v.value - v + 1.0,
    ):
        assert found.numpy().tolist() == [2.0, 3.0]
    assert np.asarray(v.value).tolist() == v.value.numpy().tolist() == [1.0, 2.0]
    assert float(v.value[1]) == 2.0 and len(v.value) == 2
    assert f"{tf.Variable(0.5).value:.2f}" == "0.50" and repr(v.value) == repr(
        v.value()
    )

    @tf.function
    def doubled() -> Any:
        v.assign_add(v.value)
        return v.value, v.value[0]

    whole, first = doubled()
    assert whole.numpy().tolist() == [2.0, 4.0] and float(first) == 2.0
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(v.value * v.value)
    assert tape.gradient(total, v).numpy().tolist() == [4.0, 8.0]


def test_a_metric_may_give_the_value_of_a_variable() -> None:
    model = keras.Sequential([keras.Input((4,)), layers.Dense(2)])
    model.compile("adam", "mse", metrics=[Count()])
    history = model.fit(X, X[:, :2], epochs=2, verbose=0)
    assert history.history["count"] == [16.0, 16.0]
    assert model.evaluate(X, X[:, :2], verbose=0)[1] == 16.0


def test_variables_of_optimizers_are_called_or_not() -> None:
    model = trained("mse")
    found = model.optimizer.variables
    assert [v.path for v in found] == [v.path for v in model.optimizer.variables()]
    assert found[0] is model.optimizer.iterations and len(found) > 1


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("f1_score", keras.metrics.F1Score),
        ("r2_score", keras.metrics.R2Score),
        ("auc", keras.metrics.AUC),
        ("f_beta_score", keras.metrics.FBetaScore),
        ("mean_squared_error", None),
    ],
)
def test_classes_by_names_in_snake_case(name: str, kind: Any) -> None:
    found = keras.metrics.get(name)
    assert found is keras.metrics.mean_squared_error if kind is None else True
    assert kind is None or isinstance(found, kind)


def test_targets_for_the_outputs_that_have_a_loss() -> None:
    inputs = keras.Input((4,))
    first, second = layers.Dense(2, name="first"), layers.Dense(3, name="second")
    model = keras.Model(inputs, [first(inputs), second(inputs)])
    assert not model.compiled
    model.compile("sgd", loss=["mse", None], metrics=[["mae"], []])
    assert model.compiled
    model.fit(X, X[:, :2], verbose=0)
    found = model.evaluate(X, X[:, :2], verbose=0, return_dict=True)
    expected = np.mean((model.predict(X)[0] - X[:, :2]) ** 2)
    assert found["loss"] == pytest.approx(expected, rel=1e-5)
    assert sorted(found) == ["first_loss", "first_mae", "loss"]
    model.compile("sgd", loss=[None, "mse"])
    model.fit(X, X[:, :3], verbose=0)
    with pytest.raises(ValueError, match="one for each that has a loss"):
        model.fit(X, (X, X, X), verbose=0)
    model.compile("sgd", loss="mse")
    with pytest.raises(ValueError, match="but there are 1 targets"):
        model.fit(X, X[:, :2], verbose=0)


class Table(layers.Layer):
    """Keeps more in files than its variables."""

    words: Any = ()
    numbers: Any = None

    def build(self, input_shape: Any) -> None:
        self.kernel = self.add_weight(shape=(input_shape[-1], 2), name="kernel")

    def call(self, inputs: Any) -> Any:
        return ops.matmul(inputs, self.kernel)

    def save_own_variables(self, store: Any) -> None:
        super().save_own_variables(store)
        store["numbers"] = np.asarray(self.numbers)

    def load_own_variables(self, store: Any) -> None:
        store = dict(store)
        self.numbers = np.asarray(store.pop("numbers"))
        super().load_own_variables(store)

    def save_assets(self, folder: str) -> None:
        (Path(folder) / "deep").mkdir()
        (Path(folder) / "deep" / "words.txt").write_text(" ".join(self.words))

    def load_assets(self, folder: str) -> None:
        self.words = (Path(folder) / "deep" / "words.txt").read_text().split()


def test_layers_keep_things_of_their_own_in_files(tmp_path: Path) -> None:
    pytest.importorskip("h5py")

    def made() -> Any:
        return keras.Sequential([keras.Input((4,)), Table(name="table")])

    model = made()
    model.layers[0].words, model.layers[0].numbers = ["a", "b"], np.arange(3)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.layers[0].words == ["a", "b"]
    assert loaded.layers[0].numbers.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    model.save_weights(tmp_path / "model.weights.h5")
    other = made()
    other.load_weights(tmp_path / "model.weights.h5")
    assert other.layers[0].numbers.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    with pytest.warns(UserWarning, match=r"called for files that end in \.keras"):
        model.save(tmp_path / "model.safetensors")
    with pytest.raises(
        ValueError, match=r"2 variables of its own\. Received: 1 arrays"
    ):
        layer = layers.Dense(1)
        layer.build((None, 2))
        layer.load_own_variables({"0": np.ones((2, 1))})


def test_symbolic_values_and_what_layers_make_of_them() -> None:
    spec = keras.KerasTensor((None, 4), "float32")
    layer = layers.Dense(3)
    made = layer.compute_output_spec(spec)
    assert tuple(made.shape) == (None, 3) and made.dtype == tf.float32
    assert made.ndim == spec.ndim == 2 and layer.built
    inputs = keras.Input((4,))
    model = keras.Model(inputs, layer.symbolic_call(inputs))
    assert model.layers[-1] is layer


def test_layers_are_built_from_what_they_were_built_for(tmp_path: Path) -> None:
    class Own(keras.layers.Layer):
        def build(self, input_shape: Any) -> None:
            self.scale = self.add_weight("scale", (input_shape[-1],))

        def call(self, inputs: Any) -> Any:
            return inputs * self.scale

    for layer in (keras.layers.Dense(2), keras.layers.LSTM(2), Own()):
        assert layer.get_build_config() is None and not layer.built
        called, built = type(layer), type(layer).from_config(layer.get_config())
        layer(np.ones((1, 2, 3), np.float32))
        assert layer.get_build_config() == {"input_shape": (1, 2, 3)}
        built.build_from_config(layer.get_build_config())
        assert built.built and type(built) is called
        assert [v.shape for v in built.weights] == [v.shape for v in layer.weights]
        assert built.get_build_config() == layer.get_build_config()

    model = Stack(3)
    assert model.get_build_config() is None
    model(X)
    again = Stack(3)
    again.build_from_config(model.get_build_config())
    assert [v.shape for v in again.weights] == [v.shape for v in model.weights]


def test_the_path_of_a_layer_begins_those_of_its_weights() -> None:
    layer = keras.layers.LSTM(2, name="series")
    layer(np.ones((1, 2, 3), np.float32))
    assert (layer.path, layer.cell.path) == ("series", f"series/{layer.cell.name}")
    assert layer.weights[0].path == f"{layer.cell.path}/kernel"


def test_a_build_that_says_nothing_is_called_once() -> None:
    """Of a model, and of a class that is not a layer itself."""

    class Scaled:
        def build(self, input_shape: Any) -> None:
            self.scale = self.add_weight("scale", (4,))  # type: ignore[attr-defined]

        def call(self, inputs: Any) -> Any:
            return inputs * self.scale

    class Own(Scaled, layers.Layer):
        pass

    class OwnModel(Scaled, keras.Model):
        pass

    class Direct(keras.Model):
        build, call = Scaled.build, Scaled.call

    for made in (Own(), OwnModel(), Direct()):
        for _ in range(2):
            made(X)
        assert made.built and len(made.weights) == 1
        assert made.get_build_config() is not None
