# SPDX-License-Identifier: MIT
"""``ipu.ipu_strategy``: put variables, models and functions on a simulated IPU.

Example:
    >>> from ipu.ipu_strategy import IPUStrategy
    >>> strategy = IPUStrategy()
    >>> with strategy.scope():
    ...     strategy.num_replicas_in_sync
    1
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import numpy as np

from ipu._device import devices, processes, strategy_state
from ipu._device.strategy_state import ReduceOp, VariableAggregation
from ipu._text.errors import InvalidArgumentError
from ipu._text.exports import export
from ipu._text.tracebacks import boundaries
from ipu.tf import nest
from ipu.tf._graph import mode

__all__ = ["IPUStrategy", "IPUStrategyV1", "InputContext", "Strategy"]

T = TypeVar("T")


@dataclass(frozen=True)
class InputContext:
    """The pipeline that a data set function feeds.

    Attributes:
        num_input_pipelines: How many there are, 1.
        input_pipeline_id: Which one this is, 0.
        num_replicas_in_sync: Replicas as the strategy counts them, 1.

    Example:
        >>> context = InputContext(num_input_pipelines=2, input_pipeline_id=1)
        >>> context.input_pipeline_id, context.num_input_pipelines
        (1, 2)
    """

    num_input_pipelines: int = 1
    input_pipeline_id: int = 0
    num_replicas_in_sync: int = 1

    def get_per_replica_batch_size(self, global_batch_size: int) -> int:
        """Return the batch size of one replica, which is the global one.

        Raises:
            ValueError: It cannot be divided by the number of replicas.

        Example:
            >>> InputContext().get_per_replica_batch_size(32)
            32
        """
        if global_batch_size % self.num_replicas_in_sync != 0:
            raise ValueError(
                f"The global batch size {global_batch_size} is not divisible by "
                f"num_replicas_in_sync {self.num_replicas_in_sync}."
            )
        return global_batch_size // self.num_replicas_in_sync


class _Scope:
    """The context manager of ``scope()``; it can be entered again and again."""

    def __init__(self, strategy: IPUStrategyV1) -> None:
        self._strategy = strategy
        self._open: list[AbstractContextManager[Any]] = []

    def __enter__(self) -> IPUStrategyV1:
        if not self._strategy._has_workers and processes.shared() is not None:
            raise RuntimeError(
                "The devices belong to several processes, and IPUStrategy is for one. "
                "Use one strategy in the program: PopDistStrategy, whose replicas are "
                "in all of them."
            )
        self._open.append(strategy_state.scope(self._strategy))
        self._open[-1].__enter__()
        return self._strategy

    def __exit__(self, *error: Any) -> None:
        self._open.pop().__exit__(*error)


def _in_trace() -> bool:
    # A trace can only be open if the module that opens them has been imported.
    module = sys.modules.get("ipu.tf._functions.function")
    return module is not None and bool(module.in_trace())


def _is_traced(function: Any) -> bool:
    """Return whether calling it traces: a ``tf.function``, also one with arguments
    bound."""
    while isinstance(function, functools.partial):
        function = function.func
    return bool(getattr(function, "_is_ipu_function", False))


def _refuse_float64(structure: Any, role: str) -> None:
    for leaf in nest.flatten(structure):
        dtype = getattr(leaf, "dtype", None)
        if getattr(dtype, "name", dtype) == "float64":
            raise TypeError(
                f"Unsupported data type for {role}: float64. Received: a value of "
                f"type {type(leaf).__name__}. Cast it to float32 first."
            )


def _narrowed(leaf: Any) -> Any:
    """Return an int64 tensor or array as int32, which the device has; others as they
    are."""
    dtype = getattr(leaf, "dtype", None)
    if getattr(dtype, "name", dtype) != "int64" or not hasattr(leaf, "__array__"):
        return leaf
    wide = np.asarray(leaf)
    narrow = wide.astype(np.int32)
    if not np.array_equal(wide, narrow):
        raise InvalidArgumentError(
            "Devices have int32 in place of int64, and an input has values that do not "
            f"fit. Received: values from {wide.min()} to {wide.max()}."
        )
    return narrow


def _reduce_op(value: Any) -> ReduceOp:
    name = value.upper() if isinstance(value, str) else getattr(value, "name", value)
    try:
        return ReduceOp(name)
    except ValueError:
        raise ValueError(
            f"reduce_op must be ReduceOp.SUM or ReduceOp.MEAN. Received: {value!r}."
        ) from None


def _checked_arguments(args: Any) -> Sequence[Any]:
    """Return ``args`` of ``run``: a tensor would be taken apart along its first
    axis."""
    if isinstance(args, (list, tuple)):
        return args
    if hasattr(args, "dtype"):
        given = f"Received: one value of shape {tuple(args.shape)}"
    elif isinstance(args, (str, bytes, Mapping)) or not isinstance(args, Iterable):
        given = f"Received: {args!r}"
    else:
        return list(args)
    raise TypeError(f"args must be a list or tuple. {given}. Write args=(value,).")


@boundaries("run", "reduce")
class Strategy:
    """The base class of strategies; by itself it runs here and changes nothing.

    ``tf.distribute.get_strategy`` gives one outside of every scope.

    Source: ``tf.distribute.Strategy``.

    Example:
        >>> with Strategy().scope():
        ...     print(Strategy().num_replicas_in_sync)
        ...
        1
    """

    @property
    def num_replicas_in_sync(self) -> int:
        """Always 1: how a program is replicated is not the strategy's business."""
        return 1

    @property
    def supports_loss_scaling(self) -> bool:
        """Whether optimizers may scale losses: True."""
        return True

    def scope(self) -> AbstractContextManager[Any]:
        """Return a context that changes nothing."""
        return nullcontext(self)

    def __enter__(self) -> NoReturn:
        raise TypeError(
            "A strategy is entered by its scope(). Write `with strategy.scope():`."
        )

    def __exit__(self, *error: object) -> None:
        pass

    def run(
        self,
        fn: Callable[..., T],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: Any = None,
    ) -> T:
        """Call ``fn(*args, **kwargs)``."""
        del options
        return fn(*args, **(kwargs or {}))

    def reduce(self, reduce_op: Any, value: T, axis: int | None = None) -> T:
        """Reduce a value over the replicas of the program that is being traced.

        On the host there is one logical replica, and a value stays as it is.

        Args:
            reduce_op: ``ReduceOp.SUM``, ``ReduceOp.MEAN``, or their names.
            value: A structure of tensors.
            axis: None, or the axis of each tensor to reduce besides.

        Returns:
            The value, without that axis where one is given.

        Raises:
            ValueError: ``reduce_op`` is something else.

        Example:
            >>> IPUStrategy().reduce("sum", 3.0)
            3.0
        """
        kind = _reduce_op(reduce_op)
        from ipu import _core, cross_replica_ops

        if _core.open_trace() is not None or mode.building() is not None:
            across: Any = (
                cross_replica_ops.cross_replica_sum
                if kind is ReduceOp.SUM
                else cross_replica_ops.cross_replica_mean
            )
            value = nest.map_structure(across, value)
        return self._reduce_axis(kind, value, axis)

    def _reduce_axis(self, kind: ReduceOp, value: T, axis: int | None) -> T:
        from ipu import tf

        if axis is None:
            return value
        reduction: Any = tf.reduce_sum if kind is ReduceOp.SUM else tf.reduce_mean
        reduced: T = nest.map_structure(lambda one: reduction(one, axis=axis), value)
        return reduced

    def experimental_distribute_dataset(self, dataset: T, options: Any = None) -> T:
        """Return the data set as it is: there is one input pipeline.

        Example:
            >>> IPUStrategy().experimental_distribute_dataset([1, 2])
            [1, 2]
        """
        del options
        return dataset

    def distribute_datasets_from_function(
        self, dataset_fn: Callable[[InputContext], T], options: Any = None
    ) -> T:
        """Call a function that makes a data set, for the one input pipeline.

        Args:
            dataset_fn: Called with an :class:`InputContext`.
            options: Accepted for compatibility, without effect.

        Returns:
            The result of ``dataset_fn``.

        Example:
            >>> strategy = IPUStrategy()
            >>> strategy.distribute_datasets_from_function(
            ...     lambda context: list(range(context.num_input_pipelines)))
            [0]
        """
        del options
        return dataset_fn(InputContext())

    experimental_distribute_datasets_from_function = distribute_datasets_from_function

    def experimental_local_results(self, value: T) -> tuple[T]:
        """Return the values of all replicas of this process: a tuple of one.

        Example:
            >>> IPUStrategy().experimental_local_results(5)
            (5,)
        """
        return (value,)


@boundaries("run", "reduce")
class IPUStrategyV1(Strategy):
    """A strategy for one device of one or more IPUs.

    Inside its scope variables live on the device, and Keras models made there are
    trained on it. ``run`` runs a ``tf.function`` as one program of the device.

    Args:
        ipu_device: Name of the device, "/device:IPU:0" by default.
        cpu_device: Name of the host, "/device:CPU:0" by default.
        enable_dataset_iterators: Whether ``iter(dataset)`` inside the scope gives an
            iterator that the device reads (``IPUOwnedIterator``). None, the default:
            unless the device was configured by the first release's
            ``create_ipu_config``.
        enable_keras_extensions: Whether Keras models made inside the scope get the
            methods for IPUs.

    Raises:
        ValueError: A name does not name an IPU, or a CPU.

    Example:
        >>> strategy = IPUStrategyV1()
        >>> strategy.ipu_device
        '/device:IPU:0'
    """

    def __init__(
        self,
        ipu_device: str = "/device:IPU:0",
        cpu_device: str = "/device:CPU:0",
        enable_dataset_iterators: bool | None = None,
        enable_keras_extensions: bool = True,
    ) -> None:
        kind, self._ordinal = devices.parse_device_name(ipu_device)
        if kind != "IPU":
            raise ValueError(
                "ipu_device must name an IPU such as '/device:IPU:0'. "
                f"Received: {ipu_device!r}."
            )
        if devices.parse_device_name(cpu_device)[0] != "CPU":
            raise ValueError(
                "cpu_device must name a CPU such as '/device:CPU:0'. "
                f"Received: {cpu_device!r}."
            )
        self._ipu_device = ipu_device
        self._cpu_device = cpu_device
        self._enable_dataset_iterators = enable_dataset_iterators
        self._enable_keras_extensions = bool(enable_keras_extensions)

    @property
    def ipu_device(self) -> str:
        """Name of the IPU device, as it was given."""
        return self._ipu_device

    @property
    def cpu_device(self) -> str:
        """Name of the host, as it was given."""
        return self._cpu_device

    @property
    def device_ordinal(self) -> int:
        """The n of ``/device:IPU:n``."""
        return self._ordinal

    @property
    def num_ipus(self) -> int:
        """How many IPUs the device has; makes one of one IPU if there is none."""
        return self.device.num_ipus

    @property
    def device(self) -> devices.Device:
        """The simulated device as it is configured now; made if there is none."""
        return devices.get_device(self._ordinal)

    @property
    def enable_dataset_iterators(self) -> bool:
        """Whether iterators made inside the scope are read by the device."""
        if self._enable_dataset_iterators is not None:
            return bool(self._enable_dataset_iterators)
        layout = devices.current_layout()
        return layout is None or layout.generation > 1

    @property
    def enable_keras_extensions(self) -> bool:
        """Whether Keras models made inside the scope get the methods for IPUs."""
        return self._enable_keras_extensions

    def scope(self) -> _Scope:
        """Return a context in which variables and models are made on this device.

        The same strategy may be entered again inside its own scope.

        Returns:
            A context manager that gives the strategy.

        Raises:
            RuntimeError: On entry, inside the scope of another strategy.

        Example:
            >>> strategy = IPUStrategy()
            >>> with strategy.scope():
            ...     pass
        """
        return _Scope(self)

    def run(
        self,
        fn: Callable[..., T],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: Any = None,
    ) -> T:
        """Run a function on the device, as one program.

        Args:
            fn: A function decorated with ``@tf.function``. A plain one only while
                such a function is being traced.
            args: Its positional arguments: tensors, arrays, numbers, or objects such
                as models and queues, which the trace takes as constants.
            kwargs: Its keyword arguments, or None.
            options: Accepted for compatibility, without effect.

        Returns:
            The results of ``fn``, with tensors of the device.

        Raises:
            ValueError: ``fn`` is a plain function.
            TypeError: An input or an output is float64, ``fn`` cannot be called, or
                ``args`` is a single value.
            InvalidArgumentError: An int64 input does not fit into int32.

        Example:
            >>> double = tf.function(lambda x: x + x)
            >>> float(IPUStrategy().run(double, args=(np.float32(3),)))
            6.0
        """
        del options
        if not callable(fn):
            raise TypeError(f"fn must be callable. Received: {fn!r}.")
        args = _checked_arguments(args)
        keywords = dict(kwargs) if kwargs else {}
        if _in_trace():
            return fn(*args, **keywords)
        if mode.building() is not None:
            with self.scope():
                return fn(*args, **keywords)
        if not _is_traced(fn):
            raise ValueError(
                "IPUStrategyV1.run(fn, ...) does not support eager execution. "
                f"Received: {fn!r}. Decorate the function with "
                "@tf.function(jit_compile=True)."
            )
        _refuse_float64([*args, *keywords.values()], "input")
        narrow = nest.map_structure(_narrowed, tuple(args))
        keywords = nest.map_structure(_narrowed, keywords)
        with self.scope():
            result = fn(*narrow, **keywords)
        _refuse_float64(result, "output")
        return result

    def experimental_run_v2(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Work like :meth:`run`: its name in the first SDK generation."""
        return self.run(fn, args, kwargs)

    # whether its replicas may be in several processes
    _has_workers = False

    @property
    def _adds_up_in_graphs(self) -> bool:
        """Whether optimizers of TensorFlow 1 reduce gradients over the replicas."""
        return False

    def _first_of_all(self, value: Any) -> Any:
        """Return the first value of a variable; it may be that of another process."""
        return value

    def _new_variable(self, options: dict[str, Any]) -> Any:
        """Return the variable that options ask for, before it is initialised; None
        where it is one like any other."""
        return None

    def _reduce_assigned(self, value: Any, aggregation: VariableAggregation) -> Any:
        """Return what a variable gets of the values that its replicas assign."""
        return value

    def _takes(self, ipus: int) -> None:
        """Note how many IPUs a replica of the model needs that is about to run."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._ipu_device!r})"


IPUStrategy = IPUStrategyV1


export(__name__)
