# SPDX-License-Identifier: MIT
"""Replicas that share out the state of an optimizer: the bits of those that do not, in
a fraction of the memory. tests/test_distributed.py has several processes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from simulated_ipus import attach

import ipu
from ipu import keras, loops, optimizers, tf
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ops.pipelining_ops import OptimizerFunctionOutput, pipeline
from ipu.tf import errors

SHAPES = ((3, 5), (7,), (1,), (), (2, 2))  # of parts that are full, and that are not
Make = Callable[[], Any]


@pytest.fixture(autouse=True)
def _one_ipu_again() -> Iterator[None]:
    yield
    attach(1)


def make_weights() -> list[Any]:
    rng = np.random.default_rng(1)
    return [
        tf.Variable(rng.normal(size=shape).astype("f4"), name=f"w{number}")
        for number, shape in enumerate(SHAPES)
    ]


def fed() -> IPUInfeedQueue:
    data = np.random.default_rng(2).normal(size=(64, 5)).astype("f4")
    queue = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(data).repeat())
    _ = queue.initializer
    return queue


def loss_of(weights: list[Any], x: Any) -> Any:
    a, b, c, d, e = weights
    y = tf.linalg.matvec(a, x) * c + tf.reduce_sum(tf.sin(b)) * d
    return tf.reduce_sum(y * y) + tf.reduce_sum(e * tf.reduce_mean(x)) ** 2


def values(variables: Any) -> list[Any]:
    variables = variables() if callable(variables) else variables
    return [variable.numpy() for variable in variables]


def in_a_loop(replicas: int, wrap: Callable[[bool], Any], share: bool) -> list[Any]:
    """Weights and state at the end, and the program."""
    attach(replicas)
    weights, queue, opt = make_weights(), fed(), wrap(share)

    def body(x: Any) -> None:
        opt.minimize(loss_of(weights, x), var_list=weights)

    @tf.function(jit_compile=True)
    def train() -> None:
        loops.repeat(6, body, [], queue)

    train()
    text = train.traced().program.text
    assert (" parts of " in text) == (share and "Descent" not in type(opt).__name__)
    train()
    return [*values(weights), *values(opt.variables)]


def equal(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(map(np.array_equal, a, b))


def v2(make: Make, mean: bool = False) -> Callable[[bool], Any]:
    kind = (
        optimizers.CrossReplicaGradientAccumulationOptimizerV2
        if mean
        else optimizers.GradientAccumulationOptimizerV2
    )
    return lambda share: kind(make(), 2, replicated_optimizer_state_sharding=share)


def of_keras(make: Make) -> Callable[[bool], Any]:
    return lambda share: keras.optimizers.GradientAccumulationOptimizer(
        make(), 3, replicated_optimizer_state_sharding=share
    )


KERAS = keras.optimizers
TF1 = tf.compat.v1.train
WRAPPED: dict[str, Callable[[bool], Any]] = {
    "momentum": v2(lambda: KERAS.SGD(0.01, momentum=0.9)),
    "adam, mean": v2(lambda: KERAS.Adam(0.01), mean=True),
    "nesterov": of_keras(lambda: KERAS.SGD(0.01, momentum=0.9, nesterov=True)),
    "rmsprop": of_keras(lambda: KERAS.RMSprop(0.01, momentum=0.5, centered=True)),
    "adagrad": of_keras(lambda: KERAS.Adagrad(0.01)),
    "adadelta": of_keras(lambda: KERAS.Adadelta(0.5)),
    "adamax": of_keras(lambda: KERAS.Adamax(0.01)),
    "ftrl": of_keras(lambda: KERAS.Ftrl(0.1)),
    "norms of all": of_keras(lambda: KERAS.Adam(0.01, global_clipnorm=0.1)),
    "norms of each": of_keras(lambda: KERAS.Lamb(0.01)),
    "averages": of_keras(lambda: KERAS.AdamW(0.01, use_ema=True, ema_momentum=0.9)),
    "version 1": v2(lambda: TF1.MomentumOptimizer(0.01, 0.9), mean=True),
}


@pytest.mark.parametrize("replicas", [2, 4, 8])
@pytest.mark.parametrize("name", WRAPPED)
def test_bits_are_those_of_whole_state(name: str, replicas: int) -> None:
    wanted = in_a_loop(replicas, WRAPPED[name], False)
    assert equal(in_a_loop(replicas, WRAPPED[name], True), wanted)


@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
def test_state_of_halves(rounding: str) -> None:
    def trained(share: bool) -> list[Any]:
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 4
        config.floating_point_behaviour.esr = (
            ipu.config.StochasticRoundingBehaviour.ON
            if rounding == "stochastic"
            else ipu.config.StochasticRoundingBehaviour.OFF
        )
        config.configure_ipu_system()
        ipu.utils.reset_ipu_seed(1)
        weight = tf.Variable(np.linspace(-1, 1, 21).astype("f2"))
        queue, opt = fed(), of_keras(lambda: KERAS.Adam(0.01))(share)

        def body(x: Any) -> None:
            scale = tf.cast(tf.reduce_mean(x), tf.float16)
            opt.minimize(tf.reduce_sum(weight * weight * scale), var_list=[weight])

        tf.function(lambda: loops.repeat(6, body, [], queue), jit_compile=True)()
        return [*values([weight]), *values(opt.variables)]

    assert equal(trained(True), trained(False))


def test_a_pipeline() -> None:
    def trained(**options: Any) -> list[Any]:
        attach(4)
        weights, queue = make_weights(), fed()
        adam = KERAS.Adam(0.01)

        def first(x: Any) -> Any:
            return x, tf.linalg.matvec(weights[0], x) * weights[2]

        def second(x: Any, y: Any) -> Any:
            y = y + tf.reduce_sum(tf.sin(weights[1])) * weights[3]
            more = tf.reduce_sum(weights[4] * tf.reduce_mean(x)) ** 2
            return tf.reduce_sum(y * y) + more

        def train() -> None:
            pipeline(
                [first, second],
                gradient_accumulation_count=4,
                repeat_count=2,
                infeed_queue=queue,
                optimizer_function=lambda loss: OptimizerFunctionOutput(
                    adam, loss, variables=weights
                ),
                outfeed_queue=out,
                **options,
            )

        out = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
        function = tf.function(train, jit_compile=True)
        function()
        text = function.traced().program.text
        parts.append(len(re.findall(r"resource .* of 2 parts of", text)))
        return [*values(weights), *values(adam.variables), np.asarray(out.dequeue())]

    parts: list[int] = []
    wanted = trained()
    for options in (
        {"replicated_optimizer_state_sharding": True},
        {
            "replicated_optimizer_state_sharding": None,
            "offload_weight_update_variables": True,
        },
        {"replicated_weight_sharding": True, "offload_weights": False},
        {
            "replicated_weight_sharding": True,
            "replicated_optimizer_state_sharding": True,
        },
    ):
        assert equal(trained(**options), wanted), options
    # variables of one element are as small as their parts
    assert parts == [0, 6, 6, 3, 9]


def fitted(share: bool, steps: int) -> Any:
    model = keras.Sequential([keras.layers.Dense(96), keras.layers.Dense(4)])
    model.compile(KERAS.Adam(0.01), "mse", steps_per_execution=4)
    model.set_gradient_accumulation_options(
        steps, replicated_optimizer_state_sharding=share
    )
    return model


DATA = np.random.default_rng(3).normal(size=(64, 300)).astype("f4")


def fit(model: Any) -> None:
    model.fit(DATA, DATA[:, :4], batch_size=4, verbose=0, shuffle=False)


@pytest.mark.parametrize("steps", [1, 2])
def test_hosts_read_and_write_the_whole(steps: int) -> None:
    attach(4)
    with ipu.ipu_strategy.IPUStrategy().scope():
        one, other = fitted(True, steps), fitted(False, steps)
        one.build((4, 300))
        other.build((4, 300))
        other.set_weights(one.get_weights())
        for model in (one, other):
            fit(model)
            state = model.optimizer.get_weights()
            model.optimizer.set_weights([state[0], *(0.5 * s for s in state[1:])])
            fit(model)
            # an option that changes keeps what there is
            now = model is other
            model.set_gradient_accumulation_options(
                steps, replicated_optimizer_state_sharding=now
            )
            model.compile(model.optimizer, "mse", steps_per_execution=4)
            fit(model)
    assert equal(one.get_weights(), other.get_weights())
    assert equal(one.optimizer.get_weights(), other.optimizer.get_weights())


def test_bytes_are_divided_by_the_replicas() -> None:
    attach(4)
    held, accounts = [], []
    with ipu.ipu_strategy.IPUStrategy().scope():
        for share in (False, True):
            model = fitted(share, 1)
            model.build((4, 300))
            device = model.weights[0]._device
            before = device.variable_bytes
            fit(model)
            held.append(device.variable_bytes - before)
            report = ipu.machine.last_account(replicas=4)
            accounts.append(sum(m.variables for m in report.memories))
    state = 2 * 4 * sum(w.numpy().size for w in model.weights)
    slack = 64 * 1024
    assert held[0] - held[1] > 3 * state - slack
    assert accounts[0] - accounts[1] == pytest.approx(state * 3 / 4, rel=0.01)


def test_replicas_that_do_not_agree_are_refused() -> None:
    attach(2)
    weight = tf.Variable(np.ones(4, "f4"), name="w")
    queue, adam = fed(), KERAS.Adam(0.01)
    opt = KERAS.GradientAccumulationOptimizer(
        adam, 2, replicated_optimizer_state_sharding=True
    )

    def body(x: Any) -> None:
        pairs = opt.compute_gradients(tf.reduce_sum(weight * x[:4]), [weight])
        opt.apply_gradients(pairs, experimental_aggregate_gradients=False)

    with pytest.raises(errors.FailedPreconditionError, match="2 replicas are to share"):
        tf.function(lambda: loops.repeat(4, body, [], queue), jit_compile=True)()
