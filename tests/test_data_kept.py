# SPDX-License-Identifier: MIT
"""Elements in files: they belong to the pipeline that made them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu import tf

Dataset = tf.data.Dataset
SCALE = 2


def scaled(x: Any) -> Any:
    return x * SCALE


class Steps:
    """A map function with state that its code names, and more."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.calls = [object()]

    def move(self, x: Any) -> Any:
        return x + self.step

    def __call__(self, x: Any) -> Any:
        return self.move(x)


def count(stop: int) -> Iterator[int]:
    yield from range(stop)


def counted(stop: int) -> Any:
    spec = tf.TensorSpec((), tf.int64)
    return Dataset.from_generator(count, args=(stop,), output_signature=spec)


def added(k: int) -> Any:
    return Dataset.range(5).map(lambda x: x + k)


def with_default(k: int) -> Any:
    return Dataset.range(5).map(lambda x, y=k: x + y)


# pairs of pipelines: one, and one that gives other elements
CHANGES: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "range": (lambda: Dataset.range(5), lambda: Dataset.range(1, 6)),
    "array": (
        lambda: Dataset.from_tensor_slices([1, 2]),
        lambda: Dataset.from_tensor_slices([1, 3]),
    ),
    "from_tensors": (
        lambda: Dataset.from_tensors({"a": 1.0}),
        lambda: Dataset.from_tensors({"a": 2.0}),
    ),
    "strings": (
        lambda: Dataset.from_tensor_slices(["a", "b"]),
        lambda: Dataset.from_tensor_slices(["a", "c"]),
    ),
    "code": (
        lambda: Dataset.range(5).map(lambda x: x + 1),
        lambda: Dataset.range(5).map(lambda x: x + 2),
    ),
    "operation": (
        lambda: Dataset.range(5).map(lambda x: x + 1),
        lambda: Dataset.range(5).map(lambda x: x * 1),
    ),
    "captured": (lambda: added(1), lambda: added(2)),
    "default": (lambda: with_default(1), lambda: with_default(2)),
    "method": (
        lambda: Dataset.range(5).map(Steps(1).move),
        lambda: Dataset.range(5).map(Steps(2).move),
    ),
    "callable object": (
        lambda: Dataset.range(5).map(Steps(1)),
        lambda: Dataset.range(5).map(Steps(2)),
    ),
    "generator": (lambda: counted(3), lambda: counted(4)),
    "size": (lambda: Dataset.range(6).batch(2), lambda: Dataset.range(6).batch(3)),
    "filter": (
        lambda: Dataset.range(5).filter(lambda x: x < 2),
        lambda: Dataset.range(5).filter(lambda x: x < 3),
    ),
    "input of zip": (
        lambda: Dataset.zip((Dataset.range(3), Dataset.range(3))),
        lambda: Dataset.zip((Dataset.range(3), Dataset.range(3, 6))),
    ),
    "inner": (
        lambda: Dataset.range(2).flat_map(lambda x: Dataset.range(2)),
        lambda: Dataset.range(2).flat_map(lambda x: Dataset.range(3)),
    ),
    "seed": (
        lambda: Dataset.range(9).shuffle(9, seed=1),
        lambda: Dataset.range(9).shuffle(9, seed=2),
    ),
    "further down": (
        lambda: added(1).repeat(2).skip(1).enumerate(),
        lambda: added(2).repeat(2).skip(1).enumerate(),
    ),
}


def values(dataset: Any) -> list[Any]:
    return [tf.nest.map_structure(lambda leaf: np.array(leaf), one) for one in dataset]


@pytest.mark.parametrize("name", CHANGES)
def test_a_pipeline_that_changed_is_not_given_the_elements_of_before(
    name: str, tmp_path: Path
) -> None:
    before, after = CHANGES[name]
    file = str(tmp_path / "kept")
    first = values(before())
    for _ in range(2):
        assert repr(values(before().cache(file))) == repr(first)
    with pytest.raises(tf.errors.FailedPreconditionError, match="kept keeps the"):
        list(after().cache(file))
    folder = str(tmp_path / "folder")
    for _ in range(2):
        assert repr(values(before().snapshot(folder))) == repr(first)
        assert repr(values(after().snapshot(folder))) == repr(values(after()))


def test_a_global_that_a_function_names_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kept() -> Any:
        return Dataset.range(3).map(lambda x: scaled(x)).snapshot(str(tmp_path))

    assert values(kept()) == [0, 2, 4]
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 3)
    assert values(kept()) == [0, 3, 6]


def test_what_changes_no_element_does_not_count(tmp_path: Path) -> None:
    steps = Steps(1)
    file = str(tmp_path / "kept")

    def plain() -> Any:
        return Dataset.range(5).map(steps).shuffle(3)

    first = values(plain().cache(file))
    steps.calls = [object(), object()]
    for same in (
        plain(),
        Dataset.range(5).map(steps, 2, name="steps").prefetch(3).shuffle(3),
        plain().prefetch(1).cache().with_options(tf.data.Options()),
    ):
        assert values(same.cache(file)) == first


CALLS = 0


def test_counters_of_a_function_do_not_count(tmp_path: Path) -> None:
    seen = 0

    def numbers() -> Iterator[int]:
        global CALLS
        nonlocal seen
        CALLS += 1
        for number in range(3):
            seen += 1
            yield number

    for _ in range(2):
        spec = tf.TensorSpec((), tf.int64)
        data = Dataset.from_generator(numbers, output_signature=spec)
        assert values(data.cache(str(tmp_path / "kept"))) == [0, 1, 2]
    assert (CALLS, seen) == (1, 3)


def test_an_order_without_a_seed_belongs_to_the_global_one(tmp_path: Path) -> None:
    file = str(tmp_path / "kept")
    tf.random.set_seed(1)
    list(Dataset.range(9).shuffle(9).cache(file))
    tf.random.set_seed(2)
    with pytest.raises(tf.errors.FailedPreconditionError):
        list(Dataset.range(9).shuffle(9).cache(file))


PROGRAM = """
import sys
from ipu import tf
K = {k}
def keep(x):
    return x in (1, 2) and "a" in {{"a", "b", "c", "d"}}
def made(x):
    return x * K
data = tf.data.Dataset.range(4).map(made).snapshot(sys.argv[1])
print([int(x) for x in data])
"""


def test_another_process_finds_them_and_sees_a_change(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    for k, made in ((2, "[0, 2, 4, 6]"), (2, "[0, 2, 4, 6]"), (3, "[0, 3, 6, 9]")):
        file = tmp_path / "program.py"
        file.write_text(PROGRAM.format(k=k))
        done = subprocess.run(
            [sys.executable, str(file), str(folder)], capture_output=True, text=True
        )
        assert done.stdout.strip() == made, done.stderr
    assert len(list(folder.iterdir())) == 2


def test_a_file_that_cannot_be_written_is_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    kept = Dataset.range(5).cache(str(folder / "kept"))
    elements = iter(kept)
    next(elements)
    (part,) = folder.iterdir()
    assert part.name.endswith(".tmp")
    del elements
    assert not list(folder.iterdir())
    assert values(kept) == [0, 1, 2, 3, 4] and len(list(folder.iterdir())) == 1
