"""Accumulated gradients, and a model's step cut into stages, against plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from staged_models import (
    MODELS,
    Dense,
    X,
    Z,
    accumulated,
    assert_same,
    chain,
    floats,
    run_plainly,
    staged,
    train,
)

from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy


@pytest.fixture
def plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    run_plainly(monkeypatch)


@pytest.mark.parametrize("make", MODELS)
def test_stages_one_after_another_give_what_the_model_gives(
    make: Any, plainly: None
) -> None:
    weight = {0: 1.0, 1: 2.0, 2: 0.5}
    one = train(make, accumulated(), class_weight=weight)
    assert_same(one, train(make, staged(), class_weight=weight))
    assert np.isfinite(one.history["loss"]).all()
    assert one.history["loss"][1] != one.history["loss"][0]


@pytest.mark.parametrize("method", ["mean", "running_mean"])
def test_accumulated_gradients_are_reduced(method: str, plainly: None) -> None:
    assert_same(train(chain, accumulated(method)), train(chain, staged(method)))


def test_sample_weights_travel_to_the_last_stage(plainly: None) -> None:
    weight = np.abs(floats(64, seed=3))
    one = train(chain, accumulated(), sample_weight=weight)
    assert_same(one, train(chain, staged(), sample_weight=weight))


def test_accumulation_is_the_gradient_of_all_its_batches() -> None:
    def fit(batch_size: int, steps: int) -> list[Any]:
        keras.utils.set_random_seed(1)
        with IPUStrategy().scope():
            model = keras.Sequential([Dense(3, input_shape=(6,))])
            loss = keras.losses.MeanSquaredError(reduction="sum")
            model.compile("sgd", loss, steps_per_execution=4)
            model.set_gradient_accumulation_options(steps)
            targets = floats(64, 3, seed=4)
            model.fit(X, targets, batch_size=batch_size, shuffle=False, verbose=0)
            assert int(model.optimizer.iterations.numpy()) == 4
            return model.get_weights()

    for one, other in zip(fit(16, 1), fit(4, 4), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_accumulators_of_another_dtype() -> None:
    seen: list[str] = []

    class Cast(keras.optimizers.SGD):
        def apply_gradients(self, pairs: Any, name: Any = None, **_: Any) -> Any:
            pairs = list(pairs)
            seen.extend(gradient.dtype.name for gradient, _ in pairs)
            return super().apply_gradients([(tf.cast(g, v.dtype), v) for g, v in pairs])

    model = keras.Sequential([Dense(2, input_shape=(6,))])
    model.compile(Cast(0.1), "mse", steps_per_execution=4)
    model.set_gradient_accumulation_options(2, dtype="float16")
    model.fit(X[:16], Z[:16], batch_size=4, verbose=0)
    assert seen == ["float16", "float16"]


def test_options_for_the_accumulating_optimizer_are_checked() -> None:
    model = keras.Sequential([Dense(2, input_shape=(6,))])
    model.compile("sgd", "mse", steps_per_execution=4)
    model.set_gradient_accumulation_options(2, dtpye="float16")
    with pytest.raises(TypeError, match="unexpected keyword argument 'dtpye'"):
        model.fit(X[:16], Z[:16], batch_size=4, verbose=0)


def test_pipelining_options_do_nothing_without_stages() -> None:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([Dense(2, input_shape=(6,))])
    model.compile("sgd", "mse", steps_per_execution=4)
    model.set_pipelining_options(gradient_accumulation_steps_per_replica=3)
    model.fit(X[:16], Z[:16], batch_size=4, verbose=0)
    assert int(model.optimizer.iterations.numpy()) == 4
