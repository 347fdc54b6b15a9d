# SPDX-License-Identifier: MIT
"""Data sets of Python generators."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import traceback
from typing import Any

import numpy as np
import pytest

from ipu import tf
from ipu.tf import errors

Dataset = tf.data.Dataset


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


class MyError(Exception):
    pass


def test_an_exception_belongs_to_its_iterator() -> None:
    def failing(text: str) -> Any:
        def generate() -> Any:
            yield 1
            raise MyError(text)

        return iter(Dataset.from_generator(generate, tf.int32, ()).prefetch(2))

    # all have failed before the first one is asked; some say the same
    texts = [str(number % 70) for number in range(100)] + ["", "x" * 5000, "a\0b"]
    iterators = [failing(text) for text in texts]
    for iterator in iterators:
        assert int(next(iterator)) == 1
    for text, iterator in zip(texts, iterators, strict=True):
        with pytest.raises(MyError) as caught:
            next(iterator)
        assert str(caught.value) == text


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


def test_an_exception_without_the_module_in_its_table() -> None:
    code = """
import sys
from ipu import tf
def generate():
    yield 1
    raise KeyError("mine")
dataset = tf.data.Dataset.from_generator(generate, tf.int32).map(lambda x: x + 1)
sys.modules.pop("ipu._core")
try:
    list(dataset)
except KeyError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "'mine'\n"


IN_A_SUBINTERPRETER = """
import warnings
warnings.simplefilter("ignore")
try:
    import ipu
except ImportError as error:
    print(error, flush=True)
"""


@pytest.mark.parametrize("is_isolated", [False, True])
def test_a_subinterpreter_is_refused(is_isolated: bool) -> None:
    code = f"""
try:
    import _interpreters
    number = _interpreters.create("isolated" if {is_isolated} else "legacy")
    run = _interpreters.exec
except ImportError:
    import _xxsubinterpreters
    number = _xxsubinterpreters.create(isolated={is_isolated})
    run = _xxsubinterpreters.run_string
run(number, {IN_A_SUBINTERPRETER!r})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "subinterpreter" in done.stdout
