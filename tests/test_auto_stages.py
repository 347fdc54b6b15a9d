"""``ipu.auto_stages``: the best split of a model into stages."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

import ipu
from ipu import keras
from ipu.keras.engine.pipelines.auto_stages import _best_split

Dense = keras.layers.Dense


def heaviest(weights: list[float], cuts: tuple[int, ...]) -> float:
    ends = [0, *cuts, len(weights)]
    return max(sum(weights[a:b]) for a, b in itertools.pairwise(ends))


def test_no_split_is_better() -> None:
    rng = random.Random(1)
    for _ in range(300):
        count = rng.randint(1, 9)
        weights = [float(rng.choice([0, 1, 1, 2, 5, 9])) for _ in range(count)]
        together = {i for i in range(1, count) if rng.random() < 0.3}
        allowed = [i for i in range(1, count) if i not in together]
        n = rng.randint(1, len(allowed) + 1)
        stages = _best_split(weights, n, together)
        assert stages == sorted(stages) and set(stages) == set(range(n))
        cuts = tuple(i for i in range(1, count) if stages[i] != stages[i - 1])
        assert set(cuts) <= set(allowed)
        least = min(
            heaviest(weights, c) for c in itertools.combinations(allowed, n - 1)
        )
        assert heaviest(weights, cuts) == least
        ends = [0, *cuts, count]
        squares = sum(sum(weights[a:b]) ** 2 for a, b in itertools.pairwise(ends))
        assert squares == min(
            sum(sum(weights[a:b]) ** 2 for a, b in itertools.pairwise([0, *c, count]))
            for c in itertools.combinations(allowed, n - 1)
            if heaviest(weights, c) == least
        )


def test_costs_are_those_of_forward_and_backward() -> None:
    model = keras.Sequential([Dense(16, input_shape=(8,)), Dense(4)])
    split = ipu.auto_stages(model, 2, batch_size=32)
    first, second = split.calls
    # y = x w: one product forward; its weight's gradient; that of x in the second only
    assert first.flops == pytest.approx(2 * 32 * 8 * 16 * 2, rel=0.2)
    assert second.flops == pytest.approx(2 * 32 * 16 * 4 * 3, rel=0.3)
    assert second.bytes > 4 * (32 * 16 + 16 * 4 + 32 * 4)
    wide = keras.Sequential([Dense(16, batch_input_shape=(64, 8)), Dense(4)])
    assert ipu.auto_stages(wide, 2).calls[0].flops == pytest.approx(
        2 * first.flops, rel=0.05
    )


def test_views_cost_nothing() -> None:
    model = keras.Sequential(
        [keras.layers.Flatten(input_shape=(8, 8)), Dense(64), Dense(64)]
    )
    split = ipu.auto_stages(model, 2)
    assert split.calls[0].flops == split.calls[0].bytes == 0.0
    assert split.stages == [0, 0, 1]


def test_the_split_is_set_and_compared() -> None:
    model = keras.Sequential([Dense(64, input_shape=(64,)) for _ in range(6)])
    model.add(Dense(512))
    split = ipu.auto_stages(model, 3, assign=False)
    assert not model._is_pipelined()
    assert split.loss_of(split.stages) == 0.0
    assert split.loss_of([0, 1, 2, 2, 2, 2, 2]) > 0.3
    split = ipu.auto_stages(model, 3)
    entries = model.get_pipeline_stage_assignment()
    assert [entry.pipeline_stage for entry in entries] == split.stages
    assert split.loss_of(model) == split.loss_of(entries) == 0.0
    text = str(split)
    assert "The slowest stage costs" in text and len(text.splitlines()) >= 8
    assert split._repr_html_().count("<tr>") == 4
    with pytest.raises(ValueError, match="has 7 calls"):
        split.loss_of([0, 1])
    with pytest.raises(ValueError, match="needs a stage"):
        split.loss_of([0, 0, 0, 1, 1, 1, None])


def test_calls_that_share_weights_stay_together() -> None:
    twice = Dense(8)
    x = inputs = keras.Input((8,))
    x = Dense(8)(twice(x))
    x = Dense(3)(twice(x))
    model = keras.Model(inputs, x)
    assert ipu.auto_stages(model, 2).stages == [0, 0, 0, 1]
    with pytest.raises(ValueError, match="into 2 stages at most"):
        ipu.auto_stages(model, 3)


def test_models_inside_and_subclasses() -> None:
    class Two(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.inner = keras.Sequential([Dense(8, "relu"), Dense(8, "relu")])
            self.last = Dense(8)

        def call(self, inputs: Any) -> Any:
            return self.last(self.inner(inputs))

    model = Two()
    with pytest.raises(RuntimeError, match="needs a model that is built"):
        ipu.auto_stages(model, 2)
    model.build((4, 8))
    ipu.auto_stages(model, 3)
    assert model._stage_tree() == [[0, 1], 2]
    for wrong in (0, 1.5, True):
        with pytest.raises(ValueError, match="positive number of stages"):
            ipu.auto_stages(model, wrong)  # type: ignore[arg-type]


def test_costs_run_no_program(caplog: pytest.LogCaptureFixture) -> None:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = keras.Sequential([Dense(4, input_shape=(3,)), Dense(2)])
        caplog.clear()
        ipu.auto_stages(model, 2)
    assert "Automatically replicating" not in caplog.text
    ipu.config.reset_ipu_configuration()
