# SPDX-License-Identifier: MIT
"""float16 beside float32, op by op: `python -m benchmarks.halves`.

A row is an op of the table as a graph calls it, in a loop on the device, with the same
numbers in both dtypes. The ratio is the time of float32 over that of float16: where
memory is the limit half the bytes may give 2, and 0.9 is wanted; nowhere less than
0.5. Rounds alternate, a round is the fastest of three repetitions, the figure the
median of the rounds. The command ends with 1 where a row is below 0.5.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.op_inputs import Array
from benchmarks.ops import set_threads, text_of
from benchmarks.report import Table, machine

LEAST = 0.5
REPETITION_S = 2e-3
SETTLE_S = 0.002
FLOAT = "float"  # the dtype that is measured
ELEMENTWISE = 1 << 2
Shape = tuple[int, ...]
Make = Callable[[np.random.Generator, Shape], Array]


def positive(rng: np.random.Generator, shape: Shape) -> Array:
    return rng.uniform(0.25, 0.75, shape)


def signed(rng: np.random.Generator, shape: Shape) -> Array:
    return rng.uniform(-1, 1, shape)


def above_one(rng: np.random.Generator, shape: Shape) -> Array:
    return rng.uniform(1.25, 3, shape)


def below(end: int) -> Make:
    return lambda rng, shape: rng.integers(0, end, shape)


@dataclasses.dataclass(frozen=True)
class In:
    """An operand."""

    shape: Shape
    make: Make = signed
    dtype: str = FLOAT


@dataclasses.dataclass(frozen=True)
class Row:
    """An op with operands.

    Attributes:
        outputs: Shape and dtype of each result.
    """

    op: str
    inputs: tuple[In, ...]
    outputs: tuple[tuple[Shape, str], ...]
    attrs: str = ""
    label: str = ""

    @property
    def name(self) -> str:
        return f"{self.op}, {self.label}" if self.label else self.op


def row(
    op: str, inputs: list[In], *outputs: Any, attrs: str = "", label: str = ""
) -> Row:
    made = [
        (o, FLOAT) if isinstance(o[0:1], tuple) and _is_shape(o) else o for o in outputs
    ]
    return Row(op, tuple(inputs), tuple(made), attrs, label)


def _is_shape(given: Any) -> bool:
    return all(isinstance(n, int) for n in given)


# --- rows -----------------------------------------------------------------------------

MANY = (1 << 18,)
MATRIX = (256, 1000)
DOMAINS: dict[str, Make] = {
    "acosh": above_one,
    "zeta": above_one,
    "polygamma": above_one,
    **dict.fromkeys(
        "log log2 sqrt rsqrt lgamma digamma erfinv ndtri pow igamma igammac "
        "igamma_slope reciprocal rsqrt_grad sqrt_grad div".split(),
        positive,
    ),
}


def elementwise() -> Iterator[Row]:
    from ipu import _core

    for name, flags, rule in _core.op_table():
        given, _, made = rule.partition(":")
        if not flags & ELEMENTWISE or name == "fused_elementwise":
            continue
        if not set(given) & set("FNAafn"):
            continue
        make = DOMAINS.get(name, signed)
        inputs = [
            In(MANY, below(2), "bool") if letter == "b" else In(MANY, make)
            for letter in given
        ]
        if name in ("floor_div", "floor_mod", "zeta", "polygamma"):
            inputs[1] = In(MANY, above_one)
        if name == "cast":
            yield Row(
                "cast", tuple(inputs), ((MANY, "int32"),), "dtype=int32", "to int32"
            )
            one = In(MANY, below(100), "int32")
            yield Row("cast", (one,), ((MANY, FLOAT),), "dtype={float}", "of int32")
            continue
        yield Row(name, tuple(inputs), ((MANY, "bool" if made == "b" else FLOAT),))
    bias = In((1000,))
    for op in ("add", "mul"):
        yield row(op, [In(MATRIX), bias], MATRIX, label="a row")
        yield row(op, [In(MATRIX), In((256, 1))], MATRIX, label="a column")
        yield row(op, [In(MATRIX), In(())], MATRIX, label="a number")
    big = (4096, 4096)
    yield row("add", [In(big), In(big)], big, label="large")
    yield row("exp", [In(big)], big, label="large")
    yield row("add", [In((64,)), In((64,))], (64,), label="small")


def reductions() -> Iterator[Row]:
    cases = (
        ("all", MATRIX, (0, 1), ()),
        ("last axis", MATRIX, (1,), (256,)),
        ("first axis", MATRIX, (0,), (1000,)),
        ("middle axis", (16, 256, 64), (1,), (16, 64)),
        ("narrow", (25600, 10), (1,), (25600,)),
        ("large", (4096, 4096), (1,), (4096,)),
    )
    for op in ("sum", "mean", "max", "min", "prod"):
        for label, shape, axes, out in cases:
            text = ",".join(map(str, axes))
            attrs = f"axes=[{text}], keep_dims=false"
            yield row(op, [In(shape)], out, attrs=attrs, label=label)
    for op in ("argmin", "argmax"):
        for axis, out in ((1, (256,)), (0, (1000,))):
            attrs = f"axis={axis}, dtype=int32"
            yield row(
                op, [In(MATRIX)], (out, "int32"), attrs=attrs, label=f"axis {axis}"
            )
    for op in ("cumsum", "cumprod"):
        for axis in (1, 0):
            attrs = f"axis={axis}, exclusive=false, reverse=false"
            yield row(op, [In(MATRIX)], MATRIX, attrs=attrs, label=f"axis {axis}")
    for axis in (1, 0):
        attrs = f"axis={axis}, reverse=false"
        yield row(
            "recurrence",
            [In(MATRIX), In(MATRIX)],
            MATRIX,
            attrs=attrs,
            label=f"axis {axis}",
        )
    for depth in (8, 1000):
        attrs = f"depth={depth}, ascending=false"
        out = (256, depth)
        yield row(
            "top_k", [In(MATRIX)], out, (out, "int32"), attrs=attrs, label=str(depth)
        )
    for shape in (MATRIX, (2048, 128), (25600, 10)):
        label = f"{shape[0]}x{shape[1]}"
        rows, wide = shape
        labels = In((rows,), below(wide), "int32")
        yield row("softmax", [In(shape)], shape, label=label)
        yield row("log_softmax", [In(shape)], shape, label=label)
        yield row(
            "sparse_cross_entropy", [In(shape), labels], (rows,), shape, label=label
        )
        yield row(
            "cross_entropy",
            [In(shape), In(shape, positive)],
            (rows,),
            shape,
            label=label,
        )


def normalizations() -> Iterator[Row]:
    for label, shape, groups in (
        ("batch", (1, 8192, 64), 64),
        ("layer", (2048, 1, 256), 1),
        ("group", (16, 256, 64), 8),
        ("instance", (16, 256, 64), 64),
    ):
        outer, _, channels = shape
        each = In((channels,), positive, "float32")
        moment = ((outer, groups), "float32")
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
        stat = In((outer, groups), positive, "float32")
        more = ((channels,), "float32")
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
    many = [In((48, 64, 32)), In((48, 32, 64))]
    yield row("matmul", many, (48, 64, 64), label="batch of 48")
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


def movement() -> Iterator[Row]:
    wide = (1000, 256)
    yield row("transpose", [In(MATRIX)], wide, attrs="perm=[1,0]")
    yield row(
        "transpose",
        [In((16, 32, 32, 32))],
        (16, 32, 32, 32),
        attrs="perm=[0,3,1,2]",
        label="channels first",
    )
    yield row("broadcast", [In((1000,))], MATRIX, attrs="shape=[256,1000]")
    yield row("concat", [In(MATRIX), In(MATRIX)], (256, 2000), attrs="axis=1")
    yield row(
        "slice",
        [In(MATRIX)],
        (256, 500),
        attrs="begin=[0,250], size=[256,500], strides=[1,1]",
    )
    yield row(
        "slice",
        [In(MATRIX)],
        (256, 500),
        attrs="begin=[0,0], size=[256,500], strides=[1,2]",
        label="every other column",
    )
    yield row(
        "slice_grad",
        [In((256, 500))],
        MATRIX,
        attrs="begin=[0,250], size=[256,500], strides=[1,1], shape=[256,1000]",
    )
    rows = In((512,), below(256), "int32")
    yield row("gather", [In(MATRIX), rows], (512, 1000), attrs="axis=0, batch_dims=0")
    yield row(
        "gather_grad", [rows, In((512, 1000))], MATRIX, attrs="axis=0, shape=[256,1000]"
    )
    start = In((), below(1), "int32")
    yield row(
        "dynamic_slice", [In(MATRIX), start], (128, 1000), attrs="size=[128,1000]"
    )
    yield row("dynamic_update_slice", [In(MATRIX), In((128, 1000)), start], MATRIX)
    yield row("dynamic_add_slice", [In(MATRIX), In((128, 1000)), start], MATRIX)
    pairs = In((512, 1), below(256), "int32")
    yield row("gather_nd", [In(MATRIX), pairs], (512, 1000))
    yield row("scatter_nd", [pairs, In((512, 1000))], MATRIX, attrs="shape=[256,1000]")
    for number, name in enumerate(("update", "add", "sub", "min", "max")):
        yield row(
            "tensor_scatter",
            [In(MATRIX), pairs, In((512, 1000))],
            MATRIX,
            attrs=f"reduction={number}",
            label=name,
        )
    yield row(
        "one_hot",
        [In((256,), below(1000), "int32")],
        MATRIX,
        attrs="depth=1000, axis=-1, on_value=1.0, off_value=0.0, dtype={float}",
    )


def random_numbers() -> Iterator[Row]:
    attrs = "shape=[262144], dtype={float}, seed=1, ordinal=1"
    for op in ("random_uniform", "random_normal", "truncated_normal"):
        yield row(op, [], MANY, attrs=attrs)
    less = (1 << 14,)
    seeds = "seed=1, ordinal=1"
    yield row("random_gamma", [In(less, above_one)], less, attrs=seeds)
    yield row("random_poisson", [In(less, above_one)], less, attrs=seeds)
    yield row(
        "random_binomial",
        [In(less, lambda rng, s: np.full(s, 10.0)), In(less, positive)],
        less,
        attrs=seeds,
    )
    yield row("dropout", [In(MANY)], MANY, (MANY, "bool"), attrs=f"rate=0.5, {seeds}")


# what has no row of its own: no bytes move; the fuse pass makes it of float32 alone, or
# of ops that have a row; it is one of many replicas or belongs to a variable or a queue
WITHOUT_ROW = set(
    """constant held empty identity checkpoint stop_gradient custom_gradient reshape
    bitcast fused_elementwise matmul_accumulate fused_conv fused_conv_grad_input
    matmul_sgd_update gather_sgd_update fused_update adam_rate
    all_reduce all_gather all_to_all reduce_scatter
    variable_read variable_assign variable_add sgd_update adam_update
    infeed_dequeue outfeed_enqueue host_call round_stochastic
    repeat pipeline while switch""".split()
)


def rows() -> list[Row]:
    return [
        *elementwise(),
        *reductions(),
        *normalizations(),
        *windows(),
        *products(),
        *sequences(),
        *movement(),
        *random_numbers(),
    ]


# --- measuring ------------------------------------------------------------------------


def text_of_type(shape: Shape, dtype: str) -> str:
    return f"{dtype}[{','.join(map(str, shape))}]"


def graph_of(one: Row, dtype: str) -> str:
    """A program that does the op as often as its last input says."""

    def kind(given: str) -> str:
        return dtype if given == FLOAT else given

    given = [text_of_type(i.shape, kind(i.dtype)) for i in one.inputs]
    made = [text_of_type(shape, kind(d)) for shape, d in one.outputs]
    count, results = len(given), len(made)
    params = [f"%{i}: {t}" for i, t in enumerate([*given, *made, "int32[]"])]
    turns = count + results
    block = [f"%{turns + 1 + i}: {t}" for i, t in enumerate(made)]
    first = turns + 1 + results
    names = ", ".join(f"%{first + i}" for i in range(results))
    operands = ", ".join(f"%{i}" for i in range(count))
    starts = ", ".join(f"%{count + i}" for i in range(results))
    attrs = " {" + one.attrs.replace("{float}", dtype) + "}" if one.attrs else ""
    last = first + results
    ends = ", ".join(f"%{last + i}" for i in range(results))
    types = ", ".join(made)
    return (
        f"device graph\nblock b0({', '.join(params)}) {{\n"
        f"block b1({', '.join(block)}) {{\n"
        f"{names} = {one.op}({operands}){attrs} : {types}\n}} -> ({names})\n"
        f"{ends} = repeat(%{turns}, {starts}) {{body=b1}} : {types}\n}} -> ({ends})\n"
    )


def timer(one: Row, dtype: str) -> Callable[[int], float]:
    from ipu import _core, tf

    rng = np.random.default_rng(1)

    def made(shape: Shape, kind: str, make: Make | None) -> Any:
        value = np.zeros(shape) if make is None else make(rng, shape)
        return tf.constant(np.asarray(value).astype(dtype if kind == FLOAT else kind))

    program = _core.graph_compile(graph_of(one, dtype))
    inputs = [made(i.shape, i.dtype, i.make) for i in one.inputs]
    starts = [made(shape, kind, None) for shape, kind in one.outputs]

    def seconds(calls: int) -> float:
        program.run([*inputs, *starts, np.int32(calls)])
        return float(program.stats["run_ns"]) * 1e-9 / calls

    return seconds


def measure(one: Row, rounds: int) -> tuple[float, float]:
    """Seconds of a call in float32 and in float16."""
    timers = [timer(one, "float32"), timer(one, "float16")]
    counts = [max(1, int(REPETITION_S / max(t(2), 1e-9))) for t in timers]
    found: list[list[float]] = [[], []]
    for turn in range(rounds):
        for i in (0, 1) if turn % 2 == 0 else (1, 0):
            time.sleep(SETTLE_S)
            found[i].append(min(timers[i](counts[i]) for _ in range(3)))
    return statistics.median(found[0]), statistics.median(found[1])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.halves",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rows", default="", help="parts of names, with commas")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args(arguments)
    wanted = options.rows.split(",")
    gc.disable()
    found = []
    for threads in map(int, options.threads.split(",")):
        set_threads(threads)
        for one in rows():
            if any(name in one.name for name in wanted):
                single, half = measure(one, options.rounds)
                found.append((single / half, one.name, threads, single, half))
                print(f"{single / half:.2f}  {one.name}", file=sys.stderr, flush=True)
    found.sort()
    shown = [
        [name, str(threads), text_of(single), text_of(half), f"{ratio:.2f}"]
        for ratio, name, threads, single, half in found
    ]
    columns = ["op", "threads", "float32", "float16", "ratio"]
    low = sum(ratio < LEAST for ratio, *_ in found)
    about = ", ".join(f"{name} {value}" for name, value in machine().items())
    remarks = [f"{len(found)} figures, {low} below {LEAST}.", about]
    table = Table("float16 beside float32", columns, shown, remarks)
    print(table.markdown()) if options.markdown else table.show()
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
