# SPDX-License-Identifier: MIT
"""``threestate_pb2``: on, off or undefined, as the port's messages spell it."""

from __future__ import annotations

import enum

from ipu._text.exports import defined


class _State(enum.IntEnum):
    THREESTATE_OFF = 0
    THREESTATE_ON = 1
    THREESTATE_UNDEFINED = 2


THREESTATE_OFF = int(_State.THREESTATE_OFF)
THREESTATE_ON = int(_State.THREESTATE_ON)
THREESTATE_UNDEFINED = int(_State.THREESTATE_UNDEFINED)


class ThreeState:
    """Names and numbers of the states."""

    THREESTATE_OFF = THREESTATE_OFF
    THREESTATE_ON = THREESTATE_ON
    THREESTATE_UNDEFINED = THREESTATE_UNDEFINED

    @staticmethod
    def Name(number: int) -> str:
        """Return the name of a state.

        Raises:
            ValueError: There is no such state.

        Example:
            >>> ThreeState.Name(THREESTATE_ON)
            'THREESTATE_ON'
        """
        return _State(number).name

    @staticmethod
    def Value(name: str) -> int:
        """Return the number of a state.

        Raises:
            ValueError: There is no such state.

        Example:
            >>> ThreeState.Value("THREESTATE_UNDEFINED")
            2
        """
        if name not in _State.__members__:
            raise ValueError(f"{name!r} is not one of {', '.join(_State.__members__)}.")
        return int(_State[name])

    @staticmethod
    def keys() -> list[str]:
        """Return the names."""
        return list(_State.__members__)

    @staticmethod
    def values() -> list[int]:
        """Return the numbers."""
        return [int(state) for state in _State]


__all__ = defined(__name__, ["THREESTATE_OFF", "THREESTATE_ON", "THREESTATE_UNDEFINED"])
