# SPDX-License-Identifier: MIT
"""The ops of `benchmarks.op_table` in NumPy and PyTorch.

`NUMPY` and `TORCH` give for an op's name a function of its attributes and operands. It
prepares a call and gives it: results go into arrays that are there, where there is an
`out=`. An op that is not in one of them has nothing like it there.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

Call = Callable[[], Any]
Peer = Callable[..., Call]  # (attributes, *operands)


def numpy_out(name: str) -> Peer:
    function = getattr(np, name)

    def prepare(_: Any, *xs: Any) -> Call:
        out = np.asarray(function(*xs))
        return lambda: function(*xs, out=out)

    return prepare


def of(function: Callable[..., Any]) -> Peer:
    """Of a function of operands alone."""
    return lambda _, *xs: lambda: function(*xs)


def torch_module() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError:
        return None


def torch_out(name: str) -> Peer:
    torch = torch_module()
    function = torch
    for part in name.split("."):
        function = getattr(function, part)

    def prepare(_: Any, *xs: Any) -> Call:
        out = function(*xs)
        return lambda: function(*xs, out=out)

    return prepare


# the op, NumPy's function, PyTorch's; `-`: there is none
ELEMENTWISE = """
neg negative neg, abs abs abs, sign sign sign, floor floor floor, exp exp exp, log log
log, sqrt sqrt sqrt, rsqrt - rsqrt, square square square, tanh tanh tanh, sigmoid -
sigmoid, logical_not logical_not logical_not, reciprocal reciprocal reciprocal, log1p
log1p log1p, log2 log2 log2, expm1 expm1 expm1, sin sin sin, cos cos cos, tan tan tan,
asin arcsin asin, acos arccos acos, atan arctan atan, sinh sinh sinh, cosh cosh cosh,
asinh arcsinh asinh, acosh arccosh acosh, atanh arctanh atanh, erf - erf, erfc - erfc,
lgamma - lgamma, digamma - digamma, erfinv - erfinv, ndtri - special.ndtri, bessel_i0e
- special.i0e, bessel_i1e - special.i1e, ceil ceil ceil, round rint round, trunc trunc
trunc, is_nan isnan -, is_inf isinf -, is_finite isfinite -, bitwise_not invert
bitwise_not, add add add, sub subtract sub, mul multiply mul, div divide div,
floor_div floor_divide floor_divide, floor_mod mod remainder, pow power pow, maximum
maximum maximum, minimum minimum minimum, equal equal eq, not_equal not_equal ne, less
less lt, less_equal less_equal le, greater greater gt, greater_equal greater_equal ge,
logical_and logical_and logical_and, logical_or logical_or logical_or, atan2 arctan2
atan2, igamma - special.gammainc, igammac - special.gammaincc, zeta - special.zeta,
bitwise_and bitwise_and bitwise_and, bitwise_or bitwise_or bitwise_or, bitwise_xor
bitwise_xor bitwise_xor, left_shift left_shift bitwise_left_shift, right_shift
right_shift bitwise_right_shift
"""


def names() -> list[tuple[str, str, str]]:
    rows = " ".join(ELEMENTWISE.split()).split(", ")
    return [(op, numpy, torch) for op, numpy, torch in map(str.split, rows)]


def padded(attrs: dict[str, Any]) -> int:
    """The same on all sides: PyTorch knows no other."""
    return int(max(attrs["padding"]))


# --- NumPy ----------------------------------------------------------------------------


def axes_of(attrs: dict[str, Any]) -> tuple[int, ...]:
    return tuple(attrs["axes"]) if "axes" in attrs else (attrs["axis"],)


def numpy_fold(name: str) -> Peer:
    function = getattr(np, name)
    return lambda attrs, x: lambda: function(x, axis=axes_of(attrs))


def numpy_along(name: str) -> Peer:
    function = getattr(np, name)

    def prepare(attrs: Any, x: Any) -> Call:
        out = function(x, axis=attrs["axis"])
        out = out.astype(x.dtype) if name.startswith("cum") else out
        return lambda: function(x, axis=attrs["axis"], out=out)

    return prepare


def numpy_copy(view: Callable[..., Any]) -> Peer:
    """A view of the operand, copied."""

    def prepare(attrs: Any, x: Any, *_: Any) -> Call:
        seen = view(attrs, x)
        out = np.ascontiguousarray(seen).copy()

        def copy() -> Any:
            np.copyto(out, seen)
            return out

        return copy

    return prepare


def numpy_cast(attrs: Any, x: Any) -> Call:
    out = np.empty(x.shape, attrs["dtype"])

    def copy() -> Any:
        np.copyto(out, x, casting="unsafe")
        return out

    return copy


def numpy_matmul(attrs: Any, a: Any, b: Any) -> Call:
    a = a.swapaxes(-1, -2) if attrs.get("transpose_a") else a
    b = b.swapaxes(-1, -2) if attrs.get("transpose_b") else b
    out = np.matmul(a, b)
    return lambda: np.matmul(a, b, out=out)


def numpy_softmax(_: Any, x: Any) -> Call:
    def softmax() -> Any:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        e /= e.sum(axis=1, keepdims=True)
        return e

    return softmax


def slices(attrs: Any) -> tuple[slice, ...]:
    rows = zip(attrs["begin"], attrs["size"], attrs["strides"], strict=True)
    return tuple(slice(b, b + n * s, s) for b, n, s in rows)


def put_back(zeros: Callable[..., Any]) -> Peer:
    def prepare(attrs: Any, x: Any) -> Call:
        def put() -> Any:
            out = zeros(tuple(attrs["shape"]), dtype=x.dtype)
            out[slices(attrs)] = x
            return out

        return put

    return prepare


def updated(copy: Callable[[Any], Any], adds: bool) -> Peer:
    """Of rows at the beginning."""

    def prepare(_: Any, x: Any, some: Any, *starts: Any) -> Call:
        def update() -> Any:
            out = copy(x)
            if adds:
                out[: len(some)] += some
            else:
                out[: len(some)] = some
            return out

        return update

    return prepare


def numpy_add_at(attrs: Any, rows: Any, x: Any) -> Call:
    def add() -> Any:
        out = np.zeros(tuple(attrs["shape"]), x.dtype)
        np.add.at(out, rows.reshape(-1), x)
        return out

    return add


def numpy_top_k(attrs: Any, x: Any) -> Call:
    """Values and places, as the op gives both."""
    depth = attrs["depth"]
    if depth == x.shape[1]:
        return lambda: best_first(x, np.argsort(x, 1))

    def few() -> Any:
        places = np.argpartition(x, -depth, axis=1)[:, -depth:]
        order = np.argsort(np.take_along_axis(x, places, 1), 1)
        return best_first(x, np.take_along_axis(places, order, 1))

    return few


def best_first(x: Any, places: Any) -> tuple[Any, Any]:
    places = places[:, ::-1]
    return np.take_along_axis(x, places, 1), places


def numpy_random(name: str) -> Peer:
    generator = np.random.default_rng(1)

    def prepare(attrs: Any, *_: Any) -> Call:
        out = np.empty(tuple(attrs["shape"]), attrs["dtype"])
        draw: Any = getattr(generator, name)
        return lambda: draw(out.shape, out.dtype, out=out)

    return prepare


def numpy_peers() -> dict[str, Peer]:
    found = {op: numpy_out(name) for op, name, _ in names() if name != "-"}
    folds = {name: numpy_fold(name) for name in "sum mean max min prod any all".split()}
    along = "argmin argmax cumsum cumprod".split()
    folds |= {name: numpy_along(name) for name in along}
    return {
        **found,
        **folds,
        "relu": of(lambda x: np.maximum(x, 0)),
        "select": of(np.where),
        "cast": numpy_cast,
        "matmul": numpy_matmul,
        "softmax": numpy_softmax,
        "transpose": numpy_copy(lambda attrs, x: x.transpose(attrs["perm"])),
        "broadcast": numpy_copy(lambda attrs, x: np.broadcast_to(x, attrs["shape"])),
        "slice": numpy_copy(lambda attrs, x: x[slices(attrs)]),
        "dynamic_slice": numpy_copy(lambda attrs, x: x[: attrs["size"][0]]),
        "concat": lambda attrs, a, b: lambda: np.concatenate([a, b], attrs["axis"]),
        "slice_grad": put_back(np.zeros),
        "dynamic_update_slice": updated(np.copy, adds=False),
        "dynamic_add_slice": updated(np.copy, adds=True),
        "gather": of(lambda x, rows: np.take(x, rows, 0)),
        "gather_nd": of(lambda x, rows: np.take(x, rows[:, 0], 0)),
        "gather_grad": numpy_add_at,
        "scatter_nd": numpy_add_at,
        "top_k": numpy_top_k,
        "random_uniform": numpy_random("random"),
        "random_normal": numpy_random("standard_normal"),
        "cholesky": of(np.linalg.cholesky),
        "solve": of(np.linalg.solve),
        "det": of(np.linalg.det),
        "slogdet": of(np.linalg.slogdet),
        "qr": of(np.linalg.qr),
        "eigh": of(np.linalg.eigh),
        "svd": of(lambda x: np.linalg.svd(x, full_matrices=False)),
    }


# --- PyTorch --------------------------------------------------------------------------


def channels_first(x: Any) -> Any:
    """A view: as PyTorch's functions want it, channels last in memory."""
    return x.permute(0, 3, 1, 2)


def filters_first(w: Any) -> Any:
    return w.permute(3, 2, 0, 1).contiguous()


def torch_peers() -> dict[str, Peer]:
    torch: Any = torch_module()
    if torch is None:
        return {}
    aten, nn = torch.ops.aten, torch.nn.functional
    same = SimpleNamespace(dilation=[1, 1], transposed=False, output=[0, 0], groups=1)

    def fold(name: str) -> Peer:
        function = getattr(torch, name)

        def prepare(attrs: Any, x: Any) -> Call:
            axes = axes_of(attrs)
            if len(axes) == x.dim() and name in ("prod", "any", "all"):
                return lambda: function(x)
            dim: Any = axes[0] if name in ("prod", "any", "all") else axes
            return lambda: function(x, dim=dim)

        return prepare

    def along(name: str) -> Peer:
        function = getattr(torch, name)
        return lambda attrs, x: lambda: function(x, dim=attrs["axis"])

    def copy(view: Callable[..., Any]) -> Peer:
        def prepare(attrs: Any, x: Any, *_: Any) -> Call:
            seen = view(attrs, x)
            out = seen.contiguous().clone()
            return lambda: out.copy_(seen)

        return prepare

    def cast(attrs: Any, x: Any) -> Call:
        out = torch.empty(x.shape, dtype=getattr(torch, attrs["dtype"]))
        return lambda: out.copy_(x)

    def matmul(attrs: Any, a: Any, b: Any) -> Call:
        a = a.transpose(-1, -2) if attrs.get("transpose_a") else a
        b = b.transpose(-1, -2) if attrs.get("transpose_b") else b
        out = torch.matmul(a, b)
        return lambda: torch.matmul(a, b, out=out)

    def conv(attrs: Any, x: Any, w: Any) -> Call:
        x, w = channels_first(x), filters_first(w)
        stride, pad = attrs["strides"], padded(attrs)
        return lambda: nn.conv2d(x, w, stride=stride, padding=pad)

    def backward(attrs: Any, x: Any, w: Any, dy: Any, mask: list[bool]) -> Call:
        pad = [padded(attrs)] * 2
        return lambda: aten.convolution_backward(
            dy,
            x,
            w,
            None,
            attrs["strides"],
            pad,
            same.dilation,
            same.transposed,
            same.output,
            same.groups,
            mask,
        )

    def conv_grad_input(attrs: Any, dy: Any, w: Any) -> Call:
        x = channels_first(torch.zeros(attrs["shape"], dtype=dy.dtype))
        dy = channels_first(dy)
        return backward(attrs, x, filters_first(w), dy, [True, False, False])

    def conv_grad_filter(attrs: Any, x: Any, dy: Any) -> Call:
        w = filters_first(torch.zeros(attrs["shape"], dtype=x.dtype))
        x, dy = channels_first(x), channels_first(dy)
        return backward(attrs, x, w, dy, [False, True, False])

    def max_pool(attrs: Any, x: Any) -> Call:
        x = channels_first(x)
        window, stride, pad = attrs["window"], attrs["strides"], padded(attrs)
        return lambda: nn.max_pool2d(x, window, stride, pad)

    def max_pool_grad(attrs: Any, x: Any, _: Any, dy: Any) -> Call:
        x, dy = channels_first(x), channels_first(dy)
        more = (attrs["window"], attrs["strides"], [padded(attrs)] * 2, [1, 1], False)
        _, places = aten.max_pool2d_with_indices(x, *more)
        return lambda: aten.max_pool2d_with_indices_backward(dy, x, *more, places)

    def average_pool(attrs: Any, x: Any) -> Call:
        x = channels_first(x)
        window, stride, pad = attrs["window"], attrs["strides"], padded(attrs)
        return lambda: nn.avg_pool2d(x, window, stride, pad, count_include_pad=False)

    def average_pool_grad(attrs: Any, dy: Any) -> Call:
        x = channels_first(torch.zeros(attrs["shape"], dtype=dy.dtype))
        dy = channels_first(dy)
        more = (attrs["window"], attrs["strides"], [padded(attrs)] * 2)
        return lambda: aten.avg_pool2d_backward(dy, x, *more, False, False, None)

    def normalize(attrs: Any, x: Any, factor: Any, shift: Any) -> Call:
        outer, rows, channels = x.shape
        factor, shift = factor.to(x.dtype), shift.to(x.dtype)
        if outer == 1 and attrs["groups"] == channels:
            return lambda: nn.batch_norm(x[0], None, None, factor, shift, True)
        if rows == 1:
            return lambda: nn.layer_norm(x, (channels,), factor, shift)
        seen, groups = x.transpose(1, 2), attrs["groups"]
        return lambda: nn.group_norm(seen, groups, factor, shift)

    def with_gradient(function: Callable[..., Any], count: int) -> Peer:
        """A value and its gradients by the first operands."""

        def prepare(attrs: Any, *xs: Any) -> Call:
            inputs = [x.clone().requires_grad_() for x in xs[:count]]

            def run() -> Any:
                value = function(attrs, *inputs, *xs[count:])
                return torch.autograd.grad(value.sum(), inputs)

            return run

        return prepare

    def attention_grad(attrs: Any, q: Any, k: Any, v: Any, dy: Any) -> Call:
        """Without the forward way."""
        inputs = [x.clone().requires_grad_() for x in (q, k, v)]
        value = nn.scaled_dot_product_attention(*inputs)
        return lambda: torch.autograd.grad(value, inputs, dy, retain_graph=True)

    def sum_up(attrs: Any, rows: Any, x: Any) -> Call:
        flat = rows.reshape(-1)

        def add() -> Any:
            out = torch.zeros(attrs["shape"], dtype=x.dtype)
            return out.index_add_(0, flat, x)

        return add

    def scatter(attrs: Any, x: Any, rows: Any, more: Any) -> Call:
        flat = rows.reshape(-1)
        number = attrs["reduction"]
        if number == 0:
            return lambda: torch.index_copy(x, 0, flat.long(), more)
        if number == 1:
            return lambda: torch.index_add(x, 0, flat, more)
        name = {2: "prod", 3: "amin", 4: "amax"}[number]
        places = flat.long()[:, None].expand(*more.shape)
        return lambda: torch.scatter_reduce(x, 0, places, more, name)

    def one_hot(attrs: Any, x: Any) -> Call:
        places, kind = x.long()[:, None], getattr(torch, attrs["dtype"])
        shape = (len(x), attrs["depth"])
        return lambda: torch.zeros(shape, dtype=kind).scatter_(1, places, 1.0)

    def drawn(fill: Callable[[Any], Any]) -> Peer:
        def prepare(attrs: Any, *_: Any) -> Call:
            out = torch.empty(attrs["shape"], dtype=getattr(torch, attrs["dtype"]))
            return lambda: fill(out)

        return prepare

    found = {op: torch_out(name) for op, _, name in names() if name != "-"}
    folds = {"sum": "sum", "mean": "mean", "max": "amax", "min": "amin"}
    folds |= {name: name for name in ("prod", "any", "all")}
    along_axis = "argmin argmax cumsum cumprod".split()
    return {
        **found,
        **{op: fold(name) for op, name in folds.items()},
        **{op: along(op) for op in along_axis},
        "relu": torch_relu,
        "select": torch_out("where"),
        "softplus": of(nn.softplus),
        "gelu": of(nn.gelu),
        **{op: of(getattr(torch, op.replace("_", ""))) for op in IS},
        "relu_grad": of(lambda y, dy: aten.threshold_backward(dy, y, 0)),
        "tanh_grad": of(lambda y, dy: aten.tanh_backward(dy, y)),
        "sigmoid_grad": of(lambda y, dy: aten.sigmoid_backward(dy, y)),
        "gelu_grad": of(lambda x, dy: aten.gelu_backward(dy, x)),
        "cast": cast,
        "matmul": matmul,
        "fused_matmul": of(lambda a, b, c: torch.addmm(c, a, b).relu_()),
        "conv": conv,
        "conv_grad_input": conv_grad_input,
        "conv_grad_filter": conv_grad_filter,
        "max_pool": max_pool,
        "max_pool_grad": max_pool_grad,
        "average_pool": average_pool,
        "average_pool_grad": average_pool_grad,
        "normalize": normalize,
        "attention": of(nn.scaled_dot_product_attention),
        "attention_grad": attention_grad,
        "softmax": of(lambda x: torch.softmax(x, 1)),
        "log_softmax": of(lambda x: torch.log_softmax(x, 1)),
        "sparse_cross_entropy": with_gradient(
            lambda _, x, rows: nn.cross_entropy(x, rows.long(), reduction="none"), 1
        ),
        "cross_entropy": with_gradient(
            lambda _, x, rows: nn.cross_entropy(x, rows, reduction="none"), 1
        ),
        "transpose": copy(lambda attrs, x: x.permute(attrs["perm"])),
        "broadcast": copy(lambda attrs, x: x.expand(attrs["shape"])),
        "slice": copy(lambda attrs, x: x[slices(attrs)]),
        "dynamic_slice": copy(lambda attrs, x: x[: attrs["size"][0]]),
        "concat": lambda attrs, a, b: lambda: torch.cat([a, b], attrs["axis"]),
        "slice_grad": put_back(torch.zeros),
        "dynamic_update_slice": updated(torch.clone, adds=False),
        "dynamic_add_slice": updated(torch.clone, adds=True),
        "gather": of(lambda x, rows: torch.index_select(x, 0, rows)),
        "gather_nd": of(lambda x, rows: torch.index_select(x, 0, rows[:, 0])),
        "gather_grad": sum_up,
        "scatter_nd": sum_up,
        "tensor_scatter": scatter,
        "one_hot": one_hot,
        "top_k": lambda attrs, x: lambda: torch.topk(x, attrs["depth"]),
        "random_uniform": drawn(lambda out: out.uniform_()),
        "random_normal": drawn(lambda out: out.normal_()),
        "truncated_normal": drawn(torch.nn.init.trunc_normal_),
        "random_integer": drawn(lambda out: out.random_(0, 100)),
        "random_gamma": of(torch._standard_gamma),
        "random_poisson": of(torch.poisson),
        "random_binomial": of(torch.binomial),
        "dropout": lambda attrs, x: (
            lambda: torch.native_dropout(x, attrs["rate"], True)
        ),
        "cholesky": of(torch.linalg.cholesky),
        "triangular_solve": of(
            lambda a, b: torch.linalg.solve_triangular(a, b, upper=False)
        ),
        "solve": of(torch.linalg.solve),
        "det": of(torch.linalg.det),
        "slogdet": of(torch.linalg.slogdet),
        "qr": of(torch.linalg.qr),
        "eigh": of(torch.linalg.eigh),
        "svd": of(lambda x: torch.linalg.svd(x, full_matrices=False)),
        "lu": of(torch.linalg.lu_factor),
    }


IS = ("is_nan", "is_inf", "is_finite")


def torch_relu(_: Any, x: Any) -> Call:
    torch = torch_module()
    out = torch.relu(x)
    return lambda: torch.clamp_min(x, 0, out=out)


NUMPY = numpy_peers()
TORCH = torch_peers()
