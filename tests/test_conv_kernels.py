# SPDX-License-Identifier: MIT
"""Kernels of convolutions are near NumPy's sums and give the same bits, for every
geometry, class of CPU and number of threads; and which kernel serves what."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from op_cases import harness
from op_cases.convolutions import Geometry, conv_cases, fused_cases
from op_cases.model import Array, Case, Graph, ints

import ipu
from ipu import _core

CLASSES = ("generic", "avx2", "avx512")
SEEDS = 60


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    before = os.environ.get("IPU_CPU_CLASS"), _core.num_threads()
    yield
    os.environ.pop("IPU_CPU_CLASS", None)
    if before[0] is not None:
        os.environ["IPU_CPU_CLASS"] = before[0]
    ipu.set_num_threads(before[1])


def picker(rng: np.random.Generator) -> Callable[..., int]:
    return lambda *choices: int(rng.choice(choices))


def drawn(seed: int) -> Geometry:
    """Any geometry with a result, of some thousand multiply-adds."""
    rng = np.random.default_rng(seed)
    pick = picker(rng)

    rank = pick(1, 2, 2, 2, 3)
    groups = pick(1, 1, 1, 2, 3, 4)
    depth = pick(1, 1, 2, 3, 5, 8, 17, 33) if rank < 3 else pick(1, 2, 7)
    filters = groups * pick(1, 1, 2, 5, 8, 16, 19, 35)
    if depth == 1:
        groups = pick(1, 5, 16, 21)
        filters = groups * pick(1, 1, 2, 3)
    window = tuple(pick(1, 2, 3, 3, 4) for _ in range(rank))
    dilations = tuple(pick(1, 1, 2, 3) for _ in range(rank))
    padding = tuple(pick(0, 0, 1, 2) for _ in range(2 * rank))
    sizes = []
    for i in range(rank):
        reach = (window[i] - 1) * dilations[i] + 1 - padding[2 * i] - padding[2 * i + 1]
        most = {1: 60, 2: 12, 3: 5}[rank]
        sizes.append(max(reach, 1) + int(rng.integers(0, most)))
    return Geometry(
        tuple(sizes),
        window,
        channels=depth * groups,
        filters=filters,
        batch=pick(1, 2, 3, 5),
        strides=tuple(pick(1, 1, 1, 2, 3) for _ in range(rank)),
        dilations=dilations,
        padding=padding,
        groups=groups,
        first=bool(rng.random() < 0.3),
    )


def on_every_class(
    case: Case, values: list[Array], what: str, alike: bool = True, near: bool = True
) -> None:
    """`alike`: one class has the bits of the others; `near`: NumPy's numbers."""
    text = harness.plain(case)
    want: list[Array] = []
    for name in CLASSES:
        os.environ["IPU_CPU_CLASS"] = name
        if _core.cpu_class() != name:
            continue
        ipu.set_num_threads(1)
        if not (want and alike):
            want = harness.run(text, values)
            if near:
                harness.close(case, want, case.expect(values), f"{what}, {name}")
        for threads in (1, 3):
            ipu.set_num_threads(threads)
            got = harness.run(text, values)
            harness.same_bits(got, want, f"{what}, {name}, {threads} threads")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_any_geometry_has_the_same_bits_everywhere(seed: int, dtype: str) -> None:
    for case in conv_cases(drawn(seed), dtype):
        on_every_class(case, case.values(), case.id)


def drawn_winograd(seed: int) -> Geometry:
    """Windows of 3 x 3 on images with odd ends, of enough channels."""
    rng = np.random.default_rng(seed)
    pick = picker(rng)

    groups = pick(1, 1, 2)
    return Geometry(
        (pick(6, 7, 8, 13), pick(6, 7, 9, 12)),
        (3, 3),
        channels=groups * pick(16, 17, 24, 33, 64),
        filters=groups * pick(16, 17, 35, 48),
        batch=pick(1, 2, 5),
        padding=tuple(pick(0, 1, 1, 2) for _ in range(4)),
        groups=groups,
        first=bool(rng.random() < 0.3),
    )


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("seed", range(12))
def test_fewer_products_have_the_same_bits_everywhere(seed: int, dtype: str) -> None:
    for case in conv_cases(drawn_winograd(seed), dtype):
        on_every_class(case, case.values(), case.id)


def drawn_few(seed: int) -> Geometry:
    """So few channels on one side that pixels fill vectors, on lines that do and do not
    hold whole vectors of them."""
    rng = np.random.default_rng(seed)
    pick = picker(rng)

    groups = pick(1, 1, 2)
    few, many = groups * pick(1, 2, 3, 4), groups * pick(16, 32, 48, 20)
    channels, filters = (few, many) if rng.random() < 0.5 else (many, few)
    strides = pick(1, 1, 1, 2)
    return Geometry(
        (pick(1, 2, 3), pick(16, 31, 33, 64, 70, 100)),
        (pick(1, 3), pick(1, 3, 4)),
        channels=channels,
        filters=filters,
        batch=pick(1, 3),
        strides=(1, strides),
        padding=(pick(1, 2), 1, pick(0, 1, 2), pick(0, 1)),
        groups=groups,
        first=bool(rng.random() < 0.3),
    )


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("seed", range(16))
def test_few_channels_have_the_same_bits_everywhere(seed: int, dtype: str) -> None:
    for case in conv_cases(drawn_few(seed), dtype):
        on_every_class(case, case.values(), case.id)


def test_a_batch_does_not_change_the_bits_of_its_images() -> None:
    g = Geometry((7, 9), (3, 3), 20, 24, batch=7, padding=(1, 1, 1, 1))
    conv = next(conv_cases(g, "float32"))
    one = next(conv_cases(dataclasses.replace(g, batch=1), "float32"))
    images, filters = conv.values()
    [all_at_once] = harness.run(harness.plain(conv), [images, filters])
    for i in range(7):
        [got] = harness.run(harness.plain(one), [images[i : i + 1], filters])
        harness.same_bits([got], [all_at_once[i : i + 1]], f"image {i}")


UNUSUAL: dict[str, list[float]] = {
    "halfway between floats": [1.0, -1.0, 2.0**-12, 2.0**12, 1.0 + 2.0**-23, 2.0**-27],
    "subnormal": [2.0**-60, -(2.0**-75), 1.5 * 2.0**-74, 0.0],
    "near the largest": [2.0**63, -(2.0**63), 2.0**64, 1.9 * 2.0**62, 1.0],
    "not finite": [1.0, -1.0, 0.5, 3e38, np.inf, np.nan, -0.0],
}


@pytest.mark.parametrize("kind", UNUSUAL)
@pytest.mark.parametrize("seed", range(6))
def test_unusual_numbers_have_the_same_bits_everywhere(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    for case in conv_cases(drawn(seed), "float32"):
        values = []
        for x in case.values():
            rare = rng.random(x.shape) < (0.01 if kind == "not finite" else 1.0)
            values.append(np.where(rare, rng.choice(UNUSUAL[kind], x.shape), x))
        values = [v.astype("f4") for v in values]
        on_every_class(case, values, f"{case.id}, {kind}", near=False)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_any_geometry_of_float64_has_the_same_bits_in_a_class(seed: int) -> None:
    for case in conv_cases(drawn(seed), "float64"):
        on_every_class(case, case.values(), case.id, alike=False)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("first", [False, True])
def test_bias_and_activation_have_the_same_bits_everywhere(
    dtype: str, first: bool
) -> None:
    g = Geometry((9, 8), (3, 3), 20, 35, padding=(1, 1, 1, 1), first=first)
    for case in fused_cases(g, dtype):
        exact = case.label[-1] in "01"  # others are approximated by polynomials
        if exact and (len(case.inputs) == 2 or not first):
            values = [v / np.asarray(4, v.dtype) for v in case.values()]
            on_every_class(case, values, case.id)


WIDE = (
    # bands that are parts of one row, and sums in several chunks
    Geometry((1500,), (3,), 30, 17, batch=1, padding=(1, 1)),
    Geometry((2, 900), (2, 2), 5, 20, batch=1, strides=(1, 2)),
    Geometry((4, 4), (3, 2), 450, 20, padding=(1, 1, 1, 0)),
    # ... of fewer products: parts of a row, several chunks, several images
    Geometry((5, 700), (3, 3), 33, 17, batch=1, padding=(1, 1, 1, 1)),
    Geometry((4, 401), (3, 3), 80, 17, batch=1, padding=(1, 1, 1, 1), first=True),
    Geometry((4, 4), (3, 3), 1050, 17, padding=(1, 1, 1, 1)),
    Geometry((7, 5), (3, 3), 24, 40, batch=9, padding=(1, 1, 1, 1)),
    Geometry((13, 9), (3, 3), 70, 130, batch=3, padding=(1, 1, 1, 1)),
    Geometry((66, 70), (3, 3), 16, 20, batch=20, padding=(0, 1, 1, 0)),  # chains end
    Geometry((40, 30), (3, 3), 20, 20, groups=20, padding=(1, 1, 1, 1)),
    # several images in one band
    Geometry((3, 3), (3, 3), 24, 40, batch=30, padding=(1, 1, 1, 1)),
    Geometry((3, 3, 3), (2, 2, 2), 24, 40, batch=7),
    # a filter's gradient of pixels where they lie
    Geometry((9, 11), (1, 1), 28, 38, groups=2, batch=3),
    # sums of so many blocks that their tree has two levels
    Geometry((190, 180), (2, 2), 3, 8, batch=1),
    Geometry((190, 180), (1, 1), 3, 16, batch=1),
    Geometry((190, 180), (2, 2), 6, 6, batch=1, groups=6),
)


@pytest.mark.parametrize("g", WIDE, ids=lambda g: g.label())
def test_bands_of_all_kinds(g: Geometry) -> None:
    for case in conv_cases(g, "float32"):
        on_every_class(case, case.values(), case.id)


def test_numbers_that_are_not_finite_stay_where_they_belong() -> None:
    """A padded zero is multiplied: infinity becomes no number, also in gradients."""
    g = Geometry((6, 7), (3, 3), 18, 20, padding=(1, 1, 1, 1))
    for case in conv_cases(g, "float32"):
        values = [value.copy() for value in case.values()]
        values[1].reshape(-1)[::97] = np.inf
        values[0].reshape(-1)[5] = np.nan
        on_every_class(case, values, case.id, near=False)


@pytest.mark.parametrize("activation", ["", "relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("first", [False, True])
def test_what_follows_is_fused_into_convolutions(
    first: bool, dtype: str, bias: bool, activation: str
) -> None:
    """conv, bias and activation as one node: the bits of the three one by one."""
    # the sizes of the last axis are those of a bias in either format
    g = Geometry(
        (9, 8), (3, 3), 5, 8, strides=(1, 1), padding=(1, 1, 1, 1), first=first
    )
    graph = Graph(dtype == "float64")
    shapes = [g.x(), g.w(), (8,)][: 3 if bias else 2]
    names = [graph.param((dtype, s)) for s in shapes]
    kind = (dtype, g.y())
    out = graph.one("conv", names[:2], kind, g.attrs())
    if bias:
        out = graph.one("add", [out, names[2]], kind)
    if activation:
        out = graph.one(activation, [out], kind)
    text = graph.finish([out])
    rng = np.random.default_rng(2)
    values = [np.asarray(rng.normal(size=s), dtype) for s in shapes]
    base = harness.run(text, values, fuse=False)
    program = _core.graph_compile(text)
    fused = not first if bias else bool(activation)
    assert ("fused_conv" in program.text) == fused
    for threads in (1, 3):
        ipu.set_num_threads(threads)
        got = [np.asarray(t.numpy()) for t in program.run(values)]
        harness.same_bits(got, base, f"{threads} threads")


CHAINS = (
    # ops behind a convolution, by the operand that they take: c one of the channels, t
    # one of the result's shape
    (("mul", "c"), ("add", "c")),
    (("mul", "c"), ("add", "c"), ("add", "t")),
    (("add", "c"), ("mul", "c"), ("add", "c"), ("add", "t")),
    (("add", "t"), ("add", "t")),
)
CHAINED = (
    Geometry((9, 8), (3, 3), 5, 35, padding=(1, 1, 1, 1)),
    Geometry((9, 7), (3, 3), 20, 35, padding=(1, 1, 1, 1)),
    Geometry((9, 8), (3, 3), 6, 12, groups=3, strides=(2, 1)),
    Geometry((7, 8), (3, 3), 11, 11, groups=11, padding=(1, 1, 1, 1)),
    Geometry((5, 4), (3, 3), 150, 7, padding=(1, 1, 1, 1)),
    Geometry((2, 70), (3, 3), 16, 3, padding=(1, 1, 1, 1)),
)


@pytest.mark.parametrize("chain", CHAINS, ids=lambda c: "-".join(a + b for a, b in c))
@pytest.mark.parametrize("g", CHAINED, ids=lambda g: g.label())
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_factor_shift_and_sum_are_fused_into_convolutions(
    dtype: str, g: Geometry, chain: tuple[tuple[str, str], ...]
) -> None:
    graph = Graph(dtype == "float64")
    operands: dict[str, tuple[int, ...]] = {"c": (g.filters,), "t": g.y()}
    shapes = [g.x(), g.w(), *(operands[kind] for _, kind in chain)]
    names = [graph.param((dtype, s)) for s in shapes]
    kind = (dtype, g.y())
    out = graph.one("conv", names[:2], kind, g.attrs())
    for i, (op, _) in enumerate(chain):
        pair = [out, names[2 + i]]
        out = graph.one(op, pair if i % 2 else pair[::-1], kind)
    out = graph.one("relu", [out], kind)
    text = graph.finish([out])
    rng = np.random.default_rng(3)
    values = [np.asarray(rng.normal(size=s), dtype) for s in shapes]
    program = _core.graph_compile(text)
    assert "fused_conv" in program.text
    assert "elementwise" not in program.text and "relu" not in program.text
    for name in CLASSES:
        os.environ["IPU_CPU_CLASS"] = name
        if _core.cpu_class() == name:
            base = harness.run(text, values, fuse=False)  # float64 rounds by class
            for threads in (1, 3):
                ipu.set_num_threads(threads)
                harness.same_bits(harness.run(text, values), base, f"{name}, {threads}")


MASKED = (
    Geometry((2, 70), (3, 3), 3, 16, padding=(1, 1, 1, 1)),
    *CHAINED,
    Geometry((9, 8), (3, 3), 6, 150, padding=(1, 1, 1, 1)),  # sums that go on
    Geometry((9, 8), (3, 3), 6, 5, first=True),
)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("g", MASKED, ids=lambda g: g.label())
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_the_gradient_of_a_relu_is_fused_into_that_of_a_convolution(
    dtype: str, g: Geometry, again: bool
) -> None:
    """In place where nothing else reads the relu's result."""
    graph = Graph(dtype == "float64")
    shapes = [g.x(), g.y(), g.w()]
    names = [graph.param((dtype, s)) for s in shapes]
    kind = (dtype, g.x())
    relu = graph.one("relu", names[:1], kind)
    attrs = ", ".join(filter(None, (g.attrs(), f"shape={ints(g.x())}")))
    out = graph.one("conv_grad_input", names[1:], kind, attrs)
    out = graph.one("relu_grad", [relu, out], kind)
    text = graph.finish([out, relu] if again else [out])
    rng = np.random.default_rng(3)
    values = [np.asarray(rng.normal(size=s), dtype) for s in shapes]
    values[0].flat[:3] = [np.nan, np.inf, -np.inf]
    fused = dtype == "float32" and not g.first
    text_of_program = _core.graph_compile(text).text
    assert ("fused_conv_grad_input" in text_of_program) == fused
    for name in CLASSES:
        os.environ["IPU_CPU_CLASS"] = name
        if _core.cpu_class() == name:
            base = harness.run(text, values, fuse=False)  # float64 rounds by class
            for threads in (1, 3):
                ipu.set_num_threads(threads)
                harness.same_bits(harness.run(text, values), base, f"{name}, {threads}")


POOLED = (
    # sizes, window, strides, padding: windows apart, that meet, with padding
    ((8, 6), (2, 2), (2, 2), (0, 0, 0, 0)),
    ((9, 8), (3, 3), (2, 2), (1, 1, 1, 1)),
    ((7, 7), (3, 2), (1, 1), (0, 0, 0, 1)),
)


@pytest.mark.parametrize(("sizes", "window", "strides", "padding"), POOLED)
def test_the_gradient_of_a_relu_goes_in_front_of_that_of_a_pooling(
    sizes: tuple[int, int],
    window: tuple[int, int],
    strides: tuple[int, int],
    padding: tuple[int, int, int, int],
) -> None:
    graph = Graph(False)
    x = (2, *sizes, 9)
    y = (
        2,
        *(
            (size + padding[2 * i] + padding[2 * i + 1] - window[i]) // strides[i] + 1
            for i, size in enumerate(sizes)
        ),
        9,
    )
    shapes = [x, y]
    names = [graph.param(("float32", s)) for s in shapes]
    relu = graph.one("relu", names[:1], ("float32", x))
    attrs = f"window={ints(window)}, strides={ints(strides)}, padding={ints(padding)}"
    best = graph.one("max_pool", [relu], ("float32", y), attrs)
    out = graph.one("max_pool_grad", [relu, best, names[1]], ("float32", x), attrs)
    out = graph.one("relu_grad", [relu, out], ("float32", x))
    text = graph.finish([out])
    rng = np.random.default_rng(4)
    values = [rng.normal(size=s).astype(np.float32) for s in shapes]
    values[0].flat[:40:3] = 0.0
    values[0].flat[50:80:7] = np.nan
    values[0][1, :3] = -1.0
    values[1].flat[:30:4] = -0.0
    base = harness.run(text, values, fuse=False)
    lines = _core.graph_compile(text).text.splitlines()
    order = [line for line in lines if "_grad" in line]
    assert "relu_grad" in order[0] and "max_pool_grad" in order[1]
    for threads in (1, 3):
        ipu.set_num_threads(threads)
        harness.same_bits(harness.run(text, values), base, f"{threads} threads")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_residual_block_goes_image_by_image(dtype: str) -> None:
    """A thread takes images through both convolutions and the sum of the block."""
    g = Geometry((12, 12), (3, 3), 24, 24, batch=31, padding=(1, 1, 1, 1))
    graph = Graph()
    kind = (dtype, g.y())
    shapes = [g.x(), g.w(), g.w(), (24,), (24,)]
    x, first, second, scale, shift = (graph.param((dtype, s)) for s in shapes)
    inner = graph.one("relu", [graph.one("conv", [x, first], kind, g.attrs())], kind)
    out = graph.one("conv", [inner, second], kind, g.attrs())
    for op, operand in (("mul", scale), ("add", shift), ("add", inner)):
        out = graph.one(op, [out, operand], kind)
    text = graph.finish([graph.one("relu", [out], kind)])
    rng = np.random.default_rng(4)
    values = [np.asarray(rng.normal(size=s) / 4, dtype) for s in shapes]
    ipu.set_num_threads(1)
    base = harness.run(text, values, fuse=False)
    for threads in (2, 3):
        ipu.set_num_threads(threads)
        program = _core.graph_compile(text)
        assert "region of 31 rows" in program.text
        got = [np.asarray(t.numpy()) for t in program.run(values)]
        harness.same_bits(got, base, f"{threads} threads")


@pytest.mark.parametrize(
    "text, why",
    [
        ("steps=[1, 0]", "steps has 2 entries, but 1 operands follow"),
        ("steps=[3]", "there is no step 3"),
        ("steps=[2]", "operand 0 does not fit the result"),
        ("channels_first=true", "need the channels last"),
    ],
)
def test_steps_that_do_not_fit_are_refused(text: str, why: str) -> None:
    g = Geometry((4, 4), (2, 2), 4, 4)
    graph = Graph(False)
    names = [graph.param(("float32", s)) for s in (g.x(), g.w(), (4,))]
    out = graph.one("fused_conv", names, ("float32", g.y()), text)
    with pytest.raises(ipu.tf.errors.InvalidArgumentError, match=why):
        _core.graph_compile(graph.finish([out]))


# --- the choice -----------------------------------------------------------------------

TILES = {"generic": "8x8", "avx2": "6x16", "avx512": "12x32"}
CHOICES = (
    (
        Geometry((8, 8), (3, 3), 64, 64, padding=(1, 1, 1, 1)),
        "winograd winograd winograd",
    ),
    (Geometry((8, 8), (3, 3), 64, 64), "winograd winograd strips"),
    (Geometry((8, 8), (3, 3), 15, 64), "in_place windows strips"),
    (
        Geometry((4, 4), (3, 3), 64, 64, padding=(0, 0, 1, 1)),
        "winograd winograd strips",
    ),
    (Geometry((8, 8), (3, 3), 64, 64, strides=(1, 2)), "in_place windows strips"),
    (Geometry((8, 8), (1, 1), 64, 64), "in_place in_place in_place"),
    (Geometry((8, 8), (1, 1), 64, 64, first=True), "windows windows strips"),
    (
        Geometry((8, 8), (3, 3), 16, 16, groups=16),
        "depthwise depthwise depthwise_strips",
    ),
    (
        Geometry((8, 8), (3, 3), 16, 32, groups=16),
        "depthwise windows depthwise_strips",
    ),
)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("g, kernels", CHOICES, ids=[g.label() for g, _ in CHOICES])
def test_which_kernel_serves(g: Geometry, kernels: str, name: str) -> None:
    os.environ["IPU_CPU_CLASS"] = name
    if _core.cpu_class() != name:
        pytest.skip(f"this processor is of class {_core.cpu_class()}")
    found = [
        re.findall(
            r"kernel +\w+\.(\w+)\(", _core.graph_compile(harness.plain(case)).text
        )
        for case in conv_cases(g, "float32")
    ]
    assert found == [[f"{kernel}_{TILES[name]}"] for kernel in kernels.split()]
