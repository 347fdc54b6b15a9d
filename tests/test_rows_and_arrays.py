# SPDX-License-Identifier: MIT
"""map_fn, scan, foldl and foldr, and TensorArray."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from control_flow_programs import V, X, check_gradient, run, trace

from ipu import tf
from ipu.tf import TensorArray

# --- rows -----------------------------------------------------------------------------


def test_map_fn() -> None:
    def mapped(x: Any, w: Any) -> Any:
        return tf.map_fn(
            lambda pair: (tf.square(pair[0]) * w, pair[1][0]),
            (x, x),
            fn_output_signature=(x.dtype, x.dtype),
        )

    got = run(mapped, X.astype(np.float32), V.astype(np.float32))
    np.testing.assert_allclose(got[0], np.square(X) * V, rtol=1e-5)
    np.testing.assert_array_equal(got[1], X[:, 0].astype(np.float32))
    eager = mapped(tf.constant(X.astype("f4")), tf.constant(V.astype("f4")))
    np.testing.assert_array_equal(np.asarray(eager[0]), got[0])
    check_gradient(lambda x, w: mapped(x, w)[0], X, V)


def test_map_fn_over_no_rows_has_the_types_of_its_results() -> None:
    result = tf.map_fn(
        lambda row: tf.reduce_sum(tf.cast(row, tf.int32)),
        tf.zeros((0, 3)),
        fn_output_signature=tf.int32,
    )
    assert (result.dtype, result.shape) == (tf.int32, (0,))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("initial", [None, 1.0])
def test_scan_and_fold(reverse: bool, initial: float | None) -> None:
    x = X[:, 0].astype(np.float32)
    order = list(x[::-1] if reverse else x)
    want = []
    total = order.pop(0) if initial is None else np.float32(initial)
    want += [total] if initial is None else []
    for row in order:
        total = np.float32(total * np.float32(2) + row)
        want.append(total)
    want = want[::-1] if reverse else want

    def step(a: Any, b: Any) -> Any:
        return a * 2.0 + b

    def scanned(x: Any) -> Any:
        return tf.scan(step, x, initializer=initial, reverse=reverse)

    def folded(x: Any) -> Any:
        fold = tf.foldr if reverse else tf.foldl
        return fold(step, x, initializer=initial)

    np.testing.assert_array_equal(run(scanned, x)[0], np.array(want))
    np.testing.assert_array_equal(np.asarray(scanned(tf.constant(x))), np.array(want))
    np.testing.assert_array_equal(run(folded, x)[0], total)
    np.testing.assert_array_equal(np.asarray(folded(tf.constant(x))), total)
    check_gradient(lambda v: tf.scan(lambda a, b: tf.tanh(a) * b, v), X)


@pytest.mark.parametrize("name", ["scan", "foldl", "foldr"])
def test_functions_over_no_rows_give_what_they_start_from(name: str) -> None:
    """In a function as at once; the gradient of what is passed on is the identity."""
    over = getattr(tf, name)

    def nothing(x: Any) -> Any:
        return over(lambda a, row: a * row, x[:0], x[0])

    def the_first(x: Any) -> Any:
        return over(lambda a, row: a * row, x[:1])

    x = X.astype(np.float32)
    want = np.zeros((0, *x[0].shape), np.float32) if name == "scan" else x[0]
    np.testing.assert_array_equal(run(nothing, x)[0], want)
    np.testing.assert_array_equal(np.asarray(nothing(tf.constant(x))), want)
    want = x[:1] if name == "scan" else x[0]
    np.testing.assert_array_equal(run(the_first, x)[0], want)
    np.testing.assert_array_equal(np.asarray(the_first(tf.constant(x))), want)
    check_gradient(lambda v: v[1] * tf.reduce_sum(nothing(v)), X)


@pytest.mark.parametrize(
    ("error", "fragment", "call"),
    [
        (ValueError, "number of rows", lambda x: tf.map_fn(lambda p: p[0], (x, x[:2]))),
        (ValueError, "not scalars", lambda x: tf.map_fn(lambda r: r, x[0, 0])),
        (TypeError, "callable", lambda x: tf.map_fn(3, x)),
        (
            TypeError,
            "fn_output_signature says int32",
            lambda x: tf.map_fn(lambda r: r, x, fn_output_signature=tf.int32),
        ),
        (TypeError, "first argument", lambda x: tf.scan(lambda a, r: a[0], x)),
        (ValueError, "nothing to start from", lambda x: tf.foldl(max, x[:0])),
    ],
)
def test_what_functions_over_rows_refuse(
    error: type[Exception], fragment: str, call: Callable[..., Any]
) -> None:
    for attempt in (
        lambda: trace(call, (X.astype(np.float32),)),
        lambda: call(tf.constant(X.astype(np.float32))),
    ):
        with pytest.raises(error, match=fragment):
            attempt()


# --- TensorArray ----------------------------------------------------------------------


def filled(x: Any) -> Any:
    array = TensorArray(x.dtype, size=4)

    def body(i: Any, array: Any) -> Any:
        value = x * tf.cast(i, x.dtype)
        return i + 1, tf.cond(i > 1, lambda: array.write(i, value), lambda: array)

    return tf.while_loop(lambda i, _: i < 4, body, (0, array))[1].stack()


def test_a_tensor_array_is_carried_through_loops_and_branches() -> None:
    want = V.astype(np.float32) * np.array([0, 0, 2, 3], np.float32)[:, None]
    np.testing.assert_array_equal(run(filled, V.astype(np.float32))[0], want)
    np.testing.assert_array_equal(np.asarray(filled(tf.constant(V.astype("f4")))), want)
    check_gradient(filled, V)


def test_a_tensor_array_is_carried_through_loops_in_loops() -> None:
    def nested(x: Any) -> Any:
        array = TensorArray(x.dtype, size=2)

        def outer(i: Any, array: Any) -> Any:
            def inner(j: Any, array: Any) -> Any:
                return j + 1, array.write(j, x * tf.cast(i + j, x.dtype))

            return i + 1, tf.while_loop(lambda j, _: j < 2, inner, (0, array))[1]

        return tf.while_loop(lambda i, _: i < 4, outer, (0, array))[1].stack()

    want = V.astype(np.float32) * np.array([3, 4], np.float32)[:, None]
    np.testing.assert_array_equal(run(nested, V.astype(np.float32))[0], want)


def test_tensor_array_members() -> None:
    def use(x: Any) -> Any:
        array = TensorArray(tf.float32, size=5).unstack(x)
        array = array.write(0, x[1]).scatter([3, 4], x[:2])
        more = TensorArray(tf.float32, size=0, dynamic_size=True).write(1, x[0])
        return (
            array.read(3),
            array.gather([4, 0]),
            array.concat(),
            array.size(),
            more.stack(),
        )

    x = X.astype(np.float32)
    whole = np.stack([x[1], x[1], x[2], x[0], x[1]])
    want = [x[0], whole[[4, 0]], whole.reshape(-1), 5, np.stack([x[0] * 0, x[0]])]
    for got in (run(use, x), [np.asarray(v) for v in use(tf.constant(x))]):
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("error", "fragment", "call"),
    [
        (IndexError, "out of range", lambda a, x: a.write(2, x)),
        (
            ValueError,
            "one shape",
            lambda a, x: a.write(0, x).write(1, tf.stack([x, x])),
        ),
        (TypeError, "int32", lambda a, x: a.write(0, tf.constant(1))),
        (ValueError, "element shape|not\\s+been written", lambda a, x: a.read(0)),
        (ValueError, "cannot hold", lambda a, x: a.unstack(tf.zeros((3,)))),
    ],
)
def test_what_a_tensor_array_refuses(
    error: type[Exception], fragment: str, call: Callable[..., Any]
) -> None:
    for attempt in (
        lambda: trace(lambda x: call(TensorArray("float32", 2), x), (np.float32(1),)),
        lambda: call(TensorArray("float32", 2), tf.constant(1.0)),
    ):
        with pytest.raises(error, match=fragment):
            attempt()


def test_the_size_of_a_tensor_array_is_known_when_it_is_traced() -> None:
    with pytest.raises(ValueError, match="must be known"):
        trace(lambda n: TensorArray("float32", size=n), (np.int32(3),))
