# SPDX-License-Identifier: MIT
"""Updates of variables in one pass: the bits of the ops one by one, whatever they are.

The numbers themselves are those of an oracle in tests/test_custom_training.py and
tests/op_cases/resources.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import _core, keras, loops, tf
from ipu.tf import _tracing
from ipu.tf._function import DeviceFunction

RNG = np.random.default_rng(7)
SHAPES = ((70, 130), (130,), (3, 5), (5,), (), (0, 4), (1,), (33, 257))
STEPS = 4


def decaying(gradient: Any, variable: Any) -> Any:
    return gradient + 0.01 * variable.value()


class Lion(keras.optimizers.Optimizer):
    """A user's own: the sign of a mixture, with decay of the weights."""

    def _create_slots(self, var_list: Any) -> None:
        for var in var_list:
            self.add_slot(var, "m")

    def _resource_apply_dense(
        self, grad: Any, var: Any, apply_state: Any = None
    ) -> Any:
        m = self.get_slot(var, "m")
        rate = tf.cast(self._current_rate, grad.dtype)
        mixed = 0.9 * m.value() + 0.1 * grad
        step = tf.sign(mixed) + 0.05 * var.value()
        var.assign_sub(rate * step)
        return m.assign(0.99 * m.value() + 0.01 * grad)


class Long(Lion):
    """More instructions than one part of the code may have."""

    def _resource_apply_dense(
        self, grad: Any, var: Any, apply_state: Any = None
    ) -> Any:
        m = self.get_slot(var, "m")
        mean = m.value()
        for k in range(30):
            mean = mean * (0.9 + 0.001 * k) + grad
        m.assign(mean)
        return var.assign_sub(mean * 0.001)


class Swap(Lion):
    """A slot and a weight change places."""

    def _resource_apply_dense(
        self, grad: Any, var: Any, apply_state: Any = None
    ) -> Any:
        m = self.get_slot(var, "m")
        before, mean = var.value(), m.value()
        var.assign(mean)
        m.assign(before)
        return var.assign_add(grad * 0.5)


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "nesterov": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "adam": lambda: keras.optimizers.Adam(0.01, epsilon=1e-3),
    "amsgrad": lambda: keras.optimizers.Adam(0.01, amsgrad=True, epsilon=1e-3),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.01, epsilon=1e-3),
    "rmsprop_momentum": lambda: keras.optimizers.RMSprop(
        0.01, momentum=0.9, epsilon=1e-3
    ),
    "rmsprop_centered": lambda: keras.optimizers.RMSprop(
        0.01, centered=True, epsilon=1e-3
    ),
    "rmsprop_both": lambda: keras.optimizers.RMSprop(
        0.01, centered=True, momentum=0.5, epsilon=1e-3
    ),
    "adagrad": lambda: keras.optimizers.Adagrad(0.1, epsilon=1e-3),
    "adadelta": lambda: keras.optimizers.Adadelta(1.0, epsilon=1e-3),
    "adamax": lambda: keras.optimizers.Adamax(0.01, epsilon=1e-3),
    "nadam": lambda: keras.optimizers.Nadam(0.01, epsilon=1e-3),
    "ftrl": lambda: keras.optimizers.Ftrl(
        0.1, l1_regularization_strength=0.01, l2_regularization_strength=0.01
    ),
    "ftrl_power": lambda: keras.optimizers.Ftrl(0.1, learning_rate_power=-0.4),
    "clipped": lambda: keras.optimizers.Adam(0.01, clipnorm=0.5, epsilon=1e-3),
    "clipped_together": lambda: keras.optimizers.SGD(
        0.1, momentum=0.9, global_clipnorm=0.5
    ),
    "clipped_value": lambda: keras.optimizers.RMSprop(
        0.01, clipvalue=0.1, epsilon=1e-3
    ),
    "decayed_rate": lambda: keras.optimizers.SGD(0.1, momentum=0.9, decay=0.1),
    "decayed_weights": lambda: keras.optimizers.Adam(
        0.01,
        epsilon=1e-3,
        gradient_transformers=[lambda pairs: [(decaying(g, v), v) for g, v in pairs]],
    ),
    "lion": lambda: Lion(0.01),
    "long": lambda: Long(0.01),
    "swap": lambda: Swap(0.01),
}


class Unfused:
    """A trace whose program is made without the fuse pass."""

    def __init__(self, opened: Any, **options: bool) -> None:
        self.opened = opened
        self.options = options

    def compile(self, **given: Any) -> Any:
        return self.opened.compile(**{**given, **self.options, "verify": True})

    def __getattr__(self, name: str) -> Any:
        return getattr(self.opened, name)


def trained(
    name: str, dtype: str, monkeypatch: pytest.MonkeyPatch, **options: bool
) -> tuple[list[np.ndarray], str]:
    """All variables after a few steps in a loop, and the program."""
    rng = np.random.default_rng(11)
    starts = [np.asarray(rng.normal(size=s)).astype(dtype) for s in SHAPES]
    pulls = [np.asarray(rng.normal(size=s)).astype(dtype) for s in SHAPES]
    weights = [tf.Variable(v) for v in starts]
    optimizer = OPTIMIZERS[name]()
    optimizer._create_all_weights(weights)

    def step() -> None:
        gradients = [w * 0.5 - p for w, p in zip(weights, pulls, strict=True)]
        optimizer.apply_gradients(zip(gradients, weights, strict=True))

    real = _tracing._trace

    def changed(*args: Any) -> Any:
        opened, *rest = real(*args)
        return Unfused(opened, **options), *rest

    with monkeypatch.context() as patch:
        patch.setattr(_tracing, "_trace", changed)
        loop = DeviceFunction(lambda: loops.repeat(STEPS, step, []))
        loop()
        shown = loop.traced().program.text
    return [v.numpy() for v in (*weights, *optimizer.weights)], shown


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_a_fused_update_has_the_bits_of_its_ops(
    name: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ipu.num_threads()
    want, shown = trained(name, dtype, monkeypatch, fuse=False)
    assert "fused_update." not in shown
    try:
        for threads in (1, 2):
            ipu.set_num_threads(threads)
            got, shown = trained(name, dtype, monkeypatch)
            assert "fused_update." in shown
            for a, b in zip(got, want, strict=True):
                np.testing.assert_array_equal(a, b)
    finally:
        ipu.set_num_threads(before)


@pytest.mark.parametrize("cpu_class", ["generic", "avx2", "avx512"])
@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_every_class_gives_these_bits(
    name: str, cpu_class: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    want, _ = trained(name, "float32", monkeypatch)
    monkeypatch.setenv("IPU_CPU_CLASS", cpu_class)
    if _core.cpu_class() != cpu_class:
        pytest.skip(f"this processor is of class {_core.cpu_class()}")
    got, _ = trained(name, "float32", monkeypatch)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", sorted(set(OPTIMIZERS) - {"swap", "long"}))
def test_an_update_of_all_variables_is_one_instruction(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, shown = trained(name, "float32", monkeypatch)
    kernels = [line for line in shown.splitlines() if " kernel " in line]
    assert sum("fused_update." in line for line in kernels) == 1
    assert not any("variable_a" in line for line in kernels)
    assert ("fused_update.formulas" in shown) == (
        name not in {"ftrl", "ftrl_power", "lion"}
    )
    # nor does it need copies of what it changes
    assert not any(" copy " in line for line in shown.splitlines())
