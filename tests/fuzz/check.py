# SPDX-License-Identifier: MIT
"""Compares the forms of a program with each other and its derivatives with differences.

Every form computes the loss, its gradient g by the inputs, and H r, the gradient of
g . r along a direction r. Differences along the same r then tell both: those of the
loss are g . r, those of g are H r.

Forms: traced and fused, without the verifier; traced and not fused, with it; that
trace fused as well; op by op under eager tapes; a function called under an eager tape.
The traced ones agree to the bit.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ipu import _core, _devices, tf
from ipu.tf import _tracing

from .ops import KINKED
from .program import Program

Array = np.ndarray[Any, Any]
STEP = 1e-5
HUGE = 1e6
# of what rounds in another order, by the largest number on the way
CLOSE = 1e-8
# of differences that agree with each other
DERIVED = 2e-6
DERIVATIVES = ("first", "second")


class Failure(AssertionError):
    """A program is wrong; `category` says in what way."""

    def __init__(self, category: str, message: str) -> None:
        super().__init__(f"{category}: {message}")
        self.category = category


def load(source: str, name: str) -> dict[str, Any]:
    """The program's namespace; AutoGraph finds the text."""
    filename = f"<fuzz {name}>"
    linecache.cache[filename] = (
        len(source),
        None,
        source.splitlines(keepends=True),
        filename,
    )
    namespace: dict[str, Any] = {"__name__": f"fuzz_{name}"}
    exec(compile(source, filename, "exec"), namespace)
    return namespace


def check_program(program: Program, name: str = "program") -> bool:
    """Whether the program's derivatives could be compared with differences.

    Raises:
        Failure: It is wrong in some way.
    """
    try:
        return _check_at(program, program.inputs, name)
    except Failure as failure:
        if failure.category not in DERIVATIVES or not program.kinds() & KINKED:
            raise
        # at a kink: then it is right a little beside it
        dice = np.random.default_rng(3)
        beside = {
            k: np.add(v, 1e-2 * dice.uniform(-1.0, 1.0, np.shape(v)))
            for k, v in program.inputs.items()
        }
        if not _check_at(program, beside, name):
            raise
        return False


def _check_at(program: Program, inputs: Mapping[str, Any], name: str) -> bool:
    namespace = load(program.source(), name)
    try:
        return check_function(namespace["loss"], inputs, namespace, program.traced_only)
    finally:
        linecache.cache.pop(f"<fuzz {name}>", None)


def check_function(
    loss: Callable[..., Any],
    inputs: Mapping[str, Any],
    namespace: Mapping[str, Any],
    traced_only: bool = False,
) -> bool:
    """The same, of a function of float64 tensors.

    Args:
        loss: Gives a scalar.
        inputs: Where it is checked.
        namespace: Holds its variables, and `made`, where it keeps those that it makes.
        traced_only: Whether it can not run op by op.
    """
    values = [np.array(v, np.float64) for v in inputs.values()]
    with tf.device("/CPU:0"):
        return _Check(loss, values, namespace).run(traced_only)


class _Check:
    def __init__(
        self,
        loss: Callable[..., Any],
        values: list[Array],
        namespace: Mapping[str, Any],
    ) -> None:
        self.loss = loss
        self.values = values
        self.made: dict[str, Any] = namespace["made"]
        self.states = [
            (v, v.numpy()) for v in namespace.values() if isinstance(v, tf.Variable)
        ]
        dice = np.random.default_rng(7)
        self.ways = [
            dice.choice([-1.0, 1.0], v.shape) * dice.uniform(0.5, 1.5, v.shape)
            for v in values
        ]

    # --- forms ------------------------------------------------------------------------

    def reset(self) -> None:
        for variable, value in self.states:
            variable.assign(value)

    def trace(self) -> _core.Trace:
        device = _devices.get_device().core
        function = tf.function(self.loss)
        count = len(self.values)

        def derivatives(*tensors: Any) -> Any:
            xs, ways = tensors[:count], tensors[count:]
            y = function(*xs)
            first = filled(tf.gradients(y, xs), xs)
            along = sum(tf.reduce_sum(g * w) for g, w in zip(first, ways, strict=True))
            return [y, *first, *filled(tf.gradients(along, xs), xs)]

        specs = [tf.TensorSpec(v.shape, tf.float64) for v in self.values]
        build = _tracing.Build("fuzz", runs=True, may_create=True, device=device)
        return _tracing._trace(derivatives, (*specs, *specs), True, build)[0]

    def compile(self, trace: _core.Trace, **options: bool) -> _core.Program:
        return trace.compile(device=_devices.get_device().core, **options)

    def run_program(self, program: _core.Program, values: list[Array]) -> list[Array]:
        self.reset()
        return [np.asarray(t) for t in program.run([*values, *self.ways])]

    def run_eagerly(self) -> list[Array]:
        """The loss makes its variables anew; those of the programs stay."""
        kept = dict(self.made)
        self.made.clear()
        try:
            return self.op_by_op()
        finally:
            self.made.clear()
            self.made.update(kept)

    def op_by_op(self) -> list[Array]:
        self.reset()
        xs = [tf.constant(v, tf.float64) for v in self.values]
        with tf.GradientTape() as outer:
            outer.watch(xs)
            with tf.GradientTape() as inner:
                inner.watch(xs)
                y = self.loss(*xs)
            first = filled(inner.gradient(y, xs), xs)
            along = sum(
                tf.reduce_sum(g * w) for g, w in zip(first, self.ways, strict=True)
            )
        second = filled(outer.gradient(along, xs), xs)
        return [np.asarray(t) for t in [y, *first, *second]]

    def run_taped(self) -> list[Array]:
        """A call of a function under a tape: the trace is cut in two."""
        self.reset()
        xs = [tf.constant(v, tf.float64) for v in self.values]
        with tf.GradientTape() as tape:
            tape.watch(xs)
            y = tf.function(self.loss)(*xs)
        return [np.asarray(t) for t in [y, *filled(tape.gradient(y, xs), xs)]]

    # --- comparing --------------------------------------------------------------------

    def run(self, traced_only: bool) -> bool:
        fused = self.attempt("trace", self.trace)
        program = self.attempt("compile", lambda: self.compile(fused))
        plain = self.attempt("trace again", self.trace)
        unfused = self.attempt(
            "compile unfused", lambda: self.compile(plain, fuse=False, verify=True)
        )
        verified = self.attempt(
            "compile verified", lambda: self.compile(plain, fuse=True, verify=True)
        )
        found = self.attempt("run", lambda: self.run_program(program, self.values))
        for other, what in ((unfused, "unfused"), (verified, "verified")):
            again = self.attempt(
                what, lambda other=other: self.run_program(other, self.values)
            )
            same_bits(found, again, what)
        if not np.isfinite(found[0]):
            return False
        numbers = flat(found)
        size = max(1.0, float(np.max(np.abs(numbers[np.isfinite(numbers)]))))
        if size > HUGE:
            return False
        if not traced_only:
            close(found, self.attempt("eager", self.run_eagerly), "eager", size)
        close(found, self.attempt("taped", self.run_taped), "taped", size)
        return self.differences(program, found, size)

    def attempt(self, what: str, call: Callable[[], Any]) -> Any:
        try:
            with np.errstate(all="ignore"):
                return call()
        except Exception as error:
            text = str(error).strip().splitlines()
            raise Failure(
                f"{what} raises {type(error).__name__}", text[0] if text else ""
            ) from error

    def differences(
        self, program: _core.Program, found: list[Array], size: float
    ) -> bool:
        """Whether differences at two steps agree; then they must be the derivatives."""
        count = len(self.values)
        at = [
            [
                np.concatenate([np.ravel(t) for t in part])
                for part in (out[:1], out[1 : 1 + count])
            ]
            for out in (
                self.run_program(program, self.moved(k * STEP)) for k in (-2, -1, 1, 2)
            )
        ]
        here = [np.ravel(found[0]), flat(found[1 : 1 + count])]
        slope = np.array([flat(self.ways) @ here[1]])
        second = flat(found[1 + count :])
        for order, mine in ((0, slope), (1, second)):
            samples = [a[order] for a in at]
            if not all(np.all(np.isfinite(s)) for s in (*samples, here[order])):
                return False
            wide = (samples[3] - samples[0]) / (4 * STEP)
            near = (samples[2] - samples[1]) / (2 * STEP)
            # a kink at the place itself: both sides agree with themselves only
            bend = np.abs(samples[2] - 2 * here[order] + samples[1]) / STEP
            room = DERIVED * (size + np.abs(near)) + 1e-12 * size / STEP
            smooth = (np.abs(wide - near) <= room) & (bend <= 1e-2 * size + room)
            wrong = smooth & ~(np.abs(mine - near) <= 5 * room)
            if np.any(wrong):
                k = int(np.argmax(wrong))
                what = DERIVATIVES[order]
                raise Failure(
                    what, f"element {k} is {mine[k]!r}, differences give {near[k]!r}"
                )
            if not np.all(smooth):
                return False
        return True

    def moved(self, by: float) -> list[Array]:
        return [v + by * w for v, w in zip(self.values, self.ways, strict=True)]


def filled(gradients: Iterable[Any], xs: Iterable[Any]) -> list[Any]:
    """Zeros where there is no gradient: differences tell whether that is right."""
    return [
        tf.zeros_like(x) if g is None else g for g, x in zip(gradients, xs, strict=True)
    ]


def flat(arrays: Iterable[Array]) -> Array:
    return np.concatenate([np.ravel(a) for a in arrays])


def same_bits(mine: list[Array], other: list[Array], what: str) -> None:
    for k, (a, b) in enumerate(zip(mine, other, strict=True)):
        if not np.array_equal(a, b, equal_nan=True):
            raise Failure(what, f"result {k} is {a.tolist()} and {b.tolist()}")


def close(mine: list[Array], other: list[Array], what: str, size: float) -> None:
    for k, (a, b) in enumerate(zip(mine, other, strict=False)):
        same = (np.abs(a - b) <= CLOSE * size) | (np.isnan(a) & np.isnan(b))
        if not np.all(same):
            raise Failure(what, f"result {k} is {a.tolist()}, {what} {b.tolist()}")
