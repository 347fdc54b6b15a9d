# SPDX-License-Identifier: MIT
"""A ResNet-18 and a U-Net train, to Keras's numbers; a CNN's bits are those of every
class of CPU and number of threads."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

import image_models
import numpy as np
import pytest
from op_cases import harness
from op_cases.model import Graph, Type

import ipu
from ipu import _core, keras

NUMBERS = json.loads(image_models.NUMBERS.read_text())
CLASSES = ("generic", "avx2", "avx512")


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    before = os.environ.get("IPU_CPU_CLASS"), _core.num_threads()
    yield
    os.environ.pop("IPU_CPU_CLASS", None)
    if before[0] is not None:
        os.environ["IPU_CPU_CLASS"] = before[0]
    ipu.set_num_threads(before[1])


@pytest.mark.parametrize("name", image_models.MODELS)
def test_they_train_to_the_numbers_of_keras(name: str) -> None:
    got = image_models.losses(keras, name)
    np.testing.assert_allclose(got, NUMBERS[name], rtol=2e-4)
    assert got[-1] < got[1]


def trained_cnn() -> list[Any]:
    """Weights after three steps of a CNN of every kind of layer that images have."""
    random = np.random.default_rng(2)
    x = random.random((12, 12, 11, 3), dtype=np.float32)
    y = random.integers(0, 4, 12, dtype=np.int32)
    L = keras.layers
    model = keras.Sequential(
        [
            keras.Input(x.shape[1:]),
            L.Conv2D(24, 3, padding="same", activation="relu"),
            L.BatchNormalization(),
            L.MaxPooling2D(3, 2, padding="same"),
            L.DepthwiseConv2D(3, padding="same"),
            L.AveragePooling2D(2, 1),
            L.Conv2D(40, 1, activation="relu"),
            L.LayerNormalization(),
            L.Conv2DTranspose(17, 2, 2),
            L.MaxPooling2D(),
            L.GlobalAveragePooling2D(),
            L.Dense(4),
        ]
    )
    for variable in model.weights:
        variable.assign(image_models.given(variable, random))
    model.compile(
        keras.optimizers.SGD(0.05, momentum=0.9),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    model.fit(x, y, batch_size=4, epochs=1, shuffle=False, verbose=0)
    return [np.asarray(value) for value in model.get_weights()]


def test_a_cnn_has_the_same_bits_everywhere() -> None:
    first: list[Any] = []
    for name in CLASSES:
        os.environ["IPU_CPU_CLASS"] = name
        if _core.cpu_class() != name:
            continue
        for threads in (1, 2):
            ipu.set_num_threads(threads)
            got = trained_cnn()
            first = first or got
            harness.same_bits(got, first, f"{name}, {threads} threads")


def f32(*shape: int) -> Type:
    return "float32", shape


X, HALF, CHANNELS = f32(2, 8, 8, 24), f32(2, 4, 4, 24), f32(24)
WINDOW = "window=[2, 2], strides=[2, 2]"
KERNELS: tuple[tuple[str, str, tuple[Type, ...], tuple[Type, ...], str], ...] = (
    ("max_pool", WINDOW, (X,), (HALF,), "columns"),
    ("max_pool_grad", WINDOW, (X, HALF, HALF), (X,), "columns"),
    ("average_pool", WINDOW, (X,), (HALF,), "columns"),
    (
        "normalize",
        "groups=24",
        (f32(1, 128, 24), CHANNELS, CHANNELS),
        (f32(1, 128, 24), f32(1, 24), f32(1, 24)),
        "down",
    ),
    (
        "normalize",
        "groups=1",
        (f32(128, 1, 24), CHANNELS, CHANNELS),
        (f32(128, 1, 24), f32(128, 1), f32(128, 1)),
        "along",
    ),
)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize(
    ("op", "attrs", "operands", "results", "kernel"), KERNELS, ids=lambda v: str(v)[:14]
)
def test_which_kernel_serves(
    op: str,
    attrs: str,
    operands: tuple[Type, ...],
    results: tuple[Type, ...],
    kernel: str,
    name: str,
) -> None:
    os.environ["IPU_CPU_CLASS"] = name
    if _core.cpu_class() != name:
        pytest.skip(f"this processor is of class {_core.cpu_class()}")
    graph = Graph()
    names = [graph.param(operand) for operand in operands]
    made = graph.node(op, names, attrs, results)
    text = _core.graph_compile(graph.finish(made)).text
    vectors = "generic" if name == "generic" else "avx2"
    assert re.findall(r"kernel +\w+\.(\w+)\(", text) == [f"{kernel}_{vectors}"]
