# SPDX-License-Identifier: MIT
"""The rows of `benchmarks.ops`: every op of the core's table, as a graph calls it.

Rows of one or two operands of any shape come in each of `SHAPES`; products, windows,
norms, sequences and decompositions have shapes of their own, awkward ones among them.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
Make = Callable[[np.random.Generator, Shape], Array]

OWN = "own"  # the dtype that is measured
STATISTICS = "statistics"  # float32, or as wide as that dtype
TOP = 8  # of top_k
FLOATS = ("float32", "float16", "float64")
INTEGERS = ("int32", "int8", "int64")
# by the letters of ops.def
DTYPES = {
    "A": (*FLOATS, *INTEGERS),
    "N": (*FLOATS, *INTEGERS),
    "F": FLOATS,
    "W": ("float32", "float64"),
    "I": INTEGERS,
    "B": ("bool",),
}
# their operands or results are of one dtype, whatever the rule allows
FEWER = {
    **dict.fromkeys(("one_hot", "mean", "dropout"), FLOATS),
    "cast": FLOATS[:1],  # its rows name theirs
    # programs make float64's by single ops
    **dict.fromkeys(("attention", "attention_grad"), FLOATS[:2]),
}
SIZES = {"4 KiB": 4 << 10, "256 KiB": 256 << 10, "64 MiB": 64 << 20}
AWKWARD = {"997 x 131": (997, 131), "3 x 43691": (3, 43691), "43691 x 3": (43691, 3)}
OWN_SHAPE = "own"


def square_shape(bytes_: int, dtype: str) -> tuple[int, int]:
    """Two axes of powers of two, the last one not shorter than the first."""
    elements = bytes_ // np.dtype(dtype).itemsize
    rows = 1 << (int(math.log2(elements)) // 2)
    return rows, elements // rows


def positive(rng: np.random.Generator, shape: Shape) -> Array:
    return rng.uniform(0.25, 0.75, shape)


def signed(rng: np.random.Generator, shape: Shape) -> Array:
    return rng.uniform(-1, 1, shape)


def above_one(rng: np.random.Generator, shape: Shape) -> Array:
    return rng.uniform(1.25, 3, shape)


def near_one(rng: np.random.Generator, shape: Shape) -> Array:
    """The product of all of them is a number."""
    return rng.uniform(0.999, 1.001, shape)


def definite(rng: np.random.Generator, shape: Shape) -> Array:
    """Symmetric, with eigenvalues far from 0; triangular ones are well conditioned."""
    x = rng.uniform(-1, 1, shape) / shape[-1]
    return np.asarray(x + x.swapaxes(-1, -2) + np.eye(shape[-1]))


def below(end: int) -> Make:
    return lambda rng, shape: rng.integers(0, end, shape)


def all_of(value: int) -> Make:
    """All of it has to be read to know that there is no other one."""
    return lambda _, shape: np.full(shape, value)


@dataclasses.dataclass(frozen=True)
class In:
    """An operand."""

    shape: Shape
    make: Make = signed
    dtype: str = OWN


@dataclasses.dataclass(frozen=True)
class Row:
    """An op with operands.

    Attributes:
        outputs: Shape and dtype of each result.
        attrs: As a graph's text has them; `{own}` is the dtype that is measured.
        label: Tells rows of one op apart.
    """

    op: str
    inputs: tuple[In, ...]
    outputs: tuple[tuple[Shape, str], ...]
    attrs: str = ""
    label: str = ""

    @property
    def name(self) -> str:
        return f"{self.op}, {self.label}" if self.label else self.op

    @property
    def dtypes(self) -> tuple[str, ...]:
        return FEWER.get(self.op, DTYPES[letter_of(self.op)])

    def attributes(self, dtype: str) -> dict[str, Any]:
        """The attributes as Python has them."""
        text = self.attrs.replace("{own}", dtype)
        found = re.findall(r"(\w+)=(\[[^]]*\]|[^,]+)", text)
        return {name: value_of(value) for name, value in found}

    def graph(self, dtype: str) -> str:
        """A program that does the op as often as its last input says."""
        given = [type_text(i.shape, kind_of(i.dtype, dtype)) for i in self.inputs]
        made = [type_text(shape, kind_of(d, dtype)) for shape, d in self.outputs]
        count, results = len(given), len(made)
        params = [f"%{i}: {t}" for i, t in enumerate([*given, *made, "int32[]"])]
        turns = count + results
        first = turns + 1 + results
        block = [f"%{turns + 1 + i}: {t}" for i, t in enumerate(made)]
        names, starts, ends = (
            ", ".join(f"%{at + i}" for i in range(results))
            for at in (first, count, first + results)
        )
        operands = ", ".join(f"%{i}" for i in range(count))
        attrs = f" {{{self.attrs.replace('{own}', dtype)}}}" if self.attrs else ""
        types = ", ".join(made)
        return (
            f"host graph\nblock b0({', '.join(params)}) {{\n"
            f"block b1({', '.join(block)}) {{\n"
            f"{names} = {self.op}({operands}){attrs} : {types}\n}} -> ({names})\n"
            f"{ends} = repeat(%{turns}, {starts}) {{body=b1}} : {types}\n"
            f"}} -> ({ends})\n"
        )

    def arrays(self, dtype: str) -> list[Array]:
        """Operands, the same numbers in every dtype of a kind."""
        rng = np.random.default_rng(1)
        made = []
        for one in self.inputs:
            kind = np.dtype(kind_of(one.dtype, dtype))
            own_integer = one.dtype == OWN and kind.kind in "iu"
            value = rng.integers(1, 100, one.shape) if own_integer else None
            if value is None or one.make is near_one:
                value = one.make(rng, one.shape)
            made.append(np.asarray(value).astype(kind))
        return made


def kind_of(given: str, dtype: str) -> str:
    if given == STATISTICS:
        return "float64" if dtype == "float64" else "float32"
    return dtype if given == OWN else given


def type_text(shape: Shape, dtype: str) -> str:
    return f"{dtype}{text_of(shape)}"


def value_of(text: str) -> Any:
    if text.startswith("["):
        return [value_of(part) for part in text[1:-1].split(",") if part]
    if text in ("true", "false"):
        return text == "true"
    return float(text) if re.search(r"\d[.e]", text) else int_or_name(text)


def int_or_name(text: str) -> Any:
    return int(text) if re.fullmatch(r"-?\d+", text) else text


@cache
def rules() -> dict[str, tuple[int, str]]:
    from ipu import _core

    return {name: (flags, rule) for name, flags, rule in _core.op_table()}


def letter_of(op: str) -> str:
    """The letter of the op's own dtype, a capital, or of the first one."""
    letters = rules()[op][1].replace(":", "")
    return next(filter(str.isupper, letters), letters[:1]).upper()


def row(
    op: str, inputs: list[In], *outputs: Any, attrs: str = "", label: str = ""
) -> Row:
    made = [(o, OWN) if _is_shape(o) else o for o in outputs]
    return Row(op, tuple(inputs), tuple(made), attrs, label)


def _is_shape(given: Any) -> bool:
    return all(isinstance(n, int) for n in given)


# --- rows of any shape ----------------------------------------------------------------

ELEMENTWISE = 1 << 2
DOMAINS: dict[str, Make] = {
    "acosh": above_one,
    "zeta": above_one,
    "polygamma": above_one,
    **dict.fromkeys(
        "log log2 sqrt rsqrt lgamma digamma erfinv ndtri pow igamma igammac "
        "igamma_slope reciprocal rsqrt_grad sqrt_grad reciprocal_grad div".split(),
        positive,
    ),
}
CASTS = (
    "float32 float16, float16 float32, float32 int32, int32 float32, float32 float64, "
    "float64 float32, float32 int8, int64 float32, uint8 float32, int64 int32, "
    "bool float32"
)


def elementwise(shape: Shape) -> Iterator[Row]:
    for name, (flags, rule) in rules().items():
        given, _, made = rule.partition(":")
        if not flags & ELEMENTWISE or name in ("fused_elementwise", "cast"):
            continue
        make = DOMAINS.get(name, signed)
        inputs = [
            In(shape, below(2), "bool") if letter == "b" else In(shape, make)
            for letter in given
        ]
        if name in ("floor_div", "floor_mod", "zeta", "polygamma"):
            inputs[1] = In(shape, above_one)
        if name.endswith("shift"):
            inputs[1] = In(shape, below(7))
        yield Row(name, tuple(inputs), ((shape, "bool" if made == "b" else OWN),))
    for pair in CASTS.split(", "):
        source, target = pair.split(" ")
        one = In(shape, below(2) if source == "bool" else signed, source)
        attrs = f"dtype={target}"
        yield Row("cast", (one,), ((shape, target),), attrs, f"{source} {target}")
    rows, columns = shape
    for label, other in (("a row", (columns,)), ("a column", (rows, 1))):
        yield row("add", [In(shape), In(other)], shape, label=label)


def reductions(shape: Shape) -> Iterator[Row]:
    rows, columns = shape
    places: tuple[tuple[str, str, Shape], ...] = (
        ("all", "0,1", ()),
        ("last axis", "1", (rows,)),
        ("first axis", "0", (columns,)),
    )
    makes = {"prod": near_one, "any": all_of(0), "all": all_of(1)}
    for op in ("sum", "mean", "max", "min", "prod", "any", "all"):
        kind = "bool" if op in ("any", "all") else OWN
        one = In(shape, makes.get(op, signed), kind)
        for label, axes, out in places:
            attrs = f"axes=[{axes}], keep_dims=false"
            yield row(op, [one], (out, kind), attrs=attrs, label=label)
    for axis, (label, _, out) in ((1, places[1]), (0, places[2])):
        for op in ("argmin", "argmax"):
            attrs = f"axis={axis}, dtype=int32"
            yield row(op, [In(shape)], (out, "int32"), attrs=attrs, label=label)
        for op in ("cumsum", "cumprod"):
            attrs = f"axis={axis}, exclusive=false, reverse=false"
            one = In(shape, near_one if op == "cumprod" else signed)
            yield row(op, [one], shape, attrs=attrs, label=label)
        attrs = f"axis={axis}, reverse=false"
        pair = [In(shape), In(shape)]
        yield row("recurrence", pair, shape, attrs=attrs, label=label)
    for label, depth in (("few", min(TOP, columns)), ("sort", columns)):
        attrs = f"depth={depth}, ascending=false"
        out = (rows, depth)
        yield row("top_k", [In(shape)], out, (out, "int32"), attrs=attrs, label=label)
    yield row("softmax", [In(shape)], shape)
    yield row("log_softmax", [In(shape)], shape)
    labels = In((rows,), below(columns), "int32")
    yield row("sparse_cross_entropy", [In(shape), labels], (rows,), shape)
    yield row("cross_entropy", [In(shape), In(shape, positive)], (rows,), shape)


def text_of(shape: Shape) -> str:
    return f"[{','.join(map(str, shape))}]"


def movement(shape: Shape) -> Iterator[Row]:
    rows, columns = shape
    x, whole = In(shape), text_of(shape)
    yield row("transpose", [x], (columns, rows), attrs="perm=[1,0]")
    yield row("broadcast", [In((columns,))], shape, attrs=f"shape={whole}")
    yield row("concat", [x, x], (rows, 2 * columns), attrs="axis=1", label="last axis")
    yield row("concat", [x, x], (2 * rows, columns), attrs="axis=0", label="first axis")
    half = (rows, columns // 2)
    for label, begin, stride in (
        ("half of each row", columns - half[1], 1),
        ("every other column", 0, 2),
    ):
        attrs = f"begin=[0,{begin}], size={text_of(half)}, strides=[1,{stride}]"
        yield row("slice", [x], half, attrs=attrs, label=label)
        attrs += f", shape={whole}"
        yield row("slice_grad", [In(half)], shape, attrs=attrs, label=label)
    picked = In((rows,), below(rows), "int32")
    yield row("gather", [x, picked], shape, attrs="axis=0, batch_dims=0")
    yield row("gather_grad", [picked, x], shape, attrs=f"axis=0, shape={whole}")
    start, some = In((), below(1), "int32"), (rows - rows // 2, columns)
    starts = [start, start]
    size = f"size={text_of(some)}"
    yield row("dynamic_slice", [x, *starts], some, attrs=size)
    yield row("dynamic_update_slice", [x, In(some), *starts], shape)
    yield row("dynamic_add_slice", [x, In(some), *starts], shape)
    points = In((rows, 1), below(rows), "int32")
    yield row("gather_nd", [x, points], shape)
    yield row("scatter_nd", [points, x], shape, attrs=f"shape={whole}")
    for number, name in enumerate(("update", "add", "mul", "min", "max")):
        attrs = f"reduction={number}"
        yield row("tensor_scatter", [x, points, x], shape, attrs=attrs, label=name)
    depth = f"depth={columns}, axis=-1, on_value=1.0, off_value=0.0, dtype={{own}}"
    yield row("one_hot", [In((rows,), below(columns), "int32")], shape, attrs=depth)


def random_numbers(shape: Shape) -> Iterator[Row]:
    seeds = "seed=1, ordinal=1"
    attrs = f"shape={text_of(shape)}, dtype={{own}}, {seeds}"
    for op in ("random_uniform", "random_normal", "truncated_normal"):
        yield row(op, [], shape, attrs=attrs)
    ends = [In((), all_of(0), OWN), In((), all_of(100), OWN)]
    yield row("random_integer", ends, shape, attrs=attrs)
    yield row("random_gamma", [In(shape, above_one)], shape, attrs=seeds)
    yield row("random_poisson", [In(shape, above_one)], shape, attrs=seeds)
    counts = In(shape, all_of(10))
    yield row("random_binomial", [counts, In(shape, positive)], shape, attrs=seeds)
    yield row(
        "dropout", [In(shape)], shape, (shape, "bool"), attrs=f"rate=0.5, {seeds}"
    )


# --- rows with shapes of their own ----------------------------------------------------


def normalizations() -> Iterator[Row]:
    for label, shape, groups in (
        ("batch", (1, 8192, 64), 64),
        ("layer", (2048, 1, 256), 1),
        ("group", (16, 256, 64), 8),
        ("instance", (16, 256, 64), 64),
    ):
        outer, _, channels = shape
        each = In((channels,), positive, STATISTICS)
        moment = ((outer, groups), STATISTICS)
        attrs = f"groups={groups}, strided=false, epsilon=0.001"
        yield row(
            "normalize",
            [In(shape), each, each],
            shape,
            moment,
            moment,
            attrs=attrs,
            label=label,
        )
        stat = In((outer, groups), positive, STATISTICS)
        more = ((channels,), STATISTICS)
        yield row(
            "normalize_grad",
            [In(shape), In(shape), each, stat, stat],
            shape,
            more,
            more,
            attrs=attrs,
            label=label,
        )


def strided(edge: int, window: int, stride: int) -> str:
    """Attributes of two axes that are padded so that each stride has a window."""
    around = max(0, (-(-edge // stride) - 1) * stride + window - edge)
    pair = f"{around // 2},{around - around // 2}"
    return f"strides=[{stride},{stride}], padding=[{pair},{pair}]"


def windows() -> Iterator[Row]:
    x, half = (16, 32, 32, 32), (16, 16, 16, 32)
    for label, size, stride, out in (("2x2", 2, 2, half), ("3x3", 3, 1, x)):
        attrs = f"window=[{size},{size}], {strided(32, size, stride)}"
        yield row("max_pool", [In(x)], out, attrs=attrs, label=label)
        yield row("average_pool", [In(x)], out, attrs=attrs, label=label)
        yield row(
            "max_pool_grad", [In(x), In(out), In(out)], x, attrs=attrs, label=label
        )
        yield row(
            "max_pool_pick", [In(x), In(out), In(x)], out, attrs=attrs, label=label
        )
        shape = ",".join(map(str, x))
        yield row(
            "average_pool_grad",
            [In(out)],
            x,
            attrs=f"{attrs}, shape=[{shape}]",
            label=label,
        )
    for label, images, edge, channels, filters, kernel, stride in (
        ("3x3", 8, 32, 32, 32, 3, 1),
        ("1x1", 8, 32, 64, 128, 1, 1),
        ("first", 8, 64, 3, 32, 3, 1),
        ("stride 2", 8, 32, 32, 64, 3, 2),
        ("7x7x512", 4, 7, 256, 256, 3, 1),
    ):
        side = -(-edge // stride)
        a, b = (images, edge, edge, channels), (images, side, side, filters)
        w = (kernel, kernel, channels, filters)
        attrs = strided(edge, kernel, stride)
        text = [",".join(map(str, s)) for s in (a, w)]
        yield row("conv", [In(a), In(w)], b, attrs=attrs, label=label)
        yield row(
            "conv_grad_input",
            [In(b), In(w)],
            a,
            attrs=f"{attrs}, shape=[{text[0]}]",
            label=label,
        )
        yield row(
            "conv_grad_filter",
            [In(a), In(b)],
            w,
            attrs=f"{attrs}, shape=[{text[1]}]",
            label=label,
        )


def _flag(given: int) -> str:
    return "true" if given else "false"


def products() -> Iterator[Row]:
    for m, k, n in (
        (32, 784, 256),
        (512, 512, 512),
        (128, 1024, 1024),
        (1, 1024, 1024),
        (1024, 1024, 1),
        (64, 64, 64),
        (8, 8, 8),
        (1, 1_000_000, 1),
        (509, 503, 499),
        (100_000, 8, 8),
        (3, 4096, 4096),
    ):
        for ta, tb in ((0, 0), (1, 0), (0, 1)):
            a, b = ((k, m) if ta else (m, k)), ((n, k) if tb else (k, n))
            attrs = f"transpose_a={_flag(ta)}, transpose_b={_flag(tb)}"
            kinds = "^T" if ta else "", "^T" if tb else ""
            yield row(
                "matmul",
                [In(a), In(b)],
                (m, n),
                attrs=attrs,
                label=f"{m}x{k}{kinds[0]} {k}x{n}{kinds[1]}",
            )
    for count, m, k, n in ((48, 64, 32, 64), (1000, 8, 8, 8)):
        many = [In((count, m, k)), In((count, k, n))]
        yield row("matmul", many, (count, m, n), label=f"{count} of {m}x{k} {k}x{n}")
    yield row(
        "fused_matmul",
        [In((128, 512)), In((512, 512)), In((512,))],
        (128, 512),
        attrs="activation=1",
        label="bias, relu",
    )


def sequences() -> Iterator[Row]:
    steps, batch, units = 40, 32, 128
    x, h, hs = In((steps, batch, 4 * units)), In((batch, units)), (steps, batch, units)
    k = In((units, 4 * units))
    flags = "axis=0, reverse=false"
    yield row("lstm", [x, k, h, h], x.shape, hs, h.shape, h.shape, hs, attrs=flags)
    yield row(
        "lstm_grad",
        [x, k, In(hs), In(hs), h, h, In(hs)],
        x.shape,
        hs,
        h.shape,
        h.shape,
        attrs=f"{flags}, given=2",
    )
    x, k = In((steps, batch, 3 * units)), In((units, 3 * units))
    more = f"{flags}, reset_after=true"
    yield row("gru", [x, k, h, In((3 * units,))], x.shape, hs, h.shape, hs, attrs=more)
    yield row(
        "gru_grad",
        [x, k, In(hs), In(hs), h, In(hs)],
        x.shape,
        x.shape,
        hs,
        h.shape,
        attrs=f"{more}, given=2",
    )
    q = In((8, 8, 128, 64))
    scores = "scale=0.125, causal=false, divides=false, hidden=-1000000000.0"
    scores += ", replaces=false, rate=0.0, given=0"
    yield row("attention", [q, q, q], q.shape, attrs=scores)
    yield row("attention_grad", [q, q, q, q], q.shape, q.shape, q.shape, attrs=scores)


def linear() -> Iterator[Row]:
    for n in (8, 127, 512):
        label, shape = f"{n} x {n}", (n, n)
        a, b = In(shape, definite), In((n, 16))
        sides = "lower=true, transpose_a=false"
        yield row("cholesky", [a], shape, label=label)
        yield row("triangular_solve", [a, b], b.shape, attrs=sides, label=label)
        yield row("solve", [a, b], b.shape, attrs="transpose_a=false", label=label)
        yield row("det", [a], (), label=label)
        yield row("slogdet", [a], (), (), label=label)
        yield row("qr", [a], shape, shape, label=label)
        yield row("eigh", [a], (n,), shape, label=label)
        yield row("svd", [a], (n,), shape, shape, label=label)
        yield row("lu", [a], shape, ((n,), "int32"), label=label)
    many = (1000, 8, 8)
    label, a, b = "1000 of 8 x 8", In(many, definite), In((1000, 8, 1))
    yield row("cholesky", [a], many, label=label)
    yield row("solve", [a, b], b.shape, attrs="transpose_a=false", label=label)
    yield row("eigh", [a], many[:2], many, label=label)


# what has no row of its own: no bytes move; the fuse pass makes it, of ops that have a
# row; it is one of many replicas or belongs to a variable, a queue or a block
WITHOUT_ROW = frozenset(
    """constant held empty identity checkpoint stop_gradient custom_gradient reshape
    bitcast fused_elementwise matmul_accumulate fused_conv fused_conv_grad_input
    matmul_sgd_update gather_sgd_update fused_update adam_rate
    all_reduce all_gather all_to_all reduce_scatter replica_index
    variable_read variable_assign variable_add sgd_update adam_update
    infeed_dequeue outfeed_enqueue host_call round_stochastic
    repeat pipeline while switch""".split()
)

GROUPS: dict[str, Callable[[Shape], Iterator[Row]]] = {
    "element-wise": elementwise,
    "reduction": reductions,
    "movement": movement,
    "random": random_numbers,
}
OWN_GROUPS: dict[str, Callable[[], Iterator[Row]]] = {
    "norm": normalizations,
    "window": windows,
    "product": products,
    "sequence": sequences,
    "linear": linear,
}


def shape_of(size: str, dtype: str) -> Shape:
    return square_shape(SIZES[size], dtype) if size in SIZES else AWKWARD[size]


def rows_of(group: str, shape: Shape) -> list[Row]:
    """The rows of a group, of operands of that shape where it has none of its own."""
    made = GROUPS[group](shape) if group in GROUPS else OWN_GROUPS[group]()
    return list(made)
