# SPDX-License-Identifier: MIT
"""Compares the forms of a program with each other and its derivatives with differences.

Every form computes the loss, its gradient g by the inputs, and H r, the gradient of
g . r along a direction r. Differences along the same r then tell both: those of the
loss are g . r, those of g are H r. The gradient by variables is compared too, and
what they hold at the end.

Forms: traced and fused, without the verifier; traced and not fused, with it; that
trace fused as well, with regions wherever kernels can be in one; op by op under eager
tapes; a function called under an eager tape.
The traced ones agree to the bit.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ipu import _core, tf
from ipu._device import devices
from ipu.tf._functions import tracing

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
# variables are float32: steps that it holds, and their room
FLOAT32_STEP = 2.0**-9
FLOAT32_DERIVED = 1e-3
CLOSE_FLOAT32 = 1e-5

Results = dict[str, list[Array]]  # by "loss", "first", "second", "variables", ...


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
        if (
            failure.category not in (*DERIVATIVES, "by variables")
            or not program.kinds() & KINKED
        ):
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
        self.states = [v for v in namespace.values() if isinstance(v, tf.Variable)]
        self.begin = [v.numpy() for v in self.states]
        dice = np.random.default_rng(7)
        self.ways = [
            dice.choice([-1.0, 1.0], v.shape) * dice.uniform(0.5, 1.5, v.shape)
            for v in values
        ]

    # --- forms ------------------------------------------------------------------------

    def reset(self, states: list[Array] | None = None) -> None:
        for variable, value in zip(self.states, states or self.begin, strict=True):
            variable.assign(value)

    def ended(self) -> list[Array]:
        return [v.numpy() for v in self.states]

    def trace(self) -> _core.Trace:
        device = devices.get_device()
        function = tf.function(self.loss)
        count = len(self.values)

        def derivatives(*tensors: Any) -> Any:
            xs, ways = tensors[:count], tensors[count:]
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(xs)
                y = function(*xs)
            first = filled(tape.gradient(y, xs), xs)
            by_states = filled(tape.gradient(y, self.states), self.states)
            along = sum(tf.reduce_sum(g * w) for g, w in zip(first, ways, strict=True))
            return [y, *first, *filled(tf.gradients(along, xs), xs), *by_states]

        specs = [tf.TensorSpec(v.shape, tf.float64) for v in self.values]
        build = tracing.Build("fuzz", runs=True, may_create=True, device=device)
        return tracing._trace(derivatives, (*specs, *specs), True, build)[0]

    def compile(self, trace: _core.Trace, **options: bool) -> _core.Program:
        return trace.compile(device=devices.get_device().core, **options)

    def run_program(
        self,
        program: _core.Program,
        values: list[Array],
        states: list[Array] | None = None,
    ) -> Results:
        self.reset(states)
        outputs = [np.asarray(t) for t in program.run([*values, *self.ways])]
        count = len(values)
        return {
            "loss": outputs[:1],
            "first": outputs[1 : 1 + count],
            "second": outputs[1 + count : 1 + 2 * count],
            "by variables": outputs[1 + 2 * count :],
            "variables": self.ended(),
        }

    def run_eagerly(self) -> Results:
        """The loss makes its variables anew; those of the programs stay."""
        kept = dict(self.made)
        self.made.clear()
        try:
            return self.op_by_op()
        finally:
            self.made.clear()
            self.made.update(kept)

    def op_by_op(self) -> Results:
        self.reset()
        xs = [tf.constant(v, tf.float64) for v in self.values]
        with tf.GradientTape() as outer:
            outer.watch(xs)
            with tf.GradientTape(persistent=True) as inner:
                inner.watch(xs)
                y = self.loss(*xs)
            first = filled(inner.gradient(y, xs), xs)
            along = sum(
                tf.reduce_sum(g * w) for g, w in zip(first, self.ways, strict=True)
            )
        second = filled(outer.gradient(along, xs), xs)
        by_states = filled(inner.gradient(y, self.states), self.states)
        return {
            "loss": [np.asarray(y)],
            "first": [np.asarray(t) for t in first],
            "second": [np.asarray(t) for t in second],
            "by variables": [np.asarray(t) for t in by_states],
            "variables": self.ended(),
        }

    def run_taped(self) -> Results:
        """A call of a function under a tape: the trace is cut in two."""
        self.reset()
        xs = [tf.constant(v, tf.float64) for v in self.values]
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(xs)
            y = tf.function(self.loss)(*xs)
        ended = self.ended()
        by_states = filled(tape.gradient(y, self.states), self.states)
        return {
            "loss": [np.asarray(y)],
            "first": [np.asarray(t) for t in filled(tape.gradient(y, xs), xs)],
            "by variables": [np.asarray(t) for t in by_states],
            "variables": ended,
        }

    # --- comparing --------------------------------------------------------------------

    def run(self, traced_only: bool) -> bool:
        fused = self.attempt("trace", self.trace)
        program = self.attempt("compile", lambda: self.compile(fused))
        plain = self.attempt("trace again", self.trace)
        unfused = self.attempt(
            "compile unfused", lambda: self.compile(plain, fuse=False, verify=True)
        )
        _core.set_regions("always")
        _core.set_panels("always")
        try:
            verified = self.attempt(
                "compile verified", lambda: self.compile(plain, fuse=True, verify=True)
            )
        finally:
            _core.set_regions("auto")
            _core.set_panels("auto")
        found = self.attempt("run", lambda: self.run_program(program, self.values))
        for other, what in ((unfused, "unfused"), (verified, "verified")):
            again = self.attempt(
                what, lambda other=other: self.run_program(other, self.values)
            )
            same_bits(found, again, what)
        if not np.isfinite(found["loss"][0]):
            return False
        numbers = np.concatenate([flat(part) for part in found.values()])
        size = max(1.0, float(np.max(np.abs(numbers[np.isfinite(numbers)]))))
        if size > HUGE:
            return False
        if not traced_only:
            close(found, self.attempt("eager", self.run_eagerly), "eager", size)
        close(found, self.attempt("taped", self.run_taped), "taped", size)
        self.differences_of_variables(program, found, size)
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

    def differences_of_variables(
        self, program: _core.Program, found: Results, size: float
    ) -> None:
        """Where nothing writes them: what is read later is not a derivative of them."""
        if not self.states or not np.array_equal(flat(self.begin), flat(self.ended())):
            return
        samples, places = [], []
        for by in (-2, -1, 1, 2):
            moved = [np.add(v, by * FLOAT32_STEP, dtype=np.float32) for v in self.begin]
            out = self.run_program(program, self.values, moved)
            samples.append(float(out["loss"][0]))
            places.append(flat(moved).astype(np.float64))
        gradient = flat(found["by variables"]).astype(np.float64)
        wide = samples[3] - samples[0] - gradient @ (places[3] - places[0])
        near = samples[2] - samples[1] - gradient @ (places[2] - places[1])
        bend = samples[2] - 2 * float(found["loss"][0]) + samples[1]
        room = FLOAT32_STEP * FLOAT32_DERIVED * size
        # the error of a right gradient falls with the step; a kink's bend does not
        smooth = np.isfinite(wide) and abs(bend) <= FLOAT32_STEP * 1e-2 * size
        if smooth and abs(near) > room and abs(abs(wide) - 2 * abs(near)) <= room:
            what = near / FLOAT32_STEP
            raise Failure("by variables", f"differences give {what!r} more along ones")

    def differences(self, program: _core.Program, found: Results, size: float) -> bool:
        """Whether differences at two steps agree; then they must be the derivatives."""
        at = [self.run_program(program, self.moved(k * STEP)) for k in (-2, -1, 1, 2)]
        slope = np.array([flat(self.ways) @ flat(found["first"])])
        for order, below, mine in (
            ("first", "loss", slope),
            ("second", "first", flat(found["second"])),
        ):
            here = flat(found[below])
            samples = [flat(a[below]) for a in at]
            if not all(np.all(np.isfinite(s)) for s in (*samples, here)):
                return False
            wide = (samples[3] - samples[0]) / (4 * STEP)
            near = (samples[2] - samples[1]) / (2 * STEP)
            # a kink at the place itself: both sides agree with themselves only
            bend = np.abs(samples[2] - 2 * here + samples[1]) / STEP
            room = DERIVED * (size + np.abs(near)) + 1e-12 * size / STEP
            smooth = (np.abs(wide - near) <= room) & (bend <= 1e-2 * size + room)
            wrong = smooth & ~(np.abs(mine - near) <= 5 * room)
            if np.any(wrong):
                k = int(np.argmax(wrong))
                raise Failure(
                    order, f"element {k} is {mine[k]!r}, differences give {near[k]!r}"
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
    return np.concatenate([np.zeros(0), *(np.ravel(a) for a in arrays)])


def same_bits(mine: Results, other: Results, what: str) -> None:
    for part in mine:
        for k, (a, b) in enumerate(zip(mine[part], other[part], strict=True)):
            if not np.array_equal(a, b, equal_nan=True):
                raise Failure(what, f"{part} {k} is {a.tolist()} and {b.tolist()}")


def close(mine: Results, other: Results, what: str, size: float) -> None:
    """Those parts that both have; variables and their gradients are float32."""
    for part in other:
        room = CLOSE if part in ("loss", *DERIVATIVES) else CLOSE_FLOAT32
        for k, (a, b) in enumerate(zip(mine[part], other[part], strict=True)):
            with np.errstate(invalid="ignore"):
                same = (np.abs(a - b) <= room * size) | (a == b)
            same |= np.isnan(a) & np.isnan(b)
            if not np.all(same):
                text = f"{part} {k} is {a.tolist()}, {what} {b.tolist()}"
                raise Failure(what, text)
