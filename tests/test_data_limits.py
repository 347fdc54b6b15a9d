"""Data sets at their limits, from Python: long chains, and sizes beyond the data.

Each runs in a process of its own: what goes wrong here ends the process or takes all
its memory.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from forked import Programs

CHAIN = """
import sys
from ipu import tf
from ipu.tf import errors

D = tf.data.Dataset
kind = sys.argv[1]
wrap = {
    "concatenate": lambda d: d.concatenate(D.range(1)),
    "concatenate_left": lambda d: D.range(1).concatenate(d),
    "map": lambda d: d.map(lambda x: x),
    "filter": lambda d: d.filter(lambda x: True),
    "take": lambda d: d.take(-1),
    "skip": lambda d: d.skip(0),
    "repeat": lambda d: d.repeat(1),
    "shuffle": lambda d: d.shuffle(2),
    "shard": lambda d: d.shard(1, 0),
    "cache": lambda d: d.cache(),
    "batch": lambda d: d.batch(1).unbatch(),
    "prefetch": lambda d: d.prefetch(1),
    "zip": lambda d: D.zip((d,)).map(lambda x: x),
    "enumerate": lambda d: d.enumerate().map(lambda i, x: x),
    "padded_batch": lambda d: d.padded_batch(1).unbatch(),
}[kind]
dataset, said = D.range(1), ""
for length in range(8000):
    try:
        dataset = wrap(dataset)
    except errors.InvalidArgumentError as error:
        said = str(error)
        break
else:
    length = 8000
dataset.element_spec, dataset.cardinality()
try:
    count = sum(1 for _ in dataset)
except RecursionError as error:
    count, said = 1, str(error)
del dataset
print(length, count, said, sep="|")
"""


@pytest.mark.parametrize(
    ("kind", "length", "count"),
    [
        ("concatenate", 8000, 8001),
        ("concatenate_left", 8000, 8001),
        ("map", 1000, 1),
        ("filter", 1000, 1),
        ("take", 1000, 1),
        ("skip", 1000, 1),
        ("repeat", 1000, 1),
        ("shuffle", 1000, 1),
        ("shard", 1000, 1),
        ("cache", 1000, 1),
        ("batch", 500, 1),
        ("prefetch", 1000, 1),
        ("zip", 500, 1),
        ("enumerate", 500, 1),
        ("padded_batch", 8000, 1),
    ],
)
def test_long_chains_end_or_are_refused(
    kind: str, length: int, count: int, programs: Programs, tmp_path: Path
) -> None:
    done = programs.run(["-c", CHAIN, kind], tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    made, read, said = done.stdout.split("|")
    assert int(read) == count
    assert abs(int(made) - length) <= 1
    if kind == "padded_batch":
        assert "recursion" in said
    else:
        assert ("1000 is the limit" in said) == (length < 8000)


MEMORY = """
import resource, sys
import numpy as np
from ipu import tf

D = tf.data.Dataset
ragged = D.from_generator(lambda: iter([[1.0], [2.0, 3.0]]), "float32", (None,))
counted = D.from_generator(lambda: iter([1.0, 2.0]), "float32", ())
slices = D.from_tensor_slices(np.zeros((10, 3)))
dataset = eval(sys.argv[1])
next(iter(D.range(3).map(lambda x: x)))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
count = sum(1 for _ in dataset)
print(count, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("D.range(10).batch(10**8)", 1),
        ("D.range(10).batch(10**8, drop_remainder=True)", 0),
        ("D.range(10).batch(10**17, drop_remainder=True)", 0),
        ("D.range(10).map(lambda x: x).batch(10**8)", 1),
        ("D.range(10).batch(10**8).unbatch()", 10),
        ("counted.batch(10**12)", 1),
        ("counted.batch(10**8, drop_remainder=True)", 0),
        ("slices.batch(10**12)", 1),
        ("ragged.padded_batch(10**9)", 1),
        ("D.range(10).shuffle(10**12)", 10),
        ("counted.shuffle(10**12)", 2),
        ("D.range(10).prefetch(10**9)", 10),
        ("counted.prefetch(2**62)", 2),
        ("slices.prefetch(tf.data.AUTOTUNE)", 10),
        ("D.range(10).interleave(D.from_tensors, cycle_length=10**9)", 10),
    ],
)
def test_memory_follows_the_elements_there_are(
    text: str, count: int, programs: Programs, tmp_path: Path
) -> None:
    done = programs.run(["-c", MEMORY, text], tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    read, grown = map(int, done.stdout.split())
    assert read == count
    assert grown < 20, f"{grown} MB"
