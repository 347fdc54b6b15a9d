"""tf.print and assertions: at once, and in each run of a function."""

from __future__ import annotations

import sys

import pytest

from ipu import tf


def test_print_at_once(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    tf.print("x", tf.constant([1.0, 2.5]), 3, {"a": tf.constant(True)})
    assert capsys.readouterr().err == "x [1 2.5] 3 {'a': 1}\n"
    tf.print(tf.range(10), output_stream=sys.stdout, summarize=2, end="!\n")
    assert capsys.readouterr().out == "[0 1 ... 8 9]!\n"
    tf.print(tf.range(10), output_stream=sys.stdout, summarize=-1, sep=",")
    assert capsys.readouterr().out == "[0 1 2 3 4 5 6 7 8 9]\n"
    tf.print(tf.ones((2, 2)), output_stream=f"file://{tmp_path}/out")
    assert (tmp_path / "out").read_text() == "[[1 1]\n [1 1]]\n"
    with pytest.raises(ValueError, match="output_stream"):
        tf.print(1, output_stream="nowhere")


def test_print_in_each_run_in_program_order(capsys: pytest.CaptureFixture[str]) -> None:
    @tf.function
    def f(n):
        tf.print("start", output_stream=sys.stdout)
        for i in tf.range(n):
            if i % 2 == 0:
                print("even", i)
            else:
                tf.print("odd", i, output_stream=sys.stdout)
        return n

    for _ in range(2):
        f(tf.constant(3))
        assert capsys.readouterr().out == "start\neven 0\nodd 1\neven 2\n"


def test_print_is_refused_where_nobody_would_print() -> None:
    def add(total, x):
        tf.print(x)
        return total + x

    with pytest.raises(NotImplementedError, match=r"tf\.print cannot be used"):
        tf.data.Dataset.range(3).reduce(tf.constant(0, tf.int64), add)


def test_assertions_at_once() -> None:
    tf.debugging.assert_equal([1, 2], [1, 2])
    tf.debugging.assert_near([1.0], [1.0 + 1e-7])
    tf.debugging.assert_shapes([(tf.ones((2, 3)), ("a", "b")), (tf.ones(3), ("b",))])
    tf.debugging.assert_rank(tf.ones((1, 1)), 2)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"told so.*x == y did not"
    ):
        tf.debugging.assert_equal([1, 2], [1, 3], message="told so")
    with pytest.raises(tf.errors.InvalidArgumentError, match="x > 0 did not hold"):
        tf.debugging.assert_positive([1.0, 0.0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="NaN or Inf"):
        tf.debugging.check_numerics(tf.constant([1.0, float("inf")]), "here")
    with pytest.raises(ValueError, match="must have rank 2"):
        tf.debugging.assert_rank(tf.ones(1), 2)
    with pytest.raises(TypeError, match="must be of type"):
        tf.debugging.assert_type(tf.ones(1), tf.int32)
    with pytest.raises(ValueError, match="must have shape"):
        tf.debugging.assert_shapes([(tf.ones((2, 3)), ("a", "a"))])


def test_assertions_of_each_run() -> None:
    v = tf.Variable(0.0)

    @tf.function
    def f(x):
        assert x > 0, "x must be positive"
        tf.debugging.assert_less(x, 10.0, message="too large")
        v.assign_add(1.0)
        return x

    assert float(f(tf.constant(1.0))) == 1.0
    with pytest.raises(tf.errors.InvalidArgumentError, match="x must be positive"):
        f(tf.constant(-1.0))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"too large .*\[11\.0\]"):
        f(tf.constant(11.0))
    assert float(f(tf.constant(2.0))) == 2.0
    assert float(v) == 4.0
    with pytest.raises(AssertionError, match="python"):
        tf.function(_fails)(tf.constant(1))


def _fails(x):
    assert isinstance(x, str), "python"
    return x


def test_replicas_print_each_their_own(capfd, two_ipus):
    @tf.function
    def f(x):
        tf.print("x is", x)
        return x

    f(tf.constant(2.0))
    f(tf.constant(3.0))
    assert capfd.readouterr().err.splitlines()[-4:] == ["x is 2"] * 2 + ["x is 3"] * 2
