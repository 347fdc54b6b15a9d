# SPDX-License-Identifier: MIT
"""Cases of sequences: lstm, gru and their gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .linear import flag
from .model import FLOATS, Array, Case, In, between, case, shape_label

# (steps, batch, units)
SIZES = ((1, 1, 1), (3, 2, 5), (4, 13, 8), (0, 2, 3), (3, 0, 2))
LARGE = (5, 50, 40)  # more rows than a block has


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def time_first(x: Array, axis: int, reverse: bool) -> Array:
    """Steps in the order in which they are made."""
    x = np.swapaxes(x, 0, 1) if axis else x
    return x[::-1] if reverse else x


def back(x: Array, axis: int, reverse: bool) -> Array:
    x = x[::-1] if reverse else x
    return np.swapaxes(x, 0, 1) if axis else x


def live_steps(mask: list[Array], x: Array, axis: int, reverse: bool) -> Array:
    if not mask:
        return np.ones((*x.shape[:2], 1), bool)
    return time_first(mask[0][..., None], axis, reverse)


class LSTM:
    """An LSTM with its way back, step by step."""

    gates = 4

    def __init__(self, axis: int, reverse: bool) -> None:
        self.axis, self.reverse = axis, reverse

    def turned(self, *xs: Array) -> list[Array]:
        return [time_first(x, self.axis, self.reverse) for x in xs]

    def __call__(self, x: Array, w: Array, h: Array, c: Array, *mask: Array) -> Any:
        (x,) = self.turned(x)
        live = live_steps(list(mask), x, self.axis, self.reverse)
        n = w.shape[0]
        hs = np.zeros((*x.shape[:2], n))
        cs, gates = hs.copy(), np.zeros_like(x)
        for k in range(len(x)):
            p = x[k] + h @ w
            parts = [sigmoid(p[:, : 2 * n]), np.tanh(p[:, 2 * n : 3 * n])]
            a = np.concatenate([*parts, sigmoid(p[:, 3 * n :])], -1)
            i, f, g, o = np.split(a, 4, -1)
            c = cs[k] = np.where(live[k], f * c + i * g, c)
            h = hs[k] = np.where(live[k], o * np.tanh(c), h)
            gates[k] = np.where(live[k], a, 0)
        made = [back(y, self.axis, self.reverse) for y in (hs, cs, gates)]
        return made[2], made[0], h, c, made[1]

    def grad(
        self,
        gates: Array,
        w: Array,
        c: Array,
        h: Array,
        h0: Array,
        c0: Array,
        *rest: Any,
    ) -> Any:
        mask, (ds, dh, dc) = list(rest[:-3]), rest[-3:]
        gates, c, h, ds = self.turned(gates, c, h, ds)
        live = live_steps(mask, gates, self.axis, self.reverse)
        dx = np.zeros_like(gates)
        before = np.concatenate([h0[None], h[:-1]]) if len(h) else h
        for k in reversed(range(len(gates))):
            i, f, g, o = np.split(gates[k], 4, -1)
            old = c0 if k == 0 else c[k - 1]
            dh = dh + ds[k]
            t = np.tanh(c[k])
            total = dc + dh * o * (1 - t * t)
            d = [total * g * i * (1 - i), total * old * f * (1 - f)]
            d += [total * i * (1 - g * g), dh * t * o * (1 - o)]
            dx[k] = np.where(live[k], np.concatenate(d, -1), 0)
            dh = np.where(live[k], dx[k] @ w.T, dh)
            dc = np.where(live[k], total * f, dc)
        return (
            back(dx, self.axis, self.reverse),
            back(before, self.axis, self.reverse),
            dh,
            dc,
        )


class GRU:
    """A GRU with its way back, step by step."""

    gates = 3

    def __init__(self, axis: int, reverse: bool, after: bool) -> None:
        self.axis, self.reverse, self.after = axis, reverse, after

    def turned(self, *xs: Array) -> list[Array]:
        return [time_first(x, self.axis, self.reverse) for x in xs]

    def __call__(self, x: Array, w: Array, h: Array, *rest: Array) -> Any:
        bias = rest[0] if self.after else 0.0
        (x,) = self.turned(x)
        live = live_steps(list(rest[self.after :]), x, self.axis, self.reverse)
        n = w.shape[0]
        hs = np.zeros((*x.shape[:2], n))
        inner, gates = hs.copy(), np.zeros_like(x)
        for k in range(len(x)):
            p = h @ w + bias
            a = sigmoid(x[k, :, : 2 * n] + p[:, : 2 * n])
            z, r = a[:, :n], a[:, n:]
            part = p[:, 2 * n :] if self.after else r * h
            more = r * part if self.after else part @ w[:, 2 * n :]
            new = np.tanh(x[k, :, 2 * n :] + more)
            inner[k] = np.where(live[k], part, 0)
            gates[k] = np.where(live[k], np.concatenate([a, new], -1), 0)
            h = hs[k] = np.where(live[k], z * h + (1 - z) * new, h)
        made = [back(y, self.axis, self.reverse) for y in (hs, gates, inner)]
        return made[1], made[0], h, made[2]

    def grad(
        self, gates: Array, w: Array, inner: Array, h: Array, h0: Array, *rest: Any
    ) -> Any:
        mask, (ds, dh) = list(rest[:-2]), rest[-2:]
        gates, inner, h, ds = self.turned(gates, inner, h, ds)
        live = live_steps(mask, gates, self.axis, self.reverse)
        n = w.shape[0]
        dx, dp = np.zeros_like(gates), np.zeros_like(gates)
        before = np.concatenate([h0[None], h[:-1]]) if len(h) else h
        for k in reversed(range(len(gates))):
            z, r, new = np.split(gates[k], 3, -1)
            dh = dh + ds[k]
            dz = dh * (before[k] - new) * z * (1 - z)
            dn = dh * (1 - z) * (1 - new * new)
            if self.after:
                dr = dn * inner[k] * r * (1 - r)
                d = np.concatenate([dz, dr, dn * r], -1)
                old = dh * z + d @ w.T
            else:
                through = dn @ w[:, 2 * n :].T
                dr = through * before[k] * r * (1 - r)
                d = np.concatenate([dz, dr, dn], -1)
                old = dh * z + through * r + d[:, : 2 * n] @ w[:, : 2 * n].T
            dx[k] = np.where(live[k], np.concatenate([dz, dr, dn], -1), 0)
            dp[k] = np.where(live[k], d, 0)
            dh = np.where(live[k], old, dh)
        made = [back(y, self.axis, self.reverse) for y in (dx, dp, before)]
        return (*made, dh)


def scale(*xs: Array) -> Array:
    return np.asarray(4.0 * (1 + sum(float(np.max(x, initial=0.0)) for x in xs)))


def forms(dtype: str) -> Iterator[tuple[tuple[int, int, int], int, bool, bool]]:
    """Sizes, axis, reverse, and whether there is a mask."""
    every = ((0, False, False), (1, False, True), (1, True, False), (0, True, True))
    for size in SIZES if dtype == "float32" else SIZES[1:3]:
        for form in every:
            yield (size, *form)
    if dtype != "float64":
        yield LARGE, 1, False, False
        yield LARGE, 0, True, True


def sequence_cases() -> Iterator[Case]:
    for dtype in FLOATS:
        for (steps, batch, units), axis, reverse, masked in forms(dtype):
            for kind in ("lstm", "gru", "gru_after"):
                after = kind == "gru_after"
                op = kind[:4] if kind == "lstm" else "gru"
                model: Any = GRU(axis, reverse, after)
                if op == "lstm":
                    model = LSTM(axis, reverse)
                lead = (batch, steps) if axis else (steps, batch)
                small = between(-0.6, 0.6)

                def of(*shape: int, make: Any = small, dtype: str = dtype) -> In:
                    return In(shape, dtype, make)

                columns = model.gates * units
                states = [of(batch, units)] * (2 if op == "lstm" else 1)
                mask = [In(lead, "bool", between(0, 1))] if masked else []
                label = shape_label((steps, batch, units)) + f"_axis{axis}"
                label += "_reverse" * reverse + "_mask" * masked + "_after" * after
                attrs = f"axis={axis}, reverse={flag(reverse)}"
                if op == "gru":
                    attrs += f", reset_after={flag(after)}"
                more: dict[str, Any] = {"ulps": 4.0, "bound": scale, "smooth": True}
                operands = [
                    of(*lead, columns, make=between(-2, 2)),
                    of(units, columns),
                    *states,
                    *([of(columns)] if after else []),
                    *mask,
                ]
                kept = (0, 4) if op == "lstm" else (0, 3)
                yield case(op, label, operands, model, attrs=attrs, kept=kept, **more)
                if (steps, batch, units) == SIZES[1]:  # gradients go step by step
                    label_all = f"{label}_all_results"
                    yield case(op, label_all, operands, model, attrs=attrs, **more)
                # gates as sigmoid and tanh leave them; what follows from them is free
                gates = of(*lead, columns, make=between(0.1, 0.9))
                given = (14 if op == "lstm" else 6) + masked
                yield case(
                    f"{op}_grad",
                    label,
                    [
                        gates,
                        of(units, columns),
                        of(*lead, units),
                        of(*lead, units),
                        *states,
                        *mask,
                        of(*lead, units),
                        *states,
                    ],
                    model.grad,
                    attrs=f"{attrs}, given={given}",
                    **more,
                )


def cases() -> Iterator[Case]:
    yield from sequence_cases()
