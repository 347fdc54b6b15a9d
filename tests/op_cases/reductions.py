# SPDX-License-Identifier: MIT
"""Cases of reductions, and of the softmax family with its losses."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .elementwise import HUGE, SPECIAL, THREADED
from .model import (
    FLOATS,
    INTS,
    NUMBERS,
    Array,
    Case,
    In,
    Shape,
    between,
    case,
    distinct,
    given,
    ints,
    is_float,
    of_kind,
    off_zero,
    shape_label,
)

Axes = tuple[int, ...]
REDUCTIONS: tuple[tuple[Shape, Axes], ...] = (
    ((), ()),
    ((1,), (0,)),
    ((7,), (0,)),
    ((7,), ()),
    ((5, 33), (0,)),
    ((5, 33), (1,)),
    ((5, 33), (0, 1)),
    ((5, 33), ()),
    ((2, 3, 5, 7), (0,)),
    ((2, 3, 5, 7), (1,)),
    ((2, 3, 5, 7), (3,)),
    ((2, 3, 5, 7), (0, 2)),
    ((2, 3, 5, 7), (1, 3)),
    ((2, 3, 5, 7), (1, 2)),
    ((2, 3, 5, 7), (0, 1, 2, 3)),
    ((1, 5, 1), (0, 2)),
    ((1, 5, 1), (1,)),
    ((3, 0, 2), (0,)),
)
EMPTY: tuple[tuple[Shape, Axes], ...] = (((0,), (0,)), ((3, 0, 2), (1,)))
FEW: tuple[tuple[Shape, Axes], ...] = (
    ((), ()),
    ((5, 13), (0,)),
    ((5, 13), (1,)),
    ((2, 3, 5), (0, 2)),
)
FAST = ("sum", "mean", "max", "min")
THREADED_AXES: tuple[tuple[Shape, Axes], ...] = (
    (THREADED, (0,)),
    (THREADED, (1,)),
    (THREADED, (0, 1)),
    ((70001,), (0,)),
    ((13, 37, 129), (1,)),
    ((13, 37, 129), (0, 2)),
)


def reducer(op: str, axes: Axes, keep: bool) -> Callable[[Array], Array]:
    function: Any = getattr(np, op)

    def reduce(x: Array) -> Array:
        if not axes:
            return x
        if op == "mean" and not is_float(x.dtype.name):
            wide = np.uint64 if x.dtype.kind == "u" else np.int64
            total = x.sum(axis=axes, keepdims=keep, dtype=wide)
            count = max(1, int(np.prod([x.shape[a] for a in axes])))
            whole = np.sign(total) * (np.abs(total) // wide(count))
            return np.asarray(whole).astype(x.dtype)
        more = {"dtype": x.dtype} if op in ("sum", "prod") else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the mean of nothing
            return np.asarray(function(x, axis=axes, keepdims=keep, **more))

    return reduce


def reduction(
    op: str, dtype: str, shape: Shape, axes: Axes, keep: bool, **more: Any
) -> Case:
    extreme, logical = op in ("max", "min"), op in ("any", "all")
    count = int(np.prod([shape[a] for a in axes]))
    make = distinct if extreme and is_float(dtype) else of_kind()(dtype)
    if op == "prod" and is_float(dtype):
        make = off_zero(1.5, 0.7)
    label = f"{shape_label(shape)}_axes{''.join(map(str, axes))}{'_keep' * keep}"
    # long float16 sums are held in float32
    errors = np.sqrt(count) if dtype != "float16" else 1.0
    return case(
        op,
        label,
        [In(shape, dtype, make)],
        reducer(op, axes, keep),
        attrs=f"axes={ints(axes)}, keep_dims={str(keep).lower()}",
        exact=extreme or logical or not axes or not is_float(dtype),
        ulps=4.0 + 2.0 * errors,
        bound=reducer(op, axes, keep) if is_float(dtype) else None,
        twice=op == "prod",
        **more,
    )


def reduction_cases() -> Iterator[Case]:
    for op in ("sum", "mean", "prod", "max", "min", "any", "all"):
        extreme = op in ("max", "min")
        logical = op in ("any", "all")
        kinds = ("bool",) if logical else NUMBERS
        for dtype in kinds:
            main = dtype == "float32" and op != "prod"
            smooth = is_float(dtype)
            table = REDUCTIONS if main else FEW
            for shape, axes in table if extreme else table + EMPTY:
                for keep in (False, True) if axes else (False,):
                    yield reduction(op, dtype, shape, axes, keep, smooth=smooth)
            big = THREADED_AXES if main else THREADED_AXES[:2]
            for shape, axes in () if op == "prod" else big:
                yield reduction(op, dtype, shape, axes, False)
            if smooth:
                special = In((len(SPECIAL), 1), dtype, given(*SPECIAL))
                for axes in ((), (1,)) if extreme else ((),):
                    yield case(
                        op,
                        f"special_axes{len(axes)}",
                        [special],
                        reducer(op, axes, False),
                        attrs=f"axes={ints(axes)}",
                        exact=True,
                    )
        for axes in ((0,), (1,), (0, 1)) if op in FAST else ():
            yield reduction(op, "float32", HUGE, axes, False, slow=True)


def place_cases(op: str, function: Any) -> Iterator[Case]:
    table: tuple[tuple[Shape, int], ...] = (
        ((1,), 0),
        ((7,), -1),
        ((5, 33), 0),
        ((5, 33), 1),
        ((2, 3, 5), 1),
        ((2, 3, 5), -3),
        ((611, 3), 0),
        ((2, 97, 5), 1),
        ((3, 301), 1),
        ((0, 4), 1),
        ((0, 4), -1),
        (THREADED, 1),
        (THREADED, 0),
    )
    for dtype in NUMBERS:
        for target in ("int32", "int64") if dtype == "float32" else ("int32",):
            for shape, axis in table if dtype == "float32" else table[2:10]:

                def oracle(x: Array, axis: int = axis, target: str = target) -> Array:
                    return function(x, axis=axis).astype(target)

                one = In(shape, dtype, between(-9, 9))
                label = f"{target}_{shape_label(shape)}_axis{axis}"
                attrs = f"axis={axis}, dtype={target}"
                yield case(op, label, [one], oracle, attrs=attrs)
    for dtype in FLOATS:
        rows = [[1, np.nan, 2, np.nan], [0.0, -0.0, 0.0, -1], [-np.inf] * 4]
        special = In((60, 4), dtype, given(*rows * 20))
        for axis in (0, 1):

            def by_row(x: Array, axis: int = axis) -> Array:
                worst = -np.inf if op == "argmax" else np.inf  # NaN is passed over
                known = np.where(np.isnan(x), worst, x)
                return function(known, axis=axis).astype(np.int32)

            attrs = f"axis={axis}, dtype=int32"
            yield case(op, f"special{axis}", [special], by_row, attrs=attrs)
    huge = In(HUGE, "float32", of_kind()("float32"))
    for axis in (0, 1):

        def big(x: Array, axis: int = axis) -> Array:
            return function(x, axis=axis).astype(np.int32)

        more = {"attrs": f"axis={axis}, dtype=int32", "slow": True}
        yield case(op, f"huge{axis}", [huge], big, **more)


# --- softmax and its losses -----------------------------------------------------------

ROWS: tuple[Shape, ...] = ((1,), (7,), (5, 33), (2, 3, 5), (0, 4), (3, 1), (3, 0))
FEW_ROWS: tuple[Shape, ...] = ((7,), (3, 5), (0, 4))
THREADED_ROWS: Shape = (1301, 37)
EXTREMES = (
    *(1000.0, -1000.0, 999.0, 0.0),
    *(-np.inf, 0.0, 1.0, -np.inf),
    *(-5e4, -5e4, -5e4, -5e4),
    *(np.nan, 0.0, 1.0, 2.0),
    *(-0.0, 0.0, -0.0, 0.0),
)


def log_softmax(x: Array) -> Array:
    if x.shape[-1] == 0:
        return x
    shifted = x - np.max(x, axis=-1, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))


def softmax(x: Array) -> Array:
    return np.exp(log_softmax(x))


def one_plus(x: Array, *rest: Array) -> Array:
    """Errors of a logarithm scale with the logits."""
    return 1.0 + np.where(np.isfinite(x), x, 0.0)


def softmax_cases() -> Iterator[Case]:
    for op, oracle, bound in (
        ("softmax", softmax, None),
        ("log_softmax", log_softmax, one_plus),
    ):
        for dtype in FLOATS:
            make = between(-3, 3)
            more: dict[str, Any] = {"bound": bound, "ulps": 16.0}
            for shape in ROWS if dtype == "float32" else FEW_ROWS:
                both = {"smooth": True, "twice": True}
                one = In(shape, dtype, make)
                yield case(op, shape_label(shape), [one], oracle, **more, **both)
            big = In(THREADED_ROWS, dtype, make)
            yield case(op, "threads", [big], oracle, **more)
            special = In((5, 4), dtype, given(*EXTREMES))
            yield case(op, "special", [special], oracle, **more)
        huge = In(HUGE, "float32", between(-3, 3))
        yield case(op, "huge", [huge], oracle, slow=True, ulps=64.0, bound=bound)


def sparse_loss(x: Array, labels: Array) -> tuple[Array, Array]:
    log = log_softmax(x)
    hot = np.arange(x.shape[-1]) == labels[..., None]
    return np.where(hot, -log, 0.0).sum(axis=-1), np.exp(log) - hot


def dense_loss(x: Array, labels: Array) -> tuple[Array, Array]:
    log = log_softmax(x)
    total = labels.sum(axis=-1, keepdims=True)
    with np.errstate(all="ignore"):
        terms = np.where(labels == 0, 0.0, -labels * log)
    return terms.sum(axis=-1), np.exp(log) * total - labels


def sparse_bound(x: Array, labels: Array) -> Array:
    return np.max(1.0 + np.where(np.isfinite(x), x, 0.0), initial=1.0)


def dense_bound(x: Array, labels: Array) -> Array:
    return sparse_bound(x, labels) * np.max(labels.sum(axis=-1), initial=1.0)


def loss_cases() -> Iterator[Case]:
    for dtype in FLOATS:
        shapes = [s for s in (ROWS if dtype == "float32" else FEW_ROWS) if s[-1] > 0]
        for shape in [*shapes, THREADED_ROWS]:
            small = {"smooth": shape != THREADED_ROWS}
            logits = In(shape, dtype, between(-3, 3))
            label = shape_label(shape)
            for kind in INTS if shape == (3, 5) else ("int32", "uint8"):
                classes = In(shape[:-1], kind, between(0, shape[-1] - 1))
                yield case(
                    "sparse_cross_entropy",
                    label,
                    [logits, classes],
                    sparse_loss,
                    ulps=16.0,
                    bound=sparse_bound,
                    **small,
                )
            weights = In(shape, dtype, between(0.0, 1.0))
            yield case(
                "cross_entropy",
                label,
                [logits, weights],
                dense_loss,
                ulps=64.0,
                bound=dense_bound,
                # output 1 has no gradient with respect to the logits' weight sum
                **small,
            )
        special = In((5, 4), dtype, given(*EXTREMES))
        classes = In((5,), "int32", given(0, 1, 3, 2, 0))
        more: dict[str, Any] = {"ulps": 16.0, "bound": sparse_bound}
        yield case(
            "sparse_cross_entropy", "special", [special, classes], sparse_loss, **more
        )
        hot = In((5, 4), dtype, given(*np.eye(4)[[0, 1, 3, 2, 0]]))
        yield case("cross_entropy", "special", [special, hot], dense_loss, **more)
    huge = In(HUGE, "float32", between(-3, 3))
    classes = In(HUGE[:-1], "int32", between(0, HUGE[1] - 1))
    more = {"ulps": 64.0, "bound": sparse_bound, "slow": True}
    yield case("sparse_cross_entropy", "huge", [huge, classes], sparse_loss, **more)


def cases() -> Iterator[Case]:
    yield from reduction_cases()
    yield from place_cases("argmax", np.argmax)
    yield from place_cases("argmin", np.argmin)
    yield from softmax_cases()
    yield from loss_cases()
