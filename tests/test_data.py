# SPDX-License-Identifier: MIT
"""Data sets from Python: semantics, structures, bad input, threads."""

from __future__ import annotations

import collections
import gc
import itertools
import subprocess
import sys
import threading
import time
import traceback
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipu import _core, loops, tf
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.tf import errors
from ipu.tf._function import DeviceFunction

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


def test_arrays_are_held_not_copied() -> None:
    array = np.zeros((3, 2), np.float32)
    dataset = Dataset.from_tensor_slices(array).batch(3)
    array[1] = 5.0
    assert lists(dataset) == [[[0.0, 0.0], [5.0, 5.0], [0.0, 0.0]]]


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
    dataset = Dataset.from_tensor_slices(array).shuffle(4).repeat().batch(2)
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
    assert of(endless.take(-1)) == infinite
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


# --- generators -----------------------------------------------------------------------


def test_generator() -> None:
    def count(stop: Any) -> Any:
        assert isinstance(stop, np.generic)
        for i in range(int(stop)):
            yield i, [i, i + 0.5]

    dataset = Dataset.from_generator(
        count, (tf.int64, tf.float32), ((), (2,)), args=(3,)
    )
    assert dataset.element_spec == (
        tf.TensorSpec((), tf.int64),
        tf.TensorSpec((2,), tf.float32),
    )
    for _ in range(2):
        made = [(int(i), x.numpy().tolist()) for i, x in dataset]
        assert made == [(0, [0, 0.5]), (1, [1, 1.5]), (2, [2, 2.5])]
    assert [i.tolist() for i, _ in dataset.batch(2).as_numpy_iterator()] == [
        [0, 1],
        [2],
    ]


def test_generator_of_dicts() -> None:
    signature = {
        "a": tf.TensorSpec((), tf.int32),
        "b": tf.TensorSpec((None,), tf.uint8),
    }
    dataset = Dataset.from_generator(
        lambda: iter([{"b": [1, 2], "a": 3}]), output_signature=signature
    )
    (element,) = list(dataset)
    assert int(element["a"]) == 3 and element["b"].numpy().tolist() == [1, 2]


@pytest.mark.parametrize("prefetch", [0, 2])
def test_generator_exception_is_itself(prefetch: int) -> None:
    problem = KeyError("mine")

    def failing() -> Any:
        yield 1
        raise problem

    dataset = Dataset.from_generator(failing, tf.int32, ()).prefetch(prefetch)
    iterator = iter(dataset)
    assert int(next(iterator)) == 1
    with pytest.raises(KeyError) as info:
        next(iterator)
    assert info.value is problem
    assert "failing" in "".join(traceback.format_tb(info.tb))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.5, "expected type was int32, but the yielded element was 1.5"),
        ("a", "expected type was int32"),
        (2**40, "expected type was int32"),
        ([1, 2], r"of shape \(2,\) where an element of shape \(\) was expected"),
        ({"k": 1}, "did not match the expected structure"),
    ],
)
def test_generator_of_wrong_elements(value: Any, text: str) -> None:
    dataset = Dataset.from_generator(lambda: iter([value]), tf.int32, ())
    with pytest.raises(TypeError, match=text):
        list(dataset)


def test_an_exception_is_not_lost_on_its_way() -> None:
    """Looking for an attribute that no cache knows clears the exception that is set."""

    def generate() -> Any:
        yield 1
        sys._clear_type_cache()
        raise KeyError("here")

    dataset = Dataset.from_generator(generate, tf.int32, ())
    for made in (dataset, dataset.prefetch(1)):
        with pytest.raises(KeyError, match="here"):
            list(made)


@pytest.mark.parametrize("value", [(1,), (1, 2, 3), 5, {"a": 1, "b": 2}])
def test_generator_of_wrong_structure(value: Any) -> None:
    dataset = Dataset.from_generator(
        lambda: iter([value]), (tf.int32, tf.int32), ((), ())
    )
    with pytest.raises(TypeError, match="did not match the expected structure"):
        list(dataset)


def test_generator_arguments() -> None:
    with pytest.raises(TypeError, match="must be a Python callable"):
        Dataset.from_generator([1, 2], tf.int32)
    with pytest.raises(TypeError, match="output_signature or output_types"):
        Dataset.from_generator(lambda: iter([1]))
    with pytest.raises(TypeError, match="not both"):
        Dataset.from_generator(
            lambda: iter([1]), tf.int32, output_signature=tf.TensorSpec((), tf.int32)
        )
    with pytest.raises(TypeError, match=r"must be a tf.TensorSpec"):
        Dataset.from_generator(lambda: iter([1]), output_signature=tf.int32)
    with pytest.raises(TypeError, match="structure of output_types"):
        Dataset.from_generator(lambda: iter([1]), (tf.int32, tf.int32), ((),))


def test_ragged_batch_names_the_elements() -> None:
    ragged = Dataset.from_generator(lambda: iter([[1], [1, 2]]), tf.int32, (None,))
    with pytest.raises(errors.InvalidArgumentError, match=r"element 1 .*int32\[2\]"):
        list(ragged.batch(2))


def test_generator_is_closed_when_left() -> None:
    closed = threading.Event()

    def endless() -> Any:
        try:
            yield from itertools.count()
        finally:
            closed.set()

    for prefetch in (0, 3):
        closed.clear()
        iterator = iter(
            Dataset.from_generator(endless, tf.int64, ()).prefetch(prefetch)
        )
        assert int(next(iterator)) == 0
        iterator.close()
        assert closed.wait(5)
        assert list(iterator) == []


# --- iterators and threads ------------------------------------------------------------


def test_iterators_are_independent() -> None:
    dataset = Dataset.range(4).prefetch(1)
    one, two = iter(dataset), iter(dataset)
    assert [int(next(one)) for _ in range(3)] == [0, 1, 2]
    assert int(next(two)) == 0
    assert one.element_spec == dataset.element_spec
    assert int(one.get_next()) == 3
    with pytest.raises(errors.OutOfRangeError, match="End of sequence"):
        one.get_next()


def test_elements_outlive_the_iterator() -> None:
    elements = list(Dataset.range(100).batch(3).prefetch(2))
    assert np.concatenate([e.numpy() for e in elements]).tolist() == list(range(100))


def test_threads_with_iterators_of_their_own() -> None:
    x = np.arange(2000).reshape(500, 4)
    dataset = Dataset.from_tensor_slices(x).shuffle(64).batch(7).map(lambda v: v + 1)
    dataset = dataset.prefetch(2)
    totals = []

    def read() -> None:
        totals.append(sum(int(v.numpy().sum()) for v in dataset))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert totals == [int(x.sum()) + x.size] * 4


def test_one_iterator_serves_one_thread() -> None:
    started, go = threading.Event(), threading.Event()

    def slow() -> Any:
        started.set()
        go.wait(10)
        yield 1

    iterator = iter(Dataset.from_generator(slow, tf.int32, ()))
    thread = threading.Thread(target=lambda: next(iterator))
    thread.start()
    assert started.wait(5)
    with pytest.raises(RuntimeError, match="another thread"):
        next(iterator)
    with pytest.raises(RuntimeError, match="at work"):
        iterator.close()
    go.set()
    thread.join(10)


def test_process_ends_with_live_threads() -> None:
    """Prefetch threads that call Python neither hang nor crash at exit."""
    code = (
        "import itertools\n"
        "from ipu import tf\n"
        "d = tf.data.Dataset.from_generator(itertools.count, tf.int64, ())\n"
        "its = [iter(d.prefetch(2)) for _ in range(3)]\n"
        "print([int(next(i)) for i in its])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[0, 0, 0]"


def test_core_types_cannot_be_misused() -> None:
    with pytest.raises(TypeError):
        _core.Dataset()
    with pytest.raises(TypeError):
        _core.DatasetIterator(3)
    with pytest.raises(TypeError):
        _core.Dataset.slices([np.zeros(3)])
    with pytest.raises(TypeError):
        _core.Dataset.zip((1,))
    with pytest.raises((TypeError, AttributeError)):
        _core.Dataset.slices((3,))


# --- feeding a device -----------------------------------------------------------------


def run_on_device(dataset: Any, steps: int) -> list[Any]:
    """What a device program of ``steps`` steps takes from the data set."""
    from ipu import ipu_infeed_queue, ipu_outfeed_queue, loops
    from ipu.tf import _function

    infeed = ipu_infeed_queue.IPUInfeedQueue(dataset)
    outfeed = ipu_outfeed_queue.IPUOutfeedQueue()
    program = _function.DeviceFunction(
        lambda: loops.repeat(steps, outfeed.enqueue, [], infeed)
    )
    infeed.initializer  # noqa: B018
    try:
        program()
        result: list[Any] = outfeed.dequeue().numpy().tolist()
        return result
    finally:
        infeed.deleter  # noqa: B018


def test_device_takes_elements_in_order() -> None:
    dataset = Dataset.range(6, output_type=tf.int32).batch(2, drop_remainder=True)
    assert run_on_device(dataset, 3) == [[0, 1], [2, 3], [4, 5]]
    assert run_on_device(dataset.prefetch(2).repeat(), 4)[3] == [0, 1]


def test_data_set_that_ends_early_fails_the_run() -> None:
    with pytest.raises(errors.OutOfRangeError, match="out of range"):
        run_on_device(Dataset.range(2, output_type=tf.int32), 3)
    with pytest.raises(errors.OutOfRangeError, match="out of range"):
        run_on_device(Dataset.range(0, output_type=tf.int32).repeat(), 1)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_generator_exception_fails_the_run(prefetch: int) -> None:
    def failing() -> Any:
        yield 1
        raise LookupError("in the generator")

    dataset = Dataset.from_generator(failing, tf.int32, ()).prefetch(prefetch).repeat()
    with pytest.raises(LookupError, match="in the generator"):
        run_on_device(dataset, 3)


def test_process_ends_with_a_live_feeder() -> None:
    code = (
        "import itertools\n"
        "from ipu import ipu_infeed_queue, tf\n"
        "d = tf.data.Dataset.from_generator(\n"
        "    lambda: (i % 7 for i in itertools.count()), tf.int32, ())\n"
        "q = ipu_infeed_queue.IPUInfeedQueue(d)\n"
        "q.initializer\n"
        "print('done')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "done"


def test_exceptions_of_two_sources_do_not_mix() -> None:
    def broken(text: str) -> Any:
        def generate() -> Any:
            yield 0
            raise KeyError(text)

        return Dataset.from_generator(
            generate, output_signature=tf.TensorSpec((), tf.int32)
        )

    # a feeder fails before anybody asks it, then another source does
    infeed = IPUInfeedQueue(broken("first"), prefetch_depth=2)
    infeed.initializer  # noqa: B018
    time.sleep(0.05)
    with pytest.raises(KeyError, match="second"):
        list(broken("second"))
    run = DeviceFunction(lambda: loops.repeat(2, lambda x: None, [], infeed))
    with pytest.raises(KeyError, match="first"):
        run()
