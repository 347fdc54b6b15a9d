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
from ipu.tf._functions import tracing
from ipu.tf._functions.function import DeviceFunction

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


def gradients_of_rows(weights: list[Any], pulls: list[Any], rows: list[Any]) -> Any:
    """Zeros but for the rows, of which some are named several times."""
    with tf.GradientTape() as tape:
        losses = [
            tf.reduce_sum((tf.gather(w, r) - tf.gather(p, r)) ** 2)
            for w, p, r in zip(weights, pulls, rows, strict=True)
        ]
        loss = tf.add_n(losses)
    return tape.gradient(loss, weights)


def trained(
    name: str,
    dtype: str,
    monkeypatch: pytest.MonkeyPatch,
    of_rows: bool = False,
    **options: bool,
) -> tuple[list[np.ndarray], str]:
    """All variables after a few steps in a loop, and the program."""
    rng = np.random.default_rng(11)
    shapes = [s for s in SHAPES if not of_rows or (s and s[0])]
    starts = [np.asarray(rng.normal(size=s)).astype(dtype) for s in shapes]
    pulls = [np.asarray(rng.normal(size=s)).astype(dtype) for s in shapes]
    rows = [rng.integers(0, s[0], (2, 11)).astype("i4") for s in shapes if of_rows]
    weights = [tf.Variable(v) for v in starts]
    optimizer = OPTIMIZERS[name]()
    optimizer._create_all_weights(weights)

    def step() -> None:
        if of_rows:
            gradients = gradients_of_rows(weights, pulls, rows)
        else:
            gradients = [w * 0.5 - p for w, p in zip(weights, pulls, strict=True)]
        optimizer.apply_gradients(zip(gradients, weights, strict=True))

    real = tracing._trace

    def changed(*args: Any) -> Any:
        opened, *rest = real(*args)
        return Unfused(opened, **options), *rest

    with monkeypatch.context() as patch:
        patch.setattr(tracing, "_trace", changed)
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


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_gradients_of_rows_are_made_in_the_update(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ipu.num_threads()
    want, shown = trained(name, "float32", monkeypatch, of_rows=True, fuse=False)
    assert "gather_grad." in shown
    try:
        for threads in (1, 2):
            ipu.set_num_threads(threads)
            got, shown = trained(name, "float32", monkeypatch, of_rows=True)
            assert ("gather_grad." in shown) == (name == "long")
            for a, b in zip(got, want, strict=True):
                np.testing.assert_array_equal(a, b)
    finally:
        ipu.set_num_threads(before)


@pytest.mark.parametrize(
    ("entry", "indices", "rows"),
    [
        (-1, "float32[3]", "float32[3,4]"),  # indices are integers
        (-1, "bool[3]", "float32[3,4]"),
        (-1, "int32[2]", "float32[3,4]"),  # a row for each
        (-1, "int32[3]", "float32[3,5]"),  # of the variable's width
        (-1, "int32[3]", "int32[3,4]"),
        (-2, "int32[3]", "float32[3,4]"),  # there is no input 2
        (-(2**40), "int32[3]", "float32[3,4]"),
    ],
)
def test_code_of_rows_that_do_not_fit(entry: int, indices: str, rows: str) -> None:
    text = (
        'resource r0 variable id=1 "w" float32[5,4]\n'
        f"block b0(%0: {indices}, %1: {rows}) {{\n  fused_update(%0, %1) "
        f"{{resource=0, code=[1,1,0,{entry},0]}}\n}} -> ()\n"
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="part 0 of the code"):
        _core.graph_round_trip(text)


def test_rows_outside_leave_all_variables_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weights = [tf.Variable(np.ones((5, 2), "f4")) for _ in range(2)]
    optimizer = keras.optimizers.Adam(0.1)
    optimizer._create_all_weights(weights)

    @tf.function
    def step(rows: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(weights[0], [1])) + tf.reduce_sum(
                tf.gather(weights[1], rows)
            )
        optimizer.apply_gradients(
            zip(tape.gradient(loss, weights), weights, strict=True)
        )

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[1\] = 5"):
        step(tf.constant([1, 5]))
    for weight in weights:
        np.testing.assert_array_equal(weight.numpy(), np.ones((5, 2), "f4"))


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
