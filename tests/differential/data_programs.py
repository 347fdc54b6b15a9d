# SPDX-License-Identifier: MIT
"""Data sets: elements, cardinality, element_spec."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import data_error_cases

Case = Callable[[Any], Any]

# Each is a data set; compared are its elements, its cardinality and its element_spec.
DATASETS = """
D.range(5)
D.range(2, 10, 3)
D.range(5, 0, -2)
D.range(10).batch(3)
D.range(10).batch(3, drop_remainder=True)
D.range(10).take(3)
D.range(10).take(-1)
D.range(10).skip(7)
D.range(3).skip(-1)
D.range(3).repeat(2)
D.range(3).repeat(0)
D.range(3).repeat().take(7)
D.range(10).shard(3, 1)
D.range(4).map(lambda x: x * x)
D.range(4).map(lambda x: (x, x + 1))
D.range(4).map(lambda x: {"a": x, "b": tf.cast(x, tf.float32)})
D.range(6).filter(lambda x: x % 2 == 0)
D.range(3).concatenate(D.range(2))
D.zip((D.range(3), D.range(5)))
D.zip({"a": D.range(2), "b": D.range(2)})
D.from_tensors([1, 2])
D.from_tensors({"a": 1.5, "b": [1, 2]})
D.from_tensor_slices([1, 2, 3])
D.from_tensor_slices(np.arange(6.0).reshape(3, 2))
D.from_tensor_slices(([1, 2], [3.0, 4.0]))
D.from_tensor_slices({"x": [1, 2], "y": [[1.0], [2.0]]})
D.from_tensor_slices(np.arange(4, dtype=np.uint8))
D.from_tensor_slices(np.array([True, False]))
D.from_tensor_slices(np.arange(3, dtype=np.int64))
D.from_tensor_slices(np.ones((2, 2), np.float16))
D.range(6).batch(2).unbatch()
D.range(4).batch(2).map(lambda x: x + 1)
D.range(4).batch(2).batch(2)
D.range(5).enumerate()
D.range(5).enumerate(start=3)
D.range(4).cache()
D.range(4).prefetch(2)
D.range(8).shuffle(1)
D.range(6).window(3).flat_map(lambda w: w.batch(3))
D.range(7).window(3, 1, 2).flat_map(lambda w: w.batch(3))
D.range(7).window(2, 3, 4, True).flat_map(lambda w: w.batch(3))
D.range(7).window(4, drop_remainder=True).map(lambda w: w.reduce(np.int64(0), lambda a, b: a + b))
D.zip((D.range(5), D.range(5))).window(2).flat_map(lambda x, y: D.zip((x.batch(2), y.batch(2))))
D.range(7).group_by_window(lambda x: x % 3, lambda k, w: w.batch(2), 2)
D.range(7).group_by_window(lambda x: x % 2, lambda k, w: w.batch(9), window_size_func=lambda k: k + 1)
D.range(7).group_by_window(lambda x: x, lambda k, w: w.batch(9))
D.range(6).batch(4).bucket_by_sequence_length(lambda x: tf.shape(x)[0], [3], [2, 2])
D.range(6).batch(4).bucket_by_sequence_length(lambda x: tf.shape(x)[0], [3, 6], [1, 1, 1], pad_to_bucket_boundary=True)
D.range(6).batch(4).padded_batch(2, [5], np.int64(-1))
D.range(6).batch(4).padded_batch(2, drop_remainder=True)
D.from_tensor_slices(["ab", "c"])
D.from_tensor_slices(["ab", "c", "d"]).batch(2)
D.from_tensor_slices((["a/b", "c/d"], [1, 2])).map(lambda s, i: (tf.strings.split(s, "/")[1], i + 1))
D.from_tensor_slices([["a", "b"], ["c", "d"]]).map(lambda s: s == "b")
D.from_tensor_slices(["1", "-2"]).map(lambda s: tf.strings.to_number(s))
D.from_tensor_slices(["1", "-2"]).map(lambda s: tf.strings.length(s)).batch(2)
D.from_tensor_slices(["a b c", "d"]).map(lambda s: tf.strings.split(s)).padded_batch(2, padding_values="-")
tf.strings.substr(["hello", "world!"], -3, 2)
tf.strings.join([["a", "b"], "x"], "-")
tf.strings.regex_replace("a  b", " +", "_")
tf.strings.as_string([1, 20])
tf.strings.as_string([1.5, 20.0])
tf.strings.upper("abC")
D.range(3).flat_map(lambda x: D.range(2))
D.range(3).interleave(lambda x: D.from_tensors(x).repeat(2), cycle_length=2)
D.range(10).take_while(lambda x: x < 4)
D.range(5).scan(tf.constant(0, tf.int64), lambda s, x: (s + x, s + x))
D.range(6).padded_batch(4)
D.range(4).apply(lambda d: d.batch(2))
D.range(5).map(lambda x: x * 2, num_parallel_calls=2)
D.from_generator(lambda: iter([1, 2, 3]), output_signature=tf.TensorSpec([], tf.int32))
D.from_generator(lambda: iter([(1, 2.0)]), output_types=(tf.int32, tf.float32)).take(0).cardinality()
D.range(3).map(lambda x: tf.one_hot(x, 3))
D.range(4).batch(2).map(lambda x: tf.reduce_sum(x))
D.from_tensor_slices(([[1.0, 2.0], [3.0, 4.0]], [0, 1])).batch(2)
D.range(10).batch(4).repeat(2)
D.range(5).unique()
D.range(4).map(lambda x: tf.cond(x > 1, lambda: x, lambda: -x))
D.range(7).reduce(tf.constant(0, tf.int64), lambda s, x: s + x)
D.range(7).cardinality()
D.range(7).filter(lambda x: True).cardinality()
D.range(3).repeat().cardinality()
list(D.range(3).as_numpy_iterator())
len(D.range(7))
D.range(3).element_spec.shape
D.range(3).batch(2).element_spec.shape
D.range(4).batch(2, drop_remainder=True).element_spec.shape
D.from_tensor_slices({"a": [1.0]}).element_spec["a"].dtype
next(iter(D.range(3)))
[next(k) for k in [iter(D.range(3))] for _ in range(4)]
D.range(3).get_single_element()
D.range(1).get_single_element()
D.range(4).random(seed=1).take(0)
D.range(4).rejection_resample
"""


def data() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for line in DATASETS.strip().splitlines():

        def elements(tf: Any, line: str = line) -> Any:
            made = eval(line, {"tf": tf, "D": tf.data.Dataset, "np": np})
            if not isinstance(made, tf.data.Dataset):
                return made
            count = made.cardinality()
            specs = tf.nest.flatten(made.element_spec)
            types = [(s.dtype.name, list(s.shape.as_list())) for s in specs]
            return list(made), count, types

        found[f"data: {line}"] = elements
    return found


def kept() -> dict[str, Case]:
    """Files of elements, when what made them has changed."""

    def changed(keep: Callable[[Any, str], Any]) -> Case:
        def both(tf: Any) -> Any:
            with tempfile.TemporaryDirectory() as folder:
                path = str(Path(folder) / "kept")
                numbers = (tf.data.Dataset.range(5), tf.data.Dataset.range(1, 6))
                return [list(keep(one, path)) for one in numbers]

        return both

    return {
        "data: cache(file)": changed(lambda data, path: data.cache(path)),
        "data: snapshot": changed(lambda data, path: data.snapshot(path)),
    }


def after_errors() -> dict[str, Case]:
    """Data sets with elements that fail: what their iterators give."""
    found: dict[str, Case] = {}
    for name in (*data_error_cases.CASES, *data_error_cases.UNORDERED):

        def trace(tf: Any, name: str = name) -> Any:
            with tempfile.TemporaryDirectory() as path:
                return data_error_cases.result(tf, name, path)

        found[f"data errors: {name}"] = trace
    return found
