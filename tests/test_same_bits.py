# SPDX-License-Identifier: MIT
"""The same program gives the same bits on every class of CPU."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

CLASSES = ("generic", "avx2", "avx512")
SHAPES = [
    (1, 1, 1),
    (32, 10, 32),
    (32, 64, 100),
    (33, 49, 65),
    (7, 130, 40),
    (130, 3, 20),
    (12, 32, 1030),
    (100, 1, 60),
    (1, 100, 60),
    (20, 256, 24),
    (131, 3, 40),
    (70, 2, 33),
    (2, 130, 33),
    (4, 40, 9),
    # sums of several blocks, and of several nodes
    (5, 7, 1025),
    (40, 150, 2049),
    (70, 3, 3001),
    (2, 30, 33000),
]


def numbers(*shape: int) -> Any:
    return np.random.default_rng(shape).random(shape, dtype="f4") - np.float32(0.5)


def bits_of(results: list[Any]) -> str:
    """What only equal bits have in common; all NaN are equal."""
    digest = hashlib.sha256()
    for result in results:
        array = np.array(result)
        array[np.isnan(array)] = np.nan
        digest.update(array.tobytes())
    return digest.hexdigest()


def run(node: str, operands: list[Any], m: int, n: int) -> list[Any]:
    from ipu import _core

    kind = operands[0].dtype.name
    kinds = [f"{kind}[{','.join(map(str, x.shape))}]" for x in operands]
    params = ", ".join(f"%{i}: {kind}" for i, kind in enumerate(kinds))
    at = len(operands)
    text = f"block b0({params}) {{\n  %{at} = {node} : {kind}[{m},{n}]\n}} -> (%{at})\n"
    device = _core.Device(portable=True)
    return [np.asarray(x) for x in _core.graph_compile(text, device).run(operands)]


def product(m: int, n: int, k: int, left: bool, right: bool) -> tuple[str, list[Any]]:
    flags = f"transpose_a={str(left).lower()}, transpose_b={str(right).lower()}"
    a = numbers(k, m) if left else numbers(m, k)
    return flags, [a, numbers(n, k) if right else numbers(k, n)]


def products() -> list[Any]:
    results = []
    for (m, n, k), left, right in itertools.product(
        SHAPES, (False, True), (False, True)
    ):
        flags, operands = product(m, n, k, left, right)
        results += run(f"matmul(%0, %1) {{{flags}}}", operands, m, n)
    return results


def activations() -> list[Any]:
    results = []
    for (m, n, k), activation in itertools.product(SHAPES, range(4)):
        flags, operands = product(m, n, k, False, False)
        node = f"fused_matmul(%0, %1, %2) {{{flags}, activation={activation}}}"
        results += run(node, [*operands, numbers(n)], m, n)
    return results


def accumulations() -> list[Any]:
    results = []
    for m, n, k in SHAPES:
        flags, operands = product(m, n, k, True, False)
        node = f"matmul_accumulate(%0, %1, %2) {{{flags}}}"
        results += run(node, [numbers(m, n), *operands], m, n)
    return results


def products_of(dtype: str) -> list[Any]:
    """Of float16 numbers, stored as `dtype`."""
    results = []
    for (m, n, k), left, right in itertools.product(
        SHAPES, (False, True), (False, True)
    ):
        flags, operands = product(m, n, k, left, right)
        stored = [x.astype("f2").astype(dtype) for x in operands]
        results += run(f"matmul(%0, %1) {{{flags}}}", stored, m, n)
    return results


def halves() -> list[Any]:
    return products_of("f2")


def sums() -> list[Any]:
    from ipu import tf

    results = []
    for shape, axes in (
        ((300_001,), (0,)),
        ((9000, 3), (0,)),
        ((3, 9000), (1,)),
        ((140_000, 2), (0,)),
        ((2500, 3, 4), (0, 2)),
        ((3, 2500, 50), (0, 1)),
    ):
        x = numbers(*shape)
        results += [tf.reduce_sum(x, axes), tf.reduce_mean(x, axes)]
        results += [
            tf.reduce_prod(1 + x / 1000, axes),
            tf.math.reduce_variance(x, axes),
        ]
    return [*results, tf.nn.softmax(numbers(2, 20_000)), tf.norm(numbers(300_001))]


def convolutions() -> list[Any]:
    """With their gradients; sums go over several blocks of channels, and of pixels."""
    from ipu import tf

    results = []
    for x, w, strides in (
        (numbers(3, 41, 37, 3), numbers(3, 3, 3, 17), 1),
        (numbers(2, 6, 7, 130), numbers(3, 3, 130, 140), 2),
        (numbers(3, 30, 31, 20), numbers(1, 1, 20, 9), 1),
        (numbers(1, 5, 6, 1300), numbers(3, 2, 1300, 5), 1),
    ):
        image, filters = tf.constant(x), tf.constant(w)
        with tf.GradientTape() as tape:
            tape.watch([image, filters])
            y = tf.nn.relu(tf.nn.conv2d(image, filters, strides, "SAME"))
        results += [y, *tape.gradient(y, [image, filters])]
    return results


@pytest.mark.parametrize("cpu_class", CLASSES)
@pytest.mark.parametrize(
    ("x", "y", "z", "wanted"),
    [
        # 2^-70 below the middle of two floats: a double has that middle
        (1 + 2**-23, 2**-24 * (1 - 2**-23), 1 + 2**-23, 1 + 2**-23),
        (1 + 2**-23, -(2**-24) * (1 - 2**-23), -1 - 2**-23, -1 - 2**-23),
        # and of two subnormal ones
        (
            2**-75 * (1 + 2**-23),
            2**-75 * (1 - 2**-23),
            2**-127 + 2**-149,
            2**-127 + 2**-149,
        ),
        (2**-75, 2**-75, 2**-127 + 2**-149, 2**-127 + 2**-148),  # the middle itself
        (2.0**100, 2.0**100, 1.0, np.inf),
    ],
)
def test_a_step_of_a_sum_is_rounded_once(
    x: float,
    y: float,
    z: float,
    wanted: float,
    cpu_class: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ipu import _core

    monkeypatch.setenv("IPU_CPU_CLASS", cpu_class)
    if _core.cpu_class() != cpu_class:
        pytest.skip(f"this processor is of class {_core.cpu_class()}")
    left = np.array([[1, x]] * 5, "f4")
    right = np.array([[z] * 9, [y] * 9], "f4")
    (sums,) = run("matmul(%0, %1)", [left, right], 5, 9)
    np.testing.assert_array_equal(sums, np.full((5, 9), wanted, "f4"))


def test_products_of_halves_are_rounded_once() -> None:
    for half, single in zip(halves(), products_of("f4"), strict=True):
        np.testing.assert_array_equal(half, single.astype("f2"))


def test_products_of_many_halves() -> None:
    """Of three matrices, and bias and activation, which round again."""
    from ipu import tf

    a, b = numbers(3, 7, 45).astype("f2"), numbers(3, 45, 21).astype("f2")
    sums = np.stack([tf.matmul(x, y) for x, y in zip(a, b, strict=True)])
    np.testing.assert_array_equal(tf.matmul(a, b), sums)
    bias = numbers(21).astype("f2")
    (fused,) = run("fused_matmul(%0, %1, %2) {activation=1}", [a[1], b[1], bias], 7, 21)
    np.testing.assert_array_equal(fused, np.maximum(sums[1] + bias, 0))


def training(optimizer: str) -> list[Any]:
    """The weights of a small network after some steps, and its losses."""
    from ipu import keras

    chosen: dict[str, Callable[[], Any]] = {
        "sgd": lambda: keras.optimizers.SGD(0.1),
        "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
        "nesterov": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
        "adam": lambda: keras.optimizers.Adam(0.01),
    }
    model = keras.Sequential(
        [
            keras.layers.Dense(40, activation="relu", input_shape=(30,)),
            keras.layers.Dense(24, activation="tanh"),
            keras.layers.Dense(16, activation="sigmoid"),
            keras.layers.Dense(10),
        ]
    )
    model.set_weights(
        [numbers(*w.shape) * np.float32(0.3) for w in model.get_weights()]
    )
    model.compile(
        chosen[optimizer](),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    labels = np.arange(160) % 10
    history = model.fit(
        numbers(160, 30), labels, batch_size=20, epochs=2, shuffle=False, verbose=0
    )
    return [*model.get_weights(), np.array(history.history["loss"])]


PARTS: dict[str, Callable[[], list[Any]]] = {
    "products": products,
    "activations": activations,
    "accumulations": accumulations,
    "halves": halves,
    "sums": sums,
    "convolutions": convolutions,
    "sgd": lambda: training("sgd"),
    "momentum": lambda: training("momentum"),
    "nesterov": lambda: training("nesterov"),
    "adam": lambda: training("adam"),
}


@pytest.fixture(scope="module")
def digests() -> dict[str, dict[str, str]]:
    """Of each class that this processor has, and each part."""
    found = {}
    for name in CLASSES:
        process = subprocess.run(
            [sys.executable, __file__],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "IPU_CPU_CLASS": name},
            cwd=Path(__file__).parent,
        )
        answer = json.loads(process.stdout)
        if answer["class"] == name:
            found[name] = answer["parts"]
    return found


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="classes of x86-64")
@pytest.mark.parametrize("part", PARTS)
def test_all_classes_agree(part: str, digests: dict[str, dict[str, str]]) -> None:
    if len(digests) < 2:
        pytest.skip("this processor has one class")
    assert len({parts[part] for parts in digests.values()}) == 1


ROOT = Path(__file__).resolve().parent.parent
TILES = ("plain", "avx2", "avx512", "neon")


def lines_of(compiler: list[str], run: list[str], folder: Path) -> list[str]:
    """What tests/c/tiles_text.c prints."""
    names = ["tests/c/tiles_text.c", "ipu_core/base/dtype.c"]
    names += [f"ipu_core/kernels/gemm_{name}.c" for name in TILES]
    program = folder / "tiles_text"
    flags = ["-std=c11", "-O1", "-static", "-ffp-contract=off", f"-I{ROOT}/ipu_core"]
    command = [*compiler, *flags, *(str(ROOT / name) for name in names)]
    subprocess.run([*command, "-o", str(program), "-lm"], check=True)
    process = subprocess.run(
        [*run, str(program)], check=True, capture_output=True, text=True
    )
    return process.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.compiles
def test_the_tiles_of_arm_agree(tmp_path: Path) -> None:
    compiler, emulator = "aarch64-linux-gnu-gcc", "qemu-aarch64"
    for tool in (compiler, emulator):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool} (gcc-aarch64-linux-gnu, qemu-user)")
    here = lines_of(os.environ.get("CC", "cc").split(), [], tmp_path)
    assert here == lines_of([compiler], [emulator], tmp_path)
    assert len(set(here)) == 376


if __name__ == "__main__":
    from ipu import _core

    parts = {name: bits_of(part()) for name, part in PARTS.items()}
    print(json.dumps({"class": _core.cpu_class(), "parts": parts}))
