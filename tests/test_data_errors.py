"""After the error of one element: every transformation and source of data sets.

One rule: an error belongs to its element, and the next call goes on after it, on every
input.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import data_error_cases as cases
import numpy as np
import pytest

import ipu
from ipu import tf

EXPECTED = cases.TENSORFLOW | {name: made for name, (made, _) in cases.OWN.items()}
ALL = cases.CASES | cases.UNORDERED
# of data sets, and none that reads their elements one after the other
NO_TRANSFORMATION = {
    "as_numpy_iterator",
    "cardinality",
    "counter",
    "element_spec",
    "from_tensor_slices",
    "from_tensors",
    "get_single_element",
    "options",
    "random",
    "range",
    "reduce",
    "save",
}


def in_core(count: int, bad: tuple[int, ...]) -> Any:
    return tf.data.Dataset.range(count).map(cases.fails_at(*bad))


class Numbers:
    """Counts, and fails for some numbers; no generator, which ends with an error."""

    def __init__(self, count: int, bad: tuple[int, ...]) -> None:
        self.count, self.bad, self.at = count, bad, -1

    def __iter__(self) -> Numbers:
        return self

    def __next__(self) -> int:
        self.at += 1
        if self.at in self.bad:
            raise ValueError(f"{self.at} fails")
        if self.at == self.count:
            raise StopIteration
        return self.at


def in_python(count: int, bad: tuple[int, ...]) -> Any:
    return tf.data.Dataset.from_generator(
        lambda: Numbers(count, bad), output_signature=tf.TensorSpec((), tf.int64)
    )


def parallel(count: int, bad: tuple[int, ...]) -> Any:
    numbers = tf.data.Dataset.range(count).map(
        lambda x: tf.py_function(cases.fails_at(*bad), [x], tf.int64), 2
    )
    return numbers.map(lambda x: tf.ensure_shape(x, ()))


def read_ahead(count: int, bad: tuple[int, ...]) -> Any:
    return in_core(count, bad).prefetch(2)


SOURCES = [in_core, in_python, parallel, read_ahead]


def trace_of(name: str, source: Callable[..., Any], path: Path) -> Any:
    def E(count: int = 8, *bad: int) -> Any:
        return source(count, bad or (3,))

    return ALL[name](tf, E, str(path))


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.__name__)
@pytest.mark.parametrize("name", ALL)
def test_reading_goes_on_after_an_error(
    name: str, source: Callable[..., Any], tmp_path: Path
) -> None:
    assert cases.result(tf, name, str(tmp_path), source) == EXPECTED[name]


@pytest.mark.parametrize("name", ALL)
def test_a_thread_that_reads_ahead_goes_on_too(name: str, tmp_path: Path) -> None:
    found = cases.traced(trace_of(name, in_core, tmp_path).prefetch(3))
    found = sorted(found, key=str) if name in cases.UNORDERED else found
    assert found == EXPECTED[name]


@pytest.mark.parametrize("name", ALL)
def test_ignored_errors_leave_all_other_elements(name: str, tmp_path: Path) -> None:
    kept = trace_of(name, in_core, tmp_path).ignore_errors()
    found = [cases.plain(element) for element in kept]
    found = sorted(found, key=str) if name in cases.UNORDERED else found
    assert found == [one for one in EXPECTED[name] if one != "!"]


def test_every_transformation_and_reader_is_in_the_table() -> None:
    methods = {name for name in dir(tf.data.Dataset) if not name.startswith("_")}
    readers = {name for name in tf.data.__all__ if name.endswith("Dataset")}
    experimental = {"CsvDataset", "make_csv_dataset"}
    wanted = methods - NO_TRANSFORMATION | readers - {"Dataset"} | experimental
    assert not wanted - {*ALL}
    assert {*EXPECTED} == {*ALL} and {*cases.OWN} <= {*cases.TENSORFLOW}


def test_the_length_that_is_told_is_not_asserted() -> None:
    """With an error there may be more batches, or fewer, than rows make."""
    rows = in_core(8, (3,)).map(tf.strings.as_string)
    assert len(rows.batch(3)) == 3
    assert len(list(rows.batch(3).ignore_errors())) == 3
    counted = rows.batch(3).apply(tf.data.experimental.assert_cardinality(3))
    assert len(list(counted.ignore_errors())) == 3
    wrong = rows.batch(3).apply(tf.data.experimental.assert_cardinality(9))
    assert cases.traced(wrong)[-2:] == [["7"], "!"]


def test_rows_of_an_element_that_cannot_be_cut_are_not_given() -> None:
    def pair(n: Any) -> Any:
        return tf.range(3 + n * 0), tf.range(3 + tf.cast(n == 1, tf.int64))

    cut = tf.data.Dataset.range(3).map(pair).unbatch()
    assert cases.traced(cut) == [*[(i, i) for i in range(3)], "!"] + [
        (i, i) for i in range(3)
    ]


def signalled(make: Callable[[Any], Any]) -> list[Any]:
    """What a data set over 0 to 5 gives, if Ctrl-C comes while it waits for 2."""
    made, begun, go = (threading.Event() for _ in range(3))

    def slow() -> Any:
        for number in range(6):
            if number == 2 and made.is_set():  # `map` reads, too
                assert begun.wait(60)
                timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
                timer.start()
                assert go.wait(60)
            yield number

    spec = tf.TensorSpec((), tf.int64)
    source = tf.data.Dataset.from_generator(slow, output_signature=spec).prefetch(1)
    dataset = make(source)
    made.set()
    elements, found = iter(dataset), []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            begun.set()
            found.extend(elements)
        go.set()
        found += elements
    finally:
        signal.signal(signal.SIGINT, before)
    return found


@pytest.mark.parametrize("is_static", [True, False])
def test_what_is_joined_stays_together_after_a_signal(is_static: bool) -> None:
    """The second input waits, after the first one was read."""
    first = tf.data.Dataset.range(6)
    first = first if is_static else first.map(lambda x: tf.range(x))
    found = signalled(lambda source: tf.data.Dataset.zip((first, source)))
    sizes = [int(one) if is_static else len(one) for one, _ in found]
    assert sizes == [int(two) for _, two in found] == [*range(6)]


@pytest.mark.parametrize("block", [1, 2])
@pytest.mark.parametrize("index", range(3))
def test_a_shard_goes_on_after_a_signal(index: int, block: int) -> None:
    found = signalled(lambda source: source._then(source._impl.shard(3, index, block)))
    assert [*map(int, found)] == [n for n in range(6) if n // block % 3 == index]


BATCHES: dict[str, Callable[[Any, int], Any]] = {
    "known": lambda source, size: source.batch(size),
    "joined": lambda source, size: tf.data.Dataset.zip((source,)).batch(size),
    "of unknown shape": lambda source, size: source.map(
        lambda x: tf.range(x, x + 1)
    ).batch(size),
    "filled": lambda source, size: source.batch(size).batch(1).unbatch(),
    "cut": lambda source, size: source.batch(size + 1).unbatch().batch(size),
    "padded": lambda source, size: source.padded_batch(size),
    "text": lambda source, size: source.map(tf.strings.as_string).batch(size),
}


@pytest.mark.parametrize("size", [2, 4, 5])
@pytest.mark.parametrize("way", BATCHES)
def test_a_batch_keeps_its_rows_after_a_signal(way: str, size: int) -> None:
    found = signalled(lambda source: BATCHES[way](source, size))
    batches = [one[0] if isinstance(one, tuple) else one for one in found]
    assert [len(one) for one in batches[:-1]] == [size] * (len(batches) - 1)
    rows = [int(x) for one in batches for x in one.numpy().reshape(-1)]
    assert rows == [*range(6)]


def test_who_was_chosen_has_its_turn_after_a_signal() -> None:
    choice = tf.data.Dataset.range(2).repeat()
    other = tf.data.Dataset.range(10, 16)
    found = signalled(
        lambda source: tf.data.Dataset.choose_from_datasets([source, other], choice)
    )
    assert [*map(int, found)] == [n + m for n in range(6) for m in (0, 10)]


def test_random_numbers_stay_with_their_elements_after_an_error() -> None:
    def drawn(bad: tuple[int, ...]) -> list[Any]:
        tf.random.set_seed(3)
        numbers = tf.data.Dataset.range(64).filter(
            lambda x: cases.fails_at(*bad)(x) + 1 > 0 and tf.random.uniform(()) < 0.5
        )
        return [one for one in cases.traced(numbers) if one != "!"]

    assert drawn((5,)) == [one for one in drawn(()) if one != 5]


def test_an_infeed_hands_over_what_was_made_before_the_error() -> None:
    """It ends with the error; started again it begins from the front."""
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    numbers = in_core(8, (3,)).map(lambda x: tf.cast(x, tf.float32))
    feed = ipu.ipu_infeed_queue.IPUInfeedQueue(numbers)
    strategy = ipu.ipu_strategy.IPUStrategy()

    @tf.function
    def two() -> Any:
        def body(total: Any, x: Any) -> Any:
            return total + x

        return ipu.loops.repeat(2, body, [0.0], infeed_queue=feed)

    for _ in range(2):
        _ = feed.initializer
        with strategy.scope():
            assert float(np.asarray(strategy.run(two)).ravel()[0]) == 1.0
            for _ in range(2):
                with pytest.raises(tf.errors.OpError, match="element 3"):
                    strategy.run(two)
        _ = feed.deleter


def test_fit_reports_the_error_and_trains_on_the_rest() -> None:
    from ipu import keras

    def pair(x: Any) -> Any:
        one = tf.cast(x, tf.float32)
        return tf.reshape(one, (1,)), tf.reshape(one * 2, (1,))

    numbers = in_core(9, (3,)).map(pair).batch(2, drop_remainder=True)
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(1,))])
    model.compile("sgd", "mse")
    for _ in range(2):
        with pytest.raises(tf.errors.OpError, match="element 3"):
            model.fit(numbers, verbose=0)
    seen: list[int] = []
    steps = keras.callbacks.LambdaCallback(
        on_batch_end=lambda at, logs: seen.append(at)
    )
    model.fit(numbers.ignore_errors(), epochs=2, verbose=0, callbacks=[steps])
    assert len(seen) == 6
