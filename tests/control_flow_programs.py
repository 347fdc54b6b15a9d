# SPDX-License-Identifier: MIT
"""Functions that are traced, run, and compared with Python and with differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ipu import _core, tf

Array = np.ndarray[Any, Any]


def trace(
    function: Callable[..., Any], args: tuple[Any, ...], host: bool = False
) -> Any:
    """The trace of a function, and the structure that it gave."""
    opened = _core.Trace(host=host)
    with opened:
        arrays = [np.asarray(a) for a in args]
        values = [opened.parameter((a.dtype.name, a.shape)) for a in arrays]
        result = function(*values)
        for leaf in tf.nest.flatten(result):
            opened.result(leaf)
    return opened, result


def run(function: Callable[..., Any], *args: Any, host: bool = False) -> list[Array]:
    """The results of a program, which are the same in every form of it."""
    found: list[list[Array]] = []
    for options in ({}, {"fuse": False}, {"fuse": False, "reference": True}):
        opened, _ = trace(function, args, host)
        program = opened.compile(verify=True, **options)
        outputs = program.run([np.asarray(a) for a in args])
        found.append([np.asarray(t) for t in outputs])
    fused, unfused, reference = found
    for a, b, c in zip(fused, unfused, reference, strict=True):
        np.testing.assert_array_equal(a, b)
        # reference kernels add one element after the other, the fast ones in a tree
        rounding = 1e-12 if a.dtype == np.float64 else 1e-5
        np.testing.assert_allclose(a, c, rtol=rounding, atol=rounding)
    return fused


def check_gradient(function: Callable[..., Any], *args: Any) -> list[Array]:
    """d sum(function) / d each float argument is what central differences give."""
    values = [np.asarray(a) for a in args]
    values = [v.astype(np.float64) if v.dtype.kind == "f" else v for v in values]
    floats = [i for i, v in enumerate(values) if v.dtype.kind == "f"]

    def gradient(*tensors: Any) -> Any:
        y = function(*tensors)
        return tf.gradients(y, [tensors[i] for i in floats])

    opened, _ = trace(lambda *t: tf.reduce_sum(function(*t)), tuple(values), True)
    program = opened.compile()
    found = run(gradient, *values, host=True)
    step = 1e-5
    for i, mine in zip(floats, found, strict=True):
        for at in np.ndindex(values[i].shape):
            slopes = []
            for sign in (1, -1):
                moved = [v.copy() for v in values]
                moved[i][at] += sign * step
                slopes.append(float(np.asarray(program.run(moved)[0])))
            slope = (slopes[0] - slopes[1]) / (2 * step)
            assert mine[at] == pytest.approx(slope, rel=1e-6, abs=1e-7), (i, at)
    return found


rng = np.random.default_rng(7)
X = rng.standard_normal((5, 3))
V = rng.standard_normal(3)
