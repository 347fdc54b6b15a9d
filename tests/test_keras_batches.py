# SPDX-License-Identifier: MIT
"""Batches for the device: how arrays and data sets become them, and their passes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ipu import tf
from ipu.keras._random_state import Order
from ipu.keras.engine.training.batches import (
    Batches,
    Passes,
    cast_elements,
    common_length,
    from_arrays,
    from_dataset,
)
from ipu.keras.engine.training.step_plan import INFINITE, UNKNOWN


def read(dataset: Any) -> list[list[Any]]:
    return [np.asarray(batch).tolist() for batch in dataset]


def rows(count: int = 10) -> Any:
    return tf.data.Dataset.from_tensor_slices(np.arange(count, dtype=np.float32))


def told(made: Batches) -> tuple[int, int, int, bool]:
    return made.cardinality, made.of_pass, made.tail, made.is_open


def test_arrays_that_are_shuffled_by_batches() -> None:
    x = np.arange(10, dtype=np.float32)
    made = from_arrays((x,), 4, "batch", None, None, Order())
    found = read(made.dataset)
    whole = [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert sorted(found[:2]) == whole and found[2] == [8, 9, 0, 1]
    assert told(made) == (3, 3, 2, False) and made.is_endless
    assert made.dataset.element_spec.shape == [4]
    with pytest.raises(ValueError, match="a first axis of samples"):
        common_length((x, np.float32(1)))


@pytest.mark.parametrize(
    ("call", "way"), [(None, ""), ("predict", ""), ("fit", ", drop_remainder=True")]
)
def test_scalars_are_no_batches(call: str | None, way: str) -> None:
    words = f"Use Dataset.batch(batch_size{way})."
    with pytest.raises(ValueError, match=re.escape(words)):
        from_dataset(rows(), None, call)


def test_which_data_sets_the_host_reads() -> None:
    """Those of unknown shapes, or whose number of batches is not known."""

    def generated() -> Iterator[Any]:
        yield [[1.0]], [1.0]

    for specs in (
        {"output_types": (tf.float32, tf.float32)},
        {"output_signature": (tf.TensorSpec([None, 1]), tf.TensorSpec([1]))},
    ):
        made = from_dataset(tf.data.Dataset.from_generator(generated, **specs), 3, None)
        assert told(made) == (UNKNOWN, 0, 0, True)
    known = rows().batch(5, drop_remainder=True)
    for data, steps, call, is_open in (
        (known, None, None, False),
        (known.filter(lambda x: True), None, None, True),
        (known.filter(lambda x: True), 2, None, False),
        (known.filter(lambda x: True), None, "fit", False),
    ):
        assert from_dataset(data, steps, call).is_open is is_open
    lines = tf.data.Dataset.from_generator(
        lambda: iter([[1.0]]), output_signature=tf.TensorSpec([None])
    )
    # batches of rows of which nothing is known, or that are no numbers of rows
    for data in (
        rows().filter(lambda x: True).batch(4),
        rows(3).take(0).batch(4),
        lines.apply(tf.data.experimental.assert_cardinality(3)).batch(4),
    ):
        assert from_dataset(data, None, None).is_open


def test_last_batches_are_filled_up() -> None:
    made = from_dataset(rows().batch(4), None, None)
    assert told(made) == (3, 3, 2, False)
    assert read(made.dataset)[1:] == [[4, 5, 6, 7], [8, 9, 0, 0]]
    made = from_dataset(rows().batch(4).repeat(2), None, None)
    assert told(made) == (6, 3, 2, False) and len(read(made.dataset)) == 6
    made = from_dataset(rows().batch(16), None, None)
    assert told(made) == (1, 1, 0, False) and read(made.dataset) == [[*range(10)]]
    made = from_dataset(rows().repeat().batch(4), 5, None)
    assert told(made) == (INFINITE, 0, 0, False)
    assert read(made.dataset.take(3))[2] == [8, 9, 0, 1]


def test_dtypes_of_devices() -> None:
    wide = tf.data.Dataset.from_tensor_slices(np.arange(3.0))
    assert cast_elements(wide).element_spec.dtype == tf.float32
    assert read(cast_elements(wide)) == [0, 1, 2]
    pairs = tf.data.Dataset.from_tensor_slices((np.arange(3), np.float32([4, 5, 6])))
    assert [one.dtype for one in cast_elements(pairs).element_spec] == [
        *(tf.int32, tf.float32)
    ]
    with pytest.raises(TypeError, match=r"no device has. Received: string"):
        cast_elements(tf.data.Dataset.from_tensor_slices(["a"]))


def test_passes_are_counted() -> None:
    five = Batches(None, 5, is_endless=True)
    for of_epoch in (None, 5):
        passes = Passes(order := Order(), five, of_epoch, 2)
        assert passes.behind == 0
        passes.took(5)
        passes.end_epoch()
        passes.end()
        assert order.passes == 1
    order.passes = 7
    passes = Passes(order, five, 3, 2)  # a stream, of which two epochs were used
    assert (passes.first, passes.behind) == (7, 6)
    passes.took(3)
    passes.end_epoch()
    passes.end()
    assert order.passes == 9
    passes = Passes(order, five, 3, 0)
    passes.end()
    assert order.passes == 9  # nothing was taken
    for _ in range(2):
        passes.took(3)
    passes.end()
    assert order.passes == 11
    passes = Passes(order, Batches(None, INFINITE), 3, 0)
    passes.took(30)
    passes.end()
    assert order.passes == 12
