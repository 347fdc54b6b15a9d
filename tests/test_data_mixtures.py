# SPDX-License-Identifier: MIT
"""Data sets of several others, of random numbers, and of what was there before."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from ipu import tf
from ipu.tf import errors

Dataset = tf.data.Dataset


def numbers(dataset: Any) -> list[Any]:
    return [np.asarray(x.numpy()).tolist() for x in dataset]


def test_counters() -> None:
    assert numbers(Dataset.counter().take(3)) == [0, 1, 2]
    assert numbers(Dataset.counter(5, -2).take(3)) == [5, 3, 1]
    assert numbers(Dataset.counter(7, 0).take(2)) == [7, 7]
    typed = Dataset.counter(1, dtype=tf.int32)
    assert typed.element_spec == tf.TensorSpec((), tf.int32)
    assert int(typed.cardinality()) == tf.data.INFINITE_CARDINALITY


def test_random_numbers() -> None:
    one = Dataset.random(seed=3).take(300)
    assert one.element_spec == tf.TensorSpec((), tf.int64)
    drawn = numbers(one)
    assert drawn == numbers(one) and len(set(drawn)) == 300
    assert min(drawn) >= 0 and 2**31 < max(drawn) < 2**32
    other = Dataset.random(seed=3, rerandomize_each_iteration=True).take(5)
    assert numbers(other) == drawn[:5] != numbers(other)
    tf.random.set_seed(4)
    first = numbers(Dataset.random().take(3))
    assert first != numbers(Dataset.random().take(3))
    tf.random.set_seed(4)
    assert numbers(Dataset.random().take(3)) == first


def test_samples() -> None:
    def named(value: int, count: int) -> Any:
        return Dataset.from_tensors(value).repeat(count)

    mixed = Dataset.sample_from_datasets([named(1, 900), named(2, 900)], [0.8, 0.2], 1)
    drawn = numbers(mixed)
    assert len(drawn) == 1800 and 120 < sum(x == 2 for x in drawn[:800]) < 200
    again = Dataset.sample_from_datasets(
        [named(1, 900), named(2, 900)], [0.8, 0.2], 1, rerandomize_each_iteration=False
    )
    assert numbers(again) == numbers(again)
    short = Dataset.sample_from_datasets(
        [named(1, 2), named(2, 500)], seed=1, stop_on_empty_dataset=True
    )
    assert sum(x == 1 for x in numbers(short)) == 2 and len(numbers(short)) < 50
    only = Dataset.sample_from_datasets([named(1, 3), named(2, 3)], [1.0, 0.0])
    assert numbers(only) == [1, 1, 1]
    weights = Dataset.from_tensor_slices([[0.0, 1.0], [1.0, 0.0]]).repeat()
    turns = Dataset.sample_from_datasets([named(1, 3), named(2, 3)], weights)
    assert numbers(turns.take(4)) == [2, 1, 2, 1]
    shapes = Dataset.sample_from_datasets(
        [Dataset.range(6).batch(2), Dataset.range(6).batch(3)], seed=1
    )
    assert shapes.element_spec.shape == (None,)
    rows = Dataset.sample_from_datasets(
        [Dataset.range(6).batch(2, True), Dataset.range(6).batch(3, True)], seed=1
    )
    assert rows.element_spec.shape == (None,)
    assert sorted(x for row in numbers(rows) for x in row) == sorted(
        [*range(6), *range(6)]
    )


def test_choices() -> None:
    sets = [Dataset.from_tensors(x).repeat(3) for x in ("foo", "bar", "baz")]
    choice = Dataset.range(3).repeat(3)
    chosen = Dataset.choose_from_datasets(sets, choice)
    assert numbers(chosen) == [b"foo", b"bar", b"baz"] * 3
    shorter = [Dataset.range(1), Dataset.range(10, 15)]
    order = Dataset.from_tensor_slices(np.array([0, 1, 0, 1, 1]))
    assert numbers(Dataset.choose_from_datasets(shorter, order)) == [0, 10]
    rest = Dataset.choose_from_datasets(shorter, order, stop_on_empty_dataset=False)
    assert numbers(rest) == [0, 10, 11, 12]
    with pytest.raises(errors.InvalidArgumentError, match="out of range: 3"):
        numbers(Dataset.choose_from_datasets(sets, Dataset.range(3, 5)))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        ("sample_from_datasets([])", ValueError, "must not be empty"),
        ("sample_from_datasets([1])", TypeError, "takes data sets"),
        ("sample_from_datasets([A, A], [1.0])", ValueError, "of which there are 2"),
        ("sample_from_datasets([A, A], [-1.0, 2.0])", ValueError, "weights"),
        ("sample_from_datasets([A, B])", TypeError, "compatible element specs"),
        ("sample_from_datasets([A, C])", TypeError, "compatible element specs"),
        ("choose_from_datasets([A], [0])", TypeError, "scalar int64"),
        ("choose_from_datasets([A], C)", TypeError, "scalar int64"),
        ("range(2).rejection_resample(lambda x: x, [-1.0])", ValueError, "target_dist"),
        (
            "range(2).rejection_resample(lambda x: x, [1.0], [0.5, 0.5])",
            ValueError,
            "the same length",
        ),
        ("range(2).scan(0, no_pair)", TypeError, "must return a pair"),
        (
            "range(2).scan(0, float_state)",
            TypeError,
            "must match the initial",
        ),
        ("range(2).scan(0, wide_state)", TypeError, "must match the initial"),
    ],
)
def test_mistakes(call: str, error: type[Exception], text: str) -> None:
    names = {
        "A": Dataset.range(2),
        "B": Dataset.from_tensors("a"),
        "C": Dataset.from_tensors((1, 2)),
        "no_pair": lambda s, x: x,
        "float_state": lambda s, x: (tf.cast(s, tf.float32), x),
        "wide_state": lambda s, x: (x, x),
    }
    with pytest.raises(error, match=text):
        eval(f"Dataset.{call}", {"Dataset": Dataset, **names})


def test_scans() -> None:
    data = Dataset.range(5)
    sums = data.scan(np.int64(0), lambda total, x: (total + x, {"sum": total, "x": x}))
    assert [(int(e["sum"]), int(e["x"])) for e in sums] == [
        (0, 0),
        (0, 1),
        (1, 2),
        (3, 3),
        (6, 4),
    ]
    assert len(sums) == 5 and set(sums.element_spec) == {"sum", "x"}

    def fibonacci(state: Any, _: Any) -> Any:
        a, b = state
        return (b, a + b), a

    assert numbers(Dataset.range(8).scan((0, 1), fibonacci)) == [
        0,
        1,
        1,
        2,
        3,
        5,
        8,
        13,
    ]
    words = Dataset.from_tensor_slices(["a", "b", "c"])
    joined = words.scan("", lambda before, x: (before + x, before + x))
    assert numbers(joined) == [b"a", b"ab", b"abc"]
    texts = data.scan("", lambda s, x: (s + tf.strings.as_string(x), s))
    assert numbers(texts)[-1] == b"0123"
    rows = Dataset.from_generator(
        lambda: ([1], [2, 3]), output_signature=tf.TensorSpec((None,), tf.int32)
    ).scan(0, lambda total, x: (total + tf.reduce_sum(x), x + total))
    assert numbers(rows) == [[1], [3, 4]]

    def branching(total: Any, x: Any) -> Any:
        if x % 2 == 0:
            total += x
        return total, total

    assert numbers(data.scan(np.int64(0), branching)) == [0, 0, 2, 2, 6]
    with pytest.raises(ValueError, match="no element"):
        words.take(0).scan("", lambda s, x: (s, x))


def test_unique_elements() -> None:
    data = Dataset.from_tensor_slices([1, 37, 2, 37, 2, 1])
    assert numbers(data.unique()) == [1, 37, 2]
    words = Dataset.from_tensor_slices(["b", "a", "b", ""]).unique()
    assert numbers(words) == numbers(words) == [b"b", b"a", b""]
    pairs = Dataset.from_tensor_slices(([1, 1, 1], [2, 3, 2])).unique()
    assert [(int(a), int(b)) for a, b in pairs] == [(1, 2), (1, 3)]


def test_resampled_classes() -> None:
    classes = Dataset.from_tensor_slices(np.tile([0, 0, 0, 1], 600))
    for given in ([0.75, 0.25], None):
        even = classes.rejection_resample(
            lambda x: tf.cast(x, tf.int32), [0.5, 0.5], given, seed=5
        )
        pairs = [(int(a), int(b)) for a, b in even]
        assert all(a == b for a, b in pairs)
        share = np.mean([a for a, _ in pairs])
        assert 0.46 < share < 0.54 and 1000 < len(pairs) < 1500
    bad = classes.rejection_resample(lambda x: tf.cast(x + 1, tf.int32), [0.5, 0.5])
    with pytest.raises(errors.InvalidArgumentError, match="no class 2"):
        list(bad)


def test_mixtures_are_left_early_and_read_in_threads() -> None:
    before = threading.active_count()
    sources = [Dataset.range(1000).prefetch(4), Dataset.range(1000).map(lambda x: -x)]
    mixed = Dataset.sample_from_datasets(
        sources, seed=2, rerandomize_each_iteration=False
    )
    expected = numbers(mixed.take(50))
    results: list[Any] = [None] * 4

    def read(at: int) -> None:
        iterator = iter(mixed.prefetch(2))
        results[at] = [int(next(iterator)) for _ in range(50)]
        iterator.close()

    threads = [threading.Thread(target=read, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4
    assert threading.active_count() <= before


def test_an_error_in_one_of_several() -> None:
    def broken() -> Any:
        yield 1
        raise KeyError("here")

    bad = Dataset.from_generator(broken, output_signature=tf.TensorSpec((), tf.int64))
    choice = Dataset.from_tensor_slices(np.array([0, 1, 1, 0]))
    iterator = iter(Dataset.choose_from_datasets([Dataset.range(5), bad], choice))
    assert int(next(iterator)) == 0 and int(next(iterator)) == 1
    with pytest.raises(KeyError, match="here"):
        next(iterator)
