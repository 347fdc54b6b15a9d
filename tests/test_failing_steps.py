# SPDX-License-Identifier: MIT
"""A step that fails: what is written before it in the program is written, and nothing
after it, however nodes are fused and kernels ordered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import _core, tf
from ipu.tf._functions import tracing
from ipu.tf._functions.function import DeviceFunction

# of a number that is 0: what fails, as a scalar of int32
FAILING: dict[str, Callable[[Any], Any]] = {
    "floor_div": lambda zero: 10 // zero,
    "floor_mod": lambda zero: 10 % zero,
    "pow": lambda zero: tf.pow(3, zero - 1),
    "chain": lambda zero: 3 * (10 // zero) + 1,
    "vector": lambda zero: tf.reduce_sum(tf.constant([4, 2]) // tf.stack([1, zero])),
    "gather": lambda zero: tf.gather(tf.constant([1, 2]), zero + 2),
    "gather_nd": lambda zero: tf.gather_nd(tf.constant([1, 2]), [zero + 2]),
    "scatter_nd": lambda zero: tf.scatter_nd([[zero + 2]], [1], [2])[0],
    "tensor_scatter": lambda zero: tf.tensor_scatter_nd_update(
        tf.constant([1, 2]), [[zero - 1]], [7]
    )[0],
    "cholesky": lambda zero: _whole(tf.linalg.cholesky(-_eye(zero))),
    "inverse": lambda zero: _whole(tf.linalg.inv(_eye(zero) * 0.0)),
    "lu": lambda zero: tf.linalg.lu(_eye(zero) * 0.0)[1][0],
    "eigh": lambda zero: _whole(tf.linalg.eigh(_eye(zero) / 0.0)[1]),
    "random": lambda zero: tf.random.uniform((), zero, zero, "int32"),
    "labels": lambda zero: _whole(
        tf.nn.sparse_softmax_cross_entropy_with_logits([zero + 2], [[1.0, 2.0]])
    ),
}


def _eye(zero: Any) -> Any:
    return tf.eye(2) * tf.cast(zero + 1, tf.float32)


def _whole(x: Any) -> Any:
    return tf.cast(tf.reduce_sum(x), tf.int32)


class Unfused:
    def __init__(self, opened: Any) -> None:
        self.opened = opened

    def compile(self, **given: Any) -> Any:
        return self.opened.compile(**{**given, "fuse": False})

    def __getattr__(self, name: str) -> Any:
        return getattr(self.opened, name)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    threads = _core.num_threads()
    yield
    _core.set_num_threads(threads)
    _core.set_regions("auto")


@pytest.fixture(params=["plain", "fused", "regions"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "plain":
        real = tracing._trace

        def unfused(*args: Any) -> Any:
            opened, *rest = real(*args)
            return Unfused(opened), *rest

        monkeypatch.setattr(tracing, "_trace", unfused)
    _core.set_num_threads(3)
    _core.set_regions("always" if request.param == "regions" else "never")
    return str(request.param)


def written(body: Callable[..., Any], variables: list[Any], *given: Any) -> list[Any]:
    """What is in the variables after the body has failed."""
    with pytest.raises(tf.errors.InvalidArgumentError):
        DeviceFunction(lambda *args: body(*variables, *args))(*given)
    return [v.numpy().tolist() for v in variables]


@pytest.mark.parametrize("name", FAILING)
def test_writes_stay_on_their_side_of_what_fails(name: str, form: str) -> None:
    def body(v: Any, w: Any, u: Any, zero: Any) -> None:
        v.assign_add(1)
        w.assign(v * 3)
        found = FAILING[name](zero)
        u.assign_add(1)
        w.assign_add(found)

    with ipu.ipu_strategy.IPUStrategy().scope():
        variables = [tf.Variable(1, dtype="int32") for _ in range(3)]
        assert written(body, variables, tf.constant(0)) == [2, 6, 1]


@pytest.mark.parametrize("name", ["chain", "gather", "vector"])
def test_nothing_is_enqueued_after_what_fails(name: str, form: str) -> None:
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def body(v: Any, zero: Any) -> None:
        found = FAILING[name](zero)
        outfeed.enqueue(v.value())
        v.assign_add(found * 2)

    with ipu.ipu_strategy.IPUStrategy().scope():
        written(body, [tf.Variable(1, dtype="int32")], tf.constant(0))
    assert outfeed.dequeue().shape[0] == 0


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_rows_that_do_not_exist(momentum: float, form: str) -> None:
    """The gradient of rows can fail by itself where no lookup was in front of it."""
    sgd = ipu.keras.optimizers.SGD(1.0, momentum=momentum)

    def body(v: Any, table: Any, u: Any, ids: Any) -> None:
        v.assign_add([[1.0]])
        rows = tf.scatter_nd(ids, tf.ones([2, 1]), [3, 1])
        sgd.apply_gradients([(tf.ones([1, 1]), u), (rows, table)])

    with ipu.ipu_strategy.IPUStrategy().scope():
        variables = [tf.Variable(np.ones((n, 1), "f")) for n in (1, 3, 1)]
        sgd._create_all_weights(variables[1:])
        found = written(body, variables, tf.constant([[0], [3]]))
    assert found == [[[2.0]], [[1.0]] * 3, [[1.0]]]


def test_the_end_of_the_data(form: str) -> None:
    data = tf.data.Dataset.from_tensor_slices(np.arange(2, dtype="i4"))
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(data)

    def body(v: Any, w: Any) -> None:
        v.assign_add(1)
        w.assign_add(infeed._dequeue() + 1)

    with ipu.ipu_strategy.IPUStrategy().scope():
        variables = [tf.Variable(0, dtype="int32") for _ in range(2)]
        infeed.initializer  # noqa: B018
        step = DeviceFunction(lambda: body(*variables))
        with pytest.raises(tf.errors.OutOfRangeError):
            for _ in range(3):
                step()
    assert [v.numpy() for v in variables] == [3, 3]


OPS = {"//": lambda a, b: a // b, "%": lambda a, b: a % b, "**": tf.pow}


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("shapes", [("n", "n"), ("n", ""), ("", "n")])
def test_what_has_no_elements_does_not_fail(op: str, shapes: Any, form: str) -> None:
    bad = -1 if op == "**" else 0

    def body(x: Any, y: Any) -> Any:
        x, y = (
            tf.fill([0], v) if shape else v
            for v, shape in zip((x, y), shapes, strict=True)
        )
        return OPS[op](x, y) + 1

    assert DeviceFunction(body)(tf.constant(7), tf.constant(bad)).shape == (0,)
    assert body(tf.constant(7), tf.constant(bad)).shape == (0,)


def test_random_integers_of_an_empty_range_and_shape() -> None:
    assert tf.random.uniform([0], 3, 3, "int32").shape == (0,)


def test_the_first_matrix_of_a_batch_that_fails_is_named() -> None:
    """Threads share a batch; those that come first in time are not named."""
    matrices = np.tile(np.eye(3, dtype="f4"), (200, 1, 1))
    matrices[[61, 62, 190]] = 0.0
    for threads in (1, 2, 3):
        _core.set_num_threads(threads)
        for make in (tf.linalg.cholesky, tf.linalg.inv, tf.linalg.lu):
            with pytest.raises(tf.errors.InvalidArgumentError, match="matrix 61 "):
                make(matrices)


def test_matrices_of_a_batch_are_the_same_for_all_threads() -> None:
    matrices = np.random.default_rng(5).standard_normal((200, 9, 9)).astype("f4")
    matrices = matrices @ matrices.swapaxes(1, 2) + np.eye(9, dtype="f4")
    found = []
    for threads in (1, 2, 3):
        _core.set_num_threads(threads)
        found.append(
            [
                np.asarray(x)
                for made in (
                    [tf.linalg.cholesky(matrices), tf.linalg.inv(matrices)],
                    tf.linalg.qr(matrices),
                    tf.linalg.eigh(matrices),
                    tf.linalg.svd(matrices),
                    tf.linalg.lu(matrices),
                    [tf.linalg.det(matrices)],
                )
                for x in made
            ]
        )
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            assert a.tobytes() == b.tobytes()
    factors = np.linalg.cholesky(matrices.astype(float))
    np.testing.assert_allclose(found[0][0], factors, rtol=1e-5, atol=1e-5)
