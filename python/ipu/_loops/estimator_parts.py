# SPDX-License-Identifier: MIT
"""The parts of estimators: programs, hooks, metrics, arguments of functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from ipu._device import processes
from ipu.ipu_strategy import InputContext
from ipu.tf.compat import v1 as tf
from ipu.tf.compat.v1.metrics import mean
from ipu.tf.summary import _messages


class Program(NamedTuple):
    """What a session runs: first, in each round, and to take what the device gave."""

    initializer: Any
    run: Any
    taken: Any
    host: Any = ()  # done with what was taken
    hooks: tuple[Any, ...] = ()


class Workers:
    """The processes that run an estimator together: one, without a strategy.

    Args:
        strategy: That for several processes, or None.
    """

    def __init__(self, strategy: Any) -> None:
        self._strategy = strategy
        self._joined = None if strategy is None else processes.shared()
        self.is_first = self._joined is None or self._joined.index == 0
        self.count = 1 if self._joined is None else self._joined.count

    def scope(self) -> AbstractContextManager[Any]:
        """Return the strategy's scope."""
        if self._strategy is None:
            return nullcontext()
        scope: AbstractContextManager[Any] = self._strategy.scope()
        return scope

    def context(self) -> InputContext:
        """Return what functions of data sets may ask for."""
        if self._strategy is None:
            return InputContext()
        made: InputContext = self._strategy.distribute_datasets_from_function(
            lambda context: context
        )
        return made

    def share_of(self, dataset: Any) -> Any:
        """Return what this process takes of a data set that all have."""
        if self._strategy is None:
            return dataset
        return self._strategy.experimental_distribute_dataset(dataset)

    def first_text(self, own: str) -> str:
        """Return the text of process 0."""
        if self._joined is None:
            return own
        return self._joined.allgather_bytes(own.encode())[0].decode()

    def begin_together(self, session: Any, variables: Iterable[Any]) -> None:
        """Give variables the values that they have in process 0."""
        if self._joined is None:
            return
        for variable in variables:
            own = np.asarray(session.run(variable))
            variable.load(self._joined.broadcast(own, 0), session)

    def wait_for_all(self) -> None:
        """Wait for all processes to come here: what process 0 has written is there."""
        if self._joined is not None:
            self._joined.meet("the end of an estimator's training")

    def agree(self, loss: float, stops: bool) -> tuple[float, bool]:
        """Return the mean of the losses, and whether one process stops."""
        if self._joined is None:
            return loss, stops
        every = self._joined.allgather(np.array([loss, stops]))
        losses, stopping = zip(*(one.tolist() for one in every), strict=True)
        return float(np.mean(losses)), any(stopping)


class HostCall(NamedTuple):
    """A call that a model function wants on the host after each batch.

    Attributes:
        function: Called with the tensors on the host; returns operations.
        tensors: Those of the device, in a list or in a dict.
    """

    function: Callable[..., Any]
    tensors: Any

    @classmethod
    def checked(cls, given: Any, iterations: int) -> HostCall:
        """Check what a spec has.

        Raises:
            ValueError: It is not ``(function, tensors)``, or batches come in groups.
        """
        if not (isinstance(given, (tuple, list)) and len(given) == 2) or (
            not callable(given[0])
        ):
            raise ValueError(
                "`host_call` must be (function, tensors), the tensors in a list or in "
                f"a dict. Received: {given!r}."
            )
        if iterations != 1:
            raise ValueError(
                "`host_call` is called for each batch: it needs an IPURunConfig with "
                f"iterations_per_loop=1. Received: {iterations}."
            )
        return cls(*given)

    def named(self) -> dict[str, Any]:
        """Return the tensors by the names that they have in the outfeed."""
        return {f"host_{name}": one for name, one in named(self.tensors).items()}

    def operations(self, taken: Mapping[str, Any]) -> Any:
        """Return what the function makes of one batch's tensors."""
        values = {name: taken[f"host_{name}"][0] for name in named(self.tensors)}
        if isinstance(self.tensors, Mapping):
            return self.function(**values)
        return self.function(*values.values())


class HostMetrics:
    """Metrics that a function makes on the host of what the device gives."""

    def __init__(self, function: Callable[..., Any], taken: Mapping[str, Any]) -> None:
        # a row of a round is what one batch gave
        self._inputs = {
            name: tf.placeholder(tensor.dtype, tensor.shape[1:])
            for name, tensor in taken.items()
        }
        self._pairs = {
            name: pair if isinstance(pair, tuple) else mean(pair)
            for name, pair in function(*self._inputs.values()).items()
        }

    @property
    def names(self) -> frozenset[str]:
        """The names of the metrics."""
        return frozenset(self._pairs)

    def __call__(self, session: Any, rows: Mapping[str, Any]) -> dict[str, Any]:
        found = {}
        for i in range(len(next(iter(rows.values())))):
            feed = {self._inputs[name]: value[i] for name, value in rows.items()}
            updates = {name: pair[1] for name, pair in self._pairs.items()}
            found = session.run(updates, feed)
        return found


@contextmanager
def writes_to(variable: Any) -> Iterator[list[str]]:
    """Note the operations that write a variable in a function that is traced."""
    written: list[str] = []
    write = variable._write

    def noted(op: str, value: Any) -> None:
        written.append(op)
        write(op, value)

    variable._write = noted
    try:
        yield written
    finally:
        del variable._write


def write_numbers(writer: Any, step: int, numbers: Mapping[str, Any]) -> None:
    """Write the numbers among some results as summaries."""
    for name, value in numbers.items():
        if np.ndim(value) == 0:
            content = _messages.number_of(float(value))
            writer.add_summary(_messages.summary_of(name, content), step)


def newest(session: Any, rows: Mapping[str, Any]) -> dict[str, Any]:
    """Return metrics that the device has counted: of several replicas the mean."""
    del session
    return {name: np.mean(value[-1]) for name, value in rows.items()}


def named(tensors: Any) -> dict[str, Any]:
    """Return tensors by name, in their order."""
    if isinstance(tensors, Mapping):
        return dict(tensors)
    return {f"metric_{i:03}": tensor for i, tensor in enumerate(tensors)}


def features_and_labels(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, Any]:
    """Return an element of the data set as the model function gets it."""
    if not args:
        return kwargs, None
    if kwargs or len(args) > 2:
        raise ValueError(
            "An element of the data set must be `features` or `(features, labels)`. "
            f"Received: {len(args) + len(kwargs)} parts."
        )
    return args[0], args[1] if len(args) == 2 else None


def takes(function: Callable[..., Any], name: str) -> bool:
    parameters = inspect.signature(function).parameters
    return name in parameters or any(
        one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()
    )


def called(function: Callable[..., Any], offered: Mapping[str, Any], *args: Any) -> Any:
    """Return a function of the user's with those keywords that it takes."""
    parameters = inspect.signature(function).parameters
    given = {name: value for name, value in offered.items() if name in parameters}
    return function(*args, **given)


def check_steps(size: int, **counts: int | None) -> None:
    for name, count in counts.items():
        if count is None:
            continue
        if count < 1 or count % size:
            raise ValueError(
                f"{name} must be a positive multiple of the iterations_per_loop "
                f"{size} of the IPURunConfig. Received: {name}={count}."
            )
