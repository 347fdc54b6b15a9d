# SPDX-License-Identifier: MIT
"""`Dataset`: choosing, joining, cutting, keeping; random numbers in functions."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from ipu import tf
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.tf import errors

Dataset = tf.data.Dataset


def lists(dataset: Dataset) -> list:
    return [x.numpy().tolist() for x in dataset]


def generated(count: int, log: list | None = None, dtype=tf.int64) -> Dataset:
    def generate():
        for i in range(count):
            if log is not None:
                log.append(i)
            yield i

    return Dataset.from_generator(generate, output_signature=tf.TensorSpec((), dtype))


@pytest.fixture(params=["held", "made"])
def source(request) -> Dataset:
    """Numbers 0 to 9: pointers into an array, or elements made one by one."""
    if request.param == "held":
        return Dataset.from_tensor_slices(np.arange(10))
    return Dataset.range(10)


# --- filter, take_while, shard -----------------------------------------------------


def test_filter(source):
    odd = source.filter(lambda x: x % 2 == 1)
    assert lists(odd) == [1, 3, 5, 7, 9]
    assert int(odd.cardinality()) == tf.data.UNKNOWN_CARDINALITY
    assert lists(odd.batch(2, drop_remainder=True)) == [[1, 3], [5, 7]]
    assert sorted(lists(odd.shuffle(3, seed=1).repeat(2))) == sorted(
        [1, 3, 5, 7, 9] * 2
    )
    assert lists(source.filter(lambda x: False)) == []
    pairs = Dataset.zip((source, source.map(lambda x: x * x)))
    kept = [(int(x), int(y)) for x, y in pairs.filter(lambda x, y: y - x > 40)]
    assert kept == [(7, 49), (8, 64), (9, 81)]


def test_filter_of_elements_that_vary_in_shape():
    rows = Dataset.from_generator(
        lambda: (np.arange(n) for n in range(6)),
        output_signature=tf.TensorSpec((None,), tf.int64),
    )
    long = rows.filter(lambda row: tf.size(row) > 3)
    assert lists(long) == [[0, 1, 2, 3], [0, 1, 2, 3, 4]]


def test_filter_refuses():
    with pytest.raises(ValueError, match="scalar boolean tensor"):
        Dataset.range(3).filter(lambda x: x)
    with pytest.raises(ValueError, match="scalar boolean tensor"):
        Dataset.range(3).filter(lambda x: (x > 1, x > 2))
    with pytest.raises(TypeError, match="predicate must be callable"):
        Dataset.range(3).filter(3)


def test_take_while(source):
    assert lists(source.take_while(lambda x: x < 4)) == [0, 1, 2, 3]
    assert lists(source.take_while(lambda x: x > 4)) == []
    assert lists(source.apply(tf.data.experimental.take_while(lambda x: x < 2))) == [
        0,
        1,
    ]


@pytest.mark.parametrize("count", [1, 3, 10, 12])
def test_shards_are_a_partition(source, count):
    parts = [source.shard(count, i) for i in range(count)]
    for i, part in enumerate(parts):
        assert lists(part) == list(range(10))[i::count]
        assert len(part) == len(lists(part))
    assert lists(source.repeat(2).shard(3, 1).batch(2)) == [[1, 4], [7, 0], [3, 6], [9]]


@pytest.mark.parametrize(("count", "index"), [(0, 0), (2, 2), (2, -1)])
def test_shard_refuses(count, index):
    with pytest.raises(errors.InvalidArgumentError, match="shard"):
        Dataset.range(3).shard(count, index)


# --- concatenate, unbatch, enumerate -----------------------------------------------


def test_concatenate(source):
    other = Dataset.range(20, 23)
    both = source.concatenate(other)
    assert lists(both) == [*range(10), 20, 21, 22]
    assert len(both) == 13
    assert lists(both.batch(4)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 20, 21], [22]]
    assert lists(other.concatenate(source.take(0)).repeat(2)) == [20, 21, 22] * 2
    assert int(source.repeat().concatenate(other).cardinality()) == -1
    assert int(source.concatenate(generated(2)).cardinality()) == -2
    ragged = source.batch(4, True).concatenate(source.batch(3, True))
    assert ragged.element_spec.shape == (None,)
    assert [x.shape for x in ragged] == [(4,)] * 2 + [(3,)] * 3
    named = source.map(lambda x: {"a": x, "b": (x, x)})
    assert [int(e["b"][1]) for e in named.concatenate(named.take(1))][-2:] == [9, 0]


def test_concatenate_refuses():
    one = Dataset.range(3)
    narrow = Dataset.from_tensor_slices(np.arange(3, dtype=np.int32))
    for other in (one.map(lambda x: (x, x)), narrow, 3):
        with pytest.raises(TypeError, match="concatenate"):
            one.concatenate(other)


def test_concatenated_passes_are_shuffled_anew():
    shuffled = Dataset.range(30).shuffle(30, seed=2)
    order = lists(shuffled.concatenate(Dataset.range(100, 103)).repeat(2))
    assert sorted(order[:30]) == sorted(order[33:63]) and order[:30] != order[33:63]


def test_unbatch(source):
    batches = source.batch(4)
    assert lists(batches.unbatch()) == list(range(10))
    assert int(batches.unbatch().cardinality()) == tf.data.UNKNOWN_CARDINALITY
    full = source.batch(5, drop_remainder=True).unbatch()
    assert len(full) == 10 and full.element_spec.shape == ()
    assert lists(source.batch(4).rebatch(3)) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    pairs = Dataset.zip((batches, batches.map(lambda x: tf.stack([x, -x], axis=1))))
    assert [(int(x), y.numpy().tolist()) for x, y in pairs.unbatch()] == [
        (i, [i, -i]) for i in range(10)
    ]
    assert sorted(lists(full.shuffle(20, seed=3))) == list(range(10))
    with pytest.raises(ValueError, match="scalar"):
        source.unbatch()


def test_unbatch_finds_rows_that_differ():
    pairs = Dataset.from_generator(
        lambda: iter([(np.arange(2), np.arange(3))]),
        output_signature=(tf.TensorSpec((None,), tf.int64),) * 2,
    )
    with pytest.raises(errors.InvalidArgumentError, match="unbatch"):
        list(pairs.unbatch())


def test_enumerate(source):
    assert [(int(i), int(x)) for i, x in source.skip(7).enumerate(3)] == [
        (3, 7),
        (4, 8),
        (5, 9),
    ]
    numbered = source.map(lambda x: (x, {"y": x})).enumerate()
    assert numbered.element_spec[0].dtype == tf.int64
    assert len(numbered) == 10


# --- cache -------------------------------------------------------------------------


def test_cache_reads_once():
    log: list[int] = []
    cached = generated(5, log).map(lambda x: x * 2).cache()
    assert lists(cached.take(2)) == [0, 2]
    assert lists(cached) == [0, 2, 4, 6, 8]
    assert lists(cached.repeat(3)) == [0, 2, 4, 6, 8] * 3
    assert log == [0, 1, 2, 3, 4]
    assert sorted(lists(cached.shuffle(5, seed=1).batch(5))[0]) == [0, 2, 4, 6, 8]
    assert log == [0, 1, 2, 3, 4]


def test_cache_under_two_iterators_at_a_time():
    log: list[int] = []
    cached = generated(6, log).cache()
    first, second = iter(cached), iter(cached)
    seen = [int(next(one)) for one in (first, first, second, first, second, second)]
    assert seen == [0, 1, 0, 2, 1, 2]
    del first
    assert [int(x) for x in second] == [3, 4, 5]
    assert log == list(range(6))


def test_cache_from_several_threads():
    cached = generated(500).map(lambda x: x + 1).cache()
    results: list[list[int]] = []
    threads = [
        threading.Thread(target=lambda: results.append(lists(cached))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == [list(range(1, 501))] * 3


def test_cache_keeps_elements_of_any_shape_and_the_order_of_a_shuffle():
    rows = Dataset.from_generator(
        lambda: (np.arange(n) for n in range(4)),
        output_signature=tf.TensorSpec((None,), tf.int64),
    ).cache()
    assert lists(rows) == lists(rows) == [[], [0], [0, 1], [0, 1, 2]]
    frozen = Dataset.range(50).shuffle(50, seed=1).cache()
    assert lists(frozen) == lists(frozen) != list(range(50))
    random = Dataset.range(5).map(lambda x: tf.random.uniform(())).cache()
    assert lists(random) == lists(random)


def test_cache_passes_errors_on():
    def generate():
        yield 1
        raise KeyError("broken source")

    cached = Dataset.from_generator(
        generate, output_signature=tf.TensorSpec((), tf.int64)
    ).cache()
    with pytest.raises(KeyError, match="broken source"):
        list(cached)


def test_a_cached_data_set_feeds_a_device_and_goes():
    data = Dataset.from_tensor_slices(np.arange(8, dtype=np.int32)).cache().repeat()
    for _ in range(3):
        infeed = IPUInfeedQueue(data.batch(4, drop_remainder=True))
        infeed.initializer  # noqa: B018
        infeed.deleter  # noqa: B018


# --- declared numbers, options, results --------------------------------------------


def test_assert_cardinality(source):
    check = tf.data.experimental.assert_cardinality
    odd = source.filter(lambda x: x % 2 == 1)
    right = odd.apply(check(5))
    assert len(right) == 5 and len(lists(right)) == 5
    assert int(tf.data.experimental.cardinality(right.batch(2))) == 3
    with pytest.raises(errors.FailedPreconditionError, match="contained only 5"):
        lists(odd.apply(check(6)))
    with pytest.raises(errors.FailedPreconditionError, match="at least 5"):
        lists(odd.apply(check(4)))
    with pytest.raises(errors.FailedPreconditionError, match="infinite"):
        lists(odd.apply(check(tf.data.experimental.INFINITE_CARDINALITY)))


def test_options():
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.OFF
    )
    options.deterministic = False
    assert options.experimental_slack is None
    with_options = Dataset.range(3).with_options(options)
    assert lists(with_options) == [0, 1, 2]
    assert with_options.options() == options
    assert options.merge(tf.data.Options()).deterministic is False
    with pytest.raises(TypeError, match="Options"):
        Dataset.range(3).with_options({})


def test_reduce(source):
    assert int(source.reduce(np.int64(0), lambda total, x: total + x)) == 45
    low, high = source.map(lambda x: (x, -x)).reduce(
        (np.int64(100), np.int64(100)),
        lambda s, e: (tf.minimum(s[0], e[0]), tf.minimum(s[1], e[1])),
    )
    assert (int(low), int(high)) == (0, -9)
    assert int(source.take(0).reduce(7, lambda s, x: s)) == 7
    counted = source.batch(4).reduce(0, lambda s, x: s + tf.size(x))
    assert int(counted) == 10
    with pytest.raises(TypeError, match="new state must match"):
        source.reduce(0, lambda s, x: tf.cast(s, tf.float32))


def test_single_element_and_apply(source):
    assert int(source.take(1).get_single_element()) == 0
    for wrong in (source, source.take(0)):
        with pytest.raises(errors.InvalidArgumentError):
            wrong.get_single_element()
    assert lists(source.apply(lambda d: d.take(2))) == [0, 1]
    with pytest.raises(TypeError, match=r"must return a tf\.data\.Dataset"):
        source.apply(lambda d: [1])


def test_older_names():
    e = tf.data.experimental
    ds = Dataset.range(6)
    assert lists(
        ds.apply(e.map_and_batch(lambda x: x * 2, 4, drop_remainder=True))
    ) == [[0, 2, 4, 6]]
    assert sorted(lists(ds.apply(e.shuffle_and_repeat(6, 2, 1)))) == sorted(
        [*range(6)] * 2
    )
    assert lists(ds.batch(3).apply(e.unbatch())) == list(range(6))
    assert lists(e.Counter(3, 2).take(3)) == [3, 5, 7]
    assert [int(i) for i, _ in ds.apply(e.enumerate_dataset(2))][:2] == [2, 3]
    assert int(e.get_single_element(ds.skip(5))) == 5


# --- flat_map, interleave, padded_batch --------------------------------------------


def test_flat_map_and_interleave():
    def copies(x):
        return Dataset.from_tensors(x).repeat(6)

    flat = Dataset.range(4).flat_map(lambda x: Dataset.range(int(x)))
    assert lists(flat) == [0, 0, 1, 0, 1, 2]
    # the example of TensorFlow's documentation
    mixed = Dataset.range(1, 6).interleave(copies, cycle_length=2, block_length=4)
    assert lists(mixed) == [
        *[1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 2, 2],
        *[3, 3, 3, 3, 4, 4, 4, 4, 3, 3, 4, 4],
        *[5, 5, 5, 5, 5, 5],
    ]
    assert lists(Dataset.range(3).interleave(copies, tf.data.AUTOTUNE).take(4)) == [
        0,
        1,
        2,
        0,
    ]
    pairs = Dataset.range(2).map(lambda x: (x, x + 10))
    nested = pairs.flat_map(
        lambda a, b: Dataset.from_tensor_slices({"k": [int(a), int(b)]})
    )
    assert [int(e["k"]) for e in nested.repeat(2)] == [0, 10, 1, 11] * 2


def test_flat_map_refuses():
    with pytest.raises(TypeError, match=r"must return a `Dataset` object"):
        Dataset.range(2).flat_map(lambda x: x)
    with pytest.raises(ValueError, match="structure"):
        Dataset.range(0).flat_map(lambda x: Dataset.range(2))
    for keywords in ({"cycle_length": 0}, {"block_length": 0}):
        with pytest.raises(ValueError, match="greater than zero"):
            Dataset.range(2).interleave(lambda x: Dataset.range(2), **keywords)


def test_padded_batch():
    rows = Dataset.from_generator(
        lambda: (np.arange(n) for n in (1, 3, 2)),
        output_signature=tf.TensorSpec((None,), tf.int64),
    )
    assert lists(rows.padded_batch(2)) == [[[0, 0, 0], [0, 1, 2]], [[0, 1]]]
    fixed = rows.padded_batch(3, [4], padding_values=-1, drop_remainder=True)
    assert fixed.element_spec.shape == (3, 4)
    assert lists(fixed) == [[[0, -1, -1, -1], [0, 1, 2, -1], [0, 1, -1, -1]]]
    with pytest.raises(errors.InvalidArgumentError, match="does not fit"):
        lists(rows.padded_batch(3, [2]))
    both = Dataset.zip((rows, Dataset.range(3)))
    made = list(both.padded_batch(3, ([None], []), (np.int64(9), np.int64(0))))
    assert made[0][0].numpy().tolist() == [[0, 9, 9], [0, 1, 2], [0, 1, 9]]
    assert made[0][1].numpy().tolist() == [0, 1, 2]
    named = rows.map(lambda x: {"x": x}).padded_batch(2, {"x": [None]})
    assert next(iter(named))["x"].shape == (2, 3)


# --- random numbers ----------------------------------------------------------------


def test_random_ops_give_new_numbers_for_each_element_and_pass():
    drawn = Dataset.range(50).map(lambda x: tf.random.uniform((2,)))
    passes = [lists(drawn), lists(drawn), lists(drawn.repeat(2))]
    numbers = np.array(passes[0] + passes[1] + passes[2]).ravel()
    assert len(np.unique(numbers)) == len(numbers) == 400
    assert 0.4 < numbers.mean() < 0.6


def test_random_ops_follow_the_global_seed():
    def make() -> list:
        tf.random.set_seed(11)
        one = Dataset.range(5).map(lambda x: tf.random.normal(()))
        two = Dataset.range(5).map(lambda x: tf.random.normal(()))
        return [lists(one.prefetch(2)), lists(one), lists(two)]

    first, again = make(), make()
    assert first == again
    assert len({str(part) for part in first}) == 3
    tf.random.set_seed(12)
    other = Dataset.range(5).map(lambda x: tf.random.normal(()))
    assert lists(other) != first[0]


def test_random_filters():
    kept = Dataset.range(400).filter(lambda x: tf.random.uniform(()) < 0.5)
    counts = {len(lists(kept)) for _ in range(4)}
    assert len(counts) > 1 and all(140 < n < 260 for n in counts)


def test_python_control_flow_in_functions():
    def f(x):
        if x > 2:  # noqa: SIM108 - the statement is what is tested
            x = x + 1
        else:
            x = x * 10
        return x

    assert lists(Dataset.range(5).map(f)) == [0, 10, 20, 4, 5]
