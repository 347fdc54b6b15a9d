# SPDX-License-Identifier: MIT
"""Strings on the host: tensors, `tf.strings`, data sets of them."""

from __future__ import annotations

import numpy as np
import pytest

from ipu import tf
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.tf import errors

Dataset = tf.data.Dataset
NAMES = ["cat/1.png", "dog/22.png", "cat/3.png"]


def lists(dataset: Dataset) -> list:
    return [np.asarray(x.numpy()).tolist() for x in dataset]


def test_tensors() -> None:
    one = tf.constant("añ")
    assert one.numpy() == "añ".encode() and one.shape == () and one.dtype == tf.string
    many = tf.convert_to_tensor(np.array([["a", "b"], ["c", ""]]))
    assert many.shape == (2, 2) and many[1].numpy().tolist() == [b"c", b""]
    assert many[0, tf.constant(1)].numpy() == b"b"
    assert (many == "c").numpy().tolist() == [[False, False], [True, False]]
    assert tf.not_equal(many[0], ["a", "x"]).numpy().tolist() == [False, True]
    assert ("<" + many[0] + ">").numpy().tolist() == [b"<a>", b"<b>"]
    assert [bytes(x) for x in many[0]] == [b"a", b"b"] and len(many) == 2
    assert tf.constant("x", shape=(2,)).numpy().tolist() == [b"x", b"x"]
    assert tf.stack([one, one]).shape == tf.reshape(many[0], [2]).shape == (2,)
    assert tf.shape(many).numpy().tolist() == [2, 2]
    assert (
        repr(one[None][0])
        == f"<tf.Tensor: shape=(), dtype=string, numpy={one.numpy()}>"
    )
    assert tf.as_dtype(str) == tf.string == tf.as_dtype("string") != tf.float32


def test_what_takes_no_strings_says_so() -> None:
    with pytest.raises(TypeError, match=r"tf\.reduce_sum does not take strings"):
        tf.reduce_sum(tf.constant(["a"]))
    with pytest.raises(TypeError, match="dtype float32"):
        tf.constant("a", tf.float32)
    with pytest.raises(TypeError, match="A string is needed"):
        tf.constant(["a", 1])
    with pytest.raises(errors.InvalidArgumentError, match="convert string: b'x'"):
        tf.strings.to_number("x")


def test_slices_of_strings() -> None:
    data = Dataset.from_tensor_slices((NAMES, [0, 1, 0]))
    assert len(data) == 3
    assert data.element_spec[0] == tf.TensorSpec((), tf.string)
    assert [(x.numpy(), int(y)) for x, y in data][1] == (b"dog/22.png", 1)
    names = data.map(lambda name, label: name)
    assert lists(names) == [name.encode() for name in NAMES]
    assert lists(names.batch(2)) == [
        [b"cat/1.png", b"dog/22.png"],
        [b"cat/3.png"],
    ]
    assert lists(names.batch(2).unbatch().padded_batch(3)) == [
        [name.encode() for name in NAMES]
    ]
    shuffled = names.shuffle(3, seed=2).repeat(2).prefetch(1).cache()
    assert sorted(lists(shuffled)) == sorted([name.encode() for name in NAMES] * 2)
    assert lists(names.window(2).flat_map(lambda w: w.batch(2)))[1] == [b"cat/3.png"]
    kept = data.filter(lambda name, label: tf.strings.split(name, "/")[0] == "cat")
    assert [int(y) for _, y in kept] == [0, 0]
    begin = names.take_while(lambda name: name == NAMES[0])
    assert lists(begin) == [NAMES[0].encode()]
    joined = names.reduce("", lambda all, name: all + name)
    assert joined.numpy() == "".join(NAMES).encode()
    assert lists(names.concatenate(names.take(1)))[-1] == b"cat/1.png"
    assert names.enumerate().skip(2).get_single_element()[1].numpy() == b"cat/3.png"


def test_generators_of_strings() -> None:
    signature = (tf.TensorSpec((), tf.string), tf.TensorSpec((None,), tf.string))
    data = Dataset.from_generator(
        lambda: iter([("a", ["b", "c"]), (b"d", [])]), output_signature=signature
    )
    (a, b), (d, none) = data
    assert a.numpy() == b"a" and b.numpy().tolist() == [b"b", b"c"]
    assert d.numpy() == b"d" and none.shape == (0,)
    bad = Dataset.from_generator(lambda: iter([1]), tf.string, ())
    with pytest.raises(TypeError, match="expected type was string"):
        list(bad)
    ragged = data.map(lambda x, y: y)
    with pytest.raises(errors.InvalidArgumentError, match=r"\(0,\) and \(2,\)"):
        list(ragged.batch(2))
    assert lists(ragged.padded_batch(2, padding_values="-")) == [
        [[b"b", b"c"], [b"-", b"-"]]
    ]


def test_maps_learn_which_sizes_vary() -> None:
    data = Dataset.from_tensor_slices(NAMES)
    made = data.map(
        lambda name: {
            "number": tf.strings.to_number(tf.strings.substr(name, 4, 1), tf.int32),
            "parts": tf.strings.split(name, "/"),
            "length": tf.fill([3], tf.strings.length(name)),
        }
    )
    assert made.element_spec == {
        "number": tf.TensorSpec((), tf.int32),
        "parts": tf.TensorSpec((None,), tf.string),
        "length": tf.TensorSpec((3,), tf.int32),
    }
    numbers = made.map(lambda x: x["number"]).map(lambda n: n * 2).batch(3)
    assert lists(numbers) == [[2, 4, 6]]


def test_random_numbers_follow_the_element() -> None:
    tf.random.set_seed(3)
    made = Dataset.from_tensor_slices(NAMES).map(lambda name: tf.random.uniform([]))
    alone = [float(x) for x in made]
    before = float(tf.random.uniform([]))
    assert [float(x) for x in made.prefetch(2)] == alone and len(set(alone)) == 3
    tf.random.set_seed(3)
    again = Dataset.from_tensor_slices(NAMES).map(lambda name: tf.random.uniform([]))
    assert [float(x) for x in again] == alone
    assert float(tf.random.uniform([])) == before


def test_functions_that_give_nothing() -> None:
    names = Dataset.from_tensor_slices(NAMES)
    with pytest.raises(TypeError, match="Received: None"):
        names.map(lambda name: None)
    with pytest.raises(ValueError, match="no element"):
        names.take(0).map(lambda name: name)
    with pytest.raises(ValueError, match="scalar boolean"):
        list(names.filter(lambda name: name))
    with pytest.raises(
        errors.FailedPreconditionError, match="Unsupported datatype string"
    ):
        IPUInfeedQueue(names)
