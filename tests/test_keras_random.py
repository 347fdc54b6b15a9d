# SPDX-License-Identifier: MIT
"""`keras.random`: distributions, seeds, and layers that hold a `SeedGenerator`."""

from __future__ import annotations

import copy
import doctest
import inspect
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from test_docstrings import Rounded

from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy
from ipu.keras._serialization import _registered

random = keras.random
SeedGenerator = random.SeedGenerator
DRAWS: dict[str, Callable[[Any], Any]] = {
    "beta": lambda seed: random.beta((4000,), 2.0, 3.0, seed=seed),
    "binomial": lambda seed: random.binomial((4000,), 10, 0.3, seed=seed),
    "categorical": lambda seed: random.categorical([[0.0, np.log(3)]], 4000, seed=seed),
    "dropout": lambda seed: random.dropout(np.ones(4000), 0.25, seed=seed),
    "gamma": lambda seed: random.gamma((4000,), 2.0, seed=seed),
    "normal": lambda seed: random.normal((4000,), 1.0, 2.0, seed=seed),
    "randint": lambda seed: random.randint((4000,), 2, 6, seed=seed),
    "shuffle": lambda seed: random.shuffle(np.arange(4000), seed=seed),
    "truncated_normal": lambda seed: random.truncated_normal((4000,), seed=seed),
    "uniform": lambda seed: random.uniform((4000,), -1.0, 2.0, seed=seed),
}
# mean, deviation, least, largest
MOMENTS = {
    "beta": (0.4, 0.2, 0, 1),
    "binomial": (3, 2.1**0.5, 0, 10),
    "categorical": (0.75, 0.433, 0, 1),
    "dropout": (1, 3**-0.5, 0, 4 / 3),
    "gamma": (2, 2**0.5, 0, np.inf),
    "normal": (1, 2, -np.inf, np.inf),
    "randint": (3.5, 1.118, 2, 5),
    "shuffle": (1999.5, 1154.7, 0, 3999),
    "truncated_normal": (0, 0.88, -2, 2),
    "uniform": (0.5, 3 / 12**0.5, -1, 2),
}


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    before = dict(_registered)
    yield
    _registered.clear()
    _registered.update(before)


@pytest.mark.parametrize("name", [*DRAWS, "SeedGenerator"])
def test_examples(name: str) -> None:
    text = inspect.getdoc(getattr(random, name)) or ""
    names, report = {"keras": keras, "tf": tf}, list[str]()
    told = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    assert told.examples
    doctest.DocTestRunner(Rounded(), verbose=False).run(told, out=report.append)
    assert not report, "".join(report)


@pytest.mark.parametrize("name", DRAWS)
def test_distributions(name: str) -> None:
    drawn = DRAWS[name](1)
    mean, deviation, least, largest = MOMENTS[name]
    whole = {"categorical": "int32", "randint": "int32", "shuffle": "int32"}
    assert drawn.dtype.name == whole.get(name, "float32")
    assert abs(np.mean(drawn) - mean) < 4 * deviation / 4000**0.5
    assert abs(np.std(drawn) - deviation) < 0.08 * deviation
    assert np.min(drawn) >= least and np.max(drawn) <= largest


@pytest.mark.parametrize("name", DRAWS)
def test_seeds(name: str) -> None:
    draw = DRAWS[name]
    assert_same, assert_other = np.testing.assert_array_equal, _assert_other
    assert_same(draw(1), draw(1))
    assert_other(draw(1), draw(2))
    seeds, again = SeedGenerator(5), SeedGenerator(5)
    first, second = draw(seeds), draw(seeds)
    assert_other(first, second)
    traced = tf.function(lambda: draw(again), jit_compile=True)
    assert_same(traced(), first)
    assert_same(traced(), second)
    assert seeds.state.numpy().tolist() == again.state.numpy().tolist() == [5, 2]
    keras.utils.set_random_seed(3)
    first, second = draw(None), draw(None)
    assert_other(first, second)
    keras.utils.set_random_seed(3)
    assert_same(draw(None), first)


def _assert_other(a: Any, b: Any) -> None:
    assert (np.asarray(a) != np.asarray(b)).any()


def test_generators() -> None:
    keras.utils.set_random_seed(1)
    a, b = SeedGenerator(), SeedGenerator()
    assert a.get_config() != b.get_config()
    keras.utils.set_random_seed(1)
    assert SeedGenerator().get_config() == a.get_config()
    told = keras.saving.serialize_keras_object(SeedGenerator(7))
    other = keras.saving.deserialize_keras_object(told)
    assert other.state.numpy().tolist() == [7, 0]
    assert SeedGenerator(2**32 - 1).state.numpy().tolist() == [-1, 0]
    for wrong in (1.5, True, "a", 2**32):
        with pytest.raises(ValueError, match="`seed` must be an integer of 32 bits"):
            SeedGenerator(wrong)
        with pytest.raises(ValueError, match="`seed` must be an integer of 32 bits"):
            random.normal((2,), seed=wrong)
    with pytest.raises(ValueError, match="`rate` is in"):
        random.dropout([1.0], 2.0)


def test_forms() -> None:
    rows = np.arange(12).reshape(3, 4)
    mixed = random.shuffle(rows, axis=1, seed=1).numpy()
    np.testing.assert_array_equal(np.sort(mixed, 1), rows)
    assert (np.diff(mixed, axis=0) == 4).all()
    kept = random.dropout(np.ones((50, 8)), 0.5, noise_shape=(1, 8), seed=1).numpy()
    assert (kept == kept[0]).all()
    assert random.normal((2,), dtype="float16", seed=1).dtype == tf.float16
    assert random.dropout(np.ones(3), 1.0).numpy().tolist() == [0.0, 0.0, 0.0]


# --- in models


class Sampling(keras.Layer):
    """Draws from the distributions whose means and logarithms of variances it gets."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.seed_generator = SeedGenerator(1337)

    def call(self, inputs: Any) -> Any:
        mean, log_var = inputs
        batch, size = keras.ops.shape(mean)
        noise = random.normal((batch, size), seed=self.seed_generator)
        return mean + keras.ops.exp(0.5 * log_var) * noise


class VAE(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.mean, self.log_var = keras.layers.Dense(2), keras.layers.Dense(2)
        self.sampling, self.decoder = Sampling(), keras.layers.Dense(6)

    def call(self, x: Any) -> Any:
        mean, log_var = self.mean(x), self.log_var(x)
        ops = keras.ops
        distance = ops.sum(1 + log_var - ops.square(mean) - ops.exp(log_var), axis=1)
        self.add_loss(-0.05 * ops.mean(distance))
        return self.decoder(self.sampling([mean, log_var]))


X = np.random.default_rng(0).normal(size=(64, 2)).astype("f4") @ np.ones((2, 6), "f4")


def test_a_vae_trains_in_and_out_of_a_strategy() -> None:
    histories = []
    for scope in (nullcontext(), IPUStrategy().scope()):
        with scope:
            keras.utils.set_random_seed(1)
            model = VAE()
            model.compile(keras.optimizers.Adam(0.02), "mse")
            found = model.fit(X, X, batch_size=16, epochs=8, verbose=0)
            histories.append(found.history["loss"])
            # a step of training draws once
            assert model.sampling.seed_generator.state.numpy().tolist() == [1337, 32]
            assert not any("seed" in v.name for v in model.trainable_variables)
    assert histories[0][-1] < 0.7 * histories[0][0]
    np.testing.assert_allclose(*histories, rtol=1e-5)


def sampler() -> Any:
    inputs = [keras.Input((2,)), keras.Input((2,))]
    return keras.Model(inputs, Sampling()(inputs))


@pytest.mark.parametrize("suffix", [".keras", ".safetensors", ".h5"])
def test_files_go_on_with_the_numbers(tmp_path: Path, suffix: str) -> None:
    keras.saving.register_keras_serializable()(Sampling)
    model, zeros = sampler(), [np.zeros((3, 2), "f4")] * 2
    drawn = [model(zeros).numpy() for _ in range(2)]
    _assert_other(*drawn)
    model.save(tmp_path / f"m{suffix}")
    other = keras.saving.load_model(tmp_path / f"m{suffix}")
    twin = copy.deepcopy(model)
    following = model(zeros).numpy()
    np.testing.assert_array_equal(other(zeros), following)
    np.testing.assert_array_equal(twin(zeros), following)


def test_states_lie_where_keras_3_has_them(tmp_path: Path) -> None:
    model = sampler()
    path = tmp_path / "m.weights.h5"
    model.save_weights(path)
    key = "layers/sampling/seed_generator/vars/0"
    with h5py.File(path, "r+") as file:
        assert file[key][()].tolist() == [1337, 0]
        del file[key]
        file[key] = np.uint32([2**32 - 1, 3])  # as Keras writes it
    model.load_weights(path)
    state = model.layers[-1].seed_generator.state
    assert state.numpy().view(np.uint32).tolist() == [2**32 - 1, 3]
