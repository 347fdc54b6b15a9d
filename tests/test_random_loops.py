# SPDX-License-Identifier: MIT
"""Random ops in loops: each turn draws anew, and the same on every run.

The numbers are pinned by Philox4x32-10 written again in NumPy (op_cases/random_ops.py):
the step moves on with each turn of an outermost loop, `turn` counts inside of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from op_cases.random_ops import uniform, words

import ipu
from ipu import _core, config, tf

Array = np.ndarray[Any, Any]
WIDTH = 6


def loop(turns: int, body: Callable[[Any], Any], carried: Any) -> Any:
    """Lets body(carried) run `turns` times, in a loop of the program."""
    return tf.while_loop(
        lambda i, _: i < turns, lambda i, c: (i + 1, body(c)), [tf.constant(0), carried]
    )[1]


def note(carried: Any) -> Any:
    """Writes a row of random numbers."""
    row, table = carried
    drawn = tf.random.uniform([1, WIDTH])
    return row + 1, tf.tensor_scatter_nd_update(table, tf.reshape(row, [1, 1]), drawn)


def rows(program: Callable[[Any], Any], count: int, runs: int = 1) -> list[Array]:
    """The rows that a program writes, in each of some runs; all forms of it agree."""
    found = []
    for options in ({}, {"fuse": False, "reference": True}):
        opened = _core.Trace()
        with opened:
            start = (tf.constant(0), tf.zeros([count, WIDTH]))
            _, table = program(start)
            opened.result(table)
        compiled = opened.compile(verify=True, **options)
        found.append([np.asarray(compiled.run([])[0]) for _ in range(runs)])
    np.testing.assert_array_equal(found[0], found[1])
    return found[0]


def expected(step: int, turn: int, ordinal: int = 0) -> Array:
    drawn = uniform(words(WIDTH, ordinal, None, step, turn), "float32")
    return drawn[:WIDTH].astype(np.float32)


def test_outside_of_inner_loops_the_step_alone_tells_turns_apart() -> None:
    def program(carried: Any) -> Any:
        return note(loop(4, note, note(carried)))  # ordinals 0, 1 and 2

    first, second = rows(program, 6, runs=2)
    want = [expected(0, 0), *(expected(s, 0, 1) for s in range(4)), expected(4, 0, 2)]
    np.testing.assert_array_equal(first, want)
    want = [expected(4, 0), *(expected(s, 0, 1) for s in range(4, 8))]
    np.testing.assert_array_equal(second, [*want, expected(8, 0, 2)])


def test_each_turn_of_an_inner_loop_draws_anew() -> None:
    def outer(carried: Any) -> Any:
        return note(loop(3, note, note(carried)))  # ordinals 0, 1 and 2

    (found,) = rows(lambda carried: loop(2, outer, carried), 10)
    want = []
    for step in range(2):
        inner = [expected(step, turn, 1) for turn in range(3)]
        want += [expected(step, 0, 0), *inner, expected(step, 0, 2)]
    np.testing.assert_array_equal(found, want)


def test_turns_of_loops_in_inner_loops_never_draw_the_same() -> None:
    def middle(carried: Any) -> Any:
        return note(loop(3, note, note(carried)))

    def outer(carried: Any) -> Any:
        return loop(2, note, loop(4, middle, carried))

    count = 3 * (4 * 5 + 2)
    found = rows(lambda carried: loop(3, outer, carried), count, runs=2)
    assert len(np.unique(np.concatenate(found), axis=0)) == 2 * count


def test_a_loop_that_takes_no_turn_is_a_step() -> None:
    first, second = rows(lambda carried: loop(0, note, note(carried)), 1, runs=2)
    np.testing.assert_array_equal(first, [expected(0, 0)])
    np.testing.assert_array_equal(second, [expected(1, 0)])


@pytest.fixture
def one_thread_again() -> Any:
    yield
    ipu.set_num_threads(2)


def test_every_thread_count_draws_the_same(one_thread_again: None) -> None:
    def dropped() -> Any:
        ones = tf.ones([300, 200])

        def inner(total: Any) -> Any:
            return tf.nn.dropout(total + ones, 0.3)

        return loop(3, lambda t: loop(4, inner, t), tf.zeros([300, 200]))

    runs = []
    for threads in (1, 2, 3, 5):
        ipu.set_num_threads(threads)
        config.reset_ipu_configuration()  # a new device: its step starts again
        tf.random.set_seed(3)
        strategy = ipu.ipu_strategy.IPUStrategy()
        with strategy.scope():
            runs.append(strategy.run(tf.function(dropped)).numpy())
    assert all(np.array_equal(runs[0], run) for run in runs[1:])
    # 0.7 of the elements are kept in each turn: 0.49 in both of two
    assert abs(np.mean(runs[0] > 1.0 / 0.7 + 0.1) - 0.49) < 0.02


def test_the_gradient_of_an_inner_loop_uses_the_masks_of_its_turns() -> None:
    opened = _core.Trace()
    with opened:
        x = opened.parameter(("float32", (400,)))
        y = loop(2, lambda a: loop(3, lambda b: tf.nn.dropout(b, 0.5), a), x)
        opened.result(y)
        opened.result(tf.gradients(y, [x])[0])
    y, dx = opened.compile(verify=True).run([np.ones(400, np.float32)])
    np.testing.assert_array_equal(y, dx)  # y is x times what each turn kept
    assert 0 < np.count_nonzero(np.asarray(y)) < 40  # 400 / 64 survive
