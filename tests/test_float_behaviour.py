# SPDX-License-Identifier: MIT
"""What a device does where a result is not a number of float16: stochastic rounding,
overflow, and the exceptions of ``floating_point_behaviour``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from op_cases.model import Array

import ipu
from ipu import _core, cross_replica_ops, keras, loops, tf
from ipu.config import IPUConfig, StochasticRoundingBehaviour
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedQueue
from ipu.ipu_strategy import IPUStrategy
from ipu.ops.pipelining_ops import PipelineSchedule
from ipu.scopes import stochastic_rounding

ON = StochasticRoundingBehaviour.ON
IDENTICAL = StochasticRoundingBehaviour.REPLICA_IDENTICAL_ONLY
F16 = np.float16


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    threads = ipu.num_threads()
    cpu = os.environ.get("IPU_CPU_CLASS")
    yield
    ipu.set_num_threads(threads)
    os.environ.pop("IPU_CPU_CLASS", None)
    if cpu is not None:
        os.environ["IPU_CPU_CLASS"] = cpu
    behave()


def behave(ipus: int = 1, **options: Any) -> IPUStrategy:
    config = IPUConfig()
    config.auto_select_ipus = ipus
    for name, value in options.items():
        setattr(config.floating_point_behaviour, name, value)
    config.configure_ipu_system()
    ipu.utils.reset_ipu_seed(7)
    return IPUStrategy()


def run(function: Callable[..., Any], *inputs: Any) -> Any:
    """The results of a program for the device, as arrays."""
    strategy = IPUStrategy()
    with strategy.scope():
        compiled = tf.function(function, jit_compile=True)
        found = strategy.run(compiled, args=[tf.constant(x) for x in inputs])
    return tf.nest.map_structure(lambda t: t.numpy(), found)


# --- stochastic rounding --------------------------------------------------------------


def neighbours(x: Array) -> tuple[Array, Array]:
    """The float16 numbers around x, which may be float16 itself."""
    near = x.astype(F16)
    wide = near.astype(np.float64)
    with np.errstate(over="ignore"):
        below = np.where(wide <= x, near, np.nextafter(near, F16(-np.inf)))
        above = np.where(wide >= x, near, np.nextafter(near, F16(np.inf)))
    return below, above


def check_rounding(got: Array, exact: Array) -> None:
    """Rows of `got` are roundings of `exact`: to its neighbours, right on average."""
    below, above = neighbours(exact)
    assert np.all((got == below) | (got == above))
    gap = (above.astype(np.float64) - below).clip(1e-30)
    share = (exact - below) / gap
    up = (got == above) & (above != below)
    sigma = np.sqrt(share * (1 - share) / len(got))
    assert np.all(np.abs(up.mean(0) - share * (above != below)) <= 5 * sigma + 1e-6)


def test_the_mean_of_what_is_rounded_is_right() -> None:
    behave(esr=ON)
    sizes = [1.0 / 3.0, 1000.1, 7.7e-6, 3.1e-8, -0.7, 65503.0, 2.0, 0.0, -2e-5, 6.2e-5]
    exact = np.tile(np.array(sizes, np.float32), (40000, 1))
    got = run(lambda x: tf.cast(x, tf.float16), exact)
    check_rounding(got, exact[0].astype(np.float64))


ROUNDED: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "exp": lambda a, b: tf.exp(a),
    "sqrt": lambda a, b: tf.sqrt(tf.abs(a)),
    "sum": lambda a, b: tf.reduce_sum(tf.stack([a, b]), axis=0),
    "matmul": lambda a, b: tf.matmul(a, tf.linalg.diag(b[0])),
    "softmax": lambda a, b: tf.nn.softmax(a),
    "select": lambda a, b: tf.where(a > b, a + b, a - b),
    "gather_grad": lambda a, b: tf.gradients(
        tf.reduce_sum(tf.gather(a, [0, 0], axis=1) * b[:, :2]), a
    )[0],
}


@pytest.mark.parametrize("op", ROUNDED)
def test_each_op_rounds_what_it_is_in_float32(op: str) -> None:
    rng = np.random.default_rng(3)
    a, b = (np.tile(rng.uniform(0.1, 2.0, 5).astype(F16), (20000, 1)) for _ in range(2))
    wide = a.astype(np.float32), b.astype(np.float32)
    behave()
    exact = run(ROUNDED[op], *wide)[0].astype(np.float64)
    behave(esr=ON)
    got = run(ROUNDED[op], a, b)
    assert got.dtype == F16
    check_rounding(got, exact)


def test_what_is_only_moved_or_exact_stays() -> None:
    behave(esr=ON)
    x = np.random.default_rng(1).normal(size=(50, 7)).astype(F16)
    np.testing.assert_array_equal(
        run(lambda a: tf.transpose(a)[::-1] * 2.0, x), 2 * x.T[::-1]
    )
    np.testing.assert_array_equal(run(lambda a: tf.nn.relu(a), x), np.maximum(x, 0))
    wide = x.astype(np.float32)
    np.testing.assert_array_equal(run(lambda a: a / 3.0, wide), wide / np.float32(3.0))


def test_neither_threads_nor_classes_change_a_bit_and_seeds_do() -> None:
    x = np.random.default_rng(1).normal(size=(64, 300)).astype(F16)

    def chain(a: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(a)
            y = tf.reduce_sum(tf.tanh(tf.matmul(a / 3.0, a, transpose_b=True)))
        return y, tape.gradient(y, a)

    found = []
    for threads, cpu in ((1, "avx2"), (2, "avx2"), (3, "generic"), (2, "generic")):
        ipu.set_num_threads(threads)
        os.environ["IPU_CPU_CLASS"] = cpu
        behave(esr=ON)
        found.append(run(chain, x))
    for other in found[1:]:
        for one, first in zip(other, found[0], strict=True):
            np.testing.assert_array_equal(one, first)
    ipu.utils.reset_ipu_seed(8)
    assert np.any(run(chain, x)[1] != found[0][1])


def test_each_step_and_each_turn_rounds_anew() -> None:
    strategy = behave(esr=ON)
    out = IPUOutfeedQueue()
    with strategy.scope():
        ones = tf.Variable(np.ones(4000, F16))

    @tf.function
    def last_of(turns: Any) -> Any:
        third = tf.zeros([4000], tf.float16)
        for _ in tf.range(turns):
            third = ones / 3.0
        return third

    def body() -> None:
        out.enqueue((last_of(1), last_of(2), ones / 3.0))

    with strategy.scope():
        strategy.run(tf.function(lambda: loops.repeat(2, body, []), jit_compile=True))
    rows = np.concatenate([t.numpy() for t in out.dequeue()])
    assert len({row.tobytes() for row in rows}) == 6
    low, high = float(rows.min()), float(rows.max())
    shares = (rows == rows.max()).mean(1)
    np.testing.assert_allclose(shares, (1 / 3 - low) / (high - low), atol=0.05)


def test_a_scope_says_otherwise_for_its_ops_and_their_gradients() -> None:
    ones = np.ones([3000], F16)

    def thirds(x: Any) -> Any:
        with stochastic_rounding(True):
            a = x * (x / 3.0)
        with stochastic_rounding(False):
            b = x * (x / 3.0)
        return a, b, x / 3.0, tf.gradients(a, x)[0], tf.gradients(b, x)[0]

    for configured in (False, True):
        behave(**({"esr": ON} if configured else {}))
        spread = [len(np.unique(found)) for found in run(thirds, ones)]
        assert spread == [2, 1, 2 if configured else 1, 2, 1]


def _block(x: Any) -> Any:
    return tf.tanh(x / 3.0) * tf.tanh(x / 3.0)


def _gated(x: Any) -> Any:
    return tf.nn.dropout(tf.cond(x[0] > 0, lambda: x / 3.0, lambda: x / 7.0), 0.5)


def _turns(x: Any) -> Any:
    for _ in tf.range(3):
        x = x / 3.0 + tf.tanh(x)
    return x


def _twice(of: Any) -> Any:
    return lambda x: of(of(x) / 3.0)


@pytest.mark.parametrize("block", [_block, _gated, _turns])
def test_what_is_recomputed_is_rounded_as_what_is_kept(block: Any) -> None:
    block = tf.autograph.experimental.do_not_convert(block)
    block = tf.function(block) if block is _turns else block

    def program(of: Any) -> Any:
        @tf.function
        def gradients(x: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(of(of(x) / 3.0))
            return y, tape.gradient(y, x)

        return gradients

    x = np.random.default_rng(3).normal(size=500).astype(F16)
    again = tf.recompute_grad
    forms = [block, again(block), again(again(block)), again(lambda x: again(block)(x))]
    found = []
    for of in forms:
        behave(esr=ON)
        found.append(run(program(of), x))
    for one in found[1:]:
        for number, first in zip(one, found[0], strict=True):
            np.testing.assert_array_equal(number, first)


@pytest.mark.parametrize("sources", ["first", "last", "both", "all"])
@pytest.mark.parametrize("arguments", [1, 2])
def test_what_is_recomputed_of_data_is_rounded_as_what_is_kept(
    sources: str, arguments: int
) -> None:
    """Of data and of weights that stay, what is kept has no gradient."""
    x = np.random.default_rng(3).normal(size=(4, 8)).astype(F16)
    found = []
    for of in (lambda block: block, tf.recompute_grad):
        behave(esr=ON)
        rng = np.random.default_rng(4)
        weights = [tf.Variable(rng.normal(size=(8, 8)).astype(F16)) for _ in "ab"]
        wanted = {"first": weights[:1], "last": weights[1:]}.get(sources, weights)

        def block(x: Any, *ys: Any, weights: Any = weights) -> Any:
            return sum(ys, tf.tanh(x @ weights[0]) @ weights[1] / 3.0)

        called = of(block)

        def gradients(x: Any, of: Any = called, wanted: Any = wanted) -> Any:
            more = [x * 0.7] * (arguments - 1)
            with tf.GradientTape() as tape:
                if sources == "all":
                    tape.watch(x)
                y = of(of(x, *more), *more)
            return tape.gradient(y, [*wanted, x] if sources == "all" else wanted)

        found.append(run(gradients, x))
    for kept, again in zip(*found, strict=True):
        np.testing.assert_array_equal(again, kept)


@pytest.mark.parametrize("used", [[0], [1], [0, 1]])
def test_what_is_recomputed_rounds_so_whichever_results_are_used(
    used: list[int],
) -> None:
    x = np.random.default_rng(3).normal(size=64).astype(F16)
    found = []
    for of in (lambda block: block, tf.recompute_grad):
        behave(esr=ON)
        w = tf.Variable(np.full(64, 0.3, F16))

        def block(x: Any, w: Any = w) -> Any:
            a = tf.sin(x * w)
            b = tf.cos(a) * x
            return b * b, a + b

        called = of(block)

        def gradient(x: Any, results_of: Any = called, w: Any = w) -> Any:
            with tf.GradientTape() as tape:
                results = results_of(x)
                y = tf.reduce_sum(sum(results[i] * results[i] for i in used))
            return tape.gradient(y, w)

        found.append(run(gradient, x))
    np.testing.assert_array_equal(*found)


def test_the_way_back_of_a_loop_rounds_as_the_way_there() -> None:
    x = np.random.default_rng(3).normal(size=(4, 8)).astype(F16)
    found = []
    for of in (lambda block: block, tf.recompute_grad):
        behave(esr=ON)
        rng = np.random.default_rng(4)
        w = tf.Variable(rng.normal(size=(8, 8)).astype(F16))
        block = of(lambda x, w=w: tf.tanh(x @ w / 3.0))

        def gradients(x: Any, of: Any = block, w: Any = w) -> Any:
            with tf.GradientTape() as tape:
                y = x
                for _ in tf.range(3):
                    y = of(y) + x
            return y, tape.gradient(y, w)

        found.append(run(gradients, x))
    for kept, again in zip(*found, strict=True):
        np.testing.assert_array_equal(again, kept)


def test_the_way_back_of_a_loop_uses_what_was_rounded() -> None:
    turns = 40

    def gradient(one: Any, ones: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(ones)
            made = tf.zeros_like(ones)
            for i in tf.range(turns):  # a number is made anew where that is exact
                made += one / 3.0 * tf.one_hot(i, turns, dtype=tf.float16) * ones
            total = tf.reduce_sum(made)
        return made, tape.gradient(total, ones)

    behave(esr=ON)
    made, found = run(gradient, F16(1.0), np.ones(turns, F16))
    assert len(np.unique(made)) == 2
    np.testing.assert_array_equal(found, made)


def test_the_text_of_a_graph_says_how_its_scopes_round() -> None:
    text = _core.graph_round_trip(
        "block b0(%0: float16[3]) { %1 = exp(%0) @(rounding=2) : float16[3] "
        "%2 = exp(%1) @(rounding=1) : float16[3] %3 = neg(%2) : float16[3] } -> (%3)"
    )
    rounded = _core.graph_pass(text, "round")
    assert rounded.count("round_stochastic") == 1
    assert rounded.count("@(rounding=") == 4


# --- small updates of float16 weights -------------------------------------------------

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: keras.optimizers.SGD(1e-4),
    "momentum": lambda: keras.optimizers.SGD(1e-5, momentum=0.9),
    "nesterov": lambda: keras.optimizers.SGD(1e-5, momentum=0.9, nesterov=True),
    "adam": lambda: keras.optimizers.Adam(1e-4, epsilon=1e-3),
}


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_updates_below_a_weights_precision_add_up(kind: str) -> None:
    def trained(dtype: str, **options: Any) -> Array:
        strategy = behave(**options)
        with strategy.scope():
            weights = tf.Variable(np.ones([2000], dtype))
            optimizer = OPTIMIZERS[kind]()

            def body() -> None:
                gradient = tf.ones([2000], dtype)
                optimizer.apply_gradients([(gradient, weights)])

            strategy.run(
                tf.function(lambda: loops.repeat(60, body, []), jit_compile=True)
            )
            return np.asarray(weights.numpy().astype(np.float64))

    exact = trained("float32")
    assert np.all(exact < 0.9999)
    rounded = trained("float16", esr=ON)
    sigma = rounded.std() / np.sqrt(2000)
    assert sigma > 0
    assert abs(rounded.mean() - exact.mean()) < 5 * sigma + 1e-5
    nearest = trained("float16")
    assert abs(nearest.mean() - exact.mean()) > 10 * sigma


def test_variables_that_something_is_added_to() -> None:
    strategy = behave(esr=ON)
    with strategy.scope():
        total = tf.Variable(np.ones([20000], F16))
        add = tf.function(
            lambda: total.assign_add(tf.fill([20000], tf.constant(1e-4, tf.float16))),
            jit_compile=True,
        )
        for _ in range(3):
            strategy.run(add)
    assert abs(total.numpy().astype(float).mean() - 1.0003) < 2e-5


# --- replicas and pipelines -----------------------------------------------------------


def replicated(esr: Any, ipus: int = 2) -> tuple[Array, ...]:
    """Of each replica: of one value for all, its own, the sum; its weights."""
    strategy = behave(ipus, esr=esr)
    x = np.linspace(0.1, 1.0, 2 * 500).astype(np.float32).reshape(2, 500)
    queue = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(x).repeat())
    out = IPUOutfeedQueue()
    with strategy.scope():
        _ = queue.initializer
        weights = tf.Variable(np.ones([500], F16))

        def body(mine: Any) -> None:
            mine = tf.cast(mine, tf.float32)
            alike = weights / 3.0
            total = cross_replica_ops.cross_replica_sum(tf.cast(mine, tf.float16))
            weights.assign_sub(total * 1e-4)
            own = tf.cast(mine, tf.float16)
            out.enqueue((alike, own, total, weights.read_value()))

        strategy.run(
            tf.function(lambda: loops.repeat(2, body, [], queue), jit_compile=True)
        )
    return tuple(t.numpy() for t in out.dequeue())


def test_what_replicas_compute_alike_they_round_alike() -> None:
    for esr in (ON, IDENTICAL):
        alike, own, total, weights = replicated(esr)
        for found in (alike, total, weights):
            np.testing.assert_array_equal(found[:, 0], found[:, 1])
        assert len(np.unique(alike[0])) == 2
        nearest = (
            np.linspace(0.1, 1.0, 1000).astype(np.float32).astype(F16).reshape(2, 500)
        )
        assert np.array_equal(own[0], nearest) == (esr is IDENTICAL)
    again = replicated(IDENTICAL)
    for one, two in zip(again, (alike, own, total, weights), strict=True):
        np.testing.assert_array_equal(one, two)


def test_replicas_round_their_own_values_differently() -> None:
    strategy = behave(2, esr=ON)
    queue = IPUInfeedQueue(
        tf.data.Dataset.from_tensors(np.full(900, 1 / 3, np.float32)).repeat()
    )
    out = IPUOutfeedQueue()
    with strategy.scope():
        _ = queue.initializer
        body = lambda x: out.enqueue(tf.cast(x, tf.float16))  # noqa: E731
        strategy.run(
            tf.function(lambda: loops.repeat(1, body, [], queue), jit_compile=True)
        )
    rows = out.dequeue().numpy()[0]
    assert np.any(rows[0] != rows[1])
    assert {len(np.unique(row)) for row in rows} == {2}


@pytest.mark.parametrize(
    "schedule", [PipelineSchedule.Grouped, PipelineSchedule.Sequential]
)
def test_pipelines_round_as_one_ipu_does(schedule: PipelineSchedule) -> None:
    x = np.random.default_rng(0).normal(size=(64, 8)).astype(F16)
    y = np.random.default_rng(1).integers(0, 3, 64).astype(np.int32)

    def weights(ipus: int) -> list[Array]:
        strategy = behave(ipus, esr=ON)
        with strategy.scope():
            keras.utils.set_random_seed(3)
            ipu.utils.reset_ipu_seed(7)
            model = keras.Sequential(
                [
                    keras.layers.Dense(16, "tanh", input_shape=(8,), dtype="float16"),
                    keras.layers.Dense(3, dtype="float16"),
                ]
            )
            if ipus == 2:
                model.set_pipeline_stage_assignment([0, 1])
                model.set_pipelining_options(
                    gradient_accumulation_steps_per_replica=4,
                    pipeline_schedule=schedule,
                )
            else:
                model.set_gradient_accumulation_options(4)
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile(keras.optimizers.SGD(0.01), loss, steps_per_execution=8)
            model.fit(x, y, batch_size=8, epochs=2, verbose=0, shuffle=False)
            return [np.asarray(w) for w in model.get_weights()]

    for one, other in zip(weights(1), weights(2), strict=True):
        np.testing.assert_array_equal(one, other)


# --- overflow -------------------------------------------------------------------------

LARGE = np.array([[60000.0, -60000.0, 3.0], [np.inf, -np.inf, np.nan]], F16)


def test_what_overflow_gives() -> None:
    def double(x: Any) -> Any:
        return x + x, tf.cast(tf.cast(x, tf.float32) * 2.0, tf.float16), x * 0.5

    with np.errstate(over="ignore"):
        plain = LARGE + LARGE
    most, nan = 65504.0, np.nan
    for options, row in (
        ({}, [np.inf, -np.inf, 6.0]),
        ({"nanoo": False}, [most, -most, 6.0]),
        ({"nanoo": True}, [nan, nan, 6.0]),
    ):
        behave(**options)
        added, narrowed, halved = run(double, LARGE)
        for found in (added, narrowed):
            np.testing.assert_array_equal(found[0], row)
            np.testing.assert_array_equal(found[1], plain[1])
        np.testing.assert_array_equal(halved, LARGE * F16(0.5))


def test_overflow_of_what_is_rounded_stochastically() -> None:
    behave(esr=ON, nanoo=False)
    np.testing.assert_array_equal(run(lambda x: x + x, LARGE)[0], [65504, -65504, 6])


def test_overflow_in_products_and_updates_clips() -> None:
    strategy = behave(nanoo=False)
    x = np.full((3, 40), 200.0, F16)
    product = run(lambda a: tf.matmul(a, a, transpose_b=True), x)
    np.testing.assert_array_equal(product, np.full((3, 3), 65504, F16))
    with strategy.scope():
        weights = tf.Variable(np.full(3, 60000.0, F16))
        strategy.run(tf.function(lambda: weights.assign_add(weights), jit_compile=True))
    np.testing.assert_array_equal(weights.numpy(), np.full(3, 65504, F16))


def test_an_infinity_that_is_no_overflow_stays() -> None:
    behave(nanoo=False)
    zero = np.zeros(2, F16)
    np.testing.assert_array_equal(run(lambda x: 1.0 / x, zero), [np.inf, np.inf])


# --- exceptions -----------------------------------------------------------------------

FAULTS: dict[str, tuple[str, Callable[[Any], Any], list[float], str]] = {
    "add": ("oflo", lambda x: x + x, [1, 40000], r"add overflows in float16.*\[1\]"),
    "exp": ("oflo", lambda x: tf.exp(x), [1, 20], r"exp overflows.*inf out of 20"),
    "cast": (
        "oflo",
        lambda x: tf.cast(tf.cast(x, tf.float32) * 4.0, tf.float16),
        [1, 40000],
        r"cast overflows in float16: element \[1\] is inf out of 160000",
    ),
    "sum": ("oflo", lambda x: tf.reduce_sum(x), [40000, 40000], r"sum overflows"),
    "wide": (
        "oflo",
        lambda x: tf.exp(tf.cast(x, tf.float32)),
        [1, 100],
        r"exp overflows in float32",
    ),
    "matmul": (
        "oflo",
        lambda x: tf.matmul(x[None], x[:, None]),
        [300, 300],
        r"matmul overflows in float16: element \[0, 0\]",
    ),
    "div": ("div0", lambda x: 1.0 / x, [1, 0], r"divides by zero in float16"),
    "log": ("div0", lambda x: tf.math.log(x), [1, 0], r"log divides by zero"),
    "root": (
        "inv",
        lambda x: tf.sqrt(x),
        [1, -4],
        r"sqrt is an invalid.*nan out of -4",
    ),
    "zeros": ("inv", lambda x: x / x, [1, 0], r"div is an invalid.*out of 0, 0"),
    "infinities": ("inv", lambda x: x - x, [1, np.inf], r"sub is an invalid"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_exceptions_end_the_program_at_its_line(name: str) -> None:
    option, function, values, message = FAULTS[name]
    x = np.array(values, F16)
    behave()
    run(function, x)
    behave(**{other: True for other in ("inv", "div0", "oflo") if other != option})
    run(function, x)
    behave(**{option: True})
    with pytest.raises(tf.errors.InvalidArgumentError, match=message) as caught:
        run(function, x)
    assert f"floating_point_behaviour.{option}" in str(caught.value)
    assert "test_float_behaviour.py:" in str(caught.value)
    run(function, np.ones(2, F16))  # the next run is as if nothing had been


def test_constants_are_no_exception() -> None:
    behave(div0=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="divides by zero"):
        run(lambda: tf.constant(1.0) / tf.constant([0.0, 1.0]))
    behave(nanoo=False)
    large = [60000.0] * 2
    found = run(lambda: tf.constant(large, tf.float16) + tf.constant(large, tf.float16))
    np.testing.assert_array_equal(found, [65504, 65504])


def test_what_was_infinite_before_ends_nothing() -> None:
    behave(inv=True, div0=True, oflo=True)
    x = np.array([np.inf, -np.inf, 2.0], F16)
    got = run(lambda a: (a * 2.0, tf.exp(a), a[::-1], tf.nn.relu(a)), x)
    np.testing.assert_array_equal(got[0], x * 2)
    np.testing.assert_array_equal(got[3], np.maximum(x, 0))
    nan = np.array([np.nan], F16)
    assert np.isnan(run(lambda a: tf.sqrt(a) + 1.0, nan)).all()


def test_variables_are_as_they_were_when_an_update_overflows() -> None:
    strategy = behave(oflo=True)
    with strategy.scope():
        weights = tf.Variable(np.array([1.0, 60000.0], F16))
        optimizer = keras.optimizers.SGD(1.0)

        def step() -> None:
            optimizer.apply_gradients([(-weights.read_value(), weights)])

        with pytest.raises(tf.errors.InvalidArgumentError, match="overflows"):
            strategy.run(tf.function(step, jit_compile=True))
    np.testing.assert_array_equal(weights.numpy(), [1.0, 60000.0])


def test_exceptions_change_no_number() -> None:
    x = np.random.default_rng(0).normal(size=(16, 12)).astype(np.float32)

    def train(a: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(a)
            y = tf.reduce_mean(
                tf.nn.softmax(tf.tanh(tf.matmul(a, a, transpose_b=True) + 1.0))
            )
        return y, tape.gradient(y, a)

    behave()
    plain = run(train, x), run(train, x.astype(F16))
    behave(inv=True, div0=True, oflo=True)
    for one, other in zip(
        plain, (run(train, x), run(train, x.astype(F16))), strict=True
    ):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_all_of_it_at_once() -> None:
    behave(set_all=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="overflows in float16"):
        run(lambda x: x + x, LARGE[:1])
    assert len(np.unique(run(lambda x: x / 3.0, np.ones(999, F16)))) == 2


def test_dynamic_loss_scaling_sees_infinities_by_default() -> None:
    strategy = behave()
    with strategy.scope():
        optimizer = keras.mixed_precision.LossScaleOptimizer(
            keras.optimizers.SGD(0.1), initial_scale=1024.0
        )
        weights = tf.Variable(np.ones(2, np.float32))

        def step() -> None:
            gradient = tf.cast(
                tf.constant([60000.0, 1.0], tf.float16) * 2.0, tf.float32
            )
            optimizer.apply_gradients([(gradient, weights)])

        strategy.run(tf.function(step, jit_compile=True))
        assert float(optimizer.loss_scale) == 512.0
    np.testing.assert_array_equal(weights.numpy(), [1.0, 1.0])
