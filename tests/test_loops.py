# SPDX-License-Identifier: MIT
"""``ipu.loops``: what bodies take and return, infeeds, every error of the API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ipu import _core, ipu_infeed_queue, ipu_outfeed_queue, loops, optimizers, tf
from ipu.ops import internal_ops
from ipu.tf._tensor.operation import Operation
from ipu.tf.compat.v1.train import GradientDescentOptimizer


def traced(function: Callable[..., Any]) -> Any:
    with _core.Trace() as trace:
        return function(trace.parameter(("float32", ())))


def compiled(function: Callable[..., Any]) -> Any:
    return tf.function(function, jit_compile=True)


def test_the_form_of_the_result_follows_the_inputs() -> None:
    assert isinstance(traced(lambda x: loops.repeat(2, lambda: None)), Operation)
    assert isinstance(traced(lambda x: loops.repeat(2, lambda y: y, [x])), tf.Tensor)
    both = traced(lambda x: loops.repeat(2, lambda y, z: [z, y], [x, x]))
    assert isinstance(both, list)
    assert len(both) == 2
    one = traced(lambda x: loops.while_loop(lambda y: y < 1.0, lambda y: y, x))
    assert isinstance(one, tf.Tensor)


def test_a_function_gives_none_for_an_operation() -> None:
    assert compiled(lambda: loops.repeat(2, lambda: None))() is None


def test_python_numbers_are_inputs() -> None:
    program = compiled(
        lambda n: loops.repeat(n, lambda i, x: (i + 2, x * 0.5), [1, 1.0])
    )
    i, x = program(tf.constant(3))
    assert (i.dtype, int(i)) == (tf.int32, 7)
    assert (x.dtype, float(x)) == (tf.float32, 0.125)
    assert [float(v) for v in program(tf.constant(-1))] == [1.0, 1.0]


def test_operations_come_behind_tensors() -> None:
    queue = ipu_outfeed_queue.IPUOutfeedQueue()

    def body(x: Any) -> Any:
        x = x + 1.0
        return x, queue.enqueue(x), loops.repeat(1, lambda: None)

    assert float(compiled(lambda: loops.repeat(3, body, [0.0]))()) == 3.0
    assert queue.dequeue().numpy().tolist() == [1.0, 2.0, 3.0]


def test_while_loop_takes_one_element_for_each_turn() -> None:
    data = tf.data.Dataset.from_tensor_slices(np.arange(1, 9, dtype=np.float32))
    infeed = ipu_infeed_queue.IPUInfeedQueue(data)
    outfeed = ipu_outfeed_queue.IPUOutfeedQueue()

    def body(total: Any, element: Any) -> Any:
        outfeed.enqueue(element)
        return total + element

    @compiled
    def program(limit: Any, start: Any) -> Any:
        return loops.while_loop(
            lambda total: total < limit, body, [start], infeed_queue=infeed
        )

    infeed.initializer  # noqa: B018
    assert float(program(tf.constant(6.0), tf.constant(0.0))) == 6.0
    assert outfeed.dequeue().numpy().tolist() == [1.0, 2.0, 3.0]
    assert float(program(tf.constant(-1.0), tf.constant(0.0))) == 0.0
    assert float(program(tf.constant(9.0), tf.constant(0.0))) == 9.0
    assert outfeed.dequeue().numpy().tolist() == [4.0, 5.0]
    infeed.deleter  # noqa: B018


@pytest.mark.parametrize(("maximum", "want"), [(None, 5), (3, 3), (0, 0)])
def test_maximum_iterations(maximum: int | None, want: int) -> None:
    program = compiled(
        lambda: loops.while_loop(
            lambda i: i < 5, lambda i: i + 1, [0], maximum_iterations=maximum
        )
    )
    assert int(program()) == want


def test_a_branch_in_a_loop_enqueues_where_it_is_taken() -> None:
    queue = ipu_outfeed_queue.IPUOutfeedQueue()

    def body(i: Any) -> Any:
        def even() -> None:
            queue.enqueue(i)

        tf.cond(tf.equal(i % 2, 0), even, lambda: None)
        return i + 1

    compiled(lambda: loops.repeat(7, body, [0]))()
    assert queue.dequeue().numpy().tolist() == [0, 2, 4, 6]


BAD = [
    (
        TypeError,
        ["the loop body needs exactly 1 arguments", "2 inputs"],
        lambda x: loops.repeat(2, lambda y: y, [x, x]),
    ),
    (
        TypeError,
        ["at least 1 and at most 2 arguments", "3 inputs"],
        lambda x: loops.repeat(2, lambda y, z=None: y, [x, x, x]),
    ),
    (
        TypeError,
        ["at least 2 arguments", "1 inputs"],
        lambda x: loops.repeat(2, lambda y, z, *rest: y, [x]),
    ),
    (
        TypeError,
        ["the loop condition needs exactly 2", "infeed is not passed to the loop"],
        lambda x: loops.while_loop(lambda y, fed: y < fed, lambda y: y, [x]),
    ),
    (
        ValueError,
        ["Tensor values followed by zero or more Operations", "Received 1 tensors"],
        lambda x: loops.repeat(2, lambda y, z: y, [x, x]),
    ),
    (
        ValueError,
        ["Tensor values followed by zero or more Operations"],
        lambda x: loops.repeat(2, lambda y: (None, y), [x]),
    ),
    (
        TypeError,
        ["Mismatch between input types and output types", "int32", "float32"],
        lambda x: loops.repeat(2, lambda i: x, [1]),
    ),
    (
        ValueError,
        ["shape ()", "shape (2,)"],
        lambda x: loops.repeat(2, lambda y: tf.stack([y, y]), [x]),
    ),
    (
        TypeError,
        ["result of the loop condition", "scalar bool"],
        lambda x: loops.while_loop(lambda y: y, lambda y: y, [x]),
    ),
]


@pytest.mark.parametrize(("error", "fragments", "call"), BAD)
def test_what_loops_refuse(
    error: type[Exception], fragments: list[str], call: Callable[..., Any]
) -> None:
    with pytest.raises(error) as info:
        traced(call)
    for fragment in fragments:
        assert fragment in str(info.value)


@pytest.mark.parametrize("name", ["repeat", "while_loop"])
def test_loops_belong_into_functions(name: str) -> None:
    with pytest.raises(RuntimeError, match=f"loops.{name}"):
        getattr(loops, name)(3, lambda: None)


@pytest.mark.parametrize("limit", [-1, 0, 3, 100])
def test_a_bound_that_is_a_tensor(limit):
    @tf.function(jit_compile=True)
    def f(n):
        return loops.while_loop(
            lambda i, x: i < 10, lambda i, x: (i + 1, x * 2.0), [0, 1.0], None, n
        )

    turns = min(max(limit, 0), 10)
    i, x = f(tf.constant(limit))
    assert (int(i), float(x)) == (turns, 2.0**turns)
    body = tf.function(
        lambda n: loops.while_loop(lambda i: i < 10, lambda i: i + 1, 0, None, n),
    )
    assert int(body(tf.constant(limit))) == turns
    assert int(body(np.int64(limit))) == turns


def test_the_number_of_the_turn():
    counter = internal_ops.get_current_iteration_counter

    @tf.function(jit_compile=True)
    def f(n):
        digits = loops.repeat(n, lambda x: x * 10 + counter(), 0)

        def outer(x, y):
            mine = counter()
            inner = loops.repeat(3, lambda z: z + counter(), [x])
            return inner, y * 10 + mine + (counter() - mine)

        nested = loops.repeat(4, outer, [0, 0])
        until = loops.while_loop(lambda x: x < 20, lambda x: x + 1 + counter(), 0)
        return digits, *nested, until

    got = [int(one) for one in f(tf.constant(4))]
    assert got == [123, 12, 123, 21]
    assert int(f(tf.constant(0))[0]) == 0
    with pytest.raises(RuntimeError, match="body of a loop"):
        tf.function(counter)()


def test_the_number_of_the_turn_begins_again_with_an_update():
    w = tf.Variable(0.0)

    @tf.function(jit_compile=True)
    def f():
        def body(x):
            turn = internal_ops.get_current_iteration_counter()
            opt = optimizers.GradientAccumulationOptimizerV2(
                GradientDescentOptimizer(1.0), 3
            )
            with tf.GradientTape() as tape:
                loss = w * tf.cast(turn, "float32")
            opt.apply_gradients(zip(tape.gradient(loss, [w]), [w], strict=True))
            return x * 10 + turn

        return loops.repeat(6, body, 0)

    assert int(f()) == 12012
    assert float(w) == -6.0
