# SPDX-License-Identifier: MIT
"""``keras.keras_parameterized``: tests for each kind of model.

Its ``TestCase`` is built on the package absl-py, as in Keras itself.
"""

from __future__ import annotations

import importlib
from typing import Any

from ipu._text.exports import defined
from ipu.drop_in.stand_ins import keras_combinations
from ipu.tf._testing.case import TestCase as _TestCase

parameterized: Any = importlib.import_module("absl.testing.parameterized")


class TestCase(_TestCase, parameterized.TestCase):  # type: ignore[misc]
    """A test case for Keras models."""

    def tearDown(self) -> None:
        """Start automatic names again."""
        from ipu import keras

        keras.backend.clear_session()
        super().tearDown()


def _decorator(test_or_class: Any, combinations: list[dict[str, Any]]) -> Any:
    decorate = keras_combinations.generate(combinations)
    return decorate if test_or_class is None else decorate(test_or_class)


def run_with_all_model_types(
    test_or_class: Any = None, exclude_models: Any = None
) -> Any:
    """Run a test once for each kind of model."""
    excluded = [exclude_models] if isinstance(exclude_models, str) else exclude_models
    kinds = ["functional", "subclass", "sequential"]
    chosen = [kind for kind in kinds if kind not in (excluded or ())]
    return _decorator(test_or_class, keras_combinations.combine(model_type=chosen))


def run_all_keras_modes(test_or_class: Any = None, **options: Any) -> Any:
    """Run a test in the one mode there is: compiled functions, eagerly traced."""
    del options
    return _decorator(test_or_class, keras_combinations.keras_mode_combinations())


def run_with_all_saved_model_formats(test_or_class: Any = None, **options: Any) -> Any:
    """Raise: there are no saved models yet."""
    import unittest

    del options
    skip = unittest.skip("saved models come with a later version")
    return skip if test_or_class is None else skip(test_or_class)


__all__ = defined(__name__)
