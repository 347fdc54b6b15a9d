# SPDX-License-Identifier: MIT
"""Data sets from Python: semantics, structures, bad input, threads."""

from __future__ import annotations

import collections
import gc
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import ipu
from ipu import tf
from ipu.tf import errors

Dataset = tf.data.Dataset


def lists(dataset: Any) -> list[Any]:
    """The elements of a data set of one component, as nested lists."""
    return [x.tolist() for x in dataset.as_numpy_iterator()]


# --- sources --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args", [(5,), (0,), (2, 6), (6, 2), (1, 9, 3), (9, 1, -3), (-4, 4, 2), (3, 3, -1)]
)
def test_range_is_pythons(args: tuple[int, ...]) -> None:
    dataset = Dataset.range(*args)
    assert lists(dataset) == list(range(*args))
    assert len(dataset) == len(range(*args))
    assert dataset.element_spec == tf.TensorSpec((), tf.int64)


def test_range_of_another_type() -> None:
    dataset = Dataset.range(3, output_type=tf.float32)
    assert dataset.element_spec.dtype == tf.float32
    assert lists(dataset) == [0.0, 1.0, 2.0]


def test_range_bad_arguments() -> None:
    with pytest.raises(ValueError, match="Received: 0 arguments"):
        Dataset.range()
    with pytest.raises(errors.InvalidArgumentError, match="step must not be zero"):
        Dataset.range(0, 3, 0)
    with pytest.raises(TypeError, match="must be an integer"):
        Dataset.range(1.5)


@pytest.mark.parametrize(
    "dtype",
    ["float16", "float32", "float64", "bool"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)],
)
def test_arrays_keep_their_dtype(dtype: str) -> None:
    array = np.arange(6).reshape(3, 2).astype(dtype)
    dataset = Dataset.from_tensor_slices(array)
    assert dataset.element_spec.dtype.name == dtype
    made = list(dataset.as_numpy_iterator())
    assert all(x.dtype == array.dtype for x in made)
    np.testing.assert_array_equal(np.stack(made), array)


def test_python_numbers_become_tensors() -> None:
    spec = Dataset.from_tensor_slices(([1, 2], [1.5, 2.5], [True, False])).element_spec
    assert [s.dtype for s in spec] == [tf.int32, tf.float32, tf.bool]
    assert all(s.shape == () for s in spec)
    assert lists(Dataset.from_tensors([[1, 2], [3, 4]])) == [[[1, 2], [3, 4]]]
    assert lists(Dataset.from_tensors(7)) == [7]


def test_arrays_of_any_layout() -> None:
    base = np.arange(24, dtype=np.int32).reshape(4, 6)
    for array in (base.T, base[:, ::2], base[::-1], base.astype(">i4")):
        made = np.stack(list(Dataset.from_tensor_slices(array).as_numpy_iterator()))
        np.testing.assert_array_equal(made, array)
    assert lists(Dataset.from_tensors(np.int16(3))) == [3]


def test_tensors_and_variables_as_sources() -> None:
    tensor = tf.constant([1.0, 2.0])
    variable = tf.Variable([3.0, 4.0])
    both = Dataset.from_tensor_slices((tensor, variable))
    assert [(float(a), float(b)) for a, b in both] == [(1.0, 3.0), (2.0, 4.0)]


def test_memory_is_released() -> None:
    array = np.zeros((4, 2), np.float32)
    gone = weakref.ref(array)
    dataset = Dataset._slices_held(array).shuffle(4).repeat().batch(2)
    iterator = iter(dataset)
    next(iterator)
    del array, dataset
    gc.collect()
    assert gone() is not None
    next(iterator)
    del iterator
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("tensors", "error", "text"),
    [
        (np.float32(1), ValueError, "component 0 is a scalar"),
        ((np.zeros(3), np.zeros(2)), ValueError, "has 2 rows, component 0 has 3"),
        ((), ValueError, "at least one tensor"),
        (np.array([1j]), TypeError, "dtype complex128"),
        (np.array([None]), TypeError, "dtype object"),
        ("text", ValueError, "component 0 is a scalar"),
        (object(), (TypeError, ValueError), "tensors"),
    ],
)
def test_bad_slices(tensors: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        Dataset.from_tensor_slices(tensors)


# --- structures -----------------------------------------------------------------------


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "tensors",
    [
        np.arange(4),
        (np.arange(4),),
        (np.arange(4), (np.ones((4, 2)), np.zeros(4, np.int8))),
        {"b": np.arange(4), "a": np.arange(4, 8)},
        Point(np.arange(4), {"z": np.arange(4)}),
        collections.OrderedDict(q=np.arange(4), p=np.ones(4)),
    ],
)
def test_structure_is_kept(tensors: Any) -> None:
    dataset = Dataset.from_tensor_slices(tensors)
    for index, element in enumerate(dataset.batch(1).take(9)):
        expected = tf.nest.map_structure(lambda a, i=index: a[i : i + 1], tensors)
        tf.nest.assert_same_structure(element, expected)
        for have, want in zip(
            tf.nest.flatten(element), tf.nest.flatten(expected), strict=True
        ):
            np.testing.assert_array_equal(have.numpy(), want)
    assert index == 3
    tf.nest.assert_same_structure(dataset.element_spec, tensors)


def test_list_of_arrays_is_one_tensor() -> None:
    dataset = Dataset.from_tensor_slices([np.zeros(3), np.ones(3)])
    assert dataset.element_spec == tf.TensorSpec((3,), tf.float64)
    assert len(dataset) == 2


def test_element_spec_of_batches() -> None:
    dataset = Dataset.from_tensor_slices({"x": np.zeros((5, 3), np.float32)})
    assert dataset.batch(2).element_spec["x"].shape == (None, 3)
    assert dataset.batch(2, drop_remainder=True).element_spec["x"].shape == (2, 3)
    assert dataset.repeat().batch(2).element_spec["x"].shape == (None, 3)
    assert "element_spec={'x': TensorSpec" in repr(dataset)


# --- transformations against a model --------------------------------------------------


def _model_batch(items: list[Any], size: int, drop: bool) -> list[Any]:
    groups = [items[i : i + size] for i in range(0, len(items), size)]
    return [g for g in groups if len(g) == size or not drop]


STEPS = st.one_of(
    st.tuples(st.just("repeat"), st.integers(0, 3)),
    st.tuples(st.just("take"), st.integers(-1, 9)),
    st.tuples(st.just("skip"), st.integers(-1, 9)),
    st.tuples(st.just("prefetch"), st.integers(-1, 3)),
    st.tuples(st.just("shuffle"), st.integers(1, 1)),
    st.tuples(st.just("zip"), st.integers(0, 9)),
    st.tuples(st.just("map"), st.integers(-3, 3)),
)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 8),
    st.lists(STEPS, max_size=4),
    st.tuples(st.integers(1, 4), st.booleans()),
    st.booleans(),
)
def test_chains(
    count: int, steps: list[Any], batch: tuple[int, bool], copies: bool
) -> None:
    """Any chain of order-keeping transformations gives what lists give."""
    dataset = Dataset.range(count)
    items = list(range(count))
    if not copies:
        dataset = Dataset.from_tensor_slices(np.arange(count))
    for name, number in steps:
        if name == "zip":
            both = Dataset.zip((dataset, Dataset.range(number)))
            dataset = both.map(lambda x, y: x + y)
            items = [x + y for x, y in zip(items, range(number), strict=False)]
        elif name == "map":
            dataset = dataset.map(lambda x, n=number: x * n)
            items = [x * number for x in items]
        else:
            dataset = getattr(dataset, name)(number)
            if name == "repeat":
                items = items * number
            elif name == "take":
                items = items if number < 0 else items[:number]
            elif name == "skip":
                items = [] if number < 0 else items[number:]
    dataset = dataset.batch(*batch)
    expected = _model_batch(items, *batch)
    assert lists(dataset) == expected
    assert lists(dataset) == expected
    assert int(dataset.cardinality()) == len(expected)


def test_zip_forms() -> None:
    a, b = Dataset.range(3), Dataset.range(10, 15)
    assert [(int(x), int(y)) for x, y in Dataset.zip(a, b)] == [
        (0, 10),
        (1, 11),
        (2, 12),
    ]
    nested = Dataset.zip(datasets={"p": a, "q": (b, a.batch(2))})
    first = next(iter(nested))
    assert int(first["p"]) == 0 and first["q"][1].numpy().tolist() == [0, 1]
    with pytest.raises(TypeError, match="Use a tuple"):
        Dataset.zip([a, b])
    with pytest.raises(TypeError, match="Received: 3"):
        Dataset.zip((a, 3))
    with pytest.raises(ValueError, match="not both"):
        Dataset.zip()


def test_cardinality_algebra() -> None:
    infinite, unknown = tf.data.INFINITE_CARDINALITY, tf.data.UNKNOWN_CARDINALITY
    five, endless = Dataset.range(5), Dataset.range(5).repeat()
    some = Dataset.from_generator(lambda: iter(()), tf.int32, ())

    def of(dataset: Any) -> int:
        value = dataset.cardinality()
        assert value.dtype == tf.int64
        assert int(tf.data.experimental.cardinality(dataset)) == int(value)
        return int(value)

    assert of(endless) == infinite
    assert of(some) == unknown
    assert of(some.repeat()) == infinite
    assert of(some.repeat(0)) == 0
    assert of(Dataset.range(0).repeat()) == 0
    assert of(endless.take(7)) == 7
    assert of(endless.take(-1)) == of(endless.take(-3)) == infinite
    assert of(endless.take(0)) == of(five.take(0)) == 0
    assert of(five.take(-1)) == of(five.take(6)) == 5 and of(five.take(4)) == 4
    assert of(some.take(-1)) == of(some.skip(1)) == of(some.shard(2, 0)) == unknown
    assert of(endless.shard(2, 0)) == infinite
    assert of(some.repeat(2)) == unknown and of(endless.repeat(2)) == infinite
    half = 2**62 - 1
    assert of(Dataset.range(half).repeat(2)) == 2 * half
    assert of(Dataset.range(half + 1).repeat(2)) == infinite
    assert of(endless.skip(3)) == infinite
    assert of(five.skip(9)) == 0
    assert of(some.take(3)) == unknown
    assert of(some.batch(2)) == unknown
    assert of(Dataset.zip((five, endless))) == 5
    assert of(Dataset.zip((endless, endless))) == infinite
    assert of(Dataset.zip((five, some))) == unknown
    assert of(five.batch(2)) == 3
    assert of(five.batch(2, drop_remainder=True)) == 2
    assert of(five.shuffle(2).map(lambda x: x).prefetch(1)) == 5
    with pytest.raises(TypeError, match="infinite"):
        len(endless)
    with pytest.raises(TypeError, match="unknown"):
        len(some)
    assert bool(Dataset.range(0))


def test_a_part_has_as_many_elements_as_it_says() -> None:
    for count in range(9):
        source, items = Dataset.range(count), [*range(count)]
        parts = [(source.skip(n), items[n:] if n >= 0 else []) for n in range(-1, 10)]
        parts += [
            (source.take(n), items[:n] if n >= 0 else items) for n in range(-1, 10)
        ]
        for shards in range(1, 4):
            for index in range(shards):
                parts.append((source.shard(shards, index), items[index::shards]))
                for block in range(1, 4):
                    part = source._then(source._impl.shard(shards, index, block))
                    own = [n for n in items if n // block % shards == index]
                    parts.append((part, own))
        for part, wanted in parts:
            assert lists(part) == wanted and int(part.cardinality()) == len(wanted)
    for shards, index in ((0, 0), (2, 2), (2, -1)):
        with pytest.raises(errors.InvalidArgumentError, match="shard: "):
            Dataset.range(3).shard(shards, index)
    for block in (0, 2**62):
        with pytest.raises(errors.InvalidArgumentError, match="shard: a block"):
            Dataset.range(3)._impl.shard(2, 0, block)


def test_what_is_passed_over_need_not_be_there() -> None:
    some = Dataset.range(3).filter(lambda x: x >= 0)
    assert lists(some.skip(2**60)) == []
    assert lists(some.repeat(0).take(9)) == []
    assert lists(some.take(0).repeat()) == []


def test_a_pass_may_be_empty() -> None:
    """The others of so many are made; an endless repeat ends there."""
    passes = iter([0, 2, 0, 0, 1, 0])

    def numbers() -> Any:
        return iter(range(next(passes)))

    source = Dataset.from_generator(numbers, tf.int32, ())
    assert lists(source.repeat(3)) == [0, 1]
    assert lists(source.repeat()) == []
    assert lists(source.repeat()) == [0]


@pytest.mark.parametrize("method", ["batch", "shuffle"])
def test_sizes_must_be_positive(method: str) -> None:
    for bad in (0, -1):
        with pytest.raises(errors.InvalidArgumentError, match="greater than zero"):
            getattr(Dataset.range(3), method)(bad)
    with pytest.raises(TypeError, match="must be an integer"):
        getattr(Dataset.range(3), method)(2.5)


# --- shuffle --------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 40), st.integers(1, 50), st.integers(-(2**63), 2**64), st.booleans()
)
def test_shuffle_window(count: int, window: int, seed: int, held: bool) -> None:
    source = (
        Dataset.from_tensor_slices(np.arange(count)) if held else Dataset.range(count)
    )
    order = lists(source.shuffle(window, seed=seed))
    assert sorted(order) == list(range(count))
    assert all(x < place + window for place, x in enumerate(order))


def test_shuffle_passes() -> None:
    def make(reshuffle: bool) -> Any:
        return Dataset.range(50).shuffle(50, seed=3, reshuffle_each_iteration=reshuffle)

    fresh, other = make(True), make(True)
    first, second = lists(fresh), lists(fresh)
    assert first != second
    assert lists(other.repeat(2)) == first + second
    same = make(False)
    assert lists(same) == lists(same) == lists(same.repeat(2))[50:]
    # The order does not depend on how far an earlier iterator was read.
    partly = make(True)
    next(iter(partly.prefetch(8)))
    assert lists(partly) == second


def test_unseeded_shuffle_follows_the_global_seed() -> None:
    def orders() -> list[list[int]]:
        tf.random.set_seed(5)
        return [lists(Dataset.range(50).shuffle(50)) for _ in range(2)]

    one, two = orders(), orders()
    assert one == two
    assert one[0] != one[1]


def test_held_and_copied_elements_shuffle_alike() -> None:
    held = Dataset.from_tensor_slices(np.arange(30)).shuffle(7, seed=1)
    copied = Dataset.range(30).shuffle(7, seed=1)
    assert lists(held) == lists(copied)


# --- map ------------------------------------------------------------------------------


def test_map_against_numpy() -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (10, 4, 3), dtype=np.uint8)
    labels = rng.integers(0, 10, 10)

    def prepare(x: Any, y: Any) -> Any:
        return tf.cast(x, tf.float32) / 255.0, tf.cast(y, tf.int32)

    dataset = Dataset.from_tensor_slices((images, labels)).batch(4).map(prepare)
    assert dataset.element_spec == (
        tf.TensorSpec((None, 4, 3), tf.float32),
        tf.TensorSpec((None,), tf.int32),
    )
    made = list(dataset.as_numpy_iterator())
    assert [len(x) for x, _ in made] == [4, 4, 2]
    expected = images.astype(np.float32) / np.float32(255)
    np.testing.assert_array_equal(np.concatenate([x for x, _ in made]), expected)
    np.testing.assert_array_equal(np.concatenate([y for _, y in made]), labels)


def test_map_before_and_after_batch_agree() -> None:
    x = np.random.default_rng(1).standard_normal((12, 5)).astype(np.float32)
    dataset = Dataset.from_tensor_slices(x)
    one = lists(dataset.map(lambda v: tf.exp(v) * 2.0).batch(4, drop_remainder=True))
    two = lists(dataset.batch(4, drop_remainder=True).map(lambda v: tf.exp(v) * 2.0))
    assert one == two


def test_map_results() -> None:
    number = Dataset.range(2)
    assert [(int(a), float(b)) for a, b in number.map(lambda x: [x, 1.5])] == [
        (0, 1.5),
        (1, 1.5),
    ]
    spec = number.map(
        lambda x: {"a": 1, "b": (2.0, True), "c": np.int8(3)}
    ).element_spec
    assert spec["a"].dtype == tf.int32
    assert [s.dtype for s in spec["b"]] == [tf.float32, tf.bool]
    assert spec["c"].dtype == tf.int8
    made = next(iter(number.map(lambda x: Point(x, x))))
    assert isinstance(made, Point)
    assert lists(number.map(lambda x: x)) == [0, 1]


def test_map_arguments() -> None:
    x = np.arange(3)
    assert lists(Dataset.from_tensor_slices((x, x)).map(lambda a, b: a + b)) == [
        0,
        2,
        4,
    ]
    assert lists(Dataset.from_tensor_slices({"k": x}).map(lambda d: d["k"])) == [
        0,
        1,
        2,
    ]
    assert lists(Dataset.from_tensor_slices(Point(x, x)).map(lambda p: p.y)) == [
        0,
        1,
        2,
    ]
    nested = Dataset.from_tensor_slices(((x, x), x))
    assert lists(nested.map(lambda ab, c: ab[0] + c)) == [0, 2, 4]
    assert lists(
        Dataset.range(2).map(lambda x: x, num_parallel_calls=tf.data.AUTOTUNE)
    ) == [0, 1]


def test_map_traces_once_for_known_types() -> None:
    calls = []

    def count(x: Any) -> Any:
        calls.append(x)
        return x

    dataset = Dataset.range(5).map(count).repeat(2)
    assert len(lists(dataset)) == 10
    assert len(calls) == 1


def test_map_captures_a_value() -> None:
    scale = tf.constant([1, 10], tf.int64)
    assert lists(Dataset.range(2).map(lambda x: x * scale)) == [[0, 0], [1, 10]]


def test_map_unknown_sizes() -> None:
    ragged = Dataset.from_generator(
        lambda: ([1.0] * n for n in (1, 3, 2)), output_types=tf.float32
    )
    doubled = ragged.map(lambda x: (x * 2.0, tf.reduce_sum(x)))
    assert [len(x) for x, _ in doubled.as_numpy_iterator()] == [1, 3, 2]
    assert [float(s) for _, s in doubled] == [1.0, 3.0, 2.0]
    assert doubled.element_spec[0].shape == (None,)
    assert doubled.element_spec[1].shape == ()


def test_map_that_takes_one_size_only() -> None:
    dataset = Dataset.range(8).batch(4).map(lambda x: tf.reshape(x, (2, 2)))
    assert lists(dataset) == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]


def test_map_function_fails_while_traced() -> None:
    def wrong(x: Any) -> Any:
        raise LookupError("my own error")

    with pytest.raises(LookupError, match="my own error") as info:
        Dataset.range(3).map(wrong)
    assert any(entry.name == "wrong" for entry in info.traceback)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: None, "must return tensors"),
        (lambda x: (), "at least one tensor"),
        (3, "must be callable"),
    ],
)
def test_map_bad_functions(function: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        Dataset.range(3).map(function)


def test_map_fails_for_a_later_size() -> None:
    dataset = Dataset.range(7).batch(4).map(lambda x: tf.reshape(x, (2, 2)))
    iterator = iter(dataset)
    next(iterator)
    with pytest.raises(Exception, match=r"\(3,\)|reshape"):
        next(iterator)


# --- arrays that are written to later -------------------------------------------------


def _numbers() -> Any:
    return np.arange(3, dtype=np.float32)


def _chosen(weights: Any) -> Any:
    both = [tf.data.Dataset.from_tensors(n).repeat() for n in (0.0, 1.0)]
    return tf.data.Dataset.sample_from_datasets(both, weights=weights[:2]).take(2)


# what keeps an array for later reads
KEEPERS: dict[str, Callable[[Any], Any]] = {
    "from_tensor_slices": tf.data.Dataset.from_tensor_slices,
    "a view": lambda x: tf.data.Dataset.from_tensor_slices(x[:]),
    "read only": lambda x: tf.data.Dataset.from_tensor_slices(
        np.lib.stride_tricks.as_strided(x, writeable=False)
    ),
    "nested": lambda x: tf.data.Dataset.from_tensor_slices({"a": (x, x)}),
    "beside strings": lambda x: tf.data.Dataset.from_tensor_slices(
        (np.array(["a", "b", "c"]), x)
    ),
    "from_tensors": lambda x: tf.data.Dataset.from_tensors((x, 1)),
    "from_generator": lambda x: tf.data.Dataset.from_generator(
        lambda given: [given], tf.float32, args=(x,)
    ),
    "sample_from_datasets": _chosen,
    "scan": lambda x: tf.data.Dataset.range(3).scan(x, lambda s, n: (s + 1, s)),
    "padded_batch": lambda x: (
        tf.data.Dataset.range(3)
        .map(lambda n: tf.cast(tf.range(n), tf.float32))
        .padded_batch(3, padding_values=x[1:2].reshape(()))
    ),
}


@pytest.mark.parametrize("name", KEEPERS)
def test_what_is_written_to_an_array_later_is_not_seen(name: str) -> None:
    def read(after: Callable[[Any], None]) -> Any:
        tf.random.set_seed(1)
        array = _numbers()
        dataset = KEEPERS[name](array)
        after(array)
        return [tf.nest.map_structure(np.array, element) for element in dataset]

    def write(array: Any) -> None:
        array[:] = [9, 0, 0]

    np.testing.assert_equal(read(write), read(lambda array: None))


def test_an_array_is_copied_once_and_fit_copies_none() -> None:
    x = np.zeros((1000, 1000), np.float32)
    model = ipu.keras.Sequential([ipu.keras.layers.Dense(1, input_shape=(1000,))])
    model.compile("sgd", "mse")
    y = np.zeros((1000, 1), np.float32)

    def grown(call: Callable[[], Any]) -> float:
        tracemalloc.start()
        try:
            kept = call()
            del kept
            return tracemalloc.get_traced_memory()[1] / x.nbytes
        finally:
            tracemalloc.stop()

    assert 1 <= grown(lambda: tf.data.Dataset.from_tensor_slices(x).batch(8)) < 1.5
    assert 1 <= grown(lambda: tf.data.Dataset.from_tensor_slices(x.T).batch(8)) < 1.5
    tensor = tf.constant(x)
    assert grown(lambda: tf.data.Dataset.from_tensor_slices(tensor)) < 0.5
    assert grown(lambda: model.fit(x, y, batch_size=8, verbose=0)) < 0.5
    assert grown(lambda: model.evaluate(x, y, batch_size=8, verbose=0)) < 0.5
    assert grown(lambda: model.predict(x, batch_size=8, verbose=0)) < 0.5


def test_a_generator_may_use_one_array_for_all_its_elements() -> None:
    def rows() -> Any:
        row = np.zeros(2, np.float32)
        for number in range(6):
            row[:] = number
            yield row

    spec = tf.TensorSpec((2,), tf.float32)
    dataset = tf.data.Dataset.from_generator(rows, output_signature=spec)
    for made in (
        dataset,
        dataset.batch(2).unbatch(),
        dataset.cache(),
        dataset.prefetch(3),
        dataset.window(2).flat_map(lambda rows: rows),
        dataset.padded_batch(2).unbatch(),
        dataset.shuffle(1),
        dataset.group_by_window(lambda row: 0, lambda key, rows: rows, 4),
        tf.data.Dataset.zip((dataset, dataset)).map(lambda a, b: b),
    ):
        elements = list(made)
        assert [float(row[0]) for row in elements] == [0, 1, 2, 3, 4, 5]
