# SPDX-License-Identifier: MIT
"""Variables: state that a device owns and programs read and write in place."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from ipu import _core
from ipu._core import Tensor
from ipu._device import strategy_state
from ipu._device.devices import Device
from ipu._device.locks import Lock
from ipu._device.placement import current_device, on_host
from ipu._device.strategy_state import VariableAggregation, VariableSynchronization
from ipu._device.thread_state import here
from ipu._text.errors import FailedPreconditionError, NotFoundError
from ipu._text.suggestions import refuse_unknown
from ipu._text.tracebacks import boundaries
from ipu.tf._functions.tracing import current_build, in_trace, init_scope, note_variable
from ipu.tf._gradients import tapes
from ipu.tf._gradients.slices import Slices
from ipu.tf._graph import mode
from ipu.tf._ops import selection
from ipu.tf._tensor import parts
from ipu.tf._tensor.face import values_html
from ipu.tf._tensor.notes import note
from ipu.tf._tensor.operation import Reference
from ipu.tf.dtypes import DEVICE_DTYPES, DType, as_dtype
from ipu.tf.indexed_slices import IndexedSlices
from ipu.tf.tensor_shape import TensorShape

if TYPE_CHECKING:  # operators are given to the class below
    _Operators = _core.Arithmetic[Tensor]
else:
    _Operators = object

__all__ = ["Variable"]


R = TypeVar("R")

# what there is, and what TensorFlow takes, too, and has no effect here
INITIAL_OPTIONS = frozenset(
    """
    aggregation caching_device collections constraint dtype
    experimental_enable_variable_lifting expected_shape import_scope initial_value name
    shape synchronization trainable use_resource validate_shape variable_def
    """.split()
)
_OPTIONS: dict[str, Any] = {
    "aggregation": VariableAggregation,
    "synchronization": VariableSynchronization,
}
ASSIGN_OPTIONS = frozenset({"name", "read_value", "use_locking"})


class _Home(NamedTuple):
    """Where a variable is; one value, so that other threads see no half of a move."""

    device: Device
    core: _core.Device
    number: int


class _Moves:
    """One variable moves at a time: several traces may ask for the same one."""

    def __init__(self) -> None:
        self.lock = Lock()


_moves = _Moves()


def _rows(delta: Any) -> tuple[Tensor, Tensor]:
    if not isinstance(delta, IndexedSlices):
        raise TypeError(
            f"`sparse_delta` must be a tf.IndexedSlices. Received: {delta!r}. Write "
            "tf.IndexedSlices(values, indices)."
        )
    return delta._points(), delta.values


def _scattered(kind: str, value: Tensor, points: Any, updates: Any) -> Tensor:
    result: Tensor = getattr(selection, f"tensor_scatter_nd_{kind}")(
        value, points, updates
    )
    return result


def _of_points(kind: str, text: str) -> Callable[..., Any]:
    def method(self: Any, indices: Any, updates: Any, name: str | None = None) -> Any:
        return self.assign(_scattered(kind, self.value(), indices, updates))

    method.__doc__ = f"{text} at points; arguments as in ``scatter_nd_update``."
    return method


def _of_rows(kind: str, text: str) -> Callable[..., Any]:
    def method(
        self: Any,
        sparse_delta: IndexedSlices,
        use_locking: bool = False,
        name: str | None = None,
    ) -> Any:
        return self.assign(_scattered(kind, self.value(), *_rows(sparse_delta)))

    method.__doc__ = f"{text}; arguments as in ``scatter_update``."
    return method


@boundaries("__init__", "assign", "assign_add", "assign_sub")
class Variable(_Operators):
    """A tensor that can be assigned to; it lives on the current device.

    Args:
        initial_value: Its first value, or a function of no arguments that gives it.
        trainable: Whether optimizers and tapes take it by default.
        validate_shape: Accepted and not used.
        name: Its name; ":0" is added, as in TensorFlow.
        dtype: Its element type, or None for that of the value.
        shape: Accepted and checked against the value.
        constraint: A function of the value that optimizers apply to the variable after
            an update, or None.
        **more: In the scope of a strategy for several processes ``aggregation``: how
            what the replicas of a program assign is reduced first; none: each assigns
            its own. And ``synchronization``: with ``ON_READ`` each replica has a value
            of its own, and who reads outside of programs gets what ``aggregation``
            makes of them. Other options of TensorFlow have no effect.

    Raises:
        TypeError: The dtype does not exist on a device; an unknown option.
        ValueError: The value has another shape than ``shape``; or a variable that is
            synchronised on read is to be trained.

    Example:
        >>> v = tf.Variable([1.0, 2.0])
        >>> v.assign_add([1.0, 1.0]).numpy().tolist()
        [2.0, 3.0]
    """

    __array_priority__ = 100.0  # NumPy's operators leave theirs to a variable's

    if not TYPE_CHECKING:  # a graph's variable is another class: not for checkers

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            if cls is Variable and mode.has_graph():
                from ipu.tf._graph.variables import new_variable

                return new_variable(kwargs)
            strategy = strategy_state.get_strategy()
            if cls is Variable and strategy is not None:
                made = strategy._new_variable(kwargs)
                if made is not None:
                    return made
            return super().__new__(cls)

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool = True,
        validate_shape: bool = True,
        name: str | None = None,
        dtype: Any = None,
        shape: Any = None,
        constraint: Any = None,
        **more: Any,
    ) -> None:
        refuse_unknown("Variable", more, INITIAL_OPTIONS)
        self.constraint = constraint
        self._set_options(more)
        if in_trace():
            value = self._value_in_trace(initial_value)
        else:
            value = initial_value() if callable(initial_value) else initial_value
        if value is None:
            raise ValueError("initial_value must be given.")
        is_beside = not in_trace()
        with init_scope():
            self._create(value, trainable, name, dtype, shape)
        if is_beside:
            note_variable(self)

    def _set_options(self, options: dict[str, Any]) -> None:
        self.synchronization: VariableSynchronization
        self.aggregation: VariableAggregation
        for name, kind in _OPTIONS.items():
            given = options.get(name)
            chosen = next(iter(kind))
            if given is not None:
                chosen = strategy_state.as_option(kind, given)
            setattr(self, name, chosen)
        # of a strategy that has the replicas assign together
        strategy = strategy_state.get_strategy()
        is_mirrored = self.aggregation is not VariableAggregation.NONE
        self._has_workers = strategy is not None and strategy._has_workers
        self._mirror = strategy if is_mirrored and self._has_workers else None

    def _value_in_trace(self, initial_value: Any) -> Any:
        """Return the first value, computed now; only the first trace may ask for it."""
        build = current_build()
        if not build.may_create:
            raise ValueError(
                "tf.function-decorated function tried to create variables on non-first "
                f"call: {build.name}. Create the variable outside of the function, or "
                "only where an attribute that keeps it is None."
            )
        build.variables.append(weakref.ref(self))
        if callable(initial_value):
            with init_scope():
                return initial_value()
        if isinstance(initial_value, Tensor) and initial_value.is_symbolic:
            return _core.open_trace().evaluate(  # type: ignore[union-attr]
                initial_value, current_device().core
            )
        return initial_value

    @staticmethod
    def _first_value(value: Any, dtype: Any) -> Any:
        """Return the first value in the variable's dtype, which is one of the device's.

        An array that has it stays as it is: the device copies it, so that a tensor in
        between would be a second copy of what may be a whole data set.
        """
        is_array = type(value) is np.ndarray and value.dtype.name in DEVICE_DTYPES
        if is_array and (dtype is None or as_dtype(dtype) == value.dtype):
            return value
        is_tensor = isinstance(value, Tensor) or hasattr(value, "__ipu_tensor__")
        if dtype is not None and not is_tensor:
            return Tensor(value, as_dtype(dtype).name)
        tensor = Tensor(value)
        if dtype is not None:
            return Tensor(tensor, as_dtype(dtype).name)
        narrow = {"float64": "float32", "int64": "int32"}.get(tensor.dtype.name)
        # through an array: a number that does not fit is an error
        return tensor if narrow is None else Tensor(tensor.numpy(), narrow)

    def _create(
        self, value: Any, trainable: bool, name: str | None, dtype: Any, shape: Any
    ) -> None:
        first = self._first_value(value, dtype)
        sizes = TensorShape(first.shape)
        if shape is not None and tuple(shape) != sizes:
            raise ValueError(
                f"The initial value's shape {sizes} is not the given {shape}."
            )
        self._type: tuple[str, TensorShape] = (first.dtype.name, sizes)
        self.trainable = bool(trainable)
        base = name if name else "Variable"
        self.name = base if ":" in base else f"{base}:0"
        strategy = strategy_state.get_strategy()
        if strategy is not None:
            first = strategy._first_of_all(first)
        self._place(current_device(), first)

    def _place(self, device: Device, value: Any) -> None:
        core = device.core
        number = core.variable_add(*self._type)
        finalizer = weakref.finalize(self, _remove, core, number)
        core.variable_write(number, self._type, value)
        self._home = _Home(device, core, number)
        self._finalizer = finalizer

    def _move_to(self, device: Device) -> None:
        """Keep the value on another device; compiled functions do not follow."""
        with _moves.lock:
            home = self._home
            if home.core is device.core:
                return
            if home.core.variable_is_apart(home.number):
                parts.gather([self])
            value = home.core.variable_take(home.number, self._type)
            before = self._finalizer
            try:
                self._place(device, value)
            except BaseException:
                self._place(home.device, value)
                raise
            finally:
                before.detach()

    def _follow(self, device: Device) -> bool:
        """Return whether it is on the device, where it goes if its own is replaced."""
        if self._home.core is not device.core and self._home.device.is_retired:
            self._move_to(device)
        return self._home.core is device.core

    def _at_home(self, do: Callable[[_Home], R]) -> R:
        """Return what `do` gives; anew where another thread moves the variable
        meanwhile."""
        while True:
            home = self._home
            try:
                return do(home)
            except NotFoundError:
                with _moves.lock:
                    if self._home is home:
                        raise

    def _now(self) -> Tensor:
        return self._at_home(self._value_at)

    def _value_at(self, home: _Home) -> Tensor:
        if home.core.variable_is_apart(home.number):
            return parts.read_together([self])[0]
        return home.core.variable_read(home.number, self._type)

    def _put(self, value: Any) -> None:
        self._at_home(lambda h: h.core.variable_write(h.number, self._type, value))

    @property
    def _device(self) -> _core.Device:
        return self._home.core

    @property
    def _id(self) -> int:
        return self._home.number

    # --- what it is -----------------------------------------------------------------

    @property
    def device(self) -> str:
        """The name of the device that holds it."""
        return self._home.device.full_name

    @property
    def path(self) -> str:
        """The name without the ":0" of TensorFlow's, as in Keras 3."""
        return self.name.partition(":")[0]

    @property
    def ndim(self) -> int:
        """The number of axes, as in Keras 3."""
        return len(self.shape)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return as_dtype(self._type[0])

    @property
    def shape(self) -> TensorShape:
        """The shape."""
        return self._type[1]

    def get_shape(self) -> TensorShape:
        """Return the shape."""
        return self._type[1]

    @property
    def _resource(self) -> tuple[str, int, list[tuple[str, tuple[int, ...]]], str]:
        """How the open trace names it; its number means nothing on other devices."""
        build = current_build()
        build.note_use(self)
        device = build.device
        if not self._follow(device or current_device()) and device is not None:
            raise FailedPreconditionError(
                f"Variable '{self.name}' is on {self._home.device.name}, and the "
                f"function that uses it runs on {device.name}. Make it, or its model, "
                "in the scope that runs the function."
            )
        return ("variable", self._id, [self._type], self.name)

    # --- reading ---------------------------------------------------------------------

    def __ipu_tensor__(self) -> Tensor:
        trace = _core.open_trace()
        read: Tensor
        if trace is None:
            read = self._now()
        else:
            read = trace.node("variable_read", (), None, (self._resource,))
            reads = current_build().reads.setdefault(self._id, [])
            reads.append((trace.node_count, read))
        if tapes.active():
            tapes.variable_was_read(self, read)
        return read

    @property
    def value(self) -> Value:
        """The value: now, or a read in the function that is being traced.

        It is called in TensorFlow, ``v.value()``, and is an attribute in Keras 3.
        """
        return Value(self)

    def _look_up(self, ids: Tensor) -> Tensor:
        """Take rows, and note which, so that an update may leave the others alone."""
        read = self.value()
        rows = _core.apply("gather", (read, ids), {"axis": 0, "batch_dims": 0})
        note(read, "looked_up", Slices(ids, rows))
        return rows

    def read_value(self) -> Tensor:
        """Return the same as :meth:`value`."""
        return self.__ipu_tensor__()

    def numpy(self) -> Any:
        """Return the value as a NumPy array (a copy of the device's memory)."""
        return self._now().numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.numpy(), dtype=dtype)

    def __float__(self) -> float:
        return float(self.value())

    def __int__(self) -> int:
        return int(self.value())

    def __bool__(self) -> bool:
        return bool(self.value())

    def __len__(self) -> int:
        return len(self.value())

    def __getitem__(self, key: Any) -> Tensor:
        part = self.value()[key]
        note(part, "part_of", (self, key))
        return part

    def _assign_part(self, key: Any, name: str, value: Any) -> Variable:
        """Write into what ``self[key]`` shows."""
        from ipu.tf._ops import selection, shapes

        whole = self.value()
        count = math.prod(whole.shape)
        places = Tensor(np.arange(count, dtype=np.int32).reshape(whole.shape))[key]
        if name != "assign":
            part = whole[key]
            value = part + value if name == "assign_add" else part - value
        elif not isinstance(value, Tensor):
            value = Tensor(_value_of(value), self._type[0])
        rows = _core.apply("broadcast", (Tensor(value),), {"shape": places.shape})
        new = selection.tensor_scatter_nd_update(
            shapes.reshape(whole, (count,)),
            shapes.reshape(places, (math.prod(places.shape), 1)),
            shapes.reshape(rows, (math.prod(places.shape),)),
        )
        return self.assign(shapes.reshape(new, whole.shape))

    # --- writing ---------------------------------------------------------------------

    def _takes(self, value: Any) -> bool:
        """Return whether the device can copy it as it is: no tensor in between is
        needed."""
        return (
            type(value) is np.ndarray
            and value.dtype == np.dtype(self._type[0])
            and value.shape == tuple(self._type[1])
        )

    def _write(self, op: str, value: Any) -> None:
        trace = _core.open_trace()
        if trace is None and op == "variable_assign" and self._takes(value):
            self._put(value)
            return
        self._write_tensor(op, self._checked(value))

    def _write_tensor(self, op: str, tensor: Tensor) -> None:
        trace = _core.open_trace()
        if trace is not None:
            if self._mirror is not None and not here.is_update and not on_host():
                tensor = self._mirror._reduce_assigned(tensor, self.aggregation)
            trace.node(op, (tensor,), None, (self._resource,))
        elif op == "variable_add":
            self._put(_core.apply("add", (self.value(), tensor)))
        else:
            self._put(tensor)

    def _checked(self, value: Any) -> Tensor:
        if isinstance(value, Tensor) or hasattr(value, "__ipu_tensor__"):
            tensor = Tensor(value)
        else:
            tensor = Tensor(value, self._type[0])
        if tensor.dtype != self.dtype:
            raise TypeError(
                f"Cannot assign a tensor of dtype {tensor.dtype.name} to variable "
                f"'{self.name}' of dtype {self._type[0]}. Use tf.cast."
            )
        if tensor.shape != self.shape:
            raise ValueError(
                f"Cannot assign value to variable '{self.name}': Shape mismatch. "
                f"The variable shape {self.shape}, and the assigned value shape "
                f"{tensor.shape} are incompatible."
            )
        return tensor

    def assign(self, value: Any, *_: Any, **options: Any) -> Variable:
        """Set the value, which must have the variable's shape and dtype.

        Raises:
            ValueError: The shapes differ.
            TypeError: The dtypes differ.
        """
        refuse_unknown("assign", options, ASSIGN_OPTIONS)
        self._write("variable_assign", value)
        return self

    def assign_add(self, delta: Any, *_: Any, **options: Any) -> Variable:
        """Add ``delta`` to the value."""
        refuse_unknown("assign_add", options, ASSIGN_OPTIONS)
        self._write("variable_add", delta)
        return self

    def assign_sub(self, delta: Any, *_: Any, **options: Any) -> Variable:
        """Subtract ``delta`` from the value."""
        refuse_unknown("assign_sub", options, ASSIGN_OPTIONS)
        tensor = delta if isinstance(delta, Tensor) else Tensor(delta, self._type[0])
        self._write("variable_add", -tensor)
        return self

    # --- at some rows or points -------------------------------------------------------
    # of several updates for one place `update` keeps the last, the others take all

    def scatter_nd_update(
        self, indices: Any, updates: Any, name: str | None = None
    ) -> Variable:
        """Set the elements at points.

        Args:
            indices: Points: integers of shape [..., coordinates].
            updates: The values that go there.

        Example:
            >>> v = tf.Variable([1.0, 2.0, 3.0])
            >>> v.scatter_nd_update([[0]], [9.0]).numpy().tolist()
            [9.0, 2.0, 3.0]
        """
        return self.assign(_scattered("update", self.value(), indices, updates))

    scatter_nd_add = _of_points("add", "Add to the elements")
    scatter_nd_sub = _of_points("sub", "Subtract")

    def scatter_update(
        self,
        sparse_delta: IndexedSlices,
        use_locking: bool = False,
        name: str | None = None,
    ) -> Variable:
        """Set rows.

        Args:
            sparse_delta: The rows, as ``tf.IndexedSlices``.
            use_locking: Accepted and not used: an assignment is never seen half done.

        Raises:
            TypeError: ``sparse_delta`` is another thing.

        Example:
            >>> v = tf.Variable([[1.0], [2.0]])
            >>> v.scatter_update(tf.IndexedSlices([[9.0]], [1])).numpy().tolist()
            [[1.0], [9.0]]
        """
        return self.scatter_nd_update(*_rows(sparse_delta))

    scatter_add = _of_rows("add", "Add to rows")
    scatter_sub = _of_rows("sub", "Subtract from rows")
    scatter_max = _of_rows("max", "Keep the larger of row and update")
    scatter_min = _of_rows("min", "Keep the smaller of row and update")

    # --- operators --------------------------------------------------------------------

    def __neg__(self) -> Tensor:
        return -self.value()

    def __abs__(self) -> Tensor:
        return abs(self.value())

    def __eq__(self, other: object) -> Any:
        return False if other is None else self.value() == _value_of(other)

    def __ne__(self, other: object) -> Any:
        return True if other is None else self.value() != _value_of(other)

    def __hash__(self) -> int:
        raise TypeError(
            "Variable is unhashable: == compares its elements. Use variable.ref() as "
            "the key."
        )

    def ref(self) -> Reference:
        """Return what stands for the variable in sets and dicts."""
        return Reference(self)

    def __repr__(self) -> str:
        value = self.numpy()
        text = repr(value) if self.shape else str(value)
        return (
            f"<tf.Variable '{self.name}' shape={self.shape} dtype={self._type[0]}, "
            f"numpy={text}>"
        )

    def _repr_html_(self) -> str:
        about = f"'{self.name}' {self.shape}, {self._type[0]}"
        return values_html("tf.Variable", about, self.numpy())


def _remove(device: _core.Device, identifier: int) -> None:
    device.variable_remove(identifier)


if TYPE_CHECKING:

    class Value(Tensor):
        def __call__(self) -> Tensor: ...

else:

    class Value:
        """What a variable gives as its ``value``, called or not: a tensor.

        Args:
            variable: The variable.
        """

        __slots__ = ("_variable",)
        __array_priority__ = 100.0

        def __init__(self, variable: Variable) -> None:
            self._variable = variable

        def __call__(self) -> Tensor:
            return self._variable.__ipu_tensor__()

        __ipu_tensor__ = __call__

        def __getattr__(self, name: str) -> Any:
            return getattr(self(), name)

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
            return np.asarray(self().numpy(), dtype=dtype)

        def __repr__(self) -> str:
            return repr(self())


def _value_of(other: Any) -> Any:
    if isinstance(other, Variable):
        return other.value()
    return other() if isinstance(other, Value) else other


def _operator(name: str) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        return getattr(self.value(), name)(_value_of(other))

    method.__name__ = name
    return method


def _handed_on(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any) -> Any:
        return getattr(self(), name)(*map(_value_of, args))

    method.__name__ = name
    return method


for _name in (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow "
    "matmul rmatmul and rand or ror xor rxor lt le gt ge"
).split():
    setattr(Variable, f"__{_name}__", _operator(f"__{_name}__"))
    setattr(Value, f"__{_name}__", _handed_on(f"__{_name}__"))

for _name in "neg abs invert float int bool len getitem format".split():
    setattr(Value, f"__{_name}__", _handed_on(f"__{_name}__"))
