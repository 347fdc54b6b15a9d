# SPDX-License-Identifier: MIT
"""``tf.function``: Python functions as programs.

A function is traced once for each signature: the shapes and dtypes of its tensor
arguments, the values of Python ones, the identity of all other objects. Objects are
held weakly: what was traced for one is forgotten with it.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, TypeVar, overload

from ipu._core import Tensor
from ipu._device import devices
from ipu._device.locks import Lock
from ipu._device.placement import current_device, on_host
from ipu._device.remembered import Remembered
from ipu._device.thread_state import here
from ipu._text.missing import PACKAGE
from ipu._text.tracebacks import boundaries
from ipu._text.user_warnings import warn_user
from ipu.tf import nest
from ipu.tf._functions import explain as _explain
from ipu.tf._functions.signature import (
    checked_signature,
    difference,
    fit_argument,
    is_tensor_argument,
    key_of,
    narrow,
    objects_in,
    spec_of,
)
from ipu.tf._functions.taped import TapedProgram, trace_taped
from ipu.tf._functions.tracing import (
    Build,
    TracedProgram,
    current_build,
    in_trace,
    init_scope,
    scratch_trace,
    trace_program,
)
from ipu.tf._gradients import tapes
from ipu.tf._graph import mode
from ipu.tf._graph.reached import whole
from ipu.tf._tensor.methods import WeakMethod
from ipu.tf.tensor_spec import TensorSpec


class ConcreteFunction:
    """A function traced for one signature: what ``get_concrete_function`` gives.

    Attributes:
        name: The function's name.
        structured_input_signature: (args, kwargs), with a ``TensorSpec`` for each
            tensor.
        structured_outputs: What it returns, with a ``TensorSpec`` for each tensor.
    """

    _is_ipu_function = True

    def __init__(
        self,
        name: str,
        traced: TracedProgram,
        specs: tuple[Any, Any],
        device: devices.Device | None,
        again: Callable[[devices.Device], TracedProgram],
    ) -> None:
        self.name = name
        self.structured_input_signature = specs
        self.structured_outputs = traced.output_structure
        self._traced = traced
        self._device = device
        self._again = again
        self._inputs = [s for s in nest.flatten(specs) if isinstance(s, TensorSpec)]

    @property
    def output_shapes(self) -> Any:
        """The shapes of what it returns."""
        return nest.map_structure(
            lambda s: s.shape if isinstance(s, TensorSpec) else None,
            self.structured_outputs,
        )

    @property
    def output_dtypes(self) -> Any:
        """The dtypes of what it returns."""
        return nest.map_structure(
            lambda s: s.dtype if isinstance(s, TensorSpec) else None,
            self.structured_outputs,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors = [
            leaf
            for leaf in nest.flatten((args, kwargs))
            if is_tensor_argument(leaf) or isinstance(leaf, (int, float, list))
        ]
        if len(tensors) != len(self._inputs):
            raise TypeError(
                f"{self.name} takes {len(self._inputs)} tensors. "
                f"Received: {len(tensors)}."
            )
        inputs = [
            Tensor(t, s.dtype.name) if not isinstance(t, Tensor) else t
            for t, s in zip(tensors, self._inputs, strict=True)
        ]
        if self._device is None:
            return self._traced.pack(self._traced.run(inputs))
        while True:
            traced, device = self._traced, self._device
            with device.running():
                if not device.is_retired:
                    return traced.pack(traced.run(inputs))
            devices.await_configuration()
            device = devices.get_device(device.ordinal)
            self._traced, self._device = self._again(device), device


__all__ = [
    "ConcreteFunction",
    "DeviceFunction",
    "TracedProgram",
    "in_trace",
    "init_scope",
    "inside_function",
    "run_functions_eagerly",
    "scratch_trace",
    "trace_program",
]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")

_MANY_TRACES = 5


class _Settings:
    run_eagerly = False


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Make every ``tf.function`` call its Python function as it is, op by op.

    Example:
        >>> tf.config.run_functions_eagerly(True)
        >>> tf.config.functions_run_eagerly()
        True
        >>> tf.config.run_functions_eagerly(False)
    """
    _Settings.run_eagerly = bool(run_eagerly)


def inside_function() -> bool:
    """Return whether a function is being traced.

    Example:
        >>> tf.inside_function()
        False
    """
    return in_trace()


class _Entry(NamedTuple):
    """One traced program, and what it was traced for."""

    traced: TracedProgram
    keys: dict[str, Any]  # by parameter
    place: str
    watched: list[weakref.ref[Any] | Any]  # objects whose identity is in the key
    taped: TapedProgram | None  # of a call under an eager tape

    def fits(self, recorder: Any) -> bool:
        """Return whether it has the gradients that a tape wants."""
        return self.taped is None or self.taped.fits(recorder)


@boundaries("__call__")
class DeviceFunction(Generic[P, R]):
    """A Python function that runs as one program.

    Args:
        python_function: The function. Its effects on Python happen while it is traced.
        device: Where it runs; None is what is in force where it is called: the device
            of the scope or strategy, else number 0.
        autograph: Convert Python control flow on tensors.
        input_signature: A ``TensorSpec``, or a nest of them, for each argument.
        name: For errors and :meth:`explain`; None is the function's.

    Calling it with tensors, arrays, Python numbers, models, data structures of them
    and so on traces it where it has not seen such arguments before, runs the program,
    and returns what the function returned with eager tensors in it. Called while
    another function is traced, it becomes part of that one.
    """

    _is_ipu_function = True

    def __init__(
        self,
        python_function: Callable[P, R],
        device: devices.Device | None = None,
        *,
        autograph: bool = False,
        input_signature: Any = None,
        name: str | None = None,
    ) -> None:
        if not callable(python_function):
            raise TypeError(
                f"tf.function takes a callable. Received: {python_function!r}."
            )
        self.python_function = python_function
        self._device = device
        self._autograph = autograph
        self._specs = checked_signature(input_signature)
        named = getattr(python_function, "__name__", type(python_function).__name__)
        self._name = name or str(named)
        self._parameters: inspect.Signature | None = None
        self._cache: dict[Any, _Entry] = {}
        self._accounts = Remembered()
        self._lock = Lock()  # protects _cache while a trace adds to it
        self._has_created = False  # a first trace has ended
        self._history: list[str] = []
        self._bound: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._converted: Callable[..., Any] | None = None
        for attribute in ("__name__", "__qualname__", "__doc__", "__module__"):
            value = getattr(python_function, attribute, None)
            if value is not None:
                self.__dict__[attribute] = value
        self.__wrapped__ = python_function

    # --- what it is ------------------------------------------------------------------

    @property
    def input_signature(self) -> Any:
        """The declared signature, or None."""
        return self._specs

    @property
    def function_spec(self) -> inspect.Signature:
        """The Python function's parameters."""
        if self._parameters is None:
            try:
                self._parameters = inspect.signature(self.python_function)
            except (TypeError, ValueError):
                self._parameters = inspect.Signature(
                    [
                        inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
                        inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
                    ]
                )
        return self._parameters

    def experimental_get_tracing_count(self) -> int:
        """Return how often the function has been traced."""
        return len(self._history)

    def explain(self) -> str:
        """Say in plain sentences why the function was traced last, what was fused, and
        what the program contains.

        Example:
            >>> double = tf.function(lambda x: x + x)
            >>> _ = double(tf.ones(3))
            >>> print(double.explain().splitlines()[0])
            <lambda> has been traced once.
        """
        last = next(reversed(self._cache.values())) if self._cache else None
        return _explain.sentences(
            self._name, self._history, None if last is None else last.traced
        )

    def account(self, *args: Any, **options: Any) -> Any:
        """Tell what a call would cost on IPUs, without running it.

        Args:
            *args: Arguments as the function takes them: for each tensor a
                ``tf.TensorSpec``, a tensor or an array. None are needed where the
                function has an input signature.
            **options: ``machine`` and the other options of
                :func:`ipu.machine.estimate`.

        Returns:
            An ``ipu.machine.Account``.

        Raises:
            TypeError: The function wants other arguments.
            ValueError: A shape is not known.

        Example:
            >>> square = tf.function(lambda x: x @ x)
            >>> square.account(tf.TensorSpec([64, 64]), machine="bow").samples
            64
        """
        from ipu import machine  # what few programs ask for

        if not args and self._specs is not None:
            args = tuple(self._specs)

        def make() -> Any:
            return machine.estimate(self._callable(), *args, **options)

        if objects_in(args):  # of which nobody knows whether they have changed
            return make()
        chosen, target = machine._plan_options(
            *(options.get(k) for k in ("machine", "partials", "available_memory"))
        )
        request = target.request(chip=chosen._chip)
        key = key_of(args), request, tuple(sorted(options.items()))
        return self._accounts.ask(
            lambda: key, make, lambda one: make()._find_fixes(one)
        )

    def __repr__(self) -> str:
        return f"<tf.function {self._name}>"

    # --- methods ----------------------------------------------------------------------

    @overload
    def __get__(self, instance: None, owner: type) -> DeviceFunction[P, R]: ...

    @overload
    def __get__(
        self: DeviceFunction[Concatenate[S, Q], R],
        instance: S,
        owner: type | None = None,
    ) -> DeviceFunction[Q, R]: ...

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        try:
            bound = self._bound.get(instance)
            if bound is None:
                method: Callable[..., Any] = WeakMethod(self.python_function, instance)
                bound = self._like(method)
                self._bound[instance] = bound
        except TypeError:  # it cannot be referenced weakly, or has no hash
            kept = self.__dict__.setdefault("_bound_strongly", {})
            if id(instance) not in kept:
                plain = functools.partial(self.python_function, instance)
                kept[id(instance)] = (instance, self._like(plain))
            bound = kept[id(instance)][1]
        return bound

    def _like(self, python_function: Callable[..., Any]) -> DeviceFunction[..., Any]:
        made = DeviceFunction(
            python_function,
            self._device,
            autograph=self._autograph,
            name=self._name,
        )
        made._specs = self._specs
        return made

    # --- calling ----------------------------------------------------------------------

    def _callable(self) -> Callable[..., Any]:
        """Return what is traced: the function, converted if it is to be."""
        if self._converted is None:
            self._converted = self.python_function
            if self._autograph:
                from ipu.tf import autograph

                self._converted = autograph.tf_convert(self.python_function)
        return self._converted

    def _arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments with defaults in place, positional where they can be."""
        if not kwargs and self._specs is None and self._parameters is not None:
            fixed = self.__dict__.get("_fixed_count")
            if fixed == len(args):
                return args, kwargs
        signature = self.function_spec
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self._name}(): {error}") from None
        bound.apply_defaults()
        positional = (
            inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
        )
        kinds = [p.kind for p in signature.parameters.values()]
        if all(kind in positional for kind in kinds):
            self.__dict__["_fixed_count"] = len(kinds)
        if self._specs is not None:
            return self._fit(bound.args), bound.kwargs
        return bound.args, bound.kwargs

    def _fit(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments as the declared signature has them."""
        specs = self._specs
        assert specs is not None
        given = args[: len(specs)]
        if len(args) < len(specs):
            raise TypeError(
                f"{self._name}() takes {len(specs)} arguments by its input_signature. "
                f"Received: {len(args)}."
            )
        fitted = [
            fit_argument(self._name, i, spec, arg)
            for i, (spec, arg) in enumerate(zip(specs, given, strict=True))
        ]
        return (*fitted, *args[len(specs) :])

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R
        graph = mode.building()
        if graph is not None:
            result = graph.record(self, args, kwargs, "PartitionedCall")
            return result
        given, named = self._arguments(args, kwargs)
        if in_trace() or _Settings.run_eagerly:
            result = self._inline(given, named)
            return result
        recorder = tapes.recorder()
        if recorder is not None and tapes.is_nested():
            result = self._inline(given, named)  # for derivatives of the gradient
            return result
        if not (self._specs or on_host()):
            given, named = narrow(given), narrow(named)
        inputs = [
            leaf for leaf in nest.flatten((given, named)) if is_tensor_argument(leaf)
        ]
        while True:
            entry, device = self._find(given, named, recorder)
            with nullcontext() if device is None else device.running():
                if device is None or not device.is_retired or self._device is not None:
                    result = self._run(entry, given, named, inputs, recorder)
                    return result
            devices.await_configuration()  # another thread replaced the device

    def _run(
        self,
        entry: _Entry,
        given: tuple[Any, ...],
        named: dict[str, Any],
        inputs: list[Any],
        recorder: Any,
    ) -> Any:
        if entry.taped is not None:
            if entry.taped.is_better_inline:
                return self._inline(given, named)
            return entry.taped.call(recorder, inputs)
        return entry.traced.pack(entry.traced.run(inputs))

    def _inline(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the body as a part of what is being traced."""
        key = key_of((args, kwargs))
        if any(f is self and k == key for f, k in here.active_calls):
            raise RecursionError(
                f"{self._name} calls itself with arguments of the same shapes, dtypes "
                "and values. A tf.function is expanded where it is called, so this "
                "never ends. Use a loop (for, while, tf.while_loop)."
            )
        depth = len(here.active_calls)
        build = current_build() if in_trace() and not self._has_created else None
        before = build.may_create if build is not None else False
        try:
            here.active_calls.append((self, key))
            if build is not None:
                build.may_create = True
            with whole():
                return self._callable()(*args, **kwargs)
        finally:
            del here.active_calls[depth:]
            if build is not None:
                build.may_create = before
                self._has_created = True

    def rest(self) -> None:
        """Free what only runs of the programs need and the next run makes anew."""
        for entry in list(self._cache.values()):
            entry.traced.program.rest()

    # --- tracing ----------------------------------------------------------------------

    def prepared(self, *args: Any) -> Callable[[Sequence[Any]], list[Tensor]]:
        """Return what runs the program for these arguments on its inputs, many times.

        The device must be held as long: it may not be replaced.
        """
        entry, device = self._find(*self._arguments(args, {}))

        def run(inputs: Sequence[Any]) -> list[Tensor]:
            with nullcontext() if device is None else device.running():
                return entry.traced.run(inputs)

        return run

    def traced(self, *args: Any, **kwargs: Any) -> TracedProgram:
        """Return the compiled function for these arguments; traces where there is none
        yet."""
        return self._find(*self._arguments(args, kwargs))[0].traced

    def _find(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], recorder: Any = None
    ) -> tuple[_Entry, devices.Device | None]:
        host = self._device is None and on_host()
        device = self._device or current_device()
        key: Any = (device, host, key_of(args), key_of(kwargs) if kwargs else None)
        if recorder is not None:
            key = (key, "under a tape")
        entry = self._cache.get(key)
        if entry is None or not entry.fits(recorder):
            with self._lock:
                entry = self._cache.get(key)
                if entry is None or not entry.fits(recorder):
                    entry = self._add(key, args, kwargs, device, host, recorder)
        return entry, None if host else device

    def _add(
        self,
        key: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        device: devices.Device,
        host: bool,
        recorder: Any,
    ) -> _Entry:
        names = list(self.function_spec.parameters)
        keys = {
            names[i] if i < len(names) else f"argument {i}": key_of(arg)
            for i, arg in enumerate(args)
        }
        keys.update({name: key_of(arg) for name, arg in kwargs.items()})
        place = "the host" if host else device.name
        if recorder is not None:
            place += ", under a tape,"
        self._tell_reason(keys, place)
        specs = nest.map_structure(spec_of, (args, kwargs))
        build = Build(
            self._label(),
            runs=True,
            may_create=not self._has_created,
            device=device,
        )
        if not host and not objects_in((args, kwargs)):
            build.account = _account_of(weakref.ref(self), specs)
        call = self._callable()

        def body(positional: Any, keywords: Any) -> Any:
            return call(*positional, **keywords)

        depth = len(here.active_calls)
        try:
            here.active_calls.append((self, key_of((args, kwargs))))
            if recorder is None:
                taped = None
                traced = trace_program(
                    body, specs, host=host, device=device, build=build
                )
            else:
                taped = trace_taped(body, specs, host, device, build, recorder)
                traced = taped.forward
        finally:
            del here.active_calls[depth:]
        self._has_created = True
        if any(variable() is None for variable in build.variables):
            raise ValueError(
                f"{self._name} creates a tf.Variable in each call: tf.function-"
                "decorated function tried to create variables on non-first call. Keep "
                "the variable on an object, and create it only where it is None. An "
                "optimizer has variables, too: make it outside of the function."
            )
        watched = [
            self._watch(item, key) for item in (device, *objects_in((args, kwargs)))
        ]
        entry = _Entry(traced, keys, place, watched, taped)
        self._cache[key] = entry
        return entry

    def _label(self) -> str:
        code = getattr(self.python_function, "__code__", None)
        if code is None or code.co_filename.startswith(PACKAGE):
            return self._name
        return f"{self._name} ({code.co_filename}:{code.co_firstlineno})"

    def _watch(self, item: Any, key: Any) -> Any:
        """Return a reference that forgets what was traced for an object together with
        it."""
        cache = self._cache
        try:
            return weakref.ref(item, lambda _: cache.pop(key, None))
        except TypeError:
            return item

    def _tell_reason(self, keys: dict[str, Any], place: str) -> None:
        if not self._cache:
            text = "first call" if not self._history else "its arguments are gone"
        else:
            changes = [
                (difference(e.keys, keys), e) for e in reversed(self._cache.values())
            ]
            fewest, nearest = min(changes, key=lambda pair: len(pair[0]))
            parts = [f"{name} changed from {a} to {b}" for name, a, b in fewest]
            if nearest.place != place:
                parts.append(f"it runs on {place} instead of {nearest.place}")
            if not parts:
                is_longer = nearest.keys.keys() != keys.keys()
                parts.append(
                    "the number of its arguments changed"
                    if is_longer
                    else "the devices were configured anew"
                )
            text = "; ".join(parts)
        self._history.append(text)
        if len(self._history) == _MANY_TRACES + 1:
            warn_user(
                f"{self._name} has been traced {len(self._history)} times, the last "
                f"time since {text}. Each trace compiles a program: pass numbers that "
                "vary as tensors, keep shapes equal, and do not create the tf.function "
                "in a loop. See explain().",
                RuntimeWarning,
            )

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """Trace for these arguments without running.

        Args:
            *args: As in a call; a ``tf.TensorSpec`` may stand for a tensor. None where
                ``input_signature`` was given.
            **kwargs: The same.

        Returns:
            The function for these arguments alone.
        """
        if not args and not kwargs and self._specs is not None:
            args = tuple(self._specs)
        args, kwargs = self._arguments(args, kwargs)
        entry, device = self._find(args, kwargs)
        specs = nest.map_structure(spec_of, (args, kwargs))

        def again(device: devices.Device) -> TracedProgram:
            """Return the same for the device that came in place of its own."""
            return self._like(self.python_function)._on(device, *specs)

        return ConcreteFunction(self._name, entry.traced, specs, device, again)

    def _on(self, device: devices.Device, args: Any, kwargs: Any) -> TracedProgram:
        self._device, self._has_created = device, True
        return self._find(args, kwargs)[0].traced


def _account_of(
    reference: weakref.ref[DeviceFunction[..., Any]], specs: Any
) -> Callable[..., Any]:
    """Return what makes the account of a function for these specs."""

    def account(**options: Any) -> Any:
        from ipu import machine

        function = reference()
        if function is None:
            raise RuntimeError("The function of the last program is no longer there.")
        call = function._callable()

        def whole(positional: Any, keywords: Any) -> Any:
            return call(*positional, **keywords)

        return machine.estimate(whole, *specs, **options)

    return account


@overload
def function(
    func: Callable[P, R],
    input_signature: Sequence[Any] | None = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    experimental_implements: str | None = None,
    experimental_autograph_options: Any = None,
    experimental_attributes: Any = None,
    experimental_relax_shapes: bool | None = None,
    experimental_compile: bool | None = None,
    experimental_follow_type_hints: bool | None = None,
    name: str | None = None,
) -> DeviceFunction[P, R]: ...


@overload
def function(
    func: None = None,
    input_signature: Sequence[Any] | None = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    experimental_implements: str | None = None,
    experimental_autograph_options: Any = None,
    experimental_attributes: Any = None,
    experimental_relax_shapes: bool | None = None,
    experimental_compile: bool | None = None,
    experimental_follow_type_hints: bool | None = None,
    name: str | None = None,
) -> Callable[[Callable[P, R]], DeviceFunction[P, R]]: ...


def function(
    func: Callable[..., Any] | None = None,
    input_signature: Sequence[Any] | None = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    experimental_implements: str | None = None,
    experimental_autograph_options: Any = None,
    experimental_attributes: Any = None,
    experimental_relax_shapes: bool | None = None,
    experimental_compile: bool | None = None,
    experimental_follow_type_hints: bool | None = None,
    name: str | None = None,
) -> Any:
    """Make a function run as one program; a decorator, with or without arguments.

    Args:
        func: The function; None where the decorator has arguments.
        input_signature: A ``TensorSpec``, or a nest of them, for each argument. Others
            are then errors; a size of None fits any.
        autograph: Convert Python control flow on tensors to control flow of the
            program.
        jit_compile: Accepted: a function is always compiled as a whole.
        reduce_retracing: Accepted, without effect: shapes are part of a program.
        experimental_implements, experimental_autograph_options,
            experimental_attributes: Accepted and not used.
        experimental_relax_shapes: As ``reduce_retracing``.
        experimental_compile: The old name of ``jit_compile``.
        experimental_follow_type_hints: Accepted and not used.
        name: For errors and ``explain()``.

    Returns:
        A ``DeviceFunction``, or a decorator that gives one.

    Raises:
        TypeError: ``func`` is not callable, or ``input_signature`` is not of
            ``TensorSpec``.

    Example:
        >>> @tf.function(jit_compile=True)
        ... def total(n):
        ...     result = 0
        ...     for i in tf.range(n):
        ...         result += i
        ...     return result
    """

    def decorate(python_function: Callable[..., Any]) -> DeviceFunction[..., Any]:
        inner = getattr(python_function, "python_function", python_function)
        return DeviceFunction(
            inner, autograph=autograph, input_signature=input_signature, name=name
        )

    return decorate if func is None else decorate(func)
