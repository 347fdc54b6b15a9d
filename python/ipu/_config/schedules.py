# SPDX-License-Identifier: MIT
"""The names of pipeline schedules."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Literal, TypeVar

from ipu._text.errors import UnimplementedError
from ipu._text.suggestions import hint

# for type checkers; names are taken in any case
ScheduleName = Literal[
    "Grouped",
    "Interleaved",
    "Sequential",
    "GPipe",
    "1F1B",
    "OneForwardOneBackward",
    "Interleaved1F1B",
    "InterleavedOneForwardOneBackward",
    "ZeroBubble",
    "grouped",
    "interleaved",
    "sequential",
    "gpipe",
    "1f1b",
    "zerobubble",
]

_Result = TypeVar("_Result")


class PipelineSchedule(Enum):
    """In which order the IPUs of a pipeline run its stages.

    All give the same numbers to the bit; they differ in time and in what they keep. N
    is the number of stages, M that of micro-batches (``gradient_accumulation_count``).
    ``docs/schedules.md`` shows the grid of each; :class:`ipu.Timetable` draws any.

    Attributes:
        Grouped: Each IPU runs the forward pass of one micro-batch and the backward pass
            of an older one in each time step: all forwards together, then all
            backwards. M is a multiple of 2N. The default.
        Interleaved: Forward and backward passes in turn; half as many activations are
            kept. M is a multiple of N.
        Sequential: One micro-batch at a time; for debugging. Any M.
        GPipe: All forward passes, then all backward ones; each stage keeps the
            activations of all micro-batches. Any M.
        OneForwardOneBackward: 1F1B: as many forwards first as there are stages after
            it, then one backward and one forward in turn. Any M.
        InterleavedOneForwardOneBackward: 1F1B over several stages on each IPU, dealt
            out in turn (``device_mapping=[0, 1, 0, 1]``). M is a multiple of the number
            of IPUs.
        ZeroBubble: 1F1B with each backward pass in two: the gradients of a stage's
            inputs at once, as the stage before waits for them, and those of its weights
            where the IPU would be idle (ZB-H1). Any M.

    The first three are those of Graphcore's API; the others are names of this package.

    Example:
        >>> PipelineSchedule.Interleaved.value
        1
        >>> PipelineSchedule.ZeroBubble.core_name
        'ZeroBubble'
        >>> PipelineSchedule.OneForwardOneBackward.core_name
        '1F1B'
    """

    Grouped = 0
    Interleaved = 1
    Sequential = 2
    GPipe = 3
    OneForwardOneBackward = 4
    InterleavedOneForwardOneBackward = 5
    ZeroBubble = 6

    @property
    def core_name(self) -> str:
        """The name in the core and in texts of schedules, as ``"1F1B"``."""
        return self.name.replace("OneForwardOneBackward", "1F1B")

    @classmethod
    def parse(cls, value: PipelineSchedule | str) -> PipelineSchedule:
        """Return the schedule of a name.

        Args:
            value: A member, or a name of it in any case: "grouped", "1F1B".

        Raises:
            ValueError: There is no such schedule.
            TypeError: It is not a name.

        Example:
            >>> PipelineSchedule.parse("1f1b").name
            'OneForwardOneBackward'
        """
        if isinstance(value, cls):
            return value
        if not isinstance(value, str):
            raise TypeError(
                "a pipeline schedule is a PipelineSchedule, its name or a Timetable, "
                f"but got {value!r} of type {type(value).__name__}"
            )
        for member in cls:
            if value.lower() in (member.name.lower(), member.core_name.lower()):
                return member
        names = [member.core_name for member in cls]
        known = ", ".join(map(repr, names))
        raise ValueError(
            f"there is no pipeline schedule {value!r}.{hint(value, names)} There are "
            f"{known}"
        )


def schedule_text(value: Any, training: bool) -> str:
    """Return what the core builds a schedule of: its name, or a timetable's whole text.

    Args:
        value: As for :meth:`PipelineSchedule.parse`; None is Grouped; or an
            :class:`ipu.Timetable`. A timetable of training says nothing of programs
            that do not train: they run under Grouped, and give the same numbers.
        training: Whether the program trains.

    Example:
        >>> schedule_text("1f1b", True), schedule_text(ipu.Timetable("1F1B"), False)
        ('1F1B', 'Grouped')
    """
    if is_timetable(value) and (training or not value.training):
        return str(value.grid)
    is_named = value is not None and not is_timetable(value)
    kinds = PipelineSchedule
    return (kinds.parse(value) if is_named else kinds.Grouped).core_name


def is_timetable(value: Any) -> bool:
    """Return whether it is an ``ipu.Timetable``, whose module is imported when it is
    used.

    Example:
        >>> is_timetable(ipu.Timetable()), is_timetable("1F1B")
        (True, False)
    """
    return hasattr(value, "grid") and not isinstance(value, type)


def call_core(build: Callable[..., _Result], *args: Any, **kwargs: Any) -> _Result:
    """Call a function of the core's schedules, with the exceptions of the API."""
    try:
        return build(*args, **kwargs)
    except UnimplementedError as error:
        raise NotImplementedError(error.message) from None
