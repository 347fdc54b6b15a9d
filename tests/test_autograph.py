# SPDX-License-Identifier: MIT
"""AutoGraph: each program gives in a tf.function what plain Python gives eagerly."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from autograph_programs import (
    CASES,
    Args,
    as_argument,
    elif_chain,
    numbers,
    sum_of_a_range,
)

from ipu import _core, tf


@pytest.mark.parametrize(
    ("program", "arguments"), CASES, ids=[program.__name__ for program, _ in CASES]
)
def test_program(program: Callable[..., Any], arguments: list[Args]) -> None:
    traced = tf.function(program)
    for args in arguments:
        values = [as_argument(a) for a in args]
        want = numbers(program(*values))
        got = numbers(traced(*values))
        tf.nest.assert_same_structure(want, got)
        for a, b in zip(tf.nest.flatten(want), tf.nest.flatten(got), strict=True):
            np.testing.assert_allclose(a, b)
    assert traced.experimental_get_tracing_count() == 1


def test_a_loop_over_tf_range_is_one_loop_of_the_program() -> None:
    f = tf.function(sum_of_a_range)
    f(tf.constant(1000))
    assert "1 counted loop" in f.explain()
    assert f.traced(tf.constant(1000)).program.text.count("add.") <= 2


def test_the_original_is_not_changed() -> None:
    tf.function(elif_chain)(tf.constant(1.0))
    assert "ag__" not in elif_chain.__code__.co_names
    assert "ag__" in tf.autograph.to_code(elif_chain)
    assert callable(tf.autograph.to_graph(elif_chain))


def test_data_sets_and_iterators() -> None:
    data = tf.data.Dataset.range(6).map(lambda x: tf.cast(x, tf.float32))

    @tf.function
    def total():
        s = 0.0
        for x in data:
            s += x
        return s

    @tf.function
    def first(n):
        s = 0.0
        for i, x in enumerate(data):
            if i == n:
                break
            s += x
        return s

    @tf.function
    def zipped():
        s = 0.0
        for x, k in zip(data.repeat(), tf.range(8), strict=False):
            s += x * tf.cast(k, tf.float32)
        return s

    @tf.function
    def by_next():
        iterator = iter(data)
        s = 0.0
        for _ in tf.range(3):
            s = s + next(iterator)
        return s

    for _ in range(2):  # each run starts at the first element
        assert float(total()) == 15.0
        assert float(first(tf.constant(4))) == 6.0
        assert float(zipped()) == sum((k % 6) * k for k in range(8))
        assert float(by_next()) == 3.0


def test_variables_in_loops_and_branches() -> None:
    v = tf.Variable(0.0)

    @tf.function
    def f(n):
        for i in tf.range(n):
            if i % 2 == 0:
                v.assign_add(1.0)
            else:
                v.assign(v * 10.0)
        return v.read_value()

    assert float(f(tf.constant(4))) == 110.0
    assert float(v) == 110.0


def test_a_tape_in_a_loop() -> None:
    w = tf.Variable(0.0)

    @tf.function
    def train(n):
        loss = 0.0
        for _ in tf.range(n):
            with tf.GradientTape() as tape:
                loss = (w - 3.0) * (w - 3.0)
            w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    value = 0.0
    for _ in range(20):
        last = (value - 3.0) ** 2
        value -= 0.1 * 2 * (value - 3.0)
    np.testing.assert_allclose(float(train(tf.constant(20))), last, rtol=1e-5)
    np.testing.assert_allclose(float(w), value, rtol=1e-5)


def test_maximum_iterations() -> None:
    @tf.function
    def f(x):
        while x > 0:
            tf.autograph.experimental.set_loop_options(maximum_iterations=3)
            x = x - 1
        return x

    assert int(f(tf.constant(10))) == 7


def test_do_not_convert() -> None:
    @tf.autograph.experimental.do_not_convert
    def plain(x):
        return 1 if isinstance(x, tf.Tensor) and x.is_symbolic else 2

    assert int(tf.function(lambda x: plain(x))(tf.constant(1))) == 1

    @tf.autograph.experimental.do_not_convert
    def branches(x):
        if x > 0:
            return x
        return -x

    with pytest.raises(TypeError, match="not known while a function is traced"):
        tf.function(lambda x: branches(x))(tf.constant(1))


def test_without_source_there_is_a_warning_and_plain_tracing() -> None:
    names: dict[str, Any] = {}
    exec("def double(x):\n    return x * 2", names)
    with pytest.warns(RuntimeWarning, match="AutoGraph could not convert double"):
        assert int(tf.function(names["double"])(tf.constant(2))) == 4


def test_errors_in_converted_code_have_the_user_s_lines() -> None:
    def f(x):
        if x > 0:
            y = tf.matmul(x, x)
        else:
            y = x
        return y

    with pytest.raises(Exception, match="matmul") as caught:
        tf.function(f)(tf.constant(1.0))
    lines = [
        entry.lineno + 1
        for entry in caught.traceback
        if str(entry.path) == __file__ and entry.name != "f"
    ]
    assert f.__code__.co_firstlineno + 2 in lines


LIBRARY = """
def clipped(x):
    if x > 1.0:
        return x * 0.0 + 1.0
    return x

class Halves:
    def __call__(self, x):
        while x > 1.0:
            x = x / 2.0
        return x

    def halve(self, x):
        return clipped(x) / 2.0
"""


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages"])
def test_installed_packages_are_converted(tmp_path, monkeypatch, folder):
    """As TensorFlow does it; NumPy and others that know no tensors are left alone."""
    home = tmp_path / "lib" / folder
    (home / f"layers_{folder[:4]}").mkdir(parents=True)
    (home / f"layers_{folder[:4]}" / "__init__.py").write_text(LIBRARY)
    (home / f"single_{folder[:4]}.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(home))
    for name in (f"layers_{folder[:4]}", f"single_{folder[:4]}"):
        library = importlib.import_module(name)

        @tf.function
        def program(x, library=library):
            halves = library.Halves()
            return library.clipped(x), halves(x), halves.halve(x)

        got = [float(one) for one in program(tf.constant(6.0))]
        assert got == [1.0, 0.75, 0.5]
        assert float(tf.function(library.clipped)(tf.constant(0.5))) == 0.5
        assert float(tf.function(library.Halves().halve)(tf.constant(4.0))) == 0.5


def test_code_that_is_left_to_python(tmp_path):
    from ipu.tf.autograph._calls import _is_library

    own = ("/x/site-packages/numpy/lib/a.py", "/x/dist-packages/PIL/Image.py")
    own += (_core.__file__, functools.__file__, "<frozen importlib._bootstrap>")
    assert all(map(_is_library, own))
    others = ("/x/site-packages/numpy_layers/a.py", "/x/site-packages/nets.py")
    assert not any(map(_is_library, (*others, str(tmp_path / "train.py"))))
