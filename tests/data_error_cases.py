# SPDX-License-Identifier: MIT
"""Data sets with elements that fail, one for each transformation and source.

The same cases run on TensorFlow: with it `python data_error_cases.py` prints their
traces, and the table TENSORFLOW has them. In a trace "!" stands for an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

Case = Callable[[Any, Any, str], Any]
CASES: dict[str, Case] = {}
ENDLESS = 4  # errors one after the other, where they have no end


def case(function: Case) -> Case:
    CASES[function.__name__.rstrip("_")] = function
    return function


def fails_at(*bad: int) -> Callable[[Any], Any]:
    """A function that gives its argument, and fails for some."""

    def function(x: Any) -> Any:
        for one in bad:
            x = x + 0 * (7 // (x - one))
        return x

    return function


def traced(dataset: Any) -> list[Any]:
    """What an iterator gives until it ends: values, "!" for errors."""
    found: list[Any] = []
    iterator = iter(dataset)
    while found[-ENDLESS:] != ["!"] * ENDLESS:
        try:
            found.append(plain(next(iterator)))
        except StopIteration:
            return found
        except Exception:
            found.append("!")
    return [*found, "..."]


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if hasattr(value, "to_list"):
        return value.to_list()
    if hasattr(value, "dense_shape"):
        return np.asarray(value.values).tolist()
    if hasattr(value, "element_spec"):
        return [plain(one) for one in value]
    return text(np.asarray(value).tolist())


def text(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(text, value))
    return value.decode() if isinstance(value, bytes) else value


# --- an error in the source -----------------------------------------------------------
# E(): 0 to 7, of which 3 fails; E(count, *bad)


@case
def apply(tf: Any, E: Any, path: str) -> Any:
    return E().apply(lambda d: d.map(lambda x: x + 1))


@case
def batch(tf: Any, E: Any, path: str) -> Any:
    return E().batch(2)


@case
def batch_whole(tf: Any, E: Any, path: str) -> Any:
    return E().batch(3, drop_remainder=True)


@case
def batch_of_strings(tf: Any, E: Any, path: str) -> Any:
    return E().map(tf.strings.as_string).batch(2)


@case
def batch_shapes_differ(tf: Any, E: Any, path: str) -> Any:
    return tf.data.Dataset.range(6).map(lambda x: tf.range(x // 3 + 1)).batch(2)


@case
def bucket_by_sequence_length(tf: Any, E: Any, path: str) -> Any:
    rows = E().map(lambda x: tf.range(x) * 0 + x)
    return rows.bucket_by_sequence_length(lambda x: tf.shape(x)[0], [4], [2, 2])


@case
def cache(tf: Any, E: Any, path: str) -> Any:
    return E().cache()


@case
def cache_twice(tf: Any, E: Any, path: str) -> Any:
    return E().cache().repeat(2)


@case
def cache_file(tf: Any, E: Any, path: str) -> Any:
    return E().cache(os.path.join(path, "kept"))


@case
def cache_file_twice(tf: Any, E: Any, path: str) -> Any:
    return E().cache(os.path.join(path, "kept")).repeat(2)


@case
def choose_from_datasets(tf: Any, E: Any, path: str) -> Any:
    choice = tf.data.Dataset.range(2).repeat(8)
    return tf.data.Dataset.choose_from_datasets([E(), E()], choice)


@case
def choose_from_datasets_choice_fails(tf: Any, E: Any, path: str) -> Any:
    choice = E().map(lambda x: x % 2)
    both = [tf.data.Dataset.range(8), tf.data.Dataset.range(10, 18)]
    return tf.data.Dataset.choose_from_datasets(both, choice)


@case
def choose_from_datasets_out_of_range(tf: Any, E: Any, path: str) -> Any:
    choice = tf.data.Dataset.from_tensor_slices(np.array([0, 7, 1, 0], np.int64))
    both = [tf.data.Dataset.range(8), tf.data.Dataset.range(10, 18)]
    return tf.data.Dataset.choose_from_datasets(both, choice)


@case
def concatenate(tf: Any, E: Any, path: str) -> Any:
    return E().concatenate(E())


@case
def enumerate_(tf: Any, E: Any, path: str) -> Any:
    return E().enumerate()


@case
def filter_(tf: Any, E: Any, path: str) -> Any:
    return E().filter(lambda x: x % 2 == 0)


@case
def flat_map(tf: Any, E: Any, path: str) -> Any:
    return E().flat_map(lambda x: tf.data.Dataset.from_tensors(x).repeat(2))


@case
def flat_map_inner(tf: Any, E: Any, path: str) -> Any:
    return tf.data.Dataset.range(2).flat_map(lambda x: E(5))


@case
def from_generator(tf: Any, E: Any, path: str) -> Any:
    class Source:
        def __init__(self) -> None:
            self.at = -1

        def __iter__(self) -> Source:
            return self

        def __next__(self) -> int:
            self.at += 1
            if self.at == 3:
                raise ValueError("the fourth")
            if self.at == 8:
                raise StopIteration
            return self.at

    spec = tf.TensorSpec((), tf.int64)
    return tf.data.Dataset.from_generator(Source, output_signature=spec)


@case
def from_generator_of_other_shapes(tf: Any, E: Any, path: str) -> Any:
    def rows() -> Any:
        for at in range(6):
            yield [at] * (1 + (at == 3))

    spec = tf.TensorSpec((1,), tf.int64)
    return tf.data.Dataset.from_generator(rows, output_signature=spec)


@case
def from_generator_ends(tf: Any, E: Any, path: str) -> Any:
    def rows() -> Any:
        for at in range(6):
            yield 6 // (3 - at)

    spec = tf.TensorSpec((), tf.int64)
    return tf.data.Dataset.from_generator(rows, output_signature=spec)


@case
def group_by_window(tf: Any, E: Any, path: str) -> Any:
    return E().group_by_window(lambda x: x % 2, lambda key, rows: rows.batch(2), 2)


@case
def group_by_window_inner(tf: Any, E: Any, path: str) -> Any:
    def reduced(key: Any, rows: Any) -> Any:
        return rows.map(fails_at(3))

    return tf.data.Dataset.range(8).group_by_window(lambda x: x % 2, reduced, 3)


@case
def ignore_errors(tf: Any, E: Any, path: str) -> Any:
    return E().ignore_errors()


@case
def interleave(tf: Any, E: Any, path: str) -> Any:
    def made(x: Any) -> Any:
        return tf.data.Dataset.from_tensors(x).repeat(2)

    return E().interleave(made, cycle_length=2)


@case
def interleave_inner(tf: Any, E: Any, path: str) -> Any:
    return tf.data.Dataset.range(3).interleave(lambda x: E(5), 2, 2)


@case
def list_files(tf: Any, E: Any, path: str) -> Any:
    for one in "abc":
        with open(os.path.join(path, one), "w") as file:
            file.write(one)
    names = tf.data.Dataset.list_files(os.path.join(path, "*"), shuffle=False)
    os.remove(os.path.join(path, "b"))
    return names.map(tf.io.read_file)


@case
def map_(tf: Any, E: Any, path: str) -> Any:
    return E().map(lambda x: x + 1)


@case
def map_parallel(tf: Any, E: Any, path: str) -> Any:
    return E().map(lambda x: x + 1, num_parallel_calls=2)


@case
def map_of_strings(tf: Any, E: Any, path: str) -> Any:
    return E().map(tf.strings.as_string, num_parallel_calls=2)


@case
def padded_batch(tf: Any, E: Any, path: str) -> Any:
    return E().map(lambda x: tf.range(x) * 0 + x).padded_batch(3)


@case
def padded_batch_too_large(tf: Any, E: Any, path: str) -> Any:
    rows = tf.data.Dataset.range(8).map(lambda x: tf.range(x % 4) * 0 + x)
    return rows.padded_batch(3, padded_shapes=[2])


@case
def batch_of_map(tf: Any, E: Any, path: str) -> Any:
    return E().filter(lambda x: True).batch(3, drop_remainder=True)


@case
def prefetch(tf: Any, E: Any, path: str) -> Any:
    return E().prefetch(2)


@case
def ragged_batch(tf: Any, E: Any, path: str) -> Any:
    return E().map(lambda x: tf.range(x) * 0 + x).ragged_batch(3)


@case
def rebatch(tf: Any, E: Any, path: str) -> Any:
    return E().batch(2).rebatch(3)


@case
def rejection_resample(tf: Any, E: Any, path: str) -> Any:
    return E().rejection_resample(
        lambda x: tf.cast(x % 2, tf.int32), [0.5, 0.5], [0.5, 0.5], seed=1
    )


@case
def repeat(tf: Any, E: Any, path: str) -> Any:
    return E().repeat(2)


@case
def scan(tf: Any, E: Any, path: str) -> Any:
    return E().scan(np.int64(0), lambda total, x: (total + x, total + x))


@case
def scan_of_strings(tf: Any, E: Any, path: str) -> Any:
    words = E().map(tf.strings.as_string)
    return words.scan(tf.constant(""), lambda all, x: (all + x, all + x))


@case
def shard(tf: Any, E: Any, path: str) -> Any:
    return E().shard(2, 1)


@case
def shard_other(tf: Any, E: Any, path: str) -> Any:
    return E().shard(2, 0)


@case
def skip(tf: Any, E: Any, path: str) -> Any:
    return E().skip(2)


@case
def skip_beyond(tf: Any, E: Any, path: str) -> Any:
    return E().skip(5)


@case
def snapshot(tf: Any, E: Any, path: str) -> Any:
    return E().snapshot(os.path.join(path, "kept"))


@case
def sparse_batch(tf: Any, E: Any, path: str) -> Any:
    rows = E().map(lambda x: tf.range(x % 3) * 0 + x)
    return rows.sparse_batch(3, [3])


@case
def take(tf: Any, E: Any, path: str) -> Any:
    return E().take(6)


@case
def take_while(tf: Any, E: Any, path: str) -> Any:
    return E().take_while(lambda x: x < 6)


@case
def unbatch(tf: Any, E: Any, path: str) -> Any:
    return E().map(lambda x: tf.stack([x, x])).unbatch()


@case
def unbatch_of_strings(tf: Any, E: Any, path: str) -> Any:
    rows = E().map(lambda x: tf.stack([tf.strings.as_string(x)] * 2))
    return rows.unbatch()


@case
def unique(tf: Any, E: Any, path: str) -> Any:
    return E().map(lambda x: x // 2).unique()


@case
def window(tf: Any, E: Any, path: str) -> Any:
    return E().window(2)


@case
def window_overlapping(tf: Any, E: Any, path: str) -> Any:
    return E().window(3, 1, drop_remainder=True)


@case
def window_apart(tf: Any, E: Any, path: str) -> Any:
    return E().window(2, 4)


@case
def window_flat_map(tf: Any, E: Any, path: str) -> Any:
    return E().window(1).flat_map(lambda rows: rows)


@case
def with_options(tf: Any, E: Any, path: str) -> Any:
    return E().with_options(tf.data.Options())


@case
def zip_(tf: Any, E: Any, path: str) -> Any:
    return tf.data.Dataset.zip((E(), tf.data.Dataset.range(8)))


@case
def zip_second(tf: Any, E: Any, path: str) -> Any:
    return tf.data.Dataset.zip(
        (tf.data.Dataset.range(8), E(), tf.data.Dataset.range(8))
    )


@case
def zip_both(tf: Any, E: Any, path: str) -> Any:
    return tf.data.Dataset.zip((E(8, 3), E(8, 5)))


@case
def zip_at_the_end(tf: Any, E: Any, path: str) -> Any:
    return tf.data.Dataset.zip((E(8, 7), tf.data.Dataset.range(7)))


@case
def zip_batched(tf: Any, E: Any, path: str) -> Any:
    return tf.data.Dataset.zip((E(), tf.data.Dataset.range(8))).batch(2)


# --- an error in the function ---------------------------------------------------------


@case
def filter_function(tf: Any, E: Any, path: str) -> Any:
    return tf.data.Dataset.range(8).filter(lambda x: fails_at(3)(x) % 2 == 0)


@case
def flat_map_function(tf: Any, E: Any, path: str) -> Any:
    def made(x: Any) -> Any:
        return tf.data.Dataset.from_tensors(fails_at(3)(x)).repeat(2)

    return tf.data.Dataset.range(6).flat_map(made)


@case
def interleave_function(tf: Any, E: Any, path: str) -> Any:
    def made(x: Any) -> Any:
        return tf.data.Dataset.from_tensors(fails_at(3)(x)).repeat(2)

    return tf.data.Dataset.range(6).interleave(made, cycle_length=2)


@case
def group_by_window_key(tf: Any, E: Any, path: str) -> Any:
    return tf.data.Dataset.range(8).group_by_window(
        lambda x: fails_at(3)(x) % 2, lambda key, rows: rows.batch(2), 2
    )


@case
def group_by_window_reduce(tf: Any, E: Any, path: str) -> Any:
    def reduced(key: Any, rows: Any) -> Any:
        return rows.batch(fails_at(1)(key) + 2)

    return tf.data.Dataset.range(8).group_by_window(lambda x: x % 2, reduced, 2)


@case
def group_by_window_size(tf: Any, E: Any, path: str) -> Any:
    return tf.data.Dataset.range(8).group_by_window(
        lambda x: x % 2,
        lambda key, rows: rows.batch(2),
        window_size_func=lambda key: fails_at(1)(key) + 2,
    )


@case
def bucket_by_sequence_length_function(tf: Any, E: Any, path: str) -> Any:
    rows = tf.data.Dataset.range(8).map(lambda x: tf.range(x) * 0 + x)
    return rows.bucket_by_sequence_length(
        lambda x: fails_at(3)(tf.shape(x)[0]), [4], [2, 2]
    )


@case
def rejection_resample_class(tf: Any, E: Any, path: str) -> Any:
    return tf.data.Dataset.range(8).rejection_resample(
        lambda x: tf.cast(fails_at(3)(x) % 2, tf.int32), [0.5, 0.5], [0.5, 0.5], seed=1
    )


@case
def scan_function(tf: Any, E: Any, path: str) -> Any:
    return tf.data.Dataset.range(8).scan(
        np.int64(0), lambda total, x: (total + fails_at(3)(x), total + x)
    )


@case
def take_while_function(tf: Any, E: Any, path: str) -> Any:
    return tf.data.Dataset.range(8).take_while(lambda x: fails_at(3)(x) < 6)


# --- the first element fails ----------------------------------------------------------


@case
def first_batch_of_strings(tf: Any, E: Any, path: str) -> Any:
    return E(4, 0).map(tf.strings.as_string).batch(2)


@case
def first_filter(tf: Any, E: Any, path: str) -> Any:
    words = E(4, 0).map(tf.strings.as_string)
    return words.filter(lambda x: tf.strings.length(x) == 1)


@case
def first_flat_map(tf: Any, E: Any, path: str) -> Any:
    return E(4, 0).flat_map(lambda x: tf.data.Dataset.from_tensors(x).repeat(2))


@case
def first_flat_map_function(tf: Any, E: Any, path: str) -> Any:
    def made(x: Any) -> Any:
        return tf.data.Dataset.from_tensors(fails_at(0)(x)).repeat(2)

    return tf.data.Dataset.range(4).flat_map(made)


@case
def first_group_by_window(tf: Any, E: Any, path: str) -> Any:
    return E(4, 0).group_by_window(lambda x: x % 2, lambda key, rows: rows.batch(2), 2)


@case
def first_map_of_strings(tf: Any, E: Any, path: str) -> Any:
    words = tf.data.Dataset.from_tensor_slices(["one", "2", "three", "4"])
    return words.map(tf.strings.to_number)


@case
def first_padded_batch(tf: Any, E: Any, path: str) -> Any:
    return E(5, 0).map(lambda x: tf.range(x) * 0 + x).padded_batch(2)


@case
def first_scan(tf: Any, E: Any, path: str) -> Any:
    return E(4, 0).scan(np.int64(0), lambda total, x: (total + x, total + x))


@case
def first_zip(tf: Any, E: Any, path: str) -> Any:
    return tf.data.Dataset.zip((E(4, 0), tf.data.Dataset.range(4)))


# --- readers --------------------------------------------------------------------------


def _files(path: str, *contents: bytes | None) -> list[str]:
    names = []
    for number, content in enumerate(contents):
        names.append(os.path.join(path, f"{number}.part"))
        if content is not None:
            with open(names[-1], "wb") as file:
                file.write(content)
    return names


def _records(tf: Any, path: str, *damage: int) -> list[str]:
    names = []
    for number in range(3):
        names.append(os.path.join(path, f"{number}.records"))
        with tf.io.TFRecordWriter(names[-1]) as writer:
            for at in range(3):
                writer.write(f"{number}{at}")
    with open(names[1], "r+b") as file:
        for one in damage:
            file.seek(one)
            file.write(b"?")
    return names


@case
def TFRecordDataset(tf: Any, E: Any, path: str) -> Any:
    return tf.data.TFRecordDataset(_records(tf, path, 18 + 12))


@case
def TFRecordDataset_by_turns(tf: Any, E: Any, path: str) -> Any:
    names = _records(tf, path, 18 + 12)
    return tf.data.TFRecordDataset(names, num_parallel_reads=2)


@case
def TFRecordDataset_missing(tf: Any, E: Any, path: str) -> Any:
    names = _records(tf, path)
    os.remove(names[1])
    return tf.data.TFRecordDataset(names)


@case
def TFRecordDataset_names_fail(tf: Any, E: Any, path: str) -> Any:
    names = _records(tf, path)
    files = tf.data.Dataset.zip((E(3, 1), tf.data.Dataset.from_tensor_slices(names)))
    return tf.data.TFRecordDataset(files.map(lambda number, name: name))


@case
def TextLineDataset(tf: Any, E: Any, path: str) -> Any:
    return tf.data.TextLineDataset(_files(path, b"a\nb", None, b"c"))


@case
def FixedLengthRecordDataset(tf: Any, E: Any, path: str) -> Any:
    names = _files(path, b"aabb", b"ccd", b"eeff")
    return tf.data.FixedLengthRecordDataset(names, 2)


@case
def FixedLengthRecordDataset_missing(tf: Any, E: Any, path: str) -> Any:
    names = _files(path, b"aabb", None, b"eeff")
    return tf.data.FixedLengthRecordDataset(names, 2)


@case
def CsvDataset(tf: Any, E: Any, path: str) -> Any:
    names = _files(path, b"1,2\n3,x\n5,6\n7\n8,9\n", b"10,11\n")
    return tf.data.experimental.CsvDataset(names, [tf.int32, tf.int32])


@case
def CsvDataset_missing(tf: Any, E: Any, path: str) -> Any:
    names = _files(path, b"1,2\n", None, b"5,6\n")
    return tf.data.experimental.CsvDataset(names, [tf.int32, tf.int32])


@case
def make_csv_dataset(tf: Any, E: Any, path: str) -> Any:
    names = _files(path, b"a,b\n1,2\n3,x\n5,6\n")
    return tf.data.experimental.make_csv_dataset(
        names, 1, column_defaults=[tf.int32, tf.int32], shuffle=False, num_epochs=1
    )


@case
def load(tf: Any, E: Any, path: str) -> Any:
    kept = os.path.join(path, "kept")
    tf.data.Dataset.range(4).save(kept)
    return tf.data.Dataset.zip((E(4, 1), tf.data.Dataset.load(kept)))


# --- results without an order ---------------------------------------------------------

UNORDERED: dict[str, Case] = {}


def unordered(function: Case) -> Case:
    UNORDERED[function.__name__] = function
    return function


@unordered
def shuffle(tf: Any, E: Any, path: str) -> Any:
    return E().shuffle(3, seed=1)


@unordered
def shuffle_of_batches(tf: Any, E: Any, path: str) -> Any:
    return E().map(lambda x: tf.fill([2], x)).shuffle(20, seed=1)


@unordered
def shuffle_repeated(tf: Any, E: Any, path: str) -> Any:
    return E().shuffle(3, seed=1).repeat(2)


@unordered
def snapshot_twice(tf: Any, E: Any, path: str) -> Any:
    return E().snapshot(os.path.join(path, "kept")).repeat(2)


@unordered
def sample_from_datasets(tf: Any, E: Any, path: str) -> Any:
    return tf.data.Dataset.sample_from_datasets([E(), E()], seed=1)


@unordered
def group_by_reducer(tf: Any, E: Any, path: str) -> Any:
    count = tf.data.experimental.Reducer(
        lambda key: np.int64(0), lambda s, x: s + 1, lambda s: s
    )
    return E().apply(tf.data.experimental.group_by_reducer(lambda x: x % 2, count))


# --- what they give -------------------------------------------------------------------

# What TensorFlow 2.21 gives, by `python data_error_cases.py`.
TENSORFLOW: dict[str, Any] = {
    "apply": [1, 2, 3, "!", 5, 6, 7, 8],
    "batch": [[0, 1], "!", [4, 5], [6, 7]],
    "batch_whole": [[0, 1, 2], "!"],
    "batch_of_strings": [["0", "1"], "!", ["4", "5"], ["6", "7"]],
    "batch_shapes_differ": [[[0], [0]], "!", [[0, 1], [0, 1]]],
    "bucket_by_sequence_length": [
        [[0], [1]],
        "!",
        [[4, 4, 4, 4, 0], [5, 5, 5, 5, 5]],
        [[6, 6, 6, 6, 6, 6, 0], [7, 7, 7, 7, 7, 7, 7]],
        [[2, 2]],
    ],
    "cache": [0, 1, 2, "!", 4, 5, 6, 7],
    "cache_twice": [0, 1, 2, "!", 4, 5, 6, 7, 0, 1, 2, 4, 5, 6, 7],
    "cache_file": [0, 1, 2, "!", 4, 5, 6, 7],
    "cache_file_twice": [0, 1, 2, "!", 4, 5, 6, 7, 0, 1, 2, 4, 5, 6, 7],
    "choose_from_datasets": [0, 0, 1, 1, 2, 2, "!", "!", 4, 4, 5, 5, 6, 6, 7, 7],
    "choose_from_datasets_choice_fails": [0, 10, 1, "!", 2, 11, 3, 12],
    "choose_from_datasets_out_of_range": [0, "!", 10, 1],
    "concatenate": [0, 1, 2, "!", 4, 5, 6, 7, 0, 1, 2, "!", 4, 5, 6, 7],
    "enumerate": [(0, 0), (1, 1), (2, 2), "!", (4, 4), (5, 5), (6, 6), (7, 7)],
    "filter": [0, 2, "!", 4, 6],
    "flat_map": [0, 0, 1, 1, 2, 2, "!", 4, 4, 5, 5, 6, 6, 7, 7],
    "flat_map_inner": [0, 1, 2, "!", 4, 0, 1, 2, "!", 4],
    "from_generator": [0, 1, 2, "!", 4, 5, 6, 7],
    "from_generator_of_other_shapes": [[0], [1], [2], "!", [4], [5]],
    "from_generator_ends": [2, 3, 6, "!"],
    "group_by_window": [[0, 2], "!", [1, 5], [4, 6], [7]],
    "group_by_window_inner": [0, 2, 4, 1, "!", 5, 6, 7],
    "ignore_errors": [0, 1, 2, 4, 5, 6, 7],
    "interleave": [0, 1, 0, 1, 2, "!", 4, 2, 4, 5, 6, 5, 6, 7, 7],
    "interleave_inner": [0, 1, 0, 1, 2, "!", 4, 2, "!", 4, 0, 1, 2, "!", 4],
    "list_files": ["a", "!", "c"],
    "map": [1, 2, 3, "!", 5, 6, 7, 8],
    "map_parallel": [1, 2, 3, "!", 5, 6, 7, 8],
    "map_of_strings": ["0", "1", "2", "!", "4", "5", "6", "7"],
    "padded_batch": [
        [[0, 0], [1, 0], [2, 2]],
        "!",
        [[4, 4, 4, 4, 0, 0], [5, 5, 5, 5, 5, 0], [6, 6, 6, 6, 6, 6]],
        [[7, 7, 7, 7, 7, 7, 7]],
    ],
    "padded_batch_too_large": [[[0, 0], [1, 0], [2, 2]], "!", "!"],
    "batch_of_map": [[0, 1, 2], "!", [4, 5, 6]],
    "prefetch": [0, 1, 2, "!", 4, 5, 6, 7],
    "ragged_batch": [
        [[], [1], [2, 2]],
        "!",
        [[6, 6, 6, 6, 6, 6], [7, 7, 7, 7, 7, 7, 7]],
    ],
    "rebatch": ["!", [4, 5, 6], [7]],
    "rejection_resample": [(0, 0), (1, 1), (0, 2), "!", (0, 4), (1, 5), (0, 6), (1, 7)],
    "repeat": [0, 1, 2, "!", 4, 5, 6, 7, 0, 1, 2, "!", 4, 5, 6, 7],
    "scan": [0, 1, 3, "!", 7, 12, 18, 25],
    "scan_of_strings": ["0", "01", "012", "!", "0124", "01245", "012456", "0124567"],
    "shard": [1, "!", 4, 6],
    "shard_other": [0, 2, "!", 5, 7],
    "skip": [2, "!", 4, 5, 6, 7],
    "skip_beyond": ["!"],
    "snapshot": [0, 1, 2, "!", 4, 5, 6, 7],
    "snapshot_twice": ["!", 0, 0, 1, 1, 2, 2, 4, 4, 5, 5, 6, 6, 7, 7],
    "sparse_batch": [[1, 2, 2], "!", [4, 5, 5], [7]],
    "take": [0, 1, 2, "!", 4, 5, 6],
    "take_while": [0, 1, 2, "!", 4, 5],
    "unbatch": [0, 0, 1, 1, 2, 2, "!", 4, 4, 5, 5, 6, 6, 7, 7],
    "unbatch_of_strings": [
        "0",
        "0",
        "1",
        "1",
        "2",
        "2",
        "!",
        "4",
        "4",
        "5",
        "5",
        "6",
        "6",
        "7",
        "7",
    ],
    "unique": [0, 1, "!", 2, 3],
    "window": [[0, 1], "!", [4, 5], [6, 7]],
    "window_overlapping": [[0, 1, 2], "!", "!", "!", [4, 5, 6], [5, 6, 7]],
    "window_apart": [[0, 1], [4, 5]],
    "window_flat_map": [0, 1, 2, "!", 4, 5, 6, 7],
    "with_options": [0, 1, 2, "!", 4, 5, 6, 7],
    "zip": [(0, 0), (1, 1), (2, 2), "!", (4, 4), (5, 5), (6, 6), (7, 7)],
    "zip_second": [
        (0, 0, 0),
        (1, 1, 1),
        (2, 2, 2),
        "!",
        (4, 4, 4),
        (5, 5, 5),
        (6, 6, 6),
        (7, 7, 7),
    ],
    "zip_both": [(0, 0), (1, 1), (2, 2), "!", (4, 4), "!", (6, 6), (7, 7)],
    "zip_at_the_end": [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), "!"],
    "zip_batched": [([0, 1], [0, 1]), "!", ([4, 5], [4, 5]), ([6, 7], [6, 7])],
    "filter_function": [0, 2, "!", 4, 6],
    "flat_map_function": [0, 0, 1, 1, 2, 2, "!", 4, 4, 5, 5],
    "interleave_function": [0, 1, 0, 1, 2, "!", 4, 2, 4, 5, 5],
    "group_by_window_key": [[0, 2], "!", [1, 5], [4, 6], [7]],
    "group_by_window_reduce": [[0, 2], "!", [4, 6], "!", "!", "!", "!", "..."],
    "group_by_window_size": ["!", [0, 2], "!", "!", [4, 6], "!"],
    "bucket_by_sequence_length_function": [
        [[0], [1]],
        "!",
        [[4, 4, 4, 4, 0], [5, 5, 5, 5, 5]],
        [[6, 6, 6, 6, 6, 6, 0], [7, 7, 7, 7, 7, 7, 7]],
        [[2, 2]],
    ],
    "rejection_resample_class": [
        (0, 0),
        (1, 1),
        (0, 2),
        "!",
        (0, 4),
        (1, 5),
        (0, 6),
        (1, 7),
    ],
    "scan_function": [0, 1, 3, "!", 7, 12, 18, 25],
    "take_while_function": [0, 1, 2, "!", 4, 5],
    "first_batch_of_strings": ["!", ["2", "3"]],
    "first_filter": ["!", "1", "2", "3"],
    "first_flat_map": ["!", 1, 1, 2, 2, 3, 3],
    "first_flat_map_function": ["!", 1, 1, 2, 2, 3, 3],
    "first_group_by_window": ["!", [1, 3], [2]],
    "first_map_of_strings": ["!", 2.0, "!", 4.0],
    "first_padded_batch": ["!", [[1, 0], [2, 2]], [[3, 3, 3, 0], [4, 4, 4, 4]]],
    "first_scan": ["!", 1, 3, 6],
    "first_zip": ["!", (1, 1), (2, 2), (3, 3)],
    "TFRecordDataset": ["00", "01", "02", "10", "!", "20", "21", "22"],
    "TFRecordDataset_by_turns": ["00", "10", "01", "!", "02", "20", "21", "22"],
    "TFRecordDataset_missing": ["00", "01", "02", "!", "!", "!", "!", "..."],
    "TFRecordDataset_names_fail": ["00", "01", "02", "!", "20", "21", "22"],
    "TextLineDataset": ["a", "b", "!", "!", "!", "!", "..."],
    "FixedLengthRecordDataset": ["aa", "bb", "!", "!", "!", "!", "..."],
    "FixedLengthRecordDataset_missing": ["aa", "bb", "!", "!", "!", "!", "..."],
    "CsvDataset": [(1, 2), "!", (5, 6), "!", (8, 9), (10, 11)],
    "CsvDataset_missing": [(1, 2), "!", "!", "!", "!", "..."],
    "make_csv_dataset": [{"a": [1], "b": [2]}, "!", {"a": [5], "b": [6]}],
    "load": [(0, 0), "!", (2, 2), (3, 3)],
    "shuffle": ["!", 0, 1, 2, 4, 5, 6, 7],
    "shuffle_of_batches": ["!", [0, 0], [1, 1], [2, 2], [4, 4], [5, 5], [6, 6], [7, 7]],
    "shuffle_repeated": ["!", "!", 0, 0, 1, 1, 2, 2, 4, 4, 5, 5, 6, 6, 7, 7],
    "sample_from_datasets": ["!", "!", 0, 0, 1, 1, 2, 2, 4, 4, 5, 5, 6, 6, 7, 7],
    "group_by_reducer": ["!", 3, 4],
}

# Where it does not go on after the element that fails, or not with the next one; why.
OWN: dict[str, tuple[Any, str]] = {
    "batch_whole": (
        [[0, 1, 2], "!", [4, 5, 6]],
        "map and batch are fused there: an error takes its whole batch along",
    ),
    "ragged_batch": (
        [
            [[], [1], [2, 2]],
            "!",
            [[4, 4, 4, 4], [5, 5, 5, 5, 5], [6, 6, 6, 6, 6, 6]],
            [[7, 7, 7, 7, 7, 7, 7]],
        ],
        "as batch_whole",
    ),
    "first_batch_of_strings": (["!", ["1", "2"], ["3"]], "as batch_whole"),
    "shard": (
        [1, "!", 5, 7],
        "TensorFlow goes on with the elements of the other shard",
    ),
    "shard_other": ([0, 2, "!", 4, 6], "as shard"),
    "skip_beyond": (["!", 6, 7], "TensorFlow ends"),
    "group_by_window_reduce": (
        [[0, 2], "!", [4, 6], "!"],
        "TensorFlow tries the last group for ever",
    ),
    "TFRecordDataset_missing": (
        ["00", "01", "02", "!", "20", "21", "22"],
        "TensorFlow tries a file that is missing for ever",
    ),
    "TextLineDataset": (["a", "b", "!", "c"], "as TFRecordDataset_missing"),
    "FixedLengthRecordDataset": (
        ["aa", "bb", "cc", "!", "ee", "ff"],
        "TensorFlow tries a file of a wrong size for ever",
    ),
    "FixedLengthRecordDataset_missing": (
        ["aa", "bb", "!", "ee", "ff"],
        "as TFRecordDataset_missing",
    ),
    "CsvDataset_missing": ([(1, 2), "!", (5, 6)], "as TFRecordDataset_missing"),
}


def result(tf: Any, name: str, path: str, source: Any = None) -> Any:
    """The trace of a case; sorted where there is no order.

    Args:
        tf: The package.
        name: The case.
        path: An empty folder.
        source: Makes a data set of so many int64 from 0 on, of which some fail; None:
            with a function.
    """

    def E(count: int = 8, *bad: int) -> Any:
        if source is not None:
            return source(count, bad or (3,))
        return tf.data.Dataset.range(count).map(fails_at(*(bad or (3,))))

    found = traced((CASES | UNORDERED)[name](tf, E, path))
    return sorted(found, key=str) if name in UNORDERED else found


def main() -> None:
    import pprint
    import tempfile

    import tensorflow as tf

    made = {}
    for name in CASES | UNORDERED:
        with tempfile.TemporaryDirectory() as path:
            made[name] = result(tf, name, path)
    pprint.pprint(made, width=86, compact=True, sort_dicts=False)


if __name__ == "__main__":
    main()
