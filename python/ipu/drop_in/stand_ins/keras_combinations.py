# SPDX-License-Identifier: MIT
"""``keras.combinations``: tests that run once for each combination of arguments.

Combinations in graph mode are left out: graphs of TensorFlow 1 come with a later
version.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable
from typing import Any

from ipu._device.thread_state import here
from ipu._text.exports import defined

# unittest leaves frames of such modules out of tracebacks
__unittest = True


class NamedObject:
    """An object with a name for the names of tests."""

    def __init__(self, name: str, obj: Any) -> None:
        self._name = name
        self._obj = obj

    def __getattr__(self, name: str) -> Any:
        return getattr(self._obj, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._obj(*args, **kwargs)

    def __repr__(self) -> str:
        return self._name


def combine(**kwargs: Any) -> list[dict[str, Any]]:
    """Return all combinations of lists of values.

    Args:
        **kwargs: A list of values, or one value, for each argument.

    Example:
        >>> combine(a=[1, 2], b="x")
        [{'a': 1, 'b': 'x'}, {'a': 2, 'b': 'x'}]
    """
    lists = [v if isinstance(v, list) else [v] for v in kwargs.values()]
    return [
        dict(zip(kwargs, values, strict=True)) for values in itertools.product(*lists)
    ]


def times(*combined: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return all combinations of lists of combinations.

    Example:
        >>> times(combine(a=[1, 2]), combine(b=3))
        [{'a': 1, 'b': 3}, {'a': 2, 'b': 3}]
    """
    made = []
    for several in itertools.product(*combined):
        one: dict[str, Any] = {}
        for part in several:
            one.update(part)
        made.append(one)
    return made


def keras_mode_combinations(
    mode: Any = None, run_eagerly: Any = None
) -> list[dict[str, Any]]:
    """Return the modes that Keras tests run in: compiled functions, eagerly traced."""
    del run_eagerly
    modes = ["eager"] if mode is None else list(mode)
    return combine(mode=[m for m in modes if m == "eager"], run_eagerly=False)


def keras_model_type_combinations() -> list[dict[str, Any]]:
    """Return the kinds of models."""
    return combine(model_type=["sequential", "functional", "subclass"])


def keras_tensor_combinations() -> list[dict[str, Any]]:
    """Return the one kind of symbolic tensors."""
    return combine(use_keras_tensors=["True"])


def generate(
    combinations: list[dict[str, Any]], test_combinations: Any = ()
) -> Callable[[Any], Any]:
    """Run a test, or each test of a class, once for each combination."""
    del test_combinations
    chosen = [one for one in combinations if one.get("mode", "eager") != "graph"]

    def decorate(decorated: Any) -> Any:
        if inspect.isclass(decorated):
            for name, value in list(vars(decorated).items()):
                if name.startswith("test") and _is_test(value):
                    setattr(decorated, name, _each(value, chosen))
            return decorated
        return _each(decorated, chosen)

    return decorate


def _is_test(value: Any) -> bool:
    return callable(value) or isinstance(value, Iterable)


def _each(test: Any, combinations: list[dict[str, Any]]) -> Any:
    """Return one test that runs all combinations; each of several that absl
    generates."""
    if isinstance(test, Iterable):
        return [_each(one, combinations) for one in test]
    from ipu.drop_in.stand_ins import keras_testing_utils as modes

    accepted = set(inspect.signature(test).parameters)

    @functools.wraps(test)
    def run(self: Any, *args: Any, **kwargs: Any) -> None:
        if not combinations:
            self.skipTest("graph mode comes with a later version")
        for one in combinations:
            arguments = {k: v for k, v in one.items() if k in accepted}
            kind: Any = one.get("model_type", here.test_model_type)
            with (
                self.subTest(**{k: str(v) for k, v in one.items()}),
                modes.model_type_scope(kind),
                modes.run_eagerly_scope(False),
            ):
                test(self, *args, **{**arguments, **kwargs})

    return run


__all__ = defined(__name__)
