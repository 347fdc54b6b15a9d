# SPDX-License-Identifier: MIT
"""IPUs as data, and how they would run a product: nothing is computed of it.

>>> bow = ipu.machine.Machine("bow")
>>> plan = bow.plan_matmul(1024, 1024, 1024, dtype="float16")
>>> plan.vertex, plan.tiles <= bow.tiles, plan.seconds < 1e-4
('amp', True, True)

The basis of a plan's numbers, and how far they are from measurements, are in the page
"The machine" of the documentation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ipu import _core
from ipu._config.target import Target, chip_values, target_of
from ipu._reports.machine_account import Account as Account
from ipu._text.arguments import as_int, as_ints
from ipu._text.exports import export
from ipu._text.tables import as_text

__all__ = ["Account", "Machine", "ProductPlan", "estimate", "last_account"]

_DIMS = ("batch", "rows", "columns", "groups", "kernel", "in", "out")
_PRECISIONS = {
    ("float16", "float16"): 0,
    ("float16", "float32"): 1,
    ("float32", "float32"): 2,
}


@dataclass(frozen=True)
class ProductPlan:
    """Say how a product is spread over the tiles of an IPU, and what it takes.

    Attributes:
        machine: The machine that it was planned for.
        vertex: The unit that multiplies on a tile: "amp", the matrix unit; "slic", the
            same for groups of few channels; "vmac", vectors of groups of one channel;
            "hmac", dot products; "outer", multiplications. All but the first are
            estimates by instructions, without measurements.
        parts: Into how many parts each dimension is split, in parallel: "batch",
            "rows" and "columns" of the result, "groups", rows of the "kernel", "in"
            and "out", the channels. Positions of a 1x1 kernel count as rows.
        serial: How many parts of "in" and "out" run after each other.
        expanded: The kernel's axes ("rows", "columns") whose positions are input
            channels: few channels leave the matrix unit idle.
        cycles: Of all, with the machine's ``slowdown``.
        cycles_by: The cycles of its steps before that factor: "inputs", "weights" and
            "partials" are exchanges; "arithmetic"; "reduction" of partial sums or
            their cast; "copies" into other orders and of serial parts, with their
            starts; "overheads" are all other syncs and starts.
        bytes: Of the fullest tile while it runs, beside operands and result.
        flops: Multiplications and additions, padding not counted.

    Example:
        >>> plan = ipu.machine.Machine("gc2").plan_matmul(64, 64, 64)
        >>> sorted(plan.parts)
        ['batch', 'columns', 'groups', 'in', 'kernel', 'out', 'rows']
    """

    machine: Machine
    vertex: str
    parts: dict[str, int]
    serial: dict[str, int]
    expanded: tuple[str, ...]
    cycles: float
    cycles_by: dict[str, float]
    bytes: int
    flops: int

    @property
    def tiles(self) -> int:
        """Give the number of tiles that it uses.

        Example:
            >>> ipu.machine.Machine("gc2", tiles=1).plan_matmul(64, 64, 64).tiles
            1
        """
        return math.prod(self.parts.values())

    @property
    def seconds(self) -> float:
        """Give the time that it takes.

        Example:
            >>> plan = ipu.machine.Machine("gc2").plan_matmul(64, 64, 64)
            >>> plan.seconds == plan.cycles / 1.6e9
            True
        """
        return self.cycles / self.machine.clock

    def __str__(self) -> str:
        splits = ", ".join(f"{k} {n}" for k, n in self.parts.items() if n > 1)
        splits += "".join(
            f", {k} {n} after each other" for k, n in self.serial.items() if n > 1
        )
        splits += "".join(f", kernel {axis} as channels" for axis in self.expanded)
        head = (
            f"{self.vertex} on {self.tiles} of {int(self.machine.tiles)} tiles "
            f"({splits or 'no split'}), {self.bytes} bytes a tile, "
            f"{self.flops / self.seconds / 1e12:.1f} TFLOP/s"
        )
        rows = [["step", "cycles"]]
        rows += [[name, f"{cycles:.0f}"] for name, cycles in self.cycles_by.items()]
        rows.append([f"all, times {self.machine.slowdown:g}", f"{self.cycles:.0f}"])
        return f"{head}\n{as_text(rows, left=1)}"


class Machine:
    """Describe an IPU, as it is sold or as it might be.

    Args:
        name: "gc2" (Mk1), "gc200" (Mk2), "bow" or "c600".
        **fields: Other values of fields, for an IPU that does not exist:
            ``Machine("bow", tiles=2944)``. ``Machine.fields()`` lists them.

    Raises:
        TypeError: A field is not a number, or there is none of that name.
        ValueError: There is no such machine, or a field's value is out of its range.

    Example:
        >>> ipu.machine.Machine("bow", tiles=2944)
        Machine('bow', tiles=2944)
        >>> ipu.machine.Machine("gc2").clock
        1600000000.0
    """

    def __init__(self, name: str = "gc200", **fields: float) -> None:
        values = chip_values(name, fields)
        self._name = name
        self._changes = fields
        self._values = values
        self._chip = tuple(values.values())
        self.plan_matmul(1, 1, 1)  # which checks the values

    def __getattr__(self, field: str) -> float:
        try:
            return self.__dict__["_values"][field]  # type: ignore[no-any-return]
        except KeyError:
            message = f"'Machine' object has no attribute {field!r}"
            raise AttributeError(message, name=field, obj=self) from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._values]

    def __repr__(self) -> str:
        shown = {k: f"{v:.15g}" for k, v in self._changes.items()}
        changes = "".join(f", {k}={v}" for k, v in shown.items())
        return f"Machine({self._name!r}{changes})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Machine) and other._chip == self._chip

    def __hash__(self) -> int:
        return hash(self._chip)

    @staticmethod
    def fields() -> dict[str, tuple[str, str]]:
        """Return the unit of each field, and the source of its values.

        Example:
            >>> ipu.machine.Machine.fields()["tile_bytes"]
            ('bytes', 'data sheet')
        """
        return {field: (unit, source) for field, unit, source in _core.machine_fields()}

    def plan_matmul(
        self,
        rows: int,
        inner: int,
        columns: int,
        *,
        batch: int = 1,
        dtype: str = "float32",
        partials: str | None = None,
        available_memory: float = 0.6,
    ) -> ProductPlan:
        """Plan ``batch`` products of ``[rows, inner]`` and ``[inner, columns]``.

        Args:
            rows: Rows of the first operand.
            inner: Columns of the first and rows of the second operand.
            columns: Columns of the second operand.
            batch: How many products of this shape.
            dtype: Of the operands: "float16" or "float32".
            partials: Of sums: "float32", or "float16" where the operands are; None
                for "float32".
            available_memory: The share of a tile's memory that the plan may take
                (``availableMemoryProportion``). Where no plan fits, it is doubled until
                one does or it exceeds two tiles, and is then dropped.

        Raises:
            ValueError: A size is less than 1, the dtypes do not go together, or the
                share of memory is not from 0 to 1.
            TypeError: A size is not an integer.

        Example:
            >>> gc2 = ipu.machine.Machine("gc2")
            >>> plan = gc2.plan_matmul(2048, 2048, 2048, dtype="float16")
            >>> 50e12 < plan.flops / plan.seconds < 70e12  # 58.9 was measured
            True
        """
        sizes = {"rows": rows, "inner": inner, "columns": columns, "batch": batch}
        m, k, n, groups = _checked(sizes)
        shape = (1, groups, k, n, (m, 1), (m, 1), (1, 1), (1, 1))
        return self._plan(shape, dtype, partials, available_memory)

    def plan_convolution(
        self,
        input_shape: Sequence[int],
        kernel_shape: Sequence[int],
        *,
        strides: int | Sequence[int] = 1,
        padding: str = "same",
        groups: int = 1,
        dtype: str = "float32",
        partials: str | None = None,
        available_memory: float = 0.6,
    ) -> ProductPlan:
        """Plan a convolution of images.

        Args:
            input_shape: ``[batch, rows, columns, channels]``.
            kernel_shape: ``[rows, columns, channels of a group, filters]``.
            strides: One for both axes, or two.
            padding: "same" or "valid".
            groups: Into how many groups the channels fall; a depthwise convolution has
                one for each channel.
            dtype: As for :meth:`plan_matmul`, like the two that follow.
            partials: See there.
            available_memory: See there.

        Raises:
            ValueError: A size is less than 1, sizes do not go together, or the dtypes
                do not.
            TypeError: A size is not an integer.

        Example:
            >>> gc2 = ipu.machine.Machine("gc2")
            >>> plan = gc2.plan_convolution(
            ...     [4, 56, 56, 64], [3, 3, 64, 64], dtype="float16"
            ... )
            >>> 15e-6 < plan.seconds < 19e-6  # 17.0 us were measured
            True
        """
        names = ("batch", "rows", "columns", "channels")
        batch, height, width, channels = _shape("input_shape", input_shape, names)
        names = ("rows", "columns", "channels", "filters")
        kernel = _shape("kernel_shape", kernel_shape, names)
        stride = as_ints(strides)
        stride = (stride, stride) if isinstance(stride, int) else stride
        steps = _shape("strides", stride, ("rows", "columns"))
        (count,) = _checked({"groups": groups})
        if kernel[2] * count != channels or kernel[3] % count:
            raise ValueError(
                f"{channels} channels in {count} groups need a kernel of "
                f"{channels / count:g} channels, and filters that {count} divides. "
                f"Received: kernel_shape {list(kernel_shape)}."
            )
        if padding not in ("same", "valid"):
            raise ValueError(
                f"`padding` must be 'same' or 'valid'. Received: {padding!r}."
            )
        sizes = (height, width)
        if padding == "same":
            field = tuple(-(-n // s) for n, s in zip(sizes, steps, strict=True))
        else:
            field = tuple(
                (n - k) // s + 1
                for n, k, s in zip(sizes, kernel[:2], steps, strict=True)
            )
        if min(field) < 1:
            raise ValueError(
                f"A kernel of {kernel[0]}x{kernel[1]} does not fit into "
                f"{height}x{width}. Use padding='same' or a smaller kernel."
            )
        filters = kernel[3] // count
        shape = (batch, count, kernel[2], filters, field, sizes, kernel[:2], steps)
        return self._plan(shape, dtype, partials, available_memory)

    def exchange(
        self, pattern: str, tiles: int, message_bytes: float, *, ipus: int = 1
    ) -> float:
        """Return the cycles of an exchange between tiles, with its synchronisation.

        Args:
            pattern: "copy", from one tile to another, of any number of pairs; "gather",
                from all to one; "scatter", from one to all, to each another message;
                "broadcast", from one to all, the same message; "all_to_all".
            tiles: How many of each IPU take part.
            message_bytes: The bytes of a message.
            ipus: How many IPUs take part, in a ladder of pairs, as far from each other
                as these lie; "all_to_all" is known of one alone.

        Raises:
            ValueError: There is no such pattern, or a number is less than 1.
            TypeError: ``tiles`` or ``ipus`` is not an integer.

        Source: Jia and others, arXiv:1912.03413, measured on a GC2.

        Example:
            >>> gc2 = ipu.machine.Machine("gc2")
            >>> gc2.exchange("gather", 1216, 4) / gc2.clock  # 0.835 us were measured
            8.3375e-07
        """
        count, chips = _checked({"tiles": tiles, "ipus": ipus})
        if pattern == "all_to_all" and chips > 1:
            raise ValueError(
                f"The cycles of all to all are known of one IPU alone. Received: "
                f"ipus={ipus}."
            )
        if not message_bytes >= 1:
            raise ValueError(
                f"`message_bytes` must be at least 1. Received: {message_bytes}."
            )
        return _core.machine_exchange(
            self._chip, pattern, float(count), float(message_bytes), float(chips)
        )

    def _plan(
        self,
        shape: tuple[Any, ...],
        dtype: str,
        partials: str | None,
        available_memory: float,
    ) -> ProductPlan:
        kinds = (str(dtype), str(partials or "float32"))
        if kinds not in _PRECISIONS:
            known = ", ".join(f"{a} with {b}" for a, b in _PRECISIONS)
            raise ValueError(
                f"There are no products of {kinds[0]} with partial sums of {kinds[1]}: "
                f"`dtype` with `partials` is one of {known}."
            )
        _check_share(available_memory)
        product = (_PRECISIONS[kinds], *shape)
        vertex, parts, serial, axes, cost = _core.machine_plan_product(
            self._chip, product, available_memory
        )
        batch, groups, k, n, field, _, kernel, _ = shape
        cycles = cost.pop("cycles")
        size = int(cost.pop("bytes"))
        return ProductPlan(
            machine=self,
            vertex=vertex,
            parts=dict(zip(_DIMS, parts, strict=True)),
            serial=dict(zip(("in", "out"), serial, strict=True)),
            expanded=tuple(
                name for i, name in enumerate(("rows", "columns")) if axes >> i & 1
            ),
            cycles=cycles,
            cycles_by=cost,
            bytes=size,
            flops=2 * batch * groups * k * n * math.prod(field) * math.prod(kernel),
        )


def estimate(
    function: Callable[..., Any],
    *specs: Any,
    machine: Machine | str | None = None,
    samples: int | None = None,
    replicas: int = 1,
    partials: str | None = None,
    available_memory: float | None = None,
) -> Account:
    """Tell what a function would cost on an IPU, without running it.

    The function is traced as ``tf.function`` traces it, its gradients included. What it
    costs is read off its graph as it stands before anything is fused for the CPU.

    Args:
        function: A function, a ``tf.function``, or a model that is built.
        *specs: Its arguments: for each tensor a ``tf.TensorSpec``, a tensor or an
            array, whose values do not count; other arguments as they are.
        machine: A machine or its name; None for the one that ``IPU_MACHINE`` or
            ``IPUConfig.ipu_model`` names, else "gc200".
        samples: How many samples a call takes, for the rate; None for the first size of
            the first tensor, or of the elements of an infeed times how many it takes.
        replicas: How many replicas of the program run, each on IPUs of its own: their
            samples add up, and collectives take their time.
        partials: The dtype of sums of products of float16: "float32" or "float16"; None
            for what ``matmuls`` and ``convolutions`` of the ``IPUConfig`` say, else
            "float32".
        available_memory: The share of a tile that a product's plan may take; None
            for what they say, else 0.6.

    Raises:
        ValueError: A shape is not known, or an option is out of its range.

    Example:
        >>> model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(10)])
        >>> spec = tf.TensorSpec([32, 64])
        >>> account = ipu.machine.estimate(model, spec, machine="bow")
        >>> list(account.by_op()), account.samples
        (['matmul', 'add'], 32)
    """
    # tracing imports most of the package, which plans of products do not need
    from ipu._reports.machine_account import check_sizes
    from ipu.tf import TensorSpec, nest
    from ipu.tf._functions.tracing import trace_alone

    if not callable(function):
        raise TypeError(f"`function` must be callable. Received: {function!r}.")
    chosen, target = _plan_options(machine, partials, available_memory)

    def as_spec(given: Any) -> Any:
        if isinstance(given, TensorSpec) or not hasattr(given, "dtype"):
            return given
        return TensorSpec(given.shape, given.dtype)

    arguments = nest.map_structure(as_spec, list(specs))
    given = [s for s in nest.flatten(arguments) if isinstance(s, TensorSpec)]
    check_sizes(given)
    (count,) = _checked({"replicas": replicas})
    trace = trace_alone(function, arguments)
    request = target.request(1, True, count, chosen._chip)
    found = trace.account(request)
    if samples is None and given and len(given[0].shape):
        samples = int(given[0].shape[0])

    def find_fixes(account: Account) -> list[Any]:
        from ipu._reports.doctor import fixes_of_options

        how: dict[str, Any] = {
            "machine": chosen,
            "samples": samples,
            "replicas": count,
            "partials": partials,
            "available_memory": available_memory,
        }
        return fixes_of_options(
            account, request, lambda **new: estimate(function, *specs, **{**how, **new})
        )

    all_samples = None if samples is None else samples * count
    return Account(chosen, found, all_samples, count, find_fixes)


def last_account(machine: Machine | str | None = None, **options: Any) -> Account:
    """Tell what the last program that ran on a device would cost on an IPU.

    Of a model's ``fit``, ``evaluate`` or ``predict`` it is a step; of a ``tf.function``
    a call with arguments like those of the last one. The program is traced again, as
    its function, or the model, is now.

    Args:
        machine: As for :func:`estimate`.
        **options: Further options of :func:`estimate`.

    Raises:
        RuntimeError: No program has run, or what it was made of is gone.

    Example:
        >>> square = tf.function(lambda x: x @ x)
        >>> _ = square(tf.ones((64, 64)))
        >>> ipu.machine.last_account("bow").by_op().keys()
        dict_keys(['matmul'])
    """
    from ipu.tf._functions.tracing import last_run

    build = None if last_run.build is None else last_run.build()
    if build is None or build.account is None:
        raise RuntimeError(
            "No program has run that has an account, or it is no longer there. Call a "
            "tf.function, or fit, evaluate or predict of a model, first."
        )
    found: Account = build.account(machine=machine, **options)
    return found


def _plan_options(
    machine: Machine | str | None,
    partials: str | None = None,
    available_memory: float | None = None,
) -> tuple[Machine, Target]:
    """Return the machine that an account is for, and how it plans products; see
    :func:`estimate`."""
    from ipu._device.devices import current_layout

    layout = current_layout()
    target = target_of(None if layout is None else layout.options)
    if isinstance(machine, Machine):
        chosen = machine
    else:
        chosen = (
            Machine(target.name, **target.fields)
            if machine is None
            else Machine(machine)
        )
    if partials is not None:
        if partials not in ("float32", "float16"):
            raise ValueError(
                f"`partials` must be 'float32' or 'float16'. Received: {partials!r}."
            )
        target = target._replace(halves=(partials == "float16",) * 2)
    if available_memory is not None:
        _check_share(available_memory)
        share = float(available_memory)
        target = target._replace(shares=(share, share, target.shares[2]))
    return chosen, target


def _check_share(available_memory: Any) -> None:
    if isinstance(available_memory, bool) or not isinstance(
        available_memory, (int, float)
    ):
        raise TypeError(
            f"`available_memory` must be a number. Received: {available_memory!r}."
        )
    if not 0 < available_memory <= 1:
        raise ValueError(
            "`available_memory` must be more than 0 and at most 1: it is a share of a "
            f"tile's memory. Received: {available_memory}."
        )


def _checked(sizes: dict[str, Any]) -> list[int]:
    found = []
    for name, given in sizes.items():
        size = as_int(given)
        if not isinstance(size, int) or isinstance(size, bool):
            raise TypeError(f"`{name}` must be an integer. Received: {given!r}.")
        if size < 1:
            raise ValueError(f"`{name}` must be at least 1. Received: {size}.")
        found.append(size)
    return found


def _shape(argument: str, given: Any, names: tuple[str, ...]) -> tuple[int, ...]:
    try:
        sizes = tuple(given)
    except TypeError:
        sizes = ()
    if isinstance(given, str) or len(sizes) != len(names):
        wanted = ", ".join(names)
        raise ValueError(f"`{argument}` must be [{wanted}]. Received: {given!r}.")
    pairs = zip(names, sizes, strict=True)
    return tuple(_checked({f"{argument}: {name}": size for name, size in pairs}))


export(__name__)
