# SPDX-License-Identifier: MIT
"""What one statement may compute: an expression and its shape, from values at hand.

All are smooth nearly everywhere; where an op has a pole or a branch, its argument is
kept away from it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from .program import Shape


class Operand(NamedTuple):
    """A value that a program has by a name."""

    name: str
    shape: Shape


# Where arguments are equal, or 0, these have no derivative, or more than one.
KINKED = frozenset(
    "abs relu relu6 elu selu leaky_relu softsign clip floor_mod maximum minimum where "
    "select_masked reduce_max reduce_min sort top_k segment cond python_if switch_case "
    "while_loop index".split()
)
Counters = Sequence[tuple[str, int]]
Made = tuple[str, Shape] | None
Maker = Callable[[random.Random, Operand, Sequence[Operand], Counters], Made]

UNARY = {
    "sin": "tf.sin({0})",
    "cos": "tf.cos({0})",
    "tan": "tf.tan(0.3 * tf.sin({0}))",
    "asin": "tf.asin(0.5 * tf.sin({0}))",
    "acos": "tf.acos(0.5 * tf.sin({0}))",
    "atan": "tf.atan({0})",
    "sinh": "tf.sinh(tf.sin({0}))",
    "cosh": "tf.cosh(tf.sin({0}))",
    "tanh": "tf.tanh({0})",
    "asinh": "tf.asinh({0})",
    "acosh": "tf.acosh(1.5 + tf.square(tf.sin({0})))",
    "atanh": "tf.atanh(0.5 * tf.sin({0}))",
    "sigmoid": "tf.sigmoid({0})",
    "log_sigmoid": "tf.math.log_sigmoid({0})",
    "softplus": "tf.nn.softplus({0})",
    "exp": "tf.exp(tf.sin({0}))",
    "expm1": "tf.math.expm1(0.5 * tf.sin({0}))",
    "log": "tf.math.log(1.5 + tf.square({0}))",
    "log1p": "tf.math.log1p(tf.square({0}))",
    "sqrt": "tf.sqrt(0.5 + tf.square({0}))",
    "rsqrt": "tf.math.rsqrt(1.0 + tf.square({0}))",
    "reciprocal": "tf.math.reciprocal(1.0 + tf.square({0}))",
    "square": "tf.square({0})",
    "neg": "-{0}",
    "abs": "tf.abs({0})",
    "relu": "tf.nn.relu({0})",
    "relu6": "tf.nn.relu6({0})",
    "elu": "tf.nn.elu({0})",
    "selu": "tf.nn.selu({0} - 0.37)",
    "gelu": "tf.nn.gelu({0})",
    "swish": "tf.nn.swish({0})",
    "softsign": "tf.nn.softsign({0})",
    "leaky_relu": "tf.nn.leaky_relu({0})",
    "erf": "tf.math.erf({0})",
    "erfc": "tf.math.erfc({0})",
    "erfinv": "tf.math.erfinv(0.5 * tf.sin({0}))",
    "identity": "tf.identity({0})",
    "add_number": "{0} + {number}",
    "scaled": "{number} * {0}",
    "over": "{number} / (1.0 + tf.square({0}))",
    "plus_itself": "{0} + {0}",
    "times_itself": "{0} * {0}",
    "clip": "tf.clip_by_value({0}, -1.07, 1.03)",
    "floor_mod": "tf.math.floormod({0}, 1.77)",
    "zeros_like": "{0} + tf.zeros_like({0})",
    "polyval": "tf.math.polyval([{0}, 0.5 * {0}, 1.0 + {0}], tf.sin({0}))",
}
POWERS = {f"power_{n}": f"tf.pow({{0}}, {n}.0)" for n in (0, 1, 2, 3)}
BINARY = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "maximum": "tf.maximum({0}, {1})",
    "minimum": "tf.minimum({0}, {1})",
    "div": "{0} / (1.5 + tf.square({1}))",
    "atan2": "tf.atan2({0}, 1.5 + tf.square({1}))",
    "squared_difference": "tf.math.squared_difference({0}, {1})",
    "where": "tf.where({0} > {1}, tf.sin({0}), tf.square({1}))",
    "pow": "tf.pow(1.5 + tf.square(tf.sin({0})), tf.sin({1}))",
    "xlogy": "tf.math.xlogy(1.5 + tf.sin({0}), 1.5 + tf.square({1}))",
    "select_masked": "tf.where({0} * {1} > 0.1, {0} * {1}, tf.zeros_like({0} * {1}))",
}


def elementwise(form: str) -> Maker:
    def make(d: random.Random, x: Operand, _: Sequence[Operand], __: Counters) -> Made:
        return form.format(x.name, number=round(d.uniform(-2, 2), 2)), x.shape

    return make


def broadcasting(form: str) -> Maker:
    def make(
        d: random.Random, x: Operand, values: Sequence[Operand], _: Counters
    ) -> Made:
        y = d.choice([*values[-6:], x])
        try:
            shape = np.broadcast_shapes(x.shape, y.shape)
        except ValueError:
            return None
        return form.format(x.name, y.name), tuple(shape)

    return make


def reduced(shape: Shape, axes: Sequence[int], keep: bool) -> Shape:
    if keep:
        return tuple(1 if k in axes else s for k, s in enumerate(shape))
    return tuple(s for k, s in enumerate(shape) if k not in axes)


def reduction(form: str) -> Maker:
    def make(d: random.Random, x: Operand, _: Sequence[Operand], __: Counters) -> Made:
        rank = len(x.shape)
        axes = sorted(d.sample(range(rank), d.randint(0, rank))) or list(range(rank))
        keep = d.random() < 0.4
        more = f"axis={axes}, keepdims={keep}"
        return form.format(x.name, more), reduced(x.shape, axes, keep)

    return make


REDUCTIONS = {
    "reduce_sum": "tf.reduce_sum({0}, {1})",
    "reduce_mean": "tf.reduce_mean({0}, {1})",
    "reduce_max": "tf.reduce_max({0}, {1})",
    "reduce_min": "tf.reduce_min({0}, {1})",
    "reduce_prod": "tf.reduce_prod({0}, {1})",
    "reduce_logsumexp": "tf.reduce_logsumexp({0}, {1})",
    "reduce_variance": "tf.math.reduce_variance({0}, {1})",
    "reduce_norm": "tf.norm(1.5 + tf.square({0}), {1})",
}


def with_axis(form: str, fewest: int = 1) -> Maker:
    """Of a tensor with axes; the shape stays."""

    def make(d: random.Random, x: Operand, _: Sequence[Operand], __: Counters) -> Made:
        if not x.shape or min(x.shape) < fewest:
            return None
        flags = f"exclusive={d.random() < 0.4}, reverse={d.random() < 0.4}"
        axis = d.randrange(len(x.shape))
        return form.format(x.name, axis=axis, flags=flags), x.shape

    return make


AXIS = {
    "cumsum": "tf.cumsum({0}, axis={axis}, {flags})",
    "cumprod": "tf.math.cumprod({0}, axis={axis}, {flags})",
    "softmax": "tf.nn.softmax({0}, axis={axis})",
    "log_softmax": "tf.nn.log_softmax({0}, axis={axis})",
    "sort": "tf.sort({0}, axis={axis})",
    "reverse": "tf.reverse({0}, [{axis}])",
    "roll": "tf.roll({0}, 1, {axis})",
    "l2_normalize": "tf.nn.l2_normalize(1.0 + tf.square({0}), axis={axis})",
}


# --- movement -------------------------------------------------------------------------


def reshape(d: random.Random, x: Operand, _: Sequence[Operand], __: Counters) -> Made:
    size = int(np.prod(x.shape))
    shapes = [(size,), (1, size), (size, 1)]
    for k in (2, 3):
        if size % k == 0:
            shapes += [(k, size // k), (size // k, k), (k, 1, size // k)]
    if size == 1:
        shapes.append(())
    shape = d.choice(shapes)
    return f"tf.reshape({x.name}, {list(shape)})", shape


def transpose(d: random.Random, x: Operand, _: Sequence[Operand], __: Counters) -> Made:
    perm = d.sample(range(len(x.shape)), len(x.shape))
    return f"tf.transpose({x.name}, {perm})", tuple(x.shape[p] for p in perm)


def broadcast_to(
    d: random.Random, x: Operand, _: Sequence[Operand], __: Counters
) -> Made:
    shape = tuple(d.choice([2, 3]) if s == 1 else s for s in x.shape)
    shape = (d.choice([1, 2]), *shape) if d.random() < 0.6 else shape
    return f"tf.broadcast_to({x.name}, {list(shape)})", shape


def tile(d: random.Random, x: Operand, _: Sequence[Operand], __: Counters) -> Made:
    if not x.shape:
        return None
    many = [d.choice([1, 1, 2]) for _ in x.shape]
    shape = tuple(s * m for s, m in zip(x.shape, many, strict=True))
    return f"tf.tile({x.name}, {many})", shape


def concat(
    d: random.Random, x: Operand, values: Sequence[Operand], __: Counters
) -> Made:
    if not x.shape:
        return None
    axis = d.randrange(len(x.shape))

    def rest(shape: Shape) -> Shape:
        return (*shape[:axis], *shape[axis + 1 :])

    fitting = [
        v
        for v in values
        if len(v.shape) == len(x.shape) and rest(v.shape) == rest(x.shape)
    ]
    chosen = [x, *(d.choice(fitting) for _ in range(d.randint(1, 2)))]
    d.shuffle(chosen)
    names = ", ".join(c.name for c in chosen)
    size = sum(c.shape[axis] for c in chosen)
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    return f"tf.concat([{names}], {axis})", shape


def stack(
    d: random.Random, x: Operand, values: Sequence[Operand], __: Counters
) -> Made:
    fitting = [v for v in values if v.shape == x.shape]
    chosen = [x, *(d.choice(fitting) for _ in range(d.randint(0, 2)))]
    axis = d.randint(0, len(x.shape))
    names = ", ".join(c.name for c in chosen)
    shape = (*x.shape[:axis], len(chosen), *x.shape[axis:])
    return f"tf.stack([{names}], {axis})", shape


def unstack(d: random.Random, x: Operand, _: Sequence[Operand], __: Counters) -> Made:
    if not x.shape:
        return None
    axis = d.randrange(len(x.shape))
    place = d.randrange(x.shape[axis])
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return f"tf.unstack({x.name}, axis={axis})[{place}]", shape


def split(d: random.Random, x: Operand, _: Sequence[Operand], __: Counters) -> Made:
    axes = [k for k, s in enumerate(x.shape) if s > 1]
    if not axes:
        return None
    axis = d.choice(axes)
    first = d.randrange(1, x.shape[axis])
    sizes = [first, x.shape[axis] - first]
    which = d.randrange(2)
    shape = (*x.shape[:axis], sizes[which], *x.shape[axis + 1 :])
    return f"tf.split({x.name}, {sizes}, axis={axis})[{which}]", shape


def strided(d: random.Random, x: Operand, _: Sequence[Operand], __: Counters) -> Made:
    if not x.shape:
        return None
    texts, picks = [], []
    for size in x.shape:
        kind = d.choice(["all", "all", "part", "step", "back", "one", "new"])
        if kind == "part" and size > 1:
            start = d.randrange(size)
            stop = d.randint(start + 1, size)
            texts.append(f"{start}:{stop}")
            picks.append(slice(start, stop))
        elif kind == "step":
            start = d.randrange(2) if size > 1 else 0
            texts.append(f"{start}::2")
            picks.append(slice(start, None, 2))
        elif kind == "back":
            texts.append("::-1")
            picks.append(slice(None, None, -1))
        elif kind == "one":
            place = d.randrange(-size, size)
            texts.append(str(place))
            picks.append(place)
        else:
            if kind == "new":
                texts.append("tf.newaxis")
                picks.append(None)
            texts.append(":")
            picks.append(slice(None))
    shape = np.zeros(x.shape)[tuple(picks)].shape
    return f"{x.name}[{', '.join(texts)}]", tuple(shape)


def expand(d: random.Random, x: Operand, _: Sequence[Operand], __: Counters) -> Made:
    axis = d.randint(0, len(x.shape))
    return f"tf.expand_dims({x.name}, {axis})", (*x.shape[:axis], 1, *x.shape[axis:])


def squeeze(d: random.Random, x: Operand, _: Sequence[Operand], __: Counters) -> Made:
    axes = [k for k, s in enumerate(x.shape) if s == 1]
    if not axes:
        return None
    axis = d.choice(axes)
    return f"tf.squeeze({x.name}, {axis})", (*x.shape[:axis], *x.shape[axis + 1 :])


def pad(d: random.Random, x: Operand, _: Sequence[Operand], __: Counters) -> Made:
    if not x.shape:
        return None
    mode = d.choice(["CONSTANT", "REFLECT", "SYMMETRIC"])
    widths = []
    for size in x.shape:
        most = {"CONSTANT": 2, "REFLECT": min(size - 1, 1), "SYMMETRIC": 1}[mode]
        widths.append([d.randint(0, most), d.randint(0, most)])
    shape = tuple(s + a + b for s, (a, b) in zip(x.shape, widths, strict=True))
    return f'tf.pad({x.name}, {widths}, "{mode}")', shape


def gather(
    d: random.Random, x: Operand, _: Sequence[Operand], counters: Counters
) -> Made:
    if not x.shape:
        return None
    axis = d.randrange(len(x.shape))
    size = x.shape[axis]
    usable = [name for name, bound in counters if 0 < bound <= size]
    if usable and d.random() < 0.5:
        at = d.choice(usable)
        shape = (*x.shape[:axis], *x.shape[axis + 1 :])
        return f"tf.gather({x.name}, {at}, axis={axis})", shape
    places = [d.randrange(size) for _ in range(d.randint(1, 3))]
    shape = (*x.shape[:axis], len(places), *x.shape[axis + 1 :])
    return f"tf.gather({x.name}, {places}, axis={axis})", shape


def dynamic_row(
    d: random.Random, x: Operand, _: Sequence[Operand], counters: Counters
) -> Made:
    """A row whose number is a loop's counter."""
    usable = [n for n, bound in counters if x.shape and 0 < bound <= x.shape[0]]
    if not usable:
        return None
    return f"{x.name}[{d.choice(usable)}]", x.shape[1:]


def dynamic_write(
    d: random.Random, x: Operand, values: Sequence[Operand], counters: Counters
) -> Made:
    usable = [n for n, bound in counters if x.shape and 0 < bound <= x.shape[0]]
    rows = [v for v in values if x.shape and v.shape == x.shape[1:]]
    if not usable or not rows:
        return None
    op = d.choice(["update", "add", "sub"])
    at, row = d.choice(usable), d.choice(rows).name
    text = f"tf.tensor_scatter_nd_{op}({x.name}, [[{at}]], {row}[tf.newaxis])"
    return text, x.shape


def scatter(
    d: random.Random, x: Operand, values: Sequence[Operand], __: Counters
) -> Made:
    if not x.shape:
        return None
    op = d.choice(["update", "add", "sub"])
    rows = [v for v in values if v.shape == x.shape[1:]]
    if not rows:
        return None
    at = d.randrange(x.shape[0])
    row = d.choice(rows).name
    text = f"tf.tensor_scatter_nd_{op}({x.name}, [[{at}]], {row}[tf.newaxis])"
    return text, x.shape


def scatter_nd(
    d: random.Random, x: Operand, _: Sequence[Operand], __: Counters
) -> Made:
    if not x.shape:
        return None
    places = [[d.randrange(3)] for _ in range(x.shape[0])]
    shape = (3, *x.shape[1:])
    return f"tf.scatter_nd({places}, {x.name}, {list(shape)})", shape


def gather_nd(d: random.Random, x: Operand, _: Sequence[Operand], __: Counters) -> Made:
    if len(x.shape) < 2:
        return None
    places = [
        [d.randrange(x.shape[0]), d.randrange(x.shape[1])]
        for _ in range(d.randint(1, 3))
    ]
    return f"tf.gather_nd({x.name}, {places})", (len(places), *x.shape[2:])


def segment_sum(
    d: random.Random, x: Operand, _: Sequence[Operand], __: Counters
) -> Made:
    if not x.shape:
        return None
    places = [d.randrange(3) for _ in range(x.shape[0])]
    which = d.choice(["sum", "mean", "max"])
    shape = (3, *x.shape[1:])
    text = f"tf.math.unsorted_segment_{which}({x.name}, {places}, 3)"
    if which == "max":  # segments without rows hold the lowest number
        text = f"tf.maximum({text}, -3.0)"
    return text, shape


def repeat(d: random.Random, x: Operand, _: Sequence[Operand], __: Counters) -> Made:
    if not x.shape:
        return None
    axis = d.randrange(len(x.shape))
    shape = (*x.shape[:axis], x.shape[axis] * 2, *x.shape[axis + 1 :])
    return f"tf.repeat({x.name}, 2, axis={axis})", shape


def boolean_mask(
    d: random.Random, x: Operand, _: Sequence[Operand], __: Counters
) -> Made:
    if not x.shape:
        return None
    mask = [d.random() < 0.6 for _ in range(x.shape[0])]
    mask[d.randrange(len(mask))] = True
    return f"tf.boolean_mask({x.name}, {mask})", (sum(mask), *x.shape[1:])


def top_k(d: random.Random, x: Operand, _: Sequence[Operand], __: Counters) -> Made:
    if not x.shape:
        return None
    k = d.randint(1, x.shape[-1])
    return f"tf.math.top_k({x.name}, {k})[0]", (*x.shape[:-1], k)


def diagonal(d: random.Random, x: Operand, _: Sequence[Operand], __: Counters) -> Made:
    if not x.shape:
        return None
    if len(x.shape) >= 2 and d.random() < 0.6:
        if d.random() < 0.5:
            return f"tf.linalg.band_part({x.name}, 0, 1)", x.shape
        shape = (*x.shape[:-2], min(x.shape[-2:]))
        return f"tf.linalg.diag_part({x.name})", shape
    return f"tf.linalg.diag({x.name})", (*x.shape, x.shape[-1])


def one_hot(d: random.Random, x: Operand, _: Sequence[Operand], c: Counters) -> Made:
    at = d.choice([name for name, _ in c]) if c else str(d.randrange(3))
    shape = (*x.shape, 3)
    name = f"tf.expand_dims({x.name}, -1)"
    return f"{name} * tf.one_hot({at}, 3, dtype=tf.float64)", shape


# --- products -------------------------------------------------------------------------


def matmul(
    d: random.Random, x: Operand, values: Sequence[Operand], __: Counters
) -> Made:
    if len(x.shape) < 2:
        return None
    ta = d.random() < 0.4
    m, k = (x.shape[-1], x.shape[-2]) if ta else (x.shape[-2], x.shape[-1])
    fitting = []
    for v in values:
        if len(v.shape) < 2:
            continue
        try:
            batch = np.broadcast_shapes(x.shape[:-2], v.shape[:-2])
        except ValueError:
            continue
        for tb in (False, True):
            rows, columns = v.shape[-2:] if not tb else v.shape[:-3:-1]
            if rows == k:
                fitting.append((v.name, tb, (*batch, m, columns)))
    if not fitting:
        return None
    name, tb, shape = d.choice(fitting)
    text = f"tf.matmul({x.name}, {name}, transpose_a={ta}, transpose_b={tb})"
    return text, tuple(shape)


def contraction(
    d: random.Random, x: Operand, values: Sequence[Operand], __: Counters
) -> Made:
    if not x.shape:
        return None
    fitting = [v for v in values if v.shape and v.shape[0] == x.shape[-1]]
    if not fitting:
        return None
    v = d.choice(fitting)
    shape = (*x.shape[:-1], *v.shape[1:])
    if len(x.shape) <= 2 and len(v.shape) <= 2 and d.random() < 0.5:
        left = "ij"[2 - len(x.shape) :]
        right = "jk"[: len(v.shape)]
        out = left[:-1] + right[1:]
        return f'tf.einsum("{left},{right}->{out}", {x.name}, {v.name})', shape
    return f"tf.tensordot({x.name}, {v.name}, 1)", shape


def square_matrix(
    d: random.Random, x: Operand, _: Sequence[Operand], __: Counters
) -> Made:
    """Decompositions, of a matrix that is positive definite."""
    if len(x.shape) < 2:
        return None
    n = x.shape[-2]
    m = (
        f"tf.matmul({x.name}, {x.name}, transpose_b=True) + "
        f"2.0 * tf.eye({n}, dtype=tf.float64)"
    )
    shape = (*x.shape[:-2], n, n)
    form = d.choice(
        ["tf.linalg.inv({})", "tf.linalg.cholesky({})", "tf.linalg.det({})"]
    )
    if "det" in form:
        return form.format(m), shape[:-2]
    return form.format(m), shape


def cross_entropy(
    d: random.Random, x: Operand, _: Sequence[Operand], __: Counters
) -> Made:
    if not x.shape:
        return None
    if len(x.shape) == 2 and d.random() < 0.5:
        labels = [d.randrange(x.shape[1]) for _ in range(x.shape[0])]
        text = f"tf.nn.sparse_softmax_cross_entropy_with_logits({labels}, {x.name})"
        return text, x.shape[:-1]
    if d.random() < 0.5:
        labels = f"tf.sigmoid({x.name})"
        text = f"tf.nn.sigmoid_cross_entropy_with_logits({labels}, {x.name})"
        return text, x.shape
    labels = f"tf.nn.softmax(2.0 * {x.name})"
    text = f"tf.nn.softmax_cross_entropy_with_logits({labels}, {x.name})"
    return text, x.shape[:-1]


FREE: dict[str, Maker] = {
    "reshape": reshape,
    "transpose": transpose,
    "broadcast_to": broadcast_to,
    "tile": tile,
    "concat": concat,
    "stack": stack,
    "unstack": unstack,
    "split": split,
    "strided": strided,
    "expand_dims": expand,
    "squeeze": squeeze,
    "pad": pad,
    "gather": gather,
    "dynamic_row": dynamic_row,
    "dynamic_write": dynamic_write,
    "scatter": scatter,
    "scatter_nd": scatter_nd,
    "gather_nd": gather_nd,
    "segment": segment_sum,
    "repeat_rows": repeat,
    "boolean_mask": boolean_mask,
    "top_k": top_k,
    "diagonal": diagonal,
    "one_hot": one_hot,
    "matmul": matmul,
    "contraction": contraction,
    "square_matrix": square_matrix,
    "cross_entropy": cross_entropy,
}


def makers() -> list[tuple[str, Maker]]:
    """All, by name; families of one maker each appear as often as they have members."""
    found = [(name, elementwise(form)) for name, form in {**UNARY, **POWERS}.items()]
    # sums of gradients that pass such ops share nodes
    plain = ("identity", "add_number", "scaled", "neg", "plus_itself", "times_itself")
    found += [(name, elementwise(UNARY[name])) for name in plain for _ in range(3)]
    # movement and products are what gradients get wrong: three for each of the others
    for _ in range(2):
        found += [(name, broadcasting(form)) for name, form in BINARY.items()]
        found += [(name, reduction(form)) for name, form in REDUCTIONS.items()]
        found += [(name, with_axis(form)) for name, form in AXIS.items()]
    for _ in range(3):
        found += FREE.items()
    return found
