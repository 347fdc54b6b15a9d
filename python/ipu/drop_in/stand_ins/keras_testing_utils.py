# SPDX-License-Identifier: MIT
"""``keras.testing_utils``: small models, data and switches of Keras's own tests."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ipu import keras
from ipu._device.thread_state import here
from ipu._text.exports import defined
from ipu._text.missing import refuse
from ipu.drop_in.stand_ins.test_util import (
    deprecated_graph_mode_only as deprecated_graph_mode_only,
    run_v2_only as run_v2_only,
)
from ipu.tf._testing.compare import as_array

_HERE = "keras.testing_utils"


def enable_v2_dtype_behavior(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a decorator without effect: layers cast to their dtype, as in
    TensorFlow 2."""
    return fn


disable_v2_dtype_behavior = enable_v2_dtype_behavior


def for_all_test_methods(
    decorator: Callable[..., Any], *args: Any, **kwargs: Any
) -> Callable[[Any], Any]:
    """Return a decorator for classes that decorates each of their tests."""
    from ipu.drop_in.stand_ins import test_util

    return test_util.for_all_test_methods(decorator, *args, **kwargs)


def should_run_eagerly() -> bool:
    """Return what a test should pass as ``run_eagerly`` to ``compile``: False."""
    return here.tests_run_eagerly


def run_eagerly_scope(value: bool) -> contextlib.AbstractContextManager[None]:
    """Choose what :func:`should_run_eagerly` gives inside."""
    return here.setting(tests_run_eagerly=value)


def get_model_type() -> str:
    """Return which kind of model a test should make."""
    if here.test_model_type is None:
        raise ValueError(
            "There is no current model type. Decorate the test with "
            "run_with_all_model_types, or use model_type_scope."
        )
    return here.test_model_type


def model_type_scope(value: str | None) -> contextlib.AbstractContextManager[None]:
    """Choose the kind of model: "sequential", "functional" or "subclass"."""
    return here.setting(test_model_type=value)


@contextlib.contextmanager
def use_gpu() -> Iterator[None]:
    """Open a context without effect: there is no GPU."""
    yield


def string_test(actual: Any, expected: Any) -> None:
    """Check that two strings are equal."""
    np.testing.assert_array_equal(actual, expected)


def numeric_test(actual: Any, expected: Any) -> None:
    """Check that two arrays are close."""
    np.testing.assert_allclose(as_array(actual), as_array(expected), 1e-3, 1e-6)


def get_test_data(
    train_samples: int,
    test_samples: int,
    input_shape: tuple[int, ...],
    num_classes: int,
    random_seed: int | None = None,
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Return points around one random centre for each class."""
    if random_seed is not None:
        np.random.seed(random_seed)
    count = train_samples + test_samples
    centres = 2 * num_classes * np.random.random((num_classes, *input_shape))
    y = np.random.randint(0, num_classes, size=(count,))
    noise = np.random.normal(loc=0, scale=1.0, size=(count, *input_shape))
    x = (centres[y] + noise).astype(np.float32)
    n = train_samples
    return (x[:n], y[:n]), (x[n:], y[n:])


def generate_combinations_with_testcase_name(**kwargs: Any) -> list[dict[str, Any]]:
    """Return all combinations of lists of values, each with a ``testcase_name``.

    Args:
        **kwargs: A list of values, or one value, for each argument of the test.

    Example:
        >>> generate_combinations_with_testcase_name(a=[1, 2])[1]
        {'a': 2, 'testcase_name': '_test_a_2'}
    """
    lists = [v if isinstance(v, list) else [v] for v in kwargs.values()]
    made: list[dict[str, Any]] = []
    for number, values in enumerate(itertools.product(*lists)):
        one = dict(zip(kwargs, values, strict=True))
        words = [f"{k}_{getattr(v, '__name__', v)}" for k, v in one.items()]
        name = "".join(c for c in "_".join(words) if c.isalnum() or c == "_")
        if any(one["testcase_name"] == f"_test_{name}" for one in made):
            name += f"_{number}"
        made.append({**one, "testcase_name": f"_test_{name}"})
    return made


# --- models


class Bias(keras.layers.Layer):
    """A layer that adds a weight, zero at first, to its input."""

    def build(self, input_shape: Any) -> None:
        self.bias = self.add_weight("bias", tuple(input_shape[1:]), initializer="zeros")
        super().build(input_shape)

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        return inputs + self.bias


def _run_layers(value: Any, layers: list[Any]) -> Any:
    for layer in layers:
        value = layer(value)
    return value


def _mlp_layers(num_hidden: int, num_classes: int, **first: Any) -> list[Any]:
    return [
        keras.layers.Dense(num_hidden, activation="relu", **first),
        keras.layers.Dense(
            num_classes, activation="sigmoid" if num_classes == 1 else "softmax"
        ),
    ]


class SmallSubclassMLP(keras.Model):
    """A model of two dense layers, as a subclass of ``Model``."""

    def __init__(self, num_hidden: int, num_classes: int, **kwargs: Any) -> None:
        super().__init__(name="test_model", **kwargs)
        self.layer_a, self.layer_b = _mlp_layers(num_hidden, num_classes)

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        return self.layer_b(self.layer_a(inputs))


def get_small_sequential_mlp(
    num_hidden: int, num_classes: int, input_dim: int | None = None
) -> Any:
    """Return two dense layers as a ``Sequential``; built where ``input_dim`` is
    given."""
    first = {} if input_dim is None else {"input_shape": (input_dim,)}
    return keras.Sequential(_mlp_layers(num_hidden, num_classes, **first))


def get_small_functional_mlp(num_hidden: int, num_classes: int, input_dim: int) -> Any:
    """Return two dense layers as a functional model."""
    inputs = keras.Input(shape=(input_dim,))
    layers = _mlp_layers(num_hidden, num_classes)
    return keras.Model(inputs, _run_layers(inputs, layers))


def get_small_subclass_mlp(num_hidden: int, num_classes: int) -> SmallSubclassMLP:
    """Return two dense layers as a subclass of ``Model``."""
    return SmallSubclassMLP(num_hidden, num_classes)


def get_small_mlp(num_hidden: int, num_classes: int, input_dim: int) -> Any:
    """Return two dense layers, as the current model type says."""
    kind = get_model_type()
    if kind.startswith("subclass"):
        return get_small_subclass_mlp(num_hidden, num_classes)
    if kind == "functional":
        return get_small_functional_mlp(num_hidden, num_classes, input_dim)
    return get_small_sequential_mlp(num_hidden, num_classes, input_dim)


class _SubclassModel(keras.Model):
    """Layers one after the other, as a subclass of ``Model``."""

    def __init__(self, model_layers: list[Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.all_layers = model_layers

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        return _run_layers(inputs, self.all_layers)


def get_model_from_layers(
    model_layers: list[Any],
    input_shape: tuple[int, ...] | None = None,
    input_dtype: Any = None,
    name: str | None = None,
    input_ragged: bool | None = None,
    input_sparse: bool | None = None,
    model_type: str | None = None,
) -> Any:
    """Return a model of layers one after the other, as the current model type says."""
    if input_ragged or input_sparse:
        refuse(f"{_HERE}.get_model_from_layers with ragged or sparse input")
    kind = model_type or get_model_type()
    if kind.startswith("subclass"):
        return _SubclassModel(model_layers, name=name)
    if kind == "sequential":
        model = keras.Sequential(name=name)
        if input_shape is not None:
            first = keras.layers.InputLayer(input_shape=input_shape, dtype=input_dtype)
            model.add(first)
        for layer in model_layers:
            model.add(layer)
        return model
    if input_shape is None:
        raise ValueError("A functional model needs `input_shape`.")
    inputs = keras.Input(shape=input_shape, dtype=input_dtype)
    return keras.Model(inputs, _run_layers(inputs, model_layers), name=name)


class _MultiIOModel(keras.Model):
    """Two branches of layers, with layers before and after them that they share."""

    def __init__(self, branches: list[list[Any]], before: Any, after: Any) -> None:
        super().__init__()
        self.branches = branches
        self.before = before
        self.after = after

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        return _run_branches(inputs, self.branches, self.before, self.after)


def _run_branches(
    inputs: Any, branches: list[list[Any]], before: Any, after: Any
) -> Any:
    starts = inputs
    if before is not None:
        starts = [_run_layers(inputs, before)] * len(branches)
    ends = [_run_layers(x, b) for x, b in zip(starts, branches, strict=True)]
    return ends if after is None else _run_layers(ends, after)


def get_multi_io_model(
    branch_a: list[Any],
    branch_b: list[Any],
    shared_input_branch: list[Any] | None = None,
    shared_output_branch: list[Any] | None = None,
) -> Any:
    """Return a model of two branches, as the current model type says."""
    kind = get_model_type()
    if kind.startswith("subclass"):
        branches = [branch_a, branch_b]
        return _MultiIOModel(branches, shared_input_branch, shared_output_branch)
    if kind != "functional":
        raise ValueError(
            "A model of several branches is functional or a subclass. "
            f"Received: model type {kind!r}."
        )
    if shared_input_branch is None:
        inputs: Any = [branch_a[0], branch_b[0]]
        branches, before = [branch_a[1:], branch_b[1:]], None
    else:
        inputs, before = shared_input_branch[0], shared_input_branch[1:]
        branches = [branch_a, branch_b]
    outputs = _run_branches(inputs, branches, before, shared_output_branch)
    return keras.Model(inputs, outputs)


def get_v2_optimizer(name: str, **kwargs: Any) -> Any:
    """Return an optimizer by name, with arguments."""
    found = {key.lower(): key for key in dir(keras.optimizers)}
    return getattr(keras.optimizers, found[name.lower()])(**kwargs)


def layer_test(
    layer_cls: Any,
    kwargs: dict[str, Any] | None = None,
    input_shape: Any = None,
    input_dtype: Any = None,
    input_data: Any = None,
    expected_output: Any = None,
    expected_output_dtype: Any = None,
    expected_output_shape: Any = None,
    validate_training: bool = True,
    custom_objects: Any = None,
    **options: Any,
) -> Any:
    """Make a layer, run it in a model, train it for a step and check what it gives."""
    del custom_objects, options
    if input_data is None:
        shape = [np.random.randint(1, 4) if n is None else n for n in input_shape]
        input_data = (10 * np.random.random(shape) - 0.5).astype(
            input_dtype or "float32"
        )
    data = as_array(input_data)
    layer = layer_cls(**(kwargs or {}))
    weights = layer.get_weights()
    layer.set_weights(weights)
    layer_cls.from_config(layer.get_config())
    inputs = keras.Input(shape=data.shape[1:], dtype=data.dtype.name)
    model = keras.Model(inputs, layer(inputs))
    result = as_array(model.predict(data, batch_size=len(data)))
    if expected_output_dtype is not None:
        assert result.dtype == np.dtype(expected_output_dtype), result.dtype
    if expected_output_shape is not None:
        wanted = tuple(expected_output_shape)
        assert len(wanted) == result.ndim, (wanted, result.shape)
        fits = (w is None or w == n for w, n in zip(wanted, result.shape, strict=True))
        assert all(fits), (wanted, result.shape)
    if expected_output is not None:
        np.testing.assert_allclose(result, as_array(expected_output), 1e-3, 1e-6)
    if validate_training and data.dtype.kind == "f":
        model.compile("rmsprop", "mse")
        model.fit(data, result, batch_size=len(data), verbose=0)
    return result


__all__ = defined(__name__, ["deprecated_graph_mode_only", "run_v2_only"])
