# SPDX-License-Identifier: MIT
"""Batches for the device: how arrays and data sets become them, and their passes."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ipu import drop_in, tf
from ipu.keras._random_state import Order
from ipu.keras.engine.training import data_adapter
from ipu.keras.engine.training.batches import (
    Batches,
    Passes,
    cast_elements,
    common_length,
    from_arrays,
    from_dataset,
)
from ipu.keras.engine.training.data_adapter import (
    Given,
    Workers,
    arrays_of,
    as_batches,
    is_batched,
    one_batch,
    split_validation,
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
    passes.end()
    assert order.passes == 11
    passes.took(30)
    passes.end()
    assert order.passes == 12
    passes = Passes(order, Batches(None, 5), 5, 0)
    for _ in range(2):
        passes.took(5)
        passes.end_epoch()
    passes.end()
    assert order.passes == 14
    passes = Passes(order, Batches(None, 1, is_endless=True), 3, 0)
    passes.took(3)
    passes.end()
    assert order.passes == 17


# --- what the user gave ---------------------------------------------------------------

X, Y = np.ones((8, 2), np.float32), np.zeros(8, np.float32)


class Rows:
    """A sequence."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    def __getitem__(self, index: int) -> Any:
        return X, Y

    def __len__(self) -> int:
        return 3

    def on_epoch_end(self) -> None:
        pass


def test_what_is_batched() -> None:
    for data in (rows(), Rows(), iter([X])):
        assert is_batched(data)
    for data in (
        *(X, [X], {"x": X}, SimpleNamespace(element_spec=1)),
        *(SimpleNamespace(cardinality=1), SimpleNamespace(on_epoch_end=1)),
    ):
        assert not is_batched(data)


def test_an_order_is_gone_on_with() -> None:
    order = Order()
    as_batches(Given(X, Y, shuffle=True), order=order)
    assert order.plain[0] is not None
    made = as_batches(Given(X, Y, shuffle=True))
    assert told(made) == (1, 1, 0, False)
    source: Any = as_batches(Given(Rows(), shuffle=True), order=order).read_by_host
    assert source._order is order


def test_how_far_batches_are_read_ahead() -> None:
    def source(data: Any, *workers: int) -> Any:
        return as_batches(Given(data, workers=Workers(*workers))).read_by_host

    assert source(iter([X]), 5, 1)._ahead == 5
    assert source(iter([X]), 5, 0)._ahead == 0
    for attributes, wanted in (
        ({}, (5, 2)),
        ({"max_queue_size": 7}, (7, 2)),
        ({"workers": 3}, (5, 3)),
        ({"workers": 9}, (9, 9)),
    ):
        one = source(Rows(**attributes), 5, 2)
        assert (one._ahead, one._workers) == wanted


def test_one_batch() -> None:
    x, y = one_batch(X, Y)
    assert x is X and y is Y and one_batch(X) is X
    with pytest.raises(ValueError, match=r"but there are several\. Received: Rows"):
        one_batch(Rows())
    with pytest.raises(ValueError, match="Data cardinality is ambiguous"):
        one_batch(X, Y[:-1])
    with pytest.raises(ValueError, match="`sample_weight` needs targets"):
        one_batch(X, None, Y)
    with pytest.raises(ValueError, match="Failed to find data for `x`"):
        data_adapter._as_element((None, None))


def test_what_stands_beside_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    words = "The `batch_size` argument must not be specified for the given input type"
    for data, end in (
        (rows(), "a dataset and batch_size=4. Use Dataset.batch()."),
        (Rows(), "a Rows and batch_size=4. Its batches are what they are."),
    ):
        with pytest.raises(ValueError, match=words) as caught:
            as_batches(Given(data, batch_size=4))
        assert str(caught.value).endswith(end)
        for given in (Given(data, Y), Given(data, None, Y)):
            with pytest.raises(ValueError, match="argument is not supported when"):
                as_batches(given)
    # a program of the port went on
    monkeypatch.setattr(drop_in, "installed", lambda: True)
    with pytest.warns(UserWarning, match="`batch_size` is ignored"):
        as_batches(Given(rows().batch(4), batch_size=4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        as_batches(Given(rows().batch(4)))
        with pytest.raises(ValueError, match=words):
            as_batches(Given(Rows(), batch_size=4))


def test_what_are_no_arrays() -> None:
    for data in ("text", np.str_("text"), object()):
        with pytest.raises(ValueError, match=r"Failed to find data adapter .* `y`"):
            arrays_of(data, "y")
    with pytest.raises(ValueError, match="lists of different lengths"):
        arrays_of([[1, 2], [3]], "x")
    assert arrays_of([[1]], "x").tolist() == [[1]]
    assert arrays_of([], "x") == () and data_adapter._is_of_numbers([]) is False


def test_arrays_are_split() -> None:
    (x, y, weights), rest = split_validation((X, None, None), 0.25)
    assert x.shape == (6, 2) and y is None and weights is None
    assert rest[0].shape == (2, 2)
    for data, end in (
        (rows(), "a data set. Split it with `take` and `skip`."),
        (Rows(), "a Rows. Give two of them."),
    ):
        with pytest.raises(ValueError, match="only supported for Tensors") as caught:
            split_validation((data, None, None), 0.5)
        assert str(caught.value).endswith(end)
