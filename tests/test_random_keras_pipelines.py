"""Random functional models in pipelines: the bits of accumulation on one IPU."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from simulated_ipus import attach

import ipu
from ipu import keras
from ipu.ipu_strategy import IPUStrategy
from ipu.keras.engine.pipelines.auto_stages import tree_of
from ipu.keras.engine.pipelines.calls import flatten

layers = keras.layers
Schedule = ipu.pipelining_ops.PipelineSchedule
Recomputation = ipu.pipelining_ops.RecomputationMode
KINDS = (
    "dense dense add concatenate activation dropout batch layer operators inner shared"
).split()


@pytest.fixture(autouse=True)
def one_ipu() -> Iterator[None]:
    yield
    attach(1)


def random_model(rng: random.Random) -> Any:
    """Layers of many kinds on what came before, with branches and shared weights."""
    inputs = keras.Input((6,))
    made = [inputs]
    shared: dict[int, Any] = {}

    def some_layer(x: Any, size: int) -> Any:
        kind = rng.choice(KINDS)
        if kind == "add":
            other = layers.Dense(5)(rng.choice(made))
            return layers.Add()([layers.Dense(5)(x), other])
        if kind == "concatenate":
            return layers.Concatenate()([x, rng.choice(made)])
        if kind == "activation":
            return layers.Activation(rng.choice(["relu", "sigmoid", "softmax"]))(x)
        if kind == "dropout":
            return layers.Dropout(0.3)(x)
        if kind == "batch":
            return layers.BatchNormalization()(x)
        if kind == "layer":
            return layers.LayerNormalization()(x)
        if kind == "operators":
            return x * 0.5 + 1.0
        if kind == "inner":
            start = keras.Input((size,))
            end = layers.Dense(4)(layers.Dense(size, "relu")(start))
            return keras.Model(start, end)(x)
        if kind == "shared":
            return shared.setdefault(size, layers.Dense(size))(x)
        return layers.Dense(
            rng.randint(2, 8),
            rng.choice(["relu", "tanh", None]),
            kernel_regularizer=rng.choice([None, "l2"]),
            activity_regularizer=rng.choice([None, None, "l1"]),
        )(x)

    for _ in range(rng.randint(3, 9)):
        x = rng.choice(made[-4:])
        made.append(some_layer(x, int(x.shape[-1])))
    return keras.Model(inputs, layers.Dense(3, rng.choice(["softmax", None]))(made[-1]))


def random_stages(model: Any, rng: random.Random) -> list[int]:
    """Stages in the order of the calls."""
    flat = flatten(model, tree_of(model, itertools.repeat(0)))
    count = len(flat.calls)
    cuts = sorted(rng.sample(range(1, count), min(rng.randint(1, 3), count - 1)))
    return [sum(cut <= place for cut in cuts) for place in range(count)]


def train(
    seed: int, pipeline: dict[str, Any] | None, replicas: int = 1
) -> tuple[Any, ...] | None:
    """Train one of two equal models; None where a schedule does not take it."""
    rng = random.Random(seed)
    schedule = rng.choice(list(Schedule))
    method = rng.choice(["sum", "mean", "running_mean"])
    optimizer = rng.choice(["SGD", "Adam", "RMSprop"])
    batch = rng.choice([2, 4])
    count = 24 * rng.choice([1, 2])  # batches of an execution: any schedule's multiple
    keras.utils.set_random_seed(seed)
    model = random_model(random.Random(seed))
    stages = random_stages(model, rng)
    number = max(stages) + 1
    mapping = list(range(number)) if rng.random() < 0.8 else [0] * number
    if schedule is Schedule.InterleavedOneForwardOneBackward:
        mapping = [stage % max(number // 2, 1) for stage in range(number)]
    if pipeline is not None:
        attach(replicas << max(mapping).bit_length())
    keras.utils.set_random_seed(seed)
    model = random_model(random.Random(seed))
    with IPUStrategy().scope():
        chosen = getattr(keras.optimizers, optimizer)(1e-3)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(chosen, loss, metrics=["accuracy"], steps_per_execution=count)
        if pipeline is None:
            model.set_gradient_accumulation_options(24, method)
        else:
            model._assign_stages(tree_of(model, iter(stages)))
            model.set_pipelining_options(
                24, mapping, None, method, pipeline_schedule=schedule, **pipeline
            )
        data = np.random.default_rng(seed)
        x = data.normal(size=(2 * batch * count, 6)).astype(np.float32)
        y = data.integers(0, 3, 2 * batch * count).astype(np.int32)
        try:
            history = model.fit(x, y, batch_size=batch, shuffle=False, verbose=0)
        except (NotImplementedError, ValueError, ipu.tf.errors.OpError) as error:
            refusals = (
                "is not supported with PipelineSchedule",
                "an input can only be used by pipeline stages on the same IPU",
                "The pipelining schedule",
                "which does not run before it",
                "computes the gradients of their weights in no fixed order",
            )
            assert any(words in str(error) for words in refusals), error
            return None
        results = model.evaluate(x, y, batch_size=batch, verbose=0)
    return history.steps, results, model.get_weights()


OFFLOADED = (
    "offload_activations",
    "offload_gradient_accumulation_buffers",
    "offload_weight_update_variables",
    "offload_weights",
)


def check(seed: int) -> bool:
    rng = random.Random(seed)
    recomputation = rng.choice(
        [None, None, Recomputation.Auto, Recomputation.RecomputeThenBackpropagate]
    )
    options: dict[str, Any] = {name: True for name in OFFLOADED if rng.random() < 0.2}
    if recomputation is not None:
        options["recomputation_mode"] = recomputation
    found = train(seed, options)
    if found is None:
        return False
    attach(1)
    expected = train(seed, None)
    assert expected is not None
    for name, values in expected[0].items():
        np.testing.assert_array_equal(found[0][name], values, f"{name} of {seed}")
    np.testing.assert_array_equal(found[1], expected[1])
    for one, other in zip(found[2], expected[2], strict=True):
        np.testing.assert_array_equal(one, other, f"a weight of {seed}")
    return True


@pytest.mark.filterwarnings("ignore:.*received `from_logits=True`")
def test_replicas_that_share_out_state_and_weights() -> None:
    trained = 0
    for seed in range(6):
        options = {"replicated_optimizer_state_sharding": True}
        options["replicated_weight_sharding"] = seed % 2 == 0
        options["offload_weights"] = seed % 3 == 0
        found, expected = train(seed, options, 2), train(seed, {}, 2)
        trained += found is not None
        if found is not None and expected is not None:
            np.testing.assert_array_equal(found[1], expected[1])
            for one, other in zip(found[2], expected[2], strict=True):
                np.testing.assert_array_equal(one, other, f"a weight of {seed}")
    assert trained >= 3


@pytest.mark.parametrize("first", [0, 8])
@pytest.mark.filterwarnings("ignore:.*received `from_logits=True`")
def test_random_models(first: int) -> None:
    assert sum(check(seed) for seed in range(first, first + 8)) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 500, 50))
@pytest.mark.filterwarnings("ignore:.*received `from_logits=True`")
def test_more_random_models(first: int) -> None:
    assert sum(check(seed) for seed in range(first, first + 50)) >= 20
