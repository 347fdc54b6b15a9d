# SPDX-License-Identifier: MIT
"""Names that Keras 3 has at the top, in `config`, `saving` and `tree`."""

from __future__ import annotations

import logging
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ipu import keras, tf
from ipu.keras._backend_state import state
from ipu.keras._serialization import _registered

tree = keras.tree
Point = namedtuple("Point", ["y", "x"])
X = np.ones((4, 3), np.float32)

structures = st.recursive(
    st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.tuples(inner, inner).map(lambda pair: Point(*pair))
    ),
    max_leaves=10,
)


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    before, registered = dict(vars(state)), dict(_registered)
    yield
    vars(state).update(before)
    _registered.clear()
    _registered.update(registered)


def test_classes_at_the_top() -> None:
    dense = keras.layers.Dense(2)
    dense.build((None, 3))
    pairs = {
        keras.Layer: dense,
        keras.Variable: dense.kernel,
        keras.KerasTensor: keras.Input((3,)),
        keras.Loss: keras.losses.MeanSquaredError(),
        keras.Metric: keras.metrics.Mean(),
        keras.Optimizer: keras.optimizers.Adam(),
        keras.Initializer: keras.initializers.Zeros(),
        keras.Regularizer: keras.regularizers.L2(),
        keras.DTypePolicy: keras.config.dtype_policy(),
    }
    for kind, instance in pairs.items():
        assert isinstance(instance, kind)
    assert not isinstance(X, keras.Variable)
    assert keras.version() == keras.__version__
    assert repr(keras.KerasTensor((2, None))) == (
        "<KerasTensor: shape=(2, None) dtype=float32>"
    )
    with keras.device("cpu:0"), keras.name_scope("here"):
        assert float(tf.constant(1.0)) == 1.0


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (([1, 2],), np.float32([1, 2])),
        ((np.float64([1]),), np.float32([1])),
        ((np.int64([1]),), np.int32([1])),
        ((True, None, "bool"), np.array(True)),
        (("ones", (2,), "int32"), np.int32([1, 1])),
        ((keras.initializers.Constant(3), (1,)), np.float32([3])),
    ],
)
def test_variables(given: Any, wanted: Any) -> None:
    variable = keras.Variable(*given, trainable=False, name="v")
    assert variable.dtype.name == wanted.dtype.name
    assert variable.name == "v:0" and not variable.trainable
    np.testing.assert_array_equal(variable, wanted)


def test_variables_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="needs its shape"):
        keras.Variable("zeros")
    with pytest.raises(ValueError, match="has shape"):
        keras.Variable([1.0], shape=(2,))


def test_what_is_added_to_a_variable_is_broadcast() -> None:
    variable = keras.Variable(np.zeros((2, 3)))
    assert variable.assign_add([1, 2, 3]) is variable
    assert variable.assign_sub(1).numpy().tolist() == [[0.0, 1.0, 2.0]] * 2

    @tf.function
    def twice() -> None:
        variable.assign_add(variable[0])

    twice()
    assert variable.numpy().tolist() == [[0.0, 2.0, 4.0]] * 2
    with pytest.raises(tf.errors.InvalidArgumentError, match="do not broadcast"):
        variable.assign_add([1.0, 2.0])
    with pytest.raises(ValueError, match="Shape mismatch"):
        variable.assign_add(np.zeros((4, 2, 3)))


def test_functions() -> None:
    a, b = keras.Input((3,)), keras.Input((3,))
    function = keras.Function([a, b], {"sum": a + b})
    np.testing.assert_array_equal(function([X, X])["sum"], 2 * X)


def test_a_metric_with_variables() -> None:
    class Count(keras.Metric):
        def __init__(self) -> None:
            super().__init__(name="count")
            self.seen = self.add_variable(shape=(), initializer="zeros", name="seen")

        def update_state(self, *values: Any, sample_weight: Any = None) -> None:
            self.seen.assign_add(1.0)

        def result(self) -> Any:
            return self.seen.value()

    metric = Count()
    metric.update_state(1.0)
    assert float(metric.result()) == 1.0 and len(metric.variables) == 1


# --- config


def test_settings_are_those_of_the_backend() -> None:
    keras.config.set_epsilon(1e-3)
    keras.config.set_image_data_format("channels_first")
    keras.config.set_floatx("float16")
    backend = keras.backend
    assert (backend.epsilon(), backend.floatx()) == (1e-3, "float16")
    assert backend.image_data_format() == "channels_first"
    keras.config.set_dtype_policy("mixed_float16")
    assert keras.config.dtype_policy().name == "mixed_float16"
    assert keras.layers.Dense(1).compute_dtype == "float16"
    assert keras.config.backend() == "ipu"


def test_progress_for_the_logger(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(3,))])
    model.compile("sgd", "mse")
    keras.config.disable_interactive_logging()
    with caplog.at_level(logging.INFO, "ipu"):
        model.fit(X, X[:, :1])
    assert "Epoch 1/1" in caplog.text
    keras.config.enable_interactive_logging()
    model.fit(X, X[:, :1])
    assert capsys.readouterr().out.count("Epoch 1/1") == 1


def test_files_may_bring_code(tmp_path: Path) -> None:
    layer = keras.layers.Lambda(lambda x: x + 1)
    model = keras.Sequential([keras.Input((3,)), layer])
    model.save(tmp_path / "m.keras")
    with pytest.raises(ValueError, match="safe_mode=False"):
        keras.saving.load_model(tmp_path / "m.keras")
    keras.config.enable_unsafe_deserialization()
    other = keras.saving.load_model(tmp_path / "m.keras")
    np.testing.assert_array_equal(other(X), X + 1)


# --- saving


@pytest.mark.parametrize("suffix", [".keras", ".safetensors", ".h5"])
def test_a_layer_that_holds_others(tmp_path: Path, suffix: str) -> None:
    saving = keras.saving

    @saving.register_keras_serializable()
    class Around(keras.Layer):
        def __init__(self, parts: Any, act: Any, **options: Any) -> None:
            super().__init__(**options)
            self.parts, self.act = parts, act
            self.factor = keras.Variable(2.0, name="factor")

        def call(self, x: Any) -> Any:
            for part in self.parts:
                x = part(x)
            return self.act(x) * self.factor

        def get_config(self) -> dict[str, Any]:
            own = {"parts": self.parts, "act": self.act}
            return {**super().get_config(), **saving.serialize_keras_object(own)}

        @classmethod
        def from_config(cls, config: dict[str, Any]) -> Any:
            return cls(**saving.deserialize_keras_object(config))

    @saving.register_keras_serializable()
    def halved(x: Any) -> Any:
        return x / 2

    dense = [keras.layers.Dense(4, "relu"), keras.layers.Dense(2)]
    model = keras.Sequential([keras.Input((3,)), Around(dense, halved)])
    model.layers[0].factor.assign(5.0)
    saving.save_model(model, tmp_path / f"m{suffix}")
    other = saving.load_model(tmp_path / f"m{suffix}")
    np.testing.assert_array_equal(model(X), other(X))
    assert len(other.weights) == 5


@pytest.mark.parametrize(
    "made",
    [
        keras.layers.Conv2D(3, 2),
        keras.losses.Huber(2.0),
        keras.metrics.AUC(num_thresholds=10),
        keras.optimizers.Adam(0.1),
        keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5),
        keras.regularizers.L2(0.1),
        keras.DTypePolicy("mixed_float16"),
        keras.Sequential([keras.layers.Dense(1, input_shape=(3,))]),
    ],
    ids=lambda made: type(made).__name__,
)
def test_objects_come_back(made: Any) -> None:
    told = keras.saving.serialize_keras_object({"a": [made, 1, "text", None]})
    other = keras.saving.deserialize_keras_object(told)["a"]
    assert other[1:] == [1, "text", None]
    assert type(other[0]) is type(made)
    assert other[0].get_config() == made.get_config()


def test_what_keras_3_writes_of_a_layer() -> None:
    told = {
        "module": "keras.layers",
        "class_name": "Dense",
        "config": {
            "units": 3,
            "kernel_initializer": {
                "module": "keras.initializers",
                "class_name": "HeNormal",
                "config": {"seed": 1},
                "registered_name": None,
            },
        },
        "registered_name": None,
    }
    layer = keras.saving.deserialize_keras_object(told)
    assert layer.kernel_initializer.seed == 1
    with pytest.raises(ValueError, match="'Dense'"):
        keras.saving.deserialize_keras_object({"class_name": "Dens", "config": {}})


# --- tree


@given(structures)
def test_paths_lead_to_the_leaves(structure: Any) -> None:
    pairs = tree.flatten_with_path(structure)
    assert [leaf for _, leaf in pairs] == tree.flatten(structure)
    for path, leaf in pairs:
        found = structure
        for key in path:
            is_field = isinstance(found, Point)
            found = getattr(found, key) if is_field else found[key]
        assert found == leaf
    assert tree.traverse(lambda _: None, structure) == structure
    leaves = tree.flatten(tree.map_structure(lambda x: x + 1, structure))
    assert tree.pack_sequence_as(structure, [x - 1 for x in leaves]) == structure


def test_traversal() -> None:
    seen: list[Any] = []
    tree.traverse(seen.append, {"b": [1], "a": 2})
    assert seen == [{"b": [1], "a": 2}, 2, [1], 1]
    seen.clear()
    tree.traverse(seen.append, {"b": [1], "a": 2}, top_down=False)
    assert seen == [2, 1, [1], {"b": [1], "a": 2}]
    none = tree.MAP_TO_NONE
    assert tree.traverse(lambda x: none if x == 1 else None, (1, 2)) == (None, 2)
    assert tree.lists_to_tuples([1, {"a": [2, (3,)]}]) == (1, {"a": (2, (3,))})
    shapes = {"a": [(1, None), (2,)], "b": ()}
    assert tree.map_shape_structure(list, shapes) == {"a": [[1, None], [2]], "b": []}
    deep = {"a": (1, [2]), "b": 3}
    assert tree.map_structure_up_to({"a": 0, "b": 0}, repr, deep) == {
        "a": "(1, [2])",
        "b": "3",
    }
    assert tree.is_nested([1]) and not tree.is_nested("a")


@pytest.mark.parametrize(
    "call",
    [
        lambda: tree.assert_same_structure([1], [1, 2]),
        lambda: tree.assert_same_paths([1], {"a": 1}),
        lambda: tree.map_structure_up_to((1, 2), repr, (1,)),
        lambda: tree.map_structure_up_to((1, 2), repr),
        lambda: tree.pack_sequence_as([1], [1, 2]),
    ],
)
def test_structures_that_differ(call: Any) -> None:
    with pytest.raises(ValueError):
        call()
