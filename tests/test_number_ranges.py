"""Numbers that a dtype cannot hold are errors at every door; so are endless lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ipu import tf

BYTES = tf.constant([1, 2], tf.uint8)
INT_RANGES = {
    "uint8": (0, 255),
    "int8": (-128, 127),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
}


@pytest.mark.parametrize("dtype", INT_RANGES)
def test_the_ends_of_each_range(dtype: str) -> None:
    least, most = INT_RANGES[dtype]
    for good in (least, most):
        assert int(tf.constant(good, dtype)) == good
        assert tf.constant([good], dtype).numpy().tolist() == [good]
        array = np.array([good], dtype)
        assert tf.constant(array, dtype).numpy().tolist() == [good]
    for bad in (least - 1, most + 1, 2**100, -(2**100)):
        for value in (bad, [bad], [[0], [bad]], (0, bad)):
            with pytest.raises(ValueError, match=rf"{bad} does not fit into {dtype}"):
                tf.constant(value, dtype)


@pytest.mark.parametrize("source", ["int8", "int32", "int64", "uint64", "float64"])
@pytest.mark.parametrize("dtype", INT_RANGES)
def test_arrays(source: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    least, most = INT_RANGES[dtype]
    for _ in range(20):
        exponent = int(rng.integers(0, 64))
        number = float(rng.integers(-(2**31), 2**31)) * 2.0**exponent / 2.0**31
        with np.errstate(invalid="ignore"):
            array = np.array([number]).astype(source, casting="unsafe")
        exact = int(array[0])
        if least <= exact <= most:
            assert tf.constant(array, dtype).numpy().tolist() == [exact]
        else:
            with pytest.raises(ValueError, match=f"does not fit into {dtype}"):
                tf.constant(array, dtype)


DOORS: dict[str, Callable[[], Any]] = {
    "constant": lambda: tf.constant(300, tf.uint8),
    "constant_list": lambda: tf.constant([1, 300], tf.uint8),
    "constant_shape": lambda: tf.constant(300, tf.uint8, shape=[2]),
    "convert_to_tensor": lambda: tf.convert_to_tensor(300, tf.uint8),
    "dtype_hint": lambda: tf.convert_to_tensor(300, dtype_hint=tf.uint8),
    "add": lambda: BYTES + 300,
    "radd": lambda: 300 + BYTES,
    "add_list": lambda: [300, 1] * BYTES,
    "add_array": lambda: BYTES + np.array([300, 1]),
    "add_scalar": lambda: BYTES + np.int64(300),
    "tf_add": lambda: tf.add(BYTES, 300),
    "equal": lambda: BYTES == 300,
    "where": lambda: tf.where([True, False], BYTES, 300),
    "maximum": lambda: tf.maximum(BYTES, 300),
    "pad": lambda: tf.pad(BYTES, [[1, 1]], constant_values=300),
    "clip": lambda: tf.clip_by_value(BYTES, 0, 300),
    "range": lambda: tf.range(0, 300, dtype=tf.uint8),
    "one_hot": lambda: tf.one_hot([0], 2, on_value=300, dtype=tf.uint8),
    "variable": lambda: tf.Variable(300, dtype=tf.uint8),
    "variable_array": lambda: tf.Variable(np.array([300]), dtype=tf.uint8),
    "assign": lambda: tf.Variable([1, 2], dtype=tf.uint8).assign([300, 1]),
    "assign_array": lambda: tf.Variable([1], dtype=tf.uint8).assign(np.array([300])),
    "assign_add": lambda: tf.Variable(1, dtype=tf.uint8).assign_add(300),
    "assign_sub": lambda: tf.Variable(1, dtype=tf.uint8).assign_sub(300),
}


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "function"])
@pytest.mark.parametrize("door", DOORS)
def test_doors(door: str, traced: bool) -> None:
    call = DOORS[door]
    with pytest.raises(ValueError, match=r"\d+ does not fit into uint8, which holds 0"):
        (tf.function(call) if traced else call)()


def test_numbers_without_a_dtype() -> None:
    assert tf.constant(2**31 - 1).dtype == tf.int32
    assert tf.constant(2**31).dtype == tf.int64
    for bad in (2**63, [2**63], [2**63, 1], -(2**63) - 1, 2**64, [2**64, 1]):
        with pytest.raises(ValueError, match="does not fit into int64"):
            tf.constant(bad)
    assert tf.constant([2.0**70, 1]).dtype == tf.float32


def test_floats() -> None:
    largest = float(np.finfo(np.float32).max)
    assert float(tf.constant(largest)) == largest
    assert float(tf.constant([largest * (1 + 1e-9)])[0]) == largest  # rounds down
    for bad in (1e39, -1e300, [1.0, 1e300], np.array([1e300])):
        with pytest.raises(
            ValueError, match="does not fit into float32, whose largest"
        ):
            tf.constant(bad, tf.float32)
    with pytest.raises(ValueError, match="does not fit into float32"):
        tf.constant(1e300)
    assert float(tf.constant(1e300, tf.float64)) == 1e300
    assert float(tf.constant(np.array(1e300))) == 1e300
    for kept in (float("inf"), -float("inf")):
        assert float(tf.constant(kept, tf.float16)) == kept
    assert np.isnan(float(tf.constant(float("nan"), tf.float16)))
    assert float(tf.constant(65519.0, tf.float16)) == 65504.0
    for too_large in (65520.0, 65520, [65520], np.array([1e5], np.float32)):
        with pytest.raises(ValueError, match=r"float16, whose largest number is 65504"):
            tf.constant(too_large, tf.float16)
    assert float(tf.constant(2**100, tf.float32)) == 2.0**100
    with pytest.raises(ValueError, match="does not fit into float32"):
        tf.constant(2**2000, tf.float32)
    with pytest.raises(ValueError, match="nan does not fit into int32"):
        tf.constant(np.array([np.nan]), tf.int32)


@pytest.mark.parametrize("number", [16777217, 33554435, 2**53 + 1, -(2**62) - 1])
def test_whole_numbers_round_once(number: int) -> None:
    for dtype in ("float32", "float64"):
        assert tf.constant(number, dtype).numpy() == np.array(number).astype(dtype)


def test_bools_are_no_numbers() -> None:
    for bad in (1, [0, 1], 1.0):
        with pytest.raises(TypeError, match="to a tensor of dtype bool"):
            tf.constant(bad, tf.bool)
    assert int(tf.constant(True, tf.int32)) == 1
    assert tf.ones([2], tf.bool).numpy().tolist() == [True, True]


def test_variables_do_not_narrow_what_does_not_fit() -> None:
    assert tf.Variable(7).dtype == tf.int32
    assert tf.Variable(np.array([0.1])).dtype == tf.float32
    for bad in (2**40, np.array([2**40]), tf.constant(2**40)):
        with pytest.raises(ValueError, match="1099511627776 does not fit into int32"):
            tf.Variable(bad)
    with pytest.raises(ValueError, match="does not fit into float32"):
        tf.Variable(np.array([1.0, 1e300]))


ORDERS = [">i2", ">i4", ">u4", ">i8", ">f2", ">f4", ">f8"]


@pytest.mark.parametrize("order", ORDERS)
def test_arrays_of_the_other_byte_order(order: str) -> None:
    swapped = np.array([[1, 2], [300, 4]], order)
    assert tf.constant(swapped).numpy().tolist() == swapped.tolist()
    assert tf.constant(swapped, tf.float32).numpy().tolist() == swapped.tolist()
    assert tf.Variable(swapped, dtype=tf.int32).numpy().tolist() == swapped.tolist()
    rows = list(tf.data.Dataset.from_tensor_slices(swapped))
    assert [row.numpy().tolist() for row in rows] == swapped.tolist()
    if order in (">i4", ">f4", ">f2"):
        same = tf.function(lambda x: x)
        assert same(swapped).numpy().tolist() == swapped.tolist()


def test_lists_without_an_end() -> None:
    endless: list[Any] = []
    endless.append(endless)
    deep: list[Any] = [1.0]
    tensors: Any = tf.constant(1.0)
    for _ in range(100_000):
        deep = [deep]
        tensors = [tensors]
    for bad in (endless, deep, tensors, [1.0, [2.0, endless]]):
        for door in (tf.constant, tf.convert_to_tensor, tf.Variable, tf.reduce_sum):
            with pytest.raises((ValueError, RecursionError)):
                door(bad)
        with pytest.raises((ValueError, RecursionError)):
            tf.constant([1.0]) + bad
        with pytest.raises((ValueError, RecursionError)):
            tf.nest.flatten(bad)
        with pytest.raises((ValueError, RecursionError)):
            tf.nest.map_structure(lambda x: x, bad)
        with pytest.raises((ValueError, RecursionError)):
            tf.function(lambda x: x)(bad)
        with pytest.raises((ValueError, RecursionError)):
            tf.data.Dataset.from_tensors(bad)
    with pytest.raises(ValueError, match="nested more than 8 deep"):
        tf.constant(endless)
    while isinstance(deep, list) and deep:  # a chain of frees as deep as the list
        deep = deep[0]
    while isinstance(tensors, list):
        tensors = tensors[0]
