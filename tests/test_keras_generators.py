# SPDX-License-Identifier: MIT
"""Generators, sequences, frames and weights of classes outside of a strategy.

What they give must be what the same batches give as arrays, whose numbers are Keras's:
see ``test_keras_partial_batches``.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy
from ipu.keras.engine.training import class_weights
from ipu.keras.engine.training.data_adapter import arrays_of, split_validation

N, BATCH = 45, 8
COUNT = 6  # batches
X = np.sin(np.arange(N * 4)).reshape(N, 4)  # float64, as programs have it
Y = np.arange(N) % 3
W = 1.0 + np.arange(N) % 5


def made() -> Any:
    tf.random.set_seed(5)
    model = keras.Sequential([keras.layers.Dense(3, input_shape=(4,))])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, metrics=["accuracy"])
    return model


def generated(*more: Any) -> Iterator[Any]:
    for start in range(0, N, BATCH):
        yield tuple(part[start : start + BATCH] for part in (X, Y, *more))


def endless() -> Iterator[Any]:
    while True:
        yield from generated()


class Numbered(keras.utils.Sequence):
    """Batches by number, with notes on who asked for what."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.ends = 0

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        self.asked.append(index)
        part = slice(index * BATCH, (index + 1) * BATCH)
        return X[part], Y[part]

    def on_epoch_end(self) -> None:
        self.ends += 1


def of_arrays(**more: Any) -> Any:
    return made().fit(X, Y, BATCH, shuffle=False, verbose=0, **more)


def assert_same(history: Any, expected: Any) -> None:
    assert history.history == expected.history
    assert history.steps == expected.steps


# --- generators -----------------------------------------------------------------------


def test_a_generator_is_an_epoch() -> None:
    assert_same(made().fit(generated(), verbose=0), of_arrays())
    weighted = made().fit(generated(W), verbose=0)
    assert_same(weighted, of_arrays(sample_weight=W))


def test_an_endless_generator_goes_on_from_epoch_to_epoch() -> None:
    history = made().fit(endless(), steps_per_epoch=COUNT, epochs=2, verbose=0)
    assert_same(history, of_arrays(epochs=2))


@pytest.mark.parametrize("workers", [0, 1])
def test_no_more_is_taken_than_the_steps_need(workers: int) -> None:
    batches = endless()
    made().fit(batches, steps_per_epoch=2, epochs=2, verbose=0, workers=workers)
    np.testing.assert_array_equal(next(batches)[0], X[4 * BATCH : 5 * BATCH])
    made().predict(batches, steps=1, workers=workers)
    np.testing.assert_array_equal(next(batches)[0], X[:BATCH])


def test_a_generator_that_ends_early_ends_training() -> None:
    model = made()
    with pytest.warns(UserWarning, match="data ended after 0 of 6 steps") as seen:
        history = model.fit(generated(), epochs=3, verbose=0)
    assert seen[0].filename == __file__
    assert history.epoch == [0]


def test_evaluation_and_prediction_of_generators() -> None:
    model = made()
    expected = model.evaluate(X, Y, BATCH, verbose=0)
    assert model.evaluate(generated(), verbose=0) == expected
    outputs = model.predict(X, BATCH)
    np.testing.assert_array_equal(model.predict(generated()), outputs)
    alone = (x for x, _ in generated())
    np.testing.assert_array_equal(model.predict(alone), outputs)


def test_validation_data_of_a_generator() -> None:
    history = made().fit(
        X,
        Y,
        BATCH,
        epochs=2,
        shuffle=False,
        verbose=0,
        validation_data=endless(),
        validation_steps=COUNT,
    )
    assert_same(history, of_arrays(epochs=2, validation_data=(X, Y)))


def test_inputs_by_name() -> None:
    a, b = keras.Input((2,), name="a"), keras.Input((2,), name="b")
    outputs = keras.layers.Dense(1)(keras.layers.concatenate([a, b]))
    model = keras.Model([a, b], outputs)
    model.compile("sgd", "mse")
    whole = {"b": X[:, 2:], "a": X[:, :2]}
    batches = (({"b": x[:, 2:], "a": x[:, :2]}, y) for x, y in generated())
    expected = model.evaluate(whole, Y, BATCH, verbose=0)
    assert model.evaluate(batches, verbose=0) == expected


class OwnError(Exception):
    pass


def failing() -> Iterator[Any]:
    yield X[:8], Y[:8]
    raise OwnError("of the generator")


@pytest.mark.parametrize("workers", [0, 1])
def test_what_a_generator_raises_arrives(workers: int) -> None:
    with pytest.raises(OwnError, match="of the generator"):
        made().fit(failing(), verbose=0, workers=workers)


def test_a_generator_that_is_left_lets_its_thread_end() -> None:
    def stopping(batch: int, logs: Any) -> None:
        model.stop_training = True

    model = made()
    stop = keras.callbacks.LambdaCallback(on_batch_end=stopping)
    history = model.fit(endless(), verbose=0, callbacks=[stop], max_queue_size=2)
    assert len(history.steps["loss"]) == 1
    names = [thread.name for thread in threading.enumerate()]
    assert "ipu-generator" not in names


@pytest.mark.parametrize(
    ("batches", "error", "text"),
    [
        (iter([]), ValueError, "does not have enough data: it is empty"),
        (
            iter([(np.ones(()), np.ones(()))]),
            ValueError,
            "Received: .* Give arrays with a first axis",
        ),
        (iter([(X, Y, W, W)]), ValueError, r"Received: a tuple of 4"),
        (iter([(X, Y > 0, "a")]), ValueError, "can handle `sample_weight`"),
    ],
)
def test_batches_that_are_none(batches: Any, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        made().fit(batches, verbose=0)


def test_arguments_that_go_with_arrays_alone() -> None:
    with pytest.raises(ValueError, match="`y` argument is not supported when using ge"):
        made().fit(generated(), Y)
    with pytest.raises(ValueError, match="a Numbered and batch_size=4"):
        made().fit(Numbered(), batch_size=4)
    with pytest.raises(ValueError, match=r"Received: a Numbered. Give two of them"):
        made().fit(Numbered(), validation_split=0.5)


@pytest.mark.parametrize("batches", [generated(), Numbered()])
def test_in_a_strategy_shapes_must_be_known(batches: Any) -> None:
    with IPUStrategy().scope():
        model = made()
        with pytest.raises(ValueError, match="not compatible with the IPU's"):
            model.fit(batches)


# --- sequences ------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_a_sequence_is_read_in_order(workers: int) -> None:
    batches = Numbered()
    history = made().fit(batches, epochs=2, shuffle=False, verbose=0, workers=workers)
    assert_same(history, of_arrays(epochs=2))
    assert sorted(batches.asked) == sorted([*range(COUNT)] * 2)
    assert batches.ends == 2


def test_a_sequence_says_itself_how_many_workers_it_has() -> None:
    class Own(Numbered):
        def __init__(self) -> None:
            keras.utils.PyDataset.__init__(self, workers=3, max_queue_size=3)
            Numbered.__init__(self)
            self.both = threading.Barrier(3, timeout=30)

        def __getitem__(self, index: int) -> Any:
            self.both.wait()  # three of them at once, or an error
            return super().__getitem__(index)

    history = made().fit(Own(), shuffle=False, verbose=0)
    assert_same(history, of_arrays())


def test_batches_of_a_sequence_are_shuffled() -> None:
    batches = Numbered()
    made().fit(batches, epochs=3, verbose=0, workers=0)
    epochs = [batches.asked[i : i + COUNT] for i in range(0, 3 * COUNT, COUNT)]
    assert all(sorted(epoch) == list(range(COUNT)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 1
    again = Numbered()
    made().fit(again, epochs=3, verbose=0, workers=0)
    assert again.asked == batches.asked  # the seed settles it


def test_fewer_steps_than_a_sequence_has() -> None:
    batches = Numbered()
    made().fit(
        batches, epochs=3, steps_per_epoch=4, shuffle=False, verbose=0, workers=0
    )
    assert batches.asked == [*range(COUNT)] * 2
    assert batches.ends == 2


def test_evaluation_prediction_and_validation_of_sequences() -> None:
    model = made()
    expected = model.evaluate(X, Y, BATCH, verbose=0)
    assert model.evaluate(Numbered(), verbose=0) == expected
    np.testing.assert_array_equal(model.predict(Numbered()), model.predict(X, BATCH))
    batches = Numbered()
    history = of_arrays(epochs=2, validation_data=batches)
    assert_same(history, of_arrays(epochs=2, validation_data=(X, Y)))
    assert batches.ends == 2


def test_what_a_sequence_raises_arrives() -> None:
    class Failing(Numbered):
        def __getitem__(self, index: int) -> Any:
            if index == 2:
                raise OwnError("number two")
            return super().__getitem__(index)

    for workers in (0, 1, 3):
        with pytest.raises(OwnError, match="number two"):
            made().fit(Failing(), shuffle=False, verbose=0, workers=workers)


# --- weights of classes ---------------------------------------------------------------


@pytest.mark.parametrize(
    "weights", [{1: 2.0}, {0: 0.5, 2: 3.0}, {}, {np.int64(2): np.float64(0.25)}, {7: 9}]
)
def test_weights_of_some_classes(weights: dict[int, float]) -> None:
    each = np.array([weights.get(int(c), 1.0) for c in Y])
    assert_same(of_arrays(class_weight=weights), of_arrays(sample_weight=each))
    one = made().train_on_batch(X, Y, class_weight=weights)
    assert one == made().train_on_batch(X, Y, sample_weight=each)


def test_weights_of_classes_with_a_generator() -> None:
    history = made().fit(generated(), verbose=0, class_weight={1: 2.0})
    assert_same(history, of_arrays(class_weight={1: 2.0}))


@pytest.mark.parametrize(
    "weights", [[1.0, 2.0], {"a": 1.0}, {-1: 2.0}, 3.0, "evenly", np.ones(2)]
)
def test_what_are_no_weights_of_classes(weights: Any) -> None:
    for call in (made().fit, made().train_on_batch):
        with pytest.raises(ValueError, match="`class_weight` to be a dict from class"):
            call(X, Y, class_weight=weights)


def test_weights_of_classes_and_of_samples_multiply() -> None:
    numbers = np.array([0, 1, 2, 3, 4, -1], np.int32)
    wanted = np.array([1, 2, 1, 5, 1, 1], np.float32)
    given = np.arange(6, dtype=np.int32)

    def made(y: Any, *weight: Any) -> Any:
        element = tuple(tf.constant(one) for one in (y, y, *weight))
        return class_weights.with_class_weight(element, {1: 2.0, 3: 5.0})[2].numpy()

    for y in (numbers, numbers[:, None], numbers.astype(np.float32)):
        np.testing.assert_array_equal(made(y), wanted)
        np.testing.assert_array_equal(made(y, given), wanted * given)
        np.testing.assert_array_equal(
            made(y, given[:, None]), (wanted * given)[:, None]
        )
    np.testing.assert_array_equal(made(np.eye(5, dtype=np.float32)[1:4]), wanted[1:4])
    np.testing.assert_array_equal(
        made(np.eye(2, dtype=np.float32)), wanted[:2]
    )  # no number of 0 and 1
    for y in (None, {"a": numbers}, numbers[:, None, None]):
        with pytest.raises(ValueError, match=r"`class_weight` is (only|not) supported"):
            class_weights.with_class_weight((numbers, y), {1: 2.0})
    batches = [(numbers[:4], y) for y in (np.eye(2)[[0, 1, 1, 1]], np.eye(2)[[0, 1]])]
    data = tf.data.Dataset.from_generator(
        lambda: iter(batches),
        output_signature=(
            tf.TensorSpec([4], tf.int32),
            tf.TensorSpec([None, 2], tf.float32),
        ),
    )
    data = data.apply(tf.data.experimental.assert_cardinality(2))
    assert class_weights.resolved("balanced", data, None) == {0: 1.5, 1: 0.75}


def test_integers_of_arrays_fit_into_those_of_devices() -> None:
    edges = np.array([-(2**31), 2**31 - 1])
    np.testing.assert_array_equal(arrays_of(edges, "x"), edges.astype(np.int32))
    assert arrays_of(edges[:0], "x").dtype == np.int32
    for one in (edges - 1, edges + 1, edges[:1] - 1, edges[1:] + 1):
        with pytest.raises(ValueError, match=r"`x` has integers that do not fit"):
            arrays_of(one, "x")


def test_the_part_for_validation() -> None:
    x, y = np.arange(5), np.arange(5) * 2
    (first, _, none), (last, targets, _) = split_validation((x, y, None), 0.4)
    assert none is None
    np.testing.assert_array_equal([*first, *last, *targets], [*x, 6, 8])
    for fraction in (0.0, 1.0, 1.5):
        with pytest.raises(ValueError, match=r"must be a number in \(0, 1\)"):
            split_validation((x, y, None), fraction)
    for fraction in (0.9, 1e-20):
        with pytest.raises(ValueError, match="contains 5 samples"):
            split_validation((x, y, None), fraction)


def skewed(samples: int = 60) -> tuple[Any, Any, dict[int, float]]:
    """Data of three classes, and the weights that make them count alike."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(samples, X.shape[1])).astype(np.float32)
    y = rng.choice(3, samples, p=[0.7, 0.2, 0.1]).astype(np.int32)
    counts = np.bincount(y, minlength=3)
    return x, y, {number: samples / (3 * count) for number, count in enumerate(counts)}


class Skewed(keras.utils.PyDataset):  # type: ignore[misc]
    """Six batches by number."""

    def __init__(self, x: Any, y: Any, **how: Any) -> None:
        super().__init__(**how)
        self.x, self.y = x, y
        self.log: list[str] = []

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        part = slice(10 * (index % 6), 10 * (index % 6) + 10)
        return self.x[part], self.y[part]

    def on_epoch_begin(self) -> None:
        self.log.append("begin")

    def on_epoch_end(self) -> None:
        self.log.append("end")


def test_balanced_weights_of_classes() -> None:
    x, y, weights = skewed()
    how = {"epochs": 2, "verbose": 0, "shuffle": False}
    one = made().fit(x, y, 10, class_weight=weights, **how)
    given = {
        "integers": (x, y),
        "one column": (x, y[:, None]),
        "floats": (x, y.astype(float)),
        "list": (x, y.tolist()),
        "tensor": (x, tf.constant(y)),
    }
    for kind, data in given.items():
        other = made().fit(*data, 10, class_weight="balanced", **how)
        assert other.history == one.history, kind
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(10)
    for data in (batches, Skewed(x, y)):
        other = made().fit(data, class_weight="balanced", **how)
        assert other.history == one.history


def test_balanced_weights_of_one_hot_targets_and_a_class_that_is_not_there() -> None:
    y = np.array([0, 0, 2, 0])
    for targets in (y, np.eye(4)[y], tf.constant(np.eye(4, dtype=np.float32)[y])):
        weights = class_weights.resolved("balanced", None, targets)
        assert weights == {0: 4 / (2 * 3), 2: 4 / (2 * 1)}


def test_batches_whose_targets_cannot_be_counted() -> None:
    x, y, _ = skewed()
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(10)

    class Endless(Skewed):
        num_batches = None

    for data, text in (
        (iter(batches), "a generator can be read once only"),
        (batches.repeat(), "do not end. Received: "),
        (Endless(x, y), "do not end. Received: Endless"),
    ):
        with pytest.raises(ValueError, match="`class_weight='balanced'`") as caught:
            made().fit(data, steps_per_epoch=6, verbose=0, class_weight="balanced")
        assert text in str(caught.value)
    with pytest.raises(ValueError, match="Received: y=None"):
        made().fit(x, class_weight="balanced")
    with pytest.raises(ValueError, match="only supported for Models with a single"):
        made().fit(x, {"a": y, "b": y}, class_weight="balanced")
    with pytest.raises(ValueError, match="fit also takes 'balanced'"):
        made().train_on_batch(x, y, class_weight="balanced")


def test_a_py_dataset_of_keras_3() -> None:
    x, y, _ = skewed()
    data = Skewed(x, y, workers=2, use_multiprocessing=True, max_queue_size=4)
    assert data.num_batches == 6
    made().fit(data, epochs=2, verbose=0)
    assert data.log == ["begin", "end"] * 2


def test_a_py_dataset_without_an_end() -> None:
    x, y, _ = skewed()

    class Endless(Skewed):
        num_batches = None

    with pytest.raises(ValueError, match="specify the number of steps"):
        made().fit(Endless(x, y), verbose=0)
    endless = made().fit(Endless(x, y), epochs=2, steps_per_epoch=6, verbose=0)
    one = made().fit(Skewed(x, y), epochs=2, shuffle=False, verbose=0)
    assert endless.history == one.history


# --- frames ---------------------------------------------------------------------------


def test_pandas_frames() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    labels = pandas.Series(Y)
    model = made()
    history = model.fit(
        frame, labels, BATCH, shuffle=False, verbose=0, sample_weight=pandas.Series(W)
    )
    assert_same(history, of_arrays(sample_weight=W))
    np.testing.assert_array_equal(model.predict(frame), model.predict(X))
    split = made().fit(frame, labels, 9, validation_split=0.2, verbose=0)
    assert len(split.steps["loss"]) == 4


# --- advice ---------------------------------------------------------------------------


def test_advice_fits_the_call() -> None:
    open_sizes = tf.data.Dataset.from_tensor_slices(X).batch(BATCH)
    with IPUStrategy().scope():
        model = made()
        with pytest.raises(ValueError, match="more samples at the end whose results"):
            model.predict(open_sizes)
        model.compile("sgd", "mse", steps_per_execution=4)
        with pytest.raises(ValueError) as caught:
            model.fit(X[:35], X[:35, :3], 5)
        text = str(caught.value)
        assert "legal: batch_size=5, compile(steps_per_execution=1)" in text
        assert "Or run a multiple of 4 steps, for example steps_per_epoch=4." in text


def test_ends_of_sequences_and_generators_are_no_endless_wait() -> None:
    few = itertools.islice(generated(), 2)
    model = made()
    with pytest.warns(UserWarning, match="data ended after 2 of 6 steps"):
        model.fit(few, steps_per_epoch=COUNT, verbose=0)
